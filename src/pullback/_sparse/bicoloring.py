"""Colours for some rows and for columns: what both modes save together.

One dense row gives every column a colour of its own, one dense column every row, so that
a matrix with both, such as an arrow, needs as many products as a dense one, by rows or by
columns. Vector-Jacobian products give the dense rows, Jacobian-vector products the rest,
or the other way round. Coleman and Verma, *The efficient computation of sparse Jacobian
matrices using automatic differentiation* (SIAM J. Sci. Comput. 19, 1998), and Hossain and
Steihaug, *Computing a sparse Jacobian matrix by rows and columns* (Optim. Methods Softw.
10, 1998), combine the two. Here the lines that go first are the longest ones, as many as
leave the least to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._sparse.coloring import Ints, color, count


def fewest(pattern: Any) -> tuple[Ints, Ints] | None:
    """Return a colour of each row and of each column, -1 for those that need none.

    None is returned unless that takes fewer products than the longest row asks of forward
    mode alone, and the longest column of reverse mode alone.

    Args:
        pattern: A boolean ``scipy.sparse.csr_array`` of shape ``(m, n)``.
    """
    rows = np.diff(pattern.indptr)
    columns = np.bincount(pattern.indices, minlength=pattern.shape[1])
    least = min(rows.max(initial=0), columns.max(initial=0))
    best = None
    for lengths, rows_first in ((rows, True), (columns, False)):
        k, left = _cut(lengths)
        if k == 0 or k + left >= least:
            continue
        colors = _split(pattern if rows_first else pattern.T.tocsr(), lengths, k, left)
        if sum(map(count, colors)) < least:
            least = sum(map(count, colors))
            best = colors if rows_first else colors[::-1]
    return best


def entries(row: Ints, column: Ints, row_colors: Ints, column_colors: Ints) -> Ints:
    """Return where each entry of J stands in the flattened products, rows' ones first."""
    m, n = len(row_colors), len(column_colors)
    by_row = row_colors[row] >= 0
    if (row_colors >= 0).all():  # the columns went first
        by_row = column_colors[column] < 0
    start = count(row_colors) * n
    return np.where(
        by_row, row_colors[row] * n + column, start + column_colors[column] * m + row
    )


def _cut(lengths: Ints) -> tuple[int, int]:
    """Return how many lines go first, and the length of the longest one that is left.

    The latter is how many colours what is left needs at least. Both add up to the least.
    """
    left = np.append(np.sort(lengths)[::-1], 0)
    k = int(np.argmin(np.arange(len(left)) + left))
    return k, int(left[k])


def _split(lines: Any, lengths: Ints, k: int, left: int) -> tuple[Ints, Ints]:
    """Colour the k longest lines, and what crosses the others."""
    taken = np.zeros(len(lengths), bool)
    taken[np.argsort(-lengths, kind="stable")[:k]] = True
    first, rest = lines[taken], lines[~taken]
    across = first.T.tocsr()
    first_colors = np.full(len(lengths), -1)
    first_colors[taken] = color(first, across, int(np.diff(across.indptr).max()))
    return first_colors, color(rest.T.tocsr(), rest, left)
