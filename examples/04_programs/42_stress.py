r"""
.. _stress:

Stress and virial: the derivative of the energy with respect to a zero strain
=============================================================================

You have a function for the energy of a crystal, and would like to know whether its box is
too small or too large. The forces cannot tell you this, because they can be zero while
the whole crystal pushes against its box. You need the *stress*, which says how the energy
changes if the box and the atoms are stretched together. The energy has no variable for
such a stretch yet. So you add one, a strain of zero, and differentiate with respect to
it. One ``backward`` gives the forces and the stress. For a whole batch of crystals, ``v``
is all ones.
"""

# %%
# A strain of zero
# ----------------
#
# A batch of B crystals has positions R of shape ``(B, atoms, 3)``, and boxes of shape
# ``(B, 3, 3)``, whose rows are the edges. We write ``cell`` or C for the boxes. A
# *strain* :math:`\varepsilon` is a 3 by 3 matrix for each crystal. It multiplies every
# point of space by :math:`1+\varepsilon`, the atoms as well as the edges of the box. We
# need the strain only at zero, where nothing moves:
#
# .. math::
#
#    E(\varepsilon)=E\bigl(R(1+\varepsilon),\,C(1+\varepsilon)\bigr),\qquad
#    \sigma=\frac1V\,\frac{\partial E}{\partial\varepsilon},\qquad
#    \text{virial}=-\frac{\partial E}{\partial\varepsilon}.
#
# :math:`\sigma` is the stress, and :math:`V` the volume. Our energy is a pair potential.
# Two atoms attract each other if their distance is above 1, and repel each other if it is
# below 1. Each atom also interacts with the copies of the atoms in the 26 boxes around its
# own:

import torch

shifts = torch.cartesian_prod(*[torch.tensor([-1.0, 0, 1], dtype=torch.float64)] * 3)


def energy(R, cell):
    """Return the energies (B,) of crystals with positions and boxes."""
    images = R[:, None] + (shifts @ cell)[:, :, None]  # (B, 27, atoms, 3)
    d = R[:, None, :, None] - images[:, :, None]  # (B, 27, atoms, atoms, 3)
    r2 = (d**2).sum(-1)
    pairs = r2 > 1e-8  # not an atom with itself
    inverse = torch.where(pairs, torch.where(pairs, r2, 1.0) ** -3, 0.0)
    return 0.5 * (inverse**2 - 2 * inverse).sum((1, 2, 3))


# %%
# The next function makes the strain, stretches atoms and boxes with it, and computes both
# derivatives in one call. You can copy it. There is one energy for each crystal, and no
# crystal influences another, so with a ``v`` of ones each crystal gets the derivatives of
# its own energy:


def forces_and_stress(energy, R, cell):
    """Return the forces (B, atoms, 3) and the stress (B, 3, 3)."""
    R = R.detach().requires_grad_()
    strain = torch.zeros_like(cell, requires_grad=True)
    stretch = torch.eye(3).to(cell) + strain
    E = energy(R @ stretch, cell @ stretch)
    v = torch.ones_like(E)
    by_position, by_strain = torch.autograd.grad(E, (R, strain), v)
    return -by_position, by_strain / torch.linalg.det(cell).abs()[:, None, None]


# %%
# The forces come from an energy of strained positions. Are these forces right? Yes,
# because at a strain of zero the strained positions *are* the positions, and their
# derivative with respect to R is 1. We take two crystals that are a little out of shape:

torch.manual_seed(0)  # the same crystals on every build
corners = torch.tensor([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]).double()
cell = (1.5 * torch.eye(3).double()).repeat(2, 1, 1) + 0.03 * torch.randn(2, 3, 3).double()
R = corners @ cell + 0.03 * torch.randn(2, 4, 3).double()
force, stress = forces_and_stress(energy, R, cell)
print(tuple(force.shape), tuple(stress.shape))
print(stress[0].numpy().round(3))

# %%
# The diagonal is positive: the energy would rise if the box grew, so the crystal pulls
# inward. And the matrix is symmetric, because rotating a crystal costs no energy. The
# energy of a trained network need not have this property. In that case stretch with
# ``(strain + strain.mT) / 2``, and you get the symmetric part of the result.
#
# The *pressure* is minus a third of the trace. It is positive if the crystal pushes
# outward. At their current size both crystals pull inward. If we squeeze them to nine
# tenths of this size, they push outward:


def pressure(R, cell):
    _, stress = forces_and_stress(energy, R, cell)
    return -stress.diagonal(dim1=1, dim2=2).sum(1) / 3


for scale in (1.0, 0.9):
    print(scale, pressure(scale * R, scale * cell).round(decimals=1))

# %%
# Let the box find its size
# -------------------------
#
# Between these two sizes there is a box in which the crystal neither pulls nor pushes. We
# let an optimizer find this box. The strain is now a parameter like any other, and so are
# the positions. One ``backward`` on the energies, again with a ``v`` of ones, fills the
# ``.grad`` of both:

strain = torch.zeros_like(cell, requires_grad=True)
atoms = R.clone().requires_grad_()
optimizer = torch.optim.Adam([atoms, strain], lr=0.003)
along = []
for step in range(200):
    stretch = torch.eye(3).double() + strain
    E = energy(atoms @ stretch, cell @ stretch)
    optimizer.zero_grad()
    E.backward(torch.ones_like(E))
    optimizer.step()
    if step % 5 == 0:
        here = torch.eye(3).double() + strain.detach()
        along.append(pressure(atoms @ here, cell @ here))
here = torch.eye(3).double() + strain.detach()
atoms_at_rest, cell_at_rest = (atoms @ here).detach(), cell @ here
print("energy  ", [round(e, 1) for e in energy(R, cell).tolist()], end=" -> ")
print([round(e, 1) for e in energy(atoms_at_rest, cell_at_rest).tolist()])
print("volume  ", [round(v, 2) for v in torch.linalg.det(cell_at_rest).tolist()])

# %%
# The two crystals were out of shape in different ways, but both have reached the same
# energy and the same volume. Here is the pressure during the optimization:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.4))
ax.plot(range(0, 200, 5), torch.stack(along), label=["first crystal", "second crystal"])
ax.axhline(0, color="grey", linewidth=0.8)
ax.set(xlabel="step", ylabel="pressure")
ax.legend()
title = ax.set_title("The boxes shrink until nothing pulls any more")

# %%
# In this loop the strain is no longer zero, so its gradient, divided by the volume, is no
# longer the stress. The function ``pressure`` starts from a new strain of zero each time.
#
# Training on stress
# ------------------
#
# A potential is often fitted to stresses that somebody has measured or computed. The loss
# then contains derivatives, so you have to compute them with ``create_graph=True``, as
# for forces (:ref:`forces`). Here the only weight is the depth of the potential. It
# begins at 1, and the target is twice the stress that belongs to a depth of 1:

depth = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([depth], lr=0.05)
volume = torch.linalg.det(cell).abs()[:, None, None]
for _ in range(100):
    strain = torch.zeros_like(cell, requires_grad=True)
    stretch = torch.eye(3).double() + strain
    E = depth * energy(R @ stretch, cell @ stretch)
    (by_strain,) = torch.autograd.grad(E, strain, torch.ones_like(E), create_graph=True)
    loss = ((by_strain / volume - 2 * stress) ** 2).sum()
    optimizer.zero_grad()
    loss.backward(inputs=[depth])
    optimizer.step()
print(f"depth {depth.item():.1f}")

# %%
# What to watch for
# -----------------
#
# **The strain has to be there before the distances are computed.** If you compute the
# energy from positions that were not strained, it does not depend on the strain, and you
# get an error:

strain = torch.zeros_like(cell, requires_grad=True)
E = energy(R.clone().requires_grad_(), cell)
try:
    torch.autograd.grad(E, strain, torch.ones_like(E))
except RuntimeError as error:
    print(error)

# %%
# **Atoms without the box, or the box without the atoms.** If you forget one of the two,
# you get a number and no error. But this number belongs to a change in which atoms and
# box do not stretch together. You get the stress only if you stretch both. Here is a
# third of the trace in each case, for the first crystal:

stretch = torch.eye(3).double() + strain
parts = {}
for name, strained in {
    "both": (R @ stretch, cell @ stretch),
    "positions only": (R @ stretch, cell),
    "cell only": (R, cell @ stretch),
}.items():
    E = energy(*strained)
    (by_strain,) = torch.autograd.grad(E, strain, torch.ones_like(E))
    parts[name] = by_strain / volume
    print(f"{name:15} {parts[name][0].trace() / 3:.3f}")

