"""How sparse Jacobians compare with dense ones, and with JAX's asdex and sparsejac.

One thread; the ways take turns; medians; what is to be compared is a ratio within one
run. Writes ``results/sparse.json``. Run ``python benchmarks/sparse.py [seconds per case]``.
``sparse_jax.py`` runs in a process of its own; without asdex it is left out.
"""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch._functorch.config
from jacobian import OTHERS, medians, save
from torch.func import jacrev

import pullback

RESULTS = Path(__file__).parent / "results" / "sparse.json"
DENSE = {k: v for k, v in OTHERS.items() if k not in ("loop over rows", "functional")}
SWEEP = 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000
DENSE_UP_TO = 3000
JAX_SIZES = 4000, 100_000, 1_000_000


def tridiagonal(x):
    """Return numbers that depend on their own place and its two neighbours."""
    p = torch.nn.functional.pad(x, (1, 1))
    return 2 * p[:-2] + p[1:-1] ** 2 - p[2:].sin()


def stencil(u):
    """Return a reaction-diffusion residual: five points of a square grid."""
    n = round(u.numel() ** 0.5)
    p = torch.nn.functional.pad(u.reshape(n, n), (1, 1, 1, 1))
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return (around - 4 * p[1:-1, 1:-1] - u.reshape(n, n) ** 3).reshape(-1)


def spread(x):
    """Return a thousand numbers through two hundred times as many."""
    return (x.unsqueeze(1) * torch.linspace(0, 1, 200)).sin().mean(1)


def vjp(f, x):
    """Return one vector-Jacobian product, with its forward pass."""
    x = x.clone().requires_grad_()
    y = f(x)
    return torch.autograd.grad(y, x, torch.ones_like(y))


def planned(f, x):
    """Return a way that has its plan, and the seconds that the plan took."""
    start = time.process_time()
    plan = pullback.sparsity(f, x)
    seconds = time.process_time() - start
    return plan, plan.jacobian, seconds


def against_dense(f, x, seconds):
    """Compare one evaluation with every dense way of torch."""
    plan, sparse, detected = planned(f, x)
    ways = {"pullback sparse": sparse}
    for name, way in DENSE.items():
        try:
            torch.testing.assert_close(sparse(f, x).to_dense(), way(f, x))
        except RuntimeError:  # functional's forward mode has no rule for some operations
            continue
        ways[name] = way
    ms = medians(ways, f, x, seconds, warm=1)
    best = min((way for way in ms if way in DENSE), key=ms.__getitem__)
    return {
        "milliseconds": ms,
        "best other": best,
        "times faster": ms[best] / ms["pullback sparse"],
        "colours": plan.n_colors,
        "detect and colour, seconds": detected,
    }


def alone(function, n, peak):
    """Measure in a process of its own, for the memory that it comes to hold."""
    run = [sys.executable, __file__, "alone", function, str(n), peak]
    return json.loads(subprocess.run(run, check=True, capture_output=True).stdout)


