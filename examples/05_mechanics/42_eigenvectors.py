r"""
.. _eigenvectors-nan:

Why does the gradient through eigh or svd turn NaN?
===================================================

Because the slope of an eigenvector is one over the gap to the other eigenvalues, and two
are equal. If you want the values only, take ``eigvalsh`` or ``svdvals``, which stay finite.
What depends on the matrix, not on the choice of vectors, has a derivative still.
"""

# %%
# For symmetric :math:`A=V\Lambda V^\top`, of shape ``(n, n)``, small changes are
#
# .. math::
#
#    d\lambda_i=v_i^\top dA\,v_i,\qquad
#    dv_i=\sum_{j\ne i}\frac{v_j^\top dA\,v_i}{\lambda_i-\lambda_j}\,v_j .
#
# This matrix has the eigenvalues 1, 1 and 2, which are its singular values as well. The
# gradient of the sum of the equal two; of one entry of a vector by ``eigh``, by ``svd``:

import torch

A = torch.diag(torch.tensor([1.0, 1.0, 2.0])).double().requires_grad_()


def gradient(f, A):
    return torch.autograd.grad(f(A), A)[0]


print(gradient(lambda A: torch.linalg.eigvalsh(A)[:2].sum(), A))
print(gradient(lambda A: torch.linalg.svdvals(A)[1:].sum(), A))
print(gradient(lambda A: torch.linalg.eigh(A)[1][0, 0], A))
print(gradient(lambda A: torch.linalg.svd(A)[0][0, 0], A).isnan().all().item())

# %%
# No number would be right. In the plane of the equal two every vector is an eigenvector,
# and which one you get depends on where you come from:

aside = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])
for change in (torch.diag(torch.tensor([0.0, 1, 0])), aside):
    print(torch.linalg.eigh(A.detach() + 1e-8 * change)[1][:, 0].abs().numpy().round(3))

# %%
# *Mine are not equal, only close.* Then the gradient is right and huge, as one over the
# gap; the eigenvalue's has size 1. (The product has no sign to choose.)

for gap in (1e-2, 1e-4, 1e-6):
    near = torch.diag(torch.tensor([1.0, 1 + gap], dtype=torch.float64)).requires_grad_()
    vector = gradient(lambda A: torch.linalg.eigh(A)[1][:, 0].prod(), near)
    value = gradient(lambda A: torch.linalg.eigvalsh(A)[0], near)
    print(f"{gap:.0e}  {vector.norm():.0f}  {value.norm():.0f}")

# %%
# *I only use the third vector, or only* :math:`Ve^\Lambda V^\top`, *the same for every
# choice.* Both are smooth in A. The way back divides by the gap of the two all the same:

G = torch.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]]).double()  # v, in the outputs' shape


def of_third(A):
    third = torch.linalg.eigh(A)[1][:, 2:]
    return ((third @ third.T) * G).sum()


def of_exponential(A):
    L, V = torch.linalg.eigh(A)
    return ((V * L.exp()) @ V.T * G).sum()


[bool(gradient(f, A).isnan().all()) for f in (of_third, of_exponential)]

# %%
# *My matrix is not square.* Then one singular value 0 is enough, as the missing rows count
# for zeros, too. For values 2 and 0, the vector of the 2, in two columns and 2 or 3 rows:

for rows in (2, 3):
    B = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])[:rows].requires_grad_()
    of_u = gradient(lambda B: torch.linalg.svd(B, full_matrices=False)[0][:, 0].sum(), B)
    print(rows, of_u.isnan().any().item())

# %%
# What to do instead
# ------------------
#
# Differentiate :math:`f(A)=V\,f(\Lambda)\,V^\top` as a whole. Its :term:`VJP` has a
# quotient that is well behaved (Daleckii and Krein), and in its place :math:`f'(\lambda_i)`
# where two eigenvalues meet, to half the digits that the dtype has:
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
# The last line is the value plus its linear change, which gives one derivative, no second.
# The projector is the f with 1 above 1.5, else 0; for exp there is ``matrix_exp``:

third = of_matrix(lambda L: 1.0 * (L > 1.5), torch.zeros_like, A)
projector = torch.autograd.grad(third, A, G)[0]
power = torch.autograd.grad(of_matrix(torch.exp, torch.exp, A), A, G)[0]
print(projector)
print(torch.allclose(power, gradient(lambda A: (torch.linalg.matrix_exp(A) * G).sum(), A)))

# %%
# What does not help
# ------------------
#
# *I set 1/0 to 0 in a backward of my own.* Then Q is 0 within the pair: right for the
# projector, wrong for the exponential. *I add noise to the diagonal.* Too much changes A,
# too little leaves no digits:

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
# Complex vectors are known up to a phase, real ones up to a sign. A loss that depends on
# the phase is refused, by ``eig`` and ``svd`` as well; one that depends on the sign is not.
# Fix the phase yourself, by making an entry that is not 0 positive:

H = torch.tensor([[2.0, 1, 0], [1, 3, 1j], [0, -1j, 1]]).cdouble().requires_grad_()


def fixed(H):
    v = torch.linalg.eigh(H)[1][:, 0]
    return (v * v[0].abs() / v[0])[2].imag


try:
    gradient(lambda H: torch.linalg.eigh(H)[1][:, 0].imag.sum(), H)
except RuntimeError as error:
    print(error)

# %%
# The check: quotients along a symmetric and a Hermitian direction; at 0 exp has slope 1:


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
# Inverses: :ref:`singular-matrices`. Kinks: :ref:`kinks`. Symmetry: :ref:`deriving-vjps`.
#
# .. asked: eigh gradient NaN; svd backward NaN; equal eigenvalues; gradient of
#    eigenvectors; eigenvalue derivative; degenerate eigenvalues
