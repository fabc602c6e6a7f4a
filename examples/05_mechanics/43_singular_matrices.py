r"""
.. _singular-matrices:

det, logdet, inv, Cholesky: what is the gradient at a singular matrix?
======================================================================

Your loss contains a determinant, an inverse or a Cholesky factor, and the matrix is
singular or nearly singular. The determinant itself has a finite gradient at a singular
matrix. But if det comes out as exactly 0, torch may give zeros instead of this gradient,
as it does below. If torch records the backward pass, it gives the right gradient. The
gradients of the logdet, the inverse and the Cholesky factor grow without bound as the
matrix comes closer to a singular matrix. At the singular matrix itself you get an error,
±∞ or NaN.
"""

# %%
# For A of shape ``(n, n)``, the rules are
#
# .. math::
#
#    \nabla\log|\det A|=A^{-\top},\qquad \bar A=-A^{-\top}v\,A^{-\top}\ \text{(inverse)},
#    \qquad \nabla\det A=C=\det(A)\,A^{-\top}.
#
# C is the matrix of cofactors, which are the minors with their signs. C exists even if A
# has no inverse. Our matrix is singular, and its cofactors are 4, −2, −2 and 1. What does
# torch give for the gradient of the determinant?

import torch

A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
torch.autograd.grad(torch.det(A), A)[0] + 0.0

# %%
# You get zeros, and no warning. The formula :math:`\det(A)\,A^{-\top}` is
# :math:`0\cdot\infty` here, and torch replaces the pivot that is zero with a small number.
# :term:`Forward mode <forward mode>` does no better: before torch 2.15 it gives 0, and from
# torch 2.15 on it raises an error (:ref:`version-notes`). If the backward pass is recorded,
# as with ``create_graph=True`` or in :func:`torch.func.grad`, torch uses a different
# formula, and the result is right:

torch.autograd.grad(torch.det(A), A, create_graph=True)[0].detach().round(decimals=4)

# %%
# In place of each singular value, that formula has the product of all the others, and so it
# works for any rank. The derivative of that formula goes through an SVD
# (:ref:`eigenvectors-nan`). *My matrix is singular, and the gradient is right.* Rounding
# has left a determinant that is not quite 0. For each of fifty matrices of rank 1 we check
# whether det is exactly 0, and whether the gradient is right. Two pairs of answers occur:
# whenever det was exactly 0, the gradient was wrong, and whenever it was not, the gradient
# was right:


def cofactors(A):
    U, s, Vh = torch.linalg.svd(A)
    rest = torch.stack([torch.cat([s[:i], s[i + 1 :]]).prod() for i in range(len(s))])
    return torch.det(U) * torch.det(Vh) * (U * rest) @ Vh


torch.manual_seed(0)  # both kinds occur among fifty
kinds = set()
for row, column in torch.randn(50, 2, 2, dtype=torch.float64):
    B = torch.outer(row, column).requires_grad_()
    (g,) = torch.autograd.grad(det := torch.det(B), B)
    kinds.add((det.item() == 0, torch.allclose(g, cofactors(B.detach()))))
print(sorted(kinds))

# %%
# log det
# -------
#
# *My log(det(A)) is −inf, though A is in no way singular.* Here the determinant is 0.1 to
# the power of 200, which rounds to 0 in float32. Never take the logarithm of a determinant.
# Use ``logdet`` or ``slogdet``, which add up logarithms:

small = (0.1 * torch.eye(200)).requires_grad_()
for f in (lambda A: torch.det(A).log(), torch.logdet, lambda A: torch.slogdet(A)[1]):
    y = f(small)
    print(round(y.item(), 2), torch.autograd.grad(y, small)[0][0, 0].item())

# %%
# If the determinant is negative, ``logdet`` is NaN. The gradient of this NaN is zero, so a
# check of the gradients for NaN finds nothing. ``slogdet`` returns the sign separately and
# has the right gradient. The first two lines of the output are from ``logdet``, at a matrix
# with determinant −1 and at the singular A, and the last two are from ``slogdet``. At the
# singular A both functions give infinities:

swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
for f in (torch.logdet, lambda A: torch.linalg.slogdet(A).logabsdet):
    for M in (swap, A):
        print(f(M).item(), torch.autograd.grad(f(M), M)[0].tolist())

# %%
# Near a singular matrix
# ----------------------
#
# How large is the gradient if A is only nearly singular? We take ``[[1, 2], [2, 4 + ε]]``
# with an ε of 0.01, and then with an ε that is a hundred times smaller. The gradient
# grows as 1/√ε for Cholesky, as 1/ε for logdet, and as 1/ε² for the inverse. *Is solve
# better?* The rounding errors of ``solve`` are smaller. But its gradient grows like the
# gradient of the inverse, unless the right-hand side is in the range of the singular
# matrix:

ones, inside = torch.ones(2).double(), torch.tensor([1.0, 2.0]).double()
functions = {
    "cholesky": lambda A: torch.linalg.cholesky(A)[1, 1],
    "logdet": torch.logdet,
    "inv": lambda A: torch.linalg.inv(A).sum(),
    "solve": lambda A: torch.linalg.solve(A, ones).sum(),
    "solve, b in range": lambda A: torch.linalg.solve(A, inside).sum(),
}
for name, f in functions.items():
    near = [torch.tensor([[1, 2], [2, 4 + e]], dtype=torch.float64) for e in (1e-2, 1e-4)]
    print(f"{name:18}", *(f"{torch.func.grad(f)(A).norm():.1e}" for A in near))

# %%
# Such large gradients are right, but they are useless for a training step. If your
# gradients are that large, change the function, for example by passing it :math:`A+\lambda
# I` in place of A. The added term is known as a ridge, or, before a Cholesky factor is
# taken, as *jitter*.
#
# At a singular matrix
# --------------------
#
# What if the matrix is exactly singular? We take a batch of two matrices, of which the
# second is singular, and a loss that uses only the first. Each line of the output says for
# each of the two matrices whether its gradient holds NaN, or names the error:

second = torch.stack([torch.eye(2), A.detach()]).requires_grad_()
first = {
    "inv": torch.linalg.inv,
    "inv_ex": lambda A: torch.linalg.inv_ex(A).inverse,
    "cholesky_ex": lambda A: torch.linalg.cholesky_ex(A).L,
}
for name, f in first.items():
    try:
        (g,) = torch.autograd.grad(f(second)[0].sum(), second)
        print(f"{name:12}", g.isnan().any(2).any(1).tolist())
    except RuntimeError as error:
        print(f"{name:12}", type(error).__name__)

# %%
# The variants with ``_ex`` raise no error and report the failure in ``info``. But the
# matrix for which the operation failed gets a gradient of NaN even though its v is 0. A
# ``where`` after the operation comes too late. Put an invertible matrix in place of the
# singular one *before* the operation, as in :ref:`masked-nan`:

good = torch.linalg.inv_ex(second).info == 0
safe = torch.where(good[:, None, None], second, torch.eye(2))
torch.autograd.grad(torch.linalg.inv(safe)[0].sum(), second)[0].tolist()

# %%
# Rank and pseudoinverse
# ----------------------
#
# ``matrix_rank`` returns a count, and a count has no graph. ``pinv`` jumps where the rank
# changes, and its gradient jumps, too. People often use the sum of the singular values in
# place of the rank. This sum has the slope 1 with respect to each singular value, and a
# kink where one of them is 0. Here the singular values are 1 and e. After the first line,
# which is about the rank, each line of the output starts with e. The second number is the
# gradient of the sum of the pseudoinverse with respect to the entry e. This gradient is
# −1e8 for an e of 1e-4, and 0 for an e of 0. The list holds the slopes of the sum of the
# singular values:

print(torch.linalg.matrix_rank(A).requires_grad)
for e in (1e-4, 0.0):
    D = torch.diag(torch.tensor([1.0, e])).requires_grad_()
    (of_pinv,) = torch.autograd.grad(torch.linalg.pinv(D).sum(), D)
    (of_norm,) = torch.autograd.grad(torch.linalg.svdvals(D).sum(), D)
    print(e, f"{of_pinv[1, 1]:.0e}", of_norm.diag().abs().tolist())

# %%
# As a check, we compute the minors of a singular 3×3 matrix by hand. With their signs, they
# must be the gradient of its determinant:

import numpy as np

S = torch.tensor([[1.0, 2, 3], [4, 5, 6], [5, 7, 9]], dtype=torch.float64)
minors = torch.empty(3, 3, dtype=torch.float64)
for i, j in np.ndindex(3, 3):
    (a, b), (c, d) = np.delete(np.delete(S.numpy(), i, 0), j, 1)
    minors[i, j] = (-1) ** (i + j) * (a * d - b * c)
for found in (cofactors(S), cofactors(-S), torch.func.grad(torch.det)(S)):
    torch.testing.assert_close(found, minors)

# %%
# And at an invertible matrix, we compare the gradient of the sum of ``slogdet`` and
# ``inv`` with a difference quotient along one direction. NumPy computes this quotient:


def both(A, linalg):
    return linalg.slogdet(A)[1] + linalg.inv(A).sum()


P, D, h = S + torch.eye(3), torch.tensor([[1.0, 0, 2], [0, 1, 1], [1, 1, 0]]), 1e-5
up, down = (both((P + sign * h * D).numpy(), np.linalg) for sign in (1, -1))
slope = (torch.func.grad(both)(P, torch.linalg) * D).sum().item()
assert abs(slope - (up - down) / (2 * h)) < 1e-6

# %%
# Where next
# ----------
#
# :ref:`eigenvectors-nan` is about eigenvectors, and :ref:`deriving-vjps` shows how to
# derive the rules of inverse and solve.
#
# .. asked: singular matrix gradient; det gradient; inverse of a singular matrix;
#    Cholesky gradient; logdet NaN; matrix not invertible
# .. words: not invertible, covariance, gaussian, cholesky fails, jitter, pinverse, rank,
#    determinant zero
