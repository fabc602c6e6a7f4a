r"""
.. _part-2-check:

Check yourself: Jacobians
=========================

Ten questions about this part. Write your answer down before you open the one on the page,
because it is easy to nod at an answer that one would not have found. If a question gives
you trouble, the page that it comes from is named in its answer.
"""

# %%
# **1.** A function takes 5 numbers and returns 2. What is the shape of its Jacobian? And
# is ``J[1]`` the gradient of an output, or the effect of an input?
#
# .. dropdown:: Answer
#
#    The shape is ``(2, 5)``, outputs first. ``J[1]`` is a row, and so it is the gradient
#    of the second output. The effect of the second input would be the column ``J[:, 1]``.
#    (:ref:`reading-a-jacobian`)
#
#    .. code-block:: python
#
#       A = torch.arange(10.0).reshape(2, 5)
#       torch.func.jacrev(lambda x: A @ x)(torch.ones(5)).shape   # (2, 5)
#
# **2.** ``first`` takes 3 numbers to 4, and ``second`` takes 4 numbers to 1. Their
# Jacobians are ``J1`` and ``J2``. How do you get the Jacobian of
# ``second(first(x))`` from them, and what is its shape?
#
# .. dropdown:: Answer
#
#    ``J2 @ J1``, with the last step on the left. The sizes are ``(1, 4) @ (4, 3)``, so
#    the result has shape ``(1, 3)``. ``J2`` has to be taken at ``first(x)`` and not at
#    ``x``. (:ref:`chain-of-jacobians`)
#
#    .. code-block:: python
#
#       J2 = torch.func.jacrev(second)(first(x))
#       J1 = torch.func.jacrev(first)(x)
#       J2 @ J1
#
# **3.** ``X`` has shape ``(3, 4)`` and ``Y = X @ B`` has shape ``(3, 2)``. What is the
# shape of the Jacobian of ``Y`` with respect to ``X``, and how many of its entries can be
# different from zero?
#
# .. dropdown:: Answer
#
#    ``Y.shape + X.shape`` is ``(3, 2, 3, 4)``, with 72 entries. Row ``i`` of ``Y`` uses
#    only row ``i`` of ``X``. That leaves three blocks of 2 by 4, which is 24 entries.
#    (:ref:`tensors-in-tensors-out`, :ref:`one-jacobian-per-sample`)
#
#    .. code-block:: python
#
#       J = torch.func.jacrev(lambda X: X @ B)(X)
#       J.shape, J.count_nonzero()   # (3, 2, 3, 4), 24
#
# **4.** You need the whole Jacobian of a function with 1000 outputs and 10 inputs, and
# none of its entries is known to be zero. Which function do you call, and how many
# products does it take?
#
# .. dropdown:: Answer
#
#    ``torch.func.jacfwd``, because a product per input is less than a product per output.
#    It takes ten. ``jacrev`` gives the same table from a thousand. A single product with
#    ones would give the sum of the rows. (:ref:`the-whole-jacobian`,
#    :ref:`pushing-forward`)
#
#    .. code-block:: python
#
#       torch.func.jacfwd(f)(x)
#
# **5.** Somebody hands you a tensor ``y`` of shape ``(3,)`` and the ``x`` that it was
# computed from. You do not have the function. How do you get the table in one call?
#
# .. dropdown:: Answer
#
#    Pass all one-hot ``v`` as a batch. If you pass ``[y[0], y[1], y[2]]`` instead, you
#    get the sum of the rows. (:ref:`the-whole-jacobian`)
#
#    .. code-block:: python
#
#       (J,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
#
# **6.** A push says that with the plan ``u``, heat changes at a rate of 2 and fuel at a
# rate of 5. The prices are ``v = [10, -1]``. What is ``(v @ J) @ u``? Do you need to know
# ``J``?
#
# .. dropdown:: Answer
#
#    It is 15, and you do not need ``J``. The brackets do not matter:
#    :math:`(v^\top J)u=v^\top(Ju)=10\cdot2-1\cdot5`. (:ref:`pushing-forward`)
#
#    .. code-block:: python
#
#       u = torch.tensor([1.5, 0.5, 0.0])   # pushes heat by 2 and fuel by 5
#       (v @ J) @ u, v @ (J @ u)            # 15, 15
#
# **7.** A network takes a batch of shape ``(64, 10)`` to ``(64, 3)``. You want a table of
# shape ``(3, 10)`` for each sample, and sum each output over the batch, which makes three
# products. Under which condition is the result right?
#
# .. dropdown:: Answer
#
#    Each sample's outputs may depend on that sample only. BatchNorm in training mode
#    breaks this, and the result is then the sum of a sample's effects on the whole batch,
#    without an error. (:ref:`one-jacobian-per-sample`)
#
#    .. code-block:: python
#
#       net.eval()
#       rows = [torch.autograd.grad(net(X)[:, k].sum(), X)[0] for k in range(3)]
#       tables = torch.stack(rows, dim=1)   # (64, 3, 10)
#
# **8.** Each of 500 outputs looks at four inputs in a row: output ``i`` at inputs ``i``
# to ``i + 3``. Here are the first five outputs:

import torch

import pullback

pullback.draw.dependence(torch.ones(5, 8).triu().tril(3))

