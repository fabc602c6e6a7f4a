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


class Wrapped(Doubled):
    """Doubled, with what the decorators of torch.amp put around it."""

    forward = staticmethod(torch.amp.custom_fwd(Doubled.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Doubled.backward, device_type="cpu"))


SECOND = {
    "hessian": lambda f, x: pullback.hessian(f, x),
    "of some": lambda f, x: pullback.hessian(f, x, chunk_size=1),
    "hvp": lambda f, x: pullback.hvp(f, x, u=torch.ones_like(x)),
    "laplacian": lambda f, x: pullback.laplacian(f, x),
    "estimate": lambda f, x: pullback.laplacian(f, x, samples=2),
    "operator": lambda f, x: pullback.hessian_operator(f, x),
    "plan": lambda f, x: pullback.Sparsity.from_pattern(
        np.eye(x.numel()), input_shape=x.shape, hessian=True
    ).hessian(f, x),
    "jacobian of jacobian": lambda f, x: pullback.jacobian(
        lambda x: pullback.jacobian(f, x), x, allow_unused=True
    ),
    "jacobian of vjp": lambda f, x: pullback.jacobian(
        lambda x: pullback.vjp(f, x, v=torch.ones_like(f(x))), x, allow_unused=True
    ),
    "jacobian of jvp": lambda f, x: pullback.jacobian(
        lambda x: pullback.jvp(f, x, u=torch.ones_like(x)), x, allow_unused=True
    ),
    "backward": lambda f, x: (
        pullback.jacobian(f, x.clone().requires_grad_()).sum().backward()
    ),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("function", [Doubled, Wrapped])
@pytest.mark.parametrize("more", [False, True])
def test_of_a_sum_whose_cotangent_is_constant(name, function, more):
    def f(x):
        y = function.apply(x).sum()
        return y + (x**3).sum() if more else y

    own = f"{function.__name__} is marked with once_differentiable"
    with pytest.raises(RuntimeError, match=own):
        SECOND[name](f, X)
    x = X.clone().requires_grad_()
    if name in ("hessian", "hvp", "laplacian", "operator"):
        with pytest.raises(RuntimeError, match=own):
            SECOND[name](f(x), x)


def test_diagonals_and_plans_are_not_differentiated_wrongly():
    x = X.clone().requires_grad_()

    def f(x):
        return Doubled.apply(x) + x**3

    plan = pullback.Sparsity.from_pattern(
        np.eye(6), input_shape=(2, 3), output_shape=(2, 3)
    )
    for found in (
        pullback.diagonal(f, x),
        pullback.diagonal(f, x, samples=1).value,
        plan.jacobian(f, x).values(),
    ):
        close(found.detach().flatten(), (2 + 3 * X**2).flatten())
        with pytest.raises(RuntimeError, match="marked with once_differentiable"):
            found.sum().backward()


def test_a_mark_elsewhere_is_no_matter():
    w = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)

    def f(x):  # a parameter's, that leads to no x, and an output that is not asked for
        return (Doubled.apply(w) * x**2).sum()

    H = pullback.hessian(f, X).detach()
    close(H.reshape(6, 6), 4 * torch.eye(6, dtype=H.dtype))
    close(pullback.hvp(f, X, u=U).detach(), 4 * U)
    with torch.no_grad():
        assert not pullback.jacobian(lambda x: Doubled.apply(x), X).requires_grad
    assert not pullback.jacobian(lambda x: Doubled.apply(x), X).requires_grad


def through_cond(x):
    return torch.cond(x.sum() > 9, lambda x: x**2, lambda x: x**3, (x,))


def through_while_loop(x):
    from torch._higher_order_ops.while_loop import while_loop

    def body(i, a):
        return i + 1, a * a

    return while_loop(lambda i, a: i < 2, body, (torch.tensor(0), x))[1]


def through_scan(x):
    from torch._higher_order_ops.scan import scan

    start = torch.ones((), dtype=x.dtype)
    return scan(lambda c, e: (c * e, c * e), start, x.flatten())[1]


@pytest.mark.parametrize("loop", [through_cond, through_while_loop, through_scan])
def test_control_flow_is_refused_and_not_halved(loop):
    name = loop.__name__.removeprefix("through_")

    def f(x):
        return loop(x).sum() + (x**3).sum()

    x = X.clone().requires_grad_()
    try:
        (slope,) = torch.autograd.grad(f(x), x)
    except (ImportError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"this release has no derivative of {name}: {error}")
    known = by_differences(f, X)
    if not torch.allclose(slope, known):  # torch 2.6 leaves out a while_loop
        with pytest.raises(RuntimeError, match="would leave it out"):
            pullback.jacobian(f, X)
        return
    close(pullback.jacobian(f, X), known, rtol=1e-6, atol=1e-6)
    for ask in (pullback.hessian, pullback.hessian_operator):
        with pytest.raises(RuntimeError, match=f"the backward of {name}"):
            ask(f, X)
    if name == "cond":  # alone, whose slope has no graph at all
        with pytest.raises(RuntimeError, match=f"the backward of {name}"):
            pullback.hessian(lambda x: loop(x).sum(), X)


def by_differences(f, x):
    step, found = 1e-6, torch.zeros_like(x)
    for i in range(x.numel()):
        e = torch.zeros_like(x)
        e.view(-1)[i] = step
        found.view(-1)[i] = (f(x + e) - f(x - e)) / (2 * step)
    return found


def test_map_has_second_derivatives():
    operator = pytest.importorskip("torch._higher_order_ops.map").map

    def f(x):
        return operator(lambda r, w: (r * w).sin(), x * x, x[0] ** 2).pow(3).sum()

    def plain(x):
        return torch.stack([(r * x[0] ** 2).sin() for r in x * x]).pow(3).sum()

    try:
        close(pullback.hessian(f, X), pullback.hessian(plain, X))
    except RuntimeError as error:  # as in releases in which they would be zeros
        assert "the backward of map" in str(error)
