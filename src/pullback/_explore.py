"""A picture of vᵀJ to touch: one HTML fragment that needs no kernel and no network."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from pullback._inputs import call, check_tensors, leaf_of, one_tensor, untouched
from pullback._jacobian import jacobian
from pullback._report import Table

CAPTION = "v weighs the rows of J; their sum is vᵀJ"
FORWARD = "u weighs the columns of J; their sum is J u"
LARGEST = 12  # outputs, and inputs, that a page can show side by side


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
        numbers = {
            "J": [[_exact(x) for x in row] for row in self.J.tolist()],
            "v": [_exact(x) for x in self.v.tolist()],
            "u": [1] + [0] * (self.J.shape[1] - 1),
            "names": {"v": self._outputs(), "u": self._inputs()},
            "reach": _reach(self.v.tolist()),
        }
        data = json.dumps(numbers, separators=(",", ":"))
        page = files("pullback").joinpath("explore.html").read_text(encoding="utf-8")
        for place, text in {
            "{{data}}": escape(data),
            "{{table}}": self._html_table(),
            "{{sentence}}": f"vᵀJ = {_list(self.result)}, added to x.grad",
        }.items():
            page = page.replace(place, text)
        return page

    def __repr__(self) -> str:
        rows = [
            [name, tidy(weight), *map(tidy, row)]
            for name, weight, row in zip(
                self._outputs(), self.v.tolist(), self.J.tolist(), strict=True
            )
        ]
        rows += [["vᵀJ", "", *map(tidy, self.result.tolist())]]
        return Table(CAPTION, ("output", "v", *self._inputs()), rows).text()

    def _repr_html_(self) -> str:
        return self.html

    def _outputs(self) -> list[str]:
        return _elements("y", self.y_shape)

    def _inputs(self) -> list[str]:
        return _elements("x", self.x_shape)

    def _html_table(self) -> str:
        """Return the table that is there without scripts; the script adds controls."""
        inputs = self._inputs()
        head = "".join(f'<th scope="col">{name}</th>' for name in inputs)
        controls = '<td class="pb-u"></td>' * len(inputs)
        rows = "".join(
            f'<tr><th scope="row">{name}</th><td class="pb-v pb-by-v">{tidy(weight)}</td>'
            + "".join(f'<td class="pb-j">{tidy(x)}</td>' for x in row)
            + '<td class="pb-sum pb-by-u" hidden></td></tr>'
            for name, weight, row in zip(
                self._outputs(), self.v.tolist(), self.J.tolist(), strict=True
            )
        )
        sums = "".join(
            f'<td class="pb-sum pb-by-v">{tidy(x)}</td>' for x in self.result.tolist()
        )
        return (
            f'<table><caption><span class="pb-by-v">{CAPTION}</span>'
            f'<span class="pb-by-u" hidden>{FORWARD}</span></caption>'
            '<thead><tr><td></td><th scope="col" class="pb-by-v">v</th>'
            f'{head}<th scope="col" class="pb-by-u" hidden>J u</th></tr></thead><tbody>'
            f'<tr class="pb-by-u" hidden><th scope="row">u</th>{controls}<td></td></tr>'
            f"{rows}"
            f'<tr class="pb-by-v"><th scope="row">vᵀJ</th><td></td>{sums}</tr>'
            "</tbody></table>"
        )


def explore(
    f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor | None = None
) -> Exploration:
    r"""Show :math:`v^\top J` as a picture to touch: drag v, see what x.grad becomes.

    In a notebook, or on a page, each entry of v has a slider and a number field; the
    rows of J are tinted by their weight and summed underneath. Buttons set v to ones, a
    one-hot vector, the mean, or your own, and a switch shows the Jacobian-vector product
    :math:`Ju` of the same J. It works by mouse, touch and keyboard, and a screen reader
    hears the result. ``.html`` is one fragment of less than 30 KB, with style and script
    in it, that asks for nothing else; without scripts it shows v, J and the product as a
    table. The same input gives the same fragment, and a page may hold several.

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
        v weighs the rows of J; their sum is vᵀJ
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


def tidy(number: float) -> str:
    """Return a number in three or four digits, as the script writes it."""
    if not math.isfinite(number):
        return str(_exact(number))
    if 0 < abs(number) < 1e-3:
        digits, power = f"{number:.1e}".split("e")
        return f"{digits}e{int(power)}"
    rounded = float(f"{number:.{3 if abs(number) < 1 else 4}g}")
    return str(int(rounded)) if rounded == int(rounded) else repr(rounded)


def _list(t: Tensor) -> str:
    return f"[{', '.join(map(tidy, t.tolist()))}]"


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


def _elements(name: str, shape: torch.Size) -> list[str]:
    """Return the names of the elements of a tensor, such as x, x[0] and x[0, 1]."""
    indices = product(*(range(size) for size in shape))
    return [f"{name}[{', '.join(map(str, index))}]" if index else name for index in indices]


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
