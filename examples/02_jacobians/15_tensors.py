r"""
.. _tensors-in-tensors-out:

Tensors in, tensors out
=======================

You want to see which pixels of your images move the scores of a network. You ask for the
:term:`Jacobian` on a batch of images, and PyTorch returns a tensor with six dimensions.
Which of its numbers is the rate of which pixel? One rule tells you: **The shape of the
Jacobian is the shape of y, followed by the shape of x.**
"""

# %%
# We begin with so few numbers that you can see all of them. Two rooms have three stoves
# each, and ``x`` has a row for each room. For every room we measure heat and fuel. The wall
# between the rooms is thin, and each room also gets half of the other one's heat:

import torch


def rooms(x):
    own = x.sum(1)  # the heat of each room's own stoves
    heat = own + 0.5 * own.flip(0)  # flip(0) swaps the two: the other room's heat
    fuel = (x**2).sum(1)
    return torch.stack([heat, fuel], dim=1)


x = torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
y = rooms(x)
y

# %%
# The first row is the first room. Its own stoves give 6 units of heat, 1.5 come through
# the wall, and it burns 14 units of fuel. ``x`` has shape ``(2, 3)`` for room and stove,
# and ``y`` has shape ``(2, 2)`` for room and measurement. There is a rate for each pair of
# an output and an input. Two indices say which output is meant, and two more say which
# input:
#
# .. code-block:: text
#
#    J[output's room, measurement, input's room, stove]
#
# So the shape is ``y.shape + x.shape``, which is ``(2, 2, 2, 3)``. That is "outputs
# first", as in a table, where ``(2,) + (3,)`` gave ``(2, 3)``.
#
# .. predict::
#    :for: the two numbers
#    :also: 0.5000, 0.5000, 0.5000; behind the wall count half
#    :wrong: in its own room: This is what the stove does to heat and fuel of its own room.;
#       half of both: Heat goes through the wall, and fuel does not: it is burned where the
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
# second is 0, because a stove burns the fuel of its own room.
#
# Fix the first two indices, and you have chosen an output, here the heat of the first room.
# What is left is the gradient of this output, and it looks like ``x``:

J[0, 0]

# %%
# Its own stoves count in full, and those behind the wall count half. If you fix the last
# two indices instead, as in ``J[:, :, 1, 2]``, you have chosen an input. What is left looks
# like ``y``, and it is what a column was: how all outputs change with this one stove.
#
# Prices go in, and rates come out
# --------------------------------
#
# In ``backward(v)``, ``v`` has a price for each output, and so it looks like ``y``. Suppose
# that nobody uses the second room. A unit of heat is worth 10 in the first room and nothing
# in the second, and a unit of fuel costs 1 in both: ``v`` is ``[[10, -1], [0, -1]]``.
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
# The result has the shape of ``x``. In its second row, all three entries are positive, so
# it pays to turn up any of these stoves a little. Half of their heat, worth 5, goes through
# the wall, and at their low settings they burn fuel at a rate of at most 4.
#
# This is the old :term:`vector-Jacobian product`: each output's gradient is multiplied by
# the output's price, and all are added up. Take the third stove of the second room. What it
# does to the four outputs is ``J[:, :, 1, 2]``, which is ``[[0.5, 0], [1, 2]]``. Each
# number in it meets the price in the same place:
#
# .. math::
#
#    10\cdot0.5+(-1)\cdot0+0\cdot1+(-1)\cdot2=3
#
# This is ``x.grad[1, 2]``.
#
# For a table, ``v @ J`` did this for all inputs at once. Here it runs as well, but it does
# not give ``x.grad``:

wrong = v @ J
print("v @ J:", wrong.shape, " first number:", wrong[0, 0, 0, 0].item())

# %%
# Its shape does not look like ``x``. How was the first number made? Row 0 of ``v`` has met
# column 0 of ``J[0, 0]``, a piece of ``J``. Here are ``v`` and ``J[0, 0]``, with this row
# and this column in brackets:
#
# .. code-block:: text
#
#             v                 J[0, 0], rates of the heat of room 1
#            heat  fuel            stove 1  stove 2  stove 3
#    room 1  [10    -1]    room 1   [1  ]     1        1
#    room 2    0    -1     room 2   [0.5]     0.5      0.5
#
# It is :math:`10\cdot1+(-1)\cdot0.5=9.5`. The −1 is the price of the *fuel*, and it has met
# 0.5, a rate of the *heat*. For ``@``, our ``J`` is a stack of four tables, from
# ``J[0, 0]`` to ``J[1, 1]``, and ``v`` is multiplied by each of them. There is no error,
# because there happen to be as many measurements as rooms.
#
# It is a table after all
# -----------------------
#
# If the four indices here, or the six of your batch of images, are too many for you,
# flatten ``y`` and ``x``. PyTorch takes the numbers row by row, first all of the first
# room, then all of the second. Then ``J`` is an ordinary table with a row for each of the 4
# outputs and a column for each of the 6 inputs, and the product is the ``v @ J`` that we
# know:

