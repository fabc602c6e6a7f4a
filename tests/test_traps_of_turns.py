"""Optimizers that take turns: a gradient that another loss has left is named."""

import copy

import pytest
import torch
from torch import nn
from watched import at, lines_of

import pullback

here = lines_of(__file__)
RULE = "gradient-of-another-loss"
Z, REAL = torch.linspace(-1, 1, 8).reshape(4, 2), torch.ones(4, 3)
STEPS = 3


def net_of(a, b):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(a, 4), nn.Tanh(), nn.Linear(4, b))


def sgd(*nets):
    return torch.optim.SGD([p for net in nets for p in net.parameters()], lr=0.1)


class Game:
    """A maker and a judge, the step of each, and an optimizer for each."""

    def __init__(self):
        self.maker, self.judge = net_of(2, 3), net_of(3, 1)
        self.of_maker, self.of_judge = sgd(self.maker), sgd(self.judge)

    def make(self):
        (-self.judge(self.maker(Z)).mean()).backward()  # leaves something
        self.of_maker.step()

    def compare(self):
        fake = self.maker(Z).detach()
        (self.judge(fake) - self.judge(REAL)).mean().backward()  # adds to it
        self.of_judge.step()

    def clear(self):
        self.of_maker.zero_grad()
        self.of_judge.zero_grad()


def found(program):
    with pullback.watch() as seen:
        program(Game())
    assert seen.unseen == ()
    return [f for f in seen if f.rule == RULE]


def cleared_at_the_top(game):
    for _ in range(STEPS):
        game.clear()
        game.make()
        game.compare()


def cleared_after_its_step(game):
    for _ in range(STEPS):
        game.of_maker.zero_grad()
        game.make()
        game.compare()
        game.of_judge.zero_grad()


def cleared_to_zeros(game):
    for _ in range(STEPS):
        game.of_maker.zero_grad(set_to_none=False)
        game.of_judge.zero_grad(set_to_none=False)
        game.make()
        game.compare()


def a_maker_of_several_steps(game):
    for _ in range(STEPS):
        game.clear()
        for _ in range(2):
            game.of_maker.zero_grad()
            game.make()
        game.compare()


def clipped(game):
    for _ in range(STEPS):
        game.clear()
        game.make()
        fake = game.maker(Z).detach()
        (game.judge(fake) - game.judge(REAL)).mean().backward()  # clipped afterwards
        nn.utils.clip_grad_norm_(game.judge.parameters(), 0.1)
        game.of_judge.step()


def two_losses_of_the_judge(game):
    for _ in range(STEPS):
        game.clear()
        game.make()
        game.judge(game.maker(Z).detach()).mean().backward()
        (-game.judge(REAL).mean()).backward()
        game.of_judge.step()


WRONG = [
    cleared_at_the_top,
    cleared_after_its_step,
    cleared_to_zeros,
    a_maker_of_several_steps,
    clipped,
    two_losses_of_the_judge,
]


@pytest.mark.parametrize("program", WRONG, ids=lambda f: f.__name__)
def test_a_judge_that_steps_along_the_loss_of_the_maker(program):
    (finding,) = found(program)
    assert at(finding.notes[0].site) == here("leaves something")
    assert "0.weight of Sequential 2, 0.bias of Sequential 2" in finding.message


def test_the_line_that_adds():
    (finding,) = found(cleared_at_the_top)
    assert at(finding.site) == here("adds to it")


# --- right ----------------------------------------------------------------------------


def each_before_its_own(game):
    for _ in range(STEPS):
        game.of_maker.zero_grad()
        game.make()
        game.of_judge.zero_grad()
        game.compare()


def the_judge_first(game):
    for _ in range(STEPS):
        game.of_judge.zero_grad()
        game.compare()
        game.of_maker.zero_grad()
        game.make()


