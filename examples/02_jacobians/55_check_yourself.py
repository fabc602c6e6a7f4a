r"""
.. _check-yourself-2:

Check yourself: fifteen questions about Jacobians
=================================================

Write your answer down before you open the one on the page. It is easy to nod at an answer
that you would not have found. Count a point for each question that you have right in all of
its parts. Each answer comes with a few lines of code that compute it, and names the page to
go back to.
"""

# %%
# 1 · One step after the other
# ----------------------------
#
# .. predict:: Question
#    :expects: shape
#    :for: the shape of the product
#    :wrong: of the first: This is the shape of J1.;
#       of the second: This is the shape of J2. It reads the four results of first, and the
#          whole reads the three inputs.;
#       a column: Outputs come first. There is one output and there are three inputs.;
#       as the input: This is the shape of the gradient of a single number. second returns a
#          tensor of shape (1,), so there is a row.
#
#    ``first`` takes 3 numbers to 4, and ``second`` takes 4 numbers to 1. Their Jacobians
#    are ``J1`` and ``J2``. How do you get the Jacobian of ``second(first(x))`` from them,
#    at which points have they to be taken, and what is the shape of the result?
#
# .. dropdown:: Answer
#
#    ``J2 @ J1``, with the last step on the left. The sizes are ``(1, 4) @ (4, 3)``, so
#    the result has shape ``(1, 3)``. ``J1`` is taken at ``x``. ``J2`` has to be taken
#    at ``first(x)`` and not at ``x``. (:ref:`chain-of-jacobians`)

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
#    The table in the picture is the product. At ``[0, 0, 0]`` all three rates are 0. Can
#    you find another input at which they are?

import pullback

pullback.live(lambda x: second(first(x)), x, rows=["second"])

# %%
# .. dropdown:: Answer
#
#    ``[1, -2, 1]`` is one. ``M`` takes it to four zeros, because in each of its rows the
#    second number is the mean of the other two. So ``first`` gives zeros, as it does at
#    ``[0, 0, 0]``. A square has the slope 0 at 0, and ``J2`` is a row of zeros.
#
# 2 · A narrow place
# ------------------
#
# A network squeezes 1000 numbers into 2, expands the 2 to 1000, and takes these to 1000
# others. The three tables have the shapes ``(2, 1000)``, ``(1000, 2)`` and
# ``(1000, 1000)``. Somebody computes the table of the whole as ``J3 @ (J2 @ J1)``.
#
# .. predict:: Question
#    :label: millions
#    :for: how many millions
#    :wrong: one product: Each of the two products takes two million in the better
#          order.;
#       slow first: The better order is asked for first.
#
#    (a) Why is it slow? (b) Which order is better? (c) How many millions of
#    multiplications does the better order take, and how many does this program take?
#
# .. dropdown:: Answer
#
#    (a) ``J2 @ J1`` is a table of 1000 by 1000 already, and to multiply it by ``J3`` takes
#    a billion. (b) The better order is ``(J3 @ J2) @ J1``. (c) Each of its products takes
#    two million, because ``J3 @ J2`` is only two columns wide. That makes 4 million, and
#    this program takes 1002. So the narrow place of a chain need not be at one of its ends.
#    (:ref:`chain-of-jacobians`)

narrow = 1000 * 1000 * 2 + 1000 * 2 * 1000
wide = 1000 * 2 * 1000 + 1000 * 1000 * 1000
print("millions", [narrow / 1e6, wide / 1e6])

# %%
# 3 · Four indices
# ----------------
#
# ``X`` has shape ``(3, 4)``, ``B`` has shape ``(4, 2)``, and ``Y = X @ B``. Somebody has
# the :term:`Jacobian` of ``Y`` with respect to ``X``, and wants the gradient of ``Y[0, 1]``
# from it. The line runs, and yet it does not look like ``X``:

