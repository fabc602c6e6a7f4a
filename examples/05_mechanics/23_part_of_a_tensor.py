r"""
.. _part-of-a-tensor:

How do I get the gradient with respect to a part of x, or freeze part of a weight?
==================================================================================

You want the gradient with respect to one row or column of ``x``, or you want to train
only a part of a weight. Take the part from the *gradient*, as in ``grad(y, x,
v)[0][part]``, or make each part a separate leaf and join the parts before you call f.
``grad(y, x[0], v)`` fails, because slicing makes a new tensor, and ``y`` was not computed
from this tensor. To freeze part of a weight, hold that part in a buffer. A gradient of 0
is not enough, because some optimizers still change the weight.
"""

# %%
# ``x`` has shape ``(4, 3)`` and holds four samples. ``y`` and ``v`` have shape ``(4, 2)``.
# *I only want the gradient with respect to the first sample.* Both of these attempts fail:

import torch

torch.manual_seed(0)  # the same numbers on every build
x = torch.randn(4, 3, requires_grad=True)
layer = torch.nn.Linear(3, 2)
y, v = layer(x).tanh(), torch.ones(4, 2)
for root, weights in ((y, v), (x[0][0], None)):
    try:
        torch.autograd.grad(root, x[0], weights, retain_graph=True)
    except RuntimeError as error:
        print(str(error).split(". ")[0])

# %%
# The ``x[0]`` in the call is a new tensor, computed from ``x`` at that moment, and it is
# not in the graph of ``y``. Each indexing operation makes a new tensor, so
# ``grad(x[0][0], x[0])`` failed as well. Instead, slice the gradient that comes back, or
# slice first and compute with the slice. A ``v`` that is 0 for the other samples gives
# the same row, too, with zeros in the other rows:

(whole,) = torch.autograd.grad(y, x, v, retain_graph=True)
row = x[0]
(by_row,) = torch.autograd.grad(layer(row).tanh(), row, v[0])
first = torch.zeros_like(v)
first[0] = v[0]
(by_v,) = torch.autograd.grad(y, x, first)
print(torch.allclose(whole[0], by_row), torch.allclose(by_v[0], by_row), by_v[1:].any())

# %%
# *Is it cheaper to slice first?* Yes. Slicing first does the work of one sample, whereas
# the other two ways do the work of all four samples, even if ``v`` is zero for three of
# them. If the samples do not mix, slice first.
#
# Columns, and the other arguments
# --------------------------------
#
# *I want the derivative with respect to the first column of the input, for every sample*,
# for example because that column is the time t. Make the column a leaf, and join it to the
# other columns, which then need no gradient:

t, rest = x.detach()[:, :1].clone().requires_grad_(), x.detach()[:, 1:]
(by_t,) = torch.autograd.grad(layer(torch.cat([t, rest], 1)).tanh(), t, v)
print(torch.allclose(by_t, whole[:, :1]), tuple(by_t.shape))

# %%
# A column of the :term:`Jacobian` takes one :term:`JVP`, however many outputs there are,
# and a row takes one :term:`VJP`. Since the samples do not mix, one JVP gives the
# derivative with respect to the second entry of the input for all four samples at once.
# The result has shape ``(4, 2)``:

u = torch.zeros_like(x)
u[:, 1] = 1.0
_, column = torch.func.jvp(lambda x: layer(x).tanh(), (x.detach(),), (u,))
print(column.detach().numpy().round(2))

# %%
# Training only a part of a weight
# --------------------------------
#
# *I want to train only the first row of W.* ``requires_grad`` belongs to the whole tensor,
# and you cannot switch it off for a slice:

masked = torch.nn.Linear(3, 2)
W = masked.weight
try:
    W[1].requires_grad_(False)
except RuntimeError as error:
    print(str(error).split(". ")[0])

# %%
# A hook on the weight that multiplies by a mask makes the gradient of the second row 0. (A
# hook on the *module* may run before ``weight.grad`` is there,
# :ref:`module-hook-weight-grad`.) *But the row
# still moves.* It is moved by weight decay, or by momentum from a step before the hook was
# registered. AdamW has a weight decay of 0.01 unless you say otherwise
# (:ref:`freezing-layers`). For each of three settings of SGD, we take one step without the
# hook and one with it. Each line of the output says whether the gradient of the second row
# was 0 in the step with the hook, and whether that step left the row unchanged:

mask = torch.tensor([[1.0], [0.0]])
for options in ({}, {"weight_decay": 0.1}, {"momentum": 0.9}):
    optimizer = torch.optim.SGD([W], lr=0.1, **options)
    for hooked in (False, True):
        handle = W.register_hook(lambda g, on=hooked: g * mask if on else g)
        before = W.detach().clone()
        optimizer.zero_grad()
        masked(x.detach()).sum().backward()
        optimizer.step()
        handle.remove()
    zero, kept = not W.grad[1].any().item(), torch.equal(W[1], before[1])
    print(f"{options}: gradient 0: {zero}, row kept: {kept}")

# %%
# If you use two tensors, a parameter for the trained part and a buffer for the frozen part,
# you are safe with every optimizer, because the buffer is never passed to it. With a
# parametrization, the name ``weight`` stands for the two parts joined together:


class FirstRow(torch.nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.register_buffer("fixed", fixed)

    def forward(self, row):
        return torch.cat([row, self.fixed])

    def right_inverse(self, weight):
        return weight[:1]


# %%
# The parameter now has one row, and the other row does not move. ``unsafe=True`` is needed
# because the shape of the parameter changes:

from torch.nn.utils import parametrize

half = torch.nn.Linear(3, 2)
start, fixed = half.weight.detach().clone().split(1)
parametrize.register_parametrization(half, "weight", FirstRow(fixed), unsafe=True)
optimizer = torch.optim.SGD(half.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
for _ in range(3):
    optimizer.zero_grad()
    half(x.detach()).pow(2).sum().backward()
    optimizer.step()
print([tuple(p.shape) for p in half.parameters()], torch.equal(half.weight[1:], fixed))

# %%
# *I want to hold one entry of a weight.* Join by a mask in place of rows. The entry of
# ``fixed`` is taken where the mask is False, and no optimizer can move it:


class Held(torch.nn.Module):
    def __init__(self, free, fixed):
        super().__init__()
        self.register_buffer("free", free)
        self.register_buffer("fixed", fixed)

    def forward(self, weight):
        return torch.where(self.free, weight, self.fixed)


conv = torch.nn.Conv2d(1, 2, (1, 3))
free = torch.ones_like(conv.weight, dtype=torch.bool)
free[1, 0, 0, 2] = False
parametrize.register_parametrization(conv, "weight", Held(free, torch.ones(())))
optimizer = torch.optim.AdamW(conv.parameters(), lr=0.1, weight_decay=0.1)
for _ in range(3):
    optimizer.zero_grad()
    conv(x.detach()[:, None, None]).pow(2).sum().backward()
    optimizer.step()
print("held at 1:", conv.weight[1, 0, 0, 2].item())

# %%
# What goes wrong
# ---------------
#
# *After a[0] = value the gradient of the first entry is 0.* Here ``a`` holds the squares of
# ``s``, and we differentiate its sum. After the assignment, this sum contains ``value``
# instead of the square of ``s[0]`` (:ref:`moving-values`). If you want both the value and
# the square in your sum, keep ``a`` and make a second tensor, as we do for the last line of
# the output:

s, value = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor(5.0)
a = s * s
a[0] = value
print(torch.autograd.grad(a.sum(), s)[0])
a = s * s
replaced = torch.cat([value[None], a[1:]])
print(torch.autograd.grad(replaced.sum() + a.sum(), s)[0])

# %%
# As a check, we compare the JVP with difference quotients of every output along the second
# column. We compare the gradient with respect to ``t`` with the difference quotients along
# the first column, summed over the outputs. We compare the gradient with respect to the
# first row with the chain rule, worked out by hand with :math:`\tanh'=1-\tanh^2`:

h, at, e = 1e-3, x.detach(), torch.eye(3)
with torch.no_grad():
    second = (layer(at + h * e[1]).tanh() - layer(at - h * e[1]).tanh()) / (2 * h)
    first = (layer(at + h * e[0]).tanh() - layer(at - h * e[0]).tanh()) / (2 * h)
torch.testing.assert_close(second, column.detach(), rtol=0, atol=1e-3)
torch.testing.assert_close(first.sum(1, keepdim=True), by_t, rtol=0, atol=1e-3)
torch.testing.assert_close(by_row, ((1 - y[0] ** 2) @ layer.weight).detach())
assert torch.equal(half.weight[1:], fixed)
assert not torch.equal(half.weight[:1], start)

# %%
# Where next
# ----------
#
# :ref:`grad-is-none` covers the reasons why a gradient is None. :ref:`one-component` shows
# how to pick one output instead of one input, and :ref:`per-sample-gradients` shows how to
# get a separate gradient for each sample.
#
# .. asked: gradient of a part of a tensor; gradient by a slice; freeze a part of a
#    weight; gradient with respect to one column; train only some rows; grad of x[0]
# .. words: slice, some entries, mask, subset, single weight, one element, column, freeze
#    half, embedding row, x[3]
