r"""
.. _several-losses:

Several losses: one backward or many
====================================

Your network has two tasks, say a class and a position, and so there are two losses. Do you
add the losses up and call ``backward`` once? Or do you call it twice, once for each loss?
In other people's programs you find both ways, as well as lists of losses, and
``retain_graph=True`` in odd places. The good news is that all these ways leave the same
gradients. They differ in what they cost, and in what you can do between the calls: look at
the gradient of each loss, weight it, or find out that the two tasks pull in opposite
directions.
"""

# %%
# Five ways that give the same gradients
# --------------------------------------
#
# To see that the gradients are the same, we take an example so small that you can work out
# the gradient in your head, with two losses that depend on two parameters. Both losses use
# a common part, as two heads use a trunk:

import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)


def losses():
    shared = w**2  # both losses use it
    return shared.sum(), (shared[0] * shared[1]).sqrt()


# %%
# First we use the sum of both losses, and then two calls. The second call walks through
# the common part of the graph once more. The first call would free the values that are
# saved there, and ``retain_graph=True`` prevents this:

found = {}
l1, l2 = losses()
(l1 + l2).backward()
found["sum"], w.grad = w.grad, None

l1, l2 = losses()
l1.backward(retain_graph=True)
l2.backward()
found["two calls"], w.grad = w.grad, None

# %%
# :func:`torch.autograd.backward` takes a whole list of losses. A second list, which is
# called ``grad_tensors`` here and ``gradient`` or ``grad_outputs`` in other functions,
# has a ``v`` for each loss. This ``v`` is the weight of the loss. And finally, you can
# stack the losses into a single output of two numbers:

torch.autograd.backward(losses())
found["a list"], w.grad = w.grad, None
torch.autograd.backward(losses(), grad_tensors=[torch.tensor(1.0), torch.tensor(1.0)])
found["a list with v"], w.grad = w.grad, None
torch.stack(losses()).backward(torch.ones(2))
found["a stack"], w.grad = w.grad, None
for name, gradient in found.items():
    print(f"{name:14} {gradient.tolist()}")

# %%
# Why are they the same? Two losses are two outputs, so their :term:`Jacobian` has two
# rows, which are the two gradients. Each way adds them up:
#
# .. math::
#
#    \nabla(\ell_1+\ell_2)=[1,1]\,J=\nabla\ell_1+\nabla\ell_2 .
#
# The last way, with ones as ``v``, shows this most plainly. With the sum, PyTorch begins
# with a single 1, and the addition passes it on to both losses. With two calls the addition
# happens in ``w.grad``, to which each call adds.
#
# Which way to choose
# -------------------
#
# The five ways do not cost the same. How many times does the backward pass go through the
# shared part? A hook on the shared part counts the visits:

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
# With two calls it goes through twice. In a real network the shared part is the trunk,
# where most of the work is done. So **add the losses up, unless you have a reason not to**.
# There are two good reasons. The first is memory: the graphs of the two losses may not fit
# into it together. Then run the forward and the backward pass of one loss, and after that
# the two passes of the other (:ref:`what-keeps-a-graph`). This takes a second forward pass
# through the trunk. The second good reason is that you want to see each gradient
# separately.
#
# Do my two losses agree?
# -----------------------
#
# If you want to see the two gradients, ask for the rows of the Jacobian. A ``v`` of ``[1,
# 0]`` gives the first row, ``[0, 1]`` gives the second, and with ``is_grads_batched`` one
# call gives both. The cosine of the angle between the two gradients is 1 if both losses
# pull in the same direction, 0 if a small step for one does not change the other to first
# order, and −1 if they pull in opposite directions:

rows = torch.autograd.grad(torch.stack(losses()), w, torch.eye(2), is_grads_batched=True)[0]
cosine = torch.nn.functional.cosine_similarity(rows[0], rows[1], dim=0)
print(rows, f"{cosine:.2f}")

# %%
# Here the two losses mostly agree. In a training loop you would log the cosine from time to
# time. Compute it with ``autograd.grad`` and ``retain_graph=True``, which leaves ``.grad``
# alone, and call the ``backward`` of the training step last. You can measure in two places.
# If you measure with respect to the *parameters* of the trunk, each task costs a backward
# pass through the trunk. If you measure with respect to the *features*, which both heads
# read, each task costs almost nothing. But the numbers are different:

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
# The ``None`` at the end of each line says that the ``.grad`` of the trunk has not been
# filled. The lengths and the cosine depend on the place where you measure, so compare only
# numbers that were measured in the same place.
#
# When two losses pull in opposite directions
# -------------------------------------------
#
# If the two losses pull in opposite directions, no way of writing ``backward`` helps. You
# have to decide what each loss is worth, and that decision is ``v``. In our example, two
# losses pull a point ``u`` to two different places. We let the point settle with a given
# ``v``:

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
# Now let the weights go from (1, 0) to (0, 1), and plot where the two losses end up:

