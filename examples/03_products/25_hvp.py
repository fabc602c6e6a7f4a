r"""
.. _hvp:

Hessian-vector products without the Hessian
===========================================

Differentiate the number :math:`\nabla f\cdot u`: its gradient is :math:`Hu`. That takes
the work of a few gradients, whatever n is, and never forms the n×n :term:`Hessian`.
"""

# %%
# For :math:`f:\mathbb R^n\to\mathbb R` the gradient has shape ``(n,)``, the :term:`Hessian`
# ``(n, n)``, and ``u`` and :math:`Hu` again ``(n,)``. The Hessian is the :term:`Jacobian`
# of the gradient, and symmetric where f is twice continuously differentiable, so a
# :term:`VJP` and a :term:`JVP` of the gradient are the same vector:
#
# .. math::
#
#    u^\top H = (Hu)^\top
#
# For :math:`f(x)=x_1^2x_2+x_2^3` at :math:`(1,2)`,
# :math:`H=\begin{bmatrix}2x_2&2x_1\\2x_1&6x_2\end{bmatrix}`:

import torch


def f(x):
    return x[0] ** 2 * x[1] + x[1] ** 3


x = torch.tensor([1.0, 2.0], requires_grad=True)
u = torch.tensor([1.0, 10.0])
(g,) = torch.autograd.grad(f(x), x, create_graph=True)
(from_number,) = torch.autograd.grad(g @ u, x, retain_graph=True)
(Hu,) = torch.autograd.grad(g, x, u)
print(from_number, Hu)

# %%
# In the second form ``u`` sits where ``grad_outputs`` goes: it is the :term:`cotangent` of
# the *gradient*. This is reverse over reverse. The other orders, with :mod:`torch.func`:

grad = torch.func.grad(f)
point = x.detach()
forward_over_reverse = torch.func.jvp(grad, (point,), (u,))[1]
reverse_over_forward = torch.func.grad(lambda x: torch.func.jvp(f, (x,), (u,))[1])(point)
print(forward_over_reverse, reverse_over_forward)

# %%
# Forward over reverse needs a forward rule for every operation (:ref:`jvp-from-vjps`), and
# by ``torch.func.grad`` more memory (:ref:`memory-measured`) than reverse over reverse.
#
# *torch.autograd.functional.hvp or vhp?* Both give the value of f and the vector. ``hvp``
# makes its JVP out of two VJPs, so ``vhp`` is the cheaper of the two (:ref:`same-or-not`).
#
# The parameters of a module
# --------------------------
#
# The product with a dict of parameters, in the shape of each of them:

torch.manual_seed(0)  # weights that are the same on every build
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
data, target = torch.randn(8, 3), torch.randn(8, 1)


def loss(parameters):
    out = torch.func.functional_call(model, parameters, (data,))
    return ((out - target) ** 2).mean()


w = {name: p.detach() for name, p in model.named_parameters()}
direction = {name: torch.ones_like(p) for name, p in w.items()}
_, Hd = torch.func.jvp(torch.func.grad(loss), (w,), (direction,))
{name: tuple(p.shape) for name, p in Hd.items()}

# %%
# The same with ``model.parameters()`` as they are. A list of gradients takes a list of
# cotangents, one for each:

weights = list(model.parameters())
value = ((model(data) - target) ** 2).mean()
gradients = torch.autograd.grad(value, weights, create_graph=True)
products = torch.autograd.grad(gradients, weights, list(direction.values()))
torch.testing.assert_close(list(products), list(Hd.values()))

# %%
# *The last bias "appears to not have been used in the graph".* Not in the gradient: a sum
# of outputs is linear in it, so that H has zeros there. ``materialize_grads=True`` gives
# them (``allow_unused=True``: None). A squared error, as above, is not, and raises nothing:

slopes = torch.autograd.grad(model(data).sum(), weights, create_graph=True)
for flag in ({"retain_graph": True}, {"materialize_grads": True}):
    try:
        print(torch.autograd.grad(slopes[0].sum(), weights, **flag)[3])
    except RuntimeError as error:
        print(str(error).partition(". ")[0])

