r"""
.. _reading-a-jacobian:

A row for each output, a column for each input
==============================================

A friend has two stoves, and wants to know which one to turn up. She has a table with the
right rates, and multiplies it by the right prices. The shapes fit, no error comes, and she
turns up the second stove. Would you? To answer, you have to be able to read her table.

Such a table of rates is called a :term:`Jacobian`. It has a row for each output and a
column for each input. Each entry says how fast that output changes when only that input
moves. In training there is one output, the loss, and the table is a single row, the
gradient. You need more rows when several outputs count: the scores of all classes of a
network, or the warmth and the fuel of a house (:ref:`hitting-targets`).
"""

# %%
# The house has three inputs, the settings of its stoves, and two outputs, heat and fuel.
# The heat is the sum of the settings, and the fuel is the sum of their squares. PyTorch
# computes the table for us:

import torch


def house(x):
    heat = x.sum()
    fuel = (x**2).sum()
    return torch.stack([heat, fuel])


x = torch.tensor([1.0, 2.0, 3.0])
J = torch.autograd.functional.jacobian(house, x)
J

# %%
# Each entry answers one question about one output and one input. The entry ``J[1, 2]``,
# for example, stands in the row of the fuel and in the column of the third stove. (Python
# counts from 0.) It is 6, and it says: *if the third stove is turned up a little, while
# the other two stay as they are, fuel rises at a rate of 6.* Such a rate, with one input
# moving and the others held still, is called a :term:`partial derivative`, written
# ∂y₁/∂x₂, counted from 0 as in Python. In the table ``J[i, j]`` is ∂yᵢ/∂xⱼ, with the output
# first and the input second. The same order holds for the shape. For ``m`` outputs and
# ``n`` inputs it is ``(m, n)``, and here it is ``(2, 3)``.
#
# Reading across and reading down
# -------------------------------
#
# We can read the table in two directions, and they answer different questions.
#
# *Across:* a row belongs to one output. The row of the fuel, ``[2, 4, 6]``, says how the
# fuel reacts to each stove. It is the :term:`gradient` of the fuel. So the Jacobian
# consists of the gradients of all outputs, written below each other. ``backward`` gives
# such a row if ``v`` has a single 1, for this output.
#
# *Down:* a column belongs to one input. The column of the second stove, ``[1, 4]``, says
# what happens to everything in the house when we touch that stove.
#
# .. predict::
#    :label: from the column
#    :for: the changes of heat and fuel
#    :wrong: turned up: These are the changes if the stove is turned up.;
#       rates: This is the third column, the rates. The stove is turned by −0.01, so the
#          rates are multiplied by that.;
#       second column: This is from the column of the second stove.;
#       row of the fuel: This is the row of the fuel, times −0.01: what each of the three
#          stoves does to the fuel. One stove has a column.;
#       after it: These are heat and fuel after the turn. The question is by how much they
#          change.
#
#    We turn the third stove *down* by 0.01, from 3 to 2.99. By how much do heat and fuel
#    change? Take the answer from the table, without computing the house again.

small = 0.01
moved = torch.tensor([1.0, 2.0, 3.0 - small])
change = house(moved) - house(x)
print("from the column:", J[:, 2] * -small)
print("in the house:   ", change)

# %%
# The third column, times −0.01, predicts 0.01 less heat and 0.06 less fuel. The heat
# comes out as predicted. The fuel falls by 0.0599, which is a little less, because its
# rate of 6 has itself begun to fall on the way from 3 to 2.99. The error is the square of
# the step, 0.01 · 0.01, so with a tenth of the step it would be a hundred times smaller.
# A Jacobian describes how a smooth function, one without kinks and jumps, behaves *near
# one point*. At another point the rates are usually different, and you need the table of
# that point.
#
# The other way up
# ----------------
#
# Now to the friend. Her house has two stoves, at 2 and 4, and works like ours: the heat is
# the sum of the settings, the fuel the sum of their squares. A unit of heat is worth 10 to
# her, and a unit of fuel costs 1. So the prices of the two outputs are ``v = [10, -1]``,
# and ``v @ J``, the :term:`vector-Jacobian product`, says what each stove earns. She has
# copied the formula for the table from a book:

v = torch.tensor([10.0, -1.0])
copied = torch.tensor([[1.0, 4.0], [1.0, 8.0]])
v @ copied

