r"""
.. _with-respect-to-parameters:

The Jacobian with respect to the parameters of a network
========================================================

A small network has learned to predict the heat and the fuel of our house. For one setting
of the stoves it predicts too little fuel, and the heat is fine. Which change of its hidden
layer corrects the fuel and leaves the heat alone? Every weight of that layer moves both
predictions, so you cannot guess the answer. You can read it from a :term:`Jacobian` whose
inputs are the weights. This page shows how to get one.
"""

# %%
# We begin with the smallest network that will do, a single linear layer from three stoves
# to two predictions, with the weights that PyTorch has given it. It computes
# ``weight @ x + bias``. The ``weight`` has shape ``(2, 3)``, a row for each prediction,
# and the ``bias`` has shape ``(2,)``:

import torch

layer = torch.nn.Linear(3, 2)
x = torch.tensor([1.0, 2.0, 3.0])
y = layer(x)
y.shape

# %%
# The outputs of our table are heat and fuel, as before. Its inputs are the eight numbers
# in the weight and the bias, while the stoves stay where they are. Let us write
# :math:`W_{10}` for ``weight[1, 0]``, and so on. Then the fuel, the second prediction, is
#
# .. math::
#
#    \text{fuel}=W_{10}\cdot1+W_{11}\cdot2+W_{12}\cdot3+b_1.
#
# .. predict::
#    :for: two rows of three
#
#    How fast does the fuel react to each of the six weights? Write the six rates as two
#    rows, where they stand in ``weight``.

parameters = [layer.weight, layer.bias]
of_weight, of_bias = torch.autograd.grad(y, parameters, torch.eye(2), is_grads_batched=True)
of_weight[1]

# %%
# The call is the one that you know, with a list of parameters in place of ``x``. The
# fuel does not use the first row of the weight, so there we see zeros. Each weight in
# the second row is multiplied by the setting of its stove, and the fuel reacts to it at
# a rate of 1, 2 or 3.
#
# PyTorch keeps the parameters in two tensors, and so the table comes in two blocks:

print("of_weight:", of_weight.shape)
print("of_bias:  ", of_bias.shape)

# %%
# Each block has shape ``y.shape + parameter.shape``. First comes the prediction, then the
# place in the parameter. To see the table as a table, flatten each block after its first
# index, and put the two side by side. That makes two rows of eight numbers:

import pullback

table = torch.cat([of_weight.flatten(1), of_bias.flatten(1)], dim=1)
columns = ["W00", "W01", "W02", "W10", "W11", "W12", "b0", "b1"]
pullback.draw.vjp([0, 1], table, rows=["heat", "fuel"], columns=columns)

# %%
# If you already have ``y``, the call above is all you need.
#
# A function that takes the weights
# ---------------------------------
#
# Now for a network with a hidden layer. We train it for a moment on a hundred settings
# and what the house does at each. (The seed is there so that you get the same network):

torch.manual_seed(0)
settings = 3 * torch.rand(100, 3)
measured = torch.stack([settings.sum(1), (settings**2).sum(1)], dim=1)

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.SiLU(), torch.nn.Linear(3, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(settings), measured).backward()
    optimizer.step()
print("predicted:", net(x).detach().round(decimals=2), " true: heat 6, fuel 14")

# %%
# The heat is nearly right, and about 0.7 of fuel is missing. For the table of this
# network we use ``jacrev``. It wants a function, and differentiates with respect to the
# function's *argument*. ``jacrev(net)(x)`` would give us the table for the stoves,
# because ``x`` is the argument of the network. So we need a function that takes the
# weights. ``functional_call`` makes one from any module. It runs the module with the
# parameters that you hand it, and afterwards puts the module's own back:

from torch.func import functional_call, jacrev, jvp, vmap

weights = {name: p.detach() for name, p in net.named_parameters()}


def network(weights, x):
    return functional_call(net, weights, (x,))


blocks = jacrev(network)(weights, x)
{name: tuple(block.shape) for name, block in blocks.items()}

# %%
# A dictionary of parameters goes in, and a dictionary of blocks comes out. (``jacrev``
# differentiates with respect to the first argument, unless you say otherwise.) The number
# in a name is the position in ``Sequential``: 0 is the hidden layer and 2 the last one.
# At position 1 is the nonlinear function, which has no parameters.
#
# There is a mistake here that raises no error. The next line looks almost the same, but
# its function does not use its argument:

