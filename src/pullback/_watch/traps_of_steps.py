"""Silent traps around an optimizer's step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pullback._torch import functions_of, storage_key
from pullback._watch.findings import Note, Site
from pullback._watch.log import FORWARD, Event, Leaf, Log, Memory, Moment, drop, keys_of
from pullback._watch.rules import Found, after, at_step, trap

TWICE = 2  # of a step that is odd; one alone may be meant
#: What does another thing in evaluation mode.
IN_TRAINING = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
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


def _parameters(optimizer: Any) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


@at_step("cleared-before-the-step")
def cleared(log: Log, optimizer: Any, site: Site | None) -> Found:
    """A step without gradients, although backward has filled them since the last one."""
    stepped, times = log.memory(Steps).empty.get(optimizer, (-1, 0))
    known = _parameters(optimizer)
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
    updated = {id(p) for p in _parameters(optimizer) if p.grad is not None}
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
