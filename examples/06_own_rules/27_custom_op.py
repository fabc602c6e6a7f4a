r"""
.. _custom-op:

torch.library.custom_op or autograd.Function: how do I give an operator a backward?
===================================================================================

You have an operation that PyTorch cannot differentiate, because it is in NumPy or in a
kernel that you wrote. You can give it a backward rule with ``autograd.Function`` or with
``torch.library.custom_op``. The two differ in how much of your code a tracer sees.
``custom_op`` hides your code from tracers: ``torch.compile`` and ``torch.export`` see a
single operator, and get the shape of its output from its fake version. You register the
backward rule of the operator separately. Like the ``backward`` of a Function, it receives
``v``. If you want to compile this rule, too, it must consist of operators that a tracer
knows.
"""

# %%
# Our example is the running maximum, which we compute with NumPy. It takes a tensor of
# shape ``(n,)`` and returns a tensor of the same shape. The type annotations of the
# function define the schema of the operator. With ``mutates_args=()`` you declare that
# the operator writes to none of its arguments:

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
# *The output requires grad, and backward fails.* We have not registered a backward rule
# yet, so calling ``backward`` raises an error. There is a second problem. A tracer cannot
# run NumPy, and so it cannot find out the shape of the result:

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
# To solve the second problem, register a fake version of the operator, which returns an
# empty tensor with the right shape, dtype and device. Now the compiled function runs:


@running_max.register_fake
def _(x):
    return torch.empty_like(x)


print(doubled(x.detach()))

# %%
# The backward
# ------------
#
# To solve the first problem, register two functions. One of them, which you pass as
# ``setup_context``, saves the tensors that the backward rule needs. The other is the
# backward rule itself, which returns one gradient for each input. In our example output i
# is the largest of the inputs up to place i, and so ``v[i]`` goes to the place of this
# largest input. If several entries of ``v`` go to the same place, they are added up. We
# find the places with torch's own operators:


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
# *May I use NumPy in backward, too?* You may in eager mode. If you want to compile the
# backward rule, it has to become an operator as well, because a tracer goes into
# ``backward``. The backward rule of the next operator calls NumPy directly, and in eager
# mode this works:


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
# If the same operator is compiled, its backward pass raises an error:

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # which say where the operator was called
    try:
        torch.compile(cube, backend="aot_eager")(x).sum().backward()
    except Exception as error:
        print(type(error).__name__)

# %%
# If the backward rule is an operator, the tracer sees it as a single node, and the compiled
# function works. If you registered a backward rule for *this* operator as well, you would
# have a second derivative.


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
# *May I return an input, or a view of it?* No, return a copy. If torch made the view, the
# call to the operator raises an error, because a tracer assumes that the result has memory
# of its own. If NumPy made the view, neither the call nor ``opcheck`` notices it. If you
# then edit the result, the input changes in eager mode, but not in the compiled function.
# In the code below, each input consists of ones, and the result of the operator is
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
# ``opcheck`` tests an operator, and finds a wrong fake version or a wrong schema. But the
# operator that returns NumPy's view passes this test, too, as the second line of the output
# shows:

print(torch.library.opcheck(running_max, (x,)))
print(set(torch.library.opcheck(same_memory, (torch.ones(2), True)).values()))

# %%
# *Does a custom operator work under torch.func?* It does not. PyTorch turns the backward
# that you registered into a Function of the old form, which ``func.grad`` refuses. In
# :term:`forward mode` the result is worse than an error, because you get 0 without a
# warning:

try:
    torch.func.grad(lambda x: cube(x).sum())(x.detach())
except RuntimeError as error:
    print(str(error).partition(" (")[0])
print(torch.func.jvp(cube, (x.detach(),), (torch.ones(4),))[1])

# %%
# An operator or a Function: which of the two?
# --------------------------------------------
#
# Use ``autograd.Function`` if your ``forward`` consists of torch's operators. A tracer sees
# these operators, and so the compiler can make them fast. A Function can also have a
# ``jvp``, and a rule for :term:`vmap` (:ref:`function-under-transforms`). Use an operator
# for code that a tracer must not look into, such as a CUDA or Triton kernel, NumPy code, or
# code that reads a file. To give an operator a rule for ``vmap``, call ``register_vmap``.
#
# As a check, we test both operators with ``gradcheck``, and compare the first with torch's
# own running maximum:

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
# To write an operation as a Function, read :ref:`custom-function`.
# :ref:`compiled-and-exported` explains what a compiled backward refuses.
# :ref:`sort-and-topk` explains which entry gets ``v`` if several are equally large.
#
# .. asked: torch.library.custom_op; register_autograd; custom operator with
#    torch.compile; Triton kernel backward; own operator and its gradient; register_fake
# .. words: kernel, triton, cuda, register, compile, schema, opcheck, mutate, extension
