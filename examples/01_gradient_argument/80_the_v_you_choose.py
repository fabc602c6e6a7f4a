r"""
.. _the-v-you-choose:

The v you choose: weights, masks and means
==========================================

A network labels every pixel of an image, and it is bad at the edges, where it matters
most. You want the pixels at an edge to count three times as much, and the pixels that
nobody has labelled not at all. One tensor says all of this, and most
losses have such a tensor inside, from which you can read how much each pixel counts.
"""

# %%
# A loss for each pixel
# ---------------------
#
# Here is a very small image, two rows of three pixels. The network has given each pixel a
# score. A positive score says "yes, this is road", and a negative one "no". ``target`` is 1
# where the answer is yes and 0 where it is no. With ``reduction="none"`` the loss is
# not averaged, so that we get one number for each pixel:

import torch

scores = torch.tensor([[2.0, -1.0, 0.5], [1.0, 0.0, -2.0]], requires_grad=True)
target = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
losses = torch.nn.functional.binary_cross_entropy_with_logits(
    scores, target, reduction="none"
)
losses

# %%
# The largest is at the lower left, where the score leans the wrong way. These six numbers
# are our ``y`` now, so ``v`` has their shape, and says how much each of them counts.
# Suppose that the middle column is an edge, and that nobody has labelled the last pixel
# of the second row. (Its target, 0, is a placeholder. Don't use NaN for it: 0 times NaN is
# NaN, so a weight of 0 could not remove it.)

weight = torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 0.0]])
(plain,) = torch.autograd.grad(losses, scores, torch.ones(2, 3), retain_graph=True)
plain

# %%
# This is the gradient with ones, that is, with every pixel counted once. Each number is
# the probability that the network gives to "yes", less the target. The first pixel has
# the score 2, which the sigmoid turns into a probability of 0.88. The target is 1, so its
# entry is −0.12: the score should go up, but not by much. The pixel at the lower left has
# 0.73 where 0 is right, and is pushed down hardest.
#
# .. predict::
#
#    We pass ``weight`` as ``v``. Above is the gradient with ones. What will it be with
#    ``weight``, to two digits?

losses.backward(weight, retain_graph=True)
weighted = scores.grad
weighted + 0.0  # shows -0 as 0

# %%
# The middle column is three times as large, and the last pixel receives zero. Each score
# has its own loss here, so each entry of ``v`` has changed only one entry of the result. In
# a real network all pixels share the parameters of the earlier layers. There the gradient
# is a sum over the pixels, in which the edge counts three times and the unlabelled pixel
# does not appear.

import pullback

pixels = ["top 1", "top 2", "top 3", "bottom 1", "bottom 2", "bottom 3"]
both = {"every pixel counts 1": plain.flatten(), "v = weight": weighted.flatten()}
pullback.draw.bars(both, names=pixels)

# %%
# The same with a formula
# -----------------------
#
# Perhaps you would have multiplied the losses and added them up. This is the same, and by
# now you can say why: the gradient of the sum of ``weight * losses``, with respect to
# ``losses``, is ``weight``. So this is what arrives there:

by_formula = torch.autograd.grad((weight * losses).sum(), scores, retain_graph=True)[0]
torch.equal(by_formula, weighted)

# %%
# Use whichever you like. Most training loops have the formula, because then the loss is a
# number that can be printed. But in both of them there is a ``v``. Whatever you do to a
# tensor of losses before you call ``backward``, in the end each of them has been given a
# weight.
#
# .. predict::
#    :for: v
#    :value: 2
#
#    ``mask`` is True for the five labelled pixels. Which ``v`` does
#    ``losses[mask].mean().backward()`` send to the six losses?
#
# To find out, ask for the gradient with respect to ``losses`` itself, of this number and of
# two others:

mask = weight > 0
for number in (losses.mean(), losses[mask].mean(), losses.max()):
    (v,) = torch.autograd.grad(number, losses)
    print(v)

# %%
# The second line is a mask with a mean: five pixels are left, and each of them counts a
# fifth. It is a common mistake to divide by six instead, that is to write
# ``(mask * losses).mean()``. Then the loss and every gradient are only 5/6 of those of
# the masked mean, because five of the six pixels are labelled.
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
# A weight that has a gradient itself
# -----------------------------------
#
# There is a case in which ``backward(weight)`` and the formula differ. Some losses compute
# their weights from the network, for example to pay more attention to pixels that are
# still wrong. For our loss, ``torch.exp(-losses)`` is the probability that the network
# gives to the right answer, for the first pixel :math:`e^{-0.1269}=0.88` as above. So one
# minus this number is large where the network is wrong, and we use it as the weight. The
# formula differentiates such a weight as well:

doubt = 1 - torch.exp(-losses)
as_v = torch.autograd.grad(losses, scores, doubt, retain_graph=True)[0]
product = (doubt * losses).sum()
as_formula = torch.autograd.grad(product, scores, retain_graph=True)[0]
print(as_v[0])
print(as_formula[0])

# %%
# With the formula, the gradients in this row are nearly twice as large. ``backward`` does
# not differentiate ``v``: it takes the prices as given. In the formula the weight is a
# part of the function. By the product rule there is a second term, ``losses`` times the
# derivative of ``doubt``, so what arrives at ``losses`` is more than ``doubt``. Neither of
# the two is wrong. If you want the formula with fixed weights, write ``doubt.detach()`` in
# it:

fixed = (doubt.detach() * losses).sum()
torch.equal(torch.autograd.grad(fixed, scores)[0], as_v)

# %%
# The shapes make another difference. If the weight has another shape than ``losses``,
# ``backward`` refuses it. The formula may broadcast it, which is not always what you meant.
#
# .. dropdown:: What are the 0.1, 1.0 and 0.0001 in PyTorch's old tutorial?
#
#    They come from nowhere. The tutorial, which has been copied to many places, doubles a
#    vector until it is long, and then passes these three numbers. Somebody made them up, to
#    show that any ``v`` will do. Below, the vector is doubled nine times in all, so that
#    every output is 512 times its input, and the gradient is 512 times ``v``.

x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
y = x * 2
while y.detach().norm() < 1000:
    y = y * 2
y.backward(torch.tensor([0.1, 1.0, 0.0001]))
doubled = x.grad
doubled

# %%
# .. dropdown:: If you keep a v and use it again
#
#    If the numbers of ``x`` are only rearranged, joined or shifted on the way to ``y``,
#    as in ``x.view(6)``, ``x.T``, ``torch.cat`` or ``x.flatten() + 1``, PyTorch may put
#    your ``v`` itself into ``x.grad`` instead of a copy. Whatever then changes
#    ``x.grad``, such as the next ``backward`` or clipping, changes your ``v``. Below, the
#    first call makes ``x.grad`` the same memory as ``kept``, and the second adds ``kept``
#    to itself. Pass ``kept.clone()``.

kept = torch.ones(6)
x = torch.zeros(2, 3, requires_grad=True)
for _ in range(2):
    x.view(6).backward(kept)
kept

# %%
# The three pixels of the upper row. Move a score until its pixel is right and certain, and
# watch how little it still sends back, even with a weight of 3:

row, weights = scores.detach()[0], torch.tensor([1.0, 3.0, 1.0])
loss = torch.nn.functional.binary_cross_entropy_with_logits
pullback.live(lambda s: loss(s, target[0], reduction="none"), row, weights)

# %%
# .. admonition:: Remember
#
#    - ``v`` says how much each output counts: 0 leaves it out (unless there is a NaN or
#      an infinity on its way), 3 counts it three times.
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

w = torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 0.0]])
torch.testing.assert_close(weighted, w * (torch.sigmoid(scores) - target).detach())
torch.testing.assert_close(plain, (torch.sigmoid(scores) - target).detach())
torch.testing.assert_close(doubled, 512 * torch.tensor([0.1, 1.0, 0.0001]))
assert y.detach().norm() >= 1000 > (y / 2).detach().norm()

x = torch.zeros(2, 3, requires_grad=True)
kept = torch.ones(6)
for _ in range(2):
    x.view(6).backward(kept.clone())
assert torch.equal(kept, torch.ones(6))
assert torch.equal(x.grad, torch.full((2, 3), 2.0))

largest = torch.zeros(6)
largest[losses.flatten().argmax()] = 1.0
expected = {
    losses.sum(): torch.ones(2, 3),
    losses.mean(): torch.full((2, 3), 1 / 6),
    losses[mask].sum(): mask.float(),
    losses[mask].mean(): mask / mask.sum(),
    losses.max(): largest.reshape(2, 3),
}
for number, arrives in expected.items():
    (v,) = torch.autograd.grad(number, losses, retain_graph=True)
    torch.testing.assert_close(v, arrives)

e = torch.exp(-losses)  # the derivative of (1 - exp(-l)) l is 1 - exp(-l) + l exp(-l)
by_product_rule = (1 - e + losses * e) * (torch.sigmoid(scores) - target)
torch.testing.assert_close(as_formula, by_product_rule)
assert not torch.allclose(as_formula, as_v)

# %%
# **Next:** so far a gradient was a tensor full of numbers. :ref:`seeing-the-gradient` draws
# one.
#
# .. asked: how to choose v; weigh pixels or samples in the loss; mask part of the loss;
#    ignore some pixels; which vector to give backward; v as weights; mean of a vector
#    loss with v; loss weights as gradient argument; v other than ones; samples with
#    different importance; give more weight to some outputs; how much each output
#    counts; leave out some outputs
