r"""
.. _one-output-at-a-time:

One output at a time
====================

A network looks at a picture and gives one score for *cat* and one for *dog*. You want to
know which pixels speak for the cat, and which for the dog. ``scores[0].backward()`` asks
about the cat alone, and so does a ``v`` of ``[1, 0]``, with the price 1 for its score and
0 for the other. What comes back is one row of the :term:`Jacobian`, the table of all
rates. You want two rows, so you ask twice, and on the way you run into two surprises. The
second of them comes without any message.
"""

# %%
# A single 1
# ----------
#
# Here is such a network, small enough to follow every number. A picture is the brightness
# of three pixels: the tip of the left ear, the tip of the right ear, and the tongue. The
# score for *cat* is high when both ears are bright, and the score for *dog* when the tongue
# is:

import torch


def network(picture):
    left, right, tongue = picture
    cat = left * right
    dog = 5 * tongue
    return torch.stack([cat, dog])


picture = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
scores = network(picture)
scores

# %%
# We ask about the cat. A ``v`` with a single 1 and zeros elsewhere is called *one-hot*. The
# place of the 1 selects the row:

scores.backward(torch.tensor([1.0, 0.0]))
picture.grad

# %%
# If the right ear gets brighter, the cat's score rises at the rate 3, because the left ear
# is at 3. If the left ear gets brighter, it rises at the rate 1, because the right ear is
# at 1. The tongue does nothing for the cat.
#
# There is a shorter way to write this, ``scores[0].backward()``. It needs no ``v``, because
# ``scores[0]`` is a number, and the walk starts there with a 1. Its first step leads back
# to ``scores``. There the cat's score gets the 1, and the dog's gets 0, because
# ``scores[0]`` does not use it. This is the same one-hot ``v``.
#
# Two surprises
# -------------
#
# Now we ask about the dog, with the same ``scores``.
#
# .. predict::
#    :expects: choice
#    :code:
#    :wrong: The row of the dog alone: The first row is still in picture.grad, and backward
#          adds to it. But here it does not come so far.;
#       The sum of the two rows: backward would add, as you say. But here it does not come
#          so far.
#
#    For the cat, ``picture.grad`` was ``[1, 3, 0]``. For the dog alone it would be
#    ``[0, 0, 5]``. What do you get from ``scores.backward(torch.tensor([0.0, 1.0]))``?
#
#    - The row of the dog alone
#    - The sum of the two rows
#    - An error

try:
    scores.backward(torch.tensor([0.0, 1.0]))
except RuntimeError as error:
    print(error)

# %%
# Nearly everybody has seen this message. What has been *freed* here? The walk back needs
# some of the numbers from which ``scores`` was computed: the rate of the right ear, for
# example, is the brightness of the left one. PyTorch keeps them in its notes, the graph,
# and the message calls them *saved intermediate values*. After the first walk it throws
# them away, because usually nobody needs them twice, and they may fill much of the memory.
# This is why, on the earlier pages, we computed a new ``y`` for each call.
#
# If you want to walk back from the same ``y`` again, say so in the call before, with
# ``retain_graph=True``. Then the numbers are kept.
#
# Do not confuse it with ``retain_grad``, which keeps a gradient and no graph.
#
# Let us walk twice in a loop, and collect both gradients:
#
# .. predict::
#    :value: 1
#    :for: the first of the two
#    :wrong: first row: This was in the list after the first call. The second call has added
#          to the same tensor.;
#       second row: This is what the second call asked for. It was added to what was there.;
#       rows apart: These are the two rows apart, as one would want them. The list holds one
#          and the same tensor twice.;
#       row, then sum: It would be so if append had copied the numbers. The first place
#          holds the tensor that the second call adds to.;
#       first row twice: The second call asked for another row.
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
# The list holds the *sum* of the two rows, twice. For the second entry this was to be
# expected, because ``backward`` does not replace what is in ``picture.grad`` but adds to
# it, as on the earlier pages. But why is the first entry the sum as well, after we had put
# ``[1, 3, 0]`` there?
#
# ``collected.append(picture.grad)`` does not copy any numbers. It stores the tensor itself,
# the one that ``picture.grad`` is. The second call adds *into* this tensor, and so it
# changes what is in the list. Both entries are one and the same tensor. We wanted to keep
# cat and dog apart, and got what ones would have given us.
#
# In training, the adding is useful. Suppose that a batch does not fit into the memory. Then
# you process it in pieces, and call ``backward`` for each. The gradients of the pieces add
# up until the optimizer takes its step
# (:ref:`how to divide a mean among the pieces <accumulated-mean>`). The adding is also the
# reason why a training loop calls ``zero_grad()`` for each step.
#
# Row by row
# ----------
#
# Here the adding is in the way. There is a function that *returns* the gradient, and adds
# it to nothing:

