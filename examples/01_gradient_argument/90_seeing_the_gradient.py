r"""
.. _seeing-the-gradient:

Seeing the gradient of a network
================================

A thermostat looks at two numbers, how cold it is outside and how late it is, and says
how much it wants to heat. It is a small neural network. If you stand at some point of the
plane of these two numbers, in which direction does it want to heat more? A single
``backward`` call answers this for the whole plane, and the answer is a picture.
"""

# %%
# Eighty-one points
# -----------------
#
# The simplest such network has a single layer. Two inputs go in, each gets a weight, and
# the sigmoid turns the sum into a number between 0 and 1. We look at it on a grid of
# nine by nine points:

import torch

line = torch.linspace(-2, 2, 9)
points = torch.cartesian_prod(line, line).requires_grad_()

torch.manual_seed(1)  # so that you see the same weights
layer = torch.nn.Linear(2, 1)
y = torch.sigmoid(layer(points))
print(tuple(points.shape), tuple(y.shape))

# %%
# .. admonition:: Predict
#
#    We want the gradient of the output at each of the 81 points. Which ``v`` do you
#    pass, of which shape, and which shape will ``points.grad`` have?

y.backward(torch.ones_like(y))
points.grad.shape

# %%
# Each point goes through the layer by itself, so ones are right here. ``v`` looks like ``y``
# and has the shape ``(81, 1)``. ``points.grad`` looks like ``points``: a pair of numbers for
# each point, which we can draw as an arrow:

import pullback.plot

one_layer = points.grad.clone()
ax = pullback.plot.field(points.detach(), one_layer, title="One layer: where y grows")

# %%
# Each arrow shows in which direction the output grows fastest from that point, and its
# length says how fast. Two things can be seen at once. All arrows point in the same
# direction, and they are longest along one line across the picture.
#
# Both follow from the walk back. The walk starts with a 1 at the output. The sigmoid
# multiplies it by its slope, which is large in the middle of its curve, where the output
# is near one half, and small at both ends. This makes the lengths. Then the layer
# multiplies what is left by its two weights. They are the same at every point, and so is
# the direction:

slope = (y * (1 - y)).detach()  # the slope of the sigmoid
torch.allclose(one_layer, slope * layer.weight.detach())

# %%
# Two layers
# ----------
#
# With a second layer the network can bend. We train one for a moment, so that it has
# something to say: it should heat inside a ring and not outside:

torch.manual_seed(0)  # so that you see the same ring
network = torch.nn.Sequential(
    torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1), torch.nn.Sigmoid()
)
wish = ((points**2).sum(1, keepdim=True) < 2).float().detach()
optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy(network(points.detach()), wish)
    loss.backward()
    optimizer.step()
print(f"{loss.item():.2f}")

# %%
# The loop calls ``loss.backward()`` without an argument, because ``loss`` is a number, and it
# asks about the weights. For our picture we ask about the points, with ones:

points.grad = None
y = network(points)
y.backward(torch.ones_like(y))
ax = pullback.plot.field(points.detach(), points.grad, title="Two layers: where y grows")

# %%
# Now the arrows point inwards, to the region where the network wants to heat, and they are
# longest around it, where the output changes from 0 to 1. In the middle and far outside
# they almost vanish. The network is sure of itself there, and a small change of the
# inputs makes no difference.
#
# This picture is called a *gradient field*. The same arrows, for the pixels of an image
# instead of two numbers, are drawn when people ask which pixels a classifier has looked
# at. They are called a saliency map then.
#
# Following the arrows
# --------------------
#
# If you take a small step along an arrow, the output should grow, and by the rule of the
# first page we can say how much: each coordinate contributes its rate times its step.
# With a step of one hundredth of the gradient itself, that is a hundredth of its squared
# length:
#
# .. admonition:: Predict
#
#    Does the output grow at *all* of the 81 points? And what would happen with a step
#    that is a thousand times as long?

gradient = points.grad
for size in (0.01, 10.0):
    with torch.no_grad():
        grown = network(points + size * gradient) - y
    print(f"step {size}: {(grown > 0).sum()} of 81 points grow")

# %%
# For the small step it grows everywhere. For the large one it does not, because some of
# the points have jumped over the region and landed on the other side of it. A gradient is a rate at the
# point where you stand. It does not promise anything about the far end of a long step,
# which is why training uses small learning rates.
#
# .. admonition:: Remember
#
#    - With ones, one call gives the gradient at every point of a grid, if the function
#      treats the points one by one.
#    - The gradient points to where the output grows fastest, and its length is the rate.
#    - It is a rate at this point. Only small steps follow it.
#
# .. admonition:: Try it
#
#    ``layer`` has the weights :math:`w_1` and :math:`w_2` and no hidden layer. You pass
#    ``10 * torch.ones_like(y)`` instead of ones. How does the first picture change? And how
#    with ``-torch.ones_like(y)``?
#
# .. dropdown:: Answer
#
#    Ten times ones make every arrow ten times as long, in the same direction. With minus
#    ones all arrows turn around, and show where the output falls fastest. A gradient is
#    proportional to ``v``.
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
