r"""
.. _through-time:

Why does the gradient explode or vanish through a hundred steps?
================================================================

Because ``v`` is multiplied by one :term:`Jacobian` for each step, the last one first. A
hundred factors that shrink it a little leave nothing; factors that stretch it leave
infinity. It is the right gradient all the same: clipping changes its length, no more.
"""

# %%
# A state ``h`` of shape ``(n,)`` goes through T steps, :math:`h_t=f(h_{t-1})`. With ``v``
# of the last state's shape, what arrives at the first one is
#
# .. math::
#
#    v^\top J_T\,J_{T-1}\cdots J_1 .
#
# A recurrent network with ``tanh``; its weights are a rotation times a size s, so that the
# linear part stretches every ``v`` by s:

import torch
from torch import nn

torch.manual_seed(0)  # the same rotation and start on every build
rotation = torch.linalg.qr(torch.randn(8, 8)).Q
start = 0.01 * torch.randn(8)


def run(s, steps, act=torch.tanh):
    states = [start.clone().requires_grad_()]
    for _ in range(steps):
        states.append(act(s * (states[-1] @ rotation.T)))
    return states


# %%
# The size of v, step by step
# ---------------------------
#
# One ``autograd.grad`` by all states gives the :term:`cotangent` at each. Its size, from
# the last state back to the first, every 25 steps:

v = torch.ones(8) / 8**0.5  # of length 1
for s in (0.9, 1.0, 1.1):
    states = run(s, 100)
    arrived = torch.autograd.grad(states[-1], states, v)
    print(s, [f"{arrived[t].norm():.0e}" for t in (100, 75, 50, 25, 0)])

# %%
# Without the ``tanh`` the sizes are :math:`s^{100}`, as the formula says. The slope of the
# bend is at most 1, so it can only shrink what the weights stretch: in the last row to 4e1
# from 1.4e4. In the others the state stays near 0, where the slope is 1:

linear = {}
for s in (0.9, 1.0, 1.1):
    states = run(s, 100, act=lambda h: h)
    linear[s] = torch.autograd.grad(states[-1], states[0], v)[0].norm().item()
    print(s, f"{linear[s]:.1e} {s**100:.1e}")

# %%
# What goes wrong
# ---------------
#
# *All at once the gradient is NaN, or 0.* float32 ends at 3e38 and at 1e-45. With s = 3 the
# product is infinite after some 80 steps, and inf - inf is NaN; with s = 0.3 it is 0 after
# some 85. The zeros are not ``None``, and nothing warns:

for s in (3.0, 0.3):
    states = run(s, 200, act=lambda h: h)
    print(s, torch.autograd.grad(states[-1], states[0], v)[0].norm().item())

# %%
# *Does a smaller learning rate, or a smaller v, help?* Both scale everything by one number:
# the first step still gets 3e-5 of what the last one gets. What helps is another product:
# a path on which v is added to, not multiplied. ``h + f(h)`` has the Jacobian I + J, and
# where J is small, a hundred of these neither shrink nor stretch v by much:

residual = run(0.9, 100, act=lambda h: 0.01 * torch.tanh(h))
plain = torch.autograd.grad(residual[-1], residual[0], v)[0].norm()
states = [start.clone().requires_grad_()]
for _ in range(100):
    states.append(states[-1] + 0.01 * torch.tanh(0.9 * states[-1] @ rotation.T))
added = torch.autograd.grad(states[-1], states[0], v)[0].norm()
print(f"{plain:.0f} {added:.1f}")

# %%
# The second is also a step of Euler's method for :math:`dh/dt=f(h)`; going back through
# such steps, one :term:`VJP` each, is the discrete adjoint method for ODEs. LSTM and GRU
# add to a memory that a gate keeps, Transformers add around each block.
#
# Clipping: of the weights' gradient, after backward
# --------------------------------------------------
#
# ``clip_grad_norm_`` divides all gradients by one number, so that their common length is at
# most the limit. The direction stays, the terms that had vanished stay vanished:

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
print(bool(length > 1), torch.allclose(ratio, 1 / length))

# %%
# *Does clipping help against inf and NaN?* No: the one number is then 1/inf or NaN itself,
# and it reaches every entry. ``error_if_nonfinite=True`` stops there:

for bad in (torch.inf, torch.nan):
    start.grad = torch.ones(8).index_fill(0, torch.tensor(0), bad)
    nn.utils.clip_grad_norm_(start, 1.0)
    print(start.grad.tolist())

# %%
# A Hessian for each sequence of an LSTM
# --------------------------------------
#
# ``vmap`` alone has no rule for a whole LSTM, GRU or RNN. With ``grad`` or ``hessian``
# inside of it the layer is taken apart, and one thing is missing: the first state that it
# makes for itself is one for all samples, and is written to. Pass one made of the sample:

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
# In float32 on a CPU an LSTM is one fused kernel, which has no :term:`forward mode`
# (:ref:`error-forward-ad-not-implemented`); ``jacrev(jacrev(energy))`` needs none for the
# :term:`Hessian`.
#
# The check: the product of Jacobians written out, and each Hessian by ``nn.LSTM`` itself,
# differentiated twice, a sequence and a row at a time (on a GPU without cuDNN,
# :ref:`no-double-backward`):

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
assert plain < 1e-30 < 0.1 < added

# %%
# Where next
# ----------
#
# Through fewer steps, with less memory: :ref:`what-keeps-a-graph`. The product without J:
# :ref:`vjp-and-chain-rule`. Zeros of other origin: :ref:`zeros-and-equal-rows`.
#
# .. asked: exploding gradients; vanishing gradients; RNN gradient over many steps;
#    backpropagation through time; truncated BPTT; gradient too small in early layers;
#    long sequences; deep network gradient dies; early layers do not learn; gradient dies
#    in a deep network; long sequence forgets; gradient shrinks or grows through layers
#
# .. words: rnn, lstm, unroll, long, shrinks, blows up, tbptt, hidden state detach, forget,
#    spectral radius, deep, recurrent
