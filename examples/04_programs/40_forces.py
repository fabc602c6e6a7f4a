r"""
.. _forces:

Forces −∂E/∂R and surface normals for a batch
=============================================

You have an energy, from a formula or from a network that has learned it, and you want to
know how the atoms move. The force on each atom is minus the slope of the energy with
respect to the position of the atom, because things fall downhill. There is an energy for
each molecule of a batch, so ``backward`` asks for a ``v``. You can even put the minus
into this ``v``.

If you only want the forces, these lines are all that you need, for a whole batch at once:

.. code-block:: python

   R = R.detach().requires_grad_()  # (B, atoms, 3)
   E = energy(R)  # (B,), one energy for each molecule
   force = -torch.autograd.grad(E.sum(), R)[0]  # (B, atoms, 3)

One call is enough as long as no molecule's energy depends on the atoms of another
molecule. If your model contains BatchNorm, call ``model.eval()`` first. A loop with one
call for each molecule gives the same numbers, but each call goes back through the whole
batch. So with a loop, twice as many molecules take about four times as long.
"""

# %%
# The energy of a molecule
# ------------------------
#
# Atoms that are far apart attract each other weakly, and atoms that are too close repel
# each other strongly. Here is the classical Lennard-Jones formula for their energy. We have
# chosen the units so that the energy of two atoms is lowest at a distance of 1, where it is
# −1:
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
# ``energy`` takes the positions of a batch of molecules, of shape ``(B, atoms, 3)``, and
# returns one number for each molecule. You can use any other function of this kind in its
# place, for example a network.
#
# All forces in one call
# ----------------------
#
# Forces are :math:`F=-\partial E/\partial R`, and have the shape of the positions. We have
# five energies, and pass −1 for each:

R.requires_grad_()
E = energy(R)
E.backward(-torch.ones_like(E))
force = R.grad
print(tuple(force.shape))

# %%
# ``backward`` has computed the gradient of *minus the sum* of the five energies. Each
# molecule still gets its own forces, because no molecule influences another. The energy
# of the second molecule does not depend on the positions of the first, and so it adds
# nothing to the gradient there (:ref:`ones`).
#
# So ``E.sum()`` gives the same forces as ``v``. A loop over the molecules also gives
# these forces, with five backward passes through the whole batch instead of one:

R = R.detach().requires_grad_()
E = energy(R)
by_sum = -torch.autograd.grad(E.sum(), R, retain_graph=True)[0]
one_by_one = [torch.autograd.grad(e, R, retain_graph=True)[0][k] for k, e in enumerate(E)]
print(torch.allclose(by_sum, force), torch.allclose(-torch.stack(one_by_one), force))

# %%
# Physics gives us a test that needs no second program. Nothing pushes a molecule from
# outside, so the forces inside it have to cancel:

print("they cancel:", bool(force.sum(1).abs().max() < 1e-5 * force.abs().max()))

# %%
# If the forces from your own network do not cancel, its energy depends on the position of
# the molecule in space, and not only on the distances between its atoms.
#
# Following the forces downhill
# -----------------------------
#
# Now we let all five molecules follow their forces, and see where they end up. Four atoms
# can all touch one another, like four balls in a heap. There are six pairs, each with an
# energy of −1. Will the atoms find this arrangement?

path = []
with torch.no_grad():
    S = R.clone()
for _ in range(400):
    S.requires_grad_()
    E = energy(S)
    (g,) = torch.autograd.grad(E, S, torch.ones_like(E))
    path.append(E.detach())
    S = (S - 0.005 * g.clamp(-5, 5)).detach()
print(path[-1].round(decimals=2))

# %%
# All five molecules have reached −6. Here are the energies on the way:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(torch.stack(path).clamp(max=0))
ax.set_xlabel("step")
title = ax.set_title("Energies of five molecules fall to -6: six touching pairs")

# %%
# The loop contains the usual three steps: compute the gradient, move without a graph, and
# start again from a new leaf. The ``clamp`` limits each slope, because otherwise atoms
# that begin too close to each other would fly apart.
#
# Training on forces
# ------------------
#
# Networks for energies are often trained on forces as well, since a molecule has only one
# energy, but three components of force for every atom. Then the loss contains forces,
# which are derivatives already, and you have to differentiate once more. For this the
# forces need a graph, and they have one only if you pass ``create_graph=True``. Our
# network has a single parameter, the ``stiffness``:

stiffness = torch.tensor(1.0, requires_grad=True)


def forces(create_graph):
    E = stiffness * energy(R)
    return torch.autograd.grad(E, R, -torch.ones_like(E), create_graph=create_graph)[0]


try:
    (forces(False) ** 2).sum().backward()
except RuntimeError as error:
    print(error)

# %%
# Without the flag, a loss that contains only forces raises an error, as here. If you add
# such a loss to a loss on energies, there is no error, but the network learns nothing from
# the forces. With the flag, the training finds the stiffness. The forces in ``seen`` belong
# to a stiffness of 2.5:

seen = 2.5 * force
optimizer = torch.optim.Adam([stiffness], lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    loss = ((forces(True) - seen) ** 2).mean()
    loss.backward(inputs=[stiffness])
    optimizer.step()
print(f"{stiffness.item():.2f}")

# %%
# With ``inputs=[stiffness]`` only the stiffness gets a gradient. Otherwise the ``.grad``
# of the positions would be filled, too.
#
# Surface normals with the same program
# -------------------------------------
#
# A surface given as :math:`g(p)=0`, for example by a network for signed distances, has
# the normal :math:`\nabla g`, scaled to length 1. There is one number for each point, and
# no point influences another, so a ``v`` of ones is right again. Here is an ellipsoid:

scale = torch.tensor([1.0, 2.0, 3.0])
points = torch.nn.functional.normalize(torch.randn(6, 3), dim=1) * scale
points.requires_grad_()
level = ((points / scale) ** 2).sum(1) - 1
(gradient,) = torch.autograd.grad(level, points, torch.ones_like(level))
normal = torch.nn.functional.normalize(gradient, dim=1)
print(tuple(normal.shape))

# %%
# What to watch for
# -----------------
#
# **Validation under no_grad.** Under ``no_grad`` you cannot compute the forces, because the
# energy has no graph. Turn recording on around the computation of the energy. Under
# ``inference_mode`` this is not enough (:ref:`no-grad-detach`). Lightning's
# ``trainer.validate`` runs under ``inference_mode``, and the validation inside ``fit`` does
# not. Here is the message under ``no_grad``, and the shape of the gradient with recording
# turned on:

with torch.no_grad():
    try:
        torch.autograd.grad(energy(R).sum(), R)
    except RuntimeError as error:
        print(error)
    with torch.enable_grad():
        total = energy(R).sum()
    print(torch.autograd.grad(total, R)[0].shape)

# %%
# **A list of energies fills the memory.** Without ``create_graph`` the forces have no
# graph. But the energy keeps its graph. This graph still holds tensors that were saved on
# paths that do not lead to the positions, because the backward pass has not freed them.
# If you collect energies, keep ``E.detach()``. We print whether the energy, the force and
# the detached energy require a gradient:

print(E.requires_grad, force.requires_grad, E.detach().requires_grad)

# %%
# **The distance from an atom to itself.** Many programs compute the distances of all pairs
# and mask the diagonal afterwards. But :math:`r=\sqrt{r^2}` has an infinite slope at zero,
# and 0 times infinity is NaN, so the mask comes too late (:ref:`masked-nan`). Choose the
# pairs first, as our ``energy`` does:

p = torch.zeros(2, 3, requires_grad=True)
distance = ((p[:, None] - p[None]) ** 2).sum(-1).sqrt()
(distance * (1 - torch.eye(2)))[0, 0].backward()
print(p.grad[0])

# %%
# **Periodic boxes, and stress.** In a crystal the energy also depends on the box, and the
# slope with respect to a stretch of the box gives the stress (:ref:`stress`).
#
# .. admonition:: Try it
#
#    Take five atoms instead of four, and let them settle from a start that you choose.
#    Not all ten pairs can touch in space. What is the lowest energy that you find?
#
# .. dropdown:: Answer
#
#    Nine pairs can touch, in two heaps of four that share three atoms. The two atoms of
#    the tenth pair are farther apart and still attract each other a little, so the energy
#    is a little below −9:

S = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0.5, 0.9, 0], [0.5, 0.3, 0.8], [0.5, 0.3, -0.8]])
S = S[None]
for _ in range(150):
    S.requires_grad_()
    (g,) = torch.autograd.grad(energy(S).sum(), S)
    S = (S - 0.005 * g.clamp(-5, 5)).detach()
lowest = energy(S).item()
print(f"{lowest:.1f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the forces of each molecule with the forces that it has alone, and with a
#    difference quotient of the energy. We compare the normals with their formula, which is
#    :math:`p/\text{scale}^2`, scaled to length 1.

torch.testing.assert_close(by_sum, force)
torch.testing.assert_close(-torch.stack(one_by_one), force)
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
assert -9.2 < lowest < -9
torch.testing.assert_close(path[-1], torch.full((5,), -6.0), atol=0.01, rtol=0)

# %%
# **Next:** To differentiate with respect to the box as well, read :ref:`stress`.
# :ref:`ones-trick` explains why ones are the right ``v`` for forces. To differentiate a
# derivative, read :ref:`second-derivatives`. If the samples of your batch do mix, read
# :ref:`mixing-samples`. Short answers are in :ref:`answers-physics`.
#
# .. asked: forces from energy; molecular dynamics forces; derivative of the energy by
#    positions; interatomic potential; train on forces; surface normals from a signed
#    distance function; force on each atom; computing forces is slow; forces in a loop
#    over the molecules
# .. words: atoms, molecule, potential, physics, md, energy conservation, newton, positions,
#    SchNet, MACE, nequip, train energies and forces, normals, sdf
