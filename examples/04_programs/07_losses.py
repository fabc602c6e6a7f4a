r"""
.. _what-losses-send:

What a loss sends into the network
==================================

You fit a line to measurements, and three of them are wrong by a lot. With a mean of
squares the line leaves all the good points to get closer to the bad ones. With another
loss the line stays with the good points. But a network never sees the loss itself. It
sees only one tensor, the ``v`` that arrives at its predictions when you call
``loss.backward()``. So if one loss does better than another, the reason must be visible
in ``v``. On this page we look at the ``v`` of several losses.
"""

# %%
# The same points, three losses
# -----------------------------
#
# We take twenty measurements of :math:`1+2x`, of which the last three are wrong:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same measurements on every build
x = torch.linspace(0, 1, 20)
measured = 1 + 2 * x + 0.05 * torch.randn(20)
measured[-3:] -= 3.0


def fit(loss, steps=800):
    line = torch.zeros(2, requires_grad=True)  # height and slope
    optimizer = torch.optim.Adam([line], lr=0.02)
    for _ in range(steps):
        predicted = line[0] + line[1] * x
        optimizer.zero_grad()
        loss(predicted, measured).backward()
        optimizer.step()
    return line.detach()


losses = {"squares": F.mse_loss, "absolute": F.l1_loss, "Huber": F.huber_loss}
lines = {name: fit(loss) for name, loss in losses.items()}
for name, (height, slope) in lines.items():
    print(f"{name:9} {height:5.2f} + {slope:5.2f} x")

# %%
# The line that we want is :math:`1+2x`. The line from the absolute errors comes close to
# it, and the line from the squares fits neither the good points nor the bad ones:

import matplotlib.pyplot as plt

plt.plot(x, measured, "o")
for (name, (height, slope)), dashes in zip(lines.items(), ("-", "--", ":"), strict=True):
    plt.plot(x, height + slope * x, dashes, label=name)
plt.title("Three losses, and three bad points at the end")
legend = plt.legend()

# %%
# What is v in each of them?
# --------------------------
#
# ``loss.backward()`` first works out the derivative of the loss with respect to the
# predictions, and passes it on to the line as ``v``. We ask for ``v`` at the true line. Of
# the twenty points, 17 lie nearly on this line, and three lie 3 below it:

truth = (1 + 2 * x).requires_grad_()
sent = {}
for name, loss in losses.items():
    (sent[name],) = torch.autograd.grad(loss(truth, measured), truth)
    good, bad = sent[name][:-3], sent[name][-3:]
    print(f"{name:9} good {good.abs().mean():.4f}   bad {bad.abs().mean():.4f}")

# %%
# With squares, the ``v`` of a bad point is about sixty times as large as the ``v`` of a
# good one. Each entry is twice the error, divided by the number of points, and it grows
# without limit. With absolute errors the ``v`` of every point has the absolute value 1/20,
# whether the point is off by little or by a lot. Huber's loss is in between. Its ``v`` is
# the error, divided by the number of points, as long as the error is below 1 in absolute
# value, and beyond that it stays at the same absolute value.
#
# .. admonition:: Before you read on
#
#    You double the number of measurements, with the same kind of errors. How does each
#    entry of ``v`` change for ``F.mse_loss``, and how does it change with
#    ``reduction="sum"``?
#
# .. dropdown:: Answer
#
#    With the mean each entry is halved, because it is divided by twice as many points.
#    With the sum each entry stays as it was, and the weights receive twice as much in
#    total. Therefore a learning rate that suits the mean does not suit the sum.
#
# The v of a classification loss
# ------------------------------
#
# A network that chooses between three classes returns three numbers for each sample,
# which are called the logits. ``F.cross_entropy`` turns them into probabilities and takes
# the logarithm of one of them. Its ``v`` is simpler than the loss itself: **the
# probabilities, minus 1 at the true class, divided by the number of samples**.

logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]], requires_grad=True)
classes = torch.tensor([0, 1])  # the first sample is nearly right, the second is wrong
F.cross_entropy(logits, classes).backward()
by_hand = (logits.detach().softmax(1) - F.one_hot(classes, 3)) / 2
print(logits.grad)
print(by_hand)

# %%
# Each row adds up to 0. If you step against this gradient, the logit of the true class
# rises and the others fall, most of all the logit of the class to which the network gives
# the largest probability. For the second sample the network is confident and wrong, and
# so its row is nearly as large as the row of one sample can be. When the network gets a
# sample right, its row becomes small.
#
# A list of losses and their v
# ----------------------------
#
# Let ``t`` be the target, ``N`` the number of all entries of ``y``, and ``B`` the number of
# samples. Let ``p`` be the probabilities, ``y.softmax(1)`` or, for binary decisions,
# ``y.sigmoid()``, and let ``k`` be the class weight of each sample. For each line of the
# list, we compare two gradients of a layer: the gradient from ``loss.backward()``, and the
# gradient from ``y.backward(v)``, where ``v`` is the formula.

