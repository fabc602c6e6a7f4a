r"""
.. _second-backward:

Why "backward through the graph a second time"?
===============================================

The first ``backward`` frees the values that the graph saved, and a second one comes past
the same nodes. Find what the two have in common: two losses, a state carried over from
the last step, something computed outside the loop. ``retain_graph=True`` is seldom it.
"""

# %%
# :math:`y=x^2` saves ``x``, because :math:`J=2x` needs it. The :term:`saved tensor` is
# freed as soon as it has been used:

import textwrap

import torch

x = torch.tensor(3.0, requires_grad=True)
y = x**2
y.backward()
try:
    y.backward()
except RuntimeError as error:
    print(textwrap.fill(str(error), 80))

# %%
# Find the node that was used up
# ------------------------------
#
# The message names no operation. But a node whose saved values are gone refuses to show
# them, whether it is one of PyTorch's own or of a custom function:


def gone(node):
    try:
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                getattr(node, name)
    except RuntimeError as error:
        return "second time" in str(error)
    return False


# %%
# A walk through the :term:`computation graph`, *before* the failing call, names them:


def spent(loss):
    todo, seen = [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [child for child, _ in node.next_functions if child]
    return sorted(node.name() for node in seen if gone(node))


spent(y)

# %%
# *Why does it work with + and fail with \*?* A sum, a difference or a view saves nothing,
# so nothing is missing the second time. No error does not mean that it is right: the
# gradient of ``x + x``, 2, comes out doubled.

for operation in [torch.sum, torch.neg, torch.ravel, torch.exp, torch.abs, torch.tanh]:
    x = torch.tensor(3.0, requires_grad=True)
    y = operation(x)
    y.backward()
    print(operation.__name__, spent(y))
x.grad = None
(y := x + x).backward()
y.backward()
x.grad

# %%
# Cause 1: two losses, one trunk
# ------------------------------
#
# Both losses lead through ``h``. The first call frees the trunk, and :math:`\tanh` and the
# product are what the second will miss:

w = torch.tensor([1.0, 2.0], requires_grad=True)
h = torch.tanh(w * w)
first, second = h.sum(), (h**2).sum()
first.backward()
spent(second)

# %%
# Add the losses, or hand both to one call, which walks the trunk once and adds for you:

h = torch.tanh(w * w)
(together,) = torch.autograd.grad([h.sum(), (h**2).sum()], w)
together

# %%
# If you need the two apart, or one to log first, retain on all calls but the last:

h = torch.tanh(w * w)
(a,) = torch.autograd.grad(h.sum(), w, retain_graph=True)
(b,) = torch.autograd.grad((h**2).sum(), w)
print(torch.allclose(a + b, together))

# %%
# A GAN is the same case: ``critic(fake.detach())`` keeps the critic's loss out of the
# generator (:ref:`no-grad-detach`).
#
# Cause 2: a state carried from step to step
# ------------------------------------------
#
# *It fails on the second batch, never on the first.* The hidden state brings the graph of
# the step before with it:

torch.manual_seed(0)  # the same weights on every build
cell = torch.nn.RNNCell(2, 3)
steps, state = torch.randn(3, 1, 2), torch.zeros(1, 3)
state = cell(steps[0], state)
state.sum().backward()
state = cell(steps[1], state)
spent(state.sum())

# %%
# ``retain_graph=True`` does not mend this. Every step would walk back to the first, and
# ``step()`` has changed the weights it saved (:ref:`in-place`):

optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
state = torch.zeros(1, 3)
try:
    for step in steps:
        state = cell(step, state)
        state.sum().backward(retain_graph=True)
        optimizer.step()
except RuntimeError as error:
    print(textwrap.shorten(str(error), 90))

# %%
# *My search only runs with retain_graph=True.* Look for a state that brings its graph, say
# from a ``repackage_hidden`` that drops what ``detach()`` returns. Detach it between steps,
# each part of a tuple. The gradient stops there: truncated backpropagation.

state = torch.zeros(1, 3)
for step in steps:
    state = cell(step, state.detach())
    optimizer.zero_grad()
    state.sum().backward()
    optimizer.step()
spent(cell(steps[0], state.detach()).sum())

# %%
# Cause 3: computed once, used in every turn
# ------------------------------------------
#
# A normalised weight, a penalty, a table of positions made outside the loop. Make it anew
# for each ``backward``: ``retain_graph=True`` keeps its old value (:ref:`same-calls`). A
# total for the log is ``loss.item()``, or it keeps every graph.

scale = w.exp()
(scale * 1.0).sum().backward()
spent((scale * 2.0).sum())

# %%
# The check: the derivative by the formula, :math:`h'=2w(1-h^2)`; a fresh graph is unspent:

at = w.detach()
t = torch.tanh(at * at)
torch.testing.assert_close(together, (1 + 2 * t) * (1 - t**2) * 2 * at)
assert spent(torch.tanh(w * w).sum()) == []
assert spent(second) == ["MulBackward0", "TanhBackward0"]

# %%
# Where next
# ----------
#
# What the flags keep: :ref:`retain-or-create`. Two losses, weighed: :ref:`several-losses`.
# Cutting a graph on purpose: :ref:`cut-graphs`.
#
# .. asked: backward through the graph a second time; second iteration fails;
#    retain_graph error; graph was freed; first loop works, second fails; RuntimeError
#    in the second backward; graph already freed; call backward again; works once and
#    then fails
