"""Watch names the line, changes nothing, and is silent about what is right."""

import functools
import math
import os
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import torch
from functions import OldCube, OldSquare
from torch import nn

import pullback
from pullback._messages import messages
from pullback._site import is_own_file
from pullback._watch import rules, traps_of_calls, traps_of_operations, traps_of_steps
from pullback._watch.log import FORWARD
from pullback._watch.places import Places
from pullback._watch.recorder import Recorder

HERE = Path(__file__).resolve()
#: Traps of which a program shows no sign that a right one does not show, too.
UNSEEN = {
    "compiled-custom-backward",  # code that is compiled
    "hook-after-compile",
    "forward-mode-in-threads",  # threads of the program's own
    "grad-is-the-same-tensor",  # reading x.grad and reading a name for it are the same
    "hook-that-returns",  # people do that on purpose
    "no-grad-and-forward-mode",
    "python-random-inside-vmap",  # no operation of torch
}
#: Traps that correct programs contain, too; reported, or more of them, when asked for.
STRICT = {*rules.names(strict=True)}
UNEQUAL = "mean-of-unequal-batches"
TRAPS = [m for m in messages() if m.silent and m.broken and m.anchor not in UNSEEN]


def line_of(text):
    """Return the number of the line of this file that ends in a comment."""
    lines = HERE.read_text().splitlines()
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


def at(site):
    return (Path(site.path).name, site.line)


def here(text):
    return (HERE.name, line_of(text))


def watched(code, tmp_path, **options):
    path = tmp_path / "program.py"
    path.write_text(code)
    with pullback.watch(**options) as seen:
        exec(compile(code, path, "exec"), {"__name__": "program"})
    assert seen.unseen == ()
    return seen


def names(of):
    return [trap.anchor for trap in of]


def test_most_traps_are_seen():
    known = {m.anchor for m in messages() if m.silent}
    assert known >= UNSEEN | STRICT
    assert len({*names(TRAPS)} - STRICT) >= 25


@pytest.mark.parametrize("trap", TRAPS, ids=names(TRAPS))
def test_a_trap_is_seen(trap, tmp_path):
    seen = watched(trap.broken, tmp_path, strict=trap.anchor in STRICT)
    finding, *_ = (f for f in seen if f.page == trap.anchor)
    assert finding.site.path == str(tmp_path / "program.py")
    assert f"program.py:{finding.site.line}: " in " ".join(str(seen).split())


def test_what_looks_when_asked_for_looks_then_alone(tmp_path):
    seen = {}
    for trap in TRAPS:
        if trap.anchor in STRICT:
            found = {finding.page for finding in watched(trap.broken, tmp_path)}
            seen[trap.anchor] = trap.anchor in found
    assert seen == {
        "clamp-outside": True,  # of a leaf that is held in a box
        "gradients-accumulate": False,  # where no step has come in between
        "one-element-needs-no-gradient": False,
        "outputs-are-summed": False,
        "ties-of-a-maximum": False,
    }


@pytest.mark.parametrize("trap", TRAPS, ids=names(TRAPS))
def test_the_same_done_right_is_no_finding(trap, tmp_path):
    assert list(watched(trap.fixed, tmp_path)) == []


@pytest.mark.parametrize("trap", [t for t in TRAPS if t.anchor not in STRICT][:4])
def test_a_rule_can_be_turned_off(trap, tmp_path):
    assert trap.anchor in pullback.watch.RULES
    seen = watched(trap.broken, tmp_path, without=[trap.anchor])
    assert trap.anchor not in [f.rule for f in seen]


def test_rules_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="'loss-brodcast', which is no rule"):
        pullback.watch(without=["loss-brodcast"])


def test_whose_line_it_is():
    beside = Path(torch.__file__).parent.with_name("torchvision") / "ops.py"
    assert is_own_file(str(beside))
    assert is_own_file(str(HERE))
    for file in (torch.__file__, nn.functional.__file__, pullback.__file__):
        assert not is_own_file(file)


def test_the_same_code_in_two_files_is_two_places():
    code = "def loss(out, target):\n    return ((out - target) ** 2).mean()\n"
    out, target = torch.ones(3, 1, requires_grad=True), torch.ones(3)
    with pullback.watch() as seen:
        for name in ("first.py", "second.py"):
            module = {}
            exec(compile(code, name, "exec"), module)
            module["loss"](out * 1, target)
    assert [str(finding.site) for finding in seen] == ["first.py:2", "second.py:2"]


# --- in place -------------------------------------------------------------------------


def test_the_line_that_edited_and_the_line_that_saved():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="inplace") as raised, pullback.watch() as seen:
        y = x.exp()  # saved here
        y += 1  # edited here
        y.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("edited here")
    assert "add_ edited a tensor of shape [3] in place after Exp" in finding.message
    saved, edited = finding.notes
    assert at(saved.site) == here("saved here")
    assert "its result, of shape [3], at version 0" in saved.text
    assert "version 1" in edited.text
    assert str(finding) in raised.value.__notes__[0]


