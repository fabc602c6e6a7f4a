r"""
.. _one-jacobian-per-sample:

One Jacobian for each sample
============================

Each house in a street wants to burn one unit of fuel less and to stay as warm as it is. So
each needs its own table of rates, a :term:`Jacobian` for each sample of a batch. A thousand
houses have a thousand tables with two rows each, for heat and fuel. If one pull brings one
row, that makes 2000 pulls. How few would do?

We begin with four houses, get their tables with one call, and look at the Jacobian of the
whole street, which is nearly all zeros. At the end a network takes the place of the house,
and we ask for its tables in the same way.
"""

# %%
# Our samples are four houses, with three stoves each. We count both from 0, as Python does:
# houses 0, 1, 2 and 3, and stoves 0, 1 and 2. ``X`` has a row for each house, and ``house``
# takes one of these rows to heat and fuel. ``jacrev(house)`` is a function, too: give it
# one row, and it returns the Jacobian of that house. We could call it in a loop, once for
# each row. :term:`vmap` does so in one call, for all rows at the same time, and stacks the
# results:

import torch
from torch.func import jacrev, vmap


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


X = torch.tensor([[1.0, 2, 3], [2, 3, 2], [4, 1, 1], [1, 1, 5]])
tables = vmap(jacrev(house))(X)
print(tables.shape)
tables[3]

# %%
# The shape is ``(4, 2, 3)``: first the house, then its table of heat and fuel by stove.
# House 3 has its stove 2 at 5, so the last entry of its table is 10.
#
# The Jacobian of the whole batch
# -------------------------------
#
# Often the function takes a batch to a batch, as ``street`` does. It treats each row by
# itself, and returns heat and fuel for each of the four houses, in shape ``(4, 2)``. What
# does ``jacrev`` make of it?


def street(X):
    return torch.stack([X.sum(1), (X**2).sum(1)], dim=1)


full = jacrev(street)(X)
full.shape

# %%
# The shape is that of the result, house and measurement, followed by that of ``X``, house
# and stove. So ``full[0, 1, 3, 2]`` says how the fuel, measurement 1, of house 0 reacts to
# stove 2 of house 3. It is 0, because one house has nothing to do with another.
# Most of the entries are like this one:

print("entries:", full.numel(), " not zero:", full.count_nonzero().item())

# %%
# The 24 are our four tables, with six entries each. In the picture the Jacobian is
# flattened into a table with a row for each output. The four tables lie in blocks along
# the diagonal. Each house has a tint of its own, and what is empty is zero:

import pullback

rows = [f"{output} {b}" for b in range(4) for output in ("heat", "fuel")]
pullback.draw.dependence(full.reshape(8, 12), samples=4, rows=rows)

# %%
# What a thousand tables cost
# ---------------------------
#
# With a thousand houses, 999 of a thousand entries would be such zeros. The cost of a
# Jacobian is counted in pulls (:ref:`the-whole-jacobian`). In a pull, one ``v``, with
# a price for each number of the result, goes back through the whole street, and brings a
# :term:`vector-Jacobian product`.
#
# .. predict::
#    :label: pulls
#    :code:
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
#    For a thousand houses, ``jacrev(street)`` would take 2000 pulls, one for each number
#    of the result. Each has a single 1, for one house, and for all the other houses it
#    carries zeros back. How many pulls are enough for the thousand tables?

thousand = X.repeat(250, 1)
value, pull = torch.func.vjp(street, thousand)
found = []
for v in torch.eye(2):  # heat, then fuel
    of_each_house = v.expand(1000, 2)  # every house has the same prices
    found.append(pull(of_each_house)[0])
in_two = torch.stack(found, dim=1)
print("pulls:", len(found))
print("all tables:", torch.equal(in_two[:4], tables), tuple(in_two.shape))

# %%
# Two. In the first pull every house has the price 1 for its heat, and in the second
# every house has it for its fuel. The houses do not mix, so no house sees the prices of
# another. ``vmap(jacrev(house))`` takes the same two pulls as we did. There is one for each
# output of a sample, however many samples there are.
#
# Rows of two houses at once
# --------------------------
#
# In the picture are two of the houses. A column is named by its house and its stove, such
# as *house 0, 2*. ``v`` has a single 1. Which ``v`` shows the fuel rows of both houses at
# once? And can you see the heat row of house 0 beside the fuel row of house 1?

