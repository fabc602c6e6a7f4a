r"""
.. _never-built:

Why ``backward`` never builds the Jacobian
==========================================

Training runs out of memory. What fills it? You might think of the :term:`Jacobian`, the
table of the rates of all outputs with respect to all weights. But ``backward`` never builds
this table. What often fills the memory are results of the forward pass, such as the output
of each layer. PyTorch keeps them because ``backward`` needs them on its way back. This page
shows how ``backward`` computes ``v @ J``, the :term:`vector-Jacobian product`, without the
table ``J``, what has to be kept for that, and how much work it is.
"""

# %%
# First we find out how large the table would be. Take a linear layer, ``Y = X @ W.T``, with
# a thousand inputs and a thousand outputs, and a batch of 64 samples, which are the rows of
# ``X``. Your laptop has trained such layers.
#
# .. predict::
#    :label: GB of the table
#    :for: the gigabytes
#    :wrong: one sample: This is the table of one sample. The batch has 64.;
#       billions of entries: This is the number of entries, in billions. Each takes four
#          bytes.;
#       single row: This is one row of the table, which is as large as W. Y has 64,000
#          numbers.;
#       double: Here each number takes eight bytes. In float32 it takes four.
#
#    The table has a row for each number of ``Y``, and a column for each weight in ``W``. In
#    float32 a number takes four bytes, and a gigabyte is a billion bytes. How many
#    gigabytes would the table fill?

import torch

X = torch.ones(64, 1000)
W = torch.ones(1000, 1000, requires_grad=True)
Y = X @ W.T
print(f"the table has {Y.numel():,} rows and {W.numel():,} columns")
entries = Y.numel() * W.numel()
print("GB of the table:", entries * 4 / 1e9)

Y.backward(torch.ones_like(Y))
print("GB of the gradient:", W.grad.nbytes / 1e9)

# %%
# It would be 256 gigabytes, and your laptop has never held them. ``backward`` took a
# moment, and what it left is 64,000 times smaller than the table. The gradient has the size
# of a single row, and the table has a row for each number of ``Y``.
#
# One weight
# ----------
#
# How can ``backward`` do without the table? We follow it with a pencil. A small layer has
# two inputs and two outputs, and we send three samples through it. ``V`` stands for ``v``,
# and holds a price for each output. In training this is the gradient of the loss with
# respect to ``Y``, which arrives from the layers after this one:

X = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]], requires_grad=True)
W = torch.tensor([[1.0, 0.0], [2.0, 1.0]], requires_grad=True)
V = torch.tensor([[1.0, 1.0], [0.0, 4.0], [2.0, 0.0]])
Y = X @ W.T
Y.shape

# %%
# .. predict::
#    :item: 1, 1
#    :for: the gradient of the last weight
#    :wrong: prices alone: Here the prices are added as they are. Each is multiplied by the
#          rate at which the weight moves that output.;
#       rates alone: These are the rates, without the prices.;
#       first input: The last weight is multiplied by the second input of a sample, not by
#          the first.;
#       mean: This is the mean of the three samples. They are added up.
#
#    Here are the three again: ``X`` is ``[[1, 2], [0, 1], [3, 1]]``, ``W`` is
#    ``[[1, 0], [2, 1]]``, and ``V`` is ``[[1, 1], [0, 4], [2, 0]]``. Take the last weight,
#    ``W[1, 1]``. Which of these numbers does its gradient need, and what is it?

Y.backward(V)
W.grad

