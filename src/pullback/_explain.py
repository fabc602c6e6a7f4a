"""What ``y.backward(v)`` would do here, said before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._function import CalledFunction, function_or_tensor
from pullback._inputs import check_each_is_tensor, check_no_transform, one_tensor
from pullback._mixing import mixing
from pullback._report import Table

SMALL = 12  # numbers up to which a result is printed and not only its shape


class Outcome(NamedTuple):
    """What one call of ``backward`` does.

    Attributes:
        grads: What it adds to the ``.grad`` of each input, or None after an error.
        error: The exception that it raises, or None.
    """

    grads: tuple[Tensor, ...] | None
    error: Exception | None

    def __str__(self) -> str:
        if self.grads is None:
            return f"{type(self.error).__name__}: {self.error}"
        return "; ".join(
            f"{name}.grad += {_value(g)}" for name, g in _with_names(self.grads)
        )


class Explanation(NamedTuple):
    """What :func:`explain` found; printing it gives the table.

    Attributes:
        y_shape: Shape of y, which is the shape that ``gradient`` must have.
        x_shapes: Shape of each input.
        bare: What ``y.backward()`` does.
        ones: What ``y.backward(torch.ones_like(y))`` does.
        one_hot: What a one at the first output and zeros elsewhere do.
        given: What ``y.backward(v)`` does with the v that was given, else None.
        mixes: Whether samples along dimension 0 mix; None where that is no question
            (no common dimension 0, several inputs, or a tensor in place of f) and
            where NaN in the derivative, or an error of backward, hides it.
        dtype: The dtype of y.
    """

    y_shape: torch.Size
    x_shapes: tuple[torch.Size, ...]
    bare: Outcome
    ones: Outcome
    one_hot: Outcome
    given: Outcome | None
    mixes: bool | None
    dtype: torch.dtype

    @property
    def gradient_shape(self) -> torch.Size:
        """The shape that the ``gradient`` argument must have: exactly y's."""
        return self.y_shape

    @property
    def jacobian_shapes(self) -> tuple[torch.Size, ...]:
        """The shape of the Jacobian for each input, ``y.shape + x.shape``."""
        return tuple(self.y_shape + shape for shape in self.x_shapes)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        y_shape = tuple(self.y_shape)
        rows = [["y", f"{_kind(self.y_shape)} · tensor of shape {y_shape}"]]
        for name, shape in _with_names(self.x_shapes):
            rows += [[name, f"{_kind(shape)} · tensor of shape {tuple(shape)}"]]
        for name, shape in _with_names(self.x_shapes):
            m, n = self.y_shape.numel(), shape.numel()
            J = f"{m}×{n} matrix · tensor of shape {tuple(self.y_shape + shape)}"
            rows += [[f"Jacobian dy/d{name}", J]]
        rows += [
            ["gradient must be", f"a tensor of shape {y_shape}, one weight an output"],
            ["y.backward()", str(self.bare)],
            ["gradient = ones", str(self.ones)],
        ]
        if self.y_shape.numel() > 1:
            rows += [["gradient = one-hot, first output", str(self.one_hot)]]
        if self.given is not None:
            rows += [["gradient = your v", str(self.given)]]
        if self.mixes is not None:
            rows += [["samples along dim 0", MIXES[self.mixes]]]
        return Table("What y.backward(gradient) does here", (), rows)


MIXES = {
    True: "mix: ones sums over them and gives no derivative for each",
    False: "do not mix: ones gives each its own derivative",
}


def explain(f: Callable[..., Any] | Tensor, *inputs: Tensor, v: Any = None) -> Explanation:
    """Say what ``backward`` would do: shapes, the result or the exact error.

    Give the function and its inputs, ``explain(f, x)``, or a computed tensor and the
    tensors it came from, ``explain(y, x)``. Every statement comes from running it on
    a copy of the graph's leaves or on a retained graph; no ``.grad`` changes.

    Args:
        f: Function of the inputs that returns one tensor; or the tensor y.
        *inputs: Tensors of floating point or complex dtype, of any shape. With y, the
            tensors, leaves or not, that y was computed from.
        v: What you would pass as ``gradient``, right or wrong; anything.

    Returns:
        An :class:`Explanation`; its text form is a table, and a rich one in notebooks.

    Raises:
        TypeError: an input or y is no tensor of floating point or complex dtype.
        ValueError: an input or y is on the meta device.
        RuntimeError: f changes an input in place, or y does not depend on an input.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0])
        >>> e = pullback.explain(lambda x: 3 * x, x)
        >>> e.gradient_shape, e.jacobian_shapes
        (torch.Size([2]), (torch.Size([2, 2]),))
        >>> print(e.bare)
        RuntimeError: grad can be implicitly created only for scalar outputs
        >>> print(pullback.explain(lambda x: 3 * x, x, v=torch.tensor([1.0, 10.0])).given)
        x.grad += tensor([ 3., 30.])
    """
    check_no_transform()
    function = function_or_tensor(f, inputs, tuple(range(len(inputs))) or 0)
    check_each_is_tensor(inputs)
    graph = function.record(again=False)
    y = one_tensor(graph.output)
    with function.keep_grads():
        return _explanation(function, y, tuple(graph.xs), v)


