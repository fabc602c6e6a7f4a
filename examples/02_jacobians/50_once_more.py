r"""
.. _once-more:

Once more: second derivatives
=============================

You turn one stove of a house up and another one down, and the gradient says at what rate
this saves fuel. How far can you go until the fuel rises again? The rate at the start does
not tell. You have to know how the rate itself changes on the way. This is the derivative of
a *gradient*, and all of these derivatives together are the :term:`Hessian`, the
:term:`Jacobian` of the gradient.
"""

# %%
# Our house has three stoves, and each burns the square of its setting. They share a
# chimney. When all three run, they disturb one another, and the fuel has an additional
# term, the product of the three settings. Our plan ``u`` turns the second stove up and the
# third down by as much. We take the gradient, and the rate along the plan:

import torch


def fuel(x):
    return (x**2).sum() + x[0] * x[1] * x[2]


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
u = torch.tensor([0.0, 1.0, -1.0])
(plain,) = torch.autograd.grad(fuel(x), x)
print("gradient:", plain)
print("rate along u:", (plain @ u).item())

# %%
# The gradient for the first stove is twice its setting, plus the product of the other two,
# :math:`2\cdot1+2\cdot3=8`. The others follow the same pattern. Along the plan, fuel falls
# at a rate of 1.
#
# .. predict::
#    :label: saved by a whole unit
#    :for: the fuel saved
#    :wrong: promised: This is what the rate promises. It is the rate at the start, and it
#          changes on the way.;
#       fuel: This is the fuel at the new settings. How much was it before?
#
#    We go a whole unit along the plan, from ``[1, 2, 3]`` to ``[1, 3, 2]``. How much fuel
#    do we save?

import matplotlib.pyplot as plt

sizes = torch.linspace(0, 1.5, 31)
with torch.no_grad():
    burned = torch.stack([fuel(x + size * u) for size in sizes])
    promised = fuel(x) + sizes * (plain @ u)

plt.plot(sizes, burned, label="fuel")
plt.plot(sizes, promised, "--", label="what the rate promises")
plt.xlabel("size of the step along u")
plt.title("The fuel along our plan")
plt.legend()
print("saved by a whole unit:", (fuel(x) - fuel(x + u)).item())
print("lowest:", burned.min().item(), " at the start:", burned[0].item())

# %%
# Nothing is saved: the second and the third stove have only changed places. On the way the
# fuel falls from 20 to 19.75, and then it rises again. The rate alone is the dashed line,
# which falls for ever. What bends the curve away from the line?
#
# The table of the second derivatives
# -----------------------------------
#
# The gradient takes three numbers, the settings, to three numbers, the rates of the three
# stoves. So it has a Jacobian of its own, with three rows and three columns. It is called
# the Hessian of the fuel, and written :math:`H`.
#
# We know how to get a row of a Jacobian: walk back, with a single 1 in ``v``. So let us
# walk back from the gradient:

try:
    torch.autograd.grad(plain, x, torch.tensor([1.0, 0.0, 0.0]))
except RuntimeError as error:
    print(error)

# %%
# The walk has nowhere to go. PyTorch records what you compute in a forward pass, but it
# does not record its own walk back, because usually nobody needs that. So the gradient is a
# plain tensor, which does not know how it came from ``x``. ``create_graph=True`` asks
# PyTorch to record this walk as well:

(g,) = torch.autograd.grad(fuel(x), x, create_graph=True)
g

# %%
# The numbers are the same. The ``grad_fn`` behind them shows that ``g`` remembers how it
# was computed. Now we can walk back from it, once for each row:

rows = [torch.autograd.grad(g, x, v, retain_graph=True)[0] for v in torch.eye(3)]
H = torch.stack(rows)
H

