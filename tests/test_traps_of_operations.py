"""Bounds and softmax: what is wrong is found, what is meant is not."""

import functools

import pytest
import torch
from torch import nn

import pullback

SCORES = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]])
LABELS = torch.tensor([0, 2])


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda y: nn.functional.cross_entropy(y.softmax(1), LABELS), 1),
        (lambda y: nn.functional.cross_entropy(y.sigmoid().double(), LABELS), 1),
        (lambda y: nn.BCEWithLogitsLoss()(y.sigmoid(), torch.ones(2, 3)), 1),
        (lambda y: nn.functional.nll_loss(y.softmax(1), LABELS), 1),
        (lambda y: nn.NLLLoss()(y @ torch.eye(3), LABELS), 1),
        (lambda y: nn.NLLLoss()(y.log_softmax(1), LABELS), 0),
        (lambda y: nn.NLLLoss()((y.softmax(1) / 2 + 0.1).log(), LABELS), 0),
        (lambda y: nn.CrossEntropyLoss()(y, SCORES.softmax(1)), 0),
        (lambda y: nn.CrossEntropyLoss()(y.softmax(1) @ torch.eye(3), LABELS), 0),
        (lambda y: nn.BCELoss()(y.sigmoid(), torch.ones(2, 3)), 0),
        (lambda y: nn.KLDivLoss(reduction="sum")(y.softmax(1), SCORES.softmax(1)), 1),
        (lambda y: nn.KLDivLoss(reduction="sum")(y.log_softmax(1), SCORES.softmax(1)), 0),
        (lambda y: y.softmax(1).log_softmax(1).sum(), 0),  # no loss; it may be meant
    ],
)
def test_what_a_loss_wants(loss, found):
    with pullback.watch() as seen:
        loss(SCORES.clone().requires_grad_() * 1).backward()
    assert [f.rule for f in seen] == ["probabilities-for-scores"] * found


def test_attention_to_one_token_is_right():
    q = torch.randn(1, 2, 1, 4, requires_grad=True)
    with pullback.watch() as seen:
        nn.functional.scaled_dot_product_attention(q, q * 2, q * 3).sum().backward()
        (q @ q.transpose(-1, -2)).softmax(-1).matmul(q).sum().backward()
        q.sum().softmax(0).backward()
    assert list(seen) == []
    assert seen.unseen == ()


def test_a_v_that_overflowed_is_not_ones_into_a_softmax():
    x = torch.zeros(1, 3, requires_grad=True)
    with pullback.watch() as seen:
        (1e38 * x.softmax(1)).sum().backward(torch.tensor(1e3))  # inf for each entry
    assert {finding.rule for finding in seen} == {"not-finite"}


def test_an_activation_of_a_leaf_is_no_clamp():
    x = torch.tensor([-2.0, 0.5, 8.0], requires_grad=True)
    with pullback.watch() as seen:
        (nn.ReLU6()(x) + nn.Hardtanh()(x)).sum().backward()
    assert list(seen) == []


def test_one_bound_of_a_leaf_is_a_guard():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with pullback.watch() as seen:
        x.clamp(min=1e-6).sqrt().sum().backward()
    assert list(seen) == []


