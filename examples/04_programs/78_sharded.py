r"""
.. _sharded-parameters:

Does y.backward(v) work under FSDP and tensor parallelism?
==========================================================

Your model does not fit on one GPU any more, so each process keeps only a part of every
parameter. You call ``y.backward(v)`` as before. What shape does ``v`` have now, and what do
you find in ``.grad``? In short: under FSDP, ``v`` belongs to the ``y`` of *this* process,
the gradients are averaged as under DDP, and ``.grad`` holds this process's part of the
average. Under tensor parallelism all processes compute one ``y`` together, so they pass the
same ``v``, and nothing is averaged. And if you call ``torch.autograd.grad`` with respect to
the parameters, the averaging is left out without a message.
"""

# %%
# The program
# -----------
#
# The model has two linear layers with whole numbers in them, so that every result can be
# computed by hand. There are two processes. Save the file as ``sharded.py``, and start it
# with the line at its top. ``say`` prints what each process has found. For a ``DTensor``,
# which is a tensor that is spread over processes, these are three things: how it is spread,
# the part of this process, and the whole:
#
# .. literalinclude:: /../examples/04_programs/processes/sharded.py
#    :language: python
#
# On this page the processes run on a CPU, with the backend gloo. It was not run on GPUs.
# From Python we start the file like this, and keep what both processes found by its name:

import json
import subprocess
import sys

import torch

FILE = "processes/sharded.py"
RUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
done = subprocess.run([*RUN, FILE], capture_output=True, text=True, timeout=300)
assert done.returncode == 0, done.stderr
found = {line["name"]: line["held"] for line in map(json.loads, done.stdout.splitlines())}

# %%
# FSDP
# ----
#
# ``fully_shard`` gives each process one half of each parameter. During the forward pass it
# gathers the whole, and puts it away again. Each process has its own sample ``x`` and its
# own :math:`v^{(k)}`, and after ``backward`` the parts, put together, are
#
# .. math::
#
#    \frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)} .
#
# The first weight has four rows. Here is what each process holds of its gradient:

for rank, (placements, part, _) in enumerate(found["fsdp backward"]):
    print(f"rank {rank}: {placements} {part}")

# %%
# ``Shard(dim=0)`` says that the rows are divided, and each process holds two of them. They
# are rows of the *average*. ``p.grad.full_tensor()`` puts them together, if all processes
# call it. Compare what ``torch.autograd.grad`` gives:

for rank, gradient in enumerate(found["fsdp autograd.grad"]):
    print(f"rank {rank}: {gradient}")

# %%
# All four rows are here, plain tensors, and each process has those of its own sample. FSDP
# averages *after* the gradient has arrived at the gathered weight, in the step that fills
# ``.grad``, and ``autograd.grad`` stops before it. Nothing tells you. If the layers are cut
# one by one, which is how large models are wrapped, the gathered weight has been put away
# by then, and you get an error:

print(found["layers cut, too"][0])

# %%
# So for the parameters take ``backward``. With respect to the *input*, ``autograd.grad`` is
# right, since ``x`` belongs to this process alone, for example in a gradient penalty or a
# saliency map.
#
# Tensor parallelism
# ------------------
#
# Here the two processes share one computation. The first layer is cut by rows, and the
# second by columns. Both processes are given the *same* ``x`` and the same ``v``. Their
# parts are rows of the gradient that one process would have found, and there is no average:

for rank, (placements, part, _) in enumerate(found["tensor parallel"]):
    print(f"rank {rank}: {placements} {part}")

# %%
# A distributed tensor of your own
# --------------------------------
#
# If you distribute tensors yourself, ``y`` may be a ``DTensor``, and then a plain ``v`` is
# refused:

print(found["plain w"][0])

# %%
# There are three ways out. Distribute ``v`` as ``y`` is distributed. Or turn ``y`` into a
# plain tensor before ``backward``, by ``y.to_local()`` with this process's part of ``v``,
# or by ``y.full_tensor()`` with all of ``v``. All three have the same result:

for name in ("w as a DTensor", "a part of w", "all of w"):
    print(f"{name:15}", [part for _, part, _ in found[name]], "whole", found[name][0][2])
print(found["all of w"][0][0])

# %%
# Look at the last line of the output. The gradient of ``u`` is ``Partial``: each process
# has found what *its* rows of ``W`` contribute, and the gradient is the *sum* of the parts.
#
# What to watch for
# -----------------
#
# **to_local() of a Partial gradient** is one summand, and not the gradient. Read
# ``placements`` first, or call ``full_tensor()``, which adds up.
#
# **Clipping.** The norm of a gradient needs all parts. Under ``fully_shard``,
# ``torch.nn.utils.clip_grad_norm_`` knows this, and both processes see the norm of the
# whole average. A norm of your own from ``to_local()`` would differ between them:

print([round(norm, 2) for _, _, norm in found["norm before the clip"]])

# %%
# **A sum as the loss.** FSDP averages as DDP does, so the same factor ``K`` is missing
# (:ref:`across-processes`).
#
# .. admonition:: Try it
#
#    Give both processes the same ``x`` under FSDP, too. Which of the gradients agree then?
#
# .. dropdown:: Answer
#
#    All of them. The average of two equal gradients is the gradient, and ``autograd.grad``
#    gives it in both processes. This is why a test with one sample hides the difference.

# %%
# .. dropdown:: How we checked this page
#
#    Each number is computed in this one process, with plain tensors and the formulas
#    :math:`B^\top v\,x^\top` for the first weight, :math:`v\,(Ax)^\top` for the second, and
#    :math:`w^\top W`.

A, B = torch.arange(8.0).reshape(4, 2), torch.arange(8.0).reshape(2, 4)
v, w = torch.tensor([1.0, 10.0]), torch.arange(1.0, 5.0)
samples = [torch.tensor([1.0, 2.0]) + rank for rank in (0, 1)]
firsts = [torch.outer(B.T @ v, x) for x in samples]
mean = torch.stack(firsts).mean(0)
second = torch.stack([torch.outer(v, A @ x) for x in samples]).mean(0)
norm = torch.cat([mean.flatten(), second.flatten()]).norm().item()
for rank in (0, 1):
    placements, part, whole = found["fsdp backward"][rank]
    assert whole == mean.tolist()
    assert part == mean.chunk(2)[rank].tolist()
    assert found["fsdp autograd.grad"][rank] == firsts[rank].tolist()
    assert found["fsdp autograd.grad, by x"][rank] == [(v @ B @ A).tolist()]
    assert found["tensor parallel"][rank][1] == firsts[0].chunk(2)[rank].tolist()
    assert found["tensor parallel"][rank][2] == firsts[0].tolist()
    assert found["w as a DTensor"][rank][2] == (w @ A).tolist()
    assert found["w as a DTensor"][rank] == found["a part of w"][rank]
    assert found["w as a DTensor"][rank] == found["all of w"][rank]
    assert abs(found["norm before the clip"][rank][2] - norm) < 0.01
    local = torch.tensor(found["w as a DTensor"][rank][1])
    torch.testing.assert_close(local, w.chunk(2)[rank] @ A.chunk(2)[rank])

# %%
# **Next:** :ref:`across-processes` shows what DDP averages and what it does not. To share
# the rows of a :term:`Jacobian` among processes, read :ref:`rows-across-ranks`. For a model
# that is cut into stages, read :ref:`cut-graphs`.
#
# .. asked: FSDP gradient; tensor parallel gradient; DTensor; sharded parameters and
#    backward; gradient shard; clip gradients with FSDP
# .. words: fsdp, zero, tensor parallel, dtensor, shard, mesh, full_tensor, clip norm, big
#    model
