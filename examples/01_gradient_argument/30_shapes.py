r"""
.. _shapes-of-v:

The shape of v: like x or like y?
=================================

*Mismatch in shape: grad_output[0] has a shape of ... and output[0] has a shape of ...* This
is the message that people meet right after they have learned that ``backward`` wants a
tensor. They have passed a ``v`` with the wrong shape. Which shape is the right one? You
need not learn a rule by heart. You can work it out, if you remember what the numbers in
``v`` are: prices, one for each output. On the way you will see why a program may run with
one sample, and stop at its first batch.
"""

# %%
# Four days
# ---------
#
# The house has three stoves, and now we look at four days. On each day every stove has
# a setting, so ``x`` is a matrix with one row for each day and one column for each stove.
# We only ask how much heat there is on each day:

import torch

x = torch.tensor(
    [
        [1.0, 2.0, 3.0],
        [1.0, 1.0, 2.0],
        [2.0, 2.0, 2.0],
        [4.0, 1.0, 1.0],
    ],
    requires_grad=True,
)
y = x.sum(dim=1)
y

# %%
# In many first examples ``y`` is computed from ``x`` element by element, as in
# ``y = x**2``. Then ``x``, ``y``, ``v`` and ``x.grad`` all have the same shape, and the
# example cannot show you whose shape ``v`` has to have. Here the shapes differ: that of
# ``x`` is ``(4, 3)``, and that of ``y`` is ``(4,)``.
#
# .. predict::
#    :expects: choice
#    :wrong: The flat one and the column: The column has two dimensions, and y has one.
#          PyTorch does not fit one shape to the other here.;
#       All that hold four prices: In the column and in the row the number of prices is
#          right, but PyTorch compares the shapes.;
#       Only the one like x: Twelve numbers come back, but v goes in. It has a price for
#          each output, and y holds four.
#
#    We want to know at what rate each of the twelve settings earns. Somebody proposes four
#    shapes for ``v``: a flat tensor of four prices, ``(4,)``, a column, ``(4, 1)``, a row,
#    ``(1, 4)``, or one that looks like ``x``, ``(4, 3)``. Which of them does ``backward``
#    accept?
#
#    - Only the flat one
#    - The flat one and the column
#    - All that hold four prices
#    - Only the one like x

for shape in [(4,), (4, 1), (1, 4), (4, 3)]:
    try:
        y.backward(torch.ones(shape))
        print(shape, "is accepted")
    except RuntimeError as error:
        print(error)

# %%
# Only the first, which has exactly the shape of ``y``. Twelve numbers come out, but only
# four go in: one price for the heat of each day. The column and the row hold four prices as
# well, and still they are refused. People write such a ``v`` when they take it from a
# textbook, where a vector is either a row or a column. Our ``y`` is neither. It has one
# dimension, and so must its ``v``.
#
# The last message says: *your v looks like a (4, 3), but y is a (4,)*. The second shape is
# the one that ``v`` should have.
#
# From four prices to twelve rates
# --------------------------------
#
# Some days are colder than others, and on a cold day a unit of heat is worth more to us.
# Suppose that it is worth 1, 10, 5 and 2 on the four days.
#
# .. predict::
#    :item: 1
#    :for: the second row of x.grad
#    :wrong: times the settings: This is the price times the settings. Heat is a sum, so it
#          rises at a rate of 1 with each of them.;
#       without a price: These are the rates of the heat. A unit of heat is worth 10 on that
#          day.;
#       prices: These are the prices of the four days, so this is v. The row of a day has a
#          number for each of the three stoves.;
#       all days: Here the prices of all four days are added up. A stove gives heat on its
#          own day only.;
#       price divided: Here the price is divided among the three stoves. Each of them gets
#          all of it.;
#       worth of the day: This is what the heat of that day is worth. The question is how
#          fast that rises with each stove.
#
#    Only one number goes in for the second day, its price, and three come out. Which
#    numbers are in the second row of ``x.grad``?

x.grad = None
y = x.sum(dim=1)  # a new y for this call
v = torch.tensor([1.0, 10.0, 5.0, 2.0])
y.backward(v)
x.grad

