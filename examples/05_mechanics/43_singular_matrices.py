r"""
.. _singular-matrices:

det, logdet, inv, Cholesky: what is the gradient at a singular matrix?
======================================================================

The determinant's is finite, and where det comes out as 0 torch gives zeros in its place,
unless it records the backward. Those of logdet, inverse and Cholesky factor grow without
bound on the way there, and end in an error, in ±∞ or in NaN.
"""

# %%
# For A of shape ``(n, n)``, where the last formula holds without an inverse as well (C is
# the matrix of cofactors, the signed minors):
#
# .. math::
#
#    \nabla\log|\det A|=A^{-\top},\qquad \bar A=-A^{-\top}v\,A^{-\top}\ \text{(inverse)},
#    \qquad \nabla\det A=C=\det(A)\,A^{-\top}.
#
# A singular matrix, with the cofactors 4, −2, −2 and 1:

import torch

A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
torch.autograd.grad(torch.det(A), A)[0] + 0.0

# %%
# Zeros, without a word. By :math:`\det(A)\,A^{-\top}` it is :math:`0\cdot\infty`, and torch
# replaces the zero pivot by a small number. :term:`Forward mode <forward mode>` does no
# better: 0, and since torch 2.15 an error (:ref:`version-notes`). When the backward is
# recorded, as :func:`torch.func.grad` does, another formula is taken, which is right:

torch.autograd.grad(torch.det(A), A, create_graph=True)[0].detach().round(decimals=4)

# %%
# That formula, for any rank, multiplies the singular values but one (and its own derivative
# passes through an SVD, :ref:`eigenvectors-nan`). *Mine is singular, and the gradient is
# right.* Rounding left a det that is not quite 0. Of rank 1: is det 0, the gradient right?


def cofactors(A):
    U, s, Vh = torch.linalg.svd(A)
    rest = torch.stack([torch.cat([s[:i], s[i + 1 :]]).prod() for i in range(len(s))])
    return torch.det(U) * torch.det(Vh) * (U * rest) @ Vh


torch.manual_seed(0)  # among fifty there are both kinds
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
# *My log(det(A)) is −inf, though A is no way singular.* The product of 200 numbers 0.1 is 0
# in float32. Never take the logarithm of a determinant:

small = (0.1 * torch.eye(200)).requires_grad_()
for f in (lambda A: torch.det(A).log(), torch.logdet, lambda A: torch.slogdet(A)[1]):
    y = f(small)
    print(round(y.item(), 2), torch.autograd.grad(y, small)[0][0, 0].item())

# %%
# Of a negative determinant ``logdet`` is NaN with a gradient of zero, so that a NaN check
# sees nothing. ``slogdet`` keeps the sign apart. For the singular A both give infinities:

swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
for f in (torch.logdet, lambda A: torch.linalg.slogdet(A).logabsdet):
    for M in (swap, A):
        print(f(M).item(), torch.autograd.grad(f(M), M)[0].tolist())

# %%
# Near, but not there
# -------------------
#
# The size of the gradient as ε goes to 0 in ``[[1, 2], [2, 4 + ε]]``. It grows as 1/√ε for
# Cholesky, as 1/ε for logdet, as 1/ε² for the inverse. *Is solve better?* It rounds better;
# its slope is the inverse's, unless the right side lies in the singular matrix's range:

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
# Such numbers are right, and useless as a step. Take another function, that of
# :math:`A+\lambda I`: a ridge, or the *jitter* before a Cholesky factor.
#
# On arrival
# ----------
#
# A batch of two, the second of them singular, and a loss of the first alone. Which of the
# two gradients is NaN, or the error:

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
# The ``_ex`` variants report in ``info`` and raise nothing; a failed matrix gets NaN even
# for v = 0. A ``where`` afterwards is too late; put a good matrix in before
# (:ref:`masked-nan`):

good = torch.linalg.inv_ex(second).info == 0
safe = torch.where(good[:, None, None], second, torch.eye(2))
torch.autograd.grad(torch.linalg.inv(safe)[0].sum(), second)[0].tolist()

# %%
# A rank that counts
# ------------------
#
# ``matrix_rank`` counts, and has no graph. ``pinv`` jumps where the rank does, and its
# gradient with it. The sum of the singular values, which stands in for a rank, has a slope
# of size 1 for each (and a kink at 0). Singular values 1 and e:

print(torch.linalg.matrix_rank(A).requires_grad)
for e in (1e-4, 0.0):
    D = torch.diag(torch.tensor([1.0, e])).requires_grad_()
    (of_pinv,) = torch.autograd.grad(torch.linalg.pinv(D).sum(), D)
    (of_norm,) = torch.autograd.grad(torch.linalg.svdvals(D).sum(), D)
    print(e, f"{of_pinv[1, 1]:.0e}", of_norm.diag().abs().tolist())

# %%
# The check: minors of a singular 3×3 matrix by hand; differences for the others, by NumPy:

import numpy as np

S = torch.tensor([[1.0, 2, 3], [4, 5, 6], [5, 7, 9]], dtype=torch.float64)
minors = torch.empty(3, 3, dtype=torch.float64)
for i, j in np.ndindex(3, 3):
    (a, b), (c, d) = np.delete(np.delete(S.numpy(), i, 0), j, 1)
    minors[i, j] = (-1) ** (i + j) * (a * d - b * c)
for found in (cofactors(S), cofactors(-S), torch.func.grad(torch.det)(S)):
    torch.testing.assert_close(found, minors)

# %%
# And one direction, at an invertible matrix:


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
# Eigenvectors: :ref:`eigenvectors-nan`. Rules of inverse and solve: :ref:`deriving-vjps`.
#
# .. asked: singular matrix gradient; det gradient; inverse of a singular matrix;
#    Cholesky gradient; logdet NaN; matrix not invertible
#
# .. words: not invertible, covariance, gaussian, cholesky fails, jitter, pinverse, rank,
#    determinant zero