names = [f"house {b}, {k}" for b in (0, 1) for k in (0, 1, 2)]
first = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
pullback.live(street, X[:2], first, rows=rows[:4], columns=names)

# %%
# .. dropdown:: Answer
#
#    ``[0, 1, 0, 1]`` for the fuel rows, and ``[1, 0, 0, 1]`` for the mixed pair. In each
#    column only one house has numbers, so the rows of two houses never get added up.
#
# If you only have the batched function
# -------------------------------------
#
# Sometimes you cannot take the function apart, and all you have is something like
# ``street``. Then the two pulls are two gradients: that of the *sum* of all heats, and that
# of the sum of all fuels, for a sum gives each house the price 1. ``pullback.jacobian``
# with ``batched=True`` does the same:

leaf = X.clone().requires_grad_()  # a copy of X to start from
Y = street(leaf)
(heat_rows,) = torch.autograd.grad(Y[:, 0].sum(), leaf, retain_graph=True)
(fuel_rows,) = torch.autograd.grad(Y[:, 1].sum(), leaf)
by_sums = torch.stack([heat_rows, fuel_rows], dim=1)
by_package = pullback.jacobian(street, X, batched=True)
print(torch.equal(by_sums, tables), torch.equal(by_package, tables))

# %%
# The sums are right only if each sample is treated by itself. If one looks at another, they
# are wrong and no error is raised (see the box at the end of the page).
#
# A step for every house
# ----------------------
#
# What does each house do with its table? It wants one unit of fuel less, and the same heat.
# :ref:`hitting-targets` finds such a step for one house: ``pinv`` makes a table that leads
# back, from the changes that we want to the shortest step. Given all four tables, it
# returns four such tables, one for each house, of shape ``(4, 3, 2)``. Then ``@``
# multiplies each of the four by ``missing``, and each house gets a step of three numbers.
# This habit of ``@``, to go through a stack table by table, was a trap in
# :ref:`tensors-in-tensors-out`. Here it is what we want:

missing = torch.tensor([0.0, -1.0])  # heat, fuel
steps = torch.linalg.pinv(tables) @ missing
steps.shape

# %%
# .. predict::
#    :expects: largest
#    :label: fuel above the target
#    :for: the house, counted from 0
#    :wrong: fuel before: It burns most, but its stove 2 is also far up, and a short
#          step saves much.;
#       first stove: Its stove 0 is up most, and a short step saves much there.;
#       least of all: Its stoves differ by as much as 2, so one can take over from another
#          at a lower price.
#
#    Each step should save one unit of fuel. But a table is right only near its own place,
#    so every house misses this target by a little. Here are the stoves of the houses
#    0 to 3 again: ``[1, 2, 3]``, ``[2, 3, 2]``, ``[4, 1, 1]``, ``[1, 1, 5]``. Which stays
#    farthest above its target?

before, after = vmap(house)(X), vmap(house)(X + steps)
gained = (after - before)[:, 0].round(decimals=4)
print("heat gained:", gained + 0.0)  # which makes 0.0 of -0.0
print("fuel above the target:", after[:, 1] - (before[:, 1] - 1))

# %%
# It is house 1, ``[2, 3, 2]``. Its stoves are nearly alike, so that none of them can take
# over from another at a much lower price, and it needs the longest step of the four. By how
# much a house misses its target depends on the length of its step alone. A stove that goes
# from :math:`x` to :math:`x+s` burns :math:`x^2+2xs+s^2`. The table knows the
# :math:`2xs`, and not the :math:`s^2`. Added up over the stoves, the :math:`s^2` are the
# squared length of the step. All four houses are as warm as they were.
#
# A network of your own
# ---------------------
#
# Can you trust the table of a network? Suppose that a network has learned to predict heat
# and fuel of a house, and predicts them well. You take its table, and read in it how far to
# turn a stove down to save a unit of fuel. Will the house save it?
#
# .. dropdown:: The network, and how it was trained
#
#    It has a hidden layer of eight units and two outputs, heat and fuel. It is trained on
#    two hundred settings of the stoves, from 0 to 5, and on the heat and fuel of each.

