r"""
.. _jvp-from-vjps:

A JVP from two VJPs
===================

You need :math:`Ju`, which says how fast the outputs change when the inputs move along
``u``, but some operation of your function has no rule for :term:`forward mode`. Two
products in :term:`reverse mode` give the same result. The :term:`vector-Jacobian product`
is a function of ``v``. If you differentiate this function with respect to ``v``, with ``u``
as the :term:`cotangent`, you get :math:`Ju`.
"""

# %%
# Why is that so? Let :math:`g(v)=J^\top v`. This function maps a tensor with the shape of
# ``y`` to a tensor with the shape of ``x``, and it is linear in ``v``. So its
# :term:`Jacobian` is :math:`J^\top`, whatever ``v`` is. A :term:`VJP` of g multiplies by
# the transpose of this matrix:
#
# .. math::
#
#    (J^\top)^\top u = J u .
#
# We try this on a function from two numbers to three:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[1], x[1] ** 2])


x = torch.tensor([2.0, 3.0], requires_grad=True)
y = f(x)

# %%
# We compute the first product with ``create_graph=True``, so that it has its own graph, and
# with a ``v`` that is a leaf. It does not matter which numbers ``v`` holds. We take zeros:

v = torch.zeros(3, requires_grad=True)
(g,) = torch.autograd.grad(y, x, v, create_graph=True)
g

# %%
# The result is zero because ``v`` is zero, and we need only its graph. The second product
# pulls ``u`` back through this graph, to ``v`` and not to ``x``:

u = torch.tensor([1.0, 10.0])
(Ju,) = torch.autograd.grad(g, v, u)
Ju

# %%
# For another ``u`` you need only repeat the second product, provided that
# ``retain_graph=True`` has kept the graph of g. With the two one-hot ``u`` we get the
# columns of J. This time ``v`` holds other numbers, to show that they do not matter:

v = torch.tensor([5.0, -1.0, 2.0], requires_grad=True)
(g,) = torch.autograd.grad(f(x), x, v, create_graph=True)
columns = [
    torch.autograd.grad(g, v, e, retain_graph=True)[0] for e in torch.eye(2).unbind()
]
torch.stack(columns, dim=1)

# %%
# With :func:`torch.func.vjp` the trick takes two lines, and no tensor needs
# ``requires_grad``:


def jvp(f, x, u):
    y, pull = torch.func.vjp(f, x)
    return torch.func.vjp(lambda v: pull(v)[0], torch.zeros_like(y))[1](u)[0]


jvp(f, x.detach(), u)

# %%
# What does it cost? The trick runs a forward pass, a backward pass that is recorded, and a
# backward pass through that one, and it keeps the tensors that these need. Forward mode
# needs one pass and keeps nothing, as long as no tensor in ``f``, such as a weight,
# requires a gradient. ``torch.autograd.functional.jvp`` is this trick, and
# ``torch.func.jvp`` is forward mode:


def kept(run):
    tensors = []
    keep = lambda t: tensors.append(t) or t
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        run()
    return len(tensors)


at = x.detach()
by_trick = kept(lambda: torch.autograd.functional.jvp(f, at, u))
by_forward_mode = kept(lambda: torch.func.jvp(f, (at,), (u,)))
print("tensors kept by the trick:", by_trick, " by forward mode:", by_forward_mode)

# %%
# When you need the trick
# -----------------------
#
# Forward mode raises the error *"You must implement the jvp function for custom
# autograd.Function"* for a Function that has a ``backward`` but no forward rule. If that
# ``backward`` is made of ordinary operations, as in the Function below, the trick works:


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, v):
        return 3 * ctx.saved_tensors[0] ** 2 * v


# %%
# At :math:`(2, 3)` the entries of the product are :math:`3\cdot2^2\cdot1` and
# :math:`3\cdot3^2\cdot10`:

try:
    torch.func.jvp(Cube.apply, (x.detach(),), (u,))
except NotImplementedError as error:
    print(error)
cubed = jvp(Cube.apply, x.detach(), u)
cubed

# %%
# What goes wrong
# ---------------
#
# The trick differentiates a backward pass, so every backward rule in that pass must be
# differentiable. The backward rule of fused attention is not differentiable, and on the CPU
# fused attention has no forward rule either. So both the trick and forward mode fail:

from torch.nn.attention import SDPBackend, sdpa_kernel

q = torch.linspace(-1, 1, 8).reshape(1, 1, 4, 2)


def attention(q):
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


for way in (jvp, lambda f, x, u: torch.func.jvp(f, (x,), (u,))):
    try:
        way(attention, q, q)
    except RuntimeError as error:  # NotImplementedError is one
        print(str(error).splitlines()[0][:95])

# %%
# The plain backend, ``SDPBackend.MATH``, allows both ways. The price is memory: this
# backend forms the matrix of attention weights, which the fused backend never does:

with sdpa_kernel(SDPBackend.MATH):
    both = jvp(attention, q, q), torch.func.jvp(attention, (q,), (q,))[1]
torch.testing.assert_close(*both)

# %%
# A part of f that runs under ``torch.no_grad()`` is a constant for the trick, but not for
# forward mode. If you want a part to be constant in both, use ``detach()``, as
# :ref:`jacobian-times-vector` shows.
#
# As a check, we compare the results of the trick with formulas, and with forward mode where
# the operations have a rule for it:

J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(Ju, J @ u)
assert torch.equal(torch.stack(columns, dim=1), J)
assert torch.equal(torch.func.jvp(f, (x.detach(),), (u,))[1], Ju)
assert torch.equal(cubed, 3 * x.detach() ** 2 * u)
assert by_forward_mode == 0
assert by_trick > 0

# %%
# Where next
# ----------
#
# :ref:`what-is-a-jvp` explains forward mode itself. :ref:`linearize` is about many ``u`` at
# one point, and :ref:`custom-function` is about Functions that you write yourself.
#
# .. asked: double backward trick; jvp from two backward passes; forward mode not
#    supported; Jv with reverse mode only; double vjp; JVP by calling backward twice;
#    I simulate jvp by the vjp of a vjp, is this OK and what does it cost compared with
#    true forward mode; the vjp as a function of v is linear with Jacobian J^T
# .. words: no forward rule, workaround, dummy vector, trick with zeros, reverse only, old
#    version
