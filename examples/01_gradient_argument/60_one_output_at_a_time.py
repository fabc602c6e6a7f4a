r"""
.. _one-output-at-a-time:

One output at a time
====================

A network looks at a picture and gives one score for *cat* and one for *dog*. You want to
know which pixels speak for the cat, and which for the dog. These are two questions, and
their answers should not be added up. But ``backward`` answers one question in a call. So
you call it twice, and on the way you run into two surprises that catch nearly everybody.
"""

# %%
# A single 1
# ----------
#
# Here is such a network, small enough to follow every number. A picture is the brightness
# of three pixels: the tip of the left ear, the tip of the right ear, and the tongue. The
# score for *cat* is high when both ears are bright, and the score for *dog* when the tongue
# is. (``pixels[..., 0]`` is the first entry along the last dimension, and ``dim=-1`` means
# the last dimension. Written like this, the function takes several pictures as well.)

import torch


def network(pixels):
    left, right, tongue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    cat = left * right
    dog = 5 * tongue
    return torch.stack([cat, dog], dim=-1)  # the two scores side by side


picture = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
scores = network(picture)
scores

# %%
# We ask about the cat with the price 1 for its score and 0 for the other. Such a ``v``,
# with a single 1 and zeros elsewhere, is called *one-hot*. The place of the 1 selects the
# row:

scores.backward(torch.tensor([1.0, 0.0]))
picture.grad

# %%
# The right ear has the rate 3, because the left one is at 3, and the other way round. You
# may also take the score out first and call ``scores[0].backward()``, which needs no ``v``
# because ``scores[0]`` is a number. On the way back, the indexing hands its 1 to the entry
# that you took, and zeros to all others. So indexing makes the same one-hot ``v`` for you.
#
# Two surprises
# -------------
#
# Now we ask about the dog, with the same ``scores``:

try:
    scores.backward(torch.tensor([0.0, 1.0]))
except RuntimeError as error:
    print(error)

# %%
# The first surprise is this famous message. While PyTorch computed the cat's score, it kept
# the two ears in its notes, the graph, because they are needed on the walk back. After the
# first walk it threw away what it had kept, since usually nobody needs it twice. The
# message calls this the *saved intermediate values*. On the earlier pages we did not meet
# it, because we computed a new ``y`` for each call. If you want to use the old one, say so
# in the first call, with ``retain_graph=True``. Let us do that in a loop, and collect both
# gradients:
#
# .. predict::
#    :value: 1
#    :for: the first of the two
#
#    We empty ``picture.grad`` before the loop. The first call asks for the row
#    ``[1, 3, 0]`` and the second for the row ``[0, 0, 5]``. What does the list hold in the
#    end, first and second?

picture.grad = None
scores = network(picture)
collected = []
for v in torch.eye(2):  # the rows of this matrix are [1, 0] and [0, 1]
    scores.backward(v, retain_graph=True)
    collected.append(picture.grad)
collected

# %%
# The second surprise: the list holds the *sum* of the two rows, twice. ``backward`` does
# not replace what is in ``picture.grad``, it adds to it. And here it has added in place:
# both entries of the list are the same tensor, so the first one has changed after we had
# put it there. The sum is also what ones would have given us, since they add the two rows
# as well.
#
# Adding is useful in training, where a big batch can be processed in small pieces before
# the optimizer takes its step. (If the loss is a mean, divide that of each of ``k`` equal
# pieces by ``k``. :ref:`An answer <accumulated-mean>` shows why, and what to do if they are
# unequal.) It is also the reason why a training loop calls ``zero_grad()`` for each step.
#
# Row by row
# ----------
#
# Here the adding is in the way. We put ``picture.grad = None`` in front of each call. Then
# there is nothing to add to, and each result comes in a tensor of its own:

kept = []
for v in torch.eye(2):
    picture.grad = None
    scores.backward(v, retain_graph=True)
    kept.append(picture.grad)
torch.stack(kept)

# %%
# There is also a function that does not touch ``picture.grad`` at all:

rows = []
for v in torch.eye(2):
    (row,) = torch.autograd.grad(scores, picture, v, retain_graph=True)
    rows.append(row)
table = torch.stack(rows)
table