# %%
# In each row you find the price of that day, because one more unit from any stove is one
# more unit of heat on that day, and on no other.
#
# That is the whole rule. **v has the shape of y, because it holds one price for each entry
# of y. x.grad has the shape of x, because it holds one derivative for each entry of x.**
# The weights of a network are like ``x`` in this: each has a ``.grad`` of its own shape.

import pullback

pullback.draw.shapes(y, x)

# %%
# ``J`` is the whole table; a box at the end of this page explains its shape.
#
# Here are two days with two stoves. Turn up a stove on the first day, and leave the prices
# as they are. Which of the four rates at the bottom will change?

two_days, of_two = torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([1.0, 10.0])
pullback.live(lambda x: x.sum(dim=1), two_days, of_two, rows=["day 1", "day 2"])

# %%
# .. dropdown:: Which rates change
#
#    None. Heat is a sum, so it rises at a rate of 1 at any setting, and each rate is the
#    price of its day. Only a price changes rates: the two of its own day.
#
# A network tried out on one sample
# ---------------------------------
#
# You have written a network with one output, and to try it out you show it a single day.
# The day is a batch of one row, of the shape ``(1, 3)``. So ``y`` has the shape ``(1, 1)``:
# one row, one column, and one number in them. On the first page PyTorch refused a ``y``
# with the words *only for scalar outputs*, and a scalar is a single number.
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: Both: The price 1 is right, but torch.tensor(1.0) has the shape (), and y is
#          a (1, 1). Brackets count in a v that you pass.;
#       Only the one with a v: It is the other way round. A v that you pass has to look like
#          y. If you pass nothing, it is enough that y holds one number.;
#       Neither: If you pass nothing, PyTorch asks how many numbers y holds, and not how
#          many brackets stand around them.
#
#    Which of these two calls does PyTorch accept: ``y.backward()``, or
#    ``y.backward(torch.tensor(1.0))``?
#
#    - Both
#    - Only the one without a v
#    - Only the one with a v
#    - Neither

torch.manual_seed(0)  # any weights will do
layer = torch.nn.Linear(3, 1)


def attempt(y, v=None):  # without a v, this is y.backward()
    try:
        y.backward(v)
        print(tuple(y.shape), "is accepted")
    except RuntimeError as error:
        print(error)


attempt(layer(x[:1]))
attempt(layer(x[:1]), torch.tensor(1.0))

# %%
# If you pass nothing, PyTorch makes the ``v`` itself. It knows that the price is 1, and it
# takes the shape from ``y``. So all that it asks is that ``y`` holds one number, and it
# does not mind the brackets around that number. But a ``v`` that you pass has to look
# exactly like ``y``. Here that would be ``torch.tensor([[1.0]])``.
#
# A ``v`` can also have too many brackets. The heat of all four days together, ``x.sum()``,
# has the shape ``()``. For it, ``torch.tensor(1.0)`` is right, and the first line below
# passes ``torch.tensor([1.0])``. The second line shows the network two days instead of one:

attempt(x.sum(), torch.tensor([1.0]))
attempt(layer(x[:2]))

# %%
# For two days, ``y`` is a ``(2, 1)`` and holds two numbers, and PyTorch cannot know their
# prices. This is why a program with ``y.backward()`` may run with one sample and stop at
# its first batch.
#
# When y is a matrix
# ------------------
#
# Now let us ask for the fuel of *each* stove on each day, ``fuel = x**2``. There are twelve
# results, in a ``(4, 3)``, and so there are twelve prices. Often you have fewer, such as
# one weight for each sample of a batch. Here fuel costs us 2, and on the second day, when
# it was on sale, only 1. So we have one price for each day, ``[-2, -1, -2, -2]``, negative
# because fuel is a cost.
#
# ``prices[:, None]`` stands these four numbers up as a column, of the shape ``(4, 1)``. In
# the product ``fuel * prices[:, None]`` PyTorch would repeat the column for each stove.
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: It repeats the column for each stove: A product does so. backward compares the
#          shapes, and (4, 1) is not (4, 3).;
#       It uses the prices for the first stove alone: Then it would have to know which stove
#          they are meant for. It asks for twelve prices.
#
#    What does ``fuel.backward(prices[:, None])`` do with the column?
#
#    - It repeats the column for each stove
#    - It uses the prices for the first stove alone
#    - It refuses the column

