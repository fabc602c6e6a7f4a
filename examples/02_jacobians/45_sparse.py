r"""
.. _sparse-jacobian:

A sparse Jacobian from three products: colouring, the ones trick grown up
=========================================================================

If two columns of :math:`J` have no non-zero row in common, one product gives both.
A tridiagonal Jacobian needs three products, whatever its size.
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
# Columns 0, 3, 6 share no row, nor do 1, 4, 7, nor 2, 5, 8. Give columns that may be
# computed together the same *colour* (:term:`coloring`), here the remainder by three:

color = torch.arange(n) % 3
color

# %%
# The seeds are sums of one-hot tangents, one seed a colour. Each product is a sum of
# columns that do not overlap:

seeds = torch.stack([(color == c).float() for c in range(3)])
products = torch.stack([torch.func.jvp(f, (x,), (s,))[1] for s in seeds])
products

# %%
# Read the entries back: the entry in row ``i`` and column ``j`` stands in the product of
# ``j``'s colour, at ``i``:

rows, columns = [], []
for i in range(n):
    for j in range(max(i - 1, 0), min(i + 2, n)):
        rows.append(i)
        columns.append(j)
entries = products[color[columns], rows]
at = torch.tensor([rows, columns])
sparse = torch.sparse_coo_tensor(at, entries, (n, n), check_invariants=True)
print(sparse.to_dense().equal(J))

# %%
# The picture: every column in its colour. No row meets a colour twice:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.scatter(columns, rows, c=color[columns], s=180, marker="s", cmap="viridis")
ax.invert_yaxis()
ax.set_aspect("equal")
title = ax.set_title("A tridiagonal pattern in three colours, none twice in a row")

# %%
# The ones trick is one colour
# ----------------------------
#
# A diagonal Jacobian has columns that never share a row: one colour, one product, and the
# only seed is ``ones``. That is the :term:`ones trick`:

ones = torch.ones(n)
_, diagonal = torch.func.jvp(torch.square, (x,), (ones,))
print(diagonal)

# %%
# With rows in place of columns the same works with VJPs, and :math:`v=\mathbf 1` is what
# ``y.sum().backward()`` passes.
#
# What goes wrong
# ---------------
#
# Too few colours add entries of different columns together, without an error. Two
# colours for three diagonals mix the neighbours :math:`i-1` and :math:`i+1`:

two = torch.arange(n) % 2
_, mixed = torch.func.jvp(f, (x,), ((two == 0).float(),))
print("found: ", mixed[1::2])
print("wanted:", J[1::2, 0::2].diagonal())

# %%
# A pattern taken from one point may have accidental zeros: at :math:`x=0` this Jacobian is
# zero everywhere. Take the pattern from the code, or from a point without zeros:

print(
    torch.func.jacfwd(f)(torch.zeros(n)).count_nonzero().item(),
    J.count_nonzero().item(),
)

# %%
# A hundred thousand unknowns still take three products. Compare with the formula:

n = 100_000
x = torch.linspace(1, 2, n)
color = torch.arange(n) % 3
seeds = torch.stack([(color == c).float() for c in range(3)])
products = torch.stack([torch.func.jvp(f, (x,), (s,))[1] for s in seeds])
own = products[color, torch.arange(n)]
below = products[color[:-1], torch.arange(1, n)]
torch.testing.assert_close(own, 2 * x)
torch.testing.assert_close(below[:-1], x[2:])

# %%
# Where next
# ----------
#
# Blocks for samples, another pattern of zeros: :ref:`jacobian-per-sample`. Patterns of
# well-known layers: :ref:`seeing-jacobians`.
