r"""
.. _v-is-a-weight:

What v = 100 and v = [0.2, 0.8] mean: v is a weight on each output
==================================================================

Each entry of ``v`` multiplies the :term:`gradient` of its output before they are added
up: ``y.backward(v)`` gives the gradient of the weighted sum ``(v * y).sum()``, with
``v`` held constant.
"""

# %%
# One output, weight 100. For :math:`y=x^2` at 3 the :term:`derivative` is 6, so the
# result is 600:

import torch

x = torch.tensor(3.0, requires_grad=True)
(x**2).backward(torch.tensor(100.0))
x.grad

# %%
# The same with a vector in: :math:`y=x_1+x_2` has the gradient :math:`(1,1)`. ``v = 1``
# gives that and ``v = 100`` a hundred times that. ``v`` has ``y``'s shape ``()``:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in (torch.tensor(1.0), torch.tensor(100.0)):
    print(torch.autograd.grad(x.sum(), x, v)[0])

# %%
# Two outputs, weights 0.2 and 0.8
# --------------------------------
#
# Two losses share the parameters ``x``. With :math:`v=(0.2,0.8)` the second counts four
# times as much as the first:
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
# That is the gradient of one scalar, the weighted sum, which is how a loss is usually
# weighted. "Loss weights" and ":term:`upstream gradient`" are two readings of one ``v``:

v = torch.tensor([0.2, 0.8])
(weighted,) = torch.autograd.grad((v * losses(x)).sum(), x)
weighted

# %%
# *My losses are a list; do the weights go into* :func:`torch.autograd.backward`\ *?* Yes,
# one ``v`` for each loss, of that loss's shape ``()``. Count them: a weight too few is an
# error, as is one of shape ``(1,)``, but a weight too many is dropped without a word:

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
# *I learn the weights, and w.grad is always None.* In ``grad_tensors`` they are constants.
# Multiply in the forward pass: the gradient of each weight is then its loss (alone it
# would drive the weight down without end):

learned = torch.tensor([0.2, 0.8], requires_grad=True)
torch.autograd.backward(list(losses(x)), list(learned))
print(learned.grad)
(learned @ losses(x)).backward()
print(learned.grad)

# %%
# ``v`` may hold any real numbers, also the values of the input. For :math:`y=a\odot a`
# with :math:`v=a` the result is :math:`2a\odot a=2a^2`, a correct product for that ``v``:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
(a * a).backward(a.detach())
a.grad

# %%
# A doubling loop
# ---------------
#
# Start with :math:`y=2x` and double until the norm passes 1000. The function is
# :math:`y=2^kx`, where the data decide :math:`k`; its :term:`Jacobian` is :math:`2^k` times
# the identity, so ``v`` comes back multiplied by :math:`2^k`:

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
# *Is v = 100 a learning rate 100 times as large?* ``v`` scales the gradient that the
# optimizer sees. SGD then steps 100 times as far; Adam divides the scale out again:

for optimizer in (torch.optim.SGD, torch.optim.Adam):
    for v in (1.0, 100.0):
        w = torch.tensor(3.0, requires_grad=True)
        (w**2).backward(torch.tensor(v))
        optimizer([w], lr=0.001).step()
        print(optimizer.__name__, v, "step", round(w.item() - 3, 4))

# %%
# A weight of 0 drops an output whose gradient is finite (:ref:`masked-nan`), and a negative
# one turns descent into ascent:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for v in ([1.0, 0.0], [0.0, -1.0]):
    print(torch.autograd.grad(losses(x), x, torch.tensor(v))[0])

# %%
# Try others. Each row of :math:`J` is one loss's gradient, tinted by its weight, and the
# weighted rows are summed underneath:

import pullback

pullback.live(losses, x, v=torch.tensor([0.2, 0.8]))

# %%
# With ``v`` made from ``x`` and not :term:`detached <detach>`, ``(v * y).sum()``
# differentiates ``v``, too: :math:`\sum b^3` gives :math:`3b^2`, not the :math:`2b^2` that
# ``backward`` gave above:

b = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(attached,) = torch.autograd.grad((b * (b * b)).sum(), b)
attached

# %%
# The product is linear in ``v``, so the weighted one is the weighted sum of the two
# rows. :func:`pullback.check` compares it with :term:`finite differences` and
# :term:`forward mode` as well:

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
# Where weights come from when another function follows: :ref:`upstream`. Weights of 0
# and 1: :ref:`one-component`.
#
# .. asked: v as a weight; what does v = 100 mean; scale of v; v = [0.2, 0.8]; larger v
#    larger gradient; what are the numbers in v; what do the numbers in v mean
