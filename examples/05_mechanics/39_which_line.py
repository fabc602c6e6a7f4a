r"""
.. _which-line:

Which line was it?
==================

``pullback.watch()`` looks on while a program runs, and names the line: of an edit in place,
of the first NaN, of what cut a parameter off. Without touching the program,
``python -m pullback train.py`` does the same.
"""

# %%
# Which line edited my tensor?
# ----------------------------
#
# ``exp`` saves its result for ``backward``, and ``+=`` writes over it. The error tells
# shapes and versions, and no line. The first finding does:

import torch
from torch import nn

import pullback


def line_of(finding):
    return finding.site.code


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
try:
    with pullback.watch() as seen:
        y = x.exp()
        y += 1
        y.sum().backward()
except RuntimeError:
    print(seen[0].message)
line_of(seen[0])

# %%
# The commonest form of it: ``optimizer.step()`` between two calls of ``backward``. The
# parameter has its name in the module:

network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
try:
    with pullback.watch() as seen:
        score = network(x.detach())
        score.sum().backward(retain_graph=True)
        optimizer.step()
        (score**2).sum().backward()
except RuntimeError:
    print(seen[0].message)
line_of(seen[0])

# %%
# A buffer that is written row by row: the rows share one version counter, so that writing
# the next one counts as an edit of the last. The finding says so, and what to write:

rows = torch.zeros(3, 2)
gain = torch.tensor(0.5, requires_grad=True)
try:
    with pullback.watch() as seen:
        for t in range(1, 3):
            rows[t] = (gain * rows[t - 1]).sin()
        rows.sum().backward()
except RuntimeError:
    print(seen[0].message)
shared = seen[0].fix
shared

# %%
# Why has my loss no graph, and why is it used up?
# ------------------------------------------------
#
# *Does not require grad and does not have a grad_fn* names neither the line that cut the
# graph nor what cut it. The finding does. Here a comparison made a loss of booleans:


def share_of_errors(scores, labels):
    predicted = (scores > 0).float()
    return (predicted - labels).abs().mean()


try:
    with pullback.watch() as seen:
        share_of_errors(network(x.detach()), torch.ones(1)).backward()
except RuntimeError:
    print(seen[0].message)
comparison = line_of(seen[0])
comparison

# %%
# *Backward through the graph a second time*: the line that leads back into the old graph,
# and beside it the backward that has used it up. Here it is a state that one step hands to
# the next:

state = torch.ones(3)
recurrent = nn.Linear(3, 3)
try:
    with pullback.watch() as seen:
        for _ in range(2):
            state = recurrent(state).tanh()
            state.sum().backward()
except RuntimeError:
    print(seen[0].message)
print([(note.label, note.site.code) for note in seen[0].notes])
carried = line_of(seen[0])
carried

# %%
# Where did the NaN come from?
# ----------------------------
#
# The length of a vector, at zero. The square root sends back infinity, and the square
# makes 0 times infinity of it. The line that counts is the first; beside it stand the
# ranges of what it took, with the lines that made them:

w = torch.zeros(2, requires_grad=True)
with pullback.watch() as seen:
    squares = (w**2).sum()
    squares.sqrt().backward()
print(w.grad, seen[0].message)
print([(note.text, note.site.code) for note in seen[0].notes if note.label == "input"])
line_of(seen[0])

# %%
# Why did this parameter get no gradient?
# ---------------------------------------
#
# Ask for it by its name, when the block has ended:


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last((self.first(x) > 0).float())


net = Net()
with pullback.watch() as seen:
    net(torch.ones(3)).sum().backward()
print(seen.why("first.weight"))
print(seen.why("last.weight"))
cut = line_of(seen[0])
cut

# %%
# A ``detach`` that cuts nothing is not blamed, as in the line for a log:

h = torch.ones(2, requires_grad=True)
scale = torch.tensor(3.0, requires_grad=True)
with pullback.watch() as seen:
    double = 2 * h
    kept = double.detach()
    logged = double.detach().numpy()
    (scale * kept).sum().backward()
h_why = seen.why("h")
print(h_why)

# %%
# What raises nothing
# -------------------
#
# Most of the :ref:`silent traps <silent-traps>` are rules of ``watch``, each with the name
# of its page. So many beside those above:

above = {"in-place", "no-graph", "graph-used-up", "not-finite", "no-gradient"}
traps = {*pullback.watch.RULES} - above
len(traps)

# %%
# A prediction of shape ``(3, 1)`` and a target of shape ``(3,)``:

prediction = nn.Linear(2, 1)(torch.ones(3, 2))
with pullback.watch() as seen:
    loss = (prediction - torch.ones(3)).square().mean()
loud = [finding.rule for finding in seen]
with pullback.watch(without=["loss-broadcast"]) as seen:
    loss = (prediction - torch.ones(3)).square().mean()
loud, len(seen)

# %%
# A loop that clears the gradients behind ``backward``, and so never learns:

optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
with pullback.watch() as seen:
    for _ in range(3):
        loss = (network(torch.ones(3)) - 1).square().mean()
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
print(seen[0].message)
cleared = seen[0].rule
cleared

# %%
# The check: a step that is right has no finding, and its numbers are the same to the bit:


def step():
    torch.manual_seed(0)  # the same weights twice
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    net(torch.ones(5, 3)).square().mean().backward()
    return net[0].weight.grad


with pullback.watch() as seen:
    watched = step()
assert len(seen) == 0
assert torch.equal(watched, step())
assert loud == ["loss-broadcast"]
assert comparison == "predicted = (scores > 0).float()"
assert carried == "state = recurrent(state).tanh()"
assert cleared == "cleared-before-the-step"
assert {*loud} < traps
assert "> 0" in cut
assert "kept = double" in h_why
assert "torch.stack" in shared

# %%
# Where next
# ----------
#
# How to find a NaN by hand: :ref:`find-the-nan`. Edits in place: :ref:`in-place`.
#
# .. asked: which line of my code causes the error; find the line; which line cut the
#    gradient; anomaly mode; watch a program; find the in-place edit
#
# .. words: locate, traceback, culprit, debug, anomaly, where in my code, source line,
#    forward call
