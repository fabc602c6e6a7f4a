"""Which parameter was changed, where backward finds one that it needs changed."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import walk_tb
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from pullback._torch import accumulated_leaf, asked_by, part_of_torch, storage_key, version
from pullback._watch.edits import TOLD, edited_node, engine_frame
from pullback._watch.log import keys_of


def changed_parameter(error: BaseException) -> str | None:
    """Return what changed which parameter, as the beginning of a sentence.

    A leaf of the graph can only have been written to where gradients were off, as an
    optimizer does it. Names are those of the program's own frames, from the one that
    handles the error to the one that raised it.

    Args:
        error: "one of the variables ... has been modified by an inplace operation".

    Returns:
        None if what was changed is no leaf, or is not to be told.
    """
    engine = engine_frame(error.__traceback__)
    found = edited_node(asked_by(engine).roots) if engine else None
    told = TOLD.search(str(error))
    leaf = found and _saved_leaf(found[0], found[2], told[1] if told else "")
    if leaf is None:
        return None
    values = dict(_in_sight(error.__traceback__))
    stepped = [o for o in values.values() if _is_of_kind(o, Optimizer) and _holds(o, leaf)]
    writer = (
        f"`{type(stepped[0]).__name__}.step()`" if stepped else "An update under no_grad"
    )
    return f"{writer} changed {_named(leaf, values)}, of shape {tuple(leaf.shape)},"


def _saved_leaf(node: Any, saved: list[Tensor | None], shape: str) -> Tensor | None:
    """Return the leaf whose numbers a node had saved, itself or turned (``weight.T``).

    Where a release does not give what was saved, the shape tells.
    """
    leaves = [
        leaf
        for near in _input_nodes(node)
        if (leaf := accumulated_leaf(near)) is not None and version(leaf)
    ]
    keys = keys_of(saved)
    if keys:
        return next((leaf for leaf in leaves if storage_key(leaf) in keys), None)
    fits = [p for p in leaves if shape in (str([*p.shape]), str([*reversed(p.shape)]))]
    return fits[0] if len({id(leaf) for leaf in fits}) == 1 else None


def _input_nodes(node: Any) -> list[Any]:
    """Return the nodes of the inputs of an operation, through one that turns them."""
    inputs = [i for i, _ in node.next_functions if i]
    return inputs + [i for near in inputs for i, _ in near.next_functions if i]


def _in_sight(traceback: TracebackType | None) -> Iterator[tuple[str, Any]]:
    """Yield the variables of the program's frames, and the attributes of each ``self``."""
    for frame, _ in walk_tb(traceback):
        if not part_of_torch(frame.f_code.co_filename):
            yield from frame.f_globals.items()
            yield from frame.f_locals.items()
            own = frame.f_locals.get("self")
            yield from ((f"self.{n}", v) for n, v in getattr(own, "__dict__", {}).items())


def _named(leaf: Tensor, values: dict[str, Any]) -> str:
    """Return the name of a leaf: in a module, or its variable's."""
    for variable, value in values.items():
        if _is_of_kind(value, Module):
            for name, parameter in value.named_parameters():
                if parameter is leaf:
                    return f"the parameter `{name}` of `{variable}`"
    names = [variable for variable, value in values.items() if value is leaf]
    return f"the parameter `{names[0]}`" if names else "a parameter"


def _holds(optimizer: Any, leaf: Tensor) -> bool:
    return any(
        p is leaf
        for group in getattr(optimizer, "param_groups", ())  # a wrapper may have none
        for p in group["params"]
    )


def _is_of_kind(value: Any, kind: type) -> bool:
    """Tell the kind of a stranger's object without asking the object, which may be lazy."""
    return issubclass(type(value), kind)
