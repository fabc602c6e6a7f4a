r"""
.. _with-respect-to-parameters:

The Jacobian with respect to the parameters of a network
========================================================

A large language model has learned one fact wrong, and nobody wants to train it again. Can
one repair a single answer and leave the others alone? We try it on a small network, which
predicts heat and fuel of our house. Tonight the stoves will stand at 1, 2 and 3, and for
this setting it predicts 1.4 units of fuel too little, twice its average error. You want to
correct this one prediction, keep that of the heat, and do little harm at other settings.

We try four repairs. The last two ask, for each weight, how fast it moves each prediction.
These rates are the :term:`Jacobian` with respect to the parameters. It has a row for each
prediction, and so it can tell how to move one and keep others.
"""

# %%
# .. dropdown:: The network, and how it was trained
#
#    It has a hidden layer of three units, and two outputs, heat and fuel. Each unit
#    multiplies the settings by its weights, adds them up with a bias, and sends the sum
#    through SiLU, a smooth curve. We train it for a few seconds on a hundred settings of
#    the stoves and on what the house does at each. The seed is there so that you get the
#    same network.

import torch

torch.manual_seed(0)
settings = 3 * torch.rand(100, 3)
measured = torch.stack([settings.sum(1), (settings**2).sum(1)], dim=1)

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.SiLU(), torch.nn.Linear(3, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
for _ in range(600):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(settings), measured).backward()
    optimizer.step()

# %%
# The network has learned from a hundred settings. To try a repair, we want to run it with
# other weights and leave its own as they are. So we need a function that takes the weights
# as an argument. ``functional_call`` makes one from almost any module:

from torch.func import functional_call

weights = {name: p.detach() for name, p in net.named_parameters()}


def network(weights, x):
    return functional_call(net, weights, (x,))


x = torch.tensor([1.0, 2.0, 3.0])
print("predicted:", network(weights, x).round(decimals=2), " true: heat 6, fuel 14")

# %%
# .. dropdown:: ``report`` prints what a repair does
#
#    It has a line for each set of weights: first the two predictions for tonight, and then
#    how far off the predictions at the hundred settings are, on average.


def error(weights):
    return (network(weights, settings) - measured).abs().mean(0)


def report(**repaired):
    print("           tonight:      off elsewhere by:")
    print("            heat   fuel   heat   fuel")
    for name, weights in repaired.items():
        (heat, fuel), (of_heat, of_fuel) = network(weights, x), error(weights)
        print(f"{name:10} {heat:5.2f}  {fuel:5.2f}  {of_heat:.3f}  {of_fuel:.3f}")


# %%
# The quick repair
# ----------------
#
# The last layer adds a bias to the fuel. So we can raise this one number by what is
# missing. How much harm does that do? ``report`` prints the two predictions for tonight,
# and beside them how far off the predictions at the hundred settings are, on average.
#
# .. predict::
#    :expects: choice
#    :also: has doubled
#    :wrong: It gets smaller: At these settings the errors of the network have a mean of 0:
#          what it predicts too low in one place, it predicts too high in another. The bias
#          raises all of it.;
#       It stays about the same: The bias is not only for tonight. It raises the fuel at
#          every setting, by twice the average error.
#
#    The bias raises the fuel by 1.4. Before, the fuel was off by 0.7 on average. What
#    becomes of this average error?
#
#    - It gets smaller
#    - It stays about the same
#    - It becomes about twice as large

missing = torch.tensor([0.0, 14.0 - network(weights, x)[1]])
bias = {**weights, "2.bias": weights["2.bias"] + missing}
report(before=weights, bias=bias)

# %%
# The fuel is right, but the average error of the fuel has doubled. The bias raises the fuel
# by the same amount at all settings, whether more is needed there or not.
#
# What each weight moves
# ----------------------
#
# The units of the hidden layer react to some settings more than to others. So we leave the
# bias as it was, and change the nine weights of these units. How fast does each of them
# move each prediction? ``jacrev`` differentiates with respect to the first argument, here
# the dictionary of weights. It returns a dictionary, too, with a piece of the Jacobian,
# called a *block*, for each parameter. The hidden layer is at position 0 of the network,
# and so its weight is called ``"0.weight"``:

