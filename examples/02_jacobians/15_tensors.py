r"""
.. _tensors-in-tensors-out:

Tensors in, tensors out
=======================

A picture goes into a function, and a picture comes out. Which pixels of the first does one
pixel of the second depend on, and how strongly? Until now ``x`` and ``y`` were
one-dimensional, and the :term:`Jacobian` was a table. A picture has rows and columns of its
own, and so its Jacobian has more than two indices. It answers the same questions. We only
have to know which index is which.
"""

# %%
# The function blurs a small picture of shape ``(4, 5)``. Around each pixel it lays a
# *window* of three by three pixels, with the pixel in the middle, and replaces the pixel by
# the mean of its window. Beyond the edge of the picture there are zeros. (``avg_pool2d``
# wants one more dimension, for colours. ``[None]`` adds it, and ``[0]`` takes it away
# again.)

import torch


def blur(picture):
    return torch.nn.functional.avg_pool2d(picture[None], 3, stride=1, padding=1)[0]


picture = torch.arange(20.0).reshape(4, 5)
blurred = blur(picture)
blurred.shape

# %%
# Twenty numbers go in, and twenty come out, so there are 400 rates, one for each pair of an
# output and an input:

J_blur = torch.autograd.functional.jacobian(blur, picture)
J_blur.shape

# %%
# They do not come as a table of 20 by 20. It takes two indices to name a pixel of the
# result, and two more to name a pixel of the original. So ``J_blur[r, c, s, d]`` says how
# the blurred pixel in row ``r`` and column ``c`` reacts to the original pixel in row ``s``
# and column ``d``.
#
# Fix the first two indices, and you have chosen one pixel of the result. What is left is
# the gradient of that pixel, and it is a picture itself. Here it is, times 9:

9 * J_blur[1, 1]

# %%
# The blurred pixel in row 1 and column 1 depends on the nine pixels of its window, each
# with a rate of one ninth, and on no other. **The shape of the Jacobian is the shape of y,
# followed by the shape of x**, in code ``y.shape + x.shape``. That is "outputs first", as
# in a table, where ``(2,) + (3,)`` gave ``(2, 3)``.
#
# .. predict::
#    :for: terabytes
#
#    A photo has 2000 by 1500 pixels. How many terabytes, millions of millions of bytes,
#    does the Jacobian of its blur take, if each entry takes four bytes?

pixels = 2000 * 1500
print(4 * pixels**2 / 1e12)

# %%
# It is 36 terabytes, although at most nine in every three million entries are different
# from zero. Nobody builds such a Jacobian. ``backward`` computes the product with ``v``
# without it, and the product is no larger than the photo.
#
# The product with v
# ------------------
#
# ``v`` has the shape of ``y`` as always. So here ``v`` is a picture, too, and says what
# each blurred pixel is worth. Suppose that all we want is a bright result, so that every
# blurred pixel counts 1. The product says what each pixel of the *original* is worth.
#
# .. predict::
#    :item: 0, 0
#    :for: ninths
#
#    A pixel inside is in nine windows, its own and those of the eight pixels around it, and
#    counts a ninth in each. So it is worth nine ninths. How many ninths is the pixel in the
#    corner worth?

start = picture.clone().requires_grad_()
(worth,) = torch.autograd.grad(blur(start), start, torch.ones_like(blurred))
9 * worth

# %%
# Four. The corner is in only four windows, and at the edge a pixel is in six. So this blur
# makes a picture darker at its edges, and the gradient shows where.
#
# For one-dimensional tensors we wrote this product ``v @ J``. It multiplied each row by
# its price, and added up over all outputs. Now the outputs have two indices, so we have
# to add up over both, and this is what ``torch.tensordot`` does when we tell it
# ``dims=2``:

torch.allclose(torch.tensordot(torch.ones(4, 5), J_blur, dims=2), worth)

# %%
# In general it is ``torch.tensordot(v, J, dims=y.ndim)``. It adds up over the indices of
# the output, and those of the input remain. So the result always looks like ``x``.
#
# Two rooms
# ---------
#
# In the picture, outputs and inputs are both pixels. Mostly they are different things, and
# then the four indices have different meanings, too. Let us put three stoves into each of
# two rooms. Now ``x`` has a row for each room and a column for each stove. For every
# room we measure heat and fuel. The wall between the rooms is thin, so each room also
# feels half of the heat of the other one:


def rooms(x):
    heat = x.sum(1)
    heat = heat + 0.5 * heat.flip(0)  # flip: the other room's heat
    fuel = (x**2).sum(1)
    return torch.stack([heat, fuel], dim=1)


