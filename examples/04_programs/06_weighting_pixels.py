r"""
.. _weighting-pixels:

Weighting pixels and segments in a segmentation loss
====================================================

You train a network to mark the cells on a microscope slide. The network marks every large
cell and overlooks most of the small ones, because a small cell has so few pixels that
missing it adds hardly anything to the loss. You would like every *cell* to count the same,
and not every pixel. To do this, keep one loss for each pixel and call
``losses.backward(v)``, where ``v`` is a map with the weight of every pixel.
"""

# %%
# The slides
# ----------
#
# We make our slides ourselves, so that we know what is on them. Each slide shows one large
# cell and up to five small ones, with noise that is as strong as the cells are bright.
# Three tensors belong to a batch of B slides: the images, of shape ``(B, 1, 32, 32)``, the
# ``target``, which says for each pixel whether it is background (0) or cell (1), and
# ``segment``, which says to which cell it belongs. The background is segment 0, and every
# cell of the batch has a number of its own. Nobody can tell exactly where a cell ends, so
# there is a rim around each with the target 255, which means *leave this pixel out*:

import torch
from torch import nn
from torch.nn.functional import cross_entropy

VOID = 255


def slides(count, generator):
    down, across = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    target = torch.zeros(count, 32, 32, dtype=torch.long)
    segment = torch.zeros_like(target)
    for i in range(count):
        for k, radius in enumerate((6.5, *5 * [1.5])):
            y, x = torch.randint(3, 29, (2,), generator=generator)
            distance = ((down - y) ** 2 + (across - x) ** 2).sqrt()
            rim, cell = distance < radius + 1.2, distance < radius
            if target[i][rim].any():
                continue  # something is there already
            target[i][rim], target[i][cell] = VOID, 1
            segment[i][cell] = 6 * i + k + 1
    noise = torch.randn(target.shape, generator=generator)
    return ((target == 1) + noise)[:, None], target, segment


images, target, segment = slides(100, torch.Generator().manual_seed(11))
area = segment.flatten().bincount()
print("pixels of the cells of the first slide:", area[1:7].tolist())

# %%
# A large cell has more than ten times as many pixels as a small one, unless the edge of the
# slide cuts it. (The zeros are small cells that would have touched another one and were
# left out.) If every pixel counts once, one large cell is worth more than ten small ones.
#
# The program
# -----------
#
# The training loop is an ordinary one, with one line that you may not have seen. With
# ``reduction="none"`` the cross-entropy is not averaged, so that ``losses`` has the shape
# ``(B, 32, 32)``, a loss for each pixel. It is not a number, so ``backward`` asks for a
# ``v`` of the same shape, and a function ``weigh`` makes it from the labels:


