r"""
.. _infinite-slopes:

Why is my gradient inf, or 1e12? Angles, powers and norms without a finite slope
================================================================================

You differentiate an angle, a power or a norm, and at some point the gradient is ``inf`` or
huge. The derivative is unbounded there, or does not exist. Examples are ``acos`` at 1, a
power with an exponent below 1 at 0, and a direction at the zero vector. There, PyTorch
returns ``inf`` for some functions, a large number for others, and NaN or 0 for the rest. If
there is another formula for the same quantity whose slope is finite, use that formula. If
there is none, keep the point out of the computation.
"""

# %%
# We ask several functions for their value and their slope at a point where the slope is
# unbounded or does not exist. ``x`` has shape ``(n,)``, or ``(1, n)`` for a distance
# between rows. ``y`` is a single number, and no mask is involved:

import torch
from torch.nn import functional as F

ends = {
    "acos(1)": (lambda x: x.acos().sum(), [1.0]),
    "sqrt(0)": (lambda x: x.sqrt().sum(), [0.0]),
    "log(0)": (lambda x: x.log().sum(), [0.0]),
    "atanh(1)": (lambda x: x.atanh().sum(), [1.0]),
    "normalize(0)": (lambda x: F.normalize(x, dim=0)[0], [0.0, 0.0]),
    "cosine_similarity(0, u)": (lambda x: F.cosine_similarity(x, u, dim=0), [0.0, 0.0]),
    "pairwise_distance(x, x)": (lambda x: F.pairwise_distance(x, o)[0], [[0.0, 0.0]]),
}
u, o = torch.tensor([3.0, 4.0]), torch.zeros(1, 2)

# %%
# For ``cdist`` and the other functions below, PyTorch returns 0 where there is no slope
# (:ref:`kinks`):

ends |= {
    "cdist(x, x)": (lambda x: torch.cdist(x, o)[0, 0], [[0.0, 0.0]]),
    "vector_norm(0)": (torch.linalg.vector_norm, [0.0, 0.0]),
    "abs(0 + 0j)": (lambda x: torch.complex(x[0], x[1]).abs(), [0.0, 0.0]),
    "atan2(0, 0)": (lambda x: torch.atan2(x[0], x[1]), [0.0, 0.0]),
    "std of equal numbers": (lambda x: x.std(), [2.0, 2.0]),
}


def slope(f, at):
    x = torch.tensor(at, requires_grad=True)
    return f(x).item(), torch.autograd.grad(f(x), x)[0].flatten().tolist()


# %%
# Each line of the output shows the function, its value, and its slope with respect to each
# entry of x:

for name, (f, at) in ends.items():
    value, gradient = slope(f, at)
    print(f"{name:24} {value:<9.3g}", *(f"{g:.3g}" for g in gradient))

# %%
# ``normalize`` divides by the norm, or by ``eps=1e-12`` if the norm is smaller than that,
# and so the slope is 1e12. ``cosine_similarity`` divides by each norm, or by 1e-8 if the
# norm is smaller. ``pairwise_distance`` adds 1e-6 to each of n differences, which gives a
# slope of :math:`1/\sqrt n` even between a point and itself. None of these functions raises
# an error.
#
# An angle without acos
# ---------------------
#
# *The angle between two vectors gives inf or NaN when they are parallel.* ``acos`` is
# applied to the cosine of the angle, and the cosine is flat when the vectors are parallel.
# It does not help to clamp the cosine. Beyond the bound the gradient of the clamp is 0, and
# short of the bound the slope of ``acos`` reaches about 700. If you compute the same angle
# with ``atan2``, its gradient has length :math:`1/|p|` at every point p except the origin.
# (Where p is shorter than about 5e-20, this overflows in float32: :ref:`atan2-near-zero`.)
# Each line of the output shows a point and the gradients of the three formulas at this
# point, and the last line shows the slope of ``acos`` at the bound:


def by_acos(p):
    return torch.acos(p[0] / torch.linalg.vector_norm(p))


def by_clamped(p):
    return torch.acos((p[0] / torch.linalg.vector_norm(p)).clamp(-1 + 1e-6, 1 - 1e-6))


def by_atan2(p):
    return torch.atan2(p[1], p[0])


for point in ([1.0, 0.0], [1.0, 1e-5], [0.0, 1.0]):
    found = [slope(f, point)[1] for f in (by_acos, by_clamped, by_atan2)]
    print(point, *([round(g, 2) + 0.0 for g in each] for each in found))
print(f"{slope(torch.acos, 1 - 1e-6)[1][0]:.0f}")

# %%
# The angle between two vectors of length 1 is ``2 * atan2(norm(a - b), norm(a + b))``. This
# angle has no sign, so it has a kink where the two vectors are parallel. Its slope is −1 on
# one side of the kink and 1 on the other, and at the kink it is 0, because PyTorch takes 0
# for the slope of the norm at 0. Each line of the output shows the signed angle between the
# vectors, the slope with ``acos``, and the slope with this formula:

norm = torch.linalg.vector_norm
for turn in (-0.1, 0.0, 0.1):
    t = torch.tensor(turn, requires_grad=True)
    a, b = torch.tensor([1.0, 0.0]), torch.stack([t.cos(), t.sin()])
    angles = torch.acos(a @ b), 2 * torch.atan2(norm(a - b), norm(a + b))
    slopes = [torch.autograd.grad(y, t, retain_graph=True)[0] + 0 for y in angles]
    print(turn, *(f"{g:.2f}" for g in slopes))

