r"""
.. _tensors-in-tensors-out:

Tensors in, tensors out
=======================

Two rooms have three stoves each, and the wall between them is thin. How much warmer does
the first room get if we turn up a stove in the second? And if a photo is darker after it
has been blurred, where did the light get lost? Until now ``x`` and ``y`` were
one-dimensional, and the :term:`Jacobian` was a table. Here it takes two indices to name a
stove, its room and its place, and so the Jacobian has more than two indices. It answers the
same questions. We only have to know which index is which.
"""

# %%
# ``x`` has a row for each room and a column for each stove. For every room we measure heat
# and fuel. Through the wall, each room also feels half of the heat of the other one:

import torch


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
# There is a rate for each pair of an output and an input. To name the output takes two
# indices, and to name the input takes two more:
#
# .. code-block:: text
#
#    J[output's room, measurement, input's room, stove]
#
# **The shape of the Jacobian is the shape of y, followed by the shape of x**, in code
# ``y.shape + x.shape``. That is "outputs first", as in a table, where ``(2,) + (3,)`` gave
# ``(2, 3)``.
#
# .. predict::
#    :for: the two numbers
#    :also: 0.5000, 0.5000, 0.5000; behind the wall count half
#    :wrong: in its own room: This is what the stove does to heat and fuel of its own room.;
#       half of both: Heat goes through the wall, and fuel does not: it is burnt where the
#          stove stands.;
#       no wall: Here the heat counts in full. Half of it comes through the wall.;
#       nothing: Half of the second room's heat comes through the wall.
#
#    ``J[0, 0, 1, 2]`` asks how the *heat of the first room* reacts to the *third stove of
#    the second room*. ``J[0, 1, 1, 2]`` asks the same for the *fuel* of the first room.
#    What are the two numbers?

J = torch.autograd.functional.jacobian(rooms, x)
J[0, :, 1, 2]  # the colon stands for both measurements

# %%
# Half of the second room's heat comes through the wall, so the first answer is 0.5. The
# second is 0, because a stove burns fuel only where it stands.
#
# Fix the first two indices, and you have chosen an output, here the heat of the first room.
# What is left is the gradient of this output. It can be read like ``x``, with a row for
# each room and a column for each stove:

J[0, 0]

# %%
# Its own stoves count in full, and those behind the wall count half. If you fix the last
# two indices instead, as in ``J[:, :, 1, 2]``, you have chosen an input. What is left looks
# like ``y``. It does the work of a column: it says how all outputs change with this one
# stove.
#
# The product with v
# ------------------
#
# ``v`` has the shape of ``y`` as always: a row for each room, with a price for its heat and
# one for its fuel. Suppose that nobody uses the second room. A unit of heat is worth 10 in
# the first room and nothing in the second, and a unit of fuel costs 1 in both. So ``v`` is
# ``[[10, -1], [0, -1]]``.
#
# .. predict::
#    :expects: signs
#    :item: 1
#    :for: the three signs for that room
#    :wrong: fuel alone: These are the signs of the fuel. Half of the heat goes through the
#          wall and is worth 10 there.;
#       nothing at all: Nobody is in that room, but half of its heat goes to the other one,
#          and its fuel is paid.
#
#    The second room's stoves are at 2, 0 and 1. Is any of them worth turning up, although
#    nobody is in that room? Which of its three entries in ``x.grad`` are positive?

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
# Can we save the flattening, and write ``v @ J`` at once?
#
# .. predict::
#    :expects: shape
#    :for: the shape, if there is no error
#    :wrong: as x: This is the shape that it should have. But @ takes the last two
#          dimensions of J for a matrix, and keeps the other two.;
#       as y: This is the shape of v and y. @ keeps the first two dimensions of J and
#          multiplies in the last two.;
#       flat: This is v @ table, with the flattened table.
#
#    ``v`` has shape ``(2, 2)``, ``J`` has shape ``(2, 2, 2, 3)``, and the product should
#    look like ``x``, with shape ``(2, 3)``. What shape does ``v @ J`` have?

