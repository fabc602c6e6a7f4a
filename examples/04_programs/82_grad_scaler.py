r"""
.. _grad-scaler-order:

In what order do scale, backward, unscale, clip and step go?
============================================================

For each micro-batch ``scaler.scale(loss / N).backward()``; once for all of them
``unscale_``, ``clip_grad_norm_``, ``step``, ``update``, ``zero_grad``. What is not linear
in a gradient (a norm, a clip, a penalty) must see it divided by the scale.
"""

# %%
# The loss is multiplied by a scale S so that small gradients survive in float16; ``.grad``
# then holds S times the gradient, until ``unscale_`` divides it. One effective batch of two
# micro-batches, with the gradient clipped at 1:

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
# The loop, in the right order:

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
# ``step`` divides by the scale if nobody did, and does not do it again after ``unscale_``.
# Without a clip the two lines may be one:

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
# Wrong orders
# ------------
#
# *My model hardly learns.* A clip before ``unscale_`` limits S times the gradient, and the
# step is a thousandth. *"unscale_() has already been called"*: a second one before
# ``update``, as in every micro-batch. That is refused for good reason: a ``backward`` after
# ``unscale_`` adds a scaled gradient to one that is not. How long the step is:


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


# %%
# Each in a line:

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
# *Several losses or optimizers?* One scaler; ``unscale_`` and ``step`` for each optimizer.
# ``update`` comes once, at the end: what adds up in ``.grad`` must have one scale. *No step
# at all?* An infinite gradient: ``step`` leaves the weights and ``update`` halves the scale
# (:ref:`mixed-precision`). That is no fault, unless every step is like this:

w, optimizer, scaler = start()
scaler.scale(loss_of(w, [0, 1]) * 1e36).backward()
scaler.step(optimizer)
scaler.update()
print(torch.equal(w, start()[0]), scaler.get_scale())

# %%
# With a gradient penalty
# -----------------------
#
# *The penalty is enormous, or inf.* Two gradients, and each needs the scale. For the inner
# one scale the scores, then divide by ``get_scale()`` *before* the norm, in float32. The
# whole loss is scaled again for ``backward``:


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
# The loss without and with the division, and a step with it:

for divide in (False, True):
    w, optimizer, scaler = start()
    print("divided:", divide, "loss:", critic_loss(w, scaler, divide).item())
scaler.scale(critic_loss(w, scaler)).backward()
scaler.unscale_(optimizer)
by_scaler = w.grad.clone()
scaler.step(optimizer)
scaler.update()

# %%
# *Can I leave out the inner scale?* Where the slopes are not small: float16 has nothing
# between 0 and 6e-8. bfloat16 has the range of float32 and needs no scaler. The slope 1e-8,
# without a scale and with one:

for dtype in (torch.float16, torch.bfloat16):
    out = torch.ones(1, dtype=dtype, requires_grad=True)
    small = torch.tensor(1e-4, dtype=dtype)
    out_small = (out * small * small).sum()
    for scale in (1, 1024):
        (g,) = torch.autograd.grad(scale * out_small, out, retain_graph=True)
        print(dtype, scale, f"{g.float().item() / scale:.1e}")

# %%
# The check: both in float32 throughout, without a scaler, from formulas:

w = start()[0].detach()
g = 2 * (data @ w[0] - goal[:, 0]) @ data / 4
torch.testing.assert_close(before_clip, g.norm(), rtol=1e-3, atol=0)
torch.testing.assert_close(right, w - g / g.norm(), rtol=1e-3, atol=0)
of_penalty = 2 * (w.norm() - 1) * w / w.norm()
torch.testing.assert_close(by_scaler, data.mean(0) + of_penalty, rtol=1e-3, atol=0)

# %%
# Where next
# ----------
#
# Which dtype arrives where: :ref:`mixed-precision`. The penalty: :ref:`gradient-penalty`.
# LBFGS takes no scaler: :ref:`optimizer-closures`.
#
# .. asked: GradScaler order; unscale then clip; amp with gradient accumulation;
#    scaler.step and scaler.update; loss scaling; clip gradients with amp
