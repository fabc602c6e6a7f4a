"""The products of a Jacobian shared among the processes of a torch.distributed group."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pullback._inputs import kind_of


class SharedProducts:
    """The processes of one group, which compute one Jacobian together.

    Every rank takes as many products as any other, so that the results can be gathered;
    those past the last row or column are cut off. What a rank raises before is told to
    the others, which would wait for its share until the group's time is up.

    Args:
        group: A process group that this process belongs to.

    Raises:
        TypeError: ``group`` is no process group, or this process is no member.
    """

    def __init__(self, group: Any) -> None:
        if not dist.is_available() or not isinstance(group, dist.ProcessGroup):
            raise TypeError(
                f"group is {kind_of(group)}; a process group of "
                "torch.distributed that this process belongs to is needed"
            )
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.met = False

    def share(self, total: int) -> tuple[int, int]:
        """Return the number of this rank's first product, and of the one after its last."""
        size = math.ceil(total / self.size)
        return self.rank * size, (self.rank + 1) * size

    @contextmanager
    def together(self) -> Iterator[None]:
        """Tell the others of an exception in the block, if they wait for this rank."""
        try:
            yield
        except Exception as error:
            if not self.met:
                self._exchange("", None, failed=f"{type(error).__name__}: {error}")
            raise

    def gather(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the parts of all ranks, one rank's after the other's, on every rank."""
        self._exchange("results", [f"{tuple(p.shape)} {p.dtype}" for p in parts])
        # its name until 2.12
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        gathered = []
        for part in parts:
            whole = part.new_empty(self.size * len(part), *part.shape[1:])
            gather(whole, part.contiguous(), group=self.group)
            gathered.append(whole)
        return gathered

    def compare(self, xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Raise ValueError unless all ranks had the same inputs, and outputs nearly so."""
        self._exchange("inputs (SHA-256)", [_digest(x) for x in xs])
        self._exchange("outputs (shape, sum, …)", [_sums(y) for y in ys], _nearly_same)

    def _exchange(
        self,
        what: str,
        mine: Any,
        same: Callable[[Any, Any], bool] = operator.eq,
        failed: str | None = None,
    ) -> None:
        """Tell all ranks ``mine``; raise if one has failed or two are not the same."""
        self.met = True
        told: list[Any] = [None] * self.size
        dist.all_gather_object(told, (failed, mine), group=self.group)
        if failed:
            return
        for rank, (error, _) in enumerate(told):
            if error:
                raise RuntimeError(f"rank {rank} of the group raised {error}")
        first = told[0][1]
        for rank, (_, other) in enumerate(told):
            if not same(first, other):
                raise ValueError(
                    f"the ranks of the group have different {what}: rank 0 {first}, rank "
                    f"{rank} {other}; the same f and inputs, and for a random f the same "
                    "seed, are needed on all of them"
                )


def _digest(t: Tensor) -> str:
    numbers = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(numbers.numpy().tobytes()).hexdigest()[:16]


def _sums(t: Tensor) -> tuple[tuple[int, ...], float, float, float]:
    """Return the shape, the sum, the sum of sizes, and how exact sums are."""
    wide = t.detach().double()
    exact = torch.finfo(t.dtype).eps ** 0.5
    return tuple(t.shape), float(wide.sum()), float(wide.abs().sum()), exact


def _nearly_same(first: list[Any], other: list[Any]) -> bool:
    """Tell whether sums differ by no more than the order of their terms may matter."""
    return len(first) == len(other) and all(
        shape == as_shape and (a == b or (a != a and b != b) or abs(a - b) <= exact * size)
        for (shape, a, size, exact), (as_shape, b, _, _) in zip(first, other, strict=True)
    )
