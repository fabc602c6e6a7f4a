r"""
.. _module-hooks:

A full backward hook on a module: when does it run, and what does it see?
=========================================================================

You want to see or change the gradients of a module, and you register a hook on the
module. In the backward pass the hook runs after the gradients with respect to the
module's *inputs* have been computed. PyTorch passes it two tuples: ``grad_input``, the
:term:`cotangents <cotangent>` of the inputs, and ``grad_output``, the cotangents of the
outputs. If no input needs a gradient, the hook sees None in place of the inputs'
cotangents. It does not see tensors in a list or dict, or tensors passed by keyword. What
the hook returns replaces the inputs' cotangents, but not the gradient of any weight.
"""

# %%
# Our layer maps shape ``(1, 2)`` to ``(1, 1)``. Both of its weights are 3, and ``v`` is 1.
# ``to_x``, which is usually called ``grad_input``, is a tuple with an entry for every
# positional argument. ``from_y``, which is usually called ``grad_output``, is a tuple with
# an entry for every output:

import warnings

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

layer = nn.Linear(2, 1, bias=False)
nn.init.constant_(layer.weight, 3.0)


def show(module, to_x, from_y):
    print(type(module).__name__, "x:", to_x, "y:", from_y)


handle = layer.register_full_backward_hook(show)
layer(torch.ones(1, 2, requires_grad=True)).sum().backward()

# %%
# What goes wrong
# ---------------
#
# *grad_input is None* at the first layer, whose input is data, because nothing needs the
# gradient with respect to data. If you want this gradient, call
# ``image.requires_grad_()`` before the forward pass. If no input needs a gradient, the
# hook runs as soon as the output's cotangent is known, and a warning says so:

with warnings.catch_warnings(record=True, action="always") as caught:
    layer(torch.ones(1, 2)).sum().backward()
print(str(caught[0].message).partition(". ")[0])

# %%
# *grad_input is 0* for data if another input of the module does need a gradient. This 0
# only means that the gradient with respect to the data was not computed. The true gradient
# would be 3:


class Plus(nn.Module):
    def forward(self, a, data):
        return 2 * a + 3 * data


plus = Plus()
plus.register_full_backward_hook(show)
plus(torch.ones(1, requires_grad=True), torch.ones(1)).backward()

# %%
# *grad_input has a None in the middle.* There is an entry for every positional argument.
# The entry of an argument that is not a tensor, such as a number or a flag, is None, even
# if all tensors beside it have a gradient. The weights have no entry: you find their
# gradients in ``weight.grad`` after ``backward``. And ``grad_output`` is always given:


class Times(nn.Module):
    def forward(self, x, factor):
        return factor * x


times = Times()
times.register_full_backward_hook(show)
times(torch.ones(1, requires_grad=True), 3).backward()

# %%
# *"... is a view and is being modified inplace", with a ReLU(inplace=True) after the
# layer.* To see the cotangents of a module, PyTorch passes the module's output through a
# Function that it adds for the full hook. This Function returns a view, and such a view
# must not be edited in place. Write ``nn.ReLU(inplace=False)``, or clone the output of the
# layer (:ref:`module-hook-relu`):

for after in (nn.ReLU(inplace=True), nn.ReLU(inplace=False)):
    try:
        print(after, nn.Sequential(layer, after)(torch.ones(1, 2)).shape)
    except RuntimeError as error:
        print(after, str(error).partition(". ")[0])

# %%
# *My hook is not called.* Perhaps the layer is frozen and its input is data, or the forward
# pass ran under ``no_grad``, or the loss does not depend on the layer. In these cases the
# layer has no backward pass. Nor does a compiled function call a hook that was registered
# after its first call (:ref:`error-hook-after-compile`). ``grad`` and ``jacrev`` of
# :mod:`torch.func` refuse a module that has a hook (:ref:`same-or-not`), whereas ``vmap``
# alone runs the module, never calls the hook, and gives no message. Here the layer is
# frozen, and its output needs no gradient:

print(layer.requires_grad_(False)(torch.ones(1, 2)).requires_grad)
layer.requires_grad_(True)
handle.remove()

# %%
# *What about keyword arguments, dicts, lists and dataclasses?* The hook does not see an
# argument that is not positional. If the output is neither a tensor nor a tuple, the hook
# is not called at all. Here are a module with a keyword argument and a module that returns
# a dict:


class Keyword(nn.Module):
    def forward(self, *, x):
        return 2 * x


class Dict(nn.Module):
    def forward(self, x):
        return {"y": 2 * x}


# %%
# We call both, and print the warnings. The hook of the first module sees an empty tuple of
# inputs, and the hook of the second prints nothing:

