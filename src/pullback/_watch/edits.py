"""Which line edited a tensor in place that backward needs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from pullback._graph import nodes_from
from pullback._torch import (
    asked_by,
    calls_engine,
    edited_tensors_of,
    number_of,
    storage_key,
)
from pullback._watch.findings import Finding, Note
from pullback._watch.log import Event, Log, keys_of, operation_of

PAGE = "modified-by-an-inplace-operation"
MESSAGE = "has been modified by an inplace operation"
#: What `watch` and `hints` say of a step between two backward passes. The entry says it as
#: one cause among others, to readers who have not been told which of them is theirs.
STEP = (
    "If both losses are to train the same network, make all backward calls first, then "
    "all steps. If two networks are trained against each other (GAN, actor and critic), "
    "compute the second loss again after the step. That is right only if the optimizer of "
    "that loss holds every weight that the loss is to move."
)
PARTS = (
    "Collect the parts in a list, and make one tensor of them at the end by torch.stack or "
    "torch.cat. Or read a clone of the slice, x[i].clone()."
)
EDIT = (
    "Make a new tensor there instead (y = y + 1 for y += 1, y = y.scatter(...) for "
    "y.scatter_(...), y = z for y[:] = z, torch.where for a mask, no inplace=True), or "
    "write to a clone."
)
ROW = (
    "Let the line that saved it read a copy, x.clone(). If the tensor outlives the step, "
    "as a memory does, write what has no graph: x[i] = z.detach()."
)
STATE = (
    "Let the line that saved it read a copy, x.clone(), or write after backward(). A new "
    "tensor in place of the write helps only where nothing else holds the old one, as "
    "modules and other objects hold a buffer."
)
TOLD = re.compile(r"(\[[\d, ]*\])\].* is at version (\d+); expected version (\d+)", re.S)


def edited(log: Log, error: BaseException) -> Iterator[Finding]:
    """Yield the finding for an error of autograd that left the block, if it is that one."""
    if not isinstance(error, RuntimeError) or MESSAGE not in str(error):
        return
    frame = engine_frame(error.__traceback__)
    found = edited_node(asked_by(frame).roots) if frame else None
    if not found:
        return
    node, part, tensors = found
    told = TOLD.search(str(error))
    shape, now, then = told.groups() if told else ("unknown", "unknown", "unknown")
    saver = log.made_for(number_of(node))
    since = saver.index if saver else -1
    keys = keys_of(tensors) or ((*saver.makes, *saver.reads) if saver else ())
    writers = [w for key in keys for w in log.writes_since(key, since)]
    if not writers:
        log.findings.missed("the line that edited the tensor: it was out of sight")
        return
    writer = min(writers, key=lambda w: w.index)
    name = operation_of(node.name())
    then_saved = f"after {name} had saved it for backward."
    if writer.op == "step":
        parameter = _parameter(log, keys, shape)
        message = f"{writer.owner}.step() changed the parameter {parameter} {then_saved}"
        fix = STEP
    elif whole := _written_in_parts(log, writer, since, keys, shape):
        message = (
            f"{writer.op} wrote a slice of shape {[*writer.shape]} of a tensor of {whole} "
            f"numbers after {name} had saved one for backward. All slices share one "
            "version counter, so that a write to any of them counts for each."
        )
        fix = PARTS
    else:
        written = _buffer(log, keys) or "a tensor"
        message = f"{writer.op} edited {written} of shape {shape} in place {then_saved}"
        of_input = math.prod(writer.shape) < writer.room and part != "result"
        fix = ROW if of_input else EDIT if writer.recorded else STATE
    saved = f"{name} saved its {_part(part)}, of shape {shape}, at version {then}"
    yield Finding(
        rule="in-place",
        site=writer.site,
        message=message,
        fix=fix,
        page=PAGE,
        notes=(
            Note("saved", saver.site if saver else None, saved),
            Note("edited", writer.site, f"now it is at version {now}"),
        ),
    )


def _parameter(log: Log, keys: Sequence[int], shape: str) -> str:
    """Return the name of the parameter that a step changed, as far as it is known."""
    held = [p for p in log.held().values() if storage_key(p) in keys]
    fits = [p for p in held if shape in (str([*p.shape]), str([*reversed(p.shape)]))]
    return next((log.name_of(p) for p in fits or held), "of the optimizer")


def _buffer(log: Log, keys: Sequence[int]) -> str:
    """Return the name of the buffer that was written to, if a module that ran has it."""
    for module in tuple(log.modules):
        for name, buffer in module.named_buffers():
            if not {*keys_of([buffer])}.isdisjoint(keys):
                return f"{name}, a buffer"
    return ""


def _written_in_parts(
    log: Log, writer: Event, since: int, keys: Sequence[int], saved: str
) -> int:
    """Return how many numbers a tensor has that is written slice by slice, or else 0.

    One slice was saved, of a shape as in ``[3, 4]``, or slices were written before the
    operation ``since`` that saved it.
    """
    whole = writer.room
    if math.prod(writer.shape) >= whole:
        return 0
    writes = [w for key in keys for w in log.writers.get(key, ())]
    parts = [w for w in writes if math.prod(w.shape) < whole and w.index < since]
    one = math.prod(map(int, re.findall(r"\d+", saved))) < whole
    return whole if parts or one else 0


def _part(saved: str) -> str:
    return {"result": "result", "tensors": "tensor"}.get(saved, f"input {saved!r}")


def engine_frame(traceback: TracebackType | None) -> FrameType | None:
    """Return the innermost frame of a traceback that called the engine, if any."""
    found = None
    for frame, _ in walk_tb(traceback):
        if calls_engine(frame.f_code):
            found = frame
    return found


def edited_node(roots: Any) -> tuple[Any, str, list[Tensor | None]] | None:
    """Return the node that found a saved tensor edited, its part, and what it may be.

    The engine runs the nodes that were made last first, and those that it has run hold
    nothing any more.
    """
    edges = [r if isinstance(r, GradientEdge) else get_gradient_edge(r) for r in roots]
    starts = [edge.node for edge in edges]
    for node in sorted(nodes_from(starts), key=number_of, reverse=True):
        edited = edited_tensors_of(node)
        if edited:
            return node, edited[0][0], [t for _, t in edited]
    return None
