r"""
.. _masked-nan:

Why is my gradient NaN where I masked the loss?
===============================================

You masked the entries at which your function is not defined. The loss is fine, and yet the
gradient is NaN, because 0 × inf is NaN. Mask the *input* first, replacing the whole
argument of the root or logarithm, and then mask the result:

.. code-block:: python

   safe = torch.where(x > 0, x, 1.0)
   y = torch.where(x > 0, torch.sqrt(safe), 0.0)

A mask that is applied *after* a function sends a 0 back at the masked entries, where the
derivative is infinite. So replace the inputs that the function must not see with a harmless
value. This is known as the double ``where``.
"""

# %%
# Our function is :math:`y=\sqrt x`, whose slope :math:`1/(2\sqrt x)` is infinite at 0.
# ``where`` discards the entry whose input is 0. So the :term:`cotangent` of this entry is
# 0, and the :term:`VJP` there is
#
# .. math::
#
#    v\cdot J=0\cdot\frac{1}{2\sqrt 0}=0\cdot\infty=\mathrm{NaN}.
#
# The forward pass shows no sign of this:

import torch

x = torch.tensor([0.0, 4.0], requires_grad=True)
y = torch.where(x > 0, torch.sqrt(x), 0.0)
print(y.detach())
torch.autograd.grad(y.sum(), x)[0]

# %%
# ``where`` did nothing wrong. It passed back exactly 0. But a zero in ``v`` does not
# protect you, because ``v`` *multiplies* the derivative; a zero in ``v`` does not skip it.
# You can see this without any ``where``:

(g,) = torch.autograd.grad(torch.sqrt(x), x, torch.tensor([0.0, 1.0]))
g

# %%
# The double where
# ----------------
#
# Replace the bad inputs with 1 before you take the root. Then the derivative is finite, and
# 0 times a finite number is 0:

safe = torch.where(x > 0, x, 1.0)
double = torch.where(x > 0, torch.sqrt(safe), 0.0)
(fixed,) = torch.autograd.grad(double.sum(), x)
fixed

# %%
# Above, the argument of the root is ``x`` itself. If the argument is an expression, such
# as ``t - start``, replace the whole expression: ``safe = torch.where(t > start, t -
# start, 1.0)``. Replacing ``t`` alone is not enough, because ``t - start`` may still be 0
# at a masked entry:

t, start = torch.tensor([0.0, 1.0, 5.0]), torch.tensor(1.0, requires_grad=True)
for name, safe in {
    "the whole": torch.where(t > start, t - start, 1.0),
    "t alone": torch.where(t > start, t, 1.0) - start,
}.items():
    root = torch.where(t > start, torch.sqrt(safe), 0.0)
    print(f"{name:9}", root.tolist(), torch.autograd.grad(root.sum(), start)[0].item())

# %%
# Which of the two ``where`` prevents the NaN? On the way back, ``where`` does not
# multiply but selects. So at the masked entries the *inner* ``where`` replaces whatever
# arrives with 0, even a NaN, and this cures the gradient. The *outer* ``where`` is there
# for the value. For the first line of the output we leave the outer ``where`` out, and
# the value is wrong. For the second line the stand-in is 0, a bad choice, and yet the
# gradient is still right:

inner = torch.sqrt(torch.where(x > 0, x, 1.0))
stand_in = torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 0.0)), 0.0)
print(inner.detach(), torch.autograd.grad(inner.sum(), x)[0])
print(stand_in.detach(), torch.autograd.grad(stand_in.sum(), x)[0])

# %%
# Nevertheless, choose a good stand-in. With a good stand-in there is no NaN anywhere in
# the graph. With a bad one, a sum over entries can spread the NaN, and anomaly mode stops
# at it.
#
# What does not help
# ------------------
#
# Whatever acts *after* the function is no better than a mask, even if it makes the value
# finite. This includes ``nan_to_num`` and selecting with a boolean index. What does help is
# to act *before* the function: select or ``clamp`` the input, though a ``clamp`` can change
# the value. Adding an ``eps`` to the input changes the value, too; it makes the slope
# finite, but huge:

keep = x > 0
attempts = {
    "times mask": lambda x: torch.sqrt(x) * keep,
    "masked_fill after": lambda x: torch.sqrt(x).masked_fill(~keep, 0),
    "select after": lambda x: torch.sqrt(x)[keep],
    "0/0, nan_to_num": lambda x: torch.nan_to_num(x / x),  # as SMAPE's quotient
    "select before": lambda x: torch.sqrt(x[keep]),
    "clamp before": lambda x: torch.sqrt(x.clamp(min=1e-6)),
    "eps before": lambda x: torch.sqrt(x + 1e-6),
}
for name, f in attempts.items():
    print(f"{name:18}", [round(g.item(), 2) for g in torch.autograd.grad(f(x).sum(), x)[0]])

# %%
# One masked sample is enough
# ---------------------------
#
# *My loss is finite, and all my weights become NaN.* The gradient of a weight is a sum over
# the samples, and a single NaN makes the whole sum NaN. Here the second of three samples is
# masked, first after the root and then before it:

w = torch.tensor([1.0, 1.0], requires_grad=True)
samples, mask = torch.tensor([[1.0, 2.0], [1.0, -1.0], [3.0, 0.0]]), torch.tensor([1, 0, 1])
loss = (torch.sqrt(samples @ w) * mask).sum()
print(round(loss.item(), 3), torch.autograd.grad(loss, w)[0])
chosen = torch.sqrt((samples @ w)[mask.bool()]).sum()
(g,) = torch.autograd.grad(chosen, w)
g

# %%
# Which functions can give this NaN
# ---------------------------------
#
# A mask can give NaN after any function whose value is finite where its slope is not, and
# after any function in which an intermediate result overflows although the final result
# does not. If PyTorch has the whole formula as one function, that function often has a
# sensible slope where the formula written out has none. Here are some formulas, written out
# and as a single function, each with its value and its slope:

functions = {
    "sqrt(sum of squares)": (lambda x: x.pow(2).sum().sqrt(), 0.0),
    "norm": (torch.linalg.vector_norm, 0.0),
    "x log x": (lambda x: x * torch.log(x), 0.0),
    "xlogy(x, x)": (lambda x: torch.xlogy(x, x), 0.0),
    "xlogy(0, x)": (lambda x: torch.xlogy(torch.zeros(1), x), 0.0),
    "log(sigmoid)": (lambda x: torch.log(torch.sigmoid(x)), -200.0),
    "logsigmoid": (torch.nn.functional.logsigmoid, -200.0),
}
for name, (f, at) in functions.items():
    t = torch.tensor([at], requires_grad=True)
    print(f"{name:21}", f(t.detach()).item(), torch.autograd.grad(f(t), t)[0].item())

# %%
# ``xlogy`` protects the value, but not the slope with respect to its second argument: that
# slope is :math:`0/0`. So a cross-entropy that you write with ``xlogy`` or ``log`` needs
# the double ``where`` if a target and its probability are both zero. Better still, use
# logits and ``log_softmax``.
#
# An overflow can hide in the branch that is not taken, too:

t = torch.tensor([200.0], requires_grad=True)
bad = torch.where(t < 0, torch.exp(t) - 1, t)
good = torch.where(t < 0, torch.exp(t.clamp(max=0)) - 1, t)
print(torch.autograd.grad(bad, t)[0], torch.autograd.grad(good, t)[0])

# %%
# Find where the NaN came from
# ----------------------------
#
# Anomaly mode stops at the first NaN on the way back, and names the function
# (:ref:`find-the-nan`):

import warnings

with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    try:
        torch.where(x > 0, torch.sqrt(x), 0.0).sum().backward()
    except RuntimeError as error:
        print(error)

# %%
# Anomaly mode looks only at gradients, and only for NaN. If your loss is NaN and anomaly
# mode says nothing, no gradient is NaN, though one may be infinite. The logarithm at −1 is
# such a case: its value is NaN, and its slope is −1. So look at the loss itself, too:

negative = torch.tensor(-1.0, requires_grad=True)
with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    (loss := negative.log()).backward()
print(loss.item(), negative.grad, loss.isfinite().item())

# %%
# To find an infinite gradient, put a hook on the tensor that you suspect:

h = x * 1
r = torch.sqrt(h)
for name, t in {"r": r, "h": h}.items():
    t.register_hook(lambda v, name=name: print(name, v))
r.sum().backward()

# %%
# Do not let a hook replace NaN with 0. The NaN goes away, but its cause stays.
#
# As a check, we compute the derivative of each kept entry separately, and compare it with
# the gradients above. We also confirm that the double ``where`` leaves the value
# unchanged:

root = torch.func.grad(torch.sqrt)
assert torch.equal(fixed, torch.stack([torch.tensor(0.0), root(torch.tensor(4.0))]))
assert torch.equal(double, y)
each = [root(s @ w.detach()) * s for s, m in zip(samples, mask, strict=True) if m]
torch.testing.assert_close(g, torch.stack(each).sum(0))

# %%
# Below, the mask is applied after the root. Move the last entry from 0 to either side, and
# look at the bottom row:

import pullback

after = lambda x: torch.where(x > 0, torch.sqrt(x), 0.0)
pullback.live(after, torch.tensor([4.0, 1.0, 0.0]))

# %%
# Where next
# ----------
#
# :ref:`kinks` explains which slope PyTorch chooses at a kink, :ref:`hooks` shows how to
# watch ``v``, and in :ref:`gradient-penalty` a penalty contains a norm that is zero.
#
# .. asked: NaN gradient with torch.where; masked loss gives NaN gradient; loss is fine,
#    gradient is NaN; NaN from the branch that is not used; 0 times inf; sqrt and where;
#    NaN from unused values; infinity times zero; NaN though the bad values are masked
#    out
# .. words: where, ignored values, zero times infinity, log of zero, division by zero,
#    padding, safe, unused branch, nan though masked, double where
