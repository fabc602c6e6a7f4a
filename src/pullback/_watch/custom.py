"""Whether the backward of a custom Function is its forward's: on the inputs that it saw."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pullback._differences import Settings
from pullback._watch.findings import Finding, Findings, Note, Site
from pullback._watch.frames import own_frame
from pullback._watch.functions import Arguments, backward_of, parameters_of, returned_at

RULE = "custom-backward"
PAGE = "gradcheck-jacobian-mismatch"
ENTRIES = 96  # of an input that are moved one by one, and drawn where there are more
TRIED = 48  # calls in a backward in which a matrix is turned, or a sign, to try it
CLOSE = 1e-4  # of the largest number of a gradient
IDENTITY = "its forward changes no number, so that its backward is another on purpose"
GETTER = "__get__"  # the call that gives x.mT, whose matrix is turned already
STEPS = "its forward is flat at these inputs, so that differences are zeros"


class Gradient(NamedTuple):
    """The gradient of one input, as backward has it and as differences do.

    Attributes:
        name: What forward calls the input.
        at: Which entries were moved, as numbers of the flattened input.
        shape: The shape of the input.
        given: What backward gives there.
        measured: What differences give there.
        whole: The whole gradient that backward gives.
    """

    name: str
    at: Tensor
    shape: tuple[int, ...]
    given: Tensor
    measured: Tensor
    whole: Tensor

    @property
    def right(self) -> bool:
        """Whether both agree."""
        return _close(self.given, self.measured)


def compare(findings: Findings, seen: dict[Any, list[Arguments]]) -> None:
    """Compare the backward of each Function with differences, and say what was found."""
    for kind, samples in seen.items():
        why, compared = "", False
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for arguments in samples:
                try:
                    found = _compared(kind, arguments)
                except Exception as error:  # of forward or backward on these numbers
                    why = f"{type(error).__name__}: {textwrap.shorten(str(error), 80)}"
                    continue
                compared = compared or not isinstance(found, str) or not found
                if isinstance(found, Finding):
                    findings.add(found)
                    break
                why = why or found
        if not compared:
            findings.not_compared(kind.__name__, site_of(kind), why)


def site_of(kind: Any) -> Site | None:
    """Return the line on which a backward begins."""
    code = backward_of(kind)
    return Site(code.co_filename, code.co_firstlineno) if code is not None else None


# --- the comparison -------------------------------------------------------------------


class Question:
    """A Function at the numbers that it was called with, in float64.

    Attributes:
        kind: The Function.
        arguments: What it was called with; tensors are copies.
        moved: Which of them have a gradient.
        v: What arrives at its backward, one tensor for each output.
    """

    def __init__(self, kind: Any, arguments: Arguments) -> None:
        self.kind, self.arguments = kind, arguments
        self.moved = [
            i
            for i, (value, trains) in enumerate(arguments)
            if trains and value.is_floating_point()
        ]
        self.names = parameters_of(kind, len(arguments))
        self.xs = [arguments[i][0].double() for i in self.moved]
        outputs = self.outputs(self.xs)
        draw = torch.Generator().manual_seed(0)  # the numbers are of no matter
        self.v = [
            torch.randn(y.shape, generator=draw, dtype=torch.float64) for y in outputs
        ]
        coarsest = max((y.dtype for y in outputs), key=lambda d: torch.finfo(d).eps)
        self.settings = Settings.of(coarsest)

    def outputs(self, xs: Sequence[Tensor], kind: Any = None) -> list[Tensor]:
        """Call the Function with other numbers, and return what has a gradient."""
        values = [v.clone() if isinstance(v, Tensor) else v for v, _ in self.arguments]
        values = [_in_float64(v) for v in values]
        for i, x in zip(self.moved, xs, strict=True):
            values[i] = x.clone() if not x.requires_grad else x * 1
        out = (kind or self.kind).apply(*values)
        given = out if isinstance(out, tuple) else (out,)
        return [y for y in given if isinstance(y, Tensor) and y.is_floating_point()]

    def total(self, xs: Sequence[Tensor]) -> float:
        """Return the product of the outputs with v."""
        with torch.no_grad():
            pairs = zip(self.outputs(xs), self.v, strict=True)
            return sum(float((y.double() * v).sum()) for y, v in pairs)

    def backward(self, kind: Any = None) -> list[Tensor]:
        """Return what backward gives for each input, or that of another Function."""
        xs = [x.clone().requires_grad_() for x in self.xs]
        outputs = self.outputs(xs, kind)
        pairs = [(y, v) for y, v in zip(outputs, self.v, strict=True) if y.requires_grad]
        found = torch.autograd.grad(
            [y for y, _ in pairs],
            xs,
            [v.to(y.dtype) for y, v in pairs],
            allow_unused=True,
            materialize_grads=True,
        )
        return [g.double() for g in found]

    def gradients(self, wholes: Sequence[Tensor]) -> list[Gradient]:
        """Return each gradient beside what differences give."""
        found = []
        for k, (i, x) in enumerate(zip(self.moved, self.xs, strict=True)):
            at = torch.arange(x.numel())
            if x.numel() > ENTRIES:
                draw = torch.Generator().manual_seed(0)
                at = torch.randperm(x.numel(), generator=draw)[:ENTRIES].sort().values
            measured = torch.tensor([self._slope(k, int(j)) for j in at]).double()
            whole = wholes[k]
            given = whole.flatten()[at]
            found.append(
                Gradient(self.names[i], at, tuple(x.shape), given, measured, whole)
            )
        return found

    def _slope(self, k: int, j: int) -> float:
        """Return the slope along one entry, or NaN where two steps do not agree: a kink."""
        x = self.xs[k]
        size = max(1.0, abs(float(x.flatten()[j])))
        slopes = []
        for step in (self.settings.steps[0] * size, self.settings.steps[0] * size / 4):
            ends = []
            for sign in (1, -1):
                moved = x.clone()
                moved.view(-1)[j] += sign * step
                xs = [*self.xs]
                xs[k] = moved
                ends.append(self.total(xs))
            slopes.append((ends[0] - ends[1]) / (2 * step))
        first, second = slopes
        agree = math.isclose(first, second, rel_tol=1e-3, abs_tol=1e-3 * (1 + abs(first)))
        return second if agree else math.nan


def _in_float64(value: Any) -> Any:
    floats = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floats else value


def _close(a: Tensor, b: Tensor) -> bool:
    known = b.isfinite()
    a, b = a[known], b[known]
    if not b.numel():
        return True
    size = max(float(b.abs().max()), float(a.abs().max()), 1e-6)
    return bool(((a - b).abs() <= CLOSE * size).all())


def _compared(kind: Any, arguments: Arguments) -> Finding | str:
    """Return what is wrong, or why nothing can be said; nothing where all is right."""
    question = Question(kind, arguments)
    if not question.moved:
        return "no input of it required a gradient"
    if question.total(question.xs) != question.total(question.xs):
        return "its forward gives other numbers each time"
    outputs = question.outputs(question.xs)
    if len(outputs) == len(question.xs) == 1 and torch.equal(outputs[0], question.xs[0]):
        return IDENTITY
    gradients = question.gradients(question.backward())
    wrong = [g for g in gradients if not g.right]
    if not wrong:
        return ""
    if not any(g.measured.nan_to_num().any() for g in gradients):
        return STEPS
    return _finding(question, gradients, wrong)


# --- what is wrong --------------------------------------------------------------------


def _finding(
    question: Question, gradients: Sequence[Gradient], wrong: Sequence[Gradient]
) -> Finding:
    kind = question.kind
    names = ", ".join(g.name for g in wrong)
    place = _line_of(kind, question, wrong[0]) or returned_at(kind) or site_of(kind)
    says, fix = _what(gradients, wrong)
    turned = _turned(question, gradients) if not fix else None
    if turned is not None:
        place, says, fix = turned
    numbers = _example(wrong[0])
    return Finding(
        rule=RULE,
        site=place,
        message=f"backward of {kind.__name__} gives a wrong gradient for {names}: {says}.",
        fix=fix
        or "Derive this gradient again, and compare it with torch.autograd.gradcheck.",
        page=PAGE,
        notes=(Note("compared", None, numbers),),
    )


def _example(g: Gradient) -> str:
    gap = (g.given - g.measured).abs().nan_to_num()
    at = int(gap.argmax())
    place = ", ".join(map(str, _unravel(int(g.at[at]), g.shape)))
    return (
        f"{g.name}.grad[{place}] is {float(g.given[at]):.4g}, by differences "
        f"{float(g.measured[at]):.4g}, on the numbers that it was called with"
    )


def _unravel(at: int, shape: Sequence[int]) -> list[int]:
    found: list[int] = []
    for size in reversed(shape):
        found.insert(0, at % size)
        at //= size
    return found


def _what(gradients: Sequence[Gradient], wrong: Sequence[Gradient]) -> tuple[str, str]:
    """Return what is wrong with all that are, and what to do, where that can be told."""
    first, *others = [_fault(g) for g in wrong]
    if any(other != first for other in others):
        return "differences give other numbers", ""
    return first


def _fault(g: Gradient) -> tuple[str, str]:
    known = g.measured.isfinite()
    given, measured = g.given[known], g.measured[known]
    factor = _factor(given, measured)
    if factor is not None:
        if _near(factor, -1):
            return "it has the other sign", "Turn the sign of what is returned for it."
        if _near(factor, 0):
            return "it is zero", "Return a gradient for it in place of zeros or None."
        return (
            f"it is {factor:.4g} times the derivative",
            f"Divide what is returned for it by {factor:.4g}.",
        )
    size = CLOSE * float(measured.abs().max())
    zero, nothing = measured.abs() <= size, given.abs() <= size
    if bool((zero & ~nothing).any()) and _close(given[~zero], measured[~zero]):
        number = int((zero & ~nothing).sum())
        return (
            f"{number} of {len(given)} entries on which the output does not depend get a "
            "gradient",
            "Multiply by the mask of forward, grad * mask, which is 0 for these entries.",
        )
    if bool((nothing & ~zero).any()) and _close(given[~nothing], measured[~nothing]):
        number = int((nothing & ~zero).sum())
        return (
            f"{number} of {len(given)} entries on which the output depends get none",
            "Leave the mask out for these entries, or take the one of forward.",
        )
    square = len(g.shape) >= 2 and g.shape[-1] == g.shape[-2]
    if square and _close(g.whole.mT.flatten()[g.at], g.measured):
        return "it is transposed", "Return its transpose, grad.mT."
    return "differences give other numbers", ""


def _factor(given: Tensor, measured: Tensor) -> float | None:
    """Return by what all entries are off, if it is one factor."""
    norm = float(measured.square().sum())
    if norm == 0:
        return None
    factor = float((given * measured).sum()) / norm
    return factor if _close(given, factor * measured) else None


def _near(a: float, b: float) -> bool:
    return abs(a - b) < CLOSE


# --- which line -----------------------------------------------------------------------


class Turned(TorchFunctionMode):
    """Turns one matrix, or the sign of one result, in one call of a backward.

    Attributes:
        calls: The calls in the backward so far: the line, the function, and which of its
            arguments are square matrices.
    """

    def __init__(self, code: CodeType, at: int, argument: int | None) -> None:
        super().__init__()
        self._code, self._at, self._argument = code, at, argument
        self.calls: list[tuple[Site, str, list[int]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a call, with one thing turned if it is the one."""
        frame = own_frame()
        if frame is None or frame.f_code is not self._code:
            return func(*args, **(kwargs or {}))
        number = len(self.calls)
        site = Site(frame.f_code.co_filename, frame.f_lineno)
        square = [i for i, t in enumerate(args) if _is_square(t)]
        self.calls.append((site, getattr(func, "__name__", str(func)), square))
        if number != self._at:
            return func(*args, **(kwargs or {}))
        if self._argument is None:
            out = func(*args, **(kwargs or {}))
            return -out if isinstance(out, Tensor) and out.is_floating_point() else out
        turned = [t.mT if i == self._argument else t for i, t in enumerate(args)]
        return func(*turned, **(kwargs or {}))


