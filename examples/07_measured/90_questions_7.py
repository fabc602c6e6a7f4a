r"""
.. _chapter-7-questions:

What it costs, in three questions
=================================

Do you know what is cheap and what is not? Here are three questions. Answer each of them
before you run the cell below it. Nothing on this page is timed. The cells count operations
or look at a graph, and so they give the same results on your machine.
"""

# %%
# 1. A million inputs, one output
# -------------------------------
#
# A network has a million inputs and one loss. You want the gradient with respect to all
# inputs. How many forward passes does this cost: a million, a thousand, or about one?

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
# It costs as much as one forward pass, because the product with the transposed weights
# takes as many operations as the product with the weights. (:ref:`cost-of-one-vjp`)
#
# 2. More outputs than inputs
# ---------------------------
#
# Your function has three inputs and 500 outputs, and you want the whole :term:`Jacobian`.
# Do you compute it by rows, with ``jacrev``, or by columns, with ``jacfwd``?

A = torch.linspace(-1, 1, 1500).reshape(500, 3)


def f(x):
    return torch.tanh(x @ A.T).squeeze(0)


point = torch.ones(1, 3)
rows = flops(torch.func.jacrev(f), point)
columns = flops(torch.func.jacfwd(f), point)
print(f"rows / columns = {rows / columns:.0f}")

# %%
# You compute it by columns, because three products are enough for all columns, whereas the
# rows need 500. (:ref:`ways-measured`, :ref:`reverse-or-forward`)
#
# 3. Which of these keeps memory?
# -------------------------------
#
# You add up the losses to print their mean at the end of the epoch. Which line keeps the
# graph of every step: ``total += loss``, ``total += loss.item()``, both, or neither?


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
# Only ``total += loss`` does, because then ``total`` has a graph, and this graph contains
# the graphs of all the losses. (:ref:`memory-measured`)
#
# As a check, we compare the gradient of the first question and the Jacobian of the second
# with formulas. Row i of this Jacobian is :math:`(1-\tanh^2)` times row i of ``A``:

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
# For the functions that you can use in your own programs, see :ref:`api`. All questions and
# their answers are listed in :ref:`questions`.
