r"""
.. _mean-flow:

MeanFlow: images in one step, and a derivative along the way
============================================================

A flow model makes a sample by following a velocity field in many small steps, for example
fifty. MeanFlow (Geng et al., 2025) learns where the whole walk leads, and makes the sample
in one step. Its training needs the derivative of the network along a moving point. The
derivative is one product in :term:`forward mode`, a :term:`JVP`. You compute it with
``torch.func.jvp`` and the :term:`tangents <tangent>` ``(velocity, 0, 1)``.
"""

# %%
# Our images have two pixels, so that we can see them: each is a point in the plane, and
# they lie on a crescent. Every image is mixed with noise along a straight line,
# :math:`z_t=(1-t)\,x+t\,e`. At time 0 this point is the image, at time 1 it is the noise,
# and throughout it moves with the constant velocity :math:`e-x`.
#
# To make a new image we start at noise and go back to time 0. But many lines pass through
# the same point, and a network can only learn the mean of their velocities there. This
# mean changes on the way, so a plain flow model has to follow it in small steps. MeanFlow
# teaches the network another quantity, the *average* velocity u(z, r, t) of the walk from
# time t back to an earlier time r. With this average the walk is a single step,
# :math:`z_r=z_t-(t-r)\,u(z_t,r,t)`.
#
# How can one learn an average without walking? Write the last formula as
# :math:`(t-r)\,u=z_t-z_r` and let t grow a little, with r fixed. On the left the product
# rule gives :math:`u+(t-r)\,\tfrac{du}{dt}`, and on the right we have the velocity
# :math:`v` at time t. So
#
# .. math::
#
#    u=v-(t-r)\,\frac{du}{dt}.
#
# We train the network to satisfy this equation. The derivative is a *total* derivative: z
# moves with its velocity, r stands still, and t grows at a rate of 1.

from itertools import pairwise

import torch
from torch import nn


def crescent(rows):
    angle, radius = 0.7 * torch.randn(rows), 2 + 0.15 * torch.randn(rows)
    return torch.stack([radius * angle.sin(), radius * angle.cos() - 1], dim=1)


class AverageVelocity(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(4, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()),
            nn.Linear(width, 2),
        )

    def forward(self, z, r, t):
        return self.layers(torch.cat([z, t, t - r], dim=1))


# %%
# The program
# -----------
#
# Each step draws images, noise, and two times for each row. In half of the rows the two
# times are equal. In these rows the average is over no time at all, and the target is the
# velocity itself:


def train(net, draw_images, steps=800, rows=256, lr=0.01):
    """Train a network to be the average velocity; return the losses."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in range(steps):
        x = draw_images(rows)
        e = torch.randn_like(x)
        r, t = torch.rand(rows, 2).sort(dim=1).values.split(1, dim=1)
        r = torch.where(torch.rand(rows, 1) < 0.5, t, r)
        z, velocity = (1 - t) * x + t * e, e - x
        with torch.no_grad():  # the target is a constant
            tangents = velocity, torch.zeros_like(r), torch.ones_like(t)
            _, du_dt = torch.func.jvp(net, (z, r, t), tangents)
            target = velocity - (t - r) * du_dt
        loss = (net(z, r, t) - target).square().sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def sample(net, noise, steps=1):
    """Walk from noise to images, in one step or in several."""
    z, times = noise, torch.linspace(1, 0, steps + 1).tolist()
    with torch.no_grad():
        for t, r in pairwise(times):
            r_of_rows, t_of_rows = (torch.full((len(z), 1), k) for k in (r, t))
            z = z - (t - r) * net(z, r_of_rows, t_of_rows)
    return z


torch.manual_seed(0)  # the same weights and images on every build
net = AverageVelocity()
losses = train(net, crescent)
noise = torch.randn(1000, 2)
images = sample(net, noise)

# %%
# The blocks up to here are the whole program. Copy them together. Does one step lead to the
# crescent? For comparison, we take one step with the velocity at time 1, that is, with
# ``r = t = 1``, as a plain flow model would. We also take fifty small steps, each with the
# velocity at its own time. The code calls these velocities arrows:


def follow_arrows(net, noise, steps):
    z = noise
    with torch.no_grad():
        for k in range(steps):
            t = torch.full((len(z), 1), 1 - k / steps)
            z = z - net(z, t, t) / steps
    return z


clouds = {
    "images": crescent(1000),
    "one step of MeanFlow": images,
    "one step along arrows": follow_arrows(net, noise, 1),
    "fifty steps along arrows": follow_arrows(net, noise, 50),
}

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 2, layout="constrained", figsize=(4.6, 4.6))
for ax, (name, cloud) in zip(axes.flat, clouds.items(), strict=True):
    ax.plot(*cloud.T, ".", markersize=2)
    ax.set(xlim=(-3.2, 3.2), ylim=(-3.7, 2.7), xticks=[], yticks=[], xlabel=name)
title = figure.suptitle("One step along the average reaches the crescent")

# %%
# One step with the velocity at time 1 ends near the middle of all images. From pure noise
# the mean of all lines leads there. The average velocity does not have this problem. We
# print the energy distance between each cloud and real images, which is 0 if the two have
# the same distribution, and whether this distance is below 0.02:


def apart(a, b):
    within = torch.cdist(a, a).mean() + torch.cdist(b, b).mean()
    return (2 * torch.cdist(a, b).mean() - within).item()


real = crescent(1000)
distances = {name: apart(cloud, real) for name, cloud in clouds.items()}
for name, distance in distances.items():
    print(f"{name:25} {distance:.1f}  {distance < 0.02}")

# %%
# The line with the v
# -------------------
#
# The line is ``_, du_dt = torch.func.jvp(net, (z, r, t), tangents)``. The first argument
# moves with ``velocity``, the second with 0, the third with 1, and the output of the
# network then moves with ``du_dt``. The paper writes v for the velocity. This is not the
# ``v`` of ``backward``: a tangent has the shape of the *input*, and is pushed forward, as
# in :ref:`what-is-a-jvp`. The ``v`` that goes backwards is different. The ``v`` that
# ``loss.backward()`` sends to the output of the network is :math:`2\,(u-\text{target})`,
# divided by the number of rows.
#
# To see the push in numbers, take images whose two pixels are normally distributed, with
# mean 0 and spread 0.5. Then there is a formula for everything. At time t the points have
# the spread :math:`\sigma_t=\sqrt{0.25\,(1-t)^2+t^2}`, and the walk from t to r multiplies
# z by :math:`\sigma_r/\sigma_t`:


def spread(t):
    return (0.25 * (1 - t) ** 2 + t**2).sqrt()


def average(z, r, t):
    return z * (1 - spread(r) / spread(t)) / (t - r)


def velocity_at(z, t):
    return z * (t - 0.25 * (1 - t)) / spread(t) ** 2


z, r, t = (torch.tensor(k, dtype=torch.float64) for k in ([1.0, -2.0], [0.3], [0.8]))
tangents = velocity_at(z, t), torch.zeros_like(r), torch.ones_like(t)
u, du_dt = torch.func.jvp(average, (z, r, t), tangents)
print(u.numpy().round(4))
print((velocity_at(z, t) - (t - r) * du_dt).numpy().round(4))

# %%
# The two lines of the output agree: this u satisfies the equation of the training. In the
# picture, the three tangents are above the columns of the :term:`Jacobian` that they
# multiply. The first row is called u, because this site uses u for tangents. The column of
# r is multiplied by 0. ``jvp`` finds the sum at the right without the table:

import pullback

columns = torch.func.jacrev(average, argnums=(0, 1, 2))(z, r, t)
pullback.draw.jvp(
    torch.cat(columns, dim=1),
    torch.cat(tangents),
    rows=["out[0]", "out[1]"],
    columns=["z[0]", "z[1]", "r", "t"],
    result_name="du/dt",
    digits=True,
)

# %%
# What to watch for
# -----------------
#
# **The whole tangent.** With ``(0, 0, 1)`` you get the partial derivative with respect to
# t, in which the point stands still. With ``(velocity, 1, 1)`` r moves as well. Both calls
# run, but both give a derivative along a different path. We print the u that each of them
# gives, and whether this u is right:

zero, one = torch.zeros_like(r), torch.ones_like(t)
for name, wrong in {
    "(v, 0, 1)": tangents,
    "(0, 0, 1)": (torch.zeros_like(z), zero, one),
    "(v, 1, 1)": (tangents[0], one, one),
}.items():
    _, derivative = torch.func.jvp(average, (z, r, t), wrong)
    by_it = velocity_at(z, t) - (t - r) * derivative
    print(name, by_it.numpy().round(3) + 0.0, torch.allclose(by_it, u))

# %%
# **The constant target.** ``du_dt`` depends on the weights. Our program computes it under
# ``no_grad``. If you call ``jvp`` outside ``no_grad``, ``detach`` the target. Otherwise the
# gradient is different, since PyTorch then differentiates ``du_dt`` as well:

x, e = crescent(256), torch.randn(256, 2)
r, t = torch.rand(256, 2).sort(dim=1).values.split(1, dim=1)
z, velocity = (1 - t) * x + t * e, e - x
tangents = velocity, torch.zeros_like(r), torch.ones_like(t)
u, du_dt = torch.func.jvp(net, (z, r, t), tangents)
target = velocity - (t - r) * du_dt
gradients = []
for goal in (target.detach(), target):
    loss = (u - goal).square().sum(dim=1).mean()
    found = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    gradients.append(torch.cat([g.flatten() for g in found]))
constant, through = gradients
print("the same:", torch.allclose(constant, through, rtol=0.1))

# %%
# **One jvp for all rows.** All rows are pushed at once, each by its own tangent. This gives
# each row its own derivative, because no row influences another in this network. With
# BatchNorm in training mode this fails, in the same way as a :ref:`v of ones
# <mixing-samples>` fails in ``backward``. If BatchNorm keeps running statistics, ``jvp``
# refuses it. Without running statistics there is no message. We push all rows, then the
# first row alone, and compare the results for the first row:

alone = torch.zeros(256, 1)
alone[0] = 1.0
norms = {
    "none (ours)": nn.Identity(),
    "BatchNorm": nn.BatchNorm1d(64),
    "without statistics": nn.BatchNorm1d(64, track_running_stats=False),
}
same = {}
for name, norm in norms.items():
    layers = nn.Sequential(net.layers[0], norm, *net.layers[1:])
    f = lambda z, r, t, layers=layers: layers(torch.cat([z, t, t - r], dim=1))
    try:
        _, every = torch.func.jvp(f, (z, r, t), tangents)
        _, single = torch.func.jvp(f, (z, r, t), tuple(alone * k for k in tangents))
        same[name] = torch.allclose(every[0], single[0], rtol=1e-3)
        print(f"{name:18} same: {same[name]}")
    except RuntimeError as error:
        print(f"{name:18} {str(error)[:18]} …")

# %%
# **The value of the loss.** The loss does not go to 0, because ``velocity`` belongs to
# one line, and the network learns the mean of all lines. The spread of the lines remains.
# So compare samples, and not losses:

print(f"loss at first {losses[0]:.1f}")
late = torch.tensor(losses[-100:]).mean()
print("last hundred above 2:", bool(late > 2))

# %%
# .. admonition:: Remember
#
#    - A derivative along a moving point is one ``jvp``. The tangents are the velocities of
#      the arguments, here ``(velocity, 0, 1)``.
#    - A tangent has the shape of the input and goes forward. The ``v`` of ``backward`` has
#      the shape of the output and goes back.
#    - If a target is computed from the network, detach it.
#
# .. admonition:: Try it
#
#    Let ``crescent`` return a different shape, for example a tilted line, with ``k =
#    torch.randn(rows)`` and ``torch.stack([k, k / 2], 1) + 0.1 * torch.randn(rows, 2)``.
#    Then let it return two separate blobs. Which of the two shapes is harder to reach in
#    one step, and do four steps, ``sample(net, noise, 4)``, help?
#
# .. dropdown:: Answer
#
#    The blobs are harder. There is a border in the noise, and walks from its two sides
#    end in different blobs. At this border the average velocity jumps. A network of this
#    size learns the jump only roughly, and some samples end between the blobs. With four
#    steps there are far fewer of them. The line has no such border, and one step is good.
#
# .. dropdown:: How we checked this page
#
#    We check that the formula for the average velocity satisfies its equation, and compare
#    its ``du/dt`` with a difference quotient along the walk. We compare the samples of the
#    network with real images by the energy distance, and the ``v`` at its output with its
#    formula.

z, r, t = (torch.tensor(k, dtype=torch.float64) for k in ([1.0, -2.0], [0.3], [0.8]))
h, moves = 1e-5, velocity_at(z, t)
by_steps = (average(z + h * moves, r, t + h) - average(z - h * moves, r, t - h)) / (2 * h)
exact, pushed = torch.func.jvp(average, (z, r, t), (moves, zero, one))
torch.testing.assert_close(pushed, by_steps)
torch.testing.assert_close(moves - (t - r) * pushed, exact)
walk = z.clone()  # ten thousand small steps from t to r end where one step does
for k in torch.linspace(0.8, 0.3, 10_001, dtype=torch.float64)[:-1]:
    walk = walk - 5e-5 * velocity_at(walk, k)
torch.testing.assert_close(walk, z - (t - r) * exact, rtol=1e-3, atol=0)

assert distances["one step of MeanFlow"] < 0.02 < 0.3 < distances["one step along arrows"]
assert distances["fifty steps along arrows"] < 0.02
assert losses[0] > late > 2
assert same == {"none (ours)": True, "without statistics": False}
assert not torch.allclose(constant, through, rtol=0.1)
(arrived,) = torch.autograd.grad((u - target.detach()).square().sum(dim=1).mean(), u)
torch.testing.assert_close(arrived, 2 * (u - target) / 256)

# %%
# Where next
# ----------
#
# To find out which functions such a ``jvp`` accepts, read :ref:`meanflow-jvp`.
# :ref:`dot-product-test` compares a push and a pull through the same Jacobian. For neural
# ODEs, which take small steps in training, too, read :ref:`ode-adjoint`.
#
# .. asked: MeanFlow; jvp in MeanFlow; average velocity; one-step generation;
#    consistency model with jvp; jvp for training a consistency model; stop gradient of
#    the target in MeanFlow
# .. words: one step generator, flow matching, average velocity, consistency, distill,
#    shortcut, time derivative, jvp flash attention
