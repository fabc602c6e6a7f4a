r"""
.. _once-more:

Once more: second derivatives
=============================

Turn up a stove, and fuel rises at some rate. Turn it up further, and the rate itself has
risen. How fast does the *rate* rise? You need the answer, for example, to know how far to
go in a good direction. The rates are in the gradient. So we have to differentiate the
gradient, and for that PyTorch must know how the gradient was computed.
"""

# %%
# We give the house a shared chimney. When all three stoves run, they disturb one another,
# and the fuel gets an additional term, the product of the three settings:

import torch


def fuel(x):
    return (x**2).sum() + x[0] * x[1] * x[2]


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(g,) = torch.autograd.grad(fuel(x), x, create_graph=True)
g

# %%
# The gradient for the first stove is :math:`2x_0+x_1x_2=2+6=8`, and the others follow the
# same pattern. What is new is the argument ``create_graph=True``. With it, PyTorch
# records the walk back as it records a forward pass. The ``grad_fn`` in the output shows
# that ``g`` now remembers how it was computed from ``x``, and we can ask for derivatives
# of ``g``.
#
# The table of the second derivatives
# -----------------------------------
#
# The gradient takes three numbers, the settings, to three numbers, the rates. So it has a
# :term:`Jacobian` with three rows and three columns. It is called the :term:`Hessian` of
# the fuel, and written :math:`H`. We compute it with a single 1 for each row:

rows = [torch.autograd.grad(g, x, v, retain_graph=True)[0] for v in torch.eye(3)]
H = torch.stack(rows)
H

# %%
# Read it as a Jacobian whose outputs are rates. ``H[0, 0]`` says that the rate of the
# first stove rises at a rate of 2 when that stove itself is turned up. ``H[0, 1]`` says
# that it rises at a rate of 3 when the *second* stove is turned up. This comes from the
# chimney, where the product of the first two settings is multiplied by the third, which
# is 3.
#
# The table is symmetric: the second stove has the same effect on the rate of the first as
# the first has on the rate of the second. This is so wherever the second derivatives of a
# function are continuous.
#
# One direction is often enough
# -----------------------------
#
# For a network with a million weights, the Hessian has a million times a million entries.
# But often you only want to know how the gradient changes when ``x`` moves along *one*
# plan ``u``. From :ref:`pushing-forward` we know what that is: the Jacobian of the
# gradient times ``u``, the product :math:`Hu`.
#
# We can get it by pulling. If ``u`` takes the place of ``v``, we get the rows of
# :math:`H`, each multiplied by its entry of ``u``, and added up. :math:`Hu` is the same
# sum with the columns. As long as :math:`H` is symmetric, rows and columns hold the same
# numbers, and the two results are equal.
#
# .. admonition:: Predict
#
#    We turn the second stove up and the third down, ``u = [0, 1, -1]``. The heat stays
#    the same. Which of the three rates change? Take the third column of ``H`` from the
#    second.

u = torch.tensor([0.0, 1.0, -1.0])
(Hu,) = torch.autograd.grad(g, x, u, retain_graph=True)
Hu

# %%
# All three change. The first stove does not move, but its rate rises at a rate of 1,
# because its partners in the chimney do. The picture is the one from
# :ref:`pushing-forward`, where ``J`` now stands for our table ``H``:

import pullback

stoves = ["stove 1", "stove 2", "stove 3"]
told = "u is 0, 1, -1. The second column of H less the third is H u: 1, 1, -1."
rates = ["rate 1", "rate 2", "rate 3"]
pullback.draw.jvp(H, u, rows=rates, columns=stoves, result_name="H u", alt=told)

# %%
# This is called a :term:`Hessian-vector product`. It takes two walks back, one to get
# ``g`` and one through everything that was recorded on the way, and it never builds
# ``H``. You will also meet it in another form. The number ``(g * u).sum()`` has the same
# product as its gradient, because the ``v`` that reaches ``g`` from this sum is ``u``:

torch.autograd.grad((g * u).sum(), x, retain_graph=True)

# %%
# How far to go
# -------------
#
# Now we can use it. As we follow the plan ``u``, the fuel changes at a rate of ``g @ u``,
# as in :ref:`pushing-forward`. This rate itself changes at a rate of ``u @ Hu``, which is
# called the *curvature* along ``u``. If the rate is negative and the curvature positive, we
# can save fuel until the rate has come up to zero. That is after a step of minus the rate
# over the curvature:

rate, curvature = (g @ u).item(), (Hu @ u).item()
step = -rate / curvature
print("rate:", rate, " curvature:", curvature, " step:", step)
with torch.no_grad():
    for size in (0.0, step, 2 * step):
        print(f"step {size}: fuel {fuel(x + size * u).item()}")

# %%
# At first the plan saves fuel at a rate of 1, and this shrinks at a rate of 2. So the
# saving ends after a step of one half, where the fuel is 19.75 instead of 20. Twice the
# step would bring us back to 20. The gradient alone could not tell us this, since it says
# only how fast the fuel falls where we stand. Along this plan the fuel happens to be a
# parabola, so one step hits the lowest point exactly. In general the step is an
# approximation, and one computes it again at the new place. Where the curvature is zero
# or negative, this step does not lead to a lowest point at all.
#
# Other orders
# ------------
#
# We pulled back twice, which is called *reverse over reverse*. You can also push ``u``
# forward through the gradient, *forward over reverse*, with
# ``torch.func.jvp(torch.func.grad(fuel), (x,), (u,))``. Or you push first and take the
# gradient of the number that comes out, *reverse over forward*. Where the Hessian is
# symmetric, they agree up to rounding.
#
# Which one is faster? The repository of this course holds a record for networks of four
# layers, on one thread of a CPU. This cell prints how many times as long the ways with
# ``torch.func`` took as two calls of ``autograd.grad``:

import json
from pathlib import Path

path = Path("../../benchmarks/results/hvp.json")
record = json.loads(path.read_text()) if path.exists() else {"cases": {}}
spread = {}
for width, case in record["cases"].items():  # without the record, nothing is printed
    ratios = [r for way, r in case["ratio"].items() if "torch.func" in way]
    spread[width] = min(ratios), max(ratios)
    print(f"width {width:>3}: {min(ratios):.1f} to {max(ratios):.1f} times as long")

# %%
# For narrow networks two calls were clearly faster, because the transforms of
# ``torch.func`` have a fixed cost. For the widest there is little between them. So start
# with two calls of ``autograd.grad``, unless you work with ``vmap``, which goes with
# ``torch.func``. There is one more reason to change. Two pulls need a backward that can
# itself be differentiated, and :term:`forward mode` needs a forward rule. A few operations
# lack the one or the other, and then PyTorch raises an error. :ref:`hvp` compares the
# orders more closely.
#
# When the gradient has no graph
# ------------------------------
#
# Without ``create_graph=True`` the gradient is a plain tensor, and the second walk has
# nowhere to go:

(plain,) = torch.autograd.grad(fuel(x), x)
try:
    torch.autograd.grad(plain, x, u)
except RuntimeError as error:
    print(error)

# %%
# You see the same message with ``create_graph=True`` if the function is linear in ``x``.
# Then the gradient is a constant, and the Hessian is zero. ``torch.func.hessian`` returns
# these zeros.
#
# The message does not come if the number that you differentiate depends on ``x`` in
# another way, too. A common example is a *gradient penalty*, where the squares of the
# gradient are added to the loss in order to keep it small:

for create_graph in (False, True):
    y = fuel(x)
    (p,) = torch.autograd.grad(y, x, retain_graph=True, create_graph=create_graph)
    (total,) = torch.autograd.grad(y + (p**2).sum(), x)
    print(f"create_graph={create_graph}: {total}")

