r"""
.. _what-keeps-a-graph:

Does total += loss leak memory? What keeps a graph alive
========================================================

Memory grows from step to step, and you suspect the line that adds up the losses for the
log. A tensor with a ``grad_fn`` keeps all the nodes of the graph behind it. The tensors
that the nodes have saved, such as the activations, are kept only until ``backward`` has
used them. So in training, where each step calls ``backward``, ``total += loss`` keeps
little memory alive. On a CPU the process can grow much more all the same where the
activations are large, because the small nodes that stay lie between the large blocks
that each step frees (:ref:`total-loss-leak`). In an evaluation that is recorded but
never calls ``backward``, the same line keeps everything. Add up ``loss.detach()``
instead, and the total keeps nothing alive. If you keep a list of losses, put
``loss.item()`` into it, because many small tensors that stay alive can fragment the
memory (:ref:`fix-memory`).
"""

# %%
# To measure what is kept, we count the nodes, and the tensors that they have saved for
# their :term:`VJPs <VJP>`. A hook puts each :term:`saved tensor` into a box, and each box
# into a set. A box that nothing refers to any more drops out of the set by itself. One
# forward pass of a small network saves tensors of these shapes:

import weakref

import torch

torch.manual_seed(0)  # the same weights and data on every build
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
data, boxes = torch.randn(8, 2), weakref.WeakSet()


class Box:
    def __init__(self, tensor):
        self.tensor = tensor.detach()  # or an output would keep its own node alive
        boxes.add(self)


with torch.autograd.graph.saved_tensors_hooks(Box, lambda box: box.tensor):
    loss = (net(data) ** 2).mean()
sorted(tuple(box.tensor.shape) for box in boxes)

# %%
# To find the nodes behind a tensor, ``nodes`` walks from each node to the next ones. The
# first line of the output shows the numbers of nodes and of boxes after a ``backward`` that
# retains the graph. After a ``backward`` that does not retain it, the nodes are still
# there, but the boxes are gone:


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
# How many nodes and tensors are kept
# -----------------------------------
#
# How much does it cost to keep the losses of ten steps? We try four ways to keep them:

ways = {
    "total += loss": lambda total, loss: [total[0] + loss] if total else [loss],
    "list of losses": lambda total, loss: [*total, loss],
    "loss.detach()": lambda total, loss: [*total, loss.detach()],
    "loss.item()": lambda total, loss: [*total, torch.tensor(loss.item())],
}

# %%
# In training each step ends with ``backward``, and in an evaluation ``backward`` is never
# called:


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
# Each pair in the table shows how many nodes and how many saved tensors are alive after the
# ten steps:

counts = {}
print(f"{'':16}{'training':>14}{'evaluation':>14}")
for name, keep in ways.items():
    counts[name] = [epoch(keep, training) for training in (True, False)]
    print(f"{name:16}", *(f"{count!s:>13}" for count in counts[name]))

# %%
# *Must I write loss.item()?* ``detach()`` keeps no graph either, and unlike ``item()`` it
# does not make the program wait for a GPU. Run the whole loop of an evaluation under
# ``no_grad``. Then nothing is saved in the first place.
#
# A list of gradients from :func:`torch.func.grad` can keep graphs in the same way. If the
# parameter that you pass requires a gradient, the result has a graph. Detach the parameter:

slope, weight = torch.func.grad(lambda w: (data @ w).norm()), torch.ones(2).requires_grad_()
print(nodes(slope(weight)) > 0, nodes(slope(weight.detach())))

# %%
# One backward at the end, or one for each part?
# ----------------------------------------------
#
# If you add up the losses of several sequences and call ``backward`` once, at the end,
# the sum keeps the graphs of all sequences until then. If you call ``backward`` for each
# part, the graph of that part is freed at once. The gradient is the same, because each
# call adds its gradient to ``.grad``. For both ways we print the number of boxes that are
# alive before the last ``backward``, and then whether the gradients agree:


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
# A state that is handed on through time
# --------------------------------------
#
# A state that is handed from step to step keeps the graph of all steps. *Truncated*
# backpropagation detaches the state after every k steps, so that the graph of no more than
# k steps is kept. Our recurrence is :math:`s_t=a\,s_{t-1}+1`, which starts from 0 with a =
# ½, and the loss is the sum of all states:


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
# For each k we print the gradient and the largest number of boxes at any one time. There
# are 12 steps, so a window of 12 does not truncate anything:

found = {k: recur(torch.tensor(0.5, requires_grad=True), k) for k in (1, 2, 4, 6, 12)}
for k, (gradient, most) in found.items():
    print(f"{k:2} {gradient:8.4f} {most:3}")

# %%
# With truncation, only the saved tensors of a single window are in memory at any one
# time. In exchange, the gradient lacks every path that leads through a cut, and so the
# model cannot learn an influence over more than k steps. To check the numbers, we compute
# the derivative of the state by hand, from step to step, and set it to 0 at each cut:


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
# :ref:`retain-or-create` and :ref:`ctx-or-saved` explain what ``backward`` does not free.
# :ref:`no-grad-detach` explains what else cuts a graph, and :ref:`checkpointing` shows how
# to trade time for memory.
#
# .. asked: memory leak in the training loop; memory grows with each iteration;
#    total_loss += loss; keep losses in a list; graph stays alive; out of memory after
#    some epochs; free the graph; memory goes up after every batch; is it ok to store
#    losses in a list; GPU memory never freed
# .. words: leak, ram grows, oom, running average, list of losses, history, item, logging,
#    never freed, after hours, replay buffer
