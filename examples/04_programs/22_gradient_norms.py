r"""
.. _gradient-norms:

Per-sample gradient norms without the per-sample gradients
==========================================================

This function returns the length of each sample's gradient in one call, without a loop. You
can copy it for any network in which samples do not mix (set one with BatchNorm to
``eval()``), with the loss of your training. With ``chunk_size=8`` the gradients of only
eight samples exist at the same time:
"""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def gradient_norms(model, loss_fn, data, target, chunk_size=None):
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def norm_of_one(sample, goal):  # a batch of one, which a mean does not shorten
        loss = lambda w: loss_fn(functional_call(model, w, (sample[None],)), goal[None])
        gradients = grad(lambda w: loss(w).sum())(weights)
        return torch.stack([g.norm() for g in gradients.values()]).norm()

    return vmap(norm_of_one, chunk_size=chunk_size)(data, target)


torch.manual_seed(0)  # the same network and pictures on every build
classifier = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
pictures, kinds = torch.randn(32, 3, 8, 8), torch.randint(3, (32,))
norms = gradient_norms(classifier, nn.CrossEntropyLoss(), pictures, kinds)
norms.argsort(descending=True)[:3]  # the pictures that pull hardest at the weights

# %%
# The rest of this page is about a network of linear layers alone. There you can compute the
# lengths during an ordinary ``backward``, with two hooks on each layer, and no gradient of
# a sample is ever formed. Then a second ``backward`` with the right ``v`` limits the
# gradient of every sample. We use this for sensors: one reading in ten comes from a sensor
# that is stuck, and pulls at the network much harder than a correct one.
#
# The length of an outer product
# ------------------------------
#
# A linear layer computes :math:`z=Wa+b`. Let ``v`` be the :term:`cotangent` that arrives at
# its output, for *one* sample. Then the gradient of this sample is the outer product
# :math:`va^\top` for the weight, and ``v`` itself for the bias. The length of an outer
# product is the product of the two lengths, so the outer product never has to be formed:
#
# .. math::
#
#    \lVert g_i\rVert^2=\lVert v_i\rVert^2\,\bigl(\lVert a_i\rVert^2+1\bigr).
#
# The 1 comes from the bias, and is absent for a layer without a bias. If there are several
# layers, we add up these squares over the layers. Both vectors are available during an
# ordinary forward and backward pass. A forward hook sees the layer's input, of shape ``(B,
# in)``, and a hook on the layer's output sees ``v``, of shape ``(B, out)``, with a row for
# each sample. A layer of another kind raises an error, because its part would be missing:


def watch(model, squares):
    """Let each backward append one (B,) tensor per linear layer to ``squares``."""
    for name, layer in model.named_modules():
        if type(layer) is not nn.Linear and [*layer.parameters(recurse=False)]:
            kind = type(layer).__name__
            raise TypeError(f"{name or 'the model'} is a {kind}, and only Linear is known")

    def forward_hook(layer, args, z):
        if z.dim() != 2:
            raise ValueError("each sample has to be one row")
        both = (args[0].detach() ** 2).sum(1) + (layer.bias is not None)
        z.register_hook(lambda v: squares.append((v**2).sum(1) * both))

    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return [layer.register_forward_hook(forward_hook) for layer in layers]


# %%
# Now we want the length of each sample's *own* gradient. So ``v`` has a 1 for every loss:
# each loss counts once, and nothing is divided by the number of samples. We differentiate
# with respect to the data. Then ``backward`` has to pass through every layer, but it does
# not compute the gradients of the weights, which we do not need:


def norms_by_hooks(model, loss, data, target):
    """Return the length of each sample's gradient, and the losses with their graph."""
    squares = []
    handles = watch(model, squares)
    leaf = data.detach().requires_grad_()
    losses = loss(model(leaf), target)
    for handle in handles:
        handle.remove()
    if losses.shape != (len(data),):
        raise ValueError('the loss must return one number a sample: reduction="none"')
    torch.autograd.grad(losses, leaf, torch.ones_like(losses), retain_graph=True)
    return torch.stack(squares).sum(0).sqrt(), losses


# %%
# Readings from stuck sensors
# ---------------------------
#
# Our readings follow a curve with a little noise. Twelve of the 120 are stuck at 4:

x = torch.linspace(-1, 1, 120)[:, None]
curve = torch.sin(3 * x)
generator = torch.Generator().manual_seed(0)  # the same readings on every build
readings = curve + 0.1 * torch.randn(120, 1, generator=generator)
stuck = torch.randperm(120, generator=generator)[:12]
readings[stuck] = 4.0

# %%
# We train a network with the squared error, once as usual and once with a limit ``C`` for
# the length of a sample's gradient. A longer gradient should be multiplied by ``C /
# length``. We do not have the gradients, but we do not need them either. The step needs
# only their *sum* with these factors, which is a product with the factors as ``v``. The
# graph is still there, so one more ``backward`` gives this sum:


