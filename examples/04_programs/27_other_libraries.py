r"""
.. _other-libraries:

A JAX, CuPy, NumPy or SciPy function in the middle of my graph
==============================================================

Wrap it in a custom Function whose backward asks the other library for *its*
:term:`vector-Jacobian product` with the v that arrives. DLPack hands arrays over without a
copy, so neither side may write into them; and the graph ends at the border unless you wrap
both ways.
"""

# %%
# What must be there for a function of another library, y = f(x), is a pair: the value, and
# ``pull``, the product :math:`J^\top v`. ``jax.vjp(f, x)`` returns that pair; here SciPy's
# sparse solver plays the part. For :math:`Ay=x` with a fixed matrix the pull is the solve
# with :math:`A^\top`:

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
        return torch.from_dlpack(ctx.pull(ctx.into(v.contiguous()))), None, None


# %%
# ``into`` is ``jax.dlpack.from_dlpack``, ``cupy.from_dlpack``, or that of NumPy. The SciPy
# function now stands between two of torch:

x = torch.linspace(0, 1, n, dtype=torch.float64, requires_grad=True)
y = Bridge.apply(torch.sin(x), solve_and_pull, np.from_dlpack)
(g,) = torch.autograd.grad((y**2).sum(), x)
print(y.requires_grad, g[:3])

# %%
# What goes wrong
# ---------------
#
# *Can't export tensors that require gradient*: the graph cannot cross the border, and
# DLPack says so. ``detach`` lets the numbers through; without a Function around it the
# gradient ends there, and nothing raises before ``backward``:

try:
    np.from_dlpack(x)
except BufferError as error:
    print(error)
print(torch.from_dlpack(forward(np.from_dlpack(x.detach()))).requires_grad)

# %%
# *My tensor changed by itself.* No copy was made: an edit on one side is an edit on the
# other, and autograd's count of edits does not see what NumPy does. The product 2x with the
# numbers of now:

leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
squares = (leaf**2).sum()
shared = np.from_dlpack(leaf.detach())
shared *= 10
print(leaf.detach(), torch.autograd.grad(squares, leaf)[0])

# %%
# *Expected float64 and got float32*, or a gradient with half the digits: JAX computes in
# float32 unless ``jax_enable_x64`` is set, SciPy in float64 always. Convert on the way in,
# and back to the dtype and device of x on the way out:


class ByConversion(Bridge):
    @staticmethod
    def forward(ctx, x, value_and_pull, into):
        y, ctx.pull = value_and_pull(x.detach().cpu().double().numpy())
        ctx.like = x
        return torch.from_numpy(y).to(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, v):
        product = ctx.pull(v.cpu().double().numpy())
        return torch.from_numpy(product).to(ctx.like), None, None


# %%
# For a float32 x:

single = torch.linspace(0, 1, n, requires_grad=True)
y = ByConversion.apply(torch.sin(single), solve_and_pull, None)
print(y.dtype, torch.autograd.grad((y**2).sum(), single)[0].dtype)

# %%
# *vmap, jacrev, jvp, a second derivative*: none of them enter a library that they do not
# know. ``once_differentiable`` refuses the last; for a :term:`Jacobian` take a loop of v:

y = Bridge.apply(x, solve_and_pull, np.from_dlpack)
rows = [torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(n).double()]
print(torch.stack(rows).shape)

# %%
# The other way: torch inside of SciPy or JAX
# -------------------------------------------
#
# The same pair, made of torch: a value, and a pull that takes an array v and gives an
# array. That is what ``jax.custom_vjp`` wants, and, for a function with one value, what
# ``scipy.optimize.minimize(..., jac=True)`` wants with v = 1 (:ref:`external-loss`):


def pair(f):
    def value_and_pull(array):
        leaf = torch.from_numpy(array).requires_grad_()
        y = f(leaf)

        def pull(v):
            return torch.autograd.grad(y, leaf, torch.from_numpy(v), retain_graph=True)[
                0
            ].numpy()

        return y.detach().numpy(), pull

    return value_and_pull


# %%
# A running product, and v = (1, 10, 100):

value, pull = pair(lambda x: x.cumprod(0))(np.array([1.0, 2, 3]))
print(value, pull(np.array([1.0, 10.0, 100.0])))

# %%
# The check: differences across the border, the rows against the inverse, and the pull by
# hand:

assert torch.autograd.gradcheck(
    lambda x: Bridge.apply(x.sin(), solve_and_pull, np.from_dlpack),
    (x,),
)
np.testing.assert_allclose(torch.stack(rows).numpy(), np.linalg.inv(A.toarray()), atol=1e-9)
np.testing.assert_allclose(pull(np.array([1.0, 10, 100])), [1 + 20 + 600, 10 + 300, 200])

# %%
# Where next
# ----------
#
# A loss from outside, without a Function: :ref:`external-loss`. The names of this product
# in other libraries: :ref:`dictionary`. Second derivatives of such a Function:
# :ref:`twice-differentiable`.
