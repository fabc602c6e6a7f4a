r"""
.. _silent-traps:

Which mistakes around backward(v) raise no error?
=================================================

A ``v`` of the wrong shape raises an error, and errors are kind: they stop you. This page is
about the mistakes that let the program run on with a wrong gradient. Some are in the call
to ``backward``, such as one ``v`` too many, or a ``v`` of a different dtype. Others are in
what was computed before the call, such as a loss that broadcasts, or a tensor whose
``requires_grad`` you set too late. The page shows each mistake with the wrong number that
it gives.
"""

# %%
# We first look at what *does* raise an error. Let :math:`y=x^2` at ``x = [1, 2]``, so that
# the :term:`Jacobian` is ``diag(2, 4)``. PyTorch does not broadcast a ``v``. It also
# refuses a single ``v`` for two outputs, and a complex ``v`` for a real ``y``:

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
# One v too many
# --------------
#
# *Six losses, seven grad_tensors, and no mismatch?* A list of ``v`` may be longer than the
# list of outputs. PyTorch drops the rest of the list, whatever shapes it holds. If the two
# lists come from different places in your program, zip them with ``strict=True``, which
# raises an error if their lengths differ. ``grad`` itself raises none:

torch.autograd.grad([x**2], x, [ones, torch.zeros(7)])

# %%
# A v of another dtype
# --------------------
#
# For a real ``y``, a real ``v`` is cast to the dtype of ``y``, and integers and booleans
# are accepted as well. A value that the dtype of ``y`` cannot represent is changed. In
# float32, :math:`2^{24}+1` becomes :math:`2^{24}`, and in float16, 70,000 becomes infinite
# and :math:`10^{-9}` becomes 0:

for v in (torch.tensor([2**24 + 1, 1]), torch.tensor([True, False])):
    print(torch.autograd.grad(1 * x, x, v)[0].tolist())
large = torch.tensor([70000.0, 1e-9])
print(torch.autograd.grad(1 * x.half(), x, large)[0])

# %%
# A loss that broadcasts
# ----------------------
#
# PyTorch compares the shape of ``v`` with the shape of ``y``. It does not know which
# shape your loss was meant to have. An output of shape ``(B, 1)`` minus a target of shape
# ``(B,)`` gives a tensor of shape ``(B, B)``, which holds the difference between every
# output and every target. The mean of its squares pulls all outputs toward the mean of
# the targets. The outputs below equal their targets, so the gradient should be 0:

out = torch.tensor([[1.0], [3.0]], requires_grad=True)
target = torch.tensor([1.0, 3.0])
for difference in (out - target, out.squeeze(1) - target):
    (g,) = torch.autograd.grad((difference**2).mean(), out)
    print(tuple(difference.shape), g.flatten())

# %%
# Which reduction did you mean?
# -----------------------------
#
# A loss that is a mean over the batch sends ``v = 1/B`` to each of its B samples, and a
# loss that is a sum sends 1. So with a mean, how much one sample counts depends on the size
# of its batch. If the last batch is smaller, or if you add up gradients over unequal parts
# of a batch, some samples get more weight than others. We compare the gradient of the mean
# over three samples with the gradient of a sum of two means. The first mean is over two of
# the samples, and the second is over the remaining sample:

data = torch.tensor([1.0, 2.0, 6.0])
w, found = torch.tensor(1.0, requires_grad=True), {}
for parts in ((3,), (2, 1)):
    for part in data.split(parts):
        (w * part).mean().backward()
    found[parts], w.grad = w.grad.item(), None
found

# %%
# If a batch has no samples, the mean over it is NaN, and yet the gradients of the weights
# are 0. You can see the mistake in the loss, but not in the gradients:

layer = torch.nn.Linear(2, 1)
loss = layer(torch.zeros(0, 2)).mean()
loss.backward()
print(loss.item(), layer.weight.grad)

