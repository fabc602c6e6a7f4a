r"""
.. _in-place:

When may I edit a tensor in place, and why not through .data?
=============================================================

When ``backward`` does not need the value that the edit overwrites. PyTorch counts the
edits of a tensor in ``_version`` and refuses when a saved one was changed. Through
``.data`` or NumPy the count stands still, and the gradient is silently wrong.
"""

# %%
# :math:`y=e^h` saves its *output*, since :math:`y'=y`; :math:`y=h^2` saves its *input*,
# since :math:`y'=2h`; :math:`-h` saves nothing. *When are in-place operations allowed?*
# When they hit what is not a :term:`saved tensor`. Try each, against a fresh derivative:

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
# So ``ReLU(inplace=True)`` may follow a linear layer (or a convolution), which does not
# save its output, and may not follow a sigmoid, which does:

operations = torch.exp, torch.sigmoid, torch.relu, torch.square, torch.neg, nn.Linear(2, 2)
for f in operations:
    name = getattr(f, "__name__", "linear")
    print(f"{name:7}", edited(f, "input"), edited(f, "output"))

# %%
# Where it raises, ``y = y + 1`` makes a new tensor and leaves the saved one alone; so does
# ``torch.where(y < 1, 0, y)`` in place of ``y[y < 1] = 0``.
#
# Wrong without a word
# --------------------
#
# ``.data``, NumPy or a kernel of your own (Triton, C++) write past the count.
# :meth:`torch.Tensor.detach` shares it, and is refused; so is what you count yourself, by
# :func:`torch.autograd.graph.increment_version`. :math:`e^0=1`: the gradient must be 1:

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
# Old code with ``.data`` wants ``no_grad`` to change a parameter, ``detach`` to read it.
#
# Leaves and views
# ----------------
#
# Refused at once: a recorded edit of a :term:`leaf` that requires a gradient, ``c += 1``,
# or of a view of it, ``c[:] += 1``; and of an output of ``unbind``, which a ``for`` loop
# over a tensor gives. *I denormalize an image in a loop over its channels*:


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
# To change a parameter, switch recording off. Within the function, work out of place, or
# edit what is not saved: the overwritten has derivative 0, which is right:

with torch.no_grad():
    leaf[0] += 1
h = leaf * torch.tensor([[2.0], [3.0]])
h[0] = 7.0
h.sum().backward()
print(leaf.detach().tolist(), leaf.grad.tolist())

# %%
# *Can I fill a tensor entry by entry?* Not if an entry in it is saved: a tensor has one
# count for all entries, and a recurrence saves the entry before and writes beside it.
# Collect in a list and stack:

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
# *My GAN worked in 1.4 and raises since 1.5.* ``optimizer.step()`` edits the weights in
# place, once behind the count's back. A second ``backward`` through a graph that saved them
# comes too late. Take both gradients first, then step:

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
# Anomaly mode names where the value was *saved*, not where it was changed:

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
# Follow that tensor to the line after which its ``_version`` has grown. The check: what
# NumPy let through is wrong, by :term:`forward mode`; the recurrence is :math:`a^3`:

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
# Changing weights unrecorded: :ref:`no-grad-detach`. Freed values: :ref:`second-backward`.
#
# .. asked: in-place operation and backward; modified by an inplace operation; x += 1;
#    change a tensor without breaking autograd; .data; version counter; what is the
#    version of a tensor; edit a tensor in place; underscore methods; overwrite a tensor
#    that backward needs; in-place error though I have no in-place code; assign into a
#    tensor
