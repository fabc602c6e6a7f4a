r"""
.. _second-derivatives:

f″ at many points
=================

You have a curve at many points and want its second derivative at each of them. Take the
first derivative with ones for ``v`` and with ``create_graph=True``, and then differentiate
the result, again with ones for ``v``. Each point keeps its own derivative both times, as
long as the value at each point depends on that point alone.
"""

# %%
# Our curve is :math:`f(x)=x^3` at five points. Its derivatives are :math:`f'(x)=3x^2` and
# :math:`f''(x)=6x`. The tensors ``x`` and ``y`` and the ``v`` of each call have shape
# ``(5,)``:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**3
(first,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
first

# %%
# ``create_graph=True`` has recorded how ``first`` depends on ``x``. So you can
# differentiate ``first`` like any other result. Without this flag ``first`` has no graph,
# and the second call raises *element 0 of tensors does not require grad*:

(second,) = torch.autograd.grad(first, x, torch.ones_like(first))
second

# %%
# With :mod:`torch.func` you write down the derivative at *one* point, and ``vmap`` applies
# it to all of them. You can nest derivatives as deeply as you like:

derivative = torch.func.grad
f2 = torch.func.vmap(derivative(derivative(lambda x: x**3)))
f2(x.detach())

# %%
# The two derivatives need not be with respect to the same tensor. In *gradient matching*,
# somebody who has seen the gradient with respect to the weights looks for the image that
# produced it. In our example the gradient that was seen is a tensor of ones. The squared
# distance between the gradient that was seen and the gradient that a candidate image gives
# is then differentiated with respect to that image:

w, image = (torch.tensor(values, requires_grad=True) for values in ([1.0, 1.0], [1.0, 2.0]))
(g,) = torch.autograd.grad((image @ w) ** 2, w, create_graph=True)
(by_image,) = torch.autograd.grad((g - 1).square().sum(), image)
by_image

# %%
# A curve with both derivatives
# -----------------------------
#
# Here are both derivatives of :math:`f(x)=\sin(3x)\,e^{-x^2/4}` at 200 points. Two calls
# are enough, however many points there are:

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
# *The third derivative of a·x gives None or an error.* So does the second derivative. The
# first derivative of a straight line is the constant ``a``. If ``a`` is a plain number, the
# derivative has no graph at all, and you get an error. If ``a`` requires a gradient, there
# is a graph, but it does not lead back to ``x``, and with ``allow_unused=True`` you get
# None:

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
# The right answer is zero. If the first derivative has a graph, as it has here because
# ``a`` requires a gradient, then ``materialize_grads=True`` returns zeros.
# ``torch.func.grad`` returns zero without a flag, even where the first derivative has no
# graph, as the example ``3 * x`` shows:

print(torch.autograd.grad(first, x, torch.ones(2), materialize_grads=True)[0])
print(derivative(derivative(lambda x: 3 * x))(torch.tensor(1.0)))

# %%
# The n-th derivative
# -------------------
#
# For a Taylor series you need many orders, and nesting becomes slow, because each order
# differentiates the whole graph of the order before it. To see how slow it becomes, we
# count the tensor operations:

import math

from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.operations += 1
        return operation(*args, **(kwargs or {}))


# %%
# We compute the coefficients of :math:`e^{\sin x}` up to the fourth order, once by nesting
# ``grad`` and once by nesting a :term:`JVP`:


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
# The coefficients agree. For this function the number of operations more than doubles with
# each order, whichever way we nest, and nesting the JVP takes even more operations than
# nesting ``grad``. A *Taylor mode* would carry all coefficients in one pass, but PyTorch
# has none. So keep the order low.
#
# What goes wrong
# ---------------
#
# *I called backward twice for the second derivative, and got 32.* Two calls to ``backward``
# add the first derivative to ``.grad`` twice. They never differentiate it. The curve is
# :math:`2x^3+5x^2`. At 1, its slope :math:`6x^2+10x` is 16, and its second derivative
# :math:`12x+10` is 22:

x = torch.tensor(1.0, requires_grad=True)
y = 2 * x**3 + 5 * x**2
y.backward(retain_graph=True)
y.backward()
(g,) = torch.autograd.grad(2 * x**3 + 5 * x**2, x, create_graph=True)
print(x.grad, torch.autograd.grad(g, x)[0])

# %%
# The number 32 is twice the slope. ``autograd.grad`` of the slope gives 22, the second
# derivative.
#
# The backward pass of a function that ``torch.compile`` has compiled cannot itself be
# differentiated if the backend is the default one or ``aot_eager``, which we use below. For
# second derivatives, use the uncompiled function:

compiled = torch.compile(torch.square, backend="aot_eager")
(g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
try:
    torch.autograd.grad(g, x)
except RuntimeError as error:
    print(error)

# %%
# As a check, we compare the second derivative of the curve, ``bend``, with a second
# difference quotient, which shares no code with autograd. We compare the other results
# with formulas:

h, s = 1e-4, t.detach().double()


def f(s):
    return torch.sin(3 * s) * torch.exp(-(s**2) / 4)


quotient = (f(s + h) - 2 * f(s) + f(s - h)) / h**2
torch.testing.assert_close(bend.double(), quotient, rtol=1e-4, atol=1e-4)
torch.testing.assert_close(second, 6 * torch.linspace(-2, 2, 5))
assert by_image.tolist() == [168, 240]  # 2 (g - 1) times 2 (image wᵀ + 3 I), by hand
assert taylor == [1, 1 / 2, 0, -1 / 8]  # e^sin(x) = 1 + x + x^2/2 + 0 x^3 - x^4/8 + ...

# %%
# Below is the slope of :math:`\sin` at four points, with the :term:`Jacobian` of that
# slope. Its diagonal holds f″. Move a point. Which entries change?

import pullback

slope = torch.func.grad(lambda x: x.sin().sum())
pullback.live(slope, torch.tensor([0.0, 1.0, 2.0, 3.0]))

# %%
# .. dropdown:: Answer
#
#    One entry, on the diagonal, since the slope at a point depends on that point alone.
#
# Where next
# ----------
#
# :ref:`accumulating-twice` explains why two calls to ``backward`` add up. :ref:`hvp` is
# about second derivatives of a function of many variables, and :ref:`pinn` is about solving
# a differential equation.
#
# .. asked: second derivative at many points; f'' of a curve; second derivative with
#    ones; elementwise second derivative; u_xx at all points; autograd twice with
#    create_graph; curvature of a curve at each point; acceleration at each time
# .. words: wave equation, heat, diffusion, laplace, bend, beam, spline, curve, elementwise,
#    twice
