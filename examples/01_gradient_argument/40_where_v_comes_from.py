r"""
.. _where-v-comes-from:

v is the gradient of what comes next
====================================

``y.backward(v)`` computes the :term:`vector-Jacobian product` ``v @ J``. ``J`` is the
:term:`Jacobian`, a table of rates with a row for each entry of ``y``, and ``v`` holds a
price for each. In a training loop nobody sets any prices, and yet some ``v`` arrives at
the network in every step. Where does it come from? It is the gradient of the loss with
respect to the predictions. Once you have seen this, you can do something that looks
impossible: train through a program that draws pictures, a simulation or another person's
computer, into which PyTorch cannot look at all.
"""

# %%
# A price that moves
# ------------------
#
# We begin with a house, whose two outputs are heat and fuel. A contract says what they are
# worth. For each unit of heat we get 10. The price of fuel grows with the amount that we
# burn: each unit costs :math:`\text{fuel}/7`, so that the bill is :math:`\text{fuel}^2/7`.
# We write the contract down as ``worth(y)``, and call ``backward`` on the worth. On the way
# back to ``x`` the walk comes through ``y``, and a pair of prices arrives there. On the
# first page, where the worth was ``10 * heat - fuel``, you could read both prices off the
# formula. Now you can read off only one of them.
#
# .. predict::
#    :value: 1
#    :item: 1
#    :for: the price of fuel
#    :wrong: average price: This is what a unit costs on average. With one more unit, all
#          the units before it get more expensive as well.;
#       bill: This is the whole bill, with a minus. The price is the rate at which it
#          rises.;
#       without the minus: The bill is a cost. When fuel rises, what we earn falls, so the
#          price has a minus.;
#       fuel: This is the amount of fuel, with a minus. The bill is its square, divided by
#          7.;
#       one seventh: This would be the price if the bill were fuel / 7. The fuel is
#          squared.;
#       heat's price: This is the price of heat.
#
#    At the settings 1, 2 and 3 we burn 14 units of fuel. Each of them costs 2, and the bill
#    is 28. The price of heat at ``y`` is 10. What is the price of fuel?

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


def worth(y):
    heat, fuel = y
    return 10 * heat - fuel**2 / 7


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = house(x)
y.retain_grad()
worth(y).backward()
print(y.grad)
in_one_piece = x.grad
in_one_piece

# %%
# Each unit costs us 2. Why is the price −4, then, and not −2? To decide which way to turn a
# stove, we have to know how fast the bill rises *from here on*. When we burn more, the next
# unit has to be paid, and all the units before it get more expensive as well. Two is what
# a unit costs on average, and four is the rate at which the bill rises.
#
# .. predict::
#    :for: the two prices
#    :wrong: at the old place: These are the prices from before. The bill rises faster at 29
#          units than at 14.;
#       average now: The second is what a unit costs on average now. The bill rises twice as
#          fast.;
#       bill now: The second is the whole bill, with a minus. The price is the rate at which
#          it rises.;
#       no minus now: The second has to be negative, because the bill is a cost.;
#       undivided: Here the bill is not divided by 7.;
#       fuel now: The second is the fuel, with a minus. The bill is its square, divided by
#          7.
#
#    We turn up every stove by one, so that ``x`` is ``[2, 3, 4]`` and fuel is
#    :math:`4+9+16=29`. Which two numbers arrive at ``y`` now?

more = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
y_more = house(more)
y_more.retain_grad()
worth(y_more).backward()
y_more.grad

# %%
# Heat has kept its price. The rate at which the bill rises is its derivative,
# :math:`2\cdot\text{fuel}/7`. At 14 units this was 4, and at 29 it is
# :math:`2\cdot29/7\approx8.29`. So a price may depend on where you stand, and it becomes
# stale when you move. This is what ``v`` is in general: **the rates at which the
# number that you care about changes, one rate for each entry of y, at the values that y has
# now.** In other words, it is the gradient of everything that comes after ``y``.
#
# The picture shows the contract alone, without the house. Heat and fuel go in, and the
# worth comes out. The two numbers at the bottom are the prices that the house receives as
# its ``v``. Heat earns 10, whatever you do. Can you move the fuel so that one more unit of
# it costs exactly what one more unit of heat brings?

