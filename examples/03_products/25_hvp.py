r"""
.. _hvp:

Hessian-vector products without the Hessian
===========================================

How curved is a loss with a million weights? Its :term:`Hessian` would have a million times
a million entries. But many methods that use curvature, such as Newton's method with
conjugate gradients, ask only for the product of the Hessian with a vector, :math:`Hu`. That
product is the gradient of the number :math:`\nabla f\cdot u`. Computing it takes the work
of a few gradients, however many variables there are, and the Hessian is never formed.
"""

# %%
# Let f map n numbers to a single number. Its gradient has shape ``(n,)``, its Hessian has
# shape ``(n, n)``, and ``u`` and :math:`Hu` have shape ``(n,)`` again. The Hessian is the
# :term:`Jacobian` of the gradient. Where f is twice continuously differentiable, the
# Hessian is symmetric, so pulling ``u`` back through the gradient (a :term:`VJP`) and
# pushing it forward (a :term:`JVP`) give the same numbers. This is the
# :term:`Hessian-vector product`:
#
# .. math::
#
#    u^\top H = (Hu)^\top
#
# Here are two ways to pull ``u`` back, for :math:`f(x)=x_1^2x_2+x_2^3` at :math:`(1,2)`,
# where :math:`H=\begin{bmatrix}2x_2&2x_1\\2x_1&6x_2\end{bmatrix}`:

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
# The first way makes the number ``g @ u`` and takes its gradient. In the second way, ``u``
# is passed as ``grad_outputs``, so it is the :term:`cotangent` of the *gradient*. The
# curvature of f in the direction ``u`` is the dot product ``u @ Hu``
# (:ref:`curvature-along-a-direction`). Both ways take a backward pass through another
# backward pass, which is called *reverse over reverse*. With :mod:`torch.func` you can also
# mix the modes, in two orders. You can take a JVP of the gradient, or the gradient of a
# JVP:

grad = torch.func.grad(f)
point = x.detach()
forward_over_reverse = torch.func.jvp(grad, (point,), (u,))[1]
reverse_over_forward = torch.func.grad(lambda x: torch.func.jvp(f, (x,), (u,))[1])(point)
print(forward_over_reverse, reverse_over_forward)

# %%
# *Is it really only about twice the cost of a gradient?* It is closer to three times that
# cost if you include the gradient itself. We count the arithmetic of the matrix products of
# a network with four layers, for one gradient and for one Hessian-vector product, and
# divide:

from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)  # weights that are the same on every build
halves = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(4)]
deep, batch = torch.nn.Sequential(*halves), torch.randn(32, 64)


def one_gradient(**options):
    return torch.autograd.grad((deep(batch) ** 2).mean(), [*deep.parameters()], **options)


def one_product():
    ones = [torch.ones_like(p) for p in deep.parameters()]
    return torch.autograd.grad(one_gradient(create_graph=True), [*deep.parameters()], ones)


counted = []
for call in (one_gradient, one_product):
    with FlopCounterMode(display=False) as counter:
        call()
    counted.append(counter.get_total_flops())
print(f"{counted[1] / counted[0]:.1f} gradients")

# %%
# Forward over reverse needs a forward rule for every operation in f (:ref:`jvp-from-vjps`).
# With ``torch.func.grad``, forward over reverse also took more memory than reverse over
# reverse in our measurements (:ref:`memory-measured`).
#
# ``torch.autograd.functional`` has two functions for the product, ``hvp`` and ``vhp``. Both
# return the value of f and the product. ``hvp`` makes its JVP out of two VJPs, so ``vhp``
# is the cheaper of the two (:ref:`same-or-not`).
#
# The parameters of a module
# --------------------------
#
# For a network, x is a dict of parameters, and so are ``u`` and the product. Each entry has
# the shape of its parameter:

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
# You can do the same with ``model.parameters()`` as they are, without ``functional_call``.
# Then there is one gradient for each parameter, and you pass a list with one cotangent for
# each gradient:

weights = list(model.parameters())
value = ((model(data) - target) ** 2).mean()
gradients = torch.autograd.grad(value, weights, create_graph=True)
products = torch.autograd.grad(gradients, weights, list(direction.values()))
torch.testing.assert_close(list(products), list(Hd.values()))

# %%
# *The last bias "appears to not have been used in the graph".* The bias is used in the
# outputs, but not in their gradient. A sum of outputs is linear in the last bias, so the
# row and the column of H that belong to this bias are zero. With ``materialize_grads=True``
# you get these zeros, and with ``allow_unused=True`` you get None in their place. A squared
# error, as above, is not linear in the bias, and so the message does not appear. Here are
# the message and the zeros for the sum:

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
# Some methods look for flat minima by adding the squared norm of the gradient to the loss.
# The gradient of this term is a Hessian-vector product, too, in which ``u`` is the gradient
# itself. Mind the factor of 2. If you pass ``g`` as ``grad_outputs``, it is treated as a
# constant, and the result is :math:`Hg`. In :math:`g\cdot g` both factors depend on x, and
# the gradient is :math:`2Hg`. If you want :math:`Hg`, halve :math:`g\cdot g` or detach one
# of its factors:

(g,) = torch.autograd.grad(f(x), x, create_graph=True)
Hg = torch.autograd.grad(g, x, g, retain_graph=True)[0]
for number in (g @ g, g @ g / 2, g @ g.detach()):
    print(torch.autograd.grad(number, x, retain_graph=True)[0], Hg)

# %%
# Solving with H without forming it
# ---------------------------------
#
# Newton's method takes the step that solves :math:`H\,\text{step}=-g`. The method of
# *conjugate gradients* solves such a system with products alone, if H is positive definite.
# Our example is a convex function of 200 variables:

A = torch.randn(200, 200, dtype=torch.float64) / 200**0.5
z = torch.zeros(200, dtype=torch.float64)


def convex(z):
    return torch.logsumexp(A @ z, 0) + (z**2).sum() / 2


slope = torch.func.grad(convex)(z)

# %%
# The method starts from a step of zero. Each iteration moves along a direction ``p``, so
# that what is left, the residual ``r``, becomes orthogonal to all earlier residuals. The
# norm of ``r``, relative to the norm of the slope, falls quickly:

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
# Without ``create_graph=True`` the gradient has no graph, and so it cannot be
# differentiated again. Then you get this message:

try:
    torch.autograd.grad(f(x), x)[0].backward(u)
except RuntimeError as error:
    print(error)

# %%
# *I want the diagonal of H, and the gradient of g.sum() gives something else.* The
# gradient of ``g.sum()`` is :math:`H\mathbf 1`, which holds the sums of the rows of H. If
# nothing is known about H, its diagonal takes all n products. Fewer products can only
# estimate the diagonal: with random signs for u, it is the mean of :math:`u\odot Hu`
# (:ref:`trace-and-norm`). Here are the sums of the rows and the diagonal:

(sums,) = torch.autograd.grad(g.sum(), x)
print(sums, torch.func.hessian(f)(point).diagonal())

# %%
# *The two orders give different numbers, or one of them raises an error.* They agree, up
# to rounding, where H is symmetric and each operation treats its input alike in both
# directions. An embedding with a ``padding_idx`` and ``linalg.cholesky`` treat their
# inputs differently in the two directions (:ref:`where-jacrev-and-jacfwd-differ`), and
# nothing warns you. Here is the product for an embedding in both orders:

tokens = torch.tensor([1, 2, 0])  # 0 is the padding
embedded = lambda w: torch.nn.functional.embedding(tokens, w, padding_idx=0)
padded = lambda w: torch.tanh(embedded(w)).sum() ** 2
w, along = torch.linspace(-1, 1, 6).reshape(3, 2), torch.ones(3, 2)
by_reverse = torch.autograd.functional.vhp(padded, w, along)[1]
by_forward = torch.func.jvp(torch.func.grad(padded), (w,), (along,))[1]
print("reverse over reverse:", by_reverse[1])
print("forward over reverse:", by_forward[1])

