"""Odd input: a right answer or a clear error, and nothing of the caller's changed."""

import contextlib
import functools
import inspect
import json
import math
import re

import numpy as np
import pytest
import torch
from executed import ROOT
from executed import odd_answers as recorded
from hypothesis import given
from hypothesis import strategies as st
from sweeps import examples

import odd_answers
import pullback
from odd_answers import ASKS, answer, unchanged
from odd_cases import THEMES, Case, numbers
from odd_inputs import table
from pullback._torch import pytree

CASES = [case for cases in THEMES.values() for case in cases]
close = torch.testing.assert_close


def plain(case):
    return re.sub(r"</?code>", "`", case.name)


@functools.cache
def answers():
    """Return what the functions answer to each case, as the API page says."""
    themes = json.loads(recorded())["answers"]
    assert {theme: [*cases] for theme, cases in themes.items()} == {
        theme: [case.name for case in cases] for theme, cases in THEMES.items()
    }
    return {case: themes[theme][case.name] for theme, cs in THEMES.items() for case in cs}


def test_answers_are_as_recorded(file_regression):
    """What the API page says; each right answer was compared as it was tried."""
    lines = []
    for case in CASES:
        lines += [f"f or x: {plain(case)}"]
        for text, names in answers()[case].items():
            lines += [f"    {', '.join(names)}", f"        {text}"]
    record = ROOT / "tests" / "records" / "odd_answers.md"
    file_regression.check("\n".join(lines) + "\n", fullpath=record, extension=".md")


def test_the_errors_are_clear():
    """What PyTorch says deep inside is no answer: only of f's own doing it may speak."""
    own = "calls|needs|sparse"  # f differentiates, breaks its graph, or has sparse parts
    for case in CASES:
        for text in set(answers()[case]) - {"right"}:
            clear = re.search(
                r"needed|must return|can be shown|agrees with nothing|f's own", text
            )
            assert clear or re.search(own, case.name) or "can require grad" in text, text


def test_the_table_shows_every_case_once():
    html = table(recorded())
    for case in CASES:
        assert html.count(f'<th scope="row">{case.name}</th>') == 1
    assert html.count("<details>") == html.count("say why not") > 0


def test_a_wrong_answer_would_end_the_build():
    wrong = Case("", torch.square, numbers, lambda x: np.diag(3 * x))
    for ask in ASKS.values():
        if ask not in (odd_answers.ask_mixing,):  # which asks for the zeros alone
            with pytest.raises(AssertionError):
                answer(wrong, ask)
    dense = Case("", torch.square, numbers, lambda x: np.ones((3, 3)))
    with pytest.raises(AssertionError):
        answer(dense, odd_answers.ask_mixing)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda x: x.detach().mul_(2)),
        ("x.grad", lambda x: x.grad.add_(1)),
        ("flags", lambda x: x.requires_grad_(False)),
        ("flags", lambda x: x.register_hook(lambda g: None)),
        ("random numbers", lambda x: torch.rand(1)),
        ("default dtype", lambda x: torch.set_default_dtype(torch.float64)),
        ("modes", lambda x: torch.set_grad_enabled(False)),
    ],
)
def test_a_change_would_be_seen(name, change):
    x = torch.nn.Parameter(numbers())
    x.grad = numbers()
    rng, dtype = torch.get_rng_state(), torch.get_default_dtype()
    try:
        with pytest.raises(AssertionError, match=f"^{name} changed"), unchanged(x):
            change(x)
    finally:
        torch.set_rng_state(rng)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(True)


# -- Fuzzing ---------------------------------------------------------------------------

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
STEPS = {
    "sin": torch.sin,
    "square": torch.square,
    "cumsum": lambda x: x.cumsum(0) if x.ndim else x,
    "softmax": lambda x: x.softmax(-1) if x.ndim else x,
    "transpose": lambda x: x.mT if x.ndim == 2 else x,
    "expand": lambda x: x.expand(2, *x.shape) if x.ndim < 2 else x,
    "slice": lambda x: x[::2] if x.ndim else x,
    "none": lambda x: x[:0] if x.ndim else x,
    "sum": lambda x: x.sum(0) if x.ndim else x,
    "write": lambda x: x.clone().mul_(2).add_(1),
    "double": lambda x: x.double(),
    "random": lambda x: x * torch.rand(x.shape).to(x),
    "max": lambda x: x.max() if x.numel() else x,
}


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=2))
    size = torch.Size(shape).numel()
    values = draw(st.lists(st.integers(-4, 4), min_size=size, max_size=size))
    x = torch.tensor(values, dtype=draw(st.sampled_from(DTYPES))).reshape(shape) / 4
    kind = draw(st.sampled_from(["as it is", "transposed", "expanded", "strided"]))
    if x.ndim and kind == "transposed":
        x = x.mT if x.ndim == 2 else x.flip(0)
    if kind == "expanded" and x.ndim < 2:
        x = x.expand(2, *x.shape)
    if x.ndim and kind == "strided":
        x = x[::2]
    return x


