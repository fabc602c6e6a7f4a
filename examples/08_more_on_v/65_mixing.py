r"""
.. _mixing-samples:

When the ones trick lies: samples that mix
==========================================

You call ``y.backward(torch.ones_like(y))`` on a batch to get the derivative of each sample
by itself. The numbers that you find in ``x.grad`` look plausible, or they are all zero. Can
you trust them? If the output of one sample depends on the input of another, the :term:`ones
trick` also adds the derivative of that output with respect to that input. Then ``x.grad``
does not hold each sample's own :term:`derivative`, and PyTorch gives no warning.
"""

# %%
# If each sample has one output, a ``v`` of ones gives each sample's own derivative as long
# as the :term:`Jacobian` is diagonal or, for samples with several inputs, block diagonal
# with one block for each sample. Here is a function whose Jacobian is not diagonal. Three
# people put money :math:`x_i` into a pot, and :math:`y_i=x_i/\sum_jx_j` is the share that
# each of them owns. If one of them pays in more, the shares of the others fall. So every
# output depends on every input, and we say that the samples :term:`mix <mixing>`. In
# formulas, with :math:`\delta_{ij}=1` for :math:`i=j` and 0 otherwise,
#
# .. math::
#
#    J_{ij}=\frac{\delta_{ij}}{s}-\frac{x_i}{s^2},\qquad s=\sum_jx_j

import torch


def share(x):
    return x / x.sum()


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
J = torch.func.jacfwd(share)(x.detach())
J.round(decimals=3)

# %%
# How does each share change with its owner's payment? The answer is on the diagonal. A
# ``v`` of ones adds up each column instead. The shares always add up to 1, whatever is paid
# in, and so each column adds up to 0:

share(x).backward(torch.ones(3))
print("own: ", J.diagonal().round(decimals=3))
print("ones:", x.grad.round(decimals=3) + 0.0)

# %%
# In a picture of the Jacobian you see the mixing at once. Each non-zero entry off the
# diagonal shows a sample whose output depends on another sample:

import pullback.plot

ax = pullback.plot.heatmap(J, title="Every share depends on every input")

# %%
# Which functions mix
# -------------------
#
# :func:`pullback.mixing` tells you whether your own function mixes. Among these four,
# softmax over the samples, ``cumsum`` and attention from one sample to another mix. A
# softmax *within* each sample does not:

import pullback

X = torch.linspace(-1, 1, 12).reshape(4, 3)
functions = {
    "softmax over samples": lambda X: X.softmax(0),
    "softmax within a sample": lambda X: X.softmax(1),
    "cumsum": lambda X: X.cumsum(0),
    "attention": lambda X: (X @ X.T).softmax(1) @ X,
}
for name, f in functions.items():
    print(f"{name:24}", "mixes" if pullback.mixing(f, X) else "does not mix")

# %%
# BatchNorm mixes in training, because it subtracts the mean of the whole batch and
# divides by its spread. In evaluation it uses stored statistics, which are constants, and
# does not mix:

norm = torch.nn.BatchNorm1d(3)
print("training:  ", bool(pullback.mixing(norm.train(), X)))
print("evaluation:", bool(pullback.mixing(norm.eval(), X)))

# %%
# *A transformer with LayerNorm: may I sum over the batch? And over time?* You may sum over
# the batch, because LayerNorm looks at one token at a time, and attention looks only at the
# tokens of one sample. You must not sum over time, because attention mixes the tokens. Over
# time, a ``v`` of ones gives the sum :math:`\sum_t\partial y_t/\partial x_s` over all times
# :math:`t`. ``pullback.mixing`` confirms both answers:

torch.manual_seed(0)  # any weights mix
encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
tokens = torch.randn(2, 3, 4)
for name, dim in {"batch": 0, "time": 1}.items():
    print(name, bool(pullback.mixing(encoder, tokens, dim=dim)))

# %%
# ``pullback.mixing`` can also say which sample depends on which. In its ``matrix``, row
# ``i`` has a 1 for each sample that output ``i`` depends on. With ``cumsum``, these are
# the inputs up to ``i``:

pullback.mixing(functions["cumsum"], X).matrix.int()

# %%
# You can try ``cumsum`` yourself, on four numbers. The derivative of each output with
# respect to its own input is 1, but with a ``v`` of ones you get 4, 3, 2, 1. Press
# *one-hot* to see one row at a time. You want only one entry of each row, the one on the
# diagonal:

pullback.live(lambda x: x.cumsum(0), torch.ones(4))

