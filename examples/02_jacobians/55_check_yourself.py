r"""
.. _check-yourself-2:

Check yourself: fifteen questions about Jacobians
=================================================

Write your answer down before you open the one on the page. It is easy to nod at an answer
that you would not have found. Each answer comes with a few lines of code that compute it,
and names the page to go back to.
"""

# %%
# 1 · One step after the other
# ----------------------------
#
# .. predict:: Question
#    :expects: shape
#    :for: the shape of the product
#
#    ``first`` takes 3 numbers to 4, and ``second`` takes 4 numbers to 1. Their Jacobians
#    are ``J1`` and ``J2``. How do you get the Jacobian of ``second(first(x))`` from them,
#    and what is its shape?
#
# .. dropdown:: Answer
#
#    ``J2 @ J1``, with the last step on the left. The sizes are ``(1, 4) @ (4, 3)``, so
#    the result has shape ``(1, 3)``. ``J2`` has to be taken at ``first(x)`` and not at
#    ``x``. (:ref:`chain-of-jacobians`)

import torch
from torch.func import functional_call, jacfwd, jacrev, vmap

M = torch.arange(12.0).reshape(4, 3) / 10


def first(x):
    return torch.tanh(M @ x)


def second(x):
    return (x**2).sum().reshape(1)


x = torch.tensor([0.1, 0.2, 0.3])
J1, J2 = jacrev(first)(x), jacrev(second)(first(x))
one = J2 @ J1
directly = jacrev(lambda x: second(first(x)))(x)
one.shape

# %%
# .. dropdown:: Both steps as one, to be moved
#
#    Its table is the product.

import pullback

pullback.live(lambda x: second(first(x)), x)

# %%
# 2 · Where to start
# ------------------
#
# A dial sets 1000 valves, the valves set the temperatures of 1000 rooms, and these decide
# what 1000 meters show. The three tables have the shapes ``(1000, 1)``, ``(1000, 1000)``
# and ``(1000, 1000)``. You want the table of the whole, ``J3 @ J2 @ J1``.
#
# .. predict:: Question
#    :label: millions
#    :for: how many millions
#
#    In which order do you multiply? How many millions of multiplications does it take in
#    the better order, and how many in the other?
#
# .. dropdown:: Answer
#
#    Start on the right, ``J3 @ (J2 @ J1)``. The chain begins with one number, so
#    ``J1`` is a column, and a table times a column is a column again. Each of the two
#    products takes a million multiplications. ``(J3 @ J2) @ J1`` takes a billion for the
#    first product and a million for the second. Starting on the left is cheap if the
#    chain *ends* in one number. (:ref:`chain-of-jacobians`)

right_first = 1000 * 1000 * 1 + 1000 * 1000 * 1
left_first = 1000 * 1000 * 1000 + 1000 * 1000 * 1
print("millions", [right_first / 1e6, left_first / 1e6])

# %%
# 3 · Four indices
# ----------------
#
# .. predict:: Question
#    :expects: shape
#    :for: the shape
#
#    ``X`` has shape ``(3, 4)``, ``B`` has shape ``(4, 2)``, and ``Y = X @ B``. What is
#    the shape of the Jacobian of ``Y`` with respect to ``X``? Whatever ``B`` holds, how
#    many of its entries can be different from zero?
#
# .. dropdown:: Answer
#
#    ``Y.shape + X.shape`` is ``(3, 2, 3, 4)``, with 72 entries. Row ``i`` of ``Y`` uses
#    only row ``i`` of ``X``. That leaves three blocks of 2 by 4, which is 24 entries.
#    (:ref:`tensors-in-tensors-out`, :ref:`one-jacobian-per-sample`)

B = torch.arange(1.0, 9.0).reshape(4, 2)
three = jacrev(lambda X: X @ B)(torch.ones(3, 4))
three.shape

# %%
# 4 · A thousand by ten
# ---------------------
#
# .. predict:: Question
#    :for: how many products
#
#    You need the whole Jacobian of a function with 1000 outputs and 10 inputs, and none
#    of its entries is known to be zero. Which function do you try first, and how many
#    products does it take?
#
# .. dropdown:: Answer
#
#    ``torch.func.jacfwd``, because it takes a product for each input, and there are ten.
#    ``jacrev`` gives the same table from a thousand products. (:ref:`the-whole-jacobian`,
#    :ref:`pushing-forward`)

