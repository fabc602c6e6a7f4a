r"""
.. _one-jacobian-per-sample:

One Jacobian for each sample
============================

Four houses stand in our street, each with three stoves. Every house wants to burn one unit
of fuel less and to stay as warm as it is. From :ref:`hitting-targets` we know how to do
that with the table of a house. So we need four tables. How do we get them from a function
that takes all the houses at once, and what would they cost for a thousand houses?
"""

# %%
# The houses are the samples of a batch ``X`` of shape ``(4, 3)``, with a row for each
# house. The function treats each row by itself. It returns heat and fuel for each house,
# so its result has shape ``(4, 2)``. Let us first ask for *the* :term:`Jacobian` of all
# four houses together:

import torch


def street(X):
    return torch.stack([X.sum(1), (X**2).sum(1)], dim=1)


X = torch.tensor([[1.0, 2, 3], [2, 3, 2], [4, 1, 1], [1, 1, 5]])
full = torch.func.jacrev(street)(X)
full.shape

# %%
# The shape is that of the result, house and measurement, followed by that of ``X``, house
# and stove. Counting from 0, ``full[0, 1, 3, 2]`` says how the fuel of house 0 reacts to
# the last stove of house 3. It is 0, because one house has nothing to do with another. How
# many of the 96 entries can be different from zero? Four houses with a table of
# :math:`2\cdot3=6` entries each make 24:

print("entries:", full.numel(), " not zero:", full.count_nonzero().item())

# %%
# So we have got the four tables that we wanted, and twelve more that are full of zeros. In
# the flattened table, our four lie in blocks along the diagonal. For a batch of a thousand
# houses, only one entry in a thousand would be worth computing. Here the four houses have
# four tints, and what is empty is zero:

import pullback

rows = [f"{output} {b}" for b in range(4) for output in ("heat", "fuel")]
pullback.draw.dependence(full.reshape(8, 12), samples=4, rows=rows)

# %%
# Write the function for one sample
# ---------------------------------
#
# The clearest way out is to write the function for *one* house and take its Jacobian.
# ``torch.func.vmap`` then makes of it a function of a whole batch. It works on all rows at
# the same time, and its results come with the batch in front:


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


tables = torch.func.vmap(torch.func.jacrev(house))(X)
print(tables.shape)
tables[3]

# %%
# The shape is ``(4, 2, 3)``: a house, then its table. The last house has its third stove
# at 5, and accordingly the last entry of its table is 10.
#
# .. predict::
#    :label: pulls
#    :for: the number of pulls
#    :wrong: without vmap: This is the number for jacrev(street), one for each number of the
#          result. The houses can share a pull.;
#       houses: All houses share a pull: each has its 1 in the same v.;
#       stoves: This is the number of stoves, or columns. A pull brings a row.;
#       one pull: One pull brings one row of each table. A house has two outputs.;
#       one table: This is the number of entries in the table of a house. A pull brings a
#          whole row.;
#       four houses: Four houses or a thousand, all of them share a pull.;
#       street of four: This is the number for jacrev(street) with four houses.
#
#    For a thousand houses, ``jacrev(street)`` would take 2000 pulls, one for each number of
#    the result. How many does ``vmap(jacrev(house))`` take for them?

print("pulls:", tables.shape[1])

# %%
# Two, for four houses as for a thousand. As in :ref:`the-whole-jacobian`, a pull is one
# ``v`` that goes back through the whole function, and here the whole function is the
# street. In a pull of ``jacrev(street)`` there is a single 1, for one house, and zeros for
# all the others, and the zeros go back through the street as well. With ``vmap`` all houses
# have their 1 in the same ``v``: there is one ``v`` for the heat of all houses, and one for
# their fuel. Each pull costs as much as before. What we save is the pulls that carry zeros.
#
# Now every house can have its step. ``pinv`` takes a batch of tables as well. It returns
# four tables of shape ``(3, 2)``, and ``@`` multiplies each of them by what is missing:

