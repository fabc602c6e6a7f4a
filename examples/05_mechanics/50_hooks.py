r"""
.. _hooks:

How do I watch v travel, and change it on its way? With hooks
=============================================================

You want to see the gradient in the middle of a network, or to clip it before it goes on.
After ``h.register_hook(f)``, each backward pass calls ``f(g)`` as soon as ``g``, the
:term:`cotangent` of ``h``, has arrived in full. If ``f`` returns a tensor, that tensor
travels on in place of ``g``. There are other hooks for modules, for nodes of the graph and
for the ``.grad`` of a leaf.
"""

# %%
# Take :math:`h=3x` and :math:`y=h^2+4h` at :math:`x=(1,2)`. With ones for ``v``, two
# cotangents meet at ``h``: :math:`2h=(6,12)` from the square, and :math:`(4,4)` from the
# other term. The hook on ``h`` runs once, with their sum, which has the shape of ``h``.
# Three times that sum arrives at ``x``:

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
h = 3 * x
h.register_hook(lambda g: print("at h", g))
x.register_hook(lambda g: print("at x", g))
(h**2 + 4 * h).backward(torch.ones(2))

# %%
# If you only want to look, :func:`pullback.trace` shows the cotangent on every edge, and
# leaves ``x.grad`` alone. It runs a backward pass like any other, so the hook on ``x``
# prints again:

import pullback

h = 3 * x
seen = pullback.trace(h**2 + 4 * h, torch.ones(2), names={"x": x, "h": h})
ax = pullback.plot.trace(seen)
title = ax.set_title("v = (1, 1) on its way from y = h² + 4h to x")

# %%
# Every kind of hook, in the order in which it runs
# -------------------------------------------------
#
# The hooks of a tensor run first, in the order in which you registered them. Each of them
# is given what the hook before it has returned, and a hook that returns None leaves the
# cotangent as it is. After these hooks, ``retain_grad`` stores the cotangent that they
# have left. Then come the hooks of the node, and at the end the hooks of the leaf. The
# last hook of all, the post-accumulate hook, is handed the *leaf* and not a gradient:

log = []
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = 3 * x
h.retain_grad()
h.register_hook(lambda g: log.append(("tensor, first", g)))
h.register_hook(lambda g: 10 * g)
h.grad_fn.register_prehook(lambda arrived: log.append(("node, before", *arrived)))
h.grad_fn.register_hook(lambda sent, arrived: log.append(("node, after", sent[0])))
x.register_hook(lambda g: log.append(("leaf", g)))
x.register_post_accumulate_grad_hook(lambda x: log.append(("leaf, .grad set", x.grad)))
(h**2).backward(torch.ones(2))

# %%
# The second hook of ``h`` returned ten times what it was given. Every later hook saw the
# larger number, and ``h.grad`` holds it as well, although ``retain_grad`` was called before
# the hook was registered:

for name, g in [*log, ("h.grad", h.grad)]:
    print(f"{name:16}", g)

# %%
# If you call ``backward`` twice, a hook sees each gradient separately, whereas ``h.grad``
# holds their sum:

h, seen = 3 * x, []
h.retain_grad()
h.register_hook(seen.append)
for _ in range(2):
    (h**2).backward(torch.ones(2), retain_graph=True)
print(seen, h.grad)

# %%
# :func:`torch.autograd.grad` runs the hooks of the tensors and nodes on its way, and
# returns the cotangent as these hooks have changed it. It does not add to any ``.grad``, so
# the post-accumulate hook is not called:

log.clear()
h = 3 * x
h.register_hook(lambda g: 10 * g)
print(torch.autograd.grad(h**2, x, torch.ones(2))[0], [name for name, _ in log])

# %%
# Changing v on its way
# ---------------------
#
# With a hook you can scale or clip a cotangent as it passes, or flip its sign, so that
# the features learn to deceive the head (:ref:`gradient-reversal`). To clip the gradient
# of a parameter, see :ref:`hook-or-final-clamp`. The tensor that the hook returns counts
# for everything that ``h`` was computed from. Tensors that come *after* ``h`` in the
# forward pass, or lie on other paths, keep their gradients (:ref:`change-v`). Here are
# two hooks on ``h``. The first one clips, and the second one flips the sign. ``features``
# comes before ``h``, so its gradient is clipped and flipped; ``head`` is multiplied by
# ``h``, and its gradient stays as it was:

features = torch.tensor([1.0, 2.0], requires_grad=True)
head = torch.tensor([3.0, -40.0], requires_grad=True)
h = 1 * features
h.register_hook(lambda g: g.clamp(-5, 5))
h.register_hook(torch.neg)
(head @ h).backward()
print(features.grad, head.grad)

# %%
# *With create_graph=True, a factor of 10 makes the second derivative 100 times as large.*
# The hook runs in the first backward pass, and again in the second. If you want the factor
# only once, remove the hook between the two passes. Without the hook, the first and the
# second derivative of h³ at 2 are both 12:

for last in (False, True):
    h = 2 * torch.ones((), requires_grad=True)
    handle = h.register_hook(lambda g: 10 * g)
    (g,) = torch.autograd.grad(h**3, h, create_graph=True)
    handle.remove() if last else None
    print(g.item(), torch.autograd.grad(g, h)[0].item())

# %%
# What goes wrong
# ---------------
#
# Never make in-place edits to the tensor that a hook is given. This tensor is not a copy,
# and another branch, or your own ``v``, may share its memory. Both branches of the sum
# below get the same ``v``. The hook is meant to silence the branch ``right``, so that only
# the 2 from ``left`` remains. The first hook edits in place, and so it zeroes both
# branches, and ``v`` as well. The second hook returns a new tensor:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for hook in (lambda g: g.mul_(0), lambda g: 0 * g):
    v, left, right = torch.ones(2), 2 * x, 3 * x
    right.register_hook(hook)
    print(*torch.autograd.grad(left + right, x, v), v)

# %%
# PyTorch refuses some hooks. Under :func:`torch.func.jvp` there are no cotangents, so there
# is nothing to hook. A hook must not return a tensor of a different shape. And a module
# cannot have a full backward hook if the module after it edits the first module's output in
# place:


def hooked(x):
    h = 3 * x
    h.register_hook(lambda g: g[:1])
    return h


layer, data = torch.nn.Linear(2, 1), torch.ones(1, 2)
layer.register_full_backward_hook(print)
edits = torch.nn.Sequential(layer, torch.nn.ReLU(inplace=True))
attempts = [
    lambda: torch.func.jvp(hooked, (torch.ones(2),), (torch.ones(2),)),
    lambda: hooked(x).backward(torch.ones(2)),
    lambda: edits(data),
]

# %%
# Here are the three messages:

for attempt in attempts:
    try:
        attempt()
    except RuntimeError as error:
        print(str(error).partition(". ")[0])

# %%
# There are two remedies for the last of these errors. You can set ``inplace=False``. Or you
# can use a tensor hook instead, and register it on the output before the output is edited,
# for example in a forward hook (:ref:`module-hooks`):

y = 3 * torch.tensor([-1.0, 1.0], requires_grad=True)
y.register_hook(lambda g: print("before the edit", g))
torch.nn.functional.relu(y, inplace=True).backward(torch.ones(2))

# %%
# A hook stays on its tensor until you call ``remove()`` on its handle. As a check, we write
# the two steps as matrices. With the hook, the gradient must have a factor of 10 in the
# middle, :math:`J_h^\top\,10\,J_y^\top v`, and after ``remove`` it must not:

h = 3 * x
handle = h.register_hook(lambda g: 10 * g)
J_h, J_y = 3 * torch.eye(2), torch.diag(2 * h.detach())
for factor in (10, 1):
    (g,) = torch.autograd.grad(h**2, x, torch.ones(2), retain_graph=True)
    torch.testing.assert_close(g, J_h.T @ (factor * (J_y.T @ torch.ones(2))))
    handle.remove()

# %%
# Where next
# ----------
#
# If a hook is never called, or is called too often, see :ref:`where-hooks-hang`.
# :ref:`module-hooks` is about the hooks of modules, and :ref:`gradient-edges` is about
# hooks on several tensors. :ref:`checkpointing` is about hooks on saved tensors.
#
# .. asked: change the gradient on its way; look at a gradient in the middle;
#    register_hook; print gradients; replace the gradient of a layer; modify gradients
#    during backward; gradient of an activation; clip gradients with a hook; change
#    gradients in the middle; see what arrives at a layer; print gradients while
#    training
# .. words: intercept, modify, scale, print, inspect, in the middle, activation, log, clip,
#    watch, callback, replace, remove handle
