r"""
.. _several-outputs:

Several outputs and several v at once
=====================================

A weather station forecasts a temperature, and says how far the forecast may be off. Its
network has two outputs. The program that scores a forecast is not written in PyTorch, and
it sends back two gradients, one for each output. Both gradients have to reach the same
weights. In ``torch.autograd.backward([y, z], [v, w])`` each output has its own ``v``, with
the same shape as that output. The call goes back through the graph once, and *adds up* the
gradients with respect to each weight.
"""

# %%
# A forecast that knows when it may be wrong
# ------------------------------------------
#
# The station forecasts from the air pressure, which we measure on a scale from −1 (low) to
# 1 (high). When the pressure is high, the weather is settled. When the pressure is low, the
# temperature may turn out quite different from what one would expect. We simulate 400 days.
# The temperature follows a curve, with a spread of 0.5 at low pressure and of 0.1 at high
# pressure:

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)  # the same days and weights on every build
pressure = torch.linspace(-1, 1, 400)[:, None]
spread = torch.where(pressure < 0, 0.5, 0.1)
temperature = torch.sin(3 * pressure) + spread * torch.randn(400, 1)

# %%
# Now comes the program that scores the forecasts. It belongs to somebody else and is
# written in NumPy, so PyTorch cannot differentiate through it. It takes two arrays:
# ``mean`` is the expected temperature, and ``s`` is the logarithm of the variance, which
# says how unsure the forecast is. ``s`` may be any number, because the variance :math:`e^s`
# is always positive. The score is the negative log-likelihood of normal noise, up to a
# constant, so a small score is good. A large error costs less if the forecast was unsure,
# but an unsure forecast costs something, too:
#
# .. math::
#
#    L=\frac1{400}\sum_i\tfrac12\bigl(s_i+(t_i-\mu_i)^2e^{-s_i}\bigr)
#
# The author of the program has worked out the two derivatives on paper, and the program
# returns them with the score:


def score(mean, s, measured):
    """Return the score, and its derivatives with respect to mean and to s."""
    miss, variance = measured - mean, np.exp(s)
    value = (s + miss**2 / variance) / 2
    by_mean = -miss / variance
    by_s = (1 - miss**2 / variance) / 2
    return value.mean(), by_mean / value.size, by_s / value.size


# %%
# These two derivatives are our ``v``. ``mean`` and ``s`` have the shape ``(400, 1)``, and
# so has each of the two derivatives. An entry says how fast the score rises with one
# number of the forecast. The training loop passes both derivatives in one call:

network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
for step in range(501):
    mean, s = network(pressure).split(1, dim=1)
    arrays = [part.detach().numpy() for part in (mean, s)]
    value, *slopes = score(*arrays, temperature.numpy())
    v_mean, v_s = (torch.from_numpy(slope) for slope in slopes)
    optimizer.zero_grad()
    torch.autograd.backward([mean, s], [v_mean, v_s])
    optimizer.step()
    if step % 250 == 0:
        print(f"step {step:3}  score {value:5.1f}")

# %%
# The score has gone down. What has the network learned? The line is the mean, and the band
# reaches one spread, :math:`e^{s/2}`, to either side:

import matplotlib.pyplot as plt

with torch.no_grad():
    mean, s = network(pressure).split(1, dim=1)
found = (s / 2).exp()
figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.6))
ax.plot(pressure, temperature, ".", label="a day")
ax.plot(pressure, mean, label="mean")
low, high = (mean - found)[:, 0], (mean + found)[:, 0]
ax.fill_between(pressure[:, 0], low, high, alpha=0.3, label="one spread")
ax.set(xlabel="air pressure", ylabel="temperature")
ax.legend()
title = ax.set_title("Two outputs of one network: a mean and a spread")

# %%
# The band is wide at low pressure and narrow at high pressure, as it was when we simulated
# the days. Nobody has told the network where the weather is unsettled. For low and for high
# pressure we print the spread that the network has found:

for name, side in {"low pressure": pressure < 0, "high pressure": pressure > 0}.items():
    print(f"{name:13}  {found[side].median():.1f}")

# %%
# What the call adds up
# ---------------------
#
# To see how the call combines the two ``v``, we take outputs that are small enough to
# check in your head. ``x`` has the shape ``(3,)``. The first output ``y`` has the shape
# ``(2,)`` and holds the sum of ``x`` and the sum of its squares. The second output ``z``
# is the table of all products :math:`x_ix_j`, of shape ``(3, 3)``. First we compute the
# product for each output alone:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def outputs():
    return torch.stack([x.sum(), (x**2).sum()]), torch.outer(x, x)


