r"""
.. _log-det-of-a-flow:

log|det J| of a normalising flow: which way is cheap, and can I train on it?
============================================================================

Build layers whose :term:`Jacobian` is triangular and read the determinant off the diagonal:
no product with J is needed. For any other layer ``slogdet`` of the whole Jacobian is exact
and takes n products; for :math:`x+g(x)` and for continuous flows, random v estimate it.
You can train on each, as long as the products themselves have a graph.
"""

# %%
# A flow maps x of shape ``(B, n)`` to z of the same shape, and
#
# .. math::
#
#    \log p(x)=\log p_z(z(x))+\log\lvert\det J(x)\rvert ,
#
# with one Jacobian for each sample. It stands in the loss, so it must have a graph:

import math

import torch
from torch import nn
from torch.func import functional_call, jacrev, vjp, vmap

torch.manual_seed(0)  # weights and points that are the same on every build
x = torch.randn(6, 4).double()
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def coupling(x):  # the first half goes through, the second is scaled and shifted by it
    a, b = x.chunk(2, -1)
    s, t = net(a).chunk(2, -1)
    return torch.cat([a, b * s.exp() + t], -1), s.sum(-1)


z, read_off = coupling(x)

# %%
# *Compute it with autograd?* As a test of the formula, yes: a Jacobian for each sample, and
# ``slogdet``, which gives the logarithm without the determinant itself:

J = vmap(jacrev(lambda x: coupling(x)[0]))(x)
sign, whole = torch.linalg.slogdet(J)
print(read_off.detach().numpy().round(4), whole.detach().numpy().round(4), sep="\n")

# %%
# What goes wrong
# ---------------
#
# *inf or -inf in wide layers*: ``det`` leaves the range of the dtype, and ``log`` comes too
# late. Here n = 1000 factors of 0.4, in float32:

wide = 0.4 * torch.eye(1000)
print(torch.det(wide).log().item(), f"{torch.linalg.slogdet(wide).logabsdet.item():.1f}")

# %%
# *torch.autograd.functional.jacobian, and the log-determinant does not learn.* Without
# ``create_graph=True`` the Jacobian is a constant. The one of :mod:`torch.func` has a graph
# to the weights:

plain = torch.autograd.functional.jacobian(lambda x: coupling(x)[0], x[0])
print(plain.requires_grad, J.requires_grad)

# %%
# *A Jacobian of the whole batch, of shape (B, n, B, n)*: the determinant of that matrix of
# B·n rows is the right sum over the batch, as the blocks off the diagonal are 0. It takes B
# times the products and, for the determinant, B² times the work:

big = jacrev(lambda x: coupling(x)[0])(x).reshape(24, 24)
print(torch.allclose(torch.linalg.slogdet(big).logabsdet, whole.sum()))

# %%
# Training on it
# --------------
#
# The loss is :math:`-\log p` for a normal z, without its constant. The log-determinant
# through ``slogdet`` and the one read off give the same gradient by the weights; the first
# takes n products a sample and a factorisation:


def loss(w, exact):
    f = lambda a: functional_call(net, w, (a,))

    def layer(x):
        s, t = f(x[:2]).chunk(2)
        return torch.cat([x[:2], x[2:] * s.exp() + t])

    logdet = torch.linalg.slogdet(vmap(jacrev(layer))(x)).logabsdet
    logdet = logdet if exact else f(x[:, :2])[:, :2].sum(1)
    return (vmap(layer)(x) ** 2).sum(1).mean() / 2 - logdet.mean()


# %%
# Both:

w = {name: p.detach() for name, p in net.named_parameters()}
slopes = [torch.func.grad(loss)(w, exact) for exact in (True, False)]
print([torch.allclose(slopes[0][name], slopes[1][name]) for name in w])

# %%
# Residual flows: a series of traces
# ----------------------------------
#
# For :math:`x+g(x)` with a g that contracts,
# :math:`\log\det(I+J_g)=\sum_k(-1)^{k+1}\operatorname{tr}(J_g^k)/k`. Each trace is
# estimated by :math:`v^\top J_g^kv`, k products in a row from the same v (Hutchinson,
# 1990). A map with largest singular value 0.6, so that the terms fall:

W = torch.randn(30, 30).double()
W = 0.6 * W / torch.linalg.matrix_norm(W, 2)
at = torch.randn(30).double()

# %%
# Twelve terms (:math:`0.6^{13}` is 0.001), for 2000 v at a time:

_, pull = vjp(lambda x: torch.tanh(W @ x), at)


def series(v):
    row, total = v, torch.zeros(len(v)).double()
    for k in range(1, 13):
        (row,) = vmap(pull)(row)
        total = total + (-1) ** (k + 1) * (row * v).sum(1) / k
    return total


estimate = series(torch.randint(0, 2, (2000, 30)).double() * 2 - 1)

# %%
# Against the exact one:

J_g = jacrev(lambda x: torch.tanh(W @ x))(at)
exact = torch.linalg.slogdet(torch.eye(30) + J_g).logabsdet
error = estimate.std() / math.sqrt(2000)
print(f"{exact:.2f} {estimate.mean():.2f}, standard error {error:.2f}")

# %%
# In a continuous flow :math:`\dot x=g(x)` the log-density falls at the rate of the trace of
# :math:`J_g`, the divergence of g (:ref:`trace-and-norm`). Draw v once for a whole solve:
# a new one in every stage makes the right-hand side jump, and an adaptive solver crawls.
#
# The check: the formula and its gradient against the whole Jacobian, the series with the 30
# one-hot v, whose sum has no noise, and the estimate within its error:

torch.testing.assert_close(read_off, whole)
torch.testing.assert_close(slopes[0], slopes[1])
torch.testing.assert_close(series(torch.eye(30).double()).sum(), exact, atol=1e-3, rtol=0)
assert (sign == 1).all()
assert abs(estimate.mean() - exact) < 4 * error
assert abs(torch.linalg.slogdet(wide).logabsdet - 1000 * math.log(0.4)) < 0.01

# %%
# Where next
# ----------
#
# ``det`` where a matrix is singular: :ref:`singular-matrices`. A Jacobian for each sample:
# :ref:`jacobian-per-sample`. The flow as an ODE: :ref:`ode-adjoint`.
#
# .. asked: log determinant of the Jacobian; normalising flow; change of variables;
#    RealNVP; log det J expensive; flow likelihood; triangular Jacobian
