"""How index sets pass through the operations of PyTorch.

A rule gets a :class:`Call` and returns the sets of its outputs. Operations that PyTorch
tags as pointwise share one rule; those in the tables below say which arguments hold the
values that they move, reduce or combine. What has no rule here is taken apart by
PyTorch's own decompositions, and what has none is assumed to be dense.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pullback import _index_sets as sets_of
from pullback._index_sets import Bools, Ints, Memory, Sets


class Call:
    """One operation about to run, or just run.

    Args:
        func: The operation.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        memory: The sets of all storages.
        outputs: The tensors that it writes; of those only shape and dtype count.
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
        schema = func._schema.arguments
        self.args = {a.name: a.default_value for a in schema if a.has_default_value()}
        self.args.update(zip((a.name for a in schema), args, strict=False))
        self.args.update(kwargs)
        for a in schema:  # where an out= result goes is not read
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
        return self.memory.tracks(t) and bool(self.read(t).nnz)

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

    def empty(self, rows: int) -> Sets:
        """Return ``rows`` empty sets."""
        return sets_of.empty(rows, self.memory.columns)

    def everything(self, tensors: Sequence[Tensor]) -> Sets:
        """Return one set, of all that the tensors depend on."""
        found = [self.read(t) for t in tensors if self.changes(t)]
        return sets_of.union(self.empty(1), *(sets_of.merge(s, s.shape[0]) for s in found))


Result = Sets | list[Sets]  # one for all outputs, or one for each
Rule = Callable[[Call], Result]


def name_of(func: Any) -> str:
    """Return the name of an operation, the same for its in-place form."""
    name = str(func._schema.name).removeprefix("aten::")
    if func._schema.is_mutable and name.endswith("_") and not name.endswith("__"):
        return name[:-1]
    return name


def spread(sets: Sets, rows: int) -> Sets:
    """Return the one set ``rows`` times."""
    return sets_of.select(sets, np.zeros(rows, np.int64))


# --- one element from the elements in the same place --------------------------------


def pointwise(call: Call) -> Result:
    """Each element from the elements of all operands at its place."""
    steps = STEP_ARGUMENTS.get(call.name, ()) if torch.is_grad_enabled() else ()
    return union_at(call, call.tensors(*steps), call.tensors())


def union_at(call: Call, tensors: list[Tensor], shaped: list[Tensor]) -> Sets:
    """Return the union of the tensors, each stretched to the shape of all ``shaped``."""
    shape = torch.broadcast_shapes(*(t.shape for t in shaped))
    found = [call.read(t.expand(shape)) for t in tensors if call.memory.tracks(t)]
    return sets_of.union(call.empty(shape.numel()), *found)


def multiply(call: Call) -> Result:
    """Return d(ab) = a db + b da: nothing where the other factor is a constant zero."""
    factors = [call["self"], call["other"]]
    shaped = call.tensors()
    shape = torch.broadcast_shapes(*(t.shape for t in shaped))
    total = call.empty(shape.numel())
    for factor, other in (factors, factors[::-1]):
        if isinstance(factor, Tensor) and call.memory.tracks(factor):
            wide = other.expand(shape) if isinstance(other, Tensor) else other
            wanted = np.broadcast_to(call.nonzero(wide), shape.numel())
            part = sets_of.keep(call.read(factor.expand(shape)), wanted)
            total = sets_of.union(total, part)
    return total


def choose(call: Call) -> Result:
    """``where`` and ``masked_fill``: by a constant mask exactly, else from both."""
    if call.name == "where":
        mask, yes, no = call["condition"], call["self"], call["other"]
    else:
        mask, yes, no = call["mask"], call["value"], call["self"]
    if call.changes(mask) or mask.is_meta:
        return pointwise(call)
    shape = torch.broadcast_shapes(*(t.shape for t in call.tensors()))
    taken = mask.expand(shape).reshape(-1).cpu().numpy()
    total = call.empty(shape.numel())
    for value, wanted in ((yes, taken), (no, ~taken)):
        if isinstance(value, Tensor) and call.memory.tracks(value):
            part = sets_of.keep(call.read(value.expand(shape)), wanted)
            total = sets_of.union(total, part)
    return total


def copies(call: Call) -> Result:
    """``copy_`` and ``fill_``: nothing of what was there stays."""
    source = call.args.get("src", call.args.get("value"))
    if not isinstance(source, Tensor):
        return call.empty(call["self"].numel())
    return call.read(source.expand(call["self"].shape))


def fresh(call: Call) -> Result:
    """Return what takes shape or device from a tensor, and no value."""
    return [call.empty(t.numel()) for t in call.outputs]


