r"""
.. _a-jacobian-of-zeros:

A Jacobian with many zeros, from fewer pushes
=============================================

You want the :term:`Jacobian`, the table of rates, of a simulation in which each place
reacts to its neighbors only. A push for each of its thousand columns takes too long. But
nearly all of the table is zero, and if you know where, one push can bring many columns.
"""

# %%
# A corridor has six rooms. ``T`` holds their temperatures, and the function says how fast
# each room warms up. We call this its *warming*. A room gains the temperature of the room
# on its left, and twice that of the room on its right. It loses the square of its own
# temperature. Outside, beyond both ends of the corridor, the temperature is 0:

import torch


def corridor(T):
    padded = torch.nn.functional.pad(T, (1, 1))  # a 0 at each end
    left, right = padded[:-2], padded[2:]
    return left + 2 * right - T**2


T = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
J = torch.func.jacrev(corridor)(T)
J

# %%
# Each row has at most three numbers that are not zero: 1 for the left neighbor, minus
# twice the temperature for the room itself, and 2 for the right neighbor. (That one counts
# twice because a draft blows from right to left and carries the air along.) Everything else
# is zero, whatever the temperatures are, because the formula of a room does not contain the
# others. We call a place of the table *filled* if it can hold something other than zero.
#
# A table with few filled places is *sparse*, and one with three such diagonals is
# *tridiagonal*. The table of a convolution is sparse, too, since each output looks at a few
# pixels of the image, and so is that of a circuit or a weather model.
#
# Suppose that the corridor has a thousand rooms, and that one push takes a minute.
# ``jacfwd`` takes a push for each column, and that is most of a day. Can we do with fewer?
#
# Two columns in one push
# -----------------------
#
# A push ``J @ u``, a :term:`Jacobian-vector product`, gives one column if ``u`` has a
# single 1. Column 0 is filled in rows 0 and 1 only. Column 3 is filled in rows 2, 3 and 4.
# There is no row in which both are filled. We say that the two columns do not *meet*. What
# happens if we push them *together*?
#
# .. predict::
#    :for: six numbers
#    :wrong: two rows: These are rows 0 and 3. A push adds up columns: a room gives 1 to its
#          neighbor on the right and 2 to the one on the left.;
#       first column: This is column 0 alone. u has a 1 for room 3 as well.;
#       fourth column: This is column 3 alone. u has a 1 for room 0 as well.;
#       what goes in: This is u. The push brings what it does to the warming of the rooms.
#
#    ``u`` has a 1 for room 0 and a 1 for room 3. The push adds up their two columns.
#    Write down the six numbers, and say for each from which column it comes.

u = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
value, both = torch.func.jvp(corridor, (T,), (u,))
both

# %%
# The numbers −2 and 1 at the start are from column 0. The numbers 2, −8 and 1 after them
# are from column 3. In each row at least one of the two columns is zero. So nothing was
# mixed, and we can take the sum apart again without any loss. This is the whole idea:
# columns that do not meet can share a push.
#
# .. predict::
#    :label: pushes
#    :for: the number of pushes
#    :wrong: pairs: This is the number of pushes if columns go in pairs. Columns 0, 3, 6, 9
#          and so on can all share one push.;
#       columns: This is one push for each column. Columns that do not meet can share one.;
#       two: With every other column in one push, two columns meet in the row between them.;
#       in a push: This is how many columns share a push.;
#       one for each room: These are the six rooms from above.
#
#    In a corridor of a thousand rooms, the table has a thousand columns. How many pushes
#    does it take to get all of them?

import pullback

for_long = pullback.sparsity(corridor, torch.ones(1000), mode="forward")
print("pushes:", for_long.n_colors)  # in how many groups no two columns meet

# %%
# Not 500, as with pairs of columns, but three. Columns that are three apart never meet, so
# columns 0, 3, 6, 9 and so on, a third of them all, go into one push. For a million rooms
# it takes three pushes as well. We give a *color* to each of these groups, so that columns
# of the same color do not meet. ``pullback.sparsity`` has found the filled places and the
# colors (``mode="forward"`` says that it is to push). A box at the end does it by hand.
#
# Here is the table of our six rooms in its three colors, and beside it what the three
# pushes bring. A push adds up the two columns of its color, and no two of their filled
# places land on each other:

found = pullback.sparsity(corridor, T, mode="forward")
pullback.draw.compression(found)

# %%
# We can do this by hand. Rooms have the same color if their numbers leave the same
# remainder when they are divided by 3. For each color we take one push, with a 1 in ``u``
# for every column of that color:

color = torch.arange(6) % 3
for c in range(3):
    u = (color == c).float()
    print(f"rooms {c} and {c + 3}:", torch.func.jvp(corridor, (T,), (u,))[1])

# %%
# Now the numbers have to go back to their places in the table. How do we find the one that
# belongs in a given row and column?
#
# .. predict::
#    :label: number for this place
#    :code:
#    :for: a number
#    :wrong: third place: This is in the same push, at place 3, and so it belongs in row 3.;
#       the room itself: This is row 4 and column 4, which was in the push of rooms 1
#          and 4.;
#       right neighbor: This is row 4 and column 5. Room 3 is the left neighbor of room 4.;
#       not filled: Row 4 is filled in the columns 3, 4 and 5.
#
#    Do not look at the table, only at the three pushes. Which number belongs in row 4 and
#    column 3, counted from 0?


def from_pushes(T):
    n = len(T)
    color = torch.arange(n) % 3
    groups = [(color == c).to(T) for c in range(3)]  # in the dtype of T
    pushes = torch.stack([torch.func.jvp(corridor, (T,), (u,))[1] for u in groups])
    table = T.new_zeros(n, n)
    for i in range(n):
        for j in (i - 1, i, i + 1):  # the filled places of row i
            if 0 <= j < n:  # the first room has no left neighbor, the last no right one
                table[i, j] = pushes[color[j], i]  # column: which push; row: where in it
    return table


table = from_pushes(T)
print("number for this place:", table[4, 3].item())
print("all places right:", torch.equal(table, J))

# %%
# Column 3 was in the push of rooms 0 and 3. At place 4 of this push stands the 1 by which
# room 4 gains from its left neighbor. **The column tells which push, and the row tells the
# place in it.** Where a place of the table is not filled, as in row 3 and column 5, we
# leave the 0.
#
# ``from_pushes`` does this for a corridor of any length. To show the places, it makes a
# whole table with its zeros. For a million rooms that would be too large, and the end of
# the page leaves the zeros out.
#
# Where the corridor settles
# --------------------------
#
# Now to a thousand rooms. The corridor rests where the warming of every room is zero. So
# our target is a warming of zero, and what is missing is zero minus the warming that we
# have. Newton's method solves ``table @ step = missing``, takes the step, and repeats
# (:ref:`aiming-again`). The table is square here, and ``solve`` finds the step without
# ``pinv``. We start with all rooms at 5, and each table comes from three pushes.
#
# .. predict::
#    :label: in the middle
#    :for: a temperature
#    :also: settle at 3
#    :wrong: start: This is where we start. There a room gains 15 and loses 25, so it gets
#          colder.;
#       outside: This is the temperature outside. All rooms at that temperature would rest,
#          too, but from 5 we do not get there.;
#       no draft: So it would be if both neighbors counted once.;
#       gain: This is what a room gains there, and what it loses.
#
#    Far from both ends, all rooms come to the same temperature. A room there gains the
#    temperature of its left neighbor and twice that of its right one, and it loses its own
#    temperature squared. At which temperature does it rest?

warm = torch.full((1000,), 5.0)
for _ in range(5):
    missing = 0 - corridor(warm)
    step = torch.linalg.solve(from_pushes(warm), missing)
    warm = warm + step
    print(f"largest warming: {corridor(warm).abs().max():.4f}")

print(f"in the middle: {warm[500]:.1f}")
print("left end: ", warm[:4])
print("right end:", warm[-4:])

