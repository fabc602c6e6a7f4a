r"""
.. _auxiliary-head:

Deep supervision: a second loss at a layer in the middle
========================================================

Your deep network hardly learns, because little of the gradient of its loss arrives at the
first layers. An old remedy is a second head in the middle, with its own loss. Then two
gradients reach the layers below this head. Do you add up the losses, call
``torch.autograd.backward`` with both losses, or call ``backward`` twice? All three ways
give the same gradients, and this page shows where the gradients of the two losses meet.
"""

# %%
# Two spirals
# -----------
#
# The network has to tell apart two intertwined spirals. It is narrow and deep, with
# fourteen layers in all. The first four are the *trunk*. The *auxiliary head* is a single
# layer on top of the trunk, and the *main* part, or main head, has ten more layers:

import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn.functional import cross_entropy

# With float64 the printed digits are the same on every processor, but you can leave it
# out:
torch.set_default_dtype(torch.float64)


def spirals(count, generator):
    kind = torch.randint(0, 2, (count,), generator=generator)
    radius = torch.rand(count, generator=generator).sqrt()
    angle = 3 * math.pi * radius + math.pi * kind
    x = 2 * torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return x + 0.03 * torch.randn(count, 2, generator=generator), kind


def layers(*widths):
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.Tanh())]


def network(seed=4):
    torch.manual_seed(seed)  # the same weights each time
    trunk = nn.Sequential(*layers(2, 24, 24, 24, 24))
    auxiliary = nn.Linear(24, 2)
    main = nn.Sequential(*layers(*10 * [24]), nn.Linear(24, 2))
    return nn.ModuleDict({"trunk": trunk, "auxiliary": auxiliary, "main": main})


# %%
# The program
# -----------
#
# Both heads read the same ``h``. Each loss is a single number, so the ``v`` of each loss
# is a single number, too: 1 for the main loss, and a weight for the auxiliary loss.
# ``torch.autograd.backward`` takes a list of losses and a list with the ``v`` of each,
# and goes back through the graph once:


def train(net, weight, steps=600, seed=4):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    generator = torch.Generator().manual_seed(seed)
    v = [torch.tensor(1.0), torch.tensor(weight)]
    for _ in range(steps):
        x, kind = spirals(128, generator)
        h = net["trunk"](x)
        main = cross_entropy(net["main"](h), kind)
        auxiliary = cross_entropy(net["auxiliary"](h), kind)
        optimizer.zero_grad()
        torch.autograd.backward([main, auxiliary], v)
        optimizer.step()
        falling.step()
    return net


# %%
# We train once with the weight 0 for the auxiliary loss and once with the weight 0.3. Then
# we ask the *main* head about new points. The auxiliary head is thrown away after training:

x, kind = spirals(1000, torch.Generator().manual_seed(1))
trained = {weight: train(network(), weight) for weight in (0.0, 0.3)}
right = {}
for weight, net in trained.items():
    said = net["main"](net["trunk"](x)).argmax(dim=1)
    right[weight] = (said == kind).double().mean().item()
    print(f"weight {weight}: about {5 * round(20 * right[weight])}% right")

# %%
# The pictures show the answer of the main head at each point of the plane, with the
# points of the spirals on top:

import matplotlib.pyplot as plt

side = torch.linspace(-2.2, 2.2, 111)
plane = torch.cartesian_prod(side, side)
figure, axes = plt.subplots(2, 1, layout="constrained", figsize=(4.2, 7.6))
for ax, (weight, net) in zip(axes, trained.items(), strict=True):
    chance = net["main"](net["trunk"](plane)).softmax(dim=1)[:, 1].detach()
    ax.imshow(
        chance.reshape(111, 111).T,
        cmap="PuOr",
        vmin=0,
        vmax=1,
        extent=(-2.2, 2.2, -2.2, 2.2),
        origin="lower",
        alpha=0.5,
    )
    ax.scatter(*x[:300].T, c=kind[:300], cmap="PuOr", s=14, edgecolors="white")
    ax.set_title(f"auxiliary loss times {weight}")
title = figure.suptitle("What the main head says about each point")

# %%
# Without the second loss the main head has found a straight line, and with the second loss
# it has found the spirals. With five other seeds for the weights and the points, the main
# head was right for two thirds of the points without the second loss, and for 83% to 97%
# with it. Six seeds in float32 gave a similar result, with 88% to 99% in the runs with the
# second loss. The learning rate falls to zero, because with a constant rate some of these
# deep networks learn nothing, with or without the second loss.
#
# Note that the auxiliary loss does not pass through the ten layers of the main part. It
# has taught only the trunk. But once the trunk told the points apart, the main part could
# learn as well.
#
# Where the two gradients meet
# ----------------------------
#
# The program is complete now, and the rest of the page explains how it works.
#
# We go back to the untrained network. We compute the gradient of each loss with respect to
# ``h``, and then the gradient that arrives at ``h`` if both losses are passed in one call:

