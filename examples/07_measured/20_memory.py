r"""
.. _memory-measured:

What memory do reverse mode, forward mode and checkpointing take?
=================================================================

Your training runs out of memory, and you have read that :term:`forward mode` or
checkpointing takes less. How much less? :term:`Reverse mode <reverse mode>` keeps an
activation for every layer until the product of that layer has been computed. Forward mode
keeps the values of one layer and their :term:`tangent`, as long as neither inputs nor
weights require a gradient. Checkpointing keeps the values of a few layers, and computes the
values of the others a second time.
"""

# %%
# On this page we do not sample the peak memory while a program runs, but count it. We add
# the size of every tensor to a total when an operation makes the tensor, and subtract it
# when the tensor is freed. So you get the same figures on every machine. This is the
# counter:

import weakref

import torch


class Memory:
    now = peak = 0

    def add(self, storage):
        if not hasattr(storage, "counted"):
            storage.counted = True
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.drop, storage.nbytes())

    def drop(self, nbytes):
        self.now -= nbytes


# %%
# The counter counts storages. A storage is the memory behind a tensor and its views. The
# following mode intercepts every operation, and adds the storages of the results to the
# counter. It also counts how many layers are computed:

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Peak(Memory, TorchDispatchMode):
    layers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.layers += func is torch.ops.aten.tanh.default
        out = func(*args, **(kwargs or {}))
        for made in filter(torch.is_tensor, tree_leaves(out)):
            self.add(made.untyped_storage())
        return out


# %%
# Our example is a chain of layers on vectors of 100 000 numbers. All memory is given in
# units of one such vector, and the input is not counted:

x, v = torch.linspace(-1, 1, 100_000), torch.ones(100_000)


def chain(x, layers):
    for _ in range(layers):
        x = torch.tanh(x)
    return x


def peak(function, *args, unit=x):
    with Peak() as counter:
        function(*args)
    return round(counter.peak / unit.nbytes)


# %%
# We measure a :term:`VJP` and a :term:`JVP` of this chain with 1, 10, 20, 40 and 80
# layers:


def vjp(layers):
    point = x.detach().requires_grad_()
    chain(point, layers).backward(v)


def jvp(layers):
    torch.func.jvp(lambda x: chain(x, layers), (x,), (v,))


depths = (1, 10, 20, 40, 80)
table = {way.__name__: [peak(way, n) for n in depths] for way in (vjp, jvp)}
table

# %%
# The memory of reverse mode grows with the depth, by one vector for each layer. The memory
# of forward mode stays the same from 10 layers on, because forward mode holds only a value
# and a tangent before and after the current layer. This is the strength of forward mode.
# Its weakness is that it cannot compute the *whole* gradient in one pass
# (:ref:`what-is-a-jvp`).
#
# *The memory of my forward mode does grow with the depth.* Then x or a weight requires a
# gradient, and PyTorch records a graph of both the value and the tangent, for a
# ``backward`` that you may not want. You can detach x and the weights, or run the ``jvp``
# under ``no_grad``, which stops the recording but not the tangents. The first list below
# is measured without ``no_grad``, and the second with it:


def of_a_leaf(layers):
    leaf = x.detach().requires_grad_()
    torch.func.jvp(lambda x: chain(x, layers), (leaf,), (v,))


recorded = [peak(of_a_leaf, n) for n in depths]
unrecorded = [peak(torch.no_grad()(of_a_leaf), n) for n in depths]
print(recorded, unrecorded)

# %%
# Checkpointing
# -------------
#
# ``checkpoint_sequential`` divides the layers into segments. It keeps the values between
# the segments, but keeps the values inside a segment only while the backward pass goes
# through this segment. We divide 64 layers into 1 to 64 segments:

from torch.utils.checkpoint import checkpoint_sequential

layers = [torch.tanh] * 64


def checkpointed(segments):
    point = x.detach().requires_grad_()
    y = checkpoint_sequential(layers, segments, point, use_reentrant=False)
    return torch.autograd.grad(y, point, v)[0]


segments = (1, 2, 4, 8, 16, 32, 64)
peaks = {k: peak(checkpointed, k) for k in segments}
peaks

# %%
# The least memory is needed in the middle, near :math:`\sqrt{64}` segments. If there are
# few segments, each of them is long, and if there are many segments, many values are kept
# between them:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.semilogx(segments, list(peaks.values()), base=2, marker="o", label="checkpointed")
ax.axhline(peak(vjp, 64), linestyle="--", color="gray", label="all activations kept")
ax.legend()
_ = ax.set(title="Peak memory of 64 layers", xlabel="segments", ylabel="vectors")

# %%
# You save memory, but you pay for it with work, because every segment but the last is
# computed twice. With 8 segments, this many layers are computed instead of 64:

with Peak() as counter:
    checkpointed(8)
counter.layers

# %%
# What goes wrong
# ---------------
#
# *"Jacobians by vmap cost no memory."* They do cost memory. If all rows are computed at
# once, each value of the backward pass exists once for every row. With ``chunk_size`` you
# limit how many rows are computed at once. We take a chain of 5 layers on 300 numbers,
# first with all rows at once and then with 10 at a time:

f, small = lambda x: chain(x, 5), torch.linspace(0, 1, 300)
jacobians = [torch.func.jacrev(f, chunk_size=size) for size in (None, 10)]
rows = [peak(J, small, unit=small) for J in jacobians]
rows

# %%
# The result alone takes 300 rows. With chunks the result exists twice for a moment, when
# torch joins the chunks at the end. Memory also grows if you pass ``retain_graph=True``,
# which keeps the :term:`saved tensors <saved tensor>` that would otherwise be freed, and if
# you write ``total += loss``, which keeps the graph of every step.
#
# *"Forward over reverse is the lean Hessian-vector product."* With ``torch.func`` it is
# not. :func:`torch.func.grad` records its own backward pass, as ``create_graph=True``
# does, and ``jvp`` adds a tangent to each tensor that is kept. For 40 layers, the first
# number below is the memory of two reverse passes, and the second is the memory of
# forward over reverse:

loss = lambda x: chain(x, 40).sum()
twice_reverse = peak(torch.autograd.functional.vhp, loss, x, v)
print(twice_reverse, peak(torch.func.jvp, torch.func.grad(loss), (x,), (v,)))

# %%
# As a check, the gradient with checkpointing must be the same as the gradient without it,
# and the counts must agree with counts that we work out by hand:

_, vjp_of_chain = torch.func.vjp(lambda x: chain(x, 64), x)
torch.testing.assert_close(checkpointed(8), vjp_of_chain(v)[0])
assert counter.layers == 64 + 7 * 8
assert 600 <= rows[1] < rows[0]
assert table["vjp"][-1] - table["vjp"][-2] == 40
assert table["jvp"][-1] == table["jvp"][1]
assert unrecorded == table["jvp"]
assert recorded[-1] - recorded[-2] >= 40

# %%
# Where next
# ----------
#
# :ref:`checkpointing` explains how to use checkpoints. :ref:`never-forms-j` counts what
# each operation saves. For the time that a product takes, read :ref:`cost-of-one-vjp`.
#
# .. asked: memory of backward; memory of forward mode; memory of checkpointing; peak
#    memory; how much memory does training take
# .. words: gpu memory, oom, peak, ram, activations, how much, batch size
