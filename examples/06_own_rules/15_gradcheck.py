r"""
.. _gradcheck:

gradcheck and finite differences, and when they lie
===================================================

You have written a backward rule and want to know whether it is right. :func:`gradcheck
<torch.autograd.gradcheck.gradcheck>` compares the products that your rule returns with
difference quotients at one point. The function must be smooth and deterministic, and its
inputs must be in double precision and share no memory. Otherwise ``gradcheck`` may reject a
correct rule. It can also pass a wrong one: it does not see an error within its tolerances,
or an error in a branch that the function does not take at this point. With real inputs it
does not see a missing conjugate, and in fast mode it can miss still more.
"""

# %%
# For a function ``f`` from shape ``(n,)`` to shape ``(m,)``, gradcheck computes the
# :term:`Jacobian` J twice. For the first matrix it moves one input at a time up and down by
# ``eps``, and each input gives a column of J. For the second matrix it pulls back
# :term:`one-hot vectors <one-hot vector>` ``v`` one at a time, and each of them gives a
# row. The two matrices must agree to within ``atol + rtol * |numerical|``. Below we make
# the first matrix ourselves, and then ask gradcheck for its verdict:

import matplotlib.pyplot as plt
import torch
from torch.autograd import Function, gradcheck


def numerical(f, x, h=1e-6):
    columns = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in torch.eye(len(x)).to(x)]
    return torch.stack(columns, dim=1)


def f(x):
    return torch.stack([x[0] * x[1], x[0] ** 3, x[1] ** 2])


x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
print((measured := numerical(f, x.detach())).round(decimals=6))
gradcheck(f, (x,))

# %%
# To see which mistakes gradcheck misses, we need wrong rules. ``with_rule`` makes a
# Function with any rule you like, and ``passes`` returns the verdict of gradcheck as True
# or False instead of raising an exception:


def with_rule(forward, rule):
    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        backward = staticmethod(lambda ctx, v: rule(*ctx.saved_tensors, v))

    return Rule.apply


def passes(f, *inputs, **options):
    return gradcheck(f, inputs, raise_exception=False, **options)


# %%
# Our first wrong rule is a rule for :math:`x_1x_2` in which a factor is missing. gradcheck
# rejects this rule. Note that its message shows both matrices *transposed*:

forgets = with_rule(torch.prod, lambda x, v: v * torch.stack([x[1], torch.ones_like(v)]))
try:
    gradcheck(forgets, (x,))
except RuntimeError as error:
    print(error)

# %%
# Which step size is best?
# ------------------------
#
# For :math:`x^3` the central difference quotient is :math:`3x^2+h^2`. So a smaller step h
# gives a smaller error, until the rounding error of f, which is divided by h, outweighs
# this gain. We try steps from 0.1 to :math:`10^{-12}` and print the best one for each
# dtype:

steps = [10.0**-k for k in range(1, 13)]
errors = {}
for dtype in (torch.float32, torch.float64):
    at = torch.tensor([1.3], dtype=dtype)
    exact = 3 * at.double() * at.double()
    quotients = [numerical(lambda x: x * x * x, at, h).double() for h in steps]
    errors[dtype] = [(q - exact).abs().item() for q in quotients]
best = {str(d): steps[e.index(min(e))] for d, e in errors.items()}
best

# %%
# On logarithmic axes the error has the shape of a V. In float32 no step gives more than a
# few correct digits in this example. This is why gradcheck asks for float64. Its default
# ``eps`` of 1e-6 suits only float64:

figure, ax = plt.subplots(layout="constrained")
for dtype, error in errors.items():
    ax.loglog(steps, error, marker="o", label=str(dtype))
ax.set(xlabel="step h", ylabel="error of the difference quotient")
ax.legend()
title = ax.set_title("The error: truncation at large steps, rounding at small ones")

# %%
# A correct rule, rejected
# ------------------------
#
# Each of the derivatives below is correct, or is the convention that PyTorch has chosen.
# The difference quotient is at fault. It is wrong across a kink, across oscillations that
# are shorter than ``eps``, for a function that draws new random numbers at each call, and
# for two arguments that share memory, because a step in one of them also moves the other.
# For ``abs`` the central difference quotient at 0 is 0 by symmetry, and 0 is also the slope
# that PyTorch has chosen.

