r"""
.. _attribution:

Which pixels decided? Attribution maps, and a logo that gave the answer away
============================================================================

Your network sorts photographs nearly without a mistake, but it fails on the first day of
real use. What has it been looking at? An *attribution map* shows how much each pixel
contributes to the score of one class. Gradient times input, integrated gradients and
Grad-CAM all begin with the same line, ``scores.backward(v)`` or the corresponding call to
``autograd.grad``. In this line ``v`` has a 1 at the class that you ask about and 0 at the
others, for every picture of the batch.
"""

# %%
# Rings and crosses
# -----------------
#
# The photographs show a ring or a cross somewhere on a noisy background. Two people took
# them. The one who photographed the crosses has a logo of four short bars, which is in the
# lower right corner of each picture of a cross. We make such pictures, and choose for rings
# and for crosses what share of the pictures has the logo:

import copy

import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate, one_hot

RING, CROSS = 0, 1


def photographs(count, logo, seed):
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 2, (count,), generator=generator)
    images = 0.2 * torch.randn(count, 1, 20, 20, generator=generator)
    line = torch.arange(7) - 3
    round_ = (line[:, None] ** 2 + line**2).sqrt().sub(3).abs() < 0.6
    shapes = [round_.float(), (line[:, None].abs() == line.abs()).float()]
    for image, k in zip(images[:, 0], kind, strict=True):
        y, x = torch.randint(1, 8, (2,), generator=generator)
        image[y : y + 7, x : x + 7] += shapes[k]
        if torch.rand((), generator=generator) < logo[k]:
            image[16:19, 13:20:2] += 1.0
    return images, kind


# %%
# The network is a small convolutional network. We split it into two parts, because
# Grad-CAM will need the output of the last convolution. The part up to this output is
# ``features``, and the rest is ``head``:


