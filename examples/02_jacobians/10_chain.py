r"""
.. _chain-of-jacobians:

The chain rule is a product of Jacobians
========================================

Nobody wants to set three stoves by hand, so we install a thermostat. It has two dials,
and the dials move the stoves. What we want to know now is how heat and fuel react to the
*dials*. One table says how the house reacts to the stoves, another how the stoves react
to the dials. This page puts the two together.
"""

# %%
# Let the dials be ``t``. The first stove follows the first dial, the second stove follows
# both dials together, and the third follows the second dial with three times its setting.
# With both dials at 1, the stoves are at 1, 2 and 3, where we have had them all along:

import torch


def thermostat(t):
    return torch.stack([t[0], t[0] + t[1], 3 * t[1]])


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


t = torch.tensor([1.0, 1.0])
x = thermostat(t)
x

# %%
# Each of the two steps has a table, its :term:`Jacobian`. The thermostat has three
# outputs, the stoves, and two inputs, the dials. The house has two outputs, heat and
# fuel, and three inputs:

jacobian = torch.autograd.functional.jacobian
J_thermostat = jacobian(thermostat, t)
J_house = jacobian(house, x)
print(J_thermostat)
print(J_house)

# %%
# Now turn the second dial a little. Read down its column in the first table: the first
# stove does not move, the second moves as fast as the dial, and the third three times as
# fast. From the second table we know that fuel reacts to the second stove at a rate of 4,
# and to the third at a rate of 6. So the dial reaches the fuel in two ways, through
# these two stoves, and their effects add up. (The first stove counts 0.)
#
# .. math::
#
#    2\cdot0+4\cdot1+6\cdot3=22
#
# The three terms are the three stoves. This is a row of the second table, ``[2, 4, 6]``,
# times a column of the first, ``[0, 1, 3]``. If we do it for every output and every dial,
# we have multiplied the two matrices. **If the second step uses nothing but the results
# of the first, the Jacobian of both together is the product of their Jacobians, with the
# last step on the left:**


def whole(t):
    return house(thermostat(t))


print(J_house @ J_thermostat)
print(jacobian(whole, t))

# %%
# The product of the two tables is the table of the whole. The 22 stands where it should,
# in the row of the fuel and the column of the second dial. This is the :term:`chain rule`
# for functions with several inputs and outputs.
#
# If the second step also used the dials directly, for example because their motors burn
# some fuel, a part would be missing from the product: the table of this direct use. You
# would have to add it, in the same way as ``backward`` adds what arrives along two paths.
#
# The order is that of the formula ``house(thermostat(t))``, where the step that comes
# last stands on the left as well. The inner sizes must fit, ``(2, 3) @ (3, 2)``, because
# the outputs of the thermostat are the inputs of the house.
#
# Prices travel through the product from the left
# -----------------------------------------------
#
# We are still paid 10 for a unit of heat and pay 1 for a unit of fuel. What does each
# dial earn? Now there are three things to multiply, and ``v`` comes first:
# ``v @ J_house @ J_thermostat``.
#
# If we start on the left, the first product gives prices for the stoves, and they are the
# ``[8, 6, 4]`` that we know from part 1. We can use them as the next ``v``.
#
# .. predict::
#    :value: 2
#    :item: 0
#    :for: the rate of the first dial
#
#    The stoves earn at rates of 8, 6 and 4. The first dial moves the first stove and the
#    second stove, each at the same speed as the dial. At which rate does the first dial
#    earn?

v = torch.tensor([10.0, -1.0])
v_stoves = v @ J_house
v_dials = v_stoves @ J_thermostat
print(v_stoves)
print(v_dials)

# %%
# The first dial earns at a rate of :math:`8+6=14`. The second moves one stove that earns
# 6 and, three times as fast, one that earns 4, and so gets :math:`6+3\cdot4=18`. The
# picture shows both steps, with ``H`` for the table of the house and ``D`` for the table
# of the dials, ``J_thermostat``. In each step a row and a table make a new row:

import pullback

pullback.draw.chain(J_house, J_thermostat, v=v, names=("H", "D"))

# %%
# We wrote both tables down, because they are small. In PyTorch the same walk needs no
# table. Each call takes the prices of a step's outputs and returns the prices of its
# inputs. The result of the first call is the ``v`` of the second:

t.requires_grad_()
x = thermostat(t)
y = house(x)
(for_stoves,) = torch.autograd.grad(y, x, v, retain_graph=True)
(for_dials,) = torch.autograd.grad(x, t, for_stoves, retain_graph=True)
print(for_stoves, for_dials)

y.backward(v)  # both steps in one call
t.grad

# %%
# ``backward`` went through both steps by itself and arrived at the same ``[14, 18]``. A
# network of many layers is a longer chain of the same kind. The walk back starts with
# ``v`` on the left and takes one step after the other. Each step carries prices from
# its outputs *back* to its inputs, and for this reason mathematicians call it a
# :term:`pullback`. We say *pull* for short.
#
# Why from the left?
# ------------------
#
# A product of three matrices may be bracketed as we like. The numbers are the same, up to
# rounding, but the work is not. We can start with ``v @ J_house``, as we did, or we can
# multiply the two tables first. An ``(a, b)`` matrix times a ``(b, c)`` matrix takes
# ``a · b · c`` multiplications, and a ``v`` is a matrix with one row:


