r"""
.. _quantized:

Is there a gradient through a quantized model?
==============================================

Your model is quantized, and its input or its weights get no gradient. No gradient passes
through integers: an int8 tensor cannot require a gradient, and rounding has slope 0. For
training, people use *fake* quantization, which rounds floats in the forward pass. Its
``backward`` passes ``v`` on if the rounded value is within the limits, and passes 0 if the
value was clipped. So if you need a gradient with respect to the input, keep the float
model, or a model with fake quantization.
"""

# %%
# ``x`` has shape ``(5,)``. With a scale of 0.5 and four bits, the integers run from −8 to
# 7, and so the values run from −4 to 3.5, in steps of 0.5. We print the rounded values and
# the gradient:

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
# straight line that the staircase follows, up to half a step beyond the ends of the
# staircase. Such a gradient is called a straight-through estimate
# (:ref:`discrete-choices`).
#
# What goes wrong
# ---------------
#
# *I round with torch.round, and nothing is learned.* The true slope of ``round`` is 0
# except at the jumps, and autograd returns 0. The outputs are the same as before, but the
# gradient is zero:

by_hand = (x / 0.5).round().clamp(-8, 7) * 0.5
print(torch.equal(by_hand, y), torch.autograd.grad(by_hand, x, v)[0].tolist())

# %%
# You can write the straight-through estimate by hand. In the forward pass the value is
# rounded. In the backward pass the slope is 1, because the detached part counts as a
# constant. For the limits, we use ``where`` and not ``clamp``, whose slope at its bounds
# is 1 before torch 2.14 and 0 from 2.14 on. The gradient equals the gradient of ``fake``,
# entry by entry:


def straight(x, scale):
    n = x / scale
    n = n + (n.round() - n).detach()
    return torch.where((n < -8) | (n > 7), n.detach().clamp(-8, 7), n) * scale


print(torch.equal(torch.autograd.grad(straight(x, 0.5), x, v)[0], x.grad))

# %%
# *Clamp first, or round first?* The order makes a difference near the limits. ``fake``
# rounds first: 3.6 is 7.2 steps, which is rounded to 7 and not clipped. If you clamp first,
# a value that is beyond a limit gets the gradient 0, even if it is less than half a step
# beyond. The first line of the output is for ``fake``, the second for our own function, and
# the third for clamping first:

edge = torch.tensor([-4.3, -4.2, 3.6, 3.8], requires_grad=True)
clamped = edge.clamp(-4, 3.5)
for f in (fake(edge), straight(edge, 0.5), clamped + (fake(clamped) - clamped).detach()):
    print(f.tolist(), torch.autograd.grad(f.sum(), edge)[0].tolist())

# %%
# *My model is in int8.* An int8 model of the kind used for deployment has no backward pass
# at all. Its integers cannot require a gradient. A float input does not help, because the
# conversion to integers drops the graph:

integers = (x / 0.5).round().clamp(-8, 7).to(torch.int8)
print(integers.requires_grad, (integers.float() * 0.5).requires_grad)
try:
    integers.requires_grad_()
except RuntimeError as error:
    print(error)

# %%
# If you want to attack the quantized model, or to explain its outputs, use the float model
# with fake quantization in the same places. That model has a gradient, and it gives the
# same outputs, provided that the kernels for integers and for floats round their sums in
# the same way.
#
# If only the weights are in int8, they do not stop the gradient. Converted to floats they
# are constants, and the backward pass multiplies by them to compute the gradient with
# respect to x. This is how LoRA can train small additions to a frozen quantized model:

W = torch.tensor([[20, -3, 7, 0, 1]], dtype=torch.int8)
through = torch.autograd.grad((W.float() * 0.1) @ x, x, torch.ones(1))[0]
print(through.numpy().round(2) + 0.0)

# %%
# The gradient with respect to the scale
# --------------------------------------
#
# If the step size is learned, as in the method LSQ, you need the slope with respect to
# ``scale``. With our function ``straight``, autograd computes this slope. If x is within
# the limits, the slope is the rounded value minus the exact value, measured in steps.
# Otherwise the slope is the limit itself, in steps as well:

scale = torch.tensor(0.5, requires_grad=True)
found = [torch.autograd.grad(straight(each, scale), scale)[0].item() for each in x.detach()]
print([round(k, 2) for k in found])

# %%
# Because of the straight-through estimate, these numbers are not derivatives of the values
# that were computed. Such a value is an integer times the scale, and so its slope is this
# integer, unless the integer jumps. Difference quotients show this:

up, down = (fake(x.detach(), 0.5 + h) for h in (1e-3, -1e-3))
print(((up - down) / 2e-3).numpy().round(2) + 0.0)

# %%
# *gradcheck fails on my fake quantization.* This is not a mistake on your part. The
# function that is computed is flat between its jumps, and gradcheck compares the
# straight-through estimate with the slope of that function:

try:
    torch.autograd.gradcheck(fake, x.detach().double().requires_grad_(), eps=1e-3)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# As a check, we compare the gradient of ``fake`` with difference quotients of the straight
# line, which ends half a step beyond the limits. We also compare the slope with respect to
# the scale with its formula:

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
# :ref:`discrete-choices` is about rounding and the bias of straight-through estimates, and
# :ref:`zeros-and-equal-rows` is about gradients that are zero. 16-bit floats do have
# gradients; see :ref:`mixed-precision`. :ref:`no-grad-detach` also covers frozen layers.
#
# .. asked: quantised model gradient; int8 gradient; quantization-aware training; fake
#    quantisation; train a quantised network
# .. words: int8, int4, lora, qlora, bitsandbytes, fake quant, qat, scale, zero point, round
