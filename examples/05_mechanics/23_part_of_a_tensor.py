r"""
.. _part-of-a-tensor:

How do I get the gradient by a part of x, or freeze part of a weight?
=====================================================================

A leaf has one gradient for all of its entries. Take the part out of the *gradient*, or make
the parts leaves of their own and join them before f. A slice made afterwards is a new
tensor, which ``y`` was not made from.
"""

# %%
# ``x`` has shape ``(4, 3)``, four samples; ``y`` and ``v`` have shape ``(4, 2)``. *I only
# want it by the first sample:*

import torch

torch.manual_seed(0)  # the same numbers on every build
x = torch.randn(4, 3, requires_grad=True)
layer = torch.nn.Linear(3, 2)
y, v = layer(x).tanh(), torch.ones(4, 2)
try:
    torch.autograd.grad(y, x[0], v, retain_graph=True)
except RuntimeError as error:
    print(str(error).split(". ")[0])

# %%
# ``x[0]`` was computed at this moment, from ``x``; the graph of ``y`` does not know it.
# Each indexing makes another one, so that also ``grad(x[0][0], x[0])`` fails. What works:
# slice what comes back, with a ``v`` that is 0 at the outputs that you do not ask for; or
# slice first and go on with the slice:

(whole,) = torch.autograd.grad(y, x, v, retain_graph=True)
row = x[0]
(by_row,) = torch.autograd.grad(layer(row).tanh(), row, v[0])
first = torch.zeros_like(v)
first[0] = v[0]
(by_v,) = torch.autograd.grad(y, x, first)
print(torch.allclose(whole[0], by_row), torch.allclose(by_v[0], by_row), by_v[1:].any())

# %%
# *Is the first cheaper?* The second did the work of one sample, and the first that of all:
# where f is costly, and the samples do not mix, slice first.
#
# Columns, and the other arguments
# --------------------------------
#
# *By the first column of the input, at all samples.* Make the columns leaves and stack
# them, as for derivatives of a network by t alone. The others then need no gradient:

t, rest = x.detach()[:, :1].clone().requires_grad_(), x.detach()[:, 1:]
(by_t,) = torch.autograd.grad(layer(torch.cat([t, rest], 1)).tanh(), t, v)
print(torch.allclose(by_t, whole[:, :1]), tuple(by_t.shape))

# %%
# Of the :term:`Jacobian` a few columns are a :term:`JVP` each, of any number of outputs,
# and a few rows a :term:`VJP` each. The second column, for every sample at once:

u = torch.zeros_like(x)
u[:, 1] = 1.0
_, column = torch.func.jvp(lambda x: layer(x).tanh(), (x.detach(),), (u,))
print(column.detach().numpy().round(2))

# %%
# Part of a weight
# ----------------
#
# *I want to train only the first row of W.* ``requires_grad`` belongs to the whole tensor.
# On a slice the flag is refused:

masked = torch.nn.Linear(3, 2)
W = masked.weight
try:
    W[1].requires_grad_(False)
except RuntimeError as error:
    print(str(error).split(". ")[0])

# %%
# A hook that multiplies by a mask keeps the gradient of the rest at 0. *And it moves all
# the same*: weight decay, or the momentum of earlier steps, needs no gradient:

mask = torch.tensor([[1.0], [0.0]])
handle = W.register_hook(lambda g: g * mask)
for decay in (0.0, 0.1):
    before = W.detach().clone()
    optimizer = torch.optim.SGD([W], lr=0.1, weight_decay=decay)
    optimizer.zero_grad()
    masked(x.detach()).sum().backward()
    optimizer.step()
    print(decay, W.grad[1].any().item(), torch.equal(W[1], before[1]))
handle.remove()

# %%
# Two tensors, of which one is a parameter and one a buffer, are safe with every optimizer;
# a parametrization keeps the name ``weight`` for the two together:


class FirstRow(torch.nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.register_buffer("fixed", fixed)

    def forward(self, row):
        return torch.cat([row, self.fixed])

    def right_inverse(self, weight):
        return weight[:1]


# %%
# The parameter now has one row, and the other cannot move:

from torch.nn.utils import parametrize

half = torch.nn.Linear(3, 2)
fixed = half.weight.detach()[1:].clone()
parametrize.register_parametrization(half, "weight", FirstRow(fixed), unsafe=True)
optimizer = torch.optim.SGD(half.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
for _ in range(3):
    optimizer.zero_grad()
    half(x.detach()).pow(2).sum().backward()
    optimizer.step()
print([tuple(p.shape) for p in half.parameters()], torch.equal(half.weight[1:], fixed))

# %%
# What goes wrong
# ---------------
#
# *After a[0] = value the gradient of the first entry is 0.* The old value is in no output
# any more, and the graph is that of what was computed (:ref:`moving-values`). Keep ``a``
# and make a second tensor, if both are wanted:

s, value = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor(5.0)
a = s * s
a[0] = value
print(torch.autograd.grad(a.sum(), s)[0])
a = s * s
replaced = torch.cat([value[None], a[1:]])
print(torch.autograd.grad(replaced.sum() + a.sum(), s)[0])

# %%
# The check: the column by difference quotients of all outputs, the gradient by ``t`` by
# those of their sum:

h, at, e = 1e-3, x.detach(), torch.tensor([[1.0, 0.0, 0.0]])
with torch.no_grad():
    by_u = (layer(at + h * u).tanh() - layer(at - h * u).tanh()) / (2 * h)
    by_e = (layer(at + h * e).tanh() - layer(at - h * e).tanh()) / (2 * h)
torch.testing.assert_close(by_u, column.detach(), rtol=0, atol=1e-3)
torch.testing.assert_close(by_e.sum(1, keepdim=True), by_t, rtol=0, atol=1e-3)

# %%
# Where next
# ----------
#
# None in other cases: :ref:`grad-is-none`. One output instead of one input:
# :ref:`one-component`. Each sample's own: :ref:`per-sample-gradients`.
