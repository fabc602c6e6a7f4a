r"""
.. _the-v-you-choose:

The v you choose: weights, masks and means
==========================================

A network estimates for every pixel of an image how far away things are. It is bad at the
edges of things, where it matters most, and at some pixels nobody has measured the distance.
You want the pixels at an edge to count three times as much, and those without a measurement
not at all. A single tensor can say all of this. And whenever you have taken the mean of
some losses, you have chosen such a tensor without knowing it.
"""

# %%
# A loss for each pixel
# ---------------------
#
# Here is a very small image, two rows of three pixels, with distances in metres. The loss
# of a pixel is the square of its error, so that we get one number for each pixel:

import torch

estimate = torch.tensor([[2.0, 5.0, 4.0], [2.0, 2.0, 9.0]], requires_grad=True)
measured = torch.tensor([[3.0, 3.0, 3.0], [3.0, 5.0, 0.0]])
losses = (estimate - measured) ** 2
losses

# %%
# At the last pixel nobody has measured. The 0 that stands there is only a placeholder, and
# so the 81 means nothing. A mask has a 1 at each of the five other pixels, and a 0 here.
#
# .. predict::
#    :for: the number
#
#    Somebody multiplies the losses by the mask and takes the mean, to get the mean of the
#    five measured losses. Which number do they get?

mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
(mask * losses).mean()

# %%
# The five losses add up to 16, so their mean is 3.2. The mask has made the last loss zero,
# but ``mean()`` still counts it, and divides by six.
#
# The v inside a loss
# -------------------
#
# What does this do to the gradients? Whatever you do to a tensor of losses before you call
# ``backward``, in the end each of them has been given a weight. This is the ``v`` that
# arrives at ``losses``, and ``torch.autograd.grad`` can show it, because it works for any
# tensor on the way:
#
# .. predict::
#    :for: v
#
#    ``losses[mask > 0].mean()`` is 3.2, the number that was wanted. Which ``v`` does its
#    ``backward()`` send to the six losses?

(v,) = torch.autograd.grad(losses[mask > 0].mean(), losses)
v

# %%
# The mask has left five pixels, and each of them counts a fifth. And this is the ``v`` of
# the mean from above:

(v,) = torch.autograd.grad((mask * losses).mean(), losses)
v

# %%
# Here each of the five counts only a sixth, so the loss and every gradient are 5/6 of what
# they should be. If it were 5/6 for every image, the learning rate could make up for it.
# But the next image has another number of measured pixels, and so another factor. An image
# with few measured pixels hardly counts.
#
# Here is the ``v`` of some usual calls:
#
# =======================================  ================================================
# what you call                            the ``v`` that arrives at ``losses``
# =======================================  ================================================
# ``losses.sum().backward()``              1 everywhere
# ``losses.mean().backward()``             1/6 everywhere, since there are six losses
# ``losses[mask > 0].sum().backward()``    1 where ``mask`` is 1, 0 elsewhere
# ``losses[mask > 0].mean().backward()``   one over the number of kept losses, 0 elsewhere
# ``losses.max().backward()``              1 at the largest, 0 elsewhere
# =======================================  ================================================
#
# So when you meet a new way to combine losses, ask which ``v`` it sends to them. It tells
# you which of them count, and how much.
#
# .. dropdown:: And if two losses are the largest?
#
#    Then ``max()`` gives each of them the weight 1/2.
#
# .. dropdown:: Two walks, and no ``retain_graph``?
#
#    Each of the two numbers has a graph of its own down to ``losses``, and the walk ends
#    there. So no part of a graph was walked twice.
#
# Three times for the edge
# ------------------------
#
# Now the edge. Suppose that it runs through the middle column. We write into a tensor how
# much each pixel should count, and pass it as ``v``. Beside it, for comparison, every pixel
# counts once:

weight = torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 0.0]])
losses.backward(weight, retain_graph=True)
weighted = estimate.grad
(plain,) = torch.autograd.grad(losses, estimate, torch.ones(2, 3), retain_graph=True)

import pullback

pixels = ["top 1", "top 2", "top 3", "bottom 1", "bottom 2", "bottom 3"]
both = {"every pixel counts 1": plain.flatten(), "v = weight": weighted.flatten()}
pullback.draw.bars(both, names=pixels)

# %%
# With ones, the last pixel would pull harder than all others, and nobody has measured
# there. With the weights it is silent, and the two pixels at the edge pull three times as
# hard.
#
# In a real network all pixels share the parameters of the earlier layers. There the
# gradient is a sum over the losses of the pixels, in which the edge counts three times and
# the pixel without a measurement not at all. (If the layers include a BatchNorm in training
# mode, the image at that pixel still has an influence on the estimates at the others.)
#
# Perhaps you would have multiplied the losses by the weights and added them up. This is the
# same, and by now you can say why: the gradient of the sum of ``weight * losses``, with
# respect to ``losses``, is ``weight``. So this is the ``v`` that arrives there:

total = (weight * losses).sum()
(by_formula,) = torch.autograd.grad(total, estimate, retain_graph=True)
torch.equal(by_formula, weighted)

# %%
# Most training loops have the formula, because then the loss is a number that can be
# printed.
#
# Here are the three pixels at the top. Move an estimate until it is right, which is at 3.
# What becomes of its gradient, even where the weight is 3?


def top_losses(estimate):
    return (estimate - measured[0]) ** 2


estimates = ["estimate 1", "estimate 2", "estimate 3"]
top = estimate.detach()[0]
pullback.live(top_losses, top, weight[0], rows=pixels[:3], columns=estimates)

# %%
# .. dropdown:: At 3
#
#    It is zero, because the slope of the square is zero there, and three times zero is
#    zero.
#
# .. dropdown:: And when the network answers yes or no?
#
#    A network that says for each pixel whether it is road gives it a *logit*: positive for
#    yes, negative for no. ``binary_cross_entropy_with_logits`` with ``reduction="none"``
#    returns one loss for each pixel, and all of this page holds for them. With the weight 1
#    a pixel sends back the probability that the network gives to "yes", less the target.
#    The logit 2, for example, is a probability of 0.88. If the target is 1, this makes
#    −0.12. A pixel that is right and certain sends back almost nothing, even with the
#    weight 3.
#
# .. dropdown:: Why not mark the missing measurements with NaN?
#
#    Because 0 times NaN is NaN, so a weight of 0 could not remove it. Neither can it remove
#    an infinite gradient (:ref:`masked-nan`). Use a finite number that the loss
#    accepts, as we did with the 0 at the last pixel.
#
# .. dropdown:: When the weights themselves come from the network
#
#    Then ``losses.backward(weight)`` and the formula differ. ``backward`` takes the prices
#    as given, and the formula differentiates the weights as well, unless you detach them.
#    :ref:`v-depends-on-x` shows both. And if the two have different shapes, ``backward``
#    refuses, while the formula may broadcast them, which is not always what you meant.
#
# .. dropdown:: When you keep a v and use it again
#
#    Weights like ours are made once and passed in every step. Where the numbers of ``x``
#    are only rearranged, joined or shifted on the way to ``y``, as in ``x.view(6)``,
#    PyTorch may put your ``v`` itself into ``x.grad`` instead of a copy. Whatever changes
#    ``x.grad`` then changes your ``v``. To be safe, pass ``v.clone()``.
#    :ref:`what-becomes-of-v` has the details.
#
# .. admonition:: Remember
#
#    - ``v`` says how much each output counts: 3 counts it three times, and 0 leaves it out,
#      as long as its gradient is finite.
#    - ``losses.backward(weight)`` and ``(weight * losses).sum().backward()`` are the same,
#      if the two have the same shape, and the weight does not depend on what you
#      differentiate.
#    - A mean over a mask divides by the number of *kept* entries.
#
# .. predict:: Try it
#    :for: v
#
#    In a batch of four samples the first belongs to a rare class that should count five
#    times as much as the others, and you want a weighted mean, so that the
#    weights add up to 1. Which ``v`` do you pass for ``losses`` of the shape ``(4,)``?
#
# .. dropdown:: Answer
#
#    ``[5/8, 1/8, 1/8, 1/8]``, because the counts 5, 1, 1 and 1 add up to 8.

