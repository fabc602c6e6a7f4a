r"""
.. _seeing-the-gradient:

Seeing the gradient of a network
================================

A small neural network looks at two numbers, the temperature and the humidity outside, and
says how likely it is that people will open their windows. If the weather changes a
little, in which direction would the answer grow fastest? One ``backward`` call tells you
this for as many points as you like, and the answer is a picture.
"""

# %%
# Eighty-one points
# -----------------
#
# The simplest such network has a single layer. Each of the two inputs gets a weight, a
# bias is added, and the sigmoid turns the sum into a number between 0 and 1. Nobody has
# trained it yet, so its weights are random, and we only want to see what such a picture
# looks like. Both inputs are scaled, so that 0 is an
# ordinary day. We look at a grid of nine by nine points:

import torch

line = torch.linspace(-2, 2, 9)
points = torch.cartesian_prod(line, line).requires_grad_()

torch.manual_seed(1)  # so that you see the same weights
layer = torch.nn.Linear(2, 1)
y = torch.sigmoid(layer(points))

# %%
# .. predict::
#    :for: the shape of points.grad
#
#    ``points`` has the shape ``(81, 2)`` and ``y`` the shape ``(81, 1)``. We want the
#    gradient of the output at each point. Which ``v`` do you pass, of which shape, and
#    which shape will ``points.grad`` have?

y.backward(torch.ones_like(y))
points.grad.shape

# %%
# Each point goes through the layer by itself, so ones are right here. ``v`` looks like
# ``y`` and has the shape ``(81, 1)``. ``points.grad`` looks like ``points``: a pair of
# numbers for each point, which we can draw as an arrow:

import pullback.plot

one_layer = points.grad.clone()
ax = pullback.plot.field(points.detach(), one_layer, title="One layer: where y grows")

# %%
# Each arrow shows in which direction the output grows fastest from that point. Its length
# says how fast, compared with the other arrows of the picture, and the colour bar has the
# numbers. Two things stand
# out. All arrows point in the same direction, and they are longest along one line across
# the picture.
#
# Both follow from the walk back. The walk starts with a 1 at the output. The sigmoid
# multiplies it by its slope, which is large in the middle of its curve, where the output
# is near one half, and small at both ends. This sets the lengths. Then the layer
# multiplies what is left by its two weights. They are the same at every point, and so is
# the direction:

slope = (y * (1 - y)).detach()  # the slope of the sigmoid
torch.allclose(one_layer, slope * layer.weight.detach())

# %%
# Two layers
# ----------
#
# With a second layer, the line can bend. We train such a network briefly. In this
# town, people open their windows when the weather is ordinary, that is inside a circle,
# and close them on extreme days of any kind:

torch.manual_seed(0)  # so that you see the same network
network = torch.nn.Sequential(
    torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1), torch.nn.Sigmoid()
)
target = ((points**2).sum(1, keepdim=True) < 2).float().detach()
optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy(network(points.detach()), target)
    loss.backward()
    optimizer.step()
right = ((network(points) > 0.5) == (target > 0.5)).sum()
print(f"{right} of 81 points are right")

# %%
# The network has learned all of the points. In the loop, ``loss.backward()`` needs no
# argument, because ``loss`` is a number, and what we want from it are the gradients of
# the weights. For our picture we want the gradients at the points, so we pass ones:

points.grad = None
y = network(points)
y.backward(torch.ones_like(y))
ax = pullback.plot.field(points.detach(), points.grad, title="Two layers: where y grows")

# %%
# Now the arrows point inwards, to the days on which the windows are open, and they are
# longest around the circle, where the output changes from 0 to 1. In the middle and far
# outside they almost vanish. The network is sure of itself there, and a small change of the
# weather makes no difference.
#
# This picture is called a *gradient field*. Do the same for the pixels of an image instead
# of two numbers, and you get a *saliency map*, which people draw to see to which pixels
# a score is most sensitive.
#
# Following the arrows
# --------------------
#
# If you take a step along an arrow, the output should grow. By how much? Each coordinate
# moves by some amount, and for each the gradient says at which rate the output follows. So
# the gradient promises a gain of *rate times step*, added up over the two coordinates. We
# look at the point with the longest arrow, and take a short and a long step along it:

gradient = points.grad
steepest = gradient.norm(dim=1).argmax()
for size in (0.01, 10.0):
    step = size * gradient
    with torch.no_grad():
        gain = network(points + step) - y
    promised = (gradient * step).sum(dim=1, keepdim=True)
    hoped, got = promised[steepest].item(), gain[steepest].item()
    print(f"{size:5}: promised {hoped:.4f}, gained {got:.4f}")
    start, end = points[steepest].detach(), (points + step)[steepest].detach()
    print("       from", start, "to", end)

# %%
# The short step brings nearly what was promised. The long one promises a gain of more than
# 20, to an output that cannot exceed 1, and in fact the output falls. You can see why: the
# step has led across the circle, and far out on the other side.
#
# .. predict::
#    :value: 2
#    :for: points, with the small step
#
#    That was one point. At how many of the 81 points will the output grow with the small
#    step? At all of them? And with the long one?

for size in (0.01, 10.0):
    with torch.no_grad():
        gain = network(points + size * gradient) - y
    print(f"{size:5}: the output grows at {(gain > 0).sum()} of 81 points")

# %%
# With the short step the output grows at every point, with the long one only at some.
# A gradient is a rate at the point where you stand. It promises nothing about the far end
# of a long step, and this is one reason why training uses small learning rates.
#
# One point of the field, for the single layer. Wherever you move it, the arrow points the
# same way, and only its length changes:

pullback.live(lambda p: torch.sigmoid(layer(p)), torch.tensor([0.5, -1.0]))

# %%
# .. admonition:: Remember
#
#    - With ones, one call gives the gradient at every point of a grid, if the function
#      treats the points one by one.
#    - The gradient points in the direction in which the output grows fastest, and its
#      length is the rate in that direction.
#    - It is a rate at this point. Small steps follow it, as long as the gain is not lost in
#      rounding, and long steps do not have to.
#
# .. admonition:: Try it
#
#    ``layer`` has the weights :math:`w_1` and :math:`w_2` and no hidden layer. You pass
#    ``10 * torch.ones_like(y)`` instead of ones. How do the arrows change? And what
#    does ``-torch.ones_like(y)`` do to them? (Each row of the table is multiplied by its
#    entry of ``v``.)
#
# .. dropdown:: Answer
#
#    With ten times ones every gradient is ten times as long, in the same direction. (The
#    drawing fits its arrows to the page, so that you would see it in the numbers of the
#    colour bar.) With minus ones all arrows turn around, and show where the output falls
#    fastest.
#
# .. dropdown:: How we checked this page
#
#    The arrows of both networks are compared with small steps in both directions, and the
#    small step with the gain that was promised.


def by_steps(f, at, h=1e-6):
    at = at.double()
    first, second = torch.eye(2, dtype=torch.float64) * h
    columns = [(f(at + s) - f(at - s)) / (2 * h) for s in (first, second)]
    return torch.cat(columns, dim=1).detach()


here = points.detach()
arrows = by_steps(lambda t: torch.sigmoid(layer.double()(t)), here)
torch.testing.assert_close(one_layer.double(), arrows, rtol=1e-4, atol=1e-6)
arrows = by_steps(network.double(), here)
torch.testing.assert_close(gradient.double(), arrows, rtol=1e-4, atol=1e-6)

step = 1e-6
with torch.no_grad():
    gain = network(here.double() + step * gradient.double()) - network(here.double())
promised = step * (gradient.double() ** 2).sum(1, keepdim=True)
torch.testing.assert_close(gain, promised, rtol=1e-3, atol=1e-12)

# %%
# **Next:** you have all you need to read a line with ``backward(v)`` that you have never
# seen. :ref:`check-yourself-1` lets you try.
#
# .. asked: gradient of a network with respect to its input; derivative of the output by
#    the input; draw gradient arrows; plot the gradient of a neural network; which way
#    does the prediction grow; how does the output react to the inputs; sensitivity of a
#    network to its inputs; which input influences the output most; derivative of a
#    trained model; slope of my model
