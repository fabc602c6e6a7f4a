r"""
.. _function-under-transforms:

Function under vmap and forward mode (setup_context, jvp)
=========================================================

You have written a :class:`torch.autograd.Function`, and ``y.backward(v)`` works. Then you
pass it to ``torch.func.jacrev`` or ``vmap``, and PyTorch asks for methods that you have
never heard of. For :mod:`torch.func`, split ``forward`` into ``forward(x)`` and
``setup_context(ctx, inputs, output)``. For :term:`vmap`, add ``generate_vmap_rule =
True``, or write your own ``vmap`` method. For :term:`forward mode`, add ``jvp``. PyTorch
does not tell you that a method is missing until a transform needs it.
"""

# %%
# Our example is :math:`y_i=x_1^2+\cdots+x_i^2`, the running sum of the squares, from shape
# ``(n,)`` to ``(n,)``. Its :term:`Jacobian` is lower triangular, with :math:`2x_j` in
# column j. If you multiply the Jacobian by ``u`` from the right, you get a running sum of
# the :math:`2x_ju_j`. If you multiply it by ``v`` from the left, you get :math:`2x_j` times
# a running sum of ``v`` that begins at the end:
#
# .. math::
#
#    (Ju)_i=\sum_{j\le i}2x_ju_j,\qquad (J^\top v)_j=2x_j\sum_{i\ge j}v_i .
#
# We write the ``Function`` in the usual way, with one ``forward`` that does everything:

import torch
from torch.autograd import Function


def from_the_end(v):
    return v.flip(-1).cumsum(-1).flip(-1)


class Joined(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x**2).cumsum(-1)

    @staticmethod
    def backward(ctx, v):
        return 2 * ctx.saved_tensors[0] * from_the_end(v)


# %%
# For a :term:`vector-Jacobian product` this is enough, as the first line of the output
# shows. A transform of ``torch.func`` has to run ``forward`` without a ``ctx``, and so it
# refuses this ``Function``:


def attempt(call):
    try:
        return call()
    except (RuntimeError, NotImplementedError, ValueError) as error:
        print(str(error).split(" For more")[0])


x = torch.tensor([1.0, 2.0, 3.0])
print(torch.autograd.functional.vjp(Joined.apply, x, torch.ones(3))[1])
attempt(lambda: torch.func.jacrev(Joined.apply)(x))

# %%
# So we split ``forward`` in two. The new ``forward`` computes the output, and
# ``setup_context`` saves what ``backward`` needs. PyTorch gives ``setup_context`` all
# inputs, as a tuple, and the output:


class Split(Function):
    @staticmethod
    def forward(x):
        return (x**2).cumsum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    backward = staticmethod(Joined.backward)


torch.func.jacrev(Split.apply)(x)

# %%
# What backward may use
# ---------------------
#
# Every tensor that ``backward`` uses, other than ``v``, has to be an argument or an output
# of ``forward``, and you have to save it with ``save_for_backward``. A tensor that the
# methods take from the enclosing scope gets no gradient: ``torch.func.grad`` returns zero
# for it without a warning. In the example, the gradient with respect to the scale should be
# :math:`1+4+9=14`:


def scaled(scale):
    class Captured(Split):
        @staticmethod
        def forward(x):
            return scale * x**2

        @staticmethod
        def backward(ctx, v):
            return 2 * scale * ctx.saved_tensors[0] * v

    return Captured.apply


class Passed(Function):
    @staticmethod
    def forward(x, scale):
        return scale * x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, v):
        x, scale = ctx.saved_tensors
        return 2 * scale * x * v, (x**2 * v).sum()


two = torch.tensor(2.0)
print("from outside:", torch.func.grad(lambda scale: scaled(scale)(x).sum())(two))
print("an argument: ", torch.func.grad(lambda scale: Passed.apply(x, scale).sum())(two))

# %%
# For higher derivatives ``backward`` itself has to be differentiable, that is, it has to
# consist of differentiable torch operations on the :term:`saved tensors <saved tensor>`
# and on ``v``. A value that was detached or computed by NumPy is a constant there, and
# the second derivative is silently wrong (:ref:`twice-differentiable`):


class Detached(Split):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0].detach())


for f in (Split.apply, Detached.apply):
    H = torch.func.jacrev(torch.func.grad(lambda x, f=f: f(x).sum()))(x)
    print("second derivatives:", H.diagonal())

# %%
# vmap
# ----
#
# The next error begins with *You tried to vmap over ...*. ``vmap`` cannot look into
# ``forward``, and so it does not know what to do with a batch. If ``forward`` and
# ``backward`` consist of torch operations that ``vmap`` can map, set ``generate_vmap_rule
# = True``, and PyTorch generates the rule. Here are the error without this attribute, and
# the result with it:

attempt(lambda: torch.func.vmap(Split.apply)(torch.ones(2, 3)))


class Batched(Split):
    generate_vmap_rule = True


torch.func.vmap(Batched.apply)(torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))

# %%
# Forward mode
# ------------
#
# Forward mode does not call ``backward``. For a :term:`JVP` it calls the method ``jvp``,
# which you have to add, and which receives a :term:`tangent` for each input. Use
# ``save_for_forward`` to save the tensors that ``jvp`` needs. The class ``Forgetful``
# below has a ``jvp`` but does not call ``save_for_forward``, and so its ``jvp`` finds
# ``saved_tensors`` empty. The first message is for a ``Function`` without ``jvp``, and
# the second for ``Forgetful``:


class Forgetful(Batched):
    @staticmethod
    def jvp(ctx, u):
        (x,) = ctx.saved_tensors
        return (2 * x * u).cumsum(-1)


u = torch.tensor([1.0, 10.0, 100.0])
attempt(lambda: torch.func.jvp(Batched.apply, (x,), (u,)))
attempt(lambda: torch.func.jvp(Forgetful.apply, (x,), (u,)))

# %%
# If we save the input for both modes, we get the value and the JVP:


class Forward(Forgetful):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


torch.func.jvp(Forward.apply, (x,), (u,))

# %%
# Code outside torch, under vmap
# ------------------------------
#
# The generated rule cannot batch code that calls other libraries. Here ``forward`` calls
# NumPy, and the tensor that arrives there under ``vmap`` has no memory that NumPy could
# read:


class ByNumPy(Forward):
    @staticmethod
    def forward(x):
        return torch.from_numpy((x.numpy() ** 2).cumsum(-1))


attempt(lambda: torch.func.vmap(ByNumPy.apply)(torch.ones(2, 3)))

# %%
# In this case you have to write the rule for a batch yourself. Your ``vmap`` receives the
# whole tensors and the positions of their batch dimensions. It returns the output and the
# position of the output's batch dimension, which is 0 here. You have to switch the
# generated rule off, because PyTorch raises an error if there are two rules. In this
# example the two points are the *columns* of a matrix. Here are the error with two rules,
# and the result with one:


class WithRule(ByNumPy):
    @staticmethod
    def vmap(info, in_dims, x):
        return WithRule.apply(x.movedim(in_dims[0], 0)), 0


columns = torch.tensor([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])  # two points, as columns
attempt(lambda: torch.func.vmap(WithRule.apply, in_dims=1)(columns))
WithRule.generate_vmap_rule = False
torch.func.vmap(WithRule.apply, in_dims=1)(columns)

# %%
# *Must I write a jvp for hessian?* You need one for :func:`torch.func.hessian`, which uses
# forward mode. ``jacrev(jacrev(f))`` gives the same matrix without a ``jvp``, as
# ``Batched`` shows below. As a check, we compare the Jacobian in both modes with the
# formula, try transforms of transforms, and let ``gradcheck`` compare both modes with
# :term:`finite differences`. ``Batched`` has no ``jvp``, and yet
# :func:`torch.autograd.functional.jvp` computes its JVP, because this function uses two
# :term:`VJPs <VJP>` in place of forward mode:

J = torch.tril(2 * x.expand(3, 3))
for f in (Forward.apply, WithRule.apply):
    assert torch.equal(torch.func.jacrev(f)(x), J)
    assert torch.equal(torch.func.jvp(f, (x,), (u,))[1], J @ u)
per_sample = torch.func.vmap(torch.func.jacfwd(Forward.apply))(torch.stack([x, x]))
assert torch.equal(per_sample, torch.stack([J, J]))
H = torch.func.hessian(lambda x: Forward.apply(x) @ u)(x)
assert torch.equal(H, torch.diag(2 * from_the_end(u)))
twice = torch.func.jacrev(torch.func.jacrev(lambda x: Batched.apply(x) @ u))(x)
assert torch.equal(twice, H)
assert torch.equal(torch.autograd.functional.jvp(Batched.apply, x, u)[1], J @ u)
modes = {"check_forward_ad": True, "check_batched_grad": True}
assert torch.autograd.gradcheck(Forward.apply, x.double().requires_grad_(), **modes)

# %%
# Where next
# ----------
#
# :ref:`vmap-limits` says what ``vmap`` cannot map at all. :ref:`dot-product-test` compares
# products with J and products with its transpose, and :ref:`jvp-from-vjps` helps with an
# operation that has no forward mode.
#
# .. asked: custom Function with vmap; setup_context; generate_vmap_rule; custom
#    Function with torch.func; jvp of a custom Function
# .. words: functorch, setup_context, staticmethod, vmap, jacrev, generate, old style
#    forward
