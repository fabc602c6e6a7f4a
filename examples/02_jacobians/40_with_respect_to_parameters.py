r"""
.. _with-respect-to-parameters:

The Jacobian with respect to the parameters of a network
========================================================

Suppose that we do not know the formulas of the house. A small network has learned to
predict heat and fuel from the stoves, and for one setting its fuel is wrong. *Which of
its weights would change this prediction, and would the heat change with it?* This is a
question for a :term:`Jacobian` again, but the inputs are now the weights, and they are
hidden inside the module.
"""

# %%
# We begin with the smallest network that will do, a single linear layer from three stoves
# to two predictions. It has a ``weight`` of shape ``(2, 3)`` and a ``bias`` of shape
# ``(2,)``. We set a seed so that the weights are the same in every run:

import torch
from torch.func import functional_call, jacrev, vmap

torch.manual_seed(0)
layer = torch.nn.Linear(3, 2)
x = torch.tensor([1.0, 2.0, 3.0])
layer(x).detach()

# %%
# ``jacrev`` differentiates a function with respect to its *argument*. The weights of a
# module are not an argument, so we first need a function that takes them. This is what
# ``functional_call`` is for: it runs a module with the parameters that you hand it in a
# dictionary, and leaves the module's own as they are:

params = {name: p.detach() for name, p in layer.named_parameters()}


def predict(params, x):
    return functional_call(layer, params, (x,))


J = jacrev(predict)(params, x)
{name: tuple(block.shape) for name, block in J.items()}

# %%
# A dictionary goes in, and a dictionary comes out, with one Jacobian for each parameter.
# Each of them has shape ``y.shape + parameter.shape``. For the weight this is
# ``(2,) + (2, 3)``, so ``J["weight"][1]`` has the shape of the weight, and is the
# gradient of the second prediction, the fuel.
#
# .. admonition:: Predict
#
#    The layer computes ``weight @ x + bias`` with ``x = [1, 2, 3]``. Which weights does
#    the fuel depend on, and how strongly on each?

print(J["weight"][1])
print(J["bias"][1])

# %%
# The fuel is computed from the second row of the weight only, so the first row has zeros.
# Each weight in the second row is multiplied by the setting of its stove, and therefore
# the fuel reacts to it at a rate of 1, 2 or 3. To the second bias it reacts at a rate of
# 1. So if the fuel is wrong, we can correct it without touching the heat.
#
# A deeper network
# ----------------
#
# For a network with a hidden layer nothing changes, except that the dictionary has more
# names:

net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
weights = {name: p.detach() for name, p in net.named_parameters()}


def network(weights, x):
    return functional_call(net, weights, (x,))


blocks = jacrev(network)(weights, x)
{name: tuple(block.shape) for name, block in blocks.items()}

# %%
# The network has 14 parameters, and the four Jacobians together have two rows of 14
# numbers. What ``backward`` leaves in the ``.grad`` fields is one combination of these
# rows, as always. With a ``v`` that picks the fuel, it is the second row of every block:

net(x).backward(torch.tensor([0.0, 1.0]))
same = [torch.allclose(p.grad, blocks[name][1]) for name, p in net.named_parameters()]
same

# %%
# So if you have computed ``y = net(x)`` already, the tools for rows work here, too.
# ``autograd.grad`` takes the list of parameters, and all rows come in one call, without
# ``functional_call``:

y = net(x)
rows = torch.autograd.grad(y, list(net.parameters()), torch.eye(2), is_grads_batched=True)
[tuple(block.shape) for block in rows]

# %%
# For each sample
# ---------------
#
# A Jacobian for every sample of a batch is a matter of ``vmap`` again. It should go
# through the samples, but use the same weights for all of them. ``in_dims`` says so, with
# ``None`` for the weights and 0 for the first dimension of the batch:

X = torch.tensor([[1.0, 2, 3], [2, 2, 2], [4, 1, 1], [1, 1, 5]])
each = vmap(jacrev(network), in_dims=(None, 0))(weights, X)
{name: tuple(block.shape) for name, block in each.items()}