x = torch.ones(2, requires_grad=True)
for module, call in ((Keyword(), lambda m: m(x=x)), (Dict(), lambda m: m(x)["y"])):
    module.register_full_backward_hook(show)
    with warnings.catch_warnings(record=True, action="always") as caught:
        call(module).sum().backward()
    print(str(caught[0].message).partition(". ")[0])

# %%
# Register a hook on the tensor itself instead. You can do so in a forward hook, which sees
# outputs of any kind, and which also sees keyword arguments if you register it with
# ``with_kwargs=True``:

module = Dict()


def watch(module, args, out):
    out["y"].register_hook(lambda g: print("at y", g))


module.register_forward_hook(watch)
module(x)["y"].sum().backward()

# %%
# *In my hook weight.grad is None, or still the gradient of the last step.* When the hook
# runs, the gradient of the current pass may not have been added to ``weight.grad`` yet,
# and if the input is data, it has not been added. Here the current pass adds 1 to the 2
# from the earlier passes. Read ``weight.grad`` after ``backward``, or in the weight's own
# hook:

layer.register_full_backward_hook(lambda module, *_: print("module:", module.weight.grad))
layer.weight.register_post_accumulate_grad_hook(lambda w: print("weight:", w.grad))
with warnings.catch_warnings(action="ignore"):
    layer(torch.ones(1, 2)).sum().backward()

# %%
# *The weights' gradients are not changed by what I return.* These gradients are computed
# from the *output's* cotangent. A full backward pre-hook can change this cotangent before
# the gradients of the weights are computed. Both hooks below multiply what they are given
# by 10:

for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
    layer = nn.Linear(2, 1, bias=False)
    nn.init.constant_(layer.weight, 3.0)
    tens = lambda module, *cotangents: tuple(10 * g for g in cotangents[0])
    getattr(layer, register)(tens)
    data = torch.ones(1, 2, requires_grad=True)
    layer(data).sum().backward()
    print(f"{register:32} x: {data.grad[0, 0]:3.0f} weight: {layer.weight.grad[0, 0]:3.0f}")

# %%
# *My module is called twice.* In that case its hook is called twice as well, first for the
# later call to the module:

shared, order = nn.Tanh(), []
shared.register_full_backward_hook(lambda m, to_x, from_y: order.append(from_y[0].item()))
start = torch.tensor([1.0], requires_grad=True)
shared(5 * shared(start)).backward(torch.tensor([7.0]))
print(order[0], len(order))

# %%
# Hooks on saved tensors, and a second derivative
# -----------------------------------------------
#
# *My pack hook turns tensors into arrays: is double backward still right?* Yes. A pack
# hook says what is stored in place of a :term:`saved tensor`, and the unpack hook turns
# this back into a tensor. Autograd uses the tensor that the unpack hook returns, and it
# does so in the graph of the first derivative as well. But if your hook rounds the saved
# tensors, the derivatives contain this rounding, too. For :math:`\sum e^{2x}` the second
# derivative, divided by :math:`e^{2x}`, is 4:

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
fourfold = {}
for name, pack, unpack in (
    ("arrays", lambda t: t.detach().numpy().copy(), torch.from_numpy),
    ("halves", lambda t: t.detach().half(), torch.Tensor.float),
):
    with saved_tensors_hooks(pack, unpack):
        (g,) = torch.autograd.grad((x.exp() ** 2).sum(), x, create_graph=True)
    fourfold[name] = torch.autograd.grad(g.sum(), x)[0] / (2 * x).exp().detach()
    print(name, fourfold[name].round(decimals=3))

# %%
# As a check, we compare the layer's gradients with gradients worked out by hand, and the
# second derivative with 4:

assert data.grad.tolist() == [[30.0, 30.0]]
assert layer.weight.grad.tolist() == [[10.0, 10.0]]
assert order[0] == 7.0
torch.testing.assert_close(fourfold["arrays"], torch.full((3,), 4.0))
assert 0 < (fourfold["halves"] - 4).abs().max() < 0.01

# %%
# Where next
# ----------
#
# :ref:`hooks` is about hooks of tensors and nodes, and their order. :ref:`where-hooks-hang`
# explains how long a hook lives, and what happens under DDP. :ref:`checkpointing` shows how
# to keep saved tensors on the CPU.
#
# .. asked: full backward hook; register_full_backward_hook; hook on a layer; grad_input
#    and grad_output; module hook; watch the gradients of a layer
# .. words: layer, grad_input, grad_output, register, callback, container, tuple, last
#    input, Grad-CAM
