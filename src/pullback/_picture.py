"""What a picture of a trace shows: boxes and arrows, few enough to be read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pullback._cotangents import Cotangents, Edge, Node, numbers

SHORT = 3  # numbers up to which an arrow carries them all


class Box(NamedTuple):
    """One box: a seed, an operation, a leaf, or a group of operations and leaves.

    Attributes:
        name: Its name in the arrows.
        text: What is written in it.
        kind: ``"seed"``, ``"operation"``, ``"leaf"`` or ``"group"``.
    """

    name: str
    text: str
    kind: str


class Arrow(NamedTuple):
    """One arrow, for all the edges that lead from one box to another.

    Attributes:
        source: Name of the box that it comes from.
        target: Name of the box that it leads to.
        label: The cotangent, or a summary of several.
        nan: Whether a NaN travels there.
        zero: Whether nothing else than zeros travels there.
    """

    source: str
    target: str
    label: str
    nan: bool
    zero: bool


class Picture(NamedTuple):
    """A graph to draw.

    Attributes:
        boxes: Its boxes, those of operations and groups in the order of the forward pass.
        arrows: Its arrows.
        home: The box that each seed, operation and leaf is in, by their names.
    """

    boxes: list[Box]
    arrows: list[Arrow]
    home: dict[str, str]


def picture(seen: Cotangents, limit: int | None = None) -> Picture:
    """Return a picture with at most about ``limit`` boxes, or of everything.

    A larger graph is collapsed: operations that ran one after another in the same
    module (``Node.scope``) share a box, by the deepest modules that fit. Where even the
    outermost do not fit, or no module is known, the rounds of a loop share one, or else
    runs of equal length. Such runs can never close a cycle, because each is a stretch of
    one order of the graph.
    """
    seeds = {edge.source for edge in seen.edges} - {node.name for node in seen.nodes}
    seeds -= {leaf.name for leaf in seen.leaves}
    singles = [[node] for node in reversed(seen.nodes)]
    room = None if limit is None else limit - len(seeds)
    if room is None or len(singles) + len(seen.leaves) <= room:
        boxes = [_operation(node) for (node,) in singles]
        boxes += [Box(leaf.name, leaf.name, "leaf") for leaf in seen.leaves]
        home = {box.name: box.name for box in boxes}
    else:
        boxes, home = _collapse(seen, room)
    boxes += [Box(seed, seed, "seed") for seed in sorted(seeds)]
    home |= {seed: seed for seed in seeds}
    together: dict[tuple[str, str], list[Edge]] = {}
    for edge in seen.edges:
        ends = home[edge.source], home[edge.target]
        if ends[0] != ends[1]:
            together.setdefault(ends, []).append(edge)
    arrows = [_arrow(*ends, edges) for ends, edges in together.items()]
    return Picture(boxes, arrows, home)


def _collapse(seen: Cotangents, room: int) -> tuple[list[Box], dict[str, str]]:
    """Return the boxes, and for each operation and leaf the box that it is in."""
    forward = _forward_order(seen)
    deepest = max(node.scope.count(".") + 1 for node in forward)
    free = [leaf.name for leaf in seen.leaves if "." not in leaf.name]
    for depth in range(deepest, 0, -1):
        runs = _runs(forward, depth)
        titles = [".".join(run[0].scope.split(".")[:depth]) for run in runs]
        if len(runs) + len(free) <= room:
            break
    else:
        free = free if len(free) <= room // 4 else []
        runs, titles = _stretches(forward, max(1, room - len(free)))
    boxes: list[Box] = []
    home: dict[str, str] = {}
    for number, (run, title) in enumerate(zip(runs, titles, strict=True), 1):
        single = len(run) == 1
        box = _operation(run[0], title) if single else _group(run, number, title)
        boxes.append(box)
        home |= {node.name: box.name for node in run}
    # a leaf that is not free is drawn with what reads it first in the forward pass,
    # which is what sends to it last in the backward pass
    operations = set(home)
    for edge in seen.edges:
        if edge.source in home and edge.target not in operations | set(free):
            home[edge.target] = home[edge.source]
    alone = [leaf.name for leaf in seen.leaves if leaf.name not in home]
    boxes += [Box(name, name, "leaf") for name in alone]
    home |= {name: name for name in alone}
    return boxes, home


def _forward_order(seen: Cotangents) -> list[Node]:
    """Return the order of the forward pass, with ``weight.T`` next to its use.

    What reads leaves alone may have run long before it was needed.
    """
    operations = {node.name for node in seen.nodes}
    reads: dict[str, list[str]] = {name: [] for name in operations}
    for edge in seen.edges:
        if edge.target in operations and edge.source in operations:
            reads[edge.source].append(edge.target)
    early = {node.name: node for node in seen.nodes if not reads[node.name]}
    order: list[Node] = []
    for node in reversed(seen.nodes):
        if node.name not in early:
            order += [early.pop(name) for name in reads[node.name] if name in early]
            order.append(node)
    return [*order, *early.values()]


def _runs(forward: Sequence[Node], depth: int) -> list[list[Node]]:
    """Cut the order into stretches of one module each; no module, no stretch."""

    def key(item: tuple[int, Node]) -> str | int:
        return ".".join(item[1].scope.split(".")[:depth]) or item[0]

    return [[node for _, node in run] for _, run in groupby(enumerate(forward), key)]


def _stretches(forward: Sequence[Node], room: int) -> tuple[list[list[Node]], list[str]]:
    """Cut the order into rounds of a loop, or equal stretches; return them and titles."""
    first, size, count = _loop([kind_of(node) for node in forward])
    last = first + size * count
    left = room - first - (len(forward) - last)  # for rounds, if all others stand alone
    if count and left > room // 2:
        many = math.ceil(count / left)
        runs = [[node] for node in forward[:first]]
        titles = [""] * first
        for i in range(0, count, many):
            end = min(i + many, count)
            which = f"round {end}" if end == i + 1 else f"rounds {i + 1} to {end}"
            runs.append([*forward[first + i * size : first + end * size]])
            titles.append(f"{which} of {count}")
        runs += [[node] for node in forward[last:]]
        return runs, titles + [""] * (len(forward) - last)
    size = math.ceil(len(forward) / room)
    runs = [[*forward[i : i + size]] for i in range(0, len(forward), size)]
    return runs, [""] * len(runs)


def _loop(kinds: Sequence[str]) -> tuple[int, int, int]:
    """Return where the longest repetition begins, how long a round is, and how many are."""
    best = (0, 0, 0)
    for size in range(1, len(kinds) // 3 + 1):
        same = [a == b for a, b in zip(kinds, kinds[size:], strict=False)]
        position = 0
        for equal, stretch in groupby(same):
            length = len(list(stretch))
            rounds = length // size + 1
            if equal and rounds >= 3 and rounds * size > best[1] * best[2]:
                best = position, size, rounds
            position += length
    return best


def _operation(node: Node, module: str = "") -> Box:
    kind = kind_of(node)
    if not node.name.startswith(node.operation):
        return Box(node.name, f"{node.name}\n{kind}", "operation")
    if module:
        return Box(node.name, f"{module}\n{kind}", "operation")
    return Box(node.name, node.name.replace(node.operation, kind), "operation")


def _group(run: Sequence[Node], number: int, module: str) -> Box:
    title = module or f"{kind_of(run[0])} … {kind_of(run[-1])}"
    return Box(f"{title} (group {number})", f"{title}\n{len(run)} operations", "group")


def kind_of(node: Node) -> str:
    return re.sub(r"Backward\d*$", "", node.operation)


def _arrow(source: str, target: str, edges: Sequence[Edge]) -> Arrow:
    nan, zero = any(edge.nan for edge in edges), all(edge.zero for edge in edges)
    labels = [_label(edge) for edge in edges]
    if len(labels) == 1 or (len(labels) == 2 and "\n" not in "".join(labels)):
        label = "\n".join(labels)
    else:
        norm = math.hypot(*(edge.norm or 0.0 for edge in edges))
        label = f"{len(edges)} edges\nnorm {norm:.3g}"
    return Arrow(source, target, label, nan, zero)


def _label(edge: Edge) -> str:
    if edge.shape is None or edge.norm is None:
        return "nothing"
    if edge.value is not None and edge.shape.numel() <= SHORT:
        return numbers(edge.value)
    return f"{tuple(edge.shape)}\nnorm {edge.norm:.3g}"
