"""Custom Functions: whose forward runs, and what their backward reads and returns."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._frames import frames
from pullback._watch.findings import Site
from pullback._watch.frames import is_own


class Function(NamedTuple):
    """A custom Function.

    Attributes:
        name: Its name.
        nothing: The line on which its backward returns None, if there is one.
    """

    name: str
    nothing: Site | None


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
            return Running(function, frozenset(map(id, _arguments(frame))))
    return None


def _arguments(frame: FrameType) -> list[Tensor]:
    code, values = frame.f_code, frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return [value for value in given if isinstance(value, Tensor)]


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
            return Function(kind.__name__, returned_at(kind, something=False))
    return None


def _backward_of(function: Any) -> CodeType | None:
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
    code = _backward_of(function)
    if code is None or not is_own(code):
        return None
    lines = [line for line, more in _returns(code) if more is something]
    return Site(code.co_filename, max(lines)) if lines else None


@functools.lru_cache(maxsize=1024)
def unread(function: Any) -> str:
    """Return what a backward calls the gradients that arrive, if it does without them."""
    code = _backward_of(function)
    if code is None or code.co_argcount < 2 or code.co_flags & inspect.CO_VARARGS:
        return ""
    arriving = code.co_varnames[1 : code.co_argcount]
    for instruction in dis.get_instructions(code):
        read = instruction.argval
        if {*arriving} & ({*read} if isinstance(read, tuple) else {read}):
            return ""
    return ", ".join(arriving) if any(more for _, more in _returns(code)) else ""