# %%
# It is 6. The last weight connects the second input of a sample with its second output. So
# the second column of ``X`` has the rates at which this weight moves the second outputs,
# and the second column of ``V`` has their prices. In each sample we multiply the rate by
# the price:
#
# ======  ====================  =======================  ============
# sample  rate: second input    price of second output   rate · price
# ======  ====================  =======================  ============
# first   2                     1                        2
# second  1                     4                        4
# third   1                     0                        0
# ======  ====================  =======================  ============
#
# All three samples use the same weight, so their products are added up.
#
# All weights at once
# -------------------
#
# What have we done? We have taken the second column of ``X``, ``[2, 1, 1]``, and the second
# column of ``V``, ``[1, 4, 0]``. We have multiplied them number by number, and added up.
# For another weight we take other columns, the column of its input in ``X`` and that of its
# output in ``V``.
#
# A product of matrices does this for all four weights. But its left matrix needs a *row*
# where we have a column of ``V``. So we turn ``V`` on its side, which is ``V.T``: its rows
# are the columns of ``V``. In brackets you see our row, our column, and the 6 that they
# make:
#
# .. code-block:: text
#
#      V.T              X           V.T @ X
#     1  0  2         1 [2]         7   4
#    [1  4  0]   @    0 [1]    =    1  [6]
#                     3 [1]
#
# These are the numbers of ``W.grad``: the gradient of all weights is ``V.T @ X``.
#
# The inputs have a gradient, too. Take the 0 in ``X``, the first input of the second
# sample. It moves both outputs of its sample. The first output multiplies it by the weight
# 1, and the second by 2, so these are the rates: the first column of ``W``. The prices of
# the two outputs are 0 and 4, the second row of ``V``. So its gradient is
# :math:`0\cdot1+4\cdot2=8`. A row of ``V`` has met a column of ``W``, and for all inputs
# this is ``V @ W``. We compare both with what ``backward`` has computed:

print(torch.equal(W.grad, V.T @ X.detach()))
print(torch.equal(X.grad, V @ W.detach()))

# %%
# Both agree, and no table appears in them.
#
# .. dropdown:: The two rules with indices
#
#    Output ``i`` of sample ``b`` is
#
#    .. math::
#
#       Y_{bi}=\sum_j W_{ij}X_{bj}.
#
#    The weight :math:`W_{ij}` moves it at the rate :math:`X_{bj}`, and the price of the
#    output is :math:`V_{bi}`. Over all samples, the gradient of the weight is
#    :math:`\sum_b V_{bi}X_{bj}`, which is ``V.T @ X``. The input :math:`X_{bj}` moves each
#    output ``i`` of its sample, at the rate :math:`W_{ij}`. So its gradient is
#    :math:`\sum_i V_{bi}W_{ij}`, which is ``V @ W``.
#
# Below is the table that nobody needs, with a row for each output and a column for each
# weight. Change the price of a single output. The gradient of which weights changes?

import pullback

names = {
    "rows": [f"Y[{b}, {i}]" for b in range(3) for i in range(2)],
    "columns": [f"W[{i}, {j}]" for i in range(2) for j in range(2)],
}
pullback.live(lambda W: X.detach() @ W.T, W.detach(), V, **names)

# %%
# .. dropdown:: Answer
#
#    Only the weights in one row of ``W``, the row that makes this output. Take ``Y[2, 1]``,
#    the second output of the last sample. It is made with ``W[1, 0]`` and ``W[1, 1]``,
#    which are multiplied by the inputs 3 and 1. If its price rises by 1, the gradient of
#    ``W[1, 0]`` rises by 3 and that of ``W[1, 1]`` by 1. For the second sample the gradient
#    of only one weight changes, because its first input is 0.
#
# A rule for each operation
# -------------------------
#
# PyTorch has such a rule for every operation that it can differentiate, or takes it apart
# into operations that have one. For the squares in our house the rule is ``v * 2 * x``.
# Their table has the slopes :math:`2x` on its diagonal, and zeros everywhere else, which
# the rule never writes down. For a sum, the rule copies the number that arrives. For a
# sine, it multiplies by the cosine.
#
# And a whole network? ``v`` first meets the rule of the last layer. What comes out has a
# price for each input of this layer. But these inputs are the outputs of the layer before,
# so it is the ``v`` for the next rule, and so on back to the first layer. With three layers
# this is ``((v @ J3) @ J2) @ J1``, started on the left as in :ref:`chain-of-jacobians`.
# However many layers such a chain has, what goes through it is always one ``v``, and never
# a table. The Jacobians are in the mathematics, but not in memory.
#
# What fills the memory
# ---------------------
#
# Look again at the rules. ``X`` stands in the rule for the weights, ``V.T @ X``. The walk
# back begins when the forward pass is over, so PyTorch has to keep ``X`` until then. Our
# ``X`` needs a gradient, too, so PyTorch keeps ``W`` for the rule ``V @ W``. For the rule
# of the squares, ``v * 2 * x``, it keeps ``x``. The rule for a sum copies what arrives, so
# nothing has to be kept for it. And for ``tanh`` PyTorch keeps the result. If the result is
# :math:`t`, the slope is :math:`1-t^2`, so the rule needs no more than that.
#
# We can count this. ``kept_numbers(f, x)`` runs ``f`` and counts the numbers that PyTorch
# keeps for a walk back.
#
# .. dropdown:: The code of ``kept_numbers``
#
#    ``saved_tensors_hooks`` lets us watch. PyTorch calls our ``keep`` with every tensor
#    that one of its rules keeps, and ``keep`` writes down the size.


