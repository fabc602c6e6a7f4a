r"""
.. _checkpointing:

Does checkpointing change what backward(v) gives?
=================================================

No: the product is the same, as long as the function computes the same twice.
``torch.utils.checkpoint`` keeps the input of a block in place of the block's
:term:`saved tensors <saved tensor>`, and runs the block once more when ``v`` arrives.
"""

# %%
# Four blocks map ``(128, 64)`` to ``(128, 64)``; one such tensor of float32 has 32768
# bytes. A ``Linear`` keeps its input for its :term:`VJP` and a ``Tanh`` its output:

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
# Each tensor on its way into the graph passes through ``pack``, so its bytes can be
# counted, the same on every machine. The weights are there anyway, and a tensor that two
# operations keep is stored once:


def kept(f):
    sizes = {p.untyped_storage().data_ptr(): 0 for p in whole.parameters()}

    def pack(t):
        sizes.setdefault(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = f(x)
    return y, torch.tensor([*sizes.values()]).sum().item()


# %%
# Three ways through the four blocks. ``use_reentrant=False`` is the variant to use; why,
# further down:


def each(x):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


def all_in_one(x):
    return checkpoint(whole, x, use_reentrant=False)


# %%
# Bytes kept between the forward pass and ``backward``, and how often a block ran in both
# together. ``plain`` keeps x and what the eight ``Tanh`` gave, nine tensors:

runs, products = [], {}
for block in blocks:
    block.register_forward_pre_hook(lambda *_: runs.append(1))
for name, f in {"plain": whole, "each": each, "all_in_one": all_in_one}.items():
    runs.clear()
    y, size = kept(f)
    (products[name],) = torch.autograd.grad(y, x, v)
    print(f"{name:11} {size:7} bytes {len(runs):3} block runs")

# %%
# The least here is not the least later: when ``v`` arrives, ``all_in_one`` runs a whole
# forward pass and holds what ``plain`` holds, ``each`` only what one block needs. Segments
# of medium length are the compromise; a second forward pass is the price of any of them.
#
# Random numbers
# --------------
#
# Dropout draws again in the second run, so the state of the generator is put back first.
# Turn that off, and ``v`` goes back through other units than y came from, without a word:

dropout, ones = nn.Dropout(0.5), torch.ones(8)
for preserve in (True, False):
    z = torch.ones(8, requires_grad=True)
    y = checkpoint(dropout, z, use_reentrant=False, preserve_rng_state=preserve)
    (g,) = torch.autograd.grad(y, z, ones)
    print(y.tolist(), g.tolist(), sep="\n")

# %%
# The saved tensors, in your hands
# --------------------------------
#
# What ``pack`` returns is what the graph holds, and ``unpack`` must make a tensor of it
# again. ``save_on_cpu`` is such a pair: what a graph on a GPU keeps waits in the main
# memory. Half precision keeps half the bytes and gives a product that is only near:

with save_on_cpu():
    moved = torch.autograd.grad(whole(x), x, v)[0]
with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
    y = whole(x)
(halved,) = torch.autograd.grad(y, x, v)
error = (halved - products["plain"]).norm() / products["plain"].norm()
print(torch.equal(moved, products["plain"]), bool(0 < error < 1e-2))

# %%
# What goes wrong
# ---------------
#
# *"torch.utils.checkpoint is incompatible with .grad()"*: the old variant,
# ``use_reentrant=True``, calls ``backward`` inside ``backward``, and ``autograd.grad``
# cannot reach through. :func:`torch.func.grad` refuses the new one, which lives on the
# hooks above:


def old(x):
    return checkpoint(whole, x, use_reentrant=True)


for attempt in (
    lambda: torch.autograd.grad(old(x), x, v),
    lambda: torch.func.grad(lambda x: all_in_one(x).sum())(x),
):
    try:
        attempt()
    except RuntimeError as error:
        print(error)

# %%
# What works with the new one: a batch of ``v``, :term:`forward mode`, which has nothing to
# keep, and a second derivative:

u, small = torch.ones(3), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def cube(x):
    return checkpoint(lambda x: x**3, x, use_reentrant=False)


(rows,) = torch.autograd.grad(cube(small), small, torch.eye(3), is_grads_batched=True)
(g,) = torch.autograd.grad(cube(small), small, u, create_graph=True)
(second,) = torch.autograd.grad(g, small, u)
print(rows, torch.func.jvp(cube, (small.detach(),), (u,))[1], second, sep="\n")

# %%
# The check: the same product whatever was kept, and against forward mode, which saves
# nothing: :math:`v\cdot(Ju)` must be :math:`(J^\top v)\cdot u`:

for product in products.values():
    torch.testing.assert_close(product, products["plain"])
w = torch.randn(128, 64)
_, Jw = torch.func.jvp(whole, (x.detach(),), (w,))
torch.testing.assert_close(
    (v * Jw).sum(), (products["each"] * w).sum(), rtol=1e-3, atol=1e-3
)

# %%
# Where next
# ----------
#
# The memory of both modes, measured: :ref:`memory-measured`. A batch too large for memory:
# :ref:`gradient-cache`. Other hooks: :ref:`hooks`.
