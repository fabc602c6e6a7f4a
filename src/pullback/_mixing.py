"""Does output i depend on input j? Whether the ones trick may be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pullback._inputs import Untouched, call, check_tensors, leaf_of, one_tensor
from pullback._report import Table
from pullback._samples import (
    VANISHED,
    amounts_of_samples,
    at_least,
    most_of_rounding,
    share_of_rounding,
    sizes_of_outputs,
)
from pullback._wide import InFloat64, is_coarse, is_single, run_in_float64

#: What is no more than this many times the rounding is looked at twice.
SUSPICIOUS = 1e3


class Mixing(NamedTuple):
    """What :func:`mixing` found; true when samples mix.

    Attributes:
        matrix: Boolean tensor of shape ``(outputs, inputs)`` along ``dim``: does
            output i depend on input j?
        dim: The dimension that was looked at.
        amounts: By how much at most, of the same shape: a derivative, with weights of
            0.5 to 1.5 on the numbers of output i.
        rounding: Which part of the largest derivative of an output is taken for rounding;
            what mixes by less is not told from it.
    """

    matrix: Tensor
    dim: int
    amounts: Tensor
    rounding: float = 0.0

    @property
    def largest(self) -> float:
        """The largest amount between two samples, as a part of the largest of all."""
        if not self.amounts.numel():
            return 0.0
        own = torch.eye(*self.matrix.shape, dtype=torch.bool, device="cpu")
        beside = float(self.amounts.masked_fill(own, 0).max())
        return beside / (float(self.amounts.max()) or 1.0)

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
        return _elsewhere(self.matrix)

    def _table(self) -> Table:
        outputs, inputs = self.matrix.shape
        rows = [["along", f"dim {self.dim}: {outputs} outputs, {inputs} inputs"]]
        if self.mixes:
            i, j = self._elsewhere().nonzero()[0].tolist()
            pairs = int(self._elsewhere().sum())
            rows += [
                ["for example", f"y[{i}] depends on x[{j}]; pairs like it: {pairs}"],
                ["how much", f"{self.largest:.2g} times the largest, with random weights"],
                [
                    "the ones trick",
                    "sums over samples; it gives no derivative a sample",
                ],
            ]
            return Table("samples mix", (), rows)
        if self.largest > 0:
            rows += [["taken for rounding", f"{self.largest:.2g} times the largest"]]
        rows += [["the ones trick", "gives each sample its own derivative"]]
        return Table("samples do not mix", (), rows)


def mixing(f: Callable[[Tensor], Tensor], x: Tensor, dim: int = 0) -> Mixing:
    r"""Tell whether output i of f depends on an input j other than i along ``dim``.

    Where it does not, the Jacobian is block diagonal and ``v = ones`` gives every
    sample its own derivative (the ones trick, ``y.sum().backward()``). Softmax along
    ``dim``, BatchNorm in training, attention and cumsum mix.

    One vector-Jacobian product is taken for each output along ``dim``, with random
    weights on that output alone, so that nothing cancels. What is no more than rounding
    beside the largest derivative of the output is no dependence: 64 times that of float64
    or float32 (1.4e-14, 7.6e-6). What may be rounding is computed again in float64 where x
    has less, through weights of less that f captures. In half precision, rounding is that
    of float64 then; in float32, what is still there is compared with the derivatives of its
    own number of the output and with respect to its own number of the input, so that one
    in metres is not hidden by one in pascals. Where f refuses float64, rounding is 64 times
    that of float32 beside the largest number, and 8 times that of half precision (0.8 % in
    float16, 6 % in bfloat16). What is taken for rounding is told, as ``largest``.
    The answer is about this x: a branch that x does not take is not seen. Of a large batch
    ask a part: the products and the matrix grow with the square of its size.

    Args:
        f: Function that maps x to one tensor with at least ``dim + 1`` dimensions.
        x: Floating point or complex tensor; it and its ``.grad`` stay as they are.
        dim: The dimension of x and of ``f(x)`` along which samples are laid.

    Returns:
        A :class:`Mixing`: truthy when samples mix, with the dependency matrix.

    Raises:
        TypeError: f is no function, dim is no int, or x or ``f(x)`` is not one floating
            point or complex tensor.
        ValueError: the derivative of f is NaN or infinite here, or x is on the meta device.
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
    check_tensors(f, (x,))
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"dim is {dim!r}; the int of a dimension is needed")

    def output(x: Tensor) -> Tensor:
        with Untouched():  # so that every call draws the same random numbers
            return one_tensor(call(f, (x,)))

    with Untouched(), torch.enable_grad():
        leaf = leaf_of(x)
        y = output(leaf)
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
        amounts = _all_amounts(y, leaf, dim)
        dtypes = [x.dtype, y.dtype]
        coarse, matrix = is_coarse(x, y), _beyond_rounding(amounts, *dtypes)
        alone = is_single(x, y) and not _elsewhere(matrix).any()
        if (coarse or alone) and _may_be_rounding(amounts, *dtypes):
            mode = InFloat64()
            if wide := run_in_float64(mode, output, [x], [y]):
                (leaf,), ys = wide
                with mode:
                    exact = _all_amounts(ys[0], leaf, dim)
                    if coarse:
                        amounts, dtypes = exact, [leaf.dtype, ys[0].dtype]
                        matrix = _beyond_rounding(amounts, *dtypes)
                    elif _elsewhere(kept := exact > VANISHED * amounts).any():
                        noise = share_of_rounding(*dtypes)
                        matrix |= kept & (_all_amounts(ys[0], leaf, dim, noise) > noise)
    return Mixing(matrix, dim, amounts, share_of_rounding(*dtypes))


