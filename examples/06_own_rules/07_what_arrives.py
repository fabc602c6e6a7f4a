r"""
.. _what-backward-is-handed:

What is v like inside my backward: its strides, its owner, its graph?
=====================================================================

You write the ``backward`` of a custom Function and want to know what you may assume about
``v``, or ``grad_output``. You may assume that ``v`` has the shape and dtype of the output.
Nothing is promised about its memory: ``v`` may be a single number with strides of 0, and it
may share its memory with other tensors. Inside ``backward`` no graph is recorded, unless
the caller has passed ``create_graph=True``. If your ``backward`` calls a kernel that reads
memory in order, give the kernel ``v.contiguous()``, and never edit ``v`` in place.
"""

# %%
# If the output of a Function has the shape ``(2, 3)``, its :term:`cotangent` has that
# shape, too. How the cotangent is laid out in memory depends on the operation that follows
# the Function. The backward rule of ``sum`` sends one number that stands for all six
# entries, and the rule of a transpose sends a tensor whose columns lie one after the other
# in memory. The ``backward`` of the Function below prints the shape and the strides of the
# ``v`` that it receives:

import torch
from torch.autograd import Function, gradcheck


class Shown(Function):
    forward = staticmethod(lambda ctx, x: 1 * x)

    @staticmethod
    def backward(ctx, v):
        print(tuple(v.shape), v.stride(), v.is_contiguous())
        return v


# %%
# We call the same Function three times, each time with a different operation after it. For
# each call, look at the strides of ``v``, and at whether ``v`` is contiguous:

x = torch.arange(6.0).reshape(2, 3).requires_grad_()
for after in (torch.sum, lambda y: (y**2).sum(), lambda y: (y.T.contiguous() ** 2).sum()):
    after(Shown.apply(x)).backward()

# %%
# What goes wrong
# ---------------
#
# *view size is not compatible with input tensor's size and stride.* You may get this
# message from a backward rule that worked with a different loss. If your rule calls a
# kernel that reads the memory in order, you get wrong numbers instead, without a warning.
# The second rule below does what such a kernel would do:


class Viewed(Shown):
    backward = staticmethod(lambda ctx, v: v.view(6).view(2, 3))


class Kernel(Shown):
    backward = staticmethod(lambda ctx, v: v.as_strided((2, 3), (3, 1)))


class Mended(Shown):
    backward = staticmethod(lambda ctx, v: Kernel.backward(ctx, v.contiguous()))


# %%
# The right gradient is :math:`2x`, whose entries are 0, 2, 4, 6, 8, 10. Only the third rule
# returns this gradient, because it calls ``contiguous``, which makes a copy if ``v`` is not
# laid out in order:

for rule in (Viewed, Kernel, Mended):
    try:
        loss = (rule.apply(x).T.contiguous() ** 2).sum()
        print(rule.__name__, torch.autograd.grad(loss, x)[0].tolist())
    except RuntimeError as error:
        print(rule.__name__, str(error).partition(" (")[0])

# %%
# *May I write into v, to save memory?* No. Another branch of the graph may hold the same
# tensor, and so may the code that called ``backward``. Below, the derivative with respect
# to ``left`` is 1, and we pass ones for ``v``. For the first line of the output we do not
# ask for the gradient with respect to ``x``, so the rule does not run, and everything is
# right. For the second line we ask for that gradient, too. Now the rule runs, and its
# edit also changes the gradient with respect to ``left`` and our own ``v``:


class InPlace(Shown):
    backward = staticmethod(lambda ctx, v: v.mul_(10))


v, left = torch.ones(2, 3), torch.zeros(2, 3, requires_grad=True)
for inputs in ((left,), (left, x)):
    print(torch.autograd.grad(left + InPlace.apply(x), inputs, v)[0][0], v[0])

# %%
# autograd.grad inside backward
# -----------------------------
#
# While ``backward`` runs, grad mode is off, unless the caller has passed
# ``create_graph=True``. So the tensors that you compute in ``backward`` have no graph. If
# you want to differentiate inside ``backward``, turn grad mode on, and start from a
# detached ``x``, which is then a leaf of a separate graph:


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
# The first line of the output is from a call without grad mode, and the second is from a
# call with grad mode:

for Recomputed.enable in (False, True):
    try:
        print(torch.autograd.grad(Recomputed.apply(x).sum(), x)[0])
    except RuntimeError as error:
        print(error)

# %%
# This Function has no second derivative, because ``own`` is cut off from x. So mark its
# ``backward`` as ``once_differentiable`` (:ref:`twice-differentiable`). If you use
# :func:`torch.func.vjp` inside ``backward``, you do not have to turn grad mode on, because
# ``vjp`` does this itself.

# %%
# Complex numbers
# ---------------
#
# If the output is complex, ``v`` is complex, too, and ``backward`` has to return
# :math:`\overline{J}^\top v`. So for :math:`y=z^2` it has to return :math:`2\bar zv`, and
# not :math:`2zv`. ``gradcheck`` can tell these two products apart:


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
# Here are the verdicts of ``gradcheck``, first without the conjugate and then with it:

z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
for Square.conjugate in (False, True):
    print(Square.conjugate, gradcheck(Square.apply, z, raise_exception=False))

# %%
# As a check, we compare our rules with torch's own rules for the same functions:

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
# :ref:`custom-function` explains the parts of a Function. :ref:`ctx-or-saved` explains
# where ``forward`` should keep what ``backward`` needs. For the meaning of a complex ``v``,
# read :ref:`complex-v`. :ref:`hooks` shows what the same edit in place does in a hook.
#
# .. asked: is grad_output contiguous; strides of grad_output; may I edit grad_output;
#    expanded gradient; memory of the incoming gradient
# .. words: contiguous, stride zero, expanded, view, in place edit, None, kernel, zeros
