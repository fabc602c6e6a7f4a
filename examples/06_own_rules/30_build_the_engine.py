r"""
.. _build-the-engine:

Build the engine: PyTorch's backward in a hundred lines of NumPy
================================================================

A reverse-mode engine is a rule for each operation, a record of which operation made which
tensor, and a walk from the :term:`root` that waits at each tensor until all its
:term:`cotangents <cotangent>` are in. The rest is PyTorch's manners with ``gradient``.
"""

# %%
# A tensor holds its numbers, its ``.grad``, and the node that made it; a :term:`leaf` has
# no node:

from collections import Counter

import numpy as np
import torch


class Tensor:
    def __init__(self, data, requires_grad=False):
        self.data = np.asarray(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad = self.node = None


# %%
# Rules
# -----
#
# An operation returns its value and its :term:`pullback`: the function that takes ``v``,
# of the output's shape, to one product for each input. What that needs later, it holds:
# ``mul`` and ``matmul`` (of matrices) both inputs, ``tanh`` its output, ``sum`` a shape,
# ``add`` nothing:


def add(a, b):
    return a + b, lambda v: (v, v)


def mul(a, b):
    return a * b, lambda v: (v * b, v * a)


def matmul(a, b):
    return a @ b, lambda v: (v @ b.T, a.T @ v)


def tanh(a):
    y = np.tanh(a)
    return y, lambda v: (v * (1 - y * y),)


def total(a):
    shape = a.shape
    return a.sum(), lambda v: (np.broadcast_to(v, shape),)


# %%
# The record
# ----------
#
# A node knows the inputs, the pullback, and whether that holds arrays. Those are the
# :term:`saved tensors <saved tensor>`, which backward frees:


class Node:
    def __init__(self, inputs, pull):
        self.inputs, self.pull = inputs, pull
        held = [cell.cell_contents for cell in pull.__closure__ or ()]
        self.saves = any(isinstance(value, np.ndarray | np.generic) for value in held)


# %%
# Recorded is what comes from a tensor that requires a gradient:


def apply(rule, *inputs):
    inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    value, pull = rule(*(x.data for x in inputs))
    out = Tensor(value, requires_grad=any(x.requires_grad for x in inputs))
    out.node = Node(inputs, pull) if out.requires_grad else None
    return out


RULES = {"__add__": add, "__mul__": mul, "__matmul__": matmul, "tanh": tanh, "sum": total}
for name, rule in RULES.items():
    setattr(Tensor, name, lambda *inputs, rule=rule: apply(rule, *inputs))

# %%
# The walk
# --------
#
# A tensor that was used k times gets k cotangents. Going on with each by itself would walk
# every path, and paths double at each use; so count first, as PyTorch does:


def uses(root):
    count, todo = Counter(), [root]
    while todo:
        node = todo.pop().node
        for x in node.inputs if node else ():
            count[x] += x.requires_grad
            if count[x] == 1:
                todo.append(x)
    return count


# %%
# Broadcasting copied an entry to many places; on the way back their cotangents are summed,
# to the shape of the input:


def unbroadcast(g, shape):
    g = np.sum(g, axis=tuple(range(np.ndim(g) - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1)
    return np.sum(g, axis=stretched, keepdims=True)


unbroadcast(np.ones((4, 2, 3)), (2, 1)).tolist()

# %%
# The products of one node. Without its saved arrays it cannot go again; a node that saved
# none always can:


def products(node, v, retain_graph):
    if node.pull is None:
        raise RuntimeError("Trying to backward through the graph a second time")
    found = node.pull(v)
    if node.saves and not retain_graph:
        node.pull = None
    return zip(node.inputs, found, strict=True)


# %%
# A tensor goes when its last cotangent is in; a leaf adds it to ``.grad``:


def walk(arrived, missing, ready, retain_graph):
    while ready:
        x = ready.pop()
        v = arrived.pop(x)
        if x.node is None:
            x.grad = np.array(v) if x.grad is None else x.grad + v
            continue
        for parent, g in products(x.node, v, retain_graph):
            if parent.requires_grad:
                arrived[parent] = arrived.get(parent, 0) + unbroadcast(g, parent.data.shape)
                missing[parent] -= 1
                ready += [] if missing[parent] else [parent]


# %%
# What ``gradient`` must be
# -------------------------
#
# A one is implied for one element only; any other ``gradient`` has the shape of the output:


def checked(y, gradient):
    if not y.requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad")
    if gradient is None and y.data.size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    v = np.ones_like(y.data) if gradient is None else gradient.data
    if v.shape != y.data.shape:
        raise RuntimeError("Mismatch in shape")
    return v


# %%
# That is the whole. Sixty doublings have :math:`2^{60}` paths and 61 tensors:


def backward(y, gradient=None, retain_graph=False):
    walk({y: checked(y, gradient)}, uses(y), [y], retain_graph)


Tensor.backward = backward
y = x = Tensor(1, requires_grad=True)
for _ in range(60):
    y = y + y
y.backward()
print(x.grad == 2.0**60, len(uses(y)))

# %%
# Held against torch
# ------------------
#
# One program for either library, ``make`` being its constructor. Squares with ones
# (:ref:`ones-trick`) and a one-hot ``v`` (:ref:`one-component`), :ref:`matrices`, w1…w4
# (:ref:`small-graph`), and a layer with a bias that is broadcast:


def both(f, v, *inputs):
    found = []
    for make in (Tensor, torch.tensor):
        leaves = [make(np.array(x, dtype=float), requires_grad=True) for x in inputs]
        f(*leaves).backward(None if v is None else make(np.array(v, dtype=float)))
        found.append([np.asarray(x.grad) for x in leaves])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, strict=True)
    return [g.tolist() for g in found[0]]


# %%
# Each line has passed the comparison:

print(both(lambda x: x * x, [1, 1, 1], [1, 2, 3]))
print(both(lambda x: x * x, [0, 1, 0], [1, 2, 3]))
print(both(lambda a, b: a @ b, [[1, 10]], [[1, 2]], [[3, 4], [5, 6]]))
w = 2, 5, 9, 7
print(both(lambda w1, w2, w3, w4: (w3 * (w1 * 4) + w4 * (w2 * 4)) * -1 + 10, None, *w))
layer = [[1, 2], [3, 4], [5, 6]], [[0, 0], [0, 0]], [0, 0]
print(both(lambda x, w, b: (x @ w + b).tanh().sum(), None, *layer))

# %%
# The manners. A program makes y of x, or of c, which requires no gradient, and calls
# backward once or twice:


def answer(make, program, v, *retain):
    x, c = make([1.0, 2.0, 3.0], requires_grad=True), make([1.0])
    y, v = program(x, c), None if v is None else make(v)
    try:
        for retain_graph in retain:
            y.backward(v, retain_graph=retain_graph)
    except RuntimeError as error:
        return str(error)
    return str(np.asarray(x.grad))


# %%
# No ``gradient``; a wrong shape; nothing that requires one; twice through saved arrays, with
# the graph retained, and through a sum that saved none; a leaf as root. The engine's answer
# is PyTorch's, or the beginning of its message:

cases = [
    (lambda x, c: x * x, None, False),
    (lambda x, c: x * x, [1.0, 1.0], False),
    (lambda x, c: c * c, None, False),
    (lambda x, c: (x * x).sum(), None, False, False),
    (lambda x, c: (x * x).sum(), None, True, False),
    (lambda x, c: (x + x).sum(), None, False, False),
    (lambda x, c: x, [1.0, 10.0, 100.0], False),
]
for case in cases:
    print(ours := answer(Tensor, *case))
    assert answer(torch.tensor, *case).startswith(ours)

# %%
# What it leaves out: the graph of the gradient (``create_graph``; rules in NumPy cannot be
# recorded), in-place versions, hooks, devices.
#
# Where next
# ----------
#
# The same graph with v on every edge: :ref:`small-graph`. Why no Jacobian is formed:
# :ref:`never-forms-j`. A rule of yours in PyTorch's engine: :ref:`custom-function`.
