r"""
.. _sparse-and-nested:

Can x, y or v be sparse, or hold rows of unequal lengths?
=========================================================

Most of your matrix is zero, or your sequences have unequal lengths, and you wonder
whether x, y or v may be stored as a sparse or a nested tensor. A sparse x is allowed.
Whether its gradient is sparse depends on the operation. A sparse v works only if the
operation's backward rule can handle it. Otherwise the backward pass raises an error. If y
is dense, pass a dense v. If y is a nested tensor, v must share the offsets of y.
"""

# %%
# Let :math:`y=SW`, where all matrices have shape ``(2, 2)`` and S is sparse. There are two
# possible gradients with respect to S. Either every entry of S is a variable, or only the
# stored entries are. In the second formula, M is 1 where S stores an entry, and 0
# elsewhere:
#
# .. math::
#
#    \bar S=vW^\top\qquad\text{or}\qquad\bar S=M\circ(vW^\top),\qquad\bar W=S^\top v .
#
# PyTorch can compute either gradient. For the same two tensors, :func:`torch.sparse.mm`
# gives the second, and ``@`` gives the first:

import torch

S = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().requires_grad_()
W = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
v = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
for product in (torch.sparse.mm, torch.matmul):
    of_s, of_w = torch.autograd.grad(product(S, W), (S, W), v)
    print(of_s.layout, of_s.to_dense().tolist(), of_w.tolist())

# %%
# *My matrix has a million entries, of which it stores a thousand.* For such a matrix ``@``
# makes a dense gradient with a million entries, and SGD refuses the step, as you can see
# for our small S. Use ``torch.sparse.mm``. Alternatively, make the tensor of *values* the
# leaf. Then there is no doubt which entries are variables:

(S @ W).backward(v)
try:
    torch.optim.SGD([S], lr=0.1).step()
except RuntimeError as error:
    print(error)
values = torch.tensor([2.0, 3.0], requires_grad=True)
places = torch.tensor([[0, 1], [1, 0]])
matrix = torch.sparse_coo_tensor(places, values, (2, 2), check_invariants=True)
torch.autograd.grad(torch.sparse.mm(matrix, W), values, v)[0]

# %%
# If *y* is sparse, v must have the shape of y. But what becomes of a dense v depends on the
# operation. It may reach entries that S does not store, be cut down to the entries that S
# stores, or be refused. In each pair of lines in the output, the first line is for a dense
# v, and the second is for a sparse v. All three operations accept the sparse v:

entries = {"2 * S": lambda S: 2 * S, "S * S": lambda S: S * S, "relu": torch.relu}
for name, f in entries.items():
    for weight in (v, v.sparse_mask(S.detach().coalesce())):
        try:
            print(name, torch.autograd.grad(f(S), S, weight)[0].to_dense().tolist())
        except RuntimeError as error:
            print(name, type(error).__name__)

# %%
# A sparse v
# ----------
#
# *Only three of my million outputs matter: may v be sparse?* Autograd passes a sparse v on
# as it is. What happens to it then depends on the backward rule of the operation. We try
# six operations:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
one, A = torch.tensor([0.0, 5.0, 0.0]), torch.ones(3, 3)
functions = {"exp": torch.exp, "x * x": lambda x: x * x, "A @ x": lambda x: A @ x}
functions |= {"tanh": torch.tanh, "x[:]": lambda x: x[:], "log": torch.log}
answers = {}
for name, f in functions.items():
    try:
        (answers[name],) = torch.autograd.grad(f(x), x, one.to_sparse())
        print(f"{name:6}", answers[name].layout)
    except RuntimeError as error:
        print(f"{name:6}", type(error).__name__, str(error)[:40])

# %%
# Some operations return a sparse gradient, some return a dense one, and some cannot handle
# a sparse v. Wherever a gradient is returned here, it is right, as we check at the end. If
# you want to save work, it is better to compute fewer outputs.
#
# A sparse gradient in .grad
# --------------------------
#
# The gradient of an embedding with ``sparse=True`` stores only the rows that were looked
# up. Every call to ``backward`` *appends* its rows. ``coalesce`` adds up the stored rows
# that have the same row number in the table. So until you call ``coalesce``, the norm of
# the stored values may differ from the norm of the gradient. Each line of the output shows
# the number of stored rows before and after ``coalesce``, and then the norm before and
# after:

table = torch.nn.Embedding(5, 2, sparse=True)
for _ in range(3):
    table(torch.tensor([1, 3, 1])).sum().backward()
    g = table.weight.grad
    norms = [part.norm().item() for part in (g._values(), g.coalesce().values())]
    print(g._nnz(), g.coalesce()._nnz(), *(f"{norm:.2f}" for norm in norms))