def compose(names):
    def f(x):
        for name in names:
            x = STEPS[name](x)
        return x

    return f


def blocks(entries, y, x):
    """Return which samples of y have an entry with which of x."""
    rest = [math.prod(t.shape[1:]) for t in (y, x)]
    return entries.reshape(len(y), rest[0], len(x), rest[1]).any(3).any(1)


@examples(60)
@given(tensors(), st.lists(st.sampled_from(sorted(STEPS)), max_size=3), st.booleans())
def test_every_function_agrees_with_rows_taken_one_by_one(x, names, recording):
    f = compose(names)
    with torch.random.fork_rng(devices=[]):
        leaf = x.detach().clone().requires_grad_()
        y = f(leaf * 1)
    m, n = y.numel(), x.numel()
    rows = [
        torch.autograd.grad(y, leaf, v.reshape(y.shape), retain_graph=True)[0].flatten()
        for v in torch.eye(m, dtype=y.dtype)
    ]
    J = torch.stack(rows) if rows else torch.zeros(0, n)
    v = torch.linspace(1, 2, m).to(y.dtype).reshape(y.shape)
    product = v.double().flatten() @ J.double()
    tolerance = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(x.dtype, 1e-4)
    tolerance *= max(1.0, float((v.double().flatten() @ J.double().abs()).sum()))

    def same(found, expected):
        found, expected = found.double().to_dense(), expected.double().reshape(found.shape)
        close(found, expected, rtol=0, atol=tolerance)

    with unchanged(x), torch.set_grad_enabled(recording):
        for mode in ("auto", "reverse", "forward"):
            for chunk_size in (None, 1):
                same(pullback.jacobian(f, x, mode=mode, chunk_size=chunk_size), J)
        plan = pullback.sparsity(f, x)
        same(plan.jacobian(f, x), J)
        if x.ndim and y.ndim and x.dtype is torch.float64:  # others round to zero
            matrix = pullback.mixing(f, x).matrix
            assert not (matrix & ~blocks(plan.pattern.to_dense(), y, x)).any()
            assert not (~matrix & blocks(J.abs() > 1e-6, y, x)).any()
        same(pullback.explain(f, x, v=v).given.grads[0], product)
        same(pullback.check(f, x, v).result, product)
        (at_leaf,) = pullback.trace(y, v).leaves
        same(at_leaf.total, product)
        if 1 <= m <= 12 and 1 <= n <= 12:
            with contextlib.suppress(NotImplementedError):  # it draws, or a page lacks it
                same(pullback.live(f, x, v).J, J)


JUNK = [
    None,
    3,
    2.5,
    "text",
    [],
    {},
    (),
    [1.0],
    np.ones(3),
    torch.ones(()),
    torch.ones(0),
    torch.ones(3, dtype=torch.bool),
    torch.ones(3, dtype=torch.int64),
    torch.ones(3, dtype=torch.complex64),
    torch.ones(3).to_sparse(),
    torch.ones(3, device="meta"),
    torch.ones(2),
    {"a": torch.ones(3)},
    (torch.ones(3), None),
    numbers,
]
junk = st.sampled_from(JUNK)


def squares(*inputs):
    """Return numbers of any inputs."""
    leaves = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)]
    return sum(t.square() for t in leaves)


def summed(f):
    """Return f as a function of one number, if it is a function and gives one tensor."""

    def number(*inputs):
        y = f(*inputs)
        return y.sum() if isinstance(y, torch.Tensor) else y

    return number if callable(f) else f


def per_sample(f, x, v):
    loss = summed(f)
    first = (lambda params, sample: loss(params)) if callable(f) else f
    return pullback.per_sample_gradients(first, x, v)


