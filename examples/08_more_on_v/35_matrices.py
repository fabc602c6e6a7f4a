r"""
.. _matrices:

Matrices in, matrices out
=========================

Your ``x`` or your ``y`` is a matrix, and a ":term:`vector-Jacobian product`" does not seem
to fit. What is ``v`` now? If ``y`` is a matrix, ``v`` is a matrix, too. The rule is the
same as for vectors: ``v`` has the shape of ``y``, and the result has the shape of ``x``.
The :term:`VJP` sums over *all* the indices of ``y``.
"""

# %%
# We begin with a matrix as the input and a number as the output. For
# :math:`y=\sum_{ij}x_{ij}^2`, the :term:`gradient` is the matrix :math:`2x`, in the shape
# of ``x``:

import torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x**2).sum().backward()
x.grad

# %%
# An input of any shape gets a gradient of that shape. Here are a vector and a matrix:

for shape in [(2,), (3, 2)]:
    x = torch.ones(shape, requires_grad=True)
    (3 * x).sum().backward()
    print(tuple(x.shape), "->", tuple(x.grad.shape))

# %%
# Now the output is a matrix as well, because the function is elementwise. ``v`` has shape
# ``(2, 2)``, with one weight for each entry of ``y``. We give the first entry the weight 1,
# the last entry the weight 10, and the others the weight 0:

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x**2).backward(torch.tensor([[1.0, 0.0], [0.0, 10.0]]))
x.grad

# %%
# Number in, matrix out
# ---------------------
#
# .. math::
#
#    y(x)=\begin{bmatrix}1&x\\x^2&x^3\\x^4&x^5\end{bmatrix}
#    \qquad
#    \frac{dy}{dx}=\begin{bmatrix}0&1\\2x&3x^2\\4x^3&5x^4\end{bmatrix}
#
# To get the :term:`derivative` of one entry, you need a :term:`one-hot vector`, which is a
# one-hot matrix here. ``y`` has six entries, and so we need six products:

from itertools import product

x = torch.tensor(2.0, requires_grad=True)
y = torch.stack([torch.ones(()), x, x**2, x**3, x**4, x**5]).reshape(3, 2)
derivative = torch.empty(3, 2)
for i, j in product(range(3), range(2)):
    v = torch.zeros(3, 2)
    v[i, j] = 1
    (derivative[i, j],) = torch.autograd.grad(y, x, v, retain_graph=True)
derivative

# %%
# *Must I loop over out[i, j].backward()?* That depends on what you want. If you want the
# gradient of each entry separately, you need several products, as above. If you want the
# sum of these gradients, one ``backward`` with ones gives the same result as the loop,
# because the loop adds all its gradients to ``.grad``. We compare the two for a function
# in which each entry has its own input, and for a function in which one input contributes
# to several entries:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
for out in (a * a, torch.outer(a[0], a[1])):
    a.grad = None
    for entry in out.flatten():
        entry.backward(retain_graph=True)
    looped, a.grad = a.grad, None
    out.backward(torch.ones_like(out))
    print(torch.equal(looped, a.grad))

# %%
# In the 3×2 example, all six entries of ``y`` are computed from one number. So a single
# :term:`JVP` gives all their derivatives:

powers = torch.arange(6.0).reshape(3, 2)
_, tangent = torch.func.jvp(lambda x: x**powers, (x.detach(),), (torch.ones(()),))
tangent

# %%
# A product that mixes rows and columns
# -------------------------------------
#
# In :math:`Y=AX`, each entry of the result depends on a whole column of X. The derivative
# is :math:`\partial Y_{ij}/\partial X_{kl}=A_{ik}\delta_{jl}`, with :math:`\delta_{jl}=1`
# for :math:`j=l` and 0 otherwise. The VJP multiplies this derivative by :math:`V_{ij}` and
# sums over i and j, :math:`\sum_{ij}V_{ij}A_{ik}\delta_{jl}=\sum_iA_{ik}V_{il}`. This is
# the matrix :math:`A^\top V`, in the shape of X:

A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
X = torch.ones(2, 4, requires_grad=True)
V = torch.arange(12.0).reshape(3, 4)
Y = A @ X
Y.backward(V)
print(tuple(X.shape), "->", tuple(Y.shape))
X.grad

# %%
# What goes wrong
# ---------------
#
# *Why is it called a vector when a matrix is required?* ``v`` stands for a vector with
# one entry for each entry of ``y``, and it is written in the shape of ``y``. The result
# is written in the shape of ``x``, and so it need not be a matrix either. For the
# :term:`outer product` :math:`y=xx^\top` the result is a vector, because ``x`` is a vector
# and both indices of ``y`` are summed over. With ones you get
# :math:`\sum_{ij}\partial(x_ix_j)/\partial x_k=2\sum_jx_j`:

x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
torch.outer(x, x).backward(torch.ones(4, 4))
x.grad

# %%
# A flat ``v`` is refused, even though it has the right number of entries:

try:
    torch.outer(x, x).backward(torch.ones(16))
except RuntimeError as error:
    print(error)

# %%
# We check the results with the rules that we derived above. For :math:`AX`, we also flatten
# the :term:`Jacobian` to a 12×8 matrix, multiply the flattened ``V`` by it, and compare the
# product with the flattened gradient:

J = torch.func.jacfwd(lambda X: A @ X)(X.detach()).reshape(12, 8)
assert torch.equal(X.grad, A.T @ V)
assert torch.equal(X.grad.flatten(), V.flatten() @ J)
assert torch.equal(x.grad, 2 * x.detach().sum() * torch.ones(4))
torch.testing.assert_close(derivative, powers * 2.0 ** (powers - 1))
assert torch.equal(tangent, derivative)

# %%
# Here is a matrix product to play with. X and Y are written as lists of their entries, so
# that the picture is the same as for vectors:

import pullback

left = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
pullback.live(lambda X: left @ X, torch.tensor([[1.0, 0.0], [2.0, 1.0]]))

# %%
# Where next
# ----------
#
# :ref:`tensor-jacobian` shows the Jacobian of such a function, with its many indices, and
# :ref:`batched-v` computes all six products in one call.
#
# .. asked: matrix output and backward; v is a matrix; backward on a 2d tensor; gradient
#    of a matrix product with v
# .. words: matmul, linear layer, 2d, weight gradient, transpose, G, AB
