"""Which line edited a tensor in place that backward needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from pullback._graph import nodes_from
from pullback._torch import edited_tensors_of, number_of, storage_key
from pullback._watch.findings import Finding, Note
from pullback._watch.log import Event, Log, keys_of

PAGE = "modified-by-an-inplace-operation"
MESSAGE = "has been modified by an inplace operation"
TOLD = re.compile(r"(\[[\d, ]*\])\].* is at version (\d+); expected version (\d+)", re.S)


def edited(log: Log, error: BaseException) -> Iterator[Finding]:
    """Yield the finding for an error of autograd that left the block, if it is that one."""
    if not isinstance(error, RuntimeError) or MESSAGE not in str(error):
        return
    frame = engine_frame(error.__traceback__)
    found = frame and edited_node(frame.f_locals["t_outputs"])
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
    name = node.name().rstrip("0123456789").removesuffix("Backward")
    what, fix = _what(log, writer, keys, shape)
    saved = f"{name} saved its {_part(part)}, of shape {shape}, at version {then}"
    yield Finding(
        rule="in-place",
        site=writer.site,
        message=f"{what} after {name} had saved it for backward.",
        fix=fix,
        page=PAGE,
        notes=(
            Note("saved", saver.site if saver else None, saved),
            Note("edited", writer.site, f"{writer.op} wrote; now it is at version {now}"),
        ),
    )


def _what(log: Log, writer: Event, keys: Sequence[int], shape: str) -> tuple[str, str]:
    """Say what was written, and what to do."""
    if writer.op == "step":
        held = [p for p in log.held().values() if storage_key(p) in keys]
        fits = [p for p in held if shape in (str([*p.shape]), str([*reversed(p.shape)]))]
        names = [log.name_of(p) for p in fits or held]
        parameter = names[0] if names else "a parameter"
        return (
            f"{writer.owner}.step() changed the parameter {parameter}",
            "Call every backward that goes through this graph before step(), or compute "
            "the second loss anew after it.",
        )
    return (
        f"{writer.op} edited a tensor of shape {shape} in place",
        "Make a new tensor there instead (y = y + 1 for y += 1, torch.where for a mask, "
        "no inplace=True), or write to a clone.",
    )


def _part(saved: str) -> str:
    return {"result": "result", "tensors": "tensor"}.get(saved, f"input {saved!r}")


def engine_frame(traceback: TracebackType | None) -> FrameType | None:
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "_engine_run_backward":
            found = traceback.tb_frame
        traceback = traceback.tb_next
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
