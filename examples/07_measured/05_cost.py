r"""
.. _cost-of-one-vjp:

What does one VJP cost next to the forward pass?
================================================

In arithmetic, two forward passes where weights and input want a gradient, nearly two for
the weights of a deep network alone, one for the input alone; on the clock, from a fraction
of a pass to about three. Never a multiple that grows with the number of inputs or outputs.
"""

# %%
# Counted first, since a count is the same on every machine. A linear layer
# :math:`Y=XW^\top` takes one matrix product forward and two backward, :math:`VW` for the
# input and :math:`V^\top X` for the weight, each of the same size:

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


# %%
# Ask only for what you need. Two linear layers, with weights and input, with weights alone,
# with the input alone:

torch.manual_seed(0)  # any weights do; the same ones on every build
network = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
X = torch.randn(64, 256, requires_grad=True)
weights = list(network.parameters())
wanted = {"both": [X, *weights], "weights": weights, "input": [X]}
counts = {}
for name, inputs in wanted.items():
    Y = network(X)
    work = flops(torch.autograd.grad, Y, inputs, torch.ones_like(Y))
    counts[name] = work / flops(network, X)
counts

# %%
# "Weights" is less than two, since nothing need reach the first layer's input; with L
# layers it is :math:`2-1/L`. (The counter sees matrix products; ``tanh`` is not counted.)
#
# Timed
# -----
#
# Five functions, each with the gradient by everything it has. ``Timer`` from
# :mod:`torch.utils.benchmark` repeats until the median is steady, on one thread:

from torch.utils.benchmark import Timer


def seconds(function):
    timer = Timer("function()", globals={"function": function})
    return timer.blocked_autorange(min_run_time=0.2).median


# %%
# Two are functions; three are modules with weights of their own, which want a gradient as
# well:

convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
cases = {
    "elementwise": (lambda x: x.sin().tanh(), (100_000,)),
    "sum": (torch.sum, (100_000,)),
    "linear layers": (network, (64, 256)),
    "convolutions": (convolutions, (4, 3, 32, 32)),
    "transformer": (nn.TransformerEncoderLayer(64, 4, batch_first=True), (4, 64, 64)),
}

# %%
# The graph is kept, so that the product alone can be repeated. Each product is divided by
# the forward pass of the same function:


def ratio(f, shape):
    x = torch.randn(shape, requires_grad=True)
    inputs = [x, *f.parameters()] if isinstance(f, nn.Module) else [x]
    y = f(x)
    v = torch.ones_like(y)
    product = seconds(lambda: torch.autograd.grad(y, inputs, v, retain_graph=True))
    return round(product / seconds(lambda: f(x)), 2)


def measure():
    figures = {name: ratio(*case) for name, case in cases.items()}
    about = {"torch": torch.__version__, "machine": platform.machine()}
    return {**about, "date": date.today().isoformat(), "figures": figures}


# %%
# A clone of the repository holds a record of such a run; a copy of this page measures anew:

import json
import platform
from datetime import date
from pathlib import Path

path = Path("../../benchmarks/results/cost.json")
record = json.loads(path.read_text()) if path.exists() else measure()
print("torch", record["torch"], "on", record["machine"], "with one thread,", record["date"])
for name, figure in record["figures"].items():
    print(f"{name:14} product / forward pass = {figure:.1f}")

# %%
# ``sum`` is over so soon that its figure is the fixed cost of a call, not work. A picture
# of the same figures:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(record["figures"]), list(record["figures"].values()))
ax.axvline(1, linestyle="--", color="gray")
_ = ax.set(title="Time of one product, in forward passes", xlabel="forward passes")

# %%
# What goes wrong
# ---------------
#
# Timing the *first* call, which also sets up threads and caches. Timing on a GPU without
# waiting for it (``Timer`` waits for you). Timing ``backward`` together with the forward
# pass and dividing by the latter: that gives one more than the figures above.
#
# Asking for a derivative of the derivative: ``create_graph=True`` records the backward
# pass too, and a second product through it is dearer again:

Y = network(X)
(g,) = torch.autograd.grad(Y, X, torch.ones_like(Y), create_graph=True)
flops(torch.autograd.grad, g, [X], torch.ones_like(g)) / flops(network, X)

# %%
# The check: the counts by hand. In products of 64×256 by 256×256, the forward pass has two;
# backward has four, three without the first layer's input, two without the weights. And
# :math:`2-1/L` for ten layers:

assert counts == {"both": 4 / 2, "weights": 3 / 2, "input": 2 / 2}
deep = nn.Sequential(*(nn.Linear(256, 256) for _ in range(10)))
Y = deep(X.detach())
of_weights = flops(torch.autograd.grad, Y, list(deep.parameters()), torch.ones_like(Y))
assert of_weights / flops(deep, X) == 2 - 1 / 10

# %%
# Where next
# ----------
#
# Why the Jacobian's size does not matter: :ref:`never-forms-j`. The whole Jacobian:
# :ref:`ways-measured`. The memory: :ref:`memory-measured`.
#
# .. asked: cost of backward; backward slower than forward; how long does backward take;
#    FLOPs of the backward pass; time of one gradient; how long does a gradient take
#
# .. words: slow, time, times the forward, twice, flops, speed, expensive, benchmark
