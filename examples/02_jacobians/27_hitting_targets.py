r"""
.. _hitting-targets:

Hitting two targets at once
===========================

Our house gives 6 units of heat and burns 14 units of fuel. We want the same heat from 13
units of fuel. How do we move the three stoves? If one number is to get better, its
gradient says which way to go. Here there are two numbers to watch, and the step that saves
fuel must leave the heat alone. This is the kind of question that needs the whole
:term:`Jacobian`, and this page answers it.
"""

# %%
# Here is the house once more, its table, and what is missing at our settings, nothing in
# the heat and −1 in the fuel:

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
# row of the table, ``[2, 4, 6]``. A step of ``-k * [2, 4, 6]`` lowers the fuel by
# :math:`k(2\cdot2+4\cdot4+6\cdot6)=56k`, so with :math:`k=1/56` it falls by 1.
#
# .. predict::
#    :item: 0
#    :for: the change of the heat
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
# Let the step be ``a`` times the row of the heat plus ``b`` times the row of the fuel.
# We ask for each row what a step along it does to heat and fuel:
#
# ==========================  ===================  =====================
# step along                  heat changes by      fuel changes by
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
#    :item: 1
#    :for: b
#
#    The first equation says :math:`a=-4b`. Put this into the second. What is ``b``?

four = J @ J.T  # the four numbers above
weights = torch.linalg.solve(four, missing)
print(four)
print("a and b:", weights)

# %%
# We need half of the heat's row, less an eighth of the fuel's row. The step is this
# weighted sum of the rows. It is the picture from part 1, with one difference. There we
# chose the weights, and here we have computed which ones hit the targets:

import pullback

step = weights @ J
stoves = ["stove 1", "stove 2", "stove 3"]
names = {"rows": ["heat", "fuel"], "columns": stoves}
pullback.draw.vjp(weights, J, **names, result_name="step")

# %%
# The first stove goes up by a quarter, the third goes down by a quarter, and the second
# stays. That makes sense: the third stove is the one that wastes most. Push this step
# through the table, and both targets are hit:

print("table says:", J @ step)

# %%
# Why only rows?
# --------------
#
# There are other steps to the same targets. If the first stove goes up by 1, the second
# goes down by 2 and the third goes up by 1, then heat changes by :math:`1-2+1=0` and fuel
# by :math:`2-8+6=0`. As far as the table knows, such a movement does nothing at all. We
# may add any amount of it to our step, and still hit both targets:

idle = torch.tensor([1.0, -2.0, 1.0])
for amount in (0.0, 1.0, 2.0):
    other = step + amount * idle
    print(f"{amount}: table says {J @ other}, length {other.norm():.2f}")

# %%
# The length only grows, and here is why. That the idle movement changes neither output
# means that it is at right angles to both rows. Then it is at right angles to our step as
# well, which is a sum of rows. So the step and an idle movement are two sides of a
# triangle with a right angle between them, and together they are the long side. Our step
# is the *shortest* of all steps that hit the targets. And short is what we want, because
# the table is right only near the place where it was computed.
#
# ``torch.linalg.pinv`` finds the same step in one call. It computes the *pseudo-inverse*
# of the table, which takes the place of an inverse where a table is not square:

torch.allclose(torch.linalg.pinv(J) @ missing, step, atol=1e-6)  # the same step

# %%
# (Where the targets cannot all be hit, ``pinv`` still gives an answer, which comes as
# near to them as a step can. ``solve`` fails if one row is a combination of the others.)
#
# The step in the real house
# --------------------------
#
# So far this was only what the table says. Now we move the stoves:

house(x + step)

# %%
# The heat is 6, and the fuel came down to 13.125. It is not quite 13, because the rates
# change on the way. So we compute the table at the new place, step again, and repeat this
# a few times:

at = x
for _ in range(3):
    at = at + torch.linalg.pinv(jacrev(house)(at)) @ (torch.tensor([6.0, 13.0]) - house(at))
    print(house(at))

# %%
# This is *Newton's method*. It solves equations, and for this it needs the whole Jacobian.
# In robotics, for example, ``x`` holds the angles of the joints and the targets say where
# the hand should be. In this part it will come back for a corridor of a thousand rooms,
# and for the weights of a network.
#
# Now choose a step yourself. The two outputs are heat and fuel after the step. Can you
# find another step, with the heat at 6 and the fuel at 13 or less?

pullback.live(lambda step: house(x + step), step)

# %%
# .. admonition:: Remember
#
#    - ``J @ step`` is what a small step does to all outputs at once. To hit several
#      targets, solve it for ``step``.
#    - The shortest such step is a weighted sum of the rows of ``J``.
#      ``torch.linalg.pinv(J) @ missing`` finds it.
#    - The table is right near one point. Newton's method steps, computes the table again,
#      and repeats.
#
# .. predict:: Try it
#    :expects: signs
#    :for: the three signs
#
#    Now we want one unit of heat *more*, for the same fuel. Which stoves go up, and which
#    go down? Think first: which stove gives heat at the lowest price in fuel?
#
# .. dropdown:: Answer
#
#    All stoves give the same heat, and the first burns least for it, so it goes up most.
#    The third burns most, so it goes down. The equations :math:`3a+12b=1` and
#    :math:`12a+56b=0` give :math:`a=7/3` and :math:`b=-1/2`. So the second stove, too,
#    goes up a little, by :math:`7/3-4/2=1/3`.

torch.linalg.pinv(J) @ torch.tensor([1.0, 0.0])

# %%
# .. dropdown:: How we checked this page
#
#    The step is compared with its formula, and its length with that of many other steps
#    that hit the targets. Newton's method has to arrive.

torch.testing.assert_close(step, torch.tensor([0.25, 0.0, -0.25]))
torch.testing.assert_close(J @ step, missing, atol=1e-6, rtol=0)
torch.testing.assert_close(downhill.sum(), torch.tensor(-12 / 56))
torch.testing.assert_close(torch.linalg.pinv(J) @ missing, step, atol=1e-6, rtol=0)
assert not (J @ idle).any()
assert (weights @ J @ idle).abs() < 1e-6  # at right angles to it
for amount in torch.linspace(-1, 1, 20):
    assert (step + amount * idle).norm() > step.norm()
torch.testing.assert_close(house(at), torch.tensor([6.0, 13.0]))
more = torch.linalg.pinv(J) @ torch.tensor([1.0, 0.0])
torch.testing.assert_close(more, torch.tensor([4 / 3, 1 / 3, -2 / 3]), atol=1e-5, rtol=0)

# %%
# **Next:** a whole street of houses, and we want one table for each.
# :ref:`one-jacobian-per-sample` gets them without computing the zeros between them.
#
# .. asked: Newton's method with a Jacobian; solve nonlinear equations; several targets
#    at once; find inputs that give wanted outputs; pseudo-inverse of the Jacobian;
#    least squares step; Gauss-Newton step; solve f(x) = 0; adjust inputs so that
#    outputs match; invert a network; root finding with the Jacobian