def multiplications(left, right):
    return left[0] * left[1] * right[1]


v_shape, H_shape, D_shape = (1, 2), (2, 3), (3, 2)
print("(v H) D:", multiplications(v_shape, H_shape) + multiplications((1, 3), D_shape))
print("v (H D):", multiplications(H_shape, D_shape) + multiplications(v_shape, (2, 2)))

# %%
# For our small house it is 12 against 16, which nobody would notice.
#
# .. predict::
#    :value: 1
#    :for: from the left, from the right, in millions
#
#    Now take a ``v`` of 1000 numbers and two tables of 1000 by 1000. How many
#    millions of multiplications is it from the left, and how many from the right?

row, table = (1, 1000), (1000, 1000)
from_left = multiplications(row, table) + multiplications(row, table)
from_right = multiplications(table, table) + multiplications(row, table)
[from_left / 1e6, from_right / 1e6]

# %%
# From the left there are two million, from the right a billion. From the left we always
# multiply a *row* by a table, and get a row again. From the right, the first thing that
# we compute is a new table of a million entries.
#
# The left is the cheap side here because ``v`` makes one number of the two outputs,
# what the house earns. If the chain *begins* with one number instead, a single dial
# that moves everything, then the first table is a column, and the right side is the
# cheap one. :ref:`pushing-forward` is about this direction.
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
# because the stoves that it drives already burn more. ``backward`` uses the values of its
# own forward pass. So it avoids this mistake, as long as you run the forward pass again
# after a change. If you multiply tables yourself, you have to take care of it. The same
# goes for a ``v`` that you computed before the change.
#
# The dials, the table of the whole, and what they earn. At which setting does a dial begin
# to lose money? In the graph below, the prices of the stoves are what arrives at
# ``stoves``, and they follow, too:


def installed(t):
    stoves = J_thermostat @ t  # as thermostat(t), which only scales and adds
    heat, squares = stoves.sum(), stoves**2
    fuel = squares.sum()
    return torch.stack([heat, fuel])


pullback.live(installed, torch.tensor([1.0, 1.0]), v, graph=True)

# %%
# .. admonition:: Remember
#
#    - The Jacobian of ``house(thermostat(t))`` is ``J_house @ J_thermostat``, each taken
#      at the values of the same forward pass, if ``house`` uses the dials only through
#      the stoves.
#    - Pulling ``v`` back goes through the product from the left. The result of one step
#      is the ``v`` of the step that came before it in the forward pass.
#    - From the left we hold a row all the time. This is cheap when the chain ends in few
#      numbers, as a loss does.
#
# .. predict:: Try it
#    :for: what the timer earns
#
#    A timer ``s`` moves both dials: ``t = [s, s * s]`` at ``s = 1``. Write down its
#    table, which is a column, and find out with ``v_dials`` at which rate a turn of the
#    timer earns. (You need one multiplication for each dial.)
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
# .. dropdown:: How we checked this page
#
#    The product of the tables is compared with the derivative of the whole function in
#    float64, found by nudging the dials. The prices from the product, from two calls, and
#    from one ``backward`` have to agree.

point, h = t.detach().double(), 1e-6
steps = h * torch.eye(2, dtype=torch.float64)
nudged = [(whole(point + step) - whole(point - step)) / (2 * h) for step in steps]
torch.testing.assert_close(torch.stack(nudged, dim=1), (J_house @ J_thermostat).double())

assert torch.equal(v_dials, torch.tensor([14.0, 18.0]))  # 10 (2, 4) - (6, 22), by hand
assert torch.equal(for_stoves, v_stoves)
assert torch.equal(for_dials, v_dials)
assert torch.equal(t.grad, v_dials)
assert torch.equal((v @ J_house) @ J_thermostat, v @ (J_house @ J_thermostat))

leaf = turned.clone().requires_grad_()
whole(leaf).backward(v)
assert torch.equal(leaf.grad, fresh)
assert not torch.equal(leaf.grad, stale)


assert jacobian(timer, s.detach()).tolist() == [1, 2]
assert s.grad == v_dials @ torch.tensor([1.0, 2.0]) == 50

with_motors = lambda t: house(thermostat(t)) + torch.stack([0 * t[0], t.sum()])
direct = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
assert torch.equal(jacobian(with_motors, t.detach()), J_house @ J_thermostat + direct)

# %%
# **Next:** so far, ``x`` and ``y`` had one dimension. What is the Jacobian of an image,
# or of anything else that has rows and columns itself? :ref:`tensors-in-tensors-out`.
#
# .. asked: chain rule with matrices; chain rule for vector functions; multiply
#    Jacobians; derivative of a composition; why does backward go from the end to the
#    beginning; order of multiplication in backprop; derivative of a function inside a
#    function; combine the derivatives of layers; why multiply matrices in backprop
