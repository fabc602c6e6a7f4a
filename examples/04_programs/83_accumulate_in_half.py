r"""
.. _accumulate-in-half:

A big batch in half precision: accumulate, unscale, clip, step
==============================================================

The batch that you want does not fit into memory, float16 would make it fit better, and the
paper clips the gradient. Accumulating, scaling and clipping take a few lines each in every
tutorial, but together these lines have to stand in one particular order. Here is the whole
training loop, with a last batch that is not full. In all of it there is one ``v``: the
scale, divided by the number of rows.
"""

# %%
# Our rows are points on three spirals, and a network is to learn to which spiral each point
# belongs. There are 580 of them. We pretend that only 32 fit into memory at once (a
# *micro-batch*), and want a step for every 128, which is four micro-batches. This does not
# come out even: 580 rows make eighteen micro-batches, and 4 rows are left over. So the last
# of the five steps has two full micro-batches and these 4 rows.

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def spirals(rows=580, arms=3):
    numbers = torch.Generator().manual_seed(0)  # the same points on every build
    arm = torch.arange(rows) % arms
    r = torch.rand(rows, generator=numbers).sqrt()
    angle = 4 * r + 2 * torch.pi * arm / arms
    angle = angle + 0.15 * torch.randn(rows, generator=numbers)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1), arm


# %%
# The program
# -----------
#
# The first function hands out the micro-batches of one step together, so that we know how
# many rows the step has before the first ``backward``. (It keeps their rows in memory,
# which is little. What would not fit are the graphs, and there is only one at a time.) It
# also hands out the incomplete group at the end. Loops that step ``if (i + 1) % 4 == 0``
# forget that one.


