r"""
.. _every-number-by-hand:

Every number by hand
====================

On the last page PyTorch filled in the table for us, and walked back to ``[8, 6, 4]`` in a
way that we could not see. Here we work out the three numbers ourselves: with a pencil,
with NumPy, and finally the way ``backward`` does it, by walking back through the house
one operation at a time. It is a short walk.
"""

# %%
# With a pencil
# -------------
#
# The house again: three stoves, turned up to 1, 2 and 3, give heat
# :math:`x_0+x_1+x_2` and burn fuel :math:`x_0^2+x_1^2+x_2^2`. A unit of heat is worth 10
# to us, and a unit of fuel costs 1.
#
# We need one derivative for each pair of an output and a stove. If you turn up any one
# stove, heat rises at a rate of 1. Fuel rises at a rate of :math:`2x_0`, :math:`2x_1` or
# :math:`2x_2`, depending on the stove. With our settings:
#
# .. math::
#
#    J=\begin{bmatrix}1&1&1\\2x_0&2x_1&2x_2\end{bmatrix}
#     =\begin{bmatrix}1&1&1\\2&4&6\end{bmatrix}
#
# Now multiply the first row by its price, 10, and the second row by its price, −1. That
# gives :math:`(10,10,10)` and :math:`(-2,-4,-6)`. Add the two, and you have
# :math:`(8,6,4)`.
#
# With NumPy
# ----------
#
# The same in code. In NumPy and in PyTorch, ``v @ J`` is exactly this: multiply each row of
# ``J`` by its entry of ``v``, and add the rows up:

import numpy as np

