r"""
.. _v-depends-on-x:

What is vᵀJ when v depends on x?
================================

You have computed the ``v`` of ``backward(v)`` from the same x as y, and you want to know
whether the derivative of ``v`` is part of the result. It is not. ``backward(v)`` treats the
entries of ``v`` as constants. It gives :math:`J^\top v` with the value that ``v`` has now,
and drops the term that :math:`v'(x)` would add. If you want the derivative of
:math:`v(x)\cdot y(x)`, differentiate that product.
"""

# %%
# The product rule shows both terms. Let ``x``, ``y`` and ``v`` have shape ``(n,)``, and let
# :math:`J_v` be the :term:`Jacobian` of ``v``:
#
# .. math::
#
#    \nabla_x\bigl(v(x)^\top y(x)\bigr)
#    =\underbrace{J_y^\top v}_{\texttt{y.backward(v)}}+J_v^\top y .
#
# We take :math:`y=x^2` and :math:`v=x^3` at 2. Then :math:`J_y^\top v=2x\cdot x^3=32`, and
# the derivative of the whole product is :math:`(x^5)'=5x^4=80`. Which of them does
# ``backward(v)`` give?

import torch

x = torch.tensor([2.0], requires_grad=True)
y, v = x**2, x**3
y.backward(v, retain_graph=True)
with_graph = x.grad
with_graph

# %%
# ``backward(v)`` gives 32, the first term alone. PyTorch does not complain that ``v`` has a
# graph; it uses only the numbers in ``v``. With ``v.detach()`` you get the same result, and
# the code says what you mean:

x.grad = None
y.backward(v.detach(), retain_graph=True)
x.grad

# %%
# If you want the whole derivative, write out the product and differentiate it:

x.grad = None
(v * y).sum().backward()
both_terms = x.grad
both_terms

# %%
# *Why is y.backward(y) half of (y * y).sum().backward()?* With ``v = y`` both terms of the
# product rule are the same, and ``backward(y)`` gives only one of them:

y = x**2
half = torch.autograd.grad(y, x, y, retain_graph=True)[0]
print(half, torch.autograd.grad((y * y).sum(), x)[0])

# %%
# *Is loss.backward(loss) the same as loss.backward()?* No, ``loss.backward(loss)`` gives
# the gradient times the value of the loss. Again, this is half of a gradient: the gradient
# of ``loss**2``. If you pass 0.5, as a tensor of shape ``()``, you get the gradient of half
# the loss. For the first three lines of the output, we pass nothing, then the loss, and
# then 0.5. For the last three, we differentiate the three numbers that have these
# gradients:

loss = (x**3).sum()
for v in (None, loss, torch.tensor(0.5)):
    print(torch.autograd.grad(loss, x, v, retain_graph=True)[0])
for number in (loss, loss**2 / 2, 0.5 * loss):
    print(torch.autograd.grad(number, x, retain_graph=True)[0])

# %%
# *Is (logits * onehot).sum().backward() the same as (logits *
# onehot).backward(gradient=logits * onehot)?* No. The sum gives each product the weight 1.
# The call with ``gradient=`` weights each product by its own value, as ``backward(y)`` did
# above. Our logits are 1 and 2, and ``onehot`` selects the second:

logits = torch.tensor([1.0, 2.0], requires_grad=True)
chosen = logits * torch.tensor([0.0, 1.0])
summed = torch.autograd.grad(chosen.sum(), logits, retain_graph=True)[0]
weighted = torch.autograd.grad(chosen, logits, chosen, retain_graph=True)[0]
print(summed, weighted)

# %%
# If you pass the same ``gradient`` to the ``backward`` of the *sum*, PyTorch refuses it,
# because the sum is a single number and needs a ``v`` of shape ``()``:

try:
    chosen.sum().backward(gradient=chosen)
except RuntimeError as error:
    print(error)

# %%
# With a graph through v
# ----------------------
#
# With ``create_graph=True`` the result :math:`J^\top v` is a function of *both* x and
# ``v``. Its graph leads back to ``x`` through J, and to whatever ``v`` was computed from.
# This is how you can make a :term:`JVP` from two products (:ref:`jvp-from-vjps`), and how a
# second derivative takes account of ``v``. In our example the result is :math:`2x\cdot
# x^3`, and its derivative takes both factors into account:

x = torch.tensor([2.0], requires_grad=True)
y, v = x**2, x**3
(g,) = torch.autograd.grad(y, x, v, create_graph=True)  # 2 x * x^3 = 2 x^4
through_v = torch.autograd.grad(g, x)[0]  # 8 x^3
through_v

# %%
# If ``v`` is detached, its :math:`x^3` stays the number 8. Then the derivative of
# :math:`2x\cdot 8` is 16:

(g,) = torch.autograd.grad(x**2, x, v.detach(), create_graph=True)
past_v = torch.autograd.grad(g, x)[0]
past_v

# %%
# What goes wrong
# ---------------
#
# The weights of a loss may be computed from the model's own output, as focal or
# self-normalized weights are. If you detach the weights, they are constants. If you do not,
# the gradient reaches the model through the weights as well, and the model can lower the
# loss by moving weight to where the loss is small. In the example below the first gradient,
# with the graph of the weights, differs from the second even in the sign of its first
# entry. Neither of the two raises an error, so decide which one you mean:

score = torch.tensor([0.5, 2.0], requires_grad=True)
weight = torch.softmax(score, 0)
kept = torch.autograd.grad((weight * score**2).sum(), score, retain_graph=True)[0]
cut = torch.autograd.grad((weight.detach() * score**2).sum(), score)[0]
print(kept.round(decimals=3), cut.round(decimals=3))

# %%
# *A loss that pays more attention to what is still wrong.* For binary cross entropy,
# ``exp(-loss)`` is the probability that the network gives to the right answer. So ``1 -
# exp(-loss)`` is large where the network is wrong. If you pass this weight as ``v``, or
# detach it in the formula, it is a constant. Without ``detach`` the formula gives nearly
# twice the gradient here:

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
# As a check, we compare each result with a difference quotient, in which ``v`` stays
# fixed or changes with x, as it does in the result:


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
# We compare the two gradients of the binary cross entropy, weighted by ``doubt``, with the
# product rule. We compare the two gradients of the weighted loss with difference quotients,
# entry by entry:

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
# :ref:`loss-as-v` is about weights on losses. To see what ``create_graph`` keeps, read
# :ref:`retain-or-create`, and to see what ``detach`` cuts, read :ref:`no-grad-detach`.
#
# .. asked: v is computed from x; v depends on the input; gradient argument with
#    requires_grad; is v treated as a constant; product rule for v; weights that depend
#    on the output
# .. words: attention to itself, constant, detach the weights, product rule, forgotten term,
#    self-weighted, focal loss, dynamic weights