from torch.func import jacrev

blocks = jacrev(network)(weights, x)
blocks["0.weight"].shape

# %%
# The shape of a block is ``y.shape + parameter.shape``: first the prediction, heat or fuel,
# and then the place in the parameter, here the unit and the stove. A unit multiplies its
# first weight by 1, its second by 2 and its third by 3, the settings of the stoves. So its
# second weight moves heat and fuel at twice the rates of its first, and its third at three
# times these rates. It is enough to look at the first weight of each unit:

print("units:       0     1     2")
print("heat:", blocks["0.weight"][0, :, 0].round(decimals=2).numpy())
print("fuel:", blocks["0.weight"][1, :, 0].round(decimals=2).numpy())

# %%
# Every one of these weights moves both predictions, and unit 2 moves the heat most.
#
# Training a little longer
# ------------------------
#
# The second repair is to train these nine weights a little longer, on tonight's setting
# alone. The target for the fuel is 14, and that for the heat is 5.95, what the network says
# now. The loss is the error of the heat, squared, plus the error of the fuel, squared. At
# the start the heat is on its target, so the first step follows the rates of the fuel
# alone. It moves a weight up where its rate is positive, and down where it is negative.
#
# .. predict::
#    :expects: choice
#    :wrong: It stays where it is: The loss asks for that, but the first step follows the
#          fuel's rates alone. It moves the weights of unit 2 up, and these move the heat
#          most.;
#       It falls: In each unit the rates of the heat have the signs of those of the fuel. So
#          what raises the fuel raises the heat, too, with every unit.
#
#    Ten steps bring the fuel nearly to 14. Compare the rates of the heat and the fuel
#    above. What becomes of the heat?
#
#    - It stays where it is
#    - It rises
#    - It falls


from torch.func import grad


def changed_by(step):  # the weights after a step of the nine
    return {**weights, "0.weight": weights["0.weight"] + step}


wanted = network(weights, x) + missing


def trained(steps, rate):  # the weights after so many steps against the gradient
    loss = lambda step: ((network(changed_by(step), x) - wanted) ** 2).sum()
    step = torch.zeros(3, 3)
    for _ in range(steps):
        step = step - rate * grad(loss)(step)
    return changed_by(step)


ten = trained(10, rate=0.003)  # chosen so that ten steps nearly arrive
report(before=weights, training=ten)

# %%
# The heat has risen by 0.16, and its error at the other settings is four times what it was.
# The gradient is *one* row, because the loss is one number. The Jacobian has a row for each
# prediction. So we can ask for two things at once: raise the fuel by what is missing, and
# the heat by 0.
#
# The shortest step that corrects the fuel alone
# ----------------------------------------------
#
# Many steps of the nine weights do both. We first take the shortest. We flatten the block
# into a table with two rows, for heat and fuel, and with nine columns for the weights. As
# in :ref:`hitting-targets`, ``pinv`` finds the shortest step that hits both targets, as far
# as the table knows.
#
# .. predict::
#    :expects: signs
#    :label: step of the first weights
#    :for: the signs for units 0, 1 and 2
#    :wrong: fuel's rates: These are the signs of the rates of the fuel. Along them the fuel
#          rises, but so does the heat, and most with unit 2.;
#       every unit up: Unit 1 has negative rates: when its weights go up, the fuel falls.;
#       against the fuel: Along these signs the fuel falls.
#
#    The fuel should rise and the heat should stay. Look at the rates of each unit above. In
#    which units do the three weights go up, and in which do they go down?

table = blocks["0.weight"].flatten(1)
step = (torch.linalg.pinv(table) @ missing).reshape(3, 3)
print("missing:", missing.round(decimals=2))
print("step of the first weights:", step[:, 0].round(decimals=3))
report(before=weights, training=ten, step=changed_by(step))

