r"""
.. _backward-of-normalisation:

What is the backward of BatchNorm and LayerNorm, and where do I go wrong?
=========================================================================

You derive the backward of BatchNorm by hand, and your result does not agree with PyTorch.
It should be :math:`\gamma v/\sigma`, minus its mean over the batch, and minus its part
along the normalised values. The common mistake is to stop at :math:`\gamma v/\sigma`. But
mean and variance are computed from ``x``, too. Only in ``eval()`` mode are they constants.
LayerNorm is the same along the other axis.
"""

# %%
# We take one feature at N samples, so that ``x``, ``y`` and ``v`` have shape ``(N,)``. The
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
# The gradients of the weights come first. :math:`\beta` was copied to all samples, so its
# gradient is the sum of ``v`` over the batch. :math:`\gamma` was multiplied by :math:`\hat
# x`, which makes its gradient the sum of :math:`v\hat x`. We print that of :math:`\gamma`,
# then that of :math:`\beta`, and whether they agree with PyTorch:

sigma = (X.var(0, correction=0) + eps).sqrt().detach()
X_hat = ((X - X.mean(0)) / sigma).detach()
for own, other in zip(((V * X_hat).sum(0), V.sum(0)), theirs[1:], strict=True):
    print(own.numpy().round(4), torch.allclose(own, other))

# %%
# The gradient with respect to x
# ------------------------------
#
# *I treat mean and variance as constants.* Then your gradient is wrong, though its shape is
# right. We print whether it agrees, and the largest error:

G = gamma.detach() * V / sigma
print(torch.allclose(G, theirs[0]), f"{(G - theirs[0]).abs().max():.2f}")

# %%
# So we differentiate them as well. By the product rule, :math:`d\hat
# x=\frac1\sigma(dx-d\mu)-\hat x\,\frac{d\sigma}\sigma`, with :math:`d\mu=\frac1N\sum
# dx_i` and :math:`d\sigma=\frac1N\sum\hat x_i\,dx_i`. Together,
#
# .. math::
#
#    \sigma\,d\hat x=\Bigl(I-\tfrac1N\mathbf 1\mathbf 1^\top
#    -\tfrac1N\hat x\hat x^\top\Bigr)dx .
#
# This matrix is its own transpose. On the way back, :math:`\gamma v/\sigma` is therefore
# multiplied by the same matrix. It removes the mean, and then the part along :math:`\hat
# x`. Only with both do we agree with PyTorch:

by_mean = G - G.mean(0)
both = by_mean - X_hat * (G * X_hat).mean(0)
for name, own in {"constants": G, "mean": by_mean, "mean and variance": both}.items():
    print(f"{name:18}{torch.allclose(own, theirs[0])}")

# %%
# What does this tell us about the numbers? The gradient of the sum of ``y`` is 0,
# whatever :math:`\gamma` is (:ref:`zeros-and-equal-rows`). The rows of ``x.grad`` add up
# to 0 for every ``v``, because the output does not change if we move all samples by the
# same amount. It does not change either if we stretch them, except for
# :math:`\varepsilon`. So ``x.grad`` has almost no part along :math:`\hat x`, and the last
# line says that it is below 1e-4, but not below 1e-12:

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
# LayerNorm takes the mean over the features of one sample. There :math:`\gamma` differs
# from entry to entry. You have to multiply by it first, and then remove the mean and the
# part along :math:`\hat x`. Its weights are still summed over the samples. We compare the
# gradients with respect to ``Z`` and to ``scale``:


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
# *What about RMSNorm?* It subtracts no mean on the way forward, and none is removed on the
# way back:

normed = nn.functional.rms_norm(Z, (3,), scale, eps=eps)
rms = (Z.square().mean(1, keepdim=True) + eps).sqrt()
G_rms, Z_rms = W * scale / rms, Z / rms
by_hand = G_rms - Z_rms * (G_rms * Z_rms).mean(1, keepdim=True)
print(torch.allclose(by_hand, torch.autograd.grad(normed, Z, W)[0]))

# %%
# In ``eval()``, BatchNorm does have constants, which are the running statistics. In a
# fresh layer the running variance is 1 and the running mean is 0:

layer = nn.BatchNorm1d(d, eps=eps, affine=False).double().eval()
(in_eval,) = torch.autograd.grad(layer(X), X, V)
print(torch.allclose(in_eval, V / (1 + eps) ** 0.5))

# %%
# What goes wrong
# ---------------
#
# *My result is nearly right.* The variance inside the layer divides by N, while ``x.var()``
# divides by N − 1. Only the *running* variance is computed with N − 1, as the last line
# shows. With N, and with ε under the root, the formula is exact:

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
# *My batch has one sample.* Then the variance is 0, and so is :math:`\hat x`. So the
# gradients with respect to ``x`` and :math:`\gamma` would be 0 for every ``v``, and PyTorch
# raises. One *image* with more than one pixel is a different case, because ``BatchNorm2d``
# takes mean and variance over the pixels, too:

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
# :ref:`deriving-vjps` derives other rules. :ref:`mixing-samples` is about samples that
# mix, :ref:`functional-buffers` about the running statistics, and :ref:`custom-function`
# shows how to write your own Function.
#
# .. asked: derive batch norm backward; layer norm gradient; backward of normalisation;
#    derivative of mean and variance; batchnorm gradient by hand
# .. words: batchnorm by hand, mean, variance, std, three terms, cs231n, layer norm, rms
#    norm, formula