net = network()
x, kind = spirals(128, torch.Generator().manual_seed(2))
h = net["trunk"](x)
main = cross_entropy(net["main"](h), kind)
auxiliary = cross_entropy(net["auxiliary"](h), kind)
v = [torch.tensor(1.0), torch.tensor(0.3)]

(of_main,) = torch.autograd.grad(main, h, retain_graph=True)
(of_auxiliary,) = torch.autograd.grad(auxiliary, h, retain_graph=True)
(of_both,) = torch.autograd.grad([main, auxiliary], h, v, retain_graph=True)
print("the sum, with the weights:", torch.allclose(of_both, of_main + 0.3 * of_auxiliary))
times = 0.3 * of_auxiliary.norm() / of_main.norm()
print(f"the auxiliary part is {times:.0f} times as long")

# %%
# ``h`` has the shape ``(128, 24)``, and so have the two gradients. The two gradients are
# added up, and below ``h`` there is only one backward pass, with the sum as its ``v``.
# The ten layers of the main part have left little of the gradient of the main loss. Here
# are the lengths of the gradients in the four layers of the trunk:

import pullback

weights = [net["trunk"][i].weight for i in (0, 2, 4, 6)]
parts = {"main": main, "0.3 × auxiliary": 0.3 * auxiliary}
lengths = {
    name: [g.norm() for g in torch.autograd.grad(loss, weights, retain_graph=True)]
    for name, loss in parts.items()
}
pullback.draw.bars(
    {name: torch.stack(each) for name, each in lengths.items()},
    names=["layer 1", "layer 2", "layer 3", "layer 4"],
    alt="The length of the gradient of each layer of the trunk, from each of the losses",
)

# %%
# Three ways to combine the two losses
# ------------------------------------
#
# You may add up the losses, pass both in one call, or go back twice. The second
# ``backward`` needs the graph of the trunk, which the first would free, so you need
# ``retain_graph``. We compare the gradients of all parameters, and count how often a
# backward pass goes through ``h``:


def one_sum(main, auxiliary):
    (main + 0.3 * auxiliary).backward()


def one_call(main, auxiliary):
    torch.autograd.backward([main, auxiliary], [torch.tensor(1.0), torch.tensor(0.3)])


def two_calls(main, auxiliary):
    main.backward(retain_graph=True)
    auxiliary.backward(torch.tensor(0.3))


def gradients(way):
    net, passes = network(), []
    h = net["trunk"](x)
    h.register_hook(lambda g: passes.append(g))
    way(cross_entropy(net["main"](h), kind), cross_entropy(net["auxiliary"](h), kind))
    return [p.grad for p in net.parameters()], len(passes)


reference, _ = gradients(one_sum)
for way in (one_sum, one_call, two_calls):
    found, passes = gradients(way)
    same = all(torch.allclose(a, b) for a, b in zip(found, reference, strict=True))
    print(f"{way.__name__:10} same gradients {same}, passes of the trunk {passes}")

# %%
# With two calls the gradients are added up in ``.grad``, and with one call they are added
# up at ``h``. By linearity the results are the same, unless something below ``h`` is not
# linear in ``v``, such as a hook that clips. But two calls walk through the trunk twice.
# They are useful if you want to see or change the two gradients one by one
# (:ref:`task-gradient-norms`). Under DistributedDataParallel, two calls do *not* give the
# same result (:ref:`ddp-several-backwards`).
#
# What goes wrong
# ---------------
#
# Here are four wrong ways. For each of them we print the length of the gradient, divided
# by the right length, for the first layer of the trunk and for the auxiliary head:


def no_retain(main, auxiliary):
    main.backward()
    auxiliary.backward(torch.tensor(0.3))


def forgotten_v(main, auxiliary):
    torch.autograd.backward([main, auxiliary])


def emptied_between(main, auxiliary):
    main.backward(retain_graph=True)
    for p in models["net"].parameters():
        p.grad = None
    auxiliary.backward(torch.tensor(0.3))


models = {}


def compared(way, cut=False):
    models["net"] = net = network()
    h = net["trunk"](x)
    below = h.detach() if cut else h
    main = cross_entropy(net["main"](h), kind)
    auxiliary = cross_entropy(net["auxiliary"](below), kind)
    way(main, auxiliary)
    first, head = net["trunk"][0].weight.grad, net["auxiliary"].weight.grad
    right_first, right_head = reference[0], reference[8]
    return (first.norm() / right_first.norm()).item(), (
        head.norm() / right_head.norm()
    ).item()


