r"""
.. _jacobian-row-by-row:

The whole Jacobian, row by row
==============================

One product with each :term:`one-hot <one-hot vector>` ``v`` gives one row; ``m``
products give the whole :term:`Jacobian`, from a single forward pass.
"""

# %%
# :math:`f(x)=(x_1x_2,\;x_1+x_3,\;x_3^2)` has the Jacobian
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1&0\\1&0&1\\0&0&2x_3\end{bmatrix}
#
# The rows of ``torch.eye(3)`` are the one-hot ``v``:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[2], x[2] ** 2])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
rows = [torch.autograd.grad(y, x, e, retain_graph=True)[0] for e in torch.eye(3)]
J = torch.stack(rows)
J

# %%
# ``retain_graph=True`` keeps the graph for the next row. The last row can do without.
# With ``backward`` in place of ``grad``, ``x.grad`` must be emptied before each row:

rows = []
for i, e in enumerate(torch.eye(3)):
    x.grad = None
    y.backward(e, retain_graph=i < 2)
    rows.append(x.grad)
torch.equal(torch.stack(rows), J)

# %%
# *The loop with retain_graph, or one call with is_grads_batched=True?* The same rows. One
# call is faster (:ref:`ways-measured`) and holds all N products on its way; the loop holds
# one, and takes what :term:`vmap` refuses (:ref:`vmap-limits`). The largest tensor of a
# backward pass, for ten rows by either:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    size = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.size = max(self.size, getattr(result, "numel", int)())
        return result


# %%
# Through a hidden layer of 500:

z = torch.ones(10, 500) @ (torch.ones(500, 3) @ x).sin()
with Largest() as loop:
    ten = [torch.autograd.grad(z, x, v, retain_graph=True)[0] for v in torch.eye(10)]
with Largest() as batch:
    (at_once,) = torch.autograd.grad(z, x, torch.eye(10), is_grads_batched=True)
loop.size, batch.size

# %%
# Drawn, with the ``v`` that picks the middle row:

import pullback

pullback.draw.vjp(torch.tensor([0.0, 1.0, 0.0]), J)

# %%
# *I only need the gradient of one entry.* Then take one product and no Jacobian: ``y[i]``
# is one number, and needs no ``v``. Its indexing makes the one-hot vector on the way back:

y = f(x)
y.register_hook(lambda v: print("arrives at y:", v))
(second,) = torch.autograd.grad(y[1], x)
second

# %%
# The middle input takes no part in it, and gets a 0. *Expected None?* None belongs to whole
# tensors that take no part, and 0 to single entries.
#
# Tensors out
# -----------
#
# For ``y`` of any shape loop over its entries, flattened, and give the result the shape
# ``y.shape + x.shape``. For :math:`\begin{bmatrix}1&x\\x^2&x^3\\x^4&x^5\end{bmatrix}` at 2:

t = torch.tensor(2.0, requires_grad=True)
powers = t ** torch.arange(6.0).reshape(3, 2)
entries = [
    torch.autograd.grad(entry, t, retain_graph=True)[0] for entry in powers.flatten()
]
torch.stack(entries).reshape(powers.shape + t.shape)

# %%
# *A hidden layer's output by an earlier one's?* The same: ``grad`` takes any tensor on the
# way, leaf or not, and nothing has to be marked. Of ``z`` by the hidden ``h`` of 500:

h = (torch.ones(500, 3) @ x).sin()
z = torch.ones(10, 500) @ h
(hidden,) = torch.autograd.grad(z, h, torch.eye(10), is_grads_batched=True)
hidden.shape

# %%
# What goes wrong
# ---------------
#
# *Q by a should be a 2×2 matrix; why is a.grad a 2-vector?* ``backward`` gives one product
# :math:`v^\top J`, never :math:`J`. For :math:`Q=3a^3-b^2`, elementwise, ones happen to
# show all that is not zero, the diagonal :math:`9a_i^2`:

a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0])
(3 * a**3 - b**2).backward(torch.ones(2))
print(a.grad)
torch.func.jacrev(lambda a: 3 * a**3 - b**2)(a.detach())

# %%
# *My J is the transpose of what jacobian gives.* What a one-hot ``v`` for output i leaves
# in ``x.grad`` is row i, ``J[i]``. In ``J[:, i]`` it makes a column, and nothing complains
# where J is square; where it is symmetric, nobody notices:

columns = torch.empty(3, 3)
for i, row in enumerate(rows):
    columns[:, i] = row
print(torch.equal(columns, J), torch.equal(columns, J.T))

# %%
# Without ``retain_graph`` the second row fails: the first call freed what it needs:

y = f(x)
torch.autograd.grad(y, x, torch.eye(3)[0])
try:
    torch.autograd.grad(y, x, torch.eye(3)[1])
except RuntimeError as error:
    print(error)

# %%
# One call with a list of outputs does not stack rows. *Several outputs are summed*:

y = f(x)
torch.autograd.grad([y[0], y[1], y[2]], x)[0]

# %%
# :func:`pullback.jacobian` does the rows in one call. It agrees with the loop, with the
# formula at :math:`(1,2,3)`, and with columns from :term:`forward mode`:

assert torch.equal(J, torch.tensor([[2.0, 1, 0], [1, 0, 1], [0, 0, 6]]))
assert torch.equal(second, J[1])
assert torch.equal(hidden, torch.ones(10, 500))
torch.testing.assert_close(torch.stack(ten), at_once)
assert torch.equal(pullback.jacobian(f, x.detach()), J)
assert torch.equal(torch.func.jacfwd(f)(x.detach()), J)
assert torch.equal(torch.stack(entries), torch.arange(6) * 2.0 ** (torch.arange(6) - 1))

# %%
# *one-hot* walks through the rows:

pullback.live(f, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))

# %%
# Where next
# ----------
#
# Without the loop: :ref:`jacobian-at-once`. One row only: :ref:`one-component`.
#
# .. asked: Jacobian in a loop; one row for each backward; Jacobian with one-hot
#    vectors; for loop over outputs
