r"""
.. _tensor-jacobian:

The Jacobian with respect to a tensor: y.shape + x.shape, and tensordot
=======================================================================

``x`` and ``y`` are matrices, or tensors with even more indices, and you ask for the
:term:`Jacobian`. The result has the shape ``y.shape + x.shape``. How do you multiply ``v``
by a tensor of this shape? The :term:`VJP` is ``torch.tensordot(v, J, dims=y.ndim)``. It
sums over all indices of ``y``, and the indices of ``x`` remain.
"""

# %%
# Take :math:`Y=AX`, where ``X`` has shape ``(2, 4)`` and ``Y`` has shape ``(3, 4)``. The
# Jacobian has four indices. With :math:`\delta_{jl}=1` if :math:`j=l`, and 0 otherwise,
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
# We look at two of its entries, counting from 0. The first is :math:`\partial
# Y_{21}/\partial X_{01}=A_{20}=5`. The second, the derivative of the same output with
# respect to an entry in another column, is 0:

print(J[2, 1, 0, 1].item(), J[2, 1, 0, 3].item())

# %%
# The formula above gives the whole array:

formula = torch.einsum("ik,jl->ijkl", A, torch.eye(4))
torch.equal(J, formula)

# %%
# The product
# -----------
#
# ``v`` has the shape of ``Y``. ``backward`` sums over both indices of ``Y``, and leaves the
# two indices of ``X``:
#
# .. math::
#
#    g_{kl}=\sum_{ij}v_{ij}\,J_{ijkl}

leaf = X.clone().requires_grad_()
v = torch.arange(12.0).reshape(3, 4)
(A @ leaf).backward(v)
leaf.grad

# %%
# ``tensordot`` computes the same product. Its argument ``dims`` is the number of indices to
# sum over, which is 2 because ``v`` has two indices:

torch.tensordot(v, J, dims=2)

# %%
# As a matrix
# -----------
#
# If you flatten ``Y`` and ``X``, the same numbers form an ordinary :math:`12\times8`
# matrix, with one row for each entry of ``Y``. For our function the matrix is the Kronecker
# product :math:`A\otimes I_4`, in which each entry of ``A`` is multiplied by an identity
# matrix:

import pullback.plot

matrix = J.reshape(12, 8)
title = "Jacobian of A X, flattened: each entry of A along a diagonal of four"
ax = pullback.plot.heatmap(matrix, title=title)

# %%
# Now the flattened ``v`` is a row, and you can multiply it by the matrix. If you give the
# result the shape of ``X``, you get the same product as before:

(v.flatten() @ matrix).reshape(X.shape)

# %%
# If you multiply the matrix from the other side, by a flattened change of ``X``, you get
# the change of ``Y``. This is a :term:`JVP`:

step = torch.ones(2, 4)
moved = (matrix @ step.flatten()).reshape(3, 4)
torch.equal(moved, torch.func.jvp(lambda X: A @ X, (X,), (step,))[1])

# %%
# What goes wrong
# ---------------
#
# *The Jacobian of a (B, in) input is (B, out, B, in): a bug?* No. The rule that the shape
# is ``y.shape + x.shape`` holds for batches, too. If the samples do not depend on one
# another, the blocks between different samples are zero. With five samples there are twenty
# such blocks. We collect them, and count the entries in them that are not zero:

batch = torch.func.jacrev(lambda X: X @ A.T)(torch.ones(5, 2))
between = batch.movedim(2, 1)[~torch.eye(5, dtype=torch.bool)]
print(tuple(batch.shape), tuple(between.shape), between.count_nonzero().item())

# %%
# Do not write ``v @ J``, which is a different product. It sums over the last index of ``v``
# and the second-to-last index of ``J``. Usually the sizes do not match, and you get an
# error. If they happen to match, as with square matrices, there is no error, and the result
# has indices that should have been summed over:

try:
    v @ J
except RuntimeError as error:
    print(error)
(v[:2, :2] @ torch.func.jacrev(lambda X: A[:2] @ X)(X[:, :2])).shape

# %%
# As a check, we compare the products from the flattened matrix, from ``tensordot`` and from
# ``backward`` with the product worked out by hand,
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
# :ref:`matrices` shows how to work with matrices without forming their Jacobians.
# :ref:`jacobian-per-sample` shows how to get the Jacobians of a batch without the zeros.
#
# .. asked: tensor Jacobian; shape y.shape + x.shape; einsum of v and the Jacobian;
#    Jacobian of tensors of any shape
# .. words: einsum, contraction, 4d, axes, indices, reshape, matrix by matrix
