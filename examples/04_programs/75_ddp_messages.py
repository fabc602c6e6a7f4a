r"""
.. _ddp-messages:

DDP and DataParallel: do their warnings change my gradient?
===========================================================

The warnings do not: under *Grad strides do not match* the gradients are right, and under
*Was asked to gather along dimension 0* those of the mean that you take. The two errors stop
a step. What does change a gradient is silent.
"""

# %%
# One process is enough to meet the messages of ``DistributedDataParallel``, which averages
# over K = 1 then. The meeting place is memory, the backend gloo, on the CPU:

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
data = torch.arange(4.0).reshape(2, 2)

# %%
# Expected to have finished reduction in the prior iteration
# ----------------------------------------------------------
#
# A parameter takes no part in the loss: its hook never fires, as the *second* step notices:


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


def two_steps(**options):
    model = DistributedDataParallel(Idle(), **options)
    for _ in range(2):
        model(data).sum().backward()
    return model.module


# %%
# Leave the parameter out, freeze it before wrapping, let DDP look for what leads to no
# output, or promise one graph for all steps. (The last two do not help a *penalty*, and the
# last harms: :ref:`across-processes`.) *Which is it?* The bare module's ``backward`` tells:

try:
    two_steps()
except RuntimeError as error:
    print(str(error).partition(".")[0])
for option in ("find_unused_parameters", "static_graph"):
    print(option, two_steps(**{option: True}).used.bias.grad)
bare = Idle()
bare(data).sum().backward()
print([name for name, p in bare.named_parameters() if p.grad is None])

# %%
# Expected to mark a variable ready only once
# -------------------------------------------
#
# Within one ``backward`` a parameter was ready twice. ``find_unused_parameters`` does not
# see into a reentrant checkpoint, takes what is inside for unused, and so for ready; then
# the hooks fire. The hook ``note`` keeps what DDP averages:


class Checkpointed(Idle):
    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.used, x, use_reentrant=self.reentrant)
        return x


def note(sent, bucket):
    sent.append(bucket.gradients()[1].tolist())
    return allreduce_hook(None, bucket)


# %%
# *No message, and processes that drift apart?* Without the flag, two reentrant checkpoints
# of one layer are averaged after the first, and each process adds its own second part (two
# ``backward`` calls are as silent: :ref:`across-processes`). The other kind is one graph;
# ``static_graph`` counts hooks in a first step. The bias's gradient as sent, and as held:

find, static = {"find_unused_parameters": True}, {"static_graph": True}
for reentrant, options in ((True, find), (True, {}), (False, {}), (True, static)):
    layers, sent = Checkpointed(), []
    layers.reentrant, layers.idle = reentrant, None
    nn.init.ones_(layers.used.weight)
    model = DistributedDataParallel(layers, **options)
    model.register_comm_hook(sent, note)
    try:
        model(data.clone().requires_grad_()).sum().backward()
        print(reentrant, options, *sent, layers.used.bias.grad.tolist())
    except RuntimeError as error:
        print(str(error).partition(".")[0])

# %%
# Grad strides do not match bucket view strides
# ---------------------------------------------
#
# The gradient has the right numbers, laid out in memory in another way than the parameter,
# and is copied. People meet it with 1×1 convolutions on GPUs; a transposed weight does it.
# It comes once in a process, unless you ask for all:

linear = nn.Linear(2, 1, bias=False)
nn.init.ones_(linear.weight)
linear.forward = lambda x: (x.T * linear.weight.T).sum(0)
model = DistributedDataParallel(linear)
torch.set_warn_always(True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (model(data) ** 2).mean().backward()
torch.set_warn_always(False)
print(str(caught[0].message).partition(".")[0])
print(linear.weight.grad, linear.weight.grad.stride(), linear.weight.stride())
dist.destroy_process_group()

# %%
# Was asked to gather along dimension 0, but all input tensors were scalars
# -------------------------------------------------------------------------
#
# ``DataParallel`` cuts the batch among K GPUs. Its losses come back as a vector, and *grad
# can be implicitly created* follows. Take the mean; their sum is K times that. By hand:

weight, points = torch.ones(2, requires_grad=True), data.clone().requires_grad_()
gathered = torch.stack([((part @ weight) ** 2).mean() for part in points.chunk(2)])
try:
    gathered.backward()
except RuntimeError as error:
    print(error)
(by_mean,) = torch.autograd.grad(gathered.mean(), weight, retain_graph=True)
print(by_mean, torch.autograd.grad(gathered.sum(), weight, retain_graph=True)[0])

# %%
# *Is that the mean over the batch?* For equal parts. Three rows come as two and one: the
# gradient of the mean of parts, of the parts weighed by size, and of the batch:

rows, sizes = torch.arange(6.0).reshape(3, 2), torch.tensor([2.0, 1.0])
means = torch.stack([((part @ weight) ** 2).mean() for part in rows.chunk(2)])
losses = means.mean(), means @ sizes / 3, ((rows @ weight) ** 2).mean()
grads = [torch.autograd.grad(loss, weight, retain_graph=True)[0] for loss in losses]
grads

# %%
# *Scatter is not differentiable twice*, from a gradient penalty, is a message of 2017
# (PyTorch issue 2467), long mended. Cutting and joining are linear:

(g,) = torch.autograd.grad(gathered, points, torch.ones(2), create_graph=True)
(twice,) = torch.autograd.grad((g.norm(dim=1) ** 2).mean(), weight)
twice

# %%
# The check: by the formulas of :math:`\tfrac12\sum_i(x_i^\top w)^2` and of the mean of
# :math:`\lVert g_i\rVert^2`, with :math:`g_i=2(x_i^\top w)\,w`, at w = (1, 1):

s = data.sum(1, keepdim=True)
torch.testing.assert_close(linear.weight.grad, (s * data).sum(0, keepdim=True))
torch.testing.assert_close(by_mean, linear.weight.grad[0])
torch.testing.assert_close(grads[1], 2 * (rows.sum(1) @ rows) / 3)
torch.testing.assert_close(twice, (8 * s * data * 2 + 8 * s**2).sum(0) / 2)

# %%
# Where next
# ----------
#
# What DDP does to ``v``: :ref:`across-processes`. Checkpoints: :ref:`checkpointing`.
#
# .. asked: DDP warning; grad strides do not match bucket view; was asked to gather
#    along dimension 0; unused parameters in DDP; are DDP warnings harmless
# .. words: warning, strides, bucket, find_unused_parameters, gather scalars, harmless,
#    multi gpu
