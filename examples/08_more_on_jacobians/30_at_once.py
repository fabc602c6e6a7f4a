r"""
.. _jacobian-at-once:

The whole Jacobian at once
==========================

You want the whole :term:`Jacobian`, and no loop. PyTorch has five ways to compute it in
one call, and all five give the same numbers on this page. The five ways differ in what
they take and in what they refuse. Some of them work by rows, which is :term:`reverse
mode`, and some by columns, which is :term:`forward mode`.
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
# We try the five ways on :math:`f(x)=(x_1x_2,\;x_2^2)`, which has two inputs and two
# outputs. Its Jacobian is
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
# *Can I get the Jacobian of a tensor that is already computed?* Yes, with
# ``torch.autograd.grad``, which takes all the :term:`one-hot vectors <one-hot vector>`
# ``v`` as one batch. Forward mode cannot do this, because it must run ``f`` again, and so
# it needs the function:

leaf = x.clone().requires_grad_()
(found["is_grads_batched"],) = torch.autograd.grad(
    f(leaf), leaf, torch.eye(2), is_grads_batched=True
)
found["is_grads_batched"]

# %%
# The other ways start from the function. :func:`torch.func.vjp` with
# :func:`torch.func.vmap` spells out the steps that :func:`torch.func.jacrev` takes in one
# call. Both work by rows:

value, pull = torch.func.vjp(f, x)
(found["vmap of vjp"],) = torch.func.vmap(pull)(torch.eye(2))
found["jacrev"] = torch.func.jacrev(f)(x)
found["jacrev"]

# %%
# :func:`torch.func.jacfwd` works by columns, with a :term:`tangent` for each *input*:

found["jacfwd"] = torch.func.jacfwd(f)(x)
found["jacfwd"]

# %%
# *torch.autograd.functional or torch.func?* Prefer :mod:`torch.func`. The older
# :func:`torch.autograd.functional.jacobian` computes the rows in a Python loop unless you
# pass ``vectorize=True``. Without ``vectorize=True`` it refuses to work by columns, as the
# message below says:

functional = torch.autograd.functional.jacobian
found["functional"] = functional(f, x)
found["vectorized"] = functional(f, x, vectorize=True)
found["forward"] = functional(f, x, vectorize=True, strategy="forward-mode")
try:
    functional(f, x, strategy="forward-mode")
except NotImplementedError as error:
    print(error)

# %%
# :func:`pullback.jacobian` takes a function or a computed tensor, and chooses the mode for
# you:

import pullback

found["pullback, f"] = pullback.jacobian(f, x)
found["pullback, y"] = pullback.jacobian(f(leaf), leaf).detach()
found["pullback, f"]

# %%
# The value together with the Jacobian
# ------------------------------------
#
# *How do I get f(x) together with the Jacobian?* Let ``f`` return its output twice. With
# ``has_aux=True``, ``jacrev`` differentiates the first of the two and returns the second as
# it is. ``pullback.value_and_jacobian`` does this for you:

found["has_aux"], value = torch.func.jacrev(lambda x: (f(x), f(x)), has_aux=True)(x)
y, found["value_and_jacobian"] = pullback.value_and_jacobian(f, x)
print(value, y)

# %%
# If you take all rows at once, you need memory for all of them. With ``chunk_size`` you
# choose how many products are taken at a time. :ref:`never-forms-j` counts how much
# memory this saves. Here one product is taken at a time:

found["chunks"] = torch.func.jacrev(f, chunk_size=1)(x)
found["chunks"]

# %%
# *Two inputs, two outputs, a tuple of tuples: which index is which?* ``J[i][j]`` is the
# derivative of output ``i`` with respect to input ``j``, and its shape is ``output_i.shape
# + input_j.shape``. If there is a single output or a single input, its level of the nesting
# is left out. The second line of the output is for a function with one output:

inputs = torch.ones(2), torch.ones(4)
nested = functional(lambda a, b: (a.sum() * b, torch.outer(a, b)), inputs)
print([[tuple(block.shape) for block in of_output] for of_output in nested])
print([tuple(block.shape) for block in functional(torch.outer, inputs)])

# %%
# *How do I hand the Jacobian to SciPy?* ``least_squares`` and ``root`` ask for a function
# of float64 arrays that returns an ``(m, n)`` array. As an example we look for the rotation
# that takes (1, 2) to (−2, 1), which is a quarter turn:

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
# ``torch.func`` follows the argument, and not a tensor that the function captures from
# outside. For a function that ignores its argument, it gives zeros and no error.
# :func:`pullback.jacobian` raises an error instead:

captured = torch.tensor([3.0, 2.0])
print(torch.func.jacrev(lambda x: f(captured))(x))
try:
    pullback.jacobian(lambda x: f(captured), x)
except RuntimeError as error:
    print(error)

# %%
# ``autograd.functional.jacobian`` also returns zeros if no output has a graph that leads to
# the argument, for example because the function went through NumPy. With ``strict=True`` it
# raises an error, as the loop over rows with ``autograd.grad`` does. But if all outputs are
# in one tensor, neither of them raises an error as long as at least one output still has
# such a graph. In that case an output that NumPy computed gets a row of zeros. If NumPy
# computed only a factor of an output, the row of this output lacks the derivative of the
# factor:

point = torch.tensor([1.0, 2.0, 3.0])
through_numpy = lambda x: torch.from_numpy(x.detach().numpy() ** 2)
half = lambda x: torch.stack([x.sum(), torch.tensor(x.detach().numpy().prod())])
unseen = functional(through_numpy, point)
try:
    functional(through_numpy, point, strict=True)
except RuntimeError as error:
    print(error)
half_seen = functional(half, point, strict=True)
in_part = lambda x: torch.stack([x.sum() * x.detach().numpy().prod().item(), (x**2).sum()])
seen_in_part = functional(in_part, point, strict=True)
half_seen

# %%
# ``torch.func`` raises an error for a BatchNorm in training, because the layer updates
# its running statistics. A loop over rows can handle the layer, and
# ``functional.jacobian`` is such a loop:

norm, batch = torch.nn.BatchNorm1d(3), torch.eye(3)
try:
    torch.func.jacrev(norm)(batch)
except RuntimeError as error:
    print(str(error).split(" (aten")[0])
of_norm = functional(norm, batch)
of_norm.shape

# %%
# As a check, we compare every way with the formula at :math:`(3,2)`:

for name, result in found.items():
    torch.testing.assert_close(result, J, msg=lambda text, name=name: f"{name}: {text}")
assert torch.equal(value, f(x))
assert not unseen.any()
assert seen_in_part.tolist() == [[6, 6, 6], [2, 4, 6]]  # in truth 42, 24, 18
assert half_seen.tolist() == [[1, 1, 1], [0, 0, 0]]
assert of_norm.shape == (3, 3, 3, 3)
assert torch.equal(y, f(x))
assert abs(fit.x[0] - torch.pi / 2) < 1e-6
sorted(found)

# %%
# Where next
# ----------
#
# :ref:`reverse-or-forward` helps you choose between rows and columns, and :ref:`measured`
# shows how much time each way takes. :ref:`jacobian-per-sample` is for a batch of inputs.
#
# .. asked: ways to compute a Jacobian; functional.jacobian, jacrev, jacfwd;
#    vectorize=True; Jacobian without a loop
# .. words: vectorised, batch of rows, functional, faster than a loop, which function,
#    options
