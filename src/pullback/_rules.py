"""How index sets pass through the operations of PyTorch.

A rule gets a :class:`Call` and returns the sets of its outputs. Operations that PyTorch
tags as pointwise share one rule; those in the tables below say which arguments hold the
values that they move, reduce or combine. What has no rule here is taken apart by
PyTorch's own decompositions, and what has none is assumed to be dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pullback import _index_sets as sets_of
from pullback import _rules_products as products
from pullback._call import Call, Result, Rule, along, name_of, numbers, source, spread
from pullback._index_sets import Sets

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
    self, args = call["self"].expand(call.outputs[0].shape), call.args
    if call.unknown("self", "src", "values", "source", "value"):
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
    **dict.fromkeys(products.MATRIX, products.matrices),
    **dict.fromkeys(MIXES, mixes),
    **dict.fromkeys(MOVES, moves),
    **dict.fromkeys(products.POOLS, products.pools),
    **dict.fromkeys(REDUCTIONS, reduces),
    **dict.fromkeys(SCANS, scans),
    **dict.fromkeys(SCATTERS, scatters),
    "_adaptive_avg_pool3d": products.adaptive_pools,
    "_cdist_forward": products.distances,
    "_to_copy": pointwise,
    "adaptive_max_pool2d": products.adaptive_pools,
    "adaptive_max_pool3d": products.adaptive_pools,
    "bmm": products.matmul,
    "convolution": products.convolution,
    "copy": copies,
    "fill": copies,
    "masked_fill": choose,
    "mm": products.matmul,
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
