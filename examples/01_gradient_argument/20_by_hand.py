r"""
.. _every-number-by-hand:

Every number by hand
====================

You work out a gradient with a pencil, and PyTorch has another number. Who is wrong, and at
which step? You can find out if you go the same way as ``backward``. It starts with ``v``,
a price for each output, and walks back to the inputs, one operation at a time, by the
:term:`chain rule`. What arrives is the :term:`vector-Jacobian product`. This walk is
called *backpropagation*. In training it starts at the loss and ends at the weights, and
here it is short enough for a pencil.
"""

# %%
# The walk back
# -------------
#
# We heat a house with three stoves, turned up to 1, 2 and 3. The heat is the sum of the
# settings, and the fuel that we burn is the sum of their squares. A unit of heat is worth
# 10 to us, and in winter a unit of fuel costs 3. So our prices are ``v = [10, -3]``.
#
# While PyTorch computed the house, it took notes: which operation was done, and on which
# tensors. These notes are called the :term:`graph <computation graph>`, because they can be
# drawn as boxes with arrows between them (further down this page). This is what they say:
#
# =============================  ======================  ===================
# operation                      what it computed        value
# =============================  ======================  ===================
# ``squares = x**2``             each setting squared    ``[1, 4, 9]``
# ``heat = x.sum()``             all settings added      ``6``
# ``fuel = squares.sum()``       all squares added       ``14``
# ``y = stack([heat, fuel])``    the two in one tensor   ``[6, 14]``
# =============================  ======================  ===================
#
# So far we have *chosen* prices, and only the outputs had one. From now on we *work out* a
# price for every number in this list: the rate at which our earnings rise when that number
# grows. The walk goes through the list from the bottom to the top, and asks each operation
# one question: *given the price of your result, what is the price of each of your inputs?*
#
# - ``stack`` has only put two numbers side by side. So heat has the price 10, and fuel
#   has the price −3.
# - ``fuel`` is the sum of the squares. If one of the squares grows, fuel grows by the same
#   amount. So each square has the price of fuel: ``[-3, -3, -3]``.
# - ``heat`` is the sum of the settings. So each setting gets the price of heat:
#   ``[10, 10, 10]``.
# - ``squares`` is ``x**2``. The settings are 1, 2 and 3, and the slope of a square is twice
#   the setting.
#
# The last step is yours. ``x`` stands in two lines of the list, that of heat and that of
# the squares. So two prices arrive for each setting, one on each way.
#
# .. predict::
#    :label: x
#    :for: x.grad
#    :wrong: squares alone: This comes through the squares. The price that comes through
#          heat is missing.;
#       heat alone: This comes through heat. The price that comes through the squares is
#          missing.;
#       multiplied: Here the two prices are multiplied. They are added, because a turn of
#          the stove does both at once.;
#       subtracted: Here the second price is taken away from the first. The minus is in the
#          price already, and the two are added.;
#       without the slope: Here the slope of the square is missing. This adds the price of
#          fuel to the price of heat.;
#       times the square: Here the price of fuel is multiplied by the square itself. The
#          slope of a square is twice the setting.;
#       prices at y: These are the prices of heat and fuel, with which the walk begins.
#
#    Which price comes to each setting through the squares? And what is in ``x.grad`` when
#    both have arrived?
#
# PyTorch can show us its own walk. Normally it keeps only the result for ``x``, and
# ``retain_grad`` asks it to keep what arrives at the others:

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
squares = x**2
heat = x.sum()
fuel = squares.sum()
y = torch.stack([heat, fuel])

for tensor in (heat, fuel, squares):
    tensor.retain_grad()
y.backward(torch.tensor([10.0, -3.0]))

print("heat   ", heat.grad)
print("fuel   ", fuel.grad)
print("squares", squares.grad)
print("x      ", x.grad)

