r"""
.. _gradient-norms:

Per-sample gradient norms without the per-sample gradients
==========================================================

A linear layer's gradient for one sample is an outer product of two vectors, and the norm of
an outer product is the product of their norms. Both vectors pass by in an ordinary
``backward``: two hooks catch them, and no gradient is made B times.
"""

# %%
# For :math:`z=Wa+b` and one sample, with the :term:`cotangent` :math:`v` of z, the
# gradients are :math:`va^\top` and v. So with ``a`` of shape ``(B, in)`` and ``v`` of shape
# ``(B, out)``
#
# .. math::
#
#    \lVert g_i\rVert^2=\lVert v_i\rVert^2\,\bigl(\lVert a_i\rVert^2+1\bigr).
#
# The 1 is the bias's; the squares of all layers add up. Private training calls the use of
# it *ghost clipping*; importance sampling and the search for wrong labels want the same
# numbers. Six samples:

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

torch.manual_seed(0)  # weights and data that are the same on every build
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
data, label = torch.randn(6, 3).double(), torch.tensor([0, 1, 2, 3, 0, 1])


# %%
# The long way, for comparison, makes 6 gradients for each parameter, and their norms:


def norms_of_all(model, data, loss):
    w = {name: p.detach() for name, p in model.named_parameters()}
    one = lambda w, x, y: loss(functional_call(model, w, (x[None],)), y[None])
    each = vmap(grad(one), (None, 0, 0))(w, data, label)
    return torch.cat([g.flatten(1) for g in each.values()], 1).norm(dim=1)


long_way = norms_of_all(model, data, F.cross_entropy)
long_way.round(decimals=3)

# %%
# The hooks. A forward hook sees the input; a tensor hook on the output sees v. A layer
# without a bias has no 1:


def watch(model, squares):
    def forward_hook(layer, args, z):
        both = (args[0].detach() ** 2).sum(1) + (layer.bias is not None)
        z.register_hook(lambda v: squares.append((v**2).sum(1) * both))

    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return [layer.register_forward_hook(forward_hook) for layer in layers]


# %%
# One ``backward``, of ones on the losses, since the norm is wanted for each sample's *own*
# loss. With respect to a copy of the data: so the weights' ``.grad`` are left alone, and
# their products are not computed:

squares = []
handles = watch(model, squares)
leaf = data.clone().requires_grad_()
losses = F.cross_entropy(model(leaf), label, reduction="none")
torch.autograd.grad(losses, leaf, torch.ones(6).double(), retain_graph=True)
norms = torch.stack(squares).sum(0).sqrt()
print(norms.round(decimals=3), model[0].weight.grad)

# %%
# Clipping with them
# ------------------
#
# The clipped sum is one more product through the graph that is still there, with the
# factors for v (:ref:`per-sample-gradients`). *My list of norms grows*: the handles take
# the forward hooks away, not those on the tensors of this graph, which run once more:

for handle in handles:
    handle.remove()
factor = (1.45 / norms).clamp(max=1)
weights = list(model.parameters())
clipped = torch.autograd.grad(losses, weights, factor)
print(factor.round(decimals=2), len(squares))

# %%
# What goes wrong
# ---------------
#
# *All norms are a sixth of the right ones.* With ``reduction="mean"`` each sample's v holds
# 1/B. Multiply by B, or take the losses unreduced, as above:

squares = []
handles = watch(model, squares)
torch.autograd.grad(F.cross_entropy(model(leaf), label), leaf)
print((torch.stack(squares).sum(0).sqrt() / long_way).round(decimals=4))
for handle in handles:
    handle.remove()

# %%
# *A layer that sees a sequence*, input ``(B, T, in)``, adds an outer product for each of T
# places, and the norm of a sum is not the sum of norms. Two Gram matrices, T by T, give it:
# :math:`\lVert\sum_tv_ta_t^\top\rVert^2=\sum_{st}(v_s\cdot v_t)(a_s\cdot a_t)`, for the
# weight; the bias adds :math:`\sum_{st}v_s\cdot v_t`. For 2T² below the number of weights
# they are smaller than the gradient. Convolutions are such layers, once unfolded:

a, v = torch.randn(6, 7, 3).double(), torch.randn(6, 7, 5).double()
per_sample = torch.einsum("bto,bti->boi", v, a).flatten(1).norm(dim=1)
gram = ((v @ v.mT) * (a @ a.mT)).sum((1, 2)).sqrt()
wrong = ((v**2).sum(2) * (a**2).sum(2)).sum(1).sqrt()
print((gram / per_sample).round(decimals=4), (wrong / per_sample).round(decimals=2))

# %%
# *A layer that is used twice, or tied weights*: the same, the gradients of its uses add up
# before the norm is taken, and a sum of squares misses the cross term, as the ratios below
# show. And where samples mix, in BatchNorm, there is no gradient of one sample at all
# (:ref:`mixing-samples`):

shared = nn.Linear(3, 3).double()
twice = nn.Sequential(shared, nn.Tanh(), shared, nn.Linear(3, 4).double())
long, squares = norms_of_all(twice, data, F.cross_entropy), []
watch(twice, squares)
out = F.cross_entropy(twice(leaf), label, reduction="none")
torch.autograd.grad(out, leaf, torch.ones(6).double())
print((torch.stack(squares).sum(0).sqrt() / long).round(decimals=3))

# %%
# *Layers of other kinds*: take the norm inside of ``vmap``, which then returns one number a
# sample. ``chunk_size`` bounds how many gradients there are on the way; without the norm
# inside, all of them would still be in the result:


def one_norm(w, x, y):
    one = lambda w: F.cross_entropy(functional_call(model, w, (x[None],)), y[None])
    return torch.stack([g.norm() for g in grad(one)(w).values()]).norm()


w = {name: p.detach() for name, p in model.named_parameters()}
in_pieces = vmap(one_norm, (None, 0, 0), chunk_size=2)(w, data, label)
in_pieces.shape, torch.allclose(in_pieces, long_way)

# %%
# The check: the norms by the long way, and the clipped sum from gradients made one at a
# time:

torch.testing.assert_close(norms, long_way)
total = [torch.zeros_like(p) for p in weights]
for i in range(6):
    own = torch.autograd.grad(
        F.cross_entropy(model(data[i : i + 1]), label[i : i + 1]), weights
    )
    length = torch.cat([g.flatten() for g in own]).norm()
    total = [t + g * min(1, 1.45 / length) for t, g in zip(total, own, strict=True)]
torch.testing.assert_close(list(clipped), total)
torch.testing.assert_close(gram, per_sample)

# %%
# And a layer without a bias:

bare, squares = nn.Sequential(nn.Linear(3, 4, bias=False)).double(), []
watch(bare, squares)
F.cross_entropy(bare(leaf), label, reduction="sum").backward()
torch.testing.assert_close(squares[0].sqrt(), norms_of_all(bare, data, F.cross_entropy))

# %%
# Where next
# ----------
#
# The gradients themselves: :ref:`per-sample-gradients`. What hooks see: :ref:`hooks`.
# One v for every sample's loss: :ref:`loss-as-v`.
#
# .. asked: per-sample gradient norm; norm of each sample's gradient; ghost clipping;
#    gradient norm of every example without storing them; importance of each sample;
#    data selection by gradient norm; how much does each sample pull
