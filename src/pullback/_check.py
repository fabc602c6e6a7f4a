"""One vector-Jacobian product by many routes that share as little as they can."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pullback._inputs import (
    call,
    check_real,
    check_tensors,
    jvp,
    leaf_of,
    one_tensor,
    untouched,
)
from pullback._report import Table

Function = Callable[[Tensor], Tensor]

# What the routes of PyTorch, and finite differences, may differ by.
TOLERANCES = {torch.float64: (1e-9, 1e-5), torch.float32: (1e-4, 1e-3)}


class Route(NamedTuple):
    """One way to the product, or one test of it.

    Attributes:
        name: What was run.
        difference: Largest difference from ``backward(v)``, relative to the size of
            the product where that exceeds 1; None where f does not support the route.
        tolerance: What the difference may be at most.
    """

    name: str
    difference: float | None
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the route agrees (NaN does not) or could not be taken."""
        return self.difference is None or self.difference <= self.tolerance


class Check(NamedTuple):
    """What :func:`check` found.

    Attributes:
        result: The product that ``y.backward(v)`` adds to ``x.grad``; x's shape.
        routes: The other routes with their differences from it.
    """

    result: Tensor
    routes: tuple[Route, ...]

    @property
    def ok(self) -> bool:
        """Whether every route agrees."""
        return self.error is None

    @property
    def error(self) -> str | None:
        """Which routes disagree with ``backward(v)``, and by how much; else None.

        Where ``backward(v)`` itself is NaN or infinite, it says so and where.
        """
        beyond = ~self.result.isfinite()
        if beyond.any():
            first = beyond.nonzero()[0].tolist()
            return (
                f"backward(v) is NaN or infinite in {int(beyond.sum())} of "
                f"{beyond.numel()} numbers, first at {first}; that agrees with nothing"
            )
        wrong = [
            f"{r.name} by {100 * r.difference:.3g} %"
            for r in self.routes
            if r.difference is not None and not r.ok
        ]
        return f"backward(v) disagrees with {'; '.join(wrong)}" if wrong else None

    def assert_ok(self) -> None:
        """Raise AssertionError with :attr:`error` unless every route agrees."""
        if self.error:
            raise AssertionError(self.error)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        rows = [
            [r.name, _power_of_ten(r.difference), _power_of_ten(r.tolerance), _verdict(r)]
            for r in self.routes
        ]
        caption = self.error or "every route agrees with y.backward(v)"
        return Table(caption, ("route", "difference", "allowed", "agrees"), rows)


def check(f: Function, x: Tensor, v: Tensor) -> Check:
    r"""Compute :math:`J_f(x)^\top v` by independent routes and compare them.

    ``y.backward(v)`` is held against :func:`torch.autograd.grad`,
    :func:`torch.func.vjp`, ``(y * v).sum().backward()``, the explicit Jacobian times v
    in NumPy, central finite differences in float64, and the dot-product test
    :math:`\langle v, Ju\rangle=\langle J^\top v, u\rangle` with a Jacobian-vector
    product in forward mode for a random tangent u (Claerbout, *Earth Soundings
    Analysis*, 1992; Griewank and Walther, *Evaluating Derivatives*, 2008).

    The routes of PyTorch may differ by 1e-9 of the product in float64, 1e-4 in
    float32 and 5e-2 in half precision, by the coarser dtype of x and y. Finite
    differences take float64 where f can follow, and may differ by 1e-5, 1e-3 and
    5e-2. At a kink they see the mean of both sides. A route that f does not support (a
    custom ``Function`` without ``setup_context`` under ``torch.func``, say) is reported
    as not supported.

    Args:
        f: Function that maps x to one tensor y.
        x: Real floating point tensor of any shape; stays as it is.
        v: Cotangent, a tensor of exactly y's shape.

    Returns:
        A :class:`Check`: a table, ``.ok``, ``.error``, ``.result``.

    Raises:
        TypeError: f is no function, x or v is no real floating point tensor, or f
            returns something else than one such tensor.
        ValueError: v does not have y's shape, or x or y is on the meta device.
        RuntimeError: f changes x in place, or its result does not depend on x.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> report = pullback.check(torch.square, x, v=torch.tensor([1.0, 0.0, 2.0]))
        >>> report.ok, report.result
        (True, tensor([ 2.,  0., 12.]))
    """
    check_tensors(f, (x,))
    if not isinstance(v, Tensor):
        raise TypeError(f"v is a {type(v).__name__}; a tensor of y's shape is needed")
    check_real("x", x)

    def g(t: Tensor) -> Tensor:
        with untouched():  # every route sees the same random numbers
            y = one_tensor(call(f, (t,)))
        check_real("y = f(x)", y)
        return y

    with torch.enable_grad():
        leaf = _leaf(x)
        y = g(leaf)
        check_real("v", v)
        if y.shape != v.shape:
            raise ValueError(
                f"v has shape {tuple(v.shape)} and y = f(x) has shape "
                f"{tuple(y.shape)}; exactly y's shape is needed"
            )
        if not y.requires_grad:
            raise RuntimeError("f(x) does not depend on x; a function of x is needed")
        v = v.detach().to(y)
        leaf.grad = None  # where f calls backward itself
        y.backward(v, retain_graph=True, inputs=[leaf])  # and nothing of what f captures
        result = torch.zeros_like(x) if leaf.grad is None else leaf.grad

        tight, loose = TOLERANCES.get(_coarser_dtype(x.dtype, y.dtype), (5e-2, 5e-2))
        scale = max(1.0, float(result.abs().max())) if result.numel() else 1.0

        def compare(name: str, other: object, tolerance: float) -> Route:
            if other is None:
                return Route(name, None, tolerance)
            with np.errstate(invalid="ignore"):  # infinity less infinity
                gap = np.abs(_array(result) - np.asarray(other, dtype=np.float64))
            return Route(name, float(gap.max(initial=0.0)) / scale, tolerance)

        return Check(
            result,
            (
                compare("torch.autograd.grad", _array(_grad(g, x, v)), tight),
                compare("torch.func.vjp", _vjp(g, x, v), tight),
                compare("(y * v).sum().backward()", _array(_sum(g, x, v)), tight),
                compare("explicit J in NumPy", _explicit_jacobian(g, x, v), tight),
                compare("finite differences", _finite_differences(g, x, v), loose),
                _dot_product_test(g, x, v, result, tight),
            ),
        )


