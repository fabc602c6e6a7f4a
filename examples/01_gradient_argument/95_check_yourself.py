r"""
.. _check-yourself-1:

Check yourself: twelve programs
===============================

You have seen where ``v`` comes from, which shape it has and what it does. Here are twelve
pieces of programs that you have not seen before. Some are wrong, and some only look wrong.
Answer each question before you open the answer, with pencil and paper if you like. If you
miss one, the answer names the page that explains it.
"""

# %%
# 1 · A shape
# -----------
#
# ``images`` has the shape ``(16, 3, 32, 32)`` and requires gradients. ``scores =
# network(images)`` has the shape ``(16, 10)``. What is the shape of ``v`` in
# ``scores.backward(v)``, and what is the shape of ``images.grad``?
#
# .. dropdown:: Answer
#
#    ``v`` looks like ``scores``, so it is ``(16, 10)``. ``images.grad`` looks like
#    ``images``, ``(16, 3, 32, 32)``. (:ref:`shapes-of-v`)
#
# 2 · By hand
# -----------
#
# .. code-block:: python
#
#    x = torch.tensor([1.0, 2.0], requires_grad=True)
#    y = torch.stack([x[0] * x[1], x[0] + 3 * x[1], x[1] ** 2])
#    y.backward(torch.tensor([1.0, 10.0, 100.0]))
#
# What is in ``x.grad``?
#
# .. dropdown:: Answer
#
#    The rows of the table are :math:`(x_1,x_0)=(2,1)`, :math:`(1,3)` and
#    :math:`(0,2x_1)=(0,4)`. So ``x.grad`` is
#    :math:`1\cdot(2,1)+10\cdot(1,3)+100\cdot(0,4)=(12,431)`.
#    (:ref:`every-number-by-hand`)

import torch

import pullback


def three(x):
    return torch.stack([x[0] * x[1], x[0] + 3 * x[1], x[1] ** 2])


second = pullback.live(three, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0, 100.0]))
second

# %%
# 3 · A loop
# ----------
#
# .. code-block:: python
#
#    x = torch.tensor(3.0, requires_grad=True)
#    for _ in range(2):
#        y = x**2
#        y.backward()
#    print(x.grad)
#
# The author wanted the second derivative, which is 2. What is printed?
#
# .. dropdown:: Answer
#
#    12. Each call adds the *first* derivative, 6, to ``x.grad``. Calling ``backward`` twice
#    does not differentiate twice. (:ref:`one-output-at-a-time`. How to get the second
#    derivative is the subject of a page in part 2, :ref:`once-more`.)

x = torch.tensor(3.0, requires_grad=True)
for _ in range(2):
    y = x**2
    y.backward()
third = x.grad
third

# %%
# 4 · Slopes of a batch
# ---------------------
#
# ``network`` maps ``(32, 2)`` to ``(32, 1)``. It consists of ``Linear``, ``BatchNorm1d``,
# ``Tanh`` and ``Linear``, and it is being trained. Its author calls
# ``torch.autograd.grad(y, x, torch.ones_like(y))`` and takes row ``i`` of the result to
# be the slope of output ``i`` at sample ``i``. Is it? And what about the gradients of
# the weights, which the training uses: are they wrong as well?
#
# .. dropdown:: Answer
#
#    The slopes are not what the author thinks. In training mode each output depends on all
#    samples, and row ``i`` holds what sample ``i`` does to all 32 outputs, added up. Call
#    ``network.eval()`` first, if you mean the network as it is used after training: then
#    ones are right. In training mode the network is another function. If you want its
#    slopes, ask one output at a time.
#
#    With the gradients of the weights there is nothing wrong, as long as the loss is
#    made of the outputs alone. Training wants the gradient of the loss of the whole batch.
#    (:ref:`when-ones-mislead`)
#
# 5 · The whole table
# -------------------
#
# ``x`` has the shape ``(4,)``, and ``y = torch.stack([x.sum(), x.prod(), (x**2).sum()])``
# the shape ``(3,)``. An author wants the whole table and writes
# ``y.backward(torch.eye(3))``. An error message comes, and the author writes instead
#
# .. code-block:: python
#
#    rows = [torch.autograd.grad(y, x, v)[0] for v in torch.eye(3)]
#
# which ends with another error. What did the two messages say, and what should the line be?
#
# .. dropdown:: Answer
#
#    First *Mismatch in shape*: ``v`` looks like a ``(3, 3)``, and ``y`` is a ``(3,)``.
#    Then, at the second row, *Trying to backward through the graph a second time*. With
#    ``retain_graph=True`` the loop works, and so does a single call,
#    ``torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)``.
#    (:ref:`shapes-of-v`, :ref:`one-output-at-a-time`)

