r"""
.. _through-time:

Why does the gradient explode or vanish through a hundred steps?
================================================================

Your network reads a hundred numbers, one after another, and then has to say something
about the first number. The network guesses, and however long you train it, it goes on
guessing. Nothing is wrong with the program. On the way from the last step back to the
first, ``v`` is multiplied by one :term:`Jacobian` for each step. A hundred factors that
shrink ``v`` a little leave next to nothing of it, and a hundred factors that stretch
``v`` a little make it enormous. In both cases you get the right gradient. What can you do
about its size, and what does clipping change?
"""

# %%
# One Jacobian for each step
# --------------------------
#
# A recurrent network has a state ``h`` of shape ``(n,)``, and each step computes the next
# state from it, :math:`h_t=f(h_{t-1})`. We ask how the last state depends on the first.
# Let ``v`` have the shape of the state. Then this product arrives at the first state:
#
# .. math::
#
#    v^\top J_T\,J_{T-1}\cdots J_1 .
#
# The Jacobian of the last step is the first that ``v`` meets. To see how ``v`` changes,
# we take weights that only rotate the state and multiply it by a number ``s``. Without
# the ``tanh`` that follows, every step would then stretch every ``v`` by exactly ``s``:

import torch
from torch import nn

torch.manual_seed(0)  # the same rotation and start on every build
rotation = torch.linalg.qr(torch.randn(8, 8)).Q
start = 0.01 * torch.randn(8)


def run(s, steps, act=torch.tanh):
    """Return the states, from the first to the last."""
    states = [start.clone().requires_grad_()]
    for _ in range(steps):
        states.append(act(s * (states[-1] @ rotation.T)))
    return states


# %%
# ``autograd.grad`` takes all states at once, and returns the :term:`cotangent` that arrives
# at each. We start with a ``v`` of length 1, and print its length at five of the hundred
# steps, from the last state back to the first:

v = torch.ones(8) / 8**0.5  # of length 1
lengths = {}
for s in (0.9, 1.0, 1.1):
    states = run(s, 100)
    arrived = torch.autograd.grad(states[-1], states, v)
    lengths[s] = [g.norm().item() for g in arrived]
    print(s, [f"{lengths[s][t]:.0e}" for t in (100, 75, 50, 25, 0)])

# %%
# With ``s = 0.9`` the cotangent at the first state is 3e-05 times as long as at the last
# state. The picture shows all hundred steps. Read it from right to left, as ``backward``
# goes:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.6))
for s, way in lengths.items():
    ax.semilogy(way, label=f"s = {s}")
ax.set(xlabel="step", ylabel="length of the cotangent")
ax.legend()
title = ax.set_title("One factor for each step makes a straight line")

# %%
# On a logarithmic scale, a constant factor for each step gives a straight line. Only the
# curve of ``s = 1.1`` bends. It ends at about 40, or between 17 and 64 with four other
# seeds, whereas the straight line would have reached 14 000. The reason is the ``tanh``.
# Its slope is at most 1, so it can only shrink ``v`` after the weights have stretched it.
# With the other two values of ``s`` the state stays near 0, where the slope is 1. Without
# the ``tanh`` the lengths are :math:`s^{100}`:

linear = {}
for s in (0.9, 1.0, 1.1):
    states = run(s, 100, act=lambda h: h)
    linear[s] = torch.autograd.grad(states[-1], states[0], v)[0].norm().item()
    print(s, f"{linear[s]:.1e} {s**100:.1e}")

# %%
# A network that cannot remember
# ------------------------------
#
# Does this matter for training? We build the task from the beginning of the page. The first
# of a hundred numbers is near +1 or near −1, and the other 99 are small noise. After the
# last number the network has to say which of the two the first one was. We train an
# ordinary ``nn.RNN``, whose weights start as a rotation times ``s``:


def sequences(count, generator):
    x = 0.1 * torch.randn(100, count, 1, generator=generator)
    kind = torch.randint(0, 2, (count,), generator=generator)
    x[0, :, 0] += 2.0 * kind - 1
    return x, kind


