r"""
.. _how-far-off:

How far off are the outputs?
============================

The knobs of our three stoves are worn. Each setting may be off by about 0.1, too high as
often as too low, and we do not know which. How far off are heat and fuel then? Whoever
computes with measured numbers has this question: how far off is the area of a room whose
length and width were measured? This is called *error propagation*, and the
:term:`Jacobian`, our table of rates, has the answer.
"""

# %%
# The heat is the sum of the three settings, and the fuel is the sum of their squares. Here
# are the house and its table:

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
table = torch.func.jacrev(house)(x)
table

# %%
# A stove that is 0.1 too high makes the heat 0.1 too high, because each rate of the heat is
# 1. If all three stoves are 0.1 too high, the heat is 0.3 too high. But they need not all
# be off in the same direction. Let us try it. We let chance turn the knobs, ten thousand
# times, each by 0.1, up or down as if by the toss of a coin. For the *typical* error we
# square each error of an output, take the mean of the squares, and take the root. The
# plain mean would not do, because errors up and down cancel in it.
#
# .. predict::
#    :item: 0
#    :for: the typical error of the heat
#    :wrong: added: This is the error when all three are off in the same direction. Often
#          one is too high while another is too low.;
#       one knob: This is the error of one knob. The heat is the sum of three.;
#       mean square: This is the mean of the squares. The typical error is its root.;
#       plain average: On average, up and down cancel. The typical error says how far off
#          the heat is, up or down.
#
#    All three stoves are off by 0.1, and each rate of the heat is 1. How far off is the
#    heat typically?

torch.manual_seed(0)  # any tosses will do; the same ones in every run
tosses = 0.1 * (2 * torch.randint(2, (10_000, 3)) - 1)  # each −0.1 or 0.1
off = torch.stack([house(x + toss) for toss in tosses]) - house(x)
(off**2).mean(0).sqrt()

# %%
# It is not 0.3, but only 0.17. Often one stove is too high while another is too low, and
# then their errors partly cancel.
#
# Eight patterns of signs
# -----------------------
#
# In the picture, ``u`` holds what the three knobs are off by, and beside the table you see
# what heat and fuel are off by. It begins with all three too high. Each knob can be too
# high or too low, which makes eight patterns. In how many of them is the heat off by as
# much as 0.3, up or down?

import pullback

stoves = ["stove 1", "stove 2", "stove 3"]
pullback.live(house, x, u=torch.full((3,), 0.1), rows=["heat", "fuel"], columns=stoves)

# %%
# .. dropdown:: Answer
#
#    In two, all up and all down. In the other six, one stove works against the other two,
#    and the heat is off by only 0.1.
#
# The squares add up
# ------------------
#
# We can find the 0.17 without a trial. Take two errors of the sizes :math:`a` and
# :math:`b`, each up or down by the toss of its own coin. In half of the cases both go in
# the same direction, and together they are off by :math:`a+b`. The square of this is
# :math:`a^2+2ab+b^2`. In the other half they go in opposite directions, and together they
# are off by :math:`a-b`, with the square :math:`a^2-2ab+b^2`. In the mean of both,
# :math:`2ab` cancels, and :math:`a^2+b^2` is left. **The squares of the errors add up.** A
# third error goes with the sum of the other two in half of the cases, and against it in the
# other half. So its square is added, too.
#
# What a stove does to an output is its rate times the 0.1. For the heat these are three
# errors of 0.1. Their squares add up to :math:`0.01+0.01+0.01`, and the root is 0.17. For
# the fuel, with the rates 2, 4 and 6, it is :math:`0.04+0.16+0.36=0.56`, and the root is
# 0.75. In code it is one line for all outputs:

errors = 0.1 * table  # what each stove does to each output
typical = (errors**2).sum(1).sqrt()
typical

# %%
# These are the errors of the trial, nearly. The trial ran the house ten thousand times, and
# the table took two pulls. They agree because the errors are small, so that the table
# describes the house well.
#
# Why does no single pull, ``v @ J``, or push, ``J @ u``, do this for both outputs? Both add
# up the entries as they are, with their signs. A push with 0.1 for each stove gives 0.3 for
# the heat, as in the picture. Here each entry has to be squared before anything is added,
# and for that we need each entry by itself. If you ask about one output only, its row is
# all that you need, and a pull with a single 1 brings it.
#
# .. dropdown:: If the errors are not tosses of a coin
#
#    Other errors may be larger and smaller by chance, such as those of ``torch.randn``
#    below. Their squares add up as well, if each error is 0 on average, and if one error
#    tells nothing about another. Such a typical error is called the *standard deviation*.
#
#    But the knobs may all be worn in the same way, so that they are too high together. Then
#    the errors do not cancel, and you have to add them up with their signs.
#    :ref:`covariance-through-a-network` has the case between the two.