# %%
# Read it as a Jacobian whose outputs are rates, with a row for the rate of each stove. The
# first row is ``[2, 3, 2]``. The rate of the first stove is twice its own setting, plus the
# product of the other two settings, 2 and 3. When the first stove is turned up by a unit,
# this rate rises by 2. When the second stove is turned up by a unit, the product goes
# from :math:`2\cdot3` to :math:`3\cdot3`, and the rate rises by 3.
#
# Now look at the first column. It holds the same numbers as the first row. Take its 3, in
# the row of the second stove. The rate of this stove contains the product of the first
# setting and the third. When the first stove is turned up by a unit, this product goes from
# :math:`1\cdot3` to :math:`2\cdot3`, and the rate rises by the setting of the third stove,
# as before. The table is *symmetric*. So is the Hessian of every function whose second
# derivatives are continuous, which means that they don't jump anywhere.
#
# .. predict::
#    :label: H u
#    :item: 0
#    :for: the change of the first rate
#    :wrong: nothing: The stove does not move, but its rate does: it contains the product of
#          the other two settings.;
#       both up: Here the third stove goes up as well. It goes down, and so its part is
#          subtracted.;
#       product: This is the product of the other two settings. The question is how fast it
#          changes along the plan.;
#       down: The second stove goes up and adds 3. The third goes down and takes away 2.;
#       curvature: This is the curvature along the plan, u @ H u.
#
#    Our plan leaves the first stove where it is. Does the *rate* of this stove change along
#    the plan? If it does, how fast?

print("H u", (H @ u).tolist())

# %%
# It changes at a rate of 1, although the stove does not move. Its rate contains the product
# of the other two settings, and this product changes at a rate of :math:`3-2=1`. The other
# two rates change as well. This is a :term:`Jacobian-vector product`, or push: the columns
# of ``H`` are multiplied by the plan and added up. The table is now the Jacobian of the
# gradient:

import pullback

stoves = ["stove 1", "stove 2", "stove 3"]
rates = ["rate 1", "rate 2", "rate 3"]
pullback.draw.jvp(H, u, rows=rates, columns=stoves, result_name="H u")

# %%
# How far to go
# -------------
#
# The plan raises the second stove and lowers the third. So the fuel changes at the rate of
# the second stove minus that of the third, and this is :math:`7-8=-1`, the *rate along the
# plan*. How does it change on the way? The product ``H u`` says what becomes of the two
# rates of the stoves. For each unit that we go along the plan, the rate of the second stove
# grows by 1, and the rate of the third gets smaller by 1.
#
# .. predict::
#    :label: stop
#    :code:
#    :for: how far to go
#    :wrong: one rate: Both stoves change their rates, so the rate along the plan changes by
#          2 for each unit.;
#       two units: The rate along the plan changes by 2 for each unit, and only 1 is needed.
#
#    How far do we go until the rate along the plan has come up to zero?

rate, curvature = (g @ u).item(), ((H @ u) @ u).item()
print("rate:", rate, " curvature:", curvature)
print("stop:", -rate / curvature)

# %%
# The rate along the plan grows by 2 for each unit. It began at −1, and after half a unit it
# is zero. There we should stop, and there the fuel was lowest in our trial.
#
# In symbols, the rate along the plan is ``g @ u``: the rate of each stove, times its number
# in ``u``, added up. For each unit that we go, ``u`` stays the same, and the rates change
# by ``H @ u``, which is ``[1, 1, -1]``. So we multiply these changes by ``u`` in the same
# way, which is ``(H @ u) @ u``:
#
# .. math::
#
#    1\cdot0+1\cdot1+(-1)\cdot(-1)=2
#
# This is the 2 from above. It is called the *curvature* along ``u``. If the rate is
# negative and the curvature positive, we save until the rate has come up to zero, after
# ``-rate / curvature``. This is Newton's method again (:ref:`aiming-again`): the target is
# a rate of 0, what is missing is ``-rate``, and the table has a single entry, the
# curvature. Along this plan the fuel happens to be a parabola, and one step hits its lowest
# point exactly.
#
# H u without H
# -------------
#
# For a network with a million weights, the Hessian has a million times a million entries.
# But all that we used of it was ``H @ u``. Above, ``autograd.grad`` pulled a ``v`` with a
# single 1 back through ``g``, and this gave a row of ``H``. Now we pull ``u`` back in the
# same way. This gives ``u @ H``: the *rows* of the table, each times a number of ``u``, and
# added up. What we want is ``H @ u``: the *columns*, each times a number of ``u``, and
# added up. Here both are the same, because in a symmetric table the first column holds the
# numbers of the first row, and so on:

(Hu,) = torch.autograd.grad(g, x, u, retain_graph=True)
Hu

