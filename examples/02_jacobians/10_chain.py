r"""
.. _chain-of-jacobians:

The chain rule is a product of Jacobians
========================================

A network is a chain of layers, and each layer has a :term:`Jacobian`, a table of rates
with a row for each of its outputs and a column for each of its inputs. How do you get the
Jacobian of the whole chain? You multiply, with the last step on the left. This page shows
why, with two steps that are small enough for a pencil. A thermostat with two dials moves
three stoves, and the stoves heat a house. How do heat and fuel react to the *dials*?
"""

# %%
# Let the dials be ``t``. The first stove gets the setting of the first dial. The second
# stove gets the sum of both dials, and the third gets three times the second dial. With
# both dials at 1, the stoves are at 1, 2 and 3. The heat is the sum of these settings, and
# the fuel is the sum of their squares:

import torch


def thermostat(t):
    return torch.stack([t[0], t[0] + t[1], 3 * t[1]])


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


t = torch.tensor([1.0, 1.0])
x = thermostat(t)
x

# %%
# Each of the two steps has a Jacobian. The thermostat has three outputs, the stoves, and
# two inputs, the dials. The house has two outputs, heat and fuel, and three inputs:

jacobian = torch.autograd.functional.jacobian
J_thermostat = jacobian(thermostat, t)
J_house = jacobian(house, x)
print(J_thermostat)
print(J_house)

# %%
# Now turn the second dial a little. It reaches the fuel in two ways, through the second
# stove and through the third.
#
# .. predict::
#    :label: both ways together
#    :for: the rate of the fuel
#    :wrong: one way: This is the way through the third stove alone. The dial moves the
#          second as well.;
#       same speed for both: The third stove moves three times as fast as the dial.;
#       ways multiplied: Here the two ways are multiplied. Their effects add up.;
#       first dial: This is the first dial, which moves the first and the second stove.;
#       row of the fuel: This is the row of the fuel, added up, as if the dial moved all
#          three stoves as fast as itself.
#
#    Read the two tables. At which rate does the second dial move the fuel?

through = J_house[1] * J_thermostat[:, 1]  # row of the fuel, column of the second dial
print("through each stove:", through)
print("both ways together:", through.sum().item())

# %%
# The second dial moves the second stove as fast as itself, and the third three times as
# fast. Fuel reacts to these stoves at rates of 4 and 6. The dial does not move the first
# stove, so the way through it counts 0. The effects add up:
#
# .. math::
#
#    2\cdot0+4\cdot1+6\cdot3=22
#
# The three terms are the three stoves. We have taken the row of the fuel, ``[2, 4, 6]``,
# from the house's table, and the column of the dial, ``[0, 1, 3]``, from the thermostat's.
# The numbers in the same place are multiplied, and the results are added up. We can do this
# for each output and each dial:
#
# ==================  ============================  ============================
# row times column    dial 1: ``[1, 1, 0]``         dial 2: ``[0, 1, 3]``
# ==================  ============================  ============================
# heat ``[1, 1, 1]``  1 · 1 + 1 · 1 + 1 · 0 = 2     1 · 0 + 1 · 1 + 1 · 3 = 4
# fuel ``[2, 4, 6]``  2 · 1 + 4 · 1 + 6 · 0 = 6     2 · 0 + 4 · 1 + 6 · 3 = 22
# ==================  ============================  ============================
#
# In this way two matrices are multiplied: each *row* of the left one meets each *column* of
# the right one. In code it is ``@``. **The Jacobian of two steps together is the product of
# their Jacobians, with the last step on the left.** For this, both steps have to be smooth,
# since at a kink there is no single rate. And the dials must reach the house only through
# the stoves, as they do here:


def whole(t):
    return house(thermostat(t))


print(J_house @ J_thermostat)
print(jacobian(whole, t))

