r"""
.. _off-by-a-factor:

My gradient is off by a factor of 2, N, -1 or 65536: where is it from?
======================================================================

Divide the gradient that you have by the one you expect, entry by entry. One number
everywhere is a factor of the loss or of ``v``; a number for each row is a weight of the
sample; a number for each column is a scale of the input; no pattern is another function, or
another point.
"""

# %%
# A linear model with four samples: ``data`` has shape ``(4, 3)``, ``w`` shape ``(3,)``, the
# residuals and ``v`` shape ``(4,)``. The expected gradient is that of
# :math:`\frac1N\sum_i\frac12r_i^2`, written out as :math:`\frac1NX^\top r`:

import torch
from torch.nn import functional as F

torch.manual_seed(0)  # the same numbers on every build
data, target, w = torch.randn(4, 3), torch.randn(4), torch.ones(3)
expected = data.T @ (data @ w - target) / 4


def residuals(w):
    return data.to(w.dtype) @ w - target.to(w.dtype)


def ratio(g, wanted=expected):
    found = (g / wanted).unique()
    alike = torch.allclose(found, found[0], rtol=1e-3)
    return f"{found.mean():.4g} everywhere" if alike else "no common factor"


# %%
# One factor everywhere
# ---------------------
#
# *Twice what my formula says*, most often, is the half of :math:`\frac12r^2`, which
# ``mse_loss`` leaves out; N is a sum in place of a mean; −1 is a sign:


def half(w):
    return residuals(w) ** 2 / 2


# %%
# The same sum, seven times:

losses = {
    "r²/2, mean": lambda w: half(w).mean(),
    "mse_loss": lambda w: F.mse_loss(residuals(w), torch.zeros(4, dtype=w.dtype)),
    "r²/2, sum": lambda w: half(w).sum(),
    "-r²/2, mean": lambda w: -half(w).mean(),
    "loss scaled by 65536": lambda w: 65536 * half(w).mean(),
    "over 2 accumulations": lambda w: half(w).mean() / 2,
    "in bits: over ln 2": lambda w: half(w).mean() / torch.tensor(2.0).log(),
}
found = {name: torch.func.grad(loss)(w) for name, loss in losses.items()}
for name, g in found.items():
    print(f"{name:24}", ratio(g))

# %%
# 65536 is the first scale of ``GradScaler``: unscale before you look
# (:ref:`mixed-precision`). 57.3 and 0.01745 are degrees in place of radians. The number of
# processes is :ref:`across-processes`. A mean over *all* entries of an output of shape
# ``(4, 2)`` divides by 8, where N was meant:

weight = torch.ones(3, 2)
over_all = torch.func.grad(lambda W: (data @ W).square().mean())(weight)
over_samples = torch.func.grad(lambda W: (data @ W).square().sum(1).mean())(weight)
ratio(over_all, over_samples)

# %%
# A factor that grows from call to call is ``.grad``, which nobody emptied. Dividing by 2
# mends the second call and no other (:ref:`gradient-doubled`):

leaf = w.clone().requires_grad_()
for _ in range(3):
    half(leaf).mean().backward()
    print(ratio(leaf.grad), "| halved:", ratio(leaf.grad / 2))

# %%
# *Half of my formula, and only where i ≠ j*: the formula is for symmetric matrices and
# moves :math:`A_{ij}` and :math:`A_{ji}` together. PyTorch differentiates by each entry
# alone:

A = torch.eye(2, requires_grad=True)
u = torch.tensor([1.0, 3.0])
together = torch.tensor([[1.0, 6.0], [6.0, 9.0]])  # by a symmetric A
torch.autograd.grad(u @ A @ u, A)[0] / together

# %%
# A factor for each row, or column
# --------------------------------
#
# By the *input* the gradient has a row for each sample, and rows tell on ``v``: a weight,
# a mask, a length of the sequence. Columns tell on a scale: with :math:`z=(x-\mu)/\sigma`
# the gradient by x is that by z, divided by :math:`\sigma`:


def by_input(x, v):
    x = x.clone().requires_grad_()
    return torch.autograd.grad((x @ w).tanh(), x, v)[0]


plain = by_input(data, torch.ones(4))
rows = by_input(data, torch.tensor([1.0, 2.0, 0.0, 5.0])) / plain
print(rows.mean(1), (rows.std(1) < 1e-5).all())
sigma = torch.tensor([1.0, 10.0, 0.1])
by_z = torch.func.grad(lambda z: (z * sigma @ w).tanh().sum())(data / sigma)
columns = plain / by_z
print(columns.mean(0), (columns.std(0) < 1e-4).all())

# %%
# What goes wrong
# ---------------
#
# *No pattern at all.* Then no factor mends it. A loss that broadcasts
# (:ref:`silent-traps`), or a gradient at another point, such as after the step that it led
# to:


def broadcast(w):
    return (((data @ w)[:, None] - target) ** 2 / 2).mean()


moved = w - 0.1 * expected
print("broadcasts:", ratio(torch.func.grad(broadcast)(w)))
print("after a step:", ratio(torch.func.grad(losses["r²/2, mean"])(moved)))

# %%
# *My formula is the derivative of y_i by x_i.* That is the diagonal of the
# :term:`Jacobian`. With ones autograd adds up its columns, in which every other output
# stands, too. For :math:`y=x/|x|` both are easy to write down:

x = torch.tensor([3.0, 4.0])
J = torch.func.jacrev(lambda x: x / torch.linalg.vector_norm(x))(x)
mine = 1 / x.norm() - x**2 / x.norm() ** 3
by_ones = torch.func.grad(lambda x: (x / torch.linalg.vector_norm(x)).sum())(x)
print(mine, by_ones, torch.allclose(J.diag(), mine), torch.allclose(J.sum(0), by_ones))

# %%
# And your expectation may be wrong. The check asks neither of the two: the difference
# quotient of each loss, in float64, agrees with autograd, so that in each of them the
# factor is the loss's own:

h, at = 1e-6, w.double()
for name, loss in losses.items():
    pairs = [(loss(at + s), loss(at - s)) for s in h * torch.eye(3).double()]
    quotient = torch.stack([(up - down) / (2 * h) for up, down in pairs])
    torch.testing.assert_close(quotient.float(), found[name], rtol=1e-4, atol=1e-5)

# %%
# Where next
# ----------
#
# Which ``v`` each loss sends: :ref:`what-losses-send`. Means of parts: :ref:`loss-as-v`. A
# symmetric matrix: :ref:`deriving-vjps`. Checks that find the factor:
# :ref:`gradcheck`.
