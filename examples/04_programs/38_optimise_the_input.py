r"""
.. _optimise-the-input:

I optimise the image, not the weights: FGSM, PGD, style transfer
================================================================

Make the image a leaf, freeze the weights, and take the gradient by the image. After each
step make the result a new leaf, or edit the old one under ``no_grad``: without that the
image's ``.grad`` is None, or the image refuses to be changed.
"""

# %%
# A batch of images x of shape ``(B, 1, 8, 8)``, logits of shape ``(B, 3)``. The losses of
# the B images do not mix, so their sum, ones for v, gives each image its own gradient:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # weights and images that are the same on every build
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
model.requires_grad_(False).eval()
images = torch.rand(5, 1, 8, 8)
label = model(images).argmax(1)


def slope(x):
    x = x.detach().requires_grad_()
    losses = F.cross_entropy(model(x), label, reduction="none")
    return torch.autograd.grad(losses, x, torch.ones_like(losses))[0]


# %%
# FGSM is one step along the sign, PGD several with a projection back to the box of size
# epsilon (Goodfellow et al., 2014; Madry et al., 2017). Both go *up* the loss of the true
# label; for a wrong label of your choice, go down the loss of that one:

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
# The mean loss would do for FGSM: dividing by B changes no sign. It does not for a step
# along the gradient itself, whose size then depends on the size of the batch.
#
# What goes wrong
# ---------------
#
# *x.grad is None in the second step.* ``x = x + ...`` is a result, no leaf. And *a leaf
# Variable that requires grad is being used in an in-place operation*, for ``x += ...``:

x = images.clone().requires_grad_()
F.cross_entropy(model(x), label).backward()
try:
    x += 0.02 * x.grad.sign()
except RuntimeError as error:
    print(error)
x = x + 0.02 * x.grad.sign()
print("leaf:", x.is_leaf)

# %%
# *The attack does nothing*: the images went through ``round`` on their way in, and the
# slope is 0; ``argmax``, NumPy or a JPEG file end the graph, and ``autograd.grad`` raises.
# For bytes, pass the gradient straight through (:ref:`quantized`):

bytes_of = images.clone().requires_grad_()
for quantised in (
    (bytes_of * 255).round() / 255,
    bytes_of + ((bytes_of * 255).round() / 255 - bytes_of).detach(),
):
    losses = F.cross_entropy(model(quantised), label, reduction="sum")
    print((torch.autograd.grad(losses, bytes_of)[0].abs().max() > 0).item())

# %%
# *The weights' .grad fill up*, and the next training step uses them. Frozen weights have
# none, and their products are not computed. ``autograd.grad`` by x fills none either, if
# the weights are needed elsewhere, as in adversarial training: attack in ``eval()`` mode,
# which leaves BatchNorm's averages alone, then ``zero_grad`` and train on ``x.detach()``:

print({p.grad for p in model.parameters()})
model.requires_grad_(True)
slope(images)
print({p.grad for p in model.requires_grad_(False).parameters()})

# %%
# Style transfer: targets are constants, the image is the leaf
# ------------------------------------------------------------
#
# Compute the features of the content, and the Gram matrix of the style's, once and under
# ``no_grad``. *Why do I need retain_graph=True?* Because a target has a graph: every
# ``backward`` walks into it, and the first frees it. Here the style requires a gradient:

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
# With constants for targets no flag is needed. The optimizer gets the image; you clamp it,
# under ``no_grad``:

with torch.no_grad():
    target, kept = gram(features(style)), features(content)
picture = content.clone().requires_grad_()
optimizer = torch.optim.Adam([picture], lr=0.02)

# %%
# The steps:

for step in range(101):
    optimizer.zero_grad()
    seen = features(picture)
    loss = 1e5 * ((gram(seen) - target) ** 2).sum() + ((seen - kept) ** 2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    if step == 0:
        print(f"{loss.item():.1f}")
print(loss.item() < 0.2)

# %%
# The check, in float64: the gradient of the style loss by N *features* F, which the
# network gets as v, is :math:`4(G-T)F/N`:

target = target.double()
f = kept.double().flatten(2).requires_grad_()
n = f[0].numel()
difference = f @ f.mT / n - target
(by_features,) = torch.autograd.grad((difference**2).sum(), f)
torch.testing.assert_close(
    by_features, 4 * difference.detach() @ f.detach() / n, atol=0, rtol=1e-9
)

# %%
# Each image's gradient on its own, the box, and the losses in their order:

for i, g in enumerate(slope(images)):
    one = images[i : i + 1].clone().requires_grad_()
    (own,) = torch.autograd.grad(F.cross_entropy(model(one), label[i : i + 1]), one)
    torch.testing.assert_close(g, own[0])
assert (pgd - images).abs().max() <= epsilon + 1e-6
assert loss_at(images) < loss_at(fgsm) < loss_at(pgd)

# %%
# Where next
# ----------
#
# A map of what mattered, not an attack: :ref:`saliency`. Leaves: :ref:`leaves-and-roots`.
# Words in place of pixels: :ref:`token-gradients`.
#
# .. asked: optimise the image; optimise the input instead of the weights; style
#    transfer; deep dream; PGD attack; find the input that maximises a neuron; improve a
#    picture by gradient; prompt tuning of the input; change the picture until the
#    network says cat; improve the picture instead of the network; fool a network
