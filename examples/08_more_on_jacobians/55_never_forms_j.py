r"""
.. _never-forms-j:

Why backward never forms J: time and memory
===========================================

Books explain ``backward`` as ``v`` times the :term:`Jacobian`. For a layer with a million
weights that matrix would be enormous, so where is it kept? It is kept nowhere. Each
operation multiplies ``v`` by its own Jacobian through a formula, without writing the matrix
down. So a product costs a small multiple of the forward pass, whereas the Jacobian of a
function with n inputs and m outputs would have :math:`m\cdot n` entries.
"""

# %%
# An elementwise function of a million numbers has a Jacobian of :math:`10^{12}` entries.
# All but a million of them are zero, because each output depends on one input. The product
# needs only the diagonal:

import torch

n = 1_000_000
x = torch.linspace(0, 1, n, requires_grad=True)
y = torch.sin(x)
y.backward(torch.ones(n))
print(f"entries of J: {y.numel() * x.numel():.0e}   of x.grad: {x.grad.numel():.0e}")

# %%
# The memory that backward takes
# ------------------------------
#
# But ``backward`` does need :term:`saved tensors <saved tensor>`, which are values from
# the forward pass. To see how much memory they take, we install a hook that is called for
# each tensor as it is saved, and we add up the bytes, counting each tensor once:


def saved_bytes(f, *inputs):
    kept = {}

    def keep(t):
        kept[t.data_ptr()] = t  # holds on to t, so that no address is used again
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        f(*inputs)
    return int(torch.tensor([t.nbytes for t in kept.values()]).sum())


# %%
# ``sin`` saves its input. Ten layers save ten activations. This is the price of
# :term:`reverse mode`: the saved tensors are kept until the backward pass has used them. A
# sum saves nothing, because its derivative is 1 whatever the values are:


def ten_layers(x):
    for _ in range(10):
        x = torch.tanh(x)
    return x


for f in (torch.sin, ten_layers, torch.sum):
    print(f"{f.__name__:10} saves {saved_bytes(f, x) / x.nbytes:.0f} × the bytes of x")

# %%
# :term:`Forward mode <forward mode>` computes a :term:`tangent` along with the values, and
# drops tangents and values as it goes. For the same ten layers it saves nothing:

point, tangent = x.detach(), torch.ones(n)
saved_bytes(lambda x: torch.func.jvp(ten_layers, (x,), (tangent,)), point)

# %%
# The work that backward takes
# ----------------------------
#
# Now take a linear layer :math:`Y=XW^\top` with a 1000×1000 weight, and a batch of 64. If
# you wrote down the Jacobian of the output with respect to the weight, it would have this
# many entries:

X, W = torch.ones(64, 1000), torch.ones(1000, 1000, requires_grad=True)
entries = (X @ W.T).numel() * W.numel()
print(f"{entries:.1e} entries, {entries * 4 / 2**30:.0f} GiB")

# %%
# The product is :math:`V^\top X`, one matrix product as large as the forward pass. If the
# input requires a gradient as well, there is another matrix product of this size. We
# count the floating-point operations of the two products together, because such a count
# does not depend on the machine. The last number in each line of the output is the number
# of operations in the backward pass, divided by the number of operations in the forward
# pass:

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
# For each size that we tried, the backward pass took two products of the size of the
# forward pass, and not :math:`m` products. A gradient costs only a small multiple of the
# function itself, which is known as the *cheap gradient principle*.
#
# What goes wrong
# ---------------
#
# *"Backward computes the full Jacobian, then multiplies."* If this were so, a tensor of the
# size of the Jacobian would have to appear somewhere. So we watch every operation, and
# remember the size of the largest result:

from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numel = max(self.numel, out.numel())
        return out


# %%
# The largest tensor that ``backward`` makes here has as many entries as ``W``:

Y = X @ W.T
with Largest() as largest:
    Y.backward(torch.ones_like(Y))
print(largest.numel, W.numel())

# %%
# *My Jacobian runs out of memory, though training does not.* If you ask for all rows at
# once, every intermediate value of the backward pass is kept ``m`` times. With
# ``chunk_size`` you take fewer rows at a time, and the largest tensor gets smaller:


def repeats(x):  # 100 numbers, then 4000, then 100
    return torch.tanh(x.repeat(40)).reshape(40, 100).sum(0)


for chunk_size in (None, 10, 1):
    with Largest() as in_chunks:
        torch.func.jacrev(repeats, chunk_size=chunk_size)(torch.ones(100))
    print(f"chunk_size={chunk_size}: largest tensor {in_chunks.numel} numbers")

# %%
# As a check that the formulas stand for the right matrices, we compare them with
# derivatives worked out by hand. For a :math:`V` of ones, the gradient with respect to
# ``W`` is :math:`V^\top X`, which is 64 everywhere:

assert torch.equal(W.grad, torch.full_like(W, 64))
assert largest.numel < entries / 10_000
torch.testing.assert_close(x.grad, torch.cos(point))
J = torch.func.jacrev(repeats)(torch.zeros(100))
torch.testing.assert_close(J, 40 * torch.eye(100))

# %%
# Where next
# ----------
#
# If you do need the matrix, read :ref:`jacobian-at-once`. :ref:`measured` shows how much
# time it takes to compute it.
#
# .. asked: why backward does not form the Jacobian; cost of a vjp; matrix-free; memory
#    of J
# .. words: matrix free, terabytes, convolution, cost, storage, elementwise, diagonal never
#    stored