def test_a_buffer_that_is_written_slice_by_slice():
    W = torch.eye(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        states = torch.ones(4, 3)
        for t in range(1, 4):
            states[t] = torch.tanh(W @ states[t - 1])  # wrote a slice here
        states.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("wrote a slice here")
    assert "a slice of shape [3] of a tensor of 12 numbers after Mv" in finding.message
    assert "slices share one version counter" in finding.message
    assert finding.fix.index("torch.stack") < finding.fix.index("clone")


def test_a_buffer_whose_slices_were_written_before_it_was_read_as_a_whole():
    x = torch.ones(2, requires_grad=True)
    for parts in (True, False):
        with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
            buffer = torch.zeros(2, 2) * x
            if parts:
                buffer[0] = x
            squares = buffer.square()
            buffer[1] = x
            squares.sum().backward()
        assert ("version counter" in seen[0].message) is parts
        assert ("torch.stack" in seen[0].fix) is parts


def test_the_optimizer_that_changed_a_parameter_between_two_backwards():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y = net(torch.ones(5, 3))
        y.mean().backward(retain_graph=True)
        optimizer.step()  # stepped here
        y.square().mean().backward()
    (finding,) = seen
    assert at(finding.site) == here("stepped here")
    assert "SGD.step() changed the parameter 2.weight" in finding.message
    assert finding.fix.startswith("Make all backward calls first, then all steps.")


def test_what_a_custom_function_saved():
    x = torch.ones(3, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y = OldSquare.apply(x)
        x[0] = 5.0  # written here
        y.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("written here")
    assert "after OldSquare had saved" in finding.message


def test_an_edit_before_the_block_is_said_to_be_out_of_sight():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y += 1
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y.sum().backward()
    assert len(seen) == 0
    assert "out of sight" in str(seen)


# --- backward that refuses ------------------------------------------------------------


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


def test_an_entry_of_a_converted_weight_may_be_nudged():
    with pullback.watch() as seen:
        net = nn.Linear(3, 1).double()
        with torch.no_grad():
            net.weight[0, 0] += 1e-3
    assert not seen.unseen


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


# --- what is not finite ---------------------------------------------------------------


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


# --- missing gradients ----------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.cut = cut

    def forward(self, x):
        return self.last(self.frozen(self.cut(self.first(x))))


def by_detach(h):
    return h.detach()  # detached here


@torch.no_grad()
def by_no_grad(h):
    return h * 2  # without grad here


def by_item(h):
    return torch.tensor([[number.item() for number in row] for row in h])  # item here


def by_integers(h):
    return (h > 0).float()  # integers here


def through_data(h):
    return h.data * 1.0  # data here


@pytest.mark.parametrize(
    ("cut", "where", "says"),
    [
        (by_detach, "detached here", "detach()"),
        (by_no_grad, "without grad here", "no_grad"),
        (by_item, "item here", ".item()"),
        (by_integers, "integers here", "integers or booleans"),
        (through_data, "data here", "detach()"),
    ],
)
def test_why_a_parameter_got_no_gradient(cut, where, says):
    net = Net(cut)
    optimizer = torch.optim.Adam(net.parameters())
    with pullback.watch() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
    found = {finding.message: finding for finding in seen}
    (message,) = [m for m in found if m.startswith("first.weight, first.bias got no")]
    assert says in message
    assert at(found[message].site) == here(where)
    (unused,) = [m for m in found if m.startswith("unused.weight, unused.bias got no")]
    assert "not used" in unused
    assert len(seen) == 2
    why, line = seen.why("first.bias").splitlines()
    assert says in why
    assert line.strip().startswith(f"{found[message].site}: ")
    assert "frozen" in seen.why("frozen.weight")
    assert "2 times" in seen.why("last.bias")
    with pytest.raises(KeyError, match=r"first\.weight"):
        seen.why("nobody")


class Sixth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        cube = x**3
        return cube * cube

    @staticmethod
    def backward(ctx, v):
        return 6 * v * ctx.saved_tensors[0] ** 5


class SixthOfNumPy(Sixth):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        cube = x.detach().numpy() ** 3
        return torch.from_numpy(cube * cube)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * 1 * w

    @staticmethod
    def backward(ctx, v):
        return v * ctx.saved_tensors[1], v * ctx.saved_tensors[0]


@torch.library.custom_op("test_watch::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_autograd(lambda ctx, v: 2 * v)
LOG = []


def numpy_beside(h):
    LOG.append(h.detach().numpy())
    kept = h.detach()  # kept here
    LOG.append(h.detach().cpu().numpy())
    return kept


def another_detach(h):
    kept = h.detach()[:, :]  # kept first here
    LOG.append(h.detach().mean())
    return kept * 1


def behind_a_function(h):
    return Sixth.apply(h).detach()  # behind the Function here


def behind_a_function_of_numpy(h):
    return SixthOfNumPy.apply(h).detach()  # behind NumPy here


def behind_an_operator(h):
    return (double(h) > 0).float()  # behind the operator here


def before_a_function(h):
    h = h.detach() * 2  # before the Function here
    return Product.apply(h, torch.ones(3, requires_grad=True))


def a_new_leaf(h):
    h = h.detach().requires_grad_()  # a new leaf here
    return h * 2


def a_new_parameter(h):
    h = nn.Parameter(h.detach())  # a new parameter here
    return h * 2


def a_view_of_no_grad(h):
    LOG.append(h.detach().numpy())
    with torch.no_grad():
        h = h[:, :]  # a view here
    return h * 1


def through_numpy(h):
    return torch.from_numpy(h.detach().numpy() * 2)  # through NumPy here


@pytest.mark.parametrize(
    ("cut", "where", "says"),
    [
        (numpy_beside, "kept here", "detach()"),
        (another_detach, "kept first here", "detach()"),
        (behind_a_function, "behind the Function here", "detach()"),
        (behind_a_function_of_numpy, "behind NumPy here", "detach()"),
        (behind_an_operator, "behind the operator here", "integers or booleans"),
        (before_a_function, "before the Function here", "detach()"),
        (a_new_leaf, "a new leaf here", "detach()"),
        (a_new_parameter, "a new parameter here", "detach()"),
        (a_view_of_no_grad, "a view here", "no_grad"),
        (through_numpy, "through NumPy here", "NumPy"),
    ],
)
def test_lines_beside_the_cut_are_not_named(cut, where, says):
    net = Net(cut)
    with pullback.watch() as seen:
        for _ in range(2):
            net(torch.ones(4, 3)).square().mean().backward()
    why, line = seen.why("first.weight").splitlines()
    assert f"cut by {says}" in why.replace("an operation that gives ", "")
    name, number = here(where)
    assert f"{name}:{number}: " in line


def as_a_number(h):
    number = h.sum().item()  # a number here
    return torch.full((4, 3), number)


def to_decide(h):
    if h.sum() < 1e9:  # decided here
        LOG.append(h.detach().numpy())  # to NumPy here
    return torch.ones(4, 3)


def in_place(h):
    h = h * 1
    h.detach_()
    return h * 2  # read without a graph here


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        (as_a_number, ["a number here"]),
        (to_decide, ["decided here", "to NumPy here"]),
    ],
)
def test_what_may_have_cut_is_said_to_be_no_more_than_that(cut, left):
    net = Net(cut)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "first" in f.message)
    assert "did not enter the loss" in finding.message
    assert "unless as numbers of Python or NumPy" in finding.message
    assert finding.site.code == "return self.last(self.frozen(self.cut(self.first(x))))"
    notes = [note for note in finding.notes if note.label == "left"]
    assert [at(note.site) for note in notes] == [here(text) for text in left]


