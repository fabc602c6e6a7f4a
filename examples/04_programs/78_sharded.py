r"""
.. _sharded-parameters:

Does y.backward(v) work under FSDP and tensor parallelism?
==========================================================

Your model does not fit on one GPU any more, so each process keeps only a part of every
parameter. You call ``y.backward(v)`` as before. What shape does ``v`` have now, and what
do you find in ``.grad``? Under FSDP, ``v`` belongs to the ``y`` of *this* process, the
gradients are averaged as under DDP, and ``.grad`` holds this process's part of the
average. Under tensor parallelism all processes compute one ``y`` together, so they pass
the same ``v``, and nothing is averaged. If you call ``torch.autograd.grad`` with respect to
the parameters under FSDP, the gradients are not averaged, and there is no message unless
each layer is sharded separately; then you get an error.
"""

# %%
# The program
# -----------
#
# The model has two linear layers whose weights are whole numbers, so that you can check
# every result by hand. There are two processes. Save the file as
# ``processes/sharded.py``, and start it with the command at its top. ``say`` prints the
# result of each process. For a ``DTensor``, which is a tensor that is spread over
# processes, it prints three things: how the tensor is spread, the part that this process
# holds, and the whole tensor:
#
# .. literalinclude:: /../examples/04_programs/processes/sharded.py
#    :language: python
#
# On this page the processes run on a CPU, with the backend gloo. We have not run the
# program on GPUs. From Python we start the file like this, and store each result, for both
# processes, under its name:

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
# ``fully_shard`` gives each process one half of each parameter. During the forward pass
# it gathers the whole parameter, which it frees again later. Each process has its own
# sample ``x`` and its own :math:`v^{(k)}`, and after ``backward`` the parts, put
# together, are
#
# .. math::
#
#    \frac1K\sum_k\bigl(v^{(k)}\bigr)^\top J^{(k)} .
#
# The first weight has four rows. Here is the part of its gradient that each process
# holds:

for rank, (placements, part, _) in enumerate(found["fsdp backward"]):
    print(f"rank {rank}: {placements} {part}")

# %%
# ``Shard(dim=0)`` says that the rows are divided, and each process holds two of them.
# They are rows of the *average*. ``p.grad.full_tensor()`` puts all rows together, if all
# processes call it. Compare them with the result of ``torch.autograd.grad``:

for rank, gradient in enumerate(found["fsdp autograd.grad"]):
    print(f"rank {rank}: {gradient}")

# %%
# Each process has a plain tensor with all four rows, but they are the gradient of its own
# sample only. FSDP averages *after* the gradient has arrived at the gathered weight, in
# the step that fills ``.grad``, and ``autograd.grad`` stops before this step. There is no
# warning. If you call ``fully_shard`` on each layer, as is common for large models, the
# gathered weight has been freed by then, and you get an error:

print(found["layers cut, too"][0])

# %%
# So use ``backward`` for the parameters. With respect to the *input*, for example in a
# gradient penalty or a saliency map, ``autograd.grad`` is right, since ``x`` belongs to
# this process alone.
#
# Tensor parallelism
# ------------------
#
# Here the two processes share one computation. The first layer is cut by rows, and the
# second by columns. Both processes get the *same* ``x`` and the same ``v``. Their parts
# are rows of the gradient that one process would have found, and nothing is averaged:

for rank, (placements, part, _) in enumerate(found["tensor parallel"]):
    print(f"rank {rank}: {placements} {part}")

# %%
# A distributed tensor of your own
# --------------------------------
#
# If you distribute tensors yourself, ``y`` may be a ``DTensor``, and then a plain ``v``
# raises an error:

print(found["plain w"][0])

# %%
# You can do one of three things. Distribute ``v`` in the same way as ``y``. Or turn ``y``
# into a plain tensor before ``backward``, either with ``y.to_local()`` and this process's
# part of ``v``, or with ``y.full_tensor()`` and the whole of ``v``. All three give the
# same result:

for name in ("w as a DTensor", "a part of w", "all of w"):
    print(f"{name:15}", [part for _, part, _ in found[name]], "whole", found[name][0][2])
print(found["all of w"][0][0])

# %%
# Look at the last line of the output. The gradient of ``u`` is ``Partial``: each process
# has computed the contribution of *its* rows of ``W``, and the gradient is the *sum* of
# these contributions.
#
# What to watch for
# -----------------
#
# **to_local() of a Partial gradient** is one summand, and not the gradient. Read
# ``placements`` first, or call ``full_tensor()``, which adds the summands.
#
# **Clipping.** The norm of a gradient needs all of its parts. Under ``fully_shard``,
# ``torch.nn.utils.clip_grad_norm_`` takes care of this, and both processes see the norm
# of the whole average. If you compute the norm yourself from ``to_local()``, it differs
# between the processes. Then ``all_reduce`` the squares, and take the root
# (:ref:`fsdp-norm-of-each`). Here is the norm that each process gets from
# ``clip_grad_norm_``:

print([round(norm, 2) for _, _, norm in found["norm before the clip"]])

# %%
# **A sum as the loss.** FSDP averages as DDP does, so with a sum as the loss the gradient
# is too small by the factor ``K``, the number of processes (:ref:`across-processes`).
#
# .. admonition:: Try it
#
#    Under FSDP, too, give both processes the same ``x`` and the same ``v``. Which of the
#    gradients agree then?
#
# .. dropdown:: Answer
#
#    All of them agree. The average of two equal gradients is the gradient itself, and
#    ``autograd.grad`` gives this gradient in both processes. So a test in which all
#    processes use the same sample hides the difference.

# %%
# .. dropdown:: How we checked this page
#
#    We compute each number in this one process, with plain tensors and the formulas
#    :math:`B^\top v\,x^\top` for the first weight, :math:`v\,(Ax)^\top` for the second
#    weight, and :math:`w^\top W` for the gradient of ``u``.

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