def trained(logo, seed=0):
    torch.manual_seed(seed)  # the same weights on every build
    features = nn.Sequential(
        *(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()),
    )
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
    model = nn.Sequential(features, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(100):
        images, kind = photographs(32, logo, seed=step)
        optimizer.zero_grad()
        cross_entropy(model(images), kind).backward()
        optimizer.step()
    return features, head


# %%
# In the collection no ring has the logo, and every cross has it. We test on new pictures
# of the same kind, and then on pictures by somebody who has no logo. ``right`` rounds to
# the nearest 5%, because the last digits depend on the processor:


def right(model, logo):
    images, kind = photographs(300, logo, seed=1000)
    hit = model(images).argmax(1) == kind
    return [5 * round(20 * hit[kind == k].float().mean().item()) for k in (RING, CROSS)]


collected, without = (0, 1), (0, 0)
features, head = trained(collected)
model = nn.Sequential(features, head).eval()
print("% right       rings crosses")
print("as collected ", *right(model, collected))
print("without logo ", *right(model, without))

# %%
# As soon as the logo is missing, this network takes nearly every cross for a ring. Of six
# networks that began with different weights, one did not depend on the logo, as we shall
# see. The test on pictures of the same collection could not show the mistake. A map can.
#
# The program
# -----------
#
# This function computes four maps for a batch of pictures, and you can copy it. It takes
# a network in two parts, ``features`` and ``head``, in ``eval`` mode, and pictures with
# the dtype and the device of the weights. ``classes`` says for each picture which class
# we ask about. There are B pictures and two classes, so the scores have the shape ``(B,
# 2)``, and so has ``v``. Integrated gradients put all ``steps * B`` faded pictures through
# the network at once, so pass only a few pictures at a time if they are large:


def explain(features, head, images, classes, steps=64):
    model = nn.Sequential(features, head)
    images = images.detach()
    x = images.clone().requires_grad_()
    scores = model(x)
    v = one_hot(classes, scores.shape[1]).to(scores)  # 1 at the class of each picture
    (gradient,) = torch.autograd.grad(scores, x, v)
    maps = {"gradient": gradient, "gradient × input": gradient * images}

    # Integrated gradients: the mean gradient on the way from a black picture
    way = ((torch.arange(steps) + 0.5) / steps).to(images)
    points = (way.reshape(-1, 1, 1, 1, 1) * images).flatten(0, 1).requires_grad_()
    (slopes,) = torch.autograd.grad(model(points), points, v.repeat(steps, 1))
    mean = slopes.unflatten(0, (steps, len(images))).mean(0)
    maps["integrated gradients"] = mean * images

    # Grad-CAM: the same v, but the walk stops at the last feature maps
    A = features(images).detach().requires_grad_()
    (slope,) = torch.autograd.grad(head(A.clone()), A, v)  # head may work in place
    cam = (slope.mean((2, 3), keepdim=True) * A.detach()).sum(1, keepdim=True)
    maps["Grad-CAM"] = interpolate(cam, size=images.shape[2:], mode="nearest")
    return maps


# %%
# All four maps come from three :term:`vector-Jacobian products <vector-Jacobian
# product>`. In each row ``v`` has its 1 at one class, so we differentiate the sum over
# the batch of one score for each picture. No picture influences another, so each picture
# gets the gradient of its own score.
#
# Four maps of one picture
# ------------------------
#
# We take ten crosses with their logo, and ask why the network calls them crosses:

images, kind = photographs(30, collected, seed=2000)
images = images[kind == CROSS][:10]
classes = torch.full((len(images),), CROSS)
maps = explain(features, head, images, classes)

# %%
# To look at them, we color each map. Violet pixels speak *for* a cross, orange ones
# *against* it:

import matplotlib.pyplot as plt


def draw(images, maps, title, i=0):
    figure, axes = plt.subplots(2, 3, layout="constrained", figsize=(5.6, 4.3))
    panels = {"the picture": images, **maps}
    panels["gradient, absolute"] = maps["gradient"].abs()
    for ax, (name, panel) in zip(axes.flat, panels.items(), strict=True):
        limit = panel[i].abs().max().item()
        colours = "Greys" if name == "the picture" else "PuOr"
        ax.imshow(panel[i, 0], cmap=colours, vmin=-limit, vmax=limit)
        ax.set_title(name, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
    figure.suptitle(title)


draw(images, maps, "What speaks for a cross: mostly the logo")

# %%
# In three of the maps the logo stands out, and the cross hardly does. To see whether this
# holds for more than one picture, we add up the absolute values of the entries of each map,
# and ask how much of the sum lies in the corner with the logo, which is about an eighth of
# the area:


def in_corner(panel):
    size = panel.abs()
    whole = size.sum((1, 2, 3)).clamp(min=1e-12)  # a map may be 0 everywhere
    return (size[:, :, 14:, 11:].sum((1, 2, 3)) / whole).mean().item()


before = {name: in_corner(panel) for name, panel in maps.items()}
print("part of the map in the corner")
for name, part in before.items():
    print(f"{name:21} {5 * round(20 * part)}%")

# %%
# Read each map as an answer to its own question.
#
# - The **gradient** says how the score would change if a pixel became a little brighter. It
#   is not multiplied by what the pixel shows now, and so it can be large where there is
#   nothing to see.
# - **Gradient times input** multiplies each slope by the brightness that the pixel has. A
#   pixel that is exactly 0 always gets 0.
# - **Integrated gradients** (Sundararajan et al., 2017) take the mean of the slopes while
#   the picture is faded in from black, and multiply it by the picture. Then the entries
#   add up to the change of the score from the black picture to the whole one, as we are
#   about to see.
# - **Grad-CAM** (Selvaraju et al., 2017) asks the last feature maps instead of the pixels.
#   It averages the slope of each feature map over all positions, and adds up the feature
#   maps, weighted by these averages. The result is coarser, because the feature maps are
#   coarser, with half as many pixels in each direction here.
#
# Do the parts add up?
# --------------------
#
# If the entries are shares of the score, their sum should be the score minus the score of
# a black picture. We try this for the picture that is drawn above:

with torch.no_grad():
    black = torch.zeros_like(images)
    change = model(images)[:, CROSS] - model(black)[:, CROSS]
print(f"change of the score    {change[0]:.0f}")
for name in ("gradient × input", "integrated gradients"):
    print(f"{name:21} {maps[name][0].sum():.0f}")

# %%
# Integrated gradients add up, as exactly as the 64 steps allow. Gradient times input does
# not. It measures the slope only at the whole picture, and multiplies as if the slope
# were the same all the way from black.
#
# What the map is good for
# ------------------------
#
# The maps make us suspect that the network reads the logo. A map alone proves nothing, but
# we can test the suspicion. We put the logo on rings. We also train another network, for
# which the logo means nothing, because about half of the pictures of each kind have it:

on_rings, every_other = (1, 0), (0.5, 0.5)
cured = trained(every_other)
cured_model = nn.Sequential(*cured).eval()
print("% right                 rings crosses")
print("first, logo on rings   ", *right(model, on_rings))
print("second, logo on rings  ", *right(cured_model, on_rings))
print("second, without logo   ", *right(cured_model, without))

# %%
# The first network looks only at the logo: it takes rings with the logo for crosses, and
# crosses without the logo for rings. The second does not. Its maps of the same pictures
# have moved to the cross, and ignore the logo in the corner. Five other networks, trained
# like the second one from different weights, classified about 95% or more of each kind
# correctly. The part of their maps in the corner was between 2% and 25%.

cured_maps = explain(*cured, images, classes)
draw(images, cured_maps, "What speaks for a cross now: the cross")
after = {name: in_corner(panel) for name, panel in cured_maps.items()}
print("part of the map in the corner")
for name, part in after.items():
    print(f"{name:21} {5 * round(20 * part)}%")

# %%
# The absolute map, in the last panel, shows where the score is sensitive, but not in
# which direction. The violet and the orange pixels of the second panel look alike in this
# map.
#
# Would another network have done the same? We train six networks on the original
# collection. They differ only in the weights that they begin with:

starts = {}
print("start  crosses right without logo  in the corner")
for seed in range(6):
    parts = trained(collected, seed) if seed else (features, head)
    crosses = right(nn.Sequential(*parts), without)[CROSS]
    share = in_corner(explain(*parts, images, classes)["integrated gradients"])
    starts[seed] = crosses, share
    print(f"{seed:5} {crosses:27}% {5 * round(20 * share):14}%")

# %%
# One of the six, number 1, does not depend on the logo. It is right about every cross
# without the logo. About a fifth of its map is in the corner, which is not far above an
# eighth, the corner's share of the area. So a logo in the pictures does not mean that
# *your* network has read it, and the map of one network says nothing about the next.
#
# One score, or a difference of two?
# ----------------------------------
#
# With a 1 at *cross* you ask what raises the score of a cross. The decision does not
# depend on this score alone, but on the *difference* between this score and the score of
# a ring. A pixel that raises both scores by the same amount has decided nothing. To ask
# about the decision, pass :math:`+1` for one class and :math:`-1` for the other. Since
# each map is linear in ``v``, the map of the difference is the difference of the two
# maps:


def logo_part(v):
    x = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x), x, v.expand(len(images), 2))
    return (gradient * images)[0, 0, 14:, 11:].sum().item()


