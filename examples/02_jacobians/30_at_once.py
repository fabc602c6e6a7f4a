r"""
.. _jacobian-at-once:

The whole Jacobian at once
==========================

Five ways of PyTorch give the whole Jacobian without a Python loop, and they give the same
numbers. They differ in what they take, in mode, and in what they refuse.
"""

# %%
# :math:`f(x)=(x_1x_2,\;\sin x_2)`, from ``(2,)`` to ``(2,)``, with the Jacobian
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\0&\cos x_2\end{bmatrix}

import torch


def f(x):
    return torch.stack([x[0] * x[1], torch.sin(x[1])])


x = torch.tensor([3.0, 0.0])
J = torch.tensor([[0.0, 3.0], [0.0, 1.0]])
found = {}

# %%
# From a tensor that is already computed: all one-hot ``v`` as one batch.

leaf = x.clone().requires_grad_()
(found["is_grads_batched"],) = torch.autograd.grad(
    f(leaf), leaf, torch.eye(2), is_grads_batched=True
)
found["is_grads_batched"]

# %%
# From the function: :func:`torch.func.vjp` with :func:`torch.func.vmap` spells out what
# :func:`torch.func.jacrev` does in one word. Both work by rows:

value, pull = torch.func.vjp(f, x)
(found["vmap of vjp"],) = torch.func.vmap(pull)(torch.eye(2))
found["jacrev"] = torch.func.jacrev(f)(x)
found["jacrev"]

# %%
# By columns, in :term:`forward mode`: a tangent for each *input*.

found["jacfwd"] = torch.func.jacfwd(f)(x)
found["jacfwd"]

# %%
# The older :func:`torch.autograd.functional.jacobian` loops unless told otherwise, and
# its forward mode insists on ``vectorize=True``:

functional = torch.autograd.functional.jacobian
found["functional"] = functional(f, x)
found["vectorized"] = functional(f, x, vectorize=True)
found["forward"] = functional(f, x, vectorize=True, strategy="forward-mode")
try:
    functional(f, x, strategy="forward-mode")
except NotImplementedError as error:
    print(error)

# %%
# :func:`pullback.jacobian` takes a function or a computed tensor, and chooses the mode:

import pullback

y = f(leaf)
found["pullback, f"] = pullback.jacobian(f, x)
with torch.no_grad():
    found["pullback, y"] = pullback.jacobian(y, leaf)
found["pullback, f"]

# %%
# The value as well
# -----------------
#
# *How do I get f(x) together with the Jacobian?* ``jacrev`` returns what f returns
# beside its output; ``value_and_jacobian`` does that for you:

by_hand, value = torch.func.jacrev(lambda x: (f(x), f(x)), has_aux=True)(x)
y, found["value_and_jacobian"] = pullback.value_and_jacobian(f, x)
print(value, y)

# %%
# What goes wrong
# ---------------
#
# ``torch.func`` follows the argument, not a tensor captured from outside. A function
# that ignores its argument gives zeros and no error; :func:`pullback.jacobian` objects:

captured = torch.tensor([3.0, 0.0])
print(torch.func.jacrev(lambda x: f(captured))(x))
try:
    pullback.jacobian(lambda x: f(captured), x)
except RuntimeError as error:
    print(error)

# %%
# Every way agrees with the formula:

for name, result in found.items():
    torch.testing.assert_close(result, J, msg=name)
sorted(found)

# %%
# Where next
# ----------
#
# Rows or columns: :ref:`reverse-or-forward`. What each costs: :ref:`measured`. A batch of
# inputs: :ref:`jacobian-per-sample`.
