r"""
.. _linearize:

Linearize once, push many vectors
=================================

You need the product of the :term:`Jacobian` with many vectors, all at *one* point. With
``jvp`` you run f again for each vector. Instead, you can do the work of f once, beforehand.
:func:`torch.func.linearize` keeps the linear map :math:`u\mapsto Ju`, and
:func:`torch.func.vjp` keeps :math:`v\mapsto J^\top v`.
"""

# %%
# Both ``linearize`` and ``vjp`` return the value and a function. The function from
# ``linearize`` takes a ``u`` with the shape of x, and the function from ``vjp`` takes a
# ``v`` with the shape of y. To see how often f runs, we count its calls. ``linearize``
# warns about a step of its tracing, and we mute this warning here.

import warnings

import torch

warnings.filterwarnings("ignore", message="Attempted to insert a get_attr Node")
calls = 0


def f(x):
    global calls
    calls += 1
    return torch.stack([x[0] * x[1], x[0] + x[1], x[1] ** 2])


x = torch.tensor([2.0, 3.0])
y, push = torch.func.linearize(f, x)
y, pull = torch.func.vjp(f, x)
push(torch.tensor([1.0, 10.0])), pull(torch.tensor([1.0, 0.0, 0.0]))

# %%
# *Many JVPs at one point without running f again?* The count of calls does not change,
# however often we use the two maps. The count was three before, because ``linearize`` runs
# f twice, once for its value and once to record the map, and ``vjp`` runs f once:

before = calls
columns = [push(e) for e in torch.eye(2)]
rows = [pull(e)[0] for e in torch.eye(3)]
print(before, calls)
torch.stack(rows)

# %%
# :func:`torch.func.jvp` runs f once for each vector, which makes two more calls for our two
# vectors:

again = [torch.func.jvp(f, (x,), (e,))[1] for e in torch.eye(2)]
print(calls - before)

# %%
# You can also push a batch of vectors with one call to :func:`torch.func.vmap`. With the
# identity you get the whole Jacobian:

torch.func.vmap(push)(torch.eye(2)).T

# %%
# One use: an eigenvector by power iteration
# ------------------------------------------
#
# To find the largest singular value of J, you need :math:`J^\top J` again and again, at
# one point. Our example is a map between images, from 1024 numbers to 1024. We linearize
# it once, and use the two maps a hundred times:

torch.manual_seed(0)  # a kernel and an image that are the same on every build
kernel, image = torch.randn(1, 1, 5, 5), torch.randn(32, 32)


def blur(x):
    return torch.tanh(torch.nn.functional.conv2d(x[None, None], kernel, padding=2))[0, 0]


_, push_blur = torch.func.linearize(blur, image)
_, pull_blur = torch.func.vjp(blur, image)
u = torch.ones(32, 32)
for _ in range(100):
    u = pull_blur(push_blur(u))[0]
    u = u / u.norm()
sigma = push_blur(u).norm()
print(f"{sigma:.2f}")

# %%
# The vector that we found is the change of the image that the map amplifies most. It is
# amplified by the factor above. Here is the vector as an image:

import pullback.plot

ax = pullback.plot.heatmap(
    u, title="The input direction that J amplifies most", xlabel="column", ylabel="row"
)

# %%
# Another use: a system with J, as in a Newton step
# -------------------------------------------------
#
# A Newton step s for :math:`r(z)=0` solves :math:`Js=-r(z)`. You need neither J nor its
# inverse for this. GMRES needs only products, and unlike conjugate gradients (:ref:`hvp`)
# it does not need a symmetric J. Here are six Newton steps with 1000 unknowns:

from functools import partial

from scipy.sparse.linalg import LinearOperator, gmres


def residual(z):
    return z**3 + 2 * z - z.roll(1) - 1


z, used = torch.linspace(0.5, 1.5, 1000, dtype=torch.float64), []
for _ in range(6):
    value, move = torch.func.linearize(residual, z)
    times = partial(lambda move, u: move(torch.from_numpy(u.copy())).numpy(), move)
    A = LinearOperator((1000, 1000), times, dtype="float64")
    options = {"rtol": 1e-8, "callback": used.append, "callback_type": "pr_norm"}
    z = z + torch.from_numpy(gmres(A, -value.numpy(), **options)[0])
print((residual(z).norm() < 1e-10).item(), "after about", round(len(used), -1), "products")

