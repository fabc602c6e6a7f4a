r"""
.. _weighting-pixels:

Weighting pixels and segments in a segmentation loss
====================================================

You train a network to mark the cells on a microscope slide. The network marks every large
cell and overlooks most of the small ones, because a small cell has so few pixels that
missing it adds hardly anything to the loss. You would like every *cell* to count the same,
and not every pixel. To do this, keep one loss for each pixel and call
``losses.backward(v)``, where ``v`` is a map with the weight of every pixel, divided by the
sum of the weights. (If the *value* of the loss has to stay as it was, and only the pull of
some pixels is to change, see :ref:`keep-the-loss-value`.)
"""

# %%
# The slides
# ----------
#
# We make our slides ourselves, so that we know what is on them. Each slide shows one large
# cell and up to five small ones, with noise that is as strong as the cells are bright. A
# batch of B slides consists of three tensors. ``images`` has the shape ``(B, 1, 32, 32)``.
# ``target`` says for each pixel whether it is background (0) or cell (1), and ``segment``
# says to which cell the pixel belongs. The background is segment 0, and every cell of the
# batch has its own number. Nobody can tell exactly where a cell ends, so each cell has a
# rim with the target 255, which means *leave this pixel out*:

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
# slide cuts it. The zeros in the output stand for small cells that we left out because they
# would have touched another cell. If every pixel counts once, one large cell is worth more
# than ten small ones.
#
# The program
# -----------
#
# The training loop is an ordinary one, with one line that you may not have seen. With
# ``reduction="none"`` the cross-entropy is not averaged, so ``losses`` has the shape
# ``(B, 32, 32)``, with one loss for each pixel. These losses are not a single number, so
# ``backward`` asks for a ``v`` of the same shape. The function ``weigh`` makes this ``v``
# from the labels:


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
# Dividing ``v`` by its sum makes the weights add up to 1. Then you differentiate the
# *weighted mean* of the losses, whatever the size of the slides and of the batch.
#
# Three maps to compare
# ---------------------
#
# The first map counts every labeled pixel once. The second is a *class weight*. Background
# is common and cells are rare, so each pixel of a cell counts nine times. The third looks
# at the segments. Each cell as a whole is worth eighty pixels of background, so each pixel
# of a cell with ``area`` pixels counts ``80 / area``. We compute one number for each
# segment, and ``worth[segment]`` puts this number at each pixel of the segment:


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
# Here are the maps for one slide. A pixel without color has the weight 0, and the
# strongest violet means a weight of 8 or more:

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
# In all three maps the rims have no color, because the pixels of a rim have the weight 0.
# In the map by class, all cells have the same color. In the map by segment, the small cells
# stand out, and a pixel of the large cell counts no more than a pixel of the background.
#
# What the network learns from each
# ---------------------------------
#
# We train three times, from the same weights and with the same slides. Then we ask each
# network about the hundred slides from the start of this page, which it has not seen. A
# cell counts as found if at least half of its pixels are marked. A pixel of the background
# that is marked is a false alarm. We round the percentages of small cells to the nearest
# five, because the last digits depend on the processor:


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
# With every pixel counted once, the network misses most of the small cells. With weights by
# class it finds about twice as many, but it also gives more false alarms. With weights by
# segment it finds still more of them, here with about the same number of false alarms as
# with weights by class. In the pictures of our slide, the color is stronger where a network
# is more certain of a cell:

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
# pixel counted once, and mark a pixel even if the network gives it a probability somewhat
# below one half. To be fair, we let the threshold of each network run from high to low, and
# plot the share of small cells that it finds against the share of false alarms. The dots
# mark a threshold of one half:

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
# The curves of the first two networks lie nearly on top of each other. Here the class
# weight has done little that a lower threshold would not have done as well, and there is a
# reason for this. Suppose that of ten pixels that look alike, nine are background and one
# belongs to a cell. If each pixel counts once, the best probability for all of them is 0.1.
# If the pixel of the cell counts nine times, both sides pull equally, and the best
# probability is 0.5. So the weight has only moved the threshold.
#
# The curve of the segments lies above the others. A threshold cannot tell a pixel of a
# small cell from a pixel of a large cell, whereas the weight by segment treats the two
# differently. But the weight by segment has a price, too. We let each of the three networks
# mark 5% of the background, and see which pixels of cells it misses:

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
# The network that was trained with weights by segment finds more of the small cells, but
# misses more pixels of the large ones. It still finds all of the large cells, so this is a
# good bargain if you count cells. If you measure their area, it is not.
#
# What to watch for
# -----------------
#
# **A weight changes what the network means by a probability.** We add up the probabilities
# that a network gives to all labeled pixels, and divide by the number of labeled pixels
# that belong to cells. A quotient of 100% would be exactly right. If every pixel counts
# once, the probabilities are about right on average, and with weights they are too high. If
# you need probabilities, count every pixel once and move the threshold. Here are the
# quotients, again to the nearest 5%:

labelled = target != VOID
for name, p in chances.items():
    ratio = p[labelled].sum() / (target == 1).sum()
    print(f"{name:12} {5 * round(20 * ratio.item())}%")

# %%
# **The mean of what, exactly?** With ``ignore_index`` an ignored pixel has the loss 0,
# but ``losses.mean()`` still counts this pixel in its divisor. The mean inside
# ``cross_entropy`` does not count it, and divides by the sum of the class weights of the
# labeled pixels. Each of these means corresponds to a ``v``, which we pass for
# comparison:

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
# **The sum instead of the mean** multiplies every gradient by the number of labeled
# pixels. With plain SGD this has the same effect as a learning rate that is thousands of
# times larger. Adam divides each entry of the gradient by the typical size of its past
# values, so its steps hardly change, unless you clip the gradients or set a
# ``weight_decay``, which Adam adds to the gradients before it divides.
#
# **A weight map with one dimension too many.** Images have a channel, so a map is often
# stored as ``(B, 1, 32, 32)``. If you multiply the losses by such a map, the two
# broadcast, and every slide gets the maps of all the others. ``backward`` refuses a ``v``
# of this shape:

few_losses = losses[:8]
print((by_class(target, segment)[:8, None] * few_losses).shape)
try:
    few_losses.backward(by_class(target, segment)[:8, None])
except RuntimeError as error:
    print(error)

# %%
# **A batch without a labeled pixel.** For such a batch ``v.sum()`` is 0, and every entry of
# ``v / v.sum()`` is 0/0, which is NaN. Here this does no harm, because with
# ``ignore_index`` the gradient of an ignored pixel is zero, whatever ``v`` says. If you
# multiply the losses by the weights yourself, the number in your log is NaN, but the
# gradient is still zero. The binary cross-entropy has no ``ignore_index``. With this loss
# the NaN reaches the weights of the network, and a single such batch ruins them. With
# binary cross-entropy, divide by ``v.sum().clamp(min=1)`` if your entries of ``v`` are
# about as large as ours.
#
# .. admonition:: Try it
#
#    Make the microscope sharper by making the noise half as strong (``0.5 * noise`` in
#    ``slides``). Is there still something to gain from weights? Then go back to the strong
#    noise and give the segments a worth of 800 instead of 80. Which of the numbers gets
#    better, and which gets worse?
#
# .. dropdown:: Answer
#
#    With half the noise there is next to nothing to gain. If every pixel counts once, the
#    network finds 95% of the small cells, and with either weight it finds all of them, with
#    0% false alarms each time. A weight matters for doubtful pixels, and hardly any pixels
#    are doubtful now. With a worth of 800 the network finds 95% of the small cells instead
#    of 80%, but it gives 23% false alarms instead of 4%, and its probabilities add up to
#    230% of the right sum instead of 125%.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient for the ``v`` of the program with the gradient of the weighted
#    mean, and the gradient with respect to the scores with its formula, ``v`` times the
#    difference between probability and target. We check, with some tolerance, the order of
#    the three networks, and that the first two find the same share of small cells at the
#    same share of false alarms. We also try the statements about SGD, Adam and the empty
#    batch.

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
# :ref:`pixel-weights`. :ref:`loss-as-v` shows more reductions that you can write as a
# ``v``. If the weights depend on the network, read :ref:`the-v-you-choose`.
#
# .. asked: weight pixels in a segmentation loss; some pixels count more; class
#    imbalance in segmentation; ignore unlabelled pixels; small objects are missed;
#    weight map for a UNet; mask in cross entropy; weight each segment
# .. words: mask, unet, edge, border, foreground, background, ignore region, medical image,
#    void label, dice, tumour, satellite, rare class, ignore_index
