r"""
.. _the-whole-jacobian:

The whole Jacobian: row by row, then at once
============================================

Until now we have called ``torch.autograd.functional.jacobian`` and have not asked how it
works. PyTorch has several such functions, and on the internet you find a loop as well.
They return the same table. They differ in what you have to give them and in how long they
take, sometimes by a factor of fifty. Which one do you need?
"""

# %%
# First, why would anybody want the whole table? Suppose that our house should give the
# same 6 units of heat from 13 units of fuel instead of 14. In which direction should we
# move the stoves? One ``v`` is not enough to say, because we want to hit two targets at
# the same time. With the whole table, we can solve for a step that changes both outputs
# by the right amounts. (``jacrev`` computes the table, and we come to it below.)

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
wanted = torch.tensor([6.0, 13.0])
at = x
for _ in range(3):
    table = torch.func.jacrev(house)(at)
    at = at + torch.linalg.pinv(table) @ (wanted - house(at))
    print(house(at))

# %%
# Step by step the house comes to what we asked for, 6 and 13. ``torch.linalg.pinv`` found
# the smallest step that fits the table, and because the table changes as the stoves move,
# we did it several times. This is Newton's method. Solvers of this kind, in SciPy for
# example, ask for the :term:`Jacobian`. So do tools that estimate the uncertainty of a
# result, or the stability of a simulation.
#
# Row by row
# ----------
#
# You can already build the table from what you know. A ``v`` with a single 1 gives one
# row. The rows of ``torch.eye(2)`` are all such ``v``, and the graph has to be kept
# between the calls:

leaf = x.clone().requires_grad_()
y = house(leaf)
rows = [torch.autograd.grad(y, leaf, v, retain_graph=True)[0] for v in torch.eye(2)]
by_loop = torch.stack(rows)
by_loop

# %%
# We ran the house once, and then walked back twice, once for each output. For the inside
# of a network it is the same. A thousand outputs need a thousand walks, and Python starts
# them one after the other.
#
# At once
# -------
#
# The walks do not need one another, so PyTorch can do them side by side. You pass all the
# ``v`` in one tensor, with a new first dimension, and say ``is_grads_batched=True``:

y = house(leaf)
(at_once,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
at_once

# %%
# This is one call, and inside each operation works on both ``v`` together, as it would
# work on a batch of two samples. The result has the new dimension in front, and so it is
# the table. The tool behind it is called ``vmap``, for *vectorised map*, and you can use
# it yourself. ``torch.func.vjp`` runs a function and returns its value together with a
# function that pulls a ``v`` back. ``vmap`` calls that for all rows of ``torch.eye(2)``
# at once:

value, pull = torch.func.vjp(house, x)
(by_vmap,) = torch.func.vmap(pull)(torch.eye(2))
by_vmap

# %%
# It is needed so often that it has a name. ``torch.func.jacrev`` takes a function and
# returns another one, which computes its Jacobian. *rev* stands for reverse, since the
# walk goes from the outputs back. Its sister ``jacfwd`` goes *forward*, from the inputs
# to the outputs, and builds the table column by column (:ref:`pushing-forward` says how):

by_rows = torch.func.jacrev(house)(x)
by_columns = torch.func.jacfwd(house)(x)
print(by_rows)
print(by_columns)

# %%
# Both give the same table, but not with the same work. ``jacrev`` needs one walk for each
# row, and ``jacfwd`` one for each column. For our house it is two against three:

import pullback

pullback.draw.cost(by_rows)

# %%
# A network from 784 pixels to 10 scores has 10 rows and 784 columns, so ``jacrev`` needs
# about 78 times fewer walks. For a function from 3 numbers to 5000, ``jacfwd`` has less
# to do. The number of walks is the first thing to look at. The time also depends on what
# each walk costs, so measure when the two numbers are close. Here are the ways side by
# side:
#
# =====================================  =============================  =================
# way                                    you give                       it goes by
# =====================================  =============================  =================
# loop over ``autograd.grad``            ``y``, already computed        rows, one by one
# ``autograd.grad(is_grads_batched)``    ``y``, already computed        rows, at once
# ``torch.func.jacrev``                  the function                   rows, at once
# ``torch.func.jacfwd``                  the function                   columns, at once
# ``autograd.functional.jacobian``       the function                   rows, one by one
# =====================================  =============================  =================
#
# The last one is the oldest. It is a loop in Python unless you pass ``vectorize=True``.
# On the machine where we measured (one thread of a CPU, 784 outputs from 10 inputs) the
# loops took 45 to 67 times as long as ``jacfwd``, and :ref:`ways-measured` has more such
# figures. Our package adds one more function. It takes either the function or a computed
# ``y``, and chooses between rows and columns by the number of each:

from_function = pullback.jacobian(house, x)
from_result = pullback.jacobian(house(leaf), leaf).detach()
from_function

# %%
# When is the loop still right? Side by side means that the intermediate results of all
# walks are in memory together. ``jacrev(f, chunk_size=100)`` takes a hundred at a time,
# and the loop holds one. And there are operations that ``vmap`` cannot run, for which it
# raises an error. The loop runs them.
#
# Several outputs in one call are added
# -------------------------------------
#
# It is tempting to get all rows from one call by passing a list of outputs.
#
# .. admonition:: Predict
#
#    The next call gets both outputs of the house, heat and fuel, whose rows are
#    ``[1, 1, 1]`` and ``[2, 4, 6]``. How many rows come back?

heat, fuel = house(leaf)
torch.autograd.grad([heat, fuel], leaf)

# %%
# There is only one row, and it is neither of the two. A list of outputs means *the sum*
# of what each of them contributes, so that we got ``[1, 1, 1] + [2, 4, 6]``. This is a
# ``v`` of ones in disguise, and it raises no error because for two losses it is what you
# want.
#
# .. admonition:: Remember
#
#    - A loop of one-hot ``v`` gives the Jacobian row by row. ``is_grads_batched=True``
#      takes the same ``v`` in one call.
#    - If you have the function, begin with ``torch.func.jacrev`` when there are fewer
#      outputs than inputs, and with ``jacfwd`` when there are fewer inputs. Measure when
#      the numbers are close.
#    - All at once is usually faster and needs more memory. ``chunk_size`` is the
#      compromise.
#
# .. admonition:: Try it
#
#    The Jacobian of ``torch.cumsum(x, 0)`` for our three stoves is a table of zeros and
#    ones. Write it down, and check it with
#    ``torch.func.jacrev(lambda x: x.cumsum(0))(x)``. Then replace ``jacrev`` by
#    ``jacfwd``. What changes?

# %%
# .. dropdown:: How we checked this page
#
#    All ways have to give the table that we derived by hand. For a function with more
#    outputs than inputs they have to agree with one another.

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
found = [by_loop, at_once, by_vmap, by_rows, by_columns, from_function, from_result]
functional = torch.autograd.functional.jacobian
found += [functional(house, x), functional(house, x, vectorize=True)]
found += [torch.func.jacrev(house, chunk_size=1)(x)]
for way in found:
    assert torch.equal(way, J)
torch.testing.assert_close(house(at), wanted)
added = torch.autograd.grad(list(house(leaf)), leaf)[0]
assert torch.equal(added, torch.ones(2) @ J)


def wide(x):
    return torch.outer(x.sin(), x).flatten()


torch.testing.assert_close(torch.func.jacrev(wide)(x), torch.func.jacfwd(wide)(x))
torch.testing.assert_close(pullback.jacobian(wide, x), functional(wide, x))

# %%
# **Next:** ``jacfwd`` builds the table by columns, and no ``v`` picks a column.
# :ref:`pushing-forward` shows what it uses instead.
