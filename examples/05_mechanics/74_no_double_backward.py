r"""
.. _no-double-backward:

Which operations have no second derivative, and what do I use instead?
======================================================================

You differentiate a gradient, and PyTorch says that the second backward is not implemented.
This happens with fused operations, such as attention, ``embedding_bag``, ``ctc_loss``, or
an RNN in cuDNN. Their backward pass is a single kernel, and PyTorch has no rule for the
derivative of this kernel. If you build the same function from plain operations, you can
differentiate it as often as you need. You have to make this choice in the *forward* pass.
"""

# %%
# A second derivative goes backward through the backward pass (:term:`double backward`). For
# x of shape ``(4, 3)``, the function below computes the derivative of :math:`u^\top\nabla
# f`, which is :math:`Hu`, with the :term:`Hessian` H of :math:`f=\sum y^2`:

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
# Here are some operations without a second derivative, and the error that each of them
# raises in the second backward pass. It does not help to allow the kernel ``MATH`` if
# ``FLASH`` is allowed as well, because PyTorch prefers ``FLASH``:

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
# The values are the same as those of the fused operations, and now the products :math:`Hu`
# can be computed:

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
# *With a large batch I get the second derivative, but with a small batch I get an error.*
# This was so with ``cdist`` before torch 2.14 (:ref:`version-notes`). If you let ``cdist``
# compute the distances by matrix products, it has a second derivative in every release that
# we tried, and this derivative is right as long as no two points coincide:


def distances(x):
    return torch.cdist(x, 1 - x, compute_mode="use_mm_for_euclid_dist")


torch.testing.assert_close(distances(x), torch.cdist(x, 1 - x))
found["cdist"] = product(distances, x)

# %%
# *Where two points coincide, the second derivative is wrong without a message.* The second
# derivative of a squared distance is 2 everywhere. But the second derivative that PyTorch
# computes through ``cdist`` is 0 for a pair of equal points, and in ``cdist(x, x)`` each
# point forms such a pair with itself. For squared distances, and for kernel functions
# computed from them, such as the Gaussian kernel, write the sum of squares, which takes no
# root (:ref:`squared-distances`). The first line of the output is for two equal points, and
# the second for two different points:

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
# *What about the distances within one set?* If you write the distances as
# ``(a - b).norm()``, their second derivative is NaN if two points are the same, as they are
# in all pairs i = j. So take only the pairs i < j. The first line of the output says
# whether there is a NaN if we take all pairs, and the second says whether there is one for
# the pairs i < j:

i, j = torch.triu_indices(4, 4, 1)
for pairs in (lambda x: x[:, None] - x, lambda x: x[i] - x[j]):
    print(product(lambda x, pairs=pairs: pairs(x).norm(dim=-1) + 1, x).isnan().any().item())

# %%
# Attention inside a module
# -------------------------
#
# The kernel is chosen in the forward pass, and the choice of the kernel determines the
# backward pass. So put the context manager around the call to the module. If you put the
# context manager around the backward pass, it comes too late:

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
# (:ref:`errors`). If you switch cuDNN off around the forward pass, PyTorch uses its own
# kernels. Here we run an LSTM with these kernels, in float64 on a CPU:

lstm = nn.LSTM(3, 2).double()


def recurrent(x):
    with torch.backends.cudnn.flags(enabled=False):
        return lstm(x)[0]


found["LSTM"] = product(recurrent, x)
found["LSTM"].shape

# %%
# When there is nothing to write instead
# --------------------------------------
#
# For ``ctc_loss``, or for a kernel that somebody else wrote, a difference of two gradients
# gives :math:`Hu` to about eight digits in float64. But this result has no graph, which a
# gradient penalty would need:


def by_differences(f, x, h=1e-5):
    points = [(x + sign * h * u).detach().requires_grad_() for sign in (1, -1)]
    up, down = (torch.autograd.grad((f(p) ** 2).sum(), p)[0] for p in points)
    return (up - down) / (2 * h)


of_ctc = by_differences(fused["ctc_loss"], x)
off = (by_differences(attention, x) - found["attention"]).abs().max()
print(tuple(of_ctc.shape), of_ctc.requires_grad, off.item() < 1e-7)

# %%
# As a check, we compare each product with such a difference of gradients, and the product
# for CTC with second differences of the values of the loss, which contain no derivative:

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
# :ref:`twice-differentiable` shows how to give your own rule a second derivative.
# :ref:`gradient-penalty` and :ref:`hvp` are about uses of second derivatives, and
# :ref:`second-derivatives` also covers compiled functions.
#
# .. asked: double backward not implemented; no second derivative; derivative of
#    backward is not implemented; flash attention second derivative; cuDNN RNN double
#    backward; ctc loss second derivative
# .. words: second order, fails, flash, cudnn, rnn, ctc, alternative, math backend, not
#    implemented, penalty with attention
