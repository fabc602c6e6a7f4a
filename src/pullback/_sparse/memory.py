"""The index sets of every storage, so that views of one storage share them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from pullback._sparse.index_sets import Bools, Ints, Sets, empty, merge, select, stack
from pullback._torch import storage_key


class Memory:
    """What is known of the elements of each storage.

    Args:
        columns: Numbers of the input, plus one.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._records: dict[int, _Record] = {}
        self._purge_at = 16

    def tracks(self, t: Tensor) -> bool:
        """Tell whether anything is known about the storage of ``t``."""
        return self._record(t) is not None

    def read(self, t: Tensor) -> Sets:
        """Return the sets of the elements of ``t``; a constant has empty ones."""
        record = self._record(t)
        if record is None:
            return empty(t.numel(), self.columns)
        size, unit = t.element_size(), record.unit
        if size <= unit:
            if size == unit and _whole(t, record.sets.rows):
                return record.sets
            return select(record.sets, positions(t) * size // unit)
        parts = size // unit  # as of a real tensor seen as a complex one
        rows = positions(t)[:, None] * parts + np.arange(parts)
        return merge(select(record.sets, rows.reshape(-1)), parts)

    def write(self, t: Tensor, sets: Sets) -> None:
        """Remember ``sets`` as those of the elements of ``t``."""
        storage = t.untyped_storage()
        record, size = self._record(t), t.element_size()
        total = storage.nbytes() // size
        if record is None or _whole(t, total):
            old = empty(total, self.columns)
            unit = size
        else:
            old, unit = record.sets, record.unit
        if unit > size:  # the storage held larger elements until now
            old = select(old, np.arange(total) * size // unit)
            unit = size
        low = None
        if _whole(t, total) and unit == size:
            new = sets
        else:
            parts = size // unit
            rows = np.arange(old.rows)
            at = positions(t)[:, None] * parts + np.arange(parts)
            rows[at] = old.rows + np.arange(t.numel())[:, None]
            new = select(stack([old, sets]), rows)
            if record is not None and record.low is not None and unit == record.unit:
                low = record.low.copy()
                low[at] = False
        if len(self._records) >= self._purge_at:
            live = {k: r for k, r in self._records.items() if not r.storage.expired()}
            self._records, self._purge_at = live, max(16, 2 * len(live))
        weak = StorageWeakRef(storage)
        self._records[storage_key(t)] = _Record(weak, unit, new, low)

    def low(self, t: Tensor) -> Bools:
        """Return which elements of ``t`` were marked as low, in C order."""
        record = self._record(t)
        if record is None or record.low is None or record.unit != t.element_size():
            return np.zeros(t.numel(), bool)
        return record.low[positions(t)]

    def mark_low(self, t: Tensor, low: Bools) -> None:
        """Remember, until it is written, where ``t`` is -inf or nearly for every x."""
        record = self._record(t)
        if record is not None and low.any() and _whole(t, record.sets.rows):
            self._records[storage_key(t)] = record._replace(low=low)

    def _record(self, t: Tensor) -> _Record | None:
        if t.layout is not torch.strided:
            return None
        record = self._records.get(storage_key(t))
        return None if record is None or record.storage.expired() else record


class _Record(NamedTuple):
    storage: StorageWeakRef  # which also keeps its address from being used again
    unit: int  # bytes of an element
    sets: Sets
    low: Bools | None = None  # which elements softmax leaves at 0, whatever x is


def positions(t: Tensor) -> Ints:
    """Return where the elements of ``t``, in C order, lie in its storage."""
    at = np.full((1,) * t.ndim, t.storage_offset(), np.int64)
    for dim, (length, stride) in enumerate(zip(t.shape, t.stride(), strict=True)):
        steps = np.arange(length, dtype=np.int64) * stride
        at = at + steps.reshape([-1 if d == dim else 1 for d in range(t.ndim)])
    return at.reshape(-1)


def _whole(t: Tensor, total: int) -> bool:
    return t.numel() == total and t.storage_offset() == 0 and t.is_contiguous()