import matplotlib.pyplot as plt

front = torch.stack([settle(torch.tensor([1 - a, a])) for a in torch.linspace(0, 1, 21)])
figure, ax = plt.subplots(layout="constrained")
ax.plot(front[:, 0], front[:, 1], "o-")
ax.set_xlabel("first loss")
ax.set_ylabel("second loss")
title = ax.set_title("Each pair of weights ends at another compromise of two losses")

# %%
# Each dot belongs to one ``v``. At the left end the first loss is small, at the right end
# the second, and there is no dot where both are small. Along the curve you pay for a
# smaller first loss with a larger second one. No optimizer can know which dot is right
# for you.
#
# What to watch for
# -----------------
#
# **The list of weights.** Each weight must have the shape of its loss, which is ``()``
# and not ``(1,)``. PyTorch refuses a list that has too few weights. But if there are *too
# many*, PyTorch drops the rest without a warning, as in the last line of the output,
# where a third weight of 100 changes nothing:

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
# **A step between the two calls.** Programs for GANs from old tutorials call
# ``optimizer.step()`` between the two calls to ``backward``, and these programs used to
# run. The step changes the weights in place, and the second call still needs the old
# weights. PyTorch notices, even if the step has length zero:

optimizer = torch.optim.SGD([w], lr=0.0)
l1, l2 = losses()
l1.backward(retain_graph=True)
optimizer.step()
try:
    l2.backward()
except RuntimeError as error:
    print(str(error)[:94])

# %%
# Call ``step`` after both calls to ``backward``. You could also compute the second loss
# again after the step, but this is right only if the optimizer of that loss holds every
# weight that the loss should move. :ref:`step-between-backwards` shows what goes wrong
# otherwise, and :ref:`stop-gradient` has the whole loop of a GAN.
#
# **Losses of different size.** If one gradient is a hundred times as long as the other, the
# step follows almost only the loss with the longer gradient. Look at the lengths of the
# gradients as above, and not at the values of the losses: a constant makes a loss large,
# but has no gradient.
#
# .. admonition:: Try it
#
#    The first loss should count twice. Write this in three ways: in the sum, in the list
#    of weights, and as a ``v`` for the stack. Which gradient do you expect?
#
# .. dropdown:: Answer
#
#    You get twice the first row plus the second: 2·(2, 4) + (2, 1) = (6, 9).

w.grad = None
l1, l2 = losses()
(2 * l1 + l2).backward()
doubled = [w.grad.tolist()]
for outputs, v in (
    (losses(), [torch.tensor(2.0), torch.tensor(1.0)]),
    ([torch.stack(losses())], [torch.tensor([2.0, 1.0])]),
):
    w.grad = None
    torch.autograd.backward(outputs, v)
    doubled.append(w.grad.tolist())
print(doubled)

# %%
# .. dropdown:: How we checked this page
#
#    We compare all ways with the formula,
#    :math:`\nabla(w_1^2+w_2^2+w_1w_2)=(2w_1+w_2,\;2w_2+w_1)`. The root in the second loss
#    turns :math:`w_1^2w_2^2` into :math:`w_1w_2`. We also check that along the curve one
#    loss rises and the other falls from dot to dot.

for gradient in found.values():
    torch.testing.assert_close(gradient, torch.tensor([4.0, 5.0]))
torch.testing.assert_close(rows.sum(0), torch.tensor([4.0, 5.0]))
assert doubled == 3 * [[6.0, 9.0]]
assert (front[1:, 0] > front[:-1, 0]).all()
assert (front[1:, 1] < front[:-1, 1]).all()

# %%
# **Next:** To put a second loss in the middle of a network, read :ref:`auxiliary-head`. If
# your outputs have different shapes, read :ref:`several-outputs`. To give weights to
# samples, read :ref:`loss-as-v`. :ref:`second-backward` explains why the graph was freed.
#
# .. asked: two losses one backward; several losses; add losses or call backward for
#    each; multi-task loss; backward on each loss separately; retain_graph with two
#    losses; sum of losses; combine losses; combine regression and classification loss;
#    main loss and auxiliary loss; add a second loss; train two heads; two heads share one
#    encoder, loss_a.backward(retain_graph=True) and then loss_b.backward()
# .. words: combine, alpha, lambda, balance, multi task, total loss, add them up,
#    regulariser, two objectives, separate backward, joint training, weighted sum of losses
