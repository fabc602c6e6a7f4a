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
# ``first.backward()`` differentiates the gradient too, but it *adds* y'' to whatever
# ``x.grad`` holds: 64 + 48 here. Empty it first:

(first,) = torch.autograd.grad(x**4, x, create_graph=True)
first.backward(retain_graph=True)
print(x.grad)
x.grad = None
first.backward()
print(x.grad)

# %%
# It adds to every other leaf as well. For :math:`ax^4`, :math:`\partial y'/\partial
# a=4x^3=32` goes into ``a.grad``, where the next optimiser step would find it;
# ``inputs=`` keeps it out:

a = torch.tensor(3.0, requires_grad=True)
x.grad = None
(first,) = torch.autograd.grad(a * x**4, x, create_graph=True)
first.backward(inputs=[x], retain_graph=True)
print(x.grad, a.grad)
first.backward()
print(x.grad, a.grad)

# %%
# What accumulation is for
# ------------------------
#
# Adding is right when the thing you want is a sum: a batch in two halves gives the
# gradient of the whole, with the graph of one half in memory at a time:

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
# which leads back to ``x``, which holds ``x.grad``: a cycle. PyTorch warns of it, once in
# a process:

import warnings

torch.set_warn_always(True)  # here each time, so that the warning is sure to show
x = torch.tensor(2.0, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (x**4).backward(create_graph=True)
torch.set_warn_always(False)
print(str(caught[-1].message).partition(". ")[0])
x.grad = None

# %%
# *Is the warning serious?* Yes: Python's collector does not see the cycle. The tensor, its
# gradient and the graph between them stay for good, and a loop makes more of them with
# each turn. :func:`torch.autograd.grad` returns its result and stores nothing:

import gc
import weakref


def outlives(differentiate):
    x = torch.tensor(2.0, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        differentiate(x**4, x)
    return weakref.ref(x)


def stored(y, x):
    y.backward(create_graph=True)


def returned(y, x):
    torch.autograd.grad(y, x, create_graph=True)


# %%
# What was stored lives on after its function has ended, until you empty ``.grad``:

kept, freed = outlives(stored), outlives(returned)
gc.collect()
print("stored:", kept() is not None, " returned:", freed() is not None)
kept().grad = None
print("stored, then emptied:", kept() is not None)

# %%
# The check, by the formula and by composing derivatives:

composed = torch.func.grad(torch.func.grad(lambda x: x**4))(torch.tensor(2.0))
assert composed.item() == second.item() == 12 * 2**2
assert kept() is None
assert torch.equal(halves, torch.func.grad(lambda w: ((data @ w) ** 2).sum())(w.detach()))
assert torch.equal(w.grad, mean)

# %%
# Where next
# ----------
#
# Why a gradient doubles between steps: :ref:`gradient-doubled`. The flags:
# :ref:`retain-or-create`. f″ for a batch of points: :ref:`second-derivatives`.
#
# .. asked: calling backward twice gives a second derivative?; two backward calls add
#    up; accumulate gradient or second derivative; why is the second backward not the
#    second derivative
#
# .. words: called twice, added up, acceleration, second order, confuse, sum of the same
