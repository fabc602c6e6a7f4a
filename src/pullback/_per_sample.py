"""A gradient for each sample of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pullback._buffers import BATCH_NORMS, training_modules
from pullback._function import detached, without_aux
from pullback._inputs import (
    call,
    check_differentiated,
    check_inputs,
    check_no_transform,
    check_real,
    check_single,
    kind_of,
    leaf_of,
    same_settings,
)
from pullback._products import logger
from pullback._torch import pytree


def per_sample_gradients(
    loss: Callable[..., Any],
    params: Any,
    *batch: Any,
    chunk_size: int | None = None,
    has_aux: bool = False,
) -> Any:
    """Return the gradient of the loss of each sample, with respect to the parameters.

    No v gives them from one ``backward``, which adds over the samples. It is
    :func:`torch.func.vmap` over :func:`torch.func.grad`; where vmap cannot take the
    samples together, they go one by one, which the logger ``"pullback"`` says at level
    INFO. The loss sees one sample at a time: layers that mix samples have no gradient per
    sample, and BatchNorm in training mode raises.

    Args:
        loss: Function of the parameters and **one** sample, ``loss(params, x, y)``, that
            returns one number.
        params: A tensor, or a tuple, list or dict of them, such as
            ``dict(model.named_parameters())`` (call the model with
            :func:`torch.func.functional_call`).
        *batch: Tensors, or structures of tensors, whose first dimension counts the samples.
        chunk_size: Samples at a time; None for all.
        has_aux: loss returns ``(number, aux)``, tensors in any structure, and so the
            gradients and aux of all samples come back, as a tuple, without a graph.

    Returns:
        What has the structure of the parameters, each of shape ``(B, *p.shape)``. Nothing
        is written to ``.grad``. Random numbers are drawn as in a training step: the next
        call draws others.

    Raises:
        TypeError: loss is no function, a parameter is of the wrong kind or dtype or
            complex, there is no batch, or something in it is no tensor.
        ValueError: the batch has tensors of different sizes, the loss of a sample is more
            than one number, or it runs BatchNorm in training mode.
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
    with _without_batch_norm(loss):
        return _per_sample(loss, params, batch, chunk_size, has_aux)


def _per_sample(
    loss: Callable[..., Any], params: Any, batch: Any, chunk_size: int | None, has_aux: bool
) -> Any:
    check_no_transform()
    if not callable(loss):
        raise TypeError(
            f"loss is {kind_of(loss)}; a function of params and one sample is needed"
        )
    check_differentiated("params", params)
    check_inputs(loss, (params, *batch), 0)
    for path, t in pytree.tree_leaves_with_path(params):
        check_real(f"params{pytree.keystr(path)}", t)
    count = _samples(batch)
    leaves, structure = pytree.tree_flatten(params)
    if not count:
        return structure.unflatten([t.new_empty(0, *t.shape).detach() for t in leaves])
    params = structure.unflatten([leaf_of(t).detach() for t in leaves])

    alone, kept = without_aux(loss) if has_aux else (loss, [])

    def number(params: Any, *sample: Any) -> Any:
        y: Tensor = call(alone, (params, *sample))
        check_single("the loss of one sample", y)
        if y.numel() != 1:
            raise ValueError(
                f"the loss of one sample has shape {tuple(y.shape)}; one number is needed "
                "(loss gets one sample, without the batch's dimension)"
            )
        return (y.reshape(()), kept.pop()) if has_aux else y.reshape(())

    slope = torch.func.grad(number, has_aux=has_aux)
    in_dims = (None, *[0] * len(batch))
    together = torch.func.vmap(
        slope, in_dims=in_dims, randomness="different", chunk_size=chunk_size
    )
    try:
        with same_settings():
            found = together(params, *batch)
            return (found[0], detached(found[1])) if has_aux else found
    except RuntimeError as error:
        logger.info("samples go one by one, for together they raise: %s", error)
    each, beside = [], []
    for k in range(count):
        own = [leaf_of(t) for t in leaves]
        sample = pytree.tree_map(lambda t, k=k: t[k], batch)
        with same_settings(), torch.enable_grad():
            y = number(structure.unflatten(own), *sample)
        if has_aux:
            y, aux = y
            beside.append(detached(aux))
        each.append(torch.autograd.grad(y, own, materialize_grads=True))
    found = structure.unflatten([torch.stack(g) for g in zip(*each, strict=True)])
    if not has_aux:
        return found
    return found, pytree.tree_map(lambda *ts: torch.stack(ts), *beside)


@contextmanager
def _without_batch_norm(loss: Any) -> Iterator[None]:
    """Raise where the loss runs a BatchNorm in training mode, which looks at a batch."""

    def refuse(module: torch.nn.Module, *given: Any) -> None:
        raise ValueError(
            f"loss runs {type(module).__name__} in training mode, which takes mean and "
            "variance over the batch, so that a sample has no gradient of its own; "
            "model.eval() is needed, or a layer that treats each sample on its own, such "
            "as GroupNorm"
        )

    found = [m for m in training_modules(loss) if isinstance(m, BATCH_NORMS)]
    handles = [module.register_forward_pre_hook(refuse) for module in found]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _samples(batch: Any) -> int:
    found = pytree.tree_leaves_with_path(tuple(batch))
    for path, t in found:
        if not isinstance(t, Tensor):
            name = f"batch{pytree.keystr(path)}"
            raise TypeError(f"{name} is {kind_of(t)}; a tensor of samples is needed")
    sizes: set[tuple[int, ...]] = {tuple(t.shape[:1]) for _, t in found}
    if not sizes:
        raise TypeError("no batch was given; at least one tensor of samples is needed")
    if len(sizes) > 1 or sizes == {()}:
        listed = ", ".join(map(str, sorted(sizes)))
        raise ValueError(
            f"the batch has tensors with first dimensions {listed}; one number of samples "
            "is needed"
        )
    return sizes.pop()[0]
