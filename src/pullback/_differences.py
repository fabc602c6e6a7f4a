"""A product held against differences of f: agreed, wrong, or a kink that hides which.

Along a direction u the product claims the slope c = <J^T v, u> of t -> <v, f(x + t u)>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor

from pullback._wide import REFUSED, RoundedAtRandom

COORDINATES = 64  # numbers in the inputs up to which each is moved by itself
DIRECTIONS = 16  # directions that move all of them, where there are more
TRIALS = 4  # of rounding at random
TIES = 4  # groups of equal numbers that are moved together
SEED = 0  # of the directions, from a generator of their own


class Settings(NamedTuple):
    """How finely differences can be taken.

    Attributes:
        eps: Rounding of the coarsest dtype that f computes in.
        first: The step that is tried first, near the cube root of that rounding.
        near: Those that are tried where it does not decide, from the longest on.
        steps: Those that are tried where these do not.
        tolerance: What a slope may differ by, relative to its size.
        vague: Which part of its size a slope must be known to.
    """

    eps: float
    first: float
    near: tuple[float, ...]
    steps: tuple[float, ...]
    tolerance: float
    vague: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Settings:
        """Return what the dtype allows."""
        eps = torch.finfo(dtype).eps
        first = eps ** (1 / 3)
        if dtype == torch.float64:
            steps = tuple(first * 10**k for k in range(3, -4, -1))
            return cls(eps, first, steps[2:5], steps, 1e-5, 1e-3)
        steps = tuple(first * 4**k for k in range(2, -3, -1))
        tolerance = 1e-3 if eps < 1e-6 else 5e-2
        return cls(eps, first, steps[1:4], steps, tolerance, max(0.1, 10 * tolerance))


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

    h: float
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
        v: Weights of y, zero where y is not finite.
        product: The product at the inputs, which is in question.
        condition: Sum of the magnitudes of what was added up to it, entry by entry.
        judged: For each input, where the product is in question; elsewhere it stays.
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
        judged: Sequence[Tensor],
        settings: Settings,
        tick: Callable[[], object],
    ) -> None:
        self.f, self.pull, self.xs, self.v = f, pull, xs, v.double()
        self.product = [p.double() for p in product]
        self.condition = [c.double() for c in condition]
        self.judged = judged
        self.settings, self.tick = settings, tick
        self.one_by_one = sum(x.numel() for x in xs) <= COORDINATES
        self._here = self._weighted(*xs)
        self._units = [_unit(x) for x in xs]
        sizes = zip(self.condition, self._units, strict=True)
        self._largest = max([float(c.max()) * w for c, w in sizes if c.numel()], default=0)

    def directions(self) -> list[Direction]:
        """Return the directions to move in: each number, or all at random, and ties."""
        if self.one_by_one:
            found = self.coordinates(self.judged)
        else:
            found = [*self._only(random_directions(self.xs, DIRECTIONS))]
        return [*found, *self._only(self._ties())]

    def along(self, u: Direction) -> Slope:
        """Compare the claimed slope along u with the measured one."""
        scale = sum(
            float((c * w).square().sum()) for c, w in zip(self.condition, u, strict=True)
        )
        scale = scale**0.5
        first = self._step(u, self.settings.first)
        self.tick()
        near = first.gap <= self.settings.tolerance * scale + first.noise
        if near and not self._is_vague(first.noise):
            return Slope(first.claimed, first.slope, scale)
        return self._look_closer(u, scale)

    def settled(self, u: Direction) -> float | None:
        """Return the slope along u, where f has one there that all can see, else None."""
        noise = self._noise_along(u)
        steps = [self._step(u, h, noise) for h in self.settings.steps]
        for a, b in pairwise(steps):
            slopes = [a.slope, b.slope, b.left, b.right]
            near = 1e-2 * abs(b.slope)
            if near > b.noise and max(abs(s - b.slope) for s in slopes) < near:
                return b.slope
        return None

    def narrow(self, u: Direction, slope: Slope) -> tuple[Direction, Slope]:
        """Halve u as long as the product is wrong along a half of it."""
        while True:
            halves = _halves(u)
            slopes = [self.along(half) for half in halves]
            wrong = [pair for pair in zip(halves, slopes, strict=True) if pair[1].wrong]
            if not wrong:
                return u, slope
            u, slope = max(wrong, key=lambda pair: abs(pair[1].claimed - pair[1].measured))

    def _look_closer(self, u: Direction, scale: float) -> Slope:
        """Take longer and shorter steps until slopes settle; tell a mistake from a kink."""
        noise = self._noise_along(u)
        said = self._from_steps(u, scale, noise, self.settings.near)
        if said.undecided:
            said = self._from_steps(u, scale, noise, self.settings.steps)
        return said

    def _from_steps(
        self, u: Direction, scale: float, noise: float, lengths: Sequence[float]
    ) -> Slope:
        """Compare the claimed slope with the one that most steps agree on."""
        steps = [self._step(u, h, noise) for h in lengths]
        # how far a slope may be off: its rounding, and what a longer step changes
        bars = [b.noise + abs(a.slope - b.slope) for a, b in pairwise(steps)]
        bars = [bar if bar == bar else float("inf") for bar in bars]
        bar, k = min((bar, k) for k, bar in enumerate(bars, 1))
        best = steps[k]
        said = Slope(best.claimed, best.slope, scale)
        if bar == float("inf"):
            return said._replace(undecided="f is not finite beside x")
        hides = self._hides(noise)
        tolerance = self.settings.tolerance * scale
        if best.slope == 0 and 0 < abs(best.claimed) <= self.settings.eps / best.h:
            return said._replace(undecided=hides)  # 1 - 1 in f, for example
        if best.gap <= tolerance + bar:
            return said._replace(undecided=hides if self._is_vague(bar) else None)
        if self._kink(u, best) and self._kink(u, self._shorter(steps[k:])):
            return said._replace(undecided="kink between")
        again = self._step(u, 0.4 * best.h, noise)  # a slope that no accident has settled
        unsettled = max(0.0, abs(again.slope - best.slope) - again.noise)
        if not best.gap > tolerance + 10 * (bar + unsettled):
            return said._replace(undecided=hides)
        return said._replace(wrong=True)

    def _is_vague(self, bar: float) -> bool:
        """Tell whether a slope is known too badly, beside the largest of one number."""
        return bar > self.settings.vague * self._largest > 0

    def _hides(self, noise: float) -> str:
        if noise <= self._least_noise():
            return "rounding hides it"
        return f"rounding in f moves (y * v).sum() by {noise:.0e}, which hides it"

    def _shorter(self, steps: Sequence[_Step]) -> _Step:
        """Return the shortest of some steps that rounding leaves as sharp as the first."""
        sharp = [s for s in steps if s.noise <= 0.05 * steps[0].gap]
        return sharp[-1] if sharp else steps[0]

    def _kink(self, u: Direction, step: _Step) -> bool:
        """Tell whether slopes differ on both sides of x, and the product with them."""
        ends = [self._claimed(u, t) for t in (-step.h, step.h)]
        jump = max(abs(ends[1] - ends[0]), abs(step.right - step.left) - 4 * step.noise)
        if not jump >= 0.5 * step.gap:
            return False
        slack = 0.05 * jump + 4 * step.noise
        at_ends = abs(ends[0] - step.left) + abs(ends[1] - step.right) <= 2 * slack
        sides = sorted((step.left, step.right))
        within = sides[0] - slack <= step.claimed <= sides[1] + slack
        between = min(ends) - slack <= step.slope <= max(ends) + slack
        return at_ends or within or between

    def _step(self, u: Direction, h: float, noise: float | None = None) -> _Step:
        """Take a step of h both ways.

        Args:
            u: The direction.
            h: How far, in its unit.
            noise: What rounding may change in <v, f>; None for what it does at least.
        """
        right, left = self._moved(u, h), self._moved(u, -h)
        up, down = self._weighted(*right), self._weighted(*left)
        moves = [  # an infinite number stays where it is
            ((b.double() - a.double()) / (2 * h)).nan_to_num(0)
            for a, b in zip(left, right, strict=True)
        ]

        def slope(a: Tensor, b: Tensor, length: float) -> float:
            return float((b - a).sum()) / length

        return _Step(
            h,
            _dot(self.product, moves),
            slope(down, up, 2 * h),
            slope(down, self._here, h),
            slope(self._here, up, h),
            max(noise or 0.0, self._least_noise(up, down)) / h,
        )

    def _weighted(self, *xs: Tensor) -> Tensor:
        """Return the terms of <v, f>; where v is 0, f need not be finite."""
        return (self.v * self.f(*xs).double()).masked_fill(self.v == 0, 0)

    def _least_noise(self, *others: Tensor) -> float:
        """Return what rounding of y alone may change in <v, f>."""
        size = self._here.abs()
        for terms in others:
            size = torch.maximum(size, terms.abs())
        return 16 * self.settings.eps * float(size.sum())

    def _noise_along(self, u: Direction) -> float:
        """Return what rounding in f may change in <v, f> along u.

        The larger of two: what it comes to where each operation rounds at random, which
        sees rounding that is the same at two points side by side; and what differences of
        the sixth order leave of values side by side (Moré and Wild, *Estimating
        Computational Noise*, SIAM J. Sci. Comput. 33, 2011), which sees what is rounded
        inside of one operation.
        """
        h = self.settings.first / 1000
        values = [float(self._weighted(*self._moved(u, k * h)).sum()) for k in range(-3, 4)]
        row = torch.tensor(values, dtype=torch.float64, device="cpu")
        left = float(row.diff(n=6).abs()) / comb(12, 6) ** 0.5
        return max(4 * self._noise_at_random, 4 * left if left == left else 0.0)

    @cached_property
    def _noise_at_random(self) -> float:
        here, largest = float(self._here.sum()), 0.0
        for seed in range(TRIALS):
            try:
                with RoundedAtRandom(self.xs, seed):
                    there = float(self._weighted(*self.xs).sum())
            except REFUSED:
                return 0.0
            largest = max(largest, abs(there - here) if there == there else 0.0)
        return largest

    def _claimed(self, u: Direction, t: float) -> float:
        return _dot([p.double() for p in self.pull(*self._moved(u, t))], u)

    def _moved(self, u: Direction, t: float) -> list[Tensor]:
        return [(x.double() + t * w).to(x) for x, w in zip(self.xs, u, strict=True)]

    def _only(self, us: Iterable[Direction]) -> Iterator[Direction]:
        """Yield the directions without what is not judged, as far as anything is left."""
        for u in us:
            kept = [w * where for w, where in zip(u, self.judged, strict=True)]
            if any(w.any() for w in kept):
                yield kept

    def coordinates(self, chosen: Sequence[Tensor]) -> list[Direction]:
        """Return directions that move one number each, of those that are chosen."""
        return [
            self._move_only(i, j)
            for i, where in enumerate(chosen)
            for j in where.flatten().nonzero().flatten().tolist()
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

    def _move_only(self, i: int, place: int) -> Direction:
        u = [torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in self.xs]
        u[i].view(-1)[place] = self._units[i]
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
