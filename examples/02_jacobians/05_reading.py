r"""
.. _reading-a-jacobian:

A row for each output, a column for each input
==============================================

Part 1 used the table of the house, its :term:`Jacobian`, to explain what ``backward``
does. ``backward`` itself never builds the table. It puts one weighted sum of its rows
into ``x.grad``, because training needs no more. Sometimes, however, you want to see the
whole table, since it says which output reacts to which input, and how strongly. This
part is about the table itself, and about the ways to get it. First we have to be able
to read it.
"""

# %%
# Here is the house from part 1 again, with three stoves and two outputs, heat and fuel.
# The heat is the sum of the settings, and the fuel is the sum of their squares:

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
# :math:`\partial y_1/\partial x_2`. In the table it is
#
# .. math::
#
#    J_{ij}=\frac{\partial y_i}{\partial x_j},
#
# with the output first and the input second. The same order holds for the shape. Two
# outputs and three inputs make a table of shape ``(2, 3)``.
#
# Reading across and reading down
# -------------------------------
#
# We can read the table in two directions, and they answer different questions.
#
# *Across:* a row belongs to one output. The row of the fuel, ``[2, 4, 6]``, says how the
# fuel reacts to each stove. It is the :term:`gradient` of the fuel, so the Jacobian is
# nothing but the gradients of all outputs, written below each other.
#
# *Down:* a column belongs to one input. The column of the second stove, ``[1, 4]``, says
# what happens to everything in the house when we touch that stove.
#
# In part 1 we picked a row with a ``v`` that has a single 1. Here it picks the row of the
# fuel:

import pullback

names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.draw.vjp([0, 1], J, **names, result_name="row of fuel")

# %%
# We can also put a weight above each column and add the columns up. The picture calls
# these weights ``u``. A 1 above the second stove picks its column:

pullback.draw.jvp(J, [0, 1, 0], **names, result_name="effect")

# %%
# .. predict::
#    :label: from the column
#    :for: the changes of heat and fuel
#
#    We turn the second stove up by 0.01, from 2 to 2.01. By how much do heat and fuel
#    change? Take the answer from the table, without computing the house again.

small = 0.01
moved = torch.tensor([1.0, 2.0 + small, 3.0])
change = house(moved) - house(x)
print("from the column:", J[:, 1] * small)
print("in the house:   ", change)

# %%
# The column times 0.01 predicts 0.01 more heat and 0.04 more fuel. The heat comes out
# as predicted. The fuel rises by 0.0401, which is a little more, because its rate of 4
# has itself begun to rise on the way from 2 to 2.01. The smaller the step, the smaller
# this error, until rounding takes over. A Jacobian describes how a smooth function
# behaves *near one point*. At another point the rates are usually different, and you
# need the table of that point.
#
# Two special shapes
# ------------------
#
# If there is only one output, the table has only one row. This is the situation of every
# training loop, where the only output is the loss. The row is the gradient of the loss:


def worth(x):
    heat, fuel = house(x)
    return (10 * heat - fuel).reshape(1)  # one output, in a tensor of shape (1,)


torch.autograd.functional.jacobian(worth, x)

# %%
# One row and three columns: these are the numbers that part 1 found with the prices
# ``v = [10, -1]``. (With a real loss, of
# shape ``()``, even the dimension for the row is gone, and ``jacobian`` returns shape
# ``(3,)``.) If there is only one *input*, the table has only one column. Let one big
# lever ``t`` set the stoves to ``t``, ``2t`` and ``3t``:


def lever(t):
    return house(t * torch.tensor([1.0, 2.0, 3.0]))


torch.autograd.functional.jacobian(lever, torch.tensor([1.0]))

# %%
# The lever moves all three stoves, so heat rises at a rate of :math:`1+2+3=6` and fuel at
# a rate of :math:`1\cdot2+2\cdot4+3\cdot6=28`. If ``t`` were the time, and the outputs
# the coordinates of a moving point, this column would be the velocity of the point.
#
# Other people write it the other way up
# --------------------------------------
#
# Many books put the inputs in rows and the outputs in columns. Their table is our table
# flipped along its diagonal, ``J.T``, of shape ``(3, 2)``. The numbers are the
# same, and our ``v @ J`` is their ``table @ v``:

v = torch.tensor([10.0, -1.0])
flipped = J.T
print("ours:  ", v @ J)
print("theirs:", flipped @ v)

