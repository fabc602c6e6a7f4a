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
# moves. The first stove goes up at a rate of 1, the second stays, and the third goes down
# at a rate of 1:

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
u = torch.tensor([1.0, 0.0, -1.0])

# %%
# .. predict::
#    :value: 2
#    :for: the rates of heat and fuel
#    :also: rate −4
#
#    With this plan the first stove rises exactly as fast as the third one falls. The table
#    is ``[[1, 1, 1], [2, 4, 6]]``. At which rates do heat and fuel change?

value, pushed = torch.func.jvp(house, (x,), (u,))
print("heat and fuel:", value)
print("their rates:  ", pushed)

# %%
# What the first stove gains in heat, the third one loses. But the fuel falls at a rate of
# 4, because the first stove adds 2 and the third saves 6: they stand in the columns
# ``[1, 2]`` and ``[1, 6]``. So the plan costs no heat and saves fuel. The two rates are the
# :term:`Jacobian-vector product`, or :term:`JVP`, of the table and the plan.
# (``torch.func.jvp`` takes the function, its inputs and their ``u``. The brackets around
# ``x`` and ``u`` are there because a function may have several inputs. It returns the value
# as well.)
#
# Walking forward
# ---------------
#
# ``jvp`` did not need the table for this. It ran the house once, from the stoves to the
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
# A walk back needs values from the forward pass, so these have to be kept. In forward
# mode, each value can be forgotten after the last step that uses it.
#
# Push and pull
# -------------
#
# In terms of the table, each *column* was multiplied by the speed of its input, and the
# columns were added up. This is the product :math:`Ju`, in code ``J @ u``. We call it a
# *push*, because it takes a change of the inputs forward to the outputs. The product with
# ``v`` that you know is a *pull*, because it takes prices back. The shapes tell you which
# one you have: ``u`` looks like ``x``, and :math:`Ju` looks like ``y``. In the picture
# ``u`` lies above the columns that it multiplies, and their sum stands at the right:

import pullback

J = torch.func.jacrev(house)(x)
names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.draw.jvp(J, u, **names)

# %%
# .. dropdown:: Other names for the same things
#
#    In books and in PyTorch a push is a :term:`Jacobian-vector product`, or :term:`JVP`.
#    A pull is a *vector-Jacobian* product, or :term:`VJP`. The two names differ only in
#    their order, and people mix them up all the time. Our ``u`` is called the
#    :term:`tangent`, or in one of PyTorch's messages the *forward gradient*.
#
#    You will meet that message if you pass prices to ``jvp`` by mistake, as below. If ``x``
#    and ``y`` have the same shape, PyTorch cannot notice such a mistake, and the names in
#    your program are all that protects you.

v = torch.tensor([10.0, -1.0])
try:
    torch.func.jvp(house, (x,), (v,))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# One number, two ways to it
# --------------------------
#
# What does the plan *earn*, with our prices of 10 for heat and −1 for fuel? We can push
# the plan forward and then apply the prices. Or we can pull the prices back and then
# apply the plan. ``torch.func.vjp`` runs the house, and returns its value together with a
# function that pulls any ``v`` back. This function returns a result for each input of the
# house, and as there is only one, we unpack it with a comma:

v = torch.tensor([10.0, -1.0])
value, pull = torch.func.vjp(house, x)
(pulled,) = pull(v)
print("push, then prices:", v @ pushed)
print("pull, then plan:  ", pulled @ u)

