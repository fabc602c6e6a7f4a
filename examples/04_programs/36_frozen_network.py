r"""
.. _through-a-frozen-network:

How do I change the input and leave the network alone? FGSM, images, GANs
=========================================================================

Your network is trained, and you want to change its *input*. You may want to find the
smallest change that deceives the network, to make a picture that excites one of its
units, or to train a generator whose output goes into the network. The gradient has to go
*through* the network to the input, but the network should stay as it is. You call
``y.backward(v)``, and ``x.grad`` is right. But now every weight of the network has a
``.grad`` as well, and the next ``optimizer.step()`` uses it. How do you ask for the
gradient with respect to the input alone?
"""

# %%
# A trained network
# -----------------
#
# Our network sorts points in the plane into two classes, which lie on two interlocking
# arcs. Each point has two coordinates, and the network returns two scores:

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same points and weights on every build
angle = math.pi * torch.rand(200)
kind = torch.arange(200) % 2
arcs = torch.stack([angle.cos(), angle.sin()], 1)
points = torch.where(kind[:, None] == 0, arcs, torch.tensor([1.0, 0.4]) - arcs)
points = points + 0.1 * torch.randn(200, 2)

net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
for _ in range(150):
    optimizer.zero_grad()
    F.cross_entropy(net(points), kind).backward()
    optimizer.step()
right = (net(points).argmax(1) == kind).float().mean().item()
print("more than 95% right:", right > 0.95)

# %%
# We take three of the points. The scores have the shape ``(3, 2)``, and so has ``v``.
# With 1 and −1 we ask for the gradient of the first score minus the second. Afterwards we
# list the weights that have a gradient:

x = points[:3].clone().requires_grad_()
v = torch.tensor([[1.0, -1.0]]).expand(3, 2)


def filled():
    return [name for name, p in net.named_parameters() if p.grad is not None]


net.zero_grad()
net(x).backward(v)
wanted = x.grad
print("filled:", filled())

# %%
# All four weights have one. ``backward`` fills every :term:`leaf` of the graph that
# requires a gradient, and the weights require one.
#
# Four ways, of which one fails
# -----------------------------
#
# With ``autograd.grad`` you ask for the gradient with respect to ``x``, and the call
# returns it. With ``inputs=`` you name the leaves whose ``.grad`` should be filled. Or
# you can set ``requires_grad`` of the weights to False. The gradient still passes through
# them, because the backward pass to ``x`` only *reads* the weights. ``no_grad`` does not
# work, because then there is no graph at all, not even for ``x``:


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
# The first three ways give the same gradient with respect to ``x``, and the weights get
# none. Take the first for a single gradient. Take the second if you need ``.grad``, for
# example for an optimizer. Take the third if the network will never be trained again. The
# third way also saves memory, because PyTorch does not keep the tensors that are needed
# only for the gradients of the weights.
#
# One step against the network: FGSM
# ----------------------------------
#
# An *adversarial example* is an input that has been changed a little, in such a way that
# the network makes a mistake. In which direction do you have to go? There are two ways:
# uphill on the loss of the class that the network sees, or downhill on the loss of the
# class that you want it to see. The opposite directions make the network surer of its
# class. FGSM takes only the *sign* of the gradient, so that no entry moves by more than
# ε:

epsilon = 0.4
seen = net(points).argmax(1)


def attack(net, x, classes, epsilon):
    """Return x, moved uphill on the loss of ``classes``, each entry by ``epsilon``."""
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(F.cross_entropy(net(x), classes), x)
    return (x + epsilon * g.sign()).detach()


for name, classes in {"of the class seen": seen, "of the other": 1 - seen}.items():
    for way, sign in {"uphill": 1, "downhill": -1}.items():
        after = net(attack(net, points, classes, sign * epsilon))
        sure = after.softmax(1).gather(1, seen[:, None]).mean().item()
        print(f"{way:9}{name:18} the class seen has {sure:.1f}")

# %%
# The first and the last line of the output are for attacks, and the other two moves make
# the network surer than it was. In the picture each line shows a point that has been moved
# uphill on the loss of its class, from the dot to the free end. The border between the two
# classes is where the color changes:

import matplotlib.pyplot as plt

grid = torch.cartesian_prod(torch.linspace(-1.6, 2.6, 120), torch.linspace(-1.3, 1.7, 120))
side = net(grid).argmax(1).reshape(120, 120).T
moved = attack(net, points, seen, epsilon)
figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.8))
ax.imshow(side, origin="lower", extent=(-1.6, 2.6, -1.3, 1.7), cmap="PuOr", alpha=0.3)
for start, end in zip(points[:40], moved[:40], strict=True):
    ax.plot(*zip(start.tolist(), end.tolist(), strict=True), color="grey", linewidth=1)
ax.scatter(*points[:40].T, c=kind[:40], cmap="PuOr", edgecolors="black")
title = ax.set_title("FGSM moves each point towards the border")

