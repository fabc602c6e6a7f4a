r"""
.. _forces:

Forces −∂E/∂R and surface normals for a batch
=============================================

Energies of shape ``(B,)`` and positions of shape ``(B, atoms, 3)``: one
``energy.backward(-ones)`` gives the forces of all molecules, because no molecule looks at
another.
"""

# %%
# Forces are :math:`F=-\partial E/\partial R`, of the shape of R. The minus can be put into
# ``v``. An energy with a pair potential (Lennard-Jones, in units where the well has depth
# 1 at distance 1):
#
# .. math::
#
#    E=\sum_{i<j}\bigl(r_{ij}^{-12}-2r_{ij}^{-6}\bigr)

import torch


def energy(R):  # (B, atoms, 3) -> (B,)
    i, j = torch.triu_indices(R.shape[1], R.shape[1], offset=1)
    r2 = ((R[:, i] - R[:, j]) ** 2).sum(-1)
    return (r2**-6 - 2 * r2**-3).sum(-1)


torch.manual_seed(0)  # the same start on every build
corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
R = corners + 0.2 * torch.randn(5, 4, 3)

# %%
# All forces from one product:

R.requires_grad_()
E = energy(R)
E.backward(-torch.ones_like(E))
force = R.grad
force.shape

# %%
# Forces inside a molecule cancel: nothing pushes it from outside.

bool(force.sum(1).abs().max() < 1e-5 * force.abs().max())

# %%
# Downhill along the forces, all five at once. Four atoms can all touch: six pairs, each
# with energy −1. The energies on the way:

path = []
with torch.no_grad():
    S = R.clone()
for _ in range(400):
    S.requires_grad_()
    E = energy(S)
    (g,) = torch.autograd.grad(E, S, torch.ones_like(E))
    path.append(E.detach())
    S = (S - 0.005 * g.clamp(-5, 5)).detach()
path[-1].round(decimals=2)

# %%
# Drawn:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(torch.stack(path).clamp(max=0))
ax.set_xlabel("step")
title = ax.set_title("Energies of five molecules fall to -6: six touching pairs")

# %%
# Surface normals
# ---------------
#
# A surface given as :math:`g(p)=0` has the normal :math:`\nabla g`, scaled to length 1.
# For points of shape ``(B, 3)`` it is the ones trick again, here on an ellipsoid:

scale = torch.tensor([1.0, 2.0, 3.0])
points = torch.nn.functional.normalize(torch.randn(6, 3), dim=1) * scale
points.requires_grad_()
level = ((points / scale) ** 2).sum(1) - 1
(gradient,) = torch.autograd.grad(level, points, torch.ones_like(level))
normal = torch.nn.functional.normalize(gradient, dim=1)
normal.shape

# %%
# What goes wrong
# ---------------
#
# Training on forces needs a gradient *of* the forces. Without ``create_graph=True`` they
# are numbers without a history:

stiffness = torch.tensor(1.0, requires_grad=True)


def forces(create_graph):
    E = stiffness * energy(R)
    return torch.autograd.grad(E, R, -torch.ones_like(E), create_graph=create_graph)[0]


try:
    (forces(False) ** 2).sum().backward()
except RuntimeError as error:
    print(error)

# %%
# With it they train. The forces that were seen belong to a stiffness of 2.5:

seen = 2.5 * force
optimizer = torch.optim.Adam([stiffness], lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    loss = ((forces(True) - seen) ** 2).mean()
    loss.backward(inputs=[stiffness])
    optimizer.step()
print(f"{stiffness.item():.2f}")

# %%
# *My validation loop runs under no_grad and the forces fail*, with the same message. The
# energy needs its graph there too: turn grad mode on around it. (Under ``inference_mode``,
# as in Lightning's ``trainer.validate`` but not inside its ``fit``, that is not enough:
# :ref:`no-grad-detach`.)

with torch.no_grad():
    try:
        torch.autograd.grad(energy(R).sum(), R)
    except RuntimeError as error:
        print(error)
    with torch.enable_grad():
        total = energy(R).sum()
    print(torch.autograd.grad(total, R)[0].shape)

# %%
# *A list of predicted energies fills the memory, forces do not.* Without ``create_graph``
# forces have no graph; the energy that they were taken from has, with all that is saved on
# ways on which their backward did not go. Keep ``E.detach()``:

print(E.requires_grad, force.requires_grad, E.detach().requires_grad)

# %%
# And two atoms in one place: :math:`r=\sqrt{r^2}` has an infinite slope at zero, so a sum
# over *all* pairs, the atom with itself included, gives NaN even where it is masked
# afterwards (:ref:`masked-nan`). Choose the pairs first, as above:

p = torch.zeros(2, 3, requires_grad=True)
distance = ((p[:, None] - p[None]) ** 2).sum(-1).sqrt()
(distance * (1 - torch.eye(2)))[0, 0].backward()
print(p.grad[0])

# %%
# The check: each molecule alone, a difference quotient of the energy, and the normals by
# their formula, along :math:`p/\text{scale}^2`:

for i in range(5):
    alone = torch.func.grad(lambda r: energy(r[None])[0])(R[i].detach())
    torch.testing.assert_close(force[i], -alone)
h, at = 1e-6, R.detach().double()
step = torch.zeros_like(at)
step[:, 2, 1] = h
quotient = (energy(at + step) - energy(at - step)) / (2 * h)
torch.testing.assert_close(-quotient.float(), force[:, 2, 1], rtol=1e-3, atol=1e-3)
along = torch.nn.functional.normalize(points.detach() / scale**2, dim=1)
torch.testing.assert_close(normal, along)
assert abs(stiffness.item() - 2.5) < 0.01
torch.testing.assert_close(path[-1], torch.full((5,), -6.0), atol=0.01, rtol=0)

# %%
# Where next
# ----------
#
# Why ones are right here: :ref:`ones-trick`. Derivatives of derivatives:
# :ref:`second-derivatives`. When points do mix: :ref:`mixing-samples`.
#
# .. asked: forces from energy; molecular dynamics forces; derivative of the energy by
#    positions; interatomic potential; train on forces; surface normals from a signed
#    distance function; force on each atom
