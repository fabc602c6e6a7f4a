r"""
.. _jacobian-of-parameters:

The Jacobian with respect to the parameters of a module
=======================================================

You want the :term:`Jacobian` of a network's outputs with respect to its weights, but the
weights are not an argument of the network. So turn them into an argument.
:func:`torch.func.functional_call` runs a module with parameters from a dict, and the
Jacobian with respect to that dict is a dict of Jacobians.
"""

# %%
# We start with a linear layer, :math:`y=Wx+b`, which maps shape ``(3,)`` to shape ``(2,)``.
# Its Jacobian with respect to the weight has shape ``(2, 2, 3)``, with
# :math:`\partial y_i/\partial W_{kl}=\delta_{ik}x_l`, and its Jacobian with respect to the
# bias is the identity. A seed makes the weights repeatable, though these two Jacobians do
# not depend on the weights:

import torch
from torch.func import functional_call, jacrev, vmap

torch.manual_seed(0)
layer = torch.nn.Linear(3, 2)
params = {name: p.detach() for name, p in layer.named_parameters()}
x = torch.tensor([1.0, 2.0, 3.0])


def run(params, x):
    return functional_call(layer, params, (x,))


J = jacrev(run)(params, x)
{name: tuple(block.shape) for name, block in J.items()}

# %%
# The Jacobian with respect to the weight holds the input, once for each output, and zeros
# elsewhere:

J["weight"]

# %%
# :func:`pullback.jacobian` gives the same result. It takes a dict and returns a dict, too:

import pullback

ours = pullback.jacobian(run, params, x)
ours["bias"]

# %%
# One matrix for all parameters
# -----------------------------
#
# If you need a single matrix, flatten the blocks and join them. Each row then belongs to
# one output, and each column to one entry of the weight or of the bias:

matrix = torch.cat([block.flatten(1) for block in J.values()], dim=1)
matrix

# %%
# *How do I get the NTK?* The neural tangent kernel is :math:`K_{ab}=J_aJ_b^\top`, where
# :math:`J_a` and :math:`J_b` are the Jacobians with respect to the parameters at the
# samples :math:`a` and :math:`b`. Use ``vmap`` to map over the samples but not over the
# parameters, and then multiply the Jacobians. For each pair of our three samples,
# :math:`K_{ab}` is a 2×2 matrix. We print its first entry, the product of the two rows that
# belong to the first output:

X = torch.stack([x, -x, 2 * x])
batch = vmap(jacrev(run), (None, 0))(params, X)
J_X = torch.cat([block.flatten(2) for block in batch.values()], dim=2)
kernel = torch.einsum("aip,bjp->abij", J_X, J_X)
print(tuple(J_X.shape), tuple(kernel.shape))
kernel[:, :, 0, 0]

# %%
# For this layer :math:`K_{ab}=(x_a\cdot x_b+1)\,I`, where the 1 comes from the bias. Since
# :math:`x\cdot x=14`, the first row is 15, −13 and 29.
#
# A deeper module
# ---------------
#
# For a deeper module nothing changes but the names. ``backward`` computes one :term:`VJP`,
# and adds the part for each parameter to the ``.grad`` of that parameter. With a one-hot
# ``v``, each ``.grad`` then holds one row of the Jacobian with respect to its parameter. We
# compare these rows with the blocks of ``jacrev``:

net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
deep = {name: p.detach() for name, p in net.named_parameters()}
blocks = jacrev(lambda deep: functional_call(net, deep, (x,)))(deep)
net(x).backward(torch.tensor([0.0, 1.0]))
for name, p in net.named_parameters():
    agrees = torch.allclose(p.grad, blocks[name][1], atol=1e-6)
    print(f"{name:8} {tuple(blocks[name].shape)!s:10} second row as backward's: {agrees}")

# %%
# *How do I differentiate with respect to the input and the parameters at once?* Name both
# arguments of ``run`` in ``argnums``. ``jacrev`` then returns a pair of Jacobians, both of
# which it computes from the same VJPs:

by_params, by_input = jacrev(run, argnums=(0, 1))(params, x)
print(list(by_params), torch.equal(by_input, layer.weight))

# %%
# *backward after functional_call: whose .grad is filled?* ``backward`` fills the ``.grad``
# of the tensors in the dict, whether they are the module's tensors or your own. If the
# tensors in the dict are not leaves, for example because an update step computed them,
# ``backward`` fills the ``.grad`` of the leaves that they were computed from. If a name is
# left out, or misspelled in its last part, the module's own tensor is used in its place,
# and you get an error only if you pass ``strict=True`` to ``functional_call``. We try four
# dicts: the layer's own parameters, copies of them, tensors that are computed from the
# copies, and a dict with a misspelled name. For each of them, a line of the output shows
# the gradient of the layer's bias, and then the gradient of our copy of the bias:

own = {name: p.clone().requires_grad_() for name, p in params.items()}
stepped = {name: 0.5 * p for name, p in own.items()}
for given in (dict(layer.named_parameters()), own, stepped, {"wieght": own["weight"]}):
    layer.zero_grad()
    own["bias"].grad = None
    run(given, x).sum().backward()
    print(layer.bias.grad, own["bias"].grad)
layer.zero_grad()

# %%
# What goes wrong
# ---------------
#
# It is a mistake to differentiate a function that ignores its argument and uses the
# module's own parameters. :mod:`torch.func` follows only the argument, and so it returns
# zeros:

zeros = jacrev(lambda params: layer(x))(params)
zeros["bias"].detach()

# %%
# :func:`pullback.jacobian` raises an error instead:

try:
    pullback.jacobian(lambda params: layer(x), params)
except RuntimeError as error:
    print(error)

# %%
# *hessian(func, layer.weight) is all zeros*, with the right shape. The reason is the same:
# the function ignores its argument ``w`` and calls ``layer(x)``, which uses the module's
# own weight. If you pass ``strict=True`` to ``hessian``, you get an error. To get the
# :term:`Hessian`, pass ``w`` to the layer with ``functional_call``. In the output,
# ``False`` means that every entry of the wrong Hessian is zero. A block of the right
# Hessian is printed beside it, and the error is printed last:


def unused(w):
    return (layer(x) ** 2).sum()


def used(w):
    return (functional_call(layer, {"weight": w}, (x,)) ** 2).sum()


hessian, weight = torch.autograd.functional.hessian, layer.weight.detach()
second = hessian(used, weight)
print(hessian(unused, weight).any().item(), second[0, :, 0])
try:
    hessian(unused, weight, strict=True)
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %%
# *One block is zero, and the others are right.* The name of this block may be misspelled in
# the dict. ``functional_call`` ignores a name if the module to which the name leads has no
# such tensor. With ``strict=True`` it raises an error, but then the dict must also have an
# entry for every parameter and every buffer. Buffers are tensors that a module stores but
# does not train, such as the running means of a BatchNorm. A name that leads to no module
# at all always raises an error:

for name in ("bais", "module.bias"):
    try:
        functional_call(layer, {**params, name: params["bias"]}, (x,))
        print(name, "is ignored")
    except AttributeError as error:
        print(name, "raises:", error)

# %%
# ``functional_call`` refuses a module that was compiled with ``torch.jit.script``. If you
# have computed ``y`` already, you need no function: ``torch.autograd.grad`` takes a list of
# parameters, and returns a block for each of them:

y = layer(x)
at_once = torch.autograd.grad(
    y, list(layer.parameters()), torch.eye(2), is_grads_batched=True
)
[tuple(block.shape) for block in at_once]

# %%
# As a check, we compare the blocks with the formulas, the kernel with the closed form,
# and a weighted sum of the rows of each block with the result of ``backward``:

v = torch.tensor([1.0, 10.0])
layer(x).backward(v)
assert torch.equal(J["weight"], torch.einsum("ik,l->ikl", torch.eye(2), x))
assert torch.equal(J["bias"], torch.eye(2))
for name, p in layer.named_parameters():
    torch.testing.assert_close(ours[name], J[name])
    torch.testing.assert_close(p.grad, torch.tensordot(v, J[name], dims=1))
torch.testing.assert_close(second[0, :, 0], 2 * torch.outer(x, x))
closed = (X @ X.T + 1)[:, :, None, None] * torch.eye(2)
torch.testing.assert_close(kernel, closed)
for block, expected in zip(at_once, J.values(), strict=True):
    assert torch.equal(block, expected)
for wrong in ({**params, "bais": params["bias"]}, {"weight": params["weight"]}):
    try:
        functional_call(layer, wrong, (x,), strict=True)
        raise AssertionError
    except RuntimeError:
        pass

# %%
# Where next
# ----------
#
# :ref:`jacobian-per-sample` gives a Jacobian for each sample, and :ref:`never-forms-j`
# explains why training needs none of these matrices.
#
# .. asked: Jacobian by parameters; Jacobian by the weights of a module;
#    functional_call; derivative of outputs by weights
# .. words: weights, dict, flatten, one matrix, network, stateless, named
