r"""
.. _jacobian-per-sample:

A Jacobian for every sample: (B, m, n) without the zeros
========================================================

You have a batch of B samples, and for each of them you want a :term:`Jacobian` with one
row for each of its m outputs. If you ask for the Jacobian of the whole batch, you get a
tensor of shape ``(B, m, B, n)``, in which most entries are zeros if the samples are
independent. You want a tensor of shape ``(B, m, n)`` instead. For independent samples you
can use ``vmap(jacrev(f))``, or take ``m`` products, each of which serves all the samples
at once.
"""

# %%
# Five samples of :math:`\mathbb R^3` go through the same function to :math:`\mathbb R^2`.
# The full Jacobian has one index too many, because it also holds the derivatives of the
# outputs of one sample with respect to the inputs of another:

import torch

W = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def f(x):
    return torch.tanh(x @ W.T)


X = torch.linspace(-0.2, 0.2, 15).reshape(5, 3)
full = torch.func.jacrev(f)(X)
full.shape

# %%
# The samples are independent, and so the blocks between different samples are zero. The
# entries that you want are on the block diagonal:

blocks = torch.stack([full[b, :, b] for b in range(5)])
print(blocks.shape, " zeros:", (full == 0).sum().item(), "of", full.numel())

# %%
# In the picture, the same Jacobian is written as a matrix with ten rows for the outputs
# and fifteen columns for the inputs:

import pullback.plot

title = "Full Jacobian of a batch of five: five blocks, zeros elsewhere"
ax = pullback.plot.heatmap(full.reshape(10, 15), title=title)

# %%
# The sum trick
# -------------
#
# Pass a ``v`` that is 1 at output ``k`` of every sample, and 0 elsewhere. The product
# gives row ``k`` of every block at once. This ``v`` is one-hot over the outputs, and uses
# the :term:`ones trick` over the samples. So you need two products for two outputs,
# however large the batch is. Summing column ``k`` of ``Y`` passes exactly this ``v``. The
# sum does not mix the samples: each output depends on its own sample only, so the other
# terms of the sum add zeros to this sample's gradient:

leaf = X.clone().requires_grad_()
Y = f(leaf)
rows = [torch.autograd.grad(Y[:, k].sum(), leaf, retain_graph=True)[0] for k in (0, 1)]
summed = torch.stack(rows, dim=1)
summed.shape

# %%
# You can get the same result as the Jacobian of the sum over the batch. That Jacobian has
# the shape ``(out, B, in)``, and so its dimensions have to be permuted:

of_sum = torch.autograd.functional.jacobian(lambda X: f(X).sum(0), X).permute(1, 0, 2)
of_sum.shape

# %%
# *is_grads_batched complains: grad_output has shape [2], output [5, 2].* The batch of ``v``
# comes in front of the shape of ``Y``, so ``torch.eye(2)`` has one dimension too few. Give
# each sample the same one-hot row, so that the batch of ``v`` has the shape ``(2, 5, 2)``.
# In the result, too, the index of the output comes first, until you move it:

try:
    torch.autograd.grad(Y, leaf, torch.eye(2), is_grads_batched=True)
except RuntimeError as error:
    print(error)
V = torch.eye(2)[:, None, :].expand(2, 5, 2)
(stacked,) = torch.autograd.grad(Y, leaf, V, is_grads_batched=True)
print(tuple(V.shape), tuple(stacked.shape), tuple(stacked.movedim(0, 1).shape))

# %%
# If you have a function of *one* sample, map it over the batch. Then you need no trick, and
# the samples cannot mix. If the function has fewer inputs than outputs, use ``jacfwd`` in
# place of ``jacrev``:

mapped = torch.func.vmap(torch.func.jacrev(f))(X)
mapped.shape

# %%
# *It eats all of my memory, though one Jacobian is tiny.* The reason is that the rows for
# all outputs of all points are computed at once. With the ``chunk_size`` of ``vmap`` you
# say how many points are taken at a time, and with the ``chunk_size`` of ``jacrev`` you say
# how many outputs. A parameter that all points share gets ``None`` in ``in_dims``:


def g(theta, x):
    return torch.tanh(theta @ x)


one = torch.func.jacrev(g, argnums=1, chunk_size=1)
shared = torch.func.vmap(one, in_dims=(None, 0), chunk_size=2)(W, X)
shared.shape

# %%
# If your function takes the whole batch, :func:`pullback.jacobian` does all this for you:

