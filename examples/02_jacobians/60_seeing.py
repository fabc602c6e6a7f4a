r"""
.. _seeing-jacobians:

Seeing Jacobians: convolution, softmax, attention, normalisation as heat maps
=============================================================================

A picture of :math:`J` shows what a layer does with its neighbours: bands for
convolution, blocks for batches, full rows for softmax, attention and normalisation.
"""

# %%
# A convolution slides a kernel along its input. Its :term:`Jacobian` repeats the kernel
# along the diagonal, whatever the input is: a *Toeplitz* matrix, equal along diagonals.

import torch
import torch.nn.functional as F

import pullback
import pullback.plot

kernel = torch.tensor([1.0, -2.0, 3.0])


def convolution(x):
    return F.conv1d(x.reshape(1, 1, -1), kernel.reshape(1, 1, -1)).flatten()


x = torch.linspace(-1, 1, 8)
toeplitz = pullback.jacobian(convolution, x)
title = "Convolution: the kernel 1, -2, 3 along the diagonal, zeros elsewhere"
ax = pullback.plot.heatmap(toeplitz, title=title)

# %%
# Softmax: :math:`J=\operatorname{diag}(p)-pp^\top`. Positive on the diagonal, negative off
# it, symmetric, and each row adds up to zero, since adding a constant to all inputs
# changes nothing:

p = torch.softmax(x, 0)
softmax = pullback.jacobian(lambda x: torch.softmax(x, 0), x)
title = "Softmax: positive diagonal, negative elsewhere, rows add up to zero"
ax = pullback.plot.heatmap(softmax, title=title)

# %%
# Attention over four tokens of two features. Flattened to :math:`8\times8`, every token
# looks at every other, so no block is empty:

tokens = x.reshape(4, 2)


def attention(t):
    return (t @ t.T).softmax(1) @ t


blocks = pullback.jacobian(attention, tokens)
title = "Attention over four tokens: all sixteen 2×2 blocks are filled"
ax = pullback.plot.heatmap(blocks.reshape(8, 8), title=title)

# %%
# LayerNorm normalises within a sample: blocks on the diagonal. BatchNorm in training
# normalises a feature over the samples: entries link samples, not features:

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
# The ones trick on any of the mixing layers returns the sum of each column. For softmax
# that is zero everywhere, for a convolution the sum of the kernel in the middle:

print(softmax.sum(0).abs().max().item() < 1e-6)
toeplitz.sum(0)

# %%
# Which of them mix, along the first dimension, is a yes-or-no question:

for name, f, at in (
    ("softmax", lambda x: torch.softmax(x, 0), x),
    ("attention", attention, tokens),
    ("LayerNorm", lambda s: F.layer_norm(s, (3,)), samples),
    ("BatchNorm", norm, samples),
):
    print(f"{name:10}", "mixes" if pullback.mixing(f, at) else "does not mix")

# %%
# Everything said about the pictures, checked: Toeplitz, the softmax formula, rows that
# add up to zero, and where the blocks are:

assert torch.equal(toeplitz[1:, 1:], toeplitz[:-1, :-1])
assert torch.equal(toeplitz[0, :3], kernel)
torch.testing.assert_close(softmax, torch.diag(p) - torch.outer(p, p))
torch.testing.assert_close(softmax.sum(1), torch.zeros(8), atol=1e-6, rtol=0)
assert (blocks.abs().amax((1, 3)) > 0).all()
same_sample = torch.kron(torch.eye(3), torch.ones(3, 3)).bool()
same_feature = torch.kron(torch.ones(3, 3), torch.eye(3)).bool()
assert layer[~same_sample].abs().max() < 1e-6
assert batch[~same_feature].abs().max() < 1e-6
torch.testing.assert_close(layer.sum(1), torch.zeros(9), atol=1e-5, rtol=0)

# %%
# Where next
# ----------
#
# Bands from three products: :ref:`sparse-jacobian`. When samples mix:
# :ref:`mixing-samples`.
