r"""
.. _gradient-reversal:

A gradient reversal layer: forward as it is, backward times -λ
==============================================================

A Function that returns ``x.view_as(x)`` and ``-λ g``, a hook on a *view* of the features,
or one line, ``(1 + λ) * x.detach() - λ * x``. What lies before the layer gets the reversed
gradient; the head behind it gets its own, and learns.
"""

# %%
# Domain-adversarial training: a label head and a domain head read the same ``features``.
# Both heads are to get better; the features are to help the first and deceive the second:
#
# .. math::
#
#    g_{\text{features}}=J_{\text{label}}^\top v-\lambda\,J_{\text{domain}}^\top v .
#
# With numbers that can be checked in the head: the label's loss has the slope (3, 4) by the
# features, the domain's (10, 20), and :math:`\lambda=0.5`:

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
# The Function. ``lam`` is no tensor, so its place in what ``backward`` returns is None. A
# number that grows during training is passed anew at each call:


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.lam * g, None


# %%
# A hook, on a view; and a line without either, whose value is x up to rounding and whose
# slope is -λ:


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
# What each way hands to the three:

print(f"{'':15} features, label head, domain head")
for name, way in ways.items():
    print(f"{name:15}", *taught(way))

# %%
# The features get (3, 4) - 0.5·(10, 20). Both heads get (1, 2), what they get without a
# reversal.
#
# What goes wrong
# ---------------
#
# *I hooked the features, and the labels get worse.* A hook on ``h`` itself turns all that
# arrives at ``h``, the label head's part as well. The view has the domain head alone behind
# it:


def on_itself(h):
    h.register_hook(lambda g: -lam * g)
    return h


print(*taught(on_itself))

# %%
# *A minus before the domain's loss, or v = -1?* That turns the sign for the domain head,
# too, which then learns to be wrong and tells the features nothing. Reversal sits *between*
# the head and the features:

h = features * 1
minus = torch.autograd.grad(label_head @ h - lam * (domain_head @ h), domain_head)[0]
print("domain head", minus.tolist())

# %%
# *Both: a minus and the layer.* Two reversals are none for the features, which now help the
# domain head. One of the two:

h = features * 1
twice = label_head @ h - domain_head @ Reverse.apply(h, lam)
print("features", torch.autograd.grad(twice, features)[0].tolist())

# %%
# *The layer in torch.func.grad, or vmap?* A Function needs ``setup_context`` there
# (:ref:`function-under-transforms`). The line does not:

loss = lambda x: domain_head @ ways["one line"](x)
by_func = torch.func.grad(loss)(features.detach())
try:
    torch.func.grad(lambda x: domain_head @ Reverse.apply(x, lam))(features.detach())
except RuntimeError as error:
    print(by_func.tolist(), str(error).partition(". ")[0][:72])

# %%
# The check: the two losses apart, each by differences along the features, then put together
# with the signs that each is to have:

e, at, expected = 1e-2, features.detach(), torch.zeros(2)
for sign, head in ((1, label_head.detach()), (-lam, domain_head.detach())):
    for k, step in enumerate(e * torch.eye(2)):
        expected[k] += sign * (head @ (at + step) - head @ (at - step)) / (2 * e)
for name in ("Function", "hook on a view", "one line"):
    of_features, *of_heads = taught(ways[name])
    torch.testing.assert_close(torch.tensor(of_features), expected, rtol=0, atol=1e-3)
    assert of_heads == taught(ways["nothing"])[1:]
assert by_func.tolist() == [-5, -10]

# %%
# Where next
# ----------
#
# Signs of ``v`` and of the step: :ref:`which-way-to-step`. What hooks see: :ref:`hooks`.
# The rules of a Function: :ref:`custom-function`.
#
# .. asked: gradient reversal layer; DANN; domain adaptation adversarial; flip the sign
#    of the gradient; reverse gradient; multiply the gradient by minus lambda
