r"""
.. _loss-as-v:

Weighted, masked and averaged losses as choices of v
====================================================

Keep the losses of a batch as a vector and every way of reducing them is a choice of
``v``: ones for the sum, 1/N for the mean, the weights for a weighted sum, zeros for what
is masked.
"""

# %%
# With N losses :math:`\ell=(\ell_1,\dots,\ell_N)` of the parameters ``w`` (shape ``(n,)``),
# the :term:`Jacobian` is N×n and every reduction below is one :math:`v^\top J`:
#
# .. math::
#
#    \nabla_w\sum_i v_i\ell_i=\sum_i v_i\nabla\ell_i=v^\top J
#
# Four samples, a linear model, squared errors of shape ``(4,)``:

import torch

data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
target = torch.tensor([1.0, 2.0, 0.0, 0.0])
w = torch.tensor([1.0, 1.0], requires_grad=True)
losses = (data @ w - target) ** 2
losses

# %%
# The rows of J, which the choices below combine:

J = torch.func.jacrev(lambda w: (data @ w - target) ** 2)(w.detach())
J

# %%
# Each reduction beside its ``v``:

mask = torch.tensor([1.0, 1.0, 0.0, 1.0])
weight = torch.tensor([0.1, 0.2, 0.3, 0.4])
ways = {
    "sum": (losses.sum(), torch.ones(4)),
    "mean": (losses.mean(), torch.ones(4) / 4),
    "masked mean": ((losses * mask).sum() / mask.sum(), mask / mask.sum()),
    "weighted": ((losses * weight).sum(), weight),
    "worst only": (losses.max(), torch.nn.functional.one_hot(losses.argmax(), 4).float()),
}

# %%
# Left the reduced loss, right the same vector of losses with ``v``:

for name, (reduced, v) in ways.items():
    (left,) = torch.autograd.grad(reduced, w, retain_graph=True)
    (right,) = torch.autograd.grad(losses, w, v, retain_graph=True)
    print(f"{name:12} {left.numpy().round(3)}")
    torch.testing.assert_close(left, right)
    torch.testing.assert_close(left, v @ J)

# %%
# *backward(tensor([2, 3, 4, 5, 6])) on a mean loss fails.* The mean has one element, so
# its ``v`` has shape ``()``. Keep the vector, put the 1/N into ``v``:

out = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
goal = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
v = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0])
try:
    torch.nn.functional.mse_loss(out, goal).backward(v)
except RuntimeError as error:
    print(error)
torch.nn.functional.mse_loss(out, goal, reduction="none").backward(v / 5)
out.grad

# %%
# What goes wrong
# ---------------
#
# A mask that multiplies cannot remove a NaN, since :math:`0\cdot\text{NaN}` is NaN:
# *my masked loss is NaN*. ``v = 0`` for that loss does not help either; choose the rows
# before computing:

bad = torch.tensor([1.0, float("nan"), 4.0])
keep = ~bad.isnan()
scale = torch.tensor(1.0, requires_grad=True)
masked = torch.autograd.grad(scale * bad, scale, keep.float())[0]
chosen = torch.autograd.grad(scale * bad[keep], scale, torch.ones(2))[0]
print(masked, chosen)

# %%
# The mean of batch means is not the mean of all samples if the batches differ in size.
# Weigh each batch by its share:

batches = [losses[:1], losses[1:]]
wrong = torch.stack([b.mean() for b in batches]).mean()
right = torch.stack([b.mean() * len(b) / 4 for b in batches]).sum()
print(f"{wrong:.3f} {right:.3f} {losses.mean():.3f}")

# %%
# The check is in the loop above, for all five; and here for the last two cells:

torch.testing.assert_close(right, losses.mean())
assert masked.isnan()
assert chosen == 1 + 4
torch.testing.assert_close(out.grad, 2 * (out.detach() - goal) * v / 5)

# %%
# Where next
# ----------
#
# Several losses with weights: :ref:`several-losses`. NaN in detail: :ref:`masked-nan`.
# What a number in ``v`` means: :ref:`v-is-a-weight`.
