r"""
.. _pinn:

Derivatives of a network in a differential equation (PINN)
==========================================================

To train a network u(t) to satisfy :math:`u''+u=0`, take u' and u'' at all points with the
ones trick and ``create_graph=True``, and let the optimiser reduce the residual.
"""

# %%
# Points ``t`` of shape ``(N, 1)``, :math:`u` of the same shape. No point looks at another,
# so ``v = ones`` gives each point its own derivative, and the graphs of u' and u'' lead
# back to the weights.

import torch
from torch import nn

torch.manual_seed(0)  # the same network on every build
net = nn.Sequential(
    *(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
)


def u(t):  # u(0) = 0 and u'(0) = 1 are built in
    return t + t**2 * net(t)


# %%
# The residual, differentiated twice with ones:


def residual(t, u=u):
    t = t.detach().requires_grad_()
    value = u(t)
    ones = torch.ones_like(value)
    (first,) = torch.autograd.grad(value, t, ones, create_graph=True)
    (second,) = torch.autograd.grad(first, t, ones, create_graph=True)
    return second + value


# %%
# The mean square of the residual, in steps of Adam. The solution is :math:`\sin t`:

t = torch.linspace(0, 4, 40).reshape(-1, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
history = []
for _ in range(600):
    optimizer.zero_grad()
    loss = (residual(t) ** 2).mean()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
worst = (u(t) - torch.sin(t)).abs().max().item()
print(history[0] > 0.1, history[-1] < 1e-2, worst < 0.1)

# %%
# The solution, and the residual as it falls:

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(7, 3))
left.plot(t, u(t).detach(), label="network")
left.plot(t, torch.sin(t), "--", label="sin t")
left.legend()
right.semilogy(history)
right.set_xlabel("step")
title = figure.suptitle("A network that solves u'' + u = 0, and its falling residual")

# %%
# The same derivatives without bookkeeping: :func:`torch.func.grad` of a function of one
# number, mapped over the points:

scalar = lambda t: u(t.reshape(1, 1)).squeeze()
second = torch.func.vmap(torch.func.grad(torch.func.grad(scalar)))
points = t[:, 0].detach()
by_func = second(points) + torch.func.vmap(scalar)(points)

# %%
# In several variables the Laplacian takes one more product for each coordinate: nothing
# exact gets the diagonal of a general :term:`Hessian` for less; an estimate does
# (:ref:`trace-and-norm`). ``create_graph=True`` both times, or the network cannot learn
# from it; the zeros give the gradient of a linear f a graph:


def laplacian(f, x):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(f(x).sum() + 0 * (x**2).sum(), x, create_graph=True)
    parts = [
        torch.autograd.grad(g[:, i].sum(), x, create_graph=True)[0][:, i]
        for i in range(x.shape[1])
    ]
    return torch.stack(parts).sum(0)


bump = lambda x: x[:, 0] ** 2 * x[:, 1] ** 3
laplacian(bump, torch.tensor([[1.0, 2.0], [3.0, 1.0]]))

# %%
# *The mixed derivative* :math:`u_{xy}` *at many points* is the other column of the same
# second product, here :math:`6xy^2`. *u_xx = grad(grads, X, ones_like(grads))[0][:, 0] is
# bad*, since ones on both columns add them, to :math:`u_{xx}+u_{xy}`:

xy = torch.tensor([[1.0, 2.0], [3.0, 1.0]], requires_grad=True)
(g,) = torch.autograd.grad(bump(xy).sum(), xy, create_graph=True)
(of_x,) = torch.autograd.grad(g[:, 0].sum(), xy, retain_graph=True)
u_xx, mixed = of_x.unbind(1)
(added,) = torch.autograd.grad(g, xy, torch.ones_like(g))
print(mixed, added[:, 0], u_xx + mixed)

# %%
# *du/dx and du/dt of a network with two inputs, both (N, 1)?* Name both: one product gives
# both columns, in a tuple. ``create_graph=True``, to train on them or differentiate again.
# (A column cut out afterwards, ``inp[:, 0]``, "appears to not have been used in the graph":
# it is a new tensor. Take the column of the result, :ref:`part-of-a-tensor`. Of *two
# outputs*, u and v in one ``out``, ones give the derivative of neither, but of u + v: take
# a product for each column, ``out[:, k].sum()``, :ref:`one-component`.)

place, time = (torch.tensor([[1.0], [2.0]], requires_grad=True) for _ in range(2))
wave = bump(torch.cat([place, time], 1))
both = place, time
by_x, by_t = torch.autograd.grad(wave, both, torch.ones_like(wave), create_graph=True)
(by_x_and_t,) = torch.autograd.grad(by_x, time, torch.ones_like(by_x))
print(by_x.shape, by_t.shape, by_x_and_t.flatten())

# %%
# What goes wrong
# ---------------
#
# A network of ReLUs. Its slope is constant by pieces, so its second derivative is zero at
# every point, and no message says so. Take a smooth one, tanh, SiLU or a sine:

relu = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))
s = t.clone().requires_grad_()
(first,) = torch.autograd.grad(relu(s), s, torch.ones_like(s), create_graph=True)
(bend,) = torch.autograd.grad(first, s, torch.ones_like(s))
print(first.unique().numel() < len(t), bend.abs().max())