missing = torch.tensor([0.0, -1.0])  # heat, fuel
steps = torch.linalg.pinv(tables) @ missing
steps.shape

# %%
# .. predict::
#    :expects: largest
#    :label: fuel above the target
#    :for: the house, counted from 0
#    :wrong: fuel before: It burns most, but its third stove is also far up, and a short
#          step saves much.;
#       first stove: Its first stove is up most, and a short step saves much there.;
#       least of all: Its stoves differ by as much as 2, so one can take over from another
#          at a lower price.
#
#    Each step should save one unit of fuel. But a table is right only near its own place,
#    so every house misses this target by a little. Here are the stoves of the four houses
#    again: ``[1, 2, 3]``, ``[2, 3, 2]``, ``[4, 1, 1]`` and ``[1, 1, 5]``. Which house stays
#    farthest above its target?

before, after = street(X), street(X + steps)
print("heat gained:", (after - before)[:, 0].round(decimals=4) + 0.0)
print("fuel above the target:", after[:, 1] - (before[:, 1] - 1))

# %%
# It is the second house, ``[2, 3, 2]``. Its stoves are nearly alike, so that none of them
# can take over from another at a much lower price. It needs the longest step, and on a long
# way the rates change most. All four houses are as warm as they were.
#
# Inside ``house`` there is no dimension for the batch. So ``sum()`` needs no ``dim``, and
# its argument holds one house only, which cannot look at another. Some functions ``vmap``
# refuses, with an error. It runs the function once for all houses, so no ``if`` may look at
# a value, which can be different from house to house. Nor may PyTorch draw random numbers
# in it, or write into a new tensor from ``torch.zeros``, which has room for one house only.
# (:ref:`answers-vmap` has a way out for each.)
#
# A network can stand in the place of ``house``, in ``eval()`` mode if it has layers such as
# Dropout. ``vmap`` hands it one sample of shape ``(3,)``, which linear layers take:

torch.manual_seed(0)  # any weights will do; the same ones in every run
network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
of_network = torch.func.vmap(torch.func.jacrev(network))(X)
of_network.shape

# %%
# If you only have the batched function
# -------------------------------------
#
# Sometimes you cannot take the function apart, and all you have is something like
# ``street``, which turns a batch into a batch. As long as it treats each sample by itself,
# two pulls are enough again. The trick is that of part 1 (:ref:`ones`), with
# one call for each output.
#
# .. predict::
#    :item: 2
#    :for: the row of house 2
#    :wrong: settings: These are the settings. The fuel rises at the rate of twice the
#          setting.;
#       heat: This is the row of the heat.;
#       all houses: Here the rows of all four houses are added up. Each keeps a row of its
#          own in X.grad.;
#       squares: These are the squares. The fuel rises at the rate of twice the setting.;
#       one before: This is the row of the second house. Counted from 0, house 2 is the
#          third.;
#       mean: This would be the row for the mean of the four. It was the sum.
#
#    We add up the fuel of all four houses, and take the gradient of this *sum* with respect
#    to ``X``. House 2 is the third one, with its stoves at 4, 1 and 1. Which three numbers
#    stand in its row?

leaf = X.clone().requires_grad_()  # a copy of X to start from
Y = street(leaf)
(fuel_rows,) = torch.autograd.grad(Y[:, 1].sum(), leaf, retain_graph=True)
fuel_rows

# %%
# It is ``[8, 2, 2]``, the fuel row of house 2 alone. The other houses are in the sum, but
# the stoves of house 2 change nothing in it but the fuel of house 2. So one pull has given
# us the fuel rows of all four houses. A second one gives the heat rows. Stacked, they are
# the four tables:

(heat_rows,) = torch.autograd.grad(Y[:, 0].sum(), leaf)
by_sums = torch.stack([heat_rows, fuel_rows], dim=1)
torch.equal(by_sums, tables)

# %%
# With ``batched=True``, the function of our package takes the first dimension for the
# samples, and does the same:

by_package = pullback.jacobian(street, X, batched=True)
torch.equal(by_package, tables)

