r"""
.. _reading-grad-fn:

What does a grad_fn such as AddBackward0 say? Reading the graph
===============================================================

You print a tensor, and see ``grad_fn=<AddBackward0>``. What does this name tell you, and
what else can you ask the node? ``AddBackward0`` is the name of a backward rule, namely the
rule of the operation that made the tensor. The number at the end of the name is not a
count: it distinguishes the rules that one operation has for different kinds of arguments.
The attribute ``next_functions`` of the node says to which nodes it passes its results. The
node does not hold a gradient.
"""

# %%
# ``x`` and ``c`` have shape ``(2,)``, and so has :math:`y=e^{cx+w}`. We print the
# ``grad_fn`` of ``y``, which was computed, and of ``x`` and ``c``, which were not:

import torch

x = torch.tensor([0.1, 0.2], requires_grad=True)
w = torch.tensor(0.5, requires_grad=True)
c = torch.tensor([3.0, 4.0])
y = torch.exp(c * x + w)
print(y.grad_fn.name(), x.grad_fn, c.grad_fn)

# %%
# If two names differ only in the number, as ``PowBackward0`` and ``PowBackward1`` do, the
# operation is the same, but the kinds of its arguments are different. In the first three
# lines of the output, the base and the exponent are a tensor and a number, then two
# tensors, and then a number and a tensor. ``1 - x`` is recorded as a separate operation,
# ``rsub``:

made = {
    "x ** 2": x**2,
    "x ** x": x**x,
    "2 ** x": 2**x,
    "x.sum()": x.sum(),
    "x.sum(0)": x.sum(0),
    "x - 1": x - 1,
    "1 - x": 1 - x,
}
for name, t in made.items():
    print(f"{name:10}", t.grad_fn.name())

# %%
# *x.grad_fn is None, have I lost the graph?* No. ``x`` is a :term:`leaf`, which no
# operation made. The graph is lost if a tensor that you computed from ``x`` has
# ``requires_grad=False`` (:ref:`grad-is-none`).
#
# next_functions
# --------------
#
# ``next_functions`` has one pair for each argument that can have a gradient, in the order
# of the arguments. A plain number may count as such an argument. The first entry of the
# pair is the node that gets the result for this argument, and the second says *which
# output* of that node's operation the argument was. If an argument needs no gradient,
# like ``c`` here, the pair has None instead of a node. If you follow ``next_functions``
# from node to node, you end at the leaves, each of which is held by an ``AccumulateGrad``
# node:

leaves = {x: "x", w: "w"}


def show(node, depth=0):
    name = node.name().rpartition(":")[2]
    leaf = leaves.get(getattr(node, "variable", None), "")
    print(f"{'  ' * depth}{name} {leaf}".rstrip())
    for below, _ in node.next_functions:
        if below is None:
            print("  " * (depth + 1) + "None")
        else:
            show(below, depth + 1)


show(y.grad_fn)

# %%
# The second entry of a pair may be nonzero if one operation made several tensors. Here both
# rows that ``unbind`` returns share a node, and the node of their product passes its
# results to the outputs 0 and 1 of the shared node:

a, b = torch.stack([x, 2 * x]).unbind(0)
print(a.grad_fn is b.grad_fn, a.output_nr, b.output_nr)
print([(node.name(), place) for node, place in (a * b).grad_fn.next_functions])

# %%
# What a layer looks like
# -----------------------
#
# A layer often consists of several nodes. ``Linear`` calls ``addmm``, which multiplies the
# input by the transpose of the weight (the node ``T``) and adds the bias. If the input is a
# single sample, ``view`` first turns it into a matrix, and the last operation turns the
# result back into a vector. The name of that last node differs between releases, so we show
# the nodes below it:

layer = torch.nn.Linear(2, 1)
leaves |= {layer.weight: "weight", layer.bias: "bias"}
show(layer(x).grad_fn.next_functions[0][0])