# %%
# The product of the two tables is the table that PyTorch finds for the whole. This is the
# :term:`chain rule` for functions with several inputs and outputs.
#
# .. predict::
#    :expects: shape
#    :code:
#    :for: the shape, if there is no error
#    :wrong: right order: This is the shape of the right order, J_house @ J_thermostat. Here
#          the tables stand the other way round.;
#       thermostat: This is the shape of the thermostat's table.;
#       house: This is the shape of the house's table.
#
#    Somebody multiplies in the order in which the steps happen, first the thermostat and
#    then the house. Does PyTorch raise an error? If not, what shape does the result have?

J_thermostat @ J_house

# %%
# There is no error, and the result is a table of three rows and three columns. It is not
# the table that we want. Take its first entry, :math:`1\cdot1+0\cdot2`. The row, 1 and 0,
# is from the thermostat's table: how fast the first stove follows the first and the second
# *dial*. The column, 1 and 2, is from the table of the house: how fast *heat* and *fuel*
# follow the first stove. So the first dial has met the heat and the second dial has met the
# fuel, as if they were the same things. It runs only because there happen to be as many
# dials as outputs of the house.
#
# So the shapes do not always protect you. The meaning does: what stands in the middle has
# to be the same on both sides. In the right order, ``(2, 3) @ (3, 2)``, both threes are the
# stoves, the outputs of the thermostat and the inputs of the house. This is also the order
# of the formula ``house(thermostat(t))``, where the step that comes last stands on the
# left.
#
# Prices travel through the product from the left
# -----------------------------------------------
#
# Suppose that a unit of heat is worth 10 to us and a unit of fuel costs 1. Then ``v``, the
# price of each output, is ``[10, -1]``. What does each dial earn? That is a
# :term:`vector-Jacobian product` with the table of the whole,
# ``v @ J_house @ J_thermostat``. Let us start on the left. ``v @ J_house`` is what each
# stove earns, ``[8, 6, 4]``. The stoves are the outputs of the thermostat, so these are
# prices again, and ``[8, 6, 4]`` is the next ``v``.
#
# .. predict::
#    :value: 2
#    :item: 0
#    :for: the rate of the first dial
#    :wrong: first stove: This is the first stove alone. The dial moves the second as well.;
#       all stoves: Here all three stoves are added. The first dial does not move the
#          third.;
#       prices: Here the two prices are added. They belong to heat and fuel, and are in 8, 6
#          and 4 already.;
#       mean: This is the mean of the two stoves. What they earn is added up.;
#       product: Here the two rates are multiplied. They are added, because the dial does
#          both at once.
#
#    The stoves earn at rates of 8, 6 and 4. At which rate does the first dial earn?

v = torch.tensor([10.0, -1.0])
v_stoves = v @ J_house
v_dials = v_stoves @ J_thermostat
print(v_stoves)
print(v_dials)

# %%
# The first dial moves the first stove and the second, each as fast as itself. So it earns
# at a rate of :math:`8+6=14`. The second moves one stove that earns 6 and, three times as
# fast, one that earns 4, and so gets :math:`6+3\cdot4=18`.
# ``backward`` does both steps in one call, and needs no table:

t.requires_grad_()
x = thermostat(t)
y = house(x)
y.backward(v)
t.grad

# %%
# A network of many layers is a longer chain of the same kind. A ``Linear`` layer multiplies
# its inputs by its ``weight`` and adds a bias, so its table is its ``weight``:

layer = torch.nn.Linear(3, 2)
torch.equal(jacobian(layer, x.detach()), layer.weight)

# %%
# For two of them, one after the other, the product is ``W2 @ W1``. ``backward`` starts with
# ``v`` on the left and walks back, one step after the other. Each step takes the prices of
# its outputs and turns them into prices of its inputs.
#
# Why start on the left?
# ----------------------
#
# ``v`` times two tables is a product of three, and we may begin where we like:
#
# .. code-block:: text
#
#    (v @ J_house) @ J_thermostat      start on the left: a row, then a row
#    v @ (J_house @ J_thermostat)      first multiply the two tables
#
# Why may the brackets move? Take the second dial. It moves the second stove and the third,
# and each of these changes heat and fuel. So there are four ways from this dial to what we
# earn, and each of them counts *price × rate × rate*:
#
# ========  ===================  ====================
# the ways  second stove         third stove
# ========  ===================  ====================
# heat      10 · 1 · 1 = 10      10 · 1 · 3 = 30
# fuel      (−1) · 4 · 1 = −4    (−1) · 6 · 3 = −18
# ========  ===================  ====================
#
# All four are added up, and it does not matter in which order. If we start on the left, we
# add first for each stove, down the columns: :math:`10-4=6` and :math:`30-18=12`. With the
# tables first, we add for each output, along the rows: :math:`10+30=40` and
# :math:`-4-18=-22`. Both make 18.
#
# So the result is the same for our house, but the work is not. To multiply an ``(a, b)``
# matrix by a ``(b, c)`` matrix takes ``a · b · c`` multiplications, and ``v`` counts as a
# matrix with one row. Here is the first line for our house. Each step multiplies a row by a
# table and makes a new row:

import pullback

pullback.draw.chain(J_house, J_thermostat, v=v, names=("J_house ", "J_thermostat"))

# %%
# The first step takes :math:`1\cdot2\cdot3=6` multiplications, and the second
# :math:`1\cdot3\cdot2=6`, which makes 12. With the tables first it is
# :math:`2\cdot3\cdot2+1\cdot2\cdot2=16`. For such small tables it hardly matters.
#
# .. predict::
#    :code:
#    :for: start on the left, tables first, in millions
#    :wrong: one step: On the left there are two steps, and each takes one million.;
#       two rows: A row times a table takes one million. A table has a thousand rows, so a
#          table times a table takes a thousand times as many.;
#       rows of tables: Only the first product is that of two tables. After it, v is
#          multiplied by a single table.
#
#    Take a ``v`` of 1000 numbers and two tables of 1000 by 1000. How many millions of
#    multiplications does it take if we start on the left? And how many if we multiply the
#    tables first?


def multiplications(left, right):
    return left[0] * left[1] * right[1]


row, table = (1, 1000), (1000, 1000)
start_left = multiplications(row, table) + multiplications(row, table)
tables_first = multiplications(table, table) + multiplications(row, table)
[start_left / 1e6, tables_first / 1e6]

# %%
# It is two million against a billion. If we start on the left, we always multiply a *row*
# by a table, and get a row again. The other way, the first thing that we compute is a new
# table of a million entries.
#
# Starting on the left is cheap because ``v`` is a single row, and stays one all the way. It
# is a single row because we ask about one number at the end of the chain, what we earn.
#
# A chain may also *begin* with one number. Suppose that a single lever moves both dials.
# The table of the lever is a column of two numbers, at the right end of the product. If we
# start there, a table times a column makes a column again. This takes as little work as
# with a row, here :math:`3\cdot2\cdot1+2\cdot3\cdot1=12` multiplications.
# :ref:`pushing-forward` is about this direction.
#
# The tables belong to one point
# ------------------------------
#
# Each Jacobian in the chain has to be taken at the values that its step really saw. If we
# turn the first dial to 2, the stoves are at 2, 3 and 3, and the table of the house is no
# longer the one from above. Here are both:

turned = torch.tensor([2.0, 1.0])
stale = v @ J_house @ J_thermostat
fresh = v @ jacobian(house, thermostat(turned)) @ jacobian(thermostat, turned)
print("with the old table:", stale)
print("with the new table:", fresh)

# %%
# The old table promises 14 for the first dial, but at the new setting it earns only 10,
# because the stoves that it drives already burn more. ``backward`` avoids this mistake, as
# long as you run the forward pass again after a change. If you multiply tables yourself,
# you have to take care of it.
#
# Below are the dials, the table of the whole, and what the dials earn. In the graph, the
# thermostat is *Mv*, "matrix times vector": it multiplies the dials by fixed numbers and
# adds. Turn one dial up, and leave the other at 1. From which setting on does it cost money
# to turn it further?


def installed(t):
    stoves = J_thermostat @ t  # the thermostat, as a matrix times the dials
    heat, squares = stoves.sum(), stoves**2
    fuel = squares.sum()
    return torch.stack([heat, fuel])