A = torch.linspace(-1, 1, 10_000).reshape(1000, 10)
at = torch.linspace(-1, 1, 10)
four = jacfwd(lambda x: torch.tanh(A @ x))(at)
print("columns:", four.shape[1])

# %%
# 5 · Only the result
# -------------------
#
# Somebody hands you a tensor ``y`` of shape ``(3,)`` and the ``x`` that it was computed
# from. You do not have the function. How do you get the table in one call?
#
# .. dropdown:: Answer
#
#    ``torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)`` takes a ``v`` for
#    each row as a batch, and returns a tuple with the table. If you pass
#    ``[y[0], y[1], y[2]]`` as outputs instead, you get the sum of the rows.
#    (:ref:`the-whole-jacobian`)

leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = leaf**2
(five,) = torch.autograd.grad(
    y, leaf, torch.eye(3), is_grads_batched=True, retain_graph=True
)
print(five)
print("with a list:", torch.autograd.grad([y[0], y[1], y[2]], leaf)[0])

# %%
# 6 · A plan and its prices
# -------------------------
#
# .. predict:: Question
#    :for: (v @ J) @ u
#
#    A push says that with the plan ``u``, heat changes at a rate of 2 and fuel at a
#    rate of 5. The prices are ``v = [10, -1]``. What is ``(v @ J) @ u``? Do you need to
#    know ``J``?
#
# .. dropdown:: Answer
#
#    It is 15, and you do not need ``J``, because the brackets do not matter:
#    :math:`(v^\top J)u=v^\top(Ju)=10\cdot2-1\cdot5`. The lines below use our house and a
#    plan that has these rates. (:ref:`pushing-forward`)

J, v = torch.tensor([[1.0, 1, 1], [2, 4, 6]]), torch.tensor([10.0, -1.0])
u = torch.tensor([1.5, 0.5, 0.0])
rates, six = J @ u, (v @ J) @ u
six.item()

# %%
# 7 · A batch
# -----------
#
# A network takes a batch of shape ``(64, 10)`` to ``(64, 3)``. You want a table of shape
# ``(3, 10)`` for each sample. So you sum each of the three outputs over the batch, and
# take the gradient of each sum with respect to the batch. When are these the tables that
# you want? Are they, if the network ends in a BatchNorm, in
# training mode and in ``eval()`` mode?
#
# .. dropdown:: Answer
#
#    They are, if the outputs of each sample depend on that sample only. With BatchNorm in
#    training mode they do not, and you get the sum of a sample's effects on the whole
#    batch. In the network below that sum is zero, since a normalised column always adds
#    up to the same number. In ``eval()`` mode, with the mean and variance that BatchNorm
#    has collected, the tables are right. (:ref:`one-jacobian-per-sample`)

torch.manual_seed(0)  # any weights will do; the same ones in every run
net = torch.nn.Sequential(torch.nn.Linear(10, 3), torch.nn.BatchNorm1d(3))
batch = torch.randn(64, 10, requires_grad=True)
seven = {}
for mode in (True, False):
    net.train(mode)
    rows = [torch.autograd.grad(net(batch)[:, k].sum(), batch)[0] for k in range(3)]
    seven[mode] = torch.stack(rows, dim=1)
    print(f"training={mode}: largest entry {seven[mode].abs().max():.4f}")

# %%
# 8 · Four in a row
# -----------------
#
# Each of 500 outputs looks at four inputs in a row: output ``i`` at inputs ``i`` to
# ``i + 3``. So the last output, number 499, looks at inputs 499 to 502, and there are
# :math:`500+3=503` inputs. Here are the first five outputs with the eight inputs that they
# look at:

import pullback

pullback.draw.dependence(torch.ones(5, 8).triu().tril(3))

# %%
# .. predict:: Question
#    :label: groups
#    :for: how many groups
#
#    Into how many groups do you put the columns, so that one push for each group gives
#    the whole Jacobian? Why not fewer?
#
# .. dropdown:: Answer
#
#    Four: ``torch.func.jvp(f, (x,), ((torch.arange(503) % 4 == c).float(),))`` for ``c``
#    from 0 to 3. Columns that are four apart never meet in a row. If we only group
#    columns, three pushes are too few, because the four columns of one row all need
#    different colours. (:ref:`a-jacobian-of-zeros`)

