r"""
.. _seeing-the-gradient:

Seeing the gradient of a network
================================

A small neural network looks at two numbers, the temperature and the humidity outside, and
says how likely it is that people will open their windows. On which days does a small change
of the weather make a large difference to this answer? And which change makes it grow? One
call, ``y.backward(torch.ones_like(y))``, tells you this for as many points as you like, and
the answer is a picture. If the input is an image instead of the weather, the same call
shows which of its pixels a network reacts to.
"""

# %%
# The network
# -----------
#
# Temperature and humidity are scaled, so that 0 is an ordinary day. In this town, people
# open their windows when the weather is ordinary, that is inside a circle around 0, and
# close them on extreme days of any kind. We show the network nine temperatures with nine
# humidities each, which makes 81 days:

import torch

line = torch.linspace(-2, 2, 9)
points = torch.cartesian_prod(line, line)  # all 81 pairs of its numbers
opened = ((points**2).sum(1, keepdim=True) < 2).float()

torch.manual_seed(0)  # so that you see the same network
network = torch.nn.Sequential(
    torch.nn.Linear(2, 16),
    torch.nn.Tanh(),
    torch.nn.Linear(16, 1),
    torch.nn.Sigmoid(),
)

# %%
# And we train it briefly:

optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy(network(points), opened)
    loss.backward()
    optimizer.step()
right = ((network(points) > 0.5) == (opened > 0.5)).sum()
print(f"{right} of 81 days are right")

# %%
# In the loop, ``loss.backward()`` needs no argument, because ``loss`` is a number, and it
# fills the gradients of the weights. For our picture we want something else: the gradient
# of the network's output at each *point*. Each point goes through the network by itself and
# has one output. So this is a case for ones, and each point gets the gradient of its own
# output:

points.requires_grad_()
y = network(points)
y.backward(torch.ones_like(y))
points.grad.shape

# %%
# ``y`` and its ``v`` have the shape ``(81, 1)``, and ``points.grad`` looks like ``points``:
# for each point it has a pair of numbers, the rates at which the output grows with the
# temperature and with the humidity. We draw each pair as an arrow: the first rate says how
# far it goes to the right, the second how far it goes up. So that they fit, all arrows are
# drawn smaller, and their colors say how long they are. The dashed circle is that of the
# town: inside it the windows are open.
#
# .. predict::
#    :expects: choice
#    :wrong: Inward, and longest in the middle: In the middle the network is sure that the
#          windows are open. A small change of the weather makes no difference there.;
#       Outward, and longest far outside: The arrows point to where the output grows, and
#          the windows are open inside the circle.;
#       Outward, and longest in between: The arrows point to where the output grows, and the
#          windows are open inside the circle.
#
#    Which way will the arrows point? And where will they be longest: on the ordinary days
#    in the middle, on the extreme days far outside, or in between?
#
#    - Inward, and longest in the middle
#    - Inward, and longest in between
#    - Outward, and longest in between
#    - Outward, and longest far outside

import pullback.plot
from matplotlib.patches import Circle

gradient = points.grad
ax = pullback.plot.field(points.detach(), gradient, title="Where the output grows")
ax.add_patch(Circle((0, 0), 2**0.5, fill=False, linestyle="--", color="gray"))
names = ax.set(xlabel="temperature", ylabel="humidity")
print("the longest begins at", points[gradient.norm(dim=1).argmax()].tolist())

# %%
# The arrows point inward, to the days on which the windows are open. The longest begin a
# little inside the circle, where the output of our network changes fastest from 0 to 1. In
# the middle and far outside they almost vanish. The network is sure of itself there, and a
# small change of the weather makes no difference. You can think of the output as the height
# of a hill: flat at its top, steep around it, and flat again in the plain.
#
# Such a picture is called a *gradient field*. For the pixels of an image it is a *saliency
# map* (:ref:`saliency`).
#
# The way up
# ----------
#
# What do people do with such an arrow? They follow it. Somebody who wants to see what a
# network takes for a cat starts with any picture, and moves its pixels along the gradient,
# again and again. But our arrow is made of two separate rates, one for the temperature and
# one for the humidity. Does it point in the best direction? Let us try some others.
#
# We go to the point with the longest arrow. In the code, ``norm`` is the length of an
# arrow, the root of the sum of its squares:

here = gradient.norm(dim=1).argmax()
along = gradient[here] / gradient[here].norm()  # the arrow's direction, length 1
across = torch.stack([-along[1], along[0]])  # turned by 90 degrees

