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
with_graph = x.grad
with_graph

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
both_terms = x.grad
both_terms

# %%
# *Why is y.backward(y) half of (y * y).sum().backward()?* Both terms of the product rule
# are the same there, and ``backward(y)`` gives one of them:

y = x**2
half = torch.autograd.grad(y, x, y, retain_graph=True)[0]
print(half, torch.autograd.grad((y * y).sum(), x)[0])

# %%
# *loss.backward(loss), is that loss.backward()?* No: it is times the loss's value, which is
# that half again. 0.5, as a tensor of shape ``()``, gives the gradient of half the loss:

loss = (x**3).sum()
for v in (None, loss, torch.tensor(0.5)):
    print(torch.autograd.grad(loss, x, v, retain_graph=True)[0])
for number in (loss, loss**2 / 2, 0.5 * loss):
    print(torch.autograd.grad(number, x, retain_graph=True)[0])

# %%
# *Is (logits * onehot).sum().backward() the same as
# (logits * onehot).backward(gradient=logits * onehot)?* The sum weighs each product by
# one; the second weighs it by its own value, as in the half above. With logits 1 and 2,
# the second chosen:

logits = torch.tensor([1.0, 2.0], requires_grad=True)
chosen = logits * torch.tensor([0.0, 1.0])
summed = torch.autograd.grad(chosen.sum(), logits, retain_graph=True)[0]
weighted = torch.autograd.grad(chosen, logits, chosen, retain_graph=True)[0]
print(summed, weighted)

# %%
# With the sum *and* the gradient it is refused, because a sum takes one number:

try:
    chosen.sum().backward(gradient=chosen)
except RuntimeError as error:
    print(error)

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
through_v = torch.autograd.grad(g, x)[0]  # 8 x^3
through_v

# %%
# With ``v`` detached the :math:`x^3` stays the number 8, and the derivative of
# :math:`2x\cdot 8` is 16:

(g,) = torch.autograd.grad(x**2, x, v.detach(), create_graph=True)
past_v = torch.autograd.grad(g, x)[0]
past_v

# %%
# What goes wrong
# ---------------
#
# A loss with weights computed from the model's own output, such as focal or
# self-normalised weights. Detached weights say "these are constants"; attached weights
# are trained along, and the model can lower the loss by moving weight to where the loss
# is small. Here the first gradient changes its sign. Both run; decide which one you mean:

score = torch.tensor([0.5, 2.0], requires_grad=True)
weight = torch.softmax(score, 0)
kept = torch.autograd.grad((weight * score**2).sum(), score, retain_graph=True)[0]
cut = torch.autograd.grad((weight.detach() * score**2).sum(), score)[0]
print(kept.round(decimals=3), cut.round(decimals=3))

# %%
# *A loss that pays more attention to what is still wrong.* For binary cross entropy,
# ``exp(-loss)`` is the probability that the network gives to the right answer, so one minus
# it is large where the network is wrong. Passed as ``v``, or detached in the formula, this
# weight is a constant. Without ``detach`` the formula gives nearly twice the gradient:

scores = torch.tensor([2.0, -1.0, 0.5], requires_grad=True)
target = torch.tensor([1.0, 0.0, 1.0])
losses = torch.nn.functional.binary_cross_entropy_with_logits(
    scores, target, reduction="none"
)
doubt = 1 - torch.exp(-losses)
as_v = torch.autograd.grad(losses, scores, doubt, retain_graph=True)[0]
fixed, formula = (doubt.detach() * losses).sum(), (doubt * losses).sum()
as_fixed = torch.autograd.grad(fixed, scores, retain_graph=True)[0]
as_formula = torch.autograd.grad(formula, scores)[0]
print(torch.equal(as_v, as_fixed), as_v, as_formula)

# %%
# The check: difference quotients that hold ``v`` still, or let it move:


def quotient(f, at, h=1e-6):
    return (f(at + h) - f(at - h)) / (2 * h)


at = x.detach().double()
for found, f in (
    (with_graph, lambda s: at**3 * s**2),
    (both_terms, lambda s: s**3 * s**2),
    (through_v, lambda s: 2 * s * s**3),
    (past_v, lambda s: 2 * s * at**3),
):
    torch.testing.assert_close(found.double(), quotient(f, at))

# %%
# The gradient with the doubt, by the product rule; and the two gradients of the weighted
# loss, entry by entry:

e, error = torch.exp(-losses).detach(), (torch.sigmoid(scores) - target).detach()
torch.testing.assert_close(as_v, (1 - e) * error)
torch.testing.assert_close(as_formula, (1 - e + losses.detach() * e) * error)

at, p = score.detach().double(), weight.detach().double()
for e, by_kept, by_cut in zip(torch.eye(2).double(), kept, cut, strict=True):
    moving = quotient(lambda t, e=e: torch.softmax(at + t * e, 0) @ (at + t * e) ** 2, 0)
    still = quotient(lambda t, e=e: p @ (at + t * e) ** 2, 0)
    torch.testing.assert_close(
        torch.stack([by_kept, by_cut]), torch.stack([moving, still]).float()
    )

# %%
# Where next
# ----------
#
# Weights on losses: :ref:`loss-as-v`. What ``create_graph`` keeps:
# :ref:`retain-or-create`. What ``detach`` cuts: :ref:`no-grad-detach`.
#
# .. asked: v is computed from x; v depends on the input; gradient argument with
#    requires_grad; is v treated as a constant; product rule for v; weights that depend
#    on the output
