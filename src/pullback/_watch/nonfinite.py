"""Where the first NaN or infinity came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pullback._torch import number_of, storage_key
from pullback._watch.findings import Finding, Note
from pullback._watch.log import (
    FORWARD,
    Call,
    Event,
    Log,
    Memory,
    Moment,
    keys_of,
    operation_of,
)
from pullback._watch.recorder import FLOATS
from pullback._watch.rules import Found, after, at_begin, at_end

RULE = "not-finite"
#: Operations that write the numbers they are told to, such as the -inf of a mask.
CONSTANTS = {
    "fill_", "full", "full_like", "masked_fill", "masked_fill_", "new_full",
    "scalar_tensor", "where", "index_put_", "copy_", "clone", "detach", "_to_copy",
    "masked_scatter", "constant_pad_nd", "triu", "tril",
}  # fmt: skip


RANGES = (
    "Look at the ranges: a logarithm or a division meets 0, an exponential a large number. "
    "Clamp the input, add a small number, or use the stable form (log_softmax, logsumexp, "
    "binary_cross_entropy_with_logits)."
)
#: What to do about an operation of a forward pass; RANGES about the others.
FIXES = {
    **dict.fromkeys(
        ("log", "log2", "log10"),
        "The logarithm of 0 is infinite, and of a negative number NaN. Take log_softmax or "
        "logsigmoid of the scores, torch.special.entr(p) for -p log p, or clamp the input "
        "from below.",
    ),
    **dict.fromkeys(
        ("std", "var", "std_mean", "var_mean"),
        "Of a single number, std and var divide by 0, and a small number that is added "
        "later does not help: pass correction=0, or leave out groups of one.",
    ),
    **dict.fromkeys(
        ("mean", "_softmax", "_log_softmax", "nll_loss_forward", "nll_loss2d_forward"),
        "A mean of no numbers or targets, and the softmax of a row of nothing but -inf, "
        "are 0 / 0: a mask or a filter has let nothing through. Leave such batches or rows "
        "out, or mask by torch.finfo(x.dtype).min.",
    ),
    **dict.fromkeys(
        ("div", "reciprocal", "rsqrt"),
        "It divides by 0. Add a small number to what it divides by, clamp that from below, "
        "or take torch.where around input and result.",
    ),
    **dict.fromkeys(
        ("exp", "expm1", "sinh", "cosh"),
        "The exponential of more than 88 is too large for float32, of more than 11 for "
        "float16. Use logsumexp or softmax, which subtract the largest first, or clamp the "
        "input.",
    ),
    **dict.fromkeys(
        ("sqrt", "acos", "asin", "acosh", "atanh"),
        "The input is outside of where the function is defined, often by rounding alone: "
        "clamp it.",
    ),
}

#: What to do about the derivative of an operation.
SLOPES = {
    "Sqrt": "The slope of the square root at 0 is infinite: add a small number under it.",
    "Pow": "The slope of a power below 1 is infinite at 0: add a small number to the base.",
    "Log": "The slope of the logarithm at 0 is infinite: clamp the input from below.",
    **dict.fromkeys(
        ("Acos", "Asin"),
        "The slope of acos and asin at 1 and -1 is infinite: clamp the input a little "
        "inside, or take the angle by torch.atan2.",
    ),
}


@dataclass
class Origin:
    """Where a number that is not finite began.

    Attributes:
        event: The operation that made it.
        kind: ``"NaN"`` or ``"an infinity"``.
        inputs: The ranges of the inputs, and the lines that made them.
        put: Whether the program itself wrote it there.
        masked: Whether zeros arrived where it appeared, as behind a mask.
        became: The operation that made a NaN of an infinity.
        came: Whether the numbers came in from outside.
    """

    event: Event
    kind: str
    inputs: tuple[Note, ...]
    put: bool
    masked: bool
    came: bool = False
    became: Event | None = None


@dataclass
class Bad(Memory):
    """What is not finite.

    Attributes:
        origins: Where the numbers of each storage began; :func:`follow` drops one when an
            operation writes finite numbers there.
        first: The first NaN that no program wrote itself.
        reported: Whether one has been reported.
        held: A finding that counts at the end, if no scaler has skipped the step.
        scaled: Whether a scaler looks at the gradients.
    """

    origins: dict[int, Origin] = field(default_factory=dict)
    first: Origin | None = None
    reported: bool = False
    held: Finding | None = None
    scaled: bool = False


@after(RULE)
def follow(log: Log, now: Moment) -> Found:
    """Keep where numbers stop to be finite; report those that reach a gradient."""
    event = now.event
    bad = log.memory(Bad).origins
    if event.op == "_amp_foreach_non_finite_check_and_unscale_":
        log.memory(Bad).scaled = True
    if event.total is None or math.isfinite(event.total):
        if bad:
            for key in event.makes or (event.total is not None and event.writes) or ():
                bad.pop(key, None)
            if event.node.endswith("AccumulateGrad"):
                _gradient(log, now, bad)
        return ()
    (t, *_) = now.outputs
    if t.isfinite().all():  # the sum alone went over
        return ()
    nan = bool(t.isnan().any())
    before = [bad[key] for key in event.reads if key in bad]
    origin = _origin_that_counts(before, nan) if before else _new_origin(log, now, nan)
    if nan and origin.kind != "NaN" and origin.became is None:
        origin.became = event
        of_same_node = event.node_number == origin.event.node_number
        origin.masked = of_same_node and _zeros_arrive(now)
    for key in keys_of(now.outputs):
        bad[key] = origin
    if event.node.endswith("AccumulateGrad"):
        _gradient(log, now, bad)
    return ()


@at_begin(RULE)
def reached(log: Log, call: Call) -> Found:
    """Report what reached the value that backward starts from."""
    memory = log.memory(Bad)
    bad = memory.origins
    for root, key in zip(call.roots, call.keys, strict=False):
        if key in bad and not root.detach().isfinite().all():
            if bad[key].came and memory.reported:
                continue  # it came from the gradients of an earlier step
            end = "and reached what backward starts from"
            finding = _finding(bad[key], end, log.passes)
            memory.reported = True
            if bad[key].kind == "NaN" or not _just_scaled(log, root, bad[key]):
                yield finding
            else:
                memory.held = finding


@at_end(RULE)
def never_differentiated(log: Log) -> Found:
    """Report the first NaN of a program without a backward."""
    memory = log.memory(Bad)
    if log.call is None and memory.first is not None:
        yield _finding(memory.first, "", log.passes)
    if memory.held is not None and not memory.scaled:
        yield memory.held


def _just_scaled(log: Log, root: Any, origin: Origin) -> bool:
    """Tell whether the loss was finite before a factor: a scaler skips such a step."""
    made = log.made_for(number_of(root.grad_fn)) if root.grad_fn is not None else None
    return made is origin.event and made.op == "mul"


def _gradient(log: Log, now: Moment, bad: dict[int, Origin]) -> None:
    """Report what reached the gradient of a leaf; with a scaler in use, at the end."""
    keys = [key for key in (*now.event.reads, *now.event.makes) if key in bad]
    memory = log.memory(Bad)
    if not keys or memory.reported:
        return
    memory.reported = True
    memory.held = _finding(bad[keys[0]], "and reached a gradient", log.passes)


def _origin_that_counts(origins: Sequence[Origin], nan: bool) -> Origin:
    """Return the origin that counts: of a NaN, a NaN's, and one that nobody wrote."""
    return min(
        origins,
        key=lambda o: (nan and o.kind != "NaN" and o.became is None, o.put, o.event.index),
    )


