r"""
.. _function-under-transforms:

Function under vmap and forward mode (setup_context, jvp)
=========================================================

Split ``forward`` into ``forward(x)`` and ``setup_context(ctx, inputs, output)`` for
:mod:`torch.func`; add ``generate_vmap_rule = True`` or a ``vmap`` of your own for
:term:`vmap`, and ``jvp`` for :term:`forward mode`. Each is missed only when called for.
"""

# %%
# The function: :math:`y_i=x_1^2+\cdots+x_i^2`, from ``(n,)`` to ``(n,)``. Its
# :term:`Jacobian` is lower triangular, with :math:`2x_j` in column j. So a product from the
# right is a running sum, and one from the left a running sum from the end:
#
# .. math::
#
#    (Ju)_i=\sum_{j\le i}2x_ju_j,\qquad (J^\top v)_j=2x_j\sum_{i\ge j}v_i .

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
# ``y.backward(v)`` is content with that. A transform must run ``forward`` without a ctx:


def attempt(call):
    try:
        return call()
    except (RuntimeError, NotImplementedError, ValueError) as error:
        print(str(error).split(" For more")[0])


x = torch.tensor([1.0, 2.0, 3.0])
print(torch.autograd.functional.vjp(Joined.apply, x, torch.ones(3))[1])
attempt(lambda: torch.func.jacrev(Joined.apply)(x))

# %%
# The same, split. ``setup_context`` sees all inputs, as a tuple, and the output:


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
# vmap
# ----
#
# *You tried to vmap over ...*: it cannot look into ``forward``. If both methods consist
# of torch operations, let it generate the rule:

attempt(lambda: torch.func.vmap(Split.apply)(torch.ones(2, 3)))


class Batched(Split):
    generate_vmap_rule = True


torch.func.vmap(Batched.apply)(torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))

# %%
# Forward mode
# ------------
#
# A :term:`JVP` cannot be had from ``backward`` alone. Add ``jvp``, which receives a
# :term:`tangent` for each input; and what it needs goes through ``save_for_forward``,
# without which ``saved_tensors`` is empty:


class Forgetful(Batched):
    @staticmethod
    def jvp(ctx, u):
        (x,) = ctx.saved_tensors
        return (2 * x * u).cumsum(-1)


u = torch.tensor([1.0, 10.0, 100.0])
attempt(lambda: torch.func.jvp(Batched.apply, (x,), (u,)))
attempt(lambda: torch.func.jvp(Forgetful.apply, (x,), (u,)))

# %%
# Both saved:


class Forward(Forgetful):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


torch.func.jvp(Forward.apply, (x,), (u,))

# %%
# Out of torch, under vmap
# ------------------------
#
# No generated rule batches code that leaves torch; what arrives has no memory for NumPy:


class ByNumPy(Forward):
    @staticmethod
    def forward(x):
        return torch.from_numpy((x.numpy() ** 2).cumsum(-1))


attempt(lambda: torch.func.vmap(ByNumPy.apply)(torch.ones(2, 3)))

# %%
# Then say yourself what the batch means. ``vmap`` receives the whole tensors with their
# batch dimensions and returns the output with its own. The generated rule has to go:


class WithRule(ByNumPy):
    @staticmethod
    def vmap(info, in_dims, x):
        return WithRule.apply(x.movedim(in_dims[0], 0)), 0


columns = torch.tensor([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])  # two points, as columns
attempt(lambda: torch.func.vmap(WithRule.apply, in_dims=1)(columns))
WithRule.generate_vmap_rule = False
torch.func.vmap(WithRule.apply, in_dims=1)(columns)

# %%
# The check: the Jacobian by the formula, both ways; differences with every mode; transforms
# of transforms. *Must I write a jvp for hessian?* No: ``jacrev(jacrev(f))`` is the same:

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
modes = {"check_forward_ad": True, "check_batched_grad": True}
assert torch.autograd.gradcheck(Forward.apply, x.double().requires_grad_(), **modes)

# %%
# Where next
# ----------
#
# Where vmap itself ends: :ref:`vmap-limits`. J against its transpose:
# :ref:`dot-product-test`. An operation without forward mode: :ref:`jvp-from-vjps`.
#
# .. asked: custom Function with vmap; setup_context; generate_vmap_rule; custom
#    Function with torch.func; jvp of a custom Function
