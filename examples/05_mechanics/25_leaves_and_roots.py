r"""
.. _leaves-and-roots:

Which tensors get a .grad? Leaves, roots, retain_grad
=====================================================

You printed ``h.grad`` for a tensor ``h`` in the middle of your network, and got None and a
warning about leaves. A *leaf* is a tensor that no recorded operation made, and a *root* is
a tensor that you call ``backward`` on. ``backward`` fills the ``.grad`` of the leaves that
require a gradient. The ``.grad`` of a tensor in between is filled only if you ask for it,
with ``h.retain_grad()`` before the call to ``backward`` or with ``inputs=[h]`` as its
argument.
"""

# %%
# Let ``h`` be a tensor between the leaf ``x`` and the root ``y``. The chain rule passes
# through ``h``, and ``h.grad`` is the :term:`upstream gradient`, the factor that has been
# computed when the backward pass arrives at ``h``:
#
# .. math::
#
#    \underbrace{\frac{\partial y}{\partial x}}_{\texttt{x.grad}}
#    =\underbrace{\frac{\partial y}{\partial h}}_{\texttt{h.grad}}
#    \frac{\partial h}{\partial x}
#
# Our example is :math:`h=3x` and :math:`y=c\,h^2` at :math:`x=2`, with a constant ``c`` of
# 5. Two flags and ``grad_fn`` show the role of each tensor:

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
# *How can a computed tensor be a leaf?* ``2 * c`` was computed, but from a constant, so the
# operation was not recorded. By convention every tensor that does not require a gradient is
# a :term:`leaf`. So ``is_leaf`` alone does not mean that ``.grad`` will be filled.
# ``.grad`` is filled if both flags are True, as they are for ``x``, and ``backward``
# reaches the tensor. A view, taken under ``no_grad``, of a tensor that requires a gradient
# is an exception to this rule: both of its flags are True, but its ``.grad`` stays None
# (:ref:`answers-view-under-no-grad`). Here is the ``.grad`` of each leaf after
# ``backward``:

y.backward()
{name: t.grad for name, t in tensors.items() if t.is_leaf}

# %%
# You can follow the graph from the root back to the leaf yourself. Each node of the graph
# knows the nodes to which it sends its :term:`cotangents <cotangent>`. The last node is
# called ``AccumulateGrad``. It holds the leaf, and adds each arriving cotangent to the
# ``.grad`` of this leaf:

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
# Call ``retain_grad()`` before ``backward``. Then :math:`\partial y/\partial h=2ch=60`
# stays in ``h.grad`` for as long as ``h`` itself exists, and :math:`3\cdot60=180` goes to
# ``x.grad`` as before:

x.grad = None
h = 3 * x
h.retain_grad()
(c * h**2).backward()
print(h.grad, x.grad, h.retains_grad, h.is_leaf)

# %%
# With ``inputs=`` you name the tensors whose ``.grad`` you want to fill, whether they are
# leaves or not, and all other tensors are left alone. :func:`torch.autograd.grad` takes
# tensors in the middle, too. It returns the gradient and does not fill any ``.grad``:

x.grad = None
h = 3 * x
(c * h**2).backward(inputs=[h])
print(h.grad, x.grad)
torch.autograd.grad(c * h**2, h)[0]

# %%
# In the same way you can fill the ``.grad`` of only *some* parameters, for example those of
# one module:

trunk, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
y = head(trunk(torch.ones(2)))
y.backward(inputs=list(head.parameters()), retain_graph=True)
{"trunk": trunk.weight.grad, "head filled": head.weight.grad is not None}

# %%
# The list of inputs must not be empty. If you pass ``model.parameters()``, it can be empty
# without your noticing. ``parameters()`` returns a generator, and after one loop over it
# the generator is used up. Write ``list(model.parameters())`` once, and keep the list:

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
# *Why do people call requires_grad_() after dividing by sqrt(n)?* The division makes a new
# tensor. If the division is recorded, the new tensor is not a leaf, and an optimizer
# refuses it. So scale the tensor first, and call ``requires_grad_()`` last:

early = torch.randn(4, requires_grad=True) / 2
late = (torch.randn(4) / 2).requires_grad_()
print(early.is_leaf, late.is_leaf)
try:
    torch.optim.SGD([early], lr=0.1)
except ValueError as error:
    print(error)

# %%
# The ``requires_grad`` of a tensor in the middle follows from the tensors that it was
# computed from, and so PyTorch refuses ``requires_grad_(False)`` on it. If you want the
# same numbers without a gradient, use ``detach``, which makes a new tensor. PyTorch refuses
# ``retain_grad`` on a tensor that does not require a gradient. On a leaf that requires one,
# ``retain_grad`` does nothing, because the ``.grad`` of a leaf is kept anyway. Until
# November 2025 a PyTorch tutorial said by mistake that ``retain_grad`` does nothing on a
# tensor in the middle (:ref:`answers-retain-grad`):

x.retain_grad()
print(x.retains_grad)
for wrong in (lambda: h.requires_grad_(False), lambda: c.retain_grad()):
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).split(". If")[0])

# %%
# If you edit ``h`` in place after ``retain_grad``, the gradient in ``h.grad`` belongs to
# the tensor as it is *after* the edit. Here ``h`` is doubled, from 6 to 12. The gradient
# with respect to the new value is :math:`2c\cdot12=120`. With respect to the old value it
# would be 240:

h = 3 * x
h.retain_grad()
h.mul_(2)
(c * h**2).backward()
h.grad

# %%
# More roots than one
# -------------------
#
# Any tensor that has a graph may be a root, even one in the middle. There may also be
# several roots, each with its own ``v`` (:ref:`several-outputs`). If ``h`` and ``y`` are
# the roots, and the ``v`` of ``h`` is 10 and the ``v`` of ``y`` is 1, then ``x`` gets
# :math:`10\cdot3+180`:

x.grad = None
h = 3 * x
y = c * h**2
torch.autograd.backward([h, y], [torch.tensor(10.0), torch.tensor(1.0)])
x.grad

# %%
# In the picture, each edge is labeled with the cotangent that comes back along it. No
# cotangent goes further than a leaf:

import pullback.plot

edges = [("x", "h", "3 (10 + 60)"), ("h", "h²", "60"), ("h²", "y", "5"), ("c", "y", "—")]
ax = pullback.plot.graph(edges, title="Leaves x and c, roots h and y: what comes back")

# %%
# As a check, we compute the derivatives of h and y separately with :term:`forward mode`. By
# the chain rule they must give what ``backward`` left in ``x.grad``:

at = torch.tensor(2.0)
(dh,) = torch.func.jvp(lambda x: 3 * x, (at,), (torch.ones(()),))[1:]
(dy,) = torch.func.jvp(lambda h: 5 * h**2, (3 * at,), (torch.ones(()),))[1:]
assert x.grad == dh * (10 + dy)
assert torch.autograd.grad(c * h**2, h, retain_graph=True)[0] == dy == 60

# %%
# Where next
# ----------
#
# If a gradient is missing, see :ref:`grad-is-none`. :ref:`hooks` shows how to watch a
# gradient as it passes, and :ref:`in-place` explains what an edit in place can break.
#
# .. asked: what is a leaf; leaf tensor; is_leaf; retain_grad; gradient of an
#    intermediate tensor; non-leaf; which tensors keep a gradient; root of the graph;
#    hidden activation gradient; why leaf matters; gradient of a hidden tensor
# .. words: intermediate, hidden, warning non-leaf, activation, keep, middle, created by
#    user, is_leaf, to gpu, multiply by 0.1