ring, cross = torch.eye(2)
parts = [logo_part(v) for v in (cross, ring, cross - ring)]
print("logo for cross", parts[0] > 0, " for ring", parts[1] > 0)
print("v = +1, -1 gives the difference:", abs(parts[2] - parts[0] + parts[1]) < 1e-3)

# %%
# In this picture the logo speaks for a cross and also against a ring. With more classes,
# choose the class that you wonder about and its rival, as in *why a cross, and not a
# ring?*
#
# Grad-CAM in a model that you cannot split
# -----------------------------------------
#
# If the model is one object from a library, a forward hook keeps the output of the layer,
# and ``autograd.grad`` differentiates with respect to this output in the middle of the
# graph. The layer must run exactly once in a forward pass. We make the images require a
# gradient, so that there is a graph even if all weights are frozen:


def feature_maps_and_gradient(model, layer, images, v):
    kept = []
    handle = layer.register_forward_hook(lambda module, args, out: kept.append(out))
    scores = model(images.detach().requires_grad_())
    handle.remove()
    (gradient,) = torch.autograd.grad(scores, kept, v)
    return kept[0].detach(), gradient


last = model[0][-1]  # the ReLU after the last convolution
A, slope = feature_maps_and_gradient(model, last, images, cross.expand(10, 2))
slope_of_hook = slope
by_hook = (slope.mean((2, 3), keepdim=True) * A).sum(1, keepdim=True)
by_hook = interpolate(by_hook, size=images.shape[2:], mode="nearest")
print(torch.allclose(by_hook, maps["Grad-CAM"], atol=1e-5))