# %%
# From there we take eight steps of the same length, 0.01. The first goes along the arrow.
# Each of the others is turned by 45 degrees more than the one before.
#
# .. dropdown:: How a step is turned
#
#    As on the unit circle: cos(angle) says how much of the step goes along the arrow, and
#    sin(angle) how much goes across it.

angles = torch.deg2rad(torch.arange(0.0, 360.0, 45.0))
steps = [0.01 * (angle.cos() * along + angle.sin() * across) for angle in angles]

# %%
# .. predict::
#    :expects: choice
#    :wrong: Most along the arrow, nothing against it: Against the arrow the output falls,
#          and by as much as it rises along it.;
#       Most between the arrow and across, nothing against it: A step between the two has
#          only a part of its length along the arrow.;
#       The same in all eight: The steps have the same length, but they change temperature
#          and humidity by different amounts.
#
#    Which of the eight steps gains most, and which gain next to nothing?
#
#    - Most along the arrow, nothing across it
#    - Most along the arrow, nothing against it
#    - Most between the arrow and across, nothing against it
#    - The same in all eight

with torch.no_grad():
    gains = torch.cat([network(points[here] + step) - y[here] for step in steps])

turns = [f"turned by {degrees}°" for degrees in range(0, 360, 45)]
pullback.draw.bars({"gain": gains}, names=turns)

# %%
# No other step gains as much as the one along the arrow, at 0 degrees. Against it, at 180
# degrees, the output falls most, and across it, at 90 and 270, next to nothing happens.
#
# Why no better direction exists
# ------------------------------
#
# Take an arrow :math:`(3, 4)`: the output grows at a rate of 3 with the temperature, and at
# a rate of 4 with the humidity. A step of :math:`(0.006, 0.008)` gains 0.018 by the
# temperature and 0.032 by the humidity, together 0.05. Here are three steps, all of the
# length 0.01:
#
# - :math:`(0.006, 0.008)`, along the arrow, gains :math:`0.006\cdot3+0.008\cdot4=0.05`.
# - :math:`(-0.008, 0.006)`, across it, gains :math:`-0.008\cdot3+0.006\cdot4=0`.
# - :math:`(0.01, 0)`, to the right, gains :math:`0.01\cdot3+0\cdot4=0.03`.
#
# In the step across, the temperature takes away as much as the humidity brings. The step to
# the right gains something, but less. No step of this length gains more than the one along
# the arrow. And the longer the arrow, the more this step gains: the arrow's length is the
# rate at which the output grows along it.
#
# .. dropdown:: Why this holds for any arrow
#
#    Across the arrow :math:`(3, 4)` lies :math:`(-4, 3)`: the same two numbers, exchanged,
#    one with a minus. A step across loses :math:`4\cdot3` by its first number, and gains
#    :math:`3\cdot4` by its second. This is nothing in total, and so it is with any arrow.
#
#    Now take a step in any direction. It has a part along the arrow and a part across it.
#    The part across gains nothing, so only the part along the arrow counts. This part is
#    longest when the whole step goes along the arrow.
#
#    All of this is true where the gain of a small step is the sum of the two gains. In our
#    network it is so everywhere, because its tanh and its sigmoid are smooth.
#
# How far?
# --------
#
# So the gradient makes a promise: a step along the arrow should gain the length of the step
# times the length of the arrow, which is about 1.5 at our point.
#
# .. predict::
#    :expects: choice
#    :wrong: What was promised: The output is a probability, and cannot rise above 1.;
#       Less, but more than nothing: It would be so if the way always led uphill. A
#          step of 3 is longer than the circle is wide.
#
#    For a step of 0.01 the promise is 0.015, for one of 0.5 it is 0.76, and for one of 3 it
#    is 4.5. But the output is a probability, which cannot rise above 1. How much will the
#    step of 3 gain?
#
#    - What was promised
#    - Less, but more than nothing
#    - Nothing or less

for length in (0.01, 0.5, 3.0):
    with torch.no_grad():
        gain = (network(points[here] + length * along) - y[here]).item()
    promised = length * gradient[here].norm().item()
    print(f"length {length:4}: promised {promised:.4f}, gained {gain:.4f}")

# %%
# The short step brings nearly what was promised, and the longer one less than half of it.
# The step of 3 does not gain at all. It has led across the circle and out on the other
# side, where the windows are closed again. A gradient is about the place where you stand,
# and it promises nothing about the far end of a long step. This is one reason why training
# uses small learning rates.
#
# Now move a point through the town's weather. In the picture it stands where the arrow is
# longest. Stay near the circle, with an output between 0.2 and 0.8. Can you find a day on
# which the humidity makes almost no difference? And one on which the temperature makes
# almost none?