#: Operations whose derivative is zero wherever there is one.
STEPS = {"ceil", "fix", "floor", "floor_divide", "heaviside", "round", "sign", "trunc"}

#: Arguments that decide by a comparison and have no derivative.
STEP_ARGUMENTS = {
    "copysign": ("other",),
    "hardshrink_backward": ("self",),
    "hardsigmoid_backward": ("self",),
    "hardtanh_backward": ("self",),
    "leaky_relu_backward": ("self",),
    "masked_fill": ("mask",),
    "softshrink_backward": ("self",),
    "threshold_backward": ("self",),
    "where": ("condition",),
}


# --- elements moved as they are -----------------------------------------------------

#: Which arguments hold the elements that the operation moves.
MOVES = {
    "_reshape_copy": "self",
    "_unsafe_index": "self",
    "_unsafe_masked_index": "self",
    "as_strided_copy": "self",
    "as_strided_scatter": "self src",
    "cat": "tensors",
    "channel_shuffle": "self",
    "constant_pad_nd": "self",
    "diag_embed": "self",
    "diagonal_copy": "self",
    "diagonal_scatter": "self src",
    "embedding": "weight",
    "expand_copy": "self",
    "flip": "self",
    "gather": "self",
    "im2col": "self",
    "index": "self",
    "index_select": "self",
    "masked_select": "self",
    "narrow_copy": "self",
    "permute_copy": "self",
    "pixel_shuffle": "self",
    "pixel_unshuffle": "self",
    "reflection_pad1d": "self",
    "reflection_pad2d": "self",
    "reflection_pad3d": "self",
    "repeat": "self",
    "replication_pad1d": "self",
    "replication_pad2d": "self",
    "replication_pad3d": "self",
    "roll": "self",
    "rot90": "self",
    "select_scatter": "self src",
    "slice_scatter": "self src",
    "stack": "tensors",
    "take": "self",
    "tril": "self",
    "triu": "self",
    "unfold_copy": "self",
    "upsample_nearest1d": "self",
    "upsample_nearest2d": "self",
    "upsample_nearest3d": "self",
    "view_copy": "self",
}


def moves(call: Call) -> Result:
    """Run the operation on the elements' numbers, and see where each has gone."""
    data = {name: call[name] for name in MOVES[call.name].split()}
    if call.unknown(*data):
        return moves_anywhere(call)
    leaves, structure = pytree.tree_flatten(data)
    numbered, total = [], 1
    for t in leaves:
        numbered.append(numbers(t, total))
        total += t.numel()
    args = {**call.args, **pytree.tree_unflatten(numbered, structure)}
    if call.name == "constant_pad_nd":
        args["value"] = 0
    rows = stacked(call, leaves)
    results = pytree.tree_leaves(call.func(**args))
    return [sets_of.select(rows, source(r)) for r in results]


def moves_anywhere(call: Call) -> Result:
    """The index itself can change: any element along its dimensions may come."""
    self = call[MOVES[call.name]]
    if call.name in ("gather", "index_select"):
        dims = [call["dim"] % max(self.ndim, 1)]
        args = {**call.args, "index": first(call["index"])}
    elif call.name == "embedding":
        dims = [0]
        args = {**call.args, "indices": first(call["indices"])}
    elif call.name == "index" and not any(
        i is not None and i.dtype in (torch.bool, torch.uint8) for i in call["indices"]
    ):
        dims = [d for d, i in enumerate(call["indices"]) if i is not None]
        zeros = [i if i is None else first(i) for i in call["indices"]]
        args = {**call.args, "indices": zeros}
    else:
        return [spread(call.everything(call.tensors()), t.numel()) for t in call.outputs]
    sets, left = along(call, self, dims)
    shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
    args[MOVES[call.name]] = torch.arange(1.0, left + 1, dtype=torch.float64).reshape(shape)
    moved = call.func(**args)
    index = without_derivative_of(call, call.tensors(MOVES[call.name]))
    return sets_of.union(sets_of.select(sets, source(moved)), spread(index, moved.numel()))


def without_derivative_of(call: Call, tensors: list[Tensor]) -> Sets:
    """Return one set that says that the values change, if one of the tensors does."""
    everything = call.everything(tensors)
    if torch.is_grad_enabled():
        return sets_of.without_derivative(everything)
    return everything


def first(index: Tensor) -> Tensor:
    """Return an index of the same shape that takes the first element everywhere."""
    return torch.zeros(index.shape, dtype=index.dtype)


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


def stacked(call: Call, tensors: Sequence[Tensor]) -> Sets:
    """Return the sets of all tensors, one after another."""
    return sets_of.stack([call.read(t) for t in tensors])


