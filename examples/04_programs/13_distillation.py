r"""
.. _distillation:

Knowledge distillation: why T², and which reduction of kl_div?
==============================================================

You want a large network to teach a small one. The small network sees not only the right
class, but all the probabilities of the large one. To soften these probabilities, you
divide the logits by a *temperature* T. Implementations usually multiply the loss by ``T *
T``, and few say why. ``F.kl_div`` has four reductions and two arguments that are easily
swapped, and neither the wrong reduction nor the wrong order raises an error. All of this
becomes clear if you look at the ``v`` that arrives at the student's logits.
"""

# %%
# The distillation loss
# ---------------------
#
# ``student`` and ``teacher`` stand for the logits of a batch, of shape ``(B, K)`` for B
# samples and K classes. The first argument of ``F.kl_div`` takes the *logarithms* of the
# student's probabilities, and the second takes the teacher's *probabilities*:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same logits on every build
B, K = 6, 10
student = torch.randn(B, K, requires_grad=True)
teacher, label = torch.randn(B, K), torch.arange(B)


def distil(T, reduction="batchmean"):
    log_q, p = F.log_softmax(student / T, 1), F.softmax(teacher / T, 1)
    return F.kl_div(log_q, p, reduction=reduction)  # logarithms first, probabilities second


# %%
# Why is the loss multiplied by T²?
# ---------------------------------
#
# In training you add this loss to an ordinary loss, the cross-entropy with the right
# classes. So the length of its gradient matters in comparison with the gradient of the
# ordinary loss. We raise T, and print the length without and with the factor T². The
# ordinary loss is called the hard loss in the output:


def slope(loss):
    return torch.autograd.grad(loss, student)[0]


print("hard loss", round(slope(F.cross_entropy(student, label)).norm().item(), 3))
for T in (1, 2, 4, 8, 16):
    g = slope(distil(T)).norm().item()
    print(f"T {T:2}  KL {g:.4f}  T² KL {T**2 * g:.3f}")

# %%
# Without the factor the gradient becomes negligible beside the gradient of the hard loss:
# each doubling of T leaves about a quarter of it. With the factor it keeps nearly the same
# size. So if you have found a good mix of the two losses at T = 4, it is still about right
# at T = 8. The factor T² changes nothing else, because it only multiplies ``v`` by a
# number.
#
# And why the square? Let :math:`q=\mathrm{softmax}(s/T)` for the student with logits s,
# and let :math:`p=\mathrm{softmax}(t/T)` for the teacher with logits t. Then the gradient
# is
#
# .. math::
#
#    \nabla_s\,\frac1B\sum_i\mathrm{KL}(p_i\Vert q_i)=\frac{q-p}{BT}
#    \approx\frac{s-t}{BKT^2}\quad\text{for large }T
#
# The approximation holds for logits that add up to 0 in each sample. If yours do not,
# subtract their mean first. One factor T comes from the chain rule, since the logits are
# divided by T. The other comes from the probabilities: the flatter the two distributions
# are, the closer they are to each other. Here is the ``v`` of one sample, for a small and
# a large T. For the large T it is nearly a scaled copy of :math:`s-t`, and all classes
# count, not only the likeliest:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(2, 1, layout="constrained", figsize=(5, 4), sharex=True)
for ax, T in zip(axes, (1, 16), strict=True):
    v = T**2 * slope(distil(T))[0]
    ax.bar(range(K), v, label="T² times v")
    apart = (student - teacher)[0].detach()
    ax.plot((apart - apart.mean()) / (B * K), "o", color="C1", label="(s − t)/(B K)")
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set_title(f"T = {T}")
axes[0].legend(fontsize=8)
axes[1].set_xlabel("class")
title = figure.suptitle("What the student's logits receive from one sample")

# %%
# Which reduction of kl_div?
# --------------------------
#
# The divergence of a sample is a sum over the classes. For a batch you want the mean over
# the *samples*, which is ``"batchmean"``. The default, ``"mean"``, also divides by the
# number of classes. PyTorch warns about the default, since the result is not a
# divergence. For each reduction we divide the gradient by the gradient for
# ``"batchmean"``:

import warnings

with warnings.catch_warnings(action="ignore"):
    for reduction in ("batchmean", "mean", "sum"):
        ratio = slope(distil(4.0, reduction)) / slope(distil(4.0))
        print(f"{reduction:9} {ratio.mean().item():.3f}")

# %%
# With ``"mean"`` you get a tenth, because there are ten classes. With a vocabulary of
# 50,000 words you would get next to nothing. With logits of sequences, ``(B, L, K)``,
# even ``"batchmean"`` divides by B alone, so flatten them to ``(B * L, K)``.
#
# In which order do the arguments go?
# -----------------------------------
#
# The student's logarithms come first and the teacher's probabilities second, or, with
# ``log_target=True``, the logarithms of both. How can you recognize a mistake? A
# divergence is never below 0, so a negative value gives one mistake away. Another mistake
# gives NaN. A third does not show at all: if you exchange the two networks, but pass
# logarithms first and probabilities second, you get the divergence in the other
# direction, which is positive as well. Here are the two right ways, and the first two
# mistakes:

log_q, log_p = student.log_softmax(1), teacher.log_softmax(1)
for name, loss in {
    "log q, p": F.kl_div(log_q, log_p.exp(), reduction="batchmean"),
    "log q, log p": F.kl_div(log_q, log_p, reduction="batchmean", log_target=True),
    "p, log q": F.kl_div(log_p.exp(), log_q, reduction="batchmean"),
    "q, p": F.kl_div(log_q.exp(), log_p.exp(), reduction="batchmean"),
}.items():
    print(f"{name:13} {loss.item():.3f}")

# %%
# You can also do without ``kl_div``. ``F.cross_entropy`` takes the student's logits, and
# probabilities as targets. Its value is larger by the teacher's entropy. But this entropy
# is a constant, so the student gets the same gradient:

soft = F.cross_entropy(student, log_p.exp())
print("same gradient:", torch.allclose(slope(soft), slope(distil(1.0)), atol=1e-7))

# %%
# What to watch for
# -----------------
#
# **The teacher gets a gradient, too.** If the teacher's logits have a graph, the loss
# pulls both networks toward each other. The teacher then follows the student if an
# optimizer holds the teacher's weights. Even if no optimizer does, the teacher's
# activations stay in memory.
#
# **The teacher is in training mode.** In that mode its dropout gives the student a
# different target at each call, and the running averages of its BatchNorm change with each
# batch. We try both modes, each with and without a graph. Do the teacher's weights get a
# gradient, and do two calls agree?

network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, K))
data = torch.randn(B, 4)
for mode in (network.train, network.eval):
    for graph in (True, False):
        with torch.set_grad_enabled(graph):
            first, second = mode()(data), network(data)
        network.zero_grad()
        F.kl_div(student.log_softmax(1), first.softmax(1), reduction="batchmean").backward()
        taught = network[0].weight.grad is not None
        print(f"{mode.__name__:5} graph {graph!s:5} taught {taught!s:5}", end=" ")
        print("two calls agree", torch.equal(first, second))

# %%
# Only the last of the four combinations is right: ``eval()``, and without a graph.
#
# **The T² is part of the mix.** Usually the losses are mixed as
# ``alpha * T * T * soft + (1 - alpha) * hard``. If you leave out the T², you have chosen
# another alpha, and the learning rate that you tuned for the first mix may not suit it.
#
# .. admonition:: Try it
#
#    Write the training step for your own student and teacher, with T = 4 and alpha = 0.9.
#    Does the student come closer to the teacher?
#
# .. dropdown:: Answer
#
#    The whole step fits into a few lines. They run with any two networks that return logits
#    of the shape ``(B, K)`` for the same classes, and leave the teacher in ``eval`` mode:


def step(pupil, master, optimizer, inputs, labels, T=4.0, alpha=0.9):
    with torch.no_grad():
        goal = F.softmax(master.eval()(inputs) / T, 1)
    logits = pupil(inputs)
    soft = F.kl_div(F.log_softmax(logits / T, 1), goal, reduction="batchmean")
    loss = alpha * T * T * soft + (1 - alpha) * F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return soft.item()


pupil = nn.Linear(4, K)
optimizer = torch.optim.Adam(pupil.parameters(), lr=0.05)
inputs = torch.randn(64, 4)
labels = network(inputs).argmax(1)
divergence = [step(pupil, network, optimizer, inputs, labels) for _ in range(100)]
print("less than a third of the divergence is left:", divergence[-1] < divergence[0] / 3)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient at T = 4 with the formula and with a difference quotient
#    along one direction, and the gradient at a large T with its limit.

T, u = 4.0, torch.randn(B, K).double()
q, p = (student / T).softmax(1), (teacher / T).softmax(1)
torch.testing.assert_close(slope(distil(T)), ((q - p) / (B * T)).detach())
apart = (student - teacher).detach()
limit = (apart - apart.mean(1, keepdim=True)) / (B * K)
assert (1e3**2 * slope(distil(1e3)) - limit).norm() < 0.01 * limit.norm()
assert divergence[-1] < divergence[0] / 3
log_q = lambda h: ((student.detach() + h * u) / T).log_softmax(1)
move = [F.kl_div(log_q(h), p.double(), reduction="batchmean") for h in (1e-4, -1e-4)]
torch.testing.assert_close((move[0] - move[1]) / 2e-4, (slope(distil(T)) * u).sum())

# %%
# **Next:** :ref:`stop-gradient` shows where else a graph has to be cut. For the ``v`` that
# other losses send, read :ref:`what-losses-send`. :ref:`freezing-layers` explains what
# ``eval`` does in a frozen network.
#
# .. asked: knowledge distillation loss; teacher and student; temperature squared;
#    kl_div batchmean; soft targets; distillation gradient too small
# .. words: compress a model, small network, soft labels, temperature, KL, imitate, teacher
#    logits, log_target
