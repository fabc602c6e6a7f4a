r"""
.. _across-processes:

Gradients across processes: DistributedDataParallel, and what it does to v
==========================================================================

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
# is written to a file, since a new process must be able to import it:

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

SETUP = """
import sys
import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank, folder, reduction = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(model.weight)
data = torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2]
"""

# %%
# Each takes its two rows of the data, wraps the model and calls ``backward``:

STEP = """
model = torch.nn.parallel.DistributedDataParallel(model)
losses = model(data)[:, 0] ** 2
{"sum": losses.sum, "mean": losses.mean}[reduction]().backward()
print(model.module.weight.grad.tolist()[0])
dist.destroy_process_group()
"""

# %%
# Both processes print the gradient that they hold when they are done:


def run(reduction, step=STEP):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "worker.py")
        script.write_text(SETUP + step)
        ranks = [
            subprocess.Popen(
                [sys.executable, script, str(rank), folder, reduction],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in (0, 1)
        ]  # fmt: skip
        return [rank.communicate(timeout=100) for rank in ranks]


# %%
# With a local mean; the two processes agree to the last digit:

by_mean = [out.strip() for out, _ in run("mean")]
by_mean

# %%
# With a local sum:

by_sum = [out.strip() for out, _ in run("sum")]
by_sum

# %%
# One process with the whole batch, for comparison, mean and sum:

weight = torch.ones(1, 2)
data = torch.arange(8.0).reshape(4, 2)


def losses(weight):
    return (data @ weight.T)[:, 0] ** 2


mean = torch.func.grad(lambda w: losses(w).mean())(weight)[0]
total = torch.func.grad(lambda w: losses(w).sum())(weight)[0]
print(mean.tolist(), total.tolist())

# %%
# The mean is the mean. The sum over all is *twice* what the processes hold, so a loss that
# sums needs ``* dist.get_world_size()``, or ``v`` of that size.
#
# A gradient penalty under DDP
# ----------------------------
#
# ``backward`` on the penalty is fine: the hooks of DDP sit on the *parameters*. What DDP
# cannot do is see :func:`torch.autograd.grad` by the parameters, which fills no ``.grad``
# and starts no reduction. By the *inputs*, with ``create_graph=True``, it works:

PENALTY = STEP.replace(
    "losses = model(data)[:, 0] ** 2",
    """data.requires_grad_()
(g,) = torch.autograd.grad(model(data).sum(), data, create_graph=True)
losses = (g.norm(dim=1) - 1) ** 2""",
)
penalty = [out.strip() for out, _ in run("mean", PENALTY)]
penalty

# %%
# What goes wrong
# ---------------
#
# *Expected to have finished reduction in the prior iteration*: a parameter that took no
# part in the loss, in a process, and then a second step:

IDLE = """
model.idle = torch.nn.Parameter(torch.zeros(1))
model = torch.nn.parallel.DistributedDataParallel(model)
for _ in range(2):
    model(data).sum().backward()
"""
_, message = run("mean", IDLE)[0]
message = next(line for line in message.splitlines() if "Expected to have" in line)
print(message[message.index("Expected") :][:104])

# %%
# Parts of unequal size. The mean of local means weighs every process alike, not every
# sample; weigh each local sum by K divided by the size of the whole batch instead.
#
# The check: both processes hold the same numbers, those of the single process:

assert by_mean == [str(mean.tolist())] * 2
assert by_sum == [str((total / 2).tolist())] * 2
slope = weight / weight.norm()  # the penalty (|w| - 1)^2 has the gradient 2 (|w| - 1) w/|w|
expected = 2 * (weight.norm() - 1) * slope[0]
for line in penalty:
    found = torch.tensor([float(part) for part in line.strip("[]").split(",")])
    torch.testing.assert_close(found, expected)

# %%
# Where next
# ----------
#
# Weights of parts of a batch: :ref:`accumulating-twice`. Stages in place of copies:
# :ref:`cut-graphs`. The penalty itself: :ref:`gradient-penalty`.
