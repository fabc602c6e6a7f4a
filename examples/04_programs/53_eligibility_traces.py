r"""
.. _td-lambda:

Eligibility traces: TD(λ) with a network
========================================

A value network finds out that its last prediction was wrong. The earlier predictions led
to this mistake, and should get a part of the correction. TD(λ) keeps a fading memory of
their gradients, the eligibility trace. On this page we differentiate the prediction
itself, with a ``v`` equal to 1, and write the gradient for the optimizer into ``.grad``
by hand.
"""

# %%
# Somebody walks along a row of nine stones. The walk starts at the middle stone, and each
# step goes right with probability 0.55 and left otherwise. A walk that leaves the row on
# the right is paid 1, and a walk that leaves it on the left is paid nothing. For each
# stone, a network should predict the expected pay. The network sees a stone as five numbers
# that say how near the stone is to five positions in the row:

import torch
from torch import nn


def walk():
    """Return an episode: triples of a stone, the next, and the reward."""
    stone, episode = 5, []
    while 1 <= stone <= 9:
        after = stone + (1 if torch.rand(1).item() < 0.55 else -1)
        episode.append((stone, after, float(after == 10)))
        stone = after
    return episode


def seen(stones):
    distance = torch.as_tensor(stones, dtype=torch.float)[..., None] - torch.arange(
        1, 10, 2
    )
    return torch.exp(-(distance**2) / 4)


# %%
# The program
# -----------
#
# After a step from s to s′ with reward r, we know more than before, and can compare the
# prediction V(s) with r + γ V(s′), where γ is the discount factor. The difference is the
# *TD error* δ. Plain TD learning, with λ = 0, moves V(s) by a part of δ. TD(λ) also moves
# the earlier predictions, and the older they are, the less they move. For this it keeps one
# trace for each weight, :math:`z\leftarrow\gamma\lambda z+\nabla V(s)`, and changes the
# weights in proportion to δ z (Sutton and Barto, 2018):


def td_lambda(net, episodes=60, decay=0.8, discount=1.0, lr=0.01, judge=None):
    """Learn values from walks; return what judge(net) says after each."""
    weights = list(net.parameters())
    optimizer = torch.optim.SGD(weights, lr=lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, episodes)
    judged = []
    for _ in range(episodes):
        traces = [torch.zeros_like(w) for w in weights]  # a new episode, new traces
        for stone, after, reward in walk():
            value = net(seen(stone))
            gradients = torch.autograd.grad(value, weights, torch.ones(1))
            with torch.no_grad():
                follows = net(seen(after)) if 1 <= after <= 9 else 0.0
                error = reward + discount * follows - value
                for w, z, g in zip(weights, traces, gradients, strict=True):
                    z.mul_(discount * decay).add_(g)
                    w.grad = -error * z  # the optimizer goes against it
            optimizer.step()
        schedule.step()
        if judge:
            judged.append(judge(net))
    return judged


# %%
# This function and the next block, which makes the network and trains it, form the
# program. Copy them together. Here we can judge the network, since we know the true
# values. For such a walk they are :math:`(1-q^i)/(1-q^{10})` with :math:`q=0.45/0.55`.

stones = torch.arange(1, 10)
q = 0.45 / 0.55
truth = (1 - q**stones) / (1 - q**10)


def judge(net):
    with torch.no_grad():
        return (net(seen(stones))[:, 0] - truth).square().mean().sqrt().item()


def network():
    torch.manual_seed(0)  # the same weights and walks on every build
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))


net = network()
with_traces = td_lambda(net, decay=0.8, judge=judge)
plain = network()
without = td_lambda(plain, decay=0.0, judge=judge)

# %%
# Both networks have seen the same sixty walks:

import matplotlib.pyplot as plt

figure, (above, below) = plt.subplots(2, 1, layout="constrained", figsize=(4.6, 5.4))
above.plot(with_traces, label="λ = 0.8")
above.plot(without, "--", label="λ = 0")
above.set_xlabel("walks")
above.set_ylabel("error")
above.legend()
below.plot(stones, truth, "o", color="0.6", label="true value")
with torch.no_grad():
    below.plot(stones, net(seen(stones)), label="λ = 0.8")
    below.plot(stones, plain(seen(stones)), "--", label="λ = 0")
below.set_xlabel("stone")
below.set_ylabel("value")
below.legend()
title = figure.suptitle("With traces the network learns from fewer walks")

# %%
# We print the errors after eleven walks, and whether the error at the end is below 0.2:

print(f"λ = 0.8: {with_traces[10]:.1f}, below 0.2: {with_traces[-1] < 0.2}")
print(f"λ = 0:   {without[10]:.1f}, below 0.2: {without[-1] < 0.2}")

# %%
# The line with the v
# -------------------
#
# The line is ``torch.autograd.grad(value, weights, torch.ones(1))``, and the ``v`` is 1.
# We ask for the gradient of the *prediction* itself, and not of a loss. The reason is the
# order of events: when we look at a stone we do not know yet how wrong the prediction is.
# We only learn it after the next step, and then again, in weaker form, after each of the
# steps that follow. So the gradient waits in the trace, and we multiply the trace by each
# δ as soon as we know it.
#
# The simplest network, a table with one weight for each stone, shows what a trace holds.
# There the gradient of V(s) is 1 at this stone and 0 elsewhere. After stones 0, 1 and 2,
# with λ = 0.5, the trace still shows all three stones:

import pullback

table = torch.zeros(4, requires_grad=True)
faded = []
for stone in (0, 1, 2):
    (now,) = torch.autograd.grad(table[stone], table)
    faded = [0.5 * g for g in faded] + [now]
pullback.draw.accumulate(
    *faded,
    names=["two steps ago", "one step ago", "now"],
    columns=["w[0]", "w[1]", "w[2]", "w[3]"],
    result_name="z",
)

# %%
# The next δ changes all three predictions, the last one most. ``backward`` adds to
# ``.grad``, so ``.grad`` can itself be the trace, if you let it fade before each call. This
# gives the same z:

for stone in (0, 1, 2):
    if table.grad is not None:
        table.grad.mul_(0.5)
    table[stone].backward()
table.grad

# %%
# Our program does not do this, because its optimizer needs −δ z in ``.grad``.
#
# The forward view: one v for the whole walk
# ------------------------------------------
#
# There is a second way to say what TD(λ) does. Wait until the walk has ended, and give
# each stone a target, the λ-return :math:`G^\lambda`. It is a mixture of the results one
# step later, two steps later, and so on. If the weights stay as they are during the walk,
# the two ways agree: the sum of all δ z is a *single* :term:`vector-Jacobian product` for
# all predictions of the walk. In this product **v says how much too low each prediction
# was**, :math:`v_t=G^\lambda_t-V(s_t)`:


def errors(values, rewards, discount):
    """Return the TD errors of a walk whose last step leads to nothing."""
    after = torch.cat([values[1:], values.new_zeros(1)])
    return rewards + discount * after - values


def by_traces(net, episode, decay, discount):
    total = faded = 0.0
    weights = list(net.parameters())
    at, _, rewards = (torch.tensor(k) for k in zip(*episode, strict=True))
    values = net(seen(at))[:, 0]
    deltas = errors(values.detach(), rewards, discount)
    for value, delta in zip(values, deltas, strict=True):
        g = torch.autograd.grad(value, weights, retain_graph=True)
        faded = discount * decay * faded + torch.cat([k.flatten() for k in g])
        total = total + delta * faded
    return total


def by_one_product(net, episode, decay, discount):
    weights = list(net.parameters())
    at, _, rewards = (torch.tensor(k) for k in zip(*episode, strict=True))
    values = net(seen(at))[:, 0]
    with torch.no_grad():
        after = torch.cat([values[1:], values.new_zeros(1)])
        v, later = torch.zeros_like(values), 0.0
        for t in reversed(range(len(episode))):
            bootstrap = (1 - decay) * after[t] + decay * later
            later = rewards[t] + discount * bootstrap  # the λ-return
            v[t] = later - values[t]
    g = torch.autograd.grad(values, weights, v)
    return torch.cat([k.flatten() for k in g]), v


torch.manual_seed(3)  # a walk of a few steps, the same on every build
episode = walk()
backward_view = by_traces(net, episode, 0.8, 0.9)
forward_view, v = by_one_product(net, episode, 0.8, 0.9)
print(len(episode), "predictions, v of shape", tuple(v.shape))
print("the same:", torch.allclose(backward_view, forward_view, rtol=1e-4, atol=1e-5))

# %%
# If whole walks fit into memory, the second way needs one ``backward`` instead of one for
# each step. With the first way the network can learn during the walk.
#
# What to watch for
# -----------------
#
# **The gradient of the prediction, not of the squared error.** If you let the gradients
# of δ²/2 fade in ``.grad``, each old gradient keeps its *own* δ, and the new one never
# reaches the older predictions. For the stones 0, 1 and 2 and then a reward of 1, we
# print how much the table learns for each stone:


def learned(of_prediction):
    table = torch.zeros(3, requires_grad=True)
    trace, change = torch.zeros(3), torch.zeros(3)
    for stone, reward in ((0, 0.0), (1, 0.0), (2, 1.0)):
        follows = table[stone + 1].item() if stone < 2 else 0.0
        error = reward + follows - table[stone]
        output = table[stone] if of_prediction else -(error**2) / 2
        (g,) = torch.autograd.grad(output, table)
        trace = 0.5 * trace + g
        change += error.detach() * trace if of_prediction else trace
    return change


print("of the prediction:", learned(of_prediction=True).tolist())
print("of the error:     ", learned(of_prediction=False).tolist())

# %%
# In the second line of the output, only the last stone has learned from the reward, as
# with λ = 0.
#
# **The next prediction is a constant.** V(s′) is computed under ``no_grad``. With a graph
# you would get the *residual gradient*, which is a different algorithm
# (:ref:`stop-gradient`).
#
# **Momentum is not a trace.** Momentum fades, too, but it adds up δ times the gradient,
# as in the second line of the output above, and it goes on from one episode to the next.
# A trace begins at zero in each episode.
#
# **While the weights change.** The two ways agree if the weights change only at the end of
# the walk. In ``td_lambda`` they change in every step, so the results differ a little. The
# smaller the learning rate is, the smaller this difference is.
#
# .. admonition:: Remember
#
#    - The trace collects gradients of predictions, with v = 1. Later it is multiplied by
#      each δ.
#    - An optimizer uses whatever ``.grad`` holds, and you may fill ``.grad`` yourself.
#    - For a finished walk there is a ``v`` with which one call gives the same result.
#
# .. admonition:: Try it
#
#    Let the walker go left more often, with 0.45 in place of 0.55 in ``walk``, and with
#    ``q`` inverted. Then try ``decay=1.0``. What happens to the error from walk to walk?
#
# .. dropdown:: Answer
#
#    Going left more often changes the values, and the traces help as before. With
#    ``decay=1.0`` each prediction learns only from the final result of the walk, and from
#    no other prediction. With our seed the error is low after a single walk, and then
#    goes up and down for most of the training, because single walks end by chance on one
#    side or the other.
#
# .. dropdown:: How we checked this page
#
#    We compare the sum of all δ z with the single product for ten walks and several λ, in
#    float64, and the true values with the equations that they satisfy.

exact = network().double()
torch.manual_seed(0)  # the same walks on every build
seen_as_float, seen = seen, lambda stones: seen_as_float(stones).double()
for decay in (0.0, 0.3, 0.8, 1.0):
    for episode in [walk() for _ in range(5)]:
        whole, _ = by_one_product(exact, episode, decay, 0.9)
        torch.testing.assert_close(by_traces(exact, episode, decay, 0.9), whole)
seen = seen_as_float
torch.testing.assert_close(backward_view, forward_view, rtol=1e-4, atol=1e-5)

start, gaps = nn.utils.parameters_to_vector(net.parameters()).detach(), []
for lr in (0.01, 0.001):
    nn.utils.vector_to_parameters(start.clone(), net.parameters())
    torch.manual_seed(3)  # the walk of five steps once more
    td_lambda(net, episodes=1, discount=0.9, lr=lr)
    change = nn.utils.parameters_to_vector(net.parameters()).detach() - start
    gaps.append((change / lr - forward_view).norm() / forward_view.norm())
assert 0.5 > gaps[0] > 5 * gaps[1] > 0

around = torch.cat([torch.zeros(1), truth, torch.ones(1)])
torch.testing.assert_close(truth, 0.55 * around[2:] + 0.45 * around[:-2])
assert with_traces[10] < 0.3 < without[10]
assert with_traces[-1] < 0.2
torch.testing.assert_close(table.grad, torch.tensor([0.25, 0.5, 1.0, 0.0]))
torch.testing.assert_close(torch.stack(faded).sum(0), table.grad)
torch.testing.assert_close(learned(of_prediction=True), torch.tensor([0.25, 0.5, 1.0]))
torch.testing.assert_close(learned(of_prediction=False), torch.tensor([0.0, 0.0, 1.0]))

# %%
# Where next
# ----------
#
# For the short answer, read :ref:`eligibility-traces`. :ref:`reinforce` is about policy
# gradients, for which a trace collects the gradients of log-probabilities. For losses with
# a constant target, read :ref:`surrogate-losses`.
#
# .. asked: eligibility traces; TD lambda; accumulate gradients with decay;
#    semi-gradient TD; value function trace; actor-critic with traces; lambda return
# .. words: td, lambda, sarsa, decay, online, value network, agent, credit
