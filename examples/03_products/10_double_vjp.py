r"""
.. _jvp-from-vjps:

A JVP from two VJPs
===================

Where an operation has no :term:`forward mode`, differentiate the :term:`vector-Jacobian
product` with respect to ``v``: it is linear in ``v``, and its own :term:`Jacobian`,
applied to ``u``, is :math:`Ju`.
"""

# %%
# Call :math:`g(v)=J^\top v`, a map from ``y``'s shape to ``x``'s shape. Its Jacobian is
# :math:`J^\top`, so a :term:`VJP` of g with the :term:`cotangent` ``u``, of x's shape, is
#
# .. math::
#
#    (J^\top)^\top u = J u ,
#
# and ``v`` itself does not matter: g is linear, so its Jacobian is the same everywhere.

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[1], x[1] ** 2])


x = torch.tensor([2.0, 3.0], requires_grad=True)
y = f(x)

# %%
# The first product keeps its own graph (``create_graph=True``), with ``v`` as a leaf:

v = torch.zeros(3, requires_grad=True)
(g,) = torch.autograd.grad(y, x, v, create_graph=True)
g

# %%
# It is zero, since ``v`` is; its graph is what counts. The second product pulls ``u``
# back through it, to ``v``, not to ``x``:

u = torch.tensor([1.0, 10.0])
(Ju,) = torch.autograd.grad(g, v, u)
Ju

# %%
# Another ``u`` needs another second product only. ``retain_graph=True`` keeps the graph of
# g; here ``v`` holds other numbers, and the columns of J are the same:

v = torch.tensor([5.0, -1.0, 2.0], requires_grad=True)
(g,) = torch.autograd.grad(f(x), x, v, create_graph=True)
columns = [
    torch.autograd.grad(g, v, e, retain_graph=True)[0] for e in torch.eye(2).unbind()
]
torch.stack(columns, dim=1)

# %%
# With :func:`torch.func.vjp` the trick is two lines, and nothing needs ``requires_grad``:


def jvp(f, x, u):
    y, pull = torch.func.vjp(f, x)
    return torch.func.vjp(lambda v: pull(v)[0], torch.zeros_like(y))[1](u)[0]


jvp(f, x.detach(), u)

# %%
# When you need it
# ----------------
#
# *"You must implement the jvp function for custom autograd.Function"*: a function with a
# backward and no forward rule. Forward mode refuses it; its backward is made of ordinary
# operations, so the trick passes:


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
# At :math:`(2, 3)` the products are :math:`3\cdot2^2\cdot1` and :math:`3\cdot3^2\cdot10`:

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
# The trick differentiates a backward. Fused attention has a backward that cannot be
# differentiated, and no forward rule either, so both ways fail:

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
# The plain backend, ``SDPBackend.MATH``, allows both, at the price of the matrix of
# attention weights that the fused one never forms:

with sdpa_kernel(SDPBackend.MATH):
    both = jvp(attention, q, q), torch.func.jvp(attention, (q,), (q,))[1]
torch.testing.assert_close(*both)

# %%
# Forward mode and the formulas agree with the trick:

J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(Ju, J @ u)
assert torch.equal(torch.stack(columns, dim=1), J)
assert torch.equal(torch.func.jvp(f, (x.detach(),), (u,))[1], Ju)
assert torch.equal(cubed, 3 * x.detach() ** 2 * u)

# %%
# Where next
# ----------
#
# Forward mode itself: :ref:`what-is-a-jvp`. Many ``u`` at one point: :ref:`linearize`.
# A forward rule for a function of your own: :ref:`custom-function`.
#
# .. asked: double backward trick; jvp from two backward passes; forward mode not
#    supported; Jv with reverse mode only; double vjp
