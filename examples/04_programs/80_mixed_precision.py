r"""
.. _mixed-precision:

In which dtype do v and .grad arrive under autocast?
====================================================

You put ``torch.autocast`` around your forward pass, and the training runs in half the
memory. Your weights are float32 as before, and so is ``.grad``. But what happens in
between? The gradient that travels back is in bfloat16 or float16 for most of its way. At
the end it is converted to float32, but the digits that were lost on the way stay lost. And
float16 cannot hold every ``v``. This is why there is a ``GradScaler``. Here we follow one
gradient from station to station.
"""

# %%
# One step under autocast
# -----------------------
#
# Under ``autocast`` matrix products run in the 16-bit type that you choose, and some losses
# run in float32. On CUDA, powers also run in float32. So the forward pass contains casts
# that you have not written. Our model is one product. ``x`` and ``w`` have the shape ``(1,
# 2)``, and ``h``, ``y`` and ``v`` have the shape ``(1, 1)``:

import math
from contextlib import nullcontext

import torch
from torch.nn.functional import linear, mse_loss

x = torch.tensor([[1.0, 2.0]], requires_grad=True)
w = torch.tensor([[3.0, 4.0]], requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = linear(x, w)
    y = h**2
    loss = mse_loss(y, torch.zeros(1, 1))
print(h.dtype, y.dtype, loss.dtype)

# %%
# Each cast is a node of the graph. In the backward pass this node casts the gradient in
# the other direction. In the picture these nodes are called ``ToCopy``:

import pullback

seen = pullback.trace(y, torch.ones(1, 1), names={"x": x, "w": w, "h": h})
ax = pullback.plot.trace(seen)
title = ax.set_title("Each cast comes back as a ToCopy")

# %%
# Must ``v`` be bfloat16 because ``y`` is? It need not be, because a float32 ``v`` is cast
# to the dtype of ``y`` at the start. Hooks print the gradient that arrives at each
# tensor. The last line of the output shows the dtypes of ``.grad``:

for name, t in {"y": y, "h": h, "x": x, "w": w}.items():
    t.register_hook(lambda g, name=name: print(name, g.dtype, g.tolist()))
y.backward(torch.ones(1, 1))
print(x.grad.dtype, w.grad.dtype)

# %%
# From ``y`` back to the product, the gradients are bfloat16. After the cast they are
# float32.
#
# Digits and range: what the two 16-bit types lack
# ------------------------------------------------
#
# The two 16-bit types lack different things. bfloat16 has the range of float32 but only 8
# binary digits. float16 has 11 digits, but only numbers between 0.00000006 and 65504. A
# scale cannot bring back missing digits, but it can make up for a missing range.
#
# We begin with the digits. The derivative of the next product is 1/3. In the first of
# three runs there is no autocast, in the second it is around the forward pass, and in the
# third it is only around ``backward``, which is a mistake:

autocast = torch.autocast("cpu", dtype=torch.bfloat16)
third, found = torch.tensor([[1 / 3]]), []
x = torch.tensor([[1.0]], requires_grad=True)
runs = {"nowhere": (0, 0), "forward": (1, 0), "backward": (0, 1)}
for name, (forward, back) in runs.items():
    with autocast if forward else nullcontext():
        y = linear(x, third)
    with autocast if back else nullcontext():
        (g,) = torch.autograd.grad(y, x, torch.ones(1, 1))
    found.append(g.item())
    print(f"autocast {name:9}{g.item():.6f}")

# %%
# All three gradients are float32, but in the last two only the digits of bfloat16 are
# right. In the third run the forward pass was exact, but the products in ``backward``
# were not. So end the ``with`` before you call ``backward``.
#
# The scale of a GradScaler is a v
# --------------------------------
#
# Now we look at the range. The smallest positive number of float16 is 0.00000006, and
# gradients are often smaller. So ``GradScaler`` multiplies the loss by a large number,
# and divides the gradients by it before the step. Multiplying the loss is the same as
# passing the scale as ``v``. If you pass a ``v`` yourself, scale this ``v``, with
# ``y.backward(scaler.scale(v))``:

w = torch.tensor([3.0], requires_grad=True)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
(by_scaler,) = torch.autograd.grad(scaler.scale((w**2).sum()), w)
(by_v,) = torch.autograd.grad(w**2, w, scaler.scale(torch.ones(1)))
print(by_scaler, by_v)

# %%
# The scale is 65536 at first. As a ``v`` it does not fit into float16, which ends at
# 65504. If the loss is a float16 number, the gradient is infinite at the very first
# station. So compute the loss in float32. Below, the loss is the mean of eight outputs.
# In float32 its ``v`` is the whole scale, and each output gets an eighth, which fits:

out = torch.ones(8, dtype=torch.float16, requires_grad=True)
for loss in (out.mean(), out.float().mean()):
    v = torch.full_like(loss, scaler.get_scale())
    (g,) = torch.autograd.grad(loss, out, v)
    print(f"loss in {loss.dtype}: v {v.item()}, arrives {g[0].item()}")

# %%
# Here is a whole training loop with a ``GradScaler``, in which the derivative is 4 and
# the backward pass goes through float16:

optimizer = torch.optim.SGD([w], lr=0.25)
for _ in range(4):
    optimizer.zero_grad()
    scaler.scale((4 * w.half()).float().sum()).backward()
    print("arrived", w.grad.item(), end=", ")
    scaler.unscale_(optimizer)
    print("unscaled", w.grad.item(), end=", ")
    scaler.step(optimizer)
    scaler.update()
    print("then w", w.item(), "scale", scaler.get_scale())

# %%
# The first three steps change nothing, and this is as it should be. ``scaler.step`` skips
# the step when a gradient is not finite, and ``update`` halves the scale, until all
# gradients fit into float16. If you clip, clip after ``unscale_``, because ``.grad`` is
# scaled until then (:ref:`grad-scaler-order` tries several orders).
#
# What to watch for
# -----------------
#
# **The loss does not move.** Under ``autocast`` each weight is cast once, and the copy is
# kept until the ``with`` ends. If the whole loop is inside the ``with``, all steps use
# the weights of the first step. Here is ``y`` in three steps:


def train(outer, inner):
    w, seen = torch.tensor([[1.0]], requires_grad=True), []
    with outer:
        for _ in range(3):
            with inner:
                y = linear(torch.ones(1, 1), w)
            (g,) = torch.autograd.grad(y.float() ** 2, w)
            torch.no_grad()(w.sub_)(0.25 * g)
            seen.append(y.item())
    return seen


print("around the loop", train(autocast, nullcontext()))
print("in each step   ", train(nullcontext(), autocast))

# %%
# **A gradient penalty** uses the inner gradient ``g`` in the middle of the loss. The
# penalty contains the norm of ``g`` minus 1, which is not linear, so divide ``g`` by the
# scale *before* you take the norm. If you divide afterwards, as in ``late``, you get a
# different penalty. For the scores :math:`w\cdot x` the slope is 5, and the penalty
# should be 16:

w = torch.tensor([[3.0, 4.0]], requires_grad=True)
points, scale = torch.ones(2, 2, requires_grad=True), 1024.0
with torch.autocast("cpu", dtype=torch.float16):
    scores = linear(points, w)
v = torch.full_like(scores, scale)
(g,) = torch.autograd.grad(scores, points, v, create_graph=True)
late = ((g.norm(dim=1) - 1) ** 2).mean() / scale**2
early = (((g / scale).norm(dim=1) - 1) ** 2).mean()
by_w = torch.autograd.grad(scale * early, w)[0] / scale
print(f"late {late.item():.2f}, early {early.item()}, gradient {by_w.round(decimals=2)}")

# %%
# **Weights that are themselves bfloat16** add up their gradients in bfloat16, where 256 +
# 1 is 256. A scale does not help, because bfloat16 lacks digits, and not range. We send
# 300 gradients of 1, each scaled by 1024. From torch 2.10 on, a leaf may have a ``.grad``
# of a different type, if you set ``grad_dtype`` while ``.grad`` is None. Before 2.10, torch
# does not know this name. A tensor accepts any attribute, so do not expect an error there,
# and add up in a float32 tensor of your own:

sums = {}
for dtype in (torch.bfloat16, torch.float32):
    leaf = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    leaf.grad_dtype = dtype
    for _ in range(300):
        (1 * leaf).backward(torch.tensor([1024.0]))
    sums[dtype] = leaf.grad.item() / 1024
    print(f".grad in {dtype}: {sums[dtype]}")

# %%
# .. admonition:: Try it
#
#    Our ``x`` and ``w`` hold small whole numbers. Which of the gradients of the first
#    section would still be exact with ``w = [[3.01, 4.01]]``?
#
# .. dropdown:: Answer
#
#    Only the gradient of ``y`` would be exact, because it is ``v`` itself. The cast
#    rounds ``w`` to 3.015625 and 4.0, and all the other gradients are computed from these
#    numbers.

# %%
# .. dropdown:: How we checked this page
#
#    We compare the slope of the penalty with difference quotients, and compute the
#    neighbors of 1/3 by arithmetic. The gradients that arrived at the stations of the
#    first section are in the output above.


def penalty(a, b):
    return (math.hypot(a, b) - 1) ** 2


e = 1e-6
slope = penalty(3 + e, 4) - penalty(3 - e, 4), penalty(3, 4 + e) - penalty(3, 4 - e)
torch.testing.assert_close(by_w[0], torch.tensor(slope) / (2 * e), rtol=2**-10, atol=0)
short = round(2**9 / 3) / 2**9  # bfloat16 has steps of 2**-9 from 1/4 to 1/2
assert found == [third.item(), short, short]
assert sums[torch.float32] == 300 > sums[torch.bfloat16]
assert torch.equal(by_scaler, by_v)
assert torch.tensor([3.01, 4.01]).bfloat16().tolist() == [3.015625, 4.0]
assert torch.finfo(torch.float16).max == 65504
assert 0 < torch.tensor(6e-8).half().item() < 6.1e-8

# %%
# **Next:** :ref:`accumulate-in-half` is a whole training loop, and
# :ref:`grad-scaler-order` explains the order of its calls. For a ``v`` of a different
# dtype, read :ref:`silent-traps`. For the penalty itself, read :ref:`gradient-penalty`.
#
# .. asked: autocast gradients; bf16 gradients; half precision gradient; float16
#    underflow; dtype of grad under amp; mixed precision and second derivatives; dtype
#    of v
# .. words: amp, half, bf16, fp16, float16, underflow, tensor core, dtype, autocast,
#    precision, lost digits
