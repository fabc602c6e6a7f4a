r"""
.. _grad-scaler-order:

In what order do scale, backward, unscale, clip and step go?
============================================================

You train in float16 with a ``GradScaler``, accumulate two micro-batches, and clip. That
makes six calls in each step, and there are many orders to write them in. Some of these
orders raise an error, but with others the network trains a thousand times too slowly and
you get no message. You don't have to learn the order by heart. It follows from one fact:
between ``backward`` and ``unscale_``, every gradient is too large by the same factor.
"""

# %%
# Why there is a scale
# --------------------
#
# float16 has nothing between 0 and 0.00000006, and many gradients are smaller. So the loss
# is multiplied by a large number ``S`` before ``backward``. This number is a ``v``: the
# backward pass begins with ``S`` instead of 1. Since the product is linear, every gradient
# is ``S`` times as large, and so small gradients survive. At the end the gradients have to
# be divided by ``S``.
#
# We take numbers that can be followed by hand, four rows in two micro-batches, and a scale
# of 1024:

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
# Here is one step in the right order. It prints the gradient after each call that changes
# it. (``"cpu"`` is only there to run on this page. On a GPU it is ``"cuda"`` in all places,
# and the tensors live there.)

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
# Read the output from the top. After the two ``backward`` calls the gradient is 1024 times
# too large. ``unscale_`` divides it, and now the numbers are the ones that float32 would
# have given, up to the rounding of float16. Only then is it clipped, to the length 1. So
# the rule is: **what is linear in the gradient may happen before** ``unscale_``, like
# adding up micro-batches. **What is not linear has to wait**: a norm, a clip, a penalty, a
# look at its size.
#
# Where nothing has to look at the gradient, you can leave ``unscale_`` out. ``step``
# divides by the scale if nobody has done it yet. It remembers, and does not do it twice:

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
# Both have moved the weights by the same amount.
#
# The step as a function
# ----------------------
#
# This is the same step for a model of your own, and is the part to take along. ``loss_of``
# takes the model and a batch, and returns the mean loss of the batch in float32. The
# batches have the same size, and lie on the device of the model. On a GPU the scaler is
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
# We let a small network learn ``y = 2 * x`` with it. A second one is trained as if the line
# with ``unscale_`` were missing, by a scaler that does not divide before ``step``, so that
# the clip comes too early:


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
# One of them learns it. (So did five others, with other weights and points.) The second
# stays where it was, and nothing raises. We shall see by how much its steps are too short.
#
# Three wrong orders
# ------------------
#
# We write the step as a list of words, in which ``a`` and ``b`` are the two micro-batches,
# and ask how long it is. The right one has the length 1, the limit of the clip:
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
#   that by 1024, and the step of SGD is a thousandth of what it should be. Nothing raises.
#   People notice that the model hardly learns, and raise the learning rate. With Adam not
#   even that shows, since it divides out the length of the gradient. But then the clip cuts
#   nearly every gradient to the same length.
# - **unscale_ in each micro-batch.** The second call raises an error, and for good reason:
#   the second ``backward`` has added a scaled gradient to one that is not.
# - **A micro-batch after unscale_.** The same mixture, but without the second call nobody
#   notices. Here the step is more than twenty thousand times too long.
#
# A step that is left out
# -----------------------
#
# Sometimes the scale is too large, and a gradient becomes infinite or NaN. Then ``step``
# leaves the weights as they are, and ``update`` halves the scale. This is no fault, unless
# it happens in every step (:ref:`accumulate-in-half` and :ref:`mixed-precision` say more).
# Have the weights stayed as they were, and what is the scale now?

w, optimizer, scaler = start()
scaler.scale(loss_of(w, [0, 1]) * 1e36).backward()
scaler.step(optimizer)
scaler.update()
print(torch.equal(w, start()[0]), scaler.get_scale())

# %%
# With several losses or optimizers there is still one scaler. Call ``unscale_`` and
# ``step`` for each optimizer, and ``update`` once at the end, since all that adds up in
# ``.grad`` must have been scaled by the same number.
#
# With a gradient penalty
# -----------------------
#
# A gradient penalty has two gradients, one inside of the loss and one of the loss. Each
# walk goes through float16, so each needs the scale. The inner one is used in the middle of
# the step, and ``unscale_`` knows nothing of it. So scale the scores, and divide by
# ``get_scale()`` yourself, *before* the norm, which is not linear. The whole loss is scaled
# again for ``backward``. The forward pass stands in the ``autocast`` block, and the inner
# ``grad`` outside of it:


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
# Without the division the penalty is enormous. With it, the loss is an ordinary one:

for divide in (False, True):
    w, optimizer, scaler = start()
    print("divided:", divide, "loss:", critic_loss(w, scaler, divide).item())
scaler.scale(critic_loss(w, scaler)).backward()
scaler.unscale_(optimizer)
by_scaler = w.grad.clone()
scaler.step(optimizer)
scaler.update()

# %%
# May the inner scale be left out? If the slopes are not small, yes. And in bfloat16, which
# has the range of float32, no scaler is needed at all. Here is a slope of 1e-8 in both,
# without a scale and with one:

for dtype in (torch.float16, torch.bfloat16):
    out = torch.ones(1, dtype=dtype, requires_grad=True)
    small = torch.tensor(1e-4, dtype=dtype)
    out_small = (out * small * small).sum()
    for scale in (1, 1024):
        (g,) = torch.autograd.grad(scale * out_small, out, retain_graph=True)
        print(dtype, scale, f"{g.float().item() / scale:.1e}")

# %%
# In float16 without a scale it is gone.
#
# What to watch for
# -----------------
#
# - **A gradient that you log.** Between ``backward`` and ``unscale_`` the norms in your log
#   are ``S`` times too large, and they jump whenever the scale changes.
# - **zero_grad in the wrong place.** It belongs after ``step``, or before the *first*
#   micro-batch. Before each one it throws away all but the last.
# - **loss / N.** The division by the number of micro-batches makes a mean of their means.
#   It has nothing to do with the scale, and is forgotten as easily
#   (:ref:`accumulate-in-half` for batches of unequal size).
#
# .. admonition:: Try it
#
#    Take the scale 256 in ``start``, and run the wrong order ``"a b clip step"`` again.
#    How long is its step, and how long the right one's?
#
# .. dropdown:: Answer
#
#    The right one's is still 1. The wrong one's is 1/256, since the clip has cut the scaled
#    gradient down to 1. So how slowly the network learns with SGD depends on a number that
#    the scaler chooses and changes by itself. (With 65536, its default, these gradients do
#    not fit into float16, and the step is left out.)


def start(scale=256.0):
    w = torch.tensor([[3.0, 4.0]], requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return w, torch.optim.SGD([w], lr=1.0), scaler


lengths = [run(order) for order in ("a b unscale_ clip step", "a b clip step")]
print(f"right {lengths[0]:.3f}, wrong 1/{1 / lengths[1]:.0f}")

# %%
# .. dropdown:: How we checked this page
#
#    The norm before the clip, the clipped step and the gradient of the penalty are compared
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
# read :ref:`gradient-penalty`. LBFGS takes no scaler, and :ref:`optimizer-closures`
# explains how to use it.
#
# .. asked: GradScaler order; unscale then clip; amp with gradient accumulation;
#    scaler.step and scaler.update; loss scaling; clip gradients with amp
# .. words: amp, inf, skipped step, unscale, clip, scale too small, fp16, found_inf, order
