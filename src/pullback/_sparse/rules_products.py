"""How index sets pass through sums of products, windows and whole matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp  # type: ignore[import-untyped]
import torch
from torch import Tensor

from pullback._sparse import index_sets as sets_of
from pullback._sparse.call import Call, Result, common_shape, numbers, source, spread
from pullback._sparse.index_sets import Bools, Ints, Sets

# --- sums of products ---------------------------------------------------------------


def product(
    call: Call, left: tuple[Sets, Bools], right: tuple[Sets, Bools], sizes: Sequence[int]
) -> Sets:
    """Return the sets of a batch of matrix products.

    Args:
        call: The operation.
        left: Sets of ``(b, m, k)`` elements, and where they can be other than zero.
        right: The same for ``(b, p, k)``.
        sizes: b, m, p, k.
    """
    b, m, p, k = sizes
    if not b * m * p * k:
        return call.empty(b * m * p)
    batch, i, j = np.indices((b, m, p))
    total = half_product(left, right[1], (batch * m + i), (batch * p + j), k)
    other = half_product(right, left[1], (batch * p + j), (batch * m + i), k)
    return sets_of.union(total, other)


def half_product(
    data: tuple[Sets, Bools], factor: Bools, row: Ints, column: Ints, k: int
) -> Sets:
    """Return the sum over k of data[row, k], where factor[column, k] is not zero."""
    sets, row, column = data[0], row.reshape(-1), column.reshape(-1)
    if not sets.any:
        return sets_of.empty(len(row), sets.columns)
    full = factor.reshape(-1, k)
    if full.all():
        return sets_of.select(sets_of.merge(sets, k), row)
    # rows of the same sets, and columns of the same zeros, have the same sum
    shown, column_kind = sets_of.alike(full)
    first, row_kind = np.arange(sets.rows // k), np.arange(sets.rows // k)
    if sets.at is not None:
        first, row_kind = sets_of.alike(sets.at.reshape(-1, k))
    pair = row_kind[row] * len(shown) + column_kind[column]
    pair, place = np.unique(pair, return_inverse=True)
    row, column = first[pair // len(shown)], shown[pair % len(shown)]
    indptr = np.concatenate([[0], np.cumsum(full.sum(1))])
    inner = np.nonzero(full)[1]
    lengths = np.diff(indptr)[column]
    target = np.repeat(np.arange(len(row)), lengths)
    offset = np.arange(len(target)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    chosen = inner[np.repeat(indptr[column], lengths) + offset]
    found = sets_of.through((target, row[target] * k + chosen), len(row), sets)
    return sets_of.select(found, place)


def matmul(call: Call) -> Result:
    """``mm`` and ``bmm``."""
    left, right = call["self"], call["mat2"].mT
    if left.ndim == 2:
        left, right = left.unsqueeze(0), right.unsqueeze(0)
    (b, m, k), p = left.shape, right.shape[1]
    operands = [(call.read(t), call.nonzero(t)) for t in (left, right)]
    return product(call, operands[0], operands[1], (b, m, p, k))


def sparse_matmul(call: Call) -> Result:
    """``mm`` with a constant sparse matrix: what it stores counts, whatever its value."""
    left, right = call["self"], call["mat2"]
    (m, k), p = left.shape, right.shape[1]
    if left.layout is torch.strided:
        inner, j = _stored(right)
        i = np.arange(m)[:, None]
        pairs, data = (i * p + j, i * k + inner), left
    else:
        i, inner = (index[:, None] for index in _stored(left))
        j = np.arange(p)
        pairs, data = (i * p + j, inner * p + j), right
    target, source = pairs
    return sets_of.through((target.ravel(), source.ravel()), m * p, call.read(data))


def _stored(matrix: Tensor) -> Ints:
    coo = matrix.detach().to_sparse_coo().coalesce()
    return np.asarray(coo.indices().cpu())


def windows(
    number: Tensor,
    out: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return what each window of a (..., *size) tensor sees, as (..., *out, *kernel)."""
    d = len(out)
    size = number.shape[-d:]
    need = [
        (o - 1) * s + w * (k - 1) + 1
        for o, s, w, k in zip(out, stride, dilation, kernel, strict=True)
    ]
    pads = [
        side
        for n, have, low in zip(need[::-1], size[::-1], padding[::-1], strict=True)
        for side in (low, n - have - low)
    ]
    view = torch.nn.functional.pad(number, pads)
    for axis in range(d):
        span = dilation[axis] * (kernel[axis] - 1) + 1
        view = view.unfold(number.ndim - d + axis, span, stride[axis])
        view = view[..., :: dilation[axis]]
    return view


