r"""
.. _upstream:

v is the upstream gradient: feeding dz/dy onward, cutting a graph in two
========================================================================

Half of your calculation is in PyTorch, and the other half is somewhere else, for example in
NumPy, in a simulator, or in another process. How do you get the gradient through both? Let
PyTorch compute :math:`y` from :math:`x`. If a number :math:`z` is computed from :math:`y`
elsewhere, pass :math:`\partial z/\partial y` as ``v``. Then ``y.backward(v)`` gives
:math:`\partial z/\partial x`, as a single graph would.
"""

# %%
# We begin with one graph, a chain :math:`x\to y\to z`. ``y = x**2`` has shape ``(3,)``, and
# :math:`z=y_1+10y_2+100y_3` is a number, so ``z.backward()`` gives :math:`\partial
# z/\partial x`. In the words of PyTorch, ``x`` is a :term:`leaf`, and ``z``, where the
# backward pass starts, is the :term:`root` of the graph. ``y`` is neither a leaf nor the
# root:

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
z = (y * torch.tensor([1.0, 10.0, 100.0])).sum()
z.backward()
print(x.is_leaf, y.is_leaf, z.is_leaf)
x.grad

# %%
# Cut the graph in two
# --------------------
#
# Now we compute ``y`` and ``z`` separately. The second half starts from ``cut``, a
# :term:`detached <detach>` tensor that shares the data of ``y`` and is a leaf. After
# ``z.backward()`` this leaf has a gradient, whereas ``x`` has none:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
cut = y.detach().requires_grad_()
z = (cut * torch.tensor([1.0, 10.0, 100.0])).sum()
z.backward()
print("dz/dy =", cut.grad)
print("x.grad =", x.grad)

# %%
# The :term:`gradient` has stopped at the cut. Pass it on as ``v``, and ``x.grad`` is the
# same as before. A ``v`` that comes from a later part of the calculation is called the
# :term:`upstream gradient`, or :term:`external gradient`:

y.backward(cut.grad)
x.grad

# %%
# Why it works
# ------------
#
# If we write gradients as rows, the chain rule says :math:`\nabla_x z=\nabla_y z\;J`, the
# product of a row and the :term:`Jacobian`. So :math:`v^\top=\nabla_y z`. In PyTorch this
# is the tensor ``cut.grad``, which has the shape of ``y``, and there is nothing to
# transpose. Inside one graph the same happens at every operation. In the backward pass,
# each operation receives such a ``v`` from the operation that came after it in the forward
# pass. It passes the product of this ``v`` and its own Jacobian on to the operation that
# came before it, and it never forms that Jacobian (:ref:`never-forms-j`). For our square
# the product is:

J = torch.func.jacfwd(torch.square)(x.detach())
cut.grad @ J

# %%
# *Is a factor m missing?* No. The :term:`chain rule` says :math:`\partial z/\partial x_j=
# \sum_i(\partial z/\partial y_i)(\partial y_i/\partial x_j)`, and the sum over the
# :math:`m` outputs *is* the product. As an example with two outputs, take :math:`y=(\sum
# x_i,\;\prod x_i)` and :math:`z=y_1y_2`. The first line of the output is the product, and
# the second is from one graph:

J = torch.func.jacfwd(lambda x: torch.stack([x.sum(), x.prod()]))(x.detach())
v = torch.tensor([6.0, 6.0])  # (dz/dy1, dz/dy2) = (y2, y1) at y = (6, 6)
print(v @ J)
print(torch.autograd.grad(x.sum() * x.prod(), x)[0])

# %%
# The other half need not be PyTorch
# ----------------------------------
#
# In the forward pass, the other half gets the values of :math:`y`. In the backward pass,
# the only thing that has to come back across the cut is :math:`\partial z/\partial y`. In
# the next example NumPy computes this gradient, for the loss :math:`z=\sum_i\sin y_i`. The
# gradient has the entries :math:`\cos y_i`:

import numpy as np

x.grad = None
y = x**2
outside = np.cos(y.detach().numpy())
y.backward(torch.from_numpy(outside))
x.grad

