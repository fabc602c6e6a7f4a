"""One rank of tests/test_ranks.py: asks for Jacobians with a group and keeps the answers.

Run as a script with a rank, a meeting place and a file for the answers.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import pullback
from pullback import _products

SECONDS = 100  # what a rank waits for another; importing torch takes some of it
A = torch.arange(35.0, dtype=torch.float64).sin().reshape(7, 5)
X = torch.linspace(-1, 1, 5, dtype=torch.float64)
B = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


def f(x):
    return (A @ x).tanh()


def jacobian(f, *inputs, group, **options):
    """Ask for the Jacobian, of this process alone without a group."""
    if group is None:
        return pullback.jacobian(f, *inputs, **options)
    return pullback.distributed.jacobian(f, *inputs, group=group, **options)


def nested(p, s):
    return {"a": p["w"] * s, "b": (p["w"].sum().sin(), p["v"] ** 2)}


def computed(group):
    x = X.clone().requires_grad_()
    J = jacobian(f(x), x, group=group)
    assert x.grad is None
    return J


def drawing(group):
    torch.manual_seed(3)  # one seed on all ranks
    return jacobian(lambda x: f(x) * torch.rand(7), X, group=group)


def captured(group):
    """What requires grad does not give the result a graph."""
    W = A.clone().requires_grad_()

    def g(x):
        return (W @ x).sin()

    if group is None:
        value, J = pullback.value_and_jacobian(g, X)
    else:
        value, J = pullback.distributed.value_and_jacobian(g, X, group=group)
        assert not value.requires_grad
        assert not J.requires_grad
    return value.detach(), J.detach()


SAME = {  # what must be the same as in one process
    "rows": lambda g: jacobian(f, X, group=g),
    "columns": lambda g: jacobian(f, X, mode="forward", group=g),
    "even": lambda g: jacobian(lambda x: f(x)[:6], X, group=g),
    "one output": lambda g: jacobian(lambda x: f(x).sum(), X, group=g),
    "no output": lambda g: jacobian(lambda x: f(x)[:0], X, group=g),
    "no input": lambda g: jacobian(lambda x: x.sum() + A, X[:0], group=g),
    "tensors": lambda g: jacobian(lambda x: x @ x.mT, B, group=g),
    "chunks": lambda g: jacobian(f, X, chunk_size=2, group=g),
    "auto chunks": lambda g: jacobian(f, X, chunk_size="auto", group=g),
    "columns in chunks": lambda g: jacobian(f, X, mode="forward", chunk_size=1, group=g),
    "many rows": lambda g: jacobian(lambda x: x.repeat(200).sin(), X, group=g),
    "batched": lambda g: jacobian(lambda x: x.softmax(1), B, batched=True, group=g),
    "nested": lambda g: jacobian(
        nested, {"w": X, "v": B}, X, argnums=(0, 1), allow_unused=True, group=g
    ),
    "bfloat16": lambda g: jacobian(torch.sin, X.bfloat16(), group=g),
    "computed": computed,
    "drawing": drawing,
    "value": captured,
}


def own(group):
    """Differ from rank to rank: the number of this one."""
    return dist.get_rank(group)


def raising(group, error, *ranks):
    def g(x):
        if own(group) in ranks:
            raise error
        return f(x)

    return jacobian(g, X, group=group)


def late(group):
    """The error comes from backward, not from f."""

    def g(x):
        return x.exp().add_(1) if own(group) else x.exp() + 1

    return jacobian(g, X, group=group)


def unlike(group):
    torch.manual_seed(own(group))
    return jacobian(lambda x: x * torch.rand(5, dtype=x.dtype), X, group=group)


ERRORS = {  # and what each of two ranks raises
    "f raises on one": lambda g: raising(g, KeyError("f's own"), 1),
    "f raises on the other": lambda g: raising(g, KeyError("f's own"), 0),
    "f raises on both": lambda g: raising(g, KeyError("f's own"), 0, 1),
    "backward raises on one": late,
    "other inputs": lambda g: jacobian(f, X + own(g), group=g),
    "other shapes": lambda g: jacobian(torch.sin, X[own(g) :], group=g),
    "other outputs": lambda g: jacobian(lambda x: f(x)[own(g) :], X, group=g),
    "one more output": lambda g: jacobian(
        lambda x: torch.cat([f(x), x.new_zeros(own(g))]), X, group=g
    ),
    "other functions": lambda g: jacobian(lambda x: f(x) * (1 + own(g)), X, group=g),
    "other random numbers": unlike,
    "bad input on one": lambda g: jacobian(f, X if own(g) else X.long(), group=g),
    "mixes": lambda g: jacobian(lambda x: x.softmax(0), B, batched=True, group=g),
    "unused": lambda g: jacobian(lambda x, z: x * 2, X, B, argnums=(0, 1), group=g),
}


def counted(group):
    """Return how many products this rank takes for seven rows and for five columns."""
    rows, inner = [], _products.Together.__call__
    _products.Together.__call__ = lambda self, seeds: (
        rows.append(len(seeds[0])) or inner(self, seeds)
    )
    try:
        for mode in ("reverse", "forward"):
            jacobian(f, X, mode=mode, group=group)
    finally:
        _products.Together.__call__ = inner
    return rows


def message(ask, group):
    try:
        ask(group)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main(rank, meeting, answers):
    dist.init_process_group(
        "gloo",
        f"file://{meeting}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=SECONDS),
    )
    group = dist.group.WORLD
    alone = dist.new_group([1])
    kept = {
        "same": {name: ask(group) for name, ask in SAME.items()},
        "errors": {name: message(ask, group) for name, ask in ERRORS.items()},
        "after": SAME["rows"](group),  # the group is as good as before
        "counts": counted(group),
        "alone": message(SAME["rows"], alone),
    }
    torch.save(kept, answers)
    dist.barrier()  # a group that goes while the other is at it may end this process
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
