r"""
.. _hitting-targets:

Hitting two targets at once
===========================

You want the score of one class to rise and those of the others to stay. Or you want a house
to burn less fuel and to stay as warm as it is. For one number, the gradient says which way
to go. But here two or more numbers count, and their gradients point in different ways. All
of them together make the :term:`Jacobian` ``J``, our table of rates, with a row for each
output.

Our house gives 6 units of heat and burns 14 units of fuel. How do we move its three stoves
to get the same heat from 13 units of fuel? We find a step with a pencil, and then with one
call. Are there other steps, and is ours the best one?
"""

# %%
# The heat is the sum of the settings, and the fuel is the sum of their squares. Here are
# the house, its table, and what is missing on the way to our targets, 6 and 13. The heat is
# right. The fuel has one unit too many, so −1 is to be added:

import torch
from torch.func import jacrev


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
J = jacrev(house)(x)
missing = torch.tensor([6.0, 13.0]) - house(x)
print(J)
print("missing:", missing)

# %%
# We are looking for a ``step`` with a number for each stove. From :ref:`pushing-forward`
# you know what the table says about a step: heat and fuel change by ``J @ step``, as long
# as the step is small. So we want ``J @ step`` to be what is missing.
#
# One row is not enough
# ---------------------
#
# Try the obvious thing first, and go against the gradient of the fuel. That is the second
# row of the table, ``[2, 4, 6]``. In a step of ``-k * [2, 4, 6]`` the first stove goes down
# by :math:`2k`, and at a rate of 2 this lowers the fuel by :math:`4k`. All three stoves
# together lower it by :math:`4k+16k+36k=56k`. So with :math:`k=1/56` it falls by 1.
#
# .. predict::
#    :item: 0
#    :for: the change of the heat
#    :wrong: nothing: All three stoves go down in this step, and each of them heats.;
#       fuel: This is the change of the fuel. For the heat, add up the step.;
#       undivided: This is the row of the fuel, added up, with a minus. The step is a 56th
#          of it.;
#       third stove: This is the third stove alone. All three go down.;
#       up: The step goes down, so the heat falls.
#
#    This step is ``-[2, 4, 6] / 56``. The heat is the sum of the settings. By how much does
#    it change?

downhill = -J[1] / 56
print("table says:", J @ downhill)

# %%
# The fuel falls by 1, as planned, but the heat falls, too, by :math:`12/56`, or about
# 0.21. All three stoves went down, and each of them heats. To keep the heat, some of
# the heat's own row has to be added.
#
# How much of each row?
# ---------------------
#
# So let us try a step that is made of the two rows, ``a`` times the row of the heat plus
# ``b`` times the row of the fuel. Then we have two numbers to choose and two targets to
# hit, so we can hope to hit both. Why the rows, and nothing else? We try it first, and find
# the reason below. For each row by itself, the table says what a step along it does to heat
# and fuel:
#
# ==========================  ===================  =====================
# the step                    heat changes by      fuel changes by
# ==========================  ===================  =====================
# row of heat, [1, 1, 1]      1 + 1 + 1 = 3        2 + 4 + 6 = 12
# row of fuel, [2, 4, 6]      2 + 4 + 6 = 12       4 + 16 + 36 = 56
# ==========================  ===================  =====================
#
# The heat is to stay, so :math:`3a+12b=0`. The fuel is to fall by 1, so
# :math:`12a+56b=-1`.
#
# .. predict::
#    :label: a and b
#    :for: a and b
#    :wrong: swapped: Here a and b are swapped.;
#       one unit more: This raises the fuel by 1. It is to fall by 1.;
#       fuel's row alone: This is the step from above, of the fuel's row alone. It lowers
#          the heat, too.
#
#    Solve the two equations with a pencil. How much of each row do we need?

row_by_row = J @ J.T
amounts = torch.linalg.solve(row_by_row, missing)
print(row_by_row)
print("a and b:", amounts)

# %%
# The first equation says :math:`a=-4b`. Put into the second, it gives :math:`8b=-1`. So we
# need half of the heat's row, minus an eighth of the fuel's row.
#
# Each number in the table above comes from two rows. They are multiplied entry by entry,
# and the results are added up. This is the *dot product* of the two rows. In the code,
# ``J @ J.T`` holds the dot product of each row of ``J`` with each row of ``J``: again 3,
# 12, 12 and 56. ``solve`` finds the ``a`` and ``b`` for which both equations hold.
#
# The step is this weighted sum of the rows. The picture is the one from part 1, but there
# we chose ``v``. Here we have computed which ``v`` hits the targets:

import pullback

step = amounts @ J
stoves = ["stove 1", "stove 2", "stove 3"]
names = {"rows": ["heat", "fuel"], "columns": stoves}
pullback.draw.vjp(amounts, J, **names, result_name="step")

