r"""
.. _one-jacobian-per-sample:

One Jacobian for each sample
============================

Four houses stand in our street, and each has three stoves. We put their settings into one
batch, as one does in PyTorch, and want the table of each house. If we ask for *the*
:term:`Jacobian` of the batch, we get these four tables. We also get twelve more that are
full of zeros, and we pay for them.
"""

# %%
# The batch ``X`` has shape ``(4, 3)``, with a row for each house. The function treats
# each row by itself and returns heat and fuel for each house, so ``Y`` has shape
# ``(4, 2)``:

import torch


def street(X):
    return torch.stack([X.sum(1), (X**2).sum(1)], dim=1)


X = torch.tensor([[1.0, 2, 3], [2, 2, 2], [4, 1, 1], [1, 1, 5]])
full = torch.func.jacrev(street)(X)
full.shape

# %%
# This is ``Y.shape + X.shape``, as it should be: house and measurement, then house and
# stove. Two indices for houses is one too many. Counting from 0, the entry
# ``full[0, 1, 3, 2]`` says how the fuel of house 0 reacts to the last stove of house 3,
# and it is 0, because the two have nothing to do with each other.
#
# .. predict::
#    :label: not zero
#
#    How many of the 96 entries can be different from zero?

print("entries:", full.numel(), " not zero:", full.count_nonzero().item())

# %%
# There are four houses, and the table of each has :math:`2\cdot3=6` entries, which makes
# 24. In the flattened table they sit in blocks along the diagonal. For a batch of a
# thousand houses, only one entry in a thousand would be worth computing. Here the four
# houses have four tints, and what is empty is zero:

import pullback

rows = [f"{output} {b}" for b in range(4) for output in ("heat", "fuel")]
pullback.draw.dependence(full.reshape(8, 12), samples=4, rows=rows)

# %%
# Write the function for one sample
# ---------------------------------
#
# The clearest way out is to write the function for *one* house, take its Jacobian, and
# let ``vmap`` do that for every row of the batch:


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


tables = torch.func.vmap(torch.func.jacrev(house))(X)
print(tables.shape)
tables[3]

# %%
# The shape is ``(4, 2, 3)``: a house, then its table. The last house has its third stove
# at 5, and accordingly the last entry of its table is 10.
#
# Inside ``house`` there is no batch dimension at all. This is why ``sum()`` needs no
# ``dim``, and why one house cannot look at another through its argument. (A tensor of the
# whole batch that the function takes from outside, such as ``X.sum(0)``, counts as a
# constant.)
#
# What does it cost? Let us call one walk back through the *whole batch* one product.
# ``vmap`` needs two of them, one for heat and one for fuel, because all houses walk at
# the same time. In a street of a thousand houses there are still two, where
# ``jacrev(street)`` would take 2000.
#
# A network
# ---------
#
# A module is a function, too, so a network can stand in the place of ``house``.
# ``vmap`` hands it one sample at a time, of shape ``(3,)``, and linear layers take a
# sample without a batch dimension:

torch.manual_seed(0)  # any weights will do; the same ones in every run
network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
of_network = torch.func.vmap(torch.func.jacrev(network))(X)

# %%
# .. predict::
#    :expects: shape
#    :for: the shape of of_network
#
#    ``X`` holds four samples of three numbers, and the network returns two numbers for
#    each. What is the shape of ``of_network``?

of_network.shape

# %%
# If one of your layers insists on a batch dimension, as BatchNorm does in ``eval()`` mode,
# give it a batch of one: ``vmap(jacrev(lambda x: network(x[None])[0]))``. (In training
# mode BatchNorm refuses a batch of one, which has no variance.)
#
# If you only have the batched function
# -------------------------------------
#
# Sometimes you cannot take the function apart, and all you have is something that turns
# a batch ``X`` into a batch ``Y``. As long as it treats each sample by itself, two
# products are enough again, one for each output of a sample.
#
# Take the heat of all houses and add it up. The stoves of house 3 change this sum only
# through the heat of house 3. So row ``b`` of this gradient is the heat row of house
# ``b``. This is the trick with ones from part 1, once for each measurement:

leaf = X.clone().requires_grad_()
Y = street(leaf)
(heat_rows,) = torch.autograd.grad(Y[:, 0].sum(), leaf, retain_graph=True)
(fuel_rows,) = torch.autograd.grad(Y[:, 1].sum(), leaf)
by_sums = torch.stack([heat_rows, fuel_rows], dim=1)
print(fuel_rows)
by_sums.shape

