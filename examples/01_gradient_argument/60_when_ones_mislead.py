r"""
.. _when-ones-mislead:

When ones mislead
=================

Ones give the derivative at every point if each point goes through the function by
itself. In a formula you can see whether that is so. In a network with twenty layers you
can't, and one of them may let the samples of a batch look at each other. Then ones still
return numbers of the right shape, without any error, and they are not what you asked for.
"""

# %%
# Shares of the bill
# ------------------
#
# Three flats share one boiler. Each pays the part of the bill that its own stove has
# used, so the shares are the settings divided by their sum:

import torch


def shares(x):
    return x / x.sum()


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = shares(x)
y

# %%
# The third flat pays half. By how much does each share rise if that flat turns up its own
# stove? It looks like the curve of the last page: three numbers go in, three come out,
# and we want one derivative for each. So we pass ones.
#
# .. admonition:: Predict
#
#    Before you read on: what is the *sum* of the shares, and how does it change if one
#    of the stoves is turned up?

y.backward(torch.ones_like(y))
x.grad + 0.0  # shows -0 as 0

# %%
# Zeros! If you read these as slopes, no flat would pay more for turning up its stove. But
# ones ask for the gradient of the sum, and the three shares add up to 1 whatever the
# settings are. A number that cannot change has the gradient zero. The answer is correct,
# and it is the answer to a different question.
#
# Look at the table to see what has happened:

J = torch.autograd.functional.jacobian(shares, x.detach())
J

# PICTURE: structure / vjp ones

# %%
# The slopes that we wanted stand on the diagonal. If the first flat turns up its stove, its
# own share rises at a rate of 0.14. But the column goes on: the same turn *lowers* the
# shares of the other two, at rates of 0.06 and 0.08. When ones add up the rows, all of it
# lands in the same place, and here it cancels exactly.
#
# It does not have to cancel. If the columns add up to something else, you get numbers
# that look reasonable, and nothing will tell you that they are wrong.
#
# A network that looks at its neighbours
# --------------------------------------
#
# Functions like this are common in networks. ``BatchNorm`` subtracts the mean of the whole
# batch while it is training. So the output of each sample depends on all samples of the
# batch. We compute the gradient of each output with respect to its own sample twice: with
# ones, and one sample at a time with a ``v`` that is 1 for this sample and 0 elsewhere:

torch.manual_seed(0)  # so that you see the same numbers
network = torch.nn.Sequential(
    torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
).double()
samples = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)


def with_ones(network):
    y = network(samples)
    return torch.autograd.grad(y, samples, torch.ones_like(y))[0]


def one_at_a_time(network):
    y, rows = network(samples), []
    for i in range(3):
        v = torch.zeros_like(y)
        v[i] = 1.0
        (product,) = torch.autograd.grad(y, samples, v, retain_graph=True)
        rows.append(product[i])
    return torch.stack(rows)


# %%
# .. admonition:: Predict
#
#    The network is in training mode at first. Then we call ``network.eval()``, which makes
#    BatchNorm use stored statistics instead of those of the batch. In which of the two
#    modes will the two functions agree?

for training in (True, False):
    network.train(training)  # train(False) is what eval() calls
    ones, own = with_ones(network), one_at_a_time(network)
    print("training" if training else "eval", torch.allclose(ones, own))
    print(ones[0], own[0])

# %%
# In training mode the gradients of the first sample differ. With ones, they contain how the
# first sample moves the outputs of the *other* two. In eval mode every sample goes through
# the network alone, and the two agree. The network, its weights and the samples are the
# same in both.
#
# Other functions that let samples look at each other are a softmax, a sum or a cumulative
# sum *along the dimension of the samples*, sorting along it, and losses that compare
# samples with each other. Along any other dimension they do no harm: a softmax over the
# classes of each sample mixes classes, not samples.
#
# How to find out
# ---------------
#
# You can ask the network itself. Take one output, send a 1 to it and 0 to the others,
# and see which inputs receive something:

network.train()
y = network(samples)
(product,) = torch.autograd.grad(y[0, 0], samples)
product.abs().sum(dim=1) > 0

# %%
# The first output depends on all three samples, so ones would mix them. If you see
# ``True`` only in the first place, this output listens to its own sample. One caution: you
# have looked at one output and at one batch, and a dependency may hide behind a zero that
# is there by chance, for example behind a ReLU that is switched off. ``pullback.mixing``
# looks at all outputs for you:

import pullback

print(pullback.mixing(network, samples).mixes)
print(pullback.mixing(network.eval(), samples).mixes)

# %%
# If samples do mix, and you really want each output's derivative with respect to its own
# input, you have two ways. Stop the mixing, as ``eval`` does, if it is not part of what
# you want to differentiate. Or ask for one output at a time, as we did above. The next
# page shows how.
#
# .. admonition:: Remember
#
#    - Ones always return the gradient of the sum of the outputs. They return each point's
#      own derivative only if no output uses another point's input.
#    - BatchNorm in training mode is the most common layer that breaks this.
#    - There is no error, and the shapes are right. To find out, send a 1 to a single
#      output and look at which inputs receive something.
#
# .. admonition:: Try it
#
#    ``torch.cumsum(x, 0)`` returns :math:`(x_0,\;x_0+x_1,\;x_0+x_1+x_2)`. Each output uses
#    its own input with the slope 1. What do ones return, and why? Write down the table
#    first.
#
# .. dropdown:: Answer
#
#    ``[3, 2, 1]``. The table has ones on and below the diagonal. The first input is used by
#    all three outputs, the second by two, the third by one, and ones count them.
#
# .. dropdown:: How we checked this page
#
#    The table of the shares is compared with the formula for its entries, and both ways of
#    asking the network with small steps in each sample.

settings = x.detach().double()
total = settings.sum()
formula = torch.eye(3) / total - settings[:, None] / total**2
torch.testing.assert_close(J.double(), formula)
torch.testing.assert_close(x.grad, J.sum(0))

h = 1e-6
for training in (True, False):
    network.train(training)
    nudged = torch.zeros(3, 3, 2, dtype=torch.float64)
    for j in range(3):
        for k in range(2):
            step = torch.zeros_like(samples)
            step[j, k] = h
            with torch.no_grad():
                change = network(samples + step) - network(samples - step)
            nudged[:, j, k] = change[:, 0] / (2 * h)
    own = nudged.diagonal(dim1=0, dim2=1).T
    torch.testing.assert_close(one_at_a_time(network), own, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(with_ones(network), nudged.sum(0), rtol=1e-5, atol=1e-8)
    assert torch.allclose(own, nudged.sum(0), atol=1e-6) != training

cumulative = torch.cumsum(x, 0)
(answer,) = torch.autograd.grad(cumulative, x, torch.ones(3))
assert answer.tolist() == [3, 2, 1]

# %%
# **Next:** one output at a time, what it costs, and how all of them together give you the
# table: :ref:`one-output-at-a-time`.
