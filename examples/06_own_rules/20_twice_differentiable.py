r"""
.. _twice-differentiable:

Twice differentiable Functions
==============================

You have written a :class:`torch.autograd.Function`, and now you need a second derivative
through it. If its ``backward`` consists of differentiable operations on the inputs, the
outputs and ``v``, PyTorch differentiates this ``backward`` like any other code. But if
``backward`` uses any other tensor that ``forward`` has computed from ``x`` and saved, the
first derivative is right, whereas the second may be silently wrong.
"""

# %%
# With ``create_graph=True`` the operations of ``backward`` are recorded, as functions of
# ``v`` and of the :term:`saved tensors <saved tensor>`. Our function is :math:`y=x^4`,
# elementwise. Its :term:`VJP` is :math:`4x^3v`, and its second derivative is
# :math:`f''=12x^2`. At :math:`x=2` the VJP is 32 for ``v = 1``, and the second derivative
# is 48.

import torch
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable


class Fourth(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**4

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors  # the x of the graph, not a copy of its numbers
        return 4 * x**3 * v


# %%
# ``twice`` returns the first and the second derivative of a function. For our Function both
# are right:


def twice(f, x):
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return g.item(), torch.autograd.grad(g.sum(), x)[0].item()


x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
twice(Fourth.apply, x)

# %%
# What goes wrong
# ---------------
#
# *My first gradient is right, and the second is silently wrong.* In the next Function,
# ``forward`` saves :math:`q=x^2`. Since q is neither an input nor an output, PyTorch treats
# it as a constant when it differentiates ``backward``. So in :math:`4qx` only the factor x
# is differentiated, and the second derivative comes out as :math:`4q=16` instead of 48:


class Intermediate(Function):
    @staticmethod
    def forward(ctx, x):
        q = x * x
        ctx.save_for_backward(x, q)
        return q * q

    @staticmethod
    def backward(ctx, v):
        x, q = ctx.saved_tensors
        return 4 * q * x * v


twice(Intermediate.apply, x)

# %%
# ``gradcheck`` passes this Function, since it looks only at the first derivative.
# ``gradgradcheck`` compares the derivative of the gradient with difference quotients, here
# with ones for ``v``, and rejects the Function:

print(gradcheck(Intermediate.apply, (x,)))
try:
    gradgradcheck(Intermediate.apply, (x,), torch.ones_like(x))
except RuntimeError as error:
    print(error)

# %%
# One remedy is to compute q again in ``backward``. If that is expensive, return q as an
# output instead. Then q is in the graph and gets its own :term:`cotangent` :math:`v_q`,
# which contributes :math:`2xv_q` to the gradient:


class Returned(Function):
    @staticmethod
    def forward(ctx, x):
        q = x * x
        ctx.save_for_backward(x, q)
        return q * q, q

    @staticmethod
    def backward(ctx, v, vq):
        x, q = ctx.saved_tensors
        return 4 * q * x * v + 2 * x * vq


twice(lambda x: Returned.apply(x)[0], x)

# %%
# A backward that leaves torch
# ----------------------------
#
# PyTorch cannot record the operations of NumPy. If your ``backward`` uses NumPy, declare
# with ``once_differentiable`` that it cannot be differentiated:


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.numpy() ** 4)

    @staticmethod
    @once_differentiable
    def backward(ctx, v):
        return torch.from_numpy(4 * ctx.saved_tensors[0].numpy() ** 3 * v.numpy())


# %%
# If we ask for a second derivative through this Function, PyTorch raises an error:

(g,) = torch.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
try:
    g.backward()
except RuntimeError as error:
    print(error)

# %%
# Do not rely on this error. It is raised only if ``v`` has a graph, and only if the second
# backward pass reaches the node that raises it. The backward pass of ``autograd.grad(g,
# x)`` does not reach this node. For :math:`x^4+x^2` and :math:`((x^2)^4)^2` the right
# second derivatives at 2 are 50 and 3932160. Compare them with the second number of each
# pair below, which you get without a warning:

slips = twice(lambda x: Once.apply(x) + x**2, x), twice(lambda x: Once.apply(x**2) ** 2, x)
slips

# %%
# Both second derivatives are wrong. A reliable remedy is to write the product :math:`4x^3v`
# as a second Function, of ``x`` *and* ``v``. Its ``backward`` contains the derivatives with
# respect to both, :math:`12x^2v` and :math:`4x^3`. With this Function the second
# derivatives are right. If you would rather be sure that a second derivative is refused,
# raise an error in the ``backward`` of the second Function:


class FourthVJP(Function):
    @staticmethod
    def forward(ctx, x, v):
        ctx.save_for_backward(x, v)
        return torch.from_numpy(4 * x.numpy() ** 3 * v.numpy())

    @staticmethod
    def backward(ctx, u):
        x, v = ctx.saved_tensors
        return 12 * x**2 * v * u, 4 * x**3 * u


class ByNumPy(Once):
    backward = staticmethod(lambda ctx, v: FourthVJP.apply(*ctx.saved_tensors, v))


twice(lambda x: ByNumPy.apply(x) + x**2, x), twice(lambda x: ByNumPy.apply(x**2) ** 2, x)

# %%
# As a check, we compare the three right Functions with PyTorch's own power and with
# difference quotients of the gradient. We also check that the two faulty Functions give
# exactly the wrong numbers shown above:

points = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
for f in (Fourth.apply, lambda x: Returned.apply(x)[0], ByNumPy.apply):
    assert twice(f, x) == twice(lambda x: x**4, x) == (32, 48)
    assert gradgradcheck(f, (points,))
assert twice(lambda x: ByNumPy.apply(x**2) ** 2, x) == (16 * 2**15, 240 * 2**14)
assert twice(Intermediate.apply, x) == (32, 16)
assert slips == ((36, 2), (16 * 2**15, 2**18))

# %%
# Where next
# ----------
#
# To multiply a vector by a Hessian, read :ref:`hvp`. :ref:`retain-or-create` explains what
# ``create_graph`` records. To make a Function work in forward mode and under ``vmap``, read
# :ref:`function-under-transforms`.
#
# .. asked: double backward of a custom Function; second derivative of my Function;
#    once_differentiable; gradgradcheck; custom backward for second order
# .. words: second order, twice, graph of backward, hessian through my function, save
#    outputs, once
