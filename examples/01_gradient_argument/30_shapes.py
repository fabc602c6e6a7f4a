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
        [1.0, 1.0, 2.0],
        [2.0, 2.0, 2.0],
        [4.0, 1.0, 1.0],
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
#    :item: 1
#    :for: the three rates of the second day
#
#    How many numbers does ``v`` hold, and how many will ``x.grad`` hold? And which three
#    numbers will be in the second row of ``x.grad``?

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
# Here ``y`` is the tensor on which you call ``backward``, and ``x`` is a tensor that you
# made yourself with ``requires_grad=True``. (For tensors in between, PyTorch keeps no
# gradient unless you ask for it with ``retain_grad``.) Both may have as many dimensions as
# you like:

import pullback

pullback.draw.shapes(y, x)

# %%
# Here are two days with two stoves. Move a price: it reaches the stoves of its own day, and
# no others.

two_days, prices = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([1.0, 10.0])
pullback.live(lambda x: x.sum(dim=1), two_days, prices, rows=["day 1", "day 2"])

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
# ``grad_output[0]`` is the ``v`` that you passed, and ``output[0]`` is your ``y``. (A call
# may start from several tensors at once, so PyTorch counts them, from 0.) The message says:
# *your v looks like a (4, 3), but y is a (4,)*. Whenever you meet it, the second shape is
# the one that ``v`` should have.
#
# Why does the mistake come so easily? In many first examples ``y`` is computed from ``x``
# element by element, as in ``y = x**2``. Then ``x``, ``y``, ``v`` and ``x.grad`` all have
# the same shape, and the example cannot show you whose shape ``v`` has to have.
#
# A number is not a vector with one entry
# ---------------------------------------
#
# The rule is taken literally. Here ``y`` is the heat of all four days together, a single
# number of the shape ``()``. A ``v`` of the shape ``(1,)`` holds one price as well, and
# still it is refused:

total = x.sum()
try:
    total.backward(torch.tensor([1.0]))
except RuntimeError as error:
    print(error)

# %%
# Write ``torch.tensor(1.0)``, without the brackets. In the same way, when ``y`` has the
# shape ``(4,)``, a ``v`` of the shape ``(1, 4)`` is refused. A textbook writes a vector as
# a row or as a column, which would be tensors of the shapes ``(1, 4)`` and ``(4, 1)``. Our
# ``y`` is neither: it has one dimension, and so must its ``v``.
#
# A safe way to get the shape right is to begin with ``v = torch.zeros_like(y)`` and to fill
# in your prices. They may be negative, zero, or larger than the numbers in ``y``. But they
# have to be in a tensor, on the same device as ``y``. A list of numbers is refused.
#
# .. dropdown:: When may I pass nothing?
#
#    When ``y`` is a single real number. Its shape may then be ``()``, ``(1,)`` or
#    ``(1, 1)``: PyTorch fills in a 1 of the right shape. Only a ``v`` that you *do* pass
#    must have exactly the shape of ``y``.

alone = torch.tensor([[3.0]], requires_grad=True)
(alone**2).backward()  # y has the shape (1, 1)
alone.grad

# %%
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
#    row of ``x.grad``? The settings on that day were 1, 1 and 2.

x.grad = None
fuel = x**2
v = torch.full_like(fuel, -2.0)
v[1] = -1.0
fuel.backward(v)
x.grad

# %%
# Each entry is the slope :math:`2x` times the price. In the second row, where the price is
# −1, this is ``[-2, -2, -4]``, and in the first, with the price −2, it is
# ``[-4, -8, -12]``.
#
# .. dropdown:: And the table, when y and x are matrices?
#
#    It has an entry for each of the twelve results and each of the twelve settings. It is
#    kept in a tensor whose shape is the shape of ``y`` followed by the shape of ``x``. The
#    idea is still "each row times its price, and add", but now there is a row for each day
#    *and* stove. ``tensordot`` multiplies and adds over the two dimensions that ``v`` and
#    the table have in common:

settings = x.detach()
table = torch.autograd.functional.jacobian(torch.square, settings)
print(table.shape)
by_table = torch.tensordot(v, table, dims=2)
torch.equal(by_table, x.grad)

# %%
# .. admonition:: Remember
#
#    - ``v`` looks like ``y``, the tensor on which you call ``backward``. It looks like
#      ``x`` only when ``y`` does.
#    - ``x.grad`` looks like ``x``.
#    - In *Mismatch in shape*, ``grad_output[0]`` is your ``v``, ``output[0]`` is your
#      ``y``, and the second shape is the one to use.
#    - ``()``, ``(1,)`` and ``(1, 4)`` are three different shapes.
#
# .. predict:: Try it
#    :label: y
#    :for: the shape of v
#
#    ``w`` has the shape ``(3,)`` and holds the power of each stove. ``y = x @ w`` is the
#    heat of each day: every setting times the power of its stove, added up. Both ``x`` and
#    ``w`` require gradients. You call ``y.backward(v)``. Which shapes do ``v``, ``x.grad``
#    and ``w.grad`` have?
#
# .. dropdown:: Answer
#
#    ``y`` has the shape ``(4,)``, and so has ``v``. ``x.grad`` has the shape ``(4, 3)`` and
#    ``w.grad`` the shape ``(3,)``. One call fills both, and each looks like its tensor.

days, power = x.detach().requires_grad_(), torch.ones(3, requires_grad=True)
heat = days @ power
heat.backward(torch.tensor([1.0, 10.0, 5.0, 2.0]))
print("y:", heat.shape, " x.grad:", days.grad.shape, " w.grad:", power.grad.shape)

# %%
# .. dropdown:: How we checked this page
#
#    The rule is tried on functions whose inputs and outputs have 0 to 4 dimensions, and
#    each result is compared with the table.

heat_rates = torch.autograd.functional.jacobian(lambda x: x.sum(dim=1), settings)
day_prices = torch.tensor([1.0, 10.0, 5.0, 2.0])
by_days = torch.tensordot(day_prices, heat_rates, dims=1)
assert torch.equal(by_days, day_prices[:, None].expand(4, 3))
assert torch.equal(x.grad, 2 * settings * v)
assert torch.equal(power.grad, day_prices @ settings)
assert alone.grad.tolist() == [[6.0]]

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

refused = []
for output, attempt in [(x.sum(), torch.ones(1)), (x.sum(dim=1), torch.ones(1, 4))]:
    try:
        output.backward(attempt)
    except RuntimeError as error:
        refused.append(str(error))
assert all("Mismatch in shape" in message for message in refused)
assert len(refused) == 2
try:
    x.sum(dim=1).backward([1.0, 1.0, 1.0, 1.0])  # a list is no tensor
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
# .. words: dimension, how long, how many entries, length of the list, wrong length, batch
#    by classes, 3x4, expected and got, does not fit, unsqueeze, transpose first
