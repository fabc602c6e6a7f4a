r"""
.. _vjp-of-structures:

My function returns a dict, or takes keyword arguments: which v does vjp want?
==============================================================================

A detector returns ``{"boxes": …, "classes": (…, …)}``, and you would like its
:term:`vector-Jacobian product`. There is more than one output tensor, so what is ``v``? It
has the structure of the outputs. If the function returns a dict, ``v`` is a dict with the
same keys, and if it returns a tuple, ``v`` is a tuple, nested in the same way, with one
tensor for each output tensor. If you pass some arguments by keyword, or if some are not
tensors, wrap your function in another one that passes them. If the function also returns
tensors that you only want to look at, return these tensors separately and pass
``has_aux=True``.
"""

# %%
# One v for each tensor
# ---------------------
#
# Our example is small enough to check in your head. ``x`` has the shape ``(2,)``. The
# output is a dict. Under the key ``"a"`` it has a vector of shape ``(2,)``. Under ``"b"``
# it has a pair, which consists of a number, of shape ``()``, and another vector. ``v``
# has a tensor in each of the same three places. We give the vector under ``"a"`` the
# weight 1, the number the weight 0, and the other vector the weight 10, so the result
# should be :math:`1+10\cdot 2x`. The result comes as a tuple, with one entry for each
# input:

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
# An output that you do not care about gets zeros, as the number did. If you want only a
# single output, you can also write a function that returns nothing else.
#
# :func:`torch.autograd.backward` does not accept nested structures. It takes the tensors in
# a list, and if you leave an output out, its ``v`` counts as zeros:

leaf = x.clone().requires_grad_()
outputs = f(leaf)
torch.autograd.backward([outputs["a"], outputs["b"][1]], [one, 10 * one])
print(torch.equal(leaf.grad, g))

# %%
# Do you have to write all the zeros by hand? No. Make the zeros from the outputs, and then
# put in the entries that you want. ``tree_map`` walks through any structure. The name of
# its module begins with an underscore, so a later version of torch may change the function:

from torch.utils import _pytree as pytree

outputs, pull = vjp(f, x)
v = pytree.tree_map(torch.zeros_like, outputs)
v["a"] = one
(only_a,) = pull(v)
only_a

# %%
# Inputs that are structures
# --------------------------
#
# The parameters of a network are a dict, and a dict may be an input as well. The result
# then has the structure of this dict. ``vjp`` differentiates with respect to *every*
# argument. It has no ``argnums``, with which :func:`torch.func.grad` and
# :func:`torch.func.jacrev` let you choose arguments. If you want the gradient with
# respect to the parameters alone, put the data into a lambda:

parameters = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}


def layer(parameters, x):
    return parameters["weight"] @ x + parameters["bias"]


_, pull = vjp(layer, parameters, x)
print("both:", pull(torch.tensor([10.0])))
_, pull = vjp(lambda p: layer(p, x), parameters)
print("parameters alone:", pull(torch.tensor([10.0])))

# %%
# ``jacrev`` keeps both structures. The structure of the outputs is the outer one, and in
# each of its places there is one entry for each argument in ``argnums``. For a batch, put
# :func:`torch.func.vmap` around it. Here the output is a dict with the product of two
# vectors:

J = torch.func.jacrev(lambda a, b: {"product": a * b}, argnums=(0, 1))
print(J(x, 3 * x))
by_a, by_b = torch.func.vmap(J)(torch.ones(5, 2), torch.ones(5, 2))["product"]
by_a.shape

# %%
# Results that you only want to look at
# -------------------------------------
#
# The loss needs a gradient, and the predictions are for the log. With ``has_aux=True`` your
# function returns two results, and ``vjp`` returns the second one as it is. The second
# result takes no ``v``, but it has to consist of tensors, too. If you want to keep anything
# else, such as a string, append it to a list outside the function:


def loss_and_scores(x):
    scores = x**2
    notes.append("called once")
    return scores.sum(), {"scores": scores}


notes = []
loss, pull, aux = vjp(loss_and_scores, x, has_aux=True)
print(loss, pull(torch.tensor(1.0)), aux, notes)

# %%
# What to watch for
# -----------------
#
# **A structure that is not quite the same.** You get an error if ``v`` has a list where the
# output has a tuple, if a part is left out, or if the keys of a dict are in a different
# order. You also get an error for keyword arguments, for inputs that are Python numbers or
# integer tensors, for outputs that are integer tensors, such as the labels of a detector,
# and for outputs that are not tensors:

tries = {
    "one tensor": lambda: vjp(f, x)[1](one),
    "a list for a tuple": lambda: vjp(f, x)[1]({"a": one, "b": [zero, one]}),
    "a part left out": lambda: vjp(f, x)[1]({"a": one}),
    "keys in another order": lambda: vjp(f, x)[1]({"b": (zero, one), "a": one}),
    "a keyword": lambda: vjp(f, x, scale=3.0),
    "a float": lambda: vjp(f, x, 3.0),
    "an integer tensor": lambda: vjp(torch.pow, x, torch.tensor(2)),
    "integer labels": lambda: vjp(lambda x: (x, x.argmax()), x),
    "an output that is 3": lambda: vjp(lambda x: (x, 3), x),
    "an aux that is 3": lambda: vjp(lambda x: (x, 3), x, has_aux=True),
}

# %%
# Here are the messages. The messages about the structure also name both structures, and
# we cut this part off:

for name, attempt in tries.items():
    try:
        attempt()
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}: {str(error).partition(' cotangents:')[0]}")

# %%
# The first four are about ``v``, so change ``v``. For the others, wrap your function in one
# that passes the argument or drops the result. ``functools.partial`` also makes such a
# function. An integer tensor may be the second result with ``has_aux=True``, so a detector
# can return its labels in this way:

from functools import partial

for mended in (partial(f, scale=3.0), lambda x: f(x, 3.0)):
    print(vjp(mended, x)[1]({"a": one, "b": (zero, 0 * one)})[0])
for mended in (lambda x: torch.pow(x, torch.tensor(2)), lambda x: (x, 3)[0]):
    print(vjp(mended, x)[1](one)[0])
_, pull, label = vjp(lambda x: (x**2, x.argmax()), x, has_aux=True)
print(pull(one)[0], label)

# %%
# **None is not zero.** You may want to write None for an output that does not matter. But
# None means that ``v`` is missing, as in ``backward()``. For an output that is a single
# number, None counts as 1. So the result below is different from ``g``, and there is no
# message. For a longer output None is refused:

_, pull = vjp(f, x)
(with_none,) = pull({"a": one, "b": (None, 10 * one)})
print(with_none, "and not", g)
try:
    pull({"a": None, "b": (zero, 10 * one)})
except RuntimeError as error:
    print(error)

# %%
# .. admonition:: Try it
#
#    Which ``v`` gives you the gradient of the *sum of all five* output entries, and what
#    should the result be at ``x = (1, 2)``?
#
# .. dropdown:: Answer
#
#    It holds ones everywhere. The vector under ``"a"`` contributes 1, the number
#    contributes 1 as well, and the squares contribute :math:`2x`:

print(pull(pytree.tree_map(torch.ones_like, outputs))[0])

# %%
# .. dropdown:: How we checked this page
#
#    We join all outputs into one vector of five entries. Its :term:`Jacobian`, which we
#    worked out on paper, is a matrix of shape ``(5, 2)``. We join each ``v`` in the same
#    order, multiply it by this matrix, and compare.


def joined(x):
    return torch.cat([t.reshape(-1) for t in pytree.tree_leaves(f(x))])


J = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 4.0]])
torch.testing.assert_close(torch.func.jacrev(joined)(x), J)
torch.testing.assert_close(torch.cat([one, zero[None], 10 * one]) @ J, g)
torch.testing.assert_close(torch.cat([one, torch.zeros(3)]) @ J, only_a)
torch.testing.assert_close(torch.cat([one, torch.ones(1), 10 * one]) @ J, with_none)
torch.testing.assert_close(pull(pytree.tree_map(torch.ones_like, outputs))[0], J.sum(0))
assert label == 1

# %%
# **Next:** To pass several outputs to ``backward`` without a structure, read
# :ref:`several-outputs`. In :ref:`jacobian-of-parameters` the parameters of a module are
# passed as a dict. For what ``vmap`` refuses, read :ref:`vmap-limits`.
#
# .. asked: function returns a dict; vjp of a function with dict output; pytree
#    cotangents; nested outputs; keywords in torch.func.vjp; has_aux
# .. words: dictionary, namedtuple, dataclass, kwargs, pytree, model output object, Hugging
#    Face output, nested
