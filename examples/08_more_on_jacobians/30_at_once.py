r"""
.. _jacobian-at-once:

The whole Jacobian at once
==========================

PyTorch has five ways to give the whole :term:`Jacobian` in one call, and they give the
same numbers. They differ in what they take, in whether they work by rows
(:term:`reverse mode`) or by columns (:term:`forward mode`), and in what they refuse.
"""

# %%
# ===================================  ====================  =============================
# way                                  takes                 works by
# ===================================  ====================  =============================
# ``grad(…, is_grads_batched=True)``   ``y``, computed       rows
# ``vmap`` of ``vjp``                  a function            rows
# ``jacrev``                           a function            rows
# ``jacfwd``                           a function            columns
# ``functional.jacobian``              a function            rows; columns if told to
# ===================================  ====================  =============================
#
# :math:`f(x)=(x_1x_2,\;x_2^2)`, from ``(2,)`` to ``(2,)``, has the Jacobian
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\0&2x_2\end{bmatrix}

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[1] ** 2])


x = torch.tensor([3.0, 2.0])
J = torch.tensor([[2.0, 3.0], [0.0, 4.0]])
found = {}

# %%
# *Can it take a tensor that is already computed?* Yes, with all one-hot ``v`` as one
# batch. (Forward mode must run ``f`` again, and so needs the function.)

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
# By columns, with a :term:`tangent` for each *input*:

found["jacfwd"] = torch.func.jacfwd(f)(x)
found["jacfwd"]

# %%
# *torch.autograd.functional or torch.func?* :mod:`torch.func`: the older
# :func:`torch.autograd.functional.jacobian` takes its rows in a Python loop unless you
# pass ``vectorize=True``, and without that it refuses columns:

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

found["pullback, f"] = pullback.jacobian(f, x)
found["pullback, y"] = pullback.jacobian(f(leaf), leaf).detach()
found["pullback, f"]

# %%
# The value as well
# -----------------
#
# *How do I get f(x) together with the Jacobian?* Let ``f`` return its output twice:
# ``has_aux=True`` hands the second back as it is. ``value_and_jacobian`` does that for you:

found["has_aux"], value = torch.func.jacrev(lambda x: (f(x), f(x)), has_aux=True)(x)
y, found["value_and_jacobian"] = pullback.value_and_jacobian(f, x)
print(value, y)

# %%
# All at once needs memory for all at once. ``chunk_size`` takes so many products at a time
# (:ref:`never-forms-j` counts what that saves):

found["chunks"] = torch.func.jacrev(f, chunk_size=1)(x)
found["chunks"]

# %%
# *Two inputs, two outputs, a tuple of tuples: which index is which?* ``J[i][j]`` is output
# ``i`` by input ``j``, of shape ``output_i.shape + input_j.shape``. A single output, or
# input, leaves its level out:

inputs = torch.ones(2), torch.ones(4)
nested = functional(lambda a, b: (a.sum() * b, torch.outer(a, b)), inputs)
print([[tuple(block.shape) for block in of_output] for of_output in nested])
print([tuple(block.shape) for block in functional(torch.outer, inputs)])

# %%
# *How do I hand the Jacobian to SciPy?* ``least_squares`` and ``root`` ask for a function
# of float64 arrays that returns an ``(m, n)`` array. Here the rotation of (1, 2) to (−2,
# 1):

from scipy.optimize import least_squares


def residual(angle):
    c, s = torch.cos(angle[0]), torch.sin(angle[0])
    return torch.stack([c - 2 * s + 2, s + 2 * c - 1])


def as_array(g):
    return lambda a: g(torch.from_numpy(a)).numpy()


fit = least_squares(as_array(residual), [1.0], jac=as_array(torch.func.jacrev(residual)))
fit.x.round(4)

# %%
# What goes wrong
# ---------------
#
# ``torch.func`` follows the argument, not a tensor captured from outside. A function
# that ignores its argument gives zeros and no error; :func:`pullback.jacobian` objects:

captured = torch.tensor([3.0, 2.0])
print(torch.func.jacrev(lambda x: f(captured))(x))
try:
    pullback.jacobian(lambda x: f(captured), x)
except RuntimeError as error:
    print(error)

# %%
# Every way agrees with the formula at :math:`(3,2)`:

for name, result in found.items():
    torch.testing.assert_close(result, J, msg=lambda text, name=name: f"{name}: {text}")
assert torch.equal(value, f(x))
assert torch.equal(y, f(x))
assert abs(fit.x[0] - torch.pi / 2) < 1e-6
sorted(found)

# %%
# Where next
# ----------
#
# Rows or columns: :ref:`reverse-or-forward`. What each costs: :ref:`measured`. A batch of
# inputs: :ref:`jacobian-per-sample`.
#
# .. asked: ways to compute a Jacobian; functional.jacobian, jacrev, jacfwd;
#    vectorize=True; Jacobian without a loop