def in_groups(loader, size):
    """Yield lists of so many micro-batches; the last may be shorter."""
    group = []
    for micro_batch in loader:
        group.append(micro_batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def train(model, loader, accumulate=4, epochs=30, dtype=torch.float16, clip=0.5):
    """Train with accumulated, scaled and clipped gradients; return what happened."""
    device = next(model.parameters()).device.type
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    half = dtype == torch.float16  # bfloat16 needs no scaler, and then it does nothing
    scaler = torch.amp.GradScaler(device, 2.0**24, growth_interval=20, enabled=half)
    history = []
    for _ in range(epochs):
        for group in in_groups(loader, accumulate):
            rows = len(torch.cat([y for _, y in group]))
            mean_loss = 0.0
            for x, y in group:
                with torch.autocast(device, dtype=dtype):
                    logits = model(x)
                loss = cross_entropy(logits.float(), y, reduction="none").sum() / rows
                scaler.scale(loss).backward()  # once for each micro-batch
                mean_loss += loss.item()
            scaler.unscale_(optimizer)  # and these once for all of them
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            history.append((mean_loss, norm.item(), scale))
    return history


# %%
# Everything up to the end of the next block can be copied in one piece. On a GPU, move the
# model and the rows there. The scale begins at 2²⁴ and may grow after 20 steps. Both are
# bolder than the defaults, so that something happens in a short run:

torch.manual_seed(0)  # the same weights and order on every build
model = nn.Sequential(
    nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
)
x, y = spirals()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
history = train(model, loader)

# %%
# The network learns the spirals. Above is its loss, below the scale, as a power of two.
# Where the scale falls, a gradient was infinite or NaN, and the step was left out:

import matplotlib.pyplot as plt

losses, norms, scales = zip(*history, strict=True)
left_out = [i for i, norm in enumerate(norms) if not norm < float("inf")]

figure, (above, below) = plt.subplots(2, 1, layout="constrained", figsize=(4.6, 4.4))
above.semilogy(losses)
above.set_ylabel("loss")
below.step(range(len(scales)), torch.tensor(scales).log2(), where="mid")
below.plot(left_out, torch.tensor(scales)[left_out].log2(), "o", label="step left out")
below.set_ylabel("log2 of the scale")
below.set_xlabel("step")
below.legend()
title = figure.suptitle("The loss falls; the scale looks for its limit")

# %%
# The first steps are left out one after the other, because 2²⁴ is too much for float16.
# Each halves the scale. After that the scale grows whenever twenty steps went well, until
# it is too large again. This is how it is meant to work:

right = (model(x).argmax(1) == y).float().mean().item()
print(f"loss {losses[0]:.2f} at first")
print("below 0.05 at the end:", losses[-1] < 0.05)
print("more than 95 in 100 right:", right > 0.95)
print("left out at first:", left_out[:3])

# %%
# The line with the v
# -------------------
#
# It is ``scaler.scale(loss).backward()``. The scaler multiplies the loss by the scale,
# which is the same as ``loss.backward(scale)``. And as the loss is a sum over rows, divided
# by the rows of the whole step, each row's own loss receives the same number. **v is the
# scale divided by the number of rows of the step.** You could keep the losses of the rows,
# and hand it over yourself:

scaler = torch.amp.GradScaler("cpu", 2.0**20)
part_x, part_y = x[:32], y[:32]
weights = list(model.parameters())


def losses_of_rows():
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(part_x)
    return cross_entropy(logits.float(), part_y, reduction="none")


loss = losses_of_rows().sum() / 128
scaled = torch.autograd.grad(scaler.scale(loss), weights)
v = torch.full((32,), scaler.get_scale() / 128)
by_v = torch.autograd.grad(losses_of_rows(), weights, v)
same = [torch.allclose(a, b, rtol=1e-3) for a, b in zip(scaled, by_v, strict=True)]
print(f"v is {v[0].item():.0f} for each row; same gradients: {all(same)}")

# %%
# Why such a large v? The loss is computed in float32, but from the logits backwards the
# gradient is carried in float16, which has nothing between 0 and 0.00000006. Our network is
# right about most points by now, so that its logits receive small numbers. Do more than one
# in a hundred of them become 0 on the way, without a scale and with one?

for scale in (1.0, 1024.0):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(part_x)
    loss = cross_entropy(logits.float(), part_y, reduction="none").sum() / 128
    (arrived,) = torch.autograd.grad(loss, logits, torch.tensor(scale))
    lost = (arrived == 0).float().mean()
    print(f"scale {scale:4.0f}: {arrived.dtype}, {bool(lost > 0.01)}")

# %%
# At the other end float16 stops at 65504. The scale has to fit in between, and as the
# gradients change while the network learns, the scaler keeps looking for it. bfloat16 has
# the range of float32. ``train(..., dtype=torch.bfloat16)`` runs the same lines with a
# scaler that is switched off, and v is one over the number of rows.
#
# What to watch for
# -----------------
#
# **BatchNorm.** In training mode it computes with the rows of one micro-batch, however many
# of them you accumulate, so such a network does not behave as it would with the big batch.
#
# **A scale that falls without end.** A step that is left out now and then is normal. If the
# data or the loss contain NaN, every step is left out, and the scale is halved until it is
# 0. Stop when it falls below 1.
#
# **The last group.** The line of most tutorials is ``loss = criterion(...) / accumulate``,
# the mean of a micro-batch over the number of micro-batches. For full groups it is the
# same. In our last group it is not: there are three micro-batches and not four, and one of
# them has only four rows. Without the scale, this is what the rows receive:


def v_of_rows(divide):
    """Return what the loss of a row receives, for the parts of the last group."""
    received = []
    for size in (32, 32, 4):
        losses = torch.ones(size, requires_grad=True)
        divide(losses).backward()
        received.append(losses.grad[0].item())
    return received


import pullback

by_rows = v_of_rows(lambda losses: losses.sum() / 68)
by_parts = v_of_rows(lambda losses: losses.mean() / 4)
pullback.draw.bars(
    {"sum / rows of the group": by_rows, "mean / 4": by_parts},
    names=["first 32", "next 32", "last 4"],
)

# %%
# With ``mean / 4`` a row of the small micro-batch counts eight times as much as the others,
# and these count about half of what they should.
#
# **The group that is never stepped.** With ``if (i + 1) % 4 == 0`` the gradients of the
# last three micro-batches stay in ``.grad``. If the next epoch begins with ``zero_grad``
# they are lost, and else they are added to its first step (:ref:`leftover-batches`).
#
# **The order.** ``unscale_`` once, before the clip, and not in every micro-batch. A clip
# before it looks at a norm that is larger by the scale, and so clips almost every step.
# :ref:`grad-scaler-order` tries each of the wrong orders.
#
# **Infinite norms.** One infinite entry in one micro-batch makes the norm infinite or NaN,
# and costs the whole step. That is no error, so do not raise one with
# ``error_if_nonfinite=True``. But a learning rate schedule should not count such a step.
# You know it by the scale, which is smaller after ``update`` than it was before:

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
scaler = torch.amp.GradScaler("cpu", 2.0**24)
for gradient in (1e36, 1.0):
    scaler.scale(weight.sum() * gradient).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if scaler.get_scale() >= before:
        schedule.step()
    print(f"weight {weight.item():.1f}, steps of the schedule {schedule.last_epoch}")

# %%
# .. admonition:: Remember
#
#    - For each micro-batch: the sum of its losses, divided by the rows of the *whole* step;
#      ``scaler.scale(loss).backward()``.
#    - Once for each step: ``unscale_``, clip, ``step``, ``update``, ``zero_grad``.
#    - The scale is a ``v``. It keeps what float16 would round to 0, and ``unscale_``
#      divides it out again.
#
# .. admonition:: Try it
#
#    Take 18 rows at a time instead of 32 and accumulate 7 of them, then 290 at a time and
#    accumulate one. What is ``v`` in the last group of an epoch, without the scale? And
#    does the training still work?
#
# .. dropdown:: Answer
#
#    With 18 rows, 580 rows are 32 full micro-batches and a rest of 4. Four groups have 7
#    micro-batches, and the last has the remaining five, hence 4·18 + 4 = 76 rows, and
#    each receives 1/76. With 290 every group is one micro-batch, and ``v`` is 1/290. Both
#    learn the spirals, the second with two steps for each epoch instead of five.
#
# .. dropdown:: How we checked this page
#
#    For the last group, which has 68 rows, the gradient that the three micro-batches leave
#    is compared with the gradient of all 68 rows at once, without autocast: in float32 to
#    rounding, in the two short types to their digits.

order = torch.randperm(580)[512:]
whole = torch.autograd.grad(cross_entropy(model(x[order]), y[order]), weights)
length = torch.cat([g.flatten() for g in whole]).norm()
for dtype, close in ((torch.float32, 1e-6), (torch.float16, 0.01), (torch.bfloat16, 0.1)):
    scaler = torch.amp.GradScaler("cpu", 2.0**16, enabled=dtype == torch.float16)
    optimizer = torch.optim.SGD(weights, lr=1.0)
    for part in order.split(32):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            logits = model(x[part])
        loss = cross_entropy(logits.float(), y[part], reduction="none").sum() / 68
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    gaps = [p.grad - g for p, g in zip(weights, whole, strict=True)]
    assert torch.cat([gap.flatten() for gap in gaps]).norm() < close * length
    optimizer.zero_grad()

assert losses[0] > 1 > 0.05 > losses[-1]
assert right > 0.95
assert left_out[:3] == [0, 1, 2]
assert left_out[-1] > 20  # the scale has grown, and was too large again
assert any(0.5 < norm < float("inf") for norm in norms)  # something was clipped
assert all(same)
torch.testing.assert_close(by_rows, [1 / 68] * 3)
torch.testing.assert_close(by_parts, [1 / 128, 1 / 128, 1 / 16])
assert len(list(in_groups(loader, 4))) == 5
assert [len(y) for _, y in [*in_groups(loader, 4)][-1]] == [32, 32, 4]

# %%
# Where next
# ----------
#
# To see what each wrong order does to the numbers, read :ref:`grad-scaler-order`. For the
# dtype that arrives at each place, read :ref:`mixed-precision`. If the rows have different
# lengths, or if you train on several ranks, read :ref:`token-mean`.
#
# .. asked: gradient accumulation with mixed precision; GradScaler and accumulation;
#    clip gradients with accumulation; unscale_ before clip; order of scale, unscale,
#    clip and step; last incomplete batch; big batch on a small GPU
# .. words: small gpu, virtual batch, micro batch, amp, clip, last batch, accumulation
#    steps, effective batch size
