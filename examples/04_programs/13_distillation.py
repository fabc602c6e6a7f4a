r"""
.. _distillation:

Knowledge distillation: why T², and which reduction of kl_div?
==============================================================

With logits divided by a large T the gradient at the student's logits shrinks as 1/T²; times
T² it has nearly one size at all of them. ``reduction="batchmean"`` is the mean over the
samples; ``"mean"`` divides by the number of classes as well. The teacher runs in
``eval()``, under ``no_grad``.
"""

# %%
# B samples, K classes. With :math:`q=\mathrm{softmax}(s/T)` of the student, and
# :math:`p` of the teacher, the gradient of the mean divergence by the student's logits is
#
# .. math::
#
#    \nabla_s\,\frac1B\sum_i\mathrm{KL}(p_i\Vert q_i)=\frac{q-p}{BT}
#    \approx\frac{s-t}{BKT^2}\quad\text{for large }T
#
# (the last with logits that sum to 0), the second T since flat probabilities lie 1/T apart.

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
# *Why is the KL term multiplied by T\*T?* The length of its gradient, without and with. The
# first falls to nothing beside the hard loss, and a mix that is right at one T is wrong at
# another:


def slope(loss):
    return torch.autograd.grad(loss, student)[0]


print("hard loss", round(slope(F.cross_entropy(student, label)).norm().item(), 3))
for T in (1, 2, 4, 8, 16):
    g = slope(distil(T)).norm().item()
    print(f"T {T:2}  KL {g:.4f}  T² KL {T**2 * g:.3f}")

# %%
# Which reduction
# ---------------
#
# How many times the gradient of ``"batchmean"`` each one gives. ``"mean"`` is the default,
# and warns: its result is not the divergence of a sample on average. Over sequences, with
# logits ``(B, L, K)``, ``"batchmean"`` divides by B alone; flatten to ``(B * L, K)``:

import warnings

with warnings.catch_warnings(action="ignore"):
    for reduction in ("batchmean", "mean", "sum"):
        ratio = slope(distil(4.0, reduction)) / slope(distil(4.0))
        print(f"{reduction:9} {ratio.mean().item():.3f}")

# %%
# *In which order do the arguments go?* The student's logarithms, the teacher's
# probabilities; with ``log_target=True`` logarithms of both. Exchanged they give NaN, and
# probabilities of both a number below 0, which no divergence is:

log_q, log_p = student.log_softmax(1), teacher.log_softmax(1)
for name, loss in {
    "log q, p": F.kl_div(log_q, log_p.exp(), reduction="batchmean"),
    "log q, log p": F.kl_div(log_q, log_p, reduction="batchmean", log_target=True),
    "p, log q": F.kl_div(log_p.exp(), log_q, reduction="batchmean"),
    "q, p": F.kl_div(log_q.exp(), log_p.exp(), reduction="batchmean"),
}.items():
    print(f"{name:13} {loss.item():.3f}")

# %%
# *KL or cross-entropy with soft targets?* They differ by the teacher's entropy, a constant,
# so the student gets the same gradient. ``cross_entropy`` takes logits and divides by B:

soft = F.cross_entropy(student, log_p.exp())
print(torch.allclose(slope(soft), slope(distil(1.0)), atol=1e-7), soft.item() > 0)

# %%
# What goes wrong
# ---------------
#
# *Does the teacher learn, too?* If its logits have a graph, yes: the loss pulls the two
# together from both ends, and the teacher's activations stay in memory. And in ``train()``
# its dropout hands the student another target at each call. Whether the teacher's weights
# get a gradient, and whether two calls agree:

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
# The check: the formula of the gradient at T = 4, the limit at a large T, and a difference
# quotient along a direction:

T, u = 4.0, torch.randn(B, K).double()
q, p = (student / T).softmax(1), (teacher / T).softmax(1)
torch.testing.assert_close(slope(distil(T)), ((q - p) / (B * T)).detach())
apart = (student - teacher).detach()
limit = (apart - apart.mean(1, keepdim=True)) / (B * K)
assert (1e3**2 * slope(distil(1e3)) - limit).norm() < 0.01 * limit.norm()
log_q = lambda h: ((student.detach() + h * u) / T).log_softmax(1)
move = [F.kl_div(log_q(h), p.double(), reduction="batchmean") for h in (1e-4, -1e-4)]
torch.testing.assert_close((move[0] - move[1]) / 2e-4, (slope(distil(T)) * u).sum())

# %%
# Where next
# ----------
#
# Where else a cut belongs: :ref:`stop-gradient`. What other losses send:
# :ref:`what-losses-send`. ``eval`` and a frozen network: :ref:`freezing-layers`.
#
# .. asked: knowledge distillation loss; teacher and student; temperature squared;
#    kl_div batchmean; soft targets; distillation gradient too small