def test_a_cut_that_is_no_operation_is_said_to_be_before():
    net = Net(in_place)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
    why, line = seen.why("first.weight").splitlines()
    assert "without a graph on this line" in why
    name, number = here("read without a graph here")
    assert f"{name}:{number}: " in line


def test_a_cut_in_the_second_of_two_losses():
    net = Net(by_detach)
    with pullback.watch() as seen:
        net(torch.ones(4, 3))
        net.last.weight.sum().backward()  # the first is aside
        net(torch.ones(4, 3)).square().mean().backward()
    assert "cut by detach()" in seen.why("first.weight")


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        if v is None:
            return v
        return None  # nothing here


def test_a_loss_that_is_put_together_of_numbers():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        losses = [net(x).square().sum() for x in torch.ones(4, 3)]
        losses = torch.tensor(losses, requires_grad=True)  # put together here
        losses.mean().backward()
        optimizer.step()
    (finding,) = seen
    assert "0.weight, 0.bias, 2.weight, 2.bias got no gradient" in finding.message
    assert at(finding.site) == here("put together here")
    assert "torch.stack" in finding.fix


def test_a_parameter_is_not_used_where_it_is_made():
    with pullback.watch() as seen:
        net = nn.Linear(3, 1)  # as in a script that is run by the command
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        y = net(torch.ones(2, 3))  # used first here
        (y.detach() * torch.ones(1, requires_grad=True)).sum().backward()
        optimizer.step()
    (finding,) = seen
    assert [at(note.site) for note in finding.notes] == [here("used first here")]


def test_many_parameters_are_not_all_named():
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(10)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        (
            net(torch.ones(1, 2)).detach() * torch.ones(1, requires_grad=True)
        ).sum().backward()
        optimizer.step()
    (finding,) = seen
    assert "1.bias and 16 more parameters got no gradient" in finding.message
    assert "cut by detach()" in seen.why("9.bias")


def test_a_parameter_that_no_optimizer_holds():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net[0].parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert "no optimizer holds it" in seen.why("1.bias")
    assert "no optimizer" not in seen.why("0.bias")


def test_a_function_that_sends_nothing_back():
    net = Net(Nothing.apply)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "first" in f.message)
    assert "sends nothing: Nothing" in finding.message
    assert at(finding.site) == here("nothing here")


