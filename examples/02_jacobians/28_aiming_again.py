r"""
.. _aiming-again:

Aiming again: Newton's method
=============================

A robot is to bring its hand to a cup. A program knows how each joint moves the hand, finds
angles that should bring it there, and the hand ends a little beside the cup. Nothing is
broken: the :term:`Jacobian`, the table of rates, is right at one place only, and the joints
have left it. What now? Look where you are, and aim again. On this page you see how fast
that arrives, and you find out whether it always does.
"""

# %%
# Our house has three stoves. The heat is the sum of their settings, and the fuel is the sum
# of the squares. At 1, 2 and 3 it gives 6 units of heat and burns 14 units of fuel. We want
# the same heat from 13 units of fuel. :ref:`hitting-targets` has found the shortest step
# that does this by the table:

import torch
from torch.func import jacrev


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
targets = torch.tensor([6.0, 13.0])
step = torch.linalg.pinv(jacrev(house)(x)) @ (targets - house(x))
step.round(decimals=4) + 0.0  # which makes 0.0 of -0.0

# %%
# Now we move the stoves of the real house, by 0.25, 0 and −0.25.
#
# .. predict::
#    :label: fuel above the target
#    :for: how far above 13
#    :wrong: no miss: This is what the table promises. Every stove that moves burns its
#          square more than the table says.;
#       one stove: This is the square of one stove. Two of them move.;
#       unsquared: This is the length of the step. Its square is what is missed.
#
#    The table promises a fuel of 13, and it is not quite right. How far above 13 does the
#    fuel end?

print(house(x + step))
print("fuel above the target:", (house(x + step)[1] - 13).item())

# %%
# The heat is 6, and the fuel came down to 13.125. A stove that goes from :math:`x` to
# :math:`x+s` burns :math:`x^2+2xs+s^2`. The table knows the rate :math:`2x`, and so the
# :math:`2xs`, but not the :math:`s^2`. So the fuel is too high by the sum of the squares of
# the step.
#
# Again, from the new place
# -------------------------
#
# So we compute the table at the new place, step again, and repeat this a few times:


def aim(at, targets):
    return at + torch.linalg.pinv(jacrev(house)(at)) @ (targets - house(at))


at = x
for _ in range(3):
    at = aim(at, targets)
    print("heat and fuel:", house(at), " above 13:", f"{house(at)[1] - 13:.6f}")

# %%
# This is *Newton's method*. At school it had one number in and one out, and the derivative
# stood where the table stands here. Each step has less to correct than the one before, so
# it is shorter, and what the table misses is the *square* of a short step. That is why it
# arrives so fast, from a good start. Newton's method solves equations in this way. Ours are
# two, heat = 6 and fuel = 13, and each step takes the whole Jacobian. For the robot, ``x``
# holds the angles of the joints and the targets say where the hand should be.
#
# A target that is too low
# ------------------------
#
# Then let us save more. We ask for a heat of 6 from 11 units of fuel. As you will see
# below, the house cannot do that: for a heat of 6 it burns at least 12.
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: It comes to rest at the lowest fuel: There the two rows point the same way, and
#          near this place only a very long step fits the table.;
#       It raises an error: ``pinv`` returns a step for every table of finite numbers.
#
#    We take a hundred steps towards 6 and 11, each with a new table. What does the program
#    do?
#
#    - It comes to rest at the lowest fuel
#    - It raises an error
#    - It never comes to rest

far, fuels = x, []
for _ in range(100):
    far = aim(far, torch.tensor([6.0, 11.0]))
    fuels.append(house(far)[1].item())
print("the first fuels:", [round(fuel, 1) for fuel in fuels[:6]])
jumps = torch.tensor(fuels[50:]).diff().abs()
print("a jump of more than 1 in the last 50 steps:", (jumps > 1).any().item())

# %%
# It jumps about for as long as you let it, and no error is raised. So look at what is
# missing after each step. If it does not shrink, the start may have been too far away, or
# the targets are out of reach.
#
# What throws the stoves away? Move them yourself, so that the heat stays at 6. Where does
# the house burn least? And what do the two rows of the table have in common there?

import pullback

names = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
pullback.live(house, x, torch.tensor([0.0, 1.0]), **names)