fuel = x**2
prices = torch.tensor([-2.0, -1.0, -2.0, -2.0])
attempt(fuel, prices[:, None])

# %%
# ``backward`` repeats nothing. You do that yourself, and ``expand_as`` takes the shape from
# ``fuel``:

v = prices[:, None].expand_as(fuel)
v

# %%
# .. predict::
#    :item: 1
#    :for: the second row of x.grad
#    :wrong: prices again: These are the prices of that day, a row of v. Each is multiplied
#          by the rate of the fuel, twice the setting.;
#       without a price for fuel: These are the rates of the fuel, twice each setting. The
#          price of that day is −1.;
#       usual price: This is what the usual price, −2, would give. On that day fuel was on
#          sale.;
#       cost of the fuel: This is what the fuel of each stove costs, the price times the
#          square. The question is how fast that rises.
#
#    On the second day the stoves were at 1, 1 and 2. Now ``v`` fits. Which three rates come
#    back for that day?

x.grad = None
fuel.backward(v)
of_fuel = x.grad
of_fuel

# %%
# Each entry of ``x.grad`` is the slope :math:`2x` times the price. In the second row, where
# the price is −1, this is ``[-2, -2, -4]``: on that day each unit that you turn the third
# stove up costs about 4. In the first row, with the price −2, it is ``[-4, -8, -12]``.
#
# So the safe way is to let ``y`` say the shape: with ``expand_as(y)`` as here, or with
# ``torch.zeros_like(y)``, into which you write your prices.
#
# .. admonition:: Remember
#
#    - ``v`` looks like ``y``, the tensor on which you call ``backward``. It looks like
#      ``x`` only when ``y`` does.
#    - ``x.grad`` looks like ``x``.
#    - In *Mismatch in shape*, ``grad_output[0]`` is your ``v``, ``output[0]`` is your
#      ``y``, and the second shape is the one to use.
#    - ``()``, ``(1,)`` and ``(1, 1)`` are different shapes, although each holds one number.
#      ``backward()`` without a ``v`` accepts all three (see *Where this ends*).
#
# .. predict:: Try it
#    :label: y
#    :for: the shape of v
#    :wrong: w: This is the shape of w, whose gradient is wanted, and so the author's
#          mistake. v looks like y.;
#       x: This is the shape of x. v looks like y, which has one number for each day.;
#       a column: A column has a dimension too many, and would be refused. y has one
#          dimension.;
#       one number: This is for a y that is a single number. Here y has one for each day.
#
#    Some stoves give more heat than others. ``w`` says how much heat each of the three
#    gives per unit of its setting, and ``y = x @ w`` is the heat of each day: on the first
#    day that is ``1*w[0] + 2*w[1] + 3*w[2]``. A unit of heat is worth 1, 10, 5 and 2 on the
#    four days, as above. Somebody wants to know at what rate the worth of all four days
#    rises with each number in ``w``. The last line is refused:
#
#    .. code-block:: python
#
#       w = torch.tensor([1.0, 2.0, 1.0], requires_grad=True)
#       y = x @ w
#       y.backward(torch.ones_like(w))
#
#    What did they think, and how do you repair the line? Which shapes do ``v``,
#    ``w.grad`` and ``x.grad`` have then, and what is the first entry of ``w.grad``?
#
# .. dropdown:: Answer
#
#    The author has made ``v`` look like the tensor whose gradient is wanted. But ``v``
#    looks like ``y``, so it has the shape ``(4,)``, and holds the four prices of the heat,
#    ``[1, 10, 5, 2]``. Now ``w.grad`` has the shape ``(3,)``. Because ``x`` requires
#    gradients too, the same call fills ``x.grad``, of the shape ``(4, 3)``. Each looks like
#    its tensor. The first entry of ``w.grad`` is made of the first stove's settings, 1, 1,
#    2 and 4, each times the price of its day:
#    :math:`1\cdot1+10\cdot1+5\cdot2+2\cdot4=29`.

x.grad = None
w = torch.tensor([1.0, 2.0, 1.0], requires_grad=True)
y = x @ w
y.backward(torch.tensor([1.0, 10.0, 5.0, 2.0]))
print("y:", y.shape, " w.grad:", w.grad.shape, " x.grad:", x.grad.shape)
w.grad

