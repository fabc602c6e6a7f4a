r"""
.. _when-ones-mislead:

When ones mislead
=================

``y.backward(torch.ones_like(y))`` gives each sample's own derivative if each sample has
one output and goes through the function by itself. In a formula you can see whether that
is so. In a network with twenty layers you can't, and a single layer among them may let the
samples of a batch look at each other. Then ones still return numbers of the right shape,
without any error, and they are not what you wanted. How do you find out, and what do you
ask instead?
"""

# %%
# Shares of the bill
# ------------------
#
# Three apartments share the bill for their heating. Each pays in proportion to the setting
# of its radiator, so the shares are the settings divided by their sum:

import torch


def shares(x):
    return x / x.sum()


x = torch.tensor([0.5, 0.5, 1.0], requires_grad=True)
y = shares(x)
y

# %%
# The third apartment pays half. How fast does each apartment's share rise if it turns up
# its own radiator? Three numbers go in, three come out, and we want one derivative for
# each, as for the points of a curve (:ref:`ones`). So we pass ones.
#
# .. predict::
#    :for: x.grad
#    :also: Ones add up the whole; stays at zero
#    :wrong: own slopes: These are the slopes that we want, the diagonal of the table. Ones
#          add up whole columns, and the other shares fall.;
#       shares: These are the shares themselves. The question is how fast they rise.;
#       a fixed sum: Here the sum of the settings counts as fixed. It grows with each
#          radiator, too.;
#       ones: Ones go in here, as the prices of the shares. What comes back is the gradient
#          of the sum of the shares.
#
#    Which three numbers come back?

y.backward(torch.ones_like(y))
x.grad

# %%
# Zeros! If you read these as slopes, no apartment would pay more for turning up its
# radiator. But ones ask for the gradient of the sum, and the three shares add up to 1 at
# any settings, as long as one radiator is on. A number that cannot change has the gradient
# zero. The answer is correct, but it is the answer to a different question.
#
# The :term:`Jacobian`, our table of rates, has a row for each apartment's share, and a
# column for each radiator that is turned up:

table = torch.autograd.functional.jacobian(shares, x.detach())
table

# %%
# The slopes that we wanted stand on the diagonal. If the first apartment turns up its
# radiator, its own share rises at a rate of 0.375. But the column goes on: the same turn
# *lowers* the shares of the other two, at rates of 0.125 and 0.25. Ones add up the whole
# column, and what arrives at the first radiator is :math:`0.375-0.125-0.25=0`.
#
# You may turn the radiators: the sum under the table stays at zero, up to rounding. Which
# ``v`` shows the first apartment's own slope in this picture?

import pullback

apartments = ["apartment 1", "apartment 2", "apartment 3"]
radiators = ["radiator 1", "radiator 2", "radiator 3"]
pullback.live(shares, x.detach(), rows=apartments, columns=radiators)

# %%
# .. dropdown:: The v for the first apartment
#
#    ``[1, 0, 0]``, which leaves only the first row. The first entry of the result is the
#    slope of the first share at the first radiator, 0.375 at the settings from above.
#
# Samples that look at each other
# -------------------------------
#
# Zeros would at least make you suspicious. Usually ones return numbers that look quite
# reasonable, and in networks such functions are common. ``BatchNorm``, while it is
# training, subtracts the mean of the batch and divides by its spread. The spread says how
# far the numbers in the batch usually lie from their mean. Here is a small network with
# such a layer, and a batch of three samples:

torch.manual_seed(0)  # so that you see the same numbers
network = torch.nn.Sequential(
    torch.nn.Linear(2, 4),
    torch.nn.BatchNorm1d(4),
    torch.nn.Tanh(),
    torch.nn.Linear(4, 1),
).double()  # in float64, so that rounding cannot blur the comparison
samples = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

# %%
# We want to know how the first output reacts to the first sample. We ask with ones, and
# then for the first output alone:

y = network(samples)
(with_ones,) = torch.autograd.grad(y, samples, torch.ones(3, 1), retain_graph=True)
(alone,) = torch.autograd.grad(y[0, 0], samples)
print("with ones:      ", with_ones[0])
print("the first alone:", alone[0])

# %%
# The two rows differ, and nothing about the first tells you that it is not what you want.
# Like a radiator, the first sample changes the outputs of the *other* two as well, through
# the mean and the spread, and ones add all of this up. The second row of the output
# has only what the first sample does to its own output.
#
# So is this second row the slope of our network at the first sample?
#
# .. predict::
#    :expects: choice
#    :wrong: The same row: The first sample is the same, but the first output also depends
#       on the mean and the spread, and so on the other two.;
#       Zeros: Zeros come back where a sum cannot change. A single output does
#          change with its sample.
#
#    We leave the first sample as it is and replace the other two. Then we ask again for
#    the gradient of the first output alone, with respect to the first sample. Which row
#    comes back, and why?
#
#    - The same row
#    - Another row
#    - Zeros