x = torch.arange(4.0, requires_grad=True)
y = torch.stack([x.sum(), x.prod(), (x**2).sum()])
refused = []
for attempt in (
    lambda: y.backward(torch.eye(3)),
    lambda: [torch.autograd.grad(y, x, v)[0] for v in torch.eye(3)],
):
    try:
        attempt()
    except RuntimeError as error:
        refused.append(str(error))
        print(refused[-1].partition("(")[0])

# %%
# 6 · Somebody else's gradient
# ----------------------------
#
# A renderer that is not written in PyTorch takes the corner points of a 3D object,
# ``vertices``, a tensor of the shape ``(100, 3)``, which your network has computed. It
# returns a number, which is larger if the picture fits better, and a NumPy array ``push``
# of the shape ``(100, 3)`` with the derivative of this number with respect to each
# coordinate.
# ``optimizer.zero_grad()`` has been called. Which line is missing before
# ``optimizer.step()``?
#
# .. dropdown:: Answer
#
#    ``vertices.backward(-torch.from_numpy(push).to(vertices))``. ``push`` is the gradient
#    of what comes after ``vertices``, so it is ``v``. The minus is the point. We want the
#    number to grow. But an optimizer is given the gradient of a number, and makes this
#    number smaller. So we give it the gradient of *minus* the number. If you had the minus,
#    you had the answer.
#    ``to(vertices)`` gives ``v`` the dtype and the device of ``vertices``.
#    (:ref:`where-v-comes-from`)
#
# 7 · Two sentences
# -----------------
#
# A batch of two sentences has been filled up to four words each. ``losses`` has the shape
# ``(2, 4)``, and ``mask`` is 1 for the real words, three in the first sentence and two in
# the second, and 0 for the padding. An author calls ``(losses * mask).mean().backward()``.
# Which ``v`` arrives at ``losses``? Is it the mean over the words?
#
# A colleague proposes ``((losses * mask).sum(1) / mask.sum(1)).mean()``, the mean of the
# two sentences' means. Does a word of the short sentence count as much there as one of the
# long sentence?
#
# .. dropdown:: Answer
#
#    1/8 at the real words and 0 at the padding. The mean over the words would have 1/5
#    there. So all gradients are too small, by a factor of 5/8 here, and the factor changes
#    from batch to batch with the amount of padding. ``(losses * mask).sum() / mask.sum()``
#    is the mean over the words, if there is at least one, and if nothing at the padding is
#    infinite or NaN.
#
#    In the colleague's line each sentence counts one half. The three words of the long one
#    share it, and so do the two of the short one: 1/6 against 1/4. A word of the short
#    sentence counts more. (:ref:`the-v-you-choose`)

mask = torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
words = torch.ones(2, 4, requires_grad=True)
(padded,) = torch.autograd.grad((words * mask).mean(), words)
of_sentences = ((words * mask).sum(1) / mask.sum(1)).mean()
(by_sentence,) = torch.autograd.grad(of_sentences, words)
print(padded)
by_sentence

