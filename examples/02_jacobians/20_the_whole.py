r"""
.. _the-whole-jacobian:

The whole Jacobian in one call
==============================

A heating system has three dials, and it warms 5000 rooms. Some rooms are too cold, and
others are too warm. Before you turn anything, you want to know what each dial does to each
room. That is the whole :term:`Jacobian`, with a row for each room and a column for each
dial. So far we have called ``torch.autograd.functional.jacobian`` for a table, and have not
asked how it works. There are two ways to compute a table, and PyTorch has a call for each.
For this heating, one of them takes far more work than the other. Which one should you
choose? You can find out without PyTorch, at the dials, with a thermometer in each room.
"""

# %%
# Here is the heating. It takes the settings of the three dials, and returns how warm each
# of the rooms is:

import torch

pipes = torch.linspace(0.02, 0.2, 15_000).reshape(3, 5000).T  # any small numbers will do


def heating(dials):
    return torch.tanh(pipes @ dials)


dials = torch.tensor([1.0, 2.0, 3.0])
before = heating(dials)
before.shape

# %%
# .. predict::
#    :label: turns of a dial
#    :code:
#    :for: the number of turns
#    :wrong: rooms: A turn of one dial shows at once how all 5000 rooms react.;
#       entries: A turn of one dial brings 5000 of the entries at once.;
#       one dial: One turn moves one dial, and brings its column. There are three dials.;
#       up and down: One turn of each dial is enough, if it is small, but large beside
#          rounding.
#
#    The table has 15,000 entries, a rate for each room and each dial. Now forget the
#    program. You stand in front of the dials, with a thermometer in each room, and want to
#    find all the rates. How few small turns of a dial would do?

small, columns = 0.005, []
for turn in small * torch.eye(3):  # one dial after the other
    columns.append((heating(dials + turn) - before) / small)
by_turning = torch.stack(columns, dim=1)
print("turns of a dial:", len(columns))
print("entries found:  ", by_turning.numel())

# %%
# Three are enough. Turn one dial a little, and watch how fast each of the 5000 rooms gets
# warmer. These rates are a whole column of the table, and there are only three columns.
#
# A push for each column
# ----------------------
#
# PyTorch can do the same without turning anything. It starts with a change ``u`` of the
# dials, such as ``[1, 0, 0]`` for the first dial alone. Then it goes forward through the
# function, from the dials to the rooms, and computes for each number on the way how fast it
# changes. What arrives are the rates themselves, without the small error of a turn. This
# direction is called :term:`forward mode`. We call one such walk a **push**. It brings ``J
# @ u``, the :term:`Jacobian-vector product`, and with a single 1 in ``u`` this is a column.
# The next page does a push by hand.
#
# The first of the two calls is ``jacfwd``. It takes a push for each column, and its *fwd*
# stands for forward:

from torch.func import jacfwd

by_jacfwd = jacfwd(heating)(dials)
print("shape:", tuple(by_jacfwd.shape))
print(f"smallest rate:            {by_jacfwd.abs().min():.4f}")
print(f"largest error of turning: {(by_turning - by_jacfwd).abs().max():.4f}")

# %%
# Both ways agree. They differ a little, because a turn is not infinitely small.
#
# ``jacfwd(heating)`` is a new function. It takes what ``heating`` takes, and returns the
# Jacobian. ``(dials)`` calls it at our settings.
#
# A pull for each row
# -------------------
#
# ``backward`` goes the other way. It carries a ``v``, with a price for each output, back
# through the whole function to the inputs, and brings ``v @ J``, the :term:`vector-Jacobian
# product`. We call one such walk back a **pull**. For most functions a push or a pull takes
# a small multiple of the work of running the function once (:ref:`never-built`).
#
# With a 1 for one output in ``v``, and 0 for the others, a pull brings the *row* of this
# output. Our house with three stoves has two outputs. The heat is the sum of the settings,
# and the fuel is the sum of their squares. So we get its table from two pulls:


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
leaf = x.clone().requires_grad_()  # a copy of x, where the walks back end
y, rows = house(leaf), []
for v in torch.eye(2):  # first [1, 0] for the heat, then [0, 1] for the fuel
    # retain_graph, so that the second pull finds the graph; what returns is a tuple of one
    (row,) = torch.autograd.grad(y, leaf, v, retain_graph=True)
    rows.append(row)