# %%
# The first stove goes up by a quarter, the third goes down by a quarter, and the second
# stays. That makes sense: the third stove is the one that wastes most. Push this step
# through the table, and both targets are hit:

print("table says:", J @ step)

# %%
# Is it the only step?
# --------------------
#
# Suppose that the first and the third stove go up by 1 each. To keep the heat, the second
# one has to go down by 2.
#
# .. predict::
#    :label: change of the fuel
#    :for: the change of the fuel
#    :wrong: up alone: This is what the first and the third stove add. The second one saves
#          fuel.;
#       second alone: This is what the second stove saves. The other two burn more.;
#       one down: Here the second stove goes down by 1 only. Then the heat would not stay.
#
#    What does the table say about the fuel, when the stoves move like this?

idle = torch.tensor([1.0, -2.0, 1.0])
heat, fuel = J @ idle
print("change of the heat:", heat)
print("change of the fuel:", fuel)

# %%
# The heat stays, as planned, and the fuel stays, too. As far as the table knows, this
# movement does nothing at all, and we call it *idle*. A house with more stoves than outputs
# always has an idle movement, because two conditions leave one of three numbers free. So
# our step is not the only one. We may add any amount of the idle movement to it, and still
# hit both targets.
#
# Which of these steps is best? The table is right only near the place where it was
# computed, so we want a short one. The length of a step is the root of the sum of its
# squares, in code ``norm()``.
#
# .. predict::
#    :expects: choice
#    :wrong: Longer when added, shorter when subtracted: Add up the squares of both new
#          steps. In each of them the second stove, which stood still, has to move.;
#       Shorter when added, longer when subtracted: Add up the squares of both new steps. In
#          each of them the second stove, which stood still, has to move.;
#       Shorter in both cases: In both new steps the second stove, which stood still, moves
#          by two units. Its square alone is more than our whole step has.
#
#    Our step is ``[0.25, 0, -0.25]``, and the idle movement is ``[1, -2, 1]``. Add the idle
#    movement once, or subtract it. Does our step become longer or shorter?
#
#    - Longer when added, shorter when subtracted
#    - Shorter when added, longer when subtracted
#    - Shorter in both cases
#    - Longer in both cases

for amount in (-1.0, 0.0, 1.0):
    other = step + amount * idle
    print(f"{amount}: table says {J @ other}, length {other.norm():.2f}")

# %%
# Longer in both cases: our own step, without any idle movement, is the shortest of the
# three. This is no accident.
#
# Why a sum of rows is the shortest
# ---------------------------------
#
# What a movement does to an output is a dot product, too, that of the output's row with the
# movement. The heat's row and the idle movement have the dot product
# :math:`1\cdot1-1\cdot2+1\cdot1=0`. The fuel's row and the idle movement have the dot
# product :math:`2\cdot1-4\cdot2+6\cdot1=0`. Our step is half of the heat's row minus an
# eighth of the fuel's row. So our step and the idle movement have a dot product that is
# half of 0 minus an eighth of 0:
#
# .. math::
#
#    0.25\cdot1+0\cdot(-2)-0.25\cdot1=0
#
# Two movements with a dot product of 0 are at right angles. You can see it on squared paper
# with ``[1, 1]``, which goes up to the right, and ``[1, -1]``, which goes down to the
# right: :math:`1\cdot1+1\cdot(-1)=0`. So by Pythagoras the squares of the two lengths add
# up, and an idle movement can only make our step longer.
#
# .. dropdown:: The squares, written out
#
#    With :math:`p` for our step and :math:`q` for the idle movement, the squared length of
#    the new step is
#
#    .. math::
#
#       \sum_i(p_i+q_i)^2=\sum_i p_i^2+\sum_i q_i^2+2\sum_i p_iq_i
#
#    The last sum is the one that is 0.
#
# And what about all the other steps that hit both targets? Take one of them, and subtract
# our step from it. Each of the two steps changes the heat by 0 and the fuel by −1. So their
# difference changes the heat by 0 and the fuel by 0, and is an idle movement. The other
# step is therefore our step plus an idle movement, and it is longer than ours. So a sum of
# rows that hits the targets is the *shortest* step that hits them, as far as the table
# knows.
#
# .. dropdown:: The code of the drawing
#
#    Our step goes to the right, and the idle movement goes up, at a right angle to it.

import matplotlib.pyplot as plt


def draw_steps():
    across, up = step.norm(), idle.norm()
    _, ax = plt.subplots(figsize=(5, 4))
    for amount, name in ((1, "step + idle / 4"), (0, "our step"), (-1, "step - idle / 4")):
        end = (across, amount * up / 4)
        ax.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->"})
        ax.text(*end, f"  {name}", va="center")
    ax.axvline(across, linestyle="--")
    ax.set(xlim=(-0.1, 1), ylim=(-0.8, 0.8), aspect="equal")
    ax.set_title("All steps that hit both targets: ours is the shortest")