# %%
# ``fuel_rows`` holds the fuel row of every house, ``2 * X``. Stacked at the second place,
# the rows make four tables of shape ``(2, 3)``. With ``batched=True``, the function of
# our package takes the first dimension for the samples, and does the same:

by_package = pullback.jacobian(street, X, batched=True)
by_package.shape

# %%
# When the samples are not independent
# ------------------------------------
#
# Everything in the last section depends on "each sample by itself". Now the street has
# one supplier, and we ask which *share* of the total each house has, in heat and in
# fuel:


def shares(X):
    Y = street(X)
    return Y / Y.sum(0)


# %%
# There is no function of one house that returns its share, because the total takes all of
# them. So ``vmap`` is out, and the trick with the sum is left.
#
# .. predict::
#    :label: by the sum
#    :for: three rates
#
#    We turn up a stove of house 0, and ask the trick how fast the house's share of the
#    heat rises. The trick looks at the sum of all four shares. What will it say for the
#    three stoves?

(trick,) = torch.autograd.grad(shares(leaf)[:, 0].sum(), leaf)
own = torch.func.jacrev(shares)(X)[0, 0, 0]
print("by the sum:         ", trick[0].round(decimals=4) + 0.0)
print("house 0 on itself:  ", own)

# %%
# The trick runs, but its numbers are not what we meant. The shares always add up to 1, so
# the gradient of their sum is zero up to rounding, for every stove of every house. But
# house 0 does change its own share: each of its stoves raises it at a rate of 0.03. The
# trick has added the effects on all four houses, and they cancel.
#
# The most common function of this kind is BatchNorm. In training mode it normalises each
# sample with the mean and variance of the whole batch. In ``eval()`` mode it uses the mean
# and variance that it has collected during training, and the samples are independent
# again. (With ``track_running_stats=False`` it collects none, and mixes the samples in
# ``eval()`` mode as well.) Our package tests for mixing with a few additional products,
# and raises an error if it finds any:

try:
    pullback.jacobian(shares, X, batched=True)
except ValueError as error:
    print(error)

# %%
# The message compares two numbers: the largest derivative of one house's outputs by
# *another* house's stoves, and the largest derivative of all. The one is 0.76 of the
# other, which is far more than rounding. Such a test can miss mixing between a few samples
# of a large batch. :func:`pullback.mixing` looks at every pair of samples.
#
# When the outputs really depend on other samples, a small table for each house leaves
# something out, and only the full Jacobian of shape ``(4, 2, 4, 3)`` holds everything. If
# you only want the effect of each house on itself, take the blocks on its diagonal.
#
# Two houses of the street, and a table with two empty blocks. Can you move anything that
# fills them?

pullback.live(street, torch.tensor([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]))

# %%
# .. admonition:: Remember
#
#    - Call the number of samples ``B``, and let each have ``m`` outputs and ``n``
#      inputs. Then the Jacobian of the batch has shape ``(B, m, B, n)``. If the samples
#      are independent, at most one in every ``B`` entries can be different from zero.
#    - ``torch.func.vmap(torch.func.jacrev(f))(X)``, with ``f`` for one sample, gives
#      ``(B, m, n)``.
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
#    house, and everything outside of the blocks has to be zero. For the shares, the trick
#    must differ from the block.

formula = torch.stack([torch.ones(4, 3), 2 * X], dim=1)
blocks = torch.stack([full[b, :, b] for b in range(4)])
for way in (tables, by_sums, by_package, blocks):
    assert torch.equal(way, formula)
outside = full.clone()
for b in range(4):
    outside[b, :, b] = 0
assert outside.count_nonzero() == 0
assert full.count_nonzero() == 24

point, h = X.double(), 1e-6
nudge = torch.zeros_like(point)
nudge[0] = h
rate = (shares(point + nudge) - shares(point - nudge))[0, 0] / (2 * h)
torch.testing.assert_close(own.sum().double(), rate, rtol=1e-4, atol=0)
assert trick.abs().max() < 1e-6 < own.min()
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

# %%
# **Next:** the zeros were in blocks here. They can be anywhere, and
# :ref:`a-jacobian-of-zeros` still gets by with a few products.
#
# .. asked: batch Jacobian; Jacobian per sample; Jacobian for each element of a batch;
#    vmap jacrev over a batch; Jacobian of shape (B, m, n); Jacobian with batch
#    dimension has zeros; how to get Jacobian per sample fast; matrix of derivatives for
#    every sample; Jacobian of each data point; avoid the big batch Jacobian
