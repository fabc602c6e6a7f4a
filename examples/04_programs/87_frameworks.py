r"""
.. _frameworks:

Accelerate or Lightning calls backward for me: where does v go?
===============================================================

Through: what you give to their ``backward`` as keywords reaches ``Tensor.backward``, so
``gradient=v`` and ``retain_graph=True`` work as in PyTorch. Where a framework takes nothing
but a scalar loss, fold ``v`` into one, ``(y * v).sum()``. Mind what it does on the way:
Accelerate's accumulation divides the loss, which is to divide ``v``.
"""

# %%
# ``x`` has shape ``(2,)``, and so have ``y`` and ``v``:

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 10.0])
torch.autograd.grad(x**2, x, v)

# %%
# This page installs neither. Of Accelerate 1.15 (``Accelerator.backward``) and of Lightning
# 2.6 (``LightningModule.manual_backward``, ``Fabric.backward``) the source says what
# follows; without a scaler, and without DeepSpeed, it is these lines:


def accelerate(loss, steps=1, **kwargs):
    loss = loss / steps  # gradient_accumulation_steps
    loss.backward(**kwargs)


def lightning(loss, *args, **kwargs):
    loss.backward(*args, **kwargs)


# %%
# *How to implement x.backward(gradient=y, retain_graph=True) in Accelerate?* As keywords.
# In ``manual_backward(loss, gradient=v)`` the same:


def received(backward, *args, **kwargs):
    x.grad = None
    backward(x**2, *args, **kwargs)
    return x.grad.tolist()


print(received(accelerate, gradient=v, retain_graph=True))
print(received(lightning, gradient=v))

# %%
# What goes wrong
# ---------------
#
# *After accelerator.backward(loss) the gradient is a quarter.* With four accumulation steps
# the loss is divided by four, whether or not you pass ``v``. That makes four small batches
# give the mean over them; do not divide a second time, and multiply ``v`` where you want a
# sum:

print(received(accelerate, steps=4, gradient=v))
print(received(accelerate, steps=4, gradient=4 * v))

# %%
# *Does Lightning divide too?* With ``accumulate_grad_batches=4`` it divides what
# ``training_step`` returns. ``manual_backward`` and ``Fabric.backward`` divide nothing: for
# the mean, pass ``v / 4``:

print(received(lightning, gradient=v / 4))

# %%
# *The Trainer's loss with accumulation is not that of the large batch.* A mean over tokens
# divides by all tokens of the step, ``num_items_in_batch`` in transformers; a loss of your
# own that ignores it is a mean of means (:ref:`token-mean`).
#
# *After engine.backward(loss) of DeepSpeed every p.grad is None.* ZeRO has moved the
# gradients to where each process keeps its part. ``deepspeed.utils.safe_get_full_grad(p)``
# brings one back, called in all processes, between ``backward`` and ``step``.
#
# *grad can be implicitly created only for scalar outputs*, from inside of the framework: a
# ``training_step`` that returns a loss for each sample, with nobody there to pass ``v``:

try:
    received(lightning)
except RuntimeError as error:
    print(error)

# %%
# Fold v into a scalar
# --------------------
#
# A Trainer, ``training_step``, DeepSpeed's ``engine.backward``: a place that takes one
# scalar takes this one. Its gradient is :math:`v^\top J`, if ``v`` is a constant:


def folded(y, v):
    return (y * v.detach()).sum()


def scalar_only(loss):
    assert loss.ndim == 0, "this framework takes a scalar"
    loss.backward()


print(received(lambda y: scalar_only(folded(y, v))))

# %%
# Without ``detach`` a ``v`` that comes from the model is differentiated as well, and x gets
# another gradient (:ref:`v-depends-on-x`). Here ``v = y``:

print(received(lambda y: scalar_only((y * y).sum())))
print(received(lambda y: scalar_only(folded(y, y))))

# %%
# *The loss it prints rises, and the model gets better.* The value of this scalar is no
# loss. With ``v`` from the loss :math:`e^{-y}`, at y = 1 and, after a step, at y = 2:

for y in (torch.tensor(1.0), torch.tensor(2.0)):
    print(f"loss {(-y).exp():.2f}, folded {folded(y, -(-y).exp()):.2f}")

# %%
# Log your own. Several outputs add up: ``folded(y, v) + folded(z, w)`` is
# ``torch.autograd.backward([y, z], [v, w])``:

both = folded(x**2, v) + folded(x**3, torch.ones(2))
x.grad = None
scalar_only(both)
by_scalar, x.grad = x.grad, None
torch.autograd.backward([x**2, x**3], [v, torch.ones(2)])
print(torch.equal(by_scalar, x.grad))

# %%
# With a scaler
# -------------
#
# In float16 both frameworks multiply the loss by a large number first, and divide the
# gradients before the step. A tensor may be scaled like a loss, so ``v`` still passes; what
# you must not do is read ``.grad`` in between. ``torch.autograd.grad`` knows nothing of the
# scale; take your own penalties by it, outside (:ref:`mixed-precision`):

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
scaled = received(lambda y: scaler.scale(y).backward(v))
(own,) = torch.autograd.grad(x**2, x, v)
print(scaled, own.tolist())

# %%
# The check: by the formula :math:`2xv`, for every way above, and by four accumulated calls
# against one of their mean:

by_hand = (2 * x * v).detach()
for found in (
    received(accelerate, gradient=v),
    received(lightning, v),
    received(lambda y: scalar_only(folded(y, v))),
):
    torch.testing.assert_close(torch.tensor(found), by_hand)
x.grad = None
for k in range(4):
    accelerate(k * x**2, steps=4, gradient=v)
torch.testing.assert_close(x.grad, by_hand * torch.arange(4.0).mean())
torch.testing.assert_close(torch.tensor(scaled) / scaler.get_scale(), by_hand)

# %%
# Where next
# ----------
#
# Why the folded sum is the same: :ref:`same-v`. Accumulation: :ref:`gradient-doubled`.
# DDP and FSDP behind the framework: :ref:`across-processes`, :ref:`sharded-parameters`.
#
# .. asked: Lightning manual backward; Accelerate backward with gradient; DeepSpeed
#    backward; Hugging Face Trainer backward; pass gradient to a trainer; framework
#    calls backward for me
# .. words: trainer, huggingface, lightning, accelerate, deepspeed, manual_backward,
#    automatic optimisation, fabric, no access to the loop