import pullback

pullback.live(
    lambda results: worth(results), y.detach(), rows=["worth"], columns=["heat", "fuel"]
)

# %%
# .. dropdown:: Where the prices balance
#
#    At 35 units of fuel. The price of fuel is :math:`-2\cdot\text{fuel}/7`, however much
#    heat there is, and :math:`2\cdot35/7=10`.
#
# What a loss sends back
# ----------------------
#
# Training is the same situation. The network computes predictions, as our house computes
# heat and fuel. Then the loss makes a single number of them, as the contract does. What
# the network receives as ``v`` is the gradient of the loss with respect to the
# predictions.
#
# Each entry of ``v`` is the rate at which the loss *rises* when one prediction rises and
# the others stay. So positive is bad news, as in the small network of
# :ref:`every-number-by-hand`. Our loss is the mean squared error over four samples:
#
# .. predict::
#    :expects: signs
#    :for: four signs, each +, - or 0
#    :wrong: where to go: These say which way each prediction should move. v says how the
#          loss changes when a prediction rises, and that is the other way round.;
#       sizes: These are the sizes of the errors. v is negative where a prediction is too
#          low: there the loss falls when it rises.;
#       every one: The second prediction is right, so a small change of it changes nothing
#          in its square.
#
#    The first prediction is too low, the second is right, and the third and the fourth
#    are too high. Which signs does ``v`` have?

prediction = torch.tensor([1.0, 2.0, 4.0, 8.0], requires_grad=True)
target = torch.tensor([3.0, 2.0, 2.0, 2.0])
torch.nn.functional.mse_loss(prediction, target).backward()
prediction.grad

# %%
# The last prediction is 6 too high, and its entry is :math:`2\cdot6/4=3`. In general an
# entry is :math:`2\,(\text{prediction}-\text{target})/4`, where the 4 is the number of
# entries. The first entry is −1: the loss falls when this prediction goes up. The second is
# 0, because that prediction is right. The optimizer wants the loss to fall. So it tries to
# move each prediction *against* its sign, the first one up and the last two down.
#
# So ``v`` is how the loss speaks to the network. For every output it says in which
# direction the output is wrong, and how much this matters.
#
# From layer to layer
# -------------------
#
# The last layer receives this ``v``. It turns it into gradients for its own weights and a
# ``v`` for the layer before it, and so it goes on, in the walk of
# :ref:`every-number-by-hand`, as far back as there are weights to train. Here is a layer
# with three inputs and two outputs. Each output multiplies the inputs by one row of ``W``,
# and adds the products up:

W = torch.tensor([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]], requires_grad=True)
sample = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
W @ sample

# %%
# .. predict::
#    :value: 1
#    :for: three numbers
#    :wrong: first output: This is what the first output sends back. The second one uses the
#          inputs as well, and what it sends is added.;
#       second output: This is what the second output sends back. The first one uses the
#          inputs as well, and what it sends is added.;
#       with ones: Here each row counts once. The second output has received −2.;
#       times the inputs: This is what arrives at the second output, times each input. Its
#          weights get that. The inputs get it times the weights.;
#       subtracted: Here the second row counts −1. It counts −2, as the second output has
#          received.
#
#    The numbers 1 and −2 arrive at the two outputs, as the ``v`` of this layer. Which
#    ``v`` does it send to the layer before, one number for each input?

arrives = torch.tensor([1.0, -2.0])
(W @ sample).backward(arrives)
print("for the layer before:", sample.grad)
print("for its own weights:", W.grad)

