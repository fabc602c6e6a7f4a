r"""
.. _optimise-the-input:

I optimise the image, not the weights: FGSM, PGD, style transfer
================================================================

Make the image a leaf, freeze the weights, and take the gradient by the image. After each
step the image is a new tensor, or edited under ``no_grad``: without that its ``.grad`` is
None, or it refuses to be changed.
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
# epsilon (Goodfellow et al., 2014; Madry et al., 2017). Both go *up* the loss:

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
# *The attack does nothing*: the loss is ``model(x).argmax()``, or the images went through
# NumPy, ``round`` or a JPEG on their way in, and the slope is None or 0. For bytes, pass
# the gradient straight through (:ref:`quantized`):

bytes_of = images.clone().requires_grad_()
for quantised in (
    (bytes_of * 255).round() / 255,
    bytes_of + ((bytes_of * 255).round() / 255 - bytes_of).detach(),
):
    losses = F.cross_entropy(model(quantised), label, reduction="sum")
    print((torch.autograd.grad(losses, bytes_of)[0].abs().max() > 0).item())

# %%
# *The weights' .grad fill up*, and the next training step uses them. Frozen weights have
# none, and their products are not computed; ``autograd.grad`` by x does not fill them
# either:

print({p.grad for p in model.parameters()})

# %%
# Style transfer: targets are constants, the image is the leaf
# ------------------------------------------------------------
#
# Features of the content, and the Gram matrix of the style's, are computed once, under
# ``no_grad``. *Why do I need retain_graph=True?* Because they were not: then every
# ``backward`` walks into their graph as well, freed the first time (here the style is a
# tensor that requires a gradient):

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
# With constants for targets no flag is needed. The optimizer gets the image, and clamps it
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
    if step % 50 == 0:
        print(step, f"{loss.item():.2f}")

# %%
# The gradient of the style loss by the *features* is a formula, :math:`4(G-T)F/N` for
# features F of N entries: what ``backward`` hands to the network as v.
#
# The check: that formula, each image's gradient on its own, and the box:

f = seen.detach().flatten(2).requires_grad_()
n = f[0].numel()
difference = f @ f.mT / n - target
(by_features,) = torch.autograd.grad((difference**2).sum(), f)
torch.testing.assert_close(by_features, 4 * difference.detach() @ f.detach() / n)
for i, g in enumerate(slope(images)):
    one = images[i : i + 1].clone().requires_grad_()
    (own,) = torch.autograd.grad(F.cross_entropy(model(one), label[i : i + 1]), one)
    torch.testing.assert_close(g, own[0])
assert (pgd - images).abs().max() <= epsilon + 1e-6
assert loss_at(images) < loss_at(fgsm) <= loss_at(pgd) + 0.05

# %%
# Where next
# ----------
#
# A map of what mattered, not an attack: :ref:`saliency`. Leaves: :ref:`leaves-and-roots`.
# Words in place of pixels: :ref:`token-gradients`.
