"""Silent traps of shapes (N, 1) and (N,), which make (N, N) together."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from torch import Tensor

from pullback._torch import given_to_loss, storage_key
from pullback._watch.findings import Finding, Note
from pullback._watch.frames import own_frame
from pullback._watch.log import FORWARD, Event, Log, Memory, Moment
from pullback._watch.rules import Found, after, trap

DIFFERENCES = ("sub", "rsub")
LOSSES = ("mse_loss", "huber_loss", "smooth_l1_loss")
#: What goes on with each number by itself, so that N² of them stay N² of the same kind.
JOINS = (
    *DIFFERENCES, "add", "mul", "div", "where", "minimum", "maximum",
    "neg", "abs", "pow", "clamp", "clamp_min", "clamp_max", "relu", *LOSSES,
)  # fmt: skip
REDUCES = ("mean", "sum", *LOSSES)
#: What makes a column of what was none; its maker is not where a column is to be mended.
VIEWS = ("Unsqueeze", "View", "Reshape", "UnsafeView", "Alias", "Slice", "Expand")


# --- in one operation -----------------------------------------------------------------


@after("loss-broadcast", *DIFFERENCES)
def broadcast_loss(log: Log, now: Moment) -> Found:
    """A prediction of shape (N, 1) and a target of shape (N,)."""
    if len(now.inputs) != 2 or now.event.run != FORWARD or not now.event.grad:
        return
    column, row = _column_and_row(now)
    if column is None or row is None or column.requires_grad == row.requires_grad:
        return
    if _has_shape_by_itself(column) and not _shaped_here(log, column):
        yield _found(log, now.event, column, row)


@after("loss-broadcast", "expand")
def broadcast_in_a_loss(log: Log, now: Moment) -> Found:
    """The same in a loss of torch, which gives both one shape by itself."""
    given = given_to_loss() if now.event.run == FORWARD else []
    if len(given) != 2:
        return
    column, row = sorted(given, key=lambda t: -t.ndim)
    n = row.shape[0] if row.ndim == 1 else 0
    if n > 1 and column.shape == (n, 1) and column.requires_grad != row.requires_grad:
        yield _found(log, now.event, column, row)


def _column_and_row(now: Moment) -> tuple[Tensor | None, Tensor | None]:
    """Return inputs of shape (N, 1) and (N,) that do not share their numbers, if any."""
    columns = [t for t in now.inputs if t.ndim == 2 and t.shape[1] == 1 < t.shape[0]]
    for column in columns:
        for t in now.inputs:
            if t.shape == column.shape[:1] and storage_key(t) != storage_key(column):
                return column, t
    return (columns[0] if columns else None), None


def _has_shape_by_itself(t: Tensor) -> bool:
    """Tell whether t has its shape by itself, and not to be broadcast: x[:, None]."""
    return not type(t.grad_fn).__name__.startswith(VIEWS)


def _shaped_here(log: Log, t: Tensor) -> bool:
    """Tell whether it is the same line that gave t its shape, as in x[:, None] - y."""
    last, key = log.events[-1], storage_key(t)
    line = itertools.takewhile(lambda event: event.site == last.site, reversed(log.events))
    views = (e for e in line if e is not last and not e.makes and e.op != "detach")
    same = (e for e in views if e.shape == t.shape)
    return any(key in event.reads for event in itertools.islice(same, 8))


def _found(log: Log, event: Event, column: Tensor, row: Tensor) -> Finding:
    """Return what is told of a column, and of a row or of what is N² numbers already."""
    n = column.shape[0]
    names = _names_here()
    one, other = names.get(id(column), ""), names.get(id(row), "")
    shapes = f"Shapes {_with(one, (n, 1))} and {_with(other, tuple(row.shape))} make"
    if row.ndim == 2:
        message = (
            f"{_with(other, (n, n))} should have {n} numbers. When it has them, its shape "
            f"does not fit {_with(one, (n, 1))} on this line either."
        )
    elif event.op in (*DIFFERENCES, "expand"):
        message = (
            f"{shapes} a difference of shape ({n}, {n}): each prediction is compared with "
            "each target."
        )
    else:
        message = (
            f"{shapes} a result of shape ({n}, {n}): each number of one meets each of the "
            "other, where sample should meet sample."
        )
    maker = log.makers.get(storage_key(column))
    made = maker is not None and maker.site not in (None, event.site)
    return trap(
        "weights-broadcast" if event.op in ("mul", "div") else "loss-broadcast",
        event.site,
        message,
        f"Take the column away here, or once where it is made: {one or '(…)'}.squeeze(1).",
        *([Note("column", maker.site, f"made shape ({n}, 1)")] if made and maker else []),
    )


def _with(name: str, shape: tuple[int, ...]) -> str:
    return f"{shape} of {name}" if name else str(shape)


def _names_here() -> dict[int, str]:
    """Return the names of the tensors that the nearest own line may speak of, by ``id``."""
    frame = own_frame()
    values = frame.f_locals.items() if frame is not None else ()
    return {id(value): name for name, value in values if isinstance(value, Tensor)}


# --- along a few operations, to a number ----------------------------------------------


@dataclass
class Squares(Memory):
    """Which tensors of shape (N, N) came of (N, 1) and (N,), and of what, by storage."""

    of: dict[int, tuple[Event, dict[Finding, None]]] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop what was made before the operations that are kept."""
        for key in [key for key, (event, _) in self.of.items() if event.index < before]:
            del self.of[key]


