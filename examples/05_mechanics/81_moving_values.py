r"""
.. _moving-values:

Where does v go through cat, pad, expand, interpolate or pooling?
=================================================================

Between your loss and your weights, numbers are concatenated, padded, repeated or pooled.
Where does the gradient go? It goes back the way the numbers came. An entry that was copied
gets the sum of the gradients of its copies. An entry that was cut off or overwritten gets
0, and an entry that went into an average gets a share of the gradient. An operation that
only moves, adds or averages numbers is linear in ``x``: :math:`y=Ax`, perhaps plus a
constant. Therefore ``v`` comes back as :math:`A^\top v`, whatever ``x`` is. So the matrix
that acts on ``v`` is the transpose of A. If the operation is a permutation, such as
``flip``, the transpose is the inverse as well, but for most of the other operations it is
not.
"""

# %%
# ``x`` has shape ``(3,)``. For each ``y``, we take a ``v`` of the same shape with the
# entries 1, 2, 3, …:

import torch
from torch.nn import functional as F

x = torch.tensor([5.0, 6.0, 7.0], requires_grad=True)


def counting(y):
    return torch.arange(1.0, y.numel() + 1).reshape(y.shape)


def back(f, x):
    y = f(x)
    return torch.autograd.grad(y, x, counting(y))[0]


def pad(x, mode):
    return F.pad(x[None], (1, 1), mode=mode)[0]


# %%
# Here are ten ways to move numbers around. Their outputs have different shapes:

moves = {
    "flip": lambda x: x.flip(0),
    "roll by 1": lambda x: x.roll(1),
    "pad with zeros": lambda x: pad(x, "constant"),
    "pad by reflection": lambda x: pad(x, "reflect"),
    "cat([x, x])": lambda x: torch.cat([x, x]),
    "repeat(2)": lambda x: x.repeat(2),
    "expand(2, 3)": lambda x: x.expand(2, 3),
    "x[:, None] + zeros(3, 2)": lambda x: x[:, None] + torch.zeros(3, 2),
    "diff": lambda x: x.diff(),
    "x[1:]": lambda x: x[1:],
}

# %%
# On the left of each arrow you see ``v``, and on the right the gradient with respect to
# ``x``:

for name, f in moves.items():
    print(f"{name:25}", counting(f(x)).int().tolist(), "→", back(f, x).int().tolist())

# %%
# The backward rule of ``flip`` flips ``v`` back, and the rule of ``roll`` rolls ``v`` in
# the other direction. An entry of ``x`` that occurs twice in ``y`` gets the sum of two
# entries of ``v``. If ``cat`` has several inputs, each of them gets its own part of
# ``v``. *Why does a bias of shape (2,) get the sum over the batch?* Because broadcasting
# copies the bias, once for each row:

a, b = (torch.ones(n, requires_grad=True) for n in (2, 3))
y = torch.cat([a, b])
print(*torch.autograd.grad(y, (a, b), counting(y)))
bias, rows = torch.zeros(2, requires_grad=True), torch.ones(3, 2)
y = rows + bias
print(counting(y).tolist(), torch.autograd.grad(y, bias, counting(y))[0])

# %%
# *What becomes of an entry that I overwrite?* Its old value is in no output, and so it gets
# 0. The new value gets the entry of ``v`` at its position. We write to a clone, because
# ``x`` is a leaf that requires a gradient, which PyTorch does not let us edit in place:

new = torch.tensor(9.0, requires_grad=True)
y = x.clone()
y[1] = new
print(*torch.autograd.grad(y, (x, new), counting(y)))

# %%
# *Does writing into torch.zeros(3) cut the graph? Must the zeros require a gradient?* No,
# and no. The write is recorded, and from then on ``z`` has a ``grad_fn``. If the zeros
# require a gradient, they are a leaf, and PyTorch even refuses the write:

z = torch.zeros(3)
z[1] = 5 * x[0]
print(z.grad_fn.name(), torch.autograd.grad(z, x, counting(z))[0])
try:
    torch.zeros(3, requires_grad=True)[1] = 5 * x[0]
except RuntimeError as error:
    print(str(error).partition(" is being")[0])

# %%
# Pooling and resizing
# --------------------
#
# An average over two entries sends half of its ``v`` to each of them. If the windows
# overlap, the shares add up. ``interpolate`` repeats entries or mixes two neighbors, and
# its backward rule sends ``v`` back with the same weights. The backward rule of a
# convolution does the same with the weights in the kernel. On the left of each arrow you
# see ``y``, and on the right the gradient with respect to ``x``:

kernel = torch.tensor([[[1.0, 10.0]]])
on_image = {
    "avg_pool1d(2, stride=1)": lambda x: F.avg_pool1d(x, 2, 1),
    "interpolate, nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate, linear": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "conv1d": lambda x: F.conv1d(x, kernel),
}
shares = {n: lambda x, f=f: f(x[None, None])[0, 0] for n, f in on_image.items()}
for name, f in shares.items():
    print(f"{name:25}", f(x).tolist(), "→", back(f, x).tolist())

# %%
# ``max_pool`` is linear only as long as the same entry is the largest, and its backward
# rule gives all of its ``v`` to that entry (:ref:`sort-and-topk`). Dropout draws its mask
# once. The backward pass uses the same mask and the same factor 1/(1 − p). Here each entry
# of ``y`` is 0 times or 2 times the entry of x, and we compare the gradient with these
# factors:

y = F.dropout(x, 0.5)
print(torch.equal(torch.autograd.grad(y, x, torch.ones(3))[0], (y / x).detach()))

# %%
# What goes wrong
# ---------------
#
# *I resize v back to the size of x by hand.* Resizing averages the entries of ``v``,
# whereas the transpose adds them up. After an upsampling by 2, ones for ``v`` give you half
# of the right gradient. You can see the mistake in the sum of the gradient. The shares of
# each output add up to 1, so every unit of ``v`` has to arrive somewhere, and six ones have
# to give a gradient whose sum is 6:

ones = torch.ones(6)
resized = F.interpolate(ones[None, None], scale_factor=0.5, mode="linear")[0, 0]
(right,) = torch.autograd.grad(shares["interpolate, linear"](x), x, ones)
print("resized", resized, resized.sum().item())
print("right  ", right, right.sum().item())

# %%
# So the gradient of a sum through an upsampling by 2 is twice as large as without the
# upsampling. Nothing is wrong with that: with ``nearest``, each entry is copied to two
# outputs, and in an image to four. A *mean* over the larger ``y`` divides by a number of
# entries that has grown by the same factor, and the two factors cancel. For each loss, we
# print the first entry of the gradient without and with upsampling:

for loss in ("sum", "mean"):
    small, large = getattr(x, loss)(), getattr(shares["interpolate, nearest"](x), loss)()
    print(loss, *(f"{torch.autograd.grad(y, x)[0][0]:.3f}" for y in (small, large)))

# %%
# *grid_sample or an index: can I learn the position?* An index is a whole number, so
# there is no slope with respect to it. With respect to a position between two pixels,
# there is a slope. With linear interpolation, this slope is the difference of the two
# pixels. ``grid_sample`` interpolates in this way in two dimensions. But between two
# equal pixels, for example far from an edge in the picture, the slope is 0, whatever the
# loss is. Each line of the output shows a position, the value at this position, the
# slope, and whether ``grid_sample`` agrees:

picture = torch.tensor([0.0, 0, 0, 8, 8, 8])
for at in (0.5, 2.5):
    position = torch.tensor(at, requires_grad=True)
    left, part = position.floor().long(), position % 1
    value = (1 - part) * picture[left] + part * picture[left + 1]
    (g,) = torch.autograd.grad(value, position)
    place = torch.stack([position * 2 / 5 - 1, torch.zeros(())]).view(1, 1, 1, 2)
    sampled = F.grid_sample(picture.view(1, 1, 1, 6), place, align_corners=True)
    (by_torch,) = torch.autograd.grad(sampled.sum(), position)
    print(at, value.item(), g.item(), torch.allclose(g, by_torch))

# %%
# As a check, we build A without any backward. Its column j is ``f`` of the j-th unit
# vector. A matrix with these columns as its rows is :math:`A^\top`, and :math:`A^\top v`
# must be the gradient that came back:

for f in (moves | shares).values():
    transposed = torch.stack([f(e).flatten() for e in torch.eye(3)])
    torch.testing.assert_close(back(f, x), transposed @ counting(f(x)).flatten())

# %%
# Here each entry is added to its neighbor. If you change x, A does not change. The
# gradient that comes back is the transpose of A times v:

import pullback

pullback.live(lambda x: x + x.roll(1), torch.tensor([1.0, 2.0, 3.0, 4.0]), graph=True)

# %%
# Where next
# ----------
#
# :ref:`repeated-indices` is about one place that is read or written several times, and
# :ref:`sort-and-topk` is about choices by size. :ref:`same-numbers` has
# ``conv_transpose2d``, and :ref:`dot-product-test` shows how to test a transpose with
# random numbers.
#
# .. asked: gradient of cat, stack, pad and expand; gradient of pooling; gradient of
#    interpolate; broadcast gradient; reshape and transpose backward; gradient of repeat;
#    upsampling gradient
# .. words: concatenate, stack, pad, roll, flip, broadcast, repeat, upsample, pool, reshape,
#    permute, copy, crop
