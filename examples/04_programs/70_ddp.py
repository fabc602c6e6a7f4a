r"""
.. _across-processes:

What does DistributedDataParallel do to v?
==========================================

Your training program works on one GPU and is to run on two. You wrap the model in
``DistributedDataParallel``, start two processes, and give each of them half of every batch.
What has to change in the loss, so that you train the same network as before? The answer
depends on one fact: DDP *averages* gradients over the processes. With ``K`` processes,
every ``v`` is divided by ``K``, whatever your loss is.
"""

# %%
# The program
# -----------
#
# Here is a whole training that can run in any number of processes. It fits a sine with a
# small network. Each process makes the same batches and takes the rows that belong to it,
# ``x[rank::K]``. (In a real program a ``DistributedSampler`` hands them out.) All processes
# begin with the same weights. Save it as ``ddp_training.py``, and start it with the line at
# its top:
#
# .. literalinclude:: /../examples/04_programs/processes/ddp_training.py
#    :language: python
#
# ``torchrun`` starts the processes, and tells each its number (its *rank*) and where to
# meet the others. This page ran it on a CPU, with the backend gloo. Where each process has
# a GPU, the backend is ``"nccl"``, and model and data belong on the GPU of the process,
# ``torch.device("cuda", int(os.environ["LOCAL_RANK"]))``, which was not run here.
#
# The same training in one process and in two
# -------------------------------------------
#
# We start the file from Python, which is the same as to type the line. In one process we
# use the mean of the losses. In two processes we try three ways to make a number of them:
# the mean of the local rows, the sum of the local rows divided by the size of the *whole*
# batch, and that sum times ``K``:

import subprocess
import sys

import torch


