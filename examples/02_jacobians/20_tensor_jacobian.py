r"""
.. _tensor-jacobian:

The Jacobian of a tensor by a tensor: y.shape + x.shape, and tensordot
======================================================================

For tensors of any shape the Jacobian has shape ``y.shape + x.shape``, and the product is
``torch.tensordot(v, J, dims=y.ndim)``: all of ``y``'s indices are summed over.
"""

# %%
# :math:`Y=AX` with ``X`` of shape ``(2, 4)`` and ``Y`` of shape ``(3, 4)``. The
# Jacobian has
# four indices: :math:`J_{ijkl}=\partial Y_{ij}/\partial X_{kl}=A_{ik}\,\delta_{jl}`:

import torch

A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
X = torch.arange(8.0).reshape(2, 4)
J = torch.func.jacrev(lambda X: A @ X)(X)
J.shape

# %%
# One entry of it, :math:`\partial Y_{2,1}/\partial X_{0,1}=A_{2,0}=5`, and one that is 0
# since the columns differ:

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
# Flatten ``Y`` and ``X`` and the same numbers form an ordinary :math:`12\times8` Jacobian,
# a row for each entry of ``Y``. Here it repeats :math:`A` in a pattern:

import pullback.plot

matrix = J.reshape(12, 8)
title = "Jacobian of A X, flattened: the entries of A in a regular pattern"
ax = pullback.plot.heatmap(matrix, title=title)

# %%
# The flattened product is a row times that matrix, in the flattened shape:

(v.flatten() @ matrix).reshape(2, 4)

# %%
# What goes wrong
# ---------------
#
# *The Jacobian of a (B, in) input is (B, out, B, in): a bug?* By design. ``y.shape +
# x.shape`` holds for batches, too, and the blocks between different samples are zero:

batch = torch.func.jacrev(lambda X: X @ A.T)(torch.ones(5, 2))
print(tuple(batch.shape), batch[0, :, 1].abs().max().item())

# %%
# ``v @ J`` is another contraction: it sums over ``v``'s last index and ``J``'s second-last.
# Sizes rarely match, and where they do the result is wrong:

try:
    v @ J
except RuntimeError as error:
    print(error)

# %%
# The matrix, ``tensordot`` and ``backward`` agree with each other and with the product
# worked out by hand, :math:`A^\top v`:

assert torch.equal(leaf.grad, A.T @ v)
assert torch.equal(torch.tensordot(v, J, dims=2), A.T @ v)
assert torch.equal((v.flatten() @ matrix).reshape(2, 4), A.T @ v)
assert torch.equal(pullback.jacobian(lambda X: A @ X, X), formula)

# %%
# Where next
# ----------
#
# Matrices without their Jacobians: :ref:`matrices`. Batches without the zeros:
# :ref:`jacobian-per-sample`.
