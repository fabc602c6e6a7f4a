r"""
.. _in-place:

When may I edit a tensor in place, and why not through .data?
=============================================================

You want to write into a tensor, and wonder whether the gradient will still be right. You
may edit a tensor in place when ``backward`` does not need the values that the edit
overwrites. PyTorch checks this for you. It counts the edits of each tensor in ``_version``,
and ``backward`` raises an error if a tensor that the graph has saved has been edited since.
An edit through ``.data`` or NumPy is not counted. If such an edit overwrites a value that
``backward`` needs, the gradient is wrong and there is no message.
"""

# %%
# Whether you may edit a tensor therefore depends on what is saved by the operations that
# made it or use it. The exponential :math:`y=e^h` saves its *output*, because
# :math:`y'=y`. The square :math:`y=h^2` saves its *input*, because :math:`y'=2h`. The
# negative :math:`y=-h` saves nothing. An edit does harm only if it changes a :term:`saved
# tensor`. The function below edits the input or the output of an operation, and compares
# the gradient with a derivative that is computed without the edit:

import torch
from torch import nn


def edited(operation, which):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = operation(h := x * 1)
    (h if which == "input" else y).add_(1)
    try:
        (g,) = torch.autograd.grad(y, x, torch.ones(2))
    except RuntimeError:
        return "raises"
    fresh = torch.func.grad(lambda x: operation(x).sum())(x.detach())
    return "right" if torch.allclose(g, fresh) else "WRONG"


# %%
# The first column of the output is for an edit of the operation's input, and the second for
# an edit of its output. The table says ``raises`` where the operation had saved the tensor
# that we edited:

operations = torch.exp, torch.sigmoid, torch.relu, torch.square, torch.neg, nn.Linear(2, 2)
for f in operations:
    name = getattr(f, "__name__", "linear")
    print(f"{name:7}", edited(f, "input"), edited(f, "output"))

# %%
# A linear layer saves its input but not its output. So ``ReLU(inplace=True)`` may follow a
# linear layer, or a convolution, which does not save its output either. An in-place ReLU
# must not follow a sigmoid, because a sigmoid saves its output.
#
# If an edit makes ``backward`` raise an error, write ``y = y + 1`` instead of ``y += 1``.
# The sum makes a new tensor and leaves the saved tensor alone. Likewise ``torch.where(y <
# 1, 0, y)`` makes a new tensor, whereas ``y[y < 1] = 0`` edits the old one.
#
# Edits that are not counted
# --------------------------
#
# PyTorch does not count an edit that is made through ``.data``, through NumPy, or by a
# kernel in Triton or C++ that you call directly. If you wrap the kernel with
# ``torch.library.custom_op``, PyTorch does count the edits of the arguments that are named
# in ``mutates_args``. It also counts an edit of ``y.detach()``, because the tensor that
# :meth:`torch.Tensor.detach` returns shares the counter of ``y``, and so ``backward``
# raises an error. After an edit that PyTorch does not count, you can increase the counter
# yourself with :func:`torch.autograd.graph.increment_version`. Here are four ways to edit
# :math:`y=e^x` at 0, where the right gradient is 1. Each line of the output shows the
# counter of ``y``, and then the gradient or the message:

for name, write in {
    ".data": lambda y: y.data.add_(1),
    "numpy": lambda y: y.detach().numpy().__iadd__(1),
    "detach": lambda y: y.detach().add_(1),
    "counted": lambda y: (y.data.add_(1), torch.autograd.graph.increment_version(y)),
}.items():
    x = torch.zeros(2, requires_grad=True)
    write(y := x.exp())
    try:
        print(name, y._version, torch.autograd.grad(y, x, torch.ones(2))[0])
    except RuntimeError as error:
        print(name, y._version, str(error).split(" Hint")[0])

# %%
# After the first two edits the gradient is 2, which is wrong, and there is no message. If
# you find ``.data`` in old code, replace it: use a ``no_grad`` block where the code changes
# a parameter, and ``detach()`` where the code reads one.
#
# Edits of leaves and views
# -------------------------
#
# While autograd is recording, PyTorch refuses some edits at once, before any ``backward``.
# The first kind is an edit of a :term:`leaf` that requires a gradient, as in ``c += 1``.
# The second is an edit of a view of such a leaf, as in ``c[:] += 1``. The third is an edit
# of an output of ``unbind``, ``split`` or ``chunk``, if that output requires a gradient. A
# ``for`` loop over a tensor yields outputs of ``unbind``, and so PyTorch also refuses this
# attempt to denormalize an image channel by channel:


def denormalize(image):
    for channel, scale in zip(image, (2.0, 3.0), strict=True):
        channel.mul_(scale)


leaf = torch.ones(2, 2, requires_grad=True)
for wrong in (lambda: leaf.add_(1), lambda: leaf[:].add_(1), lambda: denormalize(-leaf)):
    try:
        wrong()
    except RuntimeError as error:
        print(str(error).split(". This")[0])

# %%
# To change a parameter, switch recording off. Inside the function that you differentiate,
# compute new tensors instead of editing, or edit only a tensor that is not saved. The old
# value of an entry that you overwrite no longer influences the result. So the derivative
# with respect to the old value is 0, as it should be:

with torch.no_grad():
    leaf[0] += 1
h = leaf * torch.tensor([[2.0], [3.0]])
h[0] = 7.0
h.sum().backward()
print(leaf.detach().tolist(), leaf.grad.tolist())

# %%
# *Can I fill a tensor entry by entry?* Not if an operation saves one of its entries. A
# tensor has a single counter for all of its entries. In a recurrence, an operation saves
# one entry, and then you write the next. Because the counter has grown, PyTorch has to
# assume that you edited the saved entry. Collect the entries in a list, and stack them at
# the end:

a, out = torch.tensor(2.0, requires_grad=True), torch.ones(4)
try:
    for i in range(3):
        out[i + 1] = a * out[i]
    out[3].backward()
except RuntimeError as error:
    print(str(error).split(":")[0])
path = [torch.ones(())]
for _ in range(3):
    path.append(a * path[-1])
(slope,) = torch.autograd.grad(torch.stack(path)[3], a)
slope

# %%
# A step between forward and backward
# -----------------------------------
#
# ``optimizer.step()`` edits the weights in place. If you then call ``backward`` through a
# graph that had saved the old weights, PyTorch raises an error. Before release 1.5 PyTorch
# did not count this edit, and old GANs ran with wrong gradients. First compute every
# gradient that needs this graph, and only then call ``step``:

net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in (optimizer.step, lambda: None):
    out = net(torch.ones(2))
    out.backward(retain_graph=True)
    step()
    try:
        (2 * out).backward()
        print("both gradients")
    except RuntimeError as error:
        print(str(error).split(":")[0])

# %%
# How to find the line that made the edit
# ---------------------------------------
#
# The message gives neither the tensor's name nor the line that edited the tensor. Anomaly
# mode adds the line where the value was *saved*, which is not the line that changed it.
# Here anomaly mode names the function ``saves``, although the edit comes after the call:

import contextlib
import warnings


def saves(h):
    return h.exp()


with warnings.catch_warnings(record=True, action="always") as caught:
    x = torch.zeros(2, requires_grad=True)
    with contextlib.suppress(RuntimeError), torch.autograd.detect_anomaly():
        saves(x).mul_(2).sum().backward()
"in saves" in str(caught[-1].message)

# %%
# Start from the line that anomaly mode names, follow the tensor through your program, and
# print its ``_version`` at each stage until the number grows. :ref:`which-line` shows how
# ``pullback.watch`` names the line of the edit for you.
#
# As a check, we compare the gradient after the edit through NumPy with the result of
# :term:`forward mode`. The comparison shows that this gradient is wrong. The gradient of
# the recurrence must be the slope of :math:`a^3`:

x = torch.zeros(2, requires_grad=True)
(y := x.exp()).detach().numpy().__iadd__(1)
wrong = torch.autograd.grad(y, x, torch.ones(2))[0]
truth = torch.func.jvp(torch.exp, (x.detach(),), (torch.ones(2),))[1]
assert torch.equal(truth, torch.ones(2))
assert not torch.allclose(wrong, truth)
assert slope == 3 * a.detach() ** 2

# %%
# Where next
# ----------
#
# :ref:`no-grad-detach` says more about changes that are not recorded, and
# :ref:`second-backward` is about saved values that were freed.
#
# .. asked: in-place operation and backward; x += 1;
#    change a tensor without breaking autograd; .data; version counter; what is the
#    version of a tensor; edit a tensor in place; underscore methods; overwrite a tensor
#    that backward needs; in-place error though I have no in-place code; assign into a
#    tensor
# .. words: modify, overwrite, +=, assign, relu(inplace=True), version mismatch, index
#    assignment, copy_, clone, leaf variable, changed by, fill, buffer, mutate
