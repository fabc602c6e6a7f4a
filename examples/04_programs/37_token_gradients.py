r"""
.. _token-gradients:

How do I get the gradient with respect to a token, when its id is an integer?
=============================================================================

A network reads short reviews of films and says whether a review is kind or not. Which word
made the network say so? And which word would you have to replace to make the network change
its mind? Both questions ask for a gradient with respect to a word. But to the network a
word is an integer, its id, and an integer has no gradient. The *vector* that the network
looks up for the id does have a gradient. So look the vectors up yourself, make *them* a
leaf, and pass them to the rest of the network. As with pictures, ``v`` has a 1 at the class
that you ask about.
"""

# %%
# Reviews of five words
# ---------------------
#
# Our reviews have five words, such as *film was not very good*. We make all of them. A
# review is kind if its last word is *good* or *great*, and each *not* reverses the
# verdict:

from itertools import product

import torch
from torch import nn

adverbs = ["not", "very", "quite"]
words = ["film", "plot", "was", "is", *adverbs, "good", "great", "bad", "dull"]


def encode(*sentences):
    return torch.tensor([[words.index(w) for w in s.split()] for s in sentences])


parts = ["film", "plot"], ["was", "is"], adverbs, adverbs, words[7:]
reviews = [" ".join(chosen) for chosen in product(*parts)]
kind = [
    (review.endswith(("good", "great")) + review.split().count("not")) % 2
    for review in reviews
]
every, label = encode(*reviews), torch.tensor(kind)  # 1 is kind
print(len(reviews), "reviews, such as:", reviews[27])

# %%
# The network looks up a vector of four numbers for each word in ``embed``, and ``head``
# does the rest. We keep these two parts separate:

torch.manual_seed(0)  # the same weights on every build
embed = nn.Embedding(11, 4)
head = nn.Sequential(  # (B, T, d) to (B, classes); every place has weights of its own
    nn.Flatten(), nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 2)
)
model = nn.Sequential(embed, head)


def train(model, weight_decay):
    optimizer = torch.optim.AdamW(model.parameters(), 0.03, weight_decay=weight_decay)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(every), label).backward()
        optimizer.step()


train(model, weight_decay=1.0)
print("all right:", (model(every).argmax(1) == label).all().item())

# %%
# The word vectors as leaves
# --------------------------
#
# ``ids`` has the shape ``(B, T)``, the vectors ``e`` have the shape ``(B, T, d)``, and so
# has their gradient. The scores have the shape ``(B, classes)``, and so has ``v``. Here
# ``v`` has a 1 at the class that the network has chosen, for each review. ``detach`` cuts
# the vectors off from the table, and ``requires_grad_`` makes them leaves:


def word_gradients(embed, head, ids, v):
    """Return the vectors of the words, and the gradient of the scores with v at them."""
    e = embed(ids).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(head(e), e, v)
    return e.detach(), gradient


texts = ["film was not very good", "plot is very very dull"]
ids = encode(*texts)
scores = model(ids)
chosen = scores.argmax(1)
v = nn.functional.one_hot(chosen, 2).float()
e, gradient = word_gradients(embed, head, ids, v)
print("kind:", chosen.tolist(), " gradient:", tuple(gradient.shape))

# %%
# The network calls both reviews unkind, and it is right. Each word has a gradient of four
# numbers, one for each entry of its vector. The word *very* occurs twice in the second
# review, and has a different gradient at each of the two places:

print("the same at both:", torch.equal(gradient[1, 2], gradient[1, 3]))

# %%
# In a model from Hugging Face you pass the vectors as ``inputs_embeds=e`` in place of
# ``input_ids``. If your model takes only ids, use a forward hook on the embedding. The
# tensor that such a hook returns replaces the output of the layer, so the hook can return
# a leaf:

kept = []


def to_leaf(layer, args, output):
    kept.append(output.detach().requires_grad_())
    return kept[-1]


with embed.register_forward_hook(to_leaf):
    found = model(ids)
(by_hook,) = torch.autograd.grad(found, kept, v)
print(torch.equal(by_hook, gradient))

# %%
# Which word decided the answer?
# ------------------------------
#
# Four numbers for each word are too many to look at. Usually people multiply the gradient
# by the vector and add up the four products. This number uses only the slope at the review
# itself.
#
# *Integrated gradients* (Sundararajan et al., 2017) are often used for the same purpose.
# They average the slope over a straight path, here from a review of zero vectors to our
# review. The steps of the path form a batch, and no sample influences another. So one
# call with the same one-hot row for all steps gives every slope:

steps = 64
t = (torch.arange(steps) + 0.5) / steps  # midpoints


def integrated(e, row):
    """Return a number for each word of one review; ``row`` says which class is asked."""
    path = (t[:, None, None] * e).requires_grad_()
    (slopes,) = torch.autograd.grad(head(path), path, row.expand(steps, -1))
    return (slopes.mean(0) * e).sum(-1)


at_the_end = (gradient[0] * e[0]).sum(-1)
attributed = integrated(e[0], v[0])

import pullback

pullback.draw.bars(
    {"gradient × vector": at_the_end, "integrated gradients": attributed},
    names=texts[0].split(),
    alt="What each word of “film was not very good” adds to the score of unkind: next to "
    "nothing for “film” and “was”, most for “not”",
)

# %%
# *Film* and *was* contribute next to nothing. *Not* contributes most. According to the
# integrated gradients, *good* contributes nearly as much, because after a *not* it also
# speaks for unkind. With seven other seeds *film* and *was* contributed next to nothing as
# well, but it changed from seed to seed whether *not* or *good* had the larger integrated
# gradient. The integrated gradients add up to the change of the score from the review of
# zero vectors to our review. The products of gradient and vector do not:

with torch.no_grad():
    gained = (head(e[:1]) - head(torch.zeros_like(e[:1])))[0] @ v[0]
print(f"change of the score   {gained:.1f}")
print(f"integrated gradients  {attributed.sum():.1f}")
print(f"gradient × vector     {at_the_end.sum():.1f}")

# %%
# Which other word would change the answer?
# -----------------------------------------
#
# A lookup is a product of a one-hot row with the table W. With respect to *this row* the
# gradient is ``gradient @ W.T``, of shape ``(B, T, words)``. It has a number for each word
# of the vocabulary at each place, which says how fast the score changes if a little of that
# word is mixed in. Subtract the number of the current word, and you get an estimate of how
# a replacement would change the score, for every place and every word, from one backward
# pass (HotFlip, Ebrahimi et al., 2018):

W = embed.weight.detach()
by_word = gradient @ W.T
estimate = by_word - by_word.gather(2, ids[..., None])
print(tuple(estimate.shape))

# %%
# We look for the replacement that lowers the score of *unkind* most in the first review,
# and then try it:

place, new = divmod(estimate[0].argmin().item(), len(words))
exchanged = texts[0].split()
exchanged[place] = words[new]
now = model(encode(" ".join(exchanged))).argmax(1).item()
print(" ".join(exchanged), "-> kind" if now else "-> unkind")

# %%
# This replacement has changed the network's mind. But the estimate is only a slope, and the
# vectors of two words may be far apart. So take the best few candidates, and try them in
# the model. Here are all eleven words at the third position, estimated and tried:


def at_third_place(embed, head, ids, v):
    """Return what each word would change there, estimated and tried, both (B, words)."""
    e, gradient = word_gradients(embed, head, ids, v)
    W = embed.weight.detach()
    estimate = (W - e[:, 2, None]) @ gradient[:, 2, :, None]
    with torch.no_grad():
        moved = e.repeat(len(W), 1, 1, 1)  # (words, B, T, d)
        moved[:, :, 2] = W[:, None]
        tried = ((head(moved.flatten(0, 1)).unflatten(0, (len(W), -1)) - head(e)) * v).sum(
            -1
        )
    return estimate[..., 0], tried.T


guesses, truths = at_third_place(embed, head, ids, v)
for word, guess, truth in zip(words, guesses[0], truths[0], strict=True):
    print(f"{word:6} {guess:5.1f} {truth:5.1f}")

# %%
# The estimates differ from the true changes, but their order is nearly right.
#
# What to watch for
# -----------------
#
# **The ids have no gradient.** ``input_ids.grad`` is None, and ``requires_grad_()`` on
# the ids raises an error. If you convert the ids to floats, they may require a gradient,
# but you cannot look them up in a table:

for attempt in (lambda: ids.requires_grad_(), lambda: embed(ids.float().requires_grad_())):
    try:
        attempt()
    except RuntimeError as error:
        print(str(error).split(" (")[0])

# %%
# **embedding.weight.grad, indexed with the ids**, is used in many programs.
# ``embedding.weight.grad`` has one row for each *word of the table*. In each row the
# gradients of all places of that word are added up, over all samples. *Very* occurs at
# three places in our two reviews, and all three would get the same row:

model.zero_grad()
model(ids).backward(v)
by_row = embed.weight.grad[ids]
print(torch.equal(by_row[1, 2], by_row[1, 3]), torch.equal(by_row[0, 3], by_row[1, 2]))