def train(s, limit=float("inf")):
    torch.manual_seed(0)  # the same weights each time, but for the size
    rnn, head = nn.RNN(1, 8), nn.Linear(8, 2)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(s * torch.linalg.qr(torch.randn(8, 8)).Q)
    weights = [*rnn.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        x, kind = sequences(64, generator)
        loss = nn.functional.cross_entropy(head(rnn(x)[0][-1]), kind)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, limit)  # without a limit it changes nothing
        optimizer.step()
    x, kind = sequences(500, generator)
    hits = (head(rnn(x)[0][-1]).argmax(1) == kind).float().mean().item()
    return 10 * round(10 * hits)  # the last digit depends on the processor


right = {s: train(s) for s in (0.7, 1.0)}
for s, part in right.items():
    print(f"s = {s}  right in %: {part}")

# %%
# With 0.7 the answers are no better than tossing a coin. With 1.0, after the same fifty
# training steps, all answers are right. The sequences, the optimizer and its learning
# rate are the same for both. Only the product of the Jacobians at the start is different.
#
# What helps against a vanishing gradient
# ---------------------------------------
#
# **A smaller learning rate, or a smaller v**, does not help, because it scales everything
# by one number. The cotangent at the first state is still 3e-05 times as long as at the
# last state.
#
# **A path on which each step adds something to v**, instead of multiplying v by a matrix,
# does help. If a step computes ``h + f(h)`` instead of ``f(h)``, its Jacobian is
# :math:`I+J`. If :math:`J` is small, a hundred such Jacobians neither shrink nor stretch
# ``v`` by much. We take a step function that is so weak that the product of its Jacobians
# vanishes, and use it in both ways. Here are the lengths that arrive at the first state:

residual = run(0.9, 100, act=lambda h: 0.01 * torch.tanh(h))
plain = torch.autograd.grad(residual[-1], residual[0], v)[0].norm()
states = [start.clone().requires_grad_()]
for _ in range(100):
    states.append(states[-1] + 0.01 * torch.tanh(0.9 * states[-1] @ rotation.T))
added = torch.autograd.grad(states[-1], states[0], v)[0].norm()
print(f"f(h) {plain:.0f}, h + f(h) {added:.1f}")

# %%
# With ``f(h)`` the cotangent has vanished altogether. LSTM and GRU add to a memory that a
# gate preserves, and each block of a Transformer is added to its input. The second form is
# also a step of Euler's method for the differential equation :math:`dh/dt=f(h)`. Going back
# through such steps, with one :term:`VJP` for each, is the discrete adjoint method
# (:ref:`ode-adjoint`).
#
# Clipping a gradient that explodes
# ---------------------------------
#
# ``clip_grad_norm_`` is called after ``backward``, on the gradients of the weights. If the
# length of all of them together is above the limit, it divides all of them by one number,
# so that this length becomes the limit:

rnn = nn.RNN(4, 8)
with torch.no_grad():
    rnn.weight_hh_l0.copy_(1.5 * rotation)
inputs = 0.1 * torch.randn(60, 4)
rnn(inputs)[0][-1].backward(100 * v)
before = [p.grad.clone() for p in rnn.parameters()]
length = nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
ratio = torch.cat(
    [(p.grad / g).flatten() for p, g in zip(rnn.parameters(), before, strict=True)]
)
print("too long:", bool(length > 1), " one ratio:", torch.allclose(ratio, 1 / length))

# %%
# Every entry has been divided by the same number. So the direction of the step stays what
# it was, and clipping prevents a step that is far too long. It does not help if a part of
# the gradient has vanished. The part of an early step was small beside the part of a late
# step, and it still is.
#
# What to watch for
# -----------------
#
# **Suddenly the gradient is NaN, or 0.** The largest number of float32 is 3e38, and the
# smallest positive one is about 1e-45. With ``s = 3`` the product gets too large after 81
# steps, and with other seeds after 81 or 82. From there on it is infinite, and infinity
# minus infinity is NaN. With ``s = 0.3`` the product is exactly 0 after 87 steps. You get
# zeros and not ``None``, without a warning:

for s in (3.0, 0.3):
    states = run(s, 200, act=lambda h: h)
    found = torch.autograd.grad(states[-1], states, v)
    way = [g.abs().max().item() for g in reversed(found)]
    gone = next(t for t, size in enumerate(way) if not 0 < size < float("inf"))
    print(s, f"after {gone} steps {way[gone]}, at the end {way[-1]}")

# %%
# **Clipping does not repair infinity or NaN.** The number that ``clip_grad_norm_``
# divides by is then itself infinite or NaN, and it spoils every entry. With
# ``error_if_nonfinite=True`` the function raises an error instead. Here are the gradients
# after clipping:

for bad in (torch.inf, torch.nan):
    start.grad = torch.ones(8).index_fill(0, torch.tensor(0), bad)
    nn.utils.clip_grad_norm_(start, 1.0)
    print(start.grad.tolist())

# %%
# **Second derivatives for each sequence of an LSTM.** You want a :term:`Hessian` for each
# of five sequences, and :term:`vmap` refuses. It has no rule for a whole LSTM, GRU or
# RNN. With ``grad`` or ``hessian`` inside ``vmap``, PyTorch takes the layer apart into
# operations that ``vmap`` can map, but one obstacle remains. If you pass no initial
# state, the layer makes a single state for all samples, and then writes to it. So pass an
# initial state that is made from the sample:

lstm, batch = nn.LSTM(1, 3).double(), torch.randn(5, 4, 1).double()  # five sequences


def energy(x, first=True):
    state = (x.new_zeros(1, 3), x.new_zeros(1, 3)) if first else None
    return (lstm(x, state)[0][-1] ** 2).sum()


for f in (energy, torch.func.grad(lambda x: energy(x, False))):
    try:
        torch.vmap(f)(batch)
    except RuntimeError as error:
        print(error)
H = torch.vmap(torch.func.hessian(energy))(batch)
by_rows = torch.vmap(torch.func.jacrev(torch.func.jacrev(energy)))(batch)
H.shape

# %%
# The first message is about the layer, and the second is about the state. With its own
# state each sequence gets its Hessian, of shape ``(4, 1, 4, 1)``. The code above computes
# in float64. In float32 on a CPU an LSTM is one fused kernel, which has no :term:`forward
# mode` (:ref:`error-forward-ad-not-implemented`). In that case use
# ``jacrev(jacrev(energy))``, which needs no forward mode.
#
# .. admonition:: Try it
#
#    Would clipping have helped the network with ``s = 0.7``? Train it again with
#    ``limit=0.1``.
#
# .. dropdown:: Answer
#
#    No. Every part of the gradient is divided by the same number, and beside the other
#    parts, the part of the first step is as small as before:

clipped = train(0.7, limit=0.1)
print("right in %:", clipped)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the cotangent at the first state with the product of the hundred
#    Jacobians, written out. We compare each Hessian with the Hessian that we get from
#    ``nn.LSTM`` without ``vmap``, by differentiating twice, one sequence and one row at a
#    time. On a GPU this takes a forward pass without cuDNN (:ref:`no-double-backward`).

states, product = run(1.1, 100), v
step = lambda h: torch.tanh(1.1 * h @ rotation.T)
for h in reversed(states[:-1]):
    product = product @ torch.func.jacrev(step)(h.detach())
(first,) = torch.autograd.grad(states[-1], states[0], v)
torch.testing.assert_close(first, product, rtol=1e-3, atol=1e-3)
for x, own in zip(batch, H, strict=True):
    whole = torch.autograd.functional.hessian(lambda x: (lstm(x)[0][-1] ** 2).sum(), x)
    torch.testing.assert_close(own, whole)
torch.testing.assert_close(by_rows, H)
assert abs(linear[1.1] / 1.1**100 - 1) < 1e-3
assert 13_000 < 1.1**100 < 14_500
assert 35 < lengths[1.1][0] < 45
assert plain < 1e-30 < 0.1 < added
assert 3e38 < torch.finfo(torch.float32).max < 4e38
assert torch.tensor(1e-45) > 0 == torch.tensor(5e-46)
assert right[0.7] <= 60
assert right[1.0] == 100
assert clipped <= 60

# %%
# **Next:** To go back through fewer steps, and to need less memory, read
# :ref:`what-keeps-a-graph`. :ref:`vjp-and-chain-rule` shows how the product is computed
# without any Jacobian. If your gradients are zero for another reason, read
# :ref:`zeros-and-equal-rows`. To cut the graph on purpose, read :ref:`cut-graphs`.
#
# .. asked: exploding gradients; vanishing gradients; RNN gradient over many steps;
#    backpropagation through time; truncated BPTT; gradient too small in early layers;
#    long sequences; deep network gradient dies; early layers do not learn; gradient dies
#    in a deep network; long sequence forgets; gradient shrinks or grows through layers
# .. words: rnn, lstm, unroll, long, shrinks, blows up, tbptt, hidden state detach, forget,
#    spectral radius, deep, recurrent
