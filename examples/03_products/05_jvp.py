r"""
.. _what-is-a-jvp:

What is a JVP, and how is it computed?
======================================

You have a point and a direction, and want to know how the *output* of a function moves when
its input moves along this direction :math:`u`. The answer is the :term:`Jacobian-vector
product` :math:`Ju`. :term:`Forward mode <forward mode>` computes it together with ``f(x)``,
in a single pass that needs no graph.
"""

# %%
# Our function is :math:`f(x)=(x_1x_2,\;x_1+x_2,\;x_2^2)`, which maps two numbers to three.
# This is its :term:`Jacobian`, and the product of the Jacobian with ``u``:
#
# .. math::
#
#    J=\begin{bmatrix}x_2&x_1\\1&1\\0&2x_2\end{bmatrix},\qquad
#    Ju=u_1\begin{bmatrix}x_2\\1\\0\end{bmatrix}+u_2\begin{bmatrix}x_1\\1\\2x_2\end{bmatrix}
#
# The :term:`tangent` ``u`` has the shape of ``x``. The product :math:`Ju` is a sum of
# *columns* and has the shape of ``y``. With a :term:`cotangent` ``v``, which is what you
# pass to ``backward``, the shapes are the other way around: ``v`` has the shape of ``y``,
# and its product :math:`v^\top J` has the shape of ``x``. Here is :math:`Ju` at
# :math:`(2,3)`, printed below ``f(x)``:

import torch


def f(x):
    return torch.stack([x[0] * x[1], x[0] + x[1], x[1] ** 2])


x = torch.tensor([2.0, 3.0])
u = torch.tensor([1.0, 10.0])
y, Ju = torch.func.jvp(f, (x,), (u,))
print(y)
Ju

# %%
# How a JVP is computed
# ---------------------
#
# In forward mode every number travels with its derivative along ``u``, as a *dual number*
# :math:`x+\varepsilon u` with :math:`\varepsilon^2=0`. :func:`torch.func.jvp` is built on
# dual numbers. To see how they work, we make one by hand, call f, and take the result
# apart:

import torch.autograd.forward_ad as forward

with forward.dual_level():
    dual = f(forward.make_dual(x, u))
    primal, tangent = forward.unpack_dual(dual)
tangent

# %%
# The tangent of the result is the same :math:`Ju`. Each direction takes a separate pass.
# A one-hot ``u`` gives you a column of J, as a one-hot ``v`` gives you a row of J. Here
# is the second column:

torch.func.jvp(f, (x,), (torch.tensor([0.0, 1.0]),))[1]

# %%
# *The slope of a loss along a direction: jvp, or backward and a dot product?* Both give
# the same number. One pass of ``jvp`` keeps nothing for a backward pass, as long as
# neither x nor a weight requires a gradient. If one of them does, the pass records a
# graph, as the last line of the code shows. The gradient from one ``backward`` serves
# every direction at the point, with one dot product for each direction:


def loss(x):
    return (x**3).sum()


print(torch.func.jvp(loss, (x,), (u,))[1], torch.func.grad(loss)(x) @ u)
assert not torch.func.jvp(loss, (x,), (u,))[1].requires_grad
assert torch.func.jvp(loss, (x.clone().requires_grad_(),), (u,))[1].requires_grad

# %%
# If a function has two inputs, each of them gets its own tangent, and the result is the sum
# of their effects. To hold one input fixed, give it a tangent of zeros. In the second line
# of the output only the first factor changes:

a, b = torch.tensor(2.0), torch.tensor(3.0)
one, zero = torch.tensor(1.0), torch.tensor(0.0)
print(torch.func.jvp(torch.mul, (a, b), (one, one))[1])
print(torch.func.jvp(torch.mul, (a, b), (one, zero))[1])

# %%
# *jvp does not give me a function that I can map, as vjp does.* Write a function that calls
# ``jvp``, and map that function. If you map it once, it takes pairs of a point and a
# direction. If you map it twice, it combines each point, which is a row of ``ends``, with
# each direction:

vmap, ends, ways = torch.func.vmap, torch.stack([x, -x]), torch.eye(2)
along = lambda x, u: torch.func.jvp(f, (x,), (u,))[1]
print(vmap(along)(ends, ways))
crossed = vmap(vmap(along, (None, 0)), (0, None))(ends, ways)
crossed.shape

# %%
# *How do I get the product with respect to the weights of a module?* You need not change
# the module. Call it with a dict of dual numbers, or give :func:`torch.func.jvp` a dict of
# tangents, which does the same:

layer = torch.nn.Linear(2, 1)
w = {name: p.detach() for name, p in layer.named_parameters()}
ones = {name: torch.ones_like(p) for name, p in w.items()}
call = torch.func.functional_call
with forward.dual_level():
    duals = {name: forward.make_dual(p, ones[name]) for name, p in w.items()}
    by_weights = forward.unpack_dual(call(layer, duals, (x,))).tangent
print(by_weights, torch.func.jvp(lambda w: call(layer, w, (x,)), (w,), (ones,))[1])

# %%
# *Is forward mode slower than the double-grad trick?* The trick computes a :term:`JVP` with
# two reverse passes (:ref:`jvp-from-vjps`). If you compared the trick with
# :func:`torch.autograd.functional.jvp`, you have timed the trick against itself, because
# that function also consists of two reverse passes. Forward mode keeps nothing for a
# backward pass, so its memory does not grow with depth. If weights require a gradient, this
# holds only under ``no_grad``. The double-grad trick does keep tensors, as a hook on
# :term:`saved tensors <saved tensor>` shows:


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
# ``u`` must have the shape of ``x`` and be floating point. The first ``u`` below has the
# shape of ``y``, so it is a cotangent in the wrong place. The second consists of integers:

for wrong in (torch.ones(3), torch.tensor([1, 0])):
    try:
        torch.func.jvp(f, (x,), (wrong,))
    except (RuntimeError, ValueError) as error:
        print(str(error).splitlines()[0])

# %%
# *unpack_dual(out).tangent is None.* One reason is that ``out`` does not depend on the dual
# number. Another is that a ``detach``, an operation with an integer result, or a plain
# number on the way has cut the tangent off. In these cases :func:`torch.func.jvp` gives
# zeros, as the last line of the output shows for ``detach``. The third reason is that you
# read the tangent after the ``with`` block, which discards all tangents when it ends:

with forward.dual_level():
    dual = forward.make_dual(x, u)
    outs = 2 * dual, 2 * x, dual.detach(), dual.argmax(), torch.tensor(dual.tolist())
    print(*(forward.unpack_dual(out).tangent for out in outs))
print(forward.unpack_dual(outs[0]).tangent)
print(torch.func.jvp(torch.Tensor.detach, (x,), (u,))[1])

# %%
# *Does forward mode work under no_grad?* Yes, because :class:`torch.no_grad` turns off only
# :term:`reverse mode`. But a dual number that you make under :class:`torch.inference_mode
# <torch.autograd.grad_mode.inference_mode>` loses its tangent without a warning.
# :func:`torch.func.jvp` works under ``inference_mode``, too, because it switches forward
# mode on for itself:

with torch.no_grad():
    print(torch.func.jvp(f, (x,), (u,))[1])
with torch.inference_mode(), forward.dual_level():
    print(forward.unpack_dual(f(forward.make_dual(x, u))).tangent)
with torch.inference_mode():
    print(torch.func.jvp(f, (x,), (u,))[1])

# %%
# As a check, we compare :math:`Ju` with a difference quotient along ``u`` in double
# precision. This quotient shares no code with forward mode. We compare the other products
# with formulas:

t = 1e-6
x64, u64 = x.double(), u.double()
quotient = (f(x64 + t * u64) - f(x64 - t * u64)) / (2 * t)
torch.testing.assert_close(Ju.double(), quotient)
J = torch.tensor([[3.0, 2.0], [1.0, 1.0], [0.0, 6.0]])
assert torch.equal(Ju, J @ u)
assert torch.equal(tangent, J @ u)
assert by_weights.item() == x.sum() + 1  # the derivative of w · x + b along ones

# %%
# Below is the same f. Choose *J u*, and change u and x. You will see that u weights the
# columns of J, whereas v weights the rows:

import pullback

pullback.live(f, torch.tensor([2.0, 3.0]))

# %%
# Where next
# ----------
#
# :ref:`jvp-from-vjps` is for functions with an operation that has no rule for forward mode.
# To test whether your JVP matches your VJP, read :ref:`dot-product-test`. To choose a mode
# for the whole of J, read :ref:`reverse-or-forward`. :ref:`linearize` is about many
# directions at one point, and about JVPs with dropout.
#
# .. asked: dual numbers in forward mode; Jacobian-vector product; forward mode AD; dual
#    numbers; jvp in PyTorch; tangent; derivative along a direction without a graph
# .. words: forward, nudge, make_dual, unpack_dual, level, epsilon, without backward,
#    tangent numbers, no tape
