r"""
.. _v-is-a-weight:

What v = 100 and v = [0.2, 0.8] mean: v is a weight on each output
==================================================================

You find ``y.backward(torch.tensor([0.2, 0.8]))`` or a ``v`` of 100 in someone's code, and
wonder what these numbers mean. Each entry of ``v`` is a weight, which multiplies the
:term:`gradient` of its output before the gradients are added up. So ``y.backward(v)`` gives
the gradient of the weighted sum ``(v * y).sum()``, where ``v`` is held constant.
"""

# %%
# We begin with one output and the weight 100. For :math:`y=x^2` at 3 the
# :term:`derivative` is 6, and so the result is 600:

import torch

x = torch.tensor(3.0, requires_grad=True)
(x**2).backward(torch.tensor(100.0))
x.grad

# %%
# The same holds if the input is a vector. The sum :math:`y=x_1+x_2` has the gradient
# :math:`(1,1)`. With ``v = 1`` you get this gradient, and with ``v = 100`` you get a
# hundred times as much. The output has shape ``()``, and ``v`` has that shape, too:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in (torch.tensor(1.0), torch.tensor(100.0)):
    print(torch.autograd.grad(x.sum(), x, v)[0])

# %%
# Two outputs, weights 0.2 and 0.8
# --------------------------------
#
# Now two losses share the parameters ``x``. With :math:`v=(0.2,0.8)` the gradient of the
# second loss counts four times as much as the gradient of the first:
#
# .. math::
#
#    v^\top J=0.2\,\nabla\ell_1+0.8\,\nabla\ell_2


def losses(x):
    return torch.stack([(x**2).sum(), x.prod()])


x = torch.tensor([1.0, 2.0], requires_grad=True)
losses(x).backward(torch.tensor([0.2, 0.8]))
x.grad

# %%
# This is the gradient of one number, the weighted sum, and training code often weights
# its losses by writing this sum. So the same ``v`` can be read in two ways. It holds the
# weights of the losses, and it is the :term:`upstream gradient` that the weighted sum
# sends to them:

v = torch.tensor([0.2, 0.8])
(weighted,) = torch.autograd.grad((v * losses(x)).sum(), x)
weighted

# %%
# *My losses are a list; do the weights go into* :func:`torch.autograd.backward`\ *?* Yes.
# Pass one ``v`` for each loss, in the shape of that loss, which is ``()`` here. Count the
# weights first. If there is one weight too few, or if a weight has shape ``(1,)``, you get
# an error. But if there is one weight too many, like the 1000 below, it is dropped without
# a warning:

weights = [torch.tensor(0.2), torch.tensor(0.8), torch.tensor(1000.0)]
x.grad = None
torch.autograd.backward(list(losses(x)), weights)
print(x.grad)
for wrong in (weights[:1], [torch.ones(1)] * 2):
    try:
        torch.autograd.backward(list(losses(x)), wrong)
    except RuntimeError as error:
        print(error)

# %%
# *I learn the weights, and w.grad is always None.* In ``grad_tensors``, the second argument
# of ``torch.autograd.backward``, the weights are constants. If you want to learn the
# weights, multiply the losses by them in the forward pass. Then the gradient of each weight
# is the loss that it multiplies. But if the objective contains nothing else, gradient
# descent drives the weight of a positive loss down without end. The output shows ``.grad``
# of the weights after each of the two ways:

learned = torch.tensor([0.2, 0.8], requires_grad=True)
torch.autograd.backward(list(losses(x)), list(learned))
print(learned.grad)
(learned @ losses(x)).backward()
print(learned.grad)

# %%
# ``v`` may hold any real numbers, even the values of the input. For :math:`y=a\odot a`
# and :math:`v=a`, the result is :math:`2a\odot a=2a^2`. This is a correct product for
# that ``v``, though it is not the derivative :math:`2a`:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
(a * a).backward(a.detach())
a.grad

