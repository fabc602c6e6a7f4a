r"""
.. _several-outputs:

Several outputs and several v at once
=====================================

``torch.autograd.backward([y, z], [v, w])`` pulls all outputs back in one pass and *adds*
the results: each ``v`` has the shape of its own output, and the sum has the shape of the
input.
"""

# %%
# With ``x`` of shape ``(3,)``, ``y`` of shape ``(2,)`` and ``z`` of shape ``(3, 3)``:
#
# .. math::
#
#    \texttt{x.grad}=J_y^\top v+J_z^\top w

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def outputs():
    return torch.stack([x.sum(), (x**2).sum()]), torch.outer(x, x)


y, z = outputs()
v, w = torch.tensor([10.0, 1.0]), torch.eye(3)
torch.autograd.backward([y, z], [v, w])
x.grad

# %%
# Each product alone, and their sum. (``y.backward(v)`` and ``z.backward(w)`` add up to the
# same, the first with ``retain_graph=True``, where they share what a graph has saved.)

y, z = outputs()
(from_y,) = torch.autograd.grad(y, x, v)
(from_z,) = torch.autograd.grad(z, x, w)
print(from_y, from_z)

# %%
# *What does grad_outputs mean, and why is a matrix required?* It has the shape of its
# output, and all of its indices are summed over:
# :math:`\texttt{result}_k=\sum_{ij}w_{ij}\,\partial z_{ij}/\partial x_k`. With ones, every
# entry of :math:`xx^\top` counts once, which gives :math:`2\sum_j x_j=12` everywhere:

z = torch.outer(x, x)
torch.autograd.grad(z, x, torch.ones(3, 3))[0]

# %%
# ``None`` stands for 1 and is allowed where an output has one element, and nowhere else:

(y, _), loss = outputs(), (x**3).sum()
try:
    torch.autograd.grad([y, loss], x, [None, None])
except RuntimeError as error:
    print(error)
(grads := torch.autograd.grad([y, loss], x, [v, None])[0])

# %%
# When one output is made from another
# ------------------------------------
#
# *backward([y, z]) when z depends on y: is it well defined?* Yes. Both are functions of
# ``x``, and the sum is taken as always. For :math:`y=x^2` and :math:`z=y^3=x^6` at 1:
# :math:`2x+6x^5=8`.

a = torch.tensor(1.0, requires_grad=True)
y = a**2
z = y**3
torch.autograd.backward([y, z])
a.grad

# %%
# A network with two outputs
# --------------------------
#
# A mean :math:`\mu` and a log-variance :math:`s` for every point, trained with the loss
# :math:`\tfrac12\bigl(s+(t-\mu)^2e^{-s}\bigr)` of normal noise. Its two partial derivatives
# are short enough to write down, and are the two ``v``:

torch.manual_seed(0)  # the same noise and weights on every build
at = torch.linspace(-1, 1, 200)[:, None]
t = torch.sin(3 * at) + (0.05 + 0.4 * (at > 0)) * torch.randn(200, 1)


def slopes(mu, s):
    return (mu - t) / s.exp(), (1 - (t - mu) ** 2 / s.exp()) / 2


# %%
# Both outputs, both ``v``, one call:

net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(500):
    mu, s = net(at).split(1, dim=1)
    with torch.no_grad():
        v_mu, v_s = slopes(mu, s)
    optimizer.zero_grad()
    torch.autograd.backward([mu, s], [v_mu / 200, v_s / 200])
    optimizer.step()

# %%
# The network finds where the noise begins:

import matplotlib.pyplot as plt

mu, s = net(at).detach().split(1, dim=1)
spread = (s / 2).exp()
figure, ax = plt.subplots(layout="constrained")
ax.plot(at, t, ".")
ax.plot(at, mu)
band = ax.fill_between(at[:, 0], (mu - spread)[:, 0], (mu + spread)[:, 0], alpha=0.4)
title = ax.set_title("Mean and spread, two outputs of one network, fitted to noisy points")

# %%
# What goes wrong
# ---------------
#
# *One grad call with lists gives identical rows.* Several outputs are summed, never
# stacked, and several inputs give a tuple, one entry for each input:

b = torch.tensor(2.0, requires_grad=True)
both = torch.autograd.grad([a * b, a + b], [a, b])
both

# %%
# That is :math:`(b+1,\;a+1)`, not four numbers. For the four, ask for rows:

J = torch.func.jacrev(lambda a, b: torch.stack([a * b, a + b]), argnums=(0, 1))
torch.stack(J(a.detach(), b.detach()), dim=1)

# %%
# And *why (g,) = ...?* Because ``grad`` returns a tuple even for one input; without the
# comma ``g`` is the tuple, and arithmetic fails in an odd place:

g = torch.autograd.grad(a * b, a)
print(type(g).__name__, len(g))
try:
    g - 0.1
except TypeError as error:
    print(error)

# %%
# *'tuple' object has no attribute 'backward'*: a model that returns several outputs returns
# a tuple of roots, which :func:`torch.autograd.backward` takes and which has no method:

try:
    outputs().backward()
except AttributeError as error:
    print(error)

# %%
# The check: the products by their formulas, the sum of both, the noise that was put in, and
# the two ``v`` of the loss:

p = x.detach()
torch.testing.assert_close(from_y, 10 + 2 * p)
torch.testing.assert_close(from_z, 2 * p)
torch.testing.assert_close(x.grad, from_y + from_z)
torch.testing.assert_close(grads, from_y + 3 * p**2)
assert spread[:80].max() < 0.15
assert spread[120:].min() > 0.3
nll = lambda mu, s: ((s + (t - mu) ** 2 * (-s).exp()) / 2).sum()
torch.testing.assert_close(slopes(mu, s), torch.func.grad(nll, (0, 1))(mu, s))

# %%
# Where next
# ----------
#
# Losses as outputs: :ref:`several-losses`. Rows in place of the sum:
# :ref:`jacobian-row-by-row`. Which leaves are filled: :ref:`grad-is-none`.
#
# .. asked: several outputs several v; torch.autograd.backward with lists; model returns
#    two tensors; grad_tensors; tuple of outputs and gradients; two heads and their
#    gradients
