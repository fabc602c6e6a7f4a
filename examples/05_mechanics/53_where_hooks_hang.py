r"""
.. _where-hooks-hang:

My hook runs too often, never, or on another gradient: where does it hang?
==========================================================================

You registered a hook, and it runs too often or never, or shows a gradient that you did not
expect. The reason is where the hook hangs. A hook on a parameter or a module stays until
you call ``remove()`` on its handle, and it runs once for each time you registered it. A
hook on a result goes away with the graph, and if the result is edited in place, and the
edit is recorded, the hook stays with the value from before. Under
``DistributedDataParallel`` a parameter's hook sees the gradient of its own process, before
the average.
"""

# %%
# ``w`` is a parameter of shape ``(1,)``, and ``3 * w`` is a result, which is made again
# in each step. *My hook runs more often with every step.* Then you register it in the
# loop, and a parameter keeps all its hooks. A result takes its hook with it when it is
# freed. For each of three steps we print how often the hooks of ``w`` ran, and how often
# that of ``y``:

import torch
from torch import nn

w, on_w, on_y = nn.Parameter(torch.tensor([2.0])), [], []
for _ in range(3):
    w.register_hook(on_w.append)
    y = 3 * w
    y.register_hook(on_y.append)
    y.backward()
    print(len(on_w), len(on_y))
    on_w.clear()
    on_y.clear()

# %%
# So register before the loop. Or use the handle in a ``with`` block, at whose end the
# hook is removed. In the first of these two steps there are four hooks. In the second
# there are the three from above, because the fourth is gone with its block:

for block in (True, False):
    if block:
        with w.register_hook(on_w.append):
            (3 * w).backward()
    else:
        (3 * w).backward()
    print(len(on_w))
    on_w.clear()

# %%
# A hook that is never called
# ---------------------------
#
# A leaf has a node at the end of the graph, which adds to ``.grad``. *I hung a hook on that
# node*, from ``w.view_as(w).grad_fn.next_functions[0][0]`` or an edge. Between two graphs,
# only you hold this node. If you let it go, the next graph makes another one, without
# hooks. We test whether the hook runs if the node is kept, and if it is not:

from torch.autograd.graph import get_gradient_edge, saved_tensors_hooks

for kept in (True, False):
    w, runs = nn.Parameter(torch.tensor([2.0])), []
    node = get_gradient_edge(w).node
    node.register_hook(lambda sent, arrived, runs=runs: runs.append(arrived))
    if not kept:
        del node
    (3 * w).backward()
    print(kept, len(runs))

# %%
# ``w.register_post_accumulate_grad_hook`` runs at the same moment, after the addition, and
# hangs on the tensor. *What becomes of hooks after torch.compile?* The hook of a module
# that was compiled and called before is ignored (:ref:`error-hook-after-compile`;
# :ref:`module-hooks` has other reasons). The hooks of its parameters run, because leaves
# are outside what is compiled:

layer, runs = nn.Linear(1, 1), []
compiled = torch.compile(layer, backend="aot_eager")
compiled(torch.ones(1))
layer.register_full_backward_hook(lambda *_: runs.append("module"))
layer.weight.register_hook(lambda g: runs.append("weight"))
layer.weight.register_post_accumulate_grad_hook(lambda p: runs.append("its .grad"))
compiled(torch.ones(1)).backward()
print(runs)

# %%
# A hook that shows another gradient
# ----------------------------------
#
# *I edit the tensor in place, and the hook shows the wrong gradient.* If the edit is
# recorded, the hook stays with the value from before, while ``retain_grad`` moves on to
# the new one. Here ``h`` is doubled, and ``y = 4 * h``. The slope with respect to the new
# ``h`` is 4, and with respect to the old one it is 8:

x, slopes = torch.tensor([1.0, 2.0], requires_grad=True), {}
h = 3 * x
h.retain_grad()
h.register_hook(lambda g: slopes.update(old=g))
h.mul_(2)
h.register_hook(lambda g: slopes.update(new=g))
(4 * h).backward(torch.ones(2))
print(slopes, h.grad)

# %%
# *Under DDP the hook's gradient is not the one in .grad.* Hooks of a parameter, of both
# kinds, run when the part of this process has arrived. The average is computed after them,
# from what they have returned. So a hook that clips does so in each process, before the
# average. ``times_ten`` stands here for the other processes:

import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


def times_ten(state, bucket):
    future = Future()
    future.set_result(10 * bucket.buffer())
    return future


# %%
# In one process, with a slope of 3, we print what the two hooks see, and what is in
# ``.grad``:

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
model.register_comm_hook(None, times_ten)
weight, seen = model.module.weight, []
weight.register_hook(lambda g: seen.append(g.item()))
weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
model(torch.tensor([3.0])).backward()
dist.destroy_process_group()
print(seen, weight.grad.item())

# %%
# To change the average itself, edit ``.grad`` between ``backward`` and ``step``, or write a
# communication hook as above. *With a checkpoint my hook runs twice.* Take a layer that is
# used inside and outside a checkpoint. With the old variant, which calls ``backward``
# inside ``backward``, the layer gets its gradient in two parts, and with the new variant in
# one. We print the number of calls, and whether the parts add up:

from torch.utils.checkpoint import checkpoint

for old in (True, False):
    layer, parts = nn.Linear(1, 1), []
    layer.weight.register_hook(parts.append)
    start = torch.ones(1, requires_grad=True)
    layer(checkpoint(layer, start, use_reentrant=old)).backward()
    print(len(parts), torch.equal(torch.stack(parts).sum(0), layer.weight.grad))

# %%
# Hooks on what is saved
# ----------------------
#
# ``pack`` runs each time that a tensor is saved, so it runs twice for the ``x`` of two
# operations. ``unpack`` runs whenever a backward needs the tensor, and here two backwards
# do. So it must return the same tensor each time. It runs in the engine's order, here 2
# before 3. An edit in ``pack`` is refused:

calls, x = [], torch.tensor([1.0], requires_grad=True)
pack = lambda t: calls.append(f"pack {len(calls)}") or (len(calls) - 1, t)
with saved_tensors_hooks(pack, lambda box: calls.append(f"unpack {box[0]}") or box[1]):
    y = x.sin() * x.cos()
for _ in range(2):
    y.backward(retain_graph=True)
print(*calls)
try:
    with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        x.exp()
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %%
# As a check, we compare both slopes with :term:`forward mode`, and the gradient of the two
# backwards with twice the derivative of sin x cos x, which is cos 2x:

one = torch.ones(2)
for name, f in {"old": lambda h: 4 * (2 * h), "new": lambda h: 4 * h}.items():
    assert torch.equal(slopes[name], torch.func.jvp(f, (one,), (one,))[1])
torch.testing.assert_close(x.grad, 2 * torch.cos(2 * x.detach()))

# %%
# Where next
# ----------
#
# :ref:`hooks` is about the order of hooks, and :ref:`gradient-edges` about hooks of several
# tensors at once.
#
# .. asked: hook not called; hook called twice; remove a hook; hook fires several times;
#    hook on the wrong tensor
# .. words: not called, twice, wrong one, after inplace, clone, remove, too many times,
#    order
