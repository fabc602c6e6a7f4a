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
# Third derivatives of a straight line
# ------------------------------------
#
# *The third derivative of a·x gives None or an error.* The second derivative of a linear
# function does not depend on ``x``, so its graph ends before ``x``:

x = torch.tensor([1.0, 2.0], requires_grad=True)
(first,) = torch.autograd.grad(3 * x, x, torch.ones(2), create_graph=True)
try:
    torch.autograd.grad(first, x, torch.ones(2))
except RuntimeError as error:
    print(error)

# %%
# The mathematical answer is zero. With a slope ``a`` that has a graph, but one that does
# not reach ``x``, ``materialize_grads=True`` gives the zeros; without any graph the
# function form does:

a = torch.tensor(3.0, requires_grad=True)
(first,) = torch.autograd.grad(a * x, x, torch.ones(2), create_graph=True)
print(torch.autograd.grad(first, x, torch.ones(2), materialize_grads=True)[0])
print(derivative(derivative(lambda x: 3 * x))(torch.tensor(1.0)))

# %%
# What goes wrong
# ---------------
#
# *backward twice for the second derivative gives 32.* Two calls of ``backward`` add up
# the first derivative; they never differentiate it. For :math:`x^4` at 2:

x = torch.tensor(2.0, requires_grad=True)
y = x**4
y.backward(retain_graph=True)
y.backward()
(g,) = torch.autograd.grad(x**4, x, create_graph=True)
print(x.grad, torch.autograd.grad(g, x)[0])

# %%
# 64 is twice the slope 32; the second derivative is :math:`12x^2=48`.
#
# The check: a second difference quotient, which shares no code with autograd.

h = 1e-4
s = t.detach().double()


def f(s):
    return torch.sin(3 * s) * torch.exp(-(s**2) / 4)


quotient = (f(s + h) - 2 * f(s) + f(s - h)) / h**2
torch.testing.assert_close(bend.double(), quotient, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(second, 6 * torch.linspace(-2, 2, 5))

# %%
# Where next
# ----------
#
# Why two ``backward`` calls add: :ref:`accumulating-twice`. Second derivatives of a
# function of many variables: :ref:`hvp`. In a differential equation: :ref:`pinn`.