table = J.reshape(y.numel(), x.numel())  # numel counts the numbers: 4 and 6
(v.flatten() @ table).reshape(x.shape)

# %%
# The picture below shows this table, with ``v`` beside it. You can see the wall in it. In
# the row for the heat of a room, the stoves of the other room have 0.5. In the row for its
# fuel, they have 0.
#
# Nobody is in the second room, and yet its stoves earn. How far would you turn them up?
# Move the second room's three stoves until none of them earns any more:

import pullback

outputs = ["heat, room 1", "fuel, room 1", "heat, room 2", "fuel, room 2"]
stoves = [f"room {room}, {stove}" for room in (1, 2) for stove in ("a", "b", "c")]
pullback.live(rooms, x.detach(), v, rows=outputs, columns=stoves)

# %%
# .. dropdown:: Answer
#
#    To 2.5 each. Half of the heat is worth 5 in the first room, and the fuel costs twice
#    the setting. At 2.5 this is 5, too.
#
# A grid that is not in the photo
# -------------------------------
#
# Many networks for images begin by making the image smaller. Suppose that each pixel of
# the small image is the mean of a *window* of three by three pixels, and that each window
# starts two pixels after the one before it. So neighboring windows overlap by one row or
# one column. We take a photo of 5 by 7 pixels, and it is white everywhere:


def shrink(photo):
    colors = photo[None]  # avg_pool2d wants one more dimension, for colors
    return torch.nn.functional.avg_pool2d(colors, 3, stride=2)[0]


photo = torch.ones(5, 7)
shrink(photo)

# %%
# The small image is white everywhere, too. Nothing but its size seems to have changed. Its
# Jacobian has a rate for each pair of a small pixel and a pixel of the photo.
# ``J_small[0, 1]`` says how the small pixel in row 0 and column 1 reacts to each pixel of
# the photo. The rates are ninths, so we multiply them by 9:

J_small = torch.autograd.functional.jacobian(shrink, photo)
print(J_small.shape)
print(9 * J_small[0, 1])

# %%
# The small pixel depends on the nine pixels of its window, each with a rate of one ninth,
# and on no other.
#
# Now suppose that the network's score is the sum of all small pixels. Which pixels of the
# photo move this score most? That is the gradient of a sum, and we get it with a price of 1
# for each small pixel.
#
# .. predict::
#    :item: 2, 2
#    :for: ninths
#    :wrong: corner: This is a pixel in the corner, which only one window reaches.;
#       between two: This is a pixel in which two windows meet. Here there are two side by
#          side, and two more below them.;
#       window: This is a whole window together. Ask how many windows this one pixel is in.
#
#    A pixel in the corner of the photo lies in one window. So one ninth of it goes into
#    the sum, and its rate is one ninth. How many ninths is the rate of the pixel in row 2
#    and column 2?

start = photo.clone().requires_grad_()
ones = torch.ones(2, 3)  # grad returns what backward would add to start.grad:
(worth,) = torch.autograd.grad(shrink(start), start, ones)
9 * worth

# %%
# Four. Row 2 belongs to the windows above and to those below, and column 2 to those on the
# left and to those on the right, so four windows meet in this pixel. It counts four times
# as much as the pixel in the corner.
#
# The gradient has the shape of the photo, and so you can look at it as an image:

ax = pullback.plot.heatmap(
    9 * worth, title="Ninths that reach the sum", xlabel="column", ylabel="row"
)

# %%
# There is a grid. The photo is white, and so is the small image: the grid is in neither of
# them. It comes from windows that overlap by one. With windows of four by four pixels,
# which overlap by two, every pixel that is not near the edge lies in four windows, and
# there the grid is gone. So if a map of the pixels that move a score shows a grid, look at
# the network's windows before you look for it in the photo.
#
# We built the Jacobian only to read it. A real photo may have 1500 by 2000 pixels, which is
# 3 million numbers. The small image has about 750,000. Multiply the two, and 4 bytes for
# each rate make nearly 9 terabytes. ``backward`` does without the Jacobian, and what it
# returns is as large as the photo.
#
# .. admonition:: Remember
#
#    - The Jacobian has shape ``y.shape + x.shape``. The output's indices come first.
#    - If you fix the indices of one output, as in ``J[0, 0]``, what is left is the
#      gradient of that output, in the shape of ``x``.
#    - ``v`` looks like ``y``, and ``x.grad`` looks like ``x``. Each output's gradient is
#      multiplied by the output's price, and all are added up. Flattened, it is the old
#      ``v @ J``.
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
#    A batch of 32 color images of 28 by 28 pixels, of shape ``(32, 3, 28, 28)``, goes into
#    a network that returns scores of shape ``(32, 10)``. What is the shape of the
#    Jacobian, and how many entries does it have?
#
# .. dropdown:: Answer
#
#    The shape is ``(32, 10, 32, 3, 28, 28)``: first the image and the score of an output,
#    then the image, color, row and column of an input. This makes 24,084,480 entries. If
#    the network treats each image by itself, only one in 32 of them can be different from
#    zero, and :ref:`one-jacobian-per-sample` is about this case.

