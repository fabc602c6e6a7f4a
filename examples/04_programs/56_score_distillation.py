r"""
.. _score-distillation:

Score distillation (SDS): x.backward(v) with a v from a frozen denoiser
=======================================================================

A diffusion model knows what pictures look like, and you have a *scene* with parameters θ
from which you render a picture. Score distillation, which became known through
DreamFusion, changes the scene until the model likes its picture. There is no loss
anywhere. You ask the frozen model for a tensor ``v`` in the shape of the picture, and
call ``picture.backward(v)``. Why may you do this, and why do most programs write a loss
with a ``detach`` in it instead?
"""

# %%
# A world with two pixels
# -----------------------
#
# To see everything at once, we take pictures with two pixels, so that a picture is a
# point in the plane. The pictures of this world lie in two clouds. A scene has one
# parameter, and the renderer :math:`g(\theta)=(\theta,\sin2\theta)` makes a picture of
# the scene. So there is not a scene for every picture, but only for the pictures on a
# curve:

import math

import torch
from torch import nn

# With float64 the printed digits are the same on every processor, but you can leave it
# out:
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)  # the same pictures and weights on every build
centres = torch.tensor([[-1.5, 1.0], [1.5, -0.5]])


def pictures(count):
    return centres[torch.randint(0, 2, (count,))] + 0.25 * torch.randn(count, 2)


def render(theta):
    return torch.stack([theta, torch.sin(2 * theta)], dim=1)


# %%
# The denoiser
# ------------
#
# We make a picture x noisy by adding noise ε, with a strength that depends on a time t
# between 0 and 1. At t = 0 the noisy picture is the picture itself, and at t = 1 it is only
# noise:
#
# .. math::
#
#    x_t=\cos(\pi t/2)\,x+\sin(\pi t/2)\,\varepsilon.
#
# The denoiser is a small network that looks at :math:`x_t` and t and guesses ε. We train
# it on pictures from the clouds. Afterwards we freeze it, as you would freeze a large
# model from the internet:


def noisy(x, t, noise):
    return torch.cos(math.pi / 2 * t) * x + torch.sin(math.pi / 2 * t) * noise