wrong = jacrev(lambda weights: net(x))(weights)
wrong["2.bias"].detach()

# %%
# The shape is right, and the numbers are zeros, because ``net(x)`` uses the tensors
# inside the module and not the argument. If such a Jacobian is zero everywhere, look
# for a missing ``functional_call``.
#
# A step that corrects the fuel alone
# -----------------------------------
#
# The hidden layer has nine weights and three biases. Here is the block of the weights,
# first for the heat and then for the fuel. It has a row for each hidden unit and a
# column for each stove:

blocks["0.weight"].round(decimals=2)

# %%
# No entry is zero, so whichever weight we move, heat and fuel both move. But the table
# shows where to look. In the row of the first unit the fuel reacts strongly and the
# heat hardly at all. We need a step of all twelve parameters together in which the
# effects on the heat cancel. So we put the two blocks side by side, and as for the
# stoves in :ref:`hitting-targets`, ``pinv`` finds the shortest such step. Then we give
# it the shapes of the parameters:

hidden = torch.cat([blocks["0.weight"].flatten(1), blocks["0.bias"]], dim=1)
missing = torch.tensor([0.0, 14.0 - network(weights, x)[1]])
print("missing:", missing.round(decimals=3))
step = torch.linalg.pinv(hidden) @ missing
step = {"0.weight": step[:9].reshape(3, 3), "0.bias": step[9:]}

corrected = {**weights, **{name: weights[name] + s for name, s in step.items()}}
print("before:", network(weights, x).round(decimals=2))
print("after: ", network(corrected, x).round(decimals=2))
print("step in the weights:", step["0.weight"].round(decimals=3) + 0.0, sep="\n")

tenfold = {**weights, **{name: weights[name] + 10 * s for name, s in step.items()}}
print("ten times the step:", network(tenfold, x).round(decimals=2))

# %%
# The heat is as before, to two digits, and the fuel is nearly 14. This answers our
# question. The step raises the weights of the first unit and lowers those of the other
# two, and together these changes leave the heat alone. But for
# the hidden layer the table holds only for small steps. Ten
# times this step should have added nothing to the heat and 6.85 to the fuel, and has
# missed both. For a larger correction, go part of the way and
# compute the table again. Other predictions move as well, so look at them before you
# keep such a correction. (With many predictions to correct at once, this is called a
# *Gauss-Newton step*, and :ref:`jacobian-of-parameters` goes on from here.)
#
# .. predict::
#    :label: pushed
#    :for: the rates of heat and fuel
#
#    You can push along such a step, too. ``jvp`` takes the dictionary of parameters, and
#    for ``u`` a dictionary of the same names and shapes. The step was made for a change of
#    ``[0, 0.685]``. We push *twice* this step. At which rates do heat and fuel change?

u = {name: torch.zeros_like(w) for name, w in weights.items()}
u = {**u, **{name: 2 * s for name, s in step.items()}}
value, pushed = jvp(lambda weights: network(weights, x), (weights,), (u,))
print("pushed:", pushed.round(decimals=2) + 0.0)

# %%
# Nothing happens to the heat, and the fuel changes at twice the rate, as for any table:
# ``J @ (2 * u)`` is twice ``J @ u``. The push took one forward pass with rates, and no
# table.
#
# For each sample of a batch
# --------------------------
#
# Now take four settings of the stoves, as a batch ``X`` of shape ``(4, 3)``. As in
# :ref:`one-jacobian-per-sample`, ``vmap`` takes the function of one sample through the
# batch. But the function has two arguments now. Only ``X`` has a dimension for the samples,
# while the weights are the same for all of them. ``in_dims`` says so, with ``None`` for the
# weights and 0 for the first dimension of ``X``:

X = torch.tensor([[1.0, 2, 3], [2, 2, 2], [4, 1, 1], [1, 1, 5]])
each = vmap(jacrev(network), in_dims=(None, 0))(weights, X)

# %%
# .. predict::
#    :expects: shape
#    :for: the shape of the block
#
#    ``each`` is a dictionary with four blocks again. For one sample, the block of
#    ``"0.weight"`` had shape ``(2, 3, 3)``. What is it now?