rows = []
for v in torch.eye(2):
    (row,) = torch.autograd.grad(scores, picture, v, retain_graph=True)
    rows.append(row)
table = torch.stack(rows)
table

# %%
# ``torch.autograd.grad`` takes the same ``v`` and computes the same product, but it leaves
# ``picture.grad`` as it is. It returns a tuple with one entry for each input that you asked
# about, hence the comma after ``row``. You can also stay with ``backward``, and put
# ``picture.grad = None`` in front of each call. Then there is nothing to add to.
#
# The two rows, one under the other, are the Jacobian. This is the plainest way to get it:
# one walk for each output.
#
# A 1 among zeros is not the only question about single outputs. Suppose that the network
# hesitates between the two animals.
#
# .. predict::
#    :expects: v
#    :wrong: cat alone: This asks what speaks for the cat. What speaks for the dog is not
#          taken away.;
#       both together: This adds up the two scores.;
#       dog rather: This asks what speaks for the dog rather than for the cat.
#
#    Which ``v`` asks what speaks for the cat *rather than* for the dog?

import pullback

classes, pixels = ["cat", "dog"], ["left ear", "right ear", "tongue"]
pullback.draw.vjp([1, -1], table, rows=classes, columns=pixels, result_name="cat − dog")

# %%
# The number that you care about is the cat's score *minus* the dog's, so ``v`` is
# ``[1, -1]``. The cat's score does not depend on the tongue at all. But in the comparison
# the tongue speaks against the cat, at the rate of −5, because a bright tongue makes a dog.
# With ``[1, 0]`` you would not have seen that.
#
# In the next drawing you can change the pixels as well. The button *one-hot* goes from row
# to row:

rather = torch.tensor([1.0, -1.0])
pullback.live(network, picture.detach(), rather, rows=classes, columns=pixels)

# %%
# Many pictures and two classes
# -----------------------------
#
# Usually there is a batch of pictures. Here are three. Their scores have the shape
# ``(3, 2)``, with a row for each picture and a column for each class:

album = torch.tensor(
    [[1.0, 2.0, 0.0], [4.0, 2.0, 1.0], [0.0, 1.0, 3.0]], requires_grad=True
)
scores = torch.stack([network(picture) for picture in album])
scores

# %%
# Look at the column of the cat. On how many pictures does each of its scores depend? And
# which scores depend on the same picture?
#
# .. predict::
#    :value: 1
#    :item: 1
#    :for: the three numbers
#    :code:
#    :wrong: own brightness: Here each ear gets its own brightness. In a product the rate is
#          the other factor.;
#       for the dog: This is the answer for the dog.;
#       cat and dog: Here cat and dog are added up, as with ones for both classes.;
#       score: This is the score of the cat for that picture. The question is how fast it
#          rises with each pixel.;
#       first picture: This is the row of the first picture.;
#       all pictures: Here the rows of all three pictures are added up. Each picture has its
#          own row in the result.
#
#    Which ``v`` asks about the *cat* in all three pictures with a single call? And which
#    three numbers come back for the second picture, whose pixels are 4, 2 and 1?

answers = []
for k in range(2):
    v = torch.zeros_like(scores)
    v[:, k] = 1.0  # all pictures, one class
    (gradient,) = torch.autograd.grad(scores, album, v, retain_graph=True)
    answers.append(gradient)
print("cat:", answers[0])
print("dog:", answers[1])

