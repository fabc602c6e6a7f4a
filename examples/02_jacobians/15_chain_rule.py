r"""
.. _vjp-and-chain-rule:

The vector-Jacobian product, and the chain rule as a row of them
================================================================

The Jacobian of :math:`\ell\circ f` is the row :math:`\nabla\ell` times :math:`J_f`, which
is the :term:`VJP` of :math:`f` with :math:`v=\nabla\ell`. Longer chains repeat the step.
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
y

# %%
# By hand at :math:`(1,2,3)`: :math:`\nabla\ell=(2y_1,\,3)=(4,3)` and
#
# .. math::
#
#    J_f=\begin{bmatrix}x_2&x_1&0\\0&x_3&x_2\end{bmatrix}
#    =\begin{bmatrix}2&1&0\\0&3&2\end{bmatrix},\qquad
#    \nabla\ell\,J_f=(8,\;13,\;6)

v = torch.func.grad(loss)(y.detach())
print(v)
y.backward(v)
x.grad

# %%
# The same from one graph, with no ``v`` in sight. Backward made it on the way:

x.grad = None
loss(f(x)).backward()
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
(v_h,) = torch.autograd.grad(loss(f(h)), h, retain_graph=True)
(v_t,) = torch.autograd.grad(h, t, v_h)
print(v_h, v_t)

# %%
# Why from the left? The products are the same in any order, but the cost is not. With
# :math:`\nabla\ell` of size :math:`1\times m` and square Jacobians,
# :math:`(\nabla\ell\,J_f)J_g`
# takes :math:`2m^2` multiplications and :math:`\nabla\ell\,(J_fJ_g)` takes :math:`m^3+m^2`:

m = 100
print("from the left:", 2 * m**2, " from the right:", m**3 + m**2)

# %%
# What goes wrong
# ---------------
#
# :math:`v^\top J` has no factor :math:`m`, although :math:`m` terms are added: the sum over
# outputs *is* the product. Dividing by :math:`m` gives the gradient of the mean:

(total,) = torch.autograd.grad(f(x), x, torch.ones(2))
(mean,) = torch.autograd.grad(f(x).mean(), x)
print(total, mean)

# %%
# And :math:`v` must be taken at :math:`y=f(x)`, not at ``x`` or at another ``y``: a ``v``
# kept from an earlier step is silently wrong after ``x`` has moved:

moved = torch.tensor([2.0, 2.0, 3.0], requires_grad=True)
(stale,) = torch.autograd.grad(f(moved), moved, v)
(fresh,) = torch.autograd.grad(loss(f(moved)), moved)
print(stale, fresh)

# %%
# The three-step row against the product of three Jacobians from forward mode, and
# :func:`pullback.check` on the middle one:

import pullback

J_f = torch.func.jacfwd(f)(h.detach())
J_g = torch.func.jacfwd(g)(t.detach())
row = torch.func.jacfwd(loss)(f(h.detach()))
torch.testing.assert_close(v_t, row @ J_f @ J_g)
pullback.check(f, h.detach(), row).assert_ok()
row @ J_f @ J_g

# %%
# Where next
# ----------
#
# The row as an *upstream gradient*: :ref:`upstream`. Why the matrices are never formed:
# :ref:`never-forms-j`.
