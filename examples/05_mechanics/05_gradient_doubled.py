r"""
.. _gradient-doubled:

Why did my gradient double?
===========================

You ran the same cell again, and the gradient is twice as large. ``backward`` *adds* to
``x.grad``, and nothing clears it for you. Clear it once before each new gradient, with
``x.grad = None``, or with ``optimizer.zero_grad()`` for all parameters of the optimizer. If
the gradient is still twice what you expect, look for a tensor that is used twice. Its
gradient is the sum over both uses, and this sum is right.
"""

# %%
# Take :math:`y=x^2` at 3, where the derivative is 6. ``x.grad`` holds a running sum. It is
# the :term:`accumulation` of the gradients from all calls since ``x.grad`` was last
# cleared:
#
# .. math::
#
#    \texttt{x.grad}\;\leftarrow\;\texttt{x.grad}+J^\top v

import torch

x = torch.tensor(3.0, requires_grad=True)
for _ in range(3):
    (x**2).backward()
    print(x.grad)

# %%
# If you clear ``x.grad`` between the calls, it holds 6 after each call.
# :func:`torch.autograd.grad` *returns* its result and does not add it to ``x.grad``, so
# there is nothing to clear:

x.grad = None
(x**2).backward()
print(x.grad, torch.autograd.grad(x**2, x)[0])

# %%
# Gradients that add up in a training loop
# ----------------------------------------
#
# *My loss goes down, then up, then down again.* This is how a loop without ``zero_grad()``
# behaves. Each step follows the sum of all gradients so far, and so the weight runs past
# the minimum, which is at 3 here. We let the loop run without ``zero_grad()``, and then
# with ``zero_grad()``:


def train(empty):
    w = torch.tensor(0.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.25)
    way = []
    for _ in range(8):
        if empty:
            optimizer.zero_grad()
        ((w - 3) ** 2).backward()
        optimizer.step()
        way.append(round(w.item(), 2))
    return way


print(train(empty=False), train(empty=True), sep="\n")

# %%
# You may call ``zero_grad()`` before ``backward`` or after ``step``. Both places are
# right. Between ``backward`` and ``step`` the call is wrong, because ``step`` then finds
# no gradient. There is no message, and the weight stays where it is:

w = torch.tensor(0.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.25)
((w - 3) ** 2).backward()
optimizer.zero_grad()
optimizer.step()
w.item()

# %%
# *optimizer.zero_grad() or model.zero_grad()?* The first clears the gradients of the
# parameters that the optimizer was given, and the second clears the ``.grad`` of all
# parameters of the model. If the optimizer has only some parameters of the model, the
# gradients of the other parameters keep adding up. Here the optimizer has only the bias,
# and so the gradient of the weight keeps adding up:

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD([model.bias], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(1)).backward()
print(model.weight.grad, model.bias.grad)

# %%
# None or zeros?
# --------------
#
# *Since PyTorch 2.0 my accumulation code fails on None.* ``zero_grad`` sets ``.grad`` to
# None, which saves memory and time, unless you pass ``set_to_none=False``. Read gradients,
# for example for a log, after ``backward`` and before ``zero_grad``
# (:ref:`accumulate-by-hand-none`). If your code adds to ``.grad`` by hand, it has to be
# prepared for None:

optimizer.zero_grad()
more = torch.ones(1)
try:
    model.bias.grad.add_(more)
except AttributeError as error:
    print(error)
model.bias.grad = more + (0 if model.bias.grad is None else model.bias.grad)
print(model.bias.grad)

# %%
# None and zero are not the same to an optimizer. Every optimizer except LBFGS skips a
# parameter whose gradient is None. A zero is a gradient like any other. With momentum or
# weight decay, an optimizer still moves a weight whose gradient is zero, even if you have
# frozen the weight in the meantime (:ref:`frozen-and-stepped`). In each of two runs we take
# one step with a nonzero gradient and then a second step, in one run with None and in the
# other with zero. Each line of the output shows the weight after the step with None, and
# then the weight after the step with zero:


def drift(empty, **how):
    w = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, **how)
    w.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=empty)
    optimizer.step()
    return round(w.item(), 2)


for how in ({"momentum": 0.9}, {"weight_decay": 1.0}):
    print(how, drift(True, **how), drift(False, **how))

# %%
# *I stored the old gradient, and it changed.* Without ``create_graph``, the new gradient is
# added in place. So a variable that refers to the old ``.grad`` sees all later additions,
# until ``.grad`` is set to None. Store a clone instead:

stored, cloned = x.grad, x.grad.clone()
(x**2).backward()
print(stored, cloned)

# %%
# When the double gradient is right
# ---------------------------------
#
# A tensor that is used in two places gets the sum of the gradients that come back along the
# two paths. This is the :term:`chain rule`, and you should not divide by two. You meet such
# a sum with tied weights, with a layer that is called twice, and with ``x * x``.
# ``parameters()`` lists a tied weight only once. If you want the gradient to reach a tied
# weight through only one of its two uses, read :ref:`freezing-layers`. In our example, a
# product contains the same weight twice:

data = torch.tensor([1.0, 2.0])
weight = torch.tensor(3.0, requires_grad=True)
(weight * (weight * data)).sum().backward()
weight.grad  # the derivative of 3 w^2 is 6 w, with 3 w from each use

# %%
# Adding on purpose, and clipping
# -------------------------------
#
# Accumulation is useful when a batch is too large and has to be processed in two halves.
# Do not call ``zero_grad`` between the halves. If the loss is a mean, divide the loss of
# each half by 2. Whether it is a mean or a sum, clip the gradient *once*, after the last
# half. If you clip after each half, clipping may shrink the first gradient before you add
# the second one, and then the sum points in another direction:

halves = [torch.tensor([3.0, 4.0]), torch.tensor([-3.0, 4.0])]


def clipped(each):
    w = torch.zeros(2, requires_grad=True)
    for i, half in enumerate(halves):
        (w @ half / len(halves)).backward()
        if each or i + 1 == len(halves):
            torch.nn.utils.clip_grad_norm_([w], 1.0)
    return w.grad


print(*[clipped(each).round(decimals=3) for each in (False, True)])

# %%
# As a check, we compare the running sum with a derivative from :mod:`torch.func`. We
# compare the loop with its closed form, in which each step halves the distance to 3, and
# the clipped sum with a sum that we compute and clip ourselves:

slope = torch.func.grad(torch.square)(torch.tensor(3.0))
assert stored is x.grad
assert (stored, cloned) == (2 * slope, slope)
assert train(empty=True) == [round(3 - 3 / 2**k, 2) for k in range(1, 9)]
shared = torch.func.grad(lambda w: w**2 * data.sum())(weight.detach())
assert weight.grad == shared
total = torch.stack(halves).mean(0)
torch.testing.assert_close(clipped(each=False), total / total.norm())

# %%
# Where next
# ----------
#
# :ref:`accumulating-twice` explains why two calls are not a second derivative,
# :ref:`second-backward` is about several losses on one graph, and :ref:`grad-is-none` is
# about a ``.grad`` that stays None.
#
# .. asked: gradient doubles; gradient twice as large; gradient accumulates; x.grad adds
#    up; forgot zero_grad; gradient grows with each call; reset gradients; grad gets
#    bigger in each iteration; second backward doubles; gradient doubles every time I
#    run the cell; old gradient is still there; forgot to clear the gradient
# .. words: twice, two times, accumulates, keeps growing, bigger every run, jupyter, rerun
#    the cell, zero_grad, leftover, sums up, why add instead of overwrite, reset, stale
