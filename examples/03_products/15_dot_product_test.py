r"""
.. _dot-product-test:

The dot-product test: does my VJP match my JVP?
===============================================

For every ``u`` and ``v``, :math:`\langle v, Ju\rangle=\langle J^\top v, u\rangle`. Draw
both at random and compare two numbers: if they differ, one of the products is wrong.
"""

# %%
# Shapes: ``v`` and :math:`Ju` look like ``y``, ``u`` and :math:`J^\top v` look like
# ``x``. Both sides are the one number :math:`v^\top J u`, bracketed in two ways:
#
# .. math::
#
#    v^\top(Ju) = (v^\top J)\,u
#
# No :term:`Jacobian` is formed, so the test costs two products, whatever m and n are.

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
# Why random vectors catch mistakes: a wrong entry :math:`(i,j)` changes one side by
# :math:`v_i u_j` times the error, which is zero with probability zero.
#
# The adjoint of a linear operator
# --------------------------------
#
# *I have a linear operator in PyTorch and need its adjoint, for a solver.* It is the map
# that ``vjp`` returns, the same at every x. Here of a strided convolution with a crop, put
# to the test; and once more, at zero:


def operator(x):
    return torch.nn.functional.conv2d(x, kernel, stride=2, padding=1)[..., 1:, 1:]


kernel, image = torch.randn(3, 2, 3, 3).double(), torch.randn(1, 2, 8, 8).double()
seen, adjoint = torch.func.vjp(operator, image)
r = torch.randn_like(seen)
print(f"{(seen * r).sum():.10f} {(image * adjoint(r)[0]).sum():.10f}")
print(torch.equal(torch.func.vjp(operator, 0 * image)[1](r)[0], adjoint(r)[0]))

# %%
# Of a complex operator it is the conjugate transpose :math:`A^H` (:ref:`complex-v`). Of a
# convolution alone, ``conv_transpose2d`` (:ref:`same-or-not`).

A, z, w = (torch.randn(s, dtype=torch.complex128) for s in ((3, 2), (2,), (3,)))
torch.allclose(torch.func.vjp(lambda z: A @ z, z)[1](w)[0], A.conj().T @ w)

# %%
# A hand-written backward on trial
# --------------------------------
#
# A convolution with a kernel of three numbers, its backward written by hand. The kernel
# must be *flipped* on the way back; this one forgets to:


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
# The map is linear in ``x``, so its :term:`JVP` with ``u`` is the map itself applied to
# ``u``, and ``backward`` supplies the other side:


def gap(smooth, k):
    a = torch.randn(50, dtype=torch.float64, requires_grad=True)
    u, v = torch.randn(50).double(), torch.randn(50).double()
    smooth.apply(a, k).backward(v)
    return (v @ smooth.apply(u, k) - a.grad @ u).abs().item()


lopsided = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
print(gap(Smooth, lopsided) > 0.1)

# %%
# The test has found it. Mended, the same function passes:


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
# A test on a special case passes. A *symmetric* kernel is its own flip, so the wrong
# backward is right there, and the mistake sleeps until the kernel is another one:

symmetric = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
print(gap(Smooth, symmetric) < 1e-12)

# %%
# *Does a passed test prove my gradient?* No: it says that both products belong to *one*
# matrix, not that it is the right one. A stray ``detach`` takes half of the derivative of
# :math:`x^2` from the :term:`VJP` and the JVP alike. Both sides are equal, and half of the
# third number, which takes :math:`J=\operatorname{diag}(2x)`:


def leaky(x):
    return x * x.detach()


p, a, b = torch.tensor([[2.0, 4.0], [1.0, 3.0], [1.0, 8.0]]).double().unbind()
pulled = torch.func.vjp(leaky, p)[1](b)[0]
print((b @ torch.func.jvp(leaky, (p,), (a,))[1]).item(), (pulled @ a).item())
print((b @ (2 * p * a)).item())

# %%
# A difference quotient knows nothing of ``detach``. :func:`pullback.check` takes it and the
# test, among other routes, and says which one disagrees:

import pullback

report = pullback.check(leaky, p, b)
report

# %%
# The numbers of this page, and a difference quotient of the first function:

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
# Every entry against differences: :ref:`gradcheck`. Where hand-written backward functions
# come from: :ref:`custom-function`.
#
# .. asked: adjoint test; check a vjp against a jvp; test that my backward is the
#    transpose; verify a custom gradient with random vectors; transpose test of a linear
#    operator