def train(weigh, steps=200):
    torch.manual_seed(0)  # the same network each time, to compare the weights
    network = nn.Sequential(
        *(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU()),
        *(nn.Conv2d(8, 8, 5, padding=2), nn.ReLU()),
        nn.Conv2d(8, 2, 1),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        images, target, segment = slides(8, generator)
        scores = network(images)  # (B, 2, 32, 32)
        losses = cross_entropy(scores, target, reduction="none", ignore_index=VOID)
        v = weigh(target, segment)  # (B, 32, 32), what each pixel counts
        optimizer.zero_grad()
        losses.backward(v / v.sum())
        optimizer.step()
    return network


# %%
# Dividing ``v`` by its sum makes the weights add up to 1. What is differentiated is then
# the *weighted mean* of the losses, whatever the size of the slides and of the batch.
#
# Three maps to compare
# ---------------------
#
# The first map counts every labelled pixel once. The second is a *class weight*. Background
# is common and cells are rare, so each pixel of a cell counts nine times. The third looks
# at the segments. Each cell as a whole is worth eighty pixels of background, so
# that a pixel of a cell with ``area`` pixels counts ``80 / area``. We compute one number
# for each segment, and ``worth[segment]`` puts it at each of its pixels:


def every_pixel(target, segment):
    return (target != VOID).float()


def by_class(target, segment):
    weight = torch.where(target == 1, 9.0, 1.0)
    return weight * (target != VOID)


def by_segment(target, segment):
    area = segment.flatten().bincount()
    worth = 80 / area.clamp(min=1)
    worth[0] = 1.0  # a pixel of the background
    return worth[segment] * (target != VOID)


# %%
# Here are the maps for one slide. No colour is a weight of 0, and the strongest violet is a
# weight of 8 or more:

maps = {"every pixel": every_pixel, "by class": by_class, "by segment": by_segment}

import matplotlib.pyplot as plt

i = 20  # a slide with five small cells
figure, axes = plt.subplots(2, 2, layout="constrained", figsize=(5.4, 5.8))
axes[0, 0].imshow(images[i, 0], cmap="Greys")
axes[0, 0].set_title("the slide")
for ax, (name, weigh) in zip(axes.flat[1:], maps.items(), strict=True):
    ax.imshow(weigh(target, segment)[i], cmap="Purples", vmin=0, vmax=8)
    ax.set_title(f"v, {name}")
for ax in axes.flat:
    ax.set_xticks([])
    ax.set_yticks([])

# %%
# In all three the rims have no colour, because those pixels count 0. By class, all cells
# are equally strong. By segment, the small ones stand out, and a pixel of the large cell
# counts no more than one of the background.
#
# What the network learns from each
# ---------------------------------
#
# We train three times, from the same weights and with the same slides. Then we ask each
# network about the hundred slides from the top, which it has not seen. A cell counts as
# found if at least half of its pixels are marked. Where background is marked, that is a
# false alarm. (The percentages of cells are rounded to the nearest five, because the last
# digits depend on the processor.)


def judge(p, threshold=0.5):
    marked = p > threshold
    hit = torch.zeros(len(area)).index_add_(0, segment.flatten(), 1.0 * marked.flatten())
    found = (hit >= area / 2)[area > 0][1:]  # without the first, which is background
    small = (area < 40)[area > 0][1:]
    alarms = marked[target == 0].float().mean()
    parts = found[small].float().mean(), found[~small].float().mean(), alarms
    return [part.item() for part in parts]


chances, results = {}, {}
print("cells found  small large false alarms")
for name, weigh in maps.items():
    chances[name] = train(weigh)(images).softmax(1)[:, 1].detach()
    results[name] = few, large, alarms = judge(chances[name])
    print(f"{name:12} {5 * round(20 * few)}%   {large:.0%}  {alarms:.0%}")

# %%
# With every pixel counted once, the network misses most of the small cells. Weights by
# class find twice as many, and pay for it with more false alarms. Weights by segment find
# still more of them, here for about the same number of false alarms. Here is what each
# network says about our slide, stronger where it is more certain of a cell:

figure, axes = plt.subplots(2, 2, layout="constrained", figsize=(5.4, 5.8))
axes[0, 0].imshow(torch.where(target[i] == VOID, 0.3, target[i]), cmap="Greys")
axes[0, 0].set_title("the labels, with rims")
for ax, (name, p) in zip(axes.flat[1:], chances.items(), strict=True):
    ax.imshow(p[i], cmap="Purples", vmin=0, vmax=1)
    ax.set_title(f"cell? {name}")
for ax in axes.flat:
    ax.set_xticks([])
    ax.set_yticks([])

# %%
# Would a threshold have done the same?
# -------------------------------------
#
# There is a cheaper way to find more cells. Keep the network that was trained with every
# pixel counted once, and mark a pixel as soon as the network gives it a smaller chance than
# one half. To be fair, we let the threshold of each network run from high to low, and draw
# how many small cells it finds against the false alarms. The dots are at one half:

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 4))
for name, p in chances.items():
    curve = [judge(p, 0.02 + 0.96 * k / 40) for k in range(41)]
    few, _, alarms = zip(*curve, strict=True)
    (line,) = ax.plot(alarms, few, label=name)
    ax.plot(*results[name][2::-2], "o", color=line.get_color())
ax.set(xlim=(0, 0.15), ylim=(0, 1), xlabel="false alarms", ylabel="small cells found")
ax.legend()
title = ax.set_title("Small cells found, for each threshold")

# %%
# The curves of the first two lie nearly on top of each other. Here the class weight has
# done little that a lower threshold would not have done as well, and there is a reason for
# it. Suppose that nine of ten pixels that look alike are background and one is a cell.
# Counted once, they are best given the chance 0.1. If the one counts nine times, both sides
# pull equally, and the best chance is 0.5. The weight has moved the place where *yes*
# begins.
#
# The curve of the segments lies above the others. A threshold cannot tell a pixel of a
# small cell from one of a large cell, and this weight does. It has a price, too. Let each
# of the three mark 5% of the background, and see which pixels of cells it misses:

