r"""
.. _pushing-forward:

Pushing a change forward
========================

You have decided how to move the inputs, and want to know what the outputs will do. If we
turn the first stove up and the third stove down at the same time, what do heat and fuel
do? ``torch.func.jvp(f, (x,), (u,))`` answers this, for any plan ``u`` that says how fast
each input moves. It computes ``J @ u``, the :term:`Jacobian-vector product`, without the
:term:`Jacobian` ``J``. It goes forward, from the inputs to the outputs, and so it is a
**push**. A pull, such as ``backward``, goes the other way and computes ``v @ J``.
"""

# %%
# Our house has three stoves. Its heat is the sum of their settings, and its fuel is the
# sum of the squares. The plan ``u`` has the shape of the settings ``x``. The first stove
# goes up at a rate of 1, the second stays, and the third goes down at a rate of 1:

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
#    :wrong: values: These are heat and fuel themselves, not their rates.;
#       both up: Here the third stove goes up as well. It goes down.;
#       third stove: This is the third stove alone. The first one moves, too.;
#       squares: Here the squares themselves are subtracted. Each rises at the rate of twice
#          its setting.;
#       fuel up: The first stove adds 2 to the fuel, and the third saves 6. So it falls.;
#       moving stoves: These are the rates of the two stoves that move, not of heat and
#          fuel.;
#       idle: The heat stays, but the third stove saves more fuel than the first one burns.
#
#    With this plan the first stove rises exactly as fast as the third one falls. The table
#    is ``[[1, 1, 1], [2, 4, 6]]``. At which rates do heat and fuel change?

value, pushed = torch.func.jvp(house, (x,), (u,))
print("heat and fuel:", value)
print("their rates:  ", pushed)

# %%
# What the first stove gains in heat, the third one loses. But the fuel falls at a rate of
# 4, because the first stove adds 2 and the third saves 6: they stand in the columns
# ``[1, 2]`` and ``[1, 6]``. So the plan costs no heat and saves fuel. (``jvp`` returns the
# value as well. It takes ``x`` and ``u`` in tuples because a function may have several
# inputs.)
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
# :math:`r`, then :math:`x^2` changes at a rate of :math:`2xr`. At the end of the forward
# pass, the rates of the outputs are there. This direction is called :term:`forward mode`.
#
# This makes a difference to your memory. The push of our house goes along with the forward
# pass, so a value can be forgotten after the last step that uses it. (For networks, see
# *Where this ends*, near the end of the page.) A pull comes afterward and needs values from
# the forward pass, so these have to be kept until then, for every layer of a network.
#
# Push and pull
# -------------
#
# A pull, the :term:`vector-Jacobian product`, multiplies each *row* of the table by the
# price of its output, and adds the rows up. A push does this with the *columns*: each is
# multiplied by the speed of its input. The shapes tell you which one you have: ``u`` looks
# like ``x``, and :math:`Ju`, in code ``J @ u``, looks like ``y``. In the picture ``u`` lies
# above the columns that it multiplies, and their sum stands at the right:

import pullback

J = torch.func.jacrev(house)(x)
names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.draw.jvp(J, u, **names)

# %%
# .. dropdown:: The names JVP and VJP, and prices that land in ``jvp``
#
#    In books and in PyTorch a push is a *Jacobian-vector* product, or :term:`JVP`, and a
#    pull is a *vector-Jacobian* product, or :term:`VJP`. The two names differ only in
#    their order, and people mix them up all the time. Our ``u`` is called the
#    :term:`tangent`, or in one of PyTorch's messages the *forward gradient*.
#
#    You will meet that message if you pass prices to ``jvp`` by mistake, as below. If
#    ``x`` and ``y`` have the same shape, PyTorch cannot notice such a mistake, and the
#    names in your program are all that protects you.

v = torch.tensor([10.0, -1.0])
try:
    torch.func.jvp(house, (x,), (v,))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# One number, two ways to it