# %%
# "The second stove earns most", she says, "so I shall turn it up."
#
# .. predict::
#    :for: the rates of the two stoves
#    :wrong: by her table: This is what her table gives. In it the rows are stoves, and the
#          prices belong to heat and fuel.;
#       fuel's rates: These are the rates of the fuel. Each is taken away from the 10 that
#          the heat brings.;
#       added: Here the fuel counts as a gain. It is a cost.;
#       fuel itself: Here the squares are taken away from 10. Fuel rises at the rate of
#          twice the setting.
#
#    Would you turn up the second one? Take what you know about heat and fuel. At which rate
#    does each stove earn?

two_stoves = torch.tensor([2.0, 4.0])
square = torch.autograd.functional.jacobian(house, two_stoves)
v @ square

# %%
# The first stove burns fuel at a rate of 4 and earns 10 − 4 = 6. The second burns at a
# rate of 8 and earns only 2. So the first stove is the one to turn, and the advice is
# wrong. And yet her table has the right numbers.
#
# It has a row for each *stove*, and heat and fuel are the columns. Many books write it that
# way. It is our table flipped along its diagonal, which is called the *transpose*, in code
# ``J.T``. So each price was multiplied by the numbers of a stove. Her 9 is
# 10 · 1 + (−1) · 1: the price of heat times the heat of the first stove, and the price of
# *fuel* times the *heat* of the second.
#
# In her table the prices have to meet the numbers *within* a row. Her first row,
# ``[1, 4]``, is what the first stove does to heat and fuel, and with the prices it gives
# 1 · 10 + 4 · (−1) = 6. The second gives 1 · 10 + 8 · (−1) = 2. In code, ``v`` then stands
# on the *right* of the table:

print("hers, with v on the right:", copied @ v)

# %%
# If the numbers of outputs and inputs differ, the shape tells you which way up a table is.
# For a *square* table like hers it does not. But a test tells you. A column predicts what a
# nudge does, so a nudge can check a column. Nudge *one* input, here the second stove, and
# divide the changes by the size of the nudge:

nudged = torch.tensor([2.0, 4.0 + small])
(house(nudged) - house(two_stoves)) / small

# %%
# This is ``[1, 8]``, apart from the small error of the nudge: what the second stove does to
# heat and fuel. In a table like ours, what one input does is a *column*. In hers this is
# the second *row*. So her table is the other way up.
#
# .. dropdown:: And if the row and the column hold the same numbers?
#
#    Then nudge another stove. If they do so for all stoves, the table and its transpose are
#    the same, and it does not matter which way up it stands.
#
# .. dropdown:: What the two ways are called, and what PyTorch does
#
#    Our convention is called *numerator layout* in the literature, and the other one
#    *denominator layout*. PyTorch's functions that return a Jacobian put the outputs first,
#    as we do. What ``backward`` leaves in ``x.grad`` is neither a row nor a column. It has
#    the shape of ``x``. For a loss of shape ``()``, ``jacobian`` returns the same:
#    flattened, it is the single row of the table.
#    :ref:`which-way-up` says more.
#
# One row, one column
# -------------------
#
# If there is only one output, the table has only one row. This is the situation of an
# ordinary training loop, where the only output is the loss. Here the output is what the
# house earns, at 10 for a unit of heat and −1 for a unit of fuel:


def worth(x):
    heat, fuel = house(x)
    return (10 * heat - fuel).reshape(1)  # one output, in a tensor of shape (1,)


torch.autograd.functional.jacobian(worth, x)

# %%
# This is what ``backward`` gives for our house with ``v = [10, -1]``.
#
# And one *column*? Our friend has had enough of single stoves. She puts one big lever ``t``
# into our house, which sets the three stoves to ``t``, ``2t`` and ``3t``. It stands at 1,
# and she asks whether it pays to push it further.
#
# .. predict::
#    :for: the rates of heat and fuel
#    :wrong: values: These are heat and fuel themselves. At t = 1 the fuel is 14, and it
#          rises at a rate of 28.;
#       same speed: This adds up the rows of the table, as if all stoves moved as fast as
#          the lever. The second moves twice and the third three times as fast.;
#       first stove: This is what the first stove does. The lever moves all three.;
#       no slope: Here each square is multiplied by the speed of its stove. Its slope is
#          twice the setting.
#
#    First she needs two rates. At ``t = 1``, how fast do heat and fuel rise when the lever
#    is pushed further?


def lever(t):
    return house(t * torch.tensor([1.0, 2.0, 3.0]))