# %%
# In front there is now the sample. Note that the trick with the sum from
# :ref:`one-jacobian-per-sample` cannot give you this, because all samples share the
# weights. Summing over the batch would add up their gradients, and that is what an
# ordinary training step does.
#
# Many methods flatten the blocks and put them side by side, which makes one table with a
# row for each output and a column for each parameter:

import pullback

table = torch.cat([block.flatten(1) for block in blocks.values()], dim=1)
pullback.draw.dependence(table, rows=["heat", "fuel"])

# %%
# The picture shows which of the 14 parameters each prediction depends on. The first eight
# belong to the hidden layer. They are filled in both rows, so a change of one of them
# moves heat and fuel together. The last six belong to the last layer, where each
# prediction has its own two weights and its own bias. There we can still correct the fuel
# alone.
#
# From such tables one builds the *neural tangent kernel*, Gauss-Newton steps, and
# estimates of how certain a prediction is. :ref:`jacobian-of-parameters` goes on from
# here.
#
# The module's own weights give zeros
# -----------------------------------
#
# This looks almost the same as ``predict``, but the function does not use its argument:

wrong = jacrev(lambda params: layer(x))(params)
wrong["bias"].detach()

# %%
# All zeros, with the right shape, and no error. ``jacrev`` asked how the result depends
# on the argument ``params``. It does not depend on it at all, because ``layer(x)`` uses
# the tensors inside the module. So the zeros are a correct answer to the wrong question.
# ``pullback.jacobian`` raises an error in this case:

try:
    pullback.jacobian(lambda params: layer(x), params)
except RuntimeError as error:
    print(error)

# %%
# A module that behaves differently in training should be in the mode that you mean before
# you begin. Dropout draws random numbers, so call ``net.eval()`` if you want the network
# without them. BatchNorm in training mixes the samples and writes to its buffers.
#
# .. admonition:: Remember
#
#    - ``functional_call(module, params, (x,))`` makes the parameters an argument, and
#      ``jacrev`` of it gives a dictionary of Jacobians.
#    - Each block has shape ``y.shape + parameter.shape``.
#    - ``vmap`` with ``in_dims=(None, 0)`` gives one for each sample. Summing over the
#      batch does not, since the samples share the parameters.
#    - A function that ignores its argument has a Jacobian of zeros.
#
# .. admonition:: Try it
#
#    ``J["weight"][0]`` belongs to the heat. Write it down before you print it. Then
#    change ``x`` to ``[0, 2, 3]``. Which weights have no influence on the predictions any
#    more?

# %%
# .. dropdown:: How we checked this page
#
#    The blocks of the layer are compared with their formula, those of the network with a
#    nudge of every single parameter in float64, and with the two other ways of the page.

assert torch.equal(J["weight"], torch.einsum("ik,l->ikl", torch.eye(2), x))
assert torch.equal(J["bias"], torch.eye(2))

from copy import deepcopy

h, double = 1e-6, {name: p.double() for name, p in weights.items()}
net_double = deepcopy(net).double()
for name, block in blocks.items():
    for k in range(weights[name].numel()):
        nudge = torch.zeros(weights[name].numel(), dtype=torch.float64)
        nudge[k] = h
        nudge = nudge.view_as(weights[name])
        up, down = ({**double, name: double[name] + sign * nudge} for sign in (1, -1))
        ends = [functional_call(net_double, w, (x.double(),)) for w in (up, down)]
        rate = ((ends[0] - ends[1]) / (2 * h)).float()
        torch.testing.assert_close(rate, block.flatten(1)[:, k], rtol=1e-4, atol=1e-5)

assert all(same)
for mine, (name, block) in zip(rows, blocks.items(), strict=True):
    torch.testing.assert_close(mine, block)
    torch.testing.assert_close(each[name][0], block)
assert table.shape == (2, 14)
assert not wrong["bias"].any()

# %%
# **Next:** these tables were small. For a real layer they have billions of entries, and
# yet training runs. :ref:`never-built` looks at how ``backward`` does without them.
