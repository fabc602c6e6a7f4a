r"""
.. _ones:

Ones: the slope at many points in one call
==========================================

You want to draw the derivative of a curve, and so you need it at a hundred points. A loop
with a hundred calls of ``backward`` would be slow. One call,
``y.backward(torch.ones_like(y))``, gives all hundred derivatives at once. For a batch of
samples, the same line often gives each sample the gradient of its own output. But for other
functions it returns something else, and no error says so. How can you tell?
"""

# %%
# Each output has an input of its own
# -----------------------------------
#
# We take the curve :math:`y=x^2`, and five points to begin with:

import torch

x = torch.arange(1.0, 6.0, requires_grad=True)
y = x**2
y

# %%
# Five numbers went in and five came out. So the :term:`Jacobian`, the table of all rates,
# has five rows and five columns, and most of its entries are zero. The third output is the
# square of the third input. It does not care about the other four:

J = torch.autograd.functional.jacobian(torch.square, x.detach())
J

# %%
# The slopes that we want stand on the diagonal, which runs from the top left to the bottom
# right. We begin with three of them:
#
# .. predict::
#    :expects: v
#    :for: v
#    :wrong: every row: Ones let every row through.;
#       slopes: These are the slopes themselves. v says how much of each row is taken, and
#          the slopes are in the rows.;
#       third row: A single 1 lets one row through.;
#       the points: Here each row is multiplied by its point.
#
#    Which ``v`` gives the slopes at the first three points, and 0 at the other two, so that
#    ``x.grad`` is ``[2, 4, 6, 0, 0]``?

import pullback

pullback.draw.vjp([1, 1, 1, 0, 0], J, result_name="x.grad")

# %%
# ``v`` holds a price for each output, which multiplies its row. So each 1 lets its row
# through, and each 0 keeps its row out. In the drawing, you can follow each slope down its
# column. To get the slopes at all five points, we let every row through, and this
# is the call with ones:

y.backward(torch.ones_like(y))
x.grad

# %%
# These are the slopes :math:`2x`, one for each point. Nothing changes with more points, and
# so a whole curve and its slope cost one call:

import matplotlib.pyplot as plt

t = torch.linspace(-3, 3, 100, requires_grad=True)
curve = torch.sin(t) * torch.exp(-(t**2) / 4)
curve.backward(torch.ones_like(curve))

plt.plot(t.detach(), curve.detach(), label="curve")
plt.plot(t.detach(), t.grad, "--", label="slope")
plt.title("A curve, and its slope at 100 points")
legend = plt.legend()

# %%
# Where the curve has its top and its bottom, the slope passes through zero.
#
# Do the slopes stay apart?
# -------------------------
#
# So far ones have given a slope for each output. Now take the smallest network there is. It
# has one weight ``w``, which multiplies each sample.
#
# .. predict::
#    :for: w.grad
#    :wrong: mean: This is the mean of the three slopes, and also how many there are. Ones
#          add the slopes up.;
#       slopes of w: These are the three slopes. w is one number, and so w.grad has room for
#          one, their sum.;
#       sum of y: This is the sum of the three outputs. The slope of each is s, without w.;
#       outputs: These are the three outputs. The slope of each is s, without w.;
#       product: Here the three slopes are multiplied. They are added.;
#       weight: This is w itself. Its gradient says how fast the sum of the outputs rises
#          with it.;
#       squares of s: Here the squares of the samples are added. The slope of w * s is s.
#
#    ``y = w * s``, for the three samples ``s = [2, 3, 4]``. The slope of :math:`w\,s` with
#    respect to :math:`w` is :math:`s`, so there are three slopes, 2, 3 and 4. What is in
#    ``w.grad`` after ``y.backward(torch.ones(3))``?

w = torch.tensor(5.0, requires_grad=True)
s = torch.tensor([2.0, 3.0, 4.0])
(w * s).backward(torch.ones(3))
w.grad

# %%
# Not three slopes, but one number, :math:`2+3+4`. Ones have *added up* the rows of the
# table, here and on the curve. On the curve nobody could see it: each point was used by one
# output only, so its column held one slope, and nothing but zeros was added to it. The
# weight is used by *all* outputs, and its column holds three slopes.
#
# So this is how you can tell. **Where only one output uses a number in x, ones give its
# slope. Where several outputs use it, ones give the sum of their slopes.** In the house of
# the first page both outputs, heat and fuel, use every stove. There, ones add a rate of
# heat to a rate of fuel.
#
# If the outputs are losses, the sum is what training wants: the gradient of the total loss
# of a batch. But suppose that you want the three slopes apart. ``w.grad`` looks like ``w``,
# so it has room for one number, and no ``v`` can put three into it. Part 2 shows how to get
# them (:ref:`one-jacobian-per-sample`).
#
# The sum, and the mean
# ---------------------
#
# Instead of ones, many people write ``y.sum().backward()``. As on the first page, this is
# the same: the sum rises by 1 with each entry of ``y``, so it sends ones back to ``y``. You
# may write the one that you find easier to read. And if somebody writes ``mean`` in the
# place of ``sum``?
#
# .. predict::
#    :value: 1
#    :for: five numbers
#    :wrong: ones again: This is what the sum sends. When an entry grows by a unit, the mean
#          of five grows by less.;
#       the mean itself: This is the mean itself, five times. The question is how fast it
#          rises with each entry.;
#       fifths of y: These are the entries divided by five. How fast the mean rises does not
#          depend on how large they are.;
#       fifths of the slopes: This is what comes out at x. At y the walk has not come to the
#          squares yet.
#
#    We go back to the curve at five points. Which five numbers does
#    ``y.mean().backward()`` send to ``y``, and what becomes of the slopes?

