r"""
.. _tensor-jacobian:

The Jacobian of a tensor by a tensor: y.shape + x.shape, and tensordot
======================================================================

For tensors of any shape the :term:`Jacobian` has shape ``y.shape + x.shape``, and the
:term:`VJP` is ``torch.tensordot(v, J, dims=y.ndim)``: all of ``y``'s indices are summed
over, all of ``x``'s remain.
"""

# %%
# :math:`Y=AX` with ``X`` of shape ``(2, 4)`` and ``Y`` of shape ``(3, 4)``. The Jacobian
# has four indices. With :math:`\delta_{jl}=1` where :math:`j=l` and 0 elsewhere,
#
# .. math::
#
#    Y_{ij}=\sum_kA_{ik}X_{kj},\qquad
#    J_{ijkl}=\frac{\partial Y_{ij}}{\partial X_{kl}}=A_{ik}\,\delta_{jl}

import torch

A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
X = torch.arange(8.0).reshape(2, 4)
J = torch.func.jacrev(lambda X: A @ X)(X)
J.shape

# %%
# Counting from 0, :math:`\partial Y_{21}/\partial X_{01}=A_{20}=5`. The derivative of the
# same output by an entry of another column is 0:

print(J[2, 1, 0, 1].item(), J[2, 1, 0, 3].item())

# %%
# The formula gives the whole array:

formula = torch.einsum("ik,jl->ijkl", A, torch.eye(4))
torch.equal(J, formula)

# %%
# The product
# -----------
#
# ``v`` has ``Y``'s shape. ``backward`` sums over both of its indices:
#
# .. math::
#
#    g_{kl}=\sum_{ij}v_{ij}\,J_{ijkl}

leaf = X.clone().requires_grad_()
v = torch.arange(12.0).reshape(3, 4)
(A @ leaf).backward(v)
leaf.grad

# %%
# ``tensordot`` with ``dims=2``, the number of ``v``'s indices, does the same:

torch.tensordot(v, J, dims=2)

# %%
# As a matrix
# -----------
#
# Flatten ``Y`` and ``X``, and the same numbers form an ordinary :math:`12\times8` matrix, a
# row for each entry of ``Y``. Here it is the Kronecker product :math:`A\otimes I_4`, each
# entry of ``A`` times an identity:

import pullback.plot

matrix = J.reshape(12, 8)
title = "Jacobian of A X, flattened: each entry of A along a diagonal of four"
ax = pullback.plot.heatmap(matrix, title=title)

# %%
# A flattened ``v``, as a row times that matrix, gives the product flattened. Put back into
# ``X``'s shape it is the same:

(v.flatten() @ matrix).reshape(X.shape)

# %%
# From the other side the matrix takes a flattened change of ``X`` to that of ``Y``, which
# is a :term:`JVP`:

step = torch.ones(2, 4)
moved = (matrix @ step.flatten()).reshape(3, 4)
torch.equal(moved, torch.func.jvp(lambda X: A @ X, (X,), (step,))[1])

# %%
# What goes wrong
# ---------------
#
# *The Jacobian of a (B, in) input is (B, out, B, in): a bug?* By design. ``y.shape +
# x.shape`` holds for batches, too, and the blocks between different samples are zero:

batch = torch.func.jacrev(lambda X: X @ A.T)(torch.ones(5, 2))
between = batch.movedim(2, 1)[~torch.eye(5, dtype=torch.bool)]
print(tuple(batch.shape), tuple(between.shape), between.count_nonzero().item())

# %%
# ``v @ J`` is another contraction: it sums over ``v``'s last index and ``J``'s last but
# one. Mostly the sizes do not match. Where they do, as for square matrices, the result has
# indices that should have been summed over:

try:
    v @ J
except RuntimeError as error:
    print(error)
(v[:2, :2] @ torch.func.jacrev(lambda X: A[:2] @ X)(X[:, :2])).shape

# %%
# The matrix, ``tensordot`` and ``backward`` agree with the product worked out by hand,
# :math:`\sum_{ij}v_{ij}A_{ik}\delta_{jl}=(A^\top v)_{kl}`:

assert torch.equal(leaf.grad, A.T @ v)
assert torch.equal(torch.tensordot(v, J, dims=2), A.T @ v)
assert torch.equal((v.flatten() @ matrix).reshape(X.shape), A.T @ v)
assert torch.equal(moved, A @ step)
assert torch.equal(matrix, torch.kron(A, torch.eye(4)))
assert torch.equal(pullback.jacobian(lambda X: A @ X, X), formula)

# %%
# Where next
# ----------
#
# Matrices without their Jacobians: :ref:`matrices`. Batches without the zeros:
# :ref:`jacobian-per-sample`.
#
# .. asked: tensor Jacobian; shape y.shape + x.shape; einsum of v and the Jacobian;
#    Jacobian of tensors of any shape
#
# .. words: einsum, contraction, 4d, axes, indices, reshape, matrix by matrix