def _grad(g: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf = _leaf(x)
    y = g(leaf)
    return torch.autograd.grad(y, leaf, v, retain_graph=True, materialize_grads=True)[0]


def _vjp(g: Function, x: Tensor, v: Tensor) -> object:
    try:
        pull = torch.func.vjp(g, x.detach())[1]
    except RuntimeError:  # f ran before; what torch.func cannot do is all that is left
        return None
    return _array(pull(v)[0])


def _sum(g: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf = _leaf(x)
    y = g(leaf)
    leaf.grad = None
    (y * v).sum().backward(retain_graph=True, inputs=[leaf])
    return torch.zeros_like(x) if leaf.grad is None else leaf.grad


def _explicit_jacobian(g: Function, x: Tensor, v: Tensor) -> object:
    """Return v^T J with J row by row, the product in NumPy."""
    leaf = _leaf(x)
    y = g(leaf)
    rows = []
    for i in range(y.numel()):
        one_hot = torch.zeros(y.numel(), dtype=y.dtype, device=y.device)
        one_hot[i] = 1
        (row,) = torch.autograd.grad(
            y, leaf, one_hot.view(y.shape), retain_graph=True, materialize_grads=True
        )
        rows.append(_array(row))
    J = np.array(rows).reshape(y.numel(), x.numel())
    return (_array(v).reshape(-1) @ J).reshape(tuple(x.shape))


def _finite_differences(g: Function, x: Tensor, v: Tensor) -> object:
    """Return d<v, f>/dx by central differences, in float64 where f allows it."""
    point = x.detach().clone()
    try:
        wide = g(_leaf(point.double())).dtype == torch.float64
    except (RuntimeError, ValueError, TypeError):  # captured float32 parameters
        wide = False
    point = point.double() if wide or x.dtype == torch.float64 else point
    weights = _array(v)
    coarser = point.dtype if wide else _coarser_dtype(point.dtype, v.dtype)
    step = float(torch.finfo(coarser).eps) ** (1 / 3)
    product = np.zeros(x.numel())
    flat = point.reshape(-1)
    for j in range(x.numel()):
        h = step * max(1.0, abs(float(flat[j])))
        ends = []
        for moved in (flat[j] + h, flat[j] - h):
            probe = flat.clone()
            probe[j] = moved
            y = g(_leaf(probe.view(x.shape)))  # f may ask for derivatives itself
            ends.append((float(probe[j]), _array(y)))
        (right, up), (left, down) = ends
        product[j] = (weights * (up - down)).sum() / (right - left)
    return product.reshape(tuple(x.shape))


def _dot_product_test(
    g: Function, x: Tensor, v: Tensor, result: Tensor, tolerance: float
) -> Route:
    name = "dot-product test against a JVP"
    source = torch.Generator("cpu").manual_seed(0)
    u = torch.randn(x.shape, generator=source, dtype=torch.float64, device="cpu").to(x)
    try:
        Ju = jvp(g, (x.detach().contiguous(),), (u,))[1]
    except RuntimeError:  # NotImplementedError is one, too
        return Route(name, None, tolerance)
    left, right = _array(v) * _array(Ju), _array(result) * _array(u)
    scale = max(1.0, float(np.abs(left).sum()), float(np.abs(right).sum()))
    with np.errstate(invalid="ignore"):
        gap = float(abs(left.sum() - right.sum()))
    return Route(name, gap / scale, tolerance)


def _coarser_dtype(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return max(a, b, key=lambda dtype: torch.finfo(dtype).eps)


def _leaf(x: Tensor) -> Tensor:
    return leaf_of(x.detach().clone())


def _array(t: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return t.detach().cpu().double().numpy()


def _power_of_ten(value: float | None) -> str:
    if value is None:
        return "not supported by f"
    return "0" if value == 0 else f"{value:.0e}"


def _verdict(route: Route) -> str:
    if route.difference is None:
        return "-"
    return "yes" if route.ok else "NO"
