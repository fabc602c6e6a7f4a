r"""
.. _repeated-indices:

What happens to v when an index occurs twice?
=============================================

An index occurs twice in your ``x[i]`` or in your ``b[i] = s``. What happens to the
gradient? If you *read* a place twice, its two :term:`cotangents <cotangent>` are added up,
which is right. If you *write* to a place twice and the values are added, each of them gets
the ``v`` of that place, which is also right. But if one value overwrites the other, PyTorch
sends the ``v`` of the place to both values, without a warning.
"""

# %%
# We read ``x`` of shape ``(3,)`` at four places, ``i`` = (0, 2, 2, 2). This is a product
# with a matrix S of shape ``(4, 3)``, whose row k is the :term:`one-hot vector` of the k-th
# entry of ``i``. So a ``v`` of shape ``(4,)`` comes back as :math:`S^\top v`. In the last
# column of the picture, three terms meet at place 2:

import torch

i = torch.tensor([0, 2, 2, 2])
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1.0, 2.0, 3.0, 10.0])
S = torch.nn.functional.one_hot(i, 3).float()

import pullback

pullback.draw.vjp(v, S)

# %%
# PyTorch has many ways to read with an index. The six ways below give the same gradient,
# in which place 1 gets 0 because it is never read:

reads = {
    "x[i]": lambda: x[i],
    "gather": lambda: x.gather(0, i),
    "index_select": lambda: x.index_select(0, i),
    "embedding": lambda: torch.nn.functional.embedding(i, x[:, None])[:, 0],
    "repeat_interleave": lambda: x.repeat_interleave(torch.tensor([1, 0, 3])),
    "S @ x": lambda: S @ x,
}
for name, read in reads.items():
    print(f"{name:18}", torch.autograd.grad(read(), x, v)[0].tolist())

# %%
# A view may also show one place several times. The two overlapping windows below both
# contain place 1. With ``expand``, all four entries are at one place, and this place gets
# the sum of the entries of ``v``:

windows = x.as_strided((2, 2), (1, 1))
print(windows.tolist())
print(torch.autograd.grad(windows, x, v.view(2, 2))[0].tolist())
print(torch.autograd.grad(x[:1].expand(4), x, v)[0].tolist())

# %%
# *Does a word that occurs often get a larger gradient?* Usually it does, because its
# gradient has one term for each occurrence. An embedding can divide each row's gradient by
# the count, or leave out the one row that is used for padding:

table = torch.zeros(3, 1, requires_grad=True)
for settings in ({}, {"scale_grad_by_freq": True}, {"padding_idx": 2}):
    y = torch.nn.functional.embedding(i, table, **settings)
    print(settings, torch.autograd.grad(y, table, v[:, None])[0].flatten().tolist())

# %%
# Writing to a place twice
# ------------------------
#
# Now we write ``s`` of shape ``(4,)`` into ``b`` of shape ``(3,)``, at the same ``i``. The
# result has shape ``(3,)``, and so has the cotangent ``w`` that arrives at it. If the
# values are added, the result is :math:`b+S^\top s`. Its :term:`vector-Jacobian product`
# with respect to ``s`` is :math:`Sw`, which reads ``w`` at the places ``i``. There are
# several ways to write. Two of them are assignments, which we put into functions:

s = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
b = torch.zeros(3, dtype=torch.float64, requires_grad=True)
w = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)


def assign(b, s):
    b = b.clone()
    b[i] = s
    return b


def plus_equals(b, s):
    b = b.clone()
    b[i] += s
    return b


# %%
# The others are methods:

writes = {
    "index_add": lambda b, s: b.index_add(0, i, s),
    "scatter_add": lambda b, s: b.scatter_add(0, i, s),
    "accumulate=True": lambda b, s: b.index_put((i,), s, accumulate=True),
    "index_put": lambda b, s: b.index_put((i,), s),
    "scatter": lambda b, s: b.scatter(0, i, s),
    "b[i] = s": assign,
    "b[i] += s": plus_equals,
}

