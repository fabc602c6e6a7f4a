"""Mixing and check, against functions whose answer is known."""

import re

import numpy as np
import pytest
import torch
from functions import Square
from hypothesis import given
from hypothesis import strategies as st
from networks import MISTAKES, wrong

import pullback
from pullback import _check

X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
norm = torch.nn.BatchNorm1d(3, dtype=torch.float64)


def attention(x):
    return (x @ x.T).softmax(-1) @ x


@pytest.mark.parametrize(
    ("f", "mixes"),
    [
        (torch.square, False),
        (lambda x: x.softmax(1), False),
        (lambda x: x.softmax(0), True),
        (lambda x: x.cumsum(0), True),
        (lambda x: x.roll(1, 0), True),
        (attention, True),
        (lambda x: x / x.abs().sum(), True),
        (norm.train(), True),
        (lambda x: norm.eval()(x), False),
        (lambda x: x.sum(1), False),
    ],
)
def test_mixing_of_known_functions(f, mixes):
    if f is norm:
        norm.train()
    buffers = [b.clone() for b in norm.buffers()]
    assert bool(pullback.mixing(f, X)) is mixes
    if f is not norm:
        assert all(map(torch.equal, norm.buffers(), buffers))


@given(st.integers(2, 6).flatmap(lambda n: st.lists(
    st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)))  # fmt: skip
def test_mixing_finds_the_pattern_of_a_matrix(pattern):
    A = torch.tensor(pattern, dtype=torch.float64)
    x = torch.ones(len(A), dtype=torch.float64)
    matrix = pullback.mixing(lambda x: A @ x, x).matrix
    assert torch.equal(matrix, A.bool())


def test_mixing_along_another_dimension():
    report = pullback.mixing(lambda x: x.softmax(1), X, dim=1)
    assert report.mixes
    assert report.matrix.shape == (3, 3)
    assert "y[0] depends on x[1]" in repr(report)


def test_mixing_names_a_bad_dimension():
    with pytest.raises(IndexError, match=r"dim is 2 and x has shape \(4, 3\)"):
        pullback.mixing(torch.square, X, dim=2)


class Wrong(Square):
    """The square, with a backward that forgets the factor 2."""

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return v * x

    @staticmethod
    def jvp(ctx, t):
        return t


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "f",
    [torch.square, torch.sum, attention, lambda x: x.softmax(0), lambda x: x[1]],
)
def test_check_agrees(f, dtype):
    x = X.to(dtype)
    y = f(x)
    v = torch.linspace(1, 2, y.numel(), dtype=dtype).reshape(y.shape)
    report = pullback.check(f, x, v)
    assert report.ok, report.error
    assert report.error is None
    report.assert_ok()
    expected = torch.tensordot(v, torch.func.jacrev(f)(x), dims=y.ndim)
    torch.testing.assert_close(report.result, expected)


