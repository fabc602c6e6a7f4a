r"""
.. _reinforce:

Learning from rewards (REINFORCE)
=================================

You are standing in front of a row of four levers. They do not all pay the same amount, and
you don't know which one pays best. You pull a lever, you are paid, and you want to pull the
good levers more often. A program that learns this way has a *policy*, a probability for
each lever, and it would like to follow the gradient of the average pay. But the pay has no
derivative. It comes from a machine, after a random draw, and no graph leads through the
machine or the draw. Still, one line gives you the gradient of the average pay. If you use
an optimizer, this line needs a *minus*, because ``optimizer.step()`` makes the loss
smaller, and you want the pay to become larger:

.. code-block:: python

   loss = -(log_prob * reward).mean()
   loss.backward()

   log_prob.backward(-reward / len(reward))  # the same, without a loss

Without the minus there is no error, and the program learns to pull the lever that pays
*least*. The rewards are not differentiated at all. They are ``v``.
"""

# %%
# A gradient from a thousand pulls
# --------------------------------
#
# Here are the levers. The policy starts with equal probabilities, and pulls a thousand
# times:

import torch
from torch.distributions import Categorical

torch.manual_seed(0)  # the same draws on every build
pay = torch.tensor([0.25, 0.5, 1.0, 0.25])  # on average, unknown to the policy
theta = torch.zeros(4, requires_grad=True)

policy = Categorical(logits=theta)
action = policy.sample((1000,))
reward = pay[action] + 0.1 * torch.randn(1000)

# %%
# ``log_prob`` has an entry for each pull, the logarithm of the probability of the lever
# that was pulled. It is computed from ``theta``, so it has a graph. Its :term:`Jacobian`
# has a row for each pull, which says how to make this pull more likely. Now give each row
# its reward as a weight, and add up the rows. A pull that paid well has a large weight,
# and a pull that paid badly has a small one:

log_prob = policy.log_prob(action)
log_prob.backward(reward / 1000)
print(theta.grad)

# %%
# The third lever should be pulled more often, and the others less. Is this really the
# gradient of the average pay? With probabilities :math:`p_k` and a mean pay of
# :math:`\bar r_k` the average is :math:`\sum_k p_k\bar r_k`. Here we can work out its
# derivative with respect to :math:`\theta_k`, because we know how much the levers pay:

p = torch.softmax(theta.detach(), 0)
exact = p * (pay - p @ pay)
print(exact)

# %%
# The two gradients agree up to sampling noise. The reason is a small identity,
# :math:`\nabla p = p\,\nabla\log p`. The gradient of the average is
#
# .. math::
#
#    \nabla_\theta\sum_k p_k\,\bar r_k=\sum_k p_k\,\bar r_k\,\nabla_\theta\log p_k
#    \;\approx\;\frac1B\sum_i R_i\,\nabla_\theta\log p(a_i),
#
# and if you *draw* the levers with the probabilities :math:`p_k`, you get the sum
# weighted by :math:`p_k` on average (Williams, 1992). The right-hand side is a
# :term:`vector-Jacobian product` with :math:`v=R/B`.
#
# *PyTorch's example collects the losses in a Python list. How does the gradient get through
# a list?* It does not have to. The graph hangs on the tensors, through their ``grad_fn``,
# and the list only holds them. ``torch.stack`` joins them inside the graph, as does
# ``torch.cat`` where each has a dimension. ``torch.tensor(parts)`` would take the numbers
# and cut it (:ref:`list-of-losses`). Rewards and actions may be plain numbers, because
# nothing has to flow through them:

policy, parts = Categorical(logits=theta), []
for k, r in zip(action.tolist(), reward.tolist(), strict=True):
    parts.append(policy.log_prob(torch.tensor(k)) * r)
(by_list,) = torch.autograd.grad(torch.stack(parts).mean(), theta)
print(torch.allclose(by_list, theta.grad, atol=1e-6))

# %%
# The whole program
# -----------------
#
# The whole program differs from the code above in two ways. ``backward`` above gave the
# direction in which the pay grows, and an optimizer goes the opposite way, so ``v`` gets a
# minus. And we subtract the mean of the rewards from each reward. The next section says
# why:


def train(steps, pay, batch=32, sign=-1):
    theta = torch.zeros(len(pay), requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=1.0)
    chosen = []
    for _ in range(steps):
        policy = Categorical(logits=theta)
        action = policy.sample((batch,))
        reward = pay[action] + 0.1 * torch.randn(batch)
        v = sign * (reward - reward.mean()) / batch
        optimizer.zero_grad()
        policy.log_prob(action).backward(v)
        optimizer.step()
        chosen.append(policy.probs.detach())
    return torch.stack(chosen)


chosen = train(150, pay)

import matplotlib.pyplot as plt

for k, line in enumerate(chosen.T):
    plt.plot(line, label=f"lever {k}, pays {pay[k]:.2f}")
plt.xlabel("step")
plt.title("The share of the pulls that each lever gets")
legend = plt.legend()

# %%
# If your agent becomes worse and worse, or ends at the worst choice, look for this minus.
# Here are the shares at the end and their average pay, with the minus and without it:

wrong = train(150, pay, sign=1)
for name, shares in (("with the minus", chosen[-1]), ("without it", wrong[-1])):
    print(f"{name:14}", shares.round(decimals=2), f" pays {(shares @ pay).item():.2f}")

# %%
# Why the mean is subtracted
# --------------------------
#
# Nearly all rewards are positive, so if you do not subtract the mean, even a bad pull is
# made more likely. The policy still learns, because good pulls are pushed *more*, and
# because probabilities must add up to 1. The gradient is right on average, but noisy. What
# happens if you subtract a constant from all rewards?
#
# .. admonition:: Before you read on
#
#    The probabilities add up to 1 whatever ``theta`` is. What then is the average of
#    :math:`\nabla\log p(a)` over the draws, and what does a constant in ``v`` change?
#
# .. dropdown:: Answer
#
#    The average is :math:`\sum_k p_k\nabla\log p_k=\sum_k\nabla p_k=\nabla 1=0`. So if the
#    draws come from the current policy, a constant adds nothing on average. With a good
#    constant the individual estimates scatter less:


def estimates(baseline):
    found = []
    for _ in range(100):
        policy = Categorical(logits=theta)
        action = policy.sample((50,))
        v = (pay[action] - baseline) / 50
        found.append(torch.autograd.grad(policy.log_prob(action), theta, v)[0])
    return torch.stack(found)


plain, centred = estimates(0.0), estimates(0.5)
print(f"without {plain.std(0).norm():.3f}   with 0.5 {centred.std(0).norm():.3f}")

# %%
# The mean of the *same* batch, as in the program, is not quite a constant, because each
# reward is a part of it. On average this mean multiplies the gradient by :math:`1-1/B`
# and leaves its direction as it is. With a single draw the gradient is 0, and nothing is
# learned.
#
# What to watch for
# -----------------
#
# **A loss without a gradient.** The action is the number of a lever. It was drawn at
# random, and no graph leads back through the draw. If your action is a real number and
# the reward is a differentiable function of it, use ``rsample`` instead. Here is the
# message:

try:
    pay[Categorical(logits=theta).sample((32,))].mean().backward()
except RuntimeError as error:
    print(error)

# %%
# **An advantage with a graph.** In actor-critic programs the weights are not rewards but
# ``reward - critic(state)``. You may write ``log_prob.backward(-advantage)``, or the
# usual ``(-log_prob * advantage).sum().backward()``. If the policy and the critic share
# no weights, the policy gets the same gradient from both. But in the second form the
# advantage is part of the graph, and the critic is trained to make the product small,
# which is not its task. If you pass the advantage as ``v``, the critic gets no gradient.
# So write ``advantage.detach()`` in the product, and train the critic with its own loss,
# such as ``advantage.square().mean()``, which is smallest at the average reward:

action = Categorical(logits=theta).sample((32,))
log_prob = theta.log_softmax(0)[action]
critic = torch.tensor(0.25, requires_grad=True)
advantage = pay[action] - critic
both = (theta, critic)
for name, A in (("as it is", advantage), ("detached", advantage.detach())):
    product = (-log_prob * A).sum()
    _, of_critic = torch.autograd.grad(product, both, retain_graph=True, allow_unused=True)
    print(f"{name}: the critic gets", None if of_critic is None else "a gradient")
(by_own_loss,) = torch.autograd.grad(advantage.square().mean(), critic, retain_graph=True)

