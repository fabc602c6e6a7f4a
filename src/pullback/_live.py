"""A picture of vᵀJ that lives: move x and v, and f itself answers, without a kernel."""

from __future__ import annotations

import json
import math
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pullback._inputs import (
    Untouched,
    check_readable,
    check_tensors,
    kind_of,
    leaf_of,
)
from pullback._jacobian import jacobian
from pullback._live_again import (
    gives_again,
    place_of_change,
    place_of_rounding,
    without_chance,
)
from pullback._live_graph import Called, Mark, called, drawn, marks, name_of_input
from pullback._live_program import carried, weight
from pullback._live_recorder import (
    Doubled,
    Lent,
    Recorder,
    Watched,
    as_without_modes,
    at,
    place_in_f,
    told_at,
)
from pullback._readers import SeeReaders
from pullback._steps import script as steps_script
from pullback._torch import unwatched
from pullback.draw._graphs import GraphDrawing
from pullback.draw._graphs import alive as alive_graph
from pullback.draw._products import (
    alive,
    column_sentence,
    column_text,
    row_sentence,
    row_text,
)
from pullback.draw._svg import TINTS, Product, listed, minified, names_for

LARGEST = 12  # outputs, and inputs, that a page can show side by side
HEAVIEST = 2048  # compressed bytes that the program of a function may add to a page
TALL = 58  # height of a cell that holds a number field and a slider


