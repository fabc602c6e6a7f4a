"""The backward of custom Functions, compared with differences: what is wrong, and where."""

import pytest
import torch
from functions import OldCube, OldSquare, Square
from torch import nn
from torch.autograd import Function
from watched import at, lines_of

import pullback

here = lines_of(__file__)


class Solve(Function):
    @staticmethod
    def forward(ctx, A, b):
        x = torch.linalg.solve(A, b)
        ctx.save_for_backward(A, x)
        return x

    @staticmethod
    def backward(ctx, v):
        A, x = ctx.saved_tensors
        grad_b = torch.linalg.solve(A, v)  # not transposed
        grad_A = -grad_b @ x.mT
        return grad_A, grad_b


class SolveRight(Solve):
    @staticmethod
    def backward(ctx, v):
        A, x = ctx.saved_tensors
        grad_b = torch.linalg.solve(A.mT, v)
        return -grad_b @ x.mT, grad_b


class Linear(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.mT

    @staticmethod
    def backward(ctx, v):
        x, w = ctx.saved_tensors
        gx = v @ w.mT  # the wrong side
        gw = v.mT @ x
        return gx, gw


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().mean()

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        g = 2 * x * v  # a mean is no sum
        return g


class Negative(Function):
    @staticmethod
    def forward(x, y):
        return x.cos() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, v):
        x, y = ctx.saved_tensors
        return (
            x.sin() * y * v,  # another sign
            x.cos() * v,
        )


class Unmasked(Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        return x.clamp(min=bound) * 3

    @staticmethod
    def backward(ctx, v):
        return 3 * v, None  # without its mask


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    def backward(ctx, v):
        x, y = ctx.saved_tensors
        return v @ y.mT, (x.mT @ v).mT  # the second is transposed


class Another(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, v):
        (y,) = ctx.saved_tensors
        slope = 1 - y
        return slope * v  # not squared


class Part(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.square() - x.cos()).sum()

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        first = 2 * x
        second = x.sin().neg()  # one sign of two
        return (first + second) * v


def square(n):
    return (torch.randn(n, n) + 3 * torch.eye(n)).requires_grad_()


def numbers(*shape):
    return torch.randn(*shape).requires_grad_()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("call", "where", "says", "fix"),
    [
        (lambda: Solve.apply(square(4), numbers(4, 2)), "not transposed",
         "transpose of A", "Write A.mT for A"),
        (lambda: Linear.apply(numbers(5, 3), square(3)), "the wrong side", "transpose",
         "Write w for w.mT"),
        (lambda: Twice.apply(numbers(6)), "a mean is no sum", "6 times", "by 6"),
        (lambda: Negative.apply(numbers(4), numbers(4)), "another sign", "other sign",
         "Turn the sign"),
        (lambda: Unmasked.apply(numbers(9), 0.1), "without its mask", "does not depend",
         "mask"),
        (lambda: Product.apply(square(3), square(3)), "the second is transposed",
         "transposed", "grad.mT"),
        (lambda: Another.apply(numbers(5)), "not squared", "other numbers", "gradcheck"),
        (lambda: Part.apply(numbers(5)), "one sign of two", "other sign", "on this line"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_on_which_line(call, where, says, fix):
    state = torch.random.get_rng_state()
    with pullback.watch(check_functions=True) as seen:
        y = call()
        after = torch.random.get_rng_state()
        y.sum().backward()
    found = [finding for finding in seen if finding.rule == "custom-backward"]
    assert len(found) == 1, seen.unchecked
    assert at(found[0].site) == here(where)
    assert says in found[0].message
    assert fix in found[0].fix
    assert "by differences" in str(found[0])
    assert torch.equal(after, torch.random.get_rng_state())
    assert not torch.equal(state, after)


@pytest.mark.parametrize("kind", [Square, OldSquare, OldCube])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_right_rules_are_right(kind, dtype):
    x = torch.randn(7, dtype=dtype, requires_grad=True)
    with pullback.watch(check_functions=True) as seen:
        kind.apply(x).sum().backward()
        kind.apply(x * 0).sum().backward()
    assert list(seen) == []
    assert seen.unchecked == ()


def test_a_right_solve_is_right():
    with pullback.watch(check_functions=True) as seen:
        SolveRight.apply(square(4), numbers(4, 2)).sum().backward()
    assert list(seen) == []
    assert seen.unchecked == ()


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, v):
        return v


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, v):
        return -ctx.strength * v, None


class Drop(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) > 0.5
        ctx.save_for_backward(mask)
        return x * mask * 2

    @staticmethod
    def backward(ctx, v):
        return v * ctx.saved_tensors[0] * 2


class Strict(Function):
    @staticmethod
    def forward(ctx, x):
        assert x.dtype == torch.float32
        return x * 2

    @staticmethod
    def backward(ctx, v):
        return v * 2


class Buried(Function):
    @staticmethod
    def forward(ctx, x):
        return (x + 1e13) - 1e13

    @staticmethod
    def backward(ctx, v):
        return v


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: Round.apply(numbers(5)), "flat"),
        (lambda: Reverse.apply(numbers(5), 0.3), "on purpose"),
        (lambda: Drop.apply(numbers(50)), "other numbers each time"),
        (lambda: Strict.apply(numbers(5)), "AssertionError"),
        (lambda: Buried.apply(numbers(5)), "rounding in its forward"),
    ],
)
def test_what_differences_say_nothing_about(call, why):
    with pullback.watch(check_functions=True) as seen:
        call().sum().backward()
    assert list(seen) == []
    (unchecked,) = seen.unchecked
    assert why in unchecked
    assert "test_custom.py:" in unchecked


