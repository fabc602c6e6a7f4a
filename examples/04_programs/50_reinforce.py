r"""
.. _reinforce:

REINFORCE as a VJP
==================

The policy gradient is one product: the log-probabilities of the actions taken are the
outputs, and the returns are ``v``. No derivative of the reward is needed; a reward is a
weight.
"""

# %%
# For B episodes, ``log_prob`` has shape ``(B,)``, and so do the returns R. With J the
# :term:`Jacobian` of the log-probabilities by the policy's weights,
#
# .. math::
#
#    \nabla_\theta\,E[R]\approx\frac1B\sum_i R_i\,\nabla_\theta\log p_\theta(a_i)
#    =v^\top J,\qquad v=\tfrac1B R
#
# (Williams, 1992). A choice among four levers, whose mean pay is unknown to the policy:

import torch

torch.manual_seed(0)  # the same draws on every build
pay = torch.tensor([0.25, 0.5, 1.0, 0.25])
theta = torch.zeros(4, requires_grad=True)
policy = torch.distributions.Categorical(logits=theta)
action = policy.sample((1000,))
reward = pay[action] + 0.1 * torch.randn(1000)
log_prob = policy.log_prob(action)
log_prob.backward(reward / 1000)
theta.grad.round(decimals=4)

# %%
# Four numbers from a thousand rewards that no graph leads through. What they estimate can
# be written down here: :math:`\partial E[R]/\partial\theta_k=p_k(\bar r_k-E[R])`.

p = torch.softmax(theta.detach(), 0)
exact = p * (pay - p @ pay)
exact.round(decimals=4)

# %%
# Less noise: a baseline
# ----------------------
#
# Subtracting a constant from ``v`` leaves the mean as it is, since the log-probabilities'
# gradients average to zero. A good one lowers the spread: the mean reward, here 0.5. (The
# mean of the *same* draws is no constant: it shrinks the gradient by the factor 1 − 1/B.)


def estimates(baseline):
    found = []
    for _ in range(100):
        policy = torch.distributions.Categorical(logits=theta)
        action = policy.sample((50,))
        v = (pay[action] - baseline) / 50
        found.append(torch.autograd.grad(policy.log_prob(action), theta, v)[0])
    return torch.stack(found)


plain, centred = estimates(0.0), estimates(0.5)
spread = plain.std(0).norm() / centred.std(0).norm()
print(bool(spread > 1.3))

# %%
# Learning with it
# ----------------
#
# The sign: ``backward`` gives the direction of ascent, an optimiser descends, so ``v``
# carries a minus. The probability of the best lever rises:

theta = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([theta], lr=1.0)
best = []
for _ in range(150):
    policy = torch.distributions.Categorical(logits=theta)
    action = policy.sample((32,))
    v = -(pay[action] - pay[action].mean()) / 32
    optimizer.zero_grad()
    policy.log_prob(action).backward(v)
    optimizer.step()
    best.append(policy.probs[2].item())

# %%
# Its share of the draws, step by step:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained")
ax.plot(best)
ax.set_xlabel("step")
title = ax.set_title("The policy finds the best of four levers")

# %%
# What goes wrong
# ---------------
#
# Backpropagating through the reward. A sampled action is an integer, and nothing leads
# through it. (A real-valued action has ``rsample``, if the reward is differentiable too.)

policy = torch.distributions.Categorical(logits=theta)
try:
    pay[policy.sample((32,))].mean().backward()
except RuntimeError as error:
    print(error)

# %%
# *Inference tensors cannot be saved for backward* (GRPO, PPO): the rewards come out of a
# model run under ``inference_mode``, and a product would save them. Clone them, use
# ``no_grad``, or pass them as ``v``, which nothing saves:

theta = torch.zeros(4, requires_grad=True)
action = torch.distributions.Categorical(logits=theta).sample((32,))
with torch.inference_mode():
    advantage = pay[action] - pay.mean()
log_prob = theta.log_softmax(0)[action]
try:
    (log_prob * advantage).sum()
except RuntimeError as error:
    print(str(error)[:48])
(as_v,) = torch.autograd.grad(log_prob, theta, advantage, retain_graph=True)

# %%
# *Is log_prob.backward(-A) the same as (-log_prob * A).sum().backward()?* Where A is a
# constant. One that comes from a critic has a graph, and the product teaches the critic to
# make A small; as ``v`` it never does. ``detach`` it:

critic = torch.tensor(0.25, requires_grad=True)
learned = pay[action] - critic
for A in (learned, learned.detach()):
    by_sum = torch.autograd.grad(
        (-log_prob * A).sum(), (theta, critic), retain_graph=True, allow_unused=True
    )
    (by_v,) = torch.autograd.grad(log_prob, theta, -A, retain_graph=True)
    print(torch.allclose(by_sum[0], by_v), by_sum[1] is None)

# %%
# *And the ratio in PPO, GRPO?* In the first step the old policy is the new one: the ratio
# is 1. *Isn't its gradient zero?* The detached copy is a constant, so it is that of the
# log-probability:

ratio = (log_prob - log_prob.detach()).exp()
(of_ratio,) = torch.autograd.grad((ratio * advantage.clone()).sum(), theta)
print(torch.allclose(of_ratio, as_v))

# %%
# Weighing the *probabilities* in place of their logarithms. It runs, and it is another
# gradient: actions are drawn with p already, so p counts twice:

start = torch.zeros(4, requires_grad=True)
bent = torch.tensor([0.0, 0.0, 2.0, 0.0])
q = torch.softmax(bent + start, 0)
right = torch.autograd.grad((q.detach() * pay * q.log()).sum(), start, retain_graph=True)[0]
wrong = torch.autograd.grad((q.detach() * pay * q).sum(), start)[0]
print(right.round(decimals=3), wrong.round(decimals=3))

# %%
# The check: the expected gradient exactly, without sampling, and the sampled one near it:

exact_q = q.detach() * (pay - q.detach() @ pay)
torch.testing.assert_close(right, exact_q)
assert not torch.allclose(wrong, exact_q, atol=0.01)
standard_error = (plain.std(0) / 10).max()
assert (plain.mean(0) - exact).abs().max() < 4 * standard_error
assert best[-1] > 0.9
torch.testing.assert_close(of_ratio, as_v)

# %%
# Where next
# ----------
#
# Rewards as weights on losses: :ref:`loss-as-v`. When the weights depend on the policy:
# :ref:`v-depends-on-x`. Several updates: :ref:`ratio-of-one`.
#
# .. asked: REINFORCE; policy gradient; reward has no gradient; log_prob times return;
#    reinforcement learning loss; backward with advantages; reward is not differentiable;
#    learn from rewards