def _explanation(
    function: CalledFunction, y: Tensor, xs: tuple[Tensor, ...], v: Any
) -> Explanation:
    _check_depends(y, xs)
    one_hot = torch.zeros_like(y)
    if y.numel():
        one_hot[(0,) * y.ndim] = 1
    ones = _outcome(y, xs, torch.ones_like(y))
    return Explanation(
        y_shape=y.shape,
        x_shapes=tuple(x.shape for x in xs),
        bare=_outcome(y, xs),
        ones=ones,
        one_hot=_outcome(y, xs, one_hot),
        given=None if v is None else _outcome(y, xs, v),
        mixes=None if ones.error else _mixes(function, y),
        dtype=y.dtype,
    )


def _outcome(y: Tensor, xs: tuple[Tensor, ...], *v: Any) -> Outcome:
    """Run ``y.backward(*v)`` on a stand-in for y; what it leaves is what y would."""
    # backward itself, for its exact errors, on leaves of our own: first the product
    # of a fresh leaf of y's shape, which accepts and refuses what y does.
    seed = torch.zeros_like(y, requires_grad=True)
    try:
        with torch.enable_grad():
            stand_in = seed * 1
        stand_in.backward(*v)
        grads = torch.autograd.grad(
            y, xs, seed.grad, retain_graph=True, materialize_grads=True
        )
    except Exception as error:  # of v, of the graph, or of a hook
        return Outcome(None, error)
    return Outcome(grads, None)


def _check_depends(y: Tensor, xs: tuple[Tensor, ...]) -> None:
    for i, x in enumerate(xs):
        found: tuple[Tensor | None, ...] = (None,)
        if y.requires_grad and x.requires_grad:
            try:
                found = torch.autograd.grad(
                    y, x, torch.ones_like(y), retain_graph=True, allow_unused=True
                )
            except Exception:  # which every outcome will tell
                return
        if found == (None,):
            raise RuntimeError(
                f"y does not depend on inputs[{i}] (no graph leads from y to it); a y "
                "computed from a tensor with requires_grad=True is needed"
            )


def _mixes(function: CalledFunction, y: Tensor) -> bool | None:
    """Whether samples mix, where y and the one x have a dimension 0 in common."""
    x = function.xs[0]
    if function.computed or len(function.xs) != 1 or not (y.ndim and x.ndim):
        return None
    if y.shape[0] != x.shape[0] or y.shape[0] < 2 or y.is_complex():
        return None
    try:
        return mixing(function.f, x.detach()).mixes
    except ValueError:  # NaN or infinity in the derivative
        return None


def _kind(shape: torch.Size) -> str:
    """Name a shape in the words of mathematics."""
    if len(shape) == 0:
        return "scalar"
    if len(shape) == 1:
        return f"vector of dimension {shape[0]}"
    if len(shape) == 2:
        rows, columns = shape
        special = " (a row)" if rows == 1 else " (a column)" if columns == 1 else ""
        return f"{rows}×{columns} matrix{special}"
    return f"array of order {len(shape)}, {'×'.join(map(str, shape))}"


def _with_names(items: tuple[Any, ...]) -> list[tuple[str, Any]]:
    if len(items) == 1:
        return [("x", items[0])]
    return [(f"x{i + 1}", item) for i, item in enumerate(items)]


def _value(t: Tensor) -> str:
    t = t.detach()
    if t.numel() <= SMALL:
        return " ".join(str(t).split())
    return f"a tensor of shape {tuple(t.shape)}"
