r"""
.. _accumulating-twice:

Accumulating is not differentiating twice
=========================================

Two calls of ``backward`` add two *first* derivatives into ``x.grad``. A second derivative
needs the first one as a tensor with a graph, and then a derivative of that.
"""

# %%
# For :math:`y=x^3` at 2 both :math:`y'=3x^2` and :math:`y''=6x` are 12: an unlucky
# example. Take :math:`x^4` instead, with :math:`y'=4x^3=32` and :math:`y''=12x^2=48`:

import torch

x = torch.tensor(2.0, requires_grad=True)
y = x**4
y.backward(retain_graph=True)
print(x.grad)
y.backward()
print(x.grad)

# %%
# 64 is 32 + 32. Neither call looked at ``x.grad``; both added to it.
#
# ``create_graph=True`` alone changes nothing about that: the gradient now has a graph,
# but ``y.backward()`` still differentiates ``y``. What must be differentiated is the
# gradient:

(first,) = torch.autograd.grad(x**4, x, create_graph=True)
(second,) = torch.autograd.grad(first, x)
print(first.item(), second.item())

# %%
# With ``backward`` it can be done, if you empty ``x.grad`` in between, because
# ``first.backward()`` *adds* y'' to whatever is there. ``inputs=`` keeps the sum out of
# other leaves:

x.grad = None
(first,) = torch.autograd.grad(x**4, x, create_graph=True)
first.backward()
x.grad

# %%
# What accumulation is for
# ------------------------
#
# Adding is right when the thing you want is a sum: a batch in two halves gives the
# gradient of the whole, in half the memory:

w = torch.tensor([1.0, -1.0], requires_grad=True)
data = torch.arange(8.0).reshape(4, 2)
for half in data.split(2):
    ((half @ w) ** 2).sum().backward()
halves, w.grad = w.grad, None
((data @ w) ** 2).sum().backward()
print(halves, w.grad)

# %%
# For a *mean*, each half must be weighed by its share, as ``v`` or as a factor:

w.grad = None
for half in data.split(2):
    loss = ((half @ w) ** 2).mean()
    loss.backward(torch.tensor(len(half) / len(data)))
mean = torch.func.grad(lambda w: ((data @ w) ** 2).mean())(w.detach())
print(w.grad, mean)

# %%
# What goes wrong
# ---------------
#
# With ``create_graph=True``, ``backward`` fills ``x.grad`` with a tensor that has a graph,
# which leads back to ``x``, which holds ``x.grad``: a cycle that keeps memory alive.
# PyTorch warns of it:

import warnings

x = torch.tensor(2.0, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (x**4).backward(create_graph=True)
print(str(caught[-1].message)[:112])
x.grad = None

# %%
# :func:`torch.autograd.grad` returns its result in place of storing it, and leaves no
# cycle. *Is the warning serious?* Yes, in a loop.
#
# The check, by the formula and by composing derivatives:

composed = torch.func.grad(torch.func.grad(lambda x: x**4))(torch.tensor(2.0))
assert composed.item() == second.item() == 12 * 2**2
assert torch.equal(halves, torch.func.grad(lambda w: ((data @ w) ** 2).sum())(w.detach()))
assert torch.equal(w.grad, mean)

# %%
# Where next
# ----------
#
# Why a gradient doubles between steps: :ref:`gradient-doubled`. The flags:
# :ref:`retain-or-create`. f″ for a batch of points: :ref:`second-derivatives`.
