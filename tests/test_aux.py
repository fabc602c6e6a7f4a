"""What f returns beside its output: handed through, at its inputs, once."""

import functools
import gc
import weakref

import pytest
import torch
from functions import numbers

import pullback

close = torch.testing.assert_close
X = numbers(2, 3)


def loss(x, factor=1.0):
    return factor * (x**3).sum(), {"square": x**2, "name": "cubes"}


def vector(x):
    return x**3, (x.exp(), 7)


def test_beside_second_derivatives():
    H, aux = pullback.hessian(loss, X, has_aux=True)
    close(H, pullback.hessian(lambda x: loss(x)[0], X))
    close(aux["square"], X**2)
    assert aux["name"] == "cubes"
    assert not aux["square"].requires_grad
    found, aux = pullback.hvp(loss, X, u=X, has_aux=True)
    close(found, 6 * X * X)
    close(aux["square"], X**2)


def test_beside_products():
    found, aux = pullback.vjp(vector, X, v=X.cos(), has_aux=True)
    close(found, 3 * X**2 * X.cos())
    close(aux, (X.exp(), 7))
    found, aux = pullback.jvp(vector, X, u=X.cos(), has_aux=True)
    close(found, 3 * X**2 * X.cos())
    close(aux, (X.exp(), 7))
    assert not aux[0].requires_grad
    x = X.clone().requires_grad_()
    aux = pullback.vjp(vector, x, v=X, has_aux=True)[1]
    close(torch.autograd.grad(aux[0].sum(), x)[0], X.exp())  # as y would be


def test_beside_operators():
    J, aux = pullback.jacobian_operator(vector, X, has_aux=True)
    close(aux, (X.exp(), 7))
    close(J @ X, 3 * X**3)
    close(J.T @ X, 3 * X**3)
    close(aux, (X.exp(), 7))  # f ran with tangents since, and this is as it was
    H, aux = pullback.hessian_operator(loss, X, has_aux=True)
    close(H @ X, 6 * X**2)
    assert aux["name"] == "cubes"
    assert not aux["square"].requires_grad
    half = lambda y: (y**2).sum() / 2  # noqa: E731
    G, aux = pullback.gauss_newton_operator(vector, X, loss=half, has_aux=True)
    close(G @ X, 9 * X**5)
    close(aux, (X.exp(), 7))


def test_an_operator_does_not_gather_what_is_beside():
    seen = []

    def f(x):
        seen.append(weakref.ref(x))
        return x**2, x

    J, _ = pullback.jacobian_operator(f, X, has_aux=True)
    for _ in range(5):
        J @ X
    gc.collect()
    assert sum(ref() is not None for ref in seen) <= 2 < len(seen)


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_beside_a_sparse_jacobian(mode):
    plan = pullback.sparsity(vector, X, mode=mode, has_aux=True)
    close(plan.pattern.to_dense(), torch.eye(6).bool())
    J, aux = plan.jacobian(vector, X, has_aux=True)
    close(J.to_dense(), (3 * X**2).flatten().diag())
    close(aux, (X.exp(), 7))
    assert not aux[0].requires_grad
    y, J, aux = plan.value_and_jacobian(vector, X, has_aux=True)
    close(y, X**3)
    close(aux, (X.exp(), 7))


def test_beside_a_sparse_hessian():
    plan = pullback.sparsity(loss, X, hessian=True, has_aux=True)
    H, aux = plan.hessian(loss, X, has_aux=True)
    close(H.to_dense(), (6 * X).flatten().diag())
    close(aux["square"], X**2)
    assert not aux["square"].requires_grad


@pytest.mark.parametrize("how", ["exact", "samples", "plan"])
def test_beside_diagonals(how):
    options, of_hessian = {}, {}
    if how == "samples":
        options = of_hessian = {"samples": 1}  # exact, for they are diagonal
    if how == "plan":
        options["plan"] = pullback.sparsity(vector, X, has_aux=True)
        of_hessian["plan"] = pullback.sparsity(loss, X, hessian=True, has_aux=True)
    for ask, f, given, expected in (
        (pullback.diagonal, vector, options, 3 * X**2),
        (pullback.divergence, vector, options, (3 * X**2).sum()),
        (pullback.laplacian, loss, of_hessian, (6 * X).sum()),
    ):
        found, aux = ask(f, X, has_aux=True, **given)
        close(found.value if how == "samples" else found, expected)
        if f is loss:
            close(aux["square"], X**2)
        else:
            close(aux, (X.exp(), 7))


def test_keywords_go_through_partial():
    twice = functools.partial(loss, factor=2.0)
    H, _ = pullback.hessian(twice, X, has_aux=True)
    close(H, 2 * pullback.hessian(lambda x: loss(x)[0], X))
    close(pullback.hvp(twice, X, u=X, has_aux=True)[0], 12 * X * X)


def squares(w, x):
    error = x @ w - 1
    return error**2, {"error": error}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_beside_gradients_of_samples(one_by_one):
    def f(w, x):
        if one_by_one:
            float(x[0])  # which vmap cannot do
        return squares(w, x)

    w = numbers(3)
    found, aux = pullback.per_sample_gradients(f, w, X, has_aux=True)
    close(found, 2 * (X @ w - 1)[:, None] * X)
    close(aux, {"error": X @ w - 1})


@pytest.mark.parametrize(
    "ask",
    [
        lambda f: pullback.hessian(f, X, has_aux=True),
        lambda f: pullback.hvp(f, X, u=X, has_aux=True),
        lambda f: pullback.vjp(f, X, v=X, has_aux=True),
        lambda f: pullback.jvp(f, X, u=X, has_aux=True),
        lambda f: pullback.jacobian_operator(f, X, has_aux=True),
        lambda f: pullback.sparsity(f, X, has_aux=True),
        lambda f: pullback.sparsity(f, X).jacobian(f, X, has_aux=True),
        lambda f: pullback.sparsity(f, X, hessian=True).hessian(f, X, has_aux=True),
        lambda f: pullback.divergence(f, X, has_aux=True),
        lambda f: pullback.per_sample_gradients(lambda w, x: f(w), X, X, has_aux=True),
    ],
)
def test_what_is_no_pair_is_refused(ask):
    with pytest.raises(TypeError, match="f returned Tensor and has_aux is True"):
        ask(lambda x: x.sum())


def test_a_tensor_has_nothing_beside_it():
    x = X.clone().requires_grad_()
    y = (x**3).sum()
    with pytest.raises(TypeError, match="f is Tensor and has_aux is True"):
        pullback.hvp(y, x, u=X, has_aux=True)
