r"""
.. _sparse-jacobian:

A sparse Jacobian from three products: colouring, the ones trick grown up
=========================================================================

If no two columns of a group have a non-zero entry in the same row, one product gives the
whole group. A tridiagonal :term:`Jacobian` needs three products, whatever its size.
"""

# %%
# Each output looks at its own input and its two neighbours:
# :math:`y_i=x_i^2+x_{i-1}x_{i+1}`, with zeros beyond the ends. So
# :math:`\partial y_i/\partial x_i=2x_i` and
# :math:`\partial y_i/\partial x_{i\pm1}=x_{i\mp1}`:

import torch


def f(x):
    padded = torch.nn.functional.pad(x, (1, 1))
    return x**2 + padded[:-2] * padded[2:]


n = 9
x = torch.arange(1.0, n + 1)
J = torch.func.jacfwd(f)(x)
J

# %%
# Counting from 0, columns 0, 3, 6 share no row, nor do 1, 4, 7, nor 2, 5, 8. Give columns
# that may be computed together the same *colour* (:term:`coloring`), here the remainder by
# three:

color = torch.arange(n) % 3
color

# %%
# The :term:`seeds <seed>` are sums of one-hot :term:`tangents <tangent>`, one seed a
# colour. Each product is a sum of columns that do not overlap:

seeds = torch.stack([(color == c).float() for c in range(3)])
products = torch.stack([torch.func.jvp(f, (x,), (s,))[1] for s in seeds])
products

# %%
# Read the entries back: the entry in row ``i`` and column ``j`` stands in the product of
# ``j``'s colour, at ``i``:

pairs = [(i, j) for i in range(n) for j in range(max(i - 1, 0), min(i + 2, n))]
rows, columns = torch.tensor(pairs).T
entries = products[color[columns], rows]
at = torch.stack([rows, columns])
sparse = torch.sparse_coo_tensor(at, entries, (n, n), check_invariants=True)
sparse.to_dense().equal(J)

# %%
# The picture: every column in its colour. No row meets a colour twice:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.scatter(columns, rows, c=color[columns], s=180, marker="s", cmap="viridis")
ax.invert_yaxis()
ax.set_aspect("equal")
title = ax.set_title("A tridiagonal pattern in three colours, none twice in a row")

# %%
# With VJPs, and why this is the ones trick
# -----------------------------------------
#
# Colour *rows* instead, and ``v`` is the seed: each of the three products is a sum of rows
# that do not overlap. The entry at ``i``, ``j`` stands in the product of ``i``'s colour, at
# ``j``:

value, pull = torch.func.vjp(f, x)
(summed_rows,) = torch.func.vmap(pull)(seeds)
print(summed_rows)
print(summed_rows[color[rows], columns].equal(entries))

# %%
# *What is the fastest elementwise gradient?* A diagonal Jacobian has rows that never share
# a column: one colour, one product, and the only seed is ones. That is the
# :term:`ones trick`, and what ``y.sum().backward()`` does:

leaf = x.clone().requires_grad_()
(leaf**2).backward(torch.ones(n))
leaf.grad

# %%
# What goes wrong
# ---------------
#
# Too few colours add entries of different columns together, without an error. Two
# colours for three diagonals mix the neighbours :math:`i-1` and :math:`i+1`:

two = torch.arange(n) % 2
_, mixed = torch.func.jvp(f, (x,), ((two == 0).float(),))
print("found: ", mixed[1::2])
print("wanted:", J[1::2, 0::2].diagonal(), "and", J[1::2, 2::2].diagonal())

# %%
# A pattern taken from one point may have accidental zeros: at :math:`x=0` this Jacobian is
# zero everywhere:

at_zero = torch.func.jacfwd(f)(torch.zeros(n))
print("non-zero:", at_zero.count_nonzero().item(), "and", J.count_nonzero().item())

# %%
# The pattern and the colours, found for you
# ------------------------------------------
#
# :func:`pullback.sparsity` follows which inputs each operation of ``f`` looks at. Where
# ``f`` does not branch on values, its :term:`sparsity pattern` holds for every ``x`` of
# this shape, also when it is found at zero:

import pullback

plan = pullback.sparsity(f, torch.zeros(n))
plan

# %%
# Its method :meth:`~pullback.Sparsity.jacobian` takes the three products and reads the
# entries back:

planned = plan.jacobian(f, x)
planned.layout, planned.to_dense().equal(J)

# %%
# ``verify=True`` notices a function that has outgrown its plan, by one more random product:


def outgrown(x):
    return f(x) + x[0]


try:
    plan.jacobian(outgrown, x, verify=True)
except RuntimeError as error:
    print(error)

# %%
# A full row and a full column: nine products of one kind, or a :term:`VJP` and two
# :term:`JVPs <JVP>`:


def arrow(x):
    return torch.cat([(x**2).sum()[None], x[0] * x[1:] + x[1:] ** 2])


plan = pullback.sparsity(arrow, x)
planned = plan.jacobian(arrow, x)
print(planned.to_dense().equal(torch.func.jacrev(arrow)(x)))
plan

# %%
# A hundred thousand unknowns still take three products. All three diagonals against the
# formula:

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
# Six outputs of that kind. Ones add up what stands in a column: three numbers, which is why
# three groups keep them apart:

pullback.live(f, torch.linspace(1, 6, 6))

# %%
# Where next
# ----------
#
# Blocks for samples, another pattern of zeros: :ref:`jacobian-per-sample`. Patterns of
# well-known layers: :ref:`seeing-jacobians`.
#
# .. asked: colouring; coloring; sparse Jacobian in three products; tridiagonal; banded
#    Jacobian; sparsity pattern