# %%
# A few operations have a rule for only one of the two orders, or for neither. On the CPU
# and without dropout, ``scaled_dot_product_attention`` has neither rule for a tensor with
# four dimensions, and it has both rules for a tensor with three. Where the rule is
# missing, you get an error (:ref:`no-second-derivative`). With its default backend,
# ``torch.compile`` gives a function a backward pass that cannot be differentiated
# (:ref:`compiled-second-derivative`). For both shapes we count the orders that work for
# attention:

attend = lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q).square().sum()
worked = {}
for shape in ((1, 1, 4, 8), (1, 4, 8)):
    q, plan = torch.linspace(-1, 1, 32).reshape(shape), torch.ones(shape)
    orders = (
        lambda q=q, plan=plan: torch.autograd.functional.vhp(attend, q, plan),
        lambda q=q, plan=plan: torch.func.jvp(torch.func.grad(attend), (q,), (plan,)),
    )
    worked[shape] = 0
    for order in orders:
        try:
            order()
            worked[shape] += 1
        except RuntimeError:  # a missing rule raises it, or NotImplementedError, its kind
            pass
worked

# %%
# *The error about a missing graph appears although create_graph is True.* If the function
# is linear in ``x``, and nothing else in it requires a gradient, the gradient is a
# constant. It has no graph, and H is zero. :func:`torch.func.hessian` returns these zeros:

leaf = torch.ones(3, requires_grad=True)
(constant,) = torch.autograd.grad(2 * leaf.sum(), leaf, create_graph=True)
of_line = torch.func.hessian(lambda x: 2 * x.sum())(torch.ones(3))
constant.requires_grad, of_line.any().item()

# %%
# As a check, we compare the results of all four ways with the product of ``u`` and the
# Hessian worked out by hand. For the step of Newton's method, we check that the full
# Hessian times the step is the negative slope:

H = torch.tensor([[4.0, 2.0], [2.0, 12.0]])
for found in (from_number, Hu, forward_over_reverse, reverse_over_forward):
    assert torch.equal(found, H @ u)
assert torch.equal(Hg, H @ torch.tensor([4.0, 13.0]))
assert not torch.allclose(by_reverse, by_forward)
assert worked == {(1, 1, 4, 8): 0, (1, 4, 8): 2}
full = torch.func.hessian(convex)(z)
torch.testing.assert_close(full @ step, -slope, rtol=1e-4, atol=1e-6)

# %%
# Below is the gradient of our f as a function in its own right. The table shows the
# Jacobian of this gradient, which is the Hessian of f, and v is the vector that H is
# multiplied by. Move x. Where does H have a row of zeros?

import pullback

gradient = torch.func.grad(lambda x: x[0] ** 2 * x[1] + x[1] ** 3)
pullback.live(gradient, torch.tensor([1.0, 2.0]))

# %%
# .. dropdown:: Answer
#
#    Only at ``x = [0, 0]``, where all of H is zero. Each row contains a multiple of
#    :math:`x_1` and a multiple of :math:`x_2`, so it is zero only if both numbers are zero.
#
# Where next
# ----------
#
# :ref:`hessian-vector-product` has the line to write, and :ref:`full-hessian` computes
# all n columns. :ref:`gauss-newton` explains when H may be replaced by :math:`J^\top J`,
# and :ref:`retain-or-create` explains which flag keeps what.
#
# .. asked: Hessian-vector product; Hessian times vector without the Hessian; hvp in
#    PyTorch; curvature along a direction; Pearlmutter trick; large Hessian does not fit
#    in memory; how curved is the loss surface; how bent is the loss surface; product
#    with the Hessian fast; curvature of the loss cheap; second-order information of a
#    large network; H @ v for a given v and 2 million parameters, cheap way; is a
#    Hessian-vector product only twice the cost of a gradient; Hessian vector product
#    by double backward
# .. words: Newton-CG, eigenvalue of the loss, sharpness, lanczos, power iteration,
#    influence, big network, without storing, curvature direction
