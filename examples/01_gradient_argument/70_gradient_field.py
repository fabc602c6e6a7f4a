r"""
.. _gradient-field:

The gradient field of a small network, plotted at last
======================================================

The gradient of a network's output at every point of a grid takes one call: put the
points in a batch, pass ones, and draw ``x.grad`` as arrows.
"""

# %%
# The network maps :math:`\mathbb R^2` to a number, :math:`f(x)=\sigma(w\cdot x+b)`. By the
# chain rule its gradient is :math:`\sigma'(w\cdot x+b)\,w`, everywhere parallel to
# :math:`w`, with :math:`\sigma'=\sigma(1-\sigma)`. A seed makes the random weights the
# same on every run:

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid())
[tuple(p.shape) for p in net.parameters()]

# %%
# A 9×9 grid is a batch of 81 points, an ``x`` of shape ``(81, 2)``:

line = torch.linspace(-4, 4, 9)
grid = torch.cartesian_prod(line, line).requires_grad_()
y = net(grid)
print(tuple(grid.shape), tuple(y.shape))

# %%
# ``v`` has ``y``'s shape ``(81, 1)``. The points do not mix, so ones give each point its
# own gradient (:ref:`ones-trick`):

y.backward(torch.ones_like(y))
grid.grad.shape

# %%
# The field. The arrows all point the same way and are longest where the sigmoid is
# steep, along the line :math:`w\cdot x+b=0`:

import pullback.plot

title = "Gradient of a one-layer network on a 9×9 grid: parallel arrows"
ax = pullback.plot.field(grid, grid.grad, title=title)

# %%
# A second layer bends the field:

deep = torch.nn.Sequential(
    torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1), torch.nn.Sigmoid()
)
out = deep(grid)
(field,) = torch.autograd.grad(out, grid, torch.ones_like(out))
title = "Gradient of a two-layer network: the arrows turn from point to point"
ax = pullback.plot.field(grid, field, title=title)

# %%
# What goes wrong
# ---------------
#
# Asking twice without emptying ``grid.grad`` doubles every arrow, which a plot that
# scales its arrows does not show:

before = grid.grad.clone()
y = net(grid)
y.backward(torch.ones_like(y))
torch.equal(grid.grad, 2 * before)

# %%
# And the parameters took part: they require gradients as well, so ``backward`` filled
# theirs with a sum over all 81 points. ``inputs=`` keeps it to the grid:

print(net[0].weight.grad is None)
net.zero_grad()
grid.grad = None
y = net(grid)
y.backward(torch.ones_like(y), inputs=[grid])
print(net[0].weight.grad is None)

# %%
# The gradient at every point against the formula, and against one call for each point:

weight, bias = net[0].weight.detach(), net[0].bias.detach()
p = torch.sigmoid(grid.detach() @ weight.T + bias)
torch.testing.assert_close(grid.grad, p * (1 - p) * weight)
singly = [torch.func.grad(lambda x: deep(x)[0])(point) for point in grid.detach()]
torch.testing.assert_close(field, torch.stack(singly))

# %%
# Where next
# ----------
#
# Networks whose points do mix: :ref:`mixing-samples`. The Jacobian by the parameters:
# :ref:`jacobian-of-parameters`. On to whole Jacobians: :ref:`chapter-2`.
