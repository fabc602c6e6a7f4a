r"""
.. _surrogate-losses:

Surrogate losses: what does a line with ``detach`` differentiate?
=================================================================

You read the code of a paper and find ``loss = (g.detach() * x).sum()``. The value of this
loss goes up and down and is sometimes negative, and still the model gets better. Such a
line is a *surrogate loss*. The value of a surrogate loss need not become small. The line
is written so that ``backward`` leaves a particular gradient behind. So it is another way
of passing a ``v``.
"""

# %%
# You meet such lines in several kinds of programs. In score distillation (SDS, Poole et
# al., 2022) a trained diffusion model improves a picture, or a scene in three dimensions.
# In other programs a policy is trained by reward, a network learns from a slowly moving
# copy of itself, or a model contains a choice that has no slope. We write one of these
# programs in full, and then read the lines of the others.
#
# Our scene is a closed curve. It has sixteen numbers, the strengths of four waves in each
# of the two coordinates, with a cosine and a sine for each wave. We render it as 200 points
# in the plane. A point plays the part of a picture here, and the diffusion model knows
# which points are likely. A trained network would know this from examples. Our model knows
# the examples themselves, ``data``, and so it can compute what such a network estimates:
# given points to which noise of strength ``sigma`` was added, it estimates this noise.

import torch


def clover(angle):
    r = 1 + 0.3 * torch.cos(3 * angle)
    return torch.stack([r * torch.cos(angle), r * torch.sin(angle)], dim=1)


angle = torch.linspace(0, 2 * torch.pi, 201)[:-1]
data = clover(angle)


def predict_noise(noisy, sigma):
    """Return what a diffusion model trained on ``data`` answers for noisy points."""
    log_weight = -(torch.cdist(noisy, data) ** 2) / (2 * sigma**2)
    return (noisy - log_weight.softmax(dim=-1) @ data) / sigma


# %%
# The program
# -----------
#
# Each step renders the scene, adds noise to the points, and asks the model which noise it
# sees. For points on the clover the answer is nearly the noise that was added, if we
# average over many draws. For other points it is not: the model mistakes a part of the
# *scene* for noise, and this part should go away. The difference between the answer and
# the added noise is ``g``, which has one arrow for each point. The block above, this
# block and the next one are the whole program. Copy them together:


def distil(scene, parameters, predict_noise, steps=300, lr=0.02):
    """Move a scene to where a diffusion model wants it; return what happened."""
    optimizer = torch.optim.Adam(parameters, lr=lr)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    losses, scenes = [], []
    for _ in range(steps):
        x = scene()
        shape = (len(x),) + (1,) * (x.dim() - 1)  # one sigma for each point, or picture
        with torch.no_grad():
            sigma = 0.05 + 0.1 * torch.rand(shape).to(x)
            noise = torch.randn_like(x)
            g = (predict_noise(x + sigma * noise, sigma) - noise) / len(x)
        loss = (g * x).sum()  # its gradient with respect to x is g
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        losses.append(loss.item())
        scenes.append(x.detach())
    return losses, scenes


# %%
# We start with a circle, which is the first wave alone:

torch.manual_seed(0)  # the same noise on every build
order = torch.arange(1, 5) * angle[:, None]
waves = torch.cat([order.cos(), order.sin()], dim=1)
strength = torch.zeros(8, 2)
strength[0, 0] = strength[4, 1] = 1.0  # x = cos(angle), y = sin(angle)
strength.requires_grad_()

losses, scenes = distil(lambda: waves @ strength, [strength], predict_noise)

# %%
# The picture shows the scene at the start and at the end. The arrows start at every tenth
# point of the circle. Each arrow shows the direction in which its point moves at first,
# which is opposite to its ``g``. For the arrows we have averaged over many draws of the
# noise:

import matplotlib.pyplot as plt


def mean_g(x, draws=300):
    sigma = 0.05 + 0.1 * torch.rand(draws, len(x), 1)
    noise = torch.randn(draws, *x.shape)
    return (predict_noise(x + sigma * noise, sigma) - noise).mean(dim=0)


