r"""
.. _slopes-in-the-loss:

A gradient inside of the loss
=============================

You have trained a network, and it is right at its samples. But between two of them it is so
steep that a small error in its input moves its output a lot. You would like it flatter. So
you put its slopes into the loss: you add their squares, and training makes them small. This
is a *gradient penalty*. Now the loss contains a gradient, and training takes a gradient of
this loss.
"""

# %%
# We begin with a model that has two weights and one sample. Its output is
# :math:`w_0x+w_1x^2`, and the sample is at :math:`x=1`:

import torch

w = torch.tensor([2.0, 1.0], requires_grad=True)
x = torch.tensor(1.0, requires_grad=True)


def model(x, w):
    return w[0] * x + w[1] * x**2


y = model(x, w)
(slope,) = torch.autograd.grad(y, x)
print("output:", y.item(), " slope:", slope.item())

# %%
# The output is 3. The slope says how fast it changes with the *input*:
# :math:`w_0+2w_1x`, which is 4 here. The output should be 1, and we would like the slope to
# be small. So the loss is the square of the error, and the penalty is the square of the
# slope. Training needs the gradient of their sum with respect to the *weights*:

loss, penalty = (y - 1) ** 2, slope**2
try:
    torch.autograd.grad(loss + penalty, w)
except RuntimeError as error:
    print(error)

# %%
# The first walk back, for the slope, has thrown away what it no longer needed. The message
# says what to do: *Specify retain_graph=True*. So somebody writes it into the call that
# computes the slope, and runs the program again.
#
# .. predict::
#    :label: gradient
#    :code:
#    :for: the gradient
#    :wrong: both: This is what the sum should give. But how does the walk back get from the
#          slope to the weights?;
#       penalty alone: This is what the penalty should add. The loss is in the sum, too.;
#       with the square: The penalty is added to the loss, not to each entry of the
#          gradient.;
#       zeros: The output still depends on the weights, and so does the loss.
#
#    The loss alone has the gradient ``[4, 4]``, and the penalty alone has ``[8, 16]``. What
#    does PyTorch give for their sum now?

y = model(x, w)
(slope,) = torch.autograd.grad(y, x, retain_graph=True)
(kept,) = torch.autograd.grad((y - 1) ** 2 + slope**2, w)
print("gradient:", kept)

# %%
# It is the gradient of the loss alone, and there is no error. The loss still has its graph,
# because ``retain_graph=True`` has kept it, so the walk back has somewhere to go. But the
# slope is a plain tensor, the number 4. PyTorch does not know that it came from the
# weights. So the penalty is the constant 16: it makes the loss larger and changes no
# gradient.
#
# What is missing is a graph of the walk that computed the slope, as in :ref:`once-more`.
# ``create_graph=True`` records it, and keeps the graph of ``y`` as well:

y = model(x, w)
(slope,) = torch.autograd.grad(y, x, create_graph=True)
(created,) = torch.autograd.grad((y - 1) ** 2 + slope**2, w)
print("slope:", slope)
print("gradient:", created)

# %%
# The slope has a ``grad_fn`` now, and the penalty is in the gradient. Let us work its part
# out. The slope is :math:`w_0+2w_1`, so its rates are 1 and 2. The penalty is the square of
# the slope, and a square rises at twice its number, here at :math:`2\cdot4=8` for each unit
# of the slope. So the penalty adds ``[8, 16]`` to the ``[4, 4]`` of the loss.
#
# The price of the penalty
# ------------------------
#
# Loss and penalty are two outputs of the same weights. So they have a table with two rows,
# and ``v`` has a price for each. The price of the penalty is the factor that you write
# before it. With ``v = [1, 1]`` we get the gradient from above. With ``retain_graph=True``,
# it is as if the price of the penalty were 0, whatever factor you write.
#
# Move the second weight alone. Is there a place where both rows are zero, so that neither
# the loss nor the penalty asks for a step? What does the model look like there?

import pullback


def both(w):
    x = torch.tensor(1.0)
    slope = torch.func.grad(model)(x, w)  # this one needs no create_graph
    return torch.stack([(model(x, w) - 1) ** 2, slope**2])


weights = ["weight 0", "weight 1"]
v = torch.tensor([1.0, 1.0])
pullback.live(both, w.detach(), v, rows=["loss", "penalty"], columns=weights)

# %%
# .. dropdown:: Answer
#
#    At −1. There the output is :math:`2x-x^2`, a parabola with its top at the sample: it
#    has the height 1, as it should, and the slope 0. With one sample and two weights, we
#    can have both. A network with many samples has to give up some of one for the other,
#    and the price says how much.
#
# A network that is less steep
# ----------------------------
#
# Now to a network. It is to learn a jump, from 0 on the left to 1 on the right, and gets
# steep there. ``X`` has a sample in each row. The gradient of the sum of all outputs has
# the gradient of each sample in its row, because each sample is treated by itself
# (:ref:`one-jacobian-per-sample`). We train it three times: without a penalty on these
# slopes, with one and ``retain_graph=True``, and with one and ``create_graph=True``.
#
# .. predict::
#    :expects: choice
#    :code:
#    :also: about half of what it was
#    :wrong: It is as steep as before: So it is with ``retain_graph=True``. Here the penalty
#          has a gradient, and a slope of 3.84 adds its square, 0.03 times, for its sample.;
#       It is nearly flat: A flat network gives the same number on both sides of the jump.
#          It misses the targets by a half on average, or more.
#
#    Without a penalty the largest slope is 3.84. How steep does the network become with
#    0.03 times the penalty and ``create_graph=True``?
#
#    - It is as steep as before
#    - It is about half as steep
#    - It is nearly flat