# %%
# Take the first input. The first output multiplies it by 1, and so it sends
# :math:`1\cdot1` back. The second output multiplies it by 3, and sends :math:`-2\cdot3`.
# The two are added up, which makes −5. So each row of ``W`` is multiplied by what arrives
# at its output, and the rows are added. You know this: it is ``v @ J``, because the table
# of this layer is ``W`` itself. Its rows are the outputs, its columns the inputs, and each
# weight is a rate.
#
# And the weights? Each weight is multiplied by one input, in one output. So it gets what
# arrives at this output, times this input. The last weight of the second row, for example,
# gets :math:`-2\cdot3=-6`.
#
# Cutting the program in two
# --------------------------
#
# Now suppose that the contract is not in our program. A consultant keeps it, and PyTorch
# cannot look inside. In other programs the part that PyTorch cannot see is a renderer,
# which draws pictures of 3D objects, or a simulation of the air that flows around a wing.
# All that we can do is hand over the heat and the fuel, and the consultant answers with
# numbers.
#
# .. predict::
#    :label: numbers asked for
#    :for: how many numbers
#    :code:
#    :wrong: one for each stove: The consultant does not know our stoves, only the heat and
#          the fuel. How these depend on the stoves is in our own program.;
#       the whole table: These are the rates of our own house, which PyTorch computes.;
#       the worth itself: We know what heat and fuel are worth now. The question is what
#          would make it grow.
#
#    What heat and fuel are worth together is one of the consultant's numbers. For
#    ``backward`` to go on to the stoves, we have to ask for more numbers. How many, and
#    which?

import numpy as np


def consultant(y):
    heat, fuel = y
    value = 10 * heat - fuel**2 / 7
    prices = np.array([10.0, -2 * fuel / 7])
    return value, prices


x.grad = None
y = house(x)
numbers = y.detach().numpy().copy()  # heat and fuel as numbers, without the graph
value, prices = consultant(numbers)
print("numbers asked for:", len(prices))
v = torch.from_numpy(prices).to(y)  # a tensor again; to(y) gives it the dtype of y
y.backward(v)
x.grad

# %%
# Two numbers are enough, however many stoves there are: the rates at which the worth
# changes with heat and with fuel. The result is the same as in one piece, and this is what
# the ``gradient`` argument is made for. Whoever keeps the hidden part tells us the gradient
# of their number with respect to ``y``, from a formula, as here, or from another program.
# We pass it as ``v``, and ``backward`` carries it on to ``x``:

edges = [("x", "y", x.grad), ("y", "worth", v)]  # from, to, and what comes back
values = {"x": x, "y": y, "worth": torch.tensor(value)}
pullback.draw.graph(edges, values, v=1, cut=[("y", "worth")])  # it starts with a 1

# %%
# Nothing is lost at the cut. With the first stove heat rises at a rate of 1 and fuel at a
# rate of 2, so the worth changes at a rate of :math:`10\cdot1-4\cdot2=2`. From the
# contract you need only the 10 and the −4 for this, and both of them are in ``v``.
#
# What v does not know
# --------------------
#
# ``v`` only covers what happens *through* ``y``. Suppose that the first stove wears out,
# which costs us 2 times its setting. The consultant's prices do not contain this cost,
# because it depends on ``x`` directly. So we call ``backward`` a second time, on the wear,
# with a minus because it is a cost. ``backward`` adds the result to what is in ``x.grad``:

x.grad = None
y = house(x)
y.backward(v)
through_y = x.grad.clone()  # a copy, because x.grad is about to change
wear = 2 * x[0]
(-wear).backward()
print(through_y)
with_the_wear = x.grad
with_the_wear