def torchrun(file, *arguments, processes=2):
    """Run a file in several processes; return what it prints."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", file, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def curves_of(printed):
    curves = {}
    for line in printed.splitlines():
        if line in ("mean", "sum", "times_K"):
            curve = curves[line] = []
        else:
            curve.append(float(line.split()[1]))
    return curves


TRAINING = "processes/ddp_training.py"
alone = curves_of(torchrun(TRAINING, "mean", processes=1))["mean"]
together = curves_of(torchrun(TRAINING, "mean", "sum", "times_K"))

# %%
# Here are the four losses, smoothed a little:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.4))
styles = {"mean": "--", "sum": "-", "times_K": ":"}
smooth = lambda curve: torch.tensor(curve).unfold(0, 4, 1).log().mean(1).exp()
ax.semilogy(smooth(alone), color="lightgrey", linewidth=7, label="one process, mean")
for name, curve in together.items():
    ax.semilogy(smooth(curve), styles[name], label=f"two processes, {name}")
ax.set(xlabel="every fifth step", ylabel="loss")
legend = ax.legend()

# %%
# With the mean of the local rows, two processes train as one does, and the curves lie on
# top of one another. The mean of two means over equal parts is the mean of the whole. The
# sum divided by the whole batch looks right in each process: added up over the processes,
# it is the loss. But DDP does not add up, it averages, and so all gradients are half as
# large. It trains as if the learning rate were half of what you wrote. Times ``K``, it is
# the same again:

loss_alone = torch.tensor(alone)
for name, curve in together.items():
    same = torch.allclose(torch.tensor(curve), loss_alone, rtol=0.05, atol=1e-4)
    print(f"{name:8} as in one process: {same}")

# %%
# In formulas, process ``k`` has the losses :math:`\ell^{(k)}` of its rows, and gives them
# the weights :math:`v^{(k)}`, which are one over the number of its rows for a mean, and
# ones for a sum. After ``backward`` every process holds
#
# .. math::
#
#    \frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)} .
#
# So if you sum, multiply by ``dist.get_world_size()``. If you pass a ``v`` yourself, with
# ``losses.backward(v)``, that is where the factor goes.
#
# What DDP averages, and what it does not
# ---------------------------------------
#
# DDP does its work in hooks on the parameters, and only in the ``backward`` that it
# expects. The second file tries nine cases with a linear model, four rows of data, and a
# ``v`` of ones. For each it prints the gradient that process 0 holds in the end, and next
# to it that of process 1:
#
# .. literalinclude:: /../examples/04_programs/processes/ddp_cases.py
#    :language: python
#
# Each row should show the same numbers twice. Which rows do not?

printed = torchrun("processes/ddp_cases.py")
print(printed)

# %%
# Five of the nine differ between the processes. Their copies of the model will drift apart,
# and of the five only the penalty will ever raise, in its second step
# (:ref:`ddp-messages`). Let us go through them.
#
# **autograd.grad** with respect to the parameters fills no ``.grad``, and the hooks that
# average never run. Each process gets the gradient of its own rows. Average them yourself:
# ``dist.all_reduce(g)``, and then ``g / K``.
#
# **The module inside.** ``model.module(x)`` passes by the forward of DDP, and DDP does not
# know that a ``backward`` is coming.
#
# **Two backward calls**, one for each of two losses, after both forward passes. DDP expects
# one ``backward`` for each round, so the first is averaged, and the second adds the
# gradient of the local rows to it. Add the two losses up and call ``backward`` once. Or, if
# you accumulate on purpose, run every round but the last under ``no_sync``, forward pass
# and ``backward``. The last one then averages all that has been added up, as in the last
# row.
#
# **A gradient penalty alone.** The inner ``autograd.grad`` is with respect to the *inputs*,
# which DDP has no hooks on, and this is no problem. But the last bias of a network has no
# gradient in a penalty, since it changes no slope, and DDP waits for it in vain. So nothing
# is averaged. If the loss contains the output as well, as the scores of a critic or the
# ``+ 0 * y`` of StyleGAN, the bias gets its gradient (of zeros), and all is well. The row
# ``penalty + 0 y`` shows it.
#
# **static_graph=True with a penalty.** DDP takes the inner ``grad`` for the ``backward`` of
# the step, and nothing is averaged from then on.
#
# To know what a penalty should give, we can compute it by hand. In process ``k`` its
# gradient is :math:`2(|w|-k)\,w/|w|`. Without averaging each process holds its own row of
# this table, and with it both hold the mean of the rows:

ones = torch.ones(2)
slopes = 2 * (ones.norm() - torch.arange(2.0)[:, None]) * ones / ones.norm()
print(slopes, slopes.mean(0))

# %%
# What to watch for
# -----------------
#
# **The logged loss.** Each process computes the loss of its own rows. For the log, detach
# it and average it with ``all_reduce``, as the training above does. The loss that you call
# ``backward`` on stays local, because DDP averages the gradients and ``all_reduce`` is not
# recorded.
#
# **Parts of unequal size.** The mean of local means gives every *process* the same weight,
# and not every row. If process 0 has one row and process 1 has three, weigh each local sum
# by ``K`` over the size of the whole batch. Here is what DDP makes of that, computed in
# this process, next to the gradient of the mean of all four:

data = torch.arange(8.0).reshape(4, 2)
losses = lambda w: (data @ w) ** 2
weight = ones.clone().requires_grad_()
parts = [losses(weight)[:1].sum(), losses(weight)[1:].sum()]
average = torch.stack([part * 2 / 4 for part in parts]).mean()  # what DDP does, K = 2
(unequal,) = torch.autograd.grad(average, weight)
whole_mean = torch.func.grad(lambda w: losses(w).mean())(ones)
print(unequal.tolist(), whole_mean.tolist())

# %%
# :ref:`token-mean` does this with tokens, where the sizes always differ.
#
# **BatchNorm** computes its mean over the rows of one process, so that a network with it is
# not the same in two processes as in one. ``torch.nn.SyncBatchNorm`` is for that.
#
# .. admonition:: Try it
#
#    Start the training with four processes, and with three. Do you expect the curve of one
#    process in both cases?
#
# .. dropdown:: Answer
#
#    With four, yes: 64 rows are four times 16. With three they are 22, 21 and 21, so that
#    the mean of the three means is a slightly different number, and the curve is close but
#    not the same.

# %%
# .. dropdown:: How we checked this page
#
#    What the two processes hold is compared with one process that has all four rows, the
#    local gradients with their formula, and the penalty with the table. The curves of the
#    training are compared step by step.

rows = {line[:14].strip(): line[14:] for line in printed.splitlines()}


def held(name):
    pairs = rows[name].replace("]", "").split("[")[1:]
    return torch.tensor([[float(g) for g in pair.split(",")] for pair in pairs])


whole_sum = torch.func.grad(lambda w: losses(w).sum())(ones)
local = torch.func.jacrev(lambda w: losses(w).reshape(2, 2).mean(1))(ones)
both = lambda g: g.expand(2, 2)
expected = {
    "mean": both(whole_mean),
    "sum": both(whole_sum) / 2,
    "penalty": slopes,
    "penalty + 0 y": both(slopes.mean(0)),
    "static graph": slopes,
    "autograd.grad": local,
    "module": local,
    "two backwards": whole_mean + local,
    "no_sync": both(whole_mean),
}
assert list(rows) == list(expected)
for name, gradient in expected.items():
    torch.testing.assert_close(held(name), gradient, rtol=0, atol=1e-3)
torch.testing.assert_close(unequal, whole_mean)

assert len(alone) == 40
for name in ("mean", "times_K"):
    torch.testing.assert_close(
        torch.tensor(together[name]), loss_alone, rtol=0.05, atol=1e-4
    )
assert not torch.allclose(torch.tensor(together["sum"]), loss_alone, rtol=0.5, atol=1e-4)
assert alone[-1] < 0.01 < 1 < alone[0]

# %%
# **Next:** :ref:`ddp-messages` goes through what DDP warns of and refuses. To count tokens
# before you average, read :ref:`token-mean`. For the gradient penalty itself, read
# :ref:`gradient-penalty`. If the parameters are divided among the processes as well, read
# :ref:`sharded-parameters`.
#
# .. asked: DistributedDataParallel gradient; gradients averaged over GPUs; result half
#    as large on two GPUs; sum or mean of gradients over processes; DDP loss scaling;
#    world size factor; several GPUs other gradient; two cards give half the gradient;
#    gradient depends on the number of GPUs; result on two graphics cards
# .. words: gpus, ranks, all reduce, divided, mean, half, workers, torchrun, world size,
#    learning rate scaling, multi gpu, average
