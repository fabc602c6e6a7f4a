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
# the last stove of house 3. It is 0, because the two have nothing to do with each other.
#
# .. predict::
#    :label: not zero
#    :for: how many entries
#    :also: depends on its own sample alone
#
#    How many of the 96 entries can be different from zero?

print("entries:", full.numel(), " not zero:", full.count_nonzero().item())

# %%
# There are four houses, and the table of each has :math:`2\cdot3=6` entries, which makes
# 24. So we have got the four tables that we wanted, and twelve more that are full of zeros.
# In the flattened table the four sit in blocks along the diagonal. For a batch of a
# thousand houses, only one entry in a thousand would be worth computing. Here the four
# houses have four tints, and what is empty is zero:

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
# at 5, and accordingly the last entry of its table is 10. ``pinv`` takes a batch of tables
# as well, and finds the step of each house. Did every house save one unit of fuel?

missing = torch.tensor([0.0, -1.0])  # heat, fuel
steps = torch.linalg.pinv(tables) @ missing
print("before:", street(X), sep="\n")
print("after:", street(X + steps), sep="\n")

# %%
# Every house is as warm as before. The fuel has come down in each, though by less than 1,
# since the rates change on the way. The second house saves least: its stoves are nearly
# alike, so that none of them can take over from another at a much lower price. It needs
# the longest step, and on a long way the rates change most.
#
# Inside ``house`` there is no dimension for the batch. So ``sum()`` needs no ``dim``, and
# its argument holds one house only, which cannot look at another. Some functions ``vmap``
# refuses, with an error.
#
# .. dropdown:: When ``vmap`` refuses
#
#    ``vmap`` runs the function once for all houses. So no line of it may decide by looking
#    at a value, as in ``if x[0] > 5``, which can be true for one house and false for
#    another. At such a line it raises an error, and also where numbers are drawn at random.
#
#    It raises one, too, where results are written into a tensor from ``torch.zeros(2)``.
#    Both ``torch.zeros(2)`` and ``x.new_zeros(2)`` say 2. But ``torch.zeros`` knows nothing
#    of ``x``, and makes two places, which are enough for one house. ``new_zeros`` is called
#    on ``x``, of which there is one for each house. So ``vmap`` gives each house two places
#    of its own, and with ``x.new_zeros(2)`` the function runs.
#
#    A network is handed one sample without a dimension for the batch. Linear layers take
#    it. Layers that insist on that dimension, such as Flatten, get a batch of one:
#    ``lambda x: network(x[None])[0]``. For GRU ``vmap`` raises an error on the CPU, see
#    :ref:`per-sample-gradients-of-an-rnn`. There the sums over the batch work, which come
#    further down on this page.
#
# .. dropdown:: What ``vmap`` does not see
#
#    If ``house`` used ``X.sum(0)``, with the ``X`` of the whole program instead of its own
#    argument, it would run, although the houses now look at one another. But ``jacrev``
#    asks only what happens when the *argument* changes. ``X.sum(0)`` counts as a constant,
#    and that part is missing from the tables.
#
# What does it cost? As in :ref:`the-whole-jacobian`, one product is one ``v`` that goes
# back through the whole function, and here the whole function is the street.
# ``jacrev(street)`` takes one product for each number of the result, which makes eight.
# Each ``v`` has a single 1 for one house, and zeros for the other three, and the zeros go
# back through the street as well. With ``vmap`` all houses have their 1 in the same ``v``:
# there is one ``v`` for the heat of all houses, and one for their fuel. So it takes two
# products. For a thousand houses it still takes two, and ``jacrev(street)`` would take
# 2000, each as much work as one of the two. What we save is the work with zeros.
#
# A network can stand in the place of ``house``, in ``eval()`` mode if it has layers such as
# Dropout. ``vmap`` hands it one sample of shape ``(3,)``, and linear layers take a sample
# without a dimension for the batch.

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
# two products are enough again.
#
# .. predict::
#    :item: 2
#    :for: the row of house 2
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
# they do not react to its stoves, which change the sum only through the fuel of house 2. So
# one product has given us the fuel rows of all four houses. A second one gives the heat
# rows, and stacked they are the four tables:

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
# see all houses, so ``vmap`` cannot be used. Here is what the sum does:


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
# 0 raises its own share, and lowers the other three by as much altogether. The sum adds up
# all four. Samples *mix* where an output of one depends on an input of another. Then only
# the full Jacobian of shape ``(4, 2, 4, 3)`` holds everything. For the effect of each house
# on itself, take the blocks on its diagonal.
#
# If you are not sure whether a function mixes, :func:`pullback.mixing` tells which samples
# mix, and how much. ``pullback.jacobian`` with ``batched=True`` tests for it with a few
# additional products, and raises an error.
#
# .. dropdown:: The error, and what the test does not see
#
#    The message for our shares stands below. Its last sentence speaks of products with
#    random weights. In each product of the test, some houses get prices
#    for their outputs, drawn at random, and the others get none. If no house looked at
#    another, the stoves of a house without prices would earn nothing. Here they do earn
#    something, and the message calls this *what mixes*. The most that one of them earns is
#    0.94 times the most that any stove earns, so it is nearly as much.
#
#    If a stove whose house has no price earned less than the rounding error of the largest
#    number, or hardly more, the test could not tell this from rounding, and would let it
#    pass.

try:
    pullback.jacobian(shares, X, batched=True)
except ValueError as error:
    print(error)