x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
y = rooms(x)
y

# %%
# The first row is the first room. Its own stoves give 6 units of heat, 1.5 come through
# the wall, and it burns 14 units of fuel. So ``x`` has shape ``(2, 3)`` for room and
# stove, and ``y`` has shape ``(2, 2)`` for room and measurement.
#
# The four indices of the Jacobian are then, from left to right:
#
# .. code-block:: text
#
#    J[output's room, measurement, input's room, stove]
#
# .. predict::
#    :for: the two numbers
#    :also: 0.5000, 0.5000, 0.5000; behind the wall count half
#
#    ``J[0, 0, 1, 2]`` asks how the *heat of the first room* reacts to the *third stove of
#    the second room*. ``J[0, 1, 1, 2]`` asks the same for the *fuel* of the first room.
#    What are the two numbers?

J = torch.autograd.functional.jacobian(rooms, x)
J[0, :, 1, 2]  # the colon stands for both measurements

# %%
# Half of the second room's heat comes through the wall, so the first answer is 0.5. The
# second is 0, because a stove burns fuel only where it stands. If you fix an output again,
# here the heat of the first room, what is left can be read like ``x``, with a row for each
# room and a column for each stove:

J[0, 0]

# %%
# Its own stoves count in full, and those behind the wall count half.
#
# The prices in ``v`` have a row for each room, too, with its heat and its fuel. Suppose
# that nobody uses the second room. A unit of heat is worth 10 in the first room and nothing
# in the second, and a unit of fuel costs 1 in both.
#
# .. predict::
#    :expects: signs
#    :item: 1
#    :for: the three signs for that room
#
#    The second room's stoves are at 2, 0 and 1. Those that are worth turning up,
#    although nobody is in that room, have a positive entry in ``x.grad``. Which do you
#    expect?

x.requires_grad_()
v = torch.tensor([[10.0, -1.0], [0.0, -1.0]])
rooms(x).backward(v)
x.grad

# %%
# The result has the shape of ``x``. The first row is our old ``[8, 6, 4]``. In the
# second, all three entries are positive, so it pays to turn up any of them a little. Half
# of their heat, worth 5, goes through the wall, and at their low settings they burn fuel
# at a rate of at most 4. The stove that is off earns most.
#
# The formula from above gives the same:

torch.tensordot(v, J, dims=y.ndim)

# %%
# It is a table after all
# -----------------------
#
# If four indices are too many for you, flatten ``y`` into one dimension, and ``x`` as
# well. PyTorch takes the numbers row by row: first all of the first room, then all of the
# second. Then ``J`` becomes an ordinary table with a row for each of the 4 outputs and a
# column for each of the 6 inputs, and the product is ``v @ J`` again:

table = J.reshape(y.numel(), x.numel())
print(table)
print((v.flatten() @ table).reshape(x.shape))

# %%
# The rows are heat and fuel of the first room, then heat and fuel of the second. The
# columns are the three stoves of the first room, then those of the second. You can see
# the wall: the heat rows have 0.5 for the stoves of the other room, where the fuel rows
# have 0. With ``v`` beside it, this is the drawing from part 1. We count from 0 as Python
# does, so ``x[1, 2]`` is the third stove of the second room:

import pullback

outputs = ["heat 0", "fuel 0", "heat 1", "fuel 1"]
inputs = [f"x[{room}, {stove}]" for room in (0, 1) for stove in (0, 1, 2)]
pullback.draw.vjp(v.flatten(), table, rows=outputs, columns=inputs)

# %%
# .. dropdown:: Two words: dimension and vector
#
#    When a mathematician says that ``x`` has six *dimensions*, that means the six columns
#    of this table. When PyTorch says ``x.ndim == 2``, it counts the indices. And ``v`` is
#    called a *vector*, although here it is a matrix, because in its flattened form it is
#    one.
#
#    At the other end, a single number has an empty shape, ``()``, and adds nothing to the
#    shape of the Jacobian. This is why the gradient of a loss looks like ``x``: it is a
#    Jacobian of shape ``() + x.shape``.
#
# .. dropdown:: What ``v @ J`` does now
#
#    The code that worked for one-dimensional tensors runs for our rooms as well, and
#    returns something else. The result should have the shape of ``x``, ``(2, 3)``. But for
#    tensors with more than two dimensions, ``@`` treats the last two as a matrix and the
#    others as a batch. In ``J`` the last two are *input's room* and *stove*. In ``v`` the
#    last one is the *measurement*, heat or fuel. So the price of heat is multiplied by
#    entries that belong to the stoves of the first room, and the price of fuel by entries
#    that belong to the stoves of the second. This has no meaning. It runs only because
#    there are two measurements and two rooms. Use ``tensordot``, or flatten first.

