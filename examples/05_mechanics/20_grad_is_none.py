r"""
.. _grad-is-none:

Why is .grad None?
==================

You called ``backward``, and a tensor that should have a gradient has ``None``. ``None``
means that no ``backward`` has written into this tensor since it was made, or since its
``.grad`` was last cleared. There are five reasons for this: the tensor does not require a
gradient, it is not a :term:`leaf`, the graph is cut on the way, the output does not use the
tensor, or ``backward`` was told to leave the tensor out. This page goes through the five
reasons, beginning with the one that is easiest to rule out.
"""

# %%
# The function below checks for the first four reasons. ``x`` is the tensor whose
# ``.grad`` is None, and ``y`` is the tensor that you call ``backward`` on. Paste the
# function into your program, and call it right before ``backward``:

import torch


def why_none(x, y):
    if not x.requires_grad:
        return "x does not require a gradient"
    if not x.is_leaf:
        return f"x is no leaf: {x.grad_fn.name()} made it"
    if not y.requires_grad:
        return "y has no graph: it is cut on the way"
    if torch.autograd.grad(y.sum(), x, retain_graph=True, allow_unused=True)[0] is None:
        return "y does not use this x"
    return "x is reached: backward will fill it"


# %%
# If nothing is wrong with a tensor, the function says so:

x = torch.tensor([1.0, 2.0], requires_grad=True)
why_none(x, x**2)

# %%
# 1. It does not require a gradient
# ---------------------------------
#
# A tensor of data does not require a gradient unless you ask for it. The same is true of
# what ``detach`` returns, and of what is computed under :class:`torch.no_grad`. The remedy
# is ``requires_grad_()``, before ``y`` is computed. Integers cannot have a gradient at all,
# so ``torch.tensor([1, 2])`` needs a decimal point first:

plain = torch.tensor([1.0, 2.0])
with torch.no_grad():
    made = x * 1
print(*[why_none(t, (t * x).sum()) for t in (plain, x.detach(), made)], sep="\n")
try:
    torch.tensor([1, 2]).requires_grad_()
except RuntimeError as error:
    print(error)

# %%
# 2. It is not the leaf
# ---------------------
#
# *x.grad is None after .cuda().* A conversion is an operation like any other, and so are a
# division and a slice. Applied to a tensor that requires a gradient, each of them returns a
# new tensor, which is a :term:`non-leaf tensor`. ``backward`` writes into the leaf that the
# new tensor was made from. If you gave both tensors the same name, you can no longer reach
# that leaf. So convert first, and then call ``requires_grad_()``. And instead of a slice's
# ``.grad``, read a slice of ``x.grad``:

lost = torch.ones(2, requires_grad=True).to(torch.float64)
scaled = torch.ones(2, requires_grad=True) / 2**0.5
kept = torch.ones(2).to(torch.float64).requires_grad_()
print(*[why_none(t, t.sum()) for t in (lost, scaled, x[:1], kept)], sep="\n")

# %%
# Conversions hold a trap. If a tensor already has the type or device that you ask for, the
# conversion returns the tensor itself, which is still the leaf. So the same line of code
# can work on the CPU and leave ``None`` on the GPU:

leaf = torch.ones(2, requires_grad=True)
print(leaf.to("cpu") is leaf, leaf.to(torch.float64).is_leaf)

# %%
# If you do want the gradient of a tensor in the middle, call ``retain_grad()`` on it before
# ``backward`` (:ref:`leaves-and-roots`). Without that call its ``.grad`` is None, and
# reading it gives a warning:

import warnings

h = x * 2
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    h.sum().backward()
    print(h.grad)
print(str(caught[0].message).split(". If")[0])

# %%
# 3. The graph is cut on the way
# ------------------------------
#
# Several things cut the graph: ``detach()`` and ``.item()``; ``torch.tensor([a, b])``,
# which copies only the numbers; every operation that runs under ``no_grad``; and an
# operation whose result is an integer or a truth value, such as ``argmax``, a comparison
# or ``round().long()``. If no path is left at all, ``backward`` raises an error. *If
# another path is left, there is no message at all*, and ``x.grad`` is None:

x.grad, w = None, torch.tensor([3.0, 4.0], requires_grad=True)
try:
    (x > 1.5).float().sum().backward()
except RuntimeError as error:
    print(error)
y = (x.detach().exp() * w).sum()
y.backward()
print(why_none(x, y), x.grad, w.grad is None)

