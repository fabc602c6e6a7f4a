"""Compare what a live picture computes with what torch computes, before a page shows it.

A picture (:func:`pullback.live`) carries a program. Here the picture's own script runs it
in a JavaScript engine, V8, for many x and v: random ones, zeros, equal entries, negative,
large and small ones. What differs from torch in float64 ends the build.

``python certified.py`` says what was compared for the pages that have been executed.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import NamedTuple

import torch
from py_mini_racer import MiniRacer
from torch import Tensor

from pullback import Live
from pullback._live import script
from pullback._live_program import weight

COUNT = 108  # x and v to compare at: two of each pair of kinds
AGREE = 1e-11  # of the largest number: far below the digits that a page shows
RUN = (
    "(program, inputs) => inputs.map(([x, v]) =>"
    " live.run(program, x, v)).map(at => program.outputs.map(i => at[i].map(String)))"
)
ONE_AT_A_TIME = Lock()  # threads that start engines, or use one, may wait for one another


class Difference(NamedTuple):
    """How far the two are apart at one x and v; NaN if one is finite and the other not."""

    x: Tensor
    v: Tensor
    torch: Tensor
    page: Tensor
    of: Tensor  # what the numbers come from: x for y, v for the product

    @property
    def size(self) -> float:
        """The largest difference, as a part of the largest number.

        That is one of the result, or one of what it comes from: a result may be what
        rounding leaves of a sum that cancels.
        """
        same = (self.torch == self.page) | (self.torch.isnan() & self.page.isnan())
        apart = torch.where(same, 0.0, (self.torch - self.page).abs()).max()
        numbers = torch.cat([self.torch, self.of]).abs()
        largest = torch.where(numbers.isfinite(), numbers, 0.0).max()
        return float(apart / (largest if largest > 0 else 1.0))


class Certificate(NamedTuple):
    """What was compared of one picture."""

    inputs: int  # pairs of x and v
    largest: float  # difference, as :attr:`Difference.size`
    bytes: int  # of its program, compressed


def certify(value: object) -> Certificate | None:
    """Raise AssertionError if a value is a live picture that disagrees with torch."""
    if not isinstance(value, Live):
        return None
    largest = 0.0
    for difference in differences(value, COUNT):
        assert difference.size <= AGREE, f"the page and torch differ: {difference}"
        largest = max(largest, difference.size)
    return Certificate(COUNT, largest, weight(value.program))


def differences(live: Live, count: int) -> Iterator[Difference]:
    """Yield how y, the product and a graph's numbers differ from torch's, one by one."""
    inputs = list(inputs_for(len(live.x), len(live.v), count))
    lists = json.dumps([[x.tolist(), v.tolist()] for x, v in inputs])
    program = json.dumps(live.program)
    with ONE_AT_A_TIME:
        told = engine().eval(f"JSON.stringify(({RUN})({program}, {lists}))")
    answers = json.loads(str(told))
    for (x, v), answer in zip(inputs, answers, strict=True):
        exact = live.answer(x, v)
        sources = [x, v, *[torch.cat([x, v])] * (len(exact) - 2)]
        for wanted, page, source in zip(exact, answer, sources, strict=True):
            numbers = torch.tensor([float(n) for n in page], dtype=torch.float64)
            yield Difference(x, v, wanted, numbers, source)


@cache
def engine() -> MiniRacer:
    """Return an engine that has read the script; one serves all pictures of a process."""
    started = MiniRacer()
    # What is left to the end of Python may wait there for a thread that waits for Python.
    atexit.register(started.close)
    started.eval(f"const live = {script()}")
    return started


def inputs_for(n: int, m: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x and v of n and m entries: each kind of x with each kind of v in turn."""
    chance = torch.Generator().manual_seed(0)  # the same ones in each build

    def drawn(n: int, kind: int) -> Tensor:
        t = torch.randn(n, generator=chance, dtype=torch.float64)
        match kind:
            case 1:
                return t.round()  # many zeros, and equal entries
            case 2:
                return 1e6 * t
            case 3:
                return 1e-6 * t
            case 4:
                return -t.abs()
            case 5:
                return torch.where(torch.rand(n, generator=chance) < 0.5, 0.0, t)
            case 6:
                return t[:1].round().expand(n).clone()  # all equal
            case 7:
                return t[torch.randint(n, (n,), generator=chance)]  # some equal
            case 8:
                return 100 * t
        return t

    for i in range(count):
        x, v = drawn(n, i % 9), drawn(m, i // 9 % 6)
        yield (x if i else 0 * x), v


def main() -> None:
    """Say what was compared of the pages that have been executed, and what it weighs."""
    from pages import ROOT, Store, find  # which are executed with this module

    results = filter(None, map(Store(ROOT).last, find(ROOT)))
    found = [
        (result["name"], Certificate(*block["certified"]))
        for result in results
        for block in result["shown"]
        if "certified" in block
    ]
    pictures = [picture for _, picture in found]
    print(f"pages             {len({name for name, _ in found})}")
    print(f"pictures          {len(pictures)}")
    print(f"(x, v) compared   {sum(picture.inputs for picture in pictures)}")
    print(f"largest apart     {max(picture.largest for picture in pictures):.1e}")
    print(f"script            {weight(script())} bytes, compressed")
    print(f"largest program   {max(picture.bytes for picture in pictures)} bytes")


if __name__ == "__main__":
    main()
