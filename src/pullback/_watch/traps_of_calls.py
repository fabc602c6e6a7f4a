"""Silent traps in how backward is called, and in what is done between two calls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._graph import nodes_from
from pullback._torch import accumulated_leaf, number_of
from pullback._watch.findings import Note, Site
from pullback._watch.log import (
    FORWARD,
    Added,
    Call,
    Event,
    Leaf,
    Log,
    Memory,
    Moment,
    keys_of,
)
from pullback._watch.recorder import is_leaf, readable
from pullback._watch.rules import Found, after, at_begin, at_end, trap, when_done

SUM = 2  # of the reductions of losses
SHARING = 2  # gradients in one memory
FOLLOWED = 1_000  # operations on the way back
DEEP = 4  # operations between a gradient and the sum that takes it


@at_begin("extra-gradients-dropped")
def extra_gradients(log: Log, call: Call) -> Found:
    """More grad_tensors than tensors."""
    given = call.given
    if isinstance(given, list | tuple) and len(given) > len(call.roots):
        yield trap(
            "extra-gradients-dropped",
            call.site,
            f"{len(given)} gradients were given for {len(call.roots)} tensors; the rest is "
            "dropped.",
            "Pair them with zip(ys, vs, strict=True) first.",
        )


@at_begin("gradient-cast")
def cast_gradient(log: Log, call: Call) -> Found:
    """A gradient whose numbers the dtype of the output cannot hold."""
    given = call.given if isinstance(call.given, list | tuple) else [call.given]
    for root, v in zip(call.roots, given, strict=False):
        if (
            not isinstance(v, Tensor)
            or not isinstance(root, Tensor)
            or v.dtype == root.dtype
        ):
            continue
        if v.is_complex() or root.is_complex() or v.dtype == torch.bool:
            continue
        cast = v.detach().to(root.dtype)
        if v.is_floating_point():
            lost = (cast.isinf() & ~v.isinf()) | ((cast == 0) & (v != 0))
        else:
            lost = cast.to(torch.float64) != v.to(torch.float64)
        if bool(lost.any()):
            yield trap(
                "gradient-cast",
                call.site,
                f"A gradient of {v.dtype} is cast to {root.dtype}, which cannot hold its "
                "numbers.",
                "Compute y in a dtype that can, or pass a gradient of y's dtype.",
            )


@at_begin("one-element-needs-no-gradient", strict=True)
def one_element(log: Log, call: Call) -> Found:
    """A root of one element that is no number: the next batch raises."""
    for root in call.roots if call.given is None else ():
        if isinstance(root, Tensor) and root.ndim and root.numel() == 1:
            yield trap(
                "one-element-needs-no-gradient",
                call.site,
                f"y has shape {tuple(root.shape)}, so that no gradient is needed; of a "
                "larger batch one is.",
                "Reduce y to one number, y.mean() or y.sum().",
            )


@at_begin("outputs-are-summed", strict=True)
def summed_outputs(log: Log, call: Call) -> Found:
    """Several outputs in one grad call, without a weight for any."""
    if not call.accumulates and len(call.roots) > 1 and call.given is None:
        yield trap(
            "outputs-are-summed",
            call.site,
            f"The gradients of {len(call.roots)} outputs are added up in one result.",
            "Stack the outputs and pass is_grads_batched=True with torch.eye, or call grad "
            "for each; where the sum is meant, write it: (y1 + y2).",
        )


class Mean(NamedTuple):
    """The mean that a backward starts from.

    Attributes:
        samples: Over how many numbers it is; None of no mean.
        scale: What the loss is, divided by it.
        begun: Index of the first operation of the backward.
    """

    samples: int | None
    scale: float
    begun: int


@dataclass
class Means(Memory):
    """What was seen of means so far.

    Attributes:
        samples: The operation that took each, and over how many numbers, by its node.
        run: The backward pass that began last.
        now: The mean that it starts from.
        last: The mean that backward started from last, by the line that called it.
    """

    samples: dict[int, tuple[Event, int]] = field(default_factory=dict)
    run: int = FORWARD
    now: Mean | None = None
    last: dict[Site | None, Mean] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop the means that were taken before the operations that are kept."""
        for key in [key for key, (e, _) in self.samples.items() if e.index < before]:
            del self.samples[key]


