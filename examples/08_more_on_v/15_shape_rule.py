r"""
.. _shape-rule:

Does v have the shape of y or of x? The shape rule, and everything it rules out
===============================================================================

You pass a tensor of ones to ``backward``, and PyTorch answers *Mismatch in shape*. Which
shape does it want? ``v`` must have exactly the shape of the output ``y``, because it
holds one weight for each output. It does not have the shape of the input ``x``, unless
``x`` and ``y`` happen to have the same shape. The result, on the other hand, has exactly
the shape of ``x``. The entries of ``v`` may be any numbers.
"""

# %%
# Let :math:`f:\mathbb R^{3\times2}\to\mathbb R^3` add up each row of a matrix. There are
# three outputs, and so ``v`` has shape ``(3,)``. The :term:`VJP` has the shape of ``x``,
# which is ``(3, 2)``. Every entry in a row of the product is the weight of that row's sum:

import torch

x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
y = x.sum(1)
v = torch.tensor([1.0, 10.0, 100.0])
y.backward(v)
x.grad

# %%
# If you work with elementwise functions alone, you never notice the rule, because their
# ``x`` and ``y`` have the same shape. For the row sums the shapes differ, and a ``v`` with
# the shape of ``x`` is refused. Read *grad_output* in the message as ``v``, and *output* as
# ``y``:


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
# The right shape is not fixed by the function. It depends on the *value* ``y`` that you
# have at hand. We square a scalar of shape ``()``, a vector with one entry, a matrix with
# one entry, and two tensors with five entries. Each of the squares needs a ``v`` in its own
# shape, and each gradient comes back in the shape of its input. The last two lines of the
# output show that ``()`` and ``(1,)`` are *not* interchangeable, although a tensor of
# either shape holds a single number:

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
# The product :math:`z=p\odot q` of two vectors has three entries, and so ``v`` needs
# three entries, too. What else might one try? We pass nothing at all, then a single 1, a
# Python list, a plain number, a NumPy array, and a tensor on another device. The other
# device is ``meta`` here, because it needs no GPU. All six are refused, each with a
# different message:

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
# *Should v be a row or a column?* It should be neither, and there is nothing to transpose.
# A row has the shape ``(1, 3)``, which is not ``(3,)``, and so it is refused as well:

attempt(z, torch.ones(1, 3))

# %%
# Three ones in the right shape are accepted. The derivative of each product with respect
# to one factor is the other factor, so ``p.grad`` is ``q``, and ``q.grad`` is ``p``:

z.backward(torch.ones(3))
print(p.grad, q.grad)

# %%
# For a matrix ``y`` the rule is the same. The squares of a ``(5, 3)`` matrix want a ``v``
# of shape ``(5, 3)``. The entries of ``v`` are weights on the outputs. They are not
# weights of the model, and so ``v`` needs no ``requires_grad``. It needs the flag only if
# you want to differentiate the result with respect to ``v`` itself, and then you also
# have to pass ``create_graph=True`` (:ref:`v-requires-grad`). As long as you call
# ``backward`` only once, you need not keep the graph either:

M = torch.arange(1.0, 16).reshape(5, 3).requires_grad_()
(M**2).backward(torch.ones(5, 3))
M.grad

# %%
# A map smaller than the output
# -----------------------------
#
# *My map is 80×80, the network returns 96×96.* Suppose that you want to pass such a map of
# weights as ``v``. The size of the network's input does not matter: ``v`` has to have the
# size of the network's output. There are two remedies. You can crop the output to the part
# that the map covers, or you can write the map into a tensor of zeros that has the shape of
# the output. Both give the same gradient. Here is a small case with a map of 3×3 and an
# output of 5×5, computed from an image of 10×10:

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
# *Is it* ``gradient``\ *,* ``grad_outputs`` *or* ``grad_tensors``\ *?* The name depends on
# the call. All three names stand for the same ``v``, which follows the same rule, but if
# you use the name that belongs to another call, you get a ``TypeError``:

t = torch.ones(3, 2, requires_grad=True)
t.sum(1).backward(gradient=v)
torch.autograd.backward(t.sum(1), grad_tensors=v)  # adds the same product again
(product,) = torch.autograd.grad(t.sum(1), t, grad_outputs=v)
print(torch.equal(t.grad, 2 * product))
try:
    torch.autograd.backward(t.sum(1), grad_outputs=v)
except TypeError as error:
    print(error)

# %%
# Which dtypes of v PyTorch accepts
# ---------------------------------
#
# The shape must agree exactly, but the dtype may differ. Integers and float64 are cast to
# the dtype of ``y`` without a warning, so both products below end up in a float32
# ``p.grad``. Complex numbers are the exception. If one of ``v`` and ``y`` is complex, the
# other must be complex, too:

p.grad = None
attempt(p * q, torch.tensor([1, 2, 3]))
attempt(p * q, torch.ones(3, dtype=torch.float64))
print(p.grad, p.grad.dtype)
attempt((p * q).to(torch.complex64), torch.ones(3))
attempt(p * q, torch.ones(3, dtype=torch.complex64))

# %%
# If you are not sure, ask :func:`pullback.explain` before you call ``backward``. It names
# the shape that ``v`` must have, and says what would happen with your own ``v``:

import pullback

pullback.explain(lambda x: x.sum(1), torch.ones(3, 2), v=torch.ones(3, 2))

# %%
# We can also read the rule from the :term:`Jacobian`. For the row sums it has shape ``(3,
# 3, 2)``, which is the shape of ``y`` followed by the shape of ``x``. The product with
# ``v`` sums over the dimensions of ``y``, and the dimensions of ``x`` are left:

J = torch.func.jacfwd(lambda x: x.sum(1))(x.detach())
assert J.shape == y.shape + x.shape == (3, 3, 2)
assert torch.equal(x.grad, torch.tensordot(v, J, dims=y.ndim))

# %%
# Where next
# ----------
#
# :ref:`ones-trick` is about passing ones for many points, and :ref:`v-is-a-weight` is about
# weights other than 1. :ref:`two-meanings-of-dimension` explains what "dimension" means in
# mathematics and what it means in PyTorch.
#
# .. asked: shape of the gradient argument; v like x or like y; shape rule; broadcasting
#    of v; () and (1,) gradients; v of the wrong shape; does the vector I pass to backward
#    need to be float, on the same device, a tensor, with requires_grad; backward([1., 1.,
#    1.]) raised a TypeError, what are the rules; backward(torch.ones_like(inp)) from the
#    docs: shape of the input or of the output; the vector that I pass to backward does not
#    match the shape
# .. words: broadcast, (1,), (), column, refuse, mismatch, scalar, size one
