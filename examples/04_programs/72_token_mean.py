r"""
.. _token-mean:

A mean over tokens, in micro-batches and on several ranks
=========================================================

You train a language model. The batch is too large for one GPU, so you cut it into
micro-batches, and spread these over several processes. Each micro-batch has its own mean
loss, the gradients are accumulated and averaged, and nothing looks wrong. But the
sequences have different lengths, and a mean of means counts a token in a short sequence
many times as much as one in a long sequence. To avoid this, count the tokens first, and
then give every token of the whole batch the same ``v``.
"""

# %%
# The program
# -----------
#
# Our text has eight lines, five of which are very short. The model learns to guess each
# letter from the letter before it. Each letter is a token. Each of the ``K`` processes
# takes every ``K``-th line, and each line is a micro-batch. Save the file as
# ``processes/token_mean.py``, and start it with the command at its top. The last word of
# the command is the name of one of three rules:
#
# .. literalinclude:: /../examples/04_programs/processes/token_mean.py
#    :language: python
#
# Let :math:`S_{km}` be the sum of the losses of micro-batch ``m`` in process ``k``, and
# :math:`n_{km}` the number of its tokens. The loss that we want is :math:`\sum
# S_{km}/\sum n_{km}`. The sum in the denominator runs over all processes, so they have to
# exchange their counts before the first ``backward``. The program does this with the
# ``all_reduce`` of ``total``. DDP then averages over the ``K`` processes, which divides
# by ``K``, and we multiply by ``K`` to undo this. So each token gets
#
# .. math::
#
#    v=\frac{K}{\sum_{km}n_{km}},
#
# and not :math:`1/n_{km}`. The rule ``tokens`` does this. The rule ``means`` takes the
# mean of the means of the micro-batches, as ``loss / accumulation_steps`` does. With the
# rule ``ranks`` each process counts only its own tokens. This is right on one GPU, and
# wrong on two.
#
# ``no_sync`` surrounds the forward pass *and* the ``backward`` of every micro-batch
# except the last. The gradients add up in each process, and the last ``backward``
# averages the whole sum (:ref:`across-processes`).
#
# What a model learns with each rule
# ----------------------------------
#
# We start the program in two processes with each of the three rules, and in one process
# with the first rule. Each run prints the mean loss of a token, which is computed in the
# same way in all runs:

import runpy
import subprocess
import sys

import torch
from torch.nn.functional import cross_entropy

FILE = "processes/token_mean.py"


