r"""
.. _external-loss:

A loss from NumPy or SciPy
==========================

Your loss comes from a simulator, from NumPy, or from a library in Fortran, so there is
nothing that you could call ``backward`` on. If the other program gives you the *gradient*
of its loss, one number for each output, pass it to the outputs themselves:
``y.backward(gradient)``. This gradient is ``v``, and has the shape of ``y``. The steps make
the number *smaller*: if it is a score that should become larger, pass ``-gradient``:
"""

import numpy as np
import torch
from torch import nn


def simulator(y):  # stands for yours: the score, and how it changes with each output
    return np.sum((y - 3) ** 2), 2 * (y - 3)


torch.manual_seed(0)  # the same network on every build
model, inputs = nn.Linear(4, 2), torch.randn(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(200):
    y = model(inputs)
    score, gradient = simulator(y.detach().cpu().double().numpy())
    optimizer.zero_grad()
    y.backward(torch.from_numpy(gradient).to(y))
    optimizer.step()
    if step in (0, 199):
        print(f"step {step:3}  score {score:.4f}")

# %%
# A network that learns to draw
# -----------------------------
#
# A network gets evenly spaced numbers as its input, and its outputs should look as if they
# had been drawn from a distribution with two bumps, one around −2 and one around 1. It does
# not matter which output lands where, but only how all outputs are distributed. The loss
# for this task sorts the outputs, sorts 200 numbers drawn from the bumps, and compares the
# smallest with the smallest, the second with the second, and so on. Here is this loss in
# NumPy, with its gradient:

rng = np.random.default_rng(0)  # the same goal on every build
goal = np.sort(rng.normal([-2, 1], [0.3, 0.5], (100, 2)).ravel())


def transport(draws):
    """Return the loss of 200 draws, and its gradient with respect to each of them."""
    gap = np.empty_like(draws)
    order = draws.argsort()
    gap[order] = draws[order] - goal
    return (gap**2).mean(), 2 * gap / gap.size


# %%
# The gradient says for each output how far it is from its partner, and in which
# direction. There must be as many outputs as there are numbers in the goal. PyTorch knows
# nothing about this function, but it can still train the network:

torch.manual_seed(0)  # the same network on every build
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
even = torch.linspace(-4, 4, 200)[:, None]
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(400):
    draws = net(even)[:, 0]
    loss, gradient = transport(draws.detach().cpu().double().numpy())
    optimizer.zero_grad()
    draws.backward(torch.from_numpy(gradient).to(draws))
    optimizer.step()
    if step % 100 == 0 or step == 399:
        print(f"step {step:3}  loss {loss:.3f}")

# %%
# If you sort the outputs, they lie on the goal:

import matplotlib.pyplot as plt

plt.plot(goal, label="goal")
plt.plot(draws.detach().sort().values, "--", label="network")
plt.title("200 outputs of a network, in order of size")
legend = plt.legend()

# %%
# Why the gradient of the loss is the right v
# -------------------------------------------
#
# Write :math:`L` for the loss, :math:`y` for the outputs and :math:`w` for the weights. By
# the chain rule
#
# .. math::
#
#    \frac{\partial L}{\partial w}
#      =\Bigl(\frac{\partial L}{\partial y}\Bigr)^{\!\top}\frac{\partial y}{\partial w},
#
# and this is a :term:`vector-Jacobian product`, with the gradient of the loss as ``v``.
# With ``loss.backward()`` PyTorch computes the first factor itself. Here NumPy has
# computed it. The line with ``backward`` and the line before it do three things:
#
# - ``draws.detach()`` drops the graph, and ``.cpu().double().numpy()`` turns numbers from
#   any device and of any real dtype into a float64 array. NumPy has no bfloat16, and
#   without ``double()`` it would compute the loss of a float16 network in float16.
# - ``torch.from_numpy(gradient)`` brings the gradient back. It has one entry for each
#   output, so it has the shape of ``draws``, as every ``v`` must.
# - ``.to(draws)`` gives it the dtype and the device of ``draws``. NumPy usually computes
#   in float64, and networks usually in float32.
#
# .. admonition:: Before you read on
#
#    You pass ``v / 2`` in place of ``v``. How do the steps of ``SGD`` change, and how do
#    those of ``Adam`` change?
#
# .. dropdown:: Answer
#
#    The gradients of all weights are halved. The steps of plain ``SGD`` are half as long.
#    ``Adam`` divides each entry of the gradient by the typical size of its past values, so
#    its steps stay nearly the same.
#
# Instead of ``backward(v)`` you can call ``backward`` on a single number, the *surrogate*
# ``(y * v).sum()`` with the ``v`` from NumPy as a constant. The gradient of the surrogate
# is the same. But its value is not the loss, so print the loss that the other program has
# returned:

draws = net(even)[:, 0]
loss, gradient = transport(draws.detach().cpu().double().numpy())
v = torch.from_numpy(gradient).to(draws)
surrogate = (draws * v).sum()
weights = list(net.parameters())
by_v = torch.autograd.grad(draws, weights, v, retain_graph=True)
by_surrogate = torch.autograd.grad(surrogate, weights)
print("the same gradients:", all(map(torch.allclose, by_v, by_surrogate)))
print(f"loss {loss:.3f}, value of the surrogate {surrogate.item():.3f}")

# %%
# Find out whether the program differentiates the *sum* over the samples or their mean. The
# gradient of the sum is larger by a factor that is the number of samples. If your learning
# rate is meant for a mean, divide ``v`` by this factor. Otherwise the steps of plain
# ``SGD`` are too long.
#
# The external loss as one Function
# ---------------------------------
#
# If the loss is only one term of the total loss, or is in the middle of a graph, put it
# into a ``Function``. The ``backward`` of this Function receives the ``v`` for the loss,
# which is a single number, and returns this number times the gradient:


class Transport(torch.autograd.Function):
    @staticmethod
    def forward(ctx, draws):
        loss, gradient = transport(draws.detach().cpu().double().numpy())
        ctx.save_for_backward(torch.from_numpy(gradient).to(draws))
        return draws.new_tensor(loss)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        return v * ctx.saved_tensors[0]


draws = net(even)[:, 0]
total = 2 * Transport.apply(draws) + 0.1 * draws.square().mean()
total.backward()

# %%
# ``once_differentiable`` declares that the gradient was computed without a graph, so you
# cannot differentiate it again. Do not rely on being stopped if you try: some ways of
# taking a second derivative then give a wrong number without a message
# (:ref:`twice-differentiable`).
#
# The other way around: SciPy asks PyTorch
# ----------------------------------------
#
# SciPy's optimizers want the value of a function and its gradient, as float64 arrays.
# This time nobody passes a ``v``, because the function is a single number. Our example is
# the Rosenbrock valley in four dimensions, with its lowest point at (1, 1, 1, 1):

from scipy.optimize import minimize


def value_and_gradient(p):
    q = torch.from_numpy(p).requires_grad_()
    f = (100 * (q[1:] - q[:-1] ** 2) ** 2 + (1 - q[:-1]) ** 2).sum()
    f.backward()
    return f.item(), q.grad.numpy()


result = minimize(value_and_gradient, np.zeros(4), jac=True, method="BFGS")
print(result.x.round(4), result.success)

# %%
# What to watch for
# -----------------
#
# **A tensor with a graph does not become an array, and an array is not a v.** PyTorch
# refuses both. The first message also says what to do:

draws = net(even)[:, 0]
try:
    draws.numpy()
except RuntimeError as error:
    print(error)
try:
    draws.backward(gradient)
except (TypeError, RuntimeError) as error:
    print(error)

# %%
# **A float64 v is cast to the dtype of y without a warning.** This is usually what you
# want. If a number is too large for float32, it becomes infinite, and if it is too small,
# it becomes 0. In float16 :math:`10^5` is already too large. Here we pass :math:`10^{300}`
# for a float32 tensor:

leaf = torch.ones(1, requires_grad=True)
(leaf * 1).backward(torch.tensor([1e300], dtype=torch.float64))
print(leaf.grad)

# %%
# **A gradient of the wrong function.** Nothing checks that the gradient that you pass
# belongs to the loss that you print. If somebody has written the gradient by hand,
# compare it once with difference quotients of the loss, as we do in the check below.
#
# .. admonition:: Try it
#
#    Replace the goal with three bumps, ``rng.normal([-3, 0, 2], 0.2, (67,
#    3)).ravel()[:200]``, and train again. What in the training loop has to change?
#
# .. dropdown:: Answer
#
#    Nothing has to change in the loop, because it does not mention the bumps. Only the
#    new ``goal`` has to be sorted:

goal = np.sort(rng.normal([-3, 0, 2], 0.2, (67, 3)).ravel()[:200])
for _ in range(600):
    draws = net(even)[:, 0]
    three_bumps, gradient = transport(draws.detach().cpu().double().numpy())
    optimizer.zero_grad()
    draws.backward(torch.from_numpy(gradient).to(draws))
    optimizer.step()
print(f"loss {three_bumps:.3f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient from NumPy with difference quotients of the loss, and the
#    gradients of the weights with the gradients that PyTorch finds if it computes the
#    whole loss. We compare the ``Function`` with the same gradients, times the factor 2.

at = rng.normal(size=200)
h = 1e-6
moves = h * np.eye(200)
steps = [(transport(at + m)[0] - transport(at - m)[0]) / (2 * h) for m in moves]
np.testing.assert_allclose(transport(at)[1], steps, atol=1e-8)

y = model(inputs)
v = torch.from_numpy(simulator(y.detach().double().numpy())[1]).to(y)
by_v = torch.autograd.grad(y, model.parameters(), v, retain_graph=True)
whole = torch.autograd.grad((y - 3).square().sum(), model.parameters())
for one, other in zip(by_v, whole, strict=True):
    torch.testing.assert_close(one, other)
assert score < 0.1
draws = net(even)[:, 0]
pairs = draws.sort().values - torch.from_numpy(goal).to(draws)
inside = torch.autograd.grad(pairs.square().mean(), net.parameters(), retain_graph=True)
v = torch.from_numpy(transport(draws.detach().numpy())[1]).to(draws)
outside = torch.autograd.grad(draws, net.parameters(), v, retain_graph=True)
wrapped = torch.autograd.grad(2 * Transport.apply(draws), net.parameters())
for one, other, twice in zip(inside, outside, wrapped, strict=True):
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(2 * one, twice)
np.testing.assert_allclose(result.x, np.ones(4), atol=1e-4)
assert loss < 0.02
assert three_bumps < 0.1

# %%
# **Next:** To pass ``v`` between two graphs of PyTorch, read :ref:`cut-graphs`. If a
# function from another library is in the middle of your graph, read :ref:`other-libraries`.
# :ref:`upstream` explains what the upstream gradient is. To write a Function of your own,
# read :ref:`custom-function`.
#
# .. asked: loss computed outside of PyTorch; loss from NumPy; gradient from a
#    simulator; loss in Excel or Fortran; external program gives the gradient; SciPy
#    loss; train with a loss that is not in torch; I have dL/dy, how do I go on;
#    simulator gives me dloss/doutput; error from another program; loss is a black box
#    with known slope; simulator gives a score and how the score changes for every output;
#    train a network without a loss
# .. words: matlab, fortran, C++, black box, non-torch, solver gives the sensitivity,
#    simulator, renderer, adjoint code, api, manual dL/dy
