r"""
.. _optimise-the-input:

I optimize the image, not the weights: FGSM, PGD, style transfer
================================================================

You have a trained network, and this time the weights should stay as they are. You want to
change the *picture* instead.

.. admonition:: Part of the picture never changes?

   A ``clamp`` inside the loss has the slope 0 for each pixel outside its limits, and
   nothing pulls such a pixel back. Give the network the picture as it is, and clamp
   *after* the step:

   .. code-block:: python

      optimizer.step()
      with torch.no_grad():
          picture.clamp_(0, 1)

You may want to fool the network with a change that nobody sees, to paint a photograph in
the style of another, or to find the input that the network likes best. You write the
training loop that you know, with the picture in place of the weights. But first attempts
often stop in the first or the second step, because PyTorch refuses to change the picture in
place, or because ``x.grad`` is None.
"""

# %%
# A network to fool
# -----------------
#
# We take five pictures of 8×8 pixels, and a small convolutional network with three
# classes. The network has not been trained, so its labels for the pictures are arbitrary.
# But it gives each picture a label, and we try to change these labels.
# ``requires_grad_(False)`` freezes the weights:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # weights and images that are the same on every build
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
model.requires_grad_(False).eval()
images = torch.rand(5, 1, 8, 8)
label = model(images).argmax(1)

# %%
# In each step we need the gradient of each picture's loss with respect to this picture.
# There is a loss for each picture, so ``losses`` has the shape ``(5,)``, and ``v`` holds
# ones, which ask for the gradient of the sum. In ``eval`` mode no picture influences
# another, and so each picture gets its own gradient (:ref:`ones`):


def slope(x):
    x = x.detach().requires_grad_()
    losses = F.cross_entropy(model(x), label, reduction="none")
    return torch.autograd.grad(losses, x, torch.ones_like(losses))[0]


# %%
# The trick is in the first line of ``slope``. ``detach`` makes a new tensor without a
# graph, which is a leaf, and ``requires_grad_`` makes it require a gradient. So each step
# starts a new graph at the current picture.
#
# Now we try two attacks. *FGSM* takes a single step, not along the gradient but along its
# *sign*, so that every pixel changes by the same small amount epsilon (Goodfellow et al.,
# 2014). *PGD* takes twenty smaller steps, and after each step pushes the picture back into
# a box around the original, in which no pixel differs from the original by more than
# epsilon (Madry et al., 2017). Both *increase* the loss of the label that the network gives
# now. If you want a particular wrong label, decrease the loss of that label:

epsilon = 0.2
fgsm = (images + epsilon * slope(images).sign()).clamp(0, 1)
pgd = images
for _ in range(20):
    step = pgd + 0.02 * slope(pgd).sign()
    pgd = images + (step - images).clamp(-epsilon, epsilon)
    pgd = pgd.clamp(0, 1)


def loss_at(x):
    return F.cross_entropy(model(x), label).item()


print(f"{loss_at(images):.2f} {loss_at(fgsm):.2f} {loss_at(pgd):.2f}")
print("labels changed:", (model(pgd).argmax(1) != label).sum().item(), "of 5")