# --- elements put into places of another tensor -------------------------------------

SCATTERS = {
    "_index_put_impl",
    "_unsafe_index_put",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
}


def scatters(call: Call) -> Result:
    """Find the places that are written by reading the places' own numbers there."""
    self, args = call["self"], call.args
    data = ("self", "src", "values", "source", "value")
    if call.unknown(*data):
        return spread(call.everything(call.tensors()), self.numel())
    place = numbers(self, 0)
    if "indices" in args:
        at = torch.ops.aten.index(place, args["indices"])
        values = args["values"].expand(at.shape)
    elif call.name == "put":
        at, values = place.take(args["index"]), args["source"].reshape(args["index"].shape)
    elif call.name == "masked_scatter":
        at = place[args["mask"].expand(self.shape)]
        values = args["source"].reshape(-1)[: at.numel()]
    elif call.name.startswith("scatter"):
        at = place.gather(args["dim"], args["index"])
        values = args.get("src", args.get("value"))
        if isinstance(values, Tensor) and values.ndim:
            values = values[tuple(slice(n) for n in at.shape)]
    else:
        at = place.index_select(args["dim"], args["index"])
        values = args.get("source", args.get("value"))
    adds = (
        call.name in ("scatter_add", "index_add")
        or args.get("accumulate", False)
        or args.get("include_self", False)
        or args.get("reduce") is not None
    )
    rows = at.reshape(-1).cpu().numpy().astype(np.int64)
    kept = call.read(self)
    if not adds:
        untouched = np.ones(self.numel(), bool)
        untouched[rows] = False
        kept = sets_of.keep(kept, untouched)
    if not isinstance(values, Tensor) or not call.memory.tracks(values):
        return kept
    new = call.read(values.expand(at.shape))
    pairs = (rows, np.arange(len(rows)))
    return sets_of.union(kept, sets_of.through(pairs, self.numel(), new))


# --- elements along dimensions ------------------------------------------------------

REDUCTIONS = {
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "kthvalue",
    "linalg_vector_norm",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nanmedian",
    "nansum",
    "norm",
    "prod",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
}

#: Every output along the dimension from every input along it.
MIXES = {
    "_fft_c2c",
    "_fft_c2r",
    "_fft_r2c",
    "_log_softmax",
    "_softmax",
    "msort",
    "sort",
    "topk",
}

#: Every output from the inputs up to its own place.
SCANS = {"cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"}


def dims_of(call: Call, self: Tensor) -> list[int]:
    """Return the dimensions that the argument ``dim`` names; None names all."""
    dim = call.args.get("dim")
    if call.name == "msort":
        dim = 0
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(self.ndim))
    dims = dim if isinstance(dim, Sequence) else [dim]
    return [d % self.ndim for d in dims] if self.ndim else []


def along(call: Call, self: Tensor, dims: Sequence[int]) -> tuple[Sets, int]:
    """Return the unions along ``dims``, in the order of the other dimensions."""
    size = math.prod(self.shape[d] for d in dims)
    rest = [d for d in range(self.ndim) if d not in dims]
    rows = math.prod(self.shape[d] for d in rest)
    if self.numel() == 0:
        return call.empty(rows), rows
    return sets_of.merge(call.read(self.permute(*rest, *dims)), size), rows


def reduces(call: Call) -> Result:
    """Each output from all elements along the reduced dimensions."""
    self = call["self"]
    return along(call, self, dims_of(call, self))[0]


def mixes(call: Call) -> Result:
    """Each output from all elements along its dimension."""
    self = call["self"]
    dims = dims_of(call, self)
    sets, rows = along(call, self, dims)
    shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
    number = torch.arange(rows, dtype=torch.float64).reshape(shape)
    return [sets_of.select(sets, source(number.expand(t.shape) + 1)) for t in call.outputs]