pullback.live(
    network, points[here].detach(), rows=["windows"], columns=["temperature", "humidity"]
)

# %%
# .. dropdown:: Two such days
#
#    The arrow points inward, across the circle. To the right of the middle it points to
#    the left, so at ``[1.3, 0.1]`` it is the temperature that counts. Below the middle it
#    points upward, so at ``[0, -1.2]`` it is the humidity.
#
# .. admonition:: Remember
#
#    - With ones, one call gives the gradient at every point of a grid, if the function
#      treats the points one by one and has one output for each.
#    - For our network, no direction gains faster than the arrow's own, and its length says
#      how fast. (For other functions, see *Where this ends*.)
#    - The gradient says nothing about the far end of a long step.
#
# .. admonition:: Try it
#
#    You pass ``10 * torch.ones_like(y)`` instead of ones. How do the gradients change, and
#    what would you see in the drawing, which makes its arrows fit the page? And what does
#    ``-torch.ones_like(y)`` do to both?
#
# .. dropdown:: Answer
#
#    Each row of the table is multiplied by its entry of ``v``. So with ten times ones every
#    gradient is ten times as long, in the same direction. In the drawing the arrows would
#    look as before, because it fits them to the page, and the numbers at the color bar
#    would be ten times as large. With minus ones all arrows turn around, and show where the
#    output falls fastest. In short, ``v`` says whose growth the arrows show: that of the
#    output, of ten times the output, or of minus the output.
#
# .. dropdown:: And from the other points?
#
#    Below we take a step from each of the 81 points, along its own arrow, and count at how
#    many of them the output grows. With steps of 0.5 there is one exception, the point in
#    the middle, next to the top of the hill. Its arrow is short, and half a unit leads
#    across the top and down the other side. Steps of 3 fail at many more points, because
#    they are longer than the circle is wide.

arrows = gradient / gradient.norm(dim=1, keepdim=True)
for length in (0.01, 0.5, 3.0):
    with torch.no_grad():
        grows = network(points + length * arrows) > y
    print(f"length {length:4}: at {grows.sum()} of 81 points")

# %%
# .. dropdown:: And with a single layer?
#
#    Here is a network that has not been trained and has one layer: each input gets a
#    weight, a bias is added, and the sigmoid turns the sum into a number between 0 and 1.
#    All arrows point in the same direction. The walk of ``backward`` says why. It starts
#    with a 1 at the output, and the sigmoid multiplies it by its slope, :math:`y\,(1-y)`.
#    This slope is large where the output is near one half, and it sets the length of the
#    arrow. Then the layer multiplies it by its two weights, which are the same at every
#    point.

torch.manual_seed(1)  # so that you see the same weights
layer = torch.nn.Linear(2, 1)
single = torch.sigmoid(layer(points))
(one_layer,) = torch.autograd.grad(single, points, torch.ones_like(single))
ax = pullback.plot.field(points.detach(), one_layer, title="One layer")
names = ax.set(xlabel="temperature", ylabel="humidity")

# %%
# .. dropdown:: Where this ends
#
#    - *The function has a kink*, as a ReLU has at 0. There the gain of a small step need
#      not be the sum of the two gains, and the arrow may not point where the output grows
#      fastest. Try small steps in several directions, or ask a little beside the kink.
#    - *The arrow is zero.* Then it has no direction. You may stand on a top, in a hollow or
#      on flat ground. Look at the points around it.
#
# .. dropdown:: How we checked this page
#
#    The arrows of both networks are compared with small steps in both directions, and the
#    eight steps, like a small step from every point, with the gain that was promised. Each
#    case of *Where this ends* is tried.

at = points.detach().double()
slope = (single * (1 - single)).detach()  # the slope of the sigmoid
torch.testing.assert_close(one_layer, slope * layer.weight.detach())


def by_steps(f, at, h=1e-6):
    first, second = torch.eye(2, dtype=torch.float64) * h
    columns = [(f(at + s) - f(at - s)) / (2 * h) for s in (first, second)]
    return torch.cat(columns, dim=1).detach()


expected = by_steps(lambda t: torch.sigmoid(layer.double()(t)), at)
torch.testing.assert_close(one_layer.double(), expected, rtol=1e-4, atol=1e-6)
expected = by_steps(network.double(), at)
torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)

