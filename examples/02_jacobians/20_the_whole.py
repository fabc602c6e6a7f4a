r"""
.. _the-whole-jacobian:

The whole Jacobian in one call
==============================

The knobs of our three stoves are worn. Each setting may be off by about 0.1, up or down.
How far off are heat and fuel then? A product with a ``v`` adds up entries of the table. For
this question we need each entry by itself, so we want the whole :term:`Jacobian`. Two
functions return it in one call, ``torch.func.jacrev`` and ``torch.func.jacfwd``. This page
shows how each of them builds the table, and when you call which.
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
# Jacobian. The second pair of brackets calls it at our settings.
#
# Until now we have called ``torch.autograd.functional.jacobian``. It returns the same table
# and is the older of the two. Unless you ask for something else, it takes one walk back
# for each row, one after the other. ``jacrev`` takes all of these walks at the same time,
# and since it returns a function, it can be put inside other functions, as we shall do
# for the samples of a batch (:ref:`one-jacobian-per-sample`). So from here on we call
# ``jacrev``.
#
# How far off?
# ------------
#
# The row of the fuel is ``[2, 4, 6]``. If each setting is off by 0.1, the first stove puts
# the fuel off by about 0.2, the second by 0.4 and the third by 0.6. But one stove may be
# too high while another is too low, so the three errors rarely add up to 1.2.
#
# How large is such a sum? Take two errors, each of them up or down as if by the toss of a
# coin of its own: :math:`a` or :math:`-a`, and :math:`b` or :math:`-b`. There are four
# cases. If the signs are equal, which they are in two of the cases, the square of the sum
# is :math:`a^2+2ab+b^2`. In the other two it is :math:`a^2-2ab+b^2`. On average :math:`2ab`
# cancels, and what is left is :math:`a^2+b^2`. **The squares of the errors add up.** With a
# third error :math:`c`, the square of the sum also contains :math:`2ac` and :math:`2bc`.
# They cancel in the same way, since any two of the coins fall alike in half of the cases.
# For the fuel that makes :math:`0.04+0.16+0.36=0.56`. The root of this, about 0.75, is its
# typical error, called its *standard deviation*. (An error need not be the toss of a coin.
# All we have used is that :math:`2ab`, :math:`2ac` and :math:`2bc` are 0 on average. They
# also are when the errors are drawn independently from ``torch.randn``, as below.)
#
# .. predict::
#    :label: from the table
#    :item: 0
#    :for: the typical error of the heat
#
#    The row of the heat is ``[1, 1, 1]``. How far off is the heat typically?

errors = 0.1 * table  # what each stove does to each output
print("from the table:", (errors**2).sum(1).sqrt())

torch.manual_seed(0)  # any errors will do; the same ones in every run
trials = torch.stack([house(x + 0.1 * torch.randn(3)) for _ in range(10_000)])
print("in the trials: ", trials.std(0))

# %%
# It is the root of :math:`0.01+0.01+0.01`, or 0.17. The second line comes from ten thousand
# trials, in which each knob is off at random by about 0.1. The two lines agree because the
# errors are small: the table describes the house near our settings. The trials ran the
# house ten thousand times, where the table needs only a few walks. And a product with one
# ``v`` would not have been enough, because it adds up the entries as they are, and here
# they have to be squared first.
#
# This is one reason to want the whole table. You also need it if you want to show how every
# prediction of a network reacts to every input, and for the step that hits two targets at
# once (:ref:`hitting-targets`).
#
# Row by row
# ----------
#
# How does ``jacrev`` compute the table? One walk back with one ``v`` computes ``v @ J``,
# and a ``v`` with a single 1 gives one row. So a table with two rows takes two such
# products. They are what a Jacobian costs, and from here on we count them. **One product is
# one** ``v`` **that goes back through the whole function.** The rows of ``torch.eye(2)``
# are the two ``v``, and a loop builds the table from a single run of the house:

leaf = x.clone().requires_grad_()  # a copy of x; such a start of a graph is called a leaf
y = house(leaf)
rows = [torch.autograd.grad(y, leaf, v, retain_graph=True)[0] for v in torch.eye(2)]
torch.equal(torch.stack(rows), table)

# %%
# ``jacrev`` computes the same two products at the same time, side by side. We still count
# them as two, because each ``v`` has numbers of its own that go back through the house, and
# that is as much work as before. What is saved is the beginning of each operation. Whenever
# one is called, some time goes by before PyTorch computes the first number, and side by
# side nearly every operation is called once for all rows, instead of once for each. When
# there are hundreds of rows, this is usually much faster than a loop in Python
# (:ref:`ways-measured`). It also takes more memory, because the intermediate numbers of all
# rows are there together. (If you have ``y`` but not the function,
# ``is_grads_batched=True`` tells ``autograd.grad`` to take all the ``v`` at once, as you
# will see in the fold further down.) The *rev* in its name stands for :term:`reverse mode`,
# the name for a walk from the outputs back to the inputs.
#
# Three dials and five thousand rooms
# -----------------------------------
#
# .. predict::
#    :label: products
#    :for: the number of products
#
#    A heating system has 3 dials, and the function takes them to the temperatures of 5000
#    rooms. ``jacrev`` takes 5000 products for the table, one for each room. Imagine that
#    you stand in front of the dials and want to find all 15,000 entries. How few products
#    would do?

pipes = torch.linspace(0, 1, 15_000).reshape(5000, 3)  # any numbers will do
dials = torch.tensor([1.0, 2.0, 3.0])
heating = jacfwd(lambda dials: torch.tanh(pipes @ dials))(dials)
print("shape:", heating.shape)
print("products:", heating.shape[1])

# %%
# Three are enough. Turn one dial a little, and watch how fast each of the 5000 rooms gets
# warmer. These rates are a whole column of the table, as you know from
# :ref:`reading-a-jacobian`, and there are only three columns. ``jacfwd``, the sister of
# ``jacrev``, works in this way. It goes *forward* through the function, from the dials to
# the rooms, and carries along how fast every number changes on the way. This is
# called :term:`forward mode`. Each dial goes through the whole function once, and this is a
# product, too: the table times a column of numbers ``u``, which has a 1 for the dial that
# is turned and 0 for the others. So ``J @ u`` is a column of the table, and we count it as
# one. The next page does it by hand (:ref:`pushing-forward`).
#
# For a network that takes a picture of 784 pixels to 10 scores it is the other way round.
# There ``jacrev`` takes 10 products, and ``jacfwd`` takes 784. Here are the two ways for
# our house, with its two rows and three columns:

import pullback

print(torch.equal(jacfwd(house)(x), table))
pullback.draw.cost(table)

# %%
# Both ways give the same table, and ``jacrev`` needs one product less. So the rule is:
# **call** ``jacrev`` **if your function has fewer outputs than inputs, and** ``jacfwd``
# **if it has fewer inputs.** If the two numbers are close and the time matters, measure
# both, because a product of one kind may cost more than one of the other.
#
# When you need something else
# ----------------------------
#
# The rule covers most of what you will need. For the rest, open these two when you get
# there.
#
# .. dropdown:: Too little memory, only ``y`` at hand, or an error from ``torch.func``
#
#    .. list-table::
#       :header-rows: 1
#       :widths: 45 55
#
#       * - your situation
#         - what you call
#       * - All rows at once take too much memory.
#         - ``jacrev(f, chunk_size=100)(x)`` takes a hundred rows at a time.
#       * - You have ``y``, but not the function.
#         - ``autograd.grad`` with all the ``v`` and ``is_grads_batched=True``
#       * - ``torch.func`` raises an error for your function. It does so for BatchNorm in
#           training, which updates its statistics on the way.
#         - The loop from above, or ``autograd.functional.jacobian(f, x, strict=True)``,
#           which is that loop
#       * - You do not want to choose.
#         - ``pullback.jacobian(f, x)`` counts rows and columns for you.
#
#    Without ``strict=True``, ``functional.jacobian`` returns a table of zeros if the
#    function does not depend on its argument, for example because it goes through NumPy.
#    The loop raises an error there, unless one of the outputs still depends on it. Then
#    what goes through NumPy has rows of zeros in both. Here are all four on our house:

in_parts = jacrev(house, chunk_size=1)(x)
y = house(leaf)
(from_y,) = torch.autograd.grad(y, leaf, torch.eye(2), is_grads_batched=True)
by_loop = torch.autograd.functional.jacobian(house, x, strict=True)
chosen = pullback.jacobian(house, x)
all(torch.equal(way, table) for way in (in_parts, from_y, by_loop, chosen))

# %%
# .. dropdown:: Can ``jacrev`` or ``jacfwd`` be wrong?
#
#    For a few operations, and without a message. In every release that we tried, up to
#    2.15, ``jacrev`` of ``torch.cdist`` returns wrong numbers, because PyTorch makes a
#    mistake when it takes the products of this operation side by side. One at a time they
#    are right (:ref:`jacrev-of-cdist`). And ``jacfwd`` of ``scatter_reduce`` with
#    ``"prod"`` returns zeros, because its rule for the way forward is wrong.
#
#    Sometimes the two differ on purpose. The walk back gives no gradient to the
#    ``padding_idx`` of an embedding, and treats the matrix of ``linalg.cholesky`` as
#    symmetric. The way forward does neither. If much depends on a table, compare it once
#    with that of ``functional.jacobian``.
#
# The loop from above calls ``autograd.grad`` once for each row. It is tempting to ask for
# both rows in one call, since ``autograd.grad`` also takes a list of outputs. But
# ``autograd.grad([y[0], y[1]], leaf)`` does not return two rows. It returns one, the *sum*
# of the two.
#
# Below is the table once more. Suppose that three more stoves are put into the house. How
# many products does ``jacrev`` take then, and how many does ``jacfwd`` take?

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]))

# %%
# .. dropdown:: Answer
#
#    ``jacrev`` still takes two, one for each row, only that the rows are longer.
#    ``jacfwd`` takes six, one for each column.
#
# .. admonition:: Remember
#
#    - You need the whole table if you use each entry by itself. If you only add them up
#      with weights, one product does it.
#    - Fewer outputs than inputs: ``jacrev(f)(x)``, one product for each row. Fewer
#      inputs: ``jacfwd(f)(x)``, one product for each column, if PyTorch has a rule to go
#      forward through all that ``f`` calls.
#    - If you have only ``y``:
#      ``autograd.grad(y, x, torch.eye(n), is_grads_batched=True)``, for a ``y`` with
#      ``n`` numbers in one dimension.
#    - ``autograd.grad`` with a list of outputs returns the *sum* of their rows.
#
# .. predict:: Try it
#    :for: the table, as a list of four rows
#
#    A function takes two numbers ``a`` and ``b`` to four: ``a``, ``b``, ``a + b`` and
#    ``a * b``. Write down its Jacobian at ``a = 2``, ``b = 3``. Which of the two functions
#    do you call, and how many products does it take?
#
# .. dropdown:: Answer
#
#    The product ``a * b`` changes at a rate of ``b`` when ``a`` moves, and at a rate of
#    ``a`` when ``b`` moves, so its row is ``[3, 2]``. There are four rows and two columns,
#    so ``jacfwd`` needs two products, and ``jacrev`` four.


def four(x):
    a, b = x
    return torch.stack([a, b, a + b, a * b])


jacfwd(four)(torch.tensor([2.0, 3.0]))

# %%
# .. dropdown:: How we checked this page
#
#    All ways have to give the table that we derived by hand. For a function with more
#    outputs than inputs they have to agree with one another. The typical errors have to be
#    those of the trials and of all eight tosses of three coins, and three products, one for
#    each dial, have to give the table of the heating. Where we say that the two ways
#    differ, they have to.

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
functional = torch.autograd.functional.jacobian
found = [table, torch.stack(rows), from_y, in_parts, chosen, jacfwd(house)(x)]
found += [by_loop, functional(house, x, vectorize=True)]
found += [pullback.jacobian(house(leaf), leaf).detach()]
for way in found:
    assert torch.equal(way, J)
added = torch.autograd.grad(list(house(leaf)), leaf)[0]
assert torch.equal(added, torch.ones(2) @ J)


def wide(x):
    return torch.outer(x.sin(), x).flatten()


torch.testing.assert_close(jacrev(wide)(x), jacfwd(wide)(x))
torch.testing.assert_close(pullback.jacobian(wide, x), functional(wide, x))

norm = torch.nn.BatchNorm1d(3)
batch = torch.eye(3)
try:
    jacrev(norm)(batch)
except RuntimeError:
    refused = True
assert refused
assert functional(norm, batch).shape == (3, 3, 3, 3)  # the loop takes it

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

half_cut = lambda x: torch.stack([x.sum(), torch.tensor(x.detach().numpy().prod())])
assert functional(half_cut, x, strict=True).tolist() == [[1, 1, 1], [0, 0, 0]]
whole_cut = lambda x: torch.from_numpy(x.detach().numpy() ** 2)
assert not functional(whole_cut, x).any()
try:
    functional(whole_cut, x, strict=True)
except RuntimeError:
    refused = "in the loop"
assert refused == "in the loop"

groups = torch.tensor([0, 0, 1])
in_groups = lambda x: torch.ones(2).scatter_reduce(0, groups, x, "prod")  # x0 x1, and x2
assert jacrev(in_groups)(x).tolist() == [[2, 1, 0], [0, 0, 1]]
assert not jacfwd(in_groups)(x).any()
words = torch.tensor([0, 2])
padded = lambda w: torch.nn.functional.embedding(words, w, padding_idx=2)
symmetric = torch.eye(2) + 0.5
for f, at in ((padded, torch.ones(3, 2)), (torch.linalg.cholesky, symmetric)):
    assert torch.equal(jacrev(f)(at), functional(f, at))
    assert not torch.allclose(jacfwd(f)(at), jacrev(f)(at))

by_hand = [[1, 0], [0, 1], [1, 1], [3, 2]]
for way in (jacrev, jacfwd):
    assert way(four)(torch.tensor([2.0, 3.0])).tolist() == by_hand
moved = jacrev(house)(torch.tensor([4.0, -2.0, 0.5]))
assert torch.equal(moved[0], J[0])

# %%
# **Next:** :ref:`pushing-forward` shows how a column comes about, and what else can be done
# with a product that goes forward.
#
# .. asked: full Jacobian of my model; jacrev or jacfwd; fastest way to get the Jacobian
#    matrix; torch.func.jacrev; torch.autograd.functional.jacobian; Jacobian of network
#    output; get all rows in one call; all derivatives at once; whole matrix of
#    derivatives; built-in function for the Jacobian; jacobian of net(x);
#    Jacobian of a function with 3 inputs and 2 outputs
# .. words: numpy-like function, complete, in a single line, tf.GradientTape.jacobian,
#    jax.jacobian, loop is slow, robot arm, kinematics, model sensitivity, all partials
