"""What each operation of torch is in the program of a page (:mod:`pullback._live_program`).

A rule gets the recorder, the result of the operation (for its shape) and the arguments, and
returns the node of the result, or one for each of several results. Views need no rule: they
lie in the memory of what they show. Neither do operations that torch itself takes apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from pullback._live_program import Program

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
LARGEST = 4096  # numbers in one list, such as the products of a matrix product


class Lacking(Exception):  # noqa: N818 - it becomes an error once the line of f is known
    """There is no rule for these arguments; the text says why, if more than that."""


class Reader(Protocol):
    """What a rule asks of the recorder."""

    program: Program

    def read(self, value: Any, shape: Sequence[int] | None = None) -> int:
        """Return the node of a tensor or a number, a list of its elements.

        With a shape it is expanded to that, or a list of one number that stands for all.
        """

    def tracks(self, value: Any) -> bool:
        """Tell whether a value depends on x or v."""


RULES: dict[str, Rule] = {}

#: Fresh tensors that do not depend on the values of what they are given.
CONSTANT = {
    *("empty_like", "full_like", "ones_like", "zeros_like", "zero"),
    *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros"),
}


def rule(*names: str) -> Callable[[R], R]:
    """Make a function the rule of operations, by their names without overloads."""

    def keep(function: R) -> R:
        RULES.update(dict.fromkeys(names, function))
        return function

    return keep


# --- each entry by itself -------------------------------------------------------------

#: Operations of one, two or three tensors or numbers, as the interpreter (or JavaScript's
#: Math) calls them.
SAME = """
    abs acos acosh asin asinh atan atan2 atanh ceil cos cosh eq erf erfc exp expm1 floor
    fmod ge gt hypot isnan le log log10 log1p log2 lt mul ne neg round sigmoid sign
    sin sinh sqrt tan tanh trunc where
