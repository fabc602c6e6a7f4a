r"""
.. _what-is-a-jvp:

What is a JVP, and how is it computed?
======================================

A :term:`Jacobian-vector product` :math:`Ju` says how the *output* moves when the input
moves along :math:`u`. :term:`Forward mode <forward mode>` computes it together with
``f(x)``, in one pass and without a graph.
"""

# %%
# Take :math:`f(x)=(x_1x_2,\;x_1+x_2,\;x_2^2)` from ``(2,)`` to ``(3,)``:
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\1&1\\0&2x_2\end{bmatrix},\qquad
#    Ju=u_1\begin{bmatrix}x_2\\1\\0\end{bmatrix}+u_2\begin{bmatrix}x_1\\1\\2x_2\end{bmatrix}
#
# The :term:`tangent` ``u`` has the shape of ``x``; :math:`Ju`, a sum of *columns*, has
# the shape of ``y``. A :term:`cotangent` ``v`` is the mirror image: shape of ``y`` in,
# shape of ``x`` out.

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[1], x[1] ** 2])


x = torch.tensor([2.0, 3.0])
u = torch.tensor([1.0, 10.0])
y, Ju = torch.func.jvp(f, (x,), (u,))
print(y)
Ju

# %%
# How it is computed
# ------------------
#
# Every number travels with its derivative along ``u``, as a *dual number*
# :math:`x+\varepsilon u` with :math:`\varepsilon^2=0`. :func:`torch.func.jvp` is made of
# this; here it is by hand:

import torch.autograd.forward_ad as forward

with forward.dual_level():
    dual = f(forward.make_dual(x, u))
    primal, tangent = forward.unpack_dual(dual)
tangent

# %%
# Nothing is kept for a way back: values are dropped as the pass goes on, so memory does
# not grow with depth. The price is one pass for each direction.
#
# A one-hot ``u`` gives a column of J, as a one-hot ``v`` gives a row:

torch.func.jvp(f, (x,), (torch.tensor([0.0, 1.0]),))[1]

# %%
# *Is forward mode slower than the double-grad trick?* Not by itself:
# :func:`torch.autograd.functional.jvp` *is* the trick, two reverse passes
# (:ref:`jvp-from-vjps`), whatever its name says. Both give the same numbers:

torch.autograd.functional.jvp(f, x, u)[1]

# %%
# What goes wrong
# ---------------
#
# ``u`` must look like ``x``. One shaped like ``y`` is a cotangent in the wrong place:

try:
    torch.func.jvp(f, (x,), (torch.ones(3),))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# *Dropout under forward mode*: each call draws a new mask, so two columns may belong to
# two different functions. Draw the mask once, outside, or fix the seed:

a = torch.ones(4)
torch.manual_seed(0)  # fixed so that the two calls differ in a repeatable way
first = torch.func.jvp(torch.nn.functional.dropout, (a,), (a,))[1]
second = torch.func.jvp(torch.nn.functional.dropout, (a,), (a,))[1]
print(first, second)

# %%
# Under :class:`torch.no_grad` forward mode still works; only ``set_fwd_grad_enabled``
# turns it off:

with torch.no_grad():
    print(torch.func.jvp(f, (x,), (u,))[1])

# %%
# The independent check: the difference quotient along ``u``, in double precision.

t = 1e-6
x64, u64 = x.double(), u.double()
quotient = (f(x64 + t * u64) - f(x64 - t * u64)) / (2 * t)
torch.testing.assert_close(Ju.double(), quotient)
J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(Ju, J @ u)
assert torch.equal(tangent, J @ u)

# %%
# Where next
# ----------
#
# A JVP where forward mode is missing: :ref:`jvp-from-vjps`. Does my JVP fit my VJP?
# :ref:`dot-product-test`. Which is cheaper for a whole J: :ref:`reverse-or-forward`.