# %%
# The norm of the gradient
# ------------------------
#
# *I penalise the gradient's norm by the weights* (for flat minima, say). That takes
# :math:`Hg`. As ``grad_outputs`` g is constant, graph or not; in :math:`g\cdot g` both
# factors move, which gives :math:`2Hg`. Halve it, or detach one. For the first f:

(g,) = torch.autograd.grad(f(x), x, create_graph=True)
Hg = torch.autograd.grad(g, x, g, retain_graph=True)[0]
for number in (g @ g, g @ g / 2, g @ g.detach()):
    print(torch.autograd.grad(number, x, retain_graph=True)[0], Hg)

# %%
# Solving with H, never forming it
# --------------------------------
#
# Conjugate gradients need products only. Newton's step for a convex function of 200
# variables takes a handful of them:

A = torch.randn(200, 200, dtype=torch.float64) / 200**0.5
z = torch.zeros(200, dtype=torch.float64)


def convex(z):
    return torch.logsumexp(A @ z, 0) + (z**2).sum() / 2


slope = torch.func.grad(convex)(z)

# %%
# From a zero step, each turn moves along ``p`` and makes the residual ``r`` orthogonal
# to all earlier ones; its size falls, relative to the slope:

step, r = torch.zeros_like(z), -slope
p = r
for i in range(3):
    Hp = torch.func.jvp(torch.func.grad(convex), (z,), (p,))[1]
    a = (r @ r) / (p @ Hp)
    step, r, old = step + a * p, r - a * Hp, r
    p = r + (r @ r) / (old @ old) * p
    print(i + 1, f"{r.norm() / slope.norm():.1e}")

# %%
# What goes wrong
# ---------------
#
# ``backward`` on the gradient without ``create_graph=True`` meets a tensor without a
# graph, one of the most pasted messages of all:

try:
    torch.autograd.grad(f(x), x)[0].backward(u)
except RuntimeError as error:
    print(error)

# %%
# *I want the diagonal, and grad of g.sum() gives something else.* That is :math:`H\mathbf
# 1`, the sums of rows. The diagonal of a full H takes all n products (for random signs u
# in place of ones, :math:`u\odot Hu` has it as its mean: :ref:`trace-and-norm`):

(sums,) = torch.autograd.grad(g.sum(), x)
print(sums, torch.func.hessian(f)(point).diagonal())

# %%
# The check against the Hessian written out, and the step against a direct solve:

H = torch.tensor([[4.0, 2.0], [2.0, 12.0]])
for found in (from_number, Hu, forward_over_reverse, reverse_over_forward):
    assert torch.equal(found, H @ u)
assert torch.equal(Hg, H @ torch.tensor([4.0, 13.0]))
full = torch.func.hessian(convex)(z)
torch.testing.assert_close(full @ step, -slope, rtol=1e-4, atol=1e-6)

# %%
# A Hessian with its product, for :math:`x_0^2x_1+x_1^3`: the function that the picture
# shows is the gradient, so v (or u) is the vector of the product. Where does H have a
# zero row?

import pullback

gradient = torch.func.grad(lambda x: x[0] ** 2 * x[1] + x[1] ** 3)
pullback.live(gradient, torch.tensor([1.0, 2.0]))

# %%
# Where next
# ----------
#
# All n columns: :ref:`full-hessian`. When H may be replaced by :math:`J^\top J`:
# :ref:`gauss-newton`. Which flag keeps what: :ref:`retain-or-create`.
#
# .. asked: Hessian-vector product; Hessian times vector without the Hessian; hvp in
#    PyTorch; curvature along a direction; Pearlmutter trick; large Hessian does not fit
#    in memory; how curved is the loss surface; how bent is the loss surface; product
#    with the Hessian fast; curvature of the loss cheap; second-order information of a
#    large network
