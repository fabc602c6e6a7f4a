r"""
.. _eigenvectors-nan:

Why does the gradient through eigh or svd turn NaN?
===================================================

Your loss uses eigenvectors or singular vectors, and its gradient is NaN, although the
decomposition itself is fine. The derivative of an eigenvector divides by the gaps between
its eigenvalue and the others, and two of your eigenvalues are equal, so one of these gaps
is 0. If you need only the values, take ``eigvalsh`` or ``svdvals``, whose gradients stay
finite even if two values are equal. If your result depends on the matrix but not on the
choice of the vectors, it still has a derivative, and you can compute this derivative in
another way.
"""

# %%
# For a symmetric :math:`A=V\Lambda V^\top` of shape ``(n, n)`` with distinct eigenvalues,
# a small change of A has these effects:
#
# .. math::
#
#    d\lambda_i=v_i^\top dA\,v_i,\qquad
#    dv_i=\sum_{j\ne i}\frac{v_j^\top dA\,v_i}{\lambda_i-\lambda_j}\,v_j .
#
# Our matrix has the eigenvalues 1, 1 and 2, and these are its singular values as well. We
# compute four gradients. The first two are gradients of the sum of the two equal values,
# once as eigenvalues and once as singular values. Both are finite. The last two are
# gradients of one entry of a vector, from ``eigh`` and from ``svd``. For ``svd`` we print
# only whether all entries of the gradient are NaN:

import torch

A = torch.diag(torch.tensor([1.0, 1.0, 2.0])).double().requires_grad_()


def gradient(f, A):
    return torch.autograd.grad(f(A), A)[0]


print(gradient(lambda A: torch.linalg.eigvalsh(A)[:2].sum(), A))
print(gradient(lambda A: torch.linalg.svdvals(A)[1:].sum(), A))
print(gradient(lambda A: torch.linalg.eigh(A)[1][0, 0], A))
print(gradient(lambda A: torch.linalg.svd(A)[0][0, 0], A).isnan().all().item())

# %%
# No number would be right in place of the NaN. Every vector in the plane of the two equal
# eigenvalues is an eigenvector, and when you change A slightly, the direction of the change
# determines which of them ``eigh`` returns. We change A by a hundred-millionth in two
# different directions, and look at the first eigenvector:

aside = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])
for change in (torch.diag(torch.tensor([0.0, 1, 0])), aside):
    print(torch.linalg.eigh(A.detach() + 1e-8 * change)[1][:, 0].abs().numpy().round(3))

# %%
# *My eigenvalues are not equal, only close.* In that case the gradient is correct, but
# huge. We differentiate the product of the two entries of an eigenvector, because this
# product does not depend on the sign of the vector. Each line of the output shows the gap,
# then the norm of the gradient of this product, which grows as 1 divided by the gap, and
# then the norm of the gradient of the eigenvalue, which stays at 1:

for gap in (1e-2, 1e-4, 1e-6):
    near = torch.diag(torch.tensor([1.0, 1 + gap], dtype=torch.float64)).requires_grad_()
    vector = gradient(lambda A: torch.linalg.eigh(A)[1][:, 0].prod(), near)
    value = gradient(lambda A: torch.linalg.eigvalsh(A)[0], near)
    print(f"{gap:.0e}  {vector.norm():.0f}  {value.norm():.0f}")

# %%
# *I only use the third eigenvector, or only* :math:`Ve^\Lambda V^\top`, *which is the same
# whichever eigenvectors are chosen.* The projector on the third vector and the matrix
# exponential are both smooth in A. But the backward pass through ``eigh`` still divides by
# the gap between the two equal values, and so both gradients are NaN:

G = torch.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]]).double()  # v, shaped like the outputs


def of_third(A):
    third = torch.linalg.eigh(A)[1][:, 2:]
    return ((third @ third.T) * G).sum()


def of_exponential(A):
    L, V = torch.linalg.eigh(A)
    return ((V * L.exp()) @ V.T * G).sum()


[bool(gradient(f, A).isnan().all()) for f in (of_third, of_exponential)]

# %%
# *My matrix is not square.* In that case a single singular value of 0 is enough to give
# NaN: each row or column that is missing from a square matrix counts as another singular
# value of 0. Here the singular values are 2 and 0. We differentiate the singular vector
# that belongs to the singular value 2, for a matrix with two columns and either two or
# three rows, and print whether the gradient contains NaN:

for rows in (2, 3):
    B = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])[:rows].requires_grad_()
    of_u = gradient(lambda B: torch.linalg.svd(B, full_matrices=False)[0][:, 0].sum(), B)
    print(rows, of_u.isnan().any().item())

# %%
# What to do instead
# ------------------
#
# Differentiate :math:`f(A)=V\,f(\Lambda)\,V^\top` as a whole. Its :term:`VJP` contains
# difference quotients of f, and for a smooth f they stay finite when two eigenvalues
# meet. This is a result of Daleckii and Krein. Where two eigenvalues are equal, the
# quotient turns into the derivative :math:`f'(\lambda_i)`. The code below uses the
# derivative of f in place of the quotient if two eigenvalues agree to half the digits of
# the dtype:
#
# .. math::
#
#    \bar A=V\,(Q\circ V^\top G\,V)\,V^\top,\qquad
#    Q_{ij}=\frac{f(\lambda_i)-f(\lambda_j)}{\lambda_i-\lambda_j}