def scans(call: Call) -> Result:
    """Each output from the elements up to its own place."""
    self = call["self"]
    if not self.ndim:
        return call.read(self)
    dim = call["dim"] % self.ndim
    n = self.shape[dim]
    last_is_dim = self.movedim(dim, -1)
    row, column = np.tril_indices(n)
    start = np.arange(self.numel() // max(n, 1))[:, None] * n
    pairs = ((start + row).reshape(-1), (start + column).reshape(-1))
    result = sets_of.through(pairs, self.numel(), call.read(last_is_dim))
    back = numbers(last_is_dim).movedim(-1, dim)
    return sets_of.select(result, source(back))


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
    if not sets.nnz:
        return sets_of.empty(len(row), sets.shape[1])
    full = factor.reshape(-1, k)
    if full.all():
        return sets_of.select(sets_of.merge(sets, k), row)
    indptr = np.concatenate([[0], np.cumsum(full.sum(1))])
    inner = np.nonzero(full)[1]
    lengths = np.diff(indptr)[column]
    target = np.repeat(np.arange(len(row)), lengths)
    offset = np.arange(len(target)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    chosen = inner[np.repeat(indptr[column], lengths) + offset]
    return sets_of.through((target, row[target] * k + chosen), len(row), sets)


def matmul(call: Call) -> Result:
    """``mm`` and ``bmm``."""
    left, right = call["self"], call["mat2"].mT
    if left.ndim == 2:
        left, right = left.unsqueeze(0), right.unsqueeze(0)
    (b, m, k), p = left.shape, right.shape[1]
    operands = [(call.read(t), call.nonzero(t)) for t in (left, right)]
    return product(call, operands[0], operands[1], (b, m, p, k))


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
        every = tuple(slice(None, None, s) for s in stride)
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
    order = torch.arange(1, out.numel() + 1.0, dtype=torch.float64)
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


# --- matrices as a whole ------------------------------------------------------------

#: Every output of a batch from all elements of the matrices of that batch.
MATRIX = {
    "_linalg_det",
    "_linalg_eigh",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "_linalg_svd",
    "cholesky_inverse",
    "cholesky_solve",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_householder_product",
    "linalg_inv_ex",
    "linalg_ldl_factor_ex",
    "linalg_lu",
    "linalg_lu_factor_ex",
    "linalg_lu_solve",
    "linalg_matrix_exp",
    "linalg_qr",
    "linalg_solve_triangular",
    "triangular_solve",
}


def matrices(call: Call) -> Result:
    """Each output of a batch from all matrices at that place of the batch."""
    tensors = call.tensors()
    batch = torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    whole = min(t.ndim for t in tensors) < 2 or any(
        t.shape[: len(batch)] != batch for t in call.outputs
    )
    if whole or not all(t.numel() for t in tensors):
        return [spread(call.everything(tensors), t.numel()) for t in call.outputs]
    total = call.empty(batch.numel())
    for t in tensors:
        matrix = t.shape[-2:]
        sets = sets_of.merge(call.read(t), matrix.numel())
        place = torch.arange(1.0, len(sets.indptr), dtype=torch.float64)
        place = place.reshape(t.shape[:-2]).expand(batch)
        total = sets_of.union(total, sets_of.select(sets, source(place)))
    each = [t.numel() // max(batch.numel(), 1) for t in call.outputs]
    return [
        sets_of.select(total, np.repeat(np.arange(batch.numel()), size)) for size in each
    ]


FRESH = {
    "bernoulli",
    "cauchy",
    "empty_like",
    "exponential",
    "full_like",
    "geometric",
    "log_normal",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "normal",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "random",
    "uniform",
    "zero",
    "zeros_like",
}

RULES: dict[str, Rule] = {
    **dict.fromkeys(FRESH, fresh),
    **dict.fromkeys(MATRIX, matrices),
    **dict.fromkeys(MIXES, mixes),
    **dict.fromkeys(MOVES, moves),
    **dict.fromkeys(POOLS, pools),
    **dict.fromkeys(REDUCTIONS, reduces),
    **dict.fromkeys(SCANS, scans),
    **dict.fromkeys(SCATTERS, scatters),
    "_to_copy": pointwise,
    "bmm": matmul,
    "convolution": convolution,
    "copy": copies,
    "fill": copies,
    "masked_fill": choose,
    "mm": matmul,
    "mul": multiply,
    "where": choose,
}


def rule_of(func: Any) -> Rule | None:
    """Return the rule for an operation, if there is one."""
    rule = RULES.get(name_of(func))
    if rule is None and torch.Tag.pointwise in func.tags:
        return pointwise
    return rule


def find(rule: Rule, call: Call) -> list[Sets]:
    """Return the sets of every output of ``call``."""
    result = rule(call)
    results = result if isinstance(result, list) else [result] * len(call.outputs)
    random = torch.Tag.nondeterministic_seeded in call.func.tags
    steps = call.name in STEPS or call.args.get("rounding_mode") is not None
    final = []
    for t, sets in zip(call.outputs, results, strict=True):
        smooth = t.is_floating_point() or t.is_complex()
        # in no_grad, as in an autograd.Function, a backward of its own may follow
        if (steps or not smooth) and torch.is_grad_enabled():
            sets = sets_of.without_derivative(sets)
        if random:
            last = np.full(t.numel(), sets.shape[1] - 1)
            sets = sets_of.union(sets, sets_of.singletons(last, sets.shape[1]))
        final.append(sets)
    return final
