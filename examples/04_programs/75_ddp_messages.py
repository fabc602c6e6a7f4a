r"""
.. _ddp-messages:

DDP and DataParallel: do their warnings change my gradient?
===========================================================

The training runs on several GPUs, and the log is full of messages. Two are warnings,
*Grad strides do not match bucket view strides* and *Was asked to gather along dimension
0*. Two are errors, *Expected to have finished reduction* and *Expected to mark a variable
ready only once*. With the first warning the gradients are still right. With the second
they are right, too, if you take the mean of the losses that are gathered. The errors stop
a step. Some mistakes do change a gradient without any message, and the same mechanism
explains them. Here we produce all of these cases and look at the gradients.
"""

# %%
# One process is enough to see these cases. ``DistributedDataParallel`` then averages over
# ``K`` = 1 processes, but has the same hooks and gives the same messages. The store
# through which processes would meet is in memory, and the backend is gloo, on the CPU:

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
# DDP registers a hook on every parameter. A hook runs when the gradient of its parameter
# is ready, and when all of them have run, the averages are complete. If a parameter takes
# no part in the loss, its hook never runs, and DDP waits. It notices at the beginning of
# the *second* step. Here is a model with a layer that it does not use:


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
# You can take the parameter out of the model, or freeze it before you wrap the model. If
# the parameter is used only in some steps, set ``find_unused_parameters=True``. Then DDP
# looks in each step for parameters on which no output depends. With ``static_graph=True``
# you promise that all steps have the same graph, and DDP finds the unused parameters in
# the first step. If an *output* does not enter the loss, ``find_unused_parameters=True``
# helps as well, and ``static_graph=True`` alone does not (:ref:`ddp-finished-reduction`
# runs both). With a *gradient penalty* neither of these two flags helps, and
# ``static_graph`` does harm (:ref:`across-processes`). To find the unused parameter, run
# ``backward`` on the module itself, without DDP:

try:
    two_steps()
except RuntimeError as error:
    print(str(error).partition(".")[0])
for option in ("find_unused_parameters", "static_graph"):
    print(f"{option:22}", two_steps(**{option: True}).used.bias.grad)
bare = Idle()
bare(data).sum().backward()
print("unused:", [name for name, p in bare.named_parameters() if p.grad is None])

# %%
# Expected to mark a variable ready only once
# -------------------------------------------
#
# This error has the opposite cause: within one step, a parameter was ready twice.
# The most common cause is a checkpoint with ``use_reentrant=True``, which runs a separate
# ``backward`` in the middle of the outer one. ``find_unused_parameters`` cannot see into
# the checkpoint. So it assumes that the parameters inside are unused, and marks them as
# ready. Then their hooks run after all.
#
# Below, one layer goes through two checkpoints. The hook ``note`` stores the gradient of
# the bias that DDP sends to the other processes. Next to it we print the gradient that the
# parameter holds at the end. The two should be the same:


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.used, self.reentrant = nn.Linear(2, 2), reentrant
        nn.init.ones_(self.used.weight)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.used, x, use_reentrant=self.reentrant)
        return x


def note(sent, bucket):
    sent.append(bucket.gradients()[1].tolist())
    return allreduce_hook(None, bucket)


shares = []
find, static = {"find_unused_parameters": True}, {"static_graph": True}
for reentrant, options in ((True, find), (True, {}), (False, {}), (True, static)):
    sent = []
    model = DistributedDataParallel(Checkpointed(reentrant), **options)
    model.register_comm_hook(sent, note)
    print(f"reentrant {reentrant!s:5}", *options, end=": ")
    try:
        model(data.clone().requires_grad_()).sum().backward()
        held = model.module.used.bias.grad.tolist()
        print("sent", *sent, "held", held)
        shares.append(sent[0][0] / held[0])
    except RuntimeError as error:
        print(str(error).partition(".")[0])

# %%
# Look at the second line of the output. **Without the flag there is no message, and only a
# third of the gradient is averaged.** The parameter was ready after the first of the two
# inner ``backward`` calls, and DDP sent the gradient that it held at this moment. Each
# process would add the second part afterwards, without the other processes, so the copies
# of the model would drift apart. If you call ``backward`` twice yourself, there is no
# message either, provided that the first call reaches all parameters
# (:ref:`across-processes`). If it reaches only some of them, and the second call comes to
# these again, you get the error (:ref:`ddp-ready-once`).
#
# In the last two lines of the output, the two gradients agree. With
# ``use_reentrant=False`` the checkpoint is part of one graph, and this is the setting to
# choose. ``static_graph`` counts in the first step how often each hook runs, and waits
# for the last run.
#
# Grad strides do not match bucket view strides
# ---------------------------------------------
#
# This warning is about a gradient that has the right numbers, but whose order in memory
# differs from the order of its parameter, so DDP has to copy it. People get the warning
# with 1×1 convolutions on GPUs. Here a transposed weight causes it. PyTorch warns only once
# in each process, unless you ask for every warning:

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
# The strides differ, but the gradient is right, as we check at the end. The copy only
# costs a little time.
#
# Was asked to gather along dimension 0, but all input tensors were scalars
# -------------------------------------------------------------------------
#
# ``DataParallel`` is the older of the two classes. It uses one process, which divides each
# batch among ``K`` GPUs. If your model returns its loss, you get a vector of ``K`` losses,
# with this warning. Then ``backward`` raises an error, because the vector needs a ``v``.
# Which ``v`` should you pass? If each loss is a mean, take the mean of the ``K`` losses.
# This is the same as a ``v`` in which every entry is ``1/K``. The gradient of their sum
# would be ``K`` times as large. There is no GPU here, so we cut the batch with ``chunk``:

