r"""
.. _pushing-forward:

Pushing a change forward
========================

``backward`` starts at the outputs. It asks what they are worth to us, and tells us what
each input is worth. But often we have already decided what to do with the inputs, and
only want to know what will happen. If we turn the first stove up and the third stove
down at the same time, what do heat and fuel do?
"""

# %%
# We write the plan as a tensor ``u`` with the shape of ``x``. It says how fast each input
# moves. The first stove goes up at a rate of 1, the second stays, the third goes down:

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
J = torch.func.jacrev(house)(x)
u = torch.tensor([1.0, 0.0, -1.0])
J

# %%
# .. admonition:: Predict
#
#    Look at the columns of the first and the third stove. What does ``u`` do to the heat,
#    and what does it do to the fuel?

value, push = torch.func.jvp(house, (x,), (u,))
print(value)
print(push)

# %%
# The heat does not change, because what the first stove adds, the third takes away. The
# fuel falls at a rate of 4: the first stove adds 2, and the third saves 6. So the plan
# costs no heat and saves fuel, and we should follow it for a while.
#
# In terms of the table, each *column* was multiplied by the speed of its input, and the
# columns were added up. This is the product :math:`Ju`, in code ``J @ u``. It is called
# the :term:`Jacobian-vector product`, or :term:`JVP`, while ``v @ J`` is the
# *vector-Jacobian* product, or :term:`VJP`. The names differ only in their order, and
# people mix them up all the time. The shapes tell you which one you have: ``u`` looks
# like ``x``, and :math:`Ju` looks like ``y``. In the picture ``u`` lies above the columns
# that it multiplies, and their sum stands at the right:

import pullback

names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.draw.jvp(J, u, **names)

# %%
# Walking forward
# ---------------
#
# ``jvp`` did not build the table either. It ran the house once, from the stoves to the
# outputs, and let every number carry its rate of change along. You can do it in your
# head. We write each number together with its rate:
#
# ==============  ===========  ===========  ============  ===================
# step            stove 1      stove 2      stove 3       added up
# ==============  ===========  ===========  ============  ===================
# setting         1, rate 1    2, rate 0    3, rate −1    heat 6, rate 0
# its square      1, rate 2    4, rate 0    9, rate −6    fuel 14, rate −4
# ==============  ===========  ===========  ============  ===================
#
# The rule for the square is the one from school: if :math:`x` changes at a rate of
# :math:`r`, then :math:`x^2` changes at a rate of :math:`2xr`. At the end of the
# forward pass, the rates of the outputs are there. This is called :term:`forward mode`.
# There is no walk back, so nothing has to be kept for it.
#
# One number, two ways to it
# --------------------------
#
# What does the plan *earn*, with our prices of 10 for heat and −1 for fuel? We can push
# the plan forward and then apply the prices. Or we can pull the prices back and then
# apply the plan:

v = torch.tensor([10.0, -1.0])
value, pull = torch.func.vjp(house, x)
(pulled,) = pull(v)
print("v · (J u) =", v @ push)
print("(vᵀJ) · u =", pulled @ u)

# %%
# It earns 4 either way. In the first, heat changes by 0 and fuel by −4, which is worth
# :math:`10\cdot0+(-1)\cdot(-4)`. In the second, the stoves earn ``[8, 6, 4]``, and the
# plan gives :math:`8-4`. Both are the same product of three things, only with different
# brackets:
#
# .. math::
#
#    v^\top(Ju)=(v^\top J)\,u
#
# If both sides belong to the same function at the same point, where it is smooth, the two
# numbers are equal up to rounding. (A layer like Dropout draws anew in each run, so
# switch it off first.) This makes a good test. If you have written a ``backward`` by
# hand, take a random ``u`` and a random ``v`` and compare the two numbers. If they differ
# by more than rounding, one of the two directions is wrong. If they agree, both
# directions may still be wrong in the same way, so compare with a nudge as well.
#
# Which way is cheaper?
# ---------------------
#
# A push with a single 1 in ``u`` gives one column. A pull with a single 1 in ``v`` gives
# one row. If you want the whole table, and know nothing about its zeros, it takes as many
# pushes as there are inputs, or as many pulls as there are outputs.
#
# ==============================  ========  =========  ========  ===============
# function                        outputs   inputs     take      products
# ==============================  ========  =========  ========  ===============
# our house                       2         3          pulls     2
# a loss of a million weights     1         1,000,000  a pull    1
# one dial, a thousand rooms      1000      1          a push    1
# ==============================  ========  =========  ========  ===============
#
# Let us see the last line. One dial sets the heating of a thousand rooms, some of which
# react more strongly than others. We push once, and then pull once for every room:

reaction = torch.linspace(0.1, 1.0, 1000)


def all_rooms(dial):
    return torch.tanh(reaction * dial)


dial = torch.tensor(2.0)
value, column = torch.func.jvp(all_rooms, (dial,), (torch.tensor(1.0),))
value, pull = torch.func.vjp(all_rooms, dial)
rows = [pull(one_hot)[0] for one_hot in torch.eye(1000)]
print("one push:", column.shape, " pulls:", len(rows))
torch.allclose(column, torch.stack(rows))

# %%
# A single push gave the slopes of all thousand rooms. Pulling took a thousand products. A
# pull with ones would give one number, the sum of the slopes, because all rooms share the
# dial.
#
# For training it is the other way round. There is one output, the loss, and there are
# millions of inputs. So training uses ``backward``, which goes in *reverse*. Forward mode
# would need a push for each weight to get the whole gradient.
#
# u looks like x
# --------------
#
# If you pass prices to ``jvp`` by mistake, it refuses them, as long as ``x`` and ``y``
# have different shapes:

try:
    torch.func.jvp(house, (x,), (v,))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# The *forward gradient* in this message is our ``u``. Elsewhere it is called the
# :term:`tangent`. If ``x`` and ``y`` have the same shape, PyTorch cannot notice such a
# mistake, and the names in your program are all that protects you.
#
# .. admonition:: Remember
#
#    - The JVP :math:`Ju` says how fast the outputs change when the inputs move along
#      ``u``. ``u`` looks like ``x``, and the result looks like ``y``.
#    - The VJP :math:`v^\top J` says what each input is worth when the outputs have the
#      prices ``v``. ``v`` looks like ``y``, and the result looks like ``x``.
#    - With a single 1, a push gives a column and a pull gives a row. For a table without
#      known zeros, begin with the one of which you need fewer.
#
# .. admonition:: Try it
#
#    Find a plan ``u`` that leaves the *fuel* as it is and adds heat. (Two entries are
#    enough. Look at ``[2, 4, 6]``.) Check it with ``torch.func.jvp(house, (x,), (u,))``.
#
# .. dropdown:: Answer
#
#    For example ``u = [2, -1, 0]``. The fuel changes at a rate of
#    :math:`2\cdot2-1\cdot4=0`, and the heat at :math:`2-1=1`. The first stove may go up
#    twice as fast as the second goes down, because it burns half as much extra fuel.
#    ``[3, 0, -1]`` works as well, and adds heat at a rate of 2.
#
# .. dropdown:: How we checked this page
#
#    The push is compared with moving the stoves a little along ``u`` in float64, and with
#    ``J @ u``. The two brackets have to agree for random ``u`` and ``v``, too, and they
#    have to disagree if the table is turned over.

point, h = x.double(), 1e-6
moved = (house(point + h * u) - house(point - h * u)) / (2 * h)
torch.testing.assert_close(moved, push.double())
assert torch.equal(push, J @ u)
assert torch.equal(v @ push, pulled @ u)

torch.manual_seed(0)  # any numbers will do; the same ones in every run
S = torch.randn(4, 4, dtype=torch.float64)
a, b = torch.randn(2, 4, dtype=torch.float64)
p = torch.randn(4, dtype=torch.float64)
curved = lambda x: torch.tanh(S @ x)
pushed = torch.func.jvp(curved, (p,), (b,))[1]
pulled_back = torch.func.vjp(curved, p)[1](a)[0]
torch.testing.assert_close(a @ pushed, pulled_back @ b)
assert not torch.allclose(a @ torch.func.jacrev(curved)(p).T @ b, a @ pushed)
torch.testing.assert_close(column, reaction * (1 - torch.tanh(2 * reaction) ** 2))
assert (J @ torch.tensor([2.0, -1.0, 0.0])).tolist() == [1, 0]
assert (J @ torch.tensor([3.0, 0.0, -1.0])).tolist() == [2, 0]

# %%
# **Next:** a whole street of houses, and we want one table for each.
# :ref:`one-jacobian-per-sample` gets them without computing the zeros between them.