counts = torch.tensor([5.0, 1.0, 1.0, 1.0])
counts / counts.sum()

# %%
# .. dropdown:: How we checked this page
#
#    The weighted gradient is compared with the formula for this loss, written out, and each
#    row of the table of usual weights with the ``v`` that arrives.

exact = 2 * (estimate - measured).detach()
torch.testing.assert_close(plain, exact)
torch.testing.assert_close(weighted, weight * exact)
at_three = torch.full((3,), 3.0, requires_grad=True)
top_losses(at_three).backward(weight[0])
assert at_three.grad.tolist() == [0, 0, 0]
torch.testing.assert_close(losses[mask > 0].mean().item(), 3.2)

largest = torch.zeros(6)
largest[losses.flatten().argmax()] = 1.0
expected = {
    losses.sum(): torch.ones(2, 3),
    losses.mean(): torch.full((2, 3), 1 / 6),
    losses[mask > 0].sum(): mask,
    losses[mask > 0].mean(): mask / mask.sum(),
    losses.max(): largest.reshape(2, 3),
    (mask * losses).mean(): mask / 6,
    (weight * losses).sum(): weight,
}
for number, arrives in expected.items():
    (v,) = torch.autograd.grad(number, losses, retain_graph=True)
    torch.testing.assert_close(v, arrives)

logits = torch.tensor([[2.0, -1.0, 0.5], [1.0, 0.0, 9.0]], requires_grad=True)
road = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
loss = torch.nn.functional.binary_cross_entropy_with_logits
(sent,) = torch.autograd.grad(loss(logits, road, reduction="none"), logits, weight + 1)
torch.testing.assert_close(sent, ((weight + 1) * (logits.sigmoid() - road)).detach())
assert round(logits.sigmoid()[0, 0].item(), 2) == 0.88
assert sent[1, 2].abs() < 0.001

tied = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
assert torch.autograd.grad(tied.max(), tied)[0].tolist() == [0, 0.5, 0.5]

norm = torch.nn.BatchNorm1d(1)
for mode in (False, True):
    norm.train(mode)
    seen = torch.tensor([[1.0], [2.0], [5.0]])
    at_two = torch.tensor([[1.0], [1.0], [0.0]])
    moved = seen + 4 * (1 - at_two)
    first, second = (
        torch.autograd.grad((norm(s) - 1) ** 2, norm.weight, at_two)[0]
        for s in (seen, moved)
    )
    assert torch.equal(first, second) != mode

x, kept = torch.zeros(2, 3, requires_grad=True), torch.ones(6)
for _ in range(2):
    x.view(6).backward(kept.clone())
assert torch.equal(kept, torch.ones(6))
assert torch.equal(x.grad, torch.full((2, 3), 2.0))

# %%
# **Next:** so far a gradient was a tensor full of numbers. :ref:`seeing-the-gradient` draws
# one.
#
# .. asked: how to choose v; weigh pixels or samples in the loss; mask part of the loss;
#    ignore some pixels; which vector to give backward; v as weights; mean of a vector
#    loss with v; loss weights as gradient argument; v other than ones; samples with
#    different importance; give more weight to some outputs; how much each output
#    counts; leave out some outputs
# .. words: importance, focus, priority, care less, emphasise, padding, zero out, selective,
#    confidence, per item weight, sample_weight, average over valid entries, hard examples