# %%
# Both give the same three numbers. Our convention is called *numerator layout* in the
# literature, and the other one *denominator layout*. PyTorch's functions that return a
# Jacobian put the outputs first, as we do. What ``backward`` leaves in ``x.grad`` is
# neither a row nor a column. It has the shape of ``x``.
#
# As long as the numbers of outputs and inputs differ, the shape tells you which way up a
# table is. The danger is a *square* one. Here is our house with only two stoves:

two_stoves = torch.tensor([1.0, 2.0])
square = torch.autograd.functional.jacobian(house, two_stoves)
print("right: ", v @ square)
print("wrong: ", v @ square.T)

# %%
# Both lines run, and the second gives wrong advice. In truth a turn of the first stove
# earns 8 and one of the second only 6. The transposed table says that the second is the
# one to turn up. Where does the 9 come from? The product has computed
# :math:`10\cdot[1,2]-1\cdot[1,4]=[9,16]`. These are the columns of our table, one for each
# *stove*, so it has given prices to the stoves instead of to heat and fuel.
#
# There is a test that works for square tables, too, and you
# have already done it: nudge *one* input, here the second stove, and divide the changes by
# the size of the nudge:

nudged = torch.tensor([1.0, 2.0 + small])
rates = (house(nudged) - house(two_stoves)) / small
print("nudged:       ", rates)
print("second column:", square[:, 1])
print("second row:   ", square[1])

# %%
# The changes are a column of our table, as closely as the size of the nudge allows. If
# they match the row instead, you hold the table the other way up.
#
# Move a stove, and see which entries of the table change, and which never do. The switch
# *J u* weighs columns instead of rows:

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0]))

# %%
# .. admonition:: Remember
#
#    - ``J[i, j]`` says how fast output ``i`` changes when only input ``j`` moves. Outputs
#      come first, in the entry as in the shape.
#    - A row is the gradient of one output. A column is the effect of one input.
#    - The rates hold at the point where the table was computed, and approximately near
#      it, if the function is smooth there.
#    - Some books write the transpose. For a square table the shape does not tell, but
#      nudging one input does.
#
# .. predict:: Try it
#    :label: from the column
#    :for: the changes of heat and fuel
#
#    Turn the first stove *down* by 0.1. Which column do you need, and which changes
#    does it predict for heat and fuel? Then think about the entry ``J[1, 0]`` at a
#    setting where the first stove is off: what is it there?
#
# .. dropdown:: Answer
#
#    You need the first column, ``[1, 2]``, times −0.1. In truth the fuel falls by 0.19,
#    because the rate falls on the way. ``J[1, 0]`` is :math:`2x_0`, so it is 0 where the
#    first stove is off. A tiny turn of that stove burns next to nothing.

lower = house(torch.tensor([0.9, 2.0, 3.0])) - house(x)
print("from the column:", -0.1 * J[:, 0])
print("in the house:   ", lower)

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
assert torch.equal(leaf.grad, flipped @ v)

torch.testing.assert_close(change, J[:, 1] * small, atol=2e-4, rtol=0)
pair = two_stoves.clone().requires_grad_()
house(pair).backward(v)
assert torch.equal(pair.grad, v @ square)
assert not torch.equal(pair.grad, v @ square.T)
torch.testing.assert_close(rates, square[:, 1], atol=0.02, rtol=0)
assert not torch.allclose(rates, square[1], atol=0.02, rtol=0)

torch.testing.assert_close(lower, torch.tensor([-0.1, -0.19]), atol=1e-5, rtol=0)
torch.testing.assert_close(-0.1 * J[:, 0], torch.tensor([-0.1, -0.2]))
off = torch.func.jacrev(house)(torch.tensor([0.0, 2.0, 3.0]))
assert off[1, 0] == 0

# %%
# **Next:** somebody builds a thermostat that moves the stoves for us. Its table and the
# table of the house belong together, and :ref:`chain-of-jacobians` shows how.
#
# .. asked: what is a Jacobian; Jacobian explained; how to read a Jacobian; rows and
#    columns of the Jacobian; table of all slopes; compute a Jacobian in PyTorch; matrix
#    of partial derivatives; all derivatives of all outputs; how does each input affect
#    each output; sensitivities of all outputs; difference between gradient and
#    Jacobian; rates of change in a table