def test_an_ensemble_of_batch_norms_writes_its_statistics():
    models = [nn.BatchNorm1d(2) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    call = functools.partial(torch.func.functional_call, models[0])
    x = torch.arange(8.0).reshape(4, 2)
    with pullback.watch() as seen:
        out = torch.vmap(lambda p, b: call((p, b), (x,)))(parameters, buffers)
        out.square().sum().backward()
    assert list(seen) == []


def sgd(p):
    p = p - 0.1 * p.grad


def sgd_by_add(p):
    p = torch.add(p, p.grad, alpha=-0.1)


def new_leaf(p):
    p = (p - 0.1 * p.grad).requires_grad_()


def into_data(p):
    old = p
    p = p - 0.1 * p.grad
    old.data = p


def copied_back(p):
    old = p
    p = p - 0.1 * p.grad
    old.data.copy_(p)


def in_place(p):
    p -= 0.1 * p.grad


def looked_at(p):
    shown = (p - 0.1 * p.grad).tolist()
    assert len(shown)


def measured(p):
    p = p - 0.1 * p.grad
    assert p.isfinite().all()


@pytest.mark.parametrize(
    ("update", "found"),
    [
        (sgd, True),
        (sgd_by_add, True),
        (new_leaf, True),
        (into_data, False),
        (copied_back, False),
        (in_place, False),
        (looked_at, False),
        (measured, False),
    ],
)
def test_an_update_that_is_dropped(update, found):
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    before = net[0].weight.detach().clone()
    with pullback.watch() as seen:
        for _ in range(3):
            net.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            with torch.no_grad():
                for p in net.parameters():
                    update(p)
    assert [finding.rule for finding in seen] == ["update-makes-a-new-tensor"] * found
    if found:
        assert seen[0].message.startswith("The update of 0.weight makes a new tensor")
        assert torch.equal(before, net[0].weight)


def test_an_update_after_the_last_backward_is_nothing_yet():
    w = torch.ones(3, requires_grad=True)
    with pullback.watch() as seen:
        w.square().sum().backward()
        with torch.no_grad():
            w = w - 0.1 * w.grad
    assert list(seen) == []


def test_fast_weights_are_used():
    net, model = nn.Linear(3, 1), torch.func.functional_call
    with pullback.watch() as seen:
        for _ in range(3):
            net.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            fast = {}
            with torch.no_grad():
                for name, p in net.named_parameters():
                    p = p - 0.1 * p.grad
                    fast[name] = p
                model(net, fast, (torch.ones(4, 3),))
    assert list(seen) == []


def to_a_name(teacher, net, made):
    for old, new in zip(teacher.parameters(), net.parameters(), strict=True):
        old = 0.9 * old + 0.1 * new


def to_a_name_by_lerp(teacher, net, made):
    for old, new in zip(teacher.parameters(), net.parameters(), strict=True):
        old = old.lerp(new, 0.1)


def into_the_teacher(teacher, net, made):
    for old, new in zip(teacher.parameters(), net.parameters(), strict=True):
        old.mul_(0.9).add_(new, alpha=0.1)


def put_back(teacher, net, made):
    for name, old in teacher.named_parameters():
        place = old
        old = 0.9 * old + 0.1 * net.get_parameter(name)
        place.copy_(old)


def kept_elsewhere(teacher, net, made):
    for name, old in teacher.named_parameters():
        old = 0.9 * old + 0.1 * net.get_parameter(name)
        made[name] = old
    torch.func.functional_call(teacher, made, (torch.ones(1, 3),))


def shown(teacher, net, made):
    for old in teacher.parameters():
        old = old - old.mean()
        made[old.shape] = old.numpy()


@pytest.mark.parametrize(
    ("average", "found"),
    [
        (to_a_name, 1),
        (to_a_name_by_lerp, 1),
        (into_the_teacher, 0),
        (put_back, 0),
        (kept_elsewhere, 0),
        (shown, 0),
    ],
)
def test_an_average_of_parameters_that_nothing_uses(average, found):
    net, teacher = nn.Linear(3, 1), nn.Linear(3, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                average(teacher, net, {})
    assert [f.rule for f in seen] == ["update-makes-a-new-tensor"] * found
    assert all("the name old is given" in f.message for f in seen)


@pytest.mark.parametrize(
    ("draw", "fix"),
    [
        (lambda p: torch.bernoulli(p.sigmoid()), "p + (torch.bernoulli(p) - p).detach()"),
        (lambda p: torch.normal(p, 1.0), "torch.randn_like(mean)"),
        (lambda p: p + torch.randn_like(p), ""),
        (lambda p: (p * 1).normal_(), ""),
    ],
)
def test_a_draw_passes_zeros_on(draw, fix):
    p = torch.zeros(3, requires_grad=True)
    with pullback.watch() as seen:
        (draw(p) * 2).sum().backward()
    found = [f for f in seen if f.rule == "rounding-has-gradient-zero"]
    assert [fix in f.fix for f in found] == [True] * bool(fix)
    assert seen.unseen == ()
