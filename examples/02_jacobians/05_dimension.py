r"""
.. _two-meanings-of-dimension:

Two meanings of “dimension”: scalars, vectors, rows, columns, tensors
=====================================================================

In mathematics a vector of :math:`\mathbb R^5` has dimension 5; in PyTorch its tensor has
*one* dimension, of size 5. The first counts numbers, the second counts indices.
"""

# %%
# ``dim()`` is the number of indices, ``shape`` their sizes, ``numel()`` the number of
# entries. A :term:`vector-Jacobian product` needs all three words kept apart:

import torch

x = torch.arange(5.0)
print("indices:", x.dim(), " shape:", tuple(x.shape), " numbers:", x.numel())

# %%
# The sets of mathematics and their tensors. A vector has one index; a row and a column
# are matrices with two. An :math:`m\times n` matrix has last entry :math:`w_{m,n}`:

kinds = {
    "scalar in R": torch.tensor(3.0),
    "vector in R^4": torch.zeros(4),
    "row, 1×4 matrix": torch.zeros(1, 4),
    "column, 4×1 matrix": torch.zeros(4, 1),
    "matrix, 2×3": torch.zeros(2, 3),
}
for name, t in kinds.items():
    print(f"{name:20} dim {t.dim()}  shape {tuple(t.shape)}")

# %%
# A tensor is an object of class ``torch.Tensor``; ``torch.tensor`` is a function that
# makes one:

print(type(torch.tensor(3.0)), type(torch.tensor))

# %%
# A vector is neither a row nor a column: transposing leaves it as it is, and the product
# with a matrix works from both sides:

A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
u = torch.tensor([1.0, 10.0])
print(A @ u, u @ A)

# %%
# Kinds of functions
# ------------------
#
# "Scalar" or "vector-valued" says what comes out, "univariate" or "multivariate" what
# goes in. (*Multi-valued* is another thing: several values for one input.)
#
# ==================  =========================  ==============================
# ..                  one number in              n numbers in
# ==================  =========================  ==============================
# one number out      :math:`x^2`                :math:`3x_1^2+5x_2^2`
# m numbers out       :math:`(-x^3,\,5x)`        :math:`(\sum x_i,\,\sum x_i^2)`
# ==================  =========================  ==============================
#
# The shape of the Jacobian, ``y.shape + x.shape``, follows:

functions = {
    "x²": (lambda x: x**2, torch.tensor(1.0)),
    "3x₁² + 5x₂²": (lambda x: 3 * x[0] ** 2 + 5 * x[1] ** 2, torch.ones(2)),
    "(-x³, 5x)": (lambda x: torch.stack([-(x**3), 5 * x]), torch.tensor(1.0)),
    "(Σx, Σx²)": (lambda x: torch.stack([x.sum(), (x**2).sum()]), torch.ones(4)),
}
shapes = {}
for name, (f, x) in functions.items():
    shapes[name] = tuple(torch.func.jacrev(f)(x).shape)
    print(f"{name:12} y {tuple(f(x).shape)!s:5} x {tuple(x.shape)!s:5} J {shapes[name]}")

# %%
# A function and its value are different things, too: :math:`x^2` is scalar, but its value
# at five points is a tensor of shape ``(5,)``. ``backward`` sees only the value.
#
# What goes wrong
# ---------------
#
# Reading ``(1, 1)`` as "one-dimensional". It has two dimensions, and a ``v`` of shape
# ``(1,)`` is refused:

x = torch.ones(1, 1, requires_grad=True)
try:
    (x**2).backward(torch.ones(1))
except RuntimeError as error:
    print(error)

# %%
# Both vocabularies side by side:

import pullback

pullback.explain(torch.square, torch.zeros(1, 5))

# %%
# Numbers and indices, counted again by independent means:

for (f, x), shape in zip(functions.values(), shapes.values(), strict=True):
    m = len(f(x).flatten().tolist())
    n = len(x.flatten().tolist())
    assert torch.Size(shape).numel() == m * n
    assert len(shape) == f(x).dim() + x.dim()

# %%
# Where next
# ----------
#
# Which way up the Jacobian stands: :ref:`which-way-up`. What this means for the shape of
# ``v``: :ref:`shape-rule`.
