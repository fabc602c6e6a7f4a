r"""
.. _once-more:

Once more: second derivatives
=============================

Turn up a stove, and fuel rises at some rate. Turn it up further, and the rate itself has
risen. How fast does the *rate* rise? Optimisers that plan their steps ask this question,
and so do physicists, when the force in their equation is already a derivative. We need
the derivative of a derivative, and ``backward`` can be applied once more.
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
# the fuel. We compute it row by row, as we did for the house:

rows = [torch.autograd.grad(g, x, v, retain_graph=True)[0] for v in torch.eye(3)]
H = torch.stack(rows)
H

# %%
# Read it as a Jacobian whose outputs are rates. ``H[0, 0]`` says that the rate of the
# first stove rises at 2 when that stove itself is turned up. ``H[0, 1]`` says that it
# rises at 3 when the *second* stove is turned up. This comes from the chimney, and 3 is
# the setting of the third stove, which is multiplied with both. The table is symmetric:
# the second stove has the same effect on the rate of the first as the other way round.
# This is so for every function whose second derivatives are continuous.
#
# One direction is often enough
# -----------------------------
#
# For a network with a million weights, the Hessian has a million times a million entries.
# But often one only wants to know how the gradient changes along *one* direction ``u``.
# That is the product :math:`Hu`. And we know how to multiply a Jacobian by a vector
# without building it.
#
# Take the dot product of the gradient with ``u``. It is one number, and its gradient is
# what we want:
#
# .. math::
#
#    \nabla(g\cdot u)=u^\top H=Hu,
#
# where ``u`` stays fixed. The last step uses that :math:`H` is symmetric.
#
# .. admonition:: Predict
#
#    We turn the first stove up and the third down, ``u = [1, 0, -1]``. Which of the three
#    rates change? Use the rows of ``H``.

u = torch.tensor([1.0, 0.0, -1.0])
(from_number,) = torch.autograd.grad(g @ u, x, retain_graph=True)
(from_v,) = torch.autograd.grad(g, x, u, retain_graph=True)
print(from_number)
print(from_v)

# %%
# Only the second rate changes, at 2. For the first stove, turning it up adds 2 to its
# rate and turning the third down takes 2 away. In the picture, the row of the third stove
# is subtracted from the row of the first:

import pullback

stoves = ["stove 1", "stove 2", "stove 3"]
pullback.draw.vjp(u, H, rows=stoves, columns=stoves, result_name="H u")

# %%
# Both lines of code compute this. The second puts ``u`` where ``v`` usually goes, and it
# has the shape of ``g``, as a ``v`` for ``g`` should. It is the same walk, since the
# gradient of ``g @ u`` with respect to ``g`` is ``u``. This is called a
# :term:`Hessian-vector product`. It takes two walks back, one to get ``g`` and one
# through everything that was recorded on the way, and it never builds ``H``.
#
# Other orders
# ------------
#
# We pulled back twice, *reverse over reverse*. As the Hessian is the Jacobian of the
# gradient, we can also push ``u`` forward through the gradient, *forward over reverse*.
# Or we can push first and then take the gradient of the number that comes out, *reverse
# over forward*. With ``torch.func`` each of them is a line:

from torch.func import grad, jvp, vjp

point = x.detach()
reverse_over_reverse = vjp(grad(fuel), point)[1](u)[0]
forward_over_reverse = jvp(grad(fuel), (point,), (u,))[1]
reverse_over_forward = grad(lambda x: jvp(fuel, (x,), (u,))[1])(point)
print(reverse_over_reverse, forward_over_reverse, reverse_over_forward)

# %%
# Which one is fastest? Let us count for a small network of four layers, whose weights are
# the four matrices in ``W``:

from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)  # any weights will do; the same ones in every run
data, W = torch.randn(64, 32), torch.randn(4, 32, 32)
U = torch.randn_like(W)


def loss(W):
    h = data
    for layer in W.unbind():
        h = torch.tanh(h @ layer)
    return (h**2).mean()


# %%
# We count the work in units of one forward pass:


def work(f):
    with FlopCounterMode(display=False) as counter:
        f()
    return counter.get_total_flops()


ways = {
    "gradient alone": lambda: grad(loss)(W),
    "reverse over reverse": lambda: vjp(grad(loss), W)[1](U),
    "forward over reverse": lambda: jvp(grad(loss), (W,), (U,)),
    "reverse over forward": lambda: grad(lambda W: jvp(loss, (W,), (U,))[1])(W),
}
for name, way in ways.items():
    print(f"{name:21} {work(way) / work(lambda: loss(W)):.2f} forward passes")

# %%
# A gradient takes 2.75 forward passes here, and the product with the Hessian 7.25 to
# 8.25, whichever order we take. There are 4096 weights, so the whole Hessian would take
# 4096 such products. **For networks like this one the three orders are close in
# arithmetic, so what decides is the fixed cost of a call, and what your operations
# support.** On one thread of a CPU, with torch 2.13 and networks like this one from 16 to
# 512 units wide, two calls of ``autograd.grad`` were fastest or level with the fastest.
# The ways with ``torch.func`` took two to three times as long for the smallest network,
# and at most a fifth longer for the widest. And :term:`forward mode` needs a forward rule
# for every operation, and a few have none.
#
# Two calls of backward are not a second derivative
# -------------------------------------------------
#
# There are two ways to go wrong here. Without ``create_graph=True`` the gradient is a
# plain tensor, and the second walk has nowhere to go:

(plain,) = torch.autograd.grad(fuel(x), x)
try:
    torch.autograd.grad(plain @ u, x)
except RuntimeError as error:
    print(error)

# %%
# This one tells you. The other is silent. If you call ``backward`` twice on the *same*
# ``y``, the first derivative is added to ``x.grad`` twice:

leaf = point.clone().requires_grad_()
y = fuel(leaf)
y.backward(retain_graph=True)
y.backward()
leaf.grad

# %%
# These are twice the rates ``[8, 7, 8]``, and no second derivatives. A second derivative
# differentiates the *gradient*, so the gradient has to appear where ``y`` was before.
#
# .. admonition:: Remember
#
#    - ``create_graph=True`` records the walk back, so that the gradient can be
#      differentiated again.
#    - The Hessian is the Jacobian of the gradient. It is symmetric where the second
#      derivatives are continuous.
#    - ``autograd.grad(g, x, u)`` gives :math:`Hu` without building the Hessian. For our
#      network that took the work of eight forward passes.
#
# .. admonition:: Try it
#
#    Which ``u`` gives the second row of ``H``? And what does ``torch.ones(3)`` give: the
#    diagonal, or something else? Write down your answer before you run
#    ``torch.autograd.grad(g, x, torch.ones(3), retain_graph=True)``.

# %%
# .. dropdown:: How we checked this page
#
#    The gradient and the Hessian are compared with formulas and with nudges of the
#    gradient in float64, the products with ``H @ u``, and the three orders with one
#    another on the network.

a, b, c = point
assert torch.equal(g, torch.stack([2 * a + b * c, 2 * b + a * c, 2 * c + a * b]))
wide, h = point.double(), 1e-6
nudged = [
    (grad(fuel)(wide + step) - grad(fuel)(wide - step)) / (2 * h)
    for step in h * torch.eye(3, dtype=torch.float64)
]
torch.testing.assert_close(torch.stack(nudged, dim=1), H.double())
assert torch.equal(torch.func.hessian(fuel)(point), H)
for product in (from_number, from_v, reverse_over_reverse):
    assert torch.equal(product, H @ u)
assert torch.equal(forward_over_reverse, H @ u)
assert torch.equal(reverse_over_forward, H @ u)
results = [ways["reverse over reverse"]()[0], ways["forward over reverse"]()[1]]
for result in results:
    torch.testing.assert_close(result, ways["reverse over forward"]())
counts = [work(way) / work(lambda: loss(W)) for way in ways.values()]
assert max(counts[1:]) < 1.25 * min(counts[1:])
assert torch.equal(leaf.grad, 2 * g)

# %%
# **Next:** you have seen everything that this course is about. :ref:`check-yourself-2`
# asks you ten questions, and keeps the answers hidden until you want them.
