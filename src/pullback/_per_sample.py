"""A gradient for each sample of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pullback._inputs import call, check_inputs, check_no_transform, check_real, leaf_of
from pullback._products import logger
from pullback._torch import pytree


def per_sample_gradients(
    loss: Callable[..., Tensor], params: Any, *batch: Any, chunk_size: int | None = None
) -> Any:
    """Return the gradient of the loss of each sample, with respect to the parameters.

    No v gives them from one ``backward``, which adds over the samples. It is
    :func:`torch.func.vmap` over :func:`torch.func.grad`; where vmap cannot take the
    samples together, they go one by one, which the logger ``"pullback"`` says at level
    INFO. Layers that mix samples, such as BatchNorm in training mode, have no gradient per
    sample: the loss sees one sample at a time.

    Args:
        loss: Function of the parameters and **one** sample, ``loss(params, x, y)``, that
            returns one number.
        params: A tensor, or a tuple, list or dict of them, such as
            ``dict(model.named_parameters())`` (call the model with
            :func:`torch.func.functional_call`).
        *batch: Tensors, or structures of tensors, whose first dimension counts the samples.
        chunk_size: Samples at a time; None for all.

    Returns:
        What has the structure of the parameters, each of shape ``(B, *p.shape)``. Nothing
        is written to ``.grad``.

    Raises:
        TypeError: loss is no function, a parameter is of the wrong kind or dtype or
            complex, or there is no batch.
        ValueError: the batch has tensors of different sizes, or the loss of a sample is
            more than one number.
        RuntimeError: a transform of ``torch.func`` is on.

    Examples:
        >>> import torch, pullback
        >>> def loss(w, x, y):
        ...     return (x @ w - y) ** 2
        >>> X, Y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([1.0, 0.0])
        >>> pullback.per_sample_gradients(loss, torch.ones(2), X, Y)
        tensor([[0., 0.],
                [0., 8.]])
    """
    check_no_transform()
    check_inputs(loss, (params, *batch), 0)
    for t in pytree.tree_leaves(params):
        check_real("a parameter", t)
    count = _samples(batch)
    leaves, structure = pytree.tree_flatten(params)
    params = structure.unflatten([leaf_of(t).detach() for t in leaves])

    def number(params: Any, *sample: Any) -> Tensor:
        y: Tensor = call(loss, (params, *sample))
        if y.numel() != 1:
            raise ValueError(
                f"the loss of one sample has shape {tuple(y.shape)}; one number is needed "
                "(loss gets one sample, without the batch's dimension)"
            )
        return y.reshape(())

    slope = torch.func.grad(number)
    in_dims = (None, *[0] * len(batch))
    together = torch.func.vmap(
        slope, in_dims=in_dims, randomness="different", chunk_size=chunk_size
    )
    try:
        return together(params, *batch)
    except RuntimeError as error:
        logger.info("samples go one by one, for together they raise: %s", error)
    each = []
    for k in range(count):
        own = [leaf_of(t) for t in leaves]
        sample = pytree.tree_map(lambda t, k=k: t[k], batch)
        with torch.enable_grad():
            y = number(structure.unflatten(own), *sample)
        each.append(torch.autograd.grad(y, own, materialize_grads=True))
    return structure.unflatten([torch.stack(g) for g in zip(*each, strict=True)])


def _samples(batch: Any) -> int:
    sizes = {tuple(t.shape[:1]) for t in pytree.tree_leaves(batch) if isinstance(t, Tensor)}
    if not sizes:
        raise TypeError("no batch was given; at least one tensor of samples is needed")
    if len(sizes) > 1 or sizes == {()}:
        found = ", ".join(map(str, sorted(sizes)))
        raise ValueError(
            f"the batch has tensors with first dimensions {found}; one number of samples "
            "is needed"
        )
    return sizes.pop()[0]