# %%
# A doubling loop
# ---------------
#
# You may know an example in which ``y`` is doubled until its norm passes 1000, and
# ``backward`` is then called with a strange ``v``. The function is :math:`y=2^kx`, and the
# data determine :math:`k`. Its :term:`Jacobian` is :math:`2^k` times the identity. So ``v``
# comes back multiplied by :math:`2^k`, which is 512 here:

x = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
y = 2 * x
while y.detach().norm() < 1000:
    y = 2 * y
v = torch.tensor([0.1, 1.0, 1e-4])
y.backward(v)
print((y / x).detach())
x.grad

# %%
# What goes wrong
# ---------------
#
# *Is v = 100 a learning rate 100 times as large? And what does*
# ``loss.backward(torch.tensor(0.5))`` *mean for a scalar loss?* A bare ``backward()``
# passes 1.0, and with 0.5 you get half of that gradient, as from ``(0.5 *
# loss).backward()``. :ref:`v-of-100` shows how to weight the losses of several tasks. How
# long the step becomes depends on the optimizer, because ``v`` scales the gradient and not
# the step. Plain SGD takes a step that is 100 times as long. Adam divides each entry of the
# gradient by the typical size of its past values, and so its first step is as long with ``v
# = 100`` as with ``v = 1``:

for optimizer in (torch.optim.SGD, torch.optim.Adam):
    for v in (1.0, 100.0):
        w = torch.tensor(3.0, requires_grad=True)
        (w**2).backward(torch.tensor(v))
        optimizer([w], lr=0.001).step()
        print(optimizer.__name__, v, "step", round(w.item() - 3, 4))

# %%
# A weight of 0 drops an output, provided that the gradient of that output is finite
# (:ref:`masked-nan`). A negative weight turns descent on that output into ascent:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in ([1.0, 0.0], [0.0, -1.0]):
    print(torch.autograd.grad(losses(x), x, torch.tensor(v))[0])

# %%
# Try other weights. Each row of :math:`J` is the gradient of one loss and is tinted by
# its weight, and the weighted rows are added up underneath:

import pullback

pullback.live(losses, x, v=torch.tensor([0.2, 0.8]))

# %%
# In ``backward(v)`` the weights are constants, even if you computed them from ``x``. In
# ``(v * y).sum()`` they are not constants, unless you :term:`detach` them. With :math:`v=b`
# and :math:`y=b\odot b` you differentiate :math:`\sum b^3` and get :math:`3b^2`. For
# :math:`v=a` and :math:`y=a\odot a` above, ``backward`` gave :math:`2a^2`, because it took
# ``v`` as a constant:

b = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(attached,) = torch.autograd.grad((b * (b * b)).sum(), b)
attached

# %%
# The product is linear in ``v``. So the weighted gradient must be the weighted sum of the
# two rows, as we check below. :func:`pullback.check` also compares the product with
# :term:`finite differences` and :term:`forward mode`:

rows = [torch.autograd.grad(loss, x)[0] for loss in (losses(x)[0], losses(x)[1])]
torch.testing.assert_close(weighted, 0.2 * rows[0] + 0.8 * rows[1])
assert torch.equal(a.grad, 2 * a.detach() ** 2)
assert torch.equal(learned.grad, torch.tensor([1.0**2 + 2.0**2, 1.0 * 2.0]))
report = pullback.check(losses, x.detach(), torch.tensor([0.2, 0.8]))
assert report.ok, report.error
torch.testing.assert_close(report.result, weighted)
report

# %%
# Where next
# ----------
#
# :ref:`upstream` explains where the weights come from when another function follows, and
# :ref:`one-component` is about weights of 0 and 1.
#
# .. asked: v as a weight; what does v = 100 mean; scale of v; v = [0.2, 0.8]; larger v
#    larger gradient; what are the numbers in v; what do the numbers in v mean
# .. words: scale, amplify, strength, importance, magnitude, multiply, learning rate,
#    balance
