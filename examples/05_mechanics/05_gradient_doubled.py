r"""
.. _gradient-doubled:

Why did my gradient double?
===========================

``backward`` *adds* to ``x.grad``, and nothing empties it for you. Empty it once before
each new gradient: ``x.grad = None``, or ``optimizer.zero_grad()`` for its parameters. A
gradient that is still twice what you expect may be that of a tensor used twice: right.
"""

# %%
# For :math:`y=x^2` at 3 the derivative is 6. With every call, what ``x.grad`` holds is a
# running sum, the :term:`accumulation` of all calls since you emptied it:
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
# Emptied in between, it is 6 each time. :func:`torch.autograd.grad` returns its result
# instead of adding it anywhere, so there is nothing to empty:

x.grad = None
(x**2).backward()
print(x.grad, torch.autograd.grad(x**2, x)[0])

# %%
# In a training loop
# ------------------
#
# *My loss goes down, then up, then down again.* Each step then follows the sum of all
# gradients so far and runs past the minimum, here at 3. The same loop without and with
# ``zero_grad()``:


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
# Before ``backward`` or after ``step`` are both right places for it. Between the two is
# not: then there is nothing to step along, and no message:

w = torch.tensor(0.0, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.25)
((w - 3) ** 2).backward()
optimizer.zero_grad()
optimizer.step()
w.item()

# %%
# *optimizer.zero_grad() or model.zero_grad()?* Each empties the parameters that it has. An
# optimizer for a part of the model leaves the rest to grow, here the weight:

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
# *After PyTorch 2.0 my accumulation code meets None.* ``zero_grad`` sets ``.grad`` to None
# unless you pass ``set_to_none=False``. Code that adds by hand must allow for it:

optimizer.zero_grad()
more = torch.ones(1)
try:
    model.bias.grad.add_(more)
except AttributeError as error:
    print(error)
model.bias.grad = more + (0 if model.bias.grad is None else model.bias.grad)
print(model.bias.grad)

# %%
# Optimizers, bar LBFGS, skip None. A zero is a gradient: momentum or decay move the weight
# on, also one frozen since (:ref:`frozen-and-stepped`). A step to 0.9 or 0.8, one without:


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
# Adding happens in place (without ``create_graph``), so a name that you gave to ``.grad``
# sees later additions. *I stored the old gradient, and it changed.* Store a clone:

stored, cloned = x.grad, x.grad.clone()
(x**2).backward()
print(stored, cloned)

# %%
# Twice, and right
# ----------------
#
# A tensor used in two places gets the sum of both paths; that is the :term:`chain rule`,
# not a fault. Tied weights, a layer called twice, ``x * x``. Do not divide by two. (A tied
# weight is in ``parameters()`` once; freezing one of its uses: :ref:`freezing-layers`.)

data = torch.tensor([1.0, 2.0])
weight = torch.tensor(3.0, requires_grad=True)
(weight * (weight * data)).sum().backward()
weight.grad  # of 3 w^2: 6 w, 3 w from each use

# %%
# Adding on purpose, and clipping
# -------------------------------
#
# A batch in two halves: no ``zero_grad`` between them, each loss with its share, and *one*
# clipping at the end. Clipping after each half scales the running sum and turns the result:

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
# The check: the running sum by an independent derivative, the loop by its closed form
# (the distance to 3 halves with each step), and the clipped sum by hand:

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
# Why two calls are no second derivative: :ref:`accumulating-twice`. Several losses on one
# graph: :ref:`second-backward`. When ``.grad`` stays None: :ref:`grad-is-none`.
#
# .. asked: gradient doubles; gradient twice as large; gradient accumulates; x.grad adds
#    up; forgot zero_grad; gradient grows with each call; reset gradients; grad gets
#    bigger in each iteration; second backward doubles; gradient doubles every time I
#    run the cell; old gradient is still there; forgot to clear the gradient
