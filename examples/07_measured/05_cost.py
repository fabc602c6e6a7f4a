r"""
.. _cost-of-one-vjp:

What does one VJP cost next to the forward pass?
================================================

You know how long your function takes, and wonder how long its gradient will take. In
arithmetic, the gradient takes as much as two forward passes if both the weights and the
input want one. For the weights of a deep network alone it takes nearly two, and for the
input alone it takes one. On the clock, it takes between a fraction of a forward pass and
about three of them, for the functions on this page. This multiple does not grow with the
number of inputs or outputs.
"""

# %%
# We count first, because a count is the same on every machine. A linear layer
# :math:`Y=XW^\top` takes one matrix product forward. Backward takes two, :math:`VW` for
# the input and :math:`V^\top X` for the weight, and each is of the same size:

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


# %%
# Ask only for what you need. We take a network with two linear layers, and ask for the
# gradient with respect to the weights and the input, to the weights alone, and to the input
# alone:

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
# For the weights alone you get less than two, because nothing has to reach the input of the
# first layer. With L equal layers it is :math:`2-1/L`. (The counter sees only matrix
# products, and does not count ``tanh``.)
#
# Timed
# -----
#
# Now we measure the time of five functions, each with the gradient with respect to
# everything it has. ``Timer`` from :mod:`torch.utils.benchmark` repeats a call until the
# median is steady, and uses one thread:

from torch.utils.benchmark import Timer


def seconds(function):
    timer = Timer("function()", globals={"function": function})
    return timer.blocked_autorange(min_run_time=0.2).median


# %%
# Two of them are plain functions. Three are modules, whose weights want a gradient as well:

convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
cases = {
    "elementwise": (lambda x: x.sin().tanh(), (100_000,)),
    "sum": (torch.sum, (100_000,)),
    "linear layers": (network, (64, 256)),
    "convolutions": (convolutions, (4, 3, 32, 32)),
    "transformer": (nn.TransformerEncoderLayer(64, 4, batch_first=True), (4, 64, 64)),
}

# %%
# We keep the graph, so that the product alone can be repeated. We divide the time of each
# product by that of the forward pass of the same function:


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
# If you run a copy of this page, it measures on your machine. In a clone of the
# repository it reads a record of such a run, and here it is:

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
# ``sum`` takes so little time that its figure shows the fixed cost of a call, and not the
# work. Here are the same figures as a picture, with a line at one forward pass:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(record["figures"]), list(record["figures"].values()))
ax.axvline(1, linestyle="--", color="gray")
_ = ax.set(title="Time of one product, in forward passes", xlabel="forward passes")

# %%
# What goes wrong
# ---------------
#
# There are three common mistakes when you measure this yourself. You may time the *first*
# call, which also sets up threads and caches. You may forget to wait for the GPU
# (``Timer`` waits for you). And you may time ``backward`` together with the forward pass
# and divide by the latter, which gives one more than the figures above.
#
# A derivative of the derivative costs more. ``create_graph=True`` records the backward
# pass, too, and a second product goes through both passes. For our network with two layers,
# the second product costs this many forward passes:

Y = network(X)
(g,) = torch.autograd.grad(Y, X, torch.ones_like(Y), create_graph=True)
flops(torch.autograd.grad, g, [X], torch.ones_like(g)) / flops(network, X)

# %%
# As a check, we count by hand, in products of a 64×256 matrix with a 256×256 matrix. The
# forward pass has two of them. Backward has four, or three without the input of the first
# layer, or two without the weights. And we count the :math:`2-1/L` for ten layers:

assert counts == {"both": 4 / 2, "weights": 3 / 2, "input": 2 / 2}
deep = nn.Sequential(*(nn.Linear(256, 256) for _ in range(10)))
Y = deep(X.detach())
of_weights = flops(torch.autograd.grad, Y, list(deep.parameters()), torch.ones_like(Y))
assert of_weights / flops(deep, X) == 2 - 1 / 10

# %%
# Where next
# ----------
#
# :ref:`never-forms-j` explains why the size of the Jacobian does not matter.
# :ref:`ways-measured` is about the time of the whole Jacobian, and :ref:`memory-measured`
# about memory.
#
# .. asked: cost of backward; backward slower than forward; how long does backward take;
#    FLOPs of the backward pass; time of one gradient; how long does a gradient take
# .. words: slow, time, times the forward, twice, flops, speed, expensive, benchmark
