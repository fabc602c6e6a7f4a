"""Shapes (N, 1) and (N,): each line is found where they meet by mistake, and no other."""

import pytest
import torch
from torch import nn
from watched import lines_of

import pullback

here = lines_of(__file__)


@pytest.mark.parametrize("enabled", [True, False])
def test_every_pair_that_is_meant_is_no_loss(enabled):
    x, centres = torch.ones(4), nn.Parameter(torch.ones(4))
    with pullback.watch() as seen, torch.set_grad_enabled(enabled):
        (x[:, None] - centres).exp().sum()
        (centres - x.view(-1, 1)).exp().sum()
        (x - centres[:, None]).exp().sum()
    assert list(seen) == []


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
@pytest.mark.parametrize(("shape", "found"), [((4,), ["loss-broadcast"]), ((4, 1), [])])
def test_a_loss_of_torch_that_stretches_its_target(loss, shape, found):
    with pullback.watch() as seen:
        y = nn.Linear(3, 1)(torch.ones(4, 3))
        getattr(nn.functional, loss)(y, torch.ones(shape)).backward()
    assert [finding.rule for finding in seen] == found


N = 6


def column(*, seed=0):
    """Return what a model gives for each sample: a column by itself, with a graph."""
    torch.manual_seed(seed)
    return nn.Linear(3, 1)(torch.randn(N, 3))


def row():
    """Return a loss for each sample, with a graph."""
    scores = nn.Linear(3, 4)(torch.randn(N, 3))
    return nn.functional.cross_entropy(scores, torch.arange(N) % 4, reduction="none")


def sites(seen):
    return {(finding.rule, finding.site.line) for finding in seen}


@pytest.mark.parametrize(
    "loss",
    [
        lambda: (row() * torch.rand(N, 1)).mean(),
        lambda: (torch.rand(N, 1) * row()).sum() / N,
        lambda: -(row() * torch.rand(N, 1)).mean((0, 1)),
        lambda: (row() / torch.rand(N, 1).add(1)).mean(),
        lambda: (column().square() * torch.rand(N)).mean(),
        lambda: torch.min(row() * torch.rand(N, 1), row().clamp(0.8, 1.2)).mean(),
        lambda: torch.where(torch.rand(N, 1) > 0, row(), torch.zeros(N)).sum(),
        lambda: (torch.rand(N, 1).unsqueeze(0)[0] * (row() * 2 + 1).abs()).mean(),
    ],
)
def test_weights_that_meet_every_loss(loss):
    with pullback.watch() as seen:
        loss().backward()
    assert len({finding.site for finding in seen}) == 1
    assert {finding.rule for finding in seen} <= {"weights-broadcast", "loss-broadcast"}


@pytest.mark.parametrize(
    "loss",
    [
        lambda: (row() * torch.rand(N)).mean(),
        lambda: (column() * torch.rand(N, 1)).mean(),
        lambda: (row() * torch.rand(N)[:, None]).mean(),  # all pairs, as it says
        # tables of all pairs that are used as such
        lambda: (row() * column() * torch.rand(N, N)).sum(),
        lambda: (row() * column() - torch.rand(N, N)).square().mean(),
        lambda: (row() * column()).sum(1).square().sum(),
        lambda: (row() + column()).softmax(1).matmul(torch.rand(N, N)).sum(),
        lambda: nn.functional.leaky_relu(row() + column()).softmax(1).square().mean(),
        lambda: (column() - column(seed=1).T).square().mean(),
        lambda: torch.cdist(column(), torch.rand(N, 1)).mean(),
        lambda: (row() * torch.rand(N, 1)).logsumexp(1).mean(),
        lambda: (-(row() * column())).exp().mean(),
        # a margin between all pairs
        lambda: (1 - (column() - row())).relu().mean(),
        # normalised, and positions
        lambda: (torch.rand(N, N) / column().square().add(1).sqrt()).mean(),
        lambda: (torch.arange(N).view(-1, 1) * torch.rand(N) + row()).sin().sum(),
        # as many features as samples
        lambda: (torch.rand(N, 1) * nn.Parameter(torch.ones(N)) + 1).relu().mean(),
        lambda: nn.LayerNorm(N)(torch.rand(N, N)).mean() + column().mean(),
    ],
)
def test_pairs_that_are_meant_are_no_weights(loss):
    with pullback.watch() as seen:
        loss().backward()
    assert list(seen) == []


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_critic_of_columns_is_named_wherever_it_meets_a_row(squeeze):
    r, logp = torch.randn(N), row()
    with pullback.watch() as seen:
        values = column()
        values = values.squeeze(1) if squeeze else values
        with torch.no_grad():
            target = r + 0.9 * (values * 2)  # target
        advantage = target - values.detach()  # advantage
        advantage = (advantage - advantage.mean()) / advantage.std()
        (-(logp * advantage).mean() + (target - values).square().mean()).backward()  # both
    expected = {here("target")[1], here("advantage")[1], here("both")[1]}
    assert {line for _, line in sites(seen)} == (set() if squeeze else expected)
    if not squeeze:
        assert all(".squeeze(1)" in finding.fix for finding in seen)
        assert "values.squeeze(1)" in seen[-1].fix


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_of_torch_on_what_became_a_square():
    with pullback.watch() as seen:
        values = column()
        target = torch.randn(N) + values.detach().mul(0.9)  # sum
        nn.functional.mse_loss(values, target).backward()  # loss
    assert {line for _, line in sites(seen)} == {here("sum")[1], here("loss")[1]}


@pytest.mark.parametrize("rule", ["weights-broadcast", "loss-broadcast"])
def test_either_page_can_be_left_out(rule):
    with pullback.watch(without=[rule]) as seen:
        values = column()
        (row() * torch.rand(N, 1)).mean().backward()
        (values - torch.rand(N)).square().mean().backward()
    assert rule not in {finding.rule for finding in seen}
    assert len(seen) == 1
