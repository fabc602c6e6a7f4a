"""Every door to what PyTorch keeps private, and the one module that opens any.

Each gives what no public name gives, or not as fast, and says what stands in its place
where a release has closed it. All are open in every release from 2.6, the oldest that was
tried, to 2.13, unless a door says otherwise. ``tests/test_torch.py`` opens each of them and
closes those that have another way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch._decomp import decomposition_table
from torch.autograd.graph import Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

try:
    from torch.autograd.graph import _engine_run_backward as _run_engine
except ImportError:  # pragma: no cover - its test takes it away
    _run_engine = None  # type: ignore[assignment]

__all__ = [
    "TorchDispatchMode",  # sees each operation; has no public path
    "accumulated_leaf",
    "all_tensors",
    "apply_to_rows",
    "cotangent_bytes",
    "decomposition",
    "hook_count",
    "in_transform",
    "pytree",  # nested tuples, lists and dicts, and paths in them
    "saved_tensors_of",
    "schema",
    "storage_key",
    "tensor_hooks",
    "unwrap",
    "variant",
    "vector_jacobian",
    "version",
]


# --- products -------------------------------------------------------------------------


def vector_jacobian(
    ys: Sequence[Tensor], vs: Sequence[Tensor], xs: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Return v^T J for each x, None where no path leads, from a graph that stays.

    The engine itself does without the checks of the vs that :func:`torch.autograd.grad`
    makes first, a third of the time of a small product. Without it that function is called.
    """
    if _run_engine is None:
        return torch.autograd.grad(
            ys, xs, vs, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    return _run_engine(
        tuple(ys),
        grad_tensors=tuple(vs),
        keep_graph=True,
        create_graph=create_graph,
        inputs=tuple(xs),
        allow_unreachable=True,
        accumulate_grad=False,
    )


#: What a release must have for :func:`apply_to_rows` to do as :func:`torch.func.vmap` does.
LEVELS = (
    "_vmap_increment_nesting",
    "_vmap_decrement_nesting",
    "_add_batch_dim",
    "_remove_batch_dim",
)


def apply_to_rows(
    product: Callable[..., tuple[Tensor, ...]], seeds: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Apply ``product`` to all rows of the seeds at once.

    What :func:`torch.func.vmap` does to tensors, without its handling of nested
    arguments, which takes longer than a small product. (Not ``is_grads_batched``, whose
    older vmap takes many operations one by one.) Without it that function is called.
    """
    if not all(hasattr(_functorch, name) for name in LEVELS):
        return torch.func.vmap(product, randomness="same")(*seeds)
    count = seeds[0].shape[0]
    level = _functorch._vmap_increment_nesting(count, "same")
    try:
        rows = product(*[_functorch._add_batch_dim(seed, 0, level) for seed in seeds])
        return tuple([_functorch._remove_batch_dim(r, level, count, 0) for r in rows])
    finally:
        _functorch._vmap_decrement_nesting()


def in_transform() -> bool:
    """Tell whether a transform of :mod:`torch.func` is running; there is no other way."""
    return torch._C._are_functorch_transforms_active()


def unwrap(t: Tensor) -> Tensor:
    """Return the tensor inside those of the transforms; there is no other way."""
    while _functorch.is_functorch_wrapped_tensor(t):
        t = _functorch.get_unwrapped(t)
    return t


# --- nodes of the graph ---------------------------------------------------------------


def accumulated_leaf(node: Node) -> Tensor | None:
    """Return the leaf that a node accumulates into, None of an operation."""
    return getattr(node, "variable", None)


def saved_tensors_of(node: Node) -> list[Tensor]:
    """Return the tensors that a node keeps, as packed, or none once they are freed.

    Since 2.7 or later ``_raw_saved_*`` shows what is packed. Before, they are unpacked,
    which runs the unpack hooks of saved tensors.
    """
    tensors: list[Tensor | None] = []
    try:
        for attribute in dir(node):
            if attribute.startswith("_raw_saved_"):
                raw = getattr(node, attribute)
                if not all(hasattr(part, "data") for part in _parts(raw)):
                    tensors += _parts(getattr(node, attribute.removeprefix("_raw")))
                else:
                    tensors += [part.data for part in _parts(raw)]
    except RuntimeError:  # freed: backward is about to say so
        return []
    return [t for t in tensors if t is not None]


def _parts(saved: Any) -> Sequence[Any]:
    return saved if isinstance(saved, tuple | list) else (saved,)


def cotangent_bytes(node: Node) -> list[int]:
    """Return the size of what each output of the node's operation sends back.

    Without ``_input_metadata`` nothing is known, and nothing counted.
    """
    known = getattr(node, "_input_metadata", ())
    return [torch.Size(t.shape).numel() * t.dtype.itemsize for t in known]


def hook_count(handle: RemovableHandle) -> int:
    """Return how many hooks of its kind there are where the handle's is, with it.

    Without ``hooks_dict_ref`` only the handle's own is known.
    """
    if not hasattr(handle, "hooks_dict_ref"):
        return 1
    return len(handle.hooks_dict_ref() or ())


# --- tensors --------------------------------------------------------------------------


def tensor_hooks(t: Tensor) -> tuple[int, int]:
    """Return how many tensor hooks t has, and how many for after accumulation.

    Without ``_backward_hooks`` and ``_post_accumulate_grad_hooks`` none are known.
    """
    before, after = "_backward_hooks", "_post_accumulate_grad_hooks"
    return len(getattr(t, before, None) or ()), len(getattr(t, after, None) or ())


def version(t: Tensor) -> int:
    """Return how often t was written into; there is no other way.

    A tensor made under :func:`torch.inference_mode` counts no versions.
    """
    return 0 if t.is_inference() else t._version


def storage_key(t: Tensor) -> int:
    """Return the same number for all tensors of one storage; there is no other way.

    (``data_ptr()`` is 0 for all without memory: empty ones, and those on meta.)
    """
    key: int = t.untyped_storage()._cdata
    return key


def all_tensors() -> list[Tensor]:
    """Return every tensor that Python knows of.

    They refer to their classes, so that ``gc.get_referrers`` finds them; in 2.6 those that
    C++ holds as well say nothing to it, and are looked for among all objects. (A list of
    those holds tuples, too, also one that a function in C is filling in another thread;
    that function fails when it is not the only owner.)
    """
    kinds: list[type] = [Tensor]
    for kind in kinds:
        kinds += kind.__subclasses__()
    probe = torch.empty(0, device="cpu")
    view = probe.view(0)  # whose part in C++ holds the probe
    found = _tensors_in(gc.get_referrers(*kinds))
    if not any(t is probe for t in found):
        found = _tensors_in(gc.get_objects())
    return [t for t in found if t is not probe and t is not view]


def _tensors_in(objects: Sequence[object]) -> list[Tensor]:
    # type(), for isinstance() wakes deprecated proxies among the objects
    return [o for o in objects if issubclass(type(o), Tensor)]  # type: ignore[misc]


# --- operations -----------------------------------------------------------------------


def schema(func: Any) -> Any:
    """Return the arguments and results of an operation, and what it writes."""
    return func._schema


def variant(func: Any, name: str) -> Any:
    """Return the operation of another name and the same overload, or None."""
    return getattr(getattr(torch.ops.aten, name, None), func._overloadname, None)


def decomposition(func: Any) -> Callable[..., Any] | None:
    """Return the operation written as simpler ones, or None where it has no such form.

    The table that torch itself uses, larger than that of
    :func:`torch.export.default_decompositions`.
    """
    table: Mapping[Any, Callable[..., Any]] = decomposition_table
    return table.get(func)
