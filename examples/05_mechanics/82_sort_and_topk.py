r"""
.. _sort-and-topk:

Do sort, topk and median have a gradient? And their indices?
============================================================

Your loss sorts its inputs or picks the largest of them, and you wonder whether a gradient
can pass. The values have one. Each of them is a copy of one entry of x, so the
:term:`Jacobian` has a single 1 in each row, and its transpose carries ``v`` back to where
the values came from. The indices have none. They are integers, and a small change of x does
not change them until they jump.
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
# The 10 went to the 7, the 20 went to the 5, and the entries that were not chosen got 0.
# Each row of J, which has shape ``(2, 4)``, says where its value comes from:

torch.func.jacrev(lambda x: x.topk(2).values)(x.detach())

# %%
# Sorting permutes, the transpose permutes back
# ---------------------------------------------
#
# ``sort`` takes all entries, and J is a permutation matrix P. So :math:`P^\top v` puts
# every weight back in the place where its entry was. Be careful with the order: ``v`` is
# in the order of the *sorted* entries, and the gradient is in the order of x:

v = torch.tensor([1.0, 2.0, 3.0, 4.0])
(back,) = torch.autograd.grad(x.sort().values, x, v)
print(x.tolist(), "gets", back.tolist())

# %%
# So you can train on a loss of sorted values, such as a distance between two samples of a
# distribution, or the mean of the worst losses. You need nothing more than ``sort`` or
# ``topk``.
#
# Here is what other functions do, each with ones for ``v``. If two entries are equal, a
# function that also gives indices chooses one of them. Examples are ``kthvalue``, and
# ``median`` with a ``dim``. ``median()`` shares the gradient among them (:ref:`kinks`):

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
# ``quantile`` is the mean of two entries here, and each gets half. ``gather`` took the 7
# twice, and so the 7 gets the sum of both weights. It also gets two in ``max_pool1d``,
# because it is the largest entry in both of the overlapping windows.
#
# Cumulative sums and maxima
# --------------------------
#
# The Jacobian of ``cumsum`` is a lower triangle of ones. Its transpose adds up from the
# *other* end, and so the first entry, which is part of every sum, gets the most.
# ``cummax`` repeats an entry until a larger one comes, and this entry gets the weights of
# all its repeats:

print(torch.autograd.grad(x.cumsum(0), x, v)[0].tolist())
print(torch.autograd.grad(x.cummax(0).values, x, v)[0].tolist())

# %%
# The slope of the last entry of ``cumprod`` with respect to one entry is the product of
# the others. PyTorch divides the whole product by x, and if an entry is 0 it multiplies
# the others. So a zero does no harm, as the second line shows. A product that is too
# small for float32 does. In the third line, the true slopes of 1e-25 are lost:

last = torch.tensor([0.0, 0.0, 0.0, 1.0])
for entries in ([5.0, 1.0, 7.0, 3.0], [5.0, 0.0, 7.0, 3.0], [1e-25, 1e-25, 1e-25, 1e25]):
    at = torch.tensor(entries, requires_grad=True)
    print(torch.autograd.grad(at.cumprod(0), at, last)[0].tolist())

# %%
# The opposite of reading many places is ``scatter``, where many sources go to one place.
# With a sum, each source gets the weight of its place. With a mean, the sources share this
# weight, and with a maximum only the largest source gets it:

place, total = torch.tensor([0, 0, 1, 1]), torch.zeros(2)
for how in ("sum", "mean", "amax"):
    y = total.scatter_reduce(0, place, x, how, include_self=False)
    print(f"{how:6}{torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))[0].tolist()}")

# %%
# What goes wrong
# ---------------
#
# *My loss is made of the indices.* The indices are integers, with no graph behind them, and
# PyTorch refuses:

for picked in (x.topk(2).indices, x.argsort(), x.argmax()):
    try:
        picked.float().sum().backward()
    except RuntimeError as error:
        print(picked.requires_grad, str(error).split(" and")[0])

# %%
# The missing gradient is not a gap in PyTorch. The index is a step function of x, and
# wherever such a function has a slope, it is 0. You can use a soft choice instead, which
# gets sharper with a smaller τ. *The place of the maximum* can be replaced by a weighted
# mean of all places, known as the soft argmax. Each line shows this mean and its gradient:

places = torch.arange(4.0)
for tau in (2.0, 0.5, 0.1):
    soft = ((x / tau).softmax(0) * places).sum()
    (g,) = torch.autograd.grad(soft, x)
    print(f"τ = {tau}: {soft.item():.3f} {g.numpy().round(4) + 0.0}")

# %%
# *The rank of each entry* can be replaced by a soft count of the entries below it, with a
# sigmoid for every comparison. If τ is small, both of these come close to the index, and
# their gradients come close to zero. So choose a τ that is about as large as the
# differences in x:


def soft_ranks(x, tau):
    below = ((x[:, None] - x[None]) / tau).sigmoid()
    return below.sum(1) - 0.5  # without the comparison with itself


print(x.argsort().argsort().tolist(), soft_ranks(x, 0.5).detach().numpy().round(2))
torch.autograd.grad(soft_ranks(x, 0.5)[3], x)[0].numpy().round(3)

# %%
# *My mask from topk is a constant.* That is true, but ``x * mask`` still has the gradient
# of the entries that you keep. Only the decision which of them to keep has none. If you
# want a slope for this decision and still a hard mask, use a straight-through estimate, and
# see :ref:`discrete-choices` for its bias:

mask = torch.zeros(4).scatter(0, x.topk(2).indices, 1.0)
print(mask.requires_grad, torch.autograd.grad(x * mask, x, v)[0].tolist())

# %%
# As a check, we compare each selection with difference quotients along each axis, in
# float64. The product through ``sort`` is compared with a permutation matrix that is
# written out:

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
# Here you can move one entry past another, and see its 1 jump to another row:

import pullback

pullback.live(lambda x: x.sort().values, torch.tensor([3.0, 1.0, 2.0]))

# %%
# Where next
# ----------
#
# :ref:`kinks` says which entry gets the gradient at a tie, :ref:`repeated-indices` is
# about the same index twice, and :ref:`discrete-choices` about choices that are drawn at
# random. If your gradient is all zeros, see :ref:`zeros-and-equal-rows`.
#
# .. asked: gradient of sort; topk differentiable; median gradient; ranking gradient;
#    argsort; indices have no gradient
# .. words: rank, order, median, best k, percentile, spearman, soft sort, quantile, nms