J_lever = torch.autograd.functional.jacobian(lever, torch.tensor([1.0]))
J_lever

# %%
# The heat is t + 2t + 3t = 6t, which rises at a rate of 6. The fuel is
# t² + 4t² + 9t² = 14t², which rises at a rate of 28t, and this is 28 at
# ``t = 1``. At her prices this earns 10 · 6 − 28 = 32, so it pays to push the lever
# further.
#
# There is one input, and so the table has one column. If she writes it her way, it has one
# row. Will she be warned this time?

try:
    v @ J_lever.T
except RuntimeError as error:
    print(error)

# %%
# She is: ``v`` has two prices, and her table has one row for them. The shape protects you,
# unless there happen to be as many inputs as outputs.
#
# Which entries move?
# -------------------
#
# Below is our house again. ``v`` picks the row of the fuel, and you see it at the bottom.
# Move the stoves. Which entries of the table change, and which never do? And when does the
# fuel react to all three stoves alike?

import pullback

names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0]), **names)

# %%
# .. dropdown:: Answer
#
#    The row of the heat never changes, since each stove always counts once. In the row of
#    the fuel, only the entry of the stove that you move changes. It is twice the setting.
#    So the fuel reacts to all stoves alike when all of them have the same setting.
#
# .. admonition:: Remember
#
#    - ``J[i, j]`` says how fast output ``i`` changes when only input ``j`` moves. Outputs
#      come first, in the entry as in the shape.
#    - A row is the gradient of one output. A column is the effect of one input.
#    - The rates hold at the point where the table was computed, and approximately near
#      it, if the function is smooth there.
#    - Many books write the transpose, with inputs in rows. For the square table of our
#      friend the shape does not tell. Nudging an input does (for other functions, see
#      *Where this ends*).
#
# .. predict:: Try it
#    :for: the new numbers
#    :wrong: its setting: The fuel rises at the rate of twice the setting.;
#       its square: This is what the stove adds to heat and fuel. The table has the rates.;
#       four in all: These are heat and fuel with the fourth stove. The table has the
#          rates.;
#       third stove again: This is the column of the third stove, which is set to 3.
#
#    A fourth stove is put into our house, and is set to 4. Is a row added to the table, or
#    a column? Which numbers stand in it? Does anything else in the table change?
#
# .. dropdown:: Answer
#
#    A stove is an input, so a column is added. Heat rises with the new stove at a rate of
#    1, and fuel at a rate of 2 · 4. The other columns stay as they are, because
#    no rate of one stove depends on the setting of another.

four_stoves = torch.tensor([1.0, 2.0, 3.0, 4.0])
with_fourth = torch.autograd.functional.jacobian(house, four_stoves)
with_fourth[:, 3]

# %%
# .. dropdown:: Where this ends
#
#    * *Very small nudges.* Below, a nudge of 0.000001 in float32 gives 0.95 and 7.6 in the
#      place of 1 and 8, because the rounding of heat and fuel is divided by the nudge, too.
#      Take a larger nudge, or float64.
#    * *Narrow numbers.* In bfloat16 a stove at 4 that is nudged by 0.01 stays at 4, as you
#      see in the last line. Nudge in float32 or float64.
#    * *A function that is not the same in both calls*, such as a network with Dropout in
#      training. Then chance, too, has a part in the difference. Call ``eval()`` first.

tiny = torch.tensor([0.0, 1e-6])
print("tiny nudge:", (house(two_stoves + tiny) - house(two_stoves)) / tiny[1])
narrow = two_stoves.bfloat16()
print("bfloat16:  ", house(narrow + torch.tensor([0.0, small]).bfloat16()) - house(narrow))

# %%
# .. dropdown:: How we checked this page
#
#    Each column of the table is compared with a nudge of one stove in float64, each row
#    with what ``backward`` gives for that output alone, and the product with ``v`` in
#    both layouts with ``backward``.

point, h = x.double(), 1e-6
for j, nudge in enumerate(h * torch.eye(3, dtype=torch.float64)):
    column = (house(point + nudge) - house(point - nudge)) / (2 * h)
    torch.testing.assert_close(column, J[:, j].double())

leaf = x.clone().requires_grad_()
for i in range(2):
    (row,) = torch.autograd.grad(house(leaf)[i], leaf)
    assert torch.equal(row, J[i])
house(leaf).backward(v)
assert torch.equal(leaf.grad, v @ J)
assert torch.equal(leaf.grad, J.T @ v)

