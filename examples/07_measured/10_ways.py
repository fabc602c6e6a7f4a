r"""
.. _ways-measured:

Which way to a whole Jacobian is fastest, for m = 1 … 1000?
===========================================================

There are several ways to compute a whole :term:`Jacobian`, and you want the fastest. If
there is only one output, the fastest way is ``backward`` itself. For the network on this
page, and from about ten outputs on, the two ways that compute all rows at once,
``is_grads_batched`` and ``jacrev``, are faster than a loop, by a factor that grows with
the number of outputs. Once there are more outputs than inputs, :term:`forward mode` is
faster than all ways that compute rows.
"""

# %%
# We measure a network with 100 inputs, a hidden layer of 64 units and ``m`` outputs:

import torch

n = 100


def network(m):
    torch.manual_seed(m)  # any weights do; the same ones on every build
    A, B = torch.randn(64, n) / 10, torch.randn(m, 64) / 8
    return lambda x: torch.tanh(x @ A.T) @ B.T


# %%
# We compare five ways. Three of them compute rows, with one product for each output. The
# fourth, ``jacfwd``, computes columns, and the fifth, ``pullback.jacobian``, chooses
# between rows and columns. We write the first two ways as functions:

import pullback


def loop(f, x):
    y = f(x.requires_grad_())
    rows = torch.eye(len(y))
    grads = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in rows]
    return torch.stack(grads)


def batched(f, x):
    y = f(x.requires_grad_())
    return torch.autograd.grad(y, x, torch.eye(len(y)), is_grads_batched=True)[0]


# %%
# The other three are library functions:

ways = {
    "loop over rows": loop,
    "is_grads_batched": batched,
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "pullback.jacobian": pullback.jacobian,
}

# %%
# Before we measure, we make sure that all five ways give the same matrix. A fast way to a
# wrong result would be of no use:

f, x = network(30), torch.linspace(-1, 1, n)
J = ways["jacfwd"](f, x)
for name, way in ways.items():
    found = way(f, x.clone())
    print(name, tuple(found.shape), torch.allclose(found, J, atol=1e-6))

# %%
# Timed
# -----
#
# For each ``m`` we divide the time of each way by the time of the fastest way. ``Timer``
# repeats a call until its median is steady, and uses one thread:

from torch.utils.benchmark import Timer


def seconds(way, f, x):
    timer = Timer("way(f, x)", globals={"way": way, "f": f, "x": x})
    return timer.blocked_autorange(min_run_time=0.05).median


def compare(m):
    f, x = network(m), torch.linspace(-1, 1, n)
    times = {name: seconds(way, f, x.clone()) for name, way in ways.items()}
    return {name: round(t / min(times.values()), 2) for name, t in times.items()}


# %%
# If you copy this page and run it, it measures on your machine. In a clone of the
# repository it reads a record of an earlier measurement instead, and prints the version
# of torch, the kind of machine and the date of this record:

import json
import platform
from datetime import date
from pathlib import Path


def measure():
    figures = {str(m): compare(m) for m in (1, 3, 10, 30, 100, 300, 1000)}
    about = {"torch": torch.__version__, "machine": platform.machine()}
    return {**about, "date": date.today().isoformat(), "figures": figures}


path = Path("../../benchmarks/results/ways.json")
record = json.loads(path.read_text()) if path.exists() else measure()
print("torch", record["torch"], "on", record["machine"], "with one thread,", record["date"])

# %%
# Each column of the table belongs to one ``m``. In a column, the fastest way has 1.0, and a
# way with 2.5 took two and a half times as long:

print(f"{'m':18}" + "".join(f"{m:>7}" for m in record["figures"]))
for name in ways:
    row = [figures[name] for figures in record["figures"].values()]
    print(f"{name:18}" + "".join(f"{ratio:7.1f}" for ratio in row))

# %%
# In the picture, each row of the table is a line, and lower means faster:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name in ways:
    times = [figures[name] for figures in record["figures"].values()]
    ax.loglog([int(m) for m in record["figures"]], times, marker=".", label=name)
ax.legend()
_ = ax.set(xlabel="outputs m", ylabel="time / fastest", title="Ways to J, 100 inputs")

# %%
# What goes wrong
# ---------------
#
# Do not generalise from a single figure. For a *small* function, the ways differ in their
# fixed cost, which is a fraction of a millisecond for the transforms of :mod:`torch.func`.
# For a large function they differ in the number of products. And if all rows are computed
# at once, every intermediate value of the backward pass is held ``m`` times. If there is
# not enough memory for this, use ``chunk_size`` or the loop.
#
# As a check that does not depend on a clock, we count the floating-point operations of
# ``jacrev`` and ``jacfwd`` for 1000 outputs, in units of one forward pass:

from torch.utils.flop_counter import FlopCounterMode


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


f, X = network(1000), torch.ones(1, n)
rows, columns = flops(torch.func.jacrev(f), X), flops(torch.func.jacfwd(f), X)
print(f"{rows / flops(f, X):.0f} {columns / flops(f, X):.0f}")

# %%
# :term:`Reverse mode <reverse mode>` needs a forward pass and 1000 products. Forward mode
# needs 100 products and the work of up to two more forward passes, which together is about
# a tenth of the work:

assert rows == 1001 * flops(f, X)
assert 100 * flops(f, X) < columns < 103 * flops(f, X)
assert torch.allclose(J, torch.func.jacrev(network(30))(x.detach()), atol=1e-6)

# %%
# Where next
# ----------
#
# :ref:`jacobian-at-once` introduces these ways one by one. :ref:`reverse-or-forward`
# explains how ``mode="auto"`` chooses between rows and columns. For measurements of
# Jacobians with other shapes, read :ref:`measured`.
#
# .. asked: fastest Jacobian; benchmark jacrev and jacfwd; loop or vmap for the
#    Jacobian; compare ways to the Jacobian
# .. words: slow, speed, benchmark, fastest, loop, vectorise, compare, which method
