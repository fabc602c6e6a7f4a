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
# first stove rises by 2 for each unit by which that stove itself is turned up.
# ``H[0, 1]`` says that it rises by 3 for each unit of the *second* stove. This comes
# from the chimney, where the product of the first two settings is multiplied by the
# third, which is 3.
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
# plan ``u``. From :ref:`pushing-forward` we know what that is: the table of the gradient,
# times ``u``. In letters it is :math:`Hu`.
#
# That is a push, a sum of *columns*. But we can also get it with ``autograd.grad``, which
# pulls. If we pass ``u`` in the place of ``v``, we get the *rows* of :math:`H`, each
# multiplied by its entry of ``u``, and added up. As long as :math:`H` is symmetric, rows
# and columns hold the same numbers, and the two sums are equal.
#
# .. predict::
#    :for: H u
#
#    We turn the second stove up and the third down, ``u = [0, 1, -1]``. The heat stays
#    the same. How fast do the three *rates* change? Subtract the third column of ``H``
#    from the second.

u = torch.tensor([0.0, 1.0, -1.0])
(Hu,) = torch.autograd.grad(g, x, u, retain_graph=True)
Hu

# %%
# All three change. The first stove does not move, but its rate contains :math:`x_1x_2`,
# and this product changes at a rate of :math:`3-2=1`. The picture is the one from
# :ref:`pushing-forward`. The table in it is now ``H``, the Jacobian of the gradient,
# and the result is ``H u``:

import pullback

stoves = ["stove 1", "stove 2", "stove 3"]
rates = ["rate 1", "rate 2", "rate 3"]
pullback.draw.jvp(H, u, rows=rates, columns=stoves, result_name="H u")

# %%
# This is called a :term:`Hessian-vector product`. It takes two walks back, one to get
# ``g``, and one through everything that was recorded on the way. It never builds ``H``.
# For layers like those of :ref:`never-built`, it takes a small multiple of the work of
# a forward pass, whatever their size. You will also meet it in another form. The gradient
# of ``(g * u).sum()`` is the same product, because the ``v`` that this sum sends to ``g``
# is ``u``:

torch.autograd.grad((g * u).sum(), x, retain_graph=True)

# %%
# How far to go
# -------------
#
# Now we can use it. As we follow the plan ``u``, the fuel changes at a rate of
# ``g @ u``, as in :ref:`pushing-forward`. This rate itself changes at a rate of
# ``u @ Hu``, which is called the *curvature* along ``u``. If the rate is negative and
# the curvature positive, we can save fuel until the rate has come up to zero. It
# reaches zero after a step of ``-rate / curvature``:

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
# forward through the gradient, *forward over reverse*. For this we need the gradient as
# a function, and ``torch.func.grad`` makes one: ``grad(fuel)`` takes what ``fuel``
# takes, and returns the gradient of the number that ``fuel`` returns:

from torch.func import grad, jvp

value, pushed = jvp(grad(fuel), (x.detach(),), (u,))
pushed

# %%
# Where the Hessian is symmetric, the two agree up to rounding. Start with two calls of
# ``autograd.grad``, since you need nothing else for them, and take ``jvp`` where you
# work with ``torch.func`` anyway. A few of PyTorch's operations have a rule for only
# one of the two ways, and raise an error in the other. :ref:`hvp` compares the ways
# more closely.
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
# There is one case in which you see the same message although you passed
# ``create_graph=True``. If the function is linear in ``x``, and nothing else in it
# requires a gradient, the gradient is a constant. It has no graph, and the Hessian is
# zero. ``torch.func.hessian`` returns these zeros.
#
# When nothing tells you
# ----------------------
#
# The message does not come if the number that you differentiate depends on ``x`` in
# another way, too. A common example is a *gradient penalty*. One adds the squares of the
# gradient to the loss, so that a network does not react violently to small changes of its
# input. Let us add them to the fuel.
#
# .. predict::
#    :value: 2
#    :for: the first gradient
#
#    The gradient of the fuel alone is ``[8, 7, 8]``. What does PyTorch return for fuel
#    and penalty together, if ``create_graph=True`` is missing?