def test_the_page_about_a_number_tells_what_to_do():
    net = Net(by_item)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "item" in f.message)
    assert finding.page == "grad-is-none"
    page = next(m for m in messages() if m.anchor == finding.page)
    for words in ("`.item()`", "`torch.stack"):
        assert words in page.fix
        assert words.strip("`") in finding.fix


def test_a_parameter_that_is_used_beside_the_loss():
    net = Net(lambda h: h)
    optimizer = torch.optim.SGD([*net.first.parameters(), *net.last.parameters()], lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3))
        net.last(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert "did not enter the loss" in seen.why("first.weight")


def test_a_closure_without_backward_and_an_optimizer_that_reads_its_loss():
    w, other = nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([w])
    with pullback.watch() as seen:
        optimizer.step(lambda: (w**2).sum())  # reads the loss as a number
        other.sum().backward()
    assert "did not enter the loss of any backward" in seen.why("w")


def test_networks_that_are_trained_in_turns_are_right():
    torch.manual_seed(0)  # any numbers do
    G, D = nn.Linear(2, 3), nn.Linear(3, 1)
    of_G = torch.optim.Adam(G.parameters())
    of_D = torch.optim.Adam(D.parameters())
    with pullback.watch() as seen:
        for _ in range(3):
            fake = G(torch.randn(4, 2))
            of_D.zero_grad()
            (D(fake.detach()).mean() - D(torch.randn(4, 3)).mean()).backward()
            of_D.step()
            of_G.zero_grad()
            D(fake).mean().neg().backward()
            of_G.step()
    assert list(seen) == []


def test_a_teacher_that_is_not_trained_is_right():
    online, target = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = torch.optim.Adam(online.parameters())
    with pullback.watch() as seen:
        for _ in range(3):
            with torch.no_grad():
                wanted = target(torch.ones(4, 2))
            optimizer.zero_grad()
            (online(torch.ones(4, 2)) - wanted).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for t, w in zip(target.parameters(), online.parameters(), strict=True):
                    t.lerp_(w, 0.1)
    assert list(seen) == []


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
        assert Path(seen[0].site.path) == HERE


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


class Unregistered(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(2)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # called here
        return x


def test_of_what_a_list_hides_the_blocks_alone_are_named():
    with pullback.watch() as seen:
        Unregistered()(torch.ones(1, 2)).square().sum().backward()
    (finding,) = seen
    assert "calls a Sequential" in finding.message
    assert at(finding.site) == here("called here")


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
        (lambda y: y.softmax(1).log_softmax(1).sum(), 0),  # no loss; it may be meant
    ],
)
def test_what_a_loss_wants(loss, found):
    with pullback.watch() as seen:
        loss(SCORES.clone().requires_grad_() * 1).backward()
    assert [f.rule for f in seen] == ["probabilities-for-scores"] * found


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


@pytest.mark.parametrize(("by_hand", "found"), [(True, []), (False, [UNEQUAL])])
def test_means_of_unequal_batches_that_are_weighted(by_hand, found):
    data, w = torch.arange(5.0), torch.zeros((), requires_grad=True)
    with pullback.watch() as seen:
        for batch in data.split(4):  # 4 and 1
            share = len(batch) / 5 if by_hand else 1 / 2
            (((w - batch) ** 2).mean() * share).backward()
    assert [finding.rule for finding in seen] == found


@pytest.mark.parametrize(("reduction", "found"), [("sum", []), ("mean", [UNEQUAL])])
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


def test_a_reentrant_checkpoint_whose_input_requires_no_gradient():
    from torch.utils.checkpoint import checkpoint

    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    other = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        y = checkpoint(net, torch.ones(1, 2), use_reentrant=True)
        (y.sum() + other.sum()).backward()
        optimizer.step()
    (finding,) = seen
    assert "weight, bias got no gradient: used inside a reentrant" in finding.message
    assert finding.page == "checkpoint-inputs-no-grad"


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


def test_a_gradient_check_is_no_step():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pullback.watch() as seen:
        for _ in range(3):
            w.square().sum().backward()
            torch.autograd.gradcheck(torch.exp, w)
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


def test_a_storage_that_comes_from_elsewhere_has_no_past():
    from pullback._watch.log import Event, Leaf
    from pullback._watch.ways import Reason, Way

    w = torch.ones(1, requires_grad=True)
    way = Way(Leaf(lambda: w, 1, 0, None, "w"))
    way.cut[5] = Reason("integer")  # of a storage that is gone
    event = Event(1, "lift_fresh", None)
    event.reads = event.makes = (5,)
    way.follow(event)
    assert way.cut == {}


def test_nested_tensors_are_let_through():
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        parts = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
        (torch.nested.as_nested_tensor(parts) * 2).to_padded_tensor(0.0).sum().backward()
    assert parts[1].grad.tolist() == [2.0] * 3
    assert seen.unseen == ()