# %%
# Each score of the column comes from another picture, and the result has a row for each
# picture. So one call can ask about the whole column. One call for both columns would not
# do: a picture's two scores would send their gradients to the same row, where they are
# added up. So it took two calls for six gradients. As long as no picture has an influence
# on the scores of another, you need one call for each class, however many pictures there
# are.
#
# .. admonition:: Remember
#
#    - A one-hot ``v`` multiplies the row of one output by 1, and all other rows by 0. Here
#      ``scores[0].backward()`` does the same.
#    - To walk back from the same ``y`` again, pass ``retain_graph=True`` in all calls but
#      the last.
#    - ``backward`` adds to ``x.grad``. On this page it added into the tensor that was
#      there. Empty ``x.grad``, or use ``torch.autograd.grad``, which returns the product
#      instead.
#    - One call for each output gives the table. In a batch, one call for each class is
#      enough, if no sample has an influence on the scores of another.
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
#    the label. Below is a small network with labels drawn by chance. The first row of the
#    result is the gradient of one score, that of the first image for its own class:

torch.manual_seed(0)
classifier = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10)
)
images = torch.randn(8, 4, requires_grad=True)
labels = torch.randint(10, (8,))
y = classifier(images)
v = torch.nn.functional.one_hot(labels, 10).to(y)
(together,) = torch.autograd.grad(y, images, v, retain_graph=True)
(one_score,) = torch.autograd.grad(y[0, labels[0]], images)
print("row 0 of one call:", together[0])
print("its score alone:  ", one_score[0])

# %%
# .. dropdown:: All rows in one call
#
#    A loop in Python is slow when there are many outputs. You can hand over all the ``v``
#    at once, and say with ``is_grads_batched=True`` that you mean it. Without it, the
#    matrix would be taken for a single ``v`` of the wrong shape, and refused. There are
#    still two products to compute, but PyTorch does them side by side. For many outputs
#    this is usually much faster (:ref:`the times that we measured <ways-measured>`). A few
#    operations cannot be done side by side and raise an error. Neither can a network that
#    ``torch.compile`` has translated, to make it faster. Then try the loop, which most of
#    them take.

scores = network(picture)
(at_once,) = torch.autograd.grad(scores, picture, torch.eye(2), is_grads_batched=True)
at_once

# %%
# .. dropdown:: Three questions about the second walk
#
#    *Why not ask for the dog's score alone, with* ``scores[1].backward()``? That walk comes
#    to ``scores``, too. There the dog's score gets the price 1 and the cat's gets 0, and
#    the walk goes on from both of them. From the cat's score it comes to the product of the
#    ears. The numbers of this product are gone, and so the walk is refused.
#
#    *Why does a second walk sometimes work without* ``retain_graph``? A sum needs no saved
#    numbers. So a second walk through sums alone is not refused, unless the program has
#    been compiled with ``torch.compile``.
#
#    *What may I do between the two walks?* Do not write into the tensors that were saved.
#    PyTorch keeps the tensors that the operations used, such as ``picture``, and no copies
#    (:ref:`rows-keep-the-graph`). If you train on several devices, there is more to know
#    (:ref:`ddp-several-backwards`).
#
# .. dropdown:: Where this ends
#
#    - *y is x in another shape*, such as ``x.view(2, 2)``. Then ``x.grad`` may lie in the
#      memory of your ``v``, and change with it. Make a new ``v`` for each call, as on this
#      page, and write nothing into an old one.
#    - *y is a matrix.* Then ``y[k]`` is a whole row. Ask for a single number,
#      ``y[i, k].backward()``.
#    - *A row that you do not want holds infinity or NaN.* A one-hot ``v`` multiplies it by
#      0, but 0 times infinity is NaN, and so is 0 times NaN. Compute this output again,
#      without the others (:ref:`masked-nan`).
#    - *You call backward with* ``create_graph=True``. Then it puts the sum into a new
#      tensor, and the old one stays as it was. Do not rely on either: keep
#      ``picture.grad.clone()``, which is a copy.
#    - *A layer mixes the samples of a batch.* Then a batch in pieces has other gradients
#      than the whole, and one call for each class no longer keeps the pictures apart. The
#      next page is about such layers.
#
# .. dropdown:: How we checked this page
#
#    We compare the rows with a table of small steps, the batch of ``v`` and calls of
#    ``backward`` with the loop, and the answer with one call for each image. Each case of
#    *Where this ends* is tried.

import warnings

