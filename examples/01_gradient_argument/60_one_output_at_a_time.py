r"""
.. _one-output-at-a-time:

One output at a time
====================

A network puts a picture into one of ten classes, and you want to know which pixels speak
for *cat*, and which for *dog*. These are two questions, and their answers should not be
added up. In our house the two questions are how the heat depends on the stoves, and how the
fuel does. The answer is two gradients, and one call of ``backward`` gives one. So you call
it twice, and on the way you run into two surprises that catch nearly everybody.
"""

# %%
# A single 1
# ----------
#
# In our house, the price 1 for heat and 0 for fuel left only the first row of the table.
# Such a ``v``, with a single 1 and zeros elsewhere, is called *one-hot*. The place of the 1
# selects the row:

import torch


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = house(x)
y.backward(torch.tensor([1.0, 0.0]))
x.grad

# %%
# You may also take the entry out first and call ``y[0].backward()``, which needs no ``v``
# because ``y[0]`` is a number. On the way back, the indexing hands its 1 to the entry that
# you took, and zeros to all others. So indexing makes the same one-hot ``v`` for you.
#
# Two surprises
# -------------
#
# Now we ask for the second row, on the same ``y``:

try:
    y.backward(torch.tensor([0.0, 1.0]))
except RuntimeError as error:
    print(error)

# %%
# The first surprise is this famous message. While PyTorch computed the fuel, it kept ``x``
# in its notes, the graph, because the slope :math:`2x` is needed on the walk back. After
# the first walk it threw away what it had kept, since usually nobody needs it twice. The
# message calls this the *saved intermediate values*. (A function of sums alone saves
# nothing, and could be walked twice. Don't rely on it.) If you know that you will come
# back, say so in the first call, with ``retain_graph=True``, as we did on the first page.
#
# .. predict::
#    :for: x.grad
#    :also: the adding is in the way
#
#    We empty ``x.grad``. Then the first call asks for the row ``[1, 1, 1]`` and the second
#    for the row ``[2, 4, 6]``. What is in ``x.grad`` at the end?

x.grad = None
y = house(x)
y.backward(torch.tensor([1.0, 0.0]), retain_graph=True)
y.backward(torch.tensor([0.0, 1.0]))
added = x.grad
added

# %%
# The second surprise: ``x.grad`` holds the *sum* of the two rows. ``backward`` does not
# replace what is in ``x.grad``, it adds to it. You have seen these three numbers before:
# they are what ones gave us on the first page, because ones add the two rows as well.
#
# Adding is useful in training, where a big batch can be processed in small pieces before
# the optimizer takes its step. It is also the reason why a training loop calls
# ``zero_grad()`` for each step.
#
# Row by row
# ----------
#
# Here the adding is in the way. So we empty ``x.grad`` before each call, and take the row
# out after it. (The row need not be copied, because ``x.grad = None`` lets go of the old
# tensor, and the next call makes a new one.)

y = house(x)
kept = []
for v in torch.eye(2):  # the rows of this matrix are [1, 0] and [0, 1]
    x.grad = None
    y.backward(v, retain_graph=True)
    kept.append(x.grad)
torch.stack(kept)

# %%
# There is also a function that does not touch ``x.grad`` at all:

rows = []
for v in torch.eye(2):
    (row,) = torch.autograd.grad(y, x, v, retain_graph=True)
    rows.append(row)
table = torch.stack(rows)
table

# %%
# ``torch.autograd.grad`` takes the same ``v`` and computes the same product, but it returns
# the result and leaves ``x.grad`` alone. It returns a tuple with one entry for each input
# that you asked about, hence the comma after ``row``.
#
# The two rows, one under the other, are the :term:`Jacobian`. This is the plainest way to
# get it: one walk for each output. In the picture, the button *one-hot* goes from row to
# row, at any settings of the stoves:

import pullback

outputs, stoves = ["heat", "fuel"], ["stove 1", "stove 2", "stove 3"]
pullback.live(house, x.detach(), v, rows=outputs, columns=stoves)

# %%
# A loop in Python is slow when there are many outputs. You can hand over all the ``v`` at
# once, and say that you mean it:

(at_once,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
at_once

# %%
# Without ``is_grads_batched=True`` the matrix would be taken for a single ``v`` of the
# wrong shape, and refused. There are still two products to compute, but PyTorch does them
# side by side. For many outputs this is usually much faster (:ref:`ways-measured`).
#
# Many points and several outputs
# -------------------------------
#
# Often both come together: a function with several outputs, evaluated at many points.
# Take :math:`f(x)=(x^3,\;5x)` at 0, 1 and 2. The result has the shape ``(3, 2)``, with a
# row for each point and a column for each output:


def f(x):
    return torch.stack([x**3, 5 * x], dim=1)


points = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
values = f(points)
values

# %%
# Look at one column. Each of its three entries depends on a point of its own, so ones do
# no harm there. But the two entries of a row depend on the same point, and ones for both
# would add their slopes. So we make one call for each column:
#
# .. predict::
#    :value: 1
#    :for: the three numbers
#    :code:
#
#    Which ``v`` asks for the derivative of the *first* output, :math:`x^3`, at all three
#    points? And which three numbers come back?

derivatives = []
for k in range(2):
    v = torch.zeros_like(values)
    v[:, k] = 1.0  # all points, one output
    (column,) = torch.autograd.grad(values, points, v, retain_graph=True)
    derivatives.append(column)
derivatives

# %%
# The first is :math:`3x^2` at 0, 1 and 2, and the second is 5 everywhere. Two calls were
# enough for six derivatives. As long as the points don't mix, you need one ``v`` for
# each output *of a point*, however many points there are.
#
# .. dropdown:: What must not happen between two calls on the same y
#
#    Nothing may change what the graph needs. If ``x`` were a parameter, a step of the
#    optimizer would change it, and then the second walk is usually refused. (With
#    ``fused=True``, an option of some optimizers, nothing notices the change, and the
#    second result is wrong.) A network under ``torch.compile`` may refuse to be walked
#    twice at all. Then use the network as it was before it was compiled.
#
# .. dropdown:: If is_grads_batched fails
#
#    A few kinds of operations refuse to be done side by side, with an error. For most of
#    them the loop works.
#
# .. admonition:: Remember
#
#    - A one-hot ``v`` gives the row of one output. For a vector ``y``,
#      ``y[k].backward()`` is the same. (Neither helps if
#      another row holds infinity or NaN, since 0 times these is NaN.)
#    - To walk back from the same ``y`` again, pass ``retain_graph=True`` in all calls but
#      the last, and change nothing in between that the graph needs.
#    - ``backward`` adds to ``x.grad``. Empty it, or use ``torch.autograd.grad``, which
#      returns the product instead.
#    - One call for each output gives the table. With ``is_grads_batched=True`` it is one
#      call with a batch of ``v``.
#
# .. admonition:: Try it
#
#    A network returns ``scores`` of the shape ``(8, 10)``: eight images, ten classes.
#    It treats each image by itself. You want, for every image, the gradient of the score
#    of *its own* class, which is in ``labels``. How many calls do you need? Write down
#    the ``v``.
#
# .. dropdown:: Answer
#
#    One. Ten would be needed for the gradients of all ten scores. Here you want only one
#    score of each image, and the images don't mix. So ``v`` has a 1 in each row, at the
#    label. Below is a small network with labels drawn by chance. Each row of the result is
#    the gradient of one score, for one image:

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10)
)
images = torch.randn(8, 4, requires_grad=True)
labels = torch.randint(10, (8,))
scores = network(images)
v = torch.nn.functional.one_hot(labels, 10).to(scores)
(together,) = torch.autograd.grad(scores, images, v)
together.shape

# %%
# .. dropdown:: How we checked this page
#
#    The rows against the table of small steps, the batch of ``v`` against the loop, and
#    the answer against one call for each image.

at, h = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 1e-6
steps = h * torch.eye(3, dtype=torch.float64)
nudged = torch.stack([(house(at + s) - house(at - s)) / (2 * h) for s in steps], dim=1)
torch.testing.assert_close(table.double(), nudged)
assert torch.equal(at_once, table)
assert torch.equal(torch.stack(kept), table)
assert torch.equal(added, table.sum(0))
t = points.detach()
torch.testing.assert_close(derivatives[0], 3 * t**2)
torch.testing.assert_close(derivatives[1], torch.full((3,), 5.0))

y = house(x)
y.retain_grad()
y[0].backward()
assert y.grad.tolist() == [1, 0]

for image, label, gradient in zip(images.detach(), labels, together, strict=True):
    image.requires_grad_()
    (alone,) = torch.autograd.grad(network(image)[label], image)
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
