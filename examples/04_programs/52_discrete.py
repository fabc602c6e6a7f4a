r"""
.. _discrete-choices:

Which gradient goes through argmax or a random choice?
======================================================

Through the choice itself none: it jumps. What has a gradient is the *expected* loss of a
random choice. Summing over the choices gives it exactly, the score function on average;
straight-through and Gumbel-softmax are wrong on average, with less noise as a rule.
"""

# %%
# One of n choices as a :term:`one-hot vector` h of shape ``(n,)``, with probabilities
# :math:`p=\operatorname{softmax}(\theta)`, and a loss f:
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


def summed(f):
    return torch.autograd.grad(theta.softmax(0) @ f(every), theta)[0]


exact = summed(loss)
exact.round(decimals=4)

# %%
# The score function
# ------------------
#
# Many choices: draw, and weigh :math:`\nabla\log p_k` by the loss, whose derivative is not
# needed (:ref:`reinforce`). The mean over the draws, each with its probability, is the
# exact gradient. With it the spread of a single draw, which a good baseline lowers:


def score(f, k):
    return torch.autograd.grad(theta.log_softmax(0)[k], theta, f(every[k]))[0]


def moments(estimate, f):
    rows, p = torch.stack([estimate(f, k) for k in range(3)]), theta.softmax(0).detach()
    mean = p @ rows
    return mean, (p @ (rows - mean) ** 2).sum().sqrt().item()


unbiased, spread = moments(score, loss)
print(unbiased.round(decimals=4), round(spread, 2))

# %%
# Straight-through
# ----------------
#
# Forward the hard choice, backward as if it had been p, with f′ at the choice. Its mean is
# another vector, an error that no number of draws removes. *Is it ever right?* Where f is
# linear, with one slope everywhere: there every draw gives the exact gradient. Mean, exact
# gradient and spread, for the loss and for a linear f:


def through(f, k):
    p = theta.softmax(0)
    return torch.autograd.grad(f(every[k] + p - p.detach()), theta)[0]


for f in (loss, lambda h: h @ size):
    mean, spread = moments(through, f)
    print(mean.round(decimals=4), summed(f).round(decimals=4), round(spread, 2))

# %%
# Gumbel-softmax
# --------------
#
# A soft h, the harder the lower its temperature τ: less bias, more spread. ``hard=True``
# rounds it for f and keeps the soft one for the way back, straight-through again. f at a
# soft h is another loss, too. Bias and spread, in lengths of the exact gradient:


def gumbel(f, tau, hard):
    many = theta.detach().expand(100_000, 3).clone().requires_grad_()
    (rows,) = torch.autograd.grad(f(F.gumbel_softmax(many, tau, hard=hard)).sum(), many)
    bias, length = rows.mean(0) - summed(f), summed(f).norm()
    return bias.norm() / length, rows.std(0).norm() / length


soft = {(t, hard): gumbel(loss, t, hard) for t in (2.0, 0.5, 0.1) for hard in (False, True)}
for (tau, hard), (bias, spread) in soft.items():
    print(tau, f"{hard!s:5} {bias:.1f} {spread:.1f}")

# %%
# *Does a low τ mend hard=True, too?* For a square, where the mean of f′ at both ends of a
# jump is the slope between them. For its cube a quarter of the gradient stays wrong:

cubed = [gumbel(lambda h: loss(h) ** 3, 0.1, hard)[0].item() for hard in (False, True)]
print([round(bias, 2) for bias in cubed])

# %%
# sample and rsample
# ------------------
#
# A draw that is a smooth function of its parameters and of noise has a path for the
# gradient, ``rsample``; ``sample`` cuts it. A choice has no such path:

normal, categorical = torch.distributions.Normal, torch.distributions.Categorical
mean = torch.tensor(1.0, requires_grad=True)
print([getattr(normal(mean, 1.0), draw)().requires_grad for draw in ("sample", "rsample")])
try:
    categorical(logits=theta).rsample()
except NotImplementedError as error:
    print(repr(error))

# %%
# *Is rsample always the better one?* Where f is smooth both are right, and its spread is
# the smaller while f is no steep wave: see :math:`x^2`, then :math:`\sin 2x`. For a jump,
# :math:`[x>0]`, whose :math:`dE/d\mu` is the density at 0, 0.24, it gives 0 for every draw:

means, found = torch.ones(100_000, requires_grad=True), {}
x = normal(means, 1.0).rsample()
functions = torch.square, lambda x: (2 * x).sin(), lambda x: (x > 0) + 0 * x
for name, f in zip(("square", "wave", "jump"), functions, strict=True):
    (path,) = torch.autograd.grad(f(x).sum(), means, retain_graph=True)
    log_p = normal(means, 1.0).log_prob(x.detach())
    (by_score,) = torch.autograd.grad(log_p, means, f(x.detach()))
    found[name] = path.mean().item(), by_score.mean().item()
    print(name, *(f"{g.mean():.1f} ± {g.std():.1f}" for g in (path, by_score)))

# %%
# The check: the derivative of softmax by hand; each mean where it belongs, or not:

import math

p, f = theta.detach().softmax(0), torch.tensor([1.0, 9.0, 4.0])
torch.testing.assert_close((exact, unbiased), 2 * (p * (f - p @ f),))
assert (moments(through, loss)[0] - exact).norm() > 0.2
torch.testing.assert_close(moments(through, lambda h: h @ size)[0], p * (size - p @ size))
assert soft[2.0, False][0] > 0.4 > 0.1 > soft[0.1, False][0]
assert cubed[1] > 0.2 > 0.1 > cubed[0]
density, waved = math.exp(-1 / 2) / math.sqrt(2 * math.pi), 2 * math.cos(2) * math.exp(-2)
known = torch.tensor([[2, 2], [waved, waved], [0, density]])
torch.testing.assert_close(torch.tensor([*found.values()]), known, atol=0.05, rtol=0)

# %%
# Where next
# ----------
#
# A baseline: :ref:`reinforce`. Slopes chosen at a jump or a corner: :ref:`kinks`.
#
# .. asked: discrete choice no gradient; argmax not differentiable; Gumbel-softmax;
#    straight-through estimator; sample inside a network; gradient through a random
#    choice; yes or no decision; hard attention; step function gradient; decision in the
#    network cannot learn; train through a hard choice; binary weights; zero-one
#    decision; random sampling of categories; reparametrisation of a choice
# .. words: choose, decision, hard, sampling, categorical, binary, argmax, round, quantise,
#    gumbel, temperature, relax, if else, one of k, token sampling
