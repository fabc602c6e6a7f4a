r"""
.. _other-libraries:

A JAX, CuPy, NumPy or SciPy function in the middle of my graph
==============================================================

Water leaks into a canal at unknown places, and you want to find these places from
measurements downstream. A colleague has a solver that computes the measurements from the
leaks. The solver is written with SciPy, and PyTorch cannot look inside it. If the solver is
in the middle of your model, ``loss.backward()`` stops at the solver. But the backward pass
can go through it, if the solver can answer one question: *what is your*
:term:`vector-Jacobian product` *with this v?* A ``Function`` asks this question, with the
``v`` that arrives.
"""

# %%
# What the other side has to provide
# ----------------------------------
#
# You need a value, and a function ``pull`` that takes a ``v`` of the value's shape and
# returns :math:`J^\top v`. Many libraries can give you such a pair. ``jax.vjp`` returns
# one, but its ``pull`` returns a tuple, so pass ``lambda v: pull(v)[0]``. For our
# colleague's solver, ``pull`` takes one line of mathematics. Let ``x`` be the amounts of
# water that leak in at 50 places, and ``y`` the measurements at these places. The solver
# solves :math:`Ay=x`, where :math:`A` says that the water flows one way and spreads a
# little. So :math:`y=A^{-1}x`, the :term:`Jacobian` is :math:`A^{-1}`, and ``pull``
# solves a system with the transposed matrix:

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import factorized
from torch.autograd import Function
from torch.autograd.function import once_differentiable

n = 50
A = sp.diags([-1.4, 2.5, -1.0], [-1, 0, 1], shape=(n, n)).tocsc()
forward, transposed = factorized(A), factorized(A.T.tocsc())


def solve_and_pull(x):
    """Take an array, and return an array and the product with the transposed Jacobian."""
    return forward(x), transposed


# %%
# A bridge between PyTorch and another library
# --------------------------------------------
#
# This class connects any such function with PyTorch, and you can copy it. DLPack lets one
# library read the memory of another without a copy, on the same device.
# ``torch.from_dlpack`` takes arrays of NumPy, CuPy and JAX. ``into`` is the function
# ``from_dlpack`` of the other library, from ``numpy``, ``cupy`` or ``jax.dlpack``:


class Bridge(Function):
    @staticmethod
    def forward(ctx, x, value_and_pull, into):
        y, ctx.pull = value_and_pull(into(x.detach()))
        ctx.into = into
        return torch.from_dlpack(y)

    @staticmethod
    @once_differentiable
    def backward(ctx, v):
        product = torch.from_dlpack(ctx.pull(ctx.into(v.detach().contiguous())))
        return product.clone(), None, None  # .grad may keep it and add to it in place


# %%
# ``backward`` receives ``v``, the gradient of the loss with respect to ``y``, and has to
# return the gradient with respect to ``x``. It computes nothing itself, but passes ``v``
# to ``pull``. The two ``None`` belong to the other two arguments, which are not tensors.
#
# Where does water leak into the canal?
# -------------------------------------
#
# We let water leak into the canal at two places, and measure with a little noise. No
# water can leak *out*, so the leaks are the ``softplus`` of the parameters, which is
# always positive. Everything around the solver is PyTorch, and the optimizer sees an
# ordinary model:

at = torch.linspace(0, 1, n, dtype=torch.float64)
leaks = (-(((at - 0.3) / 0.06) ** 2)).exp() + 0.6 * (-(((at - 0.7) / 0.04) ** 2)).exp()
generator = torch.Generator().manual_seed(0)  # the same noise on every build
noise = 0.02 * torch.randn(n, dtype=torch.float64, generator=generator)
measured = torch.from_numpy(forward(leaks.numpy())) + noise


