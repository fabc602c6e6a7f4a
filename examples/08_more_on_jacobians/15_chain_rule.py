r"""
.. _vjp-and-chain-rule:

The vector-Jacobian product, and the chain rule as a series of them
===================================================================

You know the chain rule as "multiply the derivatives". What is multiplied, and in which
order, if there are many inputs and outputs? If a loss :math:`\ell` is applied to
:math:`f`, the :term:`Jacobian` of :math:`\ell\circ f` is the row :math:`\nabla\ell` times
:math:`J_f`. This is the :term:`VJP` of :math:`f` with :math:`v^\top=\nabla\ell`. For a
longer chain, the :term:`chain rule` is a sequence of such products, from the loss back to
the input.
"""

# %%
# In indices, the product is a sum over the outputs. There is one entry for each *input*,
# and so the last entry is a derivative with respect to :math:`x_n`:
#
# .. math::
#
#    (v^\top J)_j=\sum_{i=1}^m v_i\,\frac{\partial f_i}{\partial x_j},\qquad
#    j=1,\dots,n
#
# As an example, take :math:`f(x)=(x_1x_2,\;x_2x_3)`, from shape ``(3,)`` to shape
# ``(2,)``, and the loss :math:`\ell(y)=y_1^2+3y_2`:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[1] * x[2]])


def loss(y):
    return y[0] ** 2 + 3 * y[1]


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
y.detach()

# %%
# We first compute the product by hand at :math:`(1,2,3)`. With gradients written as rows,
# :math:`\nabla\ell=(2y_1,\,3)=(4,3)`, and
#
# .. math::
#
#    J_f=\begin{bmatrix}x_2&x_1&0\\0&x_3&x_2\end{bmatrix}
#    =\begin{bmatrix}2&1&0\\0&3&2\end{bmatrix},\qquad
#    \nabla\ell\,J_f=(8,\;13,\;6)
#
# PyTorch does not distinguish row vectors from column vectors. ``v`` has the shape of
# ``y``, and the result has the shape of ``x``:

v = torch.func.grad(loss)(y.detach())
y.backward(v)
print(v, x.grad)

# %%
# If you call ``backward`` on the loss, you get the same result from one graph, without
# passing a ``v``. The backward pass computes this ``v`` on its way, as a hook on ``y``
# shows:

x.grad = None
y = f(x)
y.register_hook(lambda v: print("arrives at y:", v))
loss(y).backward()
x.grad

# %%
# A chain of three
# ----------------
#
# If a function :math:`g` comes first, the Jacobian of the whole chain is the row
# :math:`\nabla\ell\,J_f\,J_g`. We compute this product from the left, so that every step is
# a row times a matrix. Each of the three lines with ``autograd.grad`` is one of these
# steps, and its result is the row after that step:


def g(t):
    return torch.stack([t[0] + t[1], t[0] * t[1], t[1] ** 2])


t = torch.tensor([1.0, 2.0], requires_grad=True)
h = g(t)
y = f(h)
(v_y,) = torch.autograd.grad(loss(y), y)
(v_h,) = torch.autograd.grad(y, h, v_y)
(v_t,) = torch.autograd.grad(h, t, v_h)
print(v_y, v_h, v_t)

# %%
# Why from the left? The result is the same whichever factors you multiply first, but the
# cost is not. The product of a :math:`1\times m` row and two :math:`m\times m` matrices
# takes :math:`2m^2` multiplications from the left, and :math:`m^3+m^2` from the right. We
# count the multiplications for :math:`m=100`. The counter counts a multiplication and an
# addition as two operations, and so we divide by 2:

from torch.utils.flop_counter import FlopCounterMode

row, first, second = torch.ones(1, 100), torch.ones(100, 100), torch.ones(100, 100)
with FlopCounterMode(display=False) as left:
    (row @ first) @ second
with FlopCounterMode(display=False) as right:
    row @ (first @ second)
