r"""
.. _the-v-you-choose:

The v you choose: weights, masks and means
==========================================

A network estimates for every pixel of an image how far away things are. It is bad at the
edges of things, where it matters most, and at some pixels nobody has measured the distance.
You want the pixels at an edge to count three times as much, and those without a measurement
not at all. A tensor with a weight for each loss says all of this, if you pass it as ``v``
in ``losses.backward(v)``. And if you have ever taken the mean of some losses, you have
already chosen a ``v``, perhaps without knowing it.
"""

# %%
# A loss for each pixel
# ---------------------
#
# Here is a very small image, two rows of three pixels, with distances in meters. The loss
# of a pixel is the square of its error, so that we get one number for each pixel:

import torch

estimate = torch.tensor([[2.0, 5.0, 4.0], [2.0, 2.0, 9.0]], requires_grad=True)
measured = torch.tensor([[3.0, 3.0, 3.0], [3.0, 5.0, 0.0]])
losses = (estimate - measured) ** 2
losses

# %%
# At the last pixel nobody has measured. The 0 that stands there is only a placeholder, and
# so the 81 means nothing.
#
# Three times for the edge
# ------------------------
#
# Suppose that the edge runs through the middle column. We write into a tensor how much each
# pixel should count: 3 at the edge, 0 at the last pixel, and 1 elsewhere. We pass it as
# ``v``:

weight = torch.tensor([[1.0, 3.0, 1.0], [1.0, 3.0, 0.0]])

# %%
# .. predict::
#    :item: 1
#    :for: the bottom row
#    :wrong: every pixel once: Here every pixel counts once. The pixel in the middle counts
#          three times, and the last one not at all.;
#       weighted losses: These are the losses, each times its weight. The question is how
#          fast the loss rises with the estimate.;
#       error times weight: Here the factor of the square is missing. The slope of a square
#          is twice the error.;
#       without the sign: A pixel that is estimated too low has a negative gradient: its
#          loss falls when the estimate rises.;
#       weights alone: These are the weights, so this is v. Each is multiplied by the slope
#          of its loss.
#
#    In the bottom row the errors are −1, −3 and 9, and the weights 1, 3 and 0. What is in
#    the bottom row of ``estimate.grad``?

losses.backward(weight, retain_graph=True)  # the page walks back from them again
weighted = estimate.grad
weighted

# %%
# The slope of a square is twice the error, and the weight multiplies it. The last pixel has
# the largest error of all, and its gradient is 0. For comparison, let every pixel count
# once:

(plain,) = torch.autograd.grad(losses, estimate, torch.ones(2, 3), retain_graph=True)

import pullback

pixels = ["top 1", "top 2", "top 3", "bottom 1", "bottom 2", "bottom 3"]
both = {"every pixel counts 1": plain.flatten(), "v = weight": weighted.flatten()}
pullback.draw.bars(both, names=pixels)

# %%
# With ones, the last pixel has by far the largest gradient, and nobody has measured there.
# With the weights its gradient is 0, and the gradients of the two pixels at the edge are
# three times as large as before.
#
# Try it with the three pixels at the bottom. Move the estimate of the last one, which
# nobody has measured. What becomes of its gradient? Then give this pixel the weight 1. To
# which distance would its gradient lead the network?


def bottom_losses(estimate):
    return (estimate - measured[1]) ** 2


of_pixel = {"rows": ["loss 1", "loss 2", "loss 3"], "columns": ["at 1", "at 2", "at 3"]}
pullback.live(bottom_losses, estimate.detach()[1], weight[1], **of_pixel)

# %%
# .. dropdown:: What the weight does
#
#    With the weight 0, its gradient stays at 0, however large its loss becomes. With the
#    weight 1, its gradient is twice the estimate. This is 0 only where the estimate is 0.
#    So the network would learn the placeholder: that what nobody has measured is 0 meters
#    away.
#
# Here each pixel has a gradient of its own. In a real network all pixels share the
# parameters of the earlier layers. The gradient of such a parameter is a sum over the
# losses of the pixels, in which the edge counts three times and the last pixel not at all.
#
# The same in a formula
# ---------------------
#
# Perhaps you would have multiplied the losses by the weights, added them up, and called
# ``backward`` on the sum. This is the same, and by now you can say why. Each loss goes into
# the sum times its weight, so the sum rises with each loss at the rate of its weight. The
# ``v`` that arrives at ``losses`` is ``weight``:

