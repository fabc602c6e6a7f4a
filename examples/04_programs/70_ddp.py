r"""
.. _across-processes:

What does DistributedDataParallel do to v?
==========================================

``DistributedDataParallel`` *averages* gradients over the processes: with K processes each
effective ``v`` is divided by K. A loss that is a mean over the local batch gives the mean
over the whole batch; a sum must be multiplied by K.
"""

# %%
# Process k holds a part of the batch and the losses :math:`\ell^{(k)}`, with weights
# :math:`v^{(k)}`. After ``backward`` every process holds
#
# .. math::
#
#    \frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)} .
#
# Two real processes with the gloo backend, on this machine's CPU. What each of them runs
# is written to a file, since a new process starts from a file:

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

# %%
# They meet by way of another file, and each takes two rows of the data:

MEET = """
import sys
import torch
import torch.distributed as dist
rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
data = torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2]
"""

# %%
# Wrap a model of two weights, both 1, call ``backward`` on a loss, print the gradient that
# this process holds afterwards:

BACKWARD = """
def show(loss):
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    model = torch.nn.parallel.DistributedDataParallel(model)
    loss(model).backward()
    gradient = model.module.weight.grad[0]
    print([round(g, 4) for g in gradient.tolist()])
"""

# %%
# A mean over the local rows, and a sum over them:

LOSSES = """
show(lambda model: (model(data)[:, 0] ** 2).mean())
show(lambda model: (model(data)[:, 0] ** 2).sum())
"""

# %%
# And a gradient penalty: does :func:`torch.autograd.grad` inside the loss survive DDP?

PENALTY = """
def penalty(model):
    x = data.clone().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return ((g.norm(dim=1) - 1) ** 2).mean()
show(penalty)
"""

# %%
# Last, what goes wrong: a parameter that takes no part in the loss, and a second step.

IDLE = """
model = torch.nn.Linear(2, 1, bias=False)
model.idle = torch.nn.Parameter(torch.zeros(1))
model = torch.nn.parallel.DistributedDataParallel(model)
for _ in range(2):
    model(data).sum().backward()
"""

# %%
# Start both and wait for them; what they print and their last words come back:


def start(rank, script):
    command = [sys.executable, script, str(rank), script.with_name("meeting")]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


with tempfile.TemporaryDirectory() as folder:
    script = Path(folder, "worker.py")
    script.write_text(MEET + BACKWARD + LOSSES + PENALTY + IDLE)
    processes = [start(rank, script) for rank in (0, 1)]
    (first, errors), (second, _) = [p.communicate(timeout=200) for p in processes]
mean, total, penalised = first.splitlines()
print("mean", mean, "\nsum ", total)

# %%
# The other process holds the same, to the last digit:

print(first == second)

# %%
# One process with the whole batch, for comparison, mean and sum:

data = torch.arange(8.0).reshape(4, 2)


def losses(weight):
    return (data @ weight.T)[:, 0] ** 2


ones = torch.ones(1, 2)
whole_mean = torch.func.grad(lambda w: losses(w).mean())(ones)[0]
whole_sum = torch.func.grad(lambda w: losses(w).sum())(ones)[0]
print(whole_mean.tolist(), whole_sum.tolist())

# %%
# The mean is the mean. The sum over all is *twice* what the processes hold, so a loss that
# sums needs ``* dist.get_world_size()``, or ``v`` of that size.
#
# A gradient penalty under DDP
# ----------------------------
#
# It works: the hooks of DDP sit on the *parameters*, and ``grad`` by the *inputs* passes
# them by. What DDP cannot do is see ``grad`` by the parameters, which fills no ``.grad``
# and starts no reduction.

print(penalised)

# %%
# What goes wrong
# ---------------
#
# *Expected to have finished reduction in the prior iteration*: the idle parameter, whose
# hook never fired in the first step. Leave it out, or ``find_unused_parameters=True``:

message = next(line for line in errors.splitlines() if "Expected to have" in line)
print(message[message.index("Expected") :][:84])

# %%
# Parts of unequal size. The mean of local means weighs every process alike, not every
# sample; weigh each local sum by K divided by the size of the whole batch instead.
#
# The check: both processes hold the same numbers, those of the single process:


def numbers(line):
    return torch.tensor([float(part) for part in line.strip("[]").split(",")])


assert first == second
torch.testing.assert_close(numbers(mean), whole_mean)
torch.testing.assert_close(numbers(total), whole_sum / 2)

# %%
# The model's slope is its weight vector w, so the penalty is :math:`(|w|-1)^2`, with the
# gradient :math:`2(|w|-1)\,w/|w|`:

w = torch.ones(2)
expected = 2 * (w.norm() - 1) * w / w.norm()
torch.testing.assert_close(numbers(penalised), expected, rtol=0, atol=1e-4)

# %%
# Where next
# ----------
#
# Weights of parts of a batch: :ref:`accumulating-twice`. Stages in place of copies:
# :ref:`cut-graphs`. The penalty itself: :ref:`gradient-penalty`.
