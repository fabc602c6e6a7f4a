r"""
.. _which-way-up:

Derivative, gradient, Jacobian: which way up?
=============================================

On this site row :math:`i` of :math:`J` belongs to output :math:`i`, so a derivative is
an :math:`m\times1` column and a gradient a :math:`1\times n` row. PyTorch itself has no
rows or columns: its gradient has ``x``'s shape.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R^m` the :term:`Jacobian` stacks the gradients of the
# outputs:
#
# .. math::
#
#    J_f=\begin{bmatrix}
#    \partial f_1/\partial x_1&\cdots&\partial f_1/\partial x_n\\
#    \vdots&&\vdots\\
#    \partial f_m/\partial x_1&\cdots&\partial f_m/\partial x_n\end{bmatrix}
#
# One number in, :math:`n=1`: a column, the *derivative*. For :math:`(-x^3,5x)` at 1:

import torch

derivative = torch.func.jacfwd(lambda x: torch.stack([-(x[0] ** 3), 5 * x[0]]))
derivative(torch.tensor([1.0]))

# %%
# One number out, :math:`m=1`: a row, the *gradient*. For :math:`3x_1^2+5x_2^2` at
# :math:`(-1,2)` it is :math:`(6x_1,\,10x_2)`:

gradient = torch.func.jacrev(lambda x: (3 * x[0] ** 2 + 5 * x[1] ** 2).reshape(1))
gradient(torch.tensor([-1.0, 2.0]))

# %%
# The same function with ``y`` of shape ``()``: the gradient has ``x``'s shape ``(2,)``,
# neither row nor column:

x = torch.tensor([-1.0, 2.0], requires_grad=True)
(3 * x[0] ** 2 + 5 * x[1] ** 2).backward()
x.grad

# %%
# One product, four notations
# ---------------------------
#
# Take a Jacobian with :math:`m=2` and :math:`n=3` and weights :math:`v\in\mathbb R^2`:

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
v = torch.tensor([10.0, 1.0])

# %%
# *Row form*: :math:`v^\top J`, a :math:`1\times n` row. *Column form*: :math:`J^\top v`, an
# :math:`n\times1` column, the transpose of the row:

row = v.reshape(1, 2) @ J
column = J.T @ v.reshape(2, 1)
print(row, column, sep="\n")

# %%
# *Numerator layout* is the :math:`J` above. *Denominator layout* writes its transpose
# :math:`D=J^\top`, :math:`n\times m`, and the same product is :math:`Dv`. Einstein notation
# :math:`g_j=v_iJ_{ij}` sums the repeated index and needs no layout at all:

D = J.T
print(D @ v)
print(torch.einsum("i,ij->j", v, J))

# %%
# What PyTorch returns is that last form. It needs no transposing on the way in or out:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.stack([x.sum(), (x**2).sum()])
y.backward(v)
x.grad

# %%
# What goes wrong
# ---------------
#
# Calling :math:`v^\top J` a Jacobian-vector product. That name belongs to :math:`Ju` with
# :math:`u\in\mathbb R^n`, of ``y``'s shape; the two differ even in shape:

u = torch.tensor([1.0, 0.0, 2.0])
print("VJP", v @ J, " JVP", J @ u)

# %%
# They are tied by one number, :math:`v^\top(Ju)=(v^\top J)u`, which tells whether a
# Jacobian is used the right way up:

print((v @ (J @ u)).item(), ((v @ J) @ u).item())

# %%
# All four notations and PyTorch give the same three numbers, and :math:`J` itself is what
# forward mode finds:

assert torch.equal(row.flatten(), x.grad)
assert torch.equal(column.flatten(), x.grad)
assert torch.equal(D @ v, x.grad)
found = torch.func.jacfwd(lambda x: torch.stack([x.sum(), (x**2).sum()]))(x.detach())
assert torch.equal(found, J)

# %%
# Where next
# ----------
#
# The product as a step of the chain rule: :ref:`vjp-and-chain-rule`. More indices than
# two: :ref:`tensor-jacobian`.