B, N = 4, 12
X, layer = torch.randn(B, 5), nn.Linear(5, 3)
t, binary = torch.randn(B, 3), torch.rand(B, 3).round()
labels = torch.tensor([0, 2, 1, 1])
true = F.one_hot(labels, 3).float()
soft = 0.9 * true + 0.1 / 3
weight = torch.tensor([1.0, 2.0, 5.0])
k = weight[labels, None]

pairs = {
    "mse_loss: 2(y - t)/N": (
        lambda y: F.mse_loss(y, t),
        lambda y: 2 * (y - t) / N,
    ),
    "mse_loss, sum: 2(y - t)": (
        lambda y: F.mse_loss(y, t, reduction="sum"),
        lambda y: 2 * (y - t),
    ),
    "l1_loss: sign(y - t)/N": (
        lambda y: F.l1_loss(y, t),
        lambda y: (y - t).sign() / N,
    ),
    "huber_loss: clamp(y - t, -1, 1)/N": (
        lambda y: F.huber_loss(y, t),
        lambda y: (y - t).clamp(-1, 1) / N,
    ),
    "cross_entropy: (p - one_hot)/B": (
        lambda y: F.cross_entropy(y, labels),
        lambda y: (y.softmax(1) - true) / B,
    ),
    "  label smoothing: (p - soft)/B": (
        lambda y: F.cross_entropy(y, labels, label_smoothing=0.1),
        lambda y: (y.softmax(1) - soft) / B,
    ),
    "  class weights: k(p - one_hot)/k.sum()": (
        lambda y: F.cross_entropy(y, labels, weight=weight.to(y)),
        lambda y: k * (y.softmax(1) - true) / k.sum(),
    ),
    "BCE with logits: (p - t)/N": (
        lambda y: F.binary_cross_entropy_with_logits(y, binary),
        lambda y: (y.sigmoid() - binary) / N,
    ),
    "distillation by kl_div: (p - soft)/B": (
        lambda y: F.kl_div(y.log_softmax(1), soft, reduction="batchmean"),
        lambda y: (y.softmax(1) - soft) / B,
    ),
}


def weights_after(backward):
    layer.zero_grad()
    y = layer(X)
    backward(y)
    return layer.weight.grad.clone()


for name, (loss, formula) in pairs.items():
    by_loss = weights_after(lambda y, loss=loss: loss(y).backward())
    by_v = weights_after(lambda y, v=formula: y.backward(v(y).detach()))
    print(f"{name:40}{torch.allclose(by_loss, by_v, atol=1e-6)}")

# %%
# Note the divisor of each loss. Cross-entropy with class indices divides by the number of
# targets. Here there is one target for each sample, but if each pixel or token has its own
# target, the loss divides by the number of pixels or tokens. Binary cross-entropy divides
# by the number of all entries, which is three times as large here. With class weights,
# cross-entropy divides by the sum of the weights of the samples in the batch, in which a
# sample with ``ignore_index`` has the weight 0. If the targets are probabilities instead of
# indices, the class weights only multiply, and the loss still divides by the number of
# samples. You cannot combine the lines for label smoothing and for class weights as they
# stand: with label smoothing, a class weight also multiplies the smoothed part of each
# other class.
#
# The formulas in the list hold if ``t`` has the shape of ``y``. If ``y`` is ``(4, 1)``
# and ``t`` is ``(4,)``, they broadcast to 16 numbers, and PyTorch warns.
#
# The logarithm or the root of a loss
# -----------------------------------
#
# People also minimize the logarithm of a loss, or its root (RMSE). This multiplies all of
# ``v`` by one number, :math:`1/L` or :math:`1/(2\sqrt L)`, so the direction stays the same,
# and the length changes as the loss falls. If the loss is 0, this number is infinite. In
# float16 a loss soon becomes 0, because the square of an error of 0.0001 rounds to 0. Here
# is the first row of ``v`` at a loss of 0, for the loss itself, then for its logarithm, and
# then for its root:

perfect = layer(X).detach().requires_grad_()
for g in (torch.clone, torch.log, torch.sqrt):
    (v,) = torch.autograd.grad(g(F.mse_loss(perfect, perfect.detach())), perfect)
    print(f"{g.__name__:6}", v[0].tolist())

# %%
# What to watch for
# -----------------
#
# **A softmax in front of cross_entropy.** The loss expects logits and contains a softmax.
# With a second softmax the program runs, and its loss falls a little. But with three
# classes the loss cannot fall below :math:`\log(1+2/e)`. And if the network is sure of a
# *wrong* class, ``v`` is at its largest with one softmax, but next to nothing with two:

sure = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
right, wrong = torch.tensor([0]), torch.tensor([1])
for name, y in (("one softmax", sure), ("two", sure.softmax(1))):
    (v,) = torch.autograd.grad(F.cross_entropy(y, wrong), sure, retain_graph=True)
    least = F.cross_entropy(y, right).item()
    print(f"{name:12} loss if right {least:.2f}   v if wrong", v[0].numpy().round(4) + 0.0)

# %%
# **A target that comes from the network.** A target needs no gradient. In Q-learning the
# same network computes the target, and then the target has a gradient, too. This gradient
# pulls the target toward the prediction, as strongly as the prediction is pulled toward
# the target. So ``detach`` the target. Here we compare the two gradients without a
# ``detach``:

prediction, target = (torch.randn(3, requires_grad=True) for _ in range(2))
of_both = torch.autograd.grad(F.mse_loss(prediction, target), (prediction, target))
torch.equal(of_both[0], -of_both[1])

# %%
# .. admonition:: Try it
#
#    You want the good points to count as with squares, and a point that is off by more
#    than 1 not to count at all. Which ``v`` is that? Use it for the line, without writing
#    a loss.
#
# .. dropdown:: Answer
#
#    Up to the factor of 2 from the square, it is the error where the error is at most 1 in
#    absolute value, and 0 elsewhere, divided by the number of points. You don't need a loss
#    to train: ``predicted.backward(v)`` is enough. Start from a line that is roughly right,
#    because far away from the points all of ``v`` is 0:

line = lines["Huber"].clone().requires_grad_()
optimizer = torch.optim.Adam([line], lr=0.02)
for _ in range(800):
    predicted = line[0] + line[1] * x
    error = (predicted - measured).detach()
    optimizer.zero_grad()
    predicted.backward(torch.where(error.abs() <= 1, error, 0) / 20)
    optimizer.step()
print(f"{line[0]:.2f} + {line[1]:.2f} x")

# %%
# .. dropdown:: How we checked this page
#
#    We compare each formula in the list with difference quotients of its loss in float64,
#    entry by entry. We check that each row of the ``v`` of cross-entropy adds up to 0 and
#    is negative only at the true class. We compare the gradients of the logarithm and the
#    root with the factors above, and the fitted lines with the line that we want.

torch.testing.assert_close(logits.grad, by_hand)
assert (by_hand.sum(1).abs() < 1e-6).all()
assert torch.equal(by_hand < 0, F.one_hot(classes, 3).bool())
wanted = torch.tensor([1.0, 2.0])
off = {name: (found - wanted).abs().max().item() for name, found in lines.items()}
assert off["absolute"] < 0.15 < off["Huber"] < off["squares"]
assert (line.detach() - wanted).abs().max() < 0.15
good, bad = sent["squares"][:-3].abs().mean(), sent["squares"][-3:].abs().mean()
assert 55 < bad / good < 70
for name, formula in {
    "squares": lambda e: 2 * e / 20,
    "absolute": lambda e: e.sign() / 20,
    "Huber": lambda e: e.clamp(-1, 1) / 20,
}.items():
    torch.testing.assert_close(sent[name], formula(truth - measured).detach())

L = F.mse_loss(layer(X), t).item()
plain = weights_after(lambda y: F.mse_loss(y, t).backward())
log = weights_after(lambda y: F.mse_loss(y, t).log().backward())
root = weights_after(lambda y: F.mse_loss(y, t).sqrt().backward())
torch.testing.assert_close(log, plain / L)
torch.testing.assert_close(root, plain / (2 * L**0.5))

t, binary, true, soft = (z.double() for z in (t, binary, true, soft))
y = layer(X).detach().double()
for name, (loss, formula) in pairs.items():
    steps = 1e-6 * torch.eye(N).double().reshape(N, B, 3)
    quotients = [(loss(y + s) - loss(y - s)) / 2e-6 for s in steps]
    torch.testing.assert_close(torch.stack(quotients).reshape(B, 3), formula(y), msg=name)
least = F.cross_entropy(sure.softmax(1), right).item()
assert abs(least - torch.log(1 + 2 / torch.tensor(1.0).exp()).item()) < 1e-4

# %%
# **Next:** To weight losses of your own, read :ref:`loss-as-v`. :ref:`upstream` shows what
# a network does with the ``v`` that it receives. If your loss is computed outside PyTorch,
# read :ref:`external-loss`. More questions about losses are answered in
# :ref:`answers-losses`.
#
# .. asked: gradient of mse loss; gradient of cross entropy; derivative of softmax cross
#    entropy with respect to logits; what gradient does the loss send back; residual as
#    gradient; derivative of L1, Huber and BCE loss
# .. words: prediction minus target, p - y, softmax minus one-hot, error signal, why this
#    loss is slow, saturate, derivative of the loss
