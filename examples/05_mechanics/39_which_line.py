r"""
.. _which-line:

Which line was it?
==================

An error message about a gradient often names shapes and versions, but not the line of your
program that is to blame. ``pullback.watch()`` watches a program while it runs, and names
the line that edited a tensor in place, made the first NaN, or cut a parameter off from the
loss. If you do not want to change the program, ``python -m pullback train.py`` watches it
in the same way.
"""

# %%
# Which line edited my tensor?
# ----------------------------
#
# ``exp`` saves its result for ``backward``, and ``+=`` overwrites it. PyTorch's error names
# the shape and the versions of the tensor, but not the line that edited it. The first
# finding of ``watch`` names this line. We print the message and the line of the finding:

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
# The most common form of this error is an ``optimizer.step()`` between two calls to
# ``backward``. The finding calls the parameter by the name that it has in the module:

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
# Another form is a buffer that is written row by row. All rows share one version counter,
# and so writing the next row counts as an edit of the row before. The finding says so, and
# its ``fix``, which is the last line of the output, says what to write instead:

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
# Why does my loss have no graph, or a graph that is used up?
# -----------------------------------------------------------
#
# *Does not require grad and does not have a grad_fn* is another message without a line.
# It does not say what cut the graph, or where. The finding says both. Here a comparison
# has turned the scores into booleans:


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
# *Backward through the graph a second time.* To repair this, you need to know the line that
# leads back into the old graph, and the ``backward`` that has used this graph up. The
# finding names the line and the ``backward``. In this example, one step hands its state to
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
# If you compute the length of a vector as below, its gradient at zero is NaN. In the
# backward pass, the square root passes back an infinity, and the square multiplies it by 0.
# The line to look for is the line where the infinity first appeared. The notes of the
# finding say which inputs the operation in that line had, and which lines made them:

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
# After the ``with`` block, you can ask ``seen.why`` about a parameter by its name:


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
# ``watch`` does not blame a ``detach`` that cuts nothing off. Here the line with ``logged``
# detaches only for a log. So ``watch`` names the line with ``kept``:

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
# Mistakes that raise no error
# ----------------------------
#
# Many mistakes raise no error at all. ``watch`` has a rule for most of the :ref:`silent
# traps <silent-traps>`, and each rule names the page about its trap. This is the number of
# rules besides those that you have seen above:

above = {"in-place", "no-graph", "graph-used-up", "not-finite", "no-gradient"}
traps = {*pullback.watch.RULES} - above
len(traps)

# %%
# One of these rules is about a prediction of shape ``(3, 1)`` minus a target of shape
# ``(3,)``, which PyTorch broadcasts. If you want this broadcast, you can switch the rule
# off, as in the second ``with`` block:

prediction = nn.Linear(2, 1)(torch.ones(3, 2))
with pullback.watch() as seen:
    loss = (prediction - torch.ones(3)).square().mean()
loud = [finding.rule for finding in seen]
with pullback.watch(without=["loss-broadcast"]) as seen:
    loss = (prediction - torch.ones(3)).square().mean()
loud, len(seen)

# %%
# Another rule is about a loop that clears the gradients between ``backward`` and ``step``,
# and so never learns:

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
# As a check, ``watch`` must find nothing in a correct training step, and it must not
# change a single bit of the gradient. We also check the lines and rules from above:


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
# :ref:`find-the-nan` explains how to find a NaN by hand, and :ref:`in-place` explains what
# an edit in place does.
#
# .. asked: which line of my code causes the error; find the line; which line cut the
#    gradient; anomaly mode; watch a program; find the in-place edit
# .. words: locate, traceback, culprit, debug, anomaly, where in my code, source line,
#    forward call
