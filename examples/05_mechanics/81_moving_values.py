r"""
.. _moving-values:

Where does v go through cat, pad, expand, interpolate or pooling?
=================================================================

Between your loss and your weights, numbers are concatenated, padded, repeated or pooled.
Where does the gradient go? It goes back the way the numbers came. An entry that was copied
gets the sum of what its copies got. One that was cut off or overwritten gets 0, and one
that went into an average gets its share. An operation that only moves, adds or averages
numbers is linear in ``x``: :math:`y=Ax`, perhaps plus a constant. So ``v`` comes back as
:math:`A^\top v`, whatever ``x`` is. This is the transpose. It is the inverse as well if the
operation is a permutation, such as ``flip``, but not for most of the others.
"""

# %%
# ``x`` has shape ``(3,)``. For each ``y``, we take a ``v`` of the same shape that counts 1,
# 2, 3, …:

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
# Here are ten ways to move numbers about. Their outputs have different shapes:

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
# On the left you see ``v``, and on the right ``x.grad``:

for name, f in moves.items():
    print(f"{name:25}", counting(f(x)).int().tolist(), "→", back(f, x).int().tolist())

# %%
# ``flip`` flips back, and ``roll`` rolls in the other direction. An entry that is twice in
# ``y`` gets the sum of two entries of ``v``. If ``cat`` has several inputs, each of them
# gets its part. *Why does a bias of shape (2,) get the sum over the batch?* Because a
# broadcast makes such copies, one for each row:

a, b = (torch.ones(n, requires_grad=True) for n in (2, 3))
y = torch.cat([a, b])
print(*torch.autograd.grad(y, (a, b), counting(y)))
bias, rows = torch.zeros(2, requires_grad=True), torch.ones(3, 2)
y = rows + bias
print(counting(y).tolist(), torch.autograd.grad(y, bias, counting(y))[0])

# %%
# *What becomes of an entry that I overwrite?* Its old value is in no output, and so it
# gets 0. The new value gets the ``v`` of its place. (We write to a clone, because ``x``
# is a leaf.)

new = torch.tensor(9.0, requires_grad=True)
y = x.clone()
y[1] = new
print(*torch.autograd.grad(y, (x, new), counting(y)))

# %%
# *Does writing into torch.zeros(3) cut the graph? Must it require a gradient?* No, and
# no. The write is recorded, and ``z`` has a history from then on. A leaf that requires a
# gradient would even refuse it:

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
# An average over two entries gives each of them half of its ``v``. If the windows
# overlap, the shares add up. ``interpolate`` repeats entries or mixes two neighbours, and
# sends ``v`` back with the same weights. A convolution does so with its kernel. On the
# left you see ``y``, and on the right ``x.grad``:

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
# ``max_pool`` is linear only as long as the same entry wins, and gives all of its ``v``
# to the winner (:ref:`sort-and-topk`). Dropout draws its mask once. The way back uses the
# same mask and the same factor 1/(1 − p). Here each entry of ``y`` is 0 or twice the
# entry of x, and we compare the gradient with this factor:

y = F.dropout(x, 0.5)
print(torch.equal(torch.autograd.grad(y, x, torch.ones(3))[0], (y / x).detach()))

# %%
# What goes wrong
# ---------------
#
# *I resize v back to the size of x by hand.* Then ``v`` is averaged, where the transpose
# adds up. After an upsampling by 2, ones give you half of the right answer. The sum gives
# it away. The shares of each output add up to 1, so every unit of ``v`` has to arrive
# somewhere, and six ones have to make a sum of 6:

ones = torch.ones(6)
resized = F.interpolate(ones[None, None], scale_factor=0.5, mode="linear")[0, 0]
(right,) = torch.autograd.grad(shares["interpolate, linear"](x), x, ones)
print("resized", resized, resized.sum().item())
print("right  ", right, right.sum().item())

# %%
# So the gradient of a sum through an upsampling by 2 is twice as large, and nothing is
# wrong with that, because an entry moves two outputs. (A pixel of an image moves four.) A
# *mean* over the larger ``y`` divides by a number of entries that has grown by the same
# factor, and the two cancel. For each loss, we print the first entry of ``x.grad`` without
# and with upsampling:

for loss in ("sum", "mean"):
    small, large = getattr(x, loss)(), getattr(shares["interpolate, nearest"](x), loss)()
    print(loss, *(f"{torch.autograd.grad(y, x)[0][0]:.3f}" for y in (small, large)))

# %%
# *grid_sample or an index: can I learn the position?* An index is a whole number, and has
# no slope. A position between two pixels has one. With linear interpolation, it is the
# difference of the two pixels. ``grid_sample`` does this in two dimensions. But between
# two equal pixels, for example far from an edge in the picture, the slope is 0, whatever
# the loss wants. Each line shows a position, the value there, the slope, and whether
# ``grid_sample`` agrees:

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
# vector. With these columns as rows we have :math:`A^\top`, and :math:`A^\top v` must be
# what came back:

for f in (moves | shares).values():
    transposed = torch.stack([f(e).flatten() for e in torch.eye(3)])
    torch.testing.assert_close(back(f, x), transposed @ counting(f(x)).flatten())

# %%
# Here each entry is added to its neighbour. You can change x, and A does not change. What
# comes back is its transpose times v:

import pullback

pullback.live(lambda x: x + x.roll(1), torch.tensor([1.0, 2.0, 3.0, 4.0]))

# %%
# Where next
# ----------
#
# :ref:`repeated-indices` is about one place that is read or written several times, and
# :ref:`sort-and-topk` about choices by size. :ref:`same-numbers` has
# ``conv_transpose2d``, and :ref:`dot-product-test` tests a transpose with random numbers.
#
# .. asked: gradient of cat, stack, pad and expand; gradient of pooling; gradient of
#    interpolate; broadcast gradient; reshape and transpose backward; gradient of repeat;
#    upsampling gradient
# .. words: concatenate, stack, pad, roll, flip, broadcast, repeat, upsample, pool, reshape,
#    permute, copy, crop
