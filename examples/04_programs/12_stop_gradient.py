r"""
.. _stop-gradient:

Where does detach() go? GAN, DQN, BYOL, VQ-VAE, distillation
============================================================

Your program has two networks, and each has a loss. The critic must not teach the
generator to make worse fakes, the target must not run away from the value that follows
it, and the teacher must not learn from the student. Every such program has a ``detach``
somewhere. If the ``detach`` is missing, the wrong network is taught, and no error is
raised. If it is in the wrong place, a network learns nothing at all. Where does it
belong?

The rule is short. For each loss, ask *which network it should teach*, and cut the graph
where the gradient of this loss would reach any other network.
"""

# %%
# To see which weights a loss reaches, we need no large networks. Here a network is one
# weight times its input, so that you can check each number in your head. ``taught`` is a
# function that you can copy into your own program. You give it a loss, which is a single
# number, and some weights, each with a name. It returns the gradient of the loss with
# respect to each of these weights, or None where the loss does not reach the weight. If
# you give it whole networks or larger tensors, it returns the length of the gradient of
# each:

from copy import deepcopy
from math import hypot

import torch


def weight(value):
    return torch.tensor(value, requires_grad=True)


def taught(loss, **learners):
    """Return each weight's gradient, or its length if it has several, or None."""
    found = {}
    for name, learner in learners.items():
        module = isinstance(learner, torch.nn.Module)
        leaves = learner.parameters() if module else [learner]
        leaves = [w for w in leaves if w.requires_grad]  # a frozen one gets nothing
        options = {"allow_unused": True, "retain_graph": True}
        reached = leaves and loss.requires_grad
        grads = torch.autograd.grad(loss, leaves, **options) if reached else []
        grads = [g for g in grads if g is not None]
        found[name] = hypot(*(g.norm().item() for g in grads)) if grads else None
        if grads and not module and learner.numel() == 1:
            found[name] = grads[0].item()
    return found


# %%
# A GAN: two losses, one fake
# ---------------------------
#
# The generator makes ``fake = G z``, and the critic gives every input x a score ``D x``.
# The critic's loss is small when the real thing gets a high score and the fake gets a low
# one. This loss should teach only the critic. We compute the gradients without a cut, and
# then with a cut at the fake:

G, D, z, real = weight(2.0), weight(3.0), torch.tensor(1.0), torch.tensor(5.0)
fake = G * z
print(taught(D * fake - D * real, G=G, D=D))
(to_critic := taught(D * fake.detach() - D * real, G=G, D=D))

# %%
# Without the cut the critic's loss also reaches G, with a gradient of 3, which makes the
# fakes *easier* to tell from the real thing. ``None`` in the second line of the output says
# that the loss does not reach G any more.
#
# The generator's loss is small when the fake gets a high score. Can you use the fake that
# has already been cut? We try three forms of this loss: with a cut at the fake, with D as a
# constant, and without any cut:

print("fake cut  ", taught(-D * fake.detach(), G=G, D=D))
to_generator = taught(-D.detach() * fake, G=G, D=D)
print("D constant", to_generator)
print("no cut    ", taught(-D * fake, G=G, D=D))

# %%
# With a cut at the fake, G gets None, and the generator never learns. The gradient of its
# loss has to go *through* the critic to reach the generator. In the second line of the
# output the critic's weight is a constant, but ``v`` still passes through the critic. The
# last line is without a cut, as in many programs. G gets the right gradient, but D gets a
# gradient that you do not want, so clear D's gradient before the ``backward`` of the
# critic's loss. If the critic is a module and not a single weight, use
# ``requires_grad_(False)`` until it is the critic's turn. :ref:`fake-for-the-critic` lists
# all the ways.
#
# Do you need ``retain_graph=True`` for the two losses? You need it only if both losses
# walk back through the graph of ``fake``. With the cut, the critic's loss does not:

for cut in (True, False):
    fake = (G * z).exp()
    critic = D * (fake.detach() if cut else fake)
    critic.backward()
    try:
        (-D.detach() * fake).backward()
        print(cut, "two backwards")
    except RuntimeError as error:
        print(cut, str(error).partition(" (")[0])