@pytest.mark.parametrize("x_dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("y_dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_check_allows_what_the_coarser_dtype_rounds(x_dtype, y_dtype):
    def f(x):
        return x.double().exp().mul(1.234567).to(y_dtype)

    x = torch.linspace(-1, 1, 5, dtype=x_dtype)
    report = pullback.check(f, x, torch.linspace(1, 2, 5).to(y_dtype))
    assert report.ok, report.error
    wrong = pullback.check(lambda x: Wrong.apply(x.double()).to(y_dtype), x, torch.ones(5))
    assert not wrong.ok


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_check_where_float64_is_refused(kind):
    torch.manual_seed(0)  # of the weights
    layer = kind(3, 2)
    assert pullback.check(lambda x: layer(x)[0], X.float(), torch.ones(4, 2)).ok


def test_check_names_the_route_that_disagrees():
    report = pullback.check(Wrong.apply, X, torch.ones_like(X))
    assert not report.ok
    assert "finite differences by" in report.error
    assert "dot-product test" in report.error
    assert "torch.autograd.grad" not in report.error
    with pytest.raises(AssertionError, match="finite differences"):
        report.assert_ok()


def test_a_check_and_its_routes_are_true_where_they_agree():
    right, wrong = (
        pullback.check(f, X, torch.ones_like(X)) for f in (torch.square, Wrong.apply)
    )
    assert right
    assert all(right.routes)
    assert not wrong
    disagreeing = {route.name for route in wrong.routes if not route}
    assert disagreeing == {"finite differences", "dot-product test against a JVP"}


def test_check_sees_a_kink():
    report = pullback.check(torch.relu, torch.zeros(2), torch.ones(2))
    (route,) = [r for r in report.routes if r.name == "finite differences"]
    assert report.ok
    assert route.undecided == "kink between, not decided (3 of 3 directions)"
    assert "some cannot tell" in repr(report)


def test_check_gives_random_functions_one_state():
    state = torch.get_rng_state()
    assert pullback.check(lambda x: torch.dropout(x, 0.5, True), X, torch.ones(4, 3)).ok
    assert torch.equal(torch.get_rng_state(), state)


def test_check_leaves_what_f_captures_alone():
    weight = torch.ones(3, dtype=X.dtype, requires_grad=True)
    weight.grad = torch.full_like(weight, 7)
    stepped = []
    weight.register_post_accumulate_grad_hook(stepped.append)
    inner = weight.exp()  # a graph that is not f's to free
    assert pullback.check(lambda x: x * weight * inner, X, torch.ones(4, 3)).ok
    assert weight.grad.tolist() == [7, 7, 7]
    assert not stepped
    inner.sum().backward()


def test_check_wants_the_shape_of_y():
    with pytest.raises(ValueError, match=r"v has shape \(3,\).*shape \(4, 3\)"):
        pullback.check(torch.square, X, torch.ones(3))
    with pytest.raises(TypeError, match="v is a list"):
        pullback.check(torch.square, X, [1.0])


def test_check_leaves_grad_alone():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.tensor([7.0, 7.0])
    pullback.check(torch.square, x, torch.ones(2))
    assert x.grad.tolist() == [7.0, 7.0]


def barely(x):
    """Each sample itself, and 3e-17 of the sum of all."""
    return 1.3 * x + 3e-17 * x.sum()


def test_rounding_is_no_mixing():
    x = X[:, 0]
    report = pullback.mixing(barely, x)
    assert not report
    assert 1e-17 < report.largest < 1e-16
    assert pullback.explain(barely, x).mixes is False
    torch.testing.assert_close(pullback.jacobian(barely, x, batched=True), 1.3 + 0 * x)


def test_what_mixes_is_measured():
    def f(x):
        return x + 1e-6 * x.sum()

    report = pullback.mixing(f, X[:, 0])
    assert report
    assert 0.9e-7 < report.largest < 1e-5
    assert f"{report.largest:.2g} times the largest, with random weights" in repr(report)
    with pytest.raises(ValueError, match=r"comes to \d\S*e-0[67] times the largest number"):
        pullback.jacobian(f, X[:, 0], batched=True)


CENTRED = {
    "another input": lambda x: x[:, 1] - x[:, 1].mean(),
    "the same input": lambda x: x[:, 0] - x[:, 0].mean(),
    "one neighbour": lambda x: torch.cat([x[:1, 1] + x[5:6, 1], x[1:, 1]]),
}


def two_outputs(x, size, name):
    return torch.stack([size * x[:, 0], CENTRED[name](x)], dim=1)


def two_inputs(x, size, name):
    return (size * x[:, 0] + CENTRED[name](x))[:, None]


HIDING = [(two_outputs, size, name) for size in (1e5, 1e7) for name in CENTRED]
HIDING += [
    (two_inputs, size, name)
    for size in (1e6, 1e8)
    for name in ("another input", "one neighbour")
]


@pytest.mark.parametrize(("beside", "size", "name"), HIDING)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_number_in_pascals_hides_no_mixing_of_one_in_metres(beside, size, name, mode):
    def f(x):
        return beside(x, size, name)

    torch.manual_seed(0)
    x = torch.randn(8, 2)
    report = pullback.mixing(f, x)
    assert report
    assert torch.equal(report.matrix, pullback.mixing(f, x.double()).matrix)
    for last in range(6, 9):  # halves are drawn by the number of samples
        with pytest.raises(ValueError, match="f mixes samples"):
            pullback.jacobian(f, x[:last], batched=True, mode=mode)


@pytest.mark.parametrize("size", [1e6, 1e8])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_numbers_in_pascals_and_metres_that_do_not_mix(size, mode):
    def f(x):
        return size * x[:, :1] + x[:, 1:]

    torch.manual_seed(0)
    x = torch.randn(8, 2)
    assert not pullback.mixing(f, x)
    pullback.jacobian(f, x, batched=True, mode=mode)


def cubic(x):
    return x * x.pow(2).sum(1, keepdim=True)


AMONG_OUTLIERS = {
    "all": lambda x: cubic(x) - x.mean(0),
    "one pair": lambda x: torch.cat(
        [cubic(x)[:2], cubic(x)[2:3] + 0.1 * x[6], cubic(x)[3:]]
    ),
    "its neighbour": lambda x: torch.cat([cubic(x)[:6] + 0.1 * x[1:7], cubic(x)[6:]]),
}


@pytest.mark.parametrize("name", AMONG_OUTLIERS)
@pytest.mark.parametrize("size", [30, 1000])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_one_large_sample_hides_no_mixing_of_others(name, size, mode):
    torch.manual_seed(0)
    x = torch.randn(8, 3)
    x[4] *= size
    assert pullback.mixing(AMONG_OUTLIERS[name], x)
    for last in range(7, 9):
        with pytest.raises(ValueError, match="f mixes samples"):
            pullback.jacobian(AMONG_OUTLIERS[name], x[:last], batched=True, mode=mode)


def test_what_is_small_beside_one_but_large_beside_its_own_sample_mixes():
    def f(x):
        return x.sin() + 1e-5 * x.mean(0)

    torch.manual_seed(0)
    x = torch.randn(8, 3)
    assert pullback.mixing(f, x)
    with pytest.raises(ValueError, match="f mixes samples"):
        pullback.jacobian(f, x, batched=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_one_large_sample_that_others_are_centred_by_is_rounding(seed, mode):
    """Each of 300 sizes of outputs is told well enough."""
    torch.manual_seed(seed)
    x = torch.randn(100, 3)
    x[4] *= 1000

    def f(x):
        shifted = x - (x.mean(0) - x.flip(0).mean(0))  # 0, up to rounding
        return cubic(shifted) + shifted.relu() + shifted.sin()

    pullback.jacobian(f, x, batched=True, mode=mode)


class Once(Square):
    """The square, whose backward no second derivative goes through."""

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return 2 * v * x


@pytest.mark.parametrize("share", [0.1, 1e-8])
def test_sizes_that_cannot_be_told_are_one(share):
    def f(x):
        x = Once.apply(x)
        return x + share * x.mean(0)

    x = torch.linspace(1, 2, 12).reshape(4, 3)
    report = pullback.mixing(f, x)
    assert report.mixes == (share > report.rounding)


def test_rounding_of_what_hardly_moves_is_no_mixing():
    torch.manual_seed(1)
    x = torch.randn(8, 4)
    jacobian = pullback.jacobian(lambda x: (60 * x - x.mean()).softmax(1), x, batched=True)
    expected = pullback.jacobian(lambda x: (60 * x).softmax(1), x, batched=True)
    torch.testing.assert_close(jacobian, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [1, 1e5])
def test_what_float32_rounds_is_no_mixing(size):
    """Neither on the way, nor in constants, nor where an output does not depend on x."""
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    Q = torch.linalg.qr(torch.randn(40, 40))[0]

    def f(x):
        centred = x - x.mean(0)
        distances = (centred[:, None] - (1 - x.mean(0))).norm(dim=-1)
        there_and_back = Q.T @ (Q @ x)
        length = (centred / centred.norm(dim=1, keepdim=True)).norm(dim=1, keepdim=True)
        return torch.cat([size * distances, there_and_back, length], dim=1)

    assert not pullback.mixing(f, x), pullback.mixing(f, x)
    pullback.jacobian(f, x, batched=True)
    pullback.jacobian(f, x, batched=True, mode="forward")


HALF = [torch.float16, torch.bfloat16]


def of_the_mean(x):
    """Each sample itself, and a hundredth of the mean of all."""
    return x + 0.01 * x.mean(0)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("count", [2, 8, 64])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_half_precision_hides_no_mixing(dtype, count, mode):
    x = torch.linspace(-1, 1, 3 * count).reshape(count, 3).to(dtype)
    for f in (of_the_mean, lambda x: x - x.mean(0), lambda x: x.cos().softmax(0)):
        report = pullback.mixing(f, x)
        exact = pullback.mixing(f, x.double())
        assert report.mixes
        assert torch.equal(report.matrix, exact.matrix)
        assert report.largest == pytest.approx(exact.largest, rel=0.5)
        with pytest.raises(ValueError, match="f mixes samples"):
            pullback.jacobian(f, x, batched=True, mode=mode)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("count", [3, 40])
def test_what_half_precision_rounds_is_no_mixing(dtype, count):
    torch.manual_seed(0)
    x = torch.randn(count, 5).to(dtype)

    def f(x):  # softmax does not see what is added to all, up to rounding
        return (3 * x - x.mean()).softmax(1)

    weights = torch.zeros_like(x)
    weights[0] = torch.linspace(0.5, 1.5, 5)
    assert pullback.vjp(f, x, v=weights)[1:].any()  # rounding is left in other samples
    assert not pullback.mixing(f, x)
    pullback.jacobian(f, x, batched=True)


def test_mixing_where_float64_is_refused_says_what_it_takes_for_rounding():
    def f(x):
        assert x.dtype == torch.bfloat16
        return of_the_mean(x)

    x = torch.linspace(-1, 1, 4, dtype=torch.bfloat16)
    report = pullback.mixing(f, x)
    assert not report
    assert 0 < report.largest <= report.rounding == 8 * torch.finfo(x.dtype).eps
    assert f"taken for rounding  {report.largest:.2g} times the largest" in repr(report)
    assert pullback.mixing(lambda x: f(x) + x.mean(0), x)


def test_assert_checked_names_the_entry():
    pullback.assert_checked(torch.sin, X)
    with pytest.raises(AssertionError, match=r"x\.grad\[\d, \d\]: expected .*\nroute"):
        pullback.assert_checked(Wrong.apply, X + 0.1)


def test_check_of_parameters_by_name():
    layer = torch.nn.Linear(3, 2)

    def f(p, x):
        return Wrong.apply(torch.func.functional_call(layer, p, x) + 2)

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    report = pullback.check(f, (parameters, X.float()))
    entry = next(r.entry for r in report.routes if r.name == "finite differences")
    assert entry.name in ("inputs[0]['weight']", "inputs[0]['bias']", "inputs[1]")
    assert report.result[0].keys() == parameters.keys()


def test_check_takes_the_routes_that_are_asked_for():
    names = [r.name for r in pullback.check(torch.sin, X, routes=["torch.func.vjp"]).routes]
    assert names == ["torch.func.vjp"]
    with pytest.raises(ValueError, match="routes has 'guess'"):
        pullback.check(torch.sin, X, routes=["guess"])


def test_check_of_many_inputs_takes_few_calls_and_finds_the_entry():
    calls = []

    def f(x):
        calls.append(x)
        mask = torch.zeros_like(x)
        mask[1234] = 1
        return torch.where(mask > 0, Wrong.apply(x), x.square())

    state = torch.get_rng_state()
    report = pullback.check(f, torch.linspace(1, 2, 3072))
    entry = next(r.entry for r in report.routes if r.name == "finite differences")
    assert entry.at == (1234,)
    assert len(calls) < 400
    assert torch.equal(torch.get_rng_state(), state)


def test_check_finds_what_is_wrong_on_ties_alone():
    class Maximum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.max()

        @staticmethod
        def backward(ctx, v):
            (x,) = ctx.saved_tensors
            return v * (x == x.max())

    assert pullback.check(Maximum.apply, torch.tensor([1.0, 3.0, 2.0])).ok
    report = pullback.check(Maximum.apply, torch.tensor([1.0, 3.0, 2.0, 3.0]))
    assert "x.grad[1] and 1 more together" in report.error


def test_check_does_not_blame_the_gradient_for_other_random_numbers():
    def f(x):
        inside = torch._C._are_functorch_transforms_active()
        return x * (2 if inside else 3)

    report = pullback.check(f, X)
    (route,) = [r for r in report.routes if r.name == "torch.func.vjp"]
    assert report.ok
    assert "another y" in route.undecided


PAIRS = [(n, i, j) for n in (2, 3, 4, 5, 8, 9, 16) for i in range(n) for j in range(n)]


@pytest.mark.sweep(lot=60)
@pytest.mark.parametrize(
    ("count", "i", "j"), [pair for pair in PAIRS if pair[1] != pair[2]]
)
def test_batched_misses_no_pair_of_samples(count, i, j):
    def f(x):
        y = x**2
        return torch.cat([y[:i], y[i : i + 1] + 1e-5 * x[j], y[i + 1 :]])

    x = torch.linspace(1, 2, count, dtype=torch.float64).unsqueeze(1)
    with pytest.raises(ValueError, match="f mixes samples"):
        pullback.jacobian(f, x, batched=True)
    with pytest.raises(ValueError, match="f mixes samples"):
        pullback.jacobian(f, x, batched=True, mode="forward", chunk_size=1)


@pytest.mark.parametrize("count", [3, 10, 40, 200])
@pytest.mark.parametrize("size", [1, 3])
def test_what_centring_rounds_is_no_mixing(count, size):
    torch.manual_seed(0)
    z = torch.randn(30, size, dtype=torch.float64)
    x = torch.randn(count, size, dtype=torch.float64)

    def f(x):  # the mean goes out of the distances, up to rounding
        return torch.cdist(x - x.mean(0), z - x.mean(0))

    assert not pullback.mixing(f, x)
    expected = pullback.jacobian(lambda x: torch.cdist(x, z), x, batched=True)
    torch.testing.assert_close(pullback.jacobian(f, x, batched=True), expected)


def test_check_where_x_is_minus_infinity():
    x = torch.tensor([-torch.inf, 4.4, 3.4, -torch.inf, -4.4, -8.6], dtype=torch.float64)
    report = pullback.check(lambda x: torch.ops.aten._safe_softmax(x, 0), x)
    assert report.ok, report.error
    assert not any(route.undecided for route in report.routes)
    wrong = pullback.check(lambda x: Wrong.apply(torch.ops.aten._safe_softmax(x, 0)), x)
    assert "x.grad[1]" in wrong.error or "x.grad[2]" in wrong.error


class WrongTangent(Square):
    """The square, whose backward is right and whose JVP forgets a factor."""

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


def test_check_does_not_blame_the_gradient_for_a_wrong_jvp():
    report = pullback.check(WrongTangent.apply, X + 0.1)
    assert report.ok
    route = report.routes[-1]
    assert route.difference > route.tolerance
    assert route.undecided == "the JVP is wrong: differences agree with backward(v)"


def test_check_where_f_rounds_to_a_constant():
    x = torch.tensor(-8.4, dtype=torch.float32)
    assert torch.special.ndtr(x.double()) == 0
    pullback.assert_checked(torch.special.ndtr, x)
    report = pullback.check(lambda x: Wrong.apply(x).detach() + 0 * x + x - x.detach(), x)
    assert not report.ok  # a slope of 1 that is not there


@pytest.mark.parametrize("factor", [1.0001, 0.9999, 1.00008])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_check_finds_a_factor_close_to_one(factor, dtype, monkeypatch):
    monkeypatch.setitem(MISTAKES, "factor", lambda x, g: factor * g)
    x = torch.arange(1.0, 10).sin().to(dtype).view(3, 3)
    for name in ("sin", "softmax", "exponential"):
        report = pullback.check(wrong(name, "factor"), x)
        entry = report.routes[4].entry
        assert entry.got / entry.expected == pytest.approx(factor, abs=1e-5)


@pytest.mark.parametrize("large", [1e8, 1e12])
def test_check_tells_rounding_within_f_from_a_mistake(large):
    def f(x):
        return (large + x.sin()) - large

    report = pullback.check(f, X)
    assert report.ok, report.error
    said = report.routes[4].undecided
    if large == 1e12:  # a step of y is 1e-4 there, and those of 1e-9 see a constant
        assert re.search(
            r"rounding in f moves \(y \* v\)\.sum\(\) by .e-0[34], which", said
        )
    steep = pullback.check(lambda x: Wrong.apply(f(x)), X)
    assert not steep.ok if large == 1e8 else steep.routes[4].undecided


def test_check_allows_what_a_solve_rounds():
    x = torch.linspace(0, 1, 12, dtype=torch.float64).unsqueeze(1)
    at = torch.linspace(0.05, 0.9, 5, dtype=torch.float64).unsqueeze(1)

    def kernel(a, b):
        return torch.exp(-((a - b.T) ** 2) / 0.18)

    def variance(at):  # of a Gaussian process that hardly has noise
        K = kernel(x, x) + 1e-10 * torch.eye(12, dtype=torch.float64)
        half = torch.linalg.solve_triangular(
            torch.linalg.cholesky(K), kernel(x, at), upper=False
        )
        return 1 - half.square().sum(0)

    pullback.assert_checked(variance, at)
    assert not pullback.check(lambda at: Wrong.apply(variance(at)), at).ok


def test_check_of_what_has_no_derivative():
    assert pullback.check(torch.sgn, X).ok  # whose tangents are zeros without memory
    x = X.clone().requires_grad_()
    (zeros,) = torch.autograd.grad(torch.sgn(x), x, X)
    for _ in range(5):
        np.full(X.shape, 7.0)  # memory that NumPy uses again
        assert not _check._array(zeros).any()


def test_check_beside_nan_and_infinity():
    x = torch.tensor([0.0, 1.0, torch.nan, 4.0])
    report = pullback.check(torch.sqrt, x)
    assert report.ok
    assert report.unjudged == (
        "y is NaN or infinite in 1 of 4 numbers, first at [2]; "
        "backward(v) is NaN or infinite in 2 of 4 numbers, first at [0]"
    )
    assert "not judged: y is NaN" in repr(report)
    wrong = pullback.check(lambda x: Wrong.apply(x.sqrt()), x)
    assert re.search(r"x\.grad\[[13]\]: expected", wrong.error)


def test_check_names_a_nan_where_f_has_a_slope():
    x = torch.tensor([-1.0, 1.0])
    report = pullback.check(lambda x: torch.where(x > 0, x.sqrt(), 2 * x), x)
    assert (
        report.unjudged == "backward(v) is NaN or infinite in 1 of 2 numbers, first at [0]"
    )
    assert re.search(
        r"differences \(x\.grad\[0\]: expected -?\d\.\d+, got nan\)", report.error
    )


def test_check_where_forward_mode_has_nan():
    x = torch.tensor([-1.0, 4.0])
    report = pullback.check(lambda x: x.clamp(min=0).sqrt(), x)
    assert report.ok
    assert report.routes[-1].undecided == "the JVP is NaN or infinite"


def test_check_of_numbers_that_are_drawn_again():
    def f(x):
        return torch.distributions.Gamma(x.exp() + 1, 1.0).rsample()

    report = pullback.check(f, X)
    assert report.ok  # though the numbers move otherwise than their distribution
    assert report.routes[4].undecided.startswith("f draws gammas")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: pullback.check(torch.sin, X, routes=3),
            "routes is 3; one or more names of",
        ),
        (
            lambda: pullback.check(torch.sin, X, routes=[]),
            r"routes is \[\]; one or more names",
        ),
        (
            lambda: pullback.check(torch.sin, X, progress="yes"),
            "progress is 'yes'; True or",
        ),
        (
            lambda: pullback.mixing(torch.sin, X, dim=0.5),
            "dim is 0.5; the int of a dimension",
        ),
        (
            lambda: pullback.jacobian(torch.sin, X, batched="x"),
            "batched is 'x'; True or False",
        ),
    ],
)
def test_options_of_another_type_are_named(ask, message):
    with pytest.raises(TypeError, match=message):
        ask()


