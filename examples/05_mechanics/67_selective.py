r"""
.. _selective-checkpointing:

Can a checkpoint keep some results and recompute the rest?
==========================================================

A checkpoint saves memory by computing everything inside it a second time. But your matrix
products are expensive, and you would rather keep their results and recompute only the cheap
operations. You can: with the argument ``context_fn`` of ``torch.utils.checkpoint`` you
choose the operations whose results are kept. The gradient for your ``v`` stays the same.
The price is that you may call ``backward`` only once.
"""

# %%
# Our example has two layers, each of which maps a tensor of shape ``(128, 64)`` to another
# of the same shape. Each layer is a matrix product and three elementwise operations, and
# the result of each operation takes 32768 bytes. First we import the tools:

from collections import Counter

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint
from torch.utils.checkpoint import create_selective_checkpoint_contexts as contexts_for

# %%
# Then we define the layers:

torch.manual_seed(0)  # the same numbers on every build
W, x, v = torch.randn(64, 64) / 8, torch.randn(128, 64), torch.randn(128, 64)
x.requires_grad_()


def layer(x):
    h = x @ W
    return torch.tanh(h * torch.sigmoid(h))


def block(x):
    return layer(layer(x))


# %%
# To see what is kept and what is computed again, we write a mode that sees each operation
# as it is called below autograd. The mode counts the operations, and it can tell which of
# their results are still in memory later, without keeping any of them alive:


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ran, self.made = Counter(), {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        self.ran[op.__name__.split(".")[0]] += 1
        storage = out.untyped_storage()
        self.made[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        return out


# %%
# Pass a list of the operations whose results are to be kept. Give each operation the name
# under which it is called below autograd, with its overload. For example, ``@`` is
# ``torch.ops.aten.mm.default``. In place of a list you may pass a function that decides at
# each call to an operation, as ``first_only`` does:

aten = torch.ops.aten


def first_only(context, op, *args, **kwargs):
    matches = op == aten.mm.default and args[0] is x
    return CheckpointPolicy.MUST_SAVE if matches else CheckpointPolicy.PREFER_RECOMPUTE


def selective(what, f=block):
    settings = {"use_reentrant": False, "context_fn": lambda: contexts_for(what)}
    return lambda x: checkpoint(f, x, **settings)


# %%
# We compare five ways: one that keeps everything, one that keeps nothing inside the block,
# and three in between:

ways = {
    "plain": block,
    "checkpoint": lambda x: checkpoint(block, x, use_reentrant=False),
    "keep mm": selective([aten.mm.default]),
    "keep the first mm": selective(first_only),
    "keep tanh": selective([aten.tanh.default]),
}

# %%
# The first number is the number of bytes in memory between the forward pass and
# ``backward``, of which the result y takes 32768. The numbers after it say how often three
# operations ran during ``backward``. The two ``mm`` of ``plain`` belong to the backward
# pass itself, and any further ``mm`` are recomputed. Notice that keeping ``tanh`` takes as
# much memory as keeping the first ``mm``, but that both ``mm`` run again if you keep
# ``tanh``:

products = {}
for name, f in ways.items():
    with Watch() as forward:
        y = f(x)
    size = torch.tensor([n for s, n in forward.made.values() if not s.expired()]).sum()
    with Watch() as back:
        (products[name],) = torch.autograd.grad(y, x, v)
    print(f"{name:18} {size:7}", {op: back.ran[op] for op in ("mm", "sigmoid", "tanh")})

# %%
# What goes wrong
# ---------------
#
# *I keep mm, but the matrix products still run twice.* A ``Linear`` with a bias calls
# ``addmm``, not ``mm``. If you name an operation that does not occur, nothing is kept, and
# there is no warning:

L = torch.nn.Linear
net = torch.nn.Sequential(L(64, 64), torch.nn.Tanh(), L(64, 64), torch.nn.Tanh())
for op in (aten.mm.default, aten.addmm.default):
    y = selective([op], net)(x)
    with Watch() as back:
        torch.autograd.grad(y, x, v)
    print(op.__name__, "kept; addmm ran again:", back.ran["addmm"])

# %%
# *What does MUST_CPU_OFFLOAD do?* Without ``torch.compile``, two of the policies keep the
# results, and the other four recompute them. The two policies that should offload the
# results are among these four, and they do not warn you. The number is how often ``mm`` ran
# during ``backward``, so 2 means kept and 4 means recomputed:

for policy in CheckpointPolicy:
    y = selective(lambda context, op, *args, policy=policy, **kwargs: policy)(x)
    with Watch() as back:
        torch.autograd.grad(y, x, v)
    print(f"{policy.name:18}", back.ran["mm"])

# %%
# *"You are only allowed to backward once."* A kept result is handed out only once. So
# PyTorch refuses a second ``v``, and it refuses a second derivative. A checkpoint without a
# policy allows both of these. A batch of ``v`` counts as one ``backward``. PyTorch also
# refuses to go on if a kept result has been edited in place, and it refuses the name of an
# operation without its overload. To show this, we write a function that calls
# ``autograd.grad`` twice:

kept = selective([aten.mm.default])


def two(f, **flags):
    y = f(x)
    (g,) = torch.autograd.grad(y, x, v, **flags)
    return torch.autograd.grad(g if "create_graph" in flags else y, x, v)


# %%
# Then we make six attempts, of which only the last two succeed:

attempts = (
    lambda: two(kept, retain_graph=True),
    lambda: two(kept, create_graph=True),
    lambda: selective([aten.mm.default], lambda x: (x @ W).relu_())(x).backward(v),
    lambda: selective([aten.mm])(x),
    lambda: two(ways["checkpoint"], create_graph=True),
    lambda: torch.autograd.grad(kept(x), x, torch.stack([v, 2 * v]), is_grads_batched=True),
)

# %%
# For each attempt we print the message, or the shape of the gradient:

for attempt in attempts:
    try:
        print(tuple(attempt()[0].shape))
    except (RuntimeError, ValueError) as error:
        print(str(error).partition(". ")[0])

# %%
# As a check, we assert that the gradient is the same whatever was kept, and that it agrees
# with :term:`forward mode`, in which nothing is kept:

for product in products.values():
    torch.testing.assert_close(product, products["plain"])
_, Ju = torch.func.jvp(block, (x.detach(),), (v,))
torch.testing.assert_close((v * Ju).sum(), (product * v).sum(), rtol=1e-3, atol=1e-3)

# %%
# Where next
# ----------
#
# :ref:`checkpointing` is about checkpoints that keep nothing inside the block, and about
# the older variant. :ref:`memory-measured` shows how much memory each mode takes.
#
# .. asked: selective checkpointing; keep some activations; checkpoint policy; save
#    matmuls and recompute the rest
# .. words: policy, keep matmul, partial, recompute cheap parts, sac, flash attention
