r"""
.. _loss-as-v:

Weighted, masked and averaged losses as choices of v
====================================================

Some samples of your batch should count more than others. Some are padding and must not
count at all, and you know that three samples of the batch are wrong. So you multiply the
losses by weights or by a mask, and divide by one number or another. Then you wonder why the
result is NaN, or why the weights have no effect. One question sorts all of this out: *what
is* ``v``? Keep the losses of a batch as a vector. Then every way of reducing these losses
to one number is a choice of ``v``, with one entry for each sample, and you can pass this
``v`` to ``backward`` as it is.
"""

# %%
# Five ways to reduce, five v
# ---------------------------
#
# We take four samples, a linear model with two parameters, and a squared error for each
# sample:

import torch

data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
target = torch.tensor([1.0, 2.0, 0.0, 0.0])
w = torch.tensor([1.0, 1.0], requires_grad=True)
losses = (data @ w - target) ** 2
print(losses)

# %%
# Each of the four losses has its own gradient. These gradients are the rows of the
# :term:`Jacobian`, and every reduction adds up these rows, each multiplied by a factor:
#
# .. math::
#
#    \nabla_w\sum_i v_i\ell_i=\sum_i v_i\nabla\ell_i=v^\top J

J = torch.func.jacrev(lambda w: (data @ w - target) ** 2)(w.detach())
print(J)

# %%
# The last sample has the largest gradient. How much of it arrives at ``w`` depends on its
# factor. Here are five common reductions, each next to its ``v``. The ``v`` of the sum
# holds ones, and the ``v`` of the mean holds 1/4 in every entry. The ``v`` of a mask has a
# 0 for each sample that is left out, and the ``v`` of the worst sample alone has a single
# 1:

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
# We compute each gradient twice, once from the reduced loss and once from the vector of
# losses with ``v``. The two gradients must be the same:

for name, (reduced, v) in ways.items():
    (left,) = torch.autograd.grad(reduced, w, retain_graph=True)
    (right,) = torch.autograd.grad(losses, w, v, retain_graph=True)
    print(f"{name:12} {left.numpy().round(3)}")
    torch.testing.assert_close(left, right)
    torch.testing.assert_close(left, v @ J)

# %%
# So in your own program you may write either form. ``losses.backward(v)`` has the advantage
# that a single tensor holds all your decisions, and you can print this tensor.
#
# If you take the mean too early
# ------------------------------
#
# Two common mistakes have the same cause. In the first, somebody takes the mean of the
# losses and then passes five numbers to ``backward``. The mean is a single number, so its
# ``v``, too, must have only one entry. Keep the vector, and put the 1/N into ``v``:

out = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
goal = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
upstream = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0])
try:
    torch.nn.functional.mse_loss(out, goal).backward(upstream)
except RuntimeError as error:
    print(error)
torch.nn.functional.mse_loss(out, goal, reduction="none").backward(upstream / 5)
print(out.grad)

# %%
# In the second, somebody multiplies by the weights after the mean, and the weights have
# no effect. This time there is no error. The single number is multiplied by each weight,
# so all samples are scaled alike, by the mean of the weights, which is 1 here. Ask for
# ``reduction="none"`` first:

share = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0])
for reduction in ("mean", "none"):
    error = torch.nn.functional.mse_loss(out, goal, reduction=reduction)
    print(reduction, torch.autograd.grad((error * share).mean(), out)[0] + 0)

# %%
# The first line of the output is for the mean. In that line, the sample with weight 0 still
# has a gradient of −1.6, and the gradient of the last sample is the same as without any
# weights.
#
# What cross_entropy divides by
# -----------------------------
#
# With class weights, ``cross_entropy`` does not divide by the number of samples. It divides
# by the sum of the weights of the samples in the batch, and a sample whose target is
# ``ignore_index`` has the weight 0. With three samples, of which the last is ignored, ``v``
# is (1, 3, 0)/(1 + 3):

logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
classes, k = torch.tensor([0, 1, -100]), torch.tensor([1.0, 3.0])
entropy = torch.nn.functional.cross_entropy
each = entropy(logits, classes, reduction="none")
v = torch.tensor([1.0, 3.0, 0.0]) / (1 + 3)
(left,) = torch.autograd.grad(entropy(logits, classes, k), logits)
(right,) = torch.autograd.grad(each, logits, v)
print(torch.allclose(left, right))

# %%
# If the targets are probabilities instead of indices, ``cross_entropy`` does divide by
# the number of samples. Here is the divisor for three targets of the classes 0, 1 and 1.
# The first line is for indices, where the divisor is 1 + 3 + 3, and the second is for
# probabilities:

hard = torch.tensor([0, 1, 1])
for t in (hard, torch.nn.functional.one_hot(hard).float()):
    print(f"{entropy(logits, t, k, reduction='sum') / entropy(logits, t, k):.1f}")