# %%
# When the samples are not independent
# ------------------------------------
#
# Everything in the last section depends on "each sample by itself". Now the street has
# one supplier, and we ask which *share* of the total each house has. The function has to
# see all houses, so ``vmap`` cannot be used. And the sum?


def shares(X):
    Y = street(X)
    return Y / Y.sum(0)


(by_sum,) = torch.autograd.grad(shares(leaf)[:, 0].sum(), leaf)
all_shares = torch.func.jacrev(shares)(X)
own = all_shares[0, 0, 0]  # the share of house 0 in the heat, by its own three stoves
print(f"largest rate of house 0, by the sum: {by_sum[0].abs().max():.4f}")
print(f"in truth, of its own share:          {own.abs().max():.4f}")

# %%
# The sum gives zero, as it did for the shares of part 1 (:ref:`when-ones-mislead`). House
# 0 raises its own share, and lowers the other three shares by as much altogether. The sum
# adds up all four. Samples *mix* where an output of one depends on an input of another.
# Then only the full Jacobian of shape ``(4, 2, 4, 3)`` holds everything. For the effect of
# each house on itself, take the blocks on its diagonal.
#
# The most common function that mixes samples is BatchNorm in training. It normalises each
# sample with the mean of the whole batch. In ``eval()`` mode it uses the mean that it has
# collected, unless it was told to collect none, and the samples are independent again.
# :func:`pullback.mixing` tells whether a function mixes, beyond rounding, and
# ``pullback.jacobian`` with ``batched=True`` tests for it, and raises an error:

try:
    pullback.jacobian(shares, X, batched=True)
except ValueError as error:
    print(str(error).split(":")[0])

# %%
# Below are two houses of the street, and a table with two empty blocks. Can you move
# anything that fills them?

pullback.live(street, torch.tensor([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]))

# %%
# .. dropdown:: Answer
#
#    No. An entry of these blocks says how one house reacts to a stove of the other, and no
#    formula of a house contains the stoves of another.
#
# .. admonition:: Remember
#
#    - Call the number of samples ``B``, and let each have ``m`` outputs and ``n``
#      inputs. Then the Jacobian of the batch has shape ``(B, m, B, n)``. If the samples
#      are independent, at most one in every ``B`` entries can be different from zero.
#    - ``torch.func.vmap(torch.func.jacrev(f))(X)``, with ``f`` for one sample, gives
#      ``(B, m, n)`` from ``m`` pulls. In ``f``, no ``if`` may look at a value, nothing may
#      be drawn at random, and nothing written into a new tensor from ``torch.zeros``.
#    - For a batched function of independent samples, sum each output over the batch. The
#      gradients of the ``m`` sums hold all tables.
#    - If the samples look at one another, this sum adds up a sample's effects on all of
#      them.
#
# .. predict:: Try it
#    :expects: shape
#    :for: the shape
#    :wrong: both outputs: This is the shape with house and jacrev, which has both outputs.;
#       one house: This is the gradient of one house. vmap puts the batch in front.;
#       fuel of each: This is the fuel of each house. grad returns its gradient.;
#       one output kept: grad is for a function that returns a single number, and adds no
#          dimension for it.;
#       batch last: vmap puts the batch in front.;
#       whole batch: This is the whole Jacobian of the fuel, with the zeros between the
#          houses.
#
#    ``torch.func.grad`` is made for functions that return a single number, and returns
#    the gradient. In ``vmap(jacrev(house))(X)``, replace ``jacrev`` by ``grad`` and
#    ``house`` by ``lambda x: house(x)[1]``. What shape comes out, and what are the rows?
#
# .. dropdown:: Answer
#
#    The function returns one number, the fuel of a house. So there is a gradient of three
#    numbers for each of the four houses. The rows are the four fuel rows, ``2 * X``, the
#    same as ``fuel_rows`` above.

fuel_of_each = torch.func.vmap(torch.func.grad(lambda x: house(x)[1]))(X)
fuel_of_each.shape

