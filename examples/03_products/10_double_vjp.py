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
# and ``v`` itself does not matter: g is linear.

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
# back through it, to ``v``:

u = torch.tensor([1.0, 10.0])
(Ju,) = torch.autograd.grad(g, v, u)
Ju

# %%
# Another ``u`` needs another second product only. The graph of g is kept with
# ``retain_graph=True``:

(g,) = torch.autograd.grad(y, x, v, create_graph=True)
columns = [
    torch.autograd.grad(g, v, e, retain_graph=True)[0] for e in torch.eye(2).unbind()
]
torch.stack(columns, dim=1)

# %%
# With :func:`torch.func.vjp` the trick is one line, and nothing needs ``requires_grad``:


def jvp(f, x, u):
    pull = torch.func.vjp(f, x)[1]
    return torch.func.vjp(lambda v: pull(v)[0], torch.zeros_like(f(x)))[1](u)[0]


jvp(f, x.detach(), u)

# %%
# When you need it: an operation that has a backward and no forward rule. Fused attention
# is one; forward mode refuses, two VJPs through its plain formula would not:

from torch.nn.attention import SDPBackend, sdpa_kernel

q = torch.linspace(-1, 1, 8).reshape(1, 1, 4, 2)


def attention(q):
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


try:
    torch.func.jvp(attention, (q,), (q,))
except NotImplementedError as error:
    print(str(error).splitlines()[0][:95])

# %%
# What goes wrong
# ---------------
#
# The fused backward cannot be differentiated either, so the trick fails there as well;
# the plain backend, ``SDPBackend.MATH``, allows both:

try:
    jvp(attention, q, q)
except RuntimeError as error:
    print(str(error).splitlines()[0])
with sdpa_kernel(SDPBackend.MATH):
    both = jvp(attention, q, q), torch.func.jvp(attention, (q,), (q,))[1]
torch.testing.assert_close(*both)

# %%
# For the small example, forward mode and the formula agree with the trick:

J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(Ju, J @ u)
assert torch.equal(torch.stack(columns, dim=1), J)
assert torch.equal(torch.func.jvp(f, (x.detach(),), (u,))[1], Ju)

# %%
# Where next
# ----------
#
# Forward mode itself: :ref:`what-is-a-jvp`. Many ``u`` at one point: :ref:`linearize`.
