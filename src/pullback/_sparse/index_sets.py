"""Index sets: which numbers of the input each element of a tensor may depend on.

The sets of a tensor are the rows of a boolean matrix, one row for each element in
C order and one column for each number of the input. One more column, the last, stands
for a value that can change although no derivative says so (a comparison, a rounding, a
random draw, another argument): an element with an empty row is a constant.

Many elements often share a set, as the channels of a convolution do. Such a set is kept
once, and unions are taken of what differs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

try:
    import scipy.sparse as sp  # type: ignore[import-untyped]
except ImportError as error:  # pragma: no cover - exercised in a subprocess
    raise ImportError(
        "pullback.sparsity needs SciPy: python -m pip install 'pullback[sparse]'"
    ) from error

Matrix = Any  # a scipy.sparse.csr_array of booleans; SciPy carries no types
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Sets with more entries than this, about 1 GB, are refused.
MAX_ENTRIES = 200_000_000

#: Sets are kept once each where there are this many times as many elements.
REPEATED = 2


class Sets(NamedTuple):
    """A set for each element.

    Attributes:
        kept: CSR matrix, the sets that there are.
        at: Which of them each element has, -1 for an empty one; None where the rows of
            ``kept`` stand one for each element.
    """

    kept: Matrix
    at: Ints | None = None

    @property
    def rows(self) -> int:
        """How many elements there are."""
        return int(self.kept.shape[0]) if self.at is None else len(self.at)

    @property
    def columns(self) -> int:
        """Numbers of the input, plus one."""
        return int(self.kept.shape[1])

    @property
    def any(self) -> bool:
        """Whether some set is not empty."""
        if self.at is None:
            return bool(self.kept.nnz)
        return bool(changing(self).any())


def empty(rows: int, columns: int) -> Sets:
    """Return ``rows`` empty sets."""
    return Sets(_csr(np.zeros(0, np.int32), np.zeros(rows + 1, np.int32), columns))


def singletons(columns: int) -> Sets:
    """Return a set for each number of the input, with that one alone."""
    members = np.arange(columns, dtype=np.int32)
    return Sets(_csr(members[:-1], members, columns))


def only_changing(rows: int, columns: int) -> Sets:
    """Return ``rows`` sets that say that the value can change, and no more."""
    kept = _csr(np.array([columns - 1], np.int32), np.array([0, 1], np.int32), columns)
    return _chosen(kept, np.zeros(rows, np.int64))


def matrix(sets: Sets) -> Matrix:
    """Return the sets as one CSR matrix with a row for each element."""
    return sets.kept if sets.at is None else _rows(sets.kept, sets.at)


def union(*operands: Sets) -> Sets:
    """Return the unions, row by row."""
    total = operands[0]
    seen = [total]
    for other in operands[1:]:
        if not any(other is earlier for earlier in seen):
            seen.append(other)
            total = other if not total.any else _pairwise(total, other)
    return total


def _pairwise(left: Sets, right: Sets) -> Sets:
    if not right.any:
        return left
    if left.at is None or right.at is None:
        return Sets(matrix(left) + matrix(right))
    key = (left.at + 1) * (right.kept.shape[0] + 1) + right.at + 1
    pairs, at = np.unique(key, return_inverse=True)
    of_left, of_right = np.divmod(pairs, right.kept.shape[0] + 1)
    kept = _rows(left.kept, of_left - 1) + _rows(right.kept, of_right - 1)
    return _chosen(kept, at)


def select(sets: Sets, rows: Ints) -> Sets:
    """Return the given rows, in that order; -1 gives an empty set."""
    at = rows if sets.at is None else np.append(sets.at, -1)[rows]
    return _chosen(sets.kept, at)


def keep(sets: Sets, wanted: Bools) -> Sets:
    """Return the sets, emptied where ``wanted`` is false."""
    if wanted.all():
        return sets
    return select(sets, np.where(wanted, np.arange(len(wanted)), -1))


def merge(sets: Sets, size: int) -> Sets:
    """Return the union of each ``size`` consecutive rows."""
    if size == 1 or (size and not sets.rows):
        return sets
    if size == 0:
        raise ValueError("groups of no rows have no union")
    if sets.at is not None:
        groups = sets.rows // size
        return _unions(np.repeat(np.arange(groups), size), sets.at, groups, sets.kept)
    kept = sets.kept
    merged = _csr(kept.indices.copy(), kept.indptr[::size].copy(), sets.columns)
    merged.sum_duplicates()
    return Sets(merged)


def through(pairs: tuple[Ints, Ints], rows: int, sets: Sets) -> Sets:
    """Return ``rows`` sets, each the union of what ``pairs`` (row, source) leads to."""
    target, source = pairs
    if sets.at is not None:
        return _unions(target, sets.at[source], rows, sets.kept)
    return Sets(_product(target, source, rows, sets.kept))


def _unions(target: Ints, source: Ints, rows: int, kept: Matrix) -> Sets:
    """Return ``rows`` sets, the unions of kept[source]; each union is taken once."""
    count = kept.shape[0]
    real = source >= 0
    pair = np.unique(target[real] * count + source[real])
    target, source = np.divmod(pair, max(count, 1))
    lengths = np.bincount(target, minlength=rows)
    start = np.cumsum(lengths) - lengths
    first, at = _alike(target, source, lengths, start)
    chosen = lengths[first]
    inside = np.arange(chosen.sum()) - np.repeat(np.cumsum(chosen) - chosen, chosen)
    of_first = source[np.repeat(start[first], chosen) + inside]
    found = _product(np.repeat(np.arange(len(first)), chosen), of_first, len(first), kept)
    return _chosen(found, at)


def _alike(target: Ints, source: Ints, lengths: Ints, start: Ints) -> tuple[Ints, Ints]:
    """Return one row of each kind, and the kind of each row.

    Rows are alike if they have the same sources. A sum of random numbers finds them, and
    a comparison with the first of their kind makes sure.
    """
    rows = len(lengths)
    noise = np.random.default_rng(0).integers(1, 2**62, source.max(initial=0) + 1)
    sums = np.append(0, np.cumsum(noise[source]))  # wraps around, differences do, too
    key = sums[start + lengths] - sums[start]
    _, first, at = np.unique(key, return_index=True, return_inverse=True)
    same = lengths == lengths[first[at]]
    if same.all():
        inside = np.arange(len(source)) - start[target]
        same = source == source[start[first[at]][target] + inside]
    if not same.all():  # two kinds have one sum, as unlikely as that is
        return np.arange(rows), np.arange(rows)
    return first, at


def alike(table: Any) -> tuple[Ints, Ints]:
    """Return a row of each kind in a table of numbers, and the kind of each row.

    A sum with random factors finds them, and a comparison makes sure.
    """
    noise = np.random.default_rng(0).integers(1, 2**62, table.shape[1])
    _, first, kind = np.unique(
        (table * noise).sum(1), return_index=True, return_inverse=True
    )
    if not np.array_equal(table, table[first[kind]]):
        return np.arange(len(table)), np.arange(len(table))
    return first, kind


def stack(operands: Sequence[Sets]) -> Sets:
    """Return the rows of all operands, one after another."""
    if len(operands) == 1:
        return operands[0]
    offset, ats = 0, []
    for sets in operands:
        at = np.arange(sets.rows) if sets.at is None else sets.at
        ats.append(np.where(at < 0, -1, at + offset))
        offset += sets.kept.shape[0]
    kept = sp.vstack([sets.kept for sets in operands], format="csr")
    if all(sets.at is None for sets in operands):
        return Sets(kept)
    return _chosen(kept, np.concatenate(ats))


def without_derivative(sets: Sets) -> Sets:
    """Return sets that say only where a value can change."""
    return keep(only_changing(sets.rows, sets.columns), changing(sets))


def changing(sets: Sets) -> Bools:
    """Return where the sets are not empty."""
    filled = np.append(np.diff(sets.kept.indptr) > 0, False)  # for -1
    return filled[:-1] if sets.at is None else filled[sets.at]


def _chosen(kept: Matrix, at: Ints) -> Sets:
    """Return kept[at], each set once if that is less."""
    if len(at) >= REPEATED * kept.shape[0]:
        return Sets(kept, at)
    return Sets(_rows(kept, at))


def _rows(kept: Matrix, at: Ints) -> Matrix:
    sizes = np.append(np.diff(kept.indptr), 0)  # for -1
    _check_size(int(sizes[at].sum(dtype=np.int64)))
    indptr = np.append(kept.indptr, kept.indptr[-1])
    return _csr(kept.indices, indptr, kept.shape[1])[at]


def _product(target: Ints, source: Ints, rows: int, kept: Matrix) -> Matrix:
    leads = sp.csr_array(
        (np.ones(len(target), bool), (target, source)), shape=(rows, kept.shape[0])
    )
    bound = np.diff(kept.indptr)[source].sum(dtype=np.int64)
    _check_size(min(int(bound), rows * kept.shape[1]))
    return leads @ kept


def _csr(indices: Any, indptr: Any, columns: int) -> Matrix:
    shape = (len(indptr) - 1, columns)
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)


def _check_size(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise RuntimeError(
            f"the index sets have {entries:.1e} entries, more than {MAX_ENTRIES:.1e}: "
            "some tensor that f computes depends on nearly all of x everywhere; a "
            "function with a sparse Jacobian is needed (or a Jacobian without a plan)"
        )