class Live:
    """What :func:`live` returns; notebooks and pages show it as a picture that lives.

    Attributes:
        x: The input to start from, shape ``(n,)``.
        v: The cotangent to start from, shape ``(m,)``.
        y: The output, shape ``(m,)``.
        J: The Jacobian, shape ``(m, n)``.
        result: The product that ``y.backward(v)`` adds to ``x.grad``, shape ``(n,)``.
        u: The tangent to start from, shape ``(n,)``.
        way: Which product is shown first, ``"v"`` or ``"u"``.
        y_shape: Shape of y, m elements.
        x_shape: Shape of x, n elements.
        rows: Names of the outputs, m of them.
        columns: Names of the inputs, n of them.
        input: What f calls its input; x where that is not known.
        program: What the page computes: f and its product, as JSON can carry it.
        graph: The drawing of f's graph, if it was asked for.
    """

    def __init__(
        self,
        f: Callable[[Tensor], Tensor],
        start: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
        names: tuple[list[str], list[str]],
        program: dict[str, Any],
        graph: GraphDrawing | None = None,
        u: Tensor | None = None,
    ) -> None:
        x, v, y, self.J, result = start
        self.way = "v" if u is None else "u"
        self.u = torch.eye(x.numel(), dtype=torch.int64)[0] if u is None else u.reshape(-1)
        self._f, self.program, self.graph = f, program, graph
        self.input = name_of_input(f)
        self.rows, self.columns = names
        self.x, self.v, self.y = x.reshape(-1), v.reshape(-1), y.reshape(-1)
        self.result, self.x_shape, self.y_shape = result.reshape(-1), x.shape, y.shape

    @property
    def fragment(self) -> str:
        """The picture as an HTML fragment, for a page that has the script."""
        backward = self._product(self.v, self.result)
        pushed, name = self._pushed(), self.input
        picture = alive(backward, pushed, self.x, self.y, TALL, name, self.way)
        numbers = {
            "program": self.program,
            **{name: [carried(n) for n in t.tolist()] for name, t in self._moved().items()},
            "names": {"v": self.rows, "u": self.columns},
            "views": picture.views,
            "lift": picture.lift,
            "reach": {
                name: _end_of_sliders(t.tolist()) for name, t in self._moved().items()
            },
            "tints": TINTS,
            "input": self.input,
        }
        data = json.dumps(numbers, separators=(",", ":"))
        page = _asset("live.html")
        page = re.sub(r"(?<=<style>)[^<]*", lambda sheet: minified(sheet[0]), page)
        for place, text in {
            "{{data}}": escape(data, quote=False).replace("'", "&#39;"),
            "{{picture}}": picture.canvas.svg(self._in_words()),
            "{{sentence}}": self._sentence(),
            **{f"{{{{{way}}}}}": " checked" * (way == self.way) for way in "vu"},
            "{{graph}}": self.graph.fragment if self.graph else "",
        }.items():
            page = page.replace(place, text)
        return page

    @property
    def html(self) -> str:
        """The fragment with its scripts in it, to be put into any page."""
        return self.fragment + "".join(f"<script>{s}</script>\n" for s in self._scripts())

    def save(self, path: str | Path) -> None:
        """Write a whole page, one file, that asks for nothing and allows nothing else."""
        digests = [sha256(script.encode()).digest() for script in self._scripts()]
        allowed = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)
        policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'"
        page = _asset("live_page.html").replace("{{policy}}", policy)
        Path(path).write_text(page.replace("{{picture}}", self.html), encoding="utf-8")

    def answer(self, x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """Return y and vᵀJ at another x and v, as torch computes them in float64.

        This is what the program is compared with, number for number; with a graph, the
        numbers that its drawing shows follow.
        """
        leaf = x.detach().double().reshape(self.x_shape).clone().requires_grad_()
        weights = v.detach().double().reshape(self.y_shape)
        with Lent() as lent, Untouched(), torch.enable_grad():
            with Watched(leaf, lent), Doubled() as mode:
                of = called(self._f, leaf)
                product, seen = _pulled(of, weights, mode, graph=self.graph is not None)
            shown = of.y, product, *seen.values()
            return tuple(t.detach().reshape(-1).clone() for t in shown)

    def __repr__(self) -> str:
        if self.way == "u":
            return column_text(self._pushed(), "J u")
        return row_text(self._product(self.v, self.result), "vᵀJ")

    def _repr_html_(self) -> str:
        return self.html

    def _scripts(self) -> list[str]:
        return [script(), steps_script()] if self.graph else [script()]

    def _in_words(self) -> str:
        if self.way == "u":
            told = column_sentence(self._pushed(), "J u")
        else:
            told = row_sentence(self._product(self.v, self.result), "vᵀJ")
        x, y = listed(self.x.tolist()), listed(self.y.tolist())
        return f"At {self.input} = {x}, y = {y}. {told}"

    def _product(self, weights: Tensor, result: Tensor) -> Product:
        J = self.J.tolist()
        return Product(weights.tolist(), J, result.tolist(), self.rows, self.columns)

    def _moved(self) -> dict[str, Tensor]:
        return {"x": self.x, "v": self.v, "u": self.u}

    def _pushed(self) -> Product:
        return self._product(self.u, self.J @ self.u.to(self.J))

    def _sentence(self) -> str:
        if self.way == "u":
            return f"J u = {listed(self._pushed().result)}, the change of y along u"
        return f"vᵀJ = {listed(self.result.tolist())}, added to {self.input}.grad"


def live(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    v: Tensor | None = None,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    graph: bool = False,
    u: Tensor | None = None,
) -> Live:
    r"""Show :math:`v^\top J` as a picture that lives: move x and v, and f answers.

    In a notebook, or on a page, each entry of x and of v has a slider and a number field.
    When one is moved, y, the rows of J, tinted by their weight, and their sum follow.
    Buttons set v to ones, a one-hot vector, the mean, or your own, and a switch shows the
    Jacobian-vector product :math:`Ju` of the same J. It works by mouse, touch and
    keyboard, and a screen reader hears the result. It needs no kernel and no network:
    f and its product are run here once, and what torch computes is written down,
    operation by operation, as a small program that a script in the page runs. Without
    scripts the picture shows x, v, J and the product, as :func:`pullback.draw.vjp` does.

    The first numbers come from :func:`pullback.jacobian` and :func:`torch.autograd.grad`
    in x's dtype. The page goes on in double precision, also where f has ``x.float()``, and
    parameters of f that have less are taken as they are; :meth:`Live.answer` says what
    torch answers there. Functions such as ``exp`` and ``log`` are the browser's, whose last
    digit may be another, and sums are added from left to right, so that what rounding
    leaves of terms that cancel may be another number than torch's.

    With ``graph=True`` the graph of f stands below, as :func:`pullback.draw.graph` draws
    it: the value that each operation computes, and the cotangents on their way back,
    which follow x and v, too. Operations are called as f calls their results, and beyond
    24 they are drawn by module.

    The program is that of **one** way through f, so f may not look at values. What f reads
    past all operations, as in a thread of its own, is found by running f at a second x; not
    if it is the same there. What is refused names the line of f, or the module in it. What
    f writes into tensors that it has not made, such as running statistics, is as before
    afterwards.

    Args:
        f: Function that maps x to one tensor y.
        x: Real floating point tensor with 1 to 12 elements; it and its ``.grad`` stay as
            they are.
        v: Cotangent of exactly y's shape to start from; ones when left out.
        rows: Names of the outputs; ``y[0]``, ``y[1]``… when left out.
        columns: Names of the inputs; ``x[0]``, ``x[1]``… when left out, or as f calls
            its argument.
        graph: Whether the graph of f is shown as well.
        u: Tangent of exactly x's shape to start from. With it the picture begins with
            :math:`Ju` instead of :math:`v^\top J`.

    Returns:
        A :class:`Live`: a picture in notebooks, a table in print; ``.html`` is a fragment
        for a page and ``.save(path)`` writes a page of its own.

    Raises:
        TypeError: f is no function, x, v or u is no real floating point tensor, or f
            returns something else than one real tensor.
        ValueError: v does not have y's shape, or u not x's; x or y has none or more than
            12 elements, or is on the meta device; there are more or fewer names than rows
            or columns; or the program is too large for a page.
        RuntimeError: f changes x in place, or its result does not depend on x.
        NotImplementedError: f looks at values (``if x.sum() > 0``, ``.item()``), has
            shapes that depend on them (``x[x > 0]``), draws random numbers, has no
            derivative, differs in x's dtype and in float64, has integers that may wrap or
            be larger than 2**53, or uses an operation that a page cannot compute.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> f = lambda x: torch.stack([x.sum(), (x**2).sum()])
        >>> pullback.live(f, x, v=torch.tensor([10.0, 1.0]), rows=["heat", "fuel"])
        v multiplies the rows of J; their sum is vᵀJ
        output  v   x[0]  x[1]  x[2]
        heat    10  1     1     1
        fuel    1   2     4     6
        vᵀJ         12    14    16
        >>> pullback.live(lambda x: x if x.sum() > 0 else -x, x)
        Traceback (most recent call last):
        ...
        NotImplementedError: f looks at a value (if, float(), item()); one way for all...
    """
    check_tensors(f, (x,))
    _small_and_real("x", x)
    with Lent() as lent, Untouched():
        leaf = leaf_of(x)
        with torch.enable_grad():
            own = leaf.clone()
            with without_chance(f, own), Watched(own, lent):
                of = called(f, own)
        y = of.y
        with told_at(of.place):
            _small_and_real("y = f(x)", y)
            if not y.requires_grad:
                raise RuntimeError("f(x) does not depend on x; a function of x is needed")
        v = torch.ones_like(y) if v is None else _weights("v", v, "y = f(x)", y)
        tangent = None if u is None else _weights("u", u, "x", leaf.detach())
        names = (
            names_for("rows", rows, "y", y.shape),
            names_for("columns", columns, name_of_input(f), x.shape),
        )
        try:
            (result,) = torch.autograd.grad(
                y, leaf, v, retain_graph=True, materialize_grads=True
            )
        except (RuntimeError, TypeError) as error:
            lacks = isinstance(error, NotImplementedError | TypeError)  # as in torch.cond
            if lacks or "implement" in str(error):
                _recorded(f, x, y.detach(), v, graph=graph)  # says on which line
            raise
        program, shown = _recorded(f, x, y.detach(), v, graph=graph)
        with torch.no_grad():
            J = jacobian(y, leaf, allow_unused=True).reshape(y.numel(), x.numel())
        start = (x.detach(), v, y.detach().clone(), J, result)
        return Live(f, start, names, program, shown, tangent)


def _weights(name: str, weights: Tensor, whose: str, of: Tensor) -> Tensor:
    """Return a v as it goes with y, or a u as it goes with x."""
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        is_tensor = isinstance(weights, Tensor)
        kind = f"of dtype {weights.dtype}" if is_tensor else kind_of(weights)
        raise TypeError(f"{name} is {kind}; a real floating point tensor is needed")
    check_readable(name, weights)
    if weights.shape != of.shape:
        raise ValueError(
            f"{name} has shape {tuple(weights.shape)} and {whose} has shape "
            f"{tuple(of.shape)}; exactly {whose[0]}'s shape is needed"
        )
    return weights.detach().to(of)


def _recorded(
    f: Callable[[Tensor], Tensor], x: Tensor, given: Tensor, v: Tensor, *, graph: bool
) -> tuple[dict[str, Any], GraphDrawing | None]:
    """Return the program of f, which gave a result already, and of its product.

    With a graph its numbers are outputs of the program, too, and its drawing comes along.
    """
    form = torch.contiguous_format
    leaf = x.detach().double().clone(memory_format=form).requires_grad_()
    weights = v.detach().double().clone(memory_format=form)
    recorder, drawing = Recorder(leaf, weights), None
    with (
        Lent() as lent,
        Untouched(),
        torch.enable_grad(),
        _ATTENTION,
        sdpa_kernel(SDPBackend.MATH),
        Watched(leaf, lent),
    ):
        with recorder, SeeReaders(recorder.read_past_operations):
            try:
                of = called(f, leaf)
                if of.y.shape == given.shape:
                    product, seen = _backward(of, weights, recorder, graph=graph)
            except (RuntimeError, TypeError, ValueError) as error:
                if isinstance(error, NotImplementedError) or x.dtype is torch.float64:
                    raise
                reason = (
                    f"f takes x of dtype {x.dtype} alone; float64, in which a page "
                    "computes, is needed (f.double() makes a module take it)"
                )
                raise NotImplementedError(at(reason, place_in_f(error))) from error
            if recorder.refused:  # and f has caught it
                raise recorder.refused
        if other := _another(of.y, given, x.dtype):
            own = x.detach().clone()
            if x.dtype is not torch.float64 and gives_again(f, own, given):
                reason = (
                    f"f gives {listed(given.flatten().tolist())} in {x.dtype}, and "
                    f"{listed(of.y.flatten().tolist())} in float64, in which a page "
                    "computes; with x.double() both are the same"
                )
                raise NotImplementedError(at(reason, place_of_rounding(f, own)))
            raise RuntimeError(at(other, place_of_change(f, own)))
        outputs = _outputs(recorder, of, product, seen)
        _check_elsewhere(f, recorder, outputs, graph=graph)
        if graph:
            with Doubled() as mode:
                numbers = {mark: i for i, mark in enumerate(seen, 2)}
                drawing = alive_graph(*drawn(called(f, leaf), weights, mode), numbers)
    program = recorder.program.data(outputs)
    if (size := weight(program)) > HEAVIEST:
        reason = (
            f"the program of f has {len(program['nodes'])} operations, {size} bytes when "
            f"compressed; a page can carry {HEAVIEST}"
        )
        raise ValueError(at(reason, recorder.longest()))
    return program, drawing


def _outputs(
    recorder: Recorder, of: Called, product: Tensor, seen: dict[Mark, Any]
) -> list[int]:
    shown = [of.y, product, *seen.values()]
    return [n if isinstance(n, int) else recorder.read(n) for n in shown]


def _check_elsewhere(
    f: Callable[[Tensor], Tensor], first: Recorder, outputs: Sequence[int], *, graph: bool
) -> None:
    """Refuse f if its program is another at another x.

    So it is where f has read numbers of x past all operations: in a thread, by an address.
    """
    x, v = (t.detach() for t in first.kept[:2])
    leaf, weights = (0.3 - 1.7 * x).requires_grad_(), 0.3 - 1.7 * v
    recorder = Recorder(leaf, weights)
    try:
        with (
            unwatched(),
            Lent() as lent,
            Watched(leaf, lent),
            recorder,
            SeeReaders(recorder.read_past_operations),
        ):
            of = called(f, leaf)
            found = _outputs(recorder, of, *_pulled(of, weights, recorder, graph=graph))
    except NotImplementedError:
        raise
    except Exception:  # such as a place that x does not have
        return
    if repr(recorder.program.data(found)) == repr(first.program.data(outputs)):
        return
    nodes = zip(first.program.nodes, recorder.program.nodes, strict=False)
    differ = (i for i, (node, other) in enumerate(nodes) if repr(node) != repr(other))
    place = first.written_at.get(next(differ, -1), "")
    reason = "f computes with numbers that it has read of x; one way for all x is needed"
    raise NotImplementedError(at(reason, place))


def _backward(
    of: Called, v: Tensor, recorder: Recorder, *, graph: bool
) -> tuple[Tensor, dict[Mark, Any]]:
    """Do what :func:`_pulled` does; what has no derivative is refused with its line."""
    try:
        return _pulled(of, v, recorder, graph=graph)
    except (RuntimeError, TypeError) as error:
        if recorder.refused:
            raise
        if not (place := recorder.place_of_backward(of.y, v)):
            raise
        if "implement" in str(error):
            raise NotImplementedError(at(f"f has no derivative: {error}", place)) from error
        raise type(error)(at(str(error), place)) from error


def _pulled(
    of: Called, v: Tensor, mode: Doubled, *, graph: bool
) -> tuple[Tensor, dict[Mark, Any]]:
    """Return the product, and with a graph the numbers on the way to it."""
    with as_without_modes(of.y):
        if not graph:
            (product,) = torch.autograd.grad(of.y, of.leaf, v, materialize_grads=True)
            return product, {}
        arrived, seen = marks(of, v, mode)
    return torch.zeros_like(of.leaf) if arrived is None else arrived, seen


_ATTENTION = threading.RLock()  # torch keeps for all threads what attention is made of


def _another(y: Tensor, given: Tensor, of: torch.dtype) -> str:
    """Tell of a result that is not that of before, but for its rounding, or x's."""
    slack = max(torch.finfo(dtype).eps for dtype in (given.dtype, of)) ** 0.5
    y = y.detach().to(given.dtype)
    if y.shape == given.shape and torch.allclose(
        y, given, rtol=slack, atol=slack, equal_nan=True
    ):
        return ""
    return (
        f"f(x) is {listed(given.flatten().tolist())}, and another result, "
        f"{listed(y.flatten().tolist())}, when f is called again; a function of x "
        "alone is needed"
    )


def script() -> str:
    """Return the script that runs programs and moves pictures, without its comments."""
    return re.sub(r"\n\s+(// .*)?", "\n", _asset("live.js"))


def _asset(name: str) -> str:
    return files("pullback").joinpath(name).read_text(encoding="utf-8")


def _end_of_sliders(numbers: Sequence[float]) -> float:
    """Return where the sliders end: 2, 5, 10, 20, 50…, beyond the largest number."""
    largest = max((abs(w) for w in numbers if math.isfinite(w)), default=0.0)
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