with torch.no_grad():
    falls = (network.float()(points + 0.5 * arrows) <= y)[:, 0]
    far = (network(points[here] + 3.0 * along) - y[here]).item()
assert points[falls].tolist() == [[0, 0]]
network.double()
for angle, step in zip(angles, steps, strict=True):
    torch.testing.assert_close(step @ along, 0.01 * angle.cos(), rtol=0, atol=1e-6)
    torch.testing.assert_close(step @ across, 0.01 * angle.sin(), rtol=0, atol=1e-6)
assert gains.argmax() == 0
away, lengths = points.detach().norm(dim=1), gradient.norm(dim=1)
longest = away[lengths > 0.9 * lengths.max()]
assert longest.min() > 1
assert longest.max() < 1.2 < 2**0.5  # a little inside the circle
assert gains.argmin() == 4
by_numbers = torch.tensor([[0.006, 0.008], [-0.008, 0.006], [0.01, 0.0]])
torch.testing.assert_close(by_numbers.norm(dim=1), torch.full((3,), 0.01))
by_rates = by_numbers @ torch.tensor([3.0, 4.0])
torch.testing.assert_close(by_rates, torch.tensor([0.05, 0.0, 0.03]), rtol=0, atol=1e-7)
promised_gains = torch.stack(steps) @ gradient[here]
torch.testing.assert_close(gains, promised_gains, rtol=0, atol=3e-4)
assert 1.5 < gradient[here].norm() < 1.53

for day, counts in (([1.3, 0.1], 0), ([0.0, -1.2], 1)):
    day = torch.tensor(day, dtype=torch.float64)
    rates = torch.func.jacrev(network)(day)[0]
    assert 0.2 < network(day) < 0.8
    assert abs(rates[1 - counts]) < 0.05 * abs(rates[counts])

step = 1e-6
with torch.no_grad():
    gain = network(at + step * gradient.double()) - network(at)
promised = step * (gradient.double() ** 2).sum(1, keepdim=True)
torch.testing.assert_close(gain, promised, rtol=1e-3, atol=1e-12)

for passed in (10.0, -1.0):
    y = network(at.requires_grad_())
    (scaled,) = torch.autograd.grad(y, at, torch.full_like(y, passed))
    torch.testing.assert_close(scaled, passed * gradient.double(), rtol=1e-4, atol=1e-5)

ridge = torch.zeros(2, requires_grad=True)  # at a kink: |a| + 0.1 b
(0.1 * ridge[1] + ridge[0].abs()).backward()
assert ridge.grad.tolist() == [0, torch.tensor(0.1).item()]  # and yet a gains faster
flat = torch.zeros(2, requires_grad=True)
(flat**2).sum().backward()
assert not flat.grad.any()
assert gradient.norm(dim=1).min() > 0  # no arrow of our network is zero

inward = ((gradient * points.detach()).sum(1) < 0)[lengths > 0.5 * lengths.max()]
peak = away[lengths.argmax()]
between = bool(1 < peak < 2)
best = gains.argmax().item() * 45
nothing = {45 * i for i, gain in enumerate(gains) if abs(gain) < 0.03 * gains.max()}
guesses = {  # wrong ones, of which the boxes above say what they are
    "Inward, and longest in the middle": bool(inward.all() and peak <= 1),
    "Inward, and longest in between": bool(inward.all() and between),
    "Outward, and longest in between": bool(not inward.any() and between),
    "Outward, and longest far outside": bool(not inward.any() and peak >= 2),
    "Most along the arrow, nothing across it": best == 0 and nothing == {90, 270},
    "Most along the arrow, nothing against it": best == 0 and nothing == {180},
    "Most between the arrow and across, nothing against it": best == 45 and 180 in nothing,
    "What was promised": 4 < far < 5,
    "Less, but more than nothing": 0 < far < 1,
    "Nothing or less": far <= 0,
    "The same in all eight": bool(gains.max() - gains.min() < 0.03 * gains.max()),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")

# %%
# **Next:** you have all you need to read a line with ``backward(v)`` that you have never
# seen. :ref:`check-yourself-1` lets you try.
#
# .. asked: gradient of a network with respect to its input; derivative of the output by
#    the input; draw gradient arrows; plot the gradient of a neural network; which way
#    does the prediction grow; how does the output react to the inputs; sensitivity of a
#    network to its inputs; which input influences the output most; derivative of a
#    trained model; slope of my model
# .. words: picture, quiver, vector field, heat map, decision surface, partial dependence,
#    trend, arrow map, meshgrid, contour, response of the model, which feature matters
