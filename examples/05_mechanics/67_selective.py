r"""
.. _selective-checkpointing:

Can a checkpoint keep some results and recompute the rest?
==========================================================

Yes: ``context_fn`` of ``torch.utils.checkpoint`` says whose results are kept, so that
matrix products run once and what is cheap runs twice. The product with ``v`` is the same;
but one ``backward`` is all that you get.
"""

# %%
# Two layers from ``(128, 64)`` to ``(128, 64)``, each a matrix product and three operations
# on entries. Every result has 32768 bytes. The tools:

from collections import Counter

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint
from torch.utils.checkpoint import create_selective_checkpoint_contexts as contexts_for

# %%
# And the layers:

torch.manual_seed(0)  # the same numbers on every build
W, x, v = torch.randn(64, 64) / 8, torch.randn(128, 64), torch.randn(128, 64)
x.requires_grad_()


def layer(x):
    h = x @ W
    return torch.tanh(h * torch.sigmoid(h))


def block(x):
    return layer(layer(x))


# %%
# A mode that sees each operation below autograd counts them, and knows which of the results
# are still in memory afterwards, without holding any:


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
# The names are those of the operations below autograd, with an overload: ``@`` is
# ``torch.ops.aten.mm.default``. In place of a list a function may decide each time:

aten = torch.ops.aten


def first_only(context, op, *args, **kwargs):
    matches = op == aten.mm.default and args[0] is x
    return CheckpointPolicy.MUST_SAVE if matches else CheckpointPolicy.PREFER_RECOMPUTE


def selective(what, f=block):
    settings = {"use_reentrant": False, "context_fn": lambda: contexts_for(what)}
    return lambda x: checkpoint(f, x, **settings)


# %%
# Bytes in memory between the forward pass and ``backward`` (y, the result, is 32768 of
# them), then how often three operations ran when ``v`` arrived:

ways = {
    "plain": block,
    "checkpoint": lambda x: checkpoint(block, x, use_reentrant=False),
    "keep mm": selective([aten.mm.default]),
    "keep the first mm": selective(first_only),
    "keep tanh": selective([aten.tanh.default]),
}

# %%
# The two ``mm`` of ``plain`` are the product with ``v`` itself, more are recomputed.
# Keeping ``tanh`` takes as much as keeping the first ``mm``, and both ``mm`` run again:

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
# *I keep mm, and the matrix products run twice all the same.* A ``Linear`` with a bias is
# ``addmm``, and a name that does not occur keeps nothing, without a word:

L = torch.nn.Linear
net = torch.nn.Sequential(L(64, 64), torch.nn.Tanh(), L(64, 64), torch.nn.Tanh())
for op in (aten.mm.default, aten.addmm.default):
    y = selective([op], net)(x)
    with Watch() as back:
        torch.autograd.grad(y, x, v)
    print(op.__name__, "kept; addmm ran again:", back.ran["addmm"])

# %%
# *And MUST_CPU_OFFLOAD?* Without ``torch.compile``, two policies keep what they are asked
# for, and the other four recompute it, without a word:

for policy in CheckpointPolicy:
    y = selective(lambda context, op, *args, policy=policy, **kwargs: policy)(x)
    with Watch() as back:
        torch.autograd.grad(y, x, v)
    print(f"{policy.name:18}", back.ran["mm"])

# %%
# *"You are only allowed to backward once"*: what was kept is handed out one time. So a
# second ``v`` is refused, and so is a second derivative; the checkpoint without a policy
# allows both. A batch of ``v`` is one ``backward``. An edit in place of what is kept, and
# a name without its overload, are refused as well:

kept = selective([aten.mm.default])


def two(f, **flags):
    y = f(x)
    (g,) = torch.autograd.grad(y, x, v, **flags)
    return torch.autograd.grad(g if "create_graph" in flags else y, x, v)


# %%
# Six attempts; the last two are not refused:

attempts = (
    lambda: two(kept, retain_graph=True),
    lambda: two(kept, create_graph=True),
    lambda: selective([aten.mm.default], lambda x: (x @ W).relu_())(x).backward(v),
    lambda: selective([aten.mm])(x),
    lambda: two(ways["checkpoint"], create_graph=True),
    lambda: torch.autograd.grad(kept(x), x, torch.stack([v, 2 * v]), is_grads_batched=True),
)

# %%
# What they say, or the shape of the product:

for attempt in attempts:
    try:
        print(tuple(attempt()[0].shape))
    except (RuntimeError, ValueError) as error:
        print(str(error).partition(". ")[0])

# %%
# The check: one product, whatever was kept, and :term:`forward mode`, in which nothing is:

for product in products.values():
    torch.testing.assert_close(product, products["plain"])
_, Ju = torch.func.jvp(block, (x.detach(),), (v,))
torch.testing.assert_close((v * Ju).sum(), (product * v).sum(), rtol=1e-3, atol=1e-3)

# %%
# Where next
# ----------
#
# All or nothing, and the older variant: :ref:`checkpointing`. What memory each mode takes:
# :ref:`memory-measured`.
#
# .. asked: selective checkpointing; keep some activations; checkpoint policy; save
#    matmuls and recompute the rest
# .. words: policy, keep matmul, partial, recompute cheap parts, sac, flash attention
