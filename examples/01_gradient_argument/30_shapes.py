r"""
.. _shapes-of-v:

v looks like y, and x.grad looks like x
=======================================

*Mismatch in shape: grad_output[0] has a shape of torch.Size([4, 3]) and output[0] has a
shape of torch.Size([4]).* This is the message that people meet right after they have
learned that ``backward`` wants a tensor. What is ``grad_output[0]``, and why is it
refused? There is a rule that answers every question of this kind, and you can find it
yourself if you remember what the numbers in ``v`` are.
"""

# %%
# Four days
# ---------
#
# The house has three stoves, and now we look at four days. On each day every stove has
# a setting, so ``x`` is a matrix with one row for each day and one column for each stove.
# We only ask how much heat there is on each day:

import torch

x = torch.tensor(
    [
        [1.0, 2.0, 3.0],
        [0.0, 1.0, 1.0],
        [2.0, 2.0, 2.0],
        [4.0, 0.0, 1.0],
    ],
    requires_grad=True,
)
y = x.sum(dim=1)
y

# %%
# Some days are colder than others, and on a cold day a unit of heat is worth more to us.
# Suppose that it is worth 1, 10, 5 and 2 on the four days.
#
# .. predict::
#    :expects: shape
#    :for: the shape of x.grad
#
#    Which shape does ``v`` have, and which shape will ``x.grad`` have? ``x`` has the shape
#    ``(4, 3)``, and ``y`` has the shape ``(4,)``.

v = torch.tensor([1.0, 10.0, 5.0, 2.0])
y.backward(v)
x.grad

# %%
# We have a price for each of the four results, so ``v`` has the shape of ``y``. And we
# want to know for each of the twelve settings how much it earns, so ``x.grad`` has the
# shape of ``x``. In each row you find the price of that day, because one more unit from
# any stove is one more unit of heat on that day, and on no other.
#
# That is the whole rule. **v has the shape of y, because it holds one price for each entry
# of y. x.grad has the shape of x, because it holds one derivative for each entry of x.**
# Here ``y`` is the tensor on which you call ``backward``. And ``x`` is a tensor that you
# made yourself with ``requires_grad=True``, a :term:`leaf`. (Other tensors keep a ``.grad``
# only after ``retain_grad``.) It does not matter how many dimensions they have. Here are
# the shapes of our example. The last line is the shape of the table, four outputs by four
# days by three stoves. Such tables come back further down:

import pullback

pullback.draw.shapes(y, x)

# %%
# Reading the message
# -------------------
#
# Now make the usual mistake, and pass a tensor that looks like ``x``:

y = x.sum(dim=1)
try:
    y.backward(torch.ones(4, 3))
except RuntimeError as error:
    print(error)

# %%
# The names in the message are those of PyTorch's engine. ``grad_output[0]`` is the ``v``
# that you passed, and ``output[0]`` is your ``y``. They carry a number because a call may
# start from several outputs at once, and yours is the first. So the message says: *your v
# looks like a (4, 3), but y is a (4,)*. Whenever you meet it, the second shape is the one
# that ``v`` should have.
#
# Why does the mistake come so easily? In many first examples ``y`` is computed from ``x``
# element by element, as in ``y = x**2``. Then ``x``, ``y``, ``v`` and ``x.grad`` all have
# the same shape, and the example cannot show you whose shape ``v`` has to have.
#
# v is neither a row nor a column
# -------------------------------
#
# In a textbook, a vector is written as a row or as a column, and before you multiply you
# may have to turn one into the other. A tensor of shape ``(4,)`` is neither, and there is
# nothing to turn. If you try to help by writing ``v`` as a row, it no longer looks like
# ``y``. For the same reason, a single number and a vector with one entry are not the same
# to PyTorch:

one_row = v.reshape(1, 4)
total = x.sum()  # shape (): a single number
for output, attempt in [(y, one_row), (total, torch.tensor([1.0]))]:
    try:
        output.backward(attempt)
    except RuntimeError as error:
        print(error)

# %%
# The second message is a common surprise. ``torch.tensor([1.0])`` has the shape ``(1,)``,
# while ``total`` has the shape ``()``. Write ``torch.tensor(1.0)`` instead. A safe way to
# get the shape right is to begin with ``v = torch.zeros_like(y)`` and to fill in your
# prices.
#
# The numbers themselves are up to you. They may be negative, zero, or larger than the
# numbers in ``y``. But they have to be in a tensor, on the same device as ``y``. A list of
# numbers is refused.
#
# When y is a matrix
# ------------------
#
# Now let us ask for the fuel of *each* stove on each day. There are twelve results, and
# so we need twelve prices:
#
# .. predict::
#    :item: 1
#    :for: the second row
#
#    ``fuel = x**2`` has the shape ``(4, 3)``. Fuel costs us 2, so its price is −2. On the
#    second day it was on sale for 1, so on that day the price is −1. What is in the second
#    row of ``x.grad``? The settings on that day were 0, 1 and 1.