# %%
# What goes wrong
# ---------------
#
# *Is summing over the batch legitimate?* No, not if there is a BatchNorm in training mode.
# The outputs of the BatchNorm in the next cell have mean 0 whatever its inputs are, and so
# the :term:`gradient` of their sum is 0 except for rounding. This looks like a vanished
# gradient, but it is the right answer to another question:

leaf = X.clone().requires_grad_()
norm.train()(leaf).backward(torch.ones(4, 3))
print((leaf.grad.abs() < 1e-5).all().item())

# %%
# *The derivative of a neural operator does not agree with finite differences along the
# grid.* A convolution or an FFT over the points mixes them, whereas a network that is
# applied to each point separately does not. As a small operator we take the mean of the
# sine at three neighboring points, and compute its Jacobian:

s = torch.arange(8.0) * torch.pi / 4


def operator(s):
    wave = torch.sin(s)
    return (wave.roll(1) + wave + wave.roll(-1)) / 3


field, pull = torch.func.vjp(operator, s)
own = torch.func.jacrev(operator)(s).diagonal()

# %%
# Here three different numbers might be called the derivative at a point. A ``v`` of ones
# gives the effect of the input at that point on all three values that are computed from it.
# The diagonal gives only its effect on the value at the same point. The slope of the field
# *along the grid* is neither of these two. To get the slope, differentiate the field
# itself, in frequency space if it is periodic, and otherwise with difference quotients.
# Here are the three numbers for the first point, in this order:

along = torch.fft.irfft(1j * torch.arange(5) * torch.fft.rfft(field))
print(*(round(d[0].item(), 3) for d in (*pull(torch.ones(8)), own, along)))
by_hand = torch.cos(s) * (1 + 2 * torch.cos(torch.tensor(torch.pi / 4))) / 3
torch.testing.assert_close(along, by_hand)

# %%
# There is another way to mix, which is to share one input among all the points. *I want
# dy/dC at each of ten points, and ones give 45.* The ten derivatives are the numbers from
# 0 to 9. They have been added up, because all of them belong to the one ``C``. A single
# :term:`JVP` keeps them apart:

C = torch.tensor(2.0, requires_grad=True)
points = torch.arange(10.0)
(C * points).backward(torch.ones(10))
print(C.grad)
_, each = torch.func.jvp(lambda C: C * points, (C.detach(),), (torch.tensor(1.0),))
each

# %%
# What to do instead
# ------------------
#
# If samples mix, you need more than one product: take a :term:`one-hot vector` for each
# sample, and keep the diagonal. You cannot hope for one clever ``v`` that gives every
# sample its own derivative. Such a ``v`` would depend on J, and for our shares it does not
# exist. If everybody increases their payment by the same percentage, no share changes. So
# :math:`Jx=0`, and :math:`(v^\top J)x=0` for every ``v``. The derivatives on the diagonal,
# which are all positive, do not satisfy this equation:

(rows,) = torch.autograd.grad(share(x), x, torch.eye(3), is_grads_batched=True)
own = rows.diagonal()
own.round(decimals=3)

# %%
# As a check, we compare the diagonal with the derivative worked out by hand,
# :math:`1/s-x_i/s^2`, and the gradient for a ``v`` of ones with the sum of the rows, which
# is zero here. We also check that :math:`Jx=0`. For the shared input, a ``v`` of ones must
# give the sum of the ten derivatives. And for ``logsumexp`` within each sample, which has
# one output for each sample and does not mix, a ``v`` of ones must give each sample's own
# gradient:

s = x.detach().sum()
torch.testing.assert_close(own, 1 / s - x.detach() / s**2)
torch.testing.assert_close(x.grad, J.sum(0))
torch.testing.assert_close(x.grad, torch.zeros(3), atol=1e-6, rtol=0)
torch.testing.assert_close(J @ x.detach(), torch.zeros(3), atol=1e-6, rtol=0)
assert own @ x.detach() > 0.1
assert torch.equal(each, points)
assert C.grad == each.sum() == 45
leaf = X.clone().requires_grad_()
(one_output_each,) = torch.autograd.grad(leaf.logsumexp(1), leaf, torch.ones(4))
for row, gradient in zip(X, one_output_each, strict=True):
    torch.testing.assert_close(gradient, torch.func.grad(lambda r: r.logsumexp(0))(row))

# %%
# Where next
# ----------
#
# :ref:`jacobian-per-sample` gives you a Jacobian for every sample, and
# :ref:`seeing-jacobians` shows what such Jacobians look like.
#
# .. asked: samples mix; batch norm and per-sample gradients; attention over the batch;
#    output depends on other samples; ones trick fails
# .. words: batchnorm, attention, rows depend, leak, check, neighbours, softmax dim 0
