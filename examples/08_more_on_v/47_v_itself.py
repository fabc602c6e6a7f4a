r"""
.. _what-becomes-of-v:

What becomes of v: is it kept, changed, or found again in .grad?
================================================================

You pass the same ``v`` to ``backward`` several times, and suddenly its numbers have
changed. How can that be? ``backward`` itself only reads ``v``. Where ``y`` is computed by
arithmetic such as ``x**2``, ``v`` stays as it is and you may pass it again. Where ``y`` is
a view of ``x``, or only rearranges, joins or shifts its numbers, ``x.grad`` may be a view
of your ``v``. Whatever changes ``x.grad`` later, such as the next ``backward``, then
changes ``v`` as well. Pass ``v.clone()`` if you want to use ``v`` again and are not sure.
"""

# %%
# We begin with the harmless case, :math:`y=x^2` at (1, 2), where ``x``, ``y`` and ``v``
# have shape ``(2,)``. We compute three products with one ``v``, and print ``x.grad``,
# ``v``, and the version of ``v``. The version counts the in-place edits of ``v``, and it is
# still 0:

import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
v = torch.tensor([1.0, 10.0])
for _ in range(3):
    (x**2).backward(v)
print(x.grad, v, v._version)

# %%
# *x.grad grew with every call.* It grew by :math:`2x\odot v` each time. So the calls have
# added up the product, and not ``v`` (:ref:`gradient-doubled`).
#
# When x.grad shares the memory of v
# ----------------------------------
#
# The backward rule of an operation that returns a view, such as ``view`` or ``.T``, has
# nothing to compute. It passes on ``v`` in a different shape, but in the same memory. If
# ``x.grad`` was None, PyTorch stores this tensor there as it is, and the next ``backward``
# adds to it in place. This changes ``v`` before you pass it again, and so the third call is
# wrong as well. Three calls should give 3 and 30:

x.grad, v = None, torch.tensor([[1.0, 10.0]])
for _ in range(3):
    x.view(1, 2).backward(v)
print(x.grad, v)

# %%
# With ``v.clone()`` in place of ``v``, each call gets its own copy, and the result is
# right:

x.grad, v = None, torch.tensor([[1.0, 10.0]])
for _ in range(3):
    x.view(1, 2).backward(v.clone())
print(x.grad, v)

# %%
# Whether this happens depends on the operation. We try fifteen of them. Does ``x.grad``
# share the memory of ``v`` after one call? And what has become of ``v``, which began as
# ones, after three calls?

operations = {
    "x**2": torch.square,
    "x.relu()": torch.relu,
    "x + 1": lambda x: x + 1,
    "x.clone()": torch.clone,
    "(x**2).flatten()": lambda x: (x**2).flatten(),
    "x[0]": lambda x: x[0],
    "cat([x, x])": lambda x: torch.cat([x, x]),
    "cat([x])": lambda x: torch.cat([x]),
    "stack([x])": lambda x: torch.stack([x]),
    "x.T": lambda x: x.T,
    "x.reshape(-1)": lambda x: x.reshape(-1),
    "x.squeeze()": torch.squeeze,
    "x.flatten()": torch.flatten,
    "x.flatten() + 1": lambda x: x.flatten() + 1,
    "parameters_to_vector([x])": lambda x: torch.nn.utils.parameters_to_vector([x]),
}
shares = {}
for name, f in operations.items():
    row = torch.tensor([[1.0, 2.0]], requires_grad=True)
    ones = torch.ones_like(f(row)).detach()
    f(row).backward(ones)
    shares[name] = (
        row.grad.untyped_storage().data_ptr() == ones.untyped_storage().data_ptr()
    )
    f(row).backward(ones)
    f(row).backward(ones)
    print(f"{name:26}{shares[name]!s:6}", ones.flatten().tolist())
    assert shares[name] == (not torch.equal(ones, torch.ones_like(ones)))

# %%
# The rules of ``x + 1`` and ``x.clone()`` pass on ``v`` itself, not a view of it, and
# then ``backward`` stores a copy. If ``x + 1`` comes after a ``flatten``, a view of ``v``
# arrives at ``x`` again. The whole path from ``y`` back to ``x`` matters. If one rule on
# this path computes a new tensor, such as the rule of the square in ``(x**2).flatten()``,
# then ``x.grad`` is a new tensor.
#
# ``v`` can change even without a second ``backward``. Clipping writes into ``.grad``, and
# so does ``zero_grad`` with ``set_to_none=False``. In the code below both clipping and
# ``zero_grad`` write into ``v``:

p = torch.nn.Parameter(torch.zeros(1, 2))
v = torch.tensor([3.0, 4.0])
p.flatten().backward(v)
torch.nn.utils.clip_grad_norm_([p], 1.0)
clipped = v.clone()
torch.optim.SGD([p]).zero_grad(set_to_none=False)
v_of_the_step = v
print("after clipping:", clipped, "after zero_grad:", v)

# %%
# Where v is found again: at y
# ----------------------------
#
# *Why is y.grad None?* ``y`` is not a :term:`leaf`, and only leaves keep their gradient. If
# you call ``y.retain_grad()`` first, ``y.grad`` is kept, and it equals ``v``, because
# :math:`\partial(v\cdot y)/\partial y=v`. A hook on ``y`` is handed ``v`` before any rule
# has run:

x.grad, v = None, torch.tensor([1.0, 10.0])
y = x**2
y.retain_grad()
y.register_hook(lambda arrived: print("arrives at y:", arrived))
y.backward(v)
print("y.grad:", y.grad, "x.grad:", x.grad)

# %%
# *What if y is the leaf itself?* Then there is nothing to differentiate, and ``v`` is added
# to ``.grad`` as it is:

leaf = torch.tensor([5.0, 6.0], requires_grad=True)
leaf.backward(v)
leaf.grad

# %%
# *Is y.grad_fn(v) the same as y.backward(v)?* No, ``y.grad_fn(v)`` is only the first step:
# it calls the rule of the operation that made ``y``. The ``next_functions`` of this node
# are the nodes that get the result. We go back by hand from ``exp(x² / 4)`` through three
# rules. Each of the first three lines of the output shows what arrives at one rule, and the
# last line compares what comes out at ``x`` with PyTorch's result:

y = torch.exp(x**2 / 4)
node, arrived = y.grad_fn, v
while node.name() != "torch::autograd::AccumulateGrad":
    print(f"{node.name():15}", arrived.detach())
    arrived = node(arrived)
    arrived = arrived[0] if isinstance(arrived, tuple) else arrived
    node = node.next_functions[0][0]
by_hand = arrived.detach()
print(by_hand, torch.autograd.grad(y, x, v)[0])

# %%
# A v that requires a gradient
# ----------------------------
#
# *Why does x.grad have a grad_fn?* Because of ``create_graph=True``, and not because ``v``
# requires a gradient. In the code below, ``w`` is such a ``v``. Without ``create_graph``,
# the rules treat ``w`` as a constant. With ``create_graph=True``, the product
# :math:`2x\odot w` can be differentiated with respect to ``x``, and also with respect to
# ``w``, which gives a :term:`JVP` (:ref:`jvp-from-vjps`). There is one exception, in which
# the result requires a gradient even without ``create_graph``. If a rule has nothing to
# compute, :func:`torch.autograd.grad` returns ``w`` itself, as in the last line of the
# output, or a view of ``w``:

w = torch.tensor([1.0, 10.0], requires_grad=True)
for create in (False, True):
    (g,) = torch.autograd.grad(x**2, x, w, create_graph=create)
    print(create, g.grad_fn is not None)
by_w, by_x = torch.autograd.grad(g.sum(), (w, x))
print(by_w, by_x)
(itself,) = torch.autograd.grad(x.clone(), x, w)
print(itself is w, itself.requires_grad)

# %%
# Infinity and NaN in v
# ---------------------
#
# If a function computes each entry of ``y`` from one entry of ``x``, as the squares do, an
# infinity or NaN in ``v`` stays at its position. A rule that multiplies by a whole matrix
# multiplies by the zeros of the matrix, too, and :math:`0\cdot\infty` is NaN. This happens
# even for a product with the identity matrix, whose :term:`Jacobian` is the same as if
# nothing were done to ``x``. The first list in each line of the output is for the squares,
# and the second is for the product with the identity matrix:

for bad in (float("inf"), float("nan")):
    b = torch.tensor([1.0, bad])
    square, identity = x**2, torch.eye(2) @ x
    print([torch.autograd.grad(y, x, b)[0].tolist() for y in (square, identity)])

