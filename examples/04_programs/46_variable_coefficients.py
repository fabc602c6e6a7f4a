r"""
.. _variable-coefficients:

Equations whose coefficient varies, d/dx (k(x) du/dx)
=====================================================

A wall has insulation on the outside and brick on the inside. How warm is it at each depth?
The equation for the temperature has a conductivity ``k(x)`` that is different at each
place, and this conductivity is *inside* a derivative. People who train a network on such an
equation often move the conductivity out of the derivative, because pages about constant
coefficients show ``k * u_xx``. There is no error, the loss falls to zero, and the result is
the temperature of a different wall. With ``torch.autograd.grad`` the right and the wrong
equation differ only in the ``v`` that you pass.
"""

# %%
# The heat that flows through a wall
# ----------------------------------
#
# At each place the flow of heat is, except for its sign, the conductivity times the slope
# of the temperature, :math:`k\,u'`. If there is no heater, as much heat flows out of each
# slice of the wall as into it, so the flow must not change from place to place. If a
# heater gives off :math:`f(x)`, then :math:`k\,u'` falls at this rate:
#
# .. math::
#
#    \frac{d}{dx}\Bigl(k(x)\,\frac{du}{dx}\Bigr)=-f(x).
#
# The temperature of our wall is 0 outside and 1 inside. The wall has no heater, and changes
# from insulation to brick around its middle:

import torch
from torch import nn


def blend(x):
    return 0.1 + 0.9 * torch.sigmoid(20 * (x - 0.5))


def derivative(y, x, v=None):
    """Return dy/dx at each point, each y depending on its own x alone."""
    v = torch.ones_like(y) if v is None else v
    return torch.autograd.grad(y, x, v, create_graph=True)[0]


def residual(u, k, x, f=0.0):
    """Return (k u')' + f at each x: 0 wherever u obeys the equation."""
    flow = k(x) * derivative(u(x), x)
    return derivative(flow, x) + f


# %%
# The last line of ``residual`` differentiates *the flow*, the product of :math:`k` and
# :math:`u'`. ``derivative`` passes ones as ``v``, which gives each point its own derivative
# (:ref:`ones`). Autograd knows the product rule, and ``k`` may be any smooth function of
# ``x`` that is written in PyTorch, so there is no :math:`k'` to work out by hand.
#
# Three right ways to differentiate the flow, and a wrong one
# -----------------------------------------------------------
#
# Before we train anything, let us look at a ``u`` that we can differentiate in our heads,
# :math:`u=x^3` with :math:`k=x^2`. The flow is :math:`3x^4`, and its derivative is
# :math:`12x^3`.
#
# .. admonition:: Predict
#
#    ``k_outside`` comes from a call that passes ``k`` as ``v``. Which values does it have
#    at x = 1 and x = 2?

x = torch.tensor([[1.0], [2.0]], requires_grad=True)
k = x**2
u_x = derivative(x**3, x)
by_hand = derivative(k, x) * u_x + k * derivative(u_x, x)
k_outside = derivative(u_x, x, v=k.detach())
flow = derivative(x**3, x, v=k)
print("of the flow   ", derivative(k * u_x, x).flatten().tolist())
print("product rule  ", by_hand.flatten().tolist())
print("k as v, second", k_outside.flatten().tolist())
print("k as v, first ", derivative(flow, x).flatten().tolist())

# %%
# The third line of the output is :math:`k\,u''=6x^3`, without the term :math:`k'u'`. ``v``
# multiplies the *finished* derivative, point by point. It is outside the derivative, and is
# never differentiated in this call. So if you pass ``k`` as ``v`` to the call for the
# second derivative, you have moved ``k`` out.
#
# For the last line of the output, we also pass ``k`` as ``v``, but to the call for the
# *first* derivative, where ``k`` belongs outside: :math:`k\,u'` is the flow. Then we
# differentiate the whole flow, including ``k``, because ``create_graph=True`` also
# records how the result depends on ``v``. For this, ``k`` needs a graph. So the code for
# ``flow`` does not detach ``k``, whereas the code for ``k_outside`` does.
#
# The whole program
# -----------------
#
# The network is part of a formula that is 0 at one end and 1 at the other, whatever the
# network returns. Training makes the residual small at a hundred points. We train once
# with the right residual, and once with ``k`` outside:


def moved_out(u, k, x, f=0.0):
    return k(x) * derivative(derivative(u(x), x), x) + f  # wrong


def train(loss, seed=0, steps=250):
    torch.manual_seed(seed)  # the same network on every build
    net = nn.Sequential(
        nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)
    )

    def u(x):
        return x + x * (1 - x) * net(x)

    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x = ((torch.arange(100) + 0.5) / 100)[:, None].requires_grad_()
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(u, x)
        value.backward(inputs=list(net.parameters()))
        optimizer.step()
    return u, value.item()