# %%
# A flag set too late, a gradient of a copy
# -----------------------------------------
#
# Whether an operation is recorded depends on ``requires_grad`` at the time of the
# operation. If you set the flag to True only after the forward pass, ``.grad`` stays None.
# If you set the flag of a :term:`leaf` to False after the forward pass, the leaf gets no
# gradient either, although the graph contains the leaf:

w = torch.tensor(3.0, requires_grad=True)
late, early = torch.tensor(2.0), torch.tensor(2.0, requires_grad=True)
y = w * late + w * early
late.requires_grad_()
early.requires_grad_(False)
y.backward()
print(late.grad, early.grad, w.grad)

# %%
# If you copy a tensor and make the copy a leaf, the gradient goes into the ``.grad`` of the
# copy. An optimizer that holds the original then finds None in the ``.grad`` of the
# original. The parameters of a ``deepcopy`` of a model are such copies. If you take the
# inner steps of MAML on a ``deepcopy``, no gradient reaches the outer model, and you need
# :ref:`recorded steps <hypergradients>` instead:

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
# If the Jacobian is the identity, as for both terms of ``a + b``, there is nothing to
# compute, and each gradient that comes back can be the very tensor ``v`` that you passed.
# If you then edit one of these gradients in place, you edit all of them, and ``v`` as well.
# Call ``clone()`` before you write into a gradient:

v = torch.ones(2)
a, b = x.detach().requires_grad_(), x.detach().requires_grad_()
to_a, to_b = torch.autograd.grad(a + b, (a, b), v)
to_a.mul_(100)
print(to_b, v)

# %%
# A model in the wrong mode
# -------------------------
#
# In ``train()`` mode, batch normalization removes the mean that each feature has over the
# batch. So the sum of the outputs over the batch is always the same, and its gradient with
# respect to the input is 0. In ``eval()`` mode this gradient is not 0. No error or warning
# tells you that the model was in the wrong mode:

norm = torch.nn.BatchNorm1d(1)
batch = torch.tensor([[1.0], [2.0], [6.0]], requires_grad=True)
for mode in (norm.train, norm.eval):
    (g,) = torch.autograd.grad(mode()(batch).sum(), batch)
    print(mode.__name__, g.flatten().abs().round(decimals=3))

# %%
# Forward mode does not see ``no_grad``
# -------------------------------------
#
# ``jacrev`` treats a value that was computed under ``no_grad`` as a constant. ``jacfwd``
# ignores ``no_grad``, and differentiates this value like any other. So the two functions
# disagree. If you mean a constant, write ``detach()``, which both functions respect. Here
# is what each of them returns for :math:`x^2` under ``no_grad``, at 3:

constant = torch.no_grad()(lambda x: x**2)
point = torch.tensor(3.0)
print(torch.func.jacrev(constant)(point), torch.func.jacfwd(constant)(point))

# %%
# What protects you
# -----------------
#
# To find a wrong loss, a wrong reduction or a graph that was cut by accident, compute the
# loss that you meant, with plain numbers and without autograd, and compare the gradient
# with the difference quotient of this loss. Of the two gradients that we computed for the
# three samples above, this check accepts only the gradient of the mean over the whole
# batch:


def meant(w):
    return (w * data.double()).mean().item()


slope = (meant(1.001) - meant(0.999)) / 0.002
assert [parts for parts, g in found.items() if abs(g - slope) < 1e-4] == [(3,)]

# %%
# Where next
# ----------
#
# :ref:`contract` lists everything that ``gradient`` accepts and refuses.
# :ref:`gradient-doubled` and :ref:`mixing-samples` are about two more mistakes that raise
# no error. :ref:`in-place` is about edits that bypass the version counter, and
# :ref:`repeated-indices` is about an entry that is written twice.
#
# .. asked: silent mistakes with backward; wrong gradient without an error; common
#    mistakes with v; no error, but a wrong result; pitfalls of autograd; wrong results
#    without an error; check that my gradient code is right
# .. words: wrong without error, checklist, pitfalls, gotchas, review, looks fine, subtle,
#    mistakes, bugs
