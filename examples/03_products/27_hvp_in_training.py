r"""
.. _hvp-of-a-network:

Hv of a network: dropout, BatchNorm, mini-batches, chunks
=========================================================

Every forward pass with dropout is another function, with another :term:`Hessian`. So run it
once and take all products from that graph, or fix the mask. The Hessian of a mean over a
data set is the mean of the batches' Hessians, unless BatchNorm couples the samples.
"""

# %%
# A list of weights, and a :term:`Hessian-vector product` with a list of their shapes. H is
# symmetric, :math:`u^\top Hw=w^\top Hu`: a test that needs no other answer.

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
# One flat vector of 17 for all the weights is what a solver wants:


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
# *My Hessian-vector product gives another result on every call.* A forward pass for each
# product draws a mask for each, and u'Hw and w'Hu belong to two functions:

print([f"{product(slopes(noisy), noisy, u) @ w:.3f}" for _ in range(3)])
print(f"{product(slopes(noisy), noisy, w) @ u:.3f}")

# %%
# From *one* graph, kept by ``retain_graph=True``, all products are of one function:

g = slopes(noisy)
one, other = product(g, noisy, u) @ w, product(g, noisy, w) @ u
print(f"{one:.3f} {other:.3f}")

# %%
# Where the forward pass must run again, as under :func:`torch.func.jvp`, set the seed each
# time; ``fork_rng`` puts the generator's state back afterwards. For the network without
# noise take ``eval()``: one more function, with the same product on every call:

names, start = zip(*noisy.named_parameters(), strict=True)


def slopes_of(*weights):
    def loss(weights):
        out = functional_call(noisy, dict(zip(names, weights, strict=True)), data)
        return ((out - goal) ** 2).mean()

    with torch.random.fork_rng():
        torch.manual_seed(7)  # one mask for all calls
        return torch.func.grad(loss)(weights)


# %%
# Now conjugate gradients, or an iteration for the largest eigenvalue, see one matrix:


def forward_over_reverse(u):
    pieces = u.split([p.numel() for p in start])
    v = tuple(piece.view_as(p) for piece, p in zip(pieces, start, strict=True))
    return flat(jvp(slopes_of, start, v)[1])


print([f"{forward_over_reverse(a) @ b:.3f}" for a, b in ((u, w), (w, u))])

# %%
# How sharp is the minimum? The largest eigenvalue
# ------------------------------------------------
#
# Multiply, scale to length 1, again. This finds the eigenvalue largest in *size*:

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
# *May I add the products up?* The derivative of a sum is the sum of derivatives, twice too.
# Batches of 8 and 4 weigh 8 and 4 twelfths, and only one batch's graph is held at a time:


def in_batches(model, u):
    parts = (slice(0, 8), 8 / 12), (slice(8, 12), 4 / 12)
    return torch.stack([k * product(slopes(model, r), model, u) for r, k in parts]).sum(0)


print(torch.allclose(in_batches(plain, u), H @ u))

# %%
# BatchNorm in ``train()`` couples the samples: the sum is of another function, and a pass
# moves its statistics, so take a copy (:ref:`functional-buffers`). In ``eval()`` it holds:

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
# :func:`torch.func.hessian` batches all n products at once. ``jacfwd`` of ``grad`` is the
# same and has no chunks to choose; ``jacrev`` has: 5 rows at a time here, or one, a loop:


def loss(w):
    a, b, c, d = w.split([8, 4, 4, 1])
    hidden = torch.tanh(data @ a.view(4, 2).T + b)
    return ((hidden @ c[:, None] + d - goal) ** 2).mean()


point = flat(plain.parameters()).detach()
chunked = torch.func.jacrev(torch.func.grad(loss), chunk_size=5)(point)
print(chunked.shape)

# %%
# The check: symmetry, chunks against the loop, differences of the gradient, ``eval()``:

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
# The product itself: :ref:`hvp`. Without the term that may be negative:
# :ref:`gauss-newton`. A trace from products: :ref:`trace-and-norm`.
#
# .. asked: Hessian-vector product of a network; hvp with dropout or batch norm; Hessian
#    over the whole data set; hvp in mini-batches; Hessian of the training loss
