r"""
.. _token-mean:

A mean over tokens, in micro-batches and on several ranks
=========================================================

Sum the losses of each part and divide by the number of tokens of the *whole* batch, over
all ranks and micro-batches; times the number of ranks, since DDP averages. So count first,
with one ``all_reduce``. A mean of means weighs each part alike, however few tokens it has.
"""

# %%
# With K ranks, and :math:`S_{km}` the sum of the losses of micro-batch m on rank k, which
# has :math:`n_{km}` tokens, the wanted loss is :math:`\sum S_{km}/\sum n_{km}`. DDP takes
# the mean over the ranks, so each backward is to see
#
# .. math::
#
#    v=\frac{K}{\sum_{km}n_{km}}\quad\text{for each token,}
#
# not :math:`1/n_{km}`. Two real processes (gloo, on this machine's CPU); each runs what is
# written to a file:

import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, Popen

import torch

# %%
# Two micro-batches on each rank, of 1 and 2 tokens, and of 4 and 1. A token is a row of
# two numbers, its loss :math:`(w\cdot x)^2`:

TOKENS = """
data = torch.arange(16.0).reshape(8, 2) / 8
micro = [[data[:1], data[1:3]], [data[3:7], data[7:]]]
"""
MEET = """
import sys, torch
import torch.distributed as dist
rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
def show(name, gradient):
    print(name, [round(g, 4) for g in gradient.flatten().tolist()])
"""

# %%
# The count comes first, in one ``all_reduce``:

PREPARE = """
def prepare():
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    total = torch.tensor(len(torch.cat(micro[rank])))
    dist.all_reduce(total)
    return torch.nn.parallel.DistributedDataParallel(model), total
"""

# %%
# A step, from the model and the number of tokens in all: ``no_sync`` around forward *and*
# backward of all micro-batches but the last, whose backward averages the whole sum.
# ``rule`` makes the loss from the sum, the tokens here and the tokens in all:

STEP = """
from contextlib import nullcontext
def step(name, rule):
    model, total = prepare()
    for part in micro[rank]:
        with nullcontext() if part is micro[rank][-1] else model.no_sync():
            rule((model(part) ** 2).sum(), len(part), total.item()).backward()
        if part is not micro[rank][-1]:
            show(name + "_local", model.module.weight.grad)
    show(name, model.module.weight.grad)
"""

# %%
# Three rules: the token mean, the mean of the micro-batches' means, and each rank's own
# token mean, right on one GPU and wrong on two:

RULES = """
K, M, log = dist.get_world_size(), len(micro[rank]), torch.zeros(1)
def tokens(S, n, total):
    log.add_(S.detach() / total)
    return S * K / total
step("tokens", tokens)
dist.all_reduce(log)
show("log", log)
step("means", lambda S, n, total: S / n / M)
step("ranks", lambda S, n, total: S / len(torch.cat(micro[rank])))
dist.destroy_process_group()
"""

# %%
# Start both, and wait:

with tempfile.TemporaryDirectory() as folder:
    script, meeting = Path(folder, "worker.py"), Path(folder, "meeting")
    script.write_text(MEET + TOKENS + PREPARE + STEP + RULES)
    command = [sys.executable, "-W", "ignore:Grad strides", script]
    processes = [Popen([*command, k, meeting], stdout=PIPE, text=True) for k in "01"]
    printed = [p.communicate(timeout=200)[0].splitlines() for p in processes]

# %%
# The single process with all eight tokens, and what the two hold:

data = torch.arange(16.0).reshape(8, 2) / 8
w = torch.ones(2, requires_grad=True)
(whole,) = torch.autograd.grad(((data @ w) ** 2).mean(), w)
of_all = ((data @ w) ** 2).mean().item()
print("one process ", [round(g, 4) for g in whole.tolist()], "log", round(of_all, 4))
rows = [dict(line.split(" ", 1) for line in lines) for lines in printed]
for name in rows[0]:
    print(f"{name:12}", rows[0][name], rows[1][name])

# %%
# The token mean is that of one process; the others are off, each by an amount that changes
# from batch to batch, and no message says so.
#
# What goes wrong
# ---------------
#
# *I clip or log the gradient norm in the loop.* Under ``no_sync`` ``.grad`` is this rank's
# sum so far: the two ``local`` columns differ. Clip once, after the last ``backward``,
# where all ranks hold the same and take the same step.
#
# *Must I all_reduce the loss before backward?* No: ``backward`` averages the gradients, and
# ``dist.all_reduce`` is not recorded. A loss for the log is detached, added up, and reduced
# once, as ``log`` is.
#
# *ignore_index, padding.* What counts is a token with a loss: count ``labels != -100``, as
# ``cross_entropy`` does where it takes its mean. The mean, sum and number of a part, and of
# one that is padding throughout: the mean is NaN, and its gradient 0, so that the weights
# are not spoiled, only the log. The last column is the length of the mean's gradient:

from torch.nn.functional import cross_entropy

logits = torch.zeros(3, 5, requires_grad=True)
for labels in (torch.tensor([1, -100, 2]), torch.full((3,), -100)):
    mean = cross_entropy(logits, labels)
    total = cross_entropy(logits, labels, reduction="sum")
    (g,) = torch.autograd.grad(mean, logits)
    print(f"{mean:.3f} {total:.3f} {labels.ne(-100).sum()} {g.norm():.3f}")

# %%
# The check: each rule by its formula in this one process, with the weight of each token in
# the order of the data:


def held(name):
    return torch.tensor([[float(g) for g in row[name][1:-1].split(",")] for row in rows])


weights = {
    "tokens": [1 / 8] * 8,
    "means": [1 / 4, 1 / 8, 1 / 8, 1 / 16, 1 / 16, 1 / 16, 1 / 16, 1 / 4],
    "ranks": [1 / 6] * 3 + [1 / 10] * 5,
}
for name, weight in weights.items():
    (g,) = torch.autograd.grad((data @ w) ** 2, w, torch.tensor(weight))
    torch.testing.assert_close(held(name), g.expand(2, 2), rtol=0, atol=1e-3)
assert not torch.equal(*held("tokens_local"))
torch.testing.assert_close(held("log"), torch.full((2, 1), of_all), rtol=0, atol=1e-3)

# %%
# Where next
# ----------
#
# What DDP does to v: :ref:`across-processes`. Losses as weights: :ref:`loss-as-v`. Fewer
# numbers in memory, with one loss over all rows: :ref:`gradient-cache`.
#
# .. asked: gradient accumulation for language models; mean over tokens;
#    num_items_in_batch; loss normalisation with padding; accumulation gives another
#    loss; token average over GPUs; sequences of different lengths; padded sequences and
#    the average loss; short and long sequences in a batch
#
# .. words: llm, accumulate, padding, unequal lengths, num_items, loss too high, normalise,
#    trainer bug, per token, microbatch
