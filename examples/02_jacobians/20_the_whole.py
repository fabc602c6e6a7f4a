r"""
.. _the-whole-jacobian:

The whole Jacobian in one call
==============================

**Call** ``torch.func.jacrev`` **if your function has fewer outputs than inputs, and**
``torch.func.jacfwd`` **if it has fewer inputs.** Both return the whole :term:`Jacobian`.
This page says why the numbers decide, and names the cases in which you need something
else.
"""

# %%
# Here is the call for our house, with its two outputs and three inputs:

import torch
from torch.func import jacfwd, jacrev


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
table = jacrev(house)(x)
table

# %%
# ``jacrev(house)`` is a new function, which takes what ``house`` takes and returns the
# Jacobian. The second pair of brackets calls it at our settings.
#
# One product for each row
# ------------------------
#
# How does ``jacrev`` get the table? Part 1 has already done it with ``backward``. One
# walk back with one ``v`` computes ``v @ J``. That is one *vector-Jacobian product*, or
# pull, and from now on we count these products. A ``v`` with a single 1 gives one row,
# and the rows of ``torch.eye(2)`` are all such ``v``. So a loop builds the table. It
# runs the house once, and then takes one product for each output:

leaf = x.clone().requires_grad_()
y = house(leaf)
rows = [torch.autograd.grad(y, leaf, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.equal(torch.stack(rows), table)

# %%
# ``jacrev`` takes the same products, but side by side. It stacks the two ``v`` like two
# samples of a batch, and one walk back carries both. (We still count two products, one
# for each ``v``.) When there are hundreds of rows,
# this is usually much faster than a loop in Python (:ref:`ways-measured`). It also
# takes more memory, because the intermediate numbers of all rows are there together.
# *rev* stands for reverse, since the walk goes from the outputs back to the inputs.
#
# Its sister ``jacfwd`` goes *forward*, from the inputs to the outputs, and builds the
# table column by column, with one product of another kind, a *push*, for each column.
# The next page is about pushes. For our house it is two products against three:

import pullback

print(torch.equal(jacfwd(house)(x), table))
pullback.draw.cost(table)

# %%
# .. predict::
#    :expects: shape
#    :for: the shape of its Jacobian
#
#    A network takes a picture of 784 pixels to 10 scores. What shape does its Jacobian
#    have? And which of the two functions needs fewer products for it?

network = torch.nn.Sequential(torch.nn.Linear(784, 10), torch.nn.Softmax(dim=0))
picture = torch.zeros(784)
jacrev(network)(picture).shape

# %%
# There are ten rows and 784 columns, so ``jacrev`` takes 10 products and ``jacfwd`` would
# take 784. For a function from 3 dials to the temperatures of 5000 rooms it is the other
# way round: 5000 products or 3. This is the rule from the top of the page. If the two
# numbers are close and the time matters, measure both, because a product of one kind may
# cost more than one of the other.
#
# When you need something else
# ----------------------------
#
# All of these give the same table, up to rounding, so choosing is a matter of what you
# have:
#
# =============================================  =======================================
# your situation                                 what you call
# =============================================  =======================================
# fewer outputs than inputs                      ``jacrev(f)(x)``
# fewer inputs than outputs                      ``jacfwd(f)(x)``
# too little memory for all rows at once         ``jacrev(f, chunk_size=100)(x)``, which
#                                                takes a hundred rows at a time
# you have ``y``, but not the function           ``autograd.grad`` with all the ``v`` and
#                                                ``is_grads_batched=True``
# ``torch.func`` raises an error for your        the loop from above, or
# function, as for BatchNorm in training, which  ``autograd.functional.jacobian(f, x)``,
# updates its statistics on the way              which is that loop
# you do not want to choose                      ``pullback.jacobian(f, x)``, which counts
#                                                rows and columns for you
# =============================================  =======================================
#
# The last four of them on our house, with its three inputs and two outputs:

y = house(leaf)
(from_y,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
in_parts = jacrev(house, chunk_size=1)(x)
by_loop = torch.autograd.functional.jacobian(house, x)
chosen = pullback.jacobian(house, x)
all(torch.equal(way, table) for way in (from_y, in_parts, by_loop, chosen))

# %%
# What a list of outputs gives
# ----------------------------
#
# It is tempting to get all rows from one call of ``autograd.grad`` by passing a list of
# outputs.
#
# .. predict::
#    :for: what comes back
#
#    The next call gets both outputs of the house, heat and fuel, whose rows are
#    ``[1, 1, 1]`` and ``[2, 4, 6]``. What comes back?

heat, fuel = house(leaf)
torch.autograd.grad([heat, fuel], leaf)

# %%
# There is only one row, and it is neither of the two. A list of outputs means *the sum*
# of what each of them contributes, so we got ``[1, 1, 1] + [2, 4, 6]``. It is a ``v`` of
# ones in disguise. For two losses that you want to minimise together, this sum is what
# you need. For a table it is not, and no error tells you.
#
# The table below is computed row by row, with a ``v`` for each. Move a stove:

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]))

