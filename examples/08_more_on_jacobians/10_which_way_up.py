r"""
.. _which-way-up:

Derivative, gradient, Jacobian: which way up?
=============================================

One book writes the gradient as a row, another as a column, and PyTorch prints something
that is neither. On this site, row :math:`i` of :math:`J` belongs to output :math:`i`. So
the derivative of a function of one number is an :math:`m\times1` column, and the gradient
of a loss is a :math:`1\times n` row. PyTorch itself does not distinguish rows from columns.
Its gradient has the shape of ``x``.
"""

# %%
# A :term:`partial derivative` :math:`\partial f_i/\partial x_j` is the rate at which output
# :math:`i` changes if only :math:`x_j` changes. For :math:`f:\mathbb R^n\to\mathbb R^m`,
# the :term:`Jacobian` collects all these partial derivatives. The gradients of the outputs
# are its rows:
#
# .. math::
#
#    J_f=\begin{bmatrix}
#    \partial f_1/\partial x_1&\cdots&\partial f_1/\partial x_n\\
#    \vdots&&\vdots\\
#    \partial f_m/\partial x_1&\cdots&\partial f_m/\partial x_n\end{bmatrix}
#
# If one number goes in, then :math:`n=1`, and the Jacobian is a column. This column is the
# :term:`derivative` of a curve. For the curve :math:`(-x^3,5x)` it is :math:`(-3x^2,\,5)`,
# and at 1 we get:

import torch

derivative = torch.func.jacfwd(lambda x: torch.stack([-(x[0] ** 3), 5 * x[0]]))
derivative(torch.tensor([1.0]))

# %%
# If one number comes out, as with every loss, then :math:`m=1`, and the Jacobian is a row.
# It has the same entries as the :term:`gradient`. For :math:`3x_1^2+5x_2^2` at
# :math:`(-1,2)`, these entries are :math:`6x_1` and :math:`10x_2`:


def loss(x):
    return 3 * x[0] ** 2 + 5 * x[1] ** 2


torch.func.jacrev(lambda x: loss(x).reshape(1))(torch.tensor([-1.0, 2.0]))

# %%
# Now we call ``backward`` on the same loss, where ``y`` has shape ``()``. The gradient
# has the shape of ``x``, which is ``(2,)``, and this is neither a row nor a column:

x = torch.tensor([-1.0, 2.0], requires_grad=True)
loss(x).backward()
x.grad

# %%
# One product, four notations
# ---------------------------
#
# There are four common ways to write the product of ``v`` and the Jacobian. To compare
# them, we take :math:`f(x)=(\sum x_i,\;\sum x_i^2)` at :math:`(1,2,3)`, with :math:`m=2`
# and :math:`n=3`:
#
# .. math::
#
#    J=\begin{bmatrix}1&1&1\\2&4&6\end{bmatrix},\qquad v=\begin{bmatrix}10\\1\end{bmatrix}

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
v = torch.tensor([10.0, 1.0])

# %%
# In *row form*, the product :math:`v^\top J` is a :math:`1\times n` row. In *column
# form*, :math:`J^\top v` is an :math:`n\times1` column, and it is the transpose of that
# row:

row = v.reshape(1, 2) @ J
column = J.T @ v.reshape(2, 1)
print(row, column, sep="\n")

# %%
# The :math:`J` above is in *numerator layout*. *Denominator layout* writes its transpose
# instead, :math:`D_{ji}=\partial f_i/\partial x_j`, so that :math:`J^\top v` reads
# :math:`Dv`. *Einstein summation*, :math:`g_j=v_iJ_{ij}`, sums over the index that occurs
# twice, and needs no layout at all:

D = torch.tensor([[1.0, 2.0], [1.0, 4.0], [1.0, 6.0]])
einstein = torch.einsum("i,ij->j", v, J)
print(D @ v, einstein)

# %%
# The result from PyTorch is like the result of the Einstein summation. It has one index
# for each index of ``x``:


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
f(x).backward(v)
x.grad

# %%
# *Should v be a row [1 1] or a column [1; 1]?* It should be neither. PyTorch wants ``v`` in
# the shape of ``y``, which is ``(2,)``, and refuses both the row and the column:

for shape in (1, 2), (2, 1):
    try:
        f(x).backward(v.reshape(shape))
    except RuntimeError as error:
        print(error)

# %%
# What goes wrong
# ---------------
#
# Some people call :math:`v^\top J` a :term:`Jacobian-vector product`. That name belongs to
# :math:`Ju`, the product with a :math:`u` that has the shape of ``x``. You can tell the two
# products apart by the shape of the result. The :term:`VJP` has the shape of ``x``, and the
# :term:`JVP` has the shape of ``y``:

u = torch.tensor([1.0, 0.0, 2.0])
_, Ju = torch.func.jvp(f, (x.detach(),), (u,))
print("VJP", x.grad, " JVP", Ju)

# %%
# Here you can try both products of one :math:`J`. *backward* multiplies the rows of
# :math:`J` by the weights and adds them up, and *forward* does the same with the columns.
# Neither of the two products transposes the table:

import pullback

pullback.live(f, x, v)

# %%
# It is easy to take a *square* :math:`J` the wrong way up. All shapes fit, so PyTorch
# raises no error, but the numbers are wrong. To find such a mistake, compute :math:`Ju`
# with :term:`forward mode`, and compare :math:`v^\top(Ju)` with :math:`v^\top J\,u` from
# your own matrix. In the code below, ``a`` stands for :math:`v` and ``b`` for :math:`u`.
# The transposed matrix fails this test:

S = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
a, b = torch.tensor([1.0, 10.0]), torch.tensor([1.0, 1.0])
_, Sb = torch.func.jvp(lambda x: S @ x, (torch.zeros(2),), (b,))
print("forward mode:", (a @ Sb).item())
print("vᵀ J u:", (a @ S @ b).item(), " vᵀ Jᵀ u:", (a @ S.T @ b).item())

# %%
# As a check, we compare the results of all four notations with the three numbers from
# PyTorch, and :math:`J` with the Jacobian that forward mode finds. We also check that the
# two products give the same number :math:`v^\top Ju`:

for notation in (row.flatten(), column.flatten(), D @ v, einstein):
    assert torch.equal(notation, x.grad)
assert torch.equal(torch.func.jacfwd(f)(x.detach()), J)
assert v @ Ju == x.grad @ u
assert a @ Sb == a @ S @ b != a @ S.T @ b

# %%
# Where next
# ----------
#
# :ref:`vjp-and-chain-rule` shows the product as a step of the chain rule, and
# :ref:`tensor-jacobian` is about more than two indices.
#
# .. asked: row or column gradient; numerator layout; is the gradient a row or a column;
#    Jacobian transposed; layout convention; gradient or Jacobian or derivative, which is
#    which
# .. words: transposed, denominator, numerator, convention, textbook, row, column, nabla,
#    notation, layout
