"""A silent trap of optimizers that take turns, as those of a generator and its critic."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from pullback._watch.findings import Note, Site, listed
from pullback._watch.log import Call, Leaf, Log, Memory, held_by, keys_of
from pullback._watch.rules import Found, at_step, trap

NAME = "gradient-of-another-loss"
TWICE = 2  # of a step that is odd; one alone may be meant


@dataclass
class Turns(Memory):
    """Which optimizer made the first step after each backward pass, and what was odd.

    Attributes:
        owners: The optimizer, the line of its step, and when the pass began, by its number.
        odd: How often each optimizer has stepped along the gradient of another loss.
    """

    owners: dict[int, tuple[Any, Site | None, int]] = field(default_factory=dict)
    odd: Counter[Any] = field(default_factory=Counter)

    def forget(self, before: int) -> None:
        """Drop the passes that began before the operations that are kept."""
        self.owners = {r: owner for r, owner in self.owners.items() if owner[2] >= before}


class Stray(NamedTuple):
    """A gradient that another loss has left, and to which the own one was added.

    Attributes:
        other: The backward pass that left it.
        own: The one that was added to it.
        by: The optimizer that stepped between both.
        site: The line of its step.
    """

    other: Call
    own: Call
    by: Any
    site: Site | None


@at_step(NAME)
def of_another_loss(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A step along a gradient that holds that of a loss which another optimizer minimizes.

    The other loss reaches the parameters on its way to those of its own optimizer, which
    steps; then comes the own loss, which does not reach those, and nothing has cleared what
    was there.
    """
    turns = log.memory(Turns)
    for run, call in reversed(log.of_run.items()):
        if run in turns.owners:
            break
        turns.owners[run] = optimizer, site, call.begun
    known = [(p, leaf) for p in held_by(optimizer) if (leaf := log.leaf(p)) is not None]
    first = functools.cache(functools.partial(_first_of, log))  # the same for many p
    found = [
        (p, stray)
        for p, leaf in known
        for stray in _strays(log, turns, optimizer, p, leaf, first)
    ]
    turns.odd[optimizer] = turns.odd[optimizer] + 1 if found else 0
    if turns.odd[optimizer] == TWICE:
        (_, stray), kind = found[0], type(optimizer).__name__
        names = listed([log.name_of(p) for p, _ in found])
        yield trap(
            NAME,
            stray.own.site,
            "This backward adds to gradients that the backward of another loss has left "
            f"in {names}: it passed there on its way to the parameters of another "
            f"optimizer. {kind} steps along the sum.",
            f"Call zero_grad() of this {kind} directly before this backward, or let the "
            "other loss leave nothing: backward(inputs=[...]) with what it is to change.",
            Note("other", stray.other.site, "backward of the other loss"),
            Note("step", stray.site, f"{type(stray.by).__name__}, for the other loss"),
            Note("step", site, f"{kind}, along the sum"),
        )


def _first_of(log: Log, optimizer: Any, run: int) -> int:
    """Return when a pass first reached what an optimizer holds; -1 if a later one did."""
    held = [leaf for p in held_by(optimizer) if (leaf := log.leaf(p)) is not None]
    reached = [leaf.last for leaf in held if leaf.arrived == run]
    later = any(leaf.arrived > run for leaf in held)
    return min(reached) if reached and not later else -1


def _strays(
    log: Log,
    turns: Turns,
    optimizer: Any,
    p: Tensor,
    leaf: Leaf,
    first: Callable[[Any, int], int],
) -> Iterator[Stray]:
    """Yield what another loss has left in the gradient of a parameter, once at most."""
    own = leaf.shares[-1] if leaf.shares else None
    if own is None or p.grad is None or keys_of([p.grad]) != (own.key,):
        return
    if turns.owners.get(own.run, (None,))[0] is not optimizer:
        return  # another one has stepped since, as where all backward calls come first
    if any(write.clears for write in log.writes_since(own.key, own.at)):
        return
    for share in leaf.shares[-2::-1]:
        other, last = log.of_run.get(share.run), log.of_run.get(own.run)
        by, site, _ = turns.owners.get(share.run, (optimizer, None, 0))
        if other is None or last is None or by is optimizer or other.site == last.site:
            continue
        if first(by, share.run) > share.at:
            yield Stray(other, last, by, site)
            return
