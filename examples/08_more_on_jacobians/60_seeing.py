r"""
.. _seeing-jacobians:

Seeing Jacobians: convolution, softmax, attention, normalisation as heat maps
=============================================================================

A picture of :math:`J` shows which outputs look at which inputs: bands for convolution,
every entry filled for softmax and attention, separate blocks for LayerNorm, separate
features for BatchNorm.
"""

# %%
# A convolution slides a kernel along its input. Its :term:`Jacobian` repeats the kernel
# along the diagonal, whatever the input is: a *Toeplitz* matrix, equal along diagonals.

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
# Softmax: :math:`J=\operatorname{diag}(p)-pp^\top`. Positive on the diagonal, negative off
# it, symmetric, and each row adds up to zero, since adding a constant to all inputs
# changes nothing:


def softmax(x):
    return torch.softmax(x, 0)


filled = pullback.jacobian(softmax, x)
title = "Softmax: positive diagonal, negative elsewhere, rows add up to zero"
ax = pullback.plot.heatmap(filled, title=title)

# %%
# Attention over four tokens of two features, without learned weights. Flattened to
# :math:`8\times8`, every token looks at every other, so no 2×2 block is empty:

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
# *Why is the gradient zero behind a softmax?* ``backward`` with ones adds up each column of
# the picture. The outputs of softmax always add up to 1, so every column adds up to 0; for
# the convolution it is the sum of the kernel, 2, except near the ends:

leaf = x.clone().requires_grad_()
softmax(leaf).sum().backward()
print("softmax: all below 1e-6:", (leaf.grad.abs() < 1e-6).all().item())
(columns,) = torch.autograd.grad(convolution(leaf).sum(), leaf)
columns

# %%
# *I expected s(1 - s).* That is the diagonal of the picture: the slope of each probability
# by its own score. No single product gives it: each row adds up to 0, and so does every
# product. Take the rows, and their diagonal. For a batch, ``vmap(jacrev(softmax))``:

p = softmax(x)
own = torch.func.jacrev(softmax)(x).diagonal()
print((p * (1 - p)).numpy().round(3), torch.allclose(own, p * (1 - p)))

# %%
# :term:`Mixing <mixing>` asks whether an output at one index of the first dimension looks
# at an input at another. For softmax these are entries, for the others tokens or samples:

for name, f, at in (
    ("softmax", softmax, x),
    ("attention", attention, tokens),
    ("LayerNorm", lambda s: F.layer_norm(s, (3,)), samples),
    ("BatchNorm", norm, samples),
):
    print(f"{name:10}", "mixes" if pullback.mixing(f, at) else "does not mix")

# %%
# What is said about convolution and softmax, checked:

assert torch.equal(toeplitz[1:, 1:], toeplitz[:-1, :-1])
assert torch.equal(toeplitz[0], torch.cat([kernel, torch.zeros(5)]))
assert torch.equal(columns, toeplitz.sum(0))
torch.testing.assert_close(filled, torch.diag(p) - torch.outer(p, p))
assert torch.equal(filled > 0, torch.eye(8).bool())
torch.testing.assert_close(filled.sum(1), torch.zeros(8), atol=1e-6, rtol=0)

# %%
# And where the blocks are:

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
# Bands from three products: :ref:`sparse-jacobian`. When samples mix:
# :ref:`mixing-samples`.
#
# .. asked: Jacobian of softmax; picture of a Jacobian; heat map of the Jacobian;
#    Jacobian of convolution, softmax, attention; visualise the Jacobian; which outputs
#    depend on which inputs
#
# .. words: imshow, visualise, block, banded, receptive field, structure, picture