def train(price, create_graph):
    torch.manual_seed(0)
    X = torch.linspace(-1, 1, 20)[:, None].requires_grad_()
    jump = (X > 0).float()
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(200):
        y = net(X)
        # create_graph keeps the graph of y for loss.backward; without it, retain_graph does
        (slopes,) = torch.autograd.grad(
            y.sum(), X, retain_graph=True, create_graph=create_graph
        )
        loss = ((y - jump) ** 2).mean() + price * (slopes**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.autograd.grad(net(X).sum(), X)[0].abs().max().item()


alone = train(0.0, create_graph=False)
retained, recorded = train(0.03, create_graph=False), train(0.03, create_graph=True)
print(f"largest slope, no penalty:  {alone:.2f}")
print(f"penalty, retain_graph=True: {retained:.2f}")
print(f"penalty, create_graph=True: {recorded:.2f}")

# %%
# With ``create_graph=True`` the largest slope is here about half of what it was: where the
# network was steepest, a small error in its input now moves its output about half as far.
# With ``retain_graph=True`` it is as steep as without any penalty, after 200 steps in which
# nothing has told you. So if you write such a penalty, compare the gradient with and
# without it once.
#
# .. admonition:: Remember
#
#    - A gradient inside of the loss needs ``create_graph=True`` where ``autograd.grad``
#      computes it. With ``retain_graph=True`` in its place it counts as a constant beside
#      the loss: it changes no gradient, and no error is raised.
#    - The slopes are taken with respect to the input, and the gradient of the penalty with
#      respect to the weights.
#    - The factor before the penalty is its price in ``v``, beside the 1 of the loss.
#
# .. predict:: Try it
#    :label: with the new penalty
#    :for: the gradient
#    :wrong: old penalty: This is with the penalty from above, for which a slope of 0 is
#          best.;
#       new penalty alone: This is the new penalty alone. The loss is in the sum, too.;
#       not doubled: A square rises at twice the rate of its number.;
#       a constant: This is the loss alone, as without ``create_graph=True``.
#
#    Some networks are to have slopes near 1, and not near 0 (:ref:`gradient-penalty`). So
#    the penalty is ``(slope - 1) ** 2``. What is the gradient of loss and penalty now, for
#    our two weights ``[2, 1]``?
#
# .. dropdown:: Answer
#
#    The slope is 4, which is 3 too much. So the price of the slope is
#    :math:`2\cdot3=6`, and the penalty adds ``[6, 12]`` to ``[4, 4]``.

(near_one,) = torch.autograd.grad(both(w)[0] + (w[0] + 2 * w[1] - 1) ** 2, w)
print("with the new penalty:", near_one)

# %%
# .. dropdown:: How we checked this page
#
#    The gradients are compared with nudges of the weights in float64, in which the slope is
#    found by nudges of the input. At the place of the exercise both rows have to be zero.

h = 1e-4
wide = torch.tensor([2.0, 1.0], dtype=torch.float64)


def by_nudges(w, wanted):
    steep = (model(1 + h, w) - model(1 - h, w)) / (2 * h)
    return (model(1.0, w) - 1) ** 2 + (steep - wanted) ** 2


for wanted, gradient in ((0, created), (1, near_one)):
    nudged = [
        (by_nudges(wide + step, wanted) - by_nudges(wide - step, wanted)) / (2 * h)
        for step in h * torch.eye(2, dtype=torch.float64)
    ]
    torch.testing.assert_close(torch.stack(nudged), gradient.double(), rtol=1e-6, atol=0)
J = torch.func.jacrev(both)(w.detach())
assert J.tolist() == [[4, 4], [8, 16]]
assert torch.equal(created, v @ J)
assert torch.equal(kept, J[0])
assert not torch.func.jacrev(both)(torch.tensor([2.0, -1.0])).any()
for other in torch.linspace(-3, 3, 25):
    rows = torch.func.jacrev(both)(torch.stack([torch.tensor(2.0), other]))
    assert rows.any() or other == -1
assert alone == retained > 1.9 * recorded

guesses = {  # wrong ones, of which the boxes above say what they are
    "both": created,
    "penalty alone": J[1],
    "with the square": J[0] + penalty.detach(),
    "zeros": torch.zeros(2),
    "It is as steep as before": recorded > 0.9 * alone,
    "It is about half as steep": 0.4 < recorded / alone < 0.6,
    "It is nearly flat": recorded < 0.1 * alone,
    "old penalty": created,
    "new penalty alone": near_one - J[0],
    "not doubled": J[0] + (near_one - J[0]) / 2,
    "a constant": kept,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** you have seen everything that this course is about. :ref:`check-yourself-2`
# asks you fifteen questions, and keeps the answers hidden until you want them.
#
# .. asked: gradient penalty in PyTorch; gradient inside of the loss; backward through a
#    gradient; penalty has no effect; retain_graph or create_graph; make a network less
#    steep; smooth a network; punish the slope
# .. words: regularization, Lipschitz, double backward, input gradient, WGAN-GP, robust,
#    derivative in the loss, Sobolev, flat