# %%
# After five steps the warming is zero everywhere, up to rounding. In the middle of the
# corridor the rooms settle at 3, where a room gains :math:`3+2\cdot3` and loses
# :math:`3^2`. Toward both ends it gets colder, and coldest at the right, where the draft
# carries in the air from outside.
#
# Each step took three pushes instead of a thousand. With a minute for a push, that is
# three minutes instead of most of a day. :ref:`sparse-measured` has measured how much is
# saved. As always with Newton's method, where it goes depends on the start. All rooms at 0
# would rest as well, and from a start with all rooms at 1 it goes astray.
#
# Too few colors
# ---------------
#
# .. predict::
#    :item: 1
#    :for: the number in place 1
#    :wrong: left: This is what comes from the room on the left. The room on the right is in
#          this push as well.;
#       right: This is what comes from the room on the right. The room on the left is in
#          this push as well.;
#       own: This is room 1 itself, which is in the other push.;
#       whole row: This is the sum of the whole row. Room 1 itself is in the other push.
#
#    What if we try with two colors, every other room? The push of the first color has a
#    1 for the rooms 0, 2 and 4. Row 1 of the table is ``[1, -4, 2, 0, 0, 0]``. Which number
#    stands in place 1 of this push?

two = (torch.arange(6) % 2 == 0).float()
torch.func.jvp(corridor, (T,), (two,))[1]

# %%
# It is a 3, but the table has no 3 in this row. It is the sum of 1 and 2, from the rooms on
# the left and on the right. From the sum we cannot get the parts back, and nothing tells us
# that it is a sum. So the pattern of the zeros has to be right, and for *every* input that
# you use it for. Suppose that somebody reads it off at ``T = 0``. There the diagonal, minus
# twice the temperature, is zero as well, and it would be missing from the pattern.
#
# How do you find the pattern of a function of your own? ``pullback.sparsity`` goes through
# the operations of the function, and notes for every number from which inputs it has been
# computed. The values of ``T`` play no part in this. So it finds all 16 filled places even
# when it is shown ``T = 0``, and what it returns, the pattern with its colors, can be used
# at any ``T``, as long as the function decides nothing by the values in ``T``. Its method
# ``jacobian`` takes the pushes, and returns a *sparse* tensor, which stores the filled
# places and leaves out the rest. For ten thousand rooms that is about 30,000
# numbers, with their places, instead of 100 million.

found = pullback.sparsity(corridor, torch.zeros(6), mode="forward")
print("colors:", found.n_colors)
sparse = found.jacobian(corridor, T)
print("filled places:", sparse.values().numel())
torch.equal(sparse.to_dense(), J)

# %%
# Below are the six rooms, and ``u`` pushes rooms 2 and 5, of one color, together. Find
# another ``u`` with two ones that lets you read off both columns. And move a temperature:
# which numbers of the table change?

rooms = [f"room {i}" for i in range(6)]
pullback.live(corridor, T, u=u, rows=[f"warming {i}" for i in range(6)], columns=rooms)

# %%
# .. dropdown:: Answer
#
#    Two rooms that are at least three apart, such as 0 and 3, 0 and 4, or 1 and 5. Of the
#    table only one number changes, on the diagonal: it is minus twice the temperature of
#    the room that you moved. The ones and twos beside the diagonal stay, since a room takes
#    a fixed share from its neighbors, and the zeros stay wherever you move.
#
# .. admonition:: Remember
#
#    - Columns that do not meet in any row can share one push, and their numbers can be
#      told apart afterward: the column tells which push, the row the place in it.
#    - A tridiagonal Jacobian takes at most three pushes, however large it is.
#    - ``pullback.sparsity`` finds the pattern and the colors.
#    - With too few colors, or with a pattern that lacks a filled place, some of the
#      numbers can be sums of several others, and you cannot see it in the result.
#
# .. predict:: Try it
#    :label: colors
#    :for: the number of colors
#    :wrong: corridor: Three were enough in the corridor. In the ring they would have to
#          repeat every three rooms, and seven is not a multiple of three.;
#       every room: A color for each room is always enough. Rooms that are far enough apart
#          can share one.;
#       two: Three neighbors meet in a row, so they need three already.
#
#    The corridor becomes a ring of *seven* rooms: the first room and the last are
#    neighbors. How many colors do you need now, so that columns of the same color never
#    meet? (Look at the first row and at the last.)
#
# .. dropdown:: Answer
#
#    Three are not enough. Any three neighbors need three different colors, because they
#    meet in a row. With only three colors, room 3 has to have the color of room 0, since
#    rooms 1 and 2 have the other two. In the same way room 4 has the color of room 1, and
#    so on: the colors repeat every three rooms. Around a ring of seven rooms they cannot,
#    because seven is not a multiple of three. With a fourth color for one of the rooms it
#    works.


