r"""
.. _chapter-5-questions:

Mechanics in three questions
============================

Answer each before you run the cell under it: the cell compares the answers that people
give and says which one holds.
"""

# %%
# 1. What is in x.grad?
# ---------------------
#
# :math:`y=x^2` at 3. You call ``y.backward(retain_graph=True)``, then ``y.backward()``,
# and then :func:`torch.autograd.grad` on a new y. Is ``x.grad`` 6, 12, 18 or None? And
# what would a third ``y.backward()`` do?

import torch

x = torch.tensor(3.0, requires_grad=True)
y = x**2
y.backward(retain_graph=True)
y.backward()
(returned,) = torch.autograd.grad(x**2, x)
found = x.grad.item()
try:
    y.backward()
except RuntimeError as error:
    print(found, str(error).partition(" (")[0], sep="\n")

# %%
# Twelve: ``backward`` adds, and ``autograd.grad`` returns without adding. The third call
# raises, because the second freed the :term:`saved tensors <saved tensor>`.
# (:ref:`gradient-doubled`, :ref:`second-backward`)
#
# 2. Which cut does forward mode see?
# -----------------------------------
#
# ``c`` is made of x in one of three ways and :math:`y=c\,x`. In :term:`reverse mode` the
# first two make c a constant, and the third does so only where no rule has to keep c: here
# the product must, and it raises. Which make c a constant in :term:`forward mode`?

ways = {
    "detach": lambda x: (x**2).detach(),
    "no_grad": torch.no_grad()(lambda x: x**2),
    "inference_mode": torch.inference_mode()(lambda x: x**2),
}
point, one = torch.tensor(3.0), torch.tensor(1.0)
slopes, backward = {}, {}
for name, way in ways.items():
    leaf = point.clone().requires_grad_()
    try:
        backward[name] = torch.autograd.grad(way(leaf) * leaf, leaf)[0].item()
    except RuntimeError as error:
        backward[name] = str(error).partition(". ")[0]
    slope = torch.func.jvp(lambda x, way=way: way(x) * x, (point,), (one,))[1]
    slopes[name] = slope.item()
for name in ways:
    print(f"{name:15}", slopes[name], "by backward:", backward[name])

# %%
# ``detach`` and ``inference_mode``: 9 is c. ``no_grad`` gives 27, the derivative of
# :math:`x^3`. A clone of what ``inference_mode`` made is a constant in reverse mode as
# well. (:ref:`no-grad-detach`)
#
# 3. Zeros, None or an error?
# ---------------------------
#
# y does not depend on x: it was computed from x's copy without a graph. What do you get
# from a function that takes f, from ``backward``, from ``autograd.grad``?

x = torch.tensor([1.0, 2.0], requires_grad=True)
w, ones = torch.ones(2, requires_grad=True), torch.ones(2)


def f(x):
    return w * x.detach() ** 2


print(torch.autograd.functional.jacobian(f, x).tolist())
f(x).backward(ones)
print(x.grad)
try:
    torch.autograd.grad(f(x), x, ones)
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %%
# One of each. None and the error tell you; the zeros look like a result.
# (:ref:`closures-of-zeros`, :ref:`grad-is-none`)
#
# The answers, checked by formulas and by difference quotients:

assert (returned.item(), found) == (2 * 3, 2 * 2 * 3)
h = 1e-3
moved = ((3 + h) ** 3 - (3 - h) ** 3) / (2 * h)
assert [name for name, s in slopes.items() if abs(s - moved) < 1e-3] == ["no_grad"]
assert backward["detach"] == backward["no_grad"] == slopes["detach"] == 9
assert "Inference tensors cannot be saved" in backward["inference_mode"]
leaf = point.clone().requires_grad_()
c = ways["inference_mode"](leaf).clone()
assert torch.autograd.grad(c * leaf, leaf)[0] == 9
rise = (f(x + h) - f(x - h)) / (2 * h)
torch.testing.assert_close(rise, 2 * x * w, rtol=1e-3, atol=1e-3)

# %%
# Where next
# ----------
#
# Rules of your own, and how to check them: :ref:`chapter-6`.