#: Each public function and its ways, by its name and a word, of any f, x and v.
EVERY = {
    "explain": lambda f, x, v: pullback.explain(f, x, v=v),
    "check": pullback.check,
    "assert_checked": pullback.assert_checked,
    "jacobian": lambda f, x, v: pullback.jacobian(f, x),
    "jacobian forward": lambda f, x, v: pullback.jacobian(f, x, mode="forward"),
    "jacobian batched": lambda f, x, v: pullback.jacobian(f, x, batched=True),
    "jacobian unused": lambda f, x, v: pullback.jacobian(f, x, allow_unused=True),
    "value_and_jacobian": lambda f, x, v: pullback.value_and_jacobian(f, x),
    "hessian": lambda f, x, v: pullback.hessian(summed(f), x),
    "vjp": lambda f, x, v: pullback.vjp(f, x, v=v),
    "jvp": lambda f, x, v: pullback.jvp(f, x, u=v),
    "hvp": lambda f, x, v: pullback.hvp(summed(f), x, u=v),
    "jacobian_operator": lambda f, x, v: pullback.jacobian_operator(f, x) @ v,
    "jacobian_operator transposed": lambda f, x, v: pullback.jacobian_operator(f, x).T @ v,
    "hessian_operator": lambda f, x, v: pullback.hessian_operator(summed(f), x) @ v,
    "gauss_newton_operator": lambda f, x, v: (
        pullback.gauss_newton_operator(f, x, loss=summed(squares)) @ v
    ),
    "gauss_newton_operator loss": lambda f, x, v: (
        pullback.gauss_newton_operator(squares, x, loss=summed(f)) @ v
    ),
    "diagonal": lambda f, x, v: pullback.diagonal(f, x),
    "diagonal estimated": lambda f, x, v: pullback.diagonal(
        f, x, samples=2, generator=torch.Generator()
    ),
    "diagonal batched": lambda f, x, v: pullback.diagonal(f, x, batched=True),
    "divergence": lambda f, x, v: pullback.divergence(f, x),
    "laplacian": lambda f, x, v: pullback.laplacian(summed(f), x),
    "per_sample_gradients": per_sample,
    "mixing": lambda f, x, v: pullback.mixing(f, x),
    "sparsity": lambda f, x, v: pullback.sparsity(f, x),
    "sparsity hessian": lambda f, x, v: pullback.sparsity(summed(f), x, hessian=True),
    "trace": lambda f, x, v: pullback.trace(x, v),
    "live": pullback.live,
}
#: What refuses an f that draws random numbers, and what draws as a training step does.
DRAW_NONE = {"live", "per_sample_gradients"}
IN_TRANSFORMS = {"jacobian", "jacobian unused", "value_and_jacobian", "hessian"}


def test_every_public_function_is_asked():
    functions = {n for n in pullback.__all__ if inspect.isfunction(getattr(pullback, n))}
    assert {name.partition(" ")[0] for name in EVERY} == functions


def clear(error):
    """Tell whether an error says which argument is wrong, and what is needed."""
    what = r"\b(x|y|v|u|f|loss|params|batch|inputs?|outputs?)\b"
    return re.search(r"needed|can be shown|is on", error) and re.search(what, error)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("place", ["f", "x", "v", "returned"])
def test_each_argument_is_refused_by_name(name, place):
    """Each kind of junk in each place, beside what is right."""
    for i, odd in enumerate(JUNK):
        if place == "f" and callable(odd):
            continue  # the error of a function that takes other arguments is its own
        good = {"f": squares, "x": numbers(), "v": torch.ones(3)}
        if place == "returned":
            good["f"] = lambda *inputs, odd=odd: odd
        else:
            good[place] = odd
        kept = good["x"] if isinstance(good["x"], torch.Tensor) else numbers()
        with unchanged(kept):
            try:
                EVERY[name](**good)
            except (TypeError, ValueError, RuntimeError, IndexError) as error:
                assert clear(str(error)), (i, str(error))
            except AssertionError as error:  # what a wrong gradient is to assert_checked
                assert name == "assert_checked", (i, str(error))


@examples(200)
@given(st.sampled_from(sorted(EVERY)), junk, junk, junk, st.booleans())
def test_junk_is_refused_by_name(name, x, v, returned, good):
    x = torch.tensor([1.0, 2.0, 3.0]) if good else x
    kept = numbers()
    with unchanged(kept):
        try:
            EVERY[name](lambda *inputs: returned, x, v)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            assert clear(str(error)), str(error)


# -- One by one ------------------------------------------------------------------------


def test_live_says_that_a_function_with_a_memory_is_none():
    calls = []

    def f(x):
        calls.append(x)
        return len(calls) * x

    with pytest.raises(RuntimeError, match="another result"):
        pullback.live(f, numbers())


def test_check_says_that_a_function_with_a_memory_is_none():
    calls = []

    def f(x):
        calls.append(x)
        return len(calls) * x

    assert "disagrees" in pullback.check(f, numbers(), torch.ones(3)).error


def test_mixing_of_an_imaginary_part():
    """With real weights the gradient of a real x would be zero everywhere."""
    assert pullback.mixing(lambda x: x.cumsum(0) * 1j, numbers()).mixes
    assert not pullback.mixing(lambda x: x * 1j, numbers()).mixes


