r"""
.. _custom-function:

A Function whose backward is a VJP
==================================

PyTorch lacks an operation that you need, or differentiates one in a way that you do not
want, and so you write a :class:`torch.autograd.Function` with your own ``backward``. This
``backward`` does for your operation what ``y.backward(v)`` does for a whole program. The
argument of ``backward``, often called ``grad_output``, is the vector ``v`` that arrives
at the output of the operation, and it has the shape of that output. ``backward`` returns
:math:`J^\top v`, which has the shape of the operation's input.
"""

# %%
# Our first operation is the cube, :math:`y_i=x_i^3`. Its :term:`Jacobian` is diagonal with
# the entries :math:`3x_i^2`, so its :term:`VJP` has the entries :math:`3x_i^2v_i`. To
# compute them, ``backward`` needs ``x``, and so ``forward`` saves ``x`` for it:

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
# You call the Function through ``apply``. In the first call below, ``backward`` receives
# ``v`` as we pass it. In the second, the cube is multiplied by 7, and so the ``v`` that
# ``backward`` receives is 7 times as large:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1.0, 10.0, 100.0])
Cube.apply(x).backward(v)
(7 * Cube.apply(x)).backward(v)
(cubed := x.grad)

# %%
# One gradient for each input
# ---------------------------
#
# ``backward`` returns one value for each argument of ``forward`` after ``ctx``. For an
# argument that is not a tensor, this value is ``None``. ``ctx.needs_input_grad`` says for
# which arguments a gradient is wanted, so that you need not compute the gradients for the
# others:


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
# Here ``b`` does not require a gradient, so the gradient with respect to ``b`` is never
# computed:

a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 5.0])
y = Product.apply(a, b, 2)
print(y.grad_fn.needs_input_grad)
torch.autograd.grad(y, a, torch.ones(2))

# %%
# One cotangent for each output
# -----------------------------
#
# If ``forward`` returns several outputs, ``backward`` receives a :term:`cotangent` for each
# output, and has to add up what the cotangents contribute to the gradient. If an output has
# no derivative, like the indices that ``sort`` returns, declare it with
# ``mark_non_differentiable``:


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
# If an output is not used, ``backward`` receives zeros for it. After
# ``ctx.set_materialize_grads(False)`` it receives None instead, which saves the work of
# making the zeros. Your ``backward`` then has to be prepared for None in place of any
# cotangent, including the first. Below we use only the first output, and then only the
# second:

x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
for materialize in (True, False):
    outputs = Ordered.apply(x, materialize)
    (pulled,) = torch.autograd.grad(outputs[0], x, v, retain_graph=True)
    (of_sum,) = torch.autograd.grad(outputs[1], x)
    assert torch.equal(of_sum, torch.ones(3))
pulled, [output.requires_grad for output in outputs]

# %%
# If ``forward`` overwrites its input, declare this with ``mark_dirty``. Without the
# declaration the tensor holds the new numbers, but autograd still knows only the old
# history of the tensor, in which the slope is 1:


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
# PyTorch checks some properties of the gradients that ``backward`` returns, and quietly
# adapts others. We try four rules as the ``backward`` of a Function whose ``forward``
# returns ``x`` unchanged. PyTorch calls ``backward`` even for such a Function. The first
# rule flips the sign, which is known as *gradient reversal*. The second rule returns two
# gradients although only one is expected. The third returns a gradient of the wrong
# shape, and the fourth returns a float64 gradient in a larger shape:


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
# The wrong number of gradients and the wrong shape raise errors, though PyTorch would
# accept extra values that are None. PyTorch does accept the gradient that the last rule
# returns. It casts this gradient to float32, and because an input of shape ``(3,)`` could
# have been broadcast to ``(4, 3)``, it adds up the four rows.
#
# *Why is my backward not called?* Because the call to your Function was not recorded. There
# are several possible reasons. Perhaps no input requires a gradient, or the call ran under
# ``no_grad``. Perhaps you passed a list of tensors: PyTorch does not look for tensors
# inside a list. If so, pass ``*tensors`` instead. Perhaps the tensors belong to a module
# that you passed (:ref:`error-module-in-a-function`). Or you called ``forward`` itself
# instead of ``apply``:


class First(Function):
    forward = staticmethod(lambda ctx, pair: pair[0] ** 2)
    backward = staticmethod(lambda ctx, v: 1 / 0)  # never reached


print(First.apply([x, x]).grad_fn, First.apply(x.detach()).grad_fn)
print(type(First.forward(None, [x, x]).grad_fn).__name__)  # PyTorch's own rule, not yours

# %%
# As a check, we compare the results with formulas, with PyTorch's own rules for the same
# functions, and with difference quotients:

assert cubed.tolist() == [8 * 3, 8 * 12 * 10, 8 * 27 * 100]
x = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
(ours,) = torch.autograd.grad(Product.apply(x, 2 * x, 3).sum(), x)
torch.testing.assert_close(ours, 12 * x.detach())  # the derivative of 6 x^2
assert pulled.tolist() == torch.autograd.grad(x.sort()[0], x, v.double())[0].tolist()
assert torch.autograd.gradcheck(Product.apply, (x, x.detach() ** 2, 2.0))

# %%
# Where next
# ----------
#
# To find the rule for your operation, read :ref:`deriving-vjps`. To test the rule, read
# :ref:`gradcheck`. If your Function is to have a second derivative as well, read
# :ref:`twice-differentiable`.
#
# .. asked: custom backward; torch.autograd.Function; write my own gradient; define
#    forward and backward; own derivative; replace the derivative of a function; custom
#    layer with its own gradient; what is grad_output; fake gradient; my own derivative
#    formula; layer with its own backward; fake derivative for a step function; override
#    the gradient
# .. words: own derivative, override, write the gradient myself, static method, apply, ctx,
#    needs_input_grad, None for a constant, fake, replace, tf.custom_gradient,
#    jax.custom_vjp
