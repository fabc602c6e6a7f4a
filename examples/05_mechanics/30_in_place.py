r"""
.. _in-place:

When may I edit a tensor in place, and why not through .data?
=============================================================

You want to write into a tensor, and wonder whether the gradient will still be right. You
may edit a tensor in place when ``backward`` does not need the values that the edit
overwrites. PyTorch watches this for you. It counts the edits of each tensor in
``_version``, and refuses to walk back if a tensor that it has saved has been edited since.
An edit through ``.data`` or NumPy is not counted. If it hits a value that ``backward``
needs, the gradient is wrong without any message.
"""

# %%
# So it depends on what an operation saves. :math:`y=e^h` saves its *output*, since
# :math:`y'=y`. :math:`y=h^2` saves its *input*, since :math:`y'=2h`. And :math:`-h` saves
# nothing. An edit does harm only if it hits a :term:`saved tensor`. The function below
# edits the input or the output of an operation, and compares what comes back with a fresh
# derivative:

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
# The table says ``raises`` where the operation had saved what was edited:

operations = torch.exp, torch.sigmoid, torch.relu, torch.square, torch.neg, nn.Linear(2, 2)
for f in operations:
    name = getattr(f, "__name__", "linear")
    print(f"{name:7}", edited(f, "input"), edited(f, "output"))

# %%
# A linear layer saves its input but not its output. So ``ReLU(inplace=True)`` may follow a
# linear layer, and likewise a convolution. It may not follow a sigmoid, which saves its
# output.
#
# Where an edit raises, write ``y = y + 1`` instead of ``y += 1``. This makes a new tensor
# and leaves the saved one alone. Likewise ``torch.where(y < 1, 0, y)`` makes a new tensor
# where ``y[y < 1] = 0`` edits the old one.
#
# Edits that are not counted
# --------------------------
#
# What you write through ``.data``, through NumPy or with a bare kernel of your own, in
# Triton or C++, is not counted. (An operator made with ``torch.library.custom_op`` counts
# what it names in ``mutates_args``.) What you write into ``y.detach()`` is counted, because
# :meth:`torch.Tensor.detach` shares the counter, and ``backward`` refuses. After an edit of
# your own you can raise the counter with :func:`torch.autograd.graph.increment_version`.
# Here are these four ways to edit :math:`y=e^x` at 0, where the right gradient is 1:

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
# The first two return 2, a wrong gradient without a message. If you find ``.data`` in old
# code, replace it: with a ``no_grad`` block where the code changes a parameter, and with
# ``detach()`` where it reads one.
#
# Leaves and views
# ----------------
#
# Some edits are refused at once, before any ``backward``, if autograd is recording. One
# kind is an edit of a :term:`leaf` that requires a gradient, such as ``c += 1``. Another is
# an edit of a view of such a leaf, such as ``c[:] += 1``. A third is an edit of an output
# of ``unbind``, ``split`` or ``chunk``, if the tensor requires a gradient. A ``for`` loop
# over a tensor hands out outputs of ``unbind``, and so this attempt to denormalize an image
# channel by channel is refused, too:


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
# work out of place, or edit something that is not saved. An entry that you overwrite there
# no longer influences the result. So its derivative is 0, as it should be:

with torch.no_grad():
    leaf[0] += 1
h = leaf * torch.tensor([[2.0], [3.0]])
h[0] = 7.0
h.sum().backward()
print(leaf.detach().tolist(), leaf.grad.tolist())

# %%
# *Can I fill a tensor entry by entry?* Not if an operation saves one of its entries. A
# tensor has a single counter for all of its entries. A recurrence saves one entry and then
# writes the next, and to PyTorch that looks like an edit of what it has saved. Collect the
# entries in a list, and stack them at the end:

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
# ``optimizer.step()`` edits the weights in place. A ``backward`` after it, through a graph
# that had saved the old weights, is refused. (Before release 1.5 the edit was not counted,
# and old GANs ran with wrong gradients.) Take both gradients first, and step afterwards:

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
# Find the line
# -------------
#
# The message gives neither the tensor's name nor the line that edited it. Anomaly mode adds
# the line where the value was *saved*. That is not the line that changed it:

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
# From there follow the tensor through your program, and print its ``_version`` until it has
# grown. :ref:`which-line` shows how ``pullback.watch`` names that line for you.
#
# As a check, :term:`forward mode` shows that the gradient after the edit through NumPy is
# wrong, and the recurrence has to give the slope of :math:`a^3`:

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
# :ref:`no-grad-detach` tells more about changes that are not recorded, and
# :ref:`second-backward` is about saved values that were freed.
#
# .. asked: in-place operation and backward; modified by an inplace operation; x += 1;
#    change a tensor without breaking autograd; .data; version counter; what is the
#    version of a tensor; edit a tensor in place; underscore methods; overwrite a tensor
#    that backward needs; in-place error though I have no in-place code; assign into a
#    tensor
# .. words: modify, overwrite, +=, assign, relu(inplace=True), version mismatch, index
#    assignment, copy_, clone, leaf variable, changed by, fill, buffer, mutate
