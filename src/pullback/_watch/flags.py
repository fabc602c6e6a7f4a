"""Which modules have an attribute ``requires_grad``, and whether anything reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Module

from pullback._shared import Shared
from pullback._watch.findings import Site

NAME = "requires_grad"


@dataclass(eq=False)
class Flag:
    """An attribute ``requires_grad`` of a module, which torch does not look at.

    Attributes:
        value: What it was set to.
        site: The line that set it; None where it was set before the block.
        against: The parameters of the module that said otherwise then.
        own: Whether the module itself may have set it, as an option that others read.
        used: Whether it was read since by a module, or by anybody if it is its own.
    """

    value: bool
    site: Site | None
    against: Sequence[Tensor]
    own: bool = True
    used: bool = False


def flag_of(module: Module) -> Flag | None:
    """Return the flag of a module that has such an attribute, and is made already."""
    value = vars(module).get(NAME)
    if type(value) is not bool or "_parameters" not in vars(module):
        return None
    against = [p for p in module.parameters() if p.requires_grad is not value]
    return Flag(value, None, against)


def flags_inside(root: Module) -> Iterator[tuple[Module, Flag]]:
    """Yield the parts whose flag was set unseen, and is not what their parameters say."""
    for part in root.modules():
        kinds = [kind for kind in type(part).__mro__ if kind is not Module]
        declared = any(NAME in vars(kind) for kind in kinds)
        flag = None if declared else flag_of(part)
        if flag is not None and len(flag.against) == len([*part.parameters()]):
            yield part, flag


def method_of(frame: FrameType | None) -> Module | None:
    """Return the module of which a frame runs a method, if it does so."""
    of = frame.f_locals.get("self") if frame is not None else None
    return of if isinstance(of, Module) else None


class Listener(NamedTuple):
    """What is told of each module whose attribute is set, taken away or read."""

    was_set: Callable[[Module], None]
    was_read: Callable[[Module], None]


def flags_seen(listener: Listener) -> AbstractContextManager[None]:
    """Tell of the attribute of all modules in this block; there is no hook for it.

    The first block puts a descriptor on the class of modules; the last one takes it away.
    """
    return _SEEN.block(listener)


@contextmanager
def _telling_attribute() -> Iterator[None]:
    if not hasattr(Module, NAME):
        setattr(Module, NAME, _Attribute())
    try:
        yield
    finally:
        if isinstance(vars(Module).get(NAME), _Attribute):
            delattr(Module, NAME)


_SEEN = Shared[Listener](_telling_attribute)


class _Attribute:
    """Keeps the attribute where Python does, and stands behind what a class has itself."""

    def __get__(self, module: Module | None, kind: type[Module]) -> Any:
        if module is None or NAME not in vars(module):
            raise AttributeError(f"type object {kind.__name__!r} has no attribute {NAME!r}")
        for listener in (*_SEEN.given,):
            listener.was_read(module)
        return vars(module)[NAME]

    def __set__(self, module: Module, value: Any) -> None:
        vars(module)[NAME] = value
        for listener in (*_SEEN.given,):
            listener.was_set(module)

    def __delete__(self, module: Module) -> None:
        if NAME not in vars(module):
            raise AttributeError(NAME)
        del vars(module)[NAME]
        for listener in (*_SEEN.given,):
            listener.was_set(module)