v = np.array([10.0, -1.0])
J = np.array([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
by_table = v @ J
by_table

# %%
# Perhaps you don't trust the rules for derivatives, or you are not sure that you applied
# them correctly. Then try it out: turn up one stove a little, and look at what happens.
# Here is the worth of the whole house as a plain function, and the first stove turned up
# by a thousandth:


def worth(x):
    heat, fuel = x.sum(), (x**2).sum()
    return 10 * heat - fuel


x = np.array([1.0, 2.0, 3.0])
turned_up = np.array([1.001, 2.0, 3.0])
rate = (worth(turned_up) - worth(x)) / 0.001
print(f"{rate:.3f}")

# %%
# Not quite 8, because the rate of the fuel is not constant: it rises a little during the
# turn. A smaller turn comes closer to 8, until the rounding errors of the computer take
# over. You can check any gradient in this way, whoever computed it, as long as the
# function is smooth where you stand, and gives the same answer when it is asked twice. (So
# switch dropout off.)
#
# The walk back
# -------------
#
# ``backward`` does not fill in a table. While the house was computed, PyTorch took notes:
# which operation produced which tensor, and from what. There are four operations:
#
# =============================  ======================  ===================
# operation                      what it computed        value
# =============================  ======================  ===================
# ``heat = x.sum()``             all settings added      ``6``
# ``squares = x**2``             each setting squared    ``[1, 4, 9]``
# ``fuel = squares.sum()``       all squares added       ``14``
# ``y = stack([heat, fuel])``    the two in one tensor   ``[6, 14]``
# =============================  ======================  ===================
#
# The walk goes through this list from the bottom to the top. It starts at ``y`` with our
# prices ``[10, -1]``, and at each operation it asks one question: *given the prices of your
# result, what is the price of each of your inputs?* From now on every number in every
# tensor has a price. It says what one more unit of it would be worth to us.
#
# - ``stack`` has only put two numbers side by side. So heat has the price 10, and fuel
#   has the price −1.
# - ``fuel`` is the sum of the squares. If one of the squares grows by 1, fuel grows by 1.
#   So each square has the same price as fuel: ``[-1, -1, -1]``.
# - ``squares`` is ``x**2``. If a setting goes up a little, its square grows :math:`2x`
#   times as fast. So the price of a setting, as far as the squares are concerned, is
#   :math:`-1\cdot2x` for each setting :math:`x`, that is ``[-2, -4, -6]``.
# - ``heat`` is the sum of the settings. So, as far as heat is concerned, each setting has
#   the price of heat: ``[10, 10, 10]``.
#
# ``x`` was used twice, and so two prices arrive for each setting. Which one is right?
# Both, because turning a stove has both effects. We add them:
# :math:`(-2,-4,-6)+(10,10,10)=(8,6,4)`.
#
# PyTorch can show us what it receives at each step of its own walk. Normally it keeps only
# the result for ``x``, but ``retain_grad`` asks it to keep the others as well. To make it
# interesting, let us say that a unit of fuel costs 3 this time:
#
# .. predict::
#    :label: x
#    :for: x.grad
#
#    With ``v = [10, -3]``, what arrives at ``fuel``, what at ``squares``, and what at
#    ``x``? In which shapes?

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
squares = x**2
heat = x.sum()
fuel = squares.sum()
y = torch.stack([heat, fuel])

for tensor in (squares, heat, fuel):
    tensor.retain_grad()
y.backward(torch.tensor([10.0, -3.0]))

print("heat   ", heat.grad)
print("fuel   ", fuel.grad)
print("squares", squares.grad)
print("x      ", x.grad)

# %%
# ``fuel`` is a single number, and so is its price, −3. There are three squares, and each
# has the price −3. At ``x`` we see the sum: for the first stove, :math:`10` from the heat
# and :math:`-3\cdot2` from its square make 4.
#
# The textbook word for the prices that arrive at a tensor is :term:`cotangent`. A cotangent
# always has the shape of its tensor, with one price for each number in it. The ``v`` that
# we pass is the first cotangent, at ``y``. What arrives at ``x`` is the last, and it is
# added to ``x.grad``.
#
# Here is the walk with our first prices, as a drawing. Each box is a tensor with its value,
# and under the value stands the cotangent that arrives there. Press *Next* to walk from
# ``y`` to ``x``:

import pullback

v = torch.tensor([10.0, -1.0])
squares, heat = x**2, x.sum()  # computed again, for a second walk
fuel = squares.sum()
y = torch.stack([heat, fuel])
names = {"x": x, "squares": squares, "heat": heat, "fuel": fuel, "y": y}
pullback.draw.graph(pullback.trace(y, v, names=names), names, steps=True)

# %%
# At no point did anybody need the table. Each operation has to know only its own small
# rule. We can write the whole walk as a short program that uses nothing but NumPy. Here it
# is for the expensive fuel, at 3 a unit:

settings = np.array([1.0, 2.0, 3.0])
at_heat, at_fuel = 10.0, -3.0  # stack
at_squares = at_fuel * np.ones(3)  # a sum: every part has the price of the whole
through_squares = at_squares * 2 * settings  # a square: times the slope 2x
through_heat = at_heat * np.ones(3)  # a sum again
by_walk = through_squares + through_heat  # x was used twice: add
by_walk

# %%
# These are the numbers that PyTorch printed above. This is also how ``backward`` manages a
# thousand outputs in a single walk. However many
# rows the table would have, every tensor on the way receives one cotangent in its own
# shape, and passes on one to each tensor that it was computed from.
#
# When there is only one output
# -----------------------------
#
# Nothing changes if ``y`` is a single number. The table then has one row, and ``v`` has
# one price. Suppose first that we only measure the heat of the three stoves. The second
# example is even smaller, a single stove, set to 3, of which we measure the fuel
# :math:`x^2`. Its whole table is the number :math:`2x=6`. The price is 1, and then 100:

for price in (1.0, 100.0):
    stoves = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    stoves.sum().backward(torch.tensor(price))
    stove = torch.tensor(3.0, requires_grad=True)
    (stove**2).backward(torch.tensor(price))
    print(stoves.grad, stove.grad)

# %%
# The single row ``[1, 1, 1]``, and the single entry 6, have been multiplied by the price.
# With a price of 1 they stay what they are, so this is what PyTorch takes if you pass
# nothing.
#
# Test your pencil: choose other settings and prices, work out ``x.grad``, and then set them
# here. Below the table stands the walk, and every number in it follows. Which of the prices
# on the way depend on the settings, and which on ``v`` alone?


def house(x):
    squares = x**2
    heat = x.sum()
    fuel = squares.sum()
    return torch.stack([heat, fuel])


pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), v, graph=True)

