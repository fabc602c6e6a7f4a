r"""
.. _grid-sample:

The gradient with respect to coordinates: grid_sample, rendering, deformable layers
===================================================================================

``grid_sample`` is differentiable by the image and by the coordinates. By a coordinate its
slope is the difference of the two neighbouring pixels, in pixels per unit of x: constant
between two centres, with kinks at them, 0 farther out than a pixel unless you ask for a
mirror image and, with ``mode="nearest"``, 0 everywhere. An index has no gradient at all.
"""

# %%
# An image of shape ``(1, 1, 1, W)``, read at points of shape ``(1, 1, N, 2)``, the pairs
# being x, y in [-1, 1]. With ``align_corners=True`` the first pixel lies at -1 and the last
# at 1, so that one unit of x is (W-1)/2 pixels. With W = 5 that is two:

import torch
from torch.nn import functional as F

image = torch.tensor([0.0, 1.0, 4.0, 9.0, 16.0], dtype=torch.float64)[None, None, None]
where = torch.tensor([-0.9, -0.25, 0.2, 0.7], dtype=torch.float64)


def read(x, image=image, **options):
    points = torch.stack([x, torch.zeros_like(x)], -1)[None, None]
    return F.grid_sample(image, points, align_corners=True, **options)[0, 0, 0]


x = where.clone().requires_grad_()
y = read(x)
(slope,) = torch.autograd.grad(y, x, torch.ones(4).double())
print(y.detach(), slope)

# %%
# The pixels differ by 1, 3, 5, 7, and a unit of x is two of them: 2, 6, 10, 14.
#
# What goes wrong
# ---------------
#
# *My coordinates do not learn.* An index, ``round``, or ``mode="nearest"`` pick a pixel,
# and the pick does not change under a small step:

x = where.clone().requires_grad_()
index = ((x + 1) * 2).round().long()
print(image[0, 0, 0, index].requires_grad)
print(torch.autograd.grad(read(x, mode="nearest").sum(), x)[0])

# %%
# *They stop at the border.* Outside, there are zeros, a copy of the border, or a mirror
# image. Farther out only the mirror has a slope, and it may point the wrong way. Values and
# slopes at x = 1.1, less than a pixel outside, and x = 2.6:

x = torch.tensor([1.1, 2.6], dtype=torch.float64, requires_grad=True)
for padding in ("zeros", "border", "reflection"):
    y = read(x, padding_mode=padding)
    slopes = torch.autograd.grad(y.sum(), x)[0] + 0.0  # makes 0 of -0
    print(f"{padding:10}", [round(value, 3) for value in y.tolist()], slopes.tolist())

# %%
# *They only see the next pixel.* A bright spot three pixels away gives no slope. Blur the
# image first, here twice by five pixels, or go from coarse to fine:

spot = torch.zeros(1, 1, 1, 9, dtype=torch.float64)
spot[..., 7] = 1
x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
blurred = F.avg_pool2d(spot, (1, 5), 1, (0, 2))
for seen in (spot, F.avg_pool2d(blurred, (1, 5), 1, (0, 2))):
    print(torch.autograd.grad(read(x, image=seen).sum(), x)[0])

# %%
# *A slope that is off by a factor*: with ``align_corners=False``, the default, the outer
# edges of the image lie at ±1, not the centres of its last pixels; one unit is then W/2
# pixels, and a mirror image is flat for half a pixel on both sides of an edge. And *height
# and width swapped*: a point of the grid is x, then y, while an image is indexed by y,
# then x:

picture = torch.arange(15.0).reshape(1, 1, 3, 5)  # 5 a row, 1 a column
grid = torch.zeros(1, 1, 1, 2, requires_grad=True)
for corners in (True, False):
    y = F.grid_sample(picture, grid, align_corners=corners)
    print(corners, torch.autograd.grad(y.sum(), grid)[0].flatten())

# %%
# The second derivative
# ---------------------
#
# *derivative for aten::grid_sampler_2d_backward is not implemented*, said older releases;
# the torch of this page has it, by image and by grid. :term:`Forward mode <forward mode>`
# it has since 2.15; before, *Trying to use forward AD with grid_sampler_2d* was refused.
# For :math:`y^2` the second derivative is twice the slope squared:

x = where.clone().requires_grad_()
(slope,) = torch.autograd.grad((read(x) ** 2).sum(), x, create_graph=True)
print(torch.autograd.grad(slope.sum(), x)[0])

# %%
# Where one of them is missing, the same function from parts has all derivatives. The floor
# is a constant, and what is left is a sum of two pixels, with weights that are linear in x:


def by_parts(x, image=image):
    place = (x + 1) / 2 * (image.shape[-1] - 1)
    left = place.detach().floor().clamp(0, image.shape[-1] - 2)
    weight, i = place - left, left.long()
    row = image[0, 0, 0]
    return (1 - weight) * row[i] + weight * row[i + 1]


ones = torch.ones(4).double()
print(torch.func.jvp(by_parts, (where,), (ones,))[1])

# %%
# :func:`torch.func.hessian` is forward over reverse and is refused here as well;
# ``jacrev(grad(f))`` is not.
#
# Moving a picture onto another
# -----------------------------
#
# Registration: the shift is the leaf, the squared difference the loss, and all points of
# the grid send their slopes into one number, since the shift was broadcast to them:

target = read(torch.linspace(-0.5, 0.7, 30).double() + 0.17)
shift = torch.zeros((), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([shift], lr=2e-3)
for _ in range(200):
    optimizer.zero_grad()
    ((read(torch.linspace(-0.5, 0.7, 30).double() + shift) - target) ** 2).mean().backward()
    optimizer.step()
print(f"{shift.item():.4f}")

# %%
# The check: differences, first and second, and the parts against the whole:

x = where.clone().requires_grad_()
assert torch.autograd.gradcheck(read, (x, image.clone().requires_grad_()))
assert torch.autograd.gradgradcheck(read, (x, image.clone().requires_grad_()))
assert torch.autograd.gradgradcheck(lambda x: read(x) ** 2, (x,))
torch.testing.assert_close(by_parts(where), read(where))
expected = torch.tensor([2.0, 6, 10, 14], dtype=torch.float64)
torch.testing.assert_close(torch.func.jvp(by_parts, (where,), (ones,))[1], expected)
assert abs(shift.item() - 0.17) < 1e-3
near = torch.tensor([[[[0.81, 0.0], [1.19, 0.0]]]], dtype=torch.float64, requires_grad=True)
flat = F.grid_sample(image, near, padding_mode="reflection", align_corners=False)
assert not torch.autograd.grad(flat.sum(), near)[0][..., 0].any()

# %%
# Where next
# ----------
#
# Other operations without a second derivative: :ref:`no-double-backward`. Kinks:
# :ref:`kinks`. What indexing sends back: :ref:`repeated-indices`.
#
# .. asked: grid_sample gradient; gradient by coordinates; differentiable rendering;
#    spatial transformer; interpolate at positions; deformable convolution; sampling an
#    image at learned points
# .. words: warp, coordinates, positions, render, bilinear, optical flow, shift an image,
#    sub-pixel, transformer, registration, border