# %%
# Each tensor has received prices in its own shape, one for each number in it. Through the
# squares, each setting has the price of its square times the slope:
# :math:`-3\cdot(2,4,6)=(-6,-12,-18)`. This is the chain rule of school, "outer derivative
# times inner derivative". The price of the square is the outer one, and its slope is the
# inner one.
#
# At ``x`` the two prices have been added, because if you turn up a stove, you get more heat
# *and* burn more fuel. The first stove earns 10 with its heat and loses 6 with its fuel,
# which makes 4. The other two lose more than they earn.
#
# One rule is still missing, that of a product. Take :math:`2\cdot5`. If the 2 grows by 0.1,
# the product grows by 0.5, five times as much. So the rate of the 2 is 5, and the rate of
# the 5 is 2. A product hands to each of its two factors the price of the result times the
# *other* factor.
#
# .. predict::
#    :for: the price of the setting
#    :wrong: one factor: This arrives through one of the two factors. Both of them are s,
#          and each sends back a price.;
#       times the value: This is the price times the product itself. A factor gets the price
#          times the other factor.;
#       slope alone: This is the slope of the square. It has to be multiplied by the price,
#          −3.;
#       factors multiplied: Here the prices of the two factors are multiplied. They are
#          added.;
#       price alone: This is the price of the fuel. On the way to s it is multiplied by the
#          other factor.;
#       square itself: This is s * s itself. Its price goes back.;
#       power alone: Here the price is multiplied by the power, 2, alone. The slope of a
#          square is twice the setting.
#
#    Another stove is set to 5, and somebody writes its fuel as ``s * s`` instead of
#    ``s**2``. The price of the fuel is −3. Which price arrives at ``s``?

s = torch.tensor(5.0, requires_grad=True)
(s * s).backward(torch.tensor(-3.0))
s.grad

# %%
# Not −15. Here, too, something is used twice, within one operation. The product hands −15
# to its first factor and −15 to its second, and both of them are ``s``. So two prices of
# −15 arrive, and together they make −30. The square gives
# the same: its slope at 5 is 10, and :math:`-3\cdot10=-30`. Wherever a number is used
# several times, each use in the graph sends a price back to it, and all of them are added.
#
# The walk, step by step
# ----------------------
#
# Here is the whole walk as a picture. Below the table stands the graph: each box is a
# tensor, with its value and the price that arrives there. *Previous* and *Next* go through
# the walk, step by step. Then move a stove, and after that a price. Which of the prices on
# the way depend on the settings, and which on ``v`` alone?

import pullback


def house(x):
    squares = x**2
    heat = x.sum()
    fuel = squares.sum()
    return torch.stack([heat, fuel])


outputs, stoves = ["heat", "fuel"], ["stove 1", "stove 2", "stove 3"]
v, start = torch.tensor([10.0, -3.0]), x.detach()
pullback.live(house, start, v, rows=outputs, columns=stoves, graph=True)

# %%
# .. dropdown:: What depends on what
#
#    What arrives at heat, at fuel and at the squares depends on ``v`` alone, because a
#    stack and a sum hand on what they get. What goes from the squares to ``x`` is
#    multiplied by twice the setting, so it depends on both.
#
# One walk is enough for one set of prices, however many outputs there are, and it goes
# through each operation once. What arrives at ``x`` is ``v @ J``: the rows of the
# :term:`Jacobian`, each times its price, are already added up. If you want one of the rows
# by itself, that takes a walk of its own (:ref:`one-output-at-a-time`).
#
# Trying it out
# -------------
#
# And if you don't trust the walk, there is an experiment that needs no calculus. Turn up
# the first stove by a thousandth, and see by how much our earnings rise. Divided by the
# thousandth, this is a rate, and we compare it with the 4 of our walk.
#
# .. predict::
#    :expects: choice
#    :wrong: Exactly the number of the walk: It would be exact if the earnings rose in a
#          straight line. But the fuel rises with the square of the setting.;
#       A little more: The fuel rises faster and faster during the turn, and fuel costs us
#          something.
#
#    What does the experiment give?
#
#    - A little less
#    - Exactly the number of the walk
#    - A little more


def worth(a, b, c):
    return 10 * (a + b + c) - 3 * (a**2 + b**2 + c**2)


