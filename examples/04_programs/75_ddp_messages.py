r"""
.. _ddp-messages:

DDP and DataParallel: do their warnings change my gradient?
===========================================================

The warnings do not: under *Grad strides do not match* and *Was asked to gather along
dimension 0* the gradients are right. The two errors stop a step: a parameter got no
gradient, or got two.
"""

# %%
# One process is enough to meet the messages of ``DistributedDataParallel``, which averages
# over K = 1 then. The meeting place is memory, the backend gloo, on the CPU:

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
data = torch.arange(4.0).reshape(2, 2)

# %%
# Expected to have finished reduction in the prior iteration
# ----------------------------------------------------------
#
# A parameter takes no part in the loss. Its hook never fires, so the first step never ends,
# which the *second* forward pass notices:


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
# Leave the parameter out, freeze it before wrapping, or let DDP look for what is unused in
# every step:

try:
    two_steps()
except RuntimeError as error:
    print(str(error).partition(".")[0])
two_steps(find_unused_parameters=True).used.bias.grad

# %%
# *Which parameter is it?* One ``backward`` of the bare module tells the names:

bare = Idle()
bare(data).sum().backward()
print([name for name, p in bare.named_parameters() if p.grad is None])

# %%
# Expected to mark a variable ready only once
# -------------------------------------------
#
# Within one ``backward`` a parameter's hook fired twice. Two reentrant checkpoints of one
# layer do that, together with ``find_unused_parameters=True``:


class Checkpointed(Idle):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.used, x, use_reentrant=self.reentrant)
        return x


# %%
# The other kind of checkpoint is part of one graph, in which the hook fires once:

for reentrant in (True, False):
    model = DistributedDataParallel(Checkpointed(reentrant), find_unused_parameters=True)
    try:
        model(data.clone().requires_grad_()).sum().backward()
        print(model.module.used.weight.grad.shape)
    except RuntimeError as error:
        print(str(error).partition(".")[0])

# %%
# (Two ``backward`` calls give no message at all, and gradients that differ between the
# processes: :ref:`across-processes`.)
#
# Grad strides do not match bucket view strides
# ---------------------------------------------
#
# The gradient has the right numbers, laid out in memory in another way than the parameter,
# and is copied. People meet it with 1×1 convolutions on GPUs; a transposed weight does it:


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 2))

    def forward(self, x):
        return (x.T * self.weight.T).sum(0)


# %%
# The message comes once in a process, unless you ask for all of them:

torch.set_warn_always(True)
model = DistributedDataParallel(Transposed())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    (model(data) ** 2).mean().backward()
torch.set_warn_always(False)
print(str(caught[0].message).partition(".")[0])
gradient = model.module.weight.grad
print(gradient, gradient.stride(), model.module.weight.stride())
dist.destroy_process_group()

# %%
# Was asked to gather along dimension 0, but all input tensors were scalars
# -------------------------------------------------------------------------
#
# ``DataParallel``, on several GPUs, cuts the batch, and each copy of the model returns its
# loss. They come back as a vector, so *grad can be implicitly created* follows. Without
# GPUs, cut by hand:

weight = torch.ones(2, requires_grad=True)
gathered = torch.stack([((part @ weight) ** 2).mean() for part in data.chunk(2)])
try:
    gathered.backward()
except RuntimeError as error:
    print(error)
gathered.mean().backward()
weight.grad

# %%
# *Scatter is not differentiable twice*, from a gradient penalty under ``DataParallel``, is
# a message of 2017 (PyTorch issue 2467), long mended: cutting and joining are linear, and
# can be differentiated as often as you like:

points = data.clone().requires_grad_()
scores = torch.cat([(part @ weight) ** 2 for part in points.chunk(2)])
(g,) = torch.autograd.grad(scores, points, torch.ones(2), create_graph=True)
(twice,) = torch.autograd.grad((g.norm(dim=1) ** 2).mean(), weight)
twice

# %%
# The check: the formulas of the loss :math:`\tfrac12\sum_i(x_i^\top w)^2` and of the mean
# of :math:`\lVert g_i\rVert^2`, with :math:`g_i=2(x_i^\top w)\,w`, at w = (1, 1):

s = data.sum(1, keepdim=True)
torch.testing.assert_close(gradient, (s * data).sum(0, keepdim=True))
torch.testing.assert_close(weight.grad, gradient[0])
torch.testing.assert_close(twice, (8 * s * data * 2 + 8 * s**2).sum(0) / 2)

# %%
# Where next
# ----------
#
# What DDP does to ``v``: :ref:`across-processes`. Checkpoints: :ref:`checkpointing`.
# The penalty: :ref:`gradient-penalty`.
