r"""
.. _other-libraries:

A JAX, CuPy, NumPy or SciPy function in the middle of my graph
==============================================================

Wrap it in a custom Function whose backward asks the other library for *its*
:term:`vector-Jacobian product` with the v that arrives. DLPack hands arrays over without a
copy, so neither side may write into them; without the Function the graph ends at the
border.
"""

# %%
# From the other library comes a pair: a value, and ``pull``, the product :math:`J^\top v`,
# as from ``jax.vjp`` (whose pull returns a tuple: hand over ``lambda v: pull(v)[0]``). Here
# from SciPy's sparse solver; for :math:`Ay=x` the pull solves with :math:`A^\top`:

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import factorized
from torch.autograd import Function
from torch.autograd.function import once_differentiable

n = 50
A = sp.diags([-1.0, 2.5, -1.4], [-1, 0, 1], shape=(n, n)).tocsc()
forward, transposed = factorized(A), factorized(A.T.tocsc())


def solve_and_pull(x):
    return forward(x), transposed


# %%
# The bridge, for any such function. ``from_dlpack`` reads the memory of NumPy, CuPy and JAX
# arrays alike, on the device where they are:


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
# ``into`` is the ``from_dlpack`` of ``jax.dlpack``, ``cupy`` or ``numpy``. SciPy between
# two functions of torch:

x = torch.linspace(0, 1, n, dtype=torch.float64, requires_grad=True)
y = Bridge.apply(torch.sin(x), solve_and_pull, np.from_dlpack)
(g,) = torch.autograd.grad((y**2).sum(), x)
print(y.requires_grad, g[:3])

# %%
# What goes wrong
# ---------------
#
# *Can't export tensors that require gradient*: the graph cannot cross the border, and
# DLPack says so. ``detach`` lets the numbers through; without a Function the result has no
# graph, and nothing raises before ``backward``:

try:
    np.from_dlpack(x)
except BufferError as error:
    print(error)
print(torch.from_dlpack(forward(np.from_dlpack(x.detach()))).requires_grad)

# %%
# *My tensor changed by itself.* No copy was made: an edit on one side is an edit on the
# other, and autograd's count of edits does not see what NumPy does. The gradient 2x should
# be 2, 4, 6; it is made of the numbers of now:

leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
squares = (leaf**2).sum()
shared = np.from_dlpack(leaf.detach())
shared *= 10
print(leaf.detach(), torch.autograd.grad(squares, leaf)[0])

# %%
# *And theirs changed too.* A ``.grad`` that is None keeps the product it is handed, and the
# next ``backward`` adds to it in place. Without the ``clone``, a pull that returns an array
# it keeps is wrong from then on; here 2 + 2 + 2 would be 8:

kept, leaf = np.full(n, 2.0), torch.ones(n, dtype=torch.float64, requires_grad=True)
for _ in range(3):
    Bridge.apply(leaf, lambda x: (2 * x, lambda v: kept), np.from_dlpack).sum().backward()
print(leaf.grad[:3], kept[:3])

# %%
# *Expected float64 and got float32*, or a gradient with half the digits: JAX computes in
# float32 unless ``jax_enable_x64`` is set, this solver in float64. Convert on the way in,
# and back on the way out; v has the dtype and device of y, which are those of x:


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


# %%
# For a float32 x:

single = torch.ones(n, requires_grad=True)
y = ByConversion.apply(single, solve_and_pull)
print(y.dtype, torch.autograd.grad((y**2).sum(), single)[0].dtype)

# %%
# *vmap, jacrev, jvp* raise: none enters a library that it does not know. *A second
# derivative* is refused at best, where v has a graph, and else wrong without a word
# (:ref:`twice-differentiable`). For a :term:`Jacobian` take a loop of v:

y = Bridge.apply(x, solve_and_pull, np.from_dlpack)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(n).double()]
print(len(rows), rows[0].shape)

# %%
# The other way: torch inside of SciPy or JAX
# -------------------------------------------
#
# The same pair, made of torch: arrays in, arrays out. With v = 1 it serves
# ``scipy.optimize.minimize(..., jac=True)`` (:ref:`external-loss`). In ``jax.custom_vjp``
# keep x, as a pull is no JAX type, and make the pair again in the backward rule; under
# ``jit``, inside of ``jax.pure_callback``:


def pair(f):
    def value_and_pull(array):
        leaf = torch.from_numpy(array).requires_grad_()
        y = f(leaf)

        def pull(v):
            seed = torch.from_numpy(v)
            return torch.autograd.grad(y, leaf, seed, retain_graph=True)[0].numpy()

        return y.detach().numpy(), pull

    return value_and_pull


# %%
# A running product, and v = (1, 10, 100):

value, pull = pair(lambda x: x.cumprod(0))(np.array([1.0, 2, 3]))
print(value, pull(np.array([1.0, 10.0, 100.0])))

# %%
# The check: differences across the border, the rows against the inverse, the pull by hand:

bridged = lambda x: Bridge.apply(x.sin(), solve_and_pull, np.from_dlpack)
assert torch.autograd.gradcheck(bridged, (x,))
assert (leaf.grad == 6).all()
np.testing.assert_allclose(torch.stack(rows).numpy(), np.linalg.inv(A.toarray()), atol=1e-9)
np.testing.assert_allclose(pull(np.array([1.0, 10, 100])), [1 + 20 + 600, 10 + 300, 200])

# %%
# Where next
# ----------
#
# A loss from outside, without a Function: :ref:`external-loss`. Names: :ref:`dictionary`.
#
# .. asked: call NumPy inside a network; JAX function in PyTorch; mix libraries in one
#    graph; SciPy solver as a layer; wrap external code with a backward; CuPy kernel
#    gradient; C++ code in the middle of my model; use NumPy inside forward; part of my
#    network is written elsewhere; differentiate through foreign code
# .. words: jax2torch, dlpack, pybind, cuda kernel, foreign, bridge, wrapper, finite
#    element, scipy.optimize, interpolator, numba
