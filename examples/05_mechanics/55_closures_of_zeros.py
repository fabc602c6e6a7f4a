r"""
.. _closures-of-zeros:

Why is my Jacobian all zeros?
=============================

You asked for a :term:`Jacobian`, and got zeros without an error. Usually the output of the
function does not depend on *its argument*, because the function uses a tensor that was
computed earlier, or a copy without a graph. Many of the functions that differentiate f then
return zeros without a message, and some raise an error. If the reason is ``no_grad``,
:term:`forward mode <forward mode>` gives the right Jacobian, because it ignores
``no_grad``. The cure is to compute the output from the argument, with functions of torch
alone: use ``torch.cos`` in place of ``math.cos`` and ``torch.stack([...])`` in place of
``torch.tensor([...])``, and do not call ``.item()``. :func:`pullback.jacobian` raises an
error, and so does ``strict=True``, which is a test and not a cure. But zeros can also be
right, and ``strict=True`` together with ``create_graph=True`` refuses some of these right
zeros as well.
"""

# %%
# Take :math:`f(x)=x^2` for an ``x`` of shape ``(2,)``. The :term:`Jacobian` is ``diag(2
# x)``, of shape ``(2, 2)``. A function that computes the Jacobian of f makes its own
# tensor, passes it to f, and differentiates with respect to that tensor. It treats any
# other tensor in f as a constant, even the ``x`` that you passed to it. This holds for
# ``torch.autograd.functional``, which we use here, and for :mod:`torch.func`. The first
# matrix is right, and the next three are zeros:

import math

import torch
from torch.autograd.functional import jacobian

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x**2
right = jacobian(lambda x: x**2, x)
zeros = jacobian(lambda x: y, x)  # the closure returns the y from before
print(right, zeros, sep="\n")
print(torch.func.jacrev(lambda x: y)(x), torch.func.hessian(lambda x: y.sum())(x), sep="\n")

# %%
# The ways to lose x
# ------------------
#
# Each of these functions has the right value at (1, 2). All but the first have lost the
# path back to x, though the last two have lost only a part of it:

bodies = {
    "x**2": lambda x: x**2,
    "earlier y": lambda x: y,
    "detach": lambda x: x.detach() ** 2,
    "tolist": lambda x: torch.tensor(x.tolist()) ** 2,
    "NumPy": lambda x: torch.from_numpy(x.detach().numpy() ** 2),
    "no_grad": torch.no_grad()(lambda x: x**2),
    "x * x.detach()": lambda x: x * x.detach(),
    "item": lambda x: torch.stack([x[0] ** 2, x[1] * x[1].item()]),
}

# %%
# Do these functions give zeros, numbers or errors? We compute the gradient of the sum in
# five ways:

asked = {
    "functional": lambda f: jacobian(f, x).sum(0).tolist(),
    "strict=True": lambda f: jacobian(f, x, strict=True).sum(0).tolist(),
    "func.jacrev": lambda f: torch.func.jacrev(f)(x).sum(0).tolist(),
    "func.jacfwd": lambda f: torch.func.jacfwd(f)(x).sum(0).tolist(),
    "autograd.grad": lambda f: torch.autograd.grad(f(x).sum(), x)[0].tolist(),
}


def answer(ask, body):
    try:
        return str(asked[ask](bodies[body]))
    except RuntimeError:
        return "error"


# %%
# The right gradient is (2, 4), and only ``x**2`` gets it in every column:

print(f"{'':15}", *(f"{ask:14}" for ask in asked))
for body in bodies:
    y = x**2  # a fresh graph, which no earlier row has used up
    print(f"{body:15}", *(f"{answer(ask, body):14}" for ask in asked))

# %%
# Three things stand out. Only ``autograd.grad`` finds (2, 4) through the *earlier y*,
# because it follows the :term:`computation graph` and not the arguments of f.
# :mod:`torch.func` refuses NumPy, and its ``jacfwd`` is right under ``no_grad``, which
# stops only :term:`reverse mode`. And none of the five ways notices the fault in the last
# two rows, because half a gradient looks like any other gradient.
#
# What to write instead
# ---------------------
#
# If f uses an earlier tensor, compute that tensor inside f, from the argument. If f
# converts tensors to numbers, use torch's functions instead: ``torch.cos(t)`` in place of
# ``math.cos(t)``, which returns a float, ``torch.stack`` in place of ``torch.tensor``,
# which copies numbers, and ``t`` in place of ``t.item()``. The two functions below have the
# same values, but only the second has a :term:`Jacobian` that is not zero:

point = x.detach()


def by_numbers(x):
    first, second = x[0].item(), x[1].item()
    return torch.tensor([first**2, second * math.cos(second)])


def by_tensors(x):
    return torch.stack([x[0] ** 2, x[1] * torch.cos(x[1])])


print(torch.allclose(by_numbers(point), by_tensors(point)))
print(torch.func.jacrev(by_numbers)(point), torch.func.jacrev(by_tensors)(point), sep="\n")

# %%
# With ``strict=True`` you get an error for a function such as ``by_numbers``. The error
# tells you of the fault but does not repair it. If only one factor is a plain number, as in
# the last row of the table, there is no error. :ref:`answers-torch-tensor-cuts` has more
# calls that keep only the numbers, and :ref:`error-tensor-to-scalar` explains the warning
# that torch gives for some of them.
#
# When zeros are right
# --------------------
#
# *The Hessian of my ReLU classifier with respect to the image is zero everywhere.* Each
# logit is piecewise linear, so its second derivatives are zero, as the first line of the
# output shows. A softmax, a loss or a square of the logits has curvature, and so has a
# network with a smooth activation, such as ``softplus``. In the :term:`Hessian` with
# respect to the weights, the blocks that mix two layers are not zero. The other lines say
# whether any entry is not zero: the second line for a softmax, the third for
# ``softplus``, and the last for each block of the Hessian with respect to the weights:

torch.manual_seed(0)  # the same weights on every build
W, V, image = torch.randn(8, 2), torch.randn(3, 8), x.detach()
hessian, relu, softplus = torch.func.hessian, torch.relu, torch.nn.functional.softplus
print(hessian(lambda x: (V @ relu(W @ x))[0])(image).tolist())
print(hessian(lambda x: (V @ relu(W @ x)).log_softmax(0)[0])(image).any().item())
print(hessian(lambda x: (V @ softplus(W @ x))[0])(image).any().item())
by_weights = hessian(lambda W, V: (V @ relu(W @ image))[0], argnums=(0, 1))(W, V)
print([[block.any().item() for block in row] for row in by_weights])

# %%
# What the errors say
# -------------------
#
# Without ``create_graph=True``, ``strict=True`` refuses a result that has no graph, or
# whose graph does not lead to x. With ``create_graph=True``, or in ``hessian``, it also
# refuses a derivative that does not depend on x. For a linear function such a derivative is
# no mistake, because it is constant, and the second derivative is rightly zero:

refusals = {}
for name, f, options in (
    ("detach", bodies["detach"], {}),
    ("earlier y", bodies["earlier y"], {}),
    ("linear", lambda x: 2 * x, {"create_graph": True}),
):
    try:
        jacobian(f, x, strict=True, **options)
    except RuntimeError as error:
        refusals[name] = str(error)
        print(f"{name}: {error}")
print(jacobian(lambda x: 2 * x, x, strict=True))

# %%
# If an input is not connected to the output, the engine returns None for it.
# ``allow_unused=True`` lets you see this None, and ``materialize_grads=True`` turns it into
# zeros. A zero that was computed looks the same as these zeros, as the last line of the
# output shows:

w = torch.tensor([3.0], requires_grad=True)
for flag in ({"allow_unused": True}, {"materialize_grads": True}):
    print(torch.autograd.grad((x**2).sum(), (x, w), **flag))
print(torch.autograd.grad((0 * w).sum(), w))

# %%
# *I pass allow_unused=True, and I still get an error.* The flag allows an input that y does
# not use. It does not allow an input that requires no gradient. So pass only the inputs
# that require one:

constant = torch.tensor(5.0)
try:
    torch.autograd.grad((x**2).sum(), (x, constant), allow_unused=True)
except RuntimeError as error:
    print(error)
wanted = [t for t in (x, constant) if t.requires_grad]
torch.autograd.grad((x**2).sum(), wanted)

# %%
# How to tell whether zeros are right
# -----------------------------------
#
# :func:`pullback.jacobian` raises an error if the output is not connected to the input, and
# returns zeros if they are right:

import pullback

print(pullback.jacobian(torch.round, x))
try:
    pullback.jacobian(bodies["NumPy"], x)
except RuntimeError as error:
    print(error)

# %%
# :func:`pullback.check` finds half gradients as well, because it also computes difference
# quotients, which do not depend on the graph:

print(pullback.check(bodies["item"], x.detach(), torch.ones(2)).error)

# %%
# Two other tests do not tell you whether zeros are right. :term:`Forward mode <forward
# mode>` does not notice a ``no_grad``, because it ignores this mode
# (:ref:`no-grad-detach`). And ``requires_grad`` of the result is True for the *earlier y*,
# too:

print(torch.func.jacfwd(bodies["no_grad"])(x.detach()))
bodies["earlier y"](x).requires_grad

# %%
# A check that needs only torch is to change x a little, and to see whether y changes as the
# gradient says. The *earlier y* passes this check, because it does not change at all. In
# that case the function is wrong, and not its derivative. It is worth running the check on
# every function that you did not write yourself:


def agrees(f, x, h=1e-3):
    x, u = x.detach(), torch.tensor([1.0, -2.0])
    moved = (f(x + h * u) - f(x - h * u)) / (2 * h)
    return torch.allclose(moved, jacobian(f, x) @ u, atol=1e-2)


assert [body for body in bodies if agrees(bodies[body], x)] == ["x**2", "earlier y"]
assert torch.equal(bodies["earlier y"](x + 1), bodies["earlier y"](x))
assert answer("func.jacfwd", "no_grad") == answer("func.jacfwd", "x**2") == "[2.0, 4.0]"
assert answer("func.jacrev", "NumPy") == "error"
assert answer("functional", "NumPy") == answer("func.jacrev", "detach") == "[0.0, 0.0]"
assert [*refusals] == ["detach", "earlier y", "linear"]
assert agrees(by_tensors, x)
assert not torch.func.jacrev(by_numbers)(point).any()

# %%
# Where next
# ----------
#
# :ref:`grad-is-none` is about None in ``x.grad`` after ``backward``. :ref:`no-grad-detach`
# explains what ``no_grad`` and ``detach`` cut, and :ref:`gradcheck` shows how to check a
# gradient with finite differences.
#
# .. asked: Jacobian is all zeros; Hessian of parameters is zero; function does not
#    depend on its argument; jacobian returns zeros; closure uses the old tensor;
#    Jacobian of a function with math.cos or torch.tensor is zero
# .. words: blank, zero matrix, captured, outside variable, module parameters, functional,
#    not used, hessian zero, global, math.sin, item, float, torch.tensor of a list,
#    robot arm
