"""Backward step by step: what each node receives and passes on, to be walked through."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor

from pullback._cotangents import Cotangents, Edge, Leaf, numbers
from pullback._layout import Point, layout
from pullback._picture import Box, Picture, picture

LARGEST = 24  # operations and leaves that a page can show one by one, or groups of them
FEW = 2  # edges between two groups that are told one by one
RUNNING = {"operation", "group"}  # boxes that pass something on, and are not v
TITLE = "Backward, step by step"
LAYER = 88  # pixels from one layer to the next
LINE = 16  # and from one line of text to the next
LETTER = 7.5  # width of a letter, on the wide side


class Step(NamedTuple):
    """One node, or group of nodes, at the moment when backward reaches it.

    Attributes:
        node: Its name, as in the edges of the trace or as its box in the picture is
            called; ``v`` at the start.
        received: The edges that brought it a cotangent; none for ``v``.
        passed: The edges along which it passes cotangents on; none for a leaf.
        sentence: Both in words.
    """

    node: str
    received: tuple[Edge, ...]
    passed: tuple[Edge, ...]
    sentence: str


class Steps(NamedTuple):
    """What :meth:`Trace.steps` returns; in notebooks and on pages it has buttons.

    Attributes:
        steps: One :class:`Step` for ``v``, each operation and each leaf, in the order of
            the engine; of a larger graph, one for each group of operations.
        picture: The graph that they walk through, in boxes and arrows.
    """

    steps: tuple[Step, ...]
    picture: Picture

    @property
    def html(self) -> str:
        """One HTML fragment with its style and script, to be saved or put into a page."""
        items = "\n".join(f"<li>{escape(step.sentence)}</li>" for step in self.steps)
        return f"{walk_through(self._svg(), items)}<script>{script()}</script>\n"

    def __repr__(self) -> str:
        width = len(str(len(self.steps)))
        lines = [f"{i:{width}}. {step.sentence}" for i, step in enumerate(self.steps, 1)]
        return "\n".join([TITLE, *lines])

    def _repr_html_(self) -> str:
        return self.html

    def _svg(self) -> str:
        """Return the picture; ``data-step`` says when each part of it has its turn."""
        turn = {step.node: number for number, step in enumerate(self.steps)}
        boxes, arrows, _ = self.picture
        drawing = layout([(arrow.source, arrow.target) for arrow in arrows])
        # labels stand half as far apart as the nodes that their arrows lead to
        column = max(
            *(_box_size(box)[0] + 8 for box in boxes),
            *(2 * _size(arrow.label)[0] for arrow in arrows),
        )
        left = min(x for x, _ in drawing.places.values())
        right = max(x for route in drawing.routes.values() for x, _ in route)
        depth = max(y for _, y in drawing.places.values())

        def at(place: Point) -> Point:
            return (place[0] - left + 0.5) * column, place[1] * LAYER + 28

        size = {box.name: _box_size(box) for box in boxes}
        parts = []
        for arrow in arrows:
            route = [at(p) for p in drawing.routes[arrow.source, arrow.target]]
            drawn = _arrow(route, arrow.label, size[arrow.source], size[arrow.target])
            turns = f'data-step="{turn[arrow.source]}" data-to="{turn[arrow.target]}"'
            parts.append(f"<g {turns}>{drawn}</g>")
        for box in boxes:
            (x, y), (w, h) = at(drawing.places[box.name]), size[box.name]
            corner = 2 if box.kind == "leaf" else 8
            parts.append(
                f'<g data-step="{turn[box.name]}"><rect x="{x - w / 2:.0f}" '
                f'y="{y - h / 2:.0f}" width="{w:.0f}" height="{h:.0f}" rx="{corner}"/>'
                f"{_text(box.text, x, y)}</g>"
            )
        wide, high = (right - left + 1) * column, depth * LAYER + 56
        leaves = ", ".join(box.name for box in boxes if box.kind == "leaf")
        told = f"The graph from v down to {leaves}, with the cotangent on every edge"
        return (
            f'<svg role="img" aria-label="{escape(told)}" width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">'
            f"{''.join(parts)}</svg>"
        )


def walk_through(svg: str, items: str) -> str:
    """Return a picture with its steps as HTML, for a page that has the script."""
    page = files("pullback").joinpath("steps.html").read_text(encoding="utf-8")
    parts = {"{{title}}": TITLE, "{{picture}}": svg, "{{steps}}": items}
    for place, text in parts.items():
        page = page.replace(place, text)
    return page


def script() -> str:
    """Return the script that gives pictures their buttons."""
    return files("pullback").joinpath("steps.js").read_text(encoding="utf-8")


def walk(seen: Cotangents) -> Steps:
    """See :meth:`Trace.steps`."""
    few = len(seen.nodes) + len(seen.leaves) <= LARGEST
    whole = picture(seen, None if few else LARGEST)
    return Steps(tuple(_steps(seen, whole)), whole)


def _steps(seen: Cotangents, whole: Picture) -> Iterator[Step]:
    """Yield the steps as the engine takes them: a leaf as soon as all has arrived."""
    name, title = _names(seen, whole.boxes)
    received: dict[str, list[Edge]] = {box.name: [] for box in whole.boxes}
    passed: dict[str, list[Edge]] = {box.name: [] for box in whole.boxes}
    for edge in seen.edges:
        source, target = whole.home[edge.source], whole.home[edge.target]
        if source != target:
            received[target].append(edge)
            passed[source].append(edge)
    nodes = {node.name: node for node in seen.nodes}
    leaves = {leaf.name: leaf for leaf in seen.leaves}
    own: dict[str, list[Leaf]] = {box.name: [] for box in whole.boxes}  # of a group
    for leaf in seen.leaves:
        own[whole.home[leaf.name]].append(leaf)
    missing = {leaf: len(received[leaf]) for leaf in leaves if leaf in received}
    seeds = dict.fromkeys(e.source for e in seen.edges if e.source not in nodes)
    last_first = [box.name for box in reversed(whole.boxes) if box.kind in RUNNING]

    def words(edges: Sequence[Edge], end: str, word: str) -> str:
        """Tell what travels, by the box that each edge comes from or leads to."""
        by_box: dict[str, list[Edge]] = {}
        for edge in edges:
            by_box.setdefault(whole.home[getattr(edge, end)], []).append(edge)
        told = [
            f"{what} {word} {name[box]}"
            for box, those in by_box.items()
            for what in _edges_in_words(those)
        ]
        return _list_in_words(told)

    for source in [*seeds, *last_first]:
        arrived, sent = received[source], passed[source]
        onward = words(sent, "target", "to") or "nothing on"
        if source in seeds:
            first = whole.home[sent[0].target]
            sentence = f"{source} = {_in_words(sent[0])} starts at {name[first]}."
        else:
            what = words(arrived, "source", "from")
            if source in nodes:
                what += _sum_in_words(arrived, nodes[source].received)
            sentence = f"{title[source]} receives {what}; it passes {onward}."
            sentence += _boxed_leaves_in_words(own[source])
        yield Step(source, tuple(arrived), tuple(sent), sentence)
        for target in [edge.target for edge in sent if edge.target in missing]:
            missing[target] -= 1
            if not missing[target]:
                total = leaves[target].total
                what = words(received[target], "source", "from")
                what += _sum_in_words(received[target], (total,))
                added = "nothing" if total is None else "it"
                sentence = f"{target} receives {what}; backward adds {added} to .grad."
                yield Step(target, tuple(received[target]), (), sentence)


def _names(seen: Cotangents, boxes: Sequence[Box]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what sentences call each box, and at its own turn: with its kind and line."""
    written = {box.name: box.text.split("\n") for box in boxes}  # "d", "Add" or "Mul #1"
    count = Counter(first for first, *_ in written.values())
    name = {
        box: first if count[first] == 1 else box for box, (first, *_) in written.items()
    }
    line = {node.name: node.line for node in seen.nodes if node.line}
    title = {}
    for box, (_, *kind) in written.items():
        more = [*kind, line[box]] if box in line else kind
        title[box] = f"{name[box]} ({', '.join(more)})" if more else name[box]
    return name, title


