r"""
.. _ode-adjoint:

Neural ODEs: backward through the solver, or the adjoint equation?
==================================================================

A solver of differential equations is in the middle of your model, and you want the
gradient with respect to the parameters of the equation. There are two well-known ways.
You can let PyTorch record all steps of the solver and go back through them. Or you can
solve a second equation, the *adjoint* equation, backwards in time, and record nothing.
The two ways do not give the same numbers. Which of them is right, and when does the
second way fail?
"""

# %%
# A pendulum on film
# ------------------
#
# You have filmed a swinging pendulum, and measured its angle in 21 frames, with some error.
# You would like to know its friction. The state ``x`` consists of two numbers, the angle
# and the speed, and the equation :math:`\dot x=f(x,\theta)` has two parameters.
# :math:`\theta_0` is gravity over length, and :math:`\theta_1` is the friction:

import torch
from torch.func import vjp


def pendulum(x, theta):
    angle, speed = x
    return torch.stack([speed, -theta[0] * torch.sin(angle) - theta[1] * speed])


# %%
# The solver takes Runge-Kutta steps of order four, and returns all states on the way, as
# a tensor of shape ``(steps + 1, 2)``. It is ordinary PyTorch code, so a loss on these
# states has a gradient with respect to ``theta``, through all the steps:


def step(rhs, x, h):
    k1 = rhs(x)
    k2 = rhs(x + h / 2 * k1)
    k3 = rhs(x + h / 2 * k2)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rhs(x + h * k3))


def solve(f, x0, theta, T, steps):
    states = [x0]
    for _ in range(steps):
        states.append(step(lambda x: f(x, theta), states[-1], T / steps))
    return torch.stack(states)


# %%
# We make the film ourselves, with a friction of 0.3. Then we look for the parameters with
# Adam, starting from a guess:

torch.manual_seed(0)  # the same errors of measurement on every build
T, steps = 6.0, 20
x0 = torch.tensor([1.0, 0.0], dtype=torch.float64)
true = torch.tensor([2.0, 0.3], dtype=torch.float64)
film = solve(pendulum, x0, true, T, steps)[:, 0] + 0.05 * torch.randn(steps + 1).double()


def fit(solve, guess=(1.0, 1.0), updates=80):
    theta = torch.tensor(guess, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for _ in range(updates):
        angles = solve(pendulum, x0, theta, T, steps)[:, 0]
        loss = ((angles - film) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return theta.detach()


found = fit(solve)
print("gravity over length {:.1f}, friction {:.1f}".format(*found))

# %%
# Here is the film, with the curve of the guess and the curve of the parameters that were
# found:

import matplotlib.pyplot as plt

guess = torch.ones(2, dtype=torch.float64)
figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.2))
times = torch.linspace(0, T, 121)
for theta, style, name in ((guess, "--", "guess"), (found, "-", "found")):
    ax.plot(times, solve(pendulum, x0, theta, T, 120)[:, 0], style, label=name)
ax.plot(torch.linspace(0, T, steps + 1), film, "ko", markersize=4, label="film")
ax.set(xlabel="time", ylabel="angle")
legend = ax.legend()

# %%
# The adjoint method
# ------------------
#
# For twenty steps you need nothing else. Now suppose that the solver takes a hundred
# thousand steps, or is a library that PyTorch cannot record. Then consider the true
# solution, and not the steps. Let ``v`` be the gradient that arrives at the last state,
# and let :math:`a(t)` be the gradient with respect to the state at an earlier time. At
# the end :math:`a(T)=v`, and backwards in time :math:`a` follows its own equation:
#
# .. math::
#
#    \dot a=-\Bigl(\frac{\partial f}{\partial x}\Bigr)^{\!\top}a,\qquad
#    v^\top\frac{\partial x(T)}{\partial\theta}
#    =\int_0^T a^\top\frac{\partial f}{\partial\theta}\,dt .
#
# Both right-hand sides are :term:`vector-Jacobian products <vector-Jacobian product>` of
# ``f`` with the vector :math:`a`, and one call to ``pull`` gives both of them. Both contain
# the state as well, and so we run the equation of the state backwards, too. We join the
# state, :math:`a` and the integral for ``theta`` into one long vector. If the loss depends
# on the states in between, as for our film, ``v`` has a row for each state, and we add each
# row to :math:`a` at its time.
#
# As a ``Function``, the adjoint method can replace the solver anywhere. It stores only the
# last state and ``theta`` for the backward pass, whatever the number of steps. To use it
# for your own equation, pass a different ``f(x, theta)`` with ``x`` and ``theta`` as
# vectors:


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, f, x0, theta, T, steps):
        states = solve(f, x0, theta, T, steps)  # nothing is recorded in here
        ctx.save_for_backward(states[-1].clone(), theta)
        ctx.f, ctx.T, ctx.steps = f, T, steps
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):  # v has the shape of the states
        x, theta = ctx.saved_tensors
        n = len(x)

        def rhs(packed):
            y, pull = vjp(ctx.f, packed[:n], theta)
            for_x, for_theta = pull(packed[n : 2 * n])
            return torch.cat([y, -for_x, -for_theta])

        packed = torch.cat([x, v[-1], torch.zeros_like(theta)])
        for k in reversed(range(ctx.steps)):
            packed = step(rhs, packed, -ctx.T / ctx.steps)
            packed[n : 2 * n] += v[k]
        return None, packed[n : 2 * n], packed[2 * n :], None, None


