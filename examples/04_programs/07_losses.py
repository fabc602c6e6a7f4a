r"""
.. _what-losses-send:

What a loss sends into the network
==================================

You fit a line to measurements, and three of them are wrong by a lot. With a mean of squares
the line leaves all the good points to get closer to the bad ones. With another loss the
line stays with the good points. But a network never sees the loss itself. What it sees is
one tensor, the ``v`` that arrives at its predictions when you call ``loss.backward()``, and
so whatever one loss does better than another must be visible in ``v``. On this page we look
at the ``v`` of several losses.
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
# The line that we want is :math:`1+2x`. The absolute errors come close to it, and the
# squares find a line that fits nothing:

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
# predictions, and passes it on to the line as ``v``. We ask for it at the true line, where
# 17 points lie nearly on it and three are 3 below:

truth = (1 + 2 * x).requires_grad_()
sent = {}
for name, loss in losses.items():
    (sent[name],) = torch.autograd.grad(loss(truth, measured), truth)
    good, bad = sent[name][:-3], sent[name][-3:]
    print(f"{name:9} good {good.abs().mean():.4f}   bad {bad.abs().mean():.4f}")

# %%
# With squares a bad point has about sixty times the say of a good one: ``v`` is twice the
# error, divided by the number of points, and grows without limit. With absolute errors all
# points have the same say, 1/20, whether they are off by little or by a lot. Huber's loss
# is in between. Its ``v`` is the error as long as that is below 1, and then grows no more.
#
# .. admonition:: Before you read on
#
#    You double the number of measurements, with the same kind of errors. What becomes of
#    each entry of ``v`` for ``F.mse_loss``, and what for ``reduction="sum"``?
#
# .. dropdown:: Answer
#
#    With the mean each entry is halved, because it is divided by twice as many points. With
#    the sum it stays as it was, and the weights receive twice as much in total. Therefore a
#    learning rate that was found with one of them does not fit the other.
#
# The same for classification
# ---------------------------
#
# A network that chooses between three classes puts out three numbers for each sample, its
# logits. ``F.cross_entropy`` turns them into probabilities and takes the logarithm of one
# of them. Its ``v`` is simpler than the loss itself: **the probabilities, minus 1 at the
# true class, divided by the number of samples**.

logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]], requires_grad=True)
classes = torch.tensor([0, 1])  # the first sample is nearly right, the second is wrong
F.cross_entropy(logits, classes).backward()
by_hand = (logits.detach().softmax(1) - F.one_hot(classes, 3)) / 2
print(logits.grad)
print(by_hand)

# %%
# Each row adds up to 0: what the true class is pulled up is pushed down at the others, most
# at the one that the network believes in. The second sample is wrong with confidence, and
# sends nearly the most that one sample can send. As a sample comes right, its row fades.
#
# A list to look up
# -----------------
#
# Let ``t`` be the target, ``N`` the number of all entries of ``y``, and ``B`` the number of
# samples. Let ``p`` be the probabilities, ``y.softmax(1)`` or, for two-way decisions,
# ``y.sigmoid()``, and let ``k`` be the class weight of each sample. We try each line of the
# list: we compare the gradient of a layer that ``loss.backward()`` gives with the gradient
# that ``y.backward(v)`` gives, where the formula is passed as ``v``.

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
# Note what each of them divides by. Cross-entropy with class indices divides by the number
# of targets, which are the samples here, and all the pixels or tokens if each has a target
# of its own. The two-way loss divides by the number of all entries, here three times as
# many. Class weights divide by the sum of the weights of the samples that came; a sample
# with ``ignore_index`` counts as weight 0. If the targets are probabilities instead of
# indices, class weights multiply, and it still divides by the number of samples. Two lines
# of the list may not be combined as they stand: with label smoothing, a class weight also
# multiplies the smoothed part of each other class.
#
# The list wants ``t`` in the shape of ``y``. If ``y`` is ``(4, 1)`` and ``t`` is ``(4,)``,
# they broadcast to 16 numbers, and PyTorch warns.
#
# A function of the loss
# ----------------------
#
# People also minimise the logarithm of a loss, or its root (RMSE). This multiplies all of
# ``v`` by one number, :math:`1/L` or :math:`1/(2\sqrt L)`, so the direction stays, and the
# size changes as the loss falls. Where the loss is 0, there is no such number. In float16
# this happens soon, because the square of an error of 0.0001 rounds to 0:

perfect = layer(X).detach().requires_grad_()
for g in (torch.clone, torch.log, torch.sqrt):
    (v,) = torch.autograd.grad(g(F.mse_loss(perfect, perfect.detach())), perfect)
    print(f"{g.__name__:6}", v[0].tolist())

# %%
# What to watch for
# -----------------
#
# **A softmax in front of cross_entropy.** The loss expects logits and has a softmax of its
# own. With two of them the program runs, and its loss falls a little. But with three
# classes it cannot fall below :math:`\log(1+2/e)`. And where the network is sure of a
# *wrong* class, where one softmax sends its largest ``v``, two of them send next to
# nothing:

sure = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
right, wrong = torch.tensor([0]), torch.tensor([1])
for name, y in (("one softmax", sure), ("two", sure.softmax(1))):
    (v,) = torch.autograd.grad(F.cross_entropy(y, wrong), sure, retain_graph=True)
    least = F.cross_entropy(y, right).item()
    print(f"{name:12} loss if right {least:.2f}   v if wrong", v[0].numpy().round(4) + 0.0)

# %%
# **A target that comes from the network.** A target needs no gradient. If it has one, as in
# Q-learning where the same network computes it, it is pulled towards the prediction as
# strongly as the prediction towards it. ``detach`` it:

prediction, target = (torch.randn(3, requires_grad=True) for _ in range(2))
of_both = torch.autograd.grad(F.mse_loss(prediction, target), (prediction, target))
torch.equal(of_both[0], -of_both[1])

# %%
# .. admonition:: Try it
#
#    You want the good points to count as with squares, and a point that is more than 1 off
#    to count not at all. Which ``v`` is that? Use it for the line, without writing a loss.
#
# .. dropdown:: Answer
#
#    The error where it is at most 1, and 0 elsewhere, divided by the number of points. You
#    don't need a loss to train: ``predicted.backward(v)`` is enough. Start from a line that
#    is roughly right, because far away from the points all of ``v`` is 0:

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
#    Each formula in the list is compared with difference quotients of its loss in float64,
#    entry by entry. The rows of cross-entropy's ``v`` are added up, and its sign is
#    negative at the true class alone. Logarithm and root are compared with the factors
#    named, and the lines with the one that we want.

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
