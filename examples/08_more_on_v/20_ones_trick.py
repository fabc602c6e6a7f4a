r"""
.. _ones-trick:

One point, many points: the ones trick, and why it works
========================================================

To differentiate one function at many points in one call, pass ``torch.ones_like(y)``:
if each output depends on its own point alone, you get each point's own
:term:`derivative` or :term:`gradient`.
"""

# %%
# At one point: :math:`f(x)=x^2` at 1, where the derivative is 2:

import torch

x = torch.tensor(1.0, requires_grad=True)
(x**2).backward()
x.grad

# %%
# At five points, ``x`` and ``y`` have shape ``(5,)``, and so has ``v``:

x = torch.linspace(-2, 2, 5, requires_grad=True)
y = x**2
y.backward(torch.ones_like(y))
x.grad

# %%
# The points may stand in any shape, here six of them in a ``(2, 3)``. Squares again, so
# each gets its :math:`2a`:

a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
(a * a).backward(torch.ones(2, 3))
a.grad

# %%
# Points with several coordinates
# -------------------------------
#
# Three points of :math:`\mathbb R^2` are an ``x`` of shape ``(3, 2)``. With one number
# out for each point, ``y`` and ``v`` have shape ``(3,)``: the number of *points*, not
# of coordinates. For :math:`f(x)=-x_1^2+x_2^2` each row is :math:`(-2x_1,\,2x_2)`:


def f(x):
    return -(x[..., 0] ** 2) + x[..., 1] ** 2


x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
f(x).backward(torch.ones(3))
x.grad

# %%
# A linear function has the same gradient everywhere, here :math:`w=(-1,1)`, so three
# points give three equal rows:

points = x.detach().requires_grad_()
w = torch.tensor([-1.0, 1.0])
(points * w).sum(1).backward(torch.ones(3))
points.grad

# %%
# Why it works
# ------------
#
# Collect the points into one function :math:`F(x_1,\dots,x_N)=(f(x_1),\dots,f(x_N))`.
# Output :math:`i` depends on :math:`x_i` alone, so its :term:`Jacobian` is diagonal, and
# ones collect the diagonal:
#
# .. math::
#
#    \begin{bmatrix}1&\cdots&1\end{bmatrix}
#    \begin{bmatrix}f'(x_1)&&0\\&\ddots&\\0&&f'(x_N)\end{bmatrix}
#    =\begin{bmatrix}f'(x_1)&\cdots&f'(x_N)\end{bmatrix}
#
# Drawn for the five points, with ``v`` of ones beside it:

import pullback

J = torch.func.jacfwd(torch.square)(torch.linspace(-2, 2, 5)) + 0.0  # no -0
pullback.draw.vjp(torch.ones(5), J)

# %%
# *Does PyTorch know which dimension is the batch?* No. For points with coordinates
# :math:`J_F` has shape ``(3, 3, 2)``, every output by every coordinate of every point.
# Here it is *block* diagonal: the gradient of output ``i`` sits at ``J[i, i]``:

J = torch.func.jacfwd(f)(x.detach()) + 0.0
print(J.shape)
J

# %%
# What goes wrong
# ---------------
#
# If an output looks at other points, ones *add up* what you wanted to keep apart.
# In :math:`y_i=x_i/\sum_j x_j` every output depends on every input; ones give zero,
# while the derivatives :math:`\partial y_i/\partial x_i` are not zero:

t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(t / t.sum()).backward(torch.ones(3))
own = torch.func.jacfwd(lambda t: t / t.sum())(t.detach()).diagonal()
print("ones:", t.grad.round(decimals=3) + 0.0)
print("own: ", own.round(decimals=3))

# %%
# :func:`pullback.mixing` tells the two kinds apart before you rely on the trick:

print(pullback.mixing(f, x.detach()).mixes)
print(pullback.mixing(lambda t: t / t.sum(), t.detach()).mixes)

# %%
# And where nothing mixes, ones agree with one call for each point:

one_by_one = [torch.func.grad(f)(point) for point in x.detach()]
assert torch.equal(x.grad, torch.stack(one_by_one))
assert torch.equal(x.grad, torch.stack([J[i, i] for i in range(3)]))

# %%
# Where the trick lies: each output divides by the sum of all inputs. Compare the diagonal
# with the bottom row:

pullback.live(lambda t: t / t.sum(), torch.tensor([1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# The same product, spelled with a sum: :ref:`sum-is-ones`. Functions that mix samples:
# :ref:`mixing-samples`. Several outputs for each point: :ref:`one-component`.
#
# .. asked: ones trick; derivative at all points; sum of outputs and derivative; many
#    points in one backward
