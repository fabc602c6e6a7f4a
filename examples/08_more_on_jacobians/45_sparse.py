r"""
.. _sparse-jacobian:

A sparse Jacobian from three products: coloring, the ones trick grown up
========================================================================

Your :term:`Jacobian` is large and mostly zeros, and you do not want to take one product for
each of its columns. Put the columns into groups. If no two columns of a group have a
non-zero entry in the same row, one product gives all the columns of that group. A
tridiagonal Jacobian needs three products, whatever its size.
"""

# %%
# In our function each output depends on its own input and on the two neighbors of that
# input: :math:`y_i=x_i^2+x_{i-1}x_{i+1}`, with zeros beyond the ends. So :math:`\partial
# y_i/\partial x_i=2x_i` and :math:`\partial y_i/\partial x_{i\pm1}=x_{i\mp1}`, and
# everything else is zero:

import torch


def f(x):
    padded = torch.nn.functional.pad(x, (1, 1))
    return x**2 + padded[:-2] * padded[2:]


n = 9
x = torch.arange(1.0, n + 1)
J = torch.func.jacfwd(f)(x)
J

# %%
# Count the columns from 0. Columns 0, 3 and 6 never have non-zero entries in the same row.
# The same is true of columns 1, 4 and 7, and of columns 2, 5 and 8. Columns that may be
# computed together get the same *color*, and the choice of the colors is called a
# :term:`coloring`. In our example the color of a column is the remainder when
# its number is divided by three:

color = torch.arange(n) % 3
color

# %%
# The :term:`seeds <seed>` are sums of one-hot :term:`tangents <tangent>`, with one seed for
# each color. So each product is a sum of columns whose non-zero entries are in different
# rows. Compare the first row of the result with columns 0, 3 and 6 of the Jacobian above:

seeds = torch.stack([(color == c).float() for c in range(3)])
products = torch.stack([torch.func.jvp(f, (x,), (s,))[1] for s in seeds])
products

# %%
# Now we read the entries back. The entry in row ``i`` and column ``j`` is at position ``i``
# of the product for the color of column ``j``:

pairs = [(i, j) for i in range(n) for j in range(max(i - 1, 0), min(i + 2, n))]
rows, columns = torch.tensor(pairs).T
entries = products[color[columns], rows]
at = torch.stack([rows, columns])
sparse = torch.sparse_coo_tensor(at, entries, (n, n), check_invariants=True)
sparse.to_dense().equal(J)

# %%
# The picture shows the non-zero entries, each in the color of its column. No row contains
# a color twice:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.scatter(columns, rows, c=color[columns], s=180, marker="s", cmap="viridis")
ax.invert_yaxis()
ax.set_aspect("equal")
title = ax.set_title("A tridiagonal pattern in three colours: no row has one of them twice")

# %%
# With VJPs, and why this is the ones trick
# -----------------------------------------
#
# You can color the *rows* instead. Then ``v`` is the seed, and each of the three products
# is a sum of rows whose non-zero entries are in different columns. The entry in row ``i``
# and column ``j`` is at position ``j`` of the product for the color of row ``i``:

value, pull = torch.func.vjp(f, x)
(summed_rows,) = torch.func.vmap(pull)(seeds)
print(summed_rows)
print(summed_rows[color[rows], columns].equal(entries))

# %%
# *What is the fastest elementwise gradient?* No two rows of a diagonal Jacobian have a
# non-zero entry in the same column. So one color and one product are enough, and the only
# seed is a vector of ones. This is the :term:`ones trick`, and ``y.sum().backward()`` does
# the same:

leaf = x.clone().requires_grad_()
(leaf**2).backward(torch.ones(n))
leaf.grad

# %%
# Sometimes you need fewer products with rows than with columns. Suppose that a meter
# shows the total of five numbers, and beside it the squares of the last four. All five
# columns have a non-zero entry in the row of the total, so no two columns can share a
# product. But if the row of the total gets its own product, the other rows can share one:


def meter(t):
    return torch.cat([t.sum().reshape(1), t[1:] ** 2])


five = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
value, pull_meter = torch.func.vjp(meter, five)
total_row = pull_meter(torch.tensor([1.0, 0, 0, 0, 0]))[0]
other_rows = pull_meter(torch.tensor([0.0, 1, 1, 1, 1]))[0]
print("first row: ", total_row)
print("other rows:", other_rows)
of_meter = torch.func.jacrev(meter)(five)
assert torch.equal(total_row, of_meter[0])
assert torch.equal(other_rows[1:], of_meter.diagonal()[1:])

# %%
# What goes wrong
# ---------------
#
# If you take too few colors, entries of different columns are added together, without an
# error. With two colors for three diagonals, the entries for the neighbors :math:`i-1`
# and :math:`i+1` are added up. Each number in the first line of the output is the sum of
# two numbers that you want, which are in the second line:

two = torch.arange(n) % 2
_, mixed = torch.func.jvp(f, (x,), ((two == 0).float(),))
print("found: ", mixed[1::2])
print("wanted:", J[1::2, 0::2].diagonal(), "and", J[1::2, 2::2].diagonal())

# %%
# If you read the pattern off the Jacobian at one point, you may miss entries, because the
# Jacobian may have accidental zeros at that point. At :math:`x=0` our Jacobian is zero
# everywhere:

at_zero = torch.func.jacfwd(f)(torch.zeros(n))
print("non-zero:", at_zero.count_nonzero().item(), "and", J.count_nonzero().item())

# %%
# The pattern and the colors, found for you
# -----------------------------------------
#
# :func:`pullback.sparsity` does not read the pattern off a Jacobian. Instead, it follows
# which inputs each operation of ``f`` depends on. If ``f`` does not branch on values, this
# :term:`sparsity pattern` holds for every ``x`` of the same shape, even if you call
# ``sparsity`` at zero, as in this example:

import pullback

plan = pullback.sparsity(f, torch.zeros(n))
plan

# %%
# The method :meth:`~pullback.Sparsity.jacobian` of the plan takes the three products and
# reads the entries back:

planned = plan.jacobian(f, x)
planned.layout, planned.to_dense().equal(J)

# %%
# If you change a function later, its plan may no longer fit. If you pass ``verify=True``,
# you get an error in that case, at the price of one more product, with a random vector:


def outgrown(x):
    return f(x) + x[0]


try:
    plan.jacobian(outgrown, x, verify=True)
except RuntimeError as error:
    print(error)

# %%
# For some patterns, the number of products is small only if you use both :term:`VJPs <VJP>`
# and :term:`JVPs <JVP>`. The pattern below has a full row and a full column. Its Jacobian
# takes nine products if all of them are VJPs or all of them are JVPs, but only three if you
# combine one VJP with two JVPs:


def arrow(x):
    return torch.cat([(x**2).sum()[None], x[0] * x[1:] + x[1:] ** 2])


plan = pullback.sparsity(arrow, x)
planned = plan.jacobian(arrow, x)
print(planned.to_dense().equal(torch.func.jacrev(arrow)(x)))
plan

# %%
# With a hundred thousand inputs, the function ``f`` still takes three products. We compare
# all three diagonals with the formula, and print the number of colors:

n = 100_000
x = torch.arange(1.0, n + 1)
plan = pullback.sparsity(f, x)
i, j = plan.pattern.to_sparse_coo().indices()
entries = plan.jacobian(f, x).values()
torch.testing.assert_close(entries[i == j], 2 * x)
torch.testing.assert_close(entries[j == i + 1], x[:-2])
torch.testing.assert_close(entries[j == i - 1], x[2:])
plan.n_colors

# %%
# Below is the Jacobian of ``f``, the function from the start of this page, for six inputs.
# A ``v`` of ones adds up the entries of each column. Up to three entries of a column are
# not zero, and so you need three groups of rows to keep these entries apart:

pullback.live(f, torch.linspace(1, 6, 6))

# %%
# Where next
# ----------
#
# :ref:`jacobian-per-sample` is about another pattern of zeros, with a block for each
# sample. :ref:`seeing-jacobians` shows the patterns of well-known layers.
#
# .. asked: colouring; coloring; sparse Jacobian in three products; tridiagonal; banded
#    Jacobian; sparsity pattern
# .. words: seeds, group columns, compress, tridiagonal, structure, curtis powell reid,
#    recover
