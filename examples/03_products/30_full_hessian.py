r"""
.. _full-hessian:

The full Hessian, and when symmetry saves half
==============================================

:func:`torch.func.hessian` returns all n×n second derivatives at the cost of about n
:term:`Hessian-vector products <Hessian-vector product>`. Symmetry halves what you
*store*; it halves the work only if you ask for half the rows.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R`, :math:`H_{ij}=\partial^2 f/\partial x_i\partial
# x_j` is the :term:`Jacobian` of the gradient. For a tensor ``x`` its shape is
# ``x.shape + x.shape``:

import torch

import pullback


def f(x):
    return x[0] ** 2 * x[1] + x[1] ** 3


x = torch.tensor([1.0, 2.0])
H = torch.func.hessian(f)(x)
H

# %%
# *Must I call grad n times?* By hand, yes: a :term:`one-hot vector` for each row of the
# gradient. ``is_grads_batched=True`` does them in one call:

leaf = x.clone().requires_grad_()
(g,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
(rows,) = torch.autograd.grad(g, leaf, torch.eye(2), is_grads_batched=True)
rows

# %%
# A :term:`Hessian` is a Jacobian twice, in whatever modes; ``hessian`` is
# ``jacfwd(jacrev)``:

print(torch.func.jacfwd(torch.func.jacrev(f))(x))
print(pullback.jacobian(lambda x: pullback.jacobian(f, x), x))

# %%
# Half of the rows
# ----------------
#
# If f treats two groups of variables, :math:`H` has blocks, and the block below the
# diagonal is the transposed one above. Differentiate each group's gradient with respect
# to what has not come yet:


def energy(a, b):
    return (torch.outer(a, b) ** 2).sum() + a.prod()


a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
(aa, ab), (ba, bb) = torch.func.hessian(energy, argnums=(0, 1))(a, b)
print(aa.shape, ab.shape, bb.shape)
assert torch.equal(ba, ab.T)

# %%
# A Hessian over module parameters
# --------------------------------
#
# Make the loss a function of a dict of parameters; the result is a dict of dicts, one
# block for each pair:

torch.manual_seed(0)  # weights that are the same on every build
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
data = torch.randn(8, 2)
w = {name: p.detach() for name, p in model.named_parameters()}


def loss(w):
    return (torch.func.functional_call(model, w, (data,)) ** 2).mean()


blocks = torch.func.hessian(loss)(w)
{name: tuple(block.shape) for name, block in blocks["0.weight"].items()}

# %%
# As one matrix, in the order of the parameters:

import pullback.plot

rows_of = {i: [blocks[i][j].reshape(w[i].numel(), -1) for j in w] for i in w}
matrix = torch.cat([torch.cat(rows_of[i], dim=1) for i in w])
ax = pullback.plot.heatmap(
    matrix,
    title="The Hessian of a small network's loss: symmetric, 13 by 13",
    xlabel="parameter",
    ylabel="parameter",
)

# %%
# *Output, gradient and Hessian at once* come nested, each as the ``aux`` of the next:


def gradient_and_value(x):
    g, value = torch.func.grad_and_value(f)(x)
    return g, (g, value)


H, (g, value) = torch.func.jacfwd(gradient_and_value, has_aux=True)(x)
print(value, g)

# %%
# What goes wrong
# ---------------
#
# A batch. ``hessian`` wants one number out; a function of shape ``(B,)`` gives a Hessian
# for each number, with all the zeros between samples: ``(B, B, B)`` here. One Hessian for
# each sample is ``vmap(hessian(f))``:

points = torch.linspace(1, 2, 4)
print(torch.func.hessian(lambda x: x**3)(points).shape)
print(torch.func.vmap(torch.func.hessian(lambda x: x**3))(points))

# %%
# The check, written out, and symmetric as it must be:

exact = torch.tensor([[4.0, 2.0], [2.0, 12.0]])
assert torch.equal(H, exact)
assert torch.equal(rows, exact)
torch.testing.assert_close(matrix, matrix.T)
h, e = 1e-5, torch.eye(2, dtype=torch.float64)
slope, at = torch.func.grad(f), x.double()
quotient = torch.stack([(slope(at + h * d) - slope(at - h * d)) / (2 * h) for d in e])
torch.testing.assert_close(H.double(), quotient)

# %%
# Where next
# ----------
#
# One product at a time: :ref:`hvp`. :math:`J^\top J` in its place: :ref:`gauss-newton`.
# A loss of a whole module: :ref:`jacobian-of-parameters`.