for create_graph in (False, True):
    y = fuel(x)
    (p,) = torch.autograd.grad(y, x, retain_graph=True, create_graph=create_graph)
    (total,) = torch.autograd.grad(y + (p**2).sum(), x)
    print(f"create_graph={create_graph}: {total}")

# %%
# The first line is still the gradient of the fuel alone. Without a graph the penalty
# counted as a constant. It made the loss larger and changed no gradient, so a network
# would train as if it were not there.
#
# The second line contains it, and you can work out by how much. The squares of the
# gradient add up to a number whose own gradient, with respect to ``g``, is ``2 * g``. This
# is the ``v`` that is pulled back through ``g``, and what arrives is ``2 * H @ g``. In
# numbers this is ``[106, 92, 78]``, and together with ``[8, 7, 8]`` we have the second
# line. If you write such a penalty, compare the gradient with and without the penalty once.
#
# The gradient as a function of its own. Its table is the Hessian; move a stove, and see
# that it stays its own mirror image:

gradient = torch.func.grad(fuel)
pullback.live(gradient, torch.tensor([1.0, 2.0, 3.0]))

# %%
# .. admonition:: Remember
#
#    - A second derivative differentiates the *gradient*. ``create_graph=True`` records
#      the walk back, so that this is possible. A second ``backward`` on the same ``y``
#      raises an error, or with ``retain_graph=True`` adds the first derivatives again.
#    - The Hessian is the Jacobian of the gradient. It is symmetric where the second
#      derivatives are continuous.
#    - Where the Hessian is symmetric, ``autograd.grad(g, x, u)`` gives :math:`Hu`
#      without building the Hessian.
#    - ``g @ u`` is the rate along a plan ``u``, and ``u @ Hu`` the curvature.
#
# .. predict:: Try it
#    :for: u H for u = ones
#
#    Which ``u`` gives the second row of ``H``? And what does ``u = torch.ones(3)`` give:
#    the diagonal, or something else?
#
# .. dropdown:: Answer
#
#    ``[0, 1, 0]`` gives the second row, ``[3, 2, 1]``. Ones give the sum of all rows,
#    and not the diagonal, which is ``[2, 2, 2]``. Here each setting is used by all three
#    rates, so the rows get mixed.

(ones,) = torch.autograd.grad(g, x, torch.ones(3), retain_graph=True)
ones

# %%
# .. dropdown:: How we checked this page
#
#    The gradient and the Hessian are compared with formulas and with nudges of the
#    gradient in float64, the products with ``H @ u``, and the orders with one another.
#    The lowest point along the plan is compared with many points beside it.

from torch.func import hessian

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
reverse_over_forward = grad(lambda x: jvp(fuel, (x,), (u,))[1])(point)
for product in (Hu, from_number, pushed, reverse_over_forward):
    assert torch.equal(product, H @ u)

along = torch.linspace(-1, 2, 301)
burnt = torch.stack([fuel(point + s * u) for s in along])
torch.testing.assert_close(along[burnt.argmin()], torch.tensor(step), atol=0.01, rtol=0)
assert fuel(point + step * u) == 19.75

(one,) = torch.autograd.grad(g, x, torch.tensor([0.0, 1.0, 0.0]), retain_graph=True)
assert (one.tolist(), ones.tolist()) == ([3, 2, 1], [7, 6, 5])
torch.testing.assert_close(total, (g + 2 * H @ g).detach())  # with the penalty
assert (2 * H @ g).tolist() == [106, 92, 78]

leaf = point.clone().requires_grad_()
y = fuel(leaf)
y.backward(retain_graph=True)
y.backward()
assert torch.equal(leaf.grad, 2 * g)

(constant,) = torch.autograd.grad(2 * x.sum(), x, create_graph=True)
assert not constant.requires_grad
assert not hessian(lambda x: 2 * x.sum())(point).any()

# %%
# **Next:** you have seen everything that this course is about. :ref:`check-yourself-2`
# asks you fifteen questions, and keeps the answers hidden until you want them.
#
# .. asked: second derivative in PyTorch; Hessian in PyTorch; differentiate twice;
#    derivative of the gradient; create_graph=True; how to compute the Hessian;
#    curvature; gradient of a gradient; slope of the slope; rate of change of the
#    gradient; how curved is the loss; acceleration from a network
