"""Silent traps that one operation shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import Parameter

from pullback._torch import functions_of, given_to_kl_div, storage_key, version
from pullback._watch.findings import Finding, Note, Site
from pullback._watch.frames import asked_by_package, own_frame
from pullback._watch.log import FORWARD, Event, Leaf, Log, Memory, Moment, operation_of
from pullback._watch.rules import Found, after, at_end, trap
from pullback._watch.ways import FILLS


@after("repeated-index", "scatter", "scatter_", "index_put", "index_put_", "index_copy",
       "index_copy_")  # fmt: skip
def repeated_index(log: Log, now: Moment) -> Found:
    """Two values written to one place: each gets the gradient of the place."""
    args = now.args
    if now.event.op.startswith("index_put"):
        accumulate = args[3] if len(args) > 3 else now.kwargs.get("accumulate", False)
        if accumulate or not args[2].requires_grad or args[2].numel() < 2:
            return
        places = [i for i in args[1] if i is not None]
        if any(i.dtype in (torch.bool, torch.uint8) for i in places):
            return
        grid = torch.stack([i.flatten() for i in torch.broadcast_tensors(*places)])
        repeated = grid.unique(dim=1).shape[1] < grid.shape[1]
    else:
        dim, index, source = args[1], args[2], args[3]
        if not isinstance(source, Tensor) or not source.requires_grad or index.numel() < 2:
            return
        if "reduce" in now.kwargs or len(args) > 4:
            return
        ordered = index.sort(dim if index.ndim > 1 else 0).values
        along = dim if index.ndim > 1 else 0
        size = ordered.shape[along]
        first, second = (
            ordered.narrow(along, 0, size - 1),
            ordered.narrow(along, 1, size - 1),
        )
        repeated = bool((first == second).any())
    if repeated:
        yield trap(
            "repeated-index",
            now.event.site,
            f"{now.event.op} writes several values to one place. One of them stays; all of "
            "them get its gradient.",
            "Use index_add or scatter_add where they are to be added, or distinct indices.",
        )


@after("sigmoid-before-bce", "binary_cross_entropy")
def saturated(log: Log, now: Moment) -> Found:
    """A probability of exactly 0 or 1 that is wrong: its gradient does not help."""
    p, target = now.inputs[:2]
    if p.requires_grad and bool(
        (((p == 0) & (target > 0)) | ((p == 1) & (target < 1))).any()
    ):
        yield trap(
            "sigmoid-before-bce",
            now.event.site,
            "A probability is exactly 0 or 1 and wrong: the loss stops at 100, and the "
            "gradient behind the sigmoid is 0.",
            "Leave the sigmoid out and use binary_cross_entropy_with_logits.",
        )


#: What a loss wants: the operations whose result it takes for something else.
WANTS = {
    "_log_softmax": ("scores", {"_softmax", "sigmoid"}),
    "binary_cross_entropy_with_logits": ("scores", {"_softmax", "sigmoid"}),
    "nll_loss_forward": ("logarithms", {"_softmax", "sigmoid", "addmm", "mm", "bmm"}),
    "nll_loss2d_forward": ("logarithms", {"_softmax", "sigmoid", "convolution"}),
}
GIVES = {"_softmax": "probabilities of a softmax", "sigmoid": "probabilities of a sigmoid"}
MOVES = {"_to_copy", "clone", "view", "_unsafe_view", "transpose", "t", "permute"}


@after("probabilities-for-scores", *WANTS)
def wrong_kind(log: Log, now: Moment) -> Found:
    """Probabilities where a loss takes the softmax itself, or scores for logarithms."""
    event = now.event
    if not event.live or event.run != FORWARD or not now.inputs[0].requires_grad:
        return
    scores = event.op == "_log_softmax"  # which is also taken without a loss
    if scores and functions_of("nn/functional.py")[:1] != ["cross_entropy"]:
        return
    wants, mistaken = WANTS[event.op]
    maker = log.makers.get(storage_key(now.inputs[0]))
    while maker is not None and maker.op in MOVES and maker.reads:
        maker = log.makers.get(maker.reads[0])
    if maker is not None and maker.op in mistaken and maker.run == FORWARD:
        given = GIVES.get(maker.op, "scores")
        loss = "cross_entropy" if scores else event.op
        loss = "nll_loss" if loss.startswith("nll_loss") else loss
        yield trap(
            "probabilities-for-scores",
            event.site,
            f"{loss} wants {wants} and gets the {given}.",
            "Give scores to cross_entropy and binary_cross_entropy_with_logits, which take "
            "the softmax and the sigmoid themselves, and log_softmax of them to nll_loss.",
            Note("made", maker.site, given),
        )


@after("probabilities-for-scores", "xlogy")
def probabilities_for_logarithms(log: Log, now: Moment) -> Found:
    """Probabilities where ``kl_div`` takes their logarithms."""
    given = given_to_kl_div() if now.event.run == FORWARD else None
    maker = log.makers.get(storage_key(given)) if given is not None else None
    if given is None or maker is None or not given.requires_grad:
        return
    if maker.op in GIVES and maker.run == FORWARD:
        yield trap(
            "probabilities-for-scores",
            now.event.site,
            f"kl_div wants logarithms and gets the {GIVES[maker.op]}.",
            "Give log_softmax of the scores to kl_div in the place of softmax.",
            Note("made", maker.site, GIVES[maker.op]),
        )


@after("det-of-a-singular-matrix", "_linalg_det")
def singular(log: Log, now: Moment) -> Found:
    """The derivative of det at a matrix without an inverse."""
    if now.event.live and bool((now.outputs[0] == 0).any()):
        yield trap(
            "det-of-a-singular-matrix",
            now.event.site,
            "det is taken of a singular matrix, where torch's formula for its gradient "
            "divides by zero.",
            "Write the determinant of small matrices out, or keep the matrix regular.",
        )


@after("clamp-outside", "clamp", "clamp_min", "clamp_max")
def stuck(log: Log, now: Moment) -> Found:
    """A leaf that is clamped where it is outside: it gets no gradient there, ever."""
    bounds = [*now.args[1:], *now.kwargs.values()]
    box = len(now.inputs) == 1 and len(bounds) == 2 and None not in bounds
    if now.event.live and box and now.inputs[0].is_leaf:  # one bound guards a root
        yield from clamped(log, now)


@after("clamp-outside", "clamp", "clamp_min", "clamp_max", strict=True)
def clamped(log: Log, now: Moment) -> Found:
    """Any tensor that is clamped where it is outside."""
    if not now.event.live or now.event.run != FORWARD or not now.event.grad:
        return
    t = now.inputs[0]
    outside = int((t != now.outputs[0]).sum())
    if outside:
        yield trap(
            "clamp-outside",
            now.event.site,
            f"{outside} of {t.numel()} numbers of {log.name_of(t)} are outside the limits, "
            "where clamp passes no gradient: they stay there.",
            "Clamp after the step, under no_grad (x.clamp_(0, 1)), or use a smooth bound.",
        )


@after("ties-of-a-maximum", "max", "min", strict=True)
def ties(log: Log, now: Moment) -> Found:
    """Two largest entries, of which one gets all of the gradient."""
    if not now.event.live or len(now.outputs) != 2:
        return
    dim = now.args[1]
    values = now.outputs[0] if len(now.args) > 2 and now.args[2] else None
    best = values if values is not None else now.outputs[0].unsqueeze(dim)
    if bool(((now.inputs[0] == best).sum(dim) > 1).any()):
        yield trap(
            "ties-of-a-maximum",
            now.event.site,
            f"Several entries are the {now.event.op}; one of them gets all of the "
            "gradient.",
            "Use amax or amin, which share it.",
        )


@after("ones-on-mixed-samples", "_softmax_backward_data")
def constant_into_softmax(log: Log, now: Moment) -> Found:
    """The same number for all entries of a softmax, which sum to 1 whatever x is."""
    v, y, dim = now.args[0], now.args[1], now.args[2]
    if v.numel() < 2 or v.shape[dim] < 2:
        return  # one entry is 1, as in attention to one token
    if not bool((v == v.narrow(dim, 0, 1)).all()) or not bool(v.any()):
        return
    if not bool(v.isfinite().all()):
        return  # it overflowed, as with a large scale in float16
    if asked_by_package():
        return  # which shows what v does, whatever v is
    call = log.call
    yield trap(
        "ones-on-mixed-samples",
        call.site if call else now.event.site,
        f"softmax of shape {tuple(y.shape)} receives the same number for all entries along "
        f"dim {dim}. They sum to 1, so that the gradient is 0.",
        "Weigh the entries, or take one row of the Jacobian; pullback.jacobian gives all.",
        Note("softmax", now.event.site, "computed"),
    )


@after("mutating-function", "mul_", "div_", "pow_")
def by_itself(log: Log, now: Moment) -> Found:
    """A tensor that is edited in place by itself: x.mul_(x)."""
    if len(now.inputs) == 2 and now.inputs[0].requires_grad and now.event.run == FORWARD:
        a, b = now.inputs
        if a.data_ptr() == b.data_ptr() and a.shape == b.shape:
            yield trap(
                "mutating-function",
                now.event.site,
                f"x.{now.event.op}(x) reads what it has just written; its gradient is "
                "wrong.",
                "Write x = x * x.",
            )


# --- at the end, from the log ---------------------------------------------------------


@dataclass
class Updates(Memory):
    """What was made of a leaf and its gradient.

    Attributes:
        of: The operation that made it, and the leaf's name, by storage.
        renamed: The leaf whose name in a program was given to it, by the line, and the
            leaf's version then.
        averages: The parameter whose name was given to what was made of it, by the line,
            with the operation and the version then; None where that is told or refuted.
    """

    of: dict[int, tuple[Event, str]] = field(default_factory=dict)
    renamed: dict[Site | None, tuple[Event, Leaf, int]] = field(default_factory=dict)
    averages: dict[Site, tuple[Event, Parameter, int] | None] = field(default_factory=dict)

    def forget(self, before: int) -> None:
        """Drop what was made before the operations that are kept."""
        for key in [key for key, (event, _) in self.of.items() if event.index < before]:
            del self.of[key]
        for site in [s for s, (e, *_) in self.renamed.items() if e.index < before]:
            del self.renamed[site]
        for site, known in [*self.averages.items()]:
            if known is not None and known[0].index < before:
                del self.averages[site]


@after("update-makes-a-new-tensor", "sub", "add", "addcmul", "addcdiv")
def keep_updates(log: Log, now: Moment) -> Found:
    """Keep what is made of a leaf and its gradient under no_grad."""
    event = now.event
    if event.grad or event.run != FORWARD or not event.live:
        return ()
    for t in now.inputs:
        if t.requires_grad and t.is_leaf and t.grad is not None:
            gradient, others = storage_key(t.grad), {*event.reads} - {storage_key(t)}
            made = [log.makers[k] for k in others if k in log.makers]
            if gradient in others or any(gradient in maker.reads for maker in made):
                for key in event.makes:
                    log.memory(Updates).of[key] = event, log.name_of(t)
                leaf = log.leaf(t)
                if leaf is not None and any(t is p for p in _names_given(event).values()):
                    known = event, leaf, version(t)
                    log.memory(Updates).renamed.setdefault(event.site, known)
    return ()


def _names_given(event: Event) -> dict[str, object]:
    """Return the names that a line gives away, ``p = p - ...``, and what has them still."""
    names = re.findall(r"\b(\w+) *=(?!=)", event.site.code if event.site else "")
    frame = own_frame() if names else None
    return {name: frame.f_locals.get(name) for name in names} if frame else {}


@after("update-makes-a-new-tensor", "add", "sub", "lerp")
def averages_that_are_dropped(log: Log, now: Moment) -> Found:
    """A parameter whose name is given to its average, as of a teacher, and that stays.

    It is told when the same comes again, and nothing has used the first average.
    """
    event, averages = now.event, log.memory(Updates).averages
    site = event.site
    if event.grad or event.run != FORWARD or site is None:
        return
    known = averages.get(site)
    if known is None and site in averages:
        return
    name, parameter = _given_away(log, event)
    if parameter is None:
        return
    if known is None:
        averages[site] = event, parameter, version(parameter)
        return
    first, same, before = known
    if same is not parameter:
        return
    averages[site] = None
    if version(parameter) == before and not _is_taken(log, first):
        yield trap(
            "update-makes-a-new-tensor",
            site,
            f"This line makes a new tensor, which nothing uses: the name {name} is given "
            f"to it, and the parameter of shape {tuple(parameter.shape)} stays as it is.",
            f"Write into the parameter: {name}.lerp_(new, 1 - decay) or {name}.copy_(...), "
            "under no_grad.",
        )


def _given_away(log: Log, event: Event) -> tuple[str, Parameter | None]:
    """Return the parameter whose name a line gives to its average with another one.

    It has no gradient, as that of a teacher.
    """
    for name, t in _names_given(event).items():
        if type(t) is not Parameter or t.grad is not None:
            continue
        made = [log.makers[key] for key in event.reads if key in log.makers]
        keys = {*event.reads}.union(*(maker.reads for maker in made))
        others = keys - {storage_key(t)}
        if others != keys and any(key in log.leaf_of for key in others):
            return name, t
    return "", None


@at_end("update-makes-a-new-tensor")
def updates_that_are_dropped(log: Log) -> Found:
    """A leaf whose name was given to its update, which nothing uses, and that stays."""
    for site, (event, leaf, before) in log.memory(Updates).renamed.items():
        t = leaf.tensor()
        if t is None or version(t) != before or storage_key(t) != leaf.key:
            continue
        if leaf.last > event.index and not _is_taken(log, event):
            yield trap(
                "update-makes-a-new-tensor",
                site,
                f"The update of {log.name_of(t)} makes a new tensor, which nothing uses: "
                "the name is given away, and the old tensor stays as it is.",
                "Write into the tensor: p -= lr * p.grad under no_grad, or take an "
                "optimizer.",
            )


def _is_taken(log: Log, made: Event) -> bool:
    """Tell whether an operation has taken what another one made."""
    keys = {*made.makes}
    for event in log.events:
        if event.index > made.index:
            keys -= {*event.makes} - {*event.reads}  # of a storage that is gone
            if not keys:
                return False
            if not keys.isdisjoint(event.reads):
                return True
    return False


@at_end("update-makes-a-new-tensor")
def updates_that_are_used(log: Log) -> Found:
    """A tensor that took a leaf's place, and requires no gradient."""
    updates = log.memory(Updates).of
    for event in log.forward_events() if updates else ():
        for key in {*event.reads} - {*event.live}:
            update = updates.get(key)
            if update is None or event.index <= update[0].index or not event.grad:
                continue
            if log.makers.get(key) is update[0] and event.op != "detach":
                yield trap(
                    "update-makes-a-new-tensor",
                    update[0].site,
                    f"The update of {update[1]} makes a new tensor that requires no "
                    "gradient, and it is used in the place of the old one.",
                    f"Write into the leaf: {update[1]} -= lr * {update[1]}.grad under "
                    "no_grad.",
                    Note("used", event.site, "without a gradient"),
                )