# --------------------------
#
# What does a plan *earn*, if a unit of heat is worth 10 and a unit of fuel costs 1? We can
# push the plan forward and then apply the prices. Or we can pull the prices ``[10, -1]``
# back, which says what each stove earns, and then apply the plan.
#
# .. predict::
#    :value: 1
#    :for: the rate at which the plan earns
#    :wrong: fuel as a gain: Here the fuel counts as a gain. It is a cost.;
#       first stove: This is what the first stove earns. The second one moves, too.;
#       second up: Here the second stove goes up. It goes down.;
#       same speed: Here the second stove goes down as fast as the first one goes up. It is
#          twice as fast.;
#       heat alone: This is the heat alone. The plan changes the fuel, too.;
#       no prices: Here the rates of heat and fuel are added without their prices.;
#       a gain: The plan loses. The second stove takes away more than the first one earns.
#
#    Take another plan, ``[1, -2, 0]``: the first stove goes up, and the second goes down
#    twice as fast. At which rate does it earn? The table is ``[[1, 1, 1], [2, 4, 6]]``. Go
#    one of the two ways.

plan, v = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([10.0, -1.0])
value, changes = torch.func.jvp(house, (x,), (plan,))
value, pull = torch.func.vjp(house, x)  # pull is a function: pull(v) gives v @ J
(stoves,) = pull(v)
print("push, then prices:", v @ changes)
print("pull, then plan:  ", stoves @ plan)

# %%
# It loses 4 either way. Forward, heat changes at a rate of −1 and fuel at a rate of −6,
# which is worth :math:`10\cdot(-1)+(-1)\cdot(-6)`. Back, the stoves earn ``[8, 6, 4]``, and
# the plan gives :math:`1\cdot8-2\cdot6`. The two ways add up the same products, *price ×
# rate × speed*, for each output and each stove. They differ in the order of adding, and
# that does not matter. So the brackets may be moved:
#
# .. math::
#
#    v^\top(Ju)=(v^\top J)\,u
#
# In the code, ``torch.func.vjp`` runs the house and returns two things, the value and a
# function, ``pull``, which pulls back any ``v``. What ``pull`` returns is a tuple, with a
# result for each argument of the house. There is only one, ``x``, so we unpack it with a
# comma.
#
# The equation is also a test for a pull that may be wrong, for example if you write an
# operation of your own with its ``backward``. :math:`Ju` can be had without any derivative:
# move the stoves a little along the plan, and see how fast heat and fuel change. With the
# prices, this must give the same number as the pull with the plan, up to the error of the
# small step. Suppose that somebody has written ``x`` for the slope of a square, and
# forgotten the 2:

h = 0.01
along = (house(x + h * plan) - house(x - h * plan)) / (2 * h)
heat_rates, fuel_rates = torch.ones(3), x  # those of the fuel should be 2 * x
forgotten = v[0] * heat_rates + v[1] * fuel_rates
print(f"moved, then prices: {v @ along:.2f}")
print(f"wrong pull, then plan: {forgotten @ plan:.2f}")

# %%
# The numbers differ, so the pull is wrong. Try several plans, for with ``[2, -1, 0]`` this
# wrong pull would give the right number (:ref:`dot-product-test`).
#
# One knob, and all that it moves
# -------------------------------
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
#    :wrong: three slopes: These are the three slopes. A pull looks like the input, the
#          dial, so there is room for one number.;
#       mean: This is the mean of the slopes. Ones add them up.;
#       product: Here the slopes are multiplied. They are added.;
#       temperatures: These are the temperatures of the rooms.;
#       all temperatures: This is the sum of the temperatures. A pull adds up their slopes.;
#       largest: This is the largest of the three slopes. Ones add up all of them.;
#       how many: This is the number of rooms. Their slopes are 1, 2 and 4.
#
#    Could one *pull* do the same? For a curve at many points, one ``backward`` with ones
#    gave all slopes. What does a pull with ``v = [1, 1, 1]`` give here?

value, pull = torch.func.vjp(rooms, dial)
pull(torch.ones(3))[0]

# %%
# It gives the sum of the three slopes, 7. All rooms share the dial, and a pull looks like
# the input, so there is only one number to return.
#
# A whole night from one push
# ---------------------------
#
# Here is where people use a push: a simulation has one knob and many outputs. In the
# evening the heating is switched off. It is 20 degrees inside and 0 outside. What a house
# loses in an hour is its temperature divided by its insulation. Ours has an insulation of
# 5.5, so in the first hour it loses :math:`20/5.5`, about 3.6 degrees. With an insulation
# of 6 it would lose :math:`20/6`, which is less:


def night(insulation):
    temperature, hours = torch.tensor(20.0), []
    for _ in range(16):
        hours.append(temperature)
        temperature = temperature - temperature / insulation
    return torch.stack(hours)


