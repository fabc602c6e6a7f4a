r"""
.. _token-gradients:

How do I get the gradient by a token, when its id is an integer?
================================================================

By its vector, not by its id: look the vectors up, make *them* the leaf, and let the rest of
the model take them. ``v`` is one-hot over the classes, as for images. The same gradient
gives integrated gradients (ones over the steps of a path) and an estimate for every
exchange of a word.
"""

# %%
# ``ids`` has shape ``(B, T)`` and integers; the vectors ``e`` have shape ``(B, T, d)``, and
# so does their gradient. ``scores`` has shape ``(B, classes)``, and so has ``v``:

import torch
from torch import nn

torch.manual_seed(0)  # the same weights on every build
embed = nn.Embedding(10, 4)
head = nn.Sequential(  # (B, T, d) to (B, classes); every place has weights of its own
    nn.Flatten(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
)
ids = torch.tensor([[1, 5, 5, 2], [7, 1, 0, 3]])
scores = head(embed(ids))
v = nn.functional.one_hot(scores.argmax(1), 3).float()
scores.shape, v.shape

# %%
# What goes wrong
# ---------------
#
# *input_ids.grad is None*, and asking for it raises. Made into floats they can require a
# gradient, but no table can be read with them:

for attempt in (lambda: ids.requires_grad_(), lambda: embed(ids.float().requires_grad_())):
    try:
        attempt()
    except RuntimeError as error:
        print(str(error).split(" (")[0])

# %%
# *I take embedding.weight.grad and index it with the ids.* That is the sum over every place
# where the word stands, in all samples. Word 5 stands twice in the first sentence and has
# one row for both; word 1 stands in both sentences:

scores.backward(v)
by_row = embed.weight.grad[ids]
torch.equal(by_row[0, 1], by_row[0, 2]), torch.equal(by_row[0, 0], by_row[1, 1])

# %%
# *Full fine-tuning runs, with LoRA inputs_embeds += … raises.* The table is frozen then,
# and what it gives has no history: ``requires_grad_()``, by Hugging Face's
# ``enable_input_require_grads``, makes a leaf of it. ``e = e + image`` serves both:

frozen, image = nn.Embedding.from_pretrained(embed.weight.detach()), torch.zeros(4)
for table in (embed, frozen):
    e = table(ids).requires_grad_()
    try:
        print(e.is_leaf, (e + image).is_leaf)
        e += image
    except RuntimeError as error:
        print(error)

# %%
# The vectors as leaves
# ---------------------
#
# Look up, cut, and require. In Hugging Face models the same goes in as
# ``inputs_embeds=e`` in place of ``input_ids``:

e = embed(ids).detach().requires_grad_()
(gradient,) = torch.autograd.grad(head(e), e, v)
print(gradient.shape, torch.equal(gradient[0, 1], gradient[0, 2]))  # word 5, two places
print((gradient * e).sum(-1).detach().numpy().round(3))  # one number a token

# %%
# *My model takes nothing but ids.* Then let a forward hook put the leaf in its place:
# what such a hook returns replaces the output of the layer.

model = nn.Sequential(embed, head)
kept = []


def to_leaf(layer, args, output):
    kept.append(output.detach().requires_grad_())
    return kept[-1]


with embed.register_forward_hook(to_leaf):
    found = model(ids)
torch.equal(torch.autograd.grad(found, kept, v)[0], gradient)

# %%
# Which word instead?
# -------------------
#
# A lookup is a product of a one-hot row with the table W. By that row, the gradient is
# ``gradient @ W.T``, a number for each word of the vocabulary at each place: the slope of
# the score by the weight of that word there. The difference to the word that stands there
# estimates every exchange from one backward pass (HotFlip, Ebrahimi et al., 2018):

W = embed.weight.detach()
by_word = gradient @ W.T
estimate = by_word - by_word.gather(2, ids[..., None])
print(estimate.shape, (estimate.gather(2, ids[..., None]) == 0).all().item())

# %%
# It is a slope, and words are far apart: try the best few candidates in the model. Here
# all ten words at the first place of the first sentence, estimated and tried:

swapped = ids[:1].repeat(10, 1)
swapped[:, 0] = torch.arange(10)
with torch.no_grad():
    tried = (head(embed(swapped)) - scores[:1]) @ v[0]
print(estimate[0, 0].numpy().round(2) + 0.0, tried.numpy().round(2) + 0.0, sep="\n")
agree = torch.corrcoef(torch.stack([estimate[0, 0], tried]))[0, 1].item()
print(agree > 0.8)

# %%
# Integrated gradients
# --------------------
#
# *Is that the same as backward(one_hot)?* No: that is the slope at the end point.
# Integrated gradients (Sundararajan et al., 2017) average the slope over the straight path
# from a baseline, here zeros, and multiply by the way. The steps of the path are a batch,
# samples do not mix, so one call with the same one-hot row for all of them takes every
# slope:

steps = 64
t = (torch.arange(steps) + 0.5) / steps  # midpoints
path = (t[:, None, None] * e[0]).detach().requires_grad_()
(slopes,) = torch.autograd.grad(head(path), path, v[:1].expand(steps, 3))
attributed = (slopes.mean(0) * e[0]).detach()
print(attributed.sum(-1).numpy().round(3))

# %%
# They add up to the change of the score from the baseline to the sentence, which the slope
# at the end times the way does not:

with torch.no_grad():
    gained = (head(e[:1]) - head(torch.zeros_like(e[:1])))[0] @ v[0]
print(round(attributed.sum().item(), 3), round(gained.item(), 3))
print(round((gradient[0] * e[0]).sum().item(), 3))

# %%
# The check: the table's gradient is the tokens' gradients added up by id; a single entry
# by a difference quotient in float64; the sum of the attributions is the gain:

added = torch.zeros(10, 4).index_add(0, ids.flatten(), gradient.flatten(0, 1))
torch.testing.assert_close(embed.weight.grad, added)
head.double()
at, step = e.detach().double(), torch.zeros(2, 4, 4, dtype=torch.float64)
step[0, 1, 2] = 1e-5
quotient = ((head(at + step) - head(at - step)) * v).sum() / 2e-5
torch.testing.assert_close(quotient.float(), gradient[0, 1, 2])
torch.testing.assert_close(attributed.sum(), gained, atol=1e-3, rtol=0)
assert agree > 0.8

# %%
# Where next
# ----------
#
# The same for images: :ref:`saliency`. A row that is used twice: :ref:`repeated-indices`.
# Sparse gradients of a table: :ref:`sparse-and-nested`. Hooks: :ref:`hooks`.
#
# .. asked: gradient with respect to tokens; embedding gradient; input_ids have no
#    gradient; which word matters; HotFlip; token importance; gradient of text input;
#    influence of each word
#
# .. words: word, embedding, int64, long tensor, text, prompt, llm, inputs_embeds, which
#    word, one-hot tokens, jailbreak, gcg
