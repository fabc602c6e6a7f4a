r"""
.. _singular-matrices:

det, logdet, inv, Cholesky: which gradient has a singular matrix?
=================================================================

The determinant's is finite, and torch gives zeros in its place unless it records a graph
of the backward. Those of logdet, inverse and Cholesky factor grow without bound on the
way there, and end in an error or in NaN.
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
# Zeros, without a word; by the formula :math:`\det(A)\,A^{-\top}` it is :math:`0\cdot
# \infty`, and torch replaces the zero pivot by a small number. :term:`Forward mode
# <forward mode>` does the same: 0 where the cofactors add up to 1. When it must record the
# backward, torch takes another formula, and that one is right:

print(torch.func.jvp(torch.det, (A.detach(),), (torch.ones(2, 2),))[1] + 0.0)
(recorded,) = torch.autograd.grad(torch.det(A), A, create_graph=True)
recorded.detach().round(decimals=4)

# %%
# So is :func:`torch.func.grad`, which records. The formula, for any rank, is a product of
# singular values that leaves one out (a second derivative of it passes through an SVD,
# :ref:`eigenvectors-nan`):


def cofactors(A):
    U, s, Vh = torch.linalg.svd(A)
    rest = torch.stack([torch.cat([s[:i], s[i + 1 :]]).prod() for i in range(len(s))])
    return torch.det(U) * torch.det(Vh) * (U * rest) @ Vh


print(torch.func.grad(torch.det)(A.detach()).round(decimals=4))
cofactors(A.detach()).round(decimals=4)

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
# of gradients sees nothing. ``slogdet`` keeps the sign apart, and gives :math:`A^{-\top}`:

swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
for y in (torch.logdet(swap), torch.linalg.slogdet(swap).logabsdet):
    print(y.item(), torch.autograd.grad(y, swap)[0].tolist())

# %%
# Near, but not there
# -------------------
#
# The size of the gradient as ε goes to 0 in ``[[1, 2], [2, 4 + ε]]``. It grows as 1/√ε for
# Cholesky, as 1/ε for logdet, as 1/ε² for the inverse. *Is solve better?* In rounding; its
# slope is the inverse's, unless the right side lies in the range of the singular matrix:

ones, inside = torch.ones(2, dtype=torch.float64), torch.tensor([1.0, 2.0]).double()
functions = {
    "det": torch.det,
    "cholesky": lambda A: torch.linalg.cholesky(A)[1, 1],
    "logdet": torch.logdet,
    "inv": lambda A: torch.linalg.inv(A).sum(),
    "solve": lambda A: torch.linalg.solve(A, ones).sum(),
    "solve, b in range": lambda A: torch.linalg.solve(A, inside).sum(),
}
for name, f in functions.items():
    near = [torch.tensor([[1, 2], [2, 4 + e]]).double() for e in (1e-2, 1e-4)]
    print(f"{name:18}", *(f"{torch.func.grad(f)(A).norm():.0e}" for A in near))

# %%
# Such numbers are right, and useless as a step. Ask for another function, that of
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
        g = torch.autograd.grad(f(second)[0].sum(), second)[0]
        print(f"{name:12}", g.isnan().flatten(1).any(1).tolist())
    except RuntimeError as error:
        print(f"{name:12}", type(error).__name__)

# %%
# The ``_ex`` variants report in ``info`` and raise nothing; the failed matrix gets NaN even
# for v = 0, and passes it on to whatever it was made of. A ``where`` afterwards is too
# late; put a good matrix in its place before (:ref:`masked-nan`):

info = torch.linalg.inv_ex(second).info
safe = torch.where((info == 0)[:, None, None], second, torch.eye(2))
(g,) = torch.autograd.grad(torch.linalg.inv(safe)[0].sum(), second)
g.tolist()

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
for i in range(3):
    for j in range(3):
        (a, b), (c, d) = np.delete(np.delete(S.numpy(), i, 0), j, 1)
        minors[i, j] = (-1) ** (i + j) * (a * d - b * c)
for found in (cofactors(S), torch.func.grad(torch.det)(S)):
    torch.testing.assert_close(found, minors)

# %%
# One direction, at an invertible matrix:

P, D, h = S + torch.eye(3), torch.tensor([[1.0, 0, 2], [0, 1, 1], [1, 1, 0]]), 1e-5
for f, in_numpy in (
    (lambda A: torch.linalg.slogdet(A).logabsdet, lambda A: np.linalg.slogdet(A)[1]),
    (lambda A: torch.linalg.inv(A).sum(), lambda A: np.linalg.inv(A).sum()),
):
    up, down = (in_numpy((P + sign * h * D).numpy()) for sign in (1, -1))
    slope = (torch.func.grad(f)(P) * D).sum().item()
    assert abs(slope - (up - down) / (2 * h)) < 1e-6

# %%
# Where next
# ----------
#
# Eigenvectors: :ref:`eigenvectors-nan`. The rules of inverse and solve:
# :ref:`deriving-vjps`.