# %%
# ``v`` belongs to the scores in both ways. A different tensor arrives at the feature
# maps. It has their shape, and it is the ``v`` that the head has sent back to them. If
# the layer after the hook works in place, as ``nn.ReLU(inplace=True)`` does, read
# :ref:`module-hook-relu` first.
#
# What these maps are called in Captum
# ------------------------------------
#
# The library Captum has these maps under the following names. We do not use Captum here,
# but have read its sources, in November 2026. In Captum ``target`` is the class, and
# takes the place of our ``v``:
#
# ==========================  ==========================================================
# on this page                in Captum
# ==========================  ==========================================================
# gradient                    ``Saliency``, which returns absolute values, unless you pass
#                             ``abs=False``
# gradient × input            ``InputXGradient``
# integrated gradients        ``IntegratedGradients``, from a baseline of 0 if you name no
#                             other, with 50 steps of another quadrature rule
# Grad-CAM                    ``LayerGradCam``, which keeps the sign; with
#                             ``relu_attributions=True`` it sets negative entries to 0,
#                             as the paper does
# ``interpolate``             ``LayerAttribution.interpolate``
# ==========================  ==========================================================
#
# What to watch for
# -----------------
#
# **Training mode.** With BatchNorm in ``train()`` each score depends on all pictures of the
# batch, and a map contains parts of other pictures. With Dropout in ``train()`` each call
# draws a different mask. So you get a different map each time, and the maps from one call
# to ``explain`` belong to different masks. Call ``model.eval()`` first, as we did
# (:ref:`mixing-samples`).
#
# **backward fills the weights, too.** ``scores.backward(v)`` gives the same gradient in
# ``x.grad``, but adds a gradient to every weight of the network that is not frozen. If you
# do not clear these gradients, the next training step uses them. ``autograd.grad`` leaves
# the weights alone:

model.zero_grad()
x = images.clone().requires_grad_()
scores = model(x)
torch.autograd.grad(scores, x, cross.expand(10, 2), retain_graph=True)
print("after autograd.grad", features[0].weight.grad is not None)
scores.backward(cross.expand(10, 2))
print("after backward     ", features[0].weight.grad is not None)

# %%
# **What 0 means.** Suppose that the same pictures are stored with 1 added to each pixel,
# and that the network subtracts it again. Its scores are the same, and so is the
# gradient. Gradient times input gives a different map, because the brightness of every
# pixel is different. Integrated gradients change, too, unless they now begin at a picture
# of ones, because black is now 1. So say what 0 means in your pictures, or which baseline
# you took:

z = (images + 1).requires_grad_()
(shifted,) = torch.autograd.grad(model(z - 1), z, cross.expand(10, 2))
print("same gradient        ", torch.allclose(shifted, maps["gradient"], atol=1e-4))
times_input = shifted * z.detach()
same = torch.allclose(times_input, maps["gradient × input"], atol=1e-4)
print("same gradient × input", same)

# %%
# **Colors.** A color picture has three channels, so a map has three numbers for each
# pixel. If you add them and then take the absolute value, channels of opposite signs
# cancel. If you take the absolute values first, they do not. Whichever you choose, choose
# it for all the maps that you compare.
#
# **A softmax on top of the scores** changes the question, and if the network is certain,
# all entries of the map are nearly 0 (:ref:`map-after-softmax`).
#
# .. admonition:: Try it
#
#    Ask the first network about *rings* with the logo. Use ``photographs(30, on_rings,
#    2000)``, and ``RING`` as the class. Does the logo in the maps now speak for the ring
#    or against it? And is a network right about crosses without a logo if a few of the
#    crosses in its training pictures had no logo, as with ``logo=(0, 0.9)``?
#
# .. dropdown:: Answer
#
#    The logo speaks against the ring: in all four maps the entries in the corner add up to
#    a negative number. In the maps of network number 1, which does not depend on the logo,
#    the sum is negative in two of the four maps. And a few crosses without a logo are
#    enough. If one cross in ten has no logo in training, the network has to look at the
#    shape as well, and then it is right about most crosses without a logo, as the output
#    shows. Five other networks, with different weights at the start, classified about 75%
#    to 100% of them correctly.

logo_rings, kind = photographs(30, on_rings, seed=2000)
logo_rings = logo_rings[kind == RING][:10]
asked = explain(features, head, logo_rings, torch.full((len(logo_rings),), RING))
against = {name: panel[:, :, 14:, 11:].sum() < 0 for name, panel in asked.items()}
print("against the ring:", all(against.values()))
few = right(nn.Sequential(*trained((0, 0.9))), without)[CROSS]
print("one cross in ten without a logo:", few > 70)