B = torch.arange(1.0, 9.0).reshape(4, 2)
J_of_X = jacrev(lambda X: X @ B)(torch.ones(3, 4))
J_of_X[:, :, 0, 1]

# %%
# .. predict:: Question
#    :item: 0
#    :for: its first row
#    :wrong: of the line: This is the first row of what the line returns. It says what the
#          first row of Y does when X[0, 1] moves.;
#       other column: This is the first row of the gradient of Y[0, 0].;
#       row below: This is the second row of the gradient. Y[0, 1] uses the first row of X.;
#       both columns: This adds up the gradients of Y[0, 0] and Y[0, 1].
#
#    What is it that this line returns? Which line gives the gradient of ``Y[0, 1]``, and
#    which numbers stand in the first row of this gradient?
#
# .. dropdown:: Answer
#
#    The Jacobian has shape ``Y.shape + X.shape``, and the line fixes the *last* two
#    indices. So it says what all outputs do when ``X[0, 1]`` moves. For the gradient of an
#    output you fix the *first* two: ``J_of_X[0, 1]``. Its first row is the second column of
#    ``B``, ``[2, 4, 6, 8]``, and its other rows are 0. (:ref:`tensors-in-tensors-out`)

three = J_of_X[0, 1]
three

# %%
# 4 · A mean over a thousand outputs
# ----------------------------------
#
# .. predict:: Question
#    :label: walks
#    :for: how many
#    :wrong: pushes: This many pushes bring the whole table. You want the mean of its rows
#          alone.;
#       pulls: This many pulls bring the rows one by one. A pull can also add them up.;
#       every entry: This is the number of rates. A pull or a push brings many of them.
#
#    A function takes 10 numbers to 1000. For each of the 10 inputs you want the *mean* of
#    the rates at which it moves the 1000 outputs. How many pulls, ``v @ J``, or pushes,
#    ``J @ u``, does that take? Which ``v`` or ``u`` do you pass?
#
# .. dropdown:: Answer
#
#    One pull. The mean of the rows is a weighted sum of them, and all weights are 1/1000.
#    You do not need the whole table, for which ``jacfwd`` would take ten pushes.
#    (:ref:`the-whole-jacobian`, :ref:`pushing-forward`)

A = torch.linspace(-1, 1, 10_000).reshape(1000, 10)
at = torch.linspace(-1, 1, 10)
pulls = [torch.func.vjp(lambda x: torch.tanh(A @ x), at)[1](torch.full((1000,), 1 / 1000))]
print("walks:", len(pulls))

# %%
# 5 · Two lengths
# ---------------
#
# Somebody has measured two lengths. The first may be off by about 0.3 and the second by
# about 0.4, each by itself, and as often up as down. How far off are their difference and
# their sum? The program pushes the two errors forward:


def of_lengths(x):
    return torch.stack([x[0] - x[1], x[0] + x[1]])


lengths, error = torch.tensor([20.0, 10.0]), torch.tensor([0.3, 0.4])
value, pushed = torch.func.jvp(of_lengths, (lengths,), (error,))
print("errors:", pushed)

# %%
# .. predict:: Question
#    :for: the two typical errors
#    :wrong: pushed: This is the push, as if both lengths were too long.;
#       all added: This is how far off they are if the two errors happen to add up.;
#       squares added: These are the sums of the squares. The typical errors are their
#          roots.;
#       without the sign: This is the push without its sign. As often as not, one length is
#          too long and the other too short.
#
#    Why are these not the typical errors of the difference and the sum? Which are?
#
# .. dropdown:: Answer
#
#    The push says what happens if both lengths are too long. In the difference the errors
#    then nearly cancel. But as often as not, one is too long and the other too short. It is
#    the *squares* that add up, and for this you need each entry by itself. The rows are
#    ``[1, -1]`` and ``[1, 1]``, and both give the root of 0.09 + 0.16, which is 0.5.
#    (:ref:`how-far-off`)