def squared(out, goal):
    return ((out - goal) ** 2)[:, 0]


def train(C):
    torch.manual_seed(0)  # the same weights for both
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(300):
        norms, losses = norms_by_hooks(network, squared, x, readings)
        v = (C / norms).clamp(max=1)  # 1 for a gradient that is short enough
        optimizer.zero_grad()
        losses.backward(v / len(v))
        optimizer.step()
    return network, norms


usual, _ = train(C=float("inf"))  # nothing is limited
limited, norms = train(C=1.0)
for name, network in {"as usual": usual, "limited": limited}.items():
    print(f"{name:9} {(network(x) - curve).abs().mean():.2f} from the curve on average")

# %%
# The picture shows the two fits:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.6))
ax.plot(x, readings, ".", color="grey", label="readings")
for name, network in {"as usual": usual, "each sample limited": limited}.items():
    ax.plot(x, network(x).detach(), linewidth=2, label=name)
ax.legend(loc="upper left", bbox_to_anchor=(0, 0.93))
title = ax.set_title("Twelve stuck readings lift the usual fit")

# %%
# The twelve stuck readings have lifted the usual fit. The other fit follows the correct
# readings, although nobody has told the network which readings these are. Do the longest
# gradients at the end of the training belong to the stuck sensors?

longest = norms.topk(12).indices
print("the twelve that are stuck:", set(longest.tolist()) == set(stuck.tolist()))
print(f"median length {norms.median():.1f}, shortest of the stuck {norms[stuck].min():.0f}")

# %%
# They do. With ``C = 1.0`` a stuck reading counts about one twenty-fifth as much as it
# would without a limit, and most of the correct readings count in full. Private training
# also limits each sample, so that no patient's record can be seen in the weights, and adds
# noise afterwards (:ref:`per-sample-gradients`). In private training this method is called
# *ghost clipping*. Importance sampling, and the search for wrong labels, use the same
# norms.
#
# Are these the right lengths?
# ----------------------------
#
# We compare them with ``gradient_norms``, which forms the gradients. You can use this as a
# test for your own model:

from torch.nn import functional as F


def entropy(scores, label):
    return F.cross_entropy(scores, label, reduction="none")


torch.manual_seed(0)  # the same weights and data on every build
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
data, label = torch.randn(6, 3).double(), torch.tensor([0, 1, 2, 3, 0, 1])
long_way = gradient_norms(model, entropy, data, label)
short_way, losses = norms_by_hooks(model, entropy, data, label)
print(long_way.round(decimals=3))
print(short_way.round(decimals=3))
print("left in .grad:", model[0].weight.grad)

# %%
# What to watch for
# -----------------
#
# **All norms are too small by a factor of the batch size.** If the loss is a mean, every
# sample's ``v`` already holds 1/B. Take the losses unreduced, as ``norms_by_hooks``
# demands, or multiply by B. Here the batch has six samples, and the norms of the mean are a
# sixth of the right norms:

squares = []
handles = watch(model, squares)
leaf = data.clone().requires_grad_()
mean = F.cross_entropy(model(leaf), label)
torch.autograd.grad(mean, leaf, retain_graph=True)
print((torch.stack(squares).sum(0).sqrt() / long_way).round(decimals=4))

# %%
# **The list of norms grows.** The handles remove the hooks on the *layers*. The hooks on
# the outputs belong to the graph, and run again in every backward pass through it. At
# first the list has two entries, one for each layer, and after a second backward pass
# through the same graph it has four. In ``norms_by_hooks`` this does no harm, because the
# lengths have been computed by then:

for handle in handles:
    handle.remove()
before = len(squares)
mean.backward()
print(before, len(squares))

# %%
# **A layer that sees a sequence.** With an input of shape ``(B, T, in)`` a layer is used
# at T places, and ``watch`` refuses it. The gradient of a sample is the sum of T outer
# products, and the lengths of these products do not tell you the length of their sum. Two
# tables of T by T numbers do:
#
# .. math::
#
#    \Bigl\lVert\sum_tv_ta_t^\top\Bigr\rVert^2=\sum_{st}(v_s\cdot v_t)(a_s\cdot a_t)
#
# for the weight, and the bias adds :math:`\sum_{st}v_s\cdot v_t`. For each sample these
# tables hold :math:`2T^2` numbers, so they are worthwhile if the layer has more weights
# than that. A convolution is such a layer as well, once its input has been unfolded into
# patches. The first ratios below compare the lengths from the tables with the right
# lengths. For the second ratios we add the squares of the T lengths, which is wrong:

a, v = torch.randn(6, 7, 3).double(), torch.randn(6, 7, 5).double()
per_sample = torch.einsum("bto,bti->boi", v, a).flatten(1).norm(dim=1)
gram = ((v @ v.mT) * (a @ a.mT)).sum((1, 2)).sqrt()
wrong = ((v**2).sum(2) * (a**2).sum(2)).sum(1).sqrt()
print((gram / per_sample).round(decimals=4))
print((wrong / per_sample).round(decimals=2))