# %%
# Powers with a learned exponent
# ------------------------------
#
# *x ** p with a learned p is NaN.* The slope with respect to ``p`` is :math:`x^p\log x`,
# which needs :math:`x>0`. Where ``x`` is 0, PyTorch returns 0 for this slope, unless ``p``
# is negative. With a negative base the slope with respect to ``p`` is NaN, and the value is
# NaN as well if ``p`` is not a whole number. Each line of the output shows the value, the
# slope with respect to the base, and the slope with respect to ``p``:

for base, power in ((0.0, 0.5), (0.0, -1.0), (4.0, 0.5), (-2.0, 2.0), (-2.0, 0.5)):
    b, p = (torch.tensor(t, requires_grad=True) for t in (base, power))
    y = b**p
    slopes = [f"{g:.3g}" for g in torch.autograd.grad(y, (b, p))]
    print(f"{base} ** {power} = {y.item():.3g}", *slopes)

# %%
# If the base stands for something positive, make it positive with ``softplus(raw)`` or
# ``raw.exp()``. If you ``clamp`` the base instead, the slope with respect to it is finite,
# but it is 0 below the bound, so a base that has fallen below the bound stays there.
#
# The standard deviation of a single sample
# -----------------------------------------
#
# *What about the std of a batch with one sample?* With ``correction=1`` the sum of squares
# is divided by 0, and both the value and the gradient are NaN. With ``correction=0`` the
# value is 0, and the slope is a convention. The variance, however, has a slope everywhere.
# So add ``eps`` to the variance before you take the root, as BatchNorm does:

import warnings

one = [2.0]
with warnings.catch_warnings(action="ignore"):  # it says "degrees of freedom is <= 0"
    print(slope(lambda x: x.std(), one), slope(lambda x: x.std(correction=0), one))
value, gradient = slope(lambda x: (x.var(correction=0) + 1e-5).sqrt(), one)
print(f"{value:.4f}", gradient)

# %%
# What goes wrong
# ---------------
#
# *I add eps, and the gradient is still enormous.* An ``eps`` that is added after the root
# does not change the slope. If you add it inside the root, no slope is above
# :math:`1/(2\sqrt\varepsilon)`, which is 500 here, and no value is off by more than
# :math:`\sqrt\varepsilon`. For each of these two ways we print the slopes at 0, at 1e-9 and
# at 1:

for name, f in {
    "sqrt(x) + 1e-6": lambda x: (x.sqrt() + 1e-6).sum(),
    "sqrt(x + 1e-6)": lambda x: (x + 1e-6).sqrt().sum(),
}.items():
    print(name, *(f"{slope(f, [at])[1][0]:.3g}" for at in (0.0, 1e-9, 1.0)))

# %%
# *What about a product with a factor of 0?* The slope of ``prod`` with respect to one
# factor is the product of the other factors, and it is right even if a factor is 0. If you
# compute the same product with logarithms, the backward pass divides by that 0:

factors = [0.0, 2.0, 3.0]
print(slope(torch.prod, factors), slope(lambda x: x.log().sum().exp(), factors))

# %%
# As a check, we compare the slope of ``atan2`` with difference quotients in float64,
# including the two points where the formula with ``acos`` had no finite slope. The last
# assertion shows that a difference quotient with a step much larger than 1e-12 does not
# find the slope of 1e12:

h = 1e-6
for point in ([1.0, 0.0], [1.0, 1e-5], [0.0, 1.0]):
    at = torch.tensor(point, dtype=torch.float64)
    steps = h * torch.eye(2).double()
    quotient = torch.stack([(by_atan2(at + s) - by_atan2(at - s)) / (2 * h) for s in steps])
    torch.testing.assert_close(quotient.float(), torch.tensor(slope(by_atan2, point)[1]))
jump = ends["normalize(0)"][0](torch.tensor([h, 0.0])) / h
assert slope(*ends["normalize(0)"])[1][0] > 1e5 * jump

# %%
# Bring :math:`x_0` toward 0. The slope of :math:`\sqrt{x_0}` grows without bound,
# whereas the slope of the norm is never above 1. Which slopes do the root and the norm
# have at the zero vector?

import pullback

ends = lambda x: torch.stack([x[0].sqrt(), torch.linalg.vector_norm(x)])
pullback.live(ends, torch.tensor([0.25, 0.0]))

# %%
# Where next
# ----------
#
# :ref:`masked-nan` is about the same slopes behind a mask, and :ref:`kinks` is about
# corners, which have finite slopes on both sides. For the same question about matrices, see
# :ref:`singular-matrices` and :ref:`eigenvectors-nan`.
#
# .. asked: infinite gradient; gradient is inf; gradient explodes at zero; sqrt at 0;
#    acos gradient; norm at zero; division by a small number; gradient of a power at
#    zero; huge gradient near zero; division by zero in the derivative; normalise a tiny
#    vector
# .. words: sqrt, zero vector, normalise, eps, angle, arccos, atan2, distance, blow up,
#    vertical tangent, clamp, tiny number, cosine