by_chance = torch.stack([house(x + 0.1 * torch.randn(3)) for _ in range(10_000)])
by_chance.std(0)

# %%
# .. admonition:: Remember
#
#    - If each input has a small error of its own, up or down, multiply each rate by the
#      error of its input, square, add up along the row, and take the root. The errors have
#      to be so small that the table describes the function well.
#    - For that you need each entry by itself. A pull or a push adds up entries with their
#      signs.
#
# .. predict:: Try it
#    :item: 1
#    :for: the typical error of the fuel
#    :wrong: first exact: This is with a new first knob. Another one contributes more.;
#       second exact: This is with a new second knob. Another one contributes more.;
#       squares alone: This is the sum of the squares that are left. Its root is missing.;
#       with their signs: Here the two errors that are left are added. Their squares add up.
#
#    You may replace one of the three worn knobs by a new one, which is exact. Which one do
#    you replace, to make the fuel most certain? How far off is the fuel then?
#
# .. dropdown:: Answer
#
#    The third. It contributes 0.36 of the 0.56, more than the other two together. What is
#    left is :math:`0.04+0.16=0.2`, and its root is 0.45.

worn = torch.tensor([0.1, 0.1, 0.0])
((table * worn) ** 2).sum(1).sqrt()

# %%
# .. dropdown:: How we checked this page
#
#    The typical errors have to be those of the trials, and of all eight tosses of three
#    coins.

torch.testing.assert_close((off**2).mean(0).sqrt(), typical, rtol=0.03, atol=0)
torch.testing.assert_close(by_chance.std(0), typical, rtol=0.03, atol=0)
tossed = torch.cartesian_prod(*[torch.tensor([-0.1, 0.1])] * 3)  # all eight cases
of_the_table = tossed @ table.T
torch.testing.assert_close((of_the_table**2).mean(0), (errors**2).sum(1))
torch.testing.assert_close((errors**2).sum(1), torch.tensor([0.03, 0.56]))
assert (of_the_table[:, 0].abs() > 0.25).sum() == 2
assert ((of_the_table[:, 0].abs() - 0.1).abs() < 1e-6).sum() == 6
pushed = torch.func.jvp(house, (x,), (torch.full((3,), 0.1),))[1]
torch.testing.assert_close(pushed, torch.tensor([0.3, 1.2]))
alike = 0.1 * (2 * torch.randint(2, (10_000, 1)) - 1)
off_together = torch.stack([house(x + toss) for toss in alike]) - house(x)
torch.testing.assert_close((off_together**2).mean(0).sqrt(), pushed, rtol=0.03, atol=0)
for knob in range(3):
    worn = torch.full((3,), 0.1)
    worn[knob] = 0
    left = ((table * worn) ** 2).sum(1).sqrt()[1]
    assert (left < 0.46) == (knob == 2)

guesses = {  # wrong ones, of which the boxes above say what they are
    "added": errors[0].sum(),
    "one knob": errors[0, 0],
    "mean square": (errors[0] ** 2).sum(),
    "plain average": f"{of_the_table.mean(0)[0].abs():.4f}",
    "first exact": (errors[1, 1:] ** 2).sum().sqrt(),
    "second exact": (errors[1, ::2] ** 2).sum().sqrt(),
    "squares alone": (errors[1, :2] ** 2).sum(),
    "with their signs": errors[1, :2].sum(),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** so far we took a change of the inputs and looked at what it does.
# :ref:`hitting-targets` asks the other way round: which change does what we want?
#
# .. asked: propagate errors through a function; error propagation; standard deviation of
#    the output; uncertainty of the output from uncertain inputs; how wrong is the result
#    if the inputs are off; measurement error of a computed value
# .. words: variance, covariance, delta method, noise, tolerance, error bars, sensitivity,
#    sigma, how accurate, measured values
