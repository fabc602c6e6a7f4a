"""Train in any number of processes as in one.

torchrun --standalone --nproc-per-node 2 processes/ddp_training.py mean
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def network():
    torch.manual_seed(0)  # the same weights in every process
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))


def train(reduce, batch=64, steps=200):
    rank, K = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    numbers = torch.Generator().manual_seed(1)  # the same batches in every process
    for step in range(steps):
        x = 6 * torch.rand(batch, 1, generator=numbers) - 3
        mine = x[rank::K]  # each process takes its part of the batch
        losses = (model(mine) - torch.sin(mine)) ** 2
        optimizer.zero_grad()
        reduce(losses, batch, K).backward()  # averages the gradients over the processes
        optimizer.step()
        log = losses.detach().mean() / K
        dist.all_reduce(log)
        if rank == 0 and step % 5 == 0:
            print(step, log.item())


REDUCTIONS = {
    "mean": lambda losses, batch, K: losses.mean(),
    "sum": lambda losses, batch, K: losses.sum() / batch,
    "times_K": lambda losses, batch, K: losses.sum() / batch * K,
}

if __name__ == "__main__":
    dist.init_process_group("gloo")  # "nccl" where each process has a GPU
    for name in sys.argv[1:]:
        if dist.get_rank() == 0:
            print(name)
        train(REDUCTIONS[name])
    dist.barrier()
    dist.destroy_process_group()