# %%
# **The virial from the forces.** For a molecule without a box the derivative with respect
# to the strain is :math:`R^\top\,\partial E/\partial R`, a sum over the atoms, and many
# programs compute it in this way. In a crystal the two are different, because the copies
# of the atoms pull, too. We compare the two, first in a box so large that the copies have
# no effect, and then in our box:

far = (100 * torch.eye(3).double()).repeat(2, 1, 1)
agree = []
for box in (far, cell):
    E = energy(R @ stretch, box @ stretch)
    (whole,) = torch.autograd.grad(E, strain, torch.ones_like(E))
    force_here, _ = forces_and_stress(energy, R, box)
    agree.append(torch.allclose(R.mT @ -force_here, whole))
print("molecule", agree[0], " crystal", agree[1])

# %%
# .. admonition:: Try it
#
#    Earlier on this page, the two crystals came to rest. What are the largest force and the
#    largest entry of the stress then, to two decimal places? And can a crystal have a
#    stress if there is no force on any atom?
#
# .. dropdown:: Answer
#
#    At rest both are zero to two decimal places. And a crystal can have a stress without
#    forces. Put a single atom into a cube with edges of 1.2. Its copies pull at the atom
#    equally from all sides, so it stays where it is, but the crystal still pulls at its
#    box:

at_rest = forces_and_stress(energy, atoms_at_rest, cell_at_rest)
print("at rest", *(f"{part.abs().max():.2f}" for part in at_rest))
cube = 1.2 * torch.eye(3).double()[None]
alone = forces_and_stress(energy, torch.zeros(1, 1, 3).double(), cube)
print("cube   ", *(f"{part.abs().max():.2f}" for part in alone))

# %%
# .. dropdown:: How we checked this page
#
#    We compare one entry of the stress and one force with difference quotients of the
#    energy. We check that the stress is symmetric, and that the two wrong results add up
#    to the right one. We compare the gradient for the depth with the derivative of
#    :math:`(d\sigma-2\sigma)^2` at :math:`d=1`, worked out by hand. The fitted depth must
#    be 2, and the boxes at rest must have no stress.

h = torch.zeros(3, 3, dtype=torch.float64)
h[0, 1] = 1e-5
up, down = (energy(R + s * R @ h, cell + s * cell @ h) for s in (1, -1))
quotient = (up - down) / 2e-5 / volume[:, 0, 0]
torch.testing.assert_close(quotient, stress[:, 0, 1], rtol=1e-5, atol=1e-6)
step = torch.zeros_like(R)
step[:, 2, 1] = 1e-5
up, down = (energy(R + s * step, cell) for s in (1, -1))
torch.testing.assert_close((down - up) / 2e-5, force[:, 2, 1], rtol=1e-5, atol=1e-6)
torch.testing.assert_close(stress, stress.mT, rtol=0, atol=1e-9)
torch.testing.assert_close(parts["both"], stress)
torch.testing.assert_close(parts["positions only"] + parts["cell only"], stress)
assert agree == [True, False]
assert abs(depth.item() - 2) < 0.05
one = torch.ones((), dtype=torch.float64, requires_grad=True)
E = one * energy(R @ stretch, cell @ stretch)
(by_strain,) = torch.autograd.grad(E, strain, torch.ones_like(E), create_graph=True)
loss = ((by_strain / volume - 2 * stress) ** 2).sum()
torch.testing.assert_close(torch.autograd.grad(loss, one)[0], -2 * (stress**2).sum())
assert max(part.abs().max() for part in at_rest) < 0.05
assert energy(atoms_at_rest, cell_at_rest).diff().abs() < 1e-3
assert alone[0].abs().max() < 1e-9 < 1 < alone[1].abs().max()

# %%
# **Next:** To compute forces alone, and to train on them, read :ref:`forces`. For the
# message about the strain that was not used, read :ref:`grad-is-none`. :ref:`masked-nan`
# explains why ``torch.where`` appears twice in the energy, and what goes wrong without it
# at an atom's distance to itself.
#
# .. asked: stress tensor; virial; derivative by strain; pressure from energy; strain
#    gradient of a crystal; relax a cell with autograd
# .. words: crystal, cell, pressure, deformation, elasticity, materials, virial, lattice
