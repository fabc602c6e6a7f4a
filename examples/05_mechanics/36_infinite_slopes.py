r"""
.. _infinite-slopes:

Why is my gradient inf, or 1e12? Angles, powers and norms at their ends
=======================================================================

Because the derivative is: the slope of ``acos`` at 1, of a power below 1 at 0, of a
direction at the zero vector. Some functions of PyTorch answer there with ``inf``, some with
a large number, some with NaN or with 0. Another formula for the same quantity has a finite
slope, or there is none and the point must be kept out.
"""

# %%
# Value and slope at the end of the domain. ``x`` has shape ``(n,)``, ``y`` is one number,
# and no mask is involved:

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
# ``cdist`` and the others below give 0 where there is no slope, a convention
# (:ref:`kinks`):

ends |= {
    "cdist(x, x)": (lambda x: torch.cdist(x, o)[0, 0], [[0.0, 0.0]]),
    "vector_norm(0)": (torch.linalg.vector_norm, [0.0, 0.0]),
    "atan2(0, 0)": (lambda x: torch.atan2(x[0], x[1]), [0.0, 0.0]),
    "std of equal numbers": (lambda x: x.std(), [2.0, 2.0]),
}


def slope(f, at):
    x = torch.tensor(at, requires_grad=True)
    return f(x).item(), torch.autograd.grad(f(x), x)[0].flatten().tolist()


# %%
# Function, value, slope by each entry of x:

for name, (f, at) in ends.items():
    value, gradient = slope(f, at)
    print(f"{name:24} {value:<9.3g}", *(f"{g:.3g}" for g in gradient))

# %%
# ``normalize`` divides by the norm, but at least by ``eps=1e-12``, hence the 1e12;
# ``cosine_similarity`` by at least 1e-8. ``pairwise_distance`` adds 1e-6 to each
# difference, and so has a slope even between a point and itself. None of them raises.
#
# An angle without acos
# ---------------------
#
# *The angle between two vectors gives inf or NaN when they are parallel.* ``acos`` needs
# the cosine, which is flat there. Clamping the cosine does not mend it: beyond the bound
# its gradient is 0, and at ``1 - 1e-6`` the slope is 700. The same angle from sine and
# cosine, by ``atan2``, has a slope of length :math:`1/|p|` everywhere, bar at the origin:


def by_acos(p):
    return torch.acos(p[0] / torch.linalg.vector_norm(p))


def by_clamped(p):
    return torch.acos((p[0] / torch.linalg.vector_norm(p)).clamp(-1 + 1e-6, 1 - 1e-6))


def by_atan2(p):
    return torch.atan2(p[1], p[0])


for point in ([1.0, 0.0], [1.0, 1e-5], [0.0, 1.0]):
    found = [slope(f, point)[1] for f in (by_acos, by_clamped, by_atan2)]
    print(point, *([round(g, 2) + 0.0 for g in each] for each in found))

# %%
# Between two vectors the angle is ``2 * atan2(norm(a - b), norm(a + b))``, once both have
# length 1. It has no sign, hence a kink where they are parallel, with a finite slope:

a, b = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0], requires_grad=True)
norm = torch.linalg.vector_norm
for angle in (torch.acos(a @ b), 2 * torch.atan2(norm(a - b), norm(a + b))):
    print(angle.item(), torch.autograd.grad(angle, b)[0])

# %%
# Powers
# ------
#
# *x ** p with a learned p is NaN.* By ``p`` the slope is :math:`x^p\log x`, which needs
# :math:`x>0`; PyTorch puts 0 where ``x`` is 0. A negative base with a power that is not a
# constant is NaN by the value or by the slope:

for base, power in ((0.0, 0.5), (4.0, 0.5), (-2.0, 2.0), (-2.0, 0.5)):
    b, p = (torch.tensor(t, requires_grad=True) for t in (base, power))
    y = b**p
    slopes = [f"{g:.3g}" for g in torch.autograd.grad(y, (b, p))]
    print(f"{base} ** {power} = {y.item():.3g}", *slopes)

# %%
# Keep the base positive by its making, ``softplus(raw)`` or ``raw.exp()``, where it means
# something positive. A ``clamp`` in front is finite and 0 below the bound, so what fell
# below stays there.
#
# A standard deviation
# --------------------
#
# *std of a batch with one sample.* ``correction=1`` divides by 0: value and gradient are
# NaN. With ``correction=0`` the value is 0 and the slope a convention. The variance has a
# slope everywhere; add ``eps`` before the root, as BatchNorm does:

import warnings

one = [2.0]
with warnings.catch_warnings(action="ignore"):  # "degrees of freedom is <= 0"
    print(slope(lambda x: x.std(), one), slope(lambda x: x.std(correction=0), one))
value, gradient = slope(lambda x: (x.var(correction=0) + 1e-5).sqrt(), one)
print(f"{value:.4f}", gradient)

# %%
# What goes wrong
# ---------------
#
# *I add eps, and the gradient is still enormous.* Behind the root an ``eps`` does nothing
# for the slope. Inside it no slope is above :math:`1/(2\sqrt\varepsilon)`, here 500, and no
# value off by more than :math:`\sqrt\varepsilon`:

for name, f in {
    "sqrt(x) + 1e-6": lambda x: (x.sqrt() + 1e-6).sum(),
    "sqrt(x + 1e-6)": lambda x: (x + 1e-6).sqrt().sum(),
}.items():
    print(name, *(f"{slope(f, [at])[1][0]:.3g}" for at in (0.0, 1e-9, 1.0)))

# %%
# *A product with a factor 0.* ``prod`` leaves out one factor at a time, and is right there;
# the same by logarithms divides by it:

factors = [0.0, 2.0, 3.0]
print(slope(torch.prod, factors), slope(lambda x: x.log().sum().exp(), factors))

# %%
# The check: the slope of ``atan2`` against difference quotients in float64, at the very
# points where ``acos`` had none; and the 1e12, which no quotient with a larger step finds:

h = 1e-6
for point in ([1.0, 0.0], [1.0, 1e-5], [0.0, 1.0]):
    at = torch.tensor(point, dtype=torch.float64)
    steps = h * torch.eye(2).double()
    quotient = torch.stack([(by_atan2(at + s) - by_atan2(at - s)) / (2 * h) for s in steps])
    torch.testing.assert_close(quotient.float(), torch.tensor(slope(by_atan2, point)[1]))
jump = ends["normalize(0)"][0](torch.tensor([h, 0.0])) / h
assert slope(*ends["normalize(0)"])[1][0] > 1e5 * jump

# %%
# Where next
# ----------
#
# The same behind a mask: :ref:`masked-nan`. Corners, with finite slopes on both sides:
# :ref:`kinks`. Matrices: :ref:`singular-matrices`, :ref:`eigenvectors-nan`.
