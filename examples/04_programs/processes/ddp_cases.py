"""What each of two processes holds in .grad after backward under DDP, case by case.

torchrun --standalone --nproc-per-node 2 processes/ddp_cases.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def wrapped(bias=False, **options):
    model = torch.nn.Linear(2, 1, bias)
    torch.nn.init.ones_(model.weight)
    return DistributedDataParallel(model, **options)


def show(name, gradient):
    mine = [round(number, 3) for number in gradient.flatten().tolist()]
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, mine)
    if dist.get_rank() == 0:
        print(f"{name:14} {held[0]!s:16} {held[1]}")


def after(name, *losses, **options):
    """Run the losses forward, then their backward passes, and show the gradient."""
    model = wrapped(**options)
    for loss in [loss(model) for loss in losses]:
        loss.backward()
    show(name, model.module.weight.grad)


def mean(model):
    return (model(data) ** 2).mean()


def penalty(model, weight=None):
    """The slope at each sample is to be 0 in process 0, and 1 in process 1."""
    x = data.clone().requires_grad_()
    y = model(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    p = ((g.norm(dim=1) - rank) ** 2).mean()
    return p if weight is None else p + weight * y.sum()


def cases():
    after("mean", mean)
    after("sum", lambda model: (model(data) ** 2).sum())

    after("penalty", penalty, bias=True)
    after("penalty + 0 y", lambda model: penalty(model, 0), bias=True)
    after("static graph", lambda model: penalty(model, 0), bias=True, static_graph=True)

    model = wrapped()
    show("autograd.grad", torch.autograd.grad(mean(model), model.parameters())[0])
    after("module", lambda model: mean(model.module))
    after("two backwards", mean, mean)

    model = wrapped()
    with model.no_sync():  # adds up in this process
        (model(data[:1]) ** 2 / 2).sum().backward()
    (model(data[1:]) ** 2 / 2).sum().backward()  # averages what has been added up
    show("no_sync", model.module.weight.grad)


if __name__ == "__main__":
    dist.init_process_group("gloo")  # "nccl" where each process has a GPU
    rank = dist.get_rank()
    data = torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2]  # two rows each
    cases()
    dist.barrier()
    dist.destroy_process_group()
