"""Products and operators, held against the dense Jacobian and Hessian of torch."""

import logging

import numpy as np
import pytest
import torch
from functions import OldSquare, Square, numbers
from torch.func import functional_call

import pullback

close = torch.testing.assert_close


def f(x):
    return torch.stack([x.sum(), (x**3).sum(), x.prod()])


def energy(x):
    return (x[0] * x[1:] ** 3).sum() + x.prod()


X, U, V = numbers(2, 2), numbers(2, 2).cos(), numbers(3).sin()
J = torch.func.jacrev(f)(X).reshape(3, 4)


def test_products_are_those_with_the_jacobian():
    close(pullback.vjp(f, X, v=V), (V @ J).reshape(2, 2))
    close(pullback.jvp(f, X, u=U), J @ U.flatten())


def test_products_of_a_computed_tensor_leave_grad_alone():
    a = X.clone().requires_grad_()
    y = f(a)
    a.grad = torch.full_like(a, 7.0)
    close(pullback.vjp(y, a, v=V), (V @ J).reshape(2, 2))
    close(pullback.jvp(y, a, u=U), J @ U.flatten())
    assert torch.equal(a.grad, torch.full_like(a, 7.0))
    y.sum().backward()  # the graph is still there


def test_a_tangent_finds_its_way_without_a_rule():
    x = numbers(3)
    u = numbers(3).cos()
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.jvp(OldSquare.apply, (x,), (u,))
    close(pullback.jvp(OldSquare.apply, x, u=u), 2 * x * u)


def test_products_keep_the_structure_of_outputs_and_of_inputs():
    def g(p, x):
        return {"a": x @ p["w"], "b": p["b"].sum() * x.sum()}

    p, x = {"w": numbers(3, 2), "b": numbers(2)}, numbers(4, 3)
    v = {"a": numbers(4, 2), "b": torch.tensor(2.0, dtype=torch.float64)}
    expected = torch.func.vjp(lambda p: g(p, x), p)[1](v)[0]
    close(pullback.vjp(g, p, x, v=v), expected)
    both = pullback.vjp(g, p, x, v=v, argnums=(0, 1))
    close(both, torch.func.vjp(g, p, x)[1](v))
    u = {"w": numbers(3, 2).sin(), "b": numbers(2).sin()}
    close(pullback.jvp(g, p, x, u=u), torch.func.jvp(lambda p: g(p, x), (p,), (u,))[1])


def test_hvp_is_the_hessian_times_u():
    x, u = numbers(5), numbers(5).cos()
    close(pullback.hvp(energy, x, u=u), torch.func.hessian(energy)(x) @ u)


def test_hvp_through_a_function_in_the_old_form():
    def g(x):
        return (OldSquare.apply(x) * x).sum()

    x, u = numbers(4), numbers(4).cos()
    close(pullback.hvp(g, x, u=u), 6 * x * u)


def test_hvp_of_what_is_linear_or_constant_is_zero():
    x = numbers(3)
    for g in (torch.sum, lambda x: torch.ones(()) * 3):
        close(pullback.hvp(g, x, u=x), torch.zeros_like(x))


def test_products_are_differentiable_again():
    x, u = numbers(3), numbers(3).cos()
    third = torch.func.jacrev(torch.func.hessian(torch.prod))(x)
    found = pullback.jacobian(lambda x: pullback.hvp(torch.prod, x, u=u), x)
    close(found, torch.einsum("ijk,j->ik", third, u))
    J = pullback.jacobian(lambda x: pullback.vjp(torch.square, x, v=u), x)
    close(J, torch.diag(2 * u))
    leaf = x.clone().requires_grad_()
    assert pullback.jvp(torch.square, leaf, u=u).requires_grad
    with torch.no_grad():
        assert not pullback.jvp(torch.square, leaf, u=u).requires_grad
        assert not pullback.vjp(torch.square, leaf, v=u).requires_grad
        assert not pullback.hvp(torch.prod, leaf, u=u).requires_grad


def test_operators_multiply_from_both_sides():
    operator = pullback.jacobian_operator(f, X)
    assert operator.shape == (3, 4)
    assert operator.T.shape == (4, 3)
    close(operator @ U, J @ U.flatten())
    close(operator.T @ V, (V @ J).reshape(2, 2))
    close(operator.T.T @ U, operator @ U)
    assert repr(operator) == (
        "Operator of shape (3, 4): J, from x of shape (2, 2) to y of shape (3,)"
    )
    assert repr(operator.T).startswith(
        "Operator of shape (4, 3): J.T, from y of shape (3,)"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scipy_sees_the_matrix(dtype):
    operator = pullback.jacobian_operator(f, X.to(dtype)).to_scipy()
    assert operator.dtype == np.dtype(str(dtype).removeprefix("torch."))
    np.testing.assert_allclose(operator @ np.eye(4), J.numpy(), rtol=1e-5)
    np.testing.assert_allclose(operator.T @ np.eye(3), J.T.numpy(), rtol=1e-5)


def test_newtons_step_with_conjugate_gradients():
    from scipy.sparse.linalg import cg

    def convex(x):
        return (x**4).sum() + (x.diff() ** 2).sum()

    x = numbers(6)
    g = torch.func.grad(convex)(x)
    H = pullback.hessian_operator(convex, x)
    step, failed = cg(H.to_scipy(), -g.numpy(), rtol=1e-10)
    assert failed == 0
    close(torch.from_numpy(step), torch.linalg.solve(torch.func.hessian(convex)(x), -g))
    close(H.T @ x, H @ x)


def network():
    torch.manual_seed(0)  # any
    layers = [torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)]
    return torch.nn.Sequential(*layers).double()