# %%
# Only the weights of unit 0 go up:
#
# * *Unit 0* raises the fuel, with little heat.
# * *Unit 1* has negative rates. So its weights go *down*, and raise the fuel and a little
#   heat.
# * *Unit 2* moves the heat most. Its weights go down a little, and take away the heat that
#   the others have brought.
#
# The picture takes the step apart. Its table has a column for each unit, which says what
# the unit's part of the step does to heat and fuel. With three ones in ``u`` all units take
# their part, and together they bring the fuel that is missing, and no heat, up to rounding.
# Now set the last 1 to 0, so that unit 2 stays as it is. What was unit 2 needed for?

import pullback


def moved(shares):
    return network(changed_by(shares[:, None] * step), x)  # a row of step times its share


names = {"rows": ["heat", "fuel"], "columns": ["unit 0", "unit 1", "unit 2"]}
pullback.live(moved, torch.zeros(3), u=torch.ones(3), **names)

# %%
# .. dropdown:: Answer
#
#    For the heat. Without unit 2 it rises by 0.03, which the other two units bring along.
#    Unit 2 takes this away. It takes away a little fuel as well, and so the other two have
#    to bring more than is missing.
#
# Was training too short?
# -----------------------
#
# The step corrects the fuel, up to 0.03, and the *heat* is spared, tonight and elsewhere.
# But as soon as the heat is wrong, it counts in the loss. So perhaps training has only been
# too short?
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: The heat stays too high: It counts in the loss, and small steps make that
#          smaller until both predictions are right.;
#       Both are right, with quite different weights: Each small step adds some of the
#          heat's row and some of the fuel's row, and nothing else. Only one sum of these
#          rows hits both targets, as far as the table holds, and it is our step.
#
#    We train a thousand steps in place of ten. Where does that end?
#
#    - The heat stays too high
#    - Both are right, with quite different weights
#    - Both are right, with nearly the weights of our step

longer = trained(1000, rate=0.003)
apart = longer["0.weight"] - changed_by(step)["0.weight"]
print("predicted:", network(longer, x).round(decimals=2))
print(f"apart by {apart.norm() / step.norm():.1%} of the step")

# %%
# It ends at nearly the same weights as our step, which took one table of rates. As long as
# the table holds, each step of this plain gradient descent adds some of the heat's row and
# some of the fuel's row, and nothing else. So it ends at a sum of the two rows that hits
# both targets, and this is the shortest step. Training feels its way there, and the table
# says it at once.
#
# Less harm elsewhere
# -------------------
#
# One thing is not yet good. The error of the fuel at the other settings has grown by 0.3,
# with our step as with training: neither knew anything about these settings. What a step
# does to them is in their tables, and we get all hundred in one call
# (:ref:`one-jacobian-per-sample`). ``in_dims`` says that all samples share the weights
# (``None``), and that ``settings`` has a sample in each row (``0``). From these tables we
# make one, ``others``, with a row for each of the 200 predictions that should stay.
#
# Two targets do not determine nine weights. So there are *idle* movements, which change
# neither of tonight's predictions, as far as the table knows (:ref:`hitting-targets`).
# But they change the predictions elsewhere. So we add some of them to our step, as much
# as undoes the harm best. By the table, the new step still hits both targets:

from torch.func import vmap

tables = vmap(jacrev(network), in_dims=(None, 0))(weights, settings)["0.weight"]
others = tables.reshape(200, 9)
spoiled = others @ step.flatten()  # what the shortest step does to them
idle = torch.eye(9) - torch.linalg.pinv(table) @ table  # a column for each movement
amounts = torch.linalg.pinv(others @ idle) @ -spoiled
least = step + (idle @ amounts).reshape(3, 3)

repairs = {"bias": bias, "step": changed_by(step), "least": changed_by(least)}
report(before=weights, **repairs)
for name, repaired in repairs.items():
    print(f"{name} adds {(error(repaired) - error(weights))[1]:.2f} to that of the fuel")
print(f"length {least.norm():.2f}, of the shortest {step.norm():.2f}")

