r"""
.. _frameworks:

Accelerate or Lightning calls backward for me: where does v go?
===============================================================

Your training loop ended in ``y.backward(v)``, because the slope of the cost came from a
program that PyTorch cannot look into. Now the loop has been moved to Accelerate, Lightning
or DeepSpeed, and the framework calls ``backward``. Is there still a place for ``v``? There
is: Accelerate and Lightning pass your keyword arguments on to ``backward``, and if a
framework takes nothing but a scalar loss, you can fold ``v`` into such a loss. But look at
what the frameworks do on the way. In our case the training suddenly goes four times as
slowly.
"""

# %%
# A slope from outside
# --------------------
#
# A network gets two numbers for each sample and proposes a setting ``y`` of a machine. Only
# a simulator, which is a function in NumPy here, knows what a setting costs. It returns the
# mean cost of a batch, and the slope of this mean with respect to each setting. This slope
# has the shape ``(B, 1)``, like ``y``, and is the ``v`` to pass:

import numpy as np
import torch
from torch import nn


def simulator(x, y):
    """Take arrays (B, 2) and (B, 1), and return the mean cost and its slope (B, 1)."""
    off = y - (2 + np.sin(3 * x[:, :1]) + x[:, 1:])
    return (off**2).mean(), 2 * off / off.size


# %%
# This page installs no framework. Here are two classes with the names, the arguments and
# the one line of theirs that matters here, as the sources of Accelerate 1.15 and
# Lightning 2.6 have it, where neither a scaler nor DeepSpeed is used. (Lightning's
# ``LightningModule.manual_backward`` does the same as ``Fabric.backward``.) With the real
# ones in their place, on a CPU, this page has printed the same numbers. If you have them,
# import them instead of the two classes:


class Accelerator:  # from accelerate import Accelerator
    def __init__(self, gradient_accumulation_steps=1):
        Accelerator.steps = gradient_accumulation_steps  # shared by all Accelerators

    def backward(self, loss, **kwargs):
        (loss / self.steps).backward(**kwargs)


class Fabric:  # from lightning.fabric import Fabric
    def backward(self, tensor, *args, **kwargs):
        tensor.backward(*args, **kwargs)


# %%
# The program
# -----------
#
# Each step adds up the gradients of four small batches. The way to call ``backward`` is an
# argument, and all the rest stays the same. The function returns, for each step, the cost
# that the simulator has named, and the scalar :math:`\sum_i y_iv_i`, which we shall need
# soon:


def train(backward, steps=60, seed=0):
    torch.manual_seed(seed)  # the same weights and batches for every way
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.002)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(4):
            x = torch.rand(16, 2)
            y = net(x)
            cost, slope = simulator(x.numpy(), y.detach().numpy())
            v = torch.from_numpy(slope).to(y)
            backward(y, v)
        optimizer.step()
        history.append((float(cost), (y * v).sum().item()))
    return torch.tensor(history)


# %%
# Now the loop is moved, and nothing else is changed. The keyword of ``Tensor.backward`` is
# called ``gradient``, and both frameworks hand it on:

accelerator = Accelerator(gradient_accumulation_steps=4)
fabric = Fabric()
ways = {
    "y.backward(v)": lambda y, v: y.backward(v),
    "fabric, gradient=v": lambda y, v: fabric.backward(y, gradient=v),
    "accelerator, gradient=v": lambda y, v: accelerator.backward(y, gradient=v),
    "accelerator, gradient=4 * v": lambda y, v: accelerator.backward(y, gradient=4 * v),
}
trained = {name: train(way) for name, way in ways.items()}
print("steps until the cost is below 1, about:")
needed = {}
for name, history in trained.items():
    needed[name] = 1 + (history[:, 0] < 1).nonzero()[0].item()
    print(f"{name:28} {5 * round(needed[name] / 5)}")

# %%
# Fabric makes no difference. Accelerate has trained more slowly, and nothing has raised.
# (With five other seeds it took 9 to 13 steps, and 34 to 49 with Accelerate.) It divides
# the loss by the number of accumulation steps, whether you pass a ``v`` or not, and so it
# divides ``y`` here, which is the same as to divide ``v``. For a *mean* over the four
# batches this is what you want, and then you must not divide a second time. Our old loop
# had a *sum*, and its learning rate was chosen for it. So multiply ``v`` by four, and the
# training is the old one. (With Adam you would hardly notice, since it divides out the
# length of the gradient.)
#
# Where only a scalar is taken: fold v into one
# ---------------------------------------------
#
# What you return from ``training_step`` in Lightning, what a Trainer calls the loss, and
# what DeepSpeed's ``engine.backward`` takes, all have to be a single number. This function
# makes one. Its gradient is :math:`v^\top J`, as long as ``v`` is a constant, and that is
# why the ``detach`` is in it:


def folded(y, v):
    return (y * v.detach()).sum()


def scalar_only(loss):
    assert loss.ndim == 0, "this framework takes a scalar"
    loss.backward()


by_scalar = train(lambda y, v: scalar_only(folded(y, v)))
same = torch.allclose(by_scalar, trained["y.backward(v)"], rtol=1e-3, atol=1e-3)
print("the same training:", same)

# %%
# But now the framework shows you a number that it takes for the loss, and this is the
# *folded* scalar. Here it is below the true cost:

import matplotlib.pyplot as plt

figure, (above, below) = plt.subplots(
    2, layout="constrained", figsize=(5.4, 5), sharex=True
)
for name in ("y.backward(v)", "accelerator, gradient=v"):
    above.plot(trained[name][:, 0], label=name)
above.set(ylim=(0, None), title="What the simulator says: the cost")
above.legend()
below.plot(by_scalar[:, 1], color="C2")
below.set(xlabel="step", title="What the framework would log: the folded scalar")
line = below.axhline(0, color="grey", linewidth=0.8)

# %%
# Above, the cost falls, and more slowly where Accelerate has divided. Below, the folded
# scalar falls at first and then *rises*, in the same training in which the cost falls. Only
# its gradient means something. Its value does not, so log your own cost, and do not let an
# early stop or a scheduler look at the scalar.
#
# In numbers that you can check
# -----------------------------
#
# With x = (1, 2), :math:`y=x^2` and v = (1, 10) the gradient is :math:`2xv`, which is
# (2, 40). Here is what arrives in ``x.grad`` by each way. (``retain_graph=True`` is a
# keyword of ``Tensor.backward`` as well.)

x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 10.0])


def received(backward, *args, **kwargs):
    x.grad = None
    backward(x**2, *args, **kwargs)
    return x.grad.tolist()


print("fabric            ", received(fabric.backward, gradient=v))
print("accelerator       ", received(accelerator.backward, gradient=v))
print(
    "accelerator, 4 * v", received(accelerator.backward, gradient=4 * v, retain_graph=True)
)
print("folded            ", received(lambda y: scalar_only(folded(y, v))))

# %%
# What to watch for
# -----------------
#
# **A second Accelerator changes the first.** All Accelerators of a process share the number
# of accumulation steps, and the last one that is made sets it. So make one, and hand it
# on. Here is what ours does before another is made, and after:

before = received(accelerator.backward, gradient=v)
Accelerator()  # somewhere else in the program, without accumulation
after = received(accelerator.backward, gradient=v)
print(before, after)
accelerator = Accelerator(gradient_accumulation_steps=4)

# %%
# **Does Lightning divide, too?** With ``accumulate_grad_batches=4`` it divides what
# ``training_step`` returns. ``manual_backward`` and ``Fabric.backward`` divide nothing. If
# you want the mean there, pass ``v / 4``:

print(received(fabric.backward, gradient=v / 4))

# %%
# **grad can be implicitly created only for scalar outputs**, from inside of the framework.
# A ``training_step`` has returned a loss for each sample, and nobody there passes a ``v``.
# Return the mean, or ``folded`` with your own weights:

try:
    received(fabric.backward)
except RuntimeError as error:
    print(error)

# %%
# **A v that comes from the model.** Without ``detach`` it is differentiated as well, and x
# gets another gradient (:ref:`v-depends-on-x`). Here is the product with v = y, first
# without and then with the ``detach``:

print(received(lambda y: scalar_only((y * y).sum())))
print(received(lambda y: scalar_only(folded(y, y))))

# %%
# **Several outputs** add up. ``folded(y, v) + folded(z, w)`` has the gradient of
# ``torch.autograd.backward([y, z], [v, w])``:

x.grad = None
scalar_only(folded(x**2, v) + folded(x**3, torch.ones(2)))
of_scalar, x.grad = x.grad, None
torch.autograd.backward([x**2, x**3], [v, torch.ones(2)])
print(torch.equal(of_scalar, x.grad))

# %%
# **With a scaler.** In float16 both frameworks multiply the loss by a large number first,
# and divide the gradients before the step. They do it with a tensor as well, so ``v`` still
# passes. But you must not read ``.grad`` in between. And ``torch.autograd.grad`` knows
# nothing of the scale, so penalties of your own need theirs (:ref:`mixed-precision`). Here
# is what ``.grad`` holds with a scale of 1024, beside what ``autograd.grad`` returns:

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
scaled = received(lambda y: scaler.scale(y).backward(v))
(own,) = torch.autograd.grad(x**2, x, v)
print(scaled, own.tolist())

