"""Where backward refuses: the line that cut a graph off, or leads into an old one."""

from contextlib import nullcontext, suppress

import pytest
import torch
from torch import nn
from watched import at, lines_of

import pullback

here = lines_of(__file__)


def of_integers(net, x):
    return (net(x) > 0).float().mean()  # a comparison here


def of_numbers(net, x):
    return torch.tensor([net(row).item() for row in x]).mean()  # numbers here


def of_no_grad(net, x):
    with torch.no_grad():
        y = net(x)  # no graph here
    return y.square().mean()


def of_what_is_frozen(net, x):
    return net.requires_grad_(False)(x).mean()  # frozen here


def of_a_gradient(net, x):
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(net(x).tanh().sum(), x)  # without create_graph here
    return (slope + 1).square().mean()


@pytest.mark.parametrize(
    ("loss_of", "where", "says"),
    [
        (of_integers, "a comparison here", "integers or booleans"),
        (of_numbers, "numbers here", ".item()"),
        (of_no_grad, "no graph here", "no_grad"),
        (of_what_is_frozen, "frozen here", "requires a gradient"),
        (of_a_gradient, "without create_graph here", "create_graph"),
    ],
)
def test_the_line_that_cut_a_loss_off_its_graph(loss_of, where, says):
    with pytest.raises(RuntimeError, match="grad_fn") as raised, pullback.watch() as seen:
        loss_of(nn.Linear(3, 1), torch.ones(4, 3)).backward()
    (finding,) = seen
    assert finding.page == "does-not-require-grad"
    assert at(finding.site) == here(where)
    assert says in finding.message
    assert str(finding) in raised.value.__notes__[0]


def test_the_cut_is_found_behind_many_other_leaves():
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad_fn"), pullback.watch() as seen:
        (2 * w).sum().backward()
        others = [torch.ones(1, requires_grad=True) for _ in range(80)]
        print(sum(other.item() for other in others))
        with torch.no_grad():
            y = 2 * w  # behind many leaves here
        y.square().mean().backward()
    (finding,) = seen
    assert at(finding.site) == here("behind many leaves here")


def test_the_cure_for_a_comparison_learns_and_keeps_its_zeros_and_ones():
    net, x = nn.Linear(3, 1), torch.randn(4, 3)
    with pytest.raises(RuntimeError, match="grad_fn"), pullback.watch() as seen:
        of_integers(net, x).backward()
    assert "p + (b - p).detach()" in seen[0].fix
    p = net(x).sigmoid()
    b = (net(x) > 0).float()
    through = p + (b - p).detach()
    torch.testing.assert_close(through.detach(), b)
    ours, soft = (
        torch.autograd.grad(y.sum(), net.weight, retain_graph=True)[0] for y in (through, p)
    )
    torch.testing.assert_close(ours, soft)
    assert ours.any()


def test_a_line_about_which_all_is_said_has_one_finding():
    w, x = torch.zeros(3, requires_grad=True), torch.ones(4, 3)
    with pytest.raises(RuntimeError, match="grad_fn"), pullback.watch() as seen:
        for _ in range(2):
            (x @ w - 1).square().mean().backward()
            with torch.no_grad():
                w = w - 0.1 * w.grad  # updated here
    (finding,) = seen
    assert finding.rule == "update-makes-a-new-tensor"
    assert at(finding.site) == here("updated here")


def with_a_state(net):
    state = torch.ones(2, 3)
    for _ in range(2):
        state = net(state)  # enters here
        state.square().mean().backward()  # used up by the state here


def with_two_losses(net):
    y = net(torch.ones(2, 3)).tanh()
    y.mean().backward()  # used up by the first here
    y.square().mean().backward()  # again here


def with_what_another_made(net):
    last, fake = nn.Linear(3, 1), net(torch.ones(2, 3)).tanh()
    last(fake).mean().backward()  # used up by the critic here
    loss = last(fake).neg().mean()  # goes back here
    loss.backward()


@pytest.mark.parametrize(
    ("program", "where", "freed"),
    [
        (with_a_state, "enters here", "used up by the state here"),
        (with_two_losses, "again here", "used up by the first here"),
        (with_what_another_made, "goes back here", "used up by the critic here"),
    ],
)
def test_the_line_that_leads_into_a_graph_that_is_used_up(program, where, freed):
    with pytest.raises(RuntimeError, match="second time"), pullback.watch() as seen:
        program(nn.Linear(3, 3))
    (finding,) = seen
    assert finding.page == "backward-second-time"
    assert at(finding.site) == here(where)
    (note,) = [note for note in finding.notes if note.label == "freed"]
    assert at(note.site) == here(freed)


@pytest.mark.parametrize("rule", ["no-graph", "graph-used-up"])
def test_what_looks_at_errors_can_be_turned_off(rule):
    program = with_two_losses if rule == "graph-used-up" else of_integers
    given = (nn.Linear(3, 3), torch.ones(4, 3))[: 1 + (program is of_integers)]
    with suppress(RuntimeError), pullback.watch(without=[rule]) as seen:
        program(*given).backward()
    assert list(seen) == []


