r"""
.. _grad-scaler-order:

In what order do scale, backward, unscale, clip and step go?
============================================================

You train in float16 with a ``GradScaler``, accumulate two micro-batches, and clip. Each
step then has six kinds of calls, and there are many orders in which you could write them.
Some of these orders raise an error, but with others the network trains a thousand times
too slowly and you get no message. You don't have to learn the right order by heart. It
follows from one fact: between ``backward`` and ``unscale_``, every gradient is too large
by the same factor.
"""

# %%
# Why there is a scale
# --------------------
#
# float16 has nothing between 0 and 0.00000006, and many gradients are smaller. So the
# loss is multiplied by a large number ``S`` before ``backward``. This number is a ``v``:
# the backward pass begins with ``S`` instead of 1. Since the gradient is linear in ``v``,
# every gradient is ``S`` times as large, and so small gradients survive. At the end the
# gradients have to be divided by ``S``.
#
# We use four rows in two micro-batches, with numbers that you can check by hand, and a
# scale of 1024:

import torch
from torch.nn.functional import linear, mse_loss

data = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0], [0.0, 3.0]])
goal = torch.tensor([[0.0], [1.0], [0.0], [1.0]])


def start():
    w = torch.tensor([[3.0, 4.0]], requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    return w, torch.optim.SGD([w], lr=1.0), scaler


def loss_of(w, rows):
    with torch.autocast("cpu", dtype=torch.float16):
        return mse_loss(linear(data[rows], w).float(), goal[rows])


# %%
# Here is one step in the right order. We print the gradient after each call that changes
# it. On a GPU, move the tensors there and write ``"cuda"`` wherever this page has
# ``"cpu"``.

w, optimizer, scaler = start()
for rows in ([0, 1], [2, 3]):
    scaler.scale(loss_of(w, rows) / 2).backward()
print("scaled", w.grad.tolist())
scaler.unscale_(optimizer)
print("unscaled", w.grad.tolist())
before_clip = torch.nn.utils.clip_grad_norm_([w], 1.0)
print("clipped", w.grad.norm().item())
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()
right = w.detach().clone()

# %%
# After the two ``backward`` calls the gradient is 1024 times too large. ``unscale_``
# divides it by 1024, and then it is the gradient that float32 would have given, up to the
# rounding of float16. After that we clip it to length 1. So the rule is: **operations that
# are linear in the gradient may come before** ``unscale_``, for example adding up
# micro-batches. **Operations that are not linear must come after it**: a norm, a clip, a
# penalty, or a test of the gradient's size.
#
# If no other operation needs the true gradient, you can leave ``unscale_`` out. Then
# ``scaler.step`` divides by the scale. The scaler remembers whether you have called
# ``unscale_``, and does not divide twice:

moves = []
for explicit in (True, False):
    w, optimizer, scaler = start()
    scaler.scale(loss_of(w, [0, 1])).backward()
    if explicit:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    moves.append(w.detach() - start()[0].detach())
print(moves)

# %%
# Both variants have moved the weights by the same amount.
#
# The step as a function
# ----------------------
#
# You can copy this function and use the same step for your own model. ``loss_of`` takes the
# model and a batch, and returns the mean loss of the batch in float32. The batches must
# have the same size and must be on the same device as the model. On a GPU the scaler is
# ``torch.amp.GradScaler("cuda")``:


def training_step(model, loss_of, batches, optimizer, scaler, limit):
    """Make one step with the mean gradient of the batches, clipped to a length."""
    weights = [*model.parameters()]
    device, total = weights[0].device, 0.0
    for batch in batches:
        with torch.autocast(device.type, dtype=torch.float16):
            loss = loss_of(model, batch)
        scaler.scale(loss / len(batches)).backward()
        total += loss.item() / len(batches)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(weights, limit)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return total


# %%
# We let a small network learn ``y = 2 * x`` with this function. We train a second network
# as if the line with ``unscale_`` were missing. Its scaler does not divide before ``step``,
# so the clip comes too early:


class Later(torch.amp.GradScaler):
    def unscale_(self, optimizer):
        pass  # as if nobody had called it

    def step(self, optimizer):
        super().unscale_(optimizer)
        return super().step(optimizer)


def of_line(model, x):
    return mse_loss(model(x).float(), 2 * x)


def trained(scaler, seed=0):
    torch.manual_seed(seed)  # the same weights and points for both
    model = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return [
        training_step(model, of_line, torch.rand(2, 32, 1), optimizer, scaler, 1.0)
        for _ in range(150)
    ]


losses = {
    "as above": trained(torch.amp.GradScaler("cpu")),
    "without unscale_": trained(Later("cpu")),
}

import matplotlib.pyplot as plt

figure, ax = plt.subplots(layout="constrained", figsize=(5.4, 3.4))
for name, way in losses.items():
    ax.plot(way, label=name)
ax.set(xlabel="step", ylabel="loss", ylim=(0, None))
ax.legend()
title = ax.set_title("A clip that comes before unscale_ stops the training")

# %%
# The first network learns the line. Five others, with different weights and points, did so,
# too. The second network hardly changes, and there is no error. We shall see how much too
# short its steps are.
#
# Three wrong orders of the calls
# -------------------------------
#
# We write the step as a list of words, in which ``a`` and ``b`` are the two
# micro-batches, and print how long the step is. In the right order, its length is 1, the
# limit of the clip:
#
# .. admonition:: Before you read on
#
#    If you clip *before* ``unscale_``, how long is the step?


def run(order):
    w, optimizer, scaler = start()
    does = {
        "a": lambda: scaler.scale(loss_of(w, [0, 1]) / 2).backward(),
        "b": lambda: scaler.scale(loss_of(w, [2, 3]) / 2).backward(),
        "unscale_": lambda: scaler.unscale_(optimizer),
        "clip": lambda: torch.nn.utils.clip_grad_norm_([w], 1.0),
        "step": lambda: scaler.step(optimizer),
    }
    for each in order.split():
        does[each]()
    return (w - start()[0]).norm().item()


for order in (
    "a b unscale_ clip step",
    "a b clip step",
    "a unscale_ b unscale_ step",
    "a unscale_ clip b step",
):
    try:
        print(f"{order:27}", round(run(order), 4))
    except RuntimeError as error:
        print(f"{order:27}", str(error)[:47])

# %%
# - **clip without unscale_.** The clip limits the scaled gradient to 1, ``step`` divides
#   it by 1024, and the step of SGD is about a thousand times too short. There is no
#   error. People notice that the model hardly learns, and raise the learning rate. With
#   Adam you do not even notice this, since Adam divides each entry of the gradient by the
#   typical size of its past values. But the clip then cuts nearly every gradient to the
#   same length.
# - **unscale_ in each micro-batch.** The second call raises an error, and for a good
#   reason: the second ``backward`` has added a scaled gradient to a gradient that is not
#   scaled any more.
# - **A micro-batch after unscale_.** ``.grad`` holds the same mixture of a scaled
#   gradient and one that is not. But without the second ``unscale_`` there is no error.
#   Here the step is more than twenty thousand times too long.
#
# When the scaler skips a step
# ----------------------------
#
# Sometimes the scale is too large, and a gradient becomes infinite or NaN. Then ``step``
# leaves the weights as they are, and ``update`` halves the scale. You need not worry
# about this, unless it happens in every step (:ref:`accumulate-in-half` and
# :ref:`mixed-precision` say more). Have the weights stayed as they were, and what is the
# scale now?

w, optimizer, scaler = start()
scaler.scale(loss_of(w, [0, 1]) * 1e36).backward()
scaler.step(optimizer)
scaler.update()
print(torch.equal(w, start()[0]), scaler.get_scale())

# %%
# If you have several losses or optimizers, still use one scaler. Call ``unscale_`` and
# ``step`` for each optimizer, and ``update`` once at the end, because all gradients that
# add up in ``.grad`` must have been scaled by the same number.
#
# The scale with a gradient penalty
# ---------------------------------
#
# A gradient penalty needs two gradients: an inner one, which is part of the loss, and the
# gradient of the loss itself. Both are computed in float16, so both need the scale. The
# inner gradient is used in the middle of the step, and ``unscale_`` does not divide it. So
# scale the scores, and divide the inner gradient by ``get_scale()`` yourself, *before* you
# take the norm, which is not linear. The whole loss is scaled again for ``backward``. The
# forward pass belongs inside the ``autocast`` block, and the inner ``grad`` outside it:


def critic_loss(w, scaler, divide=True):
    points = data.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        scores = linear(points, w)
    scaled = scaler.scale(scores.float().sum())
    (g,) = torch.autograd.grad(scaled, points, create_graph=True)
    if divide:
        g = g / scaler.get_scale()
    return scores.float().mean() + ((g.float().norm(dim=1) - 1) ** 2).mean()


# %%
# Without the division the penalty is enormous. With the division, the loss has an
# ordinary size:

for divide in (False, True):
    w, optimizer, scaler = start()
    print("divided:", divide, "loss:", critic_loss(w, scaler, divide).item())
scaler.scale(critic_loss(w, scaler)).backward()
scaler.unscale_(optimizer)
by_scaler = w.grad.clone()
scaler.step(optimizer)
scaler.update()

# %%
# May you leave the inner scale out? You may, if the slopes are not small. And in
# bfloat16, which has the range of float32, you need no scaler at all. Here is a slope of
# 1e-8 in both types, without a scale and with one:

for dtype in (torch.float16, torch.bfloat16):
    out = torch.ones(1, dtype=dtype, requires_grad=True)
    small = torch.tensor(1e-4, dtype=dtype)
    out_small = (out * small * small).sum()
    for scale in (1, 1024):
        (g,) = torch.autograd.grad(scale * out_small, out, retain_graph=True)
        print(dtype, scale, f"{g.float().item() / scale:.1e}")

# %%
# In float16 without a scale, the slope becomes 0.
#
# What to watch for
# -----------------
#
# - **A gradient that you log.** Between ``backward`` and ``unscale_`` the norms in your log
#   are ``S`` times too large, and they jump whenever the scale changes.
# - **zero_grad in the wrong place.** The call belongs after ``step``, or before the
#   *first* micro-batch. If you call it before each micro-batch, only the gradient of the
#   last one is left.
# - **loss / N.** The division by the number of micro-batches turns the sum of their means
#   into a mean of their means. It has nothing to do with the scale, but is forgotten as
#   easily. For batches of unequal size, see :ref:`accumulate-in-half`.
#
# .. admonition:: Try it
#
#    Set the scale in ``start`` to 256, and run the wrong order ``"a b clip step"`` again.
#    How long is its step, and how long is the step in the right order?
#
# .. dropdown:: Answer
#
#    In the right order the length is still 1. In the wrong order it is 1/256, since the
#    clip has cut the scaled gradient down to 1. So the speed at which the network learns
#    with SGD depends on a number that the scaler chooses and changes by itself. With 65536,
#    the default scale, these gradients do not fit into float16, and the step is skipped.


def start(scale=256.0):
    w = torch.tensor([[3.0, 4.0]], requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return w, torch.optim.SGD([w], lr=1.0), scaler


lengths = [run(order) for order in ("a b unscale_ clip step", "a b clip step")]
print(f"right {lengths[0]:.3f}, wrong 1/{1 / lengths[1]:.0f}")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the norm before the clip, the clipped step and the gradient of the penalty
#    with formulas in float32, without a scaler.

w = start()[0].detach()
g = 2 * (data @ w[0] - goal[:, 0]) @ data / 4
torch.testing.assert_close(before_clip, g.norm(), rtol=1e-3, atol=0)
torch.testing.assert_close(right, w - g / g.norm(), rtol=1e-3, atol=0)
of_penalty = 2 * (w.norm() - 1) * w / w.norm()
torch.testing.assert_close(by_scaler, data.mean(0) + of_penalty, rtol=1e-3, atol=0)

well, badly = losses.values()
assert max(well[-10:]) < 0.1 * well[0]
assert min(badly[-10:]) > 0.5 * max(badly[:10])
assert abs(lengths[0] - 1) < 1e-3
assert abs(lengths[1] * 256 - 1) < 1e-2

# %%
# **Next:** For a whole loop with unequal batches, read :ref:`accumulate-in-half`. For the
# dtype that arrives at each place, read :ref:`mixed-precision`. For the gradient penalty,
# read :ref:`gradient-penalty`. LBFGS does not work with a scaler, and
# :ref:`optimizer-closures` explains how to use it.
#
# .. asked: GradScaler order; unscale then clip; amp with gradient accumulation;
#    scaler.step and scaler.update; loss scaling; clip gradients with amp
# .. words: amp, inf, skipped step, unscale, clip, scale too small, fp16, found_inf, order