# %%
# The heat stays nearly as right as before. The average error of the fuel grows by 0.12,
# where the shortest step adds 0.31 and the bias 0.77. So the other answers do not quite
# stay as they were: nine weights cannot keep 200 predictions. And there is a price. The
# step is nearly three times as long as the shortest. So far away the table holds less well,
# and tonight's fuel ends at 14.14.
#
# .. dropdown:: How the two lines with ``idle`` and ``amounts`` work
#
#    Here is how to make an idle movement from any weight:
#
#    1. Turn the weight up by 1. Heat and fuel change.
#    2. Bring heat and fuel back to where they were, with the shortest step that does so.
#       ``pinv`` finds it.
#
#    Heat and fuel are as before, and yet the weights have moved. ``idle`` has nine columns,
#    with such a movement for each weight. Below you see that none of them changes our
#    targets, up to rounding.
#
#    How much of each do we add? The shortest step has changed the 200 other predictions by
#    ``spoiled``. We want the idle movements to change them by ``-spoiled``. These are 200
#    targets, and nine amounts cannot hit them all. In such a case ``pinv`` comes as near as
#    it can: it finds the amounts for which the squares of what is missed have the smallest
#    sum.
#
#    For a single linear layer, `Meng and others <https://arxiv.org/abs/2202.05262>`_
#    correct facts in language models with such a step.

print(f"an idle movement changes our targets by {(table @ idle).abs().max():.4f} at most")

# %%
# .. admonition:: Remember
#
#    - ``functional_call(module, params, (x,))`` makes the parameters an argument, for
#      ``jacrev`` and ``vmap``. Each gets a block of shape ``y.shape + parameter.shape``.
#    - A step along the gradient of a loss takes other outputs with it, if they use the same
#      weights. The Jacobian has a row for each output. So for our network ``pinv`` can move
#      one and keep the other (for other networks, see *Where this ends*).
#    - The shortest step need not do the least harm to other samples. What it does to them
#      is in their tables, ``vmap(jacrev(network), in_dims=(None, 0))(weights, X)``.
#
# .. predict:: Try it
#    :expects: signs
#    :label: step of the first weights
#    :for: the signs for units 0, 1 and 2
#    :wrong: heat's rates: These are the signs of the rates of the heat. Along them the heat
#          rises, but so does the fuel, with every unit.;
#       every unit up: Units 0 and 2 both raise the fuel, and together by more than unit 1
#          takes away.;
#       as before: This is the step that raises the fuel and keeps the heat.;
#       strongest alone: It raises the heat most. But it raises the fuel, too, and only the
#          other units can take that away.
#
#    The heat was predicted a little too low, 5.95 in the place of 6. Now it should rise by
#    0.05 and the fuel should stay. In which units do the weights go up, and in which do
#    they go down?
#
# .. dropdown:: Answer
#
#    Unit 2 moves the heat most, and its weights go up. But they bring fuel along, and the
#    other two units take it away, since they move the heat very little. So unit 0, which
#    raises the fuel, goes *down*. Unit 1, which lowers the fuel, goes *up*, although it
#    lowers the heat a little as well. If you go by the rates of the heat alone, you turn
#    both of them the wrong way.

for_heat = torch.tensor([0.05, 0.0])
warmer = (torch.linalg.pinv(table) @ for_heat).reshape(3, 3)
print("step of the first weights:", warmer[:, 0].round(decimals=4))
report(before=weights, step=changed_by(warmer))

# %%
# .. dropdown:: If the whole Jacobian is zero
#
#    Somebody finds ``functional_call`` too long and writes ``net(x)`` in its place, as
#    below. The predictions are the same, since ``net`` and ``weights`` hold the same
#    numbers. But ``net(x)`` uses the tensors inside the module and not the argument. So
#    each block is zero, and no error is raised. If a single block is zero, look for a
#    misspelled name, such as ``"2.bais"``, which ``functional_call`` ignores unless you
#    pass ``strict=True``.

print(torch.equal(net(x), network(weights, x)))
short = jacrev(lambda weights: net(x))(weights)
print("block of the bias:", short["2.bias"].tolist())

# %%
# .. dropdown:: The block of a single layer, with a pencil
#
#    A linear layer with two outputs computes ``weight @ x``, if we leave out the bias. With
#    :math:`W_{10}` for ``weight[1, 0]``, and so on, its second output is
#
#    .. math::
#
#       y_1=W_{10}\cdot1+W_{11}\cdot2+W_{12}\cdot3.
#
#    How fast does it react to each weight? :math:`W_{10}` is multiplied by the setting of
#    the first stove, so its rate is 1. The other two weights of this row have the rates 2
#    and 3. The first row of the weight does not occur, and its rates are 0.
#
#    If the first stove is off, :math:`W_{00}` and :math:`W_{10}`, the first *column* of the
#    weight, are multiplied by 0. As long as it stays off, they have no influence on any
#    output. The second block below is that of the first output, with the first stove off.


