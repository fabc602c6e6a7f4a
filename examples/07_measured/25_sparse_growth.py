r"""
.. _sparse-measured:

Sparse against dense: a Jacobian as n grows to a million
========================================================

You need the :term:`Jacobian` of a large system in which each unknown is linked to only a
few others. A dense Jacobian takes n products and consists of n² numbers, which fill 400 MB
for ten thousand unknowns and 4 TB for a million. If you know which entries can be different
from zero, you need less. The Jacobian of a chain then takes three products and about 3n
numbers, even for a million unknowns.
"""

# %%
# In our example each output depends on the input at the same place and on the two
# neighbours of this input, as in most equations on a line. ``x`` and ``y`` have shape
# ``(n,)``. Only three diagonals of the n×n Jacobian are not zero. Together these diagonals
# have 3n − 2 entries. For n = 5 this makes 13 entries out of 25:

import torch


def f(x):
    p = torch.nn.functional.pad(x, (1, 1))
    return 2 * p[:-2] + p[1:-1] ** 2 - p[2:].sin()


torch.func.jacrev(f)(torch.arange(1.0, 6.0)).count_nonzero()

# %%
# :func:`pullback.sparsity` finds the pattern of the nonzero entries by running f once on
# index sets, and then colours the columns. Each colour takes one product, and in this
# example the number of colours does not depend on n. The number of entries to keep grows
# in proportion to n, whereas the number of entries of a dense matrix grows with the
# square of n:

import pullback

for n in (100, 10_000, 1_000_000):
    plan = pullback.sparsity(f, torch.ones(n))
    print(f"n = {n:>9,}: {plan.n_colors} products, {3 * n - 2:,} of {n * n:.0e} entries")

# %%
# Timed
# -----
#
# We measure how long it takes to find the pattern, and then how long it takes to compute
# the Jacobian with this pattern. Up to 3000 unknowns, we also time the dense Jacobian,
# whose n products are computed in one batch. We divide each time by the time of one forward
# and backward pass of the function:

import time

from torch.utils.benchmark import Timer

DENSE_UP_TO = 3000


def seconds(function, x):
    timer = Timer("function(x)", globals={"function": function, "x": x})
    return timer.blocked_autorange(min_run_time=0.1).median


def one_product(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(f(x).sum(), x)


# %%
# We time a single search for the pattern, because you search for it only once:


def compare(n):
    x = torch.linspace(0, 1, n)
    start = time.perf_counter()
    plan = pullback.sparsity(f, x)
    figures = {"finding the pattern": time.perf_counter() - start}
    figures["sparse"] = seconds(lambda x: plan.jacobian(f, x), x)
    if n <= DENSE_UP_TO:
        figures["dense"] = seconds(torch.func.jacrev(f), x)
    product = seconds(one_product, x)
    return {name: round(t / product, 1) for name, t in figures.items()}


# %%
# If you copy this page and run it, it measures on your machine. In a clone of the
# repository it reads a record of an earlier measurement instead:

import json
import platform
from datetime import date
from pathlib import Path


def measure():
    sizes = (10, 100, 1000, 3000, 10_000, 100_000, 1_000_000)
    about = {"torch": torch.__version__, "machine": platform.machine()}
    figures = {str(n): compare(n) for n in sizes}
    return {**about, "date": date.today().isoformat(), "figures": figures}


path = Path("../../benchmarks/results/sparse_growth.json")
record = json.loads(path.read_text()) if path.exists() else measure()

# %%
# A figure of 10 in this table means the time of ten forward and backward passes of the
# function with the same n:

print("torch", record["torch"], "on", record["machine"], "with one thread,", record["date"])
ways = "finding the pattern", "sparse", "dense"
print(f"{'n':>9}" + "".join(f"{way:>22}" for way in ways))
for n, figures in record["figures"].items():
    cells = [f"{figures[way]:22.1f}" if way in figures else f"{'–':>22}" for way in ways]
    print(f"{int(n):>9,}" + "".join(cells))

# %%
# For a small Jacobian it is hardly worth making a plan, but a large dense Jacobian takes
# far longer than the plan and the sparse Jacobian together:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for way in ways:
    points = {int(n): t[way] for n, t in record["figures"].items() if way in t}
    ax.loglog(list(points), list(points.values()), marker="o", label=way)
ax.legend()
_ = ax.set(title="Time of a Jacobian, in products", xlabel="unknowns n", ylabel="products")

# %%
# *After about how many Jacobians has finding the plan paid off?* We can compute this number
# from the table, for each n for which the sparse way is faster:

for n, figures in record["figures"].items():
    if (saved := figures.get("dense", 0) - figures["sparse"]) > 0:
        print(f"n = {n:>4}: {max(1, round(figures['finding the pattern'] / saved))}")

# %%
# What goes wrong
# ---------------
#
# The Jacobians of some functions are not sparse. A single sum over all inputs fills every
# row of the Jacobian. Then no two columns can share a product, and there are n colours:


def coupled(x):
    return f(x) - x.mean()


print(pullback.sparsity(coupled, torch.ones(50)).n_colors)

# %%
# If you know that your function contains such a term, treat the term separately. The mean
# adds the same row to every row of the Jacobian, and this row takes one product. So you
# need three products and one more, instead of 50:

x = torch.linspace(0, 1, 50)
sparse = pullback.sparsity(f, x).jacobian(f, x).to_dense()
apart = sparse - torch.func.grad(torch.mean)(x)
print(torch.allclose(apart, torch.func.jacrev(coupled)(x)))

# %%
# There are two more mistakes, one expensive and one that can give a wrong result. If you
# call ``to_dense()`` on the Jacobian of a million unknowns, you ask for 4 TB. And if f has
# changed, a plan that you made before no longer fits, which you notice if you pass
# ``verify=True`` (:ref:`sparse-jacobian`).
#
# As a check, we compare the sparse result with the three derivatives written out, entry by
# entry, for 100 000 unknowns. The dense matrix would fill 40 GB:

x = torch.linspace(0, 1, 100_000)
J = pullback.sparsity(f, x).jacobian(f, x).to_sparse_coo().coalesce()
row, column = J.indices()
by_hand = torch.where(
    row == column, 2 * x[row], torch.where(column < row, 2.0, -x[column].cos())
)
torch.testing.assert_close(J.values(), by_hand)
assert len(row) == 3 * 100_000 - 2
assert ((row - column).abs() <= 1).all()

# %%
# Where next
# ----------
#
# :ref:`sparse-jacobian` explains how the colouring works. To compare the ways to a dense
# Jacobian, read :ref:`ways-measured`.
#
# .. asked: sparse Jacobian for large n; a million unknowns; dense or sparse Jacobian;
#    memory of a large Jacobian; scaling of a sparse Jacobian
# .. words: large, million, scaling, mesh, grid, dense impossible, finite elements
