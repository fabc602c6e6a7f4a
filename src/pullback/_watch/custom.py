"""Whether the backward of a custom Function is its forward's: on the inputs that it saw."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._differences import Differences, Settings
from pullback._watch.custom_lines import line_of, turned
from pullback._watch.findings import Finding, Findings, Note, Site
from pullback._watch.functions import (
    Arguments,
    Calls,
    backward_of,
    parameters_of,
    returned_at,
)

RULE = "custom-backward"
PAGE = "gradcheck-jacobian-mismatch"
IGNORES = "backward-that-ignores-v"
ENTRIES = 96  # of an input that are moved one by one, and drawn where there are more
CLOSE = 1e-4  # of the largest number of a gradient
IDENTITY = "its forward changes no number, so that its backward is another on purpose"
HIDDEN = "rounding in its forward, or a kink, hides its slope"
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

    def agrees_with(self, whole: Tensor) -> bool:
        """Tell whether another whole gradient agrees with differences."""
        return _close(whole.flatten()[self.at], self.measured)


def compare(findings: Findings, seen: dict[Any, Calls]) -> None:
    """Compare the backward of each Function with differences, and say what was found."""
    for kind, calls in seen.items():
        why, compared = "", False
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for arguments in calls.kept:
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


def told_of_v(findings: Findings, kind: Any) -> bool:
    """Tell whether it is known that the backward of a Function does without v."""
    site = returned_at(kind)
    return any(f.page == IGNORES and f.site == site for f in findings)


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

    def flat(self, *xs: Tensor) -> Tensor:
        """Return the numbers of the outputs in a row."""
        with torch.no_grad():
            return torch.cat([y.double().flatten() for y in self.outputs(xs)])

    def backward(
        self, kind: Any = None, xs: Sequence[Tensor] | None = None
    ) -> list[Tensor]:
        """Return what backward gives for each input, or that of another Function."""
        xs = [x.clone().requires_grad_() for x in (self.xs if xs is None else xs)]
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

    def ignores_v(self, once: Sequence[Tensor]) -> bool:
        """Tell whether backward gives the same for twice the v, and not zeros."""
        self.v = [2 * v for v in self.v]
        twice = self.backward()
        self.v = [v / 2 for v in self.v]
        moved = any(bool(g.nan_to_num().any()) for g in once)
        return moved and all(map(_close, twice, once))

    def gradients(self) -> list[Gradient]:
        """Return each gradient beside what differences give."""
        wholes = self.backward()
        differences = self._differences(wholes)
        chosen = [_chosen(x) for x in self.xs]
        slopes: list[list[float]] = [[] for _ in self.xs]
        for u in differences.coordinates(chosen):
            (k,) = [k for k, moved in enumerate(u) if moved.any()]
            slope = differences.along(u)
            known = slope.undecided is None
            slopes[k].append(slope.measured / float(u[k].sum()) if known else math.nan)
        found = []
        for k, (i, whole) in enumerate(zip(self.moved, wholes, strict=True)):
            at = chosen[k].flatten().nonzero().flatten()
            measured = torch.tensor(slopes[k], dtype=torch.float64)
            given = whole.flatten()[at]
            shape = tuple(whole.shape)
            found.append(Gradient(self.names[i], at, shape, given, measured, whole))
        return found

    def _differences(self, wholes: Sequence[Tensor]) -> Differences:
        """Return the differences that the backward is held against."""
        y, v = self.flat(*self.xs), torch.cat([v.flatten() for v in self.v])
        largest = max((float(g.abs().max()) for g in wholes if g.numel()), default=0.0)
        return Differences(
            self.flat,
            lambda *xs: self.backward(xs=xs),
            self.xs,
            v.where(y.isfinite(), 0),
            wholes,
            [torch.full_like(g, largest) for g in wholes],
            [torch.ones_like(x, dtype=torch.bool) for x in self.xs],
            self.settings,
            lambda: None,
        )


def _chosen(x: Tensor) -> Tensor:
    """Return which entries of an input are moved."""
    chosen = torch.ones(x.numel(), dtype=torch.bool)
    if x.numel() > ENTRIES:
        draw = torch.Generator().manual_seed(0)
        chosen[torch.randperm(x.numel(), generator=draw)[ENTRIES:]] = False
    return chosen.view(x.shape)


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
    y, again = question.flat(*question.xs), question.flat(*question.xs)
    if not torch.equal(y.nan_to_num(), again.nan_to_num()):
        return "its forward gives other numbers each time"
    outputs = question.outputs(question.xs)
    if len(outputs) == len(question.xs) == 1 and torch.equal(outputs[0], question.xs[0]):
        return IDENTITY
    gradients = question.gradients()
    if not any(g.measured.isfinite().any() for g in gradients):
        return HIDDEN
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
    if question.ignores_v([g.whole for g in gradients]):
        return Finding(
            rule=RULE,
            site=returned_at(kind) or site_of(kind),
            message=f"backward of {kind.__name__} gives the same for twice the v: it does "
            "not use what arrives at it.",
            fix="Return what arrives (grad_output) times the derivative.",
            page=IGNORES,
        )
    names = ", ".join(g.name for g in wrong)
    at = question.names.index(wrong[0].name)
    place = line_of(kind, at) or returned_at(kind) or site_of(kind)
    says, fix = _what(gradients, wrong)

    def right(wholes: Sequence[Tensor]) -> bool:
        pairs = zip(wholes, gradients, strict=True)
        return all(g.agrees_with(whole) for whole, g in pairs)

    by_turning = turned(kind, question.backward, right) if not fix else None
    if by_turning is not None:
        place, says, fix = by_turning
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
    place = ", ".join(str(int(i)) for i in torch.unravel_index(g.at[at], g.shape))
    return (
        f"{g.name}.grad[{place}] is {float(g.given[at]):.4g}, by differences "
        f"{float(g.measured[at]):.4g}, on the numbers that it was called with"
    )


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
    if square and g.agrees_with(g.whole.mT):
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
