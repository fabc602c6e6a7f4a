"""One vector-Jacobian product by many routes that share as little as they can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pullback._differences import (
    COORDINATES,
    SEED,
    TRIALS,
    Differences,
    Direction,
    Settings,
    Slope,
    places,
    random_directions,
)
from pullback._function import CalledFunction
from pullback._graph import leads_to
from pullback._inputs import (
    check_no_transform,
    check_numbers,
    check_readable,
    check_real,
    flatten,
    jvp,
    kind_of,
    leaf_of,
)
from pullback._products import check_progress, progress_bar
from pullback._report import Table
from pullback._torch import pytree
from pullback._wide import REFUSED, InFloat64, RoundedAtRandom, SeesDtypes

#: What the routes of PyTorch may differ by, relative to what is added up in the product.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}

#: What a graph calls numbers that are drawn, rejected and drawn again.
DRAWN = {"StandardGammaBackward0", "SampleDirichletBackward0"}

PARTS = 64  # rows of J, or groups of them, that the explicit product is made of

GRAD, VJP = "torch.autograd.grad", "torch.func.vjp"
SUM, EXPLICIT = "(y * v).sum().backward()", "explicit J in NumPy"
DIFFERENCES = "finite differences"
DOT_PRODUCT = "dot-product test against a JVP"
ROUTES = (GRAD, VJP, SUM, EXPLICIT, DIFFERENCES, DOT_PRODUCT)

OTHER_VALUES = "f gives another y there (random numbers?)"
OF_ITS_DISTRIBUTION = "f draws gammas: its derivative is that of their distribution"
NO_JVP = "the JVP is NaN or infinite"
WRONG_JVP = "the JVP is wrong: differences agree with backward(v)"


class Entry(NamedTuple):
    """One number of the product that is wrong.

    Attributes:
        name: The input it belongs to, ``x``, or ``inputs[1]['weight']`` of several.
        at: Its place in that input.
        expected: What the route says.
        got: What ``backward(v)`` says.
        others: How many more numbers are wrong together with it, as their sum: in each of
            them alone f has a kink, as in two equal maxima.
    """

    name: str
    at: tuple[int, ...]
    expected: float
    got: float
    others: int = 0

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        more = f" and {self.others} more together" if self.others else ""
        numbers = f"expected {self.expected:.6g}, got {self.got:.6g}"
        return f"{self.name}.grad{place}{more}: {numbers}"


class Route(NamedTuple):
    """One way to the product, or one test of it; true where it is ``.ok``.

    Attributes:
        name: What was run.
        difference: Largest difference from ``backward(v)``, relative to the size of what
            is added up in the product; None where f does not support the route.
        tolerance: What the difference may be at most.
        undecided: Why a difference says nothing about the product: a kink of f within the
            step, rounding, or other random numbers; else None.
        entry: The entry of the product that is wrong, where the route can tell.
    """

    name: str
    difference: float | None
    tolerance: float
    undecided: str | None = None
    entry: Entry | None = None

    @property
    def ok(self) -> bool:
        """Whether the route agrees, or cannot be taken, or cannot decide."""
        if self.difference is None or self.undecided:
            return True
        return self.difference <= self.tolerance

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        amount = f"{self.name} by {100 * (self.difference or 0):.3g} %"
        if self.difference == float("inf"):
            amount = self.name
        return f"{amount} ({self.entry})" if self.entry else amount


class Check(NamedTuple):
    """What :func:`check` found; true where it is ``.ok``.

    Attributes:
        result: The product that ``y.backward(v)`` adds to ``x.grad``, in x's structure;
            None for what is a constant in a tuple.
        routes: The other routes with their differences from it.
        trouble: Why nothing could be compared, else None.
        unjudged: What is NaN or infinite and could not be compared, else None.
    """

    result: Any
    routes: tuple[Route, ...]
    trouble: str | None = None
    unjudged: str | None = None

    @property
    def ok(self) -> bool:
        """Whether no route finds the product wrong."""
        return self.error is None

    @property
    def error(self) -> str | None:
        """Which routes disagree with ``backward(v)``, where, and by how much; else None.

        Where all of ``backward(v)`` is NaN or infinite, it says so.
        """
        if self.trouble:
            return self.trouble
        wrong = [str(route) for route in self.routes if not route.ok]
        return f"backward(v) disagrees with {'; '.join(wrong)}" if wrong else None

    def assert_ok(self) -> None:
        """Raise AssertionError with the table unless no route finds the product wrong."""
        if self.error:
            raise AssertionError(f"{self.error}\n{self!r}")

    def __bool__(self) -> bool:
        return self.ok

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
        if not self.error and any(r.undecided for r in self.routes):
            caption = "no route disagrees with y.backward(v), and some cannot tell"
        if self.unjudged:
            caption += f"; not judged: {self.unjudged}"
        return Table(caption, ("route", "difference", "allowed", "agrees"), rows)


def check(
    f: Callable[..., Tensor],
    x: Any,
    v: Any = None,
    *,
    routes: str | Sequence[str] = ROUTES,
    progress: bool = False,
) -> Check:
    r"""Compute :math:`J_f(x)^\top v` by independent routes and compare them.

    ``y.backward(v)`` is held against :func:`torch.autograd.grad`,
    :func:`torch.func.vjp`, ``(y * v).sum().backward()``, the explicit Jacobian times v
    in NumPy, central finite differences in float64, and the dot-product test
    :math:`\langle v, Ju\rangle=\langle J^\top v, u\rangle` with a Jacobian-vector
    product in forward mode for a random tangent u (Claerbout, *Earth Soundings
    Analysis*, 1992; Griewank and Walther, *Evaluating Derivatives*, 2008).

    The routes of PyTorch may differ by 1e-9 of what is added up in the product in float64,
    1e-4 in float32 and 5e-2 in half precision, and by its rounding. Finite differences run
    in float64, also through weights of less that f captures, and may differ by 1e-5; where
    f refuses that, in its own precision, by 1e-3 or 5e-2. Up to 64 numbers are moved one by
    one; more of them all at once, along 16 random directions, and then by halves until the
    wrong entry is found.

    What says nothing about the product does not count against it: a kink of f between the
    ends of a step, or at x; rounding within f, such as that of ``(1e12 + x) - 1e12``, which
    is measured where differences disagree, by rounding each operation at random (Parker,
    *Monte Carlo Arithmetic*, 1997) and by differences of the sixth order (Moré and Wild,
    *Estimating Computational Noise*, 2011); other random numbers under
    :mod:`torch.func`; a JVP that is wrong itself, as differences tell, or NaN; gammas,
    which are drawn again when x moves; a route that f does not support (a custom
    ``Function`` without ``setup_context`` under ``torch.func``).

    Where y or the product is NaN or infinite, the rest is judged, and ``unjudged`` says
    what was not. But where f is finite and has a slope, a product that is NaN is wrong.
    Of what :func:`torch.compile` gave, the product is that of f as it was before.

    Args:
        f: Function that returns a tensor y, or a tuple, list or dict of tensors.
        x: What f is called with: a real floating point tensor of any shape, or a dict or
            list of them; or a tuple of inputs, ``f(*x)``. What is something else in a
            tuple, such as class numbers or an option, is a constant. All stay as they are.
        v: Cotangent, in the structure and shapes of y; when left out, random weights.
        routes: The route to take, or some, by the names that the table shows.
        progress: Whether to show a bar (needs ``pullback[progress]``).

    Returns:
        A :class:`Check`, true unless a route finds the product wrong: a table, ``.ok``,
        ``.error``, ``.result``, ``.unjudged``.

    Raises:
        TypeError: f is no function, x or v is no real floating point tensor, f returns
            something else than such tensors, or routes or progress is of another type.
        ValueError: v does not have y's shapes, a route has another name, or x or y is on
            the meta device.
        RuntimeError: f changes x in place, or its result does not depend on x.
        ImportError: progress is asked for, and tqdm is not installed.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> report = pullback.check(torch.square, x, v=torch.tensor([1.0, 0.0, 2.0]))
        >>> report.ok, report.result
        (True, tensor([ 2.,  0., 12.]))

        A module, by its parameters and its input:

        >>> model = torch.nn.Linear(3, 2)
        >>> f = lambda p, x: torch.func.functional_call(model, p, x)
        >>> pullback.check(f, (dict(model.named_parameters()), x)).ok
        True

        A loss of several inputs, of which one is a constant:

        >>> logits, classes = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([2])
        >>> pullback.check(torch.nn.functional.cross_entropy, (logits, classes)).ok
        True
    """
    check_no_transform()
    check_progress(progress)
    routes = (routes,) if isinstance(routes, str) else routes
    if not isinstance(routes, Sequence) or not routes:
        raise TypeError(f"routes is {routes!r}; one or more names of {ROUTES} are needed")
    for name in routes:
        if name not in ROUTES:
            raise ValueError(f"routes has {name!r}; names of {ROUTES} are needed")
    inputs = x if isinstance(x, tuple) else (x,)
    moved = tuple(i for i, value in enumerate(inputs) if _can_move(value))
    function = CalledFunction(f, inputs, moved or tuple(range(len(inputs))) or 0)
    for name, t in zip(_names(function, x), function.xs, strict=True):
        check_real(name, t)
        check_numbers("inputs[0]" if t is x else name, t)
    with torch.enable_grad():
        return _Question(function, x, v).answer(routes, progress)


def assert_checked(
    f: Callable[..., Tensor],
    x: Any,
    v: Any = None,
    *,
    routes: str | Sequence[str] = ROUTES,
    progress: bool = False,
) -> None:
    """Raise AssertionError, with the table, if :func:`check` finds a product wrong.

    Args:
        f: As for :func:`check`, like the others.
        x: What f is called with.
        v: Cotangent; when left out, random weights.
        routes: The routes to take.
        progress: Whether to show a bar.

    Raises:
        AssertionError: a route finds the product wrong, and says where.
        TypeError, ValueError, RuntimeError, ImportError: as :func:`check`.

    Examples:
        >>> import torch, pullback
        >>> pullback.assert_checked(torch.sin, torch.tensor([1.0, 2.0]))
    """
    __tracebackhide__ = True  # pytest shows the line of the caller
    check(f, x, v, routes=routes, progress=progress).assert_ok()


class _Question:
    """A product and all that it is held against.

    Args:
        function: f and the tensors in its inputs.
        x: What the caller gave.
        v: What the caller gave; None for random weights.
    """

    def __init__(self, function: CalledFunction, x: Any, v: Any) -> None:
        self.function, self.x = function, x
        self.xs = [t.detach() for t in function.xs]
        self.names = _names(function, x)
        leaves = self._leaves(self.xs)
        self._structure: pytree.TreeSpec | None = None  # of what f returns
        self._like: list[Tensor] = []
        y = self.f(*leaves)
        self.y, given = y.detach(), self._weights(y, v)
        self.v = given.masked_fill(~self.y.isfinite(), 0)  # what is judged
        if not y.requires_grad:
            raise RuntimeError("f(x) does not depend on x; a function of x is needed")
        for leaf in leaves:
            leaf.grad = None  # where f calls backward itself
        y.backward(given, retain_graph=True, inputs=leaves)  # nothing of what f captures
        self.result = [
            torch.zeros_like(t) if leaf.grad is None else leaf.grad
            for t, leaf in zip(self.xs, leaves, strict=True)
        ]
        self.dtype = max(
            (t.dtype for t in (*self.xs, y)), key=lambda dtype: torch.finfo(dtype).eps
        )

    def f(self, *xs: Tensor) -> Tensor:
        """Return y for other xs; every call draws the same random numbers.

        Of several tensors it is one after the other, flat.
        """
        output = self.function(*xs)
        ys, structure = flatten(output)
        single = output is ys[0]
        for name, y in [("y = f(x)", output)] if single else _leaves_of("y", output):
            check_real(name, y)
            check_numbers("the output of f" if output is y else name, y)
        if self._structure is None:
            self._structure, self._like = structure, [y.detach() for y in ys]
        return ys[0] if len(ys) == 1 else torch.cat([y.reshape(-1) for y in ys])

    def answer(self, routes: Sequence[str], progress: bool) -> Check:
        """Take the routes."""
        result = self._like_x(self.result)
        if trouble := self._memory():
            return Check(result, (), trouble)
        with ExitStack() as stack:
            tick: Callable[[], object] = _nothing
            if progress:
                tick = stack.enter_context(progress_bar("check", "step")).update
            explicit = self._explicit(tick)
            self._judge(explicit)
            unjudged = self._unjudged()
            if unjudged and not any(where.any() for where in self.judged):
                return Check(result, (), f"{unjudged}; that agrees with nothing")
            self.wide = self._in_float64()
            self._measure_rounding()
            takes: dict[str, Callable[[], Route]] = {
                GRAD: lambda: self._compare(GRAD, self._grad(self.xs, self.v)),
                VJP: self._vjp,
                SUM: lambda: self._compare(SUM, self._sum()),
                EXPLICIT: lambda: self._compare(EXPLICIT, [total for total, _ in explicit]),
                DIFFERENCES: lambda: self._differences(tick),
                DOT_PRODUCT: self._dot_product,
            }
            found = tuple(takes[r]() for r in ROUTES if r in routes)
            return Check(result, found, unjudged=unjudged)

    # -- before the routes

    def _judge(self, explicit: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Set what is judged: the product where it is finite, of a y where that is."""
        finite = bool(self.y.isfinite().all())
        product = self.result if finite else self._grad(self.xs, self.v)
        self.judged = [
            p.isfinite() & size.isfinite().to(p.device)
            for p, (_, size) in zip(product, explicit, strict=True)
        ]
        self.product = self._only_judged(product)
        self.condition = self._only_judged([size for _, size in explicit])

    def _only_judged(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor for each input with zeros where nothing is judged."""
        pairs = zip(parts, self.judged, strict=True)
        return [p.detach().masked_fill(~where.to(p.device), 0) for p, where in pairs]

    def _unjudged(self) -> str | None:
        """Say what is NaN or infinite, in y and in ``backward(v)``."""
        said = [_beyond("y", [""], [self.y.isfinite()])]
        several = [f"{name} " for name in self.names] if len(self.names) > 1 else [""]
        said += [_beyond("backward(v)", several, self.judged)]
        return "; ".join(text for text in said if text) or None

    def _memory(self) -> str | None:
        """Say that a second call of f gives another y, if it does."""
        if self._same_y(self.f(*self._leaves(self.xs))):
            return None
        return (
            "y = f(x) disagrees with y of a second call with the same x and the same "
            "random numbers of torch: f is no function of x alone (a counter, random "
            "numbers of NumPy?), and no derivative can be compared"
        )

    def _same_y(self, y: Tensor) -> bool:
        """Tell whether y is what the first call gave, up to rounding."""
        if y.shape != self.y.shape:
            return False
        a, b = self.y.double(), y.detach().double()
        size = float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 0.0
        slack = float(torch.finfo(self.dtype).eps) ** 0.5 * size
        return torch.allclose(a, b, rtol=0, atol=slack, equal_nan=True)

    def _in_float64(self) -> _Wide | None:
        """Return f and its product in float64, if f can follow."""
        mode = InFloat64()

        def f(*xs: Tensor) -> Tensor:
            with mode:
                return self.f(*self._leaves(xs))

        def pull(*xs: Tensor) -> list[Tensor]:
            with mode:
                return self._grad(xs, self.v.double())

        xs = [t.double() for t in self.xs]
        try:
            y = f(*xs)
            self._computes_in(mode.coarsest)  # that of what f captures, too
            if y.dtype != torch.float64 or not self._same_y(y):
                return None
            return _Wide(f, pull, xs, pull(*xs))
        except REFUSED:  # by a recurrent layer, for one
            with suppress(*REFUSED), SeesDtypes() as seen:
                self.f(*self._leaves(self.xs))
            self._computes_in(seen.coarsest)
            return None

    def _computes_in(self, dtype: torch.dtype) -> None:
        self.dtype = max(self.dtype, dtype, key=lambda d: torch.finfo(d).eps)

    def _measure_rounding(self) -> None:
        """Set what is rounded away in the product of each input."""
        eps = torch.finfo(self.dtype).eps
        terms = (self.v.double() * self.y.double()).abs().nan_to_num(0, 0)
        largest = float(terms.max()) if terms.numel() else 0.0
        self.rounding, self.agreed, self._rounded_at_random = [], True, False
        for i, (x, r, c) in enumerate(
            zip(self.xs, self.product, self.condition, strict=True)
        ):
            size = float(x.double().abs().max()) if x.numel() else 1.0
            noise = 64 * eps * largest / (size or 1.0)
            if self.wide and r.numel():
                wide = self._only_judged(self.wide.product)[i]
                gap = float((wide - r.double()).abs().max())
                tolerance = TOLERANCES.get(self.dtype, 5e-2)
                self.agreed &= gap <= 10 * tolerance * float(c.max()) + noise
                noise += 4 * gap
            self.rounding.append(noise)

    # -- the routes

    def _grad(self, xs: Sequence[Tensor], v: Tensor) -> list[Tensor]:
        leaves = self._leaves(xs)
        with torch.enable_grad():
            y = self.f(*leaves)
        return list(
            torch.autograd.grad(y, leaves, v, retain_graph=True, materialize_grads=True)
        )

    def _vjp(self) -> Route:
        try:
            y, pull = torch.func.vjp(self.f, *self.xs)[:2]
            product = pull(self.v)
        except RuntimeError:  # f ran before; what torch.func cannot do is all that is left
            return self._unsupported(VJP)
        return self._compare(VJP, product, y)

    def _sum(self) -> list[Tensor]:
        leaves = self._leaves(self.xs)
        y = self.f(*leaves)
        for leaf in leaves:
            leaf.grad = None
        (y * self.v).sum().backward(retain_graph=True, inputs=leaves)
        return [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]

    def _explicit(self, tick: Callable[[], object]) -> list[tuple[Tensor, Tensor]]:
        """Return v^T J, the sum of v_i times row i in NumPy, and the sum of magnitudes.

        Of more than :data:`PARTS` rows, as many groups stand for one row each.
        """
        leaves = self._leaves(self.xs)
        y = self.f(*leaves)
        flat = self.v.flatten()
        single = flat.numel() <= PARTS
        parts = torch.arange(flat.numel(), device=flat.device).tensor_split(
            max(1, min(PARTS, flat.numel()))
        )
        totals = [(np.zeros(t.shape), np.zeros(t.shape)) for t in self.xs]
        for part in parts:
            seed = torch.zeros_like(flat)
            seed[part] = 1 if single else flat[part]
            if not flat[part].any():  # of a y that is NaN, too
                continue
            rows = torch.autograd.grad(
                y, leaves, seed.view(y.shape), retain_graph=True, materialize_grads=True
            )
            weight = _array(flat[part]).sum() if single else 1.0
            for i, row in enumerate(rows):
                term = weight * _array(row)
                totals[i] = (totals[i][0] + term, totals[i][1] + abs(term))
            tick()
        # not as_tensor, which takes the caller's default device
        return [
            (torch.from_numpy(np.asarray(a)), torch.from_numpy(np.asarray(b)))
            for a, b in totals
        ]

    def _differences(self, tick: Callable[[], object]) -> Route:
        with torch.enable_grad():
            y = self.f(*self._leaves(self.xs))
        if leads_to([y], DRAWN):
            tolerance = Settings.of(self.dtype).tolerance
            return Route(DIFFERENCES, 0.0, tolerance, OF_ITS_DISTRIBUTION)
        with torch.no_grad():
            tested = self._tested(tick)
            pairs = []
            for u in tested.directions():
                pairs.append((u, tested.along(u)))
                if pairs[-1][1].wrong and not tested.one_by_one:
                    break
            route = self._of_slopes(tested, pairs, tested.settings.tolerance)
            infinite = self._finite_after_all(tested)
            return infinite if route.ok and infinite is not None else route

    def _finite_after_all(self, tested: Differences) -> Route | None:
        """Return the route where f has a slope, and the product is NaN or infinite."""
        if not self.y.isfinite().all():
            return None
        for u in tested.coordinates([~where for where in self.judged])[:COORDINATES]:
            slope = tested.settled(u)
            if slope is not None:
                ((i, at),) = places(u)
                got = float(self.result[i][at])
                entry = Entry(self.names[i], at, slope / float(u[i][at]), got)
                tolerance = tested.settings.tolerance
                return Route(DIFFERENCES, float("inf"), tolerance, entry=entry)
        return None

    def _tested(self, tick: Callable[[], object]) -> Differences:
        """Return differences of f, in float64 where f and its product can follow."""
        if self.wide and self.agreed:
            f, pull, xs, product = self.wide
            settings = Settings.of(torch.float64)
        else:
            f, xs, product = self.f, self.xs, self.product
            settings = Settings.of(self.dtype)

            def pull(*xs: Tensor) -> list[Tensor]:
                return self._grad(xs, self.v)

        condition = [c.to(x.device) for c, x in zip(self.condition, xs, strict=True)]
        return Differences(
            lambda *xs: _quiet(f, xs),
            pull,
            xs,
            self.v,
            self._only_judged(product),
            condition,
            self.judged,
            settings,
            tick,
        )

    def _of_slopes(
        self, tested: Differences, pairs: list[tuple[Direction, Slope]], tolerance: float
    ) -> Route:
        """Return the route of finite differences, with the entry that is wrong."""
        largest = max((s.scale for _, s in pairs), default=0.0)
        wrong = [pair for pair in pairs if pair[1].wrong]
        if wrong:
            u, slope = max(wrong, key=lambda pair: abs(pair[1].claimed - pair[1].measured))
            gap = abs(slope.claimed - slope.measured)
            u, slope = tested.narrow(u, slope)
            size = largest if largest > tolerance * gap else gap
            moved = places(u)
            i, index = moved[0]
            unit = float(u[i][index])
            entry = Entry(
                self.names[i],
                index,
                slope.measured / unit,
                slope.claimed / unit,
                len(moved) - 1,
            )
            difference = max(gap / size, 2 * tolerance)
            return Route(DIFFERENCES, difference, tolerance, entry=entry)
        why = next((s.undecided for _, s in pairs if s.undecided), None)
        counted = [abs(s.claimed - s.measured) for _, s in pairs if not s.undecided]
        difference = max(counted, default=0.0) / (largest or 1.0)
        if why:
            count = sum(s.undecided is not None for _, s in pairs)
            why = f"{why}, not decided ({count} of {len(pairs)} directions)"
        return Route(DIFFERENCES, min(difference, tolerance), tolerance, why)

    def _dot_product(self) -> Route:
        (direction,) = random_directions(self.xs, 1)
        us = self._only_judged([u.to(x) for u, x in zip(direction, self.xs, strict=True)])
        try:
            y, Ju = jvp(self.f, [x.contiguous() for x in self.xs], us)
        except RuntimeError:  # NotImplementedError is one, too
            return self._unsupported(DOT_PRODUCT)
        Ju = Ju.masked_fill(self.v == 0, 0)
        if not Ju.isfinite().all():
            return Route(DOT_PRODUCT, 0.0, TOLERANCES.get(self.dtype, 5e-2), NO_JVP)
        left = _array(self.v) * _array(Ju)
        right = [_array(r) * _array(u) for r, u in zip(self.product, us, strict=True)]
        gap = abs(float(left.sum()) - sum(float(part.sum()) for part in right))
        triples = zip(self.condition, self.rounding, us, strict=True)
        terms = [(abs(_array(u)) * (c.numpy() + noise)).sum() for c, noise, u in triples]
        rounding = 4 * sum(
            noise * float(u.double().norm())
            for noise, u in zip(self.rounding, us, strict=True)
        )
        scale = max(float(abs(left).sum()), *map(float, terms)) or 1.0
        # formulas of forward mode round otherwise: cholesky_inverse loses ten digits of 16
        loose = max(1e-5, TOLERANCES.get(self.dtype, 5e-2))
        tolerance = loose + rounding / scale
        route = Route(DOT_PRODUCT, gap / scale, tolerance)
        if not self._same_y(y):
            return route._replace(undecided=OTHER_VALUES)
        if not route.ok and self._jvp_is_wrong(us, float(left.sum())):
            return route._replace(undecided=WRONG_JVP)
        return route

    def _jvp_is_wrong(self, direction: Direction, said: float) -> bool:
        """Tell whether differences along u agree with the product, and not with the JVP."""
        with torch.no_grad():
            slope = self._tested(_nothing).along([u.double() for u in direction])
        if slope.wrong or slope.undecided:
            return False
        return abs(slope.measured - said) > abs(slope.measured - slope.claimed)

    def _compare(
        self, name: str, product: Sequence[Tensor], y: Tensor | None = None
    ) -> Route:
        """Compare a product with ``backward(v)``, entry by entry."""
        route = self._compared(name, product, y)
        if not route.ok and self._add_rounding_at_random():
            route = self._compared(name, product, y)
        return route

    def _add_rounding_at_random(self) -> bool:
        """Allow for what rounding within f does to the product; tell if it is news."""
        if self._rounded_at_random:
            return False
        self._rounded_at_random = True
        for seed in range(TRIALS):
            try:
                with RoundedAtRandom(None, seed):
                    product = self._only_judged(self._grad(self.xs, self.v))
            except REFUSED:
                return False
            for i, (p, q) in enumerate(zip(product, self.product, strict=True)):
                gap = (p - q).abs().double().nan_to_num(0, 0)
                noise = 4 * float(gap.max()) if gap.numel() else 0.0
                self.rounding[i] = max(self.rounding[i], noise)
        return True

    def _compared(
        self, name: str, product: Sequence[Tensor], y: Tensor | None = None
    ) -> Route:
        tolerance = TOLERANCES.get(self.dtype, 5e-2)
        worst = Route(name, 0.0, tolerance)
        others = self._only_judged(product)
        for i, (got, other) in enumerate(zip(self.product, others, strict=True)):
            if not got.numel():
                continue
            a, b = got.double().cpu(), other.double().cpu()
            gap = (a - b).abs()
            gap[gap.isnan()] = float("inf")
            scale = float(self.condition[i].max()) or float(gap.max()) or 1.0
            allowed = tolerance + self.rounding[i] / scale
            difference = float(gap.max()) / scale
            if difference / allowed > (worst.difference or 0.0) / worst.tolerance:
                at = tuple(int(k) for k in torch.unravel_index(gap.argmax(), gap.shape))
                entry = Entry(self.names[i], at, float(b[at]), float(a[at]))
                worst = Route(name, difference, allowed, entry=entry)
        if worst.ok:
            worst = worst._replace(entry=None)
        if y is not None and not self._same_y(y):
            return worst._replace(undecided=OTHER_VALUES, entry=None)
        return worst

    def _unsupported(self, name: str) -> Route:
        return Route(name, None, TOLERANCES.get(self.dtype, 5e-2))

    def _leaves(self, xs: Sequence[Tensor]) -> list[Tensor]:
        return [leaf_of(t.detach().clone()) for t in xs]

    def _weights(self, y: Tensor, v: Any) -> Tensor:
        """Return v for y: the caller's, or numbers of 0.5 to 1.5 of either sign."""
        if v is None:
            source = torch.Generator("cpu").manual_seed(SEED)
            parts = torch.rand(
                2, *y.shape, generator=source, dtype=torch.float64, device="cpu"
            )
            return ((parts[0] + 0.5) * (2 * parts[1].round() - 1)).to(y)
        given, structure = flatten(v)
        alone = len(self._like) == 1
        fits = structure == self._structure or (alone and isinstance(v, Tensor))
        if not fits or not all(isinstance(t, Tensor) for t in given):
            wanted = "a tensor of y's shape" if len(self._like) == 1 else "y's structure"
            raise TypeError(f"v is {kind_of(v)}; {wanted} is needed")
        for t, like in zip(given, self._like, strict=True):
            check_real("v", t)
            check_readable("v", t)
            if t.shape != like.shape:
                raise ValueError(
                    f"v has shape {tuple(t.shape)} and y = f(x) has shape "
                    f"{tuple(like.shape)}; exactly y's shape is needed"
                )
        pieces: list[Tensor] = [t.detach().to(y) for t in given]
        return pieces[0] if alone else torch.cat([t.reshape(-1) for t in pieces])

    def _like_x(self, leaves: Sequence[Tensor]) -> Any:
        parts = self.function.like_inputs(leaves)
        if not isinstance(self.x, tuple):
            return parts[0]
        by_index = dict(zip(self.function.indices, parts, strict=True))
        return tuple(by_index.get(i) for i in range(len(self.x)))


class _Wide(NamedTuple):
    """F in float64, its product, the inputs, and the product there."""

    f: Callable[..., Tensor]
    pull: Callable[..., list[Tensor]]
    xs: list[Tensor]
    product: list[Tensor]


def _quiet(f: Callable[..., Tensor], xs: Sequence[Tensor]) -> Tensor:
    with torch.enable_grad():  # f may ask for derivatives itself
        return f(*[leaf_of(x) for x in xs]).detach()


def _can_move(value: Any) -> bool:
    """Tell whether an input holds tensors that have derivatives."""
    return any(
        isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())
        for t in pytree.tree_leaves(value)
    )


