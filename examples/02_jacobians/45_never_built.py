r"""
.. _never-built:

Why ``backward`` never builds the Jacobian
==========================================

One often reads that backpropagation "multiplies :term:`Jacobians <Jacobian>`". For a
layer of ordinary size, the Jacobian with respect to its weights would fill some hundred
gigabytes. Your laptop has never needed them. So what is really computed in a backward
pass, and what does it cost?
"""

# %%
# Look into the house once more, at the step that squares the stoves. It takes ``x`` to
# ``x**2``, three numbers to three numbers, so this one step has a table of its own:

import torch

x = torch.tensor([1.0, 2.0, 3.0])
J_square = torch.func.jacrev(torch.square)(x)
J_square

# %%
# A square depends on its own stove only, and so the table has ``2 * x`` on its diagonal
# and nothing else. Now think of a ``v`` times this table. Each entry of ``v`` meets a
# single number that is not zero. The whole product is an entry-wise multiplication:

v = torch.tensor([-1.0, -1.0, -1.0])  # what arrives here from the fuel
print(v @ J_square)
print(v * 2 * x)

# %%
# The second line is what PyTorch does, and the picture shows why it may. In each column
# of the table there is only one number to multiply:

import pullback

pullback.draw.vjp(v, J_square, result_name="v * 2 * x")

# %%
# For each of its operations PyTorch has a short formula for the *product*, and this
# formula does not contain the table. For a sum, the formula copies the number that
# arrives. For a sine, it multiplies by the cosine. The Jacobians are in the mathematics,
# but not in memory.
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
# takes a few lines with a pencil. With a ``V`` in the shape of ``Y``, it is
# :math:`V^\top X` for the weight and :math:`V\,W` for the input. Each of the two is a
# single product of matrices.
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
# It is twice the work, for every size. The counter counts the multiplications and
# additions in products of matrices, so the numbers are the same on every machine. For
# most other operations the factor is a different one, but again a small number that does
# not grow with the number of inputs or outputs. This is called the *cheap gradient
# principle*. (On a clock you will see other factors, since memory has to be read as well.
# :ref:`cost-of-one-vjp` has measured some.)
#
# What would it have cost with the table? The largest of the three layers has 64 times
# 1000 outputs and a million weights:

entries = Y.numel() * W.numel()
print(f"{entries:,} entries, {entries * 4 / 2**30:.0f} GiB in float32")

# %%
# We can also watch the backward pass and see that no such thing is made. You need not
# understand how the class below does it. PyTorch shows it every operation that runs
# inside ``with``, and it keeps the size of the largest result:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    size = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        self.size = max(self.size, getattr(result, "numel", int)())
        return result


Y = X @ W.T
with Largest() as seen:
    Y.backward(torch.ones_like(Y))
print(f"largest tensor: {seen.size:,} numbers, like W with {W.numel():,}")

# %%
# The largest tensor of the backward pass is the gradient of ``W``, and it has the shape
# of ``W``.
#
# What backward does keep
# -----------------------
#
# The formulas need values from the forward pass, such as the ``x`` in ``v * 2 * x``.
# PyTorch keeps them until the backward pass has used them, and this is the true price in
# memory. We can look at what is kept for one tanh and for ten of them in a row:


def kept_bytes(f, x):
    kept = {}

    def keep(t):
        kept[t.data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(x)
    return torch.tensor([t.nbytes for t in kept.values()]).sum().item()


# %%
# ``saved_tensors_hooks`` hands us each tensor that is kept, and the function adds up
# their sizes, counting each tensor once:


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
# If you call ``jacrev``, you get the table, and the work and the memory come with it. All
# rows at once also means that what lies between is there for all rows at once. Here is a
# function of 100 numbers that uses 4000 in between:


def repeats(x):
    return torch.tanh(x.repeat(40)).reshape(40, 100).sum(0)


for chunk_size in (None, 10, 1):
    with Largest() as largest:
        torch.func.jacrev(repeats, chunk_size=chunk_size)(torch.ones(100))
    print(f"chunk_size={chunk_size}: largest tensor {largest.size:,} numbers")

# %%
# The table has 10,000 entries, but 400,000 numbers were held in one tensor on the way to
# it. With ten rows at a time it is 40,000. With one row at a time the table itself is the
# largest thing. If a Jacobian runs out of memory although training does not,
# ``chunk_size`` is the first thing to try.
#
# .. admonition:: Remember
#
#    - Each operation has a formula for the product of ``v`` and its Jacobian, and the
#      formula does not need the Jacobian.
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

# %%
# .. dropdown:: How we checked this page
#
#    The formulas are compared with the tables, where these are small enough to be built.
#    The counts are compared with what the shapes say.

assert torch.equal(v @ J_square, v * 2 * x)
torch.testing.assert_close(many.grad, 2 * many.detach())
assert backward.get_total_flops() == 2 * (2 * 64 * 1000 * 1000)
assert forward.get_total_flops() == 2 * 64 * 1000 * 1000
assert seen.size == W.numel() < entries / 10_000
assert torch.equal(W.grad, torch.full_like(W, 2 * 64))  # two calls of backward, 64 each
kept = [kept_bytes(f, many) // many.nbytes for f in (torch.tanh, ten, torch.sum)]
assert kept == [1, 10, 0]

A, B = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 6).reshape(2, 3)
V = torch.arange(8.0).reshape(4, 2)
by_table = torch.tensordot(V, torch.func.jacrev(lambda B: A @ B.T)(B), dims=2)
torch.testing.assert_close(by_table, V.T @ A)
by_table = torch.tensordot(V, torch.func.jacrev(lambda A: A @ B.T)(A), dims=2)
torch.testing.assert_close(by_table, V @ B)
assert largest.size == 100 * 100
with Largest() as all_rows:
    torch.func.jacrev(repeats)(torch.ones(100))
assert all_rows.size == 100 * 4000

# %%
# **Next:** the gradient is a function of ``x`` as well, so it has a Jacobian.
# :ref:`once-more` pulls back a second time.
