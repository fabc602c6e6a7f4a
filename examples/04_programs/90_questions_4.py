r"""
.. _chapter-4-questions:

Case studies in three questions
===============================

Here are three questions. Answer each of them before you run the cell below it. The cell
compares possible answers, and shows which one is right.
"""

# %%
# 1. Which v is the mean?
# -----------------------
#
# ``losses`` has shape ``(4,)``. Which ``v`` gives the gradient of ``losses.mean()``: ones,
# a quarter in each entry, or a single 1/4?

import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.arange(8.0).reshape(4, 2)
losses = (data @ w) ** 2
(mean,) = torch.autograd.grad(losses.mean(), w, retain_graph=True)
quarter = torch.full((4,), 0.25)
answers = {"ones": torch.ones(4), "a quarter each": quarter, "a single 1/4": quarter[0]}

# %%
# We try each of the three:


def outcome(v):
    try:
        (g,) = torch.autograd.grad(losses, w, v, retain_graph=True)
    except RuntimeError:
        return "refused"
    return "the mean" if torch.equal(g, mean) else "something else"


outcomes = {name: outcome(v) for name, v in answers.items()}
print(outcomes)

# %%
# A quarter in each entry gives the mean. The single number has the wrong shape
# (:ref:`loss-as-v`).
#
# 2. A number from SciPy
# ----------------------
#
# A SciPy routine gives you a loss and its gradient with respect to ``y`` as an array. Do
# you have to rewrite the routine in torch before you can train the network that computed
# ``y``?

y = torch.tanh(data @ w / 10)
array = 2 * (y.detach().numpy() - 1)  # the gradient of sum (y - 1)^2, in NumPy
y.backward(torch.from_numpy(array))
in_torch = torch.func.grad(lambda w: ((torch.tanh(data @ w / 10) - 1) ** 2).sum())(
    w.detach()
)
from_array, w.grad = w.grad, None
print(torch.allclose(from_array, in_torch))

# %%
# You do not, because the gradient from the routine *is* the ``v`` (:ref:`external-loss`).
#
# 3. Two losses, two calls
# ------------------------
#
# ``l1.backward(retain_graph=True); l2.backward()`` or ``(l1 + l2).backward()``: do they
# differ in the gradients, in the work, or in both?


def gradient_and_visits(backward):
    w.grad, shared, visits = None, w**2, []
    shared.register_hook(visits.append)
    backward(shared.sum(), shared.prod())
    return w.grad, len(visits)


def one_by_one(l1, l2):
    l1.backward(retain_graph=True)
    l2.backward()


# %%
# A hook on the shared part counts how often a gradient goes through it:

once = gradient_and_visits(lambda l1, l2: (l1 + l2).backward())
twice = gradient_and_visits(one_by_one)
print(torch.equal(once[0], twice[0]), once[1], twice[1])

# %%
# They differ only in the work. With the sum, the backward pass goes through the shared part
# once. With two calls, it goes through it twice (:ref:`several-losses`).
#
# The answers, checked:

assert outcomes["a quarter each"] == "the mean"
assert outcomes["a single 1/4"] == "refused"
J = 2 * (data @ w.detach())[:, None] * data
torch.testing.assert_close(mean, quarter @ J)
torch.testing.assert_close(from_array, in_torch)
assert (once[1], twice[1]) == (1, 2)

# %%
# Where next
# ----------
#
# The next chapter is about what surprises people on the way: :ref:`chapter-5`.
