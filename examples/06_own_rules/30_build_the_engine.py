r"""
.. _build-the-engine:

Build the engine: PyTorch's backward in under a hundred lines of NumPy
======================================================================

What does ``loss.backward()`` do internally? To find out, we build an engine that does the
same as PyTorch. A reverse-mode engine needs a rule for each operation, a record of which
operation made which tensor, and a walk from the :term:`root` that waits at each tensor
until all its :term:`cotangents <cotangent>` have arrived. It must also treat the argument
``gradient`` as PyTorch does.
"""

# %%
# Our tensor holds its numbers, its ``.grad`` and the node that made it. A :term:`leaf` has
# no node:

import numpy as np
import torch


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.array = np.asarray(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad = self.node = None


# %%
# Rules
# -----
#
# Each rule returns the value of the operation and its :term:`pullback`. The pullback is a
# function that takes ``v``, which has the shape of the output, and returns one product for
# each input. The pullback holds the values that it needs: both inputs for ``*`` and for the
# matrix product ``@``, the output for ``tanh``, and a shape for ``sum``. Here are the
# rules:


def tanh(a):
    y = np.tanh(a)
    return y, lambda v: (v * (1 - y * y),)


RULES = {
    "__add__": lambda a, b: (a + b, lambda v: (v, v)),
    "__mul__": lambda a, b: (a * b, lambda v: (v * b, v * a)),
    "__matmul__": lambda a, b: (a @ b, lambda v: (v @ b.T, a.T @ v)),
    "sum": lambda a: (a.sum(), lambda v, shape=a.shape: (np.broadcast_to(v, shape),)),
    "tanh": tanh,
}

# %%
# The record
# ----------
#
# A node knows the inputs and the pullback of its operation. The arrays that the pullback
# holds are the :term:`saved tensors <saved tensor>`. The node releases them after the first
# use, unless the graph is retained. A node that has saved no arrays can be used again:


class Node:
    def __init__(self, inputs, pull):
        self.inputs, self.pull = inputs, pull
        held = [cell.cell_contents for cell in pull.__closure__ or ()]
        self.saves = any(isinstance(value, np.ndarray | np.generic) for value in held)

    def products(self, v, retain_graph):
        if self.pull is None:
            raise RuntimeError("Trying to backward through the graph a second time")
        found = zip(self.inputs, self.pull(v), strict=True)
        self.pull = None if self.saves and not retain_graph else self.pull
        return [(x, unbroadcast(g, x.array.shape)) for x, g in found if x.requires_grad]


# %%
# An operation is recorded if at least one of its inputs requires a gradient:


def apply(rule, *inputs):
    inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    value, pull = rule(*(x.array for x in inputs))
    out = Tensor(value, requires_grad=any(x.requires_grad for x in inputs))
    out.node = Node(inputs, pull) if out.requires_grad else None
    return out


for name, rule in RULES.items():
    setattr(Tensor, name, lambda *inputs, rule=rule: apply(rule, *inputs))

# %%
# The walk
# --------
#
# A tensor that was used k times gets k cotangents. We could pass on each of these
# cotangents separately, but then we would follow every path through the graph, and the
# number of paths can grow exponentially. So we first count how often each tensor is used,
# as PyTorch does:


def uses(root):
    count, todo = {}, [root]
    while todo:
        node = todo.pop().node
        for x in node.inputs if node else ():
            count[x] = count.get(x, 0) + x.requires_grad
            if count[x] == 1:
                todo.append(x)
    return count


# %%
# Broadcasting copies an entry to many places of a larger array. In the backward pass,
# ``unbroadcast`` adds up the cotangents of these places. In the example below, each of two
# entries was copied to twelve places:


def unbroadcast(g, shape):
    g = np.sum(g, axis=tuple(range(np.ndim(g) - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1)
    return np.sum(g, axis=stretched, keepdims=True)


unbroadcast(np.ones((4, 2, 3)), (2, 1)).tolist()

# %%
# The walk goes on from a tensor when the last cotangent of this tensor has arrived. The
# walk does not go beyond a leaf. There it adds the sum of the cotangents to ``.grad``, and
# then it goes on with the other tensors that are ready:


def walk(arrived, missing, ready, retain_graph):
    while ready:
        v = arrived.pop(x := ready.pop())
        if x.node is None:
            x.grad = np.array(v) if x.grad is None else x.grad + v
            continue
        for parent, g in x.node.products(v, retain_graph):
            arrived[parent] = arrived.get(parent, 0) + g
            missing[parent] -= 1
            if not missing[parent]:
                ready.append(parent)


# %%
# What ``gradient`` must be
# -------------------------
#
# You may leave ``gradient`` out only if the output has one element, and the engine then
# uses the number 1. A ``gradient`` that you pass must have the shape of the output:


def checked(y, gradient):
    v = np.ones_like(y.array) if gradient is None else gradient.array
    if v.shape != y.array.shape:
        raise RuntimeError("Mismatch in shape")
    if not y.requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad")
    if gradient is None and y.array.size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return v


# %%
# The function ``backward`` below completes the engine. We try it on a number that is
# doubled sixty times. There are :math:`2^{60}` paths through this graph, but only 60
# tensors for the walk to reach:


def backward(y, gradient=None, retain_graph=False):
    walk({y: checked(y, gradient)}, uses(y), [y], retain_graph)


Tensor.backward = backward
y = x = Tensor(1, requires_grad=True)
for _ in range(60):
    y = y + y
y.backward()
print(x.grad == 2.0**60, len(uses(y)))

# %%
# Our engine compared with torch
# ------------------------------
#
# ``run`` runs a program with one of the two libraries, ours or PyTorch, and ``make`` is the
# function that constructs a tensor of that library. ``run`` returns the gradients, or the
# error message:


def run(make, program, v, inputs, retain=(False,), requires_grad=True):
    leaves = [make(np.array(x, dtype=float), requires_grad=requires_grad) for x in inputs]
    y, v = program(*leaves), None if v is None else make(np.array(v, dtype=float))
    try:
        for retain_graph in retain:
            y.backward(v, retain_graph=retain_graph)
    except RuntimeError as error:
        return str(error)
    return [np.round(x.grad, 9).tolist() for x in leaves]


# %%
# The examples are squares with ones for ``v`` (:ref:`ones-trick`), squares with a one-hot
# ``v`` (:ref:`one-component`), a product of matrices (:ref:`matrices`), a graph with the
# leaves w1…w4 (:ref:`small-graph`), and a layer whose bias is broadcast. The last line of
# the loop asserts that both libraries give the same result:

examples = [
    (lambda x: x * x, [1, 1, 1], [[1, 2, 3]]),
    (lambda x: x * x, [0, 1, 0], [[1, 2, 3]]),
    (lambda a, b: a @ b, [[1, 10]], [[[1, 2]], [[3, 4], [5, 6]]]),
    (lambda p, q, r, s: (r * (p * 4) + s * (q * 4)) * -1 + 10, None, [2, 5, 9, 7]),
    (lambda x, w, b: (x @ w + b).tanh(), [[1], [0], [2]], [[[1], [2], [3]], [[1]], [-1]]),
]
for case in examples:
    ours, theirs = (run(make, *case) for make in (Tensor, torch.tensor))
    print(ours)
    assert ours == theirs

# %%
# Do the two libraries also refuse the same calls? We try a call without ``gradient`` and a
# call whose ``gradient`` has the wrong shape, and we repeat both calls with an input that
# requires no gradient. We call ``backward`` twice on a graph that has saved arrays, twice
# on the same graph when the first call retains it, and twice on a sum that has saved no
# arrays. Finally, we call ``backward`` on a leaf, which is then also the root:

manners = [
    (lambda x: x * x, None, [[1, 2, 3]]),
    (lambda x: x * x, [1, 1], [[1, 2, 3]]),
    (lambda x: x * x, None, [[1, 2, 3]], (False,), False),
    (lambda x: x * x, [1, 1], [[1, 2, 3]], (False,), False),
    (lambda x: (x * x).sum(), None, [[1, 2, 3]], (False, False)),
    (lambda x: (x * x).sum(), None, [[1, 2, 3]], (True, False)),
    (lambda x: (x + x).sum(), None, [[1, 2, 3]], (False, False)),
    (lambda x: x, [1, 10, 100], [[1, 2, 3]]),
]

# %%
# In each case our engine must return PyTorch's result, or the beginning of PyTorch's error
# message:

for case in manners:
    ours, theirs = (run(make, *case) for make in (Tensor, torch.tensor))
    print(ours)
    assert ours == theirs[: len(ours)]

# %%
# We have left out ``create_graph``, because our rules are written in NumPy, and the
# engine does not record the operations of NumPy. We have also left out hooks, and the
# version counters that detect in-place changes.
#
# Where next
# ----------
#
# :ref:`small-graph` shows the graph of w1…w4 with ``v`` on every edge. :ref:`never-forms-j`
# explains why no Jacobian is formed. To put a rule of your own into PyTorch's engine, read
# :ref:`custom-function`.
#
# .. asked: build an autograd engine; micrograd; how does autograd work inside; how does
#    loss.backward() work; implement backpropagation from scratch; automatic
#    differentiation in NumPy; topological order; what happens inside backward;
#    understand how PyTorch computes gradients; write a tiny PyTorch; what does
#    loss.backward() actually do
# .. words: from scratch, micrograd, tape, own framework, numpy, understand, topological
#    sort, wengert, karpathy, inside
