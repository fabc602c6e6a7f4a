r"""
.. _external-loss:

Backpropagating a loss computed in NumPy or SciPy
=================================================

If something outside PyTorch gives you the loss's gradient ``dL/dy``, pass it as
``y.backward(slope)``: it is exactly the ``v`` that the rest of the chain needs. No graph
of the outside computation is required.
"""

# %%
# ``y`` has shape ``(m,)``, and so has :math:`\partial L/\partial y`. With
# :math:`J=\partial y/\partial x`,
#
# .. math::
#
#    \frac{\partial L}{\partial x}=\Bigl(\frac{\partial L}{\partial y}\Bigr)^{\!\top}J .
#
# A loss in NumPy, with its gradient written by hand. The pieces must be detached on the
# way out, and come back as a tensor of y's dtype:

import numpy as np
import torch


def outside(y):  # NumPy in, a float and a NumPy gradient out
    r = y - np.arange(1.0, 4.0)
    return float(np.log(np.cosh(r)).sum()), np.tanh(r)


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2 / 2
loss, slope = outside(y.detach().numpy())
y.backward(torch.from_numpy(slope).to(y))
x.grad

# %%
# The same as one Function
# ------------------------
#
# Wrapped once, the outside loss can stand anywhere in a graph. ``backward`` receives the
# ``v`` of the scalar loss and hands on ``v * dL/dy``. (``once_differentiable``: no graph
# knows how the gradient was made. Don't differentiate twice: it is refused at best, mostly
# it is wrong without a word, :ref:`twice-differentiable`.)


class Outside(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        loss, gradient = outside(y.detach().cpu().numpy())
        ctx.save_for_backward(torch.from_numpy(gradient).to(y))
        return y.new_tensor(loss)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        return v * ctx.saved_tensors[0]


# %%
# Used on the same ``x``, with a factor 2 behind it, which arrives as ``v``:

by_hand, x.grad = x.grad, None
(2 * Outside.apply(x**2 / 2)).backward()
x.grad

# %%
# SciPy the other way round
# -------------------------
#
# SciPy's optimisers ask for a value and a gradient as float64 arrays. PyTorch computes
# both; the Rosenbrock valley in four dimensions:

from scipy.optimize import minimize


def value_and_gradient(p):
    q = torch.from_numpy(p).requires_grad_()
    f = (100 * (q[1:] - q[:-1] ** 2) ** 2 + (1 - q[:-1]) ** 2).sum()
    f.backward()
    return f.item(), q.grad.numpy()


result = minimize(value_and_gradient, np.zeros(4), jac=True, method="BFGS")
print(result.x.round(4), result.success)

# %%
# A loss that sorts
# -----------------
#
# A small network learns to draw from two bumps. The loss, in NumPy, pairs the sorted draws
# with the sorted goal (transport on a line); its gradient sends each draw to its partner:

rng = np.random.default_rng(0)  # the same goal on every build
goal = np.sort(rng.normal([-2, 1], [0.3, 0.5], (100, 2)).ravel())


def transport(draws):
    gap = np.empty_like(draws)
    order = draws.argsort()
    gap[order] = draws[order] - goal
    return (gap**2).mean(), 2 * gap / gap.size


# %%
# Trained through the array:

torch.manual_seed(0)  # the same network on every build
net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
even = torch.linspace(-4, 4, 200)[:, None]
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(400):
    draws = net(even)[:, 0]
    distance, push = transport(draws.detach().numpy())
    optimizer.zero_grad()
    draws.backward(torch.from_numpy(push).to(draws))
    optimizer.step()

# %%
# In order of size:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(goal, label="goal")
ax.plot(draws.detach().sort().values, "--", label="network")
ax.legend()
title = ax.set_title("Draws of a network, sorted, lie on the goal of a NumPy loss")

# %%
# What goes wrong
# ---------------
#
# A tensor with a graph does not turn into an array, and an array is not a ``v``:

y = x**2 / 2
try:
    y.numpy()
except RuntimeError as error:
    print(error)
try:
    y.backward(slope)
except (TypeError, RuntimeError) as error:
    print(error)

# %%
# A float64 ``v`` for a float32 ``y`` is cast without a word, which matters if it overflows:

leaf = torch.ones(1, requires_grad=True)
(leaf * 1).backward(torch.tensor([1e300], dtype=torch.float64))
leaf.grad

# %%
# The check: the outside gradient against differences of the outside loss:

at, h = np.array([0.5, 2.0, 4.5]), 1e-6
steps = [(outside(at + h * e)[0] - outside(at - h * e)[0]) / (2 * h) for e in np.eye(3)]
np.testing.assert_allclose(outside(at)[1], steps, atol=1e-8)

# %%
# And the whole chain against PyTorch alone:

inside = torch.cosh(x**2 / 2 - torch.arange(1.0, 4.0)).log().sum()
torch.testing.assert_close(by_hand, torch.autograd.grad(inside, x)[0])
torch.testing.assert_close(x.grad, 2 * by_hand)
np.testing.assert_allclose(result.x, np.ones(4), atol=1e-4)
assert distance < 0.02

# %%
# Where next
# ----------
#
# ``v`` between two PyTorch graphs: :ref:`cut-graphs`. The upstream gradient:
# :ref:`upstream`. Functions of your own: :ref:`custom-function`.
#
# .. asked: loss computed outside of PyTorch; loss from NumPy; gradient from a
#    simulator; loss in Excel or Fortran; external program gives the gradient; SciPy
#    loss; train with a loss that is not in torch; I have dL/dy, how do I go on;
#    simulator gives me dloss/doutput; error from another program; loss is a black box
#    with known slope