@at_end("all-gather-has-no-gradient")
def gathered(log: Log) -> Found:
    """What other processes sent is used without the part that has a graph."""
    events = list(log.events)
    for at, event in enumerate(events):
        if (
            event.run != FORWARD
            or "allgather" not in event.op
            or not event.live
            or not event.grad
        ):
            continue
        user = _first_user(events[at + 1 :], {*event.reads} - {*event.live})
        if user is not None and not {*event.live} & {*user.reads}:
            yield trap(
                "all-gather-has-no-gradient",
                event.site,
                "all_gather copies a tensor that has a graph; what it gathers has none.",
                "Put your own part back, parts[rank] = z, or gather with a gradient: by "
                "all_gather_single of torch.distributed._functional_collectives since "
                "torch 2.13, by torch.distributed.nn.functional.all_gather before.",
                Note("used", user.site, "without a gradient"),
            )


def _first_user(events: Sequence[Event], keys: set[int]) -> Event | None:
    """Return the first operation that takes one of some storages."""
    for event in events:
        if event.grad and keys & {*event.reads}:
            return event
        keys = keys - {*event.makes}  # of a storage that is gone
    return None


STRAIGHT = (
    "Use a straight-through estimate, x + (x.round() - x).detach(), or a smooth form."
)
#: Nodes that pass zeros on, and what to do about each.
ZERO_SLOPES = {
    **dict.fromkeys(("Round", "Floor", "Ceil", "Sign", "Trunc"), STRAIGHT),
    "Bernoulli": "Use a straight-through estimate, p + (torch.bernoulli(p) - p).detach(), "
    "or weigh the log of its probability by the reward.",
    "Normal": "Write mean + std * torch.randn_like(mean), through which gradients flow.",
}


