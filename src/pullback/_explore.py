"""A picture of vᵀJ to touch: one HTML fragment that needs no kernel and no network."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor

from pullback._inputs import call, check_tensors, leaf_of, one_tensor, untouched
from pullback._jacobian import jacobian
from pullback.draw._products import both_ways, row_sentence, row_text
from pullback.draw._svg import TINTS, Product, elements, listed, minified

LARGEST = 12  # outputs, and inputs, that a page can show side by side
TALL = 58  # height of a cell that holds a number field and a slider


class Exploration(NamedTuple):
    """What :func:`explore` computed; notebooks and pages show it as a picture to touch.

    Attributes:
        v: The cotangent to start from, shape ``(m,)``.
        J: The Jacobian, shape ``(m, n)``.
        result: The product that ``y.backward(v)`` adds to ``x.grad``, shape ``(n,)``.
        y_shape: Shape of y, m elements.
        x_shape: Shape of x, n elements.
    """

    v: Tensor
    J: Tensor
    result: Tensor
    y_shape: torch.Size
    x_shape: torch.Size

    @property
    def html(self) -> str:
        """One HTML fragment with its style and script, to be saved or put into a page."""
        forward = self._product(self._unit(), self.J[:, 0])
        picture, hidden = both_ways(self._product(self.v, self.result), forward, TALL)
        numbers = {
            "J": [[_exact(x) for x in row] for row in self.J.tolist()],
            "v": [_exact(x) for x in self.v.tolist()],
            "u": self._unit().tolist(),
            "names": {"v": self._outputs(), "u": self._inputs()},
            "views": {"v": picture.view, "u": hidden.view},
            "reach": _reach(self.v.tolist()),
            "tints": TINTS,
        }
        data = json.dumps(numbers, separators=(",", ":"))
        page = files("pullback").joinpath("explore.html").read_text(encoding="utf-8")
        page = re.sub(r"(?<=<style>)[^<]*", lambda sheet: minified(sheet[0]), page)
        page = re.sub(r"\n\s+(//.*)?", "\n", page)
        for place, text in {
            "{{data}}": escape(data, quote=False),
            "{{picture}}": picture.svg(self._told()),
            "{{sentence}}": f"vᵀJ = {listed(self.result.tolist())}, added to x.grad",
        }.items():
            page = page.replace(place, text)
        return page

    def __repr__(self) -> str:
        return row_text(self._product(self.v, self.result), "vᵀJ")

    def _repr_html_(self) -> str:
        return self.html

    def _told(self) -> str:
        return row_sentence(self._product(self.v, self.result), "vᵀJ")

    def _product(self, weights: Tensor, result: Tensor) -> Product:
        J, rows, columns = self.J.tolist(), self._outputs(), self._inputs()
        return Product(weights.tolist(), J, result.tolist(), rows, columns)

    def _unit(self) -> Tensor:
        """Return the direction u to start from."""
        return torch.eye(self.J.shape[1], dtype=torch.int64)[0]

    def _outputs(self) -> list[str]:
        return elements("y", self.y_shape)

    def _inputs(self) -> list[str]:
        return elements("x", self.x_shape)


def explore(
    f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor | None = None
) -> Exploration:
    r"""Show :math:`v^\top J` as a picture to touch: drag v, see what x.grad becomes.

    In a notebook, or on a page, each entry of v has a slider and a number field; the
    rows of J are tinted by their weight and summed underneath. Buttons set v to ones, a
    one-hot vector, the mean, or your own, and a switch shows the Jacobian-vector product
    :math:`Ju` of the same J. It works by mouse, touch and keyboard, and a screen reader
    hears the result. ``.html`` is one fragment of less than 30 KB, with style and script
    in it, that asks for nothing else; without scripts it shows v, J and the product, as
    :func:`pullback.draw.vjp` does. The same input gives the same fragment, and a page may
    hold several.

    J comes from :func:`pullback.jacobian` and the first product from
    :func:`torch.autograd.grad`; the script goes on in double precision.

    Args:
        f: Function that maps x to one tensor y.
        x: Real floating point tensor with 1 to 12 elements; it and its ``.grad`` stay as
            they are.
        v: Cotangent of exactly y's shape to start from; ones when left out.

    Returns:
        An :class:`Exploration`: a picture in notebooks, a table in print, ``.html``.

    Raises:
        TypeError: f is no function, x or v is no real floating point tensor, or f returns
            something else than one real tensor.
        ValueError: v does not have y's shape, or x or y has none or more than 12 elements,
            or is on the meta device.
        RuntimeError: f changes x in place, or its result does not depend on x.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> f = lambda x: torch.stack([x.sum(), (x**2).sum()])
        >>> pullback.explore(f, x, v=torch.tensor([10.0, 1.0]))
        v multiplies the rows of J; their sum is vᵀJ
        output  v   x[0]  x[1]  x[2]
        y[0]    10  1     1     1
        y[1]    1   2     4     6
        vᵀJ         12    14    16
        >>> len(pullback.explore(f, x).html) < 30_000
        True
    """
    check_tensors(f, (x,))
    _small_and_real("x", x)
    with untouched(), torch.enable_grad():
        leaf = leaf_of(x)
        y = one_tensor(call(f, (leaf,)))
    _small_and_real("y = f(x)", y)
    if not y.requires_grad:
        raise RuntimeError("f(x) does not depend on x; a function of x is needed")
    v = torch.ones_like(y) if v is None else v
    if not isinstance(v, Tensor) or not v.is_floating_point():
        kind = f"of dtype {v.dtype}" if isinstance(v, Tensor) else f"a {type(v).__name__}"
        raise TypeError(f"v is {kind}; a real floating point tensor is needed")
    if v.shape != y.shape:
        raise ValueError(
            f"v has shape {tuple(v.shape)} and y = f(x) has shape {tuple(y.shape)}; "
            "exactly y's shape is needed"
        )
    v = v.detach().to(y)
    (result,) = torch.autograd.grad(y, leaf, v, retain_graph=True, materialize_grads=True)
    with torch.no_grad():
        J = jacobian(y, leaf, allow_unused=True).reshape(y.numel(), x.numel())
    return Exploration(v.reshape(-1), J, result.reshape(-1), y.shape, x.shape)


def _exact(number: float) -> float | str:
    """Return what JSON can carry and JavaScript's Number() reads."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _reach(weights: Sequence[float]) -> float:
    """Return where the sliders end: 2, 5, 10, 20, 50…, beyond the largest weight."""
    largest = max((abs(w) for w in weights if math.isfinite(w)), default=0.0)
    ends = (digit * 10.0**power for power in range(40) for digit in (1, 2, 5))
    return next(end for end in ends if end >= max(2.0, 1.5 * largest))


def _small_and_real(name: str, t: Tensor) -> None:
    if t.is_complex():
        raise TypeError(
            f"{name} has dtype {t.dtype}; a real floating point dtype is needed"
        )
    if not 1 <= t.numel() <= LARGEST:
        raise ValueError(
            f"{name} has shape {tuple(t.shape)}, {t.numel()} elements; 1 to {LARGEST} can "
            "be shown"
        )
