"""Drawings of acyclic graphs in layers: where each node stands and how each edge runs.

The method of Sugiyama, Tagawa and Toda (*Methods for visual understanding of
hierarchical system structures*, IEEE Transactions on Systems, Man, and Cybernetics,
1981), in its short form: longest-path layers, a waypoint wherever an edge crosses a
layer, and barycentre sweeps that put nodes next to their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 12

Point = tuple[float, float]
Waypoint = tuple[str, int]  # a node in its layer, or a place where an edge crosses one


class Layout(NamedTuple):
    """Positions; x grows to the right and y downwards, one unit a layer.

    Attributes:
        places: Where each node stands.
        routes: For each (source, target), the points that its edge runs through.
    """

    places: dict[str, Point]
    routes: dict[tuple[str, str], list[Point]]


def layout(edges: Sequence[tuple[str, str]]) -> Layout:
    """Lay out an acyclic graph from top to bottom, sources above their targets.

    Raises:
        ValueError: there are no edges, or they form a cycle.
    """
    if not edges:
        raise ValueError("edges is empty; at least one is needed")
    edges = list(dict.fromkeys(edges))
    layer = _layers(edges)
    chains: dict[tuple[str, str], list[Waypoint]] = {}
    for source, target in edges:
        between = range(layer[source] + 1, layer[target])
        crossing = [(f"{source} → {target}", number) for number in between]
        ends = (source, layer[source]), (target, layer[target])
        chains[source, target] = [ends[0], *crossing, ends[1]]
    rows = _order_layers(chains)
    x = _positions(rows, chains)
    places = {node: (x[node, number], float(number)) for node, number in layer.items()}
    routes = {
        edge: [(x[point], float(point[1])) for point in chain]
        for edge, chain in chains.items()
    }
    return Layout(places, routes)


def _layers(edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the length of the longest path to each node; a source is next to its use."""
    layer = {node: 0 for edge in edges for node in edge}
    inputs = dict.fromkeys(layer, 0)
    targets: dict[str, list[str]] = {node: [] for node in layer}
    for source, target in edges:
        inputs[target] += 1
        targets[source].append(target)
    ready = [node for node in layer if not inputs[node]]
    for node in ready:  # grows while it is walked
        for target in targets[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            inputs[target] -= 1
            if not inputs[target]:
                ready.append(target)
    if any(inputs.values()):
        raise ValueError("edges form a cycle; a graph without cycles is needed")
    for node in layer.keys() - {target for _, target in edges}:
        layer[node] = min(layer[target] for target in targets[node]) - 1
    return layer


def _order_layers(chains: dict[tuple[str, str], list[Waypoint]]) -> list[list[Waypoint]]:
    """Return the waypoints of each layer from left to right, with few crossings."""
    segments = [pair for chain in chains.values() for pair in pairwise(chain)]
    points = list(dict.fromkeys(point for pair in segments for point in pair))
    rows: list[list[Waypoint]] = [[] for _ in range(1 + max(p[1] for p in points))]
    for point in points:
        rows[point[1]].append(point)
    best, fewest = rows, _crossings(rows, segments)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = _neighbours(segments, upwards=down)
        at = {point: float(i) for row in rows for i, point in enumerate(row)}
        rows = [list(row) for row in rows]
        for row in rows if down else reversed(rows):
            wanted = {p: _mean([at[q] for q in near.get(p, [p])]) for p in row}
            row.sort(key=wanted.__getitem__)
            at.update((point, float(i)) for i, point in enumerate(row))
        crossings = _crossings(rows, segments)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _positions(
    rows: Sequence[Sequence[Waypoint]], chains: dict[tuple[str, str], list[Waypoint]]
) -> dict[Waypoint, float]:
    """Return x of each waypoint: near the mean of its neighbours, at least 1 apart."""
    segments = [pair for chain in chains.values() for pair in pairwise(chain)]
    x = {p: i - (len(row) - 1) / 2 for row in rows for i, p in enumerate(row)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = _neighbours(segments, upwards=down)
        for row in rows if down else reversed(rows):
            wanted = [_mean([x[q] for q in near.get(p, [p])]) for p in row]
            x.update(zip(row, _space_out(wanted), strict=True))
    return x


def _space_out(wanted: Sequence[float]) -> list[float]:
    """Return places in the same order, a unit apart, nearest to the wanted ones.

    With k subtracted from the k-th place this is isotonic regression, which pooling
    adjacent violators solves (Ayer et al., Annals of Mathematical Statistics, 1955).
    """
    pools: list[tuple[float, int]] = []
    for k, place in enumerate(wanted):
        mean, size = place - k, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean = (mean * size + other * count) / (size + count)
            size += count
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    return [mean + k for k, mean in enumerate(means)]


def _neighbours(
    segments: Sequence[tuple[Waypoint, Waypoint]], *, upwards: bool
) -> dict[Waypoint, list[Waypoint]]:
    near: dict[Waypoint, list[Waypoint]] = {}
    for upper, lower in segments:
        one, other = (lower, upper) if upwards else (upper, lower)
        near.setdefault(one, []).append(other)
    return near


def _crossings(
    rows: Sequence[Sequence[Waypoint]], segments: Sequence[tuple[Waypoint, Waypoint]]
) -> int:
    at = {point: i for row in rows for i, point in enumerate(row)}
    count = 0
    for number in range(len(rows) - 1):
        here = [(at[a], at[b]) for a, b in segments if a[1] == number]
        count += sum(
            (a - c) * (b - d) < 0 for i, (a, b) in enumerate(here) for c, d in here[:i]
        )
    return count


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