# %%
# All lines are diagonal, because both entries have moved by the same amount. Most free ends
# are on the other side of the border.
#
# The loss is a mean over the points, so every row of the gradient is one two-hundredth of
# the gradient that the point alone would have. This does not change the sign. If you step
# along the gradient itself, each step is only a two-hundredth as long as for a point alone
# (:ref:`which-way-to-step`).
#
# An image as the parameter
# -------------------------
#
# For style transfer, for inversion, or for seeing what excites a unit, you train the input.
# Make the input a leaf, and pass only this leaf to the optimizer. If its entries have to
# stay within limits, edit it in place under ``no_grad``. ``image = image.clamp(-1, 1)``
# would make a new tensor, which is not a leaf, and the optimizer would go on with the old
# tensor:

image = torch.zeros(1, 2, requires_grad=True)
optimizer = torch.optim.SGD([image], lr=0.5)
for _ in range(50):
    net(image).backward(torch.tensor([[-1.0, 0.0]]), inputs=[image])  # raise score 0
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        image.clamp_(-1, 1)
print("a leaf:", image.is_leaf, " clamped:", image.clamp(-1, 1).is_leaf)
at_zero, at_end = net(torch.zeros(1, 2))[0, 0].item(), net(image)[0, 0].item()
print("within the limits:", bool((image.abs() <= 1).all()), " higher:", at_end > at_zero)

# %%
# The −1 in ``v`` makes the optimizer, which goes downhill, raise score 0.
#
# A GAN: through the critic, to the generator
# -------------------------------------------
#
# In a GAN the network that the gradient passes through is the critic. The gradient of the
# generator's loss passes through the critic, and ``backward`` fills the critic's ``.grad``,
# too. If you do not clear it, the critic's next step also follows the generator's loss. A
# ``detach`` is the wrong solution here, because it cuts off the generator, which you want
# to train:

generator = nn.Linear(2, 2)
optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
noise = torch.randn(3, 2)
print("           generator filled, critic filled")
for name, cut in {"detach": lambda t: t.detach(), "no detach": lambda t: t}.items():
    net.zero_grad()
    optimizer.zero_grad()
    net(cut(generator(noise))).backward(v)
    print(f"{name:10}", generator.weight.grad is not None, len(filled()))

# %%
# ``detach`` belongs in the *critic's* loss, which should leave the generator as it is.
# For the generator's loss, name the ``inputs``, or freeze the critic for this one call:

net.zero_grad()
optimizer.zero_grad()
fake = generator(noise)
net(fake).backward(v, inputs=list(generator.parameters()))
optimizer.step()
print(generator.weight.grad is not None, filled())

# %%
# What to watch for
# -----------------
#
# **The network is in train() mode.** A network with frozen weights can still change.
# BatchNorm still moves its running mean toward your batch, and dropout draws a new mask
# at each call, so that two gradients at the same input differ. ``eval()`` and
# ``requires_grad_(False)`` are different switches, and you need both
# (:ref:`freezing-layers`):

layers = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()).requires_grad_(False)
for mode in (layers.train, layers.eval):
    before = layers[0].running_mean.clone()
    a, b = (torch.autograd.grad(mode()(x), x, torch.ones(3, 2))[0] for _ in range(2))
    kept = torch.equal(layers[0].running_mean, before)
    same = torch.allclose(a, b)
    print(f"{mode.__name__:6} mean kept: {kept}  same gradient: {same}")

# %%
# .. admonition:: Try it
#
#    How large does ε have to be before half of the points are on the wrong side? Try 0.1,
#    0.2 and 0.4.
#
# .. dropdown:: Answer
#
#    The answer is between 0.2 and 0.4:

for epsilon in (0.1, 0.2, 0.4):
    fooled = net(attack(net, points, seen, epsilon)).argmax(1) != seen
    print(epsilon, fooled.float().mean().item() > 0.5)

# %%
# .. dropdown:: How we checked this page
#
#    We compute the gradient through the network layer by layer from the weights, without
#    autograd. We compute the gradient of the generator's weight from the :term:`cotangent`
#    at its output. We also check the direction of each of the four moves.

hidden = torch.tanh(net[0](x)).detach()
by_hand = (v @ net[2].weight * (1 - hidden**2)) @ net[0].weight
torch.testing.assert_close(wanted, by_hand.detach())
fake = fake.detach().requires_grad_()
(at_fake,) = torch.autograd.grad(net(fake), fake, v)
torch.testing.assert_close(generator.weight.grad, at_fake.T @ noise)
assert at_zero < at_end
assert right > 0.95


def chance(x):
    return net(x).softmax(1).gather(1, seen[:, None]).mean()


for classes, sign in ((seen, 1), (1 - seen, -1)):
    less, more = (attack(net, points, classes, s * 0.4) for s in (sign, -sign))
    assert chance(less) < chance(points) < chance(more)
assert (moved - points).abs().sub(0.4).abs().max() < 1e-5

# %%
# **Next:** To make an attack in several steps, or to train other inputs, read
# :ref:`optimise-the-input`. To draw a map of what each part of the input contributes, read
# :ref:`saliency`. To cut a graph on purpose, read :ref:`cut-graphs`. To put a penalty on
# the gradient with respect to the input, read :ref:`gradient-penalty`.
# :ref:`leaves-and-roots` explains which tensors get a ``.grad``.
#
# .. asked: gradient of the input with frozen weights; change the input and leave the
#    network alone; FGSM attack; adversarial example; gradient with respect to the
#    image; does freezing stop the gradient to the input
# .. words: latent code, invert a GAN, image gets no gradient, no_grad by mistake, eval is
#    not enough, optimise z, attack
