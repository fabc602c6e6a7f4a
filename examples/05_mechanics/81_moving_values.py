r"""
.. _moving-values:

Where does v go through cat, pad, expand, interpolate or pooling?
=================================================================

Back the way the numbers came: what was copied gets the sum, what was cut off or
overwritten gets 0, and an average gets its share. All of these are linear, :math:`y=Ax`,
so that ``v`` comes back as :math:`A^\top v`, whatever ``x`` is. That is the transpose, not
the inverse: undoing the operation on ``v`` gives another answer.
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
# ``flip`` flips back and ``roll`` rolls the other way. What stands twice in ``y`` gets two
# entries of ``v``. *Why has a bias of shape (2,) the sum over the batch?* Because a
# broadcast is such a copy. Of several inputs each gets its part:

a, b = (torch.ones(n, requires_grad=True) for n in (2, 3))
y = torch.cat([a, b])
print(*torch.autograd.grad(y, (a, b), counting(y)))
bias, rows = torch.zeros(2, requires_grad=True), torch.ones(3, 2)
y = rows + bias
print(counting(y).tolist(), torch.autograd.grad(y, bias, counting(y))[0])

# %%
# *What becomes of an entry that I overwrite?* Its old value is in no output, so it gets 0,
# and the new value gets its weight. Written to a clone, since ``x`` is a leaf:

new = torch.tensor(9.0, requires_grad=True)
y = x.clone()
y[1] = new
print(*torch.autograd.grad(y, (x, new), counting(y)))

# %%
# Pooling and resizing
# --------------------
#
# An average over two gives each of them half of its weight; where windows overlap the
# shares add up. ``interpolate`` repeats, or mixes two neighbours, and hands back by the
# same numbers. A convolution does so with its kernel:

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
# the same factor 1/(1 − p):

torch.manual_seed(0)
y = F.dropout(x, 0.5)
print(y.tolist(), torch.autograd.grad(y, x, torch.ones(3))[0].tolist())

# %%
# What goes wrong
# ---------------
#
# *I resize v back to the size of x by hand.* Then it is averaged, where the transpose adds:
# half of the right answer behind a factor of 2. The sum tells: the shares of an output add
# up to 1, so every unit of ``v`` must arrive somewhere, and 6 ones make a sum of 6:

ones = torch.ones(6)
resized = F.interpolate(ones[None, None], scale_factor=0.5, mode="linear")[0, 0]
(right,) = torch.autograd.grad(shares["interpolate, linear"](x), x, ones)
print(resized, resized.sum().item(), right, right.sum().item())

# %%
# So a gradient behind an upsampling by 2 is larger for each pixel, and that is no fault: a
# pixel moves two outputs. A *mean* over the larger image divides by more of them, and both
# cancel:

for loss in ("sum", "mean"):
    small, large = getattr(x, loss)(), getattr(shares["interpolate, nearest"](x), loss)()
    print(loss, *(torch.autograd.grad(y, x)[0][0].item() for y in (small, large)))

# %%
# *grid_sample or an index: can I learn the position?* A whole-numbered index has no slope.
# Between two pixels a position has one, the difference of the two; ``grid_sample`` does
# this in two dimensions. Far from an edge in the picture it is 0, whatever the loss wants:

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
# The check knows no backward. Column j of A is ``f`` of the j-th unit vector, and
# :math:`A^\top v` is what came back:

for name, f in (moves | shares).items():
    columns = [f(e).flatten() for e in torch.eye(3)]
    expected = torch.stack(columns) @ counting(f(x)).flatten()
    torch.testing.assert_close(back(f, x), expected, msg=name)

# %%
# Where next
# ----------
#
# One place read or written several times: :ref:`repeated-indices`. Choices by size:
# :ref:`sort-and-topk`. ``conv_transpose2d``: :ref:`same-or-not`. The transpose put to the
# test with random numbers: :ref:`dot-product-test`.
