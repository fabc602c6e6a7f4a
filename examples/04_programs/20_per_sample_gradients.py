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
# *Gradient of each term of a sum, not the sum of gradients*: that is what this is, at the
# price of B times the memory of the parameters (``vmap`` has a ``chunk_size``). What
# ``backward`` leaves is their sum, for a mean loss their mean, as long as samples do not
# mix and dropout draws the same masks:

for reduce in (torch.sum, torch.mean):
    model.zero_grad()
    reduce((model(data) - target) ** 2).backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, reduce(gradients[name], 0))

# %%
# *Can I expand the weights instead, one copy for each sample?* For layers that you can
# write as a batched product, yes. Each copy gets a gradient of its own from one backward:

first = w["0.weight"].expand(6, 3, 2).clone().requires_grad_()
hidden = torch.tanh((first @ data[:, :, None])[..., 0] + w["0.bias"])
((model[2](hidden) - target) ** 2).sum().backward()
torch.testing.assert_close(first.grad, gradients["0.weight"])

# %%
# What for: clipping each sample
# ------------------------------
#
# Private training (DP-SGD, Abadi et al., 2016) limits what one sample can do to a step.
# After ``backward`` it is too late: ``clip_grad_norm_`` sees the sum alone. The norm of
# each sample's gradient, over all parameters, and the factor that brings it below C:

flat = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
norms = flat.norm(dim=1)
C = 1.0
factor = (C / norms).clamp(max=1)
print(norms.round(decimals=2), (flat * factor[:, None]).norm(dim=1).max().round(decimals=4))

# %%
# The clipped *sum* is one more product: the factor of each sample weighs its loss. So a
# pass that finds the norms alone and one ``backward`` are enough. Noise goes on that sum,
# σ times the bound C; the division by the batch size comes last:

model.zero_grad()
losses = ((model(data) - target) ** 2).sum(1)
losses.backward(factor)
clipped = torch.cat([p.grad.flatten() for p in model.parameters()])
torch.testing.assert_close(clipped, factor @ flat)
sigma = 1.1
private = (clipped + sigma * C * torch.randn(clipped.shape)) / len(data)

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
    title="The tangent kernel of six samples: how far one moves another",
    xlabel="sample",
    ylabel="sample",
)

# %%
# What it says: after a small step of gradient descent on the losses, the outputs have moved
# by :math:`-\eta K r`, with r the slopes of the losses by the outputs:

rate = 1e-4
out = model(data).detach()
moved = {name: w[name] - rate * g.sum(0) for name, g in gradients.items()}
change = torch.func.functional_call(model, moved, (data,)) - out
predicted = -rate * kernel @ (2 * (out - target))
print(((change - predicted).norm() / change.norm() < 0.01).item())

# %%
# What goes wrong
# ---------------
#
# Inside ``vmap`` a sample has no batch dimension. *vmap(jacrev) with BatchNorm: expected
# 4D input (got 3D)* for images; here 2D or 3D. With the dimension added BatchNorm still
# wants company, as in training it mixes samples and one alone has no spread. (An image has
# one, over its pixels; there it is the running statistics that cannot be written.)

norm = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
image = lambda s: torch.nn.BatchNorm2d(2)(s.view(1, 2, 1, 1).tile(4, 4))
for f in (norm, lambda sample: norm(sample[None])[0], image):
    try:
        torch.func.vmap(f)(data)
    except (ValueError, RuntimeError) as error:
        print(str(error).partition(", which")[0])

# %%
# The gradient of one sample's loss does not *exist* there, whatever tool you take. In
# ``eval`` mode it does; or train with GroupNorm, which looks at one sample at a time:

norm.eval()
torch.func.vmap(lambda sample: norm(sample[None])[0])(data).shape

# %%
# Dropout is refused until you say whether the samples share a mask:

noisy = torch.nn.Dropout(0.5)
try:
    torch.func.vmap(noisy)(data)
except RuntimeError as error:
    print(str(error)[:66])
torch.func.vmap(noisy, randomness="different")(data).shape

# %%
# *I append w.grad in a loop over samples, and all entries of my list are the same.* They
# are one tensor, which ``zero_()`` and the next ``backward`` edit. Append a clone:

for keep in (lambda g: g, torch.clone):
    kept = []
    for sample, goal in zip(data[:3], target, strict=False):
        model.zero_grad(set_to_none=False)
        ((model(sample) - goal) ** 2).sum().backward()
        kept.append(keep(model[2].bias.grad))
    print([round(g.item(), 2) for g in kept])

# %%
# The check, one sample after the other with ``backward``:

for i in range(6):
    model.zero_grad()
    ((model(data[i]) - target[i]) ** 2).sum().backward()
    one = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(flat[i], one)
assert (change - predicted).norm() < 0.01 * change.norm()
torch.testing.assert_close(torch.stack(kept), gradients["2.bias"][:3])

# %%
# Where next
# ----------
#
# More than one output a sample: :ref:`jacobian-per-sample`. What ``vmap`` cannot do:
# :ref:`vmap-limits`. Samples that mix: :ref:`mixing-samples`.
#
# .. asked: per-sample gradients; gradient for each sample of a batch; individual
#    gradients; gradients of every example; differential privacy gradients; vmap grad;
#    do not sum the gradients over the batch; gradient of each loss separately;
#    gradients of a batch kept apart; one gradient per row; separate gradient for each
#    picture; gradient of every data point