torch.manual_seed(0)
settings = 5 * torch.rand(200, 3)
measured = vmap(house)(settings)
network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
for _ in range(300):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(network(settings), measured).backward()
    optimizer.step()

# %%
# Here is house 3, as the network sees it and as it is:

with torch.no_grad():
    print("fuel:", network(X)[3, 1].round(decimals=1), " true:", house(X[3])[1])

# %%
# .. predict::
#    :expects: choice
#    :wrong: It is right, too: Training has compared predictions, and never rates.;
#       It is too large: The network's curve is less steep here than that of the house.;
#       It is a little too small: It is much too small. Training has compared predictions,
#          and never rates.
#
#    The prediction for this house is right, to a tenth of a unit. Its stove 2 stands at 5,
#    so the fuel rises at a rate of 10 with this stove. What does the network's table say
#    about this rate?
#
#    - It is right, too
#    - It is too large
#    - It is a little too small
#    - It is half of what it should be

of_network = vmap(jacrev(network))(X).detach()  # the network in the place of the house
print("rates:", of_network[3, 1].round(decimals=1), " true:", tables[3, 1])

# %%
# For stove 2, the network's rate is half of what it is in the house. By its table,
# turning this stove down by 0.2 saves one unit of fuel. In the house it saves nearly two.
# Training has compared predictions, and never rates: two curves can meet in a point and
# have different slopes there. So before you act on the rates of a network, compare them
# with the true ones for a few samples, if you can, for example by moving an input a little
# in the real house.
#
# .. admonition:: Remember
#
#    - Take ``B`` samples with ``m`` outputs and ``n`` inputs each. If each sample is
#      treated by itself, the Jacobian of the batch, of shape ``(B, m, B, n)``, holds ``B``
#      tables and otherwise zeros.
#    - ``torch.func.vmap(torch.func.jacrev(f))(X)``, with ``f`` for one sample, gives the
#      tables, in shape ``(B, m, n)``, from ``m`` pulls.
#    - If you have only the batched function, sum each output over the batch. The gradients
#      of the ``m`` sums hold all tables.
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

fuel_of_each = vmap(torch.func.grad(lambda x: house(x)[1]))(X)
fuel_of_each.shape

# %%
# .. dropdown:: If one sample looks at another
#
#    The sums are right only if each sample is treated by itself. If the output of one
#    sample depends on the others, as in a share of a total or after BatchNorm in training,
#    the sum adds up what a sample does to all of them (:ref:`when-ones-mislead`). Below,
#    the sums say that the stoves of house 0 do nothing to its share of the heat, and in
#    truth they do. ``pullback.jacobian`` with ``batched=True`` tests for it at this ``X``,
#    and raises an error if it finds any.


def shares(X):
    Y = street(X)
    return Y / Y.sum(0)


(by_sum,) = torch.autograd.grad(shares(leaf)[:, 0].sum(), leaf)
own = jacrev(shares)(X)[0, 0, 0]  # of house 0, by its own three stoves
print(f"by the sum: {by_sum[0].abs().max():.4f}, in truth: {own.abs().max():.4f}")
try:
    pullback.jacobian(shares, X, batched=True)
except ValueError as error:
    print(str(error).split(":")[0])

# %%
# .. dropdown:: If ``vmap`` refuses your function
#
#    With ``vmap`` the function runs only once, for all samples together. An ``if`` has to
#    go one way, and the samples may need different ones. So an ``if`` that looks at a value
#    raises the error that you see below. With ``torch.where(x.sum() > 5, x**2, x)`` in the
#    place of the ``if``, it works. Linear layers take a single sample, of shape ``(3,)``. A
#    layer that wants a batch, such as ``Flatten()``, or BatchNorm in ``eval()``, gets one
#    with ``lambda x: network(x[None])[0]`` in the place of ``network``. Not every such
#    layer is refused, so compare the shape, and one sample. :ref:`answers-vmap` has the
#    other cases, such as Dropout in training.


