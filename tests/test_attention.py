"""Second derivatives and Jacobian-vector products where attention is fused."""

import logging

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import pullback

close = torch.testing.assert_close
X = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(1, 1, 6, 4).mul(5).sin()
U = X.cos()


def attention(x):
    return scaled_dot_product_attention(x, x.sin(), x.cos())


def energy(x):
    return (attention(x) ** 2).sum()


@pytest.fixture
def plain():
    """Return H and J by attention in plain operations."""
    with sdpa_kernel(SDPBackend.MATH):
        yield torch.func.hessian(energy)(X), torch.func.jacrev(attention)(X)


def flat(t, n=24):
    return t.detach().reshape(n, n)


def test_hessians(plain, caplog):
    H = flat(plain[0])
    with caplog.at_level(logging.INFO, "pullback"):
        close(flat(pullback.hessian(energy, X)), H)
    if _is_fused():
        assert "attention runs in plain operations" in caplog.text
    Hu = (H @ U.flatten()).reshape(X.shape)
    close(pullback.hvp(energy, X, u=U), Hu)
    operator = pullback.hessian_operator(energy, X)
    for _ in range(2):
        close(operator @ U, Hu)
    close(pullback.laplacian(energy, X), H.trace())
    plan = pullback.sparsity(energy, X, hessian=True)
    close(plan.hessian(energy, X).to_dense(), H)


def test_jacobian_vector_products(plain):
    J = flat(plain[1])
    close(pullback.jvp(attention, X, u=U), (J @ U.flatten()).reshape(X.shape))
    operator = pullback.jacobian_operator(attention, X)
    close((operator @ U).flatten(), J @ U.flatten())
    half = pullback.gauss_newton_operator(attention, X, loss=lambda y: (y**2).sum() / 2)
    close((half @ U).flatten(), J.T @ J @ U.flatten())


def test_the_kernels_are_those_of_the_caller_afterwards():
    before = _is_fused()
    pullback.hvp(energy, X, u=U)
    assert _is_fused() == before


def test_other_errors_stay():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, v):
            return v * 2

    with pytest.raises(RuntimeError, match="once_differentiable"):
        pullback.hvp(lambda x: Once.apply(x).prod(), X, u=U)


def test_of_a_loss_that_is_computed_torch_says_why():
    x = X.clone().requires_grad_()
    if not _is_fused():
        pytest.skip("this torch has no fused kernel here")
    with pytest.raises(RuntimeError, match="scaled_dot_product"):
        pullback.hvp(energy(x), x, u=U)


def _is_fused():
    x = X.clone().requires_grad_()
    return "scaled_dot_product" in attention(x).grad_fn.name().lower() or "Scaled" in (
        attention(x).grad_fn.name()
    )