five = ((jacrev(of_lengths)(lengths) * error) ** 2).sum(1).sqrt()
five

# %%
# 6 · A plan and its prices
# -------------------------
#
# .. predict:: Question
#    :for: (v @ J) @ u
#    :wrong: fuel as a gain: Here fuel counts as a gain. Its price is −1.;
#       no prices: This adds up the rates without their prices.;
#       heat alone: This is the heat alone.;
#       parts: These are the two parts. They are added.;
#       rate of fuel: This is the rate of the fuel alone. Both rates are multiplied by their
#          prices.
#
#    A push says that with the plan ``u``, heat changes at a rate of 2 and fuel at a
#    rate of 5. The prices are ``v = [10, -1]``. What is ``(v @ J) @ u``? Do you need to
#    know ``J``?
#
# .. dropdown:: Answer
#
#    It is 15, and you do not need ``J``, because it does not matter which
#    of the two products comes first:
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
# A network takes a batch of shape ``(64, 10)`` to ``(64, 3)``, and ends in a BatchNorm.
# Somebody wants a table of shape ``(3, 10)`` for each sample, sums each of the three
# outputs over the batch, and takes the gradient of each sum with respect to the batch.
#
# .. predict:: Question
#    :label: largest in train
#    :for: the largest entry in training mode
#    :wrong: spread: This is the spread of each column. Its mean is 0, so it adds up to 0
#          and does not change.;
#       one of the batch: The batch has 64 samples, but the column adds up to 0 whatever
#          they are.
#
#    The BatchNorm is new, and in training mode. What do the tables hold then, and how large
#    is their largest entry? And are the tables right in ``eval()`` mode, where it uses a
#    mean and variance that it has collected before?
#
# .. dropdown:: Answer
#
#    The largest entry is zero, up to rounding: a column with the mean 0 adds up to 0,
#    whatever the batch is, and so its sum does not change. In training mode you get the sum
#    of a sample's effects on the whole batch. In ``eval()`` mode the mean and variance do
#    not depend on the batch. So each output depends on its own sample only, and the tables
#    are right. (:ref:`one-jacobian-per-sample`)

torch.manual_seed(0)  # any weights will do; the same ones in every run
net = torch.nn.Sequential(torch.nn.Linear(10, 3), torch.nn.BatchNorm1d(3))
batch = torch.randn(64, 10, requires_grad=True)
seven = {}
for mode in ("train", "eval"):
    net.train(mode == "train")
    rows = [torch.autograd.grad(net(batch)[:, k].sum(), batch)[0] for k in range(3)]
    seven[mode] = torch.stack(rows, dim=1)
    print(f"largest in {mode}: {seven[mode].abs().max():.4f}")

# %%
# 8 · Four in a row
# -----------------
#
# Each of 500 outputs looks at four inputs in a row: output ``i`` at inputs ``i`` to
# ``i + 3``. So the last output, number 499, looks at inputs 499 to 502, and there are
# 503 inputs. Here are the first five outputs with the eight inputs that they
# look at:

pullback.draw.dependence(torch.ones(5, 8).triu().tril(3))

# %%
# .. predict:: Question
#    :label: groups
#    :for: how many groups
#    :wrong: outputs: This is one pull for each output.;
#       inputs: This is one push for each input. Columns that never meet can share one.;
#       one fewer: The four columns of one row all meet, so they need four groups.;
#       in a group: This is how many columns are in a group.
#
#    Into how many groups do you put the columns, so that one push for each group gives
#    the whole Jacobian? Why not fewer?
#
# .. dropdown:: Answer
#
#    Four, because columns that are four apart never meet in a row:
#    ``torch.func.jvp(f, (x,), ((torch.arange(503) % 4 == c).float(),))`` for ``c`` from 0
#    to 3. If we only group columns, three pushes are too few, because the four columns of
#    one row all need different colors. (:ref:`a-jacobian-of-zeros`)

