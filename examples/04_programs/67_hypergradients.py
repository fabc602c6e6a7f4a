r"""
.. _hypergradients:

How do I differentiate through training? Hypergradients, influence
==================================================================

Write the steps so that they are recorded, with ``create_graph=True``, and memory grows with
every step; or, at a minimum, solve one system with the :term:`Hessian`. The same system
says how much a single training example has to do with a prediction.
"""

# %%
# Weights w minimise a training loss L(w, λ); V(w) is the loss on other data. With
# :math:`H=\nabla_w^2L`, at the minimum
#
# .. math::
#
#    \frac{dV}{d\lambda}=-q^\top\,\frac{\partial^2L}{\partial w\,\partial\lambda},
#    \qquad H\,q=\nabla V .
#
# λ is the logarithm of a penalty's weight; w and q have shape ``(3,)``:

import torch

torch.manual_seed(0)  # the same data on every build
X, t = torch.randn(8, 3).double(), torch.randn(8).double()
other, answer = torch.randn(6, 3).double(), torch.randn(6).double()
lam, start = torch.zeros((), dtype=torch.float64), torch.zeros(3, dtype=torch.float64)


def training_loss(w, lam):
    return ((X @ w - t) ** 2).mean() + lam.exp() * (w @ w)


def validation_loss(w):
    return ((other @ w - answer) ** 2).mean()


# %%
# An optimiser forgets
# --------------------
#
# ``step`` edits the weights under ``no_grad``: nothing says that λ had any part in them.

w, tuned = start.clone().requires_grad_(), lam.clone().requires_grad_()
training_loss(w, tuned).backward()
torch.optim.SGD([w], lr=0.1).step()
tuned.grad = None
validation_loss(w).backward()
print(tuned.grad)

# %%
# Unrolled: every step recorded
# -----------------------------
#
# The step in your own hands, with a gradient that has a graph. A hook counts what is saved:


def unrolled(steps):
    tuned, first, saved = lam.clone().requires_grad_(), start.clone().requires_grad_(), []
    hooks, w = torch.autograd.graph.saved_tensors_hooks, first
    with hooks(lambda t: saved.append(1) or t, lambda t: t):
        for _ in range(steps):
            (g,) = torch.autograd.grad(training_loss(w, tuned), w, create_graph=True)
            w = w - 0.1 * g
        return torch.autograd.grad(validation_loss(w), (tuned, first, w)), len(saved)


for steps in (1, 5, 20, 100):
    (g, *_), saved = unrolled(steps)
    print(f"{steps:3} steps {g + 0.0:8.5f}  {saved:5} saved")

# %%
# Exact for these steps; what is saved grows with them. (One step gives 0: the penalty has
# no slope at w = 0.) *Is create_graph needed?* Without it g is constant: nothing reaches λ,
# and the weights before the step get another vector, as in first-order MAML. By w, by λ:

by_w = {}
for record in (True, False):
    (g,) = torch.autograd.grad(training_loss(w, tuned), w, create_graph=record)
    later = validation_loss(w - 0.1 * g)
    by_w[record], by_lam = torch.autograd.grad(later, (w, tuned), allow_unused=True)
    print(by_w[record].numpy().round(3), by_lam)

# %%
# *Do k steps make a k-th derivative?* No, second ones: the way back through each is one
# product with :math:`I-0.1H` (:ref:`hvp`). H is constant here, so five are a fifth power:

_, by_first, by_last = unrolled(5)[0]
factor = torch.eye(3).double() - 0.1 * (2 * X.T @ X / 8 + 2 * torch.eye(3))
print(by_first.numpy().round(3), torch.allclose(by_first, factor.matrix_power(5) @ by_last))

# %%
# Implicit: one system at the minimum
# -----------------------------------
#
# Conjugate gradients need only products with H, and no step of the training is kept:

gradient = torch.func.grad(training_loss)


def solve(w, b, steps=3):  # H q = b
    q, r, p = torch.zeros_like(b), b, b
    for _ in range(steps):
        Hp = torch.func.jvp(lambda w: gradient(w, lam), (w,), (p,))[1]
        alpha = (r @ r) / (p @ Hp)
        q, new = q + alpha * p, r - alpha * Hp
        r, p = new, new + (new @ new) / (r @ r) * p
    return q


# %%
# Three steps are exact for three weights. The mixed derivative is one more :term:`VJP`, of
# the gradient by λ. *Does the formula do after a few steps, as in meta-learning?* No: it is
# about a minimum. What the unrolled ones approach, and the formula after five steps:


def formula(steps):
    w = start
    for _ in range(steps):
        w = w - 0.1 * gradient(w, lam)
    q = solve(w, torch.func.grad(validation_loss)(w))
    return w, q, -torch.func.vjp(lambda lam: gradient(w, lam), lam)[1](q)[0]


best, q, implicit = formula(300)
print(f"{implicit:.5f} {formula(5)[2]:.5f}")

# %%
# Influence: which example did it?
# --------------------------------
#
# Leaving example i out takes :math:`\ell_i/n` from the loss. To first order w moves by
# :math:`H^{-1}\nabla\ell_i/n` and V by :math:`q^\top\nabla\ell_i/n`: one q for all of them
# (Koh and Liang, 2017). Beside it, V really trained without the example:

influence = 2 * (X @ best - t) * (X @ q) / 8  # each example's gradient, times q


def without(i):  # the minimum in closed form; the mean is still over n
    keep = torch.arange(8) != i
    H = X[keep].T @ X[keep] / 8 + lam.exp() * torch.eye(3)
    return validation_loss(torch.linalg.solve(H, X[keep].T @ t[keep] / 8))


actual = torch.stack([without(i) - without(-1) for i in range(8)])
print(influence.numpy().round(3), actual.numpy().round(3), sep="\n")

# %%
# Rough, as one of 8 is not little. Conjugate gradients need a positive H; a network's is
# not: people take the Gauss-Newton matrix, or add a multiple of I (:ref:`gauss-newton`).
#
# The check: differences of the whole training, by λ and by an example's weight:


def train(lam, weights=1.0, steps=300):
    w = start
    for _ in range(steps):
        w = w - 0.1 * (2 * X.T @ (weights * (X @ w - t)) / 8 + 2 * lam.exp() * w)
    return validation_loss(w)


h = 1e-5
for steps, found in ((5, unrolled(5)[0][0]), (300, implicit)):
    up, down = (train(lam + sign * h, steps=steps) for sign in (1, -1))
    assert abs((up - down) / (2 * h) - found) < 1e-7
assert abs(train(lam, 1 - h * torch.eye(8)[2]) - train(lam) - h * influence[2]) < 1e-9
torch.testing.assert_close(by_w[True], factor @ by_w[False])

# %%
# Where next
# ----------
#
# Any solver: :ref:`implicit-differentiation`. A module's weights as such a w:
# :ref:`jacobian-of-parameters`. SGD that records: :ref:`optimizer-closures`.
#
# .. asked: hypergradient; bilevel optimisation; differentiate through training;
#    gradient of the validation loss; learn the learning rate; MAML; influence
#    functions; train inside the training; meta-learning; effect of a training sample on
#    the prediction; what if I remove a training sample; optimise hyperparameters by
#    gradient
#
# .. words: learn the learning rate, maml, meta, validation, data weights, outer loop, inner
#    loop, unroll, higher, influence, remove a sample, architecture search
