r"""
.. _several-threads:

May several threads call backward at once?
==========================================

You have several threads and want each of them to call ``backward``. They may, if each
thread has its own graph. Call :func:`torch.autograd.grad` in each thread, and add up the
results in a fixed order. Trouble comes from what threads share. The first thread to use a
shared graph frees it. In the ``.grad`` of a shared leaf, the gradients from the threads are
added up in the order in which they arrive. Most modes that you set with a ``with`` block do
not apply in a thread that you start inside the block.
"""

# %%
# Four threads differentiate :math:`y_k=k\,x^2` for :math:`k=1\dots4`. The :term:`Jacobian`
# is ``diag(2kx)``, and so with ones for ``v`` each thread gets :math:`2kx`, of shape
# ``(2,)``. ``map`` returns the results in order, whichever thread finishes first:

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
# For the part of a graph that is on the CPU, ``backward`` runs in the thread that calls it,
# and so do its hooks. The graph may have been made in another thread, as it is here:

h = 3 * x
h.register_hook(lambda g: print("the hook runs in", threading.current_thread().name))
other = threading.Thread(target=h.backward, args=(v,), name="another thread")
other.start()
other.join()

# %%
# What goes wrong
# ---------------
#
# Two threads may share one graph. Then the first thread frees the graph, and the second
# gets an error that advises you to retain it. With ``retain_graph=True`` both threads get
# their gradient. Here one thread runs after the other. If they run at the same time, it
# depends on chance which of them gets the error. Now and then neither thread gets it, so a
# test may pass:

for flags in ({}, {"retain_graph": True}):
    y = x**2
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(torch.autograd.grad, y, x, v, **flags)
        print(str(task.exception() or task.result()[0]).partition(" (or")[0])

# %%
# Two threads may also share one leaf. Their gradients are added to its ``.grad`` in the
# order in which they arrive, and a rounded sum depends on this order. Here each thread
# waits for the thread before it. We try two different orders:


def in_order(terms):
    leaf = torch.tensor(0.0, requires_grad=True)
    for term in terms:
        thread = threading.Thread(target=(leaf * term).backward)
        thread.start()
        thread.join()
    return leaf.grad.item()


print(in_order([1e8, 1.0, -1e8]), in_order([1e8, -1e8, 1.0]))

# %%
# No gradient is lost, even if all of them arrive at once. But nothing prevents one thread
# from calling ``step`` or ``zero_grad`` before the other threads have added their
# gradients.

# %%
# *A thread that I start does not see my context.* Recording, ``autocast`` and the hooks on
# :term:`saved tensors <saved tensor>` belong to the thread that set them. A new thread
# begins with the defaults. Each triple says whether recording is on, whether ``autocast``
# is on, and whether the hooks have seen a tensor:


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
# *Does it not see my default device either?* No, even if you set it with
# ``set_default_device``. The default dtype and anomaly mode are different. Both belong to
# the process, and so the thread sees them:

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
# *Is my dropout the same in every run?* With threads it need not be. All threads draw
# from the same generator, in the order in which they happen to call it. The first result
# below shows that a thread drew the number that the main thread was meant to draw, and
# the second shows that the main thread got another number. If a function takes a
# ``generator``, you can give each thread its own, as we do for the third result. Dropout
# does not take a generator, so draw its masks with ``torch.bernoulli``:

torch.manual_seed(0)
first = torch.rand(1)
torch.manual_seed(0)
with ThreadPoolExecutor(1) as pool:
    there = pool.submit(torch.rand, 1).result()
mine = torch.rand(1, generator=torch.Generator().manual_seed(0))
print(*(torch.equal(drawn, first) for drawn in (there, torch.rand(1), mine)))

# %%
# *I start a thread inside torch.func.grad.* A transform belongs to the thread that called
# it. So the transform treats anything that another thread computes as a constant, and there
# is no warning. In :math:`x\cdot x^2`, only the first factor is differentiated, and the
# result is :math:`x^2`. It should be :math:`3x^2`, which is printed after it:


def cube(x):
    with ThreadPoolExecutor(1) as pool:
        return (x * pool.submit(lambda: x**2).result()).sum()


inside = torch.func.grad(cube)(x.detach())
print(inside, torch.autograd.grad(cube(x), x)[0])

# %%
# If you call the transform inside the thread instead, the result is right:

with ThreadPoolExecutor(2) as pool:
    own = [
        pool.submit(torch.func.grad(lambda x: (x**3).sum()), x.detach()) for _ in range(2)
    ]
print([each.result() for each in own])

# %%
# An error in a ``Thread`` is printed, and then it is lost. If you use a pool, ``result()``
# raises the error where you wait for it:

with ThreadPoolExecutor(1) as pool:
    task = pool.submit((2 * x).backward)
    try:
        task.result()
    except RuntimeError as error:
        print(error)

# %%
# As a check, we compare the sum of the threads' gradients with the gradient of one graph in
# one thread. We compare both slopes of :math:`x^3` with a difference quotient. The slope
# from the transform that was called inside the thread must match it, and the other must
# not:

(serial,) = torch.autograd.grad(10 * x**2, x, v)
assert torch.equal(torch.stack(parts).sum(0), serial)
quotient = ((x.detach().double() + 1e-6) ** 3 - (x.detach().double() - 1e-6) ** 3) / 2e-6
torch.testing.assert_close(own[0].result(), quotient.float())
assert not torch.allclose(inside, quotient.float())

# %%
# Where next
# ----------
#
# :ref:`no-grad-detach` explains what ``no_grad`` cuts, and :ref:`second-backward` is about
# a second backward in one thread. :ref:`across-processes` is about processes in place of
# threads.
#
# .. asked: backward from several threads; multithreaded training; thread safety of
#    autograd; hogwild; parallel backward calls
# .. words: parallel, concurrent, race, hogwild, dataloader, multiprocessing, lock, workers,
#    asynchronous