class Normed(torch.autograd.Function):
    """A norm with a gain, whose backward is right where every gain is 1."""

    @staticmethod
    def forward(ctx, x, gain):
        normed = x / x.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, gain, normed)
        return normed * gain

    @staticmethod
    def backward(ctx, g):
        x, gain, normed = ctx.saved_tensors
        along = (g * normed).sum(1, keepdim=True) * normed  # the gain is forgotten here
        return (g * gain - along) / x.norm(dim=1, keepdim=True), (g * normed).sum(0)


def test_late_calls_are_compared_as_well():
    gains = [nn.Parameter(torch.ones(3)) for _ in range(4)]  # so many calls in a step
    optimizer = torch.optim.SGD(gains, lr=0.1)
    with pullback.watch(check_functions=True) as seen:
        for _ in range(5):
            optimizer.zero_grad()
            sum(Normed.apply(numbers(4, 3), gain).sum() for gain in gains).backward()
            optimizer.step()
    (finding,) = seen
    assert finding.rule == "custom-backward"
    assert "wrong gradient for x" in finding.message


def test_nothing_of_the_program_is_touched():
    model = nn.Linear(3, 3)
    x = numbers(2, 3)
    with pullback.watch(check_functions=True) as seen:
        Square.apply(model(x)).sum().backward()
        grads = [p.grad.clone() for p in (*model.parameters(), x)]
    assert list(seen) == []
    for p, grad in zip((*model.parameters(), x), grads, strict=True):
        assert torch.equal(p.grad, grad)


class Fused(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x  # without v


def test_a_backward_without_v_is_told_as_that_once():
    with pullback.watch(check_functions=True) as seen:
        Fused.apply(numbers(3)).backward()
    (finding,) = seen
    assert finding.rule == "custom-backward"
    assert at(finding.site) == here("without v")
    assert "backward of Fused gives the same for twice the v" in finding.message
    assert "times the derivative" in finding.fix
    for checks in (True, False):
        with pullback.watch(check_functions=checks) as seen:
            (0.02 * Fused.apply(numbers(3))).backward()
        (finding,) = seen
        assert finding.rule == "backward-that-ignores-v"
        assert at(finding.site) == here("without v")
        assert seen.unchecked == ()


def test_what_is_not_compared_is_named():
    with pullback.watch() as seen:
        Solve.apply(square(4), numbers(4, 2)).sum().backward()
        Solve.apply(square(4), numbers(4, 2)).sum().backward()
        torch.utils.checkpoint.checkpoint(torch.sin, numbers(2), use_reentrant=True)
    assert list(seen) == []
    (unchecked,) = seen.unchecked
    assert unchecked.startswith("the backward of Solve, ")


def test_the_rule_can_be_left_out():
    with pullback.watch(check_functions=True, without=["custom-backward"]) as seen:
        Twice.apply(numbers(6)).backward()
    assert list(seen) == []
    assert len(seen.unchecked) == 1