# %%
# .. dropdown:: A sample alone, and a Python list
#
#    If you show ``Linear(3, 1)`` a single sample of the shape ``(3,)``, and no batch, ``y``
#    has the shape ``(1,)``. Then a ``v`` that you pass has to be a ``(1,)``, too.
#
#    A Python list of numbers, such as ``[1.0, 10.0, 5.0, 2.0]``, is refused. ``v`` is a
#    tensor on the device of ``y``.
#
# .. dropdown:: And the table, when x is a matrix?
#
#    The table is the :term:`Jacobian`. There is still one row for each result, and our
#    ``y`` holds the heat of four days. So there are four rows. Each row has twelve rates,
#    one for each setting, and PyTorch keeps them arranged like ``x``, as a ``(4, 3)``. So
#    the whole table has the shape ``(4, 4, 3)``. The first 4 is the shape of ``y``, and the
#    ``4, 3`` after it is the shape of ``x``. The idea is the same: multiply each row by the
#    price of its day, and add.

settings, day_prices = x.detach(), torch.tensor([1.0, 10.0, 5.0, 2.0])
heat_rates = torch.autograd.functional.jacobian(lambda x: x.sum(dim=1), settings)
by_table = torch.zeros(4, 3)
for day in range(4):
    by_table += day_prices[day] * heat_rates[day]
by_table

# %%
# .. dropdown:: Where this ends
#
#    - *y holds complex numbers.* Then ``backward()`` without a ``v`` is refused, even for a
#      single number. Pass a ``v``.
#    - *A call starts from several tensors at once.* Then each has a ``v`` of its own, and
#      the ``[0]`` in the message is meant to say which one does not fit, counted from 0. It
#      may name a wrong one, and the call may also end with another error. Compare each
#      ``v`` with its tensor.
#
# .. dropdown:: How we checked this page
#
#    The rule is tried on functions whose inputs and outputs have 0 to 4 dimensions, and
#    each result is compared with the table.

table = torch.autograd.functional.jacobian(torch.square, settings)
assert table.shape == (4, 3, 4, 3)
assert torch.equal(torch.tensordot(v, table, dims=2), of_fuel)
by_days = torch.tensordot(day_prices, heat_rates, dims=1)
assert torch.equal(by_days, day_prices[:, None].expand(4, 3))
assert torch.equal(by_days, by_table)
assert torch.equal(of_fuel, 2 * settings * v)
assert torch.equal(w.grad, day_prices @ settings)
assert torch.equal(x.grad, day_prices.outer(w.detach()))
assert w.grad[0] == 29
for of_y, of_v, accepted in [((), (), True), ((), (1,), False), ((1,), (1,), True)]:
    alone = torch.full(of_y, 3.0, requires_grad=True)
    try:
        (alone**2).backward(torch.ones(of_v))
    except RuntimeError:
        assert not accepted
    else:
        assert accepted
assert torch.nn.Linear(3, 1)(settings[0]).shape == (1,)
for shape in [(), (1,), (1, 1)]:
    alone = torch.full(shape, 3.0, requires_grad=True)
    (alone**2).backward()
    assert torch.equal(alone.grad, torch.full(shape, 6.0))

maps = [torch.sum, lambda x: x.sum(0), torch.square, lambda x: x[:, None, None] * x]
for f in maps:
    for shape in [(3,), (2, 3), (2, 3, 4)]:
        t = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
        t.requires_grad_()
        out = f(t)
        v = torch.arange(1.0, 1 + out.numel()).reshape(out.shape)
        (product,) = torch.autograd.grad(out, t, v)
        J = torch.autograd.functional.jacobian(f, t.detach())
        assert J.shape == out.shape + t.shape
        assert product.shape == t.shape
        torch.testing.assert_close(product, torch.tensordot(v, J, dims=out.ndim))

try:
    (torch.ones((), requires_grad=True) * 1j).backward()
except RuntimeError as error:
    refused = str(error)
