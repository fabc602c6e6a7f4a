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

from pullback._sparse.coloring import Ints, color


def fewest(pattern: Any) -> tuple[Ints, Ints] | None:
    """Return a colour of each row and of each column, -1 for those that need none.

    None is returned unless that takes fewer products than the longest row asks of forward
    mode alone, and the longest column of reverse mode alone.

    Args:
        pattern: A boolean ``scipy.sparse.csr_array`` of shape ``(m, n)``.
    """
    longest_row = np.diff(pattern.indptr).max(initial=0)
    longest_column = np.bincount(pattern.indices).max(initial=0)
    fewer_than = int(min(longest_row, longest_column))
    best = None
    for rows_first in (True, False):
        colors = _split(pattern if rows_first else pattern.T.tocsr(), fewer_than)
        if colors is not None:
            fewer_than = sum(int(c.max()) + 1 for c in colors)
            best = colors if rows_first else colors[::-1]
    return best


def entries(row: Ints, column: Ints, row_colors: Ints, column_colors: Ints) -> Ints:
    """Return where each entry of J stands in the flattened products, rows' ones first."""
    m, n = len(row_colors), len(column_colors)
    by_row = row_colors[row] >= 0
    if (row_colors >= 0).all():  # the columns went first
        by_row = column_colors[column] < 0
    start = (int(row_colors.max()) + 1) * n
    return np.where(
        by_row, row_colors[row] * n + column, start + column_colors[column] * m + row
    )


def _split(lines: Any, fewer_than: int) -> tuple[Ints, Ints] | None:
    """Colour the longest lines, and what crosses the others."""
    lengths = np.diff(lines.indptr)
    longest_first = np.argsort(-lengths, kind="stable")
    # with k lines taken, what is left needs as many colours as its longest line is long
    left = np.append(lengths[longest_first], 0)
    k = int(np.argmin(np.arange(len(left)) + left))
    if k == 0 or k + left[k] >= fewer_than:
        return None
    taken = np.isin(np.arange(len(lengths)), longest_first[:k])
    first, rest = lines[taken], lines[~taken]
    across = first.T.tocsr()
    first_colors = np.full(len(lengths), -1)
    first_colors[taken] = color(first, across, int(np.diff(across.indptr).max()))
    other_colors = color(rest.T.tocsr(), rest, int(left[k]))
    if first_colors.max() + 1 + other_colors.max() + 1 >= fewer_than:
        return None
    return first_colors, other_colors