# %%
# This is called a :term:`Hessian-vector product`. It takes two walks back. The first walk
# made ``g``. By then PyTorch had recorded the forward pass, from ``x`` to the fuel, and
# also this walk, from the fuel to ``g``. The second walk goes back through both records,
# from ``g`` to ``x``. For layers like those
# of :ref:`never-built`, both walks together are a small multiple of the work of a forward
# pass, whatever their size.
#
# .. dropdown:: The same product, pushed
#
#    You can also push. ``torch.func.grad`` makes a function of the gradient: ``grad(fuel)``
#    takes what ``fuel`` takes, and returns the gradient. If its operations have a rule for
#    pushes, ``jvp`` pushes ``u`` through it. This returns the gradient and its change along
#    ``u``, and we keep the second. :ref:`hvp` compares the two ways:

from torch.func import grad, jvp


def hvp(f, x, u):
    return jvp(grad(f), (x,), (u,))[1]


pushed = hvp(fuel, x.detach(), u)
pushed

# %%
# People use such products where training has come to rest, with a gradient of zero. If some
# ``u`` has a negative curvature there, the loss falls along it, and the place is no
# minimum. They also find a step of Newton's method from them, for all weights at once and
# without the table (:ref:`trpo`).
#
# When the first stove moves
# --------------------------
#
# Below is the gradient as a function of its own. Its table is the Hessian, and ``u`` is our
# plan. Move the first stove. Which entries of the table change? And at which setting of the
# first stove does the plan change nothing in the rate of the second?

gradient = torch.func.grad(fuel)
pullback.live(gradient, x.detach(), u=u, rows=rates, columns=stoves)

# %%
# .. dropdown:: Answer
#
#    Two: the last entry of the second row, and the second entry of the last row. Both hold
#    the setting of the first stove. Whatever you move, the table stays symmetric. In the
#    row of the second rate, *J u* is 2 minus this setting, so it is 0 where the first stove
#    is at 2.
#
# .. admonition:: Remember
#
#    - A second derivative differentiates the *gradient*. ``create_graph=True`` records
#      the walk back, so that this is possible for our fuel (for other functions, see *Where
#      this ends*).
#    - The Hessian is the Jacobian of the gradient. It is symmetric where the second
#      derivatives don't jump.
#    - Where the Hessian is symmetric, ``autograd.grad(g, x, u)`` gives :math:`Hu`
#      without building the Hessian.
#    - ``g @ u`` is the rate along a plan ``u``, and ``Hu @ u`` the curvature. Where the
#      rate is negative and the curvature positive, go ``-rate / curvature`` far, if the
#      curvature stays about the same on the way.
#
# .. predict:: Try it
#    :for: u H for u = ones
#    :wrong: diagonal: This is the diagonal. Ones add up whole rows, and each setting is
#          used by all three rates.;
#       second row: This is the second row, which u = [0, 1, 0] gives.;
#       gradient of fuel: This is the gradient. u is pulled back through it.;
#       ones: These are the u that go in.
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
# .. dropdown:: And if it is not a parabola?
#
#    In general the curvature changes on the way. If the function has grown at the new
#    place, you went too far, and try half the step. Otherwise compute rate and curvature
#    again, and take another step. Where the curvature is zero or negative, the formula does
#    not lead to a lowest point at all.
#
# .. dropdown:: If there is an error in spite of ``create_graph=True``
#
#    The gradient of the heat is 1 for each stove, whatever ``x`` is. A gradient that does
#    not depend on ``x`` may have no graph, even with ``create_graph=True``, and then a walk
#    back from it raises the error that you have seen on this page. That of a linear layer
#    has one, but it leads to the weights alone, and the message says that a tensor *appears
#    to not have been used in the graph*. In both cases the Hessian is zero, and ``hvp``
#    returns the zeros.
#
# .. dropdown:: Does a second ``y.backward()`` give the second derivative?
#
#    No. After a first ``y.backward(retain_graph=True)``, a second ``y.backward()`` walks
#    from ``y`` back to ``x`` again, and adds the same gradient once more. It never walks
#    through the gradient. Without ``retain_graph=True`` in the first call, the second one
#    is refused here.
#
# .. dropdown:: Where this ends
#
#    Some operations have no second derivative. For
#    ``torch.nn.functional.scaled_dot_product_attention`` on the CPU, the second walk raises
#    the error below. Under ``sdpa_kernel(SDPBackend.MATH)`` PyTorch computes attention from
#    simpler operations, and then there is a second derivative
#    (:ref:`attention-second-derivative`).

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

