r"""
.. _gradient-cache:

A big contrastive batch in small memory (gradient caching)
==========================================================

A contrastive loss needs all embeddings at once, but not all graphs: embed without a graph,
take the loss's gradient by the *embeddings*, and hand each chunk its rows as ``v`` in a
second pass.
"""

# %%
# Embeddings ``z`` have shape ``(B, d)``. The loss couples all of them, so the batch cannot
# be split at the loss; the encoder treats samples one by one, so it can be split *there*
# (Gao et al., 2021):
#
# .. math::
#
#    \nabla_w L=\sum_{\text{chunks}}J_c^\top\,\frac{\partial L}{\partial z_c}

import torch
from torch import nn

torch.manual_seed(0)  # the same weights and data on every build
encoder = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 8))
data = torch.randn(256, 20)
other = data + 0.3 * torch.randn(256, 20)  # a second view of each sample


def contrastive(z):
    a, b = nn.functional.normalize(z, dim=1).chunk(2)
    return nn.functional.cross_entropy(a @ b.T / 0.1, torch.arange(len(a)))


both = torch.cat([data, other])

# %%
# Pass one, no graph; the loss and its gradient by the embeddings:

with torch.no_grad():
    z = torch.cat([encoder(part) for part in both.split(32)])
z.requires_grad_()
loss = contrastive(z)
(v,) = torch.autograd.grad(loss, z)
v.shape

# %%
# Pass two, chunk by chunk, each with its own rows of ``v``; every chunk's graph is freed
# before the next is built:

encoder.zero_grad()
for part, rows in zip(both.split(32), v.split(32), strict=True):
    encoder(part).backward(rows)
cached = [p.grad.clone() for p in encoder.parameters()]

# %%
# How much a graph keeps
# ----------------------
#
# In bytes of :term:`saved tensors <saved tensor>`, everything at once against one chunk.


def saved(batch):
    kept = {}

    def note(t):
        kept[t.data_ptr()] = t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        encoder(batch)
    return torch.tensor(list(kept.values())).sum().item()


print(saved(both), saved(both[:32]))

# %%
# The price is a second forward pass of the encoder. The B×B table of the loss itself stays.
#
# Training with it lowers the loss; every step sees 512 embeddings, with the graph of 32:


def step():
    with torch.no_grad():
        z = torch.cat([encoder(part) for part in both.split(32)])
    loss = contrastive(z.requires_grad_())
    loss.backward()
    optimizer.zero_grad()
    for part, rows in zip(both.split(32), z.grad.split(32), strict=True):
        encoder(part).backward(rows)
    optimizer.step()
    return loss.item()


# %%
# Sixty steps:

optimizer = torch.optim.Adam(encoder.parameters(), lr=0.02)
history = [step() for _ in range(60)]
print(f"{history[0]:.1f} -> {history[-1]:.1f}")

# %%
# What it learned: each sample is nearest to its own second view. Twenty of them:

import pullback.plot

with torch.no_grad():
    a, b = nn.functional.normalize(encoder(both), dim=1).chunk(2)
ax = pullback.plot.heatmap(
    a[:20] @ b[:20].T,
    title="Cosines of samples with second views: largest on the diagonal",
    xlabel="second view",
    ylabel="sample",
)

# %%
# What goes wrong
# ---------------
#
# Dropout. Pass two draws other masks than pass one, so ``v`` belongs to other embeddings
# than those that it is given to. Restore the random state for each chunk, or leave dropout
# out:

noisy = nn.Sequential(nn.Linear(20, 8), nn.Dropout(0.5))
state = torch.get_rng_state()
first, again = noisy(both), noisy(both)
torch.set_rng_state(state)
restored = noisy(both)
print(torch.equal(first, again), torch.equal(first, restored))

# %%
# *I gather the embeddings of all GPUs by dist.all_gather, and it learns no better.* What is
# gathered is a constant. Put your own back in its place. And take the loss, whole in each
# process, times K, since DDP divides by K (:ref:`across-processes`). Here K is 1:

import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
own = encoder(data[:2])
parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
dist.all_gather(parts, own)
print(torch.cat(parts).requires_grad)
parts[dist.get_rank()] = own
dist.destroy_process_group()
print(torch.cat(parts).requires_grad)

# %%
# BatchNorm. It mixes the samples of a chunk, so the chunks' embeddings are not those of
# the whole batch. DistributedDataParallel. Each ``backward`` of a chunk starts a reduction;
# put all but the last under ``no_sync`` (:ref:`across-processes`).
#
# *Can't I accumulate the loss over chunks instead?* Then every sample has 31 others to
# differ from in place of 255, which is another loss with another gradient:

pieces = [torch.cat(pair) for pair in zip(data.split(32), other.split(32), strict=True)]
chunked = torch.stack([contrastive(encoder(piece)) for piece in pieces]).mean()
print(bool(chunked < 0.8 * contrastive(encoder(both))))

# %%
# The check: the gradients of the whole batch in one graph, on fresh weights:

torch.manual_seed(0)
fresh = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 8))
contrastive(fresh(both)).backward()
for p, g in zip(fresh.parameters(), cached, strict=True):
    torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-5)
assert ((a @ b.T).argmax(1) == torch.arange(256)).all()
assert saved(both) > 5 * saved(both[:32])

# %%
# Where next
# ----------
#
# The same cut between two stages: :ref:`cut-graphs`. Recomputing inside one graph:
# :ref:`checkpointing`. Samples that mix: :ref:`mixing-samples`.
#
# .. asked: contrastive loss with a large batch; batch does not fit into memory;
#    GradCache; embeddings in chunks; SimCLR or CLIP with small memory; large batch on
#    one GPU
#
# .. words: clip, simclr, negatives, big batch, out of memory, embeddings, retrieval,
#    chunks, two passes, infonce