in_large = (area > 40)[segment] & (target == 1)
in_small = (area < 40)[segment] & (target == 1)
missed = {}
print("pixels missed in large and small cells")
for name, p in chances.items():
    there = p <= p[target == 0].quantile(0.95)
    missed[name] = [there[cells].float().mean().item() for cells in (in_large, in_small)]
    large, few = missed[name]
    print(f"{name:12} {large:.0%}  about {10 * round(10 * few)}%")

# %%
# The small cells are gained at the edges of the large ones. All of the large cells are
# still found, so for counting cells this is a good bargain. For measuring their area
# it is not.
#
# What to watch for
# -----------------
#
# **A weight changes what the network means by a chance.** Add up the chances that it gives
# to all labelled pixels, and divide by the number of those that are cells. Counted once,
# the chances are about right on average (100% would be exactly right), and with weights
# they are too high. If you need chances, count every pixel once and move the threshold.
# (Again to the nearest 5%.)

labelled = target != VOID
for name, p in chances.items():
    ratio = p[labelled].sum() / (target == 1).sum()
    print(f"{name:12} {5 * round(20 * ratio.item())}%")

# %%
# **The mean of what, exactly?** With ``ignore_index`` an ignored pixel has the loss 0, but
# it is still there, and ``losses.mean()`` divides by it. The mean inside ``cross_entropy``
# does not. It divides by the sum of the class weights of the labelled pixels. Both
# are a ``v``, and here is which:

scores = torch.randn(100, 2, 32, 32, generator=torch.Generator().manual_seed(2))
scores.requires_grad_()
losses = cross_entropy(scores, target, reduction="none", ignore_index=VOID)
nine = torch.tensor([1.0, 9.0])
numbers = {
    "labelled / labelled.sum()": cross_entropy(scores, target, ignore_index=VOID),
    "by_class / by_class.sum()": cross_entropy(scores, target, nine, ignore_index=VOID),
    "labelled / labelled.numel()": losses.mean(),
}
weight = by_class(target, segment)
kept = labelled.float()
chosen = [kept / kept.sum(), weight / weight.sum(), kept / kept.numel()]
for (name, number), v in zip(numbers.items(), chosen, strict=True):
    (built_in,) = torch.autograd.grad(number, scores, retain_graph=True)
    (ours,) = torch.autograd.grad(losses, scores, v, retain_graph=True)
    print(f"v = {name:28}", torch.allclose(built_in, ours, rtol=1e-4, atol=1e-9))

# %%
# **The sum instead of the mean** multiplies every gradient by the number of labelled
# pixels. With plain SGD this is a learning rate that is thousands of times larger. Adam
# divides by the size of the gradients, so that it hardly notices, unless you clip them or
# give it a ``weight_decay``, which it adds to the gradients before it divides.
#
# **A weight map with one dimension too many.** Images have a channel, so a map is often
# stored as ``(B, 1, 32, 32)``. Multiplied by the losses it broadcasts, and every slide gets
# the maps of all the others. ``backward`` refuses such a ``v``:

few_losses = losses[:8]
print((by_class(target, segment)[:8, None] * few_losses).shape)
try:
    few_losses.backward(by_class(target, segment)[:8, None])
except RuntimeError as error:
    print(error)

# %%
# **A batch without a labelled pixel.** Then ``v.sum()`` is 0, and every entry of
# ``v / v.sum()`` is 0/0, which is NaN. Here this does no harm, because ``ignore_index``
# sends back zeros for an ignored pixel whatever ``v`` says. (If you multiply the losses by
# the weights yourself, the number in your log is NaN, and the gradient still is not.) A
# loss that has no such
# argument, as the binary cross-entropy, carries the NaN into the weights, and one such
# batch ruins the network. Divide by ``v.sum().clamp(min=1)`` there, if your weights are of
# the size of ours.
#
# .. admonition:: Try it
#
#    Let the microscope be sharper by making the noise half as strong (``0.5 * noise`` in
#    ``slides``). Is there still something to gain from weights? Then go back to the strong
#    noise and give the segments a worth of 800 instead of 80. Which of the numbers gets
#    better, and which gets worse?
#
# .. dropdown:: Answer
#
#    With half the noise there is next to nothing to gain: every pixel counted once, the
#    network finds 95% of the small cells, and with either weight all of them, with 0% false
#    alarms each time. A weight decides doubtful pixels, and there are hardly any left. With
#    a worth of 800 it finds 95% of the small cells instead of 80%, for 23% false alarms
#    instead of 4%, and its chances are 230% of the right ones instead of 125%.

