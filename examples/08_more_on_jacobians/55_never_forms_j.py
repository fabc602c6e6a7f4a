r"""
.. _never-forms-j:

Why backward never forms J: time and memory
===========================================

Each operation multiplies ``v`` by its own :term:`Jacobian` through a formula, without
writing that Jacobian down. A product costs a small multiple of the forward pass; the
Jacobian would have :math:`m\cdot n` entries.
"""

# %%
# An elementwise function of a million numbers has a Jacobian of :math:`10^{12}` entries, of
# which all but a million are zero. The product multiplies by the diagonal alone:

import torch

n = 1_000_000
x = torch.linspace(0, 1, n, requires_grad=True)
y = torch.sin(x)
y.backward(torch.ones(n))
print(f"entries of J: {y.numel() * x.numel():.0e}   of x.grad: {x.grad.numel():.0e}")

# %%
# Memory
# ------
#
# What backward needs are :term:`saved tensors <saved tensor>`, values of the forward pass.
# Hooks see each as it is saved; here they add up the bytes of different tensors:


def saved_bytes(f, *inputs):
    kept = {}

    def keep(t):
        kept[t.data_ptr()] = t  # holds on to t, so that no address is used again
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(*inputs)
    return int(torch.tensor([t.nbytes for t in kept.values()]).sum())


# %%
# For ``sin``, the input. For ten layers, ten activations: the price of :term:`reverse mode`
# is that they are kept until the backward pass has used them. A sum saves nothing, since
# its derivative is 1 whatever the values are:


def ten_layers(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for f in (torch.sin, ten_layers, torch.sum):
    print(f"{f.__name__:10} saves {saved_bytes(f, x) / x.nbytes:.0f} × the bytes of x")

# %%
# :term:`Forward mode <forward mode>` carries a :term:`tangent` along with the values and
# drops both as it goes. It saves nothing:

point, tangent = x.detach(), torch.ones(n)
saved_bytes(lambda x: torch.func.jvp(ten_layers, (x,), (tangent,)), point)

# %%
# Work
# ----
#
# For a linear layer :math:`Y=XW^\top` and a batch of 64, the Jacobian of the output by the
# 1000×1000 weight would have this many entries:

X, W = torch.ones(64, 1000), torch.ones(1000, 1000, requires_grad=True)
entries = (X @ W.T).numel() * W.numel()
print(f"{entries:.1e} entries, {entries * 4 / 2**30:.0f} GiB")

# %%
# The product is :math:`V^\top X`, one matrix product of the size of the forward pass.
# Counted in floating-point operations, which do not depend on the machine, for the weight
# and for the input together:

from torch.utils.flop_counter import FlopCounterMode

for size in (10, 100, 1000):
    A = torch.ones(64, size, requires_grad=True)
    B = torch.ones(size, size, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        Y = A @ B.T
    with FlopCounterMode(display=False) as backward:
        Y.backward(torch.ones_like(Y))
    print(size, backward.get_total_flops() / forward.get_total_flops())

# %%
# Two products, twice the forward pass, whatever the size and not :math:`m` times. This is
# the *cheap gradient principle*.
#
# What goes wrong
# ---------------
#
# *"Backward computes the full Jacobian, then multiplies."* If it did, a tensor of that size
# would have to be made. This watches every operation and keeps the largest result:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numel = max(self.numel, out.numel())
        return out


# %%
# The largest that backward makes here has the size of ``W``:

Y = X @ W.T
with Largest() as largest:
    Y.backward(torch.ones_like(Y))
print(largest.numel, W.numel())

# %%
# *My Jacobian runs out of memory, though training does not.* All its products at once hold
# every intermediate value ``m`` times. ``chunk_size`` takes fewer at a time:


def repeats(x):  # 100 numbers, then 4000, then 100
    return torch.tanh(x.repeat(40)).reshape(40, 100).sum(0)


for chunk_size in (None, 10, 1):
    with Largest() as in_chunks:
        torch.func.jacrev(repeats, chunk_size=chunk_size)(torch.ones(100))
    print(f"chunk_size={chunk_size}: largest tensor {in_chunks.numel} numbers")

# %%
# The rules that stand for the matrices are right: for :math:`V` of ones, by hand, the
# gradient of ``W`` is :math:`V^\top X`, 64 everywhere:

assert torch.equal(W.grad, torch.full_like(W, 64))
assert largest.numel < entries / 10_000
torch.testing.assert_close(x.grad, torch.cos(point))
J = torch.func.jacrev(repeats)(torch.zeros(100))
torch.testing.assert_close(J, 40 * torch.eye(100))

# %%
# Where next
# ----------
#
# When you do need the matrix: :ref:`jacobian-at-once`. What it takes in time:
# :ref:`measured`.
#
# .. asked: why backward does not form the Jacobian; cost of a vjp; matrix-free; memory
#    of J
