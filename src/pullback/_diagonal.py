"""The diagonal of a Jacobian and its sum, exact or estimated, without the Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._function import (
    CalledFunction,
    Recorded,
    function_or_tensor,
    without_fused_attention,
)
from pullback._inputs import check_argnum, check_no_transform, check_real, check_single
from pullback._jacobian import jacobian
from pullback._products import CHUNK_BYTES, Together, one_hot, vjp


class Estimate(NamedTuple):
    """A mean over random directions.

    Attributes:
        value: The mean.
        error: Its standard error, that is the standard deviation over the directions
            divided by the root of their number; about two in three means lie within one
            of the true value. Infinite for one direction, which says nothing of it.
    """

    value: Tensor
    error: Tensor


def diagonal(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
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
        f: Function of the inputs that returns a tensor of the shape of x; or that tensor,
            already computed from the inputs.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor.
        argnums: The input to differentiate with respect to.
        batched: f maps ``(B, *x)`` to ``(B, *x)`` and treats the B samples on their own.
            That is not checked here; :func:`mixing` does.
        samples: How many random directions; None for the exact diagonal.
        generator: What the directions are drawn from; None for the state of torch.

    Returns:
        A tensor of the shape of x, or an :class:`Estimate` of such. Differentiable
        again, unless ``torch.no_grad()`` is on.

    Raises:
        TypeError: f, the input or the output is of the wrong kind or dtype, or complex.
        ValueError: the output has not the shape of x, or samples is less than 1.
        RuntimeError: f changes an input in place, or a transform of ``torch.func`` is on.

    Examples:
        >>> import torch, pullback
        >>> pullback.diagonal(lambda x: x * x.sum(), torch.tensor([1.0, 2.0]))
        tensor([4., 5.])
    """
    if samples is None:
        return _exact(f, inputs, argnums, batched)
    terms = _terms(f, inputs, argnums, samples, generator)
    return _estimate(terms)


def divergence(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
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
    """
    if samples is None:
        return _summed(_exact(f, inputs, argnums, batched), batched, 0)
    terms = _terms(f, inputs, argnums, samples, generator)
    return _estimate(_summed(terms, batched, 1))


def laplacian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int = 0,
    batched: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Any:
    r"""Return the trace of the Hessian, :math:`\sum_i\partial^2f/\partial x_i^2`.

    Args:
        f: Function of the inputs that returns one number; if ``batched``, one for each
            sample, of shape ``(B,)`` or ``(B, 1)``. Or a tensor of them, already computed
            from the inputs.
        *inputs: What f is called with, as for :func:`diagonal`.
        argnums: The input to differentiate with respect to.
        batched: f treats the B samples on their own.
        samples: How many random directions; None for the exact sum.
        generator: What the directions are drawn from; None for the state of torch.

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

    def slope(*inputs: Any) -> Tensor:
        G: Tensor = jacobian(
            f, *inputs, argnums=argnums, batched=batched, allow_unused=True
        )
        x = inputs[argnums]
        check_single(f"inputs[{argnums}]", x)
        name = "y" if isinstance(f, Tensor) else "the output of f"
        check_single(name, G)  # which has the structure of it
        if G.numel() != x.numel():
            y = tuple(G.shape[: G.ndim - x.ndim + batched])
            raise ValueError(
                f"{name} has shape {y}; (B,), a number for each sample, is needed"
                if batched
                else f"{name} has shape {y}; one number is needed (batched=True for one of "
                "each sample)"
            )
        return G.reshape(x.shape)

    of: Any = slope
    if isinstance(f, Tensor):
        with torch.enable_grad():
            of = slope(*inputs)
    return without_fused_attention(
        lambda: divergence(
            of,
            *inputs,
            argnums=argnums,
            batched=batched,
            samples=samples,
            generator=generator,
        )
    )


def _exact(f: Any, inputs: Any, argnums: int, batched: bool) -> Tensor:
    function, graph, take = _products_of(f, inputs, argnums)
    x, y = graph.xs[0], graph.ys[0]
    if batched and not x.ndim:
        raise ValueError(
            "batched=True, and the input has shape (); a first dimension, of the samples, "
            "is needed"
        )
    lead = int(batched)
    total = x.shape[lead:].numel()
    size = max(1, CHUNK_BYTES // max(1, 2 * x.nbytes))
    pieces = [x.new_empty(0, *x.shape[:lead])]
    for start in range(0, total, size):
        stop = min(start + size, total)
        with function.keep_grads():
            (rows,) = take(one_hot([y], start, stop, batched))
        own = torch.arange(start, stop, device=rows.device)
        # rows[k] is the derivative of number start + k, and own[k] that same number of x
        flat = rows.reshape(stop - start, *x.shape[:lead], total)
        at = own.reshape(-1, *[1] * lead, 1).expand(*flat.shape[:-1], 1)
        pieces.append(flat.gather(-1, at).squeeze(-1))
    found = torch.cat(pieces)
    found = (found.movedim(0, -1) if batched else found).reshape(x.shape)
    return graph.cut([found])[0]


def _terms(
    f: Any, inputs: Any, argnums: int, samples: int, generator: torch.Generator | None
) -> Tensor:
    """Return z * (J^T z) for each random z, of shape (samples, *x)."""
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
        raise ValueError(
            f"samples is {samples!r}; an int of at least 1, or None, is needed"
        )
    function, graph, take = _products_of(f, inputs, argnums)
    x, y = graph.xs[0], graph.ys[0]
    device = x.device if generator is None else generator.device
    signs = torch.randint(
        2, (samples, *x.shape), generator=generator, device=device, dtype=torch.int8
    )
    z = (2 * signs - 1).to(x)
    with function.keep_grads():
        (rows,) = take([z.to(y.dtype)])
    return graph.cut([z * rows])[0]


def _products_of(
    f: Any, inputs: Any, argnums: int
) -> tuple[CalledFunction, Recorded, Together]:
    """Return the function, its graph from one x to one y, and v -> J^T v."""
    check_argnum(argnums)
    check_no_transform()
    function = function_or_tensor(f, inputs, argnums)
    (index,) = function.indices
    check_single(f"inputs[{index}]", inputs[index])
    graph = function.record()
    x, y = graph.xs[0], graph.output
    name = "y" if function.computed else "the output of f"
    check_single(name, y)
    check_real(name, y)
    if y.shape != x.shape:
        raise ValueError(
            f"{name} has shape {tuple(y.shape)} and inputs[{index}] has shape "
            f"{tuple(x.shape)}; the same shape is needed for a diagonal"
        )
    pull = vjp([y], [x], graph.again)
    return function, graph, Together(pull, 1 if graph.alone else None)


def _summed(terms: Tensor, batched: bool, lead: int) -> Tensor:
    return terms.flatten(lead + batched).sum(-1) if terms.ndim > lead + batched else terms


def _estimate(terms: Tensor) -> Estimate:
    count = len(terms)
    some = count > 1 and terms.numel() > 0
    spread = terms.std(0) if some else torch.full_like(terms[0], torch.inf)
    return Estimate(terms.mean(0), spread / count**0.5)
