r"""
.. _the-whole-jacobian:

The whole Jacobian in one call
==============================

With a ``v`` we get one weighted sum of the rows of a table. When each entry is wanted by
itself, we need the whole :term:`Jacobian`. Two functions return it in one call,
``torch.func.jacrev`` and ``torch.func.jacfwd``, and both return the same table. Why are
there two of them? Because one of them may go through your function a thousand times as
often as the other. This page shows how each builds the table, and when you call which. At
the end we use a table to find out how far off heat and fuel are if the knobs are worn.
"""

# %%
# Here is one of the two calls for our house, with its two outputs and three inputs:

import torch
from torch.func import jacfwd, jacrev


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
table = jacrev(house)(x)
table

# %%
# ``jacrev(house)`` is a new function, which takes what ``house`` takes and returns the
# Jacobian. The second pair of brackets calls it at our settings. Until now we have called
# ``torch.autograd.functional.jacobian``, the older way to the same table. From here on we
# call ``jacrev``, because a function can be put inside other functions, as we shall do for
# the samples of a batch (:ref:`one-jacobian-per-sample`).
#
# Row by row
# ----------
#
# How does ``jacrev`` compute the table? One row is easy: it takes a ``v`` with a single 1.
# Can we get both rows at once? ``torch.autograd.grad`` takes not only one output, but also
# a *list* of outputs.
#
# .. predict::
#    :for: what it returns
#    :wrong: both rows: These are the two rows apart. A walk back adds up whatever arrives
#          at the stoves.;
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
# *sums* of the two rows. A walk back adds up everything that arrives at the stoves, however
# many outputs it started from, and without a ``v`` each output in the list counts 1. So two
# separate rows take two walks. These walks are what a Jacobian costs, and from here on we
# count them. **A pull is one** ``v`` **that goes back through the whole function**, from
# the outputs to the inputs. (Mathematicians say :term:`pullback`.) A loop with a pull for
# each row of ``torch.eye(2)`` builds the table, from a single run of the house:

y = house(leaf)
rows = [torch.autograd.grad(y, leaf, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.equal(torch.stack(rows), table)

# %%
# ``jacrev`` takes the same two pulls, side by side. There are still two of them, because
# each ``v`` has numbers of its own that go back through the house. But each call of an
# operation costs a little time before any number is computed. The loop pays that for every
# row, and ``jacrev`` only once for nearly every operation. With hundreds of rows this is
# usually much faster (:ref:`ways-measured`). It also takes more memory, because the
# intermediate numbers of all rows are there together. The *rev* in the name stands for
# :term:`reverse mode`, the direction from the outputs back to the inputs.
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
#       up and down: One turn of each dial is enough, if it is small.
#
#    A heating system has 3 dials, and its function takes them to the temperatures of 5000
#    rooms. ``jacrev`` takes 5000 pulls for the table, one for each room. Now forget the
#    program. You stand in front of the dials, with a thermometer in each room, and want to
#    find all 15,000 entries. How few small turns of a dial would do?

pipes = torch.linspace(0, 1, 15_000).reshape(5000, 3)  # any numbers will do
dials = torch.tensor([1.0, 2.0, 3.0])
heating = jacfwd(lambda dials: torch.tanh(pipes @ dials))(dials)
print("shape:", heating.shape)
print("turns of a dial:", heating.shape[1])

# %%
# Three are enough. Turn one dial a little, and watch how fast each of the 5000 rooms gets
# warmer. These rates are a whole column of the table, as you know from
# :ref:`reading-a-jacobian`, and there are only three columns. ``jacfwd``, the sister of
# ``jacrev``, works in this way. It sends a change of one dial through the function, from
# the dials to the rooms, and this direction is called :term:`forward mode`. **A push is one
# change of the inputs that goes forward through the whole function.** The next page does
# one by hand (:ref:`pushing-forward`).
#
# For a network that takes a picture of 784 pixels to 10 scores it is the other way round.
# There ``jacrev`` takes 10 pulls, and ``jacfwd`` takes 784 pushes. Here are the two ways
# for our house, with its two rows and three columns. (The picture calls a pull or a push a
# *product*.)

import pullback

print(torch.equal(jacfwd(house)(x), table))
pullback.draw.cost(table)

# %%
# Both ways give the same table. For two outputs and three inputs their work is nearly the
# same, but it is the number of pulls or of pushes that decides, and hence the rule:
# **call** ``jacrev`` **if your function has fewer outputs than inputs, and** ``jacfwd``
# **if it has fewer inputs.** If the two numbers are close and the time matters, measure
# both, because a push may cost more or less than a pull.
#
# Below is the table once more. Suppose that three more stoves are put into the house. How
# many pulls does ``jacrev`` take then, and how many pushes does ``jacfwd`` take?

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]))

# %%
# .. dropdown:: Answer
#
#    ``jacrev`` still takes two pulls, one for each row, only that the rows are longer.
#    ``jacfwd`` takes six pushes, one for each column.
#
# There are three more calls to know:
#
# * If all rows at once take too much memory, ``jacrev(f, chunk_size=100)(x)`` takes a
#   hundred of them at a time.
# * If you have ``y``, but not the function, call ``autograd.grad`` with all the ``v`` and
#   ``is_grads_batched=True``.
# * If you do not want to choose, ``pullback.jacobian(f, x)`` counts rows and columns for
#   you.

