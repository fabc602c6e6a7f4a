r"""
.. _twice-differentiable:

Twice differentiable Functions
==============================

You have written a :class:`torch.autograd.Function`, and somebody wants a second derivative
through it. If ``backward`` is made of differentiable operations on the inputs, the outputs
and ``v``, PyTorch differentiates it like any code. But if you save anything else that was
computed from x, the first derivative stays right while the second is silently wrong.
"""

# %%
# With ``create_graph=True`` the operations of ``backward`` are recorded, as functions of
# ``v`` and of the :term:`saved tensors <saved tensor>`. Our function is :math:`y=x^4`,
# elementwise. Its product is :math:`4x^3v`, and its second derivative is :math:`f''=12x^2`.
# At 2 these are 32 (for ``v = 1``) and 48.

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
# ``twice`` returns the first and the second derivative. Both are right:


def twice(f, x):
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return g.item(), torch.autograd.grad(g.sum(), x)[0].item()


x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
twice(Fourth.apply, x)

# %%
# What goes wrong
# ---------------
#
# *My first gradient is right, and the second is silently wrong.* Here ``forward`` saves
# :math:`q=x^2`. Since q is neither an input nor an output, ``backward`` treats it as a
# constant. So in :math:`4qx` only the factor x is differentiated. The second derivative
# becomes :math:`4q=16`, and not 48:


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
# ``gradgradcheck`` makes the same comparison for the gradient, here with ones for ``v``,
# and refuses:

print(gradcheck(Intermediate.apply, (x,)))
try:
    gradgradcheck(Intermediate.apply, (x,), torch.ones_like(x))
except RuntimeError as error:
    print(error)

# %%
# One remedy is to compute q again in ``backward``. If that is expensive, return q as an
# output instead. Then q is in the graph and has a :term:`cotangent` of its own,
# :math:`v_q`, which contributes :math:`2xv_q`:


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
# The operations of NumPy cannot be recorded. You declare this with ``once_differentiable``:


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
# Here a second derivative is refused:

(g,) = torch.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
try:
    g.backward()
except RuntimeError as error:
    print(error)

# %%
# Do not rely on this error. It is raised only if ``v`` has a graph, and only if the walk
# back comes to this place, which that of ``autograd.grad(g, x)`` does not. For
# :math:`x^4+x^2` and :math:`((x^2)^4)^2` the right :math:`f''` are 50 and 3932160. Look at
# the second number of each pair, which you get without a warning:

slips = twice(lambda x: Once.apply(x) + x**2, x), twice(lambda x: Once.apply(x**2) ** 2, x)
slips

# %%
# Both second derivatives are wrong. A reliable remedy is to make the product a Function of
# its own, of ``x`` *and* ``v``, with both its derivatives, :math:`12x^2v` and :math:`4x^3`.
# With this Function the second derivatives are right. If you would rather be sure that they
# are refused, raise an error in its ``backward``:


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
# We compare the right ways with PyTorch's own power and with differences of the gradient,
# and repeat the wrong numbers as assertions:

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
# :ref:`hvp` is about products of the Hessian, :ref:`retain-or-create` about what
# ``create_graph`` records, and :ref:`function-under-transforms` about forward mode and
# ``vmap``.
#
# .. asked: double backward of a custom Function; second derivative of my Function;
#    once_differentiable; gradgradcheck; custom backward for second order
# .. words: second order, twice, graph of backward, hessian through my function, save
#    outputs, once