colour = torch.arange(503) % 4
windows = torch.arange(503).unfold(0, 4, 1)  # the four inputs of each output
mean_of_four = lambda x: x.unfold(0, 4, 1).square().mean(1)
series = torch.linspace(1, 2, 503)
eight = torch.stack(
    [torch.func.jvp(mean_of_four, (series,), ((colour == c).float(),))[1] for c in range(4)]
)
small = pullback.sparsity(mean_of_four, series[:12], mode="forward")
print("groups:", small.n_colors)
pullback.draw.compression(small)  # the same for 12 inputs

# %%
# 9 · With respect to params
# --------------------------
#
# What does ``jacrev(lambda params: net(x))(params)`` return, and which line was meant?
#
# .. dropdown:: Answer
#
#    Zeros of the right shapes. ``net(x)`` uses the tensors inside the module,
#    so the result does not depend on the argument. What was meant is
#    ``jacrev(lambda params: functional_call(net, params, (x,)))(params)``.
#    (:ref:`with-respect-to-parameters`)

params = {name: p.detach() for name, p in net.named_parameters()}
sample = torch.ones(1, 10)
wrong = jacrev(lambda params: net(sample))(params)
right = jacrev(lambda params: functional_call(net, params, (sample,)))(params)
for name in wrong:
    entries = [J[name].count_nonzero().item() for J in (wrong, right)]
    print(
        f"{name}: {entries[0]} entries are not zero, and {entries[1]} with the line meant"
    )

# %%
# 10 · The weights, for each sample
# ---------------------------------
#
# .. predict:: Question
#    :expects: shape
#    :for: the shape
#
#    A linear layer with a ``weight`` of shape ``(3, 10)`` takes a batch ``X`` of 64
#    samples to ``Y`` of shape ``(64, 3)``. You take the Jacobian of each sample's three
#    outputs with respect to the weight, with ``vmap``. What is its shape?
#
# .. dropdown:: Answer
#
#    ``(64, 3, 3, 10)``: the sample, the output, and the shape of the weight. A table
#    for each sample cannot come from sums over the batch, because all samples share the
#    weight. (:ref:`one-jacobian-per-sample`, :ref:`with-respect-to-parameters`)

layer = torch.nn.Linear(10, 3)
layer_params = {name: p.detach() for name, p in layer.named_parameters()}
predict = lambda params, x: functional_call(layer, params, (x,))
data = batch.detach()
ten = vmap(jacrev(predict), in_dims=(None, 0))(layer_params, data)["weight"]
ten.shape

# %%
# 11 · What is kept
# -----------------
#
# .. predict:: Question
#    :for: kept, in millions
#
#    ``x`` has a million numbers, and ``y = torch.tanh(torch.tanh(x)).sum()``. How many
#    millions of numbers does PyTorch keep for the walk back? And how many would the
#    Jacobian of one tanh have, if it were built?
#
# .. dropdown:: Answer
#
#    Two million. Each tanh keeps its result, and the sum keeps nothing, because its
#    rule only copies what arrives. The Jacobian of one tanh would have a million times
#    a million numbers. (:ref:`never-built`)

long, kept = torch.linspace(-1, 1, 1_000_000, requires_grad=True), []
with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
    torch.tanh(torch.tanh(long)).sum()
millions = torch.tensor([t.numel() for t in kept]).sum() / 1e6
millions.item()

# %%
# 12 · Push or pull
# -----------------
#
# .. predict:: Question
#    :label: pull
#    :for: H u
#
#    :math:`f(x)=x_0^2x_1` at ``x = [1, 2]``, and ``u = [1, -1]``. Work out the
#    :term:`Hessian` :math:`H` and :math:`Hu` with a pencil. Then write down two ways to
#    get :math:`Hu` that never build :math:`H`, one that pulls through the gradient and
#    one that pushes through it. Why do they agree?
#
# .. dropdown:: Answer
#
#    The gradient is :math:`(2x_0x_1,\;x_0^2)`. So :math:`H` has the rows
#    :math:`(2x_1,2x_0)=(4,2)` and :math:`(2x_0,0)=(2,0)`, and :math:`Hu` is
#    :math:`(4-2,\;2-0)=(2,2)`. To pull, call
#    ``(g,) = torch.autograd.grad(f(x), x, create_graph=True)`` and
#    ``torch.autograd.grad(g, x, u)``. To push, call
#    ``torch.func.jvp(torch.func.grad(f), (x,), (u,))``. The pull gives :math:`u^\top H`
#    and the push :math:`Hu`. They agree because :math:`H` is symmetric.
#    (:ref:`pushing-forward`, :ref:`once-more`)