def _new_origin(log: Log, now: Moment, nan: bool) -> Origin:
    inputs = [t.detach() for t in now.inputs if t.dtype in FLOATS]
    infected = [t for t in inputs if not t.isfinite().all() and not _written_over(now, t)]
    constant = now.event.op in CONSTANTS
    there = constant and not infected and _was_there(now)
    put = constant and not there
    masked = nan and len(inputs) > 1 and _zeros_arrive(now)
    kind = "NaN" if nan else "an infinity"
    origin = Origin(
        now.event,
        kind,
        _inputs(log, now),
        put,
        masked,
        came=there or (bool(infected) and not put),
    )
    if nan and not put:
        log.memory(Bad).first = log.memory(Bad).first or origin
    return origin


def _zeros_arrive(now: Moment) -> bool:
    """Tell whether a backward meets zeros where its result is NaN, as behind a mask."""
    bad = ~now.outputs[0].isfinite()
    alike = [t for t in now.inputs if t.shape == bad.shape]
    return now.event.run != FORWARD and any(bool((t[bad] == 0).all()) for t in alike)


def _was_there(now: Moment) -> bool:
    """Tell whether what is not finite stood beside what an edit wrote from finite tensors.

    So do the numbers that a step of an optimizer has put into a weight.
    """
    numbers = [value for value in now.args if isinstance(value, float)]
    return bool(now.event.writes) and all(map(math.isfinite, numbers))


