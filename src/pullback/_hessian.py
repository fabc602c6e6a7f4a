"""The Hessian of a function that returns one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pullback._function import gradient
from pullback._inputs import ChunkSize, check_inputs, check_single
from pullback._jacobian import jacobian


def hessian(
    f: Callable[..., Any],
    *inputs: Any,
    argnums: int = 0,
    chunk_size: ChunkSize = None,
) -> Tensor:
    r"""Return the second derivatives of f, which returns one number.

    ``H[i, j]`` is :math:`\partial^2f/\partial x_i\partial x_j`, where i and j are as many
    indices as x has dimensions. It is the Jacobian of the gradient: one graph of the
    gradient, and a product through it for each number of x.

    Where most entries are zero, a plan from :func:`sparsity` with ``hessian=True`` needs a
    product for each colour, see :meth:`Sparsity.hessian`. Colours of a Hessian are fewer
    than those of a Jacobian with the same zeros, because :math:`H_{ij}` may be read as
    :math:`H_{ji}`: where one variable meets all others, two products for any n (Coleman and
    Moré, *Estimation of sparse Hessian matrices and graph coloring problems*, Math.
    Programming 28, 1984). What symmetry needs is that the second derivatives of f are
    continuous.

    Args:
        f: Function of the inputs that returns a tensor with one number.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor, of any shape, on any device.
        argnums: The input to differentiate with respect to.
        chunk_size: Products at a time, as in :func:`jacobian`.

    Returns:
        H, of shape ``x.shape + x.shape``. It is differentiable again.

    Raises:
        TypeError: f, the input or the output is of the wrong kind or dtype.
        ValueError: f returns more than one number, or an option is out of range.
        RuntimeError: f changes an input in place.

    Examples:
        >>> import torch, pullback
        >>> pullback.hessian(lambda x: x[0] * x[1] ** 2, torch.tensor([1.0, 3.0]))
        tensor([[0., 6.],
                [6., 2.]])
    """
    if not isinstance(argnums, int):
        raise TypeError(f"argnums is {argnums!r}; the int of one input is needed")
    (index,) = check_inputs(f, inputs, argnums)
    check_single(f"inputs[{index}]", inputs[index])
    slope = gradient(f, index)
    H: Tensor = jacobian(
        slope, *inputs, argnums=argnums, chunk_size=chunk_size, allow_unused=True
    )
    return H
