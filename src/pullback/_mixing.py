"""Does output i depend on input j? Whether the ones trick may be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pullback._inputs import call, check_inputs, untouched
from pullback._report import Table


class Mixing(NamedTuple):
    """What :func:`mixing` found; true when samples mix.

    Attributes:
        matrix: Boolean tensor of shape ``(outputs, inputs)`` along ``dim``: does
            output i depend on input j?
        dim: The dimension that was looked at.
    """

    matrix: Tensor
    dim: int

    @property
    def mixes(self) -> bool:
        """Whether some output depends on the input of another sample."""
        return bool(self._elsewhere().any())

    def __bool__(self) -> bool:
        return self.mixes

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _elsewhere(self) -> Tensor:
        own = torch.eye(*self.matrix.shape, dtype=torch.bool)
        return self.matrix & ~own

    def _table(self) -> Table:
        outputs, inputs = self.matrix.shape
        rows = [["along", f"dim {self.dim}: {outputs} outputs, {inputs} inputs"]]
        if self.mixes:
            i, j = self._elsewhere().nonzero()[0].tolist()
            pairs = int(self._elsewhere().sum())
            rows += [
                ["for example", f"y[{i}] depends on x[{j}]; pairs like it: {pairs}"],
                [
                    "the ones trick",
                    "sums over samples; it gives no derivative a sample",
                ],
            ]
            return Table("samples mix", (), rows)
        rows += [["the ones trick", "gives each sample its own derivative"]]
        return Table("samples do not mix", (), rows)


def mixing(f: Callable[[Tensor], Tensor], x: Tensor, dim: int = 0) -> Mixing:
    r"""Tell whether output i of f depends on an input j other than i along ``dim``.

    Where it does not, the Jacobian is block diagonal and ``v = ones`` gives every
    sample its own derivative (the ones trick, ``y.sum().backward()``). Softmax along
    ``dim``, BatchNorm in training, attention and cumsum mix.

    One vector-Jacobian product is taken for each output along ``dim``, with random
    weights on that output alone, so that nothing cancels. The answer is about this
    x: a branch that x does not take is not seen.

    Args:
        f: Function that maps x to one tensor with at least ``dim + 1`` dimensions.
        x: Real floating point tensor; it and its ``.grad`` stay as they are.
        dim: The dimension of x and of ``f(x)`` along which samples are laid.

    Returns:
        A :class:`Mixing`: truthy when samples mix, with the dependency matrix.

    Raises:
        TypeError: f is no function, or x or ``f(x)`` is not one floating point tensor.
        IndexError: x or ``f(x)`` has no dimension ``dim``.
        RuntimeError: f changes x in place, or its result does not depend on x.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> bool(pullback.mixing(torch.square, x))
        False
        >>> pullback.mixing(lambda x: x.cumsum(0), x).matrix.int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_inputs(f, (x,))
    with untouched(), torch.enable_grad():
        leaf = x.detach().requires_grad_()
        y = call(f, (leaf,))
        _one_tensor(y)
        if not y.requires_grad:
            raise RuntimeError(
                "f(x) does not depend on x (it was computed without a graph); a "
                "function of x is needed"
            )
        for name, t in (("x", x), ("f(x)", y)):
            if not -t.ndim <= dim < t.ndim:
                raise IndexError(
                    f"dim is {dim} and {name} has shape {tuple(t.shape)}; a dimension "
                    "that both x and f(x) have is needed"
                )
        # Weights from a generator of our own, away from zero.
        source = torch.Generator().manual_seed(0)
        weights = (torch.rand(y.shape, generator=source) + 0.5).to(y)
        rows = []
        for i in range(y.shape[dim]):
            v = torch.zeros_like(y)
            v.select(dim, i).copy_(weights.select(dim, i))
            (g,) = torch.autograd.grad(
                y, leaf, v, retain_graph=True, materialize_grads=True
            )
            rows.append((g != 0).movedim(dim, 0).reshape(x.shape[dim], -1).any(1))
    shape = (y.shape[dim], x.shape[dim])
    matrix = torch.stack(rows) if rows else torch.zeros(shape, dtype=torch.bool)
    return Mixing(matrix.cpu(), dim)


def _one_tensor(y: object) -> None:
    if not isinstance(y, Tensor):
        raise TypeError(f"f returned a {type(y).__name__}; one tensor is needed")
