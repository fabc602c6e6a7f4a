"""The way from a leaf to a loss, through the log: where a gradient was cut off."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from pullback._watch.log import FORWARD, Call, Event, Leaf, Log
from pullback._watch.recorder import NUMBER

CHECKPOINT = "CheckpointFunction"  # of torch.utils.checkpoint, with use_reentrant=True
#: Causes of what did not enter the loss, as far as was seen.
ASIDE = {"aside", "dropped", "left-by-item", "left-by-detach"}
#: Operations that may take numbers of Python: ``x[i]``, ``torch.tensor``, ``from_numpy``.
BACK = {"select", "lift_fresh"}
#: Operations that write over whatever was there.
FILLS = {"zero_", "fill_", "copy_", "normal_", "uniform_", "bernoulli_", "exponential_"}


class Reason(NamedTuple):
    """Why no gradient arrived: the cause, and the operation where it is to be seen.

    ``left`` holds the operations at which numbers left autograd, where that may be why.
    """

    cause: str
    event: Event | None = None
    left: tuple[Event, ...] = ()

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is the same where one finding is enough."""
        return self.cause, self.event and self.event.site, *(e.site for e in self.left)


def reason_for(log: Log, leaf: Leaf, call: Call) -> Reason:
    """Follow a leaf through the log to what a backward started from."""
    way = Way(leaf)
    for event in _between(log, leaf, call):
        if event.run == FORWARD:
            if way.concerns(event):
                way.follow(event)
        elif event.makes:
            way.differentiate(event, log.of_run.get(event.run))
    at_root = [way.cut[key] for key in call.keys if key in way.cut]
    if at_root:
        return at_root[0]
    if any(key in way.live for key in call.keys):
        last = [*way.functions.values()][-1] if way.functions else None
        return Reason("nothing-sent", last)
    return way.aside()


def fill_for(log: Log, leaf: Leaf, call: Call) -> Reason | None:
    """Return what wrote over all that leads from a leaf to where a backward started."""
    way = Filled(leaf)
    for event in _between(log, leaf, call):
        if event.run == FORWARD and way.concerns(event):
            way.follow(event)
    cuts = [way.cut[key] for key in call.keys if key in way.cut]
    whole = len(cuts) == len(call.keys) and all(cut.cause == "filled" for cut in cuts)
    return cuts[0] if cuts and whole else None


def origins(log: Log, keys: Iterable[int]) -> set[int]:
    """Return what some storages were computed from: storages, and leaves by ``id``.

    Also through numbers of Python that come back in the call in which they left.
    """
    wanted, found = {*keys}, {*keys}
    back: list[Event] = []
    for event in reversed(log.events):
        if event.op == NUMBER and back and has_left_in(event, back[-1]):
            wanted.update(event.reads)
        elif wanted.isdisjoint(event.makes) and wanted.isdisjoint(event.writes):
            continue
        else:
            call = log.of_run.get(event.run)
            wanted.update(call.keys if call is not None else event.reads)
            wanted.difference_update(event.makes)  # before that, they were of others
            back += [event] if event.op in BACK else []
        found |= wanted
        found.update(event.sources.leaves if event.sources is not None else ())
    return found


def has_left_in(number: Event, event: Event) -> bool:
    """Tell whether a number left in the same call of which an operation is part."""
    here, there = event.site, number.site
    if here is None or there is None or here.path != there.path:
        return False
    return here.line <= there.line <= max(here.line, event.until)


def _between(log: Log, leaf: Leaf, call: Call) -> Iterator[Event]:
    """Yield the operations from the first use of a leaf to the beginning of a backward."""
    events, index = tuple(log.events), attrgetter("index")
    first = bisect_left(events, leaf.first, key=index)
    yield from events[first : bisect_left(events, call.begun, key=index)]


