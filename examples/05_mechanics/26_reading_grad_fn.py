r"""
.. _reading-grad-fn:

What does a grad_fn such as AddBackward0 say? Reading the graph
===============================================================

Which operation made the tensor, by the name of its rule for ``v``. The number tells rules
of one operation apart, which differ by what its arguments are; it counts nothing. A node
knows where its results go, in ``next_functions``, and what it saved, and holds no gradient.
"""

# %%
# ``x`` and ``c`` have shape ``(2,)``, :math:`y=e^{cx+w}` too. What was made, and what
# was not:

import torch

x = torch.tensor([0.1, 0.2], requires_grad=True)
w = torch.tensor(0.5, requires_grad=True)
c = torch.tensor([3.0, 4.0])
y = torch.exp(c * x + w)
print(y.grad_fn.name(), x.grad_fn, c.grad_fn)

# %%
# Names with other numbers are the same operation with other arguments:

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
# *x.grad_fn is None, have I lost the graph?* No: ``x`` is a :term:`leaf`, which nothing
# made. Lost is the graph of a tensor with ``requires_grad=False`` (:ref:`grad-is-none`).
#
# next_functions
# --------------
#
# Pairs: the node that gets the result for an argument, and *which output* of that node it
# belongs to. None stands for an argument that gets nothing, here the constant ``c``. It is
# the order of the arguments, and the leaves are at the end, in ``AccumulateGrad``:

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
# The second of the pair is not 0 where one node made several tensors. Both rows of
# ``unbind`` have one node, and their product gets its results at places 0 and 1:

a, b = torch.stack([x, 2 * x]).unbind(0)
print(a.grad_fn is b.grad_fn, a.output_nr, b.output_nr)
print([(node.name(), place) for node, place in (a * b).grad_fn.next_functions])

# %%
# What a layer looks like
# -----------------------
#
# A layer is more nodes than one. ``Linear`` is ``addmm``, a product plus a bias, with the
# transpose of the weight (``T``). A single sample is made a matrix by ``view``; the last
# node makes the result a vector again, and its name differs between releases. Below it:

layer = torch.nn.Linear(2, 1)
leaves |= {layer.weight: "weight", layer.bias: "bias"}
show(layer(x).grad_fn.next_functions[0][0])

# %%
# :func:`pullback.trace` walks for you, with the ``v`` that arrives at each edge:

import pullback

ax = pullback.trace(y, torch.ones(2), names={"x": x, "w": w, "y": y}).plot()
title = ax.set_title("y = exp(c x + w), and v = (1, 1) on its way back")

# %%
# What is saved
# -------------
#
# A rule keeps what it needs: ``exp`` its result, a product the factor for which the *other*
# one wants a gradient. They are in ``_saved_…``, for looking, until ``backward`` frees
# them:

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
# *The name has changed.* It is that of the last operation; a write into a part makes it
# ``CopySlices``, which keeps the rest:

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
# *I look for the gradient in the graph.* A node has none: what passes is gone afterwards,
# and ``.grad`` is at the leaves. Only a hook, or ``retain_grad``, sees it (:ref:`hooks`):

node = (x**2).grad_fn
print([name for name in ("grad", "variable") if hasattr(node, name)])

# %%
# *I test the operation by its name.* The names belong to no promise: a fused kernel,
# another shape of the input or another release gives another. ``reshape`` is a view here
# and a copy there; a test like ``"View" in name`` breaks at the second:

for base in (torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True).T):
    print(base.reshape(6).grad_fn.name())

# %%
# The check: the nodes, run by hand from ``y``, in the order of the tree above, give what
# ``backward`` gave; each is called once here, as no two paths meet. One thing the engine
# does between the nodes: ``w`` was broadcast, the rule of the sum hands on both entries,
# and they are added up on arrival:

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
# The two leaves, by hand and by ``backward``:

run(torch.exp(c * x + w).grad_fn, torch.ones(2))
torch.testing.assert_close(found["x"], x.grad)
torch.testing.assert_close(found["w"], w.grad)

# %%
# Where next
# ----------
#
# Leaves and what is between: :ref:`leaves-and-roots`. A graph that was used up:
# :ref:`second-backward`. An engine of your own: :ref:`build-the-engine`.
