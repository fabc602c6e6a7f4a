r"""
.. _optimizer-closures:

How often does LBFGS run backward, and what must its closure do?
================================================================

As often as one ``step`` looks at the function, up to 20 times by default. Each call of the
closure must empty ``.grad``, compute the loss anew, run ``backward`` and return the loss.
What ``step`` does itself is not recorded, unless you ask for it.
"""

# %%
# A function with its answer: :math:`f(w)=\frac12w^\top Aw-b^\top w` from ``(2,)`` to one
# number. Its gradient :math:`Aw-b` is zero at :math:`A^{-1}b`, here :math:`(0.2,0.4)`:

import torch

A = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
b = torch.ones(2, dtype=torch.float64)


def f(w):
    return w @ A @ w / 2 - b @ w


# %%
# ``wrong`` makes one mistake; ``calls`` notes ``w`` and the gradient that is shown:


def problem(optimizer, wrong=None, **settings):
    w, calls = torch.zeros(2, dtype=torch.float64, requires_grad=True), []
    opt = optimizer([w], **settings)

    def closure():
        if wrong != "zero_grad":
            opt.zero_grad()
        loss = f(w) + (w @ torch.rand(2).double() if wrong == "new batch" else 0)
        if wrong != "backward":
            loss.backward()
            calls.append((w.detach().clone(), w.grad.clone()))
        return None if wrong == "return" else loss

    return w, calls, opt, closure


# %%
# The number of calls in one ``step``, the loss that it returned (the *first* call's) and
# the loss after it. The line search, advisable as steps of ``lr`` may be far too short or
# too long, tries several points, ``max_eval`` (5/4 of ``max_iter``) and a rest in all:

from torch.optim import LBFGS, SGD

for optimizer, settings in (
    (SGD, {"lr": 0.1}),
    (LBFGS, {"lr": 0.1, "max_iter": 1}),
    (LBFGS, {"lr": 0.1, "max_iter": 3}),
    (LBFGS, {"lr": 0.1, "max_iter": 3, "line_search_fn": "strong_wolfe"}),
):
    w, calls, opt, closure = problem(optimizer, **settings)
    returned = opt.step(closure).item()
    print(optimizer.__name__, len(calls), returned, round(f(w).item(), 3), *settings)

# %%
# What goes wrong
# ---------------
#
# *What happens without zero_grad in the closure?* The calls of one step add up. To the left
# what LBFGS was shown, to the right the gradient at that point. Emptying ``.grad`` before
# ``step`` mends the first call only; the step ends nowhere near the least loss, -0.3.
# *New data or dropout in each call?* Curvature is read off two gradients of *one* function:

torch.manual_seed(0)  # the same noise on every build
for wrong in (None, "zero_grad", "new batch"):
    w, calls, opt, closure = problem(LBFGS, wrong)
    opt.zero_grad()
    opt.step(closure)
    for point, shown in calls[:3]:
        print(shown.numpy().round(3), (A @ point - b).numpy().round(3))
    print("wrong:", wrong, "loss below -0.299:", f(w).item() < -0.299)

# %%
# A closure without ``backward`` moves nothing, in silence. Without ``return`` SGD does not
# mind, and LBFGS raises:

for optimizer in (SGD, LBFGS):
    for wrong in ("backward", "return"):
        w, calls, opt, closure = problem(optimizer, wrong, lr=0.1)
        try:
            opt.step(closure)
            print(optimizer.__name__, wrong, w.tolist())
        except TypeError as error:
            print(optimizer.__name__, wrong, error)

# %%
# More refusals: no closure; a loss from outside, whose graph the first call used up; a
# ``GradScaler``; ``inference_mode``, in which ``step`` cannot turn recording on:

w, calls, opt, closure = problem(LBFGS)
outside, scaler = f(w), torch.amp.GradScaler("cpu")
for attempt in (
    opt.step,
    lambda: opt.step(lambda: (outside.backward(), outside)[1]),
    lambda: scaler.step(opt, closure=closure),
    lambda: torch.inference_mode()(opt.step)(closure),
):
    try:
        attempt()
    except (RuntimeError, TypeError) as error:
        print(str(error).partition(" (or")[0])

# %%
# The step itself
# ---------------
#
# *Is step recorded? Does the closure need enable_grad?* ``step`` runs without a graph, and
# turns recording on for its closure, even where you have turned it off. The edit is in
# place: ``w`` stays a :term:`leaf`, and its version counts up, so that a graph which saved
# the old ``w`` refuses a later ``backward`` (:ref:`in-place`):

w, calls, opt, closure = problem(SGD, lr=0.1)
before = (w**2).sum()
with torch.no_grad():
    opt.step(lambda: (print("recording:", torch.is_grad_enabled()), closure())[1])
print(w.is_leaf, w.grad_fn, w._version)
try:
    before.backward()
except RuntimeError as error:
    print(str(error).partition(";")[0])

# %%
# *How do I differentiate through the step?* ``differentiable=True`` records it, for a ``w``
# that is no leaf and a ``.grad`` with a graph. It still edits in place, and the loss has
# saved ``w``; give the loss a clone. LBFGS has no such flag:


def through(start, rate, copy):
    w = start.clone()
    opt = SGD([w], lr=rate, differentiable=True)
    (w.grad,) = torch.autograd.grad((w.clone() if copy else w) ** 3, w, create_graph=True)
    opt.step()
    return w**2


# %%
# The slopes of :math:`w^2` after a step on :math:`w^3` from 2, by start and rate:

start, rate = (torch.tensor(t, requires_grad=True) for t in (2.0, 0.1))
for copy in (False, True):
    try:
        slopes = torch.autograd.grad(through(start, rate, copy), (start, rate))
        print([round(slope.item(), 2) for slope in slopes])
    except RuntimeError as error:
        print(str(error).partition(", which")[0])

# %%
# The check: a direct solve, and difference quotients of the two steps in plain numbers:


def plain(w, rate):
    return (w - rate * 3 * w**2) ** 2


w, calls, opt, closure = problem(LBFGS)
opt.step(closure)
torch.testing.assert_close(w.detach(), torch.linalg.solve(A, b), rtol=0, atol=1e-5)
e = 1e-6
quotients = plain(2 + e, 0.1) - plain(2 - e, 0.1), plain(2, 0.1 + e) - plain(2, 0.1 - e)
torch.testing.assert_close(torch.stack(slopes), torch.tensor(quotients) / (2 * e))

# %%
# Where next
# ----------
#
# Why gradients add up: :ref:`gradient-doubled`. The limit of many steps:
# :ref:`implicit-differentiation`. A stale copy of a weight: :ref:`mixed-precision`.
#
# .. asked: LBFGS closure; optimizer.step(closure); why does L-BFGS need a closure;
#    closure and zero_grad; line search
# .. words: lbfgs, quasi newton, function evaluated several times, step(closure), strong
#    wolfe, none loss
