r"""
.. _jacobian-per-sample:

A Jacobian for every sample: (B, m, n) without the zeros
========================================================

For a batch of independent samples, take ``m`` products that serve all the samples at
once, or ``vmap(jacrev(f))``. Either gives ``(B, m, n)``; the full :term:`Jacobian` is
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
summed = torch.stack(rows, dim=1)
summed.shape

# %%
# The same as a Jacobian of the sum over the batch, ``(out, B, in)``, permuted:

of_sum = torch.autograd.functional.jacobian(lambda X: f(X).sum(0), X).permute(1, 0, 2)
of_sum.shape

# %%
# *is_grads_batched complains: grad_output has shape [2], output [5, 2].* The batch of ``v``
# comes in front of ``Y``'s own shape, so ``torch.eye(2)`` has an index too few. Give each
# sample the same one-hot row, ``(2, 5, 2)``; the ``k`` of the result is in front, too:

try:
    torch.autograd.grad(Y, leaf, torch.eye(2), is_grads_batched=True)
except RuntimeError as error:
    print(error)
V = torch.eye(2)[:, None, :].expand(2, 5, 2)
(stacked,) = torch.autograd.grad(Y, leaf, V, is_grads_batched=True)
print(tuple(V.shape), tuple(stacked.shape), tuple(stacked.movedim(0, 1).shape))

# %%
# A function of one sample, mapped over the batch, needs no trick and cannot mix samples
# (with fewer inputs than outputs ``jacfwd`` in place of ``jacrev``):

mapped = torch.func.vmap(torch.func.jacrev(f))(X)
mapped.shape

# %%
# *It eats all of my memory, though one Jacobian is tiny.* All points times all outputs are
# computed at once. ``chunk_size`` of ``vmap`` takes so many points, that of ``jacrev`` so
# many outputs at a time. A parameter that all points share has ``None`` in ``in_dims``:


def g(theta, x):
    return torch.tanh(theta @ x)


one = torch.func.jacrev(g, argnums=1, chunk_size=1)
shared = torch.func.vmap(one, in_dims=(None, 0), chunk_size=2)(W, X)
shared.shape

# %%
# :func:`pullback.jacobian` does it for a function of the whole batch:

import pullback

batched = pullback.jacobian(f, X, batched=True)
batched.shape

# %%
# What goes wrong
# ---------------
#
# *The one-hot loop and the sum trick give different Jacobians.* Then samples mix, as
# BatchNorm makes them in training: the trick adds the rows of all samples to each sample's
# own, here up to zero. :func:`pullback.jacobian` refuses:

training = torch.nn.BatchNorm1d(3, affine=False, track_running_stats=False)
(trick,) = torch.autograd.grad(training(leaf)[:, 0].sum(), leaf)
print("sum trick:", trick[0].round(decimals=2) + 0.0)
print("own:      ", torch.func.jacrev(training)(X)[0, 0, 0].round(decimals=2))
try:
    pullback.jacobian(training, X, batched=True)
except ValueError as error:
    print(error)

# %%
# *"... mutate a captured Tensor"*: the usual BatchNorm, in training, writes its running
# statistics as well, and ``jacrev`` and ``jacfwd`` refuse. The one above has none to write:

try:
    torch.func.jacrev(torch.nn.BatchNorm1d(3))(X)
except RuntimeError as error:
    print(str(error).split(" This")[0])

# %%
# In evaluation mode every sample is divided by the same running deviation, and they are
# independent again. For a running variance of 1/4 each Jacobian is twice the identity:

norm = torch.nn.BatchNorm1d(3, affine=False).eval()
norm.running_var.fill_(0.25)
scale = pullback.jacobian(norm, X, batched=True)
scale[0].round(decimals=3)

# %%
# *vmap(jacrev) with BatchNorm fails on the number of dimensions.* Inside ``vmap`` a sample
# has no batch dimension; give it one of size 1 and take it away again:

try:
    torch.func.vmap(torch.func.jacrev(norm))(X)
except ValueError as error:
    print(error)
single = torch.func.jacrev(lambda x: norm(x.unsqueeze(0)).squeeze(0))
torch.testing.assert_close(torch.func.vmap(single)(X), scale)

# %%
# *Dimension out of range … but got 1*: likewise. What takes dimension 1 unless told
# otherwise (``normalize``, ``cosine_similarity``) wants ``dim=-1``:

unit = torch.nn.functional.normalize
try:
    torch.func.vmap(unit)(X)
except IndexError as error:
    print(error)
torch.func.vmap(torch.func.jacrev(lambda x: unit(x, dim=-1)))(X).shape

# %%
# The seven ways agree with the derivative by hand, :math:`\operatorname{diag}(1-y^2)\,W`
# for each sample:

by_hand = (1 - f(X) ** 2)[:, :, None] * W
for result in (blocks, summed, of_sum, stacked.movedim(0, 1), mapped, shared, batched):
    torch.testing.assert_close(result, by_hand)
torch.testing.assert_close(scale, 2 * torch.eye(3).expand(5, 3, 3), rtol=1e-4, atol=0)

# %%
# Where next
# ----------
#
# Zeros elsewhere: :ref:`sparse-jacobian`. Functions that mix: :ref:`mixing-samples`.
#
# .. asked: Jacobian for every sample; batched Jacobian; (B, m, B, n) Jacobian;
#    vmap(jacrev)