def _edges_in_words(edges: Sequence[Edge]) -> list[str]:
    """Tell what a few edges carry, or how much many do."""
    if len(edges) <= FEW:
        return [_in_words(edge) for edge in edges]
    norm = math.hypot(*(edge.norm or 0.0 for edge in edges))
    return [f"{len(edges)} cotangents of norm {norm:.4g}"]


def _sum_in_words(edges: Sequence[Edge], outcome: Sequence[Tensor | None]) -> str:
    """Tell what adding up and hooks made of what arrived by the edges."""
    if len(outcome) > 1:  # as of unbind
        return f", each at one of its {len(outcome)} outputs"
    (total,) = outcome
    if len(edges) > 1:
        return f", {numbers(total)} in all" if total is not None else ", added"
    return ""


def _boxed_leaves_in_words(leaves: Sequence[Leaf]) -> str:
    """Tell what the leaves get that share a box with what reads them."""
    got = [f"{numbers(t.total)} to {t.name}.grad" for t in leaves if t.total is not None]
    return f" There backward adds {_list_in_words(got)}." if got else ""


def _in_words(edge: Edge) -> str:
    """Return a cotangent in words: its numbers, or its shape and norm."""
    if edge.shape is None:
        return "nothing"
    if edge.value is None:
        return f"{tuple(edge.shape)} of norm {edge.norm:.4g}"
    return numbers(edge.value)


