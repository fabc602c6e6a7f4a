"""What a backward starts from: constants in a loss, and means over tokens that count."""

import copy
import functools

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


def trained(loss_of):
    """Return what is found where a net is trained by a loss."""

    def program():
        net = a_net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(net).backward()
            optimizer.step()

    return found(program)


@pytest.mark.parametrize(
    "loss_of", [penalty, first_the_penalty, added_in_place, of_the_weights]
)
def test_a_penalty_that_is_a_constant(loss_of):
    (finding,) = trained(loss_of)
    assert finding.rule == PENALTY
    assert "torch.autograd.grad(" in finding.site.code
    assert finding.notes[-1].site.code == "loss_of(net).backward()"


def residual(net, *, then=lambda g: g, **options):
    x = X.clone().requires_grad_()
    u = net(x)
    (slope,) = torch.autograd.grad(u.sum(), x, retain_graph=True, **options)  # asks
    return (2 * then(slope)[:, :1] + u).square().mean()


def test_a_residual_whose_derivative_is_a_constant():
    (finding,) = trained(residual)
    assert finding.rule == PENALTY
    assert finding.site.code.endswith("# asks")
    assert finding.notes[0].site.code.startswith("return (2 * then(slope)")


def of_moved_weights(net):
    """A loss at weights that a step has moved, without second derivatives."""
    weights = dict(net.named_parameters())
    for _ in range(2):
        fit = torch.func.functional_call(net, weights, (X,)).square().mean()
        grads = torch.autograd.grad(fit, [*weights.values()])
        moved = zip(weights.items(), grads, strict=True)
        weights = {name: w - 0.1 * g for (name, w), g in moved}
    return torch.func.functional_call(net, weights, (X,)).square().mean()


def of_a_code(net):
    """A code that a net gives, and that a step makes better."""
    code = net[0](X)
    here = code.detach().requires_grad_()
    (slope,) = torch.autograd.grad(net[2](here.tanh()).sum(), here)
    return net[2](code - 0.1 * slope).square().mean()


@pytest.mark.parametrize(
    "loss_of",
    [
        functools.partial(residual, create_graph=True),
        functools.partial(residual, then=torch.Tensor.detach),
        of_moved_weights,
        of_a_code,
    ],
)
def test_a_gradient_in_a_sum_that_is_meant_so(loss_of):
    assert trained(loss_of) == []


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


# --- gradients that add up ------------------------------------------------------------


def test_a_gradient_that_was_not_cleared_and_one_that_was():
    for clear, found in ((True, 0), (False, 1)):
        w = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([w], lr=0.1)
        with pullback.watch() as seen:
            for _ in range(3):
                if clear:
                    optimizer.zero_grad(set_to_none=False)
                (w**2).sum().backward()
                optimizer.step()
        assert [f.page for f in seen] == ["gradients-accumulate"] * found


def test_sparse_gradients_that_accumulate():
    table = nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    with pullback.watch() as seen:
        for _ in range(3):
            table(torch.tensor([1, 1, 4])).square().sum().backward()
            optimizer.step()
    assert table.weight.grad.is_sparse
    assert seen.unseen == ()


# --- two gradients in one memory ------------------------------------------------------


ONE_MEMORY = "two-gradients-one-memory"
JOINED = {
    "views": lambda a, b: a[None] + b[None],
    "stack": lambda a, b: torch.stack([a, b]).sum(0),
    "transposed": lambda a, b: a.view(2, 1).T + b.view(2, 1).T,
}
APART = {
    "added": lambda a, b: (a + b)[None],
    "parts of one": lambda a, b: torch.cat([a, b]),
    "every other of one": lambda a, b: torch.stack([a, b], 1),
    "scaled": lambda a, b: a[None] + 2 * b[None],
    "of one alone": lambda a, b: a[None] + b.detach()[None],
}


def pair():
    return [nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0, 4.0]))]


def accumulated(a, b, join):
    for _ in range(2):
        join(a, b).square().sum().backward()


def clipped(a, b, join, foreach=False):
    join(a, b).square().sum().backward()
    params = [p for p in (a, b) if p.grad is not None]
    nn.utils.clip_grad_norm_(params, 1.0, foreach=foreach)


def unscaled(a, b, join):
    optimizer = torch.optim.SGD([a, b])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(join(a, b).square().sum()).backward()
    scaler.unscale_(optimizer)


def averaged(a, b, join):
    join(a, b).square().sum().backward()
    for p in (a, b):
        if p.grad is not None:
            p.grad /= 2


