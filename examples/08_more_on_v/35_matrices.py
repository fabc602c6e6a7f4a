r"""
.. _matrices:

Matrices in, matrices out
=========================

Nothing changes for matrices: ``v`` has ``y``'s shape, the result has ``x``'s, and the
:term:`VJP` sums over *all* the indices of ``y``.
"""

# %%
# Matrix in, number out. For :math:`y=\sum_{ij}x_{ij}^2` the :term:`gradient` is the matrix
# :math:`2x`, in ``x``'s shape ``(2, 2)``:

import torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(x**2).sum().backward()
x.grad

# %%
# An input of any shape gives a gradient of that shape; ``(2,)`` and ``(3, 2)`` here:

for shape in [(2,), (3, 2)]:
    x = torch.ones(shape, requires_grad=True)
    (3 * x).sum().backward()
    print(tuple(x.shape), "->", tuple(x.grad.shape))

# %%
# Matrix in, matrix out, elementwise: ``v`` has shape ``(2, 2)``, one weight for each
# entry of ``y``:

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
# Each entry's :term:`derivative` takes a :term:`one-hot vector`, here a one-hot matrix.
# Six entries, six products:

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
# *Must I loop over out[i, j].backward()?* For the sum of what they leave, no: ``.grad``
# adds up, and one ``backward`` with ones does the same. A loop keeps entries apart, in one
# result each, which matters where an input has a part in several of them:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
for out in (a * a, torch.outer(a[0], a[1])):
    a.grad = None
    for entry in out.flatten():
        entry.backward(retain_graph=True)
    looped, a.grad = a.grad, None
    out.backward(torch.ones_like(out))
    print(torch.equal(looped, a.grad))

# %%
# The entries come from one number, so a single :term:`JVP` gives them all:

powers = torch.arange(6.0).reshape(3, 2)
_, tangent = torch.func.jvp(lambda x: x**powers, (x.detach(),), (torch.ones(()),))
tangent

# %%
# A product that mixes rows and columns
# -------------------------------------
#
# :math:`Y=AX` has :math:`\partial Y_{ij}/\partial X_{kl}=A_{ik}\delta_{jl}`, with
# :math:`\delta_{jl}=1` for :math:`j=l` and 0 otherwise. Weighted by :math:`V_{ij}` and
# summed, :math:`\sum_{ij}V_{ij}A_{ik}\delta_{jl}=\sum_iA_{ik}V_{il}`, and that is
# :math:`A^\top V`:

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
# one entry for each of ``y``'s, written in ``y``'s shape. For :math:`y=xx^\top`, the
# :term:`outer product`, the result is a vector, not a matrix: both indices are summed.
# With ones, :math:`\sum_{ij}\partial(x_ix_j)/\partial x_k=2\sum_jx_j`:

x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
torch.outer(x, x).backward(torch.ones(4, 4))
x.grad

# %%
# A flat ``v`` with the right number of entries is refused all the same:

try:
    torch.outer(x, x).backward(torch.ones(16))
except RuntimeError as error:
    print(error)

# %%
# Check the results against the rules derived above, and the flat product against the
# one with the :term:`Jacobian` of :math:`AX`, flattened to a 12×8 matrix:

J = torch.func.jacfwd(lambda X: A @ X)(X.detach()).reshape(12, 8)
assert torch.equal(X.grad, A.T @ V)
assert torch.equal(X.grad.flatten(), V.flatten() @ J)
assert torch.equal(x.grad, 2 * x.detach().sum() * torch.ones(4))
torch.testing.assert_close(derivative, powers * 2.0 ** (powers - 1))
assert torch.equal(tangent, derivative)

# %%
# A matrix in and a matrix out, each written as a list of its entries. The picture is the
# same:

import pullback

left = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
pullback.live(lambda X: left @ X, torch.tensor([[1.0, 0.0], [2.0, 1.0]]))

# %%
# Where next
# ----------
#
# The Jacobian behind this, with its many indices: :ref:`tensor-jacobian`. All six
# products in one call: :ref:`batched-v`.
#
# .. asked: matrix output and backward; v is a matrix; backward on a 2d tensor; gradient
#    of a matrix product with v
#
# .. words: matmul, linear layer, 2d, weight gradient, transpose, G, AB
