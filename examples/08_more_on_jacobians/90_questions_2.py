r"""
.. _chapter-2-questions:

Jacobians in three questions
============================

Answer each before you run the cell under it: the cell computes what holds, and the chapter
says why.
"""

# %%
# 1. Rows and columns
# -------------------
#
# ``f`` takes 5 numbers to 2. Which shape has its :term:`Jacobian` in PyTorch: ``(5, 2)`` or
# ``(2, 5)``? And is ``J[1]`` the gradient of an output, or the effect of an input?

import torch

A = torch.arange(10.0).reshape(2, 5)
x = torch.linspace(0, 1, 5)


def f(x):
    return A @ x**2


J = torch.func.jacrev(f)(x)
second_output = torch.func.grad(lambda x: f(x)[1])(x)
print(tuple(J.shape), torch.equal(J[1], second_output))

# %%
# Outputs first: row i is the gradient of output i. (:ref:`which-way-up`)
#
# 2. The shape for tensors
# ------------------------
#
# ``X`` is ``(3, 4)`` and ``Y = X @ B`` is ``(3, 2)``. Which shape has the Jacobian, and how
# many of its entries can be other than zero?

X, B = torch.ones(3, 4), torch.arange(1.0, 9.0).reshape(4, 2)
T = torch.func.jacrev(lambda X: X @ B)(X)
print(tuple(T.shape), T.numel(), int(T.count_nonzero()))

# %%
# The shape of ``Y``, then that of ``X``. Row i of ``Y`` depends on row i of ``X`` alone,
# so two thirds of the entries are zero. (:ref:`tensor-jacobian`,
# :ref:`jacobian-per-sample`)
#
# 3. How many products?
# ---------------------
#
# 1000 outputs, 10 inputs, every entry wanted. How many products does the whole Jacobian
# take at least: 1000, 10, or one with a ``v`` of ones?

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
# Ten, forward: a column each. Ones give the *sum* of the thousand rows.
# (:ref:`reverse-or-forward`, :ref:`jacobian-row-by-row`)
#
# The answers, checked; the first by hand, :math:`\partial f_i/\partial x_j=2A_{ij}x_j`:

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
# Pushing forward, and derivatives of derivatives: :ref:`chapter-3`.
