r"""
.. _through-a-frozen-network:

How do I change the input and leave the network alone? FGSM, images, GANs
=========================================================================

Ask for the gradient by the input: the product goes *through* the network, whose weights are
read and not changed. But ``backward`` fills the ``.grad`` of the weights as well.
``torch.autograd.grad(y, x, v)``, ``backward(v, inputs=[x])`` or weights that do not require
a gradient keep it out.
"""

# %%
# A network that is trained and done: ``x`` has shape ``(3, 4)``, three samples, the scores
# ``(3, 2)``, and so has ``v``. *I only wanted x.grad*, and the next ``optimizer.step()``
# finds gradients in the weights:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same weights on every build
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
x = torch.randn(3, 4, requires_grad=True)
v = torch.tensor([[1.0, -1.0]]).expand(3, 2)
net(x).backward(v)
wanted = x.grad


def filled():
    return [name for name, p in net.named_parameters() if p.grad is not None]


print("filled:", filled())

# %%
# Three ways that fill ``x`` alone, and one that fills nothing, since ``no_grad`` keeps no
# graph at all:


def frozen():
    net.requires_grad_(False)
    net(x).backward(v)
    net.requires_grad_(True)


ways = {
    "autograd.grad": lambda: torch.autograd.grad(net(x), x, v)[0],
    "inputs=[x]": lambda: net(x).backward(v, inputs=[x]),
    "requires_grad_(False)": frozen,
    "no_grad": lambda: torch.no_grad()(net)(x).backward(v),
}

# %%
# The first returns the product, the others leave it in ``x.grad``:

for name, way in ways.items():
    net.zero_grad()
    x.grad = None
    try:
        returned = way()
    except RuntimeError as error:
        print(f"{name:22}", str(error).split(" and ")[0])
        continue
    product = x.grad if returned is None else returned
    print(f"{name:22}", torch.equal(product, wanted), filled())

# %%
# One step against the network: FGSM
# ----------------------------------
#
# *Which way does an adversarial example go?* Uphill on the loss of the class that the
# network sees, by the sign alone, so that no entry moves more than ε; or downhill on the
# loss of a class that you want it to see. The other two ways only make the network surer:

seen = net(x).argmax(1).detach()
epsilon = 0.5


def loss_at(point, classes):
    return F.cross_entropy(net(point), classes)


for name, classes in {"of the class seen": seen, "of the other": 1 - seen}.items():
    (g,) = torch.autograd.grad(loss_at(x, classes), x)
    for way, sign in {"uphill": 1, "downhill": -1}.items():
        after = net(x.detach() + sign * epsilon * g.sign())
        sure = after.softmax(1).gather(1, seen[:, None]).mean().item()
        print(f"{way:9}{name:18} the class seen has {sure:.2f}")

# %%
# The loss is a mean, so every row of g is a third of its sample's gradient. The sign does
# not mind; a step along g itself would (:ref:`which-way-to-step`).
#
# An image as the parameter
# -------------------------
#
# *Style transfer, inversion, an input that excites a unit:* the image is a leaf, and the
# optimizer has only that. Limits are kept by an edit under ``no_grad``, and not by a
# ``clamp`` that makes a new tensor, which is no :term:`leaf`:

image = torch.zeros(1, 4, requires_grad=True)
optimizer = torch.optim.SGD([image], lr=0.5)
for _ in range(50):
    net(image).backward(torch.tensor([[-1.0, 0.0]]), inputs=[image])  # raise score 0
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        image.clamp_(-1, 1)
print(image.is_leaf, image.clamp(-1, 1).is_leaf, image.abs().max() <= 1)
at_zero, at_end = net(torch.zeros(1, 4))[0, 0].item(), net(image)[0, 0].item()
print(at_zero < at_end)

# %%
# A GAN: through the critic, to the generator
# -------------------------------------------
#
# *Does the generator's loss train the discriminator?* It fills its ``.grad``. If nobody
# empties it, the critic's next step also goes the generator's way. ``detach`` is the wrong
# way out here: it cuts the generator off:

generator = nn.Linear(2, 4)
noise = torch.randn(3, 2)
for name, cut in {"detach": lambda t: t.detach(), "no detach": lambda t: t}.items():
    net.zero_grad()
    generator.zero_grad()
    net(cut(generator(noise))).backward(v)
    print(f"{name:10}", generator.weight.grad is not None, len(filled()))

# %%
# So ``detach`` belongs to the *critic's* loss, where the generator is to stay as it is. In
# the generator's, name the inputs, or switch the critic's weights off for this call:

net.zero_grad()
generator.zero_grad()
net(generator(noise)).backward(v, inputs=list(generator.parameters()))
print(generator.weight.grad is not None, filled())

# %%
# What goes wrong
# ---------------
#
# *The network is in train() mode.* Its weights may be frozen, and BatchNorm still takes the
# statistics of your adversarial batch, and dropout draws: ``eval()`` is another switch.

norm = nn.BatchNorm1d(4).requires_grad_(False)
for mode in (norm.train, norm.eval):
    before = norm.running_mean.clone()
    torch.autograd.grad(mode()(x).sum(), x)
    print(mode.__name__, torch.equal(norm.running_mean, before))

# %%
# The check: the product through the network, in two halves, by the weights written out,
# with nothing of autograd; and the generator's gradient by the
# :term:`cotangent` at its output:

hidden = torch.tanh(net[0](x)).detach()
by_hand = (v @ net[2].weight * (1 - hidden**2)) @ net[0].weight
torch.testing.assert_close(wanted, by_hand.detach())
fake = generator(noise).detach().requires_grad_()
(at_fake,) = torch.autograd.grad(net(fake), fake, v)
torch.testing.assert_close(generator.weight.grad, at_fake.T @ noise)

# %%
# Where next
# ----------
#
# Maps of what the input does: :ref:`saliency`. Cutting on purpose: :ref:`cut-graphs`.
# Penalties on this gradient: :ref:`gradient-penalty`. Which tensors are filled:
# :ref:`leaves-and-roots`.
