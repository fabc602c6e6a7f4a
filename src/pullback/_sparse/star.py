"""Star colours: what symmetry saves when the matrix is a Hessian.

With :math:`H_{ij}=H_{ji}` it is enough that one of the two stands alone in a product.
Coleman and Moré, *Estimation of sparse Hessian matrices and graph coloring problems*
(Mathematical Programming 28, 1984), found what that asks of the colours: neighbours in
the graph of H differ, and every path of four vertices has three colours at least, so
that two colours span nothing but stars. The greedy method follows Gebremedhin, Tarafdar,
Manne and Pothen, *New acyclic and star coloring algorithms with application to computing
Hessians* (SIAM J. Sci. Comput. 29, 2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback._sparse.coloring import SECOND_ORDER, Ints, color, count


def fewest(pattern: Any) -> Ints:
    """Return a colour for each row, which is that of the column, too.

    Args:
        pattern: A symmetric boolean ``scipy.sparse.csr_array`` of shape ``(n, n)``.
    """
    degrees = np.diff(pattern.indptr)
    # rows of one colour that have no column in common need no symmetry at all
    candidates = [color(pattern, pattern, int(degrees.max(initial=1)))]
    candidates.append(_greedy(pattern, np.arange(len(degrees))))
    if pattern.nnz <= SECOND_ORDER:
        largest_first = np.argsort(-degrees, kind="stable")
        candidates.append(_greedy(pattern, largest_first, ahead=True))
    return min(candidates, key=count)


def entries(row: Ints, column: Ints, colors: Ints) -> Ints:
    """Return where each entry of H stands in the flattened products.

    Of an entry and its mirror image the same one is read, so that the result is exactly
    symmetric: the one in the earlier row where it is alone with its colour in its
    column, else the other.
    """
    n, k = len(colors), count(colors)
    first, second = np.minimum(row, column), np.maximum(row, column)
    # how many entries of one column have rows of one colour
    together = np.bincount(column * k + colors[row], minlength=n * k)
    alone = together[second * k + colors[first]] == 1
    return np.where(alone, colors[first] * n + second, colors[second] * n + first)


def _greedy(pattern: Any, order: Ints, *, ahead: bool = False) -> Ints:
    """Give each vertex in turn the least colour that closes no path of two colours.

    Such a path u, w, x, y has u like x and w like y. What must be known of each vertex:
    the colours of its neighbours, those that several of them have, and, once it is
    coloured itself, the colours of those neighbours that have another neighbour like it.
    All three are kept as bits. With ``ahead`` the neighbours of a vertex without colour
    get different ones, as published: fewer colours on irregular graphs, more on grids.
    """
    indptr, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    count = len(indptr) - 1
    bits, once, twice, hubs = ([0] * count for _ in range(4))
    for v in order.tolist():
        near = [w for w in indices[indptr[v] : indptr[v + 1]] if w != v]
        taken = once[v]
        for w in near:
            if not bits[w]:
                taken |= once[w] if ahead else 0
            else:
                taken |= hubs[w]  # v at the end of the path: v, w, x, y
                if twice[v] & bits[w]:
                    taken |= once[w]  # v inside of it: u, v, w, x
        bit = bits[v] = ~taken & (taken + 1)
        for w in near:
            if twice[v] & bits[w]:
                hubs[w] |= bit
            if twice[w] & bit:
                hubs[v] |= bits[w]
            elif once[w] & bit:  # v is the second neighbour of w with this colour
                twice[w] |= bit
                for u in indices[indptr[w] : indptr[w + 1]]:
                    if bits[u] == bit:
                        hubs[u] |= bits[w]
            once[w] |= bit
    return np.array([bit.bit_length() - 1 for bit in bits], np.int64)