torch.testing.assert_close(change, torch.tensor([-0.01, -0.0599]), atol=1e-5, rtol=0)
torch.testing.assert_close(J[:, 2] * -small, torch.tensor([-0.01, -0.06]))
pair = two_stoves.clone().requires_grad_()
house(pair).backward(v)
assert torch.equal(pair.grad, v @ square)
assert torch.equal(copied, square.T)
assert torch.equal(pair.grad, copied @ v)
assert not torch.equal(pair.grad, v @ copied)
rates = (house(nudged) - house(two_stoves)) / small
torch.testing.assert_close(rates, square[:, 1], atol=0.02, rtol=0)
torch.testing.assert_close(rates, copied[1], atol=0.02, rtol=0)
assert not torch.allclose(rates, square[1], atol=0.02, rtol=0)

for wide in (two_stoves, two_stoves.double()):
    nudge = torch.tensor([0.0, small]).to(wide)
    rates = (house(wide + nudge) - house(wide)) / small
    torch.testing.assert_close(rates, square[:, 1].to(wide), atol=0.02, rtol=0)
errors = [
    (house(x.double() - h * torch.eye(3)[2]) - house(x.double()))[1] + 6 * h
    for h in (0.01, 0.001)
]
assert 99 < errors[0] / errors[1] < 101  # a tenth of the step, a hundredth of the error
double = torch.tensor([0.0, 1e-6], dtype=torch.float64)
rates = (house(two_stoves.double() + double) - house(two_stoves.double())) / 1e-6
torch.testing.assert_close(rates, square[:, 1].double(), atol=1e-5, rtol=0)
assert (
    (house(two_stoves + tiny) - house(two_stoves)) / 1e-6 - square[:, 1]
).abs().min() > 0.04
dropping = torch.nn.Dropout()
assert not torch.equal(dropping(torch.ones(100)), dropping(torch.ones(100)))
assert torch.equal(dropping.eval()(torch.ones(100)), dropping(torch.ones(100)))

for t in (0.5, 1.0, 3.0):
    at = torch.tensor([t])
    slopes = torch.autograd.functional.jacobian(lever, at)
    torch.testing.assert_close(slopes, torch.tensor([[6.0], [28 * t]]))
assert torch.equal(with_fourth[:, :3], J)
assert with_fourth[:, 3].tolist() == [1, 8]
alike = torch.func.jacrev(house)(torch.full((3,), 1.5))[1]
assert (alike == 3).all()
off = torch.func.jacrev(house)(torch.tensor([0.0, 2.0, 3.0]))
assert off[1, 0] == 0
assert torch.func.jacrev(lambda x: worth(x)[0])(x).shape == x.shape
assert torch.autograd.functional.jacobian(lambda x: worth(x)[0], x).shape == x.shape
assert (v @ J_lever).item() == 32
elsewhere = torch.func.jacrev(house)(x + torch.tensor([0.0, 0.0, 5.0])) - J
assert elsewhere.nonzero().tolist() == [[1, 2]]

guesses = {  # wrong ones, of which the boxes above say what they are
    "turned up": J[:, 2] * small,
    "rates": J[:, 2],
    "second column": J[:, 1] * -small,
    "row of the fuel": J[1] * -small,
    "after it": house(moved),
    "by her table": v @ copied,
    "fuel's rates": square[1],
    "added": 10 * square[0] + square[1],
    "fuel itself": 10 - two_stoves**2,
    "values": house(x),
    "same speed": J.sum(1),
    "first stove": J[:, 0],
    "no slope": torch.stack([x.sum(), x**2 @ x]),
    "its setting": torch.stack([with_fourth[0, 3], four_stoves[3]]),
    "its square": house(four_stoves) - house(x),
    "four in all": house(four_stoves),
    "third stove again": J[:, 2],
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** somebody builds a thermostat that moves the stoves for us. Its table and the
# table of the house belong together, and :ref:`chain-of-jacobians` shows how.
#
# .. asked: what is a Jacobian; Jacobian explained; how to read a Jacobian; rows and
#    columns of the Jacobian; table of all slopes; compute a Jacobian in PyTorch; matrix
#    of partial derivatives; all derivatives of all outputs; how does each input affect
#    each output; sensitivities of all outputs; difference between gradient and
#    Jacobian; rates of change in a table
# .. words: grid, matrix of slopes, dy_i dx_j, entry, which index first, spreadsheet,
#    transposed, influence table, m by n, partials
