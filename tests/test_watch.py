"""Each silent trap is seen, on its line, and the same done right is not."""

import pytest

import pullback
from pullback._messages import messages
from pullback._watch import watching

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
STRICT = {*watching.rules.names(strict=True)}
TRAPS = [m for m in messages() if m.silent and m.broken and m.anchor not in UNSEEN]


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
