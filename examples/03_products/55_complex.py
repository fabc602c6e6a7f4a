r"""
.. _complex-v:

Complex numbers: what v means for C→R and C→C
=============================================

Your network works with complex numbers, and you wonder whether ``x.grad`` is the derivative
or its conjugate, and what to pass for ``v``. For a complex ``y``, ``v`` has the shape *and*
the complex dtype of ``y``. If f is holomorphic, ``x.grad`` receives :math:`J^\mathsf{H}v`,
where :math:`J^\mathsf{H}` is the conjugate transpose of J. A real loss of a complex ``x``
needs no ``v``. For such a loss, ``x.grad`` points in the direction of steepest ascent. If
you derived :math:`\partial L/\partial x` by hand, then ``x.grad`` is twice its conjugate.
"""

# %%
# Write :math:`x=a+ib`. PyTorch treats a complex number as two real numbers. For a real
# loss L the rule is
#
# .. math::
#
#    \texttt{x.grad}=\frac{\partial L}{\partial a}+i\,\frac{\partial L}{\partial b} .
#
# In the notation of Wirtinger, this is twice the derivative with respect to the
# conjugate, :math:`2\,\partial L/\partial\bar x`. For a real L the derivative with respect
# to x itself, :math:`\partial L/\partial x`, is ``x.grad.conj() / 2``.
#
# C→R
# ---
#
# Take :math:`L=|x|^2=a^2+b^2` at :math:`3+4i`. By the rule we expect :math:`2a+2ib=6+8i`,
# and we need no ``v``, because L is real:

import torch

x = torch.tensor(3 + 4j, requires_grad=True)
(x.abs() ** 2).backward()
x.grad

# %%
# A small step against this gradient goes downhill, as with real numbers. You can see the
# directions of the two parts separately: the real part grows fastest along 1, and the
# imaginary part grows fastest along ``1j``:

print(torch.autograd.grad(x.real, x)[0], torch.autograd.grad(x.imag, x)[0])

# %%
# *My gradient by hand has half the real part, and half the imaginary part with the other
# sign.* You differentiated with respect to x, with the conjugate held still. Take twice the
# conjugate of yours, ``2 * (dL/dx).conj()``. For :math:`L=\sum|Ax-b|^2` with
# :math:`r=Ax-b`, your formula is :math:`A^\top\bar r`:

A = torch.tensor([[1 + 2j, 3 - 1j], [2 + 0j, 1 + 1j]])
b, z = torch.tensor([1j, 2 + 0j]), torch.tensor([1 + 1j, 2 - 1j], requires_grad=True)
r = A @ z - b
(stored,) = torch.autograd.grad(r.abs().square().sum(), z)
by_hand = A.T @ r.conj()
print(stored, by_hand.detach())
print(torch.allclose(stored, 2 * by_hand.conj()))

# %%
# C→C
# ---
#
# If y is complex, ``backward()`` without an argument is refused, even if y has only one
# element. The message differs a little from the message that you get for vectors:

y = x**2
try:
    y.backward()
except RuntimeError as error:
    print(error)

# %%
# So we pass a ``v`` with the dtype of y. *I expected f'(z) = 2z.* The derivative of
# :math:`y=x^2` is :math:`2x=6+8i`, but with ``v = 1`` we get its *conjugate*,
# :math:`\overline{2x}=6-8i`. If f is holomorphic, ``x.grad.conj()`` is the derivative:

x.grad = None
y = x**2
y.backward(torch.tensor(1 + 0j))
x.grad

# %%
# Why the conjugate? The 1 asks for the gradient of the real part
# :math:`\operatorname{Re}y`, by the rule at the top of the page. With ``1j`` you ask for
# the gradient of :math:`\operatorname{Im}y`. With any ``v``, you ask for the gradient of
# :math:`\operatorname{Re}(\bar v\,y)`. Each line of the output shows ``v``, then the
# gradient that autograd gives for it, and then the gradient of this real part:

for v in (1 + 0j, 1j, 2 - 1j):
    v = torch.tensor(v)
    (by_v,) = torch.autograd.grad(x**2, x, v)
    (by_real,) = torch.autograd.grad((v.conj() * x**2).real, x)
    print(v.item(), by_v.item(), by_real.item())

# %%
# ``v`` must be complex if y is complex, and real if y is real. The other two combinations
# are refused:

for y, v in ((x**2, torch.tensor(1.0)), (x.abs(), torch.tensor(1j))):
    try:
        torch.autograd.grad(y, x, v)
    except RuntimeError as error:
        print(error)

