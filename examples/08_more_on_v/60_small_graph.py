r"""
.. _small-graph:

A small graph by hand: w1…w4 and L, drawn with v on every edge
==============================================================

Backward walks the graph from ``L`` to the :term:`leaves <leaf>`; on every edge it
multiplies the arriving :term:`cotangent` by that edge's own :term:`derivative`, and it
adds up what reaches a node by several edges.
"""

# %%
# Six operations on numbers, each of shape ``()``. The weights ``w1`` to ``w4`` are
# leaves that require a :term:`gradient`, ``a`` is an input that does not:
#
# .. math::
#
#    b=w_1a,\quad c=w_2a,\quad d=w_3b+w_4c,\quad L=10-d

import torch

a = torch.tensor(4.0)
w1, w2, w3, w4 = (torch.tensor(value, requires_grad=True) for value in (2.0, 5.0, 9.0, 7.0))
b, c = w1 * a, w2 * a
d = w3 * b + w4 * c
L = 10 - d
L

# %%
# By hand, from the :term:`root` backwards, with :math:`\partial L/\partial d=-1` first.
# Then :math:`\partial d/\partial w_3=b=8`, :math:`\partial d/\partial w_4=c=20`,
# :math:`\partial d/\partial b=w_3=9`, :math:`\partial d/\partial c=w_4=7`; and
# :math:`\partial b/\partial w_1=\partial c/\partial w_2=a=4`. Multiply along each path:

by_hand = {"w1": -1 * 9 * 4, "w2": -1 * 7 * 4, "w3": -1 * 8, "w4": -1 * 20}
by_hand

# %%
# The gradient of ``L`` with respect to each weight, from PyTorch. ``b``, ``c`` and ``d``
# are not leaves, so their gradients are kept only on request:

for t in (b, c, d):
    t.retain_grad()
L.backward()
weights = {"w1": w1, "w2": w2, "w3": w3, "w4": w4}
{name: w.grad.item() for name, w in weights.items()}

# %%
# The cotangents at the inner nodes, which is what each passes on:

{name: t.grad.item() for name, t in {"b": b, "c": c, "d": d}.items()}

# %%
# On every edge
# -------------
#
# The cotangent on an edge is the one at its target times the edge's own
# derivative. It starts with 1 at ``L``, the ``v`` of ``L.backward()``:

slope = {("w1", "b"): a, ("w2", "c"): a, ("w3", "d"): b, ("w4", "d"): c}
slope |= {("b", "d"): w3, ("c", "d"): w4, ("d", "L"): torch.tensor(-1.0)}
at = {"b": b.grad, "c": c.grad, "d": d.grad, "L": torch.tensor(1.0)}
edges = [(s, t, f"{(at[t] * value).item():g}") for (s, t), value in slope.items()]
for source, target, cotangent in edges:
    print(f"{source} <- {target}: {cotangent}")

# %%
# Drawn, with arrows in the direction of the computation and on each of them the
# cotangent that travels back against it. ``a`` is left out, since nothing travels to an
# input that requires no gradient:

import pullback.plot

title = "Backward through L = 10 - (w3 b + w4 c): the cotangent on each edge"
ax = pullback.plot.graph(edges, title=title)

# %%
# What goes wrong
# ---------------
#
# *Does the result reach every leaf?* Only leaves with ``requires_grad=True``. ``a`` is
# a leaf, too, and has none. *Why is even a computed tensor a leaf?* What is computed
# from tensors that need no gradient is not recorded, so it counts as a leaf:

print(a.is_leaf, a.requires_grad, a.grad)
print((2 * a).is_leaf, (2 * w1).is_leaf)

# %%
# If ``a`` requires a gradient, it gets one by *two* edges, :math:`-9\cdot2` through ``b``
# and :math:`-7\cdot5` through ``c``. :func:`pullback.trace` looks on while PyTorch walks
# its own graph, and leaves every ``.grad`` and the graph as they were. Press *Next* and
# see what arrives at each node, and what it passes on:

a = torch.tensor(4.0, requires_grad=True)
b, c = w1 * a, w2 * a
d = w3 * b + w4 * c
loss = 10 - d
names = {"a": a, **weights, "b": b, "c": c, "d": d, "L": loss}
traced = pullback.trace(loss, names=names)
traced.steps()

# %%
# The two that arrive at ``a`` are added; neither alone is the answer:

arriving = [edge.value.item() for edge in traced.edges if edge.target == "a"]
(at_a,) = torch.autograd.grad(loss, a)
print(arriving, at_a)

# %%
# By hand, by PyTorch, and by a small step in each weight, the same four numbers. The
# function is linear in each weight, so a central difference is exact:


def value(w1, w2, w3, w4, a=4.0):
    return 10 - (w3 * (w1 * a) + w4 * (w2 * a))


point = {name: w.item() for name, w in weights.items()}
for name, w in weights.items():
    up = value(**{**point, name: point[name] + 0.5})
    down = value(**{**point, name: point[name] - 0.5})
    assert w.grad.item() == by_hand[name] == up - down
assert at_a.item() == -9 * 2 - 7 * 5
assert sorted(arriving) == [-7 * 5, -9 * 2]

# %%
# Where next
# ----------
#
# The product on each edge, as a row times a matrix: :ref:`vjp-and-chain-rule`. Why no
# matrix is ever formed: :ref:`never-forms-j`.
#
# .. asked: computational graph example; backpropagation on a small graph; gradients on
#    the edges; draw the graph with gradients; multi-path chain rule
#
# .. words: edges, nodes, drawing, paths, tutorial example, a b c d, tree, branches