def memory(what):
    """Return a figure of /proc in megabytes (getrusage's begins with the parent's)."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    figures = dict(line.split(":", 1) for line in status)
    return int(figures[what].split()[0]) / 1024


def measure_alone(function, n, peak):
    """Print what ``alone`` reads: seconds, and megabytes beyond those at the start."""
    f, x = globals()[function], torch.linspace(0, 1, n)
    work = {
        "sparsity": lambda x: pullback.sparsity(f, x),
        "jacrev": lambda x: jacrev(f)(x),
        "chunk_size=auto": lambda x: pullback.jacobian(f, x, chunk_size="auto"),
    }[peak]
    work(x[:9])  # imports
    before = memory("VmRSS")
    start = time.process_time()
    work(x)
    seconds = time.process_time() - start
    grown = memory("VmHWM") - before
    print(json.dumps({"seconds": seconds, "megabytes more at the peak": grown}))


def million(seconds):
    """Return the cost of a million unknowns, in VJPs and in memory."""
    report = {}
    for function in ("tridiagonal", "stencil"):
        f, x = globals()[function], torch.linspace(0, 1, 1_000_000)
        plan, sparse, _ = planned(f, x)
        ms = medians({"pullback sparse": sparse, "one VJP": vjp}, f, x, seconds)
        report[function] = {
            "milliseconds": ms,
            "in VJPs": ms["pullback sparse"] / ms["one VJP"],
            "colours": plan.n_colors,
            "detect and colour": alone(function, x.numel(), "sparsity"),
        }
    return report


def sweep(seconds):
    """Return the times of sparse and dense evaluation as n grows."""
    rows = []
    for n in SWEEP:
        x = torch.linspace(0, 1, n)
        _, sparse, detected = planned(tridiagonal, x)
        ways = {"pullback sparse": sparse}
        if n <= DENSE_UP_TO:
            ways |= {name: DENSE[name] for name in ("jacrev", "jacfwd")}
        ms = medians(ways, tridiagonal, x, seconds, warm=1)
        rows.append({"n": n, "milliseconds": ms, "detect and colour, seconds": detected})
    return rows


def compiled_products(f, plan, x):
    """Return a way whose forward pass and products are one compiled function.

    The entries are read outside of it: inductor would compute the product again for
    each of them, one by one.
    """
    seeds = plan.seeds(x)  # x is as long as y

    @torch.compile(dynamic=False)
    def products(x):
        _, pull = torch.func.vjp(f, x)
        return torch.func.vmap(pull)(seeds)[0]

    return lambda f, x: plan.assemble(products(x))


def against_jax(seconds):
    """Compare with asdex and sparsejac, their evaluations compiled by XLA."""
    run = [sys.executable, Path(__file__).with_name("sparse_jax.py")]
    run = subprocess.run(run, check=True, capture_output=True, text=True)
    report = json.loads(run.stdout.splitlines()[-1])
    torch._functorch.config.donated_buffer = False  # or a graph can be used only once
    compiled = torch.compile(tridiagonal, dynamic=False)
    for n in JAX_SIZES:
        x = torch.linspace(0, 1, n)
        plan, sparse, detected = planned(tridiagonal, x)

        def compiled_sparse(f, x, plan=plan):
            return plan.jacobian(compiled, x, chunk_size=1)

        ways = {
            "eager": sparse,
            "compiled f": compiled_sparse,
            "compiled products": compiled_products(tridiagonal, plan, x),
        }
        ms = medians(ways, tridiagonal, x, seconds)
        theirs = report[f"asdex {n}"]
        report[f"pullback {n}"] = {
            "detect and colour, seconds": detected,
            "evaluate, milliseconds": ms,
            "detection, times faster": theirs["detect and colour, seconds"] / detected,
            "evaluation, times asdex's": {
                way: t / theirs["evaluate, milliseconds"] for way, t in ms.items()
            },
        }
    return report


def main(seconds=2.0):
    """Run every part and write the results."""
    torch.set_num_threads(1)
    pullback.sparsity(tridiagonal, torch.ones(9))  # imports
    report = {
        "cases": {
            "tridiagonal 4000": against_dense(
                tridiagonal, torch.linspace(0, 1, 4000), seconds
            ),
            "stencil 40x40": against_dense(stencil, torch.linspace(0, 1, 1600), seconds),
        },
        "million": million(seconds),
        "sweep": sweep(seconds / 3),
        "peak memory, 1000 -> 200000 -> 1000": {
            way: alone("spread", 1000, way) for way in ("jacrev", "chunk_size=auto")
        },
    }
    beside = ["asdex", "sparsejac", "jax"] if importlib.util.find_spec("asdex") else []
    if beside:
        report["jax"] = against_jax(seconds)
    save(RESULTS, report, beside)
    print(RESULTS.read_text())


if __name__ == "__main__":
    if sys.argv[1:2] == ["alone"]:
        torch.set_num_threads(1)
        measure_alone(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(*(float(s) for s in sys.argv[1:2]))
