"""The JAX side of ``sparse.py``: asdex and sparsejac on the same functions.

Prints JSON. Needs jax, asdex and sparsejac.
"""

import json
import os
import statistics
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"
if hasattr(os, "sched_setaffinity"):  # one thread
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import asdex
import jax
import jax.numpy as jnp
import numpy as np
import sparsejac
from jax.experimental.sparse import BCOO

SIZES = 4000, 100_000, 1_000_000


def tridiagonal(x):
    """Return numbers that depend on their own place and its two neighbours."""
    p = jnp.pad(x, 1)
    return 2 * p[:-2] + p[1:-1] ** 2 - jnp.sin(p[2:])


def band(n):
    """Return the pattern of ``tridiagonal``, which sparsejac wants to be given."""
    i = np.arange(n)
    pairs = np.concatenate([np.stack([i, i + k], 1) for k in (-1, 0, 1)])
    pairs = pairs[(pairs >= 0).all(1) & (pairs < n).all(1)]
    return BCOO((jnp.ones(len(pairs)), jnp.asarray(pairs)), shape=(n, n))


def median(f, x, seconds=2.0):
    """Return the median time of f in milliseconds."""
    jax.block_until_ready(f(x))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.process_time()
        jax.block_until_ready(f(x))
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def main():
    """Measure both packages at every size that they manage in reasonable time."""
    report = {"jax": jax.__version__}
    asdex.jacobian_coloring(tridiagonal, jnp.ones(10))  # compile what is compiled
    for n in SIZES:
        x = jnp.linspace(0, 1, n)
        start = time.process_time()
        coloring = asdex.jacobian_coloring(tridiagonal, x)
        seconds = time.process_time() - start
        jacobian = jax.jit(asdex.jacobian_from_coloring(tridiagonal, coloring))
        report[f"asdex {n}"] = {
            "detect and colour, seconds": seconds,
            "evaluate, milliseconds": median(jacobian, x),
        }
    x = jnp.linspace(0, 1, SIZES[0])
    start = time.process_time()
    jacobian = jax.jit(sparsejac.jacrev(tridiagonal, band(SIZES[0])))
    report[f"sparsejac {SIZES[0]}"] = {
        "colour, seconds": time.process_time() - start,
        "evaluate, milliseconds": median(jacobian, x),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
