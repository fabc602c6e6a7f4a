r"""
.. _chapter-6-questions:

Rules of your own in three questions
====================================

Can you write a backward rule, and do you know what its tests tell you? Here are three
questions. Answer each of them before you run the cell below it. The cell tests the answers
that one might give, and shows which one is right.
"""

# %%
# 1. Which transpose?
# -------------------
#
# Take :math:`Y=AXB`, where all matrices have shape ``(3, 3)``. Your ``backward`` receives
# ``v``, in the shape of Y, and has to return the gradient with respect to X. Is this
# gradient ``A @ v @ B``, ``A.T @ v @ B.T`` or ``B.T @ v @ A.T``? All three have the right
# shape:

import torch
from torch.autograd import Function, gradcheck, gradgradcheck

torch.manual_seed(0)  # the same matrices on every build
A, X, B = torch.randn(3, 3, 3, dtype=torch.float64)
X.requires_grad_()
rules = {
    "A v B": lambda v: A @ v @ B,
    "Aᵀ v Bᵀ": lambda v: A.T @ v @ B.T,
    "Bᵀ v Aᵀ": lambda v: B.T @ v @ A.T,
}

# %%
# We use each of the three rules as the ``backward`` of the same Function, and ask
# ``gradcheck`` which of them is right:


class Sandwich(Function):
    forward = staticmethod(lambda ctx, X: A @ X @ B)


verdicts = {}
for name, rule in rules.items():
    Sandwich.backward = staticmethod(lambda ctx, v, rule=rule: rule(v))
    verdicts[name] = gradcheck(Sandwich.apply, (X,), raise_exception=False)
verdicts

# %%
# The rule ``A.T @ v @ B.T`` is right. A matrix that you move to the other argument of an
# inner product is transposed, but it stays on the left or on the right as before.
# (:ref:`deriving-vjps`)
#
# 2. What has gradcheck shown?
# ----------------------------
#
# Your Function passes ``gradcheck``. Do you know now that its second derivative is right as
# well, or that its first derivative is right at other points, too, or neither? The
# ``backward`` of the following Function for :math:`|x|^3` assumes that x is positive:


class Careless(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x**2)
        return x.abs() ** 3

    @staticmethod
    def backward(ctx, v):
        return 3 * ctx.saved_tensors[0] * v


# %%
# We test the first and the second derivative at a point with positive entries, and the
# first derivative at a point with the opposite signs:

x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
minus = (-x).detach().requires_grad_()
shown = {
    "this point": gradcheck(Careless.apply, (x,), raise_exception=False),
    "second derivative": gradgradcheck(Careless.apply, (x,), raise_exception=False),
    "another point": gradcheck(Careless.apply, (minus,), raise_exception=False),
}
shown

# %%
# You know neither, because ``gradcheck`` has checked only the first derivative, and only at
# this point. (:ref:`gradcheck`, :ref:`twice-differentiable`)
#
# 3. How often does the engine visit h?
# -------------------------------------
#
# Three operations use ``h``, and their results are added. Does the ``backward`` of the
# Function that made ``h`` run three times, once for each path, or only once? Here is a
# Function whose ``backward`` records what it receives:


class Counted(Function):
    forward = staticmethod(lambda ctx, x: 2 * x)

    @staticmethod
    def backward(ctx, v):
        received.append(v.item())
        return 2 * v


received = []
z = torch.tensor(1.0, requires_grad=True)
h = Counted.apply(z)
(h + 10 * h + 100 * h).backward()
received

# %%
# It runs once, with the sum of the three :term:`cotangents <cotangent>`. The engine waits
# until all of them have arrived. (:ref:`build-the-engine`)
#
# As a check, we compare the answers with formulas:

V, change = torch.randn(2, 3, 3, dtype=torch.float64)
torch.testing.assert_close((V * (A @ change @ B)).sum(), (A.T @ V @ B.T * change).sum())
assert [name for name, passed in verdicts.items() if passed] == ["Aᵀ v Bᵀ"]
assert list(shown.values()) == [True, False, False]
assert received == [1 + 10 + 100]
assert z.grad.item() == 2 * 111

# %%
# Where next
# ----------
#
# :ref:`chapter-7` is about the time and the memory that such products take.