weight, points = torch.ones(2, requires_grad=True), data.clone().requires_grad_()
gathered = torch.stack([((part @ weight) ** 2).mean() for part in points.chunk(2)])
try:
    gathered.backward()
except RuntimeError as error:
    print(error)
(by_mean,) = torch.autograd.grad(gathered.mean(), weight, retain_graph=True)
(by_sum,) = torch.autograd.grad(gathered.sum(), weight, retain_graph=True)
print("mean", by_mean, " sum", by_sum)

# %%
# Is the mean of the ``K`` losses the mean over the whole batch? It is, if the parts have
# the same size. But a last batch of three rows is cut into two rows and one row, and then
# the single row counts as much as the other two together. So weight the parts by their
# size instead:

rows, sizes = torch.arange(6.0).reshape(3, 2), torch.tensor([2.0, 1.0])
means = torch.stack([((part @ weight) ** 2).mean() for part in rows.chunk(2)])
losses = {
    "mean of parts": means.mean(),
    "by their size": means @ sizes / 3,
    "whole batch": ((rows @ weight) ** 2).mean(),
}
grads = {}
for name, loss in losses.items():
    (grads[name],) = torch.autograd.grad(loss, weight, retain_graph=True)
    print(f"{name:13}", grads[name])

# %%
# What to watch for
# -----------------
#
# **Old forum threads.** *Scatter is not differentiable twice*, which people got with a
# gradient penalty under ``DataParallel``, is an error message from 2017 (PyTorch issue
# 2467). Its cause was fixed long ago. Cutting a batch and joining the parts are linear
# operations, so you can take a second derivative through them:

(g,) = torch.autograd.grad(gathered, points, torch.ones(2), create_graph=True)
(twice,) = torch.autograd.grad((g.norm(dim=1) ** 2).mean(), weight)
twice

# %%
# **Mistakes without a message.** The checkpoints without the flag, above, are one
# example. Other examples are losses that are sums, and ``autograd.grad`` with respect to
# parameters. :ref:`across-processes` goes through these. You can test for such mistakes
# quickly: after ``backward``, compare the gradient of one parameter in all processes, for
# example with ``dist.all_gather``.
#
# .. dropdown:: How we checked this page
#
#    We compare the gradients with the formulas for the gradients of
#    :math:`\tfrac12\sum_i(x_i^\top w)^2` and of the mean of :math:`\lVert g_i\rVert^2`,
#    with :math:`g_i=2(x_i^\top w)\,w`, at w = (1, 1). We also check the gradients that the
#    checkpoints have sent and held.

s = data.sum(1, keepdim=True)
torch.testing.assert_close(linear.weight.grad, (s * data).sum(0, keepdim=True))
torch.testing.assert_close(by_mean, linear.weight.grad[0])
torch.testing.assert_close(by_sum, 2 * by_mean)
torch.testing.assert_close(grads["by their size"], 2 * (rows.sum(1) @ rows) / 3)
torch.testing.assert_close(grads["by their size"], grads["whole batch"])
assert not torch.allclose(grads["mean of parts"], grads["whole batch"])
torch.testing.assert_close(twice, (8 * s * data * 2 + 8 * s**2).sum(0) / 2)
alone = Checkpointed(reentrant=False)
alone(data).sum().backward()
assert alone.used.bias.grad.tolist() == sent[0] == [6, 6]
assert shares == [1 / 3, 1, 1]

# %%
# **Next:** :ref:`across-processes` shows what DDP does to ``v``. For what a checkpoint
# does, read :ref:`checkpointing`. Two of the messages also have their own pages,
# :ref:`error-ddp-unused-parameters` and :ref:`error-ddp-ready-only-once`.
#
# .. asked: DDP warning; grad strides do not match bucket view; was asked to gather
#    along dimension 0; unused parameters in DDP; are DDP warnings harmless
# .. words: warning, strides, bucket, find_unused_parameters, gather scalars, harmless,
#    multi gpu