# %%
# **A network that is too sure.** We have trained with a strong ``weight_decay`` for a
# reason. Without weight decay the network goes on making its scores larger, until most of
# the ``tanh`` are nearly flat. Then the slope at a review says little about a step that is
# as large as the replacement of a word. Here is how well the estimates at the third
# position agree with the trials, as a correlation over all reviews, for both networks:


def agreement(embed, head):
    asked = nn.functional.one_hot(label, 2).float()
    pair = at_third_place(embed, head, every, asked)
    return torch.corrcoef(torch.stack([part.flatten() for part in pair]))[0, 1].item()


torch.manual_seed(0)
sure_embed = nn.Embedding(11, 4)
sure_head = nn.Sequential(nn.Flatten(), nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 2))
train(nn.Sequential(sure_embed, sure_head), weight_decay=0.0)
agree, sure_agree = agreement(embed, head), agreement(sure_embed, sure_head)
print(f"with weight decay {agree:.1f}, without {sure_agree:.1f}")


def slope(embed, head):
    bent = head[:3](embed(every))  # what the tanh let out
    return (1 - bent**2).median().item()


slopes = slope(embed, head), slope(sure_embed, sure_head)
print(f"median slope of a tanh: {slopes[0]:.1f}, {slopes[1]:.2f}")

# %%
# **An in-place sum on the vectors.** A program that mixes a picture into the vectors writes
# ``inputs_embeds += …``. This line runs in full fine-tuning, but with LoRA it raises an
# error. With LoRA the table is frozen, and so its output has no graph. Hugging Face's
# ``enable_input_require_grads`` calls ``requires_grad_()`` on this output. The output is
# then a :term:`leaf` that requires a gradient, and such a leaf cannot be edited in place.
# Write ``e = e + image``, which works in both cases:

frozen, image = nn.Embedding.from_pretrained(embed.weight.detach()), torch.zeros(4)
for table in (embed, frozen):
    vectors = table(ids).requires_grad_()
    try:
        print("leaf:", vectors.is_leaf, " sum a leaf:", (vectors + image).is_leaf)
        vectors += image
    except RuntimeError as error:
        print(error)

# %%
# .. admonition:: Try it
#
#    In the second review, *plot is very very dull*, look for the replacement that the
#    estimate ranks highest. Would you have chosen the same replacement, and does it change
#    the network's mind?
#
# .. dropdown:: Answer
#
#    We try the replacement:

place, new = divmod(estimate[1].argmin().item(), len(words))
exchanged = texts[1].split()
exchanged[place] = words[new]
now = model(encode(" ".join(exchanged))).argmax(1).item()
print(" ".join(exchanged), "-> kind" if now else "-> unkind")

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient of the table with the gradients of the places, added up by
#    id, and a single entry with a difference quotient in float64. We check that the
#    integrated gradients add up to the change of the score.

added = torch.zeros(11, 4).index_add(0, ids.flatten(), gradient.flatten(0, 1))
torch.testing.assert_close(embed.weight.grad, added)
assert attributed.argmax() == at_the_end.argmax() == 2
assert attributed[:2].abs().max() < 0.1 < 0.5 < attributed[4]
torch.testing.assert_close(attributed.sum(), gained, atol=1e-2, rtol=0)
assert (at_the_end.sum() - gained).abs() > 0.3
assert (estimate.gather(2, ids[..., None]) == 0).all()
torch.testing.assert_close(guesses, estimate[:, 2])
assert agree > 0.7
assert sure_agree < 0.5
assert slopes[0] > 0.2 > 0.05 > slopes[1]
double = head.double()
at, step = e.double(), torch.zeros(2, 5, 4, dtype=torch.float64)
step[0, 1, 2] = 1e-5
quotient = ((double(at + step) - double(at - step)) * v).sum() / 2e-5
torch.testing.assert_close(quotient.float(), gradient[0, 1, 2], rtol=1e-3, atol=1e-5)

# %%
# **Next:** The same questions about pictures are answered in :ref:`saliency` and
# :ref:`attribution`. If a row of the table is used twice, read :ref:`repeated-indices`. If
# the table is so large that you want sparse gradients, read :ref:`sparse-and-nested`.
# :ref:`hooks` shows what else a hook can do.
#
# .. asked: gradient with respect to tokens; embedding gradient; input_ids have no
#    gradient; which word matters; HotFlip; token importance; gradient of text input;
#    influence of each word
# .. words: word, embedding, int64, long tensor, text, prompt, llm, inputs_embeds, which
#    word, one-hot tokens, jailbreak, gcg