# %%
# How many pushes give the whole Jacobian, and why not fewer?
#
# .. dropdown:: Answer
#
#    Four. Columns that are four apart never meet in a row, so four colours do. Fewer
#    cannot work, because the four columns of one row all have to have different colours.
#    (:ref:`a-jacobian-of-zeros`)
#
#    .. code-block:: python
#
#       color = torch.arange(503) % 4
#
# **9.** ``torch.func.jacrev(lambda params: net(x))(params)`` returns zeros of the right
# shape. What has happened, and what is the line that was meant?
#
# .. dropdown:: Answer
#
#    The function does not use ``params``. ``net(x)`` uses the tensors inside the module,
#    and so the result does not depend on the argument.
#    (:ref:`with-respect-to-parameters`)
#
#    .. code-block:: python
#
#       jacrev(lambda params: functional_call(net, params, (x,)))(params)
#
# **10.** ``y = x**3`` at ``x = 2``. You call ``y.backward(retain_graph=True)`` and then
# ``y.backward()``. What is in ``x.grad``? And how do you get the second derivative?
#
# .. dropdown:: Answer
#
#    24, which is the first derivative, 12, added twice. The second derivative is also 12
#    here, :math:`6x`, and you get it by differentiating the gradient. (:ref:`once-more`)
#
#    .. code-block:: python
#
#       (g,) = torch.autograd.grad(x**3, x, create_graph=True)
#       torch.autograd.grad(g, x)   # 12

# %%
# .. dropdown:: How we checked this page
#
#    Each answer is computed here, in the order of the questions. (Open this after you
#    have answered.)

from torch.func import functional_call, jacfwd, jacrev, jvp

# 1
A = torch.arange(10.0).reshape(2, 5)
J = jacrev(lambda x: A @ x)(torch.ones(5))
assert J.shape == (2, 5)
assert torch.equal(J[1], A[1])

# 2
M = torch.arange(12.0).reshape(4, 3)


def first(x):
    return torch.tanh(M @ x / 10)


def second(x):
    return (x**2).sum().reshape(1)


x = torch.tensor([0.1, 0.2, 0.3])
product = jacrev(second)(first(x)) @ jacrev(first)(x)
assert product.shape == (1, 3)
torch.testing.assert_close(product, jacfwd(lambda x: second(first(x)))(x))

# %%
# Questions 3 to 6:

# 3
B = torch.arange(1.0, 9.0).reshape(4, 2)
J = jacrev(lambda X: X @ B)(torch.ones(3, 4))
assert J.shape == (3, 2, 3, 4)
assert J.count_nonzero() == 24

# 4
W = torch.linspace(-1, 1, 10_000).reshape(1000, 10)
at, pushes = torch.linspace(-1, 1, 10), torch.eye(10)
columns = [jvp(lambda x: torch.tanh(W @ x), (at,), (u,))[1] for u in pushes]
torch.testing.assert_close(torch.stack(columns, 1), jacrev(lambda x: torch.tanh(W @ x))(at))

# 5
leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = leaf**2
(J,) = torch.autograd.grad(y, leaf, torch.eye(3), is_grads_batched=True)
assert torch.equal(J, torch.diag(2 * leaf.detach()))
assert torch.equal(torch.autograd.grad(list(leaf**2), leaf)[0], J.sum(0))

# 6
J, v = torch.tensor([[1.0, 1, 1], [2, 4, 6]]), torch.tensor([10.0, -1.0])
u = torch.tensor([1.5, 0.5, 0.0])
assert torch.equal(J @ u, torch.tensor([2.0, 5.0]))
assert (v @ J) @ u == v @ (J @ u) == 15

# %%
# Questions 7 to 10:

# 7
torch.manual_seed(0)  # any weights will do; the same ones in every run
net = torch.nn.Sequential(torch.nn.Linear(10, 3), torch.nn.BatchNorm1d(3))
X = torch.randn(64, 10, requires_grad=True)


def by_sums():
    return torch.stack([torch.autograd.grad(net(X)[:, k].sum(), X)[0] for k in range(3)], 1)


assert by_sums().abs().max() < 1e-5  # training: the normalised batch always adds up to 0
net.eval()
one = jacrev(lambda x: net(x[None])[0])(X[5].detach())
torch.testing.assert_close(by_sums()[5], one)

# 8
color = torch.arange(503) % 4
windows = torch.arange(503).unfold(0, 4, 1)  # the four inputs of each of 500 outputs
assert windows.shape == (500, 4)
assert all(len(set(row.tolist())) == 4 for row in color[windows])

# 9
params = {name: p.detach() for name, p in net.named_parameters()}
at = torch.ones(1, 10)
assert not any(block.any() for block in jacrev(lambda params: net(at))(params).values())
right = jacrev(lambda params: functional_call(net, params, (at,)))(params)
assert right["0.weight"].any()

# 10
s = torch.tensor(2.0, requires_grad=True)
y = s**3
y.backward(retain_graph=True)
y.backward()
assert s.grad == 24
(g,) = torch.autograd.grad(s**3, s, create_graph=True)
assert torch.autograd.grad(g, s)[0] == 12

# %%
# **Next:** the course ends here. Take it into your own program. :ref:`Case studies
# <chapter-4>` show what others have done with a ``v`` of their choice, and the notes go
# deeper into single mechanisms.
