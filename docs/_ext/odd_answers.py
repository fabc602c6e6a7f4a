"""Try the functions of ``ASKS`` on odd input: what the API page says that they answer.

Each case is a function f, an input x and the Jacobian by hand. A function of the package
is right when its answer agrees with that, and it may refuse with an error; anything else
ends the build. Whatever it does, the caller's x, ``.grad``, flags, random numbers, default
dtype and grad mode must be as they were. It prints the answers as JSON (:mod:`odd_inputs`
makes a table of them), and is executed as the pages are (:mod:`pages`).
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import pullback
from certified import AGREE, differences
from odd_cases import THEMES, Case
from pullback._inputs import Untouched, random_numbers
from pullback._torch import pytree, tensor_hooks, version

# -- The functions ---------------------------------------------------------------------


class Asked(NamedTuple):
    """A case at one x, with the answer that is right."""

    f: Callable[[Tensor], Any]
    x: Tensor
    J: Any

    @property
    def v(self) -> Tensor:
        """Weights for an output of the length of J: 1 to 2."""
        m = len(self.J)
        v = torch.linspace(1, 2, m)
        v = v.to(torch.complex64) if np.iscomplexobj(self.J) or self.x.is_complex() else v
        return v.reshape(self.x.shape if m == self.x.numel() else (m,))

    def same(self, found: Any, product: bool = False) -> None:
        """Raise AssertionError unless ``found`` is J, or v^T J."""
        J = self.J
        wanted = np.linspace(1, 2, len(J)) @ J.conj() if product else J
        if product and not self.x.is_complex():
            wanted = wanted.real  # what a real x can take of it
        found = found.detach().resolve_conj().to_dense().reshape(wanted.shape)
        assert found.is_meta == self.x.is_meta, "on another device"
        if found.is_meta:
            return  # the shape was all
        found = found.to(torch.complex128 if found.is_complex() else torch.float64).numpy()
        odd = ~np.isfinite(wanted)
        if not product:  # 0 times NaN is NaN, along a row or a column
            with_odd = odd.any(0, keepdims=True) | odd.any(1, keepdims=True)
            assert not np.isfinite(found[odd]).any(), found
            found, wanted = found[~with_odd], wanted[~with_odd]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def ask_explain(a: Asked) -> None:
    """Ask for shapes and the product with v."""
    answer = pullback.explain(a.f, a.x, v=a.v)
    assert answer.jacobian_shapes == (answer.y_shape + a.x.shape,)
    assert answer.given is not None
    if answer.given.grads is None:
        assert answer.given.error is not None
        raise answer.given.error  # which it says that backward would raise
    a.same(answer.given.grads[0], product=True)
    if answer.mixes is not None:
        assert answer.mixes == _mixed(a).any(), "mixes"


def ask_check(a: Asked) -> str | None:
    """Ask for the product; return what it reports if that is no agreement."""
    try:
        report = pullback.check(a.f, a.x, a.v)
    except TypeError as error:
        if "y's structure" not in str(error):
            raise
        n = a.x.numel()  # one tensor like x, and one number
        report = pullback.check(a.f, a.x, (a.v[:n].reshape(a.x.shape), a.v[n]))
    a.same(report.result, product=True)
    return report.error


def ask_jacobian(a: Asked, **options: Any) -> None:
    """Ask for value and Jacobian."""
    value, J = pullback.value_and_jacobian(a.f, a.x, **options)
    pairs = list(zip(pytree.tree_leaves(value), pytree.tree_leaves(J), strict=True))
    assert all(block.shape == y.shape + a.x.shape for y, block in pairs)
    a.same(torch.cat([block.reshape(y.numel(), a.x.numel()) for y, block in pairs]))


def ask_forward(a: Asked) -> None:
    """Ask for the Jacobian by columns."""
    ask_jacobian(a, mode="forward")


def ask_mixing(a: Asked) -> None:
    """Ask who depends on whom."""
    report = pullback.mixing(a.f, a.x)
    assert (report.matrix.numpy() == _depends(a)).all(), report.matrix
    assert report.mixes == _mixed(a).any()


def ask_sparsity(a: Asked) -> None:
    """Ask for a plan, and for the Jacobian by it."""
    plan = pullback.sparsity(a.f, a.x)
    pattern = plan.pattern.to_dense().numpy()
    assert pattern.shape == a.J.shape
    assert pattern[a.J != 0].all()
    J = plan.jacobian(a.f, a.x)
    if not J.is_meta:
        a.same(J.to_dense())


def ask_trace(a: Asked) -> None:
    """Ask what arrives at x, of a graph that is there."""
    leaf, y, v = _computed(a)
    (found,) = pullback.trace(y, v, names={"x": leaf}).leaves
    assert found.total is not None
    a.same(found.total, product=True)
    assert leaf.grad is None


def ask_live(a: Asked) -> None:
    """Ask for the picture, and its program for other x and v."""
    answer = pullback.live(a.f, a.x, a.v)
    a.same(answer.J)
    a.same(answer.result, product=True)
    assert answer.html
    for difference in differences(answer, 12):
        assert difference.size <= AGREE, difference


def ask_hints(a: Asked) -> None:
    """Call backward under hints; it must do what it does without."""
    outcomes: list[Any] = []
    for around in (nullcontext, pullback.hints):
        try:
            with around():
                leaf, y, v = _computed(a)
                torch.autograd.backward(y, v)
                outcomes.append(leaf.grad)
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    without, under = outcomes
    if isinstance(without, Tensor):
        a.same(under, product=True)
    else:
        assert without == under, outcomes


ASKS: dict[str, Callable[[Asked], str | None]] = {
    "explain": ask_explain,
    "check": ask_check,
    "jacobian": ask_jacobian,
    'jacobian(mode="forward")': ask_forward,
    "mixing": ask_mixing,
    "sparsity": ask_sparsity,
    "trace": ask_trace,
    "live": ask_live,
}


def _computed(a: Asked) -> tuple[Tensor, Any, Any]:
    """Return a leaf, f of it and a cotangent, as a caller of backward has them."""
    with Untouched(), torch.enable_grad():
        leaf = a.x.detach().clone().requires_grad_()
        y = a.f(leaf * 1)
    if isinstance(y, Tensor):
        return leaf, y, a.v.to(y) if y.layout is torch.strided else a.v.to_sparse()
    if not isinstance(y, tuple):
        return leaf, y, None
    parts = a.v.split([t.numel() for t in y])
    return leaf, y, tuple(v.reshape(t.shape) for v, t in zip(parts, y, strict=True))


def _depends(a: Asked) -> Any:
    """Return which outputs depend on which inputs along dimension 0, from J."""
    y, x = a.v.shape, a.x.shape
    blocks = (a.J != 0).reshape(y[0], math.prod(y[1:]), x[0], math.prod(x[1:]))
    return blocks.any((1, 3))


def _mixed(a: Asked) -> Any:
    depends = _depends(a)
    return depends & (np.eye(*depends.shape) == 0)


# -- Trying ----------------------------------------------------------------------------

#: What torch goes on with where it lists the kernels of this very build, line by line.
KERNELS = " This could be because the operator doesn't exist for this backend"


@contextlib.contextmanager
def unchanged(x: Tensor) -> Iterator[None]:
    """Raise AssertionError if x, its flags or the settings of torch are not left alone."""
    before = _state(x)
    yield
    for name, value in _state(x).items():
        assert repr(value) == repr(before[name]), f"{name} changed"


def _state(x: Tensor) -> dict[str, Any]:
    def values(t: Tensor | None) -> Any:
        return None if t is None or t.is_meta else t.detach().to_dense().tolist()

    return {
        "x": (x.shape, x.stride() if x.layout is torch.strided else None, values(x)),
        "x.grad": values(x.grad) if x.is_leaf else None,
        "flags": (x.requires_grad, x.is_leaf, x.is_inference(), tensor_hooks(x)),
        "version": version(x),
        "random numbers": random_numbers().tolist(),
        "default dtype": torch.get_default_dtype(),
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        ),
    }


def answer(case: Case, ask: Callable[[Asked], str | None]) -> str:
    """Return ``"right"``, or what the function says in place of an answer.

    Raises:
        AssertionError: the answer is wrong, or something of the caller's was changed.
    """

    def once(_: int) -> str:
        x = case.x()
        with Untouched():
            numbers = x.detach().to_dense() if not x.is_meta else torch.ones(x.shape)
            wide = numbers.to(torch.complex128 if x.is_complex() else torch.float64)
            J = np.asarray(case.J(wide.numpy().reshape(-1)))
        try:
            with unchanged(x), case.around():
                return ask(Asked(case.f, x, J)) or "right"
        except AssertionError:
            raise
        except Exception as error:
            notes = "".join(f" [{note}]" for note in getattr(error, "__notes__", ()))
            said = str(error).partition(KERNELS)[0]
            return f"{type(error).__name__}: {said}{notes}"

    if case.threads == 1:
        return once(0)
    with ThreadPoolExecutor(case.threads) as pool:
        same, *others = set(pool.map(once, range(4 * case.threads)))
    assert not others, f"threads differ: {[same, *others]}"
    return same


def tried(case: Case) -> dict[str, list[str]]:
    """Return the functions of the package by what they answer, right answers first."""
    groups: dict[str, list[str]] = {"right": []}
    with Untouched(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="f looks at values")
        for name, ask in ASKS.items():
            torch.manual_seed(0)
            groups.setdefault(answer(case, ask), []).append(name)
        assert answer(case, ask_hints) == "right"
    return {text: names for text, names in groups.items() if names}


def calls() -> dict[str, int]:
    """Return how many times each function calls an f of three numbers."""
    count = 0

    def f(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return x.square()

    x, v = torch.ones(3), torch.ones(3)
    found = {}
    asks: dict[str, Callable[[], object]] = {
        "explain": lambda: pullback.explain(f, x),
        "check": lambda: pullback.check(f, x, v),
        "jacobian": lambda: pullback.jacobian(f, x),
        'jacobian(mode="forward")': lambda: pullback.jacobian(f, x, mode="forward"),
        "mixing": lambda: pullback.mixing(f, x),
        "sparsity": lambda: pullback.sparsity(f, x),
        "live": lambda: pullback.live(f, x),
    }
    for name, call in asks.items():
        count = 0
        call()
        found[name] = count
    return found


if __name__ == "__main__":
    answers = {
        theme: {case.name: tried(case) for case in cases} for theme, cases in THEMES.items()
    }
    print(json.dumps({"answers": answers, "calls": calls()}))
