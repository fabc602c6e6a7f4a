"""A program that a page can run: lists of numbers, and what is computed from them.

Nothing in it has a shape. Every tensor is a flat list, and each node makes one list of
others, so that the interpreter (``live.js``) knows a handful of kinds and the functions of
one, two or three numbers:

========================  ==============================================================
``["list", numbers]``     a constant
``["take", a, i]``        the entries of a at the places i: views, copies, broadcasts
``["put", a, i, b]``      a, with b at the places i
``["pour", a, i, b]``     a, with b added at the places i
``["join", a, b…]``       one list after the other
``["fold", f, a, k]``     f over each k entries of a that follow one another: sums, maxima
``["scan", f, a, k]``     the same with all that comes between: running sums
``["sort", a, k, down]``  the places of each k entries of a in their order, equal ones as
                          they come
``[f, a, b…]``            f of each entry; a list of one number goes with all of another
========================  ==============================================================

Letters are numbers of nodes. Nodes 0 and 1 are x and v.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from json import dumps
from typing import Any

import torch
from torch import Tensor

Node = tuple[Any, ...]
V = 1  # its number
#: Kinds of nodes that give integers of which it is known between which numbers they lie.
BOUNDED = {
    *("abs", "add", "floordiv", "fmod", "fold", "join", "max", "min", "mod", "mul", "neg"),
    *("put", "scan", "sub", "take", "trunc", "where"),
}


class Program:
    """Nodes, each after those that it is made of."""

    def __init__(self, *inputs: int) -> None:
        """Begin with inputs of these lengths."""
        self.nodes: list[Node] = [("input",)] * len(inputs)
        self.lengths = list(inputs)
        self.known: dict[Node, int] = {}
        self._bounds: dict[int, tuple[float, float]] = {}

    def add(self, length: int, *node: Any) -> int:
        """Add a node that makes a list of some length, unless it is there."""
        if node not in self.known:
            self.known[node] = len(self.nodes)
            self.nodes.append(node)
            self.lengths.append(length)
        return self.known[node]

    def constant(self, numbers: Sequence[float]) -> int:
        """Return a constant."""
        return self.add(len(numbers), "list", *numbers)

    def each(self, f: str, *nodes: int) -> int:
        """Apply a function to each entry of lists of one length, or of one number."""
        return self.add(max(self.lengths[node] for node in nodes), f, *nodes)

    def take(self, node: int, places: Sequence[int]) -> int:
        """Take the entries at places that are known now."""
        kind, *rest = self.nodes[node]
        if kind == "list":
            return self.constant([rest[i] for i in places])
        if kind == "take" and self.nodes[rest[1]][0] == "list":  # at places of places
            known = self.nodes[rest[1]][1:]
            return self.take(rest[0], [known[i] for i in places])
        if list(places) == list(range(self.lengths[node])):
            return node
        return self.add(len(places), "take", node, self.constant(places))

    def look_up(self, node: int, places: int) -> int:
        """Take the entries at places that may be computed."""
        kind, *known = self.nodes[places]
        if kind == "list":
            return self.take(node, known)
        return self.add(self.lengths[places], "take", node, places)

    def put(self, node: int, places: int, values: int, *, add: bool = False) -> int:
        """Write values at places, or add them to what is there."""
        length = self.lengths[node]
        return self.add(length, "pour" if add else "put", node, places, values)

    def join(self, *nodes: int) -> int:
        """Set lists one after the other."""
        return self.add(sum(self.lengths[node] for node in nodes), "join", *nodes)

    def fold(self, f: str, node: int, k: int) -> int:
        """Apply a function of two numbers to each k entries, from left to right."""
        return self.add(self.lengths[node] // k, "fold", f, node, k) if k > 1 else node

    def scan(self, f: str, node: int, k: int) -> int:
        """Do so, and keep what comes between."""
        return self.add(self.lengths[node], "scan", f, node, k) if k > 1 else node

    def sort(self, node: int, k: int, *, down: bool) -> int:
        """Return the places of each k entries in their order."""
        return self.add(self.lengths[node], "sort", node, k, int(down))

    def spread(self, node: int, length: int) -> int:
        """Repeat a list of one number."""
        if self.lengths[node] == length:
            return node
        return self.take(node, [0] * length)

    def data(self, outputs: Sequence[int], inputs: int = 2) -> dict[str, Any]:
        """Return what the outputs need, as JSON can carry it.

        The first ``still`` nodes, but for v, do not depend on v. It is ``linear`` if what
        depends on v is so by the kinds of its nodes: not where a hook clamps gradients.
        """
        wanted, stack = set(range(inputs)), list(outputs)
        while stack:
            if (node := stack.pop()) not in wanted:
                wanted.add(node)
                stack += self.parts(node)
        order = sorted(wanted)
        number = {node: i for i, node in enumerate(order)}
        return {
            "nodes": [self.written(node, number) for node in order[inputs:]],
            "outputs": [number[node] for node in outputs],
            "still": next(
                (i for i, n in enumerate(order) if V in self.parts(n)), len(order)
            ),
            "linear": self.linear(order),
        }

    def linear(self, order: Sequence[int]) -> bool:
        """Tell whether all nodes that depend on v are multiples of it: twice v, twice each.

        Zeros go with multiples as well as with constants.
        """
        multiples = {V}
        depend = {V}

        def zero(node: int) -> bool:
            kind, *values = self.nodes[node]
            return bool(kind == "list" and not any(values))

        def free(*nodes: int) -> bool:
            return depend.isdisjoint(nodes)

        def all_multiples(*nodes: int) -> bool:
            return all(node in multiples or zero(node) for node in nodes)

        for node in order:
            if free(*(parts := self.parts(node))):
                continue
            depend.add(node)
            match self.nodes[node]:
                case ("fold" | "scan", "add", *_) | ("neg" | "add" | "sub" | "join", *_):
                    fits = all_multiples(*parts)
                case ("take" | "div", a, b):
                    fits = a in multiples and free(b)
                case ("mul", a, b):
                    fits = any(p in multiples and free(q) for p, q in ((a, b), (b, a)))
                case ("put" | "pour", a, i, b):
                    fits = free(i) and all_multiples(a, b)
                case ("where", condition, a, b):
                    fits = free(condition) and all_multiples(a, b)
                case _:
                    fits = False
            if not fits:
                return False
            multiples.add(node)
        return True

    def bounds(self, node: int) -> tuple[float, float]:
        """Return between which numbers those of a list of integers lie, NaN apart."""
        if node not in self._bounds:  # it may be a part of many, and twice of one
            self._bounds[node] = self._bounds_of(node)
        return self._bounds[node]

    def _bounds_of(self, node: int) -> tuple[float, float]:
        kind, *rest = self.nodes[node]
        if kind == "list":
            return min(rest, default=0), max(rest, default=0)
        if kind in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "isnan"):
            return 0, 1
        if kind == "sort":
            return 0, self.lengths[node] - 1
        if kind == "sign":
            return -1, 1
        if kind not in BOUNDED:
            return -math.inf, math.inf
        chosen = rest[:1] if kind == "take" else rest[1:] if kind == "where" else rest
        chosen = rest[::2] if kind == "put" else chosen
        f, count = kind, 1
        if kind in ("fold", "scan"):
            f, (chosen, count) = rest[0], (rest[1:2], rest[2])
        found = [self.bounds(part) for part in chosen]
        (a, b), (c, d) = found[0], found[-1]
        match f:
            case "add" if kind == f:
                return a + c, b + d
            case "add":
                return min(a, count * a), max(b, count * b)
            case "sub":
                return a - d, b - c
            case "neg":
                return -b, -a
            case "mul" if kind == f:
                corners = [p * q if p and q else 0 for p in (a, b) for q in (c, d)]
                return min(corners), max(corners)
            case "mul":
                most = max(-a, b, 1) ** count
                return -most, most
            case "max" | "min" if kind == f:
                choose = max if f == "max" else min
                return choose(a, c), choose(b, d)
            case "mod":
                return min(c, 0), max(d, 0)
            case "abs" | "floordiv" | "fmod" | "trunc":
                return -max(-a, b), max(-a, b)
        lows, highs = zip(*found, strict=True)
        return min(lows), max(highs)

    def parts(self, node: int) -> list[int]:
        """Return the nodes that a node is made of."""
        kind, *rest = self.nodes[node]
        if kind in ("list", "input"):
            return []
        return {"fold": rest[1:2], "scan": rest[1:2], "sort": rest[:1]}.get(kind, rest)

    def written(self, node: int, number: dict[int, int]) -> list[Any]:
        """Return a node with the numbers that its parts have in the end."""
        kind, *rest = self.nodes[node]
        if kind == "list":
            return [kind, [carried(value) for value in rest]]
        if kind in ("fold", "scan"):
            return [kind, rest[0], number[rest[1]], rest[2]]
        if kind == "sort":
            return [kind, number[rest[0]], *rest[1:]]
        return [kind, *[number[part] for part in rest]]


def carried(value: float) -> float | int | str:
    """Return what JSON can carry and JavaScript's Number() reads."""
    if value != value:
        return "NaN"
    if value in (float("inf"), -float("inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def weight(data: Any) -> int:
    """Return how many bytes of a page data take, compressed as pages are sent."""
    return len(zlib.compress(dumps(data, separators=(",", ":")).encode(), 9))


def places(t: Tensor) -> list[int]:
    """Return where in its storage each element of t lies."""
    everything = torch.arange(extent(t), device="cpu")
    where: list[int] = (
        everything.as_strided(t.shape, t.stride(), t.storage_offset()).flatten().tolist()
    )
    return where


def extent(t: Tensor) -> int:
    """Return how many elements the storage of t holds."""
    return t.untyped_storage().nbytes() // t.dtype.itemsize
