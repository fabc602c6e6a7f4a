"""The graph of f for a picture that lives: its values, and the cotangents on its edges."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node as GraphNode
from torch.autograd.graph import get_gradient_edge
from torch.nn import Module

from pullback._graph import Graph
from pullback._inputs import call, check_output, one_tensor
from pullback._live_recorder import Doubled, line, told_at
from pullback._site import is_own_file
from pullback._torch import number_of
from pullback._trace import Trace, follow, seen

Mark = tuple[str, str | int]  # a kind, and the name of a node or the number of an edge

#: CPython 3.11 raises where two threads set profile functions of their own at once.
_SETS = Lock()


class Called(NamedTuple):
    """What f returned for a leaf, and the tensors that it has names for, the leaf first."""

    leaf: Tensor
    y: Tensor
    names: dict[str, Tensor]
    place: str  # the line of f that returned y, or its module

    @property
    def input(self) -> str:
        """What f calls its input."""
        return next(iter(self.names))


def name_of_input(f: Callable[..., Any]) -> str:
    """Return what a function of one's own calls its input, and x of any other.

    So it is where f calls it as a picture calls something else.
    """
    f = inspect.unwrap(f)
    code = getattr(f, "__code__", None)
    if code is None or not is_own_file(code.co_filename):
        return "x"
    name = next(iter(inspect.signature(f).parameters), "x")
    return "x" if name in ("J", "args", "u", "v", "y") else name


def called(f: Callable[[Tensor], Tensor], leaf: Tensor) -> Called:
    """Call f, and look at its variables when it returns."""
    code = getattr(getattr(f, "forward", f), "__code__", None)
    variables: dict[str, Any] = {}
    place = f"{type(f).__name__}() of f" if isinstance(f, Module) else ""

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal place
        if event == "return" and frame.f_code is code:
            variables.update(frame.f_locals)
            if is_own_file(code.co_filename):
                place = line(frame, frame.f_lineno)

    before = sys.getprofile()
    replaceable = before is None or callable(before)  # cProfile's own cannot be set again
    if replaceable:
        with _SETS:
            sys.setprofile(look)
    try:
        y = call(f, (leaf,), copied=(leaf,), check=False)
    finally:
        if replaceable:
            with _SETS:
                sys.setprofile(before)
    with told_at(place):
        check_output(y)
        y = one_tensor(y)
    parameters = dict(getattr(f, "named_parameters", dict)())
    own = {name: t for name, t in variables.items() if isinstance(t, Tensor)}
    first = {name_of_input(f): leaf, "y": y}
    return Called(leaf, y, first | parameters | own | first, place)


def drawn(of: Called, v: Tensor, mode: Doubled) -> tuple[Trace, dict[str, Any]]:
    """Return what a picture of the way from y to x shows: the trace and values by name."""
    graph = Graph([of.y], of.names, several=False)
    whole = seen(graph, [of.y], [v], {get_gradient_edge(of.leaf).node: of.leaf})
    ways = _to(of.input, [edge[:2] for edge in whole.edges])
    part = whole._replace(
        edges=tuple(edge for edge in whole.edges if edge.target in ways),
        nodes=tuple(node for node in whole.nodes if node.name in ways),
        leaves=tuple(leaf for leaf in whole.leaves if leaf.name in ways),
    )
    return part, _values(graph, of, ways, _used(graph, of.y), mode.made)


def marks(of: Called, v: Tensor, mode: Doubled) -> tuple[Tensor | None, dict[Mark, Any]]:
    """Return the product, and all numbers that the picture shows, in a fixed order.

    Each is a tensor, or what the mode has kept of one.
    """
    graph = Graph([of.y], of.names, several=False)
    start = get_gradient_edge(of.leaf).node
    way = follow(
        graph, [of.y], [v], [start], lambda *edge: edge, lambda g: g, defaultdict(list)
    )
    ways = _to(of.input, [edge[:2] for edge in way.edges])
    kept = [edge for edge in way.edges if edge[1] in ways]
    (product,) = way.totals
    found: dict[Mark, Any] = {("edge", i): sent for i, (_, _, sent) in enumerate(kept)}
    used = _used(graph, of.y)
    for node, arrived in way.received.items():
        if node in used:
            found["arrived", graph.name[node]] = arrived[used[node]]
    found["arrived", of.input] = product
    for name, value in _values(graph, of, ways, used, mode.made).items():
        found["value", name] = value
    return product, {mark: value for mark, value in found.items() if value is not None}


def _to(name: str, edges: Iterable[tuple[str, str]]) -> set[str]:
    """Return the nodes from which edges, in the order of travel, lead to one."""
    ways = {name}
    for source, target in reversed(list(edges)):
        if target in ways:
            ways.add(source)
    return ways


def _used(graph: Graph, y: Tensor) -> dict[GraphNode, int]:
    """Return which result of a node goes on to y, by its place, if only one does."""
    places = defaultdict(set)
    places[get_gradient_edge(y).node].add(y.output_nr)
    for node in graph.operations:
        for target, place in node.next_functions:
            if target is not None:
                places[target].add(place)
    return {node: min(found) for node, found in places.items() if len(found) == 1}


def _values(
    graph: Graph,
    of: Called,
    ways: set[str],
    used: Mapping[GraphNode, int],
    made: Mapping[int, Mapping[int, Any]],
) -> dict[str, Any]:
    """Return what the nodes made in the forward pass, by name, where that is known.

    A variable of f is known as it is at the end. Nodes of functions of one's own and of
    edits in place come before, or after, other operations: what they made is not known.
    """
    values: dict[str, Any] = {}
    for node, name in graph.name.items():
        if name in ways:
            own = isinstance(node, BackwardCFunction) or "CopySlices" in node.name()
            value = None
            if node in used and not own:
                value = made.get(number_of(node), {}).get(used[node])
            if (value := of.names.get(name, value)) is not None:
                values[name] = value
    return values