torch.stack(rows)

# %%
# Can a *single* pull bring both rows? ``torch.autograd.grad``, which pulls as ``backward``
# does, takes not only one output, but also a *list* of outputs.
#
# .. predict::
#    :for: what it returns
#    :wrong: both rows: These are the two rows apart. A pull adds up whatever arrives at the
#          stoves.;
#       row of the heat: This is the row of the heat alone. Both outputs were in the list.;
#       row of the fuel: This is the row of the fuel alone. Both outputs were in the list.;
#       our prices: This is for our prices, 10 and −1. Without a v, each output in the list
#          counts 1.;
#       values: These are heat and fuel themselves. grad returns rates, one for each stove.;
#       mean of the rows: This is the mean of the two rows. They are added.
#
#    We give it the list ``[heat, fuel]``, and no ``v``. What does it return?

heat, fuel = house(leaf)
torch.autograd.grad([heat, fuel], leaf)[0]

# %%
# It is a single row. 3, 5 and 7 are the *sums* of the two rows. (Without a ``v``, each
# output in the list counts 1.) A pull adds up all that arrives at a stove. From the 3 alone
# you cannot tell that the first stove does 1 to the heat and 2 to the fuel. So two separate
# rows take two pulls. In training you need only one pull: the loss is a single number, and
# its table is a single row.
#
# Count the rows and the columns
# ------------------------------
#
# ``jacrev`` is the second of the two calls. It takes a pull for each row, as our loop
# did, and as ``torch.autograd.functional.jacobian`` does. Its *rev* stands for
# :term:`reverse mode`, the direction from the outputs back to the inputs. From here on we
# call ``jacrev`` where we called ``functional.jacobian``, because it can be put inside
# another function of ``torch.func``. For the samples of a batch we need that
# (:ref:`one-jacobian-per-sample`).

from torch.func import jacrev

table = jacrev(house)(x)
table

# %%
# Now you can answer the question from the beginning. The table of the heating has 5000 rows
# and three columns. So ``jacrev`` takes 5000 pulls for it, and ``jacfwd`` takes three
# pushes. The picture shows a smaller heating, with 3 dials and 12 rooms. In *reverse*, a
# stripe of the table is a row, and each takes a pull. In *forward*, it is a column, and
# takes a push. The picture calls both *products*, because a pull brings ``v @ J``, and a
# push brings ``J @ u``:

import pullback

pullback.draw.cost((12, 3))

# %%
# So count the rows and the columns. **If there are fewer rows, call** ``jacrev``. **If
# there are fewer columns, call** ``jacfwd``. Both return the same table, and what differs
# is the work. If the two numbers are close, as they are for our house, it makes little
# difference. (A few operations are exceptions. The box *More calls, and the exceptions*,
# near the end of the page, is about those.)
#
# And what do you do with the 15,000 rates? Multiplied by a small ``turn`` of the dials,
# ``table @ turn``, they say how much warmer each room gets. So you can look for the turn
# that brings the rooms nearest to what you want (:ref:`hitting-targets`).
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: One pull: A pull brings a row, which is what all pixels do to one new pixel.;
#       A pull for each new pixel: These pulls bring the whole table. You want one column of
#          it.;
#       A push for each old pixel: These pushes bring the whole table. You want one column
#          of it.
#
#    A network takes a picture of 784 pixels and makes a sharper one, of 784 pixels again.
#    You want to know what *one* of the old pixels, number 400, does to all of the new ones.
#    What is the least that you need?
#
#    - One pull
#    - One push
#    - A pull for each new pixel
#    - A push for each old pixel

from torch.func import jvp

sharpen = torch.nn.Sequential(torch.nn.Linear(784, 784), torch.nn.Tanh())
picture, u = torch.zeros(784), torch.zeros(784)
u[400] = 1.0
_, column = jvp(sharpen, (picture,), (u,))
column.shape

# %%
# One push, with a single 1 in ``u``. The whole table would take 784 walks with either call.
# But what one input does is a single column, and ``torch.func.jvp``, which makes one push,
# brings it. It returns the value and the column, and the next page is about it.
#
# Is it true that one pull cannot bring both rows of our house? In the picture, set ``v`` to
# ``[100, 1]``. What do you read in the result? And where does this trick go wrong: what do
# you read when the first stove is set to 60?