# %%
# Here is our step, once alone and twice with a quarter of the idle movement. All steps that
# hit both targets end on the dashed line:

draw_steps()

# %%
# One call for all of this
# ------------------------
#
# ``torch.linalg.pinv`` finds the same step in one call. ``J`` is a table that leads from a
# step to the changes. ``pinv(J)`` is a table that leads back, from the changes that we want
# to the shortest step. It is called the *pseudo-inverse* of ``J``:

torch.allclose(torch.linalg.pinv(J) @ missing, step, atol=1e-6)  # the same step

# %%
# For the scores of a network, before a softmax makes probabilities of them, ``x`` is the
# image as a vector, and ``J`` has a row for each class. ``missing`` has a number for the
# class that should rise, and 0 for the others.
#
# If a stove is stuck
# -------------------
#
# Below is the table once more. In ``u`` stands our step, and beside the table you see what
# it does to heat and fuel. Now suppose that the first stove is stuck, so that its number in
# ``u`` has to be 0. Find a step for the other two that keeps the heat and saves one unit of
# fuel. How much of the idle movement is in it?

pullback.live(house, x, u=torch.tensor([0.25, 0.0, -0.25]), **names)

# %%
# .. dropdown:: Answer
#
#    The second stove goes up by 0.5, and the third goes down by 0.5. It is our step, less a
#    quarter of the idle movement, and it is twice as long. A robot with more joints than it
#    needs can spare a joint in the same way, and the hand still goes to its target.
#
# .. admonition:: Remember
#
#    - ``J @ step`` is what a small step does to all outputs at once. To hit several
#      targets, solve it for ``step``.
#    - The shortest such step is a weighted sum of the rows of ``J``. For vectors ``x`` and
#      ``y`` and rows like ours, ``torch.linalg.pinv(J) @ missing`` finds it. For rows that
#      are nearly parallel, or tiny beside the others, see *Where this ends*.
#    - The table is right near one point. So the real house misses the targets by a little,
#      and we have to aim again (:ref:`aiming-again`).
#
# .. predict:: Try it
#    :expects: signs
#    :label: step
#    :for: the three signs
#    :wrong: heat's row: This is the row of the heat. Along it the heat rises, and the fuel
#          with it.;
#       fuel saved: These are the signs of the step that saved fuel. Now the second stove
#          goes up a little as well.;
#       idle: These are the signs of the idle movement, which changes neither heat nor
#          fuel.;
#       downhill: With all stoves down, the heat falls.
#
#    Now we want 0.1 units of heat *more*, for the same fuel. Which stoves go up, and which
#    go down? Think first: which stove gives heat at the lowest price in fuel?
#
# .. dropdown:: Answer
#
#    All stoves give the same heat, and the first burns least for it, so it goes up most.
#    The third burns most, so it goes down. The equations :math:`3a+12b=0.1` and
#    :math:`12a+56b=0` give :math:`a=7/30` and :math:`b=-1/20`. So the second stove, too,
#    goes up a little, by :math:`7/30-4/20=1/30`.
#
#    Why not a whole unit more? The table would promise that as well, with ten times the
#    step. But seven units of heat take at least :math:`3\cdot(7/3)^2`, or 16.3 units of
#    fuel, with all three stoves at 7/3. That far away the table is wrong, and 14 cannot be
#    reached.

warmer = torch.linalg.pinv(J) @ torch.tensor([0.1, 0.0])
print("step:", warmer)
print("heat and fuel after it:", house(x + warmer))

# %%
# .. dropdown:: Where this ends
#
#    A square table has as many inputs as outputs. If none of its rows can be made, or
#    nearly made, from the others, only one step leads to the changes that we want. Then the
#    table that leads back is called the *inverse*, and ``pinv`` returns it.
#
#    If one row is a multiple of the other, heat and fuel can only change together. Then
#    ``solve`` has no single answer to find. ``pinv`` still gives a step, which comes as
#    near to the targets as a step can, as far as the table knows.
#
#    If one row is tiny beside the others, ``pinv`` believes that it is only rounding error,
#    and drops it. Suppose that the fuel is counted in millionths, so that its row is
#    ``[2e6, 4e6, 6e6]``. If we then ask for a little more heat and the same fuel, the step
#    is nearly zero in float32, and no error is raised. Choose units that give rows of
#    similar size, or compute in float64, where the limit is much lower. The same happens
#    with rows that are nearly parallel.
#
# .. dropdown:: How we checked this page
#
#    The step is compared with its formula, and its length with that of many other steps
#    that hit the targets, also with a stove that is stuck. Settings that are chosen by
#    chance have to burn no less than the answers say.

