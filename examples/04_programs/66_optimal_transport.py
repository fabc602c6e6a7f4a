r"""
.. _optimal-transport:

Must I backpropagate through Sinkhorn's iterations?
===================================================

You have two clouds of points, for example samples from your model and samples from the
data, and you want to move the first onto the second. You do not know which point belongs to
which. *Optimal transport* finds out. It computes a plan that says how much of the mass of
each point goes where. This takes some hundreds of iterations, which are named after
Sinkhorn. Do you have to record all these iterations to get a gradient? For the usual loss
you don't, and the plan itself is the ``v`` that you pass.
"""

# %%
# The transport plan
# ------------------
#
# We have ``n`` points ``a`` and ``m`` points ``b``, each with an equal share of the mass.
# The shares are ``p`` and ``q``, and they may also be unequal. The matrix ``C`` of shape
# ``(n, m)`` holds the cost of a move from a point of ``a`` to a point of ``b``, which is
# the squared distance here. The plan ``P`` has the same shape. Its rows add up to ``p``
# and its columns add up to ``q``. Among all such plans, it minimizes
#
# .. math::
#
#    F(C)=\min_P\ \sum_{ij}P_{ij}C_{ij}+\varepsilon\sum_{ij}P_{ij}(\log P_{ij}-1).
#
# The first sum is the cost. The second sum is an entropy, which blurs the plan a little
# and makes it easy to compute. Sinkhorn's steps look for two vectors, ``f`` and ``g``,
# which are called potentials. The steps correct the sums of the rows and the sums of the
# columns in turn. We write them with logarithms, because :math:`e^{-C/\varepsilon}` is 0
# in float32 if ε is small:

import torch


def squared(a, b):
    return ((a[:, None] - b) ** 2).sum(-1)


def potentials(C, p, q, epsilon, steps=400):
    g = torch.zeros_like(q)
    for _ in range(steps):
        f = epsilon * (p.log() - torch.logsumexp((g - C) / epsilon, 1))
        g = epsilon * (q.log() - torch.logsumexp((f[:, None] - C) / epsilon, 0))
    return f, g


def plan(C, f, g, epsilon):
    return ((f[:, None] + g - C) / epsilon).exp()


# %%
# The program
# -----------
#
# Eighty points lie in a heap, and eighty others on a ring. In each step we compute the
# plan, without recording anything, and then go back from the cost matrix to the points,
# with the plan as ``v``. The plan has the shape of ``C``. Each of its entries says how much
# mass moves from one point to another, and so it is the weight of the corresponding entry
# of the cost matrix. The learning rate of 10 is not as large as it looks. Each point has a
# share of 1/80, so a rate of 40 would move it all the way to the mean of the places where
# it is sent:


def move(points, targets, epsilon=0.05, steps=30, lr=10.0):
    points = points.clone().requires_grad_()
    p = torch.full((len(points),), 1 / len(points), dtype=points.dtype)
    q = torch.full((len(targets),), 1 / len(targets), dtype=points.dtype)
    optimizer = torch.optim.SGD([points], lr=lr)
    path = [points.detach().clone()]
    for _ in range(steps):
        C = squared(points, targets)
        with torch.no_grad():
            P = plan(C, *potentials(C, p, q, epsilon, 100), epsilon)
        optimizer.zero_grad()
        C.backward(P)  # the plan is v
        optimizer.step()
        path.append(points.detach().clone())
    return torch.stack(path)


torch.manual_seed(0)  # the same points on every build
angle = 2 * torch.pi * torch.arange(80, dtype=torch.float64) / 80
ring = torch.stack([angle.cos(), angle.sin()], 1)
heap = 0.3 * torch.randn(80, 2, dtype=torch.float64)
path = move(heap, ring)

# %%
# The picture shows the heap, the ring, and the path of each point:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(4.4, 4.2))
ax.plot(*ring.T, "o", color="lightgrey", markersize=9, label="ring")
for way in path.unbind(1):
    ax.plot(*way.T, color="tab:purple", linewidth=0.6)
ax.plot(*path[0].T, ".", label="heap")
ax.plot(*path[-1].T, ".", label="after 30 steps")
ax.set_aspect("equal")
legend = ax.legend(loc="upper right", fontsize=8)

# %%
# At the end every place on the ring has a point near it. We compute how far the places of
# the ring are from their nearest points, and print the largest of these distances:

gap = torch.cdist(ring, path[-1]).min(1).values.max().item()
before = torch.cdist(ring, heap).min(1).values.max().item()
print(f"{before:.1f} at first, below 0.1 at the end: {gap < 0.1}")

# %%
# Why the iterations can be left out
# ----------------------------------
#
# A change of ``C`` also changes the plan, so you would expect two parts in the gradient
# of ``F``: one with the plan as it is, and one through the change of the plan. The second
# part is 0. The plan is where the sum is smallest, and at a minimum a small change of the
# plan changes nothing to first order. This is the *envelope theorem*, also named after
# Danskin. Only the first part is left, the derivative of :math:`\sum P_{ij}C_{ij}` with a
# constant ``P``, which is ``P``.
#
# To test the theorem on five and four points, we write ``F`` with the potentials. Then we
# differentiate it through all 400 steps, and once more with the potentials as constants:

epsilon = 0.5
a = torch.randn(5, 2, dtype=torch.float64)
b = torch.randn(4, 2, dtype=torch.float64) + 1
p, q = torch.full((5,), 1 / 5).double(), torch.full((4,), 1 / 4).double()
C = squared(a, b).requires_grad_()


def minimum(C, f, g):
    return f @ p + g @ q - epsilon * plan(C, f, g, epsilon).sum()


(through,) = torch.autograd.grad(minimum(C, *potentials(C, p, q, epsilon)), C)
with torch.no_grad():
    f, g = potentials(C, p, q, epsilon)
(held,) = torch.autograd.grad(minimum(C, f, g), C)
P = plan(C, f, g, epsilon).detach()
print("through all the steps, the plan:", torch.allclose(through, P))
print("without them, the plan:         ", torch.allclose(held, P))
P.round(decimals=3)

# %%
# What to watch for
# -----------------
#
# **The cost alone is a different loss.** Many libraries report ``(P * C).sum()``, without
# the entropy. ``P`` does not minimize this sum, so the theorem does not apply. If you hold
# ``P`` constant, you still get ``P`` as the gradient. If you record the iterations, you get
# the true gradient. For three values of ε, we print how far each of the two gradients is
# from ``P``, divided by the length of ``P``:


def off(epsilon, record):
    with torch.set_grad_enabled(record):
        P = plan(C, *potentials(C, p, q, epsilon, 1000), epsilon)
    (by_cost,) = torch.autograd.grad((P * C).sum(), C)
    return by_cost, ((by_cost - P).norm() / P.norm()).item()


print("epsilon  P held  P recorded")
recorded = {}
for size in (0.5, 0.1, 0.02):
    recorded[size] = off(size, True)
    print(f"{size:7} {off(size, False)[1]:7.2f} {recorded[size][1]:11.2f}")
by_cost, missing = recorded[epsilon]

# %%
# With the ε of 0.5 from the test above, the missing part is about a third as long as ``P``.
# With the two smaller ε it is less than a tenth as long, and it does not fall evenly.
#
# **The iterations stopped too early.** The theorem holds at the minimum. After three
# steps the rows of the plan do not add up to ``p`` yet, and the shortcut has an error of
# about this size. The gradient through the three steps is exact for the numbers that were
# computed:

with torch.no_grad():
    early = plan(C, *potentials(C, p, q, epsilon, 3), epsilon)
(of_three,) = torch.autograd.grad(minimum(C, *potentials(C, p, q, epsilon, 3)), C)
print(f"shortcut off by {(early - of_three).abs().max():.3f}")
print(f"rows off by     {(early.sum(1) - p).abs().max():.3f}")

# %%
# **NaN with a small ε.** The textbook form of the iterations has no logarithms. If ε is
# small, a whole row of the kernel :math:`e^{-C/\varepsilon}` is rounded to 0, and ``p``
# is divided by the sum of this row. We print the mass of the plan, which should be 1:

for name, small in (("0.5", 0.5), ("0.001", 0.001)):
    kernel = (-squared(a, b).float() / small).exp()
    w = torch.ones(4)
    for _ in range(50):
        u = p.float() / (kernel @ w)
        w = q.float() / (kernel.T @ u)
    mass = (u[:, None] * kernel * w).sum()
    logs = plan(C, *potentials(C, p, q, small, 2000), small).sum()
    print(f"epsilon {name:5}: without logarithms {mass:.3f}, with them {logs:.3f}")