right, right_loss = train(lambda u, x: residual(u, blend, x).square().mean())
wrong, wrong_loss = train(lambda u, x: moved_out(u, blend, x).square().mean())
middle = torch.tensor([[0.5]])
for name, u, loss in (("right", right, right_loss), ("k outside", wrong, wrong_loss)):
    print(f"{name:10} loss below 0.01: {loss < 0.01}  u(1/2) = {u(middle).item():.2f}")

# %%
# Both losses are small. But with ``k`` outside, the temperature in the middle of the wall
# is exactly the mean of the temperatures at both ends. The reason is that you can divide
# :math:`k\,u''=0` by ``k``, and then the equation no longer depends on the wall. Its only
# solution is a straight line. Here are both solutions, with the exact solution, which is
# proportional to :math:`\int 1/k` for a wall without a heater:

import matplotlib.pyplot as plt


def exact(k, count=2000):
    places = ((torch.arange(count) + 0.5) / count)[:, None]
    risen = (1 / k(places)).cumsum(0)
    return places, risen / risen[-1]


places, truth = exact(blend)
figure, (above, below) = plt.subplots(2, 1, layout="constrained", figsize=(5, 5))
above.plot(places, truth, linewidth=5, color="0.75", label="exact")
above.plot(places, right(places).detach(), label="(k u')'")
above.plot(places, wrong(places).detach(), "--", label="k u''")
above.set_ylabel("temperature")
above.legend()
below.plot(places, blend(places))
below.set_ylabel("conductivity k")
below.set_xlabel("depth in the wall")
title = figure.suptitle("With k outside of the derivative, the wall is forgotten")

# %%
# In the insulation the temperature rises steeply, and in the brick it hardly rises at
# all.
#
# A conductivity from a table
# ---------------------------
#
# Real walls have no soft transition. Instead you have a table, here with 0.1 for one half
# and 1 for the other, and you read it with ``torch.where``, with an index, or by taking
# the nearest entry. We use the *right* residual:


def table(x):
    return torch.where(x < 0.5, 0.1, 1.0)


looked_up, loss = train(lambda u, x: residual(u, table, x).square().mean())
print(f"loss below 0.01: {loss < 0.01}  u(1/2) = {looked_up(middle).item():.2f}")

# %%
# The result is the straight line again. On each side of the jump ``k`` is constant, so at
# each of the points autograd returns :math:`k'=0`, and :math:`(k\,u')'` becomes
# :math:`k\,u''`. Only the jump makes a difference, and no point lies there. More points
# would not help.
#
# The cure is not to differentiate ``k``. Of all temperature curves with the right values at
# both ends, the one that obeys the equation has the smallest *energy*,
# :math:`\int\tfrac12k\,u'^2-f\,u`. The energy contains only the first derivative, and ``k``
# is a factor in it:


def energy(u, k, x, f=0.0):
    value = u(x)
    return (k(x) * derivative(value, x) ** 2 / 2 - f * value).mean()


by_energy, _ = train(lambda u, x: energy(u, table, x), steps=400)
places, truth = exact(table)
print(f"u(1/2) = {by_energy(middle).item():.2f}, exactly {truth[1000].item():.2f}")
off = (by_energy(places) - truth).abs().max().item()
print(f"off by less than 0.03 everywhere: {off < 0.03}")

# %%
# The kink in the middle is rounded a little, since the network is smooth. The value of the
# energy is not 0 at the end, and does not tell you how good the solution is. Starting from
# three other networks, the largest error was between 0.01 and 0.03. After 250 steps instead
# of 400, one of these networks was still off by 0.11.
#
# A simulator instead of a network
# --------------------------------
#
# In a simulator you have the same choice. A typical simulator cuts the wall into cells
# and balances the flows through the faces between them, which keeps ``k`` inside the
# derivative. Often you then look for ``k``, and not for the temperature: *which wall has
# the temperatures that we measured?* Here a heater gives off 1 everywhere, both ends are
# kept at 0, and there are five sensors in the wall:


def solve(k, f):
    """Return the temperature in each of n cells of a wall from 0 to 1."""
    n = len(k)
    inside = 2 * n / (1 / k[:-1] + 1 / k[1:])  # through the faces between the cells
    faces = torch.cat([2 * n * k[:1], inside, 2 * n * k[-1:]])
    A = torch.diag(faces[:-1] + faces[1:]) - inside.diag(1) - inside.diag(-1)
    return torch.linalg.solve(A, f / n)