others = samples.detach().clone()
others[1:] += 1.0  # two new samples beside the first
others.requires_grad_()
(beside_new,) = torch.autograd.grad(network(others)[0, 0], others)
print("beside the old two:", alone[0])
print("beside the new two:", beside_new[0])

# %%
# The gradient has changed, although the first sample has not. To ask for one output keeps
# the other *outputs* out of the gradient. It does not keep the other *samples* out: the
# first output is computed with the mean and the spread of the batch, and these are made of
# all three samples.
#
# If you train with BatchNorm, there is nothing to fear. Training asks for the gradient of
# the loss of the batch that the network sees, with respect to the weights, and the mixing
# is a part of that loss. The trouble begins when you want the gradient of each output with
# respect to *its own sample*, for example to draw it (:ref:`seeing-the-gradient`).
#
# How to find out
# ---------------
#
# In a network with twenty layers you need not read them all, because the network itself can
# tell you. Walk back from one output at a time, and see which samples receive something. We
# write down a row for each output, with ``True`` for each sample that has received
# anything. Our network is still in training mode. There BatchNorm takes notes of every
# batch, and so we test a copy of the network:

import copy


def listens_to(network):
    y, rows = network(samples), []
    for k in range(3):
        (received,) = torch.autograd.grad(y[k, 0], samples, retain_graph=True)
        rows.append(received.abs().sum(dim=1) > 0)
    return torch.stack(rows)


listens_to(copy.deepcopy(network))

# %%
# Every output listens to all three samples, so ones mix them. If each output listened to
# its own sample alone, ``True`` would stand on the diagonal only.
#
# What can you do?
# ----------------
#
# If BatchNorm is all that mixes in the network, call ``eval()`` before you ask. While a
# network trains, each BatchNorm keeps a running average of the means and spreads that it
# meets. In eval mode it computes with these averages and no longer looks at the batch. So
# each sample goes through the network alone.
#
# .. predict::
#    :expects: choice
#    :wrong: The row of its output alone: It would, if eval mode only kept the samples
#       apart. But it also computes with other means and spreads, and so with another
#       function.;
#       The row with ones: That row added up what the first sample does to all
#          three outputs. In eval mode it does nothing to the other two.
#
#    Our first batch has given two rows for the first sample in training mode: one *with
#    ones*, and one for its output *alone*. Now we call ``eval()`` and ask with ones again.
#    Which row comes back for the first sample?
#
#    - The row with ones
#    - The row of its output alone
#    - A new row

network.eval()
print("in training, with ones:     ", with_ones[0])
print("in training, alone:         ", alone[0])
for name, batch in {"old": samples, "new": others}.items():
    y = network(batch)
    (in_eval,) = torch.autograd.grad(y, batch, torch.ones(3, 1))
    print(f"in eval, beside the {name} two:", in_eval[0])

# %%
# It is a new row, because in eval mode the network is another function: it computes with
# other means and spreads. For this function it is the right row: whoever else is in the
# batch, it stays the same, so ones have mixed nothing into it. Our test agrees:

listens_to(network)

# %%
# Now ``True`` stands on the diagonal alone: each output listens to its own sample. And this
# is the function that you use after training. So train first, and then ask.
#
# .. dropdown:: Why train first?
#
#    Ours has not been trained. It has met two small batches on this page, when we asked in
#    training mode. BatchNorm counts them, as you see below. Each batch has moved its
#    averages by a tenth of the way. So for the most part the averages are still the numbers
#    with which every BatchNorm begins. And if you ask in the middle of a training, call
#    ``network.train()`` before you go on.

network[1].num_batches_tracked