def torchrun(*arguments, processes):
    """Run the file in several processes; return the lines that it prints, by rule."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", FILE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = {}
    for line in done.stdout.splitlines():
        if line in arguments:
            lines[line] = []
        else:
            lines[[*lines][-1]].append(line)
    return lines


def losses(lines):
    return [float(line.split()[1]) for line in lines if line[0].isdigit()]


alone = torchrun("tokens", processes=1)
together = torchrun("tokens", "means", "ranks", processes=2)

# %%
# With the first rule, two processes train as one does. With the other two rules, the loss
# is higher at the end:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.2, 3.2))
step = range(0, 150, 5)
style = {"color": "lightgrey", "linewidth": 7}
ax.plot(step, losses(alone["tokens"]), label="one process, tokens", **style)
for name, lines in together.items():
    ax.plot(step, losses(lines), label=f"two processes, {name}")
ax.set(xlabel="step", ylabel="loss of a token")
legend = ax.legend()

# %%
print(f"one process, tokens   {losses(alone['tokens'])[-1]:.2f}")
for name, lines in together.items():
    print(f"two processes, {name:7}{losses(lines)[-1]:.2f}")

# %%
# With ``means``, the five short lines have five eighths of the weight, and the model
# learns less from the long lines, which contain most of the letters. With ``ranks`` the
# difference is smaller, because both processes have long lines. In real training, this
# difference would change from batch to batch, because it depends on which lines each
# process gets. There is no error or warning.
#
# What to watch for
# -----------------
#
# **A gradient norm inside the loop.** Under ``no_sync``, ``.grad`` holds the gradient
# that *this process* has accumulated so far. Here is its length in both processes, after
# the first micro-batch and after the last. If you clip, clip once, after the last
# ``backward``. Then all processes hold the same gradient, and will take the same step:

for line in together["tokens"][:2]:
    print(line)

# %%
# **The loss that you log.** Must the loss go through ``all_reduce`` before ``backward``?
# It need not, because DDP averages the gradients, and ``dist.all_reduce`` is not recorded
# in the graph. Detach the loss, add it up over the micro-batches, and call ``all_reduce``
# once in each step, as the program does with ``log``.
#
# **Padding.** Count only the tokens that have a loss. With ``ignore_index`` their number
# is ``(labels != -100).sum()``. ``cross_entropy`` divides by this number when it takes a
# mean. Here are the mean, the sum and the number for one sequence, and for a second
# sequence that is nothing but padding. The last column is the length of the gradient of
# the mean:

logits = torch.zeros(3, 5, requires_grad=True)
print("  mean   sum  number  gradient")
for labels in (torch.tensor([1, -100, 2]), torch.full((3,), -100)):
    mean = cross_entropy(logits, labels)
    total = cross_entropy(logits, labels, reduction="sum")
    (g,) = torch.autograd.grad(mean, logits)
    print(f"{mean:6.3f} {total:5.3f} {labels.ne(-100).sum():7} {g.norm():9.3f}")

# %%
# The mean over zero tokens is NaN. Its gradient is 0 here, so it does not spoil the
# weights, but it spoils the log. The sum is 0, and spoils neither.
#
# **A Trainer that counts for you.** In transformers, the Trainer passes the number of
# tokens of a step to the loss as ``num_items_in_batch``. If you write your own loss,
# divide by it (:ref:`error-num-items-in-batch`).
#
# .. admonition:: Try it
#
#    Suppose that each *line* should count the same, however long it is. What would ``v``
#    be? Write the rule for it, and remember that DDP averages over the processes.
#
# .. dropdown:: Answer
#
#    Each line gets 1/8, so each of its tokens gets 1/8 divided by the length of the line.
#    Because DDP averages over ``K`` processes, the rule is ``S / n * K / 8``. The rule
#    ``means`` computes the same if all processes have the same number of lines, since
#    ``M``, the number of lines of a process, is then 8/K.

# %%
# .. dropdown:: How we checked this page
#
#    In this one process, we write each rule as a ``v`` with a weight for each token of
#    the text. We compare the length of the gradient that this ``v`` gives with the length
#    that both processes print after the last micro-batch. We compare the final loss of
#    ``tokens`` with the smallest loss that any such model can have. We compute this
#    smallest loss from the counts of the letters.

program = runpy.run_path(FILE)  # its names, without starting it
pairs = [program["tokens_of"](line) for line in program["LINES"]]
lengths = torch.tensor([len(y) for _, y in pairs])
x, y = (torch.cat(part) for part in zip(*pairs, strict=True))
of_rank = torch.stack([lengths[0::2].sum(), lengths[1::2].sum()]).repeat(4)
weight_of_line = {
    "tokens": 1 / lengths.sum().expand(8),
    "means": 1 / (8 * lengths),
    "ranks": 1 / (2 * of_rank),
}
for name, weights in weight_of_line.items():
    scores = torch.zeros(27, 27, requires_grad=True)
    v = weights.repeat_interleave(lengths)  # one for each token
    cross_entropy(scores[x], y, reduction="none").backward(v)
    *_, first, second = together[name][1].split()
    assert first == second
    assert abs(float(first) - scores.grad.norm()) < 2e-4
    assert together[name][0].split()[-1] != together[name][0].split()[-2]

both = torch.tensor([losses(alone["tokens"]), losses(together["tokens"])])
torch.testing.assert_close(both[0], both[1], rtol=1e-3, atol=1e-4)
counts = torch.zeros(27, 27).index_put_((x, y), torch.ones(len(x)), accumulate=True)
chances = counts / counts.sum(1, keepdim=True).clamp(min=1)
least = -chances[x, y].log().mean().item()
assert least < both[1, -1] < least + 0.05
assert losses(together["means"])[-1] > both[1, -1] + 0.2
assert losses(together["ranks"])[-1] > both[1, -1] + 0.005
assert [len(line) < 10 for line in program["LINES"]].count(True) == 5
assert mean.isnan()
assert not g.any()

# %%
# **Next:** :ref:`across-processes` shows what DDP does to ``v``. For more losses that are
# weights, read :ref:`loss-as-v`. :ref:`accumulate-in-half` adds a scaler and clipping to
# the loop. If one loss needs all rows at once, read :ref:`gradient-cache`.
#
# .. asked: gradient accumulation for language models; mean over tokens;
#    num_items_in_batch; loss normalisation with padding; accumulation gives another
#    loss; token average over GPUs; sequences of different lengths; padded sequences and
#    the average loss; short and long sequences in a batch
# .. words: llm, accumulate, padding, unequal lengths, num_items, loss too high, normalise,
#    trainer bug, per token, microbatch