def layers(values, n=60):
    return values.repeat_interleave(n // len(values))


sensors = torch.tensor([5, 15, 25, 40, 55])
heat = torch.ones(60)
measured = solve(layers(torch.tensor([0.1, 1.0, 0.3])), heat)[sensors]

log_k = torch.zeros(3, requires_grad=True)  # the wall has three layers; start with ones
optimizer = torch.optim.Adam([log_k], lr=0.2)
for _ in range(250):
    u = solve(layers(log_k.exp()), heat)
    v = torch.zeros(60)
    v[sensors] = 2 * (u.detach()[sensors] - measured)
    optimizer.zero_grad()
    u.backward(v)
    optimizer.step()
print("found:", [round(k, 2) for k in log_k.detach().exp().tolist()])

# %%
# ``u`` has sixty temperatures, and ``v`` has one entry for each of them. At a sensor the
# entry is twice the error of the temperature, and elsewhere it is 0. This ``v`` is the
# gradient of the sum of squares, and it could also come from outside PyTorch
# (:ref:`external-loss`). The backward pass through ``solve`` solves *one* system with the
# transposed matrix and ``v`` on its right-hand side. So it costs no more than the
# simulation itself, for three layers or for sixty. :ref:`deriving-vjps` has the formula.
#
# What to watch for
# -----------------
#
# - **A k that is a tensor of numbers.** If you have computed ``k`` beforehand, from a
#   copy of the points, or under ``no_grad``, it has no graph that leads to ``x``, and
#   ``derivative(k * u_x, x)`` gives :math:`k\,u''` again. In this case
#   ``k.requires_grad`` is False, unless ``k`` has its own weights.
# - **Finding k without a heater**, from temperatures alone, is possible only up to a
#   factor. If all of ``k`` is multiplied by one number and ``f`` is 0, no temperature
#   changes. You still find a wall, but which wall you find depends on the start.
# - **More dimensions.** :math:`\nabla\cdot(k\nabla u)` is the sum of the derivatives of the
#   components of the flow, each with respect to its own coordinate: one product for each
#   component, as in the Laplacian of :ref:`pinn`. A ``v`` of ones over all components at
#   once adds up mixed derivatives.
# - **A k that is trained as well.** If ``k`` is a network, too, it gets its gradient
#   through the same residual, provided that it is not passed as a constant ``v``.
#
# .. admonition:: Try it
#
#    Put a heater into the wall whose temperature the network learns, with ``f=1.0``. The
#    points in the brick become warmer, and some may become warmer than the inside. Which
#    line of the program has to change?
#
# .. dropdown:: Answer
#
#    Only the call has to change, since ``residual`` and ``energy`` both take ``f``. Both
#    give the same temperatures, though with the energy they are a little less exact:

heated, _ = train(lambda u, x: residual(u, blend, x, f=1.0).square().mean())
again, _ = train(lambda u, x: energy(u, blend, x, f=1.0))
print(f"u(1/2) = {heated(middle).item():.1f} and {again(middle).item():.1f}")
print("warmest above 1:", bool(heated(places).max() > 1))

# %%
# .. dropdown:: How we checked this page
#
#    We compare the four derivatives of :math:`x^3` with the polynomials, the networks
#    with the exact solutions, and the heated wall with the simulator. We compare each
#    gradient of the simulator with a difference quotient in float64, and with the
#    solution of the transposed system.

at = x.detach()
torch.testing.assert_close(derivative(k * u_x, x).detach(), 12 * at**3)
torch.testing.assert_close(by_hand.detach(), 12 * at**3)
torch.testing.assert_close(derivative(flow, x).detach(), 12 * at**3)
torch.testing.assert_close(derivative(u_x, x, v=k.detach()).detach(), 6 * at**3)

places, truth = exact(blend)
assert (right(places) - truth).abs().max() < 0.01
assert max(right_loss, wrong_loss) < 0.01
for straight in (wrong, looked_up):
    assert (straight(places) - places).abs().max() < 0.01
assert off < 0.03
simulated = torch.nn.functional.interpolate(
    solve(blend(places[:, 0].double()), torch.ones(2000).double())[None, None],
    size=2000,
)[0, 0, :, None]
assert (heated(places) - truth - simulated).abs().max() < 0.03
assert (again(places) - truth - simulated).abs().max() < 0.06

wall = torch.tensor([0.1, 1.0, 0.3])
torch.testing.assert_close(log_k.detach().exp(), wall, rtol=0.05, atol=0)
cells = torch.rand(60, dtype=torch.float64) + 0.2
cells.requires_grad_()
v = torch.randn(60, dtype=torch.float64)
u = solve(cells, heat.double())
u.backward(v)
with torch.no_grad():
    for i in (0, 7, 59):
        step = torch.zeros(60, dtype=torch.float64)
        step[i] = 1e-6
        rise = solve(cells + step, heat.double()) - solve(cells - step, heat.double())
        torch.testing.assert_close(cells.grad[i], (rise / 2e-6) @ v, rtol=1e-5, atol=1e-8)

# %%
# **Next:** For equations with constant coefficients, and for activations with which a
# network cannot solve them, read :ref:`pinn`. More questions of this kind are answered in
# :ref:`answers-physics`. If a solver is part of your network, read
# :ref:`implicit-differentiation`.
#
# .. asked: variable coefficient PDE with autograd; heterogeneous material in a PINN;
#    derivative of k(x) times du/dx; divergence form; diffusion coefficient inside the
#    derivative; PINN with discontinuous conductivity; heat equation with k(x); find the
#    conductivity from measurements; grad of flux
# .. words: material, conductivity, layered, permeability, flux, interface, divergence,
#    inverse problem, groundwater, jump
