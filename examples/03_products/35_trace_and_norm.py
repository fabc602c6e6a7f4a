r"""
.. _trace-and-norm:

Trace and norm of J from random v
=================================

You want the trace of J, or its norm, and J is too large to compute. Take products with
vectors ``v`` of random signs. The mean of :math:`v^\top J v` is the trace of J, and the
mean of :math:`\lVert v^\top J\rVert^2` is its squared Frobenius norm. A few products
estimate both numbers. The exact values take one product for each row of the
:term:`Jacobian`.
"""

# %%
# Why is that so? Let the entries of ``v`` be independent, each :math:`+1` or :math:`-1`
# with equal probability. Then :math:`E[v_iv_j]` is 1 for :math:`i=j` and 0 otherwise. So
# for a square J
#
# .. math::
#
#    E[v^\top J v]=\sum_{ij}E[v_iv_j]J_{ij}=\operatorname{tr}J,\qquad
#    E\lVert v^\top J\rVert^2=\sum_{ijk}E[v_iv_k]J_{ij}J_{kj}=\lVert J\rVert_F^2 .
#
# The first formula is Hutchinson's estimator (1990). Our example has 400 inputs and 400
# outputs, so ``x``, ``y`` and ``v`` have shape ``(n,)`` with n = 400:

import torch

n = 400
torch.manual_seed(0)  # the estimates are random; the seed makes this page repeatable
W = torch.randn(n, n, dtype=torch.float64) / n**0.5
d = torch.linspace(1, 2, n, dtype=torch.float64)


def f(x):
    return torch.tanh(W @ x) + d * x


x = torch.randn(n, dtype=torch.float64)
y, pull = torch.func.vjp(f, x)

# %%
# We take two hundred random ``v`` in one batch of products. Each row of ``rows`` is one
# :math:`v^\top J`:

signs = torch.randint(0, 2, (200, n)).double() * 2 - 1
(rows,) = torch.func.vmap(pull)(signs)
trace_samples = (rows * signs).sum(1)
norm_samples = (rows**2).sum(1)
rows.shape

# %%
# We compare the means of the samples with the exact values, which need all 400 rows:

J = torch.func.jacrev(f)(x)
print(f"trace  {J.trace():.1f}  estimate {trace_samples.mean():.1f}")
print(f"norm^2 {(J**2).sum():.1f}  estimate {norm_samples.mean():.1f}")

# %%
# How far off can such an estimate be? The standard error is the standard deviation of one
# sample, divided by :math:`\sqrt{200}`. Four times as many products halve the error:

error = trace_samples.std() / 200**0.5
print(f"standard error of the trace {error:.1f}")

# %%
# The picture shows how the estimate settles as products are added:

import matplotlib.pyplot as plt

count = torch.arange(1, 201)
figure, ax = plt.subplots(layout="constrained")
ax.plot(count, trace_samples.cumsum(0) / count)
ax.axhline(J.trace().item(), linestyle="--")
ax.set_xlabel("products taken")
title = ax.set_title("The mean of v'Jv settles on the trace of J (dashed)")

# %%
# In a continuous normalizing flow the logarithm of the density changes at the rate of
# *minus* this trace. For such a flow, one ``v`` for each solution of the differential
# equation is often enough, because the estimate is right on average.
#
# *How do I get the Laplacian of a function of 400 variables?* The Laplacian is the trace
# of the :term:`Hessian`, which is the Jacobian of the gradient. So products of the
# Hessian with the same random signs estimate the Laplacian:


def energy(x):
    return torch.logsumexp(2 * W @ x, 0) + (x**2).sum() / 2


_, times_hessian = torch.func.vjp(torch.func.grad(energy), x)
(hessian_rows,) = torch.func.vmap(times_hessian)(signs)
laplacian_samples = (hessian_rows * signs).sum(1)
laplacian = torch.func.hessian(energy)(x).trace()
print(f"exact {laplacian:.1f}  estimate {laplacian_samples.mean():.1f}")

# %%
# The exact divergence, at every point of a batch
# -----------------------------------------------
#
# If there are few coordinates, take all n products. Each product serves the whole batch, as
# long as the points do not mix. From the product for output i we keep only entry i, and the
# sum of these entries is the divergence. If you want to train on the divergence, you need
# ``create_graph=True``, as here:


def field(X):
    return torch.tanh(X @ W[:3, :3].T)


