r"""
.. _a-jacobian-of-zeros:

A Jacobian with many zeros, from a few products
===============================================

A long corridor has a thousand rooms, and each exchanges heat with the two rooms beside
it. A solver that looks for the temperatures at which the corridor settles can use the
:term:`Jacobian`. That is a million entries from a thousand products. But a room reacts to
three temperatures only, its own and those of its neighbours, so almost all of the entries
are zero. If we know where the zeros are, we do not have to compute them.
"""

# %%
# Let us begin with six rooms, so that we can see the table. ``T`` holds their
# temperatures. The function says how fast each of them changes: a room gains from its
# neighbours, twice as much from the right as from the left because of a draught. It loses
# more the warmer it is, here as the square of its temperature. Outside it is 0:

import torch


def corridor(T):
    padded = torch.nn.functional.pad(T, (1, 1))  # a 0 at each end
    left, right = padded[:-2], padded[2:]
    return left + 2 * right - T**2


T = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
J = torch.func.jacrev(corridor)(T)
J

# %%
# Each row has at most three entries: 1 for the left neighbour, minus twice the
# temperature for the room itself, and 2 for the right neighbour. A table of this form is
# called *tridiagonal*. Everything else is zero, whatever the temperatures are, because
# the formula of a room does not contain the others.
#
# Two columns in one product
# --------------------------
#
# From :ref:`pushing-forward` you know that a push with a single 1 in ``u`` gives one
# column. Column 0 has entries in rows 0 and 1 only. Column 3 has entries in rows 2, 3 and
# 4. The two columns do not meet in any row, and this is the whole idea: we push them
# *together*.
#
# .. admonition:: Predict
#
#    ``u`` has a 1 for room 0 and a 1 for room 3. The product adds up their two columns.
#    Write down the six numbers, and say for each from which column it comes.

u = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
value, both = torch.func.jvp(corridor, (T,), (u,))
both

# %%
# The numbers −2 and 1 at the start are from column 0. The numbers 2, −8 and 1 after them
# are from column 3. In each row at least one of the two columns is zero, so no two
# entries were added, and we can take the sum apart again without any loss.
#
# In the same way columns 1 and 4 go together, and columns 2 and 5. Let us give a *colour*
# to each group: columns of the same colour have no row in common. Three colours are
# enough, and so are three pushes:

color = torch.arange(6) % 3
groups = torch.stack([(color == c).float() for c in range(3)])
products = torch.stack([torch.func.jvp(corridor, (T,), (u,))[1] for u in groups])
print(groups)
print(products)

# %%
# The first table holds the three ``u``, one in each row. The second holds the three
# products. All 16 entries of the Jacobian are in there, and we only have to put them
# back: the entry in row ``i`` and column ``j`` is in the product of the colour of ``j``,
# at place ``i``:

found = torch.zeros(6, 6)
for i in range(6):
    for j in range(max(i - 1, 0), min(i + 2, 6)):
        found[i, j] = products[color[j], i]
torch.equal(found, J)

# %%
# The number of products did not depend on the number of rooms. For a thousand rooms three
# colours are still enough, since columns that are three apart never meet. Here are three
# products for a thousand rooms. From them we read the diagonal, and the entries to the
# right of it:

many = torch.linspace(0, 10, 1000)
color_of = torch.arange(1000) % 3
pushes = torch.stack(
    [torch.func.jvp(corridor, (many,), ((color_of == c).float(),))[1] for c in range(3)]
)
# entry (i, i) of the table is in the push of the colour of column i, at place i
diagonal = pushes[color_of, torch.arange(1000)]
# entry (i, i + 1) is in the push of the colour of column i + 1, at place i
beside = pushes[color_of[1:], torch.arange(999)]
print(torch.allclose(diagonal, -2 * many), beside.unique())

# %%
# The diagonal is right, and beside it there is a 2 everywhere. That is three products
# instead of a thousand.
#
# How many you need depends on the pattern of the zeros. Suppose that one output, for
# example the average temperature, looks at every room. Then all columns meet in its row,
# and grouping columns saves nothing. It may help to colour the *rows* instead, and pull.
# Here is such a table, in the form of an arrow. Its first output is the sum of all
# inputs, and each of the others looks at one input. All five columns meet in the first
# row. But among the rows only the first has to stay alone, so two pulls are enough:


def arrow(x):
    return torch.cat([x.sum().reshape(1), x[1:] ** 2])


at = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
value, pull = torch.func.vjp(arrow, at)
print(torch.func.jacrev(arrow)(at))
print("first row:   ", pull(torch.tensor([1.0, 0, 0, 0, 0]))[0])
print("other rows:  ", pull(torch.tensor([0.0, 1, 1, 1, 1]))[0])

