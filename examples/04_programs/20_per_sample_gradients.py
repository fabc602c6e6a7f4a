r"""
.. _per-sample-gradients:

Per-sample gradients
====================

After ``loss.backward()`` there is one gradient for the whole batch, but you need one for
*each sample*. You may want to limit the influence of a single patient's record on a
network, to find the picture with the wrong label, or to see which samples pull against
each other. A loop over the batch gives the right gradients, but is slow. This page
computes them in one call with :func:`torch.func.vmap`, and shows that for clipping you
need not even keep the gradients, if you choose ``v`` well.
"""

# %%
# Why the separate gradients are gone after backward
# --------------------------------------------------
#
# The losses of ``B`` samples are ``B`` numbers. Their :term:`Jacobian` with respect to the
# weights has a row for each sample, and you are looking for these rows. But a training loop
# asks for the gradient of the sum or the mean, which is a product :math:`v^\top J` with
# equal entries in ``v``. It *adds up the rows*, and no tool can take a sum apart
# afterwards. So we have to compute the gradients in a different way.
#
# We write the loss of **one** sample as a function of the weights, take its gradient with
# ``grad``, and let ``vmap`` run it over the batch. ``in_dims`` says which arguments are
# different for each sample. The weights are not, so their entry is None. The sample and
# its target are, so their entries are 0, the dimension of the batch:

import torch
from torch import nn