@at_end("rounding-has-gradient-zero")
def all_zeros(log: Log) -> Found:
    """A leaf whose gradients were all zeros, behind an operation of slope zero."""
    zero = [leaf for leaf in log.leaves.values() if leaf.arrivals and not leaf.nonzero]
    for leaf in zero:
        t = leaf.tensor()
        found = _first_on_the_way(log, leaf)
        if found is not None and t is not None:
            yield _zeros(log, t, *found)


def _first_on_the_way(log: Log, leaf: Leaf) -> tuple[Event, str] | None:
    """Return the operation of slope zero that a leaf leads to and that backward ran.

    With what to do about it.
    """
    nodes = {e.node_number: operation_of(e.node) for e in log.events}
    ran = {number: ZERO_SLOPES[op] for number, op in nodes.items() if op in ZERO_SLOPES}
    live = {leaf.key}
    for event in log.forward_events() if ran else ():
        if live & {*event.live} and event.op not in FILLS:
            if event.number in ran and event is log.made_for(event.number):
                return event, ran[event.number]
            live |= {*event.makes, *event.writes}
    return None


def _zeros(log: Log, t: Tensor, event: Event, fix: str) -> Finding:
    return trap(
        "rounding-has-gradient-zero",
        event.site,
        f"{event.op} has slope 0: all gradients of {log.name_of(t)} are zeros.",
        fix,
    )
