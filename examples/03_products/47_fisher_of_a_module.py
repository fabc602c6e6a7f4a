r"""
.. _fisher-of-a-module:

Can I square .grad for the Fisher diagonal? Gauss-Newton for a module
=====================================================================

No: the gradient of a batch is a sum, and the square of a sum is not the sum of squares. The
diagonal of the Fisher matrix takes one gradient for each sample; its product with a vector
takes a :term:`JVP`, a small matrix, and a :term:`VJP`, for any module.
"""

# %%
# Weights in a dict; logits of shape ``(B, 3)``. With p the softmax of a row of logits, the
# Fisher matrix of that sample is :math:`J^\top(\operatorname{diag}p-pp^\top)J`, and the one
# of the data is the mean:

import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.nn import functional as F

torch.manual_seed(0)  # weights and data that are the same on every build
model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()
data, label = torch.randn(6, 2).double(), torch.tensor([0, 1, 2, 0, 1, 2])
w = {name: p.detach() for name, p in model.named_parameters()}


def logits(w, x=data):
    return functional_call(model, w, (x,))


def flat(tensors, start=0):
    return torch.cat([t.flatten(start) for t in tensors.values()], dim=start)


# %%
# What goes wrong
# ---------------
#
# Elastic weight consolidation, pruning and natural gradients want a Fisher diagonal, and
# much code squares ``.grad`` after a ``backward`` of the mean loss. Beside it, the mean of
# the squares of every sample's own gradient, with the labels of the data:


def loss(w, x, y):
    return F.cross_entropy(logits(w, x), y)


each = flat(vmap(grad(loss), (None, 0, 0))(w, data, label), 1)
F.cross_entropy(model(data), label).backward()
squared_mean = torch.cat([p.grad.flatten() for p in model.parameters()]) ** 2
mean_of_squares = (each**2).mean(0)
print(tuple(each.shape), (squared_mean / mean_of_squares)[:5].numpy().round(2))

# %%
# At a minimum the gradient of the mean is 0, and so is its square; the Fisher matrix is
# not. With batches of one, the squares of ``.grad`` have the right mean, at the price of a
# loop.
#
# The mean of squares is the *empirical* Fisher, of the labels of the data. The Fisher
# matrix averages over labels drawn from the model. There are three, so take all, with
# their probabilities for weights:

p = logits(w).softmax(1)
every_label = [
    flat(vmap(grad(loss), (None, 0, 0))(w, data, torch.full((6,), k)), 1) for k in range(3)
]
diagonal = torch.stack([(p[:, k, None] * g**2).mean(0) for k, g in enumerate(every_label)])
diagonal = diagonal.sum(0)
print((mean_of_squares / diagonal)[:5].numpy().round(2))

# %%
# With many classes draw a label for each sample instead,
# ``Categorical(logits=...).sample()``: right on average, and one pass. 2000 draws against
# all labels:

picks = torch.distributions.Categorical(p).sample((2000,))
table = torch.stack(every_label)  # (3, B, weights)
drawn = torch.stack([table[pick, torch.arange(6)] for pick in picks])
print(((drawn**2).mean((0, 1)) / diagonal)[:5].numpy().round(1))

# %%
# The product with a vector
# -------------------------
#
# ``u`` is a dict like w. Forward to the logits, times the small matrix, and back: nothing
# of the size of J is made. The logits' :term:`Hessian` is a formula for cross-entropy; for
# another loss the JVP of its gradient is the same product:


def fisher_product(u):
    z, pull = vjp(logits, w)
    Ju = jvp(logits, (w,), (u,))[1]
    p = z.softmax(1)
    return pull((p * Ju - p * (p * Ju).sum(1, keepdim=True)) / len(data))[0]


def gauss_newton_product(u, loss_of_logits):
    z, pull = vjp(logits, w)
    Ju = jvp(logits, (w,), (u,))[1]
    return pull(jvp(grad(loss_of_logits), (z,), (Ju,))[1])[0]


# %%
# Both, for a direction u:

u = {name: torch.randn_like(p) for name, p in w.items()}
Fu = fisher_product(u)
Gu = gauss_newton_product(u, lambda z: F.cross_entropy(z, label))
print({name: tuple(t.shape) for name, t in Fu.items()})
print(torch.allclose(flat(Fu), flat(Gu)))

# %%
# *Does the label not matter?* Not for this loss, whose Hessian by the logits has no label
# in it. The Hessian by the *weights* has, and differs by the term that Gauss-Newton drops:

Hu = jvp(grad(lambda w: F.cross_entropy(logits(w), label)), (w,), (u,))[1]
print(f"{((flat(Hu) - flat(Gu)).norm() / flat(Gu).norm()).item():.2f}")

# %%
# A step of the natural gradient
# ------------------------------
#
# The Fisher matrix of 6 samples has a rank of 12 at most, for 27 weights: there is no
# inverse. Add a damping, and solve by conjugate gradients, as in :ref:`hvp`. Here once,
# small enough to be written out:

J = flat(jacrev(logits)(w), 2)  # (B, 3, weights)
middle = torch.diag_embed(p) - p[:, :, None] * p[:, None]
matrix = torch.einsum("bki,bkl,blj->ij", J, middle, J) / 6
step = torch.linalg.solve(matrix + 0.1 * torch.eye(27), -each.mean(0))
print(torch.linalg.matrix_rank(matrix).item(), (step @ each.mean(0) < 0).item())

# %%
# The check: product and diagonal against the matrix written out:

torch.testing.assert_close(flat(Fu), matrix @ flat(u))
torch.testing.assert_close(diagonal, matrix.diagonal())
torch.testing.assert_close(each.mean(0) ** 2, squared_mean)
assert not torch.allclose(mean_of_squares, diagonal, rtol=0.1)

# %%
# Where next
# ----------
#
# The formula for a function of few weights: :ref:`gauss-newton`. A gradient for every
# sample: :ref:`per-sample-gradients`. The Hessian of a network: :ref:`hvp-of-a-network`.
#
# .. asked: Fisher information diagonal; EWC Fisher; square of gradients; empirical
#    Fisher; elastic weight consolidation; Fisher matrix of a network
# .. words: continual learning, forgetting, importance of weights, per-sample squared, batch
#    size one, diagonal, EWC penalty
