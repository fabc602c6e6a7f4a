r"""
.. _seeing-jacobians:

Seeing Jacobians: convolution, softmax, attention, normalization as heat maps
=============================================================================

You have read what a :term:`Jacobian` is, and would like to see some. A picture of :math:`J`
shows at a glance which outputs depend on which inputs. For a convolution you see bands. For
softmax and attention every entry is filled. LayerNorm has a separate block for each sample,
and BatchNorm keeps the features separate.
"""

# %%
# A convolution slides a kernel along its input. So its :term:`Jacobian` repeats the
# kernel along the diagonal, whatever the input is. Such a matrix, whose diagonals are
# constant, is called a *Toeplitz* matrix:

import torch
import torch.nn.functional as F

import pullback.plot

kernel = torch.tensor([1.0, -2.0, 3.0])


def convolution(x):
    return F.conv1d(x.reshape(1, 1, -1), kernel.reshape(1, 1, -1)).flatten()


x = torch.linspace(-1, 1, 8)
toeplitz = pullback.jacobian(convolution, x)
title = "Convolution: the kernel 1, -2, 3 along the diagonal, zeros elsewhere"
ax = pullback.plot.heatmap(toeplitz, title=title)

# %%
# The Jacobian of softmax is :math:`\operatorname{diag}(p)-pp^\top`, where p is the vector
# of probabilities. It is symmetric, positive on the diagonal and negative elsewhere. Each
# row adds up to zero, because the probabilities do not change if you add a constant to all
# inputs:


def softmax(x):
    return torch.softmax(x, 0)


filled = pullback.jacobian(softmax, x)
title = "Softmax: positive diagonal, negative elsewhere, rows add up to zero"
ax = pullback.plot.heatmap(filled, title=title)

# %%
# Next comes attention over four tokens with two features each, without learned weights.
# We flatten the Jacobian to :math:`8\times8`. Every token attends to every other token,
# and so none of the 2×2 blocks is empty:

tokens = x.reshape(4, 2)


def attention(t):
    return (t @ t.T).softmax(1) @ t


blocks = pullback.jacobian(attention, tokens)
title = "Attention over four tokens: all sixteen 2×2 blocks are filled"
ax = pullback.plot.heatmap(blocks.reshape(8, 8), title=title)

# %%
# LayerNorm normalizes within each sample, and so its Jacobian has a block for each sample
# on the diagonal. BatchNorm in training normalizes a feature over all samples. The non-zero
# entries of its Jacobian link samples, but not features:

import matplotlib.pyplot as plt

samples = torch.tensor([[0.0, 1.0, 4.0], [2.0, 5.0, 3.0], [6.0, 8.0, 7.0]])
norm = torch.nn.BatchNorm1d(3, affine=False, track_running_stats=False)
layer = pullback.jacobian(lambda s: F.layer_norm(s, (3,)), samples).reshape(9, 9)
batch = pullback.jacobian(norm, samples).reshape(9, 9)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
pullback.plot.heatmap(layer, left, title="LayerNorm: a block for each sample")
ax = pullback.plot.heatmap(batch, right, title="BatchNorm: samples linked by feature")

# %%
# What goes wrong
# ---------------
#
# *Why is the gradient through a softmax zero?* If you call ``backward`` with a ``v`` of
# ones, it adds up each column of the picture. The outputs of softmax always add up to 1, so
# every column adds up to 0. For the convolution, a column adds up to the sum of the kernel,
# which is 2, except near the ends:

leaf = x.clone().requires_grad_()
softmax(leaf).sum().backward()
print("softmax: all below 1e-6:", (leaf.grad.abs() < 1e-6).all().item())
(columns,) = torch.autograd.grad(convolution(leaf).sum(), leaf)
columns

# %%
# *I expected s(1 - s).* In our notation these values are :math:`p_i(1-p_i)`, and they form
# the diagonal of the picture. Each of them is the slope of one probability with respect to
# the input at the same index. No single product gives this diagonal. Each row of the
# Jacobian adds up to 0, and so the entries of every product add up to 0, too, whereas the
# entries of the diagonal are all positive. So compute all the rows with ``jacrev``, and
# take the diagonal of the matrix that they form. For a batch, compute a matrix for each
# sample with ``vmap(jacrev(softmax))``, and take the diagonal of each matrix:

p = softmax(x)
own = torch.func.jacrev(softmax)(x).diagonal()
print((p * (1 - p)).numpy().round(3), torch.allclose(own, p * (1 - p)))

# %%
# A function :term:`mixes <mixing>` if an output at one index of the first dimension depends
# on an input at another index. For softmax these indices belong to single entries, and for
# the other three functions they belong to tokens or samples:

for name, f, at in (
    ("softmax", softmax, x),
    ("attention", attention, tokens),
    ("LayerNorm", lambda s: F.layer_norm(s, (3,)), samples),
    ("BatchNorm", norm, samples),
):
    print(f"{name:10}", "mixes" if pullback.mixing(f, at) else "does not mix")

# %%
# As a check, we test our statements about the convolution and the softmax:

assert torch.equal(toeplitz[1:, 1:], toeplitz[:-1, :-1])
assert torch.equal(toeplitz[0], torch.cat([kernel, torch.zeros(5)]))
assert torch.equal(columns, toeplitz.sum(0))
torch.testing.assert_close(filled, torch.diag(p) - torch.outer(p, p))
assert torch.equal(filled > 0, torch.eye(8).bool())
torch.testing.assert_close(filled.sum(1), torch.zeros(8), atol=1e-6, rtol=0)
each = torch.func.vmap(torch.func.jacrev(softmax))(tokens).diagonal(dim1=1, dim2=2)
torch.testing.assert_close(each, tokens.softmax(1) * (1 - tokens.softmax(1)))

# %%
# We also test where the blocks are:

same_sample = torch.kron(torch.eye(3), torch.ones(3, 3)).bool()
same_feature = torch.kron(torch.ones(3, 3), torch.eye(3)).bool()
assert (blocks.abs().amax((1, 3)) > 0).all()
assert layer[~same_sample].abs().max() < 1e-6 < layer[same_sample].abs().min()
assert batch[~same_feature].abs().max() < 1e-6 < batch[same_feature].abs().min()
torch.testing.assert_close(layer.sum(1), torch.zeros(9), atol=1e-5, rtol=0)

# %%
# Where next
# ----------
#
# :ref:`sparse-jacobian` computes a banded Jacobian from three products. A convolution with
# a kernel of three numbers has such a Jacobian. :ref:`mixing-samples` is about the ones
# trick for samples that mix.
#
# .. asked: Jacobian of softmax; picture of a Jacobian; heat map of the Jacobian;
#    Jacobian of convolution, softmax, attention; visualise the Jacobian; which outputs
#    depend on which inputs
# .. words: imshow, visualise, block, banded, receptive field, structure, picture