v, w = torch.tensor([10.0, 1.0]), torch.eye(3)
y, z = outputs()
(from_y,) = torch.autograd.grad(y, x, v)
(from_z,) = torch.autograd.grad(z, x, w)
print(from_y, from_z)

# %%
# The first product is :math:`10+2x`, which is ten times the gradient of the sum plus the
# gradient of the sum of squares. The second product is :math:`2x`, because ``w`` is 1 on
# the diagonal, where the squares are.
#
# .. predict::
#    :for: x.grad
#    :wrong: first output: This is what comes from the first output. The second has a v as
#          well.;
#       second output: This is what comes from the second output. The first has a v as
#          well.;
#       apart: These are the two results separately, as two calls to grad return them.
#          x.grad has the shape of x, and backward adds the results up.;
#       mean of both: This is the mean of the two. They are added.;
#       multiplied: Here the two are multiplied. They are added.
#
#    What does one call with both outputs and both ``v`` leave in ``x.grad``?

y, z = outputs()
torch.autograd.backward([y, z], [v, w])
x.grad

# %%
# It is the sum of the two. With a :term:`Jacobian` for each output it reads
#
# .. math::
#
#    \texttt{x.grad}=J_y^\top v+J_z^\top w .
#
# Why do you get a sum, and not two results? Each weight of the hidden layer changes both
# outputs of our network. If the score rises at a rate of 2 through the mean and at a rate
# of 3 through ``s`` when a weight grows, then it rises at a rate of 5 in all. So the
# network in the loop got the gradient of the score, although no part of the score was
# computed in PyTorch.
#
# You could also call ``y.backward(v)`` and then ``z.backward(w)``, since ``.grad`` adds up
# the two products. The two outputs of our network share its hidden layer. So the first of
# these calls would need ``retain_graph=True``, and the two calls would go through the
# hidden layer twice.
#
# One v for each output
# ---------------------
#
# **A matrix wants a matrix.** People ask why ``grad_outputs`` must be a matrix for ``z``.
# The reason is that each entry of ``v`` says how much one entry of the output counts. The
# weighted derivatives of all entries are added up,
# :math:`\texttt{result}_k=\sum_{ij}w_{ij}\,\partial z_{ij}/\partial x_k`. With ones each
# product :math:`x_ix_j` counts once. Each entry of ``x`` appears in six of these
# products, if we count its square twice, and the result is :math:`2\sum_jx_j=12`
# everywhere:

y, z = outputs()
torch.autograd.grad(z, x, torch.ones(3, 3))[0]

# %%
# **None stands for 1**, and it is allowed only for an output that has one element. For a
# loss you may pass None, but not for ``y``:

loss = (x**3).sum()
try:
    torch.autograd.grad([y, loss], x, [None, None])
except RuntimeError as error:
    print(error)
(grads,) = torch.autograd.grad([y, loss], x, [v, None])
print(grads)

# %%
# **One output may be computed from another.** Is the sum still well defined if you pass
# both ``y`` and a ``z`` that was computed from ``y``? Yes, because both are functions of
# the input, and their gradients are added as always. Take :math:`y=a^2` and
# :math:`z=y^3=a^6` at :math:`a=1`. The slopes are :math:`2a=2` and :math:`6a^5=6`:

a = torch.tensor(1.0, requires_grad=True)
y = a**2
z = y**3
torch.autograd.backward([y, z])
a.grad

# %%
# What to watch for
# -----------------
#
# **Lists of outputs are not stacked.** You ask ``grad`` for two outputs and two inputs,
# and hope for four numbers. You get two numbers, one for each input, and each of them is
# the sum over the outputs. With :math:`ab` and :math:`a+b` at :math:`a=1`, :math:`b=2`
# these are :math:`b+1` and :math:`a+1`:

b = torch.tensor(2.0, requires_grad=True)
both = torch.autograd.grad([a * b, a + b], [a, b])
print(both)

# %%
# For the four numbers, ask for the Jacobian, with a row for each output:

J = torch.func.jacrev(lambda a, b: torch.stack([a * b, a + b]), argnums=(0, 1))
four = torch.stack(J(a.detach(), b.detach()), dim=1)
four

# %%
# **grad returns a tuple**, even for a single input. That is why programs write ``(g,) =``
# with a comma. Without the comma ``g`` is the tuple, and you get an error only later,
# when you compute with ``g``:

g = torch.autograd.grad(a * b, a)
print(type(g).__name__, len(g))
try:
    g - 0.1
except TypeError as error:
    print(error)

# %%
# **A model that returns several outputs returns a tuple**, and a tuple has no method
# ``backward``. :func:`torch.autograd.backward` takes the tuple as it is:

try:
    outputs().backward()
except AttributeError as error:
    print(error)
x.grad = None
torch.autograd.backward(outputs(), (v, w))
print(x.grad)

# %%
# .. admonition:: Try it
#
#    The station is only interested in the mean now, and passes zeros in place of ``v_s``.
#    The part of the last layer that makes ``s`` then gets a gradient of zeros. Will ``s``
#    stay as it is while the network goes on learning?
#
# .. dropdown:: Answer
#
#    No. The part of the last layer that makes ``s`` has the gradient 0 and does not
#    change. But its input comes from the hidden layer, which both outputs share, and this
#    layer goes on learning for the mean. We try one step of plain gradient descent:

network.zero_grad()
mean, s = network(pressure).split(1, dim=1)
torch.autograd.backward([mean, s], [mean.detach() - temperature, torch.zeros_like(s)])
print("gradient for s, last layer:", network[2].weight.grad[1].abs().max().item())
torch.optim.SGD(network.parameters(), lr=1e-3).step()
moved = (network(pressure)[:, 1:] - s).abs().max().item()
print("has s moved?", moved > 1e-4)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the products with their formulas, and their sum with ``x.grad``. We compare
#    the derivatives from the NumPy program with the derivatives of the same score written
#    in PyTorch. One call with two outputs and two ``v`` leaves a gradient in each weight.
#    We compare this gradient with the gradient of that score, and with the result of two
#    calls. We also check that the network has found the spreads that we put in.

p = x.detach()
torch.testing.assert_close(from_y, 10 + 2 * p)
torch.testing.assert_close(from_z, 2 * p)
torch.testing.assert_close(x.grad, from_y + from_z)
torch.testing.assert_close(grads, from_y + 3 * p**2)
torch.testing.assert_close(four, torch.tensor([[2.0, 1.0], [1.0, 1.0]]))
assert [part.item() for part in both] == [3, 2]
assert 0.4 < found[pressure < 0].median() < 0.6
assert 0.05 < found[pressure > 0].median() < 0.15
assert moved > 1e-4
assert not network[2].weight.grad[1].any()


def weights_after(backward):
    network.zero_grad()
    backward(*network(pressure).split(1, dim=1))
    return [weight.grad.clone() for weight in network.parameters()]


def in_torch(mean, s):
    return ((s + (temperature - mean) ** 2 * (-s).exp()) / 2).mean()


def in_two_calls(mean, s):
    mean.backward(v_mean, retain_graph=True)
    s.backward(v_s)


mean, s = network(pressure).detach().split(1, dim=1)
value, *slopes = score(mean.numpy(), s.numpy(), temperature.numpy())
v_mean, v_s = map(torch.from_numpy, slopes)
torch.testing.assert_close((v_mean, v_s), torch.func.grad(in_torch, (0, 1))(mean, s))
whole = weights_after(lambda mean, s: in_torch(mean, s).backward())
at_once = weights_after(lambda *both: torch.autograd.backward(both, (v_mean, v_s)))
torch.testing.assert_close(at_once, whole, rtol=1e-3, atol=1e-6)
torch.testing.assert_close(weights_after(in_two_calls), at_once)

guesses = {  # wrong ones, of which the boxes above say what they are
    "first output": from_y,
    "second output": from_z,
    "apart": torch.stack([from_y, from_z]),
    "mean of both": (from_y + from_z) / 2,
    "multiplied": from_y * from_z,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** Several losses are several outputs, too, and :ref:`several-losses` shows how to
# weight them. To keep the rows of the Jacobian apart instead of adding them up, read
# :ref:`jacobian-row-by-row`. If your function returns a dict, read
# :ref:`vjp-of-structures`. If some inputs get no gradient, :ref:`grad-is-none` lists the
# reasons.
#
# .. asked: several outputs several v; torch.autograd.backward with lists; model returns
#    two tensors; grad_tensors; tuple of outputs and gradients; two heads and their
#    gradients; predict mean and variance with one network
# .. words: tuple, two heads, mean and variance, list of tensors, VAE mu logvar, detector
#    boxes and classes, one call
