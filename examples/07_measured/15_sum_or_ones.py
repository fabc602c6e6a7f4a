r"""
.. _sum-or-ones-speed:

Is y.sum().backward() faster than y.backward(ones)?
===================================================

``y.sum().backward()`` and ``y.backward(torch.ones_like(y))`` give the same gradient. Is one
of them faster? On its own, hardly: ``sum`` reads ``y`` once, ``ones_like`` writes as much
once, and the product is the same. Next to the work of a network you will not notice the
difference. So choose the one that says what you mean.
"""

# %%
# Here are the two products for the same function of a million numbers. They are equal in
# every bit:

import torch


def f(x):
    return torch.tanh(x) ** 2


x = torch.linspace(-1, 1, 1_000_000, requires_grad=True)
(by_sum,) = torch.autograd.grad(f(x).sum(), x)
y = f(x)
(by_ones,) = torch.autograd.grad(y, x, torch.ones_like(y))
torch.equal(by_sum, by_ones)

# %%
# What arrives at ``y``
# ---------------------
#
# In memory, the two are not quite the same. Behind a sum, ``v`` is a *view*. It is a
# single 1 with stride 0, which is shown a million times. ``ones_like`` fills a million
# places. A hook on ``y`` shows us the stride and the bytes of both:


def bytes_of_v(backward):
    y, seen = f(x), []
    y.register_hook(lambda v: seen.append((v.stride(), v.untyped_storage().nbytes())))
    backward(y)
    return seen[0]


x.grad = None
behind_sum = bytes_of_v(lambda y: y.sum().backward())
given_ones = bytes_of_v(lambda y: y.backward(torch.ones_like(y)))
print(behind_sum, given_ones)

# %%
# You may also pass such a view yourself. It is equal to ones, and takes four bytes:

expanded = torch.ones(()).expand(y.shape)
given_view = bytes_of_v(lambda y: y.backward(expanded))
print(given_view, torch.equal(expanded, torch.ones_like(y)))

# %%
# Timed
# -----
#
# We time the three ways, for a short and a long ``y``, and for one behind a network. The
# forward pass is included, and there is one thread:

from torch.utils.benchmark import Timer

grad, one = torch.autograd.grad, torch.ones(())
ways = {
    "sum": lambda y, x: grad(y.sum(), x),
    "ones": lambda y, x: grad(y, x, torch.ones_like(y)),
    "expanded": lambda y, x: grad(y, x, one.expand(y.shape)),
}

# %%
# These calls take so little time that anything else the machine does can spoil a figure.
# Therefore the ways take turns, and the best of five medians counts. The cases are:

torch.manual_seed(0)  # any weights do; the same ones on every build
network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh())
cases = {
    "10 numbers": (f, (10,)),
    "a million": (f, (1_000_000,)),
    "a network": (network, (256, 256)),
}

# %%
# And this is how they are measured. Each time is divided by the time with ``sum``:


def seconds(way, f, x):
    timer = Timer("way(f(x), x)", globals={"way": way, "f": f, "x": x})
    return timer.blocked_autorange(min_run_time=0.05).median


def compare(f, shape):
    x = torch.rand(shape, requires_grad=True)
    turns = [[seconds(way, f, x) for way in ways.values()] for _ in range(5)]
    best = torch.tensor(turns).amin(0)
    return dict(zip(ways, (best / best[0]).tolist(), strict=True))


def measure():
    figures = {name: compare(*case) for name, case in cases.items()}
    about = {"torch": torch.__version__, "machine": platform.machine()}
    return {**about, "date": date.today().isoformat(), "figures": figures}


# %%
# If you run a copy of this page, it measures on your machine. In a clone of the
# repository it reads a record of such a run, and here it is:

import json
import platform
from datetime import date
from pathlib import Path

path = Path("../../benchmarks/results/sum_or_ones.json")
record = json.loads(path.read_text()) if path.exists() else measure()
print("torch", record["torch"], "on", record["machine"], "with one thread,", record["date"])
print(f"{'time / with sum':16}" + "".join(f"{name:>10}" for name in ways))
for name, figures in record["figures"].items():
    print(f"{name:16}" + "".join(f"{figures[way]:10.2f}" for way in ways))

# %%
# What goes wrong
# ---------------
#
# Do not take ``mean`` for a faster ``sum``. It sends another ``v``, with 1/N in each place.
# And do not write into an expanded ``v``. All its million places are the same one, and
# torch refuses:

try:
    expanded[0] = 2.0
except RuntimeError as error:
    print(str(error)[:76])

# %%
# *What about a loop?* A loop with one ``backward`` for each sample is the slow way. The
# ones trick is useful because it passes all the ones at once (:ref:`ones-trick`).
#
# As a check, we compare the gradients with the derivative written out in NumPy, and what
# arrived at ``y`` with what we said:

import numpy as np

values = np.tanh(x.detach().numpy())
torch.testing.assert_close(by_sum, torch.from_numpy(2 * values * (1 - values**2)))
assert torch.equal(by_sum, by_ones)
assert behind_sum == given_view == ((0,), 4)
assert given_ones == ((1,), 4_000_000)

# %%
# Where next
# ----------
#
# :ref:`sum-is-ones` explains why they are the same product, and :ref:`same-or-not` lists
# other pairs that are the same, or are not.
#
# .. asked: sum or ones faster; speed of y.sum().backward(); overhead of ones_like
# .. words: speed, faster, idiom, difference, overhead, style