def convolution(call: Call) -> Result:
    """Windows of the input times the weights; transposed, with zeros in between."""
    x, w, groups = call["input"], call["weight"], call["groups"]
    out, kernel = call.outputs[0].shape, w.shape[2:]
    d = len(kernel)
    stride, padding, dilation = (
        list(call[name]) * (d if len(call[name]) == 1 else 1)
        for name in ("stride", "padding", "dilation")
    )
    x_number, w_number = numbers(x).cpu(), numbers(w).cpu()
    if call["transposed"]:
        w_number = w_number.unflatten(0, (groups, -1)).transpose(1, 2)
        w_number = w_number.flatten(0, 1).flip(list(range(2, w.ndim)))
        wide = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
        between = x_number.new_zeros(*x.shape[:2], *wide)
        every: list[Any] = [slice(None, None, s) for s in stride]
        between[(..., *every)] = x_number
        x_number = between
        padding = [
            w * (k - 1) - p for w, k, p in zip(dilation, kernel, padding, strict=True)
        ]
        stride = [1] * d
    seen = windows(x_number, out[2:], kernel, stride, padding, dilation)
    # (B, groups, positions, inputs of a group x kernel), and the same for the weights
    seen = seen.unflatten(1, (groups, -1)).movedim(2, 1 + 1 + d)
    seen = seen.reshape(out[0] * groups, out[2:].numel(), -1)
    weigh = w_number.reshape(groups, out[1] // groups, -1)
    weigh = weigh.expand(out[0], *weigh.shape).reshape(-1, *weigh.shape[1:])
    operands = []
    for t, number in ((x, seen), (w, weigh)):
        rows = source(number)
        operands.append(
            (sets_of.select(call.read(t), rows), np.append(call.nonzero(t), False)[rows])
        )
    sizes = (len(seen), seen.shape[1], weigh.shape[1], seen.shape[2])
    result = product(call, operands[0], operands[1], sizes)
    order = torch.arange(1, out.numel() + 1.0, dtype=torch.float64, device="cpu")
    order = order.reshape(len(seen), seen.shape[1], weigh.shape[1]).mT
    result = sets_of.select(result, source(order))
    if call["bias"] is not None:
        bias = call["bias"].reshape(-1, *[1] * d).expand(out)
        result = sets_of.union(result, call.read(bias))
    return result


POOLS = {
    "avg_pool2d",
    "avg_pool3d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
}


def pools(call: Call) -> Result:
    """Each output from all that its window sees."""
    x, kernel = call["self"], list(call["kernel_size"])
    d = 3 if "3d" in call.name else 2
    kernel = kernel * (d if len(kernel) == 1 else 1)
    given = {"stride": kernel, "padding": [0] * d, "dilation": [1] * d}
    for name, default in given.items():
        value = list(call.args.get(name) or default)
        given[name] = value * (d if len(value) == 1 else 1)
    out = call.outputs[0].shape[-d:]
    seen = windows(numbers(x).cpu(), out, kernel, **given)
    return sets_of.merge(sets_of.select(call.read(x), source(seen)), math.prod(kernel))


def adaptive_pools(call: Call) -> Result:
    """Each output from the cells of its share of the input, which may overlap."""
    x, out = call["self"], call["output_size"]
    if not x.numel():
        return [call.empty(t.numel()) for t in call.outputs]
    pairs = sp.eye_array(math.prod(x.shape[: x.ndim - len(out)]), dtype=bool)
    for o, n in zip(out, x.shape[-len(out) :], strict=True):
        i, j = np.indices((o, n))
        seen = (j >= i * n // o) & (j < -(-(i + 1) * n // o))
        pairs = sp.kron(pairs, seen)
    return sets_of.through(pairs.nonzero(), pairs.shape[0], call.read(x))


def distances(call: Call) -> Result:
    """``cdist``: the distance of two rows from all elements of both."""
    left, right = call["x1"], call["x2"]
    shape = call.outputs[0].shape
    total = call.empty(shape.numel())
    for t, dim in ((left, -1), (right, -2)):
        if t.numel():
            each = numbers(t[..., 0]).unsqueeze(dim).expand(shape)
            rows = sets_of.merge(call.read(t), t.shape[-1])
            total = sets_of.union(total, sets_of.select(rows, source(each)))
    return total


# --- matrices as a whole ------------------------------------------------------------

#: Every output of a batch from all elements of the matrices of that batch.
MATRIX = {
    "_linalg_det",
    "_linalg_eigh",
    "_linalg_slogdet",
    "_linalg_svd",
    "cholesky",
    "cholesky_inverse",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_householder_product",
    "linalg_inv_ex",
    "linalg_ldl_factor_ex",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor_ex",
    "linalg_matrix_exp",
    "linalg_matrix_sqrth",
    "linalg_pinv",
    "linalg_polar",
    "linalg_qr",
    "lu_unpack",
    "ormqr",
}

#: Those that multiply by the inverse of a matrix, or of what it was factored into.
SOLVES = {
    "_linalg_solve_ex",
    "cholesky_solve",
    "linalg_lu_solve",
    "linalg_solve_triangular",
    "triangular_solve",
}


def matrices(call: Call) -> Result:
    """Each output of a batch from all matrices at that place of the batch."""
    tensors = call.tensors()
    batch = common_shape(tensors, trailing=2)
    whole = min(t.ndim for t in tensors) < 2 or any(
        t.shape[: len(batch)] != batch for t in call.outputs
    )
    if whole or not all(t.numel() for t in tensors):
        return [spread(call.everything(tensors), t.numel()) for t in call.outputs]
    total = call.empty(batch.numel())
    for t in tensors:
        matrix = t.shape[-2:]
        sets = sets_of.merge(call.read(t), matrix.numel())
        place = torch.arange(1.0, sets.rows + 1.0, dtype=torch.float64, device="cpu")
        place = place.reshape(t.shape[:-2]).expand(batch)
        total = sets_of.union(total, sets_of.select(sets, source(place)))
    each = [t.numel() // max(batch.numel(), 1) for t in call.outputs]
    found = [
        sets_of.select(total, np.repeat(np.arange(batch.numel()), size)) for size in each
    ]
    real = not call.outputs[0].is_complex()
    if call.name == "_linalg_slogdet" and real and torch.is_grad_enabled():
        found[0] = sets_of.without_derivative(found[0])  # the sign
    return found


def solves(call: Call) -> Result:
    """The product with the inverse of a constant matrix; of another, as of any matrices."""
    right = call["B"] if "B" in call.args else call["self"]
    given = [t for t in call.tensors() if t is not right]
    if any(t.is_meta or call.changes(t) for t in given) or not right.numel():
        return matrices(call)
    inverse = _inverse(call)
    x, n = call.outputs[0], inverse.shape[-1]
    is_vector = right.ndim == 1 or right.shape == given[0].shape[:-1]
    is_vector &= call.name == "_linalg_solve_ex"
    dim = -2
    if is_vector or not call.args.get("left", True):
        dim = -1
    if not call.args.get("left", True):  # X A = B is A^T X^T = B^T
        inverse = inverse.swapaxes(-1, -2)
    lines = x.movedim(dim, -1)
    batch = torch.arange(math.prod(inverse.shape[:-2]), device="cpu")
    batch = batch.reshape(inverse.shape[:-2])
    batch = (batch if is_vector else batch.unsqueeze(-1)).expand(lines.shape[:-1])
    of_line = batch.reshape(-1, 1).numpy()
    row, i = np.arange(len(of_line))[:, None], np.arange(n)
    sets = call.read(right.expand(x.shape).movedim(dim, -1))
    row, column = np.broadcast_arrays(row, of_line * n + i)
    found = half_product((sets, np.ones(0, bool)), inverse.reshape(-1, n), row, column, n)
    back = numbers(lines).movedim(-1, dim)
    constant = [call.empty(t.numel()) for t in call.outputs[1:]]
    return [sets_of.select(found, source(back)), *constant]


def _inverse(call: Call) -> Bools:
    """Return where the inverse that a solver multiplies by can be other than zero."""
    if call.name == "_linalg_solve_ex":
        return _walks(_shaped(call, "A"))
    if call.name == "linalg_lu_solve":  # (P L U)^-1 = U^-1 L^-1 P^T
        factors = _shaped(call, "LU")
        swaps = torch.lu_unpack(call["LU"], call["pivots"], unpack_data=False)[0]
        turned: Bools = (swaps.mT != 0).cpu().numpy()
        found = _walks(np.triu(factors)) @ _walks(np.tril(factors)) @ turned
        return found.swapaxes(-1, -2) if call["adjoint"] else found
    name = {"cholesky_solve": "input2", "triangular_solve": "A"}.get(call.name, "self")
    triangle = np.triu if call["upper"] else np.tril
    found = _walks(triangle(_shaped(call, name)))
    turned = found.swapaxes(-1, -2)
    if call.name == "cholesky_solve":  # (L L^T)^-1 = L^-T L^-1, (U^T U)^-1 = U^-1 U^-T
        return found @ turned if call["upper"] else turned @ found
    return turned if call.args.get("transpose") else found


def _shaped(call: Call, name: str) -> Bools:
    matrix = call[name]
    return call.nonzero(matrix).reshape(matrix.shape)


def _walks(edges: Bools) -> Bools:
    """Return where a matrix leads by any number of steps, none among them.

    There alone its inverse can be other than zero, for it is a polynomial in the matrix
    (Cayley and Hamilton). The method is that of Warshall, *A theorem on Boolean matrices*,
    J. ACM 9, 1962.
    """
    n = edges.shape[-1]
    found = edges | np.eye(n, dtype=bool)
    if found.all():
        return found
    bits = np.packbits(found, axis=-1)
    for k in range(n):
        leads = (bits[..., k // 8] >> (7 - k % 8)) & 1
        bits |= leads[..., None] * bits[..., k : k + 1, :]
    return np.unpackbits(bits, axis=-1, count=n).astype(bool)