X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).requires_grad_()
Y = field(X)
parts = [
    torch.autograd.grad(Y[:, i].sum(), X, create_graph=True)[0][:, i] for i in range(3)
]
divergence = torch.stack(parts).sum(0)
divergence.shape

# %%
# You can also compute all of J for each point and take its diagonal. But if you pass ones
# for the whole output and sum the result over the columns, you get something else: the
# sum of all entries of each J, not only of the diagonal. That is why the second
# comparison below is False:

by_func = torch.func.vmap(torch.func.jacrev(field))(X).diagonal(dim1=1, dim2=2).sum(-1)
(columns,) = torch.autograd.grad(Y, X, torch.ones_like(Y), retain_graph=True)
print(torch.allclose(divergence, by_func), torch.allclose(columns.sum(1), by_func))

# %%
# *I want to penalize the norm of J in training.* Compute the row :math:`v^\top J` with
# ``create_graph=True`` and one random ``v`` for each step. The mean of its squared norm is
# the squared norm of J. Here we take the mean over the points and over all eight vectors
# ``v`` of three signs, which leaves nothing to chance:

weight = W[:3, :3].clone().requires_grad_()
Y = torch.tanh(X @ weight.T)
every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 3)
rows_of = [torch.autograd.grad(Y, X, v.expand(5, 3), create_graph=True)[0] for v in every]
penalty = torch.stack(rows_of).square().sum(2).mean()
print(penalty, torch.autograd.grad(penalty, weight)[0].norm())

# %%
# What goes wrong
# ---------------
#
# ``v = ones`` is not a random vector. With ones you get :math:`\mathbf 1^\top J\mathbf
# 1`, which is the sum of *all* entries, not of the diagonal:

ones = torch.ones(n, dtype=torch.float64)
print(f"{pull(ones)[0].sum():.1f} is the sum {J.sum():.1f}, the trace {J.trace():.1f}")

# %%
# *The diagonal of a Jacobian* is not cheap to compute in general. The mean of
# :math:`v\odot J^\top v` is the diagonal, but one sample of entry i is off by
# :math:`\sum_{j\ne i}v_iv_jJ_{ji}`. So the larger the other entries of column i are, the
# noisier the estimate of entry i is. Below are the errors that remain after two hundred
# samples, and the error that we expect from the columns:

estimate = (rows * signs).mean(0)
off = estimate - J.diagonal()
expected = ((J**2).sum(0) - J.diagonal() ** 2).sqrt() / 200**0.5
print(f"worst {off.abs().max():.2f}, typical {off.std():.3f}")
print(f"expected from the columns {expected.square().mean().sqrt():.3f}")

# %%
# If you know that J is diagonal, because no output depends on another's input, a ``v`` of
# ones gives the diagonal exactly. If J is banded, a few products are enough
# (:ref:`sparse-jacobian`). Otherwise the diagonal takes n products.
#
# As a check, we test whether the estimates lie within four standard errors of the exact
# values. We compare the products with the products of the whole J, the penalty with its
# exact value, and the divergence with a formula:

assert abs(trace_samples.mean() - J.trace()) < 4 * error
norm_error = norm_samples.std() / 200**0.5
assert abs(norm_samples.mean() - (J**2).sum()) < 4 * norm_error
laplacian_error = laplacian_samples.std() / 200**0.5
assert abs(laplacian_samples.mean() - laplacian) < 4 * laplacian_error
torch.testing.assert_close(rows, signs @ J)
exact = torch.func.vmap(torch.func.jacrev(field))(X).square().sum((1, 2)).mean()
torch.testing.assert_close(penalty, exact)
torch.testing.assert_close(divergence, (1 - Y**2) @ W[:3, :3].diagonal())
torch.testing.assert_close(columns, (1 - Y**2) @ W[:3, :3])
assert abs(off.std() / expected.square().mean().sqrt() - 1) < 0.2

# %%
# Where next
# ----------
#
# :ref:`hvp` is about curvature from products, and :ref:`sparse-jacobian` explains when a
# few products give *every* entry.
#
# .. asked: Hutchinson trace estimator; trace of the Jacobian with random vectors;
#    estimate the Frobenius norm of the Jacobian; random v; divergence estimate;
#    Rademacher probe; random vectors for the trace; estimate without the whole matrix;
#    what if v is random; Jacobian penalty cheap
# .. words: random probes, estimate, unbiased, variance, divergence, FFJORD, score matching,
#    stochastic, regulariser, sample few
