r"""
.. _two-meanings-of-dimension:

Two meanings of “dimension”: scalars, vectors, rows, columns, tensors
=====================================================================

A tutorial speaks of a vector of dimension 5, and PyTorch says that the ``dim()`` of the
same vector is 1. Who is right? Both are, because they count different things. In
mathematics the space :math:`\mathbb R^5` has dimension 5. In PyTorch, a tensor that holds
a vector of this space has *one* dimension, and the size of this dimension is 5.
Mathematics counts numbers, and PyTorch counts indices.
"""

# %%
# For a tensor, ``dim()`` is the number of indices, and ``shape`` lists their sizes.
# ``numel()`` is the number of entries, and this is the dimension that mathematics means:

import torch

x = torch.arange(5.0)
print("indices:", x.dim(), " shape:", tuple(x.shape), " numbers:", x.numel())

# %%
# The table below lists some objects of mathematics and their tensors. A vector has one
# index. A row and a column are matrices, and have two indices:

kinds = {
    "scalar in R": torch.tensor(3.0),
    "vector in R^4": torch.zeros(4),
    "row, 1×4 matrix": torch.zeros(1, 4),
    "column, 4×1 matrix": torch.zeros(4, 1),
    "matrix, 2×3": torch.tensor([[11, 12, 13], [21, 22, 23]]),
}
for name, t in kinds.items():
    print(f"{name:20} dim {t.dim()}  shape {tuple(t.shape)}  numbers {t.numel()}")

# %%
# The last entry of an :math:`m\times n` matrix is :math:`w_{m,n}`. The first index is the
# number of the row, and the second is the number of the column. Mathematics counts from 1
# and PyTorch from 0, and so :math:`w_{2,3}` is ``W[1, 2]``:

W = kinds["matrix, 2×3"]
W[1, 2]

# %%
# Even the word *tensor* has two spellings in code. A tensor is an object of the class
# :class:`torch.Tensor`, whereas :func:`torch.tensor` is a function that makes one:

print(type(W), type(torch.tensor))

# %%
# In PyTorch, a vector is neither a row nor a column. Transposing a vector changes nothing,
# whereas transposing a row turns it into a column. And you may multiply a vector by a
# matrix from either side:

A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
u = torch.tensor([1.0, 10.0])
print(u.t().shape, u.reshape(1, 2).t().shape)
print(A @ u, u @ A)

# %%
# Kinds of functions
# ------------------
#
# "Scalar" or "vector-valued" says what comes out of a function, and "univariate" or
# "multivariate" says what goes in. A *multi-valued* function is something else: it has
# several values for one input. The table shows an example of each of the four kinds:
#
# =============  =======================  =============================
# ..             univariate, one in       multivariate, n in
# =============  =======================  =============================
# scalar         :math:`x^2`              :math:`3x_1^2+5x_2^2`
# vector-valued  :math:`(-x^3,\,5x)`      :math:`(\sum x_i,\,\sum x_i^2)`
# =============  =======================  =============================
#
# The kind of function determines the shape of its :term:`Jacobian`, which is ``y.shape +
# x.shape``:

functions = {
    "x²": (lambda x: x**2, torch.tensor(1.0)),
    "3x₁² + 5x₂²": (lambda x: 3 * x[0] ** 2 + 5 * x[1] ** 2, torch.ones(2)),
    "(-x³, 5x)": (lambda x: torch.stack([-(x**3), 5 * x]), torch.tensor(1.0)),
    "(Σx, Σx²)": (lambda x: torch.stack([x.sum(), (x**2).sum()]), torch.ones(4)),
}
jacobians = {name: torch.func.jacrev(f)(x) for name, (f, x) in functions.items()}
for name, (f, x) in functions.items():
    shapes = [tuple(t.shape) for t in (f(x), x, jacobians[name])]
    print(f"{name:12} y {shapes[0]!s:5} x {shapes[1]!s:5} J {shapes[2]}")

# %%
# A function is not the same thing as its value. The function :math:`x^2` is scalar, but its
# value at five points has five entries. ``backward`` sees only the value, and so it asks
# for a ``v`` with five entries:

y = torch.linspace(-1, 1, 5, requires_grad=True) ** 2
try:
    y.backward()
except RuntimeError as error:
    print(tuple(y.shape), error)

# %%
# What goes wrong
# ---------------
#
# *Why is it called a vector when a matrix is required?* "Vector" is the word that
# mathematics uses. The ``v`` of a :term:`vector-Jacobian product` belongs to the space of
# the outputs, and this space has dimension ``y.numel()``. As a tensor, however, ``v`` has
# the shape of ``y``, whatever that is. If ``y`` is a ``(1, 1)`` matrix, a ``v`` with one
# index is refused, although both tensors hold one number:

y = torch.ones(1, 1, requires_grad=True) ** 2
try:
    y.backward(torch.ones(1))
except RuntimeError as error:
    print(error)

# %%
# :func:`pullback.explain` puts both vocabularies side by side. In the first three rows, the
# mathematical term comes before the dot and PyTorch's term after it:

import pullback

pullback.explain(torch.square, torch.arange(1.0, 6))

# %%
# As a check, we derive the four Jacobians by hand. They have the same shapes and the same
# entries as the Jacobians from PyTorch:

by_hand = {
    "x²": torch.tensor(2.0),
    "3x₁² + 5x₂²": torch.tensor([6.0, 10.0]),
    "(-x³, 5x)": torch.tensor([-3.0, 5.0]),
    "(Σx, Σx²)": torch.tensor([[1.0] * 4, [2.0] * 4]),
}
for name, (f, x) in functions.items():
    assert torch.equal(jacobians[name], by_hand[name])
    assert by_hand[name].shape == f(x).shape + x.shape

# %%
# Where next
# ----------
#
# For the order of rows and columns in the Jacobian, read :ref:`which-way-up`. To see what
# the two meanings imply for the shape of ``v``, read :ref:`shape-rule`.
#
# .. asked: dimension of a tensor; 1-d tensor or vector in 3-d space; scalar, vector,
#    matrix, tensor; row or column vector in PyTorch; ndim
# .. words: 1d, 2d, axis, length, column, row, ndim, size, confused, numpy, unsqueeze, shape
#    (3,) or (3, 1)