# %%
# What goes wrong
# ---------------
#
# For each way to write, we print the result, the product with respect to ``b``, the product
# with respect to ``s``, and whether :func:`torch.autograd.gradcheck
# <torch.autograd.gradcheck.gradcheck>`, which uses :term:`finite differences`, agrees. The
# first three ways add the values, and their products are right.
#
# The next three ways overwrite. Only one value is left at place 2. Here it is the last
# value, which is 4, but with many threads or on a GPU it may be another. The values 2 and 3
# were lost, yet each of them gets 100 as well. The last way, ``b[i] += s``, reads place 2
# of ``b`` three times and keeps one of the three sums. So place 2 holds 4, whereas adding
# would give 9, and the cotangent that comes back to place 2 of ``b`` is 300:


def tried(write):
    y = write(b, s)
    products = [g.int().tolist() for g in torch.autograd.grad(y, (b, s), w)]
    right = torch.autograd.gradcheck(write, (b, s), raise_exception=False)
    return [y.int().tolist(), *products, right]


for name, write in writes.items():
    print(f"{name:15}", *tried(write))

# %%
# So say what you want. If you want the sum, take ``index_add``. If the last value should
# win, drop the other values before you write. The first two lines of the code below use
# integer operations to find which values to keep. If the largest value should win, or if
# you want the mean, ``scatter_reduce`` gives the right product. With ``"amax"``, if several
# values tie for the largest at a place, they share the ``v`` of that place, and
# :ref:`kinks` has more on this.

order = torch.arange(4)
keep = order == torch.full((3,), -1).scatter_reduce(0, i, order, "amax")[i]
last = {
    "the last": lambda b, s: b.index_put((i[keep],), s[keep]),
    "the largest": lambda b, s: b.scatter_reduce(0, i, s, "amax", include_self=False),
    "the mean": lambda b, s: b.scatter_reduce(0, i, s, "mean", include_self=False),
}
for name, write in last.items():
    print(f"{name:15}", *tried(write))

# %%
# PyTorch refuses one case, which is editing an expanded tensor in place:

try:
    torch.zeros(1).expand(3).add_(1)
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %%
# The order of a sum
# ------------------
#
# In float32 a 1 is lost next to :math:`10^8`, and so the sum of three such terms can depend
# on their order. On one thread, the backward pass of indexing adds the terms in the order
# in which they occur. With many terms on several threads, or with ``gather`` on a GPU, the
# order may differ from run to run, unless you set
# ``torch.use_deterministic_algorithms(True)``:

same = torch.zeros(3, dtype=torch.int64)
for terms in ([1e8, 1.0, -1e8], [1e8, -1e8, 1.0]):
    print(torch.autograd.grad(x[same], x, torch.tensor(terms))[0][0].item())

# %%
# As a check, we compare each way to read with NumPy's ``add.at``, which adds at repeated
# places. For "the last one wins", we build the :term:`Jacobian` column by column from the
# outputs of the forward pass alone, without autograd:

import numpy as np

added = np.zeros(3)
np.add.at(added, i.numpy(), v.numpy())
for read in reads.values():
    assert torch.autograd.grad(read(), x, v)[0].tolist() == added.tolist()
scatter = writes["scatter"]
columns = [scatter(b, s + step) - scatter(b, s) for step in torch.eye(4)]
(by_s,) = torch.autograd.grad(last["the last"](b, s), s, w)
assert torch.equal(by_s, w @ torch.stack(columns, 1))

# %%
# Below you can change the ``v`` of three reads. Place 0 is read twice, place 2 once, and
# place 1 never:

pullback.live(lambda x: x[torch.tensor([0, 2, 0])], torch.tensor([1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# :ref:`grad-is-none` explains why the index has no gradient, and :ref:`silent-traps` lists
# more traps. If you want a separate gradient for each repeat, see
# :ref:`per-sample-gradients`.
#
# .. asked: duplicate indices; same index twice; gradient of index_put and scatter;
#    gradient of gather; embedding with repeated words; index_add gradient
# .. words: duplicate, scatter, index_add, word occurs twice, embedding, overwritten, last
#    one wins, histogram, graph neighbours, race