def zeros_in_between(game):
    for _ in range(STEPS):
        game.of_maker.zero_grad()
        game.make()
        game.of_judge.zero_grad(set_to_none=False)
        game.compare()


def a_judge_at_rest(game):
    for _ in range(STEPS):
        game.clear()
        game.judge.requires_grad_(False)
        game.make()
        game.judge.requires_grad_(True)
        game.compare()


def restored_by_hand(game):
    for _ in range(STEPS):
        game.clear()
        kept = [p.grad for p in game.judge.parameters()]
        game.make()
        for p, g in zip(game.judge.parameters(), kept, strict=True):
            p.grad = g
        game.compare()


def once_at_the_beginning(game):
    game.make()
    game.compare()
    each_before_its_own(game)


def both_losses_then_both_steps(game):
    """What one optimizer's step would spoil: the sum is meant."""
    for _ in range(STEPS):
        game.clear()
        fake = game.maker(Z)
        (-game.judge(fake).mean()).backward()
        (game.judge(fake.detach()) - game.judge(REAL)).mean().backward()
        game.of_maker.step()
        game.of_judge.step()


def microbatches(game):
    """The judge accumulates over several steps of the maker, on one line."""
    for step in range(2 * STEPS):
        game.of_maker.zero_grad()
        game.judge(game.maker(Z)).mean().backward()
        game.of_maker.step()
        if step % 2:
            game.of_judge.step()
            game.of_judge.zero_grad()


def two_heads_on_one_body(game):
    """Each head steps at once, and the body along the sum of both."""
    body, heads = net_of(2, 3), (net_of(3, 1), net_of(3, 1))
    of_body, of_heads = sgd(body), [sgd(head) for head in heads]
    for _ in range(STEPS):
        of_body.zero_grad()
        of_heads[0].zero_grad()
        of_heads[1].zero_grad()
        heads[0](body(Z)).square().mean().backward()
        of_heads[0].step()
        heads[1](body(Z)).exp().mean().backward()
        of_heads[1].step()
        of_body.step()


def a_head_beside_the_main_one(game):
    """The body of the main optimizer learns from the loss of another head, too."""
    body, head, main = net_of(2, 3), net_of(3, 1), net_of(3, 1)
    of_main, of_head = sgd(body, main), sgd(head)
    for _ in range(STEPS):
        of_main.zero_grad()
        of_head.zero_grad()
        head(body(Z)).square().mean().backward()
        of_head.step()
        main(body(Z)).exp().mean().backward()
        of_main.step()


def unknowns_in_turns(game):
    """Both see both losses: each step moves one block."""
    for _ in range(STEPS):
        game.of_maker.zero_grad()
        game.judge(game.maker(Z)).square().mean().backward()
        game.of_maker.step()
        game.of_judge.zero_grad()
        game.judge(game.maker(Z)).square().mean().backward()
        game.of_judge.step()


def an_actor_and_a_critic(game):
    target = copy.deepcopy(game.judge)
    for _ in range(STEPS):
        goal = target(REAL).detach()
        game.of_judge.zero_grad()
        (game.judge(REAL) - goal).square().mean().backward()
        game.of_judge.step()
        game.of_maker.zero_grad()
        (-game.judge(game.maker(Z)).mean()).backward()
        game.of_maker.step()
        with torch.no_grad():
            for p, q in zip(target.parameters(), game.judge.parameters(), strict=True):
                p.lerp_(q, 0.1)


RIGHT = [
    each_before_its_own,
    the_judge_first,
    zeros_in_between,
    a_judge_at_rest,
    restored_by_hand,
    once_at_the_beginning,
    both_losses_then_both_steps,
    microbatches,
    two_heads_on_one_body,
    a_head_beside_the_main_one,
    unknowns_in_turns,
    an_actor_and_a_critic,
]


@pytest.mark.parametrize("program", RIGHT, ids=lambda f: f.__name__)
def test_optimizers_that_take_turns_and_are_right(program):
    assert found(program) == []
