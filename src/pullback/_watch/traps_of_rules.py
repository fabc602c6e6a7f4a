"""Silent traps in custom Functions, checkpoints and transforms."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from pullback._graph import nodes_from
from pullback._torch import (
    frames_of,
    function_of,
    functions_of,
    gradients_of_functional,
    shapes_received,
    shapes_sent,
    storage_key,
)
from pullback._watch.findings import Findings, Note, Site
from pullback._watch.frames import called_by_engine, own_frame, runs_ahead
from pullback._watch.functions import returned_at, running, unread
from pullback._watch.log import FORWARD, Call, Event, Leaf, Log, Memory, Moment
from pullback._watch.recorder import GRADCHECK, readable
from pullback._watch.rules import Found, after, at_begin, at_end, trap

# --- custom Functions -----------------------------------------------------------------


@after("broadcast-gradient-summed", "sum", run="function")
def summed(log: Log, now: Moment) -> Found:
    """A backward that returns more than the input has, which the engine adds up."""
    if not called_by_engine():
        return
    function = function_of(now.node)
    returned = tuple(now.inputs[0].shape)
    if returned not in shapes_received(now.node):
        size = math.prod(now.event.shape)  # it may be summed with dimensions of size 1
        inputs = [shape for shape in shapes_sent(now.node) if math.prod(shape) == size]
        called = now.event.site
        yield trap(
            "broadcast-gradient-summed",
            returned_at(function) or called,
            f"backward of {function.__name__} returns shape {returned} for an "
            f"input of shape {(inputs or [now.event.shape])[0]}, and it is summed.",
            "Return a gradient of the input's own shape, and try gradcheck.",
            Note("forward", called, "computed"),
        )


@after("saved-intermediate", run="function")
def saved_intermediate(log: Log, now: Moment) -> Found:
    """A backward that is differentiated, and uses what forward computed without a graph."""
    if not now.event.grad or not (log.call and log.call.create_graph):
        return
    if now.event.op == "detach":  # which unpacks a saved output
        return
    function = function_of(now.node)
    for t in now.inputs:
        maker = log.makers.get(storage_key(t)) if not t.requires_grad else None
        if maker is None or not t.is_floating_point() or maker.run != FORWARD:
            continue
        inside = maker.number == now.event.node_number and not maker.grad
        if inside and _from_live(log, maker):
            yield trap(
                "saved-intermediate",
                maker.site,
                f"forward of {function.__name__} saves a result of its own; backward "
                "treats it as a constant, and the second derivative is wrong.",
                "Save inputs and outputs only, and compute it anew in backward.",
            )


def _from_live(log: Log, event: Event) -> bool:
    """Tell whether an operation of a forward depends on what requires a gradient."""
    todo, seen = [event], set[int]()
    while todo:
        event = todo.pop()
        if event.live:
            return True
        seen.add(event.index)
        makers = (log.makers.get(key) for key in event.reads)
        todo += [m for m in makers if m is not None and m.number == event.number
                 and m.index not in seen]  # fmt: skip
    return False


@after("once-differentiable-in-a-sum", run="function")
def once(log: Log, now: Moment) -> Found:
    """A backward without a graph of its own, where one was asked for.

    It computes without one, or takes the numbers out of torch, as NumPy does. No other view
    counts: torch makes one of what a Function in the backward returns as it was given.
    """
    event = now.event
    if event.grad or not event.live or not (log.call and log.call.create_graph):
        return
    if not (event.makes or event.op == "detach"):
        return
    if running() is None:  # or else it is one that the backward calls
        name = function_of(now.node).__name__
        yield trap(
            "once-differentiable-in-a-sum",
            event.site,
            f"backward of {name} keeps no graph, although create_graph asks "
            "for one: its part of the second derivative is left out.",
            "Take @once_differentiable or no_grad away, and write backward of operations "
            "that have derivatives.",
        )


@dataclass
class Hooks(Memory):
    """Where hooks look at what arrives; :func:`remove_hooks` takes them away at the end."""

    handles: list[RemovableHandle] = field(default_factory=list)


@at_begin("backward-that-ignores-v")
def ignores_v(log: Log, call: Call) -> Found:
    """Look at what arrives at the custom Functions whose backward does not read it."""
    roots = {
        r.grad_fn: v
        for r, v in zip(call.roots, call.cotangents, strict=True)
        if isinstance(r, Tensor) and r.grad_fn is not None
    }
    for node in nodes_from(list(roots)):
        function = function_of(node)
        if function is None or not unread(function):
            continue
        if node in roots:  # it may run already
            yield from _ignored(function, [roots[node]])
        else:
            look = functools.partial(_keep_ignored, log.findings, function)
            log.memory(Hooks).handles.append(node.register_prehook(look))


def _keep_ignored(findings: Findings, function: Any, arrived: Any) -> None:
    for finding in _ignored(function, arrived):
        findings.add(finding)


@at_end("backward-that-ignores-v")
def remove_hooks(log: Log) -> Found:
    """Take the hooks of :func:`ignores_v` away."""
    for handle in log.memory(Hooks).handles:
        handle.remove()
    return ()


def _ignored(function: Any, arrived: Any) -> Found:
    if all(v is None or bool((v == 1).all()) for v in arrived):
        return  # a ready gradient is right for v = 1
    v = unread(function)
    yield trap(
        "backward-that-ignores-v",
        returned_at(function),
        f"backward of {function.__name__} does not use {v}, which is not 1 here: what it "
        "returns is wrong by that factor.",
        f"Return {v} times the derivative.",
    )


# --- saved tensors --------------------------------------------------------------------

#: Operations of backward that ask a saved tensor for its shape, or for signs, alone.
HARDLY_READ = {
    "threshold_backward", "leaky_relu_backward", "hardtanh_backward", "sgn", "sign",
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    "_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "avg_pool3d_backward",
    "nll_loss_backward", "nll_loss2d_backward",
}  # fmt: skip


@after("data-hides-changes", run="backward")
def hidden_edits(log: Log, now: Moment) -> Found:
    """What backward reads with other numbers than forward, and nobody noticed."""
    if log.detached.keys().isdisjoint(now.event.live):
        return ()  # as nearly always
    return chain(hidden_edit(log, now), hidden_edit_of_result(log, now))


def hidden_edit(log: Log, now: Moment) -> Found:
    """Yield a leaf that was written to."""
    event, detached = now.event, log.detached
    for t in now.inputs:
        key = storage_key(t) if t.requires_grad and t.layout is torch.strided else 0
        alias, leaf = detached.get(key), log.leaf_of.get(key)
        if leaf is None or alias is None or leaf.total is None or key != leaf.key:
            continue
        whole, made_for = leaf.tensor(), log.made_for(event.node_number)
        if whole is None or (
            t is not whole and not _written_by_alias(log, leaf, alias, made_for)
        ):
            continue
        if functions_of(GRADCHECK):
            return  # which moves the numbers a little, and back
        if (
            made_for is not None
            and leaf.key in made_for.live
            and _differs(whole, leaf.total)
        ):
            yield trap(
                "data-hides-changes",
                alias.site,
                f"{log.name_of(whole)} was edited through .data, .detach() or NumPy "
                "between forward and backward; autograd does not see it, and the gradient "
                "is wrong.",
                "Write under no_grad to the tensor itself, which is noticed.",
                Note("saved", made_for.site, "used in forward"),
            )


def hidden_edit_of_result(log: Log, now: Moment) -> Found:
    """Yield a result that was written to: its version does not count it."""
    event, detached = now.event, log.detached
    if not _reads(event):
        return
    made_for = log.made_for(event.node_number)
    for t in now.inputs if made_for is not None else ():
        key = storage_key(t) if t.requires_grad and t.layout is torch.strided else 0
        if made_for is None or key not in detached or key in log.leaf_of:
            continue
        alias, written = detached[key], log.writes_since(key, made_for.index)
        hidden = [w for w in written if w.run == FORWARD and key not in w.live]
        if not hidden or functions_of(GRADCHECK):
            continue
        before = _last_written(log, key, hidden[0].index)
        if (
            before is not None
            and before.total is not None
            and before.shape == tuple(t.shape)
            and readable(t)
            and _differs(t, before.total)
        ):
            yield trap(
                "data-hides-changes",
                hidden[0].site,
                f"{hidden[0].op} edited the result of {before.op} through .data between "
                "forward and backward. Autograd does not see it, and backward takes the "
                "new numbers for those that forward gave.",
                "Write out of place, through which the gradient flows (y = y.clamp(0, 1)); "
                "or write to a copy, y.detach().clone().",
                Note("made", before.site, before.op),
                Note("saved", made_for.site, "needed in backward"),
                Note("taken", alias.site, ".data"),
            )


def _reads(event: Event) -> bool:
    """Tell whether a result depends on the numbers that an operation took, smoothly."""
    return not (event.integer or event.of_shapes or event.op in HARDLY_READ)


def _last_written(log: Log, key: int, index: int) -> Event | None:
    """Return what wrote the numbers of a storage last before an operation."""
    made = log.makers.get(key)
    writers = [w for w in log.writers.get(key, ()) if w.index < index]
    writers += [made] if made is not None and made.index < index else []
    return max(writers, key=lambda w: w.index, default=None)


def _written_by_alias(log: Log, leaf: Leaf, alias: Event, since: Event | None) -> bool:
    """Tell whether a leaf whose view was saved was written after that by its alias."""
    if since is None or alias.index < since.index:
        return False
    return bool(log.writes_since(leaf.key, alias.index))


def _differs(t: Tensor, total: float) -> bool:
    now = t.detach().sum().item()
    return math.isfinite(total) and now != total


# --- checkpoints ----------------------------------------------------------------------


@dataclass
class ForwardValues(Memory):
    """What forward gave, as sums, by line and operation; of the last backward pass alone.

    Attributes:
        run: The pass.
        of: The sums.
    """

    run: int = FORWARD
    of: dict[tuple[Site | None, str], list[float]] = field(default_factory=dict)


@after("checkpoint-of-another-function", run="backward")
def recomputed(log: Log, now: Moment) -> Found:
    """A checkpointed function that gives another value the second time."""
    event, call = now.event, log.call
    if event.run == FORWARD or not event.grad or event.total is None:
        return
    if call is None or call.create_graph or function_of(now.node) is not None:
        return
    values = log.memory(ForwardValues)
    if values.run != call.run:
        values.run, values.of = call.run, _values(log)
    before = values.of.get((event.site, event.op), ())
    near = (math.isclose(event.total, b, rel_tol=1e-3, abs_tol=1e-6) for b in before)
    if before and math.isfinite(event.total) and not any(near) and not runs_ahead():
        yield trap(
            "checkpoint-of-another-function",
            event.site,
            f"{event.op} gave {before[-1]:.4g} in forward (the sum of its result) and "
            f"{event.total:.4g} when the checkpoint computed it again: the gradient is "
            "wrong.",
            "Draw random numbers and read what changes outside, and pass them in. If it "
            "is inside of functional_call, which has put the old parameters back by then, "
            "take it away and put one checkpoint around functional_call.",
        )


def _values(log: Log) -> dict[tuple[Site | None, str], list[float]]:
    found = defaultdict(list)
    for event in log.forward_events():
        if event.total is not None:
            found[event.site, event.op].append(event.total)
    return found


# --- transforms -----------------------------------------------------------------------


@after("jacobian-of-a-closure", "zeros_like")
def closure(log: Log, now: Moment) -> Found:
    """functional.jacobian of a function that does not depend on its input."""
    gradients = gradients_of_functional()
    if gradients and not any(g is not None for g in gradients):
        yield trap(
            "jacobian-of-a-closure",
            now.event.site,
            "The output does not depend on the input that was given: the Jacobian is "
            "zeros.",
            "Compute y from the argument of the function; pullback.jacobian(y, x) takes a "
            "y that is there already.",
        )


@at_begin("complex-jacobian-conjugate")
def conjugate(log: Log, call: Call) -> Found:
    """functional.jacobian of a complex function in reverse mode."""
    complex_roots = any(isinstance(r, Tensor) and r.is_complex() for r in call.roots)
    if complex_roots and "jacobian" in functions_of("autograd/functional.py"):
        yield trap(
            "complex-jacobian-conjugate",
            call.site,
            "functional.jacobian in reverse mode gives the conjugate of what it gives in "
            "forward mode, for a complex function.",
            "Write the function of real parts: torch.view_as_real and view_as_complex.",
        )


@after("mutating-function", run="forward")
def edits_its_input(log: Log, now: Moment) -> Found:
    """A function that edits the caller's own tensor, inside a transform."""
    event = now.event
    if not event.writes or event.run != FORWARD or event.function:
        return
    if functions_of("nn/modules/"):
        return  # the statistics of a BatchNorm, which functional_call is given for that
    for frame in frames_of("_functorch/", own_frame()):
        held = _tensors_in(frame.f_locals.values())
        if any(storage_key(t) in event.writes for t in held):
            yield trap(
                "mutating-function",
                event.site,
                f"{event.op} inside a transform edits the tensor that was passed in: the "
                "caller's own x changes.",
                "Work on a new tensor: x * 2 for x.mul_(2).",
            )
            return


def _tensors_in(values: Any) -> Iterator[Tensor]:
    for value in values:
        if type(value) is Tensor and value.device.type != "meta":
            try:
                storage_key(value)
            except (RuntimeError, NotImplementedError):  # the wrapper of a transform
                continue
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_in(value)
