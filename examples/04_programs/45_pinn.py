r"""
.. _pinn:

A network that solves a differential equation (PINN)
====================================================

The loss of a *physics-informed network* contains derivatives of the network with respect
to its *input*, at all points at once. Each is one call with ones as ``v``. With
``create_graph=True`` you can differentiate it again, and train on it. If the network gets
place and time, keep them as two tensors of shape ``(N, 1)``. For the heat equation
:math:`u_t=u_{xx}`:
"""

import torch
from torch import nn

torch.manual_seed(0)  # the same network and points on every build
model = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 1))
x, t = torch.rand(1000, 1, requires_grad=True), torch.rand(1000, 1, requires_grad=True)

u = model(torch.cat([x, t], dim=1))
ones = torch.ones_like(u)
u_x, u_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
(u_xx,) = torch.autograd.grad(u_x, x, ones, create_graph=True)
loss = (u_t - u_xx).square().mean()
loss.backward()
print(u_x.shape, u_xx.shape, (model[0].weight.grad != 0).all())

# %%
# If your points are one tensor of shape ``(N, 2)``, cut the columns out of the *first
# derivative*, and differentiate one column. Do not differentiate both with
# ``torch.ones_like(slopes)``, which gives :math:`u_{xx}+u_{xt}` and no error:

xt = torch.cat([x, t], dim=1).detach().requires_grad_()
(slopes,) = torch.autograd.grad(model(xt), xt, ones, create_graph=True)  # u_x, u_t
(bends,) = torch.autograd.grad(slopes[:, :1], xt, ones, create_graph=True)  # u_xx, u_xt
(added,) = torch.autograd.grad(slopes, xt, torch.ones_like(slopes), create_graph=True)
print("bends[:, :1] is u_xx: ", torch.allclose(bends[:, :1], u_xx, atol=1e-5))
print("with ones for both:   ", torch.allclose(added[:, :1], u_xx, atol=1e-5))
assert torch.allclose(added[:, 0], bends.sum(1), atol=1e-5)  # u_xx + u_xt

# %%
# Two derivatives at forty points
# -------------------------------
#
# A whole program now. A weight on a spring follows :math:`u''=-u`: the force that pulls it
# back is as large as its distance from the middle. If it starts at 0 with speed 1, the
# solution is :math:`u=\sin t`. Suppose that you did not know this. The network is trained
# without a single example of the solution: you choose some points in time, and measure at
# each of them how far the network is from satisfying the equation.
#
# The network gets the times as a tensor of shape ``(N, 1)`` and returns ``u`` in the same
# shape. The starting point and the speed are built in: whatever ``net`` returns, ``t +
# t**2 * net(t)`` begins at 0 with slope 1.

torch.manual_seed(0)  # the same network on every build
net = nn.Sequential(
    nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)
)


def u(t, net=net):
    return t + t**2 * net(t)


def residual(u, t, stiffness=1.0):
    """Return u'' + stiffness * u at each time: 0 wherever u obeys the equation."""
    t = t.detach().requires_grad_()
    value = u(t)
    v = torch.ones_like(value)
    (first,) = torch.autograd.grad(value, t, v, create_graph=True)
    (second,) = torch.autograd.grad(first, t, v, create_graph=True)
    return second + stiffness * value


# %%
# In both calls the ones are ``v``. The value at one time depends on no other time, so a
# ``v`` of ones gives each time its own derivative (:ref:`ones`). This is also true of the
# first derivative, and therefore a second product with ones gives :math:`u''`. Both calls
# pass ``create_graph=True``, but for different reasons. The first call needs it so that
# we can differentiate ``first`` again. The second call needs it for training, because the
# loss contains ``second``, and the gradient of the loss has to reach the weights.
#
# .. _scaled-coordinates:
#
# If the network gets t / T
# -------------------------
#
# Perhaps you divide the times by the length ``T`` of the interval first, so that the
# network sees ``s = t / T``, between 0 and 1. Then the gradient with respect to ``s`` is
# not du/dt. By the chain rule, du/ds is :math:`T` times as large as du/dt:
#
# .. math::
#
#    \frac{du}{dt}=\frac1T\,\frac{du}{ds},\qquad
#    \frac{d^2u}{dt^2}=\frac1{T^2}\,\frac{d^2u}{ds^2}
#
# If you forget this factor, there is no error. The loss becomes tiny, and the curve is
# the solution of a different equation. So ask for the gradient with respect to ``t``, and
# divide the times by ``T`` *after* ``requires_grad_()``, so that the graph contains the
# division. Or ask for the gradient with respect to ``s``, and divide this gradient by
# ``T`` yourself. The two results agree, and differ from du/ds by the factor ``T``:

T = 5.0
times = (T * torch.rand(3, 1)).requires_grad_()
s = times / T  # after requires_grad_()
value = net(s)
du_dt, du_ds = torch.autograd.grad(value, (times, s), torch.ones_like(value))
print("du/dt    ", du_dt.flatten())
print("du/ds / T", (du_ds / T).flatten())
print("du/ds    ", du_ds.flatten())
with torch.no_grad():
    nudged = (net((times + 0.05) / T) - net((times - 0.05) / T)) / 0.1
print("a nudge of t agrees with du/dt:", torch.allclose(nudged, du_dt, atol=1e-4))

# %%
# The same holds if you shift an ``x`` and divide it by a standard deviation. Then the
# standard deviation takes the place of ``T``.
#
# The training
# ------------
#
# The training itself looks like any other, except that there are no targets:

t = torch.linspace(0, 4, 40).reshape(-1, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
history = []
for step in range(600):
    optimizer.zero_grad()
    loss = residual(u, t).square().mean()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 200 == 0 or step == 599:
        print(f"step {step:3}  loss {loss.item():.5f}")

# %%
# The network has found the sine, from the equation alone. A small loss does not prove this.
# On the interval from 0 to 12 instead of 4, the same program also ends with a small loss,
# of 0.02, but at a curve that begins like the sine and then goes to zero. So train on a
# long interval in pieces. The plot compares our network with the sine:

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(7, 3))
left.plot(t, u(t).detach(), label="network")
left.plot(t, torch.sin(t), "--", label="sin t")
left.set_xlabel("t")
left.legend()
right.semilogy(history)
right.set_xlabel("step")
title = figure.suptitle("A network that solves u'' + u = 0, and its loss")

# %%
# An activation whose second derivative is zero
# ---------------------------------------------
#
# Many people write such a network with ReLU, because they use it everywhere. There is no
# error, but the network does not learn the solution.
#
# .. predict::
#    :for: the bend of a ReLU
#    :wrong: slope: This is the slope, which is the same along a piece. The second
#          derivative says how fast the slope changes.;
#       sine: This is the second derivative of the sine that we want, at its top.
#
#    A network of ReLUs is made of straight pieces. What is its second derivative at a
#    point inside a piece?

kinked = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))
s = t.clone().requires_grad_()
value = kinked(s)
(first,) = torch.autograd.grad(value, s, torch.ones_like(value), create_graph=True)
(second,) = torch.autograd.grad(first, s, torch.ones_like(first))
print(second.abs().max())

# %%
# It is 0 at every point, and PyTorch also says 0 where two pieces meet. If ``u`` is the
# network itself, the loss sees only the ``u`` in :math:`u''+u`, and so it teaches the
# network to be 0. If ``u`` is built as above, one term of the product rule is missing,
# and the network learns a curve that is neither 0 nor the sine:


def train(u, parameters, steps=300, **equation):
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        residual(u, t, **equation).square().mean().backward()
        optimizer.step()
    return u(t).detach()


def bent():
    torch.manual_seed(0)  # the same weights each time
    return nn.Sequential(
        nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1)
    )


alone, inside = bent(), bent()
learned = {
    "u = net": train(alone, alone.parameters()),
    "u = t + t² net": train(lambda t: u(t, inside), inside.parameters()),
}
for name, found in learned.items():
    off = [(found - aim).abs().max().item() for aim in (0, torch.sin(t))]
    print(f"{name:15} from 0: {off[0]:.2f}   from sin t: {off[1]:.2f}")

# %%
# So take an activation that bends, such as tanh, SiLU, or a sine.
#
# More than one input
# -------------------
#
# For two coordinates, such as ``x`` and ``y`` in the plane, one call gives both first
# derivatives, as at the top of this page. Here :math:`u=x^2y^3` stands in for a network, so
# that you can check the numbers. For a smooth u the order of a mixed derivative does not
# matter: :math:`u_{xy}=u_{yx}`. If a derivative no longer depends on an input, as
# :math:`u_x` does not depend on ``y`` for a sum like :math:`x^2+y^3`, pass
# ``materialize_grads=True``, and you get zeros for this input.