# %%
# .. predict::
#    :expects: largest
#    :for: the hour, counted from 0
#    :wrong: warmest: Then the house is warmest, but both houses are as warm as each other.;
#       coldest: By then both houses are cold, and the lead has melted away.;
#       one late: It is the sixth number. Counted from 0 this is another hour.
#
#    We insulate the house a little better. At the beginning of the night this makes no
#    difference, since it is 20 degrees then in any case. From then on, the better house is
#    the warmer one. At which hour is it ahead by the most degrees? At the last one, or
#    earlier?

insulation = torch.tensor(5.5)
temperatures, warmer = torch.func.jvp(night, (insulation,), (torch.tensor(1.0),))
warmer.round(decimals=2)

# %%
# After 5 hours. Until then, the better insulated house is ahead by more and more. But later
# both houses become cold, and the difference shrinks. One push has told us this for all
# hours. It goes through the simulation once, with a rate beside each number. A pull for
# each hour would have gone back sixteen times.

import matplotlib.pyplot as plt

plt.plot(temperatures, label="temperature")
plt.plot(warmer, "--", label="rise for each unit of insulation")
plt.xlabel("hours")
plt.title("A night, and the push through it")
legend = plt.legend()

# %%
# Training is the other way round: there is one output, the loss, and there are millions of
# inputs, the weights. So it uses ``backward``, which is a pull. And if all you need is one
# plan ``u`` or one ``v``, a single push or pull does it, however many inputs and outputs
# there are.
#
# Here is our plan once more. Change ``u``, and try other plans. Ours turns the first stove
# up at a rate of 1. Can you find one that does so, too, moves the second stove as well,
# keeps the heat, and saves more fuel?

pullback.live(house, torch.tensor([1.0, 2.0, 3.0]), u=u, **names)

# %%
# .. dropdown:: Answer
#
#    ``[1, 1, −2]`` is one of them. The heat changes by :math:`1+1-2`, which is 0, and the
#    fuel by :math:`2+4-12`, so it falls at a rate of 6. How far you can go with such a
#    plan, the rate does not tell (:ref:`once-more`).
#
# .. admonition:: Remember
#
#    - A push, the product :math:`Ju`, says how fast the outputs change when the inputs move
#      along ``u``. ``u`` looks like ``x``, and the result looks like ``y``.
#    - A pull, the product :math:`v^\top J`, says what each input is worth when the outputs
#      have the prices ``v``. ``v`` looks like ``y``, and the result looks like ``x``.
#    - One push tells what one knob does to all outputs. One pull tells what all knobs do to
#      one output, such as a loss.
#
# .. predict:: Try it
#    :for: the rates of heat and fuel
#    :wrong: a: This is a. The question goes on: how fast do heat and fuel change with it?;
#       a up: Here a is 1. Then the second stove burns more fuel, too. It has to go down.;
#       half: Here a is −1/2, and the fuel still rises.;
#       double: Here a is −2, and the fuel falls.;
#       nothing: The fuel stays. The heat rises by more with the first stove than it falls
#          with the second.
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
# .. dropdown:: Where this ends
#
#    The push of our house keeps no values for later. For a network it may: if the weights
#    require gradients, PyTorch keeps values of the forward pass, in case a pull should
#    follow. Put ``torch.no_grad()`` around the push, and they can be forgotten, too.

weight = torch.ones(2, 3, requires_grad=True)
layer = lambda x: torch.tanh(weight @ x)
print("a pull could follow:", torch.func.jvp(layer, (x,), (u,))[0].requires_grad)
with torch.no_grad():
    print("under no_grad:      ", torch.func.jvp(layer, (x,), (u,))[0].requires_grad)

# %%
# .. dropdown:: How we checked this page
#
#    The push is compared with moving the stoves a little along ``u`` in float64, and
#    with ``J @ u``. The two groupings have to agree for random ``u`` and ``v``, too, and
#    they have to disagree if the table is transposed.

