r"""
.. _hooks:

How do I watch v travel, and change it on its way? With hooks
=============================================================

``h.register_hook(f)`` calls ``f(g)`` when the :term:`cotangent` of ``h`` has arrived in
full; what f returns travels on in its place. A module, a node of the graph and a leaf's
``.grad`` have hooks of their own.
"""

# %%
# Take :math:`h=3x`, :math:`y=h^2+4h` at :math:`x=(1,2)`, all of shape ``(2,)``. With ``v``
# of ones :math:`2h=(6,12)` and :math:`(4,4)` meet at ``h``; three times their sum is at
# ``x``. The hook runs once, on the sum, of the shape of its tensor:

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
h = 3 * x
h.register_hook(lambda g: print("at h", g))
x.register_hook(lambda g: print("at x", g))
(h**2 + 4 * h).backward(torch.ones(2))

# %%
# :func:`pullback.trace` shows every edge at once and leaves ``x.grad`` alone. It is a
# backward like any other, so the hook on x speaks again:

import pullback

h = 3 * x
seen = pullback.trace(h**2 + 4 * h, torch.ones(2), names={"x": x, "h": h})
ax = pullback.plot.trace(seen)
title = ax.set_title("v = (1, 1) on its way from y = h² + 4h to x")

# %%
# Every kind of hook, in the order in which it runs
# -------------------------------------------------
#
# Those of a tensor run first, in the order you registered them, each on what the one
# before returned; None leaves the cotangent as it is. ``retain_grad`` notes what is left.
# Then the node runs, and last the leaf, whose post-accumulate hook is handed the *leaf*:

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
# The second tensor hook sent ten times as much, and all that came after saw it, also
# ``h.grad``, although ``retain_grad`` came before the hook:

for name, g in [*log, ("h.grad", h.grad)]:
    print(f"{name:16}", g)

# %%
# A hook sees each ``backward`` alone, and ``h.grad`` adds them up:

h, seen = 3 * x, []
h.retain_grad()
h.register_hook(seen.append)
for _ in range(2):
    (h**2).backward(torch.ones(2), retain_graph=True)
print(seen, h.grad)

# %%
# :func:`torch.autograd.grad` runs the hooks of tensors, and of the nodes on the way, and
# returns what they make of the cotangent. It accumulates nothing: the last kind is silent:

log.clear()
h = 3 * x
h.register_hook(lambda g: 10 * g)
print(torch.autograd.grad(h**2, x, torch.ones(2))[0], [name for name, _ in log])

# %%
# Changing v on its way
# ---------------------
#
# Clip each cotangent where it passes (of a parameter's: :ref:`hook-or-final-clamp`), or
# turn its sign, for features that learn to deceive the head (:ref:`gradient-reversal`):

features = torch.tensor([1.0, 2.0], requires_grad=True)
head = torch.tensor([3.0, -40.0], requires_grad=True)
h = 1 * features
h.register_hook(lambda g: g.clamp(-5, 5))
h.register_hook(torch.neg)
(head @ h).backward()
print(features.grad, head.grad)

# %%
# *With create_graph=True, a factor 10 makes the second derivative 100 times as large.* The
# hook runs again in the second pass. Remove it between the two. For h³ at 2, f′ = f″ = 12:

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
# An edit in place. The tensor a hook is shown is not a copy: another branch, or your own
# ``v``, may share it. Both branches of this sum get the same v; the hook is meant for the
# right one, so 2 is to remain. The first loses all, v included; return a new tensor:

x = torch.tensor([1.0, 2.0], requires_grad=True)
for hook in (lambda g: g.mul_(0), lambda g: 0 * g):
    v, left, right = torch.ones(2), 2 * x, 3 * x
    right.register_hook(hook)
    print(*torch.autograd.grad(left + right, x, v), v)

# %%
# Refused are a hook under :func:`torch.func.jvp`, where no cotangent travels; one that
# returns another shape; a module's full backward hook, if the next edits its output:


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
# The messages:

for attempt in attempts:
    try:
        attempt()
    except RuntimeError as error:
        print(str(error).partition(". ")[0])

# %%
# *My full backward hook and ReLU(inplace=True) do not agree.* ``inplace=False`` mends it;
# so does a tensor hook, set by a forward hook (:ref:`module-hooks`), before the edit:

y = 3 * torch.tensor([-1.0, 1.0], requires_grad=True)
y.register_hook(lambda g: print("before the edit", g))
torch.nn.functional.relu(y, inplace=True).backward(torch.ones(2))

# %%
# The hook stays on its tensor until its handle's ``remove()``. The check: with 10 in the
# middle, the product is :math:`J_h^\top\,10\,J_y^\top v`, and after ``remove`` it is not:

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
# Never called, or too often: :ref:`where-hooks-hang`. Of a module: :ref:`module-hooks`. Of
# several tensors: :ref:`gradient-edges`. Of what is saved: :ref:`checkpointing`.
#
# .. asked: change the gradient on its way; look at a gradient in the middle;
#    register_hook; print gradients; replace the gradient of a layer; modify gradients
#    during backward; gradient of an activation; clip gradients with a hook; change
#    gradients in the middle; see what arrives at a layer; print gradients while
#    training