# %%
# With the wear the first stove earns nothing; without the second call it would seem to earn
# 2. A penalty on the weights, which is part of many losses, is like the wear: it depends on
# the weights without passing through the predictions, and has to be added.
#
# .. admonition:: Remember
#
#    - ``v`` is the gradient of what comes after ``y``, with respect to ``y``, at the
#      present values.
#    - In a training loop the loss sends this ``v`` to the predictions, and each layer
#      sends one to the layer before it.
#    - If the rest is computed elsewhere, ask for this gradient and pass it to
#      ``y.backward``. What depends on ``x`` without passing through ``y`` has to be added.
#
# .. predict:: Try it
#    :for: x.grad with yesterday's prices
#    :wrong: fresh prices: This is right at the new place, where the price of fuel is −6.
#          The program passes −4, and nothing stops it.;
#       yesterday: This was yesterday's result. The prices are old, but the settings are
#          new, and backward uses those.;
#       prices alone: These are the prices that are passed. backward multiplies the rows of
#          the table by them.
#
#    The next day the stoves are at 4, 2 and 1, and we burn 21 units of fuel. The consultant
#    has not answered yet, and so the program passes yesterday's prices, ``[10, -4]``. Is
#    there an error? What arrives in ``x.grad``? Which stove would the program turn up, and
#    is that right?

next_day = torch.tensor([4.0, 2.0, 1.0], requires_grad=True)
house(next_day).backward(torch.tensor([10.0, -4.0]))
stale = next_day.grad
stale

# %%
# .. dropdown:: Answer
#
#    There is no error, because the shape is right. With yesterday's prices the third stove
#    seems to earn 2, and the program turns it up. But at 21 units the bill rises at the
#    rate :math:`2\cdot21/7=6`, the prices are ``[10, -6]``, and every stove loses:

next_day.grad = None
worth(house(next_day)).backward()
next_day.grad

# %%
# .. dropdown:: The same in letters
#
#    This is the chain rule for several variables. You read :math:`\partial` like the d in a
#    derivative, and :math:`\sum_i` says that we add over the outputs :math:`i`. The entry
#    of the table for output :math:`i` and stove :math:`j` is :math:`J_{ij}`. On the right
#    stands the vector-Jacobian product of the first page:
#
#    .. math::
#
#       \frac{\partial\,\text{worth}}{\partial x_j}
#       =\sum_i\frac{\partial\,\text{worth}}{\partial y_i}
#        \,\frac{\partial y_i}{\partial x_j}
#       =\sum_i v_i\,J_{ij}
#
# .. dropdown:: Where people do this
#
#    The line ``latents.backward(gradient=grad)`` stands in programs that make a 3D object
#    from a description in words. A picture of the object is turned into a shorter list of
#    numbers, ``latents``. Another network has learned from many pictures. It says how each
#    of these numbers should change, so that the picture fits the words better. Its answer
#    is ``grad``, and it is passed as ``v`` (:ref:`the case study <score-distillation>`).
#
# .. dropdown:: When both halves are in PyTorch
#
#    You cut with ``detach``, which gives you a tensor with the numbers of ``y`` but without
#    their graph, and let the second half start there. Programs are cut like this when the
#    halves run on different machines, or when the gradient is to be changed before it goes
#    on. In the code below there are two walks. The first goes from the worth to ``start``
#    and ends there, so ``x.grad`` is still ``None``. What has arrived at ``start`` is the
#    ``v`` of the second walk, which goes from ``y`` to ``x``.

x.grad = None
y = house(x)
start = y.detach().requires_grad_()
worth(start).backward()  # this walk ends at start
print(x.grad)
y.backward(start.grad)  # and this one goes on from there
x.grad

# %%
# .. dropdown:: The many names of v
#
#    You will meet the same thing under other names. ``gradient`` is the argument of
#    ``backward``, and ``grad_outputs`` that of ``torch.autograd.grad``. ``grad_output`` is
#    what error messages call it, and what you will call it when you write an operation of
#    your own (:ref:`how that is done <custom-function>`). *Upstream gradient* is a word of
#    lectures, because the gradients flow like a stream from the loss to the inputs.
#    Mathematicians and JAX say :term:`cotangent`. They use this word for ``v``, and also
#    for what the walk back brings to each of the other tensors. We say *price*, too.
#
# .. dropdown:: How we checked this page
#
#    The consultant's prices and the finished gradients are compared with small steps, and
#    the three ways around the cut with each other.

