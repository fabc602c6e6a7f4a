r"""
.. _bare-backward:

What does backward() pass when you pass nothing?
================================================

A 1 in the shape of ``y``, if ``y`` is real and has exactly one element; otherwise you
get an error. The default of the :term:`gradient argument` is ``None``, not
``tensor(1.)``.
"""

# %%
# Take :math:`y=x^2` at 3, whose :term:`derivative` is 6. ``y`` has shape ``()``, one
# element. Once with nothing, once with the 1 written out:

import torch

x = torch.tensor(3.0, requires_grad=True)
(x**2).backward()
print(x.grad)
x.grad = None
(x**2).backward(torch.tensor(1.0))
print(x.grad)

# %%
# A vector with a single entry has one element, too, so nothing is needed. Here
# :math:`y=a\cdot a` at :math:`a=4`, with derivative 8. Written out, the 1 has ``y``'s
# shape ``(1,)``:

a = torch.tensor([4.0], requires_grad=True)
(a * a).backward()
print(a.grad)
a.grad = None
(a * a).backward(torch.ones(1))
print(a.grad)

# %%
# What is passed is ``torch.ones_like(y)``, whatever the number of dimensions. It is
# :math:`\partial y/\partial y`, and it does not end the :term:`chain rule`, it
# :term:`seeds <seed>` it. A hook on ``y`` sees the :term:`cotangent` arrive:

for shape in [(), (1,), (1, 1), (1, 1, 1)]:
    x = torch.full(shape, 3.0, requires_grad=True)
    y = x**2
    y.register_hook(lambda v: print(tuple(v.shape), v.item()))
    y.backward()

# %%
# The signature says that the default is None, and the documentation what you must pass
# when that will not do. By "non-scalar" it means more than one element:

import inspect

print(inspect.signature(torch.Tensor.backward))
print(inspect.getdoc(torch.Tensor.backward).split("\n\n")[1])

# %%
# What goes wrong
# ---------------
#
# The same :math:`x^2` at *five* points is refused. *Why must I pass* ``gradient``\ *,
# why can't PyTorch broadcast a 1.0?* Because five outputs have no single gradient, and
# ones would silently give that of their sum. You have to say what you want, and a single
# 1 for all five does not say it:

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x**2
for v in (None, torch.tensor(1.0)):
    try:
        y.backward(v)
    except RuntimeError as error:
        print(error)

# %%
# *My loss came out as a vector*, one entry for each sample (``reduction="none"``) or
# for each GPU that took part. Then say how to make one number of it, most often:

p = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
loss = torch.nn.functional.mse_loss(p, torch.zeros(4), reduction="none")
print(tuple(loss.shape))
loss.mean().backward()
p.grad

# %%
# Complex output has no default either, though it has one element:

z = torch.tensor(1.0 + 2.0j, requires_grad=True)
try:
    (z * z).backward()
except RuntimeError as error:
    print(error)

# %%
# Before you call ``backward``, :func:`pullback.explain` says what it would do:

import pullback

pullback.explain(torch.square, torch.tensor([4.0]))

# %%
# The default equals ``ones_like`` for each of the one-element shapes, and the
# derivative :math:`2x=6` for all of them:

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
# Which shapes ``v`` may have: :ref:`shape-rule`. Why a 1 starts the chain rule:
# :ref:`upstream`. Ones for many outputs: :ref:`ones-trick`.
#
# .. asked: backward() without an argument; default of gradient; implicit gradient of 1;
#    what does backward() pass; does backward use tensor(1.); loss.backward() takes no
#    argument, y.backward() does
