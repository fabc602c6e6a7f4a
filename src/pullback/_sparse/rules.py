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

from pullback._sparse import index_sets as sets_of
from pullback._sparse import rules_moves as moves
from pullback._sparse import rules_products as products
from pullback._sparse.call import (
    Call,
    Result,
    Rule,
    along,
    common_shape,
    name_of,
    numbers,
    source,
)
from pullback._sparse.index_sets import Bools, Sets

# --- one element from the elements in the same place --------------------------------


def pointwise(call: Call) -> Result:
    """Each element from the elements of all operands at its place."""
    steps = STEP_ARGUMENTS.get(call.name, ()) if torch.is_grad_enabled() else ()
    shape = common_shape(call.tensors())
    total = call.empty(shape.numel())
    for name, t in call.args.items():
        if isinstance(t, Tensor) and call.memory.tracks(t):
            sets = call.read(t.expand(shape))
            if name in steps:
                sets = sets_of.without_derivative(sets)
            total = sets_of.union(total, sets)
    return total


def multiply(call: Call) -> Result:
    """Return d(ab) = a db + b da: nothing where the other factor is a constant zero."""
    factors = [call["self"], call["other"]]
    shape = common_shape(call.tensors())
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
    shape = common_shape(call.tensors())
    taken = mask.expand(shape).reshape(-1).cpu().numpy()
    total = call.empty(shape.numel())
    for value, wanted in ((yes, taken), (no, ~taken)):
        if isinstance(value, Tensor) and call.memory.tracks(value):
            part = sets_of.keep(call.read(value.expand(shape)), wanted)
            total = sets_of.union(total, part)
    call.low = np.where(taken, *(spread_low(call, value, shape) for value in (yes, no)))
    return total


def keeps_low(call: Call) -> Result:
    """``add`` and copies, pointwise: what is -inf stays so, which a softmax will see."""
    if call.args.get("alpha", 1) == 1:
        shape = common_shape(call.tensors())
        lows = [spread_low(call, t, shape) for t in call.tensors()]
        call.low = np.logical_or.reduce(lows)
    return pointwise(call)


def spread_low(call: Call, value: Any, shape: torch.Size) -> Bools:
    """Return where the value, broadcast to the shape, is as low as can be."""
    low = call.is_low(value)
    own = value.shape if isinstance(value, Tensor) else ()
    return np.broadcast_to(low.reshape(own), shape).reshape(-1)


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
    return along(call.read(self), self, dims_of(call, self))[0]


def mixes(call: Call) -> Result:
    """Each output from all elements along its dimension."""
    self = call["self"]
    return mixed(call, self, call.read(self))


def softmax(call: Call) -> Result:
    """Mix along the dimension, but for what is -inf whatever x is, as a mask makes it."""
    self = call["self"]
    low = call.is_low(self).reshape(self.shape)
    if self.ndim:  # where nothing else is, all of it counts (or is NaN)
        low = low & ~low.all(call["dim"] % self.ndim, keepdims=True)
    low, sets = low.reshape(-1), call.read(self)
    (found,) = mixed(call, self, sets_of.keep(sets, ~low))
    if call.name == "_log_softmax":  # the difference from the sum of the others
        return sets_of.union(found, sets_of.keep(sets, low))
    return sets_of.keep(found, ~low)  # 0 there, and so is the derivative


def mixed(call: Call, self: Tensor, sets: Sets) -> list[Sets]:
    """Return for each output the union of the sets along the dimension."""
    dims = dims_of(call, self)
    sets, rows = along(sets, self, dims)
    shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
    number = torch.arange(rows, dtype=torch.float64, device="cpu").reshape(shape)
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
    "_new_zeros_with_same_feature_meta",
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
    **dict.fromkeys(moves.MOVES, moves.moves),
    **dict.fromkeys(products.POOLS, products.pools),
    **dict.fromkeys(REDUCTIONS, reduces),
    **dict.fromkeys(SCANS, scans),
    **dict.fromkeys(products.SOLVES, products.solves),
    **dict.fromkeys(moves.SCATTERS, moves.scatters),
    "_adaptive_avg_pool3d": products.adaptive_pools,
    "_cdist_forward": products.distances,
    "_log_softmax": softmax,
    "_conj_physical": pointwise,  # which some releases before 2.13 do not tag as such
    "_safe_softmax": softmax,
    "_softmax": softmax,
    "_to_copy": keeps_low,
    "add": keeps_low,
    "adaptive_max_pool2d": products.adaptive_pools,
    "adaptive_max_pool3d": products.adaptive_pools,
    "bmm": products.matmul,
    "clone": keeps_low,
    "convolution": products.convolution,
    "copy": copies,
    "fill": copies,
    "masked_fill": choose,
    "mm": products.matmul,
    "mul": multiply,
    "where": choose,
}


def rule_of(func: Any, given: Sequence[Tensor]) -> Rule | None:
    """Return the rule for an operation on these tensors, if there is one."""
    if any(t.layout is not torch.strided for t in given):
        return products.sparse_matmul if name_of(func) == "mm" else None
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
    steps = steps or (call.name == "sgn" and not call["self"].is_complex())
    final = []
    for t, sets in zip(call.outputs, results, strict=True):
        smooth = t.is_floating_point() or t.is_complex()
        # in no_grad, as in an autograd.Function, a backward of its own may follow
        if (steps or not smooth) and torch.is_grad_enabled():
            sets = sets_of.without_derivative(sets)
        if random:
            drawn = sets_of.only_changing(sets.rows, sets.columns)
            sets = sets_of.union(sets, drawn)
        final.append(sets)
    return final
