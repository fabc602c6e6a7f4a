r"""
.. _parametrizations:

Is the norm in weight_norm and spectral_norm differentiated?
============================================================

Yes, both: the weight is a function of a parameter, and the gradient of that function goes
on to the parameter, which is where ``.grad`` is. In ``spectral_norm`` the iteration that
finds the norm is held constant; once it has converged, that changes nothing.
"""

# %%
# For one row v of a weight with length g, and for a matrix W with largest singular value σ
# and singular vectors a, b, the gradients by the parameters are
#
# .. math::
#
#    w=g\frac{v}{|v|}:\quad \bar v=\frac g{|v|}\Bigl(I-\frac{vv^\top}{|v|^2}\Bigr)\bar w,
#    \qquad
#    S=\frac W\sigma:\quad
#    \bar W=\frac1\sigma\bigl(\bar S-\langle\bar S,S\rangle\,ab^\top\bigr).
#
# What each has for parameters, and what arrives in their ``.grad``:

import warnings

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


def layer():
    linear = nn.Linear(2, 2, bias=False)
    linear.weight = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 4.0]]))
    return linear


# %%
# The loss is the outputs' sum at the input (1, 1):

torch.manual_seed(0)  # spectral_norm starts from random vectors
x, grads = torch.tensor([1.0, 1.0]), {}
for norm in (parametrizations.weight_norm, parametrizations.spectral_norm):
    linear = norm(layer())
    linear(x).sum().backward()
    for name, p in linear.named_parameters():
        grads[norm.__name__, name[-1]] = p.grad
        print(norm.__name__, name, [round(g, 4) + 0.0 for g in p.grad.flatten().tolist()])

# %%
# *What if the norm were a constant?* Another number wherever the norm grows: 1/4 in the
# last place, where the whole has −1/16. As the matrix's scale is divided out, the gradient
# g has no part along W. So a step of plain SGD, at a right angle to W, lengthens it, and at
# 10 W the gradient is a tenth of g: a learning rate that shrinks by itself:

W = torch.tensor([[1.0, 0.0], [0.0, 4.0]], requires_grad=True)
sigma = torch.linalg.matrix_norm(W, 2)
for divisor in (sigma.detach(), sigma):
    (g,) = torch.autograd.grad((W / divisor @ x).sum(), W, retain_graph=True)
    print(g.round(decimals=4).tolist(), "along W:", f"{(g * W).sum().abs():.2f}")
ten = (10 * W).detach().requires_grad_()
(slope,) = torch.autograd.grad((ten / torch.linalg.matrix_norm(ten, 2) @ x).sum(), ten)
print((W - g).norm().item() > W.norm().item(), torch.allclose(10 * slope, g))

# %%
# The iteration is a constant
# ---------------------------
#
# ``spectral_norm`` estimates :math:`\sigma=a^\top Wb` by one step of the power method for
# each *access in training mode*, with vectors kept as buffers. After a large change of W
# the first estimates are off: four norms that should be 1. So two passes are two functions;
# ``eval()`` stops the iteration (but not the gradient, see the last check):

linear = parametrizations.spectral_norm(nn.Linear(32, 32, bias=False))
original = nn.init.normal_(linear.parametrizations.weight.original)
print([round(torch.linalg.matrix_norm(linear.weight, 2).item(), 3) for _ in range(4)])
for training in (True, False):
    print(training, torch.equal(linear.train(training).weight, linear.weight))

# %%
# *Two passes in one loss*, as for real and fake samples: call the layer once on both, or
# use ``parametrize.cached``, under which the weight is computed once. End that block before
# the optimiser's step, which it does not notice:

with parametrize.cached():
    first = linear.train().weight
    nn.init.ones_(original)
    print(torch.equal(first, linear.weight))
print(torch.equal(first, linear.weight))

# %%
# What goes wrong
# ---------------
#
# *layer.weight.grad is None.* ``weight`` is computed anew at each access: a tensor that is
# no leaf, and not the one that backward went through. An edit of it is lost likewise; an
# *assignment* goes through the inverse to the parameters:

linear = parametrizations.weight_norm(layer())
linear(x).sum().backward()
with warnings.catch_warnings(action="ignore"):
    print(linear.weight.grad, linear.weight is linear.weight)
with torch.no_grad():
    linear.weight.mul_(10)
    print(linear.weight.tolist())
    linear.weight = 10 * linear.weight
    print(linear.weight.tolist())

# %%
# *I normalised after making the optimiser.* ``weight_norm`` replaces the parameter by two
# new ones, which the optimiser never sees: this weight stays as it is, and nothing is said.
# ``spectral_norm`` keeps the tensor. Does the optimiser have every parameter?

for norm in (parametrizations.weight_norm, parametrizations.spectral_norm):
    linear = layer()
    (known,) = torch.optim.SGD(linear.parameters(), lr=0.1).param_groups
    mine = norm(linear).parameters()
    print(norm.__name__, all(any(p is q for q in known["params"]) for p in mine))

# %%
# *My weights are nan after weight_norm.* A row of zeros, as in a last layer that starts at
# zero, has no direction:

zero = nn.Linear(2, 1, bias=False)
nn.init.zeros_(zero.weight)
print(parametrizations.weight_norm(zero).weight.tolist())

# %%
# *Does a checkpoint with weight_g, weight_v or weight_orig load?* Those are names of
# ``torch.nn.utils``, whose ``weight_norm`` warns of its end. The new ``weight_norm`` reads
# the old names, the new ``spectral_norm`` does not:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in ("weight_norm", "spectral_norm"):
        old, new = (getattr(home, name)(layer()) for home in (nn.utils, parametrizations))
        print(new.load_state_dict(old.state_dict(), strict=False))
print(caught[0].message)

# %%
# The check: both formulas with the numbers of the first block:

W, of_weight = W.detach(), torch.ones(2, 1) * x  # the gradient by the weight itself
length = W.norm(dim=1, keepdim=True)
unit = W / length
along = (of_weight * unit).sum(1, keepdim=True)
torch.testing.assert_close(grads["weight_norm", "0"], along)
torch.testing.assert_close(grads["weight_norm", "1"], of_weight - along * unit)
a, s, b = torch.linalg.svd(W)
S, outer = W / s[0], a[:, :1] @ b[:1]
expected = (of_weight - (of_weight * S).sum() * outer) / s[0]
torch.testing.assert_close(grads["spectral_norm", "l"], expected)

# %%
# In ``eval()``, with constant vectors, the gradient is the layer's at any W. In training
# mode, where each access moves the vectors, it is so only after enough of them:

linear = parametrizations.spectral_norm(nn.Linear(3, 3, bias=False).double())
name, original = next(linear.named_parameters())
nn.init.normal_(original)
ones, found = torch.ones(3, dtype=torch.float64), []
call = lambda p: torch.func.functional_call(linear, {name: p}, (ones,))
for training, accesses in ((False, 0), (True, 0), (True, 300)):
    linear.train(training)
    [linear.weight for _ in range(accesses)]
    found.append(torch.autograd.gradcheck(call, (original,), raise_exception=False))
print(found)
assert found == [True, False, True]

# %%
# Where next
# ----------
#
# A penalty on the slope in place of a bound: :ref:`gradient-penalty`. Singular vectors
# inside a loss: :ref:`eigenvectors-nan`. Why .grad is None: :ref:`grad-is-none`.
#
# .. asked: weight norm; spectral norm; parametrization; reparametrised weight has no
#    grad; gradient through a normalised weight; weight_g and weight_v
#
# .. words: power iteration, sigma, orthogonal, register_parametrization, weight.original,
#    constraint on weights, g and v, none grad