def test_an_intermediate_that_is_returned_has_a_graph():
    x = torch.tensor(2.0, requires_grad=True)
    with pullback.watch() as seen:
        (g,) = torch.autograd.grad(Quartic.apply(x)[0], x, create_graph=True)
        assert torch.autograd.grad(g, x)[0] == 48
    assert list(seen) == []


def test_a_view_that_may_not_be_differentiated():
    base = torch.ones(3, requires_grad=True) * 1
    with torch.no_grad():
        view = base[:2]
    base.mul_(2)
    with torch.no_grad(), pullback.watch() as seen:
        torch.zeros(2).copy_(view)
    assert seen.unseen == ()


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


def test_a_leaf_that_became_a_result_is_asked_for_no_gradient(recwarn):
    x, kept = torch.ones(2, requires_grad=True), []
    with pullback.watch() as seen:
        for _ in range(2):
            x.square().sum().backward()
            with torch.no_grad():
                x -= x.grad
        kept = x.grad  # which lives on
        x.grad = None
        x.detach_().requires_grad_()
        x.square().sum().backward()
        x.grad, x.requires_grad = None, False
        x.add_(torch.ones(2, requires_grad=True))
    assert seen.unseen == ()
    assert not recwarn.list
    assert kept.shape == x.shape


def test_an_activation_of_a_leaf_is_no_clamp():
    x = torch.tensor([-2.0, 0.5, 8.0], requires_grad=True)
    with pullback.watch() as seen:
        (nn.ReLU6()(x) + nn.Hardtanh()(x)).sum().backward()
    assert list(seen) == []


def test_gradients_that_are_set_by_hand_are_right():
    w, other = nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with pullback.watch() as seen:
        other.sum().backward()
        (w.grad,) = torch.autograd.grad((w**2).sum(), w)
        optimizer.step()
        optimizer.zero_grad()
    assert list(seen) == []
    assert "by hand" in seen.why("w")


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


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
def test_modules_without_a_length_are_called():
    net = torch.compile(nn.Linear(2, 1), backend="eager")
    with pullback.watch() as seen:
        net(torch.ones(1, 2)).sum().backward()
    assert list(seen) == []


# --- nothing changes ------------------------------------------------------------------


def trained(steps=3):
    torch.manual_seed(0)  # the same start with and without
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        layer(torch.randn(2, 5, 8)).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in layer.parameters()] + [torch.rand(3)]


def test_results_are_the_same_to_the_bit():
    plain = trained()
    with pullback.watch() as seen:
        same = trained()
    assert list(seen) == []
    assert seen.unseen == ()
    for a, b in zip(plain, same, strict=True):
        assert torch.equal(a, b)


def a_net(seed=0):
    torch.manual_seed(seed)  # the same start with and without
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def steps_of(net, loss_of, optimizer, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net, torch.randn(4, 3)).backward()
        optimizer.step()
    return [*net.state_dict().values(), torch.rand(2)]


def squares(net, x):
    return net(x).square().mean()


def with_hooks():
    net, arrived = a_net(), []
    net[3].register_full_backward_hook(lambda *given: arrived.extend(given[2]))
    net[3].weight.register_hook(lambda v: 2 * v)
    net[3].bias.register_post_accumulate_grad_hook(lambda p: arrived.append(p.grad.clone()))
    return steps_of(net, squares, torch.optim.SGD(net.parameters(), lr=0.1)) + arrived


def with_a_custom_function():
    net = a_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return steps_of(net, lambda net, x: OldCube.apply(net(x)).mean(), optimizer)


def with_checkpoints(use_reentrant):
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def loss_of(net, x):
        x.requires_grad_()
        return checkpoint(net, x, use_reentrant=use_reentrant).square().mean()

    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def with_autocast_and_a_scaler():
    net, scaler = a_net(), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = squares(net, torch.randn(4, 3))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return [*net.state_dict().values(), torch.tensor(scaler.get_scale())]


