r"""
.. _reverse-or-forward:

Reverse or forward: where is the crossover?
===========================================

``jacrev`` and ``jacfwd`` give you the same :math:`J`. Which one does less work?
:term:`Reverse mode <reverse mode>` takes one product for each *output*, and :term:`forward
mode` takes one for each *input*. With fewer outputs than inputs, reverse mode does less
work, and with fewer inputs than outputs, forward mode does less. For a dense :math:`J`, the
crossover is about where :math:`J` is square.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R^m`, a :term:`VJP` gives one row of the
# :math:`m\times n` :term:`Jacobian`, and a :term:`JVP` gives one column:
#
# ====================  ===================  ==================
# mode                  one product gives    products for J
# ====================  ===================  ==================
# :term:`reverse mode`  a row, n numbers     m
# :term:`forward mode`  a column, m numbers  n
# ====================  ===================  ==================
#
# On this page we count the work and do not time it, so that you get the same figures on
# every machine. ``FlopCounterMode`` adds up the operations of all products of two
# matrices:

import torch
from torch.utils.flop_counter import FlopCounterMode


def flops(function, x):
    with FlopCounterMode(display=False) as counter:
        function(x)
    return counter.get_total_flops()


# %%
# Our example is a small network from ``n`` inputs to ``m`` outputs, with a hidden layer of
# 32 units. The counter leaves out products of a matrix and a vector, and so we write the
# input as a matrix with one column. A forward pass takes two operations for each weight, a
# multiplication and an addition:


def network(n, m):
    A, B = torch.linspace(-1, 1, 32 * n), torch.linspace(-1, 1, m * 32)
    A, B = A.reshape(32, n), B.reshape(m, 32)
    return lambda x: (B @ torch.tanh(A @ x.unsqueeze(1))).squeeze(1)


flops(network(64, 8), torch.ones(64)) == 2 * (32 * 64 + 8 * 32)

# %%
# Now let 64 numbers go in and ``m`` numbers come out. We divide the work of each mode by
# the work of one forward pass. You can see that the work of reverse mode grows with ``m``,
# whereas forward mode pays for 64 columns, whatever ``m`` is:


def passes(way, n, m):
    f, x = network(n, m), torch.linspace(0, 1, n)
    return flops(way(f), x) / flops(f, x)


ways = torch.func.jacrev, torch.func.jacfwd
for m in (1, 8, 32, 64, 128, 512):
    reverse, forward = (passes(way, 64, m) for way in ways)
    print(f"m = {m:3}   reverse {reverse:5.1f}   forward {forward:5.1f}")

# %%
# Reverse mode costs the forward pass and ``m`` products. Forward mode costs ``n`` products
# and two more passes. One of these two is the forward pass itself. In the other, the
# :term:`tangents <tangent>` of the weights are multiplied. They are zero, but they are
# still multiplied. So the crossover of this network is at :math:`m=n`, give or take one.
#
# Few inputs, or few outputs
# --------------------------
#
# *For one shared number C and a batch of outputs, ones give me 45: how do I get each
# dy/dC?* A ``v`` of ones adds up the ten derivatives. But there is only one input, and so
# :math:`J` has only one column. A single product in forward mode computes this column, and
# keeps the ten derivatives apart:

C = torch.tensor(2.0, requires_grad=True)
batch = torch.arange(10.0)
print(torch.autograd.grad(C * batch, C, torch.ones(10))[0])
value, column = torch.func.jvp(lambda C: C * batch, (C.detach(),), (torch.ones(()),))
column

# %%
# *One time for each sample, t of shape (N,), and d net/dt at every pixel: N·C·H·W backward
# passes?* One ``jvp`` is enough, with ones for the tangent. In this function each output
# sample depends on its own time alone, so you may change all the times at once, and the
# derivatives of different samples still do not mix. A backward pass with ones, whose result
# is printed last, gives only the sums over the pixels:

t, images = torch.tensor([0.5, 1.0]), torch.arange(8.0).reshape(2, 1, 2, 2)
move = lambda t: t[:, None, None, None] ** 2 * images
pixels = torch.func.jvp(move, (t,), (torch.ones(2),))[1]
print(pixels.tolist(), torch.func.vjp(move, t)[1](torch.ones(2, 1, 2, 2))[0])

# %%
# A loss is the other extreme. It has one output, and so :math:`J` is one row, however many
# inputs there are. The name ``jacfwd`` may suggest that it costs no more than a forward
# pass, but for a loss it is *not* the cheap choice. For 784 inputs, ``jacfwd`` does this
# many times the work of ``jacrev``:

round(passes(torch.func.jacfwd, 784, 1) / passes(torch.func.jacrev, 784, 1))

# %%
# *f: R³ → R⁵⁰⁰⁰, and jacrev takes ages.* Use ``jacfwd`` here, which needs three products
# instead of 5000. ``jacfwd`` and ``jacrev`` run all their products at once, by means of
# :term:`vmap`, and so their memory grows with the number of products. If you have to stay
# with ``jacrev``, its ``chunk_size`` says how many products it takes at a time. The values
# stay the same:

wide, point = network(3, 5000), torch.tensor([0.1, 0.2, 0.3])
by_columns, by_rows = (way(wide)(point) for way in (torch.func.jacfwd, torch.func.jacrev))
in_chunks = torch.func.jacrev(wide, chunk_size=500)(point)
print([round(passes(way, 3, 5000)) for way in ways], tuple(by_columns.shape))

# %%
# :func:`pullback.jacobian` chooses the mode for you, by a rule that was found by
# measuring time (:ref:`measured`). Here is the work of ``pullback.jacobian`` beside the
# work of the two modes, for a wide and for a tall :math:`J`:

import pullback


def auto(f):
    return lambda x: pullback.jacobian(f, x)


for n, m in (784, 10), (10, 784):
    counts = [round(passes(way, n, m)) for way in (*ways, auto)]
    print(n, "->", m, dict(zip(("reverse", "forward", "auto"), counts, strict=True)))

# %%
# What goes wrong
# ---------------
#
# Some operations have no forward mode. The fast kernel of attention has none on a CPU. If
# you choose the ``MATH`` backend, attention is written out in operations that do have a
# forward mode:

from torch.nn.attention import SDPBackend, sdpa_kernel


def attend(q):
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


q = torch.linspace(-1, 1, 6).reshape(1, 1, 3, 2)
try:
    torch.func.jacfwd(attend)(q)
except NotImplementedError as error:
    print(str(error).splitlines()[0])
with sdpa_kernel(SDPBackend.MATH):
    J = torch.func.jacfwd(attend)(q)

# %%
# .. _where-jacrev-and-jacfwd-differ:
#
# Where the results of jacrev and jacfwd differ
# ---------------------------------------------
#
# For a few operations, ``jacrev`` and ``jacfwd`` return different numbers, without a
# message. In every release that we tried, up to 2.15, ``jacrev`` of ``torch.cdist`` is
# wrong (:ref:`jacrev-of-cdist`), because ``torch.func`` makes a mistake when it computes
# several products of this operation in one batch. If you compute the products one at a
# time, they are right. ``jacfwd`` of ``scatter_reduce`` with ``"prod"`` returns zeros,
# because the forward rule of this operation is wrong.
#
# Sometimes the two differ on purpose. Reverse mode gives no gradient to the row
# ``padding_idx`` of an embedding, and it treats the input of ``linalg.cholesky`` as a
# symmetric matrix. Forward mode does neither. If a branch of ``torch.where`` is not taken
# and has an infinite slope, reverse mode gives NaN and forward mode does not
# (:ref:`where-and-its-branches`). If much depends on a Jacobian, compare it once with the
# result of ``torch.autograd.functional.jacobian``, which takes one backward pass for each
# row:

groups = torch.tensor([0, 0, 1])
words = torch.tensor([0, 2])
pairs = {
    "scatter_reduce": (
        lambda x: torch.ones(2).scatter_reduce(0, groups, x, "prod"),  # x0 x1, and x2
        torch.tensor([1.0, 2.0, 3.0]),
    ),
    "padding_idx": (
        lambda w: torch.nn.functional.embedding(words, w, padding_idx=2),
        torch.ones(3, 2),
    ),
    "cholesky": (torch.linalg.cholesky, torch.eye(2) + 0.5),
}
tables = {}
for name, (f, at) in pairs.items():
    by_rev, by_fwd = torch.func.jacrev(f)(at), torch.func.jacfwd(f)(at)
    by_loop = torch.autograd.functional.jacobian(f, at)
    tables[name] = by_rev, by_fwd, by_loop
    same = [torch.allclose(table, by_loop) for table in (by_rev, by_fwd)]
    print(f"{name:16} as in the loop: jacrev {same[0]}, jacfwd {same[1]}")

# %%
# As a check, we assert that all modes give the same values where they have the same rules,
# and that the crossover lies between m = 63 and m = 66. We also check the results of the
# sections above:

x = torch.linspace(-1, 1, 6)
rows = torch.func.jacrev(network(6, 4))(x)
for mode in ("auto", "reverse", "forward"):
    torch.testing.assert_close(pullback.jacobian(network(6, 4), x, mode=mode), rows)
torch.testing.assert_close(J, torch.func.jacrev(attend, chunk_size=1)(q))
assert torch.equal(column, batch)
own = [torch.func.jacrev(move)(t)[i, ..., i] for i in (0, 1)]  # two of four blocks
torch.testing.assert_close(pixels, torch.stack(own))
torch.testing.assert_close(by_columns, by_rows)
torch.testing.assert_close(in_chunks, by_rows)
assert tables["scatter_reduce"][0].tolist() == [[2, 1, 0], [0, 0, 1]]
assert not tables["scatter_reduce"][1].any()
for by_rev, by_fwd, by_loop in tables.values():
    assert torch.equal(by_rev, by_loop)
    assert not torch.allclose(by_fwd, by_rev)
root = lambda x: torch.where(x > 0, x.sqrt(), 0 * x)
zero, one = torch.tensor(0.0), torch.tensor(1.0)
assert torch.func.jvp(root, (zero,), (one,))[1] == 0
assert torch.func.vjp(root, zero)[1](one)[0].isnan()
at_one = torch.func.jvp(root, (one,), (one,))[1], torch.func.vjp(root, one)[1](one)[0]
assert at_one[0] == at_one[1] == 0.5
assert passes(torch.func.jacrev, 64, 63) < passes(torch.func.jacfwd, 64, 63)
assert passes(torch.func.jacrev, 64, 66) > passes(torch.func.jacfwd, 64, 66)

# %%
# Where next
# ----------
#
# If most of J is zero, see :ref:`sparse-jacobian`. :ref:`never-forms-j` counts how much
# memory each mode keeps.
#
# .. asked: forward or reverse mode; when is forward mode faster; number of inputs and
#    outputs; jacfwd or jacrev crossover; few inputs many outputs
# .. words: tall, wide, m and n, inputs versus outputs, cheaper, when to switch, rows or
#    columns