names = {"rows": ["heat", "fuel"], "columns": ["dial 1", "dial 2"]}
pullback.live(installed, torch.tensor([1.0, 1.0]), v, graph=True, **names)

# %%
# .. dropdown:: Answer
#
#    The first dial at 4.5 and the second at 1.9. The second drives the third stove three
#    times as fast as itself, and the fuel of that stove grows fastest. In the graph you
#    see what each stove earns: these are the numbers that arrive at ``stoves``.
#
# .. admonition:: Remember
#
#    - The Jacobian of ``house(thermostat(t))`` is ``J_house @ J_thermostat``, each taken
#      at the values of the same forward pass. Both steps have to be smooth there, and
#      ``house`` has to use the dials only through the stoves.
#    - In the product, each row of the left table meets each column of the right one. What
#      stands between the two, here the stoves, has to be the same.
#    - Inputs and outputs are vectors here. :ref:`tensors-in-tensors-out` has batches and
#      images, for which ``@`` may give wrong numbers without an error.
#    - The walk back starts on the left of the product. It goes through the house first, and
#      what comes out, the prices of the stoves, is the ``v`` for the thermostat.
#    - Starting on the left, we hold a row all the time. This is cheap when we ask for few
#      rows, as with a loss.
#
# .. predict:: Try it
#    :for: what the timer earns
#    :wrong: same speed: Here the two dials are added, as if both moved as fast as the
#          timer. The second moves twice as fast.;
#       per dial: These are the parts of the two dials. The timer moves both, so they are
#          added.;
#       column: This is the table of the timer. Each of its numbers is multiplied by what
#          its dial earns.;
#       worth: This is what the house earns. The question is how fast that rises.
#
#    A timer ``s`` moves both dials: ``t = [s, s * s]`` at ``s = 1``. Write down its
#    table, which is a column. At which rate does a turn of the timer earn?
#
# .. dropdown:: Answer
#
#    At ``s = 1`` the first dial moves as fast as the timer and the second twice as fast,
#    so the column is ``[1, 2]``. The dials earn 14 and 18, and the timer earns
#    :math:`14\cdot1+18\cdot2=50`.


def timer(s):
    return torch.stack([s, s * s])


s = torch.tensor(1.0, requires_grad=True)
whole(timer(s)).backward(v)
s.grad

# %%
# .. dropdown:: If the second step also uses the dials directly
#
#    Suppose that the dials have little motors, and each dial adds its own setting to the
#    fuel, and nothing to the heat. Then the house uses the dials twice, through the stoves
#    and directly. The product has only the first of the two ways, and the table of the
#    direct use has to be added to it.


def with_motors(t):
    heat, fuel = house(thermostat(t))
    return torch.stack([heat, fuel + t.sum()])


direct = torch.tensor([[0.0, 0.0], [1.0, 1.0]])  # heat: not at all; fuel: each dial at 1
torch.equal(jacobian(with_motors, turned), jacobian(whole, turned) + direct)

# %%
# .. dropdown:: How we checked this page
#
#    The product of the tables is compared with the derivative of the whole function in
#    float64, found by nudging the dials. The prices from the product, from two calls, and
#    from one ``backward`` have to agree. The wrong order has to give something else.

point, h = t.detach().double(), 1e-6
steps = h * torch.eye(2, dtype=torch.float64)
nudged = [(whole(point + step) - whole(point - step)) / (2 * h) for step in steps]
torch.testing.assert_close(torch.stack(nudged, dim=1), (J_house @ J_thermostat).double())

layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
W1, W2 = layers[0].weight, layers[1].weight
torch.testing.assert_close(jacobian(layers, torch.ones(3)), W2 @ W1)
assert torch.equal(v_dials, torch.tensor([14.0, 18.0]))  # 10 (2, 4) - (6, 22), by hand
x = thermostat(t)
(for_stoves,) = torch.autograd.grad(house(x), x, v, retain_graph=True)
(for_dials,) = torch.autograd.grad(x, t, for_stoves)
assert torch.equal(for_stoves, v_stoves)
assert torch.equal(for_dials, v_dials)
assert torch.equal(t.grad, v_dials)
assert torch.equal((v @ J_house) @ J_thermostat, v @ (J_house @ J_thermostat))
ways = v[:, None, None] * J_house[:, :, None] * J_thermostat  # output, stove, dial
assert ways[..., 1].flatten().tolist() == [0, 10, 30, 0, -4, -18]
assert ways[..., 1].sum(0).tolist() == [0, 10 - 4, 30 - 18] == [0, 6, 12]  # each stove
assert ways[..., 1].sum(1).tolist() == [10 + 30, -4 - 18] == [40, -22]  # each output
assert torch.equal(ways.sum((0, 1)), v_dials)
by_hand = [[1 * 1 + 1 * 1 + 1 * 0, 1 * 0 + 1 * 1 + 1 * 3], [2 + 4, 2 * 0 + 4 * 1 + 6 * 3]]
assert (J_house @ J_thermostat).tolist() == by_hand == [[2, 4], [6, 22]]

leaf = turned.clone().requires_grad_()
whole(leaf).backward(v)
assert torch.equal(leaf.grad, fresh)
assert not torch.equal(leaf.grad, stale)


for dial, turn in enumerate((4.5, 1.9)):  # here the rate of that dial goes through zero
    at = torch.ones(2)
    at[dial] = turn
    rate = (v @ jacobian(whole, at))[dial]
    torch.testing.assert_close(rate, torch.tensor(0.0), atol=1e-4, rtol=0)
    torch.testing.assert_close(jacobian(installed, at), jacobian(whole, at))

start_right = multiplications((3, 2), (2, 1)) + multiplications((2, 3), (3, 1))
assert (
    start_right == 12 == multiplications((1, 2), (2, 3)) + multiplications((1, 3), (3, 2))
)
assert jacobian(timer, s.detach()).tolist() == [1, 2]
assert s.grad == v_dials @ torch.tensor([1.0, 2.0]) == 50

assert torch.equal(jacobian(with_motors, t.detach()), J_house @ J_thermostat + direct)

assert (J_thermostat @ J_house).shape == (3, 3)
backwards = J_thermostat @ J_house
assert backwards[0].tolist() == (J_thermostat[0, 0] * J_house[0]).tolist()  # dial as heat

guesses = {  # wrong ones, of which the boxes above say what they are
    "one way": through[2].item(),
    "same speed for both": J_house[1, 1:].sum().item(),
    "ways multiplied": through[1:].prod().item(),
    "first dial": (J_house @ J_thermostat)[1, 0].item(),
    "row of the fuel": J_house[1].sum().item(),
    "right order": (J_house @ J_thermostat).shape,
    "thermostat": J_thermostat.shape,
    "house": J_house.shape,
    "first stove": v_stoves[0],
    "all stoves": v_stoves.sum(),
    "prices": v.sum(),
    "mean": v_stoves[:2].mean(),
    "product": v_stoves[0] * v_stoves[1],
    "one step": [multiplications(row, table) / 1e6, tables_first / 1e6],
    "two rows": [start_left / 1e6, start_left / 1e6],
    "rows of tables": [start_left / 1e6, 2 * multiplications(table, table) / 1e6],
    "same speed": v_dials.sum(),
    "per dial": v_dials * torch.tensor([1.0, 2.0]),
    "column": jacobian(timer, s.detach()),
    "worth": v @ whole(timer(s.detach())),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** so far, ``x`` and ``y`` had one dimension. What is the Jacobian of an image, or
# of anything else that has rows and columns itself? :ref:`tensors-in-tensors-out`. (Both
# steps were smooth here. :ref:`chain-rule-at-a-kink` has what happens at a kink, such as
# that of ``relu`` at 0.)
#
# .. asked: chain rule with matrices; chain rule for vector functions; multiply
#    Jacobians; derivative of a composition; why does backward go from the end to the
#    beginning; order of multiplication in backprop; derivative of a function inside a
#    function; combine the derivatives of layers; why multiply matrices in backprop
# .. words: composition, inner and outer function, layers in a row, f(g(x)), associativity,
#    left to right, right to left, product rule for layers, deep
