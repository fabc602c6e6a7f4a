"""Share the rows of a Jacobian among processes.

torchrun --standalone --nproc-per-node 2 processes/share_a_jacobian.py
"""

import torch
import torch.distributed as dist
import pullback

A = torch.arange(15.0).reshape(5, 3)


def f(x):
    y = (A @ x) ** 2
    seeds = []  # the v that reach this process, for us to see
    y.register_hook(lambda v: seeds.append(v.tolist()))
    f.seeds = seeds
    return y


def say(name, what):
    """Let one process after the other print."""
    for rank in range(dist.get_world_size()):
        if rank == dist.get_rank():
            print(f"{name}, rank {rank}: {what}", flush=True)
        dist.barrier()


def attempt(name, f, x):
    """Say what one call gives in each process: the diagonal of J, or an error."""
    try:
        J = pullback.distributed.jacobian(f, x, group=dist.group.WORLD)
        say(name, J.diag().tolist())
    except Exception as error:
        say(name, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    dist.init_process_group("gloo")  # "nccl" where each process has a GPU
    rank = dist.get_rank()
    x = torch.tensor([1.0, 2.0, 3.0])
    J = pullback.distributed.jacobian(f, x, group=dist.group.WORLD, chunk_size=1)
    for v in f.seeds:
        say("v", v)
    say("J", J.tolist())

    attempt("x differs", torch.square, x + rank)
    attempt("one fails", lambda x: x.mul(2) if rank == 0 else x.reshape(7), x)
    torch.manual_seed(rank)
    attempt("f is random", lambda x: x * torch.rand(3), x)
    attempt("graph differs", lambda x: x * (x if rank == 0 else x.detach()), x)
    dist.destroy_process_group()