import pullback

batched = pullback.jacobian(f, X, batched=True)
batched.shape

# %%
# What goes wrong
# ---------------
#
# *The one-hot loop and the sum trick give different Jacobians.* The reason is that the
# samples mix. BatchNorm in training, for example, mixes them. The sum trick adds the rows
# that belong to the other samples to each sample's own row, and for BatchNorm this sum is
# zero. :func:`pullback.jacobian` refuses such a function:

training = torch.nn.BatchNorm1d(3, affine=False, track_running_stats=False)
(trick,) = torch.autograd.grad(training(leaf)[:, 0].sum(), leaf)
print("sum trick:", trick[0].round(decimals=2) + 0.0)
print("own:      ", torch.func.jacrev(training)(X)[0, 0, 0].round(decimals=2))
try:
    pullback.jacobian(training, X, batched=True)
except ValueError as error:
    print(error)

# %%
# *"... mutate a captured Tensor".* In training, an ordinary BatchNorm also writes its
# running statistics, and ``jacrev`` and ``jacfwd`` refuse to run it. The BatchNorm above
# has no running statistics to write, but this one has:

try:
    torch.func.jacrev(torch.nn.BatchNorm1d(3))(X)
except RuntimeError as error:
    print(str(error).split(" This")[0])

# %%
# In evaluation mode, every sample is divided by the same running deviation, and so the
# samples are independent again. With a running variance of 1/4, each Jacobian is twice
# the identity:

norm = torch.nn.BatchNorm1d(3, affine=False).eval()
norm.running_var.fill_(0.25)
scale = pullback.jacobian(norm, X, batched=True)
scale[0].round(decimals=3)

# %%
# *vmap(jacrev) with BatchNorm fails on the number of dimensions.* Inside ``vmap``, a sample
# has no batch dimension. Give the sample a batch dimension of size 1, and remove this
# dimension from the result:

try:
    torch.func.vmap(torch.func.jacrev(norm))(X)
except ValueError as error:
    print(error)
single = torch.func.jacrev(lambda x: norm(x.unsqueeze(0)).squeeze(0))
torch.testing.assert_close(torch.func.vmap(single)(X), scale)

# %%
# *Dimension out of range … but got 1.* This error has the same cause. Functions that work
# along dimension 1 unless you tell them otherwise, such as ``normalize`` and
# ``cosine_similarity``, have to be told ``dim=-1``:

unit = torch.nn.functional.normalize
try:
    torch.func.vmap(unit)(X)
except IndexError as error:
    print(error)
torch.func.vmap(torch.func.jacrev(lambda x: unit(x, dim=-1)))(X).shape

# %%
# In training mode a batch of size 1 does not help. If a sample is a row of numbers,
# BatchNorm needs the variance of each column, and a single number has no variance. If a
# sample is an image, BatchNorm would have to write its running statistics, and ``vmap``
# and ``jacrev`` refuse that. With ``track_running_stats=False`` the layer runs, but it
# normalizes each image with the image's own mean instead of the mean of the batch. So you
# get the Jacobian of a different function:

images = torch.linspace(-1, 1, 48).reshape(4, 3, 2, 2) ** 2
forgetful = torch.nn.BatchNorm2d(3, track_running_stats=False)
each_alone = torch.func.vmap(lambda x: forgetful(x[None])[0])(images)
print("mean of an image, alone:     ", each_alone[0, 0].mean().abs().item() < 1e-5)
print("the same as in the batch:    ", torch.allclose(each_alone, forgetful(images)))

# %%
# *What does* ``vmap`` *refuse, and what does it not see?* ``vmap`` runs the function once
# for all samples. So it refuses an ``if`` that looks at a value, random numbers that
# PyTorch draws, and a function that writes numbers of a sample into ``torch.zeros(2)``.
# If the function writes into ``x.new_zeros(2)`` instead, it runs, because this tensor is
# made from the sample and has room for all samples. On a CPU ``vmap`` also refuses a GRU
# (:ref:`per-sample-gradients-of-an-rnn`), for which the sum trick works. But if the
# random numbers come from Python's ``random`` or from NumPy, there is no error, and all
# samples get the same number. And if the function uses a batch from outside, this batch
# counts as a constant, and the Jacobians lack all derivatives that go through it:


def written(x, y):
    y[0], y[1] = x.sum(), x.square().sum()
    return y


