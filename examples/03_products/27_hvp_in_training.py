r"""
.. _hvp-of-a-network:

Hv of a network: dropout, BatchNorm, mini-batches, chunks
=========================================================

You train a network and want :term:`Hessian-vector products <Hessian-vector product>` of its
loss, for a solver or for the largest eigenvalue. With dropout every forward pass computes a
different function, with a different :term:`Hessian`. So run the forward pass once and take
all products from its graph, or use the same dropout mask in every pass. The Hessian of a
mean over a data set is the mean of the batches' Hessians, weighted by the sizes of the
batches, unless BatchNorm couples the samples.
"""

# %%
# The weights of our network are a list of tensors, and the product is a list of tensors
# with the same shapes. H is symmetric, so :math:`u^\top Hw=w^\top Hu` for any two vectors.
# This gives us a test that needs no second method:

from copy import deepcopy

import torch
from torch import nn
from torch.autograd import grad
from torch.func import functional_call, jvp

torch.manual_seed(0)  # weights, data and masks that are the same on every build
data, goal = torch.randn(12, 2).double(), torch.randn(12, 1).double()


def make(*between):
    return nn.Sequential(nn.Linear(2, 4), *between, nn.Tanh(), nn.Linear(4, 1)).double()


def slopes(model, rows=slice(None)):
    loss = ((model(data[rows]) - goal[rows]) ** 2).mean()
    return grad(loss, list(model.parameters()), create_graph=True)


# %%
# A solver wants one flat vector for all the weights, which has 17 entries for our network.
# So our product takes such a vector, cuts it into pieces with the shapes of the weights,
# and returns a flat one:


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


def product(g, model, u):
    pieces = u.split([p.numel() for p in model.parameters()])
    v = [piece.view_as(p) for piece, p in zip(pieces, model.parameters(), strict=True)]
    return flat(grad(g, list(model.parameters()), v, retain_graph=True))


noisy = make(nn.Dropout(0.5))
u, w = torch.randn(2, 17).double()

# %%
# What goes wrong
# ---------------
#
# *My Hessian-vector product gives a different result on every call.* If you run the forward
# pass again for each product, each pass draws a new mask, and then :math:`u^\top Hw` and
# :math:`w^\top Hu` belong to two different functions. The three numbers in the first line
# of the output should be equal, and the number in the second line should be equal to them:

print([f"{product(slopes(noisy), noisy, u) @ w:.3f}" for _ in range(3)])
print(f"{product(slopes(noisy), noisy, w) @ u:.3f}")

# %%
# No two of these numbers agree. If we keep *one* graph with ``retain_graph=True``, all
# products that we take from it belong to one function:

g = slopes(noisy)
one, other = product(g, noisy, u) @ w, product(g, noisy, w) @ u
print(f"{one:.3f} {other:.3f}")

# %%
# Some methods, such as :func:`torch.func.jvp`, have to run the forward pass again for each
# product. With these, set the seed before each pass. ``fork_rng`` restores the generator's
# state afterwards. If you want the network without noise, call ``eval()``. Then the network
# computes yet another function, but you get the same product on every call. Here is the
# gradient with a fixed mask:

names, start = zip(*noisy.named_parameters(), strict=True)


def slopes_of(*weights):
    def loss(weights):
        out = functional_call(noisy, dict(zip(names, weights, strict=True)), data)
        return ((out - goal) ** 2).mean()

    with torch.random.fork_rng():
        torch.manual_seed(7)  # one mask for all calls
        return torch.func.grad(loss)(weights)


# %%
# With a fixed mask, all products belong to one matrix, as conjugate gradients or an
# iteration for the largest eigenvalue require. The two equal numbers below show this:


def forward_over_reverse(u):
    pieces = u.split([p.numel() for p in start])
    v = tuple(piece.view_as(p) for piece, p in zip(pieces, start, strict=True))
    return flat(jvp(slopes_of, start, v)[1])


print([f"{forward_over_reverse(a) @ b:.3f}" for a, b in ((u, w), (w, u))])

# %%
# How sharp is the minimum? The largest eigenvalue
# ------------------------------------------------
#
# Multiply a vector by H, scale it to length 1, and repeat. This finds the eigenvalue that
# is largest in *absolute value*. A strongly negative eigenvalue can therefore win, and
# :ref:`sharpness` says what to do then. Compute the gradient with ``autograd.grad``, as
# ``slopes`` does, and not with ``backward(create_graph=True)``, which leaves in ``.grad`` a
# graph that is part of a reference cycle and keeps memory occupied
# (:ref:`create-graph-cycle`). We print the eigenvalue next to the largest one computed from
# the whole H:

plain = make()
g, q = slopes(plain), torch.ones(17).double()
for _ in range(200):
    q = product(g, plain, q / q.norm())
H = torch.stack([product(g, plain, row) for row in torch.eye(17).double()])
sharpness = (q / q.norm()) @ product(g, plain, q / q.norm())
print(f"{sharpness:.4f} of {torch.linalg.eigvalsh(H)[-1]:.4f}")

# %%
# The whole data set, a batch at a time
# -------------------------------------
#
# *May I add up the products of the batches?* Yes, because the derivative of a sum is the
# sum of the derivatives, and the same holds for second derivatives. Our batches of 8 and 4
# samples have the weights 8/12 and 4/12, and only one batch's graph is held at a time:


def in_batches(model, u):
    parts = (slice(0, 8), 8 / 12), (slice(8, 12), 4 / 12)
    return torch.stack([k * product(slopes(model, r), model, u) for r, k in parts]).sum(0)


print(torch.allclose(in_batches(plain, u), H @ u))

# %%
# BatchNorm in ``train()`` couples the samples, so the sum of the batches' products is the
# Hessian-vector product of a different function. Each pass also updates the running
# statistics of BatchNorm, so use a copy of the model (:ref:`functional-buffers`). In
# ``eval()`` the sum is right. The first line of the output is for ``train()``, and the
# second is for ``eval()``. Each line says whether the relative error of the sum is above
# 0.1, whether it is below 1e-10, and how many passes the statistics have counted:

normed = make(nn.BatchNorm1d(4, affine=False))
for mode in (True, False):
    model = deepcopy(normed).train(mode)
    whole = product(slopes(model), model, u)
    off = ((in_batches(model, u) - whole).norm() / whole.norm()).item()
    print(mode, off > 0.1, off < 1e-10, model[1].num_batches_tracked.item())

# %%
# All of H in chunks
# ------------------
#
# :func:`torch.func.hessian` batches all n products at once. ``jacfwd`` of ``grad`` does the
# same, and ``jacfwd`` has no ``chunk_size`` argument for taking fewer products at a time.
# ``jacrev`` of ``grad`` gives the same matrix and does have a ``chunk_size``. Here it takes
# 5 rows at a time. With ``chunk_size=1`` it would be a loop:


def loss(w):
    a, b, c, d = w.split([8, 4, 4, 1])
    hidden = torch.tanh(data @ a.view(4, 2).T + b)
    return ((hidden @ c[:, None] + d - goal) ** 2).mean()


point = flat(plain.parameters()).detach()
chunked = torch.func.jacrev(torch.func.grad(loss), chunk_size=5)(point)
print(chunked.shape)

# %%
# As a check, we compare each :math:`u^\top Hw` with :math:`w^\top Hu`. We compare the H
# computed in chunks with the H from the loop, and a product with difference quotients of
# the gradient. We also compare two products in ``eval()`` with each other:

torch.testing.assert_close(one, other)
torch.testing.assert_close(forward_over_reverse(u) @ w, forward_over_reverse(w) @ u)
torch.testing.assert_close(chunked, H)
torch.testing.assert_close(sharpness, torch.linalg.eigvalsh(H)[-1])
up, down = (torch.func.grad(loss)(point + h * u) for h in (1e-5, -1e-5))
torch.testing.assert_close((up - down) / 2e-5, H @ u, atol=1e-6, rtol=0)
still = [product(slopes(noisy.eval()), noisy, u) for _ in range(2)]
torch.testing.assert_close(*still)

# %%
# Where next
# ----------
#
# :ref:`hvp` explains the product itself. :ref:`gauss-newton` leaves out the term that may
# have negative eigenvalues, and :ref:`trace-and-norm` estimates a trace from products.
#
# .. asked: Hessian-vector product of a network; hvp with dropout or batch norm; Hessian
#    over the whole data set; hvp in mini-batches; Hessian of the training loss; sharpness
#    of a ResNet at the end of training; top eigenvalue with BatchNorm and batches
# .. words: whole data set, noise, eval mode, accumulate, loader, sharpness of the minimum,
#    top eigenvalue
