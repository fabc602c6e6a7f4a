r"""
.. _backward-of-normalisation:

What is the backward of BatchNorm and LayerNorm, and where do I go wrong?
=========================================================================

You derive the backward rule of BatchNorm by hand, and your result does not agree with
PyTorch. To get the gradient with respect to ``x``, take :math:`\gamma v/\sigma`, subtract
its mean over the batch, and subtract its component along the normalized values. The common
mistake is to stop at :math:`\gamma v/\sigma`, as if the mean and the variance were
constants. But they, too, depend on ``x``, except in ``eval()`` mode. The backward rule of
LayerNorm is the same along the other axis.
"""

# %%
# We take one feature of N samples, so that ``x``, ``y`` and ``v`` have shape ``(N,)``. The
# layer computes :math:`\hat x=(x-\mu)/\sigma` and :math:`y=\gamma\hat x+\beta`, with
# :math:`\sigma^2=\frac1N\sum_i(x_i-\mu)^2+\varepsilon`. In the code there are d features,
# one in each column of ``X``, which has shape ``(N, d)``:

import torch
from torch import nn

torch.manual_seed(0)  # the same numbers on every build
N, d, eps = 6, 2, 1e-5
X = torch.randn(N, d, dtype=torch.float64, requires_grad=True)
gamma = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
beta = torch.zeros(d, dtype=torch.float64, requires_grad=True)
V = torch.randn(N, d, dtype=torch.float64)
Y = nn.functional.batch_norm(X, None, None, gamma, beta, training=True, eps=eps)
theirs = torch.autograd.grad(Y, (X, gamma, beta), V)

# %%
# We begin with the gradients with respect to the weights. :math:`\beta` is added to all
# samples, so the gradient with respect to :math:`\beta` is the sum of ``v`` over the
# batch. :math:`\gamma` is multiplied by :math:`\hat x`, so the gradient with respect to
# :math:`\gamma` is the sum of :math:`v\hat x`. We print the gradient with respect to
# :math:`\gamma` and then the gradient with respect to :math:`\beta`. For each of them, we
# also print whether it agrees with the gradient from PyTorch:

sigma = (X.var(0, correction=0) + eps).sqrt().detach()
X_hat = ((X - X.mean(0)) / sigma).detach()
for own, other in zip(((V * X_hat).sum(0), V.sum(0)), theirs[1:], strict=True):
    print(own.numpy().round(4), torch.allclose(own, other))

# %%
# The gradient with respect to x
# ------------------------------
#
# *I treat the mean and the variance as constants.* In that case your gradient is wrong,
# though its shape is right. We print whether your gradient agrees with the gradient from
# PyTorch, and the largest error:

G = gamma.detach() * V / sigma
print(torch.allclose(G, theirs[0]), f"{(G - theirs[0]).abs().max():.2f}")

# %%
# So we differentiate the mean and the variance as well. By the product rule, :math:`d\hat
# x=\frac1\sigma(dx-d\mu)-\hat x\,\frac{d\sigma}\sigma`, with :math:`d\mu=\frac1N\sum
# dx_i` and :math:`d\sigma=\frac1N\sum\hat x_i\,dx_i`. Together, these equations give
#
# .. math::
#
#    \sigma\,d\hat x=\Bigl(I-\tfrac1N\mathbf 1\mathbf 1^\top
#    -\tfrac1N\hat x\hat x^\top\Bigr)dx .
#
# The matrix in parentheses is its own transpose. In the backward pass, :math:`\gamma
# v/\sigma` is therefore multiplied by the same matrix, which removes the mean and the
# component along :math:`\hat x`. Our gradient agrees with the gradient from PyTorch only
# if we remove both of these:

by_mean = G - G.mean(0)
both = by_mean - X_hat * (G * X_hat).mean(0)
for name, own in {"constants": G, "mean": by_mean, "mean and variance": both}.items():
    print(f"{name:18}{torch.allclose(own, theirs[0])}")

# %%
# What does this formula tell us about the gradient? The gradient of the sum of ``y`` is 0,
# whatever :math:`\gamma` is (:ref:`zeros-and-equal-rows`). The rows of ``x.grad`` add up to
# 0 for every ``v``, because the output does not change if we shift all samples by the same
# amount. If we multiply all samples by the same positive factor, the output hardly changes
# either, and would not change at all if :math:`\varepsilon` were 0. So ``x.grad`` is almost
# orthogonal to :math:`\hat x`. The last line of the output says that their inner product is
# below 1e-4, but not below 1e-12:

(of_sum,) = torch.autograd.grad(
    nn.functional.batch_norm(X, None, None, gamma, beta, training=True).sum(), X
)
along = (theirs[0] * X_hat).sum(0)
print(*(bool(t.abs().max() < 1e-12) for t in (of_sum, theirs[0].sum(0))))
print(*(bool(along.abs().max() < bound) for bound in (1e-4, 1e-12)))

