r"""
.. _vmap-limits:

Why does vmap refuse my function?
=================================

You wrote a function for one sample, and :term:`vmap` refuses to run it for a batch. The
reason is that ``vmap`` calls your function *once*, for all samples at the same time. So
there is no single number that an ``if`` or ``.item()`` could look at, and a tensor that was
not made from the samples has no room for all the results. And if your function draws random
numbers, you have to tell ``vmap`` whether the samples share them. There are four remedies:
:func:`torch.where`, operations that are not in place, ``randomness=``, and in the worst
case a loop.
"""

# %%
# ``vmap`` turns a function of one number into a function of a batch of numbers. It calls
# the function once, with a stand-in that has the shape of one sample, here ``()``:

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
# Here are seven functions that ``vmap`` refuses. In a loop over the samples, each of them
# would run, except the last. Two of them are too long for a lambda:

norm = torch.nn.BatchNorm1d(1, affine=False)


def branch(x):
    return x**2 if x > 0 else -x


def first(x):
    return norm(torch.stack([x, 0 * x, 0 * x + 1])[:, None])[0, 0]


# %%
# And here are all seven together:

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
# This is how each message begins:

for name, f in refused.items():
    try:
        vmap(f)(samples)
    except RuntimeError as error:
        print(f"{name}: {str(error).partition('. ')[0]}")

# %%
# An if on values
# ---------------
#
# Write an ``if`` as ``torch.where``. It computes both sides for all samples, and then picks
# one side for each sample. There is one trap: in the backward pass the side that was not
# picked can still send a NaN. So give that side an input for which it is defined
# (:ref:`masked-nan`). Here is the gradient without such an input, and with it:


def safe(x):
    return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), -x)


print(vmap(grad(lambda x: torch.where(x > 0, x.sqrt(), -x)))(samples))
print(vmap(grad(safe))(samples))

# %%
# :func:`torch.cond` looks like a way out, but under ``vmap`` it works as ``where`` does.
# Both branches run, and the NaN is there again. A loop over the samples, without ``vmap``,
# takes one call for each sample, and gives each sample the slope of its own branch:


cond = vmap(lambda x: torch.cond(x > 0, lambda x: x.sqrt(), lambda x: -x, (x,)))
x = samples.clone().requires_grad_()
print(torch.autograd.grad(cond(x), x, torch.ones(3))[0])
print(torch.stack([grad(branch)(x) for x in samples]))

# %%
# Sizes, and edits in place
# -------------------------
#
# If you index with a mask, the result has a size that depends on the numbers, and ``vmap``
# cannot have a different size for each sample. ``where`` with 0 keeps the size. And
# ``torch.zeros(())`` has room for one number, whereas ``add_`` would write one number for
# each sample into it. Make the zeros from ``x``, with ``zeros_like``, or do not work in
# place:

rows = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
sums = vmap(lambda row: torch.where(row > 0, row, 0.0).sum())(rows)
print(sums, vmap(lambda x: torch.zeros_like(x).add_(x))(samples))

# %%
# *BatchNorm: "would mutate a captured Tensor".* In ``train()`` mode the layer edits its
# running statistics, which are tensors from outside the function. You can use the
# statistics as they are, with ``eval()``. Or you can replace the layer with one that keeps
# no running statistics, and always normalizes with the statistics of the batch. Note that
# the two remedies give two different functions, with different slopes:

for mend in (norm.eval, lambda: torch.func.replace_all_batch_norm_modules_(norm.train())):
    mend()
    print(vmap(grad(first))(samples).round(decimals=3))

# %%
# ``torch.autograd.functional.vjp`` cannot be used inside ``vmap``. In old releases it
# returned zeros inside ``vmap``, and now it raises an error. Nest the functions of
# :mod:`torch.func` instead:

vmap(lambda x: torch.func.vjp(square, x)[1](torch.ones(()))[0])(samples)

# %%
# Random numbers
# --------------
#
# With ``randomness="different"`` each sample gets its own random numbers, as in a loop.
# With ``"same"`` the numbers are drawn once, and all samples share them. For dropout with
# per-sample gradients you want ``"different"``. Each line of the output shows how many
# different numbers the three samples got:

for randomness in ("different", "same"):
    torch.manual_seed(0)  # the same draws in both
    noise = vmap(lambda x: 0 * x + torch.rand(()), randomness=randomness)(samples)
    print(randomness, noise.unique().numel())

# %%
# A backward with an if
# ---------------------
#
# :func:`torch.func.jacrev` makes a batch of ``v``, and not of x. So your function may have
# an ``if`` on values of x. But if you wrote the *backward* yourself and it has an ``if`` on
# ``v``, ``jacrev`` refuses it:


class Skips(torch.autograd.Function):
    forward = staticmethod(lambda x: x**2)
    setup_context = staticmethod(lambda ctx, inputs, y: ctx.save_for_backward(*inputs))

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return 2 * x * v if v.any() else torch.zeros_like(x)


# %%
# We try four calls. In the first call the branch is in the function, and in the second it
# is in the backward pass. The third call passes ``chunk_size=1`` to ``vmap``, which does
# not help, because a batch of one is still a batch. The fourth call passes ``chunk_size=1``
# to ``jacrev``, which then takes one ``v`` after another in a loop, and so the call
# succeeds:

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
# As a check, we compare two of the functions that replace the refused ones with loops over
# plain numbers:

loop = [0.5 / x.item() ** 0.5 if x > 0 else -1.0 for x in samples]
torch.testing.assert_close(vmap(grad(safe))(samples), torch.tensor(loop))
assert sums.tolist() == [row[row > 0].sum().item() for row in rows]

# %%
# Where next
# ----------
#
# :ref:`batched-v` shows how to pass many ``v`` in one call. :ref:`per-sample-gradients` is
# the most common use of ``vmap``, and :ref:`functional-buffers` shows how to run several
# models side by side. :ref:`function-under-transforms` is about your own Functions under
# ``vmap``.
#
# .. asked: vmap error; vmap does not work with my function; data-dependent control flow
#    in vmap; .item() in vmap; in-place in vmap; random numbers in vmap; vmap over if
# .. words: if, item, loop, data dependent, random, batchnorm, inplace, unsupported, shape
#    depends on values, nonzero, boolean mask