stoves = ["stove 1", "stove 2", "stove 3"]
pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), rows=["heat", "fuel"], columns=stoves)

# %%
# .. dropdown:: Answer
#
#    The result is ``[102, 104, 106]``, and both rates of each stove stand in it: 1 and 2, 1
#    and 4, 1 and 6. But with the first stove at 60, its number is 220. You read 2 and 20,
#    and the rates are 1 and 120. The trick works if you know already that all rates are
#    whole numbers, that none is negative, and that those of the fuel are below 100. If you
#    know nothing about them, one number does not tell what two rates are.
#
# .. admonition:: Remember
#
#    - A pull brings one row, or a sum of rows. A push brings one column, or a sum of
#      columns.
#    - Fewer outputs than inputs: ``jacrev(f)(x)``, one pull for each row. Fewer inputs:
#      ``jacfwd(f)(x)``, one push for each column.
#    - If all you need is the rows added up, each times its price, one pull does it, and you
#      need no table.
#    - ``autograd.grad`` with a list of single numbers returns the *sum* of their rows.
#
# .. predict:: Try it
#    :for: the table, as a list of four rows
#    :wrong: a and b swapped: In the last row, each input has itself as its rate. In a
#          product the rate is the other factor.;
#       outputs: These are the four outputs. The table has a rate for each output and each
#          input.;
#       sum for product: The last row is that of the sum. The last output is a product.
#
#    A function takes two numbers ``a`` and ``b`` to four: ``a``, ``b``, ``a + b`` and
#    ``a * b``. Write down its Jacobian at ``a = 2``, ``b = 3``. Which of the two functions
#    do you call, and how many pulls or pushes does it take?
#
# .. dropdown:: Answer
#
#    The product ``a * b`` changes at a rate of ``b`` when ``a`` moves, and at a rate of
#    ``a`` when ``b`` moves, so its row is ``[3, 2]``. There are four rows and two columns,
#    so ``jacfwd`` needs two pushes, and ``jacrev`` four pulls.


def four(x):
    a, b = x
    return torch.stack([a, b, a + b, a * b])


jacfwd(four)(torch.tensor([2.0, 3.0]))

# %%
# .. dropdown:: More calls, and the exceptions
#
#    ==================================  ================================================
#    what you want                       the call
#    ==================================  ================================================
#    the table of the second argument    ``jacrev(f, argnums=1)(a, x)``
#    a hundred rows at a time            ``jacrev(f, chunk_size=100)(x)``
#    the table, if you have only ``y``   ``autograd.grad(y, x, V, is_grads_batched=True)``
#    not to count rows and columns       ``pullback.jacobian(f, x)``
#    ==================================  ================================================
#
#    ``jacrev`` takes its pulls side by side, not in a loop. With many rows that is usually
#    much faster than the loop, and takes more memory. With two, as for our house, it need
#    not be faster. A hundred rows at a time take less memory than all of them. ``V`` holds
#    every ``v``, one below the other.
#
#    ``torch.autograd.functional.jacobian`` is the older way to the same table.
#    :ref:`jacobian-at-once` compares all of these calls.
#
#    Where ``f`` has no kink, ``jacrev`` and ``jacfwd`` return the same table, up to
#    rounding, except for some operations. For an LSTM in float32 on the CPU, ``jacfwd`` has
#    no rule, and raises an error. For ``torch.cdist``, ``jacrev`` can return wrong numbers,
#    and raises nothing. :ref:`where-jacrev-and-jacfwd-differ` has the other operations, and
#    says how to notice.