def around(T):
    return T.roll(1) + 2 * T.roll(-1) - T**2


of_ring = pullback.sparsity(around, torch.ones(7), mode="forward")
print("colors:", of_ring.n_colors)
pullback.draw.compression(of_ring)

# %%
# .. dropdown:: When may a pattern be used at another ``T``?
#
#    If the function decides nothing by the values of ``T``: not with ``if``, not with
#    ``.item()``, and not with an index such as ``T[T.argmax()]``. A function may also
#    multiply ``T`` by a matrix of its own. Where this matrix has zeros, the pattern has
#    them, too. So if you change the matrix, and put other numbers where it had zeros, ask
#    for a new pattern.
#
# .. dropdown:: Colors for a pattern of your own
#
#    Other functions have their zeros elsewhere. Write down the pattern, a table that is
#    ``True`` wherever a place is filled. Number the colors from 0, and go through the
#    columns from left to right. For each column, ask:
#
#    1. Which of the columns on its left does it meet?
#    2. Which colors do these have?
#    3. What is the smallest color that is not among them? The column gets this one.
#
#    In the corridor, column 0 meets none yet and gets 0, column 1 meets column 0 and gets
#    1, and column 2 meets both and gets 2. Column 3 meets the columns 1 and 2 only, and so
#    it gets 0 again. This may take more colors than necessary, but the numbers can always
#    be told apart. For the corridor it finds our three:


def colors(pattern):
    shared = pattern.T.float() @ pattern.float()  # in how many rows do j and k meet?
    meet = (shared > 0).tolist()
    found = []
    for j in range(len(meet)):
        taken = {found[k] for k in range(j) if meet[j][k]}
        found.append(min(set(range(j + 1)) - taken))
    return torch.tensor(found)


pattern = torch.ones(6, 6, dtype=torch.bool).triu(-1).tril(1)  # at most 1 off the diagonal
colors(pattern)

# %%
# .. dropdown:: How we checked this page
#
#    The table is compared with its formula, and what came from three pushes with the
#    table. The same has to hold for the whole of a longer corridor. With two
#    colors it must fail. The corridor is also left to itself for a while, starting warm,
#    and has to come to rest where Newton's method has found.

formula = torch.diag(-2 * T) + 2 * torch.ones(5).diag(1) + torch.ones(5).diag(-1)
assert torch.equal(J, formula)
still = lambda t, both: both * t - t**2  # far from the ends: gains minus loss
assert still(3.0, both=3) == still(0.0, both=3) == still(2.0, both=2) == 0
assert torch.equal(both, J[:, 0] + J[:, 3])
assert torch.equal(from_pushes(T), formula)
assert torch.equal(from_pushes(T.double()), formula.double())
meet = (pattern.T.float() @ pattern.float() > 0).tolist()
on_the_left = [[k for k in range(j) if meet[j][k]] for j in range(4)]
assert on_the_left == [[], [0], [0, 1], [1, 2]]
assert colors(pattern).tolist() == color.tolist() == [0, 1, 2, 0, 1, 2]
wide = torch.ones(1000, 1000, dtype=torch.bool).triu(-1).tril(1)
assert colors(wide).tolist() == [j % 3 for j in range(1000)]
at_rest = torch.full((1000,), 5.0)
for _ in range(2000):
    at_rest = at_rest + 0.05 * corridor(at_rest)
