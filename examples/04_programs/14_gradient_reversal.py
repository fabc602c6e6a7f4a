r"""
.. _gradient-reversal:

A gradient reversal layer: forward as it is, backward times -λ
==============================================================

Your network is trained on photographs from one camera and used with another. You want
features that do not give away which camera took the picture. So a second head tries to
tell the cameras apart, and the features should *deceive* this head, while they help the
head that you care about (Ganin et al., 2016). With the same loss, the second head should
get better, and the layers before it should make this head worse. To achieve this, ``v``
has to change its sign on the way. This happens in a layer that does nothing in the
forward pass and multiplies by −λ in the backward pass.
"""

# %%
# What the features and the heads should receive
# ----------------------------------------------
#
# Both heads read the same ``features``, and each head gets the gradient of its own loss.
# The *label loss* belongs to the head that you care about, and the *domain loss* to the
# head that tells the cameras apart. The features get the gradient of the label loss as it
# is, and the gradient of the domain loss reversed:
#
# .. math::
#
#    g_{\text{features}}=J_{\text{label}}^\top v-\lambda\,J_{\text{domain}}^\top v .
#
# To make the numbers easy to follow, let each loss be the product of a head with the
# features, where the head is (3, 4) for the label and (10, 20) for the domain. Then with
# :math:`\lambda=0.5` the features should get (3, 4) − 0.5·(10, 20) = (−2, −6). ``taught``
# returns the gradients that the features and the two heads receive, for a given way of
# reversing the gradient:

import torch

lam = 0.5
features = torch.tensor([1.0, 2.0], requires_grad=True)
label_head = torch.tensor([3.0, 4.0], requires_grad=True)
domain_head = torch.tensor([10.0, 20.0], requires_grad=True)


def taught(reverse):
    """What each of the three receives, with a way to reverse."""
    h = features * 1
    to_domain = reverse(h)
    loss = label_head @ h + domain_head @ to_domain
    found = torch.autograd.grad(loss, (features, label_head, domain_head))
    return [g.tolist() for g in found]


# %%
# Three ways to write the layer
# -----------------------------
#
# The first is a ``Function``. You find it in many programs, and you can copy it as it is.
# ``view_as`` returns a new tensor with the same numbers. ``lam`` is not a tensor and has
# no gradient, so ``backward`` returns None for it. Because λ usually grows during
# training, you pass it at each call:


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


# %%
# The second is a hook on a *view* of the features. The third needs neither a Function nor
# a hook. Its value is the value of ``h``, up to rounding, because its two parts add up to
# ``h``. For ``backward`` the detached part is a constant, so the slope is −λ:


def by_hook(h):
    view = h.view_as(h)
    view.register_hook(lambda g: -lam * g)
    return view


ways = {
    "nothing": lambda h: h,
    "Function": lambda h: Reverse.apply(h, lam),
    "hook on a view": by_hook,
    "one line": lambda h: (1 + lam) * h.detach() - lam * h,
}

# %%
# For each of the three ways, and for a layer that reverses nothing, we print the gradients
# that the features and the two heads receive:

print(f"{'':15} features, label head, domain head")
for name, way in ways.items():
    print(f"{name:15}", *taught(way))

# %%
# With all three ways the features get (−2, −6). Both heads get (1, 2), which is what they
# get without a reversal. So the heads learn as usual, which is the purpose of the layer. In
# the picture the thin arrows are the gradients that arrive from the two heads, with the
# gradient of the domain head already reversed. The thick arrow is their sum:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5, 3))
to_label, to_domain = [3.0, 4.0], [-5.0, -10.0]
arrows = {"from the label": to_label, "from the domain, reversed": to_domain}
for (name, (across, up)), colour in zip(arrows.items(), ("C0", "C1"), strict=True):
    ax.annotate("", (across, up), (0, 0), arrowprops={"arrowstyle": "->", "color": colour})
    ax.text(across, up, f" {name}", color=colour)
received = taught(ways["Function"])[0]
ax.annotate("", received, (0, 0), arrowprops={"arrowstyle": "->", "linewidth": 2.5})
ax.text(*received, " what the features get")
ax.set(xlim=(-7, 9), ylim=(-11, 5.5), xlabel="feature 0", ylabel="feature 1")
title = ax.set_title("The features get the sum of the two")

# %%
# A training step with it
# -----------------------
#
# In a program the features come from a network, and the heads are layers. The step is an
# ordinary one, with a single optimizer and the sum of the two losses. Only the labeled
# rows have a label loss:

from torch import nn
from torch.nn.functional import cross_entropy


def step(trunk, label, domain, optimizer, labelled, kind, other, lam):
    """One step with labelled pictures of one domain, and others without a label."""
    h = trunk(torch.cat([labelled, other]))
    camera = torch.arange(len(h), device=h.device).ge(len(labelled)).long()
    of_label = cross_entropy(label(h[: len(labelled)]), kind)
    of_domain = cross_entropy(domain(Reverse.apply(h, lam)), camera)
    optimizer.zero_grad()
    (of_label + of_domain).backward()
    optimizer.step()
    return of_label.item(), of_domain.item()


# %%
# We try the step on data for which we know what should happen. Each picture consists of two
# numbers, and there is one feature. The first number shows what is in the picture. The
# second number is the color, which is high for one camera and low for the other. In the
# labeled pictures the color also depends on the kind of object, so a network is tempted to
# use the color. To give nothing away, the feature has to ignore the color. We print the
# weight of the color, divided by the weight of the first number:


def second_weight(lam, seed=0):
    torch.manual_seed(seed)
    trunk, label, domain = nn.Linear(2, 1, bias=False), nn.Linear(1, 2), nn.Linear(1, 2)
    networks = nn.ModuleList([trunk, label, domain])
    optimizer = torch.optim.Adam(networks.parameters(), lr=0.02)
    kind = torch.randint(0, 2, (500,))
    labelled, other = torch.randn(500, 2), torch.randn(500, 2)
    labelled[:, 0] += 3 * kind
    other[:, 0] += 3 * torch.randint(0, 2, (500,))
    labelled[:, 1] += 2 + 2 * kind  # goes along with the kind, in one camera only
    other[:, 1] -= 2
    for _ in range(400):
        step(trunk, label, domain, optimizer, labelled, kind, other, lam)
    one, two = trunk.weight[0].tolist()
    return abs(two / one)


seen = {lam: second_weight(lam) for lam in (-1.0, 0.0, 1.0)}
print("weight of the colour, beside that of what is in the picture")
for factor, part in seen.items():
    print(f"λ = {factor:4}  {part:.1f}")

# %%
# With λ = −1 nothing is reversed, and the trunk helps the domain head to tell the cameras
# apart. With λ = 0 the trunk gets nothing from the domain head, and uses the color to
# some degree, because the color helps with the labels of the first camera. With λ = 1
# the trunk hardly uses the color. In sixteen runs, with eight seeds in float32 and in
# float64, the quotient was between 2.6 and 3.8 for λ = −1, between 0.3 and 0.7 for λ = 0,
# and at most 0.14 for λ = 1.
#
# What to watch for
# -----------------
#
# **A hook on the features themselves.** Such a hook reverses the whole gradient that
# arrives at ``h``, including the part from the label head, so the predictions of the label
# head get worse. A view that only the domain head reads gets only the gradient from the
# domain head:


def on_itself(h):
    h.register_hook(lambda g: -lam * g)
    return h


print(*taught(on_itself))

# %%
# **A minus in front of the domain loss**, or ``v = -1`` for it, looks the same. But it also
# changes the sign for the domain head. The head then learns to be wrong, and the features
# learn nothing useful from a head that is wrong on purpose. The reversal has to be
# *between* the head and the features. With the minus the domain head would get this
# gradient:

h = features * 1
minus = torch.autograd.grad(label_head @ h - lam * (domain_head @ h), domain_head)[0]
print("domain head", minus.tolist())

# %%
# **Both, a minus and the layer.** For the features two reversals cancel, and so the
# features now help the domain head. The factor 0.5 stays:

h = features * 1
twice = label_head @ h - domain_head @ Reverse.apply(h, lam)
print("features", torch.autograd.grad(twice, features)[0].tolist())

# %%
# **The layer inside torch.func.grad**, or inside :term:`vmap`. Inside these transforms a
# ``Function`` needs ``setup_context`` (:ref:`function-under-transforms`), and without it
# you get an error. The third way, the single line, works as it is:

loss = lambda x: domain_head @ ways["one line"](x)
by_func = torch.func.grad(loss)(features.detach())
try:
    torch.func.grad(lambda x: domain_head @ Reverse.apply(x, lam))(features.detach())
except RuntimeError as error:
    print(by_func.tolist(), str(error).partition(". ")[0][:72])

# %%
# **λ from the beginning.** At first the domain head knows nothing, and the reversed
# gradient is only noise. Ganin et al. let λ grow from 0 toward 1, mostly in the first
# half of the training.
#
# .. admonition:: Try it
#
#    You want the trunk to get *half* of the gradient that the domain head sends, and not
#    reversed. Which λ is that?
#
# .. dropdown:: Answer
#
#    It is −0.5. The layer multiplies by −λ, which is then 0.5. The heads receive the same
#    gradients as before:

half = torch.autograd.grad(domain_head @ Reverse.apply(features * 1, -0.5), features)[0]
print(half.tolist())

# %%
# .. dropdown:: How we checked this page
#
#    We differentiate the two losses separately, by difference quotients along the features,
#    and add the results with the signs that they should have.

e, at, expected = 1e-2, features.detach(), torch.zeros(2)
for sign, head in ((1, label_head.detach()), (-lam, domain_head.detach())):
    for k, step in enumerate(e * torch.eye(2)):
        expected[k] += sign * (head @ (at + step) - head @ (at - step)) / (2 * e)
for name in ("Function", "hook on a view", "one line"):
    of_features, *of_heads = taught(ways[name])
    torch.testing.assert_close(torch.tensor(of_features), expected, rtol=0, atol=1e-3)
    assert of_heads == taught(ways["nothing"])[1:]
assert by_func.tolist() == [-5, -10]
assert half.tolist() == [5, 10]
assert seen[1.0] < 0.2 < seen[0.0] < 1 < seen[-1.0]

# %%
# **Next:** For the sign of ``v`` and the sign of a step, read :ref:`which-way-to-step`.
# :ref:`hooks` shows what a hook is given. For the rules that a Function has to follow, read
# :ref:`custom-function`.
#
# .. asked: gradient reversal layer; DANN; domain adaptation adversarial; flip the sign
#    of the gradient; reverse gradient; multiply the gradient by minus lambda
# .. words: domain classifier, confuse, adversarial, unlearn, fair, sign flip, minus lambda,
#    invariant features, source and target
