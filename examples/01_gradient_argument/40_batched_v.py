r"""
.. _batched-v:

Without the loop: batched v, vmap
=================================

To get many products at once, stack the ``v`` along a new first dimension and pass
``is_grads_batched=True`` to :func:`torch.autograd.grad`, or map over them with
:func:`torch.func.vmap`.
"""

# %%
# :math:`f(x)=(\sum x_i,\;\sum x_i^2)` maps ``(3,)`` to ``(2,)``. Its two rows take two
# one-hot vectors, which are the rows of ``torch.eye(2)``:

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = torch.stack([x.sum(), (x**2).sum()])
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.stack(rows)

# %%
# Without the loop: ``(N, 2)`` cotangents in, ``(N, 3)`` products out. ``backward`` has no
# such argument; ``grad`` has:

(J,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True, retain_graph=True)
J

# %%
# Any stack of cotangents will do, not only the identity. Three weightings of the same
# two outputs:

V = torch.tensor([[1.0, 1.0], [0.5, 0.5], [10.0, -1.0]])
(products,) = torch.autograd.grad(y, x, V, is_grads_batched=True)
products

# %%
# With torch.func
# ---------------
#
# :func:`torch.func.vjp` returns the value and a function of ``v``; :func:`torch.func.vmap`
# maps that function over the rows of ``V``:


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


value, pull = torch.func.vjp(f, x.detach())
(mapped,) = torch.func.vmap(pull)(V)
mapped

# %%
# Matrices out: y of shape ``(3, 2)`` has six entries, so the batch is ``(6, 3, 2)``, six
# one-hot matrices. This replaces the double loop over entries:

t = torch.tensor(2.0, requires_grad=True)
powers = torch.stack([t**0, t, t**2, t**3, t**4, t**5]).reshape(3, 2)
one_hots = torch.eye(6).reshape(6, 3, 2)
(entries,) = torch.autograd.grad(powers, t, one_hots, is_grads_batched=True)
entries.reshape(3, 2)

# %%
# What goes wrong
# ---------------
#
# *"Mismatch, though the shapes are equal"*: with ``is_grads_batched=True`` the first
# dimension is the batch, so a ``v`` of ``y``'s own shape has one dimension too few:

y = f(x)
try:
    torch.autograd.grad(y, x, torch.ones(2), is_grads_batched=True)
except RuntimeError as error:
    print(error)

# %%
# And without the flag, a stack has one too many:

try:
    torch.autograd.grad(y, x, torch.eye(2))
except RuntimeError as error:
    print(error)

# %%
# Not every code can be mapped. A function that branches on values stops ``vmap``:


def branching(x):
    return x.sum() if x[0] > 0 else (x**2).sum()


try:
    torch.func.vmap(branching)(torch.eye(2))
except RuntimeError as error:
    print(str(error).split(".")[0])

# %%
# Loop, flag and vmap agree, and so does the product with the Jacobian by hand:

by_hand = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
assert torch.equal(J, by_hand)
assert torch.equal(torch.stack(rows), by_hand)
assert torch.equal(products, V @ by_hand)
assert torch.equal(mapped, V @ by_hand)
assert torch.equal(entries, torch.arange(6) * 2.0 ** (torch.arange(6) - 1))

# %%
# Where next
# ----------
#
# All the ways to the whole Jacobian: :ref:`jacobian-at-once`. What a row of weights
# means: :ref:`v-is-a-weight`.