@after("weights-broadcast", *JOINS)
def keep_squares(log: Log, now: Moment) -> Found:
    """Keep what is N² numbers where N may be meant, and where that began.

    A table of all pairs is right in itself. One that only goes on number by number, up to
    a mean over all of it, tells no pairs apart, and nobody needs it.
    """
    event, squares = now.event, log.memory(Squares)
    if event.run != FORWARD or len(event.shape) != 2 or event.shape[0] != event.shape[1]:
        return ()
    n = event.shape[0]
    if n < 2 or event.op in LOSSES:
        return ()
    known = [_square(log, t) for t in now.inputs]
    whole = [of for t, of in zip(now.inputs, known, strict=True) if t.shape == (n, n)]
    if None in whole:  # a table of its own: pairs are meant
        return ()
    found = {finding: None for of in known if of for finding in of}
    column, row = _column_and_row(now)
    if column is not None and (row is None or not _is_for_features(event, column, row)):
        other = row if row is not None else next((t for t in now.inputs if t.ndim == 2
                                                  and t.shape == (n, n)), None)  # fmt: skip
        if other is not None and not _shaped_here(log, column):
            found[_found(log, event, column, other)] = None
    if found:
        for key in event.makes:
            squares.of[key] = event, found
    return ()


def _is_for_features(event: Event, column: Tensor, row: Tensor) -> bool:
    """Tell whether pairs may be meant: a weight for each feature, or a margin of pairs."""
    if row.is_leaf and row.requires_grad:
        return True
    if event.op not in ("mul", "div", "where") and not _has_shape_by_itself(column):
        return True
    return event.op in DIFFERENCES and column.requires_grad and row.requires_grad


def _square(log: Log, t: Tensor) -> dict[Finding, None] | None:
    """Return where a tensor of shape (N, N) began as one by mistake, if it did."""
    squares = log.memory(Squares).of
    if not squares or t.ndim != 2 or t.shape[0] != t.shape[1]:
        return None
    key = storage_key(t)
    event, found = squares.get(key, (None, {}))
    return found if event is not None and log.makers.get(key) is event else None


@after("weights-broadcast", *REDUCES)
def mean_of_a_square(log: Log, now: Moment) -> Found:
    """One number of N² that came of (N, 1) and (N,): a loss."""
    event = now.event
    if event.run == FORWARD and event.shape == () and event.live:
        for t in now.inputs:
            yield from _square(log, t) or ()


@after("loss-broadcast", "expand")
def square_in_a_loss(log: Log, now: Moment) -> Found:
    """A column in a loss of torch whose other side is N² numbers by mistake."""
    given = given_to_loss() if now.event.run == FORWARD else []
    for column, square in itertools.permutations(given, 2):
        mistaken = _square(log, square) is not None
        if mistaken and column.shape == (square.shape[0], 1) and column.requires_grad:
            yield _found(log, now.event, column, square)