color = torch.arange(503) % 4
windows = torch.arange(503).unfold(0, 4, 1)  # the four inputs of each output
mean_of_four = lambda x: x.unfold(0, 4, 1).square().mean(1)
series = torch.linspace(1, 2, 503)
eight = torch.stack(
    [torch.func.jvp(mean_of_four, (series,), ((color == c).float(),))[1] for c in range(4)]
)
small = pullback.sparsity(mean_of_four, series[:12], mode="forward")
print("groups:", small.n_colors)  # found for 12 inputs

# %%
# 9 · A weight that does nothing
# ------------------------------
#
# A layer computes ``W @ inputs``. Somebody wants to know what a turn of the weight
# ``W[0, 1]`` does to the two outputs. The block of ``W`` has shape ``(2, 2, 2)``, and is
# made into a table with two rows and four columns:

W, inputs = torch.tensor([[3.0, 1.0], [2.0, 4.0]]), torch.tensor([1.0, 5.0])
block = jacrev(lambda W: W @ inputs)(W)
turn = torch.tensor([[0.0, 1.0], [0.0, 0.0]])  # only W[0, 1] moves
table = block.reshape(4, 2).T
print("rates:", table @ turn.flatten())

# %%
# .. predict:: Question
#    :for: the two rates
#    :wrong: rates: This is what the wrong table says.;
#       both: The weight is in the first row, which makes the first output alone.;
#       other output: The weight is in the first row, which makes the first output.;
#       other input: This is the first input. W[0, 1] is multiplied by the second.
#
#    The table says that the weight does nothing. What are the right rates? Which line is
#    wrong, and how do you mend it?
#
# .. dropdown:: Answer
#
#    ``W[0, 1]`` is multiplied by ``inputs[1]``, which is 5, and only in the first output.
#    So the rates are ``[5, 0]``. In the block, the output comes first and the two indices
#    of the weight come after it: output, row, column. The table needs a row for each
#    output and a column for each weight, so row and column are to be joined, which
#    ``block.flatten(1)`` does. ``reshape(4, 2)`` joins output and row, and ``.T`` only
#    exchanges the two sides. (:ref:`tensors-in-tensors-out`,
#    :ref:`with-respect-to-parameters`)

nine = block.flatten(1) @ turn.flatten()
nine

# %%
# 10 · The weights, for each sample
# ---------------------------------
#
# A linear layer takes a batch of 64 samples to three outputs each. Somebody wants to know
# how the outputs of each sample react to the weight of shape ``(3, 10)``. For the *inputs*
# of this layer, sums over the batch give the table of each sample, so they are taken here,
# too:

layer = torch.nn.Linear(10, 3)
data = batch.detach()
of_sums = [torch.autograd.grad(layer(data)[:, k].sum(), layer.weight)[0] for k in range(3)]
torch.stack(of_sums).shape

# %%
# .. predict:: Question
#    :expects: shape
#    :for: the shape
#    :wrong: one sample: This is the shape of the sums, and of the block of one sample. With
#          vmap, the batch stands in front.;
#       flattened weight: Here the weight is flattened. The block ends on the shape of the
#          weight.;
#       of the inputs: This is the Jacobian with respect to the inputs.;
#       weight: This is the shape of the weight, for a single number.
#
#    What do these tables hold? What is the shape of the Jacobian that was wanted, and how
#    do you get it?
#
# .. dropdown:: Answer
#
#    They hold the *sum* over all samples. Each sample has inputs of its own, but all of
#    them share the weight, and so their rates are added up. With ``vmap`` and
#    ``in_dims=(None, 0)`` the weight is an argument that all samples share, and the result
#    is of shape ``(64, 3, 3, 10)``: the sample, the output, and the shape of the weight.
#    (:ref:`one-jacobian-per-sample`, :ref:`with-respect-to-parameters`)

