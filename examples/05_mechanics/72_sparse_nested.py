r"""
.. _sparse-and-nested:

May x, y or v be sparse, or of unequal lengths?
===============================================

A sparse x, yes; whether its gradient is sparse depends on the operation. A sparse v where
the operation's backward happens to know it: elsewhere it raises, and a dense v is right
for every dense y. For nested tensors v must be made from y's own offsets.
"""

# %%
# :math:`y=SW`, all of shape ``(2, 2)``. With every entry of S a variable, and with only the
# stored ones (the mask M is 1 where S has an entry):
#
# .. math::
#
#    \bar S=vW^\top\qquad\text{or}\qquad\bar S=M\circ(vW^\top),\qquad\bar W=S^\top v .
#
# PyTorch has both. :func:`torch.sparse.mm` gives the second, ``@`` on the same two
# tensors the first:

import torch

S = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().requires_grad_()
W = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
v = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
for product in (torch.sparse.mm, torch.matmul):
    of_s, of_w = torch.autograd.grad(product(S, W), (S, W), v)
    print(of_s.layout, of_s.to_dense().tolist(), of_w.tolist())

# %%
# *My matrix has a million places and a thousand entries.* Then ``@`` makes a dense gradient
# of a million, and SGD refuses the step. Take ``torch.sparse.mm``, or let the *values* be
# the leaf, which rows no doubt:

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
# A sparse *y* takes a v of its shape. A dense one goes into entries that S does not store,
# or is cut down to the stored, or is refused; a sparse one suits these three:

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
# *Only three of my million outputs matter: may v be sparse?* Autograd hands it on as it is.
# What happens is up to each operation's backward:

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
# Some keep it sparse, some make it dense, many know nothing of it; none of these gives
# wrong numbers (checked at the end). To save work, compute fewer outputs.
#
# A sparse gradient in .grad
# --------------------------
#
# ``sparse=True`` on an embedding stores the rows looked up. Every backward *appends* its
# rows, which ``coalesce`` adds up, so that the bare values have another norm:

table = torch.nn.Embedding(5, 2, sparse=True)
for _ in range(3):
    table(torch.tensor([1, 3, 1])).sum().backward()
    g = table.weight.grad
    norms = [part.norm().item() for part in (g._values(), g.coalesce().values())]
    print(g._nnz(), g.coalesce()._nnz(), *(f"{norm:.2f}" for norm in norms))

# %%
# What takes such a gradient. For clipping, take the norm of ``g.coalesce().values()``:
# ``clip_grad_norm_`` does since torch 2.14, and raises before (:ref:`version-notes`).

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
# *And SparseAdam is Adam?* Not in its steps: a row that is not looked up stays where it is,
# while Adam's momentum carries it on. Row 1 is looked up once, row 3 four times after:

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
# Lengths that differ
# -------------------
#
# A nested tensor with ``layout=torch.jagged`` holds rows of unequal lengths. Its ``v`` is
# nested as well, and the same lengths are not enough: it must share y's offsets:

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
# Or take the flat tensor: ``y.values()`` has shape ``(5,)``, and its ``v`` as well. A mean
# over all entries weighs long rows more; a mean of the rows' means is this ``v``:

flat = torch.autograd.grad(y.values(), rows, torch.cat(weights), retain_graph=True)
lengths = y.offsets().diff()
v = (1 / lengths).repeat_interleave(lengths) / len(lengths)
of_means = torch.autograd.grad(y.values(), rows, v)
of_means

# %%
# The check: dense tensors, and the rows one by one:

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
# Jacobians with known zeros: :ref:`sparse-jacobian`. The same embedding, sparse and dense:
# :ref:`same-numbers`. What v may be: :ref:`contract`.
#
# .. asked: sparse gradient; sparse tensor and backward; nested tensor; ragged batches;
#    jagged tensor; sparse v
#
# .. words: coo, csr, graph network, ragged, unequal, jagged, embedding sparse=True,
#    SparseAdam, adjacency