rate = (worth(1.001, 2, 3) - worth(1, 2, 3)) / 0.001
print(f"{rate:.3f}")

# %%
# This is nearly the 4 of our walk. It is a little less, because the fuel rises faster and
# faster during the turn. A smaller turn comes closer to 4, until the rounding errors of
# the computer take over. But we have learned about one stove only. For a million weights
# the experiment has to be repeated a million times, where a single walk is enough.
#
# Now we can answer the question at the top of the page. Suppose that your pencil says −6
# for the first stove, and PyTorch says 4. Who is wrong? The experiment is close to 4, so it
# is the pencil. And at which step? Compare your numbers with what arrived on the way. If
# they agree at heat, at fuel and at the squares, the mistake is in the last step: −6 is
# what comes through the squares alone, and the way through heat has been forgotten.
#
# .. dropdown:: May I check any gradient in this way?
#
#    Yes, if four things hold:
#
#    - The function is smooth where you stand, without a kink or a jump nearby.
#    - It gives the same answer when it is asked twice. So switch dropout off, which makes
#      zeros of some numbers by chance.
#    - Nothing in it stops the gradient on purpose, as ``detach`` does, or changes it, as a
#      function may that you have registered as a *hook*.
#    - Each input may move on its own. In a table of distances between towns it may not: the
#      distance from A to B stands there twice, and both entries have to move together.
#
#    Compute in float64, as Python does here, because in float32 a small change may drown in
#    rounding. When the two disagree, read
#    :ref:`the page about such cases <fix-finite-differences>`.
#
# A walk of your own
# ------------------
#
# Each operation has to know only its own small rule. So you can write the walk back through
# the house yourself, in a few lines of plain NumPy. Here one of them has been left out.
#
# .. predict::
#    :for: the three numbers
#    :code:
#    :wrong: old price: These are the numbers from above. Now a unit of fuel costs 5.;
#       square forgotten: Here the price of each square goes to x as it is. It has to be
#          multiplied by the slope, twice the setting.;
#       value in place of slope: Here each price is multiplied by the square. The slope of a
#          square is twice the setting.;
#       heat forgotten: This comes through the squares. What comes through heat is missing.
#
#    .. code-block:: python
#
#       def walk_back(settings, at_heat, at_fuel):
#           at_squares = at_fuel * np.ones(3)  # a sum: each part has the price of the whole
#           through_heat = at_heat * np.ones(3)  # a sum again
#           through_squares = ...  # a square: this line is yours
#           return through_heat + through_squares  # x was used twice: add
#
#    A unit of fuel now costs 5. What does ``walk_back`` return, with your line in it, for
#    our three settings and the prices 10 and −5?

import numpy as np


def walk_back(settings, at_heat, at_fuel):
    at_squares = at_fuel * np.ones(3)
    through_heat = at_heat * np.ones(3)
    through_squares = at_squares * 2 * settings  # the price of each square times its slope
    return through_heat + through_squares


settings = np.array([1.0, 2.0, 3.0])
walk_back(settings, 10.0, -5.0)

# %%
# At this price the first stove earns nothing. With the old price of 3, the same lines give
# what ``backward`` has put into ``x.grad``, and PyTorch had no part in it:

by_walk = walk_back(settings, 10.0, -3.0)
by_walk

# %%
# The same walk through a network
# -------------------------------
#
# In training, ``backward`` does the same walk. The number that we care about is the loss
# now, and the walk begins there with the price 1. One thing is the other way round. We
# wanted our earnings to grow, but we want a loss to shrink. So a positive price is bad news
# here: it says that the loss rises.
#
# Below is a very small network. The input is 3. The first weight is ``w``, which is 0.5.
# Then comes a ReLU, which lets a positive number through and makes a 0 of a negative one.
# After it comes the second weight, ``u``, which is 2. The network should predict 2, and the
# loss is the square of the error.
#
# .. predict::
#    :label: w
#    :for: the price of w
#    :wrong: price of u: This is the price of u. On the way to w it goes through hidden.;
#       without u: Here hidden has the price of the prediction. A product hands on the price
#          times the other factor, u.;
#       without the input: This is what arrives at the product of w and the input. A product
#          hands on the price times the other factor, the input.;
#       loss: This is the loss. The walk begins there with the price 1.
#
#    If the number that went into a ReLU was positive, the ReLU hands on the price that
#    arrives. If it was negative, it hands on 0. Which price arrives at ``w``?