in_parts = jacrev(house, chunk_size=1)(x)
(from_y,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
chosen = pullback.jacobian(house, x)
all(torch.equal(way, table) for way in (in_parts, from_y, chosen))

# %%
# How far off?
# ------------
#
# Now to a question for the whole table. The knobs of our three stoves are worn. Each
# setting may be off by about 0.1, as often up as down. How far off are heat and fuel then?
# We let chance turn the knobs, ten thousand times.
#
# .. predict::
#    :item: 0
#    :for: the typical error of the heat
#    :wrong: added: This is the error when all three are off to the same side. Often one is
#          too high while another is too low.;
#       one knob: This is the error of one knob. The heat is the sum of three.;
#       mean square: This is the mean of the square. The typical error is its root.;
#       plain average: On average, up and down cancel. The typical error says how far off it
#          is, to either side.
#
#    The row of the heat is ``[1, 1, 1]``. How far off is the heat typically?

torch.manual_seed(0)  # any errors will do; the same ones in every run
trials = torch.stack([house(x + 0.1 * torch.randn(3)) for _ in range(10_000)])
trials.std(0)

# %%
# It is not 0.3, but only 0.17. One stove is often too high while another is too low, and
# then their errors partly cancel. By how much? The plain average does not tell, since up
# and down leave 0. So we average the *square* of the error, and take the root at the end.
#
# Take two errors, each up or down as if by the toss of a coin of its own: :math:`a` or
# :math:`-a`, and :math:`b` or :math:`-b`. In half of the cases the signs are equal, and the
# square of the sum is :math:`a^2+2ab+b^2`. In the other half it is :math:`a^2-2ab+b^2`. On
# average :math:`2ab` cancels, and :math:`a^2+b^2` is left. **The squares of the errors add
# up**, and with three errors they do as well. (All that this needs is that each error is 0
# on average, whatever the other ones are.) For the heat that makes
# :math:`0.01+0.01+0.01`, and the root is 0.17. For the fuel, with its row ``[2, 4, 6]``, it
# makes :math:`0.04+0.16+0.36=0.56`, and the root is 0.75. Such a typical error is called
# the *standard deviation*. Here it is for both outputs, from the table:

errors = 0.1 * table  # what each stove does to each output
(errors**2).sum(1).sqrt()

# %%
# The trials ran the house ten thousand times, where the table took two pulls. It agrees
# with them because the errors are small, and the table describes the house near our
# settings. A pull with some ``v`` of ours would not have been enough, because it adds up
# the entries as they are, and here they have to be squared first.
#
# .. admonition:: Remember
#
#    - You need the whole table if you use each entry by itself. If you only add them up
#      with weights, one pull does it.
#    - Fewer outputs than inputs: ``jacrev(f)(x)``, one pull for each row. Fewer inputs:
#      ``jacfwd(f)(x)``, one push for each column, if PyTorch has a rule to go forward
#      through all that ``f`` calls.
#    - If you have only ``y``:
#      ``autograd.grad(y, x, torch.eye(n), is_grads_batched=True)``, for a ``y`` with
#      ``n`` numbers in one dimension.
#    - ``autograd.grad`` with a list of outputs returns the *sum* of their rows.
#    - A few operations have a wrong rule in one of the two directions, or two different
#      rules. If much depends on a table, compare it once with that of
#      ``functional.jacobian`` (:ref:`where-jacrev-and-jacfwd-differ`).
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
#    outputs than inputs they have to agree with one another. The typical errors have to be
#    those of the trials and of all eight tosses of three coins, and three pushes, one for
#    each dial, have to give the table of the heating.

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
assert heating.shape == (5000, 3)
of_dials = lambda dials: torch.tanh(pipes @ dials)
columns = [torch.func.jvp(of_dials, (dials,), (u,))[1] for u in torch.eye(3)]
torch.testing.assert_close(torch.stack(columns, dim=1), heating)
torch.testing.assert_close((errors**2).sum(1).sqrt(), trials.std(0), rtol=0.03, atol=0)
tossed = torch.cartesian_prod(*[torch.tensor([-0.1, 0.1])] * 3)  # all eight cases
of_the_table = ((tossed @ table.T) ** 2).mean(0)
torch.testing.assert_close(of_the_table, (errors**2).sum(1))
torch.testing.assert_close(of_the_table, torch.tensor([0.03, 0.56]))
by_rows = jacrev(lambda dials: torch.tanh(pipes @ dials), chunk_size=500)(dials)
torch.testing.assert_close(heating, by_rows)

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
    "rooms": heating.shape[0],
    "entries": heating.numel(),
    "one dial": dials[:1].numel(),
    "up and down": 2 * heating.shape[1],
    "added": errors[0].sum(),
    "one knob": errors[0, 0],
    "mean square": (errors[0] ** 2).sum(),
    "plain average": f"{(tossed @ table.T).mean(0)[0].abs():.4f}",
    "a and b swapped": torch.tensor([[1, 0], [0, 1], [1, 1], [2, 3]]),
    "outputs": four(torch.tensor([2.0, 3.0])),
    "sum for product": torch.tensor([[1, 0], [0, 1], [1, 1], [1, 1]]),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** :ref:`pushing-forward` shows how a column comes about, and what else can be done
# with a push. (:ref:`jacobian-at-once` has the exceptions, such as a BatchNorm in training,
# for which ``torch.func`` raises an error.)
#
# .. asked: full Jacobian of my model; jacrev or jacfwd; fastest way to get the Jacobian
#    matrix; torch.func.jacrev; torch.autograd.functional.jacobian; Jacobian of network
#    output; get all rows in one call; all derivatives at once; whole matrix of
#    derivatives; built-in function for the Jacobian; jacobian of net(x);
#    Jacobian of a function with 3 inputs and 2 outputs
# .. words: numpy-like function, complete, in a single line, tf.GradientTape.jacobian,
#    jax.jacobian, loop is slow, robot arm, kinematics, model sensitivity, all partials
