r"""
.. _discrete-choices:

Which gradient goes through argmax or a random choice?
======================================================

Your program has to choose one box out of three, and the choice should get better with
training. The choice leads to a cost, and you call ``backward`` on this cost. Either the
call raises an error, or nothing is learned, because a choice jumps from one box to the
next, and a jump has no slope. But the *expected* cost of a random choice does have a
slope. There are several ways to compute the gradient of the expected cost. Two of them
are right, one always and the other on average. The best-known other ways,
straight-through and Gumbel-softmax, are wrong even on average for most costs, and we
shall see how this affects the training.
"""

# %%
# A choice of three
# -----------------
#
# The boxes hold 1, 3 and 2 liters. A choice is a :term:`one-hot vector` h of shape
# ``(3,)``, and it is drawn with the probabilities
# :math:`p=\operatorname{softmax}(\theta)`. The cost f of a box is the square of its size,
# so it is 1, 9 and 4. We want the gradient of the expected cost,
#
# .. math::
#
#    \nabla_\theta E[f(h)]=\nabla_\theta\sum_k p_k\,f(e_k) =\sum_k
#    p_k\,f(e_k)\,\nabla_\theta\log p_k ,
#
# where :math:`e_k` is the choice of box k. People first try to differentiate through the
# choice itself. But the result of ``argmax`` has no graph, and neither has a draw:

import math

import torch
from torch.nn import functional as F

torch.manual_seed(0)  # the same draws on every build
size = torch.tensor([1.0, 3.0, 2.0])
theta = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
every = torch.eye(3)  # the three choices


def square(h):  # (..., 3) -> (...)
    return (h @ size) ** 2


for choice in (theta.argmax(), torch.multinomial(theta.softmax(0), 1)):
    try:
        square(F.one_hot(choice, 3).float()).sum().backward()
    except RuntimeError as error:
        print(error)

# %%
# Few choices: add them up
# ------------------------
#
# You need not draw at all, as long as you can afford to compute the cost of every choice.
# The expected cost is a sum, and a sum has a gradient. This gradient is exact, and we
# shall compare the other gradients with it:


def summed(f):
    return torch.autograd.grad(theta.softmax(0) @ f(every), theta)[0]


exact = summed(square)
exact.round(decimals=4)

# %%
# The score function
# ------------------
#
# With many choices you draw one, and take the gradient of its log-probability with its cost
# as ``v``. This is the right-hand side of the formula, one term at a time. The cost need
# not have a derivative. Policy gradients use the same method (:ref:`reinforce`). As there
# are only three choices, we can compute the exact mean of these gradients, and their spread
# around it. ``moments`` computes both:


def score(f, k):
    return torch.autograd.grad(theta.log_softmax(0)[k], theta, f(every[k]))[0]


def moments(estimate, f):
    """Return the mean over the draws, and the spread of one draw."""
    rows, p = torch.stack([estimate(f, k) for k in range(3)]), theta.softmax(0).detach()
    mean = p @ rows
    return mean, (p @ (rows - mean) ** 2).sum().sqrt().item()


unbiased, spread = moments(score, square)
print(unbiased.round(decimals=4), round(spread, 2))

# %%
# The mean is the exact gradient. But a single draw is off by several times the length of
# the gradient. A good *baseline*, a number that you subtract from every cost, makes this
# spread smaller.
#
# Straight-through
# ----------------
#
# In the forward pass, straight-through uses the choice that was drawn, which is called the
# *hard* choice. In the backward pass it pretends that the choice had been ``p``. So it uses
# the slope of the cost *at the chosen box*. The mean of its gradients is different from the
# exact gradient, and no number of draws removes this error. In one case it is right: if the
# cost is linear, so that its slope is the same everywhere, every single draw gives the
# exact gradient. Here are the mean, the exact gradient and the spread, first for the square
# of the size and then for the size itself:


def through(f, k):
    p = theta.softmax(0)
    return torch.autograd.grad(f(every[k] + p - p.detach()), theta)[0]