print("v @ J:", (v @ J).shape)

# %%
# Below are the four outputs in rows and the six stoves in columns. Which entries stay 0
# wherever you move the stoves?

pullback.live(rooms, x.detach(), torch.tensor([[10.0, -1.0], [0.0, -1.0]]))

# %%
# .. dropdown:: Answer
#
#    Those that join the fuel of one room and the stoves of the other. Only heat goes
#    through the wall.
#
# .. admonition:: Remember
#
#    - The Jacobian has shape ``y.shape + x.shape``. The output's indices come first.
#    - If you fix the indices of one output, as in ``J[0, 0]``, what is left is the
#      gradient of that output, in the shape of ``x``.
#    - The product with ``v`` is ``torch.tensordot(v, J, dims=y.ndim)``. Flattened, it is
#      the old ``v @ J``.
#
# .. predict:: Try it
#    :expects: shape
#    :for: the shape of the Jacobian
#
#    A batch of 32 colour images of 28 by 28 pixels, of shape ``(32, 3, 28, 28)``, goes
#    into a network that returns scores of shape ``(32, 10)``. What is the shape of the
#    Jacobian, and how many entries does it have? If the network treats each image by
#    itself, how many of them can be different from zero?
#
# .. dropdown:: Answer
#
#    The shape is ``(32, 10, 32, 3, 28, 28)``, which makes 24,084,480 entries. The ten
#    scores of an image can depend on the :math:`3\cdot28\cdot28=2352` pixels of the same
#    image only. That leaves 23,520 entries for each of 32 images, or 752,640, which is
#    one in 32. :ref:`one-jacobian-per-sample` is about this case.

torch.Size([32, 10]) + torch.Size([32, 3, 28, 28])

# %%
# .. dropdown:: How we checked this page
#
#    Every entry of the table is compared with a nudge of one stove in float64. The
#    product has to agree with ``backward`` in three ways of writing it.

assert J_blur.shape == blurred.shape + picture.shape
lit = J_blur[1, 1].nonzero().tolist()
assert lit == [[r, c] for r in (0, 1, 2) for c in (0, 1, 2)]
torch.testing.assert_close(J_blur[1, 1, :3, :3], torch.full((3, 3), 1 / 9))
torch.testing.assert_close(torch.tensordot(J_blur, picture, dims=2), blurred)  # linear
torch.testing.assert_close(worth, torch.tensordot(torch.ones(4, 5), J_blur, dims=2))
assert pixels == 3_000_000
assert J_blur.flatten(2).count_nonzero(2).max() == 9  # in the row of a pixel inside
assert (9 * worth).round().int().tolist()[:2] == [[4, 6, 6, 6, 4], [6, 9, 9, 9, 6]]

point, h = x.detach().double(), 1e-6
for column, nudge in enumerate(h * torch.eye(6, dtype=torch.float64)):
    nudge = nudge.reshape(2, 3)
    rate = (rooms(point + nudge) - rooms(point - nudge)) / (2 * h)
    torch.testing.assert_close(rate.flatten(), table[:, column].double())

assert J.shape == y.shape + x.shape
assert (J[0, 0, 1, 2], J[0, 1, 1, 2]) == (0.5, 0.0)
assert torch.equal(torch.tensordot(v, J, dims=y.ndim), x.grad)
assert torch.equal((v.flatten() @ table).reshape(x.shape), x.grad)
assert torch.equal(torch.einsum("ri,risj->sj", v, J), x.grad)
assert (v @ J).shape != x.shape
assert torch.equal(v @ J, torch.einsum("rk,abkc->abrc", v, J))  # what @ adds up over
assert 32 * 10 * 32 * 3 * 28 * 28 == 24_084_480 == 32 * 752_640
assert 32 * 10 * (3 * 28 * 28) == 752_640

# %%
# **Next:** there are several ways to compute such a table. :ref:`the-whole-jacobian` says
# which call to use.
#
# .. asked: Jacobian of a matrix; Jacobian with four dimensions; shape of the Jacobian
#    of tensors; derivative of a matrix by a matrix; 2d output and 2d input; flatten the
#    Jacobian into a matrix; what do the axes of the Jacobian mean; Jacobian with too
#    many dimensions; index order of a Jacobian
# .. words: images, matrices in and out, 4D, indices, reshape, vec, which axis, einsum,
#    higher rank, batch by features by features
