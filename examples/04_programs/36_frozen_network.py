r"""
.. _through-a-frozen-network:

How do I change the input and leave the network alone? FGSM, images, GANs
=========================================================================

Ask for the gradient by the input alone, with ``torch.autograd.grad(y, x, v)`` or
``y.backward(v, inputs=[x])``, or call ``requires_grad_(False)`` on the network. The product
goes *through* the network, whose weights are read and not changed; ``y.backward(v)`` alone
fills their ``.grad`` as well.
"""

# %%
# ``x`` has shape ``(3, 4)``, three samples; the scores have shape ``(3, 2)``, and so has
# ``v``. The weights of ``net`` are to stay as they are. *I only wanted x.grad*, and the
# next ``optimizer.step()`` finds gradients in the weights:

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
# Three ways to the product that leave the weights' ``.grad`` empty, and one to no product,
# since ``no_grad`` keeps no graph at all:


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
# The first returns the product, the next two leave it in ``x.grad``, the last raises:

for name, way in ways.items():
    net.zero_grad()
    x.grad = None
    try:
        returned = way()
    except RuntimeError as error:
        print(f"{name:22}", str(error).split(" and ")[0])
        continue
    product = x.grad if returned is None else returned
    print(f"{name:22}", torch.allclose(product, wanted), filled())

# %%
# One step against the network: FGSM
# ----------------------------------
#
# *Which way does an adversarial example go?* Uphill on the loss of the class that the
# network sees, by the sign of the gradient alone, so that no entry moves more than ε; or
# downhill on the loss of a class that you want it to see. The two turned round make the
# network surer:

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
# The loss is a mean, so every row of g is a third of its sample's gradient. The sign is the
# same; a step along g itself would be a third as long (:ref:`which-way-to-step`).
#
# An image as the parameter
# -------------------------
#
# *Style transfer, inversion, an input that excites a unit:* the image is a :term:`leaf`,
# and the only tensor in the optimizer. Keep it within limits by an edit in place under
# ``no_grad``; ``image = image.clamp(…)`` makes another tensor, which is no leaf:

image = torch.zeros(1, 4, requires_grad=True)
optimizer = torch.optim.SGD([image], lr=0.5)
for _ in range(50):
    net(image).backward(torch.tensor([[-1.0, 0.0]]), inputs=[image])  # raise score 0
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        image.clamp_(-1, 1)
print(image.is_leaf, image.clamp(-1, 1).is_leaf, image.abs().max().item() <= 1)
at_zero, at_end = net(torch.zeros(1, 4))[0, 0].item(), net(image)[0, 0].item()
print(f"score 0: {at_zero:.1f}, after 50 steps: {at_end:.1f}")

# %%
# A GAN: through the critic, to the generator
# -------------------------------------------
#
# *Does the generator's loss train the discriminator?* Its ``backward`` fills the
# ``.grad`` of the discriminator, here ``net``. If nobody empties that, the critic's next
# step also goes the generator's way. ``detach`` is the wrong way out here, as it cuts the
# generator off:

generator = nn.Linear(2, 4)
noise = torch.randn(3, 2)
for name, cut in {"detach": lambda t: t.detach(), "no detach": lambda t: t}.items():
    net.zero_grad()
    generator.zero_grad()
    net(cut(generator(noise))).backward(v)
    print(f"{name:10}", generator.weight.grad is not None, len(filled()))

# %%
# So ``detach`` belongs in the *critic's* loss, where the generator is to stay as it is.
# In the generator's, name the ``inputs``, or freeze the critic's weights for this call:

net.zero_grad()
generator.zero_grad()
net(generator(noise)).backward(v, inputs=list(generator.parameters()))
print(generator.weight.grad is not None, filled())

# %%
# What goes wrong
# ---------------
#
# *The network is in train() mode.* With frozen weights BatchNorm still moves its running
# mean towards your batch, and dropout draws anew at each call, so that two gradients at
# the same ``x`` differ. ``eval()`` is another switch (:ref:`freezing-layers`):

layers = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout()).requires_grad_(False)
for mode in (layers.train, layers.eval):
    before = layers[0].running_mean.clone()
    a, b = (torch.autograd.grad(mode()(x), x, torch.ones(3, 4))[0] for _ in range(2))
    kept = torch.equal(layers[0].running_mean, before)
    print(f"{mode.__name__:6}", "mean kept:", kept, "same gradient:", torch.allclose(a, b))

# %%
# The check: the product through the network, layer by layer from the weights, with nothing
# of autograd; and the gradient of the generator's weight from the :term:`cotangent` at its
# output. The image ends where score 0 is higher:

hidden = torch.tanh(net[0](x)).detach()
by_hand = (v @ net[2].weight * (1 - hidden**2)) @ net[0].weight
torch.testing.assert_close(wanted, by_hand.detach())
fake = generator(noise).detach().requires_grad_()
(at_fake,) = torch.autograd.grad(net(fake), fake, v)
torch.testing.assert_close(generator.weight.grad, at_fake.T @ noise)
assert at_zero < at_end

# %%
# Where next
# ----------
#
# Maps of what the input does: :ref:`saliency`. Cutting on purpose: :ref:`cut-graphs`.
# Penalties on this gradient: :ref:`gradient-penalty`. Which tensors are filled:
# :ref:`leaves-and-roots`.
#
# .. asked: gradient of the input with frozen weights; change the input and leave the
#    network alone; FGSM attack; adversarial example; gradient with respect to the
#    image; does freezing stop the gradient to the input
# .. words: latent code, invert a GAN, image gets no gradient, no_grad by mistake, eval is
#    not enough, optimise z, attack
