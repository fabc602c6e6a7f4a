"""What a backward starts from: constants in a loss, and means over tokens that count."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import pullback

PENALTY, MEANS = "penalty-without-a-graph", "mean-of-unequal-batches"
X = torch.linspace(-1, 1, 12).reshape(4, 3)


def found(program, *arguments):
    with pullback.watch() as seen:
        program(*arguments)
    assert seen.unseen == ()
    return list(seen)


def a_net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def slope_of(net, x, **options):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(net(x).sum(), x, **options)[0]


# --- a constant in the loss -----------------------------------------------------------


def penalty(net):
    return net(X).mean() + 10 * ((slope_of(net, X).norm(dim=1) - 1) ** 2).mean()


def first_the_penalty(net):
    weight = torch.tensor(3.0)
    return weight * slope_of(net, X, retain_graph=True).square().sum() - net(X).mean()


def added_in_place(net):
    loss = net(X).square().mean()
    loss += slope_of(net, X).abs().mean()
    return loss / 2


def of_the_weights(net):
    fit = net(X).square().mean()
    grads = torch.autograd.grad(fit, [*net.parameters()], retain_graph=True)
    return fit + 0.1 * sum(g.square().sum() for g in grads)


@pytest.mark.parametrize(
    "loss_of", [penalty, first_the_penalty, added_in_place, of_the_weights]
)
def test_a_penalty_that_is_a_constant(loss_of):
    def program():
        net = a_net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(net).backward()
            optimizer.step()

    (finding,) = found(program)
    assert finding.rule == PENALTY
    assert "torch.autograd.grad(" in finding.site.code
    assert finding.notes[-1].site.code == "loss_of(net).backward()"


def with_a_graph(net):
    return net(X).mean() + (slope_of(net, X, create_graph=True).norm() - 1) ** 2


def an_attack(net):
    x = X + 0.1 * slope_of(net, X).sign()
    return net(x).square().mean()


def of_first_order(net):
    """A step of MAML that leaves the second derivatives out."""
    w = net[2].bias
    (g,) = torch.autograd.grad(net(X).square().mean(), w)
    moved = (w - 0.1 * g).sum()
    return (net[:2](X).sum(1) + moved).square().mean()


def a_balance(net):
    """A weight that is the ratio of two gradients."""
    first, second = net(X).square().mean(), net(X).abs().mean()
    norms = [
        torch.autograd.grad(of, net[2].weight, retain_graph=True)[0].norm()
        for of in (first, second)
    ]
    return first + norms[0] / norms[1] * second


def a_target(net):
    """The slope of a teacher, which is not trained."""
    teacher = copy.deepcopy(net).requires_grad_(False)
    return (slope_of(net, X, create_graph=True) - slope_of(teacher, X)).square().mean()


def a_fixed_energy(net):
    energy = slope_of(lambda x: x.pow(3), X).square().mean()
    return net(X).mean() + energy


def meant_by_detach(net):
    exact = slope_of(net, X, create_graph=True).norm()
    return net(X).mean() + exact.detach()


def under_no_grad(net):
    slope = slope_of(net, X)
    with torch.no_grad():
        size = slope.norm()
    return net(X).mean() + size


def shown_and_not_used(net):
    loss = net(X).mean()
    shown = loss + slope_of(net, X).norm()
    assert shown.item() != loss.item()
    return loss


def behind_a_square(net):
    """The constant counts there: it is a factor of the gradient."""
    return (net(X).mean() + slope_of(net, X).norm()) ** 2


@pytest.mark.parametrize(
    "loss_of",
    [
        with_a_graph,
        an_attack,
        of_first_order,
        a_balance,
        a_target,
        a_fixed_energy,
        meant_by_detach,
        under_no_grad,
        shown_and_not_used,
        behind_a_square,
    ],
)
def test_gradients_in_a_loss_that_are_right(loss_of):
    def program():
        net = a_net()
        for _ in range(3):
            net.zero_grad()
            loss_of(net).backward()

    assert [f.rule for f in found(program) if f.rule == PENALTY] == []


def test_the_rule_about_penalties_can_be_turned_off():
    with pullback.watch(without=[PENALTY]) as seen:
        penalty(a_net()).backward()
    assert list(seen) == []


# --- means over tokens ----------------------------------------------------------------


def accumulate(lengths, weigh):
    """Add up the gradients of equal pieces, of which some tokens do not count."""
    torch.manual_seed(0)  # any scores do
    net, inputs = nn.Linear(3, 5), torch.randn(len(lengths), 4, 3)
    targets = torch.zeros(len(lengths), 4, dtype=int)
    for row, length in zip(targets, lengths, strict=True):
        row[length:] = -100
    counted = (targets != -100).sum()
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(net(x), y)
        share = (y != -100).sum() / counted if weigh else 1 / len(lengths)
        (loss * share).backward()


@pytest.mark.parametrize(
    ("lengths", "weigh", "expected"),
    [
        ((4, 1), False, [MEANS]),
        ((4, 1), True, []),
        ((3, 3), False, []),
        ((4, 4), False, []),
    ],
)
def test_tokens_that_do_not_count(lengths, weigh, expected):
    seen = found(accumulate, lengths, weigh)
    assert [f.rule for f in seen] == expected
    assert all("over 4 and over 1 numbers" in f.message for f in seen)


def test_weights_of_classes_are_no_number_of_tokens():
    def program():
        net, weight = nn.Linear(3, 5), torch.linspace(0.1, 1.0, 5)
        for classes in ([0, 1, 2, 3], [4, 4, 4, 4]):
            cross_entropy(net(X), torch.tensor(classes), weight=weight).backward()

    assert found(program) == []
