r"""
.. _ones-trick:

One point, many points: the ones trick, and why it works
========================================================

You have a function of one number, and want its derivative at a thousand points. Do you need
a thousand calls? If each output depends on its own point alone, one call is enough. Pass
``torch.ones_like(y)`` as ``v``, and you get the :term:`derivative` or :term:`gradient` at
each point.
"""

# %%
# We begin with one point. The derivative of :math:`f(x)=x^2` at 1 is 2:

import torch

x = torch.tensor(1.0, requires_grad=True)
(x**2).backward()
x.grad

# %%
# Now we take five points. ``x`` and ``y`` have shape ``(5,)``, and so has the ``v`` of
# ones. You get :math:`2x` at each of them:

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y.backward(torch.ones_like(y))
x.grad

# %%
# The points may be arranged in any shape. Here are six points in a tensor of shape ``(2,
# 3)``. We square them again, and each point gets its own derivative :math:`2a`:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
(a * a).backward(torch.ones(2, 3))
a.grad

# %%
# Points with several coordinates
# -------------------------------
#
# Three points of :math:`\mathbb R^2` form an ``x`` of shape ``(3, 2)``. If the function
# gives one number for each point, ``y`` and ``v`` have shape ``(3,)``. So ``v`` has one
# entry for each *point*, and not one for each coordinate. For :math:`f(x)=-x_1^2+x_2^2`,
# each row of the result is :math:`(-2x_1,\,2x_2)`:


def f(x):
    return -(x[..., 0] ** 2) + x[..., 1] ** 2


x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
f(x).backward(torch.ones(3))
x.grad

# %%
# A linear function has the same gradient everywhere. With :math:`w=(-1,1)`, three points
# give three equal rows:

points = x.detach().requires_grad_()
w = torch.tensor([-1.0, 1.0])
(points * w).sum(1).backward(torch.ones(3))
points.grad

# %%
# Why the ones trick works
# ------------------------
#
# Collect all points into one function :math:`F(x_1,\dots,x_N)=(f(x_1),\dots,f(x_N))`.
# Output :math:`i` depends on :math:`x_i` alone, and so the :term:`Jacobian` of :math:`F` is
# diagonal. The product with ones adds up each column, and each column has only one entry
# that is not zero:
#
# .. math::
#
#    \begin{bmatrix}1&\cdots&1\end{bmatrix}
#    \begin{bmatrix}f'(x_1)&&0\\&\ddots&\\0&&f'(x_N)\end{bmatrix}
#    =\begin{bmatrix}f'(x_1)&\cdots&f'(x_N)\end{bmatrix}
#
# Here is this product for the five points, with the ones of ``v`` beside the rows:

import pullback

J = torch.func.jacfwd(torch.square)(torch.linspace(-2, 2, 5)) + 0.0  # no -0
pullback.draw.vjp(torch.ones(5), J)

# %%
# *Does PyTorch know which dimension is the batch?* No. If the points have coordinates,
# :math:`J_F` has shape ``(3, 3, 2)``: it holds the derivative of every output with respect
# to every coordinate of every point. For our f this Jacobian is *block* diagonal, which
# means that the gradient of output ``i`` is at ``J[i, i]``, and everything else is zero:

J = torch.func.jacfwd(f)(x.detach()) + 0.0
print(J.shape)
J

# %%
# What goes wrong
# ---------------
#
# If an output depends on other points as well, a ``v`` of ones *adds up* the derivatives
# that you wanted to keep apart. In :math:`y_i=x_i/\sum_j x_j` every output depends on every
# input. Here a ``v`` of ones gives zero, although the derivatives :math:`\partial
# y_i/\partial x_i` are not zero:

t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(t / t.sum()).backward(torch.ones(3))
own = torch.func.jacfwd(lambda t: t / t.sum())(t.detach()).diagonal()
print("ones:", t.grad.round(decimals=3) + 0.0)
print("own: ", own.round(decimals=3))

# %%
# The first line of the output, from the ones, is all zeros. This is not what you wanted,
# and PyTorch did not warn you. So before you rely on the trick, you can ask
# :func:`pullback.mixing` whether your function mixes the points:

print(pullback.mixing(f, x.detach()).mixes)
print(pullback.mixing(lambda t: t / t.sum(), t.detach()).mixes)

# %%
# *My function mixes, and yet ones are right.* This can happen. It is enough that each
# *column* of the Jacobian has only one entry that is not zero, because then there is
# nothing to add up. For example, the outputs may come in a different order from the points.
# In the code below they are flipped, and so output 0 depends on the last point.
# ``pullback.mixing`` reports that the points mix, but ones still give :math:`2t` at each
# point:

flipped = lambda t: t.flip(0) ** 2
(by_ones,) = torch.autograd.grad(flipped(t), t, torch.ones(3))
print(pullback.mixing(flipped, t.detach()).mixes, by_ones)

# %%
# If the points do not mix, a ``v`` of ones has to give the same gradients as one call for
# each point. We check this for the three points with two coordinates. For the flipped
# squares, we check that ones give :math:`2t`:

one_by_one = [torch.func.grad(f)(point) for point in x.detach()]
assert torch.equal(x.grad, torch.stack(one_by_one))
assert torch.equal(x.grad, torch.stack([J[i, i] for i in range(3)]))
assert torch.equal(by_ones, 2 * t.detach())

# %%
# In the table below you can see how the trick fails if each output is divided by the sum of
# all inputs. Compare the diagonal, which you want, with the bottom row, which you get:

pullback.live(lambda t: t / t.sum(), torch.tensor([1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# :ref:`sum-is-ones` writes the same product with a sum. :ref:`mixing-samples` is about
# functions that mix samples, and :ref:`one-component` is about several outputs for each
# point.
#
# .. asked: ones trick; derivative at all points; sum of outputs and derivative; many
#    points in one backward
# .. words: derivative curve, vectorised, points, independent, sum, column sums
