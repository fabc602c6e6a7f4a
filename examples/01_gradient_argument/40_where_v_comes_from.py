r"""
.. _where-v-comes-from:

v is the gradient of what comes next
====================================

So far we have set the prices ourselves. In a training loop nobody does that, and still
every layer of the network receives a ``v``. Where does it come from? And what do you do
when the rest of your calculation is not in PyTorch at all, but in a library, in a
simulator, or on somebody else's computer? The two questions have the same answer.
"""

# %%
# A price that moves
# ------------------
#
# The house has a new contract. A unit of heat is still worth 10 to us, but now fuel gets
# dearer the more of it we burn. The bill is :math:`\text{fuel}^2/28`. We write down what
# the heating is worth, and let PyTorch differentiate all of it:

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


def worth(y):
    heat, fuel = y
    return 10 * heat - fuel**2 / 28


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = house(x)
y.retain_grad()
worth(y).backward()
print(y.grad)
in_one_piece = x.grad
in_one_piece

# %%
# ``worth(y)`` is a single number, so the call needs no argument. On its way to ``x`` it
# passes ``y``, and there we have asked it to leave a copy of what arrives. It is
# ``[10, -1]``, the prices of the first page! Nobody has set them now. At the moment we burn
# 14 units of fuel, and the bill :math:`\text{fuel}^2/28` rises at a rate of
# :math:`2\cdot14/28=1` with each further unit. With other settings the prices are
# different:
#
# .. admonition:: Predict
#
#    We turn up every stove by one, so that ``x`` is ``[2, 3, 4]`` and fuel is
#    :math:`4+9+16=29`. Which two numbers arrive at ``y`` now?

more = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
y_more = house(more)
y_more.retain_grad()
worth(y_more).backward()
y_more.grad

# %%
# Heat has kept its price, and fuel costs :math:`29/14\approx2.07` now. This is what ``v``
# is in general: **the rate at which the number that you care about changes with each entry
# of y, at the values that y has now.** In other words, it is the gradient of everything
# that comes after ``y``.
#
# Cutting the program in two
# --------------------------
#
# The gas company does not want to show us its formula. It has a program, written in
# NumPy, which takes the heat and the fuel and returns what the contract is worth to us. It
# also returns how that changes. PyTorch cannot look inside:

import numpy as np


def company(y):
    heat, fuel = y
    value = 10 * heat - fuel**2 / 28
    change = np.array([10.0, -fuel / 14])
    return value, change


x.grad = None
y = house(x)
value, change = company(y.detach().numpy())
v = torch.tensor(change, dtype=y.dtype)
y.backward(v)
x.grad

# %%
# The result is the same as before, and this is what the ``gradient`` argument is made for.
# What PyTorch cannot see, somebody else has to differentiate. They only have to tell us
# the gradient of their number with respect to ``y``, which we pass as ``v``, and
# ``backward`` carries it on to ``x``:

# PICTURE: cut graph

# %%
# Why is nothing lost at the cut? Turn up the first stove a little. Heat rises at a rate of
# 1, which is worth 10. Fuel rises at a rate of 2, and each unit of it costs 1. So the
# worth rises at a rate of :math:`10\cdot1-1\cdot2=8`. It goes up through heat *and*
# through fuel, and we add the two effects. The chain rule for several variables says the
# same in letters:
#
# .. math::
#
#    \frac{\partial\,\text{worth}}{\partial x_j}
#    =\sum_i\frac{\partial\,\text{worth}}{\partial y_i}\,\frac{\partial y_i}{\partial x_j}
#    =\sum_i v_i\,J_{ij}
#
# This is the vector-Jacobian product of the first page. The chain rule is the reason that
# PyTorch computes this product and not something else.
#
# Both halves may be in PyTorch as well. You cut with ``detach``, which gives you the
# numbers of ``y`` without their history, and let the second half begin at this copy:

x.grad = None
y = house(x)
copy = y.detach().requires_grad_()
worth(copy).backward()  # this stops at the copy
print(x.grad)
y.backward(copy.grad)  # and this goes on from there
x.grad

