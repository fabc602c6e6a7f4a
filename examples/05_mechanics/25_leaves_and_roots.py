r"""
.. _leaves-and-roots:

Which tensors get a .grad? Leaves, roots, retain_grad
=====================================================

A leaf is a tensor that no recorded operation made; a root is what you call ``backward`` on.
``backward`` fills ``.grad`` of the leaves that require a gradient, and of tensors in the
middle only if you ask: ``h.retain_grad()`` before, or ``inputs=[h]`` in the call.
"""

# %%
# The chain rule from the root to the leaf passes every tensor in between, and
# ``h.grad`` is the :term:`upstream gradient` that arrives there:
#
# .. math::
#
#    \underbrace{\frac{\partial y}{\partial x}}_{\texttt{x.grad}}
#    =\underbrace{\frac{\partial y}{\partial h}}_{\texttt{h.grad}}
#    \frac{\partial h}{\partial x}
#
# Here :math:`h=3x`, :math:`y=c\,h^2` at :math:`x=2`, with a constant ``c`` of 5. What each
# tensor says of itself:

import torch

x = torch.tensor(2.0, requires_grad=True)
c = torch.tensor(5.0)
h = 3 * x
y = c * h**2
tensors = {"x": x, "c": c, "h": h, "y": y, "2 * c": 2 * c, "h.detach()": h.detach()}
for name, t in tensors.items():
    maker = t.grad_fn.name() if t.grad_fn else None
    print(f"{name:10} is_leaf={t.is_leaf!s:5} requires_grad={t.requires_grad!s:5} {maker}")

# %%
# *Why is a computed tensor a leaf?* ``2 * c`` was computed, but from a constant, so nothing
# was recorded. By convention all that does not require a gradient is a :term:`leaf`. So
# ``is_leaf`` alone does not mean that ``.grad`` will be filled; both flags do (bar a view
# that was taken under ``no_grad``: :ref:`answers-view-under-no-grad`):

y.backward()
{name: t.grad for name, t in tensors.items() if t.is_leaf}

# %%
# Walk from the root: each node knows the nodes that its :term:`cotangents <cotangent>` go
# to, and the last one, ``AccumulateGrad``, is where the leaf is kept:

node = y.grad_fn
while node is not None:
    print(node.name())
    last, below = node, [child for child, _ in node.next_functions if child]
    node = below[0] if below else None
last.variable is x

# %%
# The middle: retain_grad and inputs
# ----------------------------------
#
# ``retain_grad()`` must come before ``backward``. Then :math:`\partial y/\partial h=2ch=60`
# stays in ``h.grad``, as long as h does, and :math:`3\cdot60=180` is in ``x.grad``:

x.grad = None
h = 3 * x
h.retain_grad()
(c * h**2).backward()
print(h.grad, x.grad, h.retains_grad, h.is_leaf)

# %%
# ``inputs=`` names what is to be filled, leaves or not, and the rest is left alone.
# :func:`torch.autograd.grad` takes tensors in the middle, too, and returns the result:

x.grad = None
h = 3 * x
(c * h**2).backward(inputs=[h])
print(h.grad, x.grad)
torch.autograd.grad(c * h**2, h)[0]

# %%
# *Only fill .grad of some parameters, or of one module:*

trunk, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
y = head(trunk(torch.ones(2)))
y.backward(inputs=list(head.parameters()), retain_graph=True)
{"trunk": trunk.weight.grad, "head filled": head.weight.grad is not None}

# %%
# The list may not be empty, a trap with ``model.parameters()``: it is a generator, empty
# after the first pass. Write ``list(model.parameters())`` once and keep it:

parameters = head.parameters()
print([tuple(p.shape) for p in parameters])
try:
    y.backward(inputs=list(parameters))
except RuntimeError as error:
    print(error)

# %%
# What goes wrong
# ---------------
#
# *Why requires_grad_() after dividing by sqrt(n)?* Because the division makes a new tensor.
# If it is recorded, the new one is no leaf, and the optimizer will not have it. Scale
# first, ask last:

early = torch.randn(4, requires_grad=True) / 2
late = (torch.randn(4) / 2).requires_grad_()
print(early.is_leaf, late.is_leaf)
try:
    torch.optim.SGD([early], lr=0.1)
except ValueError as error:
    print(error)

# %%
# The flag of a tensor in the middle follows from what made it and cannot be switched off;
# ``detach`` makes a new tensor without. ``retain_grad`` needs a gradient to retain, and on
# a leaf it does nothing, as its ``.grad`` is kept anyway:

x.retain_grad()
print(x.retains_grad)
for wrong in (lambda: h.requires_grad_(False), lambda: c.retain_grad()):
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).split(". If")[0])

# %%
# *retain_grad, and then an edit in place.* What is kept belongs to the tensor as it is
# *after* the edit. With ``h`` doubled, :math:`y=c\,(2\cdot3x)^2`, that is
# :math:`2c\cdot12=120`, not the 240 for ``h`` as it was:

h = 3 * x
h.retain_grad()
h.mul_(2)
(c * h**2).backward()
h.grad

# %%
# More roots than one
# -------------------
#
# A root may be any tensor with a graph, also one in the middle, and there may be several,
# each with its own ``v`` (:ref:`several-outputs`). With roots ``h`` and ``y`` and weights
# 10 and 1, ``x`` gets :math:`10\cdot3+180`:

x.grad = None
h = 3 * x
y = c * h**2
torch.autograd.backward([h, y], [torch.tensor(10.0), torch.tensor(1.0)])
x.grad

# %%
# The picture, with the number that arrives on each edge. A leaf has nothing to its left:

import pullback.plot

edges = [("x", "h", "3 (10 + 60)"), ("h", "h²", "60"), ("h²", "y", "5"), ("c", "y", "—")]
ax = pullback.plot.graph(edges, title="Leaves x and c, roots h and y: what comes back")

# %%
# The check: the middle times the rest is the whole, each by its own forward derivative:

at = torch.tensor(2.0)
(dh,) = torch.func.jvp(lambda x: 3 * x, (at,), (torch.ones(()),))[1:]
(dy,) = torch.func.jvp(lambda h: 5 * h**2, (3 * at,), (torch.ones(()),))[1:]
assert x.grad == dh * (10 + dy)
assert torch.autograd.grad(c * h**2, h, retain_graph=True)[0] == dy == 60

# %%
# Where next
# ----------
#
# When the gradient is missing: :ref:`grad-is-none`. Watching it pass: :ref:`hooks`. What an
# edit in place breaks: :ref:`in-place`.
#
# .. asked: what is a leaf; leaf tensor; is_leaf; retain_grad; gradient of an
#    intermediate tensor; non-leaf; which tensors keep a gradient; root of the graph;
#    hidden activation gradient; why leaf matters; gradient of a hidden tensor
