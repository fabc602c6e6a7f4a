r"""
.. _discrete-choices:

Which gradient goes through argmax or a random choice?
======================================================

Through the choice itself none: it jumps. What has a gradient is the *expected* loss of a
random choice. Summing over the choices gives it exactly, the score function without bias;
straight-through and Gumbel-softmax give another number, with less noise.
"""

# %%
# One of n choices, as a :term:`one-hot vector` h of shape ``(n,)`` with the probabilities
# :math:`p=\operatorname{softmax}(\theta)`, and a loss f of it:
#
# .. math::
#
#    \nabla_\theta E[f(h)]=\nabla_\theta\sum_k p_k\,f(e_k)
#    =\sum_k p_k\,f(e_k)\,\nabla_\theta\log p_k .
#
# The first way that people try has no graph:

import torch
from torch.nn import functional as F

torch.manual_seed(0)  # the same draws on every build
size = torch.tensor([1.0, 3.0, 2.0])
theta = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)


def loss(h):  # (..., 3) -> (...)
    return (h @ size) ** 2


for choice in (theta.argmax(), torch.multinomial(theta.softmax(0), 1)):
    try:
        loss(F.one_hot(choice, 3).float()).sum().backward()
    except RuntimeError as error:
        print(error)

# %%
# Few choices: add them up
# ------------------------
#
# *Must I sample at all?* Not while you can afford f at every choice:

every = torch.eye(3)
(exact,) = torch.autograd.grad(theta.softmax(0) @ loss(every), theta)
exact.round(decimals=4)

# %%
# The score function
# ------------------
#
# Many choices: draw, and weigh :math:`\nabla\log p_k` by the loss, whose derivative is not
# needed (:ref:`reinforce`). The mean over the draws, each with its probability, and the
# spread of a single draw:


def score(f, k):
    return torch.autograd.grad(theta.log_softmax(0)[k], theta, f(every[k]))[0]


def moments(estimate, f):
    rows, p = torch.stack([estimate(f, k) for k in range(3)]), theta.softmax(0).detach()
    mean = p @ rows
    return mean, (p @ (rows - mean) ** 2).sum().sqrt().item()


unbiased, spread = moments(score, loss)
print(unbiased.round(decimals=4), round(spread, 2))

# %%
# The mean is the exact gradient. (A baseline lowers the spread, as on that page.)
#
# Straight-through
# ----------------
#
# Forward the hard choice, backward as if it had been p, with f′ at the choice. Its mean is
# another vector, so that no number of draws removes the error:


def through(f, k):
    p = theta.softmax(0)
    return torch.autograd.grad(f(every[k] + p - p.detach()), theta)[0]


biased, spread = moments(through, loss)
print(biased.round(decimals=4), round(spread, 2))

# %%
# *Is it ever right?* Where f is linear: its slope at a choice is its slope anywhere. Then
# every draw gives the exact gradient:


def linear(h):
    return h @ size


on_average, spread = moments(through, linear)
print(on_average.round(decimals=4), round(spread, 4))
torch.autograd.grad(theta.softmax(0) @ linear(every), theta)[0].round(decimals=4)

# %%
# Gumbel-softmax
# --------------
#
# A soft h, whose temperature τ makes it harder: less bias, more spread. ``hard=True``
# rounds it for f and keeps the soft one for the way back, straight-through again. Bias and
# spread of one draw, from many; f at a soft h is another loss, too:

many = theta.detach().expand(100_000, 3).clone().requires_grad_()
soft = {}
for tau in (2.0, 0.5, 0.1):
    for hard in (False, True):
        h = F.gumbel_softmax(many, tau, hard=hard)
        (rows,) = torch.autograd.grad(loss(h).sum(), many)
        soft[tau, hard] = (rows.mean(0) - exact).norm().item()
        print(tau, f"{hard!s:5} {soft[tau, hard]:.1f} {rows.var(0).sum().sqrt():.1f}")

# %%
# sample and rsample
# ------------------
#
# A draw that is a smooth function of its parameters and of noise has a path for the
# gradient, ``rsample``; ``sample`` cuts it. A choice has no such path:

normal, categorical = torch.distributions.Normal, torch.distributions.Categorical
mean = torch.tensor(1.0, requires_grad=True)
print([getattr(normal(mean, 1.0), draw)().requires_grad for draw in ("sample", "rsample")])
print(normal.has_rsample, categorical.has_rsample)
try:
    categorical(logits=theta).rsample()
except NotImplementedError as error:
    print(repr(error))

# %%
# *Is rsample always the better one?* It has the smaller spread for a smooth f, here
# :math:`x^2` with :math:`dE/d\mu=2\mu=2`. For a jump, here :math:`[x>0]`, whose
# :math:`dE/d\mu` is the density at 0, 0.24, it gives 0 for every draw. The score function
# finds both; mean and spread:

means, found = torch.ones(100_000, requires_grad=True), {}
x = normal(means, 1.0).rsample()
for name, f in {"square": torch.square, "jump": lambda x: (x > 0) + 0 * x}.items():
    (path,) = torch.autograd.grad(f(x).sum(), means, retain_graph=True)
    log_p = normal(means, 1.0).log_prob(x.detach())
    (by_score,) = torch.autograd.grad(log_p, means, f(x.detach()))
    found[name] = path.mean().item(), by_score.mean().item()
    print(name, *(f"{g.mean():.1f} ± {g.std():.1f}" for g in (path, by_score)))

# %%
# The check: the exact gradient from differences; each mean where it belongs, or not:

h, shifts = 1e-3, torch.eye(3, dtype=torch.float64)
value = lambda t: (t.softmax(-1) * loss(every).double()).sum(-1)  # noqa: E731
t = theta.detach().double()
quotient = (value(t + h * shifts) - value(t - h * shifts)) / (2 * h)
torch.testing.assert_close(exact, quotient.float(), atol=1e-4, rtol=0)
torch.testing.assert_close(unbiased, exact)
assert (biased - exact).norm() > 0.2
assert soft[2.0, False] > 0.4 > 0.1 > soft[0.1, False]
assert abs(found["square"][0] - 2) < 0.05
assert found["jump"][0] == 0
density = normal(0.0, 1.0).log_prob(torch.tensor(1.0)).exp().item()
assert abs(found["jump"][1] - density) < 0.02

# %%
# Where next
# ----------
#
# The score function with a baseline: :ref:`reinforce`. Slopes chosen at a jump or a corner:
# :ref:`kinks`.