circle = scenes[0]
arrows = -mean_g(circle)
figure, ax = plt.subplots(layout="constrained", figsize=(4.6, 4.6))
ax.plot(*data.T, color="0.75", linewidth=6, label="data")
ax.plot(*circle.T, color="C1", linewidth=1, label="scene at first")
ax.quiver(*circle[::10].T, *arrows[::10].T, width=0.008, color="C1")
ax.plot(*scenes[-1].T, ".", color="C0", markersize=4, label="scene at the end")
ax.set_aspect("equal")
ax.legend(loc="center")
title = ax.set_title("A circle becomes the clover that the model knows")

# %%
# The scene has become a clover. A training log would show the loss, as in the upper plot.
# The lower plot shows the mean distance of the points from the clover, which such a log
# does not show:

distance = [torch.cdist(x, data).min(dim=1).values.mean().item() for x in scenes]

figure, (above, below) = plt.subplots(2, 1, layout="constrained", figsize=(4.6, 4.2))
above.plot(losses, linewidth=0.8)
above.axhline(0, color="0.6", linewidth=0.8)
above.set_ylabel("surrogate loss")
below.plot(distance)
below.set_ylabel("distance from data")
below.set_xlabel("step")
title = figure.suptitle("The loss is soon around zero, the distance falls")

# %%
# The points have come close to the clover. About half of the last hundred losses are
# negative, and a negative value means nothing here:

negative = [loss < 0 for loss in losses[-100:]].count(True)
print(f"distance: {distance[0]:.3f}, then {distance[-1]:.3f}")
print(f"negative: {negative} of the last 100")

# %%
# The line with the v
# -------------------
#
# The line is ``loss = (g * x).sum()``. As ``g`` was made under ``no_grad``, it counts as a
# number, and the derivative of the sum with respect to ``x`` is ``g``. So ``g`` arrives at
# the rendered points, and the :term:`Jacobian` of the renderer pulls it back to the sixteen
# strengths. **v is the noise that the model sees minus the noise that was added**, for each
# point, divided by the number of points. You can also pass ``g`` to ``backward`` without a
# loss, or write the line as a square, as some programs do in order to have a value to log.
# Here are the ways to write it:

x = waves @ strength
g = -arrows / len(x)
spellings = {
    "(g * x).sum()": (g * x).sum(),
    "half a square": 0.5 * ((x - (x - g).detach()) ** 2).sum(),
}
found = {}
for name, loss in spellings.items():
    (found[name],) = torch.autograd.grad(loss, strength, retain_graph=True)
    print(f"{name:13} {loss.item():9.4f} {found[name].norm():9.4f}")
strength.grad = None
x.backward(g)
found["x.backward(g)"] = strength.grad
print(f"x.backward(g)           {strength.grad.norm():9.4f}")