# %%
# **Rewards from inference mode.** In GRPO and PPO the rewards often come from a model
# that runs under ``torch.inference_mode()``. A product would have to save such rewards
# for ``backward``, and PyTorch refuses this. If you pass them as the ``v`` of an ordinary
# ``backward``, they are not saved. In a product, and with ``create_graph=True``, clone
# the rewards, or compute them under ``no_grad``:

with torch.inference_mode():
    scores = pay[action] - pay.mean()
try:
    (log_prob * scores).sum()
except RuntimeError as error:
    print(str(error)[:48])
(as_v,) = torch.autograd.grad(log_prob, theta, scores, retain_graph=True)

# %%
# **The ratio of PPO and GRPO is 1 in the first step, and its gradient is not 0.** The
# ratio is ``(log_prob - log_prob.detach()).exp()``. The detached copy is a constant, so
# the derivative of the ratio is the derivative of ``log_prob``:

ratio = (log_prob - log_prob.detach()).exp()
(of_ratio,) = torch.autograd.grad((ratio * scores.clone()).sum(), theta, retain_graph=True)
print(torch.allclose(of_ratio, as_v))

# %%
# **Probabilities in place of their logarithms.** The program runs, but the gradient is
# different. The actions have already been drawn with :math:`p`, so :math:`p` counts
# twice:

start = torch.zeros(4, requires_grad=True)
q = torch.softmax(torch.tensor([0.0, 0.0, 2.0, 0.0]) + start, 0)
drawn = q.detach()  # how often each lever is pulled
(with_log,) = torch.autograd.grad((drawn * pay * q.log()).sum(), start, retain_graph=True)
(without,) = torch.autograd.grad((drawn * pay * q).sum(), start)
print(with_log.round(decimals=3))
print(without.round(decimals=3))

# %%
# .. admonition:: Try it
#
#    Let all four levers pay 1. What does the program learn? And what would it learn
#    without subtracting the mean?
#
# .. dropdown:: Answer
#
#    There is nothing to learn, and on average nothing moves. If you subtract the mean,
#    only the noise of the rewards is left, and the shares stay near a quarter for a long
#    time. If you do not subtract it, each step makes the levers that happened to be drawn
#    more likely, and one lever may win by chance.

same = train(150, torch.ones(4))
print(same[-1].round(decimals=2))

# %%
# .. dropdown:: How we checked this page
#
#    We check that the average of a hundred estimates lies within four standard errors of
#    the exact gradient, and compute the exact gradient by autograd as well. We check that
#    the product and ``v`` give the policy the same gradient.

standard_error = (plain.std(0) / 10).max()
assert (plain.mean(0) - exact).abs().max() < 4 * standard_error
assert plain.std(0).norm() > 1.3 * centred.std(0).norm()
leaf = torch.zeros(4, requires_grad=True)
torch.testing.assert_close(torch.autograd.grad(leaf.softmax(0) @ pay, leaf)[0], exact)
assert chosen[-1].argmax() == pay.argmax()
assert chosen[-1].max() > 0.9
assert wrong[-1] @ pay < 0.3 < 0.9 < chosen[-1] @ pay
for A in (advantage, advantage.detach()):
    (by_sum,) = torch.autograd.grad((-log_prob * A).sum(), theta, retain_graph=True)
    (by_v,) = torch.autograd.grad(log_prob, theta, -A.detach(), retain_graph=True)
    torch.testing.assert_close(by_sum, by_v)
torch.testing.assert_close(by_own_loss, -2 * advantage.detach().mean())
torch.testing.assert_close(of_ratio, as_v)
exact_q = drawn * (pay - drawn @ pay)
torch.testing.assert_close(with_log, exact_q)
assert not torch.allclose(without, exact_q, atol=0.01)
assert same[-1].max() < 0.5

# %%
# **Next:** To use other weights on losses as a ``v``, read :ref:`loss-as-v`. If ``v``
# depends on what is trained, read :ref:`v-depends-on-x`. If you make several updates with
# the same draws, read :ref:`ratio-of-one`.
#
# .. asked: REINFORCE; policy gradient; reward has no gradient; log_prob times return;
#    reinforcement learning loss; backward with advantages; reward is not
#    differentiable; learn from rewards; agent learns the worst action; average reward
#    goes down; sign of the policy gradient loss
# .. words: game, agent, reward, return, baseline, advantage, cartpole, log probability,
#    policy, noisy, actor, not differentiable environment