# %%
# ``torch.autograd.grad`` takes the same ``v`` and computes the same product, but it returns
# the result and leaves ``picture.grad`` alone. It returns a tuple with one entry for each
# input that you asked about, hence the comma after ``row``.
#
# The two rows, one under the other, are the :term:`Jacobian`. This is the plainest way to
# get it: one walk for each output. In the drawing, the button *one-hot* goes from row to
# row, at any brightness of the pixels:

import pullback

classes, pixels = ["cat", "dog"], ["left ear", "right ear", "tongue"]
pullback.live(network, picture.detach(), v, rows=classes, columns=pixels)

# %%
# .. dropdown:: All rows in one call
#
#    A loop in Python is slow when there are many outputs. You can hand over all the ``v``
#    at once, and say with ``is_grads_batched=True`` that you mean it. Without it, the
#    matrix would be taken for a single ``v`` of the wrong shape, and refused. There are
#    still two products to compute, but PyTorch does them side by side. For many outputs
#    this is usually much faster (:ref:`measured <ways-measured>`). A few kinds of
#    operations refuse to be done side by side, with an error. For most of them the loop
#    works.

(at_once,) = torch.autograd.grad(scores, picture, torch.eye(2), is_grads_batched=True)
at_once

# %%
# Many pictures and two classes
# -----------------------------
#
# Usually there is a batch of pictures. Here are three, and so the scores have the shape
# ``(3, 2)``, with a row for each picture and a column for each class:

album = torch.tensor(
    [[1.0, 2.0, 0.0], [4.0, 2.0, 1.0], [0.0, 1.0, 3.0]], requires_grad=True
)
scores = network(album)
scores

# %%
# Look at one column. Each of its three scores depends on a picture of its own, so ones do
# no harm there. But the two scores of a row depend on the same picture, and ones for both
# would add their gradients. So we make one call for each column:
#
# .. predict::
#    :value: 1
#    :item: 1
#    :for: the three numbers
#    :code:
#
#    Which ``v`` asks about the *cat* in all three pictures? And which three numbers come
#    back for the second picture, whose pixels are 4, 2 and 1?

answers = []
for k in range(2):
    v = torch.zeros_like(scores)
    v[:, k] = 1.0  # all pictures, one class
    (gradient,) = torch.autograd.grad(scores, album, v, retain_graph=True)
    answers.append(gradient)
print("cat:", answers[0])
print("dog:", answers[1])

# %%
# For the cat, each row holds that picture's right ear, its left ear, and 0. For the dog it
# is always ``[0, 0, 5]``. Two calls were enough for six gradients. If no picture has an
# influence on another's scores, you need one ``v`` for each class, however many pictures
# there are.
#
# .. dropdown:: What to watch when you call twice on the same y
#
#    Nothing may change what the graph needs. If the picture were a parameter, a step of the
#    optimizer between the two calls would change it, and then the second walk is usually
#    refused. (With ``fused=True``, an option of some optimizers, nothing notices the
#    change, and the second result is wrong.) A network under ``torch.compile`` may refuse
#    to be walked twice at all. Then use the network as it was before it was compiled.
#
#    A function of sums alone saves nothing, and could be walked twice without
#    ``retain_graph=True``. Don't rely on it.
#
#    Take another ``v`` for each call, as we took the rows of ``torch.eye``. If you refill
#    the same one, keep copies of the results. Where numbers are only rearranged on the way,
#    as in ``x.view(3)``, the result may be your ``v`` itself (:ref:`what-becomes-of-v`),
#    and all that you have kept turns into the last one.
#
#    And if the row of one output holds infinity or NaN, the price 0 does not keep it out of
#    the result, because 0 times these is NaN.
#
# .. admonition:: Remember
#
#    - A one-hot ``v`` gives the row of one output. For a vector ``y``,
#      ``y[k].backward()`` is the same.
#    - To walk back from the same ``y`` again, pass ``retain_graph=True`` in all calls but
#      the last, and change nothing in between that the graph needs.
#    - ``backward`` adds to ``x.grad``. Empty it, or use ``torch.autograd.grad``, which
#      returns the product instead.
#    - One call for each output gives the table. With ``is_grads_batched=True`` it is one
#      call with a batch of ``v``.
#
# .. admonition:: Try it
#
#    Another network returns ``scores`` of the shape ``(8, 10)``: eight images, ten classes.
#    It treats each image by itself. You want, for every image, the gradient of the score
#    of *its own* class, which is in ``labels``. How many calls do you need? Write down
#    the ``v``.
#
# .. dropdown:: Answer
#
#    One. Ten would be needed for the gradients of all ten scores. Here you want only one
#    score of each image, and no image changes another's. So ``v`` has a 1 in each row, at
#    the label. Below is a small network with labels drawn by chance. Each row of the result
#    is the gradient of one score, for one image:

torch.manual_seed(0)
classifier = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10)
)
images = torch.randn(8, 4, requires_grad=True)
labels = torch.randint(10, (8,))
y = classifier(images)
v = torch.nn.functional.one_hot(labels, 10).to(y)
(together,) = torch.autograd.grad(y, images, v)
together.shape

# %%
# .. dropdown:: How we checked this page
#
#    We compare the rows with a table of small steps, the batch of ``v`` with the loop, and
#    the answer with one call for each image. We also refill a ``v``, and train in pieces.

at, h = picture.detach().double(), 1e-6
steps = h * torch.eye(3, dtype=torch.float64)
nudged = torch.stack([(network(at + s) - network(at - s)) / (2 * h) for s in steps], dim=1)
torch.testing.assert_close(table.double(), nudged)
assert torch.equal(at_once, table)
assert torch.equal(torch.stack(kept), table)
assert collected[0] is collected[1]
assert torch.equal(collected[0], table.sum(0))
with_ones = torch.autograd.grad(network(picture), picture, torch.ones(2))[0]
assert torch.equal(with_ones, table.sum(0))
for one, cat, dog in zip(album.detach(), *answers, strict=True):
    assert cat.tolist() == [one[1], one[0], 0]
    assert dog.tolist() == [0, 0, 5]

y = network(picture)
y.retain_grad()
y[0].backward()
assert y.grad.tolist() == [1, 0]

sums = torch.stack([picture.sum(), picture.sum()])
for _ in range(2):  # nothing is saved
    assert torch.autograd.grad(sums, picture, torch.ones(2))[0].tolist() == [2, 2, 2]

flat, v, results = torch.zeros(3, requires_grad=True), torch.zeros(3), []
same = flat.view(3)
for k in range(3):
    v.zero_()
    v[k] = 1.0
    (row,) = torch.autograd.grad(same, flat, v, retain_graph=True)
    results.append((row, row.clone()))
refilled, copied = (torch.stack(rows) for rows in zip(*results, strict=True))
assert torch.equal(refilled, v.expand(3, 3))
assert torch.equal(copied, torch.eye(3))

wants = torch.nn.functional.one_hot(labels, 10).float()
parameters = list(classifier.parameters())
mse = torch.nn.functional.mse_loss
whole = torch.autograd.grad(mse(classifier(images), wants), parameters)
pieces = zip(images.detach().chunk(4), wants.chunk(4), strict=True)
for piece, wanted in pieces:
    mse(classifier(piece), wanted).backward()
for parameter, gradient in zip(parameters, whole, strict=True):
    torch.testing.assert_close(parameter.grad, 4 * gradient)

roots = torch.tensor([0.0, 4.0], requires_grad=True)
roots.sqrt()[1].backward()
assert roots.grad[0].isnan()
assert roots.grad[1] == 0.25

for image, label, gradient in zip(images.detach(), labels, together, strict=True):
    image.requires_grad_()
    (alone,) = torch.autograd.grad(classifier(image)[label], image)
    torch.testing.assert_close(gradient, alone)

# %%
# **Next:** ones are right when each point goes through the function by itself.
# :ref:`when-ones-mislead` is about functions that break this without looking like it.
#
# .. asked: gradient of one output only; gradient of each output separately; one-hot v;
#    backward(torch.tensor([1., 0.])); which output neuron to differentiate; several
#    outputs, separate gradients; second call of backward adds up; loop over outputs;
#    network with three outputs, gradient of the second; derivative of each output
#    neuron separately; want only one class; keep the gradients of the outputs apart
# .. words: choose a class, pick one score, second neuron, logits, only the cat score,
#    separate, index, eye, unit vector, ten classes, loss_a and loss_b apart, y[0].backward
