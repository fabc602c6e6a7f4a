r"""
.. _sum-or-ones-speed:

Is y.sum().backward() faster than y.backward(ones)?
===================================================

``y.sum().backward()`` and ``y.backward(torch.ones_like(y))`` give the same gradient. Is one
of the two faster? There is little to choose between them: ``sum`` reads ``y`` once,
``ones_like`` writes a tensor of the same size once, and the product is the same. In the
measurement on this page, the call with ones is a little faster for a function that does
little work. Next to the work of a network you will not notice the difference. So choose the
call that says what you mean.
"""

# %%
# Here we compute the gradient of the same function of a million numbers in both ways. The
# two results are exactly equal:

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
# The ``v`` that arrives at ``y`` does not look the same in memory for the two calls. If a
# sum follows ``y``, ``v`` is a *view*: a single 1 with stride 0, which stands for a million
# entries. ``ones_like`` writes a million entries. A hook on ``y`` shows us the stride of
# ``v`` and the number of bytes that it takes in memory, first for the sum and then for the
# ones:


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
# You may also pass such a view yourself. It equals a tensor of ones, and takes four bytes:

expanded = torch.ones(()).expand(y.shape)
given_view = bytes_of_v(lambda y: y.backward(expanded))
print(given_view, torch.equal(expanded, torch.ones_like(y)))

# %%
# Timed
# -----
#
# We time the sum, the ones and the expanded view. We do this for a short ``y``, for a long
# ``y``, and for the output of a network. Every timing includes the forward pass and is
# measured with one thread:

from torch.utils.benchmark import Timer

grad, one = torch.autograd.grad, torch.ones(())
ways = {
    "sum": lambda y, x: grad(y.sum(), x),
    "ones": lambda y, x: grad(y, x, torch.ones_like(y)),
    "expanded": lambda y, x: grad(y, x, one.expand(y.shape)),
}

# %%
# These calls take so little time that anything else that the machine does can distort a
# figure. Therefore we measure the three ways in turn, five times, and keep the smallest of
# the five medians for each way. These are the functions and the shapes of their inputs:

torch.manual_seed(0)  # any weights do; the same ones on every build
network = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh())
cases = {
    "10 numbers": (f, (10,)),
    "a million": (f, (1_000_000,)),
    "a network": (network, (256, 256)),
}

# %%
# The following functions measure the cases. They divide the time of each way by the time
# with ``sum``:


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
# If you copy the code of this page and run it, it measures the times on your machine. In a
# clone of the repository it reads a record of an earlier measurement instead, and prints
# this record:

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
# In the record, the call with ones takes less time than the sum for the 10 numbers and for
# the million numbers. For the network, the two times are equal within two per cent.
#
# What goes wrong
# ---------------
#
# Do not use ``mean`` in place of ``sum``. In the backward pass, ``mean`` sends a different
# ``v``, with 1/N in each entry. And do not write into an expanded ``v``. All its million
# entries are at the same place in memory, and torch refuses the edit:

try:
    expanded[0] = 2.0
except RuntimeError as error:
    print(str(error)[:76])

# %%
# *What about a loop?* A loop that calls ``backward`` once for each sample is the slow way.
# A single call that passes all the ones takes its place (:ref:`ones-trick`).
#
# As a check, we compare the gradients with the derivative written out in NumPy, and the
# strides and bytes that the hook has seen with the strides and bytes that we expect. We
# also check our statements about the record:

import numpy as np

values = np.tanh(x.detach().numpy())
torch.testing.assert_close(by_sum, torch.from_numpy(2 * values * (1 - values**2)))
assert torch.equal(by_sum, by_ones)
assert behind_sum == given_view == ((0,), 4)
assert given_ones == ((1,), 4_000_000)
if path.exists():
    with_ones = {name: figures["ones"] for name, figures in record["figures"].items()}
    assert with_ones["10 numbers"] < 1
    assert with_ones["a million"] < 1
    assert abs(with_ones["a network"] - 1) < 0.02

# %%
# Where next
# ----------
#
# :ref:`sum-is-ones` explains why the two calls compute the same product. :ref:`same-or-not`
# lists other pairs of calls, some of which do the same and some of which do not.
#
# .. asked: sum or ones faster; speed of y.sum().backward(); overhead of ones_like
# .. words: speed, faster, idiom, difference, overhead, style
