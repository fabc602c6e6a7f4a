r"""
.. _per-sample-gradients:

Per-sample gradients
====================

After ``loss.backward()`` there is one gradient for the whole batch. This function returns
one for *each sample*, in one call, without a loop. You can copy it for any network in which
samples do not mix (set one with BatchNorm to ``eval()``), with the loss of your training:
"""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def per_sample_gradients(model, loss_fn, data, target):
    """Return a dict with the gradient of each sample's loss, of shape (B, *parameter)."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, sample, goal):  # a batch of one
        return loss_fn(functional_call(model, weights, (sample[None],)), goal[None]).sum()

    return vmap(grad(loss), in_dims=(None, 0, 0))(weights, data, target)


# %%
# To limit how much each sample can move the network, shorten the gradients that are too
# long, and only then take the mean. ``limit / lengths`` is below 1 for these. Divide by a
# fixed number, ``size``, not by how many samples came:


def clipped_mean(model, loss_fn, data, target, limit, size):
    """Return a dict with the sum of the shortened gradients, over size."""
    each = per_sample_gradients(model, loss_fn, data, target)
    lengths = torch.cat([g.flatten(1) for g in each.values()], dim=1).norm(dim=1)
    factor = (limit / lengths).clamp(max=1)  # (B,)
    return {name: torch.tensordot(factor, g, dims=1) / size for name, g in each.items()}


# %%
# Which picture pulls hardest at the weights? The lengths of the gradients sort the 32
# pictures:

torch.manual_seed(0)  # the same network and pictures on every build
network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
pictures, kinds = torch.randn(32, 3, 8, 8), torch.randint(3, (32,))

of_pictures = per_sample_gradients(network, nn.CrossEntropyLoss(), pictures, kinds)
pulls = torch.cat([g.flatten(1) for g in of_pictures.values()], dim=1).norm(dim=1)
print({name: tuple(g.shape) for name, g in of_pictures.items()})
print(pulls.shape, "hardest:", pulls.argsort(descending=True)[:3].tolist())

# %%
# The optimizer gets the clipped mean as ``p.grad``. One ``backward`` with the same factors
# as ``v`` agrees:

limit, size = pulls.median(), 32
clipped = clipped_mean(network, nn.CrossEntropyLoss(), pictures, kinds, limit, size)
for name, p in network.named_parameters():
    p.grad = clipped[name]

losses = nn.functional.cross_entropy(network(pictures), kinds, reduction="none")
v = (limit / pulls).clamp(max=1) / size
by_v = torch.autograd.grad(losses, [*network.parameters()], v)
pairs = zip(clipped.values(), by_v, strict=True)
print("the same:", all(torch.allclose(g, h, atol=1e-6) for g, h in pairs))

# %%
# If one picture is left out, the mean moves by at most ``limit / size``. With ``/ 31`` for
# those who stayed, it can move further:


def change_without(k, count):
    rest = torch.arange(32) != k
    data, target = pictures[rest], kinds[rest]
    new = clipped_mean(network, nn.CrossEntropyLoss(), data, target, limit, count)
    return torch.cat([(clipped[n] - g).flatten() for n, g in new.items()]).norm()


furthest = {}
for count in (32, 31):
    furthest[count] = max(change_without(k, count) for k in range(32)) / (limit / size)
    print(f"/ {count}: {100 * furthest[count].item():.1f}% of limit / size")

# %%
# The loss function sees a batch of one. Its target must have the shape of the output, so if
# your network returns ``(B, 1)`` and the targets are ``(B,)``, pass ``target[:, None]``.
# The first call takes longer than the others. You may also want to see which samples pull
# against each other. For clipping you need not even keep the gradients, if you choose ``v``
# well (below).
#
# Why the separate gradients are gone after backward
# --------------------------------------------------
#
# The losses of ``B`` samples are ``B`` numbers. Their :term:`Jacobian` with respect to the
# weights has a row for each sample, and you are looking for these rows. But a training loop
# asks for the gradient of the sum or the mean, which is a product :math:`v^\top J` with
# equal entries in ``v``. It *adds up the rows*, and no tool can take a sum apart
# afterwards. So we have to compute the gradients in a different way.
#
# Therefore the function takes the loss of **one** sample as a function of the weights. It
# takes the gradient with ``grad``, and lets ``vmap`` run it over the batch. ``in_dims``
# says which arguments are different for each sample. The weights are not, so their entry is
# None. The sample and its target are, so their entries are 0, the dimension of the batch.
# Inside, ``sample[None]`` is a batch of one, as layers and losses expect a batch. The
# mean over a batch of one is the sample's own loss, so a loss with ``reduction="mean"``
# gives each gradient in its full length.
#
# ``weights`` are the parameters themselves, but detached, so that the result has no graph.
# We try the function with a small network, six points, and a squared error:

torch.manual_seed(0)  # weights and data that are the same on every build
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
data, target = torch.randn(6, 2), torch.randn(6, 1)


def squared(out, goal):
    return (out - goal) ** 2


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
summed = torch.cat([p.grad.flatten() for p in model.parameters()])
print(torch.allclose(summed, factor @ flat, atol=1e-6))
sigma = 1.1
private = (summed + sigma * C * torch.randn(summed.shape)) / 6  # a fixed number

# %%
# The last line of the code adds the noise that, together with the clipping, makes the
# step private. The noise is added to the *sum*. Its size is given by the bound ``C`` and
# not by the data. The division comes last, by a fixed number such as the expected size of a
# batch. Libraries for private training can find the norms without forming the rows (*ghost
# clipping*), and then do the same second pass.
#
# Who moves whom? The tangent kernel
# ----------------------------------
#
# A third use compares the rows with each other. Take the Jacobian of the *outputs*
# instead of the losses, and multiply each row by each other row: :math:`K=JJ^\top` is the
# *neural tangent kernel*, ``B`` by ``B`` for one output. Entry (i, j) says how far the
# output of sample i moves in a small step that raises the output of sample j:


def output(out, goal):
    return out


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
change = functional_call(model, moved, (data,)) - out
predicted = -rate * kernel @ (2 * (out - target))
print(((change - predicted).norm() / change.norm() < 0.01).item())

# %%
# What to watch for
# -----------------
#
# **BatchNorm.** Inside ``vmap`` a sample has no batch dimension, and so the first message
# is about the shape. Our function adds the dimension with ``sample[None]``, and gives the
# second message: in training, BatchNorm divides by the spread of the batch, and one sample
# alone has no spread. A single image does have a spread, over its pixels. But then
# BatchNorm would have to write its running statistics, which ``vmap`` refuses, as the third
# message says:

norm = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
image = lambda s: nn.BatchNorm2d(2)(s.view(1, 2, 1, 1).tile(4, 4))
for f in (norm, lambda sample: norm(sample[None])[0], image):
    try:
        vmap(f)(data)
    except (ValueError, RuntimeError) as error:
        print(str(error).partition(", which")[0])

# %%
# No tool can help here. If the loss of a sample depends on the other samples of the batch,
# this sample has no separate loss, and so it has no separate gradient either. In ``eval``
# mode each sample has a gradient of its own. With GroupNorm, which looks at one sample at a
# time, this is true in training mode as well. Here is the call in ``eval`` mode:

norm.eval()
print(vmap(lambda sample: norm(sample[None])[0])(data).shape)

# %%
# **Dropout** is refused by ``vmap`` until you say whether all samples share a mask, with
# ``"same"``, or each sample draws its own, with ``"different"``. In an ordinary batch each
# sample draws its own:

noisy = nn.Dropout(0.5)
try:
    vmap(noisy)(data)
except RuntimeError as error:
    print(str(error)[:66])
print(vmap(noisy, randomness="different")(data).shape)

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
#    Replace ``nn.CrossEntropyLoss()``, which is a mean, with the sum,
#    ``nn.CrossEntropyLoss(reduction="sum")``. By which factor do the 32 lengths change?
#
# .. dropdown:: Answer
#
#    They do not change, because the function calls the loss with a batch of one. The mean
#    over one sample is the sum over it, and also the loss that has not been reduced at all:

for reduction in ("sum", "none"):
    loss_fn = nn.CrossEntropyLoss(reduction=reduction)
    others = per_sample_gradients(network, loss_fn, pictures, kinds)
    same = [torch.allclose(others[name], g) for name, g in of_pictures.items()]
    print(reduction, all(same))

# %%
# .. dropdown:: How we checked this page
#
#    We compare each row with the result of ``backward`` on that sample alone, for the
#    pictures as well. We compare the clipped sum with the factors times
#    the rows, and the outputs after a step with the prediction of the kernel.

for i in range(6):
    model.zero_grad()
    ((model(data[i]) - target[i]) ** 2).sum().backward()
    one = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(flat[i], one)
for i in range(32):
    network.zero_grad()
    nn.functional.cross_entropy(network(pictures)[i], kinds[i]).backward()
    for name, p in network.named_parameters():
        torch.testing.assert_close(of_pictures[name][i], p.grad)
    one = torch.cat([p.grad.flatten() for p in network.parameters()])
    torch.testing.assert_close(pulls[i], one.norm())
assert all(same)
for reduce in (torch.sum, torch.mean):
    model.zero_grad()
    reduce((model(data) - target) ** 2).backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, reduce(gradients[name], 0))
assert lengths.argmax() == 4
assert lengths[4] > 5 * lengths[[0, 1, 2, 3, 5]].max()
torch.testing.assert_close(summed, factor @ flat)
assert furthest[32] < 1.0001
assert furthest[31] > 1.01
torch.testing.assert_close(first.grad, gradients["0.weight"])
assert (change - predicted).norm() < 0.01 * change.norm()
torch.testing.assert_close(torch.stack(kept), gradients["2.bias"][:3])

# %%
# **Next:** If there is more than one output for each sample, read
# :ref:`jacobian-per-sample`. For what ``vmap`` cannot do, read :ref:`vmap-limits`.
# :ref:`mixing-samples` is about layers in which samples mix. To give samples weights by
# means of ``v``, read :ref:`loss-as-v`.
#
# .. asked: limit how much each patient can change the model; cap the gradient of each
#    sample; clip each sample's gradient before averaging; per-sample gradients;
#    gradient for each sample of a batch; individual gradients; gradients of every
#    example; differential privacy gradients; vmap grad; do not sum the gradients over
#    the batch; gradient of each loss separately; gradients of a batch kept apart; one
#    gradient per row; separate gradient for each picture; gradient of every data point;
#    how hard each single picture pulls on the weights; which pictures have a wrong
#    label; all 32 gradients in one go, not 32 times one picture
# .. words: individual, each example, privacy, clip each, opacus, influence, batch of
#    gradients, not summed, backpack, outlier samples, gradient variance
