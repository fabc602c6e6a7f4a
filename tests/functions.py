"""Numbers and functions that many tests take."""

import torch


def numbers(*shape, dtype=torch.float64, about=2):
    """Return fixed and irregular numbers within 1 of another, by which none is near 0."""
    n = torch.Size(shape).numel()
    return torch.arange(1.0, n + 1, dtype=dtype).mul(0.7).sin().add(about).reshape(shape)


class Square(torch.autograd.Function):
    """The square, with right rules both ways."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, v):
        return v * 2 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * 2 * ctx.saved_tensors[0]


class OldSquare(torch.autograd.Function):
    """The square in the old form, which torch.func refuses, with a rule one way."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, v):
        return 2 * v * ctx.saved_tensors[0]


class OldCube(torch.autograd.Function):
    """The cube in the old form."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, v):
        return 3 * v * ctx.saved_tensors[0] ** 2


def noting(products):
    """Return the identity as a Function that notes each v and u that comes through."""

    class Noting(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, v):
            products.append(v)
            return v

        @staticmethod
        def jvp(ctx, u):
            products.append(u)
            return u.clone()

    return Noting
