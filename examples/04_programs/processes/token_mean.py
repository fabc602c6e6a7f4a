"""Train on lines of different lengths, line by line, in any number of processes.

torchrun --standalone --nproc-per-node 2 processes/token_mean.py tokens
"""

import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

LINES = [
    "oh no",
    "a gradient that is summed over the tokens of a long line is a long gradient",
    "no no",
    "and the mean of two means is the mean of all of them if the two are of one size",
    "oh",
    "oh oh oh",
    "a process that has few tokens must not count as much as one that has many of them",
    "no",
]


def tokens_of(line):
    """Return the letters, as numbers from 0 (a blank) to 26, and what follows each."""
    numbers = torch.tensor([max(ord(letter) - 96, 0) for letter in line])
    return numbers[:-1], numbers[1:]


def train(rule, steps=150):
    rank, K = dist.get_rank(), dist.get_world_size()
    micro_batches = [tokens_of(line) for line in LINES[rank::K]]
    M = len(micro_batches)
    here = torch.tensor([len(y) for _, y in micro_batches]).sum()
    total = here.clone()
    dist.all_reduce(total)  # the tokens of the whole batch, in all processes

    model = DistributedDataParallel(nn.Embedding(27, 27))  # scores of the next letter
    nn.init.zeros_(model.module.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        log = torch.zeros(())
        for i, (x, y) in enumerate(micro_batches):
            last = i == M - 1
            with nullcontext() if last else model.no_sync():  # the last one averages
                S = cross_entropy(model(x), y, reduction="sum")
                rule(S, len(y), here, total, M, K).backward()
            log += S.detach() / total
            if step == 0 and i in (0, M - 1):
                show("last" if last else "first", model.module.weight.grad.norm())
        optimizer.step()
        dist.all_reduce(log)  # the loss of a token, for the log
        if rank == 0 and step % 5 == 0:
            print(step, log.item())


RULES = {
    "tokens": lambda S, n, here, total, M, K: S * K / total,
    "means": lambda S, n, here, total, M, K: S / n / M,
    "ranks": lambda S, n, here, total, M, K: S / here,
}


def show(name, norm):
    held = [None] * dist.get_world_size()
    dist.all_gather_object(held, round(norm.item(), 4))
    if dist.get_rank() == 0:
        print(f"norm of .grad after the {name} micro-batch", *held)


if __name__ == "__main__":
    dist.init_process_group("gloo")  # "nccl" where each process has a GPU
    for name in sys.argv[1:]:
        if dist.get_rank() == 0:
            print(name)
        train(RULES[name])
    dist.barrier()
    dist.destroy_process_group()
