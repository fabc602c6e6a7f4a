r"""
.. _chapter-1-questions:

The gradient argument in three questions
========================================

Have you understood what ``v`` is? Here are three questions. Answer each of them before you
run the cell below it. The cell computes the right answer, and the pages that are named
below it explain this answer.
"""

# %%
# 1. The shape of v
# -----------------
#
# ``x`` has shape ``(3,)``, and ``y`` has shape ``(2, 4)``. Which shape must the gradient
# argument have: ``(3,)``, ``(2, 4)``, ``(8,)`` or ``(2, 3)``?

import torch

weights = torch.arange(24.0).reshape(2, 4, 3)
y = weights @ torch.tensor([1.0, 2.0, 3.0]).requires_grad_()


def accepted(*shape):
    try:
        y.backward(torch.ones(shape), retain_graph=True)
    except RuntimeError:
        return False
    return True


shapes = (3,), (2, 4), (8,), (2, 3)
taken = [shape for shape in shapes if accepted(*shape)]
taken

# %%
# ``v`` must have exactly the shape of ``y``. Even eight numbers in a row are refused.
# (:ref:`shape-rule`)
#
# 2. One number out of four
# -------------------------
#
# Take ``y = x ** 2`` at ``x = [1, 2, 3, 4]``. Which ``v`` puts the derivative of the
# third output into ``x.grad``, and nothing else: ``[1, 1, 1, 1]``, ``[0, 0, 1, 0]`` or
# ``[0, 0, 3, 0]``? And how large is this derivative?

x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)


def gradient(v):
    (g,) = torch.autograd.grad(x**2, x, torch.tensor(v))
    return g.tolist()


choices = [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 3.0, 0.0]
for v in choices:
    print(v, "->", gradient(v))

# %%
# The :term:`one-hot vector` ``[0, 0, 1, 0]`` does. It gives you a row of the
# :term:`Jacobian`, with a 6 in the third place. The last ``v`` multiplies this row by 3.
# (:ref:`one-component`, :ref:`v-is-a-weight`)
#
# 3. Do ones give every sample its own derivative?
# ------------------------------------------------
#
# For one of these two functions, ``backward(ones)`` on a batch gives each sample's own
# derivative. For which one?


def scaled(x):
    return 3 * x**2


def centred(x):
    return (x - x.mean()) ** 2


def ones_are_right(f):
    (by_ones,) = torch.autograd.grad(f(x), x, torch.ones(4))
    own = torch.func.jacrev(f)(x.detach()).diagonal()
    return torch.allclose(by_ones, own)


print(ones_are_right(scaled), ones_are_right(centred))

# %%
# They do for the first function. In the second, the mean links every output to every
# sample, and ones add up the derivatives of all these links. (:ref:`ones-trick`,
# :ref:`mixing-samples`)
#
# Here the answers are checked. We work out the row of the second question from the rule for
# a square, whose derivative is 2x:

assert taken == [(2, 4)]
assert gradient([0.0, 0.0, 1.0, 0.0]) == [0.0, 0.0, 2 * 3.0, 0.0]
assert ones_are_right(scaled)
assert not ones_are_right(centred)

# %%
# Where next
# ----------
#
# :ref:`chapter-2` is about whole Jacobians, and :ref:`exercises` has more questions to try.
