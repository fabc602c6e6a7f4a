r"""
.. _second-backward:

Why "backward through the graph a second time"?
===============================================

A training loop works for one step, and the second step stops with this message. The first
``backward`` has freed the values that the graph had saved, and the second call has
reached the same nodes again. So look for a tensor through which both calls walk back:

- If two losses of one step share a part of the network, add them: ``(a + b).backward()``
  (Cause 1).
- If each step computes a state from the old state, as in ``state = cell(x, state)``,
  write ``state = state.detach()`` before this line (Cause 2).
- If a tensor was computed from the parameters *once*, before the loop or in ``__init__``,
  move the lines that compute it into the loop, or into ``forward`` (Cause 3).

Causes 2 and 3 look alike: with both, the second step fails, and never the first. To tell
them apart, look where the tensor is assigned: with Cause 2 it is assigned in the loop, and
with Cause 3 before the loop. The message suggests ``retain_graph=True``, but you seldom
need it.
"""

# %%
# Here is the smallest program that fails. :math:`y=x^2` saves ``x``, because its slope
# :math:`2x` contains it. The :term:`saved tensor` is freed as soon as it has been used:

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
# The message does not name the operation. But you can ask the nodes of the graph. A node
# whose saved values are gone refuses to show them, whether the operation belongs to
# PyTorch or is a custom function:


def gone(node):
    try:
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                getattr(node, name)
    except RuntimeError as error:
        return "second time" in str(error)
    return False


# %%
# A walk through the :term:`computation graph` names all such nodes. Call ``spent`` *before*
# the line that fails:


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
# The names help you find the line: ``PowBackward0`` belongs to a power, and
# ``ExpBackward0`` to a call to ``exp``. Whether this line is in the loop or before it tells
# you which cause you have.
#
# *Why does it work with + and fail with \*?* A sum, a difference or a view saves no
# values, so nothing is missing the second time, and there is no error. But the second
# call adds its gradient to ``.grad``. The gradient of ``x + x`` is 2, and after two calls
# ``x.grad`` holds 4:

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
# Both losses lead through ``h``, the trunk of the network. The first call frees the
# values that the trunk has saved. The second call would need these values again, for the
# :math:`\tanh` and for the product:

w = torch.tensor([1.0, 2.0], requires_grad=True)
h = torch.tanh(w * w)
first, second = h.sum(), (h**2).sum()
first.backward()
spent(second)

# %%
# The best remedy is a single call. Add the losses, or pass both of them to
# ``autograd.grad`` or ``autograd.backward``. These functions walk through the trunk once,
# and add the two gradients up for you:

h = torch.tanh(w * w)
(together,) = torch.autograd.grad([h.sum(), (h**2).sum()], w)
together

# %%
# If you need the two gradients one by one, for example to log their sizes, keep the graph
# in all calls but the last:

h = torch.tanh(w * w)
(a,) = torch.autograd.grad(h.sum(), w, retain_graph=True)
(b,) = torch.autograd.grad((h**2).sum(), w)
print(torch.allclose(a + b, together))

# %%
# A GAN is also a case of this kind. The critic's loss and the generator's loss both lead to
# the generator, through the same ``fake``. With ``critic(fake.detach())`` the gradient of
# the critic's loss ends at ``fake``, as it should (:ref:`no-grad-detach`).
#
# Cause 2: a state carried from step to step
# ------------------------------------------
#
# *It fails on the second batch, never on the first.* Cause 3 has the same symptom. A
# recurrent network hands its hidden state from one step to the next, and the state brings
# the whole graph of the step before with it. The backward pass has already gone through
# that graph, and its values are gone:

torch.manual_seed(0)  # the same weights on every build
cell = torch.nn.RNNCell(2, 3)
steps, state = torch.randn(3, 1, 2), torch.zeros(1, 3)
state = cell(steps[0], state)
state.sum().backward()
state = cell(steps[1], state)
spent(state.sum())

# %%
# With ``retain_graph=True`` you get another error instead. Every step would then walk back
# to the very first one, and on the way it meets weights that ``optimizer.step()`` has
# changed in the meantime (:ref:`in-place`):

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
# You want to keep the numbers of the state and to drop its graph, and ``detach()`` does
# this. But if the state was computed from a parameter once, and you want to train this
# parameter, ``detach`` stops it from learning, as Cause 3 shows. If the state is a tuple,
# as in an LSTM, detach each part. The gradient then stops at the border between two steps,
# which is called truncated backpropagation. Note that ``detach()`` returns a new tensor and
# leaves the old one as it is. If a helper such as ``repackage_hidden`` throws away the
# tensor that ``detach()`` returns, nothing is cut:

state = torch.zeros(1, 3)
for step in steps:
    state = cell(step, state.detach())
    optimizer.zero_grad()
    state.sum().backward()
    optimizer.step()
spent(cell(steps[0], state.detach()).sum())

# %%
# Cause 3: computed once, used in every iteration
# -----------------------------------------------
#
# *It fails on the second batch, never on the first*, as with Cause 2. Move the line that
# computes the tensor into the loop, or from ``__init__`` to ``forward``, so that each
# ``backward`` gets a fresh graph.
#
# A filter, a normalized weight, a penalty on the weights or a table of positions was
# computed from the weights once, before the loop or in the ``__init__`` of a module, and
# each iteration of the loop uses the result. The first ``backward`` frees the graph of this
# result. ``retain_graph=True`` does not help here. If the graph has saved a weight, as the
# graph of a penalty has, the next error is about an in-place edit (:ref:`in-place`). If the
# graph has not saved one, there is no error, but the result keeps the value that it had
# before the first step (:ref:`same-calls`). ``detach`` silences the message, too, but it
# makes the result a constant, so the ``.grad`` of the parameter stays None. Likewise, a
# total that you keep for the log should add up ``loss.item()``. If you add up the losses
# themselves, the total holds on to every graph. Here ``scale`` is computed once and used in
# two losses:

scale = w.exp()
(scale * 1.0).sum().backward()
spent((scale * 2.0).sum())

# %%
# In a module the mistake looks like this. The two classes differ only in where one line is:


class Wrong(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3))
        self.scale = self.w.exp()  # wrong: once, so that all steps share its graph

    def forward(self, x):
        return (self.scale * x).sum()


class Right(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        scale = self.w.exp()  # in every call
        return (scale * x).sum()


for module in (Wrong(), Right()):
    module(torch.ones(3)).backward()
    print(type(module).__name__, spent(module(torch.ones(3))))

# %%
# As a check, we compare the gradient of both losses with the formula, in which
# :math:`h'=2w(1-h^2)`. We also check that a fresh graph has no spent node, whereas the
# second loss of Cause 1 has two:

at = w.detach()
t = torch.tanh(at * at)
torch.testing.assert_close(together, (1 + 2 * t) * (1 - t**2) * 2 * at)
assert spent(torch.tanh(w * w).sum()) == []
assert spent(second) == ["MulBackward0", "TanhBackward0"]

# %%
# Where next
# ----------
#
# :ref:`retain-or-create` explains what the two flags keep, :ref:`several-losses` shows
# how to give two losses different weights, and :ref:`cut-graphs` shows how to cut a graph
# on purpose.
#
# .. asked: backward through the graph a second time; second iteration fails;
#    retain_graph error; graph was freed; first loop works, second fails; RuntimeError
#    in the second backward; graph already freed; call backward again; works once and
#    then fails
# .. words: crash in the second iteration, works once, freed, buffers, hidden state, rnn,
#    reuse, twice, target computed once, saved intermediate values, gan second loss
