r"""
.. _hypergradients:

How do I differentiate through training? Hypergradients, influence
==================================================================

Some numbers are not trained but chosen, such as the weight of a penalty, the learning rate,
or the weight of each sample. You could try twenty values for one such number. With six such
numbers, a grid would need millions of training runs. So you would like a gradient: if I
change this number a little and train again, how does the loss on *other* data change? An
optimizer changes the weights without a graph, so ``backward`` finds no path from the
trained weights back to this number, and no message says so. There are two methods for
computing this gradient, and the one that we show first depends on a vector ``v``.
"""

# %%
# The data
# --------
#
# Twenty samples have six features each. Only the first two affect the answer, but we
# pretend not to know this. Each feature gets its own penalty, and ``lam`` holds the
# logarithms of the weights of these penalties, so that the weights stay positive. The
# training loss is ``L(w, lam)``, and ``V(w)`` is the loss on twenty other samples:

import torch

torch.manual_seed(1)  # the same data on every build
true = torch.tensor([2.0, -2.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)


def samples(count):
    X = torch.randn(count, 6, dtype=torch.float64)
    return X, X @ true + torch.randn(count, dtype=torch.float64)


X, t = samples(20)
X_other, t_other = samples(20)
start = torch.zeros(6, dtype=torch.float64)  # where each training begins
lam = torch.zeros(6, dtype=torch.float64)


def training_loss(w, lam):
    return ((X @ w - t) ** 2).mean() + (lam.exp() * w**2).sum()


def validation_loss(w):
    return ((X_other @ w - t_other) ** 2).mean()


# %%
# The program
# -----------
#
# The training finds weights at which the gradient of ``L`` is 0. If ``lam`` changes a
# little, the weights move so that this gradient stays 0. From this equation you get the
# derivative without looking at the training at all. With the :term:`Hessian`
# :math:`H=\nabla_w^2L`,
#
# .. math::
#
#    \frac{dV}{d\lambda}=-q^\top\,\frac{\partial^2L}{\partial w\,\partial\lambda},
#    \qquad H\,q=\nabla V .
#
# Look at the gradient :math:`\nabla_wL` as a function of ``lam``. Its :term:`Jacobian` is
# :math:`\partial^2L/\partial w\,\partial\lambda`, and the first formula is minus one
# :term:`vector-Jacobian product` of this function. Its ``v`` is :math:`q`, which has the
# shape of the weights.
#
# To find :math:`q` we solve a linear system, but we do not need its matrix. The method of
# conjugate gradients only multiplies by ``H``, and each product is a ``jvp`` of the
# gradient (:ref:`hvp`). Without rounding, ``n`` steps would be enough for ``n`` weights.
# With rounding it may take more, so the function goes on until ``H q`` is near enough to
# ``b``. For a large network people stop much earlier, with a larger ``tolerance``:

from torch.func import grad, jvp, vjp

gradient = grad(training_loss)  # with respect to w


def solve(w, lam, b, tolerance=1e-10, steps=1000):
    """Return q with H q = b, by conjugate gradients."""
    q, r, p = torch.zeros_like(b), b, b
    for _ in range(steps):
        if r.norm() <= tolerance * b.norm():
            return q
        Hp = jvp(lambda w: gradient(w, lam), (w,), (p,))[1]
        if p @ Hp <= 0:
            raise ValueError("the Hessian is not positive definite here")
        alpha = (r @ r) / (p @ Hp)
        q, new = q + alpha * p, r - alpha * Hp
        r, p = new, new + (new @ new) / (r @ r) * p
    raise RuntimeError(f"not solved to {tolerance} after {steps} steps")


def hypergradient(w, lam):
    q = solve(w, lam, grad(validation_loss)(w))
    _, pull = vjp(lambda lam: gradient(w, lam), lam)
    return -pull(q)[0], q


def train(w, lam, steps, rate=0.02):
    for _ in range(steps):
        w = w - rate * gradient(w, lam)
    return w


# %%
# The outer loop trains the weights, computes the hypergradient, and gives it to Adam, which
# moves ``lam``. Each training continues where the last one ended, which saves steps:


def tune():
    tuned = lam.clone().requires_grad_()
    optimizer = torch.optim.Adam([tuned], lr=0.1)
    w, losses = train(start, lam, 300), []
    for _ in range(30):
        losses.append(validation_loss(w).item())
        tuned.grad, _ = hypergradient(w, tuned.detach())
        optimizer.step()
        w = train(w, tuned.detach(), 50)
    return w, tuned.detach(), losses


w, tuned, losses = tune()

# %%
# Which features have ended up with a large penalty?

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, layout="constrained", figsize=(6.4, 3))
left.plot(losses)
left.set(xlabel="step of the outer loop", ylabel="loss on the other samples")
right.bar(range(1, 7), tuned.exp())
right.set(xlabel="feature", ylabel="weight of its penalty")
title = figure.suptitle("Six penalties, chosen by their gradient")

