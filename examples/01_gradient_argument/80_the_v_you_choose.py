r"""
.. _the-v-you-choose:

The v you choose: weights, masks and means
==========================================

A network labels every pixel of an image, and it is bad at the edges, where it matters
most. You want the pixels at an edge to count three times as much, and the pixels that
nobody has labelled not at all. A single tensor can say all of this. And whenever you have
taken the mean of some losses, you have chosen such a tensor without knowing it.
"""

# %%
# A loss for each pixel
# ---------------------
#
# Here is a very small image, two rows of three pixels. The network has given each pixel a
# score, which PyTorch calls a *logit*. A positive score says "yes, this is road", and a
# negative one "no". ``target`` is 1 where the answer is yes and 0 where it is no. With
# ``reduction="none"`` the loss is not averaged, so that we get one number for each pixel:

import torch

scores = torch.tensor([[2.0, -1.0, 0.5], [1.0, 0.0, -2.0]], requires_grad=True)
target = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
losses = torch.nn.functional.binary_cross_entropy_with_logits(
    scores, target, reduction="none"
)
losses

# %%
# The largest is at the lower left, where the score leans the wrong way. These six numbers
# are our ``y`` now. First we pass ones, so that every pixel counts once:

(plain,) = torch.autograd.grad(losses, scores, torch.ones(2, 3), retain_graph=True)
plain

# %%
# As for every loss, a negative number says that the score should go up, and a positive one
# that it should go down. The pixel at the lower left is pushed down hardest.
#
# .. dropdown:: Where these numbers come from
#
#    If you work out the derivative of this loss, you get the probability that the network
#    gives to "yes", less the target. The sigmoid turns the score 2 of the first pixel into
#    a probability of 0.88. The target is 1, and so its entry is −0.12.
#
# Now the edge. Suppose that it runs through the middle column, and that nobody has labelled
# the last pixel of the second row:

weight = torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 0.0]])

# %%
# .. predict::
#    :for: the first row
#
#    We pass ``weight`` as ``v``. What becomes of the first row of the gradient? With ones
#    it was ``[-0.12, 0.27, -0.38]``.

losses.backward(weight, retain_graph=True)
weighted = scores.grad
weighted[0]

# %%
# The pixel at the edge pulls three times as hard. And the last pixel of all is silent:

import pullback

pixels = ["top 1", "top 2", "top 3", "bottom 1", "bottom 2", "bottom 3"]
both = {"every pixel counts 1": plain.flatten(), "v = weight": weighted.flatten()}
pullback.draw.bars(both, names=pixels)

# %%
# In a real network all pixels share the parameters of the earlier layers. There the
# gradient is a sum over the pixels, in which the edge counts three times and the unlabelled
# pixel does not appear.
#
# Here are the three pixels at the top. Move a score until its pixel is right and certain,
# and watch how little it still sends back, even with a weight of 3:


def top_losses(s):
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return loss(s, target[0], reduction="none")


scored = ["score 1", "score 2", "score 3"]
top = scores.detach()[0]
pullback.live(top_losses, top, weight[0], rows=pixels[:3], columns=scored)

# %%
# .. dropdown:: Why not mark unlabelled pixels with NaN?
#
#    Because 0 times NaN is NaN, so a weight of 0 could not remove it. Neither can it remove
#    an infinite gradient (:ref:`masked-nan`). Use a finite number that the loss
#    accepts, as we did with the target 0 of the last pixel.
#
# The v inside a loss
# -------------------
#
# Perhaps you would have multiplied the losses and added them up. This is the same, and by
# now you can say why: the gradient of the sum of ``weight * losses``, with respect to
# ``losses``, is ``weight``. So this is the ``v`` that arrives there:

by_formula = torch.autograd.grad((weight * losses).sum(), scores, retain_graph=True)[0]
torch.equal(by_formula, weighted)

# %%
# Most training loops have the formula, because then the loss is a number that can be
# printed. But whatever you do to a tensor of losses before you call ``backward``, in the
# end each of them has been given a weight.
#
# .. predict::
#    :for: v
#    :value: 2
#
#    ``mask`` is True for the five labelled pixels. Which ``v`` does
#    ``losses[mask].mean().backward()`` send to the six losses?
#
# To find out, we ask for the gradient of this number with respect to ``losses``, which
# ``torch.autograd.grad`` can do for any tensor on the way. We do the same for the mean of
# all losses, which comes first, and for the largest of them, which comes last:

mask = weight > 0
for number in (losses.mean(), losses[mask].mean(), losses.max()):
    (v,) = torch.autograd.grad(number, losses)
    print(v)

# %%
# The second line is a mask with a mean: five pixels are left, and each of them counts a
# fifth. It is a common mistake to divide by six instead, that is to write
# ``(mask * losses).mean()``. Then the loss and every gradient are only 5/6 of those of
# the masked mean, because five of the six pixels are labelled. If the factor were the same
# in every batch, the learning rate could make up for it. But it is another one for each
# batch, so that batches with few labelled pixels hardly count.
#
# Here is the ``v`` of some usual calls:
#
# =====================================  ==================================================
# what you call                          the ``v`` that arrives at ``losses``
# =====================================  ==================================================
# ``losses.sum().backward()``            1 everywhere
# ``losses.mean().backward()``           1/6 everywhere, since there are six losses
# ``losses[mask].sum().backward()``      1 where ``mask`` is True, 0 elsewhere
# ``losses[mask].mean().backward()``     one over the number of kept losses, 0 elsewhere
# ``losses.max().backward()``            1 at the largest, 0 elsewhere (ties share the 1)
# =====================================  ==================================================
#
# So when you meet a new way to combine losses, ask which ``v`` it sends to them. It tells
# you which of them count, and how much.
#
# .. dropdown:: Three walks, and no ``retain_graph``?
#
#    Each of the three numbers has a graph of its own down to ``losses``, and the walk ends
#    there. So no part of a graph was walked twice.
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
#    Where the numbers of ``x`` are only rearranged, joined or shifted on the way to ``y``,
#    as in ``x.view(6)``, PyTorch may put your ``v`` itself into ``x.grad`` instead of a
#    copy. Whatever changes ``x.grad`` then changes your ``v``. To be safe, pass
#    ``v.clone()``. :ref:`what-becomes-of-v` has the details.
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

exact = (torch.sigmoid(scores) - target).detach()
torch.testing.assert_close(plain, exact)
torch.testing.assert_close(weighted, weight * exact)

largest = torch.zeros(6)
largest[losses.flatten().argmax()] = 1.0
expected = {
    losses.sum(): torch.ones(2, 3),
    losses.mean(): torch.full((2, 3), 1 / 6),
    losses[mask].sum(): mask.float(),
    losses[mask].mean(): mask / mask.sum(),
    losses.max(): largest.reshape(2, 3),
    (mask * losses).mean(): 5 / 6 * mask / mask.sum(),
}
for number, arrives in expected.items():
    (v,) = torch.autograd.grad(number, losses, retain_graph=True)
    torch.testing.assert_close(v, arrives)

tied = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
assert torch.autograd.grad(tied.max(), tied)[0].tolist() == [0, 0.5, 0.5]

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
