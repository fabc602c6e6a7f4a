r"""
.. _freezing-layers:

How do I freeze layers, and why do they still change?
=====================================================

``requires_grad_(False)`` keeps ``backward`` from giving weights a gradient, and no more.
BatchNorm moves its statistics until ``eval()``, which every ``model.train()`` undoes; an
optimizer moves whatever has a ``.grad``, by weight decay and momentum also where that is 0;
and a tied weight is frozen in both places or in none.
"""

# %%
# Fine-tuning: a ``backbone`` to keep, behind which a new head is trained:

from copy import deepcopy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)  # the same weights and data on every build
backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
data, label = torch.randn(8, 3), torch.arange(8) % 2

# %%
# What has changed in it after two epochs, at whose start ``prepare`` sets the mode:


def fine_tune(prepare):
    model = nn.Sequential(deepcopy(backbone).requires_grad_(False).eval(), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model[1].parameters())
    for _ in range(2):
        prepare(model)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), label).backward()
        optimizer.step()
    old, new = backbone.state_dict(), model[0].state_dict()
    return [name for name, t in new.items() if not torch.equal(t, old[name])]


# %%
# *requires_grad is False, and the features change between epochs.* The running statistics
# are buffers, not parameters. ``backbone.eval()`` once does not last: ``model.train()`` at
# the start of an epoch reaches all that is inside. Call ``eval`` after it:

print("train():", fine_tune(lambda model: model.train()))
print("and backbone.eval():", settled := fine_tune(lambda model: model.train()[0].eval()))

# %%
# Does it save memory?
# --------------------
#
# Where all is frozen from the input on, no graph is made, as under ``no_grad``. Behind a
# part that trains there must be one, as in a perceptual loss: a generator, with a frozen
# VGG behind it. ``no_grad`` around VGG cuts the generator off; it is for the *target*, a
# constant. Checkpointing keeps less, for a second forward (:ref:`checkpointing`):

vgg = nn.Sequential(*(nn.Sequential(nn.Linear(50, 50), nn.Tanh()) for _ in range(4)))


def look(features, image):
    kept = []  # tensors of the batch; the weights are there anyway
    pack = lambda t: (kept.append(t) if len(t) == 8 else None, t)[1]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = features(image)
    return f"kept {len(kept)}, a graph behind the output: {out.requires_grad}"


# %%
# For a picture from a file, and for one from a generator:

real, made = torch.randn(8, 50), torch.randn(8, 50, requires_grad=True)
frozen = deepcopy(vgg).requires_grad_(False).eval()
by_part = lambda image: checkpoint(frozen, image, use_reentrant=False)
print("file, VGG frozen       ", look(frozen, real))
print("generated, VGG trained ", look(vgg, made))
print("generated, VGG frozen  ", look(frozen, made))
print("generated, no_grad     ", look(torch.no_grad()(frozen.forward), made))
print("generated, checkpointed", look(by_part, made))

# %%
# Frozen in mid-training
# ----------------------
#
# *I freeze a layer after some epochs, and it goes on moving.* The optimizer asks for
# ``.grad``, not for ``requires_grad``. A gradient left from before is used again; set it to
# None. Zeros do not do: momentum and decay move the weight on (:ref:`frozen-and-stepped`).

w = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
w.sum().backward()
w.requires_grad_(False)
for grad in (w.grad, None):
    w.grad = grad
    optimizer.step()
    print(f"a step with .grad = {grad}: {w.item():.1f}")

# %%
# Some rows of an embedding
# -------------------------
#
# *A hook makes the gradient of the old rows 0, and AdamW moves them.* Its ``weight_decay``
# is 0.01 unless you say otherwise, and rows that had a gradient before the hook live on in
# Adam's moments:


def drift(hook_at=0, copy_back=0, **options):
    table = nn.Embedding.from_pretrained(torch.ones(5, 2), freeze=False)
    optimizer = torch.optim.AdamW(table.parameters(), lr=0.1, **options)
    for step in range(4):
        start = table.weight.detach().clone()
        if step == hook_at:  # rows 3 and 4 are the new tokens
            table.weight.register_hook(lambda g: g * torch.arange(5)[:, None].ge(3))
        optimizer.zero_grad()
        table(torch.tensor([0, 1, 3])).square().sum().backward()
        optimizer.step()
        table.weight.detach()[:copy_back] = start[:copy_back]
    return round((table.weight.detach() - start)[:3].abs().max().item(), 4)


# %%
# How far the old rows move in the last step. Either decay off *and* the hook from the first
# step on, or the old rows copied back after each step. Safest are two tensors, one of them
# a buffer (:ref:`part-of-a-tensor`):

print("AdamW as it comes:", drift())
print("weight_decay=0:", drift(weight_decay=0.0))
print("weight_decay=0, hook after a step:", drift(1, weight_decay=0.0))
print("AdamW, copied back:", drift(copy_back=3))

# %%
# Tied weights
# ------------
#
# *Can I freeze the input embedding and train the tied head?* Not as one tensor: the flag is
# the tensor's. ``detach`` on the embedding's result takes away that path's part of the
# gradient, and the embedding still moves with the head. Untie them: a copy for one:

embedding, head = nn.Embedding(5, 2), nn.Linear(2, 5, bias=False)
head.weight = embedding.weight
ids = torch.tensor([0, 1])
head(embedding(ids).detach()).logsumexp(1).sum().backward()
print("rows with a gradient:", head.weight.grad.any(1).sum().item())
embedding.weight.requires_grad_(False)
print("tied:", head.weight.requires_grad, end=", ")
embedding.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
head.weight.requires_grad_(True)
print("untied:", head.weight.requires_grad)

# %%
# The check: through VGG the gradient is the same trained, frozen and checkpointed:

g = [torch.autograd.grad(f(made).sum(), made)[0] for f in (vgg, frozen, by_part)]
torch.testing.assert_close(g[1:], [g[0], g[0]])
assert drift(weight_decay=0.0) == drift(copy_back=3) == 0 < drift()
assert settled == []

# %%
# Where next
# ----------
#
# Through a frozen network to its input: :ref:`through-a-frozen-network`. Part of a weight:
# :ref:`part-of-a-tensor`. ``detach`` or ``no_grad``: :ref:`no-grad-detach`.
#
# .. asked: freeze layers; do not train some weights; frozen layers still change;
#    requires_grad False; fine-tune only the last layer; keep a part of the network
#    fixed; freeze batch norm; unfreeze later; this part must not be changed by
#    training; weights are frozen, but batch norm changes; do not update the backbone;
#    keep pretrained weights
