r"""
.. _where-hooks-hang:

My hook runs too often, never, or on another gradient: where is it attached?
============================================================================

You registered a hook, and it runs too often or never, or shows a gradient that you did not
expect. The reason is the place where the hook is attached. A hook on a parameter or a
module stays until you call ``remove()`` on its handle, and it runs once for each time you
registered it. A hook on a result goes away with the graph. If the result is edited in
place, and the edit is recorded, the hook stays with the value from before the edit. Under
``DistributedDataParallel`` a parameter's hook sees the gradient of its own process, before
the average.
"""

# %%
# ``w`` is a parameter of shape ``(1,)``, and ``y = 3 * w`` is a result, which is made again
# in each step. *My hook runs more often with every step.* You are registering the hook
# inside the loop, and a parameter keeps every hook that you register on it. A result, in
# contrast, takes its hook along when it is freed. For each of three steps we print how
# often the hooks of ``w`` ran, and how often the hook of ``y`` ran:

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
# So register the hook before the loop. Or use the handle in a ``with`` block, which removes
# the hook at its end. In the first of these two steps ``w`` has four hooks. In the second
# it has the three from the loop above, because the fourth was removed at the end of its
# block:

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
# A leaf has a node at the end of the graph, which adds to ``.grad``. *I registered a hook
# on that node.* You can reach the node by ``w.view_as(w).grad_fn.next_functions[0][0]`` or
# by an edge. When there is no graph, nothing but your own variable keeps this node alive.
# If you let the node go, the next graph makes another node, which has no hooks. For each of
# the two cases, the output says whether the node was kept, and how often the hook ran:

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
# A hook registered with ``w.register_post_accumulate_grad_hook`` runs at the same point,
# after the addition, but it is attached to the tensor itself, so you need not keep any
# node. *What becomes of hooks after torch.compile?* If a module was compiled and called
# before you register a hook on it, the hook is ignored (:ref:`error-hook-after-compile`).
# :ref:`module-hooks` has other reasons why the hook of a module does not run. The hooks of
# the module's parameters run, because leaves are not part of the compiled code:

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
# recorded, the hook stays with the value from before the edit, whereas ``retain_grad``
# moves on to the new value. Here ``h`` is doubled, and ``y = 4 * h``. The slope with
# respect to the new ``h`` is 4, and the slope with respect to the old ``h`` is 8:

x, slopes = torch.tensor([1.0, 2.0], requires_grad=True), {}
h = 3 * x
h.retain_grad()
h.register_hook(lambda g: slopes.update(old=g))
h.mul_(2)
h.register_hook(lambda g: slopes.update(new=g))
(4 * h).backward(torch.ones(2))
print(slopes, h.grad)

# %%
# *Under DDP the hook's gradient is not the one in .grad.* A parameter can have two kinds
# of hooks: one sees the gradient, and the other runs after the gradient has been added to
# ``.grad``. Both run when the gradient of their own process has arrived. The average is
# computed afterwards, from the gradients as the hooks have changed them. So a hook that
# clips does so in each process, before the average. In our example, ``times_ten`` takes
# the place of the other processes:

import torch.distributed as dist
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


def times_ten(state, bucket):
    future = Future()
    future.set_result(10 * bucket.buffer())
    return future


# %%
# We run a single process, with a slope of 3, and print the gradients that the two hooks
# see, and then the gradient that is in ``.grad`` at the end:

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
# used inside and outside a checkpoint. With the old variant of checkpointing
# (``use_reentrant=True``), which calls ``backward`` inside ``backward``, the layer gets its
# gradient in two parts. With the new variant (``use_reentrant=False``) it gets its gradient
# in one. For the old variant and then for the new one we print the number of calls, and
# whether the parts add up:

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
# The hooks on :term:`saved tensors <saved tensor>` are a pair of functions. The first,
# ``pack``, runs each time a tensor is saved, so it runs twice for an ``x`` that two
# operations save. The second, ``unpack``, runs whenever a backward pass needs the tensor,
# and here two backward passes need it. So ``unpack`` must return the same tensor each time.
# The engine decides the order of these calls. Here it unpacks the tensor with the number 2
# before the tensor with the number 3. PyTorch refuses an in-place edit in ``pack``:

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
# As a check, we compare both slopes with :term:`forward mode`. The gradient after the two
# backward passes must be twice the derivative of sin x cos x, which is cos 2x:

one = torch.ones(2)
for name, f in {"old": lambda h: 4 * (2 * h), "new": lambda h: 4 * h}.items():
    assert torch.equal(slopes[name], torch.func.jvp(f, (one,), (one,))[1])
torch.testing.assert_close(x.grad, 2 * torch.cos(2 * x.detach()))

# %%
# Where next
# ----------
#
# :ref:`hooks` is about the order of hooks, and :ref:`gradient-edges` is about hooks on
# several tensors at once.
#
# .. asked: hook not called; hook called twice; remove a hook; hook fires several times;
#    hook on the wrong tensor
# .. words: not called, twice, wrong one, after inplace, clone, remove, too many times,
#    order
