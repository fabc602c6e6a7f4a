"""A small graph: values on the way there, cotangents on the way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor

from pullback._cotangents import Cotangents
from pullback._layout import layout as lay_out
from pullback._picture import kind_of, picture
from pullback._steps import script, walk_through
from pullback._trace import Trace
from pullback.draw._svg import (
    NARROW,
    WORD,
    Canvas,
    Drawing,
    Point,
    Scale,
    around,
    joined,
    legible_width,
    listed,
    real,
    text_width,
    tidy,
    written,
)

LARGEST = 24  # nodes that a picture shows one by one
SHORT = 4  # numbers up to which a value is written out
LINE = 20  # height of a line of text in a node
APART = 4  # how far the two lines of an edge lie from its middle


class Node(NamedTuple):
    """A node: what stands in its lines, and what arrives at it on the way back.

    Several cotangents are added; of a group of operations, ``where`` says at which. In a
    picture that lives, ``at`` says which outputs of its program value and arrived are.
    """

    name: str
    title: str
    operation: str
    value: str
    arrived: Tensor | None
    at: tuple[int | None, int | None] = (None, None)
    where: str = "in all"


class Edge(NamedTuple):
    """An edge as the forward pass goes, with the cotangent that comes back along it."""

    source: str
    target: str
    cotangent: Tensor | None
    cut: bool = False
    at: int | None = None


class GraphDrawing(Drawing):
    """A drawing of a graph that can be walked through.

    Attributes:
        steps: What happens at each node on the way back, in words.
    """

    def __init__(
        self, drawing: Drawing, steps: Sequence[str], items: Sequence[str], *, moves: bool
    ) -> None:
        super().__init__(
            drawing.svg, alt=drawing.alt, text=drawing.text, width=drawing.width
        )
        self.steps, self.moves = tuple(steps), moves
        self._items = "\n".join(f"<li>{item}</li>" for item in items)

    @property
    def fragment(self) -> str:
        """The picture with its buttons, for a page that has the script."""
        return walk_through(self.svg, self._items)

    @property
    def html(self) -> str:
        """The picture as an HTML fragment, with its buttons if it was asked to move."""
        if not self.moves:
            return super().html
        return f"{self.fragment}<script>{script()}</script>\n"


def graph(
    of: Trace | Sequence[tuple[str, str, Any]],
    values: Mapping[str, Any] | None = None,
    *,
    v: Any = None,
    cut: Sequence[tuple[str, str]] = (),
    steps: bool = False,
    alt: str | None = None,
) -> GraphDrawing:
    """Draw a small graph: each node with its value, and what comes back to it.

    A node is a card: its name, its value from the forward pass, and in a tinted line the
    cotangent that arrives there on the way back. Where several edges meet, each says what
    it brings, and the card holds the sum.

    Args:
        of: What :func:`pullback.trace` returned, or the edges by hand, in the order of
            the forward pass: ``(source, target, cotangent)``. The cotangent is what
            travels back from target to source; None for nothing.
        values: Values of nodes by name, such as the ``names`` given to ``trace``.
        v: Where backward starts; needed for edges by hand alone, and for their last node.
        cut: Edges ``(source, target)`` where the graph is cut, as by ``detach``: the value
            goes on, and what comes back has to be carried over by hand.
        steps: Whether the picture has buttons that walk back through it, node by node.
        alt: What a reader who does not see the picture is told; left out, the steps.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: A value or a cotangent is neither numbers nor text.
        ValueError: There are no edges, more than 24 nodes, a cycle, or a cut where no edge
            is.

    Examples:
        >>> import torch, pullback
        >>> w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
        >>> y = (w * x).square()
        >>> names = {"w": w, "y": y}
        >>> pullback.draw.graph(pullback.trace(y, names=names), names)
        Back through the graph, step by step
        1. y starts with v = 1; it passes 12 to Mul.
        2. Mul receives 12; it passes 24 to w.
        3. w receives 24.
    """
    nodes, edges = (
        _traced(of, values or {})
        if isinstance(of, Trace)
        else _from_hand(of, values or {}, v)
    )
    return draw(nodes, edges, cut=cut, steps=steps, alt=alt)


def alive(
    of: Trace, values: Mapping[str, Any], marks: Mapping[tuple[str, str | int], int]
) -> GraphDrawing:
    """Draw a trace whose numbers a program computes; marks say which outputs they are."""
    return draw(*_traced(of, values, marks), cut=(), steps=True, alt=None)


def draw(
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    *,
    cut: Sequence[tuple[str, str]],
    steps: bool,
    alt: str | None,
) -> GraphDrawing:
    """See :func:`graph`."""
    if len(nodes) > LARGEST:
        raise ValueError(f"the graph has {len(nodes)} nodes; up to {LARGEST} can be drawn")
    known = {(edge.source, edge.target) for edge in edges}
    if unknown := [pair for pair in cut if tuple(pair) not in known]:
        raise ValueError(f"cut names {unknown}; edges of the graph are needed")
    edges = [edge._replace(cut=(edge.source, edge.target) in set(cut)) for edge in edges]
    order = _backwards(nodes, edges)
    told = [
        _sentence(nodes[name], nodes, edges, lambda t, _: _value_in_words(t))
        for name in order
    ]
    safe = {name: n._replace(title=escape(n.title)) for name, n in nodes.items()}
    items = [_sentence(safe[name], safe, edges, _marked) for name in order]
    caption = "Back through the graph, step by step"
    width = len(str(len(told)))
    text = "\n".join([caption, *(f"{i:{width}}. {t}" for i, t in enumerate(told, 1))])
    shown = _draw(nodes, edges, order)
    worth = [f"{node.title} is {node.value}" for node in nodes.values() if node.value]
    forward = f"A graph. Forward, {joined(worth)}. " if worth else "A graph. "
    drawing = shown.drawing(alt=alt or f"{forward}Back: {' '.join(told)}", text=text)
    return GraphDrawing(drawing, told, items, moves=steps)


def _traced(
    trace: Trace,
    values: Mapping[str, Any],
    marks: Mapping[tuple[str, str | int], int] | None = None,
) -> tuple[dict[str, Node], list[Edge]]:
    """Return nodes and edges of a trace, without its seeds, as the forward pass goes.

    A larger graph has a node for each group; its value is that of the group's last
    operation, and what arrives is told if all of it arrives there.
    """
    marks = marks or {}
    seeds = {e.source for e in trace.edges} - {n.name for n in trace.nodes}
    seen = Cotangents(trace.edges, trace.nodes, trace.leaves)
    boxes, _, home = picture(seen, LARGEST + len(seeds))
    arrived = {
        node.name: node.received[0] if len(node.received) == 1 else None
        for node in trace.nodes
    } | {leaf.name: leaf.total for leaf in trace.leaves}
    kinds = {node.name: kind_of(node) for node in trace.nodes}
    nodes = {}
    for box in boxes:
        if box.kind != "seed":
            title, *operation = box.text.split("\n")
            inside = [name for name in arrived if home[name] == box.name]
            entered = {e.target for e in trace.edges if home[e.source] != box.name}
            entries = [name for name in arrived if name in entered and name in inside]
            name = entries[-1]  # which the engine reaches last
            total = None if arrived[name] is None else real(name, arrived[name])
            at = marks.get(("value", name)), marks.get(("arrived", name))
            worth = _short(values[name], at[0]) if name in values else ""
            node = Node(box.name, title, "".join(operation), worth, total, at)
            if len(entries) > 1:
                node = node._replace(where=f"at {kinds.get(name, name)}")
            nodes[box.name] = node
    edges = [
        Edge(
            home[edge.target],
            home[edge.source],
            None if edge.value is None else real("cotangent", edge.value),
            at=marks.get(("edge", i)),
        )
        for i, edge in enumerate(trace.edges)
        if home[edge.source] in nodes and home[edge.source] != home[edge.target]
    ]
    return nodes, edges


def _from_hand(
    triples: Sequence[tuple[str, str, Any]], values: Mapping[str, Any], v: Any
) -> tuple[dict[str, Node], list[Edge]]:
    """Return nodes and edges given by hand, with what arrives at each added up."""
    if not triples:
        raise ValueError("there are no edges; (source, target, cotangent) are needed")
    edges = [
        Edge(source, target, None if sent is None else real("cotangent", sent))
        for source, target, sent in triples
    ]
    ends = {edge.target for edge in edges} - {edge.source for edge in edges}
    if v is not None and len(ends) != 1:
        raise ValueError(f"v is given, and the graph ends at {sorted(ends)}; one is needed")
    nodes = {}
    for name in dict.fromkeys(name for edge in edges for name in edge[:2]):
        sent = [e.cotangent for e in edges if e.source == name and e.cotangent is not None]
        if name in ends and v is not None:
            sent = [real("v", v)]
        total = sum(sent[1:], sent[0]) if sent else None
        worth = _short(values[name]) if name in values else ""
        nodes[name] = Node(name, name, "", worth, total)
    return nodes, edges


def _backwards(nodes: Mapping[str, Node], edges: Sequence[Edge]) -> list[str]:
    """Return the names from the outputs to the inputs, each after all that it feeds."""
    waiting = {name: sum(edge.source == name for edge in edges) for name in nodes}
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:  # grows while it is walked
        for edge in edges:
            if edge.target == name:
                waiting[edge.source] -= 1
                if not waiting[edge.source]:
                    ready.append(edge.source)
    if len(ready) < len(nodes):
        raise ValueError("the edges form a cycle; a graph without cycles is needed")
    return ready


def _sentence(
    node: Node,
    nodes: Mapping[str, Node],
    edges: Sequence[Edge],
    told: Callable[[Tensor | None, int | None], str],
) -> str:
    """Tell what arrives at a node, and what it passes on; told is how to tell numbers."""
    came = [edge for edge in edges if edge.source == node.name]
    sent = [edge for edge in edges if edge.target == node.name]
    total = told(node.arrived, node.at[1])
    if not came:
        what = (
            f"starts with v = {total}" if node.arrived is not None else "is where it ends"
        )
    elif len(came) == 1:
        what = f"receives {total}" + (" across the cut" if came[0].cut else "")
    else:
        parts = [
            f"{told(edge.cotangent, edge.at)} from {nodes[edge.target].title}"
            for edge in came
        ]
        what = f"receives {joined(parts)}, {total} {node.where}"
    if not sent:
        return f"{node.title} {what}."
    onward = [
        f"{told(edge.cotangent, edge.at)} to {nodes[edge.source].title}" for edge in sent
    ]
    return f"{node.title} {what}; it passes {joined(onward)}."


def _draw(nodes: Mapping[str, Node], edges: Sequence[Edge], order: Sequence[str]) -> Canvas:
    """Draw it from left to right where that fits a phone, else from top to bottom."""
    pairs = list(dict.fromkeys((edge.target, edge.source) for edge in edges))
    layout = lay_out(pairs)
    size = {name: _size(node) for name, node in nodes.items()}
    meeting = {
        edge.source for edge in edges if sum(e.source == edge.source for e in edges) > 1
    }
    both = {pair: [e for e in edges if (e.target, e.source) == pair] for pair in pairs}
    meet = {pair: mine for pair, mine in both.items() if pair[1] in meeting}
    pills = {pair: " + ".join(map(_short_cotangent, mine)) for pair, mine in meet.items()}
    deepest = max(y for _, y in layout.places.values())
    across = [p[0] for route in layout.routes.values() for p in route]
    low = min(across)
    widest, tallest = (max(s[k] for s in size.values()) for k in (0, 1))
    room = {pair: _widest(pills[pair], mine[0].at) for pair, mine in meet.items()}
    pill = max((text_width(text, WORD) + 14 for text in room.values()), default=0.0)
    column = widest + max(40.0, pill + 26)
    if legible_width(deepest * column + widest) <= NARROW:
        high = tallest + 22

        def at(p: Point) -> Point:
            return (deepest - p[1]) * column + widest / 2, (p[0] - low) * high + tallest / 2
    else:
        wide, layer = max(widest + 14, 2 * pill), tallest + (66 if pills else 40)

        def at(p: Point) -> Point:
            return (p[0] - low) * wide + widest / 2, (deepest - p[1]) * layer + tallest / 2

    numbers = [n.arrived for n in nodes.values()] + [e.cotangent for e in edges]
    scale = Scale(*(t.reshape(-1).tolist() for t in numbers if t is not None))
    turn = {name: number for number, name in enumerate(order)}
    shown = Canvas()
    for pair, mine in both.items():
        route = [at(p) for p in layout.routes[pair]]
        shown.add(f'<g data-step="{turn[pair[0]]}" data-to="{turn[pair[1]]}">')
        _edge(shown, mine, route, size, scale, room.get(pair, ""))
        shown.add("</g>")
    for name, node in nodes.items():
        shown.add(f'<g data-step="{turn[name]}">')
        _card(shown, node, at(layout.places[name]), size[name], scale)
        shown.add("</g>")
    return shown


def _edge(
    shown: Canvas,
    edges: Sequence[Edge],
    route: Sequence[Point],
    size: Mapping[str, Point],
    scale: Scale,
    pill: str,
) -> None:
    """Draw the line that values take, and beside it the one that cotangents take back."""
    source, target = size[edges[0].source], size[edges[0].target]
    lies = abs(route[-1][0] - route[0][0]) > abs(route[-1][1] - route[0][1])
    aside = (0.0, APART) if lies else (APART, 0.0)
    centre = _middle(route)
    gap = (text_width(pill, WORD) + 14, 24.0) if pill else (0.0, 0.0)
    for way, points in ((1, [*reversed(route)]), (-1, [*route])):
        line = [(x - way * aside[0], y - way * aside[1]) for x, y in points]
        ends = (source, target) if way == 1 else (target, source)
        line[0] = _border(line[0], line[1], ends[0], points[0], 3)
        line[-1] = _border(line[-1], line[-2], ends[1], points[-1], 3)
        back = way == -1
        if back:
            shown.add('<g class="pb-back">')
            if all(edge.cotangent is None for edge in edges):
                shown.add("</g>")
                continue
        kind = ("l a" if back else "l") + (" d" if edges[0].cut else "")
        for a, b in pairwise(line):
            for piece in around(a, b, centre, gap):
                shown.line(piece, kind)
        if pill and not back:  # drawn as long as nothing has come back
            shown.add('<g class="pb-gap">')
            shown.line(line, kind)
            shown.add("</g>")
        shown.arrow(line[-2:], kind.replace(" d", ""), shaft=False)
        if back and pill:
            wide = gap[0] - 4
            total = edges[0].cotangent
            tint = scale.fill(_sign(total)) if total is not None else ""
            tint += _mark_of_output(edges[0].at)
            shown.box(centre[0] - wide / 2, centre[1] - 10, wide, 20, tint, 10)
            parts = [_span("tspan", _short_cotangent(edge), edge.at) for edge in edges]
            shown.words(*centre, pill, markup=" + ".join(parts))
        if back:
            shown.add("</g>")
    if edges[0].cut:
        dx, dy = (0.0, 28.0) if lies else (28.0, 0.0)
        (x, y) = centre
        shown.line([(x - dx, y - dy), (x + dx, y + dy)], "l c")


def _middle(route: Sequence[Point]) -> Point:
    """Return the middle of the stretch in the middle of a route."""
    at = (len(route) - 1) // 2
    (x0, y0), (x1, y1) = route[at], route[at + 1]
    return (x0 + x1) / 2, (y0 + y1) / 2


def _card(shown: Canvas, node: Node, centre: Point, size: Point, scale: Scale) -> None:
    """Draw a node: name, operation, value; what arrived, in a tinted line."""
    (x, y), (w, h) = centre, size
    left, top = x - w / 2, y - h / 2
    shown.box(left, top, w, h, r=8)
    lines = [(node.title, "b", None), (node.operation, "m", None)]
    line = top + 4 + LINE / 2
    for text, kind, at in [*lines, (node.value, "", node.at[0])]:
        if text:
            shown.words(x, line, text, kind, markup=_span("tspan", text, at))
            line += LINE
    if node.arrived is not None:
        shown.add('<g class="pb-back">')
        text, came = _short(node.arrived, node.at[1]), node.at[1]
        tint = scale.fill(_sign(node.arrived)) + _mark_of_output(came)
        shown.box(left + 4, top + h - LINE - 6, w - 8, LINE + 2, tint, 5)
        place = x, top + h - LINE / 2 - 5
        shown.words(*place, text, "b", markup=_span("tspan", text, came))
        shown.add("</g>")


def _size(node: Node) -> Point:
    worth = _widest(node.value, node.at[0])
    lines = [text for text in (node.title, node.operation, worth) if text]
    came = node.arrived
    arrived = [] if came is None else [_widest(_short(came, node.at[1]), node.at[1])]
    wide = max(text_width(text, WORD) for text in [*lines, *arrived]) + 18
    return max(40.0, wide), len(lines) * LINE + 8 + (LINE + 4 if arrived else 0)


def _border(start: Point, other: Point, size: Point, centre: Point, space: float) -> Point:
    """Return where a line that starts near the middle of a box leaves it."""
    dx, dy = other[0] - start[0], other[1] - start[1]
    shares = []
    for way, half, off in (
        (dx, size[0] / 2 + space, start[0] - centre[0]),
        (dy, size[1] / 2 + space, start[1] - centre[1]),
    ):
        if abs(way) > 1e-9:
            shares.append((half - off * (1 if way > 0 else -1)) / abs(way))
    share = min(shares)
    return start[0] + share * dx, start[1] + share * dy


def _sign(t: Tensor) -> float:
    """Return the number that stands for a tensor in the scale: its largest entry."""
    flat = t.reshape(-1)
    return float(flat[flat.abs().argmax()]) if flat.numel() else 0.0


def _short_cotangent(edge: Edge) -> str:
    return "nothing" if edge.cotangent is None else _short(edge.cotangent, edge.at)


def _short(value: Any, at: int | None = None) -> str:
    """Return a value in few letters: its numbers, or its shape; its norm if it moves."""
    if isinstance(value, str):
        return value
    t = real("value", value)
    if t.numel() <= SHORT and (t.ndim <= 1 or at is not None):
        return _nested(t.tolist())
    norm = f", norm {written(float(t.norm()))}" if at is not None else ""
    return f"{'shape ' * (at is None)}{tuple(t.shape)}{norm}"


def _nested(numbers: Any) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_nested, numbers))}]"
    return written(numbers)


def _widest(text: str, at: int | None) -> str:
    """Return text as wide as numbers that move may make it."""
    if at is None:
        return text
    shape, norm, _ = text.partition("norm ")
    room = "\N{MINUS SIGN}0.000"
    return f"{shape}{norm}{room}" if norm else re.sub(r"[^][, ]+", room, text)


def _value_in_words(t: Tensor | None, at: int | None = None) -> str:
    if t is None:
        return "nothing"
    if at is not None:
        return _short(t, at)
    if t.ndim == 0:
        return tidy(float(t))
    return listed(t.tolist()) if t.ndim == 1 and t.numel() <= 12 else f"{tuple(t.shape)}"


def _marked(t: Tensor | None, at: int | None) -> str:
    return _span("span", _value_in_words(t, at), at)


def _span(tag: str, text: str, at: int | None) -> str:
    """Return text with the mark of what a page computes."""
    text = escape(text, quote=False)
    return text if at is None else f"<{tag}{_mark_of_output(at)}>{text}</{tag}>"


def _mark_of_output(output: int | None) -> str:
    return "" if output is None else f' data-at="{output}"'
