r"""
.. _vjp-and-chain-rule:

The vector-Jacobian product, and the chain rule as a row of them
================================================================

The :term:`Jacobian` of :math:`\ell\circ f` is the row :math:`\nabla\ell` times
:math:`J_f`: the :term:`VJP` of :math:`f` with :math:`v^\top=\nabla\ell`. The
:term:`chain rule` is a row of such products, from the loss back to the input.
"""

# %%
# The product in indices sums over the outputs; the last entry is a derivative by the
# last *input*, :math:`x_n`:
#
# .. math::
#
#    (v^\top J)_j=\sum_{i=1}^m v_i\,\frac{\partial f_i}{\partial x_j},\qquad
#    j=1,\dots,n
#
# Take :math:`f(x)=(x_1x_2,\;x_2x_3)`, from ``(3,)`` to ``(2,)``, and a loss
# :math:`\ell(y)=y_1^2+3y_2`:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[1] * x[2]])


def loss(y):
    return y[0] ** 2 + 3 * y[1]


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
y.detach()

# %%
# By hand at :math:`(1,2,3)`, with gradients as rows, :math:`\nabla\ell=(2y_1,\,3)=(4,3)`
# and
#
# .. math::
#
#    J_f=\begin{bmatrix}x_2&x_1&0\\0&x_3&x_2\end{bmatrix}
#    =\begin{bmatrix}2&1&0\\0&3&2\end{bmatrix},\qquad
#    \nabla\ell\,J_f=(8,\;13,\;6)
#
# In PyTorch neither is a row; ``v`` has ``y``'s shape and the result ``x``'s:

v = torch.func.grad(loss)(y.detach())
y.backward(v)
print(v, x.grad)

# %%
# The same from one graph, with no ``v`` in sight. Backward makes it on the way, as a
# hook on ``y`` shows:

x.grad = None
y = f(x)
y.register_hook(lambda v: print("arrives at y:", v))
loss(y).backward()
x.grad

# %%
# A chain of three
# ----------------
#
# For :math:`\ell\circ f\circ g` the row is :math:`\nabla\ell\,J_f\,J_g`. From the left,
# every step is a row times a matrix:


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
# Why from the left? The product is the same in any order, but the cost is not. With
# :math:`1\times m` times two :math:`m\times m` matrices it is :math:`2m^2` multiplications
# from the left and :math:`m^3+m^2` from the right. Counted for :math:`m=100` (a
# multiplication and an addition make two operations):

from torch.utils.flop_counter import FlopCounterMode

row, first, second = torch.ones(1, 100), torch.ones(100, 100), torch.ones(100, 100)
with FlopCounterMode(display=False) as left:
    (row @ first) @ second
with FlopCounterMode(display=False) as right:
    row @ (first @ second)
print("left:", left.get_total_flops() // 2, " right:", right.get_total_flops() // 2)

# %%
# *Is backward([y, z]) well defined when z depends on y?* Yes: each is an output of its own,
# and :math:`v_y\,dy/dx+v_z\,dz/dx` is added up, for :math:`y=x^2` and :math:`z=y^3=x^6` at
# 1 the sum :math:`2+6`:

s = torch.tensor(1.0, requires_grad=True)
y = s**2
z = y**3
torch.autograd.backward([y, z])
s.grad

# %%
# What goes wrong
# ---------------
#
# *Is a factor m missing in* :math:`v^\top J`? No: the sum over the outputs *is* the
# product. Dividing by :math:`m` gives the gradient of the mean:

(total,) = torch.autograd.grad(f(x), x, torch.ones(2))
(mean,) = torch.autograd.grad(f(x).mean(), x)
print(total, mean)

# %%
# And :math:`v` must be taken at :math:`y=f(x)`. A ``v`` kept from an earlier step is
# silently wrong after ``x`` has moved:

moved = torch.tensor([2.0, 2.0, 3.0], requires_grad=True)
(stale,) = torch.autograd.grad(f(moved), moved, v)
(fresh,) = torch.autograd.grad(loss(f(moved)), moved)
print(stale, fresh)

# %%
# The first product against the sum over :math:`i`, the chain of three against Jacobians
# from :term:`forward mode`, and :func:`pullback.check` on its middle step:

import pullback

J_f, J_g = torch.func.jacfwd(f), torch.func.jacfwd(g)
assert torch.equal(x.grad, v[0] * J_f(x.detach())[0] + v[1] * J_f(x.detach())[1])
h, t = h.detach(), t.detach()
torch.testing.assert_close(v_t, torch.func.jacfwd(loss)(f(h)) @ J_f(h) @ J_g(t))
pullback.check(f, h, v_y).assert_ok()

# %%
# Two steps in one picture, :math:`\ell(f(x))` with :math:`\ell` a sum of squares. The one
# row is the product of both Jacobians:

chained = lambda x: (torch.stack([x[0] * x[1], x[0] + x[1]]) ** 2).sum()
pullback.live(chained, torch.tensor([1.0, 2.0]))

# %%
# Where next
# ----------
#
# The row as an *upstream gradient*: :ref:`upstream`. Why the matrices are never formed:
# :ref:`never-forms-j`.
#
# .. asked: vector-Jacobian product; vjp; chain rule and backprop; product of Jacobians
#    from the left; reverse-mode differentiation