layer_params = {name: p.detach() for name, p in layer.named_parameters()}
predict = lambda params, x: functional_call(layer, params, (x,))
ten = vmap(jacrev(predict), in_dims=(None, 0))(layer_params, data)["weight"]
ten.shape

# %%
# 11 · A mean that fills the memory
# ---------------------------------
#
# After training, somebody adds up the losses of five batches of a million numbers each, to
# print their mean. ``backward`` is never called. Every batch takes more memory:

scale = torch.tensor(2.0, requires_grad=True)
total = 0.0
for _ in range(5):
    numbers = torch.rand(1_000_000)
    loss = torch.tanh(scale * numbers).sum()
    total = total + loss

# %%
# .. predict:: Question
#    :label: millions
#    :for: kept, in millions
#    :wrong: one of two: Each batch keeps two million: the numbers, for the product, and the
#          result of tanh.;
#       last batch: This is what is kept with loss.item(). With the loss itself, every batch
#          is kept.;
#       with the sums: The rule of a sum needs nothing, so the sums keep nothing.;
#       under no_grad: This holds under torch.no_grad(). Without it, PyTorch keeps values
#          even if backward is never called.;
#       one batch: This is how many numbers a batch has. There are five batches, and tanh
#          keeps its result, too.
#
#    How many millions of numbers does PyTorch keep for a walk back when the loop is over?
#    Why does it not let go of them after each batch? Which line do you change?
#
# .. dropdown:: Answer
#
#    Ten million, two for each batch. In a product, the rule for one factor needs the other.
#    ``scale`` needs a gradient, so the numbers of each batch are kept. The numbers need
#    none, so ``scale`` is not kept for them. The result of each tanh is kept, too, and the
#    sums keep nothing. All of it is needed as long as somebody may call
#    ``total.backward()``. With ``total + loss.item()``, the next batch takes the place of
#    the last. Under ``torch.no_grad()`` nothing is kept. (:ref:`never-built`)

kept = []
keep = lambda t: kept.append(t.numel()) or t.detach()
with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
    torch.tanh(scale * numbers).sum()
print("millions", 5 * torch.tensor(kept).sum().item() / 1e6)

# %%
# 12 · Push or pull
# -----------------
#
# .. predict:: Question
#    :label: pull
#    :for: H u
#    :wrong: gradient: This is the gradient.;
#       both up: This is for u = [1, 1]. The second stays with a minus.;
#       diagonal: Here u is multiplied by the diagonal of H alone.;
#       Hessian: This is H itself. H u adds up its columns, each times a number of u.
#
#    :math:`f(x)=x_0^2x_1` at ``x = [1, 2]``, and ``u = [1, -1]``. Work out the
#    :term:`Hessian` :math:`H` and :math:`Hu` with a pencil. Then write down two ways to
#    get :math:`Hu` that never build :math:`H`, one that pulls through the gradient and
#    one that pushes through it. Why do they agree?
#
# .. dropdown:: Answer
#
#    The gradient is :math:`(2x_0x_1,\;x_0^2)`. So :math:`H` has the rows
#    (4, 2) and (2, 0), and :math:`Hu` is
#    :math:`(4-2,\;2-0)=(2,2)`. To pull, call
#    ``(g,) = torch.autograd.grad(f(x), x, create_graph=True)`` and
#    ``torch.autograd.grad(g, x, u)``. To push, call
#    ``torch.func.jvp(torch.func.grad(f), (x,), (u,))``. The pull gives ``u @ H``
#    and the push ``H @ u``. They agree because the Hessian is symmetric.
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
#    :wrong: flipped: This is what the wrong line gives, V @ W.T, and also the inputs
#          themselves.;
#       second output: This is the row of the second output, whose price is 0.;
#       both outputs: Here both rows of W are added. The second output has the price 0.;
#       prices: These are the prices of the two outputs. Each multiplies its row of W.
#
#    The gradient of the inputs is wrong. What is the right gradient of the two inputs of
#    the first sample? Which line is to be mended, and how?
#
# .. dropdown:: Answer
#
#    It is ``[1, 5]``: the prices are 1 and 0, so only the first output counts, which is
#    ``1 * X[0, 0] + 5 * X[0, 1]``. The rule is ``V @ W``. The wrong line has flipped
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
#    :wrong: loss alone: This is the loss alone, which the program has found.;
#       penalty alone: This is the penalty alone. The loss is in the sum, too.;
#       squares added: The squares of the slope are added to the loss. Their gradient is
#          twice the slope times the second derivative.;
#       not doubled: The factor 2 of the square is missing.
#
#    What is missing? The loss is :math:`x_0^3+x_1^3`, so the slopes are
#    :math:`3x_0^2` and :math:`3x_1^2`, the penalty is :math:`9x_0^4+9x_1^4`, and ``point``
#    is ``[1, 2]``. What should the gradient of loss and penalty be?
#
# .. dropdown:: Answer
#
#    ``create_graph=True`` is missing in the call of ``autograd.grad``. Without it the
#    slope is a plain tensor, and the penalty a constant. With it the gradient is
#    :math:`3x^2+36x^3` for each entry, which is ``[39, 300]``. (:ref:`slopes-in-the-loss`)

