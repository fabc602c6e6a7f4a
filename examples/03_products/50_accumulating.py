r"""
.. _accumulating-twice:

Accumulating is not differentiating twice
=========================================

You want a second derivative, and so you call ``backward`` twice. You get a number, but is
it the right one? No: two calls to ``backward`` on the same ``y`` add up two *first*
derivatives in ``x.grad``. For a second derivative, you need the first derivative as a
tensor with a graph, and then you differentiate that tensor.
"""

# %%
# Take :math:`x^4` at 2, where :math:`y'=4x^3=32` and :math:`y''=12x^2=48`. The function
# :math:`x^3` would not tell us much, because at 2 its first and its second derivative are
# both 12. We call ``backward`` twice:

import torch

x = torch.tensor(2.0, requires_grad=True)
y = x**4
y.backward(retain_graph=True)
print(x.grad)
y.backward()
print(x.grad)

# %%
# The second number is 64, which is 32 + 32. Neither call differentiated the number in
# ``x.grad``. Each of them added 32 to this number.
#
# Does ``create_graph=True`` help? Not by itself. It gives the gradient a graph, but
# ``y.backward()`` still differentiates ``y``. To get the second derivative, differentiate
# the gradient instead:

(first,) = torch.autograd.grad(x**4, x, create_graph=True)
(second,) = torch.autograd.grad(first, x)
print(first.item(), second.item())

# %%
# You may also call ``first.backward()``, which does differentiate the gradient. But it
# *adds* y'' to whatever ``x.grad`` holds, which gives 64 + 48 here. So clear ``x.grad``
# first:

(first,) = torch.autograd.grad(x**4, x, create_graph=True)
first.backward(retain_graph=True)
print(x.grad)
x.grad = None
first.backward()
print(x.grad)

# %%
# ``first.backward()`` also adds to every other leaf that it reaches. For :math:`ax^4`,
# :math:`\partial y'/\partial a=4x^3=32` goes into ``a.grad``, and the next step of an
# optimizer would use it. With ``inputs=[x]``, nothing is added to ``a.grad``. The first
# line of the output is with ``inputs=[x]``, and the second is without it.
#
# If you *want* this mixed derivative, take the first one by ``grad``, as here.
# ``y.backward(create_graph=True)`` leaves :math:`\partial y/\partial a` in ``a.grad``, to
# which the mixed derivative is added (:ref:`mixed-derivative-by-backward`).

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
# Adding up is right if you want a sum. Suppose that a batch is too large to fit into
# memory, and you process it in two halves. Their gradients add up to the gradient of the
# whole batch, and the graph of only one half is in memory at a time:

w = torch.tensor([1.0, -1.0], requires_grad=True)
data = torch.arange(8.0).reshape(4, 2)
for half in data.split(2):
    ((half @ w) ** 2).sum().backward()
halves, w.grad = w.grad, None
((data @ w) ** 2).sum().backward()
print(halves, w.grad)

# %%
# If you want a *mean*, you have to weight each half by its share of the batch. You can pass
# this share as ``v``, or multiply the loss by it:

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
# With ``create_graph=True``, ``backward`` stores in ``x.grad`` a tensor that has a graph.
# This graph leads back to ``x``, and ``x`` holds ``x.grad``, so there is a cycle. PyTorch
# warns about it, by default once per process:

import warnings

torch.set_warn_always(True)  # every time here, so that the warning is sure to appear
x = torch.tensor(2.0, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (x**4).backward(create_graph=True)
torch.set_warn_always(False)
print(str(caught[-1].message).partition(". ")[0])
x.grad = None

# %%
# *Is the warning serious?* Yes. Python's garbage collector does not see this cycle. The
# tensor, its gradient and the graph between them stay in memory, and if you do this in a
# loop, each iteration adds another such cycle. :func:`torch.autograd.grad` returns its
# result and stores nothing. Here are both ways. The tensor is made in a function, and when
# the function returns, only a weak reference to the tensor is left:

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
# With ``backward``, the tensor is still in memory after its function has returned, and
# after a garbage collection. It is freed when you clear its ``.grad``:

kept, freed = outlives(stored), outlives(returned)
gc.collect()
print("stored:", kept() is not None, " returned:", freed() is not None)
kept().grad = None
print("stored, then emptied:", kept() is not None)

# %%
# As a check, we compare the second derivative with the formula and with ``torch.func.grad``
# applied twice. We compare the gradients from the two halves with the gradient of the whole
# batch:

composed = torch.func.grad(torch.func.grad(lambda x: x**4))(torch.tensor(2.0))
assert composed.item() == second.item() == 12 * 2**2
assert kept() is None
assert torch.equal(halves, torch.func.grad(lambda w: ((data @ w) ** 2).sum())(w.detach()))
assert torch.equal(w.grad, mean)

# %%
# Where next
# ----------
#
# :ref:`gradient-doubled` explains why a gradient doubles between steps, and
# :ref:`retain-or-create` explains the flags ``retain_graph`` and ``create_graph``.
# :ref:`second-derivatives` computes f″ at a batch of points.
#
# .. asked: calling backward twice gives a second derivative?; two backward calls add
#    up; accumulate gradient or second derivative; why is the second backward not the
#    second derivative
# .. words: called twice, added up, acceleration, second order, confuse, sum of the same