x.grad = None
fuel = x**2
v = torch.full_like(fuel, -2.0)
v[1] = -1.0
fuel.backward(v)
x.grad

# %%
# Each entry is the slope :math:`2x` times the price. In the second row, where the price is
# −1, this is ``[0, -2, -2]``, and in the first, with the price −2, it is ``[-4, -8, -12]``.
# The stove that is turned off costs nothing *for a small turn*, because its square starts
# out flat. (PyTorch writes ``-0`` there, which is zero with the sign of the price.)
#
# What has become of the table of derivatives? It has an entry for each pair of an output
# and an input, and there are twelve of each. It is kept in a tensor whose shape is the
# shape of ``y`` followed by the shape of ``x``:

settings = x.detach()
table = torch.autograd.functional.jacobian(torch.square, settings)
table.shape

# %%
# The idea is still "each row times its price, and add". The rows are now numbered by two
# indices instead of one, the day and the stove. (Each ``None`` adds a dimension
# of size 1 to ``v``, so that every price multiplies its whole block of the table.)

by_table = (v[:, :, None, None] * table).sum(dim=(0, 1))
torch.equal(by_table, x.grad)

# %%
# The sum has used up the two dimensions that belong to ``y``, and has left the two that
# belong to ``x``. You will see more tables like this one in part 2.
#
# Here are two days with two stoves for you to move. Each price reaches the stoves of its
# own day alone:

pullback.live(lambda x: x.sum(dim=1), torch.tensor([[1.0, 2.0], [0.0, 1.0]]))

# %%
# .. admonition:: Remember
#
#    - ``v`` looks like ``y``, the tensor on which you call ``backward``. It looks like
#      ``x`` only when ``y`` does.
#    - ``x.grad`` looks like ``x``.
#    - In *Mismatch in shape*, ``grad_output[0]`` is your ``v``, ``output[0]`` is your
#      ``y``, and the second shape is the one to use.
#    - ``()``, ``(1,)`` and ``(1, 1)`` are three different shapes.
#
# .. predict:: Try it
#    :label: y
#    :for: the shape of v
#
#    ``w`` has the shape ``(3,)`` and holds the power of each stove, and ``y = x @ w`` is
#    the heat of each day. Both ``x`` and ``w`` require gradients. You call
#    ``y.backward(v)``. Which shapes do ``v``, ``x.grad`` and ``w.grad`` have?
#
# .. dropdown:: Answer
#
#    ``y`` has the shape ``(4,)``, and so has ``v``. ``x.grad`` has the shape ``(4, 3)`` and
#    ``w.grad`` the shape ``(3,)``. One call fills both, and each looks like its tensor.

days, power = x.detach().requires_grad_(), torch.ones(3, requires_grad=True)
heat = days @ power
heat.backward(torch.tensor([1.0, 10.0, 5.0, 2.0]))
print("y:", heat.shape, " x.grad:", days.grad.shape, " w.grad:", power.grad.shape)
power.grad  # each stove's settings, times the prices of the days

# %%
# .. dropdown:: How we checked this page
#
#    The rule is tried on functions whose inputs and outputs have 0 to 3 dimensions, and
#    each result is compared with the table.

heat_rates = torch.autograd.functional.jacobian(lambda x: x.sum(dim=1), settings)
day_prices = torch.tensor([1.0, 10.0, 5.0, 2.0])
by_days = torch.tensordot(day_prices, heat_rates, dims=1)
assert torch.equal(by_days, day_prices[:, None].expand(4, 3))
assert torch.equal(x.grad, 2 * settings * v)

maps = [torch.sum, lambda x: x.sum(0), torch.square, lambda x: x[:, None, None] * x]
for f in maps:
    for shape in [(3,), (2, 3), (2, 3, 4)]:
        t = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
        t.requires_grad_()
        out = f(t)
        v = torch.arange(1.0, 1 + out.numel()).reshape(out.shape)
        (product,) = torch.autograd.grad(out, t, v)
        J = torch.autograd.functional.jacobian(f, t.detach())
        assert J.shape == out.shape + t.shape
        assert product.shape == t.shape
        torch.testing.assert_close(product, torch.tensordot(v, J, dims=out.ndim))

w = torch.ones(3, requires_grad=True)
by_both = torch.autograd.grad(x @ w, (x, w), torch.ones(4))
assert [tuple(g.shape) for g in by_both] == [(4, 3), (3,)]
try:
    (x @ w).backward([1.0, 1.0, 1.0, 1.0])
except TypeError as error:
    refused = str(error)
assert "can be either Tensors or None" in refused

# %%
# **Next:** nearly all our prices were made up so far. :ref:`where-v-comes-from` shows where
# they come from in a real program.
#
# .. asked: which shape must v have; what shape is gradient in backward; v has the shape
#    of the output; shape of x.grad; grad_output shape error; does the gradient argument
#    look like x or y; size mismatch in backward; v for a matrix or 2d output; how big
#    must the tensor in backward be; grad_output has the wrong size; same size as the
#    output
