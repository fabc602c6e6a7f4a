"""Colours for the rows or columns of a sparsity pattern.

Rows of one colour have no column in common, so one vector-Jacobian product gives them
all; columns likewise. Curtis, Powell and Reid (1974) saw that this computes a sparse
Jacobian; Coleman and Moré (1983) that it is a colouring of a graph; Gebremedhin, Manne
and Pothen, *What color is your Jacobian?* (SIAM Review 47, 2005), give the field.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mode = Literal["reverse", "forward"]

CYCLES = 16  # how many periodic colourings are tried
SECOND_ORDER = 2_000_000  # entries up to which a second greedy order is tried


def fewest(pattern: Any, mode: Mode | None = None) -> tuple[Mode, Ints]:
    """Return ``("reverse", row colours)`` or ``("forward", column colours)``.

    Args:
        pattern: A boolean ``scipy.sparse.csr_array`` of shape ``(m, n)``.
        mode: The one to take; None for the one of fewer colours.
    """
    across = pattern.T.tocsr()
    # the rows that meet in one column all need colours of their own
    bounds: dict[Mode, int] = {
        "reverse": np.diff(across.indptr).max(initial=1),
        "forward": np.diff(pattern.indptr).max(initial=1),
    }
    if mode is not None:
        bounds = {mode: bounds[mode]}
    symmetric = all(
        np.array_equal(getattr(pattern, part), getattr(across, part))
        for part in ("indptr", "indices")
    )
    best: tuple[Mode, Ints] | None = None
    for tried in sorted(bounds, key=bounds.__getitem__):
        if best is not None and (best[1].max(initial=0) < bounds[tried] or symmetric):
            break  # no fewer colours are to be had
        ways = (pattern, across) if tried == "reverse" else (across, pattern)
        colors = color(*ways, int(bounds[tried]))
        if best is None or colors.max(initial=0) < best[1].max(initial=0):
            best = tried, colors
    assert best is not None  # the first mode has no rival
    return best


def count(colors: Ints) -> int:
    """Return how many colours there are; they are numbered from 0."""
    return int(colors.max(initial=-1)) + 1


def color(vertices: Any, groups: Any, bound: int) -> Ints:
    """Return a colour for each vertex, so that no group holds a colour twice.

    Args:
        vertices: CSR, the groups of each vertex.
        groups: CSR, the vertices of each group; the transpose.
        bound: The size of the largest group, which no colouring can beat.
    """
    count = vertices.shape[0]
    if bound >= count:
        return np.arange(count)
    best = _cyclic(groups, bound, bound + 1)  # what a band of full width needs
    if best is not None:
        return best
    degrees = np.diff(vertices.indptr)
    orders = [np.arange(count)]
    if vertices.nnz <= SECOND_ORDER and degrees.max() > degrees.min():
        orders.append(np.argsort(-degrees, kind="stable"))  # largest first
    best = min((_greedy(vertices, order) for order in orders), key=np.max)
    found = int(best.max()) + 1
    return _first(_cyclic(groups, bound + 1, min(found, bound + CYCLES)), best)


def _first(candidate: Ints | None, otherwise: Ints) -> Ints:
    return otherwise if candidate is None else candidate


def _cyclic(groups: Any, start: int, stop: int) -> Ints | None:
    """Return the colours j mod k for the least k in the range that is valid."""
    group = np.repeat(np.arange(groups.shape[0]), np.diff(groups.indptr))
    for k in range(start, stop):
        taken = np.zeros(groups.shape[0] * k, bool)
        taken[group * k + groups.indices % k] = True
        if np.count_nonzero(taken) == groups.nnz:
            return np.arange(groups.shape[1]) % k
    return None


def _greedy(vertices: Any, order: Ints) -> Ints:
    """Give each vertex in turn the least colour that none of its groups holds."""
    indptr, indices = vertices.indptr.tolist(), vertices.indices.tolist()
    held = [0] * vertices.shape[1]  # the colours in each group, as bits
    colors = [0] * vertices.shape[0]
    for v in order.tolist():
        mine = indices[indptr[v] : indptr[v + 1]]
        taken = 0
        for g in mine:
            taken |= held[g]
        bit = ~taken & (taken + 1)
        colors[v] = bit.bit_length() - 1
        for g in mine:
            held[g] |= bit
    return np.array(colors, np.int64)
