r"""
.. _implicit-differentiation:

Implicit differentiation through a solver
=========================================

A solver runs in the middle of your program. It finds an equilibrium, the root of an
equation, or a fixed point, in sixty iterations or in six thousand, and you want to know
how the result depends on a parameter. You could let PyTorch record all the iterations and
go back through them, as long as you have enough memory. But it does not matter how the
solver has found the solution. The *equation* that it solves already determines the
derivative, and the backward pass solves one more equation, with ``v`` on the right-hand
side.
"""

# %%
# A fixed point
# -------------
#
# Our solver looks for a ``y`` that a map leaves unchanged, :math:`y=h(y,\theta)`. It starts
# at zero, applies the map sixty times, and raises an error if ``y`` is still moving after
# that. ``y`` and the parameter θ have six numbers each:

import torch

torch.manual_seed(0)  # the same map on every build
W = 0.4 * torch.randn(6, 6, dtype=torch.float64) / 6**0.5


def h(y, theta):
    return torch.tanh(W @ y + theta)


def solve(step, y, steps=60):
    """Return the y that is step(y), to the precision of its dtype."""
    for _ in range(steps):
        y = step(y)
    moved, size = (step(y) - y).detach().abs().max(), y.detach().abs().max()
    if not moved <= 100 * torch.finfo(y.dtype).eps * (1 + size):
        raise RuntimeError(f"after {steps} steps y still moves by {moved:.0e}")
    return y


def solution(theta):
    return solve(lambda y: h(y, theta), torch.zeros_like(theta))


# %%
# Think of the solution as the place where :math:`g(y,\theta)=h(y,\theta)-y` is 0. If θ
# moves a little, y has to move so that g stays 0. So the two changes must cancel,
# :math:`g_y\,y'+g_\theta=0`, and this is a linear system for the derivative :math:`y'`. As
# usual, we don't need this whole :term:`Jacobian`, only its product with a ``v``, the
# gradient that arrives at ``y``:
#
# .. math::
#
#    v^\top\frac{\partial y}{\partial\theta}=-\,a^\top g_\theta,
#    \qquad g_y^\top a=v .
#
# In words: solve *one* linear system for ``a``, with the *transposed* Jacobian as its
# matrix, since ``v`` multiplies from the left, and with ``v`` on its right-hand side. Then
# take one :term:`VJP` with ``a``. For our fixed point :math:`g_y=h_y-I`. If we put
# :math:`-a` in place of ``a``, the minus in front of :math:`a^\top g_\theta` disappears,
# and the system reads :math:`a=v+h_y^\top a`. Its solution is a fixed point again, so the
# same ``solve`` finds it.
#
# The program
# -----------
#
# We write this as a ``Function``, which you can use anywhere in a graph. You pass a map,
# a ``y`` to start from, and as many θ as the map takes. ``pull`` multiplies any ``a`` by
# all the Jacobians of ``h``. The first entry of its result belongs to y, and the others
# belong to the θ. You can copy the Function together with ``solve``. Only the tensors
# that you *pass* get a gradient. Any other tensor that ``h`` uses, such as ``W`` here,
# counts as a constant, and there is no warning if it is a weight that you train:


class FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, y, *thetas):
        y = solve(lambda y: h(y, *thetas), y)
        ctx.h = h
        ctx.save_for_backward(y, *thetas)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        _, pull = torch.func.vjp(ctx.h, *ctx.saved_tensors)
        a = solve(lambda a: v + pull(a)[0], v)
        return None, None, *pull(a)[1:]


# %%
# We pass a ``v`` with six different numbers:

theta = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
v = torch.arange(1.0, 7.0, dtype=torch.float64)
zero = torch.zeros_like(theta)
y = FixedPoint.apply(h, zero, theta)
y.backward(v)
print(theta.grad.round(decimals=4))

# %%
# Up to rounding, a backward pass through all sixty iterations gives the same gradient, as
# we check at the end.
#
# How small the graph becomes
# ---------------------------
#
# How large is the graph if the iterations are recorded, and how large is it if they are
# not? We count its nodes:


def nodes(y):
    seen, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [after for after, _ in node.next_functions]
    return len(seen)


print(nodes(solution(theta)), nodes(FixedPoint.apply(h, zero, theta)))

# %%
# With six thousand iterations the first number would be a hundred times as large, and the
# second would stay the same.
#
# Deep equilibrium networks do the same in a different way (:ref:`deep-equilibrium`). They
# record a single step at the solution, and a *hook* on the result of this step replaces the
# incoming ``v`` with ``a``:

y0 = solution(theta.detach()).requires_grad_()
f0, z = h(y0, theta), h(y0.detach(), theta)
pulled = lambda a: torch.autograd.grad(f0, y0, a, retain_graph=True)[0]
z.register_hook(lambda v: solve(lambda a: v + pulled(a), v))
print(torch.allclose(torch.autograd.grad(z, theta, v)[0], theta.grad))

# %%
# Finding the θ that has a given solution
# ---------------------------------------
#
# Now we can turn the question around: *which θ has a given y as its fixed point?* We start
# at zero and let an optimizer look for this θ, with the solver inside the loss:

goal = torch.tensor([0.5, -0.5, 0.2, 0.0, 0.3, -0.1], dtype=torch.float64)
guess = torch.zeros(6, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([guess], lr=0.1, momentum=0.9)
distance = []
for _ in range(300):
    optimizer.zero_grad()
    loss = ((FixedPoint.apply(h, zero, guess) - goal) ** 2).sum()
    loss.backward()
    optimizer.step()
    distance.append(loss.item() ** 0.5)

# %%
# The plot shows the distance from the fixed point that we want at each step:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.semilogy(distance)
ax.set_xlabel("step")
title = ax.set_title("The distance from the wanted fixed point falls")

# %%
# The distance oscillates a little because of the momentum, but on the logarithmic scale its
# trend is a steady fall.
#
# What to watch for
# -----------------
#
# **A solver that stops early.** The formula holds at a solution. After three iterations y
# is not there yet, and you get neither the derivative of the true solution nor the
# derivative of the three steps that you have computed. How far is the result from each of
# the two?

z = theta.detach()
three = lambda z: h(h(h(zero, z), z), z)
_, pull = torch.func.vjp(h, three(z), z)
at_three = pull(solve(lambda a: v + pull(a)[0], v))[1]
unrolled = torch.func.vjp(three, z)[1](v)[0]
print([f"{(at_three - g).abs().max():.3f}" for g in (theta.grad, unrolled)])

# %%
# **A map that does not contract.** With such a map the iterations may run away, or never
# settle, in either pass, although a solution exists. If they only settle slowly, take more
# ``steps``. A solver that does not check its result would go on with a wrong ``y`` and a
# wrong gradient. As long as :math:`g_y` can be inverted, the formula is still right.
# Replace ``solve`` with Newton's method, and the iteration for ``a`` with a linear solver.
# Here the fixed point is 1, and the iterations start at 0.9:

steep = lambda y: -2 * y + 3  # a fixed point at 1
try:
    solve(steep, torch.tensor(0.9))
except RuntimeError as error:
    print(steep(1.0), error)

# %%
# **The Jacobian where its transpose is needed.** The system is square, so both versions
# run, and no shape reveals the mistake. The two results differ by more than 0.1:

with torch.no_grad():
    hy, htheta = torch.func.jacrev(h, argnums=(0, 1))(y, theta)
    eye = torch.eye(6, dtype=torch.float64)
    right = torch.linalg.solve((eye - hy).T, v) @ htheta
    wrong = torch.linalg.solve(eye - hy, v) @ htheta
print(bool((wrong - right).abs().max() > 0.1))

# %%
# **A second derivative.** With ``once_differentiable`` a second derivative raises an error.
# If you leave this decorator out, PyTorch records the ``backward`` with its sixty
# iterations, and second derivatives are right. With the hook of a deep equilibrium network,
# as above, they are wrong, and there is no error, because ``y0`` is a constant there.
#
# .. admonition:: Try it
#
#    Take a root in place of a fixed point: :math:`y^3+y=\theta` for each of six θ. What is
#    :math:`g_y`, and is a linear solver needed?
#
# .. dropdown:: Answer
#
#    Each y has its own equation, so :math:`g_y=3y^2+1` is diagonal, and a division solves
#    the system. Newton's method finds y, and ``backward`` is one line. ``gradcheck``, which
#    compares with difference quotients, needs float64:


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, theta):
        y = torch.zeros_like(theta)
        for _ in range(30):
            y = y - (y**3 + y - theta) / (3 * y**2 + 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        (y,) = ctx.saved_tensors
        return v / (3 * y**2 + 1)


print("as by differences:", torch.autograd.gradcheck(Root.apply, (theta,)))

# %%
# .. dropdown:: How we checked this page
#
#    We compare the program with the dense formula, with the derivative through all the
#    iterations, and with :term:`finite differences`, the last with ``W`` as a second
#    parameter as well. We compare the θ that the optimizer found with the θ that has the
#    wanted fixed point.

torch.testing.assert_close(theta.grad, right)
through = torch.autograd.grad(solution(theta), theta, v)[0]
torch.testing.assert_close(theta.grad, through)
fixed = lambda *thetas: FixedPoint.apply(
    lambda y, theta, W: torch.tanh(W @ y + theta), zero, *thetas
)
assert torch.autograd.gradcheck(fixed, (theta, W.clone().requires_grad_()))
assert (wrong - right).abs().max() > 0.1
torch.testing.assert_close(guess.detach(), torch.atanh(goal) - W @ goal, atol=1e-3, rtol=0)

# %%
# **Next:** For a network whose output is a fixed point, read :ref:`deep-equilibrium`. To
# write a Function of your own, read :ref:`custom-function`. :ref:`deriving-vjps` derives
# the VJP of a linear solve. To compute many products at one point, read :ref:`linearize`.
#
# .. asked: implicit differentiation; differentiate through a solver; fixed point layer;
#    deep equilibrium model; implicit function theorem; gradient of an optimum; root
#    finder gradient; differentiable optimisation layer; differentiate an argmin;
#    derivative of the solution of an optimisation; inner problem; layer that solves
#    equations
# .. words: inner solver, argmin, equilibrium, root, newton inside, while loop until
#    convergence, lagrange, optimisation layer, bilevel, no need to unroll
