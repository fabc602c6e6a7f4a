r"""
.. _chapter-2-questions:

Jacobians in three questions
============================

Do you know which way up a :term:`Jacobian` is, and what it costs? Here are three questions.
Answer each of them before you run the cell below it. The cell computes the right answer,
and the pages linked below it explain why it is right.
"""

# %%
# 1. Rows and columns
# -------------------
#
# ``f`` maps 5 numbers to 2 numbers. Which shape does its Jacobian have in PyTorch, ``(5,
# 2)`` or ``(2, 5)``? And is ``J[1]`` the gradient of an output, or the effect of an input?

import torch

A = torch.arange(10.0).reshape(2, 5)
x = torch.linspace(0, 1, 5)


def f(x):
    return A @ x**2


J = torch.func.jacrev(f)(x)
second_output = torch.func.grad(lambda x: f(x)[1])(x)
print(tuple(J.shape), torch.equal(J[1], second_output))

# %%
# The outputs come first, and row i is the gradient of output i. (:ref:`which-way-up`)
#
# 2. The shape for tensors
# ------------------------
#
# ``X`` has shape ``(3, 4)``, and ``Y = X @ B`` has shape ``(3, 2)``. Which shape does the
# Jacobian have, and how many of its entries can be different from zero?

X, B = torch.ones(3, 4), torch.arange(1.0, 9.0).reshape(4, 2)
T = torch.func.jacrev(lambda X: X @ B)(X)
print(tuple(T.shape), T.numel(), int(T.count_nonzero()))

# %%
# The shape of the Jacobian is the shape of ``Y``, followed by the shape of ``X``. Row i of
# ``Y`` depends only on row i of ``X``, and so two thirds of the entries are zero.
# (:ref:`tensor-jacobian`, :ref:`jacobian-per-sample`)
#
# 3. How many products?
# ---------------------
#
# A function has 1000 outputs and 10 inputs, and you want every entry of its Jacobian. How
# many products do you need if you choose well: 1000, 10, or one with a ``v`` of ones?

calls = []
W = torch.linspace(-1, 1, 10_000, dtype=torch.float64).reshape(1000, 10)
point = torch.linspace(-1, 1, 10, dtype=torch.float64)


def count(tangent):
    calls.append(1)
    return torch.func.jvp(lambda x: torch.tanh(W @ x), (point,), (tangent,))[1]


columns = torch.stack([count(e) for e in torch.eye(10).double()], dim=1)
by_rows = torch.func.jacrev(lambda x: torch.tanh(W @ x))(point)
print(len(calls), torch.allclose(columns, by_rows))

# %%
# You need ten products in :term:`forward mode`, one for each column. A ``v`` of ones gives
# you only the *sum* of the thousand rows. (:ref:`reverse-or-forward`,
# :ref:`jacobian-row-by-row`)
#
# We now check the answers. We compare the first Jacobian with the derivative worked out by
# hand, :math:`\partial f_i/\partial x_j=2A_{ij}x_j`:

torch.testing.assert_close(J, 2 * A * x)
assert T.shape == (3, 2, 3, 4)
assert T.count_nonzero() == 3 * 2 * 4
assert len(calls) == 10
ones = torch.ones(1000, dtype=torch.float64)
_, vjp = torch.func.vjp(lambda x: torch.tanh(W @ x), point)
torch.testing.assert_close(vjp(ones)[0], columns.sum(0))

# %%
# Where next
# ----------
#
# :ref:`chapter-3` is about products that combine the columns of the Jacobian, and about
# second derivatives.