total = (weight * losses).sum()
(by_formula,) = torch.autograd.grad(total, estimate, retain_graph=True)
torch.equal(by_formula, weighted)

# %%
# Most training loops have the formula, because then the loss is a number that can be
# printed. In both cases the weights are fixed numbers here. If the network
# computes the weights, they have a gradient of their own
# (:ref:`what changes then <weights-from-the-model>`).
#
# .. dropdown:: What if the weights have another shape than the losses?
#
#    ``backward`` refuses such a ``v``. The formula may accept it. Below are six losses in a
#    flat tensor, ``(6,)``, and six weights in a column, ``(6, 1)``. In the product PyTorch
#    repeats both until they fit, which is called *broadcasting*. So each loss meets each
#    weight. The formula would add up all of these products, without an error.

flat_losses, column = losses.flatten(), weight.reshape(6, 1)
print("shape of the product:", tuple((column * flat_losses).shape))
try:
    flat_losses.backward(column)
except RuntimeError as error:
    print(error)

# %%
# The v that you have not chosen
# ------------------------------
#
# Often nobody chooses weights, and the losses are made into one number by a mean. What
# should not count is taken out with a *mask*: here it holds a 1 for each of the five
# measured pixels and a 0 for the last one. If you have trained on sentences, you have met
# such a mask at the padding.
#
# .. predict::
#    :for: the number
#    :wrong: mean of the measured: This divides by the five pixels that were measured.
#          mean() does not know about the mask, and divides by six.;
#       sum: This is the sum. mean() divides it by the number of entries.;
#       without the mask: This is the mean of all six losses. The mask has made the last one
#          zero.;
#       of one row: Here the sum is divided by three. There are two rows of three.
#
#    The mask takes the 81 away, and the other five losses are 1, 4, 1, 1 and 9. What is the
#    mean of ``mask * losses``?

mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
(mask * losses).mean()

# %%
# If you have said 3.2, you have divided the sum, 16, by the five pixels that were measured.
# ``mean()`` does not know about the mask. The last loss is zero now, but it is still
# counted, and 16 is divided by six.
#
# What does this do to the gradients? The walk back starts at the mean, with a 1, and on its
# way to the estimates it comes through ``losses``. What arrives there is a ``v``, and it
# says how much each loss counts. To see it, we let the walk end at ``losses``: so far we
# have asked ``torch.autograd.grad`` about the inputs, but it takes any tensor on the way.
#
# We begin with the mean that was wanted. ``losses[mask > 0].mean()`` keeps five losses, and
# their mean is 3.2:

(v,) = torch.autograd.grad(losses[mask > 0].mean(), losses)
v

# %%
# Each of the five counts a fifth, and the pixel without a measurement counts nothing.
#
# .. predict::
#    :item: 0
#    :for: the first row of v
#    :wrong: right mean: This is the v of the mean that was wanted, which divides by five.;
#       plain sum: This is the v of the sum. The mean divides it by the number of entries.;
#       mean of the row: This divides by the three pixels of the row. There are two rows.;
#       losses themselves: These are the losses. v says how much each of them counts.
#
#    And the mean from above, ``(mask * losses).mean()``? How much does each pixel of the
#    first row count there? All three have been measured.

(v,) = torch.autograd.grad((mask * losses).mean(), losses)
v

# %%
# Here each of them counts only a sixth, so the loss is 2.67 instead of 3.2, and every
# gradient is 5/6 of what it should be. If it were 5/6 for every image, the learning rate
# could make up for it.
# But the next image has another number of measured pixels, and so another factor. An image
# with few measured pixels hardly counts.
#
# Both means look right, and neither raises an error. So when you meet a new way to make one
# number out of losses, ask which ``v`` it sends to them. Here is one more.
#
# .. predict::
#    :item: 1
#    :for: the second row of v
#    :wrong: with the mask: This is the v if the mask is there. Without it, the last loss is
#          the largest.;
#       largest loss: 81 is the loss itself. v says how much it counts.;
#       every loss: This is the v of the sum. The maximum depends on the largest loss alone.
#
#    Somebody trains on the worst pixel alone, with ``losses.max()``, and has forgotten the
#    mask. The losses are ``[[1, 4, 1], [1, 9, 81]]``. What is in the second row of ``v``?

