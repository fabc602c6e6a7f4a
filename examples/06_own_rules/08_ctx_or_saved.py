r"""
.. _ctx-or-saved:

ctx.x = x or ctx.save_for_backward(x)?
======================================

Inputs and outputs that are tensors: ``save_for_backward``. It notices an edit in place,
makes no ring of references, and lets hooks and checkpoints have the tensor. What is no
tensor, a number, a shape, a flag, is an attribute of ``ctx``.
"""

# %%
# Two Functions of :math:`y=e^x`, for x of shape ``(3,)``, whose :term:`VJP` is
# :math:`y\odot v`. Both keep the output for it:

import gc
import weakref

import torch
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks


class Attribute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    backward = staticmethod(lambda ctx, v: v * ctx.y)


# %%
# And with ``save_for_backward``:


class Saved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(y := x.exp())
        return y

    backward = staticmethod(lambda ctx, v: v * ctx.saved_tensors[0])


x = torch.tensor([0.0, 1, 2], dtype=torch.float64, requires_grad=True)
v = torch.tensor([1.0, 10, 100], dtype=torch.float64)
for rule in (Attribute, Saved):
    print(torch.autograd.grad(rule.apply(x), x, v)[0])

# %%
# What goes wrong
# ---------------
#
# *Memory grows with every step.* An output kept as an attribute holds its node, and the
# node holds the output: a ring, which only Python's collector frees, and it does not know
# how much memory is waiting. Is the output still there after its last name has gone?

gc.disable()
for rule in (Attribute, Saved):
    y = rule.apply(x)
    seen = weakref.ref(y)
    del y
    print(rule.__name__, seen() is not None)
gc.enable()

# %%
# *A wrong gradient, and no error.* Between the passes the output is overwritten. You get
# the product with the new numbers, or a refusal:

for rule in (Attribute, Saved):
    y = rule.apply(x)
    with torch.no_grad():
        y.zero_()
    try:
        print(rule.__name__, torch.autograd.grad(y, x, v)[0])
    except RuntimeError as error:
        print(rule.__name__, str(error).partition(": [")[0])

# %%
# *Offloading saves nothing.* Hooks on each :term:`saved tensor`, ``save_on_cpu`` among
# them, and checkpoints see what was saved, not what hangs on ``ctx``. How many tensors pass
# through:

for rule in (Attribute, Saved):
    passed = []
    with saved_tensors_hooks(lambda t, passed=passed: passed.append(1) or t, lambda t: t):
        rule.apply(x)
    print(rule.__name__, len(passed))

# %%
# *Trying to backward through the graph a second time*: only what was saved is freed:

for rule in (Attribute, Saved):
    y = rule.apply(x)
    y.backward(v)
    try:
        y.backward(v)
        print(rule.__name__, "ran twice")
    except RuntimeError as error:
        print(rule.__name__, str(error).partition(" (")[0])

# %%
# What is not a tensor, and what is neither input nor output
# ----------------------------------------------------------
#
# ``save_for_backward`` takes tensors and None. A number, a shape, a flag, is an attribute.
# A list of tensors is not one argument but several, which is what the star is for:


class Scaled(Function):
    @staticmethod
    def forward(ctx, k, *parts):
        ctx.save_for_backward(*parts)
        ctx.k = k
        return k * torch.stack(parts).prod(0)

    @staticmethod
    def backward(ctx, v):
        whole = torch.stack(ctx.saved_tensors).prod(0)
        return None, *(ctx.k * v * whole / part for part in ctx.saved_tensors)


# %%
# Each gradient is k times the product of the others (by division, so NaN where one is 0):

parts = [torch.tensor([float(i), 2.0], requires_grad=True) for i in (1, 3, 5)]
products = torch.autograd.grad(Scaled.apply(2, *parts), parts, torch.ones(2))
products

# %%
# *A tensor that I computed on the way?* Either place keeps its numbers, and the first
# derivative is right. To a second one it is a constant, from either place. If ``backward``
# uses ``x`` besides, as here, the second derivative is wrong without a word; if it uses
# nothing but the tensor from the way, the result has no path to ``x``, and the second
# derivative by ``x`` raises. Compute it again in ``backward``, or return it as an output of
# its own (:ref:`twice-differentiable`). Here for :math:`\sum e^{2x}`, whose second
# derivative is :math:`4e^{2x}`:


class Halfway(Function):
    @staticmethod
    def forward(ctx, x, again):
        ctx.save_for_backward(x, x.exp())
        ctx.again = again
        return x.exp() ** 2

    @staticmethod
    def backward(ctx, v):
        x, e = ctx.saved_tensors
        return 2 * v * (x.exp() if ctx.again else e) * x.exp(), None


# %%
# Divided by :math:`e^{2x}`:

second = {}
for again in (False, True):
    (g,) = torch.autograd.grad(Halfway.apply(x, again).sum(), x, create_graph=True)
    second[again] = torch.autograd.grad(g.sum(), x)[0] / (2 * x).exp().detach()
    print(again, second[again].round(decimals=4))

# %%
# And with a rule that uses the tensor from the way alone:


class Alone(Halfway):
    @staticmethod
    def backward(ctx, v):
        _, e = ctx.saved_tensors
        return 2 * v * e * e, None


refused = ""
(g,) = torch.autograd.grad(Alone.apply(x, False).sum(), x, create_graph=True)
try:
    torch.autograd.grad(g.sum(), x)
except RuntimeError as error:
    refused = str(error)
print(g.grad_fn, refused, sep="\n")

# %%
# The check: torch's own rules for the same functions:

(ours,) = torch.autograd.grad(Saved.apply(x), x, v)
torch.testing.assert_close(ours, v * x.detach().exp())
own = torch.autograd.grad(2 * torch.stack(parts).prod(0), parts, torch.ones(2))
torch.testing.assert_close(products, own)
assert [second[again].round(decimals=9).unique().item() for again in second] == [2, 4]
torch.testing.assert_close(g.detach(), 2 * (2 * x.detach()).exp())
assert refused

# %%
# Where next
# ----------
#
# The whole form of a Function: :ref:`custom-function`. What else keeps a graph alive:
# :ref:`what-keeps-a-graph`. Saved tensors elsewhere: :ref:`checkpointing`.
#
# .. asked: save_for_backward; ctx.x; store tensors for backward; memory leak in a
#    custom Function; ctx attributes
#
# .. words: leak, attribute, store, save, intermediate, memory, cycle, needed later, non-
#    tensor
