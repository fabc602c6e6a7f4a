r"""
.. _by-hand:

The same number by hand, in NumPy and in PyTorch
================================================

One :term:`VJP` three ways: derive :math:`J` and multiply by hand, repeat it in NumPy,
and ask PyTorch. All give the same numbers, NumPy's as a row :math:`v^\top J` and
PyTorch's in the shape of ``x``.
"""

# %%
# Number to number
# ----------------
#
# :math:`f(x)=x^2` at 3. By hand: the :term:`Jacobian` is :math:`J=[2x]=[6]`, so
# :math:`v^\top J=6v`, which is 6 for :math:`v=1` and 600 for :math:`v=100`. In NumPy,
# ``v`` and ``J`` are 1×1 matrices:

import numpy as np

x = 3.0
J = np.array([[2 * x]])
for v in (1.0, 100.0):
    print(np.array([[v]]).T @ J)

# %%
# In PyTorch ``x`` and ``y`` have shape ``()``, and so have ``v`` and the result:

import torch

x = torch.tensor(3.0, requires_grad=True)
for v in (1.0, 100.0):
    (product,) = torch.autograd.grad(x**2, x, torch.tensor(v))
    print(product)

# %%
# Vector to number
# ----------------
#
# :math:`f(x)=x_1+x_2`. By hand: :math:`J=[1\;\;1]`, so :math:`v^\top J=(v,v)`. In NumPy the
# row has shape ``(1, 2)``:

J = np.array([[1.0, 1.0]])
for v in (1.0, 100.0):
    print(np.array([[v]]).T @ J)

# %%
# In PyTorch the result has ``x``'s shape ``(2,)``. PyTorch knows no rows or columns: ``v``
# is not transposed, it has ``y``'s shape:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in (1.0, 100.0):
    y = x.sum()
    (product,) = torch.autograd.grad(y, x, torch.tensor(v))
    print(product, tuple(y.shape), tuple(product.shape))

# %%
# Vector to vector
# ----------------
#
# :math:`f(x)=(x_1x_2,\;x_1+3x_2)` at :math:`(2,5)` with :math:`v=(1,10)`. By hand,
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\1&3\end{bmatrix}
#    =\begin{bmatrix}5&2\\1&3\end{bmatrix},\qquad
#    v^\top J=1\,(5,2)+10\,(1,3)=(15,32)

v = np.array([1.0, 10.0])
J = np.array([[5.0, 2.0], [1.0, 3.0]])
v @ J

# %%
# And PyTorch, with ``v`` of shape ``(2,)``:


def f(x):
    return torch.stack([x[0] * x[1], x[0] + 3 * x[1]])


x = torch.tensor([2.0, 5.0], requires_grad=True)
f(x).backward(torch.tensor([1.0, 10.0]))
x.grad

# %%
# What goes wrong
# ---------------
#
# Multiplying from the wrong side gives :math:`Jv`, a product with the *columns*, which
# is a :term:`JVP` and belongs to a :term:`tangent` of ``x``'s shape. Here :math:`m=n`,
# so nothing but the number tells:

J @ v

# %%
# Python's builtin ``sum`` on a vector gives the same value, up to rounding, and the same
# product, through one addition for each entry; ``x.sum()`` is one operation. Of a matrix
# the builtin adds up the rows:

import builtins

for total in (builtins.sum(x), x.sum()):
    print(type(total.grad_fn).__name__, torch.autograd.grad(total, x)[0])
print(builtins.sum(torch.ones(3, 2)))

# %%
# A :math:`J` derived and typed in by hand can be wrong. :term:`Finite differences
# <finite differences>` of NumPy's own function confirm each entry, and so does PyTorch:


def f_numpy(x):
    return np.array([x[0] * x[1], x[0] + 3 * x[1]])


point, h = np.array([2.0, 5.0]), 1e-6
columns = [(f_numpy(point + h * e) - f_numpy(point - h * e)) / (2 * h) for e in np.eye(2)]
np.testing.assert_allclose(np.array(columns).T, J, rtol=1e-8)
np.testing.assert_allclose(x.grad.numpy(), v @ J)
torch.testing.assert_close(torch.func.jacrev(f)(x.detach()).double(), torch.tensor(J))

# %%
# Where next
# ----------
#
# A graph of several operations by hand: :ref:`small-graph`. Rows, columns and the forms
# in which the product is written: :ref:`which-way-up`.
#
# .. asked: vjp by hand; compute in NumPy and PyTorch; check backward with NumPy
#
# .. words: numpy, verify, paper, dot, transpose, check