def _inside(kind: Any, mode: Turned) -> Any:
    """Return a Function whose backward runs inside a mode, which the engine leaves out."""

    def backward(*given: Any) -> Any:
        with mode:
            return kind.backward(*given)

    return type(kind.__name__, (kind,), {"backward": staticmethod(backward)})


def _is_square(t: Any) -> bool:
    matrix = isinstance(t, Tensor) and t.ndim >= 2 and t.is_floating_point()
    return matrix and t.shape[-1] == t.shape[-2] > 1


def _turned(
    question: Question, gradients: Sequence[Gradient]
) -> tuple[Site, str, str] | None:
    """Return the call that is right when one matrix in it is transposed, or its sign."""
    code = backward_of(question.kind)
    if code is None:
        return None

    def tried(
        at: int, argument: int | None
    ) -> tuple[bool, list[tuple[Site, str, list[int]]]]:
        mode = Turned(code, at, argument)
        wholes = question.backward(_inside(question.kind, mode))
        pairs = zip(wholes, gradients, strict=True)
        right = all(_close(w.flatten()[g.at], g.measured) for w, g in pairs)
        return right, mode.calls

    _, calls = tried(-1, None)
    ways: Iterator[tuple[int, int | None]] = (
        *((n, i) for n, (_, f, square) in enumerate(calls) for i in square if f != GETTER),
        *((n, None) for n in range(len(calls))),
    ).__iter__()
    for _, (number, argument) in zip(range(TRIED), ways, strict=False):
        try:
            right, _ = tried(number, argument)
        except Exception:  # the turned matrix does not fit
            continue
        if right:
            site, name, _ = calls[number]
            if argument is None:
                says = f"the result of {name} has the other sign"
                return site, says, "Turn the sign on this line."
            matrix = _written(code, site, name, argument)
            says = f"it is right with the transpose of {matrix} in {name}"
            turned = re.sub(r"\.m?T$", "", matrix)
            if turned == matrix:
                turned = f"{matrix}.mT" if matrix.isidentifier() else f"({matrix}).mT"
            return site, says, f"Write {turned} for {matrix} on this line."
    return None


