"""How ``pullback.jacobian`` and ``hessian`` compare with every other way to the whole.

One thread; the ways take turns, so that a slow moment of the machine meets them all, in
another order each time, since a neighbour's caches shift a short call; medians of the time
that the process had the processor. Prints each time as a ratio to the best of the others
and writes ``results/jacobian.json``. Run
``python benchmarks/jacobian.py [seconds per case]``.
"""

import json
import platform
import random
import statistics
import sys
import time
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import torch
from torch.autograd.functional import hessian as functional_hessian
from torch.autograd.functional import jacobian as functional
from torch.func import grad, jacfwd, jacrev, jvp, vjp, vmap

from pullback._hessian import hessian
from pullback._jacobian import jacobian

RESULTS = Path(__file__).parent / "results" / "jacobian.json"


def mlp(*sizes):
    """Return a tanh network of linear layers, its weights plain tensors."""
    Ws = [torch.randn(n, m) / m**0.5 for m, n in pairwise(sizes)]

    def f(x):
        for W in Ws[:-1]:
            x = torch.tanh(torch.nn.functional.linear(x, W))
        return torch.nn.functional.linear(x, Ws[-1])

    return f


def toy(x):
    """Return three numbers from three."""
    return torch.stack([x[0] * x[1], x.sum(), x[2] ** 2])


def elementwise(x):
    """Return as many numbers as there are, each from its own."""
    return torch.tanh(x) * x.sin()


def rows(f, x):
    """Loop over the rows with ``autograd.grad``."""
    x = x.clone().requires_grad_()
    y = f(x)
    eye = torch.eye(y.numel()).reshape(-1, *y.shape).unbind()
    J = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in eye]
    return torch.stack(J).reshape(y.shape + x.shape)


def batched_grad(f, x):
    """Give ``autograd.grad`` all rows at once."""
    x = x.clone().requires_grad_()
    y = f(x)
    eye = torch.eye(y.numel()).reshape(-1, *y.shape)
    J = torch.autograd.grad(y, x, eye, is_grads_batched=True)[0]
    return J.reshape(y.shape + x.shape)


def columns(f, x):
    """Give ``autograd.grad`` one output number of all samples at a time."""
    x = x.clone().requires_grad_()
    y = f(x)
    eye = torch.eye(y.shape[1]).unsqueeze(1).expand(-1, *y.shape)
    return torch.autograd.grad(y, x, eye, is_grads_batched=True)[0].movedim(0, 1)


def vmapped(f, x):
    """Map one vector-Jacobian product of ``torch.func`` over the rows."""
    y, pull = vjp(f, x)
    (J,) = vmap(pull)(torch.eye(y.numel()).reshape(-1, *y.shape))
    return J.reshape(y.shape + x.shape)


def hessian_products(f, x):
    """Map one Hessian-vector product of ``torch.func`` over the columns."""
    return vmap(lambda u: jvp(grad(f), (x,), (u,))[1])(torch.eye(x.numel())).T


PER_SAMPLE = {  # a case of its own: the full J's memory traffic slows its neighbours
    "pullback batched": partial(jacobian, batched=True),
    "batched grad, columns": columns,
    "vmap(jacrev)": lambda f, x: vmap(jacrev(f))(x),
}
OTHERS = {
    "loop over rows": rows,
    "batched grad": batched_grad,
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "vmap of vjp": vmapped,
    "functional": functional,
    "functional vectorized": partial(functional, vectorize=True),
    "functional forward": partial(functional, vectorize=True, strategy="forward-mode"),
}
OTHER_HESSIANS = {
    "func.hessian": lambda f, x: torch.func.hessian(f)(x),
    "jacrev(jacrev)": lambda f, x: jacrev(jacrev(f))(x),
    "vmap of jvp(grad)": hessian_products,
    "functional": functional_hessian,
    "functional vectorized": partial(functional_hessian, vectorize=True),
}


def cases():
    """Yield name, function and input."""
    torch.manual_seed(0)  # the weights are of no matter, only their sizes
    yield "3->3", toy, torch.randn(3)
    yield "MLP 784->10", mlp(784, 128, 10), torch.randn(784)
    yield "MLP 10->784", mlp(10, 128, 784), torch.randn(10)
    yield "MLP 500->500", mlp(500, 128, 500), torch.randn(500)
    yield "elementwise 1000", elementwise, torch.randn(1000)
    yield "batch 64x(32->32)", mlp(32, 64, 32), torch.randn(64, 32)


def curved_cases():
    """Yield name, function of one number and input."""
    yield "Rosenbrock 10", rosenbrock, torch.randn(10)
    for n in (30, 300):
        net = mlp(n, 64, 1)
        yield f"MLP {n}->1", lambda x, net=net: net(x).squeeze(), torch.randn(n)


def rosenbrock(x):
    """Return one number, in which each of x meets its neighbours alone."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def right(way, f, x, known):
    """Return whether ``way`` works here; it must not be wrong where it does."""
    try:
        found = way(f, x)
    except RuntimeError:  # functional's forward mode has no rule for linear
        return False
    torch.testing.assert_close(found, known(f, x), rtol=1e-3, atol=1e-4)
    return True


def compared(cases, ours, others, known, seconds):
    """Return and print how our way compares with the others, case by case."""
    report = {}
    for name, f, x in cases:
        ways = {"pullback": ours, **others}
        these = {way: g for way, g in ways.items() if right(g, f, x, others[known])}
        ms = medians(these, f, x, seconds)
        best = min((way for way in these if way in others), key=ms.__getitem__)
        ratio = {way: t / ms[best] for way, t in ms.items()}
        report[name] = {"milliseconds": ms, "best other": best, "ratio": ratio}
        print(f"{name}: best other {best}, {ms[best]:.3f} ms")
        for way in these:
            print(f"    {way:22} {ms[way]:9.3f} ms  {ratio[way]:8.2f}")
    return report


def medians(ways, f, x, seconds, warm=0):
    """Return the median time in milliseconds of each way, run in turns.

    It is the time of the processor, which on one thread is all of it but the waiting for
    other programs.

    In its turn a way runs ``warm`` times before it is timed: after a neighbour that
    fills a large J it would meet cold caches and memory given back to the system.
    """
    times = {name: [] for name in ways}
    for way in ways.values():
        way(f, x)
    end = time.perf_counter() + seconds
    turns = list(ways.items())
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        random.shuffle(turns)
        for name, way in turns:
            for _ in range(warm):
                way(f, x)
            start = time.process_time()
            way(f, x)
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(t) for name, t in times.items()}


def save(path, report, beside=()):
    """Write the report, with where and when it was measured, beside which packages."""
    about = {
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": 1,
        "beside": {name: version(name) for name in beside},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**about, **report}, indent=2) + "\n")


def main(seconds=4.0):
    """Run every case and write the results."""
    torch.set_num_threads(1)
    report = compared(cases(), jacobian, OTHERS, "jacrev", seconds)
    *_, (name, f, x) = cases()
    ms = medians(PER_SAMPLE, f, x, seconds)
    times = report[name]["milliseconds"]["pullback"] / ms["pullback batched"]
    report["batch, per sample"] = {"milliseconds": ms, "full / batched": times}
    print(f"batch, per sample: {ms}; batched=True is {times:.0f} times faster than full")
    curved = compared(curved_cases(), hessian, OTHER_HESSIANS, "func.hessian", seconds)
    save(RESULTS, {"cases": report, "hessians": curved})


if __name__ == "__main__":
    main(*(float(s) for s in sys.argv[1:2]))
