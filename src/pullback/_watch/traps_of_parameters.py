"""Silent traps in which parameters a model has, and which of them an optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Module

from pullback._watch.findings import Note, Site, listed
from pullback._watch.log import Call, Leaf, Log, held_by
from pullback._watch.rules import Found, at_end, trap, when_done

Pair = tuple[Tensor, Tensor]  # a parameter that is trained by nobody, and an old one


OLD = "optimizer-holds-the-old-parameter"


@at_end(OLD)
def old_parameter(log: Log) -> Found:
    """A parameter that gets gradients in the place of one that an optimizer holds.

    That it stands in this place was seen, as the program has put it there, or all that the
    optimizer holds fits the model, one by one, with the new ones in the place of the old.
    """
    named = log.named()
    for new, leaf, old, site in _in_the_place_of_old(log):
        yield trap(
            OLD,
            leaf.site,
            f"{named[id(new)][0]}, of shape {[*new.shape]}, gets gradients, but no "
            f"optimizer holds it; one holds a parameter of shape {[*old.shape]} that is "
            "not used.",
            "Make the optimizer after the last change of the model, or write into the "
            "parameter under no_grad.",
            Note("step", site, "optimizer.step()"),
        )


def told_of_as_old(log: Log) -> frozenset[int]:
    """Return the parameters of which :func:`old_parameter` tells, by ``id``."""
    if OLD in log.without:
        return frozenset()
    return frozenset([id(old) for _, _, old, _ in _in_the_place_of_old(log)])


def _in_the_place_of_old(
    log: Log,
) -> Iterator[tuple[Tensor, Leaf, Tensor, Site | None]]:
    """Yield new parameters, those that an optimizer holds instead, and where it steps."""
    loose = _loose(log)
    for optimizer, (site, stepped) in log.optimizers.items() if loose else ():
        for key, old in _replaced(log, optimizer, loose).items():
            new, leaf = loose[key]
            if _passed(leaf, stepped) and _is_idle(log, old, leaf.first):
                yield new, leaf, old, site  # or else a step moved it, or both are used


@at_end("added-after-the-optimizer")
def added_later(log: Log) -> Found:
    """A parameter that a model was given when its optimizer was made, and nobody holds.

    That it came later was seen, or all that the optimizer holds is frozen by now, as what
    adapters are put on. What stands in the place of an old one is another trap.
    """
    known = {id(p) for optimizer in tuple(log.made) for p in held_by(optimizer)}
    loose = {key: of for key, of in _loose(log).items() if key not in known}
    for optimizer, (site, stepped) in log.optimizers.items() if loose else ():
        replaced = _replaced(log, optimizer, loose)
        line, made = log.made.get(optimizer, (None, log.places.count))
        held = {id(p) for p in held_by(optimizer)}
        for root in tuple(log.modules):
            own = {name: p for name, p in root.named_parameters() if id(p) not in replaced}
            if held.isdisjoint(map(id, own.values())):
                continue
            late = [
                name
                for name, p in own.items()
                if id(p) in loose and _passed(loose[id(p)][1], stepped)
                if log.places.since(root, name) > made or not _parameters(optimizer)
            ]
            if late:
                kind, frozen = type(optimizer).__name__, not _parameters(optimizer)
                why = "holds what is frozen" if frozen else "was made before it was added"
                leaf = loose[id(own[late[0]])][1]
                yield trap(
                    "added-after-the-optimizer",
                    line or site,
                    f"No optimizer holds {listed(late)} of {type(root).__name__}: {kind} "
                    f"{why}. What nobody holds gets gradients and never moves.",
                    "Make the optimizer below the line that adds them, or hand them to it: "
                    "optimizer.add_param_group(dict(params=new)).",
                    Note("used", leaf.site, f"{late[0]}, first used"),
                    Note("step", site, "passes them by"),
                )


def _loose(log: Log) -> dict[int, tuple[Tensor, Leaf]]:
    """Return, by ``id``, the parameters that get gradients and that nobody changes."""
    held, found = log.held(), {}
    for key, (_, p) in log.named().items():
        leaf = log.leaf(p)
        if key not in held and leaf is not None and leaf.arrivals and _stays(log, leaf):
            found[key] = p, leaf
    return found


def _passed(leaf: Leaf, stepped: int) -> bool:
    """Tell whether a leaf had a gradient at a step, the last of an optimizer."""
    return leaf.first < stepped and (leaf.arrivals > 1 or leaf.last < stepped)


def _parameters(optimizer: Any) -> list[Tensor]:
    return [p for p in held_by(optimizer) if p.requires_grad]


def _stays(log: Log, leaf: Leaf) -> bool:
    """Tell whether nobody has changed a leaf since it was used, by hand or by a copy."""
    made = log.makers.get(leaf.key)
    elsewhere = made is not None and made.index > leaf.first
    return not elsewhere and not log.writes_since(leaf.key, leaf.first)


def _is_idle(log: Log, old: Tensor, since: int) -> bool:
    """Tell whether a tensor had no gradient at a step, and no use, after an operation."""
    leaf = log.leaf(old)
    if log.moved.get(id(old), -1) > since or (leaf is not None and leaf.last > since):
        return False
    later = (e for e in log.forward_events() if e.index > since and e.grad)
    return not any(id(old) in event.sources.leaves for event in later if event.sources)


def _replaced(
    log: Log, optimizer: Any, loose: dict[int, tuple[Tensor, Leaf]]
) -> dict[int, Tensor]:
    """Return what an optimizer holds in the place of loose parameters, by their ``id``."""
    found = {id(new): old for new, old in _seen_replaced(log, optimizer, loose)}
    return found | {id(new): old for new, old in _fitting(log, optimizer, loose)}


def _seen_replaced(
    log: Log, optimizer: Any, loose: dict[int, tuple[Tensor, Leaf]]
) -> Iterator[Pair]:
    """Yield what was seen to be put into the place of what an optimizer holds."""
    named = log.named()
    parts = {id(part): part for root in log.modules for part in root.modules()}
    for old in _parameters(optimizer):
        if id(old) not in named:
            for successors in log.places.successors(old, parts):
                yield from ((p, old) for p in successors if id(p) in loose)


def _fitting(
    log: Log, optimizer: Any, loose: dict[int, tuple[Tensor, Leaf]]
) -> Iterator[Pair]:
    """Yield the pairs where an optimizer fits a model but for parameters that took a place.

    It holds as many parameters as the model has, in one order; each is the one that the
    model has, or one that is no part of it and has the shape of one that nobody trains.
    """
    held = _parameters(optimizer)
    known = {id(p) for p in held}
    for root in tuple(log.modules):
        own = [p for p in root.parameters() if id(p) in known or id(p) in loose]
        parts = {id(p) for p in own}
        pairs = [(p, q) for p, q in zip(own, held, strict=False) if p is not q]
        if len(own) != len(held) or any(
            id(p) not in loose or id(old) in parts for p, old in pairs
        ):
            continue
        if all(_alike(p, old) for p, old in pairs) and _whole(root, pairs):
            yield from pairs


def _alike(new: Tensor, old: Tensor) -> bool:
    """Tell whether two shapes differ in no more than one size, as of another head."""
    sizes = zip(new.shape, old.shape, strict=False)
    return new.ndim == old.ndim and sum(a != b for a, b in sizes) <= 1


def _whole(root: Module, pairs: Sequence[Pair]) -> bool:
    """Tell whether some of the pairs, in each module of theirs, are more than numbers.

    A parameter of one size, or one that differs, is alone no sign of a place.
    """
    fits = {id(p) for p, old in pairs if p.shape == old.shape or p.ndim > 1}
    new = {id(p) for p, _ in pairs}
    for part in root.modules():
        own = {id(p) for p in part.parameters(recurse=False)} & new
        if own and not own & fits:
            return False
    return True


@when_done("requires-grad-of-a-module")
def flag_without_effect(log: Log, call: Call) -> Found:
    """``module.requires_grad = True``, while parameters of the module say otherwise.

    Of a flag that is False, parameters count that backward has reached; of one that is
    True, those of a module that was called. Where a module reads it, it is an option.
    """
    flags = {of: flag for of, flag in log.flags.items() if flag.against and not flag.used}
    ran = {id(p): of for of in log.called for p in of.parameters()} if flags else {}
    for module, flag in flags.items():
        stay = [p for p in flag.against if p.requires_grad is not flag.value]
        if flag.value:
            stay = [p for p in stay if id(p) in ran]
        else:
            stay = [p for p in stay if (leaf := log.leaf(p)) and leaf.arrived == call.run]
        if not stay:
            continue
        root = ran.get(id(stay[0]))
        called = log.called[root][1] if root is not None else call.site
        names = listed([log.name_of(p) for p in stay])
        says = "stay frozen" if flag.value else "go on to get gradients"
        yield trap(
            "requires-grad-of-a-module",
            flag.site or called,
            f"requires_grad = {flag.value} on a {type(module).__name__} is an attribute "
            f"that nothing looks at, and changes no parameter: {names} {says}.",
            f"Call the method, with an underscore: requires_grad_({flag.value}). It sets "
            "requires_grad of each parameter.",
            *([Note("called", called, "the module, as before")] if flag.site else ()),
        )


@at_end("plain-list-of-layers")
def hidden_layers(log: Log) -> Found:
    """Layers that a module calls, that train, and that are no part of it."""
    held, named = log.held(), log.named()
    for module, (root, site) in tuple(log.hidden.items()):
        own = [p for p in module.parameters() if id(p) not in held and id(p) not in named]
        trained = [p for p in own if (leaf := log.leaf(p)) and leaf.arrivals]
        if trained:
            yield trap(
                "plain-list-of-layers",
                site,
                f"{type(root).__name__} calls a {type(module).__name__} that is no part of "
                "it: parameters() leaves it out, and nothing trains it.",
                "Keep layers in nn.ModuleList or nn.ModuleDict, not in a list or a dict.",
            )
