r"""
.. _chapter-7-questions:

What it costs, in three questions
=================================

Answer each before you run the cell under it. Here too nothing is timed: the cells count,
so that they say the same on your machine.
"""

# %%
# 1. A million inputs, one output
# -------------------------------
#
# A network has a million inputs and one loss. How many forward passes' worth of work is the
# gradient by all of them: a million, a thousand, or about one?

import torch
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


W = torch.full((4, 1_000_000), 0.001)


def loss(x):
    return torch.tanh(x @ W.T).sum()


x = torch.zeros(1, 1_000_000, requires_grad=True)
work = flops(torch.autograd.grad, loss(x), x) / flops(loss, x)
work

# %%
# One: the product with the transposed weights is as large as the product with the weights.
# (:ref:`cost-of-one-vjp`)
#
# 2. More outputs than inputs
# ---------------------------
#
# Three inputs, 500 outputs, the whole :term:`Jacobian`. Rows by ``jacrev`` or columns by
# ``jacfwd``?

A = torch.linspace(-1, 1, 1500).reshape(500, 3)


def f(x):
    return torch.tanh(x @ A.T).squeeze(0)


point = torch.ones(1, 3)
rows = flops(torch.func.jacrev(f), point)
columns = flops(torch.func.jacfwd(f), point)
print(f"rows / columns = {rows / columns:.0f}")

# %%
# Columns: three pushes in place of 500 products. (:ref:`ways-measured`,
# :ref:`reverse-or-forward`)
#
# 3. Which of these keeps memory?
# -------------------------------
#
# You add up losses to print their mean at the end of the epoch. Does ``total += loss`` or
# ``total += loss.item()`` keep every step's graph? Or both, or none?


def graph_kept(add):
    total, w = torch.tensor(0.0), torch.ones(3, requires_grad=True)
    for _ in range(3):
        loss = (w**2).sum()
        loss.backward()
        total = total + add(loss)
    return isinstance(total, torch.Tensor) and total.requires_grad


kept = [graph_kept(lambda loss: loss), graph_kept(torch.Tensor.item)]
kept

# %%
# The first does: the total has a history. (:ref:`memory-measured`)
#
# The answers, checked by formulas: the gradient of the first, the Jacobian of the second,
# whose row i is :math:`(1-\tanh^2)` times row i of ``A``:

(g,) = torch.autograd.grad(loss(x), x)
torch.testing.assert_close(g, W.sum(0, keepdim=True))
J = torch.func.jacfwd(f)(point)[:, 0]
torch.testing.assert_close(J, (1 - f(point) ** 2)[:, None] * A)
assert work == 1
assert rows > 100 * columns
assert kept == [True, False]

# %%
# Where next
# ----------
#
# Your own functions: :ref:`api`. All questions: :ref:`questions`.