scaled = lambda a, x: a * house(x)
second = jacrev(scaled, argnums=1)(torch.tensor(1.0), x)
in_parts = jacrev(house, chunk_size=1)(x)
(from_y,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
chosen = pullback.jacobian(house, x)
all(torch.equal(way, table) for way in (second, in_parts, from_y, chosen))

# %%
# .. dropdown:: How we checked this page
#
#    All ways have to give the table that we derived by hand. For a function with more
#    outputs than inputs they have to agree with one another. Three turns, and three pushes,
#    one for each dial, have to give the table of the heating.

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
functional = torch.autograd.functional.jacobian
found = [table, torch.stack(rows), from_y, in_parts, chosen, jacfwd(house)(x)]
found += [functional(house, x), functional(house, x, vectorize=True)]
found += [pullback.jacobian(house(leaf), leaf).detach()]
for way in found:
    assert torch.equal(way, J)
added = torch.autograd.grad(list(house(leaf)), leaf)[0]
assert torch.equal(added, torch.ones(2) @ J)


def wide(x):
    return torch.outer(x.sin(), x).flatten()


torch.testing.assert_close(jacrev(wide)(x), jacfwd(wide)(x))
torch.testing.assert_close(pullback.jacobian(wide, x), functional(wide, x))

of_pixels = jacrev(sharpen)(picture)
torch.testing.assert_close(column, of_pixels[:, 400])
_, pull = torch.func.vjp(sharpen, picture)
columns = [torch.func.jvp(heating, (dials,), (u,))[1] for u in torch.eye(3)]
torch.testing.assert_close(torch.stack(columns, dim=1), by_jacfwd)
smallest = by_jacfwd.abs().min()
torch.testing.assert_close(by_turning, by_jacfwd, atol=smallest.item() / 100, rtol=0)
for one, other in ((0, 1), (0, 2), (1, 2)):  # two dials do different things to a room
    apart = (by_jacfwd[:, one] - by_jacfwd[:, other]).abs().min()
    assert apart > 100 * (by_turning - by_jacfwd).abs().max()
by_rows = jacrev(heating, chunk_size=500)(dials)
torch.testing.assert_close(by_jacfwd, by_rows)

by_hand = [[1, 0], [0, 1], [1, 1], [3, 2]]
for way in (jacrev, jacfwd):
    assert way(four)(torch.tensor([2.0, 3.0])).tolist() == by_hand
assert (torch.tensor([100.0, 1.0]) @ J).tolist() == [102, 104, 106]
far_up = jacrev(house)(torch.tensor([60.0, 2.0, 3.0]))
assert far_up[:, 0].tolist() == [1, 120]
assert (torch.tensor([100.0, 1.0]) @ far_up)[0] == 220
moved = jacrev(house)(torch.tensor([4.0, -2.0, 0.5]))
assert torch.equal(moved[0], J[0])

guesses = {  # wrong ones, of which the boxes above say what they are
    "both rows": J,
    "row of the heat": J[0],
    "row of the fuel": J[1],
    "our prices": torch.tensor([10.0, -1.0]) @ J,
    "values": house(x),
    "mean of the rows": J.mean(0),
    "rooms": by_jacfwd.shape[0],
    "entries": by_jacfwd.numel(),
    "one dial": dials[:1].numel(),
    "up and down": 2 * by_jacfwd.shape[1],
    "One pull": torch.allclose(pull(u)[0], of_pixels[:, 400]),
    "One push": torch.allclose(column, of_pixels[:, 400]),
    "A pull for each new pixel": of_pixels.shape[0] == 1,  # the least is one walk
    "A push for each old pixel": of_pixels.shape[1] == 1,
    "a and b swapped": torch.tensor([[1, 0], [0, 1], [1, 1], [2, 3]]),
    "outputs": four(torch.tensor([2.0, 3.0])),
    "sum for product": torch.tensor([[1, 0], [0, 1], [1, 1], [1, 1]]),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** :ref:`pushing-forward` shows how a column comes about, and what else can be
# done with a push. :ref:`jacobian-at-once` has more about the two calls, and
# :ref:`ways-measured` their times.
#
# .. asked: full Jacobian of my model; jacrev or jacfwd; fastest way to get the Jacobian
#    matrix; torch.func.jacrev; torch.autograd.functional.jacobian; Jacobian of network
#    output; get all rows in one call; all derivatives at once; whole matrix of
#    derivatives; built-in function for the Jacobian; jacobian of net(x);
#    Jacobian of a function with 3 inputs and 2 outputs
# .. words: numpy-like function, complete, in a single line, tf.GradientTape.jacobian,
#    jax.jacobian, loop is slow, robot arm, kinematics, model sensitivity, all partials
