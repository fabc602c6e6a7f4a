r"""
.. _never-built:

Why ``backward`` never builds the Jacobian
==========================================

On the second page of this part, ``v`` travelled through a product of
:term:`Jacobians <Jacobian>`. For a layer of ordinary size, the Jacobian with respect to
its weights would fill hundreds of gigabytes, and your laptop has trained such layers
without them. This page shows what ``backward`` computes instead, and what it costs.
"""

# %%
# Look into the house once more, at the step that squares the settings of the stoves. It
# takes ``x`` to ``x**2``, three numbers to three numbers, so this one step has a table of
# its own:

import torch

x = torch.tensor([1.0, 2.0, 3.0])
J_square = torch.func.jacrev(torch.square)(x)
J_square

# %%
# A square depends on its own stove only, and so the table has ``2 * x`` on its diagonal
# and zeros elsewhere. Now think of a ``v`` times this table. Each entry of ``v`` meets
# only one number that is not zero, so the product is an entry-wise multiplication:

v = torch.tensor([-1.0, -1.0, -1.0])  # what arrives here from the fuel
print(v @ J_square)
print(v * 2 * x)

# %%
# The second line is what PyTorch does, and the picture shows why it may. In each column
# of the table there is only one number to multiply:

import pullback

pullback.draw.vjp(v, J_square, result_name="v * 2 * x")

# %%
# PyTorch has a rule like this for each operation that it can differentiate. The rule
# computes the *product*, and does not build the table. For a sum, the formula copies the
# number that arrives. For a sine, it multiplies by the cosine. The Jacobians are in the
# mathematics, but not in memory.
#
# With three stoves that makes little difference. With a million numbers it does:

n = 1_000_000
many = torch.linspace(0, 1, n, requires_grad=True)
squares = many**2
squares.backward(torch.ones(n))
print(f"entries of the Jacobian: {squares.numel() * many.numel():,}")
print(f"numbers in x.grad:       {many.grad.numel():,}")

# %%
# The table of this one step would have a million times a million entries, four terabytes
# in float32. The product took two multiplications for each number, and the forward pass
# one.
#
# A linear layer
# --------------
#
# Most of the work of a network is done in layers like ``Y = X @ W.T``. Their formula
# takes two lines with a pencil. Output ``i`` of sample ``b`` is
#
# .. math::
#
#    Y_{bi}=\sum_j W_{ij}X_{bj}.
#
# Let ``V`` hold the prices of the outputs. Where does the weight :math:`W_{ij}` earn
# something? It is used once for each sample: in :math:`Y_{bi}`, where it is multiplied by
# :math:`X_{bj}`. So it earns :math:`V_{bi}X_{bj}` there, and
#
# .. math::
#
#    \sum_b V_{bi}X_{bj}
#
# in all. This is the entry in row ``i`` and column ``j`` of a product of two matrices,
# :math:`V^\top X`. In the same way :math:`X_{bj}` is used once for each output ``i``,
# where it is multiplied by :math:`W_{ij}`, and so the prices of all inputs are
# :math:`V\,W`:

X = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]], requires_grad=True)
W = torch.tensor([[1.0, 0.0], [2.0, 1.0]], requires_grad=True)
V = torch.tensor([[1.0, 0.0], [0.0, 10.0], [2.0, 1.0]])
(X @ W.T).backward(V)
print(W.grad, V.T @ X.detach(), sep="\n")
print(X.grad, V @ W.detach(), sep="\n")

# %%
# Both formulas agree with what ``backward`` computed, and no table appears in them.
#
# .. admonition:: Predict
#
#    The forward pass of this layer is one product of matrices. In the backward pass we
#    want the gradients of both ``W`` and ``X``. How many times the work of the forward
#    pass is that? Does it depend on the number of outputs?

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
# It is twice the work, for every size. The backward pass computes two products, one for
# the weights and one for the inputs, and each takes as many multiplications as the one
# product of the forward pass. So in a network of such layers, forward and backward pass
# together take about three times the work of the forward pass alone. The counter counts
# the multiplications and additions in products of matrices, so these numbers are the same
# on every machine.
#
# For most other operations the factor is a different one, but again a small number that
# does not grow with the number of inputs or outputs. This is called the *cheap gradient
# principle*. An exception is an operation that uses only a small part of a large tensor.
# The forward pass of ``x[0] * 2`` reads one number, but its backward pass writes zeros
# for all of ``x``. (On a clock you will see other factors, since memory has to be read as
# well. :ref:`cost-of-one-vjp` has measured some.)
#
# What would it have cost with the table? The largest of the three layers has 64 times
# 1000 outputs and a million weights:

entries = Y.numel() * W.numel()
print(f"{entries:,} entries, {entries * 4 / 1e9:.0f} GB in float32")
print(f"{W.grad.numel():,} entries, {W.grad.nbytes / 1e9:.3f} GB for the gradient")

