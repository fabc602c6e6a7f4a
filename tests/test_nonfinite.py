"""The first NaN or infinity is found where it began, with what went in."""

import math

import pytest
import torch
from torch import nn
from watched import at, lines_of

import pullback

here = lines_of(__file__)


def test_an_infinity_is_reported_where_it_began():
    x = torch.zeros(2, requires_grad=True)
    with pullback.watch() as seen:
        squares = x.pow(2).sum()  # became NaN here
        squares.sqrt().backward()  # infinite here
    (finding,) = seen
    assert at(finding.site) == here("infinite here")
    assert "An infinity first appeared in backward of Sqrt" in finding.message
    (became,) = [note for note in finding.notes if note.label == "NaN"]
    assert at(became.site) == here("became NaN here")


def test_the_lines_that_made_the_inputs():
    outside = torch.tensor([1.0, 2.0], requires_grad=True)
    with pullback.watch() as seen:
        above = outside * 2  # made above here
        below = torch.from_numpy(torch.zeros(2).numpy())  # made below here
        ratio = above / below
        (ratio * outside).sum().backward()
    inputs = [note for note in seen[0].notes if note.label == "input"]
    assert [note.text for note in inputs] == ["2 to 4, shape (2,)", "0, shape (2,)"]
    assert [at(note.site) for note in inputs] == [
        here("made above here"),
        here("made below here"),
    ]
    with pullback.watch() as seen:
        (outside / 0).sum().backward()
    assert [note.site for note in seen[0].notes if note.label == "input"] == [None]


def test_what_came_back_and_to_which_number_and_in_which_pass():
    part = torch.ones(2, requires_grad=True)
    with pullback.watch() as seen:
        for factor in (3.0, 2.0, 0.0):
            root = (part * factor).sqrt()  # to this root
            ((root - root.detach()).abs() * 2).sum().backward()  # came back here
    (finding,) = seen
    of = {note.label: note for note in finding.notes}
    assert at(of["gradient"].site) == here("came back here")
    assert at(of["input"].site) == here("to this root")
    assert str(of["when"]) == "in backward pass 3"
    assert "when:" in str(finding)


def test_the_first_nan_of_a_forward_pass_with_the_ranges_of_its_inputs():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    with pullback.watch() as seen:
        roots = x.sqrt()  # NaN here
        (roots * 3).sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("NaN here")
    assert "-2 to 1, shape (2,)" in finding.notes[0].text
    with pullback.watch() as seen:  # without a backward
        x.detach().sqrt()
    assert "NaN first appeared in sqrt" in seen[0].message


def test_numbers_that_come_in():
    data = torch.tensor([1.0, math.nan])
    x = torch.ones(2, requires_grad=True)
    with pullback.watch() as seen:
        (x * data).sum().backward()
    assert "came in and were first used in mul" in seen[0].message


def test_the_infinities_of_a_mask_are_right_until_they_meet_a_whole_row():
    x = torch.zeros(2, 2, requires_grad=True)
    for mask, found in (([[0, 1], [0, 0]], 0), ([[1, 1], [0, 0]], 1)):
        with pullback.watch() as seen:
            y = x.masked_fill(torch.tensor(mask).bool(), -math.inf)
            y.softmax(-1)[:, 0].sum().backward()
        assert len(seen) == found
    assert "The infinity that masked_fill wrote became NaN in _softmax" in seen[0].message


def test_what_the_first_nan_does_to_later_steps_is_no_other_finding():
    w = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    with pullback.watch() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            (w.pow(2).sum().sqrt() + w.exp().sum()).backward()
            optimizer.step()
    assert [finding.page for finding in seen] == ["norm-at-zero"]


def test_a_number_that_is_written_beside_nan_is_not_to_blame():
    w = torch.nn.Parameter(torch.tensor([0.0, 1.0]))
    optimizer = torch.optim.SGD([w], lr=0.1)
    with pullback.watch() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            w.sqrt().sum().backward()  # the slope at 0 is infinite, and then w is
            optimizer.step()
            with torch.no_grad():
                w[w > 0] = 1.0  # of which the whole of w is the result
    (finding,) = seen
    assert "backward of Sqrt" in finding.message


def test_an_infinity_that_is_written_into_a_weight_is_told():
    w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    with pullback.watch() as seen:
        with torch.no_grad():
            w[w > 0] = math.nan
        w.sum().backward()
    (finding,) = seen
    assert "written as a constant" in finding.message


def test_a_scaled_gradient_may_overflow():
    w = torch.tensor([1.0], dtype=torch.float16, requires_grad=True)
    loss_scale = torch.tensor(6e4, dtype=torch.float16)
    with pullback.watch() as seen:
        (w * 4 * loss_scale).sum().backward()
    assert len(seen) == 1
    net = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([net], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    with pullback.watch() as seen:
        scaler.scale(net.sum() * 1e-6).mul(1e13).mul(1e-10).backward(torch.tensor(1e30))
        scaler.step(optimizer)
        scaler.update()
    assert not [f for f in seen if "reached a gradient" in f.message]


def test_a_scaled_loss_may_overflow_and_one_that_is_infinite_by_itself_not():
    for start, found in ((3e38, 0), (0.0, 1)):
        w = nn.Parameter(torch.tensor([start]))
        optimizer = torch.optim.SGD([w], lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        with pullback.watch() as seen:
            loss = w.sum() if found == 0 else -w.log().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        assert len(seen) == found, seen
    assert "first appeared in log" in seen[0].message


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(
    ("f", "x", "page", "says"),
    [
        (lambda x: -(x * x.log()).sum(), [0.0, 1.0], "loss-nan-or-inf", "entr(p)"),
        (lambda x: x.std(), [1.0], "loss-nan-or-inf", "correction=0"),
        (lambda x: x[x > 5].mean(), [1.0], "loss-nan-or-inf", "let nothing through"),
        (lambda x: (x / (x - x)).sum(), [1.0], "loss-nan-or-inf", "divides by 0"),
        (lambda x: x.exp().log().sum(), [100.0], "loss-nan-or-inf", "more than 88"),
        (lambda x: x.sqrt().sum(), [-1.0], "loss-nan-or-inf", "outside"),
        (lambda x: x.acos().sum(), [1.0], "returned-nan-values", "torch.atan2"),
        (lambda x: (x**0.5).sum(), [0.0], "returned-nan-values", "below 1"),
        (lambda x: x.acos().square().sum(), [1.0], "nan-from-a-mask", "0 times"),
    ],
)
def test_what_to_do_about_an_operation(f, x, page, says):
    with pullback.watch() as seen:
        f(torch.tensor(x, requires_grad=True)).backward()
    (finding,) = seen
    assert finding.page == page
    assert says in finding.fix


def test_what_memory_held_before_is_nobodys_nan():
    w = torch.ones(2, 3).t().requires_grad_()
    torch.use_deterministic_algorithms(True)  # which fills memory with NaN
    try:
        with pullback.watch() as seen:
            assert torch.empty(2).isnan().all()
            w.sum().backward()  # its gradient is copied to a new tensor
    finally:
        torch.use_deterministic_algorithms(False)
    assert list(seen) == []
