"""Diagonals and their sums, exact and estimated, held against dense derivatives."""

import pytest
import torch
from functions import noting, numbers

import pullback

close = torch.testing.assert_close


W = numbers(6, 6).cos()


def mixed(x):
    return (W @ x.flatten()).sin().reshape(x.shape)


def rows(X):
    return (X @ W).sin()


def height(x):
    return (x**4).sum() * x.prod()


@pytest.mark.parametrize("chunk_bytes", [1, 200, 2**26])
def test_exact(monkeypatch, chunk_bytes):
    monkeypatch.setattr("pullback._products.CHUNK_BYTES", chunk_bytes)
    x = numbers(2, 3)
    D = torch.func.jacrev(mixed)(x).reshape(6, 6).diagonal()
    close(pullback.diagonal(mixed, x), D.reshape(2, 3))
    close(pullback.divergence(mixed, x), D.sum())
    X = numbers(4, 6)
    D = torch.func.vmap(torch.func.jacrev(rows))(X).diagonal(dim1=1, dim2=2)
    close(pullback.diagonal(rows, X, batched=True), D)
    close(pullback.divergence(rows, X, batched=True), D.sum(1))


def test_laplacian():
    x, X = numbers(3), numbers(5, 3)
    close(pullback.laplacian(height, x), torch.func.hessian(height)(x).trace())
    expected = torch.func.vmap(lambda x: torch.func.hessian(height)(x).trace())(X)
    close(pullback.laplacian(torch.func.vmap(height), X, batched=True), expected)
    close(pullback.laplacian(torch.sum, x), torch.zeros((), dtype=x.dtype))


def test_of_one_number():
    x = torch.tensor(2.0)
    close(pullback.diagonal(torch.square, x), torch.tensor(4.0))
    close(pullback.divergence(torch.square, x), torch.tensor(4.0))
    close(pullback.divergence(torch.square, numbers(3), batched=True), 2 * numbers(3))


def test_of_nothing():
    assert pullback.diagonal(torch.square, torch.empty(0)).shape == (0,)
    close(pullback.divergence(torch.square, torch.empty(0)), torch.tensor(0.0))


@pytest.mark.parametrize("samples", [1, 7])
def test_of_a_diagonal_matrix_any_direction_is_exact(samples):
    x = numbers(4)
    close(pullback.diagonal(torch.sin, x, samples=samples).value, x.cos())
    found = pullback.divergence(torch.sin, x, samples=samples)
    close(found.value, x.cos().sum())
    close(found.error, torch.tensor(0.0 if samples > 1 else torch.inf, dtype=x.dtype))


def test_estimates_lie_within_their_errors():
    x, generator = numbers(2, 3), torch.Generator().manual_seed(0)
    exact = pullback.divergence(mixed, x)
    means = [
        pullback.divergence(mixed, x, samples=50, generator=generator) for _ in range(200)
    ]
    off = torch.stack([(m.value - exact) / m.error for m in means])
    assert 0.55 < float((off.abs() < 1).double().mean()) < 0.8  # two in three
    assert off.mean().abs() < 0.25


def test_estimates_for_each_sample():
    X = numbers(4, 6)
    exact = pullback.divergence(rows, X, batched=True)
    generator = torch.Generator().manual_seed(0)
    found = pullback.divergence(rows, X, batched=True, samples=2000, generator=generator)
    assert found.value.shape == found.error.shape == (4,)
    assert ((found.value - exact).abs() < 5 * found.error).all()


