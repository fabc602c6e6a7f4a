r"""
.. _batched-v:

Without the loop: batched v, vmap
=================================

To get many products in one call, stack the ``v`` along a new first dimension and pass
``is_grads_batched=True`` to :func:`torch.autograd.grad`, or map over them with
:func:`torch.func.vmap`.
"""

# %%
# :math:`f(x)=(\sum x_i,\;\sum x_i^2)` maps ``(3,)`` to ``(2,)``. The two rows of its
# :term:`Jacobian` take two :term:`one-hot vectors <one-hot vector>`, which are the rows
# of ``torch.eye(2)``:

import torch


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.stack(rows)

# %%
# Without the loop: :term:`cotangents <cotangent>` of shape ``(N, 2)`` in, products of
# shape ``(N, 3)`` out. ``y.backward`` has no such argument, as one ``x.grad`` has no room
# for several products:

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
# :func:`torch.func.vjp` returns the value and a function of ``v``, the
# :term:`pullback`; :term:`vmap` maps that function over the rows of ``V``:

value, pull = torch.func.vjp(f, x.detach())
(mapped,) = torch.func.vmap(pull)(V)
mapped

# %%
# Call it as often as you like: it keeps its graph by itself. For a function with
# several outputs it takes their cotangents in a tuple, or as the outputs are nested:

_, pull_both = torch.func.vjp(lambda x: (x.sum(), x**2), x.detach())
for one in (torch.tensor(1.0), torch.tensor(10.0)):
    print(pull_both((one, torch.ones(3)))[0])

# %%
# Matrices out
# ------------
#
# A ``y`` of shape ``(3, 2)`` has six entries, so the batch is ``(6, 3, 2)``, six
# one-hot matrices. This replaces the double loop over entries in :ref:`matrices`:

t = torch.tensor(2.0, requires_grad=True)
powers = torch.stack([t**0, t, t**2, t**3, t**4, t**5]).reshape(3, 2)
one_hots = torch.eye(6).reshape(6, 3, 2)
(entries,) = torch.autograd.grad(powers, t, one_hots, is_grads_batched=True)
entries.reshape(3, 2)

# %%
# *Several outputs?* Split the identity: each output gets its own columns of it, in its own
# shape, so that a row of the batch is one-hot over all the outputs together:

total, squares = x.sum(), x**2
for_total, for_squares = torch.eye(4).split((1, 3), dim=1)
(all_rows,) = torch.autograd.grad(
    [total, squares], x, [for_total[:, 0], for_squares], is_grads_batched=True
)
all_rows

# %%
# A Jacobian for each point of a batch
# ------------------------------------
#
# *How do I get the Jacobian of each sample with* ``is_grads_batched``\ *?* Four points
# with three outputs each: three ``v`` of ``y``'s shape ``(4, 3)``, each with ones at one
# output of every point. The points must not mix (:ref:`ones-trick`):


def g(x):
    return torch.stack([x.sum(-1), x.prod(-1), (x**2).sum(-1)], -1)


X = torch.arange(8.0).reshape(4, 2).requires_grad_()
V3 = torch.eye(3)[:, None, :].expand(3, 4, 3)
(by_output,) = torch.autograd.grad(g(X), X, V3, is_grads_batched=True)
per_point = by_output.transpose(0, 1)
print(tuple(by_output.shape), "->", tuple(per_point.shape))
per_point[1]

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
# Not every function can be mapped. One that branches on values stops ``vmap``; with
# :func:`torch.where` it takes both branches and picks, point by point:


def branching(x):
    return x.sum() if x[0] > 0 else (x**2).sum()


points = torch.tensor([[1.0, 2.0], [-1.0, 2.0]])
try:
    torch.func.vmap(branching)(points)
except RuntimeError as error:
    print(str(error).split(".")[0])
torch.func.vmap(lambda x: torch.where(x[0] > 0, x.sum(), (x**2).sum()))(points)

# %%
# Loop, flag and vmap agree with the products by hand, and the batch of points with
# :func:`torch.func.jacrev` mapped over them:

by_hand = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
assert torch.equal(J, by_hand)
assert torch.equal(torch.stack(rows), by_hand)
assert torch.equal(products, V @ by_hand)
assert torch.equal(mapped, V @ by_hand)
assert torch.equal(all_rows, torch.cat([torch.ones(1, 3), torch.diag(2 * x.detach())]))
assert torch.equal(entries, torch.arange(6) * 2.0 ** (torch.arange(6) - 1))
assert torch.equal(per_point, torch.func.vmap(torch.func.jacrev(g))(X.detach()))

# %%
# Where next
# ----------
#
# All the ways to the whole Jacobian: :ref:`jacobian-at-once`. What a row of weights
# means: :ref:`v-is-a-weight`.
#
# .. asked: many v at once; is_grads_batched; batch of vectors; vmap over v; several
#    vector-Jacobian products in one call