f = lambda x: x[0] ** 2 * x[1]
x, u = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, -1.0])
(g,) = torch.autograd.grad(f(x), x, create_graph=True)
(twelve,) = torch.autograd.grad(g, x, u)
_, by_push = torch.func.jvp(torch.func.grad(f), (x.detach(),), (u,))
print("pull:", twelve, " push:", by_push)

# %%
# 13 · What is wrong here?
# ------------------------
#
# Somebody has written the walk back of a linear layer ``Y = X @ W.T`` by hand. All shapes
# fit, and nothing raises an error:

X = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]], requires_grad=True)
W = torch.tensor([[1.0, 5.0], [2.0, 1.0]], requires_grad=True)
V = torch.tensor([[1.0, 0.0], [0.0, 10.0], [2.0, 1.0]])
(X @ W.T).backward(V)
of_weights = V.T @ X.detach()
of_inputs = V @ W.detach().T
print("weights right:", torch.equal(of_weights, W.grad))
print("inputs right: ", torch.equal(of_inputs, X.grad))

# %%
# .. predict:: Question
#    :for: the two numbers
#
#    The gradient of the inputs is wrong. What is the right gradient of the two inputs of
#    the first sample? Which line is to be mended, and how?
#
# .. dropdown:: Answer
#
#    It is ``[1, 5]``: the prices are 1 and 0, so only the first output counts, which is
#    :math:`1\cdot X_{00}+5\cdot X_{01}`. The rule is ``V @ W``. The wrong line has flipped
#    ``W``, and the shapes do not tell, because ``W`` is square. (:ref:`never-built`,
#    :ref:`reading-a-jacobian`)

thirteen = V @ W.detach()
thirteen[0]

# %%
# 14 · And here?
# --------------
#
# The square of the slope is added to the loss, as a penalty on a steep function. The code
# runs, and leaves the gradient of the loss alone in ``point.grad``:

point = torch.tensor([1.0, 2.0], requires_grad=True)
loss = (point**3).sum()
(slope,) = torch.autograd.grad(loss, point, retain_graph=True)
(loss + (slope**2).sum()).backward()
torch.equal(point.grad, slope)

# %%
# .. predict:: Question
#    :for: the gradient with the penalty
#
#    What is missing? The loss is :math:`x_0^3+x_1^3`, so the slopes are
#    :math:`3x_0^2` and :math:`3x_1^2`, the penalty is :math:`9x_0^4+9x_1^4`, and ``point``
#    is ``[1, 2]``. What should the gradient of loss and penalty be?
#
# .. dropdown:: Answer
#
#    ``create_graph=True`` is missing in the call of ``autograd.grad``. Without it the
#    slope is a plain tensor, and the penalty a constant. With it the gradient is
#    :math:`3x^2+36x^3` for each entry, which is ``[39, 300]``. (:ref:`once-more`)

loss = (point**3).sum()
(steep,) = torch.autograd.grad(loss, point, create_graph=True)
(fourteen,) = torch.autograd.grad(loss + (steep**2).sum(), point)
fourteen

# %%
# 15 · Which call?
# ----------------
#
# ``f`` takes 10 numbers to 1000, and none of its derivatives is known to be zero. Choose
# a call for each wish, and say how many products it takes:
#
# a. one row of the table
# b. one column of the table
# c. the whole table
# d. how the outputs change when ``x`` moves along a plan ``u``
# e. what each input is worth at given prices ``v``
# f. a small step of ``x`` that changes the outputs 0 and 500 by given small amounts
#
# .. dropdown:: Answer
#
#    a. One pull with a single 1 in ``v``.
#    b. One push with a single 1 in ``u``.
#    c. ``jacfwd``, which takes ten pushes, one for each input.
#    d. One push with ``u``.
#    e. One pull with ``v``.
#    f. Two pulls, for the two rows that matter, and ``pinv`` of these two rows. The other
#       998 rows are not needed.
#
#    (:ref:`pushing-forward`, :ref:`the-whole-jacobian`, :ref:`hitting-targets`)

