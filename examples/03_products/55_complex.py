r"""
.. _complex-v:

Complex numbers: what v means for C→R and C→C
=============================================

For a complex ``y``, ``v`` has the shape *and* the complex dtype of ``y``, and ``x.grad``
gets :math:`J^\mathsf{H}v` where f is holomorphic: the conjugate of J, transposed. A real
loss of complex ``x`` needs no ``v``; ``x.grad`` is its direction of steepest ascent.
"""

# %%
# Write :math:`x=a+ib`. PyTorch's rule is that of two real numbers: for a real loss L,
#
# .. math::
#
#    \texttt{x.grad}=\frac{\partial L}{\partial a}+i\,\frac{\partial L}{\partial b} ,
#
# twice the derivative by the conjugate, :math:`2\,\partial L/\partial\bar x`.
#
# C→R
# ---
#
# :math:`L=|x|^2=a^2+b^2` at :math:`3+4i`: expect :math:`2a+2ib=6+8i`, and no ``v``:

import torch

x = torch.tensor(3 + 4j, requires_grad=True)
(x.abs() ** 2).backward()
x.grad

# %%
# A step against it goes downhill, as with real numbers. The real part grows along 1, the
# imaginary part along ``1j``:

print(torch.autograd.grad(x.real, x)[0], torch.autograd.grad(x.imag, x)[0])

# %%
# C→C
# ---
#
# A complex y has no bare ``backward``, not even with one element, and the message differs
# from the one for vectors:

y = x**2
try:
    y.backward()
except RuntimeError as error:
    print(error)

# %%
# With ``v`` of y's dtype. *I expected f'(z) = 2z:* for :math:`y=x^2`, :math:`y'=2x`, and
# ``v = 1`` gives its *conjugate*, :math:`\overline{2x}=6-8i`, so that ``x.grad.conj()`` is
# the derivative of a holomorphic f:

x.grad = None
y = x**2
y.backward(torch.tensor(1 + 0j))
x.grad

# %%
# What the 1 asks for is the gradient of :math:`\operatorname{Re}y`; ``1j`` that of
# :math:`\operatorname{Im}y`; in general that of :math:`\operatorname{Re}(\bar v\,y)`:

for v in (1 + 0j, 1j, 2 - 1j):
    v = torch.tensor(v)
    (by_v,) = torch.autograd.grad(x**2, x, v)
    (by_real,) = torch.autograd.grad((v.conj() * x**2).real, x)
    print(v.item(), by_v.item(), by_real.item())

# %%
# ``v`` is complex where y is, and real where y is. The other two are refused:

for y, v in ((x**2, torch.tensor(1.0)), (x.abs(), torch.tensor(1j))):
    try:
        torch.autograd.grad(y, x, v)
    except RuntimeError as error:
        print(error)

# %%
# R→C: *what is v for the FFT of a real signal?*
# ----------------------------------------------
#
# Complex, as y is; ``x.grad`` is real, as x is: the real part of :math:`J^\mathsf{H}v`.
# For ``fft`` J is the Fourier matrix, the transform of the identity. *Both parts of dy/dw,
# for a real w*, take two products, with 1 and 1j, here for :math:`y=(3+4i)w`:

signal = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
v = torch.tensor([1, 1j, 2 - 1j])
(by_fft,) = torch.autograd.grad(torch.fft.fft(signal), signal, v)
by_matrix = (torch.fft.fft(torch.eye(3)).mH @ v).real
torch.testing.assert_close(by_fft, by_matrix)
print(by_fft.dtype, by_fft.detach().round(decimals=2))
w = torch.tensor(2.0, requires_grad=True)
print(*(torch.autograd.grad((3 + 4j) * w, w, torch.tensor(v))[0] for v in (1 + 0j, 1j)))

# %%
# Not holomorphic
# ---------------
#
# In general
# :math:`\texttt{x.grad}=\overline{\frac{\partial y}{\partial x}}\,v
# +\frac{\partial y}{\partial\bar x}\,\bar v`.
# For :math:`y=\bar x` only the second term is there, and ``x.grad`` is :math:`\bar v`:

torch.autograd.grad(x.conj(), x, torch.tensor(2 - 1j))[0]

# %%
# :func:`torch.view_as_real` turns n complex numbers into 2n real ones; there J is
# an ordinary real matrix, and no convention is left to remember:


def conjugate(ab):
    z = torch.view_as_complex(ab)
    return torch.view_as_real(z.conj().resolve_conj())


torch.func.jacrev(conjugate)(torch.tensor([3.0, 4.0])).int()

# %%
# *Does Adam take a complex weight for one number or for two?* For two, as this view does:

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
# *jacrev and jacfwd for complex input* refuse rather than choose a convention, and so
# does :func:`pullback.jacobian`. Give them the ``view_as_real`` form above:

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
# The check: difference quotients along the real and the imaginary axis, and the formula,
# for :math:`x^2` and for :math:`x^2\bar x`, which has both of its terms:

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
# Which shapes and dtypes are taken: :ref:`shape-rule`. A backward of your own for complex
# input: :ref:`deriving-vjps`.
#
# .. asked: complex gradient; Wirtinger derivative; derivative by a complex number;
#    conjugate gradient in PyTorch; backward for complex output; complex tensors and
#    backward; holomorphic function
