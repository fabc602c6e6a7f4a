"""Compare what a live picture computes with what torch computes, before a page shows it.

A picture (:func:`pullback.live`) carries a program. Here the picture's own script runs it
in a JavaScript engine, V8, for many x and v: random ones, zeros, equal entries, negative
and large ones. What differs from torch in float64 ends the build.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from py_mini_racer import MiniRacer
from torch import Tensor

from pullback import Live
from pullback._live import script

COUNT = 120  # x and v to compare at
AGREE = 1e-9  # of the largest number of a result: far below the digits that a page shows
RUN = (
    "(program, inputs) => inputs.map(([x, v]) =>"
    " live.run(program, x, v)).map(at => program.outputs.map(i => at[i].map(String)))"
)


class Difference(NamedTuple):
    """How far the two are apart at one x and v; NaN if one is finite and the other not."""

    x: Tensor
    v: Tensor
    torch: Tensor
    page: Tensor

    @property
    def size(self) -> float:
        """The largest difference, as a part of the largest number."""
        same = (self.torch == self.page) | (self.torch.isnan() & self.page.isnan())
        apart = torch.where(same, 0.0, (self.torch - self.page).abs())
        finite = self.torch[self.torch.isfinite()]
        return float(
            apart.max() / max(1.0, float(finite.abs().max()) if len(finite) else 0)
        )


def certify(value: object) -> None:
    """Raise AssertionError if a value is a live picture that disagrees with torch."""
    if not isinstance(value, Live):
        return
    for difference in differences(value, COUNT):
        assert difference.size <= AGREE, f"the page and torch differ: {difference}"


def differences(live: Live, count: int) -> Iterator[Difference]:
    """Yield how y and the product of a picture differ from torch's, one after the other."""
    inputs = list(inputs_for(len(live.x), len(live.v), count))
    lists = json.dumps([[x.tolist(), v.tolist()] for x, v in inputs])
    program = json.dumps(live.program)
    told = engine().eval(f"JSON.stringify(({RUN})({program}, {lists}))")
    answers = json.loads(str(told))
    for (x, v), answer in zip(inputs, answers, strict=True):
        for exact, page in zip(live.answer(x, v), answer, strict=True):
            numbers = torch.tensor([float(n) for n in page], dtype=torch.float64)
            yield Difference(x, v, exact, numbers)


@cache
def engine() -> MiniRacer:
    """Return an engine that has read the script; one serves all pictures of a process."""
    started = MiniRacer()
    started.eval(f"const live = {script()}")
    return started


def inputs_for(n: int, m: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x and v of n and m entries: of each kind as many as of all others."""
    chance = torch.Generator().manual_seed(0)  # the same ones in each build
    for i in range(count):
        x = torch.randn(n, generator=chance, dtype=torch.float64)
        v = torch.randn(m, generator=chance, dtype=torch.float64)
        match i % 6:
            case 1:
                x = 100 * x
            case 2:
                x = x.round()  # many zeros, and equal entries
            case 3:
                x = x[:1].round().expand(n).clone()  # all equal
            case 4:
                x, v = -x.abs(), v.round()
            case 5:
                x = torch.where(torch.rand(n, generator=chance) < 0.5, 0.0, x)
        yield (x if i else 0 * x), v