# %%
# What goes wrong
# ---------------
#
# *I filled v with the next weights, and the second derivative fails.* If the product has
# a graph, ``v`` is one of its :term:`saved tensors <saved tensor>`, and you must not edit
# it. Make a new ``v``, as in the second attempt:

for edit in (lambda v: v.mul_(2), lambda v: 2 * v):
    v = torch.tensor([1.0, 10.0])
    (g,) = torch.autograd.grad(x**3, x, v, create_graph=True)
    v = edit(v)
    try:
        print(torch.autograd.grad(g.sum(), x)[0])
    except RuntimeError as error:
        print(str(error).partition(";")[0])

# %%
# *I reuse one buffer for v, and my stored x.grad changes by itself.* Either
# :func:`torch.autograd.grad` returned ``v`` itself, or ``x.grad`` is a view of ``v``, as in
# the table above. ``y.grad``, on the other hand, is a copy. To prevent such changes, pass
# ``v.clone()``. Such a change also happens if a hook makes an in-place edit to the tensor
# that it is given, because that tensor is *your* ``v``. In the code below, a hook doubles
# ``v``, and this also doubles the tensor that was returned earlier. Then we halve a buffer,
# and two gradients are halved with it:

x.grad, v = None, torch.tensor([1.0, 10.0])
(returned,) = torch.autograd.grad(x.clone(), x, v)
kept, hooked = x.clone(), x.clone()
kept.retain_grad()
kept.backward(v)
hooked.register_hook(lambda arrived: arrived.mul_(2))
torch.autograd.grad(hooked, x, v)
one, two, buffer = (torch.ones(1, 2, requires_grad=g) for g in (True, True, False))
torch.autograd.backward([one.view(1, 2), torch.cat([two])], [buffer, buffer])
buffer.mul_(0.5)
print("behind a view:", one.grad, "behind cat:", two.grad)
print("v:", v, "returned:", returned, "x.grad:", x.grad, "y.grad:", kept.grad)

# %%
# *I permuted the batch and not v.* Only the position of an entry of ``v`` says which sample
# it belongs to. If you permute only the batch, all the shapes still fit, but the weights
# are applied to the wrong samples. The first number below is the result of this mistake. If
# you permute ``v`` with the batch, you get the second number, which is the same as for the
# batch in its original order:

order = torch.tensor([1, 0])
weights = torch.tensor([1.0, 10.0])
p = torch.tensor(3.0, requires_grad=True)
for v in (weights, weights[order]):
    permuted = torch.autograd.grad(p**2 * x.detach()[order], p, v)[0].item()
    print(permuted)
in_order = torch.autograd.grad(p**2 * x.detach(), p, weights)[0].item()

# %%
# *Does a gradient have the same strides as v?* A gradient that :func:`torch.autograd.grad`
# returns may have the strides of ``v``, whereas ``backward`` writes a new ``.grad`` in the
# layout of ``x``. Below, only the second gradient, which comes from ``backward``, is
# contiguous. So ``.view(-1)`` works only for the second one, whereas ``.reshape(-1)`` works
# for both:

X = torch.ones(2, 3, requires_grad=True)
V = torch.arange(6.0).reshape(3, 2).T
(returned,) = torch.autograd.grad(X.clone(), X, V)
X.clone().backward(V)
for g in (returned, X.grad):
    print(g.stride(), g.is_contiguous(), torch.equal(g, V))

# %%
# As a check, we compare the values with formulas, none of which comes from autograd:

at = x.detach()
torch.testing.assert_close(by_hand, y.detach() * at / 2 * torch.tensor([1.0, 10.0]))
assert torch.equal(by_w, 2 * at)
assert torch.equal(by_x, 2 * w.detach())
assert in_order == permuted == 6 * (at @ weights).item()
assert [name for name, shared in shares.items() if not shared] == [*operations][:7]
assert (clipped.norm() <= 1).item()
assert not v_of_the_step.any()

# %%
# Where next
# ----------
#
# :ref:`same-calls` shows when a result *is* ``v``. To watch what ``v`` becomes further down
# the graph, read :ref:`hooks`. :ref:`v-depends-on-x` is about a ``v`` that is computed from
# ``x``, and :ref:`masked-nan` is about zeros in ``v`` that do not keep a NaN out.
#
# .. asked: does backward change v; is v copied; reuse v; x.grad is the same memory as
#    v; what happens to v
# .. words: aliased, copy, changed afterwards, same object, shared, modified, buffer
