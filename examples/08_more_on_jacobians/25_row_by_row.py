r"""
.. _jacobian-row-by-row:

The whole Jacobian, row by row
==============================

You want the whole :term:`Jacobian`, and ``backward`` gives only one product. The product
with a :term:`one-hot <one-hot vector>` ``v`` is one row of the Jacobian, so for m outputs,
m products give all the rows, from a single forward pass.
"""

# %%
# Our example is :math:`f(x)=(x_1x_2,\;x_1+x_3,\;x_3^2)`, which has the Jacobian
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1&0\\1&0&1\\0&0&2x_3\end{bmatrix}
#
# The one-hot vectors ``v`` are the rows of ``torch.eye(3)``. We take one product with each
# of these rows and stack the results:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[2], x[2] ** 2])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
rows = [torch.autograd.grad(y, x, e, retain_graph=True)[0] for e in torch.eye(3)]
J = torch.stack(rows)
J

# %%
# ``retain_graph=True`` keeps the graph for the next row, so the call for the last row can
# do without this argument. You can also use ``backward`` in place of ``grad``. In that case
# clear ``x.grad`` before each row, or the rows add up:

rows = []
for i, e in enumerate(torch.eye(3)):
    x.grad = None
    y.backward(e, retain_graph=i < 2)
    rows.append(x.grad)
torch.equal(torch.stack(rows), J)

# %%
# *The loop with retain_graph, or one call with is_grads_batched=True?* Both give the same
# rows. The single call is faster (:ref:`ways-measured`), but it holds all the products in
# memory at the same time. The loop holds one product at a time, and also works for
# functions that :term:`vmap` refuses (:ref:`vmap-limits`). To see the difference in memory,
# we record the size of the largest tensor in a backward pass:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    size = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.size = max(self.size, getattr(result, "numel", int)())
        return result


# %%
# We compute ten rows of a Jacobian through a hidden layer of 500 units, first with the
# loop, then with the single call:

z = torch.ones(10, 500) @ (torch.ones(500, 3) @ x).sin()
with Largest() as loop:
    ten = [torch.autograd.grad(z, x, v, retain_graph=True)[0] for v in torch.eye(10)]
with Largest() as batch:
    (at_once,) = torch.autograd.grad(z, x, torch.eye(10), is_grads_batched=True)
loop.size, batch.size

# %%
# The largest tensor of the single call is ten times as large as the largest tensor of the
# loop.
#
# The drawing shows our 3×3 Jacobian again, with the ``v`` that picks the middle row:

import pullback

pullback.draw.vjp(torch.tensor([0.0, 1.0, 0.0]), J)

# %%
# *I only need the gradient of one entry.* For one entry you need one product, and no
# Jacobian. ``y[i]`` is one number, and needs no ``v``. In the backward pass the indexing
# makes the one-hot vector, as a hook on ``y`` shows:

y = f(x)
y.register_hook(lambda v: print("arrives at y:", v))
(second,) = torch.autograd.grad(y[1], x)
second

# %%
# The middle input does not influence this entry of ``y``, and so it gets a 0. *I expected
# None.* If a whole tensor has no influence, its ``.grad`` stays None, and ``grad`` returns
# None for it if you pass ``allow_unused=True``. If a single entry has no influence, you get
# 0 for this entry.
#
# When y is a tensor
# ------------------
#
# If ``y`` is not a vector, flatten it, loop over its entries, and give the result the shape
# ``y.shape + x.shape``. Here is the derivative of
# :math:`\begin{bmatrix}1&x\\x^2&x^3\\x^4&x^5\end{bmatrix}` at 2:

t = torch.tensor(2.0, requires_grad=True)
powers = t ** torch.arange(6.0).reshape(3, 2)
entries = [
    torch.autograd.grad(entry, t, retain_graph=True)[0] for entry in powers.flatten()
]
torch.stack(entries).reshape(powers.shape + t.shape)

# %%
# *How do I differentiate a hidden layer's output with respect to an earlier one's?* You do
# it in the same way. ``grad`` accepts any tensor of the graph as its input, leaf or not,
# and you need not mark the tensor beforehand. Here is the shape of the Jacobian of ``z``
# with respect to the hidden ``h``, which has 500 entries:

h = (torch.ones(500, 3) @ x).sin()
z = torch.ones(10, 500) @ h
(hidden,) = torch.autograd.grad(z, h, torch.eye(10), is_grads_batched=True)
hidden.shape

# %%
# What goes wrong
# ---------------
#
# *The derivative of Q with respect to a should be a 2×2 matrix; why is a.grad a
# 2-vector?* Because ``backward`` gives one product :math:`v^\top J`, never :math:`J`
# itself. For :math:`Q=3a^3-b^2`, which is elementwise, only the diagonal entries
# :math:`9a_i^2` of J are not zero. So with ones you happen to see all of them:

a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0])
(3 * a**3 - b**2).backward(torch.ones(2))
print(a.grad)
torch.func.jacrev(lambda a: 3 * a**3 - b**2)(a.detach())

# %%
# *My J is the transpose of what jacobian gives.* A one-hot ``v`` for output i leaves row i
# of J in ``x.grad``, so ``x.grad`` belongs in ``J[i]``. If you write it to ``J[:, i]``, the
# row becomes a column. PyTorch raises no error if J is square, and nobody notices the
# mistake if J is symmetric:

columns = torch.empty(3, 3)
for i, row in enumerate(rows):
    columns[:, i] = row
print(torch.equal(columns, J), torch.equal(columns, J.T))

# %%
# If you leave out ``retain_graph``, the second row fails, because the first call has
# freed the values that the second call needs:

y = f(x)
torch.autograd.grad(y, x, torch.eye(3)[0])
try:
    torch.autograd.grad(y, x, torch.eye(3)[1])
except RuntimeError as error:
    print(error)

# %%
# *Can I pass all outputs in one call?* You can, but ``grad`` does not stack the rows for a
# list of outputs. It sums them:

y = f(x)
torch.autograd.grad([y[0], y[1], y[2]], x)[0]

# %%
# :func:`pullback.jacobian` computes all rows in one call. We compare its result with the
# loop, with the formula at :math:`(1,2,3)`, and with columns from :term:`forward mode`:

assert torch.equal(J, torch.tensor([[2.0, 1, 0], [1, 0, 1], [0, 0, 6]]))
assert torch.equal(second, J[1])
assert torch.equal(hidden, torch.ones(10, 500))
torch.testing.assert_close(torch.stack(ten), at_once)
assert torch.equal(pullback.jacobian(f, x.detach()), J)
assert torch.equal(torch.func.jacfwd(f)(x.detach()), J)
assert torch.equal(torch.stack(entries), torch.arange(6) * 2.0 ** (torch.arange(6) - 1))

# %%
# Below is the same f. Press *one-hot* to go through the rows one by one:

pullback.live(f, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))

# %%
# Where next
# ----------
#
# :ref:`jacobian-at-once` computes the whole Jacobian without the loop, and
# :ref:`one-component` is about a single row.
#
# .. asked: Jacobian in a loop; one row for each backward; Jacobian with one-hot
#    vectors; for loop over outputs
# .. words: loop, eye, retain, each output, stack, simple way
