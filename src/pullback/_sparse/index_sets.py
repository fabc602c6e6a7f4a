"""Index sets: which numbers of the input each element of a tensor may depend on.

The sets of a tensor are the rows of a boolean CSR matrix, one row for each element in
C order and one column for each number of the input. One more column, the last, stands
for a value that can change although no derivative says so (a comparison, a rounding, a
random draw, another argument): an element with an empty row is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from pullback._torch import storage_key

try:
    import scipy.sparse as sp  # type: ignore[import-untyped]
except ImportError as error:  # pragma: no cover - exercised in a subprocess
    raise ImportError(
        "pullback.sparsity needs SciPy: python -m pip install 'pullback[sparse]'"
    ) from error

Sets = Any  # a scipy.sparse.csr_array of booleans; SciPy carries no types
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Sets with more entries than this, about 1 GB, are refused.
MAX_ENTRIES = 200_000_000


def empty(rows: int, columns: int) -> Sets:
    """Return ``rows`` empty sets."""
    return _csr(np.zeros(0, np.int32), np.zeros(rows + 1, np.int32), columns)


def singletons(members: Ints, columns: int) -> Sets:
    """Return one set for each member, with that member alone."""
    indptr = np.arange(len(members) + 1, dtype=np.int32)
    return _csr(members.astype(np.int32), indptr, columns)


def union(*operands: Sets) -> Sets:
    """Return the unions, row by row."""
    total = operands[0]
    seen = [total]
    for other in operands[1:]:
        if not any(other is earlier for earlier in seen):
            seen.append(other)
            total = other if not total.nnz else total + other if other.nnz else total
    return total


def select(sets: Sets, rows: Ints) -> Sets:
    """Return the given rows, in that order; -1 gives an empty set."""
    sizes = np.diff(sets.indptr)
    sizes = np.append(sizes, 0)  # for -1
    _check_size(int(sizes[rows].sum(dtype=np.int64)))
    indptr = np.append(sets.indptr, sets.indptr[-1])
    return _csr(sets.indices, indptr, sets.shape[1])[rows]


def keep(sets: Sets, wanted: Bools) -> Sets:
    """Return the sets, emptied where ``wanted`` is false."""
    if wanted.all():
        return sets
    return select(sets, np.where(wanted, np.arange(len(wanted)), -1))


def merge(sets: Sets, size: int) -> Sets:
    """Return the union of each ``size`` consecutive rows."""
    if size == 1 or (size and not sets.shape[0]):
        return sets
    if size == 0:
        raise ValueError("groups of no rows have no union")
    merged = _csr(sets.indices.copy(), sets.indptr[::size].copy(), sets.shape[1])
    merged.sum_duplicates()
    return merged


def through(pairs: tuple[Ints, Ints], rows: int, sets: Sets) -> Sets:
    """Return ``rows`` sets, each the union of what ``pairs`` (row, source) leads to."""
    target, source = pairs
    matrix = sp.csr_array(
        (np.ones(len(target), bool), (target, source)), shape=(rows, sets.shape[0])
    )
    bound = np.diff(sets.indptr)[source].sum(dtype=np.int64)
    _check_size(min(int(bound), rows * sets.shape[1]))
    return matrix @ sets


def stack(operands: Sequence[Sets]) -> Sets:
    """Return the rows of all operands, one after another."""
    return operands[0] if len(operands) == 1 else sp.vstack(operands, format="csr")


def without_derivative(sets: Sets) -> Sets:
    """Return sets that say only where a value can change."""
    last = sets.shape[1] - 1
    changes = changing(sets)
    indptr = np.concatenate([[0], np.cumsum(changes)])
    return _csr(np.full(indptr[-1], last, np.int32), indptr, last + 1)


def changing(sets: Sets) -> Bools:
    """Return where the sets are not empty."""
    return np.asarray(np.diff(sets.indptr) > 0)


def _csr(indices: Any, indptr: Any, columns: int) -> Sets:
    shape = (len(indptr) - 1, columns)
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)


def _check_size(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise RuntimeError(
            f"the index sets have {entries:.1e} entries, more than {MAX_ENTRIES:.1e}: "
            "some tensor that f computes depends on nearly all of x everywhere; a "
            "function with a sparse Jacobian is needed (or a Jacobian without a plan)"
        )


class Memory:
    """The index sets of every storage, so that views of one storage share them.

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
            if size == unit and _whole(t, record.sets.shape[0]):
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
        if _whole(t, total) and unit == size:
            new = sets
        else:
            parts = size // unit
            rows = np.arange(old.shape[0])
            at = positions(t)[:, None] * parts + np.arange(parts)
            rows[at] = old.shape[0] + np.arange(t.numel())[:, None]
            new = select(stack([old, sets]), rows)
        if len(self._records) >= self._purge_at:
            live = {k: r for k, r in self._records.items() if not r.storage.expired()}
            self._records, self._purge_at = live, max(16, 2 * len(live))
        weak = StorageWeakRef(storage)
        self._records[storage_key(t)] = _Record(weak, unit, new)

    def _record(self, t: Tensor) -> _Record | None:
        if t.layout is not torch.strided:
            return None
        record = self._records.get(storage_key(t))
        return None if record is None or record.storage.expired() else record


class _Record(NamedTuple):
    storage: StorageWeakRef  # which also keeps its address from being used again
    unit: int  # bytes of an element
    sets: Sets


def positions(t: Tensor) -> Ints:
    """Return where the elements of ``t``, in C order, lie in its storage."""
    at = np.full((1,) * t.ndim, t.storage_offset(), np.int64)
    for dim, (length, stride) in enumerate(zip(t.shape, t.stride(), strict=True)):
        steps = np.arange(length, dtype=np.int64) * stride
        at = at + steps.reshape([-1 if d == dim else 1 for d in range(t.ndim)])
    return at.reshape(-1)


def _whole(t: Tensor, total: int) -> bool:
    return t.numel() == total and t.storage_offset() == 0 and t.is_contiguous()
