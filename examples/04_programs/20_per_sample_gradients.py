r"""
.. _per-sample-gradients:

Per-sample gradients
====================

``backward`` adds the gradients of all samples into one. To keep them apart, take the
gradient of the loss of *one* sample and let :func:`torch.func.vmap` run it over the
batch: every parameter gets a gradient of shape ``(B, *parameter)``.
"""

# %%
# The losses of B samples are a vector; its :term:`Jacobian` by the parameters has a row for
# each sample. A sum or a mean is :math:`v^\top J`, in which the rows are lost:

import torch

torch.manual_seed(0)  # weights and data that are the same on every build
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
data, target = torch.randn(6, 2), torch.randn(6, 1)
w = {name: p.detach() for name, p in model.named_parameters()}


def loss(w, sample, goal):
    out = torch.func.functional_call(model, w, (sample,))
    return ((out - goal) ** 2).sum()


per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
gradients = per_sample(w, data, target)
{name: tuple(g.shape) for name, g in gradients.items()}

# %%
# *Gradient of each term of a sum, not the sum of gradients*: that is what this is. What
# ``backward`` would leave is their sum:

((model(data) - target) ** 2).sum().backward()
for name, p in model.named_parameters():
    torch.testing.assert_close(p.grad, gradients[name].sum(0))

# %%
# What for: clipping each sample
# ------------------------------
#
# Private training (Abadi et al., 2016) limits what one sample can do to a step. The norm
# of each sample's gradient, over all parameters, and the factor that brings it below 1:

flat = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
norms = flat.norm(dim=1)
factor = (1 / norms).clamp(max=1)
print(norms.round(decimals=2), (flat * factor[:, None]).norm(dim=1).max().round(decimals=4))

# %%
# The clipped *sum* is again a ``v``: the factor of each sample weighs its loss. One
# ``backward`` gives it without storing per-sample gradients twice:

model.zero_grad()
losses = ((model(data) - target) ** 2).sum(1)
losses.backward(factor)
clipped = torch.cat([p.grad.flatten() for p in model.parameters()])
torch.testing.assert_close(clipped, factor @ flat)

# %%
# And the tangent kernel
# ----------------------
#
# *How do I get the NTK?* Rows against rows: :math:`K=J J^\top`, B×B for one output.

J = torch.func.vmap(
    torch.func.grad(lambda w, s: torch.func.functional_call(model, w, (s,))[0]), (None, 0)
)(w, data)
J = torch.cat([g.flatten(1) for g in J.values()], dim=1)
kernel = J @ J.T

import pullback.plot

ax = pullback.plot.heatmap(
    kernel,
    title="The tangent kernel of six samples: symmetric, largest on the diagonal",
    xlabel="sample",
    ylabel="sample",
)

# %%
# What goes wrong
# ---------------
#
# Inside ``vmap`` a sample has no batch dimension. *vmap(jacrev) with BatchNorm: expected
# 2D or 3D input (got 1D)*:

norm = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
try:
    torch.func.vmap(norm)(data)
except ValueError as error:
    print(error)

# %%
# Adding the dimension (``sample[None]``) meets the next wall: in training BatchNorm mixes
# samples, so a per-sample gradient does not *exist*. In ``eval`` mode it does:

norm.eval()
torch.func.vmap(lambda s: norm(s[None])[0])(data).shape

# %%
# The check, one sample after the other with ``backward``:

for i in range(6):
    model.zero_grad()
    ((model(data[i]) - target[i]) ** 2).sum().backward()
    one = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(flat[i], one)
torch.testing.assert_close(kernel, kernel.T)

# %%
# Where next
# ----------
#
# More than one output a sample: :ref:`jacobian-per-sample`. What ``vmap`` cannot do:
# :ref:`vmap-limits`. Samples that mix: :ref:`mixing-samples`.