loss = (point**3).sum()
(steep,) = torch.autograd.grad(loss, point, create_graph=True)
(fourteen,) = torch.autograd.grad(loss + (steep**2).sum(), point)
fourteen

# %%
# 15 · Which call?
# ----------------
#
# ``f`` takes 10 numbers to 1000, and none of its derivatives is known to be zero. Choose
# a call for each wish, and say how many pulls or pushes it takes:
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
assert not first(torch.zeros(3)).any()
resting = torch.tensor([1.0, -2.0, 1.0])
assert (M @ resting).abs().max() < 1e-6
assert jacrev(lambda x: second(first(x)))(resting).abs().max() < 1e-5
assert not jacrev(second)(torch.zeros(4)).any()
assert [narrow, wide] == [4_000_000, 1_002_000_000]
assert J_of_X.shape == (3, 2, 3, 4)
assert J_of_X.count_nonzero() == 24
assert three[0].tolist() == [2, 4, 6, 8]
assert not three[1:].any()
four = jacfwd(lambda x: torch.tanh(A @ x))(at)
torch.testing.assert_close(four, jacrev(lambda x: torch.tanh(A @ x))(at))
torch.testing.assert_close(pulls[0][0], four.mean(0))
off = of_lengths(lengths[:, None] + error[:, None] * torch.randn(2, 10_000))
torch.testing.assert_close(off.std(1), five, rtol=0.03, atol=0)
assert rates.tolist() == [2, 5]
assert six == v @ rates == 15
assert (
    seven["train"].abs().max() < 1e-5
)  # normalized columns add up to 0, whatever the batch is
alone = jacrev(lambda x: net(x[None])[0])(batch[5].detach())
torch.testing.assert_close(seven["eval"][5], alone)
assert windows.shape == (500, 4)
assert (color[windows].sort(1).values == torch.arange(4)).all()
dense = jacfwd(mean_of_four)(series)
i, j = dense.nonzero().T
torch.testing.assert_close(eight[color[j], i], dense[i, j])
torch.testing.assert_close(turn @ inputs, nine)  # linear, so a whole unit
assert nine.tolist() == [5, 0]
assert ten.shape == (64, 3, 3, 10)
torch.testing.assert_close(ten.sum(0), torch.stack(of_sums))
assert kept == [1_000_000, 1_000_000]
import weakref


def weakly(t):
    alive.append(weakref.ref(copy := t.detach()))
    return copy


