r"""
.. _optimal-transport:

Must I backpropagate through Sinkhorn's iterations?
===================================================

For the minimum itself, cost with entropy, no: its gradient by the cost matrix is the
transport plan, as the plan's own change does not count to first order. For a loss on the
plan, or the cost without the entropy, which is not what is minimised, yes: through the
steps, or through the equations that they solve.
"""

# %%
# Weights p and q of shape ``(n,)`` and ``(m,)``, a cost matrix C of shape ``(n, m)``.
# Sinkhorn's steps make a plan P whose rows sum to p and columns to q, and which minimises
#
# .. math::
#
#    F(C)=\min_P\ \sum_{ij}P_{ij}C_{ij}+\varepsilon\sum_{ij}P_{ij}(\log P_{ij}-1).
#
# In logarithms, since :math:`e^{-C/\varepsilon}` is 0 in float32 for a small ε:

import torch

torch.manual_seed(0)  # the same points on every build
a = torch.randn(5, 2, dtype=torch.float64)
b = torch.randn(4, 2, dtype=torch.float64) + 1
p, q = torch.full((5,), 1 / 5).double(), torch.full((4,), 1 / 4).double()
epsilon = 0.5

# %%
# The steps, the plan, and a cost, the squared distance of two points:


def potentials(C, steps=400):
    g = torch.zeros_like(q)
    for _ in range(steps):
        f = epsilon * (p.log() - torch.logsumexp((g - C) / epsilon, 1))
        g = epsilon * (q.log() - torch.logsumexp((f[:, None] - C) / epsilon, 0))
    return f, g


def plan(C, f, g):
    return ((f[:, None] + g - C) / epsilon).exp()


def squared(a):
    return ((a[:, None] - b) ** 2).sum(-1)


# %%
# F from the potentials is ``dual``. Its gradient by C through all the steps, its gradient
# with the potentials held as constants, and the plan are the same:

C = squared(a).requires_grad_()


def dual(f, g):
    return f @ p + g @ q - epsilon * plan(C, f, g).sum()


(through,) = torch.autograd.grad(dual(*potentials(C)), C)
with torch.no_grad():
    f, g = potentials(C)
(held,) = torch.autograd.grad(dual(f, g), C)
P = plan(C.detach(), f, g)
print([torch.allclose(found, P) for found in (through, held)])
P.round(decimals=3)

# %%
# (This is the *envelope theorem*, or Danskin's: where :math:`\partial F/\partial f=0`, the
# way through f contributes nothing.) To the points: C is a function of them, and P is the v
# that C is handed. No step of Sinkhorn is in the graph:

points = a.clone().requires_grad_()
(by_points,) = torch.autograd.grad(squared(points), points, P)
print(by_points.round(decimals=3))

# %%
# What goes wrong
# ---------------
#
# *The same with the transport cost,* ``(P * C).sum()``. That leaves out the entropy, and is
# not what P minimises. With P held constant the gradient is P again, and wrong: the true
# one, through P as well, differs from P by a quarter:


def cost_only(C, record):
    with torch.set_grad_enabled(record):
        f, g = potentials(C)
    return (plan(C, f, g).detach() if not record else plan(C, f, g)).mul(C).sum()


for record in (False, True):
    (by_cost,) = torch.autograd.grad(cost_only(C, record), C)
    print(record, f"{(by_cost - P).norm() / P.norm():.2f}")

# %%
# *NaN*, with a small ε and without logarithms: a row of the kernel is 0, and p is divided
# by it:

for name, eps in (("0.5", 0.5), ("0.001", 0.001)):
    kernel = (-squared(a).float() / eps).exp()
    w = torch.ones(4)
    for _ in range(50):
        u = p.float() / (kernel @ w)
        w = q.float() / (kernel.T @ u)
    print(name, f"{(u[:, None] * kernel * w).sum():.3f}")

# %%
# *It stopped too early.* After three steps the plan's rows do not sum to p, and the
# shortcut is off by an error of that size. The gradient through the steps is exact for what
# was computed:

with torch.no_grad():
    early = plan(C, *potentials(C, 3))
(of_three,) = torch.autograd.grad(dual(*potentials(C, 3)), C)
print(f"{(early - of_three).abs().max():.3f} {(early.sum(1) - p).abs().max():.3f}")

# %%
# A loss on the plan
# ------------------
#
# Here the way through P is all there is. The potentials solve two equations, rows and
# columns; their derivative is one linear system (:ref:`implicit-differentiation`),
# singular, because f + c and g - c make the same plan: least squares takes the shortest
# solution:

v = torch.randn(5, 4).double()


def implicit(v):
    w = v * P / epsilon  # back to the exponents
    top = torch.cat([P.sum(1).diag(), P], 1)
    system = torch.cat([top, torch.cat([P.T, P.sum(0).diag()], 1)])
    wanted = torch.cat([w.sum(1), w.sum(0)])
    t = torch.linalg.lstsq(system, wanted[:, None], driver="gelsd").solution[:, 0]
    return P * (t[:5, None] + t[5:]) - w


(unrolled,) = torch.autograd.grad(plan(C, *potentials(C)), C, v)
print(torch.allclose(implicit(v), unrolled, atol=1e-8))

# %%
# The check: differences of the minimum F, of the cost without entropy and of the loss on
# the plan, and the sums of the plan:

h = torch.zeros(5, 4, dtype=torch.float64)
h[1, 2] = 1e-5
with torch.no_grad():
    values = []
    for moved in (C + h, C - h):
        M = plan(moved, *potentials(moved))
        F = (M * moved).sum() + epsilon * (M * (M.log() - 1)).sum()
        values.append(torch.stack([F, (M * moved).sum(), (M * v).sum()]))
found = torch.stack([G[1, 2] for G in (P, by_cost, implicit(v))])
torch.testing.assert_close((values[0] - values[1]) / 2e-5, found, rtol=0, atol=1e-7)
torch.testing.assert_close(P.sum(1), p)
torch.testing.assert_close(P.sum(0), q)

# %%
# Where next
# ----------
#
# Other solvers: :ref:`implicit-differentiation`. A minimum inside a loss:
# :ref:`hypergradients`. v that comes from elsewhere: :ref:`external-loss`.
#
# .. asked: optimal transport; Sinkhorn gradient; Wasserstein loss; differentiate
#    through Sinkhorn iterations; envelope theorem