def kept_and_zeroed(a, b, join):
    optimizer = torch.optim.SGD([a, b])
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        join(a, b).square().sum().backward()


CHANGES = [
    accumulated,
    clipped,
    functools.partial(clipped, foreach=True),
    unscaled,
    averaged,
    kept_and_zeroed,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("join", [*JOINED, *APART])
def test_gradients_in_one_memory(join, change):
    """What is found is wrong, and what is wrong is found."""
    a, b = pair()
    with pullback.watch() as seen:
        change(a, b, (JOINED | APART)[join])
    right = pair()
    if join != "of one alone":
        right[1].register_hook(torch.clone)
    change(*right, (JOINED | APART)[join])
    found, expected = (
        [p.grad.tolist() for p in of if p.grad is not None] for of in ((a, b), right)
    )
    wrong = found != expected
    assert wrong == (join in JOINED)
    assert [finding.rule for finding in seen] == [ONE_MEMORY] * wrong
    if wrong:
        assert "The gradients of a and b lie in one memory" in seen[0].message
        assert seen[0].site.path == __file__


def steps_apart(a, b):
    optimizer = torch.optim.Adam([a, b])
    for _ in range(2):
        JOINED["views"](a, b).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def a_copy_by_a_hook(a, b):
    b.register_hook(torch.clone)
    accumulated(a, b, JOINED["views"])


def gradients_of_one_buffer(a, b):
    flat = torch.zeros(4)
    a.grad, b.grad = flat[:2], flat[2:]
    accumulated(a, b, JOINED["views"])
    flat /= 2


def one_of_them_scaled(x, b):
    JOINED["views"](x, b).square().sum().backward()
    x.grad /= x.grad.norm()


def limited(a, b):
    JOINED["views"](a, b).square().sum().backward()
    nn.utils.clip_grad_value_([a, b], 1.0)


def cleared_by_a_factor(a, b):
    JOINED["views"](a, b).square().sum().backward()
    for p in (a, b):
        p.grad *= 0


def gradients_of_another_model(a, b):  # as Hogwild shares them
    shared = pair()
    for p, q in zip((a, b), shared, strict=True):
        (p**2).sum().backward()
        q.grad = p.grad
    accumulated(a, b, APART["added"])


@pytest.mark.parametrize(
    "program",
    [
        steps_apart,
        a_copy_by_a_hook,
        gradients_of_one_buffer,
        one_of_them_scaled,
        limited,
        cleared_by_a_factor,
        gradients_of_another_model,
    ],
)
def test_gradients_in_one_memory_that_are_right(program):
    with pullback.watch() as seen:
        program(*pair())
    assert list(seen) == []
    assert seen.unseen == ()


# --- means of unequal batches ---------------------------------------------------------


@pytest.mark.parametrize(("by_hand", "found"), [(True, []), (False, [MEANS])])
def test_means_of_unequal_batches_that_are_weighted(by_hand, found):
    data, w = torch.arange(5.0), torch.zeros((), requires_grad=True)
    with pullback.watch() as seen:
        for batch in data.split(4):  # 4 and 1
            share = len(batch) / 5 if by_hand else 1 / 2
            (((w - batch) ** 2).mean() * share).backward()
    assert [finding.rule for finding in seen] == found


@pytest.mark.parametrize(("reduction", "found"), [("sum", []), ("mean", [MEANS])])
@pytest.mark.parametrize(
    "loss",
    [
        lambda y, **kw: nn.functional.mse_loss(y, torch.zeros_like(y), **kw),
        lambda y, **kw: nn.functional.cross_entropy(
            y, torch.zeros(len(y), dtype=int), **kw
        ),
        lambda y, **kw: nn.functional.binary_cross_entropy_with_logits(
            y, torch.ones_like(y), **kw
        ),
        lambda y, **kw: nn.functional.smooth_l1_loss(y, torch.zeros_like(y), **kw),
    ],
    ids=["squares", "cross-entropy", "logits", "smooth"],
)
def test_sums_of_unequal_batches_are_no_means(loss, reduction, found):
    data, w = torch.arange(10.0).reshape(5, 2), torch.ones(2, requires_grad=True)
    with pullback.watch() as seen:
        for batch in data.split(4):  # 4 and 1
            (loss(w * batch, reduction=reduction) / 5).backward()
    assert [finding.rule for finding in seen] == found


def test_a_gradient_check_is_no_step():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pullback.watch() as seen:
        for _ in range(3):
            w.square().sum().backward()
            torch.autograd.gradcheck(torch.exp, w)
    assert list(seen) == []
