"""Around a step: clipping that meets no gradients, and hooks that pile up."""

import functools

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from watched import at, lines_of

import pullback
from pullback._watch import traps_of_steps

here = lines_of(__file__)

CLIPPED, HOOK = "clipped-before-backward", "hook-in-every-step"
X = torch.tensor([[0.5, -1.0, 2.0]])


def found(program, rule):
    with pullback.watch() as seen:
        program()
    assert seen.unseen == ()
    return [f for f in seen if f.rule == rule]


def a_net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.01)


def loss_of(net):
    return (net(X) - 1).square().sum()


# --- clipping -------------------------------------------------------------------------


def clipped_too_early(to_none=True, clip=clip_grad_norm_):
    net = a_net()
    optimizer = sgd(net)
    loss_of(net).backward()  # clip_grad_value_ raises where there are none at all
    for _ in range(3):
        optimizer.zero_grad(set_to_none=to_none)
        clip([*net.parameters()], 1.0)
        loss_of(net).backward()
        optimizer.step()


def clipped_after_the_step():
    net = a_net()
    optimizer = sgd(net)
    for _ in range(3):
        loss_of(net).backward()
        optimizer.step()
        optimizer.zero_grad()
        clip_grad_norm_(net.parameters(), 1.0)


@pytest.mark.parametrize(
    "program",
    [
        clipped_too_early,
        functools.partial(clipped_too_early, False),
        functools.partial(clipped_too_early, False, clip_grad_value_),
        clipped_after_the_step,
    ],
)
def test_clipping_that_meets_no_gradients(program):
    (finding,) = found(program, CLIPPED)
    assert "clip" in finding.site.code
    assert [note.site.code for note in finding.notes] == [
        "loss_of(net).backward()",
        "optimizer.step()",
    ]


def in_its_place():
    net = a_net()
    optimizer = sgd(net)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(net).backward()
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def before_the_next_step():
    """The order of the loop is turned; only the first round has no gradients."""
    net = a_net()
    optimizer = sgd(net)
    for _ in range(4):
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss_of(net).backward()


def of_a_frozen_part():
    net, frozen = a_net(), a_net().requires_grad_(False)
    optimizer = torch.optim.SGD([*net.parameters(), *frozen.parameters()], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(net).backward()
        clip_grad_norm_(frozen.parameters(), 1.0)
        optimizer.step()


def of_two_in_turn():
    """Each is clipped in each round, also when only the other has gradients."""
    nets = a_net(), a_net()
    optimizers = [sgd(net) for net in nets]
    for step in range(6):
        net = nets[step % 2]
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(net).backward()
        for other in nets:
            clip_grad_norm_(other.parameters(), 1.0)
        optimizers[step % 2].step()


def accumulated():
    net = a_net()
    optimizer = sgd(net)
    for step in range(8):
        loss_of(net).backward()
        if step % 2:
            clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def a_gradient_of_zeros():
    w = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        w.square().sum().backward()
        clip_grad_norm_([w], 1.0)
        optimizer.step()


def clipped_twice():
    """A second clipping stands where it belongs."""
    net = a_net()
    optimizer = sgd(net)
    for _ in range(3):
        optimizer.zero_grad()
        clip_grad_norm_(net.parameters(), 5.0)
        loss_of(net).backward()
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def a_look_before_the_training():
    net = a_net()
    optimizer = sgd(net)
    clip_grad_norm_(net.parameters(), 1.0)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "program",
    [
        in_its_place,
        before_the_next_step,
        of_a_frozen_part,
        of_two_in_turn,
        accumulated,
        a_gradient_of_zeros,
        clipped_twice,
        a_look_before_the_training,
    ],
)
def test_clipping_that_is_right(program):
    assert found(program, CLIPPED) == []


class Sharded(torch.Tensor):
    """A kind of tensor that is not for us to look into, as where it is shared out."""


def test_gradients_of_another_kind_are_taken_to_be_there():
    zeros = torch.zeros(2).as_subclass(Sharded)
    assert [traps_of_steps._counts(g) for g in (None, torch.zeros(2), zeros)] == [
        False,
        False,
        True,
    ]


# --- hooks ----------------------------------------------------------------------------


def halved(g):
    return g / 2


class Keeps:
    """An object with a method for a hook."""

    def keep(self, *given):
        self.last = given


def steps(net, each, count=6):
    optimizer = sgd(net)
    for step in range(count):
        taken_away = each(net, step)
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()
        if taken_away is not None:
            taken_away.remove()


def on_a_parameter(net, step):
    net[0].weight.register_hook(halved)


def after_accumulation(net, step):
    net[0].weight.register_post_accumulate_grad_hook(lambda p: None)


def on_a_module(net, step):
    net[1].register_forward_hook(Keeps().keep)


def with_an_argument(net, step):
    net[2].register_full_backward_hook(functools.partial(lambda n, *given: None, step))