w = torch.tensor(0.5, requires_grad=True)
u = torch.tensor(2.0, requires_grad=True)
hidden = torch.relu(w * 3)
prediction = u * hidden
loss = (prediction - 2) ** 2
loss.backward()
print("prediction", prediction.item(), " loss", loss.item())
print("u", u.grad)
print("w", w.grad)

# %%
# The prediction is 3, which is 1 too much. The square hands back twice the error, so the
# prediction gets the price 2. Then comes the product of ``u``, which is 2, and ``hidden``,
# which is 1.5. To ``u`` it hands the price times ``hidden``, :math:`2\cdot1.5=3`, and to
# ``hidden`` the price times ``u``, :math:`2\cdot2=4`. The number in the ReLU was positive,
# so the 4 goes on, and ``w`` gets it times the input, 12. A training step would now make
# both weights smaller, because the loss rises with both of them.
#
# Notice that the price of ``u`` contains the value of ``hidden``. So such values are kept
# until the walk comes by. This is one of the reasons why training takes more memory than
# prediction.
#
# .. admonition:: Remember
#
#    - ``backward`` walks from ``y`` back to ``x``. Each operation turns the prices of its
#      result into the prices of its inputs.
#    - Where a tensor was used several times, what comes back is added.
#    - In training the walk begins at the number on which you call ``backward``, the loss,
#      with the price 1.
#    - The result is ``v @ J``, here :math:`10\cdot(1,1,1)-3\cdot(2,4,6)`, but the table is
#      never written down.
#
# .. predict:: Try it
#    :for: x.grad
#    :wrong: old outputs: This is x.grad without the third output.;
#       row alone: This is the new row. It has a price, 5, and the other two rows are still
#          there.;
#       row and price: This is what comes from the third output. The other two are still
#          there.;
#       no price: Here the new row is added without its price, 5.;
#       own setting: Here the product has the rates 1 and 2, each stove its own setting. In
#          a product the rate is the other factor.
#
#    Suppose that there is a third output, ``x[0] * x[1]``, with the price 5. What does the
#    new row of the table look like, and what will ``x.grad`` be with ``v = [10, -3, 5]``?
#    Work it out first, and then let PyTorch do it.
#
# .. dropdown:: Answer
#
#    The product rises at the rate :math:`x_1=2` with the first stove, :math:`x_0=1` with
#    the second and 0 with the third. So the new row is ``[2, 1, 0]``, five times that is
#    ``[10, 5, 0]``, and ``x.grad`` becomes ``[14, 3, -8]``.

turned = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
three = torch.stack([turned.sum(), (turned**2).sum(), turned[0] * turned[1]])
three.backward(torch.tensor([10.0, -3.0, 5.0]))
turned.grad

# %%
# .. dropdown:: How we checked this page
#
#    We compare the table with small steps in each stove, the walk with the table, and every
#    number that PyTorch kept on the way with a separate call of ``autograd.grad``.

