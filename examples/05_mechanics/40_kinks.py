r"""
.. _kinks:

Which slope does PyTorch take at a kink?
========================================

Your function has a kink, as ``relu`` has at 0, and you wonder what gradient PyTorch
returns at this point. At a kink a function has one slope on the left and another on the
right. PyTorch has to choose one number, and has a rule for each operation. The number is
0 for ``relu`` and ``abs`` at 0. If several entries tie for the maximum, ``max()`` gives
an equal share of the gradient to each of them, and ``max(dim)`` gives everything to one
of them. For most convex operations the number is a :term:`subgradient`. For a composition
of operations, the result may be a number that is not a slope of the function at all.
"""

# %%
# For an elementwise f, ``x`` and ``y`` have shape ``(n,)``, and the :term:`Jacobian` is
# diagonal. At a kink the slopes from the left and from the right differ, the
# :term:`derivative` does not exist, and the entry on the diagonal is a convention. Each
# line of the output shows the slope from the left, the slope that ``grad`` gives, and the
# slope from the right, all at 0:

import torch
import torch.nn.functional as F


def slopes(f, h=1e-3):
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x)
    left, right = (f(x) - f(x - h)) / h, (f(x + h) - f(x)) / h
    return [round(s.item(), 2) for s in (left, g, right)]


for f in (torch.relu, torch.abs, F.leaky_relu, F.elu, F.softplus):
    print(f"{f.__name__:12}", slopes(f))

# %%
# Where the slopes from the left and from the right agree, as for ``elu`` and ``softplus``,
# there is no kink. Step functions are flat wherever they have a derivative. PyTorch's
# gradient is 0 at the step, too, although a difference quotient across the step grows as
# ``1 / h``. To show this, we print the slopes for two values of h:

for f in (torch.floor, torch.ceil, torch.sign):
    print(f"{f.__name__:12}", slopes(f), slopes(f, h=1e-4))

# %%
# One function, three slopes
# --------------------------
#
# The number that PyTorch chooses depends on the formula, not only on the function. The four
# formulas below have the same values. ``clamp(x, min=0)`` also has these values. Its slope
# at 0 was 1 before torch 2.14, and is 0 from 2.14 on (:ref:`version-notes`). The last
# column shows the slope from :term:`forward mode <forward mode>`, which agrees:

same = {
    "relu(x)": torch.relu,
    "maximum(x, 0)": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "where(x < 0, 0, x)": lambda x: torch.where(x < 0, 0, x),
    "hardtanh(x, 0, inf)": lambda x: F.hardtanh(x, 0.0, torch.inf),  # relu6: up to 6
}
for name, f in same.items():
    _, tangent = torch.func.jvp(f, (torch.tensor(0.0),), (torch.tensor(1.0),))
    print(f"{name:19}", slopes(f)[1], tangent.item())

# %%
# A line through the kink with any slope from 0 to 1 is nowhere above ``relu``. Here are the
# lines for three of the formulas:

import matplotlib.pyplot as plt

line = torch.linspace(-1, 1, 101)
fig, ax = plt.subplots(figsize=(5, 3))
ax.plot(line, line.relu(), linewidth=3)
for name, f in list(same.items())[:3]:  # the fourth draws the same as the first
    ax.plot(line, slopes(f)[1] * line, "--", label=name)
ax.legend()
title = ax.set_title("relu, and for each formula the line with its slope at 0")

# %%
# Ties for the maximum
# --------------------
#
# If two entries tie for the maximum, the gradient of 1 may be shared between them, or one
# of them may get all of it. ``max()`` and ``amax`` share the gradient. ``max(dim)``,
# ``sort`` and max pooling take the maximum from one index, so the whole gradient of 1 goes
# to that index. If ties are likely, reduce with ``amax``:

ties = {
    "max()": lambda x: x.max(),
    "amax(0)": lambda x: x.amax(0),
    "max(0)": lambda x: x.max(0).values,
    "sort": lambda x: x.sort(descending=True, stable=True).values[0],
    "max_pool1d": lambda x: F.max_pool1d(x[None], 3)[0, 0],
}
x = torch.tensor([2.0, 2.0, 1.0], requires_grad=True)
for name, f in ties.items():
    print(f"{name:11}", torch.autograd.grad(f(x), x)[0])

# %%
# What goes wrong
# ---------------
#
# A subgradient does not obey the :term:`chain rule`. ``relu(x) - relu(-x)`` is x, whose
# derivative is 1 everywhere. But at 0 PyTorch takes the slope 0 for each ``relu``, and so
# the gradient is 0, as the number in the middle shows:

slopes(lambda x: torch.relu(x) - torch.relu(-x))

# %%
# At a kink, ``gradcheck`` compares the convention with a central difference, which is the
# mean of the two slopes. So it reports a mistake where there is none, unless the convention
# happens to be this mean. Check your function away from the kink:

zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
try:
    torch.autograd.gradcheck(torch.relu, zero)
except RuntimeError as error:
    print(error)
torch.autograd.gradcheck(torch.relu, zero + 0.1)

# %%
# *Why is the gradient of my norm NaN at 0?* For the built-in norm PyTorch takes the slope 0
# at the zero vector. If you write the same norm as a formula, the backward pass computes
# :math:`0\cdot\infty` (:ref:`masked-nan`):

x = torch.zeros(2, requires_grad=True)
built_in = torch.autograd.grad(torch.linalg.vector_norm(x), x)[0]
spelled_out = torch.autograd.grad((x**2).sum().sqrt(), x)[0]
print(built_in, spelled_out)

# %%
# A zero that stops training
# --------------------------
#
# The gradient of ``round`` is 0, so the loss ``(3 * round(x) - 12) ** 2`` never moves x.
# The straight-through estimator rounds in the forward pass, and in the backward pass it
# passes ``v`` on as if :math:`y=x`. The resulting gradient is not the derivative of the
# function, but gradient descent with it finds 4. *Is this the same as a Function that
# rounds and returns grad_output?* Yes, in value and gradient:


def through(x):
    return x + (x.round() - x).detach()


class Rounded(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.round())
    backward = staticmethod(lambda ctx, v: v)


# %%
# We take twenty steps with each of ``torch.round``, ``through`` and ``Rounded``, and print
# the rounded value and x. A Function can also clip or mask ``v`` before it passes ``v`` on.
# But for :mod:`torch.func` it needs a ``setup_context`` and a rule for :term:`vmap`,
# whereas ``through`` needs neither (:ref:`function-under-transforms`):

for f in (torch.round, through, Rounded.apply):
    x = torch.tensor(1.2, requires_grad=True)
    for _ in range(20):
        (g,) = torch.autograd.grad((3 * f(x) - 12) ** 2, x)
        x = (x - 0.02 * g).detach().requires_grad_()
    print(f.__name__, round(f(x).item(), 3), round(x.item(), 3))
    try:
        print(torch.vmap(torch.func.grad(f))(torch.ones(2)))
    except RuntimeError as error:
        print(str(error).partition(" (")[0])

# %%
# As a check, we test the condition for a subgradient of a convex f: the line through
# :math:`(x, f(x))` with this slope must not lie above f anywhere. We test it at a thousand
# random points:

torch.manual_seed(0)  # the same thousand points on every build
convex = {**ties, "norm": torch.linalg.vector_norm, "abs": lambda x: x.abs().sum()}
convex["clamp"] = lambda x: x.clamp(min=0).sum()
for f in (*convex.values(), *[lambda x, f=f: f(x).sum() for f in same.values()]):
    for point in (torch.tensor([2.0, 2.0, 1.0]), torch.zeros(3)):
        x = point.clone().requires_grad_()
        (g,) = torch.autograd.grad(f(x), x)
        others = point + torch.randn(1000, 3)
        below = f(point) + (others - point) @ g
        assert all(f(z) >= b - 1e-5 for z, b in zip(others, below, strict=True))

# %%
# Below are three formulas for the same curve, with a kink at 0: ``relu``, ``maximum`` and
# ``where``. Move x through 0, and stop there:

import pullback

relus = lambda x: torch.stack([x.relu(), x.maximum(x * 0), torch.where(x < 0, 0, x)])
pullback.live(relus, torch.tensor(0.0))

# %%
# Where next
# ----------
#
# :ref:`masked-nan` is about NaN from a branch that was masked. :ref:`gradcheck` shows how
# to check gradients where they exist, and :ref:`custom-function` shows how to give a
# function a gradient of your own choice.
#
# .. asked: derivative of relu at 0; gradient of abs at zero; subgradient; max with
#    ties; non-differentiable point; kink; gradient of min and max; clamp at the bound;
#    corner of a function; which slope at a jump or a corner
# .. words: corner, relu zero, abs, tie, max of equal, hinge, clamp edge, jump, which side,
#    undefined, subdifferential, floor
