r"""
.. _across-processes:

What does DistributedDataParallel do to v?
==========================================

``DistributedDataParallel`` *averages* gradients over the processes: with K processes each
effective ``v`` is divided by K. A loss that is a mean over the local batch gives the mean
over the whole batch; a sum must be multiplied by K.
"""

# %%
# Process k has the losses :math:`\ell^{(k)}` of its part of the batch, with weights
# :math:`v^{(k)}`. After ``backward`` every process holds
# :math:`\frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)}`.
#
# Two real processes, with gloo on this machine's CPU. Each runs what is written to a file:

import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, Popen

import torch

# %%
# They meet by way of another file; each takes two rows of the data. Both weights are 1:

MEET = """
import sys
import torch
import torch.distributed as dist
rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
data = torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2]
def wrapped(bias=False, **options):
    model = torch.nn.Linear(2, 1, bias)
    torch.nn.init.ones_(model.weight)
    return torch.nn.parallel.DistributedDataParallel(model, **options)
"""

# %%
# What each prints: the name of a case, and the gradient that it holds after ``backward``.
# A mean over the local rows, and a sum over them:

LOSSES = """
def show(name, gradient):
    print(name, [round(g, 3) for g in gradient.flatten().tolist()])
def after(name, *losses, **options):
    model = wrapped(**options)
    for loss in [loss(model) for loss in losses]:
        loss.backward()
    show(name, model.module.weight.grad)
mean = lambda model: (model(data) ** 2).mean()
after("mean", mean)
after("sum", lambda model: (model(data) ** 2).sum())
"""

# %%
# A gradient penalty as the whole loss, in a model with a bias; its slope is to be 0 in one
# process and 1 in the other. The same with ``0 * y`` added, and that with ``static_graph``:

PENALTY = """
def penalty(model, weight=None):
    y = model(x := data.clone().requires_grad_())
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    p = ((g.norm(dim=1) - rank) ** 2).mean()
    return p if weight is None else p + weight * y.sum()
after("penalty", penalty, bias=True)
for name, options in {"with_0y": {}, "static": {"static_graph": True}}.items():
    after(name, lambda model: penalty(model, 0), bias=True, **options)
"""

# %%
# ``grad`` by the parameters; two losses, each with a ``backward`` of its own; and the
# module inside of DDP, called in the place of DDP:

COMBINED = """
model = wrapped()
show("grad", torch.autograd.grad(mean(model), model.parameters())[0])
after("two", mean, mean)
after("module", lambda model: mean(model.module))
"""

# %%
# Two ``backward`` calls on purpose, the rows one by one. Under ``no_sync`` the gradients
# add up locally; the last call averages the sums, so each loss is divided by their number:

SYNC = """
model = wrapped()
with model.no_sync():
    (model(data[:1]) ** 2 / 2).sum().backward()
(model(data[1:]) ** 2 / 2).sum().backward()
show("no_sync", model.module.weight.grad)
"""

# %%
# Start both and wait, without a warning on strides that is harmless (:ref:`ddp-messages`):

with tempfile.TemporaryDirectory() as folder:
    script, meeting = Path(folder, "worker.py"), Path(folder, "meeting")
    script.write_text(MEET + LOSSES + PENALTY + COMBINED + SYNC)
    command = [sys.executable, "-W", "ignore:Grad strides", script]
    processes = [Popen([*command, k, meeting], stdout=PIPE, text=True) for k in "01"]
    printed = [p.communicate(timeout=200)[0].splitlines() for p in processes]

# %%
# What the two hold, side by side:

rows = [dict(line.split(" ", 1) for line in lines) for lines in printed]
for name in rows[0]:
    print(f"{name:8} {rows[0][name]:16} {rows[1][name]}")

# %%
# One process with the whole batch. Its mean is the mean; its sum is *twice* what the two
# hold, so a loss that sums needs ``* dist.get_world_size()``, or ``v`` of that size:

data, ones = torch.arange(8.0).reshape(4, 2), torch.ones(2)
losses = lambda w: (data @ w) ** 2
whole_mean = torch.func.grad(lambda w: losses(w).mean())(ones)
whole_sum = torch.func.grad(lambda w: losses(w).sum())(ones)
print(whole_mean.tolist(), whole_sum.tolist())

# %%
# *Does a gradient penalty work under DDP?* Yes, without ``static_graph``, if the loss
# contains the output, too. The hooks of DDP sit on the parameters; ``grad`` by the *inputs*
# passes them by. DDP waits for the last bias, which has no gradient in a penalty alone
# (lazy R1, path length). Scores in the same loss, or StyleGAN's ``+ 0 * y``, reach it. With
# ``static_graph`` the first ``grad`` is taken for the step's ``backward``, and nothing is
# averaged from then on. In process k the gradient is :math:`2(|w|-k)\,w/|w|`:

(slopes := 2 * (ones.norm() - torch.arange(2.0)[:, None]) * ones / ones.norm())

# %%
# What goes wrong
# ---------------
#
# Five rows differ between the processes, and nothing says so (``penalty`` raises in its
# second step: :ref:`ddp-messages`). ``grad`` by the parameters fills no ``.grad`` and
# starts no reduction (by hand: ``dist.all_reduce(g)``, then g / K). ``model.module(x)``
# passes by the forward of DDP. And of *two backward calls* the first alone is averaged,
# since DDP expects one after each round of forward passes; copies drift apart. Add the
# losses, or run all rounds but the last in ``no_sync``.
#
# Parts of unequal size (:ref:`token-mean`). The mean of local means weighs every process
# alike, not every sample; weigh each local sum by K over the whole batch's size. Here 1, 3:

weight = ones.clone().requires_grad_()
sums = [losses(weight)[:1].sum(), losses(weight)[1:].sum()]
average = torch.stack([part * 2 / 4 for part in sums]).mean()  # what DDP does, K = 2
torch.autograd.grad(average, weight)[0]

# %%
# The check: the single process against both, and the local gradients against their formula:


def held(name):
    return torch.tensor([[float(g) for g in row[name][1:-1].split(",")] for row in rows])


local = torch.func.jacrev(lambda w: losses(w).reshape(2, 2).mean(1))(ones)
for name in ("mean", "no_sync"):
    torch.testing.assert_close(held(name), whole_mean.expand(2, 2))
torch.testing.assert_close(held("sum"), whole_sum.expand(2, 2) / 2)
averaged = {"penalty": slopes, "static": slopes, "with_0y": slopes.mean(0).expand(2, 2)}
for name, expected in averaged.items():
    torch.testing.assert_close(held(name), expected, rtol=0, atol=1e-3)
for name, held_back in {"grad": local, "module": local, "two": whole_mean + local}.items():
    torch.testing.assert_close(held(name), held_back)

# %%
# Where next
# ----------
#
# The messages: :ref:`ddp-messages`. The penalty: :ref:`gradient-penalty`.
#
# .. asked: DistributedDataParallel gradient; gradients averaged over GPUs; result half
#    as large on two GPUs; sum or mean of gradients over processes; DDP loss scaling;
#    world size factor; several GPUs other gradient; two cards give half the gradient;
#    gradient depends on the number of GPUs; result on two graphics cards
#
# .. words: gpus, ranks, all reduce, divided, mean, half, workers, torchrun, world size,
#    learning rate scaling, multi gpu, average
