r"""
.. _trpo:

TRPO: products with the Hessian of a KL divergence
==================================================

A policy gradient says in which direction to change the weights, but not how far. TRPO
(Schulman et al., 2015) considers all steps that change the *policy* only a little, and
takes the most promising of them. For this it has to solve a system of equations whose
matrix would be far too large to write down for most networks. It needs only products with
this matrix, and each product is one more ``backward`` with a ``v``.
"""

# %%
# A cart stands on a rail and carries a pole. The policy looks at four numbers, which are
# the position of the cart, the angle of the pole, and the two velocities. It pushes the
# cart to the left or to the right with a strength that it draws from a normal distribution.
# An episode ends when the pole is tilted too far or the cart leaves the rail, and the
# reward is the number of steps until then. This page simulates 64 carts at once, in a few
# lines of torch:

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence


def play(policy, episodes=64, steps=100):
    """Return states, actions and whether each episode still ran, step by step."""
    state = 0.05 * (2 * torch.rand(episodes, 4) - 1)
    alive, played = torch.ones(episodes), []
    for _ in range(steps):
        action = policy(state).sample()
        played.append((state, action, alive))
        _, speed, angle, turn = state.unbind(1)
        force = 10 * action[:, 0].clamp(-1, 1)
        push = (force + 0.05 * turn**2 * angle.sin()) / 1.1
        fall = 9.8 * angle.sin() - angle.cos() * push
        fall = fall / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
        pull = push - 0.05 * fall * angle.cos() / 1.1
        state = state + 0.02 * torch.stack([speed, pull, turn, fall], 1)
        alive = alive * ((state[:, 2].abs() < 0.2) & (state[:, 0].abs() < 2.4))
    return [torch.stack(each) for each in zip(*played, strict=True)]


# %%
# The policy is a small network for the mean of the push, and one more parameter for its
# spread. It has 98 weights in all:


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, state):
        return Normal(self.mean(state), self.log_std.exp())


# %%
# How much better than the others was an action? The return of an action is the number of
# steps that followed, with later steps counting a little less. The advantage is this return
# minus the mean return, at the same time step, of all carts whose episodes are still
# running:


def advantages(alive, discount=0.98):
    returns, later = torch.zeros_like(alive), torch.zeros(alive.shape[1])
    for t in reversed(range(len(alive))):
        returns[t] = later = alive[t] * (1 + discount * later)
    running = alive.sum(1, keepdim=True).clamp(min=1)
    return returns - returns.sum(1, keepdim=True) / running


# %%
# One step of TRPO
# ----------------
#
# The new policy should gain as much as possible, while its KL divergence from the old
# policy, averaged over the states, stays below ``limit``. Near the old weights, a small
# step :math:`d` changes the gain by approximately :math:`g\cdot d`, where :math:`g` is the
# policy gradient. At the old weights the divergence is 0 and cannot be smaller, so its
# slope is 0. After a small step the divergence is approximately
# :math:`\tfrac12\,d^\top F d`, where :math:`F` is the :term:`Hessian` of the divergence.
# The best step has the direction :math:`F^{-1}g`, and its length follows from the limit.
#
# With 98 weights :math:`F` has 9604 entries, and with a million weights it has 10¹². The
# method of conjugate gradients solves :math:`F d=g` without these entries. It only asks,
# again and again, for the product of :math:`F` with some vector ``v``:


def conjugate_gradient(product, b, steps=10):
    """Solve product(x) = b for a symmetric positive definite product."""
    x, rest = torch.zeros_like(b), b.clone()
    v, size = rest.clone(), rest @ rest
    for _ in range(steps):
        Fv = product(v)
        along = size / (v @ Fv)
        x, rest = x + along * v, rest - along * Fv
        before, size = size, rest @ rest
        if size < 1e-10 * (b @ b):
            break
        v = rest + size / before * v
    return x


# %%
# Here is the function that makes the step. The line that this page is about is in
# ``product``:


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def fisher_product(policy, states, damping=0.0):
    """Return the function v -> F v, F being the Hessian of the mean KL divergence."""
    weights = list(policy.parameters())
    with torch.no_grad():
        old = policy(states)
    kl = kl_divergence(old, policy(states)).mean()
    gradient = flat(torch.autograd.grad(kl, weights, create_graph=True))

    def product(v):
        Fv = torch.autograd.grad(gradient, weights, v, retain_graph=True)
        return flat(Fv) + damping * v

    return product


