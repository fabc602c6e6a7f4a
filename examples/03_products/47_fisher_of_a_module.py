r"""
.. _fisher-of-a-module:

Can I square .grad for the Fisher diagonal? Gauss-Newton for a module
=====================================================================

Elastic weight consolidation, pruning and diagonal approximations of the natural gradient
need the diagonal of the Fisher matrix, and a lot of code squares ``.grad`` to get it. Is
that right? For a batch it is not: the gradient of a batch is a sum, and the square of a sum
is not the sum of the squares. For the diagonal you need one gradient for each sample. For
the product of the Fisher matrix with a vector you need a :term:`JVP`, a small matrix and a
:term:`VJP`. This works for any module whose operations have a rule for :term:`forward
mode`.
"""

# %%
# We take a small classifier with its weights in a dict, and logits of shape ``(B, 3)``.
# Let p be the softmax of a row of logits. Then the Fisher matrix of this sample is
# :math:`J^\top(\operatorname{diag}p-pp^\top)J`, and the Fisher matrix of the data is the
# mean over the samples:

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
# First we square ``.grad`` after a ``backward`` of the mean loss, as such code does. For
# comparison, we take the gradient of each sample separately, square it, and take the mean
# of these squares. We use the labels of the data. The ratio of the squared gradient to
# the mean of the squares is far from 1:


def loss(w, x, y):
    return F.cross_entropy(logits(w, x), y)


each = flat(vmap(grad(loss), (None, 0, 0))(w, data, label), 1)
F.cross_entropy(model(data), label).backward()
squared_mean = torch.cat([p.grad.flatten() for p in model.parameters()]) ** 2
mean_of_squares = (each**2).mean(0)
print(tuple(each.shape), (squared_mean / mean_of_squares)[:5].numpy().round(2))

# %%
# At a minimum of the loss, the gradient of the mean is 0, and so is its square, whereas the
# Fisher matrix is in general not 0. With batches of one sample, the squares of ``.grad``
# have the right mean, but you need a loop over the samples.
#
# The mean of squares is called the *empirical* Fisher, because it uses the labels of the
# data. The Fisher matrix itself averages over labels that are drawn from the model. Our
# model has only three labels, and so we take all of them, each weighted by its probability.
# The empirical Fisher differs from this matrix, as the ratios of the diagonal entries show:

p = logits(w).softmax(1)
every_label = [
    flat(vmap(grad(loss), (None, 0, 0))(w, data, torch.full((6,), k)), 1) for k in range(3)
]
diagonal = torch.stack([(p[:, k, None] * g**2).mean(0) for k, g in enumerate(every_label)])
diagonal = diagonal.sum(0)
print((mean_of_squares / diagonal)[:5].numpy().round(2))

# %%
# If there are many classes, draw a label for each sample instead, with
# ``Categorical(logits=...).sample()``. The estimate is right on average, and takes one
# pass. We divide the mean over 2000 draws by the sum over all labels:

picks = torch.distributions.Categorical(p).sample((2000,))
table = torch.stack(every_label)  # (3, B, weights)
drawn = torch.stack([table[pick, torch.arange(6)] for pick in picks])
print(((drawn**2).mean((0, 1)) / diagonal)[:5].numpy().round(1))

# %%
# The product with a vector
# -------------------------
#
# Let ``u`` be a dict like w. We push ``u`` forward to the logits, multiply by the small
# matrix, and pull the result back to the weights. Nothing as large as J is ever formed. For
# cross-entropy, there is a formula for the :term:`Hessian` with respect to the logits. For
# a different loss, you can compute the product with the Hessian of that loss as the JVP of
# its gradient. Here are both ways:


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
# We compare the two products for a direction u:

u = {name: torch.randn_like(p) for name, p in w.items()}
Fu = fisher_product(u)
Gu = gauss_newton_product(u, lambda z: F.cross_entropy(z, label))
print({name: tuple(t.shape) for name, t in Fu.items()})
print(torch.allclose(flat(Fu), flat(Gu)))

# %%
# *Does the label not matter?* For cross-entropy it does not, because the Hessian of the
# loss with respect to the logits has no label in it. The Hessian with respect to the
# *weights* does depend on the label. This Hessian differs from the Gauss-Newton matrix by
# the term that Gauss-Newton drops. In our example the product with that term is larger than
# the product with the Gauss-Newton matrix, as the ratio of their norms shows:

Hu = jvp(grad(lambda w: F.cross_entropy(logits(w), label)), (w,), (u,))[1]
print(f"{((flat(Hu) - flat(Gu)).norm() / flat(Gu).norm()).item():.2f}")

# %%
# A step of the natural gradient
# ------------------------------
#
# The Fisher matrix of 6 samples has a rank of 12 at most, and there are 27 weights. So the
# matrix has no inverse. Add a multiple of the identity, which is called damping, and solve
# the equations by conjugate gradients, as in :ref:`hvp`. Our example is small enough for us
# to write the matrix out. We print the rank of the matrix, and whether the step goes
# downhill:

J = flat(jacrev(logits)(w), 2)  # (B, 3, weights)
middle = torch.diag_embed(p) - p[:, :, None] * p[:, None]
matrix = torch.einsum("bki,bkl,blj->ij", J, middle, J) / 6
step = torch.linalg.solve(matrix + 0.1 * torch.eye(27), -each.mean(0))
print(torch.linalg.matrix_rank(matrix).item(), (step @ each.mean(0) < 0).item())

# %%
# As a check, we compare the product and the diagonal with those of the matrix written out:

torch.testing.assert_close(flat(Fu), matrix @ flat(u))
torch.testing.assert_close(diagonal, matrix.diagonal())
torch.testing.assert_close(each.mean(0) ** 2, squared_mean)
assert not torch.allclose(mean_of_squares, diagonal, rtol=0.1)

# %%
# Where next
# ----------
#
# :ref:`gauss-newton` derives the formula for a function of few weights.
# :ref:`per-sample-gradients` computes a gradient for every sample, and
# :ref:`hvp-of-a-network` computes products with the Hessian of a network.
#
# .. asked: Fisher information diagonal; EWC Fisher; square of gradients; empirical
#    Fisher; elastic weight consolidation; Fisher matrix of a network
# .. words: continual learning, forgetting, importance of weights, per-sample squared, batch
#    size one, diagonal, EWC penalty
