r"""
.. _sum-or-ones-speed:

Is y.sum().backward() faster than y.backward(ones)?
===================================================

On its own, hardly: ``sum`` reads ``y`` once, ``ones_like`` writes as much once, and the
product is the same. Next to a network neither is worth a thought. Choose by what you mean.
"""

# %%
# The two products, one function, a million numbers:

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
# Not quite the same thing. Behind a sum, ``v`` is a *view*: a single 1 with stride 0, shown
# a million times. ``ones_like`` fills a million places. A hook on ``y`` shows each:


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
# So you may hand over such a view yourself. It is ones in every respect, in four bytes:

expanded = torch.ones(()).expand(y.shape)
given_view = bytes_of_v(lambda y: y.backward(expanded))
print(given_view, torch.equal(expanded, torch.ones_like(y)))

# %%
# Timed
# -----
#
# The three ways for a short and a long ``y``, and for one behind a network, divided by the
# way with ``sum``. Forward pass included, one thread:

from torch.utils.benchmark import Timer

grad, one = torch.autograd.grad, torch.ones(())
ways = {
    "sum": lambda y, x: grad(y.sum(), x),
    "ones": lambda y, x: grad(y, x, torch.ones_like(y)),
    "expanded": lambda y, x: grad(y, x, one.expand(y.shape)),
}

# %%
# On so little work a figure is soon spoilt by whatever else the machine does; so the ways
# take turns, and the best of five medians counts:

torch.manual_seed(0)  # any weights do; the same ones on every build
network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh())
cases = {
    "10 numbers": (f, (10,)),
    "a million": (f, (1_000_000,)),
    "a network": (network, (256, 256)),
}

# %%
# Forward pass and product together:


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
# A clone of the repository holds a record of such a run; a copy of this page measures anew:

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
# Taking ``mean`` for a faster ``sum``: it is another ``v``, 1/N in each place. Writing into
# an expanded ``v``: the million places are one, and torch refuses:

try:
    expanded[0] = 2.0
except RuntimeError as error:
    print(str(error)[:76])

# %%
# *And the loop?* That is the slow way: a ``backward`` for each sample. All ones at once is
# what makes the ones trick worth having (:ref:`ones-trick`).
#
# The check: equal gradients, by the derivative written out in NumPy:

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
# Why they are the same product: :ref:`sum-is-ones`. Other pairs that are, or are not:
# :ref:`same-or-not`.
#
# .. asked: sum or ones faster; speed of y.sum().backward(); overhead of ones_like
# .. words: speed, faster, idiom, difference, overhead, style