def with_a_gradient_penalty():
    def loss_of(net, x):
        x.requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean() + net[3].bias.square().sum()

    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Tanh(), nn.Linear(8, 1))
    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def with_a_compiled_region():
    net = a_net()
    compiled = torch.compile(net[2:], backend="aot_eager")

    def loss_of(net, x):
        return compiled(net[:2](x)).square().mean()

    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def in_threads():
    nets = [a_net(seed) for seed in range(4)]

    def work(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            squares(net, torch.ones(4, 3)).backward()
            optimizer.step()

    threads = [threading.Thread(target=work, args=(net,)) for net in nets[1:]]
    for thread in threads:
        thread.start()
    work(nets[0])
    for thread in threads:
        thread.join()
    return [t for net in nets for t in net.state_dict().values()]


class Doubled(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((3,), float(i)) * 2


def with_workers_of_a_loader():
    net = a_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    loader = torch.utils.data.DataLoader(Doubled(), batch_size=4, num_workers=2)
    for x in loader:
        optimizer.zero_grad()
        squares(net, x).backward()
        optimizer.step()
    return [*net.state_dict().values()]


def inside_another_watch():
    with pullback.watch() as seen:
        result = with_hooks()
    assert list(seen) == []
    assert seen.unseen == ()
    return result


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
@pytest.mark.parametrize(
    "program",
    [
        with_hooks,
        with_a_custom_function,
        functools.partial(with_checkpoints, True),
        functools.partial(with_checkpoints, False),
        with_autocast_and_a_scaler,
        with_a_gradient_penalty,
        with_a_compiled_region,
        in_threads,
        with_workers_of_a_loader,
        inside_another_watch,
    ],
    ids=lambda program: getattr(program, "__name__", str(getattr(program, "args", ""))),
)
def test_nothing_is_changed_and_nothing_stays(program):
    before = hooks_of_torch()
    torch.manual_seed(0)  # the same start with and without
    plain = program()
    torch.manual_seed(0)
    with pullback.watch() as seen:
        watched = program()
    assert list(seen) == [], seen
    assert seen.unseen == ()
    assert hooks_of_torch() == before
    for a, b in zip(plain, watched, strict=True):
        assert torch.equal(a, b)


def test_what_other_threads_do_does_not_hide_what_this_one_does():
    w = torch.zeros(2, requires_grad=True)
    other = nn.Parameter(torch.ones(2))
    slow = torch.optim.SGD([other], lr=0.1)
    begun, done = threading.Event(), threading.Event()

    def wait(*_):
        begun.set()
        done.wait(60)

    slow.register_step_pre_hook(wait)
    thread = threading.Thread(target=slow.step)
    with pullback.watch() as seen:
        thread.start()
        begun.wait(60)
        w.pow(2).sum().sqrt().backward()
        done.set()
        thread.join()
    assert [finding.page for finding in seen] == ["norm-at-zero"]


def test_a_watch_inside_another_finds_the_same():
    with pullback.watch() as outer, pullback.watch() as inner:
        exec(TRAP, {"torch": torch})
    assert [f.page for f in outer] == [f.page for f in inner] == ["norm-at-zero"]


@pytest.mark.parametrize("depth", [1, 2])
def test_nothing_stays_where_backward_raises(depth):
    before = hooks_of_torch()
    x = torch.ones(3, requires_grad=True)
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(RuntimeError, match="inplace"))
        blocks = [stack.enter_context(pullback.watch()) for _ in range(depth)]
        y = x.exp()
        y += 1
        y.sum().backward()
    assert [len(seen) for seen in blocks] == [1] * depth
    assert hooks_of_torch() == before


class Skips(torch.optim.SGD):
    def step(self, closure=None):
        raise ValueError


def test_operations_after_a_step_that_raised_are_seen():
    w = torch.nn.Parameter(torch.zeros(2))
    optimizer = Skips([w], lr=0.1)
    x = torch.zeros(2, requires_grad=True)
    with pullback.watch() as seen:
        with suppress(ValueError):
            optimizer.step()
        x.pow(2).sum().sqrt().backward()
    assert [found.rule for found in seen] == ["not-finite"]


def test_operations_of_a_step_are_no_part_of_the_program():
    def watched(optimizer):
        w = torch.nn.Parameter(torch.ones(2))
        w.grad = torch.ones(2)
        with pullback.watch() as seen:
            optimizer([w]).step()
        return seen.watched

    assert watched(torch.optim.Adam) == watched(torch.optim.SGD)  # it computes more


HOOKS = ["_module_called", "_module_returned", "_step_begins", "_step_ended"]
OF_PLACES = ["parameter_registered", "module_registered"]


@pytest.mark.parametrize("name", [*HOOKS, *OF_PLACES])
def test_a_hook_that_fails_leaves_the_program_alone(name, monkeypatch):
    def fail(*arguments):
        raise LookupError("of the hook")

    fail.__name__ = name
    monkeypatch.setattr(Recorder if name in HOOKS else Places, name, fail)
    with pullback.watch() as seen:
        net = nn.Sequential(nn.Linear(2, 1))
        net(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert seen.unseen == (f"{name}: LookupError: of the hook",)


def test_a_module_without_a_hash_runs():
    class Equal(nn.Linear):
        def __eq__(self, other):
            return True

    net = nn.Sequential(nn.Linear(2, 2))
    with pullback.watch() as seen:
        assert Equal(2, 2)(torch.ones(2)).shape == (2,)
        net(torch.ones(2)).sum().backward()
    assert "unhashable" in seen.unseen[0]
    assert not seen


def test_an_open_block_is_not_entered_again():
    block = pullback.watch()
    with block as seen:
        with pytest.raises(RuntimeError, match="is open already"), block:
            pass
        x = torch.zeros(2, requires_grad=True)
        x.pow(2).sum().sqrt().backward()
    assert [found.rule for found in seen] == ["not-finite"]
    assert hooks_of_torch()[-1] == 0
    with block as again:  # after its end it may be
        torch.ones(2) + 1
    assert again.watched == "2 operations, 0 backward passes"


def hooks_of_torch():
    from torch.nn.modules import module
    from torch.optim import optimizer

    return [
        len(of)
        for of in (
            module._global_forward_hooks,
            module._global_forward_pre_hooks,
            module._global_forward_hooks_always_called,
            module._global_parameter_registration_hooks,
            module._global_module_registration_hooks,
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        )
    ] + [torch._C._len_torch_dispatch_stack()]


class Ready(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.new_zeros(()))
    backward = staticmethod(lambda ctx, v: torch.ones(2))


def test_nothing_stays_when_the_block_ends_and_when_it_raises():
    before = hooks_of_torch()
    x = torch.ones(2, requires_grad=True)
    y = 3 * Ready.apply(x)
    with pullback.watch() as seen:
        y.backward(retain_graph=True)
        assert hooks_of_torch() != before
    assert [f.page for f in seen] == ["backward-that-ignores-v"]
    assert hooks_of_torch() == before
    with pytest.raises(ZeroDivisionError), pullback.watch():
        1 / 0  # noqa: B018
    assert hooks_of_torch() == before
    y.backward()  # a hook that stayed would add to what is seen
    assert len(seen) == 1


def test_a_rule_that_fails_ends_no_program(monkeypatch):
    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr(Recorder, "_tensors_of", fail)
    with pullback.watch() as seen:
        total = torch.ones(2).sum()
    assert total == 2
    assert "KeyError" in seen.unseen[0]


def test_what_is_traced_is_the_program_alone():
    from torch.fx.experimental.proxy_tensor import make_fx

    def operations():
        graph = make_fx(lambda x: x.sin() * 2)(torch.ones(3)).graph
        return [node.name for node in graph.nodes]

    plain = operations()
    with pullback.watch():
        assert operations() == plain


def test_compiled_functions_run_plain():
    f = torch.compile(lambda x: (x.sin() * 2).sum(), backend="eager")
    x = torch.zeros(3, requires_grad=True)
    with pullback.watch() as seen:
        f(x).backward()
    assert x.grad.tolist() == [2.0] * 3
    assert seen.unseen == ()


def test_the_log_is_bounded(monkeypatch):
    from pullback._watch import log

    monkeypatch.setattr(log, "KEPT", 50)
    kept = log.Log(pullback.Findings(), strict=False)
    for index in range(1, 500):
        event = log.Event(index, "mul", None, FORWARD)
        event.makes = event.writes = (index,)
        kept.of_number[index] = event
        kept.add(event)
        kept.memory(traps_of_operations.Updates).of[index] = event, "x"
        kept.memory(traps_of_calls.Means).samples[index] = event, 1
        kept.memory(traps_of_steps.Steps).clipped[index] = event
    memories = (
        kept.memory(traps_of_operations.Updates).of,
        kept.memory(traps_of_calls.Means).samples,
        kept.memory(traps_of_steps.Steps).clipped,
    )
    tables = (kept.of_number, kept.makers, kept.writers, *memories)
    assert {len(table) <= 101 for table in tables} == {True}


# --- the command line -----------------------------------------------------------------


def command(*arguments, text=None, folder=None):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pullback", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=text,
        cwd=folder,
        timeout=300,
    )
    return ran.returncode, ran.stdout, ran.stderr


def script(tmp_path, code):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(code))
    return path


