r"""
.. _cut-graphs:

Two graphs cut by detach (pipeline stages)
==========================================

Cut a model at ``h``, run the second part on ``h.detach().requires_grad_()``, and hand
that tensor's ``.grad`` to the first part: ``h.backward(cut.grad)``. The gradients are
those of the uncut model.
"""

# %%
# With :math:`h=f(x)` of shape ``(B, 4)`` and the loss :math:`L=g(h)`, the chain rule is
# one :term:`upstream gradient` handed over:
#
# .. math::
#
#    \frac{\partial L}{\partial x}=J_f^\top\,\frac{\partial L}{\partial h}
#
# ``v`` for the first stage is :math:`\partial L/\partial h`, of h's shape.

import torch
from torch import nn

torch.manual_seed(0)  # the same weights and data on every build
first = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
second = nn.Sequential(nn.Linear(4, 1))
x, target = torch.randn(8, 3), torch.randn(8, 1)

# %%
# Forward, with a cut. The two stages could live on two devices or in two processes; what
# crosses is ``h`` one way and ``cut.grad`` the other:

h = first(x)
cut = h.detach().requires_grad_()
loss = ((second(cut) - target) ** 2).mean()

# %%
# Backward, stage by stage:

loss.backward()
print(cut.grad.shape)
h.backward(cut.grad)
staged = [p.grad.clone() for p in [*first.parameters(), *second.parameters()]]

# %%
# Several micro-batches under way
# -------------------------------
#
# Each part of the batch has its own ``h`` and ``cut``, and the gradients add up in the
# parameters. The share of each part weighs it:

both = nn.ModuleList([first, second])
both.zero_grad()
waiting = []
for part, goal in zip(x.split(2), target.split(2), strict=True):
    h = first(part)
    cut = h.detach().requires_grad_()
    loss = ((second(cut) - goal) ** 2).mean() * len(part) / len(x)
    waiting.append((h, cut, loss))
for h, cut, loss in reversed(waiting):
    loss.backward()
    h.backward(cut.grad)
micro = [p.grad.clone() for p in [*first.parameters(), *second.parameters()]]

# %%
# Trained in two stages
# ---------------------
#
# Each stage has its own optimiser and sees nothing of the other but ``h`` and
# :math:`\partial L/\partial h`. Together they learn a curve:

at = torch.linspace(-1, 1, 50)[:, None]
curve = torch.sin(5 * at)
front, back = nn.Sequential(nn.Linear(1, 32), nn.Tanh()), nn.Linear(32, 1)
optimizers = [torch.optim.Adam(stage.parameters(), lr=0.03) for stage in (front, back)]

# %%
# A step of both:

for _ in range(400):
    h = front(at)
    cut = h.detach().requires_grad_()
    for optimizer in optimizers:
        optimizer.zero_grad()
    ((back(cut) - curve) ** 2).mean().backward()
    h.backward(cut.grad)
    for optimizer in optimizers:
        optimizer.step()

# %%
# What they learned:

import matplotlib.pyplot as plt

learned = back(front(at)).detach()
figure, ax = plt.subplots(layout="constrained")
ax.plot(at, curve, "o")
ax.plot(at, learned)
title = ax.set_title("Two stages, cut apart, learn the points of a curve together")

# %%
# What goes wrong
# ---------------
#
# Without ``requires_grad_()`` after ``detach()`` there is no leaf to collect
# :math:`\partial L/\partial h`, and ``cut.grad`` stays None. Bare ``h.backward(None)`` is
# then the familiar message:

h = first(x)
cut = h.detach()
((second(cut) - target) ** 2).mean().backward()
print(cut.grad)
try:
    h.backward(cut.grad)
except RuntimeError as error:
    print(error)

# %%
# *h.backward comes late.* The first part's graph is held until then; to hold none, compute
# ``h`` again from x. Either way before the step, which changes weights the graph saved:

deep = nn.Sequential(first, nn.Linear(4, 4))
h = deep(x)
nn.init.ones_(deep[1].weight)  # in place, as a step would
try:
    h.backward(torch.ones_like(h))
except RuntimeError as error:
    print(str(error)[:94])

# %%
# *Why does my search only run with retain_graph=True?* In a recurrent model the hidden
# state carries the graph of the step before into the next one, which walks it again:

cell = nn.RNNCell(2, 3)
state, steps = torch.zeros(1, 3), torch.randn(5, 1, 2)
try:
    for step in steps:
        state = cell(step, state)
        (state**2).sum().backward()
except RuntimeError as error:
    print(str(error)[:54])

# %%
# Detach it between steps and nothing needs retaining. The gradient then stops at the cut:
# truncated backpropagation, which lacks a part of the whole gradient over two steps.


def last_loss(cut):
    state = torch.zeros(1, 3)
    for step in steps[:2]:
        state = cell(step, state.detach() if cut else state)
    return (state**2).sum()


whole, truncated = (torch.autograd.grad(last_loss(c), cell.weight_ih)[0] for c in (0, 1))
print(torch.equal(whole, truncated))

# %%
# The check: the uncut model, in one ``backward``:

both.zero_grad()
((second(first(x)) - target) ** 2).mean().backward()
for p, a, b in zip([*first.parameters(), *second.parameters()], staged, micro, strict=True):
    torch.testing.assert_close(p.grad, a)
    torch.testing.assert_close(p.grad, b)
assert ((learned - curve) ** 2).mean() < 0.01
assert not torch.equal(whole, truncated)

# %%
# Where next
# ----------
#
# The upstream gradient by hand: :ref:`upstream`. A loss outside PyTorch:
# :ref:`external-loss`. A batch too large for memory: :ref:`gradient-cache`.
#
# .. asked: split a model in two parts; pipeline parallel by hand; send gradients
#    between machines; split learning; cut the graph and join it; pass the gradient from
#    one graph to another; backward across two programs; send the gradient over the
#    network to another computer; first half on one machine, second half on another
