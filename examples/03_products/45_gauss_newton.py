r"""
.. _gauss-newton:

Gauss-Newton and Fisher products from a VJP and a JVP
=====================================================

For a loss :math:`\ell(f(w))`, one :term:`JVP`, one small product and one :term:`VJP` give
:math:`J^\top H_\ell J\,u` without J: the Gauss-Newton matrix times ``u``. For squared
error and for softmax with cross-entropy it is the Fisher matrix too.
"""

# %%
# With weights :math:`w\in\mathbb R^n`, outputs :math:`y=f(w)\in\mathbb R^m` and the loss
# :math:`\ell:\mathbb R^m\to\mathbb R`, the :term:`Hessian` of :math:`\ell\circ f` is
#
# .. math::
#
#    H = J^\top H_\ell\,J + \sum_i \frac{\partial\ell}{\partial y_i}\nabla^2 f_i .
#
# Gauss-Newton keeps the first term, which has no negative eigenvalue where the loss is
# convex (Schraudolph, 2002). ``u`` has the shape of ``w``, :math:`Ju` that of ``y``:

import torch

torch.manual_seed(0)  # a problem that is the same on every build
t = torch.linspace(0, 3, 30, dtype=torch.float64)
data = 2.0 * torch.exp(-1.3 * t) + 0.5 + 0.01 * torch.randn(30).double()


def f(w):
    return w[0] * torch.exp(-w[1] * t) + w[2]


# %%
# The loss is :math:`\lVert y-d\rVert^2/2`, so :math:`H_\ell` is the identity and the
# small product in the middle drops out:


def product(w, u):
    pull = torch.func.vjp(f, w)[1]
    Ju = torch.func.jvp(f, (w,), (u,))[1]
    return pull(Ju)[0]


w = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
u = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
product(w, u).round(decimals=4)

# %%
# *Why not the Hessian itself?* At this starting point it has a negative eigenvalue, and a
# Newton step would climb along it; :math:`J^\top J` has none:

J = torch.func.jacrev(f)(w)
H = torch.func.hessian(lambda w: ((f(w) - data) ** 2).sum() / 2)(w)
print(torch.linalg.eigvalsh(H).round(decimals=2))
print(torch.linalg.eigvalsh(J.T @ J).round(decimals=2))

# %%
# Fitting a curve with it
# -----------------------
#
# Each Gauss-Newton step solves :math:`J^\top J\,s=-J^\top r`. With three weights J is
# small and the solve direct (with many, solve by products: :ref:`hvp`); the residual falls
# to the noise in a few steps:

import pullback

for step in range(6):
    r, J = pullback.value_and_jacobian(lambda w: f(w) - data, w)
    print(step, f"{r.norm():.4f}")
    w = w - torch.linalg.solve(J.T @ J, J.T @ r)
w.round(decimals=2)

# %%
# Classes: the Fisher matrix
# --------------------------
#
# For softmax and cross-entropy the Hessian of the loss by the *logits* is
# :math:`\operatorname{diag}(p)-pp^\top`, whatever the label is. The Fisher matrix is the
# mean of :math:`gg^\top` over labels drawn from the model, and equals
# :math:`J^\top H_\ell J`:

model = torch.nn.Linear(4, 3).double()
sample = torch.randn(4).double()
flat = torch.cat([p.detach().flatten() for p in model.parameters()])


def logits(w):
    return w[:12].reshape(3, 4) @ sample + w[12:]


direction = torch.randn(15).double()
z, pull = torch.func.vjp(logits, flat)
p = torch.softmax(z, 0)
Ju = torch.func.jvp(logits, (flat,), (direction,))[1]
fisher_product = pull(p * Ju - p * (p @ Ju))[0]

# %%
# The same from the definition, label by label:

gradients = -torch.func.jacrev(lambda w: torch.log_softmax(logits(w), 0))(flat)
definition = torch.stack([p[k] * g * (g @ direction) for k, g in enumerate(gradients)])
torch.testing.assert_close(fisher_product, definition.sum(0))

# %%
# What goes wrong
# ---------------
#
# The *empirical* Fisher puts the observed label in place of the model's own draws. It
# looks alike and is another matrix. The products differ, relative to the right one, by:

g = gradients[0]
gap = (g * (g @ direction) - fisher_product).norm() / fisher_product.norm()
print(f"{gap:.1f}")

# %%
# *"The input matrix is singular"*: at :math:`w_0=0` no output depends on :math:`w_1`, J has
# a column of zeros, and more than one step solves the equations; the pseudoinverse gives
# the shortest. Adding :math:`\lambda` to the diagonal (Levenberg, 1944) leaves one; for
# products, add :math:`\lambda u`:

flat_start = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
r, J = pullback.value_and_jacobian(lambda w: f(w) - data, flat_start)
try:
    torch.linalg.solve(J.T @ J, J.T @ r)
except RuntimeError as error:
    print(error)
shortest = -torch.linalg.pinv(J) @ r
torch.testing.assert_close(J.T @ J @ shortest, -J.T @ r)
damped = flat_start - torch.linalg.solve(J.T @ J + torch.eye(3), J.T @ r)
print(f"{r.norm():.2f} -> {(f(damped) - data).norm():.2f}")

# %%
# The check, against matrices written out. At the fit the residual is small, so
# Gauss-Newton is close to the Hessian there:

J = torch.func.jacrev(f)(w)
torch.testing.assert_close(product(w, u), J.T @ J @ u)
at_fit = torch.func.hessian(lambda w: ((f(w) - data) ** 2).sum() / 2)(w)
assert torch.linalg.norm(at_fit - J.T @ J) < 0.01 * torch.linalg.norm(at_fit)
columns = torch.stack([torch.exp(-w[1] * t), -w[0] * t * torch.exp(-w[1] * t), t**0], 1)
torch.testing.assert_close(J, columns)
assert torch.linalg.eigvalsh(H)[0] < 0
assert (f(w) - data).norm() < 0.1
assert gap > 0.1

# %%
# Where next
# ----------
#
# The whole Hessian, both terms: :ref:`full-hessian`. A Jacobian for each sample:
# :ref:`jacobian-per-sample`. Fitting with SciPy: :ref:`external-loss`.
#
# .. asked: Gauss-Newton matrix; generalised Gauss-Newton vector product; Fisher vector
#    product; GGN; natural gradient; approximate Hessian of a network
