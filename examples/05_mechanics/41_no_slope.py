r"""
.. _no-slope:

Which operations have no gradient: zeros, an error, or a cut in silence?
========================================================================

Counting, comparing, rounding and looking up are steps: flat, and then a jump. PyTorch
answers in one of four ways. The result has no graph; it has one and passes zeros; the
backward raises; or the operation has a slope after all, for one of its arguments. Which
one, for each, is below.
"""

# %%
# ``x`` has shape ``(3,)``; each operation is followed by a sum, so that ``v`` is ones:

import torch

x = torch.tensor([0.4, 1.6, 2.2], requires_grad=True)
edges = torch.tensor([0.0, 1.0, 2.0])


def tried(f):
    try:
        y = f(x)
        if not y.requires_grad:
            return f"no graph ({str(y.dtype).removeprefix('torch.')})"
        return str(torch.autograd.grad(y.sum(), x)[0].tolist())
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).split('. ')[0]}"


# %%
# Choosing and counting. All of these are results of another type than ``x``, but for the
# histogram:

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
# Rounding. *Floor division raises and floor does not?* So it is; the two ways to write
# :math:`\lfloor x/y\rfloor` differ:

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
# ``%`` and ``frac`` have a slope of 1, with jumps that nobody sees. What follows is a
# choice *between* two arguments: the condition has no gradient, the branch that was taken
# has:

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
# Out of the graph
# ----------------
#
# *I made a tensor of my results, and backward fails.* ``torch.tensor`` copies numbers, as
# ``item()``, ``float()`` and NumPy do. ``torch.stack`` keeps the graph. A change of the
# type keeps it too, among floating point types:

made = {
    "torch.tensor([x[0], x[1]])": lambda x: torch.tensor([x[0].item(), x[1].item()]),
    "torch.stack([x[0], x[1]])": lambda x: torch.stack([x[0], x[1]]),
    "x.half()": lambda x: x.half(),
    "x.long().float()": lambda x: x.long().float(),
    "x.clone()": lambda x: x.clone(),
    "x.detach()": lambda x: x.detach(),
}
for name, f in made.items():
    print(f"{name:32}", tried(f))

# %%
# What goes wrong
# ---------------
#
# *I minimise the number of mistakes, and nothing moves.* Accuracy is counted and has no
# graph. Count softly: the step :math:`[x>t]` as a sigmoid, a bin as a bump, and, for
# classes, the cross-entropy in place of the accuracy:

tau = 0.2
hard = (x > 1).float().sum()
soft = ((x - 1) / tau).sigmoid().sum()
print(hard.item(), f"{soft.item():.2f}", torch.autograd.grad(soft, x)[0].numpy().round(2))
bins = torch.exp(-(((x[:, None] - edges) / tau) ** 2)).sum(0)
(by_x,) = torch.autograd.grad(bins[2], x)
print(bins.detach().numpy().round(2), by_x.numpy().round(2))

# %%
# A small τ counts better and has a slope only near the steps. *And the jumps of % 1?* A
# loss on an angle modulo 360 pulls the long way round across the jump. Compare sine and
# cosine instead, which have none. From 359° to 1° it is two degrees upwards, so the
# gradient should be negative:

angle, goal = torch.tensor(359.0, requires_grad=True), torch.tensor(1.0)
wrapped = (angle % 360 - goal) ** 2
round_trip = 1 - torch.cos(torch.deg2rad(angle - goal))
for loss in (wrapped, round_trip):
    print(torch.autograd.grad(loss, angle)[0].sign().item())

# %%
# The check: a small step in each entry, which finds the same zeros and slopes wherever the
# operation gave any:

h = 1e-3
for f in [*rounding.values(), *choosing.values()]:
    if tried(f).startswith("["):
        steps = h * torch.eye(3)
        found = [((f(x + s) - f(x - s)).sum() / (2 * h)).item() for s in steps]
        (g,) = torch.autograd.grad(f(x).sum(), x)
        torch.testing.assert_close(torch.tensor(found), g, rtol=0, atol=1e-2)

# %%
# Where next
# ----------
#
# Corners and conventions: :ref:`kinks`. Indices and ranks: :ref:`sort-and-topk`. Straight
# through a step, and drawing at random: :ref:`discrete-choices`. None instead of zeros:
# :ref:`grad-is-none`.
