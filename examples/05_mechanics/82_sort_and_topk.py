r"""
.. _sort-and-topk:

Do sort, topk and median have a gradient? And their indices?
============================================================

Your loss sorts its inputs or picks the largest of them, and you wonder whether a gradient
can pass through this step. The values have a gradient. Each value is a copy of one entry
of x, so the :term:`Jacobian` has a single 1 in each row, and its transpose carries ``v``
back to the entries that the values came from. The indices have no gradient. They are
integers, and a small change of x either leaves them as they are or makes them jump.
"""

# %%
# ``x`` has shape ``(4,)``, and we take its two largest values. They have shape ``(2,)``,
# and so has ``v``. We print the values, their indices and the gradient:

import torch
from torch.nn import functional as F

x = torch.tensor([5.0, 1.0, 7.0, 3.0], requires_grad=True)
values, indices = x.topk(2)
values.backward(torch.tensor([10.0, 20.0]))
print(values.tolist(), indices.tolist(), x.grad.tolist())

# %%
# The 10 went to the 7, the 20 went to the 5, and the entries that were not chosen got 0. J
# has shape ``(2, 4)``, and each of its rows shows which entry of x a value comes from:

torch.func.jacrev(lambda x: x.topk(2).values)(x.detach())

# %%
# Sorting permutes, the transpose permutes back
# ---------------------------------------------
#
# ``sort`` takes all entries, and J is a permutation matrix P. So :math:`P^\top v` puts
# every entry of ``v`` back in the place where the corresponding entry of x was. Be careful
# with the order: ``v`` is in the order of the *sorted* entries, and the gradient is in the
# order of x:

v = torch.tensor([1.0, 2.0, 3.0, 4.0])
(back,) = torch.autograd.grad(x.sort().values, x, v)
print(x.tolist(), "gets", back.tolist())

# %%
# So you can train with a loss that uses sorted values, such as a distance between the
# samples of two distributions, or the mean of the largest losses. For this you need nothing
# more than ``sort`` or ``topk``.
#
# Here are the gradients of other functions, each with ones for ``v``. If two entries are
# equal, a function that also returns indices, such as ``kthvalue``, or ``median`` with a
# ``dim``, chooses one of these entries. ``median()`` shares the gradient among them
# (:ref:`kinks`):

selections = {
    "median": lambda x: x.median(),
    "quantile, 0.5": lambda x: x.quantile(0.5),
    "kthvalue, second": lambda x: x.kthvalue(2).values,
    "max": lambda x: x.max(0).values,
    "gather": lambda x: x.gather(0, torch.tensor([2, 2, 0])),
    "max_pool1d(3, stride=1)": lambda x: F.max_pool1d(x[None], 3, stride=1)[0],
}
found = {name: torch.autograd.grad(f(x).sum(), x)[0] for name, f in selections.items()}
for name, gradient in found.items():
    print(f"{name:24}{gradient.tolist()}")

# %%
# The ``quantile`` here is the mean of two entries, and each of them gets half. ``gather``
# took the 7 twice, and so the 7 gets the sum of two entries of ``v``. In ``max_pool1d`` the
# 7 also gets 2, because it is the largest entry in both of the overlapping windows.
#
# Cumulative sums and maxima
# --------------------------
#
# The Jacobian of ``cumsum`` is a lower triangle of ones. Its transpose adds up the entries
# of ``v`` from the *other* end, and so the first entry, which is part of every sum, gets
# the most. ``cummax`` repeats an entry until a larger one comes, and the repeated entry
# gets the sum of the entries of ``v`` for all its repeats:

print(torch.autograd.grad(x.cumsum(0), x, v)[0].tolist())
print(torch.autograd.grad(x.cummax(0).values, x, v)[0].tolist())

# %%
# The slope of the last entry of ``cumprod`` with respect to one entry is the product of the
# others. To compute it, PyTorch divides the whole product by that entry of x, but if an
# entry of x is 0, PyTorch multiplies the others. So a zero does no harm, as the second line
# of the output shows. A product that is too small for float32 does cause harm. In the third
# line, the true slopes with respect to the first three entries are 1e-25, but they come out
# as 0:

last = torch.tensor([0.0, 0.0, 0.0, 1.0])
for entries in ([5.0, 1.0, 7.0, 3.0], [5.0, 0.0, 7.0, 3.0], [1e-25, 1e-25, 1e-25, 1e25]):
    at = torch.tensor(entries, requires_grad=True)
    print(torch.autograd.grad(at.cumprod(0), at, last)[0].tolist())

