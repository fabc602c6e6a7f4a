r"""
.. _accumulate-in-half:

A big batch in half precision: accumulate, unscale, clip, step
==============================================================

The batch that you want does not fit into memory. In float16 it would need less memory. And
the paper that you follow clips the gradient. Accumulating, scaling and clipping take a few
lines each, but if you combine them, these lines have to be in one particular order. Here is
the whole training loop, with a last batch that is not full. The loop has one ``v``: the
scale, divided by the number of rows.
"""

# %%
# Our rows are 580 points on three spirals, and a network learns to which spiral each
# point belongs. We pretend that only 32 rows, a *micro-batch*, fit into memory at once,
# and want a step for every 128 rows, which are four micro-batches. The number of rows is
# not a multiple of 128: 580 rows make eighteen micro-batches, and 4 rows are left over.
# So the last of the five steps has two full micro-batches and these 4 rows.

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
# many rows the step has before the first ``backward``. It keeps all rows of a step in
# memory, but these need little space. The graphs need much more, and there is only one
# graph at a time. The function also hands out the incomplete group at the end, which
# loops with ``if (i + 1) % 4 == 0`` forget.


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
# You can copy everything up to the end of the next block in one piece. On a GPU, move the
# model and the rows there. The scale begins at 2²⁴ and may grow after 20 steps. Both values
# are more extreme than the defaults, so that you see the scale change in a short run:

torch.manual_seed(0)  # the same weights and order on every build
model = nn.Sequential(
    nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
)
x, y = spirals()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
history = train(model, loader)

# %%
# The network learns the spirals. The upper plot shows its loss, and the lower plot shows
# the scale, as a power of two. Where the scale falls, a gradient was infinite or NaN, and
# the step was skipped:

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
# The first steps are skipped one after the other, because 2²⁴ is too much for float16. Each
# of them halves the scale. After that the scale doubles after every twenty steps without an
# infinite gradient, until it is too large again. The scaler is meant to work like this:

right = (model(x).argmax(1) == y).float().mean().item()
print(f"loss {losses[0]:.2f} at first")
print("below 0.05 at the end:", losses[-1] < 0.05)
print("more than 95 in 100 right:", right > 0.95)
print("left out at first:", left_out[:3])

# %%
# The line with the v
# -------------------
#
# The line is ``scaler.scale(loss).backward()``. The scaler multiplies the loss by the
# scale, which is the same as ``loss.backward(scale)``. And because the loss is a sum over
# rows, divided by the number of rows of the whole step, the loss of each row receives the
# same number. **v is the scale divided by the number of rows of the step.** You could
# keep the losses of the rows, and pass this ``v`` yourself:

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
# Why should v be so large? The loss is computed in float32, but from the logits backwards
# the gradient is computed in float16, which has nothing between 0 and 0.00000006. Our
# network is right about most points by now, so the gradients at its logits are small. Does
# more than one in a hundred of these gradients become 0, without a scale and with one?

for scale in (1.0, 1024.0):
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(part_x)
    loss = cross_entropy(logits.float(), part_y, reduction="none").sum() / 128
    (arrived,) = torch.autograd.grad(loss, logits, torch.tensor(scale))
    lost = (arrived == 0).float().mean()
    print(f"scale {scale:4.0f}: {arrived.dtype}, {bool(lost > 0.01)}")

# %%
# The largest number of float16 is 65504. So the scale may be neither too small nor too
# large, and because the gradients change while the network learns, the scaler keeps
# adjusting it. bfloat16 has the range of float32. ``train(..., dtype=torch.bfloat16)`` runs
# the same lines with a scaler that is switched off, and each entry of v is 1 divided by the
# number of rows.
#
# What to watch for
# -----------------
#
# **BatchNorm.** In training mode BatchNorm uses the rows of one micro-batch, however many
# micro-batches you accumulate. So a network with BatchNorm does not behave as it would
# with the big batch.
#
# **A scale that falls without end.** A skipped step now and then is normal. If the data or
# the loss contain NaN, every step is skipped, and the scale is halved until nothing is left
# of it. Stop the training when the scale falls below 1.
#
# **The last group.** Many tutorials write ``loss = criterion(...) / accumulate``, which
# divides the mean of a micro-batch by the number of micro-batches. For full groups this
# gives the same ``v``. In our last group it does not: there are three micro-batches and
# not four, and one of them has only four rows. Here is the ``v`` of the rows in each
# micro-batch, without the scale:


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
# With ``mean / 4`` a row of the small micro-batch counts eight times as much as a row of
# the full ones, and a row of the full ones counts about half as much as it should.
#
# **The group that is never stepped.** With ``if (i + 1) % 4 == 0`` the gradients of the
# last three micro-batches stay in ``.grad``. If the next epoch begins with ``zero_grad``,
# these gradients are lost. Otherwise they are added to its first step
# (:ref:`leftover-batches`).
#
# **The order.** Call ``unscale_`` once, before the clip, and not in every micro-batch. If
# you clip before ``unscale_``, the norm is too large by a factor of the scale, and so
# almost every step is clipped. :ref:`grad-scaler-order` tries three wrong orders.
#
# **Infinite norms.** One infinite entry in one micro-batch makes the norm infinite or NaN,
# and the whole step is skipped. This is normal, so do not set ``error_if_nonfinite=True``,
# which would raise an error. But a learning rate schedule should not count such a step. You
# recognize it by the scale, which is smaller after ``update`` than before:

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
#    - The scale is a ``v``. It saves gradients that float16 would round to 0, and
#      ``unscale_`` divides by it again.
#
# .. admonition:: Try it
#
#    Take 18 rows at a time instead of 32 and accumulate 7 of them, then 290 at a time and
#    accumulate one. In each case, what is ``v`` in the last group of an epoch, without
#    the scale? And does the training still work?
#
# .. dropdown:: Answer
#
#    With micro-batches of 18 rows, the 580 rows make 32 full micro-batches and one of 4
#    rows. Four groups have 7 micro-batches, and the last group has the remaining five. So
#    it has 4·18 + 4 = 76 rows, and each row receives 1/76. With 290 rows at a time, every
#    group is one micro-batch, and ``v`` is 1/290. The network learns the spirals in both
#    cases, in the second case with two steps for each epoch instead of five.
#
# .. dropdown:: How we checked this page
#
#    The last group has 68 rows. We compare the gradient that its three micro-batches leave
#    with the gradient of all 68 rows at once, without autocast. In float32 they agree up to
#    rounding, and in the two 16-bit types up to the digits of the type.

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