class Two(torch.autograd.Function):
    """The cube of x times a, and the sum of x; its backward may forget the sum."""

    @staticmethod
    def forward(ctx, x, a, power, right):
        ctx.save_for_backward(x, a)
        ctx.power, ctx.right = power, right
        return a * x**power, x.sum()

    @staticmethod
    def backward(ctx, v, w):
        x, a = ctx.saved_tensors
        power = ctx.power
        of_x = v * a * power * x ** (power - 1) + (w if ctx.right else 0)
        return of_x, (v * x**power).sum(), None, None


def test_check_of_a_function_with_several_outputs_and_constants():
    x, a = X[0] + 2, torch.tensor(1.5, dtype=X.dtype)
    report = pullback.check(Two.apply, (x, a, 3, True))
    assert report.ok, report
    assert report.result[0].shape == (3,)
    assert report.result[2:] == (None, None)
    v = torch.ones(3), torch.tensor(2.0)
    result = pullback.check(Two.apply, (x, a, 3, True), v).result
    torch.testing.assert_close(result[0], 1.5 * 3 * x**2 + 2)
    torch.testing.assert_close(result[1], (x**3).sum())
    wrong = pullback.check(Two.apply, (x, a, 3, False))
    assert "inputs[0].grad[" in wrong.error
    with pytest.raises(TypeError, match="v is a Tensor; y's structure is needed"):
        pullback.check(Two.apply, (x, a, 3, True), torch.ones(3))
    with pytest.raises(ValueError, match=r"v has shape \(2,\)"):
        pullback.check(Two.apply, (x, a, 3, True), (torch.ones(2), torch.tensor(1.0)))