assert "implicitly" in refused
turned = torch.ones((), requires_grad=True) * 1j
turned.backward(torch.ones_like(turned))  # with a v it is accepted
starts = [x.sum(), x[0, :1] * 1.0]
for prices_of_starts, named in [
    ([torch.tensor(1.0), torch.tensor(1.0)], "grad_output[0]"),  # the second does not fit
    ([torch.tensor(1.0), torch.tensor([1.0, 2.0])], "ambiguous"),
]:
    try:
        torch.autograd.backward(starts, prices_of_starts)
    except RuntimeError as error:
        refused = str(error)
    assert named in refused
refused = []
for output, tried in [
    (x.sum(), torch.ones(1)),
    (x.sum(dim=1), torch.ones(1, 4)),
    (x.sum(dim=1), torch.ones(4, 1)),
    (x.sum(dim=1), torch.ones(4, 3)),
    (x @ w, torch.ones_like(w)),
]:
    try:
        output.backward(tried)
    except RuntimeError as error:
        refused.append(str(error))
assert all("Mismatch in shape" in message for message in refused)
assert len(refused) == 5
try:
    x.sum(dim=1).backward([1.0, 1.0, 1.0, 1.0])  # a list is no tensor
except TypeError as error:
    refused = str(error)
assert "can be either Tensors or None" in refused


def accepts(f, *price):
    try:
        f(x.detach().requires_grad_()).backward(*price)
    except RuntimeError:
        return False
    return True


one_day, one = (lambda x: layer(x[:1])), torch.tensor(1.0)
bare, with_one = accepts(one_day), accepts(one_day, one)
assert accepts(one_day, torch.tensor([[1.0]]))
assert not accepts(lambda x: layer(x[:2]))
assert accepts(torch.sum, one)
assert not accepts(torch.sum, one[None])
assert not accepts(torch.square, prices)
column_taken = accepts(torch.square, prices[:, None])
assert accepts(torch.square, torch.zeros_like(fuel))
assert (fuel * prices[:, None]).shape == fuel.shape
by_day = lambda x: x.sum(dim=1)
flat, as_column, as_row, like_x = (
    accepts(by_day, torch.ones(shape)) for shape in [(4,), (4, 1), (1, 4), (4, 3)]
)
for at in (two_days, two_days + 1):
    (rates,) = torch.autograd.grad(by_day(at.requires_grad_()), at, of_two)
    assert rates.tolist() == [[1, 1], [10, 10]]
guesses = {  # wrong ones, of which the boxes above say what they are
    "times the settings": 10 * settings[1],
    "without a price": heat_rates[1, 1],
    "prices": day_prices,
    "all days": day_prices.sum() * torch.ones(3),
    "price divided": torch.full((3,), 10 / 3),
    "worth of the day": 10 * settings[1].sum(),
    "w": w.shape,
    "x": x.shape,
    "a column": day_prices[:, None].shape,
    "one number": x.sum().shape,
    "Only the flat one": flat and not (as_column or as_row or like_x),
    "The flat one and the column": flat and as_column and not (as_row or like_x),
    "All that hold four prices": flat and as_column and as_row and not like_x,
    "Only the one like x": like_x and not (flat or as_column or as_row),
    "Both": bare and with_one,
    "Only the one without a v": bare and not with_one,
    "Only the one with a v": with_one and not bare,
    "Neither": not (bare or with_one),
    "It repeats the column for each stove": column_taken,
    "It uses the prices for the first stove alone": column_taken,
    "It refuses the column": not column_taken,
    "prices again": prices[1].expand(3),
    "without a price for fuel": 2 * settings[1],
    "usual price": -2 * 2 * settings[1],
    "cost of the fuel": prices[1] * settings[1] ** 2,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** nearly all our prices were made up so far. :ref:`where-v-comes-from` shows where
# they come from in a real program.
#
# .. asked: which shape must v have; what shape is gradient in backward; v has the shape
#    of the output; shape of x.grad; grad_output shape error; does the gradient argument
#    look like x or y; size mismatch in backward; v for a matrix or 2d output; how big
#    must the tensor in backward be; grad_output has the wrong size; same size as the
#    output
# .. words: dimension, how long, how many entries, length of the list, wrong length, batch
#    by classes, 3x4, expected and got, does not fit, unsqueeze, transpose first