try:
    compared(no_retain)
except RuntimeError as error:
    print("no_retain:", str(error).partition(" (")[0])
print("                first layer, auxiliary head")
ratios = {
    "forgotten_v": compared(forgotten_v),
    "emptied_between": compared(emptied_between),
    "h.detach()": compared(one_sum, cut=True),
}
for name, (first, head) in ratios.items():
    print(f"{name:16} {first:.2f} {head:.2f}")

# %%
# - **No retain_graph.** The second call raises an error, because both calls need the
#   tensors that the trunk has saved. If the trunk is frozen, it has saved nothing, and
#   two calls raise no error.
# - **No v at all** raises no error, since each loss is a single number and needs no
#   ``v``. Both losses then have the weight 1, and the auxiliary part is more than three
#   times as large as you wanted.
# - **Clearing the gradients between the calls** throws the gradient of the main loss away.
#   The trunk hardly shows this here, because most of its gradient came from the auxiliary
#   loss. The main part does show it: its gradients are None.
# - **detach before the auxiliary head** makes this head a *probe*. The probe learns to read
#   the trunk, but does not change it. This is good for measuring, but useless as a remedy.
#
# .. admonition:: Try it
#
#    Replace ``nn.Tanh`` with ``nn.ReLU``, or make the main part twenty layers deep. Does
#    the auxiliary loss still help the main head? And how well does the main head learn if
#    the weight is 10?
#
# .. dropdown:: Answer
#
#    With ReLU there is little left to improve. In three runs with different seeds, the main
#    head was right for 95% to 100% of the points, with and without the second loss. ReLU
#    passes on the gradient at a positive number as it is, whereas Tanh shortens it. With
#    twenty layers the remedy fails: in three runs the main head was right for 48% to 66%,
#    with and without the second loss. The trunk has learned, but the main part is now too
#    deep to learn from it. With a weight of 10 the main head is again right for 99% or
#    more. No other loss reaches its layers, and the steps of Adam hardly depend on the size
#    of the trunk's gradient.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient at ``h`` with the sum, and the gradients below it with a
#    ``backward`` that gets this sum as its ``v``. We compare the three ways with each other
#    and with difference quotients for a few weights. We check the numbers of passes, the
#    ratios and the success of the training.

assert right[0.0] < 0.8 < 0.95 < right[0.3]
torch.testing.assert_close(of_both, of_main + 0.3 * of_auxiliary)
from_h = torch.autograd.grad(h, weights, of_both, retain_graph=True)
for g, whole in zip(
    from_h, (reference[0], reference[2], reference[4], reference[6]), strict=True
):
    torch.testing.assert_close(g, whole)
assert times > 5

for way, expected in {one_sum: 1, one_call: 1, two_calls: 2}.items():
    found, passes = gradients(way)
    assert passes == expected
    for a, b in zip(found, reference, strict=True):
        torch.testing.assert_close(a, b)


def total(net):
    h = net["trunk"](x)
    return cross_entropy(net["main"](h), kind) + 0.3 * cross_entropy(
        net["auxiliary"](h), kind
    )


with torch.no_grad():
    for i, place in [(0, (3, 1)), (2, (5, 7)), (6, (1, 2)), (8, (1, 4))]:
        values = []
        for step in (1e-6, -1e-6):
            net = network()
            list(net.parameters())[i][place] += step
            values.append(total(net))
        slope = (values[0] - values[1]) / 2e-6
        torch.testing.assert_close(reference[i][place], slope, rtol=1e-4, atol=1e-8)

assert ratios["forgotten_v"][0] > 2
assert abs(ratios["forgotten_v"][1] - 1 / 0.3) < 1e-6
assert 0.8 < ratios["emptied_between"][0] < 1.2
compared(emptied_between)
assert all(p.grad is None for p in models["net"]["main"].parameters())
assert ratios["h.detach()"][0] < 0.2
assert abs(ratios["h.detach()"][1] - 1) < 1e-6

# %%
# **Next:** :ref:`several-losses` shows weights that balance themselves, and optimizers for
# parts of a network. :ref:`one-backward-or-two` has the short answer. For the names of the
# arguments, read :ref:`grad-tensors-keyword`.
#
# .. asked: auxiliary loss at an intermediate layer; deep supervision; two heads and one
#    trunk; second loss in the middle of a network; early layers do not learn; auxiliary
#    classifier; sum of two losses at a shared layer
# .. words: intermediate classifier, early exit, GoogLeNet, side output, helper loss, deep
#    network slow to learn, trunk, branch
