r"""
.. _full-hessian:

The full Hessian, and what symmetry saves
=========================================

You want all n×n second derivatives of a function. :func:`torch.func.hessian` returns them,
at the cost of about n :term:`Hessian-vector products <Hessian-vector product>`. The
:term:`Hessian` of a smooth function is symmetric, which halves what you must *store*.
Symmetry saves products only if you want a single block of H, or if H has zeros.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R`, the Hessian :math:`H_{ij}=\partial^2 f/\partial
# x_i\partial x_j` is the :term:`Jacobian` of the gradient. If ``x`` is a tensor, the shape
# of H is ``x.shape + x.shape``. Here is the Hessian of a function of two numbers:

import torch

import pullback


def f(x):
    return x[0] ** 2 * x[1] + x[1] ** 3


x = torch.tensor([1.0, 2.0])
H = torch.func.hessian(f)(x)
H

# %%
# *Must I call grad n times?* If you compute H row by row, you need n products, one with a
# :term:`one-hot vector` for each row. With ``is_grads_batched=True`` one call computes them
# all:

leaf = x.clone().requires_grad_()
(g,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
(rows,) = torch.autograd.grad(g, leaf, torch.eye(2), is_grads_batched=True)
rows

# %%
# The rows are the same as above. To get a Hessian, you take the Jacobian twice, in any
# combination of modes. ``hessian`` is ``jacfwd(jacrev)``. The three lines below give the
# same numbers:

print(torch.func.jacfwd(torch.func.jacrev(f))(x))
print(pullback.jacobian(lambda x: pullback.jacobian(f, x), x))
print(pullback.hessian(f, x))

# %%
# What the symmetry of H saves
# ----------------------------
#
# If the variables of f come in two groups, :math:`H` is made of blocks, and the block below
# the diagonal is the transpose of the block above it. So take the gradient with respect to
# each group, and differentiate it only with respect to this group and the groups that come
# after it. Below, two products give the rows of the blocks ``aa`` and ``ab``, and three
# products give only the rows of the last block, ``bb``. That is still n products in all.
# All that you save is the part of the last three products that would lead back to ``a``:


def energy(a, b):
    return (torch.outer(a, b) ** 2).sum() + a.prod()


a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
aa, ab = torch.func.jacrev(torch.func.grad(energy, 0), argnums=(0, 1))(a, b)
bb = torch.func.jacrev(torch.func.grad(energy, 1), argnums=1)(a, b)
half = torch.cat([torch.cat([aa, ab], 1), torch.cat([ab.T, bb], 1)])
half

# %%
# If you want only the block between two groups, you need as many products as the *smaller*
# group has entries. In our example that is two products.
#
# If H has zeros, symmetry can save nearly all products. In our example H has the shape of
# an *arrow*: every variable is multiplied only by the first variable and by itself. Two
# products are enough for any n. A one-hot ``u`` gives the first row of H, which is also the
# first column. A ``u`` that is 0 for the first variable and 1 for all others gives the rest
# of the diagonal:


def arrow(x):
    return x[0] * (x[1:] ** 2).sum() + x[0] ** 3


spot = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
tip = torch.eye(5)[0]
_, product = torch.func.vjp(torch.func.grad(arrow), spot)
(row,), (rest,) = product(tip), product(1 - tip)
print(row, rest[1:])

# %%
# If the zeros may be anywhere, a :term:`coloring` says which rows may share a product. The
# coloring may need fewer colors if :math:`H_{ij}` may be read off at :math:`H_{ji}`
# (Coleman and Moré 1984). :func:`pullback.sparsity` finds the zeros and the colors, and
# its plan takes one product for each color. The first line of the output shows that the
# arrow needs a third color if symmetry is not used:

plan = pullback.sparsity(arrow, spot, hessian=True)
sparse = plan.hessian(arrow, spot)
print("without symmetry:", pullback.sparsity(torch.func.grad(arrow), spot).n_colors)
plan

# %%
# A Hessian over module parameters
# --------------------------------
#
# For a module, make the loss a function of a dict of parameters. The result is then a dict
# of dicts, with one block for each pair of parameters. Here are the shapes of the blocks
# that belong to the first weight and each of the parameters:

torch.manual_seed(0)  # weights that are the same on every build
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
data = torch.randn(8, 2)
w = {name: p.detach() for name, p in model.named_parameters()}


def loss(w):
    return (torch.func.functional_call(model, w, (data,)) ** 2).mean()


blocks = torch.func.hessian(loss)(w)
{name: tuple(block.shape) for name, block in blocks["0.weight"].items()}

# %%
# To see the Hessian as one matrix, we flatten the blocks and put them together in the order
# of the parameters:

import pullback.plot

rows_of = {i: [blocks[i][j].reshape(w[i].numel(), -1) for j in w] for i in w}
matrix = torch.cat([torch.cat(rows_of[i], dim=1) for i in w])
title = "The Hessian of a small network's loss: symmetric, 13 by 13"
ax = pullback.plot.heatmap(matrix, title=title, xlabel="parameter", ylabel="parameter")

# %%
# Another way is to make the loss a function of *one* vector. Inside this function the
# vector is cut into the dict of parameters. The Hessian of the function is the same
# matrix, in one piece:


def loss_of_vector(vector):
    pieces = vector.split([p.numel() for p in w.values()])
    named = zip(w.items(), pieces, strict=True)
    return loss({name: piece.view_as(p) for (name, p), piece in named})


vector = torch.cat([p.flatten() for p in w.values()])
in_one_piece = torch.func.hessian(loss_of_vector)(vector)
torch.testing.assert_close(in_one_piece, matrix)
in_one_piece.shape

# %%
# *I want the output, the gradient and the Hessian at once.* Nest the functions, and let
# each one return the values of the function inside it as its ``aux``:


def gradient_and_value(x):
    g, value = torch.func.grad_and_value(f)(x)
    return g, (g, value)


H, (g, value) = torch.func.jacfwd(gradient_and_value, has_aux=True)(x)
print(value, g)

# %%
# What goes wrong
# ---------------
#
# *Out of memory.* Count the entries before you start. The Hessian of a million float32
# weights has :math:`10^{12}` entries of four bytes each. The quantities that people want
# from a Hessian, such as a step, an eigenvalue or a trace, can usually be computed from
# products (:ref:`hvp`, :ref:`trace-and-norm`):

print(1_000_000**2 * torch.float32.itemsize / 1e12, "terabytes")

# %%
# *"... should contain a single element", and my network has 3 inputs and 2 outputs.*
# ``torch.autograd.functional.hessian`` takes a function with one output only
# (:ref:`error-hessian-single-element`). :func:`torch.func.hessian` takes a function with
# several outputs, and returns a Hessian for each of them. Another way is to call
# ``torch.autograd.functional.hessian`` once for each component:

two = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
three = torch.ones(3)
try:
    torch.autograd.functional.hessian(two, three)
except RuntimeError as error:
    print(error)
each = [torch.autograd.functional.hessian(lambda x, i=i: two(x)[i], three) for i in (0, 1)]
torch.testing.assert_close(torch.stack(each), torch.func.hessian(two)(three))
print(tuple(torch.func.hessian(two)(three).shape))
print("a batch of 5:", tuple(torch.vmap(torch.func.hessian(two))(torch.ones(5, 3)).shape))

# %%
# *What if I have a batch?* ``hessian`` is meant for a function that returns one number. A
# network that returns shape ``(B, 1)`` gets a Hessian for each of its outputs, with respect
# to all samples. The shape of the result is the shape of y followed twice by the shape of
# x, and the result includes all the zero derivatives that mix different samples. If you
# want one Hessian for each sample, use ``vmap(hessian(f))``. The dimension of size 1
# disappears if f squeezes its result, as the last printed line shows:

hessian, vmap, number = torch.func.hessian, torch.func.vmap, lambda x: model(x).squeeze()
for h in (hessian(model), vmap(hessian(model)), vmap(hessian(number))):
    print(h(data).shape)

# %%
# As a check, we compare the small Hessian with the Hessian worked out by hand. We check
# that the Hessian of the network's loss is symmetric, as it must be, and compare the
# results that used symmetry with a full computation:

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
# :ref:`hvp` computes a single product, and :ref:`gauss-newton` explains when
# :math:`J^\top J` can take the place of H. :ref:`sparse-jacobian` is about matrices that
# have zeros but no symmetry, and :ref:`jacobian-of-parameters` is about the Jacobian of a
# whole module.
#
# .. asked: full Hessian matrix; torch.func.hessian; compute the Hessian of a function;
#    Hessian of all parameters; symmetry of the Hessian; autograd.functional.hessian;
#    second derivatives of both outputs of a network with 3 inputs and 2 outputs
# .. words: matrix of second derivatives, symmetric, covariance, standard errors, Laplace
#    approximation, Newton step, saddle, eigenvalues