def decides(x):
    return x**2 if x.sum() > 5 else x


try:
    vmap(jacrev(decides))(X)
except RuntimeError as error:
    print(str(error).split(". ")[0])

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
torch.testing.assert_close(1 - saved[:, 1], (steps**2).sum(1), atol=1e-5, rtol=0)
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
off = (network(X)[3] - house(X[3])).abs()
assert off[1] < 0.05  # right where the rates are not
assert 1.9 < tables[3, 1, 2] / of_network[3, 1, 2] < 2.1
assert 0.95 < 0.2 * of_network[3, 1, 2] < 1.05
turned = X[3] - torch.tensor([0.0, 0.0, 0.2])
assert 1.9 < (house(X[3]) - house(turned))[1] < 2
for b in range(4):
    torch.testing.assert_close(of_network[b], jacrev(network)(X[b]))
for wants_batch in (torch.nn.Flatten(), torch.nn.BatchNorm1d(3).eval()):
    try:
        vmap(jacrev(wants_batch))(X)
        alone = True
    except (IndexError, ValueError):
        alone = False
    assert not alone
    one_sample = lambda x, layer=wants_batch: layer(x[None])[0]
    of_layer = jacrev(wants_batch)(X)
    for b, own_block in enumerate(vmap(jacrev(one_sample))(X)):
        torch.testing.assert_close(own_block, of_layer[b, :, b])
assert pullback.mixing(torch.nn.BatchNorm1d(3), X)
assert not pullback.mixing(torch.nn.BatchNorm1d(3).eval(), X)
no_memory = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
assert pullback.mixing(no_memory, X)


def writes(x):
    y = torch.zeros(2)
    y[0], y[1] = house(x)
    return y


refused = 0
for refusing in (decides, torch.nn.Dropout(), writes):
    try:
        vmap(jacrev(refusing))(X)
    except RuntimeError:
        refused += 1
assert refused == 3
mended = vmap(jacrev(lambda x: torch.where(x.sum() > 5, x**2, x)))(X)
torch.testing.assert_close(mended, torch.stack([torch.diag(2 * x) for x in X]))
torch.testing.assert_close(in_two, tables.repeat(250, 1, 1))
_, pull = torch.func.vjp(street, X[:2])
mixed = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
assert torch.equal(pull(mixed)[0], torch.stack([tables[0, 0], tables[1, 1]]))

seen, true = of_network[3, 1, 2].item(), tables[3, 1, 2].item()
guesses = {  # wrong ones, of which the boxes above say what they are
    "It is right, too": abs(seen - true) < 0.05 * true,
    "It is too large": seen > 1.05 * true,
    "It is a little too small": 0.75 * true < seen <= 0.95 * true,
    "It is half of what it should be": 0.45 * true < seen < 0.55 * true,
    "without vmap": street(thousand).numel(),
    "houses": len(thousand),
    "stoves": tables.shape[2],
    "one pull": tables[:, :1].shape[1],
    "one table": tables[0].numel(),
    "fuel before": before[:, 1],
    "first stove": X[:, 0],
    "least of all": -before[:, 1],
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
# :ref:`a-jacobian-of-zeros` still gets by with a few pushes. :ref:`jacobian-per-sample`
# has more about BatchNorm, and about what ``vmap`` refuses and what it does not see.
#
# .. asked: batch Jacobian without a loop; Jacobian of a network with BatchNorm or
#    dropout; batch Jacobian; Jacobian per sample; Jacobian for each element of a batch;
#    vmap jacrev over a batch; Jacobian of shape (B, m, n); Jacobian with batch
#    dimension has zeros; how to get Jacobian per sample fast; matrix of derivatives for
#    every sample; Jacobian of each data point; avoid the big batch Jacobian
# .. words: per row, each item, minibatch, block diagonal, huge with zeros, vectorise over
#    samples, for loop over the batch, every example its own matrix, vmap