def one_layer(weight):
    return weight @ x


of_weight = jacrev(one_layer)(torch.ones(2, 3))
print(of_weight[1])

first_off = torch.tensor([0.0, 2.0, 3.0])
off = jacrev(lambda weight: weight @ first_off)(torch.ones(2, 3))
print(off[0])

# %%
# .. dropdown:: Where this ends
#
#    * *Several parameters.* We changed one. To change several at once, flatten each of
#      their blocks and put them side by side. With ``y`` for the prediction, whatever its
#      shape, this is
#      ``torch.cat([block.reshape(y.numel(), -1) for block in blocks.values()], dim=1)``.
#      Then go on as above, and split the step into the parameters again.
#    * *Far from these weights.* A table holds near the weights at which it was taken.
#      Suppose that ten times as much fuel had been missing, and that we take ten times the
#      step. As you see below, the fuel ends far from its target. Then go part of the way,
#      compute the table again, and go on, as in Newton's method. :ref:`gauss-newton`
#      corrects many predictions at once in this way.
#    * *Rows that are nearly parallel.* Then a step that moves one prediction and keeps the
#      other is very long, or ``pinv`` cannot find it (:ref:`hitting-targets`). Other
#      weights may help: the biases of the last layer have the rows ``[1, 0]`` and
#      ``[0, 1]``.
#    * *Training with Adam.* Adam scales each weight's part of a step by itself, and ends at
#      other weights than our step, with the same two predictions.

print("table says:", (network(weights, x) + 10 * missing).round(decimals=2))
print("network:   ", network(changed_by(10 * step), x).round(decimals=2))

# %%
# .. dropdown:: How we checked this page
#
#    The blocks of the layer are compared with their formula, those of the network with a
#    nudge of every single parameter in float64, and with what ``backward`` gives. A push
#    along the step has to give what was missing. Ten times the step has to miss. No other
#    step that hits both targets may change the other predictions less than the last one, by
#    their tables.

assert torch.equal(of_weight, torch.einsum("ik,l->ikl", torch.eye(2), x))
layer = torch.nn.Linear(3, 2)
parameters = [layer.weight, layer.bias]
with_bias = torch.autograd.grad(layer(x), parameters, torch.eye(2), is_grads_batched=True)
assert torch.equal(with_bias[0], of_weight)
assert torch.equal(with_bias[1], torch.eye(2))
layer(x).backward(torch.tensor([0.0, 1.0]))
assert torch.equal(layer.weight.grad, of_weight[1])
assert torch.equal(layer.bias.grad, torch.tensor([0.0, 1.0]))
assert jacrev(net)(x).shape == (2, 3)  # for the stoves

from copy import deepcopy

from torch.func import jvp

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
torch.testing.assert_close(blocks["2.bias"], torch.eye(2))
of_ours = vmap(jacrev(network), in_dims=(None, 0))(weights, torch.stack([x, settings[0]]))
for name, block in of_ours.items():
    torch.testing.assert_close(block[0], blocks[name])
torch.testing.assert_close(of_ours["0.weight"][1], tables[0])
assert table.all()  # every hidden weight moves both
plan = {name: torch.zeros_like(w) for name, w in weights.items()}
_, pushed = jvp(lambda w: network(w, x), (weights,), ({**plan, "0.weight": step},))
torch.testing.assert_close(pushed, missing, atol=1e-3, rtol=0)
amounts = torch.linalg.solve(table @ table.T, missing)
torch.testing.assert_close(amounts @ table, step.flatten(), atol=1e-5, rtol=1e-4)

