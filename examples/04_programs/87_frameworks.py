r"""
.. _frameworks:

Accelerate or Lightning calls backward for me: where does v go?
===============================================================

Your training loop ended in ``y.backward(v)``, because the slope of the cost came from a
program that PyTorch cannot differentiate. Now you have moved the loop to Accelerate,
Lightning or DeepSpeed, and the framework calls ``backward``. Where do you pass ``v`` now?
Accelerate and Lightning pass your keyword arguments on to ``backward``, and if a
framework accepts only a scalar loss, you can fold ``v`` into a scalar. But a framework may
also change the gradient on the way. In the example on this page, the same training suddenly
takes about four times as many steps.
"""

# %%
# A slope from outside
# --------------------
#
# A network gets two numbers for each sample and proposes a setting ``y`` of a machine.
# Only a simulator, which is a function in NumPy here, knows what a setting costs. It
# returns the mean cost of a batch, and the slope of this mean with respect to each
# setting. This slope has the shape ``(B, 1)``, like ``y``, and you pass it as ``v``:

import numpy as np
import torch
from torch import nn


def simulator(x, y):
    """Take arrays (B, 2) and (B, 1), and return the mean cost and its slope (B, 1)."""
    off = y - (2 + np.sin(3 * x[:, :1]) + x[:, 1:])
    return (off**2).mean(), 2 * off / off.size


# %%
# You need not install a framework for this page. Instead, it has two classes with the same
# names and arguments as in Accelerate 1.15 and Lightning 2.6. Each contains the one line
# from the framework's source that matters here, for the case in which neither a scaler nor
# DeepSpeed is used. Lightning's ``LightningModule.manual_backward`` does the same as
# ``Fabric.backward``. With the real classes, on a CPU, this page printed the same numbers.
# If you have the frameworks, import them instead of the two classes:


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
# Each step adds up the gradients of four small batches. The argument ``backward`` is the
# function that calls ``backward``, and everything else stays the same. For each step,
# ``train`` returns the cost from the simulator, and the scalar :math:`\sum_i y_iv_i`,
# which we shall need soon:


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
# Now we move the loop to each framework, and change nothing else. The keyword of
# ``Tensor.backward`` is called ``gradient``, and both frameworks pass it on:

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
# With Fabric the training is the same. With Accelerate it is slower, and there is no
# error. With five other seeds it needed 9 to 13 steps without Accelerate, and 34 to 49
# with it. Accelerate divides the loss by the number of accumulation steps, whether you
# pass a ``v`` or not. Here it divides ``y``, which has the same effect as dividing ``v``.
# If you want a *mean* over the four batches, this is right, and you must not divide a
# second time. But our old loop used a *sum*, and its learning rate was chosen for the
# sum. So multiply ``v`` by four, and you get the old training back. With Adam you would
# hardly notice the difference, since Adam divides each entry of the gradient by the typical
# size of its past values.
#
# If a framework takes only a scalar: fold v into it
# --------------------------------------------------
#
# Some frameworks accept only a single number: Lightning as the return value of
# ``training_step``, a Trainer as the loss, and DeepSpeed as the argument of
# ``engine.backward``. The function ``folded`` returns such a number. Its gradient is
# :math:`v^\top J` if ``v`` is a constant, and the ``detach`` makes ``v`` a constant:


def folded(y, v):
    return (y * v.detach()).sum()


def scalar_only(loss):
    assert loss.ndim == 0, "this framework takes a scalar"
    loss.backward()


by_scalar = train(lambda y, v: scalar_only(folded(y, v)))
same = torch.allclose(by_scalar, trained["y.backward(v)"], rtol=1e-3, atol=1e-3)
print("the same training:", same)

# %%
# But now the framework shows you the *folded* scalar as the loss. In the figure it is
# plotted in the panel below the true cost:

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
# In the upper plot the cost falls, and it falls more slowly where Accelerate has divided
# ``v``. In the lower plot the folded scalar falls at first and then *rises*, although the
# cost falls all the time. Only the gradient of the scalar has a meaning, and its value
# has none. So log the true cost, and do not use the scalar for early stopping or for a
# scheduler.
#
# Each way in numbers that you can check
# --------------------------------------
#
# With x = (1, 2), :math:`y=x^2` and v = (1, 10) the gradient is :math:`2xv`, which is (2,
# 40). We call ``backward`` in each way and print ``x.grad``. ``retain_graph=True`` is
# another keyword of ``Tensor.backward``, and it is passed on as well:

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
# **A second Accelerator changes the first.** All Accelerators of a process share the
# number of accumulation steps, and the Accelerator that you create last sets this number.
# So create one Accelerator and pass it to all functions that need it. Here is ``x.grad``
# from our Accelerator, before and after we create a second one:

before = received(accelerator.backward, gradient=v)
Accelerator()  # somewhere else in the program, without accumulation
after = received(accelerator.backward, gradient=v)
print(before, after)
accelerator = Accelerator(gradient_accumulation_steps=4)

# %%
# **Does Lightning divide, too?** With ``accumulate_grad_batches=4`` Lightning divides the
# loss that ``training_step`` returns. ``manual_backward`` and ``Fabric.backward`` do not
# divide it. If you want the mean with these two, pass ``v / 4``:

print(received(fabric.backward, gradient=v / 4))

# %%
# **grad can be implicitly created only for scalar outputs**, from inside the framework.
# You get this error if ``training_step`` returns a loss for each sample, because the
# framework does not pass a ``v``. Return the mean, or use ``folded`` with your own
# weights:

try:
    received(fabric.backward)
except RuntimeError as error:
    print(error)

# %%
# **A v that comes from the model.** Without ``detach``, ``v`` is differentiated as well,
# and x gets a different gradient (:ref:`v-depends-on-x`). Here is the gradient with v =
# y, first without and then with the ``detach``:

print(received(lambda y: scalar_only((y * y).sum())))
print(received(lambda y: scalar_only(folded(y, y))))

# %%
# **Several outputs.** Add their folded scalars. ``folded(y, v) + folded(z, w)`` gives the
# same gradient as ``torch.autograd.backward([y, z], [v, w])``:

x.grad = None
scalar_only(folded(x**2, v) + folded(x**3, torch.ones(2)))
of_scalar, x.grad = x.grad, None
torch.autograd.backward([x**2, x**3], [v, torch.ones(2)])
print(torch.equal(of_scalar, x.grad))

# %%
# **With a scaler.** In float16 both frameworks multiply the loss by a large number first,
# and divide the gradients by it before the step. They can multiply a tensor ``y``, too,
# so you can still pass ``v``. But do not use ``.grad`` in between, because it is still
# scaled. ``torch.autograd.grad`` does not use the scale, so if you write a penalty, you
# have to scale it yourself (:ref:`mixed-precision`). Here is ``.grad`` with a scale of
# 1024, and then the result of ``autograd.grad``:

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
scaled = received(lambda y: scaler.scale(y).backward(v))
(own,) = torch.autograd.grad(x**2, x, v)
print(scaled, own.tolist())

# %%
# **A mean over tokens.** If each small batch has its own mean, the accumulated loss in
# the Trainer is not the loss of the large batch. The sum of the losses should be divided by
# the total number of tokens in the step. transformers passes this number as
# ``num_items_in_batch``. If you write your own loss and ignore this number, you get a mean
# of means (:ref:`token-mean`).
#
# **After engine.backward(loss) of DeepSpeed every p.grad is None.** ZeRO has moved the
# gradients into its own buffers, in which each process keeps its part.
# ``deepspeed.utils.safe_get_full_grad(p)`` returns the gradient of ``p``. Call it in all
# processes, between ``backward`` and ``step``.
#
# .. admonition:: Try it
#
#    Your four small batches have 2, 2, 2 and 1 rows, and you want the gradient of the
#    mean over all seven. The framework divides by four. Suppose that ``v`` is right for a
#    sum over rows. By what factor do you multiply it for a batch of n rows?
#
# .. dropdown:: Answer
#
#    Pass ``v * 4 / 7``. The 4 cancels the division by the framework, and the 7 turns the
#    sum into the mean over all rows. With ``v / n``, the mean of each batch, the single
#    row of the last batch would count twice as much as each of the others.

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
#    We compare the result of every way with the formula :math:`2xv`, and four accumulated
#    calls with the gradient of their mean. We compare the slope of the simulator with
#    difference quotients. We also check that four times ``v`` gives the old training again,
#    and that the folded scalar rises while the cost falls.

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