"""
RENAMED = {"maximum": "max", "minimum": "min", "remainder": "mod", "sgn": "sign"}
#: Of truth values: numbers are true unless they are 0.
LOGICAL = {
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
    "logical_xor": "ne",
}
BITWISE = {
    "bitwise_and": "and",
    "bitwise_not": "not",
    "bitwise_or": "or",
    "bitwise_xor": "ne",
}


def _elementwise(f: str) -> Rule:
    def apply(r: Reader, out: Tensor, *args: Any) -> int:
        return r.program.each(f, *[r.read(a, out.shape) for a in args])

    return apply


def _logical(f: str) -> Rule:
    def apply(r: Reader, out: Tensor, *args: Any) -> int:
        nodes = [r.program.each("ne", r.read(a, out.shape), r.read(0)) for a in args]
        return r.program.each(f, *nodes)

    return apply


def _bitwise(f: str) -> Rule:
    def apply(r: Reader, out: Tensor, *args: Any) -> int:
        if out.dtype is not torch.bool:
            raise Lacking("bits of integers")
        return r.program.each(f, *[r.read(a, out.shape) for a in args])

    return apply


RULES |= {name: _elementwise(name) for name in SAME.split()}
RULES |= {name: _elementwise(f) for name, f in RENAMED.items()}
RULES |= {name: _logical(f) for name, f in LOGICAL.items()}
RULES |= {name: _bitwise(f) for name, f in BITWISE.items()}


def _times(r: Reader, node: int, factor: float) -> int:
    return node if factor == 1 else r.program.each("mul", node, r.read(factor))


@rule("add")
def _add(r: Reader, out: Tensor, a: Any, b: Any, alpha: float = 1) -> int:
    f = "or" if out.dtype is torch.bool else "add"
    return r.program.each(f, r.read(a, out.shape), _times(r, r.read(b, out.shape), alpha))


@rule("sub")
def _sub(r: Reader, out: Tensor, a: Any, b: Any, alpha: float = 1) -> int:
    return r.program.each(
        "sub", r.read(a, out.shape), _times(r, r.read(b, out.shape), alpha)
    )


@rule("rsub")
def _rsub(r: Reader, out: Tensor, a: Any, b: Any, alpha: float = 1) -> int:
    return _sub(r, out, b, a, alpha)


@rule("div")
def _div(r: Reader, out: Tensor, a: Any, b: Any, rounding_mode: str | None = None) -> int:
    both = r.read(a, out.shape), r.read(b, out.shape)
    if rounding_mode == "floor":
        return r.program.each("floordiv", *both)
    quotient = r.program.each("div", *both)
    return r.program.each("trunc", quotient) if rounding_mode else quotient


@rule("pow")
def _pow(r: Reader, out: Tensor, a: Any, b: Any) -> int:
    base, each = r.read(a, out.shape), r.program.each
    if isinstance(b, Tensor) or b not in (0.5, -0.5, -1, 2, -2, 3):
        return each("pow", base, r.read(b, out.shape))
    if abs(b) == 0.5:  # as torch, to the last digit and at -0
        power = each("sqrt", base)
    else:
        power = base
        for _ in range(abs(int(b)) - 1):
            power = each("mul", power, base)
    return power if b > 0 else each("div", r.read(1), power)


@rule("floor_divide")
def _floor_divide(r: Reader, out: Tensor, a: Any, b: Any) -> int:
    return _div(r, out, a, b, "floor")


@rule("reciprocal")
def _reciprocal(r: Reader, out: Tensor, a: Any) -> int:
    return _div(r, out, 1, a)


@rule("rsqrt")
def _rsqrt(r: Reader, out: Tensor, a: Any) -> int:
    return r.program.each("div", r.read(1), r.program.each("sqrt", r.read(a)))


@rule("relu")
def _relu(r: Reader, out: Tensor, a: Any) -> int:
    return r.program.each("max", r.read(a), r.read(0))


@rule("clamp", "clamp_min")
def _clamp(r: Reader, out: Tensor, a: Any, min: Any = None, max: Any = None) -> int:
    node = r.read(a, out.shape)
    for f, bound in (("max", min), ("min", max)):
        if bound is not None:
            node = r.program.each(f, node, r.read(bound, out.shape))
    return node


RULES["clamp_max"] = lambda r, out, a, max: _clamp(r, out, a, max=max)


@rule("_to_copy")
def _convert(r: Reader, out: Tensor, a: Tensor, *_: Any, **__: Any) -> int:
    if out.dtype is torch.bool:
        return r.program.each("ne", r.read(a), r.read(0))
    if out.is_floating_point() or not a.is_floating_point():
        return r.read(a)
    if out.dtype is not torch.int64:
        raise Lacking(f"numbers cut to {out.dtype}, which wraps; long() is known")
    return r.program.each("long", r.read(a))


#: Kinds of nodes that give integers as they are, also where double precision has not all.
CHOOSE = {"fmod", "join", "list", "long", "max", "min", "mod", "put", "take", "where"}


def check_integers(r: Reader, out: Tensor, node: int) -> None:
    """Refuse integers that may wrap, or be larger than those that a page has."""
    if out.is_floating_point() or out.dtype is torch.bool:
        return
    low, high = torch.iinfo(out.dtype).min, torch.iinfo(out.dtype).max
    if out.dtype is torch.int64:
        if r.program.nodes[node][0] in CHOOSE:
            return
        low, high = -(2**53), 2**53
    least, most = r.program.bounds(node)
    if not low <= least <= most <= high:
        raise Lacking(f"{out.dtype} that may leave {low} to {high}")


# --- all the entries along some dimensions ---------------------------------------------


def _last(t: Tensor, dims: Any) -> tuple[Tensor, int]:
    """Return a view of t that ends on some dimensions, and how many entries they hold."""
    dims = [dims] if isinstance(dims, int) else list(dims or range(t.ndim))
    dims = [dim % t.ndim for dim in dims] if t.ndim else []
    kept = [dim for dim in range(t.ndim) if dim not in dims]
    return t.permute([*kept, *dims]), math.prod(t.shape[dim] for dim in dims)


def _fold(f: str) -> Rule:
    def apply(
        r: Reader, out: Tensor, t: Tensor, dim: Any = None, *_: Any, **__: Any
    ) -> int:
        view, k = _last(t, dim)
        node = r.read(view)
        if f in ("or", "and"):
            node = r.program.each("ne", node, r.read(0))
        return r.program.fold(f, node, k)

    return apply


FOLDS = {
    "sum": "add",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "any": "or",
    "all": "and",
}
RULES |= {name: _fold(f) for name, f in FOLDS.items()}


@rule("mean")
def _mean(r: Reader, out: Tensor, t: Tensor, dim: Any = None, *_: Any, **__: Any) -> int:
    view, k = _last(t, dim)
    return r.program.each("div", r.program.fold("add", r.read(view), k), r.read(k))


@rule("var", "var_mean")
def _var(
    r: Reader,
    out: Any,
    t: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    *_: Any,
    correction: float | None = None,
    **__: Any,
) -> int | tuple[int, int]:
    if isinstance(dim, bool):  # the overload without dimensions
        dim, unbiased = None, dim
    free = int(unbiased) if correction is None else correction
    view, k = _last(t, dim)
    node, each = r.read(view), r.program.each
    rows = [i // k for i in range(view.numel())]
    first = r.program.take(node, range(0, view.numel(), k))  # the mean of equal numbers
    beyond = each("sub", node, r.program.take(first, rows))
    mean = each("add", first, each("div", r.program.fold("add", beyond, k), r.read(k)))
    away = each("sub", node, r.program.take(mean, rows))
    squares = r.program.fold("add", r.program.each("mul", away, away), k)
    var = r.program.each("div", squares, r.read(max(0, k - free)))
    return (var, mean) if isinstance(out, tuple) else var


def _running(f: str) -> Rule:
    def apply(r: Reader, out: Tensor, t: Tensor, dim: int, *_: Any, **__: Any) -> int:
        view, k = _last(t, dim)
        node = r.program.scan(f, r.read(view), k)
        return _dimension_put_back(r, node, out, dim)

    return apply


def _dimension_put_back(r: Reader, node: int, out: Tensor, dim: int) -> int:
    """Put a list whose last entries are those of one dimension into the order of out."""
    order = torch.arange(out.numel(), device="cpu").reshape(_last(out, dim)[0].shape)
    turned = order.movedim(-1, dim) if out.ndim else order
    return r.program.take(node, turned.flatten().tolist())


RULES |= {"cumsum": _running("add"), "cumprod": _running("mul")}


@rule("sort")
def _sort(
    r: Reader,
    out: Any,
    t: Tensor,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> Any:
    return _ordered(r, t, dim, descending, t.shape[dim] if t.ndim else 1)


def _ordered(r: Reader, t: Tensor, dim: int, down: bool, count: int) -> tuple[int, int]:
    """Return the first so many values along a dimension in their order, and indices."""
    view, k = _last(t, dim)
    node = r.read(view)
    if count == 1 and not down:  # the smallest is NaN where one is
        order = r.program.sort(r.program.each("neg", node), k, down=True)
    else:
        order = r.program.sort(node, k, down=down)
    shape = [*view.shape[:-1], count] if t.ndim else []
    first = torch.arange(view.numel(), device="cpu").reshape(-1, k)[:, :count]
    kept = first.reshape(shape)
    chosen = (kept.movedim(-1, dim) if t.ndim else kept).flatten().tolist()
    where = r.program.take(order, chosen)
    starts = r.program.constant([i - i % k for i in chosen])
    return r.program.look_up(node, where), r.program.each("sub", where, starts)


def _extreme(down: bool) -> Rule:
    def apply(
        r: Reader, out: Any, t: Tensor, dim: int | None = None, *_: Any, **__: Any
    ) -> Any:
        if isinstance(out, tuple):  # values and indices
            return _ordered(r, t, dim or 0, down, 1)
        f = "max" if down else "min"
        return r.program.fold(f, r.read(t), t.numel())

    return apply


def _place(down: bool) -> Rule:
    def apply(
        r: Reader, out: Tensor, t: Tensor, dim: int | None = None, *_: Any, **__: Any
    ) -> int:
        flat = t.reshape(-1) if dim is None else t
        return _ordered(r, flat, dim or 0, down, 1)[1]

    return apply


RULES |= {"max": _extreme(True), "min": _extreme(False)}
RULES |= {"argmax": _place(True), "argmin": _place(False)}


# --- products of matrices --------------------------------------------------------------


@rule("mm", "bmm", "mv", "dot")
def _matmul(r: Reader, out: Tensor, a: Tensor, b: Tensor) -> int:
    if b.ndim == 1:  # of vectors
        return r.program.fold(
            "add", r.program.each("mul", r.read(a), r.read(b, a.shape)), len(b)
        )
    shape = (*a.shape[:-1], b.shape[-1], a.shape[-1])  # (…, m, n, k)
    if math.prod(shape) > LARGEST:
        raise Lacking(f"a product of {math.prod(shape)} numbers; up to {LARGEST} are")
    rows, columns = a.unsqueeze(-2).expand(shape), b.mT.unsqueeze(-3).expand(shape)
    return r.program.fold(
        "add", r.program.each("mul", r.read(rows), r.read(columns)), shape[-1]
    )


# --- entries by their places -------------------------------------------------------------


def _rule_that_moves(name: str) -> Rule:
    """Return the rule of what moves entries: it is asked where each of them goes."""

    def apply(r: Reader, out: Tensor, t: Tensor, *args: Any, **kwargs: Any) -> int:
        if any(r.tracks(a) for a in args):
            raise Lacking("places that depend on values")
        kwargs = {k: v for k, v in kwargs.items() if k != "memory_format"}
        where = getattr(torch.ops.aten, name)(_numbered(t), *args, **kwargs)
        return r.program.take(r.read(t), where.flatten().tolist())

    return apply


def _numbered(t: Tensor) -> Tensor:
    return torch.arange(t.numel(), device="cpu").reshape(t.shape)


RULES |= {
    name: _rule_that_moves(name)
    for name in ("clone", "flip", "repeat", "roll", "unfold_copy", "_unsafe_view")
}


@rule("alias", "lift_fresh", "detach")
def _as_it_is(r: Reader, out: Tensor, t: Tensor) -> int:
    return r.read(t)


@rule("copy")
def _copy(r: Reader, out: Tensor, t: Tensor, source: Tensor, *_: Any) -> int:
    return r.program.spread(r.read(source, out.shape), out.numel())


@rule("cat")
def _cat(r: Reader, out: Tensor, tensors: Sequence[Tensor], dim: int = 0) -> int:
    parts, numbers, start = [], [], 0
    for t in tensors:
        parts.append(r.read(t))
        numbers.append(_numbered(t) + start)
        start += t.numel()
    node = r.program.join(*parts)
    return r.program.take(node, torch.cat(numbers, dim).flatten().tolist())


@rule("constant_pad_nd")
def _pad(r: Reader, out: Tensor, t: Tensor, pad: Sequence[int], value: float = 0) -> int:
    where = torch.ops.aten.constant_pad_nd(_numbered(t), pad, t.numel())
    node = r.program.join(r.read(t), r.read(value))
    return r.program.take(node, where.flatten().tolist())


@rule("gather")
def _gather(r: Reader, out: Tensor, t: Tensor, dim: int, index: Tensor, **_: Any) -> int:
    return r.program.look_up(r.read(t), _along(r, t, dim, index))


def _along(r: Reader, t: Tensor, dim: int, index: Tensor) -> int:
    """Return the flat places in t that an index along one dimension means."""
    if not t.ndim:
        return r.program.constant([0])
    numbers = _numbered(t)
    within = tuple(slice(size) for size in index.shape)
    start = numbers.select(dim, 0).unsqueeze(dim)
    others = list(within)
    others[dim] = slice(1)
    base = start[tuple(others)].expand(index.shape).flatten().tolist()
    return _places(r, base, r.read(index), math.prod(t.shape[dim % t.ndim + 1 :]))


def _places(r: Reader, base: list[int], index: int, step: int) -> int:
    program = r.program
    if program.nodes[index][0] == "list":  # known now
        known = program.nodes[index][1:]
        known = known * len(base) if len(known) == 1 else known
        places = [b + int(i) * step for b, i in zip(base, known, strict=True)]
        return program.constant([int(p) for p in places])
    return program.each("add", program.constant(base), _times(r, index, step))


def _scattering(add: bool) -> Rule:
    def apply(
        r: Reader, out: Tensor, t: Tensor, dim: int, index: Tensor, source: Any, **how: Any
    ) -> int:
        if how:
            raise Lacking("reduce")
        if isinstance(source, Tensor) and source.ndim:
            source = source[tuple(slice(size) for size in index.shape)]
        node = r.program.spread(r.read(source, index.shape), index.numel())
        return r.program.put(r.read(t), _along(r, t, dim, index), node, add=add)

    return apply


RULES |= {"scatter": _scattering(False), "scatter_add": _scattering(True)}


@rule("index_select")
def _index_select(r: Reader, out: Tensor, t: Tensor, dim: int, index: Tensor) -> int:
    if not t.ndim:
        return r.program.take(r.read(t), [0] * index.numel())
    indices = [*[None] * (dim % t.ndim), index]
    return r.program.look_up(r.read(t), _indexed(r, t, indices))


@rule("index", "_unsafe_index")
def _index(r: Reader, out: Tensor, t: Tensor, indices: Sequence[Tensor | None]) -> int:
    return r.program.look_up(r.read(t), _indexed(r, t, indices))


@rule("index_put", "_unsafe_index_put")
def _index_put(
    r: Reader,
    out: Tensor,
    t: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> int:
    mask = indices[0]
    if mask is not None and mask.dtype is torch.bool and r.tracks(mask):
        if len(indices) > 1 or values.numel() > 1 or accumulate:
            raise Lacking("places that depend on values")
        mask = mask.reshape(mask.shape + (1,) * (t.ndim - mask.ndim))
        nodes = [r.read(part, t.shape) for part in (mask, values, t)]
        return r.program.each("where", *nodes)
    where = _indexed(r, t, indices)
    shape = _chosen(t, indices).shape
    node = r.program.spread(r.read(values, shape), r.program.lengths[where])
    return r.program.put(r.read(t), where, node, add=accumulate)


def _chosen(t: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    chosen: Tensor = torch.ops.aten.index(_numbered(t), list(indices))
    return chosen


def _indexed(r: Reader, t: Tensor, indices: Sequence[Tensor | None]) -> int:
    """Return the flat places in t that lists of indices mean."""
    if not any(r.tracks(index) for index in indices):
        return r.program.constant(_chosen(t, indices).flatten().tolist())
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    (dim, index), *others = given
    if index.dtype is torch.bool:
        raise Lacking("its shape depends on values")
    if others:
        raise Lacking("places that depend on values")
    zero = torch.zeros_like(index)
    base = _chosen(t, [None] * dim + [zero]).flatten().tolist()
    after = t.shape[dim + 1 :]
    shape = (*t.shape[:dim], *index.shape, *after)
    spread = index.reshape(index.shape + (1,) * len(after)).expand(shape)
    node = r.read(spread)
    size = r.program.each("add", node, r.read(t.shape[dim]))  # -1 is the last
    node = r.program.each("where", r.program.each("lt", node, r.read(0)), size, node)
    return _places(r, base, node, math.prod(after))
