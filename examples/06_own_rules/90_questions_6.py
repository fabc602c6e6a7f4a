r"""
.. _chapter-6-questions:

Rules of your own in three questions
====================================

Answer each before you run the cell under it: the cell compares the answers that people
give and says which one holds.
"""

# %%
# 1. Which transpose?
# -------------------
#
# :math:`Y=AXB`, all of shape ``(3, 3)``. Your ``backward`` receives ``v``, of Y's shape,
# and must return the gradient of X. Is it ``A @ v @ B``, ``A.T @ v @ B.T`` or
# ``B.T @ v @ A.T``? All three have the right shape:

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
# Each as the backward of the same Function:


class Sandwich(Function):
    forward = staticmethod(lambda ctx, X: A @ X @ B)


verdicts = {}
for name, rule in rules.items():
    Sandwich.backward = staticmethod(lambda ctx, v, rule=rule: rule(v))
    verdicts[name] = gradcheck(Sandwich.apply, (X,), raise_exception=False)
verdicts

# %%
# Matrices change sides of an inner product transposed, and each stays on its side.
# (:ref:`deriving-vjps`)
#
# 2. What has gradcheck shown?
# ----------------------------
#
# ``gradcheck`` passes your Function. Is its second derivative right as well, is it right at
# other points, or neither? This one, for :math:`|x|^3`, believes that x is positive:


class Careless(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x**2)
        return x.abs() ** 3

    @staticmethod
    def backward(ctx, v):
        return 3 * ctx.saved_tensors[0] * v


# %%
# At a positive point, and with the signs turned:

x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
minus = (-x).detach().requires_grad_()
shown = {
    "this point": gradcheck(Careless.apply, (x,), raise_exception=False),
    "second derivative": gradgradcheck(Careless.apply, (x,), raise_exception=False),
    "another point": gradcheck(Careless.apply, (minus,), raise_exception=False),
}
shown

# %%
# Neither: the first derivative at this point. (:ref:`gradcheck`,
# :ref:`twice-differentiable`)
#
# 3. How often does the engine visit h?
# -------------------------------------
#
# ``h`` is used by three operations, whose results are added. Does ``h``'s own rule run
# three times, once for each path, or once? A Function that counts:


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
# Once, with the sum of the three :term:`cotangents <cotangent>`: the engine waits until all
# are in. (:ref:`build-the-engine`)
#
# The answers, checked by the formulas:

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
# What all of this costs in time and memory: :ref:`chapter-7`.
