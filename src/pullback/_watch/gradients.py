"""Why a parameter got no gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch

from pullback._watch.findings import Finding, Note
from pullback._watch.log import Call, Event, Leaf, Log
from pullback._watch.recorder import NUMBER
from pullback._watch.rules import Found, at_end, when_done

RULE = "no-gradient"
CHECKED = 32  # leaves without a gradient that are looked after at each backward
CAUSES = {
    "detach": "cut by detach()",
    "no_grad": "cut by no_grad",
    "integer": "cut by an operation that gives integers or booleans",
    "item": "cut by .item(), which makes a Python number of it",
    "function": "used inside the forward of a custom Function, which records nothing",
    "checkpoint": "used inside a reentrant checkpoint, which was not computed again",
}
FIXES = {
    "detach": "Leave the detach out where the gradient is wanted.",
    "no_grad": "Compute it outside of no_grad, or of a function that is decorated with it.",
    "integer": "Keep to operations with a derivative: a softmax average for argmax, a soft "
    "mask for a comparison.",
    "item": "Keep it a tensor: torch.stack for torch.tensor([...]), no .item() or float().",
    "function": "Pass the parameters to apply() as inputs of their own, and return their "
    "gradients in backward.",
    "checkpoint": "Pass use_reentrant=False; a reentrant one needs an input that requires "
    "a gradient.",
}
CHECKPOINT = "CheckpointFunction"  # of torch.utils.checkpoint, with use_reentrant=True
PAGES = {
    "integer": "index-has-no-gradient",
    "function": "module-in-a-function",
    "checkpoint": "checkpoint-inputs-no-grad",
}
#: Causes that nobody means: reported also where no optimizer says what is to be trained.
ACCIDENTS = {"integer", "function"}


class Reason(NamedTuple):
    """Why no gradient arrived: the cause, and the operation where it is to be seen."""

    cause: str
    event: Event | None


@when_done(RULE)
def look_for_reasons(log: Log, call: Call) -> Found:
    """Keep, for leaves that have had no gradient so far, why this backward gave none."""
    if call.accumulates and not call.inputs:
        missing = [
            leaf
            for leaf in log.leaves.values()
            if not leaf.arrivals and leaf.reason is None and leaf.tensor() is not None
        ]
        for leaf in missing[:CHECKED]:
            leaf.reason = reason_for(log, leaf, call)
    return
    yield


@at_end(RULE)
def without_gradient(log: Log) -> Found:
    """Report the parameters that never got a gradient, and why."""
    named, held = log.named(), log.held()
    together: dict[Reason, list[tuple[str, Leaf | None]]] = {}
    for known_leaf in tuple(log.leaves.values()):
        t = known_leaf.tensor()
        if t is not None and id(t) not in named:
            named[id(t)] = (known_leaf.name or f"a tensor of shape {tuple(t.shape)}", t)
    for t in held.values():
        named.setdefault(id(t), (log.name_of(t), t))
    for name, t in named.values():
        leaf = log.leaf(t)
        if leaf is not None and leaf.arrivals:
            log.findings.explain(name, f"It got a gradient, {leaf.arrivals} times.")
        elif id(t) in log.moved:
            log.findings.explain(name, "Its gradient was set by hand.")
        elif not t.requires_grad:
            log.findings.explain(name, "It is frozen: requires_grad is False.")
        elif not log.calls:
            log.findings.explain(name, "No backward that fills .grad has run.")
        else:
            reason = leaf.reason if leaf is not None else None
            known = reason or Reason("unused", None)
            found = _finding([name], leaf, known)
            log.findings.explain(name, told(found))
            if not (leaf and leaf.asked) and _matters(t, reason, held):
                together.setdefault(known, []).append((name, leaf))
    for reason, those in together.items():
        yield _finding([name for name, _ in those], those[0][1], reason)


def told(finding: Finding) -> str:
    """Return what is wrong, and on the next line where, if that is known."""
    if finding.site is None:
        return finding.message
    return f"{finding.message}\n    {finding.site}: {finding.site.code}"


def reason_for(log: Log, leaf: Leaf, call: Call) -> Reason:
    """Follow a leaf through the log to what a backward started from."""
    live, cut = {leaf.key}, dict[int, Reason]()
    number: Reason | None = None  # what was made a number of Python may be anywhere
    for event in log.forward_events():
        if event.index >= call.begun:
            break
        through = any(key in live for key in event.live)
        dead = _dead(log, event, live, cut)
        made = {*event.makes} - {leaf.key}  # the leaf itself lives, and keeps its key
        outputs = (*made, *event.writes)
        if event.op == NUMBER and (through or dead) and not event.owner:
            number = dead or Reason("item", event)
        if through and event.grad and not event.integer:
            live.update(outputs)
            for key in outputs:
                cut.pop(key, None)
        elif through or dead:
            reason = dead if dead and not through else _cut_at(event)
            live.difference_update(made)
            cut.update((key, reason) for key in outputs if key not in live)
        else:
            live.difference_update(made)
            for key in made:
                cut.pop(key, None)
    at_root = [cut[key] for key in call.keys if key in cut]
    if at_root:
        return at_root[0]
    if any(key in live for key in call.keys):
        return Reason("nothing-sent", None)
    return number or Reason("aside", None)


def _dead(log: Log, event: Event, live: set[int], cut: dict[int, Reason]) -> Reason | None:
    """Return why what an operation takes is cut off, if it comes from the leaf."""
    for key in event.reads:
        if key in cut:
            return cut[key]
        if key in live and key not in event.live and event.op != "detach":
            return Reason("detach", log.detached.get(key))
    return None


def _cut_at(event: Event) -> Reason:
    if event.owner and not event.grad:
        return Reason("checkpoint" if event.owner == CHECKPOINT else "function", event)
    return Reason("no_grad" if not event.grad else "integer", event)


def _matters(t: torch.Tensor, reason: Reason | None, held: dict[int, torch.Tensor]) -> bool:
    """Tell whether it is a mistake: an optimizer waits for it, or nobody could mean it."""
    if held:
        return id(t) in held
    return reason is not None and reason.cause in ACCIDENTS


def _finding(names: list[str], leaf: Leaf | None, reason: Reason) -> Finding:
    event, cause = reason.event, reason.cause
    notes = (
        [Note("used", leaf.site, "first used")] if leaf is not None and leaf.site else []
    )
    if cause in CAUSES:
        says, fix = CAUSES[cause], FIXES[cause]
        if cause == "function" and event is not None:
            says = f"{says}: {event.owner}"
    elif leaf is None or cause == "unused":
        says, fix = (
            "not used in the forward pass",
            "Use it, or take it out of the optimizer.",
        )
    elif cause == "nothing-sent":
        says = "used, and the backward of an operation on the way sends nothing"
        fix = "Look at the custom Functions on the way: one returns None for it."
    else:
        says = "used, but what was computed with it did not enter the loss of any backward"
        fix = (
            "Call backward on it, add it to a loss on which backward is called, or take "
            "the parameter out of the optimizer."
        )
    site = event.site if event is not None else leaf.site if leaf is not None else None
    return Finding(
        rule=RULE,
        site=site,
        message=f"{', '.join(names)} got no gradient: {says}.",
        fix=fix,
        page=PAGES.get(cause, "grad-is-none"),
        notes=tuple(note for note in notes if note.site != site),
    )
