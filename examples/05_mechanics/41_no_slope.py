r"""
.. _no-slope:

Which operations have no gradient: zeros, an error, or a silent cut?
====================================================================

Your gradient is zero, or missing, and you suspect one operation of your function.
Operations that count, compare, round or look something up are step functions: they are
flat between their jumps. For most of them, the result has no graph, or the backward pass
sends zeros or raises an error. A few were made for training and pass a slope that the
step does not have: ``fake_quantize`` passes ones inside its range, and
``gumbel_softmax(hard=True)`` passes the slope of its soft version. Others, such as ``%``,
jump, too, but have a slope between the jumps. This page tries these operations one by
one.
"""

# %%
# ``x`` has shape ``(3,)``. For each operation we sum the result, so that ones arrive at it
# as ``v``, and print the gradient, or why there is none:

import torch

x = torch.tensor([0.4, 1.6, 2.2], requires_grad=True)
edges = torch.tensor([0.0, 1.0, 2.0])


def tried(f):
    y = f(x)
    if not y.requires_grad:
        return f"no graph ({str(y.dtype).removeprefix('torch.')})"
    try:
        return str(torch.autograd.grad(y.sum(), x)[0].tolist())
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).split('. ')[0]}"


# %%
# First come the operations that compare and count. The results of most of them are not
# floating-point numbers, and have no graph. A histogram consists of floats, but has no
# graph either. The values that ``unique`` returns do have a graph, but their backward rule
# raises an error:

counting = {
    "x > 1": lambda x: x > 1,
    "x.argmax()": lambda x: x.argmax(),
    "x.int()": lambda x: x.int(),
    "torch.bucketize(x, edges)": lambda x: torch.bucketize(x, edges),
    "torch.count_nonzero(x)": torch.count_nonzero,
    "torch.histc(x, 3)": lambda x: torch.histc(x, 3),
    "torch.unique(x)": torch.unique,
}
for name, f in counting.items():
    print(f"{name:32}", tried(f))

# %%
# Next comes rounding. *Floor division raises an error and floor does not?* Yes. The
# backward rule of ``//`` raises an error, whereas ``div`` with ``rounding_mode="floor"``,
# which gives the same numbers, passes zeros:

rounding = {
    "torch.round(x)": torch.round,
    "torch.floor(x)": torch.floor,
    "torch.sign(x)": torch.sign,
    "x // 1": lambda x: x // 1,
    "div(x, 1, rounding_mode='floor')": lambda x: torch.div(x, 1, rounding_mode="floor"),
    "torch.heaviside(x, 0)": lambda x: torch.heaviside(x, torch.tensor(0.0)),
    "x % 1": lambda x: x % 1,
    "x.frac()": torch.frac,
}
for name, f in rounding.items():
    print(f"{name:32}", tried(f))

# %%
# ``%`` and ``frac`` have a slope of 1 with respect to ``x``, and nothing in the gradient
# shows that they jump.
#
# The next operations select from what they are given. The condition has no gradient, but
# the selected values do:

choosing = {
    "where(x > 1, 10 * x, x)": lambda x: torch.where(x > 1, 10 * x, x),
    "x[x > 1]": lambda x: x[x > 1],
    "x * (x > 1)": lambda x: x * (x > 1),
    "x.clamp(1, 2)": lambda x: x.clamp(1, 2),
    "nan_to_num(x)": torch.nan_to_num,
}
for name, f in choosing.items():
    print(f"{name:32}", tried(f))

# %%
# Some steps have a slope that was made up. ``fake_quantize`` rounds to steps of 1, from 0
# to 2 for the first line of the output and from 0 to 1 for the second. It passes ones for
# the numbers that were in that range, which is called a *straight-through* estimate.
# ``gumbel_softmax(hard=True)`` returns a :term:`one-hot vector`, and passes the slope of
# the softmax of the same draw. The last two lines show this: their outputs differ, but
# their gradients are the same:

quantized = torch.fake_quantize_per_tensor_affine
print(quantized(x, 1.0, 0, 0, 2).tolist(), tried(lambda x: quantized(x, 1.0, 0, 0, 2)))
print(quantized(x, 1.0, 0, 0, 1).tolist(), tried(lambda x: quantized(x, 1.0, 0, 0, 1)))
v, picked = torch.tensor([1.0, 10.0, 100.0]), {}
for hard in (True, False):
    torch.manual_seed(0)  # the same draw for both
    y = torch.nn.functional.gumbel_softmax(x, hard=hard)
    picked[hard] = torch.autograd.grad(y, x, v)[0]
    print(f"hard={hard!s:6}", y.detach().numpy().round(2), picked[hard].numpy().round(2))

# %%
# if and while
# ------------
#
# *How can a gradient go through a loop that depends on a?* Autograd records the operations
# that were run, and not the condition. Here the loop and the branch only multiply by
# numbers, so the result is :math:`d=ka`, and the slope is :math:`k=d/a`. Each line of the
# output shows this quotient, and then the gradient:


def doubled(a):
    b = 2 * a
    while b.norm() < 1000:
        b = 2 * b
    return b if b.sum() > 0 else 100 * b


for a in torch.tensor([3.0, -0.5], requires_grad=True):
    print((doubled(a) / a).item(), torch.autograd.grad(doubled(a), a)[0].item())

