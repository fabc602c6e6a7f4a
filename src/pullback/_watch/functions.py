"""Custom Functions: whose forward runs, and what their backward reads and returns."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._frames import frames
from pullback._torch import function_of
from pullback._watch.findings import Site
from pullback._watch.frames import is_own


class Function(NamedTuple):
    """A custom Function.

    Attributes:
        name: Its name.
        nothing: The line on which its backward returns None, if there is one.
        kind: Its class.
    """

    name: str
    nothing: Site | None
    kind: type[torch.autograd.Function]


class Running(NamedTuple):
    """A custom Function whose forward runs.

    Attributes:
        function: Which it is.
        arguments: The tensors that ``apply`` was given, by ``id``.
    """

    function: Function
    arguments: frozenset[int]


def running() -> Running | None:
    """Return the custom Function whose forward this is part of, if any."""
    for frame in frames():
        function = _function_with(frame.f_code)
        if function is not None:
            given = _given(frame)
            kind = function_of(given[0]) if _has_context(function.kind) else None
            if kind is not None and kind is not function.kind:  # which inherits forward
                function = _described(kind)
            tensors = (value for value in given if isinstance(value, Tensor))
            return Running(function, frozenset(map(id, tensors)))
    return None


#: What a Function was called with: each value, and whether it required a gradient.
Arguments = list[tuple[Any, bool]]


@dataclass
class Calls:
    """The calls of a custom Function whose arguments are compared with differences.

    They are the first one and two late ones: in the first, weights are often all 1 or 0,
    and there a wrong backward can be right.

    Attributes:
        count: How many calls there were.
        kept: What it was called with.
    """

    count: int = 0
    kept: list[Arguments] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether the arguments of the last call are kept, as of each power of two."""
        return self.count & (self.count - 1) == 0

    def keep(self, arguments: Arguments) -> None:
        """Keep the arguments of one call more, and no more than three in all."""
        self.kept = [*self.kept[:1], *self.kept[1:][-1:], arguments]


def copied_arguments() -> Arguments:
    """Return copies of what the custom Function is called with whose forward this is in."""
    for frame in frames():
        function = _function_with(frame.f_code)
        if function is not None:
            given = _given(frame)[_has_context(function.kind) :]
            return [
                (value.detach().clone(), value.requires_grad)
                if isinstance(value, Tensor)
                else (value, False)
                for value in given
            ]
    return []


def parameters_of(kind: Any, count: int) -> list[str]:
    """Return what forward calls its arguments, of which there are so many."""
    code = inspect.unwrap(kind.forward).__code__
    names = list(code.co_varnames[_has_context(kind) : code.co_argcount])
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:1]
    names += [f"{''.join(rest)}[{i}]" for i in range(count - len(names))]
    return names


def _has_context(kind: Any) -> bool:
    """Tell whether forward takes a context; one with ``setup_context`` does not."""
    return kind.setup_context is torch.autograd.Function.setup_context


def _given(frame: FrameType) -> list[Any]:
    code, values = frame.f_code, frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return given


@functools.lru_cache(maxsize=1024)
def _function_with(code: CodeType) -> Function | None:
    """Return the custom Function whose forward is this code, if any.

    (``apply``, which calls it, has no frame of Python since 2.15.)
    """
    kinds: list[type[torch.autograd.Function]] = [torch.autograd.Function]
    for kind in kinds:
        kinds += kind.__subclasses__()
        forward = inspect.unwrap(kind.forward)
        if getattr(forward, "__code__", None) is code:
            return _described(kind)
    return None


@functools.lru_cache(maxsize=1024)
def _described(kind: type[torch.autograd.Function]) -> Function:
    return Function(kind.__name__, returned_at(kind, something=False), kind)


def backward_of(function: Any) -> CodeType | None:
    """Return the code of the backward of a custom Function."""
    backward = inspect.unwrap(function.backward)
    return getattr(getattr(backward, "__func__", backward), "__code__", None)


def _returns(code: CodeType) -> Iterator[tuple[int, bool]]:
    """Yield the line of each ``return``, and whether it returns more than None."""
    last: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            loaded = instruction if instruction.opname == "RETURN_CONST" else last
            constant = loaded.opname in ("LOAD_CONST", "RETURN_CONST")
            value = loaded.argval if constant else ...
            nothing = value is None or (isinstance(value, tuple) and {*value} == {None})
            line = instruction.positions.lineno if instruction.positions else None
            yield line or code.co_firstlineno, not nothing
        last = instruction


def returned_at(function: Any, something: bool = True) -> Site | None:
    """Return the last line on which a backward returns more than None, or else no more.

    None where there is no such line, or where it is one of torch's.
    """
    code = backward_of(function)
    if code is None or not is_own(code):
        return None
    lines = [line for line, more in _returns(code) if more is something]
    return Site(code.co_filename, max(lines)) if lines else None


@functools.lru_cache(maxsize=1024)
def unread(function: Any) -> str:
    """Return what a backward calls the gradients that arrive, if it does without them."""
    code = backward_of(function)
    if code is None or code.co_argcount < 2 or code.co_flags & inspect.CO_VARARGS:
        return ""
    arriving = code.co_varnames[1 : code.co_argcount]
    for instruction in dis.get_instructions(code):
        read = instruction.argval
        if {*arriving} & ({*read} if isinstance(read, tuple) else {read}):
            return ""
    return ", ".join(arriving) if any(more for _, more in _returns(code)) else ""
