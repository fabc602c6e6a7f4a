r"""
.. _upstream:

v is the upstream gradient: feeding dz/dy onward, cutting a graph in two
========================================================================

If :math:`z` is computed from :math:`y` elsewhere, pass ``v`` :math:`=\partial z/\partial
y`: then ``y.backward(v)`` gives :math:`\partial z/\partial x`, as one graph would.
"""

# %%
# A chain :math:`x\to y\to z`: ``y = x**2`` has shape ``(3,)``, and ``z`` is a number made
# from it. In one graph, ``z.backward()`` gives :math:`\partial z/\partial x`:

import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
z = (y * torch.tensor([1.0, 10.0, 100.0])).sum()
z.backward()
x.grad

# %%
# Cut the graph in two
# --------------------
#
# Now ``y`` and ``z`` are computed apart. The second half starts from a copy of ``y``
# that is a :term:`leaf` of its own:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x**2
cut = y.detach().requires_grad_()
z = (cut * torch.tensor([1.0, 10.0, 100.0])).sum()
z.backward()
print("dz/dy =", cut.grad)
print("x.grad =", x.grad)

# %%
# The gradient stopped at the cut. Feed it onward as ``v``, the *upstream gradient*, also
# called *external gradient*:

y.backward(cut.grad)
x.grad

# %%
# Why it works
# ------------
#
# With gradients as rows, :math:`\nabla_x z=\nabla_y z\;J`: the product of a row and the
# Jacobian. So :math:`v^\top=\nabla_y z`, which in PyTorch is the tensor ``cut.grad`` of
# ``y``'s shape, with no transposing. Inside one graph every operation receives such a
# ``v`` from above, multiplies by its own Jacobian, and hands the result down:

J = torch.diag(2 * x.detach())
cut.grad @ J

# %%
# In this chain ``z`` is the :term:`root` and ``x`` is the leaf; ``y`` is neither:

y = x**2
print(x.is_leaf, y.is_leaf)

# %%
# The other half need not be PyTorch
# ----------------------------------
#
# All that must cross the cut is :math:`\partial z/\partial y`. Here NumPy computes a
# loss :math:`z=\sum\sin y_i` and its gradient :math:`\cos y_i`:

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
# differs from ``y``'s:

y = (x**2).sum(0, keepdim=True)
try:
    y.backward(x.grad)
except RuntimeError as error:
    print(error)

# %%
# The cut graph and the whole graph agree, for NumPy's half as well:

t = x.detach().requires_grad_()
(whole,) = torch.autograd.grad(torch.sin(t**2).sum(), t)
torch.testing.assert_close(x.grad, whole)

# %%
# Where next
# ----------
#
# A graph by hand, with ``v`` on every edge: :ref:`small-graph`. The chain rule as a row
# of such products: :ref:`vjp-and-chain-rule`.
