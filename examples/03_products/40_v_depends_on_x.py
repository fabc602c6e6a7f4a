r"""
.. _v-depends-on-x:

What is vᵀJ when v depends on x?
================================

``backward(v)`` treats ``v`` as constant numbers: it gives :math:`J^\top v` with the value
that ``v`` has now, and drops the term that :math:`v'(x)` would add. If you want the
derivative of :math:`v(x)\cdot y(x)`, differentiate that product.
"""

# %%
# The product rule for ``x``, ``y`` and ``v`` of shape ``(n,)``, where :math:`J_v` is the
# :term:`Jacobian` of ``v``:
#
# .. math::
#
#    \nabla_x\bigl(v(x)^\top y(x)\bigr)
#    =\underbrace{J_y^\top v}_{\texttt{y.backward(v)}}+J_v^\top y .
#
# With :math:`y=x^2` and :math:`v=x^3` at 2: :math:`J_y^\top v=2x\cdot x^3=32`, and the
# whole is :math:`(x^5)'=5x^4=80`.

import torch

x = torch.tensor([2.0], requires_grad=True)
y, v = x**2, x**3
y.backward(v, retain_graph=True)
x.grad

# %%
# PyTorch does not complain that ``v`` has a graph; it uses the numbers. The same with
# ``v.detach()``, which says what is meant:

x.grad = None
y.backward(v.detach(), retain_graph=True)
x.grad

# %%
# The whole derivative:

x.grad = None
(v * y).sum().backward()
x.grad

# %%
# *Is (logits * onehot).sum().backward() the same as backward(gradient=...)?*
# With ``v = logits * onehot`` the weights are the logits themselves; with
# ``v = onehot`` they are ones. Two logits, 1 and 2, the second chosen:

logits = torch.tensor([1.0, 2.0], requires_grad=True)
onehot = torch.tensor([0.0, 1.0])
summed = torch.autograd.grad((logits * onehot).sum(), logits)[0]
weighted = torch.autograd.grad(logits * 1.0, logits, logits * onehot)[0]
print(summed, weighted)

# %%
# With a graph through v
# ----------------------
#
# With ``create_graph=True`` the result :math:`J^\top v` is a function of *both*: its
# graph leads back to ``x`` through J and to whatever ``v`` came from. That is how a
# :term:`JVP` is made (:ref:`jvp-from-vjps`), and how a second derivative sees ``v``:

x = torch.tensor([2.0], requires_grad=True)
y, v = x**2, x**3
(g,) = torch.autograd.grad(y, x, v, create_graph=True)  # 2 x * x^3 = 2 x^4
torch.autograd.grad(g, x)[0]  # 8 x^3

# %%
# With ``v`` detached the :math:`x^3` stays the number 8, and the derivative of
# :math:`2x\cdot 8` is 16:

(g,) = torch.autograd.grad(x**2, x, v.detach(), create_graph=True)
torch.autograd.grad(g, x)[0]

# %%
# What goes wrong
# ---------------
#
# A loss with weights computed from the model's own output, such as focal or
# self-normalised weights. Detached weights say "these are constants"; attached weights
# are trained along, and the model may lower the loss by shrinking them. Both run; decide
# which one you mean:

score = torch.tensor([0.5, 2.0], requires_grad=True)
weight = torch.softmax(score, 0)
kept = torch.autograd.grad((weight * score**2).sum(), score, retain_graph=True)[0]
cut = torch.autograd.grad((weight.detach() * score**2).sum(), score)[0]
print(kept.round(decimals=3), cut.round(decimals=3))

# %%
# The check: ``backward(v)`` is the product with ``v`` as numbers, and the product rule
# adds up, with a difference quotient for the whole:

at, h = torch.tensor(2.0, dtype=torch.float64), 1e-6
whole = ((at + h) ** 5 - (at - h) ** 5) / (2 * h)
torch.testing.assert_close(whole, torch.tensor(80.0).double())
assert 2 * at * at**3 + at**2 * 3 * at**2 == 80
torch.testing.assert_close(cut, 2 * score.detach() * torch.softmax(score.detach(), 0))
assert not torch.allclose(kept, cut)

# %%
# Where next
# ----------
#
# Weights on losses: :ref:`loss-as-v`. What ``create_graph`` keeps:
# :ref:`retain-or-create`. What ``detach`` cuts: :ref:`no-grad-detach`.