tokens = torch.linspace(-1, 1, 32).reshape(1, 1, 4, 8).requires_grad_()
attended = scaled_dot_product_attention(tokens, tokens, tokens)
(steep,) = torch.autograd.grad((attended**2).sum(), tokens, create_graph=True)
try:
    torch.autograd.grad(steep.sum(), tokens)
except RuntimeError as error:
    print(error)

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
reverse_over_forward = grad(lambda x: jvp(fuel, (x,), (u,))[1])(point)
(from_number,) = torch.autograd.grad((g * u).sum(), x, retain_graph=True)
for product in (Hu, from_number, pushed, reverse_over_forward):
    assert torch.equal(product, H @ u)


def attention_squared(tokens):
    with sdpa_kernel(SDPBackend.MATH):
        return (scaled_dot_product_attention(tokens, tokens, tokens) ** 2).sum()


wide_tokens = tokens.detach().double().requires_grad_()
(steep,) = torch.autograd.grad(
    attention_squared(wide_tokens), wide_tokens, create_graph=True
)
(twice,) = torch.autograd.grad(steep.sum(), wide_tokens)
ends = [grad(attention_squared)(wide_tokens.detach() + way * h) for way in (1, -1)]
torch.testing.assert_close(twice, (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-7)

along = torch.linspace(-1, 2, 301)
far = torch.stack([fuel(point + s * u) for s in along])
torch.testing.assert_close(
    along[far.argmin()], torch.tensor(-rate / curvature), atol=0.01, rtol=0
)
assert burned[-1] > burned[0] > burned.min() == 19.75
torch.testing.assert_close(burned, 20 - sizes + sizes**2)  # a parabola
assert -rate / curvature == 0.5
assert fuel(point + 0.5 * u) == 19.75 < 20 == fuel(point) == fuel(point + u)
assert curvature == u @ Hu == 2
changed = hessian(fuel)(point + torch.tensor([1.0, 0.0, 0.0])) - H
assert changed.nonzero().tolist() == [[1, 2], [2, 1]]
assert (hessian(fuel)(torch.tensor([2.0, 2.0, 3.0])) @ u)[1] == 0

(one,) = torch.autograd.grad(g, x, torch.tensor([0.0, 1.0, 0.0]), retain_graph=True)
assert (one.tolist(), ones.tolist()) == ([3, 2, 1], [7, 6, 5])
(squared,) = torch.autograd.grad((g**2).sum(), x, retain_graph=True)
assert squared.tolist() == (2 * g @ H).tolist() == (2 * H @ g).tolist() == [106, 92, 78]

leaf = point.clone().requires_grad_()
heat = leaf.sum()
(level,) = torch.autograd.grad(heat, leaf, create_graph=True)
assert not level.requires_grad  # so the second walk has nowhere to go
assert not hvp(torch.sum, point, u).any()
y = fuel(leaf)
y.backward(retain_graph=True)
y.backward()
assert torch.equal(leaf.grad, 2 * g)
try:
    y.backward()
except RuntimeError:
    refused = True
assert refused  # the second walk has thrown the values away

guesses = {  # wrong ones, of which the boxes above say what they are
    "promised": -(g @ u).item(),
    "fuel": fuel(point).item(),
    "one rate": abs((g @ u) / (H @ u)[1]).item(),
    "two units": curvature,
    "nothing": u[0],
    "both up": (H @ u.abs())[0],
    "product": point[1] * point[2],
    "down": -(H @ u)[0],
    "curvature": curvature,
    "diagonal": H.diagonal(),
    "second row": one,
    "gradient of fuel": plain,
    "ones": torch.ones(3),
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# **Next:** a network is steeper than you want it. :ref:`slopes-in-the-loss` puts its
# gradient into the loss, and differentiates once more. For functions that are compiled, see
# :ref:`compiled-second-derivative`.
#
# .. asked: second derivative in PyTorch; Hessian in PyTorch; differentiate twice;
#    derivative of the gradient; create_graph=True; how to compute the Hessian;
#    curvature; gradient of a gradient; slope of the slope; rate of change of the
#    gradient; how curved is the loss; acceleration from a network
# .. words: curved, bend, accelerate, Newton, u_xx, double derivative, f'', concave, minimum
#    or saddle, grad of grad
