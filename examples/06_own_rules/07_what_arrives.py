r"""
.. _what-backward-is-handed:

What is v like inside of my backward: its strides, its owner, its graph?
========================================================================

You write the backward of a custom Function and want to know what you may assume about
``v``, or ``grad_output``. It has the shape and dtype of the output. Nothing is promised
about its memory. It may be a single number with strides of 0, or be shared with other
tensors. Inside ``backward`` no graph is recorded, unless somebody has asked for
``create_graph=True``. If a kernel of yours reads memory, give it ``v.contiguous()``, and
never edit ``v`` in place.
"""

# %%
# For an output of shape ``(2, 3)`` the :term:`cotangent` has that shape, too. How it lies
# in memory depends on what follows the Function. The backward of ``sum`` sends one number
# for all six places, and that of a transpose sends columns one after the other. This rule
# prints what arrives:

import torch
from torch.autograd import Function, gradcheck


class Shown(Function):
    forward = staticmethod(lambda ctx, x: 1 * x)

    @staticmethod
    def backward(ctx, v):
        print(tuple(v.shape), v.stride(), v.is_contiguous())
        return v


# %%
# We call the same Function three times, each time with a different operation after it. Look
# at the strides, and at whether ``v`` is contiguous:

x = torch.arange(6.0).reshape(2, 3).requires_grad_()
for after in (torch.sum, lambda y: (y**2).sum(), lambda y: (y.T.contiguous() ** 2).sum()):
    after(Shown.apply(x)).backward()

# %%
# What goes wrong
# ---------------
#
# *view size is not compatible with input tensor's size and stride.* You get this message
# in a backward that has worked with another loss. If a kernel of your own reads the
# memory in order, you get wrong numbers instead, without a warning. The second rule below
# does what such a kernel would:


class Viewed(Shown):
    backward = staticmethod(lambda ctx, v: v.view(6).view(2, 3))


class Kernel(Shown):
    backward = staticmethod(lambda ctx, v: v.as_strided((2, 3), (3, 1)))


class Mended(Shown):
    backward = staticmethod(lambda ctx, v: Kernel.backward(ctx, v.contiguous()))


# %%
# The right answer is :math:`2x`, so 0, 2, 4, 6, 8, 10. Only the third rule gives it. Its
# ``contiguous`` makes a copy if one is needed:

for rule in (Viewed, Kernel, Mended):
    try:
        loss = (rule.apply(x).T.contiguous() ** 2).sum()
        print(rule.__name__, torch.autograd.grad(loss, x)[0].tolist())
    except RuntimeError as error:
        print(rule.__name__, str(error).partition(" (")[0])

# %%
# *May I write into v, to save memory?* No. Another branch of the graph may hold the same
# tensor, and so may whoever has passed it. Here ``left`` has the slope 1, and we pass ones
# for v. In the first line the gradient with respect to x is not asked for, so the edit is
# not made, and everything is right. In the second line it has reached the gradient of
# ``left`` and our own ``v``:


class InPlace(Shown):
    backward = staticmethod(lambda ctx, v: v.mul_(10))


v, left = torch.ones(2, 3), torch.zeros(2, 3, requires_grad=True)
for inputs in ((left,), (left, x)):
    print(torch.autograd.grad(left + InPlace.apply(x), inputs, v)[0][0], v[0])

# %%
# autograd.grad inside of backward
# --------------------------------
#
# ``backward`` runs without grad mode, unless somebody has asked for ``create_graph=True``.
# So what you compute there has no graph. If you want to differentiate inside ``backward``,
# turn grad mode on, and start from a detached x, which is a leaf of your own:


class Recomputed(Function):
    enable = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, v):
        own = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.set_grad_enabled(Recomputed.enable):
            y = own**3
        return torch.autograd.grad(y, own, v)[0]


# %%
# The first line is without grad mode, the second with it:

for Recomputed.enable in (False, True):
    try:
        print(torch.autograd.grad(Recomputed.apply(x).sum(), x)[0])
    except RuntimeError as error:
        print(error)

# %%
# This Function has no second derivative, because ``own`` is cut off from x. So mark it
# ``once_differentiable`` (:ref:`twice-differentiable`). If you use :func:`torch.func.vjp`
# inside backward, you need no switch at all, because it turns grad mode on for itself.

# %%
# Complex numbers
# ---------------
#
# ``v`` is complex if the output is, and the rule is :math:`\overline{J}^\top v`. So for
# :math:`y=z^2` the product is not :math:`2zv` but :math:`2\bar zv`. ``gradcheck`` tells the
# two apart:


class Square(Shown):
    conjugate = True

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z**2

    @staticmethod
    def backward(ctx, v):
        (z,) = ctx.saved_tensors
        return 2 * (z.conj() if Square.conjugate else z) * v


# %%
# Here are its verdicts without the conjugate and with it:

z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
for Square.conjugate in (False, True):
    print(Square.conjugate, gradcheck(Square.apply, z, raise_exception=False))

# %%
# As a check, we compare our rules with torch's own for the same functions:

torch.testing.assert_close(
    torch.autograd.grad(Recomputed.apply(x).sum(), x)[0], 3 * x.detach() ** 2
)
loss = (Mended.apply(x).T.contiguous() ** 2).sum()
assert torch.equal(torch.autograd.grad(loss, x)[0], 2 * x.detach())
ours, own = (
    torch.autograd.grad(f(z).abs().sum(), z)[0] for f in (Square.apply, torch.square)
)
torch.testing.assert_close(ours, own)

# %%
# Where next
# ----------
#
# :ref:`custom-function` explains the parts of a Function, and :ref:`ctx-or-saved` where to
# keep what backward needs. :ref:`complex-v` tells what a complex v means, and :ref:`hooks`
# shows the same edit in a hook.
#
# .. asked: is grad_output contiguous; strides of grad_output; may I edit grad_output;
#    expanded gradient; memory of the incoming gradient
# .. words: contiguous, stride zero, expanded, view, in place edit, None, kernel, zeros
