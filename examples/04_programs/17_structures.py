r"""
.. _vjp-of-structures:

My function returns a dict, or takes keywords: which v does vjp want?
=====================================================================

A ``v`` for each tensor, in the same structure as the outputs: a tuple for a tuple, a dict
for a dict, nested alike. What is no tensor has to leave: options by a closure, results by
another way out. Tensors that need no ``v`` go through ``has_aux=True``.
"""

# %%
# ``x`` has shape ``(2,)``. The outputs are a dict with a vector, and a pair of a number and
# a vector; so is ``v``, and what comes back is a tuple, with one entry for each input:

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
# *I want only one of them*: zeros for the others, as above, or a function that returns that
# one alone. :func:`torch.autograd.backward` knows no structure; it wants the tensors in a
# list, and leaves out what you leave out:

leaf = x.clone().requires_grad_()
outputs = f(leaf)
torch.autograd.backward([outputs["a"], outputs["b"][1]], [one, 10 * one])
print(torch.equal(leaf.grad, g))

# %%
# Inputs
# ------
#
# Inputs may be structures too, and the result has theirs. All inputs get a gradient; make a
# closure around those that should not. With ``torch.func.grad`` and ``jacrev`` the choice
# is ``argnums``, which ``vjp`` has not:

parameters = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}


def layer(parameters, x):
    return parameters["weight"] @ x + parameters["bias"]


_, pull = vjp(layer, parameters, x)
print(pull(torch.tensor([10.0])))
_, pull = vjp(lambda p: layer(p, x), parameters)
print(len(pull(torch.tensor([10.0]))))

# %%
# Results that are no outputs
# ---------------------------
#
# *The loss needs a gradient, the predictions are only to be looked at.* ``has_aux=True``
# hands the second of two results through. It has to be of tensors as well; a list that is
# filled from inside takes all else:


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
# A ``v`` of another structure, a list where the output has a tuple, a part left out;
# keywords; inputs that are numbers, or integers; outputs that are no tensors. Each says so:

tries = {
    "one tensor": lambda: vjp(f, x)[1](one),
    "a list for a tuple": lambda: vjp(f, x)[1]({"a": one, "b": [zero, one]}),
    "a part left out": lambda: vjp(f, x)[1]({"a": one}),
    "a keyword": lambda: vjp(f, x, scale=3.0),
    "a float": lambda: vjp(f, x, 3.0),
    "an integer tensor": lambda: vjp(torch.pow, x, torch.tensor(2)),
    "an output that is 3": lambda: vjp(lambda x: (x, 3), x),
    "an aux that is 3": lambda: vjp(lambda x: (x, 3), x, has_aux=True),
}

# %%
# What they say:

for name, attempt in tries.items():
    try:
        attempt()
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}: {str(error).partition(' cotangents:')[0]}")

# %%
# All but the structure are mended by a closure, or ``functools.partial``:

from functools import partial

for mended in (partial(f, scale=3.0), lambda x: f(x, 3.0)):
    print(vjp(mended, x)[1]({"a": one, "b": (zero, 0 * one)})[0])
print(vjp(lambda x: torch.pow(x, torch.tensor(2)), x)[1](one)[0])

# %%
# *Must I write the zeros by hand?* Make them from the outputs, and then put in what you
# mean. ``tree_map`` walks any structure:

from torch.utils import _pytree as pytree

outputs, pull = vjp(f, x)
v = pytree.tree_map(torch.zeros_like, outputs)
v["a"] = one
pull(v)[0]

# %%
# ``_pytree`` has an underscore: torch promises nothing of it. The check joins all outputs
# to one vector, whose :term:`Jacobian` is a matrix, and multiplies:


def joined(x):
    return torch.cat([t.reshape(-1) for t in pytree.tree_leaves(f(x))])


J = torch.func.jacrev(joined)(x)
torch.testing.assert_close(torch.cat([one, zero[None], 10 * one]) @ J, g)
torch.testing.assert_close(torch.cat([one, torch.zeros(3)]) @ J, pull(v)[0])

# %%
# Where next
# ----------
#
# Several outputs in ``backward``: :ref:`several-outputs`. The parameters of a module as a
# dict: :ref:`jacobian-of-parameters`. What a transform refuses: :ref:`vmap-limits`.
