r"""
.. _vjp-of-structures:

My function returns a dict, or takes keywords: which v does vjp want?
=====================================================================

One ``v`` for each output tensor, in the structure of the outputs: a dict with the same keys
for a dict, a tuple for a tuple, nested alike. Keywords, and arguments that are no tensors,
go into a closure. Returned tensors that need no ``v`` go through ``has_aux=True``.
"""

# %%
# ``x`` has shape ``(2,)``. The output is a dict of a vector, shape ``(2,)``, and a pair: a
# number, shape ``()``, and a vector, shape ``(2,)``. So is ``v``. What comes back is a
# tuple with one entry for each input, here :math:`1+10\cdot 2x`:

import torch
from torch.func import vjp


def f(x, scale=1.0):
    return {"a": scale * x, "b": (x.sum(), x**2)}


x, one, zero = torch.tensor([1.0, 2.0]), torch.ones(2), torch.tensor(0.0)
outputs, pull = vjp(f, x)
print(outputs)
(g,) = pull({"a": one, "b": (zero, 10 * one)})
g

# %%
# *I want only one of them*: zeros for the others, as for the number above, or a function
# that returns that one alone. :func:`torch.autograd.backward` takes the tensors in a list,
# without a structure, and an output that you leave out counts as zeros:

leaf = x.clone().requires_grad_()
outputs = f(leaf)
torch.autograd.backward([outputs["a"], outputs["b"][1]], [one, 10 * one])
print(torch.equal(leaf.grad, g))

# %%
# Inputs
# ------
#
# Inputs may be structures too, and the result has theirs. ``vjp`` differentiates by every
# input: put those that you do not ask for into a closure. It has no ``argnums``, by which
# :func:`torch.func.grad` and :func:`torch.func.jacrev` are told:

parameters = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}


def layer(parameters, x):
    return parameters["weight"] @ x + parameters["bias"]


_, pull = vjp(layer, parameters, x)
print(pull(torch.tensor([10.0])))
_, pull = vjp(lambda p: layer(p, x), parameters)
print(len(pull(torch.tensor([10.0]))))

# %%
# *And jacrev?* The outputs' structure outside, then an entry for each of ``argnums``. For a
# batch, :func:`torch.func.vmap` around it:

J = torch.func.jacrev(lambda a, b: {"product": a * b}, argnums=(0, 1))
print(J(x, 3 * x))
by_a, by_b = torch.func.vmap(J)(torch.ones(5, 2), torch.ones(5, 2))["product"]
by_a.shape

# %%
# Results that are no outputs
# ---------------------------
#
# *The loss needs a gradient, the predictions are only to be looked at.* ``has_aux=True``
# hands the second of two results through. That one has to consist of tensors as well; for
# anything else, append to a list that lives outside:


def loss_and_scores(x):
    scores = x**2
    notes.append("called once")
    return scores.sum(), {"scores": scores}


notes = []
loss, pull, aux = vjp(loss_and_scores, x, has_aux=True)
print(loss, pull(torch.tensor(1.0)), aux, notes)

# %%
# What goes wrong
# ---------------
#
# A ``v`` of another structure, a list where the output has a tuple, a part left out, a dict
# with its keys in another order; keywords; inputs that are numbers, or integers; outputs
# that are no tensors. Each of these calls raises:

tries = {
    "one tensor": lambda: vjp(f, x)[1](one),
    "a list for a tuple": lambda: vjp(f, x)[1]({"a": one, "b": [zero, one]}),
    "a part left out": lambda: vjp(f, x)[1]({"a": one}),
    "keys in another order": lambda: vjp(f, x)[1]({"b": (zero, one), "a": one}),
    "a keyword": lambda: vjp(f, x, scale=3.0),
    "a float": lambda: vjp(f, x, 3.0),
    "an integer tensor": lambda: vjp(torch.pow, x, torch.tensor(2)),
    "an output that is 3": lambda: vjp(lambda x: (x, 3), x),
    "an aux that is 3": lambda: vjp(lambda x: (x, 3), x, has_aux=True),
}

# %%
# The messages; that on the structure names both structures after these words:

for name, attempt in tries.items():
    try:
        attempt()
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}: {str(error).partition(' cotangents:')[0]}")

# %%
# All but the first four are mended by a closure, or ``functools.partial``, that holds the
# argument, or drops the result:

from functools import partial

for mended in (partial(f, scale=3.0), lambda x: f(x, 3.0)):
    print(vjp(mended, x)[1]({"a": one, "b": (zero, 0 * one)})[0])
for mended in (lambda x: torch.pow(x, torch.tensor(2)), lambda x: (x, 3)[0]):
    print(vjp(mended, x)[1](one)[0])

# %%
# *May I put None where I want nothing?* No: None is a missing ``v``, as in ``backward()``.
# For a number it counts as 1, not as 0; for anything longer it is refused:

_, pull = vjp(f, x)
print(pull({"a": one, "b": (None, 10 * one)})[0], "is not", g)
try:
    pull({"a": None, "b": (zero, 10 * one)})
except RuntimeError as error:
    print(error)

# %%
# *Must I write the zeros by hand?* Make them from the outputs, and then put in what you
# mean. ``tree_map`` walks any structure:

from torch.utils import _pytree as pytree

outputs, pull = vjp(f, x)
v = pytree.tree_map(torch.zeros_like, outputs)
v["a"] = one
pull(v)[0]

# %%
# ``_pytree`` has an underscore: a later torch may change it. The check joins all outputs to
# one vector of 5 entries, whose :term:`Jacobian`, worked out on paper, is a matrix of shape
# ``(5, 2)``, and multiplies:


def joined(x):
    return torch.cat([t.reshape(-1) for t in pytree.tree_leaves(f(x))])


J = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 4.0]])
torch.testing.assert_close(torch.func.jacrev(joined)(x), J)
torch.testing.assert_close(torch.cat([one, zero[None], 10 * one]) @ J, g)
torch.testing.assert_close(torch.cat([one, torch.zeros(3)]) @ J, pull(v)[0])

# %%
# Where next
# ----------
#
# Several outputs in ``backward``: :ref:`several-outputs`. The parameters of a module as a
# dict: :ref:`jacobian-of-parameters`. What a transform refuses: :ref:`vmap-limits`.
#
# .. asked: function returns a dict; vjp of a function with dict output; pytree
#    cotangents; nested outputs; keywords in torch.func.vjp; has_aux
# .. words: dictionary, namedtuple, dataclass, kwargs, pytree, model output object, Hugging
#    Face output, nested
