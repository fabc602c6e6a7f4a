r"""
.. _never-forms-j:

Why backward never forms J: time and memory
===========================================

Each operation multiplies ``v`` by its own Jacobian through a formula, without writing
that Jacobian down. A product costs a small multiple of the forward pass; the Jacobian
would have :math:`m\cdot n` entries.
"""

# %%
# An elementwise function of a million numbers has a Jacobian of :math:`10^{12}` entries, of
# which all but a million are zero. The product multiplies by the diagonal alone:

import torch

n = 1_000_000
x = torch.linspace(0, 1, n, requires_grad=True)
y = torch.sin(x)
y.backward(torch.ones(n))
print(f"entries of J: {n * n:.0e}   numbers in x.grad: {x.grad.numel():.0e}")

# %%
# Memory
# ------
#
# What backward needs are *saved tensors*, values of the forward pass. Hooks see each as
# it is saved; here they add up the bytes of different tensors:


def saved_bytes(f, *inputs):
    kept = {}

    def keep(t):
        kept[t.data_ptr()] = t.nbytes
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        result = f(*inputs)
    return sum_of(kept.values()), result


def sum_of(sizes):
    return int(torch.tensor(list(sizes)).sum())


# %%
# For ``sin``, the input, 4 bytes a number. For ten layers, ten activations: the price of
# reverse mode is that they are kept until the backward pass has used them:


def ten_layers(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for f in (torch.sin, ten_layers):
    size, _ = saved_bytes(f, x)
    print(f"{f.__name__:10} saves {size / x.nbytes:.0f} × the bytes of x")

# %%
# A sum saves nothing at all: its derivative is 1 whatever the values are.

saved_bytes(torch.sum, x)[0]

# %%
# Work
# ----
#
# For a linear layer :math:`Y=XW^\top` of a batch, the Jacobian by the 1000×1000 weight
# would have :math:`m\cdot n` entries, for the batch of 64 this many:

X, W = torch.ones(64, 1000), torch.ones(1000, 1000, requires_grad=True)
entries = (64 * 1000) * W.numel()
print(f"{entries:.1e} entries, {entries * 4 / 2**30:.0f} GiB")

# %%
# The product is one matrix product of the size of the forward pass, :math:`V^\top X`.
# Counted in floating-point operations, for the weight and for the input:

from torch.utils.flop_counter import FlopCounterMode

X.requires_grad_()
with FlopCounterMode(display=False) as forward:
    Y = X @ W.T
with FlopCounterMode(display=False) as backward:
    Y.backward(torch.ones_like(Y))
backward.get_total_flops() / forward.get_total_flops()

# %%
# Twice the forward pass, for two products, and not :math:`m` times. That ratio is the
# *cheap gradient principle*: it does not grow with the number of inputs.
#
# What goes wrong
# ---------------
#
# *"Backward computes the full Jacobian, then multiplies."* If it did, a matrix of this
# size would have to exist somewhere. The largest tensor that backward makes here is no
# larger than ``W``:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numel = max(self.numel, out.numel())
        return out


Y = X @ W.T
with Largest() as largest:
    Y.backward(torch.ones_like(Y))
largest.numel == W.numel()

# %%
# The rules that replaced the matrices are right: for :math:`V` of ones, by hand, the
# gradient of ``W`` is :math:`V^\top X` with all entries 64, twice accumulated:

assert torch.equal(W.grad, 2 * 64 * torch.ones_like(W))
assert largest.numel < entries / 10_000
torch.testing.assert_close(x.grad, torch.cos(x.detach()))
assert backward.get_total_flops() == 2 * forward.get_total_flops()

# %%
# Where next
# ----------
#
# When you do need the matrix: :ref:`jacobian-at-once`. What it takes in time:
# :ref:`measured`.
