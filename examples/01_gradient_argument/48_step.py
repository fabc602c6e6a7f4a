r"""
.. _which-way-to-step:

Which way do I step with x.grad, and how far? Sign, size, probabilities
========================================================================

``y.backward(v)`` leaves the direction in which the weighted sum :math:`v\cdot y` *rises*
most. To lower it, subtract; to raise it, add, or change the sign of ``v``. The direction
says nothing about a single output, and its length is no step.
"""

# %%
# ``x`` has shape ``(2,)``, two losses :math:`y=(x_0^2+x_1^2,\;x_0-x_1)` have shape
# ``(2,)``, and so has ``v``. One small step each way, and what became of :math:`v\cdot y`:

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
# To make something large, negate ``v``, or the loss, or say ``maximize=True``; all are one:


def stepped(v, **options):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    f(w).backward(v)
    torch.optim.SGD([w], lr=0.01, **options).step()
    return w.detach()


up = stepped(v, maximize=True)
print(up, torch.equal(up, stepped(-v)), torch.allclose(up, x.detach() + 0.01 * g))

# %%
# One output may rise
# -------------------
#
# The step lowers :math:`v\cdot y`, here both outputs; with the weights exchanged the second
# one rises, since the first, which pulls the other way, weighs more. The
# :term:`Jacobian` times the step, on the right, says so before you take it:

J = torch.func.jacrev(f)(x.detach())
for weights in (v, torch.tensor([3.0, 1.0])):
    step = -0.01 * weights @ J
    change = f(x.detach() + step) - f(x.detach())
    print(weights.tolist(), change.numpy().round(3), (J @ step).numpy().round(3))

# %%
# How far
# -------
#
# *Can I normalise the gradient?* Yes, after the call: to length 1, each sample by itself,
# or down to its signs. Not through ``v``: the product is linear in ``v``, so a ``v`` of
# length 1 gives a gradient of the length that :math:`J` makes of it:

short = v / v.norm()
(from_short,) = torch.autograd.grad(f(x), x, short)
print(f"{g.norm():.2f} {from_short.norm():.2f} {(g / g.norm()).norm():.2f}", g.sign())

# %%
# *Is clipping v the same as clipping the gradient?* No, for the same reason. Clipping the
# entries of ``v`` also turns the direction, as it weighs the losses anew; to scale the
# gradient as a whole, ``clip_grad_norm_``, does not:


def direction(g):
    return (g / g.norm()).detach().numpy().round(3)


(by_v,) = torch.autograd.grad(f(x), x, v.clamp(max=1.0))
x.grad = g.clone()
torch.nn.utils.clip_grad_norm_([x], 1.0)
print(direction(g), direction(x.grad), direction(by_v))

# %%
# *Each sample's gradient of length 1.* Where samples do not mix, the rows of ``X.grad`` are
# theirs, so divide each by its own norm; the whole norm leaves small ones small:

X = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
(rows,) = torch.autograd.grad((X**2).sum(1), X, torch.ones(2))
print((rows / rows.norm()).norm(dim=1), (rows / rows.norm(dim=1, keepdim=True)).norm(dim=1))

# %%
# Probabilities as v
# ------------------
#
# *Must v sum to 1?* No. If it does, and its entries are not negative, :math:`v\cdot y` is
# the expectation of ``y`` when entry i is drawn with probability :math:`v_i`, and the
# result its gradient. A sum of 5 gives five times that:

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
# the first sum being what ``backward`` gives. Write the sum out to have both, or pass each
# as a ``v`` of its own:


def softmax(x):
    return x.softmax(0)


(first_only,) = torch.autograd.grad(f(x), x, softmax(x))
(both,) = torch.autograd.grad((softmax(x) * f(x)).sum(), x)
(other,) = torch.autograd.grad(softmax(x), x, f(x))
print(first_only, both, torch.allclose(first_only + other, both))

# %%
# *Or I round them to a mask.* ``v = (p > 0.5)`` is a constant too: it takes one of the
# gradients, and nothing learns to choose otherwise (:ref:`discrete-choices`).
#
# The check: the change of the expectation by difference quotients, in float64, with the
# probabilities moving and held fast:

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
