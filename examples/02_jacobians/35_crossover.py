r"""
.. _reverse-or-forward:

Reverse or forward: where is the crossover?
===========================================

Reverse mode takes a product for each *output*, forward mode one for each *input*. Count
the numbers on both sides: fewer outputs, reverse; fewer inputs, forward.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R^m` a :term:`VJP` gives a row of the
# :math:`m\times n` Jacobian and a :term:`JVP` a column:
#
# ===============  ===================  ==================
# mode             one product gives    products for J
# ===============  ===================  ==================
# reverse          a row, n numbers     m
# forward          a column, m numbers  n
# ===============  ===================  ==================
#
# Work is counted here, not timed, so that it is the same on every machine:
# ``FlopCounterMode`` adds up the operations of all matrix products.

import torch
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    counter = FlopCounterMode(display=False)
    with counter:
        function(*args)
    return counter.get_total_flops()


# %%
# A small network from ``n`` inputs to ``m`` outputs, with a hidden layer of 32. The seed
# only makes the weights repeatable; counts do not depend on them:


def network(n, m):
    torch.manual_seed(0)
    A, B = torch.randn(32, n), torch.randn(m, 32)
    return lambda x: B @ torch.tanh(A @ x)


# %%
# With 64 numbers in and ``m`` out, reverse mode grows with ``m`` while forward mode pays
# for 64 columns whatever ``m`` is:

for m in (1, 8, 32, 64, 128, 512):
    f, x = network(64, m), torch.ones(64)
    reverse = flops(torch.func.jacrev(f), x)
    forward = flops(torch.func.jacfwd(f), x)
    print(f"m = {m:3}  reverse / forward = {reverse / forward:5.2f}")

# %%
# The crossover lies where the counts of numbers meet, near :math:`m=n=64`: below it
# reverse mode does less, above it forward mode.
#
# The extremes
# ------------
#
# A loss has one output: one row, however many parameters. A curve has one input: one
# column gives all the outputs, here a thousand derivatives from a single product:

t = torch.tensor(0.5)
wave = torch.arange(1000.0)
_, column = torch.func.jvp(lambda t: torch.sin(wave * t), (t,), (torch.ones(()),))
column.shape

# %%
# Not every operation has a forward mode, and memory differs, too: reverse mode keeps the
# values of the forward pass (:ref:`never-forms-j`), forward mode drops them as it goes.
#
# ``pullback.jacobian(mode="auto")`` chooses by a rule that was measured, which weighs
# more than the two counts; the recorded times are in :ref:`measured`:

import pullback

for n, m in ((784, 10), (10, 784)):
    f, x = network(n, m), torch.linspace(0, 1, n)
    print(n, "->", m, tuple(pullback.jacobian(f, x).shape))

# %%
# What goes wrong
# ---------------
#
# Choosing by the names: ``jacfwd`` is *not* the cheap one for a loss. For one output and
# 784 inputs it does this many times the work:

f, x = network(784, 1), torch.ones(784)
round(flops(torch.func.jacfwd(f), x) / flops(torch.func.jacrev(f), x))

# %%
# All modes agree; only the work differs:

f, x = network(6, 4), torch.linspace(-1, 1, 6)
J = torch.func.jacrev(f)(x)
for mode in ("auto", "reverse", "forward"):
    torch.testing.assert_close(pullback.jacobian(f, x, mode=mode), J)
torch.testing.assert_close(torch.func.jacfwd(f)(x), J)
torch.testing.assert_close(column, wave * torch.cos(wave * t))
small, large = network(64, 8), network(64, 512)
x = torch.ones(64)
assert flops(torch.func.jacrev(small), x) < flops(torch.func.jacfwd(small), x)
assert flops(torch.func.jacrev(large), x) > flops(torch.func.jacfwd(large), x)

# %%
# Where next
# ----------
#
# When most of J is zero: :ref:`sparse-jacobian`. A batch of independent samples:
# :ref:`jacobian-per-sample`.