settings, h = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 1e-6


def slopes(f, at):
    steps = h * torch.eye(len(at), dtype=torch.float64)
    return torch.stack([(f(at + s) - f(at - s)) / (2 * h) for s in steps])


whole = slopes(lambda x: worth(house(x)), settings)
torch.testing.assert_close(in_one_piece.double(), whole)
torch.testing.assert_close(through_y.double(), whole)
torch.testing.assert_close(slopes(worth, house(settings)), v.double())
torch.testing.assert_close(y_more.grad, torch.tensor([10.0, -2 * 29 / 7]))
torch.testing.assert_close(start.grad, v)
by_step = slopes(lambda x: worth(house(x)), next_day.detach().double())
torch.testing.assert_close(next_day.grad.double(), by_step, rtol=1e-5, atol=0)
assert stale[2] > 0 > next_day.grad.max()
with_wear = slopes(lambda x: worth(house(x)) - 2 * x[0], settings)
torch.testing.assert_close(with_the_wear.double(), with_wear)
torch.testing.assert_close(x.grad, in_one_piece)  # by the two walks

assert torch.equal(sample.grad, arrives @ W)
assert torch.equal(W.grad, arrives.outer(sample))
assert sample.grad[0] == 1 * 1 - 2 * 3
assert W.grad[1, 2] == -6

at_35 = torch.tensor([6.0, 35.0], requires_grad=True)
worth(at_35).backward()
assert at_35.grad.tolist() == [10, -10]

mean_v = prediction.grad
torch.testing.assert_close(mean_v, 2 * (prediction.detach() - target) / 4)
pairs = torch.arange(8.0).reshape(4, 2).requires_grad_()
torch.nn.functional.mse_loss(pairs, torch.ones(4, 2)).backward()
torch.testing.assert_close(pairs.grad, 2 * (pairs.detach() - 1) / 8)

guesses = {  # wrong ones, of which the boxes above say what they are
    "average price": -y.detach()[1] / 7,
    "one for each stove": x.numel(),
    "the whole table": y.numel() * x.numel(),
    "the worth itself": value.size,
    "bill": -(y.detach()[1] ** 2) / 7,
    "without the minus": -v[1],
    "fuel": -y.detach()[1],
    "one seventh": torch.tensor(-1 / 7),
    "heat's price": v[0],
    "at the old place": v,
    "average now": torch.tensor([10.0, -29 / 7]),
    "bill now": torch.tensor([10.0, -(29**2) / 7]),
    "no minus now": torch.tensor([10.0, 2 * 29 / 7]),
    "where to go": target - prediction.detach(),
    "sizes": (prediction.detach() - target).abs(),
    "every one": torch.ones(4),
    "fresh prices": next_day.grad,
    "yesterday": in_one_piece,
    "prices alone": torch.tensor([10.0, -4.0]),
    "undivided": torch.tensor([10.0, -2.0 * 29]),
    "fuel now": torch.tensor([10.0, -29.0]),
    "first output": W.detach()[0],
    "second output": -2 * W.detach()[1],
    "with ones": torch.ones(2) @ W.detach(),
    "times the inputs": W.grad[1],
    "subtracted": torch.tensor([1.0, -1.0]) @ W.detach(),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** ``ones_like`` is the most popular ``v`` of all. :ref:`ones` explains what it
# asks for, and when that is what you want. If you are about to cut a program of your own,
# read :ref:`external-loss` before you do.
#
# .. asked: where does v come from; upstream gradient; what is grad_output in a layer;
#    gradient of the loss with respect to the output; incoming gradient of a layer; part
#    of my program is not PyTorch; hand a gradient from another program to backward; how
#    does v get into each layer; gradient arriving from the next layer; error signal;
#    pass the error of one program to another; my loss is computed elsewhere
# .. words: sent from above, next block, handed down, error of the following layer, delta,
#    residual, chain the pieces, server sends back, external simulator, middle of the
#    network, manual backward
