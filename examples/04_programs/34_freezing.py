r"""
.. _freezing-layers:

How do I freeze layers, and why do they still change?
=====================================================

You take a trained network, set ``requires_grad`` to False for all layers except a new
last one, and train. A week later you compare the network with the original, and the part
that you had frozen has changed. What has happened? The flag does only one thing: it keeps
``backward`` from giving these weights a gradient. But BatchNorm and the optimizer can
still change a network, and neither of them looks at the flag.
"""

# %%
# Fine-tuning
# -----------
#
# ``backbone`` stands for the trained network. It contains a BatchNorm, as most networks for
# images do. The head is a separate layer after it:

from copy import deepcopy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)  # the same weights and data on every build
backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
data, label = torch.randn(8, 3), torch.arange(8) % 2

# %%
# We train for two epochs with the backbone frozen, and then list the tensors of the
# backbone that have changed. ``prepare`` stands for the line at the start of an epoch
# that sets the mode:


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
# Usually that line is ``model.train()``. The second time we put the backbone back into
# ``eval()`` mode after that line:

print("train():", fine_tune(lambda model: model.train()))
print("and backbone.eval():", settled := fine_tune(lambda model: model.train()[0].eval()))

# %%
# No weight has changed, but the *running statistics* of BatchNorm have. They are buffers,
# not parameters. They have no gradient, and they change in every forward pass in training
# mode. We did call ``eval()`` when we made the model. But ``model.train()`` at the start
# of each epoch reaches every layer inside the model, and undoes ``eval()``. So **freeze a
# part with both**, ``requires_grad_(False)`` once and ``eval()`` after every ``train()``.
#
# Does freezing save memory?
# --------------------------
#
# It depends on where the frozen part is. If the input requires no gradient and all layers
# from the input up to some layer are frozen, there is nothing to differentiate in these
# layers, and no graph is made for them. But in a *perceptual loss* a frozen network comes
# **after** a network that is trained: a generator makes a picture, and a frozen VGG judges
# it. Then ``v`` has to go back through VGG to reach the generator, and VGG must keep the
# tensors that this backward pass needs. We count the tensors that it keeps:

vgg = nn.Sequential(*(nn.Sequential(nn.Linear(50, 50), nn.Tanh()) for _ in range(4)))


def look(features, image):
    kept = []  # tensors of the batch; the weights are there anyway
    pack = lambda t: (kept.append(t) if len(t) == 8 else None, t)[1]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = features(image)
    return f"kept {len(kept)}, a graph behind the output: {out.requires_grad}"


# %%
# ``real`` comes from a file. ``made`` comes from a generator, so it requires a gradient:

real, made = torch.randn(8, 50), torch.randn(8, 50, requires_grad=True)
frozen = deepcopy(vgg).requires_grad_(False).eval()
by_part = lambda image: checkpoint(frozen, image, use_reentrant=False)
print("file, VGG frozen       ", look(frozen, real))
print("generated, VGG trained ", look(vgg, made))
print("generated, VGG frozen  ", look(frozen, made))
print("generated, no_grad     ", look(torch.no_grad()(frozen.forward), made))
print("generated, checkpointed", look(by_part, made))

# %%
# - For the picture from a file a frozen VGG keeps nothing.
# - For the generated picture it keeps 4 of the 8 tensors. The input of each linear layer
#   is needed only for the gradient of its weights, and the result of each tanh is needed
#   to pass ``v`` on. Do not expect half of the memory, though. The result of a tanh is
#   the input of the next layer, so the 8 entries are only five different tensors.
# - ``no_grad`` keeps nothing either, but then the output has no graph. The generator is
#   cut off, and if the loss has another term as well, there is no error. ``no_grad`` is
#   right for the *target*, the features of the real picture, since they are constants.
# - Checkpointing keeps only the input of VGG, and runs VGG a second time in the backward
#   pass (:ref:`checkpointing`).
#
# Freezing in the middle of training
# ----------------------------------
#
# A common plan is to train everything for some epochs and then freeze the first layers.
# People find that these layers go on moving. The optimizer does not look at
# ``requires_grad``, but at ``.grad``. ``zero_grad()`` sets ``.grad`` to None. But if the
# loop calls it with ``set_to_none=False``, or does not call it before the next step,
# ``.grad`` still holds a tensor. Here it holds the last gradient from before the
# freezing:

w = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
w.sum().backward()
w.requires_grad_(False)
for grad in (w.grad, None):
    w.grad = grad
    optimizer.step()
    print(f"a step with .grad = {grad}: {w.item():.1f}")

# %%
# The first step has used the old gradient. With None the optimizer skips the weight.
# Zeros in place of None would not be enough, because momentum and weight decay also move
# a weight whose gradient is 0 (:ref:`frozen-and-stepped`).
#
# Some rows of an embedding
# -------------------------
#
# You add two tokens to a language model, and want to train only the two new rows of its
# embedding. The flag belongs to a whole tensor, so people put a hook on the tensor that
# makes the gradient of the old rows 0. But the old rows still move. We try this with a
# table of five rows, of which the last two are new, and print how far the old rows move
# in the fourth step:


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
# We run it four times: with the hook alone, without weight decay, with the hook one step
# late, and with the old rows copied back after each step:

print("AdamW as it comes:", drift())
print("weight_decay=0:", drift(weight_decay=0.0))
print("weight_decay=0, hook after a step:", drift(1, weight_decay=0.0))
print("AdamW, copied back:", drift(copy_back=3))

# %%
# AdamW has a weight decay of 0.01 unless you say otherwise, and this decay pulls every row
# toward zero, whatever its gradient is. Without the decay the old rows stay where they are,
# but only if the hook was there from the first step on. Otherwise Adam's moments remember
# the one gradient that the old rows had, and go on moving these rows. You can also copy the
# old rows back after each step. It is safest to use two tensors, one of which is a buffer
# (:ref:`part-of-a-tensor`).
#
# Tied weights
# ------------
#
# In many language models the embedding and the last layer are *one* tensor. Can you freeze
# the embedding and train the last layer? You cannot as long as they are tied, because the
# flag belongs to the tensor. A ``detach`` after the embedding removes only the part of the
# gradient that comes through the embedding. All rows still get a gradient from the head,
# and the embedding moves along with the head. So untie the two by copying one of them:

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
# What to watch for
# -----------------
#
# - **Dropout** in a frozen part is still active in training mode, so the features of this
#   part are different at each call. ``eval()`` also stops this.
# - **An optimizer made before the freezing** still holds the parameters. This does no
#   harm as long as their ``.grad`` is None. But if you thaw a layer, an optimizer that
#   was made from only the trainable parameters does not hold the parameters of this
#   layer.
# - **Compare before you trust.** To list the tensors that have changed, as ``fine_tune``
#   does, you need three lines: ``deepcopy(model.state_dict())`` before, ``state_dict()``
#   after, and ``torch.equal``. Without the copy you compare the tensors with themselves,
#   and nothing ever seems to have changed.
#
# .. admonition:: Try it
#
#    Replace the BatchNorm with ``nn.LayerNorm(4)``. What changes in the backbone now, with
#    ``model.train()`` alone?
#
# .. dropdown:: Answer
#
#    Nothing. LayerNorm has no running statistics, and looks at one sample at a time:

backbone = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU())
layer_norm = fine_tune(lambda model: model.train())
print(layer_norm)

# %%
# .. dropdown:: How we checked this page
#
#    We check that the gradient through VGG is the same whether VGG is trained, frozen or
#    checkpointed. We check that the rows that should stay do not move, and that the two
#    lists of changes are empty.

g = [torch.autograd.grad(f(made).sum(), made)[0] for f in (vgg, frozen, by_part)]
torch.testing.assert_close(g[1:], [g[0], g[0]])
assert drift(weight_decay=0.0) == drift(copy_back=3) == 0 < drift()
assert settled == layer_norm == []

# %%
# **Next:** To send a gradient through a frozen network to its input, read
# :ref:`through-a-frozen-network`. To freeze part of a weight, read :ref:`part-of-a-tensor`.
# To choose between ``detach`` and ``no_grad``, read :ref:`no-grad-detach`.
#
# .. asked: freeze layers; do not train some weights; frozen layers still change;
#    requires_grad False; fine-tune only the last layer; keep a part of the network
#    fixed; freeze batch norm; unfreeze later; this part must not be changed by
#    training; weights are frozen, but batch norm changes; do not update the backbone;
#    keep pretrained weights
# .. words: lock, fixed backbone, transfer learning, pretrained, fine-tune, last layer only,
#    still moving, running mean, weight decay, momentum, requires_grad_, encoder frozen,
#    filter parameters
