r"""
.. _sparse-measured:

Sparse against dense: a Jacobian as n grows to a million
========================================================

A dense :term:`Jacobian` costs n products and n² numbers: 400 MB at ten thousand unknowns,
4 TB at a million. With a known pattern that of a chain takes three products and 3n numbers,
at a million too.
"""

# %%
# Each output depends on its own input and two neighbours, as in most equations on a line.
# ``x`` and ``y`` have shape ``(n,)``; of the n×n :term:`Jacobian` three diagonals are not
# zero, 3n − 2 entries; of 25 these are 13:

import torch


def f(x):
    p = torch.nn.functional.pad(x, (1, 1))
    return 2 * p[:-2] + p[1:-1] ** 2 - p[2:].sin()


torch.func.jacrev(f)(torch.arange(1.0, 6.0)).count_nonzero()

# %%
# :func:`pullback.sparsity` finds the pattern by running f once on index sets, and colours
# the columns. Which n does not matter to the number of colours, and the numbers to keep
# grow with n:

import pullback

for n in (100, 10_000, 1_000_000):
    plan = pullback.sparsity(f, torch.ones(n))
    print(f"n = {n:>9,}: {plan.n_colors} products, {3 * n - 2:,} of {n * n:.0e} entries")

# %%
# Timed
# -----
#
# The pattern once, then the Jacobian with it, and the dense way up to 3000 unknowns, all of
# its n products as one batch. All divided by one forward and backward pass of the function:

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
# The plan is timed once, being made once:


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
# A clone of the repository holds a record of such a run; a copy of this page measures anew:

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
# In products of the same function at the same n:

print("torch", record["torch"], "on", record["machine"], "with one thread,", record["date"])
ways = "finding the pattern", "sparse", "dense"
print(f"{'n':>9}" + "".join(f"{way:>22}" for way in ways))
for n, figures in record["figures"].items():
    cells = [f"{figures[way]:22.1f}" if way in figures else f"{'–':>22}" for way in ways]
    print(f"{int(n):>9,}" + "".join(cells))

# %%
# A small Jacobian is hardly worth a plan; a large dense one costs far more than both:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for way in ways:
    points = {int(n): t[way] for n, t in record["figures"].items() if way in t}
    ax.loglog(list(points), list(points.values()), marker="o", label=way)
ax.legend()
_ = ax.set(title="Time of a Jacobian, in products", xlabel="unknowns n", ylabel="products")

# %%
# *After about how many Jacobians has finding the plan paid?* By the table:

for n, figures in record["figures"].items():
    if (saved := figures.get("dense", 0) - figures["sparse"]) > 0:
        print(f"n = {n:>4}: {max(1, round(figures['finding the pattern'] / saved))}")

# %%
# What goes wrong
# ---------------
#
# Colouring what is not sparse. A single sum over all inputs fills every row; then there is
# nothing to share, and n colours:


def coupled(x):
    return f(x) - x.mean()


print(pullback.sparsity(coupled, torch.ones(50)).n_colors)

# %%
# Write such a term apart: it adds one row, which one product gives, to every row. Three
# products and one, against the 50:

x = torch.linspace(0, 1, 50)
sparse = pullback.sparsity(f, x).jacobian(f, x).to_dense()
apart = sparse - torch.func.grad(torch.mean)(x)
print(torch.allclose(apart, torch.func.jacrev(coupled)(x)))

# %%
# Turning the result dense: ``to_dense()`` on a million unknowns asks for 4 TB. And a plan
# that f has outgrown: ``verify=True`` finds it (:ref:`sparse-jacobian`).
#
# The check: the sparse result against the three derivatives written out, entry by entry,
# at 100 000 unknowns, where the dense matrix would fill 40 GB:

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
# How colouring works: :ref:`sparse-jacobian`. Dense ways compared: :ref:`ways-measured`.
#
# .. asked: sparse Jacobian for large n; a million unknowns; dense or sparse Jacobian;
#    memory of a large Jacobian; scaling of a sparse Jacobian
# .. words: large, million, scaling, mesh, grid, dense impossible, finite elements
