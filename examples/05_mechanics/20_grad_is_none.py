r"""
.. _grad-is-none:

Why is .grad None?
==================

``None`` means that no ``backward`` reached this tensor as a :term:`leaf`: it did not ask
for a gradient, it is not the leaf, the graph is cut on the way, the output does not use
it, or ``backward`` was told to leave it out. Five questions, in this order, find which.
"""

# %%
# The procedure, as code that you can paste. ``x`` is the tensor whose ``.grad`` is None,
# ``y`` what you call ``backward`` on; run it before that call:

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
# A tensor for which all is well:

x = torch.tensor([1.0, 2.0], requires_grad=True)
why_none(x, x**2)

# %%
# 1. It does not require a gradient
# ---------------------------------
#
# Data does not, unless you ask. ``detach``, and anything made under :class:`torch.no_grad`,
# does not. Integers cannot: ``torch.tensor([1, 2])`` needs a decimal point. The remedy is
# ``requires_grad_()`` before ``y`` is computed:

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
# *x.grad is None after .cuda().* A conversion, a division, a slice give a
# :term:`non-leaf tensor`. The gradient goes to the leaf it was made from, lost if you gave
# both the same name. Convert first, then ask; slice the gradient, not the tensor:

lost = torch.ones(2, requires_grad=True).to(torch.float64)
scaled = torch.ones(2, requires_grad=True) / 2**0.5
kept = torch.ones(2).to(torch.float64).requires_grad_()
print(*[why_none(t, t.sum()) for t in (lost, scaled, x[:1], kept)], sep="\n")

# %%
# A conversion to the type or device that it already has returns the same tensor, so the
# program that worked on the CPU fails on the GPU:

leaf = torch.ones(2, requires_grad=True)
print(leaf.to("cpu") is leaf, leaf.to(torch.float64).is_leaf)

# %%
# To see the gradient of a tensor in the middle, call ``retain_grad()`` on it before
# ``backward`` (:ref:`leaves-and-roots`). Otherwise reading its ``.grad`` gives a warning:

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
# ``argmax``, a comparison, ``round().long()``, ``.item()``, ``.numpy()``, ``no_grad``. If
# nothing of the graph is left, ``backward`` says so; *if another path is left, there is no
# message at all*, and ``x.grad`` is None:

x.grad, w = None, torch.tensor([3.0, 4.0], requires_grad=True)
try:
    (x > 1.5).float().sum().backward()
except RuntimeError as error:
    print(error)
y = (x.detach().exp() * w).sum()
y.backward()
print(why_none(x, y), x.grad, w.grad is None)

# %%
# 4. y does not use this x
# ------------------------
#
# *My learnable tensor is an index.* An index is an integer, with no derivative; make the
# choice soft, by interpolation:

table, position = torch.tensor([0.0, 10.0, 40.0]), torch.tensor(1.25, requires_grad=True)
print(why_none(position, table[position.long()] + x.sum()))
low, share = int(position), position - int(position)
soft = (1 - share) * table[low] + share * table[low + 1]
(slope,) = torch.autograd.grad(soft, position)
slope

# %%
# *I replaced a parameter, and its .grad is None.* Nothing uses the old one any more, and
# the optimizer still holds it:

layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
old = layer.weight
layer.weight = torch.nn.Parameter(torch.ones(1, 2))
layer(torch.ones(2)).backward()
print(old.grad, layer.weight.grad)
print(optimizer.param_groups[0]["params"][0] is old)

# %%
# To change a parameter, keep the tensor and change its values, under ``no_grad``:
# ``layer.weight.copy_(new)``.
#
# 5. backward left it out
# -----------------------
#
# It was not called yet; ``zero_grad()`` came after it; ``inputs=`` named other tensors; or
# the gradient was returned by :func:`torch.autograd.grad` or :func:`torch.func.grad`, which
# fill no ``.grad``:

x.grad = w.grad = None
(x * w).sum().backward(inputs=[w])
print(x.grad, w.grad, torch.autograd.grad((x**2).sum(), x), x.grad)

# %%
# None or zero?
# -------------
#
# *Row 1 of the output does not use x[0]; I expected None.* None is for a whole tensor that
# is not reached. An entry without influence, a factor 0, a ReLU that is off: all reached,
# and zero. Zero is a number that was computed:

x.grad = w.grad = None
(x[1] * 3 + 0 * w.sum() + torch.relu(-x).sum()).backward()
print(x.grad, w.grad, torch.autograd.grad(x.sum(), [x, w], allow_unused=True)[1])

# %%
# ``materialize_grads=True`` gives zeros in place of None. The check: what the procedure
# says is what ``.grad`` holds after ``backward``, and the interpolation rises by the table:

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
# What a leaf is: :ref:`leaves-and-roots`. What ``detach`` and ``no_grad`` cut:
# :ref:`no-grad-detach`. Zeros where there should be none: :ref:`closures-of-zeros`.
#
# .. asked: grad is None; .grad is None after backward; no gradient for my tensor;
#    x.grad is empty; gradient missing; weights have no gradient; non-leaf tensor grad;
#    lost gradient; parameter does not receive a gradient; no grad in my module; tensor
#    made from other tensors has no gradient
