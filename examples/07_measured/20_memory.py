r"""
.. _memory-measured:

What memory do reverse mode, forward mode and checkpointing take?
=================================================================

:term:`Reverse mode <reverse mode>` keeps an activation for every layer until its product
is done. :term:`Forward mode <forward mode>` keeps one layer and its :term:`tangent`, as
long as neither inputs nor weights require a gradient. Checkpointing keeps a few of the
layers' values and computes the others a second time.
"""

# %%
# Peak memory is counted here, not sampled: every tensor that an operation makes is added
# when it is made and taken off when it is freed. So the figures are the same everywhere:

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
# A storage is the memory behind a tensor and its views. This shows it those of every
# operation, and counts the layers too:

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
# A chain of layers on vectors of 100 000 numbers; all memory is given in units of one such
# vector, the input not counted:

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
# A :term:`VJP` and a :term:`JVP` for more and more layers:


def vjp(layers):
    point = x.detach().requires_grad_()
    chain(point, layers).backward(v)


def jvp(layers):
    torch.func.jvp(lambda x: chain(x, layers), (x,), (v,))


depths = (1, 10, 20, 40, 80)
table = {way.__name__: [peak(way, n) for n in depths] for way in (vjp, jvp)}
table

# %%
# Reverse mode grows with the depth, by one vector a layer. Forward mode does not: it holds
# a value and a tangent before and after the layer at hand. That is its strength; what it
# lacks is the *whole* gradient in one pass (:ref:`what-is-a-jvp`).
#
# *Mine does grow with the depth.* Then x or a weight requires a gradient, and a graph of
# both the value and the tangent is recorded, for a ``backward`` that you may not want.
# Detach them, or run the ``jvp`` under ``no_grad``, which stops the recording and not the
# tangents:


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
# ``checkpoint_sequential`` keeps the values between k segments, and each segment's own
# while that segment is walked back. For 64 layers:

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
# The least is in the middle, near :math:`\sqrt{64}` segments: few segments are long ones,
# many are many kept values.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.semilogx(segments, list(peaks.values()), base=2, marker="o", label="checkpointed")
ax.axhline(peak(vjp, 64), linestyle="--", color="gray", label="all activations kept")
ax.legend()
_ = ax.set(title="Peak memory of 64 layers", xlabel="segments", ylabel="vectors")

# %%
# It is paid for in work: every segment but the last is computed twice. Counted in layers:

with Peak() as counter:
    checkpointed(8)
counter.layers

# %%
# What goes wrong
# ---------------
#
# *"Jacobians by vmap cost no memory."* All rows at once hold each value of the backward
# pass once a row. ``chunk_size`` bounds it:

f, small = lambda x: chain(x, 5), torch.linspace(0, 1, 300)
jacobians = [torch.func.jacrev(f, chunk_size=size) for size in (None, 10)]
rows = [peak(J, small, unit=small) for J in jacobians]
rows

# %%
# The result alone is 300 rows, in chunks twice for a moment, as torch joins the pieces at
# the end. ``retain_graph`` keeps what is else freed, ``total += loss`` every step's graph.
#
# *"Forward over reverse is the lean Hessian-vector product."* In torch.func it is not.
# :func:`torch.func.grad` records its own way back, as ``create_graph=True`` does, and
# ``jvp`` gives each tensor that is kept a tangent. Two reverse passes, then it, 40 layers:

loss = lambda x: chain(x, 40).sum()
twice_reverse = peak(torch.autograd.functional.vhp, loss, x, v)
print(twice_reverse, peak(torch.func.jvp, torch.func.grad(loss), (x,), (v,)))

# %%
# The check: what checkpointing returns is the same gradient, and the counts are what the
# arithmetic says:

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
# Using checkpoints: :ref:`checkpointing`. What is saved, operation by operation:
# :ref:`never-forms-j`. Time: :ref:`cost-of-one-vjp`.
#
# .. asked: memory of backward; memory of forward mode; memory of checkpointing; peak
#    memory; how much memory does training take
#
# .. words: gpu memory, oom, peak, ram, activations, how much, batch size
