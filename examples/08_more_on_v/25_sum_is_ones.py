r"""
.. _sum-is-ones:

y.sum().backward() and backward(ones): the same product
=======================================================

``y.sum().backward()`` and ``y.backward(torch.ones_like(y))`` compute the same
:term:`VJP`: the backward of ``sum`` hands exactly those ones to ``y``.
"""

# %%
# Five points, :math:`y=x^2`, once with ones:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y.backward(torch.ones_like(y))
x.grad

# %%
# And once with the sum, which has one element and needs no ``v``:

x.grad = None
(x**2).sum().backward()
x.grad

# %%
# Why they are the same
# ---------------------
#
# Put :math:`G(x)=f(x_1)+\dots+f(x_N)`. Its :term:`partial derivatives <partial
# derivative>` are :math:`\partial G/\partial x_i(x)=f'(x_i)`, since the other terms do
# not contain :math:`x_i`. As a product: the :term:`Jacobian` of the sum is a row of
# ones, and the :term:`chain rule` multiplies it by that of ``y``. A hook on ``y`` sees
# the row arrive:

y = x**2
y.register_hook(lambda v: print("arrives at y:", v))
y.sum().backward()

# %%
# The sum is taken on the way forward; nothing is summed after differentiating. The
# :term:`cotangent` at ``y`` is the same, and so is the graph before ``y``. Either
# spelling fits a single point and many points with one line of code:

for points in (torch.tensor(1.0), torch.tensor([1.0, 2.0, 3.0])):
    x = points.requires_grad_()
    y = x**2
    (ones,) = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)
    (summed,) = torch.autograd.grad(y.sum(), x)
    print(ones, summed)

# %%
# Is the gradient of a vector loss the sum of its gradients?
# ----------------------------------------------------------
#
# With ones it is, but a sum is a *choice*. ``mean`` passes :math:`1/N` to each output,
# and ``v`` may hold any weights. Each gives the :term:`gradient` of another scalar; the
# second line is that of the mean, as the last line confirms:

y = x**2
for v in (torch.ones(3), torch.full((3,), 1 / 3), torch.tensor([1.0, 0.0, 5.0])):
    print(torch.autograd.grad(y, x, v, retain_graph=True)[0])
print(torch.autograd.grad(y.mean(), x)[0])

# %%
# *How do I get the gradient of each term, and not their sum?* Not from the sum, where
# they are added already. A list of outputs is added up, too: here two terms share ``w``,
# and the first line is their sum. A product for each term keeps them apart:

w = torch.tensor([1.0, 2.0], requires_grad=True)
terms = [3 * w[0] * w[1], w[1] ** 2]
print(torch.autograd.grad(terms, w, retain_graph=True)[0])
for term in terms:
    print(torch.autograd.grad(term, w, retain_graph=True)[0])

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
# *I removed* ``.sum()`` *and passed* ``gradient=logits * onehot``\ *; is that the same?*
# No. The sum passes ones; the second call weighs once more, by the logit 2 itself. What
# picks the logit is the :term:`one-hot vector` alone, as the ``v`` of the logits:

logits = torch.tensor([1.0, 2.0], requires_grad=True)
onehot = torch.tensor([0.0, 1.0])
picked = logits * onehot
print(torch.autograd.grad(picked, logits, picked.detach(), retain_graph=True)[0])
print(torch.autograd.grad(picked.sum(), logits)[0])
print(torch.autograd.grad(1 * logits, logits, onehot)[0])

# %%
# The identity holds for any function, also one that mixes its inputs, since both sides are
# :math:`\mathbf 1^\top J`. :term:`Forward mode <forward mode>` agrees. It is no independent
# witness, as torch derives many of its rules from those of :term:`reverse mode` (that of
# the softmax calls the same kernel). Difference quotients know nothing of either:


def f(x):
    return torch.softmax(x, 0) * x.cumsum(0)


x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
(ones,) = torch.autograd.grad(f(x), x, torch.ones(3, dtype=torch.float64))
(summed,) = torch.autograd.grad(f(x).sum(), x)
assert torch.equal(ones, summed)
torch.testing.assert_close(ones, torch.func.jacfwd(f)(x.detach()).sum(0))
steps = 1e-6 * torch.eye(3, dtype=torch.float64)
moved = [(f(x + step).sum() - f(x - step).sum()).item() / 2e-6 for step in steps]
torch.testing.assert_close(ones, ones.new_tensor(moved), rtol=1e-6, atol=1e-6)

# %%
# Where next
# ----------
#
# Weights that are not ones: :ref:`v-is-a-weight`. When the sum over points hides what
# you want: :ref:`mixing-samples`.
#
# .. asked: y.sum().backward(); sum or ones; is sum the same as ones; backward of sum