torch.testing.assert_close(step, torch.tensor([0.25, 0.0, -0.25]))
torch.testing.assert_close(J @ step, missing, atol=1e-6, rtol=0)
torch.testing.assert_close(downhill.sum(), torch.tensor(-12 / 56))
torch.testing.assert_close(torch.linalg.pinv(J) @ missing, step, atol=1e-6, rtol=0)
square = jacrev(house)(torch.tensor([1.0, 2.0]))
torch.testing.assert_close(torch.linalg.pinv(square), torch.linalg.inv(square))
assert not (J @ idle).any()
assert (amounts @ J @ idle).abs() < 1e-6  # at right angles to it
assert [(row * idle).tolist() for row in J] == [[1, -2, 1], [2, -8, 6]]
torch.testing.assert_close(J[0] / 2 - J[1] / 8, step)
torch.testing.assert_close(J[1] * 2 * x, torch.tensor([4.0, 16.0, 36.0]))
assert step @ idle == 0
for amount in torch.linspace(-1, 1, 20):
    assert (step + amount * idle).norm() > step.norm()
stuck = torch.tensor([0.0, 0.5, -0.5])
assert torch.equal(J @ stuck, missing)
torch.testing.assert_close(step - 0.25 * idle, stuck)
assert 1.9 < stuck.norm() / step.norm() < 2.1
torch.testing.assert_close(warmer, torch.tensor([4.0, 1.0, -2.0]) / 30, atol=1e-5, rtol=0)
alike = x + 10 * warmer  # three stoves at 7/3, and parallel rows
torch.testing.assert_close(alike, torch.full((3,), 7 / 3), atol=1e-4, rtol=0)
assert house(alike)[1] > 16.3
torch.manual_seed(0)  # any steps will do; the same ones in every run
others = alike + (torch.randn(1000, 3) @ (torch.eye(3) - 1 / 3))
assert ((others**2).sum(1) >= house(alike)[1] - 1e-3).all()  # of heat 7, none burns less
flat = jacrev(house)(torch.full((3,), 2.0))
assert torch.equal(flat[1], 4 * flat[0])
nearest = torch.linalg.pinv(flat) @ missing
for _ in range(20):
    other = nearest + 0.1 * torch.randn(3)
    assert (flat @ other - missing).norm() >= (flat @ nearest - missing).norm() - 1e-6
near_parallel = jacrev(house)(torch.tensor([2.0, 2.0, 2.000001]))
brought = near_parallel @ torch.linalg.pinv(near_parallel) @ torch.tensor([1e-7, 0.0])
assert brought[0] < 0.5e-7
more_heat = torch.tensor([0.1, 0.0])
for unit, digits in ((1e5, torch.float32), (1e6, torch.float32), (1e6, torch.float64)):
    uneven = J.to(digits) * torch.tensor([[1.0], [unit]])
    hit = (uneven @ torch.linalg.pinv(uneven) @ more_heat.to(digits))[0]
    assert abs(hit - (0.0 if (unit, digits) == (1e6, torch.float32) else 0.1)) < 0.01

added, ours, taken = ((step + k * idle).norm().item() for k in (1, 0, -1))
guesses = {  # wrong ones, of which the boxes above say what they are
    "Longer when added, shorter when subtracted": added > ours > taken,
    "Shorter when added, longer when subtracted": taken > ours > added,
    "Shorter in both cases": max(added, taken) < ours,
    "Longer in both cases": min(added, taken) > ours,
    "nothing": (J @ idle)[0],
    "up alone": J[1, 0] + J[1, 2],
    "second alone": -2 * J[1, 1],
    "one down": J[1] @ torch.tensor([1.0, -1.0, 1.0]),
    "fuel": (J @ downhill)[1].round(decimals=4),
    "undivided": -J[1].sum(),
    "third stove": downhill[2],
    "up": -downhill.sum(),
    "swapped": amounts.flip(0),
    "one unit more": -amounts,
    "fuel's row alone": torch.tensor([0.0, -1 / 56]),
    "heat's row": J[0],
    "fuel saved": step.round(decimals=4),
    "idle": idle,
    "downhill": downhill,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** the table has promised a fuel of 13. :ref:`aiming-again` moves the stoves of the
# real house, and sees what comes out.
#
# .. asked: several targets at once; find inputs that give wanted outputs; pseudo-inverse of
#    the Jacobian; least squares step; solve f(x) = 0; adjust inputs so that
#    outputs match; invert a network; shortest step
# .. words: inverse problem, calibrate, aim, fit two conditions, lstsq, pinv, redundant,
#    null space