class Way:
    """What is computed from a leaf, operation by operation.

    Attributes:
        live: Storages of what leads back to it.
        cut: Storages of what does not any more, and why.
        functions: The custom Functions on the way, by the numbers of their nodes.
        left: The operations at which numbers left autograd, and why it does not follow.
        ends: The operations whose results nothing has taken so far, by storage.
        dropped: Those of them whose results are gone.
        elsewhere: Whether something went where it is not followed, as into a ``print``.
    """

    def __init__(self, leaf: Leaf) -> None:
        self.leaf, self.id = leaf.key, id(leaf.tensor())
        self.live = {leaf.key}
        self.cut: dict[int, Reason] = {}
        self.functions: dict[int, Event] = {}
        self.left: list[tuple[Event, Reason | None]] = []
        self.ends: dict[int, Event] = {}
        self.dropped: list[Event] = []
        self.elsewhere = False

    def concerns(self, event: Event) -> bool:
        """Tell whether an operation has to do with what is known; most have not."""
        known, sources = (self.live, self.cut.keys()), event.sources
        for keys in (event.reads, event.makes, event.writes):
            if not all(those.isdisjoint(keys) for those in known):
                return True
        if event.op in BACK and self.left:
            return True
        return sources is not None and (
            self.id in sources.leaves or bool(self.functions and sources.given_back)
        )

    def follow(self, event: Event) -> None:
        """Take one operation more into account."""
        made = {*event.makes} - {self.leaf}  # the leaf itself lives, and keeps its key
        if event.of_shapes:
            self._drop(made)
            self._forget(made)
            return
        self._forget(made & {*event.reads})  # it comes from elsewhere, with an old key
        through = self._leads_back(event)
        reason = self._cut_at(event) if through else self._why_dead(event)
        if through:
            self._taken(event, made, reason)
        if event.op == NUMBER and not event.owner and (through or reason):
            self.left.append((event, Reason("item", event) if through else reason))
        elif event.op == "detach" and through:
            self.left.append((event, Reason("numpy", event)))
        elif reason is None and not through:
            reason = self._comes_back(event)
        if reason is None and through:
            integers = made & {*event.integers}
            self._forget((*made, *event.writes))
            self.live.update(made - integers, event.writes)
            self.cut.update((key, Reason("integer", event)) for key in integers)
        else:
            self._drop(made)
            self._forget(made)
            outputs = {*made, *event.writes} - self.live
            self.cut.update((key, reason) for key in outputs if reason is not None)

    def differentiate(self, event: Event, call: Call | None) -> None:
        """Take an operation of a backward pass into account: it makes gradients."""
        self._drop(made := {*event.makes} - {self.leaf})
        self._forget(made)
        if call is None or call.accumulates or self.live.isdisjoint(call.keys):
            return
        if call.create_graph:
            self.live.update(event.makes)
        else:
            reason = Reason("gradient", Event(event.index, "grad", call.site, event.run))
            self.cut.update(dict.fromkeys(event.makes, reason))

    def aside(self) -> Reason:
        """Return what is sure of a leaf from which no way leads to the loss."""
        left, unused = tuple(event for event, _ in self.left), [*self.ends.values()]
        unused += self.dropped
        if not self.elsewhere and not unused and len({e.op for e in left}) == 1:
            by = "left-by-item" if left[-1].op == NUMBER else "left-by-detach"
            return Reason(by, left[-1], left)
        lines = {event.site for event in unused}
        if not self.elsewhere and not left and len(lines) == 1:
            return Reason("dropped", unused[-1])
        return Reason("aside", None, left)

    def _taken(self, event: Event, made: set[int], reason: Reason | None) -> None:
        """Keep that an operation takes results, and whether it has some of its own."""
        for key in event.reads:
            self.ends.pop(key, None)
        number = event.op == NUMBER and not event.owner
        if number or event.op == "detach":
            return
        self.elsewhere |= reason is not None or event.op == NUMBER
        given = made or {*event.writes} or self.live.intersection(event.reads)
        self._drop(given)
        self.ends.update(dict.fromkeys(given, event))

    def _drop(self, keys: Iterable[int]) -> None:
        """Keep what nothing has taken, and whose storage is another's now."""
        gone = {id(event): event for key in keys if (event := self.ends.pop(key, None))}
        self.dropped += gone.values()

    def _forget(self, keys: Iterable[int]) -> None:
        self.live.difference_update(keys)
        for key in keys:
            self.cut.pop(key, None)

    def _leads_back(self, event: Event) -> bool:
        """Tell whether an operation takes what leads back."""
        sources = event.sources
        if sources is None:
            return False
        for key, number in sources.given_back.items():
            reason = self.cut.get(key)  # of a Function of C++, whose forward has no frame
            cut = reason.event if reason is not None and reason.cause == "no_grad" else None
            if number in self.functions or (cut is not None and cut.number == number):
                self._forget([key])
                self.live.add(key)
        return self.id in sources.leaves or any(key in self.live for key in sources.inner)

    def _comes_back(self, event: Event) -> Reason | None:
        """Return the reason of a number that has left in the same call, and comes back."""
        left, reason = self.left[-1] if self.left else (event, None)
        if reason is None or not has_left_in(left, event):
            return None
        if event.op == "select" and left.index == event.index - 1:  # the index of x[i]
            self.cut.update((key, reason) for key in {*event.reads} - self.live)
        return reason if event.op == "lift_fresh" else None  # torch.tensor, from_numpy

    def _why_dead(self, event: Event) -> Reason | None:
        """Return why what an operation takes is cut off, if it comes from the leaf."""
        sources = event.sources
        for key in event.reads:
            if key in self.cut:
                return self.cut[key]
            if key in self.live:
                parting = sources.parted.get(key) if sources is not None else None
                parting = parting or self._detached(key)
                return self._parted(parting) if parting else Reason("unseen", event)
        return None

    def _detached(self, key: int) -> Event | None:
        """Return the operation that detached from a storage, if there is but one line."""
        events = [event for event, _ in self.left if key in event.live]
        return events[-1] if len({event.site for event in events}) == 1 else None

    def _parted(self, event: Event) -> Reason | None:
        return Reason("detach", event) if event.op == "detach" else self._cut_at(event)

    def _cut_at(self, event: Event) -> Reason | None:
        """Return why the results of an operation that takes what is live are cut off."""
        sources = event.sources
        if sources is not None and sources.function is not None and not event.grad:
            ways = [key for key in sources.inner if key in self.live]
            ways += [leaf for leaf in sources.leaves if leaf == self.id]
            given = [way in sources.given for way in ways]
            if any(given):
                self.functions[event.number] = event
            if all(given):
                return Reason("passed", event)
            name = sources.function.name
            return Reason("checkpoint" if name == CHECKPOINT else "function", event)
        if not event.grad:
            return Reason("no_grad", event)
        if event.integer:
            return Reason("integer", event)
        cuts = not event.recorded and event.makes and event.op != "detach"
        return Reason("no-derivative", event) if cuts else None


class Filled(Way):
    """The same, where a write over a whole result is the end: it sends zeros back."""

    def follow(self, event: Event) -> None:
        """Take one operation more into account."""
        if event.op in FILLS and event.grad and self._is_written_over(event):
            self._forget(event.writes)
            self.cut.update(dict.fromkeys(event.writes, Reason("filled", event)))
        else:
            super().follow(event)

    def _is_written_over(self, event: Event) -> bool:
        """Tell whether nothing that leads back is left where an operation wrote."""
        sources = event.sources
        if sources is None or math.prod(event.shape) != event.room:
            return False
        others = {*sources.inner} - {*event.writes}
        if self.id in sources.leaves or not self.live.isdisjoint(others):
            return False
        return not self.live.isdisjoint({*event.writes}.intersection(sources.inner))
