r"""
.. _cut-graphs:

One graph cut in two by detach (pipeline stages)
================================================

Your network is too large for one machine, so its first half runs on one machine and its
second half on another. The forward pass is easy, because the first machine can send the
numbers that come out of the first half to the second machine. But the loss is known only at
the far end, and no graph reaches through a cable. How does the first machine learn? The
second machine sends back one tensor, which is the gradient of the loss with respect to the
numbers that it received. The first machine passes this tensor to ``backward`` as ``v``.
"""

# %%
# What crosses the cable
# ----------------------
#
# Let the first half turn ``x`` into ``h``, and the second half turn ``h`` into the loss
# ``L``. The chain rule takes the gradient apart at ``h``:
#
# .. math::
#
#    \frac{\partial L}{\partial x}=J^\top\,\frac{\partial L}{\partial h},
#
# where :math:`J` is the :term:`Jacobian` of the first half alone. The second machine knows
# the second factor. This factor, the :term:`upstream gradient`, has the shape of ``h``. It
# is all that the first machine needs to know about the second half.
#
# Each half is an object with a network and an optimizer. The two halves exchange NumPy
# arrays, which could be sent from one machine to another:

import torch
from torch import nn


class Front:
    """The first half of a network, and its optimiser."""

    def __init__(self, network, lr):
        self.network = network
        self.optimizer = torch.optim.Adam(network.parameters(), lr=lr)

    def forward(self, x):
        self.h = self.network(x)  # it keeps its graph, until the gradient comes back
        return self.h.detach().cpu().numpy()

    def learn(self, gradient):
        self.optimizer.zero_grad()
        self.h.backward(torch.from_numpy(gradient).to(self.h))
        self.optimizer.step()


class Back:
    """The second half, with the loss."""

    def __init__(self, network, loss, lr):
        self.network, self.loss = network, loss
        self.optimizer = torch.optim.Adam(network.parameters(), lr=lr)

    def learn(self, h, target):
        cut = torch.from_numpy(h).to(target.device)
        cut.requires_grad_()  # a leaf: its gradient is kept
        loss = self.loss(self.network(cut), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return cut.grad.cpu().numpy(), loss.item()


# %%
# In ``Back``, ``cut`` has the numbers of ``h`` and no graph. With ``requires_grad_()`` it
# becomes a :term:`leaf` that requires a gradient, so ``backward`` goes as far as ``cut``,
# and leaves :math:`\partial L/\partial h` in ``cut.grad``. In ``Front`` the backward pass
# goes on from ``h`` with this tensor as ``v``, as if there had been no cut. Within one
# process an array from ``numpy()`` shares the memory of its tensor, so neither half may
# write into it. If you send the array to another machine, a copy is made.
#
# We let the two halves learn a curve together. Neither of them sees the weights of the
# other:

torch.manual_seed(0)  # the same weights on every build
x = torch.linspace(-1, 1, 50)[:, None]
curve = torch.sin(5 * x)
front = Front(nn.Sequential(nn.Linear(1, 32), nn.Tanh()), lr=0.03)
back = Back(nn.Linear(32, 1), nn.functional.mse_loss, lr=0.03)
for step in range(401):
    gradient, loss = back.learn(front.forward(x), curve)
    front.learn(gradient)
    if step % 200 == 0:
        print(f"step {step:3}  loss {loss:.1g}")

# %%
# The loss goes down, and the curve is learned:

import matplotlib.pyplot as plt

learned = back.network(front.network(x)).detach()
figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.4))
ax.plot(x, curve, "o", label="points to learn")
ax.plot(x, learned, label="the two halves together")
ax.set_ylim(-1.3, 1.8)
ax.legend(loc="upper center")
title = ax.set_title("Two halves of a network, cut apart, learn a curve")

# %%
# Would a network in one piece have learned the same? Up to rounding it would, because
# both halves get the gradients of the uncut network. We compute these gradients for one
# batch, with and without the cut:

first = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
second = nn.Linear(4, 1)
weights = [*first.parameters(), *second.parameters()]
data, target = torch.randn(8, 3), torch.randn(8, 1)
whole = torch.autograd.grad(((second(first(data)) - target) ** 2).mean(), weights)

h = first(data)
cut = h.detach().requires_grad_()
((second(cut) - target) ** 2).mean().backward()
h.backward(cut.grad)
in_two = [p.grad.clone() for p in weights]
print("v", tuple(cut.grad.shape))
print(all(torch.allclose(a, b) for a, b in zip(in_two, whole, strict=True)))