def kept_numbers(f, x):
    sizes = []

    def keep(t):  # called twice if two rules keep the same tensor, as in x * x
        sizes.append(t.numel())
        return t.detach()

    hand_back = lambda t: t  # called when a walk back needs the tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, hand_back):
        f(x)
    return torch.tensor(sizes).sum().item()


# %%
# .. predict::
#    :label: ten tanh
#    :for: ten tanh, in millions
#    :wrong: last: The loop holds on to the last alone. PyTorch keeps the result of every
#          step.;
#       with the input: The rule of tanh needs its result and not its input, so x itself is
#          not kept.;
#       both: The rule of tanh needs its result alone, not its input as well.;
#       under no_grad: This holds under torch.no_grad(). Here a walk back may follow.
#
#    ``x`` has a million numbers. A loop replaces ``x`` by ``torch.tanh(x)``, ten times. How
#    many millions of numbers does PyTorch keep for the walk back?

many = torch.linspace(0, 1, 1_000_000, requires_grad=True)


def ten(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for name, f in {"one tanh": torch.tanh, "ten tanh": ten, "a sum": torch.sum}.items():
    print(name, kept_numbers(f, many) / 1e6)

# %%
# All ten results are kept, although the loop itself holds on to only the last of them. The
# other nine million numbers are there for the walk back alone. So the memory grows with the
# number of steps, and with the size of what they work on, such as a batch. The walk back
# needs room, too, for the prices that it carries from one step to the next, and for the
# gradients that it leaves. But it builds no Jacobian: the table of a single tanh would have
# a million times a million entries, four terabytes in float32.
#
# So if training runs out of memory, look at the kept values first. Three things, among
# others, make them fewer. Take a smaller batch. Where no walk back will follow, such as
# when you measure how good a network is, run it under ``torch.no_grad()``, which keeps
# nothing. And with checkpoints PyTorch keeps fewer values, and computes the others again
# (:ref:`answers-checkpoints`).
#
# The work of a walk back
# -----------------------
#
# For a Jacobian we counted pulls (:ref:`the-whole-jacobian`). How much work is one pull,
# such as the walk back of ``backward``? The forward pass of a linear layer is one product
# of matrices, ``X @ W.T``. PyTorch can count the multiplications and additions in such
# products, and we let it count the forward pass and the walk back.
#
# .. predict::
#    :value: 2
#    :for: the factor for 10
#    :wrong: one product: This is one product of matrices. The walk back takes two, one for
#          the weights and one for the inputs.;
#       together: This is the work of forward and back together.;
#       size: The factor does not grow with the size.;
#       rows: This is the number of rows in the table. The walk back takes two products of
#          matrices, and no table.
#
#    The layers have 10, 100 and 1000 inputs, and as many outputs. How many times the work
#    of the forward pass does the walk back take? Does this factor grow with the size?

from torch.utils.flop_counter import FlopCounterMode

for size in (10, 100, 1000):
    X = torch.ones(64, size, requires_grad=True)
    W = torch.ones(size, size, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        Y = X @ W.T
    with FlopCounterMode(display=False) as backward:
        Y.backward(torch.ones_like(Y))
    print(size, backward.get_total_flops() / forward.get_total_flops())

# %%
# It is twice the work, for every size. The walk back takes two products of matrices,
# ``V.T @ X`` and ``V @ W``, and each takes as many multiplications as the one in the
# forward pass. So forward and back together take about three times the work of the forward
# pass alone. With most other operations, too, a walk back takes a small multiple of the
# work of the forward pass, however many inputs or outputs there are. A clock shows other
# factors, since memory has to be read as well (:ref:`cost-of-one-vjp`).
#
# .. admonition:: Remember
#
#    - Each operation has a rule that computes the product of ``v`` and its Jacobian
#      without building the Jacobian. For ``Y = X @ W.T``, with a row of ``X`` for each
#      sample, it gives ``V.T @ X`` for the weights and ``V @ W`` for the inputs.
#    - In memory you pay for the values that the rules need later, for the prices on
#      their way, and for the gradients. The kept values grow with the number of steps
#      that keep something, and most of them with the size of the batch.
#    - For a linear layer the walk back takes twice the work of the forward pass, if both
#      input and weights need a gradient. For most layers it is a small multiple.
#
# .. predict:: Try it
#    :for: the factor
#    :wrong: with both: This was the factor when the data needed a gradient as well. Now the
#          product V @ W is skipped.;
#       half: One product is left, and the forward pass is one product, too.;
#       together: This is the work of forward and back together.
#
#    In the cell that counts, write ``X = torch.ones(64, size)`` without
#    ``requires_grad``, as it is for the first layer of a network. What is the factor now?
#
# .. dropdown:: Answer
#
#    The data need no gradient, so the walk back skips the product ``V @ W``, and computes
#    only the one for the weights.

X = X.detach()  # the same numbers, without requires_grad
Y = X @ W.T
with FlopCounterMode(display=False) as backward_of_weights:
    Y.backward(torch.ones_like(Y))
print(backward_of_weights.get_total_flops() / forward.get_total_flops())

# %%
# .. dropdown:: Where a walk back is far more work: a few rows, picked from many
#
#    ``many_rows[:2]`` takes two rows of a matrix. That is little work, however many rows
#    there are. But the gradient looks like the matrix, and so the walk back writes the
#    whole of it, nearly all zeros. An embedding, which looks up the rows of a few words in
#    a large matrix, is such a case (:ref:`sparse-and-nested`).

many_rows = torch.ones(1000, 4, requires_grad=True)
two = many_rows[:2]
two.sum().backward()
print("taken:  ", two.numel())
print(
    "written:", many_rows.grad.numel(), " not zero:", many_rows.grad.count_nonzero().item()
)

# %%
# .. dropdown:: How we checked this page
#
#    The formulas are compared with the tables, where these are small enough to be built.
#    The counts are compared with what the shapes say. (The ``x`` in ``x * x`` is in memory
#    once, although our function counts it twice.)

x = torch.tensor([1.0, 2.0, 3.0])
v = torch.tensor([-1.0, -1.0, -1.0])
J_square = torch.func.jacrev(torch.square)(x)
assert torch.equal(J_square, torch.diag(2 * x))
assert torch.equal(v @ J_square, v * 2 * x)
torch.manual_seed(0)  # any layers will do; the same ones in every run
layers = [torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)]
price, at = torch.randn(2), [x]
for layer in layers:
    at.append(layer(at[-1]))
(carried,) = torch.func.vjp(torch.nn.Sequential(*layers), x)[1](price)
for layer, before in reversed([*zip(layers, at, strict=False)]):
    price = price @ torch.func.jacrev(layer)(before)
torch.testing.assert_close(price, carried)
small = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]])
second = small[:, 1] * V[:, 1]  # of the second weight of the second output
assert second.tolist() == [2, 4, 0]
data, weight = torch.ones(3, 5), torch.ones(2, 5, requires_grad=True)
assert kept_numbers(lambda W: data @ W.T, weight) == data.numel()  # and not the weights
assert kept_numbers(lambda X: X @ weight.T, data.requires_grad_()) == 15 + 10
assert (V.T @ small).tolist() == [[7, 4], [1, 6]]
assert (V.T @ small)[1, 1] == second.sum() == 6
assert (V @ torch.tensor([[1.0, 0.0], [2.0, 1.0]]))[1, 0] == 8
one_price = torch.zeros(3, 2)
one_price[1, 1] = 1
assert (one_price.T @ small).nonzero().tolist() == [[1, 1]]
assert (one_price.flip(1).T @ small).nonzero().tolist() == [[0, 1]]
last_price = torch.eye(6)[5].reshape(3, 2)  # of the second output of the last sample
assert (last_price.T @ small).tolist() == [[0, 0], [3, 1]]
assert (two.numel(), many_rows.grad.numel()) == (8, 4000)
assert many.numel() ** 2 * 4 == 4e12  # four terabytes
(of_squares,) = torch.autograd.grad(many**2, many, torch.ones_like(many))
torch.testing.assert_close(of_squares, 2 * many.detach())
assert backward.get_total_flops() == 2 * (2 * 64 * 1000 * 1000)
assert forward.get_total_flops() == 2 * 64 * 1000 * 1000
assert entries == 64_000 * W.grad.numel()
assert torch.equal(W.grad, torch.full_like(W, 2 * 64))  # of two walks

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    size = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        sizes = [t.numel() for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.size = max([self.size, *sizes])
        return result


Y = X.clone().requires_grad_() @ W.T
with Largest() as seen:
    Y.backward(torch.ones_like(Y))
assert seen.size == W.numel()  # nothing larger than the gradient was made
first_rows = lambda W: W[:32]
words = lambda W: torch.nn.functional.embedding(torch.arange(32), W)
for picked in (first_rows, words):
    for size in (100, 1000, 10_000):
        table = torch.ones(size, 4, requires_grad=True)
        with Largest() as there:
            Y = picked(table)
        with Largest() as back:
            Y.backward(torch.ones_like(Y))
        assert (there.size, back.size) == (32 * 4, size * 4)
sparse = torch.nn.Embedding(1000, 4, sparse=True)
sparse(torch.arange(32)).sum().backward()
assert sparse.weight.grad.coalesce().values().numel() == 32 * 4
assert backward_of_weights.get_total_flops() == forward.get_total_flops()

million = 1_000_000
with torch.no_grad():
    assert kept_numbers(ten, many) == 0
kept = [kept_numbers(f, many) for f in (torch.square, torch.tanh, ten, torch.sum)]
assert kept == [million, million, 10 * million, 0]
weight = torch.ones(20, 30, requires_grad=True)
data = torch.ones(64, 30, requires_grad=True)
assert kept_numbers(lambda x: x * x, many) == 2 * million  # the same tensor, counted twice
assert kept_numbers(lambda X: X @ weight.T, data) == data.numel() + weight.numel()

A, B = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 6).reshape(2, 3)
V = torch.arange(8.0).reshape(4, 2)
by_table = torch.tensordot(V, torch.func.jacrev(lambda B: A @ B.T)(B), dims=2)
torch.testing.assert_close(by_table, V.T @ A)
by_table = torch.tensordot(V, torch.func.jacrev(lambda A: A @ B.T)(A), dims=2)
torch.testing.assert_close(by_table, V @ B)

