r"""
.. _the-whole-jacobian:

The whole Jacobian: row by row, then at once
============================================

Until now we have called ``torch.autograd.functional.jacobian`` and have not asked how
it works. PyTorch has several such functions, and on the internet you find a loop as
well. Where they run, they return the same table. They differ in what you have to give
them, and in how long they take. This page says which one to choose.
"""

# %%
# First, an example in which we need the whole table. Our house should give the same 6
# units of heat from 13 units of fuel instead of 14. One ``v`` does not say how to move
# the stoves, because we want to hit two targets at the same time. With the whole table,
# we can look for a step ``s`` with ``table @ s`` equal to what is missing. Three stoves
# can do this in many ways, and ``torch.linalg.pinv(table) @ missing`` is the shortest of
# these steps (``pinv`` is the *pseudo-inverse*; it takes the place of an inverse where a
# table is not square):

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
wanted = torch.tensor([6.0, 13.0])
at = x
for _ in range(3):
    table = torch.autograd.functional.jacobian(house, at)
    missing = wanted - house(at)
    at = at + torch.linalg.pinv(table) @ missing
    print(house(at))

# %%
# The first step takes the fuel from 14 to 13.125 and leaves the heat at 6. After three
# steps the house is where we want it, to all the digits printed. One step is not enough,
# because the table changes as the stoves move. This is Newton's method. Many solvers of
# this kind, in SciPy for example, can use the :term:`Jacobian`.
#
# Row by row
# ----------
#
# Part 1 already built the table. A ``v`` with a single 1 gives one row, and the rows
# of ``torch.eye(2)`` are all such ``v``:

leaf = x.clone().requires_grad_()
y = house(leaf)
rows = [torch.autograd.grad(y, leaf, v, retain_graph=True)[0] for v in torch.eye(2)]
by_loop = torch.stack(rows)
by_loop

# %%
# We ran the house once, and then walked back once for each output. A thousand outputs
# need a thousand walks, and Python starts them one after the other.
#
# At once
# -------
#
# The walks do not need one another, so PyTorch can do them side by side. Part 1 did this
# with ``is_grads_batched=True``:

y = house(leaf)
(at_once,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
at_once

# %%
# In this one call, each operation works on both ``v`` together, as it would work on a
# batch of two samples. The tool behind it is called ``vmap``, for *vectorised map*, and
# you can use it yourself. ``torch.func.vjp`` runs a function and returns its value,
# together with a function that pulls a ``v`` back. ``vmap`` calls that function for all
# rows of ``torch.eye(2)`` at once:

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
# Both give the same table, but not with the same work. ``jacrev`` needs one product for
# each row, and ``jacfwd`` one for each column. For our house it is two against three:

import pullback

pullback.draw.cost(by_rows)

# %%
# The number of products is the first thing to look at. A network from 784 pixels to 10
# scores has 10 rows and 784 columns, so ``jacrev`` takes 10 products and ``jacfwd`` takes
# 784. For a function from 3 numbers to 5000, ``jacfwd`` takes fewer. The time also
# depends on what each product costs, so measure when the two numbers are close. Here are
# the ways side by side:
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
#
# How much does the loop cost, compared with the same rows at once? The repository of this
# course holds a record of such measurements, for small networks on one thread of a CPU.
# This cell prints how many times as long the loop took as ``jacrev``:

import json
from pathlib import Path

path = Path("../../benchmarks/results/jacobian.json")
record = json.loads(path.read_text()) if path.exists() else {"cases": {}}
loop_to_jacrev = {}
for name in ("MLP 784->10", "MLP 500->500", "MLP 10->784"):
    if name in record["cases"]:  # a copy of this page without the record prints nothing
        ms = record["cases"][name]["milliseconds"]
        loop_to_jacrev[name] = ms["loop over rows"] / ms["jacrev"]
        print(f"{name}: {loop_to_jacrev[name]:.1f} times as long as jacrev")

# %%
# For ten rows there is little between the two. For the networks with hundreds of rows the
# loop took more than ten times as long, because it started every row from Python. On
# another machine the figures differ. :ref:`ways-measured` shows more of them, and lets
# you measure your own.
#
# The loop is still right in two cases. Side by side means that the intermediate results
# of all walks are in memory together. ``jacrev(f, chunk_size=100)`` takes a hundred at a
# time, and the loop holds one. And some functions are refused by ``torch.func`` or by
# ``vmap``, for example a BatchNorm in training mode, whose buffers would change. A few
# operations, such as an LSTM, have no rule for ``jacfwd``. The loop runs all of these.
#
# Our package adds one more function. It takes either the function or a computed ``y``.
# From the function it chooses between rows and columns by the number of each. From a
# computed ``y`` it takes rows:

from_function = pullback.jacobian(house, x)
from_result = pullback.jacobian(house(leaf), leaf).detach()
print(from_function)
print(from_result)

# %%
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
# of what each of them contributes, so we got ``[1, 1, 1] + [2, 4, 6]``. It is a
# ``v`` of ones in disguise. For two losses that you want to minimise together, this sum
# is what you need.
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
#
# .. dropdown:: Answer
#
#    ``cumsum`` adds up from the start: :math:`(x_0,\;x_0+x_1,\;x_0+x_1+x_2)`. So the rows
#    are ``[1, 0, 0]``, ``[1, 1, 0]`` and ``[1, 1, 1]``. With ``jacfwd`` the table is the
#    same. It takes three products as well, since there are three rows and three columns.
#
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

for ratio in loop_to_jacrev.values():
    assert ratio > 1
if loop_to_jacrev:
    assert min(loop_to_jacrev["MLP 500->500"], loop_to_jacrev["MLP 10->784"]) > 10
    assert loop_to_jacrev["MLP 784->10"] < 2

lower = torch.ones(3, 3).tril()
for way in (torch.func.jacrev, torch.func.jacfwd):
    assert torch.equal(way(lambda x: x.cumsum(0))(x), lower)
missing = wanted - house(x)
step = torch.linalg.pinv(J) @ missing
torch.testing.assert_close(J @ step, missing)
assert step.norm() < (step + torch.tensor([1.0, -2.0, 1.0])).norm()  # J sends this to 0

# %%
# **Next:** ``jacfwd`` builds the table by columns, and no ``v`` picks a column.
# :ref:`pushing-forward` shows what it uses instead.
