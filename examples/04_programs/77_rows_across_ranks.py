r"""
.. _rows-across-ranks:

Can several processes share one Jacobian?
=========================================

Your function is a simulation, one run takes a second, and you want its whole
:term:`Jacobian`. With a thousand outputs this takes a thousand backward passes. You have
eight processes. Can each of them take an eighth of the work? It can, because the rows of a
Jacobian are :term:`vector-Jacobian products <vector-Jacobian product>` that know nothing of
each other: the ``v`` of row ``i`` has a 1 in place ``i`` and zeros elsewhere, and any
process may compute it. :func:`pullback.distributed.jacobian` shares the rows out among the
processes, and gives the whole of ``J`` to each of them.
"""

# %%
# The program
# -----------
#
# Save the program below as ``share_a_jacobian.py``, and start it with the line at its top.
# The first half of the main part is all that a real program needs: join the group, and make
# the *same call in every process*, with the same function and the same ``x``. Our ``f`` has
# five outputs and three inputs. It notes each ``v`` that reaches it, so that we see who
# takes which row. The second half tries four mistakes:
#
# .. literalinclude:: /../examples/04_programs/processes/share_a_jacobian.py
#    :language: python
#
# ``torchrun`` tells each process its number, its *rank*, and where to meet the others, and
# ``init_process_group`` reads that. On this page it runs on a CPU in two processes. From
# Python we start it like this:

import json
import subprocess
import sys

import torch

import pullback

FILE = "processes/share_a_jacobian.py"
RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
done = subprocess.run([*RUN, FILE], capture_output=True, text=True, timeout=300)
assert done.returncode == 0, done.stderr
printed = done.stdout.splitlines()

# %%
# Who takes which row?
# --------------------
#
# For ``m`` outputs and ``K`` processes, process ``k`` takes the rows
#
# .. math::
#
#    J_{i,:}=e_i^\top J,\qquad k\,s\le i<(k+1)\,s,\qquad s=\lceil m/K\rceil ,
#
# which is three rows for the first process, and two for the second. These are the ``v``
# that arrived, all of them :term:`one-hot vectors <one-hot vector>` but one:

print("\n".join(printed[:6]))

# %%
# Rank 1 has taken a third product, with a ``v`` of zeros. Its result is thrown away. It is
# there because all processes gather parts of the same size. In the end both have all five
# rows, the same as one process computes alone:

x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(15.0).reshape(5, 3)
J = pullback.jacobian(lambda x: (A @ x) ** 2, x)
print(J)
gathered = [
    torch.tensor(json.loads(line.removeprefix(f"rank {rank}: ")))
    for rank, line in enumerate(printed[6:8])
]
print("rank 0 has it:", torch.equal(gathered[0], J))
print("rank 1 has it:", torch.equal(gathered[1], J))

# %%
# What to watch for
# -----------------
#
# **All processes need the same x.** In ordinary training each process has its own data, and
# the *gradients* are averaged (:ref:`across-processes`). This is another task. The rows of
# two different points would make a matrix that is nobody's Jacobian. So the inputs are
# compared, by their hashes, and if they differ, every process raises an error:

print(printed[8].partition(":")[2].partition(";")[0].strip())

# %%
# **One process fails.** If its ``f`` raises, the other is told, and does not wait until the
# timeout of the group:

print("\n".join(printed[10:12]))

# %%
# **A random f** needs the same seed everywhere (:func:`torch.manual_seed`). With another
# one in each process the outputs differ, and this is noticed as well:

print(printed[12].partition(" (")[0])

# %%
# **What is not noticed.** If ``f`` has the same outputs in all processes, but another graph
# in one, nothing can tell from the numbers. The last ``f`` is the square, with a ``detach``
# in rank 1. The first two rows come from rank 0 and are right. The third comes from rank 1,
# and shows 3 on the diagonal in place of 6:

print("\n".join(printed[14:16]))

# %%
# **Small Jacobians gain nothing.** Each process runs ``f`` forward once and sends its part
# to all others. It pays when one product costs much more than sending one row. And every
# process holds the whole of ``J``. If it does not fit, you need a way without it, a product
# at a time (:ref:`never-forms-j`).
#
# **More outputs than inputs?** Then share the columns, with ``mode="forward"``
# (:ref:`reverse-or-forward`).
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
#    What the two processes have gathered is compared with the formula
#    :math:`J=\operatorname{diag}(2Ax)\,A`, and the diagonal of the cut function with the
#    right one in the rows of rank 0.

for each in gathered:
    torch.testing.assert_close(each, 2 * (A @ x)[:, None] * A)
    torch.testing.assert_close(each, J)
seeds = [json.loads(line.partition(": ")[2]) for line in printed[:6]]
rows = torch.cat([torch.eye(5), torch.zeros(1, 5)])
assert torch.equal(torch.tensor(seeds[0::2] + seeds[1::2]), rows)
assert "different inputs" in printed[8]
assert "different inputs" in printed[9]
assert "rank 1 of the group raised" in printed[10]
assert "different outputs" in printed[12]
assert "different outputs" in printed[13]
for line in printed[14:16]:
    assert json.loads(line.partition(": ")[2]) == [2, 4, 3]

# %%
# **Next:** To compute the rows in one process, read :ref:`jacobian-row-by-row`. If the
# Jacobian has many zeros, :ref:`sparse-jacobian` shows how to need fewer products. For
# gradients that are averaged over processes, read :ref:`across-processes`.
#
# .. asked: Jacobian on several GPUs; distribute rows of the Jacobian; parallel
#    Jacobian; share a Jacobian among processes
# .. words: share, cluster, many gpus, split the work, all_gather, mpi, rows
