r"""
.. _small-graph:

A small graph by hand: w1…w4 and L, drawn with v on every edge
==============================================================

You have seen a graph with weights and a loss, and you want to follow ``backward`` through
it number by number. The backward pass goes from ``L`` to the :term:`leaves <leaf>`. On
every edge it multiplies the arriving :term:`cotangent` by the :term:`derivative` along that
edge. If several edges lead to the same node, ``backward`` adds up the cotangents that
arrive along them.
"""

# %%
# Our graph has six operations on numbers, each of shape ``()``. The weights ``w1`` to
# ``w4`` are leaves that require a :term:`gradient`. ``a`` is an input that does not:
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
# First we compute the gradients by hand, working backwards from the :term:`root`. The
# first derivative on the way is :math:`\partial L/\partial d=-1`. Then come
# :math:`\partial d/\partial w_3=b=8`, :math:`\partial d/\partial w_4=c=20`,
# :math:`\partial d/\partial b=w_3=9` and :math:`\partial d/\partial c=w_4=7`. The last
# derivatives are :math:`\partial b/\partial w_1=\partial c/\partial w_2=a=4`. For each
# weight, we multiply the derivatives along the path to it:

by_hand = {"w1": -1 * 9 * 4, "w2": -1 * 7 * 4, "w3": -1 * 8, "w4": -1 * 20}
by_hand

# %%
# Now PyTorch computes the gradient of ``L`` with respect to each weight. ``b``, ``c`` and
# ``d`` are not leaves, and so their gradients are kept only if we ask for them with
# ``retain_grad``:

for t in (b, c, d):
    t.retain_grad()
L.backward()
weights = {"w1": w1, "w2": w2, "w3": w3, "w4": w4}
{name: w.grad.item() for name, w in weights.items()}

# %%
# These are the cotangents at the inner nodes. Each node multiplies its cotangent by the
# derivative along each edge that leads into it, and sends the results on:

{name: t.grad.item() for name, t in {"b": b, "c": c, "d": d}.items()}

# %%
# On every edge
# -------------
#
# So the cotangent on an edge is the cotangent at the node that the edge leads into, times
# the derivative along the edge. The backward pass starts at ``L`` with the cotangent 1,
# which is the ``v`` of ``L.backward()``:

slope = {("w1", "b"): a, ("w2", "c"): a, ("w3", "d"): b, ("w4", "d"): c}
slope |= {("b", "d"): w3, ("c", "d"): w4, ("d", "L"): torch.tensor(-1.0)}
at = {"b": b.grad, "c": c.grad, "d": d.grad, "L": torch.tensor(1.0)}
edges = [(s, t, f"{(at[t] * value).item():g}") for (s, t), value in slope.items()]
for source, target, cotangent in edges:
    print(f"{source} <- {target}: {cotangent}")

# %%
# In the picture, the arrows point in the direction of the computation. Each arrow is
# labeled with its cotangent, which travels in the opposite direction. ``a`` is left out,
# because nothing travels to an input that requires no gradient:

import pullback.plot

title = "Backward through L = 10 - (w3 b + w4 c): the cotangent on each edge"
ax = pullback.plot.graph(edges, title=title)

# %%
# What goes wrong
# ---------------
#
# *Does every leaf get a gradient?* No, only leaves with ``requires_grad=True`` do. ``a`` is
# a leaf, too, and gets none. *How can a computed tensor be a leaf?* If you compute a tensor
# from tensors that require no gradient, the computation is not recorded, and so the result
# counts as a leaf:

print(a.is_leaf, a.requires_grad, a.grad)
print((2 * a).is_leaf, (2 * w1).is_leaf)

# %%
# Now let ``a`` require a gradient. Its gradient arrives along *two* edges: :math:`-9\cdot2`
# through ``b`` and :math:`-7\cdot5` through ``c``. :func:`pullback.trace` watches PyTorch
# walk through its own graph, and leaves every ``.grad`` and the graph as they were. Press
# *Next* to see what arrives at each node, and what it passes on:

a = torch.tensor(4.0, requires_grad=True)
b, c = w1 * a, w2 * a
d = w3 * b + w4 * c
loss = 10 - d
names = {"a": a, **weights, "b": b, "c": c, "d": d, "L": loss}
traced = pullback.trace(loss, names=names)
traced.steps()

# %%
# The two numbers that arrive at ``a`` are added up. Neither of them is the gradient by
# itself:

arriving = [edge.value.item() for edge in traced.edges if edge.target == "a"]
(at_a,) = torch.autograd.grad(loss, a)
print(arriving, at_a)

# %%
# As a check, we compute the four gradients a third time, by moving each weight up and down
# by a step. The function is linear in each weight, and so a central difference is exact
# even for a large step:


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
# :ref:`vjp-and-chain-rule` writes the product on each edge as a row times a matrix, and
# :ref:`never-forms-j` explains why no matrix is ever formed.
#
# .. asked: computational graph example; backpropagation on a small graph; gradients on
#    the edges; draw the graph with gradients; multi-path chain rule
# .. words: edges, nodes, drawing, paths, tutorial example, a b c d, tree, branches