# %%
# .. dropdown:: BatchNorm mixes samples in training
#
#    BatchNorm is the most common function that mixes samples. In training mode it
#    normalises each sample with the mean and variance of the whole batch. In ``eval()``
#    mode it uses the mean and variance that it has collected during training, and the
#    samples are independent again. With ``track_running_stats=False`` it collects none, and
#    so it mixes the samples in ``eval()`` mode as well.
#
#    BatchNorm insists on a dimension for the batch, and ``vmap`` takes it away. In
#    ``eval()`` mode, give it a batch of one:
#    ``vmap(jacrev(lambda x: network(x[None])[0]))``.
#
#    In training mode a batch of one is of no use. Suppose that a sample is a row of
#    numbers, as our houses are. BatchNorm wants the variance of each column, and a single
#    number has none, so it raises an error. For an image it raises another one, because it
#    would have to update what it has collected, and under ``vmap`` or ``jacrev`` it cannot.
#    With ``track_running_stats=False`` it runs, and normalises each image with the image's
#    own mean. In a batch it would have used the mean of all the images, so the table is
#    that of another function.
#
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
#      ``(B, m, n)``. In ``f``, no ``if`` may look at a value, nothing may be drawn at
#      random, and nothing written into a new tensor from ``torch.zeros``.
#    - For a batched function of independent samples, sum each output over the batch. The
#      gradients of the ``m`` sums hold all tables.
#    - If the samples look at one another, this sum adds up a sample's effects on all of
#      them.
#
# .. predict:: Try it
#    :expects: shape
#    :for: the shape
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
outside_taken = torch.func.vmap(torch.func.jacrev(lambda x: x / X.sum(0)))(X)
assert torch.equal(outside_taken[0], torch.diag(1 / X.sum(0)))  # the sum as a constant

for b in range(4):
    torch.testing.assert_close(of_network[b], torch.func.jacrev(network)(X[b]))
norm = torch.nn.BatchNorm1d(3).eval()
in_batches_of_one = torch.func.vmap(torch.func.jacrev(lambda x: norm(x[None])[0]))(X)
assert in_batches_of_one.shape == (4, 3, 3)
refused = 0
for refusing, sample in ((norm, X[0]), (torch.nn.BatchNorm1d(3), X[:1])):
    try:
        refusing(sample)  # no batch; a batch of one in training mode
    except ValueError:
        refused += 1
assert refused == 2
no_memory = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
assert pullback.mixing(no_memory, X)
for_images, picture = torch.nn.BatchNorm2d(3), torch.randn(1, 3, 4, 4)
assert for_images(picture).shape == picture.shape  # a batch of one image
try:
    torch.func.vmap(torch.func.jacrev(lambda x: x**2 if x.sum() > 5 else x))(X)
except RuntimeError:
    refused += 1
assert refused == 3


def written(x, y):
    y[0], y[1] = house(x)
    return y


each = lambda f: torch.func.vmap(torch.func.jacrev(f))
image_of_one = lambda norm: lambda x: norm(x[None])[0]
images, kept = torch.randn(4, 3, 2, 2), torch.nn.BatchNorm2d(3)
gru = torch.nn.GRU(3, 2)
for refusing, samples in (
    (lambda x: written(x, torch.zeros(2)), X),
    (torch.nn.Dropout(), X),
    (lambda x: gru(x)[0], torch.randn(4, 5, 3)),
    (image_of_one(kept), images),
):
    try:
        each(refusing)(samples)
    except RuntimeError:
        refused += 1
try:
    torch.func.jacrev(image_of_one(kept))(images[0])
except RuntimeError:
    refused += 1
assert refused == 8
assert torch.equal(each(lambda x: written(x, x.new_zeros(2)))(X), tables)
forgetful = torch.nn.BatchNorm2d(3, track_running_stats=False)
assert each(image_of_one(forgetful))(images).shape == (4, 3, 2, 2, 3, 2, 2)
alone = torch.func.vmap(image_of_one(forgetful))(images)
torch.testing.assert_close(alone.mean((2, 3)), torch.zeros(4, 3), atol=1e-5, rtol=0)
assert not torch.allclose(alone, forgetful(images), atol=0.01)
series = torch.randn(2, 4, 3, requires_grad=True)  # two steps in time, four samples
of_gru = torch.autograd.grad(gru(series)[0][-1, :, 0].sum(), series)[0]
for b in range(4):
    own = torch.autograd.grad(gru(series[:, b])[0][-1, 0], series)[0][:, b]
    torch.testing.assert_close(of_gru[:, b], own)


def barely(X):
    return X + 1e-6 * X.sum(0)


unnoticed = pullback.jacobian(barely, X, batched=True)
assert torch.allclose(unnoticed, torch.eye(3).expand(4, 3, 3), atol=1e-5)
assert not pullback.mixing(norm, X)

# %%
# **Next:** the zeros were in blocks here. They can be anywhere, and
# :ref:`a-jacobian-of-zeros` still gets by with a few products.
#
# .. asked: batch Jacobian without a loop; Jacobian of a network with BatchNorm or
#    dropout; batch Jacobian; Jacobian per sample; Jacobian for each element of a batch;
#    vmap jacrev over a batch; Jacobian of shape (B, m, n); Jacobian with batch
#    dimension has zeros; how to get Jacobian per sample fast; matrix of derivatives for
#    every sample; Jacobian of each data point; avoid the big batch Jacobian
# .. words: per row, each item, minibatch, block diagonal, huge with zeros, vectorise over
#    samples, for loop over the batch, every example its own matrix, vmap