assert torch.equal(two_push := torch.func.jvp(corridor, (T,), (two,))[1], J[:, ::2].sum(1))
assert two_push[1] == J[1, 0] + J[1, 2] == 3
changed = torch.func.jacrev(corridor)(T + torch.eye(6)[2]) - J
assert changed.nonzero().tolist() == [[2, 2]]
torch.testing.assert_close(warm, at_rest, atol=1e-4, rtol=0)
assert corridor(warm).abs().max() < 1e-4
assert not corridor(torch.zeros(1000)).any()
assert warm[:500].diff().min() > -1e-5
assert warm[500:].diff().max() < 1e-5
assert warm[-1] == warm.min() < warm[0] < 3
astray = torch.ones(1000, dtype=torch.float64)
for _ in range(5):
    astray = astray - torch.linalg.solve(from_pushes(astray), corridor(astray))
assert not corridor(astray).abs().max() < 1  # from 1 it does not arrive

from itertools import product

longer = torch.linspace(1, 3, 50)
dense = torch.func.jacrev(corridor)(longer)
i, j = dense.nonzero().T
for many in (2, 3):
    groups = torch.arange(50) % many
    pushes = [
        torch.func.jvp(corridor, (longer,), ((groups == c).float(),))[1]
        for c in range(many)
    ]
    entries = torch.stack(pushes)[groups[j], i]
    assert torch.allclose(entries, dense[i, j]) == (many == 3)
assert found.n_colors == 3
torch.testing.assert_close(sparse.to_dense(), J)


def ring(n):
    around = torch.eye(n).roll(1, 0) + torch.eye(n) + torch.eye(n).roll(-1, 0)
    return around @ (torch.arange(n) % 3 == torch.arange(3)[:, None]).float().T


assert ring(6).max() == 1  # no row meets a color twice
assert ring(7).max() == 2


def enough(number, n):
    near = [(i, (i + d) % n) for i in range(n) for d in (1, 2)]  # columns that meet
    choices = product(range(number), repeat=n)
    return any(all(c[i] != c[j] for i, j in near) for c in choices)


pattern_of_the_ring = (torch.func.jacrev(around)(torch.ones(7))) != 0
assert colors(pattern_of_the_ring).max() + 1 == 4 == of_ring.n_colors
assert [enough(3, 6), enough(3, 7), enough(4, 7)] == [True, False, True]

guesses = {  # wrong ones, of which the boxes above say what they are
    "two rows": J[0] + J[3],
    "first column": J[:, 0],
    "fourth column": J[:, 3],
    "start": 5.0,
    "outside": 0.0,
    "no draft": 2.0,
    "gain": 9.0,
    "pairs": len(at_rest) // 2,
    "columns": len(at_rest),
    "two": len(two.unique()),
    "in a push": len(at_rest) // for_long.n_colors,
    "one for each room": len(T),
    "left": J[1, 0],
    "right": J[1, 2],
    "own": J[1, 1],
    "whole row": J[1].sum(),
    "corridor": found.n_colors,
    "every room": len(pattern_of_the_ring),
    "what goes in": (torch.arange(6) % 3 == 0).float(),
    "third place": J[3, 3],
    "the room itself": J[4, 4],
    "right neighbor": J[4, 5],
    "not filled": J[4, 0],
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** the inputs of a network are one thing, its weights another. They are hidden
# inside the module, and :ref:`with-respect-to-parameters` brings them out. Where all
# columns meet in one row, :ref:`sparse-jacobian` groups the rows, and pulls.
#
# .. asked: sparse Jacobian; Jacobian is mostly zeros; banded or tridiagonal Jacobian;
#    fewer products with colouring; each output depends on few inputs; speed up a sparse
#    Jacobian; diagonal Jacobian cheap; most of the table is zeros; each output looks at
#    few inputs; cheap Jacobian of a local function; save work when the Jacobian has
#    structure
# .. words: local, stencil, neighbours only, finite differences grid, chain of springs,
#    mostly empty, structured, colour, group columns, big but sparse, scipy sparse
