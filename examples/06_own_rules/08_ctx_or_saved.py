r"""
.. _ctx-or-saved:

ctx.x = x or ctx.save_for_backward(x)?
======================================

In some examples ``forward`` keeps a tensor with ``ctx.x = x``, and in others with
``ctx.save_for_backward(x)``. Both seem to work. Use ``save_for_backward`` for tensors that
are inputs or outputs. PyTorch then notices if such a tensor is edited in place, no
reference cycle arises, and saved-tensor hooks and activation checkpointing can handle the
tensor. Keep a value that is not a tensor, for example a number, a shape or a flag, as an
attribute of ``ctx``.
"""

# %%
# To compare the two ways, we write :math:`y=e^x` as two Functions, for an ``x`` of shape
# ``(3,)``. The :term:`VJP` is :math:`y\odot v`, and so each Function has to keep its
# output. The first Function keeps the output as an attribute:

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
# The second Function uses ``save_for_backward``. Both Functions give the same product:


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
# *Memory grows with every step.* If you keep an output as an attribute of ``ctx``, the
# output holds a reference to its node in the graph, and the node holds a reference to the
# output. Only Python's garbage collector can free such a cycle, and the collector does not
# know how much memory the cycle occupies. We switch the collector off, delete the only
# variable that refers to the output, and print whether the output still exists:

gc.disable()
for rule in (Attribute, Saved):
    y = rule.apply(x)
    seen = weakref.ref(y)
    del y
    print(rule.__name__, seen() is not None)
gc.enable()

# %%
# *A wrong gradient, and no error.* Now we overwrite the output after the forward pass and
# before the backward pass. If the output was kept as an attribute, you silently get the
# product with the new numbers. If it was kept by ``save_for_backward``, PyTorch raises an
# error:

for rule in (Attribute, Saved):
    y = rule.apply(x)
    with torch.no_grad():
        y.zero_()
    try:
        print(rule.__name__, torch.autograd.grad(y, x, v)[0])
    except RuntimeError as error:
        print(rule.__name__, str(error).partition(": [")[0])

# %%
# *Offloading saves nothing.* The hooks that ``save_on_cpu`` and checkpoints use are called
# with each :term:`saved tensor`, but not with a tensor that is an attribute of ``ctx``. For
# each Function, the number below says how many tensors such a hook was called with:

for rule in (Attribute, Saved):
    passed = []
    with saved_tensors_hooks(lambda t, passed=passed: passed.append(1) or t, lambda t: t):
        rule.apply(x)
    print(rule.__name__, len(passed))

# %%
# *Trying to backward through the graph a second time.* You get this message with
# ``save_for_backward`` if you call ``backward`` twice, because the saved tensor is freed
# after the first call. An attribute is not freed, and so the second call also runs:

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
# ``save_for_backward`` takes tensors and None. Keep a number, a shape or a flag as an
# attribute. The tensors of a list have to be passed as separate arguments, which is what
# the star in the code below does:


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
# With ones for ``v``, the gradient with respect to each part is k times the product of the
# other parts. We compute this product by division, and so the gradient has a NaN wherever a
# part is 0.

parts = [torch.tensor([float(i), 2.0], requires_grad=True) for i in (1, 3, 5)]
products = torch.autograd.grad(Scaled.apply(2, *parts), parts, torch.ones(2))
products

# %%
# *Where do I keep a tensor that I computed on the way?* Such a tensor is neither an input
# nor an output. An attribute and ``save_for_backward`` both keep its numbers, and so the
# first derivative is right. But for the second derivative PyTorch treats the tensor as a
# constant, wherever you keep it.
#
# If ``backward`` also uses ``x``, as in the Function below, the second derivative is wrong
# without a warning. To get it right, compute the tensor again in ``backward``, or return it
# as an output (see :ref:`twice-differentiable`). Our Function computes :math:`e^{2x}`,
# whose second derivative is :math:`4e^{2x}`. With ``again=True``, its ``backward`` computes
# the exponential again:


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
# We divide the second derivative by :math:`e^{2x}`. The quotient should be 4. If
# ``backward`` does not compute the exponential again, the quotient is 2:

second = {}
for again in (False, True):
    (g,) = torch.autograd.grad(Halfway.apply(x, again).sum(), x, create_graph=True)
    second[again] = torch.autograd.grad(g.sum(), x)[0] / (2 * x).exp().detach()
    print(again, second[again].round(decimals=4))

# %%
# If ``backward`` uses such a tensor but not ``x`` itself, the gradient that ``backward``
# returns has no path to ``x``, unless ``v`` has one. Without such a path you get an error
# when you ask for the second derivative with respect to ``x``:


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
# As a check, we compare all results with formulas or with torch's own rules for the same
# functions:

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
# :ref:`custom-function` shows the whole form of a Function. :ref:`what-keeps-a-graph` lists
# what else can keep a graph alive. :ref:`checkpointing` is about saved tensors that are
# kept elsewhere.
#
# .. asked: save_for_backward; ctx.x; store tensors for backward; memory leak in a
#    custom Function; ctx attributes
# .. words: leak, attribute, store, save, intermediate, memory, cycle, needed later, non-
#    tensor