(v,) = torch.autograd.grad(losses.max(), losses)
v

# %%
# Everything goes to the pixel with the 81, which nobody has measured, and nothing to the
# others. These are the usual ways to make one number out of our six losses:
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
# .. admonition:: Remember
#
#    - However losses are combined, ask which ``v`` arrives at them. For our losses, a 3
#      counts a loss three times, and a 0 leaves it out (see *Where this ends*).
#    - ``losses.backward(weight)`` and ``(weight * losses).sum().backward()`` are the same,
#      if the two have the same shape, and the weights are fixed numbers.
#    - For a mean over a mask, divide by the number of *kept* entries.
#
# .. predict:: Try it
#    :for: the v at the six losses
#    :wrong: every measurement: Here every measurement counts the same, which is the mean of
#          all six at once. The mean of two means gives each image one half.;
#       not halved: This arrives from the two means. The mean of the two halves it.;
#       halves: Each image counts one half, and the five pixels of the first share that.;
#       fifths: A fifth is for one of five, and the second image has one pixel. The mean of
#          the two means halves both.
#
#    Two images come in a batch. In the first, five pixels have been measured, and in the
#    second only one. The author takes the mean over the measured pixels of each image, as
#    it should be, and then the mean of the two means. Which ``v`` arrives at the five
#    losses and the one? Which of the six pixels counts most, and is that what you would
#    want?

five = torch.tensor([1.0, 4.0, 1.0, 1.0, 9.0])
six = torch.cat([five, torch.tensor([2.0])]).requires_grad_()
mean_of_means = (six[:5].mean() + six[5:].mean()) / 2
mean_of_means.backward()
six.grad

# %%
# .. dropdown:: Answer
#
#    Each image counts one half, and within an image the pixels share this half. So the
#    single pixel of the second image counts as much as all five of the first together. That
#    is right if you want every *image* to count the same. If every *measurement* is to
#    count the same, divide once: the sum of all measured losses by their number, here six.
#    Then ``v`` is 1/6 everywhere.
#
# .. dropdown:: And when the network answers yes or no?
#
#    Suppose that a network says for each pixel whether it shows a road. Its output at a
#    pixel is a *logit*, positive for yes and negative for no.
#    ``binary_cross_entropy_with_logits`` with ``reduction="none"`` returns one loss for
#    each pixel, and you can weight these losses as on this page.
#
#    The gradient that arrives at a logit is its weight times a difference: the probability
#    of "yes" minus the target. The logit 2, for example, is a probability of 0.88. If the
#    target is 1 and the weight 1, the gradient is −0.12. If the network is very sure of the
#    right answer, the difference is nearly 0.
#
# .. dropdown:: Three walks, and no ``retain_graph``?
#
#    The walk for the first mean starts at this mean and ends at ``losses``, where we asked
#    for the gradient. So it uses only the operations that lie between the two. The second
#    mean and the largest loss were made by operations of their own, and no operation was
#    walked through twice.
#
# .. dropdown:: Where this ends
#
#    - *What is missing is marked with NaN*, "not a number", as in many programs. The weight
#      0 removes only a gradient that is a finite number. With a loss like ours the gradient
#      there is NaN, and 0 times NaN is NaN. Put a finite number there that the loss
#      accepts.
#    - *A gradient is infinite.* The weight 0 does not remove it either, because 0 times
#      infinity is NaN. Change the input there, before the loss (:ref:`masked-nan`).
#    - *The mask keeps nothing.* Then the mean is 0 divided by 0, which is NaN. Leave such
#      an image out.
#    - *Several losses are the largest.* Then they share the 1 of ``max()``. If you want one
#      of them alone, choose it: ``losses.flatten()[losses.argmax()]``.
#
# .. dropdown:: How we checked this page
#
#    The weighted gradient is compared with the formula for this loss, written out, and each
#    row of the table of usual weights with the ``v`` that arrives. Each case of *Where this
#    ends* is tried.

