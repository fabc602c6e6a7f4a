r"""
.. _sum-is-ones:

y.sum().backward() and backward(ones): the same product
=======================================================

Some people write ``y.sum().backward()``, others ``y.backward(torch.ones_like(y))``. Is
there a difference? No, both compute the same :term:`VJP`, because in the backward pass
``sum`` passes exactly these ones on to ``y``.
"""

# %%
# Take :math:`y=x^2` at five points. We first pass ones:

import torch

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y.backward(torch.ones_like(y))
x.grad

# %%
# Then we do the same with the sum. It has one element, and so it needs no ``v``:

x.grad = None
(x**2).sum().backward()
x.grad

# %%
# Why they are the same
# ---------------------
#
# Let :math:`y_i=f(x_i)`, with the same function :math:`f` at every point, and let
# :math:`G(x)=f(x_1)+\dots+f(x_N)` be the sum. Its :term:`partial derivatives <partial
# derivative>` are :math:`\partial G/\partial x_i(x)=f'(x_i)`, because the other terms do
# not contain :math:`x_i`. You can also see this from the :term:`chain rule`. The
# :term:`Jacobian` of the sum is a row of ones, and the chain rule multiplies this row by
# the Jacobian of ``y``. A hook on ``y`` shows the row that arrives:

y = x**2
y.register_hook(lambda v: print("arrives at y:", v))
y.sum().backward()

# %%
# So PyTorch takes the sum in the forward pass, and adds up nothing after differentiating.
# The :term:`cotangent` at ``y`` is the same in both cases, and so is the graph that leads
# from ``x`` to ``y``. Both calls work for a single point and for many points:

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
# If you pass ones, the result is the sum of the gradients of all outputs. But the sum is a
# *choice*. ``mean`` passes :math:`1/N` to each output, and ``v`` may hold any other
# weights. Each ``v`` gives you the :term:`gradient` of a different number. The second line
# of the output is for the ``v`` that ``mean`` passes, and the last line, which comes from
# ``mean`` itself, is the same:

y = x**2
for v in (torch.ones(3), torch.full((3,), 1 / 3), torch.tensor([1.0, 0.0, 5.0])):
    print(torch.autograd.grad(y, x, v, retain_graph=True)[0])
print(torch.autograd.grad(y.mean(), x)[0])

# %%
# *How do I get the gradient of each term, and not the sum of the gradients?* You cannot get
# these gradients from the sum, in which they have already been added up. A list of outputs
# does not help either, because ``grad`` adds up the gradients of the outputs in a list,
# too. In the code below two terms share ``w``, and the first line of the output is the sum
# of their gradients. If you take one product for each term, the gradients stay separate, as
# in the other two lines of the output:

w = torch.tensor([1.0, 2.0], requires_grad=True)
terms = [3 * w[0] * w[1], w[1] ** 2]
print(torch.autograd.grad(terms, w, retain_graph=True)[0])
for term in terms:
    print(torch.autograd.grad(term, w, retain_graph=True)[0])

# %%
# What goes wrong
# ---------------
#
# Some people take the sum *and* pass ones in the shape of ``y``. The sum has shape
# ``()``, and its ``v`` must have that shape, too:

try:
    (x**2).sum().backward(torch.ones(3))
except RuntimeError as error:
    print(error)

# %%
# *I removed* ``.sum()`` *and passed* ``gradient=logits * onehot``\ *; is that the same?*
# No. The sum passes ones. The call with ``gradient=`` weights the gradient once more, by
# the logit itself, which is 2. So the first line of the output, which comes from that call,
# is twice the second, which comes from the sum. To pick the logit you need only the
# :term:`one-hot vector`, passed as the ``v`` of the logits. The last line of the output
# comes from this call:

logits = torch.tensor([1.0, 2.0], requires_grad=True)
onehot = torch.tensor([0.0, 1.0])
picked = logits * onehot
print(torch.autograd.grad(picked, logits, picked.detach(), retain_graph=True)[0])
print(torch.autograd.grad(picked.sum(), logits)[0])
print(torch.autograd.grad(1 * logits, logits, onehot)[0])

# %%
# ``y.sum().backward()`` and ``y.backward(torch.ones_like(y))`` agree for any function,
# even for one that mixes its inputs, because both compute :math:`\mathbf 1^\top J`. We
# check this for a softmax times a running sum. :term:`Forward mode <forward mode>` gives
# the same result, but it is not always an independent witness. PyTorch derives many rules
# of forward mode from the rules of :term:`reverse mode`. For example, the forward rule of
# ``tanh`` calls the kernel of its backward rule. Difference quotients use neither of the
# two modes:


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
# :ref:`v-is-a-weight` is about weights other than 1. :ref:`mixing-samples` is about
# functions for which the sum over the points hides the derivatives that you want.
#
# .. asked: y.sum().backward(); sum or ones; is sum the same as ones; backward of sum;
#    why is sum and then backward the same as the derivative of each element
# .. words: equal, alternative, instead of, same result, idiom, mean
