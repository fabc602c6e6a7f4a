r"""
.. _second-derivatives:

f″ at many points
=================

Take the first derivative with ``create_graph=True`` and ones, then differentiate that
result with ones again. Both times each point keeps its own derivative, because no point
looks at another.
"""

# %%
# For :math:`f(x)=x^3` at N points, ``x``, ``y`` and both ``v`` have shape ``(N,)``.
# :math:`f'(x)=3x^2` and :math:`f''(x)=6x`:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**3
(first,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
first

# %%
# ``first`` has a graph of its own, which says how it depends on ``x``:

(second,) = torch.autograd.grad(first, x, torch.ones_like(first))
second

# %%
# The same by composing functions, which nests as deep as you like:

derivative = torch.func.grad
f2 = torch.func.vmap(derivative(derivative(lambda x: x**3)))
f2(x.detach())

# %%
# *By the weights, then by the data* (gradient matching): two tensors, and ``create_graph``.
# How far the weights' gradient is from one that was seen, here ones, by the image:

w, image = (torch.tensor(values, requires_grad=True) for values in ([1.0, 1.0], [1.0, 2.0]))
(g,) = torch.autograd.grad((image @ w) ** 2, w, create_graph=True)
(by_image,) = torch.autograd.grad((g - 1).square().sum(), image)
by_image

# %%
# A curve with both derivatives
# -----------------------------
#
# :math:`f(x)=\sin(3x)\,e^{-x^2/4}` at 200 points, with two calls in all:

t = torch.linspace(-4, 4, 200, requires_grad=True)
curve = torch.sin(3 * t) * torch.exp(-(t**2) / 4)
(slope,) = torch.autograd.grad(curve, t, torch.ones_like(curve), create_graph=True)
(bend,) = torch.autograd.grad(slope, t, torch.ones_like(slope))

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(t.detach(), torch.stack([curve, slope, bend], 1).detach())
ax.set_title("f, its slope f' and its bend f'' at 200 points: two calls in all")
legend = ax.legend(["f", "f'", "f''"])

# %%
# Derivatives of a straight line
# ------------------------------
#
# *The third derivative of a·x gives None or an error.* So does the second: the first
# derivative is a constant, and its graph, if it has one, does not lead back to ``x``:

x = torch.tensor([1.0, 2.0], requires_grad=True)
(first,) = torch.autograd.grad(3 * x, x, torch.ones(2), create_graph=True)
try:
    torch.autograd.grad(first, x, torch.ones(2))
except RuntimeError as error:
    print(error)
a = torch.tensor(3.0, requires_grad=True)
(first,) = torch.autograd.grad(a * x, x, torch.ones(2), create_graph=True)
print(torch.autograd.grad(first, x, torch.ones(2), allow_unused=True, retain_graph=True))

# %%
# The mathematical answer is zero. Where the first derivative has a graph, to ``a`` here,
# ``materialize_grads=True`` gives the zeros; the function form gives them always:

print(torch.autograd.grad(first, x, torch.ones(2), materialize_grads=True)[0])
print(derivative(derivative(lambda x: 3 * x))(torch.tensor(1.0)))

# %%
# The n-th derivative
# -------------------
#
# *For a Taylor series it is slow*: each order differentiates the whole graph of the one
# before. For :math:`e^{\sin x}` the number of tensor operations more than doubles with each
# order. Counted with this:

import math

from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.operations += 1
        return operation(*args, **(kwargs or {}))


# %%
# PyTorch has no Taylor mode, which would carry all coefficients in one pass; a
# :term:`JVP` of a JVP gives the same number with more operations still. Keep n small:


def along(f):
    return lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]


for step in (derivative, along):
    f, taylor, counts = (lambda x: torch.exp(torch.sin(x))), [], []
    for n in range(1, 5):
        f = step(f)
        with Count() as count:
            taylor.append(f(torch.tensor(0.0)).item() / math.factorial(n))
        counts.append(count.operations)
    print(taylor, counts)

# %%
# What goes wrong
# ---------------
#
# *backward twice for the second derivative gives 32.* Two calls of ``backward`` add up
# the first derivative; they never differentiate it. For :math:`2x^3+5x^2` at 1, with the
# slope :math:`6x^2+10x=16`:

x = torch.tensor(1.0, requires_grad=True)
y = 2 * x**3 + 5 * x**2
y.backward(retain_graph=True)
y.backward()
(g,) = torch.autograd.grad(2 * x**3 + 5 * x**2, x, create_graph=True)
print(x.grad, torch.autograd.grad(g, x)[0])

# %%
# 32 is twice the slope; the second derivative is :math:`12x+10=22`.
#
# *torch.compile and a second derivative*: a compiled function has a backward, and that one
# has none. Differentiate the uncompiled function:

compiled = torch.compile(torch.square, backend="aot_eager")
(g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
try:
    torch.autograd.grad(g, x)
except RuntimeError as error:
    print(error)

# %%
# The check: a second difference quotient, which shares no code with autograd.

h, s = 1e-4, t.detach().double()


def f(s):
    return torch.sin(3 * s) * torch.exp(-(s**2) / 4)


quotient = (f(s + h) - 2 * f(s) + f(s - h)) / h**2
torch.testing.assert_close(bend.double(), quotient, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(second, 6 * torch.linspace(-2, 2, 5))
assert by_image.tolist() == [168, 240]  # 2 (g - 1) times 2 (image wᵀ + 3 I), by hand
assert taylor == [1, 1 / 2, 0, -1 / 8]  # e^sin(x) = 1 + x + x^2/2 + 0 x^3 - x^4/8 + ...

# %%
# The slope of :math:`\sin` at four points, and the :term:`Jacobian` of that slope, with f″
# on its diagonal. Move a point:

import pullback

slope = torch.func.grad(lambda x: x.sin().sum())
pullback.live(slope, torch.tensor([0.0, 1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# Why two ``backward`` calls add: :ref:`accumulating-twice`. Second derivatives of a
# function of many variables: :ref:`hvp`. In a differential equation: :ref:`pinn`.
#
# .. asked: second derivative at many points; f'' of a curve; second derivative with
#    ones; elementwise second derivative; u_xx at all points; autograd twice with
#    create_graph; curvature of a curve at each point; acceleration at each time