# %%
# It earns 4 either way. In the first line, heat changes at a rate of 0 and fuel at a rate
# of −4, which is worth :math:`10\cdot0+(-1)\cdot(-4)`. In the second line, the stoves earn
# ``[8, 6, 4]``, and the plan gives :math:`8-4`. Both are the same product of three things,
# only with different brackets:
#
# .. math::
#
#    v^\top(Ju)=(v^\top J)\,u
#
# This holds as long as PyTorch takes the same ``J`` on both sides.
#
# .. dropdown:: Where it takes two different ``J``
#
#    For a push PyTorch uses the forward rule of each operation, and for a pull the backward
#    rule, and for a few operations they differ. For
#    ``torch.where(x > 0, x.sqrt(), 0 * x)`` at 0, the push gives 0 and the pull NaN
#    (:ref:`where-and-its-branches`).
#
# .. dropdown:: A test for a backward of your own
#
#    Suppose that you have written a ``backward`` by hand and do not trust it yet. It gives
#    you :math:`(v^\top J)\,u`, the right-hand side of the formula above. The left-hand
#    side, :math:`v^\top(Ju)`, needs only the forward pass: nudge the inputs along ``u``,
#    and see how the outputs change. Below, somebody has forgotten the 2 in the slope of the
#    square. Then the stoves earn ``[9, 8, 7]``, and the plan 2 instead of 4.
#
#    For a test of your own, draw ``u`` and ``v`` at random, so that they miss no entry of
#    the table, and switch off layers such as Dropout, which act differently in each run.
#    ``torch.autograd.gradcheck`` with ``fast_mode=True`` does such a test for you. (Without
#    it, it compares the whole table.) :ref:`dot-product-test` goes on from here.

h = 0.01
point = x.double()  # a test needs the digits of float64
nudged = (house(point + h * u) - house(point - h * u)) / (2 * h)
forgot_the_2 = torch.tensor([10.0, 10.0, 10.0]) - x
print("nudged, then prices: ", v.double() @ nudged)
print("right backward, plan:", pulled @ u)
print("wrong backward, plan:", forgot_the_2 @ u)

# %%
# Which way is cheaper?
# ---------------------
#
# A push with a single 1 in ``u`` gives one column, and a pull with a single 1 in ``v``
# gives one row. So the whole table takes as many pushes as there are inputs, or as many
# pulls as there are outputs. (A table with many zeros may take fewer:
# :ref:`a-jacobian-of-zeros`.)
#
# Suppose that one dial sets the temperatures of three rooms. For a turn of the dial the
# rooms get warmer by 1, 2 and 4 degrees. One push gives all three slopes:

reaction = torch.tensor([1.0, 2.0, 4.0])


def rooms(dial):
    return reaction * dial


dial = torch.tensor(2.0)
value, column = torch.func.jvp(rooms, (dial,), (torch.tensor(1.0),))
column

# %%
# .. predict::
#    :for: what the pull gives
#
#    Could one *pull* do the same? For a curve at many points, one ``backward`` with ones
#    gave all slopes. What does a pull with ``v = [1, 1, 1]`` give here?

value, pull = torch.func.vjp(rooms, dial)
pull(torch.ones(3))[0]

# %%
# It gives the sum of the three slopes, 7. All rooms share the dial, and a pull looks like
# the input, so there is only one number to return. To tell the slopes apart takes three
# pulls, with a single 1 each, and for a thousand rooms a thousand, where one push is
# enough.
#
# For training it is the other way round. There is one output, the loss, and there are
# millions of inputs. So training uses ``backward``, which goes in *reverse*. Forward mode
# would need a push for each weight to get the whole gradient.
#
# Choose *J u* below, and try other plans. Can you find one, with some stove moving, along
# which heat and fuel *both* stay as they are?

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]))

