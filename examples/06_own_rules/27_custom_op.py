r"""
.. _custom-op:

torch.library.custom_op or autograd.Function: how do I give an operator a backward?
===================================================================================

``custom_op`` hides your code from tracers: ``torch.compile`` and ``torch.export`` see one
operator, with shapes from its fake version. Its backward is registered apart, gets ``v`` as
a Function's does, and must be made of operators that a tracer knows.
"""

# %%
# An operator that only NumPy can compute, of shape ``(n,)`` to ``(n,)``: the running
# maximum. The annotations are the schema, and ``mutates_args`` says that nothing is written
# to:

import warnings

import numpy as np
import torch
from torch import Tensor


@torch.library.custom_op("pages::running_max", mutates_args=())
def running_max(x: Tensor) -> Tensor:
    return torch.from_numpy(np.maximum.accumulate(x.detach().numpy()))


x = torch.tensor([1.0, 3.0, 2.0, 5.0], requires_grad=True)
running_max(x).detach()

# %%
# What goes wrong
# ---------------
#
# *The output requires grad, and backward raises.* No rule is known yet. And a tracer cannot
# run NumPy; it asks for the shape of the result:

try:
    running_max(x).sum().backward()
except RuntimeError as error:
    print(str(error).partition(". ")[0])


@torch.compile(backend="aot_eager", fullgraph=True)
def doubled(x):
    return 2 * running_max(x)


try:
    doubled(x.detach())
except Exception as error:
    print(type(error).__name__)

# %%
# The fake version returns an empty tensor of the right shape, dtype and device:


@running_max.register_fake
def _(x):
    return torch.empty_like(x)


print(doubled(x.detach()))

# %%
# The backward
# ------------
#
# ``setup_context`` keeps what is needed, ``backward`` returns one gradient for each input.
# Output i is the input at the place of the largest so far; so ``v[i]`` goes there, and what
# arrives twice adds up. The place is found by torch's own operators:


def keep(ctx, inputs, output):
    (x,) = inputs
    ctx.save_for_backward(x, output)


def backward(ctx, v):
    x, y = ctx.saved_tensors
    place = torch.where(x == y, torch.arange(len(x)), 0).cummax(0).values
    return torch.zeros_like(v).index_add(0, place, v)


running_max.register_autograd(backward, setup_context=keep)
v = torch.tensor([1.0, 10.0, 100.0, 1000.0])
print(torch.autograd.grad(running_max(x), x, v)[0])
print(torch.autograd.grad(doubled(x), x, v)[0])

# %%
# *NumPy in backward too?* Then it must be an operator of its own, as a tracer follows
# ``backward``. This one leaves torch in the open, which eager mode allows and the compiled
# function does not:


@torch.library.custom_op("pages::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy() ** 3)


cube.register_fake(torch.empty_like)
cube.register_autograd(
    lambda ctx, v: v * torch.from_numpy(3 * ctx.saved_tensors[0].detach().numpy() ** 2),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
print(torch.autograd.grad(cube(x).sum(), x)[0])

# %%
# Compiled:

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # where the operator was called
    try:
        torch.compile(cube, backend="aot_eager")(x).sum().backward()
    except Exception as error:
        print(type(error).__name__)

# %%
# As an operator of its own, it is one more node for the tracer. With a rule for *it* too,
# there would be a second derivative:


@torch.library.custom_op("pages::cube_vjp", mutates_args=())
def cube_vjp(x: Tensor, v: Tensor) -> Tensor:
    return torch.from_numpy(3 * x.detach().numpy() ** 2 * v.detach().numpy())


cube_vjp.register_fake(lambda x, v: torch.empty_like(x))
cube.register_autograd(
    lambda ctx, v: cube_vjp(*ctx.saved_tensors, v),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
print(torch.autograd.grad(torch.compile(cube, backend="aot_eager")(x).sum(), x)[0])

# %%
# *Returning an input, or a view of it that torch made*, is refused at the call, as the
# tracer takes the result for new memory. A view that NumPy made is not noticed, neither by
# the call nor by ``opcheck``. An edit of the result then changes the input in eager mode,
# and not when compiled. Return a copy. Each input begins as ones, and its result is
# multiplied by 10:


@torch.library.custom_op("pages::same_memory", mutates_args=())
def same_memory(x: Tensor, by_numpy: bool) -> Tensor:
    return torch.from_numpy(x.numpy()) if by_numpy else x.view(-1)


same_memory.register_fake(lambda x, by_numpy: torch.empty_like(x))


def edited(x, by_numpy):
    same_memory(x, by_numpy).mul_(10)
    return x + 0


seen = {}
for name, run in (
    ("eager", edited),
    ("compiled", torch.compile(edited, backend="aot_eager")),
):
    seen[name] = run(torch.ones(2), True).tolist()
    print(f"{name:9} NumPy's view:", seen[name])
try:
    same_memory(torch.ones(2), False)
except RuntimeError as error:
    seen["torch"] = "may not alias any inputs" in str(error)
    print("torch's view: refused")

# %%
# ``opcheck`` finds a wrong fake and a wrong schema, and passes this operator all the same:

print(torch.library.opcheck(running_max, (x,)))
print(set(torch.library.opcheck(same_memory, (torch.ones(2), True)).values()))

# %%
# *Under torch.func.* The rule that you registered is a Function of the old form:
# ``func.grad`` refuses it. :term:`Forward mode <forward mode>` gives 0, without a word:

try:
    torch.func.grad(lambda x: cube(x).sum())(x.detach())
except RuntimeError as error:
    print(str(error).partition(" (")[0])
print(torch.func.jvp(cube, (x.detach(),), (torch.ones(4),))[1])

# %%
# Which of the two?
# -----------------
#
# ``autograd.Function``: its ``forward`` is traced through, so it stays fast where it is
# made of torch's operators, and it can have a ``jvp`` and a rule for :term:`vmap`
# (:ref:`function-under-transforms`). An operator: for code that must not be looked into, a
# CUDA or Triton kernel, NumPy, a file; for ``vmap`` there is ``register_vmap``.
#
# The check: ``gradcheck``, and torch's own running maximum:

points = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0], dtype=torch.float64, requires_grad=True)
assert torch.autograd.gradcheck(running_max, (points,))
w = torch.arange(1.0, 6.0).double()
(own,) = torch.autograd.grad(points.cummax(0).values, points, w)
assert torch.equal(torch.autograd.grad(running_max(points), points, w)[0], own)
assert torch.autograd.gradcheck(cube, (points,))
assert seen == {"eager": [10, 10], "compiled": [1, 1], "torch": True}

# %%
# Where next
# ----------
#
# The same as a Function: :ref:`custom-function`. What a compiled backward refuses:
# :ref:`compiled-and-exported`. Who gets v at a tie: :ref:`sort-and-topk`.
#
# .. asked: torch.library.custom_op; register_autograd; custom operator with
#    torch.compile; Triton kernel backward; own operator and its gradient; register_fake
#
# .. words: kernel, triton, cuda, register, compile, schema, opcheck, mutate, extension