# %%
# A v that finds the outliers by itself
# -------------------------------------
#
# So far we knew the weights beforehand. The weights can also come from the losses. We fit a
# line to twenty points, of which three are wrong, and nobody tells us which. In each step a
# function ``weigh``, which we pass to ``fit``, chooses ``v`` from the errors:

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
# Note the ``detach``. The weights are computed from the errors, but they must not be
# differentiated. What happens if each point gets the weight :math:`1/\lvert r_i\rvert`,
# so that a large error counts less?

flat, robust = fit(torch.ones_like), fit(lambda r: 1 / r.abs().clamp(min=0.02))

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(x, y, "o")
ax.plot(x, flat[0] + flat[1] * x, label="v = 1")
ax.plot(x, robust[0] + robust[1] * x, "--", label="v = 1/|r|")
ax.legend()
title = ax.set_title("Ones are pulled away by three outliers, 1/|r| is not")

# %%
# The three wrong points pull down the line that was fitted with ones, and the other line
# comes close to the true line, :math:`1+2x`. The gradient of a square :math:`r^2` is
# :math:`2r`. Multiplied by :math:`1/\lvert r\rvert`, it has the same absolute value at
# every point that is off by more than 0.02. So a distant point pulls no harder than a near
# one, as with absolute errors (:ref:`what-losses-send`).
#
# What to watch for
# -----------------
#
# **A mask does not remove a NaN.** If missing targets are stored as NaN, their losses are
# NaN, and 0 times NaN is NaN. With ``nansum`` the loss looks fine and the gradient is still
# NaN. A 0 in ``v`` does not help either. Choose the rows *before* you compute. The first
# three numbers of the output are three gradients: with a mask in ``v``, with ``nansum``,
# and with only the rows that we keep. The fourth number is a mean over a mask that keeps
# nothing, which is 0/0. For the last number, we raise the divisor of this mean to at least
# 1:

bad, none = torch.tensor([1.0, float("nan"), 4.0]), torch.zeros(3)
keep = ~bad.isnan()
scale = torch.tensor(1.0, requires_grad=True)
masked = torch.autograd.grad(scale * bad, scale, keep.float())[0]
summed = torch.autograd.grad((scale * bad).nansum(), scale)[0]
chosen = torch.autograd.grad(scale * bad[keep], scale, torch.ones(2))[0]
print(masked, summed, chosen, none.sum() / none.sum(), none.sum() / none.sum().clamp(min=1))

# %%
# **The mean of batch means** is not the mean of all samples, if the batches differ in
# size. The samples of a small batch count more. So weight each batch by its share of the
# samples. Here are the mean of the means, the weighted mean of the means, and the mean of
# all samples:

batches = [losses[:1], losses[1:]]
wrong = torch.stack([b.mean() for b in batches]).mean()
whole = torch.stack([b.mean() * len(b) / 4 for b in batches]).sum()
print(f"{wrong:.3f} {whole:.3f} {losses.mean():.3f}")

# %%
# .. admonition:: Try it
#
#    You have four samples and trust the first twice as much as each of the others. If all
#    four gradients were equal, the step should be as long as with the mean. Which ``v`` is
#    that?
#
# .. dropdown:: Answer
#
#    It holds the weights (2, 1, 1, 1), divided by their sum, so that they add up to 1
#    like the weights of the mean:

v = torch.tensor([2.0, 1.0, 1.0, 1.0])
(trusted,) = torch.autograd.grad(losses, w, v / v.sum(), retain_graph=True)
print([round(g, 1) for g in trusted.tolist()])

# %%
# .. dropdown:: How we checked this page
#
#    The loop above compares all five reductions with ``v`` and with the rows of the
#    Jacobian. The assertions below check the mean of the batches, the class weights, the
#    fitted line and the answer.

torch.testing.assert_close((whole, left), (losses.mean(), right))
torch.testing.assert_close(robust, truth := torch.tensor([1.0, 2.0]), rtol=0, atol=0.1)
assert (flat - truth).abs().max() > 0.5
torch.testing.assert_close(trusted, (2 * J[0] + J[1:].sum(0)) / 5)
torch.testing.assert_close(out.grad, 2 * (out.detach() - goal) * upstream / 5)

# %%
# **Next:** To give each pixel a weight, and see what this does to a network, read
# :ref:`weighting-pixels`. To give weights to several losses, read :ref:`several-losses`.
# For the NaN in detail, read :ref:`masked-nan`. :ref:`v-is-a-weight` explains what a number
# in ``v`` means.
#
# .. asked: weighted loss; sample weights; reduction none; masked loss; loss per sample
#    and backward; mean and sum of losses; vector of losses to backward; class weights;
#    weight of each sample; samples with different importance; some samples count more;
#    average of the losses; leave out bad samples; class imbalance
# .. words: imbalance, rare class, importance, confidence, outliers, weight each row,
#    curriculum, focal, noisy labels, average only the valid, sample_weight in Keras,
#    positive weight
