r"""
.. _the-whole-jacobian:

The whole Jacobian in one call
==============================

What does each dial of a heating system do to each of 5000 rooms? What does each pixel of a
picture do to each of ten scores? Then you want the whole :term:`Jacobian`, with a row
for each output and a column for each input. Call ``jacrev(f)(x)`` if ``f`` has fewer
outputs than inputs, and ``jacfwd(f)(x)`` if it has fewer inputs than outputs. Both are in
``torch.func``. The choice matters: for some functions one of them does a thousand times as
much work as the other. This page shows where that comes from.
"""

# %%
# You do not need the whole table for training. The loss is a single number, so its table
# has a single row, and that is the gradient. With several outputs, ``backward`` adds up
# their rows, each times its number in ``v``, and in the sum you no longer see what an input
# does to a single output.
#
# Our house has three inputs, the settings of its stoves. It has two outputs, heat, the sum
# of the settings, and fuel, the sum of their squares. So we call ``jacrev``:

import torch
from torch.func import jacfwd, jacrev


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
table = jacrev(house)(x)
table

# %%
# ``jacrev(house)`` is a new function. It takes the arguments of ``house``, in their order,
# and returns the Jacobian. ``(x)`` calls it at our settings.
#
# .. dropdown:: And ``torch.autograd.functional.jacobian``?
#
#    It is the older way to the same table, and the pages before this one have called it. A
#    function like ``jacrev(house)`` can be put inside another function of ``torch.func``,
#    and for the samples of a batch we need that (:ref:`one-jacobian-per-sample`). So we
#    call ``jacrev`` and ``jacfwd`` from here on.
#
# A pull for each row
# -------------------
#
# How does ``jacrev`` compute the table? ``backward`` carries a ``v``, with a price for each
# output, back through the whole function to the inputs, and brings ``v @ J``, the
# :term:`vector-Jacobian product`. We call one such walk back a **pull**. With a 1 for one
# output in ``v``, and 0 for the others, a pull brings one row. Can a single pull bring both
# rows? ``torch.autograd.grad``, which pulls as well, takes not only one output, but also a
# *list* of outputs.
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

leaf = x.clone().requires_grad_()  # a copy of x that starts a graph: a leaf
heat, fuel = house(leaf)
torch.autograd.grad([heat, fuel], leaf)[0]

# %%
# It is a single row, and neither that of the heat nor that of the fuel. 3, 5 and 7 are the
# *sums* of the two rows. A pull adds up everything that arrives at the stoves. It does not
# matter how many outputs it started from. And without a ``v``, each output in the list
# counts 1.
#
# So two separate rows take two pulls. From here on we count pulls, because they are what a
# Jacobian costs. For most functions, a pull takes a small multiple of the work of running
# ``f`` once, and :ref:`never-built` shows why. A loop with a pull for each row of
# ``torch.eye(2)`` builds the table:

y = house(leaf)
rows = []
for v in torch.eye(2):
    rows.append(torch.autograd.grad(y, leaf, v, retain_graph=True)[0])
print("pulls:", len(rows), " same table:", torch.equal(torch.stack(rows), table))

# %%
# ``jacrev`` takes the same two pulls, but side by side. With many rows that is usually much
# faster than the loop, and takes more memory. With two, as here, it need not be. The *rev*
# in its name stands for :term:`reverse mode`, the direction from the outputs back to the
# inputs.
#
# Three dials and five thousand rooms
# -----------------------------------
#
# .. predict::
#    :label: turns of a dial
#    :for: the number of turns
#    :wrong: rooms: A turn of one dial shows at once how all 5000 rooms react.;
#       entries: A turn of one dial brings 5000 of the entries at once.;
#       one dial: One turn moves one dial, and brings its column. There are three dials.;
#       up and down: One turn of each dial is enough, if it is small, but large beside
#          rounding.
#
#    A heating system has 3 dials, and its function takes them to the temperatures of 5000
#    rooms. ``jacrev`` takes 5000 pulls for the table, one for each room. Now forget the
#    program. You stand in front of the dials, with a thermometer in each room, and want to
#    find all 15,000 entries. How few small turns of a dial would do?

pipes = torch.linspace(0, 1, 15_000).reshape(5000, 3)  # any numbers will do
heating = lambda dials: torch.tanh(pipes @ dials)
dials, small = torch.tensor([1.0, 2.0, 3.0]), 0.01
before, columns = heating(dials), []
for turn in small * torch.eye(3):
    columns.append((heating(dials + turn) - before) / small)