# %%
# LayerNorm, and eval mode
# ------------------------
#
# LayerNorm takes the mean over the features of one sample, and :math:`\gamma` has a
# different entry for each of these features. So you have to multiply ``v`` by
# :math:`\gamma` first, and then remove the mean and the component along :math:`\hat x`.
# The gradients with respect to the weights are still sums over the samples. We print
# whether the gradients with respect to ``Z`` and to ``scale`` agree with the gradients
# from PyTorch:


def projected(G, X_hat, axis):
    G = G - G.mean(axis, keepdim=True)
    return G - X_hat * (G * X_hat).mean(axis, keepdim=True)


scale = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64, requires_grad=True)
Z, W = (torch.randn(4, 3, dtype=torch.float64) for _ in range(2))
Z.requires_grad_()
normed = nn.functional.layer_norm(Z, (3,), scale, eps=eps)
by_input, by_scale = torch.autograd.grad(normed, (Z, scale), W)
s = (Z.var(1, correction=0, keepdim=True) + eps).sqrt().detach()
Z_hat = ((Z - Z.mean(1, keepdim=True)) / s).detach()
print(torch.allclose(projected(W * scale / s, Z_hat, 1), by_input))
print(torch.allclose((W * Z_hat).sum(0), by_scale))

# %%
# *What about RMSNorm?* RMSNorm subtracts no mean in the forward pass, and so no mean is
# removed in the backward pass:

normed = nn.functional.rms_norm(Z, (3,), scale, eps=eps)
rms = (Z.square().mean(1, keepdim=True) + eps).sqrt()
G_rms, Z_rms = W * scale / rms, Z / rms
by_hand = G_rms - Z_rms * (G_rms * Z_rms).mean(1, keepdim=True)
print(torch.allclose(by_hand, torch.autograd.grad(normed, Z, W)[0]))

# %%
# In ``eval()`` mode, BatchNorm uses the running statistics as its mean and variance, and
# these are constants. In a fresh layer the running variance is 1 and the running mean is 0:

layer = nn.BatchNorm1d(d, eps=eps, affine=False).double().eval()
(in_eval,) = torch.autograd.grad(layer(X), X, V)
print(torch.allclose(in_eval, V / (1 + eps) ** 0.5))

# %%
# What goes wrong
# ---------------
#
# *My result is nearly right.* For the variance with which it normalizes the batch, the
# layer divides by N, whereas ``x.var()`` divides by N − 1. Only the *running* variance is
# computed with N − 1, as the last line of the output shows. If you divide by N, and add ε
# under the root, the formula is exact:

wrong = X.std(0).detach()
wrong_hat = ((X - X.mean(0)) / wrong).detach()
off = projected(gamma.detach() * V / wrong, wrong_hat, 0)
for name, own in {"N - 1": off, "N": both}.items():
    error = (own - theirs[0]).abs().max()
    print(name, f"{error:.2f}", bool(error < 1e-12))
layer = nn.BatchNorm1d(d, momentum=1.0).double()  # it remembers only the last batch
layer(X)
print("running, N - 1:", torch.allclose(layer.running_var, X.var(0)))

# %%
# *My batch has one sample.* In that case the variance is 0, and so is :math:`\hat x`. So
# the gradients with respect to ``x`` and :math:`\gamma` would be 0 for every ``v``. PyTorch
# raises an error instead. A single *image* with more than one pixel is a different case,
# because ``BatchNorm2d`` takes the mean and the variance over the pixels as well as over
# the samples:

try:
    nn.BatchNorm1d(2)(torch.ones(1, 2))
except ValueError as error:
    print(error)
print(nn.BatchNorm2d(2)(torch.ones(1, 2, 5, 5)).shape)

# %%
# As a check without autograd, we compare our gradient with difference quotients of
# :math:`\langle V,Y\rangle`:

at, h = X.detach(), 1e-6
quotient = torch.zeros(N, d, dtype=torch.float64)
for i, j in torch.cartesian_prod(torch.arange(N), torch.arange(d)).tolist():
    for sign in (1, -1):
        moved = at.clone()
        moved[i, j] += sign * h
        y = nn.functional.batch_norm(moved, None, None, gamma, beta, training=True, eps=eps)
        quotient[i, j] += sign * (V * y).sum().item() / (2 * h)
torch.testing.assert_close(quotient, both, rtol=1e-6, atol=1e-7)

# %%
# Where next
# ----------
#
# To derive the rules of other functions, read :ref:`deriving-vjps`. :ref:`mixing-samples`
# is about layers that mix the samples of a batch, as BatchNorm does.
# :ref:`functional-buffers` is about the running statistics. To write a Function of your
# own, read :ref:`custom-function`.
#
# .. asked: derive batch norm backward; layer norm gradient; backward of normalisation;
#    derivative of mean and variance; batchnorm gradient by hand
# .. words: batchnorm by hand, mean, variance, std, three terms, cs231n, layer norm, rms
#    norm, formula