def segments(state, step, behind):
    """Train a recurrent cell on three segments of three steps."""
    torch.manual_seed(0)
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for _ in range(3):
        loss = 0.0
        for x in torch.randn(3, 4, 3):
            state = step(cell, x, state)
            loss = loss + head(state).square().mean()
        optimizer.zero_grad()
        loss.backward()  # the end of a segment
        optimizer.step()
        state = behind(state)
    return cell


def with_detach(cell, x, state):
    state = cell(x, state).detach()  # a detach between steps
    return state


def without_detach(cell, x, state):
    return cell(x, state)  # leads into an old graph


def test_a_detach_between_steps_belongs_behind_backward():
    state = torch.zeros(4, 5)
    with pullback.watch() as seen:
        segments(state, with_detach, lambda state: state)
    (finding,) = seen
    assert at(finding.site) == here("a detach between steps")
    assert "state = state.detach() behind backward()" in finding.fix
    assert here("the end of a segment") in [at(note.site) for note in finding.notes]
    with pytest.raises(RuntimeError, match="second time"), pullback.watch() as seen:
        segments(state, without_detach, lambda state: state)  # taken away, and no more
    assert [at(finding.site) for finding in seen] == [here("leads into an old graph")]
    assert "behind backward" in seen[0].fix
    with pullback.watch() as seen:
        cell = segments(state, without_detach, torch.Tensor.detach)
    assert list(seen) == []
    assert cell.weight_hh.grad.any()


def test_a_detach_of_a_state_that_begins_anew_is_left_out():
    with pullback.watch() as seen:
        segments(torch.zeros(4, 5), with_detach, torch.zeros_like)
    (finding,) = seen
    assert finding.fix.startswith("Leave the detach out")


def a_row(bank, z, i):
    bank[i] = z  # a row


def an_average(bank, z, i):
    bank.mul_(0.9).add_(z)  # an average


def a_copy(bank, z, i):
    bank.copy_(z + bank.detach())  # a copy


@pytest.mark.parametrize(
    ("write", "where"), [(a_row, "a row"), (an_average, "an average"), (a_copy, "a copy")]
)
@pytest.mark.parametrize("detached", [False, True])
def test_a_write_into_a_memory_that_keeps_its_graph(write, where, detached):
    def train():
        net, bank = nn.Linear(3, 5), torch.zeros(4, 5)
        for i in range(3):
            z = net(torch.ones(3)).tanh()
            write(bank, z.detach() if detached else z, i)
            (bank @ z).square().mean().backward()

    refused = pytest.raises(RuntimeError, match="second time")
    with nullcontext() if detached else refused, pullback.watch() as seen:
        train()
    assert [at(finding.site) for finding in seen] == ([] if detached else [here(where)])
    for finding in seen:
        assert "writes into" in finding.message
        assert "z.detach()" in finding.fix


# --- errors that the program catches ---------------------------------------------------


def edited(net, x):
    y = net(x).exp()
    y += 1  # edited here
    y.sum().backward()  # and refused here


def without_a_graph(net, x):
    with torch.no_grad():
        y = net(x)  # cut here
    torch.autograd.grad(y.sum(), net.weight)  # and asked here


def twice(net, x):
    y = net(x)  # the old graph
    y.sum().backward()
    (y * 2).sum().backward()  # a second time


@pytest.mark.parametrize(
    ("program", "rule", "where", "raised"),
    [
        (edited, "in-place", "edited here", "and refused here"),
        (without_a_graph, "no-graph", "cut here", "and asked here"),
        (twice, "graph-used-up", "a second time", "a second time"),
    ],
)
def test_an_error_that_the_program_catches_is_told_of_and_no_finding(
    program, rule, where, raised
):
    net, x = nn.Linear(3, 2), torch.ones(4, 3)
    with pullback.watch() as outer, pullback.watch() as seen:
        for _ in range(3):
            with suppress(RuntimeError):
                program(net, x)
    for found in (seen, outer):
        assert list(found) == []
        (caught,) = found.caught
        assert (caught.rule, at(caught.site)) == (rule, here(where))
        assert {note.label: at(note.site) for note in caught.notes}["caught"] == here(
            raised
        )
        assert f"Caught by the program, and no finding:\n{caught}" in str(found)
    with pytest.raises(RuntimeError), pullback.watch() as seen:
        program(net, x)
    assert [finding.rule for finding in seen] == [rule]
    assert seen.caught == ()
    with suppress(RuntimeError), pullback.watch(without=[rule]) as seen:
        program(net, x)
    assert seen.caught == ()


def test_what_pullback_catches_itself_is_not_told_of():
    x = torch.ones(3)
    with pullback.watch() as seen:
        pullback.explain(lambda x: x.exp().mul_(2), x)
    assert (list(seen), seen.caught) == ([], ())


def test_what_backward_is_asked_for_is_known_in_two_blocks():
    x = torch.ones(3, requires_grad=True)
    with pullback.watch(), pullback.watch() as seen:
        torch.autograd.backward([x * 2], [torch.ones(3), torch.ones(3)])
    assert [finding.rule for finding in seen] == ["extra-gradients-dropped"]