def per_sample_gradients(model, loss_of_one, data, target):
    """Return a dict with the gradient of each sample's loss, of shape (B, *parameter)."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, sample, goal):
        out = torch.func.functional_call(model, weights, (sample,))
        return loss_of_one(out, goal)

    gradient = torch.func.grad(loss)
    return torch.func.vmap(gradient, in_dims=(None, 0, 0))(weights, data, target)


# %%
# You can copy this function. ``weights`` are the parameters themselves, but detached, so
# that the result has no graph. We try the function with a small network, six points, and
# a squared error:

torch.manual_seed(0)  # weights and data that are the same on every build
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
data, target = torch.randn(6, 2), torch.randn(6, 1)


def squared(out, goal):
    return ((out - goal) ** 2).sum()


gradients = per_sample_gradients(model, squared, data, target)
for name, g in gradients.items():
    print(f"{name:9} {tuple(g.shape)}")

# %%
# The gradient of each parameter now has a first dimension of 6, with one entry for each
# sample. So the gradients take six times the memory of the parameters. With a
# ``chunk_size`` for ``vmap`` you save memory during the computation, since it takes a few
# samples at a time, but the result is still as large. If that is too much, call the
# function on a few samples at a time, and keep only the part of each gradient that you
# need, such as its length.
#
# As long as samples do not mix, and no dropout draws different masks, the sum over the
# first dimension should equal the gradient that ``backward`` leaves for the sum of the
# losses, and the mean should equal the gradient for the mean:

for reduce in (torch.sum, torch.mean):
    model.zero_grad()
    reduce((model(data) - target) ** 2).backward()
    same = [
        torch.allclose(p.grad, reduce(gradients[name], 0), atol=1e-6)
        for name, p in model.named_parameters()
    ]
    print(reduce.__name__, all(same))

# %%
# Which sample pulls hardest?
# ---------------------------
#
# The first use of these gradients is to look at their lengths. Suppose that somebody has
# mistyped a target, so that there is a 30 among numbers of magnitude about 1. For each
# sample, ``rows`` joins the gradients of *all* parameters into one row:


def rows(gradients):
    return torch.cat([g.flatten(1) for g in gradients.values()], dim=1)


mistyped = target.clone()
mistyped[4] = 30.0
lengths = rows(per_sample_gradients(model, squared, data, mistyped)).norm(dim=1)

import pullback

pullback.draw.bars(
    {"length of the gradient": lengths},
    names=[f"sample {i}" for i in range(6)],
    alt="The length of each sample's gradient; that of sample 4 is far above the others",
)

# %%
# Sample 4 alone would decide the direction of a step along the mean gradient. The mean
# itself would be rather large, but it would not show which sample is the cause.
#
# Clipping each sample (DP-SGD)
# -----------------------------
#
# Private training goes one step further (Abadi et al., 2016). No sample, however odd, may
# add more than a length of ``C`` to the sum of the gradients, so each longer gradient is
# shortened to the length ``C``. After ``backward`` it is too late for this, because
# ``clip_grad_norm_`` sees only the sum. With the rows you need only one factor for each
# sample:

flat = rows(gradients)
norms = flat.norm(dim=1)
C = 1.0
factor = (C / norms).clamp(max=1)
print("lengths", [round(n, 2) for n in norms.tolist()])
print("longest after clipping", round((flat * factor[:, None]).norm(dim=1).max().item(), 4))

# %%
# This is where ``v`` helps. In the end we want the *sum of the clipped rows*,
# :math:`\sum_i f_i\,J_i`, which is a product with the factors as ``v``. So if you know
# the factors, an ordinary ``backward`` on the vector of losses gives the clipped sum, and
# you need not keep the gradients themselves:

model.zero_grad()
losses = ((model(data) - target) ** 2).sum(1)  # (6,), not reduced
losses.backward(factor)
clipped = torch.cat([p.grad.flatten() for p in model.parameters()])
print(torch.allclose(clipped, factor @ flat, atol=1e-6))
sigma = 1.1
private = (clipped + sigma * C * torch.randn(clipped.shape)) / len(data)

# %%
# The last line of the code adds the noise that, together with the clipping, makes the
# step private. The noise is added to the *sum*. Its size is given by the bound ``C`` and
# not by the data. The division by the batch size comes last. Libraries for private
# training can find the norms without forming the rows (*ghost clipping*), and then do the
# same second pass.
#
# Who moves whom? The tangent kernel
# ----------------------------------
#
# A third use compares the rows with each other. Take the Jacobian of the *outputs*
# instead of the losses, and multiply each row by each other row: :math:`K=JJ^\top` is the
# *neural tangent kernel*, ``B`` by ``B`` for one output. Entry (i, j) says how far the
# output of sample i moves in a small step that raises the output of sample j:


def output(out, goal):
    return out[0]


J = rows(per_sample_gradients(model, output, data, target))
kernel = J @ J.T

import pullback.plot

ax = pullback.plot.heatmap(
    kernel,
    title="The tangent kernel of six samples: how far one moves another",
    xlabel="sample",
    ylabel="sample",
)

# %%
# The diagonal is a sample's influence on itself. A large entry off the diagonal means that
# the network cannot learn one of the two samples without moving the output of the other. We
# can check this interpretation. After a small step of gradient descent on the sum of the
# losses, the outputs should have moved by :math:`-\eta K r`, where :math:`r` holds the
# slopes of the losses at the outputs:

rate = 1e-4
out = model(data).detach()
moved = {
    name: p.detach() - rate * gradients[name].sum(0) for name, p in model.named_parameters()
}
change = torch.func.functional_call(model, moved, (data,)) - out
predicted = -rate * kernel @ (2 * (out - target))
print(((change - predicted).norm() / change.norm() < 0.01).item())

# %%
# What to watch for
# -----------------
#
# **BatchNorm.** Inside ``vmap`` a sample has no batch dimension, and so the first message
# is about the shape. People then add the dimension with ``sample[None]``, and get the
# second message: in training, BatchNorm divides by the spread of the batch, and one sample
# alone has no spread. A single image does have a spread, over its pixels. But then
# BatchNorm would have to write its running statistics, which ``vmap`` refuses, as the third
# message says:

norm = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
image = lambda s: nn.BatchNorm2d(2)(s.view(1, 2, 1, 1).tile(4, 4))
for f in (norm, lambda sample: norm(sample[None])[0], image):
    try:
        torch.func.vmap(f)(data)
    except (ValueError, RuntimeError) as error:
        print(str(error).partition(", which")[0])

# %%
# No tool can help here. If the loss of a sample depends on the other samples of the batch,
# this sample has no separate loss, and so it has no separate gradient either. In ``eval``
# mode each sample has a gradient of its own. With GroupNorm, which looks at one sample at a
# time, this is true in training mode as well. Here is the call in ``eval`` mode:

norm.eval()
print(torch.func.vmap(lambda sample: norm(sample[None])[0])(data).shape)

# %%
# **Dropout** is refused by ``vmap`` until you say whether all samples share a mask, with
# ``"same"``, or each sample draws its own, with ``"different"``. In an ordinary batch each
# sample draws its own:

noisy = nn.Dropout(0.5)
try:
    torch.func.vmap(noisy)(data)
except RuntimeError as error:
    print(str(error)[:66])
print(torch.func.vmap(noisy, randomness="different")(data).shape)

# %%
# **A loop that collects** ``.grad`` **may collect one tensor many times.** With
# ``set_to_none=False``, ``zero_grad`` and the next ``backward`` edit the same tensor, and
# all entries of the list change with it. So append a clone. With the default,
# ``zero_grad`` sets ``.grad`` to None, and each ``backward`` makes a new tensor. Here we
# keep ``.grad`` itself, and then a clone:

for keep in (lambda g: g, torch.clone):
    kept = []
    for sample, goal in zip(data[:3], target, strict=False):
        model.zero_grad(set_to_none=False)
        ((model(sample) - goal) ** 2).sum().backward()
        kept.append(keep(model[2].bias.grad))
    print([round(g.item(), 2) for g in kept])

# %%
# **A network that wants a batch dimension.** Inside the function a picture has the shape
# ``(3, 8, 8)``, and ``nn.Flatten`` takes the 3 for the size of a batch. Give each sample
# a batch dimension of size 1 with ``pictures[:, None]``, and remove this dimension in the
# loss:

pictures, kinds = torch.randn(6, 3, 8, 8), torch.tensor([0, 2, 1, 1, 0, 2])
network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def of_picture(out, goal):
    return nn.functional.cross_entropy(out[0], goal)


of_pictures = per_sample_gradients(network, of_picture, pictures[:, None], kinds)
print({name: tuple(g.shape) for name, g in of_pictures.items()})

# %%
# **Copies of the weights** are another way that people try: one copy for each sample, and
# a single ``backward`` gives each copy its own gradient. This works for layers that you
# can write as a batched product yourself:

first = model[0].weight.detach().expand(6, 3, 2).clone().requires_grad_()
hidden = torch.tanh((first @ data[:, :, None])[..., 0] + model[0].bias)
((model[2](hidden) - target) ** 2).sum().backward()
print(torch.allclose(first.grad, gradients["0.weight"], atol=1e-6))

# %%
# .. admonition:: Try it
#
#    Use the function for a classifier: three classes, ``nn.Linear(2, 3)``, and
#    cross-entropy. What does ``loss_of_one`` have to be, given that inside ``vmap`` the
#    output has the shape ``(3,)`` and the class the shape ``()``?
#
# .. dropdown:: Answer
#
#    It can be ``F.cross_entropy`` as it is, because this function also takes the scores
#    of a single sample:

classes = torch.tensor([0, 2, 1, 1, 0, 2])
classifier = nn.Linear(2, 3)
of_each = per_sample_gradients(classifier, nn.functional.cross_entropy, data, classes)
print({name: tuple(g.shape) for name, g in of_each.items()})

# %%
# .. dropdown:: How we checked this page
#
#    We compare each row with the result of ``backward`` on that sample alone, for the
#    classifier and the pictures as well. We compare the clipped sum with the factors times
#    the rows, and the outputs after a step with the prediction of the kernel.

for i in range(6):
    model.zero_grad()
    ((model(data[i]) - target[i]) ** 2).sum().backward()
    one = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(flat[i], one)
    classifier.zero_grad()
    nn.functional.cross_entropy(classifier(data[i]), classes[i]).backward()
    torch.testing.assert_close(of_each["weight"][i], classifier.weight.grad)
    network.zero_grad()
    nn.functional.cross_entropy(network(pictures)[i], kinds[i]).backward()
    for name, p in network.named_parameters():
        torch.testing.assert_close(of_pictures[name][i], p.grad)
for reduce in (torch.sum, torch.mean):
    model.zero_grad()
    reduce((model(data) - target) ** 2).backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, reduce(gradients[name], 0))
assert lengths.argmax() == 4
assert lengths[4] > 5 * lengths[[0, 1, 2, 3, 5]].max()
torch.testing.assert_close(clipped, factor @ flat)
torch.testing.assert_close(first.grad, gradients["0.weight"])
assert (change - predicted).norm() < 0.01 * change.norm()
torch.testing.assert_close(torch.stack(kept), gradients["2.bias"][:3])

# %%
# **Next:** If there is more than one output for each sample, read
# :ref:`jacobian-per-sample`. For what ``vmap`` cannot do, read :ref:`vmap-limits`.
# :ref:`mixing-samples` is about layers in which samples mix. To give samples weights by
# means of ``v``, read :ref:`loss-as-v`.
#
# .. asked: per-sample gradients; gradient for each sample of a batch; individual
#    gradients; gradients of every example; differential privacy gradients; vmap grad;
#    do not sum the gradients over the batch; gradient of each loss separately;
#    gradients of a batch kept apart; one gradient per row; separate gradient for each
#    picture; gradient of every data point
# .. words: individual, each example, privacy, clip each, opacus, influence, batch of
#    gradients, not summed, backpack, outlier samples, gradient variance
