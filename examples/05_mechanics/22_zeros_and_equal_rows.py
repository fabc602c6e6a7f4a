r"""
.. _zeros-and-equal-rows:

Why are my gradients all zero, or the same in every row?
========================================================

You called ``backward``, and the gradient is all zeros, or has the same numbers in every
row. Either the gradient of your function is like this for every ``v``, or your ``v`` is the
reason. ``None`` means that a path is cut (:ref:`grad-is-none`), whereas zeros and equal
rows are an answer, though often not to the question that you had in mind. To find the
cause, look at three things: the :term:`Jacobian` alone, its product with your ``v``, and
the :term:`cotangent` on its way back through the layers.
"""

# %%
# ``X`` has shape ``(4, 3)``, so it holds four points. ``y`` has shape ``(4, 2)``, and so
# has ``v``. What comes back has the shape of ``X``:

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # the same points and weights on every build
X = torch.randn(4, 3, requires_grad=True)
linear = nn.Linear(3, 2)
y = linear(X)
y.backward(torch.ones_like(y))
X.grad

# %%
# The same in every row
# ---------------------
#
# *Every row of x.grad is the same.* A linear map has the same slope everywhere. So with
# ones for ``v`` every point gets the same row, namely the column sums of the weight W. No
# point has been lost. An activation after the layer makes the rows differ, and so does a
# ``v`` with different rows. The first line of the output says for each of the three
# gradients whether its rows are equal, and the second says whether the rows of the first
# gradient are the column sums of W:

bent = nn.Sequential(linear, nn.Tanh())
(after_bend,) = torch.autograd.grad(bent(X).sum(), X)
(weighed,) = torch.autograd.grad(linear(X), X, torch.arange(8.0).reshape(4, 2))
print([torch.equal(g, g[:1].expand(4, 3)) for g in (X.grad, after_bend, weighed)])
print(torch.allclose(X.grad, linear.weight.sum(0)))

# %%
# *The same number in every entry* comes from a mean or a sum: the mean of our 12 entries
# has slope 1/12 with respect to each of them, and their sum has slope 1, whatever X is. And
# if you expected a different row for each of several outputs, but called ``backward`` once
# for all of them, the rows have been added up (:ref:`several-outputs`). Here are the mean
# and the sum:

print(*(torch.autograd.grad(y, X)[0].unique() for y in (X.mean(), X.sum())))

# %%
# *Every row of weight.grad is the same.* Row k of ``weight.grad`` is :math:`v_k^\top X`,
# where :math:`v_k` is the column of ``v`` for unit k. So the rows are equal wherever each
# unit gets the same ``v``, whatever the weights are. This happens if you pass ones for
# ``v`` at the output of a single linear layer, even if all the weights of the layer differ.
# Equal rows do point to a mistake if they appear in a hidden layer whose units started as
# twins, with the same incoming and outgoing weights. Twins get the same ``v``, and so they
# stay twins. If all weights start at 0, the layers before the last get a gradient of zeros.
# The first part of the output is the gradient of a single layer's weight for a ``v`` of
# ones. Below it, one line for each of three initializations says whether the rows of the
# gradient are equal, whether the gradient has any nonzero entry, and whether the rows of
# the weight are equal:

print("ones, one layer:", linear.weight.grad, sep="\n")
hidden = {}
for at in ("random", 0.5, 0.0):
    deep = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    for p in deep.parameters() if at != "random" else ():
        nn.init.constant_(p, at)
    w = deep[0].weight
    (g,) = torch.autograd.grad(deep(X).sum(), w)
    hidden[at] = (
        torch.allclose(g, g[:1]),
        g.any().item(),
        torch.equal(w, w[:1].expand(8, 3)),
    )
    print(f"{at!s:8}", *hidden[at])

# %%
# All zero: the sum is constant
# -----------------------------
#
# Some layers fix the sum of their outputs. Probabilities add up to 1. Without learned
# weights and biases, the outputs of LayerNorm add up to 0 over each sample, and those of
# BatchNorm in training add up to 0 over the batch. The derivative of a constant is 0. So a
# ``v`` of ones gives 0, or something like 1e-8 because of rounding, where you hoped to see
# how sensitive the outputs are. The table says whether J has an entry above 0.1, whether
# all entries of the gradient are below 1e-5 for a ``v`` of ones, and whether the gradient
# has an entry above 0.1 for a random ``v``:

fixed_sum = {
    "softmax": lambda x: x.softmax(-1),
    "LayerNorm": lambda x: F.layer_norm(x, (3,)),
    "BatchNorm in training": lambda x: F.batch_norm(x, None, None, training=True),
    "x / x.sum()": lambda x: x / x.sum(),
}
tiny, random = {}, torch.randn(4, 3)
for name, f in fixed_sum.items():
    J = torch.func.jacrev(f)(X.detach())
    pair = (torch.autograd.grad(f(X), X, v)[0] for v in (torch.ones(4, 3), random))
    tiny[name] = big, small, other = [t.abs().max().item() for t in (J, *pair)]
    print(f"{name:22}{big > 0.1!s:6}{small < 1e-5!s:6}{other > 0.1}")

