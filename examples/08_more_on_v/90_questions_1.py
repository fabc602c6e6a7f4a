r"""
.. _chapter-1-questions:

The gradient argument in three questions
========================================

Have you understood what ``v`` is? Here are three questions. Answer each of them before you
run the cell below it. The cell computes the right answer, and the pages linked below it
explain why it is right.
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
# ``v`` must have exactly the shape of ``y``. PyTorch refuses even a flat tensor of eight
# numbers. (:ref:`shape-rule`)
#
# 2. One number out of four
# -------------------------
#
# Take ``y = x ** 2`` at ``x = [1, 2, 3, 4]``. Which ``v`` gives you the derivative of the
# third output, and nothing else: ``[1, 1, 1, 1]``, ``[0, 0, 1, 0]`` or ``[0, 0, 3, 0]``?
# And how large is this derivative?

x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)


def gradient(v):
    (g,) = torch.autograd.grad(x**2, x, torch.tensor(v))
    return g.tolist()


choices = [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 3.0, 0.0]
for v in choices:
    print(v, "->", gradient(v))

# %%
# The :term:`one-hot vector` ``[0, 0, 1, 0]`` does this. It gives you the third row of the
# :term:`Jacobian`, which has the derivative 6 in the third place and zeros elsewhere. The
# last ``v`` multiplies this row by 3. (:ref:`one-component`, :ref:`v-is-a-weight`)
#
# 3. Do ones give every sample its own derivative?
# ------------------------------------------------
#
# For one of these two functions, a ``v`` of ones gives each sample in a batch its own
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
# A ``v`` of ones is right for the first function, ``scaled``. In the second, ``centred``,
# the mean makes every output depend on every sample, and a ``v`` of ones adds up, for each
# sample, the derivatives of all outputs with respect to this sample. (:ref:`ones-trick`,
# :ref:`mixing-samples`)
#
# We now check the answers. For the second question we work out the row by hand, from the
# derivative 2x of a square:

assert taken == [(2, 4)]
assert gradient([0.0, 0.0, 1.0, 0.0]) == [0.0, 0.0, 2 * 3.0, 0.0]
assert ones_are_right(scaled)
assert not ones_are_right(centred)

# %%
# Where next
# ----------
#
# :ref:`chapter-2` is about whole Jacobians, and :ref:`exercises` has more questions to try.
