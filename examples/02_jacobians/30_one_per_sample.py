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
# .. admonition:: Predict
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
# at 5, and accordingly the last entry of its table is 10. Inside ``house`` there is no
# batch dimension at all. This is why ``sum()`` needs no ``dim``, and why one house cannot
# look at another through its argument. (A tensor of the whole batch that the function
# takes from outside, such as ``X.sum(0)``, counts as a constant.)
#
# If you only have the batched function
# -------------------------------------
#
# A network usually comes as a function of the whole batch. As long as it treats each
# sample by itself, we can get all tables with as many products as *one* sample has
# outputs. For our street these are two products, and not eight.
#
# Take the heat of all houses and add it up. The stoves of house 3 change this sum only
# through the heat of house 3. So the gradient of the sum has, in each row, the heat row
# of that house. This is the trick with ones from part 1, once for each measurement:

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
# Everything in the last section depends on "each sample by itself". Suppose that the
# street has one supplier, and we ask which *share* of the total each house has, in heat
# and in fuel:


def shares(X):
    Y = street(X)
    return Y / Y.sum(0)


# %%
# .. admonition:: Predict
#
#    There were two ways to the tables: ``vmap`` over the function of one house, and the
#    trick with the sum. Which of them can you write down for ``shares``, and will its
#    numbers be the effect of each house on its own share?

(trick,) = torch.autograd.grad(shares(leaf)[:, 0].sum(), leaf)
own = torch.func.jacrev(shares)(X)[0, 0, 0]
print("by the sum:         ", trick[0].round(decimals=4) + 0.0)
print("house 0 on itself:  ", own)

# %%
# There is no function of one house that returns its share, because the total takes all of
# them, so ``vmap`` is out. The trick runs, but its numbers are not what we meant. The
# shares always add up to 1, so the gradient of their sum is zero up to rounding, for
# every stove of every house. But house 0 does change its own share: each of its stoves
# raises it at a rate of 0.03. The trick has added the effects on all four houses, and
# they cancel.
#
# The most common function of this kind is BatchNorm. In training mode it normalises each
# sample with the mean and variance of the whole batch. In ``eval()`` mode it uses the
# mean and variance that it has collected during training, and the samples are independent
# again. (With ``track_running_stats=False`` it collects none, and mixes the samples in
# ``eval()`` mode as well.) Our package tries a few products for such mixing, and refuses
# what they show:

try:
    pullback.jacobian(shares, X, batched=True)
except ValueError as error:
    print(error)

# %%
# A few products can miss mixing between a few samples. :func:`pullback.mixing` looks at
# all of them.
#
# When the outputs really depend on other samples, a small table for each house leaves
# something out, and only the full Jacobian of shape ``(4, 2, 4, 3)`` holds everything. If
# you only want the effect of each house on itself, take the blocks on its diagonal.
#
# .. admonition:: Remember
#
#    - Call the number of samples ``B``, and let each have ``m`` outputs and ``n`` inputs.
#      Then the Jacobian of the batch has shape ``(B, m, B, n)``. If the samples are
#      independent, at most one entry in ``B`` is not zero.
#    - ``torch.func.vmap(torch.func.jacrev(f))(X)``, with ``f`` for one sample, gives
#      ``(B, m, n)``.
#    - For a batched function of independent samples, sum each output over the batch:
#      ``m`` products give all tables.
#    - If the samples look at one another, this sum adds up a sample's effects on all of
#      them.
#
# .. admonition:: Try it
#
#    Replace the ``jacrev`` in ``torch.func.vmap(torch.func.jacrev(house))(X)`` by
#    ``torch.func.grad`` and ``house`` by ``lambda x: house(x)[1]``. Say first what shape
#    comes out, and what the rows are.
#
# .. dropdown:: Answer
#
#    The shape is ``(4, 3)``. The function returns one number, the fuel of a house, and
#    ``grad`` returns its gradient. So the rows are the four fuel rows, ``2 * X``, the
#    same as ``fuel_rows`` above.
#
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

fuel_of_each = torch.func.vmap(torch.func.grad(lambda x: house(x)[1]))(X)
assert torch.equal(fuel_of_each, fuel_rows)
outside_taken = torch.func.vmap(torch.func.jacrev(lambda x: x / X.sum(0)))(X)
assert torch.equal(outside_taken[0], torch.diag(1 / X.sum(0)))  # the sum as a constant

# %%
# **Next:** the zeros were in blocks here. They can be anywhere, and
# :ref:`a-jacobian-of-zeros` still gets by with a few products.