# %%
# All penalties began at 1. On these data the penalties of the two features that matter have
# fallen, and the other four have risen. But now we also train on ``V``, as we do on ``L``,
# with ``lam`` in place of the weights. So keep a third set of data for the final test. We
# draw a third set with two thousand samples:

X_third, t_third = samples(2000)
third = [
    ((X_third @ at - t_third) ** 2).mean().item() for at in (train(start, lam, 300), w)
]
print(f"loss on the third set: {third[0]:.1f} with all penalties 1, {third[1]:.1f} tuned")

# %%
# With twenty samples there is much chance in the penalties. If a feature that does not
# matter helps on these samples by chance, its penalty falls, too. We draw other data, and
# tune again. Now the penalty of the fifth feature falls as far as those of the first two:

ours = X, t, X_other, t_other
torch.manual_seed(3)  # other data, the same on every build
X, t = samples(20)
X_other, t_other = samples(20)
by_chance = tune()[1].exp()
print([round(weight, 2) for weight in by_chance.tolist()])
X, t, X_other, t_other = ours  # the rest of the page is about the first data

# %%
# Why does backward not reach lam through an optimizer?
# -----------------------------------------------------
#
# An optimizer edits the weights under ``no_grad``, so the weights have no graph that leads
# to ``lam``. After training with ``torch.optim``, ``backward`` finds no path from the
# weights to ``lam``:

w1, by_optimiser = start.clone().requires_grad_(), lam.clone().requires_grad_()
training_loss(w1, by_optimiser).backward()
torch.optim.SGD([w1], lr=0.02).step()
by_optimiser.grad = None
validation_loss(w1).backward()
print("gradient with respect to lam:", by_optimiser.grad)

# %%
# Unrolled: every step recorded
# -----------------------------
#
# The other method is to write the steps yourself, with gradients that have a graph, by
# passing ``create_graph=True``. Then ``backward`` goes back through the training. The
# result is exact for the steps that you took, even if they have not reached the minimum.
# But it takes memory. We print the first entry of the gradient, and the number of
# :term:`saved tensors <saved tensor>`, which a hook counts:


def unrolled(steps, rate=0.02):
    penalties = lam.clone().requires_grad_()
    w = first = start.clone().requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append(1) or t, lambda t: t
    ):
        for _ in range(steps):
            loss = training_loss(w, penalties)
            (g,) = torch.autograd.grad(loss, w, create_graph=True)
            w = w - rate * g
        slopes = torch.autograd.grad(validation_loss(w), (penalties, first, w))
    return slopes, len(saved)


for steps in (1, 5, 20, 100):
    (slope, *_), saved = unrolled(steps)
    print(f"{steps:3} steps {slope[0] + 0.0:8.5f}  {saved:5} saved")

# %%
# The number of saved tensors grows with the steps. One step gives 0, because at ``w = 0``
# the penalty has no slope yet. At the minimum the formula gives the value that the
# unrolled gradients approach. But the formula is about the minimum. If you use it at the
# weights after five steps, it gives a third number, which is not the gradient of the five
# steps. So for the few steps of meta-learning, unroll:

trained = {steps: train(start, lam, steps) for steps in (5, 1000)}
for steps, at in trained.items():
    print(f"formula after {steps:4} steps {hypergradient(at, lam)[0][0]:8.5f}")

# %%
# Do you need ``create_graph``? Without it each ``g`` is a constant. Then no gradient
# reaches ``lam``, and the gradient with respect to the weights before the step is
# different, as if the step were a constant shift. *First-order MAML* does this on
# purpose:

w0 = trained[5].clone().requires_grad_()
penalties, of_w0 = lam.clone().requires_grad_(), {}
for record in (True, False):
    (g,) = torch.autograd.grad(training_loss(w0, penalties), w0, create_graph=record)
    later = validation_loss(w0 - 0.02 * g)
    slopes = torch.autograd.grad(later, (w0, penalties), allow_unused=True)
    of_w0[record] = slopes[0]
    print(f"create_graph={record!s:5}  reaches lam: {slopes[1] is not None}")
print("the same gradient for the weights:", torch.allclose(of_w0[True], of_w0[False]))

# %%
# And do you need a ``k``-th derivative for ``k`` steps? No, second derivatives are
# enough. The backward pass through one step is a product with :math:`I-\eta H`, where
# :math:`\eta` is the learning rate, and for several steps these products follow one
# another. Our ``H`` is the same everywhere, so five steps multiply by the fifth power of
# :math:`I-\eta H`:

(_, for_first, for_last), _ = unrolled(5)
H = 2 * X.T @ X / 20 + 2 * lam.exp().diag()
factor = torch.eye(6, dtype=torch.float64) - 0.02 * H
print(torch.allclose(for_first, factor.matrix_power(5) @ for_last))

# %%
# Influence: which sample does the most harm?
# -------------------------------------------
#
# The same ``q`` answers another question: *how would the loss on the other samples change
# if I removed this sample from the training?* If you leave out sample ``i``, its part
# :math:`\ell_i/n` is missing from the loss. To first order the minimum moves by
# :math:`H^{-1}\nabla\ell_i/n`, and ``V`` by :math:`q^\top\nabla\ell_i/n`, with one ``q``
# for all samples (Koh and Liang, 2017). For comparison we compute the true minimum with
# each sample left out in turn:

best = trained[1000]
_, q = hypergradient(best, lam)
influence = 2 * (X @ best - t) * (X @ q) / 20  # the gradient of each sample's loss, times q


def without(i):  # the minimum in closed form; the mean is still over all twenty
    keep = torch.arange(20) != i
    H = X[keep].T @ X[keep] / 20 + lam.exp().diag()
    return validation_loss(torch.linalg.solve(H, X[keep].T @ t[keep] / 20))


actual = torch.stack([without(i) - without(-1) for i in range(20)])

figure, ax = plt.subplots(layout="constrained", figsize=(3.6, 3.2))
ax.axline((0, 0), slope=1, color="lightgrey")
ax.plot(influence, actual, "o", markersize=4)
title = ax.set_title("Change of V without each sample", fontsize=10)
labels = ax.set(xlabel="predicted", ylabel="trained without it")

# %%
# The points lie near the line, but the prediction is too small for large changes, because
# one of twenty samples is not a small part. Which sample does the most harm, so that ``V``
# falls most without it? And without which sample does ``V`` rise most?

print(
    "most harm:   predicted", influence.argmin().item(), "trained", actual.argmin().item()
)
print(
    "missed most: predicted", influence.argmax().item(), "trained", actual.argmax().item()
)