# %%
# 8 · A velocity
# --------------
#
# ``t`` holds 500 moments and has the shape ``(500, 1)``. ``network`` consists of
# ``Linear``, ``Tanh`` and ``Linear``, and ``height = network(t)`` has the shape
# ``(500, 1)``. Its author wants the velocity at every moment, and calls
# ``torch.autograd.grad(height, t, torch.ones_like(height))``. A colleague says that ones
# mix the samples, and that 500 calls are needed. Who is right? And how many calls are
# needed if the network returns two coordinates, ``(500, 2)``?
#
# .. dropdown:: Answer
#
#    The author is right. Each layer of this network treats every moment by itself, and each
#    moment has one output. So ones keep the 500 slopes apart. With two coordinates there
#    are two calls, one for each coordinate. (:ref:`ones`, :ref:`one-output-at-a-time`)
#
# 9 · A penalty
# -------------
#
# A loss is computed on another machine, from the predictions alone. It sends back its
# gradient, ``received``:
#
# .. code-block:: python
#
#    prediction = network(images)
#    received = ask_the_other_machine(prediction.detach())
#    prediction.backward(received)
#
# Later the loss is changed. It gets a penalty, 0.01 times the sum of the squares of the
# network's weights. The other machine has a copy of these weights, so it can compute the
# new loss. The three lines above have not been changed. Which line is missing, if any?
#
# .. dropdown:: Answer
#
#    ``penalty.backward()`` is missing, where ``penalty`` is computed from the network's own
#    weights. The penalty depends on them without passing through ``prediction``. When a
#    prediction changes, the penalty stays the same. So ``received`` is what it was before,
#    and the penalty is not in it. The second call adds the gradient of the penalty to what
#    is already in ``.grad``. (:ref:`where-v-comes-from`)
#
# 10 · A weight for each task
# ---------------------------
#
# A network has two losses, ``losses = torch.stack([depth_loss, color_loss])``, and
# somebody trains it with ``(losses**2).sum().backward()``. At the moment the losses are
# 0.1 and 0.4. Which ``v`` arrives at ``losses``? Which of the two tasks counts more, and
# what happens to both entries of ``v`` as the losses become smaller?
#
# .. dropdown:: Answer
#
#    The derivative of each square is twice the loss, so ``v`` is ``[0.2, 0.8]``. The task
#    with the larger loss counts more, four times as much at the moment, and as both
#    losses become smaller, so do both entries of ``v``. Suppose that each loss is half as
#    large, and still changes at the same rates with the weights. Then ``v`` is half as
#    large. So the gradients are half as large, and so are the steps of plain gradient
#    descent. (:ref:`where-v-comes-from`, :ref:`the-v-you-choose`)
#
# 11 · One line, four questions
# -----------------------------
#
# Somebody wants to know to which pixels a network reacts, and writes
#
# .. code-block:: python
#
#    probabilities = torch.softmax(network(images), dim=1)
#    probabilities.backward(torch.ones_like(probabilities))
#    saliency = images.grad
#
# ``images`` is the batch of the first question, and there are ten classes. Which shape does
# ``v`` have? What comes back, in which shape? What does it mean? And is it what was wanted?
#
# .. dropdown:: Answer
#
#    ``v`` has the shape ``(16, 10)``, and ``saliency`` the shape ``(16, 3, 32, 32)``. It is
#    the gradient of the sum of all probabilities. In each row they add up to 1, so the sum
#    is always 16. A number that cannot change has the gradient zero, and so ``saliency`` is
#    zero everywhere, up to rounding. Not wanted! To ask about one class, put a 1 into its
#    column and zeros elsewhere. (:ref:`when-ones-mislead`, :ref:`one-output-at-a-time`)

torch.manual_seed(0)  # any images and any network will do
images = torch.randn(16, 3, 32, 32, dtype=torch.float64, requires_grad=True)
network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
probabilities = torch.softmax(network.double()(images), dim=1)
probabilities.backward(torch.ones_like(probabilities))
saliency = images.grad
print(tuple(saliency.shape), f"largest entry: {saliency.abs().max():.4f}")

# %%
# 12 · A program without a loss
# -----------------------------
#
# There is no loss in these lines. And yet they stand in a loop in which the network learns
# to predict:
#
# .. code-block:: python
#
#    prediction = network(x)  # of the shape (32, 1), like target
#    prediction.backward((prediction - target).detach() / 32)
#    optimizer.step()
#
# Which number does this program make small, and what has its author forgotten?
#
# .. dropdown:: Answer
#
#    ``v`` is the gradient of what comes next, so ask which number has the
#    derivative :math:`(\text{prediction}-\text{target})/32` with respect to each
#    prediction. The square of an error has the derivative
#    :math:`2\,(\text{prediction}-\text{target})`. Half of the square has
#    :math:`\text{prediction}-\text{target}`, and to divide by 32 on top is to take the mean
#    over the samples. So the program makes half of the mean squared error small.
#
#    ``optimizer.zero_grad()`` has been forgotten, so the gradients of all steps add up.
#    (:ref:`where-v-comes-from`, :ref:`one-output-at-a-time`)

