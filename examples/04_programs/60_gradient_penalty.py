r"""
.. _gradient-penalty:

Gradient penalty (WGAN-GP)
==========================

To push the norm of a critic's gradient towards 1 at each sample, take
``grad(scores, points, ones, create_graph=True)``: ones keep the samples apart, and the
graph lets the penalty train the critic.
"""

# %%
# Scores of shape ``(B, 1)``, points ``(B, n)``. The penalty takes a norm for each sample,
# over all that belongs to it (Gulrajani et al., 2017). ``flatten(1)`` is for images, where
# ``norm(dim=1)`` of ``(B, C, H, W)`` would be a norm for each pixel:
#
# .. math::
#
#    P=\frac1B\sum_i\bigl(\lVert\nabla_xD(x_i)\rVert-1\bigr)^2

import torch
from torch import nn

torch.manual_seed(0)  # the same critic and points on every build
layers = nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
critic = nn.Sequential(*layers)

# %%
# The points are fresh leaves, and so are the only thing that ``grad`` differentiates by:


def penalty(points):
    points = points.detach().requires_grad_()
    scores = critic(points)
    (g,) = torch.autograd.grad(scores, points, torch.ones_like(scores), create_graph=True)
    return ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()


points = torch.randn(64, 2)
P = penalty(points)
P.backward()
[name for name, p in critic.named_parameters() if p.grad is None]

# %%
# A derivative of a derivative for all others; the last bias does not change a slope (why
# DDP wants ``+ 0 * scores.sum()``: :ref:`across-processes`). ``grad_outputs`` has the shape
# of the *scores*, the result that of the points. None is for a score of one number:

try:
    torch.autograd.grad(critic(points.requires_grad_()), points)
except RuntimeError as error:
    print(error)

# %%
# A critic that tells two clouds apart
# ------------------------------------
#
# Real points on a ring, false ones in the middle. The critic widens the gap between its
# mean scores, held to slope 1 between the clouds:

angle = torch.rand(256) * 2 * torch.pi
real = torch.stack([angle.cos(), angle.sin()], 1)
false = 0.1 * torch.randn(256, 2)
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(600):
    mix = torch.rand(256, 1)
    between = mix * real + (1 - mix) * false
    loss = critic(false).mean() - critic(real).mean() + 10 * penalty(between)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# Its slope:

grid = torch.cartesian_prod(torch.linspace(-1.3, 1.3, 14), torch.linspace(-1.3, 1.3, 14))
slope = torch.func.vmap(torch.func.grad(lambda p: critic(p)[0]))(grid)

import pullback.plot

ax = pullback.plot.field(grid, slope, title="The critic's gradient points to the ring")

# %%
# With slope 1 the difference of the means is the transport distance of the clouds; SciPy
# finds it by pairing the points. Half-way the slopes are near 1 and point outward:

from scipy.optimize import linear_sum_assignment

way = torch.cdist(real, false)
distance = way[linear_sum_assignment(way)].mean().item()
with torch.no_grad():
    gap = (critic(real).mean() - critic(false).mean()).item()
g = torch.func.vmap(torch.func.grad(lambda p: critic(p)[0]))(real / 2)
outward = (g * real).sum(1)  # real points have length 1
print(abs(gap - distance) < 0.1, ((g.norm(dim=1) - 1).abs().mean() < 0.2).item())
print((outward > 0.7).all().item())

# %%
# What goes wrong
# ---------------
#
# Without ``create_graph=True`` the penalty is a number without a history. (With
# ``retain_graph=True`` as well: that keeps the graph of the scores, and makes none of g.)
# Training goes on without it, where the rest of the loss has a graph; alone it stops. Look
# at ``g.requires_grad``:

scores = critic(points)
(g,) = torch.autograd.grad(scores, points, torch.ones_like(scores), retain_graph=True)
print(g.requires_grad)
try:
    ((g.norm(dim=1) - 1) ** 2).mean().backward()
except RuntimeError as error:
    print(error)

# %%
# A norm of exactly zero has no derivative that helps: torch chooses 0 at the kink
# (:ref:`kinks`). With ``g.pow(2).sum(1).sqrt()`` in place of ``norm`` it is NaN:

zero = torch.zeros(1, 2, requires_grad=True)
by_norm = torch.autograd.grad(zero.norm(dim=1).sum(), zero)[0]
by_sqrt = torch.autograd.grad(zero.pow(2).sum(1).sqrt().sum(), zero)[0]
print(by_norm, by_sqrt)

# %%
# *My critic has attention, and the penalty says "derivative … is not implemented".* The
# fused kernels have no second derivative. The plain one has; choose it around the forward
# pass. (An RNN on a GPU: ``torch.backends.cudnn.flags(enabled=False)``.)

from torch.nn.attention import SDPBackend, sdpa_kernel

q = torch.randn(1, 2, 3, 4, requires_grad=True)
for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
    with sdpa_kernel(backend):
        y = nn.functional.scaled_dot_product_attention(q, q, q).sum()
    try:
        (g,) = torch.autograd.grad(y, q, create_graph=True)
        print(torch.autograd.grad(g.norm(), q)[0].shape)
    except RuntimeError as error:
        print(error)

# %%
# BatchNorm in the critic mixes samples; then ones give no slope of one sample, and
# LayerNorm is what the paper's authors advise.
#
# *Can I take vmap(grad(critic)), then backward and an optimizer?* Yes: the result has a
# graph to the weights, without ``create_graph``. The check: the same penalty by it, and the
# gradient of both by a difference quotient:

critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
sample = torch.randn(5, 2).double()
each = torch.func.vmap(torch.func.grad(lambda p: critic(p)[0]))(sample).norm(dim=1)
torch.testing.assert_close(penalty(sample), ((each - 1) ** 2).mean())
(by_vmap,) = torch.autograd.grad(((each - 1) ** 2).mean(), critic[0].weight)

# %%
# One weight moved up and down by h:

penalty(sample).backward()
weight, h, values = critic[0].weight, 1e-6, []
for sign in (1, -2, 1):  # up, down, and back
    with torch.no_grad():
        weight[1, 0] += sign * h
    values.append(penalty(sample).item())
quotient = (values[0] - values[1]) / (2 * h)
assert abs(weight.grad[1, 0].item() - quotient) < 1e-6
torch.testing.assert_close(by_vmap, weight.grad)
assert abs(gap - distance) < 0.1
assert (outward > 0.7).all()

# %%
# Where next
# ----------
#
# Why ones: :ref:`ones-trick`. Which shape: :ref:`shape-rule`. What ``create_graph`` keeps:
# :ref:`retain-or-create`. In short types: :ref:`mixed-precision`.
#
# .. asked: gradient penalty; WGAN-GP; norm of the gradient in the loss; penalise the
#    gradient; Lipschitz constraint; R1 regularisation; gradient in the loss; double
#    backward in a GAN; make the network smooth; keep the slope of the network small; my
#    penalty term changes nothing
