r"""
.. _mixed-precision:

In which dtype do v and .grad arrive under autocast?
====================================================

Inside in bfloat16 or float16, in ``.grad`` in the leaf's float32: each cast of the forward
pass is a node that casts the :term:`cotangent` back. A type with more digits does not
bring back the digits that were lost, and float16 cannot hold every ``v``.
"""

# %%
# Under ``autocast`` matrix products run in the short type, some losses in float32 (on CUDA
# powers too). ``x`` and ``w`` have shape ``(1, 2)``, ``h``, ``y`` and ``v`` ``(1, 1)``:

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
# The cast back to float32 is a node, ``ToCopyBackward0``:

import pullback

seen = pullback.trace(y, torch.ones(1, 1), names={"x": x, "w": w, "h": h})
ax = pullback.plot.trace(seen)
title = ax.set_title("Each cast comes back as a ToCopy")

# %%
# *Must v be bfloat16, too?* No: a float32 ``v`` is cast to the dtype of ``y``. What each
# tensor is sent, and what ends up in ``.grad``:

for name, t in {"y": y, "h": h, "x": x, "w": w}.items():
    t.register_hook(lambda g, name=name: print(name, g.dtype, g.tolist()))
y.backward(torch.ones(1, 1))
print(x.grad.dtype, w.grad.dtype)

# %%
# What goes wrong
# ---------------
#
# Float32 in name, bfloat16 in its digits. The derivative is 1/3; its neighbour with 8 bits
# arrives, as it does where only ``backward`` stands under ``autocast``. Keep it out:

autocast = torch.autocast("cpu", dtype=torch.bfloat16)
third, found = torch.tensor([[1 / 3]]), []
x = torch.tensor([[1.0]], requires_grad=True)
for forward, back in ((0, 0), (1, 0), (0, 1)):
    with autocast if forward else nullcontext():
        y = linear(x, third)
    with autocast if back else nullcontext():
        (g,) = torch.autograd.grad(y, x, torch.ones(1, 1))
    found.append(g.item())
    print(f"{g.item():.6f}")

# %%
# *The loss does not move under autocast.* Each weight is cast once and the copy kept until
# the ``with`` ends. With the loop inside, all steps see the first one. ``y`` in each step:


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


print(train(autocast, nullcontext()), train(nullcontext(), autocast))

# %%
# GradScaler is a v
# -----------------
#
# float16 has its least number at 6e-8, so ``GradScaler`` multiplies the loss, which is the
# same as to pass its scale as ``v``. Without a loss, ``y.backward(scaler.scale(v))``:

w = torch.tensor([3.0], requires_grad=True)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
(by_scaler,) = torch.autograd.grad(scaler.scale((w**2).sum()), w)
(by_v,) = torch.autograd.grad(w**2, w, scaler.scale(torch.ones(1)))
print(by_scaler, by_v)

# %%
# *Why is the gradient inf from the start?* The first scale is 65536, float16 ends at 65504.
# Scale a loss in float32; its mean hands each of these 8 outputs an eighth of it:

out = torch.ones(8, dtype=torch.float16, requires_grad=True)
for loss in (out.mean(), out.float().mean()):
    v = torch.full_like(loss, scaler.get_scale())
    print(v.item(), torch.autograd.grad(loss, out, v)[0][0].item())

# %%
# *My first steps change nothing.* ``step`` is skipped where a gradient is not finite, and
# ``update`` halves the scale until the way back fits. The derivative 4 stands in float16.
# *Where does clip_grad_norm_ go?* After ``unscale_``: before it, ``.grad`` is scaled:

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
# A gradient penalty
# ------------------
#
# It is not linear in g, so divide g before the norm; after it is too ``late``. For scores
# :math:`w\cdot x` the slope is 5, the penalty 16 (a whole step: :ref:`grad-scaler-order`):

w = torch.tensor([[3.0, 4.0]], requires_grad=True)
points, scale = torch.ones(2, 2, requires_grad=True), 1024.0
with torch.autocast("cpu", dtype=torch.float16):
    scores = linear(points, w)
v = torch.full_like(scores, scale)
(g,) = torch.autograd.grad(scores, points, v, create_graph=True)
late = ((g.norm(dim=1) - 1) ** 2).mean() / scale**2
early = (((g / scale).norm(dim=1) - 1) ** 2).mean()
by_w = torch.autograd.grad(scale * early, w)[0] / scale
print(round(late.item(), 2), early.item(), by_w.round(decimals=2))

# %%
# grad_dtype: another type for .grad
# ----------------------------------
#
# A leaf in bfloat16 adds in bfloat16, where 256 + 1 is 256. Digits are short, not range: no
# scale helps, here 1024. ``grad_dtype``, set while ``.grad`` is None, gives another type:

sums = {}
for dtype in (torch.bfloat16, torch.float32):
    leaf = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    leaf.grad_dtype = dtype
    for _ in range(300):
        (1 * leaf).backward(torch.tensor([1024.0]))
    sums[dtype] = leaf.grad.item() / 1024
print(sums)

# %%
# The check: the penalty's slope by differences, and the neighbours of 1/3 by arithmetic:


def penalty(a, b):
    return (math.hypot(a, b) - 1) ** 2


e = 1e-6
slope = penalty(3 + e, 4) - penalty(3 - e, 4), penalty(3, 4 + e) - penalty(3, 4 - e)
torch.testing.assert_close(by_w[0], torch.tensor(slope) / (2 * e), rtol=2**-10, atol=0)
short = round(2**9 / 3) / 2**9  # bfloat16 has steps of 2**-9 from 1/4 to 1/2
assert found == [third.item(), short, short]
assert sums[torch.float32] == 300 > sums[torch.bfloat16]

# %%
# Where next
# ----------
#
# Other dtypes of v: :ref:`silent-traps`. The penalty itself: :ref:`gradient-penalty`.
#
# .. asked: autocast gradients; bf16 gradients; half precision gradient; float16
#    underflow; dtype of grad under amp; mixed precision and second derivatives; dtype
#    of v
# .. words: amp, half, bf16, fp16, float16, underflow, tensor core, dtype, autocast,
#    precision, lost digits