# %%
# **A layer that is used twice**, or two layers with tied weights, get wrong lengths. The
# gradient of such a layer is the sum over its two uses, and our sum of squares leaves out
# the product of the two parts. Some of the ratios are no longer 1:

shared = nn.Linear(3, 3).double()
twice = nn.Sequential(shared, nn.Tanh(), shared, nn.Linear(3, 4).double())
found, _ = norms_by_hooks(twice, entropy, data, label)
print((found / gradient_norms(twice, entropy, data, label)).round(decimals=3))

# %%
# **Other layers are not known to the hooks.** A convolution, a LayerNorm or an embedding
# has weights, and their part of the length would be missing. ``watch`` names the layer.
# Take ``gradient_norms`` for such a network, here with the gradients of two samples at a
# time:

normed = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 4)).double()
try:
    norms_by_hooks(normed, entropy, data, label)
except TypeError as error:
    print(error)
print(gradient_norms(normed, entropy, data, label, chunk_size=2).round(decimals=3))

# %%
# **Samples that mix.** With BatchNorm in training mode there is no such thing as the
# gradient of one sample, so no method can find it (:ref:`mixing-samples`).
#
# .. admonition:: Try it
#
#    Train with ``C = 0.001``. Nearly all the time, every gradient is longer than this
#    limit, so each sample pulls with the same tiny strength. Does Adam still learn, and
#    would plain SGD?
#
# .. dropdown:: Answer
#
#    Adam divides each entry of the gradient by the typical size of its past values, so it
#    learns as before, and the limit only makes all samples equally strong. Plain SGD would
#    take steps of at most 0.001 times the learning rate, and stay where it is:

tiny, tiny_norms = train(C=0.001)
print("too long:", (tiny_norms > 0.001).float().mean().item() > 0.95)
off = (tiny(x) - curve).abs().mean().item()
print("Adam, near the curve:", off < 0.1)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the lengths with those of gradients that are computed one sample at a time,
#    and the lengths from the hooks with them, for a layer without a bias as well. We
#    compare the sum that ``backward(v)`` leaves with gradients that are computed one at a
#    time and shortened. We check, with some tolerance, which of the two fits is better.

torch.testing.assert_close(short_way, long_way)
torch.testing.assert_close(gram, per_sample)
for net, batch, goals in (
    (classifier, pictures, kinds),
    (normed, data, label),
):
    by_loop = []
    for i in range(len(batch)):
        own = F.cross_entropy(net(batch[i : i + 1]), goals[i : i + 1])
        pieces = torch.autograd.grad(own, list(net.parameters()))
        by_loop.append(torch.cat([g.flatten() for g in pieces]).norm())
    found = gradient_norms(net, F.cross_entropy, batch, goals, chunk_size=4)
    torch.testing.assert_close(found, torch.stack(by_loop))
weights = list(model.parameters())
factor = (1.45 / short_way).clamp(max=1)
clipped = torch.autograd.grad(losses, weights, factor)
assert 0 < (factor < 1).sum() < 6  # some are shortened, and some are not
total = [torch.zeros_like(p) for p in weights]
for i in range(6):
    own = torch.autograd.grad(
        F.cross_entropy(model(data[i : i + 1]), label[i : i + 1]), weights
    )
    length = torch.cat([g.flatten() for g in own]).norm()
    total = [t + g * min(1, 1.45 / length) for t, g in zip(total, own, strict=True)]
torch.testing.assert_close(list(clipped), total)

for net, loss, batch, word in (
    (nn.Linear(3, 3), lambda out, y: out, torch.ones(2, 7, 3), "one row"),
    (classifier, entropy, pictures, "0 is a Conv2d"),
    (model, F.cross_entropy, data, "one number a sample"),
):
    refused = ""
    try:
        norms_by_hooks(net, loss, batch, label)
    except (TypeError, ValueError) as error:
        refused = str(error)
    assert word in refused
bare = nn.Sequential(nn.Linear(3, 4, bias=False)).double()
torch.testing.assert_close(
    norms_by_hooks(bare, entropy, data, label)[0],
    gradient_norms(bare, entropy, data, label),
)
assert (limited(x) - curve).abs().mean() < 0.1 < 0.3 < (usual(x) - curve).abs().mean()
assert (norms < 1.0).sum() > 60
assert off < 0.1

# %%
# **Next:** For the per-sample gradients themselves, with clipping and noise, read
# :ref:`per-sample-gradients`. :ref:`hooks` explains what hooks see and when they run. To
# give every sample's loss an entry of ``v``, read :ref:`loss-as-v`.
#
# .. asked: per-sample gradient norm; norm of each sample's gradient; ghost clipping;
#    gradient norm of every example without storing them; importance of each sample;
#    data selection by gradient norm; how much does each sample pull; limit the influence
#    of outliers on training
# .. words: ghost, private, importance sampling, score each example, cheap norm, active
#    learning, data pruning, which samples matter
