"""How the ways to per-sample gradients compare: a loop, vmap, the loss vector, hooks.

Three linear layers of width 64, batches of 16 and 128; one thread; the ways take turns;
medians. What is to be compared is a ratio within one run. Writes
``results/per_sample.json``. Run ``python benchmarks/per_sample.py [seconds per case]``.
"""

import sys
from pathlib import Path

import torch
from jacobian import medians, save
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

RESULTS = Path(__file__).parent / "results" / "per_sample.json"
WIDTH = 64
LABEL = 3


def losses(net, X):
    """Return the loss of each sample."""
    return cross_entropy(net(X), X.new_full((len(X),), LABEL).long(), reduction="none")


def by_backward(net, X):
    """Differentiate the loss of the whole batch, which is no way to the gradients."""
    return torch.autograd.grad(losses(net, X).sum(), list(net.parameters()))


def by_loop(net, X):
    """Differentiate the loss of one sample after the other."""
    rows = [torch.autograd.grad(losses(net, x[None])[0], list(net.parameters())) for x in X]
    return [torch.stack(parts) for parts in zip(*rows, strict=True)]


def by_batched_v(net, X):
    """Differentiate the vector of losses with all one-hot v at once."""
    rows = torch.eye(len(X))
    parameters = list(net.parameters())
    return torch.autograd.grad(losses(net, X), parameters, rows, is_grads_batched=True)


def by_vmap(net, X):
    """Map the gradient of one sample's loss over the batch."""
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights, x):
        return losses(lambda X: functional_call(net, weights, (X,)), x[None])[0]

    return list(vmap(grad(loss), (None, 0))(weights, X).values())


def by_hooks(net, X):
    """Multiply what each linear layer got by the cotangent of what it returned."""
    got, returned = [], []

    def keep(_, inputs, output):
        got.append(inputs[0])
        returned.append(output)

    layers = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    handles = [layer.register_forward_hook(keep) for layer in layers]
    total = losses(net, X).sum()
    for handle in handles:
        handle.remove()
    cotangents = torch.autograd.grad(total, returned)
    found = []
    for x, v in zip(got, cotangents, strict=True):
        found += [v[:, :, None] * x.detach()[:, None, :], v]
    return found


WAYS = {
    "one backward of the sum": by_backward,
    "products in hooks": by_hooks,
    "vmap(grad(loss))": by_vmap,
    "is_grads_batched": by_batched_v,
    "loop": by_loop,
}


def main(seconds=4.0):
    """Run both sizes and write the results."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the weights are of no matter, only their sizes
    layers = [
        f()
        for _ in range(3)
        for f in (lambda: torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh)
    ]
    report = {}
    for batch in 16, 128:
        net, X = torch.nn.Sequential(*layers), torch.randn(batch, WIDTH)
        right = by_loop(net, X)
        for name, way in WAYS.items():
            found = way(net, X)
            of_sum = name == "one backward of the sum"
            expected = [g.sum(0) for g in right] if of_sum else right
            torch.testing.assert_close(list(found), list(expected), rtol=1e-3, atol=1e-5)
        ms = medians(WAYS, net, X, seconds)
        first = ms["one backward of the sum"]
        ratio = {name: t / first for name, t in ms.items()}
        report[str(batch)] = {"milliseconds": ms, "ratio": ratio}
        print(batch, {name: f"{r:.1f}" for name, r in ratio.items()}, f"{first:.3f} ms")
    save(RESULTS, {"cases": report})


if __name__ == "__main__":
    main(*(float(s) for s in sys.argv[1:2]))