# %%
# The opposite of reading many places is ``scatter``, where many sources go to one place.
# With a sum, each source gets the entry of ``v`` for its place. With a mean, the sources
# share this entry of ``v``, and with a maximum only the largest source gets it:

place, total = torch.tensor([0, 0, 1, 1]), torch.zeros(2)
for how in ("sum", "mean", "amax"):
    y = total.scatter_reduce(0, place, x, how, include_self=False)
    print(f"{how:6}{torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))[0].tolist()}")

# %%
# What goes wrong
# ---------------
#
# *My loss is made of the indices.* The indices are integers, with no graph behind them, and
# so ``backward`` raises an error:

for picked in (x.topk(2).indices, x.argsort(), x.argmax()):
    try:
        picked.float().sum().backward()
    except RuntimeError as error:
        print(picked.requires_grad, str(error).split(" and")[0])

# %%
# The missing gradient is not a gap in PyTorch. The index is a step function of x, and
# wherever a step function has a slope, this slope is 0. You can use a soft choice instead,
# which gets sharper with a smaller τ. *The place of the maximum* can be replaced by a
# weighted mean of all places, which is known as the soft argmax. Each line of the output
# shows this mean and its gradient:

places = torch.arange(4.0)
for tau in (2.0, 0.5, 0.1):
    soft = ((x / tau).softmax(0) * places).sum()
    (g,) = torch.autograd.grad(soft, x)
    print(f"τ = {tau}: {soft.item():.3f} {g.numpy().round(4) + 0.0}")

# %%
# *The rank of each entry* can be replaced by a soft count of the entries below it, with a
# sigmoid for every comparison. If τ is small, the soft argmax and the soft rank come close
# to the index and the rank, but their gradients come close to zero. So choose a τ that is
# about as large as the differences between the entries of x. The output shows the ranks,
# the soft ranks, and the gradient of the last soft rank:


def soft_ranks(x, tau):
    below = ((x[:, None] - x[None]) / tau).sigmoid()
    return below.sum(1) - 0.5  # without the comparison with itself


print(x.argsort().argsort().tolist(), soft_ranks(x, 0.5).detach().numpy().round(2))
torch.autograd.grad(soft_ranks(x, 0.5)[3], x)[0].numpy().round(3)

# %%
# *My mask from topk is a constant.* That is true, but through ``x * mask`` the entries that
# you keep still get a gradient. Only the decision about which entries to keep has no
# gradient. If you want a slope for this decision although the mask is hard, use a
# straight-through estimate. :ref:`discrete-choices` is about the bias of such an estimate.
# Here is the mask without one:

mask = torch.zeros(4).scatter(0, x.topk(2).indices, 1.0)
print(mask.requires_grad, torch.autograd.grad(x * mask, x, v)[0].tolist())

# %%
# As a check, we compare the gradient of each selection with difference quotients along each
# axis, in float64. We also check that the gradient through ``sort`` is the product of ``v``
# and a permutation matrix:

P = F.one_hot(x.argsort(), 4).float()
torch.testing.assert_close(back, P.T @ v)
h, at = 1e-6, x.detach().double()
for name, f in selections.items():
    steps = h * torch.eye(4).double()
    quotient = torch.stack([(f(at + s) - f(at - s)).sum() / (2 * h) for s in steps])
    torch.testing.assert_close(quotient.float(), found[name], msg=name)
L = torch.tril(torch.ones(4, 4))
torch.testing.assert_close(torch.autograd.grad(x.cumsum(0), x, v)[0], v @ L)
assert (soft_ranks(x, 0.1).round() == x.argsort().argsort()).all()

# %%
# Move one entry past another, and see how its 1 jumps to another row:

import pullback

pullback.live(lambda x: x.sort().values, torch.tensor([3.0, 1.0, 2.0]))

# %%
# Where next
# ----------
#
# :ref:`kinks` says which entry gets the gradient at a tie. :ref:`repeated-indices` is about
# an index that occurs twice, and :ref:`discrete-choices` is about choices that are drawn at
# random. If your gradient is all zeros, see :ref:`zeros-and-equal-rows`.
#
# .. asked: gradient of sort; topk differentiable; median gradient; ranking gradient;
#    argsort; indices have no gradient
# .. words: rank, order, median, best k, percentile, spearman, soft sort, quantile, nms