# %%
# R→C: *what is v for the FFT of a real signal?*
# ----------------------------------------------
#
# ``v`` is complex, because y is complex. ``x.grad`` is real, because x is real, and it is
# the real part of :math:`J^\mathsf{H}v`. For ``fft``, J is the Fourier matrix, which is
# the transform of the identity. The code below computes
# :math:`\operatorname{Re}(J^\mathsf{H}v)` from this matrix, and compares it with the
# result of autograd.
#
# If you want *both parts of dy/dw* for a real w, you need two products, one with 1 and one
# with 1j. The last line of the output shows these two products for :math:`y=(3+4i)w`:

signal = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1, 1j, 2 - 1j])
(by_fft,) = torch.autograd.grad(torch.fft.fft(signal), signal, v)
by_matrix = (torch.fft.fft(torch.eye(3)).mH @ v).real
torch.testing.assert_close(by_fft, by_matrix)
print(by_fft.dtype, by_fft.detach().round(decimals=2))
w = torch.tensor(2.0, requires_grad=True)
print(*(torch.autograd.grad((3 + 4j) * w, w, torch.tensor(v))[0] for v in (1 + 0j, 1j)))

# %%
# Functions that are not holomorphic
# ----------------------------------
#
# In general there are two terms, :math:`\texttt{x.grad}=\overline{\frac{\partial
# y}{\partial x}}\,v +\frac{\partial y}{\partial\bar x}\,\bar v`. For a holomorphic function
# the second term is zero. For :math:`y=\bar x` the first term is zero, and ``x.grad`` is
# :math:`\bar v`:

torch.autograd.grad(x.conj(), x, torch.tensor(2 - 1j))[0]

# %%
# If you would rather not think about conventions, use :func:`torch.view_as_real`. It turns
# n complex numbers into 2n real numbers, and J becomes an ordinary real matrix. If the
# function is the conjugate, J keeps the sign of the real part and flips the sign of the
# imaginary part:


def conjugate(ab):
    z = torch.view_as_complex(ab)
    return torch.view_as_real(z.conj().resolve_conj())


torch.func.jacrev(conjugate)(torch.tensor([3.0, 4.0])).int()

# %%
# *Does Adam treat a complex weight as one number or as two?* It treats the weight as two
# numbers. After one step, the value is exactly the same whether Adam was given the complex
# weight or its real view:

steps = []
for two in (False, True):
    w = torch.tensor([3 + 4j], requires_grad=True)
    leaf = torch.view_as_real(w.detach()).clone().requires_grad_() if two else w
    (leaf.abs() ** 2).sum().backward()
    torch.optim.Adam([leaf], lr=0.1).step()
    steps.append(leaf.detach() if two else torch.view_as_real(w.detach()))
print(steps[0], torch.equal(*steps))

# %%
# What goes wrong
# ---------------
#
# *jacrev and jacfwd refuse complex input.* There is more than one convention for a
# complex :term:`Jacobian`, and these functions do not choose one for you.
# :func:`pullback.jacobian` refuses complex input as well. You can pass the
# ``view_as_real`` form from above to any of these three functions. With complex input
# they raise these errors:

import pullback

for transform in (torch.func.jacrev, torch.func.jacfwd):
    try:
        transform(torch.square)(x.detach())
    except RuntimeError as error:
        print(error)
try:
    pullback.jacobian(torch.square, x.detach())
except TypeError as error:
    print(error)

# %%
# As a check, we take difference quotients along the real and along the imaginary axis. We
# compare PyTorch's product with them and with the two-term formula, for :math:`x^2`, which
# is holomorphic, and for :math:`x^2\bar x`, where neither term is zero:

h, at = 1e-6, torch.tensor(3 + 4j, dtype=torch.complex128)
v = torch.tensor(2 - 1j, dtype=torch.complex128)
cases = [
    (lambda z: z**2, 2 * at, 0 * at),
    (lambda z: z**2 * z.conj(), 2 * at * at.conj(), at**2),
]
for f, by_x, by_conjugate in cases:
    a, b = ((f(at + h * d) - f(at - h * d)) / (2 * h) for d in (1, 1j))
    quotient = torch.complex((v.conj() * a).real, (v.conj() * b).real)
    g = torch.func.vjp(f, at)[1](v)[0]
    torch.testing.assert_close(g, quotient)
    torch.testing.assert_close(g, by_x.conj() * v + by_conjugate * v.conj())

# %%
# Where next
# ----------
#
# :ref:`shape-rule` says which shapes and dtypes are accepted for ``v``, and
# :ref:`deriving-vjps` shows how to write your own backward rule for complex input.
#
# .. asked: complex gradient; Wirtinger derivative; derivative by a complex number;
#    conjugate gradient in PyTorch; backward for complex output; complex tensors and
#    backward; holomorphic function
# .. words: imaginary, phase, FFT, quantum, signal, amplitude, conjugate, conj, real and
#    imaginary part, holomorphic, spectrogram