def of_matrix(f, slope, A):
    with torch.no_grad():
        L, V = torch.linalg.eigh(A)
        gap = L - L[:, None]
        near = gap.abs() <= torch.finfo(L.dtype).eps ** 0.5 * L.abs().max()
        Q = (f(L) - f(L)[:, None]) / torch.where(near, 1.0, gap)
        Q = torch.where(near, slope(L), Q)
    change = A - A.detach()  # zeros that carry a gradient
    return (V * f(L)) @ V.T + V @ (Q * (V.T @ change @ V)) @ V.T


# %%
# The last line of the function returns the value plus its linear change. So the function
# has a first derivative, but no second derivative. For the projector, f is 1 for
# eigenvalues above 1.5 and 0 for the others. For the exponential we have something to
# compare with, because PyTorch has ``matrix_exp``:

third = of_matrix(lambda L: 1.0 * (L > 1.5), torch.zeros_like, A)
projector = torch.autograd.grad(third, A, G)[0]
power = torch.autograd.grad(of_matrix(torch.exp, torch.exp, A), A, G)[0]
print(projector)
print(torch.allclose(power, gradient(lambda A: (torch.linalg.matrix_exp(A) * G).sum(), A)))

# %%
# What does not help
# ------------------
#
# *I set 1/0 to 0 in my own backward.* In such a backward, the entries of Q that belong to a
# pair of equal values are 0. These zeros are right for the projector, but wrong for the
# exponential, as the first line of the output shows. *I add noise to the diagonal.* If you
# add too much, you change A, and if you add too little, the gap has too few correct digits
# left. Of the three amounts below, only the middle one gets all entries right to within
# 0.001:

masked = of_matrix(torch.exp, lambda L: torch.diag(L.exp()), A)
print(torch.allclose(torch.autograd.grad(masked, A, G)[0], power))
for noise in (1e-3, 1e-6, 1e-14):
    split = torch.diag(torch.tensor([0.0, noise, 0.0]))
    off = gradient(lambda A, split=split: of_exponential(A + split), A) - power
    print(f"{noise:.0e} {'good' if off.abs().max() < 1e-3 else 'bad'}")

# %%
# "The specified loss function depends on this quantity"
# ------------------------------------------------------
#
# Complex eigenvectors are determined only up to a phase, and real ones only up to a sign.
# ``eigh``, ``eig`` and ``svd`` refuse a loss that depends on the phase. A loss that depends
# on the sign is not refused. You have to fix the phase yourself. For example, choose an
# entry that is not 0, and multiply the vector by the phase factor that makes this entry
# positive. The function ``fixed`` fixes the phase in this way, and the loss below it does
# not:

H = torch.tensor([[2.0, 1, 0], [1, 3, 1j], [0, -1j, 1]]).cdouble().requires_grad_()


def fixed(H):
    v = torch.linalg.eigh(H)[1][:, 0]
    return (v * v[0].abs() / v[0])[2].imag


try:
    gradient(lambda H: torch.linalg.eigh(H)[1][:, 0].imag.sum(), H)
except RuntimeError as error:
    print(error)

# %%
# As a check, we compare two gradients with difference quotients: the gradient of the
# projector along a symmetric direction, and the gradient of the loss with the fixed phase
# along a Hermitian direction. At the zero matrix all eigenvalues are equal and exp has
# slope 1, so the VJP must be G:


def quotient(f, A, D, h=1e-5):
    return (f(A.detach() + h * D) - f(A.detach() - h * D)).item() / (2 * h)


D = torch.tensor([[0.0, 1, 1], [1, 1, -1], [1, -1, 0]])
assert abs((projector * D).sum().item() - quotient(of_third, A, D)) < 1e-6
E = D + 1j * torch.tensor([[0.0, 1, 2], [-1, 0, 1], [-2, -1, 0]])
along = (gradient(fixed, H).conj() * E).sum().real.item()
assert abs(along - quotient(fixed, H, E)) < 1e-6
zero = torch.zeros(3, 3).double().requires_grad_()
(at_zero,) = torch.autograd.grad(of_matrix(torch.exp, torch.exp, zero), zero, G)
torch.testing.assert_close(at_zero, G)

# %%
# Where next
# ----------
#
# :ref:`singular-matrices` is about inverses and determinants. :ref:`kinks` is about
# functions with a kink, and :ref:`deriving-vjps` is about the symmetry of gradients with
# respect to a symmetric matrix.
#
# .. asked: eigh gradient NaN; svd backward NaN; equal eigenvalues; gradient of
#    eigenvectors; eigenvalue derivative; degenerate eigenvalues
# .. words: decomposition, pca, repeated, degenerate, symmetric, nan, singular values,
#    rotation, procrustes, covariance
