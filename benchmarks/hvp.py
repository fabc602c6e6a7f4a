"""How the orders of differentiating twice compare, for one Hessian-vector product.

Four tanh layers, a batch of 64, widths from 16 to 512; one thread; the ways take turns;
medians. What is to be compared is a ratio within one run. Writes ``results/hvp.json``.
Run ``python benchmarks/hvp.py [seconds per case]``.
"""

import sys
from functools import partial
from pathlib import Path

import torch
from jacobian import medians, save
from torch.func import grad, jvp, vjp

RESULTS = Path(__file__).parent / "results" / "hvp.json"
WIDTHS = 16, 64, 256, 512


def network(width):
    """Return the loss of the layers' weights, which are one tensor."""
    data = torch.randn(64, width)

    def loss(W):
        h = data
        for layer in W.unbind():
            h = torch.tanh(h @ layer)
        return (h**2).mean()

    return loss


def two_calls(f, W, U):
    """Call ``autograd.grad`` twice."""
    W = W.clone().requires_grad_()
    (g,) = torch.autograd.grad(f(W), W, create_graph=True)
    return torch.autograd.grad(g, W, U)[0]


ORDERS = {
    "two calls of autograd.grad": two_calls,
    "torch.func, reverse over reverse": lambda f, W, U: vjp(grad(f), W)[1](U)[0],
    "torch.func, forward over reverse": lambda f, W, U: jvp(grad(f), (W,), (U,))[1],
    "torch.func, reverse over forward": lambda f, W, U: grad(
        lambda W: jvp(f, (W,), (U,))[1]
    )(W),
}


def main(seconds=4.0):
    """Run every width and write the results."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the weights are of no matter, only their sizes
    report = {}
    for width in WIDTHS:
        f, W = network(width), torch.randn(4, width, width) / width**0.5
        U = torch.randn_like(W)
        ways = {name: partial(way, U=U) for name, way in ORDERS.items()}
        right = ways["two calls of autograd.grad"](f, W)
        for way in ways.values():
            torch.testing.assert_close(way(f, W), right, rtol=1e-3, atol=1e-6)
        ms = medians(ways, f, W, seconds)
        first = ms["two calls of autograd.grad"]
        ratio = {name: t / first for name, t in ms.items()}
        report[str(width)] = {"milliseconds": ms, "ratio": ratio}
        print(width, {name: f"{r:.2f}" for name, r in ratio.items()}, f"{first:.3f} ms")
    save(RESULTS, {"cases": report})


if __name__ == "__main__":
    main(*(float(s) for s in sys.argv[1:2]))