# %%
# What goes wrong
# ---------------
#
# A map belongs to its point, so make a new map after each step. PyTorch does not warn you
# if you forget to do so. Suppose that an optimizer has changed the weights in place. If the
# map of ``linearize`` has been called before the change, it has put the old numbers into
# its program, and still gives the product at the old weights. In its first call it does so,
# and a map that is called for the first time after the change may take the new ones. The
# map of ``vjp`` holds some of the weights themselves, and other tensors that were computed
# from the old weights. So it may mix old and new weights, and give a product that is right
# for neither.
#
# Here is such a case, :math:`w\mapsto w_0\sin(w_1)\,w` at (2, 3) and then at (5, 1), with
# ones for the vector. Each line of the output shows the product before the step, the result
# of the old map after the step, and the product at the new weights:

w, ones = torch.tensor([2.0, 3.0]), torch.ones(2)
scaled = lambda w: w[0] * torch.sin(w[1]) * w
_, push_old = torch.func.linearize(scaled, w)
_, pull_old = torch.func.vjp(scaled, w)
before_step = push_old(ones), pull_old(ones)[0]
w.copy_(torch.tensor([5.0, 1.0]))  # in place, as an optimizer does it
after_step = push_old(ones), pull_old(ones)[0]
at_new = torch.func.jvp(scaled, (w,), (ones,))[1], torch.func.vjp(scaled, w)[1](ones)[0]
answered = zip(before_step, after_step, at_new, strict=True)
for name, answers in zip(("push", "pull"), answered, strict=True):
    print(name, *("{:.2f} {:.2f}".format(*t) for t in answers), sep=" | ")

# %%
# *What about dropout?* ``linearize`` records that a mask is drawn, and not the mask
# itself. So every push draws a new mask, and the product that it returns does not belong
# to the function whose value ``linearize`` returned. ``vjp`` keeps its mask. If you need
# both maps, draw the mask once, outside f:

a = torch.ones(64)
push_dropout = torch.func.linearize(torch.nn.functional.dropout, a)[1]
pull_dropout = torch.func.vjp(torch.nn.functional.dropout, a)[1]
print("push twice, equal:", torch.equal(push_dropout(a), push_dropout(a)))
print("pull twice, equal:", torch.equal(pull_dropout(a)[0], pull_dropout(a)[0]))

# %%
# ``linearize`` cannot record a branch that depends on the numbers in ``x``. Use
# :func:`torch.where`, or run ``jvp`` for each vector:


def branch(x):
    return x**2 if x.sum() > 0 else -x


try:
    torch.func.linearize(branch, x)
except RuntimeError as error:
    print(str(error).partition(" - ")[0])
print(torch.func.jvp(branch, (x,), (torch.tensor([1.0, 10.0]),))[1])

# %%
# As a check, we compare the maps with a J that we worked out by hand, and the singular
# value with the largest singular value of the whole Jacobian. We also check that the
# Newton steps have reached the root, whose entries are all alike:

w_late = torch.tensor([2.0, 3.0])
_, push_late = torch.func.linearize(scaled, w_late)  # called after the change only
w_late.copy_(w)
assert torch.equal(push_late(ones), at_new[0])
assert torch.equal(after_step[0], before_step[0])
assert torch.equal(after_step[0], before_step[0])
assert not torch.allclose(after_step[1], before_step[1])
assert not torch.allclose(after_step[1], at_new[1])
J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(torch.stack(columns, 1), J)
assert torch.equal(torch.stack(again, 1), J)
assert torch.equal(torch.stack(rows), J)
full = torch.func.jacfwd(blur)(image).reshape(1024, 1024)
torch.testing.assert_close(z**3 + z, torch.ones_like(z))  # the equation of the root
torch.testing.assert_close(sigma, torch.linalg.matrix_norm(full, 2), rtol=1e-3, atol=0)

# %%
# Where next
# ----------
#
# :ref:`what-is-a-jvp` explains the product :math:`Ju` itself. :ref:`jacobian-at-once`
# computes all columns of J as a matrix, and :ref:`implicit-differentiation` uses such
# products inside a solver.
#
# .. asked: linearise a function once; many jvps at the same point; reuse the graph for
#    many vectors; torch.func.linearize; apply the Jacobian to many vectors
# .. words: reuse, fixed point, many directions, same point, tangent map, precompute
