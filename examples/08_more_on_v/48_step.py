r"""
.. _which-way-to-step:

Which way do I step with x.grad, and how far? Sign, size, probabilities
========================================================================

Subtract ``x.grad`` to lower the weighted sum :math:`v\cdot y`, add it to raise the sum:
``y.backward(v)`` gives the direction in which :math:`v\cdot y` *rises* fastest. How far is
yours to say: the length of ``x.grad`` grows with ``v``, and a learning rate scales it. A
single output may go the other way.
"""

# %%
# ``x`` has shape ``(2,)``, two losses :math:`y=(x_0^2+x_1^2,\;x_0-x_1)` have shape
# ``(2,)``, and so has ``v``. One small step each way; has :math:`v\cdot y` risen?

import torch


def f(x):
    return torch.stack([(x**2).sum(), x[0] - x[1]])


x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 3.0])
(g,) = torch.autograd.grad(f(x), x, v)
before = v @ f(x).detach()
for name, sign in {"x + 0.01 g": 1, "x - 0.01 g": -1}.items():
    print(name, (v @ f(x.detach() + sign * 0.01 * g) - before).item() > 0)

# %%
# *My loss goes up, though I follow the gradient*: then you add it. An optimizer subtracts.
# To make something large, negate ``v``, or the loss, or say ``maximize=True``: the step is
# the same (``-v`` and ``maximize`` are compared here):


def stepped(v, **options):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    f(w).backward(v)
    torch.optim.SGD([w], lr=0.01, **options).step()
    return w.detach()


up = stepped(v, maximize=True)
print(up, torch.equal(up, stepped(-v)), torch.allclose(up, x.detach() + 0.01 * g))

# %%
# *Is backward(torch.tensor(-1.)) a gradient reversal layer?* No: it turns the gradient of
# everything, the head's too, which then learns to be wrong (old WGAN code, ``mone``, means
# that, ascent). A hook between head and features turns the features' alone:

for value, hook in ((-1.0, lambda g: g), (1.0, torch.neg)):
    features, head = (torch.tensor(t, requires_grad=True) for t in (2.0, 3.0))
    h = 1 * features
    h.register_hook(hook)
    (h * head).backward(torch.tensor(value))
    print("v =", value, "features:", features.grad.item(), "head:", head.grad.item())

# %%
# One output may rise
# -------------------
#
# The step lowers :math:`v\cdot y`, here both outputs. With the weights exchanged the second
# output rises: the first, whose gradient points against its own, now weighs more. The
# :term:`Jacobian` times the step, on the right, tells you before you take it, up to the
# curvature:

J = torch.func.jacrev(f)(x.detach())
for weights in (v, torch.tensor([3.0, 1.0])):
    step = -0.01 * weights @ J
    change = f(x.detach() + step) - f(x.detach())
    print(weights.tolist(), change.numpy().round(3), (J @ step).numpy().round(3))

# %%
# How far
# -------
#
# *Can I normalise the gradient?* Yes, after the call: to length 1, or to its signs. Not
# through ``v``: a ``v`` of length 1 gives :math:`J^\top v`, whose length depends on
# :math:`J`. The lengths of the gradient, of that from the short ``v``, of the normalised:

short = v / v.norm()
(from_short,) = torch.autograd.grad(f(x), x, short)
print(f"{g.norm():.2f} {from_short.norm():.2f} {(g / g.norm()).norm():.2f}", g.sign())

# %%
# *Is clipping v the same as clipping the gradient?* No. Clipping entries of ``v`` weighs
# the losses anew and turns the direction, the last one here. ``clip_grad_norm_`` scales the
# gradient as a whole and keeps its direction:


def direction(g):
    return (g / g.norm()).detach().numpy().round(3)


(by_v,) = torch.autograd.grad(f(x), x, v.clamp(max=1.0))
x.grad = g.clone()
torch.nn.utils.clip_grad_norm_([x], 1.0)
print(direction(g), direction(x.grad), direction(by_v))

# %%
# *Each sample's gradient of length 1.* Where samples do not mix, row i of ``X.grad`` is the
# gradient of sample i: divide each row by its own norm. Divided by the norm of the whole,
# small rows stay small:

X = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
(rows,) = torch.autograd.grad((X**2).sum(1), X, torch.ones(2))
for norm in (rows.norm(), rows.norm(dim=1, keepdim=True)):
    print((rows / norm).norm(dim=1).numpy().round(4))

# %%
# Probabilities as v
# ------------------
#
# *Must v sum to 1?* No. If it does, and its entries are not negative, :math:`v\cdot y` is
# the expectation of :math:`y_i` when i is drawn with probability :math:`v_i`, and the
# result is its gradient. Weights that sum to 5 in the same proportions give five times it:

p = torch.tensor([0.2, 0.8])
(expected,) = torch.autograd.grad(f(x), x, p)
(five,) = torch.autograd.grad(f(x), x, 5 * p)
print(expected, torch.allclose(five, 5 * expected))

# %%
# What goes wrong
# ---------------
#
# *The probabilities come from x as well.* As ``v`` they are constants, so the term for
# their change is missing. The gradient of the expectation is
#
# .. math::
#
#    \nabla\sum_ip_iy_i=\sum_ip_i\nabla y_i+\sum_iy_i\nabla p_i ,
#
# the first sum being what ``backward`` gives. To have both, write the product out and
# differentiate that; or add two calls, ``p`` as ``v`` of y and ``y`` as ``v`` of p:


def softmax(x):
    return x.softmax(0)


(first_only,) = torch.autograd.grad(f(x), x, softmax(x))
(both,) = torch.autograd.grad((softmax(x) * f(x)).sum(), x)
(other,) = torch.autograd.grad(softmax(x), x, f(x))
print(first_only, both, torch.allclose(first_only + other, both))

# %%
# *Or I round them to a mask.* ``v = (p > 0.5)`` is a constant too: it lets through the
# gradients of the outputs chosen, and none says how to choose (:ref:`discrete-choices`).
#
# The check: difference quotients of the expectation, in float64, first with probabilities
# that move with x, then with probabilities held fixed:

at, h = x.detach().double(), 1e-6


def expectation(z, moving):
    return f(z) @ softmax(z if moving else at)


for moving, product in ((True, both), (False, first_only)):
    quotient = [
        (expectation(at + s, moving) - expectation(at - s, moving)) / (2 * h)
        for s in h * torch.eye(2).double()
    ]
    torch.testing.assert_close(torch.stack(quotient).float(), product)

# %%
# Where next
# ----------
#
# Two losses that pull apart: :ref:`several-losses`. Clipping through time:
# :ref:`through-time`. Each sample's gradient by the weights: :ref:`per-sample-gradients`.
# A ``v`` that moves with x: :ref:`v-depends-on-x`.
#
# .. asked: gradient descent step; sign of the step; add or subtract the gradient;
#    learning rate and v; step direction; by hand update
#
# .. words: minus, descend, ascend, learning rate, update rule, uphill, wrong direction,
#    maximise, gradient ascent, sgd by hand
