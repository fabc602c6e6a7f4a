r"""
.. _bare-backward:

What does backward() pass when you pass nothing?
================================================

Some people write ``loss.backward()``, others ``y.backward(v)``. What happens in the first
case, where nothing is passed? If ``y`` is real and has exactly one element, PyTorch starts
with a 1 in the shape of ``y``. Otherwise you get an error. So the default of the
:term:`gradient argument` is ``None``, and not ``tensor(1.)``.
"""

# %%
# Take :math:`y=x^2` at 3, where the :term:`derivative` is 6. ``y`` has shape ``()`` and
# holds one element. We call ``backward`` once with nothing, and once with the 1 written
# out:

import torch

x = torch.tensor(3.0, requires_grad=True)
(x**2).backward()
print(x.grad)
x.grad = None
(x**2).backward(torch.tensor(1.0))
print(x.grad)

# %%
# A vector with a single entry has one element, too, and so you need not pass anything.
# For :math:`y=a\cdot a` at :math:`a=4` the derivative is 8. If you write the 1 out here,
# it must have the shape of ``y``, which is ``(1,)``:

a = torch.tensor([4.0], requires_grad=True)
(a * a).backward()
print(a.grad)
a.grad = None
(a * a).backward(torch.ones(1))
print(a.grad)

# %%
# PyTorch passes ``torch.ones_like(y)``, whatever the number of dimensions. We can see
# this tensor with a hook on ``y``, which is given the :term:`cotangent` that arrives at
# ``y``. The 1 is the derivative :math:`\partial y/\partial y` of ``y`` with respect to
# itself. The backward pass starts the :term:`chain rule` from this 1, which is therefore
# called a :term:`seed`:

for shape in [(), (1,), (1, 1), (1, 1, 1)]:
    x = torch.full(shape, 3.0, requires_grad=True)
    y = x**2
    y.register_hook(lambda v: print(tuple(v.shape), v.item()))
    y.backward()

# %%
# The signature confirms that the default is None. The documentation says when the default
# is not enough, and what you must pass in that case. By "non-scalar" the documentation
# means a tensor with more than one element:

import inspect

print(inspect.signature(torch.Tensor.backward))
print(inspect.getdoc(torch.Tensor.backward).split("\n\n")[1])

# %%
# What goes wrong
# ---------------
#
# Now we evaluate the same :math:`x^2` at *five* points, and ``backward()`` refuses. *Why
# must I pass* ``gradient``\ *, why can't PyTorch broadcast a 1.0?* Because five outputs
# have no single gradient. If PyTorch took ones, it would silently give you the gradient
# of their sum, which you may not want. You have to say how much each output counts. A
# single 1 does not say this for five outputs, and so PyTorch refuses it as well:

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x**2
for v in (None, torch.tensor(1.0)):
    try:
        y.backward(v)
    except RuntimeError as error:
        print(error)

# %%
# *My loss came out as a vector*, with one entry for each sample, as with
# ``reduction="none"``, or with one entry for each GPU that took part. In both cases you
# have to say how to turn this vector into one number. Most often you take the mean:

p = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
loss = torch.nn.functional.mse_loss(p, torch.zeros(4), reduction="none")
print(tuple(loss.shape))
loss.mean().backward()
p.grad

# %%
# A complex output has no default either, even if it has only one element:

z = torch.tensor(1.0 + 2.0j, requires_grad=True)
try:
    (z * z).backward()
except RuntimeError as error:
    print(error)

# %%
# :func:`pullback.explain` tells you what ``backward`` would do before you call it. Look at
# the row ``y.backward()``:

import pullback

pullback.explain(torch.square, torch.tensor([4.0]))

# %%
# As a check, we try each shape with one element. The default and ``ones_like`` must both
# give the derivative :math:`2x=6`:

for shape in [(), (1,), (1, 1), (1, 1, 1)]:
    x = torch.full(shape, 3.0, requires_grad=True)
    y = x**2
    (explicit,) = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)
    y.backward()
    assert torch.equal(x.grad, explicit)
    assert torch.equal(x.grad, torch.full(shape, 6.0))

# %%
# Where next
# ----------
#
# For the shapes that ``v`` may have, read :ref:`shape-rule`. :ref:`upstream` explains why
# the chain rule starts with a 1, and :ref:`ones-trick` is about passing ones for many
# outputs.
#
# .. asked: backward() without an argument; default of gradient; implicit gradient of 1;
#    what does backward() pass; does backward use tensor(1.); loss.backward() takes no
#    argument, y.backward() does
# .. words: default, None, nothing, scalar, implicit one, no argument, tensor(1.)
