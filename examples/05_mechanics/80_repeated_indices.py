r"""
.. _repeated-indices:

What does v do where an index occurs twice?
===========================================

Reading a place twice adds up both :term:`cotangents <cotangent>` there. *Writing* it twice
is right where values are added: each gets its ``v``. Where one overwrites the other,
PyTorch sends ``v`` to both, without a word.
"""

# %%
# Reading ``x`` of shape ``(3,)`` at four places, ``i`` = (0, 2, 2, 2), is a product with a
# matrix S of shape ``(4, 3)``: its row k is a :term:`one-hot vector`. So ``v`` of shape
# ``(4,)`` comes back as :math:`S^\top v`, and place 2 gets three terms:

import torch

i = torch.tensor([0, 2, 2, 2])
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1.0, 2.0, 3.0, 10.0])
S = torch.nn.functional.one_hot(i, 3).float()

import pullback

pullback.draw.vjp(v, S)

# %%
# Every way to read gives the same; place 1, never read, gets 0:

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
# A view may show one place several times, too. ``expand`` has all entries at one place;
# these overlapping windows have two of them at place 1:

windows = x.as_strided((2, 2), (1, 1))
print(windows.tolist())
print(torch.autograd.grad(windows, x, v.view(2, 2))[0].tolist())
print(torch.autograd.grad(x[:1].expand(4), x, v)[0].tolist())

# %%
# *A word that occurs often gets a larger gradient?* Yes, a term for each time. An embedding
# can divide by the count, or leave one row out, as for padding:

table = torch.zeros(3, 1, requires_grad=True)
for settings in ({}, {"scale_grad_by_freq": True}, {"padding_idx": 2}):
    y = torch.nn.functional.embedding(i, table, **settings)
    print(settings, torch.autograd.grad(y, table, v[:, None])[0].flatten().tolist())

# %%
# Writing
# -------
#
# ``s`` of shape ``(4,)`` into ``b`` of shape ``(3,)``, at the same ``i``, so now ``w`` of
# shape ``(3,)`` is what arrives. To add is :math:`b+S^\top s`, whose product by ``s`` is
# :math:`Sw`, a reading. Two ways that need a name:

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
# And the others:

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
# The result, the product by ``b``, the one by ``s``, and whether
# :func:`torch.autograd.gradcheck <torch.autograd.gradcheck.gradcheck>` agrees, with its
# :term:`finite differences`. Overwriting leaves one value at place 2, here the last (with
# many threads or a GPU maybe another), yet 2 and 3 get 100, too. ``b[i] += s`` reads ``b``
# three times and keeps one of the sums, 4 in place of 9, while 300 comes back:


def tried(write):
    y = write(b, s)
    products = [g.int().tolist() for g in torch.autograd.grad(y, (b, s), w)]
    right = torch.autograd.gradcheck(write, (b, s), raise_exception=False)
    return [y.int().tolist(), *products, right]


for name, write in writes.items():
    print(f"{name:15}", *tried(write))

# %%
# Say what you want. A sum is ``index_add``. Should the last win, drop the others first, for
# which integers suffice; should the largest win, or the mean count, ``scatter_reduce`` has
# the right product (equal largest ones share theirs: :ref:`kinks`):

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
# An edit in place of an expanded tensor is refused:

try:
    torch.zeros(1).expand(3).add_(1)
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %%
# The order of a sum
# ------------------
#
# Float32 loses a 1 next to :math:`10^8`, so a sum of three terms depends on their order. On
# one thread an index takes them as they come; many on several threads, or ``gather`` on a
# GPU, may take another order each run, unless ``torch.use_deterministic_algorithms(True)``:

same = torch.zeros(3, dtype=torch.int64)
for terms in ([1e8, 1.0, -1e8], [1e8, -1e8, 1.0]):
    print(torch.autograd.grad(x[same], x, torch.tensor(terms))[0][0].item())

# %%
# The check: NumPy's ``add.at``, which adds at repeated places, and for the last one wins a
# :term:`Jacobian` column by column, from results alone:

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
# Place 0 is read twice, place 1 never. Weigh the three reads:

pullback.live(lambda x: x[torch.tensor([0, 2, 0])], torch.tensor([1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# Why the index has no gradient: :ref:`grad-is-none`. More traps: :ref:`silent-traps`.
# Repeats that keep a gradient each: :ref:`per-sample-gradients`.
#
# .. asked: duplicate indices; same index twice; gradient of index_put and scatter;
#    gradient of gather; embedding with repeated words; index_add gradient
#
# .. words: duplicate, scatter, index_add, word occurs twice, embedding, overwritten, last
#    one wins, histogram, graph neighbours, race