# %%
# The first line is the gradient of the fuel alone. The penalty counted as a constant
# there, and did nothing. The second line contains it.
#
# .. admonition:: Remember
#
#    - A second derivative differentiates the *gradient*. ``create_graph=True`` records
#      the walk back, so that this is possible. (A second ``backward`` on the same ``y``
#      only adds the first derivatives again.)
#    - The Hessian is the Jacobian of the gradient. It is symmetric where the second
#      derivatives are continuous.
#    - Where the Hessian is symmetric, ``autograd.grad(g, x, u)`` gives :math:`Hu`
#      without building the Hessian.
#    - ``g @ u`` is the rate along a plan ``u``, and ``u @ Hu`` the curvature.
#
# .. admonition:: Try it
#
#    Which ``u`` gives the second row of ``H``? And what does ``torch.ones(3)`` give: the
#    diagonal, or something else? Write down your answer before you run
#    ``torch.autograd.grad(g, x, torch.ones(3), retain_graph=True)``.
#
# .. dropdown:: Answer
#
#    ``[0, 1, 0]`` gives the second row, ``[3, 2, 1]``. Ones give the sum of all rows,
#    ``[7, 6, 5]``, and not the diagonal, which is ``[2, 2, 2]``. Here each setting is
#    used by all three rates, so the rows get mixed.
#
# .. dropdown:: How we checked this page
#
#    The gradient and the Hessian are compared with formulas and with nudges of the
#    gradient in float64, the products with ``H @ u``, and the orders with one another.
#    The lowest point along the plan is compared with many points beside it.

from torch.func import grad, hessian, jvp

point = x.detach()
a, b, c = point
assert torch.equal(g, torch.stack([2 * a + b * c, 2 * b + a * c, 2 * c + a * b]))
wide, h = point.double(), 1e-6
nudged = [
    (grad(fuel)(wide + step) - grad(fuel)(wide - step)) / (2 * h)
    for step in h * torch.eye(3, dtype=torch.float64)
]
torch.testing.assert_close(torch.stack(nudged, dim=1), H.double())
assert torch.equal(hessian(fuel)(point), H)
(from_number,) = torch.autograd.grad((g * u).sum(), x, retain_graph=True)
forward_over_reverse = jvp(grad(fuel), (point,), (u,))[1]
reverse_over_forward = grad(lambda x: jvp(fuel, (x,), (u,))[1])(point)
for product in (Hu, from_number, forward_over_reverse, reverse_over_forward):
    assert torch.equal(product, H @ u)

along = torch.linspace(-1, 2, 301)
burnt = torch.stack([fuel(point + s * u) for s in along])
torch.testing.assert_close(along[burnt.argmin()], torch.tensor(step), atol=0.01, rtol=0)
assert fuel(point + step * u) == 19.75

(one,) = torch.autograd.grad(g, x, torch.tensor([0.0, 1.0, 0.0]), retain_graph=True)
(ones,) = torch.autograd.grad(g, x, torch.ones(3), retain_graph=True)
assert (one.tolist(), ones.tolist()) == ([3, 2, 1], [7, 6, 5])
torch.testing.assert_close(total, (g + 2 * H @ g).detach())  # with the penalty

leaf = point.clone().requires_grad_()
y = fuel(leaf)
y.backward(retain_graph=True)
y.backward()
assert torch.equal(leaf.grad, 2 * g)

(constant,) = torch.autograd.grad(2 * x.sum(), x, create_graph=True)
assert not constant.requires_grad
assert not hessian(lambda x: 2 * x.sum())(point).any()
if spread:
    assert spread["16"][0] > 1.3
    assert 0.6 < spread["512"][0] < spread["512"][1] < 1.5

# %%
# **Next:** you have seen everything that this course is about. :ref:`check-yourself-2`
# asks you twelve questions, and keeps the answers hidden until you want them.
