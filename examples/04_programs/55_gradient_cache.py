r"""
.. _gradient-cache:

A big contrastive batch in little memory (gradient caching)
===========================================================

You train an encoder with pairs: two views of the same thing should get similar
embeddings, and all other pairs of the batch should differ. The more other pairs there
are, the better the training works, so you want a large batch. But the graph of a large
batch does not fit into memory. Accumulating over small batches does not help, because
then each sample has few others to differ from. But you can cut the batch at a different
place. The loss needs all *embeddings* at once, but not all *graphs*. So compute the
gradient with respect to the embeddings first, and pass each chunk of the batch its rows
of this gradient as ``v``.
"""

# %%
# Where the batch can be cut
# --------------------------
#
# The embeddings ``z`` have the shape ``(B, d)``. The loss compares each embedding with
# all the others, and so we cannot compute it chunk by chunk. The encoder treats each
# sample separately, and so we can run it chunk by chunk. By the chain rule the gradient
# with respect to the weights :math:`w` is a sum over chunks (Gao et al., 2021):
#
# .. math::
#
#    \nabla_w L=\sum_{\text{chunks}}J_c^\top\,\frac{\partial L}{\partial z_c}
#
# :math:`J_c` is the :term:`Jacobian` of the embeddings of one chunk, and ``backward``
# multiplies by it. We have to pass :math:`\partial L/\partial z_c` to ``backward``. These
# are the rows of this chunk in the gradient of the loss with respect to ``z``, and they
# are our ``v``.
#
# We make 256 samples, and a second view of each, which is the same sample with some noise.
# The loss is the usual contrastive one, in which the right second view of each sample has
# to be picked among all 256:

import torch
from torch import nn

torch.manual_seed(0)  # the same weights and data on every build
encoder = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 8))
data = torch.randn(256, 20)
other = data + 0.3 * torch.randn(256, 20)  # a second view of each sample
both = torch.cat([data, other])


def contrastive(z):
    """The loss of embeddings, the first half of samples, the second of their views."""
    a, b = nn.functional.normalize(z, dim=1).chunk(2)
    own = torch.arange(len(a), device=z.device)
    return nn.functional.cross_entropy(a @ b.T / 0.1, own)


# %%
# The program
# -----------
#
# This function takes the place of ``loss.backward()``, and you can copy it. The first
# pass makes all embeddings without a graph. The graph of the loss then begins at the
# embeddings, and ``backward`` leaves ``v`` in ``z.grad``. The second pass goes through
# the chunks once more, now with a graph. Each chunk gets its rows of ``v``, and its graph
# is freed before the next one is made:


def cached_backward(encoder, loss_of, batch, chunk):
    """Add the gradient of the loss of the whole batch to the weights' .grad."""
    with torch.no_grad():
        z = torch.cat([encoder(part) for part in batch.split(chunk)])
    loss = loss_of(z.requires_grad_())
    loss.backward()
    for part, v in zip(batch.split(chunk), z.grad.split(chunk), strict=True):
        encoder(part).backward(v)
    return loss.item()


# %%
# The training loop is an ordinary one, and the loss goes down. Every step sees 512
# embeddings, and the encoder never has a graph for more than 32 samples:

optimizer = torch.optim.Adam(encoder.parameters(), lr=0.02)
history = []
for _ in range(60):
    optimizer.zero_grad()
    history.append(cached_backward(encoder, contrastive, both, chunk=32))
    optimizer.step()
print(f"{history[0]:.1f} -> {history[-1]:.1f}")

# %%
# What has the encoder learned? Here are twenty samples and their second views. Each
# square shows the cosine of two embeddings:

import pullback.plot

with torch.no_grad():
    a, b = nn.functional.normalize(encoder(both), dim=1).chunk(2)
ax = pullback.plot.heatmap(
    a[:20] @ b[:20].T,
    title="Cosines of samples with second views: largest on the diagonal",
    xlabel="second view",
    ylabel="sample",
)
found = (a @ b.T).argmax(1) == torch.arange(256)
print("nearest to their own second view:", found.sum().item(), "of 256")

# %%
# The diagonal shows the pairs of a sample and its own second view. The text below the
# picture says for how many samples this view is the nearest one.
#
# The same gradient, in less memory
# ---------------------------------
#
# Is this really the gradient of the large batch? For new weights, we compare it with the
# gradient from one graph for all 512 samples. We also count the bytes of the :term:`saved
# tensors <saved tensor>` that a forward pass of the encoder keeps for ``backward``, once
# for all samples and once for a chunk:

torch.manual_seed(0)
fresh = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 8))
contrastive(fresh(both)).backward()
whole = [p.grad.clone() for p in fresh.parameters()]
fresh.zero_grad()
cached_backward(fresh, contrastive, both, chunk=32)
pairs = zip(fresh.parameters(), whole, strict=True)
print("same:", all(torch.allclose(p.grad, g, rtol=1e-4, atol=1e-5) for p, g in pairs))


