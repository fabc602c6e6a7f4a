r"""
.. _retain-or-create:

retain_graph and create_graph: which one?
=========================================

Your program asks for one of these flags, or you have seen both and wonder which one you
need. They look alike but do different things. ``retain_graph=True`` keeps the graph that
you have, so that you can call backward through it again. ``create_graph=True`` records a
*new* graph, the graph of the gradient itself, so that you can differentiate the gradient.
If you pass only ``create_graph=True``, the old graph is kept as well. Most training loops
need neither flag.
"""

# %%
# =========================================  =====================================
# you want                                   pass
# =========================================  =====================================
# one gradient                               nothing
# several products with the same J           ``retain_graph=True`` in all but the last
# a derivative of the gradient               ``create_graph=True`` on the first call
# ``.grad`` of a tensor in the middle        neither: ``h.retain_grad()``
# =========================================  =====================================
#
# We try the flags on :math:`y=x^3` at 2, where :math:`y'=3x^2=12`, :math:`y''=6x=12` and
# :math:`y'''=6`. After each call we check whether the gradient has a graph and whether the
# graph of ``y`` is still there. If the graph is still there, a second call returns the
# gradient again:

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
# You want several products with the same :term:`Jacobian`, for example its rows. Each call
# but the last needs a :term:`retained graph`. The rows themselves are plain tensors without
# a graph:


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
# Differentiating a gradient is called :term:`double backward`. Pass ``create_graph=True``
# for each derivative that you want to differentiate again. The call for the last derivative
# does not need it:

x = torch.tensor(2.0, requires_grad=True)
(d1,) = torch.autograd.grad(x**3, x, create_graph=True)
(d2,) = torch.autograd.grad(d1, x, create_graph=True)
(d3,) = torch.autograd.grad(d2, x)
print(d1.item(), d2.item(), d3.item())

# %%
# What goes wrong
# ---------------
#
# *I passed retain_graph=True and still cannot differentiate the gradient.* The flag keeps
# the graph of ``y``, but the gradient ``g`` itself has no graph. If you use such a
# gradient for the inner step of MAML, a method of meta-learning, you get the first-order
# variant of MAML (:ref:`hypergradients`):

(g,) = torch.autograd.grad(x**3, x, retain_graph=True)
try:
    g.backward()
except RuntimeError as error:
    print(error)

# %%
# *Can I create without retaining, to save memory?* Sometimes you can. If you do not pass
# ``retain_graph``, it takes the value of ``create_graph``. If you pass
# ``retain_graph=False``, the graph of ``y`` is freed. But the new graph may lead back
# through the old one. The derivative of :math:`e^x` is computed from the result that the
# graph of ``y`` had saved, and so it cannot be differentiated once this graph is freed.
# The derivative of :math:`x^3` needs only ``x``, and can still be differentiated:

for curve in (torch.exp, lambda x: x**3):
    (g,) = torch.autograd.grad(curve(x), x, create_graph=True, retain_graph=False)
    try:
        print(torch.autograd.grad(g, x)[0].item())
    except RuntimeError as error:
        print(str(error)[:51])

# %%
# What the flags keep
# -------------------
#
# What do the flags cost in memory? We count the tensors that a chain of ten sines saves,
# first in the forward pass and then during the call that computes the gradient:

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
# ``retain_graph`` saves nothing new during the call. It only keeps the tensors that the
# forward pass saved. ``create_graph`` saves the tensors that the next derivative will need.
#
# There are two ways in which these flags can fill your memory. The first is
# ``retain_graph=True`` in a loop whose state carries the graph of all earlier steps
# (:ref:`second-backward`). We count the nodes on the longest path back, with the state
# carried along and with the state detached:


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
# The second way is ``backward(create_graph=True)``, which warns of a reference cycle. Take
# the warning seriously. The gradient in ``x.grad`` has a graph that leads back to ``x``,
# and Python's garbage collector does not see this cycle. We check whether a parameter
# outlives the function in which it was created:

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
# If the gradient is left in ``.grad``, the parameter outlives the function. If ``.grad`` is
# set to None, as ``zero_grad()`` does, the parameter is freed:

[alive(empty) for empty in (False, True)]

# %%
# :func:`torch.autograd.grad` does not store the gradient in ``.grad``, so it leaves no
# cycle behind. Prefer it to ``backward`` when you need ``create_graph``. But each
# gradient that ``autograd.grad`` returns keeps its graph alive for as long as you hold
# the gradient. So let the gradients of one step go before the next step, and detach what
# you log.
#
# As a check, we compare the three derivatives with their formulas, and the two rows with
# :term:`forward mode`:

assert (d1.item(), d2.item(), d3.item()) == (3 * 2**2, 6 * 2, 6)
J = torch.func.jacfwd(f)(torch.tensor([1.0, 2.0]))
assert torch.equal(torch.stack([first, second]), J)
assert saved(retain_graph=True)[1] == 0 < saved(create_graph=True)[1]

# %%
# Where next
# ----------
#
# :ref:`second-derivatives` takes second derivatives at many points, and
# :ref:`second-backward` is about the message that names ``retain_graph``.
# :ref:`leaves-and-roots` is about ``retain_grad``, which has a similar name but fills the
# ``.grad`` of a tensor in the middle.
#
# .. asked: retain_graph or create_graph; when do I need retain_graph=True; when do I
#    need create_graph=True; difference of retain_graph and create_graph; keep the
#    graph; what does create_graph do; what does retain_graph do
# .. words: double, two losses, keep, memory, second order, difference, flag, needed, slow,
#    penalty