# %%
# .. dropdown:: How we checked this page
#
#    The ``v`` of the program is compared with the weighted mean as a formula, and the
#    gradient with respect to the scores with its formula, ``v`` times chance minus target.
#    The order of the three networks, and that two of the curves agree, are asserted with
#    some room. The statements about SGD, Adam and the empty batch are tried.

v = by_segment(target, segment)
v = v / v.sum()
(as_v,) = torch.autograd.grad(losses, scores, v, retain_graph=True)
(formula,) = torch.autograd.grad((v * losses).sum(), scores, retain_graph=True)
torch.testing.assert_close(as_v, formula)
by_hand = v * (scores.softmax(1)[:, 1] - (target == 1).float()).detach()
torch.testing.assert_close(as_v[:, 1], by_hand)
assert not as_v[:, 1][~labelled].any()
seven = torch.where(labelled, v, 7.0)  # ignore_index leaves a pixel out whatever v says
assert torch.equal(torch.autograd.grad(losses, scores, seven, retain_graph=True)[0], as_v)
for number, v in zip(numbers.values(), chosen, strict=True):
    (built_in,) = torch.autograd.grad(number, scores, retain_graph=True)
    (ours,) = torch.autograd.grad(losses, scores, v, retain_graph=True)
    torch.testing.assert_close(built_in, ours, rtol=1e-4, atol=1e-9)

few, large, alarms = zip(*results.values(), strict=True)
assert few[0] < few[1] - 0.2 < few[2] - 0.25
assert min(large) == 1.0
assert alarms[0] < 0.5 * alarms[1]
assert abs(alarms[1] - alarms[2]) < 0.02
assert missed["by segment"][0] > 3 * missed["by class"][0]
assert missed["by segment"][1] < missed["by class"][1] - 0.04
strict = [  # thresholds at which each marks 5% of the background
    judge(p, p[target == 0].quantile(0.95).item())[0] for p in chances.values()
]
assert abs(strict[0] - strict[1]) < 0.04 < strict[2] - max(strict[:2])
means = [
    p[labelled].mean() - (target[labelled] == 1).float().mean() for p in chances.values()
]
assert abs(means[0]) < 0.02 < min(means[1:])


def one_step(optimizer, scale):
    w = torch.tensor([1.0, 1.0], requires_grad=True)
    (torch.tensor([0.3, -0.2]) * w).sum().mul(scale).backward()
    optimizer([w], lr=0.01).step()
    return 1 - w.detach()


sgd, adam = torch.optim.SGD, torch.optim.Adam
torch.testing.assert_close(one_step(sgd, 1e3), 1e3 * one_step(sgd, 1), rtol=1e-3, atol=1e-3)
torch.testing.assert_close(one_step(adam, 1e3), one_step(adam, 1), rtol=1e-3, atol=0)

nobody = torch.full((2, 32, 32), VOID)
empty = (nobody != VOID).float()
layer = nn.Conv2d(1, 2, 3, padding=1)
here = cross_entropy(layer(images[:2]), nobody, reduction="none", ignore_index=VOID)
here.backward(empty / empty.sum())
assert not layer.weight.grad.any()
binary = nn.functional.binary_cross_entropy_with_logits
for divisor, ruined in ((empty.sum(), True), (empty.sum().clamp(min=1), False)):
    layer.zero_grad()
    there = binary(layer(images[:2])[:, 1], torch.zeros_like(empty), reduction="none")
    there.backward(empty / divisor)
    assert layer.weight.grad[1].isnan().all() == ruined

# %%
# **Next:** For short answers about the weights of pixels and classes, read
# :ref:`pixel-weights`. :ref:`loss-as-v` shows more reductions that are a ``v``. If the
# weights depend on the network, read :ref:`the-v-you-choose`.
#
# .. asked: weight pixels in a segmentation loss; some pixels count more; class
#    imbalance in segmentation; ignore unlabelled pixels; small objects are missed;
#    weight map for a UNet; mask in cross entropy; weight each segment
# .. words: mask, unet, edge, border, foreground, background, ignore region, medical image,
#    void label, dice, tumour, satellite, rare class, ignore_index