# %%
# Several micro-batches under way
# -------------------------------
#
# While one machine works in this way, the other one waits. So a pipeline divides the batch,
# and the front goes on to the next part while the back is still working on the previous
# one. Every part has its own ``h`` and ``cut``, and the gradients of the parts add up in
# the weights. If the loss is a mean in which each sample counts once, multiply the mean of
# each part by the part's share of the whole batch:

for p in weights:
    p.grad = None
waiting = []
for part, goal in zip(data.split(3), target.split(3), strict=True):
    h = first(part)
    cut = h.detach().requires_grad_()
    loss = ((second(cut) - goal) ** 2).mean() * len(part) / len(data)
    waiting.append((h, cut, loss))
for h, cut, loss in reversed(waiting):
    loss.backward()
    h.backward(cut.grad)
in_parts = [p.grad.clone() for p in weights]
print([len(h) for h, _, _ in waiting])
print(all(torch.allclose(a, b) for a, b in zip(in_parts, whole, strict=True)))

# %%
# The eight samples went in parts of 3, 3 and 2, and the gradients are again the gradients
# of the whole batch. There each sample counts 1/8. Without the factor it would count 1/3
# in the parts of three, and 1/2 in the part of two.
#
# Not every mean divides by the number of samples. With ``ignore_index`` or with a weight
# for each class, ``cross_entropy`` divides by the sum of the weights of the targets that
# count. The share above is then wrong, and there is no message. Let each part compute a
# sum, and divide it by the weight of the *whole* batch, which you know before the first
# ``backward``:

labels = torch.tensor([0, -100, 1, 2, 0, 1, -100, -100])  # -100 is ignored
class_weights = torch.tensor([1.0, 2.0, 5.0])
scores = torch.randn(8, 3, requires_grad=True)
total = class_weights[labels[labels != -100]].sum()
loss_of = torch.nn.functional.cross_entropy


def in_micro_batches(loss):
    sums = [loss(rows) for rows in torch.arange(8).split(3)]
    return torch.autograd.grad(torch.stack(sums).sum(), scores)[0]


(right,) = torch.autograd.grad(loss_of(scores, labels, class_weights), scores)
by_share = in_micro_batches(
    lambda i: loss_of(scores[i], labels[i], class_weights) * len(i) / 8
)
by_weight = in_micro_batches(
    lambda i: loss_of(scores[i], labels[i], class_weights, reduction="sum") / total
)
print("share of the samples", torch.allclose(by_share, right))
print("weight of the batch ", torch.allclose(by_weight, right))

# %%
# A part in which all targets are ignored has a mean of NaN, and a sum of 0. For parts in
# several processes, read :ref:`token-mean`. In training mode *BatchNorm* computes its mean
# and variance in each part, so with such a layer the parts do not give the gradients of
# the whole batch.
#
# What to watch for
# -----------------
#
# **No leaf, no gradient.** Without ``requires_grad_()`` after ``detach()`` the second
# half has no place to leave the gradient. ``cut.grad`` stays None, and the error comes
# from the first half, where ``v`` is now missing:

h = first(data)
cut = h.detach()
((second(cut) - target) ** 2).mean().backward()
print(cut.grad)
try:
    h.backward(cut.grad)
except RuntimeError as error:
    print(error)

# %%
# **The step comes after the gradient.** The graph of ``h`` is held in memory until the
# gradient arrives, and it has saved weights. If an optimizer changes one of them in the
# meantime, ``backward`` raises an error. If you need the memory, let ``h`` go, and compute
# it again from ``x`` when the gradient has arrived, but still before the step.

deep = nn.Sequential(first, nn.Linear(4, 4))
h = deep(data)
nn.init.ones_(deep[1].weight)  # in place, as a step would
try:
    h.backward(torch.ones_like(h))
except RuntimeError as error:
    print(str(error)[:94])

# %%
# **A loop that runs only with retain_graph=True.** In a recurrent network the state of
# one step goes into the next, and takes its graph along. The second ``backward`` then
# walks through the first step once more, but the :term:`saved tensors <saved tensor>` of
# this step are gone:

cell = nn.RNNCell(2, 3)
state, inputs = torch.zeros(1, 3), torch.randn(5, 1, 2)
try:
    for row in inputs:
        state = cell(row, state)
        (state**2).sum().backward()