x = torch.tensor([[1.0], [3.0]], requires_grad=True)
y = torch.tensor([[2.0], [1.0]], requires_grad=True)
wave = x**2 * y**3
ones = torch.ones_like(wave)
u_x, u_y = torch.autograd.grad(wave, (x, y), ones, create_graph=True)
u_xx, u_xy = torch.autograd.grad(u_x, (x, y), ones, create_graph=True)
(u_yy,) = torch.autograd.grad(u_y, y, ones, create_graph=True)
print("u_xy    ", u_xy.flatten().tolist())  # 6 x y²
print("u_xx+u_yy", (u_xx + u_yy).flatten().tolist())  # 2 y³ + 6 x² y

# %%
# If the points come as one tensor of shape ``(N, 2)``, take one column of the first
# derivative at a time, and differentiate its sum. A ``v`` of ones over *both* columns would
# add them up and give :math:`u_{xx}+u_{xy}` where you expect :math:`u_{xx}`:


def laplacian(u, points):
    """Return the sum of the unmixed second derivatives of u at each point."""
    points = points.detach().requires_grad_()
    # A product with 0 gives the gradient of a linear u a graph as well
    whole = u(points).sum() + 0 * (points**2).sum()
    (g,) = torch.autograd.grad(whole, points, create_graph=True)
    bends = [
        torch.autograd.grad(g[:, i].sum(), points, create_graph=True)[0][:, i]
        for i in range(points.shape[1])
    ]
    return torch.stack(bends).sum(0)


points = torch.tensor([[1.0, 2.0], [3.0, 1.0]])
print(laplacian(lambda p: p[:, 0] ** 2 * p[:, 1] ** 3, points).tolist())

# %%
# This takes one product for each coordinate. In many dimensions an estimate with random
# vectors is cheaper (:ref:`trace-and-norm`).
#
# What to watch for
# -----------------
#
# - **The call for the second derivative must differentiate the first derivative.** It is
#   a common mistake to copy the first call, ``grad(value, t, v)``, and then ``u_xx`` is
#   ``u_x`` (:ref:`u-xx-is-u-x`).
# - **Points that mix.** BatchNorm in training mode, attention over the points, or a
#   convolution or FFT along them, as in a neural operator, mix the points. Then a ``v``
#   of ones adds up the derivatives of different points (:ref:`when-ones-mislead`).
#   BatchNorm in eval mode, and LayerNorm over the features of one point, keep the points
#   apart. The cell below tries the three norms.
# - **Validation under no_grad.** ``residual`` computes derivatives, and so it raises an
#   error under ``no_grad``. Call it under ``torch.enable_grad()``.
# - **Two unknowns in one output.** If the network returns :math:`u` and :math:`w` as two
#   columns, a ``v`` of ones gives the derivative of :math:`u+w`. Take one column at a time,
#   ``out[:, k].sum()``.
# - **A column that you cut out afterwards.** ``inputs[:, 0]`` is a new tensor that the
#   network has not used. Ask for the gradient with respect to ``inputs``, and take its
#   column.
#
# People say that ones add up the outputs. More precisely, ones add up each *column* of
# the :term:`Jacobian`. The result has the shape of ``t``, with one number for each point,
# and entry :math:`j` is :math:`\sum_i\partial u_i/\partial t_j`. If the points do not
# mix, only one term of this sum is not 0, namely :math:`\partial u_j/\partial t_j`, the
# derivative that you want. ``vmap`` of ``grad`` computes this derivative directly, one
# point at a time. But then a layer that mixes the points gets a single point without a
# batch. Therefore we compare with the diagonal of the whole Jacobian:


def apart(norm, training):
    torch.manual_seed(0)  # the same weights for each
    model = nn.Sequential(nn.Linear(1, 8), norm, nn.Tanh(), nn.Linear(8, 1)).train(training)
    s = torch.linspace(0, 4, 5)[:, None].requires_grad_()
    (by_ones,) = torch.autograd.grad(model(s), s, torch.ones_like(s))
    J = torch.autograd.functional.jacobian(model, s.detach())[:, 0, :, 0]
    assert by_ones.shape == s.shape
    return torch.allclose(by_ones[:, 0], J.diagonal(), atol=1e-6)