# %%
# You know a case with a single colour already. If every output depends on its own input
# alone, the table is diagonal, no two columns meet, and one product with ones gives it
# all. That is why ``backward(torch.ones_like(y))`` works for a curve at many points.
#
# Too few colours
# ---------------
#
# What if we try with two colours, every other room?

two = (torch.arange(6) % 2 == 0).float()
torch.func.jvp(corridor, (T,), (two,))[1]

# %%
# In place 1 there is a 3, but no such entry exists. It is the sum of 1 and 2, from the
# rooms on the left and on the right, and from the sum we cannot get the parts back. So
# the pattern has to be right, and it has to be right for *every* input that you use it
# for. At ``T = 0`` the diagonal of our table is zero as well, and a pattern that was read
# off there would be missing it.
#
# Our package finds the pattern from the operations of the function rather than from the
# numbers, and then the colours. Left to itself it chooses between colouring rows and
# columns. With ``mode="forward"`` we ask for columns and pushes, as above:

import pullback

plan = pullback.sparsity(corridor, torch.zeros(6), mode="forward")
print("colours:", plan.n_colors)
sparse = plan.jacobian(corridor, T)
print(torch.equal(sparse.to_dense(), J))
pullback.draw.compression(plan)

# %%
# We asked at zero, and it found three colours all the same. The result is a *sparse*
# tensor, which stores the 16 entries of the pattern and leaves out the rest. For a
# function that makes decisions by looking at values, the pattern may change with the
# input. :func:`pullback.sparsity` says what it can and cannot follow.
#
# .. admonition:: Remember
#
#    - Columns that have no row in common can share one product, and their entries can be
#      told apart afterwards.
#    - A tridiagonal Jacobian takes three products, however large it is.
#    - With too few colours, or with a pattern that lacks an entry, some of the numbers
#      can be sums of several entries, and you cannot see it in the result.
#
# .. admonition:: Try it
#
#    The corridor becomes a ring: the first room and the last are neighbours. With six
#    rooms, are three colours still enough? And with seven? (Look at which columns meet in
#    the first row and in the last.)
#
# .. dropdown:: Answer
#
#    In the first row of the ring, columns 0, 1 and the last one meet. With six rooms they
#    have the colours 0, 1 and 2, and the last row works out as well, so three are enough.
#    With seven rooms, column 6 gets the colour 0 again and meets column 0. No other
#    choice of three colours helps: any three neighbours need three different colours, so
#    the colours have to repeat every three rooms, and seven is not a multiple of three.
#    You need four.
#
# .. dropdown:: How we checked this page
#
#    The table is compared with its formula, and the entries that came from three products
#    with the table. The same has to hold for the whole of a longer corridor. With two
#    colours it must fail.

formula = torch.diag(-2 * T) + 2 * torch.ones(5).diag(1) + torch.ones(5).diag(-1)
assert torch.equal(J, formula)
assert torch.equal(both, J[:, 0] + J[:, 3])
assert torch.equal(found, formula)
torch.testing.assert_close(diagonal, -2 * many)
assert (beside == 2).all()

from itertools import product

longer = torch.linspace(1, 3, 50)
dense = torch.func.jacrev(corridor)(longer)
i, j = dense.nonzero().T
for colours in (2, 3):
    color = torch.arange(50) % colours
    pushes = [
        torch.func.jvp(corridor, (longer,), ((color == c).float(),))[1]
        for c in range(colours)
    ]
    entries = torch.stack(pushes)[color[j], i]
    assert torch.allclose(entries, dense[i, j]) == (colours == 3)
assert plan.n_colors == 3
torch.testing.assert_close(sparse.to_dense(), J)


def ring(n):
    around = torch.eye(n).roll(1, 0) + torch.eye(n) + torch.eye(n).roll(-1, 0)
    return around @ (torch.arange(n) % 3 == torch.arange(3)[:, None]).float().T


assert ring(6).max() == 1  # no row meets a colour twice
assert ring(7).max() == 2


def enough(colours, n):
    near = [(i, (i + d) % n) for i in range(n) for d in (1, 2)]  # columns that meet
    choices = product(range(colours), repeat=n)
    return any(all(c[i] != c[j] for i, j in near) for c in choices)


assert [enough(3, 6), enough(3, 7), enough(4, 7)] == [True, False, True]

table = torch.func.jacrev(arrow)(at)
assert torch.equal(pull(torch.eye(5)[0])[0], table[0])
assert torch.equal(pull(1 - torch.eye(5)[0])[0][1:], table.diagonal()[1:])

# %%
# **Next:** the inputs of a network are one thing, its weights another. They are hidden
# inside the module, and :ref:`with-respect-to-parameters` brings them out.