for f in (square, lambda h: h @ size):
    mean, spread = moments(through, f)
    print(mean.round(decimals=4), summed(f).round(decimals=4), round(spread, 2))

# %%
# Gumbel-softmax
# --------------
#
# Gumbel-softmax draws a *soft* choice, a mixture of the boxes. With a low temperature τ
# the choice is nearly hard. A lower τ gives less error in the mean, but more spread, as
# the table shows. ``hard=True`` rounds the choice for the cost, and uses the soft choice
# for the backward pass, which is straight-through again. A soft choice also has an error,
# because the cost of a mixture is not the mean of the costs. The table shows the error of
# the mean and the spread, as multiples of the length of the exact gradient, from 100 000
# draws:


def gumbel(f, tau, hard):
    many = theta.detach().expand(100_000, 3).clone().requires_grad_()
    (rows,) = torch.autograd.grad(f(F.gumbel_softmax(many, tau, hard=hard)).sum(), many)
    bias, length = rows.mean(0) - summed(f), summed(f).norm()
    return bias.norm() / length, rows.std(0).norm() / length


soft = {}
print("  τ  hard  error spread")
for tau in (2.0, 0.5, 0.1):
    for hard in (False, True):
        soft[tau, hard] = bias, spread = gumbel(square, tau, hard)
        print(f"{tau:3}  {hard!s:5} {bias:4.1f} {spread:5.1f}")

# %%
# Does a low τ always reduce the error of ``hard=True``, too? For our square it does. As the
# draw moves from one box to another, the rounded choice jumps, and the gradient uses the
# slope of the cost at one end or at the other. For a square the mean of these two slopes
# *is* the slope of the line between the two ends. For other costs it is not. With the cube
# of our cost, an error of about a quarter of the gradient remains. The first number is the
# error for the soft choice, and the second is the error for the hard one:

cubed = [gumbel(lambda h: square(h) ** 3, 0.1, hard)[0].item() for hard in (False, True)]
print([round(bias, 1) for bias in cubed])

# %%
# Where the wrong gradients lead
# ------------------------------
#
# Does the error matter? We train with each of the four methods. Goods of 2.2 liters have
# to be packed, and the cost is the square of the difference between this number and the
# size of the box. So the box of 2 liters is best, at a cost of 0.04. Each function below
# takes a ``theta`` and calls ``backward``, and all except ``by_sum`` draw 32 times. You
# can copy each of them:


def misfit(h):
    return (h @ size - 2.2) ** 2


def by_sum(theta):
    (theta.softmax(0) @ misfit(every)).backward()


def by_score(theta, draws=32):
    k = torch.multinomial(theta.detach().softmax(0), draws, replacement=True)
    costs = misfit(every[k])
    v = (costs - costs.mean()) / draws  # the mean cost is the baseline
    theta.log_softmax(0)[k].backward(v)


def by_straight_through(theta, draws=32):
    p = theta.softmax(0)
    k = torch.multinomial(p.detach(), draws, replacement=True)
    misfit(every[k] + p - p.detach()).mean().backward()


def by_gumbel(theta, draws=32):
    h = F.gumbel_softmax(theta.expand(draws, 3), tau=0.5)
    misfit(h).mean().backward()


def train(estimate):
    """Return the expected cost at each step, and the probabilities at the end."""
    theta = torch.tensor([2.0, 1.0, 0.0], requires_grad=True)  # prefers the wrong box
    optimizer = torch.optim.Adam([theta], lr=0.05)
    history = []
    for _ in range(400):
        optimizer.zero_grad()
        estimate(theta)
        optimizer.step()
        history.append((theta.detach().softmax(0) @ misfit(every)).item())
    return history, theta.detach().softmax(0)


ways = {
    "sum": by_sum,
    "score function": by_score,
    "straight-through": by_straight_through,
    "Gumbel-softmax": by_gumbel,
}
trained = {name: train(way) for name, way in ways.items()}
for name, (history, p) in trained.items():
    print(f"{name:17} cost {history[-1]:.1f}, right box {10 * (10 * p[2]).round():.0f}%")

