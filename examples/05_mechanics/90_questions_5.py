r"""
.. _chapter-5-questions:

Mechanics in three questions
============================

Do you know what PyTorch keeps, frees and cuts? Here are three questions. Answer each
question before you run the cell below it. The cell shows which answer is right.
"""

# %%
# 1. What is in x.grad?
# ---------------------
#
# Take :math:`y=x^2` at 3. You call ``y.backward(retain_graph=True)``, then
# ``y.backward()``, and then :func:`torch.autograd.grad` on a new y. Does ``x.grad`` now
# hold 6, 12, 18 or None? And what would a third call to ``y.backward()`` do?

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
# ``x.grad`` holds 12, because ``backward`` adds, and ``autograd.grad`` returns its result
# without adding it. The third call to ``backward`` raises an error, because the second call
# freed the :term:`saved tensors <saved tensor>`. (:ref:`gradient-doubled`,
# :ref:`second-backward`)
#
# 2. Which cut does forward mode see?
# -----------------------------------
#
# ``c`` is computed from x in one of three ways, and :math:`y=c\,x`. In
# :term:`reverse mode`, ``detach`` and ``no_grad`` make c a constant. ``inference_mode``
# makes c a constant, too, but only as long as no backward rule needs c. Here the rule of
# the product needs c, and so ``inference_mode`` raises an error. Which of the three ways
# make c a constant in :term:`forward mode`?

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
# With ``detach`` and ``inference_mode`` the result is 9, which is the value of c, so these
# two make c a constant in forward mode. With ``no_grad`` the result is 27, which is the
# derivative of :math:`x^3`. In reverse mode, ``inference_mode`` gives you a constant as
# well, if you clone its result. (:ref:`no-grad-detach`)
#
# 3. Zeros, None or an error?
# ---------------------------
#
# Here the graph of y does not reach x, because y was computed from a detached x. What do
# you get from ``torch.autograd.functional.jacobian``, from ``backward``, and from
# ``autograd.grad``?

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
# ``jacobian`` returns zeros, ``x.grad`` stays None after ``backward``, and
# ``autograd.grad`` raises an error. None and the error tell you that something is wrong,
# but the zeros look like a result. (:ref:`closures-of-zeros`, :ref:`grad-is-none`)
#
# As a check, we compare the answers with formulas and with difference quotients:

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
# :ref:`chapter-6` shows how to write and check derivative rules of your own.
