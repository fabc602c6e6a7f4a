r"""
.. _jacobian-of-parameters:

The Jacobian with respect to the parameters of a module
=======================================================

Make the parameters an argument: :func:`torch.func.functional_call` runs a module with
parameters from a dict, and the Jacobian by that dict is a dict of Jacobians.
"""

# %%
# A linear layer from ``(3,)`` to ``(2,)``, :math:`y=Wx+b`. Its Jacobian by the weight has
# shape ``(2, 2, 3)``, :math:`\partial y_i/\partial W_{kl}=\delta_{ik}x_l`, and by the bias
# it is the identity. A seed makes the weights repeatable:

import torch
from torch.func import functional_call, jacrev, vmap

torch.manual_seed(0)
layer = torch.nn.Linear(3, 2)
params = {name: p.detach() for name, p in layer.named_parameters()}
x = torch.tensor([1.0, 2.0, 3.0])


def run(params, x):
    return functional_call(layer, params, (x,))


J = jacrev(run)(params, x)
{name: tuple(block.shape) for name, block in J.items()}

# %%
# The block of the weight: the input, once for each output, zeros elsewhere:

J["weight"]

# %%
# The same from :func:`pullback.jacobian`, dict in, dict out:

import pullback

ours = pullback.jacobian(run, params, x)
ours["bias"]

# %%
# One matrix
# ----------
#
# Flatten and join the blocks for a single matrix, a row an output, a column a parameter:

matrix = torch.cat([block.flatten(1) for block in J.values()], dim=1)
matrix.shape

# %%
# For a batch, map over the samples but not over the parameters. This is the Jacobian that
# per-sample gradients and the *neural tangent kernel* :math:`K=JJ^\top` are made of:

X = torch.stack([x, -x, 2 * x])
batch = vmap(jacrev(run), (None, 0))(params, X)
rows = torch.cat([block.flatten(2) for block in batch.values()], dim=2)
kernel = torch.einsum("aip,bjp->abij", rows, rows)
kernel[:, :, 0, 0]

# %%
# For this layer :math:`K=(x_a\cdot x_b+1)\,I`, where 1 is the bias's share: with
# :math:`x\cdot x=14` the first row is 15, −13 and 29.
#
# What goes wrong
# ---------------
#
# Differentiating a function that ignores its argument and uses the module's own
# parameters. ``torch.func`` follows the argument only, and returns zeros:

zeros = jacrev(lambda params: layer(x))(params)
zeros["bias"].detach()

# %%
# :func:`pullback.jacobian` says so instead:

try:
    pullback.jacobian(lambda params: layer(x), params)
except RuntimeError as error:
    print(error)

# %%
# ``backward`` gives the product only, with one ``v`` for all parameters: the rows of both
# blocks, weighted and added into ``.grad``:

v = torch.tensor([1.0, 10.0])
layer(x).backward(v)
print(layer.weight.grad, layer.bias.grad, sep="\n")

# %%
# Check the blocks against the formulas, the kernel against the closed form, and the
# products against ``backward``:

assert torch.equal(J["weight"], torch.einsum("ik,l->ikl", torch.eye(2), x))
assert torch.equal(J["bias"], torch.eye(2))
for name in J:
    torch.testing.assert_close(ours[name], J[name])
    product = torch.tensordot(v, J[name], dims=1)
    torch.testing.assert_close(getattr(layer, name).grad, product)
closed = (X @ X.T + 1)[:, :, None, None] * torch.eye(2)
torch.testing.assert_close(kernel, closed)

# %%
# Where next
# ----------
#
# A Jacobian for each sample: :ref:`jacobian-per-sample`. Why training needs none of these:
# :ref:`never-forms-j`.
