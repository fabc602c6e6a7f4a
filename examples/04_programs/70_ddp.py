r"""
.. _across-processes:

What does DistributedDataParallel do to v?
==========================================

Your training program works on one GPU, and now you want to run it on two. You wrap the
model in ``DistributedDataParallel``, start two processes, and give each of them half of
every batch. What has to change in the loss, so that you train the same network as before?
The answer depends on one fact: DDP *averages* gradients over the processes. With ``K``
processes, every ``v`` is divided by ``K``, whatever your loss is.
"""

# %%
# The program
# -----------
#
# Here is a whole training program that can run in any number of processes. It fits a sine
# with a small network. Each process makes the same batches and takes only its own rows from
# them, ``x[rank::K]``. In a real program a ``DistributedSampler`` gives each process its
# rows. All processes begin with the same weights. Save the program as
# ``processes/ddp_training.py``, and start it with the command at its top:
#
# .. literalinclude:: /../examples/04_programs/processes/ddp_training.py
#    :language: python
#
# ``torchrun`` starts the processes, and tells each process its number, which is called
# its *rank*, and where to meet the others. On this page the program runs on a CPU, with
# the backend gloo. If each process has a GPU, the backend is ``"nccl"``, and the model
# and the data belong on the GPU of the process, ``torch.device("cuda",
# int(os.environ["LOCAL_RANK"]))``. We have not run this here.
#
# The same training in one process and in two
# -------------------------------------------
#
# We start the file from Python, which does the same as typing the command. In one process
# we use the mean of the losses. In two processes we try three ways to turn the losses
# into one number: the mean over the local rows, the sum over the local rows divided by
# the size of the *whole* batch, and this second number times ``K``:

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
# Here are the four loss curves, smoothed a little:

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
# With the mean over the local rows, two processes train as one process does, and their
# curves lie on top of one another, because the mean of two means over equal parts is the
# mean of the whole. The sum divided by the size of the whole batch looks right, because
# the sums of the processes add up to the loss. But DDP does not add the gradients, it
# averages them, and so all gradients are half as large. The model trains as if the
# learning rate were half of the rate that you wrote. With the factor ``K`` the training
# is the same as in one process again:

loss_alone = torch.tensor(alone)
for name, curve in together.items():
    same = torch.allclose(torch.tensor(curve), loss_alone, rtol=0.05, atol=1e-4)
    print(f"{name:8} as in one process: {same}")

# %%
# In formulas, process ``k`` has the losses :math:`\ell^{(k)}` of its rows, and weights them
# with :math:`v^{(k)}`. For a mean, each entry of :math:`v^{(k)}` is 1 divided by the number
# of its rows, and for a sum, each entry is 1. After ``backward`` every process holds
#
# .. math::
#
#    \frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)} .
#
# So if you use a sum, multiply it by ``dist.get_world_size()``. If you pass a ``v``
# yourself, with ``losses.backward(v)``, multiply ``v`` by this number.
#
# What DDP averages, and what it does not
# ---------------------------------------
#
# DDP does its work in hooks on the parameters, and only in the ``backward`` that it
# expects. The second file tries nine cases with a linear model, four rows of data, and a
# ``v`` of ones. For each case it prints the gradient that process 0 holds at the end, and
# next to it the gradient that process 1 holds:
#
# .. literalinclude:: /../examples/04_programs/processes/ddp_cases.py
#    :language: python
#
# Each row should show the same numbers twice. Which rows do not?

printed = torchrun("processes/ddp_cases.py")
print(printed)

# %%
# In five of the nine rows the two gradients differ. In these five cases the copies of the
# model will drift apart. Only the penalty will raise an error, and only in its second
# step (:ref:`ddp-messages`). Let us go through the five cases.
#
# **autograd.grad** with respect to the parameters does not fill ``.grad``, and the hooks
# that average the gradients never run. Each process gets the gradient of its own rows.
# Average them yourself: ``dist.all_reduce(g)``, and then ``g / K``.
#
# **Calling the module inside DDP.** ``model.module(x)`` skips the forward pass of DDP, and
# so DDP does not know that a ``backward`` is coming.
#
# **Two backward calls**, one for each of two losses, after both forward passes. DDP
# expects a ``backward`` after each forward pass, before the next one begins. So it
# averages the first gradient, and the second ``backward`` adds the gradient of the local
# rows to this average. Add the two losses and call ``backward`` once. Or, if you
# accumulate on purpose, run the forward pass and the ``backward`` of every micro-batch
# except the last under ``no_sync``. The last ``backward`` then averages the whole
# accumulated gradient, as in the last row of the output.
#
# **A gradient penalty alone.** The inner ``autograd.grad`` is with respect to the
# *inputs*. DDP has no hooks on the inputs, so this call does no harm. But the last bias
# of a network gets no gradient from a penalty, because it does not change the slope, and
# DDP waits for this gradient in vain. So nothing is averaged. If the loss contains the
# output as well, for example the scores of a critic or the ``+ 0 * y`` of StyleGAN, the
# bias gets a gradient, even if it is zero, and the averages are right. The row ``penalty
# + 0 y`` shows this.
#
# **static_graph=True with a penalty.** DDP mistakes the inner ``grad`` for the
# ``backward`` of the step, and averages nothing from then on.
#
# We can compute the gradient of the penalty with a formula. In process ``k`` it is
# :math:`2(|w|-k)\,w/|w|`. Without averaging, each process holds its own row of this
# table. With averaging, both processes hold the mean of the rows:

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
# **Parts of unequal size.** The mean of local means gives every *process* the same
# weight, but it should give every *row* the same weight. If process 0 has one row and
# process 1 has three, multiply each local sum by ``K`` and divide it by the size of the
# whole batch. We compute in this one process the gradient that DDP would then give, and
# next to it the gradient of the mean over all four rows:

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
# **BatchNorm** computes its mean over the rows of one process. So a network with
# BatchNorm does not compute the same in two processes as in one. Use
# ``torch.nn.SyncBatchNorm`` instead.
#
# .. admonition:: Try it
#
#    Start the training with four processes, and with three. Do you expect the same curve
#    as with one process in both cases?
#
# .. dropdown:: Answer
#
#    With four processes you get the same curve, because each process has 16 of the 64
#    rows. Three processes have 22, 21 and 21 rows. So the mean of their three means is a
#    slightly different number, and the curve is close but not the same.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradients that the two processes hold with the gradient in one process
#    that has all four rows, the local gradients with their formula, and the penalty with
#    the table. We compare the curves of the training step by step.

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
# **Next:** :ref:`ddp-messages` goes through the warnings and errors of DDP. To count
# tokens before you average, read :ref:`token-mean`. For the gradient penalty itself, read
# :ref:`gradient-penalty`. If the parameters, too, are divided among the processes, read
# :ref:`sharded-parameters`.
#
# .. asked: DistributedDataParallel gradient; gradients averaged over GPUs; result half
#    as large on two GPUs; sum or mean of gradients over processes; DDP loss scaling;
#    world size factor; several GPUs other gradient; two cards give half the gradient;
#    gradient depends on the number of GPUs; result on two graphics cards
# .. words: gpus, ranks, all reduce, divided, mean, half, workers, torchrun, world size,
#    learning rate scaling, multi gpu, average