# %%
# What it then learns depends on how u is built. If u is the network alone, u'' is lost, the
# residual is u itself, and it teaches u = 0. With this page's
# :math:`u=t+t^2\,\mathrm{net}(t)`, the product rule leaves
# :math:`u''=2\,\mathrm{net}+4t\,\mathrm{net}'`, which lacks one term of three, and the
# network learns neither 0 nor the sine. Is it near 0, is it near the sine?

learnt, smooth = {}, net
for name in ("u = net", "u = t + t² net"):
    torch.manual_seed(0)  # the same weights for both, and on every build
    bent = (nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
    kinked = nn.Sequential(*bent)
    net = kinked  # u reads this name
    whole = kinked if name == "u = net" else u
    optimizer = torch.optim.Adam(kinked.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        (residual(t, whole) ** 2).mean().backward()
        optimizer.step()
    learnt[name] = [bool((whole(t) - aim).abs().max() < 0.1) for aim in (0, torch.sin(t))]
    print(f"{name:16}", *learnt[name])
net = smooth

# %%
# *u_xx comes out as u_x.* The line was copied, and differentiates ``u`` once more in place
# of ``u_x``. The second derivative is that of the first, with its graph:

points = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
cube, ones = points**3, torch.ones(3)
(u_x,) = torch.autograd.grad(cube, points, ones, create_graph=True)
(copied,) = torch.autograd.grad(cube, points, ones, create_graph=True)
(u_xx,) = torch.autograd.grad(u_x, points, ones)
print(torch.equal(copied, u_x), u_xx)

# %%
# BatchNorm, attention, or a convolution or FFT over the points (a neural operator). They
# mix points, and ones then add the derivatives of *other* points (:ref:`mixing-samples`).
#
# The check: the two ways to the residual agree, the Laplacian follows its formula
# :math:`2y^3+6x^2y`, and the network has learned the sine:

torch.testing.assert_close(residual(t)[:, 0], by_func, rtol=1e-4, atol=1e-4)
at = torch.tensor([[1.0, 2.0], [3.0, 1.0]])
x, y = at[:, 0], at[:, 1]
torch.testing.assert_close(laplacian(bump, at), 2 * y**3 + 6 * x**2 * y)
torch.testing.assert_close(mixed, 6 * x * y**2)
torch.testing.assert_close(by_x, 2 * place * time**3)
torch.testing.assert_close(by_x_and_t, (6 * place * time**2).detach())
assert not torch.cat([bend[:, 0], laplacian(lambda x: x.sum(1), at)]).any()
assert torch.equal(u_xx, 6 * points.detach())
assert learnt == {"u = net": [True, False], "u = t + t² net": [False, False]}
assert worst < 0.1
assert history[-1] < 1e-2

# %%
# Where next
# ----------
#
# f″ step by step: :ref:`second-derivatives`. The trace of a matrix you cannot form:
# :ref:`trace-and-norm`. Forces from an energy: :ref:`forces`.
#
# .. asked: PINN; physics-informed neural network; derivative of the network in a
#    differential equation; u_x and u_xx; solve an ODE with a network; PDE residual
#    loss; boundary conditions; derivative of output with respect to time