def saved(batch):
    kept = {}

    def note(t):
        kept[t.data_ptr()] = t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        encoder(batch)
    return torch.tensor(list(kept.values())).sum().item()


print("bytes:", saved(both), "for all,", saved(both[:32]), "for a chunk")

# %%
# The gradient is the same up to rounding. A chunk has a sixteenth of the samples, and keeps
# a little more than a sixteenth of the bytes, because the weights are saved as well, and
# they are as large as before.
#
# But the method needs a second forward pass of the encoder. And the table of B by B
# cosines and the graph of the loss still have to fit into memory. If the embeddings are
# much smaller than the activations inside the encoder, this is a good bargain.
#
# What to watch for
# -----------------
#
# **Dropout.** The second pass would draw different masks from the first. Then ``v``
# belongs to embeddings that no longer exist, and there is no error. Leave dropout out. Or
# save the state of the random number generator before each chunk of the first pass, and
# restore it before the same chunk of the second. On a GPU, use ``torch.cuda.get_rng_state``
# and ``torch.cuda.set_rng_state``. Here is this remedy on a CPU:

noisy = nn.Sequential(nn.Linear(20, 8), nn.Dropout(0.5))
state = torch.get_rng_state()
first, again = noisy(both), noisy(both)
torch.set_rng_state(state)
restored = noisy(both)
print("same masks:", torch.equal(first, again), " restored:", torch.equal(first, restored))

# %%
# **BatchNorm** in training mode mixes the samples of a chunk. Then the embeddings of the
# chunks differ from the embeddings of the whole batch, and so do the gradients.
#
# **DistributedDataParallel** starts to average the gradients at each ``backward``, and so
# at each chunk. Put all chunks but the last under ``no_sync`` (:ref:`across-processes`).
#
# **Embeddings from several GPUs.** People collect them with ``dist.all_gather``, but the
# encoder learns no better, because the gathered tensors are constants without a graph.
# Replace the gathered copy of your own process's embeddings with these embeddings
# themselves, which have a graph. Each process then computes the whole loss, and the
# gradient reaches only the embeddings of this process. DDP takes the mean over the K
# processes, but you need a sum, so multiply the loss by K (:ref:`across-processes`). Here K
# is 1:

import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
own = encoder(data[:2])
parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
dist.all_gather(parts, own)
print("as gathered:", torch.cat(parts).requires_grad)
parts[dist.get_rank()] = own
dist.destroy_process_group()
print("with our own:", torch.cat(parts).requires_grad)

# %%
# **The loss accumulated over chunks** is a different loss. If you call ``contrastive`` on
# each chunk of 32 pairs and take the mean, every sample has 31 others to differ from, and
# not 255. This is easier, so the loss is smaller, and its gradient is different:

pieces = [torch.cat(pair) for pair in zip(data.split(32), other.split(32), strict=True)]
chunked = torch.stack([contrastive(fresh(piece)) for piece in pieces]).mean()
print(f"in chunks {chunked:.1f}, all together {contrastive(fresh(both)):.1f}")

# %%
# .. admonition:: Try it
#
#    Pass ``chunk=512`` and then ``chunk=100``, which does not divide 512. Does the
#    gradient change?
#
# .. dropdown:: Answer
#
#    No. With 512 there is one chunk, which takes as much memory as the large batch. With
#    100 the last chunk has 12 samples, and since each sample gets its own row of ``v``,
#    it does not matter in which chunk it is:

for chunk in (512, 100):
    fresh.zero_grad()
    cached_backward(fresh, contrastive, both, chunk)
    pairs = zip(fresh.parameters(), whole, strict=True)
    same = [torch.allclose(p.grad, g, rtol=1e-4, atol=1e-5) for p, g in pairs]
    print(chunk, all(same))

# %%
# .. dropdown:: How we checked this page
#
#    We compare the gradient from chunks with the gradient of the whole batch in one graph.
#    We check that the bytes lie within bounds, that each of the 256 samples is nearest to
#    its own second view, and that the loss in chunks is smaller and has a different
#    gradient.

for p, g in zip(fresh.parameters(), whole, strict=True):
    torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-5)
assert found.all()
assert 5 * saved(both[:32]) < saved(both) < 16 * saved(both[:32])
assert chunked < 0.8 * contrastive(fresh(both))
of_chunks = torch.autograd.grad(chunked, list(fresh.parameters()))
assert not torch.allclose(of_chunks[0], whole[0], rtol=0.1)
assert torch.equal(first, restored)
assert not torch.equal(first, again)

# %%
# **Next:** To make the same cut between two machines, read :ref:`cut-graphs`. To save
# memory inside one graph by computing values again, read :ref:`checkpointing`. If your
# network mixes the samples, read :ref:`mixing-samples`.
#
# .. asked: contrastive loss with a large batch; batch does not fit into memory;
#    GradCache; embeddings in chunks; SimCLR or CLIP with small memory; large batch on
#    one GPU
# .. words: clip, simclr, negatives, big batch, out of memory, embeddings, retrieval,
#    chunks, two passes, infonce
