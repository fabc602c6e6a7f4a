r"""
.. _ones-trick:

One point, many points: the ones trick, and why it works
========================================================

To differentiate one function at many points in one call, pass ``torch.ones_like(y)``:
if each output depends on its own point alone, you get each point's own derivative.
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
# Points with several coordinates
# -------------------------------
#
# Three points of :math:`\mathbb R^2` are an ``x`` of shape ``(3, 2)``. With one number
# out for each point, ``y`` and ``v`` have shape ``(3,)``: the number of *points*, not
# of coordinates. For :math:`f(x)=-x_1^2+x_2^2` each row is :math:`(-2x_1,\,2x_2)`:

x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
y = -(x[:, 0] ** 2) + x[:, 1] ** 2
y.backward(torch.ones(3))
x.grad

# %%
# A linear function has the same gradient everywhere, here :math:`w=(-1,1)`, so three
# points give three equal rows:

x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], requires_grad=True)
w = torch.tensor([-1.0, 1.0])
(x * w).sum(1).backward(torch.ones(3))
x.grad

# %%
# Why it works
# ------------
#
# Collect the points into one function :math:`F(x_1,\dots,x_N)=(f(x_1),\dots,f(x_N))`.
# Output :math:`i` depends on :math:`x_i` alone, so :math:`J_F` is diagonal, and ones
# collect the diagonal:
#
# .. math::
#
#    \begin{bmatrix}1&\cdots&1\end{bmatrix}
#    \begin{bmatrix}f'(x_1)&&0\\&\ddots&\\0&&f'(x_N)\end{bmatrix}
#    =\begin{bmatrix}f'(x_1)&\cdots&f'(x_N)\end{bmatrix}

points = torch.linspace(-2, 2, 5)
J = torch.func.jacfwd(torch.square)(points)
J

# %%
# Drawn, with ``v`` of ones beside it:

import pullback.plot

picture = pullback.plot.vjp(torch.ones(5), J)

# %%
# For points with coordinates :math:`J_F` has shape ``(3, 3, 2)`` and is *block*
# diagonal: the gradient of output ``i`` sits at ``J[i, i]``, zeros elsewhere:

J = torch.func.jacfwd(lambda x: (x * w).sum(1))(x.detach())
print(J.shape)
J[0]

# %%
# What goes wrong
# ---------------
#
# If an output looks at other points, ones *add up* what you wanted to keep apart.
# In :math:`y_i=x_i/\sum_j x_j` every output depends on every input; ones give zero,
# while the derivatives :math:`\partial y_i/\partial x_i` are not zero:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(x / x.sum()).backward(torch.ones(3))
own = torch.func.jacfwd(lambda x: x / x.sum())(x.detach()).diagonal()
print(x.grad.round(decimals=3) + 0.0)
print(own.round(decimals=3))

# %%
# :func:`pullback.mixing` tells the two kinds apart before you rely on the trick:

assert not pullback.mixing(torch.square, points)
assert pullback.mixing(lambda x: x / x.sum(), torch.tensor([1.0, 2.0, 3.0]))

# %%
# And where nothing mixes, ones agree with one call for each point:

x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
one_by_one = [torch.func.grad(lambda p: -(p[0] ** 2) + p[1] ** 2)(p) for p in x]
assert torch.equal(torch.stack(one_by_one), torch.tensor([-2.0, 2.0]) * x)

# %%
# Where next
# ----------
#
# The same product, spelled with a sum: :ref:`sum-is-ones`. Functions that mix samples:
# :ref:`mixing-samples`. Several outputs for each point: :ref:`one-component`.
