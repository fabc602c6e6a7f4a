r"""
.. _stress:

Stress and virial: the derivative of the energy by a strain of zero
===================================================================

Stretch positions and cell by :math:`1+\varepsilon` and differentiate the energy at
:math:`\varepsilon=0`: divided by the volume, that is the stress. The strain must be in the
graph *before* distances are computed, and one energy gives forces and stress in one
backward.
"""

# %%
# Positions R of shape ``(B, atoms, 3)``, cells with rows as vectors ``(B, 3, 3)``, energies
# ``(B,)``. With a strain :math:`\varepsilon` ``(B, 3, 3)`` of zeros
#
# .. math::
#
#    E(\varepsilon)=E\bigl(R(1+\varepsilon),\,C(1+\varepsilon)\bigr),\qquad
#    \sigma=\frac1V\,\frac{\partial E}{\partial\varepsilon},\qquad
#    \text{virial}=-\frac{\partial E}{\partial\varepsilon}.
#
# A pair potential with periodic images, the 27 nearest cells:

import torch

shifts = torch.cartesian_prod(*[torch.tensor([-1.0, 0, 1], dtype=torch.float64)] * 3)


def energy(R, cell):
    images = R[:, None] + (shifts @ cell)[:, :, None]  # (B, 27, atoms, 3)
    d = R[:, None, :, None] - images[:, :, None]  # (B, 27, atoms, atoms, 3)
    r2 = (d**2).sum(-1)
    pairs = r2 > 1e-8  # not an atom with itself
    inverse = torch.where(pairs, torch.where(pairs, r2, 1.0) ** -3, 0.0)
    return 0.5 * (inverse**2 - 2 * inverse).sum((1, 2, 3))


# %%
# Two crystals, a little out of shape:

torch.manual_seed(0)  # the same crystals on every build
corners = torch.tensor([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]).double()
cell = (1.5 * torch.eye(3).double()).repeat(2, 1, 1) + 0.03 * torch.randn(2, 3, 3).double()
R = corners @ cell + 0.03 * torch.randn(2, 4, 3).double()
volume = torch.linalg.det(cell).abs()


# %%
# What goes wrong
# ---------------
#
# *appears to not have been used in the graph*: the strain is made, and the energy is
# computed from positions that have never seen it:

strain = torch.zeros(2, 3, 3, dtype=torch.float64, requires_grad=True)
E = energy(R.requires_grad_(), cell)
try:
    torch.autograd.grad(E, strain, torch.ones_like(E))
except RuntimeError as error:
    print(error)

# %%
# *Strain the positions and forget the cell*, or the other way round: a number comes out, of
# another quantity, as atoms and lattice then do not stretch together. Only the sum of the
# two is right:

stretch = torch.eye(3).double() + strain
v = torch.ones_like(E)
for name, strained in {
    "both": (R @ stretch, cell @ stretch),
    "positions only": (R @ stretch, cell),
    "cell only": (R, cell @ stretch),
}.items():
    (by_strain,) = torch.autograd.grad(energy(*strained), strain, v)
    print(f"{name:15} {by_strain[0].trace() / 3 / volume[0]:.3f}")

# %%
# Forces and stress at once
# -------------------------
#
# One backward by both. *But R is now strained: is the force right?* At a strain of zero the
# strained positions are the positions, and the derivative by R goes through a factor of 1:

E = energy(R @ stretch, cell @ stretch)
by_position, by_strain = torch.autograd.grad(E, (R, strain), v)
force, stress = -by_position, by_strain / volume[:, None, None]
print(force.shape, stress.shape)
stress[0].numpy().round(3)

# %%
# The matrix is symmetric, because turning the crystal costs nothing. For a network that
# does not know it, take the symmetric half of the strain,
# :math:`(\varepsilon+\varepsilon^\top)/2`, which gives the symmetric half of the result.
#
# *The virial from forces, R times F?* For a molecule without a cell yes: the sum over
# atoms, :math:`R^\top\,\partial E/\partial R`, is the whole derivative by the strain. In a
# crystal the atoms' images pull as well, and the sum has another value. The symmetry, then
# the sum for a far box and for the crystal:

print(bool((by_strain - by_strain.mT).abs().max() < 1e-9))
far = (100 * torch.eye(3).double()).repeat(2, 1, 1)
for box in (far, cell):
    by_position, whole = torch.autograd.grad(
        energy(R @ stretch, box @ stretch), (R, strain), v
    )
    print(torch.allclose(R.mT @ by_position, whole))

# %%
# Training on stress
# ------------------
#
# As with forces, with ``create_graph=True``, since the loss is made of derivatives. The
# weight is the depth of the potential, 1, and the target twice the stress:

depth = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
E = depth * energy(R @ stretch, cell @ stretch)
(by_strain,) = torch.autograd.grad(E, strain, v, create_graph=True)
loss = ((by_strain / volume[:, None, None] - 2 * stress) ** 2).sum()
loss.backward(inputs=[depth])
print((depth.grad < 0).item())  # a step down makes it deeper, towards 2

# %%
# The pressure is minus a third of the stress's trace, positive where the crystal pushes
# outward. As built it pulls; squeezed to nine tenths in length, it pushes back:

for scale in (1.0, 0.9):
    E = energy(scale * R @ stretch, scale * cell @ stretch)
    (by_strain,) = torch.autograd.grad(E, strain, v)
    trace = by_strain.diagonal(dim1=1, dim2=2).sum(1)
    print(scale, (-trace / 3 / scale**3 / volume).round(decimals=1))

# %%
# The check: a difference quotient of the energy along one strain, and of one position. And
# the derivative by the depth, from :math:`(d\sigma-2\sigma)^2` by hand:

h = torch.zeros(3, 3, dtype=torch.float64)
h[0, 1] = 1e-5
with torch.no_grad():
    up, down = (energy(R + s * R @ h, cell + s * cell @ h) for s in (1, -1))
    torch.testing.assert_close(
        (up - down) / 2e-5 / volume, stress[:, 0, 1], rtol=1e-5, atol=1e-6
    )
    step = torch.zeros_like(R)
    step[:, 2, 1] = 1e-5
    up, down = (energy(R + s * step, cell) for s in (1, -1))
    torch.testing.assert_close((down - up) / 2e-5, force[:, 2, 1], rtol=1e-5, atol=1e-6)
torch.testing.assert_close(depth.grad, -2 * (stress**2).sum())

# %%
# Where next
# ----------
#
# Forces alone: :ref:`forces`. The message above: :ref:`grad-is-none`. NaN from an atom's
# distance to itself: :ref:`masked-nan`.
#
# .. asked: stress tensor; virial; derivative by strain; pressure from energy; strain
#    gradient of a crystal
#
# .. words: crystal, cell, pressure, deformation, elasticity, materials, virial, lattice
