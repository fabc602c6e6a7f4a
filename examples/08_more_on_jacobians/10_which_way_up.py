r"""
.. _which-way-up:

Derivative, gradient, Jacobian: which way up?
=============================================

On this site row :math:`i` of :math:`J` belongs to output :math:`i`, so a derivative is
an :math:`m\times1` column and a gradient a :math:`1\times n` row. PyTorch itself has no
rows or columns: its gradient has ``x``'s shape.
"""

# %%
# A :term:`partial derivative` :math:`\partial f_i/\partial x_j` is the rate at which
# output :math:`i` changes when :math:`x_j` alone moves. For
# :math:`f:\mathbb R^n\to\mathbb R^m` the :term:`Jacobian` collects all of them, the
# gradients of the outputs stacked as rows:
#
# .. math::
#
#    J_f=\begin{bmatrix}
#    \partial f_1/\partial x_1&\cdots&\partial f_1/\partial x_n\\
#    \vdots&&\vdots\\
#    \partial f_m/\partial x_1&\cdots&\partial f_m/\partial x_n\end{bmatrix}
#
# One number in, :math:`n=1`: a column, the :term:`derivative`. For :math:`(-x^3,5x)` it is
# :math:`(-3x^2,\,5)`, here at 1:

import torch

derivative = torch.func.jacfwd(lambda x: torch.stack([-(x[0] ** 3), 5 * x[0]]))
derivative(torch.tensor([1.0]))

# %%
# One number out, :math:`m=1`, as every loss has: a row, the :term:`gradient`, and now
# Jacobian and gradient coincide. For :math:`3x_1^2+5x_2^2` at :math:`(-1,2)` it is
# :math:`(6x_1,\,10x_2)`:


def loss(x):
    return 3 * x[0] ** 2 + 5 * x[1] ** 2


torch.func.jacrev(lambda x: loss(x).reshape(1))(torch.tensor([-1.0, 2.0]))

# %%
# ``backward`` on the same loss, with ``y`` of shape ``()``: the gradient has ``x``'s shape
# ``(2,)``, neither row nor column:

x = torch.tensor([-1.0, 2.0], requires_grad=True)
loss(x).backward()
x.grad

# %%
# One product, four notations
# ---------------------------
#
# :math:`f(x)=(\sum x_i,\;\sum x_i^2)` at :math:`(1,2,3)` has :math:`m=2` and :math:`n=3`:
#
# .. math::
#
#    J=\begin{bmatrix}1&1&1\\2&4&6\end{bmatrix},\qquad v=\begin{bmatrix}10\\1\end{bmatrix}

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
v = torch.tensor([10.0, 1.0])

# %%
# *Row form*: :math:`v^\top J`, a :math:`1\times n` row. *Column form*: :math:`J^\top v`, an
# :math:`n\times1` column, the transpose of the row:

row = v.reshape(1, 2) @ J
column = J.T @ v.reshape(2, 1)
print(row, column, sep="\n")

# %%
# *Numerator layout* is the :math:`J` above. *Denominator layout* writes the transpose
# instead, :math:`D_{ji}=\partial f_i/\partial x_j`, so that :math:`J^\top v` reads
# :math:`Dv`. *Einstein summation* :math:`g_j=v_iJ_{ij}` sums over the index that occurs
# twice and needs no layout:

D = torch.tensor([[1.0, 2.0], [1.0, 4.0], [1.0, 6.0]])
einstein = torch.einsum("i,ij->j", v, J)
print(D @ v, einstein)

# %%
# What PyTorch returns is that last form, one index for each of ``x``'s:


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
f(x).backward(v)
x.grad

# %%
# *Should v be a row [1 1] or a column [1; 1]?* Neither. It has ``y``'s shape ``(2,)``:

for shape in (1, 2), (2, 1):
    try:
        f(x).backward(v.reshape(shape))
    except RuntimeError as error:
        print(error)

# %%
# What goes wrong
# ---------------
#
# Calling :math:`v^\top J` a :term:`Jacobian-vector product`. That name belongs to
# :math:`Ju`, the product with a :math:`u` of ``x``'s shape. The result has ``y``'s:

u = torch.tensor([1.0, 0.0, 2.0])
_, Ju = torch.func.jvp(f, (x.detach(),), (u,))
print("VJP", x.grad, " JVP", Ju)

# %%
# Both products of one :math:`J`, to touch: *backward* weighs its rows and adds them up,
# *forward* its columns. Neither turns it over:

import pullback

pullback.live(f, x, v)

# %%
# Taking a *square* :math:`J` the wrong way up. Nothing is refused, and the numbers are
# wrong. The test is :math:`v^\top(Ju)=v^\top J\,u`, with the left side from :term:`forward
# mode` (here ``a`` for :math:`v`, ``b`` for :math:`u`); a transposed :math:`J` fails it:

S = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
a, b = torch.tensor([1.0, 10.0]), torch.tensor([1.0, 1.0])
_, Sb = torch.func.jvp(lambda x: S @ x, (torch.zeros(2),), (b,))
print("forward mode:", (a @ Sb).item())
print("vᵀ J u:", (a @ S @ b).item(), " vᵀ Jᵀ u:", (a @ S.T @ b).item())

# %%
# All the notations give PyTorch's three numbers, :math:`J` itself is what forward mode
# finds, and the two products agree on one number:

for notation in (row.flatten(), column.flatten(), D @ v, einstein):
    assert torch.equal(notation, x.grad)
assert torch.equal(torch.func.jacfwd(f)(x.detach()), J)
assert v @ Ju == x.grad @ u
assert a @ Sb == a @ S @ b != a @ S.T @ b

# %%
# Where next
# ----------
#
# The product as a step of the chain rule: :ref:`vjp-and-chain-rule`. More indices than
# two: :ref:`tensor-jacobian`.
#
# .. asked: row or column gradient; numerator layout; is the gradient a row or a column;
#    Jacobian transposed; layout convention; gradient or Jacobian or derivative, which is
#    which