y = network(weights, x)
whole = torch.cat([block.reshape(y.numel(), -1) for block in blocks.values()], dim=1)
assert torch.equal(whole, torch.cat([block.flatten(1) for block in blocks.values()], dim=1))
leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
of_batch, of_heat = lambda w: network(w, settings[:4]), lambda w: network(w, x)[0]
for f, shape in ((of_batch, (4, 2)), (of_heat, ())):
    y, pieces = f(weights), jacrev(f)(weights).values()
    joined = torch.cat([block.reshape(y.numel(), -1) for block in pieces], dim=1)
    for line, number in zip(joined, f(leaves).flatten(), strict=True):
        number.backward(retain_graph=True)
        slopes = torch.cat([leaf.grad.flatten() for leaf in leaves.values()])
        torch.testing.assert_close(line, slopes)
        for leaf in leaves.values():
            leaf.grad.zero_()
    assert y.shape == shape
parts = (torch.linalg.pinv(whole) @ missing).split([w.numel() for w in weights.values()])
of_all = {n: part.view_as(w) for (n, w), part in zip(weights.items(), parts, strict=True)}
_, pushed = jvp(lambda w: network(w, x), (weights,), (of_all,))
torch.testing.assert_close(pushed, missing, atol=1e-3, rtol=0)
every = {name: w + of_all[name] for name, w in weights.items()}
torch.testing.assert_close(network(every, x)[1], torch.tensor(14.0), atol=0.02, rtol=0)

misspelled = {**weights, "2.bais": weights["2.bias"]}
ignored = lambda w: functional_call(net, {**misspelled, "2.bais": w}, (x,))
assert not jacrev(ignored)(weights["2.bias"]).any()
left_out = {name: w for name, w in weights.items() if name != "2.bias"}
strictly = lambda w: functional_call(net, w, (x,), strict=True)
assert torch.equal(strictly(weights), network(weights, x))
refused = 0
for wrong in (misspelled, left_out):
    try:
        strictly(wrong)
    except RuntimeError:
        refused += 1
assert refused == 2

heat, fuel = blocks["0.weight"]
assert (step[0] > 0).all()
assert (fuel[0] > 20 * heat[0]).all()  # moves the fuel, and hardly the heat
assert (step[1] < 0).all()
assert (blocks["0.weight"][:, 1] < 0).all()
assert step[1] @ fuel[1] > step[1] @ heat[1] > 0
assert step[0] @ heat[0] > 0 > step[2] @ heat[2]  # which takes away what they bring
assert torch.equal(heat.sign(), fuel.sign())
assert (step[2] < 0).all()
assert (heat[2] > heat[:2].abs()).all()
assert missing[1] < (step[:2] * fuel[:2]).sum()  # unit 2 takes away a little fuel
torch.testing.assert_close(table @ warmer.flatten(), for_heat, atol=1e-4, rtol=0)
by_heat, by_fuel = (warmer * heat).sum(1), (warmer * fuel).sum(1)
assert by_heat[2] > 0 > by_heat[:2].max()  # unit 2 brings the heat
assert by_fuel[2] > 0 > by_fuel[:2].max()  # and fuel, which the others take away
assert by_heat[:2].abs().max() < 0.1 * by_heat[2]
assert (torch.stack([heat[0] - heat[1], fuel[0] - fuel[1]]) > 0).all()  # along heat's signs
assert fuel.sum() > 0  # with every unit up
risen = network(changed_by(warmer), x) - network(weights, x)
torch.testing.assert_close(risen, for_heat, atol=0.001, rtol=0)

