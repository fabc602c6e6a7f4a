r"""
.. _implicit-differentiation:

Implicit differentiation through a solver
=========================================

For a solution defined by :math:`g(y,\theta)=0`, do not differentiate the iterations:
solve one linear system with ``v`` on its right-hand side, then take one :term:`VJP` of
g. Memory does not grow with the number of steps.
"""

# %%
# Let y and g have shape ``(n,)``. Differentiating :math:`g(y(\theta),\theta)=0` gives
# :math:`g_y\,y'+g_\theta=0`, so
#
# .. math::
#
#    v^\top\frac{\partial y}{\partial\theta}=-\,a^\top g_\theta,
#    \qquad g_y^\top a=v .
#
# The system has the *transposed* :term:`Jacobian`, since ``v`` comes from the left. For a
# fixed point :math:`y=h(y,\theta)`, :math:`g_y=h_y-I`:

import torch

torch.manual_seed(0)  # the same map on every build
W = 0.4 * torch.randn(6, 6, dtype=torch.float64) / 6**0.5


def h(y, theta):
    return torch.tanh(W @ y + theta)


def solve(step, y):  # y = step(y), by steps
    for _ in range(60):
        y = step(y)
    return y


def solution(theta):
    return solve(lambda y: h(y, theta), torch.zeros_like(theta))


# %%
# As a function that can stand in a graph. The backward never sees the iterations: it solves
# :math:`a=v+h_y^\top a` by its own fixed-point iteration, made of VJPs only:


class FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, theta):
        y = solution(theta)
        ctx.save_for_backward(y, theta)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        _, pull = torch.func.vjp(h, *ctx.saved_tensors)
        a = solve(lambda a: v + pull(a)[0], v)
        return pull(a)[1]


# %%
# ``a`` solves :math:`(I-h_y)^\top a=v`, which is the system above with its sign turned.
# The first entry of ``pull(a)`` belongs to y, the second to θ:

theta = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
v = torch.arange(1.0, 7.0, dtype=torch.float64)
y = FixedPoint.apply(theta)
y.backward(v)
theta.grad.round(decimals=4)

# %%
# What it saves
# -------------
#
# The nodes of the graph, counted, with 60 iterations and without:


def nodes(y):
    seen, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [after for after, _ in node.next_functions]
    return len(seen)


print(nodes(solution(theta)), nodes(FixedPoint.apply(theta)))

# %%
# As a hook (DEQ): on the result of one recorded step it puts a in the place of ``v``:

y0 = solution(theta.detach()).requires_grad_()
f0, z = h(y0, theta), h(y0.detach(), theta)
pulled = lambda a: torch.autograd.grad(f0, y0, a, retain_graph=True)[0]
z.register_hook(lambda v: solve(lambda a: v + pulled(a), v))
print(torch.allclose(torch.autograd.grad(z, theta, v)[0], theta.grad))

# %%
# Choosing θ with it
# ------------------
#
# Find the θ whose fixed point is a given y:

goal = torch.tensor([0.5, -0.5, 0.2, 0.0, 0.3, -0.1], dtype=torch.float64)
guess = torch.zeros(6, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([guess], lr=0.5)
distance = []
for _ in range(300):
    optimizer.zero_grad()
    loss = ((FixedPoint.apply(guess) - goal) ** 2).sum()
    loss.backward()
    optimizer.step()
    distance.append(loss.item() ** 0.5)

# %%
# Step by step:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.semilogy(distance)
ax.set_xlabel("step")
title = ax.set_title("The distance from the wanted fixed point falls")

# %%
# What goes wrong
# ---------------
#
# Stopping early. After three iterations y is not a solution yet, and the formula answers
# for the true solution near it, not for the numbers that you have. How far off it is:

start, z = torch.zeros(6, dtype=torch.float64), theta.detach()
three = lambda z: h(h(h(start, z), z), z)
_, pull = torch.func.vjp(h, three(z), z)
at_three = pull(solve(lambda a: v + pull(a)[0], v))[1]
unrolled = torch.func.vjp(three, z)[1](v)[0]
print([f"{(at_three - g).abs().max():.3f}" for g in (theta.grad, unrolled)])

# %%
# A map that does not contract. Iterating has no end then, forward or backward, though the
# solution exists; use Newton's method and a linear solver in place of ``solve``:

steep = lambda y: -2 * y + 3  # a fixed point at 1
print(steep(1.0), bool(solve(steep, torch.tensor(0.9)).abs() > 1e10))

# %%
# Using J where its transpose is needed. Both run, as the system is square:

with torch.no_grad():
    hy, htheta = torch.func.jacrev(h, argnums=(0, 1))(y, theta)
    eye = torch.eye(6, dtype=torch.float64)
    right = torch.linalg.solve((eye - hy).T, v) @ htheta
    wrong = torch.linalg.solve(eye - hy, v) @ htheta
print(bool((wrong - right).abs().max() > 0.1))

# %%
# The check: the dense formula, the derivative through all the iterations, and differences:

torch.testing.assert_close(theta.grad, right)
through = torch.autograd.grad(solution(theta), theta, v)[0]
torch.testing.assert_close(theta.grad, through)
assert torch.autograd.gradcheck(FixedPoint.apply, (theta,))
assert (wrong - right).abs().max() > 0.1
torch.testing.assert_close(guess.detach(), torch.atanh(goal) - W @ goal, atol=1e-3, rtol=0)

# %%
# Where next
# ----------
#
# Functions of your own: :ref:`custom-function`. The VJP of a linear solve:
# :ref:`deriving-vjps`. Many products at one point: :ref:`linearize`.
#
# .. asked: implicit differentiation; differentiate through a solver; fixed point layer;
#    deep equilibrium model; implicit function theorem; gradient of an optimum; root
#    finder gradient; differentiable optimisation layer; differentiate an argmin;
#    derivative of the solution of an optimisation; inner problem; layer that solves
#    equations
