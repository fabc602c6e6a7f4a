r"""
.. _moving-values:

Where does v go through cat, pad, expand, interpolate or pooling?
=================================================================

Back the way the numbers came: an entry that was copied gets the sum of what its copies got,
one that was cut off or overwritten gets 0, and one that went into an average gets its
share. All of these are linear in ``x``, :math:`y=Ax`, or that plus a constant, so that
``v`` comes back as :math:`A^\top v`, whatever ``x`` is. That is the transpose, and only for
a permutation, such as ``flip``, the inverse.
"""

# %%
# ``x`` has shape ``(3,)``; ``v`` has the shape of each ``y`` and counts 1, 2, 3, …:

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
# Ways to move numbers about, each with an output of its own shape:

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
# Left ``v``, right ``x.grad``:

for name, f in moves.items():
    print(f"{name:25}", counting(f(x)).int().tolist(), "→", back(f, x).int().tolist())

# %%
# ``flip`` flips back and ``roll`` rolls the other way. What stands twice in ``y`` gets the
# sum of two entries of ``v``. Of several inputs of ``cat`` each gets its part. *Why has a
# bias of shape (2,) the sum over the batch?* Because a broadcast is such a copy:

a, b = (torch.ones(n, requires_grad=True) for n in (2, 3))
y = torch.cat([a, b])
print(*torch.autograd.grad(y, (a, b), counting(y)))
bias, rows = torch.zeros(2, requires_grad=True), torch.ones(3, 2)
y = rows + bias
print(counting(y).tolist(), torch.autograd.grad(y, bias, counting(y))[0])

# %%
# *What becomes of an entry that I overwrite?* Its old value is in no output, so it gets 0,
# and the new value gets the ``v`` of its place. Written to a clone, since ``x`` is a leaf:

new = torch.tensor(9.0, requires_grad=True)
y = x.clone()
y[1] = new
print(*torch.autograd.grad(y, (x, new), counting(y)))

# %%
# *Does writing into torch.zeros(3) cut the graph? Must it require a gradient?* No, twice.
# The write is recorded, and ``z`` has a history from then on. A leaf that requires a
# gradient would refuse it:

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
# An average over two hands each of them half of its ``v``; where windows overlap the shares
# add up. ``interpolate`` repeats, or mixes two neighbours, and hands back by the same
# weights. A convolution does so with its kernel. Left ``y``, right ``x.grad``:

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
# ``max_pool`` is linear only as long as the same entry wins: it hands all to the winner
# (:ref:`sort-and-topk`). Dropout draws its mask once. The way back uses the same one, and
# the same factor 1/(1 − p), whatever was drawn; here each entry of ``y`` is 0 or 2 x:

y = F.dropout(x, 0.5)
print(torch.equal(torch.autograd.grad(y, x, torch.ones(3))[0], (y / x).detach()))

# %%
# What goes wrong
# ---------------
#
# *I resize v back to the size of x by hand.* Then it is averaged, where the transpose adds:
# for ones, half of the right answer after a factor of 2. The sum tells: the shares of an
# output add up to 1, so every unit of ``v`` must arrive somewhere, and 6 ones make a sum
# of 6:

ones = torch.ones(6)
resized = F.interpolate(ones[None, None], scale_factor=0.5, mode="linear")[0, 0]
(right,) = torch.autograd.grad(shares["interpolate, linear"](x), x, ones)
print("resized", resized, resized.sum().item())
print("right  ", right, right.sum().item())

# %%
# So a gradient through an upsampling by 2 is twice as large, and that is no fault: an entry
# moves two outputs, and a pixel of an image four. A *mean* over the larger ``y`` divides by
# as many more, and both cancel. The first entry of ``x.grad`` without and with upsampling:

for loss in ("sum", "mean"):
    small, large = getattr(x, loss)(), getattr(shares["interpolate, nearest"](x), loss)()
    print(loss, *(f"{torch.autograd.grad(y, x)[0][0]:.3f}" for y in (small, large)))

# %%
# *grid_sample or an index: can I learn the position?* A whole-numbered index has no slope.
# Between two pixels a position has one, the difference of the two; ``grid_sample`` does
# this in two dimensions. Between equal pixels, far from an edge in the picture, it is 0,
# whatever the loss wants. Position, value, slope, and whether ``grid_sample`` agrees:

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
# The check makes A with no backward: its column j is ``f`` of the j-th unit vector. With
# the columns as rows it is :math:`A^\top`, and :math:`A^\top v` is what came back:

for f in (moves | shares).values():
    transposed = torch.stack([f(e).flatten() for e in torch.eye(3)])
    torch.testing.assert_close(back(f, x), transposed @ counting(f(x)).flatten())

# %%
# Rolled by one and added to itself: A does not change, whatever x is, and what comes back
# is its transpose times v:

import pullback

pullback.live(lambda x: x + x.roll(1), torch.tensor([1.0, 2.0, 3.0, 4.0]))

# %%
# Where next
# ----------
#
# One place read or written several times: :ref:`repeated-indices`. Choices by size:
# :ref:`sort-and-topk`. ``conv_transpose2d``: :ref:`same-numbers`. The transpose put to the
# test with random numbers: :ref:`dot-product-test`.
#
# .. asked: gradient of cat, stack, pad and expand; gradient of pooling; gradient of
#    interpolate; broadcast gradient; reshape and transpose backward; gradient of repeat;
#    upsampling gradient
#
# .. words: concatenate, stack, pad, roll, flip, broadcast, repeat, upsample, pool, reshape,
#    permute, copy, crop
