r"""
.. _custom-op:

torch.library.custom_op or autograd.Function: how do I give an operator a backward?
===================================================================================

You have an operation that PyTorch cannot differentiate, because it is in NumPy or in a
kernel that you wrote. ``autograd.Function`` gives it a backward, and so does
``torch.library.custom_op``. The difference is in what tracers see. ``custom_op`` hides your
code from them: ``torch.compile`` and ``torch.export`` see one operator, whose shapes come
from its fake version. You register its backward separately. Like that of a Function, this
backward receives ``v``. If it is to be compiled as well, it must be made of operators that
a tracer knows.
"""

# %%
# Our example is the running maximum, computed by NumPy, from shape ``(n,)`` to shape
# ``(n,)``. The annotations of the function are the schema of the operator. With
# ``mutates_args=()`` you say that it writes to none of its arguments:

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
# *The output requires grad, and backward raises.* We have not given a rule yet. There is
# a second problem. A tracer cannot run NumPy, and so it cannot find out the shape of the
# result:

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
# For the second problem, register a fake version. It returns an empty tensor with the
# right shape, dtype and device. Now the compiled function runs:


@running_max.register_fake
def _(x):
    return torch.empty_like(x)


print(doubled(x.detach()))

# %%
# The backward
# ------------
#
# For the first problem, register two functions. ``setup_context`` keeps what is needed,
# and ``backward`` returns one gradient for each input. Here output i is the largest input
# so far, and so ``v[i]`` goes to the place of this input. If several arrive at the same
# place, they are added up. We find the place with torch's own operators:


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
# *May I use NumPy in backward, too?* If you do, the backward has to become an operator as
# well, because a tracer follows ``backward``. The next operator calls NumPy openly in its
# backward. Eager mode allows this:


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
# The compiled function does not:

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # which say where the operator was called
    try:
        torch.compile(cube, backend="aot_eager")(x).sum().backward()
    except Exception as error:
        print(type(error).__name__)

# %%
# If the backward is an operator, the tracer sees one more node, and it works. (If you
# gave a rule to *this* operator as well, you would have a second derivative.)


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
# *May I return an input, or a view of it?* If torch made the view, this is refused at the
# call, because the tracer takes the result for new memory. If NumPy made the view, it is
# noticed neither by the call nor by ``opcheck``. If you then edit the result, the input
# changes in eager mode, but not when compiled. So return a copy. In the cell, each input
# begins as ones, and its result is multiplied by 10:


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
# ``opcheck`` tests an operator for you. It finds a wrong fake version or a wrong schema.
# But the operator that returns NumPy's view passes, too, as the second line shows:

print(torch.library.opcheck(running_max, (x,)))
print(set(torch.library.opcheck(same_memory, (torch.ones(2), True)).values()))

# %%
# *Does it work under torch.func?* It does not. The rule that you have registered is a
# Function of the old form, and ``func.grad`` refuses it. :term:`Forward mode <forward
# mode>` is worse: it gives 0 without a warning:

try:
    torch.func.grad(lambda x: cube(x).sum())(x.detach())
except RuntimeError as error:
    print(str(error).partition(" (")[0])
print(torch.func.jvp(cube, (x.detach(),), (torch.ones(4),))[1])

# %%
# Which of the two?
# -----------------
#
# Take ``autograd.Function`` if your ``forward`` is made of torch's operators. It is
# traced through, and so the compiler can make it fast. It can also have a ``jvp``, and a
# rule for :term:`vmap` (:ref:`function-under-transforms`). Take an operator for code that
# a tracer must not look into, such as a CUDA or Triton kernel, NumPy, or the reading of a
# file. For ``vmap`` it has ``register_vmap``.
#
# As a check, we use ``gradcheck``, and compare with torch's own running maximum:

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
# :ref:`custom-function` does the same as a Function. :ref:`compiled-and-exported` says
# what a compiled backward refuses, and :ref:`sort-and-topk` who gets v at a tie.
#
# .. asked: torch.library.custom_op; register_autograd; custom operator with
#    torch.compile; Triton kernel backward; own operator and its gradient; register_fake
# .. words: kernel, triton, cuda, register, compile, schema, opcheck, mutate, extension
