r"""
.. _deriving-vjps:

Deriving VJPs: matmul, inverse, logsumexp, solve
================================================

You need the backward rule of a matrix function and do not want to write out its indices.
Write down how ``Y`` changes if ``X`` changes by a small ``dX``, and call this change
``dY``. Take the inner product of ``V`` and ``dY``. Move the factors beside ``dX`` to the
side of ``V``, one after another, until ``dX`` stands alone. The expression that is now in
the place of ``V`` is the gradient. You need no index and no four-dimensional
:term:`Jacobian`.
"""

# %%
# The inner product of two matrices of the same shape is :math:`\langle A,B\rangle=\sum
# A_{ij}B_{ij}=\operatorname{tr}(A^\top B)`. The :term:`VJP` is the :term:`adjoint` of the
# linear map from ``dX`` to ``dY``. This means that the VJP turns ``V`` into a ``G`` with
#
# .. math::
#
#    \langle V,\,dY\rangle=\langle G,\,dX\rangle\ \text{for every }dX .
#
# This ``G`` has the shape of ``X``, and is what ``Y.backward(V)`` adds to ``X.grad``. A
# matrix that you move to the other side of an inner product is transposed: :math:`\langle
# V,PZQ\rangle=\langle P^\top VQ^\top,Z\rangle`. We check this equation with random
# matrices. Its two sides are the same number:

import torch

torch.manual_seed(0)  # the same matrices on every build
P, Z, Q, V = (torch.randn(s).double() for s in [(2, 3), (3, 4), (4, 5), (2, 5)])
sides = (V * (P @ Z @ Q)).sum(), ((P.T @ V @ Q.T) * Z).sum()
torch.testing.assert_close(*sides)
torch.stack(sides)

# %%
# We compare each rule below with PyTorch's own rule and with central difference quotients
# of :math:`\langle V,f(X)\rangle`, one for each entry of each input. ``compare`` raises an
# error if the results disagree, and returns the shapes of the gradients if they agree:


def compare(f, rule, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    Y = f(*inputs)
    V = torch.randn_like(Y)
    theirs = torch.autograd.grad(Y, inputs, V)
    ours = rule(V, Y, *inputs)
    for own, other, number in zip(ours, theirs, quotients(f, V, inputs), strict=True):
        torch.testing.assert_close(own, other)
        torch.testing.assert_close(own, number, rtol=1e-5, atol=1e-7)
    return [tuple(g.shape) for g in ours]


# %%
# The difference quotients are computed without autograd:


@torch.no_grad()
def quotients(f, V, inputs, h=1e-5):
    for i, x in enumerate(inputs):
        g = torch.zeros_like(x)
        for k in range(x.numel()):
            e = torch.zeros(x.numel()).to(x)
            e[k] = h
            up, down = (
                [*inputs[:i], x + s * e.view_as(x), *inputs[i + 1 :]] for s in (1, -1)
            )
            g.view(-1)[k] = (V * (f(*up) - f(*down))).sum() / (2 * h)
        yield g


# %%
# The rule of a product
# ---------------------
#
# If :math:`Y=AB`, then :math:`dY=dA\,B+A\,dB`. In each of the two terms we move the factor
# without a ``d`` to the other side, so :math:`\langle V,dA\,B\rangle=\langle
# VB^\top,dA\rangle` and :math:`\langle V,A\,dB\rangle=\langle A^\top V,dB\rangle`:


def matmul_rule(V, Y, A, B):
    return V @ B.T, A.T @ V


compare(torch.matmul, matmul_rule, P, Z)

# %%
# The rule of the inverse
# -----------------------
#
# If :math:`XY=I`, then :math:`dX\,Y+X\,dY=0`, so :math:`dY=-Y\,dX\,Y` and :math:`G=-Y^\top
# VY^\top`. All matrices here are square, so the shapes fit even if you forget to transpose,
# and only the comparison finds the mistake. The second rule that we compare below makes
# this mistake:


def inverse_rule(V, Y, X):
    return (-Y.T @ V @ Y.T,)


square = torch.randn(3, 3).double() + 3 * torch.eye(3)
print(compare(torch.linalg.inv, inverse_rule, square))
try:
    compare(torch.linalg.inv, lambda V, Y, X: (-Y @ V @ Y,), square)
except AssertionError as error:
    print(str(error).splitlines()[0])

# %%
# The rule of solve
# -----------------
#
# The rule for a solve needs no inverse. If :math:`AX=B`, then :math:`dA\,X+A\,dX=dB`, so
# :math:`dX=A^{-1}(dB-dA\,X)`. Let :math:`G_B=A^{-\top}V`, for which you solve one more
# linear system, with the *transposed* matrix. Then
#
# .. math::
#
#    \langle V,dX\rangle=\langle G_B,dB\rangle+\langle -G_BX^\top,dA\rangle .


def solve_rule(V, X, A, B):
    G = torch.linalg.solve(A.T, V)
    return -G @ X.T, G


compare(torch.linalg.solve, solve_rule, square, Z)

# %%
# Softmax and logsumexp
# ---------------------
#
# Let x be a vector and :math:`s=\operatorname{softmax}(x)`. The :term:`gradient` of
# logsumexp is s, so the rule for logsumexp is :math:`G=v\,s`, where v is a single number.
# For softmax itself, :math:`ds=s\odot dx-s\,(s\cdot dx)`. Here v is a vector of the shape
# of x, and the inner product of two vectors is their dot product. If we move the factors
# of both terms to the other side, we get :math:`G=s\odot(v-s\cdot v)`. This rule needs
# only the output of softmax. :ref:`softmax-backward` has the same rule for a batch of
# rows.


def logsumexp_rule(v, y, x):
    return (v * torch.exp(x - y),)


def softmax_rule(v, s, x):
    return (s * (v - s @ v),)


x = torch.randn(5, dtype=torch.float64)
print(compare(lambda x: torch.logsumexp(x, 0), logsumexp_rule, x))
print(compare(lambda x: torch.softmax(x, 0), softmax_rule, x))

# %%
# What goes wrong
# ---------------
#
# A rule may be right, and yet a computer may not be able to evaluate it as you wrote it.
# ``exp(x) / exp(x).sum()`` is the same :math:`s`, unless an entry of x is so large that its
# exponential overflows. If you compute s from the output y of logsumexp, nothing overflows:

big = torch.tensor([1000.0, 1000.0], dtype=torch.float64)
y = torch.logsumexp(big, 0)
print(big.exp() / big.exp().sum(), torch.exp(big - y))

# %%
# Even if ``X`` is symmetric, the gradient ``G`` need not be symmetric, as the ``False``
# below shows. But if every change ``dX`` that you allow is symmetric, too, only the
# symmetric part of ``G`` matters:

symmetric = square + square.T
V, change = torch.randn(2, 3, 3).double()
(G,) = inverse_rule(V, torch.linalg.inv(symmetric), symmetric)
torch.allclose(G, G.T)

# %%
# We test ``G`` with the definition, :math:`\langle V,dY\rangle=\langle G,dX\rangle`, in
# which we take dY from :term:`forward mode`. For a symmetric change dX, we test the
# symmetric part of G in the same way:

for dx, g in ((change, G), (symmetric, G), (symmetric, (G + G.T) / 2)):
    dy = torch.func.jvp(torch.linalg.inv, (symmetric,), (dx,))[1]
    torch.testing.assert_close((V * dy).sum(), (g * dx).sum())

# %%
# Where next
# ----------
#
# To make a rule part of a graph, read :ref:`custom-function`. :ref:`dot-product-test` shows
# the same test for functions whose rule you do not have as a formula. To give a solver a
# rule of its own, read :ref:`implicit-differentiation`.
#
# .. asked: derive the backward of a matrix function; gradient of matmul; gradient of
#    the inverse; matrix calculus; derivative of solve; write a backward formula; trace
#    trick
# .. words: matrix calculus, transpose, formula, differential, trace, paper, derive, linear
#    solve, einsum
