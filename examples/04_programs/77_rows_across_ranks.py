r"""
.. _rows-across-ranks:

Can several processes share one Jacobian?
=========================================

Yes: the rows of a :term:`Jacobian` are
:term:`vector-Jacobian products <vector-Jacobian product>` that know nothing of each other.
:func:`pullback.distributed.jacobian` lets every process of a ``torch.distributed`` group
take its part of them, and gives each process the whole of J.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R^m` and K processes, process k takes the rows
#
# .. math::
#
#    J_{i,:}=e_i^\top J,\qquad k\,s\le i<(k+1)\,s,\qquad s=\lceil m/K\rceil ,
#
# runs f itself, and receives the other rows. With five outputs and two processes that is
# three rows and two. What this page needs:

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import pullback

# %%
# The whole of it in this process, to compare with:

x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(15.0).reshape(5, 3)


def f(x):
    return (A @ x) ** 2


J = pullback.jacobian(f, x)
print(J)

# %%
# What each process runs is a file of its own. ``torchrun`` tells a process its number, and
# where to meet the others, by way of its environment; ``init_process_group`` reads that:

SETUP = """
import torch
import torch.distributed as dist
import pullback
dist.init_process_group("gloo")  # "nccl" where each process has a GPU
rank = dist.get_rank()
x = torch.tensor([1.0, 2.0, 3.0])
A = torch.arange(15.0).reshape(5, 3)
"""

# %%
# All processes make the same call. This f prints the seeds that reach it, so that you see
# which rows a process takes:

ROWS = """
def f(x):
    y = (A @ x) ** 2
    y.register_hook(lambda v: print(f"rank {rank} sends", v.tolist()))
    return y
J = pullback.distributed.jacobian(f, x, group=dist.group.WORLD, chunk_size=1)
print(f"rank {rank} has", J.tolist())
"""

# %%
# What goes wrong follows below: an x that is not the same everywhere; an f that fails in
# one process, for which the other would wait; an f that is random, or cut, in one of them:

WRONG = """
def attempt(f, x):
    try:
        pullback.distributed.jacobian(f, x, group=dist.group.WORLD)
    except Exception as error:
        print(f"rank {rank} raises {type(error).__name__}: {error}")
attempt(torch.square, x + rank)
attempt(lambda x: x.mul(2) if rank == 0 else x.reshape(7), x)
attempt(lambda x: x * torch.rand(3), x)
cut = lambda x: x * (x if rank == 0 else x.detach())
J = pullback.distributed.jacobian(cut, x, group=dist.group.WORLD)
print(J.diag().tolist())
"""

# %%
# At the end they wait for each other, since gloo may abort a process whose peer has gone:

LEAVE = """
dist.barrier()
dist.destroy_process_group()
"""

# %%
# On the command line, if the four pieces are ``worker.py``:
#
# .. code-block:: console
#
#    $ torchrun --standalone --nproc-per-node 2 worker.py
#
# Here it is the same module, started from Python with a time limit, and with a file for
# what each process prints. ``PRINTED`` holds the lines of both:

RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

with tempfile.TemporaryDirectory() as folder:
    script = Path(folder, "worker.py")
    script.write_text(SETUP + ROWS + WRONG + LEAVE)
    command = [*RUN, "--redirects=1", f"--log-dir={folder}", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    files = sorted(Path(folder).rglob("stdout.log"))
    PRINTED = [file.read_text().splitlines() for file in files]

# %%
# Each process sends :term:`one-hot vectors <one-hot vector>`, the first three rows or the
# last two. Rank 1 takes a third, of zeros, so that both gather parts of one size:

for line in [*PRINTED[0][:3], *PRINTED[1][:3]]:
    print(line)

# %%
# Both have all five rows in the end:

print(PRINTED[0][3] == PRINTED[1][3].replace("rank 1", "rank 0"))

# %%
# What goes wrong
# ---------------
#
# *Each process with data of its own*, as in :ref:`across-processes`, is another task: there
# the gradients of different batches are averaged. Here all must hold the same x, and the
# rows of two different points would make a matrix that is no Jacobian. That is noticed:

print(PRINTED[1][4])

# %%
# *One process fails.* The other is told, and does not wait for the timeout of the group:

print(PRINTED[0][5], PRINTED[1][5], sep="\n")

# %%
# A random f needs one seed everywhere (:func:`torch.manual_seed`), else the outputs
# differ: an error, too. *What is not noticed?* The same numbers with another graph. ``cut``
# is the square in rank 0, whose rows are right; in rank 1, with a ``detach``, it gives 3
# for 6:

print(PRINTED[1][6].partition(" (")[0], PRINTED[1][7], sep="\n")

# %%
# It is not faster for a small J: each process runs f once and sends all of its part to the
# others. It pays when one product costs much more than sending one row. The whole of J
# stands in every process; for one that does not fit, a product at a time is the answer
# (:ref:`never-forms-j`). With ``mode="forward"`` the processes share the columns
# (:ref:`reverse-or-forward`).
#
# The check: what the two processes gathered, against the formula
# :math:`J=\operatorname{diag}(2Ax)\,A`:

for rank, lines in enumerate(PRINTED):
    gathered = torch.tensor(json.loads(lines[3].removeprefix(f"rank {rank} has")))
    torch.testing.assert_close(gathered, 2 * (A @ x)[:, None] * A)
    torch.testing.assert_close(gathered, J)

# %%
# Where next
# ----------
#
# Gradients that processes average: :ref:`across-processes`. The rows in one process:
# :ref:`jacobian-row-by-row`. Fewer products for many zeros: :ref:`sparse-jacobian`.
#
# .. asked: Jacobian on several GPUs; distribute rows of the Jacobian; parallel
#    Jacobian; share a Jacobian among processes
# .. words: share, cluster, many gpus, split the work, all_gather, mpi, rows
