"""The odd input that :mod:`odd_answers` tries: functions, inputs, Jacobians by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

nan, inf = math.nan, math.inf


class Case(NamedTuple):
    """One kind of odd input.

    Attributes:
        name: What is odd, in HTML.
        f: The function.
        x: Makes the input.
        J: Computes the Jacobian, with a row for each number of the output, from the
            numbers of x.
        around: Context in which the functions are called.
        threads: How many threads call at once.
    """

    name: str
    f: Callable[[Tensor], Any]
    x: Callable[[], Tensor]
    J: Callable[[Any], Any]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    threads: int = 1


def numbers() -> Tensor:
    """Return 1, 2, 3."""
    return torch.tensor([1.0, 2.0, 3.0])


def as_inference(x: Tensor) -> Tensor:
    """Return x as a tensor made under inference mode."""
    with torch.inference_mode():
        return x.clone()


def parameter() -> Tensor:
    """Return a leaf that requires grad and holds some."""
    x = torch.nn.Parameter(numbers())
    x.grad = torch.full((3,), 7.0)
    return x


def raises(x: Tensor) -> Tensor:
    """Raise when half is done."""
    x.exp()
    raise KeyError("f's own")


def detaches(x: Tensor) -> Tensor:
    """Cut its argument from the graph."""
    return x.detach_() * 2


def writes(x: Tensor) -> Tensor:
    """Change a tensor of its own in place."""
    y = x.clone()
    y[0] = x[1]
    return y.mul_(2)


def backwards(x: Tensor) -> Tensor:
    """Call backward itself."""
    x.square().sum().backward()
    return x * 2


def slope(x: Tensor) -> Tensor:
    """Return a derivative, computed inside."""
    (g,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    return g


def settings(x: Tensor) -> Tensor:
    """Leave global settings and random numbers changed behind."""
    y = x.square()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.manual_seed(7)
    return y


def twice_x(x: Any) -> Any:
    """Return the Jacobian of the square."""
    return np.diag(2 * x)


def two(x: Any) -> Any:
    """Return the Jacobian of 2 x."""
    return 2 * np.eye(x.size)


def none(x: Any) -> Any:
    """Return the Jacobian of a constant."""
    return np.zeros((x.size, x.size))


square = torch.square
THEMES = {
    "What f does": (
        Case("raises midway", raises, numbers, none),
        Case(
            "changes x in place, <code>x.mul_(2)</code>", lambda x: x.mul_(2), numbers, two
        ),
        Case("detaches x in place", detaches, numbers, none),
        Case(
            "changes a tensor of its own in place",
            writes,
            numbers,
            lambda x: [[0, 2, 0], [0, 2, 0], [0, 0, 2]],
        ),
        Case(
            "changes in place what backward needs, <code>x.exp().add_(1)</code>",
            lambda x: x.exp().add_(1),
            numbers,
            lambda x: np.diag(np.exp(x)),
        ),
        Case(
            "calls <code>torch.autograd.grad</code>",
            slope,
            numbers,
            lambda x: np.diag(6 * x),
        ),
        Case("calls <code>backward</code>", backwards, numbers, two),
        Case(
            "draws random numbers",
            lambda x: x * torch.rand(3),
            numbers,
            lambda x: np.diag(torch.rand(3).double()),
        ),
        Case("changes dtype, grad mode and seed for all", settings, numbers, twice_x),
    ),
    "What f returns": (
        Case("integers, <code>x.argmax()</code>", torch.argmax, numbers, none),
        Case(
            "a number, <code>x.sum().item()</code>", lambda x: x.sum().item(), numbers, none
        ),
        Case(
            "two tensors",
            lambda x: (x * 2, x.sum()),
            numbers,
            lambda x: np.vstack([two(x), np.ones(x.size)]),
        ),
        Case(
            "what is cut from x, <code>x.detach()</code>",
            lambda x: x.detach() * 2,
            numbers,
            none,
        ),
        Case(
            "nothing of three, <code>x[:0]</code>",
            lambda x: x[:0] * 2,
            numbers,
            lambda x: np.zeros((0, 3)),
        ),
        Case(
            "an expanded tensor",
            lambda x: x.sum().expand(3),
            numbers,
            lambda x: np.ones((3, 3)),
        ),
        Case("x itself", lambda x: x, numbers, lambda x: np.eye(3)),
        Case("complex numbers", lambda x: x * 2j, numbers, lambda x: 2j * np.eye(3)),
        Case("another dtype", lambda x: x.double() * 2, numbers, two),
        Case("a sparse tensor", lambda x: (x * 2).to_sparse(), numbers, two),
        Case("a tensor on <code>meta</code>", lambda x: x.to("meta"), numbers, two),
    ),
    "What x is": (
        Case("without elements", lambda x: x * 2, lambda: torch.ones(0), two),
        Case(
            "without elements, and three come of it",
            lambda x: x.sum() * torch.ones(3),
            lambda: torch.ones(0),
            lambda x: np.zeros((3, 0)),
        ),
        Case("0-dimensional", square, lambda: torch.tensor(3.0), twice_x),
        Case("with NaN", square, lambda: torch.tensor([1.0, nan, 3.0]), twice_x),
        Case(
            "where the derivative is infinite, <code>sqrt</code> at 0",
            torch.sqrt,
            lambda: torch.tensor([0.0, 1.0, 4.0]),
            lambda x: np.diag([inf, 0.5, 0.25]),
        ),
        Case("complex", lambda x: x * 2, lambda: numbers() * 1j, two),
        Case("float16", square, lambda: numbers().half(), twice_x),
        Case("bfloat16", square, lambda: numbers().bfloat16(), twice_x),
        Case("not contiguous", square, lambda: torch.arange(6.0).reshape(2, 3).T, twice_x),
        Case("expanded", square, lambda: torch.tensor(3.0).expand(3), twice_x),
        Case("a leaf that holds <code>.grad</code>", square, parameter, twice_x),
        Case("made under inference mode", square, lambda: as_inference(numbers()), twice_x),
        Case("sparse", lambda x: x * 2, lambda: numbers().to_sparse(), two),
        Case("on <code>meta</code>", square, lambda: numbers().to("meta"), twice_x),
        Case("integers", square, lambda: numbers().long(), twice_x),
    ),
    "Where the call is": (
        Case("under <code>torch.no_grad()</code>", square, numbers, twice_x, torch.no_grad),
        Case(
            "under <code>torch.inference_mode()</code>",
            square,
            numbers,
            twice_x,
            torch.inference_mode,
        ),
        Case("in eight threads at once", square, numbers, twice_x, threads=8),
    ),
}