def test_check_of_a_dict_of_outputs():
    def f(x):
        return {"a": x.sin(), "b": [x.sum(), torch.relu(x)]}

    report = pullback.check(f, X)
    assert report.ok, report
    v = {"a": torch.ones(4, 3), "b": [torch.tensor(0.0), torch.zeros(4, 3)]}
    torch.testing.assert_close(pullback.check(f, X, v).result, X.cos())
    alone = pullback.check(lambda x: [x.sin()], X, torch.ones(4, 3))  # no list needed
    torch.testing.assert_close(alone.result, X.cos())
    with pytest.raises(TypeError, match=r"output\['n'\] of f has dtype torch.int64"):
        pullback.check(lambda x: {"x": x, "n": x.argmax()}, X)


def test_check_of_a_loss_and_its_classes():
    classes = torch.tensor([0, 2, 1, 1])
    report = pullback.check(torch.nn.functional.cross_entropy, (X, classes))
    assert report.ok, report
    assert report.result[1] is None
    with pytest.raises(TypeError, match=r"inputs\[0\]\['n'\] has dtype torch.int64"):
        pullback.check(lambda d, x: d["w"] * x, ({"w": X, "n": classes}, X))
    with pytest.raises(TypeError, match="inputs_embeds"):
        pullback.check(torch.nn.Embedding(4, 2), classes)


@pytest.mark.parametrize("ask", [pullback.jacobian, pullback.hessian, pullback.check])
@pytest.mark.parametrize("inputs", [[X, X], (X, X), X], ids=["list", "tuple", "tensor"])
def test_how_several_inputs_are_given(ask, inputs):
    if ask is pullback.check and isinstance(inputs, tuple):
        inputs = inputs[:1]
    with pytest.raises(TypeError, match="missing 1 required") as raised:
        ask(lambda a, b: a * b, inputs)
    assert "pullback.check(f, (a, b))" in raised.value.__notes__[0]


@pytest.mark.parametrize("ask", [pullback.jacobian, pullback.hessian, pullback.check])
def test_how_arguments_by_name_are_given(ask):
    with pytest.raises(TypeError, match="missing 1 required keyword-only") as raised:
        ask(lambda a, *, power: a**power, X)
    (note,) = raised.value.__notes__
    assert "functools.partial(f, power=...)" in note


def test_check_takes_one_route_by_its_name():
    (route,) = pullback.check(torch.sin, X, routes="finite differences").routes
    assert route.name == "finite differences"
