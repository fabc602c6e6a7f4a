r"""
.. _first-vjp:

Your first vector-Jacobian product in ten lines
===============================================

You have seen ``y.backward(v)`` and want to try it, with numbers that you can check in
your head. The call computes the :term:`vector-Jacobian product` :math:`v^\top J`. This is
the sum of the :term:`gradients <gradient>` of all the outputs, each of them multiplied by
its entry of ``v``. By choosing ``v`` you decide which :term:`derivative` you get.
"""

# %%
# We begin with :math:`f(x)=x^2`, one number in and one number out. Its :term:`Jacobian`
# is the :math:`1\times1` matrix :math:`[2x]`. At :math:`x=1` and with a ``v`` of 1, you
# get the derivative :math:`2x=2`:

import torch

x = torch.tensor(1.0, requires_grad=True)
y = x**2
y.backward(torch.tensor(1.0))
x.grad

# %%
# Many points at once
# -------------------
#
# Now ``x`` holds five points. ``y`` has shape ``(5,)``, and so has ``v``. If you pass a 1
# for each point, you get the derivative :math:`2x` at each of them:

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x**2
y.backward(torch.ones(5))
x.grad

# %%
# The Jacobian of this function is :math:`5\times5`. It is diagonal, because each output
# depends on its own point alone. :ref:`ones-trick` prints such a Jacobian, and says when
# you may rely on its being diagonal.
#
# One number out of a vector
# --------------------------
#
# The Jacobian of :math:`f(x)=3x_1^2+5x_2^2` is one row, :math:`(6x_1,\;10x_2)`, and this
# row is the gradient. ``y`` has shape ``()``, and so ``v`` would be a single number,
# which you may leave out. The result has the shape of ``x``:

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
# With two outputs, :math:`f(x)=(x_1+x_2,\;x_1x_2)`, the Jacobian has two rows. They are
# :math:`(1,1)` and :math:`(x_2,x_1)`, and ``v`` says how much each of them counts. At
# :math:`(2,3)`, ten times the first row plus the second row is :math:`10\,(1,1)+(3,2)`:


def f(x):
    return torch.stack([x[0] + x[1], x[0] * x[1]])


x = torch.tensor([2.0, 3.0], requires_grad=True)
v = torch.tensor([10.0, 1.0])
f(x).backward(v)
x.grad

# %%
# *Why does backward take a tensor?* Because two outputs have two gradients, and ``v`` says
# how much of each you want. *And why do I get a vector with two entries, where I expected a
# 2×2 matrix?* Because ``backward`` never computes :math:`J` itself, only the weighted sum
# of its rows. In the picture, each entry of ``v`` is shown beside the row that it
# multiplies, and the sum is underneath:

import pullback

J = torch.func.jacfwd(f)(x.detach())
print(J)
pullback.draw.vjp(v, J, result_name="x.grad")

# %%
# What goes wrong
# ---------------
#
# ``backward`` returns None, and *adds* its result to ``x.grad`` (:term:`accumulation`). If
# you call it again without clearing ``x.grad``, the second product is added to the first,
# and the entries 13 and 12 double:

print(f(x).backward(v))
x.grad

# %%
# So clear ``x.grad`` before the second call:

x.grad = None
f(x).backward(v)
x.grad

# %%
# Or use :func:`torch.autograd.grad`, which returns the product and leaves ``x.grad`` as it
# is. *Why* ``(g,) =``\ *?* Because ``grad`` returns a tuple with one entry for each input,
# even if there is only one input:

products = torch.autograd.grad(f(x), x, v)
print(type(products).__name__, len(products))
(product,) = products
print(product)
x.grad

# %%
# We can check the product without autograd, by :term:`finite differences` in float64.
# Change one coordinate a little, and see how much :math:`v\cdot f(x)` changes:

point, h = x.detach().double(), 1e-6
steps = h * torch.eye(2, dtype=torch.float64)
changes = [(f(point + step) - f(point - step)) @ v.double() for step in steps]
slope = torch.stack(changes) / (2 * h)
torch.testing.assert_close(product.double(), slope)
slope.round(decimals=4)

# %%
# Here is another function to play with, the sum of three numbers and the sum of their
# squares. Each entry of v multiplies one row of the Jacobian. Change the entries of v or of
# x:

squares = lambda x: torch.stack([x.sum(), (x**2).sum()])
pullback.live(squares, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 1.0]))

# %%
# Where next
# ----------
#
# To see what happens when you pass no ``v`` at all, read :ref:`bare-backward`. For the
# shape that ``v`` must have, read :ref:`shape-rule`. :ref:`which-v` lists the ``v`` to pass
# for each goal.
#
# .. asked: first vector-Jacobian product; backward on a non-scalar tensor; minimal
#    example of backward with a vector; y.backward(v) example; how to call backward on a
#    vector
# .. words: start, minimal, first, hello world, short, small example, x squared