again = fit(Adjoint.apply)
print("gravity over length {:.1f}, friction {:.1f}".format(*again))

# %%
# It finds the same pendulum. How much is kept between the forward and the backward pass?
# A hook counts the tensors that PyTorch saves:


def saved(solve, steps):
    kept = []
    theta = true.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda t: t):
        solve(pendulum, x0, theta, T, steps)
    return len(kept)


for count in (20, 40, 80):
    print(count, "steps:", saved(solve, count), "and", saved(Adjoint.apply, count))

# %%
# If the steps are recorded, the number grows with the steps. With the adjoint method it is
# two, the last state and ``theta``.
#
# What to watch for
# -----------------
#
# **The two gradients differ a little, and both are right.** The recorded gradient is the
# exact gradient of the numbers that your steps have computed. The adjoint gradient is the
# gradient of the true solution, up to the error of the solver. We pass a ``v`` for the last
# state and refine the steps. The difference falls with the fourth power of the length of a
# step. So once there are many steps, doubling their number divides the difference by about
# sixteen:

start, theta = x0.clone().requires_grad_(), true.clone().requires_grad_()
v = torch.tensor([1.0, 10.0], dtype=torch.float64)


def gradients(way, steps, T=3.0):
    end = way(pendulum, start, theta, T, steps)[-1]
    return torch.autograd.grad(end, (start, theta), v)


for count in (5, 10, 20, 40):
    gap = gradients(solve, count)[0] - gradients(Adjoint.apply, count)[0]
    print(f"{count:2} steps, difference {gap.norm():.1e}")

# %%
# **The backward solution does not return to the start.** Backwards in time, friction makes
# errors grow. With strong friction, some errors grow nearly as fast as
# :math:`e^{\theta_1t}`, where t is the time that we have gone back. Over a long time the
# adjoint method then loses the state, and with it the gradient:

heavy = torch.tensor([2.0, 8.0], dtype=torch.float64, requires_grad=True)
lost = {}
for time in (1.0, 3.0, 9.0):
    by_theta = []
    for way in (solve, Adjoint.apply):
        end = way(pendulum, x0, heavy, time, 60)[-1]
        by_theta += torch.autograd.grad(end, heavy, v)
    back = end.detach()
    for _ in range(60):
        back = step(lambda x: pendulum(x, heavy.detach()), back, -time / 60)
    off = (back - x0).norm()
    lost[time] = bool((by_theta[1] - by_theta[0]).norm() > 0.1 * by_theta[0].norm())
    print(f"T = {time:.0f}: state off by {off:.0e}, gradient off by a tenth: {lost[time]}")

# %%
# There is no message. Keep some of the states from the forward pass, and start again from
# each of them in the backward pass, or use the method of the next section.
#
# **A loss that uses the end time.** If ``T`` is a tensor that requires a gradient, the
# recorded way gives the derivative with respect to ``T``. For the true solution this
# derivative is :math:`v\cdot f(x(T))`, because a little later the state has moved a
# little along ``f``. Our ``Adjoint`` returns None for ``T``, so with it this part is
# missing:

end_time = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
x_end = solve(pendulum, x0, true, end_time, 40)[-1]
(by_time,) = torch.autograd.grad(x_end, end_time, v)
print(f"recorded {by_time:.4f}, v . f(x(T)) {v @ pendulum(x_end, true):.4f}")

# %%
# Exact, with the graph of one step at a time
# -------------------------------------------
#
# There is a third way, which is exact and needs little memory. Keep the *states*, which are
# a few numbers each, but no graphs. In the backward pass, recompute one step at a time, and
# take its :term:`vector-Jacobian product`. The part of this product that belongs to the
# state is the ``v`` for the step before. This is called the discrete adjoint, and a
# checkpoint around each step does the same for you (:ref:`checkpointing`):


