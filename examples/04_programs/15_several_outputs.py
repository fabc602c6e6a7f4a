r"""
.. _several-outputs:

Several outputs and several v at once
=====================================

``torch.autograd.backward([y, z], [v, w])`` pulls all outputs back in one pass and *adds*
the results: each ``v`` has the shape of its own output, and the sum has the shape of the
input.
"""

# %%
# With ``x`` of shape ``(3,)``, ``y`` of shape ``(2,)`` and ``z`` of shape ``(3, 3)``:
#
# .. math::
#
#    \texttt{x.grad}=J_y^\top v+J_z^\top w

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def outputs():
    return torch.stack([x.sum(), (x**2).sum()]), torch.outer(x, x)


y, z = outputs()
v, w = torch.tensor([10.0, 1.0]), torch.eye(3)
torch.autograd.backward([y, z], [v, w])
x.grad

# %%
# Each product alone, and their sum:

y, z = outputs()
(from_y,) = torch.autograd.grad(y, x, v)
(from_z,) = torch.autograd.grad(z, x, w)
print(from_y, from_z)

# %%
# *What does grad_outputs mean, and why is a matrix required?* It has the shape of its
# output, and all of its indices are summed over:
# :math:`\texttt{result}_k=\sum_{ij}w_{ij}\,\partial z_{ij}/\partial x_k`. With ones, every
# entry of :math:`xx^\top` counts once, which gives :math:`2\sum_j x_j=12` everywhere:

z = torch.outer(x, x)
torch.autograd.grad(z, x, torch.ones(3, 3))[0]

# %%
# ``None`` stands for 1 and is allowed where an output has one element:

loss = (x**3).sum()
y, _ = outputs()
grads = torch.autograd.grad([y, loss], x, [v, None])[0]
grads

# %%
# When one output is made from another
# ------------------------------------
#
# *backward([y, z]) when z depends on y: is it well defined?* Yes. Both are functions of
# ``x``, and the sum is taken as always. For :math:`y=x^2` and :math:`z=y^3=x^6` at 1:
# :math:`2x+6x^5=8`.

a = torch.tensor(1.0, requires_grad=True)
y = a**2
z = y**3
torch.autograd.backward([y, z])
a.grad

# %%
# What goes wrong
# ---------------
#
# *One grad call with lists gives identical rows.* Several outputs are summed, never
# stacked, and several inputs give a tuple, one entry for each input:

b = torch.tensor(2.0, requires_grad=True)
a.grad = None
both = torch.autograd.grad([a * b, a + b], [a, b])
both

# %%
# That is :math:`(b+1,\;a+1)`, not four numbers. For the four, ask for rows:

J = torch.func.jacrev(lambda a, b: torch.stack([a * b, a + b]), argnums=(0, 1))
torch.stack(J(a.detach(), b.detach()), dim=1)

# %%
# And *why (g,) = ...?* Because ``grad`` returns a tuple even for one input; without the
# comma ``g`` is the tuple, and arithmetic fails in an odd place:

g = torch.autograd.grad(a * b, a)
print(type(g).__name__, len(g))
try:
    g - 0.1
except TypeError as error:
    print(error)

# %%
# The check: the products by their formulas, and the sum of both:

at = x.detach()
torch.testing.assert_close(from_y, 10 + 2 * at)
torch.testing.assert_close(from_z, 2 * at)
torch.testing.assert_close(x.grad, from_y + from_z)
torch.testing.assert_close(grads, from_y + 3 * at**2)

# %%
# Where next
# ----------
#
# Losses as outputs: :ref:`several-losses`. Rows in place of the sum:
# :ref:`jacobian-row-by-row`. Which leaves are filled: :ref:`grad-is-none`.