# %%
# The first number in a line of the output is the value of the loss, which ``x.backward(g)``
# does not have. The second is the length of the gradient with respect to the sixteen
# strengths. :ref:`loss-for-a-gradient` says more about these three ways.
#
# How to read such a line
# -----------------------
#
# There is one rule: **a detached part is a number. Write its value there, and differentiate
# what is left.** The rest depends on the network through some tensor ``y``, and the network
# receives nothing from the loss but the ``v`` that arrives at ``y``. So for each line that
# you meet, two questions are enough. Which tensor is ``y``, the last tensor that is not
# detached? And which ``v`` arrives there? If there are two such tensors, ask both questions
# for each of them.
#
# Here are twelve lines from well-known programs. ``stop(t)`` stands for ``t.detach()``,
# and D for ``y.sigmoid()``. The last column shows the ``v`` that the line sends to ``y``:
#
# .. list-table::
#    :header-rows: 1
#    :widths: 26 44 30
#
#    * - y is
#      - the line
#      - v
#    * - a rendered picture (SDS)
#      - ``(stop(g) * y).sum()``
#      - g
#    * - the same, with a value to log
#      - ``0.5 * ((y - stop(y - g)) ** 2).sum()``
#      - g
#    * - log-probabilities of actions (REINFORCE)
#      - ``-(stop(A) * y).sum()``
#      - −A
#    * - the same, in PPO's first step
#      - ``-(A * (y - stop(y)).exp()).sum()``
#      - −A
#    * - a soft choice (straight-through)
#      - ``f(y + stop(y.round() - y))``
#      - f′ at the rounded y
#    * - a part that should learn s times as fast
#      - ``f(s * y + stop((1 - s) * y))``
#      - s f′(y)
#    * - values of states (target network)
#      - ``((y - stop(r + 0.9 * y_next)) ** 2).sum()``
#      - 2 (y − target)
#    * - the student's output (EMA teacher)
#      - ``((y - stop(teacher)) ** 2).sum()``
#      - 2 (y − teacher)
#    * - the score of a fake (GAN, in theory)
#      - ``(1 - D).log().sum()``
#      - −D
#    * - the same, non-saturating
#      - ``-D.log().sum()``
#      - −(1 − D)
#    * - losses of several tasks (uncertainty weighting)
#      - ``(y * torch.exp(-s) + s).sum()``
#      - exp(−s)
#    * - a loss divided by itself
#      - ``(y / stop(y)).sum()``
#      - 1/y
#
# In code, write ``-logsigmoid(y)`` for the line ``-D.log()`` and ``logsigmoid(-y)`` for
# ``(1 - D).log()``. If a score is far from 0, D rounds to 0 or 1. The line ``-D.log()``
# sends NaN if D is 0, and ``(1 - D).log()`` sends NaN if D is 1. The line of PPO is for a
# ratio whose two log-probabilities come from the same forward pass. If the old
# log-probabilities were stored, and Dropout has drawn a different mask since then, the
# ratio is not 1, and it multiplies ``v``.
#
# The two lines of the GAN and the line of uncertainty weighting have no ``detach``. They
# are in the table because you need not watch their values either. Most of the lines have a
# page: :ref:`reinforce`, :ref:`ratio-of-one`,
# :ref:`discrete-choices`, :ref:`gradient-reversal` (gradient scaling with a negative s),
# :ref:`stop-gradient`, :ref:`learned-loss-weight`.
#
# We compare every line with its ``v``, for three random numbers in ``y`` and in each of
# the other tensors. In each pair the first function is the line, and the second is the
# formula:

stop = torch.Tensor.detach
torch.manual_seed(0)  # the same numbers on every build
g, A, r, teacher, s = torch.randn(5, 3, dtype=torch.float64)


def f(out):
    return (out**3).sum()  # stands for what comes after; f' is 3 out²


rows = {
    "SDS": (lambda y: (stop(g) * y).sum(), lambda y: g),
    "the square": (lambda y: 0.5 * ((y - stop(y - g)) ** 2).sum(), lambda y: g),
    "REINFORCE": (lambda y: -(stop(A) * y).sum(), lambda y: -A),
    "PPO, step 1": (lambda y: -(A * (y - stop(y)).exp()).sum(), lambda y: -A),
    "straight-through": (
        lambda y: f(y + stop(y.round() - y)),
        lambda y: 3 * y.round() ** 2,
    ),
    "s times as fast": (
        lambda y: f(s * y + stop((1 - s) * y)),
        lambda y: s * 3 * y**2,
    ),
    "target network": (
        lambda y: ((y - stop(r + 0.9 * y.roll(1))) ** 2).sum(),
        lambda y: 2 * (y - (r + 0.9 * y.roll(1))),
    ),
    "EMA teacher": (
        lambda y: ((y - stop(teacher)) ** 2).sum(),
        lambda y: 2 * (y - teacher),
    ),
    "GAN, in theory": (
        lambda y: (1 - y.sigmoid()).log().sum(),
        lambda y: -1 / (1 + (-y).exp()),
    ),
    "non-saturating": (
        lambda y: -y.sigmoid().log().sum(),
        lambda y: -1 / (1 + y.exp()),
    ),
    "uncertainty": (
        lambda y: (y * torch.exp(-s) + s).sum(),
        lambda y: torch.exp(-s),
    ),
    "y / stop(y)": (lambda y: (y / stop(y)).sum(), lambda y: 1 / y),
}

# %%
# For each line we print its value, the first entry of the ``v`` that arrived at ``y``,
# and whether all three entries agree with the formula:

y = (0.2 + 2 * torch.rand(3, dtype=torch.float64)).requires_grad_()
arrived = {}
for name, (line, formula) in rows.items():
    loss = line(y)
    (arrived[name],) = torch.autograd.grad(loss, y)
    agrees = torch.allclose(arrived[name], formula(y.detach()))
    print(f"{name:16} {loss.item():6.2f} {arrived[name][0]:6.2f} {agrees}")

# %%
# The first two lines of the output show the same ``v`` and different values, and so do the
# next two. You can read off three more things:
#
# - The two losses of a GAN push a fake in the same direction, but not equally hard. If the
#   critic is sure of a fake, D is near 0. Then the loss from the theory pushes with D, that
#   is, hardly at all, and the non-saturating loss pushes with 1 − D. A detached weight
#   turns the first into the second: ``(stop((1 - D) / D) * (1 - D).log()).sum()``.
# - In uncertainty weighting the gradient at ``s`` is 1 − y exp(−s). It is zero where
#   exp(−s) = 1/y. So when ``s`` has settled, the network gets the same gradient as from
#   ``y / stop(y)``, and this is the gradient of log y.
# - A detached part may depend on the same weights that are trained. In the row of the
#   target network, the target is computed from the values ``y`` themselves, and no
#   gradient goes back through it.

D = y.sigmoid()
(turned,) = torch.autograd.grad((stop((1 - D) / D) * (1 - D).log()).sum(), y)
settled = y.detach().log().requires_grad_()
weighted = (y * torch.exp(-settled) + settled).sum()
at_y, at_s = torch.autograd.grad(weighted, (y, settled))
print(turned)
print(bool(at_s.abs().max() < 1e-12), torch.allclose(at_y, 1 / y))

# %%
# What to watch for
# -----------------
#
# **The value.** Do not use the value of a surrogate loss to stop early, to lower the
# learning rate or to compare two runs. A scheduler such as ``ReduceLROnPlateau`` and the
# line search of ``LBFGS`` look at the value of the loss. Give them a number that you do
# want to become small, here the distance.
#
# **The detach that is missing.** If ``g`` has a graph, the gradient also contains the
# derivative of ``g``. In our program this means that we differentiate the diffusion
# model. The ``v`` at ``x`` is then different, and there is no error:

noise, sigma = torch.zeros(200, 2), torch.full((200, 1), 0.1)
x = scenes[0].clone().requires_grad_()
whole = predict_noise(x + sigma * noise, sigma) - noise
(without,) = torch.autograd.grad((whole * x).sum(), x, retain_graph=True)
(with_stop,) = torch.autograd.grad((whole.detach() * x).sum(), x)
print(f"with detach, v is {with_stop.norm():.1f} long")
print(f"without it, {without.norm():.1f}")

# %%
# **Second derivatives.** For second derivatives, too, a detached part is a number. The
# second derivative of log y is −1/y². The second derivative of ``y / stop(y)`` is 0,
# because with a constant denominator the function is a straight line. So work out the
# second derivative of a surrogate loss before you take its :term:`Hessian`, or before you
# differentiate through a training step that used it:

y = torch.tensor(2.0, requires_grad=True)
for loss in (y.log(), y / y.detach() + 0 * y**2):  # the 0 keeps a graph for the second
    (first,) = torch.autograd.grad(loss, y, create_graph=True)
    (second,) = torch.autograd.grad(first, y)
    print(f"first {first.item()}, second {second.item()}")

# %%
# **A square in 16 bits.** The square forms ``x - g``. If ``g`` is much smaller than ``x``,
# this difference is rounded to ``x``, and nothing is left of ``g``. If ``x`` is bfloat16
# or float16, convert ``x`` and ``g`` to float32 before you form the square, or use the
# product:

one, small = torch.ones(1, dtype=torch.bfloat16, requires_grad=True), torch.tensor([0.001])
squares = {
    "bfloat16": 0.5 * ((one - (one - small.bfloat16()).detach()) ** 2).sum(),
    "float32": 0.5 * ((one.float() - (one.float() - small).detach()) ** 2).sum(),
    "product": (small.bfloat16() * one).sum(),
}
left = {name: torch.autograd.grad(loss, one)[0].item() for name, loss in squares.items()}
print(left)

