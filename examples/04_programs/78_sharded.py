r"""
.. _sharded-parameters:

Does y.backward(v) work under FSDP and tensor parallelism?
==========================================================

Yes. ``v`` has the shape of this process's y. FSDP averages over the processes, as DDP
does, and ``.grad`` holds this process's part of the mean. ``torch.autograd.grad`` by the
parameters goes past that, in silence. Where y is a ``DTensor`` of your own, ``v`` is one.
"""

# %%
# With K processes, process k has its own batch, its own :math:`v^{(k)}`, and a 1/K-th of
# every parameter. After ``backward`` the parts, put together, are
# :math:`\frac1K\sum_k(v^{(k)})^\top J^{(k)}`.
#
# Two processes on this machine's CPU, with the gloo backend; on GPUs it is ``"nccl"`` and
# ``"cuda"``. This page was not run on any:

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

# %%
# What each runs is put together from five pieces. Two linear layers with whole numbers, and
# for each process one sample:

SETUP = """
import json, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import parallelize_module as parallel
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))
"""

# %%
# ``say`` prints a line for the page:

MODEL = """
A, B = torch.arange(8.0).reshape(4, 2), torch.arange(8.0).reshape(2, 4)
def two_layers():
    sizes = (2, 4), (4, 2)
    model = torch.nn.Sequential(*[torch.nn.Linear(*s, bias=False) for s in sizes])
    with torch.no_grad():
        [layer.weight.copy_(w) for layer, w in zip(model, (A, B))]
    return model
def say(*found):  # numbers as lists, all else as text
    print(json.dumps([getattr(k, "tolist", lambda: str(k))() for k in found]))
x, v = torch.tensor([[1.0, 2.0]]).add(rank).requires_grad_(), torch.tensor([[1.0, 10.0]])
"""

# %%
# FSDP: ``fully_shard`` cuts the parameters, ``full_tensor`` collects the parts of a
# gradient. Then the same by ``torch.autograd.grad``, by a weight and by x:

SHARDED = """
model = fully_shard(two_layers(), mesh=mesh)
model(x).backward(v)
say("fsdp", (g := model[0].weight.grad).placements, g.to_local(), g.full_tensor())
say("grad", *torch.autograd.grad(model(x), [model[0].weight, x], v))
deep = two_layers()
[fully_shard(layer, mesh=mesh) for layer in (*deep, deep)]
try:
    torch.autograd.grad(deep(x), deep[0].weight, v)
except RuntimeError as error:
    say("inner", str(error).split(".")[0])
"""

# %%
# Tensor parallelism: one layer cut by rows, one by columns, and the *same* x and ``v``:

PARALLEL = """
model = parallel(two_layers(), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
model(torch.tensor([[1.0, 2.0]])).backward(v)
g = model[0].weight.grad
say("parallel", g.placements, g.to_local(), g.full_tensor())
W = distribute_tensor(A, mesh, [Shard(0)])
u = distribute_tensor(torch.tensor([1.0, 2.0]), mesh, [Replicate()]).requires_grad_()
w = torch.tensor([1.0, 2.0, 3.0, 4.0])
"""

# %%
# The last three lines distribute two tensors by hand, W by rows, u whole in each process.
# ``w`` weighs the four outputs of ``W @ u``: as a plain tensor, as a ``DTensor``, in parts,
# and whole:

OWN = """
try:
    (W @ u).backward(w)
except RuntimeError as error:
    say("plain", str(error).split(",")[0])
for name, y, seed in [("DTensor", W @ u, distribute_tensor(w, mesh, [Shard(0)])),
                      ("parts", (W @ u).to_local(), w.chunk(2)[rank]),
                      ("whole", (W @ u).full_tensor(), w)]:
    (g,) = torch.autograd.grad(y, u, seed)
    say(name, g.placements, g.to_local(), g.full_tensor())
dist.barrier(), dist.destroy_process_group()
"""

# %%
# The five in one file, started twice. ``FOUND`` holds what each process said:

RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder, "worker.py")
    script.write_text(SETUP + MODEL + SHARDED + PARALLEL + OWN)
    command = [*RUN, "--redirects=1", f"--log-dir={folder}", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    files = sorted(Path(folder).rglob("stdout.log"))
    printed = [map(json.loads, file.read_text().splitlines()) for file in files]
FOUND = [{name: found for name, *found in each} for each in printed]

# %%
# FSDP
# ----
#
# Each process holds two of the four rows of the mean, and says so. *autograd.grad gives
# another gradient than backward*: it returns what arrives at the gathered weight, and the
# averaging comes after. So each process gets the whole gradient of its own batch, in
# silence. Where the layers are cut too, the gathered weight is gone by then, and it raises:

for each in FOUND:
    print(*each["fsdp"][:2], "autograd.grad:", each["grad"][0])
print(FOUND[0]["inner"][0])

# %%
# Take ``backward`` for the parameters. By the *input* ``autograd.grad`` is right: x is this
# process's own. Tensor parallelism averages nothing, since the processes share one
# computation. The parts are rows of the gradient that one process would have found:

for each in FOUND:
    print(*each["parallel"][:2])

# %%
# What goes wrong
# ---------------
#
# *got mixed torch.Tensor and DTensor*: y is distributed, ``v`` is not. Distribute ``v``, or
# pass this process's part to ``y.to_local()``, or all of it to ``y.full_tensor()``. Each is
# right. But each process found what its rows of W contribute to u. Such a gradient is
# ``Partial``: it is the *sum* of the parts, and ``to_local`` only one of them:

print(FOUND[0]["plain"][0])
for each in FOUND:
    print(*each["DTensor"][:2], "of", each["DTensor"][2])

# %%
# The check: each number from one process with plain tensors and the formulas
# :math:`B^\top v\,x^\top` and :math:`w^\top W`:

A, B = torch.arange(8.0).reshape(4, 2), torch.arange(8.0).reshape(2, 4)
v, w = torch.tensor([1.0, 10.0]), torch.arange(1.0, 5.0)
alone = [torch.outer(B.T @ v, torch.tensor([1.0, 2.0]) + rank) for rank in (0, 1)]
for each, own in zip(FOUND, alone, strict=True):
    assert each["fsdp"][2] == torch.stack(alone).mean(0).tolist()
    assert each["grad"] == [own.tolist(), [(v @ B @ A).tolist()]]
    assert each["parallel"][2] == alone[0].tolist()
    assert each["DTensor"][2] == (w @ A).tolist()
    assert each["DTensor"] == each["parts"] == each["whole"]

# %%
# Where next
# ----------
#
# Averages over processes: :ref:`across-processes`. A Jacobian shared among them:
# :ref:`rows-across-ranks`. A model cut into stages: :ref:`cut-graphs`.
#
# .. asked: FSDP gradient; tensor parallel gradient; DTensor; sharded parameters and
#    backward; gradient shard; clip gradients with FSDP
# .. words: fsdp, zero, tensor parallel, dtensor, shard, mesh, full_tensor, clip norm, big
#    model