def stepwise(f, x0, theta, v, T, steps):
    one = lambda x, theta: step(lambda x: f(x, theta), x, T / steps)
    with torch.no_grad():
        states = solve(f, x0, theta, T, steps)
    a, by_theta = v, torch.zeros_like(theta)
    for x in reversed(states[:-1]):
        a, more = vjp(one, x, theta.detach())[1](a)
        by_theta = by_theta + more
    return a, by_theta


recorded = gradients(solve, 20)
one_by_one = stepwise(pendulum, x0, true, v, 3.0, 20)
pairs = zip(one_by_one, recorded, strict=True)
print([torch.allclose(a, b, rtol=1e-12) for a, b in pairs])

# %%
# The two gradients agree to twelve digits. So which way should you take? Record the steps
# as long as you have enough memory. If you do not, go one step at a time, or use
# checkpoints. Take the adjoint equation for a solver that you cannot record, and test it
# first on a short run with a solver that you can record.
#
# A network in place of the pendulum
# ----------------------------------
#
# In a *neural* ODE (Chen et al., 2018), ``f`` is a network and ``theta`` are its weights.
# Put the weights into one vector, and both ways work as they are:

from torch import nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).double()
names = [name for name, _ in net.named_parameters()]
shapes = [p.shape for p in net.parameters()]


def network(x, theta):
    parts = theta.split([shape.numel() for shape in shapes])
    weights = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    return functional_call(net, dict(zip(names, weights, strict=True)), (x,))


weights = parameters_to_vector(net.parameters()).detach().requires_grad_()
slopes = []
for way in (solve, Adjoint.apply):
    loss = ((way(network, x0, weights, T, steps)[:, 0] - film) ** 2).mean()
    slopes += torch.autograd.grad(loss, weights)
print(len(weights), "weights, difference below a thousandth:")
print(bool((slopes[0] - slopes[1]).norm() < 1e-3 * slopes[0].norm()))

# %%
# .. admonition:: Try it
#
#    Measure the speed as well as the angle, or only every fourth frame. Which lines of the
#    program change, and does ``Adjoint`` change?
#
# .. dropdown:: Answer
#
#    Only the loss changes. Whatever the loss uses, ``v`` has a row for each state, with
#    zeros for the frames and the numbers that the loss does not use. ``Adjoint`` stays as
#    it is.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the recorded gradient with difference quotients of the solver's numbers.
#    With many steps, we compare the adjoint gradient with the recorded one, for a ``v`` on
#    the last state and for a ``v`` on all states. We compare the third way with the first
#    to twelve digits.

for got, at in zip(recorded, (0, 1), strict=True):
    for i in range(2):
        values = []
        for sign in (1, -1):
            inputs = [x0.clone(), true.clone()]
            inputs[at][i] += sign * 1e-6
            values.append(v @ solve(pendulum, *inputs, 3.0, 20)[-1])
        assert abs((values[0] - values[1]) / 2e-6 - got[i]) < 1e-6
fine = [gradients(way, 300) for way in (solve, Adjoint.apply)]
torch.testing.assert_close(*fine, rtol=1e-7, atol=0)
torch.testing.assert_close(one_by_one, recorded, rtol=1e-12, atol=0)
rows = torch.randn(301, 2, dtype=torch.float64)
of_rows = [
    torch.autograd.grad(way(pendulum, start, theta, 3.0, 300), (start, theta), rows)
    for way in (solve, Adjoint.apply)
]
torch.testing.assert_close(*of_rows, rtol=1e-6, atol=1e-9)

assert (found - true).abs().max() < 0.1
torch.testing.assert_close(again, found, rtol=0.01, atol=0)
assert [saved(Adjoint.apply, count) for count in (20, 80)] == [2, 2]
assert 3.9 < saved(solve, 80) / saved(solve, 20) < 4.1
assert lost == {1.0: False, 3.0: True, 9.0: True}
assert abs(by_time - v @ pendulum(x_end, true)) < 1e-4
assert (slopes[0] - slopes[1]).norm() < 1e-3 * slopes[0].norm()

# %%
# **Next:** :ref:`through-time` shows what a long chain does to a gradient. In
# :ref:`implicit-differentiation` the solver looks for a fixed point instead of stopping at
# an end time. For the density of a flow, read :ref:`log-det-of-a-flow`.
#
# .. asked: neural ODE; adjoint method; backpropagate through an ODE solver; torchdiffeq
#    adjoint; memory of an ODE solver; gradient of an integrator
# .. words: integrator, trajectory, continuous, odeint, memory, backwards in time, euler,
#    runge kutta, pendulum, fit the parameters of a system