def _all_amounts(y: Tensor, x: Tensor, dim: int, share: float | None = None) -> Tensor:
    """Return the largest derivative of each output with respect to each input.

    Args:
        y: The outputs.
        x: The inputs.
        dim: Along which outputs and inputs are laid.
        share: If given, a derivative is told as a part of the largest of its own number of
            the output, and of its own number of the input; share of that is rounding.
    """
    source = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's
    sizes = None if share is None else sizes_of_outputs([y], [x], dim, share)[0]
    rows = []
    for i in range(y.shape[dim]):
        row = _amounts(y, x, dim, i, source, sizes, share)
        if (
            0
            < _largest_other(row, i)
            <= SUSPICIOUS * float(rounding(row, x.dtype, y.dtype))
        ):
            # were it not for a sum that happens to be small, would it be rounding?
            row = torch.maximum(row, _amounts(y, x, dim, i, source, sizes, share))
        rows.append(row)
    shape = (y.shape[dim], x.shape[dim])
    amounts = torch.stack(rows) if rows else x.new_zeros(shape, dtype=torch.float64)
    return amounts.cpu()


def _may_be_rounding(amounts: Tensor, *dtypes: torch.dtype) -> bool:
    """Tell whether something between two samples is not zero and may be rounding."""
    largest = amounts.amax(-1, keepdim=True) if amounts.numel() else amounts
    small = amounts <= most_of_rounding(*dtypes) * largest
    return bool(_elsewhere(small & (amounts > 0)).any())


def _amounts(
    y: Tensor,
    x: Tensor,
    dim: int,
    i: int,
    source: torch.Generator,
    sizes: Tensor | None,
    share: float | None,
) -> Tensor:
    """Return the largest derivative of output i by each input, with new weights on it."""
    own = y.select(dim, i)
    # Away from zero; of a complex y both parts count, since the gradient of a real x is
    # a real part.
    parts = torch.rand(*own.shape, 2, generator=source, device="cpu") + 0.5
    weights = torch.view_as_complex(parts) if y.is_complex() else parts[..., 0]
    v = torch.zeros_like(y)
    weights = weights.to(y)
    if sizes is not None:
        weights = weights / sizes.select(dim, 0)
    v.select(dim, i).copy_(weights)
    (g,) = torch.autograd.grad(y, x, v, retain_graph=True, materialize_grads=True)
    if g.isnan().any():
        raise ValueError(
            f"the product with weights on output {i} has NaN: f has a derivative that is "
            "NaN or infinite here, and 0 times that is NaN, which hides who depends on "
            "whom; an x where f has finite derivatives is needed"
        )
    blocks = amounts_of_samples(g, dim)
    if share is not None and blocks.numel():
        blocks = blocks / at_least([blocks.amax(0)], share)[0]
    return blocks.amax(1) if blocks.numel() else blocks.new_zeros(len(blocks))


def _largest_other(row: Tensor, i: int) -> float:
    """Return the largest of a row but number i."""
    others = torch.cat([row[:i], row[i + 1 :]])
    return float(others.max()) if others.numel() else 0.0


def _beyond_rounding(amounts: Tensor, *dtypes: torch.dtype) -> Tensor:
    """Tell which amounts are more than rounding."""
    return amounts > rounding(amounts, *dtypes).unsqueeze(-1)


def _elsewhere(matrix: Tensor) -> Tensor:
    """Return a boolean matrix without its diagonal."""
    return matrix & ~torch.eye(*matrix.shape, dtype=torch.bool, device="cpu")


def rounding(amounts: Tensor, *dtypes: torch.dtype) -> Tensor:
    """Return what is no more than rounding beside the largest of each row."""
    if not amounts.numel():
        return amounts.new_zeros(amounts.shape[:-1])
    largest: Tensor = amounts.amax(-1)
    return share_of_rounding(*dtypes) * largest
