r"""
.. _full-hessian:

The full Hessian, and what symmetry saves
=========================================

:func:`torch.func.hessian` returns all n×n second derivatives at the cost of about n
:term:`Hessian-vector products <Hessian-vector product>`. Symmetry halves what you
*store*; it saves products only where you want one block, or where H has zeros.
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
print(pullback.hessian(f, x))

# %%
# What symmetry saves
# -------------------
#
# If f treats two groups of variables, :math:`H` has blocks, and the block below the
# diagonal is the transposed one above. Differentiate each group's gradient with respect
# to what has not come yet: two rows, of both blocks, then three of the last alone. That
# is n products still; only the parts of a pass that lead to ``a`` again are saved:


def energy(a, b):
    return (torch.outer(a, b) ** 2).sum() + a.prod()


a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
aa, ab = torch.func.jacrev(torch.func.grad(energy, 0), argnums=(0, 1))(a, b)
bb = torch.func.jacrev(torch.func.grad(energy, 1), argnums=1)(a, b)
half = torch.cat([torch.cat([aa, ab], 1), torch.cat([ab.T, bb], 1)])
half

# %%
# The block between two groups takes as many products as the *smaller* has entries: two.
# With zeros, symmetry can save nearly all. An *arrow*, where every variable meets the
# first one and itself, takes two products for any n: a one-hot ``u`` gives the first row,
# which is the first column too, and ones on the rest give the rest of the diagonal:


def arrow(x):
    return x[0] * (x[1:] ** 2).sum() + x[0] ** 3


spot = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
tip = torch.eye(5)[0]
_, product = torch.func.vjp(torch.func.grad(arrow), spot)
(row,), (rest,) = product(tip), product(1 - tip)
print(row, rest[1:])

# %%
# For zeros anywhere, which rows may share a product is a :term:`coloring`, and it needs
# fewer colours where :math:`H_{ij}` may be read as :math:`H_{ji}` (Coleman and Moré 1984).
# :func:`pullback.sparsity` finds zeros and colours, and its plan takes a product for each
# colour. Without symmetry the arrow takes a third:

plan = pullback.sparsity(arrow, spot, hessian=True)
sparse = plan.hessian(arrow, spot)
print("without symmetry:", pullback.sparsity(torch.func.grad(arrow), spot).n_colors)
plan

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
title = "The Hessian of a small network's loss: symmetric, 13 by 13"
ax = pullback.plot.heatmap(matrix, title=title, xlabel="parameter", ylabel="parameter")

# %%
# *Output, gradient and Hessian at once*: nested, each as the ``aux`` of the next:


def gradient_and_value(x):
    g, value = torch.func.grad_and_value(f)(x)
    return g, (g, value)


H, (g, value) = torch.func.jacfwd(gradient_and_value, has_aux=True)(x)
print(value, g)

# %%
# What goes wrong
# ---------------
#
# *Out of memory.* Count first: the Hessian of a million float32 weights takes
# :math:`10^{12}` entries of four bytes. What you wanted it for (a step, an eigenvalue, a
# trace) is mostly to be had from products (:ref:`hvp`, :ref:`trace-and-norm`):

print(1_000_000**2 * torch.float32.itemsize / 1e12, "terabytes")

# %%
# A batch. ``hessian`` wants one number out; a net of shape ``(B, 1)`` gives a Hessian for
# each, with all the zeros between samples: y's shape and twice x's. One Hessian for each
# sample is ``vmap(hessian(f))``, without the 1 if f squeezes it away:

hessian, vmap, number = torch.func.hessian, torch.func.vmap, lambda x: model(x).squeeze()
for h in (hessian(model), vmap(hessian(model)), vmap(hessian(number))):
    print(h(data).shape)

# %%
# The check: by hand, symmetric as it must be, and what symmetry spared against all rows:

exact = torch.tensor([[4.0, 2.0], [2.0, 12.0]])
assert torch.equal(H, exact)
assert torch.equal(rows, exact)
torch.testing.assert_close(matrix, matrix.T)
whole = torch.func.hessian(energy, argnums=(0, 1))(a, b)
assert torch.equal(half, torch.cat([torch.cat(blocks, dim=1) for blocks in whole]))
full = torch.func.hessian(arrow)(spot)
assert torch.equal(sparse.to_dense(), full)
assert torch.equal(row, full[0])
assert torch.equal(rest[1:], full.diagonal()[1:])

# %%
# Where next
# ----------
#
# One product: :ref:`hvp`. :math:`J^\top J` in its place: :ref:`gauss-newton`. Zeros without
# symmetry: :ref:`sparse-jacobian`. A whole module: :ref:`jacobian-of-parameters`.
#
# .. asked: full Hessian matrix; torch.func.hessian; compute the Hessian of a function;
#    Hessian of all parameters; symmetry of the Hessian; autograd.functional.hessian
