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
# in float32. The product took two multiplications for each number.
#
# What is kept instead
# --------------------
#
# The rule for the square contains ``x``, and a walk back begins when the forward pass
# is over. So PyTorch has to keep ``x`` until then. We can look at what it keeps.
# ``saved_tensors_hooks`` takes two functions. PyTorch hands every tensor that it keeps
# to the first, and ours writes down its size. The second gets it when it is needed, and
# ours returns it as it is:


def kept_numbers(f, x):
    sizes = []

    def keep(t):
        sizes.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(x)
    return torch.tensor(sizes).sum().item()


# %%
# The rule for ``tanh`` needs the result: at a result :math:`t` the slope is
# :math:`1-t^2`. The rule for a sum only copies what arrives, and needs nothing.
#
# .. predict::
#    :label: ten tanh
#    :for: ten tanh, in millions
#
#    ``x`` has a million numbers. One tanh keeps its result, a million numbers as well.
#    How many millions do ten of them in a row keep?


def ten(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for name, f in {"one tanh": torch.tanh, "ten tanh": ten, "a sum": torch.sum}.items():
    print(name, kept_numbers(f, many) / 1e6)

# %%
# Ten steps keep ten results. So the memory grows with the number of steps and with the
# size of what they work on, such as a batch. No Jacobian is among what is kept. If
# training runs out of memory, this is often where it went. (Besides the kept values, a
# walk back needs memory for the prices on their way from one step to the next, and for
# the gradients that it leaves.)
#
# A linear layer
# --------------
#
# The tables so far were almost empty, so we could get the product without them. But what
# about a step in which every output uses many inputs? Most of the work of a network is
# done in such layers, ``Y = X @ W.T``. Their rule takes two lines with a pencil. Output
# ``i`` of sample ``b`` is
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
# Both formulas agree with what ``backward`` computed, and no table appears in them. Take
# the last entry of the first result, which belongs to :math:`W_{11}`, and follow it. The
# second output of the three samples has the prices 0, 10 and 1, and the second inputs are
# 2, 1 and 1. So this weight earns :math:`0\cdot2+10\cdot1+1\cdot1=11`.
#
# The work of a walk back
# -----------------------
#
# The forward pass of this layer is one product of matrices, ``X @ W.T``. From the two
# formulas you can read what the walk back has to do. PyTorch can count the
# multiplications and additions in such products, and we let it count both ways.
#
# .. predict::
#    :value: 2
#    :for: the factor for 10
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
# It is twice the work, for every size. The walk back takes two products, one for the
# weights and one for the inputs, and each takes as many multiplications as the one in the
# forward pass. So forward and back together take about three times the work of the
# forward pass alone. For most other operations the factor is a different small number,
# which does not grow with the number of inputs or outputs either. (On a clock you will
# see other factors, since memory has to be read as well. :ref:`cost-of-one-vjp` has
# measured some.)
#
# What would it have cost with the table? The largest of the three layers has 64 times
# 1000 outputs and a million weights:

entries = Y.numel() * W.numel()
print(f"{entries:,} entries, {entries * 4 / 1e9:.0f} GB in float32")
print(f"{W.grad.numel():,} entries, {W.grad.nbytes / 1e9:.3f} GB for the gradient")

# %%
# The gradient is 64,000 times smaller. It has the size of one row, and the table has a
# row for each output. If you do want the table, ask ``jacrev`` for it, and pay for the
# memory (:ref:`the-whole-jacobian`).
#
# Here the table is built after all, so that you can see what backward leaves out: it needs
# three of these nine numbers, and multiplies each by its price:

pullback.live(torch.square, x.detach(), v)

# %%
# .. admonition:: Remember
#
#    - Each operation has a rule that computes the product of ``v`` and its Jacobian
#      without building the Jacobian.
#    - In memory you pay for the values that the rules need later, for the prices on
#      their way, and for the gradients. The kept values grow with the number of steps
#      and with the size of the batch.
#    - For a linear layer the walk back takes twice the work of the forward pass, if both
#      input and weights need a gradient. For most layers it is a small multiple.
#
# .. predict:: Try it
#    :for: the factor
#
#    In the cell that counts, write ``X = torch.ones(64, size)`` without
#    ``requires_grad``, as it is for the first layer of a network. What is the factor now?
#
# .. dropdown:: Answer
#
#    The data need no gradient, so the walk back skips the product :math:`V\,W`, and
#    computes only the one for the weights.

X = X.detach()  # the same numbers, without requires_grad
Y = X @ W.T
with FlopCounterMode(display=False) as backward_of_weights:
    Y.backward(torch.ones_like(Y))
print(backward_of_weights.get_total_flops() / forward.get_total_flops())

# %%
# .. dropdown:: How we checked this page
#
#    The formulas are compared with the tables, where these are small enough to be built.
#    The counts are compared with what the shapes say.

assert torch.equal(v @ J_square, v * 2 * x)
torch.testing.assert_close(many.grad, 2 * many.detach())
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
assert backward_of_weights.get_total_flops() == forward.get_total_flops()

million = 1_000_000
kept = [kept_numbers(f, many) for f in (torch.square, torch.tanh, ten, torch.sum)]
assert kept == [million, million, 10 * million, 0]

A, B = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 6).reshape(2, 3)
V = torch.arange(8.0).reshape(4, 2)
by_table = torch.tensordot(V, torch.func.jacrev(lambda B: A @ B.T)(B), dims=2)
torch.testing.assert_close(by_table, V.T @ A)
by_table = torch.tensordot(V, torch.func.jacrev(lambda A: A @ B.T)(A), dims=2)
torch.testing.assert_close(by_table, V @ B)

# %%
# **Next:** the gradient is a function of ``x`` as well, so it has a Jacobian.
# :ref:`once-more` pulls back a second time.
#
# .. asked: does backward build the Jacobian; Jacobian too large for memory; how does
#    backprop avoid the Jacobian matrix; why is backward cheap; size of the Jacobian of
#    a layer; memory of a Jacobian; why is backprop so cheap; table of slopes does not
#    fit into memory; is a matrix stored in backward; how can backward be fast without
#    the matrix
