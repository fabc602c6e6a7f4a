r"""
.. _with-respect-to-parameters:

The Jacobian with respect to the parameters of a network
========================================================

Suppose that we do not know the formulas of the house. A small network has learned to
predict heat and fuel from the stoves, and for one setting its fuel is wrong. We want to
know which of its weights would change this prediction, and whether the heat would
change with it. This is a question for a :term:`Jacobian` again, but now the inputs are
the weights, and they are hidden inside the module.
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
# If you have one sample and have computed ``y`` from it, you already know a way.
# ``autograd.grad`` takes a list of parameters instead of ``x``, and returns all rows in
# one call:

y = layer(x)
asked = [layer.weight, layer.bias]
rows = torch.autograd.grad(y, asked, torch.eye(2), is_grads_batched=True)
[tuple(block.shape) for block in rows]

# %%
# There is one block for each parameter, of shape ``y.shape + parameter.shape``. For the
# weight this is ``(2,) + (2, 3)``. This is enough, as long as every parameter in the list
# requires a gradient and was used for ``y``. (For one that was not used, pass
# ``allow_unused=True``, and you get ``None``.)
#
# The tools of ``torch.func`` need a bit more. You want them, for example, for a Jacobian
# of each sample in a batch. ``jacrev`` differentiates a function with respect to its
# *argument*. The weights of a module are not an argument, so we first need a function
# that takes them. This is what ``functional_call`` is for: it runs a module with the
# parameters that you hand it in a dictionary, and then puts the module's own back:

params = {name: p.detach() for name, p in layer.named_parameters()}


def predict(params, x):
    return functional_call(layer, params, (x,))


J = jacrev(predict)(params, x)
{name: tuple(block.shape) for name, block in J.items()}

# %%
# A dictionary goes in, and a dictionary comes out, with the same two blocks.
# ``J["weight"][1]`` has the shape of the weight, and is the gradient of the second
# prediction, the fuel.
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
# For each sample
# ---------------
#
# Now for what we prepared: a Jacobian for every sample of a batch. ``vmap`` should go
# through the samples, but use the same weights for all of them. ``in_dims`` says so, with
# ``None`` for the weights and 0 for the first dimension of the batch:

X = torch.tensor([[1.0, 2, 3], [2, 2, 2], [4, 1, 1], [1, 1, 5]])
each = vmap(jacrev(network), in_dims=(None, 0))(weights, X)
{name: tuple(block.shape) for name, block in each.items()}

# %%
# The first dimension of each block counts the samples. The trick with the sum from
# :ref:`one-jacobian-per-sample` cannot give you this, because all samples share the
# weights. Summing over the batch adds up their gradients, which is what the gradient of a
# batch's loss does in training.
#
# Correcting the fuel alone
# -------------------------
#
# To answer our question, we flatten the blocks and put them side by side. This makes one
# table with a row for each prediction and a column for each parameter. ``W`` and ``b``
# are the weight and the bias of the hidden layer, and ``U`` and ``c`` those of the last
# layer:

import pullback

table = torch.cat([block.flatten(1) for block in blocks.values()], dim=1)
hidden = ["W00", "W01", "W02", "W10", "W11", "W12", "b0", "b1"]
names = [*hidden, "U00", "U01", "U10", "U11", "c0", "c1"]
pullback.draw.dependence(table, rows=["heat", "fuel"], columns=names)

# %%
# The first eight columns, those of the hidden layer, are filled in both rows. A change of
# one of these parameters moves heat and fuel together. In the last layer each prediction
# has its own two weights and its own bias. There we can correct the fuel alone. Suppose
# that the fuel is predicted half a unit too low. The column ``c1`` is 0 for the heat and 1
# for the fuel, so that we raise ``c1`` by one half:

corrected = {name: w.clone() for name, w in weights.items()}
corrected["2.bias"][1] += 0.5
print(network(weights, x))
print(network(corrected, x))

# %%
# The heat is as before, and the fuel has gone up by 0.5. Here the prediction depends on the
# parameter in a straight line, so that the table is right for a step of any length.
#
# Such a table is what a *Gauss-Newton step* is made of. To correct the predictions, it
# solves for a change of the parameters as we solved for a step of the stoves in
# :ref:`the-whole-jacobian`. :ref:`jacobian-of-parameters` goes on from here.
#
# The module's own weights give zeros
# -----------------------------------
#
# This looks almost the same as ``predict``, but the function does not use its argument:

wrong = jacrev(lambda params: layer(x))(params)
wrong["bias"].detach()

# %%
# These are zeros of the right shape. ``jacrev`` asked how the result depends on the
# argument ``params``. It does not depend on it at all, because ``layer(x)`` uses the
# tensors inside the module. ``pullback.jacobian`` raises an error in this case:

try:
    pullback.jacobian(lambda params: layer(x), params)
except RuntimeError as error:
    print(error)

# %%
# A module that behaves differently in training should be in the mode that you mean before
# you begin. Dropout draws random numbers, so call ``net.eval()`` if you want the network
# without them. BatchNorm in training mixes the samples and writes to its buffers, which
# is why ``jacrev`` refuses it.
#
# .. admonition:: Remember
#
#    - For one sample and a ``y`` that you have computed, ``torch.autograd.grad`` with a
#      list of parameters is enough. For ``vmap`` and the other tools of ``torch.func``
#      you need ``functional_call``.
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
#
# .. dropdown:: Answer
#
#    ``J["weight"][0]`` is ``[[1, 2, 3], [0, 0, 0]]``, because the heat uses the first row
#    of the weight only. With the first stove off, the two weights in the first column are
#    multiplied by 0. As long as that stove stays off, they have no influence.
#
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
for mine, block in zip(rows, J.values(), strict=True):
    assert torch.equal(mine, block)
for name, block in blocks.items():
    torch.testing.assert_close(each[name][0], block)
assert table.shape == (2, len(names))
assert table[:, :8].all()  # the hidden layer moves both
own = [10, 11, 13]  # the fuel's, in the last layer
assert not table[0, own].any()
assert table[1, own].all()
assert J["weight"][0].tolist() == [[1, 2, 3], [0, 0, 0]]
off = jacrev(predict)(params, torch.tensor([0.0, 2.0, 3.0]))["weight"]
assert not off[:, :, 0].any()
assert off[:, :, 1:].any()
assert not wrong["bias"].any()

# %%
# **Next:** these tables were small. For a real layer they have billions of entries, and
# yet training runs. :ref:`never-built` looks at how ``backward`` does without them.