def _written_over(now: Moment, t: Tensor) -> bool:
    """Tell whether it is the operation itself that has written these numbers."""
    return storage_key(t) in now.event.writes


def _inputs(log: Log, now: Moment) -> tuple[Note, ...]:
    """Return the range of each input, and the line that made it, if it is known."""
    inputs = [t.detach() for t in now.inputs if t.dtype in FLOATS]
    makers = [log.makers.get(storage_key(t)) for t in inputs]
    return tuple(
        Note(
            _role(now.event, maker),
            maker.site if maker is not None else None,
            "written over" if _written_over(now, t) else _range(t),
        )
        for t, maker in zip(inputs, makers, strict=True)
    ) or (Note("input", None, "no tensors"),)


def _role(event: Event, maker: Event | None) -> str:
    """Return whether it is a gradient that an operation of a backward pass was sent."""
    sent = maker is not None and maker.run != FORWARD
    own = maker is not None and maker.node_number == event.node_number
    return "gradient" if sent and event.run != FORWARD and not own else "input"


def _range(t: Tensor) -> str:
    good = t[t.isfinite()]
    if good.numel():
        low, high = good.min().item(), good.max().item()
        numbers = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    else:
        numbers = "nothing finite" if t.numel() else "nothing"
    more = "" if good.numel() == t.numel() else " and what is not finite"
    return f"{numbers}{more}, shape {tuple(t.shape)}"


def _finding(origin: Origin, end: str, passes: int) -> Finding:
    event = origin.event
    where = f"in {_where(event)}"
    if origin.came:
        head = f"Numbers that are not finite came in and were first used {where}"
    elif origin.put:
        head = f"{origin.kind[0].upper()}{origin.kind[1:]} was written as a constant"
    else:
        head = f"{origin.kind[0].upper()}{origin.kind[1:]} first appeared {where}"
    notes = [*origin.inputs]
    if origin.became is not None:
        became = origin.became
        how = (
            f"backward of {operation_of(became.node)}"
            if became.run != FORWARD
            else became.op
        )
        notes.append(Note("NaN", became.site, f"became NaN in {how}"))
    site = event.site
    if origin.put and origin.became is not None:  # a mask is right; what it met is not
        head = f"The infinity that {event.op} wrote became NaN in {origin.became.op}"
        notes = [Note("written", site, event.op), *origin.inputs]
        site = origin.became.site
    if passes > 1:
        notes.append(Note("when", None, f"in backward pass {passes:,}"))
    page, fix = _advice(origin)
    return Finding(
        rule=RULE,
        site=site,
        message=f"{head}{', ' + end if end else ''}.",
        fix=fix,
        page=page,
        notes=tuple(notes),
    )


def _where(event: Event) -> str:
    return event.op if event.run == FORWARD else f"backward of {operation_of(event.node)}"


def _advice(origin: Origin) -> tuple[str, str]:
    event = origin.event
    if event.run == FORWARD:
        where = origin.became if origin.put and origin.became is not None else event
        return "loss-nan-or-inf", FIXES.get(where.op, RANGES)
    slope = SLOPES.get(operation_of(event.node), "")
    if origin.masked:
        return "nan-from-a-mask", (
            f"{slope}{' ' * bool(slope)}Zeros arrive where the derivative is infinite, and "
            "0 times infinity is NaN. If a mask sends the zeros, mask the input as well: "
            "torch.where(m, f(torch.where(m, x, 1.0)), 0.0)."
        )
    if event.node.startswith("Sqrt"):
        return "norm-at-zero", (
            f"{slope} Of a norm use torch.linalg.vector_norm, whose gradient there is 0."
        )
    if slope:
        return "returned-nan-values", slope
    return "returned-nan-values", (
        "The derivative of this operation is not finite at its input: keep the input away "
        "from there, by a clamp or a small number that is added."
    )
