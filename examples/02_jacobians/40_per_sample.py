r"""
.. _jacobian-per-sample:

A Jacobian for every sample: (B, m, n) without the zeros
========================================================

For a batch of independent samples, take ``m`` products that serve all the samples at
once, or ``vmap(jacrev(f))``. Either gives ``(B, m, n)``; the full Jacobian is
``(B, m, B, n)`` and nearly all zeros.
"""

# %%
# Five samples of :math:`\mathbb R^3` go through a function to :math:`\mathbb R^2`, the same
# for each. The full Jacobian has an index too many:

import torch

W = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def f(x):
    return torch.tanh(x @ W.T)


X = torch.linspace(-0.2, 0.2, 15).reshape(5, 3)
full = torch.func.jacrev(f)(X)
full.shape

# %%
# The blocks between different samples are zero. What you want is on the block diagonal:

blocks = torch.stack([full[b, :, b] for b in range(5)])
print(blocks.shape, " zeros:", (full == 0).sum().item(), "of", full.numel())

# %%
# Drawn as a matrix, ten outputs by fifteen inputs:

import pullback.plot

title = "Full Jacobian of a batch of five: five blocks, zeros elsewhere"
ax = pullback.plot.heatmap(full.reshape(10, 15), title=title)

# %%
# The sum trick
# -------------
#
# One product with ``v`` equal to 1 in column ``k`` of every sample gives row ``k`` of
# every block: the :term:`ones trick` over samples, one-hot over outputs. Two products
# do for two outputs, however large the batch:

leaf = X.clone().requires_grad_()
Y = f(leaf)
rows = [torch.autograd.grad(Y[:, k].sum(), leaf, retain_graph=True)[0] for k in (0, 1)]
J = torch.stack(rows, dim=1)
J.shape

# %%
# A function of one sample, mapped over the batch, needs no trick and cannot mix samples:

mapped = torch.func.vmap(torch.func.jacrev(f))(X)
mapped.shape

# %%
# :func:`pullback.jacobian` does it for a function of the whole batch:

import pullback

batched = pullback.jacobian(f, X, batched=True)
batched.shape

# %%
# What goes wrong
# ---------------
#
# BatchNorm in training lets samples mix. The sum trick then adds other samples' rows in
# without a word; :func:`pullback.jacobian` refuses:

norm = torch.nn.BatchNorm1d(3, affine=False)
leaf = X.clone().requires_grad_()
(wrong,) = torch.autograd.grad(norm.train()(leaf)[:, 0].sum(), leaf)
print("largest entry:", wrong.abs().max().round(decimals=3).item())
try:
    pullback.jacobian(norm.train(), X, batched=True)
except (ValueError, RuntimeError) as error:
    print(type(error).__name__)

# %%
# In evaluation mode the samples are independent again, and so is each Jacobian:

with torch.no_grad():
    scale = pullback.jacobian(norm.eval(), X, batched=True)[0]
scale.round(decimals=2)

# %%
# *vmap with BatchNorm: expected a batch dimension.* Inside ``vmap`` a sample has none;
# give it one of size 1 and take it away again:

single = torch.func.jacrev(lambda x: norm.eval()(x.unsqueeze(0)).squeeze(0))
torch.testing.assert_close(torch.func.vmap(single)(X)[0].detach(), scale)

# %%
# The four ways agree with the derivative by hand, :math:`\operatorname{diag}(1-y^2)\,W`:

by_hand = (1 - f(X) ** 2)[:, :, None] * W
for result in (blocks, J, mapped, batched):
    torch.testing.assert_close(result, by_hand)

# %%
# Where next
# ----------
#
# Zeros in other patterns: :ref:`sparse-jacobian`. Functions that mix:
# :ref:`mixing-samples`.