x.grad = None
y = x**2
y.retain_grad()
y.mean().backward()
print(y.grad)
x.grad

# %%
# The mean is the sum divided by five. So it sends 1/5 back in the place of each 1, and all
# slopes come out five times too small. Draw them, and the curve looks flatter than it is.
#
# In the picture, leave the points where they are. Can you find a ``v`` with which all five
# numbers at the bottom are 12?

pullback.live(torch.square, torch.arange(1.0, 6.0))

# %%
# .. dropdown:: The v for which all five are 12
#
#    ``[6, 3, 2, 1.5, 1.2]``. In each column there is one slope, 2, 4, 6, 8 or 10, and
#    nothing but its own entry of ``v`` multiplies it.
#
# A batch of samples
# ------------------
#
# You will mostly use ones for a batch: many samples, each with several numbers, and one
# output for each sample. Here is a batch that is small enough for a pencil. The samples are
# three rectangles, the two numbers of each are its sides, and the output is its area,
# :math:`a\cdot b`.
#
# .. predict::
#    :item: 0
#    :for: the first row of sides.grad
#    :wrong: the sides: These are the sides. The area grows with each side at the rate of
#          the other.;
#       all rectangles: Here the gradients of all three areas are added up. Each rectangle
#          has a row of its own.;
#       area itself: This is the area. The question is how fast it grows with each side.;
#       what goes in: Ones go in, as the prices of the three areas.
#
#    The rectangles have the sides 1 and 2, 3 and 4, and 5 and 6. We pass three ones, one
#    for each area. In ``w.grad`` above, three slopes were added up. Are the gradients of
#    the three areas added up here, too? What is in the first row of ``sides.grad``?


def area(sides):
    a, b = sides[:, 0], sides[:, 1]
    return a * b


sides = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
areas = area(sides)
areas.backward(torch.ones(3))
in_one_call = sides.grad
in_one_call

# %%
# Here are the gradients of the three areas, one after the other:

for k in range(3):
    sides.grad = None
    area(sides)[k].backward()  # one area is a number, so there is nothing to pass
    print(sides.grad)

# %%
# Added up, they make the result above, so ones have added here, too. But each of the three
# is zero outside of its own rectangle, and a sum with zeros changes nothing. So every
# rectangle has kept the gradient of its own area, :math:`(b,\;a)`. PyTorch does not know
# what a rectangle is: it is enough that no area uses a side of another one.
#
# A network in the place of ``area`` changes nothing, if it has one output for each sample
# and no sample has an influence on the output of another. Most layers treat each sample by
# itself, and :ref:`when-ones-mislead` is about those that do not. With such gradients
# people see which part of an input a network reacts to (:ref:`seeing-the-gradient`).
#
# .. admonition:: Remember
#
#    - ``y.backward(torch.ones_like(y))`` and ``y.sum().backward()`` give the same: the
#      gradient of the sum of all outputs. (For complex numbers, see *Where this ends*.)
#    - If each input is used by only one output, you get the derivative of that output with
#      respect to it. For a curve this is the slope at every point.
#    - Inputs that several outputs share, such as the weights of a network, get the sum.
#
# .. predict:: Try it
#    :for: what ones give
#    :wrong: the outputs: These are the three products. The result has a number for each of
#          the four inputs.;
#       right neighbors: Here each number gets its right neighbor alone. It also belongs
#          to the product with the left one.;
#       left neighbors: Here each number gets its left neighbor alone. It also belongs to
#          the product with the right one.;
#       how often: This is how many outputs use each input. Each use counts with the other
#          factor.;
#       first row: This is the row of the first output alone. Ones add up all three.
#
#    Four numbers ``x = [1, 2, 3, 4]``, and three outputs, each the product of two
#    neighbors: ``y = x[:-1] * x[1:]``. What do ones give? Write down the table, and say
#    for which of the four inputs the result is the slope of a single output.
#
# .. dropdown:: Answer
#
#    The rows are ``[2, 1, 0, 0]``, ``[0, 3, 2, 0]`` and ``[0, 0, 4, 3]``, so ones give
#    ``[2, 4, 6, 3]``. Only the first and the last number are used by a single output. The
#    other two belong to two outputs each, and 4 and 6 are sums of two rates.

four = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
(four[:-1] * four[1:]).backward(torch.ones(3))
four.grad

# %%
# .. dropdown:: The same with a network
#
#    The two numbers at the end, for the first sample alone, are those of the first row.

torch.manual_seed(0)  # so that you see the same numbers
network = torch.nn.Sequential(
    torch.nn.Linear(2, 8),
    torch.nn.Tanh(),
    torch.nn.Linear(8, 1),
)
samples = sides.detach().requires_grad_()
outputs = network(samples)
outputs.backward(torch.ones_like(outputs))
print(samples.grad)

first = sides.detach()[:1].requires_grad_()
network(first).backward()  # y holds a single number, so there is nothing to pass
first.grad

# %%
# .. dropdown:: Where this ends
#
#    - *y holds complex numbers.* Then ``y.sum().backward()`` is refused. Ones are accepted,
#      and give the gradient of the real part of the sum. If that is what you want, say so
#      in the program: ``y.real.sum().backward()``.
#
# .. dropdown:: How we checked this page
#
#    The slopes are compared with the diagonal of the table, the gradients of the points and
#    of the samples with one call for each of them, and the sum with ones for a function
#    that mixes its inputs and for a complex one.

y = x**2
(by_sum,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
assert torch.equal(by_sum, J.diagonal())
assert torch.equal(torch.autograd.grad(y.sum(), y)[0], torch.ones(5))
even = torch.tensor([6.0, 3.0, 2.0, 1.5, 1.2]) @ J
torch.testing.assert_close(even, torch.full((5,), 12.0))
assert torch.equal(J, J.diagonal().diag())
assert torch.equal(in_one_call, sides.detach().flip(1))
for sample, together in zip(samples, samples.grad, strict=True):
    alone = sample.detach()[None].requires_grad_()
    (gradient,) = torch.autograd.grad(network(alone), alone)
    torch.testing.assert_close(gradient[0], together)
assert w.grad == s.sum()
exact = torch.exp(-(t**2) / 4) * (torch.cos(t) - torch.sin(t) * t / 2)
torch.testing.assert_close(t.grad, exact.detach())
torch.testing.assert_close(first.grad, samples.grad[:1])

mixed = torch.softmax(x, 0) * x.cumsum(0)
(ones,) = torch.autograd.grad(mixed, x, torch.ones(5), retain_graph=True)
(summed,) = torch.autograd.grad(mixed.sum(), x)
assert torch.equal(ones, summed)
torch.testing.assert_close(x.grad, by_sum / 5)
z = torch.tensor([1 + 2j, 3j], requires_grad=True)
(ones,) = torch.autograd.grad(z**2, z, torch.ones(2, dtype=z.dtype))
(of_real_part,) = torch.autograd.grad((z**2).real.sum(), z)
assert torch.equal(ones, of_real_part)
try:
    (z**2).sum().backward()
except RuntimeError as error:
    refused = str(error)
assert "real scalar" in refused
assert four.grad.tolist() == [2, 4, 6, 3]


def neighbors(four):
    return four[:-1] * four[1:]


rows = torch.autograd.functional.jacobian(neighbors, four.detach())
guesses = {  # wrong ones, of which the boxes above say what they are
    "the sides": sides[0].detach(),
    "all rectangles": in_one_call.sum(0),
    "area itself": areas[0].detach().expand(2),
    "what goes in": torch.ones(2),
    "every row": torch.ones(5),
    "slopes": torch.tensor([2.0, 4.0, 6.0, 0.0, 0.0]),
    "third row": torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]),
    "the points": torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0]),
    "mean": s.mean(),
    "slopes of w": s,
    "sum of y": (w * s).sum(),
    "outputs": w * s,
    "product": s.prod(),
    "weight": w.detach(),
    "the outputs": neighbors(four),
    "right neighbors": torch.cat([four[1:], torch.zeros(1)]),
    "left neighbors": torch.cat([torch.zeros(1), four[:-1]]),
    "how often": (rows != 0).sum(0),
    "first row": rows[0],
    "squares of s": (s**2).sum(),
    "ones again": torch.ones(5),
    "the mean itself": y.detach().mean().expand(5),
    "fifths of y": y.detach() / 5,
    "fifths of the slopes": x.grad,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** and where ones would add what you want to keep apart, such as heat and fuel?
# There you ask for :ref:`one output at a time <one-output-at-a-time>`.
#
# .. asked: why torch.ones_like(y); why ones_like in backward; what does
#    backward(torch.ones_like(y)) mean; derivative at many points at once; derivative of a
#    curve at all points without a loop; gradient for every element of a batch in one call;
#    elementwise derivative; what do ones in backward do; slope at every x; derivative of a
#    function on a grid; derivative of sin at many values
# .. words: copied from a tutorial, magic line, plot a curve and its slope, linspace,
#    sigmoid derivative curve, every point, velocity from position, activation function
#    derivative, array of inputs, np.gradient