fit = torch.nn.Linear(2, 1)
features, target = torch.randn(32, 2), torch.randn(32, 1)
prediction = fit(features)
prediction.backward((prediction - target).detach() / 32)
half = torch.nn.functional.mse_loss(fit(features), target) / 2
torch.allclose(fit.weight.grad, torch.autograd.grad(half, fit.weight)[0])

# %%
# How many did you have?
# ----------------------
#
# Count a program if you had all of its questions. With ten or more, you can take a line
# with ``backward(v)`` that you have never seen, and say which shape ``v`` must have, what
# comes back, what it means, and whether it is what the author wanted. With fewer, go to the
# pages that the answers name, and come back on another day. On the first page the error
# message asked you for a ``v``, and you could only copy one. Now you know what it asks.
#
# .. dropdown:: How we checked this page
#
#    Each answer is computed here and compared with what it says above.

assert images.grad.shape == (16, 3, 32, 32)
assert second.result.tolist() == [12, 431]
assert third == 12

push = torch.full((2, 3), 0.5, dtype=torch.float64).numpy()
w = torch.tensor([0.1, 4.0], requires_grad=True)
vertices = (w[:, None] * torch.ones(2, 3)) ** 2
(carried,) = torch.autograd.grad(vertices, w, -torch.from_numpy(push).to(vertices))
torch.testing.assert_close(carried, -3 * 0.5 * 2 * w.detach())  # three coordinates each

mismatch, again = refused
assert mismatch.startswith("Mismatch in shape")
assert again.startswith("Trying to backward through the graph a second time")
y = torch.stack([x.sum(), x.prod(), (x**2).sum()])
(table,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(3)]
assert torch.equal(table, torch.stack(rows))

mixed = torch.nn.Sequential(
    torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
).double()
samples = torch.randn(32, 2, dtype=torch.float64, requires_grad=True)


def first_row(training):
    mixed.train(training)
    y = mixed(samples)
    (ones,) = torch.autograd.grad(y, samples, torch.ones_like(y), retain_graph=True)
    (own,) = torch.autograd.grad(y[0, 0], samples)
    return ones[0], own[0]


assert not torch.allclose(*first_row(training=True))
assert torch.allclose(*first_row(training=False))

torch.testing.assert_close(padded, mask / 8)
torch.testing.assert_close(by_sentence, mask / mask.sum(1, keepdim=True) / 2)
(mean,) = torch.autograd.grad((words * mask).sum() / mask.sum(), words)
torch.testing.assert_close(mean, mask / 5)
assert ((words * 0).sum() / torch.zeros(2, 4).sum()).isnan()

losses = torch.stack([w[0], w[0] * w[1]])
losses.retain_grad()
(losses**2).sum().backward()
torch.testing.assert_close(losses.grad, torch.tensor([0.2, 0.8]))

fit.zero_grad()
output = fit(features)
torch.nn.functional.mse_loss(output, target).backward(retain_graph=True)
(0.01 * (fit.weight**2).sum()).backward()
both = torch.nn.functional.mse_loss(output, target) + 0.01 * (fit.weight**2).sum()
torch.testing.assert_close(fit.weight.grad, torch.autograd.grad(both, fit.weight)[0])

path = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
t = torch.linspace(0, 1, 500)[:, None].requires_grad_()
place = path(t)
for k in range(2):
    (velocity,) = torch.autograd.grad(place[:, k].sum(), t, retain_graph=True)
    (alone,) = torch.autograd.grad(place[123, k], t, retain_graph=True)
    torch.testing.assert_close(velocity[123], alone[123])

torch.testing.assert_close(saliency, torch.zeros_like(saliency))
for dim in (0, 1):  # along either, the sum of all entries is a constant
    scores = torch.randn(8, 10, dtype=torch.float64, requires_grad=True)
    y = torch.softmax(scores, dim)
    (zero,) = torch.autograd.grad(y, scores, torch.ones_like(y))
    torch.testing.assert_close(zero, torch.zeros_like(zero))

# %%
# **Next:** part 2 is about the table itself. It begins with
# :ref:`how to read one <reading-a-jacobian>`.
#
# .. asked: test yourself on v; quiz about the gradient argument; exercises on backward
#    with questions and answers
# .. words: quiz, practice, exam, solutions, interview questions, homework
