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
upstream = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0])
try:
    torch.nn.functional.mse_loss(out, goal).backward(upstream)
except RuntimeError as error:
    print(error)
torch.nn.functional.mse_loss(out, goal, reduction="none").backward(upstream / 5)
out.grad

# %%
# *Cross-entropy with class weights: what is the mean?* Not Σ/N: PyTorch divides by the sum
# of the weights that were used, and a target of ``ignore_index`` has the weight 0. (Σ/N it
# is where targets are probabilities: below, what the sum is divided by, 1 + 3 + 3 and 3.)

logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
classes, k = torch.tensor([0, 1, -100]), torch.tensor([1.0, 3.0])
entropy = torch.nn.functional.cross_entropy
each = entropy(logits, classes, reduction="none")
v = torch.tensor([1.0, 3.0, 0.0]) / (1 + 3)
(left,) = torch.autograd.grad(entropy(logits, classes, k), logits)
(right,) = torch.autograd.grad(each, logits, v)
print(torch.allclose(left, right))
hard = torch.tensor([0, 1, 1])
for t in (hard, torch.nn.functional.one_hot(hard).float()):
    print(f"{entropy(logits, t, k, reduction='sum') / entropy(logits, t, k):.1f}")

# %%
# An outlier, and the v that removes it
# -------------------------------------
#
# A line through twenty points, three of them wrong:

torch.manual_seed(0)  # the same points on every build
x = torch.linspace(0, 1, 20)
y = 1 + 2 * x + 0.05 * torch.randn(20)
y[15:18] -= 3


def fit(weigh):
    line = torch.zeros(2, requires_grad=True)
    for _ in range(800):
        r = line[0] + line[1] * x - y
        v = weigh(r.detach())
        (g,) = torch.autograd.grad(r**2, line, v / v.sum())
        line = (line - 0.3 * g).detach().requires_grad_()
    return line.detach()


# %%
# With :math:`v_i=1/\lvert r_i\rvert`, taken anew in every step and detached, the square
# pulls like an absolute value: a point far away no harder than a near one.

flat, robust = fit(torch.ones_like), fit(lambda r: 1 / r.abs().clamp(min=0.02))

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(x, y, "o")
ax.plot(x, flat[0] + flat[1] * x, label="v = 1")
ax.plot(x, robust[0] + robust[1] * x, "--", label="v = 1/|r|")
ax.legend()
title = ax.set_title("Ones are pulled away by three outliers, 1/|r| is not")

# %%
# What goes wrong
# ---------------
#
# A mask that multiplies cannot remove a NaN, since :math:`0\cdot\text{NaN}` is NaN:
# *my masked loss is NaN*, or only its gradient, as by ``nansum``, where targets are stored
# as NaN. ``v = 0`` for that loss does not help either; choose the rows before computing.
# And a mean over a mask that keeps nothing is 0/0; divide by at least 1:

bad, none = torch.tensor([1.0, float("nan"), 4.0]), torch.zeros(3)
keep = ~bad.isnan()
scale = torch.tensor(1.0, requires_grad=True)
masked = torch.autograd.grad(scale * bad, scale, keep.float())[0]
summed = torch.autograd.grad((scale * bad).nansum(), scale)[0]
chosen = torch.autograd.grad(scale * bad[keep], scale, torch.ones(2))[0]
print(masked, summed, chosen, none.sum() / none.sum(), none.sum() / none.sum().clamp(min=1))

# %%
# *My sample weights do nothing.* A criterion that takes its mean, the default, returns one
# number: weights after it scale the whole gradient. Ask for ``reduction="none"`` first:

share = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0])
for reduction in ("mean", "none"):
    error = torch.nn.functional.mse_loss(out, goal, reduction=reduction)
    print(reduction, torch.autograd.grad((error * share).mean(), out)[0] + 0)

# %%
# The mean of batch means is not the mean of all samples if the batches differ in size.
# Weigh each batch by its share:

batches = [losses[:1], losses[1:]]
wrong = torch.stack([b.mean() for b in batches]).mean()
whole = torch.stack([b.mean() * len(b) / 4 for b in batches]).sum()
print(f"{wrong:.3f} {whole:.3f} {losses.mean():.3f}")

# %%
# The check is in the loop above, for all five; and here for the other cells:

torch.testing.assert_close((whole, left), (losses.mean(), right))
torch.testing.assert_close(robust, truth := torch.tensor([1.0, 2.0]), rtol=0, atol=0.1)
assert (flat - truth).abs().max() > 0.5
torch.testing.assert_close(out.grad, 2 * (out.detach() - goal) * upstream / 5)

# %%
# Where next
# ----------
#
# Several losses with weights: :ref:`several-losses`. NaN in detail: :ref:`masked-nan`.
# What a number in ``v`` means: :ref:`v-is-a-weight`.
#
# .. asked: weighted loss; sample weights; reduction none; masked loss; loss per sample
#    and backward; mean and sum of losses; vector of losses to backward; class weights;
#    weight of each sample; samples with different importance; some samples count more;
#    average of the losses; leave out bad samples; class imbalance