RIGHT = "x = torch.ones(2, requires_grad=True); (x * 2).sum().backward()"
TRAP = "x = torch.zeros(2, requires_grad=True)\nx.pow(2).sum().sqrt().backward()"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (RIGHT, 0, "operations, 1 backward pass; nothing was found"),
        (TRAP, 3, "train.py:3: An infinity first"),
        (f"{TRAP}\nraise SystemExit(7)", 7, "train.py:3: An infinity first"),
        (f"{RIGHT}\n1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_script_runs_as_it_is(tmp_path, body, status, says):
    path = script(tmp_path, f"import sys, torch; print(sys.argv[1:], __name__)\n{body}")
    returned, out, err = command(path.name, "--lr", "1", folder=tmp_path)
    assert (returned, out) == (status, "['--lr', '1'] __main__\n")
    assert says in " ".join(err.split())
    assert "runpy" not in err
    assert (err.count("\n") == 1) == (body == RIGHT)
    assert ("nothing was found" in err) == (RIGHT in body)


def test_an_error_is_explained_below_a_traceback_of_the_script_alone(tmp_path):
    path = script(tmp_path, f"import torch\n{RIGHT}\ntorch.ones(2) @ torch.ones(3)")
    returned, _, err = command(path.name, folder=tmp_path)
    assert returned == 1
    assert "_watch" not in err
    assert "_ops.py" not in err
    assert "nothing was found beside that error" in err
    path = script(tmp_path, "import torch\ntorch.ones(3, requires_grad=True).backward()")
    assert (
        "\nfix:  Reduce the output, of shape (3,)" in command(path.name, folder=tmp_path)[2]
    )


def test_a_warning_is_explained(tmp_path):
    path = script(
        tmp_path, "import torch\n((torch.ones(2, requires_grad=True) * 2).grad)\n1 / 0"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pullback", path.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "more: python -m pullback explain non-leaf-grad" in ran.stderr
    assert ran.stderr.count("more:") == 1


def test_a_module_runs_too(tmp_path):
    script(tmp_path, f"import torch\n{TRAP}")
    assert command("-m", "train", folder=tmp_path)[0] == 3
    assert command("--without", "not-finite", "-m", "train", folder=tmp_path)[0] == 0


def test_a_safe_path_stays_as_it_is(tmp_path, monkeypatch):
    import pullback

    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "helper.py").write_text("")
    source = Path(pullback.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'first'}{os.pathsep}{source}")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    path = script(tmp_path, f"import helper, sys, torch; print(sys.path[0])\n{RIGHT}")
    status, out, err = command(path.name, folder=tmp_path)
    assert (status, out) == (0, f"{tmp_path / 'first'}\n"), err


def test_help_is_a_screen_of_commands_that_run(tmp_path):
    for asked in ("--help", "-h"):
        returned, out, _ = command(asked)
        assert returned == 0
        lines = out.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 88
    assert command()[0] == 2
    assert command()[2] == out
    script(tmp_path, RIGHT.join(["import torch; ", ""]))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("")
    given = [line for line in lines if line.startswith("    python")]
    assert len(given) == 6
    for line in given:
        line = line.replace("python ", f"{sys.executable} -W ignore ")
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True)
        assert done.returncode == ("train.py 2>&1" in line), done
    assert "backward" in (tmp_path / "AGENTS.md").read_text()


