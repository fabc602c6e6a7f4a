r"""
.. _functional-buffers:

Does functional_call change BatchNorm's running statistics?
===========================================================

You run a model through ``functional_call`` to keep it as it is, and afterwards the
running statistics of its BatchNorm have changed. In training mode, every forward pass
updates the statistics in the dict that you pass, or, if your dict lacks them, the
statistics of the module itself. Neither ``no_grad`` nor ``functional_call`` prevents this
update. If you pass copies of the buffers, or call ``eval()``, the module's own buffers
stay as they are.
"""

# %%
# We take a BatchNorm over three samples of one feature, of shape ``(3, 1)``. The batch
# has a mean of 3 and an unbiased variance of 7. With a momentum of 0.1, the running mean
# moves from 0 to 0.3, and the running variance from 1 to 1.6. The third number below is
# the number of batches seen so far. The three numbers are state, and no gradient flows
# through them:

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
# *functional_call is functional, so the module stays as it is?* Its parameters do, but its
# buffers may not. A buffer that is missing from your dict is updated in the module, and a
# buffer that is in your dict is updated in the dict. Be careful with
# ``dict(norm.named_buffers())``, which holds the module's own buffers, not copies. Below we
# pass no buffers, then copies, and then the module's own buffers. Each line of the output
# shows the buffers in the dict, and then the buffers of the module:

norm = nn.BatchNorm1d(1)
params = {name: p.detach() for name, p in norm.named_parameters()}
own = dict(norm.named_buffers())
for given in ({}, deepcopy(own), own):
    functional_call(norm, (params, given), (batch,))
    print(shown(given), shown(norm.named_buffers()))

# %%
# *What else writes to the statistics, and what does not?* A pass under ``no_grad`` writes
# to them. A checkpoint runs the forward pass twice, and so the batch is counted twice. The
# module stays as it is in three cases: if you call ``eval()``, if you pass copies of the
# buffers to ``functional_call``, or if the layer was made with
# ``track_running_stats=False``. Such a layer has no buffers, and uses the statistics of the
# batch even in ``eval()``. The first line of the output shows, for each of four kinds of
# pass, how many batches a new layer has counted after it:


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
# Under a transform, your function must not write into a tensor that comes from outside the
# function. It may write into an argument, or into copies that it makes itself. With ``vjp``
# you need the copies, because ``vjp`` differentiates with respect to every argument, and
# the count of batches is an integer. With :term:`vmap` over several batches, one set of
# buffers would have to hold the statistics of every batch, and so PyTorch refuses that as
# well. Here are the five attempts:


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
# We give new copies of the buffers to each attempt, and print these copies afterwards. Look
# at the last line of the output: when ``vmap`` refused, the count had already gone up:

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
# ``stack_module_state`` copies the parameters and the buffers of several models into
# tensors that have an extra dimension in front. Now each model has its own buffers, and
# ``vmap`` can run all models. It runs them through a single module on the ``meta`` device,
# whose tensors hold no numbers:


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
# *autograd.grad(losses[k], w[k]) raises an error, or gives None with allow_unused=True.*
# The slice ``w[k]`` is a new tensor, and the losses were computed from the whole stack. So
# take the sum of the losses, and differentiate it with respect to the stack. No loss
# depends on another model, and so row k is the gradient of model k:

print(torch.autograd.grad(losses[0], w[0], retain_graph=True, allow_unused=True))
torch.allclose(torch.autograd.grad(losses.sum(), w)[0], w.grad)

# %%
# *The models do not change.* The stacks are copies, with their own gradients and
# statistics. The first line of the output shows that the stacks have counted a batch and
# the models have not. The second shows that a model has no gradient. Pass the stacked
# parameters to the optimizer, and at the end copy each model's slice of the stacks into
# that model. The last line shows the batch count of a new model, into which we loaded the
# last model's slice of the stacks:

print(buffers["1.num_batches_tracked"], *[m[1].num_batches_tracked.item() for m in models])
print(models[0][0].weight.grad)
alone = make()
alone.load_state_dict({name: t[2] for name, t in (parameters | buffers).items()})
print(alone[1].num_batches_tracked)

# %%
# Without running statistics
# --------------------------
#
# ``replace_all_batch_norm_modules_`` edits the model in place. Afterwards the model has no
# BatchNorm buffers, and gives the same output in ``eval()`` as in ``train()``. A state dict
# that was saved before the replacement can no longer be loaded:

state = make().state_dict()
bare = replace_all_batch_norm_modules_(make())
print(dict(bare.named_buffers()), torch.equal(bare(data), bare.eval()(data)))
try:
    bare.load_state_dict(state)
except RuntimeError as error:
    print(str(error).splitlines()[1].strip())

# %%
# As a check, we run each model of the ensemble by itself, and compare its gradients and
# statistics with the slices of the stacks:

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
# :ref:`jacobian-of-parameters` shows how to pass the parameters as an argument, and
# :ref:`vmap-limits` covers BatchNorm under vmap. :ref:`mixing-samples` shows which samples
# BatchNorm mixes.
#
# .. asked: functional_call and batch norm; running mean in functional_call; buffers;
#    running statistics change; batch norm with torch.func
# .. words: running mean, statistics, stateless, batchnorm, functional, changed
#    unexpectedly, eval, copy