# %%
# .. dropdown:: Answer
#
#    ``[1, −2, 1]`` is one, and so are its multiples. The heat changes by :math:`1-2+1` and
#    the fuel by :math:`2-8+6`. The page :ref:`hitting-targets` makes use of it.
#
# .. admonition:: Remember
#
#    - A push, the product :math:`Ju`, says how fast the outputs change when the inputs move
#      along ``u``. ``u`` looks like ``x``, and the result looks like ``y``.
#    - A pull, the product :math:`v^\top J`, says what each input is worth when the outputs
#      have the prices ``v``. ``v`` looks like ``y``, and the result looks like ``x``.
#    - With a single 1, a push gives a column and a pull gives a row. For a whole table
#      in which you know of no zeros, use whichever you need fewer of.
#
# .. predict:: Try it
#    :for: the rates of heat and fuel
#
#    The plan ``u = [2, a, 0]`` should leave the *fuel* as it is. Which number is ``a``?
#    (Look at ``[2, 4, 6]``.) And how fast do heat and fuel change with this plan?
#
# .. dropdown:: Answer
#
#    The fuel changes at a rate of :math:`2\cdot2+4a`, so ``a`` is −1, and the heat
#    rises at a rate of :math:`2-1=1`. The first stove may go up twice as fast as the
#    second goes down, because it burns half as much extra fuel.

value, kept = torch.func.jvp(house, (x,), (torch.tensor([2.0, -1.0, 0.0]),))
kept

# %%
# .. dropdown:: How we checked this page
#
#    The push is compared with moving the stoves a little along ``u`` in float64, and
#    with ``J @ u``. The two brackets have to agree for random ``u`` and ``v``, too, and
#    they have to disagree if the table is transposed, and where the two rules differ.

torch.testing.assert_close(nudged, pushed.double())
assert torch.equal(pushed, J @ u)
assert torch.equal(v @ pushed, pulled @ u)
assert not (J @ torch.tensor([1.0, -2.0, 1.0])).any()

torch.manual_seed(0)  # any numbers will do; the same ones in every run
S = torch.randn(4, 4, dtype=torch.float64)
a, b = torch.randn(2, 4, dtype=torch.float64)
p = torch.randn(4, dtype=torch.float64)
curved = lambda x: torch.tanh(S @ x)
pushed = torch.func.jvp(curved, (p,), (b,))[1]
pulled_back = torch.func.vjp(curved, p)[1](a)[0]
torch.testing.assert_close(a @ pushed, pulled_back @ b)
assert not torch.allclose(a @ torch.func.jacrev(curved)(p).T @ b, a @ pushed)
assert torch.equal(torch.stack([pull(one_hot)[0] for one_hot in torch.eye(3)]), column)
many = torch.linspace(0.1, 1.0, 1000)
all_rooms = lambda dial: torch.tanh(many * dial)
column = torch.func.jvp(all_rooms, (dial,), (torch.tensor(1.0),))[1]
torch.testing.assert_close(column, many * (1 - torch.tanh(2 * many) ** 2))
pull = torch.func.vjp(all_rooms, dial)[1]
one_by_one = torch.stack([pull(one_hot)[0] for one_hot in torch.eye(1000)])
torch.testing.assert_close(one_by_one, column)  # a thousand pulls, or one push
assert (J @ torch.tensor([2.0, -1.0, 0.0])).tolist() == kept.tolist() == [1, 0]
root = lambda x: torch.where(x > 0, x.sqrt(), 0 * x)
zero, one = torch.tensor(0.0), torch.tensor(1.0)
assert torch.func.jvp(root, (zero,), (one,))[1] == 0
assert torch.func.vjp(root, zero)[1](one)[0].isnan()
assert (
    torch.func.jvp(root, (one,), (one,))[1] == torch.func.vjp(root, one)[1](one)[0] == 0.5
)

# %%
# **Next:** so far we chose a plan and looked at what it does. :ref:`hitting-targets` asks
# the other way round: which plan does what we want?
#
# .. asked: vjp vs jvp; difference between a VJP and a JVP; what is a JVP; forward-mode
#    automatic differentiation; Jacobian times a vector; directional derivative; what
#    happens to the output if I change the input; torch.func.jvp; few inputs and many
#    outputs; effect of a small change of the input; how does changing one input affect
#    all outputs; effect of a nudge of the inputs; sensitivity in one direction; forward
#    derivative
# .. words: nudge, wiggle, perturb, dual, tangent, speed, direction, error propagation,
#    forward sensitivity, what if I move x a little, jax.jvp, slope along a line