each["0.weight"].shape

# %%
# The samples come first, then the prediction, then the place in the weight. Summing over
# the batch first does not work here, because all samples share the weights: the sum would
# add the four samples' rates into one number for each weight.
#
# The two weights and the bias of a layer with one output, as ``x``, for the sample
# :math:`(1, 2)`. Tanh saturates: make a weight large, and see what becomes of the rates:

sample = torch.tensor([1.0, 2.0])
unit = lambda w: torch.tanh(w[:2] @ sample + w[2])
pullback.live(unit, torch.tensor([0.5, -0.3, 0.1]))

# %%
# .. admonition:: Remember
#
#    - Each parameter gets a block of shape ``y.shape + parameter.shape``: first the
#      output, then the place in the parameter.
#    - If you have computed ``y``, pass a list of parameters to ``torch.autograd.grad``.
#    - For ``jacrev``, ``jvp`` and ``vmap``, ``functional_call(module, params, (x,))``
#      makes the parameters an argument. A function that ignores this argument has a
#      Jacobian of zeros.
#    - ``vmap`` with ``in_dims=(None, 0)`` gives the blocks of each sample.
#
# .. predict:: Try it
#    :for: two rows of three
#
#    The block of the single layer's weight that belongs to the heat is ``of_weight[0]``.
#    Write it down for ``x = [0, 2, 3]``, where the first stove is off. Which weights have
#    no influence on any prediction now?
#
# .. dropdown:: Answer
#
#    The heat uses the first row of the weight only, and its rates are the settings. The
#    two weights in the first *column*, ``W00`` and ``W10``, are multiplied by 0. As long
#    as the first stove stays off, they have no influence.

params = {name: p.detach() for name, p in layer.named_parameters()}
first_off = torch.tensor([0.0, 2.0, 3.0])
off = jacrev(lambda params: functional_call(layer, params, (first_off,)))(params)["weight"]
off[0]

# %%
# .. dropdown:: How we checked this page
#
#    The blocks of the layer are compared with their formula, those of the network with a
#    nudge of every single parameter in float64, and with what ``backward`` gives. Ten
#    times the step has to miss.

assert torch.equal(of_weight, torch.einsum("ik,l->ikl", torch.eye(2), x))
assert torch.equal(of_bias, torch.eye(2))
layer(x).backward(torch.tensor([0.0, 1.0]))
assert torch.equal(layer.weight.grad, of_weight[1])
assert torch.equal(layer.bias.grad, of_bias[1])
assert jacrev(net)(x).shape == (2, 3)  # for the stoves

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

net.zero_grad()
net(x).backward(torch.tensor([0.0, 1.0]))
for name, p in net.named_parameters():
    torch.testing.assert_close(p.grad, blocks[name][1])
    torch.testing.assert_close(each[name][0], blocks[name])
assert hidden.all()  # every hidden parameter moves both
torch.testing.assert_close(pushed, 2 * missing, atol=1e-3, rtol=0)
before, after = network(weights, x), network(corrected, x)
assert abs(after[0] - before[0]) < 0.01
assert abs(after[1] - 14) < 0.05 < 0.5 < 14 - before[1] < 0.75
assert not torch.allclose(network(corrected, X[1]), network(weights, X[1]))
summed = torch.autograd.grad(net(X)[:, 1].sum(), net[0].weight)[0]
torch.testing.assert_close(summed, each["0.weight"][:, 1].sum(0))
assert not off[:, :, 0].any()
assert off[:, :, 1:].any()
assert not any(block.any() for block in wrong.values())

far = {name: weights[name] + 10 * s for name, s in step.items()}
missed = network({**weights, **far}, x) - (before + 10 * missing)
assert missed.abs().max() > 0.5  # ten times the step is too long for the table

# %%
# **Next:** these tables were small. For a real layer they have billions of entries, and
# yet training runs. :ref:`never-built` looks at how ``backward`` does without them.
#
# .. asked: Jacobian with respect to weights; derivative of each output by the
#    parameters; functional_call and jacrev; Jacobian of a network by its parameters;
#    neural tangent kernel; how do weights change the outputs; how does each weight
#    change each output; sensitivity to the weights; derivative of predictions by
#    weights
