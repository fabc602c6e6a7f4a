r"""
.. _log-det-of-a-flow:

log|det J| of a normalizing flow: which way is cheap, and can I train on it?
============================================================================

You have measured two thousand points, and you would like to know how likely a new point
is, and to draw more points like them. A *normalizing flow* does both. It is a network
that can be run backwards, and you train it until it turns your points into ordinary
normal noise. Its loss contains the logarithm of the determinant of a :term:`Jacobian`,
for each point and in each step. How do you get this number without computing the
Jacobian, and does a gradient go through it?
"""

# %%
# The points
# ----------
#
# We make our points ourselves. They lie on two interlocking arcs, with a little noise. No
# normal distribution has such a shape:

import math

import torch
from torch import nn


def arcs(count, generator):
    angle = torch.pi * torch.rand(count, generator=generator)
    points = torch.stack([angle.cos(), angle.sin()], 1)
    lower = torch.rand(count, 1, generator=generator) < 0.5
    points = torch.where(lower, torch.tensor([1.0, 0.4]) - points, points)
    noise = 0.07 * torch.randn(count, 2, generator=generator)
    return points - torch.tensor([0.5, 0.2]) + noise


# %%
# The program
# -----------
#
# The flow maps a batch ``x`` of shape ``(B, n)`` to ``z`` of the same shape. If the flow
# stretches a small neighborhood of ``x``, this neighborhood gets a larger share of the
# normal noise, and the density of ``x`` is higher. The factor is the absolute value of the
# determinant of the Jacobian at this point:
#
# .. math::
#
#    \log p(x)=\log p_z(z(x))+\log\lvert\det J(x)\rvert .
#
# A layer of RealNVP (Dinh et al., 2016) is built so that you do not have to compute a
# determinant. It passes half of the numbers, ``a``, through unchanged. It scales and shifts
# the other half ``b``, by amounts that a small network computes from ``a`` alone. If we put
# the numbers of ``a`` first, the Jacobian is *triangular*, and its determinant is the
# product of the diagonal: ones for ``a``, and the scales for ``b``. The scales are written
# as :math:`e^s`, so the logarithm of the determinant is the sum of the ``s``:


class Coupling(nn.Module):
    def __init__(self, n, flip):
        super().__init__()
        if n % 2:
            raise ValueError(f"n must be even, to be cut into halves, and it is {n}")
        self.flip = flip  # which half goes through as it is
        self.net = nn.Sequential(
            *(nn.Linear(n // 2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh()),
            nn.Linear(32, n),  # a scale and a shift for each number of b
        )

    def forward(self, x):
        a, b = (x.flip(-1) if self.flip else x).chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        z = torch.cat([a, b * s.exp() + t], -1)
        return z.flip(-1) if self.flip else z, s.sum(-1)

    def inverse(self, z):
        a, b = (z.flip(-1) if self.flip else z).chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        x = torch.cat([a, (b - t) * (-s).exp()], -1)
        return x.flip(-1) if self.flip else x


class Flow(nn.Module):
    def __init__(self, n, count=6):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(n, flip=k % 2 == 1) for k in range(count))

    def forward(self, x):
        log_det = 0.0
        for layer in self.layers:
            x, part = layer(x)
            log_det = log_det + part  # the determinant of a product is the product
        return x, log_det

    def inverse(self, z):
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z

    def log_prob(self, x):
        z, log_det = self(x)
        log_normal = -(z**2).sum(-1) / 2 - z.shape[-1] / 2 * math.log(2 * math.pi)
        return log_normal + log_det


# %%
# The training maximizes the likelihood of the points, with the usual three lines. Our
# points have two numbers, so the halves are single numbers, ``x[:, :1]`` and ``x[:, 1:]``:

torch.manual_seed(0)  # the same weights and points on every build
generator = torch.Generator().manual_seed(1)
flow = Flow(2)
optimizer = torch.optim.Adam(flow.parameters(), lr=0.005)
for _ in range(500):
    x = arcs(256, generator)
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# Is the result any good? On new points, we compare it with a normal distribution that has
# the mean and the covariance of these points. A smaller number means that the points are
# more likely:

new = arcs(2000, generator)
with torch.no_grad():
    by_flow = -flow.log_prob(new).mean().item()
normal = torch.distributions.MultivariateNormal(new.mean(0), new.T.cov())
by_normal = -normal.log_prob(new).mean().item()
print(f"-log p: flow {by_flow:.1f}, one normal distribution {by_normal:.1f}")

# %%
# The picture shows the new points, and the same number of points that the flow has drawn.
# To draw points, the flow runs backwards from normal noise:

import matplotlib.pyplot as plt

with torch.no_grad():
    drawn = flow.inverse(torch.randn(2000, 2, generator=generator))

figure, axes = plt.subplots(1, 2, layout="constrained", figsize=(6, 3), sharey=True)
for ax, points, name in ((axes[0], new, "measured"), (axes[1], drawn, "drawn")):
    ax.plot(*points.T, ".", markersize=1.5)
    ax.set(title=name, aspect="equal", xlim=(-2, 2), ylim=(-1.4, 1.4))

# %%
# The flow draws both arcs. It also draws a thin bridge from the end of one to the end of
# the other, because a continuous map with a continuous inverse cannot tear the normal noise
# into two pieces.
#
# Is it really the determinant?
# -----------------------------
#
# We never asked autograd for a Jacobian. To test the formula, we now compute a Jacobian
# for each of six points, and then call ``slogdet``, which gives the sign of the determinant
# and the logarithm of its absolute value:

from torch.func import functional_call, grad, jacrev, vjp, vmap

few = new[:6]
read_off = flow(few)[1].detach()
J = vmap(jacrev(lambda x: flow(x)[0]))(few)  # (6, 2, 2)
sign, whole = torch.linalg.slogdet(J)
print("Jacobians", tuple(J.shape), "all positive", bool((sign == 1).all()))
print("the same log|det J|:", torch.allclose(read_off, whole, rtol=1e-3, atol=1e-4))

# %%
# ``jacrev`` takes one :term:`vector-Jacobian product` for each row of the Jacobian, in
# which ``v`` is the :term:`one-hot vector` of this row. So a point with ``n`` numbers
# costs ``n`` products, and the factorization of an ``n`` by ``n`` matrix. Two products
# cost next to nothing. But an image with 3072 numbers needs 3072 products, for each image
# and each step. This is the reason for triangular layers, where you read off the diagonal
# without any product.
#
# Training on a whole Jacobian
# ----------------------------
#
# What if your layer is *not* triangular, and ``n`` is small enough? Then you may compute
# the whole Jacobian, and you can train with it. The Jacobian that :func:`torch.func.jacrev`
# returns has a graph to the weights, and ``slogdet`` is differentiable wherever the
# determinant is not zero. Here we compute the loss of our flow twice, with the determinant
# computed in each of the two ways. Both losses have the same gradient with respect to all
# weights:

weights = {name: p.detach() for name, p in flow.named_parameters()}


def loss_of(weights, exact):
    run = lambda x: functional_call(flow, weights, (x,))
    z, log_det = run(few)
    if exact:
        J = vmap(jacrev(lambda x: run(x)[0]))(few)
        log_det = torch.linalg.slogdet(J).logabsdet
    return (z**2).sum(1).mean() / 2 - log_det.mean()


slopes = [grad(loss_of)(weights, exact) for exact in (True, False)]
close = lambda a, b: (a - b).norm() < 1e-3 * b.norm() + 1e-5
print(all(close(slopes[0][name], slopes[1][name]) for name in weights))

# %%
# Residual flows: a series of traces
# ----------------------------------
#
# The Jacobian of a residual layer :math:`x+g(x)` is not triangular, and it may be large.
# Let ``g`` *contract*: there is a number below 1, such as 0.9, and the largest singular
# value of the Jacobian of ``g`` is at most this number at every point. Then the layer can
# be inverted, and the logarithm is the sum of a series:
#
# .. math::
#
#    \log\det(I+J_g)=\sum_{k\ge1}\frac{(-1)^{k+1}}{k}\operatorname{tr}(J_g^k).
#
# For a trace you need no matrix. If each entry of ``v`` is +1 or −1 at random, then
# :math:`v^\top J_g^kv` is the trace *on average* (Hutchinson, 1990). To compute
# :math:`v^\top J_g^k`, you take ``k`` vector-Jacobian products one after another, and
# each of them gets the result of the one before as its ``v``. Here ``g`` has 30 inputs
# and a largest singular value of at most 0.6. We take twelve terms, since
# :math:`0.6^{13}` is about 0.001, and 2000 draws of ``v``:

generator = torch.Generator().manual_seed(0)
W = torch.randn(30, 30, generator=generator, dtype=torch.float64)
W = 0.6 * W / torch.linalg.matrix_norm(W, 2)
at = torch.randn(30, generator=generator, dtype=torch.float64)
g = lambda x: torch.tanh(W @ x)

_, pull = vjp(g, at)  # pull(v) is v @ J_g


def series(v):
    row, total = v, torch.zeros(len(v), dtype=v.dtype)
    for k in range(1, 13):
        (row,) = vmap(pull)(row)
        total = total + (-1) ** (k + 1) * (row * v).sum(1) / k
    return total


signs = torch.randint(0, 2, (2000, 30), generator=generator).double() * 2 - 1
estimates = series(signs)
exact = torch.linalg.slogdet(torch.eye(30) + jacrev(g)(at)).logabsdet
error = estimates.std() / math.sqrt(len(signs))
print(f"exact {exact:.2f}, estimate {estimates.mean():.2f}, standard error {error:.2f}")
print(f"one draw alone is off by about {estimates.std():.1f}")

# %%
# The mean of many draws is right within its standard error, and a single draw is far off.
# This matters less than it seems. A training step can use a single draw for each point,
# because the noise averages out over the batch and over the steps, as the noise of small
# batches does.
#
# A continuous flow, :math:`\dot x=g(x)`, needs only the first of these traces. Along a path
# the logarithm of the density falls at the rate of the trace of :math:`J_g`, which is also
# called the divergence of ``g``. :ref:`trace-and-norm` estimates this trace. Draw ``v``
# once each time you solve the differential equation, and not at each stage of the solver. A
# new ``v`` at every stage makes the right-hand side jump, and then a solver with adaptive
# steps takes very small ones.
#
# What to watch for
# -----------------
#
# **One scale for two numbers.** For points with four numbers, the last layer of the small
# network needs four outputs. With two of them there would be a single ``s`` for both
# numbers of ``b``. PyTorch expands it, the inverse is still right, and the sum counts
# ``s`` once in place of twice. So a test of the inverse does not see the mistake, but a
# comparison with ``slogdet`` does:

halved, wide_points = Flow(4).double(), torch.randn(6, 4).double()
for layer in halved.layers:
    layer.net[-1] = nn.Linear(32, 2).double()
z, counted = halved(wide_points)
J_halved = vmap(jacrev(lambda x: halved(x)[0]))(wide_points)
print("inverse right:", torch.allclose(halved.inverse(z), wide_points))
part = counted / torch.linalg.slogdet(J_halved).logabsdet
print("part that was counted:", [round(each, 6) for each in part.tolist()])

# %%
# **The determinant itself leaves the range of the dtype.** For a layer that scales each of
# a thousand numbers by 0.4, the determinant is :math:`0.4^{1000}`. Float32 rounds it to 0,
# and a later logarithm cannot undo this. ``slogdet`` never forms it:

wide = 0.4 * torch.eye(1000)
print("log of det", torch.det(wide).log().item())
print(f"slogdet    {torch.linalg.slogdet(wide).logabsdet.item():.1f}")

# %%
# **A log-determinant that does not learn.** Without ``create_graph=True``, the result of
# ``torch.autograd.functional.jacobian`` is a constant. If you put it into the loss, it
# changes the value of the loss but no gradient. The Jacobian from :mod:`torch.func` has a
# graph:

constant = torch.autograd.functional.jacobian(lambda x: flow(x)[0], few[0])
print("functional.jacobian", constant.requires_grad, " jacrev", J.requires_grad)

# %%
# **One Jacobian of the whole batch.** Without ``vmap`` you get a tensor of shape ``(B, n,
# B, n)``. If you read it as a square matrix, its determinant is right for the whole
# batch, because no point influences another and all blocks off the diagonal are 0. But it
# takes ``B`` times as many products, each of which goes through the whole batch, and its
# factorization takes :math:`B^2` times the work of ``B`` small ones:

big = jacrev(lambda x: flow(x)[0])(few).reshape(12, 12)
of_big = torch.linalg.slogdet(big).logabsdet
print("the same sum:", torch.allclose(of_big, whole.sum(), rtol=1e-3, atol=1e-3))

# %%
# **A layer whose Jacobian is singular at a point** has a determinant of 0 there. At this
# point the loss is infinite, and the gradient of ``slogdet`` is not finite either
# (:ref:`singular-matrices`).
#
# .. admonition:: Try it
#
#    Let ``flip`` be False in all six layers. Which of the two numbers of a point can the
#    flow still change? What do the drawn points look like?
#
# .. dropdown:: Answer
#
#    It can change only the second number, the height. The first number goes through all
#    six layers as it is. So the flow draws the first number from a normal distribution,
#    which is too wide for the arcs, and then finds the right height for it. This is why
#    the halves have to take turns.

torch.manual_seed(0)
stuck = Flow(2)
for layer in stuck.layers:
    layer.flip = False
noise = torch.randn(5, 2)
print("first number unchanged:", torch.equal(stuck.inverse(noise)[:, 0], noise[:, 0]))

# %%
# .. dropdown:: How we checked this page
#
#    We compare the log-determinant that we read off, and its gradient, with the whole
#    Jacobian in float64. We check that the inverse undoes the flow. We add up the series
#    for the 30 one-hot ``v``, which gives the traces without noise, and compare the sum
#    with the exact logarithm. The estimate has to lie within four standard errors. We
#    also check that the density adds up to 1 over a grid.

assert by_flow < 1.2
assert by_normal > 1.7
double = Flow(2).double()
double.load_state_dict(flow.state_dict())
points = few.double()
J64 = vmap(jacrev(lambda x: double(x)[0]))(points)
torch.testing.assert_close(double(points)[1], torch.linalg.slogdet(J64).logabsdet)
torch.testing.assert_close(double.inverse(double(points)[0]), points)
for name in weights:
    torch.testing.assert_close(slopes[0][name], slopes[1][name], rtol=1e-2, atol=1e-4)

grid = torch.cartesian_prod(torch.linspace(-3, 3, 300), torch.linspace(-3, 3, 300))
with torch.no_grad():
    mass = flow.log_prob(grid).exp().sum() * (6 / 299) ** 2
assert abs(mass - 1) < 0.05

one_hot = torch.eye(30, dtype=torch.float64)
torch.testing.assert_close(series(one_hot).sum(), exact, atol=1e-3, rtol=0)
assert torch.linalg.matrix_norm(jacrev(g)(at), 2) <= 0.6 + 1e-9
assert abs(estimates.mean() - exact) < 4 * error
assert abs(torch.linalg.slogdet(wide).logabsdet - 1000 * math.log(0.4)) < 0.01
assert (sign == 1).all()
torch.testing.assert_close(of_big, whole.sum(), rtol=1e-3, atol=1e-3)
assert not constant.requires_grad
assert J.requires_grad
torch.testing.assert_close(2 * counted, torch.linalg.slogdet(J_halved).logabsdet)
four = Flow(4).double()
z, summed = four(wide_points)
J_four = vmap(jacrev(lambda x: four(x)[0]))(wide_points)
torch.testing.assert_close(summed, torch.linalg.slogdet(J_four).logabsdet)
torch.testing.assert_close(four.inverse(z), wide_points)

# %%
# **Next:** For more ways to compute a Jacobian for each sample, read
# :ref:`jacobian-per-sample`. :ref:`trace-and-norm` compares estimates with random ``v``,
# and :ref:`ode-adjoint` trains through the solver of a continuous flow.
#
# .. asked: log determinant of the Jacobian; normalising flow; change of variables;
#    RealNVP; log det J expensive; flow likelihood; triangular Jacobian
# .. words: density, likelihood, bijector, volume, coupling layer, invertible, slogdet,
#    triangular, flow, exact
