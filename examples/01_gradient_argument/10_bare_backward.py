r"""
.. _bare-backward:

What does backward() pass when you pass nothing?
================================================

A 1 in the shape of ``y``, if ``y`` has exactly one element; an error otherwise. The
default of the :term:`gradient argument` is ``None``, not ``tensor(1.)``.
"""

# %%
# A vector with a single entry, as ``y`` often is, has shape ``(1,)``. Here
# :math:`y=a\cdot a` at :math:`a=4`, whose derivative is :math:`2a=8`:

import torch

a = torch.tensor([4.0], requires_grad=True)
(a * a).backward()
a.grad

# %%
# The same with the 1 written out. It has ``y``'s shape, ``(1,)``:

a.grad = None
(a * a).backward(torch.ones(1))
a.grad

# %%
# What is passed is ``torch.ones_like(y)``, whatever the number of dimensions. A hook on
# ``y`` sees the :term:`cotangent` that arrives there:

for shape in [(), (1,), (1, 1), (1, 1, 1)]:
    x = torch.full(shape, 3.0, requires_grad=True)
    y = x**2
    y.register_hook(lambda v: print(tuple(v.shape), v.item()))
    y.backward()

# %%
# The signature says so: every argument has the default None or False.

import inspect

print(inspect.signature(torch.Tensor.backward))

# %%
# What goes wrong
# ---------------
#
# *Why can't PyTorch use 1.0 for outputs that aren't scalar?* Since there "the gradient"
# is not defined: ``y`` has a gradient for each element, and ones would silently mean
# the gradient of their sum. So you must say which you want:

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x**2
try:
    y.backward()
except RuntimeError as error:
    print(error)

# %%
# A function from numbers to numbers is not enough: what counts is the number of
# elements of ``y``. The same function at *one* point needs nothing:

x = torch.tensor(0.5, requires_grad=True)
(x**2).backward()
x.grad

# %%
# Nor does complex output have a default, though it has one element:

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
