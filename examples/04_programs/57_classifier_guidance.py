r"""
.. _classifier-guided-sampling:

Classifier guidance in a diffusion sampler: one gradient for each sample
========================================================================

A diffusion model draws pictures of anything. You want pictures of a certain class, and
you have a classifier. In each step of the sampler, the program computes the direction in
which the classifier becomes more certain, and moves each picture a little in this
direction. This line computes the direction: ``torch.autograd.grad(log_p.sum(), x)``. Why
is there a sum, if every picture needs its own gradient? And when would the sum give wrong
gradients?
"""

# %%
# Pictures of three classes
# -------------------------
#
# As in :ref:`score-distillation` our pictures have two pixels, so each is a point in the
# plane. There are three classes, which overlap a little:

import copy
import math
from itertools import pairwise

import torch
from torch import nn

# With float64 the printed digits are the same on every processor, but you can leave it
# out:
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)  # the same pictures and weights on every build
corners = 2 * math.pi * torch.tensor([0.25, 7 / 12, 11 / 12])
centres = torch.stack([corners.cos(), corners.sin()], dim=1)


def pictures(count):
    kind = torch.randint(0, 3, (count,))
    return centres[kind] + 0.35 * torch.randn(count, 2), kind


def noisy(x, t, noise):
    return torch.cos(math.pi / 2 * t) * x + torch.sin(math.pi / 2 * t) * noise


# %%
# Two networks look at a noisy picture and the time t. The *denoiser* guesses the noise,
# and knows nothing about classes. The *classifier* guesses the class. It, too, has to
# learn from noisy pictures, because in the sampler it will see noisy pictures. It
# contains a BatchNorm, as many classifiers do:

denoiser = nn.Sequential(
    *(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
)
classifier = nn.Sequential(
    *(nn.Linear(3, 64), nn.BatchNorm1d(64), nn.SiLU(), nn.Linear(64, 3))
)
both = [*denoiser.parameters(), *classifier.parameters()]
optimizer = torch.optim.Adam(both, lr=3e-3)
for _ in range(1000):
    (x, kind), t = pictures(256), torch.rand(256, 1)
    noise = torch.randn_like(x)
    seen = torch.cat([noisy(x, t, noise), t], dim=1)
    loss = nn.functional.mse_loss(denoiser(seen), noise)
    loss = loss + nn.functional.cross_entropy(classifier(seen), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for network in (denoiser, classifier):
    network.requires_grad_(False).eval()

# %%
# The two losses share no parameters, so one optimizer for their sum trains each network
# in the same way as two optimizers would. Afterwards both networks are frozen and in
# ``eval`` mode.
#
# The program
# -----------
#
# The sampler begins with pure noise and takes forty steps to a clean picture. In each
# step it guesses the noise, computes an estimate of the clean picture from this guess,
# and makes a picture from it that is a little less noisy than before. This is the *DDIM*
# sampler. The guidance changes the guess:


def guidance(classifier, x, t, wanted):
    """Return for each picture the gradient of log p(its class | the noisy picture)."""
    with torch.enable_grad():  # the sampler runs under no_grad
        x = x.detach().requires_grad_()
        log_p = classifier(torch.cat([x, t], dim=1)).log_softmax(dim=1)
        chosen = log_p.gather(1, wanted[:, None])  # (B, 1), one number for each picture
        return torch.autograd.grad(chosen, x, torch.ones_like(chosen))[0]


@torch.no_grad()
def sample(denoiser, classifier, wanted, scale, steps=40, guidance=guidance):
    x = torch.randn(len(wanted), 2, device=wanted.device)
    times = torch.linspace(0.98, 0.0, steps + 1)
    for now, after in pairwise(times):
        t = now.expand(len(x), 1)
        guess = denoiser(torch.cat([x, t], dim=1))
        sigma = torch.sin(math.pi / 2 * now)
        guess = guess - scale * sigma * guidance(classifier, x, t, wanted)
        clean = (x - sigma * guess) / torch.cos(math.pi / 2 * now)
        x = noisy(clean, after, guess)
    return x


# %%
# In ``guidance`` the output ``y`` is ``chosen``, with one number for each picture, and
# ``v`` is all ones. A ``v`` of ones asks for the gradient of the *sum* of these numbers,
# and many programs write ``autograd.grad(chosen.sum(), x)``, which gives the same
# gradient. This is right because the classifier looks at each picture separately. Only
# number i depends on the picture in row i, so row i of the gradient of the sum is the
# gradient of number i.
#
# What the scale of the guidance does
# -----------------------------------
#
# We ask for 900 pictures, 300 of each class, with different scales. A picture belongs to
# the class whose center is nearest. What share of the pictures belongs to the class that
# we wanted? And what share is outside all clouds, farther than 1.05 from every center? Of
# real pictures, one in a hundred is outside:

wanted = torch.arange(3).repeat(300)


def right(x):
    return (torch.cdist(x, centres).argmin(dim=1) == wanted).double().mean()


def outside(x):
    return (torch.cdist(x, centres).min(dim=1).values > 1.05).double().mean()


drawn = {}
for scale in (0, 0.5, 1, 4):
    torch.manual_seed(1)  # the same noise to begin with
    drawn[scale] = x = sample(denoiser, classifier, wanted, scale)
    print(f"scale {scale:3}  right {right(x):.2f}  outside {outside(x):.2f}")
real = outside(pictures(10_000)[0])
print(f"real pictures          outside {real:.2f}")

# %%
# Here are the samples in color:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 2, layout="constrained", figsize=(5.4, 5.6))
for ax, (scale, x) in zip(axes.flat, drawn.items(), strict=True):
    for k, colour in enumerate(["#7a3fb0", "#c2541a", "#1f8a70"]):
        ax.plot(*x[wanted == k].T, ".", color=colour, markersize=3)
    ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title=f"scale {scale}")
title = figure.suptitle("Samples, coloured by the class that we wanted")

# %%
# With scale 0 the sampler ignores our choice, and a third of the pictures are right by
# chance. With scale 0.5 many pictures end between the classes, and with scale 1 nearly
# all are right. With scale 4 the classifier is even more certain, but nearly a quarter of
# the pictures have left the clouds. They are where the classifier is most certain, and
# not where real pictures are.
#
# You could also put the scale into ``v``. ``scale * torch.ones_like(chosen)`` gives the
# gradients times the scale, because the product is linear in ``v``.
#
# What goes wrong
# ---------------
#
# **The mean instead of the sum.** With the mean, each entry of ``v`` is 1 divided by the
# batch size, so each of 900 pictures gets only a 900th of its guidance. The result depends
# on how many pictures you draw at once, and there is no message. Here are the results with
# the mean, at scale 1:


def by_mean(classifier, x, t, wanted):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        log_p = classifier(torch.cat([x, t], dim=1)).log_softmax(dim=1)
        return torch.autograd.grad(log_p.gather(1, wanted[:, None]).mean(), x)[0]


for count in (1, 3, 30, 900):  # pictures at once, the classes in turn
    torch.manual_seed(1)
    groups = torch.arange(3).repeat(300)[: max(count, 90)].split(count)
    near = [
        torch.cdist(sample(denoiser, classifier, group, 1, guidance=by_mean), centres)
        for group in groups
    ]
    part = (torch.cat(near).argmin(dim=1) == torch.cat(groups)).double().mean()
    print(f"{count:3} at once: right {part:.2f}")

# %%
# **A classifier in training mode.** In this mode BatchNorm subtracts the mean of the batch,
# and divides by its spread. Then each number in ``chosen`` depends on all pictures, and the
# gradient of the sum is no longer the gradient of each picture's own number. You can test
# this without any formula. Exchange the last picture for a different one, and see whether
# the guidance of the first picture changes. If the classifier has Dropout, and you try this
# in training mode, set the seed before each of the two calls, because otherwise the masks
# make a difference:


def first_changes(network):
    x, t = torch.randn(8, 2), torch.full((8, 1), 0.5)
    other = x.clone()
    other[-1] += 3.0
    one, two = (guidance(network, batch, t, wanted[:8])[0] for batch in (x, other))
    return not torch.allclose(one, two)


print("eval:  the first changes:", first_changes(classifier))
training = copy.deepcopy(classifier).train()
print("train: the first changes:", first_changes(training))
moved = not torch.equal(training[1].running_mean, classifier[1].running_mean)
print("and its running mean has moved:", moved)

# %%
# The last line of the output shows a second problem, which is why we have used a copy.
# The noisy pictures of the sampler have changed the running mean, and calling ``eval()``
# afterwards does not undo this. If you are not sure about a classifier,
# :func:`pullback.mixing` tells you which samples of a batch depend on each other. It
# calls the function that you pass, so call it in eval mode, as here, or pass a module,
# whose running mean it restores:

import pullback

t = torch.full((8, 1), 0.5)
pullback.mixing(lambda x: classifier(torch.cat([x, t], dim=1)), torch.randn(8, 2))

# %%
# **Sampling without a graph.** Samplers run under ``no_grad``, as ours does, so that
# forty steps don't keep forty graphs. Then the gradient of the classifier needs
# ``torch.enable_grad()`` around it. Under ``inference_mode`` this is not enough. There
# you need ``torch.inference_mode(False)``, and ``x.clone()`` in place of ``x.detach()``:


def guided_under(mode):
    with mode():
        try:
            guidance(classifier, torch.randn(3, 2), torch.full((3, 1), 0.5), wanted[:3])
            return "works"
        except RuntimeError as error:
            return str(error)


for mode in (torch.no_grad, torch.inference_mode):
    print(f"{mode.__name__}: {guided_under(mode)}")
with torch.inference_mode():
    x = torch.randn(3, 2)
    with torch.inference_mode(False):
        inside = guidance(classifier, x.clone(), torch.full((3, 1), 0.5), wanted[:3])
print("inference_mode(False) inside: works", inside.shape)

# %%
# **Without detach.** ``x.detach()`` in ``guidance`` lets each step begin with a new leaf.
# If you leave it out, and the sampler does not run under ``no_grad``, then ``x`` carries
# the graph of all earlier steps, and each step needs more memory than the one before.
#
# **A classifier that has only seen clean pictures** does not know noisy ones. Some
# programs then estimate the clean picture first, and pass this estimate to the
# classifier. The gradient then also goes through the denoiser, unless you cut it.
# :ref:`classifier-guidance` and :ref:`requires-grad-before-the-network` have both
# versions.
#
# *Classifier-free* guidance, which many large models use, needs no gradient. It moves the
# guess by a multiple of the difference between two guesses of the denoiser, with and
# without the class.
#
# .. admonition:: Try it
#
#    Ask for a picture that belongs to two classes at once: let ``chosen`` be the sum of
#    the log-probabilities of class 0 and class 1. Where do the pictures go? And where do
#    they go if you give the two classes the weights 2 and 1? You can write these weights
#    as a ``v`` of shape ``(B, 3)`` for ``log_p`` itself.
#
# .. dropdown:: Answer
#
#    They gather between the two clouds, where both classes are likely, and none is left
#    at class 2. They lie a little on the side of class 0, so the split is not even. With
#    the weights 2 and 1 all of them move to the side of class 0. Here are the shares in
#    percent:


def of_both(classifier, x, t, wanted):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        log_p = classifier(torch.cat([x, t], dim=1)).log_softmax(dim=1)
        v = torch.tensor(weights).expand_as(log_p)
        return torch.autograd.grad(log_p, x, v)[0]


for weights in ([1.0, 1.0, 0.0], [2.0, 1.0, 0.0]):
    torch.manual_seed(1)
    x = sample(denoiser, classifier, wanted, 1, guidance=of_both)
    nearest = torch.cdist(x, centres).argmin(dim=1).bincount(minlength=3)
    print("v", weights, " nearest to class 0, 1, 2:", (nearest / 9).round().int().tolist())

# %%
# .. dropdown:: How we checked this page
#
#    We compare the guidance of each picture with its guidance when it is alone, and with
#    the diagonal of the whole Jacobian. We compare the gradient for ones with the gradient
#    of the sum, and with the scale inside ``v``. We check that the numbers in the tables
#    lie within bounds.

x, t = torch.randn(6, 2), torch.rand(6, 1)
ours = guidance(classifier, x, t, wanted[:6])
for i in range(6):
    row = slice(i, i + 1)
    alone = guidance(classifier, x[row], t[row], wanted[row])
    torch.testing.assert_close(ours[row], alone)


def log_p(x):
    return classifier(torch.cat([x, t], dim=1)).log_softmax(dim=1)[range(6), wanted[:6]]


J = torch.func.jacrev(log_p)(x)  # (6, 6, 2)
torch.testing.assert_close(J[range(6), range(6)], ours)
torch.testing.assert_close(J.sum(dim=0), ours)
leaf = x.clone().requires_grad_()
(by_sum,) = torch.autograd.grad(log_p(leaf).sum(), leaf)
(scaled,) = torch.autograd.grad(log_p(leaf), leaf, torch.full((6,), 4.0))
torch.testing.assert_close(by_sum, ours)
torch.testing.assert_close(scaled, 4 * ours)
torch.testing.assert_close(6 * by_mean(classifier, x, t, wanted[:6]), ours)

assert [right(drawn[s]) > 0.95 for s in (0, 0.5, 1, 4)] == [False, False, True, True]
assert outside(drawn[4]) > 4 * outside(drawn[1]) > 4 * real
assert moved
assert guided_under(torch.no_grad) == "works" != guided_under(torch.inference_mode)
leaf = x.clone().requires_grad_()
kept = leaf - 0.1 * guidance(classifier, leaf, t, wanted[:6])
assert kept.grad_fn is not None  # not under no_grad, x has a history

# %%
# **Next:** The course explains a ``v`` of ones in :ref:`ones`, and samples that depend on
# each other in :ref:`when-ones-mislead`. In :ref:`score-distillation` the gradient goes on
# to the parameters of a scene.
#
# .. asked: classifier guidance; gradient of the classifier in a diffusion sampler;
#    guidance scale; cond_fn; gradient of log p(y given x); classifier-guided sampling;
#    gradient per sample in a sampler
# .. words: diffusion, sampler, guide, steer, class, noisy classifier, scale, conditional,
#    sum of log probs