of_ten = lambda x: torch.tanh(A @ x)
value, pull = torch.func.vjp(of_ten, at)
prices, plan = torch.linspace(-1, 1, 1000), torch.linspace(0, 1, 10)
of_row, worth = pull(torch.eye(1000)[7])[0], pull(prices)[0]
of_column = torch.func.jvp(of_ten, (at,), (torch.eye(10)[3],))[1]
moved = torch.func.jvp(of_ten, (at,), (plan,))[1]
two_rows = torch.stack([pull(torch.eye(1000)[k])[0] for k in (0, 500)])
wish = torch.tensor([0.01, 0.0])
change = of_ten(at + torch.linalg.pinv(two_rows) @ wish) - value
print("wish:", wish, " change:", change[[0, 500]].round(decimals=4) + 0.0)

# %%
# .. dropdown:: How we checked this page
#
#    What the answers say is compared with what their code has computed, in the order of
#    the questions. The lines below give the answers away, so look at them last.

assert one.shape == (1, 3)
torch.testing.assert_close(one, directly)
assert [right_first, left_first] == [2_000_000, 1_001_000_000]
assert three.shape == (3, 2, 3, 4)
assert three.count_nonzero() == 24
torch.testing.assert_close(four, jacrev(lambda x: torch.tanh(A @ x))(at))
assert torch.equal(five, torch.diag(2 * leaf.detach()))
assert torch.equal(torch.autograd.grad(list(leaf**2), leaf)[0], five.sum(0))
assert rates.tolist() == [2, 5]
assert six == v @ rates == 15
assert (
    seven[True].abs().max() < 1e-5
)  # normalised columns add up to 0, whatever the batch is
alone = jacrev(lambda x: net(x[None])[0])(batch[5].detach())
torch.testing.assert_close(seven[False][5], alone)
assert windows.shape == (500, 4)
assert (colour[windows].sort(1).values == torch.arange(4)).all()
dense = jacfwd(mean_of_four)(series)
i, j = dense.nonzero().T
torch.testing.assert_close(eight[colour[j], i], dense[i, j])
assert not any(block.any() for block in wrong.values())
assert all(right[name].any() for name in ("0.weight", "0.bias", "1.bias"))
assert ten.shape == (64, 3, 3, 10)
sums = [torch.autograd.grad(layer(data)[:, k].sum(), layer.weight)[0] for k in range(3)]
assert torch.stack(sums).shape == (3, 3, 10)
torch.testing.assert_close(torch.stack(sums), ten.sum(0), rtol=1e-4, atol=1e-4)
assert [t.numel() for t in kept] == [1_000_000, 1_000_000]
assert torch.equal(torch.func.hessian(f)(x.detach()), torch.tensor([[4.0, 2], [2, 0]]))
assert twelve.tolist() == by_push.tolist() == [2, 2]
assert torch.equal(thirteen, X.grad)
assert thirteen[0].tolist() == [1, 5]
assert torch.equal(of_weights, W.grad)
assert not torch.equal(of_inputs, X.grad)
assert torch.equal(point.grad, slope)
assert torch.equal(slope, 3 * point.detach() ** 2)
assert fourteen.tolist() == [39, 300]
torch.testing.assert_close(of_row, four[7])
torch.testing.assert_close(of_column, four[:, 3])
torch.testing.assert_close(moved, four @ plan)
torch.testing.assert_close(worth, prices @ four)
torch.testing.assert_close(change[[0, 500]], wish, atol=1e-3, rtol=0)

# %%
# **Next:** this is the end of the course. :ref:`Case studies <chapter-4>` show what
# others have done with a ``v`` of their choice, and the :ref:`notes <notes-on-jacobians>`
# go deeper into single questions.
#
# .. asked: test yourself on Jacobians; quiz about Jacobians; questions and answers
#    about the Jacobian
# .. words: quiz, practice, exam, solutions, interview questions
