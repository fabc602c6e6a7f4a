"""Custom Functions, checkpoints and data: a wrong backward is found, a right one not."""

from contextlib import suppress

import pytest
import torch
from torch import nn
from watched import at, lines_of

import pullback

here = lines_of(__file__)


@pytest.mark.parametrize(("late", "found"), [(True, ["data-hides-changes"]), (False, [])])
def test_weights_that_are_clipped_through_data(late, found):
    torch.manual_seed(0)  # any weights beyond the limit do
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.RMSprop(net.parameters())

    def clip():
        for p in net.parameters():
            p.data.clamp_(-0.01, 0.01)

    with pullback.watch() as seen:
        for _ in range(3):
            loss = net(torch.randn(2, 3)).mean() - net(torch.randn(2, 3)).mean()
            if late:
                clip()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            clip()
    assert [finding.rule for finding in seen] == found


class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return square * square, square

    @staticmethod
    def backward(ctx, v, of_square):
        x, square = ctx.saved_tensors
        return 4 * square * x * v + 2 * x * of_square


class Ignores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        slope = torch.full((3,), 2.0)
        return slope  # ignores here


class Expands(Ignores):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.expand(4, 3)  # expands here


class Sums(Ignores):
    @staticmethod
    def backward(ctx, grad_output):
        return (grad_output.expand(4, 3) / 2).sum(0)


@pytest.mark.parametrize(
    ("function", "where", "says"),
    [
        (Ignores, "ignores here", "does not use grad_output, which is not 1 here"),
        (Expands, "expands here", "shape (4, 3) for an input of shape (3,)"),
        (Sums, None, None),
    ],
)
def test_a_wrong_backward_is_told_in_its_own_words_where_it_returns(function, where, says):
    x = torch.ones(3, requires_grad=True)
    with pullback.watch() as seen:
        (3 * function.apply(x)).sum().backward()
    assert len(seen) == (where is not None)
    for finding in seen:
        assert at(finding.site) == here(where)
        assert says in finding.message


def test_a_sum_that_the_backward_of_torch_itself_takes():
    if not hasattr(nn, "LinearCrossEntropyLoss"):
        pytest.skip("this release has none")
    from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

    options = LinearCrossEntropyOptions()
    loss = nn.LinearCrossEntropyLoss(8, 6, reduction="none", options=options)
    with pullback.watch() as seen:
        losses = loss(torch.ones(4, 8, requires_grad=True), torch.arange(4))
        (losses * torch.arange(4.0)).sum().backward()
    assert list(seen) == []


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, v):
        return Same.apply(v) * 2


def test_a_function_in_the_backward_of_another_has_no_graph_to_keep():
    x = torch.ones(3, requires_grad=True)
    with pullback.watch() as seen:
        torch.autograd.grad(Same.apply(x).square().sum(), x, create_graph=True)
    assert list(seen) == []


class ByNumPy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.numpy() ** 2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(2 * x.numpy() * v.numpy())  # by NumPy here


def test_a_backward_that_leaves_torch_keeps_no_graph():
    x = torch.ones(3, requires_grad=True)
    with pullback.watch() as seen:
        y = (ByNumPy.apply(x) + x**3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 6, 6]  # it is 8
    (finding,) = seen
    assert finding.rule == "once-differentiable-in-a-sum"
    assert at(finding.site) == here("by NumPy here")


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        raise ZeroDivisionError


class ReturnsNone(Raises):
    @staticmethod
    def backward(ctx, v):
        return None


@pytest.mark.parametrize("function", [Raises, ReturnsNone])
def test_a_backward_that_computes_nothing_has_no_use_for_v(function):
    x = torch.ones(3, requires_grad=True)
    with pullback.watch() as seen, suppress(ZeroDivisionError):
        (3 * function.apply(x)).sum().backward()
    assert list(seen) == []


def test_a_checkpoint_that_runs_before_its_forward_has_ended():
    from torch.utils.checkpoint import checkpoint

    def slope(x):
        (g,) = torch.autograd.grad(x.sin().exp(), x, retain_graph=True)
        return (x * 1).exp() + g.detach()

    def whole(x):
        return checkpoint(slope, x, use_reentrant=False)

    with torch.utils.checkpoint.set_checkpoint_early_stop(False), pullback.watch() as seen:
        for number in (1.0, 2.0):
            whole(torch.tensor(number, requires_grad=True))
    assert list(seen) == []


def test_an_intermediate_that_is_returned_has_a_graph():
    x = torch.tensor(2.0, requires_grad=True)
    with pullback.watch() as seen:
        (g,) = torch.autograd.grad(Quartic.apply(x)[0], x, create_graph=True)
        assert torch.autograd.grad(g, x)[0] == 48
    assert list(seen) == []


def test_steps_through_data_between_backward_and_forward_are_right():
    w = nn.Parameter(torch.ones(2))
    with pullback.watch() as seen:
        for _ in range(3):
            w.grad = None
            (w.exp() * w).sum().backward()
            w.data -= 0.1 * w.grad
    assert list(seen) == []


def test_a_gradient_check_is_right():
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with pullback.watch() as seen:
        torch.autograd.gradcheck(lambda x: x.exp() * x**2, x)
        torch.autograd.gradgradcheck(lambda x: x.exp() * x**2, x)
    assert list(seen) == []


def mean_of_a_slice(y):
    y.data[0].mul_(2)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda y: y.data.mul_(2), True),
        (lambda y: y.data.clamp_(0, 1), True),
        (mean_of_a_slice, True),
        (lambda y: y.data.clamp_(-99, 99), False),  # as it was
        (lambda y: y.data.clone().mul_(2), False),
        (lambda y: (y * 1).data.mul_(2), False),
        (lambda y: y.data.sum().mul_(2), False),
    ],
)
def test_an_edit_of_a_result_through_data(edit, found):
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    with pullback.watch() as seen:
        y = x.exp()
        edit(y)
        y.sum().backward()
    assert [finding.rule for finding in seen] == ["data-hides-changes"] * found
    assert torch.equal(x.grad, x.detach().exp()) is not found


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (lambda h: h**2, True),
        (lambda h: h * 3, False),
        (torch.relu, False),  # the signs are the same
        (lambda h: h.abs(), False),
        (lambda h: h.gather(0, torch.tensor([0, 2])), False),
        (lambda h: h.index_select(0, torch.tensor([0, 2])), False),
        (lambda h: nn.functional.max_pool1d(h[None], 2), False),
        (lambda h: nn.functional.log_softmax(h, 0), False),  # which keeps its result
        (lambda h: nn.functional.avg_pool2d(h[None, None], (1, 1)), False),
    ],
)
def test_an_edit_of_what_an_operation_has_taken(use, found):
    x, again = torch.tensor([0.5, 1.0, 2.0], requires_grad=True), None
    with pullback.watch() as seen:
        h = x * 1
        y = use(h)
        h.data.mul_(2)
        y.sum().backward()
    again = x.detach().clone().requires_grad_()
    use(again * 1).sum().backward()
    assert torch.equal(x.grad, again.grad) is not found
    assert [finding.rule for finding in seen] == ["data-hides-changes"] * found


def test_an_edit_through_data_before_it_is_used():
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    with pullback.watch() as seen:
        for _ in range(2):
            h = x * 1
            h.data.sign_()  # as a network of binary numbers does
            (h**2).sum().backward()
    assert list(seen) == []
