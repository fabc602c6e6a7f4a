r"""
.. _quantized:

Is there a gradient through a quantised model?
==============================================

Through integers there is none: an int8 tensor cannot require a gradient, and rounding has
slope 0. Training uses a *fake* quantisation, floats that are rounded on the way forward,
whose ``backward`` hands ``v`` on where the rounded value is within the limits and 0 where
it is clipped. So for a gradient by the input, keep the float model, or the fake one.
"""

# %%
# ``x`` has shape ``(5,)``. With scale 0.5 and four bits, the integers are −8 to 7 and the
# values −4 to 3.5, in steps of 0.5:

import torch

x = torch.tensor([-6.0, -0.3, 0.2, 1.4, 5.0], requires_grad=True)


def fake(x, scale=0.5):
    return torch.fake_quantize_per_tensor_affine(x, scale, 0, -8, 7)


y = fake(x)
v = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
y.backward(v)
print(y.tolist(), x.grad.tolist(), sep="\n")

# %%
# The values are rounded; the gradient is ``v`` with a 0 where x was clipped. That is not
# the derivative of the staircase, which is 0 between its steps, but of the line that the
# staircase follows, up to half a step beyond its ends: a straight-through estimate
# (:ref:`discrete-choices`).
#
# What goes wrong
# ---------------
#
# *I round myself and nothing is learned.* ``round`` has its true slope, 0, and autograd
# takes it:

by_hand = (x / 0.5).round().clamp(-8, 7) * 0.5
print(torch.equal(by_hand, y), torch.autograd.grad(by_hand, x, v)[0].tolist())

# %%
# Straight through by hand: the rounded value on the way forward, and slope 1 on the way
# back, since what is detached has none. ``where``, as ``clamp`` has slope 1 at its bounds
# before torch 2.14 and 0 since. The same as ``fake``, number by number:


def straight(x, scale):
    n = x / scale
    n = n + (n.round() - n).detach()
    return torch.where((n < -8) | (n > 7), n.detach().clamp(-8, 7), n) * scale


print(torch.equal(torch.autograd.grad(straight(x, 0.5), x, v)[0], x.grad))

# %%
# *Clamp first, or round first?* Clamped first, what is less than half a step beyond a limit
# gets 0. ``fake`` rounds first, and does not clip such a value: 3.6 is 7.2 steps, so 7:

edge = torch.tensor([-4.3, -4.2, 3.6, 3.8], requires_grad=True)
clamped = edge.clamp(-4, 3.5)
for f in (fake(edge), straight(edge, 0.5), clamped + (fake(clamped) - clamped).detach()):
    print(f.tolist(), torch.autograd.grad(f.sum(), edge)[0].tolist())

# %%
# *A model in int8*, as for deployment, has no backward at all. Its integers can require no
# gradient, and a float input does not help, since the graph ends where the integers begin:

integers = (x / 0.5).round().clamp(-8, 7).to(torch.int8)
print(integers.requires_grad, (integers.float() * 0.5).requires_grad)
try:
    integers.requires_grad_()
except RuntimeError as error:
    print(error)

# %%
# Attribute, attack or explain the quantised model by the float model with fake quantisation
# in the same places: it gives the same outputs, as far as the integer kernels and the float
# ones round sums in the same way, and a gradient. Weights in int8 alone are
# no obstacle: written as floats they are constants, and x gets its gradient through them,
# as in a model that is frozen and trained by small additions (LoRA on a quantised base):

W = torch.tensor([[20, -3, 7, 0, 1]], dtype=torch.int8)
through = torch.autograd.grad((W.float() * 0.1) @ x, x, torch.ones(1))[0]
print(through.numpy().round(2) + 0.0)

# %%
# The gradient by the scale
# -------------------------
#
# A learned step size (LSQ) needs the slope by ``scale``. Written out, autograd has it: the
# rounding error in steps where x is within the limits, the limit itself where it is not:

scale = torch.tensor(0.5, requires_grad=True)
found = [torch.autograd.grad(straight(each, scale), scale)[0].item() for each in x.detach()]
print([round(k, 2) for k in found])

# %%
# With the straight-through estimate these are no derivatives of what was computed. That is
# an integer times the scale, so its slope is the integer, or a jump:

up, down = (fake(x.detach(), 0.5 + h) for h in (1e-3, -1e-3))
print(((up - down) / 2e-3).numpy().round(2) + 0.0)

# %%
# *gradcheck fails on my fake quantisation* is therefore no fault of yours; by x the true
# slope is 0 or a jump:

try:
    torch.autograd.gradcheck(fake, x.detach().double().requires_grad_(), eps=1e-3)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %%
# The check: the gradient of ``fake`` against difference quotients of the line that ends
# half a step beyond the limits, and the slope by the scale against its formula:

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
# Rounding and its bias: :ref:`discrete-choices`. Zeros: :ref:`zeros-and-equal-rows`. Short
# floats, which do have gradients: :ref:`mixed-precision`. Frozen layers:
# :ref:`no-grad-detach`.
#
# .. asked: quantised model gradient; int8 gradient; quantization-aware training; fake
#    quantisation; train a quantised network
#
# .. words: int8, int4, lora, qlora, bitsandbytes, fake quant, qat, scale, zero point, round
