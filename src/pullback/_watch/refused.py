"""Where backward refuses: the line that cut its graph off, or leads into an old one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from traceback import walk_tb
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from pullback._graph import nodes_from
from pullback._shared import Shared
from pullback._torch import asked_by, calls_engine, is_freed, number_of, put_engine
from pullback._watch.edits import engine_frame
from pullback._watch.findings import Finding, Note, Site
from pullback._watch.frames import is_own
from pullback._watch.gradients import CAUSES
from pullback._watch.log import Call, Event, Log, keys_of, operation_of
from pullback._watch.ways import ASIDE, Reason, origins, reason_for

Tell = Callable[[RuntimeError], None]
NO_GRAPH = "no-graph"
USED_UP = "graph-used-up"
LEAVES = 64  # of which the way is looked for
AGAIN = (
    "Detach what is carried into the next step, behind backward (state = state.detach(), "
    "of an LSTM both parts), or what the first loss is not to train (D(fake.detach())); "
    "put losses that share a part of the graph into one, (a + b).backward(). "
    "retain_graph=True is for passes that are meant to go through the same numbers."
)
WRITTEN = (
    "If what is written is a memory, write it without its graph: bank[i] = z.detach(). If "
    "it is a state that trains through this line, make a new tensor (state = z) and detach "
    "it behind backward (state = state.detach())."
)
NO_CUT = {*ASIDE, "nothing-sent"}  # no line is known to have cut


def errors_heard(tell: Tell) -> AbstractContextManager[None]:
    """Tell of each error of the engine in this block, when it is raised."""
    return _HEARD.block(tell)


@contextmanager
def _telling_engine() -> Iterator[None]:
    def _engine_run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the engine; the name is torch's, by which its frame is known as such."""
        try:
            return engine(t_outputs, *args, **kwargs)
        except RuntimeError as error:
            for tell in (*_HEARD.given,):
                tell(error)
            raise

    engine = put_engine(_engine_run_backward)
    try:
        yield
    finally:
        put_engine(engine)


_HEARD = Shared[Tell](_telling_engine)


def without_graph(log: Log, error: BaseException) -> Iterator[Finding]:
    """Yield the line that cut off what backward starts from, if that is the error."""
    told = re.match(r"element (\d+) of (?:tensors|variables) does not require", str(error))
    frame = engine_frame(error.__traceback__) if told else None
    if told is None or frame is None:
        return
    root = asked_by(frame).roots[int(told[1])]
    if not isinstance(root, Tensor):
        return
    reason = _cut(log, keys_of([root]))
    event = reason.event
    if event is None:
        return
    says, fix, _ = CAUSES[reason.cause]
    yield Finding(
        rule=NO_GRAPH,
        site=event.site,
        message=f"What backward starts from has no graph: {says}.",
        fix=fix,
        page="does-not-require-grad",
    )


def _cut(log: Log, keys: tuple[int, ...]) -> Reason:
    """Return why no leaf leads to a root: of several cuts, the last one."""
    asked = Call(-1, None, True, False, (), (), None, (), keys, log.count)
    leaves = [leaf for leaf in log.leaves.values() if leaf.tensor() is not None]
    known, reasons = origins(log, keys), []
    near = [leaf for leaf in leaves if leaf.key in known or id(leaf.tensor()) in known]
    for some in (near[-LEAVES:], leaves[-LEAVES:]):  # the others, if it is none of those
        reasons = [reason_for(log, leaf, asked) for leaf in some]
        cuts = [r for r in reasons if r.event is not None and r.cause not in NO_CUT]
        if cuts:
            return max(cuts, key=lambda r: r.event.index if r.event else -1)
    maker = log.makers.get(keys[0]) if keys else None
    if maker is not None and maker.op == "lift_fresh":
        return Reason("leaf", maker)
    left = [event for reason in reasons for event in reason.left if event.op != "detach"]
    if left:
        return Reason("item", max(left, key=lambda event: event.index))
    if maker is not None and not leaves:
        return Reason("frozen", maker)
    return Reason("aside")


def again(log: Log, error: BaseException) -> Iterator[Finding]:
    """Yield the line that leads into a graph that is used up, if that is the error."""
    frame = None
    if "through the graph a second time" in str(error):
        frame = engine_frame(error.__traceback__)
    if frame is None:
        return
    starts = _nodes(asked_by(frame).roots)
    nodes = nodes_from(starts)
    first: dict[int, int] = {}  # the pass in which each node ran first
    for event in log.events:
        first.setdefault(event.node_number, event.run)
    freed = {node for node in nodes if is_freed(node)}
    now = log.call.run if log.call is not None else -1
    before = [n for n in freed if first.get(number_of(n), now) != now] or [*freed]
    if not before:
        return
    gone = max(before, key=number_of)
    call = log.of_run.get(first.get(number_of(gone), now))
    made, into = _made(log, gone), _entered(log, nodes, freed, call)
    if call is None:
        return
    notes, fix = [Note("freed", call.site, "the backward that has used it up")], AGAIN
    if into is None:
        message = "This backward goes through a graph that is used up."
        site = _asked(error.__traceback__)
        if made is not None:
            says = f"{operation_of(gone.name())} is in it"
            notes.insert(0, Note("graph", made.site, says))
    else:
        event, old = into
        site = event.site
        does = "writes into" if event.writes else "takes"
        message = (
            f"This line {does} a tensor that was computed before an earlier backward, "
            "which has used up its graph; the next backward goes back into it."
        )
        fix = WRITTEN if event.writes else AGAIN
        if old.site != site:
            notes.insert(0, Note("graph", old.site, f"{old.op} made the tensor"))
    yield Finding(
        rule=USED_UP,
        site=site,
        message=message,
        fix=fix,
        page="backward-second-time",
        notes=tuple(note for note in notes if note.site is not None),
    )


def _made(log: Log, node: Node) -> Event | None:
    """Return the operation for which a node was made; a write to a part makes two."""
    event = log.made_for(number_of(node))
    if event is None and node.name().endswith("CopySlices"):
        event = log.made_for(number_of(node) - 1)
    return event


def _nodes(roots: Sequence[Any]) -> list[Node]:
    edges = [r if isinstance(r, GradientEdge) else get_gradient_edge(r) for r in roots]
    return [edge.node for edge in edges]


def _asked(traceback: TracebackType | None) -> Site | None:
    """Return the line of the program that called backward."""
    site = None
    for frame, line in walk_tb(traceback):
        if calls_engine(frame.f_code):
            return site
        if is_own(frame.f_code):
            site = Site(frame.f_code.co_filename, line)
    return None


def _entered(
    log: Log, nodes: Sequence[Node], freed: set[Node], call: Call | None
) -> tuple[Event, Event] | None:
    """Return the first operation after a backward that takes what was made before it.

    With the operation that had made that.
    """
    if call is None:
        return None
    found, behind = [], freed.copy()
    for node in reversed(nodes):  # targets of edges before their sources
        targets = [t for t, _ in node.next_functions if t in behind]
        if targets:
            behind.add(node)
        event = _made(log, node)
        if event is None or event.index < call.begun:
            continue
        olds = (_made(log, t) for t in targets)
        found += [(event, old) for old in olds if old and old.index < call.begun]
    return min(found, key=lambda pair: pair[0].index, default=None)
