r"""
.. _second-backward:

Why "backward through the graph a second time"?
===============================================

A training loop works for one step, and the second step stops with this message. The first
``backward`` has freed the values that the graph had saved, and the second has come to the
same nodes again. Which tensor do the two have in common?

- Two losses of one step share a part: ``(a + b).backward()`` (Cause 1).
- A state that each step assigns again from its old value, ``state = cell(x, state)``: write
  ``state = state.detach()`` before it (Cause 2).
- A tensor that was computed *once*, before the loop or in ``__init__``, from what is
  trained: move its lines into the loop, or to ``forward`` (Cause 3).

Causes 2 and 3 look alike: both fail in the second step, never in the first. What tells them
apart is where the tensor is assigned. The message suggests ``retain_graph=True``, and that
is seldom what you need.
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
# The message does not say which operation it is about. But you can ask the nodes of the
# graph. A node whose saved values are gone refuses to show them, whether the operation is
# one of PyTorch's own or a custom function:


def gone(node):
    try:
        for name in dir(node):
            if name.startswith("_saved_") or name == "saved_tensors":
                getattr(node, name)
    except RuntimeError as error:
        return "second time" in str(error)
    return False


# %%
# A walk through the :term:`computation graph` names all such nodes. Call it *before* the
# line that fails:


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
# The names tell which line: ``PowBackward0`` is a power, ``ExpBackward0`` the line with
# ``exp``. Where that line stands, in the loop or before it, says which cause is yours.
#
# *Why does it work with + and fail with \*?* A sum, a difference or a view saves nothing,
# so nothing is missing the second time, and there is no error. That does not make it right.
# The gradient of ``x + x`` is 2, and after two calls the ``.grad`` holds 4, because
# ``backward`` adds to it:

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
# Both losses lead through ``h``, the trunk of the network. The first call frees what the
# trunk has saved. The second call would need it again, for the :math:`\tanh` and for the
# product:

w = torch.tensor([1.0, 2.0], requires_grad=True)
h = torch.tanh(w * w)
first, second = h.sum(), (h**2).sum()
first.backward()
spent(second)

# %%
# The best remedy is a single call. Add the losses, or hand both of them to
# ``autograd.grad`` or ``autograd.backward``, which walks through the trunk once and adds
# the two up for you:

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
# A GAN is a case of this kind, too. The critic's loss and the generator's loss both lead to
# the generator, through the same ``fake``. With ``critic(fake.detach())`` the critic's loss
# ends at ``fake``, where it should (:ref:`no-grad-detach`).
#
# Cause 2: a state carried from step to step
# ------------------------------------------
#
# *It fails on the second batch, never on the first.* (So does Cause 3.) A recurrent network
# hands its hidden state from one step to the next, and the state brings the whole graph of
# the step before with it. That graph has been walked, and its values are gone:

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
# What you want is to keep the numbers of the state and to drop its graph, and ``detach()``
# does that. (Has your state a parameter in it that is to be trained, and was it computed
# from it once? Then ``detach`` stops its learning: see Cause 3.) If the state is a tuple,
# as in an LSTM, detach each part. The gradient then stops at the border between two steps,
# which is called truncated backpropagation. Mind that ``detach()`` returns a new tensor and
# leaves the old one as it is. If a helper such as ``repackage_hidden`` drops what
# ``detach()`` returns, nothing is cut:

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
# *It fails on the second batch, never on the first*, as with Cause 2. Move the line that
# computes it into the loop, or from ``__init__`` to ``forward``, so that each ``backward``
# gets a fresh graph.
#
# A filter, a normalised weight, a penalty on the weights or a table of positions was
# computed from the weights once, before the loop or in the ``__init__`` of a module, and
# each turn of the loop uses it. The first ``backward`` frees its graph.
# ``retain_graph=True`` does not mend this. If the graph has saved a weight, as the graph of
# a penalty has, the next error is about an edit in place (:ref:`in-place`). If it has not,
# there is no error, but the value stays the one from before the first step
# (:ref:`same-calls`). ``detach`` silences the message, too, and what was computed is a
# constant from then on: the parameter gets None. Likewise, a total that you keep for the
# log should add up ``loss.item()``. If it adds up the losses themselves, it holds on to
# every graph.

scale = w.exp()
(scale * 1.0).sum().backward()
spent((scale * 2.0).sum())

# %%
# In a module it looks like this. Only the place of one line differs:


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
# We compare the gradient of both losses with the formula, in which :math:`h'=2w(1-h^2)`,
# and see that a fresh graph has no spent node:

at = w.detach()
t = torch.tanh(at * at)
torch.testing.assert_close(together, (1 + 2 * t) * (1 - t**2) * 2 * at)
assert spent(torch.tanh(w * w).sum()) == []
assert spent(second) == ["MulBackward0", "TanhBackward0"]

# %%
# Where next
# ----------
#
# :ref:`retain-or-create` tells what the two flags keep, :ref:`several-losses` how to give
# two losses different weights, and :ref:`cut-graphs` how to cut a graph on purpose.
#
# .. asked: backward through the graph a second time; second iteration fails;
#    retain_graph error; graph was freed; first loop works, second fails; RuntimeError
#    in the second backward; graph already freed; call backward again; works once and
#    then fails
# .. words: crash in the second iteration, works once, freed, buffers, hidden state, rnn,
#    reuse, twice, target computed once, saved intermediate values, gan second loss