# %%
# :func:`pullback.trace` walks through the graph for you, and shows the ``v`` that arrives
# at each edge:

import pullback

seen = pullback.trace(y, torch.ones(2), names={"x": x, "w": w, "y": y})
ax = pullback.plot.trace(seen)
title = ax.set_title("y = exp(c x + w), and v = (1, 1) on its way back")

# %%
# What a node saves
# -----------------
#
# A node keeps the tensors that its rule needs. ``exp`` keeps its result, and a product
# keeps each factor whose *partner* requires a gradient. You find these tensors in the
# node's attributes ``_saved_…``, until ``backward`` frees them:

product = y.grad_fn.next_functions[0][0].next_functions[0][0]
print(y.grad_fn._saved_result.equal(y), product._saved_self.equal(c), product._saved_other)
y.backward(torch.ones(2))
try:
    y.grad_fn._saved_result
except RuntimeError as error:
    print(str(error).split(" (or")[0])

# %%
# An edit in place
# ----------------
#
# *The name has changed.* ``grad_fn`` names the last operation on the tensor, and an edit in
# place is an operation, too. If you write into part of a tensor, the name becomes
# ``CopySlices``. This node passes on ``v`` for the entries that were not written:

z = 2 * x
names = [z.grad_fn.name()]
z.add_(1)
names.append(z.grad_fn.name())
z[0] = 5.0
print(*names, z.grad_fn.name().rpartition(":")[2])

# %%
# What goes wrong
# ---------------
#
# *I look for the gradient in the graph.* A node holds no gradient: once a
# :term:`cotangent` has passed through a node, the cotangent is gone. Ask for it
# beforehand, with a hook or ``retain_grad`` (:ref:`hooks`), or with ``autograd.grad``.
# The first line of the output lists those of the attributes ``grad`` and ``variable``
# that the node has, and the list is empty:

middle = x**2
print([name for name in ("grad", "variable") if hasattr(middle.grad_fn, name)])
print(torch.autograd.grad((3 * middle).sum(), middle)[0])

# %%
# *My program identifies an operation by the name of its node.* PyTorch makes no promise
# about these names. The name may change with a fused kernel, a different input shape or a
# different release. Here ``reshape`` returns a view of the first tensor and a copy of the
# second, and yet ``"View" in name`` is true for both:

for base in (torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True).T):
    flat = base.reshape(6)
    print(flat.grad_fn.name(), "same memory:", flat.data_ptr() == base.data_ptr())

# %%
# As a check, we call the nodes by hand, from the top of the tree above to its leaves. No
# two paths meet, so we call each node once. One thing is done not by the nodes but by the
# engine between them: because ``w`` was broadcast, the rule of the sum passes on two
# entries, and the engine adds them up on arrival:

found = {}


def run(node, arrived):
    if hasattr(node, "variable"):
        found[leaves[node.variable]] = arrived.sum_to_size(node.variable.shape)
        return
    results = node(arrived)
    results = results if isinstance(results, tuple) else (results,)
    for (below, _), result in zip(node.next_functions, results, strict=True):
        if below is not None:
            run(below, result)


# %%
# Both leaves get the gradient that ``backward`` gave them:

run(torch.exp(c * x + w).grad_fn, torch.ones(2))
torch.testing.assert_close(found["x"], x.grad)
torch.testing.assert_close(found["w"], w.grad)

# %%
# Where next
# ----------
#
# :ref:`leaves-and-roots` is about leaves, roots and the tensors between them.
# :ref:`second-backward` is about a graph that was used up, and in :ref:`build-the-engine`
# you write your own engine.
#
# .. asked: what is the computation graph; what is grad_fn; AddBackward0; MulBackward0
#    meaning; read the autograd graph; next_functions; print the computation graph;
#    names of backward nodes; draw the graph
# .. words: graph, node, name with 0, visualise, torchviz, tree, inspect, trace,
#    MmBackward0, AccumulateGrad, what was recorded
