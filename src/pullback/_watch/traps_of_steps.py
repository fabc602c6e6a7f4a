"""Silent traps around an optimizer's step."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pullback._buffers import BATCH_NORMS
from pullback._torch import functions_of, given_to_clip, hooks_of, storage_key
from pullback._watch.findings import Note, Site
from pullback._watch.frames import is_own
from pullback._watch.log import (
    FORWARD,
    Event,
    Leaf,
    Log,
    Memory,
    Moment,
    drop,
    held_by,
    keys_of,
)
from pullback._watch.recorder import readable
from pullback._watch.rules import Found, after, at_step, trap

TWICE = 2  # of a step that is odd; one alone may be meant
THRICE = 3  # in succession
#: What does another thing in evaluation mode.
IN_TRAINING = (
    *BATCH_NORMS, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
)  # fmt: skip


@dataclass
class Modes:
    """Of a module that is called on one line: how it trained.

    Attributes:
        parts: Those of it that do another thing in evaluation mode.
        odd: How often it has trained in evaluation mode since.
    """

    parts: list[nn.Module] = field(default_factory=list)
    odd: int = 0


@dataclass
class Steps(Memory):
    """What was seen of steps so far.

    Attributes:
        empty: When each optimizer stepped last, and how often it found no gradients.
        modes: How each module trained, by the line that called it.
        clipped: The operation that clipped each gradient last, by its storage; it is
            dropped when the gradient is unscaled.
    """

    empty: dict[Any, tuple[int, int]] = field(default_factory=dict)
    modes: dict[tuple[nn.Module, Site | None], Modes] = field(default_factory=dict)
    clipped: dict[int, Event] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop what was clipped before the operations that are kept."""
        drop(self.clipped, before)


