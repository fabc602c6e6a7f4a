r"""
.. _chapter-4-questions:

Chapter 4 in three questions
============================

Answer each before you run the cell under it: the cell compares the answers that people
give and says which one holds.
"""

# %%
# 1. Which v is the mean?
# -----------------------
#
# ``losses`` has shape ``(4,)``. Which ``v`` gives the gradient of ``losses.mean()``: ones,
# a quarter in each place, or a single 1/4?

import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
data = torch.arange(8.0).reshape(4, 2)
losses = (data @ w) ** 2
(mean,) = torch.autograd.grad(losses.mean(), w, retain_graph=True)
answers = {
    "ones": torch.ones(4),
    "a quarter each": torch.full((4,), 0.25),
    "a single 1/4": torch.tensor(0.25),
}
right = []
for name, v in answers.items():
    try:
        (g,) = torch.autograd.grad(losses, w, v, retain_graph=True)
    except RuntimeError:
        print(name, "-> refused")
    else:
        print(name, "->", torch.equal(g, mean))
        right += [name] if torch.equal(g, mean) else []

# %%
# A quarter in each place; the single number has the wrong shape. (:ref:`loss-as-v`)
#
# 2. A number from SciPy
# ----------------------
#
# A SciPy routine gives you a loss and its gradient by ``y`` as an array. Must the routine
# be rewritten in torch before you can train the network that made ``y``?

y = torch.tanh(data @ w)
array = 2 * (y.detach().numpy() - 1)  # the gradient of sum (y - 1)^2, in NumPy
y.backward(torch.from_numpy(array))
in_torch = torch.func.grad(lambda w: ((torch.tanh(data @ w) - 1) ** 2).sum())(w.detach())
print(torch.allclose(w.grad, in_torch))

# %%
# No: its gradient *is* the ``v``. (:ref:`external-loss`)
#
# 3. Two losses, two calls
# ------------------------
#
# ``l1.backward(retain_graph=True); l2.backward()`` or ``(l1 + l2).backward()``: do they
# differ in the gradients, in the work, or in both?

found, visits = [], []
for together in (True, False):
    w.grad = None
    shared = w**2
    seen = []
    shared.register_hook(seen.append)
    l1, l2 = shared.sum(), shared.prod()
    if together:
        (l1 + l2).backward()
    else:
        l1.backward(retain_graph=True)
        l2.backward()
    found.append(w.grad)
    visits.append(len(seen))
print(torch.equal(*found), visits)

# %%
# In the work only: the shared part is walked once or twice. (:ref:`several-losses`)
#
# The answers, checked:

assert right == ["a quarter each"]
torch.testing.assert_close(
    mean, losses.detach().new_full((4,), 0.25) @ (2 * (data @ w.detach())[:, None] * data)
)
assert visits == [1, 2]

# %%
# Where next
# ----------
#
# What surprises people on the way: :ref:`chapter-5`.
