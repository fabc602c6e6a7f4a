r"""
.. _quantized:

Is there a gradient through a quantised model?
==============================================

Your model is quantised, and its input or its weights get no gradient. Through integers
there is none: an int8 tensor cannot require a gradient, and rounding has slope 0. For
training, people use a *fake* quantisation, which rounds floats on the way forward. Its
``backward`` passes ``v`` on if the rounded value is within the limits, and passes 0 if it
is clipped. So if you need a gradient with respect to the input, keep the float model, or
the fake one.
"""

# %%
# ``x`` has shape ``(5,)``. With a scale of 0.5 and four bits, the integers are −8 to 7.
# So the values are −4 to 3.5, in steps of 0.5. We print the rounded values and the
# gradient:

import torch

x = torch.tensor([-6.0, -0.3, 0.2, 1.4, 5.0], requires_grad=True)


def fake(x, scale=0.5):
    return torch.fake_quantize_per_tensor_affine(x, scale, 0, -8, 7)


y = fake(x)
v = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
y.backward(v)
print(y.tolist(), x.grad.tolist(), sep="\n")

# %%
# The gradient is ``v``, with a 0 for the two entries that were clipped. This is not the
# derivative of the staircase, which is 0 between its steps. It is the derivative of the
# straight line that the staircase follows, up to half a step beyond its ends. It is
# called a straight-through estimate (:ref:`discrete-choices`).
#
# What goes wrong
# ---------------
#
# *I round myself and nothing is learned.* ``round`` has its true slope, which is 0 except
# at the jumps, and autograd uses it. The outputs are the same as before, but the gradient
# is zero:

by_hand = (x / 0.5).round().clamp(-8, 7) * 0.5
print(torch.equal(by_hand, y), torch.autograd.grad(by_hand, x, v)[0].tolist())

# %%
# You can write the straight-through estimate by hand. The value is rounded on the way
# forward. On the way back the slope is 1, because what is detached has no slope. For the
# limits, we take ``where`` and not ``clamp``, whose slope at its bounds is 1 before torch
# 2.14 and 0 since then. The gradient is the same as that of ``fake``, number by number:


def straight(x, scale):
    n = x / scale
    n = n + (n.round() - n).detach()
    return torch.where((n < -8) | (n > 7), n.detach().clamp(-8, 7), n) * scale


print(torch.equal(torch.autograd.grad(straight(x, 0.5), x, v)[0], x.grad))

# %%
# *Clamp first, or round first?* It makes a difference near the limits. ``fake`` rounds
# first: 3.6 is 7.2 steps, which is rounded to 7 and not clipped. If you clamp first, a
# value that is less than half a step beyond a limit gets 0. The first line below is for
# ``fake``, the second for our own function, and the third for clamping first:

edge = torch.tensor([-4.3, -4.2, 3.6, 3.8], requires_grad=True)
clamped = edge.clamp(-4, 3.5)
for f in (fake(edge), straight(edge, 0.5), clamped + (fake(clamped) - clamped).detach()):
    print(f.tolist(), torch.autograd.grad(f.sum(), edge)[0].tolist())

# %%
# *A model in int8*, as it is used for deployment, has no backward at all. Its integers
# cannot require a gradient. A float input does not help, because the graph ends where the
# integers begin:

integers = (x / 0.5).round().clamp(-8, 7).to(torch.int8)
print(integers.requires_grad, (integers.float() * 0.5).requires_grad)
try:
    integers.requires_grad_()
except RuntimeError as error:
    print(error)

# %%
# If you want to attribute, attack or explain the quantised model, use the float model with
# fake quantisation in the same places. It has a gradient, and it gives the same outputs,
# provided that the kernels for integers and for floats round their sums in the same way.
#
# If only the weights are in int8, they are no obstacle. Written as floats they are
# constants, and x gets its gradient through them. This is how a frozen model is trained
# by small additions (LoRA on a quantised base):

W = torch.tensor([[20, -3, 7, 0, 1]], dtype=torch.int8)
through = torch.autograd.grad((W.float() * 0.1) @ x, x, torch.ones(1))[0]
print(through.numpy().round(2) + 0.0)

# %%
# The gradient with respect to the scale
# --------------------------------------
#
# If the step size is learned (LSQ), you need the slope with respect to ``scale``. Our
# function ``straight`` lets autograd compute it. If x is within the limits, this slope is
# the rounding error in steps, and otherwise the limit itself:

scale = torch.tensor(0.5, requires_grad=True)
found = [torch.autograd.grad(straight(each, scale), scale)[0].item() for each in x.detach()]
print([round(k, 2) for k in found])

# %%
# With the straight-through estimate, these numbers are not derivatives of what was
# computed. What was computed is an integer times the scale, and so its slope is this
# integer, unless it jumps. Differences show it:

up, down = (fake(x.detach(), 0.5 + h) for h in (1e-3, -1e-3))
print(((up - down) / 2e-3).numpy().round(2) + 0.0)

# %%
# *gradcheck fails on my fake quantisation.* This is not a mistake of yours. The true
# function is flat between its jumps, and gradcheck compares with its slope:

try:
    torch.autograd.gradcheck(fake, x.detach().double().requires_grad_(), eps=1e-3)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# As a check, we compare the gradient of ``fake`` with difference quotients of the line
# that ends half a step beyond the limits, and the slope with respect to the scale with
# its formula:

h, of_fake = 1e-3, torch.autograd.grad(fake(edge).sum(), edge)[0]
for at, seed, gradient in ((x, v, x.grad), (edge, torch.ones(4), of_fake)):
    at = at.detach().double()
    quotient = ((at + h).clamp(-4.25, 3.75) - (at - h).clamp(-4.25, 3.75)) / (2 * h)
    torch.testing.assert_close(gradient.double(), quotient * seed)
    by_hand = torch.autograd.grad(straight(at.requires_grad_(), 0.5), at, seed.double())[0]
    torch.testing.assert_close(by_hand, gradient.double())
n = x.detach() / 0.5
r = n.round()
formula = torch.where(r != r.clamp(-8, 7), r.clamp(-8, 7), r - n)
torch.testing.assert_close(torch.tensor(found), formula)
assert (y.detach() - x.detach()).abs()[1:4].max() <= 0.25

# %%
# Where next
# ----------
#
# :ref:`discrete-choices` is about rounding and its bias, and :ref:`zeros-and-equal-rows`
# about gradients that are zero. Short floats do have gradients, see
# :ref:`mixed-precision`. :ref:`no-grad-detach` is about frozen layers.
#
# .. asked: quantised model gradient; int8 gradient; quantization-aware training; fake
#    quantisation; train a quantised network
# .. words: int8, int4, lora, qlora, bitsandbytes, fake quant, qat, scale, zero point, round