def as_rows(tree, like, rows):
    return torch.cat([tree[k].reshape(rows, -1) for k in like], 1)


def test_gauss_newton_of_a_network_and_its_loss():
    net, x, labels = network(), numbers(5, 3), torch.tensor([0, 1, 1, 0, 1])
    p = {k: v.detach() for k, v in net.named_parameters()}
    u = {k: v.cos() for k, v in p.items()}

    def outputs(p):
        return functional_call(net, p, (x,))

    def loss(y):
        return torch.nn.functional.cross_entropy(y, labels)

    G = pullback.gauss_newton_operator(outputs, p, loss=loss)
    Jp = as_rows(torch.func.jacrev(outputs)(p), p, 10)
    H = torch.func.hessian(loss)(outputs(p)).reshape(10, 10)
    flat = torch.cat([u[k].flatten() for k in p])
    found = G @ u
    assert list(found) == list(p)
    close(torch.cat([found[k].flatten() for k in p]), Jp.T @ H @ Jp @ flat)


BAD = {
    "another shape": (X.flatten(), ValueError, r"u has shape \(4,\) and x has shape"),
    "no tensor": ([[1.0, 0.0], [0.0, 1.0]], ValueError, "u is a list and x is a Tensor"),
    "a number": (3.0, TypeError, "u is a float; a tensor"),
    "a dict": ({"x": X}, ValueError, "u is a dict of 1 tensor and x is a Tensor"),
    "complex": (X * 1j, TypeError, "u has dtype torch.complex128"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("product", [pullback.jvp, pullback.hvp])
def test_bad_directions(case, product):
    u, error, message = BAD[case]
    with pytest.raises(error, match=message):
        product(f if product is pullback.jvp else torch.sum, X, u=u)


def test_bad_calls():
    with pytest.raises(ValueError, match=r"v has shape \(2, 2\) and y has shape \(3,\)"):
        pullback.vjp(f, X, v=X)
    with pytest.raises(ValueError, match=r"output of f has shape \(3,\); one number"):
        pullback.hvp(f, X, u=X)
    with pytest.raises(TypeError, match="complex"):
        pullback.vjp(lambda x: x * 1j, X, v=X)
    with pytest.raises(TypeError, match="int64"):
        pullback.jvp(f, torch.arange(3), u=X)
    with pytest.raises(RuntimeError, match=r"torch\.func transform"):
        torch.func.vmap(lambda x: pullback.vjp(torch.square, x, v=x))(X)


def test_a_direction_of_another_precision_is_taken_in_that_of_x():
    found = pullback.jvp(f, X, u=U.half())
    close(found, J @ U.half().double().flatten())


# --- one gradient a sample ------------------------------------------------------------


def squared(p, x, y):
    return ((x @ p["w"] + p["b"] - y) ** 2).sum()


P = {"w": numbers(3, 2), "b": numbers(2)}
XS, YS = numbers(5, 3), numbers(5, 2).cos()


def loop(loss, p, *batch):
    each = [torch.func.grad(loss)(p, *sample) for sample in zip(*batch, strict=True)]
    return {k: torch.stack([g[k] for g in each]) for k in p}


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_gradient_for_each_sample(chunk_size):
    found = pullback.per_sample_gradients(squared, P, XS, YS, chunk_size=chunk_size)
    close(found, loop(squared, P, XS, YS))


def test_samples_that_vmap_cannot_take_together_go_one_by_one(caplog):
    def loss(p, x, y):
        return OldSquare.apply(x @ p["w"] + p["b"] - y).sum()

    with caplog.at_level(logging.INFO, "pullback"):
        found = pullback.per_sample_gradients(loss, P, XS, YS)
    close(found, loop(squared, P, XS, YS))
    assert "one by one" in caplog.text


def test_of_parameters_that_require_grad_nothing_is_written():
    net = network()
    p = dict(net.named_parameters())

    def loss(p, x, y):
        return ((functional_call(net, p, (x,)) - y) ** 2).sum()

    found = pullback.per_sample_gradients(loss, p, XS, YS)
    assert all(t.grad is None for t in p.values())
    net.zero_grad()
    ((net(XS) - YS) ** 2).sum().backward()
    for name, t in p.items():
        close(found[name].sum(0), t.grad)
        assert not found[name].requires_grad


def test_bad_batches():
    with pytest.raises(TypeError, match="no batch was given"):
        pullback.per_sample_gradients(squared, P)
    with pytest.raises(ValueError, match=r"first dimensions \(4,\), \(5,\)"):
        pullback.per_sample_gradients(squared, P, XS, YS[:4])
    with pytest.raises(ValueError, match=r"loss of one sample has shape \(2,\)"):
        pullback.per_sample_gradients(lambda p, x: x @ p["w"], P, XS)


class LosesTangents(Square):
    """The square, whose JVP is zero."""

    @staticmethod
    def jvp(ctx, t):
        return 0 * t


def test_lost_tangents_give_no_zeros():
    x = torch.tensor([1.0, 2.0])
    J = pullback.jacobian_operator(LosesTangents.apply, x)
    assert (J @ torch.tensor([1.0, 1.0])).tolist() == [2, 4]
    assert (J @ torch.zeros(2)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="tangents are lost"):
        pullback.jacobian(LosesTangents.apply, x, mode="forward")
    assert pullback.jvp(lambda x: x.round(), x, u=x).tolist() == [0, 0]


def test_flat_vectors_take_one_tensor_after_the_other():
    x, z = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[4.0, 5.0]])
    J = pullback.jacobian_operator(
        lambda x, z: {"sum": x.sum() + z.sum(), "square": x**2}, x, z, argnums=(0, 1)
    )
    matrix = J.to_scipy() @ torch.eye(5).numpy()
    expected = [[1, 1, 1, 1, 1], [2, 0, 0, 0, 0], [0, 4, 0, 0, 0], [0, 0, 6, 0, 0]]
    assert matrix.tolist() == expected
    assert (J.T.to_scipy() @ torch.eye(4).numpy()).T.tolist() == expected


