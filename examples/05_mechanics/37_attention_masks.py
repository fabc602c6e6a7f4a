r"""
.. _attention-masks:

Why does my attention mask give NaN? A fully masked row
=======================================================

You mask an attention layer, and its output or its weights become NaN. The reason is a row
of the mask that holds nothing but ``-inf``, because the softmax of such a row is 0/0. The
NaN reaches all weights of the layer, even if you leave that row out of the loss. Let the
row attend to some keys, and throw its result away. A ``-inf`` in a row that also holds
finite scores does no harm, because the masked entry gets probability 0 and gradient 0.
"""

# %%
# The scores have shape ``(2, 3)``, for two queries and three keys. The second query is not
# allowed to see any key, as in a sample that consists only of padding. ``v`` picks the
# first key's probability. We print the probabilities, the gradient with respect to the
# masked scores, and the gradient with respect to the scores:

import torch
from torch import nn
from torch.nn import functional as F

scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], requires_grad=True)
keep = torch.tensor([[True, True, False], [False, False, False]])
v = torch.tensor([1.0, 0.0, 0.0]).expand(2, 3)
masked = scores.masked_fill(~keep, float("-inf"))
p = masked.softmax(1)
print(p.detach())
at_masked, at_scores = torch.autograd.grad(p, (masked, scores), v)
print(at_masked + 0, at_scores + 0, sep="\n")  # + 0: no -0.

# %%
# In the first row, the two keys that are not masked have the slopes ±p(1 − p), where p is
# the probability of the first key, and the masked key has the slope 0. In the second row
# every entry is NaN. In the backward pass ``masked_fill`` replaces this NaN with zeros, so
# that *these* scores get a harmless gradient. But in an attention layer the gradient of the
# value vectors is NaN, because they are multiplied by the row's probabilities. And if the
# ``-inf`` was added to the scores, the gradient of the scores is NaN as well.
#
# One padded sample, and every weight is NaN
# ------------------------------------------
#
# *My loss is finite, because I leave the padded sample out of it.* In that case the
# :term:`cotangent` of this sample is 0, and 0 times NaN is NaN. Here the gradient is NaN in
# all entries of the weight that makes queries, keys and values:

torch.manual_seed(0)  # the same weights on every build
attention = nn.MultiheadAttention(4, 1, batch_first=True)
x = torch.randn(2, 3, 4)
padding = torch.tensor([[False, False, True], [True, True, True]])
weight = attention.in_proj_weight


def first_sample_only(padding, **options):
    y, _ = attention(x, x, x, key_padding_mask=padding, **options)
    loss = y[0].sum()
    return loss, torch.autograd.grad(loss, weight)[0]


loss, g = first_sample_only(padding)
print(loss.isfinite().item(), g.isnan().all().item())

# %%
# What helps against the NaN
# --------------------------
#
# Let the fully masked rows see all keys. Then remove their results with ``where``, or leave
# these results out of the loss as before. Now the 0 is multiplied by a finite number:

opened = padding & ~padding.all(1, keepdim=True)
loss_opened, g_opened = first_sample_only(opened)
print(torch.equal(loss, loss_opened), g_opened.isfinite().all().item())

# %%
# Or, most cheaply, drop the fully masked samples before they reach the layer. If you fill
# the masked scores with a large negative number in place of ``-inf``, all probabilities of
# a fully masked row are *equal*. Then there is no NaN, but the row returns a mean over keys
# that it should not see:

lowest = torch.finfo(scores.dtype).min
print(scores.masked_fill(~keep, lowest).softmax(1)[1].detach())

# %%
# *With need_weights=False the NaN is gone.* With this option the layer calls
# :func:`scaled_dot_product_attention <torch.nn.functional.scaled_dot_product_attention>`,
# which returns the value 0 and the gradient 0 for a fully masked row, as shown here on a
# CPU. The last line of the output says that the gradient of the weight is the same as with
# the mask that we opened for the fully masked row:

q = torch.randn(1, 2, 4, requires_grad=True)
y = F.scaled_dot_product_attention(q, x[:1], x[:1], attn_mask=keep[None])
print(y[0, 1].tolist(), (torch.autograd.grad(y.sum(), q)[0][0, 1] + 0).tolist())
_, g_unweighted = first_sample_only(padding, need_weights=False)
print(torch.allclose(g_unweighted, g_opened, atol=1e-6))

# %%
# What goes wrong
# ---------------
#
# *The mask works the wrong way around.* ``True`` in the layer's ``key_padding_mask`` or
# ``attn_mask`` leaves a key out. In the ``attn_mask`` of ``scaled_dot_product_attention``,
# ``True`` lets the key in. For each key we print whether it gets a probability above 0 from
# the layer, first with ``keep`` for the mask and then with its opposite:

for mask in (keep[:1], ~keep[:1]):
    _, weights = attention(x[:1], x[:1], x[:1], key_padding_mask=mask)
    print((weights[0, 0] > 0).tolist())

# %%
# *I multiply the scores by the mask.* A score of 0 is still a score, and the masked key
# gets a share of the attention. *I multiply the probabilities by the mask.* In that case
# they no longer add up to 1, and the masked key still gets a gradient through the sum in
# the denominator. Each line of the output shows the probabilities, and the gradient of the
# first one:

row, seen = scores[0], keep[0]
ways = {
    "scores times mask": lambda s: (s * seen).softmax(0),
    "probabilities times mask": lambda s: s.softmax(0) * seen,
    "-inf": lambda s: s.masked_fill(~seen, float("-inf")).softmax(0),
}
for name, way in ways.items():
    (g,) = torch.autograd.grad(way(row)[0], scores)
    print(f"{name:25}", way(row).detach().numpy().round(3), g[0].numpy().round(3) + 0)

# %%
# There are two other signs of a fully masked row. Its ``log_softmax`` is NaN, and its
# ``logsumexp`` is ``-inf``, with a NaN gradient. There is also another way to get NaN: if
# you multiply a masked score by a mask, the product ``0 * -inf`` is NaN already in the
# forward pass:

empty = torch.full((2,), float("-inf"), requires_grad=True)
total = torch.logsumexp(empty, 0)
print(empty.log_softmax(0).tolist(), (0 * empty).tolist())
print(total.item(), torch.autograd.grad(total, empty)[0].tolist())

# %%
# As a check, we pass the first sample alone, with no other sample in the batch. The
# gradient must equal the gradient with the opened mask. And in the first row, the two keys
# that are not masked must get the same probabilities and gradients as if the masked key did
# not exist:

alone, _ = attention(x[:1], x[:1], x[:1], key_padding_mask=padding[:1])
torch.testing.assert_close(torch.autograd.grad(alone.sum(), weight)[0], g_opened)
absent = row[:2].softmax(0)
torch.testing.assert_close(p[0, :2], absent)
jacobian = torch.diag(absent) - torch.outer(absent, absent)
torch.testing.assert_close(at_scores[0, :2], (v[0, :2] @ jacobian).detach())

# %%
# Below are three scores, of which the third is masked with ``-inf``. Whatever you set the
# third score to, its row and its column are 0:

import pullback

hidden = torch.tensor([False, False, True])
masked = lambda s: s.masked_fill(hidden, float("-inf")).softmax(0)
pullback.live(masked, torch.tensor([1.0, 2.0, 0.5]))

# %%
# Where next
# ----------
#
# :ref:`masked-nan` is about zero times infinity in general. To find which operation made
# the NaN, use the hooks that :ref:`hooks` explains. :ref:`mixing-samples` is about causal
# masks and which tokens mix.
#
# .. asked: attention mask NaN; all keys masked; softmax of -inf; padding mask NaN;
#    fully masked row; transformer mask gives NaN
# .. words: transformer, padding, -inf, softmax of nothing, empty sequence,
#    key_padding_mask, sdpa, fully masked, causal
