r"""
.. _twice-differentiable:

Twice differentiable Functions
==============================

If ``backward`` is made of differentiable operations on the inputs, the outputs and ``v``,
PyTorch differentiates it like any code. Save anything else that was computed from x, and
the first derivative stays right while the second is silently wrong.
"""

# %%
# With ``create_graph=True`` the operations of ``backward`` are recorded, as functions of
# ``v`` and of the :term:`saved tensors <saved tensor>`. For :math:`y=x^4`, elementwise, the
# product is :math:`4x^3v`, and :math:`f''=12x^2`: at 2 that is 32 and 48.

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
# Twice in a row:


def twice(f, x):
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return g.item(), torch.autograd.grad(g.sum(), x)[0].item()


x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
twice(Fourth.apply, x)

# %%
# What goes wrong
# ---------------
#
# *First gradient right, second silently wrong.* Here ``forward`` keeps :math:`q=x^2`. As q
# is neither input nor output, ``backward`` sees a constant, and of :math:`4qx` only the
# factor x is differentiated, to :math:`4q=16`, not 48:


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
# ``gradcheck`` passes it. ``gradgradcheck`` compares the same way for the gradient, here
# with ones for ``v``, and refuses:

print(gradcheck(Intermediate.apply, (x,)))
try:
    gradgradcheck(Intermediate.apply, (x,), torch.ones_like(x))
except RuntimeError as error:
    print(error)

# %%
# Recompute q in ``backward``; or, if it is dear, return it as an output. Then it is in the
# graph and has a :term:`cotangent` of its own, :math:`v_q`, with product :math:`2xv_q`:


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
# NumPy's operations cannot be recorded. ``once_differentiable`` declares that:


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
# A second derivative is refused:

(g,) = torch.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
try:
    g.backward()
except RuntimeError as error:
    print(error)

# %%
# Don't rely on it. It comes only if ``v`` has a graph, and only to a walk that goes there,
# as that of ``autograd.grad(g, x)`` does not. For :math:`x^4+x^2` and :math:`((x^2)^4)^2`,
# :math:`f''` is 50 and 3932160; you get, without a word:

slips = twice(lambda x: Once.apply(x) + x**2, x), twice(lambda x: Once.apply(x**2) ** 2, x)
slips

# %%
# What holds: make the product a Function of its own, of ``x`` *and* ``v``, with both
# derivatives, :math:`12x^2v` and :math:`4x^3`. (To refuse for certain, raise there.)


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
# The check: PyTorch's own power, and differences of the gradient:

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
# Products of the Hessian: :ref:`hvp`. What ``create_graph`` records:
# :ref:`retain-or-create`. Forward mode and ``vmap``: :ref:`function-under-transforms`.
#
# .. asked: double backward of a custom Function; second derivative of my Function;
#    once_differentiable; gradgradcheck; custom backward for second order
