r"""
.. _vmap-limits:

Why does vmap refuse my function?
=================================

Because :term:`vmap` runs it once for all samples: there is no single number for an ``if``
or ``.item()``, no room in a tensor from outside, no word on who shares random numbers.
Use :func:`torch.where`, out-of-place operations, ``randomness=``, or a loop.
"""

# %%
# A function of one number, ``()`` to ``()``, becomes one of a batch, ``(B,)`` to ``(B,)``.
# It is called once, with a stand-in that has the shape of one sample:

import torch
from torch.func import grad, jacrev, vmap

samples, calls = torch.tensor([1.0, -2.0, 3.0]), []


def square(x):
    calls.append(tuple(x.shape))
    return x**2


print(vmap(square)(samples), calls)

# %%
# What goes wrong
# ---------------
#
# Seven functions, of which a loop would run all but the last. Two that need a name:

norm = torch.nn.BatchNorm1d(1, affine=False)


def branch(x):
    return x**2 if x > 0 else -x


def first(x):
    return norm(torch.stack([x, 0 * x, 0 * x + 1])[:, None])[0, 0]


# %%
# All of them:

refused = {
    "if": branch,
    "item": lambda x: x * x.item(),
    "mask": lambda x: x.expand(2)[x > 0].sum(),
    "in place": lambda x: torch.zeros(()).add_(x),
    "random": lambda x: x + torch.rand(()),
    "functional": lambda x: torch.autograd.functional.vjp(square, x, torch.ones(()))[1],
    "BatchNorm": grad(first),
}

# %%
# What vmap says to each, up to the first full stop:

for name, f in refused.items():
    try:
        vmap(f)(samples)
    except RuntimeError as error:
        print(f"{name}: {str(error).partition('. ')[0]}")

# %%
# An if on values
# ---------------
#
# ``torch.where`` computes both sides for all samples and picks. The side that is not
# picked still sends its NaN back, so keep its input legal (:ref:`masked-nan`):


def safe(x):
    return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), -x)


print(vmap(grad(lambda x: torch.where(x > 0, x.sqrt(), -x)))(samples))
print(vmap(grad(safe))(samples))

# %%
# :func:`torch.cond` under vmap is ``where`` again: both branches run, and NaN comes back.
# A loop over the samples, without vmap, takes B calls and gives the branch's own slopes:


cond = vmap(lambda x: torch.cond(x > 0, lambda x: x.sqrt(), lambda x: -x, (x,)))
x = samples.clone().requires_grad_()
print(torch.autograd.grad(cond(x), x, torch.ones(3))[0])
print(torch.stack([grad(branch)(x) for x in samples]))

# %%
# Sizes, and edits in place
# -------------------------
#
# A mask has a result of unknown size; ``where`` with 0 keeps the size. ``torch.zeros(())``
# has room for one number and is handed B of them; make it of x, or stay out of place:

rows = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
sums = vmap(lambda row: torch.where(row > 0, row, 0.0).sum())(rows)
print(sums, vmap(lambda x: torch.zeros_like(x).add_(x))(samples))

# %%
# *torch.func and BatchNorm: "would mutate a captured Tensor".* In ``train()`` the layer
# edits its running statistics, made outside. Use those as they are, ``eval()``, or have
# none, which keeps the statistics of the batch. They are two functions with two slopes:

for mend in (norm.eval, lambda: torch.func.replace_all_batch_norm_modules_(norm.train())):
    mend()
    print(vmap(grad(first))(samples).round(decimals=3))

# %%
# *vmap over autograd.functional.vjp gave me zeros*; now it raises. Nest :mod:`torch.func`:

vmap(lambda x: torch.func.vjp(square, x)[1](torch.ones(()))[0])(samples)

# %%
# Random numbers
# --------------
#
# ``"different"`` draws for each sample, as a loop would; ``"same"`` draws once. For dropout
# with per-sample gradients you want the first:

for randomness in ("different", "same"):
    torch.manual_seed(0)  # the same draws in both
    noise = vmap(lambda x: 0 * x + torch.rand(()), randomness=randomness)(samples)
    print(randomness, noise.unique().numel())

# %%
# A backward with an if
# ---------------------
#
# :func:`torch.func.jacrev` batches ``v``, not x, so f may branch on values of x. A
# backward that looks at ``v`` is another matter; ``chunk_size=1`` takes one v at a time:


class Skips(torch.autograd.Function):
    forward = staticmethod(lambda x: x**2)
    setup_context = staticmethod(lambda ctx, inputs, y: ctx.save_for_backward(*inputs))

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return 2 * x * v if v.any() else torch.zeros_like(x)


# %%
# In order: a branch in f; a branch in backward; ``chunk_size=1`` for vmap, where a batch of
# one is still a batch; the same for ``jacrev``, where it makes a loop:

for attempt in (
    lambda: jacrev(lambda x: x**2 if x.sum() > 0 else -x)(samples).diagonal(),
    lambda: jacrev(Skips.apply)(samples),
    lambda: vmap(branch, chunk_size=1)(samples),
    lambda: jacrev(Skips.apply, chunk_size=1)(samples).diagonal(),
):
    try:
        print(attempt())
    except RuntimeError as error:
        print(str(error).partition("; ")[0].partition(". ")[0])

# %%
# The check: what replaced the refused ones, against loops over plain numbers:

loop = [0.5 / x.item() ** 0.5 if x > 0 else -1.0 for x in samples]
torch.testing.assert_close(vmap(grad(safe))(samples), torch.tensor(loop))
assert sums.tolist() == [row[row > 0].sum().item() for row in rows]

# %%
# Where next
# ----------
#
# Batched v: :ref:`batched-v`. Gradients of each sample: :ref:`per-sample-gradients`. Models
# side by side: :ref:`functional-buffers`. Own Functions: :ref:`function-under-transforms`.
#
# .. asked: vmap error; vmap does not work with my function; data-dependent control flow
#    in vmap; .item() in vmap; in-place in vmap; random numbers in vmap; vmap over if
