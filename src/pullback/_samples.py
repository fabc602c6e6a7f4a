"""Whether samples are on their own, as ``batched=True`` takes them to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import combinations, islice
from math import comb, inf
from typing import Any

import torch
from torch import Tensor

from pullback._torch import pytree
from pullback._wide import COARSE, InFloat64, is_coarse, is_single, run_in_float64

#: What leaks from sample to sample is rounding up to this many times that of the dtype.
ROUNDINGS = 64
#: In half precision, where float64 cannot tell.
ROUNDINGS_OF_HALF = 8
#: What is rounding in float32 is less than this part of it in float64.
VANISHED = 1e-3
#: Numbers or samples whose derivatives differ by more than this can hide what mixes.
UNEQUAL = 100
#: How many random products tell the size of each derivative: one may be small by chance.
TRIES = 4


def share_of_rounding(*dtypes: torch.dtype) -> float:
    """Return which part of the largest number is taken for rounding."""
    eps = _eps(dtypes)
    return eps * (ROUNDINGS_OF_HALF if eps > COARSE else ROUNDINGS)


def most_of_rounding(*dtypes: torch.dtype) -> float:
    """Return which part of the largest number may be rounding, at most."""
    return _eps(dtypes) * ROUNDINGS


def _eps(dtypes: Sequence[torch.dtype]) -> float:
    return max(float(torch.finfo(dtype).eps) for dtype in dtypes)


class Probes:
    """Products with random weights that tell whether samples mix.

    Two are taken with J: one with weights on a random half of the samples, one with the
    others. What they leave in the other half is what mixes. Two samples of one half are
    told by the sum of both products, for it is the product of J with all the weights if no
    sample meets another. Where that is not so, rounding may be the cause; then each sample
    is told apart from each other by products with weights on some of the samples.

    What may be rounding is asked of float64, where f can follow. In float32, what is still
    there then is compared with the size of its own output, which is that of one number of
    one sample, and of its own input, for beside one with derivatives of 1e5 what another
    mixes looks like rounding.

    Args:
        like: What the seeds look like, tensors of shape ``(B, ...)``.
        decide: Gives what mixes in float64, as a part of the largest number, or of the
            largest of its own output and input; None if f refuses float64.
    """

    def __init__(
        self,
        like: Sequence[Tensor],
        decide: Callable[[bool], float | None] | None = None,
    ) -> None:
        self.decide = cache(decide) if decide else None
        self.like = like
        self.count = len(like[0])
        sizes = [self.count, *(t.shape[1:].numel() for t in like)]
        source = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's
        weights = torch.rand(sum(sizes), generator=source, device="cpu") + 0.5
        self.samples, *self.numbers = weights.split(sizes)
        self.of_all_numbers = weights[self.count :]
        half = torch.randperm(self.count, generator=source, device="cpu") < self.count // 2
        self.halves = torch.stack([half, ~half])

    def seeds(self) -> list[Tensor]:
        """Return the seeds of the two products, of shape ``(2, B, ...)``."""
        return self.on(self.halves)

    def check(
        self,
        products: Sequence[Tensor],
        J: Sequence[Tensor],
        take: Callable[[list[Tensor]], Sequence[Tensor]],
    ) -> None:
        """Raise if an output of one sample depends on the input of another.

        Args:
            products: What came of the seeds.
            J: What came of one-hot seeds, one for each number of a sample.
            take: Gives the products of more seeds.
        """
        with torch.no_grad():
            self._compare(products, self.halves)
            careful = is_coarse(*products, *self.like) or (
                is_single(*products, *self.like) and _are_unequal(J)
            )
            if self.count > 2 and (careful or not self._adds_up(products, J)):
                masks = _tell_apart(self.count)
                self._compare(take(self.on(masks)), masks)

    def _compare(self, products: Sequence[Tensor], masks: Tensor) -> None:
        """Raise if a product leaves more than rounding where its mask had no weight."""
        for product in products:
            share = _share_where_unweighted(product, masks)
            if not share:
                continue
            coarse = is_coarse(*products, *self.like)
            single = is_single(*products, *self.like)
            dtypes = [product.dtype, *(t.dtype for t in self.like)]
            small = share <= most_of_rounding(*dtypes)
            if small and self.decide and (coarse or single):
                found = self.decide(False)
                if found is not None and coarse:
                    share, dtypes = found, [torch.float64]
                elif found is not None and found > VANISHED * share:
                    share = self.decide(True) or share
            if share > share_of_rounding(*dtypes):
                raise ValueError(
                    "batched=True, and f mixes samples: an output of one depends on "
                    "the input of another; a function that treats each sample on its "
                    "own is needed, or batched=False (pullback.mixing shows which). "
                    "In products with random weights, what mixes comes to "
                    f"{share:.2g} times the largest number"
                )

    def _adds_up(self, products: Sequence[Tensor], J: Sequence[Tensor]) -> bool:
        """Tell whether J times all weights is the sum of both products, up to rounding."""
        w = self.of_all_numbers
        for product, rows in zip(products, J, strict=True):
            found = product.sum(0).reshape(self.count, -1)
            # one pass over J: a weight is that of its sample times that of its number
            summed = (w.to(rows) @ rows.reshape(len(rows), -1)).view_as(found)
            expected = self.samples.to(rows).unsqueeze(1) * summed
            if not found.numel():
                continue
            gap, largest = (  # of each number
                t.abs().nan_to_num(0, 0, 0).amax(0) for t in (found - expected, expected)
            )
            if bool((gap > share_of_rounding(expected.dtype) * largest).any()):
                return False
        return True

    def on(self, masks: Tensor) -> list[Tensor]:
        """Return the weights on the samples of each mask alone, (masks, B, ...)."""
        samples = (self.samples * masks).unsqueeze(-1)
        return [
            (samples * w).to(t).reshape(len(masks), *t.shape)
            for w, t in zip(self.numbers, self.like, strict=True)
        ]


def _tell_apart(count: int) -> Tensor:
    """Return few masks: for any i and j, one that has i and lacks j.

    Each sample is in another half of the masks, and of two sets of one size neither is in
    the other (Sperner, *Ein Satz über Untermengen einer endlichen Menge*, Mathematische
    Zeitschrift 27, 1928).
    """
    size = 2
    while comb(size, size // 2) < count:
        size += 1
    masks = torch.zeros(size, count, dtype=torch.bool, device="cpu")
    for sample, chosen in enumerate(islice(combinations(range(size), size // 2), count)):
        masks[list(chosen), sample] = True
    return masks


def _are_unequal(J: Sequence[Tensor]) -> bool:
    """Tell whether numbers or samples have far smaller parts of J than others, not zero."""
    parts = [rows.reshape(*rows.shape[:2], -1) for rows in J if rows.numel()]
    if not parts:
        return False
    norms = [torch.linalg.vector_norm(part, dim=2) for part in parts]
    sizes = reduce(torch.add, [norm.to(norms[0]) for norm in norms])
    smallest, largest = sizes.aminmax()
    if 0 < smallest <= largest < inf:
        return bool(largest > UNEQUAL * smallest)
    sizes = sizes[(sizes > 0) & sizes.isfinite()]
    return len(sizes) > 1 and bool(sizes.max() > UNEQUAL * sizes.min())


def sizes_of_outputs(
    ys: Sequence[Tensor], xs: Sequence[Tensor], dim: int, share: float, apart: bool = False
) -> list[Tensor]:
    """Return about how large the derivatives of each number of a sample are.

    A product J t tells it for all of them, with a random t. It is taken from the graph
    as the derivative of v -> J^T v by v.

    Args:
        ys: What was computed in float64 from xs.
        xs: The leaves of their graph.
        dim: Along which samples are laid; a size is the largest over them.
        share: What is taken for rounding beside a size. A size is never so small that
            rounding of float64 beside the largest size could come to more than that.
        apart: Whether each sample has sizes of its own.

    Returns:
        One for each y, with 1 element along dim unless samples are apart; ones where it
        cannot be told.
    """
    source = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's

    def random(t: Tensor) -> Tensor:
        numbers = torch.rand(2, *t.shape, generator=source, device="cpu")
        return ((numbers[0] + 0.5) * (numbers[1] - 0.5).sign()).to(t)

    vs = [torch.zeros_like(y).requires_grad_() for y in ys]
    try:
        vJ = torch.autograd.grad(ys, xs, vs, create_graph=True, materialize_grads=True)
        vJ = tuple(w for w in vJ if w.requires_grad)
        tries = [
            torch.autograd.grad(
                vJ, vs, [random(w) for w in vJ], retain_graph=True, materialize_grads=True
            )
            for _ in range(TRIES if apart else 1)
        ]
    except (RuntimeError, ValueError):  # f is not twice differentiable, or J is zero
        return [torch.ones_like(y.real.narrow(dim, 0, 1)) for y in ys]
    each = [torch.stack(Jt).abs().nan_to_num(0, 0, 0) for Jt in zip(*tries, strict=True)]
    sizes = [found.amax(0) for found in each]
    if not apart:
        sizes = [size.amax(dim, keepdim=True) for size in sizes]
    return at_least(sizes, share)


def left_in_float64(
    f: Callable[..., Any], xs: Sequence[Tensor], one_by_one: bool = False
) -> float | None:
    """Return what mixes when f runs in float64, as a part of the largest number.

    Args:
        f: Function of the xs, tensors of shape ``(B, ...)``, that returns such tensors.
        xs: Its inputs.
        one_by_one: Whether each number of each output is to count by the size of its own
            derivatives, and so each number of an input by the largest over the samples.
    """
    mode = InFloat64()
    with torch.no_grad():
        ys = pytree.tree_leaves(f(*xs))
    found = run_in_float64(mode, f, xs, ys)
    if found is None:
        return None
    leaves, wide = found
    probes = Probes(wide)
    masks = _tell_apart(probes.count)
    left, largest = [[torch.zeros(())] * len(leaves) for _ in range(2)]
    noise = share_of_rounding(*(t.dtype for t in (*xs, *ys)))
    with mode, torch.enable_grad():
        sizes = [torch.ones_like(y) for y in wide]
        if one_by_one:
            sizes = sizes_of_outputs(wide, leaves, 0, noise, apart=True)
        for mask, *seeds in zip(masks, *probes.on(masks), strict=True):
            rows = torch.autograd.grad(
                wide,
                leaves,
                [seed / size for seed, size in zip(seeds, sizes, strict=True)],
                retain_graph=True,
                materialize_grads=True,
            )
            for k, row in enumerate(rows):
                of_samples = amounts_of_samples(row.abs().nan_to_num(0, 0, 0))
                others = of_samples[~mask.to(row.device)]
                left[k] = torch.maximum(left[k], others.amax(0))
                largest[k] = torch.maximum(largest[k], of_samples.amax(0))
    pairs = zip(left, largest, strict=True)
    if one_by_one:
        return max(_largest(part / at_least([whole], noise)[0]) for part, whole in pairs)
    return max(_largest(part) / (_largest(whole) or 1.0) for part, whole in pairs)


def amounts_of_samples(products: Tensor, dim: int = 0) -> Tensor:
    """Return the sizes of the numbers of each sample, of shape ``(B, numbers)``."""
    return products.abs().double().movedim(dim, 0).unsqueeze(-1).flatten(1)


def at_least(sizes: Sequence[Tensor], share: float) -> list[Tensor]:
    """Return sizes, of which none is so small that rounding of float64 comes to share.

    Args:
        sizes: Those of the derivatives of, or with respect to, each number of a sample.
        share: What is taken for rounding beside a size.
    """
    largest = max([_largest(size) for size in sizes]) or 1.0
    least = share_of_rounding(torch.float64) / share * largest
    return [size.clamp(min=least) for size in sizes]


def _share_where_unweighted(products: Tensor, masks: Tensor) -> float:
    """Return the largest number where a mask had no weight, as a part of the largest."""
    left = products[~masks.to(products.device)]
    if not left.any():  # as in most functions of samples, and the soonest told
        return 0.0
    return _largest(left) / (_largest(products) or 1.0)


def _largest(t: Tensor) -> float:
    """Return the size of the largest finite number of t."""
    return float(t.abs().nan_to_num(0, 0, 0).max()) if t.numel() else 0.0
