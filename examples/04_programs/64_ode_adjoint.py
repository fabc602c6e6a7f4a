r"""
.. _ode-adjoint:

Neural ODEs: backward through the solver, or the adjoint equation?
==================================================================

Backward through the steps is exact for the numbers that you computed, and keeps every step.
The adjoint equation integrates :math:`\dot a=-J^\top a`, one :term:`VJP` at a time,
backward in time and keeps nothing; it answers for the true solution, up to the error of
the solver.
"""

# %%
# A state x of shape ``(n,)`` with :math:`\dot x=f(x,\theta)`, and v for the last state.
# From :math:`a(T)=v` back to time 0, where :math:`a(0)` is the gradient by the first state:
#
# .. math::
#
#    \dot a=-\Bigl(\frac{\partial f}{\partial x}\Bigr)^{\!\top}a,\qquad
#    v^\top\frac{\partial x(T)}{\partial\theta}
#    =\int_0^T a^\top\frac{\partial f}{\partial\theta}\,dt .
#
# A pendulum with friction :math:`\theta_1`; :math:`\theta_0` is gravity over length:

import torch
from torch.func import vjp


def f(x, theta):
    angle, speed = x
    return torch.stack([speed, -theta[0] * torch.sin(angle) - theta[1] * speed])


def step(rhs, x, h):  # Runge-Kutta, of order four
    k1 = rhs(x)
    k2 = rhs(x + h / 2 * k1)
    k3 = rhs(x + h / 2 * k2)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rhs(x + h * k3))


# %%
# The way through the solver: record the steps and pass v. Where other points in time have
# a loss as well, their v go into :func:`torch.autograd.backward` beside it; in the adjoint
# way each is added to a as its time goes by:

theta = torch.tensor([2.0, 0.3], dtype=torch.float64, requires_grad=True)
x0 = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
v = torch.tensor([1.0, 10.0], dtype=torch.float64)


def solve(steps, T=3.0):
    x = x0
    for _ in range(steps):
        x = step(lambda x: f(x, theta), x, T / steps)
    return x


through = torch.autograd.grad(solve(20), (x0, theta), v)
through

# %%
# The adjoint way
# ---------------
#
# The last state, v, and zeros for the parameters' integral are one state of 2 + 2 + 2
# numbers, run backward. No graph: the VJP of f is all the differentiation there is:


def adjoint(steps, T=3.0):
    def rhs(state):
        y, pull = vjp(f, state[:2], theta.detach())
        by_x, by_theta = pull(state[2:4])
        return torch.cat([y, -by_x, -by_theta])

    with torch.no_grad():
        state = torch.cat([solve(steps, T), v, torch.zeros(2).double()])
        for _ in range(steps):
            state = step(rhs, state, -T / steps)
    return state[:2], (state[2:4], state[4:])


back, by_adjoint = adjoint(20)
by_adjoint

# %%
# What goes wrong
# ---------------
#
# *The two gradients differ.* They must, a little: one belongs to 20 steps, the other to the
# ODE. The gap falls with the step's fourth power, in the end 16 times for each doubling:

for steps in (5, 10, 20, 40):
    exact, (by_x0, _) = torch.autograd.grad(solve(steps), x0, v)[0], adjoint(steps)[1]
    print(steps, f"{(exact - by_x0).norm():.1e}")

# %%
# *The state does not come back.* Friction run backward is growth: it multiplies each error
# by nearly :math:`e^{\theta_1T}`. With strong friction over a long time the adjoint loses
# the state, and with it the gradient. Keep some states on the way, or record the solver:

with torch.no_grad():
    theta[1] = 8.0
for T in (1.0, 3.0, 9.0):
    off = (adjoint(60, T)[0] - x0.detach()).norm()
    (exact,) = torch.autograd.grad(solve(60, T), theta, v)
    lost = (exact - adjoint(60, T)[1][1]).norm() > 0.1 * exact.norm()
    print(T, f"state off by {off:.0e}", "gradient by theta lost:", lost.item())
with torch.no_grad():
    theta[1] = 0.3

# %%
# Exact, with the graph of one step at a time
# -------------------------------------------
#
# Keep the states, no graphs, and take the VJP of each *step*, from the last to the first:
# the discrete adjoint. A checkpoint around each step does the same. Here is the gradient
# of the recorded steps, to twelve digits:


def stepwise(steps, T=3.0):
    one = lambda x, theta: step(lambda x: f(x, theta), x, T / steps)
    with torch.no_grad():
        states = [x0]
        for _ in range(steps):
            states.append(one(states[-1], theta))
    a, by_theta = v, torch.zeros(2).double()
    for x in reversed(states[:-1]):
        a, more = vjp(one, x.detach(), theta.detach())[1](a)
        by_theta = by_theta + more
    return a, by_theta


print([torch.allclose(*ab, rtol=1e-12) for ab in zip(stepwise(20), through, strict=True)])

# %%
# *Which one, then?* Recorded where the memory suffices; stepwise, or :ref:`checkpointing`,
# where it does not; the continuous adjoint for a solver that cannot be recorded, with
# tolerances that you have tested against one of the others.
#
# The end time has a derivative as well, where T is a tensor. For the true solution it is
# :math:`v\cdot f(x(T))`:

T = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
x_end = solve(40, T)
(by_time,) = torch.autograd.grad(x_end, T, v)
print(f"{by_time:.4f} {v @ f(x_end, theta):.4f}")
assert abs(by_time - v @ f(x_end, theta)) < 1e-4

# %%
# The check: differences of the solver's own numbers, and the adjoint against them with many
# steps:

for got, leaf in zip(through, (x0, theta), strict=True):
    for i in range(2):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                leaf[i] += sign * 1e-6
                values.append(v @ solve(20))
                leaf[i] -= sign * 1e-6
        assert abs((values[0] - values[1]) / 2e-6 - got[i]) < 1e-6
fine = torch.autograd.grad(solve(300), (x0, theta), v)
torch.testing.assert_close(adjoint(300)[1], fine, rtol=1e-7, atol=0)
torch.testing.assert_close(stepwise(20), through, rtol=1e-12, atol=0)

# %%
# Where next
# ----------
#
# Products of many Jacobians: :ref:`through-time`. A fixed point in place of an end time:
# :ref:`implicit-differentiation`. The density of such a flow: :ref:`log-det-of-a-flow`.
#
# .. asked: neural ODE; adjoint method; backpropagate through an ODE solver; torchdiffeq
#    adjoint; memory of an ODE solver; gradient of an integrator