# %%
# If the mixing is meant, as in the shares of the bill, ask for one output at a time, as on
# the last page. This gives you how fast each share rises with its own radiator. Like the
# share itself, this rate depends on the settings of all three radiators.
#
# .. admonition:: Remember
#
#    - Ones return the gradient of the sum of the outputs. This is each point's own
#      derivative if two things hold: each point has one output, and no output uses another
#      point.
#    - There is no error, and the shapes are right. To find out, walk back from one output
#      after the other, and look at which samples receive something.
#    - BatchNorm in training mode mixes the samples. Ordinary training does not suffer from
#      it, because it does not ask for such derivatives. For our network, ones were right
#      after ``eval()``.
#    - What the test can miss, and where ``eval()`` is not enough, stands in *Where this
#      ends*.
#
# .. admonition:: Try it
#
#    Another trained network returns two numbers for each of three samples, how likely it is
#    to rain and how warm it will be. It contains BatchNorm, and its author has called
#    ``eval()``. So the author passes ones, of the shape ``(3, 2)``, and takes row ``i`` of
#    the result for the slope of the rain at sample ``i``. Is it? If not, which ``v`` gives
#    the slopes of the rain at all samples in one call? And would this ``v`` also give them
#    in training mode?
#
# .. dropdown:: Answer
#
#    It is not. ``eval()`` keeps the samples apart, but each of them still has two outputs,
#    and ones add the slope of the warmth to that of the rain. With a 1 in the first column
#    and 0 in the second, as for the cat on the last page, you get the rain alone. In
#    training mode each sample moves the rain of all three, and this ``v`` would add up the
#    three slopes. Then you have to ask for one output at a time.

weather = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2)).double()
weather(others)  # in training mode, so that it collects a mean and a spread
v = {"ones": torch.ones(3, 2), "rain": torch.tensor([[1.0, 0.0]] * 3)}
for mode in ("eval", "training"):
    y = weather.train(mode == "training")(samples)
    (rain,) = torch.autograd.grad(y[0, 0], samples, retain_graph=True)
    for name in v:
        (rows,) = torch.autograd.grad(y, samples, v[name], retain_graph=True)
        print(f"{mode} mode, {name}, as wanted:", torch.allclose(rows[0], rain[0]))

# %%
# .. dropdown:: An example without a network
#
#    Here we divide by ``x.norm()``, the square root of the sum of the squares. Under the
#    table stands what ones return. Its third number is negative, as if the third output
#    fell when its own input rises. But the entry for the third output and the third input,
#    at the end of the diagonal, is 0.27, so it rises. The other two outputs fall when the
#    third input rises, and the ones have added that.


def scaled(x):
    return x / x.norm()


K = torch.autograd.functional.jacobian(scaled, x.detach())
pullback.draw.vjp(torch.ones(3), K, result_name="ones")

# %%
# .. dropdown:: Other functions that mix
#
#    A sum *along the dimension of the samples* mixes them. So does a cumulative sum, which
#    adds up all the entries so far, and a softmax, which makes shares that add up to 1. So
#    do losses that compare samples with each other. ``eval()`` changes none of these.
#
#    ``LayerNorm`` is like ``BatchNorm``, but it takes the mean and the spread of each
#    sample by itself. So it mixes no samples, not even in training mode. It can replace
#    ``BatchNorm`` in a network that has to be in training mode while you ask for such
#    gradients (:ref:`a case study <gradient-penalty>`).
#
#    A softmax over the *classes* mixes no samples. But there each sample has several
#    outputs that use the same inputs, and ones add these up as well. So the ones return
#    zeros again, up to rounding, because the probabilities of each sample add up to 1.
#
# .. dropdown:: Is there a call for this?
#
#    ``pullback.mixing`` walks back in this way for you, and leaves the running averages of
#    BatchNorm as they were, or warns where it cannot, as in a compiled network.

print("training mode:", pullback.mixing(network.train(), samples).mixes)
print("eval mode:    ", pullback.mixing(network.eval(), samples).mixes)

# %%
# .. dropdown:: Where this ends
#
#    - *The test looks at one network, with these weights and this batch.* With other
#      numbers the samples may mix where they did not, for example where a ReLU has let
#      nothing through. Try several batches, and read :ref:`do-samples-mix`.
#    - *You test the network itself, and not a copy.* In training mode every run moves the
#      averages of BatchNorm a little. Test a copy, or use the call above.
#    - *A BatchNorm keeps no averages*, because it was made with
#      ``track_running_stats=False``. Then it looks at the batch in eval mode, too, and
#      ``eval()`` does not help. Ask for one output at a time.
#    - *Something else mixes the samples*, such as the functions above. Then ``eval()`` does
#      not help either. Ask for one output at a time.
#
# .. dropdown:: How we checked this page
#
#    The tables are compared with formulas for their entries, and both ways of asking the
#    network with small steps in each sample. Each case of *Where this ends* is tried.

at = x.detach().double()
total, norm = at.sum(), at.norm()
J = torch.autograd.functional.jacobian(shares, x.detach())
torch.testing.assert_close(J.double(), torch.eye(3) / total - at[:, None] / total**2)
torch.testing.assert_close(K.double(), torch.eye(3) / norm - at.outer(at) / norm**3)
torch.testing.assert_close(x.grad, J.sum(0))
assert J[0, 0] == 0.375
assert K.sum(0)[2] < 0 < K[2, 2]

h = 1e-6