def test_the_generator_decides():
    def draw():
        generator = torch.Generator().manual_seed(3)
        return pullback.diagonal(mixed, numbers(6), samples=2, generator=generator)

    state = torch.get_rng_state()
    close(draw(), draw(), rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_physics_loss_trains_through_the_laplacian():
    torch.manual_seed(0)  # any
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    X = numbers(5, 2)
    p = dict(net.named_parameters())

    def one(p, x):
        u = lambda x: torch.func.functional_call(net, p, (x,)).squeeze()  # noqa: E731
        return torch.func.hessian(u)(x).trace()

    loss = (pullback.laplacian(lambda X: net(X).squeeze(1), X, batched=True) ** 2).sum()
    found = torch.autograd.grad(loss, list(p.values()), materialize_grads=True)
    expected = torch.func.grad(lambda p: sum(one(p, x) ** 2 for x in X))(p)
    close(dict(zip(p, found, strict=True)), expected)


BAD = {
    "another shape": (pullback.diagonal, torch.sum, {}, ValueError, "same shape is needed"),
    "several numbers": (pullback.laplacian, torch.sin, {}, ValueError, "one number is"),
    "for each sample": (
        pullback.laplacian,
        torch.sin,
        {"batched": True},
        ValueError,
        r"shape \(2, 3\); \(B,\), a number for each",
    ),
    "no samples": (
        pullback.divergence,
        torch.sin,
        {"samples": 0},
        ValueError,
        "samples is 0",
    ),
    "half": (
        pullback.divergence,
        torch.sin,
        {"samples": 0.5},
        ValueError,
        "samples is 0.5",
    ),
    "two inputs": (pullback.diagonal, torch.sin, {"argnums": (0,)}, TypeError, "argnums"),
    "complex": (pullback.diagonal, lambda x: x * 1j, {}, TypeError, "complex"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    function, f, options, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function(f, numbers(2, 3), **options)


def test_of_a_tensor_that_is_computed():
    x = numbers(2, 3).requires_grad_()
    y, u = mixed(x), height(x)
    close(pullback.diagonal(y, x), pullback.diagonal(mixed, x))
    close(pullback.divergence(y, x), pullback.divergence(mixed, x))
    close(pullback.laplacian(u, x), pullback.laplacian(height, x))
    with torch.no_grad():
        close(pullback.laplacian(u, x), pullback.laplacian(height, x))
    found = pullback.laplacian(u, x, samples=4, generator=torch.manual_seed(0))
    again = pullback.laplacian(height, x, samples=4, generator=torch.manual_seed(0))
    close(found.value, again.value)
    assert x.grad is None
    y.sum().backward()  # whose graph is still there
    with pytest.raises(ValueError, match=r"y has shape \(\) and inputs\[0\]"):
        pullback.diagonal(u, x)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
@pytest.mark.parametrize("computed", [False, True])
def test_a_number_for_each_sample(shape, computed):
    X = numbers(5, 6).requires_grad_()

    def u(X):
        return (X**3).prod(1).reshape(shape)

    expected = torch.stack([pullback.laplacian(lambda x: (x**3).prod(), x) for x in X])
    close(pullback.laplacian(u(X) if computed else u, X, batched=True), expected)


def test_laplacian_of_samples_asks_for_batched():
    with pytest.raises(ValueError, match=r"shape \(5, 1\); one number.*batched=True"):
        pullback.laplacian(lambda X: X.sum(1, keepdim=True), numbers(5, 6))
    with pytest.raises(ValueError, match=r"shape \(5, 6\); \(B,\), a number"):
        pullback.laplacian(torch.sin, numbers(5, 6), batched=True)


def of_a_dict(p):
    return {"a": p["a"] * p["b"].sum(), "b": p["b"] ** 2 + p["a"].prod()}


P = {
    "a": torch.tensor([1.0, 2.0], dtype=torch.float64),
    "b": torch.tensor([[3.0], [-1.0], [2.0]], dtype=torch.float64),
}


def test_of_dicts():
    found = pullback.diagonal(of_a_dict, P)
    close(found, {"a": P["b"].sum().expand(2), "b": 2 * P["b"]})
    close(pullback.divergence(of_a_dict, P), sum(t.sum() for t in found.values()))
    estimate = pullback.diagonal(of_a_dict, P, samples=4000)
    assert estimate.value.keys() == estimate.error.keys() == P.keys()
    for name in P:
        gap = (estimate.value[name] - found[name]).abs()
        assert (gap <= 5 * estimate.error[name] + 1e-12).all()
    with pytest.raises(ValueError, match=r"has shape \(3, 1\), \(2,\) and inputs"):
        pullback.diagonal(lambda p: {"a": p["b"], "b": p["a"]}, P)


def test_laplacians_by_parameters():
    torch.manual_seed(0)  # which weights is no matter
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)
    ).double()
    x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
    params = dict(model.named_parameters())

    def loss(params):
        return (torch.func.functional_call(model, params, (x,)) ** 2).sum()

    H = pullback.hessian(loss, params)
    trace = sum(H[name][name].reshape(p.numel(), -1).trace() for name, p in params.items())
    close(pullback.laplacian(loss, params), trace)
    close(pullback.laplacian(loss(params), params), trace)
    for f in (loss, loss(params)):
        found = pullback.laplacian(f, params, samples=500)
        assert (found.value - trace).abs() <= 5 * found.error
    assert all(p.grad is None for p in params.values())

    def each(x):
        return x["a"][:, 0] ** 3 * x["b"].prod(1) ** 2

    X = {"a": x[:, :1], "b": x}
    close(
        pullback.laplacian(each, X, batched=True),
        torch.stack(
            [
                pullback.laplacian(lambda s: each(s).sum(), one)
                for one in ({k: t[i : i + 1] for k, t in X.items()} for i in range(2))
            ]
        ),
    )


def ring(x):
    return x.roll(1) * x.sin() + x.roll(-1)


def test_a_plan_makes_the_diagonal_of_few_products():
    x = torch.linspace(-1, 1, 20_000, dtype=torch.float64)
    plan = pullback.sparsity(ring, x, mode="reverse")
    seeds = []
    gradient = noting(seeds)
    expected = x.roll(1) * x.cos()
    found = pullback.diagonal(lambda x: gradient.apply(ring(x)), x, plan=plan)
    close(found, expected)
    assert 1 <= len(seeds) <= plan.n_colors <= 4
    close(pullback.divergence(ring, x, plan=plan), expected.sum())
    y = x.clone().requires_grad_()
    total = pullback.divergence(ring(y), y, plan=plan)
    (slope,) = torch.autograd.grad(total, y)
    close(slope, x.cos().roll(-1) - x.roll(1) * x.sin())


def test_a_plan_makes_the_laplacian_of_few_products():
    def energy(x):
        return (x.roll(1) * x**2).sum()

    x = torch.linspace(-1, 1, 60, dtype=torch.float64)
    plan = pullback.sparsity(energy, x, hessian=True)
    close(pullback.laplacian(energy, x, plan=plan), 2 * x.sum())

    def each(X):
        return X[:, 0] ** 2 * X[:, 1]

    X = x.reshape(30, 2)
    plan = pullback.sparsity(lambda X: each(X).sum(), X, hessian=True)
    close(pullback.laplacian(each, X, batched=True, plan=plan), 2 * X[:, 1])


def test_plans_that_do_not_fit():
    x = torch.ones(4)
    plan = pullback.sparsity(ring, x)
    curved = pullback.sparsity(lambda x: (x**3).sum(), x, hessian=True)
    for kind, error, message, ask in (
        ("diagonal", ValueError, "samples and plan", {"plan": plan, "samples": 2}),
        ("diagonal", TypeError, "plan is a Tensor", {"plan": x}),
        ("divergence", ValueError, "hessian=False is needed", {"plan": curved}),
        ("divergence", ValueError, "samples and plan", {"plan": plan, "samples": 2}),
    ):
        with pytest.raises(error, match=message):
            getattr(pullback, kind)(ring, x, **ask)
    with pytest.raises(ValueError, match="hessian=True is needed"):
        pullback.laplacian(lambda x: (x**3).sum(), x, plan=plan)
    with pytest.raises(ValueError, match=r"argnums is 1 and the plan is for inputs\[0\]"):
        pullback.diagonal(lambda x, y: ring(x) + y, x, x, argnums=1, plan=plan)
    short = pullback.sparsity(lambda x: x[1:], x)
    with pytest.raises(ValueError, match="the same shape is needed for a diagonal"):
        pullback.diagonal(lambda x: x[1:], x, plan=short)