# %%
# .. dropdown:: Answer
#
#    It burns 12 with all stoves at 2, and less is out of reach. There the rows of the table
#    are ``[1, 1, 1]`` and ``[4, 4, 4]``. They point the same way, so no small step lowers
#    the fuel and keeps the heat.
#
#    On the way to 11, Newton's method comes near this place. There the rows are nearly
#    parallel, which means that they nearly point the same way, and by the table only a very
#    long step lowers the fuel and keeps the heat. It throws the stoves far away. From there
#    they come back, and are thrown away again.
#
# .. admonition:: Remember
#
#    - The table is right near one point. Newton's method steps, computes the table again,
#      and repeats.
#    - It needs a good start: one near a solution, with a table that can hit the targets.
#    - Mostly it raises no error when it goes astray. Look at what is missing after each
#      step.
#
# .. predict:: Try it
#    :expects: signs
#    :label: step from equal stoves
#    :for: the three signs
#    :wrong: ours: These are the signs of our step from 1, 2 and 3. Here the three stoves
#          are alike, and so are the three entries of each row.;
#       other way: The three stoves are alike, and so are the three entries of each row.;
#       all down: The fuel is 12, and it should be 13.
#
#    All three stoves stand at 2, with a heat of 6 and a fuel of 12, and the targets are 6
#    and 13. One could turn the first stove up and the third down, by about 0.7. Which way
#    does Newton's method turn the three stoves?
#
# .. dropdown:: Answer
#
#    All three up. The step is a weighted sum of the rows ``[1, 1, 1]`` and ``[4, 4, 4]``,
#    so it moves the stoves alike, and so does every step after it. Three equal stoves with
#    a heat of 6 burn 12, so from here it does not reach 6 and 13. Turn one of them a little
#    before you begin.

alike = torch.full((3,), 2.0)
print("step from equal stoves:", aim(alike, targets) - alike)

# %%
# .. dropdown:: How we checked this page
#
#    Newton's method has to arrive from our start and from two other settings, and from
#    equal stoves it must not. The lowest fuel is compared with that of a thousand other
#    settings of the same heat.

torch.testing.assert_close(step, torch.tensor([0.25, 0.0, -0.25]))
torch.testing.assert_close(house(at), targets)
near = x
for _ in range(4):
    near = aim(near, torch.tensor([6.1, 14.0]))
torch.testing.assert_close(house(near), torch.tensor([6.1, 14.0]))
turned = torch.tensor([2.1, 2.0, 2.0])
for _ in range(20):
    turned = aim(turned, targets)
torch.testing.assert_close(house(turned), targets)
torch.testing.assert_close(house(torch.tensor([2.7071, 2.0, 1.2929])), targets)
torch.manual_seed(0)  # any settings will do; the same ones in every run
others = alike + torch.randn(1000, 3) @ (torch.eye(3) - 1 / 3)
torch.testing.assert_close(others.sum(1), torch.full((1000,), 6.0))
assert ((others**2).sum(1) >= 12 - 1e-3).all()
assert house(alike).tolist() == [6, 12]
flat = jacrev(house)(alike)
assert torch.equal(flat[1], 4 * flat[0])
for equal in (0.0, 1.0, 2.0):
    start = torch.full((3,), equal)
    for _ in range(20):
        start = aim(start, targets)
    torch.testing.assert_close(start, start[:1].expand(3))
    assert (house(start)[0] - 6).abs() > 0.2
last = torch.tensor(fuels)
assert (last - 11).abs().min() > 0.5
assert jumps.max() > 0.5

guesses = {  # wrong ones, of which the boxes above say what they are
    "no miss": 0.0,
    "one stove": step[0].item() ** 2,
    "unsquared": step.norm(),
    "It comes to rest at the lowest fuel": bool((last[50:] - 12).abs().max() < 0.1),
    "It raises an error": len(fuels) < 100,
    "It never comes to rest": bool(jumps.max() > 0.5),
    "ours": step.round(decimals=4) + 0.0,
    "other way": 0.0 - step.round(decimals=4),
    "all down": -torch.ones(3),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** a whole street of houses, and we want one table for each.
# :ref:`one-jacobian-per-sample` gets them without computing the zeros between them.
#
# .. asked: Newton's method with a Jacobian; solve nonlinear equations; solve f(x) = 0; root
#    finding with the Jacobian; Newton's method does not converge; Gauss-Newton step
# .. words: converge, fsolve, root, robot arm inverse kinematics, damped, diverge, iterate,
#    Levenberg, step again