torch.Size([32, 10]) + torch.Size([32, 3, 28, 28])

# %%
# .. dropdown:: Two words: dimension and vector
#
#    When a mathematician says that ``x`` has six *dimensions*, that means the six columns
#    of our table. When PyTorch says ``x.ndim == 2``, it counts the indices. And ``v`` is
#    called a *vector*, although here it is a matrix. Flattened, it is a vector.
#
#    At the other end, a single number has an empty shape, ``()``, and adds nothing to the
#    shape of the Jacobian. This is why the gradient of a loss looks like ``x``: it is a
#    Jacobian of shape ``() + x.shape``.
#
# .. dropdown:: The product without flattening
#
#    ``torch.tensordot(v, J, dims=2)`` adds up over *two* indices, both of ``v`` and the
#    first two of ``J``. So it multiplies each price in ``v`` by the gradient of that output
#    in ``J``, and adds up. It gives ``x.grad`` again:

torch.tensordot(v, J, dims=2)

# %%
# .. dropdown:: How we checked this page
#
#    Every entry of the table is compared with a nudge of one stove in float64. The
#    product has to agree with ``backward`` in three ways of writing it. For each
#    pixel of the photo we count the windows that it lies in, and for windows of four
#    by four we look at the pixels near the edge, too.

small = shrink(photo)
assert torch.equal(small, torch.ones(2, 3))
assert J_small.shape == small.shape + photo.shape
lit = J_small[0, 1].nonzero().tolist()
assert lit == [[r, c] for r in (0, 1, 2) for c in (2, 3, 4)]
torch.testing.assert_close(J_small[0, 1, :3, 2:5], torch.full((3, 3), 1 / 9))
uneven = torch.arange(35.0).reshape(5, 7)
torch.testing.assert_close(
    torch.tensordot(J_small, uneven, dims=2), shrink(uneven)
)  # linear
torch.testing.assert_close(worth, torch.tensordot(torch.ones(2, 3), J_small, dims=2))
torch.testing.assert_close((worth * uneven).sum(), shrink(uneven).sum())
rows, columns = torch.tensor([1, 1, 2, 1, 1]), torch.tensor([1, 1, 2, 1, 2, 1, 1])
assert torch.equal((9 * worth).round().int(), rows[:, None] * columns)  # windows it is in
wide = torch.ones(8, 10, requires_grad=True)
fours = torch.nn.functional.avg_pool2d(wide[None], 4, stride=2)
(even,) = torch.autograd.grad(fours.sum(), wide)
assert torch.equal(16 * even[2:-2, 2:-2], torch.full((4, 6), 4.0))  # no grid
assert torch.equal(16 * even[0], torch.tensor([1.0, 1, 2, 2, 2, 2, 2, 2, 1, 1]))
height, width = shrink(torch.empty(1500, 2000, device="meta")).shape
assert 1500 * 2000 == 3_000_000
assert 745_000 < height * width < 755_000
assert 8.9e12 < 4 * height * width * 3_000_000 < 9e12

point, h = x.detach().double(), 1e-6
for column, nudge in enumerate(h * torch.eye(6, dtype=torch.float64)):
    nudge = nudge.reshape(2, 3)
    rate = (rooms(point + nudge) - rooms(point - nudge)) / (2 * h)
    torch.testing.assert_close(rate.flatten(), table[:, column].double())

assert J.shape == y.shape + x.shape
stack = [[v @ J[room, measured] for measured in (0, 1)] for room in (0, 1)]
assert torch.equal(wrong, torch.stack([torch.stack(tables) for tables in stack]))
assert (J[0, 0, 1, 2], J[0, 1, 1, 2]) == (0.5, 0.0)
assert J[:, :, 1, 2].tolist() == [[0.5, 0], [1, 2]]
assert J[0, 0, 1, 1] != J[1, 1, 0, 0]  # read with the input first: another rate, no error
assert (v * J[:, :, 1, 2]).sum() == 3 == x.grad[1, 2]
assert torch.equal(torch.tensordot(v, J, dims=y.ndim), x.grad)
assert torch.equal((v.flatten() @ table).reshape(x.shape), x.grad)
assert torch.equal(torch.einsum("ri,risj->sj", v, J), x.grad)
assert wrong.shape == (2, 2, 2, 3)
assert wrong[0, 0, 0, 0] == v[0, 0] * J[0, 0, 0, 0] + v[0, 1] * J[0, 0, 1, 0] == 9.5
assert (J[0, 0, 0, 0], J[0, 0, 1, 0]) == (1, 0.5)
enough = torch.tensor([[1.0, 2.0, 3.0], [2.5, 2.5, 2.5]], requires_grad=True)
(at_rest,) = torch.autograd.grad(rooms(enough), enough, v)
assert not at_rest[1].any()
assert (x.grad[1] > 0).all()
assert (10 * 0.5, (2 * x[1]).max()) == (5, 4)
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
    "corner": 9 * worth[0, 0],
    "between two": 9 * worth[1, 2],
    "window": 9 * J_small[0, 0].sum(),
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
