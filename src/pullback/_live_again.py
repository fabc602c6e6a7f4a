"""Whether f is a function of x alone: what changes when it is called again, and where."""

from __future__ import annotations

import inspect
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from pullback._inputs import call
from pullback._live_recorder import Doubled, Lent, Listed, Operation, Watched, at, line
from pullback._site import is_own_file

#: Where no f is written: Python's own, and what is installed beside torch.
LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in (os.path.dirname(random.__file__), Path(torch.__file__).parents[1])
)


@contextmanager
def without_chance(f: Callable[[Tensor], Tensor], leaf: Tensor) -> Iterator[None]:
    """Refuse f if it draws numbers of Python or NumPy, also if they agree in two calls.

    Their generators, and those that f names, are set back then.
    """
    generators = _generators(f)
    before = [read() for _, read, _ in generators]
    try:
        yield
    finally:
        drawn = [
            (name, i)
            for i, (name, read, _) in enumerate(generators)
            if _differ(read(), before[i])
        ]
        if drawn:
            name, i = drawn[0]
            place = _line_that_draws(f, leaf, generators[i][1])
            for (_, _, write), state in zip(generators, before, strict=True):
                write(state)
    if drawn:
        reason = f"f draws random numbers of {name}; a function without them is needed"
        raise NotImplementedError(at(reason, place))


Generator = tuple[str, Callable[[], Any], Callable[[Any], None]]  # to be read, and set


def _generators(f: Callable[..., Any]) -> list[Generator]:
    """Return the generators of Python and NumPy that f may draw from."""
    found: list[Generator] = [("Python's random", random.getstate, random.setstate)]
    if numpy := sys.modules.get("numpy"):
        found.append(("numpy.random", numpy.random.get_state, numpy.random.set_state))
    try:
        named = inspect.getclosurevars(inspect.unwrap(f))
    except TypeError:  # no function of Python
        return found
    for name, value in {**named.globals, **named.nonlocals}.items():
        if isinstance(value, random.Random):
            found.append((name, value.getstate, value.setstate))
        elif hasattr(bits := getattr(value, "bit_generator", None), "state"):
            read, write = partial(getattr, bits, "state"), partial(setattr, bits, "state")
            found.append((name, read, write))
    return found


def _differ(state: Any, other: Any) -> bool:
    return pickle.dumps(state) != pickle.dumps(other)


def _line_that_draws(
    f: Callable[[Tensor], Tensor], leaf: Tensor, read: Callable[[], Any]
) -> str:
    """Call f once more, and return the line of it after which a generator is another."""
    place, state, last = "", read(), ""

    def look(frame: FrameType, event: str, _: object) -> Any:
        nonlocal place, last
        file = frame.f_code.co_filename
        if file.startswith(LIBRARIES) or not is_own_file(file):
            return None
        if not place and _differ(read(), state):
            place = last
        last = line(frame, frame.f_lineno)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        call(f, (leaf,), copied=(leaf,), check=False)
    except Exception:  # its own, as before
        return place
    finally:
        sys.settrace(before)
    return place


def place_of_change(f: Callable[[Tensor], Tensor], leaf: Tensor) -> str:
    """Return the line of f at which two calls compute with other numbers, if any does."""
    first, second = (_operations(f, leaf) for _ in range(2))
    for (name, numbers, place), (other, others, _) in zip(first, second, strict=False):
        if name != other or not _same(numbers, others):
            return place
    return ""


def gives_again(f: Callable[[Tensor], Tensor], leaf: Tensor, given: Tensor) -> bool:
    """Tell whether f gives a result in its own dtype twice more: it depends on x alone."""
    for _ in range(2):
        with Lent() as lent, Watched(leaf, lent), torch.no_grad():
            y = call(f, (leaf,), copied=(leaf,), check=False)
        if y.shape != given.shape or not torch.equal(y.nan_to_num(), given.nan_to_num()):
            return False
    return True


def place_of_rounding(f: Callable[[Tensor], Tensor], leaf: Tensor) -> str:
    """Return the line of f after which its dtype and float64 compute far apart."""
    slack, last = torch.finfo(leaf.dtype).eps ** 0.5, ""
    own, wide = _operations(f, leaf), _operations(f, leaf.double(), Doubled())
    for (name, numbers, place), (other, others, _) in zip(own, wide, strict=False):
        if name != other or not _near(numbers, others, slack):
            break
        last = place or last
    return last


def _near(parts: list[Any], others: list[Any], slack: float) -> bool:
    return len(parts) == len(others) and all(
        a.shape == b.shape
        and torch.allclose(a.double(), b.double(), rtol=slack, atol=slack, equal_nan=True)
        for a, b in zip(parts, others, strict=True)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and not a.is_complex()
    )


def _same(parts: list[Any], others: list[Any]) -> bool:
    return len(parts) == len(others) and all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        if isinstance(a, Tensor) and isinstance(b, Tensor)
        else a == b or a is b
        for a, b in zip(parts, others, strict=True)
    )


def _operations(
    f: Callable[[Tensor], Tensor],
    leaf: Tensor,
    mode: AbstractContextManager[Any] | None = None,
) -> list[Operation]:
    """Return what f computes, under a mode."""
    listed = Listed()
    with Lent() as lent, Watched(leaf, lent), mode or nullcontext(), listed:
        call(f, (leaf,), copied=(leaf,), check=False)
    return listed.found