before, after = network(weights, x), network(changed_by(step), x)
assert abs(after[0] - before[0]) < 0.005
assert 0.03 < after[1] - 14 < 0.035 < 1.4 < 14 - before[1] < 1.45
really = (network(changed_by(step), settings) - network(weights, settings)).flatten()
torch.testing.assert_close(spoiled, really, atol=0.05, rtol=0)
assert spoiled[1::2].max() == spoiled.abs().max()
larger = trained(10, rate=0.03)
first = blocks["0.weight"][:, :, 0]  # the rates of the first weight of each unit
share = (step[:, 0] * 14 * first).detach()  # 14 = 1·1 + 2·2 + 3·3, over a unit's weights
torch.testing.assert_close(jacrev(moved)(torch.zeros(3)), share, atol=1e-4, rtol=1e-4)
ways = {"bias": bias, "step": changed_by(step), "least": changed_by(least)}
ways |= {"training": ten, "longer": longer, "larger": larger}
harm = {name: error(w) - error(weights) for name, w in ways.items()}
assert 2 < (14 - before[1]) / error(weights)[1] < 2.1
assert abs(harm["least"][1] - 0.12) < 0.005
assert abs(harm["least"][0]) < 0.0015
assert 14.13 < network(changed_by(least), x)[1] < 14.15
torch.testing.assert_close(table @ least.flatten(), missing, atol=1e-4, rtol=0)
assert 0.05 < harm["least"][1] < harm["step"][1] / 2  # less than half, but not gone
assert 2.7 < least.norm() / step.norm() < 3
shared = torch.linalg.solve(others.T @ others, table.T)  # the step by a formula
formula = shared @ torch.linalg.solve(table @ shared, missing)
torch.testing.assert_close(least.flatten(), formula, atol=1e-3, rtol=0)
change, null = others @ least.flatten(), torch.eye(9) - torch.linalg.pinv(table) @ table
assert (change @ others @ null).abs().max() < 0.1 < 10 * change.norm()  # no step does less
for _ in range(20):
    another = least.flatten() + 0.1 * null @ torch.randn(9)
    assert (others @ another).norm() > change.norm()
assert 0.39 < harm["step"][1] / harm["bias"][1] < 0.41
assert abs(harm["bias"][1] - 0.77) < 0.005
assert abs(harm["step"][1] - 0.31) < 0.005
assert 2.05 < error(bias)[1] / error(weights)[1] < 2.15  # doubled
assert abs(harm["step"][0]) < 1e-3
assert abs(harm["bias"][0]) < 1e-6
thousand = ways["longer"]
assert abs(harm["training"][1] - harm["step"][1]) < 0.01
assert 3.9 < error(ten)[0] / error(weights)[0] < 4.2
assert 0.155 < network(ten, x)[0] - before[0] < 0.16
first = trained(1, 0.003)["0.weight"] - weights["0.weight"]
torch.testing.assert_close(first, 0.006 * missing[1] * fuel)  # along the fuel's rates
assert abs(network(ten, x)[1] - 14) < 0.05
assert (network(ways["larger"], x) - wanted).abs().max() > 5  # goes wrong
torch.testing.assert_close(network(thousand, x), wanted, atol=0.005, rtol=0)
assert (error(thousand) - error(ways["step"])).abs().max() < 0.02
by_adam = torch.zeros(3, 3, requires_grad=True)
adam = torch.optim.Adam([by_adam], lr=0.01)
for _ in range(1000):
    adam.zero_grad()
    ((network(changed_by(by_adam), x) - wanted) ** 2).sum().backward()
    adam.step()
arrived = network(changed_by(by_adam.detach()), x)
torch.testing.assert_close(arrived, wanted, atol=0.005, rtol=0)
assert (by_adam - step).norm() > 0.2 * step.norm()  # elsewhere
walked = thousand["0.weight"] - weights["0.weight"]
assert (walked - step).norm() < 0.1 * step.norm()  # nearly the same weights
beside = walked.flatten() - torch.linalg.pinv(table) @ (table @ walked.flatten())
assert beside.norm() < 0.05 * walked.norm()  # nearly a sum of the two rows
alike = torch.stack([table[1] + 1e-3 * table[0], table[1]])  # two rows, nearly parallel
assert (torch.linalg.pinv(alike) @ missing).norm() > 100 * step.norm()
alike = torch.stack([table[1] + 1e-7 * table[0], table[1]])
assert (alike @ (torch.linalg.pinv(alike) @ missing) - missing).abs().max() > 0.5
missed = network(changed_by(10 * step), x) - (before + 10 * missing)
assert -0.05 < missed[0] < -0.03
assert missed[1] < -2  # ten times the step is too long for the table
near = changed_by(step)
for _ in range(2):
    again = jacrev(network)(near, x)["0.weight"].flatten(1)
    target = torch.stack([before[0], torch.tensor(14.0)])
    more = torch.linalg.pinv(again) @ (target - network(near, x))
    near = {**near, "0.weight": near["0.weight"] + more.reshape(3, 3)}