torch.manual_seed(0)  # the same masks on every build
zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
right = {
    "relu at its kink": passes(torch.relu, zero),
    "abs at its kink": passes(torch.abs, zero),
    "sin(1e7 x) / 1e7": passes(lambda x: torch.sin(1e7 * x) / 1e7, x),
    "dropout": passes(torch.nn.functional.dropout, x),
    "a * b, shared memory": passes(torch.mul, x, x.detach()),
    "a * b, own memory": passes(torch.mul, x, x.detach().clone()),
}
right

# %%
# Only ``abs`` and the product of tensors that share no memory have passed.
#
# *Why does gradcheck complain about a stride of 0, or say that my backward is not
# reentrant?* The first message is about an expanded input, which is the one kind of shared
# memory that gradcheck notices. The second message appears because gradcheck computes each
# product twice and the results differ. On a GPU, the order of the terms in a sum may change
# from run to run, and then the results differ in their last digits. With ``nondet_tol`` you
# can allow such a difference. Below we add the noise ourselves:

expanded = torch.ones(1, dtype=torch.float64).expand(3).requires_grad_()
noisy = with_rule(torch.square, lambda x, v: v * (2 * x + 1e-9 * torch.rand_like(x)))
for f, point in ((torch.square, expanded), (noisy, x)):
    try:
        gradcheck(f, point)
    except RuntimeError as error:
        print(str(error)[:76])
passes(noisy, x, nondet_tol=1e-6)

# %%
# A wrong rule, passed
# --------------------
#
# Now we look at the opposite case. The first four rules below are wrong, each in its own
# way: one in a branch that the function does not take at this point, one by an error within
# ``rtol=1e-3``, one by an error within ``atol=1e-5``, and one because a conjugate is
# missing, which real inputs cannot reveal. In the fifth rule one entry of J is off by 1e-4.
# We test this rule with ``fast_mode=True``, which compares only a single number,
# :math:`v^\top Ju`, and misses the error:

off = torch.tensor([[2.0, 1e-4], [0.0, 2.0]], dtype=torch.float64)
wrong = {
    "branch": with_rule(torch.abs, lambda x, v: v),
    "rtol": with_rule(torch.sin, lambda x, v: v * torch.cos(x) * 1.0005),
    "atol": with_rule(lambda x: 1e-6 * x**2, lambda x, v: v * x * 0),
    "complex": with_rule(torch.square, lambda z, v: v * 2 * z),  # not its conjugate
    "fast": with_rule(lambda x: 2 * x, lambda x, v: v @ off),
}
passed = {name: passes(rule, x, fast_mode=name == "fast") for name, rule in wrong.items()}
passed

# %%
# All five wrong rules pass. So test your rule in slow mode, at points on every branch, with
# outputs of magnitude near 1, and with complex inputs if your function accepts them.
# Tighten the tolerances as well, for example to ``rtol=1e-6`` if the inputs are float64.
# Each of these five measures catches one of the wrong rules:

z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
caught = {
    "branch": not passes(wrong["branch"], (-x).detach().requires_grad_()),
    "rtol": not passes(wrong["rtol"], x, rtol=1e-6, atol=1e-8),
    "atol": not passes(lambda x: 1e6 * wrong["atol"](x), x),
    "complex": not passes(wrong["complex"], z),
    "fast": not passes(wrong["fast"], x),
}
caught

# %%
# As a check, we compare the measured matrix with the formula. We also check the verdicts,
# and that the smallest error in each dtype lies within bounds. A correct rule still passes
# with the tighter tolerances and with complex inputs:

J = torch.tensor([[3.0, 2.0], [12.0, 0.0], [0.0, 6.0]], dtype=torch.float64)
torch.testing.assert_close(measured, J, rtol=1e-8, atol=1e-8)
assert list(right.values()) == [False, True, False, False, False, True]
assert all([*passed.values(), *caught.values(), passes(torch.square, z)])
assert passes(torch.sin, x, rtol=1e-6, atol=1e-8)
assert min(errors[torch.float64]) < 1e-9 < 1e-5 < min(errors[torch.float32])

# %%
# Where next
# ----------
#
# For a test that needs no step h, read :ref:`dot-product-test`. :ref:`twice-differentiable`
# is about the second derivative of a Function. :ref:`kinks` is about points where a
# function has no derivative.
#
# .. asked: gradcheck; finite differences; numerical gradient; check my gradient; verify
#    a custom backward; gradient checking; is my backward right; numerical and
#    analytical Jacobian; test whether my gradient is correct; compare with finite
#    differences; finite difference does not match autograd
# .. words: verify, numerically, finite, eps, tolerance, float32 fails, double, unit test,
#    mismatch, approximate, slow mode, nondeterministic
