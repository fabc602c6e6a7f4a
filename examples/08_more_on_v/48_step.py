r"""
.. _which-way-to-step:

Which way do I step with x.grad, and how far? Sign, size, probabilities
========================================================================

You have ``x.grad``, and now you want to change ``x``. Do you add the gradient or subtract
it? Subtract it to lower the weighted sum :math:`v\cdot y`, and add it to raise the sum,
because ``y.backward(v)`` gives the direction in which :math:`v\cdot y` *rises* fastest. How
far you go is up to you. The length of ``x.grad`` grows with ``v``, and a learning rate
scales the step. A single entry of ``y`` may still move in the opposite direction: it may
rise although the weighted sum falls.
"""

# %%
# Take two losses, :math:`y=(x_0^2+x_1^2,\;x_0-x_1)`, so that ``x``, ``y`` and ``v`` have
# shape ``(2,)``. We take one small step along the gradient, and one against it. Has
# :math:`v\cdot y` risen?

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
# *My loss goes up, though I follow the gradient.* In that case you are adding the gradient,
# whereas an optimizer subtracts it. If you want an optimizer to make something large,
# negate ``v``, or negate the loss, or set ``maximize=True``. In all three cases the step is
# the same. Here we compare the step with ``maximize=True`` to the step with ``-v``, and to
# a step that we compute ourselves:


def stepped(v, **options):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    f(w).backward(v)
    torch.optim.SGD([w], lr=0.01, **options).step()
    return w.detach()


up = stepped(v, maximize=True)
print(up, torch.equal(up, stepped(-v)), torch.allclose(up, x.detach() + 0.01 * g))

# %%
# *Is backward(torch.tensor(-1.)) a gradient reversal layer?* No. A ``v`` of −1 flips the
# sign of all gradients, including the gradient of the head, and then the head learns to be
# wrong. Old WGAN code passes ``mone``, a tensor that holds −1, on purpose, because that
# code does gradient ascent. If you want to flip only the gradient of the features, put a
# hook that negates the gradient between the features and the head. The first line of the
# output is for ``v = -1``, and the second is for the hook:

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
# A small step against the gradient lowers :math:`v\cdot y`. With our weights, both outputs
# fall. If you exchange the weights, the second output rises, because the first output now
# counts more and the gradients of the two outputs form an obtuse angle. You can predict
# this before you take the step. The :term:`Jacobian` times the step, printed on the right,
# is the change in the outputs apart from the effect of curvature:

J = torch.func.jacrev(f)(x.detach())
for weights in (v, torch.tensor([3.0, 1.0])):
    step = -0.01 * weights @ J
    change = f(x.detach() + step) - f(x.detach())
    print(weights.tolist(), change.numpy().round(3), (J @ step).numpy().round(3))

# %%
# How far to step
# ---------------
#
# *Can I normalize the gradient?* Yes, after the call. Divide the gradient by its length, or
# take its signs. You cannot normalize it through ``v``, because a ``v`` of length 1 gives
# :math:`J^\top v`, whose length depends on :math:`J`. We print the lengths of the gradient,
# of the gradient for the ``v`` of length 1, and of the normalized gradient. The signs of
# the gradient are printed last:

short = v / v.norm()
(from_short,) = torch.autograd.grad(f(x), x, short)
print(f"{g.norm():.2f} {from_short.norm():.2f} {(g / g.norm()).norm():.2f}", g.sign())

# %%
# *Is clipping v the same as clipping the gradient?* No. If you clip the entries of ``v``,
# you change the weights of the losses, and so the gradient may point in another direction.
# ``clip_grad_norm_`` scales the gradient as a whole and keeps its direction. We print the
# direction of the gradient as it was, after ``clip_grad_norm_``, and for the clipped ``v``:


def direction(g):
    return (g / g.norm()).detach().numpy().round(3)


(by_v,) = torch.autograd.grad(f(x), x, v.clamp(max=1.0))
x.grad = g.clone()
torch.nn.utils.clip_grad_norm_([x], 1.0)
print(direction(g), direction(x.grad), direction(by_v))

# %%
# *I want each sample's gradient to have length 1.* If the samples do not mix, row i of
# ``X.grad`` is the gradient of sample i. If you divide by the norm of the whole tensor,
# which gives the first line of the output, short rows stay short. So divide each row by its
# own norm, which gives the second line:

X = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
(rows,) = torch.autograd.grad((X**2).sum(1), X, torch.ones(2))
for norm in (rows.norm(), rows.norm(dim=1, keepdim=True)):
    print((rows / norm).norm(dim=1).numpy().round(4))

# %%
# Probabilities as v
# ------------------
#
# *Must v sum to 1?* No. If the entries of ``v`` add up to 1, and none of them is
# negative, :math:`v\cdot y` is the expectation of :math:`y_i` when i is drawn with
# probability :math:`v_i`, and the result is the gradient of this expectation. Weights
# that have the same proportions but add up to 5 give five times as much:

p = torch.tensor([0.2, 0.8])
(expected,) = torch.autograd.grad(f(x), x, p)
(five,) = torch.autograd.grad(f(x), x, 5 * p)
print(expected, torch.allclose(five, 5 * expected))

# %%
# What goes wrong
# ---------------
#
# *The probabilities come from x as well.* If you pass them as ``v``, they are constants,
# and the term for their change is missing. The gradient of the expectation has two terms:
#
# .. math::
#
#    \nabla\sum_ip_iy_i=\sum_ip_i\nabla y_i+\sum_iy_i\nabla p_i .
#
# ``backward`` gives the first of these terms. If you want both, write out the product of
# ``p`` and ``y`` and differentiate it. Or make two calls, one that passes ``p`` as the
# ``v`` of ``y`` and one that passes ``y`` as the ``v`` of ``p``, and add their results:


def softmax(x):
    return x.softmax(0)


(first_only,) = torch.autograd.grad(f(x), x, softmax(x))
(both,) = torch.autograd.grad((softmax(x) * f(x)).sum(), x)
(other,) = torch.autograd.grad(softmax(x), x, f(x))
print(first_only, both, torch.allclose(first_only + other, both))

# %%
# *I round the probabilities to a mask.* ``v = (p > 0.5)`` is also a constant. This ``v``
# lets the gradients of the chosen outputs pass, but no gradient says how to change the
# choice (:ref:`discrete-choices`).
#
# As a check, we take difference quotients of the expectation in float64, first with
# probabilities that are computed from x again after each step, and then with probabilities
# that are held fixed:

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
# :ref:`several-losses` is about two losses that pull in different directions. To clip
# gradients in a recurrent network, read :ref:`through-time`. :ref:`per-sample-gradients`
# computes each sample's gradient with respect to the weights, and :ref:`v-depends-on-x` is
# about a ``v`` that moves with x.
#
# .. asked: gradient descent step; sign of the step; add or subtract the gradient;
#    learning rate and v; step direction; by hand update
# .. words: minus, descend, ascend, learning rate, update rule, uphill, wrong direction,
#    maximise, gradient ascent, sgd by hand