print("BatchNorm, training", apart(nn.BatchNorm1d(8), True))
print("BatchNorm, eval    ", apart(nn.BatchNorm1d(8), False))
print("LayerNorm, training", apart(nn.LayerNorm(8), True))

# %%
# .. admonition:: Try it
#
#    A stiffer spring follows :math:`u''=-4u`. Train a network for this equation. What
#    should the network find, with the same start as before?
#
# .. dropdown:: Answer
#
#    The residual is now :math:`u''+4u`, and the solution is :math:`\sin(2t)/2`. It bends
#    more often in the same time, and takes more steps to learn:

torch.manual_seed(0)
stiff = nn.Sequential(
    nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)
)
found = train(lambda t: u(t, stiff), stiff.parameters(), steps=1500, stiffness=4.0)
away = (found - torch.sin(2 * t) / 2).abs().max().item()
print(f"largest error {away:.3f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compute the residual a second time by ``vmap`` of ``grad`` of ``grad``, and the
#    derivatives at the top by ``vmap`` of ``hessian``. We compare
#    the derivatives of :math:`x^2y^3` and its Laplacian with their formulas, and the two
#    networks, from the page and from the exercise, with the solutions.

scalar = lambda t: u(t.reshape(1, 1)).squeeze()
again = torch.func.vmap(torch.func.grad(torch.func.grad(scalar)))
times = t[:, 0]
by_func = again(times) + torch.func.vmap(scalar)(times)
torch.testing.assert_close(residual(u, t)[:, 0], by_func, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(u_xy, 6 * x * y**2)
(u_yx,) = torch.autograd.grad(u_y, x, ones, retain_graph=True)
torch.testing.assert_close(u_yx, u_xy)
torch.testing.assert_close(u_xx + u_yy, 2 * y**3 + 6 * x**2 * y)
product = lambda p: p[:, 0] ** 2 * p[:, 1] ** 3
torch.testing.assert_close(laplacian(product, points), (u_xx + u_yy)[:, 0].detach())
assert not laplacian(lambda p: p.sum(1), points).any()
both = points.clone().requires_grad_()
(g,) = torch.autograd.grad(product(both).sum(), both, create_graph=True)
(added,) = torch.autograd.grad(g, both, torch.ones_like(g))
torch.testing.assert_close(added[:, 0], (u_xx + u_xy)[:, 0].detach())

of_one = torch.func.hessian(lambda p: model(p)[0])
H = torch.func.vmap(of_one)(xt.detach())
torch.testing.assert_close(bends, H[:, 0])
torch.testing.assert_close(du_dt, du_ds / T)
torch.testing.assert_close(nudged, du_dt, atol=1e-4, rtol=0)

assert not second.any()
from_zero = {name: found.abs().max() for name, found in learned.items()}
from_sine = {name: (found - torch.sin(t)).abs().max() for name, found in learned.items()}
assert from_zero["u = net"] < 0.1 < from_zero["u = t + t² net"]
assert min(from_sine.values()) > 0.1
assert (u(t) - torch.sin(t)).abs().max() < 0.1
assert history[0] > 0.1
assert history[-1] < 1e-2
assert away < 0.1

guesses = {  # wrong ones, of which the boxes above say what they are
    "slope": round(first.abs().max().item(), 2),
    "sine": -torch.sin(t).max(),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** For second derivatives step by step, read :ref:`second-derivatives`.
# :ref:`forces` applies the same idea in three dimensions, to compute forces from an energy.
# More questions about equations are answered in :ref:`answers-physics`.
#
# .. asked: PINN; physics-informed neural network; derivative of the network in a
#    differential equation; u_x and u_xx; solve an ODE with a network; PDE residual
#    loss; boundary conditions; derivative of output with respect to time; normalised
#    input, derivative by the original coordinate; heat equation with place and time;
#    second derivative comes back empty or stops; change of the change of a network;
#    the loss is small and the solution is wrong; input scaled to 0 and 1
# .. words: physics, differential equation, ode, pde, collocation, boundary, initial
#    condition, du/dt, dx/dt, heat, wave, Burgers, trivial solution, residual, rescaled,
#    chain factor, too slow curve, nondimensional
