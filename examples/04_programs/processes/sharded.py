"""Gradients of parameters that are cut into parts, in two processes.

torchrun --standalone --nproc-per-node 2 processes/sharded.py
"""

import json

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

A, B = torch.arange(8.0).reshape(4, 2), torch.arange(8.0).reshape(2, 4)
v = torch.tensor([[1.0, 10.0]])  # of the shape of y


def two_layers():
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 4, bias=False), torch.nn.Linear(4, 2, bias=False)
    )
    with torch.no_grad():
        model[0].weight.copy_(A)
        model[1].weight.copy_(B)
    return model


def fsdp(mesh, x):
    model = fully_shard(two_layers(), mesh=mesh)
    model(x).backward(v)
    say("fsdp backward", model[0].weight.grad)
    by_weight, by_x = torch.autograd.grad(model(x), [model[0].weight, x], v)
    say("fsdp autograd.grad", by_weight)
    say("fsdp autograd.grad, by x", by_x)

    deep = two_layers()
    for part in (deep[0], deep[1], deep):
        fully_shard(part, mesh=mesh)
    try:
        torch.autograd.grad(deep(x), deep[0].weight, v)
    except RuntimeError as error:
        say("layers cut, too", str(error).split(".")[0])


def clipped(mesh, x):
    model = fully_shard(two_layers(), mesh=mesh)
    model(x).backward(v)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    say("norm before the clip", norm)


def tensor_parallel(mesh):
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    model = parallelize_module(two_layers(), mesh, plan)
    model(torch.tensor([[1.0, 2.0]])).backward(v)  # the same x in both
    say("tensor parallel", model[0].weight.grad)


def own(mesh):
    W = distribute_tensor(A, mesh, [Shard(0)])  # two rows for each process
    u = distribute_tensor(torch.tensor([1.0, 2.0]), mesh, [Replicate()])
    u.requires_grad_()
    w = torch.tensor([1.0, 2.0, 3.0, 4.0])  # weighs the four outputs of W @ u
    try:
        (W @ u).backward(w)
    except RuntimeError as error:
        say("plain w", str(error).split(",")[0])
    seed = distribute_tensor(w, mesh, [Shard(0)])
    say("w as a DTensor", torch.autograd.grad(W @ u, u, seed)[0])
    part = w.chunk(2)[dist.get_rank()]
    say("a part of w", torch.autograd.grad((W @ u).to_local(), u, part)[0])
    say("all of w", torch.autograd.grad((W @ u).full_tensor(), u, w)[0])


def say(name, found):
    """Print what each process has found, one after the other."""
    if isinstance(found, torch.Tensor) and hasattr(found, "placements"):
        whole = found.full_tensor().tolist()
        found = [str(found.placements), found.to_local().tolist(), whole]
    elif isinstance(found, torch.Tensor):
        found = found.tolist()
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, found)
    if dist.get_rank() == 0:
        print(json.dumps({"name": name, "held": held}))


if __name__ == "__main__":
    dist.init_process_group("gloo")  # on GPUs "nccl", and "cuda" in the next line
    mesh = init_device_mesh("cpu", (2,))
    x = torch.tensor([[1.0, 2.0]]) + dist.get_rank()  # a sample for each process
    x.requires_grad_()
    fsdp(mesh, x)
    clipped(mesh, x)
    tensor_parallel(mesh)
    own(mesh)
    dist.barrier()
    dist.destroy_process_group()