print("left:", left.get_total_flops() // 2, " right:", right.get_total_flops() // 2)

# %%
# *Is backward([y, z]) well defined when z depends on y?* Yes. Both y and z are outputs with
# their own derivatives, and ``backward`` adds up the two products:
# :math:`v_y\,dy/dx+v_z\,dz/dx`. For :math:`y=x^2` and :math:`z=y^3=x^6` at :math:`x=1`,
# with :math:`v_y=v_z=1`, the sum is :math:`2+6`:

s = torch.tensor(1.0, requires_grad=True)
y = s**2
z = y**3
torch.autograd.backward([y, z])
s.grad

# %%
# What goes wrong
# ---------------
#
# *Is a factor m missing in* :math:`v^\top J`? No, because the sum over the outputs *is* the
# product. If you divide by :math:`m`, which is 2 in our example, you get the gradient of
# the mean, which answers another question:

(total,) = torch.autograd.grad(f(x), x, torch.ones(2))
(mean,) = torch.autograd.grad(f(x).mean(), x)
print(total, mean)

# %%
# But there is a real trap: :math:`v` has to be computed at :math:`y=f(x)`. If you keep a
# ``v`` from an earlier step and use it after ``x`` has moved, the result is wrong, and
# nothing warns you:

moved = torch.tensor([2.0, 2.0, 3.0], requires_grad=True)
(stale,) = torch.autograd.grad(f(moved), moved, v)
(fresh,) = torch.autograd.grad(loss(f(moved)), moved)
print(stale, fresh)

# %%
# .. _chain-rule-at-a-kink:
#
# At a kink
# ---------
#
# You can rely on the chain rule where no step of the chain has a kink. Here is a chain of
# two steps with a kink at 0. The first step maps ``x`` to ``relu(x)`` and ``relu(-x)``,
# and the second takes the difference of the two. This difference is ``x`` again, so the
# chain has a slope of 1 everywhere. At 0 both parts of the first step have a kink, and
# PyTorch takes 0 for the slope of each. So the Jacobian of the first step is zero there,
# and the product is 0 instead of 1. We print the product at −1, 0 and 1:


def halves(x):
    return torch.stack([x.relu(), (-x).relu()])


def joined(halves):
    return halves[0] - halves[1]


slopes = {}
for at in (-1.0, 0.0, 1.0):
    x_at = torch.tensor(at)
    tables = torch.func.jacrev(joined)(halves(x_at)), torch.func.jacrev(halves)(x_at)
    slopes[at] = (tables[0] @ tables[1]).item()
slopes

# %%
# As a check, we compare the first product with the sum over :math:`i`, and the chain of
# three with the product of its Jacobians from :term:`forward mode`.
# :func:`pullback.check` examines the middle step of the chain:

import pullback

assert slopes == {-1.0: 1, 0.0: 0, 1.0: 1}
assert all(joined(halves(torch.tensor(at))) == at for at in slopes)
J_f, J_g = torch.func.jacfwd(f), torch.func.jacfwd(g)
assert torch.equal(x.grad, v[0] * J_f(x.detach())[0] + v[1] * J_f(x.detach())[1])
h, t = h.detach(), t.detach()
torch.testing.assert_close(v_t, torch.func.jacfwd(loss)(f(h)) @ J_f(h) @ J_g(t))
pullback.check(f, h, v_y).assert_ok()

# %%
# Here are two steps in one picture. The function is :math:`\ell(f(x))`, where :math:`\ell`
# is a sum of squares, and the one row that you see is the product of the two Jacobians:

chained = lambda x: (torch.stack([x[0] * x[1], x[0] + x[1]]) ** 2).sum()
pullback.live(chained, torch.tensor([1.0, 2.0]), graph=True)

# %%
# Where next
# ----------
#
# :ref:`upstream` shows how to pass the row on as an *upstream gradient* where a graph is
# cut in two, and :ref:`never-forms-j` explains why the matrices are never formed.
#
# .. asked: vector-Jacobian product; vjp; chain rule and backprop; product of Jacobians
#    from the left; reverse-mode differentiation
# .. words: left product, row times matrix, order, reverse, layers, vjp, link by link
