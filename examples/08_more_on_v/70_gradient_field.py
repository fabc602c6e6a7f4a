r"""
.. _gradient-field:

The gradient field of a small network, plotted at last
======================================================

You would like to see the :term:`gradient` of a network as arrows all over its input space.
One call is enough. Put the points of a grid in a batch, pass ones as ``v``, and draw
``x.grad`` as arrows.
"""

# %%
# The network maps :math:`\mathbb R^2` to a number, :math:`f(x)=\sigma(w\cdot x+b)`. By
# the :term:`chain rule`, its gradient is :math:`\sigma'(w\cdot x+b)\,w`, with
# :math:`\sigma'=\sigma(1-\sigma)`. So it is parallel to :math:`w` everywhere.
# ``manual_seed`` makes the random weights the same on every run:

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid())
[tuple(p.shape) for p in net.parameters()]

# %%
# A 9×9 grid is a batch of 81 points, so ``x`` has shape ``(81, 2)``:

line = torch.linspace(-4, 4, 9)
grid = torch.cartesian_prod(line, line).requires_grad_()
y = net(grid)
print(tuple(grid.shape), tuple(y.shape))

# %%
# ``v`` has the shape of ``y``, which is ``(81, 1)``. The points do not :term:`mix
# <mixing>`, and so a ``v`` of ones gives each point its own gradient. This is the
# :term:`ones trick` from :ref:`ones-trick`:

y.backward(torch.ones_like(y))
grid.grad.shape

# %%
# Here is the field. All arrows point in the same direction. The longest arrow should be
# where the sigmoid is steepest. The sigmoid is steepest on the line :math:`w\cdot x+b=0`,
# where its value is 1/2, so at the longest arrow its value should be close to 1/2. We print
# the value at the longest arrow:

import pullback.plot


def directions(arrows):
    angle = torch.rad2deg(torch.atan2(arrows[:, 1], arrows[:, 0]))
    return f"{angle.min():.0f}° to {angle.max():.0f}°"


longest = grid.grad.norm(dim=1).argmax()
print("directions:", directions(grid.grad))
print(f"sigmoid at the longest arrow: {y[longest].item():.2f}")
title = "Gradient of a one-layer network on a 9×9 grid: parallel arrows"
ax = pullback.plot.field(grid, grid.grad, title=title)

# %%
# With a second layer the field bends, and its arrows point in different directions:

deep = torch.nn.Sequential(
    torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1), torch.nn.Sigmoid()
)
out = deep(grid)
(field,) = torch.autograd.grad(out, grid, torch.ones_like(out))
print("directions:", directions(field))
title = "Gradient of a two-layer network: the arrows turn from point to point"
ax = pullback.plot.field(grid, field, title=title)

# %%
# What goes wrong
# ---------------
#
# If you call ``backward`` twice without clearing ``grid.grad``, every arrow doubles. You do
# not see the doubling in a plot that scales its arrows:

before = grid.grad.clone()
y = net(grid)
y.backward(torch.ones_like(y))
torch.equal(grid.grad, 2 * before)

# %%
# The parameters require gradients as well, and so ``backward`` has also filled their
# ``.grad``, with gradients summed over all 81 points. If you want only the gradient with
# respect to the grid, pass ``inputs=``:

print("weight.grad without inputs=:", net[0].weight.grad is not None)
net.zero_grad()
grid.grad = None
y = net(grid)
y.backward(torch.ones_like(y), inputs=[grid])
print("weight.grad with inputs=:", net[0].weight.grad is not None)

# %%
# *Why does* ``vmap(grad(net))`` *raise an error?* :func:`torch.func.vmap` removes the batch
# dimension. For a single point ``y`` then has shape ``(1,)``, but :func:`torch.func.grad`
# wants ``()``. Select the only entry of ``y``:

from torch.func import grad, vmap

points = grid.detach()
try:
    vmap(grad(deep))(points)
except RuntimeError as error:
    print(error)
singly = vmap(grad(lambda point: deep(point)[0]))(points)

# %%
# As a check, we compare the gradient at every point with the formula. For the network
# with two layers, we compare the field with the result of ``vmap``, which treats each
# point separately but takes a single call, and with the result of a loop, which calls
# ``grad`` for one point after another:

weight, bias = net[0].weight.detach(), net[0].bias.detach()
p = torch.sigmoid(points @ weight.T + bias)
torch.testing.assert_close(grid.grad, p * (1 - p) * weight)
torch.testing.assert_close(field, singly)
looped = torch.stack([grad(lambda point: deep(point)[0])(point) for point in points])
torch.testing.assert_close(field, looped)

# %%
# Where next
# ----------
#
# :ref:`mixing-samples` is about networks whose points do mix. For the :term:`Jacobian` with
# respect to the parameters instead of the inputs, read :ref:`jacobian-of-parameters`.
# :ref:`chapter-2` goes on to whole Jacobians.
#
# .. asked: gradient field; quiver plot; vector field of a network; plot gradient arrows
#    on a grid
# .. words: quiver, arrows, map, contour, slope field, surface, grid
