r"""
.. _ones:

Ones: the slope at many points in one call
==========================================

You want to draw the derivative of a curve, and so you need it at a hundred points. A
loop with a hundred calls of ``backward`` would do it, and be slow. In other people's
code you find one call, ``y.backward(torch.ones_like(y))``, and it gives all hundred
derivatives at once. But on the first page of this course the same call gave nonsense for
our house. What is different here?
"""

# %%
# A table with one diagonal
# -------------------------
#
# We take the curve :math:`y=x^2` at five points:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y

# %%
# Five numbers went in and five came out. So there is a table with five rows and five
# columns, and most of its entries are zero. The third output is the square of the third
# input. It does not care about the other four:

J = torch.autograd.functional.jacobian(torch.square, x.detach())
J + 0.0  # shows -0 as 0

# PICTURE: vjp ones

# %%
# The slopes that we want stand on the diagonal. Now recall what ``backward`` does with ``v``:
# it multiplies each row by its entry, and adds the rows up. With ones the rows stay as
# they are. And when we add them up, each column has only one entry that counts, so
# nothing gets mixed:
#
# .. admonition:: Predict
#
#    Which five numbers will be in ``x.grad``?

y.backward(torch.ones_like(y))
x.grad

# %%
# These are the slopes :math:`2x`, one for each point. The ones have *added up* the rows, but
# since every input is used by only one output, the sum for each input has only one term.
#
# This was the difference. In our house every stove is used by both outputs, each column of
# the table has two entries, and ones add a unit of heat to a unit of fuel.
#
# The sum does the same
# ---------------------
#
# Perhaps you have seen another line for the same purpose, ``y.sum().backward()``. Which of
# the two is better? Look at what the sum sends back to ``y``:

x.grad = None
y = x**2
y.retain_grad()
y.sum().backward()
print(y.grad)
x.grad

# %%
# If any entry of ``y`` grows by 1, the sum grows by 1. So the gradient of the sum, with
# respect to ``y``, is a tensor of ones, and by the last page this is the ``v`` that arrives
# at ``y``. The two lines ask for the same product and may be used in place of each other,
# whatever the function is. With the mean it would be ones divided by the number of
# entries, so all slopes would come out five times too small.
#
# Points with several coordinates
# -------------------------------
#
# A point may consist of several numbers, as in the plane. Then ``x`` has a row for each
# point. Take :math:`f(x)=-x_1^2+x_2^2` at three points:


def saddle(x):
    return -(x[:, 0] ** 2) + x[:, 1] ** 2


points = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
heights = saddle(points)
heights.backward(torch.ones(3))
points.grad

# %%
# There is one height for each point, so ``v`` has three ones and not six. Each row of the
# result is the gradient at one point, :math:`(-2x_1,\;2x_2)`. PyTorch does not know that the
# first dimension counts points. It has added up the gradients of three outputs, but each
# of them is zero at the other two points.
#
# The most common case is a network with one output per sample. If it treats each sample
# by itself, ones give the gradient of each output with respect to its own sample:

torch.manual_seed(0)  # so that you see the same numbers
network = torch.nn.Sequential(
    torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
)
samples = points.detach().requires_grad_()
outputs = network(samples)
outputs.backward(torch.ones_like(outputs))
samples.grad

# %%
# What ones do to the weights
# ---------------------------
#
# The same call has filled the gradients of the weights, too, and these are a different
# matter. The samples have a row each, but the weights are used by *all* outputs. So
# their gradients have been added up over the samples. A small case shows it:
#
# .. admonition:: Predict
#
#    ``w`` is a single number, and ``y = w * t`` at the points ``t = [1, 2, 3]``. The slope
#    of :math:`w\,t` with respect to :math:`w` is :math:`t`. What is ``w.grad`` after
#    ``y.backward(torch.ones(3))``?

w = torch.tensor(5.0, requires_grad=True)
t = torch.tensor([1.0, 2.0, 3.0])
(w * t).backward(torch.ones(3))
w.grad

# %%
# It is :math:`1+2+3`. For training this is what you want: the gradient of the total loss of
# a batch. If you expected three slopes, no ``v`` can give them in one call, because
# ``w.grad`` has the shape of ``w`` and holds one number. How to keep them apart is
# shown in part 2, in :ref:`one-jacobian-per-sample`.
#
# .. admonition:: Remember
#
#    - ``y.backward(torch.ones_like(y))`` and ``y.sum().backward()`` are the same: the
#      gradient of the sum of all outputs.
#    - If each input is used by only one output, this sum has one term for each input, and
#      you get the derivative at every point.
#    - Inputs that several outputs share, such as the weights of a network, get the sum.
#
# .. admonition:: Try it
#
#    You want the second derivative of :math:`x^3` at the same five points. Call
#    ``torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)`` for the first
#    derivative. Which ``v`` do you pass for the second, and what do you expect?
#
# .. dropdown:: Answer
#
#    Ones again, because each first derivative depends only on its own point:
#    ``torch.autograd.grad(first, x, torch.ones_like(first))`` gives :math:`6x`, that is
#    ``[-12, -6, 0, 6, 12]``.
#
# .. dropdown:: How we checked this page
#
#    The slopes are compared with the diagonal of the table, the gradients of the points and
#    of the samples with one call for each of them, and the sum with ones for a function
#    that mixes its inputs.

assert torch.equal(x.grad, J.diagonal()) and torch.equal(J, J.diagonal().diag())
assert torch.equal(points.grad, points.detach() * torch.tensor([-2.0, 2.0]))
for sample, together in zip(samples, samples.grad, strict=True):
    alone = sample.detach()[None].requires_grad_()
    (gradient,) = torch.autograd.grad(network(alone), alone)
    torch.testing.assert_close(gradient[0], together)
assert w.grad == t.sum()

mixed = torch.softmax(x, 0) * x.cumsum(0)
(ones,) = torch.autograd.grad(mixed, x, torch.ones(5), retain_graph=True)
(summed,) = torch.autograd.grad(mixed.sum(), x)
assert torch.equal(ones, summed)

cube = x**3
(first,) = torch.autograd.grad(cube, x, torch.ones(5), create_graph=True)
(second,) = torch.autograd.grad(first, x, torch.ones(5))
torch.testing.assert_close(second, torch.tensor([-12.0, -6.0, 0.0, 6.0, 12.0]))

# %%
# **Next:** "each input is used by only one output" is easily said. :ref:`when-ones-mislead`
# is about functions that break it without looking like it.
