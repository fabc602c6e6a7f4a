r"""
.. _stop-gradient:

Where does detach() go? GAN, DQN, BYOL, VQ-VAE, distillation
============================================================

On the tensor through which a loss would reach a network that it is not to teach: the fake
in the critic's loss, the target of DQN, the other view, the teacher. ``detach`` cuts that
one use. A missing cut teaches the wrong network and raises nothing; a cut in the wrong
place leaves ``.grad`` at None.
"""

# %%
# Numbers that can be checked in the head: a network here is one weight times its input, and
# ``taught`` says which weights a loss reaches, and with what gradient.

from copy import deepcopy

import torch


def weight(value):
    return torch.tensor(value, requires_grad=True)


def taught(loss, **weights):
    leaves = list(weights.values())
    found = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
    return {k: None if g is None else g.item() for k, g in zip(weights, found, strict=True)}


# %%
# A GAN: two losses, one sample
# -----------------------------
#
# The generator makes ``fake = G z``; the critic scores ``D x``, and its loss raises the
# score of the real and lowers that of the fake. Without and with the cut:

G, D, z, real = weight(2.0), weight(3.0), torch.tensor(1.0), torch.tensor(5.0)
fake = G * z
print(taught(D * fake - D * real, G=G, D=D))
(to_critic := taught(D * fake.detach() - D * real, G=G, D=D))

# %%
# Without it the critic's loss adds 3 to G's ``.grad``, *against* G's own aim: the -3 below.
# The generator's loss must not be cut there: its way goes *through* D, whose weight gets a
# gradient that you do not want. Leave ``fake`` whole, and freeze D, or zero its ``.grad``
# before its own step:

print(taught(-D * fake.detach(), G=G, D=D))
to_generator = taught(-D.detach() * fake, G=G, D=D)
print(taught(-D * fake, G=G, D=D), to_generator)

# %%
# (``D.detach()`` cuts the *weight* out and lets v pass through the critic's function; for a
# module: ``requires_grad_(False)``, until its step. The ways: :ref:`fake-for-the-critic`.)
#
# *Do I need retain_graph=True for the two losses?* Only if both walk through the graph of
# ``fake``. With the cut the critic's does not:

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
# A target that is a constant: DQN, TD learning
# ---------------------------------------------
#
# The value of a state is ``w s``; the target is the reward plus the value of the next
# state. With s = 1, next state 2, reward 1, discount 0.5 and w = 4 the error is 4 - 5 = -1:

w = weight(4.0)
now, target = w * 1, 1 + 0.5 * (w * 2)
held = taught((now - target.detach()) ** 2, w=w)
print(taught((now - target) ** 2, w=w), held)

# %%
# With a graph the target runs from the value as fast as the value runs after it: here the
# slopes 1 and 0.5·2 cancel, and nothing is learned. (The full gradient has its uses, as
# *residual gradient*; it is another algorithm.) A target *network*, or any average of
# weights (EMA), is a copy without a gradient, moved a hundredth of the way under
# ``no_grad``; recorded, it keeps the graphs of all steps (:ref:`average-of-weights`):

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
# The advantage, return minus value, weighs the log-probability. Whole, it lets the actor's
# loss push the value. The critic has a loss of its own, in which the return is a constant:

logp, value, returns = weight(-1.0), weight(2.0), torch.tensor(5.0)
for A in (returns - value, (returns - value).detach()):
    print(taught(-logp * A, logp=logp, value=value))
(to_value := taught((value - returns.detach()) ** 2, logp=logp, value=value))

# %%
# Two views, one network: BYOL, SimSiam
# -------------------------------------
#
# Two views of a thing, 1 and 2, go through a network w, and a predictor p is to map the
# first result to the second. The loss :math:`w^2(p-2)^2` has two ways down: p learns, or w
# shrinks until all views are alike. With one side held constant, p learns:

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
# A nearest code: VQ-VAE
# ----------------------
#
# The choice of the code nearest to the encoder's e has no derivative.
# ``e + (code - e).detach()`` has the value of the code and the slope of e; two more losses,
# each with one side cut, draw codes and encoder together:

e, code = weight(1.0), weight(1.5)
passed = e + (code - e).detach()
print(f"{passed.item():.1f}", taught(10 * passed, e=e, code=code))
print(taught((code - e.detach()) ** 2, e=e, code=code))
print(taught(0.25 * (code.detach() - e) ** 2, e=e, code=code))

# %%
# A teacher: distillation
# -----------------------
#
# *The student gets a gradient, and so does the teacher*: its logits had a graph. Run it
# under ``no_grad``; ``detach`` afterwards makes a graph first. (T²: :ref:`distillation`.)

teacher, student = weight(2.0), weight(1.0)
with torch.no_grad():
    quiet = teacher * 3
print(taught((student * 3 - teacher * 3) ** 2, teacher=teacher, student=student))
(distilled := taught((student * 3 - quiet) ** 2, teacher=teacher, student=student))

# %%
# The check: differences of each loss by the weight that it is to teach:

h = 1e-3
for found, loss, at in (
    (to_critic["D"], lambda D: D * 2.0 - D * 5.0, 3.0),  # fake is 2
    (to_generator["G"], lambda G: -3.0 * G, 2.0),  # D is 3
    (held["w"], lambda w: (w - 5.0) ** 2, 4.0),  # the target is 5
    (to_value["value"], lambda u: (u - 5.0) ** 2, 2.0),  # and so is the return
    (distilled["student"], lambda s: (3 * s - 6.0) ** 2, 1.0),  # the teacher says 6
):
    assert abs((loss(at + h) - loss(at - h)) / (2 * h) - found) < 1e-6
assert to_critic["G"] is to_generator["D"] is distilled["teacher"] is None

# %%
# Where next
# ----------
#
# ``detach`` or ``no_grad``: :ref:`no-grad-detach`. A straight-through choice:
# :ref:`discrete-choices`. Two losses and one graph: :ref:`several-losses`.
#
# .. asked: stop gradient; where to put detach; GAN detach fake; target network
#    gradient; BYOL SimSiam stop-gradient; VQ-VAE straight-through; block the gradient
#    in one branch; stop_gradient of TensorFlow or JAX in PyTorch; let the gradient pass
#    to one network only; generator must not be updated; keep the target fixed; do not
#    train through this branch; stop the teacher from learning