# %%
# **A blurred plan shrinks the cloud.** With a large ε each point is sent to many places
# at once, and the gradient pulls it to their mean. :ref:`The exercise <sinkhorn-try>`
# below shows it.
#
# A loss on the plan
# ------------------
#
# Sometimes the plan itself goes into the loss, for example when you know some of the
# pairs. Then ``v`` arrives at ``P``, and the whole gradient goes through ``P``. You may
# record the iterations. Or you use the equations that the potentials solve: the rows of
# the plan add up to ``p``, and the columns to ``q``. The derivative of a solution comes
# from one linear system (:ref:`implicit-differentiation`). The system here is singular,
# because you can add a number to all of ``f`` and subtract it from all of ``g`` without
# changing the plan. So we take the shortest of its solutions by least squares:


def through_equations(v, P, epsilon):
    """Return the vector-Jacobian product from the plan to the cost matrix."""
    w = v * P / epsilon  # from P to the exponents, which are divided by epsilon
    top = torch.cat([P.sum(1).diag(), P], 1)
    system = torch.cat([top, torch.cat([P.T, P.sum(0).diag()], 1)])
    wanted = torch.cat([w.sum(1), w.sum(0)])
    t = torch.linalg.lstsq(system, wanted[:, None], driver="gelsd").solution[:, 0]
    n = len(P)
    return P * (t[:n, None] + t[n:]) - w


v = torch.randn(5, 4, dtype=torch.float64)
by_equations = through_equations(v, P, epsilon)
found = plan(C, *potentials(C, p, q, epsilon), epsilon)
(unrolled,) = torch.autograd.grad(found, C, v)
print("the same:", torch.allclose(by_equations, unrolled, atol=1e-8))

# %%
# .. _sinkhorn-try:
#
# .. admonition:: Try it
#
#    Move the heap with ``epsilon=1.0`` instead of 0.05. Where do the points end up, and
#    why?
#
# .. dropdown:: Answer
#
#    They end up near the center. With so much blur, each point is sent to all places of
#    the ring almost equally, and the mean of the ring is its center. As a remedy, people
#    subtract half of the same loss between the cloud and itself. The result is called the
#    *Sinkhorn divergence*, and the subtracted term pushes the points apart.

blurred = move(heap, ring, epsilon=1.0)
print(f"mean distance from the centre {blurred[-1].norm(dim=1).mean():.1f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradients of the minimum, of the cost without the entropy and of a loss
#    on the plan with difference quotients for one entry of ``C``. We compare the sums of
#    the plan with ``p`` and ``q``.

h = torch.zeros(5, 4, dtype=torch.float64)
h[1, 2] = 1e-5
with torch.no_grad():
    values = []
    for moved in (C + h, C - h):
        M = plan(moved, *potentials(moved, p, q, epsilon), epsilon)
        F = (M * moved).sum() + epsilon * (M * (M.log() - 1)).sum()
        values.append(torch.stack([F, (M * moved).sum(), (M * v).sum()]))
slopes = torch.stack([G[1, 2] for G in (P, by_cost, by_equations)])
torch.testing.assert_close((values[0] - values[1]) / 2e-5, slopes, rtol=0, atol=1e-7)
torch.testing.assert_close(P.sum(1), p)
torch.testing.assert_close(P.sum(0), q)
torch.testing.assert_close(through, P)
torch.testing.assert_close(held, P)
torch.testing.assert_close(by_equations, unrolled, rtol=0, atol=1e-8)
assert gap < 0.1 < before
assert 0.3 < missing < 0.4
assert max(recorded[0.1][1], recorded[0.02][1]) < 0.1
assert mass.isnan()
assert abs(logs - 1) < 1e-3
assert blurred[-1].norm(dim=1).mean() < 0.3

# %%
# **Next:** If a different solver is in the middle of your model, read
# :ref:`implicit-differentiation`. If your loss contains the result of a minimization,
# read :ref:`hypergradients`. If your ``v`` comes from another program, read
# :ref:`external-loss`.
#
# .. asked: optimal transport; Sinkhorn gradient; Wasserstein loss; differentiate
#    through Sinkhorn iterations; envelope theorem
# .. words: wasserstein, earth mover, matching, coupling, plan, entropic, geomloss,
#    distributions
