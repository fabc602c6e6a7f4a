r"""
.. _mixing-samples:

When the ones trick lies: samples that mix
==========================================

If one sample's output depends on another sample's input, the :term:`ones trick` adds
that dependence in, and ``x.grad`` no longer holds each sample's own
:term:`derivative`. PyTorch gives no warning.
"""

# %%
# The trick is right when the :term:`Jacobian` is (block) diagonal. Take
# :math:`y_i=x_i/\sum_jx_j` instead, where the samples :term:`mix <mixing>`: every output
# depends on every input. With :math:`\delta_{ij}=1` for :math:`i=j` and 0 otherwise,
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
# The derivative of each output by its own input is on the diagonal. Ones add up each
# column instead. Since the shares always sum to 1, the columns sum to 0:

share(x).backward(torch.ones(3))
print("own: ", J.diagonal().round(decimals=3))
print("ones:", x.grad.round(decimals=3) + 0.0)

# %%
# Drawn: an off-diagonal entry is a sample that looks at another:

import pullback.plot

ax = pullback.plot.heatmap(J, title="Every share depends on every input")

# %%
# Who mixes
# ---------
#
# :func:`pullback.mixing` gives the answer for your function. Softmax over the samples,
# ``cumsum`` and attention mix; a softmax *within* each sample does not:

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
# BatchNorm mixes in training, where it normalises by statistics of the whole batch, and
# does not in evaluation, where the statistics are constants:

norm = torch.nn.BatchNorm1d(3)
print("training:  ", bool(pullback.mixing(norm.train(), X)))
print("evaluation:", bool(pullback.mixing(norm.eval(), X)))

# %%
# *A transformer with LayerNorm: may I sum over the batch? And over time?* Over the batch,
# yes: LayerNorm looks at one token, attention at the tokens of one sample. Over time, no:
# ones over T give :math:`\sum_t\partial y_t/\partial x_s`, as attention mixes tokens:

torch.manual_seed(0)  # any weights mix
encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
tokens = torch.randn(2, 3, 4)
for name, dim in {"batch": 0, "time": 1}.items():
    print(name, bool(pullback.mixing(encoder, tokens, dim=dim)))

# %%
# Which sample depends on which, for ``cumsum``: output ``i`` on the inputs up to ``i``:

pullback.mixing(functions["cumsum"], X).matrix.int()

# %%
# The same of four numbers, to touch. Each output's derivative by its own input is 1, and
# ones give 4, 3, 2, 1. *one-hot* gives a row at a time; of each you want one entry alone,
# the one on the diagonal:

pullback.live(lambda x: x.cumsum(0), torch.ones(4))

# %%
# What goes wrong
# ---------------
#
# *Is summing over the batch legitimate?* Not through BatchNorm in training mode: its
# outputs have mean 0 whatever the inputs are, so the :term:`gradient` of their sum is 0
# but for rounding. It looks like a vanished gradient, and is the right answer to another
# question:

leaf = X.clone().requires_grad_()
norm.train()(leaf).backward(torch.ones(4, 3))
print((leaf.grad.abs() < 1e-5).all().item())

# %%
# *The derivative of a neural operator does not agree with finite differences along the
# grid.* A convolution or an FFT over the points mixes them, where a network of each point
# does not. Here the field is the mean of the sine at three neighbours:

s = torch.arange(8.0) * torch.pi / 4


def operator(s):
    wave = torch.sin(s)
    return (wave.roll(1) + wave + wave.roll(-1)) / 3


field, pull = torch.func.vjp(operator, s)
own = torch.func.jacrev(operator)(s).diagonal()

# %%
# Ones say what a point does to all three values, the diagonal what it does to its own. The
# slope *along the grid* is neither. Differentiate the field: by frequency where it is
# periodic, otherwise by differences. At the first point:

along = torch.fft.irfft(1j * torch.arange(5) * torch.fft.rfft(field))
print(*(round(d[0].item(), 3) for d in (*pull(torch.ones(8)), own, along)))
by_hand = torch.cos(s) * (1 + 2 * torch.cos(torch.tensor(torch.pi / 4))) / 3
torch.testing.assert_close(along, by_hand)

# %%
# One input for all the points is the other way to mix. *I want dy/dC at each of ten
# points, and ones give 45:* the ten derivatives 0 to 9, added up, since all of them
# belong to the one ``C``. A single :term:`JVP` keeps them apart:

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
# Where samples mix, one ``v`` for all own derivatives would have to be made from J, where
# there is one. Take a :term:`one-hot vector` for each sample, and keep the diagonal:

(rows,) = torch.autograd.grad(share(x), x, torch.eye(3), is_grads_batched=True)
own = rows.diagonal()
own.round(decimals=3)

# %%
# It equals the derivative by hand, :math:`1/s-x_i/s^2`. Ones equal the sum of the
# columns, here zero, and for the shared input the sum of the ten:

s = x.detach().sum()
torch.testing.assert_close(own, 1 / s - x.detach() / s**2)
torch.testing.assert_close(x.grad, J.sum(0))
torch.testing.assert_close(x.grad, torch.zeros(3), atol=1e-6, rtol=0)
assert torch.equal(each, points)
assert C.grad == each.sum() == 45

# %%
# Where next
# ----------
#
# A Jacobian for every sample: :ref:`jacobian-per-sample`. What these Jacobians look like:
# :ref:`seeing-jacobians`.
#
# .. asked: samples mix; batch norm and per-sample gradients; attention over the batch;
#    output depends on other samples; ones trick fails
