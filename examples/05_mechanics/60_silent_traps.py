r"""
.. _silent-traps:

Which mistakes around backward(v) raise nothing?
================================================

A ``v`` of the wrong *shape* raises; a ``v`` too many, of another dtype, or for other
weights than you meant does not. Nor does a loss that broadcasts, a leaf that becomes one
too late, or a result that shares memory with ``v``. Each is shown here with its number.
"""

# %%
# With ``x`` and ``y`` of shape ``(2,)`` and :math:`y=x^2` at (1, 2), the :term:`Jacobian`
# is ``diag(2, 4)``. What raises, first: ``v`` is never broadcast, too few are refused, and
# so is a complex one for a real ``y``:

from copy import deepcopy

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
ones = torch.ones(2)
for ys, v in (([x**2], torch.ones(1)), ([x**2, 3 * x], ones), ([x**2], 1j * ones)):
    try:
        torch.autograd.grad(ys, x, [v])
    except RuntimeError as error:
        print(error)

# %%
# A v too many
# ------------
#
# *Six losses, seven grad_tensors, and no mismatch?* What is left over is dropped, whatever
# its shape; zip them with ``strict=True`` where the lists come from different places:

torch.autograd.grad([x**2], x, [ones, torch.zeros(7)])

# %%
# A v of another dtype
# --------------------
#
# A real ``v`` is cast to the dtype of ``y``. Integers and booleans are welcome; what
# float32 or float16 cannot hold is lost:

for v in (torch.tensor([2**24 + 1, 1]), torch.tensor([True, False])):
    print(torch.autograd.grad(1 * x, x, v)[0].tolist())
large = torch.tensor([70000.0, 1e-9])
print(torch.autograd.grad(1 * x.half(), x, large)[0])

# %%
# A loss that broadcasts
# ----------------------
#
# The shape rule guards ``v``, not what you subtract. ``(B, 1)`` minus ``(B,)`` is
# ``(B, B)``, and its mean pulls every output to the mean target. These outputs hit their
# targets, so the gradient should be 0:

out = torch.tensor([[1.0], [3.0]], requires_grad=True)
target = torch.tensor([1.0, 3.0])
for difference in (out - target, out.squeeze(1) - target):
    (g,) = torch.autograd.grad((difference**2).mean(), out)
    print(tuple(difference.shape), g.flatten())

# %%
# Which reduction did you mean?
# -----------------------------
#
# ``backward`` of a mean is ``v = 1/B`` and of a sum ``v = 1``; a last batch of another
# size, or gradients added over parts of a batch, silently weighs samples differently. The
# mean over three, as the sum of the means over two and one:

data = torch.tensor([1.0, 2.0, 6.0])
w, found = torch.tensor(1.0, requires_grad=True), {}
for parts in ((3,), (2, 1)):
    for part in data.split(parts):
        (w * part).mean().backward()
    found[parts], w.grad = w.grad.item(), None
found

# %%
# A batch without samples has a mean of NaN and gradients of 0. The loss shows it, the
# weights do not:

layer = torch.nn.Linear(2, 1)
loss = layer(torch.zeros(0, 2)).mean()
loss.backward()
print(loss.item(), layer.weight.grad)

# %%
# A leaf too late, a gradient of a copy
# -------------------------------------
#
# ``requires_grad`` counts at the moment of the operation. Set it after the forward pass and
# ``.grad`` stays None; take it off, and the :term:`leaf` gets nothing although the graph is
# there:

w = torch.tensor(3.0, requires_grad=True)
late, early = torch.tensor(2.0), torch.tensor(2.0, requires_grad=True)
y = w * late + w * early
late.requires_grad_()
early.requires_grad_(False)
y.backward()
print(late.grad, early.grad, w.grad)

# %%
# A leaf made from a copy collects the gradient for itself. Whatever holds the original, an
# optimiser for one, finds None. ``deepcopy`` of a model makes such copies, as for the inner
# steps of MAML, which want :ref:`recorded steps <hypergradients>`:

x.grad = None
copy = x.detach().clone().requires_grad_()
(copy**2).sum().backward()
print(x.grad, copy.grad)
model = torch.nn.Linear(2, 1)
inner = deepcopy(model)
inner(ones).sum().backward()
print(model.weight.grad, inner.weight.grad)

# %%
# A result that is v
# ------------------
#
# Where the Jacobian is the identity, nothing is computed, and the gradient may be ``v``
# itself. An edit in place of one is an edit of all; ``clone()`` before you write:

v = torch.ones(2)
a, b = x.detach().requires_grad_(), x.detach().requires_grad_()
to_a, to_b = torch.autograd.grad(a + b, (a, b), v)
to_a.mul_(100)
print(to_b, v)

# %%
# A model in the other mode
# -------------------------
#
# In ``train()`` batch normalisation removes the mean of each feature over the batch, so
# the gradient of a sum is 0; in ``eval()`` it is not. Neither says which one you asked:

norm = torch.nn.BatchNorm1d(1)
batch = torch.tensor([[1.0], [2.0], [6.0]], requires_grad=True)
for mode in (norm.train, norm.eval):
    (g,) = torch.autograd.grad(mode()(batch).sum(), batch)
    print(mode.__name__, g.flatten().abs().round(decimals=3))

# %%
# Forward mode does not see ``no_grad``
# -------------------------------------
#
# ``jacfwd`` differentiates through a block of ``no_grad`` that ``jacrev`` takes for a
# constant. Write ``detach()`` where you mean a constant:

constant = torch.no_grad()(lambda x: x**2)
point = torch.tensor(3.0)
print(torch.func.jacrev(constant)(point), torch.func.jacfwd(constant)(point))

# %%
# The check that catches a wrong loss, reduction or cut is a difference quotient of the
# value that you meant, computed from plain numbers. Of the two splits above it accepts one:


def meant(w):
    return (w * data.double()).mean().item()


slope = (meant(1.001) - meant(0.999)) / 0.002
assert [parts for parts, g in found.items() if abs(g - slope) < 1e-4] == [(3,)]

# %%
# Where next
# ----------
#
# Everything that ``gradient`` accepts and refuses: :ref:`contract`. Doubled gradients:
# :ref:`gradient-doubled`. Samples that mix: :ref:`mixing-samples`. Edits through an old
# alias of a tensor's numbers: :ref:`in-place`. A place written twice:
# :ref:`repeated-indices`.
#
# .. asked: silent mistakes with backward; wrong gradient without an error; common
#    mistakes with v; no error, but a wrong result; pitfalls of autograd; wrong results
#    without an error; check that my gradient code is right
