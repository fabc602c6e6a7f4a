r"""
.. _find-the-nan:

My loss became NaN: how do I find where it began?
=================================================

Training went well for some steps, and now the loss is NaN. Keep the weights and the batch
from *before* the step. Then check whether the loss is finite. If the loss is not finite,
forward hooks name the first module whose output is not finite. If the loss is finite, look
at the gradients before the step: hooks on the modules' outputs name the module, and anomaly
mode names the operation. The weights become NaN last of all, and they say nothing about the
cause.
"""

# %%
# We write two modules that fail on a row of zeros. One fails in the forward pass. The other
# fails in the backward pass, because :math:`\sqrt0` is finite but the slope of the root at
# 0 is not:

import io
import re
import warnings
from copy import deepcopy

import torch
from torch import nn


class Share(nn.Module):
    def forward(self, x):
        return x / x.sum(1, keepdim=True)


class Length(nn.Module):
    def forward(self, x):
        return torch.sqrt(x.square().sum(1, keepdim=True))


# %%
# We put each module into a network, and make three batches, of which the second has a row
# of zeros:

torch.manual_seed(0)  # the same weights and data on every build
batches = torch.randn(3, 5, 3)
batches[1, 2] = 0.0
first = lambda: (nn.Linear(3, 16, bias=False), nn.Tanh())
networks = {
    "Share": nn.Sequential(*first(), Share(), nn.Linear(16, 1)),
    "Length": nn.Sequential(*first(), Length(), nn.Linear(1, 1)),
}

# %%
# A training step that keeps a copy from before
# ---------------------------------------------
#
# The function below takes a training step. It saves the weights, the state of the
# optimizer, the random state and the batch before it uses them, and it returns before a
# value that is not finite can reach the weights. In a long run, save to a file, and do so
# only every so often:


def careful_step(model, optimizer, batch):
    state = model.state_dict(), optimizer.state_dict(), torch.get_rng_state(), batch
    torch.save(state, kept := io.BytesIO())
    optimizer.zero_grad()
    loss = model(batch).mean()
    if not loss.isfinite():
        return "the loss is not finite", kept
    loss.backward()
    if bad := [n for n, p in model.named_parameters() if not p.grad.isfinite().all()]:
        return f"the loss is finite, these gradients are not: {bad}", kept
    optimizer.step()
    return "fine", None


# %%
# The output shows at which step each network fails. With ``Share`` the loss is not finite,
# and with ``Length`` a gradient is not:

saved = {}
for name, model in networks.items():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(batches):
        found, kept = careful_step(model, optimizer, batch)
        print(f"{name:6} step {step}: {found}")
        if kept is not None:
            saved[name] = kept
            break

# %%
# This function restores the state from before the step, so that you can repeat the step as
# often as you like:


def replay(name):
    saved[name].seek(0)
    weights, _, random, batch = torch.load(saved[name])
    networks[name].load_state_dict(weights)
    torch.set_rng_state(random)
    return networks[name], batch


# %%
# If the loss is not finite: forward hooks
# ----------------------------------------
#
# For each module we check whether everything that it is given is finite, and whether
# everything that it makes is finite, too. Look for the first line of the output that has a
# True followed by a False. It names the module and, at its end, the rows of the batch that
# are not finite. Here it names module 2 and row 2:


def look_forward(name, module, given, made):
    if not list(module.children()):
        ok = given[0].isfinite().all().item(), made.isfinite().all().item()
        rows = (~made.isfinite()).any(1).nonzero().flatten().tolist()
        print(f"{name} {type(module).__name__:6} given {ok[0]!s:5} made {ok[1]!s:5} {rows}")


def watch(model, look):
    model = deepcopy(model)  # the hooks stay on the copy
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *seen, name=name: look(name, *seen))
    return model


model, batch = replay("Share")
loss = watch(model, look_forward)(batch).mean()

# %%
# If the loss is finite: hooks on what the modules made
# -----------------------------------------------------
#
# We use forward hooks as above, but now each of them attaches another hook to the module's
# output. This second hook sees the gradient that arrives at the output. The second hooks
# run from the last module to the first. In the output, the NaN appears between the last
# line that says True and the line after it, and so it was made in the backward pass of
# module 2:


def look_backward(name, module, given, made):
    if not list(module.children()):
        says = name, type(module).__name__, "gets a finite gradient:"
        made.register_hook(lambda v: print(*says, v.isfinite().all().item()))


model, batch = replay("Length")
watch(model, look_backward)(batch).mean().backward()

# %%
# Anomaly mode names the operation itself, and its warning shows the line of the *forward*
# pass that called this operation. Here the operation is the square: in its backward rule,
# the infinity that comes from the root is multiplied by 0. As this example shows, the
# operation that is named need not be the cause. It is only the first one whose backward
# pass returns a NaN. The infinity came from the root, whose backward pass ran right before.
# So also look at the neighboring operations, for a root, a logarithm, a norm or a division
# at 0. Anomaly mode is slow, so use it only for the replay, around both passes:

model, batch = replay("Length")
with warnings.catch_warnings(record=True, action="always") as caught:
    try:
        with torch.autograd.detect_anomaly():
            model(batch).mean().backward()
    except RuntimeError as error:
        print(error)
print("made in", re.findall(r", in (\w+)", str(caught[-1].message))[-1])

# %%
# What goes wrong
# ---------------
#
# *Anomaly mode says nothing, and the loss is NaN.* Anomaly mode looks only at gradients,
# and only for NaN. An infinite loss, or a loss that was NaN already, may pass unnoticed
# (:ref:`masked-nan`). *A run with a loss scale has infinite gradients now and then.* This
# is as it should be: ``GradScaler`` tries large scales, and if a scale is too large, it
# skips the step and lowers the scale (:ref:`grad-scaler-order`). *You want to stop before
# the weights are spoiled.* ``clip_grad_norm_(params, 1.0, error_if_nonfinite=True)`` raises
# an error if the norm of the gradients is not finite, and so the step is never taken.
# Without this option, clipping turns every gradient into NaN or 0 (:ref:`clip-and-nan`).
#
# As a check, we repair the module ``Length``. Its slope is infinite only at the row of
# zeros. With ``vector_norm``, whose slope at zeros is 0, the network trains on all three
# batches:

mended = networks["Length"]
mended[2].forward = lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True)
replay("Length")
optimizer = torch.optim.SGD(mended.parameters(), lr=0.01)
assert all(careful_step(mended, optimizer, batch)[1] is None for batch in batches)

# %%
# Where next
# ----------
#
# :ref:`masked-nan` is about 0 times infinity, and how to avoid it. :ref:`infinite-slopes`
# shows functions with an infinite slope, and :ref:`attention-masks` is about rows of a mask
# that hide every key.
#
# .. asked: loss became NaN; find the first NaN; where does NaN come from; debug NaN in
#    training; detect_anomaly; NaN after some steps; find the operation that produced
#    NaN; training suddenly NaN; which layer gives NaN
# .. words: suddenly, after some steps, diverge, loss nan, first bad value, hunt, isnan,
#    anomaly, bad batch, learning rate too high, overflow
