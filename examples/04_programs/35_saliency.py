r"""
.. _saliency:

Saliency maps and Grad-CAM: one-hot v over classes
==================================================

To ask which pixels moved the score of one class, pass a one-hot ``v`` over the classes,
in every row of the batch. The gradient arrives in the shape of the images: one map for
each.
"""

# %%
# ``scores`` has shape ``(B, classes)``, the images ``(B, 1, 12, 12)``. With ``v`` one-hot
# in every row the product is the sum over the batch of one score each, and since images
# do not mix (``eval`` mode), every image keeps its own map.
#
# Images of a bright horizontal or vertical bar at a random place, and a small network
# trained to tell them apart:

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
# Sixty steps are enough:

optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(60):
    images, kind = bars(64)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), kind).backward()
    optimizer.step()
images, kind = bars(200)
accuracy = (model.eval()(images).argmax(1) == kind).float().mean()
bool(accuracy > 0.95)

# %%
# The saliency map of the class that the network chose. The input is the leaf, and
# ``requires_grad_()`` comes *before* ``model(pictures)``; set afterwards, ``grad`` is None:

shown = torch.stack([images[kind == k][0] for k in (0, 1)])  # one of each kind
pictures = shown.clone().requires_grad_()
scores = model(pictures)
v = nn.functional.one_hot(scores.argmax(1), 2).float()
scores.backward(v)
saliency = pictures.grad.abs()[:, 0]
saliency.shape

# %%
# Grad-CAM: weigh the features
# ----------------------------
#
# Grad-CAM (Selvaraju et al., 2017) stops at the last feature maps A: the gradient of the
# score by A, averaged over the places, weighs the maps; what is negative is dropped. Where
# the maps are smaller than the image, enlarge the result. Most of it lies within two
# pixels of the bar, which is as far as one 5×5 window sees (2/5 of the image):

A = features(shown)
(gradient,) = torch.autograd.grad(head(A), A, v)
cam = (gradient.mean((2, 3), keepdim=True) * A).sum(1).clamp(min=0).detach()
near = nn.functional.max_pool2d((shown[:, 0] > 0.5).float(), 5, stride=1, padding=2)
share = (cam * near).sum((1, 2)) / cam.sum((1, 2))
print((share > 0.6).tolist())

# %%
# Drawn:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 3, layout="constrained", figsize=(6, 4))
for row, parts in zip(axes, zip(shown[:, 0], saliency, cam, strict=True), strict=True):
    for ax, part in zip(row, parts, strict=True):
        ax.imshow(part.numpy(), cmap="gray")
        ax.set_axis_off()
title = figure.suptitle("Two images, the saliency of the chosen class, and Grad-CAM")

# %%
# An image for each class: segmentation
# -------------------------------------
#
# *My UNet's output is (1, C, H, W), and backward wants a scalar.* Choose the number whose
# map you want: the class's scores added up over the image, or over the pixels that it won,
# or its score at one pixel. The first is a ``v`` of ones in the channel of that class:

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
# One pixel's map is confined to what that pixel sees, here 5×5. A map over the whole image
# says how each pixel moved all the outputs around it together:

corners = by_pixel[0, 0].nonzero().aminmax(dim=0)
print(corners.min.tolist(), corners.max.tolist())

# %%
# What goes wrong
# ---------------
#
# *score.backward() says scalar outputs.* With a batch the chosen scores are a vector.
# Sum them or pass ones, which is the same (:ref:`sum-is-ones`):

chosen = model(pictures).gather(1, scores.argmax(1, keepdim=True))
try:
    chosen.backward()
except RuntimeError as error:
    print(error)

# %%
# *backward(gradient=scores * onehot), or (scores * onehot).sum()?* Not the same: the first
# weighs each map by its own score, so that images are no longer comparable:

(weighed,) = torch.autograd.grad(model(pictures), pictures, (scores * v).detach())
factor = weighed.abs().sum((1, 2, 3)) / saliency.sum((1, 2))
torch.testing.assert_close(factor, (scores * v).sum(1).abs().detach())

# %%
# And after softmax the map answers another question: the slope of a probability p of two
# is :math:`p(1-p)` times the slope of the *difference* of the scores. Where the network is
# sure, the map goes dark:

p = model(pictures).softmax(1)
(of_p,) = torch.autograd.grad(p, pictures, v, retain_graph=True)
(of_difference,) = torch.autograd.grad(model(pictures), pictures, 2 * v - 1)
sure = p.prod(1).detach()[:, None, None, None]
torch.testing.assert_close(of_p, sure * of_difference)
print(bool(of_p.abs().max() < 0.5 * saliency.max()))

# %%
# The check: each image alone, and by indexing in place of a one-hot ``v``; and a class's
# map as the sum of those of its 144 pixels:

for i in range(2):
    alone = shown[i : i + 1].clone().requires_grad_()
    model(alone)[0, scores[i].argmax()].backward()
    torch.testing.assert_close(alone.grad[0, 0].abs(), saliency[i])
pixels = torch.func.jacrev(lambda image: segmenter(image)[0, 1])(shown[:1])
torch.testing.assert_close(pixels.sum((0, 1)), by_class)
torch.testing.assert_close(pixels[won[0]].sum(0), by_won)
assert accuracy > 0.95
assert share.min() > 0.6
assert (scores.argmax(1) == torch.tensor([0, 1])).all()

# %%
# Where next
# ----------
#
# One-hot ``v``: :ref:`one-component`. Samples that mix, and ``eval``:
# :ref:`mixing-samples`. Looking at gradients inside a model: :ref:`hooks`.
#
# .. asked: saliency map; which pixels matter; Grad-CAM; explain a prediction; heat map
#    of an image classifier; class activation map; attribution; feature importance of a
#    network; why did the network decide so; which pixels are important for the
#    prediction; influence of every pixel; what does the network look at; image
#    explanation is blank; gradient of one class
