r"""
.. _first-vjp:

Your first vector-Jacobian product in ten lines
===============================================

``y.backward(v)`` computes the :term:`vector-Jacobian product` :math:`v^\top J`: the
:term:`gradients <gradient>` of all the outputs, each weighted by its entry of ``v``,
added up. To choose ``v`` is to choose which :term:`derivative` you get.
"""

# %%
# Take :math:`f(x)=x^2`, one number in and one number out. Its :term:`Jacobian` is the
# :math:`1\times1` matrix :math:`[2x]`. At :math:`x=1`, with ``v`` equal to 1, you get
# the derivative :math:`2x=2`:

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
# on its own point alone. :ref:`ones-trick` prints it and says when you may rely on it.
#
# One number out of a vector
# --------------------------
#
# For :math:`f(x)=3x_1^2+5x_2^2` the Jacobian is one row, :math:`(6x_1,\;10x_2)`, the
# gradient. ``y`` has shape ``()``, so ``v`` would be a single number, and you
# may leave it out; the result has the shape of ``x``:

x = torch.tensor([-1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 5.0])
y = (x * x * w).sum()
y.backward()
print("x", tuple(x.shape), "y", tuple(y.shape), "x.grad", tuple(x.grad.shape))
x.grad

# %%
# A vector out of a vector
# ------------------------
#
# With two outputs, :math:`f(x)=(x_1+x_2,\;x_1x_2)`, the Jacobian has two rows,
# :math:`(1,1)` and :math:`(x_2,x_1)`. ``v`` weighs them: ten times the first plus
# once the second is :math:`10\,(1,1)+(3,2)`:


def f(x):
    return torch.stack([x[0] + x[1], x[0] * x[1]])


x = torch.tensor([2.0, 3.0], requires_grad=True)
v = torch.tensor([10.0, 1.0])
f(x).backward(v)
x.grad

# %%
# *Why does backward take a tensor?* Because two outputs have two gradients, and ``v``
# says how much of each you want. *And why a vector of 2, where I expected a 2×2
# matrix?* ``backward`` never returns :math:`J`, only its rows weighted and added:

import pullback

J = torch.func.jacfwd(f)(x.detach())
print(J)
pullback.draw.vjp(v, J, result_name="x.grad")

# %%
# What goes wrong
# ---------------
#
# ``backward`` returns None: the result is *added* to ``x.grad``
# (:term:`accumulation`). A second product lands on top of the first, so 13 and 12
# double:

print(f(x).backward(v))
x.grad

# %%
# Empty it first:

x.grad = None
f(x).backward(v)
x.grad

# %%
# Or ask :func:`torch.autograd.grad`, which returns the product and leaves ``x.grad`` as
# it is. *Why* ``(g,) =``\ *?* It returns a tuple, one entry for each input:

products = torch.autograd.grad(f(x), x, v)
print(type(products).__name__, len(products))
(product,) = products
print(product)
x.grad

# %%
# The same product without autograd, by :term:`finite differences` in float64: move one
# coordinate a little, and see how much :math:`v\cdot f(x)` changes:

point, h = x.detach().double(), 1e-6
steps = h * torch.eye(2, dtype=torch.float64)
changes = [(f(point + step) - f(point - step)) @ v.double() for step in steps]
slope = torch.stack(changes) / (2 * h)
torch.testing.assert_close(product.double(), slope)
slope.round(decimals=4)

# %%
# Each entry of v weighs a row. Move them, or x:

squares = lambda x: torch.stack([x.sum(), (x**2).sum()])
pullback.live(squares, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 1.0]))

# %%
# Where next
# ----------
#
# What happens when you pass nothing: :ref:`bare-backward`. The shape of ``v``:
# :ref:`shape-rule`. Which ``v`` for which goal: :ref:`which-v`.
#
# .. asked: first vector-Jacobian product; backward on a non-scalar tensor; minimal
#    example of backward with a vector; y.backward(v) example; how to call backward on a
#    vector