# %%
# .. admonition:: Remember
#
#    - One walk back with one ``v`` is one product, and gives one row if ``v`` has a
#      single 1.
#    - Fewer outputs than inputs: ``jacrev(f)(x)``, one product for each row. Fewer
#      inputs: ``jacfwd(f)(x)``, one product for each column.
#    - If you have only ``y``:
#      ``autograd.grad(y, x, torch.eye(n), is_grads_batched=True)``, for a ``y`` with
#      ``n`` numbers in one dimension.
#    - ``autograd.grad`` with a list of outputs returns the *sum* of their rows.
#
# .. predict:: Try it
#    :for: the table
#
#    ``x.cumsum(0)`` adds up from the start: its three entries are :math:`x_0`,
#    :math:`x_0+x_1` and :math:`x_0+x_1+x_2`. Its Jacobian is a table of zeros and ones.
#    Write it down as a list of three rows. How many products does it take with
#    ``jacrev``, and how many with ``jacfwd``?
#
# .. dropdown:: Answer
#
#    Each row has a 1 for every stove that was added up. There are three rows and three
#    columns, so both functions take three products.

jacrev(lambda x: x.cumsum(0))(x)

# %%
# .. dropdown:: How we checked this page
#
#    All ways have to give the table that we derived by hand. For a function with more
#    outputs than inputs they have to agree with one another.

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
functional = torch.autograd.functional.jacobian
found = [table, torch.stack(rows), from_y, in_parts, chosen, jacfwd(house)(x)]
found += [by_loop, functional(house, x, vectorize=True)]
found += [pullback.jacobian(house(leaf), leaf).detach()]
for way in found:
    assert torch.equal(way, J)
added = torch.autograd.grad(list(house(leaf)), leaf)[0]
assert torch.equal(added, torch.ones(2) @ J)


def wide(x):
    return torch.outer(x.sin(), x).flatten()


torch.testing.assert_close(jacrev(wide)(x), jacfwd(wide)(x))
torch.testing.assert_close(pullback.jacobian(wide, x), functional(wide, x))

norm = torch.nn.BatchNorm1d(3)
batch = torch.eye(3)
try:
    jacrev(norm)(batch)
except RuntimeError:
    refused = True
assert refused
assert functional(norm, batch).shape == (3, 3, 3, 3)  # the loop takes it

lower = torch.ones(3, 3).tril()
for way in (jacrev, jacfwd):
    assert torch.equal(way(lambda x: x.cumsum(0))(x), lower)

# %%
# **Next:** ``jacfwd`` builds the table by columns, and no ``v`` picks a column.
# :ref:`pushing-forward` shows what it uses instead.
#
# .. asked: full Jacobian of my model; jacrev or jacfwd; fastest way to get the Jacobian
#    matrix; torch.func.jacrev; torch.autograd.functional.jacobian; Jacobian of network
#    output; get all rows in one call; all derivatives at once; whole matrix of
#    derivatives; built-in function for the Jacobian; jacobian of net(x)