# %%
# After the first call, ``x.grad`` was still ``None``, because the walk ended at the copy. Then
# we handed over what it had brought there. Programs are cut like this when the halves run
# on different machines, or when the first half is too big to be kept in memory.
#
# What a loss sends back
# ----------------------
#
# A training loop is the same situation. The network is the first half, the loss is the
# second, and ``v`` is the gradient of the loss with respect to the predictions. With the
# mean squared error over four samples, it is :math:`2\,(\text{prediction}-\text{target})/4`:
#
# .. admonition:: Predict
#
#    The first prediction is too low, the second is right, and the third and the fourth
#    are too high. Which signs does ``v`` have?

prediction = torch.tensor([1.0, 2.0, 4.0, 8.0], requires_grad=True)
target = torch.tensor([3.0, 2.0, 2.0, 2.0])
torch.nn.functional.mse_loss(prediction, target).backward()
prediction.grad

# %%
# A negative entry says that the loss would fall if this prediction went up. The second is
# zero, because that prediction is right, and the last is the largest, because it is the
# furthest off. So ``v`` is how the loss speaks to the network: it says for every output
# in which direction it is wrong, and how much this matters. It is also called the
# *upstream gradient*.
#
# What v does not know
# --------------------
#
# ``v`` only covers what happens *through* ``y``. Suppose that the first stove wears out,
# which costs us 2 for each turn. That cost depends on ``x`` directly, and the company's
# prices do not contain it:

x.grad = None
y = house(x)
y.backward(v)
through_y = x.grad.clone()
wear = 2 * x[0]
(-wear).backward()  # adds to x.grad what does not pass through y
print(through_y)
x.grad

# %%
# Without the second call the first stove would still look like the best one, at 8. With
# the wear it earns no more than the second. If you cut a program in two, make sure that
# everything which leads from ``x`` to the result either passes through the cut or is
# added like this. Weight decay in a loss is a common example.
#
# .. admonition:: Remember
#
#    - ``v`` is the gradient of what comes after ``y``, with respect to ``y``, at the present
#      values.
#    - If the rest is computed elsewhere, ask for this gradient and pass it to
#      ``y.backward``.
#    - Every tensor inside a graph receives such a ``v`` from the operations that used it.
#      A loss does nothing else.
#    - What depends on ``x`` without passing through ``y`` has to be added.
#
# .. admonition:: Try it
#
#    Take the sum of the squared errors instead of the mean (``reduction="sum"``). What
#    becomes of ``v``, and so of every gradient in the network? Which learning rate would
#    lead to the same step of plain SGD?
#
# .. dropdown:: Answer
#
#    Each entry of ``v``, and with it every gradient, is four times as large, because the
#    division by the four samples is gone. A quarter of the learning rate gives the same
#    step.
#
# .. dropdown:: How we checked this page
#
#    The company's prices and the finished gradients are compared with small steps, and
#    the three ways around the cut with each other.

settings, h = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 1e-6


def slopes(f, at):
    steps = h * torch.eye(len(at), dtype=torch.float64)
    return torch.stack([(f(at + s) - f(at - s)) / (2 * h) for s in steps])


whole = slopes(lambda x: worth(house(x)), settings)
torch.testing.assert_close(in_one_piece.double(), whole)
torch.testing.assert_close(through_y.double(), whole)
torch.testing.assert_close(slopes(worth, house(settings)), v.double())
torch.testing.assert_close(y_more.grad, torch.tensor([10.0, -29 / 14]))
torch.testing.assert_close(copy.grad, v)
with_wear = slopes(lambda x: worth(house(x)) - 2 * x[0], settings)
torch.testing.assert_close(x.grad.double(), with_wear)

mean_v = prediction.grad
torch.testing.assert_close(mean_v, 2 * (prediction.detach() - target) / 4)
total = torch.nn.functional.mse_loss(prediction, target, reduction="sum")
torch.testing.assert_close(torch.autograd.grad(total, prediction)[0], 4 * mean_v)

# %%
# **Next:** ``ones_like`` is the most popular ``v`` of all. :ref:`ones` explains what it asks
# for, and when that is what you want.
