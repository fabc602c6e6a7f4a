"""The Hessian, whole or from the few products that its zeros and its symmetry leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from pullback._inputs import check_inputs
from pullback._jacobian import jacobian
from pullback._sparse.compressed import value_and_sparse_jacobian
from pullback._sparse.plan import Sparsity, check_one, gradient


def hessian(
    f: Callable[..., Any],
    *inputs: Any,
    argnums: int = 0,
    sparsity: Sparsity | None = None,
    chunk_size: int | Literal["auto"] | None = None,
    verify: bool = False,
) -> Tensor:
    r"""Return the second derivatives of f, which returns one number.

    ``H[i, j]`` is :math:`\partial^2f/\partial x_i\partial x_j`, where i and j are as many
    indices as x has dimensions. It is the Jacobian of the gradient: one graph of the
    gradient, and a product through it for each number of x.

    With a plan, a product for each colour is enough, and H is sparse. Colours of a
    Hessian are fewer than those of a Jacobian with the same zeros, because
    :math:`H_{ij}` may be read as :math:`H_{ji}`: where one variable meets all others,
    two products for any n (Coleman and Moré, *Estimation of sparse Hessian matrices and
    graph coloring problems*, Math. Programming 28, 1984). What symmetry needs is that
    the second derivatives of f are continuous.

    Args:
        f: Function of the inputs that returns a tensor with one number.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor, of any shape, on any device.
        argnums: The input to differentiate with respect to.
        sparsity: What :func:`sparsity` found for f and inputs of these shapes with
            ``hessian=True``. H is then a sparse CSR tensor of shape
            ``(x.numel(), x.numel())`` in the order of ``flatten()``, exactly symmetric.
        chunk_size: Products at a time, as in :func:`jacobian`.
        verify: Whether to check, by one more product with random numbers, that H has no
            entry outside of the pattern and is symmetric.

    Returns:
        H, of shape ``x.shape + x.shape`` without a plan. It is differentiable again.

    Raises:
        TypeError: f, the input or the output is of the wrong kind or dtype.
        ValueError: f returns more than one number; an option is out of range; the plan
            is for a Jacobian, other shapes or another input.
        RuntimeError: f changes an input in place, or ``verify=True`` finds that f has
            outgrown the plan.

    Examples:
        >>> import torch, pullback
        >>> def energy(x):  # every variable meets the first
        ...     return (x[0] * x[1:] ** 2).sum()
        >>> x = torch.arange(1.0, 1001)
        >>> plan = pullback.sparsity(energy, x, hessian=True)
        >>> plan
        Sparsity of the Hessian
        shape     1000 by 1000 inputs
        entries   2997 of 1000000, 0.003 of them
        colours   2, of the rows, and of the columns alike
        products  2 Hessian-vector products, for 1000 if dense
        >>> H = pullback.hessian(energy, x, sparsity=plan)
        >>> H[0, 6], H[6, 0]
        (tensor(14.), tensor(14.))
        >>> torch.equal(H.to_dense(), pullback.hessian(energy, x))
        True
    """
    if not isinstance(argnums, int):
        raise TypeError(f"argnums is {argnums!r}; the int of one input is needed")
    (index,) = check_inputs(f, inputs, argnums)
    check_one(f"inputs[{index}]", inputs[index])
    slope = gradient(f, index)
    if sparsity is None:
        if verify:
            raise ValueError("verify=True checks a plan; sparsity= is needed with it")
        H: Tensor = jacobian(
            slope, *inputs, argnums=argnums, chunk_size=chunk_size, allow_unused=True
        )
        return H
    if isinstance(sparsity, Sparsity):
        if sparsity.mode != "symmetric":
            raise ValueError(
                "the plan is for a Jacobian; one from pullback.sparsity with "
                "hessian=True is needed"
            )
        sparsity = replace(sparsity, mode="reverse")  # its products are rows of H
    return value_and_sparse_jacobian(
        slope,
        inputs,
        sparsity,
        argnums=argnums,
        chunk_size=chunk_size,
        allow_unused=True,  # a linear f has zeros
        verify=verify,
    )[1]