# %%
# Which optimizers take such a gradient? SGD does, unless it has weight decay. Adam refuses
# it, and names ``SparseAdam`` in its message, which is cut off here. If you want to clip
# the gradient, use the norm of ``g.coalesce().values()``. From torch 2.14 on,
# ``clip_grad_norm_`` does that. Before 2.14, it raises an error (:ref:`version-notes`). We
# try SGD without and with weight decay, and Adam:

optim, p = torch.optim, table.weight
users = {
    "SGD": lambda: optim.SGD([p], lr=0.1).step(),
    "SGD with decay": lambda: optim.SGD([p], lr=0.1, weight_decay=0.1).step(),
    "Adam": lambda: optim.Adam([p]).step(),
}
for name, user in users.items():
    try:
        print(f"{name:15}", user() or "runs")
    except RuntimeError as error:
        print(f"{name:15}", str(error)[:60])

# %%
# *Is SparseAdam the same as Adam?* No, its steps are different. With ``SparseAdam``, a row
# that is not looked up stays where it is, whereas with Adam, the momentum keeps moving it.
# Below, row 1 is looked up once, and then row 3 four times. The first number is the value
# in row 1 afterwards, and the second is the value in row 3:

moved = {}
for sparse, make in {True: optim.SparseAdam, False: optim.Adam}.items():
    table = torch.nn.Embedding.from_pretrained(torch.zeros(5, 2), False, sparse=sparse)
    optimizer = make(table.parameters(), lr=0.1)
    for row in (1, 3, 3, 3, 3):
        optimizer.zero_grad()
        table(torch.tensor([row])).sum().backward()
        optimizer.step()
    moved[sparse] = table.weight.detach()[[1, 3], 0]
    print(make.__name__, moved[sparse].numpy().round(3))

# %%
# Rows of different lengths
# -------------------------
#
# A nested tensor with ``layout=torch.jagged`` holds rows of unequal lengths. If y is
# nested, its ``v`` is nested, too. It is not enough that the rows of ``v`` have the same
# lengths as those of y: ``v`` has to hold the very same tensor of offsets as y. The tensor
# from ``torch.zeros_like(y)`` does, and you can copy your weights into it:

rows = [torch.tensor(r, requires_grad=True) for r in ([1.0, 2.0], [3.0, 4.0, 5.0])]
nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
y = nested * nested
weights = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0, 2.0])]
try:
    y.backward(torch.nested.nested_tensor(weights, layout=torch.jagged))
except RuntimeError as error:
    print(str(error).partition(":")[0])
same = torch.zeros_like(y)
same.values().copy_(torch.cat(weights))
by_nested = torch.autograd.grad(y, rows, same, retain_graph=True)
by_nested

# %%
# Or differentiate the flat tensor of all values. Here ``y.values()`` has shape ``(5,)``,
# and so has its ``v``. If you take a mean over all entries, a long row counts more than a
# short one. If you want the mean of the row means, pass the ``v`` that is computed here:

flat = torch.autograd.grad(y.values(), rows, torch.cat(weights), retain_graph=True)
lengths = y.offsets().diff()
v = (1 / lengths).repeat_interleave(lengths) / len(lengths)
of_means = torch.autograd.grad(y.values(), rows, v)
of_means

# %%
# As a check, we compare each result with a dense tensor, or with the rows taken one by
# one:

for name, g in answers.items():
    assert torch.allclose(g.to_dense(), torch.autograd.grad(functions[name](x), x, one)[0])
for row, weight, *found in zip(rows, weights, by_nested, flat, strict=True):
    for g in found:
        torch.testing.assert_close(g, torch.autograd.grad(row**2, row, weight)[0])
means = torch.stack([(row**2).mean() for row in rows]).mean()
for g, expected in zip(of_means, torch.autograd.grad(means, rows), strict=True):
    torch.testing.assert_close(g, expected)
assert answers.keys() == {"exp", "x * x", "A @ x"}
assert moved[True][0] > moved[False][0] + 0.1

# %%
# Where next
# ----------
#
# :ref:`sparse-jacobian` is about Jacobians whose zeros are known. :ref:`same-numbers`
# compares a sparse embedding with its dense counterpart, and :ref:`contract` says what v
# may be.
#
# .. asked: sparse gradient; sparse tensor and backward; nested tensor; ragged batches;
#    jagged tensor; sparse v
# .. words: coo, csr, graph network, ragged, unequal, jagged, embedding sparse=True,
#    SparseAdam, adjacency