# %%
# *Two of my three parameters get no gradient.* ``torch.linspace(a, b, n)`` takes only the
# numbers of its ends. Write the ramp with the parameters outside. To find such a line,
# print ``requires_grad`` of each tensor on the way to the loss, and look for the first
# False:

a, b = (torch.tensor(n, requires_grad=True) for n in (1.0, 2.0))
ramp = a + (b - a) * torch.linspace(0, 1, 3)
print(torch.linspace(a, b, 3).requires_grad, ramp.requires_grad)

# %%
# 4. y does not use this x
# ------------------------
#
# *My learnable tensor is an index.* The index is an integer, which has no derivative, and
# the entry of the table has no connection to the float that the index was made from.
# Instead of picking one entry, interpolate between two of them. Then the result depends on
# the position:

table, position = torch.tensor([0.0, 10.0, 40.0]), torch.tensor(1.25, requires_grad=True)
print(why_none(position, table[position.long()] + x.sum()))
low, share = int(position), position - int(position)
soft = (1 - share) * table[low] + share * table[low + 1]
(slope,) = torch.autograd.grad(soft, position)
slope

# %%
# The slope is 30, because the table rises from 10 to 40 between the positions 1 and 2.
#
# *I replaced a parameter, and its .grad is None.* The layer uses the new parameter. The old
# parameter is used nowhere, so no gradient arrives at it. What is worse, the optimizer
# still holds the old parameter, and so the new one is never trained:

layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
old = layer.weight
layer.weight = torch.nn.Parameter(torch.ones(1, 2))
layer(torch.ones(2)).backward()
print(old.grad, layer.weight.grad)
print(optimizer.param_groups[0]["params"][0] is old)

# %%
# To change a parameter, keep the tensor and change its values: call
# ``layer.weight.copy_(new)`` under ``no_grad``.
#
# 5. backward left it out
# -----------------------
#
# If ``why_none`` says that ``x`` is reached, look at the call itself. Perhaps ``backward``
# has not run yet, or ``zero_grad()`` was called after it and has set ``.grad`` back to
# None. Perhaps ``inputs=`` named other tensors. Or perhaps you called
# :func:`torch.autograd.grad` or :func:`torch.func.grad`, which *return* the gradient and
# leave ``.grad`` as it was:

x.grad = w.grad = None
(x * w).sum().backward(inputs=[w])
print(x.grad, w.grad, torch.autograd.grad((x**2).sum(), x), x.grad)

# %%
# None or zero?
# -------------
#
# *The output does not use x[0], so I expected None.* But ``.grad`` belongs to the whole
# tensor. If any part of the tensor is used, ``.grad`` is there, with a zero for each entry
# that has no influence. A tensor that is multiplied by 0, or that goes into an inactive
# ReLU, is reached as well, and gets zeros. A zero was computed, whereas None says that
# nothing arrived:

x.grad = w.grad = None
(x[1] * 3 + 0 * w.sum() + torch.relu(-x).sum()).backward()
print(x.grad, w.grad, torch.autograd.grad(x.sum(), [x, w], allow_unused=True)[1])

# %%
# If your program computes with the gradients and cannot handle None, pass
# ``materialize_grads=True`` to ``autograd.grad``. It returns zeros in place of None.
#
# We check that what ``why_none`` says agrees with what ``.grad`` holds after ``backward``,
# and that the interpolation rises as the table does:

for f in (lambda a, b: (a**2).sum() + 0 * b, lambda a, b: a.detach().sum() + b):
    a, b = torch.ones(2, requires_grad=True), torch.ones((), requires_grad=True)
    said = why_none(a, f(a, b))
    f(a, b).backward()
    assert (a.grad is None) == (said == "y does not use this x")
(zero,) = torch.autograd.grad(b * 1, a, materialize_grads=True)
assert torch.equal(zero, torch.zeros(2))
assert slope == table[2] - table[1]

# %%
# Where next
# ----------
#
# :ref:`leaves-and-roots` explains what a leaf is, and :ref:`no-grad-detach` explains what
# ``detach`` and ``no_grad`` cut. If the gradient is there but zero, see
# :ref:`closures-of-zeros`.
#
# .. asked: grad is None; start and end of a linspace get no gradient; .grad is None
#    after backward; no gradient for my tensor; x.grad is empty; gradient missing;
#    weights have no gradient; non-leaf tensor grad; lost gradient; parameter does not
#    receive a gradient; no grad in my module; tensor made from other tensors has no
#    gradient
# .. words: nothing, missing, empty, no grad, null, attributeerror nonetype, to(device),
#    cuda, reshaped, not leaf, not connected, unused layer, detached, parameter in a list,
#    numpy round trip, warning
