r"""
.. _sum-is-ones:

y.sum().backward() and backward(ones): the same product
=======================================================

``y.sum().backward()`` and ``y.backward(torch.ones_like(y))`` compute the same
:term:`VJP`: the backward of ``sum`` hands exactly those ones to ``y``.
"""

# %%
# Five points, :math:`y=x^2`, once with ones and once with a sum:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y.backward(torch.ones_like(y))
x.grad

# %%
# And the sum, which has one element and needs no ``v``:

x.grad = None
(x**2).sum().backward()
x.grad

# %%
# Why they are the same
# ---------------------
#
# Put :math:`G(x)=f(x_1)+\dots+f(x_N)`. Its partial derivatives are
# :math:`\partial G/\partial x_i=f'(x_i)`, since the other terms do not contain
# :math:`x_i`. As a product: the Jacobian of the sum is a row of ones, and the chain rule
# multiplies it by :math:`J_F`. A hook on ``y`` sees that row arrive:

y = x**2
y.register_hook(lambda v: print("arrives at y:", v))
y.sum().backward()

# %%
# Nothing is summed after differentiating, and no order of operations differs: the
# cotangent at ``y`` is the same, and everything before ``y`` is the same graph.
#
# One line of code fits a single point and many points alike, with either spelling:

for points in (torch.tensor(1.0), torch.tensor([1.0, 2.0, 3.0])):
    x = points.clone().requires_grad_()
    y = x**2
    y.backward(torch.ones_like(y))
    print(x.grad)

# %%
# Is the gradient of a vector loss the sum of its gradients?
# ----------------------------------------------------------
#
# A sum is a *choice*. ``mean`` passes :math:`1/N` to each output and ``v`` may hold any
# weights; each is the gradient of another scalar:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
for v in (torch.ones(3), torch.full((3,), 1 / 3), torch.tensor([1.0, 0.0, 5.0])):
    (g,) = torch.autograd.grad(y, x, v, retain_graph=True)
    print(g)

# %%
# The second line is ``y.mean().backward()``:

(g,) = torch.autograd.grad((x**2).mean(), x)
g

# %%
# What goes wrong
# ---------------
#
# Summing *and* passing ones of ``y``'s shape: the sum has shape ``()``, and its ``v``
# must have it too:

try:
    (x**2).sum().backward(torch.ones(3))
except RuntimeError as error:
    print(error)

# %%
# Multiplying by ``v`` before the sum *and* passing ``v`` after weighs twice. With
# :math:`v=(1,0,5)` the last entry is 25 times, not 5 times, its gradient of 6:

v = torch.tensor([1.0, 0.0, 5.0])
(twice,) = torch.autograd.grad(x**2 * v, x, v)
twice

# %%
# The identity holds for any function, also one that mixes its inputs, since both sides
# are :math:`\mathbf 1^\top J`. Forward mode, which shares no code with either, agrees:


def f(x):
    return torch.softmax(x, 0) * x.cumsum(0)


x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
(ones,) = torch.autograd.grad(f(x), x, torch.ones(3, dtype=torch.float64))
(summed,) = torch.autograd.grad(f(x).sum(), x)
assert torch.equal(ones, summed)
torch.testing.assert_close(ones, torch.func.jacfwd(f)(x.detach()).sum(0))

# %%
# Where next
# ----------
#
# Weights that are not ones: :ref:`v-is-a-weight`. When the sum over points hides what
# you want: :ref:`mixing-samples`.
