"""A sparse Jacobian from its coloured products: what ``jacobian(sparsity=)`` runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from pullback._graph import reach
from pullback._inputs import (
    call,
    check_devices,
    check_inputs,
    check_no_transform,
    jvp,
    leaf_of,
    untouched,
)
from pullback._products import products, vjp
from pullback._sparse.plan import CHUNK_NUMBERS, Sparsity, check_one, input_shapes

Product = Callable[[Tensor], tuple[Tensor, ...]]  # v -> v^T J, or t -> J t


def value_and_sparse_jacobian(
    f: Callable[..., Any] | Tensor,
    inputs: Sequence[Any],
    plan: Sparsity,
    *,
    argnums: int | tuple[int, ...],
    chunk_size: int | Literal["auto"] | None,
    allow_unused: bool,
    verify: bool,
) -> tuple[Tensor, Tensor]:
    """Return the value, and J as a CSR tensor of shape ``(y.numel(), x.numel())``.

    See :func:`pullback.jacobian`, whose arguments these are.
    """
    _check(f, inputs, plan, argnums)
    x = inputs[plan.argnum]

    def g(x: Tensor, copied: Sequence[Tensor] = ()) -> Any:
        args = list(inputs)
        args[plan.argnum] = x
        with untouched():  # so that every call of f draws the same random numbers
            return f if isinstance(f, Tensor) else call(f, args, copied)

    kinds: list[tuple[Product, Tensor]] = []  # what takes the seeds, and what they are like
    if plan.mode != "forward":
        y, used, pull, alone = _rows(g, x, isinstance(f, Tensor))
        chunk_size = 1 if alone else chunk_size
        kinds.append((pull, y))
    if plan.mode in ("forward", "both"):
        x = x.contiguous()  # the tangents of an expanded x need room
        kinds.append((functools.partial(_push, g, x), x))
    if plan.mode == "forward":
        y, used = g(x), True
        check_one("the output of f", y)
    _check_output(y, plan)
    check_devices([x], [y])
    if not used and not allow_unused:
        raise RuntimeError(
            f"the output does not depend on inputs[{plan.argnum}]; an input that it "
            "depends on is needed, or allow_unused=True to get zeros"
        )
    ends = (plan.n_reverse, plan.n_colors)[-len(kinds) :]
    parts: list[Tensor] = []
    start = 0
    for (product, like), stop in zip(kinds, ends, strict=True):
        parts += _flat_products(product, like, plan, range(start, stop), chunk_size)
        start = stop
    J = plan.assemble(torch.cat(parts) if len(parts) != 1 else parts[0])
    if verify:
        _verify(J, *kinds[0], plan)
    return y, J


def _rows(
    g: Callable[..., Any], x: Tensor, computed: bool
) -> tuple[Any, bool, Product, bool]:
    """Return y, whether it depends on x, v -> v^T J, and whether each v is alone."""
    again = torch.is_grad_enabled()  # may the caller differentiate the result?
    if computed and not x.requires_grad:
        raise RuntimeError(
            "x does not require grad, so the graph of y does not contain it; an x "
            "that y was computed from after x.requires_grad_() is needed"
        )
    outer = again and x.requires_grad
    if not computed:  # a view leads back to the caller's x; a detached x leads nowhere
        x = x.view_as(x) if outer else leaf_of(x)
    with torch.enable_grad():
        if not computed:
            x = x.clone()  # for f, and what is differentiated
        y = g(x, copied=[x])
    check_one("the output of f", y)
    (used,), captured, alone = reach([y], [x])
    again = outer or (again and captured)

    pull = vjp([y], [x], again)
    return (y if computed or again else y.detach()), used, pull, alone


def _push(g: Callable[..., Any], x: Tensor, t: Tensor) -> tuple[Tensor]:
    """Return J t, for which y is computed again, with tangents."""
    return (jvp(g, (x,), (t,))[1],)


def _flat_products(
    product: Product,
    like: Tensor,
    plan: Sparsity,
    colors: range,
    chunk_size: int | str | None,
) -> list[Tensor]:
    """Return one product for each of the colours, flat, in as many pieces as chunks."""
    size = chunk_size if isinstance(chunk_size, int) else 0
    size = size or max(1, CHUNK_NUMBERS // max(*plan.pattern.shape, 1))
    parts: list[Tensor] = []
    for start in range(colors.start, colors.stop, size):
        seeds = plan.seeds(like, start, start + size)
        parts.append(products(product, [seeds])[0].reshape(-1))
    return parts or [like.new_zeros(0)]


def _verify(J: Tensor, product: Product, like: Tensor, plan: Sparsity) -> None:
    """Raise unless a product with random numbers agrees with the one by J."""
    m, n = plan.pattern.shape
    if not m * n or J.is_meta:  # which keeps no numbers
        return
    generator = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's
    seed = torch.rand(like.shape, generator=generator, device="cpu").to(like) + 0.5
    values = J.detach().values()
    column = J.col_indices()
    row = torch.repeat_interleave(torch.arange(m, device=J.device), J.crow_indices().diff())
    forward = plan.mode == "forward"
    length, to, by = (m, row, column) if forward else (n, column, row)
    terms = values * seed.reshape(-1)[by]
    found = values.new_zeros(length).index_add(0, to, terms)
    scale = values.new_zeros(length).index_add(0, to, terms.abs())
    expected = product(seed)[0].detach().reshape(-1).to(found.dtype)
    precision = torch.finfo(found.dtype).eps ** 0.5
    allowed = precision * (scale + precision * scale.nan_to_num().max())
    same = (expected == found) | expected.isnan() | found.isnan()  # NaN tells nothing
    wrong = ~(same | ((expected - found).abs() <= allowed))
    if wrong.any():
        at = int(wrong.nonzero()[0])
        line = "row" if forward else "column"
        raise RuntimeError(
            "the function has outgrown its plan: J has entries outside of the pattern "
            f"in {int(wrong.sum())} of {length} {line}s, first in {line} {at}; a plan "
            "from pullback.sparsity at this input is needed"
        )


def _check(
    f: Any, inputs: Sequence[Any], plan: Any, argnums: int | tuple[int, ...]
) -> None:
    if not isinstance(plan, Sparsity):
        raise TypeError(
            f"sparsity is a {type(plan).__name__}; what pullback.sparsity returns is needed"
        )
    if plan.mode == "symmetric":
        raise ValueError(
            "the plan is for a Hessian; pullback.hessian is needed with it, or a plan "
            "from pullback.sparsity without hessian=True"
        )
    indices = check_inputs((lambda: f) if isinstance(f, Tensor) else f, inputs, argnums)
    if indices != (plan.argnum,):
        raise ValueError(
            f"argnums is {argnums!r} and the plan is for inputs[{plan.argnum}]; the "
            "same argnums is needed for both"
        )
    check_one(f"inputs[{plan.argnum}]", inputs[plan.argnum])
    shapes = tuple(map(tuple, input_shapes(inputs)))
    planned = plan.input_shapes
    if isinstance(f, Tensor):
        planned = (planned[plan.argnum],)
        if plan.mode != "reverse":
            raise ValueError(
                "the plan has Jacobian-vector products, which compute y again with "
                "tangents, and y is a tensor; the function is needed in its place, or a "
                "plan from pullback.sparsity with mode='reverse'"
            )
    if shapes != planned:
        raise ValueError(
            f"the inputs have shapes {_list(shapes)} and the plan is for "
            f"{_list(planned)}; a plan from pullback.sparsity for these shapes is needed"
        )
    check_no_transform()


def _check_output(y: Tensor, plan: Sparsity) -> None:
    if tuple(y.shape) != plan.output_shape:
        raise ValueError(
            f"the output has shape {tuple(y.shape)} and the plan is for "
            f"{plan.output_shape}; a plan from pullback.sparsity at this input is needed"
        )


def _list(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(map(str, shapes))