# %%
# The percentages are rounded to tens, because the draws depend on the processor. All four
# begin with a preference for the smallest box. Here is the expected cost during the
# training:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.6))
for name, (history, _) in trained.items():
    ax.plot(history, label=name)
ax.set(xlabel="step", ylabel="expected cost", ylim=(0, None))
ax.legend()
title = ax.set_title("Straight-through stops at a mixture of boxes")

# %%
# Three of the methods find the box of 2 liters. Straight-through goes on choosing wrong
# boxes. What has it learned? Look at the size of its boxes *on average*:

p = trained["straight-through"][1]
print(f"sizes on average {(p * size).sum():.1f}")

# %%
# This is exactly the size that the goods need! The slope of the cost at a box is
# :math:`2(\text{size}-2.2)`, and the slopes cancel on average as soon as the sizes are
# 2.2 on average. Straight-through stops at such a mixture, apart from the noise of its
# draws. A mixture of 1, 2 and 3 liters would be perfect if you could mix boxes. The
# cheapest such mixture takes the box of 3 liters once for every four boxes of 2 liters.
# Its mean cost is 0.16, four times the cost of always taking the box of 2. The other
# three methods compare the *costs* of boxes, or nearly so.
#
# sample and rsample
# ------------------
#
# Not all random draws are choices. A draw that is a smooth function of its parameters and
# of some noise, such as a draw from a normal distribution, has a path for the gradient. In
# ``torch.distributions``, ``rsample`` keeps this path, and ``sample`` cuts it. A choice has
# no path, and so ``Categorical`` has no ``rsample``:

normal, categorical = torch.distributions.Normal, torch.distributions.Categorical
mean = torch.tensor(1.0, requires_grad=True)
print([getattr(normal(mean, 1.0), draw)().requires_grad for draw in ("sample", "rsample")])
try:
    categorical(logits=theta).rsample()
except NotImplementedError as error:
    print(repr(error))

# %%
# Where such a path exists, is it always better than the score function? We compare it with
# the score function for three functions of a normal draw: :math:`x^2`, the wave
# :math:`\sin 2x`, and the jump :math:`[x>0]`, which is 1 for a positive x and 0 otherwise:

means, found = torch.ones(100_000, requires_grad=True), {}
x = normal(means, 1.0).rsample()
functions = torch.square, lambda x: (2 * x).sin(), lambda x: (x > 0) + 0 * x
print("            path        score")
for name, f in zip(("square", "wave", "jump"), functions, strict=True):
    (path,) = torch.autograd.grad(f(x).sum(), means, retain_graph=True)
    log_p = normal(means, 1.0).log_prob(x.detach())
    (of_score,) = torch.autograd.grad(log_p, means, f(x.detach()))
    found[name] = path.mean().item(), of_score.mean().item()
    shown = [f"{g.mean() + 0.0:4.1f} ± {g.std():.1f}" for g in (path, of_score)]
    print(f"{name:8}", *shown, sep="  ")
density = math.exp(-1 / 2) / math.sqrt(2 * math.pi)
print(f"the density at 0: {density:.2f}")

# %%
# For the two smooth functions both methods are right on average. The gradient along the
# path has the smaller spread for the square, and the larger spread for the wave, whose
# slope changes its sign from draw to draw. For the jump the gradient along the path is
# wrong. The expected value of :math:`[x>0]` changes with the mean at the rate of the
# density at 0, but along the path the slope is 0 for every draw.
#
# What to watch for
# -----------------
#
# **A loss that goes down is no proof.** In the picture straight-through learns something at
# the beginning. Try your estimator on a small case whose sum you can compute, as here.
#
# **hard=True is not exact either.** Like straight-through, it takes the hard choice for
# the cost and a slope from elsewhere, and so it has the same fault.
#
# **The score function is noisy.** Take the mean over many draws, and subtract a baseline
# from the costs that does not depend on the draw itself. The mean of the same 32 costs, as
# in ``by_score``, contains the draw, and so it multiplies the mean of the gradient by
# 31/32. The steps of Adam hardly change through this factor.
#
# .. admonition:: Try it
#
#    Let the goods be 2 liters instead of 2.2, so that one box fits exactly. Does
#    straight-through still stop at a mixture?
#
# .. dropdown:: Answer
#
#    Yes. If it chooses the boxes of 1 and of 3 liters equally often, the size is 2 liters
#    on average, and it stops there:

kept, misfit = misfit, lambda h: (h @ size - 2.0) ** 2
_, p = train(by_straight_through)
misfit = kept
print(f"right box {10 * (10 * p[2]).round():.0f}%, sizes on average {(p * size).sum():.1f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the exact gradient and the mean of the score function with the derivative of
#    softmax, worked out by hand. For a linear cost, we compare the straight-through
#    gradient with this derivative as well. We compare the estimates for the normal draw
#    with their formulas. We compute the factor 31/32 for two draws, where it is 1/2. We
#    check, with some tolerance, the errors of Gumbel-softmax and the results of the four
#    training runs.

assert 0.3 < p[2] < 0.9
p, f = theta.detach().softmax(0), torch.tensor([1.0, 9.0, 4.0])
torch.testing.assert_close((exact, unbiased), 2 * (p * (f - p @ f),))
assert moments(score, square)[1] > 2 * exact.norm()
assert (moments(through, square)[0] - exact).norm() > 0.2
torch.testing.assert_close(moments(through, lambda h: h @ size)[0], p * (size - p @ size))
assert moments(through, lambda h: h @ size)[1] < 1e-6
assert soft[2.0, False][0] > 0.4 > 0.1 > soft[0.1, False][0]
assert soft[2.0, False][1] < soft[0.5, False][1] < soft[0.1, False][1]
assert soft[2.0, True][0] > 0.4 > 0.1 > soft[0.1, True][0]
assert cubed[1] > 0.2 > 0.1 > cubed[0]
waved = 2 * math.cos(2) * math.exp(-2)
known = torch.tensor([[2, 2], [waved, waved], [0, density]])
torch.testing.assert_close(torch.tensor([*found.values()]), known, atol=0.05, rtol=0)

ends = {name: history[-1] for name, (history, _) in trained.items()}
assert max(ends[name] for name in ways if name != "straight-through") < 0.1
assert ends["straight-through"] > 0.3
assert abs((trained["straight-through"][1] * size).sum() - 2.2) < 0.1
cheapest = torch.tensor([0.0, 1.0, 4.0]) / 5
torch.testing.assert_close(cheapest @ size, torch.tensor(2.2))
torch.testing.assert_close(cheapest @ misfit(every), torch.tensor(0.16))
pairs = torch.zeros(3)  # two draws: the mean over all nine pairs
for i in range(3):
    for j in range(3):
        base = (f[i] + f[j]) / 2
        both = (f[i] - base) * score(lambda h: torch.tensor(1.0), i)
        both = both + (f[j] - base) * score(lambda h: torch.tensor(1.0), j)
        pairs += p[i] * p[j] * both / 2
torch.testing.assert_close(pairs, exact / 2)

# %%
# **Next:** For the score function with a better baseline, read :ref:`reinforce`.
# :ref:`vq-codes` shows a choice among many codes that is trained by straight-through and
# works. For the slopes that PyTorch chooses at a jump or a corner, read :ref:`kinks`.
#
# .. asked: discrete choice no gradient; argmax not differentiable; Gumbel-softmax;
#    straight-through estimator; sample inside a network; gradient through a random
#    choice; yes or no decision; hard attention; step function gradient; decision in the
#    network cannot learn; train through a hard choice; binary weights; zero-one
#    decision; random sampling of categories; reparametrisation of a choice
# .. words: choose, decision, hard, sampling, categorical, binary, argmax, round, quantise,
#    gumbel, temperature, relax, if else, one of k, token sampling
