"""The diagonal of a Jacobian and its sum, exact or estimated, without the Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pullback._function import (
    CalledFunction,
    Recorded,
    beside,
    function_or_tensor,
    without_fused_attention,
)
from pullback._inputs import (
    check_all_real,
    check_argnum,
    check_inputs,
    check_no_transform,
    check_single,
    flatten,
    kind_of,
)
from pullback._jacobian import jacobian
from pullback._products import Together, rows_in_chunks, vjp
from pullback._torch import pytree

if TYPE_CHECKING:
    from pullback._sparse.plan import Sparsity  # which needs SciPy


class Estimate(NamedTuple):
    """A mean over random directions.

    Attributes:
        value: The mean, in the structure of what is estimated.
        error: Its standard error, that is the standard deviation over the directions
            divided by the root of their number; about two in three means lie within one
            of the true value. Infinite for one direction, which says nothing of it.
    """

    value: Any
    error: Any


def diagonal(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    plan: Sparsity | None = None,
    has_aux: bool = False,
) -> Any:
    r"""Return the diagonal of the Jacobian, :math:`\partial y_i/\partial x_i`.

    Exact, it takes a product for each number of x (of one sample, if ``batched``), some at
    a time, of each of which one number is kept: memory does not grow with the size of J. If
    J is diagonal, the vector-Jacobian product with ones gives the same from one
    (:func:`vjp`), and :func:`mixing` and :func:`sparsity` tell whether it is.

    With ``samples=k`` it is estimated from k products with random signs z, as the mean
    of :math:`z\odot J^\top z` (Bekas, Kokiopoulou and Saad, *An estimator for the diagonal
    of a matrix*, Applied Numerical Mathematics 57, 2007). What is off the diagonal is the
    noise, so a diagonal J is exact with one.

    Args:
        f: Function of the inputs that returns what has the structure and shapes of x; or a
            tensor of the shape of x, already computed from the inputs.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor, or a tuple, list or dict of them.
        argnums: The input to differentiate with respect to.
        batched: f maps ``(B, *x)`` to ``(B, *x)`` and treats the B samples on their own.
            That is not checked here; :func:`mixing` does.
        samples: How many random directions; None for the exact diagonal.
        generator: What the directions are drawn from; None for the state of torch.
        plan: What :func:`sparsity` found for f, with which the exact diagonal takes a
            product for each colour.
        has_aux: f returns ``(y, aux)``, and so what is asked for and aux come back, as a
            tuple, without graphs of tensors in aux.

    Returns:
        What has the structure and shapes of x, or an :class:`Estimate` of such.
        Differentiable again, unless ``torch.no_grad()`` is on.

    Raises:
        TypeError: f, the input or the output is of the wrong kind or dtype, or complex.
        ValueError: the output has not the structure and shapes of x, samples is less than
            1 or given with a plan, or the plan is for something else.
        RuntimeError: f changes an input in place, or a transform of ``torch.func`` is on.

    Examples:
        >>> import torch, pullback
        >>> pullback.diagonal(lambda x: x * x.sum(), torch.tensor([1.0, 2.0]))
        tensor([4., 5.])
    """
    if has_aux:
        options: Any = {"argnums": argnums, "batched": batched, "samples": samples}
        options |= {"generator": generator, "plan": plan}
        return beside(f, lambda f: diagonal(f, *inputs, **options))
    if samples is None:
        return _exact(f, inputs, argnums, batched, plan)
    return _estimates(f, inputs, argnums, samples, generator, plan)


def divergence(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    plan: Sparsity | None = None,
    has_aux: bool = False,
) -> Any:
    r"""Return the trace of the Jacobian, :math:`\sum_i\partial y_i/\partial x_i`.

    It is the divergence of a vector field, and the rate at which a flow changes volume. The
    estimate is Hutchinson's (*A stochastic estimator of the trace of the influence matrix*,
    Communications in Statistics 18, 1989), with random signs.

    Args:
        f: Function of the inputs that returns a tensor of the shape of x; or that tensor,
            already computed from the inputs.
        *inputs: What f is called with, as for :func:`diagonal`.
        argnums: The input to differentiate with respect to.
        batched: f maps ``(B, *x)`` to ``(B, *x)`` and treats the samples on their own.
        samples: How many random directions; None for the exact sum.
        generator: What the directions are drawn from; None for the state of torch.
        plan: What :func:`sparsity` found for f, as for :func:`diagonal`.
        has_aux: Whether f returns ``(y, aux)``, as for :func:`diagonal`.

    Returns:
        A number as a tensor of shape ``()``, one for each sample of shape ``(B,)`` if
        ``batched``, or an :class:`Estimate` of such.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`diagonal`.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0])
        >>> pullback.divergence(lambda x: x * x.sum(), x)
        tensor(9.)
        >>> found = pullback.divergence(lambda x: x**2, x, samples=1)  # J is diagonal
        >>> found.value
        tensor(6.)

        Of 21,000 numbers in a ring, each of which meets its neighbours:

        >>> f = lambda x: torch.cat([x[1:], x[:1]]) * x + torch.cat([x[-1:], x[:-1]])
        >>> plan = pullback.sparsity(f, torch.ones(21_000))
        >>> plan.n_colors
        3
        >>> pullback.divergence(f, torch.ones(21_000), plan=plan)
        tensor(21000.)
    """
    if has_aux:
        options: Any = {"argnums": argnums, "batched": batched, "samples": samples}
        options |= {"generator": generator, "plan": plan}
        return beside(f, lambda f: divergence(f, *inputs, **options))
    if samples is None:
        return _summed(_exact(f, inputs, argnums, batched, plan), batched, 0)
    _check_one_way(samples, plan)
    _, terms = _terms(f, inputs, argnums, samples, generator)
    return _estimate(_summed(terms, batched, 1))


def laplacian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    plan: Sparsity | None = None,
    has_aux: bool = False,
) -> Any:
    r"""Return the trace of the Hessian, :math:`\sum_i\partial^2f/\partial x_i^2`.

    What the backward of a ``torch.autograd.Function`` computes out of sight of torch, as in
    NumPy, is a constant to it, as to :func:`hessian`; :func:`hvp` finds it.

    Args:
        f: Function of the inputs that returns one number; if ``batched``, one for each
            sample, of shape ``(B,)`` or ``(B, 1)``. Or a tensor of them, already computed
            from the inputs.
        *inputs: What f is called with, as for :func:`diagonal`.
        argnums: The input to differentiate with respect to.
        batched: f treats the B samples on their own.
        samples: How many random directions; None for the exact sum.
        generator: What the directions are drawn from; None for the state of torch.
        plan: What :func:`sparsity` found for f with ``hessian=True``; if ``batched``, for
            the sum of what f returns.
        has_aux: Whether f returns ``(y, aux)``, as for :func:`diagonal`.

    Returns:
        What :func:`divergence` gives for the gradient of f.

    Raises:
        TypeError, RuntimeError: as :func:`diagonal`.
        ValueError: f returns more than one number (for a sample).

    Examples:
        >>> import torch, pullback
        >>> u = lambda x: x[:, 0] ** 2 * x[:, 1]  # one number for each point
        >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> pullback.laplacian(u, X, batched=True).detach()
        tensor([4., 8.])
        >>> pullback.laplacian(u(X), X, batched=True).detach()  # computed before
        tensor([4., 8.])
    """
    if has_aux:
        options: Any = {"argnums": argnums, "batched": batched, "samples": samples}
        options |= {"generator": generator, "plan": plan}
        return beside(f, lambda f: laplacian(f, *inputs, **options))
    if plan is not None:
        _check_one_way(samples, plan)
        return _summed(_by_hessian(f, inputs, argnums, batched, plan), batched, 0)

    def slope(*inputs: Any) -> Any:
        found = jacobian(f, *inputs, argnums=argnums, batched=batched, allow_unused=True)
        name = "y" if isinstance(f, Tensor) else "the output of f"
        xs = flatten(inputs[argnums])[0]
        own = []
        for G, x in zip(pytree.tree_leaves(found), xs, strict=False):
            check_single(name, G)
            if G.numel() != x.numel():
                y = tuple(G.shape[: G.ndim - x.ndim + batched])
                raise ValueError(
                    f"{name} has shape {y}; (B,), a number for each sample, is needed"
                    if batched
                    else f"{name} has shape {y}; one number is needed (batched=True for "
                    "one of each sample)"
                )
            own.append(G.reshape(x.shape).flatten(int(batched)))
        if len(pytree.tree_leaves(found)) != len(xs):
            raise TypeError(f"{name} is more than one tensor; one number is needed")
        # what stands in one tensor, as a slope that is computed must
        return torch.cat(own, int(batched)) if len(own) > 1 else own[0].reshape(xs[0].shape)

    of: Any = slope
    if isinstance(f, Tensor):
        check_argnum(argnums)
        check_inputs(lambda: f, inputs, argnums)
        with torch.enable_grad():
            of = slope(*inputs)

    def traced() -> Any:
        if samples is None:
            return _summed(_exact(of, inputs, argnums, batched, None, True), batched, 0)
        _, terms = _terms(of, inputs, argnums, samples, generator, True)
        return _estimate(_summed(terms, batched, 1))

    return without_fused_attention(traced)


def _check_one_way(samples: int | None, plan: Sparsity | None) -> None:
    if samples is not None and plan is not None:
        raise ValueError(
            "samples and plan are given; one of them is needed (a plan makes it exact)"
        )


def _by_hessian(f: Any, inputs: Any, argnums: int, batched: bool, plan: Sparsity) -> Tensor:
    """Return the diagonal of the Hessian from the products of a plan."""
    _check_plan(plan, "symmetric", argnums, inputs, f)

    def total(*inputs: Any) -> Tensor:
        y: Tensor = f(*inputs)
        return y.sum() if batched else y

    found = _diagonal_of(plan.hessian(total if callable(f) else f, *inputs))
    x = inputs[argnums]
    if batched:
        check_single(f"inputs[{argnums}]", x)
    return found.reshape(x.shape) if isinstance(x, Tensor) else found


def _check_plan(plan: Any, mode: str, argnums: int, inputs: Any, f: Any) -> None:
    from pullback._sparse.plan import Sparsity

    check_argnum(argnums)
    if not isinstance(plan, Sparsity):
        raise TypeError(
            f"plan is {kind_of(plan)}; what pullback.sparsity returned is needed"
        )
    if (plan.mode == "symmetric") is not (mode == "symmetric"):
        kind = "True" if mode == "symmetric" else "False"
        raise ValueError(
            f"the plan has mode {plan.mode!r}; one from pullback.sparsity with "
            f"hessian={kind} is needed"
        )
    if not isinstance(f, Tensor) and inputs and argnums % len(inputs) != plan.argnum:
        raise ValueError(
            f"argnums is {argnums} and the plan is for inputs[{plan.argnum}]; one for the "
            "same input is needed"
        )


def _diagonal_of(J: Tensor) -> Tensor:
    """Return the diagonal of a CSR tensor, with zeros where there is no entry."""
    m, n = J.shape
    count = J.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(m, device=J.device), count)
    on = row == J.col_indices()
    values = J.values()
    return values.new_zeros(n).index_copy(0, row[on], values[on])


def _exact(
    f: Any,
    inputs: Any,
    argnums: int,
    batched: bool,
    plan: Sparsity | None = None,
    flat: bool = False,
) -> Any:
    if plan is not None:
        _check_plan(plan, "any", argnums, inputs, f)
        J = plan.jacobian(f, *inputs, allow_unused=True)
        x: Tensor = inputs[0 if isinstance(f, Tensor) else argnums]
        check_single("x with a plan", x)
        if plan.output_shape != tuple(x.shape):
            raise ValueError(
                f"the output has shape {plan.output_shape} and x has shape "
                f"{tuple(x.shape)}; the same shape is needed for a diagonal"
            )
        return _diagonal_of(J).reshape(x.shape)
    function, graph, take = _products_of(f, inputs, argnums, flat)
    xs, ys = graph.xs, graph.ys
    if batched and not all(x.ndim for x in xs):
        raise ValueError(
            "batched=True, and the input has shape (); a first dimension, of the samples, "
            "is needed"
        )
    lead = int(batched)
    shape = xs[0].shape[:lead]
    sizes = [x.shape[lead:].numel() for x in xs]
    pieces = [xs[0].new_empty(0, *shape)]
    bytes_each = 2 * sum(x.nbytes for x in xs)
    with function.keep_grads():
        for start, stop, rows in rows_in_chunks(take, ys, bytes_each, batched):
            own = torch.arange(start, stop, device=rows[0].device)
            # rows[k] is the derivative of number start + k, own[k] that same number of x
            flat_rows = [
                r.reshape(stop - start, *shape, n) for r, n in zip(rows, sizes, strict=True)
            ]
            together = torch.cat(flat_rows, -1) if len(flat_rows) > 1 else flat_rows[0]
            at = own.reshape(-1, *[1] * lead, 1).expand(*together.shape[:-1], 1)
            pieces.append(together.gather(-1, at).squeeze(-1))
    found = torch.cat(pieces)
    found = found.movedim(0, -1) if batched else found
    parts = found.split(sizes, -1)
    parts = [p.reshape(x.shape).to(x.dtype) for p, x in zip(parts, xs, strict=True)]
    return function.like_inputs(graph.cut(parts))


def _estimates(
    f: Any,
    inputs: Any,
    argnums: int,
    samples: int,
    generator: torch.Generator | None,
    plan: Sparsity | None,
) -> Estimate:
    _check_one_way(samples, plan)
    function, terms = _terms(f, inputs, argnums, samples, generator)
    each = [_estimate(t) for t in terms]
    return Estimate(
        function.like_inputs([e.value for e in each]),
        function.like_inputs([e.error for e in each]),
    )


def _terms(
    f: Any,
    inputs: Any,
    argnums: int,
    samples: int,
    generator: torch.Generator | None,
    flat: bool = False,
) -> tuple[CalledFunction, list[Tensor]]:
    """Return z * (J^T z) for each random z, of shape (samples, *x), for each x."""
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
        raise ValueError(
            f"samples is {samples!r}; an int of at least 1, or None, is needed"
        )
    function, graph, take = _products_of(f, inputs, argnums, flat)
    xs, ys = graph.xs, graph.ys
    zs = []
    for x in xs:
        device = x.device if generator is None else generator.device
        signs = torch.randint(
            2, (samples, *x.shape), generator=generator, device=device, dtype=torch.int8
        )
        zs.append((2 * signs - 1).to(x))
    seeds = [z.to(y.dtype) for z, y in zip(zs, ys, strict=False)]
    if len(ys) < len(xs):  # a slope in one tensor, whose samples come first
        lead = ys[0].ndim
        seeds = [torch.cat([z.flatten(lead) for z in zs], lead).to(ys[0].dtype)]
    with function.keep_grads():
        rows = take(seeds)
    return function, graph.cut([z * r for z, r in zip(zs, rows, strict=True)])


def _products_of(
    f: Any, inputs: Any, argnums: int, flat: bool = False
) -> tuple[CalledFunction, Recorded, Together]:
    """Return the function, its graph, and v -> J^T v; flat: the ys may be in one tensor."""
    check_argnum(argnums)
    check_no_transform()
    function = function_or_tensor(f, inputs, argnums)
    (index,) = function.indices
    check_all_real(f"inputs[{index}]", function.xs)
    graph = function.record()
    check_all_real(function.output_name, graph.ys)
    shapes = [[tuple(t.shape) for t in ts] for ts in (graph.ys, graph.xs)]
    if shapes[0] != shapes[1] and not (flat and len(graph.xs) > 1):
        of_y, of_x = (", ".join(map(str, shape)) for shape in shapes)
        raise ValueError(
            f"{function.output_name} has shape {of_y} and inputs[{index}] has shape "
            f"{of_x}; the same shape is needed for a diagonal"
        )
    pull = vjp(graph.ys, graph.xs, graph.again)
    return function, graph, Together(pull, 1 if graph.alone else None)


def _summed(terms: Any, batched: bool, lead: int) -> Tensor:
    leaves = terms if isinstance(terms, list) else pytree.tree_leaves(terms)
    own = [
        t.flatten(lead + batched).sum(-1) if t.ndim > lead + batched else t for t in leaves
    ]
    return torch.stack(own).sum(0) if len(own) > 1 else own[0]


def _estimate(terms: Tensor) -> Estimate:
    count = len(terms)
    some = count > 1 and terms.numel() > 0
    spread = terms.std(0) if some else torch.full_like(terms[0], torch.inf)
    return Estimate(terms.mean(0), spread / count**0.5)
