r"""
.. _retain-or-create:

retain_graph and create_graph: which one?
=========================================

``retain_graph=True`` keeps the graph you have, so that you can go backward through it
again. ``create_graph=True`` records a *new* graph, that of the gradient itself, so that you
can differentiate the gradient. Creating implies retaining; most training needs neither.
"""

# %%
# =========================================  =====================================
# you want                                   pass
# =========================================  =====================================
# one gradient                               nothing
# several products with the same J           ``retain_graph=True``, not on the last
# a derivative of the gradient               ``create_graph=True`` on the first call
# ``.grad`` of a tensor in the middle        neither: ``h.retain_grad()``
# =========================================  =====================================
#
# Take :math:`y=x^3` at 2: :math:`y'=3x^2=12`, :math:`y''=6x=12`, :math:`y'''=6`. What each
# flag leaves you with: does the gradient have a graph, and is that of ``y`` still there?

import torch

for flags in [{}, {"retain_graph": True}, {"create_graph": True}]:
    x = torch.tensor(2.0, requires_grad=True)
    y = x**3
    (g,) = torch.autograd.grad(y, x, **flags)
    try:
        again = torch.autograd.grad(y, x)[0].item()
    except RuntimeError:
        again = "freed"
    print(flags, "| g has a graph:", g.requires_grad, "| y again:", again)

# %%
# retain_graph: the same J again
# ------------------------------
#
# Row by row, with a :term:`retained graph` on all calls but the last. The rows are plain:


def f(x):
    return torch.stack([x.prod(), (x**2).sum()])


x = torch.tensor([1.0, 2.0], requires_grad=True)
y = f(x)
(first,) = torch.autograd.grad(y, x, torch.tensor([1.0, 0.0]), retain_graph=True)
(second,) = torch.autograd.grad(y, x, torch.tensor([0.0, 1.0]))
print(first, second, first.requires_grad)

# %%
# create_graph: a derivative of the gradient
# ------------------------------------------
#
# That is :term:`double backward`. Ask with ``create_graph=True`` for each derivative that
# you will differentiate again, and without it for the last:

x = torch.tensor(2.0, requires_grad=True)
(d1,) = torch.autograd.grad(x**3, x, create_graph=True)
(d2,) = torch.autograd.grad(d1, x, create_graph=True)
(d3,) = torch.autograd.grad(d2, x)
print(d1.item(), d2.item(), d3.item())

# %%
# What goes wrong
# ---------------
#
# *I passed retain_graph=True and still cannot differentiate the gradient.* It keeps the
# graph of ``y``; ``g`` has none (a step by it is first-order MAML, :ref:`hypergradients`):

(g,) = torch.autograd.grad(x**3, x, retain_graph=True)
try:
    g.backward()
except RuntimeError as error:
    print(error)

# %%
# *Can I create without retaining, to save memory?* ``retain_graph`` defaults to the value
# of ``create_graph``. An explicit False frees the graph of ``y``, and the new one may lead
# back through it: the derivative of :math:`e^x` is made of the result that ``y`` saved.
# That of :math:`x^3` needs ``x`` alone, and goes on working:

for curve in (torch.exp, lambda x: x**3):
    (g,) = torch.autograd.grad(curve(x), x, create_graph=True, retain_graph=False)
    try:
        print(torch.autograd.grad(g, x)[0].item())
    except RuntimeError as error:
        print(str(error)[:51])

# %%
# What it keeps
# -------------
#
# Count what graphs save for a chain of ten sines, in the forward pass and in the gradient.
# ``retain_graph`` saves no more; ``create_graph`` saves what the next derivative needs:

from torch.autograd.graph import saved_tensors_hooks


def saved(**flags):
    packed, x = [], torch.tensor(1.0, requires_grad=True)
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = x
        for _ in range(10):
            y = y.sin()
        forward = len(packed)
        torch.autograd.grad(y, x, **flags)
    return forward, len(packed) - forward


{name: saved(**{name: True}) for name in ("retain_graph", "create_graph")}

# %%
# So memory grows in two ways. One is ``retain_graph=True`` in a loop: the state carries the
# graph of all steps before (:ref:`second-backward`). The nodes on the way back:


def depth(node):
    return 1 + max([depth(child) for child, _ in node.next_functions if child], default=0)


w = torch.tensor(0.5, requires_grad=True)
carried = detached = torch.tensor(1.0)
for _ in range(4):
    carried = torch.tanh(w * carried)
    carried.backward(retain_graph=True)
    detached = torch.tanh(w * detached.detach())
    detached.backward()
    print(depth(carried.grad_fn), depth(detached.grad_fn))

# %%
# The other is ``backward(create_graph=True)``: the gradient it stores in ``x.grad`` has a
# graph that leads back to ``x``. *Is the reference-cycle warning serious?* Yes: Python's
# collector does not see through the cycle. Does the parameter outlive its function?

import gc
import warnings
import weakref


def alive(empty):
    p = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings(action="ignore"):
        (p**2).sum().backward(create_graph=True)
    p.grad = None if empty else p.grad
    remains = weakref.ref(p)
    del p
    gc.collect()
    return remains() is not None


# %%
# Left in place it does, and set to None, as ``zero_grad()`` does, it does not:

[alive(empty) for empty in (False, True)]

# %%
# :func:`torch.autograd.grad` stores nothing and leaves no cycle: prefer it here.
#
# The check: three derivatives by formula, and two rows by :term:`forward mode`:

assert (d1.item(), d2.item(), d3.item()) == (3 * 2**2, 6 * 2, 6)
J = torch.func.jacfwd(f)(torch.tensor([1.0, 2.0]))
assert torch.equal(torch.stack([first, second]), J)
assert saved(retain_graph=True)[1] == 0 < saved(create_graph=True)[1]

# %%
# Where next
# ----------
#
# Second derivatives for a batch: :ref:`second-derivatives`. The message about a second
# time: :ref:`second-backward`. ``retain_grad``: :ref:`leaves-and-roots`.
#
# .. asked: retain_graph or create_graph; when do I need retain_graph=True; when do I
#    need create_graph=True; difference of retain_graph and create_graph; keep the
#    graph; what does create_graph do; what does retain_graph do