# %%
# The prediction finds the most harmful sample. It does not find the sample without which
# ``V`` rises most, since it is only a prediction to first order.
#
# What to watch for
# -----------------
#
# - **A Hessian that is not positive definite.** Conjugate gradients need a positive
#   definite Hessian, and ``solve`` raises an error if it meets a direction in which the
#   Hessian does not curve upwards. The formula, too, is about a minimum at which the
#   Hessian can be inverted. The Hessian of a network in the middle of training is usually
#   not positive definite. Then people add a multiple of the identity, or use the
#   Gauss-Newton matrix (:ref:`gauss-newton`).
# - **The part of V that uses lam itself.** Our ``V`` does not contain ``lam``. If yours
#   does, add its own gradient with respect to ``lam``.
# - **The weights of a module** are not one vector. Use ``functional_call`` and a dictionary
#   of weights, or flatten them, as in :ref:`jacobian-of-parameters`.
#
# .. admonition:: Try it
#
#    Differentiate the loss after twenty steps with respect to the *learning rate*. Which
#    of the two methods can you use, and what does the other method give at the minimum?
#
# .. dropdown:: Answer
#
#    Unroll the steps, with ``rate`` as a tensor that requires a gradient. The formula
#    gives 0, which is right, because the minimum does not depend on the rate. But after
#    twenty steps a larger rate would still help:

rate = torch.tensor(0.02, dtype=torch.float64, requires_grad=True)
w_few = start.clone().requires_grad_()
for _ in range(20):
    (g,) = torch.autograd.grad(training_loss(w_few, lam), w_few, create_graph=True)
    w_few = w_few - rate * g
(by_rate,) = torch.autograd.grad(training_loss(w_few, lam), rate)
print("a larger rate lowers the training loss:", by_rate.item() < 0)

# %%
# .. dropdown:: How we checked this page
#
#    We compare the unrolled gradient and the formula with :term:`finite differences` of the
#    whole training run with respect to one penalty, computed without autograd. We compare
#    the influence with finite differences with respect to the weight of one sample, and the
#    result of the training with the minimum in closed form.


def plain(lam, weights=1.0, steps=1000):
    w = start
    for _ in range(steps):
        residual = weights * (X @ w - t)
        w = w - 0.02 * (2 * X.T @ residual / 20 + 2 * lam.exp() * w)
    return validation_loss(w)


h, unit = 1e-5, torch.eye(20, dtype=torch.float64)
implicit = hypergradient(best, lam)[0]
for steps, found in ((5, unrolled(5)[0][0]), (1000, implicit)):
    up, down = (plain(lam + sign * h * unit[1, :6], steps=steps) for sign in (1, -1))
    assert abs((up - down) / (2 * h) - found[1]) < 1e-7
assert abs(plain(lam, 1 - h * unit[2]) - plain(lam) - h * influence[2]) < 1e-9
torch.testing.assert_close(validation_loss(best), without(-1), rtol=1e-6, atol=0)
torch.testing.assert_close(H @ q, grad(validation_loss)(best))
torch.testing.assert_close(of_w0[True], factor @ of_w0[False])
assert not torch.allclose(of_w0[True], of_w0[False])
assert by_optimiser.grad is None
assert abs(hypergradient(trained[5], lam)[0][0] - unrolled(5)[0][0][0]) > 0.01
assert losses[-1] < 0.6 * losses[0]
assert third[1] < 0.8 * third[0]
assert tuned[:2].exp().max() < 0.5 < 1.5 < tuned[2:].exp().min()
assert by_chance[[0, 1, 4]].max() < 0.2 < 1 < by_chance[[2, 3, 5]].min()
assert torch.stack([influence, actual]).corrcoef()[0, 1] > 0.9
assert influence.argmin() == actual.argmin()
assert by_rate < 0
assert torch.equal(solve(best, lam, torch.zeros_like(best)), torch.zeros_like(best))
try:
    solve(best, lam, q, steps=2)
except RuntimeError:
    pass
else:
    raise AssertionError("two steps are not enough")

# %%
# **Next:** :ref:`implicit-differentiation` does the same for any solver. For an SGD in
# torch that records its steps, read :ref:`optimizer-closures`.
#
# .. asked: hypergradient; bilevel optimisation; differentiate through training;
#    gradient of the validation loss; learn the learning rate; MAML; influence
#    functions; train inside the training; meta-learning; effect of a training sample on
#    the prediction; what if I remove a training sample; optimise hyperparameters by
#    gradient
# .. words: learn the learning rate, maml, meta, validation, data weights, outer loop, inner
#    loop, unroll, higher, influence, remove a sample, architecture search