# %%
# **Rounding.** ``y + (code - y).detach()``, the straight-through line with codes, equals
# the code only up to rounding. So do not compare the two with ``==``. And a loss that
# reaches 0 makes ``loss / loss.detach()`` NaN and its gradient infinite; add a small
# number to the denominator:

torch.manual_seed(0)  # the same numbers on every build
y, code = torch.randn(2, 1000)
through = y + (code - y).detach()
close = bool((through - code).abs().max() < 1e-6)
print(f"{(through != code).sum()} of 1000 differ")
print(f"all by less than 1e-6: {close}")

zero = torch.tensor(0.0, requires_grad=True)
(slope,) = torch.autograd.grad(zero / zero.detach(), zero)
print(zero / zero.detach(), slope)

# %%
# .. admonition:: Remember
#
#    - A detached part is a number. Write its value there and differentiate what is left.
#    - A surrogate loss passes a ``v`` to the last tensor that is not detached. Ask which
#      ``v`` it is.
#    - The value of a surrogate loss need not fall while the model gets better. Watch
#      another number.
#    - Even if the first derivative of a surrogate loss is right, its second derivative
#      need not be.
#
# .. admonition:: Try it
#
#    Write ``4 * angle`` in place of ``3 * angle`` in ``clover``. Four leaves need one
#    more wave. What do you have to change in ``order`` and ``strength``? And which scene
#    does the program find if you don't change them?
#
# .. dropdown:: Answer
#
#    Use ``torch.arange(1, 6)`` and ``torch.zeros(10, 2)``, and put the circle into
#    ``strength[0, 0]`` and ``strength[5, 1]``. The radius 1 + 0.3 cos 4φ times cos φ
#    consists of the waves 1, 3 and 5. Without wave 5 the scene comes as near to the
#    clover as four waves allow.
#
# .. dropdown:: How we checked this page
#
#    We compare the ``v`` of each row of the table with its formula, and the three spellings
#    with each other. We check the training by the distance, which must fall to less than a
#    fifth of its initial value.

assert distance[-1] < distance[0] / 5
on_the_clover, on_the_circle = mean_g(data).norm(dim=1), mean_g(circle).norm(dim=1)
assert on_the_clover.mean() < on_the_circle.mean() / 5
assert 30 < len([loss for loss in losses[-100:] if loss < 0]) < 70
reference = found.pop("x.backward(g)")
for other in found.values():
    torch.testing.assert_close(other, reference)
for name, (_, formula) in rows.items():
    if name in ("PPO, step 1", "REINFORCE"):
        torch.testing.assert_close(arrived[name], -A)
    assert arrived[name].shape == formula(torch.ones(3)).shape
torch.testing.assert_close(turned, arrived["non-saturating"])
torch.testing.assert_close(at_y, arrived["y / stop(y)"])
assert at_s.abs().max() < 1e-12
assert (without - with_stop).norm() > 0.1 * with_stop.norm()
assert (through != code).any()
assert close
assert slope.isinf()
assert left["bfloat16"] == 0 < left["float32"] == left["product"]

sigmas, pictures = [], torch.zeros(2, 3, 4, 4, requires_grad=True)
distil(lambda: pictures, [pictures], lambda x, sigma: sigmas.append(sigma) or x, steps=1)
assert sigmas[0].shape == (2, 1, 1, 1)

# %%
# Where next
# ----------
#
# For more lines with ``detach``, each with the gradient that it leaves, read
# :ref:`surrogate-table`. To find out where the cut belongs, read :ref:`stop-gradient`.
# :ref:`loss-as-v` is about losses that are weights.
#
# .. asked: surrogate loss; trick with detach; which loss has this gradient; loss that
#    only serves its gradient; stop gradient table; straight-through in one line; x * s
#    + (x * (1 - s)).detach(); magic box; loss divided by its detached value
# .. words: fake loss, trick, same gradient other value, replace the gradient, custom
#    gradient without a Function, policy, straight through, value unchanged