wrong = v @ J
wrong.shape

# %%
# There is no error, and it does not look like ``x``. ``@`` takes the *last* two dimensions
# of ``J`` for a matrix, with the input's rooms in its rows. So the price of heat has been
# multiplied by a rate for a stove in the first room, and the price of fuel by one in the
# second, which has no meaning. It runs only because there are as many measurements as
# rooms, and nothing but the shape tells us.
#
# The prices belong to the *first* two indices of ``J``. Take one entry of the result, the
# third stove of the second room. Its column ``J[:, :, 1, 2]`` is ``[[0.5, 0], [1, 2]]``,
# and the prices are ``[[10, -1], [0, -1]]``. We multiply the numbers that stand in the same
# place, and add up:
#
# .. math::
#
#    10\cdot0.5+(-1)\cdot0+0\cdot1+(-1)\cdot2=3
#
# This is ``x.grad[1, 2]``: we have added up ``v[a, b] * J[a, b, 1, 2]`` over all ``a`` and
# ``b``. ``torch.tensordot`` with ``dims=2`` does it for all stoves at once. It takes the
# last two dimensions of its first tensor together with the *first* two of its second:

torch.tensordot(v, J, dims=2)

# %%
# In general it is ``torch.tensordot(v, J, dims=y.ndim)``. It adds up over the indices of
# the output, and those of the input remain. So the result always looks like ``x``.
#
# A picture
# ---------
#
# A white photo is blurred, and comes out darker near its edges. Where did the light get
# lost? A blur takes the pixels of a picture to those of another. This one replaces each
# pixel by the mean of a *window* of three by three pixels around it. Beyond the edge of the
# picture there are zeros. First we ask how the blurred pixel in row 1 and column 1 reacts
# to each pixel of the original.
# (``avg_pool2d`` wants one more dimension, for colours. ``[None]`` adds it, and ``[0]``
# takes it away again.)


def blur(picture):
    return torch.nn.functional.avg_pool2d(picture[None], 3, stride=1, padding=1)[0]


picture = torch.arange(20.0).reshape(4, 5)
J_blur = torch.autograd.functional.jacobian(blur, picture)
print(J_blur.shape)
print(9 * J_blur[1, 1])

# %%
# It depends on the nine pixels of its window, each with a rate of one ninth, and on no
# other. A photo of 2000 by 1500 pixels has a Jacobian of the same kind. At four bytes for
# each entry it would take 36 terabytes, although at most nine in every three million
# entries are different from zero. Nobody builds it. ``backward`` computes the product with
# ``v`` without it, and the product is no larger than the photo.
#
# .. predict::
#    :item: 0, 0
#    :for: ninths
#    :wrong: inside: This is a pixel inside, which is in nine windows.;
#       edge: This is a pixel at an edge. The corner lies at two of them.;
#       own window: This is the window of the corner itself. The three pixels beside it have
#          windows in which it lies, too.;
#       without its own: These are the windows of the three pixels beside it. It is also in
#          its own.
#
#    How much does each pixel of the original count for the brightness of the whole result?
#    So every blurred pixel gets the price 1. A pixel inside is in nine windows, its own and
#    those of the eight pixels around it, and counts a ninth in each. So it is worth nine
#    ninths. How many ninths is the pixel in the corner worth?

start = picture.clone().requires_grad_()
(worth,) = torch.autograd.grad(blur(start), start, torch.ones(4, 5))
9 * worth

