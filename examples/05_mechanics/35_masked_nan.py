r"""
.. _masked-nan:

Why is my gradient NaN where I masked the loss?
===============================================

Because 0 × inf is NaN: a mask applied *after* a function sends a 0 back into a derivative
that is infinite there. Mask the *input* as well: put a harmless value where the function
must not go, then mask the result. That is the double ``where``.
"""

# %%
# :math:`y=\sqrt x` with :math:`J=1/(2\sqrt x)`, infinite at 0. ``where`` throws that entry
# of ``y`` away, so its :term:`cotangent` is 0, and the :term:`VJP` at 0 is
#
# .. math::
#
#    v\cdot J=0\cdot\frac{1}{2\sqrt 0}=0\cdot\infty=\mathrm{NaN}.
#
# The forward values show nothing of it:

import torch

x = torch.tensor([0.0, 4.0], requires_grad=True)
y = torch.where(x > 0, torch.sqrt(x), 0.0)
print(y.detach())
torch.autograd.grad(y.sum(), x)[0]

# %%
# ``where`` is not at fault: it passed back exactly 0. *v is zero there, why does it not
# protect me?* ``v`` multiplies J, it does not skip it:

(g,) = torch.autograd.grad(torch.sqrt(x), x, torch.tensor([0.0, 1.0]))
g

# %%
# The double where
# ----------------
#
# With 1 in place of the bad inputs, :math:`J` is finite, and ``0`` times it is 0:

safe = torch.where(x > 0, x, 1.0)
double = torch.where(x > 0, torch.sqrt(safe), 0.0)
(fixed,) = torch.autograd.grad(double.sum(), x)
fixed

# %%
# *Which of the two does it?* On the way back ``where`` does not multiply, it selects: the
# inner one puts 0 in place of whatever arrives, even of NaN. The outer one mends the value.
# Left out, the value is wrong; with a bad stand-in, 0, the gradient is still right:

inner = torch.sqrt(torch.where(x > 0, x, 1.0))
stand_in = torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 0.0)), 0.0)
print(inner.detach(), torch.autograd.grad(inner.sum(), x)[0])
print(stand_in.detach(), torch.autograd.grad(stand_in.sum(), x)[0])

# %%
# A good stand-in keeps NaN out of the graph altogether, where a sum over entries would
# spread it, and anomaly mode would stop at it.
#
# What does not help
# ------------------
#
# *I use nan_to_num, or select with a boolean index.* What acts after the fact is a mask
# like any other, however finite its value. What comes *before* the function helps; so does
# a ``clamp``, at the price of another value. An ``eps`` makes the slope finite, and huge:

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
# One sample is enough
# --------------------
#
# *My loss is finite and all my weights become NaN.* A weight's gradient is a sum over the
# samples, and one NaN makes all of it NaN. Here the second sample is masked, after the root
# and before it:

w = torch.tensor([1.0, 1.0], requires_grad=True)
samples, mask = torch.tensor([[1.0, 2.0], [1.0, -1.0], [3.0, 0.0]]), torch.tensor([1, 0, 1])
loss = (torch.sqrt(samples @ w) * mask).sum()
print(round(loss.item(), 3), torch.autograd.grad(loss, w)[0])
chosen = torch.sqrt((samples @ w)[mask.bool()]).sum()
(g,) = torch.autograd.grad(chosen, w)
g

# %%
# Which functions
# ---------------
#
# All that are finite where their slope is not, and all whose parts overflow where the whole
# does not. PyTorch's own composite functions often choose a slope where the formula has
# none; the same formula written out does not. Value and slope:

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
# ``xlogy`` protects the value and not the slope, which by its second argument is
# :math:`0/0`. A cross-entropy with a zero target and a zero probability needs the double
# ``where``, or logits and ``log_softmax``. A branch not taken may hide an overflow, too:

t = torch.tensor([200.0], requires_grad=True)
bad = torch.where(t < 0, torch.exp(t) - 1, t)
good = torch.where(t < 0, torch.exp(t.clamp(max=0)) - 1, t)
print(torch.autograd.grad(bad, t)[0], torch.autograd.grad(good, t)[0])

# %%
# Find where it came from
# -----------------------
#
# Anomaly mode stops at the first NaN and names the function (:ref:`find-the-nan`):

import warnings

with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    try:
        torch.where(x > 0, torch.sqrt(x), 0.0).sum().backward()
    except RuntimeError as error:
        print(error)

# %%
# It looks at gradients, for NaN only. *My loss is NaN, and it says nothing?* Then the
# gradients are finite, as the slope -1 of the logarithm at -1. Ask the loss itself:

negative = torch.tensor(-1.0, requires_grad=True)
with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    (loss := negative.log()).backward()
print(loss.item(), negative.grad, loss.isfinite().item())

# %%
# A hook on a tensor that you suspect shows an infinite gradient as well:

h = x * 1
r = torch.sqrt(h)
for name, t in {"r": r, "h": h}.items():
    t.register_hook(lambda v, name=name: print(name, v))
r.sum().backward()

# %%
# A hook that replaces NaN by 0 makes the number go away and not its cause. The check: the
# derivatives of what is kept, one by one, and the value of the double ``where`` unchanged:

root = torch.func.grad(torch.sqrt)
assert torch.equal(fixed, torch.stack([torch.tensor(0.0), root(torch.tensor(4.0))]))
assert torch.equal(double, y)
each = [root(s @ w.detach()) * s for s, m in zip(samples, mask, strict=True) if m]
torch.testing.assert_close(g, torch.stack(each).sum(0))

# %%
# Move the last entry from 0 to either side, and look at the bottom row. The mask is applied
# after the root:

import pullback

after = lambda x: torch.where(x > 0, torch.sqrt(x), 0.0)
pullback.live(after, torch.tensor([4.0, 1.0, 0.0]))

# %%
# Where next
# ----------
#
# Which slope PyTorch chooses at a corner: :ref:`kinks`. Watching ``v``: :ref:`hooks`. A
# norm of zero in a penalty: :ref:`gradient-penalty`.
#
# .. asked: NaN gradient with torch.where; masked loss gives NaN gradient; loss is fine,
#    gradient is NaN; NaN from the branch that is not used; 0 times inf; sqrt and where;
#    NaN from unused values; infinity times zero; NaN though the bad values are masked
#    out
