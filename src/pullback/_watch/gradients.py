"""Why a parameter got no gradient."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from pullback._watch.findings import Finding, Note, counted, listed
from pullback._watch.log import Call, Event, Leaf, Log
from pullback._watch.recorder import NUMBER
from pullback._watch.rules import Found, at_end, when_done
from pullback._watch.switched_off import line_off
from pullback._watch.traps_of_parameters import told_of_as_old
from pullback._watch.ways import ASIDE, Reason, fill_for, reason_for

RULE = "no-gradient"
CHECKED = 32  # leaves without a gradient that are looked after at each backward
SHOWN = 3  # lines at which numbers left autograd
LOOKS = 4  # backward passes after which one is taken to be aside


class Cause(NamedTuple):
    """What is said of a cause, what to do about it, and the page that tells more."""

    says: str
    fix: str
    page: str = "grad-is-none"


CAUSES = {
    "unused": Cause(
        "not used in the forward pass", "Use it, or take it out of the optimizer."
    ),
    "aside": Cause(
        "used, but what was computed with it did not enter the loss of any backward",
        "Call backward on it, add it to a loss on which backward is called, or take the "
        "parameter out of the optimizer.",
    ),
    "dropped": Cause(
        "what was computed with it did not enter the loss: nothing has taken the result of "
        "this line before backward",
        "Use the result in a loss on which backward is called, and look whether its name "
        "is given to another tensor before that; or take the parameter out of the "
        "optimizer.",
    ),
    "left-by-item": Cause(
        "all that was computed with it left autograd by .item(), float() or .tolist(), as "
        "a number of Python, which has no graph",
        "Leave .item(), float() and .tolist() out where the gradient is wanted. A number "
        "that is to be shown alone trains nothing: use the tensor in the loss as well, or "
        "take the parameter out of the optimizer.",
    ),
    "left-by-detach": Cause(
        "all that was computed with it left autograd by detach(), as a tensor or an array "
        "that has no graph",
        "Leave the detach out where the gradient is wanted, and write what NumPy does with "
        "the operations of torch. What is to be shown alone trains nothing: use the tensor "
        "in the loss as well, or take the parameter out of the optimizer.",
    ),
    "filled": Cause(
        "all that was computed with it is written over in place before it enters the loss",
        "Make a new tensor instead of writing over a result that is needed, or use the "
        "result before this line.",
        "modified-by-an-inplace-operation",
    ),
    "nothing-sent": Cause(
        "used, and the backward of an operation on the way sends nothing",
        "Look at what the backward of a custom Function on the way returns: None for an "
        "input is no gradient.",
    ),
    "left-out": Cause(
        "used, but inputs=[...] restricts this backward to others",
        "Name it in inputs as well, or take the parameter out of the optimizer.",
    ),
    "detach": Cause(
        "cut by detach()", "Leave the detach out where the gradient is wanted."
    ),
    "no_grad": Cause(
        "cut by no_grad",
        "Compute it where gradients are on, and again for each backward: what is kept from "
        "one step to the next leads into a graph that is used up.",
    ),
    "integer": Cause(
        "cut by an operation that gives integers or booleans",
        "Keep to operations with a derivative: a softmax average for argmax, a soft mask p "
        "for a comparison. Where you need its zeros and ones b, p + (b - p).detach() has "
        "the value of b and the gradient of p.",
        "index-has-no-gradient",
    ),
    "item": Cause(
        "cut where it became a number of Python, which has no graph, as by .item(), "
        "float(), .tolist(), math.exp() or torch.tensor([...])",
        "Leave .item(), float() and .tolist() out where the gradient is wanted, and put "
        "tensors together by torch.stack, not by torch.tensor([...]).",
    ),
    "no-derivative": Cause(
        "cut by an operation that has no derivative",
        "Write it with operations that have one: start + (end - start) * "
        "torch.linspace(0, 1, n) for a linspace between tensors.",
    ),
    "numpy": Cause(
        "cut by NumPy, whose arrays have no graph",
        "Write it with the operations of torch, or as a custom Function with a backward of "
        "its own.",
    ),
    "function": Cause(
        "used inside the forward of a custom Function, which records nothing",
        "Pass the parameters to apply() as inputs of their own, and return their gradients "
        "in backward.",
        "module-in-a-function",
    ),
    "checkpoint": Cause(
        "used inside a reentrant checkpoint, which was not computed again",
        "Pass use_reentrant=False; a reentrant one needs an input that requires a "
        "gradient.",
        "checkpoint-inputs-no-grad",
    ),
    "passed": Cause(
        "cut by a custom Function, whose result requires no gradient",
        "Call it outside of no_grad, and do not mark what it returns as "
        "non-differentiable.",
    ),
    "gradient": Cause(
        "cut by a gradient that was taken without create_graph=True, which has no graph",
        "Pass create_graph=True to torch.autograd.grad where the gradient enters a loss or "
        "is differentiated again.",
        "does-not-require-grad",
    ),
    "leaf": Cause(
        "the loss leads back to this line, which makes a new tensor, and no further",
        "Put losses together by torch.stack or by +, and not by torch.tensor([...]); "
        "requires_grad=True does not bring a graph back.",
    ),
    "frozen": Cause(
        "nothing that it was computed from requires a gradient",
        "Look at requires_grad of the parameters, and for a no_grad or "
        "set_grad_enabled(False) around it.",
    ),
    "unseen": Cause(
        "without a graph on this line; what cut it before is no operation, as with "
        "detach_()",
        "Look between its first use and this line for what takes the graph away in place.",
    ),
}
#: Causes that another backward may show to be none.
OPEN = {*ASIDE, "leaf"}
#: Causes that nobody means: reported also where no optimizer says what is to be trained.
ACCIDENTS = {"integer", "function"}


@when_done(RULE)
def look_for_reasons(log: Log, call: Call) -> Found:
    """Keep, for leaves that have had no gradient so far, why this backward gave none."""
    if call.accumulates:
        new = _new_leaf(log, call)
        missing = [
            leaf
            for leaf in log.leaves.values()
            if not (leaf.arrivals or leaf.returned)
            and (leaf.reason is None or leaf.reason.cause in OPEN)
            and leaf.looks < LOOKS
            and leaf.tensor() is not None
        ]
        for leaf in missing[:CHECKED]:
            leaf.reason, leaf.looks = reason_for(log, leaf, call), leaf.looks + 1
            if leaf.reason.cause in ASIDE and new and new.index > leaf.first:
                leaf.reason = Reason("leaf", new)
            elif leaf.reason.cause == "nothing-sent" and call.restricted:
                leaf.reason = Reason("left-out", Event(call.begun, "backward", call.site))
    return ()


def _new_leaf(log: Log, call: Call) -> Event | None:
    """Return what made the only leaf of a backward, if that is a new tensor of numbers."""
    reached = [leaf for leaf in log.leaves.values() if leaf.arrived == call.run]
    if len(reached) != 1 or type(reached[0].tensor()) is torch.nn.Parameter:
        return None
    maker = log.makers.get(reached[0].key)
    return maker if maker is not None and maker.op == "lift_fresh" else None


@at_end(RULE)
def without_gradient(log: Log) -> Found:
    """Report the parameters that never got a gradient, and why."""
    named, held = log.named(), log.held()
    together: dict[Any, list[tuple[str, Leaf | None, Reason]]] = {}
    others = [leaf.tensor() for leaf in tuple(log.leaves.values())]
    for t in (*others, *held.values()):
        if t is not None and id(t) not in named:
            named[id(t)] = log.name_of(t), t
    old = told_of_as_old(log)
    for name, t in named.values():
        leaf = log.leaf(t)
        filled = _filled(log, leaf) if leaf is not None else None
        if leaf is not None and leaf.arrivals and filled is None:
            beside = ", and no optimizer holds it" if held and id(t) not in held else ""
            log.findings.explain(
                name, f"It got a gradient, {counted(leaf.arrivals, 'time')}{beside}."
            )
        elif id(t) in log.moved and filled is None:
            log.findings.explain(name, "Its gradient was set by hand.")
        elif leaf is not None and leaf.returned:
            log.findings.explain(
                name, "Its gradient was returned, as by torch.autograd.grad, not kept."
            )
        elif not t.requires_grad:
            log.findings.explain(name, "It is frozen: requires_grad is False.")
        elif not log.calls:
            log.findings.explain(name, "No backward that fills .grad has run.")
        else:
            reason = filled or (leaf.reason if leaf is not None else None)
            known = reason or Reason("unused")
            found = _finding(log, [name], leaf, known)
            log.findings.explain(name, found.brief)
            if id(t) not in old and not (leaf and leaf.asked) and _matters(t, reason, held):
                together.setdefault(known.kind, []).append((name, leaf, known))
    for those in together.values():
        _, leaf, reason = those[0]
        found = _finding(log, [name for name, _, _ in those], leaf, reason)
        end = _end_of_segment(log, reason.event) if reason.cause == "detach" else None
        yield _to_the_boundary(found, end) if end is not None else found


def _filled(log: Log, leaf: Leaf) -> Reason | None:
    """Return what wrote over all that a leaf leads to, if its gradients are all zeros."""
    call = log.of_run.get(leaf.arrived) if leaf.arrivals and not leaf.nonzero else None
    return fill_for(log, leaf, call) if call is not None else None


def _matters(t: torch.Tensor, reason: Reason | None, held: dict[int, torch.Tensor]) -> bool:
    """Tell whether it is a mistake: an optimizer waits for it, or nobody could mean it."""
    if held:
        return id(t) in held
    return reason is not None and reason.cause in ACCIDENTS


def _end_of_segment(log: Log, cut: Event | None) -> Call | None:
    """Return a backward that what was detached for it has outlived, if there is one.

    A state that a loop carries on is used before the backward and after it: without a
    detach between both, the second use would lead into a graph that is used up.
    """
    detached: set[int] = set()
    used: dict[int, int] = {}  # index of its last use, by storage
    for event in log.forward_events():
        if event.op == "detach":
            detached.update(
                event.live if cut is not None and event.site == cut.site else ()
            )
        elif not event.of_shapes:
            for key in detached.intersection(event.reads):
                since = used.setdefault(key, event.index)
                for call in log.of_run.values():
                    if since < call.begun <= event.index:
                        return call
                used[key] = event.index
        for key in event.makes:  # of a storage that is gone
            detached.discard(key)
            used.pop(key, None)
    return None


def _to_the_boundary(found: Finding, end: Call) -> Finding:
    """Return a finding about a detach that is to stand behind a backward."""
    code = found.site.code if found.site is not None else ""
    assigned = re.match(r"([\w.]+) *=(?!=)", code)
    state = assigned[1] if assigned else "state"
    fix = (
        f"Take the detach away here, and write {state} = {state}.detach() behind "
        "backward(): what is carried on has to be detached there, or the next backward "
        "goes back into a graph that is used up."
    )
    note = Note("backward", end.site, "the detach belongs behind it")
    return replace(found, fix=fix, notes=(*found.notes, note))


def _finding(log: Log, names: list[str], leaf: Leaf | None, reason: Reason) -> Finding:
    event, cause = reason.event, CAUSES[reason.cause]
    says, fix, page = cause
    got = "no gradient but zeros" if reason.cause == "filled" else "no gradient"
    used = leaf.site if leaf is not None else None
    site = event.site if event is not None else used
    notes = [Note("used", used, "first used")] if used is not None else []
    if event is not None and event.function is not None:
        says = f"{says}: {event.function.name}"
        if reason.cause == "nothing-sent":
            site = event.function.nothing or site
    if event is not None and reason.cause == "no-derivative":
        says = f"{says}: {event.op}"
    if reason.cause == "no_grad" and (off := line_off(log.off.get(site, ()))):
        notes.append(off)
    lines = {left.site: left for left in reason.left if left.site is not None}
    if lines and reason.cause == "aside":
        says += ", unless as numbers of Python or NumPy"
        fix += " A loss of numbers that left autograd does not lead back."
    for line, left in [*lines.items()][:SHOWN]:
        by = "became a number of Python" if left.op == NUMBER else "detach()"
        notes.append(Note("left", line, by))
    return Finding(
        rule=RULE,
        site=site,
        message=f"{listed(names)} got {got}: {says}.",
        fix=fix,
        page=page,
        notes=tuple(note for note in notes if note.site != site),
    )
