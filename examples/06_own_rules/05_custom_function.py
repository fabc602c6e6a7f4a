r"""
.. _custom-function:

A Function whose backward is a VJP
==================================

In a :class:`torch.autograd.Function`, ``backward`` receives ``v`` and returns
:math:`J^\top v`: ``grad_output`` *is* the vector that reaches this operation, in the shape
of its output, and what you return has the shape of its input.
"""

# %%
# For :math:`y_i=x_i^3` with ``x`` and ``y`` of shape ``(n,)`` the :term:`Jacobian` is
# diagonal with entries :math:`3x_i^2`, so its :term:`VJP` is :math:`3x_i^2v_i`. What
# ``backward`` needs of the inputs or outputs, ``forward`` puts aside:

import torch
from torch.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, v):
        print("backward received", v)
        (x,) = ctx.saved_tensors
        return 3 * x**2 * v


# %%
# Call it by ``apply``. ``v`` arrives as you passed it, or as what follows passes it on:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1.0, 10.0, 100.0])
Cube.apply(x).backward(v)
(7 * Cube.apply(x)).backward(v)
(cubed := x.grad)

# %%
# One gradient for each input
# ---------------------------
#
# ``backward`` returns one value for each argument, and ``None`` for what is not a tensor.
# ``ctx.needs_input_grad`` says which are wanted:


class Product(Function):
    @staticmethod
    def forward(ctx, a, b, k):
        ctx.save_for_backward(a, b)  # tensors
        ctx.k = k  # anything else
        return k * a * b

    @staticmethod
    def backward(ctx, v):
        a, b = ctx.saved_tensors
        for_a, for_b, _ = ctx.needs_input_grad
        return ctx.k * b * v if for_a else None, ctx.k * a * v if for_b else None, None


# %%
# ``b`` requires no gradient here, so its product is never computed:

a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 5.0])
y = Product.apply(a, b, 2)
print(y.grad_fn.needs_input_grad)
torch.autograd.grad(y, a, torch.ones(2))

# %%
# One cotangent for each output
# -----------------------------
#
# ``backward`` receives a :term:`cotangent` for each output and adds the products up.
# ``mark_non_differentiable`` declares an output that has no derivative:


class Ordered(Function):
    @staticmethod
    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        values, index = x.sort()
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        return values, values.sum(), index

    @staticmethod
    def backward(ctx, *v):
        print("backward received", *v)
        (index,), (by_values, by_sum, _) = ctx.saved_tensors, v
        g = torch.zeros(len(index))
        if by_values is not None:
            g = g + by_values[index.argsort()]
        return (g if by_sum is None else g + by_sum), None


# %%
# Where nobody uses an output, zeros arrive, or, after ``set_materialize_grads(False)``,
# None. The rule must then expect None for each of its outputs, and the first is no
# exception. Here are the first alone and the second alone:

x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
for materialize in (True, False):
    outputs = Ordered.apply(x, materialize)
    (pulled,) = torch.autograd.grad(outputs[0], x, v, retain_graph=True)
    (of_sum,) = torch.autograd.grad(outputs[1], x)
    assert torch.equal(of_sum, torch.ones(3))
pulled, [output.requires_grad for output in outputs]

# %%
# What ``forward`` overwrites must be declared by ``mark_dirty``, or ``a`` keeps its old
# history, of slope 1, for its new numbers:


class Double(Function):
    @staticmethod
    def forward(ctx, a, declare):
        if declare:
            ctx.mark_dirty(a)
        return a.mul_(2)

    backward = staticmethod(lambda ctx, v: (2 * v, None))


for declare in (True, False):
    x = torch.tensor([1.0], requires_grad=True)
    Double.apply(a := x * 1, declare)
    print("declared:", declare, "slope:", torch.autograd.grad(a, x)[0].item())

# %%
# What goes wrong
# ---------------
#
# *forward returns x as it is, for a gradient reversal: is backward called?* Yes, also where
# x is no leaf: the first rule turns the sign. The engine counts what you return, compares
# shapes, casts the dtype, here from float64, and sums one to which the input could be
# broadcast, here to four times:


class Same(Function):
    forward = staticmethod(lambda ctx, x: x)


x = torch.ones(3, requires_grad=True)
for f in (torch.neg, lambda v: (v, v), lambda v: v[:2], lambda v: v.double().expand(4, 3)):
    Same.backward = staticmethod(lambda ctx, v, f=f: f(v))
    try:
        print(torch.autograd.grad(Same.apply(1 * x), x, torch.ones(3))[0])
    except RuntimeError as error:
        print(error)

# %%
# *Why is my backward not called?* It was not recorded: the tensors are in a list (pass
# ``*tensors``) or a module (:ref:`error-module-in-a-function`), no input requires a
# gradient, or ``forward`` was called without ``apply``:


class First(Function):
    forward = staticmethod(lambda ctx, pair: pair[0] ** 2)
    backward = staticmethod(lambda ctx, v: 1 / 0)  # never reached


print(First.apply([x, x]).grad_fn, First.apply(x.detach()).grad_fn)
print(type(First.forward(None, [x, x]).grad_fn).__name__)  # PyTorch's own rule, not yours

# %%
# The check: formulas, PyTorch's own rules for the same functions, and differences:

assert cubed.tolist() == [8 * 3, 8 * 12 * 10, 8 * 27 * 100]
x = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
(ours,) = torch.autograd.grad(Product.apply(x, 2 * x, 3).sum(), x)
torch.testing.assert_close(ours, 12 * x.detach())  # of 6 x^2
assert pulled.tolist() == torch.autograd.grad(x.sort()[0], x, v.double())[0].tolist()
assert torch.autograd.gradcheck(Product.apply, (x, x.detach() ** 2, 2.0))

# %%
# Where next
# ----------
#
# The rule: :ref:`deriving-vjps`; its test: :ref:`gradcheck`; :ref:`twice-differentiable`.
#
# .. asked: custom backward; torch.autograd.Function; write my own gradient; define
#    forward and backward; own derivative; replace the derivative of a function; custom
#    layer with its own gradient; what is grad_output; fake gradient; my own derivative
#    formula; layer with its own backward; fake derivative for a step function; override
#    the gradient