@pytest.mark.parametrize("name", ["J", "J.T", "H", "G", "SciPy"])
def test_an_operator_notices_that_parameters_were_stepped(name):
    p = {"w": numbers(3, 2), "b": numbers(2)}
    x = numbers(4, 3)

    def model(p, x):
        return torch.tanh(x @ p["w"] + p["b"])

    def loss(y):
        return (y**4).sum()

    G = pullback.gauss_newton_operator(model, p, x, loss=loss)
    made = {
        "J": (pullback.jacobian_operator(model, p, x), p),
        "J.T": (pullback.jacobian_operator(model, p, x).T, model(p, x)),
        "H": (pullback.hessian_operator(lambda p, x: loss(model(p, x)), p, x), p),
        "G": (G, p),
        "SciPy": (G.to_scipy(), np.ones(8)),
    }
    operator, u = made[name]
    operator @ u
    p["b"].add_(1)
    with pytest.raises(
        RuntimeError, match=r"inputs\[0\]\['b'\] was changed in place after"
    ):
        operator @ u


class InNumPy(Square):
    """The square, whose backward torch does not see."""

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(2 * x.detach().numpy()) * v.detach()


class Flat(Square):
    """A step, of which all derivatives are zero."""

    @staticmethod
    def backward(ctx, v):
        return torch.zeros(v.shape, dtype=v.dtype)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, v):
        return 2 * v


@pytest.mark.parametrize("through", [torch.sin, torch.sum])
def test_hvp_finds_a_backward_that_hides_what_it_computes(through):
    def total(x):
        return through(InNumPy.apply(x)).sum()

    x, u = numbers(3), numbers(3).cos()
    with pytest.raises(
        RuntimeError, match=r"the backward of InNumPy computes out of sight"
    ):
        pullback.hvp(total, x, u=u)
    a = x.clone().requires_grad_()
    with pytest.raises(
        RuntimeError, match=r"the backward of InNumPy computes out of sight"
    ):
        pullback.hessian_operator(total(a), a)


@pytest.mark.parametrize("function", [Flat, Doubled])
def test_hvp_where_a_functions_second_derivative_is_zero(function):
    x, u = numbers(3), numbers(3).cos()
    close(pullback.hvp(lambda x: function.apply(x).sum(), x, u=u), torch.zeros_like(x))


@pytest.mark.parametrize("kind", ["of vectors", "of signals"])
def test_batch_norm_in_training_has_no_gradient_of_a_sample(kind):
    first = {
        "of vectors": torch.nn.Linear(4, 3),
        "of signals": torch.nn.Conv1d(2, 3, 1),
    }[kind]
    model = torch.nn.Sequential(first, torch.nn.BatchNorm1d(3))
    x = torch.randn(5, 4) if kind == "of vectors" else torch.randn(5, 2, 6)
    p = dict(model.named_parameters())

    def loss(p, x):
        return functional_call(model, p, (x[None],)).pow(2).sum()

    with pytest.raises(ValueError, match=r"loss runs BatchNorm1d in training mode.*eval"):
        pullback.per_sample_gradients(loss, p, x)
    model(x)  # where it still works
    model.eval()
    found = pullback.per_sample_gradients(loss, p, x)
    close(found, loop(loss, p, x))
    model.train()  # but it is not run

    def beside(p, x):
        assert model.training
        return (p["1.weight"].sum() * x).sum()

    pullback.per_sample_gradients(beside, p, x)