except RuntimeError as error:
    print(str(error)[:54])

# %%
# Most programs need a cut here, ``state.detach()`` before each step, and no flag. But at
# this cut *no* gradient is passed on, so the contribution of the earlier steps is left
# out. This is called truncated backpropagation through time, and it gives a different
# gradient:


def loss_after_two(cut):
    state = torch.zeros(1, 3)
    for row in inputs[:2]:
        state = cell(row, state.detach() if cut else state)
    return (state**2).sum()


kept, truncated = (
    torch.autograd.grad(loss_after_two(cut), cell.weight_ih)[0] for cut in (False, True)
)
print("the same gradient:", torch.allclose(kept, truncated))

# %%
# .. admonition:: Try it
#
#    The second machine sends its gradient late. In the meantime the first machine has
#    received the next batch, so ``self.h`` already belongs to that batch. What happens in
#    ``front.learn``?
#
# .. dropdown:: Answer
#
#    If both batches have the same size, there is no error. The gradient has the right
#    shape but belongs to a different ``h``, so the weights get a wrong gradient. If the
#    batches differ in size, ``backward`` refuses the ``v``. Keep each ``h`` with a number
#    for its batch, and send the number along:

front.forward(x)
gradient, _ = back.learn(front.forward(x[:20]), curve[:20])
front.forward(x[20:])  # the next batch, of 30
try:
    front.learn(gradient)
except RuntimeError as error:
    print(error)
front.forward(x[20:40])  # or of 20
front.learn(gradient)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradients of the two halves, and of the micro-batches, with the
#    gradients of the uncut network. We repeat the whole training in one piece, and it
#    ends at the same curve. We also try the micro-batches without the factor, the
#    recomputed ``h`` and the truncated gradient.

torch.testing.assert_close(in_two, [*whole])
torch.testing.assert_close(in_parts, [*whole])
assert ((learned - curve) ** 2).mean() < 0.01
assert not torch.allclose(kept, truncated)

torch.manual_seed(0)
uncut = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(uncut.parameters(), lr=0.03)
for _ in range(401):
    optimizer.zero_grad()
    nn.functional.mse_loss(uncut(x), curve).backward()
    optimizer.step()
torch.testing.assert_close(uncut(x).detach(), learned, rtol=0, atol=0.05)

parts = zip(data.split(3), target.split(3), strict=True)
unweighed = torch.zeros(1)
for part, goal in parts:
    (g,) = torch.autograd.grad(((second(first(part)) - goal) ** 2).mean(), weights[-1:])
    unweighed += g
assert torch.allclose(by_weight, right)
assert not torch.allclose(by_share, right)
assert loss_of(scores[6:], labels[6:], class_weights).isnan()
normed = nn.BatchNorm1d(3)
(at_once,) = torch.autograd.grad((normed(scores) ** 3).sum(), scores)
assert not torch.allclose(
    in_micro_batches(lambda i: (normed(scores[i]) ** 3).sum()), at_once
)

losses = ((second(first(data)) - target) ** 2)[:, 0]
counts = torch.tensor([1 / 3] * 6 + [1 / 2] * 2)
torch.testing.assert_close(unweighed, torch.autograd.grad(losses, weights[-1:], counts)[0])

h = first(data)
cut = h.detach().requires_grad_()
(v,) = torch.autograd.grad(((second(cut) - target) ** 2).mean(), cut)
del h
again = torch.autograd.grad(first(data), list(first.parameters()), v)
torch.testing.assert_close(again, whole[:2])

# %%
# **Next:** To compute an upstream gradient by hand, read :ref:`upstream`. If PyTorch does
# not know your loss at all, read :ref:`external-loss`. To make the same cut in order to
# save memory, read :ref:`gradient-cache`. The same cut lets you run the second half in
# chunks, whose gradients add up in ``.grad`` of the leaf (:ref:`decoder-in-chunks`). For
# what ``detach`` and its relatives cut, read
# :ref:`no-grad-detach`.
#
# .. asked: split a model in two parts; pipeline parallel by hand; send gradients
#    between machines; split learning; cut the graph and join it; pass the gradient from
#    one graph to another; backward across two programs; send the gradient over the
#    network to another computer; first half on one machine, second half on another
# .. words: federated, client and server, split, cut, two devices, remote, socket,
#    activations sent over, resume the backward pass, edge device, join two graphs
