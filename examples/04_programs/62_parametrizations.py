r"""
.. _parametrizations:

Is the norm in weight_norm and spectral_norm differentiated?
============================================================

You normalize the weights of a layer, with ``weight_norm`` to make the training smoother, or
with ``spectral_norm`` to keep a critic from becoming steep. The weight that the layer uses
is then computed by dividing another weight, which is a parameter, by a norm. This norm
depends on the parameter as well. Does ``backward`` take this into account? It does: the
norm is differentiated, too, and the gradient goes on to the parameter. This explains some
surprises: why ``layer.weight.grad`` is None, why the weights grow, and why two calls to the
same layer can be two different functions.
"""

# %%
# Which parameters are trained
# ----------------------------
#
# We take a linear layer with the weight :math:`\operatorname{diag}(1,4)`, apply each of
# the two normalizations to it, and look at the parameters of the layer afterwards. The
# loss is the sum of the outputs at the input (1, 1), so that the gradient with respect to
# the weight itself is all ones:

import warnings

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


def layer():
    linear = nn.Linear(2, 2, bias=False)
    linear.weight = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 4.0]]))
    return linear


torch.manual_seed(0)  # spectral_norm starts from random vectors
x, grads = torch.tensor([1.0, 1.0]), {}
for norm in (parametrizations.weight_norm, parametrizations.spectral_norm):
    linear = norm(layer())
    linear(x).sum().backward()
    print(norm.__name__)
    for name, p in linear.named_parameters():
        grads[norm.__name__, name[-1]] = p.grad
        print("   ", name, [round(g, 4) + 0.0 for g in p.grad.flatten().tolist()])

# %%
# With ``weight_norm`` there are two parameters: the length of each row, ``original0``, and
# a vector for its direction, ``original1``. The gradient for the direction has no component
# along the row, because a longer vector has the same direction. With ``spectral_norm``
# there is one parameter, the matrix before the division by its largest singular value σ.
#
# In formulas, a bar over a symbol means the gradient with respect to it. Take one row
# with the vector ``u`` and the length ``g``, and a matrix ``W`` with the singular vectors
# ``a`` and ``b`` of σ. Then
#
# .. math::
#
#    w=g\frac{u}{|u|}:\quad \bar u=\frac g{|u|}\Bigl(I-\frac{uu^\top}{|u|^2}\Bigr)\bar w,
#    \qquad
#    S=\frac W\sigma:\quad
#    \bar W=\frac1\sigma\bigl(\bar S-\langle\bar S,S\rangle\,ab^\top\bigr).
#
# Here :math:`\bar w` and :math:`\bar S` are the ``v`` that the rest of the network sends
# to the computed weight. The parameter gets the :term:`vector-Jacobian product` of the
# normalization with this ``v``. If the norm were a constant, only the first term would
# remain, and the last entry of the gradient for ``spectral_norm`` would be different:

W = torch.tensor([[1.0, 0.0], [0.0, 4.0]], requires_grad=True)
sigma = torch.linalg.matrix_norm(W, 2)
for name, divisor in (("constant", sigma.detach()), ("differentiated", sigma)):
    (g,) = torch.autograd.grad((W / divisor @ x).sum(), W, retain_graph=True)
    along = (g * W).sum().abs()
    print(f"{name:14} {g.round(decimals=4).tolist()}, along W: {along:.2f}")

# %%
# Why the weights grow
# --------------------
#
# If the norm is differentiated, the gradient has no component along ``W``. So a step of
# plain SGD is at a right angle to ``W``, and makes ``W`` longer, whatever the data are. And
# at a ``W`` that is ten times as long, the gradient is a tenth as long, since you need a
# step ten times as long to turn ``W`` by the same angle:

longer = (W - g).norm() > W.norm()
ten = (10 * W).detach().requires_grad_()
(slope,) = torch.autograd.grad((ten / torch.linalg.matrix_norm(ten, 2) @ x).sum(), ten)
print("a step made W longer:", longer.item())
print("at 10 W a tenth of the gradient:", torch.allclose(10 * slope, g))