# %%
# What goes wrong
# ---------------
#
# If ``z`` is a vector, ``z.backward(ones)`` stores :math:`\nabla_y\sum_iz_i`. This is the
# sum of the rows of the matrix :math:`dz/dy`, and not the matrix itself. At the cut you can
# then pass on only this sum. We print the sum, and the matrix below it:

cut = torch.tensor([1.0, 4.0, 9.0], requires_grad=True)
z = torch.stack([cut.sum(), cut.prod()])
z.backward(torch.ones(2))
print(cut.grad)
print(torch.func.jacrev(lambda y: torch.stack([y.sum(), y.prod()]))(cut.detach()))

# %%
# It is easy to pass on the gradient with respect to the wrong tensor. PyTorch notices
# this mistake only if the shape of the gradient differs from the shape of ``y``. In the
# code below we pass ``x.grad`` as ``v``. It has the shape of ``x``, and ``x**2`` has the
# same shape. So the first call gives a wrong result and no error. In the second call the
# output has a different shape, and PyTorch refuses ``x.grad``:

print(torch.autograd.grad(x**2, x, x.grad)[0])
try:
    torch.autograd.grad((x**2).sum(0, keepdim=True), x, x.grad)
except RuntimeError as error:
    print(error)

# %%
# *I keep a state and pass it on at every step.* In truncated backpropagation you cut the
# graph at each step and go back through the last few steps. Each ``cut.grad`` accumulates
# from step to step, as the gradient of any leaf does, and ``zero_grad`` on the model does
# not clear it. Our example is :math:`x_t=w^tx_0`. It has only three steps, and so it
# truncates nothing. At each step the function below goes back, state by state, through all
# the steps so far:


def walked_back(empty):
    w, state, steps = torch.tensor(0.2, requires_grad=True), torch.tensor(0.9), []
    for _ in range(3):
        cut = state.detach().requires_grad_()
        state = w * cut
        steps.append((cut, state))
        w.grad, v = None, torch.tensor(1.0)
        for cut, out in reversed(steps):
            cut.grad = None if empty else cut.grad
            out.backward(v, retain_graph=True)
            v = cut.grad
    return w, steps


# %%
# After three steps the slope is :math:`3w^2x_0`. You get this slope if you clear each
# ``cut.grad`` before it is filled again. You also get this slope if you call
# ``autograd.grad`` with respect to the cut and ``w``, because ``autograd.grad`` adds
# nothing to any ``.grad``. The first number of the output is from the run that did not
# clear each ``cut.grad``, the second is from the run that did, and the third is from
# ``autograd.grad``:

(spoilt, _), (w, steps) = walked_back(False), walked_back(True)
v, by_grad = torch.tensor(1.0), torch.tensor(0.0)
for cut, out in reversed(steps):
    v, part = torch.autograd.grad(out, (cut, w), v)
    by_grad += part
print(spoilt.grad, w.grad, by_grad)
torch.testing.assert_close(by_grad, torch.tensor(3 * 0.2**2 * 0.9))

# %%
# As a check, we compute the NumPy example again, now as a single graph in PyTorch, from
# ``x`` to the sum of the sines. The gradient is the same as with the cut. We also check
# that ``detach`` copies nothing:

t = x.detach().requires_grad_()
(whole,) = torch.autograd.grad(torch.sin(t**2).sum(), t)
torch.testing.assert_close(x.grad, whole)
assert y.detach().data_ptr() == y.data_ptr()
whole

# %%
# Here you can play with only the second half of a calculation. It multiplies the two
# entries of ``y``. The Jacobian of this function has a single row, which is the ``v``
# that the first half receives:

import pullback

pullback.live(lambda y: y.prod(), torch.tensor([6.0, 2.0]))

# %%
# Where next
# ----------
#
# :ref:`small-graph` draws a graph by hand, with ``v`` on every edge.
# :ref:`vjp-and-chain-rule` shows the chain rule as a series of such products.
#
# .. asked: upstream gradient; external gradient; pass dz/dy to backward; continue
#    backward from a given gradient; gradient from another part of the model
# .. words: next stage, dz/dy, continue, joined, cut, manual chain rule, handed over