# %%
# .. dropdown:: How we checked this page
#
#    The three ways have to give the blocks of the full Jacobian and the formula for the
#    house, and everything outside the blocks has to be zero. For the shares, the
#    sum must differ from the block.

formula = torch.stack([torch.ones(4, 3), 2 * X], dim=1)
blocks = torch.stack([full[b, :, b] for b in range(4)])
for way in (tables, by_sums, by_package, blocks):
    assert torch.equal(way, formula)
outside = full.clone()
for b in range(4):
    outside[b, :, b] = 0
assert outside.count_nonzero() == 0
assert full.count_nonzero() == 24

saved = street(X) - street(X + steps)
torch.testing.assert_close(saved[:, 0], torch.zeros(4), atol=1e-5, rtol=0)
assert (saved[:, 1] > 0.5).all()
assert (saved[:, 1] < 1).all()
assert saved[:, 1].argmin() == 1 == steps.norm(dim=1).argmax()
for b in range(4):
    torch.testing.assert_close(tables[b] @ steps[b], missing, atol=1e-5, rtol=0)

point, h = X.double(), 1e-6
nudge = torch.zeros_like(point)
nudge[0] = h
rate = (shares(point + nudge) - shares(point - nudge))[0, 0] / (2 * h)
torch.testing.assert_close(own.sum().double(), rate, rtol=1e-4, atol=0)
assert by_sum.abs().max() < 1e-6 < own.min()
assert (fuel_rows == 2 * X).all()

assert torch.equal(fuel_of_each, fuel_rows)
for b in range(4):
    torch.testing.assert_close(of_network[b], torch.func.jacrev(network)(X[b]))
assert pullback.mixing(torch.nn.BatchNorm1d(3), X)
assert not pullback.mixing(torch.nn.BatchNorm1d(3).eval(), X)
no_memory = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
assert pullback.mixing(no_memory, X)


def decides(x):
    return x**2 if x.sum() > 5 else x


def writes(x):
    y = torch.zeros(2)
    y[0], y[1] = house(x)
    return y


refused = 0
for refusing in (decides, torch.nn.Dropout(), writes):
    try:
        torch.func.vmap(torch.func.jacrev(refusing))(X)
    except RuntimeError:
        refused += 1
assert refused == 3

thousand = X.repeat(250, 1)
guesses = {  # wrong ones, of which the boxes above say what they are
    "without vmap": street(thousand).numel(),
    "houses": len(thousand),
    "stoves": tables.shape[2],
    "one pull": tables[:, :1].shape[1],
    "one table": tables[0].numel(),
    "fuel before": before[:, 1],
    "first stove": X[:, 0],
    "least of all": -before[:, 1],
    "settings": X[2],
    "heat": heat_rows[2],
    "all houses": fuel_rows.sum(0),
    "squares": X[2] ** 2,
    "one before": fuel_rows[1],
    "mean": fuel_rows[2] / 4,
    "both outputs": tables.shape,
    "one house": X[0].shape,
    "fuel of each": Y[:, 1].shape,
    "one output kept": tables[:, 1:].shape,
    "batch last": fuel_rows.T.shape,
    "whole batch": full[:, 1].shape,
    "four houses": len(X),
    "street of four": street(X).numel(),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** the zeros were in blocks here. They can be anywhere, and
# :ref:`a-jacobian-of-zeros` still gets by with a few pushes. (:ref:`jacobian-per-sample`
# has more about BatchNorm, and about what ``vmap`` refuses and what it does not see.)
#
# .. asked: batch Jacobian without a loop; Jacobian of a network with BatchNorm or
#    dropout; batch Jacobian; Jacobian per sample; Jacobian for each element of a batch;
#    vmap jacrev over a batch; Jacobian of shape (B, m, n); Jacobian with batch
#    dimension has zeros; how to get Jacobian per sample fast; matrix of derivatives for
#    every sample; Jacobian of each data point; avoid the big batch Jacobian
# .. words: per row, each item, minibatch, block diagonal, huge with zeros, vectorise over
#    samples, for loop over the batch, every example its own matrix, vmap