# %%
# Four. The corner is in only four windows, and a pixel at the edge is in six. So the light
# near the edges gets lost, and most of it in the corners. The gradient shows where.
#
# .. dropdown:: Two words: dimension and vector
#
#    When a mathematician says that ``x`` has six *dimensions*, that means the six columns
#    of our table. When PyTorch says ``x.ndim == 2``, it counts the indices. And ``v`` is
#    called a *vector*, although here it is a matrix, because in its flattened form it is
#    one.
#
#    At the other end, a single number has an empty shape, ``()``, and adds nothing to the
#    shape of the Jacobian. This is why the gradient of a loss looks like ``x``: it is a
#    Jacobian of shape ``() + x.shape``.
#
# Below is the table of our rooms, with the four outputs in rows and the six stoves in
# columns. Which entries stay 0 wherever you move the stoves?

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
#    :wrong: one image: This is the Jacobian of a single image. For the batch, output and
#          input have an index for the image each.;
#       own images: This keeps each image with itself, and leaves out the zeros. The whole
#          Jacobian has an index for the image on both sides.;
#       input first: Here the input comes first. It is y.shape + x.shape.;
#       gradient: This is the shape of the input, which is the gradient of a single output.;
#       table: This is the flattened table.
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

blurred = blur(picture)
assert J_blur.shape == blurred.shape + picture.shape
lit = J_blur[1, 1].nonzero().tolist()
assert lit == [[r, c] for r in (0, 1, 2) for c in (0, 1, 2)]
torch.testing.assert_close(J_blur[1, 1, :3, :3], torch.full((3, 3), 1 / 9))
torch.testing.assert_close(torch.tensordot(J_blur, picture, dims=2), blurred)  # linear
torch.testing.assert_close(worth, torch.tensordot(torch.ones(4, 5), J_blur, dims=2))
assert 2000 * 1500 == 3_000_000
assert 4 * 3_000_000**2 == 36e12
assert J_blur.flatten(2).count_nonzero(2).max() == 9  # in the row of a pixel inside
assert (9 * worth).round().int().tolist()[:2] == [[4, 6, 6, 6, 4], [6, 9, 9, 9, 6]]

point, h = x.detach().double(), 1e-6
for column, nudge in enumerate(h * torch.eye(6, dtype=torch.float64)):
    nudge = nudge.reshape(2, 3)
    rate = (rooms(point + nudge) - rooms(point - nudge)) / (2 * h)
    torch.testing.assert_close(rate.flatten(), table[:, column].double())

assert J.shape == y.shape + x.shape
assert (J[0, 0, 1, 2], J[0, 1, 1, 2]) == (0.5, 0.0)
assert J[:, :, 1, 2].tolist() == [[0.5, 0], [1, 2]]
assert (v * J[:, :, 1, 2]).sum() == 3 == x.grad[1, 2]
assert torch.equal(torch.tensordot(v, J, dims=y.ndim), x.grad)
assert torch.equal((v.flatten() @ table).reshape(x.shape), x.grad)
assert torch.equal(torch.einsum("ri,risj->sj", v, J), x.grad)
assert wrong.shape == (2, 2, 2, 3)
assert torch.equal(9 * blur(torch.ones(4, 5)), 9 * worth)  # a white photo
assert torch.equal(wrong, torch.einsum("rk,abkc->abrc", v, J))  # what @ adds up over
assert 32 * 10 * 32 * 3 * 28 * 28 == 24_084_480 == 32 * 752_640
assert 32 * 10 * (3 * 28 * 28) == 752_640

scores, images = torch.Size([32, 10]), torch.Size([32, 3, 28, 28])
guesses = {  # wrong ones, of which the boxes above say what they are
    "in its own room": J[1, :, 1, 2],
    "half of both": J[1, :, 1, 2] / 2,
    "no wall": J[1, :, 1, 2] * torch.tensor([1.0, 0.0]),
    "nothing": torch.zeros(2),
    "fuel alone": -J[1, 1, 1],
    "nothing at all": torch.zeros(3),
    "as x": torch.tensordot(v, J, dims=2).shape,
    "as y": v.shape,
    "flat": (v.flatten() @ table).shape,
    "inside": 9 * worth[1, 1],
    "edge": 9 * worth[0, 1],
    "own window": 9 * J_blur[0, 0, 0, 0],
    "without its own": 9 * (J_blur[:, :, 0, 0].sum() - J_blur[0, 0, 0, 0]),
    "one image": scores[1:] + images[1:],
    "own images": scores + images[1:],
    "input first": images + scores,
    "gradient": images,
    "table": torch.Size([scores.numel(), images.numel()]),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


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
