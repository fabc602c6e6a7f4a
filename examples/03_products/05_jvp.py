r"""
.. _what-is-a-jvp:

What is a JVP, and how is it computed?
======================================

A :term:`Jacobian-vector product` :math:`Ju` says how the *output* moves when the input
moves along :math:`u`. :term:`Forward mode <forward mode>` computes it together with
``f(x)``, in one pass, which needs no graph.
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
# The price is one pass for each direction. A one-hot ``u`` gives a column of J, as a
# one-hot ``v`` gives a row:

torch.func.jvp(f, (x,), (torch.tensor([0.0, 1.0]),))[1]

# %%
# *The slope of a loss along a direction: jvp, or backward and a dot product?* The same
# number. One pass of ``jvp`` keeps nothing where neither x nor a weight requires a gradient
# (else it records a graph); one ``backward`` serves every direction at the point, with a
# dot product for each:


def loss(x):
    return (x**3).sum()


print(torch.func.jvp(loss, (x,), (u,))[1], torch.func.grad(loss)(x) @ u)
assert not torch.func.jvp(loss, (x,), (u,))[1].requires_grad
assert torch.func.jvp(loss, (x.clone().requires_grad_(),), (u,))[1].requires_grad

# %%
# Of two inputs, each has its tangent, and the result is the sum of what both do. To hold
# one still, give it zeros:

a, b = torch.tensor(2.0), torch.tensor(3.0)
one, zero = torch.tensor(1.0), torch.tensor(0.0)
print(torch.func.jvp(torch.mul, (a, b), (one, one))[1])
print(torch.func.jvp(torch.mul, (a, b), (one, zero))[1])

# %%
# *jvp returns no function that I could map.* Then map one that calls it: over pairs of a
# point and a direction, or, by two maps, over all points (rows) with all directions:

vmap, ends, ways = torch.func.vmap, torch.stack([x, -x]), torch.eye(2)
along = lambda x, u: torch.func.jvp(f, (x,), (u,))[1]
print(vmap(along)(ends, ways))
crossed = vmap(vmap(along, (None, 0)), (0, None))(ends, ways)
crossed.shape

# %%
# *By the weights of a module?* Leave the module alone and call it with a dict of duals.
# :func:`torch.func.jvp` does the same with a dict of tangents:

layer = torch.nn.Linear(2, 1)
w = {name: p.detach() for name, p in layer.named_parameters()}
ones = {name: torch.ones_like(p) for name, p in w.items()}
call = torch.func.functional_call
with forward.dual_level():
    duals = {name: forward.make_dual(p, ones[name]) for name, p in w.items()}
    by_weights = forward.unpack_dual(call(layer, duals, (x,))).tangent
print(by_weights, torch.func.jvp(lambda w: call(layer, w, (x,)), (w,), (ones,))[1])

# %%
# *Is forward mode slower than the double-grad trick?* You may have timed the trick twice:
# :func:`torch.autograd.functional.jvp` is two reverse passes (:ref:`jvp-from-vjps`).
# Forward mode keeps nothing for a way back (if weights require a gradient: under
# ``no_grad``), so its memory does not grow with depth; the trick keeps tensors:


def kept(jvp, *arguments):
    tensors = []
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: tensors.append(t) or t, lambda t: t):
        product = jvp(*arguments)[1]
    return product, "kept some" if tensors else "kept none"


print(kept(torch.func.jvp, f, (x,), (u,)))
print(kept(torch.autograd.functional.jvp, f, x, u))

# %%
# What goes wrong
# ---------------
#
# ``u`` must look like ``x``, and be floating point. One shaped like ``y`` is a cotangent in
# the wrong place:

for wrong in (torch.ones(3), torch.tensor([1, 0])):
    try:
        torch.func.jvp(f, (x,), (wrong,))
    except (RuntimeError, ValueError) as error:
        print(str(error).splitlines()[0])

# %%
# *unpack_dual(out).tangent is None*: ``out`` does not depend on the dual, or a ``detach``,
# an integer or a plain number on the way cut it off, for which :func:`torch.func.jvp` gives
# zeros; or it is read after the block, which takes all tangents along:

with forward.dual_level():
    dual = forward.make_dual(x, u)
    outs = 2 * dual, 2 * x, dual.detach(), dual.argmax(), torch.tensor(dual.tolist())
    print(*(forward.unpack_dual(out).tangent for out in outs))
print(forward.unpack_dual(outs[0]).tangent)
print(torch.func.jvp(torch.Tensor.detach, (x,), (u,))[1])

# %%
# *Does forward mode work under no_grad?* Yes: :class:`torch.no_grad` turns off
# :term:`reverse mode` only. A dual number made under :class:`torch.inference_mode
# <torch.autograd.grad_mode.inference_mode>` loses its tangent without a word;
# :func:`torch.func.jvp` switches forward mode on for itself:

with torch.no_grad():
    print(torch.func.jvp(f, (x,), (u,))[1])
with torch.inference_mode(), forward.dual_level():
    print(forward.unpack_dual(f(forward.make_dual(x, u))).tangent)
with torch.inference_mode():
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
assert by_weights.item() == x.sum() + 1  # of w · x + b, along ones

# %%
# The same f in the page. Choose *J u*, and move u and x: u weighs the columns of J, and v
# the rows:

import pullback

pullback.live(f, torch.tensor([2.0, 3.0]))

# %%
# Where next
# ----------
#
# Where forward mode is missing: :ref:`jvp-from-vjps`. Does my JVP fit my VJP?
# :ref:`dot-product-test`. A whole J: :ref:`reverse-or-forward`. Dropout: :ref:`linearize`.
#
# .. asked: dual numbers in forward mode; Jacobian-vector product; forward mode AD; dual
#    numbers; jvp in PyTorch; tangent; derivative along a direction without a graph
