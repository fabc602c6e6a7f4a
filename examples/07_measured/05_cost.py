r"""
.. _cost-of-one-vjp:

What does one VJP cost next to the forward pass?
================================================

You know how long your function takes, and wonder how long its gradient will take. Counted
in arithmetic, the gradient of a network with respect to both its weights and its input
costs as much as two forward passes. The gradient with respect to the weights of a deep
network alone costs nearly two forward passes, and the gradient with respect to the input
alone costs one. Measured in time, a gradient takes between a fraction of a forward pass and
about three forward passes, for the functions on this page. This factor does not grow with
the number of inputs or outputs.
"""

# %%
# We begin by counting the operations, because a count is the same on every machine. The
# forward pass of a linear layer :math:`Y=XW^\top` takes one matrix product. The backward
# pass takes two, :math:`VW` for the input and :math:`V^\top X` for the weight, and each of
# them takes as many operations as the product in the forward pass:

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


# %%
# Ask only for the gradients that you need. We take a network with two linear layers, and
# ask for the gradient with respect to the weights and the input, then with respect to the
# weights alone, and then with respect to the input alone. Each number below is a multiple
# of the forward pass:

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
# For the weights alone the cost is less than two forward passes, because no gradient has to
# reach the input of the first layer. With L equal layers it is :math:`2-1/L` forward
# passes. The counter sees only matrix products, and does not count ``tanh``.
#
# Timed
# -----
#
# Now we measure the time of five functions. We ask for the gradient of each function with
# respect to its input and all its weights. ``Timer`` from :mod:`torch.utils.benchmark`
# repeats a call until the median is steady, and uses one thread:

from torch.utils.benchmark import Timer


def seconds(function):
    timer = Timer("function()", globals={"function": function})
    return timer.blocked_autorange(min_run_time=0.2).median


# %%
# Two of the five are plain functions without weights. Three are modules, whose weights
# require a gradient as well:

convolutions = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
cases = {
    "elementwise": (lambda x: x.sin().tanh(), (100_000,)),
    "sum": (torch.sum, (100_000,)),
    "linear layers": (network, (64, 256)),
    "convolutions": (convolutions, (4, 3, 32, 32)),
    "transformer": (nn.TransformerEncoderLayer(64, 4, batch_first=True), (4, 64, 64)),
}

# %%
# We retain the graph, so that we can repeat the product without the forward pass. We divide
# the time of each product by the time of the forward pass of the same function:


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
# If you copy this page and run it, it measures on your machine. In a clone of the
# repository it reads a record of an earlier measurement instead, and prints this record:

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
# ``sum`` takes so little time that its figure shows the fixed cost of a call rather than
# the cost of the arithmetic. The picture shows the same figures, with a line at one forward
# pass:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(record["figures"]), list(record["figures"].values()))
ax.axvline(1, linestyle="--", color="gray")
_ = ax.set(title="Time of one product, in forward passes", xlabel="forward passes")

# %%
# What goes wrong
# ---------------
#
# There are three common mistakes if you measure such a factor yourself. You may time the
# *first* call, which also sets up threads and caches. You may forget to wait for the GPU,
# which ``Timer`` does for you. And you may time the forward pass and ``backward``
# together and divide by the time of the forward pass, which gives a factor that is larger
# by 1 than the factors above.
#
# A second derivative costs more. With ``create_graph=True`` PyTorch records the backward
# pass, too, and the second product goes back through both recorded passes. For our network
# with two layers, the second product costs this many forward passes:

Y = network(X)
(g,) = torch.autograd.grad(Y, X, torch.ones_like(Y), create_graph=True)
flops(torch.autograd.grad, g, [X], torch.ones_like(g)) / flops(network, X)

# %%
# As a check, we count by hand. Our unit is the work of multiplying a 64×256 matrix by a
# 256×256 matrix. The forward pass takes two units. The backward pass takes four, or three
# without the gradient with respect to the input, or two without the gradients with respect
# to the weights. For a network with ten layers we also check :math:`2-1/L`:

assert counts == {"both": 4 / 2, "weights": 3 / 2, "input": 2 / 2}
deep = nn.Sequential(*(nn.Linear(256, 256) for _ in range(10)))
Y = deep(X.detach())
of_weights = flops(torch.autograd.grad, Y, list(deep.parameters()), torch.ones_like(Y))
assert of_weights / flops(deep, X) == 2 - 1 / 10

# %%
# Where next
# ----------
#
# :ref:`never-forms-j` explains why the size of the Jacobian does not matter. For the time
# that a whole Jacobian takes, read :ref:`ways-measured`. :ref:`memory-measured` shows how
# much memory each mode takes.
#
# .. asked: cost of backward; backward slower than forward; how long does backward take;
#    FLOPs of the backward pass; time of one gradient; how long does a gradient take
# .. words: slow, time, times the forward, twice, flops, speed, expensive, benchmark
