r"""
.. _when-ones-mislead:

When ones mislead
=================

Ones give the derivative at every point if each point goes through the function by
itself. In a formula you can see whether that is so. In a network with twenty layers you
can't, and one of them may let the samples of a batch look at each other. Then ones still
return numbers of the right shape, without any error, and they are not what you wanted.
"""

# %%
# Shares of the bill
# ------------------
#
# Three flats share the bill for their heating. Each pays in proportion to the setting of
# its radiator, so the shares are the settings divided by their sum:

import torch


def shares(x):
    return x / x.sum()


x = torch.tensor([0.5, 0.5, 1.0], requires_grad=True)
y = shares(x)
y

# %%
# The third flat pays half. How fast does each flat's share rise if it turns up its own
# radiator? It looks like the curve of the last page: three numbers go in, three come out,
# and we want one derivative for each. So we pass ones.
#
# .. predict::
#    :for: x.grad
#
#    Which three numbers come back?

y.backward(torch.ones_like(y))
x.grad

# %%
# Zeros! If you read these as slopes, no flat would pay more for turning up its radiator.
# But ones ask for the gradient of the sum, and the three shares add up to 1 whatever the
# settings are. A number that cannot change has the gradient zero. The answer is correct,
# but it is the answer to a different question.
#
# Look at the table to see what has happened:

import pullback

J = torch.autograd.functional.jacobian(shares, x.detach())
flats = ["flat 1", "flat 2", "flat 3"]
pullback.draw.vjp(torch.ones(3), J, rows=flats, columns=flats, result_name="sum")

# %%
# The slopes that we wanted stand on the diagonal. If the first flat turns up its
# radiator, its own share rises at a rate of 0.375. But the column goes on: the same turn
# *lowers* the shares of the other two, at rates of 0.125 and 0.25. When ones add up the
# rows, all of it lands in the same place, and :math:`0.375-0.125-0.25=0`.
#
# It does not have to cancel. If we divide by ``x.norm()`` instead, the square root of the
# sum of the squares, the columns add up to numbers that look quite reasonable, and nothing
# tells you that they are not the slopes:

(x / x.norm()).backward(torch.ones(3))  # x.grad was zero, so nothing is added to it
slopes = torch.autograd.functional.jacobian(lambda x: x / x.norm(), x.detach())
print("ones:  ", x.grad)
print("slopes:", slopes.diagonal())

# %%
# According to the ones, the third output falls when its input grows. In truth it rises, at
# a rate of 0.27. The first two rise with their inputs at a rate of 0.68, which is more than
# twice what the ones say.
#
# Samples that look at each other
# -------------------------------
#
# Functions like this are common in networks. ``BatchNorm``, while it is training, subtracts
# the mean of the batch and divides by its spread. So the output of each sample depends on
# all samples of the batch. We compute the gradient of the first output with respect to the
# first sample twice: with ones, and with a ``v`` that is 1 for this output and 0 for the
# other two, as we did on the first page when we cared about the heat alone. (The network
# is in float64, so that rounding cannot blur the comparison.)

torch.manual_seed(0)  # so that you see the same numbers
network = torch.nn.Sequential(
    torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
).double()
samples = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)


def first_sample(v):
    samples.grad = None
    network(samples).backward(v)
    return samples.grad[0]


ones = torch.ones(3, 1, dtype=torch.float64)
only_first = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)

# %%
# .. admonition:: Predict
#
#    The network is in training mode at first. Then we put it into eval mode, in which
#    BatchNorm, with its default settings, uses stored numbers instead of the mean and the
#    spread of the batch. In which of the two modes will the two gradients agree?

for training in (True, False):
    network.train(training)  # train(False) is what eval() calls
    print("training mode" if training else "eval mode")
    print("  with ones       ", first_sample(ones))
    print("  the first alone ", first_sample(only_first))

# %%
# In training mode the two differ. With ones, the gradient also contains how the first
# sample moves the outputs of the *other* two. In eval mode every sample goes through
# this network alone, and the two agree. (Both differ from the gradients in training mode,
# because with the stored mean and spread the network is a slightly different function.)
#
# Other functions that let samples look at each other are a softmax, a sum or a cumulative
# sum *along the dimension of the samples*, and losses that compare samples with each other.
# A softmax over the *classes* mixes no samples. But there each sample has several outputs
# that use the same inputs, and ones add these up as well. They return zeros again, because
# the probabilities of each sample add up to 1.
#
# How to find out
# ---------------
#
# You can ask the network itself. Send a 1 to one output and 0 to the others, see which
# samples receive something, and do this for each output:


def listens_to(network):
    for v in torch.eye(3, dtype=torch.float64)[:, :, None]:  # one 1 in a (3, 1) of zeros
        (received,) = torch.autograd.grad(network(samples), samples, v)
        print(received.abs().sum(dim=1) > 0)


listens_to(network.train())
listens_to(network.eval())

# %%
# In training mode every output depends on all three samples, so ones would mix them. In
# eval mode each output listens to its own sample only, and all other places are ``False``.
# One output is not enough to ask: the first entry of a cumulative sum, for example, sees
# only itself, and the last one sees everything. And the answer is for this batch. A ReLU
# that happens to be off, for example, hides what stands behind it, so that ``False`` may
# only mean *not at these numbers*. ``pullback.mixing`` asks the same in one call:

print("training mode:", pullback.mixing(network.train(), samples).mixes)
print("eval mode:    ", pullback.mixing(network.eval(), samples).mixes)

# %%
# It says ``True`` where samples mix. (Every pass in training mode also updates the numbers
# that BatchNorm stores. If that matters, ask a ``copy.deepcopy`` of the network.)
#
# If samples do mix, and you really want each output's derivative with respect to its own
# input, you have two ways. Stop the mixing, as ``eval`` does, if it is not part of what
# you want to differentiate. Or ask for one output at a time, as we did above. The next
# page shows how.
#
# Turn the radiators. The table changes, and the sum under it stays at zero. Which
# ``v`` shows the first flat's own slope?

pullback.live(shares, torch.tensor([0.5, 0.5, 1.0]))

# %%
# .. admonition:: Remember
#
#    - Ones always return the gradient of the sum of the outputs. You can rely on them for
#      each point's own derivative if each point has one output, and no output uses another
#      point.
#    - BatchNorm in training mode is the most common layer that breaks this.
#    - There is no error, and the shapes are right. To find out, send a 1 to one output
#      after the other, and look at which samples receive something.
#
# .. predict:: Try it
#    :for: what ones return
#
#    ``torch.cumsum(x, 0)`` returns :math:`(x_0,\;x_0+x_1,\;x_0+x_1+x_2)`. Each output uses
#    its own input with the slope 1. What do ones return, and why? Write down the table
#    first.
#
# .. dropdown:: Answer
#
#    ``[3, 2, 1]``. The table has ones on and below the diagonal. The first input is used by
#    all three outputs, the second by two, the third by one, and ones count them.

three = torch.zeros(3, requires_grad=True)
torch.cumsum(three, 0).backward(torch.ones(3))
three.grad

# %%
# .. dropdown:: How we checked this page
#
#    The table of the shares is compared with the formula for its entries, and both ways of
#    asking the network with small steps in each sample.

settings = x.detach().double()
total = settings.sum()
formula = torch.eye(3) / total - settings[:, None] / total**2
torch.testing.assert_close(J.double(), formula)
torch.testing.assert_close(x.grad, J.sum(0) + slopes.sum(0))

h = 1e-6


def one_at_a_time(y):
    rows = [torch.autograd.grad(out, samples, retain_graph=True)[0] for out in y[:, 0]]
    return torch.stack([row[i] for i, row in enumerate(rows)])


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
    y = network(samples)
    (with_ones,) = torch.autograd.grad(y, samples, ones, retain_graph=True)
    torch.testing.assert_close(one_at_a_time(y), own, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(with_ones, nudged.sum(0), rtol=1e-5, atol=1e-8)
    assert torch.allclose(own, nudged.sum(0), atol=1e-6) != training
    torch.testing.assert_close(first_sample(ones), with_ones[0])
    torch.testing.assert_close(first_sample(only_first), own[0], rtol=1e-5, atol=1e-8)

cumulative = torch.cumsum(x, 0)
(answer,) = torch.autograd.grad(cumulative, x, torch.ones(3))
assert answer.tolist() == [3, 2, 1]

# %%
# **Next:** one output at a time, what it costs, and how all of them together give you the
# table: :ref:`one-output-at-a-time`.
#
# .. asked: ones give the wrong derivative; samples influence each other; batch norm
#    mixes samples; is backward with ones right for a network; when is ones_like wrong;
#    gradient depends on the other samples of the batch; is a vector of ones always
#    right; gradient of one sample changes when the batch changes; per-point derivative
#    is wrong