gru, usual = torch.nn.GRU(3, 2), torch.nn.BatchNorm2d(3)
refusing = {
    "an if": (lambda x: x**2 if x.sum() > 0 else x, X),
    "Dropout": (torch.nn.Dropout(), X),
    "torch.zeros": (lambda x: written(x, torch.zeros(2)), X),
    "a GRU": (lambda x: gru(x)[0], torch.zeros(4, 5, 3)),
    "BatchNorm of images": (lambda x: usual(x[None])[0], images),
}
refused = []
for name, (function, samples) in refusing.items():
    try:
        torch.func.vmap(torch.func.jacrev(function))(samples)
    except RuntimeError:
        refused.append(name)
print("refused:", ", ".join(refused))
in_its_place = torch.func.vmap(torch.func.jacrev(lambda x: written(x, x.new_zeros(2))))(X)

import random

same = torch.func.vmap(lambda x: x * random.random())(torch.ones(5))
captured = torch.func.vmap(torch.func.jacrev(lambda x: x / X.exp().sum(0)))(X)

# %%
# *What is the number in the message of* ``pullback.jacobian`` *above?* To test whether the
# samples mix, ``pullback.jacobian`` takes a few products. In each of them, ``v`` is random
# for some samples and 0 for the others. If the samples do not mix, the gradient of a sample
# whose ``v`` is 0 must be 0, too. The number is the largest entry in the gradients of these
# samples, divided by the largest entry of all, both in absolute value. If this number is
# hardly larger than a rounding error, as for the function below, the mixing goes unnoticed:

barely = lambda X: X + 1e-6 * X.sum(0)
unnoticed = pullback.jacobian(barely, X, batched=True)
torch.allclose(unnoticed, torch.eye(3).expand(5, 3, 3), atol=1e-5)

# %%
# As a check, we compare the seven ways on this page with the derivative worked out by hand,
# which is :math:`\operatorname{diag}(1-y^2)\,W` for each sample:

by_hand = (1 - f(X) ** 2)[:, :, None] * W
for result in (blocks, summed, of_sum, stacked.movedim(0, 1), mapped, shared, batched):
    torch.testing.assert_close(result, by_hand)
assert refused == list(refusing)
assert torch.equal(in_its_place, torch.stack([torch.ones_like(X), 2 * X], dim=1))
assert (same == same[0]).all()
assert torch.equal(captured[0], torch.diag(1 / X.exp().sum(0)))  # the sum as a constant
in_truth = torch.func.jacrev(lambda X: X / X.exp().sum(0))(X)[0, :, 0]
assert not torch.allclose(in_truth, captured[0])
series = torch.randn(2, 4, 3, requires_grad=True)  # two steps in time, four samples
of_gru = torch.autograd.grad(gru(series)[0][-1, :, 0].sum(), series)[0]
for b in range(4):
    own = torch.autograd.grad(gru(series[:, b])[0][-1, 0], series)[0][:, b]
    torch.testing.assert_close(of_gru[:, b], own)
refusals = 0
for training, sample in (
    (torch.nn.BatchNorm1d(3), X[:1]),  # a batch of one row
    (torch.nn.BatchNorm1d(3).eval(), X[0]),  # no batch at all
):
    try:
        training(sample)
    except ValueError:
        refusals += 1
assert refusals == 2
assert torch.nn.BatchNorm2d(3)(images[:1]).shape == (1, 3, 2, 2)  # a batch of one image
try:
    torch.func.jacrev(lambda x: usual(x[None])[0])(images[0])
except RuntimeError:
    refusals += 1
assert refusals == 3
forgotten = torch.func.vmap(torch.func.jacrev(lambda x: forgetful(x[None])[0]))(images)
assert forgotten.shape == (4, 3, 2, 2, 3, 2, 2)
torch.testing.assert_close(scale, 2 * torch.eye(3).expand(5, 3, 3), rtol=1e-4, atol=0)

# %%
# Where next
# ----------
#
# :ref:`sparse-jacobian` is for Jacobians with zeros in other places, and
# :ref:`mixing-samples` is for functions that mix the samples.
#
# .. asked: Jacobian for every sample; batched Jacobian; (B, m, B, n) Jacobian;
#    vmap(jacrev); (B, out, B, in) mostly zeros, loop over samples slow; batch Jacobian by
#    a loop over y[:, i].sum(): why is summing over the batch allowed, does it not mix the
#    samples
# .. words: batch, each row, blocks, diagonal blocks, sum over the batch, (B, m, n)
