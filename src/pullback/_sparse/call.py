"""One operation on its way through the index sets, and what all rules share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pullback._sparse import index_sets as sets_of
from pullback._sparse.index_sets import Bools, Ints, Sets
from pullback._sparse.memory import Memory
from pullback._torch import pytree, schema


class Call:
    """One operation about to run, or just run.

    Args:
        func: The operation.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        memory: The sets of all storages.
        outputs: The tensors that it writes; of those only shape and dtype count.

    Attributes:
        low: Where its output is -inf, or nearly, for every x; None for nowhere. Its rule
            says so.
        anywhere: Whether values decide where it reads or writes. Its rule says so.
    """

    def __init__(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        memory: Memory,
        outputs: Sequence[Tensor],
    ) -> None:
        self.func, self.memory, self.outputs = func, memory, outputs
        self.name = name_of(func)
        self.low: Bools | None = None
        self.anywhere = False
        arguments = schema(func).arguments
        self.args = {a.name: a.default_value for a in arguments if a.has_default_value()}
        self.args.update(zip((a.name for a in arguments), args, strict=False))
        self.args.update(kwargs)
        for a in arguments:  # where an out= result goes is not read
            if a.is_out:
                del self.args[a.name]

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def tensors(self, *without: str) -> list[Tensor]:
        """Return the tensors among the arguments, other than those named."""
        values = [value for name, value in self.args.items() if name not in without]
        return [t for t in pytree.tree_leaves(values) if isinstance(t, Tensor)]

    def read(self, t: Tensor) -> Sets:
        """Return the index sets of ``t``."""
        return self.memory.read(t)

    def changes(self, t: Tensor) -> bool:
        """Tell whether a value of ``t`` can change with the input."""
        return self.memory.tracks(t) and self.read(t).any

    def unknown(self, *without: str) -> bool:
        """Tell whether the values of the tensors, but of those named, are not known."""
        return any(t.is_meta or self.changes(t) for t in self.tensors(*without))

    def nonzero(self, t: Any) -> Bools:
        """Return where ``t`` can be other than zero, in C order."""
        if not isinstance(t, Tensor):
            return np.array([t != 0])
        if t.is_meta:
            return np.ones(t.numel(), bool)
        values = (t.detach() != 0).reshape(-1).cpu().numpy()
        if self.memory.tracks(t):
            values = values | sets_of.changing(self.read(t))
        return values

    def is_low(self, t: Any) -> Bools:
        """Return where ``t`` is -inf, or nearly, for every x, in C order.

        Beside any number that x leads to, it counts for nothing in a softmax.
        """
        if not isinstance(t, Tensor) or t.is_meta or not t.is_floating_point():
            return np.zeros(t.numel() if isinstance(t, Tensor) else 1, bool)
        lowest = torch.finfo(t.dtype).min / 2
        low = (t.detach() <= lowest).reshape(-1).cpu().numpy()
        if self.memory.tracks(t):
            low &= self.memory.low(t) | ~sets_of.changing(self.read(t))
        return np.asarray(low)

    def empty(self, rows: int) -> Sets:
        """Return ``rows`` empty sets."""
        return sets_of.empty(rows, self.memory.columns)

    def everything(self, tensors: Sequence[Tensor]) -> Sets:
        """Return one set, of all that the tensors depend on."""
        found = [self.read(t) for t in tensors if self.changes(t)]
        return sets_of.union(self.empty(1), *(sets_of.merge(s, s.rows) for s in found))


Result = Sets | list[Sets]  # one for all outputs, or one for each
Rule = Callable[[Call], Result]


def name_of(func: Any) -> str:
    """Return the name of an operation, the same for its in-place form."""
    name = str(schema(func).name).removeprefix("aten::")
    if schema(func).is_mutable and name.endswith("_") and not name.endswith("__"):
        return name[:-1]
    return name


def spread(sets: Sets, rows: int) -> Sets:
    """Return the one set ``rows`` times."""
    return sets_of.select(sets, np.zeros(rows, np.int64))


def common_shape(tensors: Sequence[Tensor], trailing: int = 0) -> torch.Size:
    """Return what the shapes broadcast to, but for their last ``trailing`` dimensions.

    (``torch.broadcast_shapes`` imports SymPy, half a second at the first call.)
    """
    shapes = [tuple(t.shape)[: t.ndim - trailing] for t in tensors]
    return torch.Size(np.broadcast_shapes(*shapes))


def numbers(t: Tensor, start: int = 1) -> Tensor:
    """Return numbers from ``start`` in the shape of t (float64 is exact to 2**53)."""
    stop = start + t.numel()
    count = torch.arange(start, stop, dtype=torch.float64, device=index_device(t))
    return count.reshape(t.shape)


def index_device(t: Tensor) -> torch.device:
    """Return where to number t: beside its indices, unless there are no values."""
    return torch.device("cpu") if t.is_meta else t.device


def source(moved: Tensor) -> Ints:
    """Return the row that each number came from; 0, which is no number, gives -1."""
    return moved.reshape(-1).cpu().numpy().astype(np.int64) - 1


def along(sets: Sets, self: Tensor, dims: Sequence[int]) -> tuple[Sets, int]:
    """Return the unions along ``dims`` of self, in the order of the other dimensions."""
    size = math.prod(self.shape[d] for d in dims)
    rest = [d for d in range(self.ndim) if d not in dims]
    rows = math.prod(self.shape[d] for d in rest)
    if self.numel() == 0:
        return sets_of.empty(rows, sets.columns), rows
    order = [*rest, *dims]
    if order != sorted(order):
        sets = sets_of.select(sets, source(numbers(self).permute(order)))
    return sets_of.merge(sets, size), rows