# %%
# **A mean over tokens.** The Trainer's loss with accumulation is not that of the large
# batch, if each small batch has its own mean. It should be divided by all tokens of the
# step, which transformers calls ``num_items_in_batch``. A loss of your own that ignores
# this number is a mean of means (:ref:`token-mean`).
#
# **After engine.backward(loss) of DeepSpeed every p.grad is None.** ZeRO has moved the
# gradients to where each process keeps its part. ``deepspeed.utils.safe_get_full_grad(p)``
# brings one back. It is to be called in all processes, between ``backward`` and ``step``.
#
# .. admonition:: Try it
#
#    Your four small batches have 2, 2, 2 and 1 rows, and you want the gradient of the mean
#    over all seven. The framework divides by four. Which ``v`` do you pass for a batch of n
#    rows, if ``v`` belongs to a sum over rows at first?
#
# .. dropdown:: Answer
#
#    ``v * 4 / 7``. The 4 takes back what the framework divides by, and the 7 makes the mean
#    over all rows. (With the mean of each batch, ``v / n``, the single row of the last one
#    would count twice as much as each of the others.)

rows = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]])
w = torch.ones(1, requires_grad=True)
(whole,) = torch.autograd.grad((rows * w**2).mean(), w)
for name, factor in {"v * 4 / 7": lambda n: 4 / 7, "v / n": lambda n: 1 / n}.items():
    w.grad = None
    for batch in rows.split(2):
        of_sum = torch.ones_like(batch)
        accelerator.backward(batch * w**2, gradient=of_sum * factor(len(batch)))
    print(f"{name:9} {w.grad.item():.2f}, wanted {whole.item():.2f}")
    if name == "v * 4 / 7":
        by_sevenths = w.grad.clone()

# %%
# .. dropdown:: How we checked this page
#
#    Every way is compared with the formula :math:`2xv`, and four accumulated calls with one
#    of their mean. The slope of the simulator is compared with differences. That four times
#    ``v`` repeats the old training, and that the folded scalar rises while the cost falls,
#    is asserted.

by_hand = (2 * x * v).detach()
for found in (
    after,  # without accumulation
    received(fabric.backward, v),
    received(lambda y: scalar_only(folded(y, v))),
):
    torch.testing.assert_close(torch.tensor(found), by_hand)
x.grad = None
for k in range(4):
    accelerator.backward(k * x**2, gradient=v)
torch.testing.assert_close(x.grad, by_hand * torch.arange(4.0).mean())
torch.testing.assert_close(torch.tensor(scaled) / scaler.get_scale(), by_hand)
torch.testing.assert_close(by_sevenths, whole)

at, y = np.array([[0.2, 0.7], [0.4, 0.1]]), np.array([[1.0], [3.0]])
step = np.array([[1e-6], [0.0]])
rise = (simulator(at, y + step)[0] - simulator(at, y - step)[0]) / 2e-6
assert abs(rise - simulator(at, y)[1][0, 0]) < 1e-6
plain = trained["y.backward(v)"]
for name in ("accelerator, gradient=4 * v", "fabric, gradient=v"):
    torch.testing.assert_close(trained[name], plain, rtol=1e-3, atol=1e-3)
torch.testing.assert_close(by_scalar, plain, rtol=1e-3, atol=1e-3)
assert needed["accelerator, gradient=v"] > 3 * needed["y.backward(v)"]
lowest = by_scalar[:, 1].argmin()
assert 0 < lowest < 20
assert by_scalar[-10:, 1].mean() > by_scalar[lowest, 1] + 3
assert by_scalar[-10:, 0].mean() < by_scalar[lowest, 0]

# %%
# **Next:** :ref:`same-v` explains why the folded sum has the same gradient. For
# accumulation, read :ref:`gradient-doubled`. To use a slope from outside without a
# framework, read :ref:`external-loss`. If the framework runs DDP or FSDP, read
# :ref:`across-processes` or :ref:`sharded-parameters`. Short answers are in
# :ref:`answers-frameworks`.
#
# .. asked: Lightning manual backward; Accelerate backward with gradient; DeepSpeed
#    backward; Hugging Face Trainer backward; pass gradient to a trainer; framework
#    calls backward for me
# .. words: trainer, huggingface, lightning, accelerate, deepspeed, manual_backward,
#    automatic optimisation, fabric, no access to the loop