# %%
# Differentiate something that is not constant: a sum that is weighted by a random ``v``, a
# single entry (:ref:`one-component`), all entries (:ref:`seeing-jacobians`), the loss that
# follows the layer, or the logits.
#
# All zero: the function is flat there
# ------------------------------------
#
# In this case J itself is zero at this x, and no ``v`` helps. Either the function is
# saturated, dead or clamped at the input, or it is a rounding function, which is constant
# between its jumps, or it is a loss that has nothing left to correct:

flat = {
    "sigmoid(x), x = 200": (torch.sigmoid, 200.0),
    "relu(x), x = -1: dead": (torch.relu, -1.0),
    "clamp(x, 0, 1), x = 2": (lambda x: x.clamp(0, 1), 2.0),
    "round(x), x = 0.3": (torch.round, 0.3),
    "hinge, margin met": (lambda x: (1 - x).clamp(min=0), 3.0),
    "(x - t)², x = t": (lambda x: (x - 0.3) ** 2, 0.3),
}
slopes = {n: torch.func.grad(f)(torch.tensor(at)).item() for n, (f, at) in flat.items()}
for name, slope in slopes.items():
    print(f"{name:24}{slope + 0:g}")

# %%
# A unit that is dead for one sample may be alive for others, and so may its neighbors.
# Change what kills it: the scale of the inputs, the bias, or the activation, for example to
# ``leaky_relu``. Rounding needs another method (:ref:`discrete-choices`). The zeros in the
# last two rows of the table are not mistakes, because for these losses there is nothing
# left to learn.
#
# Where does it become zero?
# --------------------------
#
# In a deep model, watch the cotangent. A hook on the output of each layer records the
# length of the cotangent that arrives there (:ref:`hooks`):


def sizes(model, x):
    found, h = {}, x
    for name, layer in model.named_children():
        h = layer(h)
        key = f"{name} {type(layer).__name__}"
        h.register_hook(lambda v, key=key: found.__setitem__(key, v.norm().item()))
    h.sum().backward()
    return found


# %%
# Here is a model whose second linear layer has a bias that kills all of its units. The list
# shows the length of the cotangent at the output of each layer, and the backward pass goes
# through the layers from the bottom of the list to the top:

layers = nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
model = nn.Sequential(*layers)
with torch.no_grad():
    model[2].bias -= 10.0
for name, size in reversed(sizes(model, X).items()):
    print(f"{name:10}{size:.2f}")

# %%
# A cotangent arrives at ``3 ReLU``, but only zeros leave it. The parameters before this
# layer get zeros and not None, so an optimizer treats the zeros as gradients. The last
# weight gets zeros, too, because its inputs are zeros. Only the last bias still learns:

print([f"{name}: {p.grad.norm():.1f}" for name, p in model.named_parameters()])

# %%
# What goes wrong
# ---------------
#
# *The norm that I print is 0, but the loss still falls.* You are printing the norm after
# ``zero_grad``. From PyTorch 2.0 on, ``zero_grad`` leaves ``None``, so the mistake is easy
# to see. With ``set_to_none=False`` it leaves a 0 that looks like a vanished gradient:

loss = linear(X.detach()).pow(2).mean()
loss.backward()
before = linear.weight.grad.norm().item()
linear.zero_grad(set_to_none=False)
print(before > 0, linear.weight.grad.norm().item())

# %%
# As a check, we take difference quotients in float64, which know nothing about graphs. They
# are 0 where the function is flat. With a step in only one entry of X, they also show that
# J is not zero in the cases where a ``v`` of ones gave zeros:

h = 1e-4
for name, (f, at) in flat.items():
    up, down = (f(torch.tensor(at + s, dtype=torch.float64)) for s in (h, -h))
    assert abs((up - down).item() / (2 * h)) + abs(slopes[name]) < 1e-6, name
for name, f in fixed_sum.items():
    x, step = X.detach().double(), torch.zeros(4, 3).double()
    step[0, 0] = h
    change = (f(x + step) - f(x - step)) / (2 * h)
    assert change.abs().max() > 0.01 > 1e-6 > change.sum().abs(), name
assert all(min(big, other) > 0.1 and small < 1e-5 for big, small, other in tiny.values())

# %%
# With ones for v, the gradient of softmax is zero wherever you move x. Now change one entry
# of v:

import pullback

pullback.live(lambda x: x.softmax(-1), torch.tensor([1.0, 2.0, 3.0]))

# %%
# Where next
# ----------
#
# :ref:`grad-is-none` explains why you may get None instead of zeros, and
# :ref:`mixing-samples` covers what a ``v`` of ones does when samples mix. :ref:`kinks` is
# about corners and jumps. For zeros in LoRA, see :ref:`lora-at-zero`.
#
# .. asked: gradient is all zeros; gradients are zero; every row of the gradient is the
#    same; no gradient flows; zero gradient everywhere; dead network; gradient of my
#    image is blank; all entries of the gradient are equal
# .. words: zero, dead, flat, saturated, dying relu, nothing happens, identical rows,
#    constant, softmax sum, black, no signal, stuck, round, same for each neuron
