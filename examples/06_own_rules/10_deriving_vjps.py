r"""
.. _deriving-vjps:

Deriving VJPs: matmul, inverse, logsumexp, solve
================================================

You need the backward of a matrix function and do not want to write out its indices. Write
down what a small change of the inputs does to Y, take its inner product with ``V``, and
move everything to the other side until ``dX`` stands alone. The other factor of that inner
product is then the gradient. You need no index and no four-dimensional :term:`Jacobian`.
"""

# %%
# The inner product of two tensors of the same shape is :math:`\langle A,B\rangle=\sum
# A_{ij}B_{ij}=\operatorname{tr}(A^\top B)`. A :term:`VJP` is the :term:`adjoint` of the
# linear map from ``dX`` to ``dY``, which means
#
# .. math::
#
#    \langle V,\,dY\rangle=\langle G,\,dX\rangle\ \text{for every }dX .
#
# Then G, which has the shape of X, is what ``Y.backward(V)`` adds to ``X.grad``. A matrix
# that changes sides is transposed: :math:`\langle V,PZQ\rangle=\langle P^\top
# VQ^\top,Z\rangle`. With random matrices both sides of this are the same number:

import torch

torch.manual_seed(0)  # the same matrices on every build
P, Z, Q, V = (torch.randn(s).double() for s in [(2, 3), (3, 4), (4, 5), (2, 5)])
sides = (V * (P @ Z @ Q)).sum(), ((P.T @ V @ Q.T) * Z).sum()
torch.testing.assert_close(*sides)
torch.stack(sides)

# %%
# We compare each rule below with PyTorch's own and with difference quotients of
# :math:`\langle V,f(X)\rangle`, one for each entry of each input, with steps up and down.
# ``compare`` raises an error if they disagree, and returns the shapes of the gradients if
# they agree:


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
# The quotients share nothing with autograd:


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
# A product
# ---------
#
# From :math:`Y=AB` follows :math:`dY=dA\,B+A\,dB`. We move one factor in each term to the
# other side, so :math:`\langle V,dA\,B\rangle=\langle VB^\top,dA\rangle` and :math:`\langle
# V,A\,dB\rangle=\langle A^\top V,dB\rangle`:


def matmul_rule(V, Y, A, B):
    return V @ B.T, A.T @ V


compare(torch.matmul, matmul_rule, P, Z)

# %%
# The inverse
# -----------
#
# From :math:`XY=I` follows :math:`dX\,Y+X\,dY=0`, so :math:`dY=-Y\,dX\,Y` and
# :math:`G=-Y^\top VY^\top`. All matrices here are square, so the shapes fit in every order,
# and only the comparison catches a forgotten transpose. The second rule below forgets it:


def inverse_rule(V, Y, X):
    return (-Y.T @ V @ Y.T,)


square = torch.randn(3, 3).double() + 3 * torch.eye(3)
print(compare(torch.linalg.inv, inverse_rule, square))
try:
    compare(torch.linalg.inv, lambda V, Y, X: (-Y @ V @ Y,), square)
except AssertionError as error:
    print(str(error).splitlines()[0])

# %%
# A solve
# -------
#
# The rule for a solve needs no inverse. From :math:`AX=B` follows :math:`dA\,X+A\,dX=dB`,
# so :math:`dX=A^{-1}(dB-dA\,X)`. Let :math:`G_B=A^{-\top}V`, which is one more solve, with
# the *transposed* matrix. Then
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
# logsumexp is s, so its rule is :math:`G=v\,s` with a number v. For softmax itself,
# :math:`ds=s\odot dx-s\,(s\cdot dx)`. Moving both factors gives :math:`G=s\odot(v-s\cdot
# v)`, which needs only the output:


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
# A rule may be right, and yet the way you compute it useless. ``exp(x) / exp(x).sum()`` is
# the same :math:`s`, until an entry is so large that its exponential overflows. If you
# compute s from the output y of logsumexp, nothing overflows:

big = torch.tensor([1000.0, 1000.0], dtype=torch.float64)
y = torch.logsumexp(big, 0)
print(big.exp() / big.exp().sum(), torch.exp(big - y))

# %%
# If X is known to be symmetric, its gradient need not be, as the False below says. Only the
# symmetric part of G can matter then:

symmetric = square + square.T
V, change = torch.randn(2, 3, 3).double()
(G,) = inverse_rule(V, torch.linalg.inv(symmetric), symmetric)
torch.allclose(G, G.T)

# %%
# We test this by the definition, :math:`\langle V,dY\rangle=\langle G,dX\rangle`, with dY
# from :term:`forward mode`, and for a symmetric change with the symmetric part of G, too:

for dx, g in ((change, G), (symmetric, G), (symmetric, (G + G.T) / 2)):
    dy = torch.func.jvp(torch.linalg.inv, (symmetric,), (dx,))[1]
    torch.testing.assert_close((V * dy).sum(), (g * dx).sum())

# %%
# Where next
# ----------
#
# :ref:`custom-function` makes a rule part of a graph. :ref:`dot-product-test` is the same
# test without a rule written out, and :ref:`implicit-differentiation` gives a solver its
# own rule.
#
# .. asked: derive the backward of a matrix function; gradient of matmul; gradient of
#    the inverse; matrix calculus; derivative of solve; write a backward formula; trace
#    trick
# .. words: matrix calculus, transpose, formula, differential, trace, paper, derive, linear
#    solve, einsum