point, h = x.double(), 0.01
nudged = (house(point + h * u) - house(point - h * u)) / (2 * h)
torch.testing.assert_close(nudged, pushed.double())
assert torch.equal(pushed, J @ u)
assert torch.equal(v @ pushed, stoves @ u)
unlucky = torch.tensor([2.0, -1.0, 0.0])
assert torch.equal(forgotten @ unlucky, stoves @ unlucky)
assert torch.equal(stoves, torch.tensor([8.0, 6.0, 4.0]))
assert changes.tolist() == [-1, -6]
assert v @ changes == stoves @ plan == -4
products = v[:, None] * J * plan  # for each output and each stove
assert torch.equal(products.sum(1), v * changes)
assert torch.equal(products.sum(0), stoves * plan)
assert (J @ torch.tensor([1.0, 1.0, -2.0])).tolist() == [0, -6]

stored = []


def keep(t):
    stored.append(t.numel())
    return t


with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
    torch.func.jvp(house, (x,), (u,))
    with torch.no_grad():
        without = torch.func.jvp(layer, (x,), (u,))[1]
    assert not stored
    recorded = torch.func.jvp(layer, (x,), (u,))[1]
    assert stored
assert torch.equal(without, recorded)

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
hours = torch.arange(16)
kept_each_hour = 1 - 1 / insulation
torch.testing.assert_close(temperatures, 20 * kept_each_hour**hours)
formula = 20 * hours * kept_each_hour ** (hours - 1) / insulation**2
torch.testing.assert_close(warmer, formula)
assert warmer.argmax() == 5
assert warmer[0] == 0
hour_by_hour = torch.func.vjp(night, insulation)[1]
pulled = torch.stack([hour_by_hour(one_hot)[0] for one_hot in torch.eye(16)])
torch.testing.assert_close(pulled, warmer)
many = torch.linspace(0.1, 1.0, 1000)
all_rooms = lambda dial: torch.tanh(many * dial)
column = torch.func.jvp(all_rooms, (dial,), (torch.tensor(1.0),))[1]
torch.testing.assert_close(column, many * (1 - torch.tanh(2 * many) ** 2))
pull = torch.func.vjp(all_rooms, dial)[1]
one_by_one = torch.stack([pull(one_hot)[0] for one_hot in torch.eye(1000)])
torch.testing.assert_close(one_by_one, column)  # a thousand pulls, or one push
assert (J @ torch.tensor([2.0, -1.0, 0.0])).tolist() == kept.tolist() == [1, 0]

guesses = {  # wrong ones, of which the boxes above say what they are
    "values": house(x),
    "both up": J @ u.abs(),
    "third stove": J @ torch.tensor([0.0, 0.0, -1.0]),
    "squares": torch.stack([u.sum(), x**2 @ u]),
    "fuel up": J @ u * torch.tensor([1.0, -1.0]),
    "fuel as a gain": v.abs() @ changes,
    "first stove": stoves[0],
    "second up": stoves @ plan.abs(),
    "same speed": stoves @ plan.sign(),
    "heat alone": v[0] * changes[0],
    "no prices": changes.sum(),
    "a gain": -(stoves @ plan),
    "three slopes": reaction,
    "mean": reaction.mean(),
    "product": reaction.prod(),
    "temperatures": rooms(dial),
    "all temperatures": rooms(dial).sum(),
    "largest": reaction.max(),
    "a": -2 * J[1, 0] / J[1, 1],
    "a up": J @ torch.tensor([2.0, 1.0, 0.0]),
    "half": J @ torch.tensor([2.0, -0.5, 0.0]),
    "double": J @ torch.tensor([2.0, -2.0, 0.0]),
    "nothing": J @ torch.tensor([1.0, -2.0, 1.0]),
    "moving stoves": u[[0, 2]],
    "idle": J @ torch.tensor([1.0, -2.0, 1.0]),
    "how many": len(reaction),
    "warmest": temperatures,
    "coldest": -temperatures,
    "one late": warmer.roll(1),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** a push needs a plan, which says for each stove whether it goes up or down. What
# if the stoves are off by chance, and nobody knows which way? :ref:`how-far-off`
#
# .. asked: vjp vs jvp; difference between a VJP and a JVP; what is a JVP; forward-mode
#    automatic differentiation; Jacobian times a vector; directional derivative; what
#    happens to the output if I change the input; torch.func.jvp; few inputs and many
#    outputs; effect of a small change of the input; how does changing one input affect
#    all outputs; effect of a nudge of the inputs; sensitivity in one direction; forward
#    derivative
# .. words: nudge, wiggle, perturb, dual, tangent, speed, direction, error propagation,
#    forward sensitivity, what if I move x a little, jax.jvp, slope along a line
