"""A product held against differences of f: agreed, wrong, or a kink that hides which.

Along a direction u the product claims the slope c = <J^T v, u> of t -> <v, f(x + t u)>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

COORDINATES = 64  # numbers in the inputs up to which each is moved by itself
DIRECTIONS = 16  # directions that move all of them, where there are more
TIES = 4  # groups of equal numbers that are moved together
SEED = 0  # of the directions, from a generator of their own


class Settings(NamedTuple):
    """How finely differences can be taken.

    Attributes:
        eps: Rounding of the coarsest dtype that f computes in.
        steps: Step lengths, from the first to the last that is tried.
        tolerance: What a slope may differ by, relative to its size.
    """

    eps: float
    steps: tuple[float, ...]
    tolerance: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Settings:
        """Return what the dtype allows: steps near the cube root of its rounding."""
        eps = torch.finfo(dtype).eps
        first = eps ** (1 / 3)
        if dtype == torch.float64:
            return cls(eps, tuple(first / 10**k for k in range(4)), 1e-5)
        return cls(eps, (first, first / 4, first / 16), 1e-3 if eps < 1e-6 else 5e-2)


class Slope(NamedTuple):
    """What differences say about the slope along one direction.

    Attributes:
        claimed: What the product says.
        measured: What differences of f say.
        scale: The size that both are measured by.
        wrong: Whether the product is wrong.
        undecided: Why nobody can say, else None.
    """

    claimed: float
    measured: float
    scale: float
    wrong: bool = False
    undecided: str | None = None


class _Step(NamedTuple):
    """Differences over one step, the slopes that the product claims, and their noise."""

    claimed: float
    slope: float
    left: float
    right: float
    noise: float

    @property
    def gap(self) -> float:
        return abs(self.slope - self.claimed)


Direction = list[Tensor]  # one tensor for each input


class Differences:
    """Differences of <v, f> around the inputs.

    Args:
        f: Gives y for other inputs.
        pull: Gives the product there.
        xs: The inputs.
        v: Weights of y.
        product: The product at the inputs, which is in question.
        condition: Sum of the magnitudes of what was added up to it, entry by entry.
        settings: What the dtype of f allows.
        tick: Called after each direction.
    """

    def __init__(
        self,
        f: Callable[..., Tensor],
        pull: Callable[..., Sequence[Tensor]],
        xs: Sequence[Tensor],
        v: Tensor,
        product: Sequence[Tensor],
        condition: Sequence[Tensor],
        settings: Settings,
        tick: Callable[[], object],
    ) -> None:
        self.f, self.pull, self.xs, self.v = f, pull, xs, v.double()
        self.product = [p.double() for p in product]
        self.condition = [c.double() for c in condition]
        self.settings, self.tick = settings, tick
        self._here = f(*xs).double()
        self._units = [_unit(x) for x in xs]

    def directions(self) -> list[Direction]:
        """Return the directions to move in: each number, or all at random, and ties."""
        count = sum(x.numel() for x in self.xs)
        few = count <= COORDINATES
        found = self._coordinates() if few else random_directions(self.xs, DIRECTIONS)
        return [*found, *self._ties()]

    def along(self, u: Direction) -> Slope:
        """Compare the claimed slope along u with the measured one."""
        scale = sum(
            float((c * w).square().sum()) for c, w in zip(self.condition, u, strict=True)
        )
        scale = scale**0.5
        first = self._step(u, self.settings.steps[0])
        self.tick()
        if first.gap <= self.settings.tolerance * scale + first.noise:
            return Slope(first.claimed, first.slope, scale)
        return self._look_closer(u, scale, first)

    def narrow(self, u: Direction, slope: Slope) -> tuple[Direction, Slope]:
        """Halve u as long as the product is wrong along a half of it."""
        while True:
            halves = _halves(u)
            slopes = [self.along(half) for half in halves]
            wrong = [pair for pair in zip(halves, slopes, strict=True) if pair[1].wrong]
            if not wrong:
                return u, slope
            u, slope = max(wrong, key=lambda pair: abs(pair[1].claimed - pair[1].measured))

    def _look_closer(self, u: Direction, scale: float, first: _Step) -> Slope:
        """Take shorter steps until slopes settle; then tell a mistake from a kink."""
        steps = [first, *(self._step(u, h) for h in self.settings.steps[1:])]
        # how far a slope may be off: its rounding, and what a longer step changes
        bars = [b.noise + abs(a.slope - b.slope) for a, b in pairwise(steps)]
        bars = [bar if bar == bar else float("inf") for bar in bars]
        bar, k = min((bar, k) for k, bar in enumerate(bars, 1))
        best, h = steps[k], self.settings.steps[k]
        said = Slope(best.claimed, best.slope, scale)
        if bar == float("inf"):
            return said._replace(undecided="f is not finite beside x")
        allowed = self.settings.tolerance * scale + bar
        if best.slope == 0 and abs(best.claimed) * h <= self.settings.eps:
            return said._replace(undecided="rounding hides it")  # 1 - 1 in f, for example
        if best.gap <= allowed:
            vague = bar > max(0.1 * scale, 10 * self.settings.tolerance * scale)
            return said._replace(undecided="rounding hides it" if vague else None)
        if self._kink(u, h, best):
            return said._replace(undecided="kink between")
        if best.gap <= 10 * allowed:
            return said._replace(undecided="rounding hides it")
        return said._replace(wrong=True)

    def _kink(self, u: Direction, h: float, step: _Step) -> bool:
        """Tell whether slopes differ on both sides of x, and the product with them."""
        ends = [self._claimed(u, t) for t in (-h, h)]
        jump = max(abs(ends[1] - ends[0]), abs(step.right - step.left) - 4 * step.noise)
        if not jump >= 0.5 * step.gap:
            return False
        slack = 0.05 * jump + 4 * step.noise
        at_ends = abs(ends[0] - step.left) + abs(ends[1] - step.right) <= 2 * slack
        sides = sorted((step.left, step.right))
        within = sides[0] - slack <= step.claimed <= sides[1] + slack
        between = min(ends) - slack <= step.slope <= max(ends) + slack
        return at_ends or within or between

    def _step(self, u: Direction, h: float) -> _Step:
        right, left = self._moved(u, h), self._moved(u, -h)
        up, down = self.f(*right).double(), self.f(*left).double()
        size = torch.maximum(torch.maximum(up.abs(), down.abs()), self._here.abs())
        noise = 16 * self.settings.eps * float((self.v.abs() * size).sum()) / h
        moves = [  # an infinite number stays where it is
            ((b.double() - a.double()) / (2 * h)).nan_to_num(0)
            for a, b in zip(left, right, strict=True)
        ]

        def slope(a: Tensor, b: Tensor, length: float) -> float:
            return float((self.v * (b - a)).sum()) / length

        return _Step(
            _dot(self.product, moves),
            slope(down, up, 2 * h),
            slope(down, self._here, h),
            slope(self._here, up, h),
            noise,
        )

    def _claimed(self, u: Direction, t: float) -> float:
        return _dot([p.double() for p in self.pull(*self._moved(u, t))], u)

    def _moved(self, u: Direction, t: float) -> list[Tensor]:
        return [(x.double() + t * w).to(x) for x, w in zip(self.xs, u, strict=True)]

    def _coordinates(self) -> list[Direction]:
        return [
            self._move_only(i, (j,))
            for i, x in enumerate(self.xs)
            for j in range(x.numel())
        ]

    def _ties(self) -> Iterator[Direction]:
        """Move equal numbers together: a maximum of them stays one."""
        if not self.xs:
            return
        every = torch.cat([x.double().flatten().cpu() for x in self.xs])
        values, counts = every.unique(return_counts=True)
        order = counts.argsort(descending=True)[:TIES]
        unit = max(self._units)
        for value in values[order[counts[order] > 1]]:
            yield [(x.double() == float(value)).double() * unit for x in self.xs]

    def _move_only(self, i: int, places: Sequence[int]) -> Direction:
        u = [torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in self.xs]
        u[i].view(-1)[list(places)] = self._units[i]
        return u


def random_directions(xs: Sequence[Tensor], count: int) -> list[Direction]:
    """Return directions that move all numbers, each by about the size of its tensor."""
    source = torch.Generator("cpu").manual_seed(SEED)

    def noise(x: Tensor) -> Tensor:
        z = torch.randn(x.shape, generator=source, dtype=torch.float64, device="cpu")
        return z.to(x.device)

    units = [_unit(x) for x in xs]
    return [
        [noise(x) * unit for x, unit in zip(xs, units, strict=True)] for _ in range(count)
    ]


def places(u: Direction) -> list[tuple[int, tuple[int, ...]]]:
    """Return which tensors, and which places in them, u moves."""
    return [(i, tuple(at)) for i, w in enumerate(u) for at in w.nonzero().tolist()]


def _halves(u: Direction) -> list[Direction]:
    """Return u cut in two, or nothing where it moves one number alone."""
    flat = torch.cat([w.flatten() for w in u])
    moved = flat.nonzero().flatten()
    if len(moved) < 2:
        return []
    halves = []
    for kept in moved.tensor_split(2):
        half = torch.zeros_like(flat)
        half[kept] = flat[kept]
        parts = half.split([w.numel() for w in u])
        halves.append([p.view(w.shape) for p, w in zip(parts, u, strict=True)])
    return halves


def _unit(x: Tensor) -> float:
    """Return the size of the numbers in x, by which steps are measured; 1 for zeros."""
    size = float(x.double().square().mean().sqrt()) if x.numel() else 0.0
    return size if 0 < size < float("inf") else 1.0


def _dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    return sum(float((p * q).sum()) for p, q in zip(a, b, strict=True))
