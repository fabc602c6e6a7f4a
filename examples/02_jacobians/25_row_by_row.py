r"""
.. _jacobian-row-by-row:

The whole Jacobian, row by row
==============================

One product with each one-hot ``v`` gives one row; ``m`` products give the whole Jacobian,
from a single forward pass.
"""

# %%
# :math:`f(x)=(x_1x_2,\;x_1+x_3,\;x_3^2)` has the Jacobian
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1&0\\1&0&1\\0&0&2x_3\end{bmatrix}

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[2], x[2] ** 2])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = f(x)
rows = [torch.autograd.grad(y, x, e, retain_graph=True)[0] for e in torch.eye(3)]
J = torch.stack(rows)
J

# %%
# ``retain_graph=True`` keeps the graph for the next row; the last row could do without.
# With ``backward`` in place of ``grad``, ``x.grad`` must be emptied before each row:

rows = []
for i in range(3):
    x.grad = None
    y.backward(torch.eye(3)[i], retain_graph=True)
    rows.append(x.grad)
torch.equal(torch.stack(rows), J)

# %%
# A one-hot ``v`` and an index are the same: ``y[i]`` is one number, and needs no ``v``.
# *I only need the gradient of one entry*, then, is one product and not a Jacobian:

(second,) = torch.autograd.grad(y[1], x, retain_graph=True)
second

# %%
# Tensors out
# -----------
#
# For ``y`` of any shape loop over its entries, flattened, and give the result the shape
# ``y.shape + x.shape``. For :math:`\begin{bmatrix}1&x\\x^2&x^3\\x^4&x^5\end{bmatrix}`:

t = torch.tensor(2.0, requires_grad=True)
powers = t ** torch.arange(6.0).reshape(3, 2)
entries = [
    torch.autograd.grad(entry, t, retain_graph=True)[0] for entry in powers.flatten()
]
torch.stack(entries).reshape(powers.shape + t.shape)

# %%
# Drawn, with the ``v`` that picks the middle row:

import pullback.plot

picture = pullback.plot.vjp(torch.tensor([0.0, 1.0, 0.0]), J)

# %%
# What goes wrong
# ---------------
#
# Without ``retain_graph`` the second row fails: the first call freed what it needs:

y = f(x)
torch.autograd.grad(y, x, torch.eye(3)[0])
try:
    torch.autograd.grad(y, x, torch.eye(3)[1])
except RuntimeError as error:
    print(str(error).split(". ")[0])

# %%
# One call with a list of outputs does not stack rows. *Several outputs are summed*:

y = f(x)
torch.autograd.grad([y[0], y[1], y[2]], x)[0]

# %%
# :func:`pullback.jacobian` does the rows in one call. It agrees with the loop, with the
# formula at :math:`(1,2,3)`, and with columns from forward mode:

import pullback

assert torch.equal(J, torch.tensor([[2.0, 1, 0], [1, 0, 1], [0, 0, 6]]))
assert torch.equal(pullback.jacobian(f, x.detach()), J)
assert torch.equal(torch.func.jacfwd(f)(x.detach()), J)
assert torch.equal(torch.stack(entries), torch.arange(6) * 2.0 ** (torch.arange(6) - 1))

# %%
# Where next
# ----------
#
# Without the loop: :ref:`jacobian-at-once`. One row only: :ref:`one-component`.