# %%
# The loss has risen with one step, and more with twenty, and the network has changed its
# mind. Here are the first picture, the same picture after the attack, and the difference:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, layout="constrained", figsize=(6, 2.4))
panels = {
    "the picture": images[0, 0],
    "after PGD": pgd[0, 0],
    "change": (pgd - images)[0, 0],
}
for ax, (name, panel) in zip(axes, panels.items(), strict=True):
    low, colours = (-1, "PuOr") if name == "change" else (0, "Greys")
    ax.imshow(panel, cmap=colours, vmin=low, vmax=1)
    ax.set_title(name, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
title = figure.suptitle("A change of at most 0.2 in each pixel")

# %%
# Could you use the *mean* of the losses in place of ones? For the sign you could, since
# dividing by 5 changes no sign. For a step along the gradient itself you should not,
# because the step would depend on how many pictures you attack at once.
#
# What goes wrong in the first two steps
# --------------------------------------
#
# Without ``slope``, people write the loop by hand, and there are two natural ways to
# change the picture. PyTorch refuses ``x += ...``, because ``x`` is a leaf that requires
# a gradient. It does not refuse ``x = x + ...``. But the new ``x`` is a *result*, and
# results keep no ``.grad``, so ``x.grad`` is None in the second step:

x = images.clone().requires_grad_()
F.cross_entropy(model(x), label).backward()
try:
    x += 0.02 * x.grad.sign()
except RuntimeError as error:
    print(error)
x = x + 0.02 * x.grad.sign()
print("leaf:", x.is_leaf)

# %%
# There are two remedies. Make a new leaf in each step, as in ``slope``, or change the
# leaf under ``no_grad``, as in the style transfer below.
#
# **The attack does nothing.** If the pictures are rounded to bytes on their way in, the
# slope of ``round`` is 0, and so is every gradient. ``argmax``, NumPy or a JPEG file cut
# the graph altogether, and then ``autograd.grad`` raises an error. For bytes, pass the
# gradient straight through, as if nothing had been rounded (:ref:`quantized`). We print
# whether any gradient arrives, first with the rounding alone and then with the
# straight-through estimate:

bytes_of = images.clone().requires_grad_()
for quantised in (
    (bytes_of * 255).round() / 255,
    bytes_of + ((bytes_of * 255).round() / 255 - bytes_of).detach(),
):
    losses = F.cross_entropy(model(quantised), label, reduction="sum")
    print((torch.autograd.grad(losses, bytes_of)[0].abs().max() > 0).item())

# %%
# **The attack trains the network.** ``loss.backward()`` also fills the ``.grad`` of every
# weight that is not frozen, and the next training step uses it, unless ``zero_grad`` comes
# first. Frozen weights get no gradient, and PyTorch does not even compute one. If the
# weights have to stay trainable, as in adversarial training, ``autograd.grad`` with respect
# to the picture leaves their ``.grad`` alone. During such training, attack in ``eval()``
# mode, so that the running averages of BatchNorm do not change, and then train on
# ``x.detach()``. We print the ``.grad`` of the frozen weights, and then the ``.grad`` of
# trainable weights after a call to ``slope``:

print({p.grad for p in model.parameters()})
model.requires_grad_(True)
slope(images)
print({p.grad for p in model.requires_grad_(False).parameters()})

# %%
# Style transfer
# --------------
#
# The second program paints. A picture should keep the *features* of one photograph, and
# take on the *Gram matrix* of the features of a second picture. The Gram matrix says which
# features occur together, and it stands for the style. Both are targets, and the picture is
# the leaf. Many people end up with ``retain_graph=True`` here, because without it the
# second step raises an error:

features = model[:2]


def gram(f):
    f = f.flatten(2)
    return f @ f.mT / f[0].numel()


content, style = images[:1], images[1:2].clone().requires_grad_()
picture = content.clone().requires_grad_()
target = gram(features(style))
try:
    for _ in range(2):
        ((gram(features(picture)) - target) ** 2).sum().backward()
except RuntimeError as error:
    print(str(error).partition(" (")[0])

# %%
# This flag hides the reason. The *target* has a graph, since the style picture requires a
# gradient. If the weights of ``features`` were not frozen, they would give the target a
# graph as well. Each ``backward`` also goes back through this graph, and the first one
# frees it. With ``retain_graph=True`` the program runs, but it does unnecessary work for a
# target that should not change. A target is a constant, so compute it once, under
# ``no_grad``. Then you need no flag. The optimizer gets the picture as its only parameter:

with torch.no_grad():
    target, kept = gram(features(style)), features(content)
picture = content.clone().requires_grad_()
optimizer = torch.optim.Adam([picture], lr=0.02)

# %%
# In each step, clamp the picture to the range of pixel values. Do this under ``no_grad``,
# where a leaf may be edited in place:

for step in range(101):
    optimizer.zero_grad()
    seen = features(picture)
    loss = 1e5 * ((gram(seen) - target) ** 2).sum() + ((seen - kept) ** 2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    if step == 0:
        print(f"first loss {loss.item():.1f}")
print("last loss below 0.2:", loss.item() < 0.2)

# %%
# What to watch for
# -----------------
#
# - **A clamp inside the graph**, as in ``model(x.clamp(0, 1))``, has the slope 0 for each
#   pixel outside the limits, and nothing pulls such a pixel back. Clamp after the step.
#   The cell below pulls four pixels toward 0.5 in both ways. Two of the pixels begin
#   outside.
# - **Momentum.** Adam and SGD with momentum keep pushing against the clamp for some
#   steps. PGD has no momentum, and you know the size of its steps in advance.
# - **Normalized pictures.** If the network gets ``(x - mean) / std``, put this into the
#   function that you differentiate. Then epsilon is measured in brightness, and not in
#   standard deviations.

for where in ("in the loss", "after the step"):
    pixels = torch.tensor([-0.4, 0.2, 0.7, 1.3], requires_grad=True)
    optimizer = torch.optim.Adam([pixels], lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        seen = pixels.clamp(0, 1) if where == "in the loss" else pixels
        (seen - 0.5).square().sum().backward()
        optimizer.step()
        if where == "after the step":
            with torch.no_grad():
                pixels.clamp_(0, 1)
    print(f"{where:14}", [round(p, 1) for p in pixels.tolist()])

# %%
# .. admonition:: Try it
#
#    Make the network choose class 0 for all five pictures. What has to change in the loop
#    of PGD, and may epsilon stay as it is?
#
# .. dropdown:: Answer
#
#    Take the loss of the class that you want, and step down instead of up. With epsilon
#    0.2 this works for all five pictures here. It does not work for every picture. With
#    twenty other networks it worked for about three in four of the pictures that had
#    another label before. For the others the box or the number of steps was too small.

wanted = torch.zeros_like(label)
towards = images
for _ in range(20):
    x = towards.detach().requires_grad_()
    losses = F.cross_entropy(model(x), wanted, reduction="none")
    (down,) = torch.autograd.grad(losses, x, torch.ones_like(losses))
    step = towards - 0.02 * down.sign()
    towards = (images + (step - images).clamp(-epsilon, epsilon)).clamp(0, 1)
print(model(towards).argmax(1).tolist())

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient of the style loss with respect to the ``N`` features ``F`` with
#    :math:`4(G-T)F/N` in float64. We compare the gradient of each picture with the gradient
#    that the picture gets alone. We also check the limits of the boxes and the order of the
#    losses.

target = target.double()
f = kept.double().flatten(2).requires_grad_()
n = f[0].numel()
difference = f @ f.mT / n - target
(by_features,) = torch.autograd.grad((difference**2).sum(), f)
torch.testing.assert_close(
    by_features, 4 * difference.detach() @ f.detach() / n, atol=0, rtol=1e-9
)

for i, g in enumerate(slope(images)):
    one = images[i : i + 1].clone().requires_grad_()
    (own,) = torch.autograd.grad(F.cross_entropy(model(one), label[i : i + 1]), one)
    torch.testing.assert_close(g, own[0])
assert (pgd - images).abs().max() <= epsilon + 1e-6
assert loss_at(images) < loss_at(fgsm) < loss_at(pgd)

# %%
# **Next:** :ref:`through-a-frozen-network` shows what a frozen network passes back, and how
# a generator learns from it. :ref:`saliency` draws a map of the pixels that mattered,
# without an attack. :ref:`leaves-and-roots` is about leaves, and :ref:`token-gradients` has
# words in place of pixels.
#
# .. asked: part of the picture never changes; some pixels stay as they are;
#    optimise the image; optimise the input instead of the weights; style
#    transfer; deep dream; PGD attack; find the input that maximises a neuron; improve a
#    picture by gradient; prompt tuning of the input; change the picture until the
#    network says cat; improve the picture instead of the network; fool a network
# .. words: dream, picture, noise image, latent, maximise a neuron, activation maximisation,
#    adversarial, sign of the gradient, epsilon ball, project, clamp the image
