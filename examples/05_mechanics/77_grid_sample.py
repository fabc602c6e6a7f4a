r"""
.. _grid-sample:

The gradient with respect to coordinates: grid_sample, rendering, deformable layers
===================================================================================

You read an image at positions that should be learned, and these positions do not move, or
only a little. ``grid_sample`` is differentiable with respect to the image and with respect
to the coordinates. With the default mode, bilinear, and an image of one row, the slope with
respect to x is the difference of the two neighboring pixels, times the number of pixels per
unit of x. This slope is constant between two pixel centers, and it jumps at the centers.
More than one pixel outside the image the slope is 0, unless you ask for a mirror image.
With ``mode="nearest"`` the slope is 0 everywhere, and if you read the image by an index,
the coordinates have no gradient at all.
"""

# %%
# We read an image of shape ``(1, 1, 1, W)`` at points of shape ``(1, 1, N, 2)``. Each point
# is a pair x, y in [-1, 1]. With ``align_corners=True``, the center of the first pixel is
# at -1 and the center of the last pixel is at 1. So one unit of x is (W-1)/2 pixels, which
# is two pixels for our W of 5. We print the values at four points, and the slopes:

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
# Neighboring pixels differ by 1, 3, 5 and 7. Because one unit of x is two pixels, the
# slopes are 2, 6, 10 and 14.
#
# What goes wrong
# ---------------
#
# *My coordinates do not learn.* An index, ``round`` and ``mode="nearest"`` all pick a
# pixel, and after a small step they still pick the same pixel:

x = where.clone().requires_grad_()
index = ((x + 1) * 2).round().long()
print(image[0, 0, 0, index].requires_grad)
print(torch.autograd.grad(read(x, mode="nearest").sum(), x)[0])

# %%
# *My coordinates stop at the border.* Depending on ``padding_mode``, ``grid_sample``
# continues the image outside its border with zeros, with copies of the border, or with its
# mirror image. Far outside, only the mirror image has a slope, and this slope may point in
# the wrong direction. Here are the values and the slopes at x = 1.1, which is less than a
# pixel outside, and at x = 2.6:

x = torch.tensor([1.1, 2.6], dtype=torch.float64, requires_grad=True)
for padding in ("zeros", "border", "reflection"):
    y = read(x, padding_mode=padding)
    slopes = torch.autograd.grad(y.sum(), x)[0] + 0.0  # turns -0 into 0
    print(f"{padding:10}", [round(value, 3) for value in y.tolist()], slopes.tolist())

# %%
# *My coordinates only see the next pixel.* If there is a bright spot three pixels away, the
# slope is 0. Blur the image first, or go from coarse to fine. The second slope below is
# from an image that we have blurred twice, with a window of five pixels each time:

spot = torch.zeros(1, 1, 1, 9, dtype=torch.float64)
spot[..., 7] = 1
x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
blurred = F.avg_pool2d(spot, (1, 5), 1, (0, 2))
for seen in (spot, F.avg_pool2d(blurred, (1, 5), 1, (0, 2))):
    print(torch.autograd.grad(read(x, image=seen).sum(), x)[0])

# %%
# *My slope is off by a factor.* With ``align_corners=False``, which is the default, -1 and
# 1 are the outer edges of the image, and not the centers of its first and last pixels. So
# one unit is W/2 pixels, and a mirror image is flat for half a pixel on both sides of an
# edge. *My height and width are swapped.* A point of the grid gives x first and then y,
# whereas an image is indexed by y first and then x. In this picture, neighboring rows
# differ by 5, and neighboring columns by 1:

picture = torch.arange(15.0).reshape(1, 1, 3, 5)  # 5 for each row, 1 for each column
grid = torch.zeros(1, 1, 1, 2, requires_grad=True)
for corners in (True, False):
    y = F.grid_sample(picture, grid, align_corners=corners)
    print(corners, torch.autograd.grad(y.sum(), grid)[0].flatten())

# %%
# The second derivative
# ---------------------
#
# *derivative for aten::grid_sampler_2d_backward is not implemented.* This is the message of
# older releases. The version of PyTorch used on this page has the second derivative with
# respect to the image and the grid. :term:`Forward mode <forward mode>` works from torch
# 2.15 on. Before 2.15, PyTorch refused it with *Trying to use forward AD with
# grid_sampler_2d*. For :math:`y^2` the second derivative is twice the square of the slope:

x = where.clone().requires_grad_()
(slope,) = torch.autograd.grad((read(x) ** 2).sum(), x, create_graph=True)
print(torch.autograd.grad(slope.sum(), x)[0])

# %%
# If your release lacks the derivative that you need, write the function yourself with plain
# operations, which you can differentiate as often as you need. Between two pixels the floor
# does not change, so the function treats it as a constant. Then the value is a sum of two
# pixels, with weights that are linear in x. We compute its slopes in forward mode:


def by_parts(x, image=image):
    place = (x + 1) / 2 * (image.shape[-1] - 1)
    left = place.detach().floor().clamp(0, image.shape[-1] - 2)
    weight, i = place - left, left.long()
    row = image[0, 0, 0]
    return (1 - weight) * row[i] + weight * row[i + 1]


ones = torch.ones(4).double()
print(torch.func.jvp(by_parts, (where,), (ones,))[1])

# %%
# In the version used on this page and in 2.15, PyTorch also refuses
# :func:`torch.func.hessian` of ``grid_sample``, because ``hessian`` needs forward mode
# through the backward pass. ``jacrev(grad(f))`` works.
#
# Moving a picture onto another
# -----------------------------
#
# To register two pictures, make the shift the leaf, and the squared difference the loss.
# The shift is broadcast to all points of the grid, and so the slopes at all points are
# added up into one number. The target is shifted by 0.17, and gradient descent finds this
# shift:

target = read(torch.linspace(-0.5, 0.7, 30).double() + 0.17)
shift = torch.zeros((), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([shift], lr=2e-3)
for _ in range(200):
    optimizer.zero_grad()
    ((read(torch.linspace(-0.5, 0.7, 30).double() + shift) - target) ** 2).mean().backward()
    optimizer.step()
print(f"{shift.item():.4f}")

# %%
# As a check, we compare first and second derivatives with difference quotients, and our own
# function with ``grid_sample``:

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
# :ref:`no-double-backward` lists other operations without a second derivative. :ref:`kinks`
# is about the slope at a kink, and :ref:`repeated-indices` is about what indexing sends
# back.
#
# .. asked: grid_sample gradient; gradient by coordinates; differentiable rendering;
#    spatial transformer; interpolate at positions; deformable convolution; sampling an
#    image at learned points
# .. words: warp, coordinates, positions, render, bilinear, optical flow, shift an image,
#    sub-pixel, transformer, registration, border
