r"""
.. _dot-product-test:

The dot-product test: does my VJP match my JVP?
===============================================

You have written a backward rule, or an adjoint, and want to know whether it matches the
function. For every ``u`` and ``v``, :math:`\langle v, Ju\rangle=\langle J^\top v,
u\rangle`. So draw both vectors at random, compute both sides of this equation, and compare
the two numbers. If they differ by more than rounding error, one of the products is wrong.
"""

# %%
# The vectors ``v`` and :math:`Ju` have the shape of ``y``, and ``u`` and :math:`J^\top v`
# have the shape of ``x``. Both sides are the same number :math:`v^\top J u`, bracketed in
# two ways:
#
# .. math::
#
#    v^\top(Ju) = (v^\top J)\,u
#
# No :term:`Jacobian` is formed, so the test costs two products, however many inputs and
# outputs there are. Here is the test for a function of 1000 variables, with the two sides
# next to each other:

import torch


def f(x):
    return torch.sin(x[:-1]) * x[1:]


torch.manual_seed(0)  # any seed will do; fixed so that the page prints the same numbers
x = torch.randn(1000, dtype=torch.float64)
y, pull = torch.func.vjp(f, x)
u, v = torch.randn_like(x), torch.randn_like(y)
left = v @ torch.func.jvp(f, (x,), (u,))[1]
right = pull(v)[0] @ u
print(f"{left:.10f} {right:.10f}")

# %%
# The sides agree. Random vectors catch mistakes because a wrong entry :math:`(i,j)` changes
# one side by :math:`v_i u_j` times the error, and this is zero with probability zero.
#
# The adjoint of a linear operator
# --------------------------------
#
# *I have a linear operator in PyTorch and need its adjoint, for a solver.* The adjoint is
# the map that ``vjp`` returns. For a linear operator this map is the same at every x. Our
# operator is a strided convolution with a crop. We put its adjoint to the test, and then
# compare it with the adjoint that ``vjp`` returns at zero:


def operator(x):
    return torch.nn.functional.conv2d(x, kernel, stride=2, padding=1)[..., 1:, 1:]


kernel, image = torch.randn(3, 2, 3, 3).double(), torch.randn(1, 2, 8, 8).double()
seen, adjoint = torch.func.vjp(operator, image)
r = torch.randn_like(seen)
print(f"{(seen * r).sum():.10f} {(image * adjoint(r)[0]).sum():.10f}")
print(torch.equal(torch.func.vjp(operator, 0 * image)[1](r)[0], adjoint(r)[0]))

# %%
# If your operator is only a convolution, ``conv_transpose2d`` is its adjoint
# (:ref:`same-or-not`). For a complex operator the adjoint is the conjugate transpose
# :math:`A^H` (:ref:`complex-v`), as the code below confirms:

A, z, w = (torch.randn(s, dtype=torch.complex128) for s in ((3, 2), (2,), (3,)))
torch.allclose(torch.func.vjp(lambda z: A @ z, z)[1](w)[0], A.conj().T @ w)

# %%
# A hand-written backward on trial
# --------------------------------
#
# Let us test a convolution that has a kernel of three numbers and a backward rule written
# by hand. In the backward pass the kernel must be *flipped*, but this rule does not flip
# it:


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(k)
        return torch.nn.functional.conv1d(x[None, None], k[None, None], padding=1)[0, 0]

    @staticmethod
    def backward(ctx, v):
        (k,) = ctx.saved_tensors
        return Smooth.apply(v, k), None  # wrong: k.flip(0) is needed


# %%
# The map is linear in ``x``, so its :term:`JVP` with ``u`` is the map itself, applied to
# ``u``. ``backward`` supplies the other side, and ``gap`` is the distance between the two
# sides:


def gap(smooth, k):
    a = torch.randn(50, dtype=torch.float64, requires_grad=True)
    u, v = torch.randn(50).double(), torch.randn(50).double()
    smooth.apply(a, k).backward(v)
    return (v @ smooth.apply(u, k) - a.grad @ u).abs().item()


lopsided = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
print(gap(Smooth, lopsided) > 0.1)

# %%
# The test has found the mistake. With the kernel flipped, the same function passes the
# test:


class Mended(Smooth):
    @staticmethod
    def backward(ctx, v):
        (k,) = ctx.saved_tensors
        return Mended.apply(v, k.flip(0)), None


print(gap(Mended, lopsided) < 1e-12)

# %%
# What goes wrong
# ---------------
#
# A wrong backward may pass the test in a special case. A *symmetric* kernel is its own
# flip, so our wrong backward is right for it, and the mistake stays hidden until you take
# another kernel:

symmetric = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
print(gap(Smooth, symmetric) < 1e-12)

# %%
# *Does a passed test prove my gradient?* No. It shows that both products belong to *one*
# matrix, but not that this matrix is the right one. A stray ``detach`` takes half of the
# derivative of :math:`x^2` from the :term:`VJP` and the JVP alike. In the first line of the
# output both sides are equal, but each is half of the number in the second line, which we
# compute with the true :math:`J=\operatorname{diag}(2x)`:


def leaky(x):
    return x * x.detach()


p, a, b = torch.tensor([[2.0, 4.0], [1.0, 3.0], [1.0, 8.0]]).double().unbind()
pulled = torch.func.vjp(leaky, p)[1](b)[0]
print((b @ torch.func.jvp(leaky, (p,), (a,))[1]).item(), (pulled @ a).item())
print((b @ (2 * p * a)).item())

# %%
# A difference quotient knows nothing about ``detach``. :func:`pullback.check` computes such
# a quotient, along with the dot-product test and other routes, and says which of them
# disagree:

import pullback

report = pullback.check(leaky, p, b)
report

# %%
# We repeat the verdicts of this page as assertions, and compare the derivative of the first
# function with a difference quotient:

torch.testing.assert_close(left, right)
assert gap(Smooth, lopsided) > 0.1
assert gap(Mended, lopsided) < 1e-12
assert gap(Smooth, symmetric) < 1e-12
assert [route.name for route in report.routes if not route.ok] == ["finite differences"]
torch.testing.assert_close(v @ (f(x + 1e-6 * u) - f(x - 1e-6 * u)) / 2e-6, left)
assert pullback.check(f, x[:5], v[:4]).ok

# %%
# Where next
# ----------
#
# :ref:`gradcheck` compares every entry of the Jacobian with difference quotients, and
# :ref:`custom-function` is about Functions with a hand-written backward.
#
# .. asked: adjoint test; check a vjp against a jvp; test that my backward is the
#    transpose; verify a custom gradient with random vectors; transpose test of a linear
#    operator
# .. words: inner product, transpose, verify, operator, inverse problems, imaging,
#    adjointness, sanity check
