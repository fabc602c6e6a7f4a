"""The Hessian: the Jacobian of a Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from pullback._function import detached, without_aux, without_fused_attention
from pullback._inputs import ChunkSize, Untouched, call
from pullback._jacobian import jacobian
from pullback._torch import in_transform, pytree


def hessian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    chunk_size: ChunkSize = None,
    batched: bool = False,
    create_graph: bool = True,
    has_aux: bool = False,
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

    Fused attention (``scaled_dot_product_attention``) has no second derivative in torch;
    f is called again then, with attention in plain operations.

    In place of f you may give a tensor y that is already computed, such as a loss, and the
    tensors that it was computed from, as for :func:`jacobian`.

    Args:
        f: Function of the inputs that returns a tensor, or a tuple, list or dict of
            tensors; or the tensor y.
        *inputs: What f is called with. Those named by ``argnums`` are real floating
            point tensors, or tuples, lists or dicts of them, of any shape, on any device.
        argnums: The input, or the inputs, to differentiate with respect to.
        chunk_size: Products at a time, as in :func:`jacobian`.
        batched: f maps ``(B, *x)`` to ``(B, *y)`` and treats the B samples on their own,
            as for :func:`jacobian`. H then has shape ``(B, *y, *x, *x)``.
        create_graph: Whether H may be differentiated again, as in :func:`jacobian`.
        has_aux: f returns ``(y, aux)``, and so ``(H, aux)`` comes back, without graphs of
            tensors in aux.

    Returns:
        H, on the device and in the dtype of the inputs. What f does not depend on, or only
        linearly, gives zeros.

    Raises:
        TypeError: f, an input or an output is of the wrong kind or dtype, or complex.
        ValueError: an option is out of range; ``batched=True`` and the batch sizes differ
            or the samples mix.
        RuntimeError: f changes an input in place, an operation in it has no second
            derivative, such as a ``torch.autograd.Function`` that is marked with
            ``once_differentiable``, ``torch.cond``, ``while_loop`` or ``scan``, or x does
            not require grad and y is given in place of f. (What a ``Function`` without the
            mark computes out of sight of torch, as in NumPy, is a constant to second
            derivatives, here as everywhere. Inside the transforms of ``torch.func`` one
            with the mark is one, too, for its node cannot be looked at there.)

    Examples:
        >>> import torch, pullback
        >>> pullback.hessian(lambda x: x[0] * x[1] ** 2, torch.tensor([1.0, 3.0]))
        tensor([[0., 6.],
                [6., 2.]])

        Of a loss that is already computed, by the names of a module's parameters:

        >>> model = torch.nn.Linear(2, 1)
        >>> loss = (model(torch.tensor([1.0, 3.0])) ** 2).sum()
        >>> H = pullback.hessian(loss, dict(model.named_parameters()))
        >>> H["weight"]["bias"].detach().flatten()
        tensor([2., 6.])

        One for each sample, from as many products as one sample needs:

        >>> X = torch.tensor([[1.0, 3.0], [2.0, 5.0]])
        >>> pullback.hessian(lambda X: X[:, 0] * X[:, 1] ** 2, X, batched=True)
        tensor([[[ 0.,  6.],
                 [ 6.,  2.]],
        <BLANKLINE>
                [[ 0., 10.],
                 [10.,  4.]]])
    """
    if has_aux:
        alone, kept = without_aux(f)
        options: Any = {"argnums": argnums, "chunk_size": chunk_size, "batched": batched}
        H = hessian(alone, *inputs, create_graph=create_graph, **options)
        if in_transform():  # what was kept is of a transform
            with Untouched():
                call(alone, inputs)
        return H, detached(kept[-1])
    if isinstance(f, Tensor):
        with torch.enable_grad():
            slopes = jacobian(
                f, *inputs, argnums=argnums, batched=batched, allow_unused=True
            )
        with nullcontext() if create_graph else torch.no_grad():
            return pytree.tree_map(
                lambda slope: jacobian(
                    slope,
                    *inputs,
                    argnums=argnums,
                    chunk_size=chunk_size,
                    batched=batched,
                    allow_unused=True,
                ),
                slopes,
            )

    def slope(*inputs: Any) -> Any:
        return jacobian(f, *inputs, argnums=argnums, batched=batched, allow_unused=True)

    return without_fused_attention(
        lambda: jacobian(
            slope,
            *inputs,
            argnums=argnums,
            chunk_size=chunk_size,
            batched=batched,
            allow_unused=True,
            create_graph=create_graph,
        )
    )
