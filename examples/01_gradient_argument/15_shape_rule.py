r"""
.. _shape-rule:

Must v look like y or like x? The shape rule, and everything it refuses
=======================================================================

``v`` has exactly the shape of the output ``y``, never that of the input ``x``; the
result has exactly the shape of ``x``.
"""

# %%
# Take :math:`f:\mathbb R^{3\times2}\to\mathbb R^3`, the sum of each row. With weights
# ``v`` of shape ``(3,)`` the product has shape ``(3, 2)``:

import torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
y = x.sum(1)
v = torch.tensor([1.0, 10.0, 100.0])
y.backward(v)
x.grad

# %%
# In elementwise functions ``x`` and ``y`` have the same shape, which hides the rule.
# Here they differ, and a ``v`` that looks like ``x`` is refused:


def attempt(y, *v):
    try:
        y.backward(*v, retain_graph=True)
        print("accepted")
    except (RuntimeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")


attempt(y, torch.ones(3, 2))

# %%
# One number, five shapes
# -----------------------
#
# A 0-dim tensor is a scalar, ``(1,)`` a vector of one entry, ``(1, 1)`` a matrix of one.
# Each wants a ``v`` of its own shape; ``()`` and ``(1,)`` are *not* interchangeable:

for shape in [(), (1,), (1, 1), (5,), (5, 1)]:
    x = torch.full(shape, 2.0, requires_grad=True)
    (x**2).backward(torch.ones(shape))
    print(shape, tuple(x.grad.shape))

y = torch.tensor(2.0, requires_grad=True) ** 2
attempt(y, torch.ones(1))
attempt(torch.tensor([2.0], requires_grad=True) ** 2, torch.tensor(1.0))

# %%
# Three products, three weights
# -----------------------------
#
# For :math:`z=x\odot y` with three entries, ``v`` needs three entries. Nothing at all,
# a single 1, and a Python list are refused, each in words of its own:

p = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
q = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
z = p * q
attempt(z)
attempt(z, torch.tensor(1.0))
attempt(z, [1.0, 1.0, 1.0])
attempt(z, 1.0)

# %%
# With three ones the result is the other factor, for both inputs:

z.backward(torch.ones(3))
print(p.grad, q.grad)

# %%
# A ``(5, 3)`` matrix of squares wants a ``(5, 3)`` of ones. It holds weights on the
# outputs; it is no model weight, and needs neither ``requires_grad`` nor a kept graph:

M = torch.arange(1.0, 16).reshape(5, 3).requires_grad_()
(M**2).backward(torch.ones(5, 3))
M.grad

# %%
# *Should v be a row or a column?* Neither. There is no transposing to do: a row
# ``(1, 3)`` is a shape like any other, and not ``y``'s:

attempt(p * q, torch.ones(1, 3))

# %%
# What is let through
# -------------------
#
# The dtype may differ: integers and float64 are cast to ``y``'s dtype without a word.
# Only for complex tensors must it match:

p.grad = None
(p * q).backward(torch.tensor([1, 2, 3]))
print(p.grad.dtype)
attempt((p * q).to(torch.complex64), torch.ones(3))

# %%
# :func:`pullback.explain` gives the shape that is needed and what your ``v`` would do:

import pullback

pullback.explain(lambda x: x.sum(1), torch.ones(3, 2), v=torch.ones(3, 2))

# %%
# The rule as a check: the first product equals :math:`v^\top J` with the Jacobian of
# shape ``(3, 3, 2)``, all of ``v``'s indices summed over:

x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
J = torch.func.jacfwd(lambda x: x.sum(1))(x)
product = torch.tensordot(v, J, dims=1)
assert J.shape == (3, 3, 2)
assert torch.equal(product, torch.tensor([[1.0, 1], [10, 10], [100, 100]]))

# %%
# Where next
# ----------
#
# Ones for many points: :ref:`ones-trick`. Weights that are not 1: :ref:`v-is-a-weight`.
# What "dimension" means in mathematics and in PyTorch: :ref:`two-meanings-of-dimension`.