def test_the_entry_of_a_name_leaves_no_gap(capsys):
    from pullback.__main__ import main

    for entry in messages():
        told = {*re.findall(r"\{(\w+)\}", entry.fix)} - {*entry.shapes}
        assert main(["explain", entry.anchor]) == 0
        out = capsys.readouterr().out
        assert all(f"<{name}>" in out for name in told), entry.anchor
        assert not any(f"{{{name}}}" in out for name in told), entry.anchor
        assert ("what your own message says there" in out) == bool(told), entry.anchor


def test_explain_says_what_a_message_means_without_torch():
    message = "grad can be implicitly created only for scalar outputs"
    traceback = (
        f"Traceback (most recent call last):\n  y.backward()\nRuntimeError: {message}"
    )
    for arguments, text in ((["explain", message], None), (["explain"], traceback)):
        returned, out, _ = command(*arguments, text=text)
        assert returned == 0
        found = re.search(r"fix: .*more: python -m pullback (.*)$", out, re.M | re.S)
        returned, entry, _ = command(*found[1].splitlines()[0].split())
        assert returned == 0
        assert "losses.mean().backward()" in entry
        assert "# done right\nimport torch" in entry
    assert command("explain", "all is well")[0] == 1
    assert command("explain", "no-such-entry")[0] == 1
    code = (
        "import sys; from pullback.__main__ import main; "
        f"main(['explain', {message!r}]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


# --- pytest and IPython ---------------------------------------------------------------


def test_the_plugin_of_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(
        f"import pytest, torch\ndef trap():\n{textwrap.indent(TRAP, '    ')}\n"
        "def test_plain(): trap()\n"
        "@pytest.mark.pullback_watch\ndef test_marked(): trap()\n"
        "@pytest.mark.pullback_watch(without=['not-finite'])\ndef test_without(): trap()\n"
        "@pytest.mark.pullback_watch\ndef test_own(): assert False\n"
    )
    base = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "pullback._pytest",
        "-c",
        "/dev/null",
    ]
    base += ["-p", "no:cacheprovider", "--rootdir", str(tmp_path)]

    def ran(*more):
        done = subprocess.run(
            [*base, *more, str(tmp_path / "test_it.py")],
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # not twice
            capture_output=True,
            text=True,
        )
        return done.stdout

    out = ran()
    assert "2 failed, 2 passed" in out
    assert "test_it.py:4: An infinity first appeared" in " ".join(out.split())
    assert "3 failed, 1 passed" in ran("--pullback-watch")


EDIT = "y = torch.ones(2, requires_grad=True).exp()\ny += 1\ny.sum().backward()"


def test_the_extension_of_ipython(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_cell("%load_ext pullback\nimport torch")
    shell.run_cell(TRAP)
    assert "An infinity first appeared" in capsys.readouterr().out
    shell.run_cell(f"%%capture\n{RIGHT}")
    assert hooks_of_torch()[-1] == 0
    shell.run_cell(f"%%capture\n{EDIT}")
    assert "rule:   in-place" in capsys.readouterr().out
    shell.run_cell("%%capture\n1")
    shell.run_cell(f"get_ipython().run_cell('1')\n{TRAP}")
    assert capsys.readouterr().out.count("An infinity first appeared") == 1
    shell.run_cell("%unload_ext pullback")
    shell.run_cell(TRAP)
    assert "infinity" not in capsys.readouterr().out
    assert hooks_of_torch()[-1] == 0
