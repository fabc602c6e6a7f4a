r"""
.. _sort-and-topk:

Do sort, topk and median have a gradient? And their indices?
============================================================

The values do: each is a copy of one entry of x, so the :term:`Jacobian` has a single 1 in
each row, and its transpose carries ``v`` back to where the values came from. The indices
are integers and have none; a step sideways does not change them until they jump.
"""

# %%
# ``x`` has shape ``(4,)``, the two largest values shape ``(2,)``, and so has ``v``. J has
# shape ``(2, 4)``:

import torch
from torch.nn import functional as F

x = torch.tensor([5.0, 1.0, 7.0, 3.0], requires_grad=True)
values, indices = x.topk(2)
values.backward(torch.tensor([10.0, 20.0]))
print(values.tolist(), indices.tolist(), x.grad.tolist())

# %%
# The 10 went to the 7, the 20 to the 5, and 0 to those that were not chosen. A row of J
# says where its value comes from:

torch.func.jacrev(lambda x: x.topk(2).values)(x.detach())

# %%
# Sorting permutes, the transpose permutes back
# ---------------------------------------------
#
# ``sort`` takes all entries: J is a permutation matrix P, and :math:`P^\top v` puts every
# weight back in the place where its entry was. ``v`` is in the order of the *sorted*
# entries, the gradient in that of x:

v = torch.tensor([1.0, 2.0, 3.0, 4.0])
(back,) = torch.autograd.grad(x.sort().values, x, v)
print(x.tolist(), "gets", back.tolist())

# %%
# So a loss on sorted values, such as a distance between two samples of a distribution, or
# the mean of the worst losses, needs no more than ``sort`` or ``topk``. What others do,
# each with ones. Between equal entries whatever gives indices, as ``kthvalue`` does and
# ``median`` with a ``dim``, chooses one; ``median()`` shares (:ref:`kinks`):

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
# ``quantile`` is made of two entries, half of each. ``gather`` took the 7 twice and gets
# the sum of both weights, as does the 7 which is the largest in both overlapping windows.
#
# Cumulative sums and maxima
# --------------------------
#
# ``cumsum`` is a lower triangle of ones. Its transpose adds from the *other* end, so the
# first entry, part of every sum, gets the most. ``cummax`` repeats an entry until a larger
# one comes, and the weights of the repeats add up in it:

print(torch.autograd.grad(x.cumsum(0), x, v)[0].tolist())
print(torch.autograd.grad(x.cummax(0).values, x, v)[0].tolist())

# %%
# The last entry of ``cumprod`` has the product of the others as its slope. PyTorch divides
# by x, and where an entry is 0 it multiplies the others. So a zero does no harm; a product
# too small for float32 does, and the true slopes of 1e-25 are lost:

last = torch.tensor([0.0, 0.0, 0.0, 1.0])
for entries in ([5.0, 1.0, 7.0, 3.0], [5.0, 0.0, 7.0, 3.0], [1e-25, 1e-25, 1e-25, 1e25]):
    at = torch.tensor(entries, requires_grad=True)
    print(torch.autograd.grad(at.cumprod(0), at, last)[0].tolist())

# %%
# The other way, many sources to one place, is ``scatter``: the sum sends each source the
# weight of its place, the maximum only the largest:

place, total = torch.tensor([0, 0, 1, 1]), torch.zeros(2)
for how in ("sum", "mean", "amax"):
    y = total.scatter_reduce(0, place, x, how, include_self=False)
    print(f"{how:6}{torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))[0].tolist()}")

# %%
# What goes wrong
# ---------------
#
# *A loss made of the indices.* They are integers, with no graph behind them:

for picked in (x.topk(2).indices, x.argsort(), x.argmax()):
    try:
        picked.float().sum().backward()
    except RuntimeError as error:
        print(picked.requires_grad, str(error).split(" and")[0])

# %%
# That is no gap in PyTorch: the index is a step function of x, whose slope is 0 wherever it
# has one. What you can have is a soft choice, sharper with a smaller τ. *The place of the
# maximum* as a mean of places (soft argmax):

places = torch.arange(4.0)
for tau in (2.0, 0.5, 0.1):
    soft = ((x / tau).softmax(0) * places).sum()
    (g,) = torch.autograd.grad(soft, x)
    print(f"τ = {tau}: {soft.item():.3f} {g.numpy().round(4) + 0.0}")

# %%
# *The rank of each entry* as a count of those below it, every comparison a sigmoid. For a
# small τ both come close to the index and the gradient to zero: choose τ of the size of the
# differences in x.


def soft_ranks(x, tau):
    below = ((x[:, None] - x[None]) / tau).sigmoid()
    return below.sum(1) - 0.5  # the comparison with itself


print(x.argsort().argsort().tolist(), soft_ranks(x, 0.5).detach().numpy().round(2))
torch.autograd.grad(soft_ranks(x, 0.5)[3], x)[0].numpy().round(3)

# %%
# *My mask from topk is a constant.* ``x * mask`` still has the gradient of the kept
# entries; what has none is the decision which to keep. To give that one a slope, and the
# hard mask all the same, go straight through (:ref:`discrete-choices`, with its bias):

mask = torch.zeros(4).scatter(0, x.topk(2).indices, 1.0)
print(mask.requires_grad, torch.autograd.grad(x * mask, x, v)[0].tolist())

# %%
# The check: each selection along each axis by difference quotients, in float64; the sorted
# product against a permutation matrix written out:

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
# Move an entry past another, and its 1 moves to another row:

import pullback

pullback.live(lambda x: x.sort().values, torch.tensor([3.0, 1.0, 2.0]))

# %%
# Where next
# ----------
#
# Which entry at a tie: :ref:`kinks`. The same index twice: :ref:`repeated-indices`. Choices
# that are drawn at random: :ref:`discrete-choices`. Zeros: :ref:`zeros-and-equal-rows`.
#
# .. asked: gradient of sort; topk differentiable; median gradient; ranking gradient;
#    argsort; indices have no gradient
#
# .. words: rank, order, median, best k, percentile, spearman, soft sort, quantile, nms
