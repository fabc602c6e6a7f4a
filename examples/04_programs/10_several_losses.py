r"""
.. _several-losses:

Several losses: one backward or many
====================================

``(l1 + l2).backward()`` and ``l1.backward(); l2.backward()`` leave the same gradients,
because gradients add. One backward is cheaper where the losses share a graph; separate ones
are for graphs that do not fit in memory together (:ref:`what-keeps-a-graph`), or when you
want to look at, weigh or clip each gradient on its own.
"""

# %%
# Two losses are two outputs. With ``w`` of shape ``(n,)``, J is 2×n, and
#
# .. math::
#
#    \nabla(\ell_1+\ell_2)=[1,1]\,J=\nabla\ell_1+\nabla\ell_2 .

import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)


def losses():
    shared = w**2  # both losses use it
    return shared.sum(), (shared[0] * shared[1]).sqrt()


# %%
# Every way that people write it, and what it leaves in ``w.grad``:

found = {}
l1, l2 = losses()
(l1 + l2).backward()
found["sum"], w.grad = w.grad, None

l1, l2 = losses()
l1.backward(retain_graph=True)
l2.backward()
found["two calls"], w.grad = w.grad, None

# %%
# :func:`torch.autograd.backward` takes a list, and weights as ``grad_tensors``, elsewhere
# called ``gradient`` or ``grad_outputs``:

torch.autograd.backward(losses())
found["a list"], w.grad = w.grad, None
torch.autograd.backward(losses(), grad_tensors=[torch.tensor(1.0), torch.tensor(1.0)])
found["a list with v"], w.grad = w.grad, None
torch.stack(losses()).backward(torch.ones(2))
found["a stack"], w.grad = w.grad, None
found

# %%
# Which to choose
# ---------------
#
# Two calls walk the shared part twice. A hook on it counts:

for way in ("one", "two"):
    visits = []
    shared = w**2
    shared.register_hook(visits.append)
    l1, l2 = shared.sum(), shared.prod()
    if way == "one":
        (l1 + l2).backward()
    else:
        l1.backward(retain_graph=True)
        l2.backward()
    print(way, "backward:", len(visits))

# %%
# A gradient for each loss, in one call: a row each, with one-hot ``v``. From them you can
# see whether the losses pull in opposite directions:

rows = torch.autograd.grad(torch.stack(losses()), w, torch.eye(2), is_grads_batched=True)[0]
cosine = torch.nn.functional.cosine_similarity(rows[0], rows[1], dim=0)
print(rows, f"{cosine:.2f}")

# %%
# *Each task's norm over a shared trunk, in training?* ``grad`` leaves ``.grad`` alone, and
# the step's ``backward`` comes last. By the parameters each task costs a pass through the
# trunk; by the features, where the heads part, none, and the numbers are others:

torch.manual_seed(0)  # the same weights on every build
trunk, heads = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
features = trunk(torch.eye(2)).tanh()
tasks = ((heads(features) - 1) ** 2).mean(0)
for place in (tuple(trunk.parameters()), (features,)):
    each = [torch.autograd.grad(task, place, retain_graph=True) for task in tasks]
    a, b = (torch.cat([g.flatten() for g in gradients]) for gradients in each)
    conflict = torch.nn.functional.cosine_similarity(a, b, dim=0)
    print(f"norms {a.norm():.2f}, {b.norm():.2f}, cosine {conflict:.2f}", trunk.weight.grad)
tasks.sum().backward()

# %%
# When they pull in opposite directions
# -------------------------------------
#
# Two targets for one ``u``: no point makes both losses small, and every choice of weights
# ends at another compromise:

targets = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
stretch = torch.tensor([[4.0, 1.0], [1.0, 2.0]])


def settle(v):
    u = torch.zeros(2, requires_grad=True)
    for _ in range(200):
        both = (stretch * (u - targets) ** 2).sum(1)
        (g,) = torch.autograd.grad(both, u, v)
        u = (u - 0.1 * g).detach().requires_grad_()
    return both.detach()


# %%
# The compromises, with the weights (1 − a, a):

import matplotlib.pyplot as plt

front = torch.stack([settle(torch.tensor([1 - a, a])) for a in torch.linspace(0, 1, 21)])
figure, ax = plt.subplots(layout="constrained")
ax.plot(front[:, 0], front[:, 1], "o-")
ax.set_xlabel("first loss")
ax.set_ylabel("second loss")
title = ax.set_title("Each pair of weights ends at another compromise of two losses")

# %%
# What goes wrong
# ---------------
#
# *backward([loss0, loss1], [torch.ones(1)] * 2) fails with a mismatch*: of shape, since a
# loss has the shape ``()``. The number of weights is another matter. Too few are refused;
# too many are dropped in silence:

one = torch.tensor(1.0)
for weights in ([torch.ones(1)] * 2, [one], [one, one, 100 * one]):
    w.grad = None
    try:
        torch.autograd.backward(losses(), weights)
        print(w.grad)
    except RuntimeError as error:
        print(error)
w.grad = None

# %%
# *My GAN worked in an old release.* An optimiser's step between the two calls changes the
# weights that the second needs, even a step of length zero. Step after both:

optimizer = torch.optim.SGD([w], lr=0.0)
l1, l2 = losses()
l1.backward(retain_graph=True)
optimizer.step()
try:
    l2.backward()
except RuntimeError as error:
    print(str(error)[:94])

# %%
# The check: all five ways against the formula,
# :math:`\nabla(w_1^2+w_2^2+w_1w_2)=(2w_1+w_2,\;2w_2+w_1)`:

for gradient in found.values():
    torch.testing.assert_close(gradient, torch.tensor([4.0, 5.0]))
torch.testing.assert_close(rows.sum(0), torch.tensor([4.0, 5.0]))
assert (front[1:, 0] > front[:-1, 0]).all()
assert (front[1:, 1] < front[:-1, 1]).all()

# %%
# Where next
# ----------
#
# Outputs of different shapes: :ref:`several-outputs`. Weights: :ref:`loss-as-v`. Why the
# graph was freed: :ref:`second-backward`.
#
# .. asked: two losses one backward; several losses; add losses or call backward for
#    each; multi-task loss; backward on each loss separately; retain_graph with two
#    losses; sum of losses; combine losses; combine regression and classification loss;
#    main loss and auxiliary loss; add a second loss; train two heads