@after(
    "loss-mean",
    "mean",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "nll_loss_forward",
    "nll_loss2d_forward",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
def count_samples(log: Log, now: Moment) -> Found:
    """Keep how many numbers each mean is over; for :func:`unequal_means`."""
    given = (a for a in now.args if type(a) is int)  # of losses, the reduction is the first
    summed = now.kwargs.get("reduction", next(given, None)) == SUM
    if now.event.live and now.outputs and now.outputs[0].ndim == 0 and not summed:
        log.memory(Means).samples[now.event.number] = now.event, _samples(now)
    return ()


def _samples(now: Moment) -> int:
    """Return over how many numbers a mean is: of classes, without those to be ignored."""
    if not now.event.op.startswith("nll"):
        return now.inputs[0].numel()
    target, weights = now.inputs[1], [t for t in now.inputs[2:3] if t is not None]
    if weights or len(now.outputs) < 2 or not readable(now.outputs[1]):
        return target.numel()
    return int(now.outputs[1].item())  # their total weight, 1 of each


@at_begin("mean-of-unequal-batches")
def find_mean(log: Log, call: Call) -> Found:
    """Keep over how many numbers the mean is that this backward starts from."""
    node: Any = getattr(call.roots[0], "grad_fn", None) if call.accumulates else None
    root, means = node and log.made_for(number_of(node)), log.memory(Means)
    while node is not None and number_of(node) not in means.samples:
        inputs = [target for target, _ in node.next_functions if target is not None]
        scaled = node.name().startswith(("Div", "Mul", "Neg", "ToCopy"))
        node = inputs[0] if scaled and len(inputs) == 1 else None
    mean, samples = means.samples[number_of(node)] if node else (None, None)
    scale = root.total / mean.total if root and mean and root.total and mean.total else 1.0
    means.run, means.now = call.run, Mean(samples, scale, call.begun)
    return ()


@when_done("mean-of-unequal-batches")
def unequal_means(log: Log, call: Call) -> Found:
    """Gradients of means over different numbers of samples that are added up."""
    means = log.memory(Means)
    mean = means.now if means.run == call.run else None
    if mean is None or mean.samples is None:
        return
    last = means.last.get(call.site, mean)
    alike = math.isclose(mean.scale, last.scale, rel_tol=1e-3)  # or else weighted by hand
    if last.samples != mean.samples and alike and _adds_to(log, call, last.begun):
        yield trap(
            "mean-of-unequal-batches",
            call.site,
            f"Gradients of means over {last.samples} and over {mean.samples} numbers are "
            "added up, each with the same weight.",
            "Divide the sum of each part by the number of all samples.",
        )
    means.last[call.site] = mean


def _adds_to(log: Log, call: Call, begun: int) -> bool:
    """Tell whether a backward added to gradients that are there since an earlier one."""
    added = [
        e
        for e in log.events
        if e.run == call.run and e.op == "add_" and e.node.endswith("AccumulateGrad")
    ]
    steps = any(e.op == "step" and e.index > begun for e in log.events)
    return bool(added) and not steps and not _set_to_zero(log, added[0].writes, begun)


def _set_to_zero(log: Log, keys: tuple[int, ...], since: int) -> bool:
    """Tell whether gradients were set to zero."""
    return any(w.clears for key in keys for w in log.writes_since(key, since))


@after("gradients-accumulate", "add_")
def accumulate(log: Log, now: Moment) -> Found:
    """A gradient of an earlier step that is used again, as nothing had cleared it."""
    t = accumulated_leaf(now.node) if now.node is not None else None
    leaf = log.leaf(t) if t is not None else None
    if leaf is None or t is None or _gradient_of(leaf) is None:
        return
    event, before = now.event, leaf.added
    since = _index_of_making(log, event.writes)
    if before and (before.key != leaf.key or since > before.event.index):
        before = None  # the leaf was moved, as by double(), or the gradient is a new one
    since = before.event.index if before else since
    cleared = _set_to_zero(log, event.writes, since)
    updated = bool(log.writes_since(leaf.key, since))
    was_stale = bool(before and before.stale)
    if not cleared and updated and was_stale:
        yield _accumulated(log, t, event, log.call)
    stale = not cleared and (updated or was_stale)
    leaf.added = Added(event, leaf.key, log.call, cleared, stale)


@after("gradients-accumulate", "add_", strict=True)
def accumulate_at_all(log: Log, now: Moment) -> Found:
    """A gradient that is added to one that is there, of whichever step."""
    t = accumulated_leaf(now.node) if now.node is not None else None
    leaf = log.leaf(t) if t is not None else None
    if t is None or leaf is None or leaf.added is None or leaf.added.event is not now.event:
        return  # accumulate, which looks first, has kept it
    if not leaf.added.cleared:
        yield _accumulated(log, t, now.event, log.call)


@at_end("gradients-accumulate")
def accumulated_at_end(log: Log) -> Found:
    """The same, where the last step used it."""
    for leaf in tuple(log.leaves.values()):
        added, t, gradient = leaf.added, leaf.tensor(), _gradient_of(leaf)
        if t is None or gradient is None or not added or not added.stale:
            continue
        event = added.event
        if not set(keys_of([gradient])) & set(event.writes):
            continue  # it was dropped, and this is a new one; or it is sparse
        if added.key == leaf.key and _index_of_making(log, event.writes) < event.index:
            writes = log.writes_since(leaf.key, event.index)
            later = [w for k in event.writes for w in log.writes_since(k, event.index)]
            cleared = [w for w in later if w.clears]
            if writes and not (cleared and cleared[0].index < writes[0].index):
                yield _accumulated(log, t, event, added.call)


def _index_of_making(log: Log, keys: tuple[int, ...]) -> int:
    """Return when a gradient was made that is added to."""
    return max((log.makers[k].index for k in keys if k in log.makers), default=-1)


def _accumulated(log: Log, t: Tensor, event: Event, call: Call | None) -> Any:
    return trap(
        "gradients-accumulate",
        call.site if call else event.site,
        f"backward adds to the gradient that {log.name_of(t)} has from an earlier step.",
        "Call optimizer.zero_grad(), or set .grad = None, before each backward.",
    )


@dataclass
class Gradients(Memory):
    """Which gradients autograd has put into one memory, as it does behind views.

    Attributes:
        of: The leaves whose gradients a storage was given to, in the order of arrival.
        edited: Those of them whose gradients an operation has written into since.
    """

    of: dict[int, list[Leaf]] = field(default_factory=dict)
    edited: dict[int, set[Leaf]] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop the storages that one gradient has for itself, or that none has any more."""
        for key, leaves in [*self.of.items()]:
            if sum(_gradient_of(leaf) is not None for leaf in leaves) < SHARING:
                del self.of[key]
                self.edited.pop(key, None)


def _gradient_of(leaf: Leaf) -> Tensor | None:
    """Return ``.grad``, of which torch warns where t has become a result."""
    t = leaf.tensor()
    return t.grad if t is not None and (is_leaf(t) or t.retains_grad) else None


def _lies_at(leaf: Leaf, t: Tensor) -> bool:
    """Tell whether the gradient of a leaf begins where t does."""
    g = _gradient_of(leaf)
    return g is not None and g.layout is torch.strided and g.data_ptr() == t.data_ptr()


@after("two-gradients-one-memory", "detach")
def keep_gradients(log: Log, now: Moment) -> Found:
    """Keep which leaf takes the tensor that arrives for its gradient, without a copy."""
    t = accumulated_leaf(now.node) if now.node is not None else None
    leaf = log.leaf(t) if t is not None else None
    if leaf is not None and readable(now.outputs[0]) and now.outputs[0].numel():
        (key,), kept = keys_of(now.outputs), log.memory(Gradients)
        others = [other for other in kept.of.get(key, ()) if other is not leaf]
        kept.of[key] = [o for o in others if _lies_at(o, now.outputs[0])] + [leaf]
        kept.edited[key] = set()
    return ()


@after("two-gradients-one-memory", "add_", "sub_", "mul_", "div_", "_foreach_add_",
       "_foreach_sub_", "_foreach_mul_", "_foreach_div_",
       "_amp_foreach_non_finite_check_and_unscale_")  # fmt: skip
def edited_together(log: Log, now: Moment) -> Found:
    """Gradients of two leaves that lie in one memory, and are written into one by one."""
    kept, given = log.memory(Gradients), now.args[0]
    for key in {*now.event.writes} & kept.of.keys():
        leaves, edited = kept.of[key], kept.edited[key]
        if len(leaves) < SHARING:
            continue
        targets = given if isinstance(given, list | tuple) else [given]
        written = [t for t in targets if keys_of([t]) == (key,)]
        edited.update(of for of in leaves if any(_gradient_of(of) is t for t in written))
        both = [of for of in leaves if of in edited and _lies_at(of, written[0])]
        if len(both) < SHARING or not bool(written[0].any()):
            continue  # zeros are zeros, however often
        both.sort(key=lambda leaf: leaf.first)
        names = [log.name_of(t) for leaf in both if (t := leaf.tensor()) is not None]
        del kept.of[key]
        yield trap(
            "two-gradients-one-memory",
            log.call.site if log.call and now.node is not None else now.event.site,
            f"The gradients of {' and '.join(names)} lie in one memory, as backward handed "
            f"one tensor to both; {now.event.op} has changed it for each of them.",
            "Add first and take the view afterwards, (a + b)[None], or let a hook copy: "
            "b.register_hook(torch.clone).",
            *[Note("used", of.site, n) for of, n in zip(both, names, strict=True)],
        )


@dataclass
class Constants(Memory):
    """Numbers that were added to a loss, and come from a gradient without a graph.

    Attributes:
        taken: The backward passes that gave gradients without a graph of what depends on
            parameters, when they began, and the storages that they differentiated by.
        added: The operation that added each, by its index, and the line of the gradient.
        mixed: The same where it was added to a tensor of more than a number.
    """

    taken: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    added: dict[int, Site | None] = field(default_factory=dict)
    mixed: dict[int, Site | None] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop what was added before the operations that are kept."""
        self.taken = {run: of for run, of in self.taken.items() if of[0] >= before}
        self.added = {at: site for at, site in self.added.items() if at >= before}
        self.mixed = {at: site for at, site in self.mixed.items() if at >= before}


@at_begin("penalty-without-a-graph")
def without_graph(log: Log, call: Call) -> Found:
    """Keep which gradients have no graph, although parameters change them."""
    if call.accumulates or call.create_graph:
        return ()
    for event in _made_from(log, call.keys):
        if not event.grad and event.function is None:
            continue  # such as the copy of a parameter for a teacher
        for key in event.sources.leaves if event.sources is not None else ():
            leaf = log.leaves.get(key)
            if leaf is not None and type(leaf.tensor()) is torch.nn.Parameter:
                taken = call.begun, keys_of(call.inputs)
                log.memory(Constants).taken[call.run] = taken
                return ()
    return ()


@after("penalty-without-a-graph", "add", "add_", "sub")
def keep_constants(log: Log, now: Moment) -> Found:
    """Keep which sums take a number that comes from a gradient without a graph."""
    event, constants = now.event, log.memory(Constants)
    if event.run != FORWARD or not event.grad or not constants.taken:
        return ()
    fixed = [t for t in now.inputs if not t.requires_grad]
    if len(fixed) == 1 and len(now.inputs) > 1:
        if event.shape:
            _keep_mixed(log, constants, event, keys_of(fixed))
            return ()
        for made in _made_from(log, keys_of(fixed)):
            if made.run in constants.taken:
                call = log.of_run.get(made.run)
                constants.added[event.index] = call.site if call is not None else None
            if made.run != FORWARD or made.live or not made.grad:
                break  # a graph was cut there, or none was wanted
    return ()


def _keep_mixed(
    log: Log, constants: Constants, event: Event, keys: tuple[int, ...]
) -> None:
    """Keep a gradient without a graph that is added to another tensor than its own input.

    A step along the gradient, ``x - rate * g``, is meant as it is, and so is what the
    program has detached.
    """
    runs, known = set[int](), set[int]()
    for _ in range(DEEP):
        known.update(keys)
        makers = [log.makers[key] for key in keys if key in log.makers]
        runs.update(made.run for made in makers if made.run in constants.taken)
        onward = [m for m in makers if m.run == FORWARD and m.grad and not m.live]
        keys = tuple([key for made in onward for key in made.reads])
    by = {key for run in runs for key in constants.taken[run][1]}
    if not runs or not by.isdisjoint(event.live):
        return
    last = itertools.islice(reversed(log.events), FOLLOWED)
    detached = (e.reads for e in last if e.op == "detach" and e.run == FORWARD)
    if not any(not known.isdisjoint(keys) for keys in detached):
        call = log.of_run.get(max(runs))
        constants.mixed[event.index] = call.site if call is not None else None


def _made_from(log: Log, keys: tuple[int, ...]) -> Iterator[Event]:
    """Yield the operations that made some storages, and what they were made of in turn.

    The last ones first, and of a backward pass no more than the last operation.
    """
    wanted = {*keys}
    for event in itertools.islice(reversed(log.events), FOLLOWED):
        if not wanted:
            return
        if not wanted.isdisjoint(event.makes) or not wanted.isdisjoint(event.writes):
            wanted.difference_update(event.makes)
            yield event
            if event.run == FORWARD:
                wanted.update(event.reads)


#: Nodes of what is linear: a constant that they add or pass on has no derivative.
LINEAR = ("Add", "Sub", "Neg", "Mul", "Div", "Mean", "Sum", "View", "Squeeze", "ToCopy")


@at_begin("penalty-without-a-graph")
def mixed_constants(log: Log, call: Call) -> Found:
    """A loss of a residual that takes a derivative without a graph."""
    mixed = log.memory(Constants).mixed if call.accumulates else None
    if not mixed:
        return
    roots = [r.grad_fn for r in call.roots if isinstance(r, Tensor)]
    for node in nodes_from([node for node in roots if node is not None]):
        event = log.made_for(number_of(node))
        if event is not None and event.index in mixed:
            yield trap(
                "penalty-without-a-graph",
                mixed.pop(event.index),
                "This gradient has no graph. It is added to what the loss is computed "
                "from, and the loss does not train the parameters through it.",
                "Pass create_graph=True to torch.autograd.grad. Where it is meant as a "
                "constant, write so: gradient.detach().",
                Note("added", event.site, "to what has a graph"),
                Note("backward", call.site, "starts from it"),
            )


@at_begin("penalty-without-a-graph")
def added_constants(log: Log, call: Call) -> Found:
    """A loss with a constant in it that comes from a gradient."""
    added = log.memory(Constants).added
    todo = [r.grad_fn for r in call.roots if isinstance(r, Tensor)] if added else []
    known = set[Any]()
    while todo:
        node = todo.pop()
        if node is None or node in known or not node.name().startswith(LINEAR):
            continue
        known.add(node)
        targets = [target for target, _ in node.next_functions if target is not None]
        sums = node.name().startswith(("Add", "Sub"))
        if sums or len(targets) == 1:
            todo += targets
        event = log.made_for(number_of(node))
        if event is not None and event.index in added:
            site = added.pop(event.index)
            yield trap(
                "penalty-without-a-graph",
                site,
                "This gradient has no graph, and what is computed of it is added to the "
                "loss: a constant, which changes the value of the loss and no gradient.",
                "Pass create_graph=True to torch.autograd.grad.",
                Note("added", event.site, "to the loss"),
                Note("backward", call.site, "starts from it"),
            )
