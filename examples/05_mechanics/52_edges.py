r"""
.. _gradient-edges:

One hook for several cotangents? A place in the graph without a tensor?
=======================================================================

You want one hook for the :term:`cotangents <cotangent>` of several tensors, or you want to
refer to a place in the graph whose tensor is gone. A hook that you register with
``register_multi_grad_hook`` is called once, when the cotangents of all its tensors have
arrived, or, with ``mode="any"``, when the first cotangent has arrived. A ``GradientEdge``
is the place where a tensor's cotangent arrives. The edge outlives the tensor, and can take
the tensor's place as a root or as an input.
"""

# %%
# We take :math:`y=a\,b` at :math:`a=1`, :math:`b=2`. The third leaf, ``c``, takes no part
# in it. The hook gets the cotangents in the order of its tensors, with None for a tensor
# that ``backward`` does not reach. The second ``backward`` is for :math:`a\,b\,c`, and
# reaches ``c``, too:

import torch
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook

a, b, c = (torch.tensor(t, requires_grad=True) for t in (1.0, 2.0, 3.0))
handle = register_multi_grad_hook((a, b, c), lambda g: print("all of", g))
(a * b).backward()
(a * b * c).backward()

# %%
# *I want to run something once for each backward.* With ``mode="any"`` the hook is called
# with only the first cotangent. A backward pass that reaches none of the tensors, such as
# the one from ``c**2`` here, does not call the hook:

handle.remove()
handle = register_multi_grad_hook((a, b), lambda g: print("first", g), mode="any")
(b * c).backward()
(c**2).backward()
handle.remove()

# %%
# What goes wrong
# ---------------
#
# A hook on several tensors can only look. What it returns is dropped, whereas what the hook
# of a single tensor returns is passed on. And ``.grad`` is of no use inside the hook. Each
# leaf adds its gradient to its ``.grad`` as soon as that gradient has arrived, and so one
# ``.grad`` may be filled while another is not. Use the hook's argument instead:

a.grad = b.grad = None


def look(cotangents):
    filled = [t.grad is not None for t in (a, b)]
    print("both filled:", all(filled), cotangents)
    return [0 * g for g in cotangents]


handle = register_multi_grad_hook((a, b), look)
(a * b).backward()
print(a.grad, b.grad)

# %%
# *Then where do I step, once every .grad is filled?* Call ``optimizer.step()`` in the hook
# that runs after a leaf has added its gradient to ``.grad``. Register this hook on each
# leaf, and keep a set of the leaves whose gradient is still missing:

handle.remove()
a.grad = b.grad = None
missing = {a, b}


def filled(leaf):
    missing.discard(leaf)
    print("not yet" if missing else f"step with {a.grad} and {b.grad}")


handles = [t.register_post_accumulate_grad_hook(filled) for t in (a, b)]
(a * b).backward()
for handle in handles:
    handle.remove()

# %%
# A leaf that has its own optimizer need not wait. Its hook calls ``step()`` and then
# frees ``.grad``. :ref:`step-inside` explains what this rules out:

own, c.grad = torch.optim.SGD([c], lr=0.1), None
c.register_post_accumulate_grad_hook(lambda leaf: own.step() or own.zero_grad())
(5 * c).backward()
print(c, c.grad)

# %%
# A hook that waits for all of several leaves cannot be used with
# :func:`torch.autograd.grad`, because this function does not run the nodes that add to
# the ``.grad`` of the leaves. A hook that waits only for the first leaf can be used, and
# so can hooks on tensors in the middle, such as ``p`` and ``q``:

for mode in ("all", "any"):
    handle = register_multi_grad_hook((a, b), lambda g: print("first", g), mode=mode)
    try:
        torch.autograd.grad(a * b, (a, b))
    except RuntimeError as error:
        print(str(error).partition(". ")[0])
    handle.remove()
p, q = 2 * a, 3 * b
register_multi_grad_hook((p, q), lambda g: print("in the middle", g))
torch.autograd.grad(p * q, (a, b))

# %%
# The place without the tensor
# ----------------------------
#
# An edge consists of a node and the number of one of its outputs. For a leaf, the node is
# the one that adds to the leaf's ``.grad``. For row 1 of an ``unbind``, the number is 1:

x = torch.tensor([1.0, 2.0], requires_grad=True)
h = 3 * x
for t in (x, h, h.unbind()[1]):
    edge = get_gradient_edge(t)
    print(edge.node.name(), edge.output_nr)

# %%
# ``autograd.grad`` takes an edge as an input or as an output. So you can cut a backward
# pass in two at ``h`` even when ``h`` itself is gone. No later operation has saved ``h``,
# so its memory has been freed, as the ``True`` confirms:

from torch.multiprocessing.reductions import StorageWeakRef

v = torch.tensor([1.0, 10.0])
edge, memory, y = get_gradient_edge(h), StorageWeakRef(h.untyped_storage()), 4 * h
del h, t
(at_h,) = torch.autograd.grad(y, edge, v)
(at_x,) = torch.autograd.grad(edge, x, at_h)
print(memory.expired(), at_h, at_x)

# %%
# ``torch.autograd.backward`` takes an edge as a root, too, alongside tensors. Here the
# roots are ``h``, with ``v``, and the sum of :math:`h^2`. Together they give
# :math:`3v+18x`. A root that is a single number needs no ``v``:

h = 3 * x
torch.autograd.backward([get_gradient_edge(h), (h**2).sum()], [v, None])
print(x.grad)

# %%
# *Which gradient do I get after an edit in place?* After the edit the tensor itself stands
# for its new value. An edge that was taken before the edit stands for the old value. Here
# ``h`` is doubled, and :math:`y=4h`:

h = 3 * x
before = get_gradient_edge(h)
h.mul_(2)
old, new = torch.autograd.grad(4 * h, (before, h), v)
print(old, new)

# %%
# The edge remembers the shape of its tensor, and PyTorch refuses a ``v`` of a different
# shape. It also refuses to make an edge for a tensor that does not require a gradient:

for attempt in (
    lambda: torch.autograd.grad(edge, x, torch.ones(5)),
    lambda: get_gradient_edge(v),
):
    try:
        attempt()
    except RuntimeError as error:
        print(error)

# %%
# As a check, we compare the results with derivatives from :term:`forward mode`. The two
# halves form a chain, whose factor is :math:`4\cdot3`. The gradient with respect to the old
# ``h`` is twice the gradient with respect to the new ``h``. And the gradients of the two
# roots add up:

ones = torch.ones(2)
_, through = torch.func.jvp(lambda x: 4 * (3 * x), (x.detach(),), (ones,))
assert torch.equal(at_x, through * v)
_, doubled = torch.func.jvp(lambda h: 2 * h, (ones,), (ones,))
assert torch.equal(old, doubled * new)
_, squared = torch.func.jvp(lambda x: (3 * x) ** 2, (x.detach(),), (ones,))
assert torch.equal(x.grad, 3 * v + squared)

# %%
# Where next
# ----------
#
# :ref:`hooks` is about a hook on a single tensor or node. :ref:`cut-graphs` shows how to
# cut a graph in two for good, and :ref:`in-place` explains what a tensor stands for after
# an edit.
#
# .. asked: GradientEdge; multi-grad hook; hook for several tensors; gradient at a place
#    without a tensor; saved activations and edges
# .. words: several tensors, node, checkpoint, saved, place, multi, without keeping the
#    tensor