h = 1e-6
J = np.array([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
rules = [lambda x: x.sum(), lambda x: (x**2).sum(), lambda x: x[0] * x[1]]
steps = h * np.eye(3)
nudged = [
    [(rule(settings + d) - rule(settings - d)) / (2 * h) for d in steps] for rule in rules
]
np.testing.assert_allclose(nudged[:2], J, rtol=1e-6)
np.testing.assert_allclose(nudged[2], [2, 1, 0], atol=1e-6)
np.testing.assert_array_equal(by_walk, [4, -2, -8])
np.testing.assert_array_equal(np.array([10.0, -3.0]) @ J, by_walk)
np.testing.assert_array_equal(x.grad, by_walk)
assert 3.99 < rate < 4
at_heat, at_fuel, at_squares = 10.0, -3.0, np.full(3, -3.0)
through_heat, through_squares = np.full(3, at_heat), at_squares * 2 * settings
assert through_squares[0] == -6
np.testing.assert_array_equal(through_heat + through_squares, by_walk)
np.testing.assert_array_equal(walk_back(settings, 10.0, -5.0), np.array([10.0, -5.0]) @ J)
assert turned.grad.tolist() == [14, 3, -8]
assert s.grad == -30
assert (hidden.item(), prediction.item(), u.grad.item(), w.grad.item()) == (1.5, 3, 3, 12)


def network_loss(w, u):
    return (u * max(3 * w, 0) - 2) ** 2


by_nudge = [
    (network_loss(0.5 + h, 2) - network_loss(0.5 - h, 2)) / (2 * h),
    (network_loss(0.5, 2 + h) - network_loss(0.5, 2 - h)) / (2 * h),
]
np.testing.assert_allclose(by_nudge, [12, 3], rtol=1e-6)
turned_off = torch.tensor(-0.5, requires_grad=True)
torch.relu(turned_off * 3).backward()
assert turned_off.grad == 0

again = torch.tensor(settings, requires_grad=True)
squares, heat = again**2, again.sum()
fuel = squares.sum()
y = torch.stack([heat, fuel])
along, prices = (heat, fuel, squares, again), torch.tensor([10.0, -3.0]).double()
kept = torch.autograd.grad(y, along, prices)
ours = (at_heat, at_fuel, at_squares, by_walk)
for mine, theirs in zip(ours, kept, strict=True):
    np.testing.assert_array_equal(mine, theirs.numpy())

guesses = {  # wrong ones, of which the boxes above say what they are
    "squares alone": through_squares,
    "heat alone": through_heat,
    "multiplied": through_squares * through_heat,
    "subtracted": through_heat - through_squares,
    "without the slope": through_heat + at_squares,
    "times the square": through_heat + at_squares * settings**2,
    "old price": by_walk,
    "square forgotten": through_heat - 5 * np.ones(3),
    "value in place of slope": through_heat - 5 * settings**2,
    "heat forgotten": -5 * 2 * settings,
    "one factor": -3 * s.detach(),
    "times the value": -3 * s.detach() ** 2,
    "slope alone": 2 * s.detach(),
    "factors multiplied": (-3 * s.detach()) ** 2,
    "price alone": at_fuel,
    "old outputs": by_walk,
    "row alone": np.array([2.0, 1.0, 0.0]),
    "row and price": 5 * np.array([2.0, 1.0, 0.0]),
    "no price": by_walk + np.array([2.0, 1.0, 0.0]),
    "own setting": by_walk + 5 * np.array([1.0, 2.0, 0.0]),
    "prices at y": np.array([at_heat, at_fuel]),
    "square itself": (s * s).detach(),
    "power alone": 2 * at_fuel,
    "price of u": u.grad,
    "without u": 2 * (prediction - 2).detach() * 3,
    "without the input": 2 * (prediction - 2).detach() * u.detach(),
    "loss": loss.detach(),
    "A little less": 0.99 < rate / by_walk[0] < 1,
    "Exactly the number of the walk": rate == by_walk[0],
    "A little more": 1 < rate / by_walk[0] < 1.01,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** on the walk every tensor received prices in its own shape. :ref:`shapes-of-v`
# makes a rule of this, which explains a famous error message.
#
# .. asked: backpropagation by hand with numbers; compute gradients with pencil and
#    paper; worked example of backprop; backward step by step; same gradient in NumPy;
#    how did PyTorch get these numbers; walk back through the graph; understand backprop
#    with small numbers; example calculation of a gradient; how is the gradient computed
# .. words: on paper, exam, homework, calculator, follow the arrows, derive myself, check
#    the result, tiny network, step through, where does this number come from, multiply
#    along the path
