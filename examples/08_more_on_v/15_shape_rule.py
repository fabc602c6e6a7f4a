r"""
.. _shape-rule:

Must v look like y or like x? The shape rule, and everything it refuses
=======================================================================

``v`` has exactly the shape of the output ``y``, never that of the input ``x``; the
result has exactly the shape of ``x``. The entries of ``v`` may be any numbers.
"""

# %%
# Take :math:`f:\mathbb R^{3\times2}\to\mathbb R^3`, the sum of each row. With weights
# ``v`` of shape ``(3,)`` the :term:`VJP` has shape ``(3, 2)``:

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
# One function, five shapes
# -------------------------
#
# ``v`` goes with the *value* ``y``, not with the function: :math:`x^2` of a scalar
# ``()``, of a vector of one entry ``(1,)``, and of a matrix of one entry ``(1, 1)`` each
# want a ``v`` of their own shape. ``()`` and ``(1,)`` are *not* interchangeable:

for shape in [(), (1,), (1, 1), (5,), (5, 1)]:
    t = torch.full(shape, 2.0, requires_grad=True)
    (t**2).backward(torch.ones(shape))
    print(shape, tuple(t.grad.shape))

attempt(torch.tensor(2.0, requires_grad=True) ** 2, torch.ones(1))
attempt(torch.tensor([2.0], requires_grad=True) ** 2, torch.tensor(1.0))

# %%
# Three products, three weights
# -----------------------------
#
# For :math:`z=p\odot q` with three entries, ``v`` needs three entries. Nothing at all, a
# single 1, a Python list, a number, a NumPy array, and a ``v`` on another device (here
# ``meta``, which needs no GPU) are refused, each in words of its own:

p = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
q = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
z = p * q
attempt(z)
attempt(z, torch.tensor(1.0))
attempt(z, [1.0, 1.0, 1.0])
attempt(z, 1.0)
attempt(z, torch.ones(3).numpy())
attempt(z, torch.ones(3, device="meta"))

# %%
# *Should v be a row or a column?* Neither, and there is no transposing to do: a row
# ``(1, 3)`` is one more shape that is not ``y``'s:

attempt(z, torch.ones(1, 3))

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
# A map smaller than the output
# -----------------------------
#
# *My map is 80×80, the network returns 96×96.* What went in plays no part: ``v`` has the
# size of what came out. Crop that to the place of the map, or write the map into zeros of
# the output's shape; both give the same. Here 3×3 and 5×5, from an image of 10×10:

image = torch.arange(100.0).reshape(1, 1, 10, 10).requires_grad_()
out, small = torch.nn.AvgPool2d(2)(image**2), torch.ones(1, 1, 3, 3)
attempt(out, small)
(cropped,) = torch.autograd.grad(out[..., 1:-1, 1:-1], image, small, retain_graph=True)
padded = torch.zeros_like(out)
padded[..., 1:-1, 1:-1] = small
print(torch.equal(torch.autograd.grad(out, image, padded)[0], cropped))

# %%
# One thing, three names
# ----------------------
#
# *Is it* ``gradient``\ *,* ``grad_outputs`` *or* ``grad_tensors``\ *?* The same ``v``
# under the same rule; each call has its own name for it:

t = torch.ones(3, 2, requires_grad=True)
t.sum(1).backward(gradient=v)
torch.autograd.backward(t.sum(1), grad_tensors=v)  # adds the same once more
(product,) = torch.autograd.grad(t.sum(1), t, grad_outputs=v)
print(torch.equal(t.grad, 2 * product))
try:
    torch.autograd.backward(t.sum(1), grad_outputs=v)
except TypeError as error:
    print(error)

# %%
# What is let through
# -------------------
#
# The dtype may differ: integers and float64 are cast to ``y``'s dtype without a word,
# so that both products go into a float32 ``p.grad``. Only if one of ``v`` and ``y`` is
# complex must the other be, too:

p.grad = None
attempt(p * q, torch.tensor([1, 2, 3]))
attempt(p * q, torch.ones(3, dtype=torch.float64))
print(p.grad, p.grad.dtype)
attempt((p * q).to(torch.complex64), torch.ones(3))

# %%
# :func:`pullback.explain` gives the shape that is needed and what your ``v`` would do:

import pullback

pullback.explain(lambda x: x.sum(1), torch.ones(3, 2), v=torch.ones(3, 2))

# %%
# The rule as a check. The :term:`Jacobian` of the row sums has shape ``(3, 3, 2)``;
# ``v`` takes up ``y``'s part of it, and ``x``'s part ``(3, 2)`` is left:

J = torch.func.jacfwd(lambda x: x.sum(1))(x.detach())
assert J.shape == y.shape + x.shape == (3, 3, 2)
assert torch.equal(x.grad, torch.tensordot(v, J, dims=y.ndim))

# %%
# Where next
# ----------
#
# Ones for many points: :ref:`ones-trick`. Weights that are not 1: :ref:`v-is-a-weight`.
# What "dimension" means in mathematics and in PyTorch: :ref:`two-meanings-of-dimension`.
#
# .. asked: shape of the gradient argument; v like x or like y; shape rule; broadcasting
#    of v; () and (1,) gradients; v of the wrong shape
