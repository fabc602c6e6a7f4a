"""Functions whose backward has no derivative of its own: no zeros in its place."""

import logging

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable

import pullback

close = torch.testing.assert_close
X = torch.linspace(-1, 1, 6, dtype=torch.float64).mul(5).sin().reshape(2, 3)
U = X.cos()


class Doubled(torch.autograd.Function):
    """Twice x, in the old form."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @once_differentiable
    def backward(ctx, v):
        return 2 * v


class ByNumPy(torch.autograd.Function):
    """Twice x, whose backward torch does not see."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, v):
        return torch.from_numpy(2 * np.asarray(v.detach()))


class Part(torch.nn.Module):
    """A function that is only in part by a backward without a derivative."""

    def __init__(self, hidden):
        super().__init__()
        self.hidden = hidden

    def forward(self, x):
        return self.hidden(x.sin()) + x**3


FUNCTIONS = {
    "once": Doubled.apply,
    "NumPy": ByNumPy.apply,
    "once, in part": Part(Doubled.apply),
    "NumPy, in part": Part(ByNumPy.apply),
    "cdist": lambda x: torch.cdist(x, X.exp()),
}


def jacobian(f):
    return torch.stack([by_row(f, i) for i in range(f(X).numel())])


def by_row(f, i):
    x = X.clone().requires_grad_()
    return torch.autograd.grad(f(x).flatten()[i], x)[0].flatten()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian_vector_products_find_a_way(name, caplog):
    f = FUNCTIONS[name]
    J = jacobian(f)
    with caplog.at_level(logging.INFO, "pullback"):
        found = pullback.jvp(f, X, u=U)
    close(found.flatten(), J @ U.flatten())
    if name != "cdist":  # which newer torch differentiates
        assert "from all rows of J" in caplog.text
    close((pullback.jacobian_operator(f, X) @ U).flatten(), J @ U.flatten())
    loss = {"loss": lambda y: (y**2).sum() / 2}
    G = pullback.gauss_newton_operator(f, X, **loss)
    close((G @ U).flatten(), J.T @ J @ U.flatten())
    x = X.clone().requires_grad_()
    close(pullback.jvp(f(x), x, u=U), found)


@pytest.mark.parametrize("name", ["once", "once, in part"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda f: pullback.hessian(f, X),
        lambda f: pullback.hvp(f, X, u=U),
        lambda f: pullback.laplacian(f, X),
        lambda f: pullback.laplacian(f, X, samples=2),
        lambda f: pullback.hessian_operator(f, X),
        lambda f: pullback.sparsity(f, X, hessian=True).hessian(f, X),
        lambda f: pullback.jacobian(lambda x: pullback.jacobian(f, x), X),
    ],
)
def test_second_derivatives_are_refused_and_not_zero(name, ask):
    def f(x):
        return (FUNCTIONS[name](x) ** 3).sum()

    pullback.jacobian(f, X)  # which has one
    with pytest.raises(RuntimeError, match="marked with once_differentiable"):
        ask(f)


def test_of_a_loss_that_is_computed():
    x = X.clone().requires_grad_()
    loss = (Doubled.apply(x) ** 3).sum()
    for ask in (pullback.hessian, pullback.laplacian, pullback.hessian_operator):
        with pytest.raises(RuntimeError, match="marked with once_differentiable"):
            ask(loss, x)


def test_what_is_not_cut_is_differentiated_twice():
    scale = Doubled.apply(torch.ones(2, 3, dtype=torch.float64))  # of a constant
    H = pullback.hessian(lambda x: (scale * x**2).sum(), X)
    close(H.reshape(6, 6), 4 * torch.eye(6, dtype=H.dtype))