def first_sample(batch):
    y = network(batch)
    (ones,) = torch.autograd.grad(y, batch, torch.ones_like(y), retain_graph=True)
    (alone,) = torch.autograd.grad(y[0, 0], batch)
    return ones[0], alone[0]


def one_at_a_time(y):
    rows = [torch.autograd.grad(out, samples, retain_graph=True)[0] for out in y[:, 0]]
    return torch.stack([row[i] for i, row in enumerate(rows)])


for mode in ("training", "eval"):
    network.train(mode == "training")
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
    close = {"rtol": 1e-5, "atol": 1e-8}
    torch.testing.assert_close(one_at_a_time(y), own, **close)
    (summed,) = torch.autograd.grad(y, samples, torch.ones_like(y))
    torch.testing.assert_close(summed, nudged.sum(0), **close)
    assert torch.allclose(own, nudged.sum(0), atol=1e-6) != (mode == "training")
    if mode == "training":  # the numbers that eval mode uses have moved since
        torch.testing.assert_close(with_ones[0], nudged.sum(0)[0], **close)
        torch.testing.assert_close(alone[0], own[0], **close)
network.eval()
alike, spread = torch.nn.BatchNorm1d(4).double(), torch.ones(4, dtype=torch.float64)
for batch in (samples, others):  # what ours had met when we called eval()
    hidden = network[0](batch)
    alike(hidden)
    spread = 0.9 * spread + 0.1 * hidden.var(0)  # a tenth of the way
torch.testing.assert_close(alike.running_var, spread.detach())
as_met = torch.nn.Sequential(network[0], alike.eval(), *network[2:])
torch.testing.assert_close(torch.autograd.grad(as_met(others).sum(), others)[0], in_eval)
later = torch.stack([*first_sample(samples), *first_sample(others)])
torch.testing.assert_close(later, later[:1].expand(4, 2))
for row in (in_eval[0], later[0]):  # by two averages: training mode has run in between
    for gradient in (with_ones[0], alone[0], beside_new[0]):
        assert not torch.allclose(gradient, row)
assert listens_to(network.train()).all()
assert torch.equal(listens_to(network.eval()), torch.eye(3) > 0)
assert not torch.allclose(with_ones[0], alone[0])
assert not torch.allclose(alone[0], beside_new[0])
assert not pullback.mixing(torch.nn.LayerNorm(2).double(), samples).mixes

without = torch.nn.BatchNorm1d(2, track_running_stats=False).double().eval()
assert listens_to(torch.nn.Sequential(without, torch.nn.Linear(2, 1).double())).all()
for mixes in (lambda x: x.sum(0) + x, lambda x: x.cumsum(0), lambda x: x.softmax(0)):
    assert listens_to(mixes).sum() > 3


def off_here(x):  # mixes the samples only where their first numbers add up to more than 9
    return x + torch.relu(x[:, 0].sum() - 9)


assert samples[:, 0].sum() < 9
assert torch.equal(listens_to(off_here), torch.eye(3) > 0)
(first_row,) = torch.autograd.grad(off_here(samples + 9)[0, 0], samples)
assert first_row[1:].any()

classes = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
(zeros,) = torch.autograd.grad(classes.softmax(1), classes, torch.ones(3, 4).double())
torch.testing.assert_close(zeros, torch.zeros_like(zeros))

y_of_bill = shares(x.detach())
guesses = {  # wrong ones, of which the boxes above say what they are
    "own slopes": table.diagonal(),
    "shares": y_of_bill,
    "a fixed sum": torch.ones(3) / x.detach().sum(),
    "ones": torch.ones(3),
    "The same row": torch.allclose(alone[0], beside_new[0]),
    "Another row": not torch.allclose(alone[0], beside_new[0]),
    "Zeros": not beside_new[0].any(),
    "The row of its output alone": torch.allclose(in_eval[0], alone[0]),
    "The row with ones": torch.allclose(in_eval[0], with_ones[0]),
    "A new row": not any(torch.allclose(in_eval[0], r[0]) for r in (with_ones, alone)),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** between ones and a single 1 there is everything else. :ref:`the-v-you-choose`
# puts numbers into ``v`` that mean something: weights, masks and means.
#
# .. asked: ones give the wrong derivative; samples influence each other; batch norm
#    mixes samples; is backward with ones right for a network; when is ones_like wrong;
#    gradient depends on the other samples of the batch; is a vector of ones always
#    right; gradient of one sample changes when the batch changes; per-point derivative
#    is wrong; sensitivity of one sample depends on who else is in the list
# .. words: neighbours, contaminated, leak between rows, batchnorm, softmax over the batch,
#    wrong but no error, contrastive, attention across samples, depends on who else is
#    there, cumsum, rows talk to each other
