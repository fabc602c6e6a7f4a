r"""
.. _two-meanings-of-dimension:

Two meanings of “dimension”: scalars, vectors, rows, columns, tensors
=====================================================================

In mathematics the space :math:`\mathbb R^5` has dimension 5; in PyTorch a tensor that
holds one of its vectors has *one* dimension, of size 5. Mathematics counts numbers,
PyTorch counts indices.
"""

# %%
# ``dim()`` is the number of indices, ``shape`` their sizes, ``numel()`` the number of
# entries, which is the dimension that mathematics means:

import torch

x = torch.arange(5.0)
print("indices:", x.dim(), " shape:", tuple(x.shape), " numbers:", x.numel())

# %%
# The sets of mathematics and their tensors. A vector has one index; a row and a column
# are matrices, with two:

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
# An :math:`m\times n` matrix ends in :math:`w_{m,n}`: row first, then column. Mathematics
# counts from 1 and PyTorch from 0, so :math:`w_{2,3}` is ``W[1, 2]``:

W = kinds["matrix, 2×3"]
W[1, 2]

# %%
# A tensor is an object of class :class:`torch.Tensor`; :func:`torch.tensor` is a function
# that makes one:

print(type(W), type(torch.tensor))

# %%
# A vector is neither a row nor a column. Transposing leaves it as it is, and it is
# multiplied by a matrix from either side:

A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
u = torch.tensor([1.0, 10.0])
print(u.t().shape, u.reshape(1, 2).t().shape)
print(A @ u, u @ A)

# %%
# Kinds of functions
# ------------------
#
# "Scalar" or "vector-valued" says what comes out, "univariate" or "multivariate" what
# goes in. (*Multi-valued* is another thing: several values for one input.)
#
# =============  =======================  =============================
# ..             univariate, one in       multivariate, n in
# =============  =======================  =============================
# scalar         :math:`x^2`              :math:`3x_1^2+5x_2^2`
# vector-valued  :math:`(-x^3,\,5x)`      :math:`(\sum x_i,\,\sum x_i^2)`
# =============  =======================  =============================
#
# The shape of the :term:`Jacobian`, ``y.shape + x.shape``, follows:

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
# A function and its value are different things, too. :math:`x^2` is scalar, yet its value
# at five points has five entries. ``backward`` sees only the value:

y = torch.linspace(-1, 1, 5, requires_grad=True) ** 2
try:
    y.backward()
except RuntimeError as error:
    print(tuple(y.shape), error)

# %%
# What goes wrong
# ---------------
#
# *Why is it called a vector when a matrix is required?* "Vector" is the mathematician's
# word: the ``v`` of a :term:`vector-Jacobian product` lives in the space of the outputs,
# of dimension ``y.numel()``, but as a tensor it has ``y``'s shape. One number in a
# ``(1, 1)`` matrix is not "one-dimensional" in the sense that counts here:

y = torch.ones(1, 1, requires_grad=True) ** 2
try:
    y.backward(torch.ones(1))
except RuntimeError as error:
    print(error)

# %%
# Both vocabularies side by side:

import pullback

pullback.explain(torch.square, torch.arange(1.0, 6))

# %%
# Derived by hand, the four Jacobians have the same shapes and entries:

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
# Which way up the Jacobian stands: :ref:`which-way-up`. What this means for the shape of
# ``v``: :ref:`shape-rule`.
#
# .. asked: dimension of a tensor; 1-d tensor or vector in 3-d space; scalar, vector,
#    matrix, tensor; row or column vector in PyTorch; ndim