def test_the_callers_default_device_is_for_the_caller():
    """Whatever it is, what the functions make themselves is beside x, or on the CPU."""

    def f(x):
        return (x.unsqueeze(1) * x.new_ones(200)).sin()  # auto takes columns

    def energy(x):
        return (x[1:] * x[:-1]).square().sum()

    def parts(x):  # of each kind of rule that numbers elements
        y = torch.stack([x.flip(0), x.cumsum(0)])[:, x.argsort()]
        y = y.unsqueeze(0).softmax(2) @ x.outer(x)
        y = torch.nn.functional.conv1d(y, y.new_ones(1, 2, 2))
        return torch.linalg.solve(x.outer(x) + x.new_ones(3, 3).triu(), x).sum() + y

    x = numbers().double()
    J = torch.func.jacrev(f)(x)
    with torch.device("meta"):
        close(pullback.jacobian(f, x), J)
        close(pullback.jacobian(f, x, mode="forward"), J)
        close(pullback.jacobian(f, x, batched=True), J.diagonal(0, 0, 2).movedim(-1, 0))
        for mode in ("auto", "reverse", "forward"):
            plan = pullback.sparsity(f, x, mode=mode)
            found = plan.jacobian(f, x, verify=True)
            close(found.to_dense(), J.reshape(600, 3))
        plan = pullback.sparsity(energy, x, hessian=True)
        H = plan.hessian(energy, x, verify=True)
        close(H.to_dense(), torch.func.hessian(energy)(x))
        pullback.sparsity(parts, x)
        assert "do not mix" in repr(pullback.mixing(f, x))
        assert pullback.check(torch.exp, x, x.clone()).ok
        assert pullback.explain(torch.exp, x, v=x).mixes is False
        close(pullback.live(torch.exp, x).result, x.exp())
        assert pullback.trace(f(x.requires_grad_()).sum()).steps().html


@pytest.mark.parametrize(
    "name", sorted(EVERY.keys() - {"jacobian forward", "jacobian batched", "trace"})
)
@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad])
def test_inside_transforms(name, transform):
    """A Jacobian works there; the others say so."""

    def f(x):
        EVERY[name](torch.sin, x, torch.ones(3))
        return x.sum()

    x = torch.ones(2, 3) if transform is torch.vmap else torch.ones(3)
    if name in IN_TRANSFORMS:
        transform(f)(x)
    else:
        with pytest.raises(RuntimeError, match=r"inside a torch\.func transform.*needed"):
            transform(f)(x)


@pytest.mark.parametrize(
    "ask",
    [
        pullback.explain,
        pullback.jacobian,
        lambda y, x: pullback.sparsity(torch.sin, x).jacobian(y, x),
        pullback.trace,
    ],
)
def test_what_retains_its_grad_on_the_way_keeps_it(ask):
    x = numbers().requires_grad_()
    held, fresh = x * 2, x * 3
    for t in (held, fresh):
        t.retain_grad()
    y = held * fresh
    held.grad = torch.full((3,), 7.0)
    ask(y, torch.ones(3)) if ask is pullback.trace else ask(y, x)
    assert held.grad.tolist() == [7, 7, 7]
    assert fresh.grad is None
    held.grad = None
    y.sum().backward()
    close(held.grad, 3 * numbers())


def test_functions_of_the_package_inside_f():
    def f(x):
        slope = pullback.jacobian(lambda x: (x**3).sum(), x)
        if not torch._C._are_functorch_transforms_active():
            assert not pullback.mixing(torch.sin, x)
            assert pullback.check(torch.sin, x, torch.ones(3)).ok
            assert pullback.explain(torch.sin, x).mixes is False
        return slope

    x = numbers()
    for mode in ("auto", "reverse", "forward"):
        close(pullback.jacobian(f, x, mode=mode), torch.diag(6 * x))
    assert pullback.check(f, x, torch.ones(3)).ok
    assert not pullback.mixing(f, x)


def test_what_f_leaves_in_a_leaf_of_its_own_is_not_added_to_the_product():
    case = next(case for case in CASES if "backward</code>" in case.name)
    assert pullback.check(case.f, numbers(), torch.ones(3)).ok


def test_an_error_in_any_call_of_f_comes_through_and_leaves_everything():
    """F raises at its k-th call, for every k that a function gets to."""
    x = torch.nn.Parameter(numbers())
    x.grad = torch.ones(3)
    for name, ask in EVERY.items():
        if name == "trace":  # which calls no f
            continue
        for k in range(1, 20):
            calls = []

            def f(x, calls=calls, k=k, random=name not in DRAW_NONE):
                calls.append(x)
                if random:
                    torch.rand(1)
                torch.set_default_dtype(torch.float64)
                if len(calls) == k:
                    torch.set_grad_enabled(False)
                    raise KeyError("f's own")
                torch.set_default_dtype(torch.float32)
                return x.square()

            with unchanged(x):
                try:
                    ask(f, x, torch.ones(3))
                except KeyError:
                    assert len(calls) == k
                    continue
            break  # as many calls as there are
        assert k > 1, name
        # live calls f once more, at an x of its own, where f may have no value
        assert len(calls) - (name == "live") == k - 1, name
