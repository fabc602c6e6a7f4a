"""How products with a Hessian and a Gauss-Newton matrix compare with torch and curvlinops.

The loss of a tanh network with respect to all its parameters, one thread; the ways take
turns; medians. What is to be compared is a ratio within one run. A way whose package is
not installed is left out. Writes ``results/operators.json``. Run
``python benchmarks/operators.py [seconds per case]``.
"""

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path

import torch
from jacobian import medians, save
from torch.func import functional_call, grad, jvp, vjp

import pullback

RESULTS = Path(__file__).parent / "results" / "operators.json"
WIDTHS = 16, 128, 512


def problem(width):
    """Return a network, and its data."""
    sizes = [width] * 4
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    net = torch.nn.Sequential(*(m for layer in layers for m in (layer, torch.nn.Tanh())))
    return net, torch.randn(64, width), torch.randn(64, width)


def products(net, X, Y):
    """Return the ways to u -> Hu and to u -> Gu, and a u like the weights."""
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def output(weights):
        return functional_call(net, weights, (X,))

    def of_output(y):  # not mse_loss, which jvp over grad refuses
        return ((y - Y) ** 2).mean()

    def of_weights(weights):
        return of_output(output(weights))

    def through_output(u):
        y, tangent = jvp(output, (weights,), (u,))
        curved = jvp(grad(of_output), (y,), (tangent,))[1]
        return vjp(output, weights)[1](curved)[0]

    H = pullback.hessian_operator(of_weights, weights)
    G = pullback.gauss_newton_operator(output, weights, loss=of_output)
    ways = {
        "Hessian": {
            "pullback": lambda u: H @ u,
            "torch.func": lambda u: jvp(grad(of_weights), (weights,), (u,))[1],
        },
        "Gauss-Newton": {"pullback": lambda u: G @ u, "torch.func": through_output},
    }
    if importlib.util.find_spec("curvlinops"):
        from curvlinops import GGNLinearOperator, HessianLinearOperator

        for name, kind in (
            ("Hessian", HessianLinearOperator),
            ("Gauss-Newton", GGNLinearOperator),
        ):
            parameters, data = list(net.parameters()), [(X, Y)]
            theirs = kind(
                net, torch.nn.MSELoss(), parameters, data, check_deterministic=False
            )
            ways[name]["curvlinops"] = lambda u, A=theirs: A @ list(u.values())
    return ways, {name: torch.randn_like(w) for name, w in weights.items()}


def flat(product):
    """Return the numbers of a product, however it is structured."""
    parts = product.values() if isinstance(product, dict) else product
    return torch.cat([part.detach().flatten() for part in parts])


def main(seconds=3.0):
    """Run every width and write the results."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the weights are of no matter, only their sizes
    report = {}
    for width in WIDTHS:
        kinds, u = products(*problem(width))
        for kind, ways in kinds.items():
            right = flat(ways["torch.func"](u))
            for way in ways.values():
                torch.testing.assert_close(flat(way(u)), right, rtol=1e-3, atol=1e-5)
            taken = {name: lambda _, u, way=way: way(u) for name, way in ways.items()}
            ms = medians(taken, None, u, seconds)
            ratio = {name: t / ms["torch.func"] for name, t in ms.items()}
            report[f"{kind}, width {width}"] = {"milliseconds": ms, "ratio": ratio}
            print(kind, width, {name: f"{r:.2f}" for name, r in ratio.items()})
    theirs = ["curvlinops-for-pytorch"] if importlib.util.find_spec("curvlinops") else []
    save(RESULTS, {"cases": report}, theirs)


if __name__ == "__main__":
    main(*(float(s) for s in sys.argv[1:2]))