def trpo_step(policy, states, actions, advantage, limit=0.01, damping=0.1, solves=10):
    """Change the weights of a policy by one step; return how often it was halved."""
    weights = list(policy.parameters())
    with torch.no_grad():
        old = policy(states)
        old_log_prob = old.log_prob(actions).sum(-1)

    def gain():
        ratio = (policy(states).log_prob(actions).sum(-1) - old_log_prob).exp()
        return (ratio * advantage).mean()

    g = flat(torch.autograd.grad(gain(), weights))
    product = fisher_product(policy, states, damping)
    direction = conjugate_gradient(product, g, solves)
    step = direction * (2 * limit / (direction @ product(direction))).sqrt()

    start = nn.utils.parameters_to_vector(weights).detach()
    with torch.no_grad():
        promised = gain()
        for halvings in range(10):
            nn.utils.vector_to_parameters(start + 0.5**halvings * step, weights)
            kl = kl_divergence(old, policy(states)).mean()
            if kl <= 1.5 * limit and gain() > promised:
                return halvings
        nn.utils.vector_to_parameters(start, weights)  # no step was good enough
        return None


# %%
# The training plays 64 episodes and makes one step, again and again. All blocks up to
# this one form the program. Copy them together:


def train(step, rounds=25):
    torch.manual_seed(0)  # the same weights and draws on every build
    policy, lengths, halvings = Policy(), [], []
    for _ in range(rounds):
        with torch.no_grad():
            states, actions, alive = play(policy)
        lengths.append(alive.sum(0).mean().item())
        ran = alive > 0
        A = advantages(alive)[ran]
        A = (A - A.mean()) / (A.std() + 1e-8)
        halvings.append(step(policy, states[ran], actions[ran], A))
    return policy, lengths, halvings


policy, lengths, halvings = train(trpo_step)

# %%
# For comparison we train a second policy with the plain gradient. With ``solves=1`` the
# conjugate gradient method stops after the first product, and the step has the direction of
# :math:`g`. Its length still follows from the same limit:

from functools import partial

plain_policy, plain, _ = train(partial(trpo_step, solves=1))

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(4.6, 3.4))
ax.plot(lengths, label="TRPO")
ax.plot(plain, "--", label="plain gradient, same limit")
ax.set_xlabel("round")
ax.set_ylabel("steps until the pole falls")
ax.legend()
title = ax.set_title("Both learn to balance, TRPO in fewer rounds")

# %%
# Both policies begin at about 26 steps, and both reach nearly 100 steps, where the episodes
# are cut off. The updates of both change the policy by the same amount. The updates of TRPO
# go further along directions that hardly change the policy, and less far along directions
# that change it a lot, and so they gain more:

print(f"at first: {lengths[0]:.0f} and {plain[0]:.0f} steps")
print("TRPO above 95 by round 10:", max(lengths[:10]) > 95)
print("plain above 95 by round 10:", max(plain[:10]) > 95)

# %%
# The line with the v
# -------------------
#
# The line is in ``product``:
#
# .. code-block:: text
#
#    Fv = torch.autograd.grad(gradient, weights, v, retain_graph=True)
#
# The first ``grad``, with ``create_graph=True``, has made ``gradient``: 98 numbers, one for
# each weight, and a graph of how they were computed. These 98 numbers are the output ``y``
# of the second call. Their :term:`Jacobian` is the table of second derivatives, which is
# :math:`F`. **v is a direction in the space of the weights**, with one entry for each
# weight. It comes from the conjugate gradient method, which chooses a new one after each
# answer. The answer :math:`v^\top F` is the same as :math:`Fv`, since :math:`F` is
# symmetric, and it says how fast the gradient of the divergence changes if the weights move
# along ``v``. This is a :term:`Hessian-vector product`, which :ref:`second-derivatives`
# explains step by step.
#
# This product has a surprising property. The old and the new policy are the same at this
# point. So the divergence is 0, and its gradient is 0 as well, in every entry. But the
# product is not 0. It does not depend on the *values* of the gradient, but on its graph:

torch.manual_seed(0)  # the same states on every build
fresh = Policy()
with torch.no_grad():
    states = play(fresh)[0].flatten(0, 1)[::20]
    old = fresh(states)
weights = list(fresh.parameters())
kl = kl_divergence(old, fresh(states)).mean()
gradient = flat(torch.autograd.grad(kl, weights, create_graph=True))
v = torch.ones(98)
Fv = flat(torch.autograd.grad(gradient, weights, v))
print("KL:", kl.item())
print("gradient above 1e-6:", bool(gradient.abs().max() > 1e-6))
print("length of F v above 1:", bool(Fv.norm() > 1))

# %%
# Is the divergence after the step really half of :math:`d^\top F d`? We go along a step
# of TRPO, and beyond it, and compare:

actions = fresh(states).sample()
g = flat(torch.autograd.grad(fresh(states).log_prob(actions).mean(), weights))
d = conjugate_gradient(fisher_product(fresh, states, damping=0.1), g)
d = d * (2 * 0.01 / (d @ fisher_product(fresh, states)(d))).sqrt()
start = nn.utils.parameters_to_vector(weights).detach()
along, measured = torch.linspace(-3, 3, 25), []
with torch.no_grad():
    for t in along:
        nn.utils.vector_to_parameters(start + t * d, weights)
        measured.append(kl_divergence(old, fresh(states)).mean().item())
    nn.utils.vector_to_parameters(start, weights)

figure, ax = plt.subplots(layout="constrained", figsize=(4.6, 3.2))
ax.plot(along, measured, label="KL divergence")
ax.plot(along, 0.01 * along**2, "--", label="½ t² dᵀ F d")
ax.axvline(1, color="0.6", linewidth=1)
ax.set_xlabel("t, in steps of TRPO (the line is at one step)")
ax.legend()
title = ax.set_title("Half of dᵀ F d predicts the KL divergence")

# %%
# Near the old policy the two agree. Farther away they differ. This is why ``trpo_step``
# measures the divergence after the step, and halves the step until it stays within the
# limit and the gain is positive.
#
# What to watch for
# -----------------
#
# **Damping.** :math:`F` is nearly singular. Its 98 eigenvalues say how much the policy
# changes along 98 directions, and along most of these the policy hardly changes. We count
# the eigenvalues below a hundredth of the largest:

fresh.double()  # such small numbers want more digits
product = fisher_product(fresh, states.double())
F = torch.stack([product(e) for e in torch.eye(98, dtype=torch.float64)])
size = torch.linalg.eigvalsh(F)
small = (size < size.max() / 100).sum()
print("small ones: more than 80 of 98", bool(small > 80))

# %%
# In such directions :math:`F^{-1}g` is enormous, and depends on rounding errors. So we
# solve with :math:`F+\lambda I` instead, by adding ``damping * v`` to the product.
# Without damping, steps go too far and have to be halved. With a damping of 0.1, none of
# the 25 steps was halved:

_, _, undamped = train(partial(trpo_step, damping=0.0), rounds=5)
print("halved with damping:   ", any(halvings))
print("halved without damping:", any(undamped))

# %%
# **The old policy is a constant.** Compute it under ``no_grad``. If both sides of the
# divergence have a graph, you get the divergence of a policy from itself, which is 0 for
# all weights. Then all its derivatives are 0, too, and there is no error. A policy with
# dropout must be in eval mode, because in training mode two calls are two different
# policies. Here is the product if both sides have a graph:

weights, states = list(fresh.parameters()), states.double()
kl = kl_divergence(fresh(states), fresh(states)).mean()
gradient = flat(torch.autograd.grad(kl, weights, create_graph=True))
lost = torch.autograd.grad(gradient, weights, v.double())
print("F v is zero:", bool(flat(lost).abs().max() < 1e-12))

# %%
# **create_graph and retain_graph.** The gradient of the divergence needs
# ``create_graph=True``. Otherwise it has no graph, and you cannot differentiate it. The
# conjugate gradient method takes up to ten products from one graph, so each call of
# ``product`` has to keep this graph, with ``retain_graph=True``. Here are the errors
# without one of the flags:

with torch.no_grad():
    old = fresh(states)
for create in (False, True):
    kl = kl_divergence(old, fresh(states)).mean()
    gradient = flat(torch.autograd.grad(kl, weights, create_graph=create))
    try:
        torch.autograd.grad(gradient, weights, v.double())
        torch.autograd.grad(gradient, weights, v.double())
    except RuntimeError as error:
        print(f"{create!s:5}", str(error)[:29], "…")

# %%
# **Where F is computed.** At the old weights :math:`F` has no negative eigenvalue, up to
# rounding. There it is the Fisher matrix :math:`J^\top MJ`, where :math:`J` is the Jacobian
# of the policy's mean and log-spread, and :math:`M` is the Hessian of the divergence with
# respect to these two. The second derivatives of the network itself do not appear in it. So
# you may use a network of ReLUs here, though not in a :ref:`differential equation <pinn>`.
# Away from the old weights the Hessian of the same divergence may have negative
# eigenvalues. Then :math:`d^\top Fd` can be negative, and its root is NaN. So begin every
# step with a new ``old``. We print whether the smallest eigenvalue is at least 0, up to
# rounding, at the old weights and at other weights:

torch.manual_seed(0)  # the same displacement on every build
nn.utils.vector_to_parameters(start.double() + 0.1 * torch.randn(98).double(), weights)
kl = kl_divergence(old, fresh(states)).mean()
gradient = flat(torch.autograd.grad(kl, weights, create_graph=True))
rows = [
    flat(torch.autograd.grad(gradient, weights, e, retain_graph=True))
    for e in torch.eye(98, dtype=torch.float64)
]
away = torch.linalg.eigvalsh(torch.stack(rows))
print(bool(size.min() > -1e-9), bool(away.min() > -1e-9))

# %%
# .. admonition:: Remember
#
#    - A product with a Hessian takes two calls: the first computes the gradient with
#      ``create_graph=True``, and the second differentiates this gradient with ``v``. The
#      ``v`` is a direction in the space of the weights.
#    - A gradient that is zero may have derivatives that are not.
#    - The conjugate gradient method needs only products. The matrix is never formed.
#
# .. admonition:: Try it
#
#    Raise ``limit`` to 0.1, with ``partial(trpo_step, limit=0.1)``. Does the training get
#    faster, and does it stay as steady? Then give ``fisher_product`` only every fifth
#    state, ``states[::5]``. Does the training get worse?
#
# .. dropdown:: Answer
#
#    With our seed the first rounds gain more, with 98 steps in the fourth round instead
#    of 59, but later rounds fall back, to 68 steps at worst. A fifth of the states is
#    enough for the products here: the training reaches 100 steps in the seventh round, as
#    before. The gain still uses all states.
#
# .. dropdown:: How we checked this page
#
#    We compare the matrix of all products with the Hessian from ``torch.func``, and with
#    the Fisher matrix from the Jacobian of the policy, for a network with tanh and for a
#    network with ReLU. We also check that the result of the conjugate gradient method
#    solves its system.

from torch.func import functional_call, grad, jacrev


def exactly(policy):
    """Return F from all products, from torch.func, and as a Fisher matrix."""
    at = {name: p.detach().clone() for name, p in policy.named_parameters()}
    policy_of = lambda w: functional_call(policy, w, (states,))
    before = Normal(policy_of(at).loc, policy_of(at).scale)
    divergence = lambda w: kl_divergence(before, policy_of(w)).mean()
    whole = jacrev(grad(divergence))(at)
    rows = [
        torch.cat([h.reshape(p.numel(), -1) for h in whole[a].values()], 1)
        for a, p in at.items()
    ]
    means = jacrev(lambda w: policy_of(w).loc[:, 0])(at)
    J = torch.cat([j.flatten(1) for j in means.values()], 1) / before.scale[0]
    spread = flat([torch.full_like(p, name == "log_std") for name, p in at.items()])
    fisher = J.T @ J / len(J) + 2 * torch.outer(spread, spread)
    product = fisher_product(policy, states)
    return (
        torch.stack([product(e) for e in torch.eye(98).double()]),
        torch.cat(rows),
        fisher,
    )


nn.utils.vector_to_parameters(start.double(), weights)
kinked = Policy().double()
kinked.mean[1] = nn.ReLU()
for policy in (fresh, kinked):
    by_products, by_hessian, fisher = exactly(policy)
    torch.testing.assert_close(by_products, by_hessian)
    torch.testing.assert_close(by_products, fisher)
torch.testing.assert_close(exactly(fresh)[0], F)

damped = F + 0.1 * torch.eye(98)
solution = conjugate_gradient(lambda v: damped @ v, g.double(), steps=60)
torch.testing.assert_close(damped @ solution, g.double(), rtol=0, atol=1e-4)
parallel = conjugate_gradient(lambda v: damped @ v, g.double(), steps=1)
torch.testing.assert_close(parallel / parallel.norm(), g.double() / g.double().norm())

assert max(lengths[:10]) > 95 > max(plain[:10])
assert min(lengths[-5:]) > 95
assert not any(halvings)
assert any(undamped)
near = (along.abs() < 0.6) & (along != 0)
predicted = 0.01 * along[near] ** 2
torch.testing.assert_close(torch.tensor(measured)[near], predicted, rtol=0.25, atol=0)
assert size.min() > -1e-9 > -0.01 > away.min()
assert flat(lost).abs().max() < 1e-12

# %%
# Where next
# ----------
#
# For the Hessian of a KL divergence with numbers that you can check in your head, read
# :ref:`trpo-fisher-vector-product`. Policy gradients are introduced in :ref:`reinforce`.
# For conjugate gradients, and for products with other matrices, read :ref:`gauss-newton`.
#
# .. asked: TRPO; KL Hessian vector product; Fisher vector product; conjugate gradients
#    in reinforcement learning; natural policy gradient; trust region; damping of the
#    Fisher matrix; line search on the policy
# .. words: trust region, kl, natural gradient, conjugate, policy step, line search, agent
