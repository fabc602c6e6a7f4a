r"""
.. _checkpointing:

Does checkpointing change what backward(v) gives?
=================================================

You use checkpointing to save memory, and wonder whether the gradient stays the same. It
stays the same as long as the part of the model that you checkpoint, the *block*, computes
the same values each time it runs. ``torch.utils.checkpoint`` keeps the input of a block in
place of the block's :term:`saved tensors <saved tensor>`, and runs the block once more when
``v`` arrives.
"""

# %%
# Each of our four blocks maps a tensor of shape ``(128, 64)`` to another of the same shape.
# In float32, a tensor of this shape takes 32768 bytes. A ``Linear`` layer keeps its input
# for its :term:`VJP`, and a ``Tanh`` layer keeps its output:

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)  # the same weights and data on every build
layers = [(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
blocks = [nn.Sequential(*four) for four in layers]
whole = nn.Sequential(*blocks)
x = torch.randn(128, 64, requires_grad=True)
v = torch.randn(128, 64)

# %%
# The function ``pack`` below is a hook, and each tensor that the graph saves first passes
# through it. So ``pack`` can count the bytes of these tensors, and the count is the same on
# every machine. The weights are in memory anyway, so they count as 0, and a tensor that two
# operations keep is counted once. The argument ``change`` is used further down:


def kept(f, change=lambda t: t):
    sizes = {p.untyped_storage().data_ptr(): 0 for p in whole.parameters()}

    def pack(t):
        t = change(t)
        sizes.setdefault(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
        return t

    with saved_tensors_hooks(pack, torch.Tensor.float):
        y = f(x)
    return y, torch.tensor([*sizes.values()]).sum().item()


# %%
# We run the four blocks in three ways: without checkpoints, with a checkpoint for each
# block, and with one checkpoint for all of them. The meaning of ``use_reentrant=False`` is
# explained further down:


def each(x):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


def all_in_one(x, old=False):
    return checkpoint(whole, x, use_reentrant=old)


# %%
# For each way we print the bytes that are kept between the forward pass and ``backward``,
# and how many times a block runs in the forward pass and ``backward`` together. ``plain``
# is the way without checkpoints. It keeps x and the outputs of the eight ``Tanh`` layers,
# which makes nine tensors:

runs, products = [], {}
for block in blocks:
    block.register_forward_pre_hook(lambda *_: runs.append(1))
for name, f in {"plain": whole, "each": each, "all_in_one": all_in_one}.items():
    runs.clear()
    y, size = kept(f)
    (products[name],) = torch.autograd.grad(y, x, v)
    print(f"{name:11} {size:7} bytes {len(runs):3} block runs")

# %%
# The way that keeps the least memory after the forward pass is not the way that needs the
# least in ``backward``. When ``v`` arrives, ``all_in_one`` runs a whole forward pass and
# holds everything that ``plain`` holds, whereas ``each`` holds only what one block needs,
# and the inputs of the blocks that ``backward`` has not reached yet. A checkpoint for a few
# blocks at a time is a compromise. Each way with checkpoints costs a second forward pass.
#
# Random numbers in a checkpointed block
# --------------------------------------
#
# Dropout draws again when the block runs a second time, so ``checkpoint`` first restores
# the state of the random number generator. If you turn this off with
# ``preserve_rng_state=False``, ``v`` does not go back through the units that y came from,
# but through others, and there is no warning. In each pair of lines in the output, the
# first line is y and the second is the gradient. The first pair is for
# ``preserve_rng_state=True``, and the second is for ``preserve_rng_state=False``:

dropout, ones = nn.Dropout(0.5), torch.ones(8)
for preserve in (True, False):
    z = torch.ones(8, requires_grad=True)
    y = checkpoint(dropout, z, use_reentrant=False, preserve_rng_state=preserve)
    (g,) = torch.autograd.grad(y, z, ones)
    print(y.tolist(), g.tolist(), sep="\n")

# %%
# BatchNorm updates its running statistics each time its block runs, so a checkpointed
# BatchNorm updates them twice (:ref:`functional-buffers`).
#
# Handling the saved tensors yourself
# -----------------------------------
#
# You can write your own pair of hooks, ``pack`` and ``unpack``. The graph holds what
# ``pack`` returns, and ``unpack`` has to turn that into a tensor again. ``save_on_cpu`` is
# such a pair. It keeps in main memory the tensors that a graph on a GPU saves. *I keep
# copies in half precision, and it takes more memory.* ``pack`` gets the weights as well,
# and a tensor that two operations save is copied twice. The first line of the output shows
# the bytes that the graph then holds in all. For the second line, ``pack`` leaves the
# weights alone, and even then you save little memory. In both cases, the gradient is close
# to the right one:

own = {p.data_ptr() for p in whole.parameters()}
for change in (torch.Tensor.half, lambda t: t if t.data_ptr() in own else t.half()):
    y, size = kept(whole, change)
    error = torch.autograd.grad(y, x, v)[0] - products["plain"]
    print(size, "bytes, near:", bool(error.norm() < 1e-2 * products["plain"].norm()))
with save_on_cpu():
    products["moved"] = torch.autograd.grad(whole(x), x, v)[0]

# %%
# What goes wrong
# ---------------
#
# *"torch.utils.checkpoint is incompatible with .grad()"* comes from the old variant,
# ``use_reentrant=True``. The old variant calls ``backward`` inside ``backward``, so it does
# not work with ``autograd.grad``, and it has no rule for :func:`torch.func.jvp`.
# :func:`torch.func.grad` refuses the new variant, which is built on the hooks above. With
# the new variant, ``vmap`` computes the value, but ``backward`` through the result of
# ``vmap`` raises an error. Here are the four messages:

for attempt in (
    lambda: torch.autograd.grad(all_in_one(x, old=True), x, v),
    lambda: torch.func.jvp(lambda x: all_in_one(x, old=True), (x.detach(),), (v,)),
    lambda: torch.func.grad(lambda x: all_in_one(x).sum())(x),
    lambda: torch.func.vmap(all_in_one)(x).backward(v),
):
    try:
        attempt()
        raise AssertionError("this was expected to raise")
    except RuntimeError as error:
        print(str(error).partition(". ")[0])
torch.testing.assert_close(torch.func.vmap(all_in_one)(x), whole(x))

# %%
# The new variant allows a batch of ``v`` and a second derivative, here of :math:`a\,x^3`:

u, a = torch.ones(3), torch.tensor(1.0, requires_grad=True)
small = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def cube(x):
    return checkpoint(lambda x: a * x**3, x, use_reentrant=False)


(rows,) = torch.autograd.grad(cube(small), small, torch.eye(3), is_grads_batched=True)
(g,) = torch.autograd.grad(cube(small), small, u, create_graph=True)
print(rows, *torch.autograd.grad(g, small, u), sep="\n")

# %%
# *Checkpoint and jvp do not go together (MeanFlow).* :term:`Forward mode <forward mode>`
# through a checkpoint gives the right :term:`tangent`, but ``backward`` through this
# tangent raises an error, because the checkpoint runs its block again outside the
# ``jvp``. Put the ``jvp`` inside the checkpoint, as we do for the second half of the
# output:


def rate(x, f=lambda x: a * x**3):
    return torch.func.jvp(f, (x,), (u,))[1]


for tangent in (rate(small, cube), checkpoint(rate, small, use_reentrant=False)):
    print(tangent.detach())
    try:
        print(*torch.autograd.grad(tangent.sum(), a))
    except RuntimeError as error:
        print(str(error).splitlines()[0])

# %%
# As a check, we compare all the products :math:`J^\top v` with each other, and
# :math:`(J^\top v)\cdot w` with :math:`v\cdot(Jw)`, for which forward mode computes
# :math:`Jw`. And a BatchNorm in a checkpoint must have counted two batches:

for product in products.values():
    torch.testing.assert_close(product, products["plain"])
w = torch.randn(128, 64)
norm = nn.BatchNorm1d(64)
torch.autograd.grad(checkpoint(norm, x, use_reentrant=False), x, v)
assert norm.num_batches_tracked == 2
_, Jw = torch.func.jvp(whole, (x.detach(),), (w,))
torch.testing.assert_close((v * Jw).sum(), (product * w).sum(), rtol=1e-3, atol=1e-3)

# %%
# Where next
# ----------
#
# :ref:`selective-checkpointing` shows how to keep some of the results, and
# :ref:`memory-measured` shows how to measure memory. :ref:`gradient-cache` is about a batch
# that is too large for memory, and :ref:`hooks` is about other hooks.
#
# .. asked: gradient checkpointing; save memory in backward; recompute activations;
#    torch.utils.checkpoint; activation checkpointing; does checkpointing change
#    gradients; trade time for memory; forget activations
# .. words: memory, oom, recompute, activations, slower, dropout twice, use_reentrant, large
#    model, save ram, same numbers
