"""What ``torch.tensor([a, b])`` takes: it reads numbers where no operation is seen."""

from __future__ import annotations

import ast
import functools
import linecache
from collections import ChainMap
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module

MOST = 1_000  # elements of a list that are looked at


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


@functools.lru_cache(maxsize=1024)
def _arguments(code: CodeType, at: int) -> tuple[ast.expr, ...]:
    """Return the arguments of the call in an instruction, as its source has them."""
    first, last, begin, end = next(islice(code.co_positions(), at // 2, None))
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
