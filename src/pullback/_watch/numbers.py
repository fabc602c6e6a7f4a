"""What reads numbers where no operation is seen: ``tolist``, ``torch.tensor([a, b])``."""

from __future__ import annotations

import ast
import functools
import linecache
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from pullback._shared import Shared

MOST = 1_000  # elements of a list that are looked at


def lists_made(tell: Callable[[Tensor], None]) -> AbstractContextManager[None]:
    """Tell of each tensor whose numbers become a list in this block, which no hook does."""
    return _LISTED.block(tell)


@contextmanager
def _telling_lists() -> Iterator[None]:
    numbers, before = torch.Tensor.tolist, vars(torch.Tensor).get("tolist")

    @functools.wraps(numbers)
    def tolist(self: Tensor) -> Any:
        made = numbers(self)
        if not torch.compiler.is_compiling():  # torch.export traces this
            for tell in (*_LISTED.given,):
                tell(self)
        return made

    torch.Tensor.tolist = tolist  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        if before is not None:
            torch.Tensor.tolist = before  # type: ignore[method-assign]
        elif "tolist" in vars(torch.Tensor):
            del torch.Tensor.tolist  # which has it from torch's own class


_LISTED = Shared[Callable[[Tensor], None]](_telling_lists)


def taken_as_numbers(frame: FrameType) -> Iterator[Tensor]:
    """Yield the tensors in the lists that the call at hand of a frame is given.

    They are those that its source names: what it computes on the way is gone by now.
    """
    for argument in _arguments(frame.f_code, frame.f_lasti):
        given = _value(argument, frame)
        yield from () if isinstance(given, Tensor) else _tensors_in(given)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for element in islice(value, MOST):
            yield from _tensors_in(element)


def last_line(frame: FrameType) -> int:
    """Return the last line of the call at hand of a frame."""
    _, last, _, _ = _positions(frame.f_code, frame.f_lasti)
    return last or frame.f_lineno


def _positions(code: CodeType, at: int) -> tuple[int | None, ...]:
    """Return the lines and columns of an instruction: first, last, begin and end."""
    return next(islice(code.co_positions(), at // 2, None))


@functools.lru_cache(maxsize=1024)
def _arguments(code: CodeType, at: int) -> tuple[ast.expr, ...]:
    """Return the arguments of the call in an instruction, as its source has them."""
    first, last, begin, end = _positions(code, at)
    if first is None or last is None:
        return ()  # Python keeps no places in lines, or was asked not to
    lines = [
        linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)
    ]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    try:
        call = ast.parse(b"".join(lines), mode="eval").body
    except SyntaxError:  # the file has changed since, or there is none
        return ()
    if not isinstance(call, ast.Call):
        return ()
    return (*call.args, *(keyword.value for keyword in call.keywords))


def _value(code: ast.expr, frame: FrameType) -> Any:
    """Return what a name, an attribute or a list of such stands for, or None.

    No property is asked, so that no code of the program runs.
    """
    if isinstance(code, ast.List | ast.Tuple):
        return [_value(element, frame) for element in code.elts]
    if isinstance(code, ast.Name):
        return frame.f_locals.get(code.id, frame.f_globals.get(code.id))
    if isinstance(code, ast.Attribute):
        of = _value(code.value, frame)
        own: dict[str, Any] = getattr(of, "__dict__", {})
        parts = ("_parameters", "_modules") if isinstance(of, Module) else ()
        return ChainMap(own, *(own.get(part, {}) for part in parts)).get(code.attr)
    return None
