r"""
.. _what-keeps-a-graph:

Does total += loss leak memory? What keeps a graph alive
========================================================

A tensor with a ``grad_fn`` keeps all the nodes behind it. The activations it keeps only
until they are used: ``backward`` frees them. So ``total += loss`` leaks little where each
step calls it, and everything where none does, as in an evaluation. Add ``loss.detach()``.
"""

# %%
# Count nodes, and what they saved for their :term:`VJPs <VJP>`: a hook puts each
# :term:`saved tensor` in a box; one that nobody holds drops out of the set. Saved are:

import weakref

import torch

torch.manual_seed(0)  # the same weights and data on every build
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
data, boxes = torch.randn(8, 2), weakref.WeakSet()


class Box:
    def __init__(self, tensor):
        self.tensor = tensor.detach()  # else an output in its own node's box: a cycle
        boxes.add(self)


with torch.autograd.graph.saved_tensors_hooks(Box, lambda box: box.tensor):
    loss = (net(data) ** 2).mean()
sorted(tuple(box.tensor.shape) for box in boxes)

# %%
# The nodes behind some tensors, found by walking. After ``backward`` they are still there,
# and the boxes are not:


def nodes(*tensors):
    seen, todo = set(), [t.grad_fn for t in tensors]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [after for after, _ in node.next_functions]
    return len(seen)


for retain in (True, False):
    loss.backward(retain_graph=retain)
    print(nodes(loss), len(boxes))

# %%
# How many are kept
# -----------------
#
# Four ways to keep the losses of ten steps:

ways = {
    "total += loss": lambda total, loss: [total[0] + loss] if total else [loss],
    "list of losses": lambda total, loss: [*total, loss],
    "loss.detach()": lambda total, loss: [*total, loss.detach()],
    "loss.item()": lambda total, loss: [*total, torch.tensor(loss.item())],
}

# %%
# In training each step ends in ``backward``; in an evaluation nobody calls it:


def epoch(keep, training):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(Box, lambda box: box.tensor):
        for _ in range(10):
            loss = (net(data) ** 2).mean()
            kept = keep(kept, loss)
            if training:
                loss.backward()
    del loss
    return nodes(*kept), len(boxes)


# %%
# Nodes and saved tensors alive after ten steps:

counts = {}
print(f"{'':16}{'training':>14}{'evaluation':>14}")
for name, keep in ways.items():
    counts[name] = [epoch(keep, training) for training in (True, False)]
    print(f"{name:16}", *(f"{count!s:>13}" for count in counts[name]))

# %%
# *Must I write loss.item()?* ``detach()`` does as well, and makes no GPU wait. In an
# evaluation ``no_grad`` is better still: nothing is saved.
#
# *My list holds results of torch.func.grad, and memory grows.* They have graphs where a
# parameter requires a gradient. Detach it:

slope, weight = torch.func.grad(lambda w: (data @ w).norm()), torch.ones(2).requires_grad_()
print(nodes(slope(weight)) > 0, nodes(slope(weight.detach())))

# %%
# One backward at the end, or one for each part?
# ----------------------------------------------
#
# *I add up the losses of my sequences, and memory grows until backward.* The sum keeps all
# graphs. A ``backward`` for each part frees its graph at once, and gives the same gradient,
# since ``.grad`` adds. Boxes before a backward, and that gradient:


def summed(calls):
    net.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(Box, lambda box: box.tensor):
        for parts in data.chunk(calls):
            losses = [(net(part) ** 2).sum() for part in parts.split(2)]
            most = len(boxes)
            torch.stack(losses).sum().backward()
    return most, net[0].weight.grad


(at_end, whole), (one_by_one, added) = summed(calls=1), summed(calls=4)
print(at_end, one_by_one, torch.allclose(whole, added))

# %%
# Through time
# ------------
#
# A state handed from step to step keeps the graph of all steps. *Truncated* backpropagation
# detaches it every k. For :math:`s_t=a\,s_{t-1}+1` from 0, a = ½, loss :math:`\sum_t s_t`:


def recur(a, k, steps=12):
    state, gradient, window, most = torch.zeros(()), 0.0, torch.zeros(()), 0
    with torch.autograd.graph.saved_tensors_hooks(Box, lambda box: box.tensor):
        for t in range(1, steps + 1):
            state = a * state + 1
            window = window + state
            most = max(most, len(boxes))
            if t % k == 0:
                gradient = gradient + torch.autograd.grad(window, a)[0].item()
                state, window = state.detach(), torch.zeros(())
    return round(gradient, 4), most


# %%
# Each k with its gradient and the most boxes at once; a window of 12 is all of it:

found = {k: recur(torch.tensor(0.5, requires_grad=True), k) for k in (1, 2, 4, 6, 12)}
for k, (gradient, most) in found.items():
    print(f"{k:2} {gradient:8.4f} {most:3}")

# %%
# Memory is that of one window; the gradient lacks every path through a cut, so that no
# influence over more than k steps is learnt. The check carries ds/da, anew from each cut:


def by_hand(k, a=0.5):
    state = slope = total = 0.0
    for t in range(12):
        slope = state + a * (0.0 if t % k == 0 else slope)
        state = a * state + 1
        total += slope
    return total


assert all(abs(gradient - by_hand(k)) < 1e-3 for k, (gradient, _) in found.items())
assert counts["total += loss"][0][1] == 0 < counts["total += loss"][1][1]
assert counts["loss.detach()"] == counts["loss.item()"] == [(0, 0), (0, 0)]

# %%
# Where next
# ----------
#
# What ``backward`` does not free: :ref:`retain-or-create`, :ref:`ctx-or-saved`. What else
# cuts: :ref:`no-grad-detach`. Memory for time: :ref:`checkpointing`.
#
# .. asked: memory leak in the training loop; memory grows with each iteration;
#    total_loss += loss; keep losses in a list; graph stays alive; out of memory after
#    some epochs; free the graph; memory goes up after every batch; is it ok to store
#    losses in a list; GPU memory never freed