# %%
# So the effective learning rate shrinks by itself. We train such a layer with SGD, on
# targets with noise, where only the direction of ``W`` matters. We train once without and
# once with weight decay:

import matplotlib.pyplot as plt


def lengths_of(weight_decay, start=1.0, steps=800):
    torch.manual_seed(0)  # the same noise on every build
    W = (start * torch.eye(4)).requires_grad_()
    optimizer = torch.optim.SGD([W], lr=0.5, weight_decay=weight_decay)
    lengths = []
    for _ in range(steps):
        points = torch.randn(16, 4)
        goals = points.roll(1, dims=1) + torch.randn(16, 4)
        normalised = W / torch.linalg.matrix_norm(W, 2)
        optimizer.zero_grad()
        ((points @ normalised - goals) ** 2).mean().backward()
        optimizer.step()
        lengths.append(W.norm().item())
    return lengths, W.detach()


figure, ax = plt.subplots(layout="constrained", figsize=(5, 3))
lengths = {decay: lengths_of(decay)[0] for decay in (0.0, 0.01)}
for decay, curve in lengths.items():
    ax.plot(curve, label=f"weight_decay={decay}")
ax.set(xlabel="step", title="The length of W")
legend = ax.legend()

# %%
# Without decay the length rises in every step. With decay, the length settles where the
# growth in a step and the decay are equal. So weight decay does not make the outputs of
# such a layer any smaller. It keeps the effective learning rate from vanishing.
#
# The vectors of spectral_norm are constants
# ------------------------------------------
#
# ``spectral_norm`` does not compute σ exactly. It keeps two vectors as buffers and
# improves them by one step of the power method at each *access to the weight in training
# mode*. Then :math:`\sigma=a^\top Wb` with these vectors as constants. Once the vectors
# have converged, this gives the right gradient. After a large change of ``W`` they have
# not yet converged. Here are the norms of the weight at four accesses in a row, which
# should all be 1:

linear = parametrizations.spectral_norm(nn.Linear(32, 32, bias=False))
original = nn.init.normal_(linear.parametrizations.weight.original)
print([round(torch.linalg.matrix_norm(linear.weight, 2).item(), 3) for _ in range(4)])
for training in (True, False):
    same = torch.equal(linear.train(training).weight, linear.weight)
    print(f"training {training!s:5}: two accesses give the same weight: {same}")

# %%
# In training mode, two accesses give two different weights, and two passes compute two
# different functions. ``eval()`` stops the iteration, but not the gradient. If one loss
# needs two passes, for real and for generated samples, call the layer once on both
# together. Or use ``parametrize.cached``, under which the weight is computed once. End
# its block before the optimizer takes a step, because the cache does not notice that the
# parameter has changed:

with parametrize.cached():
    first = linear.train().weight
    nn.init.ones_(original)
    print("cached, still the old weight: ", torch.equal(first, linear.weight))
print("after the block, the old weight:", torch.equal(first, linear.weight))

# %%
# What to watch for
# -----------------
#
# **layer.weight.grad is None.** ``weight`` is computed again at each access. It is not a
# :term:`leaf`, and not even the tensor that the last ``backward`` went through. Look at the
# ``.grad`` of the parameters. For the same reason, an in-place edit of ``layer.weight`` is
# lost. An *assignment* is not lost: PyTorch inverts the normalization and changes the
# parameters:

linear = parametrizations.weight_norm(layer())
linear(x).sum().backward()
with warnings.catch_warnings(action="ignore"):  # it is no leaf, PyTorch would say
    print(linear.weight.grad, linear.weight is linear.weight)
with torch.no_grad():
    linear.weight.mul_(10)
    print("edited  ", linear.weight.tolist())
    linear.weight = 10 * linear.weight
    print("assigned", linear.weight.tolist())

# %%
# **Normalize before you make the optimizer.** ``weight_norm`` replaces the parameter with
# two new ones. An optimizer that was made before holds only the old parameter, so the new
# ones are never trained, and there is no message. ``spectral_norm`` keeps the same tensor
# as its parameter. We print whether the optimizer holds every parameter:

for norm in (parametrizations.weight_norm, parametrizations.spectral_norm):
    linear = layer()
    (known,) = torch.optim.SGD(linear.parameters(), lr=0.1).param_groups
    mine = norm(linear).parameters()
    print(norm.__name__, all(any(p is q for q in known["params"]) for p in mine))

# %%
# **A row of zeros has no direction**, and ``weight_norm`` turns it into NaN. You run into
# this with a last layer that is initialized to zero:

zero = nn.Linear(2, 1, bias=False)
nn.init.zeros_(zero.weight)
print(parametrizations.weight_norm(zero).weight.tolist())

# %%
# **Old checkpoints.** The names ``weight_g``, ``weight_v`` and ``weight_orig`` come from
# the older functions of ``torch.nn.utils``. The new ``weight_norm`` reads the old names.
# The new ``spectral_norm`` does not, and reports them as unexpected:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in ("weight_norm", "spectral_norm"):
        old, new = (getattr(home, name)(layer()) for home in (nn.utils, parametrizations))
        print(new.load_state_dict(old.state_dict(), strict=False))
print(caught[0].message)

# %%
# .. admonition:: Try it
#
#    Compare a training run that starts at 10 times the identity with one that starts at 100
#    times the identity. The outputs are the same at first. How much less does the first
#    step turn the direction of ``W``?
#
# .. dropdown:: Answer
#
#    It turns the direction only a hundredth as much. The gradient is a tenth as long, and
#    it is added to a ``W`` that is ten times as long.


def turned(start):
    W = lengths_of(0.0, start, steps=1)[1]
    return (W / torch.linalg.matrix_norm(W, 2) - torch.eye(4)).norm().item()


print(f"{turned(10.0) / turned(100.0):.0f} times less")

# %%
# .. dropdown:: How we checked this page
#
#    We compare both formulas with the numbers of the first block. We compare the gradient
#    of a spectrally normalized layer with :term:`finite differences`. In ``eval()`` mode
#    this gradient is right at any ``W``, since the vectors are constants of the function as
#    well. In training mode each access moves the vectors, and the gradient is right only
#    after enough accesses.

W, of_weight = W.detach(), torch.ones(2, 1) * x  # the gradient for the weight itself
length = W.norm(dim=1, keepdim=True)
unit = W / length
along = (of_weight * unit).sum(1, keepdim=True)
torch.testing.assert_close(grads["weight_norm", "0"], along)
torch.testing.assert_close(grads["weight_norm", "1"], of_weight - along * unit)
a, s, b = torch.linalg.svd(W)
S, outer = W / s[0], a[:, :1] @ b[:1]
expected = (of_weight - (of_weight * S).sum() * outer) / s[0]
torch.testing.assert_close(grads["spectral_norm", "l"], expected)
assert longer
rising, settled = lengths[0.0], lengths[0.01]
assert (torch.tensor(rising).diff() > 0).all()
assert max(settled[400:]) < 1.3 * min(settled[400:])
assert settled[-1] < 0.8 * rising[-1]
assert 90 < turned(10.0) / turned(100.0) < 110

linear = parametrizations.spectral_norm(nn.Linear(3, 3, bias=False).double())
name, original = next(linear.named_parameters())
nn.init.normal_(original)
ones, found = torch.ones(3, dtype=torch.float64), []
call = lambda p: torch.func.functional_call(linear, {name: p}, (ones,))
for training, accesses in ((False, 0), (True, 0), (True, 300)):
    linear.train(training)
    [linear.weight for _ in range(accesses)]
    found.append(torch.autograd.gradcheck(call, (original,), raise_exception=False))
assert found == [True, False, True]

# %%
# **Next:** ``spectral_norm`` bounds the slope of a network. To punish the slope instead,
# read :ref:`gradient-penalty`. :ref:`eigenvectors-nan` is about singular vectors inside a
# loss. For all the reasons why ``.grad`` can be None, read :ref:`grad-is-none`.
#
# .. asked: weight norm; spectral norm; parametrization; reparametrised weight has no
#    grad; gradient through a normalised weight; weight_g and weight_v
# .. words: power iteration, sigma, orthogonal, register_parametrization, weight.original,
#    constraint on weights, g and v, none grad
