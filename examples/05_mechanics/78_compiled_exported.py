r"""
.. _compiled-and-exported:

vmap, Hessians and export: inside torch.compile or around it?
=============================================================

You compile a function, and you want one of three things: the products of its
:term:`Jacobian` with a batch of v, its second derivative, or an export of its gradient.
Differentiate first and compile the result, as in ``torch.compile(jacrev(f))``. A compiled
function has a single backward pass, which is compiled for one v. PyTorch will neither run
:term:`vmap` over this backward pass nor differentiate it. To export a gradient, trace it
with ``make_fx`` first.
"""

# %%
# Our function is :math:`y=\sin x^3`, applied elementwise; x and y have shape ``(3,)``. The
# backend ``aot_eager`` traces forward and backward as the default one does, and needs no
# C++ compiler. The gradient for v is the same whether the function is compiled or not:

from functools import partial

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx


def f(x):
    return torch.sin(x**3)


compiled = partial(torch.compile, backend="aot_eager")


x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
v = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
print(torch.autograd.grad(compiled(f)(x), x, v)[0])
print(torch.autograd.grad(f(x), x, v)[0])

# %%
# What goes wrong
# ---------------
#
# If you compute a Jacobian from a batch of v, with ``vmap`` over the compiled function's
# backward pass, the message is *It looks like you're trying to call a compiled backward
# function within vmap/grad/vjp*. For a :term:`Hessian` it is *torch.compile with
# aot_autograd does not currently support double backward*:

y, rows = compiled(f)(x), torch.eye(3, dtype=torch.float64)


def row(v):
    return torch.autograd.grad(y, x, v, retain_graph=True)[0]


def twice(x):
    (g,) = torch.autograd.grad(compiled(f)(x).sum(), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)[0]


for attempt in (lambda: vmap(row)(rows), lambda: twice(x)):
    try:
        attempt()
    except RuntimeError as error:
        print(str(error).partition(". ")[0])

# %%
# With this backend ``is_grads_batched=True`` works, whereas with the default backend it
# raises *Cannot access data pointer of Tensor that doesn't have storage*. Three other ways
# work. The first is a loop over v. The second is :mod:`torch.func` around the compiled
# function, which then runs as if it had never been compiled. The third, which we recommend,
# compiles the function together with its derivative. The three ways give the same diagonal:

at = x.detach()
looped = torch.stack([row(v) for v in rows])
for J in (looped, jacrev(compiled(f))(at), compiled(jacrev(f))(at)):
    print(J.diagonal())

# %%
# The second way has a price: once you have used it, plain calls to the compiled function no
# longer run the compiled code either. In the output, 1 means that the compiled code ran. We
# print this number before and after using the second way:

told, zero = compiled(lambda x: x + torch.compiler.is_compiling()), torch.zeros(1)
before, _, after = told(zero), jacrev(told)(zero), told(zero)
print(before, after)

# %%
# A second derivative can be compiled in the third way, too, and so can a separate gradient
# for each of three samples:

inside = compiled(hessian(lambda x: f(x).sum()))(at)
print(inside.diagonal(), compiled(vmap(grad(f)))(at))

# %%
# *What if I call backward() inside the compiled function?* The graph breaks there. With
# ``fullgraph=True`` the call is refused, unless ``torch._dynamo.config.trace_autograd_ops``
# is set. With this setting, you can also call ``backward`` twice through a shared part of
# the graph (:ref:`answers-compile` tries every combination). :func:`torch.func.grad` needs
# no such setting.
#
# Exporting a gradient
# --------------------
#
# A network that returns forces computes a gradient in its ``forward``. ``torch.export`` can
# trace ``autograd.grad`` through some operations, but fails with others, such as a
# ``Linear``. It cannot trace :func:`torch.func.grad` at all. To try ``autograd.grad``, we
# write a module:

torch.manual_seed(0)  # the same weights on every build
energy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
batch = torch.randn(2, 3)


class Slope(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.function(x).sum(), x)[0]


# %%
# We export this module with the sine, the exponential and the network in turn. Then we
# export the network's gradient as :mod:`torch.func` computes it:

func = nn.Sequential()
func.forward = grad(lambda x: energy(x).sum())
for module in (Slope(torch.sin), Slope(torch.exp), Slope(energy), func):
    try:
        torch.export.export(module, (batch,))
        print("exported")
    except Exception as error:
        print(str(error).partition("\n")[0].partition(". ")[0])

# %%
# ``make_fx`` runs the computation of the gradient once and records its operations, forward
# and backward, in one list that contains no autograd. If you pass the weights as arguments,
# they stay inputs of the traced function, and so you can change them later. From the list
# we print the names of the matrix products and of the tanh:

w = {name: p.detach().clone() for name, p in energy.named_parameters()}


def forces(w, x):
    return -grad(lambda x: functional_call(energy, w, (x,)).sum())(x)


traced = make_fx(forces, tracing_mode="symbolic")(w, batch)
names = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"]
print([name for name in names if "mm" in name or "tanh" in name])

# %%
# With ``tracing_mode="symbolic"`` the batch size stays variable. ``make_fx`` returns the
# recorded list as an ordinary module, and this module can be exported. Here we export it
# with the network's parameters as its weights, and then call the exported program with
# seven samples:


class Exportable(nn.Sequential):
    def forward(self, x):
        return traced(dict(self[0].named_parameters()), x)


size = torch.export.Dim("size")
program = torch.export.export(Exportable(energy), (batch,), dynamic_shapes=({0: size},))
print(program.module()(torch.ones(7, 3)).shape)

# %%
# An ONNX exporter that starts from such a program gets a forward pass of plain operations.
# While the function is traced, a branch on ``training`` is decided once and for all, and a
# branch on the value of a tensor is refused.
#
# As a check, we compare the derivatives with formulas, and the forces with those from plain
# autograd, for different weights and a different batch:

torch.testing.assert_close(compiled(jacrev(f))(at), (3 * at**2 * (at**3).cos()).diag())
second = 6 * at * (at**3).cos() - 9 * at**4 * (at**3).sin()
torch.testing.assert_close(inside, second.diag())
more = torch.randn(5, 3, requires_grad=True)
with torch.no_grad():
    energy[0].weight.mul_(2)
(slope,) = torch.autograd.grad(energy(more).sum(), more)
torch.testing.assert_close(program.module()(more.detach()), -slope)

# %%
# Where next
# ----------
#
# :ref:`same-numbers` checks whether the compiled gradient is the same as the uncompiled
# one. :ref:`vmap-limits` explains what else vmap refuses, and :ref:`functional-buffers`
# shows how to pass parameters as arguments.
#
# .. asked: torch.compile and gradients; compile with Hessian; compile a function with
#    vmap; torch.export gradient; backward inside of torch.compile; compile and backward
#    with a vector; compiled model backward; double backward with compile
# .. words: compile, dynamo, graph break, inductor, export, onnx, faster, fullgraph, inside
#    or outside, libtorch, c++
