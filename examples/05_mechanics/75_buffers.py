r"""
.. _functional-buffers:

Does functional_call change BatchNorm's running statistics?
===========================================================

Yes, in ``train()`` every forward pass writes them: into the dict that you pass, or into the
module itself where your dict lacks them. Neither ``no_grad`` nor ``functional_call`` stops
it; copies of the buffers do, and ``eval()``.
"""

# %%
# BatchNorm over three samples of one feature, shape ``(3, 1)``. The batch has mean 3 and
# (unbiased) variance 7; with a momentum of 0.1 the running mean goes from 0 to 0.3 and the
# running variance from 1 to 1.6. That holds no gradient: it is state:

from copy import deepcopy

import torch
from torch import nn
from torch.func import functional_call, grad, replace_all_batch_norm_modules_
from torch.func import stack_module_state, vjp, vmap

batch = torch.tensor([[1.0], [2.0], [6.0]])


def shown(buffers):
    return [round(b.item(), 3) for b in dict(buffers).values()]


norm = nn.BatchNorm1d(1)
before = shown(norm.named_buffers())
norm(batch)
print(before, shown(norm.named_buffers()), norm.running_mean.requires_grad)

# %%
# What goes wrong
# ---------------
#
# *functional_call is functional, so the module stays as it is?* Its parameters do. A buffer
# that your dict lacks is written in the module, one that it has in the dict. And
# ``dict(norm.named_buffers())`` holds the module's own: copy them. No buffers, copies, own:

norm = nn.BatchNorm1d(1)
params = {name: p.detach() for name, p in norm.named_parameters()}
own = dict(norm.named_buffers())
for given in ({}, deepcopy(own), own):
    functional_call(norm, (params, given), (batch,))
    print(shown(given), shown(norm.named_buffers()))

# %%
# *Who else writes?* ``no_grad`` does not look at state, and a checkpoint runs the forward
# pass twice. Three things keep the module as it is: ``eval()``, ``functional_call`` with
# copies of the buffers, and a layer made with ``track_running_stats=False``, which has none
# (and uses the batch's own statistics in ``eval()``, too). Here is the number of batches
# that a fresh layer counts:


def again(norm):
    x = batch.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(norm, x, use_reentrant=False).sum().backward()


passes = {
    "no_grad": torch.no_grad()(lambda norm: norm(batch)),
    "checkpoint": again,
    "eval": lambda norm: norm.eval()(batch),
    "copies": lambda norm: functional_call(norm, deepcopy(norm.state_dict()), (batch,)),
}
counted = {}
for name, run in passes.items():
    run(norm := nn.BatchNorm1d(1))
    counted[name] = norm.num_batches_tracked.item()
print(counted)
bare = nn.BatchNorm1d(1, track_running_stats=False)
print(list(bare.buffers()), torch.equal(bare(batch), bare.eval()(batch)))
assert counted == {"no_grad": 1, "checkpoint": 2, "eval": 0, "copies": 0}

# %%
# Under torch.func
# ----------------
#
# A transform refuses to write into a tensor from outside. Arguments may be written, and
# copies made inside, which ``vjp`` needs: it differentiates by every argument, and the
# count is an integer. And :term:`vmap` over batches, with one set of buffers, has no place
# to write. It is refused after the count went up:


def total(params, buffers, x):
    return (functional_call(norm, (params, buffers), (x,)) ** 2).sum()


attempts = {
    "outside": lambda b: grad(lambda p: total(p, b, batch))(params),
    "argument": lambda b: grad(total)(params, b, batch),
    "vjp": lambda b: vjp(total, params, b, batch),
    "vjp, copies": lambda b: vjp(lambda p: total(p, deepcopy(b), batch), params),
    "vmap": lambda b: vmap(total, (None, None, 0))(params, b, torch.stack([batch] * 2)),
}

# %%
# Each with fresh copies, and what they are afterwards:

norm = nn.BatchNorm1d(1)
for name, attempt in attempts.items():
    copies = deepcopy(dict(norm.named_buffers()))
    try:
        attempt(copies)
    except RuntimeError as error:
        print(str(error).partition(". ")[0].partition(", which")[0])
    print(name, shown(copies))

# %%
# An ensemble under vmap
# ----------------------
#
# ``stack_module_state`` copies parameters and buffers of several models into tensors with
# one dimension more, in front. Now each model has buffers of its own, and ``vmap`` runs all
# of them, through one module on the device ``meta``, which holds no numbers:


def make():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


torch.manual_seed(0)  # the same models and data on every build
models, skeleton = [make() for _ in range(3)], make().to("meta")
parameters, buffers = stack_module_state(models)
data, v = torch.randn(8, 2), torch.randn(3, 8, 1)
out = vmap(lambda p, b: functional_call(skeleton, (p, b), (data,)))(parameters, buffers)
out.backward(v, retain_graph=True)
losses, w = (out * v).sum((1, 2)), parameters["0.weight"]
print(tuple(out.shape), tuple(w.grad.shape))

# %%
# *autograd.grad(losses[k], w[k]) gives None.* The slice is new, and the losses were made of
# the stack. Take their sum by that: no loss sees another model, so row k is model k's:

print(torch.autograd.grad(losses[0], w[0], retain_graph=True, allow_unused=True))
torch.allclose(torch.autograd.grad(losses.sum(), w)[0], w.grad)

# %%
# *The models do not change.* The stacks are copies, with gradients and statistics of their
# own. Hand the stacked parameters to the optimizer, and at the end each model its part:

print(buffers["1.num_batches_tracked"], *[m[1].num_batches_tracked.item() for m in models])
print(models[0][0].weight.grad)
alone = make()
alone.load_state_dict({name: t[2] for name, t in (parameters | buffers).items()})
print(alone[1].num_batches_tracked)

# %%
# Without running statistics
# --------------------------
#
# ``replace_all_batch_norm_modules_`` edits the model: the buffers are gone, ``eval()`` is
# the same as ``train()``, and weights from before no longer fit:

state = make().state_dict()
bare = replace_all_batch_norm_modules_(make())
print(dict(bare.named_buffers()), torch.equal(bare(data), bare.eval()(data)))
try:
    bare.load_state_dict(state)
except RuntimeError as error:
    print(str(error).splitlines()[1].strip())

# %%
# The check: statistics and gradients of the stacks against each model run on its own:

for i, model in enumerate(models):
    model(data).backward(v[i])
    for name, p in model.named_parameters():
        torch.testing.assert_close(parameters[name].grad[i], p.grad, rtol=1e-4, atol=1e-5)
    for name, b in model.named_buffers():
        torch.testing.assert_close(buffers[name][i], b)
hidden = models[0][0](data)
torch.testing.assert_close(models[0][1].running_var, 0.9 + 0.1 * hidden.var(0))

# %%
# Where next
# ----------
#
# Parameters as an argument: :ref:`jacobian-of-parameters`. BatchNorm on its own under vmap:
# :ref:`vmap-limits`. Which samples it mixes: :ref:`mixing-samples`.
#
# .. asked: functional_call and batch norm; running mean in functional_call; buffers;
#    running statistics change; batch norm with torch.func
