r"""
.. _batched-v:

Without the loop: batched v, vmap
=================================

One call to ``backward`` gives you one product. If you need the products for ten or a
thousand ``v``, do you have to call ``backward`` in a loop? No, you can stack the ``v``
along a new first dimension and pass ``is_grads_batched=True`` to
:func:`torch.autograd.grad`. Or you can map a function over them with
:func:`torch.func.vmap`.
"""

# %%
# Take :math:`f(x)=(\sum x_i,\;\sum x_i^2)`, from shape ``(3,)`` to shape ``(2,)``. For the
# two rows of its :term:`Jacobian` we need two :term:`one-hot vectors <one-hot vector>`, and
# these are the rows of ``torch.eye(2)``. A loop takes one product for each of them:

import torch


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.stack(rows)

# %%
# Without the loop, we pass the whole identity as one batch. In general, :term:`cotangents
# <cotangent>` of shape ``(N, 2)`` go in, and products of shape ``(N, 3)`` come out.
# ``y.backward`` has no such argument, because one ``x.grad`` has no room for several
# products:

(J,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True, retain_graph=True)
J

# %%
# The batch may be any stack of cotangents, and not only the identity. Here are three
# different weightings of the same two outputs:

V = torch.tensor([[1.0, 1.0], [0.5, 0.5], [10.0, -1.0]])
(products,) = torch.autograd.grad(y, x, V, is_grads_batched=True)
products

# %%
# With torch.func
# ---------------
#
# :func:`torch.func.vjp` returns the value, and a function that takes a ``v`` and returns
# its product. This function is called the :term:`pullback`, and :term:`vmap` maps it over
# the rows of ``V``:

value, pull = torch.func.vjp(f, x.detach())
(mapped,) = torch.func.vmap(pull)(V)
mapped

# %%
# You may call the pullback as often as you like, because it keeps its graph by itself. If
# the function has several outputs, the pullback takes one cotangent for each of them, in a
# tuple, or nested as the outputs are. In the first line of the output, the first output has
# the weight 1, and in the second line it has the weight 10:

_, pull_both = torch.func.vjp(lambda x: (x.sum(), x**2), x.detach())
for one in (torch.tensor(1.0), torch.tensor(10.0)):
    print(pull_both((one, torch.ones(3)))[0])

# %%
# A batch of v when y is a matrix
# -------------------------------
#
# The batch dimension always comes first, and the shape of ``y`` follows. A ``y`` of shape
# ``(3, 2)`` has six entries, and so the batch of one-hot matrices has shape ``(6, 3, 2)``.
# One call with this batch replaces the double loop over the entries in :ref:`matrices`:

t = torch.tensor(2.0, requires_grad=True)
powers = torch.stack([t**0, t, t**2, t**3, t**4, t**5]).reshape(3, 2)
one_hots = torch.eye(6).reshape(6, 3, 2)
(entries,) = torch.autograd.grad(powers, t, one_hots, is_grads_batched=True)
entries.reshape(3, 2)

# %%
# *What if there are several outputs?* Each output gets its own part of the identity. Split
# the identity by columns, and give each part the shape of its output. Then a row of the
# batch is one-hot over all the outputs together. In the result below, the first row belongs
# to the total, and the three others belong to the squares:

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
# *How do I get the Jacobian of each sample with* ``is_grads_batched``\ *?* If the points
# do not mix (:ref:`ones-trick`), you need only as many products as there are outputs for
# each point. Four points with three outputs each take three ``v`` of shape ``(4, 3)``.
# Each ``v`` has ones at one output of every point:


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
# *"Mismatch, though the shapes are equal."* With ``is_grads_batched=True``, the first
# dimension of ``v`` is the batch. So a ``v`` that has the shape of ``y`` itself has one
# dimension too few:

y = f(x)
try:
    torch.autograd.grad(y, x, torch.ones(2), is_grads_batched=True)
except RuntimeError as error:
    print(error)

# %%
# Without the flag, a stack of cotangents has one dimension too many:

try:
    torch.autograd.grad(y, x, torch.eye(2))
except RuntimeError as error:
    print(error)

# %%
# Some functions cannot be mapped. ``vmap`` raises an error if the function branches on the
# values of a tensor. If you write the function with :func:`torch.where` instead, both
# branches are computed, and the result is picked point by point:


def branching(x):
    return x.sum() if x[0] > 0 else (x**2).sum()


points = torch.tensor([[1.0, 2.0], [-1.0, 2.0]])
try:
    torch.func.vmap(branching)(points)
except RuntimeError as error:
    print(str(error).split(".")[0])
torch.func.vmap(lambda x: torch.where(x[0] > 0, x.sum(), (x**2).sum()))(points)

# %%
# As a check, we compare the results of the loop, of ``is_grads_batched`` and of ``vmap``
# with products that we work out by hand. For the batch of points, we compare the Jacobians
# with the results of :func:`torch.func.jacrev`, mapped over the points:

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
# :ref:`jacobian-at-once` compares all the ways to compute the whole Jacobian, and
# :ref:`v-is-a-weight` explains what a row of weights means.
#
# .. asked: many v at once; is_grads_batched; batch of vectors; vmap over v; several
#    vector-Jacobian products in one call
# .. words: loop, stack, faster, many vectors, rows at once, eye
