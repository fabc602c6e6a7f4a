r"""
.. _off-by-a-factor:

My gradient is off by a factor of 2, N, -1 or 65536: where does it come from?
=============================================================================

You compare a gradient with your own formula, and the two differ by a factor. A factor of 2
most often comes from a half that is in your formula but not in ``mse_loss``. A factor of N,
the number of samples, means a sum in place of a mean, −1 means a wrong sign, and 65536
means a loss scale that was never divided out. For any other factor, divide the gradient
that you have by the gradient that you expect, entry by entry. If the quotient is the same
number everywhere, it is a factor of the loss or of ``v``. If each row of the gradient with
respect to the input has its own quotient, that quotient is the weight of the sample. If
each column has its own quotient, that quotient comes from the scale of that input. If there
is no pattern, you are differentiating a different function, or the same function at a
different point.
"""

# %%
# We take a linear model with four samples. ``data`` has shape ``(4, 3)``, ``w`` has shape
# ``(3,)``, and the residuals and ``v`` have shape ``(4,)``. We expect the gradient of
# :math:`\frac1N\sum_i\frac12r_i^2`, which is :math:`\frac1NX^\top r` when we work it out
# by hand. ``ratio`` divides a gradient by the expected one and says whether all quotients
# agree. If you use ``ratio`` yourself, leave out the entries where the expected gradient
# is 0:

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
    return f"{found.mean():.5g} everywhere" if alike else "no common factor"


# %%
# The same wrong factor in every entry
# ------------------------------------
#
# *Twice what my formula says*: this most often comes from the half of :math:`\frac12r^2`,
# which ``mse_loss`` leaves out. A factor of N means that there is a sum in place of a mean,
# and −1 means that a sign is wrong. We begin with this function:


def half(w):
    return residuals(w) ** 2 / 2


# %%
# We build seven losses from the same residuals, and print the factor that each one gives:

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
# 65536 is the scale that ``GradScaler`` starts with, so unscale the gradients before you
# look at them (:ref:`mixed-precision`). If the factor is the number of processes, see
# :ref:`across-processes`. A mean over *all* entries of an output of shape ``(4, 2)``
# divides by 8, where N = 4 was meant. A factor of 0.01745, which is π/180, comes from
# degrees in place of radians, and a factor of 57.3, which is 180/π, from the opposite
# mix-up. We print the factor for the mean over all entries, and then the factor for
# degrees:

weight = torch.ones(3, 2)
over_all = torch.func.grad(lambda W: (data @ W).square().mean())(weight)
over_samples = torch.func.grad(lambda W: (data @ W).square().sum(1).mean())(weight)
angle = torch.tensor(30.0)
by_degree = torch.func.grad(lambda a: torch.deg2rad(a).sin())(angle)
print(ratio(over_all, over_samples), "|", ratio(by_degree, torch.deg2rad(angle).cos()))

# %%
# A factor that grows from call to call comes from a ``.grad`` that nobody cleared. If you
# try to correct it by dividing by 2, only the gradient after the second call is right
# (:ref:`gradient-doubled`):

leaf = w.clone().requires_grad_()
for _ in range(3):
    half(leaf).mean().backward()
    print(ratio(leaf.grad), "| halved:", ratio(leaf.grad / 2))

# %%
# *Half of my formula, and only where i ≠ j.* Your formula is for symmetric matrices and
# treats :math:`A_{ij}` and :math:`A_{ji}` as one variable. PyTorch differentiates with
# respect to each entry by itself. Our example is :math:`u^\top Au`:

A = torch.eye(2, requires_grad=True)
u = torch.tensor([1.0, 3.0])
together = torch.tensor([[1.0, 6.0], [6.0, 9.0]])  # with respect to a symmetric A
torch.autograd.grad(u @ A @ u, A)[0] / together