# %%
# So if you need that flag in a GAN, a cut is probably missing.
#
# A target that is a constant: DQN, TD learning
# ---------------------------------------------
#
# In Q-learning one network computes both sides of the loss. The value of a state is ``w
# s``, and this value should become the reward plus the discounted value of the *next*
# state. Let the state be 1 and the next state 2, the reward 1, the discount 0.5, and w =
# 4. Then the value is 4, the target is 5, and the error is −1:
#
# .. admonition:: Before you read on
#
#    What is the derivative of the error with respect to w if the target keeps its graph?

w = weight(4.0)
now, target = w * 1, 1 + 0.5 * (w * 2)
held = taught((now - target.detach()) ** 2, w=w)
print(taught((now - target) ** 2, w=w), held)

# %%
# With the graph the derivative is 0. The value rises with a slope of 1, and the target with
# a slope of 0.5·2, which is also 1. So the target runs away as fast as the value follows
# it, and nothing is learned. With the cut, the gradient with respect to the weight is −2,
# and a step against it raises the value. The full gradient is used in a different
# algorithm, known as *residual gradient*.
#
# Many programs add a *target network*, a copy that follows the network slowly. A moving
# average of the weights (EMA) is also such a copy. The copy needs no gradient, so move it
# under ``no_grad``. If you let autograd record the moves, each of them adds a piece to a
# graph that keeps growing (:ref:`average-of-weights`). Here the copy goes a hundredth of
# the way:

online = torch.nn.Linear(1, 1)
slow = deepcopy(online).requires_grad_(False)
before = slow.weight.item()
with torch.no_grad():
    online.weight += 1  # as a step of an optimizer would
    for ours, theirs in zip(slow.parameters(), online.parameters(), strict=True):
        ours.lerp_(theirs, 0.01)
print(f"{slow.weight.item() - before:.2f}", slow.weight.requires_grad)

# %%
# An actor and its critic
# -----------------------
#
# In actor-critic programs the *advantage* is the return minus the value. The advantage
# multiplies the log-probability of the action that the actor took. It is a weight, so it
# has to be a constant. If it keeps its graph, the actor's loss also has a gradient with
# respect to the value, which is −1 in the first line of the output. If the critic's loss in
# your program is ``advantage.pow(2).mean()``, cut the advantage only in the actor's loss,
# ``-(logp * advantage.detach()).mean()``, and not where it is computed
# (:ref:`actor-critic-detach`). The value has its own loss, in which the return is the
# constant:

logp, value, returns = weight(-1.0), weight(2.0), torch.tensor(5.0)
for A in (returns - value, (returns - value).detach()):
    print(taught(-logp * A, logp=logp, value=value))
(to_value := taught((value - returns.detach()) ** 2, logp=logp, value=value))

# %%
# Two views, one network: BYOL, SimSiam
# -------------------------------------
#
# Here there is no other network to protect, but you still need a cut. Two views of the
# same thing, here the numbers 1 and 2, go through a network w, and a predictor p should
# turn the first result into the second. The loss is :math:`w^2(p-2)^2`, and there are two
# ways to make it small: p learns, or w shrinks until all views look alike. We train
# without a cut, and then with a cut on one side:

for stop in (False, True):
    w, p = weight(1.0), weight(0.0)
    optimizer = torch.optim.SGD([w, p], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        other = w * 2.0
        ((p * (w * 1.0) - (other.detach() if stop else other)) ** 2).backward()
        optimizer.step()
    print("one side held:", stop, f"w {w.item():.2f}, p {p.item():.2f}")

# %%
# Without the cut w has gone to zero. Then all views look alike, the loss is 0, and the
# predictor has stopped at 0.32. This is called *collapse*. With the cut p has learned.
#
# A nearest code: VQ-VAE
# ----------------------
#
# The nearest code in a list replaces the encoder's result e, and this choice has no
# derivative. So here the cut has a different purpose. ``e + (code - e).detach()`` has the
# *value* of one tensor and the *slope* of another. Two more losses pull the code toward e
# and e toward the code. In each of them one side is cut, so that the two losses can have
# different weights:

e, code = weight(1.0), weight(1.5)
passed = e + (code - e).detach()
print(f"{passed.item():.1f}", taught(10 * passed, e=e, code=code))
print(taught((code - e.detach()) ** 2, e=e, code=code))
print(taught(0.25 * (code.detach() - e) ** 2, e=e, code=code))

# %%
# The value is 1.5, the value of the code, and the gradient goes to e. :ref:`vq-codes` is
# the whole program.
#
# A teacher: distillation
# -----------------------
#
# The student should follow the teacher. If the teacher's result has a graph, the loss
# pulls both networks toward each other, and the teacher gets a gradient, too. A ``detach``
# would cut the teacher off, but by then its graph would already have been made. Under
# ``no_grad`` this graph is never made, which also saves memory (:ref:`distillation`):

teacher, student = weight(2.0), weight(1.0)
with torch.no_grad():
    quiet = teacher * 3
print(taught((student * 3 - teacher * 3) ** 2, teacher=teacher, student=student))
(distilled := taught((student * 3 - quiet) ** 2, teacher=teacher, student=student))

# %%
# What to watch for
# -----------------
#
# - **detach() cuts one use.** ``fake.detach()`` is a second tensor with the same numbers.
#   ``fake`` itself keeps its graph, and so the generator's loss can still use it.
# - **detach_() and no_grad cut all uses.** If you make the fake under ``no_grad``, the
#   generator's loss cannot reach G either.
# - **The detached tensor shares memory** with the original. If you edit one of them in
#   place, the other changes, too.
# - **A cut that is right today** may be wrong after the next change to the program. In a
#   test, call ``taught`` with all the networks.
#
# .. admonition:: Try it
#
#    In a GAN with a *reconstruction*, the generator's result should also be near 5, which
#    gives another loss, ``(fake - 5) ** 2``. Add this loss to the generator's loss
#    ``-D.detach() * fake``. Where do you have to cut, and what does G get?
#
# .. dropdown:: Answer
#
#    You need no further cut. The reconstruction reaches only G, with a gradient of 2·(2 −
#    5) = −6, and the two gradients add up:

fake = G * z
both = taught(-D.detach() * fake + (fake - 5) ** 2, G=G, D=D)
print(both)

# %%
# .. dropdown:: How we checked this page
#
#    We compare each gradient with a difference quotient of the loss with respect to the
#    weight that it should teach. We also try ``taught`` with modules, of which one is
#    frozen and one is cut off, with a tensor of several numbers, and with a loss that
#    reaches none of the weights.

h = 1e-3
for found, loss, at in (
    (to_critic["D"], lambda D: D * 2.0 - D * 5.0, 3.0),  # fake is 2
    (to_generator["G"], lambda G: -3.0 * G, 2.0),  # D is 3
    (held["w"], lambda w: (w - 5.0) ** 2, 4.0),  # the target is 5
    (to_value["value"], lambda u: (u - 5.0) ** 2, 2.0),  # and so is the return
    (distilled["student"], lambda s: (3 * s - 6.0) ** 2, 1.0),  # the teacher says 6
):
    assert abs((loss(at + h) - loss(at - h)) / (2 * h) - found) < 1e-6
assert both == {"G": -3 - 6, "D": None}
front, back, still = (torch.nn.Linear(2, 2) for _ in range(3))
still.requires_grad_(False)
loss = back(still(front(torch.ones(3, 2)).detach())).sum()
told = taught(loss, front=front, back=back, still=still)
loss.backward()
length = torch.cat([w.grad.flatten() for w in back.parameters()]).norm().item()
assert told["front"] is told["still"] is None
assert abs(told["back"] - length) < 1e-5
w = torch.tensor([1.5, 2.0], dtype=torch.float64, requires_grad=True)
assert taught((w**2).sum(), w=w) == {"w": 5.0}
assert taught((w.detach() ** 2).sum(), w=w, back=back) == {"w": None, "back": None}
assert to_critic["G"] is to_generator["D"] is distilled["teacher"] is None

# %%
# **Next:** :ref:`surrogate-losses` is about losses with a detached part that are written
# only for their gradient. To choose between ``detach`` and ``no_grad``, read
# :ref:`no-grad-detach`. :ref:`discrete-choices` shows what a straight-through choice does.
# If two losses share one graph, read :ref:`several-losses`.
#
# .. asked: stop gradient; where to put detach; GAN detach fake; target network
#    gradient; BYOL SimSiam stop-gradient; VQ-VAE straight-through; block the gradient
#    in one branch; stop_gradient of TensorFlow or JAX in PyTorch; let the gradient pass
#    to one network only; generator must not be updated; keep the target fixed; do not
#    train through this branch; stop the teacher from learning
# .. words: generator, discriminator, critic, actor, fake.detach, teacher, student, momentum
#    encoder, target network, siamese, collapse, one side only, tf.stop_gradient,
#    jax.lax.stop_gradient, freeze one branch