for as_number, left in ((False, 10), (True, 2)):
    alive, total = [], 0.0
    with torch.autograd.graph.saved_tensors_hooks(weakly, lambda t: t):
        for numbers in map(torch.rand, [1_000_000] * 5):
            loss = torch.tanh(scale * numbers).sum()
            total = total + (loss.item() if as_number else loss)
    assert [kept() is None for kept in alive].count(False) == left
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

H = torch.func.hessian(f)(x.detach())
unasked = []
watch = lambda t: unasked.append(t.numel()) or t
with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(watch, lambda t: t):
    torch.tanh(scale * numbers).sum()
guesses = {  # wrong ones, of which the boxes above say what they are
    "of the first": J1.shape,
    "of the second": J2.shape,
    "a column": one.T.shape,
    "as the input": one[0].shape,
    "one product": [narrow / 2e6, 1000 * 1000 * 1000 / 1e6],
    "slow first": [wide / 1e6, narrow / 1e6],
    "of the line": J_of_X[:, :, 0, 1][0],
    "other column": J_of_X[0, 0][0],
    "row below": three[1],
    "both columns": B.sum(1),
    "pushes": four.shape[1],
    "pulls": four.shape[0],
    "every entry": four.numel(),
    "pushed": pushed,
    "all added": error.sum().expand(2),
    "squares added": (error**2).sum().expand(2),
    "without the sign": pushed.abs(),
    "fuel as a gain": v.abs() @ rates,
    "no prices": rates.sum(),
    "heat alone": v[0] * rates[0],
    "parts": v * rates,
    "spread": round(net.train()(batch).var(0, correction=0).mean().item(), 2),
    "one of the batch": 1 / len(batch),
    "outputs": len(windows),
    "inputs": len(series),
    "one fewer": small.n_colors - 1,
    "in a group": len(series) // 4 + 1,
    "both": inputs[1].expand(2),
    "other output": nine.flip(0),
    "other input": (block.flatten(1) @ turn.roll(1, 1).flatten()),
    "one sample": ten[0].shape,
    "flattened weight": ten.flatten(2).shape,
    "of the inputs": torch.Size([64, 3, 10]),
    "weight": ten[0, 0].shape,
    "one of two": 5 * kept[0] / 1e6,
    "last batch": torch.tensor(kept).sum().item() / 1e6,
    "with the sums": 5 * (torch.tensor(kept).sum().item() + numbers.numel()) / 1e6,
    "under no_grad": len(unasked),
    "gradient": g.detach(),
    "both up": H @ torch.ones(2),
    "diagonal": H.diagonal() * u,
    "Hessian": H,
    "flipped": of_inputs[0],
    "second output": W.detach()[1],
    "both outputs": W.detach().sum(0),
    "prices": V[0],
    "loss alone": slope,
    "penalty alone": fourteen - slope,
    "not doubled": slope + (fourteen - slope) / 2,
    "rate of fuel": rates[1],
    "one batch": numbers.numel() / 1e6,
}
for guess, gives in guesses.items():
    print(f"{guess}: {gives}")


# %%
# What you can do now
# -------------------
#
# - You can read a table of rates, notice when it stands the wrong way up, and know what you
#   get from a row, a column, a pull and a push.
# - You can choose the call that gets a table from the fewest walks, for all of it, for each
#   sample, and where most of it is zero.
# - You can use a table, to hit several targets, to judge an error, to correct one answer of
#   a network, and, with the table of a gradient, to see how far to go.
#
# Is a point missing? Its answer names the page, which is quicker to read the second time.
#
# This is the end of the course. You know now why ``backward`` asks for a vector, and the
# choice of this ``v`` is yours.
#
# **Next:** the :ref:`case studies <chapter-4>` show what others have done with a ``v`` of
# their choice, and the :ref:`notes <notes-on-jacobians>` go deeper into single questions.
#
# .. asked: test yourself on Jacobians; quiz about Jacobians; questions and answers
#    about the Jacobian
# .. words: quiz, practice, exam, solutions, interview questions