# %%
# .. admonition:: Remember
#
#    - ``v @ J`` means: each row of the table times its price, and then add the rows.
#    - ``backward`` gets the same result without the table. It walks from ``y`` back to
#      ``x``, and each operation turns the prices of its result into the prices of its
#      inputs.
#    - Where a tensor was used several times, what comes back is added.
#
# .. predict:: Try it
#    :for: x.grad
#
#    Suppose that there is a third output, ``x[0] * x[1]``, with the price 5. What does the
#    new row of the table look like, and what will ``x.grad`` be with ``v = [10, -1, 5]``?
#    Work it out first, and then let PyTorch do it.
#
# .. dropdown:: Answer
#
#    The product rises at the rate :math:`x_1=2` with the first stove, :math:`x_0=1` with
#    the second and 0 with the third. So the new row is ``[2, 1, 0]``, five times that is
#    ``[10, 5, 0]``, and ``x.grad`` becomes ``[18, 11, 4]``.

turned = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
outputs = torch.stack([turned.sum(), (turned**2).sum(), turned[0] * turned[1]])
outputs.backward(torch.tensor([10.0, -1.0, 5.0]))
turned.grad

# %%
# .. dropdown:: How we checked this page
#
#    The table against small steps in each stove, the walk against the table, and every
#    number that PyTorch kept on the way against a separate call of ``autograd.grad``.

point, h = np.array([1.0, 2.0, 3.0]), 1e-6
house = [lambda x: x.sum(), lambda x: (x**2).sum()]
steps = h * np.eye(3)
nudged = [[(out(point + s) - out(point - s)) / (2 * h) for s in steps] for out in house]
np.testing.assert_allclose(nudged, J, rtol=1e-6)
np.testing.assert_array_equal(by_walk, [10.0, -3.0] @ J)
np.testing.assert_array_equal(by_table, [8, 6, 4])
assert 7.99 < rate < 8

x = torch.tensor(point, requires_grad=True)
squares, heat = x**2, x.sum()
fuel = squares.sum()
ours = (at_heat, at_fuel, at_squares, by_walk)
y = torch.stack([heat, fuel])
along = (heat, fuel, squares, x)
dear = torch.tensor([10.0, -3.0]).double()
kept = torch.autograd.grad(y, along, dear, retain_graph=True)
for mine, theirs in zip(ours, kept, strict=True):
    np.testing.assert_array_equal(mine, theirs.numpy())

third = torch.stack([heat, fuel, x[0] * x[1]])
three_prices = torch.tensor([10.0, -1.0, 5.0]).double()
(answer,) = torch.autograd.grad(third, x, three_prices, retain_graph=True)
(dear_fuel,) = torch.autograd.grad(y, x, dear)
assert dear_fuel.tolist() == [4, -2, -8]
assert answer.tolist() == [18, 11, 4]

# %%
# **Next:** every cotangent on the walk had the shape of its tensor. :ref:`shapes-of-v`
# shows how to read and to use this rule when ``x`` and ``y`` are matrices.
#
# .. asked: backpropagation by hand with numbers; compute gradients with pencil and
#    paper; worked example of backprop; backward step by step; same gradient in NumPy;
#    how did PyTorch get these numbers; walk back through the graph; understand backprop
#    with small numbers; example calculation of a gradient; how is the gradient computed
