r"""
.. _chapter-3-questions:

Products in three questions
===========================

Can you tell the products apart? Here are three questions. Answer each of them before you
run the cell below it. The cell shows which answer is right.
"""

# %%
# 1. What shape does u have?
# --------------------------
#
# f maps a tensor of shape ``(3,)`` to a tensor of shape ``(2,)``. You want to know how the
# outputs change if the input changes a little. Do you pass a vector of 3 numbers or of 2,
# and to which function?

import torch


def f(x):
    return torch.stack([x.sum(), (x**2).sum()])


x = torch.tensor([1.0, 2.0, 3.0])
answers = {"u of shape (3,)": torch.ones(3), "u of shape (2,)": torch.ones(2)}
for name, u in answers.items():
    try:
        print(name, "->", torch.func.jvp(f, (x,), (u,))[1])
    except RuntimeError:
        print(name, "-> refused")

# %%
# You pass three numbers, a :term:`tangent`, to :func:`torch.func.jvp`. The result has two
# numbers, one for each output. (:ref:`what-is-a-jvp`)
#
# 2. What is in x.grad?
# ---------------------
#
# Take :math:`y=x^5` at 1. You call ``y.backward(create_graph=True)`` twice. What does
# ``x.grad`` hold after the second call: the second derivative 20, or 5, or 10?

import warnings

x = torch.tensor(1.0, requires_grad=True)
y = x**5
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about the cycle that create_graph leaves in x.grad
    y.backward(create_graph=True)
    y.backward(create_graph=True)
found, x.grad = x.grad.item(), None
found

# %%
# ``x.grad`` holds 10, the sum of two first derivatives. (:ref:`accumulating-twice`)
#
# 3. How many products?
# ---------------------
#
# A loss has a million weights, and you want :math:`Hu` for one ``u``. Does this take a
# million products, a thousand, or about two?

calls = []
w = torch.linspace(0, 1, 1_000_000, requires_grad=True)
w.register_hook(calls.append)  # sees each gradient that arrives at w
loss = (w**3).sum()
(g,) = torch.autograd.grad(loss, w, create_graph=True)
(Hu,) = torch.autograd.grad(g, w, torch.ones_like(w))
len(calls)

# %%
# It takes two products, a gradient and then a product through the graph of that gradient.
# (:ref:`hvp`)
#
# As a check, we compare the answers with the formulas:

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
point = torch.tensor([1.0, 2.0, 3.0])
assert torch.equal(torch.func.jvp(f, (point,), (torch.ones(3),))[1], J @ torch.ones(3))
assert found == 2 * 5
torch.testing.assert_close(Hu, 6 * w.detach())
assert len(calls) == 2

# %%
# Where next
# ----------
#
# :ref:`chapter-4` uses the same products in real programs.
