r"""
.. _stop-gradient:

Where does detach() go? GAN, DQN, BYOL, VQ-VAE, distillation
============================================================

``detach`` cuts one way through the graph, for one use of a tensor. Ask of every loss whom
it is to teach: those ways stay, the others are cut. A missing cut teaches the wrong network
and raises nothing; a cut in the wrong place leaves ``.grad`` at None.
"""

# %%
# Numbers that can be checked in the head: a network here is one weight times its input, and
# ``taught`` says which weights a loss reaches, and with what gradient.

import torch


def weight(value):
    return torch.tensor(value, requires_grad=True)


def taught(loss, **weights):
    found = torch.autograd.grad(
        loss, list(weights.values()), allow_unused=True, retain_graph=True
    )
    numbers = [None if g is None else g.item() for g in found]
    return dict(zip(weights, numbers, strict=True))


# %%
# A GAN: two losses, one sample
# -----------------------------
#
# The generator makes ``fake = G z``; the critic's score is ``D x``. The critic's loss is to
# raise the real score and lower that of the fake. Without and with the cut:

G, D, z, real = weight(2.0), weight(3.0), torch.tensor(1.0), torch.tensor(5.0)
fake = G * z
print(taught(D * fake - D * real, G=G, D=D))
print(taught(D * fake.detach() - D * real, G=G, D=D))

# %%
# Without it G is pushed by the critic's loss, *against* its own aim, as soon as ``.grad``
# is read. The generator's loss must not be cut there: its way goes *through* D, whose
# weight gets a gradient that you do not want. Not ``detach`` but freezing D, or zeroing its
# ``.grad`` before its own step, is the way:

print(taught(-D * fake.detach(), G=G, D=D))
print(taught(-D * fake, G=G, D=D), taught(-D.detach() * fake, G=G, D=D))

# %%
# (``D.detach()`` cuts the critic's *weight* out and lets v pass through the critic's
# function; for a module, that is ``requires_grad_(False)``.)
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
print(taught((now - target) ** 2, w=w), taught((now - target.detach()) ** 2, w=w))

# %%
# With a graph the target runs from the value as fast as the value runs after it: here the
# slopes 1 and 0.5·2 cancel, and nothing is learned. (The full gradient has its uses, as
# *residual gradient*; it is another algorithm.) A target *network* is a copy under
# ``no_grad``, moved by hand:

online, slow = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).requires_grad_(False)
with torch.no_grad():
    for ours, theirs in zip(slow.parameters(), online.parameters(), strict=True):
        ours.lerp_(theirs, 0.01)
print([p.requires_grad for p in slow.parameters()])

# %%
# Two views, one network: BYOL, SimSiam
# -------------------------------------
#
# Two views of a thing, 1 and 2, go through a network w, and a predictor p is to map the
# first result to the second. The loss :math:`w^2(p-2)^2` has two ways down: p learns, or w
# shrinks until all views are alike. Holding one side constant takes the second way out:

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
# The code nearest to the encoder's e has no derivative. ``e + (code - e).detach()`` has the
# value of the code and the slope of e; two more losses, each with one side cut, draw codes
# and encoder together:

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
# under ``no_grad``, which saves that graph's memory as well, not ``detach`` afterwards:

teacher, student = weight(2.0), weight(1.0)
with torch.no_grad():
    quiet = teacher * 3
print(taught((student * 3 - teacher * 3) ** 2, teacher=teacher, student=student))
print(taught((student * 3 - quiet) ** 2, teacher=teacher, student=student))

# %%
# The check: differences of each loss by the one weight that it is to teach, with the cut
# part as the number it was:

h = 1e-3
for loss, at, slope in (
    (lambda D: D * 2.0 - D * 5.0, 3.0, -3.0),  # the critic: fake is 2
    (lambda G: -3.0 * G, 2.0, -3.0),  # the generator: D is 3
    (lambda w: (w - 5.0) ** 2, 4.0, -2.0),  # the value: the target is 5
    (lambda s: (3 * s - 6.0) ** 2, 1.0, -18.0),  # the student: the teacher says 6
):
    assert abs((loss(at + h) - loss(at - h)) / (2 * h) - slope) < 1e-6
assert taught((student * 3 - quiet) ** 2, s=student) == {"s": -18.0}
w = weight(4.0)
assert taught((w - (1 + w).detach()) ** 2, w=w) == {"w": -2.0}

# %%
# Where next
# ----------
#
# ``detach`` or ``no_grad``: :ref:`no-grad-detach`. A straight-through choice:
# :ref:`discrete-choices`. Two losses and one graph: :ref:`several-losses`.