torch.testing.assert_close(network(near, x), target, atol=1e-4, rtol=0)

summed = torch.autograd.grad(net(settings)[:, 1].sum(), net[0].weight)[0]
torch.testing.assert_close(summed, tables[:, 1].sum(0), rtol=1e-4, atol=1e-3)
assert not off[:, :, 0].any()
assert off[1, 1, 1:].all()
of_ones = jacrev(lambda weight: weight @ x)(torch.ones(2, 3))
assert torch.equal(of_ones, of_weight)  # the same at any weights
changed = jacrev(network)(changed_by(10 * step), x)
assert not torch.allclose(changed["0.weight"], blocks["0.weight"], rtol=0.1)
assert not any(block.any() for block in short.values())
last = blocks["2.weight"]  # heat uses its first row only, and fuel its second
assert not last[0, 1].any()
assert not last[1, 0].any()
assert last.count_nonzero() == 6
torch.testing.assert_close(step, torch.outer(step[:, 0], x), atol=1e-4, rtol=0)
assert torch.equal(moved(torch.zeros(3)), network(weights, x))
by_unit = jacrev(moved)(torch.zeros(3))
torch.testing.assert_close(by_unit.sum(1), missing, atol=1e-3, rtol=0)
alone = by_unit @ torch.tensor([1.0, 1.0, 0.0])
assert 0.03 < alone[0] < 0.035  # without unit 2 the heat rises
assert (by_unit[0, :2] > 0.4 * alone[0]).all()
assert missing[1] < alone[1] < missing[1] + 0.15
quickly = (network(bias, settings) - network(weights, settings))[:, 1]
torch.testing.assert_close(quickly, missing[1].expand(100))  # the same everywhere
assert blocks["0.weight"].shape == (2, 3, 3)
ratio = blocks["0.weight"] / x
torch.testing.assert_close(ratio, ratio[..., :1].expand(2, 3, 3))  # as 1, 2 and 3
assert ((network(weights, settings) - measured).mean(0).abs() < 0.01).all()

settled = bool(abs(network(longer, x) - wanted).max() < 0.005)
near = bool(apart.norm() < 0.1 * step.norm())
guesses = {  # wrong ones, of which the boxes above say what they are
    "fuel's rates": table[1].reshape(3, 3)[:, 0],
    "every unit up": torch.ones(3),
    "It gets smaller": bool(error(bias)[1] < 0.9 * error(weights)[1]),
    "It stays about the same": bool(abs(error(bias)[1] / error(weights)[1] - 1) <= 0.1),
    "It becomes about twice as large": bool(1.8 < error(bias)[1] / error(weights)[1] < 2.2),
    "It stays where it is": bool(abs(network(ten, x)[0] - before[0]) < 0.1),
    "It rises": bool(network(ten, x)[0] > before[0] + 0.1),
    "It falls": bool(network(ten, x)[0] < before[0] - 0.1),
    "The heat stays too high": bool(network(longer, x)[0] > wanted[0] + 0.005),
    "Both are right, with quite different weights": settled and not near,
    "Both are right, with nearly the weights of our step": settled and near,
    "against the fuel": -table[1].reshape(3, 3)[:, 0],
    "heat's rates": table[0].reshape(3, 3)[:, 0],
    "as before": step[:, 0],
    "strongest alone": torch.tensor([0.0, 0.0, 1.0]),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** these tables were small. For a real layer they have billions of entries, and
# yet training runs. :ref:`never-built` looks at how ``backward`` does without them. If you
# have computed ``y`` already, or if ``functional_call`` refuses your module, see
# :ref:`jacobian-of-parameters`.
#
# .. asked: Jacobian with respect to weights; derivative of each output by the
#    parameters; functional_call and jacrev; Jacobian of a network by its parameters;
#    neural tangent kernel; how do weights change the outputs; how does each weight
#    change each output; sensitivity to the weights; derivative of predictions by
#    weights
# .. words: ntk, state_dict, named_parameters, weights and biases, linearised network,
#    Laplace, uncertainty, influence on predictions, functional model, stateless
