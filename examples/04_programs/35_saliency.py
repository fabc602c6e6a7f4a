r"""
.. _saliency:

Saliency maps and Grad-CAM: one-hot v over classes
==================================================

Your network says *horizontal bar*, and you would like to see which pixels made the
network say so. You ask for the gradient of a score with respect to the picture, and
PyTorch refuses, because there is a score for each class and for each picture of the
batch. Which of them do you mean? You answer with ``v``: a 1 at the class that you ask
about and 0 at the others, in every row. The gradient that comes back has the shape of the
pictures, with one map for each picture.
"""

# %%
# A network to ask
# ----------------
#
# The pictures show a bright horizontal or vertical bar at a random position, with some
# noise. So we know that a good map has to show the bar:

import torch
from torch import nn

torch.manual_seed(0)  # the same images and weights on every build


def bars(count):
    images, kind = 0.1 * torch.rand(count, 1, 12, 12), torch.randint(0, 2, (count,))
    for image, k, place in zip(images, kind, torch.randint(1, 11, (count,)), strict=True):
        picked = image[0, place] if k == 0 else image[0, :, place]
        picked += 1.0
    return images, kind


features = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU())
head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2, bias=False))
model = nn.Sequential(features, head)

# %%
# A small convolutional network learns to tell the two kinds apart in sixty steps. We keep
# its two parts separate, because Grad-CAM will need the output of ``features``:

optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(60):
    images, kind = bars(64)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), kind).backward()
    optimizer.step()
images, kind = bars(200)
accuracy = (model.eval()(images).argmax(1) == kind).float().mean()
print("more than 95% right:", bool(accuracy > 0.95))

# %%
# The map of one class
# --------------------
#
# We take a picture of each kind. The pictures must require a gradient *before* they go
# into the network. Otherwise the scores have no graph that leads to the pictures, and
# ``pictures.grad`` stays None. The scores have the shape ``(2, 2)``, with a row for each
# picture, and so has ``v``. For each picture we ask about the class that the network has
# chosen:

shown = torch.stack([images[kind == k][0] for k in (0, 1)])  # one of each kind
pictures = shown.clone().requires_grad_()
scores = model(pictures)
v = nn.functional.one_hot(scores.argmax(1), 2).to(scores)
scores.backward(v, inputs=[pictures])  # and not the weights of the network
saliency = pictures.grad.abs()[:, 0]
print("v", v.tolist(), " a map for each:", tuple(saliency.shape))

# %%
# With this ``v``, ``backward`` computes the gradient of one number, the *sum* of the two
# chosen scores. Why does each picture still get a map of its own score? In ``eval`` mode
# no picture influences another. The score of the first picture does not depend on the
# pixels of the second, so it adds 0 to the gradient at those pixels.
#
# .. admonition:: Before you read on
#
#    What would the maps be if you passed ones in place of the one-hot ``v``?
#
# .. dropdown:: Answer
#
#    They would be the gradient of the sum of *both* scores of each picture. At a pixel
#    that raises one score and lowers the other, the two slopes would cancel, partly or
#    wholly. But it is these pixels that decide.
#
# Grad-CAM: ask the features instead of the pixels
# ------------------------------------------------
#
# A map of the slopes at each pixel is often ragged. Grad-CAM (Selvaraju et al., 2017)
# passes the same ``v``, but stops at the last feature maps ``A``. The gradient that arrives
# there is averaged over the positions, and says how much each feature map counts for the
# class. Grad-CAM adds up the feature maps with these weights, and drops negative values. If
# the feature maps are smaller than the picture, enlarge the result. We make ``A`` a leaf,
# so that it does not matter whether the network is frozen. How much of the result lies
# within two pixels of the bar? A 5×5 window sees two pixels to each side. This region is at
# most five twelfths of the picture:

A = features(shown).detach().requires_grad_()  # also if the network is frozen
(gradient,) = torch.autograd.grad(head(A), A, v)
cam = (gradient.mean((2, 3), keepdim=True) * A).sum(1).clamp(min=0).detach()
near = nn.functional.max_pool2d((shown[:, 0] > 0.5).float(), 5, stride=1, padding=2)
share = (cam * near).sum((1, 2)) / cam.sum((1, 2))
print("more than 60% near the bar:", (share > 0.6).tolist())

# %%
# This is more than you would expect by chance. Here are the pictures, the saliency and
# Grad-CAM:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 3, layout="constrained", figsize=(6, 4))
for row, parts in zip(axes, zip(shown[:, 0], saliency, cam, strict=True), strict=True):
    for ax, part in zip(row, parts, strict=True):
        ax.imshow(part.numpy(), cmap="gray")
        ax.set_axis_off()