def _written(code: CodeType, site: Site, name: str, argument: int) -> str:
    """Return the source of an argument of a call, or which one it is."""
    tree = _source_of(code)
    for node in ast.walk(tree) if tree is not None else ():
        if getattr(node, "lineno", 0) + code.co_firstlineno - 1 != site.line:
            continue
        given: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            given = [node.left, node.right] if "matmul" in name else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_torch = ast.unparse(node.func).startswith("torch.")
            of_name = name.endswith(node.func.attr)  # solve is linalg_solve
            given = [] if of_torch else [node.func.value]
            given = [*given, *node.args] if of_name else []
        if argument < len(given):
            return ast.unparse(given[argument])
    return f"argument {argument + 1}"


def _line_of(kind: Any, question: Question, g: Gradient) -> Site | None:
    """Return the line of a backward that computes the gradient of an input, if it is told.

    That is where the name was assigned last that stands in its place in ``return``.
    """
    code = backward_of(kind)
    tree = _source_of(code) if code is not None else None
    if tree is None or code is None:
        return None
    returns = [
        n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None
    ]
    at = question.names.index(g.name)
    for node in reversed(returns):
        value = node.value
        if isinstance(value, ast.Tuple):
            value = value.elts[at] if at < len(value.elts) else None
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            continue
        line = value.lineno
        if isinstance(value, ast.Name):
            lines = [
                n.lineno
                for n in ast.walk(tree)
                if isinstance(n, ast.Name)
                and n.id == value.id
                and isinstance(n.ctx, ast.Store)
                and n.lineno < line
            ]
            line = max(lines, default=line)
        return Site(code.co_filename, code.co_firstlineno + line - 1)
    return None


@functools.lru_cache(maxsize=256)
def _source_of(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):
        return None
