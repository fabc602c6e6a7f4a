"""What `pullback.watch` costs beside the plain step, and what anomaly mode costs.

A step of training of an MLP with Adam, and of a small transformer with AdamW. One thread;
the ways take turns; medians. What is to be compared is a ratio within one run. Writes
``results/watch.json``. Run ``python benchmarks/watch.py [seconds per case]``.
"""

import sys
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from jacobian import medians, save
from torch import nn

import pullback

RESULTS = Path(__file__).parent / "results" / "watch.json"


def mlp():
    """Return a step of an MLP of four layers, a batch of 128."""
    sizes = [64, 256, 256, 256, 10]
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    net = nn.Sequential(*layers[:-1])
    x, y = torch.randn(128, 64), torch.randint(10, (128,))
    return partial(step, net, torch.optim.Adam(net.parameters()), x, y)


def transformer():
    """Return a step of a transformer of two layers, 8 sequences of 64."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    head = nn.Sequential(net, nn.Linear(64, 64), nn.Flatten(0, 1))
    x, y = torch.randn(8, 64, 64), torch.randint(64, (8 * 64,))
    return partial(step, head, torch.optim.AdamW(head.parameters()), x, y)


def step(net, optimizer, x, y):
    """Make one step of training."""
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()


STEPS = 10  # in a block


def inside(context, step, count):
    """Make steps inside a block."""
    with context():
        for _ in range(count):
            step()


CONTEXTS = {
    "plain": nullcontext,
    "watch": pullback.watch,
    "detect_anomaly": partial(torch.autograd.detect_anomaly, check_nan=True),
}


def main(seconds=6.0):
    """Run both programs in each of the ways, and write the results."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the numbers are of no matter, only their sizes
    report = {}
    for name, program in (("MLP with Adam", mlp()), ("transformer", transformer())):
        ways = {way: partial(inside, of) for way, of in CONTEXTS.items()}
        times = medians(ways, program, STEPS, seconds)
        report[name] = {
            "milliseconds a step": {w: round(t / STEPS, 3) for w, t in times.items()},
            "times the plain step": {
                w: round(t / times["plain"], 2) for w, t in times.items()
            },
        }
        print(name, report[name])
    save(RESULTS, report)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