# %%
# Operations that lose the graph
# ------------------------------
#
# *I made a tensor of my results, and backward fails.* ``torch.tensor`` takes the numbers
# without the graph, as ``item()`` and ``detach().numpy()`` do. ``linspace`` also drops the
# graph of its end points. ``torch.stack`` keeps the graph. A change of dtype keeps the
# graph if the new dtype is floating-point or complex:

made = {
    "torch.tensor([x[0].item()])": lambda x: torch.tensor([x[0].item()]),
    "torch.stack([x[0], x[1]])": lambda x: torch.stack([x[0], x[1]]),
    "torch.linspace(0, x[2], 3)": lambda x: torch.linspace(0, x[2], 3),
    "x[2] * torch.linspace(0, 1, 3)": lambda x: x[2] * torch.linspace(0, 1, 3),
    "x.half()": lambda x: x.half(),
    "x.long().float()": lambda x: x.long().float(),
    "x.clone()": lambda x: x.clone(),
    "x.detach()": lambda x: x.detach(),
}
for name, f in made.items():
    print(f"{name:32}", tried(f))

# %%
# ``torch.tensor([x[0], x[1]])``, without ``item()``, loses the graph as well. For a
# function that does this, ``jacrev`` and ``jvp`` return zeros. PyTorch warns, but only the
# first time in a program:

import warnings

torch.set_warn_always(True)  # every time here, so that the warning is sure to appear
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(tried(lost := lambda x: torch.tensor([x[0], x[1]])))
    print(torch.func.jacrev(lost)(x.detach()).tolist())
torch.set_warn_always(False)
print(str(caught[0].message).splitlines()[0])

# %%
# What goes wrong
# ---------------
#
# *I minimize the number of mistakes, and nothing moves; my threshold t is not learned.* A
# count has no graph. So use a soft count. Replace the step at :math:`t` with a sigmoid,
# which has a slope with respect to t as well. Replace a bin with a bump, and use
# cross-entropy in place of the accuracy. The first line of the output is for the threshold.
# It says whether the hard count requires a gradient, and shows the soft count and its
# gradients with respect to x and t. The second line shows the soft counts of three bins,
# and the gradient of the last of them:

tau, t = 0.2, torch.tensor(1.0, requires_grad=True)
soft = ((x - t) / tau).sigmoid().sum()
by_x, by_t = (g.numpy().round(2) for g in torch.autograd.grad(soft, (x, t)))
print((x > t).sum().requires_grad, f"{soft.item():.2f}", by_x, by_t)
bins = torch.exp(-(((x[:, None] - edges) / tau) ** 2)).sum(0)
(by_x,) = torch.autograd.grad(bins[2], x)
print(bins.detach().numpy().round(2), by_x.numpy().round(2))

# %%
# With a small τ the soft count is closer to the true count, but it has a slope only near
# the steps.
#
# *What harm do the jumps of % do?* Suppose that a loss compares an angle modulo 360 with a
# goal. If the jump lies on the short way between the two angles, the loss pulls the angle
# the long way around. Compare sine and cosine instead, which have no jump. From 359° to 1°
# it is two degrees upward, and so the gradient should be negative. Here is the sign of the
# gradient with each loss:

angle, goal = torch.tensor(359.0, requires_grad=True), torch.tensor(1.0)
wrapped = (angle % 360 - goal) ** 2
round_trip = 1 - torch.cos(torch.deg2rad(angle - goal))
for name, loss in {"% 360": wrapped, "cosine": round_trip}.items():
    print(name, torch.autograd.grad(loss, angle)[0].sign().item())

# %%
# As a check, we compute difference quotients, with a small step up and down in each entry.
# They must show the same zeros and slopes, and zeros for the two operations whose backward
# rule raises an error:

steps = 1e-3 * torch.eye(3)
for name, f in (rounding | choosing).items():
    found = [(f(x + s) - f(x - s)).sum().item() / 2e-3 for s in steps]
    raises = name in ("x // 1", "torch.heaviside(x, 0)")
    g = torch.zeros(3) if raises else torch.autograd.grad(f(x).sum(), x)[0]
    torch.testing.assert_close(torch.tensor(found), g, rtol=0, atol=1e-2)
assert tried(lambda x: quantized(x, 1.0, 0, 0, 2)) == "[1.0, 1.0, 1.0]"
assert picked[True].any()
torch.testing.assert_close(picked[True], picked[False])

# %%
# The first function below is a step. The other two jump as well, but they have a slope
# between the jumps. Move x past a whole number:

import pullback

steps = lambda x: torch.stack([x.floor(), x % 1, x + (x.round() - x).detach()])
pullback.live(steps, torch.tensor(0.7))

# %%
# Where next
# ----------
#
# :ref:`kinks` is about corners. :ref:`sort-and-topk` is about ranks.
# :ref:`discrete-choices` is about ways to train through steps.
#
# .. asked: operations without a gradient; round has gradient zero; argmax, comparison
#    and floor; not differentiable operation; int cast cuts the gradient; sign function;
#    threshold; operation blocks the gradient; after argmax the gradient is zero; step
#    function in a network
# .. words: step, threshold, round, int, floor, argmax, count, comparison, accuracy as loss,
#    binarise, sign, bool mask, histogram, long
