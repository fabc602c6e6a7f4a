r"""
.. _what-losses-send:

Which v does a loss send into the network?
==========================================

The derivative of the loss by the predictions: for a mean of squares twice the residual
over N, for cross-entropy the predicted probabilities minus the true ones, over the number
of samples. Pass that tensor yourself, and ``y.backward(v)`` fills the weights as
``loss.backward()`` does.
"""

# %%
# ``y`` has shape ``(B, C)``, four samples and three outputs, and so has ``v``: it weighs
# every output of every sample. The weights of the layer see nothing of a loss but this
# tensor:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same data and weights on every build
X, layer = torch.randn(4, 5), nn.Linear(5, 3)
real, classes = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
binary, true = torch.rand(4, 3).round(), F.one_hot(classes, 3).float()
B, N = 4, 12

# %%
# Loss and v, side by side
# ------------------------
#
# ``p`` are the probabilities, ``y.softmax(1)`` or ``y.sigmoid()``. Every pair below is
# tried: the weights' gradient by ``loss.backward()`` against that by ``y.backward(v)``.

soft, t = 0.9 * true + 0.1 / 3, real
squares = lambda y: F.mse_loss(y, t, reduction="sum")
huber = lambda y: F.huber_loss(y, t)
pairs = {
    "MSE: 2(y - t)/N": (lambda y: F.mse_loss(y, t), lambda y: 2 * (y - t) / N),
    "MSE, sum: 2(y - t)": (squares, lambda y: 2 * (y - t)),
    "L1: sign(y - t)/N": (lambda y: F.l1_loss(y, t), lambda y: (y - t).sign() / N),
    "Huber: clamp(y - t, -1, 1)/N": (huber, lambda y: (y - t).clamp(-1, 1) / N),
}

# %%
# Classification. Note the B: cross-entropy divides by the targets, here one a sample, the
# binary one by all N entries:

pairs |= {
    "cross-entropy: (p - one_hot)/B": (
        lambda y: F.cross_entropy(y, classes),
        lambda y: (y.softmax(1) - true) / B,
    ),
    "label smoothing: (p - soft)/B": (
        lambda y: F.cross_entropy(y, classes, label_smoothing=0.1),
        lambda y: (y.softmax(1) - soft) / B,
    ),
}

# %%
# Two more that are a difference of probabilities:

pairs |= {
    "BCE with logits: (p - t)/N": (
        lambda y: F.binary_cross_entropy_with_logits(y, binary),
        lambda y: (y.sigmoid() - binary) / N,
    ),
    "distillation (KL): (p - soft)/B": (
        lambda y: F.kl_div(y.log_softmax(1), soft, reduction="batchmean"),
        lambda y: (y.softmax(1) - soft) / B,
    ),
}

# %%
# ``weight`` gives each sample the k of its class, and the sum of these k takes the place of
# B. ``ignore_index`` is k = 0:

costs = torch.tensor([1.0, 2.0, 5.0])
k = costs[classes, None]
pairs["class weights: k(p - one_hot)/k.sum()"] = (
    lambda y: F.cross_entropy(y, classes, weight=costs.to(y)),
    lambda y: k * (y.softmax(1) - true) / k.sum(),
)

# %%
# The trial:


def weights(backward):
    layer.zero_grad()
    y = layer(X)
    backward(y)
    return layer.weight.grad.clone()


for name, (loss, formula) in pairs.items():
    by_loss = weights(lambda y, loss=loss: loss(y).backward())
    by_v = weights(lambda y, formula=formula: y.backward(formula(y).detach()))
    print(f"{name:39}{torch.allclose(by_loss, by_v, atol=1e-6)}")

# %%
# *Is the v of MSE the residual?* Up to 2/N, the 2 from the square and the 1/N from the
# mean: twice as many outputs, half the ``v``. Every row of cross-entropy's ``v`` adds up to
# 0: a step raises the true logit, alone negative here, and lowers the others in proportion:

y = layer(X).detach()
v = (y.softmax(1) - true) / B
print(v.sum(1).abs().max().item() < 1e-6, torch.equal(v < 0, true.bool()))

# %%
# A function of a loss
# --------------------
#
# *Is the gradient of log L the gradient of L?* In direction, yes: the chain rule multiplies
# ``v`` by one number, 1/L for the logarithm, :math:`1/(2\sqrt L)` for the root (RMSE). At
# L = 0 that number is infinite, and log and root give NaN where L itself gives 0:

L = F.mse_loss(layer(X), t).item()
plain = weights(lambda y: F.mse_loss(y, t).backward())
log = weights(lambda y: F.mse_loss(y, t).log().backward())
root = weights(lambda y: F.mse_loss(y, t).sqrt().backward())
torch.testing.assert_close(log, plain / L)
torch.testing.assert_close(root, plain / (2 * L**0.5))
perfect = y.clone().requires_grad_()
for g in (torch.clone, torch.log, torch.sqrt):
    (v,) = torch.autograd.grad(g(F.mse_loss(perfect, y)), perfect)
    print(g.__name__, v[0].tolist())

# %%
# What goes wrong
# ---------------
#
# *I put a softmax in front of cross_entropy.* It takes logits, so that this squashes twice,
# without an error. At logits (20, 0, 0), first class true, the network is sure and right:

sure, first = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True), torch.tensor([0])
once = F.cross_entropy(sure, first)
twice = F.cross_entropy(sure.softmax(1), first)
print(f"{once:.2f} {twice:.2f}")

# %%
# With three classes it cannot fall below log(1 + 2/e), which is 0.55. And where the network
# is sure of a *wrong* class, where one softmax sends its largest ``v``, two send nothing:

for logits in (sure, sure.softmax(1)):
    (v,) = torch.autograd.grad(F.cross_entropy(logits, first + 1), sure)
    print(v.numpy().round(4) + 0.0)

# %%
# *Does the target need requires_grad?* No. With it, it gets a gradient too, by MSE minus
# that of the prediction. A target made by the network, as in Q-learning, is then pulled
# towards the prediction as hard as that towards it. ``detach`` it:

both = [torch.randn(3, requires_grad=True) for _ in range(2)]
of_y, of_t = torch.autograd.grad(F.mse_loss(*both), both)
print(torch.equal(of_t, -of_y))

# %%
# The check: ``v`` from difference quotients of each loss, in float64, entry by entry:

real, binary, true, soft = (z.double() for z in (real, binary, true, soft))
t, y = real, y.double()
for name, (loss, formula) in pairs.items():
    steps = 1e-6 * torch.eye(N).double().reshape(N, B, 3)
    quotients = [(loss(y + s) - loss(y - s)) / 2e-6 for s in steps]
    torch.testing.assert_close(torch.stack(quotients).reshape(B, 3), formula(y), msg=name)
assert twice > 0.5 > once

# %%
# Where next
# ----------
#
# Your own weights for losses: :ref:`loss-as-v`. Where the network continues:
# :ref:`upstream`. A loss from elsewhere: :ref:`external-loss`. NaN at a root:
# :ref:`masked-nan`.
#
# .. asked: gradient of mse loss; gradient of cross entropy; derivative of softmax cross
#    entropy with respect to logits; what gradient does the loss send back; residual as
#    gradient; derivative of L1, Huber and BCE loss