by_turning, by_jacfwd = torch.stack(columns, dim=1), jacfwd(heating)(dials)
print("turns of a dial:", len(columns))
print("as jacfwd says: ", torch.allclose(by_turning, by_jacfwd, atol=0.01))

# %%
# Three are enough. Turn one dial a little, and watch how fast each of the 5000 rooms gets
# warmer. These rates are a whole column of the table, and there are only three columns.
#
# ``jacfwd`` works in this way, but with exact rates in the place of small turns. It sends
# a change of one dial through the function, from the dials to the rooms. This direction is
# called :term:`forward mode`. One such change ``u`` of the inputs that goes forward
# through the whole function is a **push**, and what arrives is ``J @ u``, the
# :term:`Jacobian-vector product`. The next page does one by hand.
#
# The picture shows a smaller system, with 3 dials and 12 rooms. In *reverse*, a stripe of
# the table is a row, and each takes a pull. In *forward*, it is a column, and takes a push:

import pullback

pullback.draw.cost((12, 3))

# %%
# Which call?
# -----------
#
# ``jacrev`` builds the table from a pull for each row, and ``jacfwd`` from a push for each
# column. So count the rows and the columns. If there are fewer rows, call ``jacrev``. If
# there are fewer columns, call ``jacfwd``. Where ``f`` has no kink, both return the same
# table, up to rounding, except for some operations, and the last box above "Remember" is
# about those.
#
# For a network that takes a picture of 784 pixels to 10 scores, this is ``jacrev``, with
# 10 pulls instead of 784 pushes. For the heating it is ``jacfwd``, with 3 pushes instead
# of 5000 pulls. If the two numbers are close, as they are for our house, it makes little
# difference.
#
# Below you can count for yourself. The button *one-hot* puts a single 1 into ``v``, and the
# next press moves it one place on. How many presses does it take until every row of the
# table has stood in the result? Then choose *J u*. How many does it take with ``u``, which
# is pushed forward, until every column has?

stoves = ["stove 1", "stove 2", "stove 3"]
pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), rows=["heat", "fuel"], columns=stoves)

# %%
# .. dropdown:: Answer
#
#    Two with ``v``, because each pull brings a row. Three with ``u``, because each push
#    brings a column.
#
# .. dropdown:: Four more calls
#
#    ==================================  ================================================
#    what you want                       the call
#    ==================================  ================================================
#    the table of the second argument    ``jacrev(f, argnums=1)(a, x)``
#    a hundred rows at a time            ``jacrev(f, chunk_size=100)(x)``
#    the table from ``y``, without f     ``autograd.grad(y, x, V, is_grads_batched=True)``
#    not to count rows and columns       ``pullback.jacobian(f, x)``
#    ==================================  ================================================
#
#    A hundred rows at a time take less memory than all of them. ``V`` holds every ``v``,
#    one below the other.

scaled = lambda a, x: a * house(x)
second = jacrev(scaled, argnums=1)(torch.tensor(1.0), x)
in_parts = jacrev(house, chunk_size=1)(x)
(from_y,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
chosen = pullback.jacobian(house, x)
all(torch.equal(way, table) for way in (second, in_parts, from_y, chosen))

# %%
# .. dropdown:: Where one of the two raises an error or is wrong
#
#    For an LSTM in float32 on the CPU, ``jacfwd`` has no rule, and raises an error. For
#    ``torch.cdist``, ``jacrev`` can return wrong numbers, and raises nothing.
#    :ref:`where-jacrev-and-jacfwd-differ` has the other operations.
#
# .. admonition:: Remember
#
#    - Fewer outputs than inputs: ``jacrev(f)(x)``, one pull for each row. Fewer inputs:
#      ``jacfwd(f)(x)``, one push for each column.
#    - You need the whole table if you use each entry by itself. If you only add up its
#      rows, each with one weight, one pull does it.
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

network = torch.nn.Sequential(torch.nn.Linear(784, 10), torch.nn.Softmax(dim=0))
assert jacrev(network)(torch.zeros(784)).shape == (10, 784)
columns = [torch.func.jvp(heating, (dials,), (u,))[1] for u in torch.eye(3)]
torch.testing.assert_close(torch.stack(columns, dim=1), by_jacfwd)
torch.testing.assert_close(by_turning, by_jacfwd, atol=0.01, rtol=0)
by_rows = jacrev(heating, chunk_size=500)(dials)
torch.testing.assert_close(by_jacfwd, by_rows)

by_hand = [[1, 0], [0, 1], [1, 1], [3, 2]]
for way in (jacrev, jacfwd):
    assert way(four)(torch.tensor([2.0, 3.0])).tolist() == by_hand
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