# %%
# The gradient is 64,000 times smaller. It has the size of one row, and the table
# has a row for each output.
#
# What backward does keep
# -----------------------
#
# The formulas need values from the forward pass, such as the ``x`` in ``v * 2 * x``.
# PyTorch keeps them until the backward pass has used them, and this is the true price in
# memory. We can look at what is kept for one tanh and for ten of them in a row.
# ``saved_tensors_hooks`` hands us each tensor that is kept, and the function adds up
# their sizes, counting each piece of memory once:


def kept_bytes(f, x):
    kept = {}

    def keep(t):
        memory = t.untyped_storage()
        kept[memory.data_ptr()] = memory
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(x)
    sizes = [memory.nbytes() for memory in kept.values()]
    return torch.tensor(sizes).sum().item()


def ten(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for f in (torch.tanh, ten, torch.sum):
    print(f.__name__, "keeps", kept_bytes(f, many) / many.nbytes, "times the size of x")

# %%
# One tanh keeps its result, and ten keep ten. The sum keeps nothing, because its formula
# only copies what arrives. So the memory grows with the number of steps and with the size
# of what they work on, such as a batch, and not with the size of any Jacobian.
#
# When you do ask for the table
# -----------------------------
#
# If you call ``jacrev``, you get the table, and the work and the memory come with it.
# Computing all rows at once also means holding the intermediate numbers of all rows at
# once. Here is a function of 100 numbers that uses 4000 in between:


def repeats(x):
    return torch.tanh(x.repeat(40)).reshape(40, 100).sum(0)


table = torch.func.jacrev(repeats, chunk_size=10)(torch.ones(100))
table.shape

# %%
# The table has 10,000 entries. But on the way through the tanh, each row is 4000 numbers
# long. With all 100 rows at once that makes 400,000 numbers, forty times as many as the
# table. ``chunk_size=10`` takes ten rows at a time, and so 40,000. If a Jacobian runs out
# of memory although training does not, ``chunk_size`` is the first thing to try.
#
# .. admonition:: Remember
#
#    - Each operation has a rule that computes the product of ``v`` and its Jacobian
#      without building the Jacobian.
#    - For most layers a backward pass takes a small multiple of the work of the forward
#      pass. For a linear layer it is twice, if both input and weights need a gradient.
#    - In memory you pay for the values that the formulas need later. They grow with depth
#      and batch size.
#    - The whole Jacobian costs as many products as it has rows, or columns, unless you
#      know where its zeros are.
#
# .. admonition:: Try it
#
#    In the cell that counts, write ``X = torch.ones(64, size)`` without
#    ``requires_grad``, as it is for the first layer of a network. What do you expect now?
#
# .. dropdown:: Answer
#
#    The factor is 1. The data need no gradient, so the backward pass skips the product
#    :math:`V\,W` and computes only the one for the weights.
#
# .. dropdown:: How we checked this page
#
#    The formulas are compared with the tables, where these are small enough to be built.
#    The counts are compared with what the shapes say.

assert torch.equal(v @ J_square, v * 2 * x)
torch.testing.assert_close(many.grad, 2 * many.detach())
assert backward.get_total_flops() == 2 * (2 * 64 * 1000 * 1000)
assert forward.get_total_flops() == 2 * 64 * 1000 * 1000
assert entries == 64_000 * W.grad.numel()
assert torch.equal(W.grad, torch.full_like(W, 64))

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    size = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        sizes = [t.numel() for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.size = max([self.size, *sizes])
        return result


Y = X @ W.T
with Largest() as seen:
    Y.backward(torch.ones_like(Y))
assert seen.size == W.numel()  # nothing larger than the gradient was made

X = X.detach()  # as in the exercise
Y = X @ W.T
with FlopCounterMode(display=False) as backward_of_weights:
    Y.backward(torch.ones_like(Y))
assert backward_of_weights.get_total_flops() == forward.get_total_flops()

kept = [kept_bytes(f, many) // many.nbytes for f in (torch.tanh, ten, torch.sum)]
assert kept == [1, 10, 0]

A, B = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 6).reshape(2, 3)
V = torch.arange(8.0).reshape(4, 2)
by_table = torch.tensordot(V, torch.func.jacrev(lambda B: A @ B.T)(B), dims=2)
torch.testing.assert_close(by_table, V.T @ A)
by_table = torch.tensordot(V, torch.func.jacrev(lambda A: A @ B.T)(A), dims=2)
torch.testing.assert_close(by_table, V @ B)
for chunk_size, size in ((None, 400_000), (10, 40_000), (1, 10_000)):
    with Largest() as largest:
        torch.func.jacrev(repeats, chunk_size=chunk_size)(torch.ones(100))
    assert largest.size == size
torch.testing.assert_close(table, torch.func.jacfwd(repeats)(torch.ones(100)))

# %%
# **Next:** the gradient is a function of ``x`` as well, so it has a Jacobian.
# :ref:`once-more` pulls back a second time.
