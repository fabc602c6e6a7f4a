r"""
.. _no-grad-detach:

no_grad, detach, inference_mode: what does each of them cut?
============================================================

You want a part of your program to count as a constant. There are three ways to do this,
which people use as if they were the same, but they cut different things. :term:`detach`
cuts one tensor, in both modes of differentiation. ``no_grad`` stops the recording of a
whole block, but only for :term:`reverse mode`, because :term:`forward mode` ignores
``no_grad``. ``inference_mode`` cuts in both modes, and a tensor that was made under it
cannot be used in a recorded product later.
"""

# %%
# To see the difference, take :math:`y=c\,x` with :math:`c=x^2` at :math:`x=3`. If ``c``
# is recorded, y is :math:`x^3`, and its derivative is :math:`3x^2=27`. If ``c`` counts as
# a number, the derivative is :math:`c=9`. Here are five ways to make ``c``. One of them,
# ``set_grad_enabled(False)``, is ``no_grad`` with a switch:

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
# We differentiate with three functions:


def reverse(f):
    x = torch.tensor(3.0, requires_grad=True)
    return torch.autograd.grad(f(x), x)[0]


def forward(f):
    return torch.func.jvp(f, (torch.tensor(3.0),), (torch.tensor(1.0),))[1]


derivatives = {"autograd.grad": reverse, "func.jvp": forward}
derivatives["func.grad"] = lambda f: torch.func.grad(f)(torch.tensor(3.0))

# %%
# In the table, 27 means that the way in which ``c`` was made cut nothing, and 9 means that
# it cut the path through ``c``:

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
# Remember the row of ``no_grad``, which has 9 in reverse mode but 27 in forward mode.
#
# "Inference tensors cannot be saved for backward"
# ------------------------------------------------
#
# This is the message behind each ``error`` in the table. For its :term:`VJP` the product
# ``c * x`` has to keep ``c``, and a tensor from ``inference_mode`` cannot be kept:

print(*messages)

# %%
# A sum does not have to keep ``c``, so ``c + x`` works. If the old log-probabilities of
# your policy come from ``inference_mode`` and training fails with this message, compute
# them under ``no_grad`` instead, or call ``clone()`` on them outside the block:

x = torch.tensor(3.0, requires_grad=True)
c = ways["inference_mode"](x)
print((c + x).requires_grad, torch.autograd.grad(c.clone() * x, x)[0])

# %%
# What you can still do inside no_grad and inference_mode
# -------------------------------------------------------
#
# Some things still work inside a block of ``no_grad`` or ``inference_mode``.
# ``enable_grad`` undoes ``no_grad``, though not ``inference_mode``. :func:`torch.func.grad`
# does its own recording in both blocks, and its result has no graph. Inside either block,
# you may call backward through a graph that was made before. And you may edit a leaf in
# place, which is what optimizers do:

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
# ``inference_mode(False)`` undoes ``inference_mode``. You need it if your model computes
# forces, which are derivatives, and Lightning runs the model in ``trainer.validate``,
# ``test`` or ``predict``. These three methods run under ``inference_mode``, unless the
# Trainer was made with ``inference_mode=False``. The validation inside ``fit`` runs under
# ``no_grad``, because Lightning's training loop switches ``inference_mode`` off for it, and
# so ``enable_grad`` is enough there. If ``validate``, ``test`` or ``predict`` runs under
# ``inference_mode``, switch this mode off around the computation of the forces, and clone
# the tensors that were made under ``inference_mode``, because such tensors cannot require a
# gradient:

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
# A fourth way to stop gradients is ``requires_grad_(False)``. It freezes a leaf, such as a
# weight, but it does not cut a path. A frozen layer still hands the gradient on to its
# input. PyTorch refuses ``requires_grad_(False)`` on a computed tensor that requires a
# gradient:

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
# *Does no_grad replace model.eval()?* No. ``eval()`` changes what some layers compute, but
# recording goes on. ``no_grad`` stops the recording, and all layers compute as before:
# dropout still drops, and running statistics are still updated. Validation needs both
# ``eval()`` and ``no_grad``, and ``model.train()`` afterwards. As long as nothing from the
# block is used in training, ``inference_mode`` may take the place of ``no_grad``. It is a
# little faster (:ref:`eval-or-no-grad`):

dropout, norm = torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(1)
ones = torch.ones(100, 1, requires_grad=True)
with torch.no_grad():
    print("some dropped:", (dropout(ones) == 0).any().item())
    norm(ones)
print("mean moved:", norm.running_mean.item() != 0)
print(norm.eval()(dropout.eval()(ones)).requires_grad)

# %%
# ``detach()`` makes no copy. The result shares its memory with the original tensor, so if
# you edit the result in place, you may change a value that ``backward`` needs
# (:ref:`in-place`). Call ``clone()`` on the result before you edit it:

y = x**2
x.detach().mul_(10)
print(x)
try:
    y.backward()
except RuntimeError as error:
    print(str(error).partition("; expected")[0])

# %%
# As a check, we compare the table with two difference quotients. In one, ``c`` is computed
# again at each point, and in the other it is held at 9. Forward mode through ``no_grad``
# must agree with the first quotient:


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
# :ref:`cut-graphs` shows how to cut a graph on purpose, and :ref:`closures-of-zeros` shows
# a Jacobian that is zero because of a cut. :ref:`several-threads` explains what these modes
# do in other threads, and :ref:`silent-traps` has more mistakes that raise no error.
#
# .. asked: no_grad or detach; difference of detach and no_grad; inference_mode; stop
#    tracking gradients; torch.no_grad meaning; detach explained; cut the graph; turn
#    off autograd; do not record operations; with torch.no_grad; cut a tensor from the
#    graph
# .. words: evaluate, validation, stop, freeze, faster inference, save memory, untracked,
#    .data, eval, context, cut, numpy
