r"""
.. _no-double-backward:

Which operations have no second derivative, and what do I use instead?
======================================================================

You take a gradient of a gradient, and the second backward is not implemented. This happens
with fused operations: attention, ``embedding_bag``, ``ctc_loss``, an RNN in cuDNN. Their
backward is one kernel, which no rule differentiates. The same function made of plain
operations has all derivatives. Choose it in the *forward* pass.
"""

# %%
# A second derivative goes backward through the backward (:term:`double backward`). For x of
# shape ``(4, 3)``, the function below asks for the derivative of :math:`u^\top\nabla f`,
# and so for :math:`Hu`, with the :term:`Hessian` H of :math:`f=\sum y^2`:

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(0)  # the same points and weights on every build
x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
u = torch.arange(12.0, dtype=torch.float64).reshape(4, 3) / 10
words, kinds = torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1, 2, 1])
both = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]


def product(f, x):  # H u
    (g,) = torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)
    return torch.autograd.grad(g, x, u)[0]


# %%
# Here are some operations that refuse, with the error of their second backward. It does not
# help to allow the kernel ``MATH`` if ``FLASH`` is allowed as well, since ``FLASH`` is
# preferred:

fused = {
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3),
    "MATH or FLASH": lambda x: sdpa_kernel(both)(fused["attention"])(x),
    "embedding_bag": lambda x: F.embedding_bag(words, x),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, kinds),
    "ctc_loss": lambda x: F.ctc_loss(x.log_softmax(1), kinds[1:3], (4,), (2,)),
}
for name, f in fused.items():
    try:
        product(f, x)
    except RuntimeError as error:
        print(f"{name:18}", error)

# %%
# What to write instead
# ---------------------
#
# You can build the same functions from plain operations, or choose another kernel for the
# same call:


def attention(x):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*[x[None, None]] * 3)


def margin(x):  # for class k: the mean of max(0, 1 - x_k + x_j) over j, without j = k
    right = x.gather(1, kinds[:, None])
    return (F.relu(1 - right + x).sum(1) - 1).mean() / x.shape[1]


# %%
# The values are those of the fused operations, and the products exist:

plain = {
    "attention": attention,
    "embedding_bag": lambda x: F.embedding(words, x).mean(1),
    "multi_margin_loss": margin,
}
found = {}
for name, f in plain.items():
    torch.testing.assert_close(f(x), fused[name](x))
    found[name] = product(f, x)
    print(f"{name:18}", tuple(found[name].shape))

# %%
# *Large batches have a second derivative, but a small one raises.* This was so with
# ``cdist`` before torch 2.14 (:ref:`version-notes`). If you let it compute by matrix
# products, it has one on every release that was tried, and it is right where no two of the
# points coincide:


def distances(x):
    return torch.cdist(x, 1 - x, compute_mode="use_mm_for_euclid_dist")


torch.testing.assert_close(distances(x), torch.cdist(x, 1 - x))
found["cdist"] = product(distances, x)

# %%
# *Where two points coincide, the second derivative is wrong without a message.* The second
# derivative of a squared distance is 2 everywhere. Through ``cdist`` it is 0 for a pair of
# equal points, as all pairs i = i of ``cdist(x, x)`` are. For squared distances, and for a
# kernel made of them, write the sum of squares, which takes no root
# (:ref:`squared-distances`). In the first row the points are equal, in the second they
# differ:

point = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
squared = {
    "by cdist": lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist") ** 2,
    "by squares": lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
}
bends = {name: [] for name in squared}
for other in (0.0, 1.0):
    for name, f in squared.items():
        there = torch.tensor([[other]], dtype=torch.float64)
        (g,) = torch.autograd.grad(f(point, there).sum(), point, create_graph=True)
        bends[name].append(torch.autograd.grad(g, point)[0].item())
    print({name: bend[-1] for name, bend in bends.items()})

# %%
# *What about the distances within one set?* If they are written as ``(a - b).norm()``,
# their second derivative is NaN if two points are the same, as in all pairs i = j. So take
# only the pairs i < j. Each line says whether there is a NaN, for all pairs first, and then
# for i < j:

i, j = torch.triu_indices(4, 4, 1)
for pairs in (lambda x: x[:, None] - x, lambda x: x[i] - x[j]):
    print(product(lambda x, pairs=pairs: pairs(x).norm(dim=-1) + 1, x).isnan().any().item())

# %%
# Attention inside a module
# -------------------------
#
# The forward pass chooses the kernel, and with it the backward. So put the context around
# the call of the module. Around the backward it comes too late:

layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
tokens = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
for around in ("forward", "backward"):
    with sdpa_kernel(SDPBackend.MATH if around == "forward" else both):
        y = layer(tokens).pow(2).sum()
    try:
        with sdpa_kernel(SDPBackend.MATH):
            (g,) = torch.autograd.grad(y, tokens, create_graph=True)
            print(around, torch.autograd.grad(g.sum(), tokens)[0].shape)
    except RuntimeError as error:
        print(around, error)

# %%
# An RNN on a GPU
# ---------------
#
# ``nn.RNN``, ``LSTM`` and ``GRU`` run in cuDNN, which has no double backward
# (:ref:`errors`). If you switch cuDNN off around the forward pass, torch's own kernels run.
# Here they do so in float64 on a CPU:

lstm = nn.LSTM(3, 2).double()


def recurrent(x):
    with torch.backends.cudnn.flags(enabled=False):
        return lstm(x)[0]


found["LSTM"] = product(recurrent, x)
found["LSTM"].shape

# %%
# Nothing to write instead
# ------------------------
#
# For a ``ctc_loss``, or somebody else's kernel, a difference of two gradients gives
# :math:`Hu` to about eight digits in float64. But this result lacks the graph that a
# penalty needs:


def by_differences(f, x, h=1e-5):
    points = [(x + sign * h * u).detach().requires_grad_() for sign in (1, -1)]
    up, down = (torch.autograd.grad((f(p) ** 2).sum(), p)[0] for p in points)
    return (up - down) / (2 * h)


of_ctc = by_differences(fused["ctc_loss"], x)
off = (by_differences(attention, x) - found["attention"]).abs().max()
print(tuple(of_ctc.shape), of_ctc.requires_grad, off.item() < 1e-7)

# %%
# As a check, we compare each product with such differences, and the product of CTC with
# second differences of its values, which contain no derivative:

for name, f in {**plain, "cdist": distances, "LSTM": recurrent}.items():
    torch.testing.assert_close(found[name], by_differences(f, x), atol=1e-6, rtol=0)
h = 1e-3
up, middle, down = (fused["ctc_loss"](x.detach() + k * h * u) ** 2 for k in (1, 0, -1))
curvature = (up - 2 * middle + down) / h**2
torch.testing.assert_close((of_ctc * u).sum(), curvature, atol=1e-6, rtol=1e-4)
assert bends["by squares"] == [2, 2]
assert bends["by cdist"][0] == 0
assert abs(bends["by cdist"][1] - 2) < 1e-6

# %%
# Where next
# ----------
#
# :ref:`twice-differentiable` gives your own rule a second derivative,
# :ref:`gradient-penalty` and :ref:`hvp` are where second derivatives are needed, and
# :ref:`second-derivatives` is about compiled functions.
#
# .. asked: double backward not implemented; no second derivative; derivative of
#    backward is not implemented; flash attention second derivative; cuDNN RNN double
#    backward; ctc loss second derivative
# .. words: second order, fails, flash, cudnn, rnn, ctc, alternative, math backend, not
#    implemented, penalty with attention
