r"""
.. _first-vjp:

Your first vector-Jacobian product in ten lines
===============================================

``y.backward(v)`` computes the :term:`vector-Jacobian product` :math:`v^\top J`: the
gradients of all the outputs, each weighted by its entry of ``v``, added up.
"""

# %%
# Take :math:`f(x)=x^2`, one number in and one number out. Its Jacobian is the
# :math:`1\times1` matrix :math:`[2x]`. At :math:`x=1`, with ``v`` equal to 1, you get
# the :term:`derivative` :math:`2x=2`:

import torch

x = torch.tensor(1.0, requires_grad=True)
y = x**2
y.backward(torch.tensor(1.0))
x.grad

# %%
# Many points at once
# -------------------
#
# Now ``x`` holds five points. ``y`` has shape ``(5,)`` and so has ``v``. A 1 for each
# point gives the derivative :math:`2x` at each:

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x**2
y.backward(torch.ones(5))
x.grad

# %%
# The Jacobian behind this is :math:`5\times5` and diagonal, since each output depends
# on its own point alone. :ref:`ones-trick` says when you may rely on that.
#
# One number out of a vector
# --------------------------
#
# For :math:`f(x)=\sum_i w_i x_i^2` the Jacobian is the row :math:`2w_ix_i`. ``y`` has
# one element, so you may leave ``v`` out:

x = torch.tensor([-1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 5.0])
y = (x * x * w).sum()
y.backward()
x.grad

# %%
# A vector out of a vector
# ------------------------
#
# With two outputs, :math:`f(x)=(x_1+x_2,\;x_1x_2)`, the Jacobian has two rows,
# :math:`(1,1)` and :math:`(x_2,x_1)`. ``v`` weighs them: ten times the first plus
# once the second is :math:`10\,(1,1)+(3,2)`:

x = torch.tensor([2.0, 3.0], requires_grad=True)
y = torch.stack([x[0] + x[1], x[0] * x[1]])
v = torch.tensor([10.0, 1.0])
y.backward(v)
x.grad

# %%
# A picture of that product, ``v`` standing beside the rows that it weighs:

import pullback.plot

J = torch.tensor([[1.0, 1.0], [3.0, 2.0]])
picture = pullback.plot.vjp(v, J)

# %%
# What goes wrong
# ---------------
#
# ``backward`` returns None: the result is *added* to ``x.grad`` (:term:`accumulation`).
# A second product lands on top of the first, so 13 and 12 double:

y = torch.stack([x[0] + x[1], x[0] * x[1]])
print(y.backward(v))
x.grad

# %%
# Empty it first, or ask :func:`torch.autograd.grad`, which returns the product and
# leaves ``x.grad`` as it is:

y = torch.stack([x[0] + x[1], x[0] * x[1]])
(product,) = torch.autograd.grad(y, x, v)
product

# %%
# The same product from finite differences of :math:`v\cdot f(x)`, in float64:

with torch.no_grad():
    point, h = x.double(), 1e-6
    rows = [point + h * e for e in torch.eye(2)], [point - h * e for e in torch.eye(2)]
    up, down = ([10 * (p[0] + p[1]) + p[0] * p[1] for p in side] for side in rows)
    slope = (torch.stack(up) - torch.stack(down)) / (2 * h)

torch.testing.assert_close(product.double(), slope)
slope.round(decimals=4)

# %%
# Where next
# ----------
#
# What happens when you pass nothing: :ref:`bare-backward`. The shape of ``v``:
# :ref:`shape-rule`. Which ``v`` for which goal: :ref:`which-v`.