size_of_layer = 10
prices = torch.tensor([1.0, 4.0, 0.0])  # of the second output
with torch.no_grad():
    nothing_kept = kept_numbers(ten, many)
guesses = {  # wrong ones, of which the boxes above say what they are
    "one sample": entries / 64 * 4 / 1e9,
    "billions of entries": entries / 1e9,
    "single row": 1000 * 1000 * 4 / 1e9,
    "double": entries * 8 / 1e9,
    "prices alone": prices.sum(),
    "rates alone": small[:, 1].sum(),
    "first input": small[:, 0] @ prices,
    "mean": second.mean(),
    "one product": backward_of_weights.get_total_flops() / forward.get_total_flops(),
    "together": 1 + backward.get_total_flops() / forward.get_total_flops(),
    "size": float(size_of_layer),
    "rows": float(64 * size_of_layer),
    "last": many.numel() / million,
    "with the input": (kept_numbers(ten, many) + many.numel()) / million,
    "both": 2 * kept_numbers(ten, many) / million,
    "under no_grad": nothing_kept / million,
    "with both": backward.get_total_flops() / forward.get_total_flops(),
    "half": backward_of_weights.get_total_flops() / backward.get_total_flops(),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** the gradient is a function of ``x`` as well, so it has a Jacobian.
# :ref:`once-more` pulls back a second time.
#
# .. asked: does backward build the Jacobian; Jacobian too large for memory; how does
#    backprop avoid the Jacobian matrix; why is backward cheap; size of the Jacobian of
#    a layer; memory of a Jacobian; why is backprop so cheap; table of slopes does not
#    fit into memory; is a matrix stored in backward; how can backward be fast without
#    the matrix
# .. words: memory blow up, million by million, implicit, matrix-free, how can it be so
#    fast, scales, out of memory, cheap gradient principle