title = figure.suptitle("Two images, the saliency of the chosen class, and Grad-CAM")

# %%
# Saliency is brightest around the bar, where a change of brightness would change the
# score most. But it is ragged, and not dark in other places. Grad-CAM is one smooth
# stripe.
#
# Saliency and Grad-CAM as functions
# ----------------------------------
#
# You can copy these two functions and use them for any number of classes and channels. The
# model has to be in ``eval`` mode, and the pictures must have the dtype and the device of
# its weights. ``classes`` holds the class that you ask about for each picture, for example
# ``scores.argmax(1)``, the class that the network has chosen. Each color has its own slope,
# and the first function takes the largest of these. The second function enlarges its maps
# to the size of the pictures:


def saliency_maps(model, pictures, classes):
    """Return a map (B, H, W) of pictures (B, channels, H, W) with classes (B,)."""
    pictures = pictures.detach().clone().requires_grad_()
    scores = model(pictures)
    v = nn.functional.one_hot(classes, scores.shape[1]).to(scores)
    scores.backward(v, inputs=[pictures])
    return pictures.grad.abs().amax(1)


def grad_cam(features, head, pictures, classes):
    """The same from the last feature maps; ``head(features(pictures))`` are the scores."""
    A = features(pictures).detach().requires_grad_()
    scores = head(A.clone())  # a copy, as the head may begin with a ReLU in place
    v = nn.functional.one_hot(classes, scores.shape[1]).to(scores)
    (gradient,) = torch.autograd.grad(scores, A, v)
    cam = (gradient.mean((2, 3), keepdim=True) * A.detach()).sum(1, keepdim=True)
    cam = nn.functional.interpolate(cam.clamp(min=0), pictures.shape[2:], mode="bilinear")
    return cam[:, 0]


chosen = scores.argmax(1)
for panels in (
    saliency_maps(model, shown, chosen),
    grad_cam(features, head, shown, chosen),
):
    print(tuple(panels.shape))

# %%
# A score at each pixel: segmentation
# -----------------------------------
#
# The output of a UNet has the shape ``(1, C, H, W)``, with a score for each class *at each
# pixel*. For which score do you want a map? There are three common answers. You can add up
# the scores of a class over the whole picture, or only over the pixels where this class has
# the largest score, or you can take the score at one pixel. Each of these is a single
# number, and so each corresponds to a ``v``. For the first, ``v`` has ones in the channel
# of the class and zeros elsewhere:

segmenter = nn.Sequential(features, nn.Conv2d(8, 2, 1))
photo = shown[:1].clone().requires_grad_()
out = segmenter(photo)
won = out.argmax(1) == 1
numbers = out[:, 1].sum(), (out[:, 1] * won).sum(), out[0, 1, 6, 6]
by_class, by_won, by_pixel = (
    torch.autograd.grad(number, photo, retain_graph=True)[0] for number in numbers
)
channel = torch.zeros_like(out)
channel[:, 1] = 1
(by_v,) = torch.autograd.grad(out, photo, channel)
print(tuple(out.shape), tuple(by_class.shape), torch.allclose(by_v, by_class))

# %%
# The ``True`` says that this ``v`` gives the same map as the sum of the scores. The three
# maps answer different questions. The map of a single pixel is zero outside the window that
# this pixel sees, which is 5×5 here. The map over the whole picture says how each pixel
# moves all outputs around it together. Here are the corners of the window:

corners = by_pixel[0, 0].nonzero().aminmax(dim=0)
print(corners.min.tolist(), corners.max.tolist())

# %%
# What to watch for
# -----------------
#
# **The chosen scores are a vector.** Many programs first pick the chosen score of each
# picture and then call ``backward``. With one picture this works, but with a batch you get
# an error. Add up the chosen scores, or pass ones, which gives the same gradient
# (:ref:`sum-is-ones`):

picked = model(pictures).gather(1, scores.argmax(1, keepdim=True))
try:
    picked.backward()
except RuntimeError as error:
    print(error)

# %%
# **The scores themselves as v.** Programs use ``scores.backward(scores * onehot)`` as
# well as ``(scores * onehot).sum().backward()``, and the two look alike. But the first
# multiplies each map by the score of its picture. So the map of a picture with a large
# score looks brighter than the map of a picture with a small score, and a negative score
# changes all signs:

(weighed,) = torch.autograd.grad(model(pictures), pictures, (scores * v).detach())
factor = weighed.abs().sum((1, 2, 3)) / saliency.sum((1, 2))
print("brighter by    ", [round(f, 1) for f in factor.tolist()])
print("the score is   ", [round(f, 1) for f in (scores * v).sum(1).tolist()])

# %%
# **A softmax before the map.** With a softmax you ask about a *probability*, which is a
# different question. With two classes the slope of the probability is :math:`p(1-p)` times
# the slope of the difference of the two scores. If the network is sure, ``p`` is near 1,
# and all entries of the map become small, although the picture is a clear case:

p = model(pictures).softmax(1)
(of_p,) = torch.autograd.grad(p, pictures, v, retain_graph=True)
(of_difference,) = torch.autograd.grad(model(pictures), pictures, 2 * v - 1)
sure = p.prod(1).detach()[:, None, None, None]
torch.testing.assert_close(of_p, sure * of_difference)
print("less than half as bright:", bool(of_p.abs().max() < 0.5 * saliency.max()))

# %%
# **Training mode.** With BatchNorm in ``train()`` the pictures influence each other, and
# each map contains parts of the other maps (:ref:`mixing-samples`). Call ``eval()``
# first.
#
# .. admonition:: Try it
#
#    Ask why a picture is *not* the other class: pass ``1 - v``. Then pass ``2 * v - 1``,
#    the difference of the two scores. How are the three maps related, before you take
#    absolute values?
#
# .. dropdown:: Answer
#
#    A product is linear in ``v``, so the map of ``2 * v - 1``, which is ``v - (1 - v)``, is
#    the difference of the first two:

mine, other, apart = (
    torch.autograd.grad(model(pictures), pictures, each)[0]
    for each in (v, 1 - v, 2 * v - 1)
)
print(torch.allclose(apart, mine - other, atol=1e-5))

# %%
# .. dropdown:: How we checked this page
#
#    We compare each map with the map of the same picture alone, computed with an index in
#    place of a one-hot ``v``. We compare the map of a class with the sum of the maps of its
#    144 pixels. We check that the two functions give the maps on this page, and try them
#    with colors, five classes, feature maps of half the size, a frozen network and other
#    dtypes. With six other seeds, in float32 and in float64, Grad-CAM also had more than
#    60% near the bar.

for i in range(2):
    alone = shown[i : i + 1].clone().requires_grad_()
    model(alone)[0, scores[i].argmax()].backward()
    torch.testing.assert_close(alone.grad[0, 0].abs(), saliency[i])
pixels = torch.func.jacrev(lambda image: segmenter(image)[0, 1])(shown[:1])
torch.testing.assert_close(pixels.sum((0, 1)), by_class)
torch.testing.assert_close(pixels[won[0]].sum(0), by_won)
torch.testing.assert_close(factor, (scores * v).sum(1).abs().detach())
torch.testing.assert_close(apart, mine - other)
torch.testing.assert_close(saliency_maps(model, shown, scores.argmax(1)), saliency)
torch.testing.assert_close(grad_cam(features, head, shown, scores.argmax(1)), cam)
for dtype in (torch.float64, torch.bfloat16):
    front = nn.Conv2d(3, 8, 3, stride=2, padding=1).to(dtype).requires_grad_(False)
    back = nn.Sequential(nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    back = back.append(nn.Linear(8, 5)).to(dtype)
    colours, asked = torch.rand(4, 3, 16, 24, dtype=dtype), torch.tensor([4, 0, 2, 2])
    for panels in (
        saliency_maps(nn.Sequential(front, back), colours, asked),
        grad_cam(front, back, colours, asked),
    ):
        assert (panels.shape, panels.dtype) == ((4, 16, 24), dtype)
        assert not panels.requires_grad
    assert all(w.grad is None for w in back.parameters())
assert accuracy > 0.95
assert share.min() > 0.6
assert (scores.argmax(1) == torch.tensor([0, 1])).all()

# %%
# **Next:** :ref:`attribution` compares four kinds of maps, for a network whose map gives
# away that it has looked at the wrong thing. For the one-hot ``v`` itself, read
# :ref:`one-component`. To look at gradients inside a model, read :ref:`hooks`.
#
# .. asked: saliency map; which pixels matter; Grad-CAM; explain a prediction; heat map
#    of an image classifier; class activation map; attribution; feature importance of a
#    network; why did the network decide so; which pixels are important for the
#    prediction; influence of every pixel; what does the network look at; image
#    explanation is blank; gradient of one class
# .. words: explain, why this class, pixel, heat map, attention map, blank map, black image,
#    noisy map, cnn, cat or dog, what it looks at, interpretability, xai