# %%
# A factor for each row, or column
# --------------------------------
#
# The gradient with respect to the *input* has a row for each sample. If each row has its
# own factor, the factors come from ``v``, which may hold weights, a mask, or the
# reciprocals of the sequence lengths. If each column has its own factor, the factors come
# from the scales of the inputs. If each column is normalized as :math:`z=(x-\mu)/\sigma`,
# the gradient with respect to x is, column by column, the gradient with respect to z
# divided by :math:`\sigma`. The first line of the output shows the factors of the rows, and
# whether each row has only one factor. The second shows the same for the columns, where σ
# is 1, 10 and 0.1:


def by_input(x, v):
    x = x.clone().requires_grad_()
    return torch.autograd.grad((x @ w).tanh(), x, v)[0]


plain = by_input(data, torch.ones(4))
rows = by_input(data, torch.tensor([1.0, 2.0, 0.0, 5.0])) / plain
print(rows.mean(1).numpy().round(3), (rows.std(1) < 1e-5).all().item())
sigma = torch.tensor([1.0, 10.0, 0.1])
by_z = torch.func.grad(lambda z: ((z * sigma) @ w).tanh().sum())(data / sigma)
columns = plain / by_z
print(columns.mean(0).numpy().round(3), (columns.std(0) < 1e-4).all().item())

# %%
# What goes wrong
# ---------------
#
# *No pattern at all.* In this case the cause is not a factor. It may be a loss that
# broadcasts ``(4, 1)`` against ``(4,)`` (:ref:`silent-traps`), or a gradient at a different
# point, such as the weights after the optimizer step:


def broadcast(w):
    return (((data @ w)[:, None] - target) ** 2 / 2).mean()


moved = w - 0.1 * expected
print("broadcasts:", ratio(torch.func.grad(broadcast)(w)))
print("after a step:", ratio(torch.func.grad(losses["r²/2, mean"])(moved)))

# %%
# *My formula is the derivative of y_i with respect to x_i.* These derivatives are the
# diagonal of the :term:`Jacobian`. With ones for ``v``, entry i of the gradient is the sum
# of column i, and the other outputs contribute to that sum, too. For :math:`y=x/|x|` the
# diagonal and the sums of the columns differ:

x = torch.tensor([3.0, 4.0])
J = torch.func.jacrev(lambda x: x / torch.linalg.vector_norm(x))(x)
mine = 1 / x.norm() - x**2 / x.norm() ** 3
by_ones = torch.func.grad(lambda x: (x / torch.linalg.vector_norm(x)).sum())(x)
print(mine, by_ones, torch.allclose(J.diag(), mine), torch.allclose(J.sum(0), by_ones))

# %%
# Your formula itself may also be wrong. Difference quotients use neither the formula nor
# autograd. As a check, we compare the difference quotients of each loss, in float64, with
# the gradients from autograd. The two agree, so each factor above does come from the loss.
# The last line checks that the first loss has the expected gradient:

h, at = 1e-6, w.double()
for name, loss in losses.items():
    pairs = [(loss(at + s), loss(at - s)) for s in h * torch.eye(3).double()]
    quotient = torch.stack([(up - down) / (2 * h) for up, down in pairs])
    torch.testing.assert_close(quotient.float(), found[name], rtol=1e-4, atol=1e-5)
torch.testing.assert_close(found["r²/2, mean"], expected)

# %%
# Where next
# ----------
#
# :ref:`what-losses-send` shows which ``v`` each loss sends. :ref:`loss-as-v` is about
# weighted, masked and averaged losses, and :ref:`deriving-vjps` treats symmetric matrices.
# To check a gradient, and so to find the factor, read :ref:`gradcheck`.
#
# .. asked: gradient off by a factor; gradient twice what I expect; gradient N times too
#    large; wrong sign; factor of 2; missing one half; gradient scaled
# .. words: half, twice, scaled, off by, too big, too small, mean or sum, batch size, minus
#    sign, constant, loss scale, symmetric matrix
