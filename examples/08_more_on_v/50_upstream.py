r"""
.. _upstream:

v is the upstream gradient: feeding dz/dy onward, cutting a graph in two
========================================================================

If a number :math:`z` is computed from :math:`y` elsewhere, pass :math:`\partial
z/\partial y` as ``v``: then ``y.backward(v)`` gives :math:`\partial z/\partial x`, as one
graph would.
"""

# %%
# A chain :math:`x\to y\to z`: ``y = x**2`` has shape ``(3,)``, and :math:`z=y_1+10y_2+
# 100y_3` is a number. In one graph, ``z.backward()`` gives
# :math:`\partial z/\partial x`. ``z``, where it starts, is the :term:`root`, ``x`` is a
# :term:`leaf`, and ``y`` is neither:

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
# Now ``y`` and ``z`` are computed apart. The second half starts from a
# :term:`detached <detach>` ``y``, a leaf of its own:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
cut = y.detach().requires_grad_()
z = (cut * torch.tensor([1.0, 10.0, 100.0])).sum()
z.backward()
print("dz/dy =", cut.grad)
print("x.grad =", x.grad)

# %%
# The :term:`gradient` stopped at the cut. Feed it onward as ``v``, the
# :term:`upstream gradient`, also called :term:`external gradient`:

y.backward(cut.grad)
x.grad

# %%
# Why it works
# ------------
#
# With gradients as rows, :math:`\nabla_x z=\nabla_y z\;J`: the product of a row and the
# :term:`Jacobian`. So :math:`v^\top=\nabla_y z`, which in PyTorch is the tensor
# ``cut.grad`` of ``y``'s shape, with no transposing. Inside one graph every operation
# receives such a ``v`` from above and hands the product with its own Jacobian down,
# without ever forming that Jacobian (:ref:`never-forms-j`):

J = torch.func.jacfwd(torch.square)(x.detach())
cut.grad @ J

# %%
# *Is a factor m missing?* No. The :term:`chain rule` says :math:`\partial z/\partial x_j=
# \sum_i(\partial z/\partial y_i)(\partial y_i/\partial x_j)`, and that sum over the
# :math:`m` outputs *is* the product. With :math:`y=(\sum x_i,\;\prod x_i)` and
# :math:`z=y_1y_2`, by the product and by one graph:

J = torch.func.jacfwd(lambda x: torch.stack([x.sum(), x.prod()]))(x.detach())
v = torch.tensor([6.0, 6.0])  # (dz/dy1, dz/dy2) = (y2, y1) at y = (6, 6)
print(v @ J)
print(torch.autograd.grad(x.sum() * x.prod(), x)[0])

# %%
# The other half need not be PyTorch
# ----------------------------------
#
# All that must cross the cut is :math:`\partial z/\partial y`. Here NumPy computes a
# loss :math:`z=\sum_i\sin y_i` and its gradient, with the entries :math:`\cos y_i`:

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
# If ``z`` is a vector, ``z.backward(ones)`` stores :math:`\nabla_y\sum_iz_i`, a sum of
# rows, not the matrix :math:`dz/dy`. The cut then carries that sum onward and no more:

cut = torch.tensor([1.0, 4.0, 9.0], requires_grad=True)
z = torch.stack([cut.sum(), cut.prod()])
z.backward(torch.ones(2))
print(cut.grad)
print(torch.func.jacrev(lambda y: torch.stack([y.sum(), y.prod()]))(cut.detach()))

# %%
# Feeding the gradient with respect to the wrong tensor is caught only when its shape
# differs from ``y``'s. ``x.grad`` has the shape of ``x``, which is that of ``x**2``, so
# the first call gives a wrong number and no error:

print(torch.autograd.grad(x**2, x, x.grad)[0])
try:
    torch.autograd.grad((x**2).sum(0, keepdim=True), x, x.grad)
except RuntimeError as error:
    print(error)

# %%
# *A state kept and fed on at every step* (truncated backpropagation): ``cut.grad`` adds up
# from step to step, as that of any leaf, and no ``zero_grad`` of the model reaches it. Of
# :math:`x_t=w^tx_0` after three steps, walked back state by state:


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
# The slope :math:`3w^2x_0` comes of emptying each ``cut.grad`` before it is filled, or of
# ``autograd.grad`` by the cut and w, which adds nothing to any ``.grad``:

(spoilt, _), (w, steps) = walked_back(False), walked_back(True)
v, by_grad = torch.tensor(1.0), torch.tensor(0.0)
for cut, out in reversed(steps):
    v, part = torch.autograd.grad(out, (cut, w), v)
    by_grad += part
print(spoilt.grad, w.grad, by_grad)
torch.testing.assert_close(by_grad, torch.tensor(3 * 0.2**2 * 0.9))

# %%
# One graph from ``x`` to the sine, which never saw NumPy, gives what the cut one gave:

t = x.detach().requires_grad_()
(whole,) = torch.autograd.grad(torch.sin(t**2).sum(), t)
torch.testing.assert_close(x.grad, whole)
whole

# %%
# The second half alone: :math:`y_0y_1` as a function of y. Its row is the v that the first
# half receives:

import pullback

pullback.live(lambda y: y.prod(), torch.tensor([6.0, 2.0]))

# %%
# Where next
# ----------
#
# A graph by hand, with ``v`` on every edge: :ref:`small-graph`. The chain rule as a row
# of such products: :ref:`vjp-and-chain-rule`.
#
# .. asked: upstream gradient; external gradient; pass dz/dy to backward; continue
#    backward from a given gradient; gradient from another part of the model
