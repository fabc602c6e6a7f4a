r"""
.. _by-hand:

The same number by hand, in NumPy and in PyTorch
================================================

You do not quite trust what ``backward`` computes, or you want to be sure that you have
understood it. To find out, compute one :term:`VJP` in three ways: derive :math:`J` and
multiply by hand, repeat the multiplication in NumPy, and call ``backward`` in PyTorch. You
get the same numbers each time. NumPy gives them as a row :math:`v^\top J`, and PyTorch in
the shape of ``x``.
"""

# %%
# Number to number
# ----------------
#
# Take :math:`f(x)=x^2` at 3. By hand, the :term:`Jacobian` is :math:`J=[2x]=[6]`, and so
# :math:`v^\top J=6v`. The product is 6 for :math:`v=1`, and 600 for :math:`v=100`. In
# NumPy we write ``v`` and ``J`` as 1×1 matrices:

import numpy as np

x = 3.0
J = np.array([[2 * x]])
for v in (1.0, 100.0):
    print(np.array([[v]]).T @ J)

# %%
# In PyTorch, ``x`` and ``y`` have shape ``()``, and so have ``v`` and the result:

import torch

x = torch.tensor(3.0, requires_grad=True)
for v in (1.0, 100.0):
    (product,) = torch.autograd.grad(x**2, x, torch.tensor(v))
    print(product)

# %%
# Vector to number
# ----------------
#
# Take :math:`f(x)=x_1+x_2`. By hand, :math:`J=[1\;\;1]`, and so :math:`v^\top J=(v,v)`. In
# NumPy the result is a row of shape ``(1, 2)``:

J = np.array([[1.0, 1.0]])
for v in (1.0, 100.0):
    print(np.array([[v]]).T @ J)

# %%
# In PyTorch the result has the shape of ``x``, which is ``(2,)``. PyTorch does not
# distinguish rows from columns, and nothing is transposed. ``v`` has the shape of ``y``:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in (1.0, 100.0):
    y = x.sum()
    (product,) = torch.autograd.grad(y, x, torch.tensor(v))
    print(product, tuple(y.shape), tuple(product.shape))

# %%
# Vector to vector
# ----------------
#
# Take :math:`f(x)=(x_1x_2,\;x_1+3x_2)` at :math:`(2,5)`, with :math:`v=(1,10)`. By hand,
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\1&3\end{bmatrix}
#    =\begin{bmatrix}5&2\\1&3\end{bmatrix},\qquad
#    v^\top J=1\,(5,2)+10\,(1,3)=(15,32)
#
# NumPy gives the same two numbers:

v = np.array([1.0, 10.0])
J = np.array([[5.0, 2.0], [1.0, 3.0]])
v @ J

# %%
# PyTorch gives them, too, with a ``v`` of shape ``(2,)``:


def f(x):
    return torch.stack([x[0] * x[1], x[0] + 3 * x[1]])


x = torch.tensor([2.0, 5.0], requires_grad=True)
f(x).backward(torch.tensor([1.0, 10.0]))
x.grad

# %%
# What goes wrong
# ---------------
#
# If you multiply from the wrong side, you get :math:`Jv`, which combines the *columns*.
# This is a :term:`JVP`, and its vector should be a :term:`tangent` in the shape of ``x``.
# Since our example has as many outputs as inputs, no shape gives the mistake away. Only the
# numbers, which should be 15 and 32, reveal the mistake:

J @ v

# %%
# There is also a difference between Python's builtin ``sum`` and ``x.sum()``. For a vector,
# both give the same value up to rounding, and the same product. But the builtin performs
# one addition for each entry, whereas ``x.sum()`` is one operation, as the names of the
# last nodes show. For a matrix, the builtin adds up the rows and does not return a number:

import builtins

for total in (builtins.sum(x), x.sum()):
    print(type(total.grad_fn).__name__, torch.autograd.grad(total, x)[0])
print(builtins.sum(torch.ones(3, 2)))

# %%
# A :math:`J` that you derived and typed in by hand can be wrong. So we compare each of
# its entries with :term:`finite differences` of a function in NumPy, and with PyTorch:


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
# :ref:`small-graph` computes the gradients of a graph with several operations by hand.
# :ref:`which-way-up` is about rows and columns, and the forms in which the product is
# written.
#
# .. asked: vjp by hand; compute in NumPy and PyTorch; check backward with NumPy
# .. words: numpy, verify, paper, dot, transpose, check