import math

exact = 2 * (estimate - measured).detach()
torch.testing.assert_close(plain, exact)
torch.testing.assert_close(weighted, weight * exact)
for last in (0.0, 9.0, 20.0):
    for price in (0.0, 1.0):
        moved = torch.tensor([2.0, 2.0, last], requires_grad=True)
        bottom_losses(moved).backward(torch.tensor([1.0, 3.0, price]))
        assert moved.grad[2] == price * 2 * last
tied = torch.tensor([1.0, 5.0, 5.0], requires_grad=True)
tied.max().backward()
assert tied.grad.tolist() == [0, 0.5, 0.5]
(chosen,) = torch.autograd.grad(tied.flatten()[tied.argmax()], tied)
assert sorted(chosen.tolist()) == [0, 0, 1]
assert chosen[0] == 0
assert losses[torch.zeros(2, 3) > 0].mean().isnan()
unknown = torch.tensor([3.0, math.nan])
for marked in (unknown, unknown.nan_to_num(0.0)):
    guess = torch.tensor([2.0, 9.0], requires_grad=True)
    ((guess - marked) ** 2).backward(torch.tensor([1.0, 0.0]))
    assert guess.grad[1].isnan() == marked[1].isnan()
root = torch.tensor([4.0, 0.0], requires_grad=True)
root.sqrt().backward(torch.tensor([1.0, 0.0]))
assert root.grad[1].isnan()  # 0 times infinity
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

(shared,) = torch.autograd.grad(six.sum() / 6, six)
torch.testing.assert_close(shared, torch.full((6,), 1 / 6))
assert six.grad[5] == 0.5
torch.testing.assert_close(six.grad[:5].sum(), six.grad[5])
try:
    losses.backward(weight[:, :1])
except RuntimeError as error:
    refused = str(error)
assert (column * flat_losses).shape == (6, 6)
torch.testing.assert_close((column * flat_losses).sum(), weight.sum() * losses.sum())
assert "Mismatch in shape" in refused
for gradient in (2 * (9.0 - math.nan), math.inf):
    assert math.isnan(0 * gradient)
assert (weight[:, :1] * losses).shape == losses.shape  # broadcast without a word

guesses = {  # wrong ones, of which the boxes above say what they are
    "mean of the measured": losses[mask > 0].mean().detach(),
    "sum": (mask * losses).sum().detach(),
    "without the mask": losses.mean().detach(),
    "of one row": ((mask * losses).sum() / 3).detach(),
    "right mean": torch.autograd.grad(losses[mask > 0].mean(), losses)[0][0],
    "plain sum": torch.autograd.grad((mask * losses).sum(), losses)[0][0],
    "mean of the row": torch.autograd.grad(losses[0].mean(), losses)[0][0],
    "losses themselves": losses[0].detach(),
    "with the mask": torch.autograd.grad((mask * losses).max(), losses)[0][1],
    "largest loss": torch.eye(3)[2] * losses.max().detach(),
    "every loss": torch.autograd.grad(losses.sum(), losses)[0][1],
    "every measurement": shared,
    "not halved": 2 * six.grad,
    "halves": torch.full((6,), 0.5),
    "fifths": torch.full((6,), 1 / 5),
    "every pixel once": plain[1],
    "weighted losses": (weight * losses)[1].detach(),
    "error times weight": weighted[1] / 2,
    "without the sign": weighted[1].abs(),
    "weights alone": weight[1],
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** so far a gradient was a tensor full of numbers. :ref:`seeing-the-gradient` draws
# one. If your weights come out of the network themselves, or you keep one ``v`` for many
# steps, read :ref:`weights-from-the-model` and :ref:`use-v-again` first.
#
# .. asked: how to choose v; weigh pixels or samples in the loss; mask part of the loss;
#    ignore some pixels; which vector to give backward; v as weights; mean of a vector
#    loss with v; loss weights as gradient argument; v other than ones; samples with
#    different importance; give more weight to some outputs; how much each output
#    counts; leave out some outputs
# .. words: importance, focus, priority, care less, emphasise, padding, zero out, selective,
#    confidence, per item weight, sample_weight, average over valid entries, hard examples
