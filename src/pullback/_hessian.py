"""The Hessian: the Jacobian of a Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._inputs import ChunkSize
from pullback._jacobian import jacobian


def hessian(
    f: Callable[..., Any],
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    chunk_size: ChunkSize = None,
    batched: bool = False,
) -> Any:
    r"""Return the second derivatives of f, of shape ``y.shape + x.shape + x.shape``.

    ``H[i, j]`` is :math:`\partial^2f/\partial x_i\partial x_j`, where i and j are as many
    indices as x has dimensions; if f returns more than one number, there is an H for each,
    and its indices come first. It is the Jacobian of the Jacobian: one graph of the
    first derivatives, and a product through it for each of them.

    A tuple of ``argnums``, inputs and outputs in dicts, lists and tuples give the structure
    that :func:`torch.func.hessian` gives: that of the outputs, with that of the inputs in
    each of its places, and that of the inputs once more in each of those.

    Where most entries are zero, a plan from :func:`sparsity` with ``hessian=True`` needs a
    product for each colour, see :meth:`Sparsity.hessian`. Colours of a Hessian are fewer
    than those of a Jacobian with the same zeros, because :math:`H_{ij}` may be read as
    :math:`H_{ji}`: where one variable meets all others, two products for any n (Coleman and
    Moré, *Estimation of sparse Hessian matrices and graph coloring problems*, Math.
    Programming 28, 1984). What symmetry needs is that the second derivatives of f are
    continuous.

    Args:
        f: Function of the inputs that returns a tensor, or a tuple, list or dict of
            tensors.
        *inputs: What f is called with. Those named by ``argnums`` are real floating
            point tensors, or tuples, lists or dicts of them, of any shape, on any device.
        argnums: The input, or the inputs, to differentiate with respect to.
        chunk_size: Products at a time, as in :func:`jacobian`.
        batched: f maps ``(B, *x)`` to ``(B, *y)`` and treats the B samples on their own,
            as for :func:`jacobian`. H then has shape ``(B, *y, *x, *x)``.

    Returns:
        H. It is differentiable again. What f does not depend on, or only linearly, gives
        zeros.

    Raises:
        TypeError: f, an input or an output is of the wrong kind or dtype, or complex.
        ValueError: an option is out of range; ``batched=True`` and the batch sizes differ
            or the samples mix.
        RuntimeError: f changes an input in place, or an operation in it has no second
            derivative.

    Examples:
        >>> import torch, pullback
        >>> pullback.hessian(lambda x: x[0] * x[1] ** 2, torch.tensor([1.0, 3.0]))
        tensor([[0., 6.],
                [6., 2.]])

        One for each sample, from as many products as one sample needs:

        >>> X = torch.tensor([[1.0, 3.0], [2.0, 5.0]])
        >>> pullback.hessian(lambda X: X[:, 0] * X[:, 1] ** 2, X, batched=True)
        tensor([[[ 0.,  6.],
                 [ 6.,  2.]],
        <BLANKLINE>
                [[ 0., 10.],
                 [10.,  4.]]])
    """

    def slope(*inputs: Any) -> Any:
        return jacobian(f, *inputs, argnums=argnums, batched=batched, allow_unused=True)

    return jacobian(
        slope,
        *inputs,
        argnums=argnums,
        chunk_size=chunk_size,
        batched=batched,
        allow_unused=True,
    )
