r"""
.. _gauss-newton:

Gauss-Newton and Fisher products from a VJP and a JVP
=====================================================

You fit a model, and the :term:`Hessian` of its loss is too large to form or has negative
eigenvalues. The Gauss-Newton matrix :math:`J^\top H_\ell J` often takes its place. Here
:math:`J` is the :term:`Jacobian` of the outputs with respect to the weights, and
:math:`H_\ell` is the Hessian of the loss with respect to the outputs. To multiply this
matrix by a vector ``u``, you take one :term:`JVP`, one small product and one :term:`VJP`,
and you never form :math:`J`. For squared error and for softmax with cross-entropy, the
Gauss-Newton matrix is also the Fisher matrix.
"""

# %%
# Let the weights be :math:`w\in\mathbb R^n`, the outputs :math:`y=f(w)\in\mathbb R^m` and
# the loss :math:`\ell:\mathbb R^m\to\mathbb R`. Then the Hessian of :math:`\ell(f(w))` with
# respect to the weights is
#
# .. math::
#
#    H = J^\top H_\ell\,J + \sum_i \frac{\partial\ell}{\partial y_i}\nabla^2 f_i .
#
# The Gauss-Newton matrix is the first term, which has no negative eigenvalue where the loss
# is convex (Schraudolph, 2002). The vector ``u`` has the shape of ``w``, and :math:`Ju` has
# the shape of ``y``. Our model is an exponential that decays to a constant, and the data
# are its values at 30 points in time, with a little noise:

import torch

torch.manual_seed(0)  # a problem that is the same on every build
t = torch.linspace(0, 3, 30, dtype=torch.float64)
data = 2.0 * torch.exp(-1.3 * t) + 0.5 + 0.01 * torch.randn(30).double()


def f(w):
    return w[0] * torch.exp(-w[1] * t) + w[2]


# %%
# The loss is :math:`\lVert y-d\rVert^2/2`, where :math:`d` are the data. For this loss
# :math:`H_\ell` is the identity, so the small product in the middle drops out. This
# leaves a JVP, followed by a VJP:


def product(w, u):
    pull = torch.func.vjp(f, w)[1]
    Ju = torch.func.jvp(f, (w,), (u,))[1]
    return pull(Ju)[0]


w = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
u = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
product(w, u).round(decimals=4)

# %%
# *Why not the Hessian itself?* At this starting point the Hessian has a negative
# eigenvalue, as the first line of the output shows, and a Newton step would climb along the
# eigenvector of this eigenvalue. The matrix :math:`J^\top J` has no negative eigenvalue, as
# the second line of the output shows:

J = torch.func.jacrev(f)(w)
H = torch.func.hessian(lambda w: ((f(w) - data) ** 2).sum() / 2)(w)
print(torch.linalg.eigvalsh(H).round(decimals=2))
print(torch.linalg.eigvalsh(J.T @ J).round(decimals=2))

# %%
# Fitting a curve with it
# -----------------------
#
# Each Gauss-Newton step :math:`s` solves :math:`J^\top J\,s=-J^\top r`, where
# :math:`r=f(w)-d` is the residual. With three weights :math:`J` is small, and we can solve
# the equations directly. If there are many weights, solve the equations by conjugate
# gradients, which need only products with :math:`J^\top J` (:ref:`hvp`). See how the
# residual falls to the level of the noise in a few steps:

import pullback

for step in range(6):
    r, J = pullback.value_and_jacobian(lambda w: f(w) - data, w)
    print(step, f"{r.norm():.4f}")
    w = w - torch.linalg.solve(J.T @ J, J.T @ r)
w.round(decimals=2)

# %%
# The weights are close to the values 2, 1.3 and 0.5 from which we made the data.
#
# Classes: the Fisher matrix
# --------------------------
#
# For softmax and cross-entropy, the Hessian of the loss with respect to the *logits* is
# :math:`\operatorname{diag}(p)-pp^\top`, whatever the label is. The Fisher matrix is the
# mean of :math:`gg^\top` over labels drawn from the model, where :math:`g` is the gradient
# of the loss for one label. It equals :math:`J^\top H_\ell J`. So we multiply it by a
# vector as above, but now with the small product in the middle:

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
# We get the same product from the definition, label by label:

gradients = -torch.func.jacrev(lambda w: torch.log_softmax(logits(w), 0))(flat)
definition = torch.stack([p[k] * g * (g @ direction) for k, g in enumerate(gradients)])
torch.testing.assert_close(fisher_product, definition.sum(0))

# %%
# What goes wrong
# ---------------
#
# The *empirical* Fisher matrix uses the observed label in place of the labels that the
# model would draw. The two formulas look alike, but the matrices differ. We multiply both
# matrices by the same vector, and print the distance between the two products relative to
# the length of the correct product:

g = gradients[0]
gap = (g * (g @ direction) - fisher_product).norm() / fisher_product.norm()
print(f"{gap:.1f}")

# %%
# *"The input matrix is singular".* At :math:`w_0=0` no output depends on :math:`w_1`. So
# :math:`J` has a column of zeros, and more than one step solves the equations. The
# pseudoinverse gives the shortest of these steps. If you add a positive :math:`\lambda` to
# the diagonal of :math:`J^\top J` (Levenberg, 1944), there is only one solution. If you
# solve the equations by conjugate gradients, add :math:`\lambda u` to each product with
# :math:`u`. We print the message, and then the length of the residual before and after a
# step with :math:`\lambda=1`:

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
# As a check, we compare the result of ``product`` with the product of a matrix that we
# form in full, and the Jacobian with its formula. At the fitted weights the residual is
# small, so we also check that the Gauss-Newton matrix is close to the Hessian at these
# weights:

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
# :ref:`gauss-newton-product` has the product for a module, with a dict of parameters and
# cross-entropy. :ref:`full-hessian` computes the whole Hessian, with both terms.
# :ref:`jacobian-per-sample` gives a Jacobian for each sample, and :ref:`external-loss` is
# about fitting with SciPy.
#
# .. asked: Gauss-Newton matrix; generalised Gauss-Newton vector product; Fisher vector
#    product; GGN; natural gradient; approximate Hessian of a network
# .. words: least squares, damped, K-FAC, second-order optimiser, positive definite,
#    Levenberg-Marquardt, curvature matrix
