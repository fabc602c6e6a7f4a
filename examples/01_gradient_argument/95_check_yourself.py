r"""
.. _check-yourself-1:

Check yourself: nine programs
=============================

You have seen where ``v`` comes from, which shape it has and what it does. Here are nine
pieces of programs that you have not seen before. Answer each question before you open the
answer, with pencil and paper if you like. There is no hurry, and if you miss one, the
answer names the page that explains it.
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
#    ``images``, ``(16, 3, 32, 32)``. The network has parameters, too. Each that requires
#    a gradient, and was used, gets a ``.grad`` of its own shape from the same call.
#    (:ref:`shapes-of-v`)
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
# What is in ``x.grad``? Write down the table first.
#
# .. dropdown:: Answer
#
#    The rows are :math:`(x_1,x_0)=(2,1)`, :math:`(1,3)` and :math:`(0,2x_1)=(0,4)`. So
#    ``x.grad`` is :math:`1\cdot(2,1)+10\cdot(1,3)+100\cdot(0,4)=(12,431)`.
#    (:ref:`every-number-by-hand`)

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.stack([x[0] * x[1], x[0] + 3 * x[1], x[1] ** 2])
y.backward(torch.tensor([1.0, 10.0, 100.0]))
second = x.grad
print(second)

import pullback


def three(x):
    return torch.stack([x[0] * x[1], x[0] + 3 * x[1], x[1] ** 2])


pullback.live(three, x.detach(), torch.tensor([1.0, 10.0, 100.0]))

# %%
# 3 · Twice
# ---------
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
# 4 · Somebody else's gradient
# ----------------------------
#
# A renderer that is not written in PyTorch takes the vertices of a shape, ``vertices`` of
# the shape ``(100, 3)``, which your network has computed. It returns how well the picture
# fits (larger is better), and an array ``push`` of the shape ``(100, 3)`` with the
# derivative of this number with respect to each coordinate. Your optimizer minimises.
# Which line do you write before ``optimizer.step()``?
#
# .. dropdown:: Answer
#
#    ``vertices.backward(-torch.from_numpy(push).to(vertices))``. ``push`` is the gradient
#    of what comes after ``vertices``, so it is ``v``. The minus sign turns "fits well"
#    into a cost, which is what an optimizer wants to make small.
#    (:ref:`where-v-comes-from`)
#
# 5 · Ones
# --------
#
# ``y = torch.softmax(scores, dim=1)`` has the shape ``(8, 10)``: eight samples and ten
# classes. Somebody calls ``y.backward(torch.ones_like(y))`` and wonders why
# ``scores.grad`` is zero everywhere, up to rounding. Why is it, and would ``dim=0`` help?
#
# .. dropdown:: Answer
#
#    Ones ask for the gradient of the sum of all entries. In each row the ten
#    probabilities add up to 1, whatever the scores are, so the sum is always 8 and cannot
#    change. With ``dim=0`` the columns add up to 1, and the sum is always 10: the same
#    zero. (:ref:`when-ones-mislead`)

torch.manual_seed(0)  # any scores will do
scores = torch.randn(8, 10, dtype=torch.float64, requires_grad=True)
fifth = []
for dim in (0, 1):
    y = torch.softmax(scores, dim)
    fifth += torch.autograd.grad(y, scores, torch.ones_like(y))
    print(f"dim={dim}: largest entry {fifth[-1].abs().max():.4f}")

# %%
# 6 · Slopes of a batch
# ---------------------
#
# ``network`` maps ``(32, 2)`` to ``(32, 1)``. It consists of ``Linear``, ``BatchNorm1d``,
# ``Tanh`` and ``Linear``, and it is being trained. Its author calls
# ``torch.autograd.grad(y, x, torch.ones_like(y))`` and takes row ``i`` of the result to
# be the slope of output ``i`` at sample ``i``. Is it?
#
# .. dropdown:: Answer
#
#    Not while it is in training mode. BatchNorm uses the mean and the variance of the
#    batch, so each output depends on all samples, and row ``i`` is the sum of what sample
#    ``i`` does to all 32 outputs. After ``network.eval()`` it is the slope of the network
#    in eval mode, which is a different function. For the slope in training mode, ask one
#    output at a time. (:ref:`when-ones-mislead`)
#
# 7 · A weight for each task
# --------------------------
#
# A network has two losses, ``losses = torch.stack([depth_loss, colour_loss])``, and
# somebody trains it with ``(losses**2).sum().backward()``. At the moment the losses are
# 0.1 and 0.4. Which ``v`` arrives at ``losses``? Which of the two tasks counts more, and
# what happens to both weights as the losses become smaller?
#
# .. dropdown:: Answer
#
#    The derivative of each square is twice the loss, so ``v`` is ``[0.2, 0.8]``. The task
#    with the larger loss counts more, four times as much at the moment, and as both
#    losses become smaller, so do both weights. (:ref:`where-v-comes-from`,
#    :ref:`the-v-you-choose`)
#
# 8 · One output each
# -------------------
#
# ``y`` has the shape ``(3,)`` and ``x`` the shape ``(4,)``. An author wants the whole
# table and writes ``y.backward(torch.eye(3))``. What happens, and what should the line
# be?
#
# .. dropdown:: Answer
#
#    *Mismatch in shape*: ``v`` looks like a ``(3, 3)``, and ``y`` is a ``(3,)``. The rows
#    of ``torch.eye(3)`` are the right three vectors, but they have to be passed one by
#    one, or as a batch:
#    ``torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)`` returns a tuple
#    with the table of the shape ``(3, 4)``. (:ref:`one-output-at-a-time`)

x = torch.arange(4.0, requires_grad=True)
y = torch.stack([x.sum(), x.prod(), (x**2).sum()])
try:
    y.backward(torch.eye(3))
except RuntimeError as error:
    refused = str(error)
    print(refused)
(table,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
table

# %%
# 9 · A velocity
# --------------
#
# ``t`` holds 500 moments and has the shape ``(500, 1)``. ``network`` consists of
# ``Linear``, ``Tanh`` and ``Linear``, and ``height = network(t)`` has the shape
# ``(500, 1)``. Its author wants the velocity at every moment, and calls
# ``torch.autograd.grad(height, t, torch.ones_like(height))``. A colleague says that ones
# mix the samples, and that 500 calls are needed. Who is right?
#
# .. dropdown:: Answer
#
#    The author is. Each layer of this network treats every moment by itself, and each
#    moment has one output. So each input is used by only one output, and ones keep the 500
#    slopes apart. With two coordinates in place of the height there would be two calls, one
#    for each. Only with a layer such as BatchNorm in training mode would the colleague be
#    right. (:ref:`ones`)

path = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
t = torch.linspace(0, 1, 500)[:, None].requires_grad_()
height = path(t)
(velocity,) = torch.autograd.grad(height, t, torch.ones_like(height), retain_graph=True)
one_call = torch.autograd.grad(height[123, 0], t)[0][123]
torch.allclose(velocity[123], one_call)

# %%
# .. dropdown:: How we checked this page
#
#    Each answer is computed here and compared with what it says above.

network = torch.nn.Sequential(
    torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
).double()
samples = torch.randn(32, 2, dtype=torch.float64, requires_grad=True)


def first_row(training):
    network.train(training)
    y = network(samples)
    (ones,) = torch.autograd.grad(y, samples, torch.ones_like(y), retain_graph=True)
    (own,) = torch.autograd.grad(y[0, 0], samples)
    return ones[0], own[0]


images = torch.randn(16, 3, 32, 32, requires_grad=True)
classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
classifier(images).backward(torch.ones(16, 10))

assert images.grad.shape == (16, 3, 32, 32)
assert second.tolist() == [12, 431]
assert third == 12
for zero in fifth:
    torch.testing.assert_close(zero, torch.zeros_like(zero))
assert not torch.allclose(*first_row(training=True))
assert torch.allclose(*first_row(training=False))
assert refused.startswith("Mismatch in shape")
assert table.shape == (3, 4)
torch.testing.assert_close(velocity[123], one_call)

w = torch.tensor([0.1, 4.0], requires_grad=True)
losses = torch.stack([w[0], w.prod()])
losses.retain_grad()
(losses**2).sum().backward()
torch.testing.assert_close(losses.grad, torch.tensor([0.2, 0.8]))

vertices = (w[:, None] * torch.ones(2, 3)) ** 2
push = torch.full((2, 3), 0.5, dtype=torch.float64).numpy()
(carried,) = torch.autograd.grad(vertices, w, torch.from_numpy(push).to(vertices))
torch.testing.assert_close(carried, 3 * 0.5 * 2 * w.detach())  # three coordinates each

# %%
# **Next:** part 2 is about the table itself. It begins with
# :ref:`how to read one <reading-a-jacobian>`.
#
# .. asked: test yourself on v; quiz about the gradient argument; exercises on backward
#    with questions and answers
