r"""
.. _rows-across-ranks:

Can several processes share one Jacobian?
=========================================

Your function is a simulation. One run takes a second, and you want the whole
:term:`Jacobian` of the function. With a thousand outputs this takes a thousand backward
passes. You have eight processes. Can each of them take an eighth of the work? It can,
because the rows of a Jacobian are :term:`vector-Jacobian products <vector-Jacobian
product>` that do not depend on each other: the ``v`` of row ``i`` has a 1 at position ``i``
and zeros elsewhere, and any process may compute this row.
:func:`pullback.distributed.jacobian` divides the rows among the processes, and returns the
whole of ``J`` in each of them.
"""

# %%
# The program
# -----------
#
# Save the program below as ``processes/share_a_jacobian.py``, and start it with the
# command at its top. A real program needs only the first half of the main part: join the
# group, and make the *same call in every process*, with the same function and the same
# ``x``. Our ``f`` has five outputs and three inputs. It stores each ``v`` that reaches it,
# so that we see which process takes which row.
#
# The second half tries four mistakes. Each ``attempt`` has a name, a function and an ``x``.
# In the first, each process has an ``x`` of its own. In the second, ``f`` raises an error
# in all processes but the first. In the third, ``f`` is random, and each process has its
# own seed. In the fourth, a ``detach`` cuts the graph in all processes but the first:
#
# .. literalinclude:: /../examples/04_programs/processes/share_a_jacobian.py
#    :language: python
#
# ``torchrun`` tells each process its number, which is called its *rank*, and where to
# meet the others. ``init_process_group`` reads both. On this page the program runs on a
# CPU in two processes. From Python we start it like this:

import json
import subprocess
import sys

import torch

import pullback

FILE = "processes/share_a_jacobian.py"
RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
done = subprocess.run([*RUN, FILE], capture_output=True, text=True, timeout=300)
assert done.returncode == 0, done.stderr
printed = [line.partition(", ") for line in done.stdout.splitlines()]


def said(name):
    """Return what the processes printed under this name, one line for each."""
    return [line for label, _, line in printed if label == name]


def value(line):
    return json.loads(line.partition(": ")[2])


# %%
# Who takes which row?
# --------------------
#
# For ``m`` outputs and ``K`` processes, process ``k`` takes the rows
#
# .. math::
#
#    J_{i,:}=e_i^\top J,\qquad k\,s\le i<(k+1)\,s,\qquad s=\lceil m/K\rceil .
#
# That makes three rows for the first process, and two for the second. Here is each ``v``
# that arrived. All except one are :term:`one-hot vectors <one-hot vector>`:

print("\n".join(said("v")))

# %%
# Rank 1 has computed a third product, with a ``v`` of zeros, and its result is thrown
# away. Rank 1 needs it because all processes must send parts of the same size. In the end
# both processes have all five rows, the same five that one process computes alone:

x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(15.0).reshape(5, 3)
J = pullback.jacobian(lambda x: (A @ x) ** 2, x)
print(J)
gathered = [torch.tensor(value(line)) for line in said("J")]
print("rank 0 has it:", torch.equal(gathered[0], J))
print("rank 1 has it:", torch.equal(gathered[1], J))

# %%
# What to watch for
# -----------------
#
# **All processes need the same x.** In ordinary training each process has its own data,
# and the *gradients* are averaged (:ref:`across-processes`). Here the task is different.
# Rows that belong to two different points would make a matrix that is not the Jacobian at
# any point. So the function compares the hashes of the inputs, and if they differ, it
# raises an error in every process:

print(said("x differs")[0].partition(" (")[0])

# %%
# **One process fails.** If ``f`` raises an error in one process, the other process learns
# of it, and does not wait until the timeout of the group:

print("\n".join(said("one fails")))

# %%
# **A random f** needs the same seed everywhere (:func:`torch.manual_seed`). With a
# different seed in each process the outputs differ, and in this case, too, every process
# raises an error:

print(said("f is random")[0].partition(" (")[0])

# %%
# **A different graph is not noticed.** If ``f`` has the same outputs in all processes,
# but a different graph in one of them, the outputs do not show it. The last ``f`` is the
# square, with a ``detach`` in rank 1. The first two rows come from rank 0 and are right.
# The third row comes from rank 1, and has 3 on the diagonal instead of 6:

print("\n".join(said("graph differs")))

# %%
# **Small Jacobians gain nothing.** Each process runs ``f`` forward once and sends its
# part to all others. Several processes are worth it only if one product costs much more
# than sending one row. And every process holds the whole of ``J``. If ``J`` does not fit
# into memory, work with one product at a time and never form ``J``
# (:ref:`never-forms-j`).
#
# **More outputs than inputs?** If so, divide the columns among the processes, with
# ``mode="forward"`` (:ref:`reverse-or-forward`).
#
# .. admonition:: Try it
#
#    With four processes and our five outputs, how many products with a ``v`` of zeros are
#    there?
#
# .. dropdown:: Answer
#
#    Three. Each process takes two, which makes eight products for five rows.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the Jacobian that the two processes have gathered with the formula
#    :math:`J=\operatorname{diag}(2Ax)\,A`. For the function with the ``detach``, we compare
#    the diagonal entries in the rows of rank 0 with the right ones.

for each in gathered:
    torch.testing.assert_close(each, 2 * (A @ x)[:, None] * A)
    torch.testing.assert_close(each, J)
seeds = [[value(line) for line in said("v") if f"rank {k}:" in line] for k in (0, 1)]
rows = torch.cat([torch.eye(5), torch.zeros(1, 5)])
assert torch.equal(torch.tensor(seeds[0] + seeds[1]), rows)
assert len(gathered) == 2
assert ["different inputs" in line for line in said("x differs")] == [True, True]
assert "rank 1 of the group raised" in said("one fails")[0]
assert ["different outputs" in line for line in said("f is random")] == [True, True]
assert [value(line) for line in said("graph differs")] == [[2, 4, 3], [2, 4, 3]]

# %%
# **Next:** To compute the rows in one process, read :ref:`jacobian-row-by-row`. If the
# Jacobian has many zeros, :ref:`sparse-jacobian` shows how to need fewer products. For
# gradients that are averaged over processes, read :ref:`across-processes`.
#
# .. asked: Jacobian on several GPUs; distribute rows of the Jacobian; parallel
#    Jacobian; share a Jacobian among processes
# .. words: share, cluster, many gpus, split the work, all_gather, mpi, rows