# %%
# .. dropdown:: How we checked this page
#
#    We compare each map with a map that we compute for a single picture and its own score,
#    without a ``v``. We compare some entries of the gradient with difference quotients in
#    double precision. We check the sums of the integrated gradients, the shares of the
#    corner, the results of the six networks and the linearity in ``v``. We check the hook,
#    also with a frozen model. We run ``explain`` in bfloat16, and on the ``meta`` device,
#    which stands for another device. We also run it with a head that begins with an
#    in-place ReLU, on pictures that themselves require a gradient.

for i in (0, 7):
    alone = images[i : i + 1].clone().requires_grad_()
    (by_index,) = torch.autograd.grad(model(alone)[0, CROSS], alone)
    torch.testing.assert_close(maps["gradient"][i], by_index[0], rtol=1e-3, atol=1e-5)
    A = features(images[i : i + 1]).detach().requires_grad_()
    (slope,) = torch.autograd.grad(head(A)[0, CROSS], A)
    cam = (slope.mean((2, 3), keepdim=True) * A.detach()).sum(1, keepdim=True)
    cam = interpolate(cam, size=images.shape[2:], mode="nearest")
    torch.testing.assert_close(maps["Grad-CAM"][i], cam[0], rtol=1e-3, atol=1e-5)
torch.testing.assert_close(by_hook, maps["Grad-CAM"], rtol=1e-3, atol=1e-5)

whole = maps["integrated gradients"].sum((1, 2, 3))
torch.testing.assert_close(whole, change, rtol=0.01, atol=0.01)
assert (maps["gradient × input"].sum((1, 2, 3)) - change).abs().min() > 1
assert parts[0] > 0 > parts[1]
assert abs(parts[2] - parts[0] + parts[1]) < 1e-3
assert min(before[name] for name in list(maps)[1:]) > 0.3
assert max(after.values()) < 0.14
assert torch.allclose(shifted, maps["gradient"], atol=1e-4)
assert not same
assert right(model, collected) == right(cured_model, on_rings) == [100, 100]
assert max(right(model, on_rings)) < 50
assert all(against.values())
assert few > 70
for seed, (crosses, share) in starts.items():
    assert (crosses, share < 0.25) == ((100, True) if seed == 1 else (0, False))

frozen = copy.deepcopy(model).requires_grad_(False)
_, again = feature_maps_and_gradient(frozen, frozen[0][-1], images, cross.expand(10, 2))
torch.testing.assert_close(again, slope_of_hook)
for where in ({"dtype": torch.bfloat16}, {"device": "meta"}):
    parts = [part.to(**where) for part in copy.deepcopy([features, head])]
    moved = explain(*parts, images.to(**where), classes.to(where.get("device")))
    assert all(panel.shape == images.shape for panel in moved.values())

in_place = nn.Sequential(nn.ReLU(inplace=True), *head)  # the last ReLU moved over
again = explain(features[:-1], in_place, x, classes)
assert not any(panel.requires_grad for panel in again.values())
for name in [*maps][:3]:
    torch.testing.assert_close(again[name], maps[name], rtol=1e-3, atol=1e-5)

double = copy.deepcopy(model).double()
at, h = images[:1].double(), 1e-6
for place in [(16, 13), (17, 15), (5, 9), (0, 0)]:
    step = torch.zeros_like(at)
    step[0, 0][place] = h
    rise = (double(at + step) - double(at - step))[0, CROSS] / (2 * h)
    found = maps["gradient"][0, 0][place].double()
    torch.testing.assert_close(found, rise.detach(), rtol=1e-2, atol=1e-4)

# %%
# **Next:** :ref:`saliency` shows the short forms of these maps, and maps for segmentation
# networks. :ref:`token-gradients` does the same for the words of a sentence. Questions that
# people ask about such maps are answered in :ref:`gradient-by-feature-map`,
# :ref:`integrated-gradients`, and :ref:`error-attribution-needs-a-target`.
#
# .. asked: Grad-CAM in PyTorch; integrated gradients by hand; attribution of a
#    convolutional network; Captum without Captum; heat map for a class; which pixels
#    matter; signed attribution map; gradient times input
# .. words: explain, captum, watermark, shortcut, clever Hans, heat map, positive and
#    negative, baseline, completeness, noisy