@pytest.mark.parametrize(
    ("each", "name"),
    [
        (on_a_parameter, "halved hangs on 0.weight 4 times"),
        (after_accumulation, "<lambda> hangs on 0.weight 4 times"),
        (on_a_module, "keep hangs on 1 4 times"),
        (with_an_argument, "<lambda> hangs on 2 4 times"),
    ],
)
def test_a_hook_that_is_registered_in_every_step(each, name):
    (finding,) = found(lambda: steps(a_net(), each), HOOK)
    assert name in finding.message
    assert finding.site.path == __file__
    assert [note.site.code for note in finding.notes] == ["optimizer.step()"]


def once(net, step):
    if step == 0:
        net[0].weight.register_hook(halved)


def thrice_at_once(net, step):
    if step == 0:
        for _ in range(3):
            net[0].weight.register_hook(halved)


def taken_away(net, step):
    return net[0].weight.register_hook(halved)


def one_more_for_each_layer(net, step):
    """Another parameter in each step, and each has one."""
    [*net.parameters()][step % 4].register_hook(halved) if step < 4 else None


def now_and_then(net, step):
    """One more in each epoch of two steps."""
    if step % 2 == 0:
        net[0].weight.register_hook(halved)


@pytest.mark.parametrize(
    "each", [once, thrice_at_once, taken_away, one_more_for_each_layer, now_and_then]
)
def test_hooks_that_do_not_pile_up(each):
    assert found(lambda: steps(a_net(), each, 8), HOOK) == []


def test_hooks_on_what_the_loop_computes_go_with_it():
    def program():
        net = a_net()
        optimizer = sgd(net)
        for _ in range(6):
            optimizer.zero_grad()
            y = net(X)
            y.register_hook(halved)
            y.sum().backward()
            optimizer.step()

    assert found(program, HOOK) == []


@pytest.mark.parametrize("rule", [CLIPPED, HOOK])
def test_each_can_be_turned_off(rule):
    with pullback.watch(without=[rule]) as seen:
        clipped_too_early()
        steps(a_net(), on_a_parameter)
    assert {f.rule for f in seen} == {CLIPPED, HOOK} - {rule}


# --- evaluation mode ------------------------------------------------------------------


def net_that_drops():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))


def each_epoch_in(*modes):
    """Train in each of some modes of a network, in turn, from one line."""
    net = net_that_drops()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for mode in modes:
        mode(net)
        optimizer.zero_grad()
        net(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()


def evaluate_one(net):
    net.train()
    net[1].eval()


@pytest.mark.parametrize(
    ("modes", "found"),
    [
        ([nn.Module.train, nn.Module.eval, nn.Module.eval], 1),
        ([nn.Module.train, nn.Module.eval, nn.Module.train, nn.Module.eval], 0),
        ([nn.Module.eval] * 4, 0),  # fine-tuned in evaluation mode
        ([nn.Module.train, evaluate_one, evaluate_one, evaluate_one], 0),
    ],
)
def test_evaluation_mode_that_stays_on(modes, found):
    with pullback.watch() as seen:
        each_epoch_in(*modes)
    assert [f.rule for f in seen] == ["evaluation-mode-stays-on"] * found


def test_attacks_in_evaluation_mode_are_right():
    net = net_that_drops()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def loss_of(x):
        return net(x).square().mean()

    with pullback.watch() as seen:
        for _ in range(4):
            x = torch.randn(4, 3, requires_grad=True)
            net.eval()
            loss_of(x).backward()
            net.train()
            optimizer.zero_grad()
            loss_of((x + x.grad.sign()).detach()).backward()
            optimizer.step()
    assert list(seen) == []


# --- cleared, and clipped while scaled ------------------------------------------------


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_cleared_before_the_step(to_none):
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        for _ in range(3):
            net(torch.ones(2, 3)).sum().backward()  # filled here
            optimizer.zero_grad(set_to_none=to_none)
            optimizer.step()  # in vain here
    (finding,) = seen
    assert at(finding.site) == here("in vain here")
    assert [at(note.site) for note in finding.notes] == [here("filled here")]


def test_gradients_that_are_put_together_by_hand_are_not_cleared():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    total = [torch.zeros_like(p) for p in net.parameters()]
    with pullback.watch() as seen:
        for step in range(4):
            for x in torch.ones(2, 1, 3):
                optimizer.zero_grad(set_to_none=step < 2)
                net(x).sum().backward()
                torch._foreach_add_(total, [p.grad for p in net.parameters()])
            optimizer.zero_grad(set_to_none=step < 2)
            for p, g in zip(net.parameters(), total, strict=True):
                if step < 2:
                    p.grad = g.clone()
                else:
                    p.grad.add_(g)
            optimizer.step()
        optimizer.zero_grad()
        optimizer.step()  # without a backward in between
        optimizer.step()
    assert list(seen) == []


@pytest.mark.parametrize(("unscaled", "found"), [(True, 0), (False, 1)])
def test_gradients_that_are_clipped_while_they_are_scaled(unscaled, found):
    net, scaler = nn.Linear(3, 1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.Adam(net.parameters())
    with pullback.watch() as seen:
        for _ in range(3):  # in the second, gradients may lie where clipped ones lay
            optimizer.zero_grad()
            scaler.scale(net(torch.ones(2, 3)).square().sum()).backward()
            if unscaled:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # clipped here
            scaler.step(optimizer)
            scaler.update()
    assert [at(f.site) for f in seen] == [here("clipped here")] * found
