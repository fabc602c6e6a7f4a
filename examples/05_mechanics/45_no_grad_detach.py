r"""
.. _no-grad-detach:

no_grad, detach, inference_mode: what does each of them cut?
============================================================

:term:`detach` cuts one tensor, in both modes of differentiation. ``no_grad`` stops the
recording of a block in :term:`reverse mode` alone: :term:`forward mode` sees through it.
``inference_mode`` cuts both, and its results may not enter a recorded product later.
"""

# %%
# Take :math:`y=c\,x` with :math:`c=x^2` at :math:`x=3`; everything has shape ``()``. With
# ``c`` recorded :math:`y'=3x^2=27`; with ``c`` a number :math:`y'=c=9`. Five ways to make
# ``c``; ``set_grad_enabled(False)`` is ``no_grad`` with a switch:

import torch


def square(x):
    return x**2


ways = {
    "recorded": square,
    "detach": lambda x: square(x).detach(),
    "no_grad": torch.no_grad()(square),
    "set_grad_enabled": torch.set_grad_enabled(False)(square),
    "inference_mode": torch.inference_mode()(square),
}

# %%
# Three ways to differentiate. Every cell of the table is computed, an error included:


def reverse(f):
    x = torch.tensor(3.0, requires_grad=True)
    return torch.autograd.grad(f(x), x)[0]


def forward(f):
    return torch.func.jvp(f, (torch.tensor(3.0),), (torch.tensor(1.0),))[1]


derivatives = {"autograd.grad": reverse, "func.jvp": forward}
derivatives["func.grad"] = lambda f: torch.func.grad(f)(torch.tensor(3.0))

# %%
# 27 says that the way cut nothing, 9 that it cut:

table, messages = {}, set()
print(f"{'':16}", *(f"{name:>14}" for name in derivatives))
for name, way in ways.items():
    for column, derivative in derivatives.items():
        try:
            table[name, column] = derivative(lambda x, way=way: way(x) * x).item()
        except RuntimeError as error:
            table[name, column] = "error"
            messages.add(str(error))
    print(f"{name:16}", *(f"{table[name, column]:>14}" for column in derivatives))

# %%
# "Inference tensors cannot be saved for backward"
# ------------------------------------------------
#
# That is the error of the table: the product ``c * x`` must keep ``c`` for its :term:`VJP`,
# and it may not keep such a tensor:

print(*messages)

# %%
# A sum keeps nothing, so it runs. *My old log-probabilities come from inference_mode and
# training fails*: compute them under ``no_grad``, or ``clone()`` them outside the block:

x = torch.tensor(3.0, requires_grad=True)
c = ways["inference_mode"](x)
print((c + x).requires_grad, torch.autograd.grad(c.clone() * x, x)[0])

# %%
# What you can still do inside
# ----------------------------
#
# ``enable_grad`` undoes ``no_grad`` and not ``inference_mode``. :func:`torch.func.grad`
# records for itself in both, and its result has no graph; a graph made before may be run
# backward in both; a leaf may be edited in place, which is what optimisers do:

for block in (torch.no_grad, torch.inference_mode):
    y = x**2
    with block():
        with torch.enable_grad():
            again = (x**2).requires_grad
        own = torch.func.grad(square)(x)
        (before,) = torch.autograd.grad(y, x)
        x.mul_(1)
    print(f"{block.__name__:15} {again!s:6}", own, own.requires_grad, before)

# %%
# ``inference_mode(False)`` undoes it. *Forces in Lightning's validation*: inside ``fit`` it
# is under ``no_grad``, and ``enable_grad`` is enough (``training_epoch_loop.py`` passes
# ``inference_mode=False``). ``trainer.validate``, ``test`` and ``predict`` are under
# ``inference_mode``, unless the Trainer gets ``inference_mode=False``. Switch it off around
# the forces, and clone what was made in it, which may not require a gradient:

with torch.inference_mode():
    batch = torch.tensor(3.0)
    with torch.inference_mode(False):
        try:
            batch.requires_grad_()
        except RuntimeError as error:
            print(error)
        R = batch.clone().requires_grad_()
        print(torch.autograd.grad(R**2, R)[0])

# %%
# ``requires_grad_(False)`` freezes a leaf, not a path: a frozen layer still hands the
# gradient through to its input. On a computed tensor it is refused:

frozen = torch.nn.Linear(2, 1).requires_grad_(False)
print(*(frozen(t).requires_grad for t in (torch.ones(2), x.expand(2))))
try:
    (x * 2).requires_grad_(False)
except RuntimeError as error:
    print(error)

# %%
# What goes wrong
# ---------------
#
# *Does no_grad replace model.eval()?* No. ``eval()`` changes what layers compute and goes
# on recording; ``no_grad`` stops recording and computes as before, with dropout and new
# running statistics. Validation takes both, and ``model.train()`` afterwards:

dropout, norm = torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(1)
ones = torch.ones(100, 1, requires_grad=True)
with torch.no_grad():
    print("some dropped:", (dropout(ones) == 0).any().item())
    norm(ones)
print("mean moved:", norm.running_mean.item() != 0)
print(norm.eval()(dropout.eval()(ones)).requires_grad)

# %%
# ``detach()`` copies nothing. The result shares its numbers with the graph, and an edit
# reaches what backward needs (:ref:`in-place`); add ``clone()`` to edit it:

y = x**2
x.detach().mul_(10)
print(x)
try:
    y.backward()
except RuntimeError as error:
    print(str(error).partition("; expected")[0])

# %%
# The check of the table by difference quotients, with ``c`` computed anew at each point
# and with ``c`` held at 9. Forward mode through ``no_grad`` must give the first:


def quotient(y, at=3.0, h=1e-4):
    at = torch.tensor(at, dtype=torch.float64)
    return round(((y(at + h) - y(at - h)) / (2 * h)).item(), 4)


moving, held = quotient(lambda x: square(x) * x), quotient(lambda x: 9 * x)
assert table["recorded", "func.jvp"] == table["no_grad", "func.jvp"] == moving
assert {table["detach", column] for column in derivatives} == {held}
assert table["no_grad", "autograd.grad"] == table["inference_mode", "func.jvp"] == held

# %%
# Where next
# ----------
#
# A graph cut on purpose: :ref:`cut-graphs`. A Jacobian that is zero because of a cut:
# :ref:`closures-of-zeros`. Modes and threads: :ref:`several-threads`. Other traps without a
# message: :ref:`silent-traps`.
#
# .. asked: no_grad or detach; difference of detach and no_grad; inference_mode; stop
#    tracking gradients; torch.no_grad meaning; detach explained; cut the graph; turn
#    off autograd; do not record operations; with torch.no_grad; cut a tensor from the
#    graph