denoiser = nn.Sequential(
    *(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
)
optimizer = torch.optim.Adam(denoiser.parameters(), lr=3e-3)
for _ in range(1000):
    x, t = pictures(256), torch.rand(256, 1)
    noise = torch.randn_like(x)
    guess = denoiser(torch.cat([noisy(x, t, noise), t], dim=1))
    optimizer.zero_grad()
    nn.functional.mse_loss(guess, noise).backward()
    optimizer.step()
denoiser = denoiser.requires_grad_(False)

# %%
# The program
# -----------
#
# In each step we render the scenes, add noise that *we* have drawn, and let the denoiser
# guess this noise. If our picture looks like the pictures that the denoiser knows, the
# guess is good. If not, the guess is wrong, and ``guess - noise`` points from the
# pictures that the denoiser knows toward ours. This difference is the ``v``:


def distil(theta, render, denoiser, steps=300, longest=0.5):
    optimizer = torch.optim.Adam([theta], lr=0.02)
    for _ in range(steps):
        x = render(theta)  # (N, 2), with a graph that leads to theta
        t = 0.02 + (longest - 0.02) * torch.rand_like(x[:, :1])  # (N, 1)
        noise = torch.randn_like(x)
        with torch.no_grad():  # the denoiser leaves no graph
            guess = denoiser(torch.cat([noisy(x, t, noise), t], dim=1))
            v = guess - noise  # (N, 2); a weight w(t) would be a factor here
        optimizer.zero_grad()
        x.backward(v)
        optimizer.step()
    return theta.detach()


# %%
# ``x`` has the shape ``(N, 2)``, with a picture in each row, and ``v`` has the same shape.
# Of which function is ``v`` the gradient? If the denoiser guessed perfectly, its guess
# would be :math:`-\sigma_t=-\sin(\pi t/2)` times the gradient of the logarithm of the
# probability density at the noisy picture. So on average over the noise, ``v`` points
# toward *less* likely pictures, and the optimizer goes the opposite way. We never compute
# this density. For ``backward`` the gradient with respect to ``x`` is enough, and from
# there it goes on to ``theta`` as usual.
#
# We start with 24 scenes, whose parameters are spaced evenly. Each has its own parameter
# and its own row of ``x``, so they don't disturb one another:

torch.manual_seed(1)
start = torch.linspace(-2.5, 2.5, 24)
end = distil(start.clone().requires_grad_(), render, denoiser)


def distance(theta):
    return torch.cdist(render(theta), centres).min(dim=1).values.mean()


print(f"to the nearest cloud: {distance(start):.1f}, then {distance(end):.1f}")

# %%
# Here are the clouds in gray, the curve, and the scenes before and after. Each arrow
# shows :math:`-v`, the direction in which the denoiser pulls the picture, as a mean over
# many draws of noise:

import matplotlib.pyplot as plt


def mean_v(x, draws=2000, longest=0.5):
    x = x.repeat(draws, 1)
    t, noise = 0.02 + (longest - 0.02) * torch.rand(len(x), 1), torch.randn_like(x)
    guess = denoiser(torch.cat([noisy(x, t, noise), t], dim=1))
    return (guess - noise).unflatten(0, (draws, -1)).mean(dim=0)


cloud, line = pictures(400), render(torch.linspace(-2.6, 2.6, 200))
figure, axes = plt.subplots(2, 1, layout="constrained", figsize=(5.4, 6.4))
for ax, theta, when in zip(axes, (start, end), ("before", "after"), strict=True):
    ax.plot(*cloud.T, ".", color="0.8", markersize=3)
    ax.plot(*line.T, color="0.5", linewidth=1)
    at = render(theta)
    ax.plot(*at.T, "o", color="#7a3fb0", markersize=5)
    ax.quiver(*at.T, *-mean_v(at).T, angles="xy", scale=8, width=0.005, color="#c2541a")
    ax.set(xlim=(-3, 3), ylim=(-1.7, 1.7), aspect="equal", title=f"scenes {when}")
title = figure.suptitle("Scenes, and where the denoiser pulls")

# %%
# The scenes have gathered at three places. At two of them the curve comes nearest to a
# cloud. At the third place, in the middle, the picture is in no cloud at all, but every
# small step along the curve leads to a picture that the denoiser likes even less. This
# gathering is typical. Score distillation looks for the pictures that the model likes
# best, and doesn't keep the variety of the initial scenes.
#
# Look at the arrows of the scenes on the left. They are far from zero. Why don't these
# scenes move any more? The arrows point across the curve, but a scene can move its picture
# only along the curve. Only the part of ``v`` along the curve arrives at ``theta``, as
# :math:`J^\top v` with the :term:`Jacobian` :math:`J` of the renderer, and this part has
# become zero, up to the noise of the last steps:

left = end[end < -1].mean().reshape(1)
v = mean_v(render(left))[0]
along = torch.func.jacrev(render)(left)[0, :, 0]
along = along / along.norm()
across = torch.stack([-along[1], along[0]])
print(f"v along {(v @ along).abs():.2f}, across {(v @ across).abs():.2f}")

# %%
# The same step, written as a loss
# --------------------------------
#
# Many frameworks need a loss. A loss whose gradient with respect to ``x`` is ``v`` does
# the same as ``x.backward(v)``, and it is easy to find one. The product ``(v * x).sum()``
# has this gradient, if ``v`` is a constant. Half the square of the difference between
# ``x`` and a *target* ``x - v`` has it, too, if the target is a constant. Many programs
# use this square:

theta = start.clone().requires_grad_()
x = render(theta)
t, noise = torch.full((24, 1), 0.3), torch.randn(24, 2)
guess = denoiser(torch.cat([noisy(x, t, noise), t], dim=1))  # no no_grad, on purpose
v = guess - noise
target = (x - v).detach()
losses = {
    "(v.detach() * x).sum()": (v.detach() * x).sum(),
    "mse_loss(x, target) / 2, sum": nn.functional.mse_loss(x, target, reduction="sum") / 2,
}
(expected,) = torch.autograd.grad(x, theta, v.detach(), retain_graph=True)
for name, loss in losses.items():
    (found,) = torch.autograd.grad(loss, theta, retain_graph=True)
    print(f"{name:29}", torch.allclose(found, expected, atol=1e-5))

# %%
# The value of such a loss means nothing. The value of the second loss is half the squared
# length of ``v``, which is mostly noise. Don't wait for it to fall, but look at the
# pictures. The square also forms ``x - v``, and if ``v`` is much smaller than ``x``, digits
# of ``v`` are lost. So compute the square in float32, or use the product.
#
# What goes wrong
# ---------------
#
# In the losses above, ``v`` or the target is a constant, and so they are right. We compare
# four other losses with them. How long is the gradient that reaches ``theta``, if the right
# gradient has the length 1, and what is the cosine of the angle between the two gradients?

constant = v.detach()
wrong = {
    "A target - has a graph": ((x - (x - constant)) ** 2).sum() / 2,
    "B denoiser's own loss": ((guess - noise) ** 2).sum() / 2,
    "C product, v has a graph": (v * x).sum(),
    "D mean instead of sum": nn.functional.mse_loss(x, target) / 2,
}
gradients = {}
print("                         length cosine")
for name, loss in wrong.items():
    (found,) = torch.autograd.grad(loss, theta, retain_graph=True)
    gradients[name[0]] = found
    length = found.norm() / expected.norm()
    cosine = torch.cosine_similarity(found, expected, dim=0) if length > 0 else 0.0
    print(f"{name:25} {length:.2f}   {cosine:.2f}")

# %%
# - **A.** Without ``detach`` in the target, ``x`` cancels out of ``x - (x - v)``. The loss
#   has the same value, and its gradient is zero. Nothing moves.
# - **B.** It seems natural to differentiate the loss of the denoiser. Its gradient goes
#   back *through the denoiser*, and so it contains the Jacobian of this network. In our
#   small world, at t = 0.3, it points nearly in the same direction as ours, and at t =
#   0.5 the two are nearly at right angles. A backward pass through a large denoiser takes
#   much memory and time, and DreamFusion (Poole et al., 2022) leaves it out on purpose.
#   Then the denoiser needs no graph at all, and so the guess is computed under
#   ``no_grad``.
# - **C.** If the guess has a graph, the product differentiates ``v`` as well, and the extra
#   term has no meaning. With the guess under ``no_grad``, ``v`` is a constant, and
#   the product is right without a ``detach``.
# - **D.** The mean divides by the number of entries, here 48, two pixels in each of 24
#   pictures. The steps of SGD are then 1/48 as long. Adam divides each entry of the
#   gradient by the typical size of its past values. As long as this size is large compared
#   with Adam's ``eps``, the steps of Adam hardly change.
#
# Why subtract the noise?
# -----------------------
#
# The noise has a mean of zero, so without the subtraction ``v`` would be the same *on
# average*. But in a single step ``v`` would contain much more noise, unless ``t`` is very
# small. For very small ``t`` it is the other way around: the denoiser does not see the
# noise, and the subtraction adds it. We take the picture of the first scene, and compare
# the spread with and without the subtraction over many draws:

x = render(start[:1]).repeat(4000, 1)
t, noise = torch.full((4000, 1), 0.3), torch.randn(4000, 2)
guess = denoiser(torch.cat([noisy(x, t, noise), t], dim=1))
for name, v in {"guess": guess, "guess - noise": guess - noise}.items():
    mean, spread = v.mean(dim=0).norm(), v.std(dim=0).norm()
    print(f"{name:14} mean {mean:.1f}, spread {spread:.1f}")

# %%
# A weight :math:`w(t)`, and a prompt with *classifier-free guidance*, change ``v`` but
# nothing else. The weight multiplies it. Guidance combines two guesses, one with and one
# without the prompt. You still pass a tensor in the shape of the picture to ``backward``,
# and this tensor is still a constant.
#
# .. admonition:: Try it
#
#    Give the renderer more freedom: give ``theta`` the shape ``(24, 2)``, beginning at
#    ``render(start)``, and let the new ``render`` return ``theta`` as it is. Why is no
#    picture left in the middle, and are the pictures now spread as widely as the clouds?
#
# .. dropdown:: Answer
#
#    The curve held a picture in the middle, because every step along the curve led to a
#    less likely picture. Now the picture can go straight to a cloud. But the pictures do
#    not spread. Each goes to the likeliest point of its cloud, and the small spread that
#    is left comes from the noise of the last steps:

torch.manual_seed(2)
free = distil(render(start).clone().requires_grad_(), lambda theta: theta, denoiser)
which = torch.cdist(free, centres).argmin(dim=1)
for k in (0, 1):
    spread = free[which == k].std(dim=0).mean()
    print(f"cloud {k}: spread below a third of the cloud's 0.25: {spread < 0.25 / 3}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the denoiser with the formula for the best guess, which is known for two
#    Gaussian clouds. We compare the gradient of the program with the Jacobian of the
#    renderer times ``v``, and with the losses. We check each statement about the four other
#    losses, and the places where the free pictures end.


def best_guess(x, t):
    """Return minus sigma times the gradient of the log-density of noisy pictures."""
    alpha, sigma = torch.cos(math.pi / 2 * t), torch.sin(math.pi / 2 * t)
    variance = (alpha * 0.25) ** 2 + sigma**2
    away = x[:, None] - alpha[:, None] * centres  # (N, 2 clouds, 2 pixels)
    log_density = (-(away**2).sum(dim=2) / (2 * variance)).logsumexp(dim=1)
    return -sigma * torch.autograd.grad(log_density, x, torch.ones_like(log_density))[0]


assert torch.cdist(free, centres).min(dim=1).values.max() < 0.5
assert all(free[which == k].std(dim=0).mean() < 0.25 / 3 for k in (0, 1))
x, t = pictures(2000), 0.05 + 0.9 * torch.rand(2000, 1)
at = noisy(x, t, torch.randn_like(x)).requires_grad_()
off = (denoiser(torch.cat([at, t], dim=1)) - best_guess(at, t)).detach()
assert off.norm(dim=1).mean() < 0.2

theta = start.clone().requires_grad_()
x = render(theta)
v = torch.randn(24, 2)
x.backward(v)
slopes = torch.stack([torch.ones(24), 2 * torch.cos(2 * start)], dim=1)
torch.testing.assert_close(theta.grad, (v * slopes).sum(dim=1))

assert not gradients["A"].any()
torch.testing.assert_close(48 * gradients["D"], expected)
for name in "BC":
    assert (gradients[name] - expected).norm() > 0.1 * expected.norm()
one_step = []
for scale in (1, 48):
    moved = start.clone().requires_grad_()
    adam = torch.optim.Adam([moved], lr=0.02)
    moved.grad = expected / scale
    adam.step()
    one_step.append(moved.detach() - start)
torch.testing.assert_close(*one_step, rtol=1e-3, atol=0)
assert distance(end) < 0.7 * distance(start)
assert all([(end < -1.5).sum() > 5, (end.abs() < 0.5).sum() > 5, (end > 1.5).sum() > 5])
near_a_place = torch.cdist(end[:, None], torch.tensor([[-1.9], [0.1], [1.7]])).min(dim=1)
assert near_a_place.values.max() < 0.2

# %%
# **Next:** :ref:`loss-for-a-gradient` shows the two surrogate losses in a few lines.
# :ref:`where-v-comes-from` explains why ``v`` is all that ``x.backward`` needs to know. In
# :ref:`classifier-guided-sampling` the gradient changes the picture itself instead of a
# scene.
#
# .. asked: score distillation sampling; SDS loss; DreamFusion gradient;
#    latents.backward(gradient=grad); text to 3D; diffusion model as a loss;
#    SpecifyGradient; skip the UNet Jacobian
# .. words: nerf, 3d, diffusion, dreamfusion, noise prediction, unet, eps minus noise, w(t),
#    latents, skip the jacobian, text to image