at, h = picture.detach().double(), 1e-6
steps = h * torch.eye(3, dtype=torch.float64)
nudged = torch.stack([(network(at + s) - network(at - s)) / (2 * h) for s in steps], dim=1)
torch.testing.assert_close(table.double(), nudged)
assert torch.equal(at_once, table)
scores, kept = network(picture), []
for v in torch.eye(2):
    picture.grad = None
    scores.backward(v, retain_graph=True)
    kept.append(picture.grad)
assert torch.equal(torch.stack(kept), table)
assert collected[0] is collected[1]
assert torch.equal(collected[0], table.sum(0))
with_ones = torch.autograd.grad(network(picture), picture, torch.ones(2))[0]
assert torch.equal(with_ones, table.sum(0))
for one, cat, dog in zip(album.detach(), *answers, strict=True):
    assert cat.tolist() == [one[1], one[0], 0]
    assert dog.tolist() == [0, 0, 5]

(for_the_cat,) = torch.autograd.grad(network(picture), picture, rather)
assert for_the_cat.tolist() == [1, 3, -5]

y = network(picture)
y.retain_grad()
y[0].backward()
assert y.grad.tolist() == [1, 0]
refused = ""
try:
    y[1].backward()  # through the product of the ears as well
except RuntimeError as error:
    refused = str(error)
assert "second time" in refused

picture.grad, refused = None, ""
scores = network(picture)
scores.backward(torch.eye(2)[0])
try:
    scores.backward(torch.eye(2)[1])
except RuntimeError as error:
    refused = str(error)
assert "second time" in refused
left = picture.grad

for image, label, gradient in zip(images.detach(), labels, together, strict=True):
    image.requires_grad_()
    (alone,) = torch.autograd.grad(classifier(image)[label], image)
    torch.testing.assert_close(gradient, alone)

flat = torch.ones(4, requires_grad=True)
prices = torch.arange(4.0).reshape(2, 2)
flat.view(2, 2).backward(prices)
prices.zero_()
print("x.grad has changed with v:", not flat.grad.any())

corner = torch.tensor([0.0, 4.0], requires_grad=True)  # at 0 a root has an infinite slope
y = torch.stack([corner.sqrt().sum(), corner.sum()])
(one_hot,) = torch.autograd.grad(y, corner, torch.eye(2)[1], retain_graph=True)
(by_index,) = torch.autograd.grad(y[1], corner)
assert one_hot[0].isnan()
assert by_index[0].isnan()
assert torch.autograd.grad(corner.sum(), corner)[0].tolist() == [1, 1]  # without the roots

before = corner.sum()
before.backward()
old = corner.grad
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that such a call may keep memory
    corner.sum().backward(create_graph=True)
assert old.tolist() == [1, 1]
assert corner.grad.tolist() == [2, 2]

norm = torch.nn.BatchNorm1d(2)  # in training mode
batch = torch.tensor([[1.0, 2.0], [4.0, 2.5], [0.0, 1.0], [2.0, 7.0]], requires_grad=True)
mixed = norm(batch)
(column,) = torch.autograd.grad(mixed[:, 0].sum(), batch, retain_graph=True)
(own,) = torch.autograd.grad(mixed[0, 0], batch, retain_graph=True)
assert not torch.allclose(column[0], own[0])
(whole,) = torch.autograd.grad((mixed**3).sum(), batch)
halves = torch.cat([norm(half) for half in batch.split(2)])
(halves,) = torch.autograd.grad((halves**3).sum(), batch)
assert not torch.allclose(whole, halves)

guesses = {  # wrong ones, of which the boxes above say what they are
    "cat alone": torch.eye(2)[0],
    "both together": torch.eye(2).sum(0),
    "dog rather": torch.eye(2)[1] - torch.eye(2)[0],
    "The row of the dog alone": torch.equal(left, table[1]),
    "The sum of the two rows": torch.equal(left, table.sum(0)),
    "An error": bool(refused),
    "first row": table[0],
    "second row": table[1],
    "rows apart": table,
    "row, then sum": torch.stack([table[0], table.sum(0)]),
    "first row twice": 2 * table[0],
    "own brightness": album.detach()[1] * torch.tensor([1.0, 1.0, 0.0]),
    "for the dog": answers[1][1],
    "cat and dog": answers[0][1] + answers[1][1],
    "score": network(album[1])[0].detach(),
    "first picture": answers[0][0],
    "all pictures": answers[0].sum(0),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


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