def find_leaks(value_and_pull):
    theta = torch.full((n,), -2.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for step in range(301):
        x = torch.nn.functional.softplus(theta)
        y = Bridge.apply(x, value_and_pull, np.from_dlpack)
        loss = ((y - measured) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}")
    return x.detach(), y.detach()


found, explained = find_leaks(solve_and_pull)

# %%
# The loss goes down, so the gradient has reached the parameters through the solver. Here
# are the measurements, and the leaks that explain them:

import matplotlib.pyplot as plt

figure, (above, below) = plt.subplots(2, layout="constrained", figsize=(5.4, 4.4))
above.plot(at, measured, ".", color="grey", label="measured")
above.plot(at, explained, label="from the leaks found")
above.set_title("What is measured along the canal, and where it comes from")
below.plot(at, leaks, "--", color="grey", label="true leaks")
below.plot(at, found, color="C1", label="leaks found")
below.set_xlabel("place")
below.legend(loc="upper left")
legend = above.legend(loc="upper right")

# %%
# The measurements rise and fall slowly, but the fit has found the two leaks in the right
# places. The result is rough because of the noise.
#
# If the numbers have to change their type
# ----------------------------------------
#
# *Expected float64 and got float32*, says the other library, or only half of the digits of
# a gradient are right. JAX computes in float32 unless ``jax_enable_x64`` is set, our solver
# computes in float64, and a model usually in float32. If the types differ, convert the
# input of the solver, and convert its output back. ``y.to(x)`` has the dtype and the device
# of ``x``, and so has the ``v`` that arrives:


class ByConversion(Function):
    @staticmethod
    def forward(ctx, x, value_and_pull):
        y, ctx.pull = value_and_pull(x.detach().cpu().double().numpy())
        return torch.from_numpy(y).to(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, v):
        product = torch.from_numpy(ctx.pull(v.detach().cpu().double().numpy()))
        return product.to(v, copy=True), None


single = torch.ones(n, requires_grad=True)
of_single = ByConversion.apply(single, solve_and_pull)
(slope_of_single,) = torch.autograd.grad((of_single**2).sum(), single)
print(of_single.dtype, slope_of_single.dtype)

# %%
# The other way around: torch inside SciPy or JAX
# -----------------------------------------------
#
# You can also make such a pair from a function in PyTorch, for a program in another
# library. The pair takes and returns arrays. It copies the array that it gets, because the
# other program may write new numbers into it before it calls ``pull``:


def pair(f):
    def value_and_pull(array):
        leaf = torch.tensor(array, requires_grad=True)  # a copy
        y = f(leaf)

        def pull(v):
            seed = torch.tensor(v, dtype=y.dtype)
            return torch.autograd.grad(y, leaf, seed, retain_graph=True)[0].numpy()

        return y.detach().numpy(), pull

    return value_and_pull


# %%
# Here is a running product of three numbers, pulled back with v = (1, 10, 100):

value, pull = pair(lambda x: x.cumprod(0))(np.array([1.0, 2, 3]))
print(value, pull(np.array([1.0, 10.0, 100.0])))

# %%
# For a function with a single number as its value, v is 1. So SciPy can minimize a function
# that is written in PyTorch (:ref:`external-loss` does the same with a loss):

from scipy.optimize import minimize

valley = pair(lambda x: (x[0] - 1) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)


def value_and_gradient(x):
    value, pull = valley(x)
    return value, pull(1.0)


lowest = minimize(value_and_gradient, np.array([-1.0, 1.0]), jac=True)
print(lowest.x.round(3))

# %%
# In JAX, save x and make the pair again in the backward rule, because JAX cannot save a
# function such as ``pull``. The pages of this site run without JAX. We have run these lines
# with JAX 0.10.2, and they gave the same product. Under ``jit`` both rules have to call the
# pair through ``jax.pure_callback``:
#
# .. code-block:: python
#
#    product = pair(lambda x: x.cumprod(0))
#    in_jax = jax.custom_vjp(lambda x: product(np.asarray(x))[0])
#    in_jax.defvjp(
#        lambda x: (in_jax(x), x),
#        lambda x, v: (product(np.asarray(x))[1](np.asarray(v)),),
#    )

# %%
# What to watch for
# -----------------
#
# **The graph ends at the border.** DLPack refuses a tensor that requires a gradient. With
# ``detach`` the numbers get through. But without a ``Function`` the result has no graph.
# If no other part of the loss has one, ``backward`` raises an error. Otherwise the
# gradient silently leaves this part out:

x = leaks.clone().requires_grad_()
try:
    np.from_dlpack(x)
except BufferError as error:
    print(error)
print(torch.from_dlpack(forward(np.from_dlpack(x.detach()))).requires_grad)

# %%
# **Both sides share the same memory.** No copy has been made, so a change on one side is a
# change on the other. Autograd counts the changes that PyTorch makes, but it does not see
# the changes that NumPy makes. Here the gradient 2x should be 2, 4, 6. But ``backward``
# computes it from the changed numbers:

leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
squares = (leaf**2).sum()
shared = np.from_dlpack(leaf.detach())
shared *= 10
print(leaf.detach(), torch.autograd.grad(squares, leaf)[0])

# %%
# **The clone in backward.** If ``.grad`` is None, PyTorch may store the product there as it
# is, and the next ``backward`` adds to it in place. If ``pull`` returns an array that the
# other library still uses, that array changes. With the ``clone``, three products of 2 add
# up to 6, and the array stays as it is. Without the ``clone`` the third sum is 8:

kept = np.full(n, 2.0)
sums = {}
for name, clone in {"with": True, "without": False}.items():

    class Tried(Bridge):
        @staticmethod
        @once_differentiable
        def backward(ctx, v, clone=clone):
            product = torch.from_dlpack(ctx.pull(ctx.into(v.detach())))
            return product.clone() if clone else product, None, None

    leaf = torch.ones(n, dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        Tried.apply(
            leaf, lambda x: (2 * x, lambda v: kept), np.from_dlpack
        ).sum().backward()
    sums[name] = leaf.grad[0].item()
    print(f"{name:8} sum {leaf.grad[0].item()}, array {kept[0]}")

# %%
# **A batch.** Our solver takes one vector, or a matrix with one vector in each *column*. A
# batch of shape ``(B, n)`` has a vector in each row. So transpose it on the way in and on
# the way out, for the value and for ``pull``. If you forget this, you get an error, except
# when ``B`` is equal to ``n``. Then the solver solves along the wrong axis, and the value
# and the gradient are wrong:


def solve_rows_and_pull(x):
    return forward(x.T).T, lambda v: transposed(v.T).T


batch = torch.randn(n, n, dtype=torch.float64, generator=generator)
one_by_one = torch.stack(
    [Bridge.apply(row, solve_and_pull, np.from_dlpack) for row in batch]
)
for name, solver in {"rows": solve_rows_and_pull, "forgotten": solve_and_pull}.items():
    at_once = Bridge.apply(batch, solver, np.from_dlpack)
    print(f"{name:9} {torch.allclose(at_once, one_by_one)}")
try:
    Bridge.apply(batch[:8], solve_and_pull, np.from_dlpack)
except ValueError as error:
    print(error)

# %%
# **A value that is a single number.** NumPy often returns a number of the type
# ``np.float64``, which is not an array. ``from_dlpack`` refuses it with a message that is
# hard to understand. Return ``np.asarray(value)``:

try:
    torch.from_dlpack(np.ones(3).sum())
except RuntimeError as error:
    print(str(error).partition(".")[0])
print(torch.from_dlpack(np.asarray(np.ones(3).sum())))

# %%
# **Transforms and second derivatives.** ``vmap``, ``jacrev`` and ``jvp`` raise an error,
# because they cannot look inside another library. ``once_differentiable`` refuses a
# second derivative if ``v`` has a graph. If ``v`` has none, the result may be wrong
# without a warning (:ref:`twice-differentiable`). For a whole :term:`Jacobian`, write a
# loop over v:

y = Bridge.apply(x, solve_and_pull, np.from_dlpack)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(n).double()]
print(len(rows), tuple(rows[0].shape))

# %%
# .. admonition:: Try it
#
#    What goes wrong if you forget the transposition, and pass ``forward`` in place of
#    ``transposed``? Do you get an error? Does the training still find the leaks?
#
# .. dropdown:: Answer
#
#    You get no error, because the shapes are right, and the loss even goes down. But the
#    gradient belongs to a canal that flows the other way, and the leaks are wrong by about
#    half of the larger leak. A comparison with difference quotients, such as ``gradcheck``,
#    finds the mistake at once:

mistaken = lambda x: (forward(x), forward)
not_found, _ = find_leaks(mistaken)
print(f"wrong by {(not_found - leaks).abs().max():.1f}, {(found - leaks).abs().max():.1f}")
for rule in (solve_and_pull, mistaken):
    f = lambda x, rule=rule: Bridge.apply(x, rule, np.from_dlpack)
    print(torch.autograd.gradcheck(f, (x,), raise_exception=False))

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient through the bridge with difference quotients, its rows with the
#    inverse of the matrix, and the result for the running product with its formula. We also
#    check that the leaks that were found are near the true leaks.

bridged = lambda x: Bridge.apply(x.sin(), solve_and_pull, np.from_dlpack)
assert torch.autograd.gradcheck(bridged, (x,))
np.testing.assert_allclose(torch.stack(rows).numpy(), np.linalg.inv(A.toarray()), atol=1e-9)
np.testing.assert_allclose(pull(np.array([1.0, 10, 100])), [1 + 20 + 600, 10 + 300, 200])
assert sums == {"with": 6, "without": 8}
few = batch[:3].clone().requires_grad_()
rows_of = lambda x: Bridge.apply(x, solve_rows_and_pull, np.from_dlpack)
assert torch.autograd.gradcheck(rows_of, (few,))
torch.testing.assert_close(rows_of(batch), one_by_one)
np.testing.assert_allclose(lowest.x, 1, atol=1e-4)
numbers = np.array([1.0, 2.0, 3.0])
_, pull_squares = pair(torch.square)(numbers)
numbers *= 10  # the pair has its own copy
np.testing.assert_allclose(pull_squares(np.ones(3)), [2, 4, 6])
assert (found - leaks).abs().max() < 0.2 < 0.4 < (not_found - leaks).abs().max()

# %%
# **Next:** To use a loss from another library without a Function, read
# :ref:`external-loss`. For the rules that a ``Function`` has to follow, read
# :ref:`custom-function`. The names that other libraries have for the same things are listed
# in :ref:`dictionary`.
#
# .. asked: call NumPy inside a network; JAX function in PyTorch; mix libraries in one
#    graph; SciPy solver as a layer; wrap external code with a backward; CuPy kernel
#    gradient; C++ code in the middle of my model; use NumPy inside forward; part of my
#    network is written elsewhere; differentiate through foreign code
# .. words: jax2torch, dlpack, pybind, cuda kernel, foreign, bridge, wrapper, finite
#    element, scipy.optimize, interpolator, numba
