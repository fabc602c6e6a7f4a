"""Whether samples are on their own, as ``batched=True`` takes them to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, islice
from math import comb

import torch
from torch import Tensor

#: What leaks from sample to sample is rounding up to this many times that of the dtype.
ROUNDINGS = 64


class Probes:
    """Products with random weights that tell whether samples mix.

    Two are taken with J: one with weights on a random half of the samples, one with the
    others. What they leave in the other half is what mixes. Two samples of one half are
    told by the sum of both products, for it is the product of J with all the weights if no
    sample meets another. Where that is not so, rounding may be the cause; then each sample
    is told apart from each other by products with weights on some of the samples.

    Args:
        like: What the seeds look like, tensors of shape ``(B, ...)``.
    """

    def __init__(self, like: Sequence[Tensor]) -> None:
        source = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's

        def weights(size: int) -> Tensor:
            return torch.rand(size, generator=source, device="cpu") + 0.5

        self.count = len(like[0])
        self.samples = weights(self.count)
        self.numbers = [weights(t.shape[1:].numel()) for t in like]
        self.like = like
        half = torch.randperm(self.count, generator=source, device="cpu") < self.count // 2
        self.halves = torch.stack([half, ~half])

    def seeds(self) -> list[Tensor]:
        """Return the seeds of the two products, of shape ``(2, B, ...)``."""
        return self._on(self.halves)

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
            _compare(products, self.halves)
            if self.count > 2 and not self._explained(products, J):
                masks = _tell_apart(self.count)
                _compare(take(self._on(masks)), masks)

    def _explained(self, products: Sequence[Tensor], J: Sequence[Tensor]) -> bool:
        """Tell whether J times all weights is the sum of both products, up to rounding."""
        w = torch.cat(self.numbers)
        for product, rows in zip(products, J, strict=True):
            found = product.sum(0).reshape(self.count, -1)
            # one pass over J: a weight is that of its sample times that of its number
            summed = (w.to(rows) @ rows.reshape(len(rows), -1)).view_as(found)
            expected = self.samples.to(rows).unsqueeze(1) * summed
            gap = (found - expected).abs().nan_to_num(0, 0, 0)
            if gap.numel() and float(gap.max()) > _noise(expected, _largest(expected)):
                return False
        return True

    def _on(self, masks: Tensor) -> list[Tensor]:
        """Return the weights on the samples of each mask alone, (masks, B, ...)."""
        samples = self.samples * masks
        return [
            torch.einsum("pb,n->pbn", samples, w).to(t).reshape(len(masks), *t.shape)
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


def _compare(products: Sequence[Tensor], masks: Tensor) -> None:
    """Raise if a product leaves more than rounding where its mask had no weight."""
    for product in products:
        alone = ~masks.to(product.device)
        leak, largest = _largest(product[alone]), _largest(product)
        if leak > _noise(product, largest):
            raise ValueError(
                "batched=True, and f mixes samples: an output of one depends on "
                "the input of another; a function that treats each sample on its "
                "own is needed, or batched=False (pullback.mixing shows which). "
                "In products with random weights, what mixes comes to "
                f"{leak / largest:.2g} times the largest number"
            )


def _largest(t: Tensor) -> float:
    """Return the size of the largest finite number of t."""
    return float(t.abs().nan_to_num(0, 0, 0).max()) if t.numel() else 0.0


def _noise(t: Tensor, largest: float) -> float:
    """Return what is no more than rounding in t, beside its largest number."""
    return float(ROUNDINGS * torch.finfo(t.dtype).eps * largest)