def _names(function: CalledFunction, x: Any) -> list[str]:
    """Return what errors call each of the tensors that move."""
    if isinstance(x, Tensor):
        return ["x"]
    inputs = function.inputs
    return [
        name for i in function.indices for name, _ in _leaves_of(f"inputs[{i}]", inputs[i])
    ]


def _leaves_of(name: str, value: Any) -> list[tuple[str, Any]]:
    leaves = pytree.tree_leaves_with_path(value)
    return [(f"{name}{pytree.keystr(path)}", leaf) for path, leaf in leaves]


def _nothing() -> None:
    """Stand in for a bar."""


def _beyond(what: str, names: Sequence[str], finite: Sequence[Tensor]) -> str | None:
    """Say in how many numbers something is not finite, and where first."""
    count = sum(int((~where).sum()) for where in finite)
    if not count:
        return None
    pairs = zip(names, finite, strict=True)
    name, where = next((n, w) for n, w in pairs if not w.all())
    return (
        f"{what} is NaN or infinite in {count} of {sum(w.numel() for w in finite)} "
        f"numbers, first at {name}{(~where).nonzero()[0].tolist()}"
    )


def _array(t: Tensor) -> Any:
    # A copy has memory: zeros of forward mode have none, and 2.6 gives others for them.
    return t.detach().double().clone().numpy(force=True)


def _power_of_ten(value: float | None) -> str:
    if value is None:
        return "not supported by f"
    return "0" if value == 0 else f"{value:.0e}"


def _verdict(route: Route) -> str:
    if route.difference is None:
        return "-"
    return route.undecided or ("yes" if route.ok else "NO")
