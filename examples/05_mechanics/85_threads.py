r"""
.. _several-threads:

May several threads call backward at once?
==========================================

Yes, each on a graph of its own: take :func:`torch.autograd.grad` in each and add up in a
fixed order. What they share is trouble: a graph is freed by the first, and a leaf's
``.grad`` takes the parts as they come. Modes set by a ``with`` mostly do not follow into a
thread.
"""

# %%
# :math:`y_k=k\,x^2` for :math:`k=1\dots4`, so the :term:`Jacobian` is ``diag(2kx)``, and
# with ``v`` of ones each thread gets :math:`2kx`, of shape ``(2,)``. ``map`` returns them
# in order, whichever is done first:

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

x, v = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(2)


def product(k):
    return torch.autograd.grad(k * x**2, x, v)[0]


with ThreadPoolExecutor(4) as pool:
    parts = list(pool.map(product, range(1, 5)))
x.grad = torch.stack(parts).sum(0)
print(parts, x.grad)

# %%
# A ``backward`` runs in the thread that calls it, as far as the graph is on the CPU, and so
# do its hooks. The graph may come from another thread:

h = 3 * x
h.register_hook(lambda g: print("the hook runs in", threading.current_thread().name))
other = threading.Thread(target=h.backward, args=(v,), name="another thread")
other.start()
other.join()

# %%
# What goes wrong
# ---------------
#
# One graph for two threads. The first one frees it, and the second is told to retain; with
# ``retain_graph=True`` both get their product. Here one comes after the other. At the same
# moment it is chance who is refused, and now and then nobody is, so that a test may pass:

for flags in ({}, {"retain_graph": True}):
    y = x**2
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(torch.autograd.grad, y, x, v, **flags)
        print(str(task.exception() or task.result()[0]).partition(" (or")[0])

# %%
# One ``.grad`` for all threads takes the parts in the order in which they come, and a
# rounded sum depends on it. Here each thread waits for the one before, in two orders:


def in_order(terms):
    leaf = torch.tensor(0.0, requires_grad=True)
    for term in terms:
        thread = threading.Thread(target=(leaf * term).backward)
        thread.start()
        thread.join()
    return leaf.grad.item()


print(in_order([1e8, 1.0, -1e8]), in_order([1e8, -1e8, 1.0]))

# %%
# No part is lost, also where all come at once. But nothing keeps the ``step`` or the
# ``zero_grad`` of one thread from falling between the parts of the others.

# %%
# *A thread that I start does not see my context.* These belong to the thread that set them:
# recording, ``autocast``, hooks on what is saved. A new one begins with the defaults:


def seen():
    saved.clear()
    recording = (x**2).requires_grad
    return recording, torch.is_autocast_enabled("cpu"), len(saved) > 0


saved, keep = [], lambda t: saved.append(t) or t
hooks = torch.autograd.graph.saved_tensors_hooks(keep, keep)
with torch.autocast("cpu", dtype=torch.bfloat16), hooks, ThreadPoolExecutor(1) as pool:
    print("here", seen(), "there", pool.submit(seen).result())
with torch.no_grad(), ThreadPoolExecutor(1) as pool:
    print("here", seen(), "there", pool.submit(seen).result())

# %%
# *Nor my default device?* No, even if ``set_default_device`` has set it. The default dtype
# it sees, as well as anomaly mode: those belong to the process:

torch.set_default_device("meta")
torch.set_default_dtype(torch.float64)
with ThreadPoolExecutor(1) as pool:
    there = pool.submit(torch.ones, 1).result()
print("here", torch.ones(1).device, "there", there.device, there.dtype)
torch.set_default_device(None)
torch.set_default_dtype(torch.float32)
with torch.autograd.set_detect_anomaly(True), ThreadPoolExecutor(1) as pool:
    print("anomaly there", pool.submit(torch.is_anomaly_enabled).result())

# %%
# *Is my dropout the same in every run?* Not with threads: they draw from one generator, in
# the order in which they come. What takes a ``generator`` can have one for each thread;
# dropout does not, so draw its masks with ``torch.bernoulli``:

torch.manual_seed(0)
first = torch.rand(1)
torch.manual_seed(0)
with ThreadPoolExecutor(1) as pool:
    there = pool.submit(torch.rand, 1).result()
mine = torch.rand(1, generator=torch.Generator().manual_seed(0))
print(*(torch.equal(drawn, first) for drawn in (there, torch.rand(1), mine)))

# %%
# *A thread inside of torch.func.grad.* A transform belongs to its thread as well, so what
# another one computes is a constant, without a word. Of :math:`x\cdot x^2` the first factor
# is left, :math:`x^2` where :math:`3x^2` is right:


def cube(x):
    with ThreadPoolExecutor(1) as pool:
        return (x * pool.submit(lambda: x**2).result()).sum()


inside = torch.func.grad(cube)(x.detach())
print(inside, torch.autograd.grad(cube(x), x)[0])

# %%
# The other way round, the transform inside of the thread, is right:

with ThreadPoolExecutor(2) as pool:
    own = [
        pool.submit(torch.func.grad(lambda x: (x**3).sum()), x.detach()) for _ in range(2)
    ]
print([each.result() for each in own])

# %%
# An error in a ``Thread`` is printed and forgotten; ``result()`` of a pool raises it where
# you wait:

with ThreadPoolExecutor(1) as pool:
    task = pool.submit((2 * x).backward)
    try:
        task.result()
    except RuntimeError as error:
        print(error)

# %%
# The check: the sum of the parts against one graph in one thread, and the slope of
# :math:`x^3` by a difference quotient, which only one of the two ways meets:

(serial,) = torch.autograd.grad(10 * x**2, x, v)
assert torch.equal(torch.stack(parts).sum(0), serial)
quotient = ((x.detach().double() + 1e-6) ** 3 - (x.detach().double() - 1e-6) ** 3) / 2e-6
torch.testing.assert_close(own[0].result(), quotient.float())
assert not torch.allclose(inside, quotient.float())

# %%
# Where next
# ----------
#
# What ``no_grad`` covers: :ref:`no-grad-detach`. A second backward in one thread:
# :ref:`second-backward`. Processes in place of threads: :ref:`across-processes`.
#
# .. asked: backward from several threads; multithreaded training; thread safety of
#    autograd; hogwild; parallel backward calls
# .. words: parallel, concurrent, race, hogwild, dataloader, multiprocessing, lock, workers,
#    asynchronous