@at_step("cleared-before-the-step")
def cleared(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A step without gradients, although backward has filled them since the last one."""
    stepped, times = log.memory(Steps).empty.get(optimizer, (-1, 0))
    known = held_by(optimizer)
    leaves = {id(p): log.leaf(p) for p in known}
    arrived = [leaf for leaf in leaves.values() if leaf and leaf.last > stepped]
    times = times + 1 if arrived and _all_cleared(log, known, leaves) else 0
    log.memory(Steps).empty[optimizer] = log.count, times
    if times == TWICE:
        call = log.call
        yield trap(
            "cleared-before-the-step",
            site,
            f"{type(optimizer).__name__}.step() finds no gradients: backward has filled "
            "them, and they were cleared before this line. Nothing is learnt.",
            "Call zero_grad() before backward, or after the step, and not between them.",
            *([Note("backward", call.site, "filled them")] if call is not None else ()),
        )


def _all_cleared(
    log: Log, parameters: list[Tensor], leaves: dict[int, Leaf | None]
) -> bool:
    """Tell whether no gradient is left, or zeros that were written after it had come."""
    for p in parameters:
        leaf = leaves[id(p)]
        if p.grad is None:
            continue
        if leaf is None or not leaf.arrivals or p.grad.layout is not torch.strided:
            return False
        writers = log.writers.get(storage_key(p.grad), ())
        if not writers or writers[-1].index < leaf.last or not writers[-1].clears:
            return False
    return True


@at_step("evaluation-mode-stays-on")
def stays(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A model that trained in training mode, and goes on in evaluation mode."""
    updated = {id(p) for p in held_by(optimizer) if p.grad is not None}
    for module, (training, called) in tuple(log.called.items()):
        if updated.isdisjoint(map(id, module.parameters())):
            continue
        modes = log.memory(Steps).modes.setdefault((module, called), Modes())
        if training:
            modes.odd = 0
            modes.parts = [p for p in module.modules() if _trains_otherwise(p)]
        elif modes.parts and not any(p.training for p in modes.parts):
            modes.odd += 1
        if modes.odd == TWICE:
            kinds = ", ".join(dict.fromkeys(type(p).__name__ for p in modes.parts))
            yield trap(
                "evaluation-mode-stays-on",
                called,
                f"{type(module).__name__} trains on in evaluation mode, in which {kinds} "
                "does something else; it began in training mode.",
                "Call model.train() after each validation, or before each epoch.",
                Note("step", site, "updates its parameters"),
            )


def _trains_otherwise(part: nn.Module) -> bool:
    """Tell whether a module in training mode does another thing in evaluation mode."""
    if not part.training or getattr(part, "p", 1) == 0:
        return False
    return isinstance(part, IN_TRAINING) and getattr(part, "track_running_stats", True)


@after("clipped-while-scaled", "mul_", "_foreach_mul_", "clamp_", "_foreach_clamp_min_",
       "_foreach_clamp_max_")  # fmt: skip
def clipped(log: Log, now: Moment) -> Found:
    """Keep which gradients were clipped, for :func:`while_scaled`."""
    event = now.event
    by_hand = event.run == FORWARD and not event.grad
    if by_hand and functions_of("nn/utils/clip_grad.py"):
        log.memory(Steps).clipped.update(dict.fromkeys(event.writes, event))
    return ()


@after("clipped-while-scaled", "_amp_foreach_non_finite_check_and_unscale_")
def while_scaled(log: Log, now: Moment) -> Found:
    """Gradients that are divided by the scale after they were clipped."""
    for key in keys_of(now.args[0]):
        clip, own = log.memory(Steps).clipped.pop(key, None), now.event
        maker = log.makers.get(key)
        if clip is None or (maker is not None and maker.index > clip.index):
            continue  # what was clipped is gone, and this is a new gradient
        if [w for w in log.writes_since(key, clip.index) if w is not own] == []:
            yield trap(
                "clipped-while-scaled",
                clip.site,
                "The gradients are clipped while they are multiplied by the loss scale, "
                "and divided by it afterwards: they come out far shorter than the limit.",
                "Call scaler.unscale_(optimizer) before clipping; step() knows of it.",
                Note("unscaled", own.site, "divided by the scale"),
            )
            return


@dataclass
class Clip:
    """A line that clips where there is nothing to clip.

    Attributes:
        index: The operation that did so last, or -1 if a step has come since.
        site: The line.
        parameters: Those whose gradients were to be clipped then, by ``id``.
        times: How many steps in succession have taken gradients that came after it.
    """

    index: int
    site: Site | None
    parameters: frozenset[int]
    times: int = 0


@dataclass
class Clips(Memory):
    """The lines that have clipped nothing, and the operation that clipped last."""

    empty: dict[Site | None, Clip] = field(default_factory=dict)
    last: int = -1


@after("clipped-before-backward", "lift_fresh", "mul_", "_foreach_mul_", "clamp_",
       "_foreach_clamp_min_")  # fmt: skip
def clipped_nothing(log: Log, now: Moment) -> Found:
    """Keep which line clips gradients that are not there, or that are all zeros."""
    event, clips = now.event, log.memory(Clips)
    given = given_to_clip() if event.run == FORWARD else []
    if any(_counts(p.grad) for p in given):
        clips.last = event.index
        clips.empty.pop(event.site, None)
    elif given:
        before = clips.empty.get(event.site)
        clip = Clip(event.index, event.site, frozenset(map(id, given)))
        clip.times = before.times if before is not None else 0
        clips.empty[event.site] = clip
    return ()


def _counts(gradient: Tensor | None) -> bool:
    """Tell whether there is a gradient that is not all zeros, as far as it can be read."""
    if gradient is None:
        return False
    return not readable(gradient) or bool(gradient.any())


@at_step("clipped-before-backward")
def before_backward(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A step along gradients that came after the clipping, which met none."""
    clips = log.memory(Clips)
    for clip in clips.empty.values() if clips.empty else ():
        known = [p for p in held_by(optimizer) if id(p) in clip.parameters]
        leaves = [leaf for p in known if p.grad is not None and (leaf := log.leaf(p))]
        if clip.index < 0 or not any(leaf.last > clip.index for leaf in leaves):
            continue
        clip.times = clip.times + 1 if clips.last < clip.index else 0
        clip.index = -1
        if clip.times == TWICE:
            call = log.call
            yield trap(
                "clipped-before-backward",
                clip.site,
                "No gradients are there yet when this line clips them; backward fills "
                "them afterwards, and the step takes them at full length.",
                "Clip between backward() and step().",
                *([Note("backward", call.site, "fills them")] if call is not None else ()),
                Note("step", site, "takes them"),
            )


@dataclass
class Hung(Memory):
    """Which functions hang on what, at the steps so far.

    Attributes:
        registered: How many hooks had been registered at the last step, in all.
        of: How often each hangs on a tensor or module, by the ``id`` of that, and how
            many steps in succession have found it more often than the one before.
    """

    registered: int = -1
    of: dict[tuple[int, CodeType], tuple[int, int]] = field(default_factory=dict)


@at_step("hook-in-every-step")
def hung_again(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A hook that hangs on a parameter or a module once more at each step."""
    hung, registered = log.memory(Hung), RemovableHandle.next_id
    if hung.registered == registered:
        hung.of.clear()
        return
    hung.registered, before, hung.of = registered, hung.of, {}
    for name, owner in _with_names(log, optimizer):
        for code, times in Counter(filter(None, map(_code, hooks_of(owner)))).items():
            key = id(owner), code
            last, grown = before.get(key, (times, 0))
            hung.of[key] = times, grown + 1 if times > last else 0
            if hung.of[key][1] == THRICE:
                yield trap(
                    "hook-in-every-step",
                    Site(code.co_filename, code.co_firstlineno),
                    f"The hook {code.co_name} hangs on {name} {times} times by now, more "
                    "often with every step: what is registered in a loop stays.",
                    "Register it once, before the loop, or take it away again: handle = "
                    "p.register_hook(f), then handle.remove().",
                    Note("step", site, f"{times} of it hang there"),
                )


def _with_names(log: Log, optimizer: Any) -> Iterator[tuple[str, Tensor | nn.Module]]:
    for p in held_by(optimizer):
        if hooks_of(p):
            yield log.name_of(p), p
    for root in tuple(log.modules):
        for name, module in root.named_modules():
            yield name or type(module).__name__, module


def _code(hook: Any) -> CodeType | None:
    """Return the code of a hook that is somebody's own."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = inspect.unwrap(hook)
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    return code if code is not None and is_own(code) else None
