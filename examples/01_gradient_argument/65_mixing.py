r"""
.. _mixing-samples:

When the ones trick lies: samples that mix
==========================================

If one sample's output depends on another sample's input, ones add those dependencies
up, and ``x.grad`` holds no sample's own derivative. PyTorch gives no warning.
"""

# %%
# The trick is right when the Jacobian is (block) diagonal. Take
# :math:`y_i=x_i/\sum_jx_j` instead, where every output depends on every input:
#
# .. math::
#
#    J_{ij}=\frac{\delta_{ij}}{s}-\frac{x_i}{s^2},\qquad s=\sum_jx_j

import torch


def share(x):
    return x / x.sum()


x = torch.tensor([1.0, 2.0, 3.0])
J = torch.func.jacfwd(share)(x)
J.round(decimals=3)

# %%
# The derivative of each output by its own input is on the diagonal. Ones sum the columns
# instead. Since the shares always add up to 1, that sum is 0:

(ones,) = torch.func.vjp(share, x)[1](torch.ones(3))
print("own: ", J.diagonal().round(decimals=3))
print("ones:", ones.round(decimals=3) + 0.0)

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
# Which sample depends on which, for ``cumsum``: output ``i`` on the inputs up to ``i``:

pullback.mixing(functions["cumsum"], X).matrix.int()

# %%
# What goes wrong
# ---------------
#
# *Is summing over the batch legitimate?* In training mode the ones give numbers close to
# zero for BatchNorm, whatever follows the sum; they look like a vanished gradient:

leaf = X.clone().requires_grad_()
norm.train()(leaf).backward(torch.ones(4, 3))
print((leaf.grad.abs() < 1e-5).all().item())

# %%
# What to do instead
# ------------------
#
# If you want each output's own derivative, take the diagonal of the Jacobian, or one
# :term:`one-hot vector` for each sample. There is no cheap trick: each costs a product.

rows = [torch.func.vjp(share, x)[1](v)[0] for v in torch.eye(3)]
own = torch.stack(rows).diagonal()
own.round(decimals=3)

# %%
# It equals the derivative by hand, :math:`1/s-x_i/s^2`, and ones equal the sum of the
# columns, here zero:

s = x.sum()
torch.testing.assert_close(own, 1 / s - x / s**2)
torch.testing.assert_close(ones, J.sum(0))
torch.testing.assert_close(ones, torch.zeros(3), atol=1e-6, rtol=0)

# %%
# Where next
# ----------
#
# A Jacobian for every sample: :ref:`jacobian-per-sample`. What these Jacobians look like:
# :ref:`seeing-jacobians`.