def _list_in_words(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _box_size(box: Box) -> Point:
    width, height = _size(box.text)
    return width + 16, height + 12


def _size(text: str) -> Point:
    lines = text.split("\n")
    return max(map(len, lines)) * LETTER, len(lines) * float(LINE)


def _text(text: str, x: float, y: float) -> str:
    """Return lines of text around a point."""
    lines = text.split("\n")
    first = y - (len(lines) - 1) * LINE / 2 + 5
    spans = [
        f'<tspan x="{x:.0f}" y="{first + i * LINE:.0f}">{escape(line)}</tspan>'
        for i, line in enumerate(lines)
    ]
    return f"<text>{''.join(spans)}</text>"


def _arrow(route: Sequence[Point], label: str, source: Point, target: Point) -> str:
    """Return a line that leaves out the boxes at its ends and the label on it."""
    middle = (len(route) - 1) // 2
    wide, high = _size(label)
    x, y = _between(route[middle], route[middle + 1], 0.5)
    strokes, tip = [], 0.0
    for i, (a, b) in enumerate(pairwise(route)):
        start = _distance_to_border(a, b, source) if i == 0 else 0.0
        stop = 1 - _distance_to_border(a, b, target) if i == len(route) - 2 else 1.0
        pieces = [(start, stop)]
        if i == middle:
            gap = _distance_to_border(a, b, (wide + 4, high))
            pieces = [(start, 0.5 - gap), (0.5 + gap, stop)]
        strokes += [
            "M{:.0f} {:.0f}L{:.0f} {:.0f}".format(*_between(a, b, s), *_between(a, b, t))
            for s, t in pieces
            if s < t
        ]
        tip = stop
    head = _arrow_head(route[-2], _between(route[-2], route[-1], tip))
    return f'<path d="{"".join(strokes)}{head}"/>{_text(label, x, y)}'


def _arrow_head(origin: Point, tip: Point) -> str:
    """Return the two strokes of an arrow's head."""
    dx, dy = tip[0] - origin[0], tip[1] - origin[1]
    length = math.hypot(dx, dy)
    dx, dy = 8 * dx / length, 8 * dy / length
    one, other = (
        (tip[0] - dx - side * dy / 2, tip[1] - dy + side * dx / 2) for side in (1, -1)
    )
    return "M{:.0f} {:.0f}L{:.0f} {:.0f}L{:.0f} {:.0f}".format(*one, *tip, *other)


def _distance_to_border(a: Point, b: Point, size: Point) -> float:
    """Return how far from the middle of a box a line in direction b - a leaves it."""
    ways = [abs(v - u) for u, v in zip(a, b, strict=True)]
    return min(s / 2 / way for s, way in zip(size, ways, strict=True) if way > 1e-9)


def _between(a: Point, b: Point, share: float) -> Point:
    return a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])
